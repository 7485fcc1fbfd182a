//! The drive under test: the real program, which is killed and started again on the same image.

use super::Options;
use super::scene::command;
use super::stamp::Random;
use host::{Host, Identity, SocketTransport};
use nvme::admin::{FaultInjection, PowerCut};
use rustix::fs::OFlags;
use std::fs::{DirEntry, File, OpenOptions, read_to_string};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// The host that the campaigns connect as.
pub const HOST_NQN: &str = "nqn.2026-11.io.tranche:crashes";
/// Limits are there to end a failing campaign, not to measure.
pub const HANG_TIMEOUT: Duration = Duration::from_secs(120);

/// What is served, and how.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    pub toml: String,
    pub key: bool,
    pub no_host_sync: bool,
    pub fuse: bool,
    pub tcp: bool,
}

#[derive(Debug)]
pub struct Drive {
    setup: Setup,
    program: PathBuf,
    dir: PathBuf,
    /// None while there is no power in the machine.
    child: Option<Child>,
    ready: String,
}

impl Drive {
    /// Starts a drive whose image is in `dir`.
    pub fn new(setup: Setup, dir: &Path, options: &Options) -> Result<Self, String> {
        std::fs::create_dir_all(dir.join("files")).unwrap();
        std::fs::write(dir.join("drive.toml"), &setup.toml).unwrap();
        if setup.key {
            let made = command(dir, &options.program).args(["key", "drive"]).output().unwrap();
            assert!(made.status.success());
            std::fs::write(dir.join("drive.key"), made.stdout).unwrap();
        }
        let program = options.program.clone();
        let mut drive = Drive { setup, program, dir: dir.to_owned(), child: None, ready: String::new() };
        drive.start()?;
        Ok(drive)
    }

    fn spawn(&self) -> Child {
        let mut serve = command(&self.dir, &self.program);
        // Paths in it are relative, as that of a socket must be short.
        serve.current_dir(&self.dir).args([
            "serve",
            "--drive",
            "drive.toml",
            "--image",
            "image",
            "--unix",
            "socket",
        ]);
        if self.setup.key {
            serve.args(["--drive-key", "drive.key"]);
        }
        if self.setup.no_host_sync {
            serve.arg("--no-host-sync");
        }
        if self.setup.fuse {
            serve.args(["--fuse", "files", "--loop"]);
        }
        if self.setup.tcp {
            serve.args(["--tcp", "127.0.0.1:0"]);
        }
        let log = File::create(self.dir.join("drive.log")).unwrap();
        serve.stdout(Stdio::piped()).stderr(log).spawn().unwrap()
    }

    /// Starts it and waits until it is ready.
    pub fn start(&mut self) -> Result<(), String> {
        assert!(self.child.is_none());
        let mut child = self.spawn();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        self.child = Some(child);
        self.ready = ready;
        match self.ready.starts_with("ready") {
            true => Ok(()),
            false => Err(format!("the drive does not start: {}", self.log())),
        }
    }

