//! Databases that acknowledge rows: how each is made, started, written to and read.

use super::drive::HANG_TIMEOUT;
use super::innodb_log;
use super::scene::{command, run};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    SqliteWal,
    SqliteRollback,
    PostgreSql,
    MariaDb,
    RocksDb,
}

/// A row: its key and what it holds.
pub type Row = (u64, String);

/// How MariaDB's files are: small, so that few bytes are written to make them and the log comes round often.
const MARIADB_FILES: [&str; 3] = [
    "--innodb-log-file-size=4M",
    "--innodb-undo-tablespaces=0",
    "--innodb-data-file-path=ibdata1:12M:autoextend",
];

const TABLE: &str = "CREATE TABLE rows (id BIGINT PRIMARY KEY, body TEXT);";

/// A database with as many parts as there are sessions: nobody writes to the part of another.
pub struct Database {
    engine: Engine,
    /// On the drive.
    dir: PathBuf,
    scene: PathBuf,
    server: Option<Child>,
}

/// One that writes: a transaction is sent as a line or more, and a line comes back when it is committed.
pub struct Session {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// PostgreSQL does not run as root; this is nobody. MariaDB runs as the same user.
const USER: u32 = 65534;

impl Database {
    pub fn new(engine: Engine, dir: &Path, scene: &Path) -> Self {
        Database { engine, dir: dir.join("database"), scene: scene.to_owned(), server: None }
    }

    /// What must be there before the first session; once in a campaign.
    pub fn prepare(&self) -> Result<(), String> {
        if self.engine != Engine::RocksDb {
            return Ok(());
        }
        let source = self.scene.join("rows.cc");
        std::fs::write(&source, include_str!("rows.cc")).unwrap();
        let mut compile = command(&self.scene, "c++");
        compile.args(["-std=c++17", "-O1", "-o"]).arg(self.scene.join("rows")).arg(source).arg("-lrocksdb");
        run(&mut compile).map(drop)
    }

    /// Makes it anew.
    pub fn create(&mut self, sessions: u64) -> Result<(), String> {
        std::fs::create_dir_all(&self.dir).map_err(|error| error.to_string())?;
        match self.engine {
            Engine::SqliteWal | Engine::SqliteRollback => {
                let mode = if self.engine == Engine::SqliteWal { "WAL" } else { "DELETE" };
                for session in 0..sessions {
                    let statements = format!("PRAGMA journal_mode={mode}; {TABLE}");
                    run(command(&self.scene, "sqlite3").arg(self.file(session)).arg(statements))?;
                }
            }
            Engine::PostgreSql | Engine::MariaDb => {
                std::os::unix::fs::chown(&self.dir, Some(USER), Some(USER)).unwrap();
                std::fs::set_permissions(&self.dir, std::os::unix::fs::PermissionsExt::from_mode(0o700))
                    .unwrap();
                let sockets = self.sockets();
                std::fs::create_dir_all(&sockets).unwrap();
                std::os::unix::fs::chown(&sockets, Some(USER), Some(USER)).unwrap();
                run(&mut self.install()?)?;
                self.start()?;
                for session in 0..sessions {
                    self.ask(&TABLE.replace("rows", &format!("rows{session}")))?;
                }
                self.stop()?;
            }
            Engine::RocksDb => {}
        }
        run(command(&self.scene, "sync").arg("-f").arg(&self.dir)).map(drop)
    }

    fn file(&self, session: u64) -> PathBuf {
        self.dir.join(format!("rows{session}"))
    }

    fn sockets(&self) -> PathBuf {
        self.scene.join("sockets")
    }

    /// A program of the server, as another user than root.
    fn program(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = command(&self.scene, program);
        command.current_dir(&self.scene).uid(USER).gid(USER);
        command
    }

    /// A program of PostgreSQL, which Debian keeps out of the PATH.
    fn postgres(&self, program: &str) -> Result<Command, String> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> =
            versions.map(|version| version.path().join("bin").join(program)).collect();
        found.retain(|program| program.is_file());
        found.sort();
        let program =
            found.pop().ok_or_else(|| format!("{program} is not installed (scripts/setup-debian.sh)"))?;
        Ok(self.program(program))
    }

    /// What makes the server's own tables.
    fn install(&self) -> Result<Command, String> {
        if self.engine == Engine::PostgreSql {
            let mut init = self.postgres("initdb")?;
            init.args(["-U", "rows", "-A", "trust", "--no-locale", "-E", "UTF8", "-N", "-D"]).arg(&self.dir);
            return Ok(init);
        }
        let mut install = self.program("mariadb-install-db");
        install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        install.arg(self.data()).args(MARIADB_FILES);
        Ok(install)
    }

