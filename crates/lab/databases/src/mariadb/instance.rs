//! Installing, starting and ending an instance.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use mysql::{Conn, OptsBuilder};
use rustix::process::Signal;

use super::server::{Server, Vendor};
use crate::{
    database::{Instance, Launch},
    process::{run, run_long},
    scratch::Scratch,
};
use lab_report::control::Cancel;

/// Size of the system tablespace. It starts at 12 MiB and stays there. Undo logs and tables have files of their own, and
/// the change buffer is off. So little more than the dictionary's root pages and the doublewrite buffer is in it.
pub const SYSTEM_TABLESPACE_MIB: u64 = 12;

/// Where the system tablespace is, which in MariaDB holds the doublewrite buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemTablespace {
    /// In the data directory.
    BesideData,
    /// In this directory, on another file system. With MySQL it gets the doublewrite files instead.
    In(PathBuf),
    /// On this block device, without a file system.
    Raw(PathBuf),
}

/// What is where.
#[derive(Clone, Debug)]
pub struct Files {
    /// Directory for everything but the system tablespace: tables, redo, undo, binary log, temporary files.
    pub data: PathBuf,
    /// The system tablespace.
    pub system: SystemTablespace,
}

impl Files {
    pub(super) fn tables(&self) -> PathBuf {
        self.data.join("tables")
    }

    fn part(&self, name: &str) -> PathBuf {
        self.data.join(name)
    }

    /// The system tablespace's path when it is in the data directory.
    fn system_beside_data(&self) -> PathBuf {
        self.tables().join("ibdata1")
    }

    /// The system tablespace's path.
    fn system_tablespace(&self, server: &Server) -> PathBuf {
        match &self.system {
            SystemTablespace::In(directory) if !server.has_doublewrite_dir() => directory.join("ibdata1"),
            SystemTablespace::Raw(device) => device.clone(),
            SystemTablespace::BesideData | SystemTablespace::In(_) => self.system_beside_data(),
        }
    }

    /// Moves the system tablespace of a cleanly stopped instance from beside the data to where `self` wants it.
    ///
    /// # Errors
    /// When the copy fails.
    pub fn place_system_tablespace(&self, server: &Server) -> Result<()> {
        let source = self.system_beside_data();
        match &self.system {
            SystemTablespace::BesideData => Ok(()),
            // Preparation made no doublewrite files (see `install`): the server makes them there.
            SystemTablespace::In(directory) if server.has_doublewrite_dir() => server.give(directory),
            SystemTablespace::In(directory) => {
                let target = directory.join("ibdata1");
                fs::copy(&source, &target)
                    .with_context(|| format!("copying {} to {}", source.display(), target.display()))?;
                server.give(&target)?;
                fs::remove_file(&source).with_context(|| format!("removing {}", source.display()))
            }
            SystemTablespace::Raw(_) if server.has_doublewrite_dir() => bail!(
                "{} keeps its doublewrite buffer in files: give the namespace a file system (ext4) in the layout",
                server.title
            ),
            SystemTablespace::Raw(device) => {
                let mut from =
                    fs::File::open(&source).with_context(|| format!("opening {}", source.display()))?;
                let to = fs::File::options().write(true).open(device);
                let mut to = to.with_context(|| format!("opening {}", device.display()))?;
                std::io::copy(&mut from, &mut to)
                    .and_then(|_| to.sync_all())
                    .with_context(|| format!("copying {} to {}", source.display(), device.display()))?;
                server.give(device)?;
                fs::remove_file(&source).with_context(|| format!("removing {}", source.display()))
            }
        }
    }
}

/// Settings that differ between studies.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Buffer pool, in MiB.
    pub buffer_pool_mib: u64,
    /// Redo log, in MiB.
    pub redo_mib: u64,
    /// `innodb_io_capacity`: pages per second the page cleaner may write.
    pub io_capacity: u32,
    /// `innodb_doublewrite`.
    pub doublewrite: bool,
    /// Write and sync a binary log (`sync_binlog=1`).
    pub binlog: bool,
    /// Further options, each `--name=value`.
    pub extra: Vec<String>,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            buffer_pool_mib: 128,
            redo_mib: 256,
            io_capacity: 10_000,
            doublewrite: true,
            binlog: true,
            extra: Vec::new(),
        }
    }
}

