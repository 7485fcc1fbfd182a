//! What private database servers of all kinds have in common: the user that they run as, and a running instance.

use std::{
    env, fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::{
    process::Process,
    scratch::{Role, Scratch},
};

/// A user of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
}

/// Whom a database server runs as: another user when this process is root, since servers refuse to be root, and a study should not
/// give a program under test more rights than it needs; else this process's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account(Option<User>);

impl Account {
    /// The user `name` where a server package made that user, else `nobody`.
    ///
    /// # Errors
    /// This process is root, and the machine has neither.
    pub fn find(name: &str) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self(None));
        }
        let user = user_of(name).or_else(|| user_of("nobody"));
        let user = user.with_context(|| {
            format!("neither a user {name} nor a user nobody on this machine, to run the database as")
        })?;
        Ok(Self(Some(user)))
    }

    /// The user, where it is another than this process's own.
    pub fn user(self) -> Option<User> {
        self.0
    }

    /// A command that runs `program` as this user.
    pub fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Some(user) = self.0 {
            command.uid(user.uid).gid(user.gid);
        }
        // Where the server is started from may be out of reach for its user.
        command.current_dir("/");
        command
    }

    /// Makes a directory that belongs to the user.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make_dir(self, path: &Path) -> Result<()> {
        fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
        self.give(path)
    }

    /// Gives a file or device to the user.
    ///
    /// # Errors
    /// When that is not allowed.
    pub fn give(self, path: &Path) -> Result<()> {
        if let Some(user) = self.0 {
            std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid))
                .with_context(|| format!("giving {} to the database's user", path.display()))?;
        }
        Ok(())
    }
}

fn user_of(name: &str) -> Option<User> {
    let passwd = fs::read_to_string("/etc/passwd").ok()?;
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.first() == Some(&name)).then_some(())?;
        Some(User { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? })
    })
}

/// Directories with programs. Servers are in `sbin`, which the path of a plain user lacks.
pub fn search_path() -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> =
        env::var_os("PATH").map(|p| env::split_paths(&p).collect()).unwrap_or_default();
    dirs.extend(["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"].map(PathBuf::from));
    dirs
}

/// How to start a server.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    /// For messages: name and version.
    pub title: &'a str,
    /// The server with its options; it ends when this process ends.
    pub command: Command,
    /// Where clients will connect.
    pub socket: PathBuf,
    /// Where it writes its messages.
    pub log: PathBuf,
    /// What makes it shut down cleanly, with clients connected.
    pub stop: Signal,
}

/// A System V shared memory segment that a server leaves behind when it is killed. Dropped, it is removed, if it is there still.
#[derive(Debug)]
pub(crate) struct SharedMemory(pub u32);

impl Drop for SharedMemory {
    fn drop(&mut self) {
        let _ = Command::new("ipcrm").arg("-m").arg(self.0.to_string()).output();
    }
}

/// A running server. Dropped, it is killed.
#[derive(Debug)]
pub struct Instance {
    process: Process,
    socket: PathBuf,
    stop: Signal,
    /// Goes after the process.
    _memory: Option<SharedMemory>,
}

impl Instance {
    /// Starts a server and waits until it answers, which includes its crash recovery.
    ///
    /// # Errors
    /// When it ends or does not answer within `patience`, with the end of its log.
    pub(crate) fn start(
        scratch: &Scratch,
        launch: Launch<'_>,
        patience: Duration,
        answers: impl Fn(&Path) -> bool,
    ) -> Result<Self> {
        let Launch { title, command, socket, log, stop } = launch;
        let process = Process::start(scratch, Role::Client, title, command, &log, None)?;
        let mut instance = Self { process, socket, stop, _memory: None };
        let socket = instance.socket.clone();
        instance.process.wait_until(patience, || answers(&socket))?;
        Ok(instance)
    }

    /// What it would leave behind in the machine when it is killed.
    pub(crate) fn owns(&mut self, memory: Option<SharedMemory>) {
        self._memory = memory;
    }

    /// Where clients connect: a Unix socket, or the directory that it is in, as the client of this server wants it.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// # Errors
    /// When it has died, with the end of its error log.
    pub fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    /// Shuts down cleanly.
    ///
    /// # Errors
    /// When it does not within five minutes.
    pub fn stop(self) -> Result<()> {
        self.process.stop_by(self.stop, Duration::from_secs(300))
    }

    /// Kills it at once, with all its processes.
    pub fn kill(self) {
        self.process.kill();
    }
}
