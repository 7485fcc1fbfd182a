//! Which loop devices a drive has attached, noted outside of it, so that the next start finds those of a killed one.
//!
//! A device's path does not suffice. When the directory is unmounted lazily, the kernel shows only the path within it (`/nvme0n1`), which
//! does not say whose it is. But attachments have numbers: `diskseq` in `/sys/block` grows with
//! every attachment and comes only once in a boot (Linux 5.15, `Documentation/ABI/stable/sysfs-block`). A record is a file with the
//! boot, the directory, and a line for each device with that number. It is locked while its drive lives. The drive removes it when it
//! has taken everything down.

use crate::loops::LoopDevice;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Where records are. Empty after a boot, like the list of loop devices.
const RECORDS: &str = "/run/tranche/loops";
/// How many names are tried for a record.
const TRIES: u32 = 1_000;

/// The record of a running drive.
pub struct LoopRecord {
    /// Locked.
    file: File,
    path: PathBuf,
}

impl LoopRecord {
    /// A record of the drive at `dir`; none, with a warning, where none can be kept. A drive does without then: only what a killed
    /// one left after its directory was unmounted stays.
    pub fn new(dir: &Path) -> Option<Self> {
        Self::within(Path::new(RECORDS), dir)
            .inspect_err(|error| tracing::warn!("no record of loop devices is kept in {RECORDS}: {error}"))
            .ok()
    }

    fn within(records: &Path, dir: &Path) -> io::Result<Self> {
        // A user who may write here can have loop devices detached.
        DirBuilder::new().recursive(true).mode(0o700).create(records)?;
        let process = std::process::id();
        for number in 0..TRIES {
            let path = records.join(format!("{process}-{number}"));
            match File::options().read(true).append(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    file.lock()?;
                    file.write_all(header(dir)?.as_bytes())?;
                    return Ok(LoopRecord { file, path });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(format!("{} is full of records of process {process}", records.display())))
    }

    /// Notes a device that was attached. Lines stay when it is detached: its number never comes again.
    pub fn add(&self, device: &LoopDevice) {
        if let Some(line) = line(device)
            && let Err(error) = (&self.file).write_all(line.as_bytes())
        {
            tracing::warn!("{}: {error}", self.path.display());
        }
    }

    /// Removes the record: everything is detached.
    pub fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The devices that dead drives at a directory left attached, and their records.
pub struct LeftoverDevices {
    /// The devices, those that are still attached as they were.
    pub devices: Vec<LoopDevice>,
    /// Locked, so that two starts do not clear up the same.
    records: Vec<(File, PathBuf)>,
}

impl LeftoverDevices {
    /// Looks for them. Records that cannot be read, or are of living drives, other directories or other boots, are left alone.
    pub fn of(dir: &Path) -> Self {
        Self::within(Path::new(RECORDS), dir)
    }

    fn within(records: &Path, dir: &Path) -> Self {
        let mut left = LeftoverDevices { devices: Vec::new(), records: Vec::new() };
        let Ok(header) = header(dir) else { return left };
        let entries = std::fs::read_dir(records).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let Some((file, text)) = dead(&path) else { continue };
            let Some(lines) = text.strip_prefix(&header) else { continue };
            left.devices.extend(lines.lines().filter_map(|line| device(line, dir)));
            left.records.push((file, path));
        }
        left.devices.retain(LoopDevice::is_attached);
        left
    }

    /// Removes the records: everything is detached.
    pub fn clear(self) {
        for (_, path) in &self.records {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A record whose drive does not live, locked, with its text.
fn dead(path: &Path) -> Option<(File, String)> {
    let mut file = File::open(path).ok()?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return None,
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    Some((file, text))
}

/// The first line: the boot, and the directory in hexadecimal, since paths may hold anything.
fn header(dir: &Path) -> io::Result<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let mut hex = String::new();
    for byte in dir.as_os_str().as_bytes() {
        let _ = write!(hex, "{byte:02x}");
    }
    Ok(format!("tranche 1 {} {hex}\n", boot.trim()))
}

/// A device's line: its name, its number, and its file's name; none where the kernel has no numbers.
fn line(device: &LoopDevice) -> Option<String> {
    let (name, sequence, file) = device.identity()?;
    Some(format!("{name} {sequence} {}\n", file.to_string_lossy()))
}

fn device(line: &str, dir: &Path) -> Option<LoopDevice> {
    let mut words = line.splitn(3, ' ');
    let (name, sequence, file) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    let plain = |name: &str| !name.is_empty() && !name.contains('/') && name != "." && name != "..";
    (name.starts_with("loop") && plain(name) && plain(file))
        .then(|| LoopDevice::numbered(name, sequence, dir.join(OsString::from_vec(file.into()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bogus(sequence: u64) -> LoopDevice {
        LoopDevice::numbered("loop-of-nobody", sequence, "/mnt/drive/nvme0n1".into())
    }

    #[test]
    fn lines_survive_writing_and_reading() {
        let written = line(&bogus(7)).unwrap();
        assert_eq!(written, "loop-of-nobody 7 nvme0n1\n");
        assert_eq!(device(written.trim_end(), Path::new("/mnt/drive")), Some(bogus(7)));
        for bad in
            ["", "loop1", "loop1 x nvme0n1", "sda 1 nvme0n1", "loop/../sda 1 n", "loop1 1 ../x", "loop1 1 "]
        {
            assert_eq!(device(bad, Path::new("/mnt/drive")), None, "{bad:?}");
        }
    }

    #[test]
    fn only_a_dead_drive_s_record_of_the_same_directory_is_taken() {
        let records = tempfile::tempdir().unwrap();
        let (here, there) = (Path::new("/mnt/drive"), Path::new("/mnt/other"));
        let count = |dir| LeftoverDevices::within(records.path(), dir).records.len();
        let record = LoopRecord::within(records.path(), here).unwrap();
        record.add(&bogus(7));
        assert_eq!(count(here), 0, "the drive lives");
        let path = record.path.clone();
        drop(record);
        assert_eq!((count(here), count(there)), (1, 0));
        let left = LeftoverDevices::within(records.path(), here);
        assert!(left.devices.is_empty(), "not attached any more");
        assert_eq!(count(here), 0, "another start is clearing up");
        left.clear();
        assert!(!path.exists());

        let record = LoopRecord::within(records.path(), here).unwrap();
        let path = record.path.clone();
        record.remove();
        assert!(!path.exists());
        std::fs::write(records.path().join("other-boot"), "tranche 1 0000 2f6d6e742f6472697665\nloop0 1 x\n")
            .unwrap();
        std::fs::write(records.path().join("noise"), [0xff, 0xfe]).unwrap();
        assert_eq!(count(here), 0);
        assert!(records.path().join("other-boot").exists());
    }
}