    fn data(&self) -> String {
        format!("--datadir={}", self.dir.display())
    }

    /// The server. Small buffers and logs make it write to its tables, too.
    fn server(&self) -> Result<Command, String> {
        if self.engine == Engine::PostgreSql {
            let mut server = self.postgres("postgres")?;
            server.arg("-D").arg(&self.dir).arg("-k").arg(self.sockets());
            for setting in [
                "listen_addresses=",
                "shared_buffers=4MB",
                "max_wal_size=48MB",
                "min_wal_size=32MB",
                "checkpoint_timeout=30s",
                "recovery_init_sync_method=syncfs",
            ] {
                server.args(["-c", setting]);
            }
            return Ok(server);
        }
        let mut server = self.program("mariadbd");
        server.arg("--no-defaults").arg(self.data()).args(MARIADB_FILES);
        server.arg(format!("--socket={}", self.socket())).args([
            "--skip-networking",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--performance-schema=OFF",
            "--innodb-buffer-pool-size=6M",
            "--innodb-max-dirty-pages-pct=10",
            "--innodb-max-dirty-pages-pct-lwm=1",
            "--innodb-flush-log-at-trx-commit=1",
            "--innodb-buffer-pool-dump-at-shutdown=OFF",
            "--innodb-buffer-pool-load-at-startup=OFF",
        ]);
        Ok(server)
    }

    /// Where MariaDB listens. The path of a socket must be short.
    fn socket(&self) -> String {
        self.sockets().join("mariadb").display().to_string()
    }

