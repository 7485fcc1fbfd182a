//! What a study leaves lying around, and how it goes away: a directory that owns everything made under it.
//!
//! Every mount point, backing file of a loop device, socket and log of a run is inside one directory, and every process
//! started is noted there. A lock file says that the run is alive. A run may end in any way: the next one finds the
//! directory and sees that the lock is free. The directory is all that it needs to end and remove everything.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use image::trust::{TrustedDir, check_directory_of};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::descendants::kill_all;
use lab_report::{
    control::{Cancel, Interrupted},
    figure::show_size,
    memory,
};

/// Every scratch directory's name begins so.
const PREFIX: &str = "tranche-lab-";
const LOCK: &str = "lock";
const PROCESSES: &str = "processes";
/// How long a scan for file systems may have a loop device open.
const DETACHING_TIME: Duration = Duration::from_secs(10);

/// A directory that is emptied of mounts, loop devices and processes, and removed, when dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// What ends the run before its time.
    cancel: Cancel,
    /// Held as long as this run lives.
    _lock: File,
}

impl Scratch {
    /// Makes one below `parent`, after removing what dead runs left there. `cancel` ends the run that it is for.
    ///
    /// What a dead run left and cannot be removed is named in a warning: it is no reason against this run.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn new(parent: &Path, cancel: &Cancel) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name_another = || format!("scratch directory {}: name another with --scratch", parent.display());
        // In /tmp another user can put anything, and exchange nothing.
        check_directory_of(&parent.join(PREFIX)).with_context(name_another)?;
        let parent = parent.canonicalize().with_context(name_another)?;
        // A killed run may have used another directory than this one will.
        let usual = [Path::new("/dev/shm").to_owned(), std::env::temp_dir()];
        for directory in usual.iter().filter(|d| **d != parent && d.is_dir()) {
            sweep(directory)?;
        }
        sweep(&parent)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        let make = || -> io::Result<File> {
            fs::create_dir(&path)?;
            // The database runs as another user and must reach its files.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o711))?;
            fs::create_dir(path.join(PROCESSES))?;
            let lock = File::create_new(path.join(LOCK))?;
            lock.lock()?;
            Ok(lock)
        };
        let lock = make().with_context(|| format!("making the scratch directory {}", path.display()))?;
        Ok(Self { path, cancel: cancel.clone(), _lock: lock })
    }

    /// What ends the run before its time.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a directory in it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn dir(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(path)
    }

    /// Passes a result on; of a failure the logs of drive and database are kept in `directory`, and the error says so.
    ///
    /// # Errors
    /// That of the result.
    pub fn keep_logs<T>(&self, result: Result<T>, directory: &Path) -> Result<T> {
        let Err(error) = result else { return result };
        if error.is::<Interrupted>() {
            return Err(error);
        }
        let logs = find_logs(&self.path, 3);
        let kept = fs::create_dir_all(directory).is_ok()
            && logs.iter().all(|log| {
                let name = log.strip_prefix(&self.path).unwrap_or(log).to_string_lossy().replace('/', "-");
                fs::copy(log, directory.join(name)).is_ok()
            });
        if logs.is_empty() || !kept {
            return Err(error);
        }
        Err(error.context(format!("the logs of drive and database are kept in {}", directory.display())))
    }

    /// Copies a log from a mounted file system, for [`keep_logs`](Self::keep_logs), which looks at none.
    pub fn keep_log(&self, log: &Path) {
        let name = log.file_name().unwrap_or_default().to_string_lossy();
        if let Err(error) = fs::copy(log, self.path.join(format!("{name}.log"))) {
            tracing::warn!("copying {}: {error}", log.display());
        }
    }

    /// Where processes started for this run are noted.
    pub(crate) fn registry(&self) -> PathBuf {
        self.path.join(PROCESSES)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            tracing::warn!("{error:#}; the next run tries again");
        }
    }
}

/// Log files in a directory, not on mounted file systems.
fn find_logs(directory: &Path, depth: u32) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let own = !matches!(path.file_name().and_then(|n| n.to_str()), Some("mnt" | "dev" | "image"));
        if path.extension().is_some_and(|e| e == "log") {
            found.push(path);
        } else if depth > 0 && own && path.is_dir() {
            found.extend(find_logs(&path, depth - 1));
        }
    }
    found
}

