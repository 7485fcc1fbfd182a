//! Directories of campaigns, and that nothing of them stays: processes, mounts, loop devices, files.
//!
//! A second process of this program watches the first, and clears up when it ends, however that is. All processes that
//! a campaign starts have the name of its directory in their environment.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// The directory that a process belongs to; the watching process is told by it what to watch.
const SCENE: &str = "TRANCHE_CRASHES_SCENE";
const WATCH: &str = "TRANCHE_CRASHES_WATCH";

/// A program that is run as part of the campaign in `dir`.
pub fn command(dir: &Path, program: impl AsRef<OsStr>) -> Command {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let mut command = Command::new(program);
    command.env(SCENE, dir).env("PATH", path).env("LC_ALL", "C").env("TZ", "UTC").stdin(Stdio::null());
    command
}

/// Runs a program to its end and returns what it printed, or that with what went wrong.
pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let called: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    Err(format!("{called:?}: {}\n{said}{errors}", output.status))
}

/// The directory of one campaign, gone with it unless it is kept.
#[derive(Debug)]
pub struct Scene {
    pub dir: PathBuf,
    watch: Child,
    /// The watching process sees this closed when this one has ended.
    alive: Option<ChildStdin>,
}

impl Scene {
    /// A new directory in `parent`.
    pub fn new(parent: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("crashes-").tempdir_in(parent).unwrap().keep();
        // Servers that do not run as root pass through it.
        std::fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let dir = dir.canonicalize().unwrap();
        let mut watch = Command::new(std::env::current_exe().unwrap());
        // Signals from the terminal are not for it.
        watch.env(WATCH, &dir).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let mut watch = watch.spawn().unwrap();
        let alive = watch.stdin.take();
        Scene { dir, watch, alive }
    }

    /// Everything but mounts stays when the campaign ends.
    pub fn keep(&mut self) {
        let _ = self.alive.as_mut().unwrap().write_all(b"keep");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(self.alive.take());
        let _ = self.watch.wait();
    }
}

/// Whether this process is the one that watches; if so, it has done that.
pub fn watched() -> bool {
    let Some(dir) = std::env::var_os(WATCH) else { return false };
    let mut said = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut said);
    clear(Path::new(&dir), said.is_empty());
    true
}

fn clear(dir: &Path, remove: bool) {
    let start = Instant::now();
    while kill_all(dir) && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (exports, systems): (Vec<_>, Vec<_>) = mounts(dir).into_iter().partition(|(_, fuse)| *fuse);
    // Directories of block files come last, as what is mounted on their loop devices depends on them.
    for (point, _) in systems {
        let _ = run(command(dir, "umount").arg("-l").arg(&point));
    }
    for (point, _) in exports {
        if let Err(error) = export::clean_stale(&point) {
            eprintln!("crashes: {error}");
        }
    }
    for point in mounts_below(dir) {
        let _ = run(command(dir, "umount").arg("-l").arg(&point));
    }
    if remove && let Err(error) = std::fs::remove_dir_all(dir) {
        eprintln!("crashes: {} stays: {error}", dir.display());
    }
}

/// Kills what belongs to the campaign; whether there was anything.
fn kill_all(dir: &Path) -> bool {
    let belongs = [SCENE.as_bytes(), b"=", dir.as_os_str().as_encoded_bytes()].concat();
    let mut any = false;
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) else { continue };
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|variable| variable == belongs) {
            any = true;
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    any
}

/// Mount points in the directory, the last first.
pub fn mounts_below(dir: &Path) -> Vec<PathBuf> {
    mounts(dir).into_iter().map(|(point, _)| point).collect()
}

/// The same, each with whether it is of FUSE.
fn mounts(dir: &Path) -> Vec<(PathBuf, bool)> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let all = mounts.lines().rev().filter_map(|line| {
        let fuse = line.split_once(" - ").is_some_and(|(_, kind)| kind.starts_with("fuse"));
        Some((PathBuf::from(line.split(' ').nth(4)?), fuse))
    });
    all.filter(|(point, _)| point.starts_with(dir)).collect()
}