    /// The client, which takes statements from its input.
    fn client(&self) -> Command {
        if self.engine == Engine::MariaDb {
            let mut mariadb = command(&self.scene, "mariadb");
            mariadb.args(["--no-defaults", "-B", "-N", "-n", "-r", "-u", "root", "-D", "mysql", "-S"]);
            mariadb.arg(self.socket());
            return mariadb;
        }
        let mut psql = command(&self.scene, "psql");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "rows", "-d", "postgres", "-h"]);
        psql.arg(self.sockets());
        psql
    }

    /// What the server answers to a statement.
    fn ask(&self, statement: &str) -> Result<String, String> {
        let option = if self.engine == Engine::MariaDb { "-e" } else { "-c" };
        run(self.client().args([option, statement]))
    }

    fn has_server(&self) -> bool {
        matches!(self.engine, Engine::PostgreSql | Engine::MariaDb)
    }

    /// Starts the server, if it has one: it recovers.
    pub fn start(&mut self) -> Result<(), String> {
        if !self.has_server() {
            return Ok(());
        }
        let log = std::fs::File::create(self.scene.join("database.log")).unwrap();
        let mut server = self.server()?;
        // A group of its own: one of its processes may outlive the server and keep the file system busy.
        server.process_group(0);
        self.server = Some(server.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        let start = Instant::now();
        loop {
            let ended = self.server.as_mut().unwrap().try_wait().unwrap();
            match self.ask("SELECT 1") {
                Ok(_) => return Ok(()),
                Err(error) if ended.is_some() || start.elapsed() > HANG_TIMEOUT => {
                    let log = std::fs::read_to_string(self.scene.join("database.log")).unwrap_or_default();
                    return Err(format!("the database does not start: {error}\n{log}"));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Whether the recovery that the start began with went wrong by a fault of the database's own.
    pub fn is_at_fault(&self) -> bool {
        let said = std::fs::read_to_string(self.scene.join("database.log")).unwrap_or_default();
        self.engine == Engine::MariaDb
            && innodb_log::goes_on_behind_its_end(&said, &self.dir.join("ib_logfile0"))
    }

    /// Removes all of it.
    pub fn remove(&mut self) -> Result<(), String> {
        self.kill();
        std::fs::remove_dir_all(&self.dir).map_err(|error| error.to_string())
    }

    /// Stops the server in good order.
    pub fn stop(&mut self) -> Result<(), String> {
        let Some(mut server) = self.server.take() else { return Ok(()) };
        let pid = Pid::from_child(&server);
        // PostgreSQL's fast shutdown; MariaDB's only one.
        let signal = if self.engine == Engine::PostgreSql { Signal::INT } else { Signal::TERM };
        kill_process(pid, signal).unwrap();
        server.wait().map(drop).map_err(|error| error.to_string())
    }

    /// The server dies with the machine, and all of its processes.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            let pid = Pid::from_child(&server);
            // PostgreSQL's processes have groups of their own, and some wait for a lock of one that is dead. No more are begun.
            let _ = kill_process(pid, Signal::STOP);
            let children = descendants(pid);
            let _ = kill_process_group(pid, Signal::KILL);
            for child in children {
                let _ = kill_process(child, Signal::KILL);
            }
            let _ = server.wait();
        }
    }

    pub fn session(&self, session: u64) -> Result<Session, String> {
        let mut command = match self.engine {
            Engine::SqliteWal | Engine::SqliteRollback => {
                let mut command = command(&self.scene, "sqlite3");
                command.arg("-bail").arg("-batch").arg(self.file(session));
                command
            }
            Engine::PostgreSql | Engine::MariaDb => self.client(),
            Engine::RocksDb => {
                let mut command = command(&self.scene, self.scene.join("rows"));
                command.arg("write").arg(self.file(session));
                command
            }
        };
        let log = std::fs::File::create(self.scene.join(format!("session{session}.log"))).unwrap();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut session = Session { child, input, output };
        if matches!(self.engine, Engine::SqliteWal | Engine::SqliteRollback) {
            // A rollback journal that is gone is a commit; only this way its directory is synchronised.
            session
                .send("PRAGMA synchronous=EXTRA;\nPRAGMA wal_autocheckpoint=100;\nPRAGMA cache_size=20;\n");
            let _ = session.line();
        }
        Ok(session)
    }

    /// The words for a transaction that writes these rows, new ones or others.
    pub fn transaction(&self, session: u64, rows: &[Row]) -> String {
        if self.engine == Engine::RocksDb {
            let words: Vec<String> = rows.iter().map(|(id, body)| format!("{id} {body}")).collect();
            return words.join(" ") + "\n";
        }
        let table = self.table(session);
        let mut text = "BEGIN;\n".to_owned();
        for (id, body) in rows {
            let conflict = match self.engine {
                Engine::MariaDb => "ON DUPLICATE KEY UPDATE body = VALUES(body)",
                _ => "ON CONFLICT (id) DO UPDATE SET body = excluded.body",
            };
            text += &format!("INSERT INTO {table} VALUES ({id}, '{body}') {conflict};\n");
        }
        text + "COMMIT;\nSELECT 'done';\n"
    }

    fn table(&self, session: u64) -> String {
        if self.has_server() { format!("rows{session}") } else { "rows".into() }
    }

    /// Everything in the part of a session, by key; fails if the database finds itself damaged.
    pub fn rows(&self, session: u64) -> Result<Vec<Row>, String> {
        let all = format!("SELECT id || ' ' || body FROM {} ORDER BY id;", self.table(session));
        let said = match self.engine {
            Engine::SqliteWal | Engine::SqliteRollback => {
                let checked = run(command(&self.scene, "sqlite3")
                    .arg(self.file(session))
                    .arg("PRAGMA integrity_check;"))?;
                if checked.trim() != "ok" {
                    return Err(checked);
                }
                run(command(&self.scene, "sqlite3").arg(self.file(session)).arg(all))?
            }
            Engine::PostgreSql => self.ask(&all)?,
            Engine::MariaDb => {
                let table = self.table(session);
                let checked = self.ask(&format!("CHECK TABLE {table} EXTENDED"))?;
                if !checked.trim().ends_with("status\tOK") {
                    return Err(checked);
                }
                self.ask(&format!("SELECT CONCAT(id, ' ', body) FROM {table} ORDER BY id"))?
            }
            Engine::RocksDb => {
                run(command(&self.scene, self.scene.join("rows")).arg("read").arg(self.file(session)))?
            }
        };
        let row = |line: &str| {
            let (id, body) = line.split_once(' ')?;
            Some((id.parse().ok()?, body.to_owned()))
        };
        said.lines().map(|line| row(line).ok_or_else(|| format!("no row: {line:?}"))).collect()
    }
}

/// The processes that a process has begun, with all that these have.
fn descendants(of: Pid) -> Vec<Pid> {
    let parent = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before may hold anything.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<i32>().ok()
    };
    let numbers = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let all: Vec<(i32, i32)> = numbers.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut found = vec![of.as_raw_nonzero().get()];
    let mut next = 0;
    while let Some(&one) = found.get(next) {
        found.extend(all.iter().filter(|(_, parent)| *parent == one).map(|(pid, _)| *pid));
        next += 1;
    }
    found.into_iter().skip(1).filter_map(Pid::from_raw).collect()
}

impl Drop for Database {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Session {
    fn send(&mut self, text: &str) {
        // What fails shows in the missing answer.
        let _ = self.input.as_mut().unwrap().write_all(text.as_bytes());
    }

    fn line(&mut self) -> bool {
        let mut line = String::new();
        self.output.read_line(&mut line).is_ok_and(|bytes| bytes > 0)
    }

    /// Whether it was acknowledged.
    pub fn commit(&mut self, transaction: &str) -> bool {
        self.send(transaction);
        self.line()
    }
}

/// In good order if it can still be had.
impl Drop for Session {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