/// The options that decide where InnoDB's files are and how they are written. Every path is absolute, so that variants
/// differ in nothing but the place.
fn storage_options(server: &Server, files: &Files, tuning: &Tuning) -> Vec<String> {
    let mut options = vec![
        format!("--datadir={}", files.tables().display()),
        format!("--tmpdir={}", files.part("tmp").display()),
        "--innodb-data-home-dir=".into(),
        format!("--innodb-temp-data-file-path={}:12M:autoextend", files.part("tmp").join("ibtmp1").display()),
        format!("--innodb-log-group-home-dir={}", files.part("redo").display()),
        format!("--innodb-undo-directory={}", files.part("undo").display()),
        format!("--innodb-doublewrite={}", if tuning.doublewrite { "ON" } else { "OFF" }),
        format!("--innodb-buffer-pool-size={}M", tuning.buffer_pool_mib),
        "--innodb-change-buffering=none".into(),
        "--innodb-flush-method=O_DIRECT".into(),
        "--innodb-flush-neighbors=0".into(),
    ];
    let system = files.system_tablespace(server);
    let kind = if matches!(files.system, SystemTablespace::Raw(_)) { "raw" } else { ":autoextend" };
    options.push(format!("--innodb-data-file-path={}:{SYSTEM_TABLESPACE_MIB}M{kind}", system.display()));
    match server.vendor {
        Vendor::MariaDb => {
            options.push(format!("--innodb-log-file-size={}M", tuning.redo_mib));
            options.push("--innodb-undo-tablespaces=3".into());
        }
        Vendor::MySql if server.version >= (8, 0, 30) => {
            options.push(format!("--innodb-redo-log-capacity={}M", tuning.redo_mib));
        }
        Vendor::MySql => options.push(format!("--innodb-log-file-size={}M", tuning.redo_mib / 2)),
    }
    if server.vendor == Vendor::MySql {
        // The directory that it was built with need not exist, and then it does not start.
        options.push("--secure-file-priv=NULL".into());
    }
    if let SystemTablespace::In(directory) = &files.system
        && server.has_doublewrite_dir()
    {
        options.push(format!("--innodb-doublewrite-dir={}", directory.display()));
    }
    options
}

/// Makes the directories and a fresh database without users but a local root, with the system tablespace beside the data
/// (see [`Files::place_system_tablespace`]).
///
/// # Errors
/// When the directories cannot be made, the server's installation fails, or the work is to end.
pub fn install(server: &Server, files: &Files, tuning: &Tuning, cancel: &Cancel) -> Result<()> {
    for name in ["tables", "redo", "undo", "binlog", "tmp"] {
        server.make_dir(&files.part(name))?;
    }
    let beside = Files { data: files.data.clone(), system: SystemTablespace::BesideData };
    let options = storage_options(server, &beside, tuning);
    let mut command = match server.vendor {
        Vendor::MariaDb => {
            let installer = server.installer()?;
            let mut command = server.command(&installer);
            command.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
            if let Some(base) = server.path.parent().and_then(Path::parent)
                && base != Path::new("/usr")
                && base != Path::new("/")
            {
                command.arg(format!("--basedir={}", base.display()));
            }
            command
        }
        Vendor::MySql => {
            let mut command = server.command(&server.path);
            command.args(["--no-defaults", "--initialize-insecure"]);
            command
        }
    };
    run_long(command.args(options), "mariadb-server-core mariadb-client-core", cancel)
        .with_context(|| format!("installing a database of {} in {}", server.title, files.data.display()))?;
    Ok(())
}

