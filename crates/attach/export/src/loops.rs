//! Loop devices on the block files: `losetup` of util-linux does the work, `/sys` tells how things are.

use crate::error::ExportError;
use crate::mountinfo;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a device may take to let go of its file after it was detached.
const LET_GO: Duration = Duration::from_secs(2);
/// How often an unused device is tried when others take them at the same time.
const TRIES: u32 = 20;

/// A loop device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoopDevice {
    /// Name in `/sys/block`: `loop3`.
    name: String,
    /// What it is attached to.
    file: PathBuf,
    /// The number of this attachment: `diskseq`, which grows with each. None where the kernel has none (before Linux 5.15).
    sequence: Option<u64>,
}

impl LoopDevice {
    /// Attaches a device to `file`, with direct I/O and this sector size.
    ///
    /// # Errors
    /// If there is no `losetup`, no privilege or no device left.
    pub fn attach(file: &Path, sector_size: u32, read_only: bool) -> Result<Self, ExportError> {
        let mut last = String::new();
        for _ in 0..TRIES {
            let free =
                losetup(&[OsStr::new("--find")]).map_err(|error| explain("a free loop device", error))?;
            let Some(name) = free.trim().strip_prefix("/dev/") else {
                let message = format!("losetup --find answered {free:?}");
                return Err(ExportError::Loop { what: "a free loop device".into(), message });
            };
            let device = LoopDevice { name: name.to_owned(), file: file.to_owned(), sequence: None };
            device.make_node()?;
            let sector = format!("--sector-size={sector_size}");
            let node = device.node();
            let mut arguments = vec![OsStr::new("--direct-io=on"), OsStr::new(&sector)];
            if read_only {
                arguments.push(OsStr::new("--read-only"));
            }
            arguments.extend([node.as_os_str(), file.as_os_str()]);
            match losetup(&arguments) {
                Ok(_) => return Ok(device.checked()),
                Err(Failure::Start(error)) => return Err(ExportError::NoLosetup(error)),
                // Somebody else may have been faster.
                Err(Failure::Exit(message)) => last = message,
            }
            if backing_file(&device.name).as_deref() == Some(file) {
                return Ok(device.checked());
            }
            if !last.contains("busy") {
                break;
            }
        }
        Err(explain(&file.display().to_string(), Failure::Exit(last)))
    }

    /// The device at `node`, which is or was attached to `file`.
    #[cfg(test)]
    pub fn named(node: &Path, file: &Path) -> Self {
        let name = node.file_name().unwrap_or_default().to_string_lossy().into_owned();
        LoopDevice { name, file: file.to_owned(), sequence: None }
    }

    /// The device of this name as long as this attachment lasts; `file` is what it was attached to.
    pub fn numbered(name: &str, sequence: u64, file: PathBuf) -> Self {
        LoopDevice { name: name.to_owned(), file, sequence: Some(sequence) }
    }

    /// Its name, the number of this attachment, and the name of its file; none where attachments have no number.
    pub fn identity(&self) -> Option<(&str, u64, &OsStr)> {
        Some((&self.name, self.sequence?, self.file.file_name()?))
    }

