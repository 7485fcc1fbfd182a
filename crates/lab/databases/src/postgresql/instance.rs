//! Installing, starting and checking an instance.

use std::{
    fmt, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use postgres::{Client, Config, NoTls};
use rustix::process::Signal;

use super::{
    pages::PAGE,
    server::{PACKAGE, Server, path_with},
};
use crate::{
    database::{Instance, Launch, SharedMemory},
    process::{run, run_long},
    scratch::Scratch,
};
use lab_report::control::Cancel;

/// The database's superuser, as whom clients connect without password.
pub const SUPERUSER: &str = "postgres";
/// The server listens on no TCP port; the number is a part of the socket's name.
const PORT: u16 = 5432;

/// What is where.
#[derive(Clone, Debug)]
pub struct Files {
    /// The data directory.
    pub data: PathBuf,
    /// The directory of the write-ahead log, where it is not in the data directory.
    pub wal: Option<PathBuf>,
}

impl Files {
    /// Leads the data directory to the log of a stopped instance. The link that was made with it names a path that another mount need
    /// not have.
    ///
    /// # Errors
    /// When the link cannot be replaced.
    pub fn link_wal(&self) -> Result<()> {
        let Some(wal) = &self.wal else { return Ok(()) };
        let link = self.data.join("pg_wal");
        fs::remove_file(&link)
            .and_then(|()| symlink(wal, &link))
            .with_context(|| format!("making {} a link to {}", link.display(), wal.display()))
    }
}

/// `wal_sync_method`: how the log gets to the drive at a commit.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum WalSync {
    /// `fdatasync()`, as by default on Linux.
    #[default]
    Fdatasync,
    /// `fsync()`.
    Fsync,
    /// The log is opened with `O_DSYNC`.
    OpenDatasync,
    /// The log is opened with `O_SYNC`.
    OpenSync,
}

impl fmt::Display for WalSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fdatasync => "fdatasync",
            Self::Fsync => "fsync",
            Self::OpenDatasync => "open_datasync",
            Self::OpenSync => "open_sync",
        })
    }
}

/// Settings that differ between studies.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// `shared_buffers`, in MiB.
    pub shared_buffers_mib: u64,
    /// `max_wal_size`, in MiB: the log that makes a checkpoint begin; 32 or more.
    pub max_wal_mib: u64,
    /// `full_page_writes`: the log has each page whole that changes for the first time after a checkpoint.
    pub full_page_writes: bool,
    /// Pages have checksums. It is decided when the database is made.
    pub checksums: bool,
    /// `wal_sync_method`.
    pub wal_sync: WalSync,
    /// Further settings with their values.
    pub extra: Vec<(String, String)>,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            shared_buffers_mib: 128,
            max_wal_mib: 256,
            full_page_writes: true,
            checksums: true,
            wal_sync: WalSync::default(),
            extra: Vec::new(),
        }
    }
}

/// Makes a fresh database with the superuser [`SUPERUSER`], and the log where `files` wants it.
///
/// # Errors
/// When the directories cannot be made, `initdb` fails, the server is not built with pages of 8 KiB, or the work is to end.
pub fn install(server: &Server, files: &Files, tuning: &Tuning, cancel: &Cancel) -> Result<()> {
    server.account.make_dir(&files.data)?;
    let mut command = server.command("initdb");
    command.args(["--no-locale", "--encoding=UTF8", "--auth=trust", "--no-sync", "--no-instructions"]);
    command.args(["--username", SUPERUSER]);
    // By default since version 18.
    match tuning.checksums {
        true => _ = command.arg("--data-checksums"),
        false if server.major >= 18 => _ = command.arg("--no-data-checksums"),
        false => {}
    }
    if let Some(wal) = &files.wal {
        server.account.make_dir(wal)?;
        command.arg("--waldir").arg(wal);
    }
    run_long(command.arg("--pgdata").arg(&files.data), PACKAGE, cancel)
        .with_context(|| format!("installing a database of {} in {}", server.title, files.data.display()))?;
    let mut ask = server.command("postgres");
    let page = run(ask.arg("-D").arg(&files.data).args(["-C", "block_size"]), PACKAGE)?;
    ensure!(
        page.trim() == PAGE.to_string(),
        "{} is built with pages of {} bytes; the studies know those of {PAGE}",
        server.title,
        page.trim()
    );
    Ok(())
}

/// Starts the server and waits until it answers, which includes its crash recovery. Socket and log are in the scratch directory, not
/// on the drive under test; `name` tells several instances of a run apart.
///
/// # Errors
/// When it ends or does not answer within `patience`, with the end of its log.
pub fn start(
    scratch: &Scratch,
    server: &Server,
    files: &Files,
    tuning: &Tuning,
    name: &str,
    patience: Duration,
) -> Result<Instance> {
    let directory = scratch.path().join(name);
    server.account.make_dir(&directory)?;
    let mut command = server.command("postgres");
    command.arg("-D").arg(&files.data);
    let settings = [
        ("listen_addresses", String::new()),
        ("unix_socket_directories", directory.display().to_string()),
        ("port", PORT.to_string()),
        ("max_connections", "200".into()),
        ("shared_buffers", format!("{}MB", tuning.shared_buffers_mib)),
        ("min_wal_size", "32MB".into()),
        ("max_wal_size", format!("{}MB", tuning.max_wal_mib)),
        ("full_page_writes", if tuning.full_page_writes { "on" } else { "off" }.into()),
        ("wal_sync_method", tuning.wal_sync.to_string()),
        // A killed server leaves what it shared in the data directory, and not in the machine.
        ("dynamic_shared_memory_type", "mmap".into()),
        ("logging_collector", "off".into()),
    ];
    let extra = tuning.extra.iter().map(|(name, value)| (name.as_str(), value.clone()));
    for (name, value) in settings.into_iter().chain(extra) {
        command.arg("-c").arg(format!("{name}={value}"));
    }
    let log = directory.join("error.log");
    // SIGTERM waits for the clients; SIGINT sends them away.
    let launch = Launch { title: &server.title, command, socket: directory, log, stop: Signal::INT };
    // A client that comes too early leaves a line in the log each time.
    let file = files.data.join("postmaster.pid");
    let status = || fs::read_to_string(&file).unwrap_or_default();
    let mut instance = Instance::start(scratch, launch, patience, |socket| {
        says_ready(&status()) && connect(socket, SUPERUSER).is_ok()
    })?;
    instance.owns(shared_memory(&status()));
    Ok(instance)
}