/// Where to put scratch directories: in memory when there is room for `wanted` bytes, so that the host's disk does not
/// disturb a measurement, else where temporary files go.
///
/// # Errors
/// When neither has room.
pub fn default_parent(wanted: u64) -> Result<PathBuf> {
    let shared = Path::new("/dev/shm");
    let available = memory::available().unwrap_or(0);
    if free_space(shared) > wanted && available > wanted + (4 << 30) {
        return Ok(shared.to_owned());
    }
    let disk = std::env::temp_dir();
    let free = free_space(&disk);
    if free < wanted {
        bail!(
            "{} has {} free and {} are needed: name a directory on a larger disk with --scratch",
            disk.display(),
            show_size(free),
            show_size(wanted)
        );
    }
    Ok(disk)
}

fn free_space(path: &Path) -> u64 {
    rustix::fs::statvfs(path).map_or(0, |fs| fs.f_bavail.saturating_mul(fs.f_frsize))
}

/// Removes what dead runs left below `parent`.
fn sweep(parent: &Path) -> Result<()> {
    for entry in fs::read_dir(parent).with_context(|| format!("reading {}", parent.display()))? {
        let Ok(entry) = entry else { continue };
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        // What another user put there would tell whom to kill, and what to unmount and remove.
        let Ok(directory) = TrustedDir::open(&path) else { continue };
        let dead = match directory.open_file(LOCK, OFlags::RDONLY) {
            Ok(lock) => match lock.try_lock() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) => false,
                Err(TryLockError::Error(_)) => continue, // another user's
            },
            // Killed before the lock was made, or another process is at that point right now.
            Err(error) if error.kind() == io::ErrorKind::NotFound => older_than_a_minute(&path),
            Err(_) => continue,
        };
        if dead {
            tracing::info!("removing {}, left by a run that was killed", path.display());
            if let Err(error) = remove(&path) {
                tracing::warn!("{error:#}; the next run tries again");
            }
        }
    }
    Ok(())
}

fn older_than_a_minute(path: &Path) -> bool {
    let age = fs::metadata(path).and_then(|m| m.modified()).map(|t| t.elapsed().unwrap_or_default());
    age.is_ok_and(|age| age > Duration::from_secs(60))
}

/// Ends and removes everything in `path`: processes, file systems, loop devices, FUSE mounts, files.
fn remove(path: &Path) -> Result<()> {
    // Databases are killed at once. A drive serves the file systems that are still to be unmounted, so it goes later
    // and is asked first.
    let noted = noted_processes(path);
    let (drives, others): (Vec<_>, Vec<_>) = noted.into_iter().partition(|p| p.role == Role::Drive);
    others.iter().for_each(|p| p.end(Duration::ZERO));
    unmount_below(path, |kind| !kind.starts_with("fuse"))?;
    drives.iter().for_each(|p| p.end(Duration::from_secs(20)));
    let detached = detach_loops_below(path, Duration::from_secs(1));
    unmount_below(path, |_| true)?;
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("removing {}", path.display()));
        }
        _ => {}
    }
    // A file system that another mount namespace still has mounted keeps its loop device. The kernel unmounts it there
    // when its mount point is removed.
    detached.or_else(|_| detach_loops_below(path, DETACHING_TIME))
}

/// What a noted process is to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Serves a drive: ends after everything that uses it.
    Drive,
    /// Anything else.
    Client,
}

/// A process of a run, recognised again even when its number has been reused.
#[derive(Debug)]
struct Noted {
    pid: Pid,
    started: u64,
    role: Role,
}

impl Noted {
    fn alive(&self) -> bool {
        test_kill_process(self.pid).is_ok() && start_time(self.pid) == Some(self.started)
    }

    /// SIGTERM, `patience`, SIGKILL, also to all that it has started.
    fn end(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        if self.alive() && !patience.is_zero() {
            let _ = kill_process(self.pid, Signal::TERM);
            while self.alive() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(50));
            }
        }
        if self.alive() {
            kill_all(self.pid);
            let deadline = Instant::now() + Duration::from_secs(10);
            while self.alive() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// When the process started, in ticks since boot; none when it is gone or only waits to be collected.
fn start_time(pid: Pid) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The second field is the name in parentheses, which may itself hold blanks and parentheses.
    let rest: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    if matches!(*rest.first()?, "Z" | "X") { None } else { rest.get(19)?.parse().ok() }
}