    /// Device node: `/dev/loop3`.
    pub fn node(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    /// Whether it is (still) attached to its file.
    pub fn is_attached(&self) -> bool {
        let Some(attached) = backing_file(&self.name) else { return false };
        // The number says it for certain; paths change when a directory is moved or unmounted.
        if let Some(ours) = self.sequence
            && let Some(now) = sequence(&self.name)
        {
            return ours == now;
        }
        // Once the directory is unmounted lazily, the kernel shows the path within it.
        let within = self.file.file_name().map(|name| Path::new("/").join(name));
        attached == self.file || Some(attached) == within
    }

    /// Detaches it; waits a little until the kernel has let go of the file. `false` if something still has
    /// it open: then it detaches itself when that ends. A device that is not attached to its file any more is left
    /// alone.
    ///
    /// # Errors
    /// If `losetup` fails.
    pub fn detach(&self) -> Result<bool, ExportError> {
        if !self.is_attached() {
            return Ok(true);
        }
        let node = self.node();
        losetup(&[OsStr::new("--detach"), node.as_os_str()])
            .map_err(|error| explain(&node.display().to_string(), error))?;
        let start = Instant::now();
        while self.is_attached() && start.elapsed() < LET_GO {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(!self.is_attached())
    }

    /// Mount points of the file systems on it or on its partitions, topmost first.
    pub fn mounts(&self) -> Vec<PathBuf> {
        let numbers = self.numbers();
        let mounts = mountinfo::read().unwrap_or_default();
        let ours = mounts.into_iter().rev().filter(|mount| numbers.contains(&mount.device));
        ours.map(|mount| mount.point).collect()
    }

    /// What uses it as far as the system tells: mount points and devices made of it.
    pub fn users(&self) -> Vec<String> {
        let mut users: Vec<String> = self.mounts().iter().map(|point| point.display().to_string()).collect();
        users.extend(names_in(&self.sys().join("holders")).map(|name| format!("/dev/{name}")));
        users
    }

    fn sys(&self) -> PathBuf {
        Path::new("/sys/block").join(&self.name)
    }

    /// Device numbers of the device and its partitions.
    fn numbers(&self) -> Vec<(u32, u32)> {
        let sys = self.sys();
        let partitions =
            names_in(&sys).filter(|name| name.starts_with(&self.name)).map(|name| sys.join(name));
        let all = std::iter::once(sys.clone()).chain(partitions);
        all.filter_map(|path| device_number(&path)).collect()
    }

    /// In a container the kernel's new devices may have no node.
    fn make_node(&self) -> Result<(), ExportError> {
        let node = self.node();
        if node.exists() {
            return Ok(());
        }
        let what = || format!("{} (making the device node)", node.display());
        let (major, minor) = device_number(&self.sys()).ok_or_else(|| ExportError::Loop {
            what: what(),
            message: "the kernel does not know the device; is the module `loop` loaded?".into(),
        })?;
        let mode = rustix::fs::Mode::from_raw_mode(0o660);
        let device = rustix::fs::makedev(major, minor);
        let kind = rustix::fs::FileType::BlockDevice;
        match rustix::fs::mknodat(rustix::fs::CWD, &node, kind, mode, device) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(error) => Err(ExportError::System { what: what(), reason: error.into() }),
        }
    }

    fn checked(mut self) -> Self {
        // Unless somebody detached it since: then it is another's number.
        let before = sequence(&self.name);
        self.sequence = before.filter(|_| backing_file(&self.name).as_deref() == Some(&*self.file));
        let direct = std::fs::read_to_string(self.sys().join("loop/dio")).unwrap_or_default();
        if direct.trim() != "1" {
            tracing::warn!(device = %self.node().display(), "the kernel refuses direct I/O: data is cached twice");
        }
        self
    }
}

/// Loop devices attached to files in `dir`.
pub fn attached_in(dir: &Path) -> Vec<LoopDevice> {
    let names = names_in(Path::new("/sys/block")).filter(|name| name.starts_with("loop"));
    let mut found: Vec<LoopDevice> = names
        .filter_map(|name| {
            let file = backing_file(&name)?;
            let sequence = sequence(&name);
            (file.parent() == Some(dir)).then_some(LoopDevice { name, file, sequence })
        })
        .collect();
    found.sort_by(|a, b| a.file.cmp(&b.file));
    found
}

fn backing_file(name: &str) -> Option<PathBuf> {
    let path = Path::new("/sys/block").join(name).join("loop/backing_file");
    let text = std::fs::read(path).ok()?;
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    let text = text.strip_suffix(b" (deleted)").unwrap_or(text);
    Some(PathBuf::from(OsStr::from_bytes(text)))
}

fn sequence(name: &str) -> Option<u64> {
    std::fs::read_to_string(Path::new("/sys/block").join(name).join("diskseq")).ok()?.trim().parse().ok()
}

fn device_number(sys: &Path) -> Option<(u32, u32)> {
    let text = std::fs::read_to_string(sys.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn names_in(dir: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

enum Failure {
    Start(io::Error),
    Exit(String),
}

fn losetup(arguments: &[&OsStr]) -> Result<String, Failure> {
    let output = Command::new("losetup")
        .args(arguments)
        .env("LC_ALL", "C")
        // Not in every user's path.
        .env("PATH", std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin")
        .stdin(Stdio::null())
        .output()
        .map_err(Failure::Start)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Failure::Exit(if message.is_empty() { format!("losetup: {}", output.status) } else { message }))
}

fn explain(what: &str, failure: Failure) -> ExportError {
    match failure {
        Failure::Start(error) => ExportError::NoLosetup(error),
        Failure::Exit(mut message) => {
            if !rustix::process::geteuid().is_root() {
                message += "; loop devices need root, the block files do not";
            } else if !Path::new("/dev/loop-control").exists() {
                message +=
                    "; /dev/loop-control is missing: modprobe loop, or pass the devices into the container";
            }
            ExportError::Loop { what: what.to_owned(), message }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_attached_in_an_empty_directory() {
        let dir = tempfile::tempdir().unwrap();
        assert!(attached_in(dir.path()).is_empty());
    }

    #[test]
    fn an_unknown_device_is_not_attached() {
        let device = LoopDevice { name: "loop-of-nobody".into(), file: "/nowhere".into(), sequence: None };
        assert!(!device.is_attached() && device.mounts().is_empty());
        assert!(device.detach().unwrap());
    }
}
