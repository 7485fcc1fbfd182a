//! Mounting the directory, unmounting it, and clearing away what a killed process left.

use crate::error::ExportError;
use crate::loop_records::LeftoverDevices;
use crate::loops::{self, LoopDevice};
use crate::mountinfo::{self, Mount};
use fuser::{Config, Filesystem, MountOption, Session, SessionACL};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Type of the mounted file system; the subtype tells ours from others.
const KIND: &str = "fuse.tranche";
/// What is mounted, as `mount` shows it.
const SOURCE: &str = "tranche";

/// Makes sure that a drive can be exported at `dir`: it is an empty directory without a running drive on it. What a killed
/// process left there is cleared away. Returns the directory without links in its path. [`Export::start`](crate::Export::start) does this,
/// too; ask before a drive is made for it.
///
/// # Errors
/// If it is not so.
pub fn prepare(dir: &Path) -> Result<PathBuf, ExportError> {
    let cleaned = clean_stale(dir)?;
    if !cleaned.is_empty() {
        tracing::info!("cleared away what a killed drive left at {}: {cleaned}", dir.display());
    }
    usable(dir)
}

/// A directory that can be mounted on: it exists, is empty, and has no running drive on it.
///
/// # Errors
/// If it is not so.
fn usable(dir: &Path) -> Result<PathBuf, ExportError> {
    let failed = |reason| ExportError::Directory { dir: dir.to_owned(), reason };
    let dir = dir.canonicalize().map_err(failed)?;
    if !dir.is_dir() {
        return Err(ExportError::NotADirectory(dir));
    }
    let failed = |reason| ExportError::Directory { dir: dir.clone(), reason };
    if let Some(mount) = mountinfo::at(&dir).map_err(failed)?
        && mount.kind == KIND
    {
        return Err(ExportError::InUse(dir));
    }
    let failed = |reason| ExportError::Directory { dir: dir.clone(), reason };
    if std::fs::read_dir(&dir).map_err(failed)?.next().is_some() {
        return Err(ExportError::NotEmpty(dir));
    }
    Ok(dir)
}

/// What was cleared away after a process that had no chance to do it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Cleaned {
    /// File systems that were mounted on the dead loop devices.
    pub unmounted: Vec<PathBuf>,
    /// The loop devices.
    pub loops: Vec<PathBuf>,
    /// Those of them that some process keeps open: dead, and gone when it ends.
    pub lingering: Vec<PathBuf>,
    /// Whether the directory itself was still mounted.
    pub directory: bool,
}

impl fmt::Display for Cleaned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |paths: &[PathBuf]| {
            let all: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            all.join(", ")
        };
        let parts = [
            ("unmounted", &self.unmounted),
            ("detached", &self.loops),
            ("still open in a program", &self.lingering),
        ];
        let mut said: Vec<_> = parts
            .into_iter()
            .filter(|(_, paths)| !paths.is_empty())
            .map(|(what, paths)| format!("{what} {}", list(paths)))
            .collect();
        if self.directory {
            said.push("unmounted the directory".to_owned());
        }
        f.write_str(&said.join("; "))
    }
}

impl Cleaned {
    /// Whether nothing was left over.
    pub fn is_empty(&self) -> bool {
        *self == Cleaned::default()
    }
}

/// Clears away what a drive that was killed left at `dir`: the dead mount, the loop devices on its files,
/// and the file systems on those, which cannot work any more and are unmounted lazily. The devices are found by its record where
/// the directory was unmounted before. Does nothing if the drive is alive, or if nothing is left.
///
/// # Errors
/// If something could not be cleared away; what, and what to do, is said.
pub fn clean_stale(dir: &Path) -> Result<Cleaned, ExportError> {
    let mut cleaned = Cleaned::default();
    let dead = stale(dir)?;
    let mut devices: Vec<LoopDevice> = dead.iter().flat_map(|dir| loops::attached_in(dir)).collect();
    let left = dead.clone().or_else(|| dir.canonicalize().ok()).map(|dir| LeftoverDevices::of(&dir));
    for device in left.iter().flat_map(|left| &left.devices) {
        if devices.iter().all(|found| found.node() != device.node()) {
            devices.push(device.clone());
        }
    }
    for device in devices {
        for point in device.mounts() {
            unmount(&point, UnmountFlags::DETACH)?;
            cleaned.unmounted.push(point);
        }
        if !device.detach()? {
            cleaned.lingering.push(device.node());
        }
        cleaned.loops.push(device.node());
    }
    // Several, if starts and kills followed each other.
    if let Some(dir) = dead {
        while stale(&dir)?.is_some() {
            unmount_directory(&dir)?;
            cleaned.directory = true;
        }
    }
    if let Some(left) = left {
        left.clear();
    }
    Ok(cleaned)
}

/// What the kernel answers where nobody serves a mounted directory any more: it has taken the connection down, is doing so, or takes
/// back what was in a queue of io_uring.
pub(crate) const UNMOUNT_ERRNOS: [Errno; 3] = [Errno::NOTCONN, Errno::CONNABORTED, Errno::CANCELED];

/// The mount point as the kernel names it, if a dead drive is mounted there.
fn stale(dir: &Path) -> Result<Option<PathBuf>, ExportError> {
    // A dead directory may not resolve, but its parent does.
    let absolute = std::path::absolute(dir).map_err(ExportError::system(dir.display().to_string()))?;
    let resolved = absolute.parent().zip(absolute.file_name());
    let resolved = resolved.and_then(|(parent, name)| Some(parent.canonicalize().ok()?.join(name)));
    // Nor does it if it is a symbolic link.
    let candidates = [dir.canonicalize().ok(), resolved, Some(absolute)];
    for dir in candidates.into_iter().flatten() {
        let mount = mountinfo::at(&dir).map_err(ExportError::system("/proc/self/mountinfo"))?;
        // The kernel answers other questions from what it remembers, but has to ask the file system this one.
        if mount.is_some_and(|mount| mount.kind == KIND)
            && rustix::fs::statfs(&dir).is_err_and(|error| UNMOUNT_ERRNOS.contains(&error))
        {
            return Ok(Some(dir));
        }
    }
    Ok(None)
}