/// Starts the server and waits until it answers, which includes its crash recovery. Socket and error log are in the
/// scratch directory, not on the drive under test; `name` tells several instances of a run apart.
///
/// # Errors
/// When it ends or does not answer within `patience`, with the end of its error log.
pub fn start(
    scratch: &Scratch,
    server: &Server,
    files: &Files,
    tuning: &Tuning,
    name: &str,
    patience: Duration,
) -> Result<Instance> {
    let directory = scratch.path().join(name);
    server.make_dir(&directory)?;
    let socket = directory.join("sock");
    let log = directory.join("error.log");
    let mut command = server.command(&server.path);
    command.arg("--no-defaults").args(storage_options(server, files, tuning)).args([
        format!("--socket={}", socket.display()),
        format!("--pid-file={}", directory.join("pid").display()),
        format!("--innodb-io-capacity={}", tuning.io_capacity),
        format!("--innodb-io-capacity-max={}", u64::from(tuning.io_capacity) * 2),
        "--skip-networking".into(),
        "--skip-name-resolve".into(),
        "--performance-schema=OFF".into(),
        "--local-infile=ON".into(),
        "--innodb-read-io-threads=8".into(),
        "--innodb-write-io-threads=16".into(),
        "--innodb-flush-log-at-trx-commit=1".into(),
        "--innodb-buffer-pool-dump-at-shutdown=OFF".into(),
        "--innodb-buffer-pool-load-at-startup=OFF".into(),
        // More than the TPC-C driver prepares with the most connections that a study offers.
        "--max-prepared-stmt-count=200000".into(),
    ]);
    if tuning.binlog {
        command.arg(format!("--log-bin={}", files.part("binlog").join("log").display()));
        command.args(["--server-id=1", "--sync-binlog=1", "--binlog-format=ROW"]);
    } else {
        command.arg("--skip-log-bin");
    }
    command.args(&tuning.extra);
    let launch = Launch { title: &server.title, command, socket, log, stop: Signal::TERM };
    Instance::start(scratch, launch, patience, |socket| connect(socket, "").is_ok())
}

/// Connects as root, without password, to the private server at `socket`.
///
/// # Errors
/// When nobody answers there.
pub fn connect(socket: &Path, database: &str) -> Result<Conn> {
    let path = socket.to_string_lossy().into_owned();
    let database = (!database.is_empty()).then(|| database.to_owned());
    let options = OptsBuilder::new()
        .socket(Some(path))
        .user(Some("root"))
        .db_name(database)
        .prefer_socket(true)
        .stmt_cache_size(0);
    Conn::new(options).with_context(|| format!("connecting to the database at {}", socket.display()))
}

/// Checks the page checksums of every InnoDB file of a stopped instance with `innochecksum`.
///
/// # Errors
/// Names the files that hold a bad page.
pub fn check_pages(server: &Server, files: &Files) -> Result<()> {
    let mut bad = Vec::new();
    let program = server.companion("innochecksum");
    let mut check = |path: &Path, range: &[&str]| {
        let mut command = Command::new(&program);
        match run(command.args(range).arg(path), "mariadb-server-core") {
            Ok(_) => Ok(()),
            Err(error) if error.to_string().contains("not installed") => Err(error),
            Err(error) => {
                bad.push(format!("{}: {error}", path.display()));
                Ok(())
            }
        }
    };
    for path in tablespaces(&files.tables())? {
        check(&path, &[])?;
    }
    let system = files.system_tablespace(server);
    if server.has_doublewrite_dir() {
        check(&system, &[])?;
    } else {
        // Pages 64 to 191 are the doublewrite buffer: copies of other files' pages, and a torn copy is as it should be.
        check(&system, &["-e", "63"])?;
        check(&system, &["-s", "192"])?;
    }
    if bad.is_empty() { Ok(()) } else { bail!("pages with bad checksums: {}", bad.join("; ")) }
}

fn tablespaces(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(tablespaces(&path)?);
        } else if path.extension().is_some_and(|e| e == "ibd") {
            found.push(path);
        }
    }
    Ok(found)
}
