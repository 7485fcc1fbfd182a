//! The driver: devices are made, started, stopped and removed.

use super::abi::{ANY_NUMBER, Control, DeviceInfo, Owner, USER_COPY};
use super::error::UblkError;
use super::ring::ControlRing;
use rustix::io::Errno;
use rustix::process::Pid;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The driver's file.
const CONTROL: &str = "/dev/ublk-control";
/// Devices that there are, as `ublkcN`.
const DEVICES: &str = "/sys/class/ublk-char";

/// What drivers answer to commands that they do not know. The last one is the kernel's ENOTSUPP, which programs should not see.
const UNKNOWN: [Errno; 3] = [Errno::OPNOTSUPP, Errno::INVAL, Errno::from_raw_os_error(524)];

/// The driver.
pub struct Driver(ControlRing);

impl Driver {
    /// The driver of this kernel.
    ///
    /// # Errors
    /// There is none, it is too old, or this process may not use it.
    pub fn open() -> Result<Self, UblkError> {
        Self::at(Path::new(CONTROL))
    }

    fn at(path: &Path) -> Result<Self, UblkError> {
        let file = File::options().read(true).write(true).open(path).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => UblkError::NotAllowed(error),
            _ => UblkError::NoDriver(error),
        })?;
        crate::uring::probe().map_err(UblkError::NoRing)?;
        let mut driver = Driver(ControlRing::new(file).map_err(UblkError::NoRing)?);
        let features = driver.0.send(Control::GetFeatures, ANY_NUMBER, 0, vec![0; 8]);
        let features = features.map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => UblkError::NotAllowed(error),
            _ => UblkError::TooOld,
        })?;
        let features = features.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        if features & USER_COPY == 0 { Err(UblkError::TooOld) } else { Ok(driver) }
    }

    /// Makes a device. What it really has is in the answer.
    ///
    /// # Errors
    /// What the driver says.
    pub fn add(&mut self, queues: u16, depth: u16) -> Result<DeviceInfo, UblkError> {
        let wanted = DeviceInfo::wanted(queues, depth, Owner { process: std::process::id() });
        let made = self.0.send(Control::Add, ANY_NUMBER, 0, wanted.encode()).map_err(|error| match error
            .kind()
        {
            ErrorKind::PermissionDenied => UblkError::NotAllowed(error),
            _ => UblkError::Refused { what: "making a ublk device".into(), reason: error },
        })?;
        Ok(DeviceInfo::decode(&made))
    }

    /// Sets what [`parameters`](super::abi::parameters) says.
    ///
    /// # Errors
    /// What the driver says.
    pub fn set_parameters(&mut self, device: u32, parameters: Vec<u8>) -> io::Result<()> {
        self.0.send(Control::SetParameters, device, 0, parameters).map(drop)
    }

    /// Makes the block device. Its first requests come before this returns.
    ///
    /// # Errors
    /// What the driver says.
    pub fn start(&mut self, device: u32) -> io::Result<()> {
        self.0.send(Control::Start, device, std::process::id().into(), Vec::new()).map(drop)
    }

    /// Takes the block device away. The kernel writes what file systems on it have in memory, as far as it can; requests come meanwhile.
    ///
    /// # Errors
    /// What the driver says.
    pub fn stop(&mut self, device: u32) -> io::Result<()> {
        self.0.send(Control::Stop, device, 0, Vec::new()).map(drop)
    }

    /// Removes a device. Its number is free when nobody has it open any more, for which this does not wait.
    ///
    /// # Errors
    /// What the driver says.
    pub fn delete(&mut self, device: u32) -> io::Result<()> {
        match self.0.send(Control::DeleteLater, device, 0, Vec::new()) {
            Err(error) if is(&error, &UNKNOWN) => {
                // Before Linux 6.9 it waits until nobody has the device open. When this process ends before that, the driver removes it all the same.
                std::thread::Builder::new().name("ublk-remove".into()).spawn(move || {
                    if let Ok(mut driver) = Driver::open() {
                        let _ = driver.0.send(Control::Delete, device, 0, Vec::new());
                    }
                })?;
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// Removes devices that a process of this program has left, which is not there any more: their numbers.
    pub fn clean(&mut self) -> Vec<u32> {
        let left = numbers(Path::new(DEVICES)).into_iter().filter(|device| {
            let info = self.0.send(Control::GetInfo, *device, 0, vec![0; DeviceInfo::SIZE]);
            info.is_ok_and(|info| is_left(&DeviceInfo::decode(&info), is_alive))
        });
        let left: Vec<u32> = left.collect();
        left.into_iter().filter(|device| self.delete(*device).is_ok()).collect()
    }
}

/// Whether nobody serves a device that this program has made. One that is live has somebody: the kernel takes the block device away when its
/// process ends.
fn is_left(info: &DeviceInfo, is_alive: impl Fn(u32) -> bool) -> bool {
    !info.live && info.owner.is_some_and(|owner| !is_alive(owner.process))
}

fn is_alive(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    // One of another user is alive, too.
    process.is_some_and(|process| rustix::process::test_kill_process(process) != Err(Errno::SRCH))
}

/// The numbers of all devices.
fn numbers(devices: &Path) -> Vec<u32> {
    let names = std::fs::read_dir(devices).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut numbers: Vec<u32> =
        names.filter_map(|name| name.to_str()?.strip_prefix("ublkc")?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The character device, through which a device is served.
pub fn character_node(device: u32) -> PathBuf {
    format!("/dev/ublkc{device}").into()
}

/// The block device.
pub fn block_node(device: u32) -> PathBuf {
    format!("/dev/ublkb{device}").into()
}

fn is(error: &io::Error, of: &[Errno]) -> bool {
    of.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_its_cure() {
        let dir = tempfile::tempdir().unwrap();
        let missing = Driver::at(&dir.path().join("ublk-control")).err().unwrap().to_string();
        assert!(missing.contains("modprobe ublk_drv"), "{missing}");
        // A file that is no driver takes no commands.
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let wrong = Driver::at(&file).err().unwrap().to_string();
        assert!(wrong.contains("Linux 6.5") || wrong.contains("io_uring_disabled"), "{wrong}");
    }

    #[test]
    fn only_devices_of_dead_processes_of_this_program_are_left() {
        let of = |owner, live| DeviceInfo { owner, live, ..DeviceInfo::wanted(1, 1, Owner { process: 7 }) };
        let mine = Some(Owner { process: 7 });
        assert!(is_left(&of(mine, false), |_| false));
        assert!(!is_left(&of(mine, false), |_| true), "a device that is being made");
        assert!(!is_left(&of(mine, true), |_| false), "of a process that is not seen from here");
        assert!(!is_left(&of(None, false), |_| false), "of another program");
        assert!(is_alive(std::process::id()) && !is_alive(0) && !is_alive(u32::MAX));
    }

    #[test]
    fn devices_are_listed_by_number() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["ublkc10", "ublkc2", "ublkcx", "other"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(numbers(dir.path()), [2, 10]);
        assert!(numbers(&dir.path().join("none")).is_empty());
    }
}