/// Whether programs in a mounted directory can be run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Programs {
    /// Their files are data of a drive.
    Refused,
    /// As in any file system.
    Run,
}

/// Mounts `filesystem` at `dir`.
///
/// With the privilege it is done here, without it by `fusermount3`. Everyone may enter the directory in the
/// first case (the permissions of the files decide), only the mounting user in the second.
///
/// # Errors
/// If there is no FUSE, or neither privilege nor helper.
pub fn mount<FS: Filesystem>(
    filesystem: FS,
    dir: &Path,
    threads: usize,
    programs: Programs,
) -> Result<Session<FS>, ExportError> {
    let device =
        OpenOptions::new().read(true).write(true).open("/dev/fuse").map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => ExportError::FuseNotAllowed(error),
            _ => ExportError::NoFuse(error),
        })?;
    let mut config = Config::default();
    config.n_threads = Some(threads);
    let failed = |reason| ExportError::Mount { dir: dir.to_owned(), reason };
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions,allow_other",
        device.as_raw_fd(),
        user.as_raw(),
        group.as_raw()
    );
    let data = CString::new(data).map_err(|error| failed(error.into()))?;
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
    flags.set(MountFlags::NOEXEC, programs == Programs::Refused);
    match rustix::mount::mount(SOURCE, dir, KIND, flags, Some(&*data)) {
        Ok(()) => {
            let session = Session::from_fd(filesystem, device.into(), SessionACL::All, config);
            return session.map_err(|error| {
                let _ = unmount(dir, UnmountFlags::DETACH);
                failed(error)
            });
        }
        Err(Errno::PERM) => {}
        Err(error) => return Err(failed(error.into())),
    }
    drop(device);
    if fusermount().is_none() {
        return Err(ExportError::NotAllowed(dir.to_owned()));
    }
    config.mount_options = vec![
        MountOption::FSName(SOURCE.into()),
        MountOption::Subtype("tranche".into()),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoAtime,
    ];
    Session::new(filesystem, dir, &config).map_err(failed)
}

/// The mount at `dir`, after [`mount`] has made it.
pub fn mounted(dir: &Path) -> Option<Mount> {
    mountinfo::at(dir).ok().flatten().filter(|mount| mount.kind == KIND)
}

/// Unmounts lazily what [`mounted`] found; nothing if something else is there by now.
///
/// # Errors
/// If the kernel or `fusermount3` refuses.
pub fn unmount_ours(dir: &Path, ours: &Mount) -> Result<(), ExportError> {
    if mounted(dir).as_ref() != Some(ours) {
        return Ok(());
    }
    unmount_directory(dir)
}

/// Unmounts a mounted directory lazily, by itself or with the help of `fusermount3`.
fn unmount_directory(dir: &Path) -> Result<(), ExportError> {
    let refused = match unmount(dir, UnmountFlags::DETACH) {
        Err(ExportError::Unmount { reason, .. }) if is(&reason, Errno::PERM) => reason,
        other => return other,
    };
    let failed = |reason| ExportError::Unmount { point: dir.to_owned(), reason };
    let Some(helper) = fusermount() else { return Err(failed(refused)) };
    let output = Command::new(helper).args(["-u", "-z", "--"]).arg(dir).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            Err(failed(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())))
        }
        Err(reason) => Err(failed(reason)),
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// Cuts the kernel's connection to a mounted directory: everything that waits for it fails. Possible only
/// where the control file system is mounted, for its owner.
pub fn abort(mount: &Mount) -> bool {
    let control = format!("/sys/fs/fuse/connections/{}/abort", mount.device.1);
    std::fs::write(control, "1").is_ok()
}

/// Unmounts `point`.
///
/// # Errors
/// If the kernel refuses.
pub fn unmount(point: &Path, flags: UnmountFlags) -> Result<(), ExportError> {
    rustix::mount::unmount(point, flags)
        .map_err(|error| ExportError::Unmount { point: point.to_owned(), reason: error.into() })
}

fn fusermount() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = |name: &str| dirs.iter().map(|dir| dir.join(name)).find(|program| program.is_file());
    found("fusermount3").or_else(|| found("fusermount"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_directories_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        assert!(usable(dir.path()).is_ok());
        assert!(matches!(usable(&dir.path().join("no")), Err(ExportError::Directory { .. })));
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert!(matches!(usable(&file), Err(ExportError::NotADirectory(_))));
        let error = usable(dir.path()).unwrap_err();
        assert!(matches!(&error, ExportError::NotEmpty(_)), "{error}");
        assert!(error.to_string().contains("name an empty directory"));
    }

    #[test]
    fn a_plain_directory_has_nothing_stale() {
        let dir = tempfile::tempdir().unwrap();
        assert!(clean_stale(dir.path()).unwrap().is_empty());
        assert!(clean_stale(&dir.path().join("missing")).unwrap().is_empty());
    }

    #[test]
    fn what_was_cleared_away_is_told_in_words() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let all = Cleaned {
            unmounted: paths(&["/srv"]),
            loops: paths(&["/dev/loop0", "/dev/loop1"]),
            lingering: Vec::new(),
            directory: true,
        };
        assert_eq!(
            all.to_string(),
            "unmounted /srv; detached /dev/loop0, /dev/loop1; unmounted the directory"
        );
    }
}