/// Notes a process in a registry; the file's name is returned.
pub fn note(registry: &Path, pid: Pid, role: Role) -> io::Result<PathBuf> {
    let file = registry.join(pid.as_raw_nonzero().to_string());
    let started = start_time(pid).unwrap_or(0);
    fs::write(&file, format!("{started} {role:?}\n"))?;
    Ok(file)
}

fn noted_processes(path: &Path) -> Vec<Noted> {
    let Ok(entries) = fs::read_dir(path.join(PROCESSES)) else { return Vec::new() };
    let parse = |entry: io::Result<fs::DirEntry>| -> Option<Noted> {
        let entry = entry.ok()?;
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        let text = fs::read_to_string(entry.path()).ok()?;
        let (started, role) = text.trim().split_once(' ')?;
        let role = if role == "Drive" { Role::Drive } else { Role::Client };
        Some(Noted { pid, started: started.parse().ok()?, role })
    };
    entries.filter_map(parse).collect()
}

/// Unmounts what is mounted below `path`, the latest first.
fn unmount_below(path: &Path, wanted: impl Fn(&str) -> bool) -> Result<()> {
    let mut mounts = mounts_below(path);
    mounts.reverse();
    for (point, kind) in mounts.into_iter().filter(|(_, kind)| wanted(kind)) {
        unmount(&point).with_context(|| format!("a {kind} file system"))?;
    }
    Ok(())
}

/// Mount points below `path` with their types, in the order in which they were mounted.
fn mounts_below(path: &Path) -> Vec<(PathBuf, String)> {
    let Ok(info) = fs::read_to_string("/proc/self/mountinfo") else { return Vec::new() };
    info.lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let point = PathBuf::from(unescape(left.split(' ').nth(4)?));
            let kind = right.split(' ').next()?.to_owned();
            point.starts_with(path).then_some((point, kind))
        })
        .collect()
}

/// The kernel writes blank, tab, newline and backslash of a path as three octal digits.
fn unescape(text: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .into_iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(text.to_owned(), |text, (code, char)| text.replace(code, char))
}

/// Unmounts; a mount that stays busy is detached from the tree, so that nothing can use it any more.
///
/// # Errors
/// When even that fails.
pub fn unmount(point: &Path) -> Result<()> {
    for attempt in 0..20 {
        if Command::new("umount").arg(point).output().is_ok_and(|o| o.status.success()) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(25 * (1 + attempt)));
    }
    let output = Command::new("umount").arg("--lazy").arg(point).output().context("running umount")?;
    if output.status.success() || !mounts_below(point).iter().any(|(p, _)| p == point) {
        return Ok(());
    }
    bail!(
        "cannot unmount {}: {}; see what uses it with `fuser -vm {0}`",
        point.display(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
}

/// Detaches loop devices whose backing file is below `path`.
fn detach_loops_below(path: &Path, patience: Duration) -> Result<()> {
    let below = loops().into_iter().filter(|(_, backing)| backing.starts_with(path));
    below.map(|(device, _)| device).try_for_each(|device| detach_within(&device, patience))
}

/// Detaches a loop device, and waits until the kernel has let go of its file: it does so only when the last that has
/// the device open closes it, which may be a scan for file systems that nobody here has started.
///
/// # Errors
/// When it cannot be detached, or is still in use after ten seconds.
pub(crate) fn detach(device: &Path) -> Result<()> {
    detach_within(device, DETACHING_TIME)
}

fn detach_within(device: &Path, patience: Duration) -> Result<()> {
    let backing = || loops().into_iter().find(|(name, _)| name == device).map(|(_, backing)| backing);
    let Some(before) = backing() else { return Ok(()) };
    let output = Command::new("losetup").arg("--detach").arg(device).output().context("running losetup")?;
    let attached = || backing().is_some_and(|now| now == before);
    let deadline = Instant::now() + patience;
    while output.status.success() && attached() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
    }
    if !attached() {
        return Ok(());
    }
    let why = match String::from_utf8_lossy(&output.stderr).trim() {
        "" => "something still has it open; it goes when that ends".to_owned(),
        said => said.to_owned(),
    };
    bail!("cannot detach {} from {}: {why}", device.display(), before.display());
}