/// Whether the server's status file, `postmaster.pid`, says that it takes connections: in the last of its lines, as `pg_ctl` reads it.
fn says_ready(status: &str) -> bool {
    status.lines().nth(7).is_some_and(|line| line.trim() == "ready")
}

/// The segment that the server's status file names, behind its key.
fn shared_memory(status: &str) -> Option<SharedMemory> {
    status.lines().nth(6)?.split_whitespace().nth(1)?.parse().ok().map(SharedMemory)
}

/// Connects as the superuser to a database of the private server whose socket is in the directory `socket`.
///
/// # Errors
/// When nobody answers there, or there is no such database.
pub fn connect(socket: &Path, database: &str) -> Result<Client> {
    let mut config = Config::new();
    // What the server notes on the way, such as that another client is sent away, is in its own log.
    config.host_path(socket).port(PORT).user(SUPERUSER).dbname(database).notice_callback(|_| {});
    config.connect(NoTls).with_context(|| format!("connecting to PostgreSQL at {}", socket.display()))
}

/// Gives a command what PostgreSQL's clients need to find a server: `PGHOST`, `PGPORT`, `PGUSER` and `PGDATABASE`, and the server's own
/// programs first in the search path.
pub fn client_environment(command: &mut Command, server: &Server, socket: &Path, database: &str) {
    command
        .env("PATH", path_with(&server.programs))
        .env("PGHOST", socket)
        .env("PGPORT", PORT.to_string())
        .env("PGUSER", SUPERUSER)
        .env("PGDATABASE", database);
}

/// What a server has written to its log since it was installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalCounts {
    /// Bytes.
    pub bytes: u64,
    /// Whole pages in it.
    pub full_pages: u64,
    /// Checkpoints, by time and by request.
    pub checkpoints: u64,
}

impl WalCounts {
    /// What was added since an earlier count.
    pub fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(before.bytes),
            full_pages: self.full_pages.saturating_sub(before.full_pages),
            checkpoints: self.checkpoints.saturating_sub(before.checkpoints),
        }
    }
}

/// Asks a running server what it has written to its log. Its own statistics lag by up to a second.
///
/// # Errors
/// When it does not answer.
pub fn count_wal(server: &Server, socket: &Path) -> Result<WalCounts> {
    let checkpoints = if server.major >= 17 {
        "(SELECT num_timed + num_requested FROM pg_stat_checkpointer)"
    } else {
        "(SELECT checkpoints_timed + checkpoints_req FROM pg_stat_bgwriter)"
    };
    let sql = format!(
        "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint, (SELECT wal_fpi FROM pg_stat_wal), {checkpoints}"
    );
    let row =
        connect(socket, SUPERUSER)?.query_one(&sql, &[]).context("asking PostgreSQL for its counters")?;
    let number = |column: usize| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
    Ok(WalCounts { bytes: number(0), full_pages: number(1), checkpoints: number(2) })
}

/// Checks the checksum of every page of a cleanly stopped instance with `pg_checksums`.
///
/// # Errors
/// Quotes what it found.
pub fn check_pages(server: &Server, files: &Files) -> Result<()> {
    let mut command = server.command("pg_checksums");
    run(command.arg("--check").arg("--pgdata").arg(&files.data), PACKAGE).context("checking all pages")?;
    Ok(())
}

/// Checks the tables and indexes of a database of a running server with `pg_amcheck`: every index, every row, and whether each row of a
/// table is in its indexes.
///
/// # Errors
/// Quotes what it found.
pub fn amcheck(server: &Server, socket: &Path, database: &str) -> Result<()> {
    let mut command = server.command("pg_amcheck");
    client_environment(&mut command, server, socket, database);
    command.args(["--install-missing", "--heapallindexed", "--rootdescend", "--parent-check", database]);
    // What it finds is on its standard output, and warnings of the server are beside it.
    let output = command.stdin(Stdio::null()).output().context("running pg_amcheck")?;
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).trim().to_owned());
    if output.status.success() { Ok(()) } else { bail!("pg_amcheck: {}", said.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_server_is_read() {
        let lines = ["99", "/data", "1764126000", "5432", "/sockets", "", " 10019547    327691"].join("\n");
        assert!(!says_ready(&format!("{lines}\nstarting\n")) && says_ready(&format!("{lines}\nready   \n")));
        // It is not this test's segment, and stays.
        assert_eq!(
            shared_memory(&lines).map(std::mem::ManuallyDrop::new).map(|memory| memory.0),
            Some(327_691)
        );
        assert!(shared_memory("99\n").is_none());
    }
}