    /// Starts it and kills it so long after that.
    pub fn start_in_vain(&mut self, after: Duration) {
        assert!(self.child.is_none());
        self.child = Some(self.spawn());
        std::thread::sleep(after);
        self.kill();
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Ends it in good order.
    pub fn stop(&mut self) -> Result<(), String> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let start = Instant::now();
        while start.elapsed() < HANG_TIMEOUT {
            if let Some(status) = child.try_wait().unwrap() {
                return match status.success() {
                    true if self.log().contains("the scrub has found damage") => {
                        Err(format!("the scrub finds damage that nobody did: {}", self.log()))
                    }
                    true => Ok(()),
                    false => Err(format!("the drive stops with {status}: {}", self.log())),
                };
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.child = Some(child);
        Err(format!("the drive does not stop: {}", self.log()))
    }

    /// Whether the process ended by itself, and what it said.
    pub fn died(&mut self) -> Option<String> {
        let status = self.child.as_mut()?.try_wait().unwrap()?;
        Some(format!("the drive ended by itself with {status}: {}", self.log()))
    }

    pub fn log(&self) -> String {
        read_to_string(self.dir.join("drive.log")).unwrap_or_default()
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn unix(&self) -> String {
        format!("unix://{}", self.dir.join("socket").display())
    }

    pub fn tcp(&self) -> Result<&str, String> {
        let word = self.ready.split_whitespace().find_map(|word| word.strip_prefix("tcp="));
        word.ok_or_else(|| format!("no TCP port in {:?}", self.ready))
    }

    /// Where the block file of a namespace is.
    fn block_file(&self, nsid: u32) -> PathBuf {
        self.dir.join("files").join(format!("nvme0n{nsid}"))
    }

    /// The block file of a namespace, when it answers. After a power cut that took writes along it is another file.
    pub fn file(&self, nsid: u32) -> Result<PathBuf, String> {
        let file = self.block_file(nsid);
        let answering = || answers(&file).then(|| file.clone());
        patiently(answering).ok_or_else(|| format!("no block file of namespace {nsid}: {}", self.log()))
    }

    /// The loop device on the block file of a namespace. After a power cut that took writes along, the old one fails and
    /// a new one appears.
    pub fn node(&self, nsid: u32) -> Result<PathBuf, String> {
        let file = self.block_file(nsid);
        let node =
            || loops().into_iter().filter(|(_, backing)| *backing == file).find(|(node, _)| answers(node));
        match patiently(node) {
            Some((node, _)) => Ok(node),
            None => Err(format!("no loop device of namespace {nsid}: {}", self.log())),
        }
    }

    pub fn host(&self) -> Result<Host<SocketTransport>, String> {
        connect(&self.unix())
    }

    /// Cuts the power, and returns when it is back.
    pub fn cut(&self, random: &mut Random, protected: bool) -> Result<(), String> {
        let off_ms = if random.one_in(4) { 1 + random.below(600) as u32 } else { 1 };
        let after_media_ops = if random.one_in(3) { random.below(20) as u32 } else { 0 };
        let seed = random.next() as u32;
        let cut = PowerCut { after_media_ops, off_ms, seed, no_plp: !protected };
        let mut host = self.host()?;
        // The connection may break before the answer arrives.
        let _ = host.power_cut(cut);
        drop(host);
        if after_media_ops > 0 {
            // It comes with the load, or never; the next one comes at once.
            std::thread::sleep(Duration::from_millis(20));
            let mut host = self.host()?;
            let _ = host.power_cut(PowerCut { after_media_ops: 0, ..cut });
        }
        std::thread::sleep(Duration::from_millis(off_ms.into()));
        self.host().map(drop)
    }

    /// Cuts the power for a time, and does not wait for its return.
    pub fn cut_for(&self, seed: u32, protected: bool, off: Duration) -> Result<(), String> {
        let off_ms = off.as_millis() as u32;
        let _ = self.host()?.power_cut(PowerCut { after_media_ops: 0, off_ms, seed, no_plp: !protected });
        Ok(())
    }

    pub fn fault(&self, fault: FaultInjection) -> Result<(), String> {
        self.host()?.inject_fault(fault).map_err(|error| error.to_string())
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Loop devices, with the files behind them.
fn loops() -> Vec<(PathBuf, PathBuf)> {
    let entries = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let device = |entry: DirEntry| {
        let backing = read_to_string(entry.path().join("loop/backing_file")).ok()?;
        Some((Path::new("/dev").join(entry.file_name()), PathBuf::from(backing.trim_end_matches('\n'))))
    };
    entries.filter_map(device).collect()
}

/// Whether a page can be read, not only from the page cache.
fn answers(path: &Path) -> bool {
    const PAGE: usize = 4096;
    let mut room = vec![0; 2 * PAGE];
    let at = room.as_ptr().align_offset(PAGE);
    let file = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path);
    file.is_ok_and(|file| file.read_exact_at(&mut room[at..at + PAGE], 0).is_ok())
}

fn patiently<T>(attempt: impl Fn() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        let found = attempt();
        if found.is_some() || start.elapsed() > HANG_TIMEOUT {
            return found;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Connects to a drive, also to one that is without power for a moment.
pub fn connect(addr: &str) -> Result<Host<SocketTransport>, String> {
    let addr: host::Addr = match addr.contains("://") {
        true => addr.parse(),
        false => format!("tcp://{addr}").parse(),
    }
    .map_err(|error: host::AddrError| error.to_string())?;
    let identity = Identity::new(HOST_NQN.parse().unwrap());
    let attempt = || Host::connect(SocketTransport::new(addr.clone(), Duration::from_secs(20)), &identity);
    host::retry(HANG_TIMEOUT, attempt).map_err(|error| format!("connecting to {addr}: {error}"))
}