/// Loop devices in use, with their backing files.
pub fn loops() -> Vec<(PathBuf, PathBuf)> {
    let Ok(entries) = fs::read_dir("/sys/block") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let backing = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
            let file = backing.trim_end_matches('\n').trim_end_matches(" (deleted)");
            Some((Path::new("/dev").join(entry.file_name()), PathBuf::from(file)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::skipped;

    #[test]
    fn leftovers_of_a_dead_run_are_removed_and_those_of_a_living_one_kept() {
        let parent = tempfile::tempdir().unwrap();
        let living = Scratch::new(parent.path(), &Cancel::default()).unwrap();
        let dead = parent.path().join(format!("{PREFIX}1-0"));
        fs::create_dir_all(dead.join(PROCESSES)).unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        let mut orphan = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_child(&orphan);
        note(&dead.join(PROCESSES), pid, Role::Client).unwrap();
        // A number in use by somebody else by now: this process's own, with another start time.
        fs::write(dead.join(PROCESSES).join(std::process::id().to_string()), "1 Client\n").unwrap();

        let second = Scratch::new(parent.path(), &Cancel::default()).unwrap();
        assert!(!dead.exists());
        assert!(!orphan.wait().unwrap().success(), "the orphan was killed");
        assert!(living.path().exists() && second.path().exists());
        let path = living.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }

    /// A service and a test may have a copy of all mounts, made while the run lived.
    #[test]
    fn what_another_mount_namespace_has_mounted_is_removed() {
        if !rustix::process::geteuid().is_root() {
            skipped("scratch: another mount namespace", "only root can mount");
            return;
        }
        let run = |command: &str, arguments: &[&Path]| {
            let output = Command::new(command).args(arguments).output().unwrap();
            assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
            PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
        };
        let parent = tempfile::tempdir().unwrap();
        let dead = parent.path().join(format!("{PREFIX}1-0"));
        let (file, point) = (dead.join("file"), dead.join("mnt"));
        fs::create_dir_all(&point).unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        File::create(&file).unwrap().set_len(16 << 20).unwrap();
        let option = |o| Path::new(o);
        run("mkfs.ext4", &[option("-q"), &file]);
        let device = run("losetup", &[option("--find"), option("--show"), &file]);
        run("mount", &[&device, &point]);
        let mut other = Command::new("unshare");
        other.args(["--mount", "--propagation", "private", "sh", "-c", "echo; exec sleep 600"]);
        let mut other = other.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let begun = io::Read::read(&mut other.stdout.take().unwrap(), &mut [0]).unwrap();

        let scratch = Scratch::new(parent.path(), &Cancel::default());
        let (left, attached) = (dead.exists(), loops().iter().any(|(_, backing)| *backing == file));
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!((scratch.is_ok(), begun, left, attached), (true, 1, false, false));
    }

    /// In /tmp anybody can make a directory that looks like one, and name processes in it.
    #[test]
    fn what_another_user_left_is_not_believed() {
        if !rustix::process::geteuid().is_root() {
            skipped("scratch: another user", "only root can make files of another user");
            return;
        }
        let parent = tempfile::tempdir().unwrap();
        let foreign = parent.path().join(format!("{PREFIX}1-0"));
        fs::create_dir_all(foreign.join(PROCESSES)).unwrap();
        fs::write(foreign.join(LOCK), "").unwrap();
        let mut victim = Command::new("sleep").arg("600").spawn().unwrap();
        note(&foreign.join(PROCESSES), Pid::from_child(&victim), Role::Client).unwrap();
        std::os::unix::fs::chown(&foreign, Some(1234), None).unwrap();
        let scratch = Scratch::new(parent.path(), &Cancel::default()).unwrap();
        let lives = victim.try_wait().unwrap().is_none();
        victim.kill().unwrap();
        victim.wait().unwrap();
        assert!(lives && foreign.exists() && scratch.path().exists());
        // Nor is a directory used that others can change.
        fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Scratch::new(parent.path(), &Cancel::default()).is_err());
    }

    #[test]
    fn mount_points_are_unescaped() {
        assert_eq!(unescape("/a\\040b\\134c"), "/a b\\c");
    }
}
