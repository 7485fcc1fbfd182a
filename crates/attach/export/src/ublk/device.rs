//! A namespace as a block device.

use super::abi::{DeviceInfo, LARGEST_BLOCK, parameters};
use super::control::{Driver, block_node, character_node};
use super::error::UblkError;
use super::queue;
use crate::file_table::File;
use crate::request_queue::RequestQueue;
use rustix::io::Errno;
use std::fs::File as SystemFile;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Queues of a device at most. Each has a thread.
const QUEUES: u16 = 4;
/// Requests of a queue at once.
const DEPTH: u16 = 128;
/// How long others may have the character device open, as udev does when it appears.
const OPENERS_TIMEOUT: Duration = Duration::from_secs(5);

/// A block device. It is there until [`remove`](UblkDevice::remove).
pub struct UblkDevice {
    id: u32,
    threads: Vec<JoinHandle<()>>,
}

/// Whether a namespace can be a block device, or why not, in words.
pub fn suits(file: &File) -> Result<(), &'static str> {
    if file.namespace.zones.is_some() {
        return Err("the namespace is zoned; use --fuse, or attach it over NVMe/TCP");
    }
    if file.namespace.block_size() > LARGEST_BLOCK {
        return Err("its blocks are larger than the 4,096 bytes that the kernel's driver takes");
    }
    Ok(())
}

impl UblkDevice {
    /// Makes the block device of a namespace that [`suits`].
    ///
    /// # Errors
    /// What the driver says. There is no device then.
    pub fn start(
        driver: &mut Driver,
        requests: &Arc<RequestQueue>,
        file: &Arc<File>,
    ) -> Result<Self, UblkError> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let queues = u16::try_from(processors).unwrap_or(QUEUES).min(QUEUES);
        let info = driver.add(queues, DEPTH)?;
        let mut device = UblkDevice { id: info.id, threads: Vec::new() };
        match device.begin(driver, requests, file, info) {
            Ok(()) => Ok(device),
            Err(error) => {
                if let Err(error) = device.remove(driver) {
                    tracing::warn!("{error}");
                }
                Err(error)
            }
        }
    }

    fn begin(
        &mut self,
        driver: &mut Driver,
        requests: &Arc<RequestQueue>,
        file: &Arc<File>,
        info: DeviceInfo,
    ) -> Result<(), UblkError> {
        let name = self.node().display().to_string();
        let set = driver.set_parameters(info.id, parameters(&file.namespace, info.largest));
        set.map_err(UblkError::refused(format!("{name}: setting its size and limits")))?;
        let path = character_node(info.id);
        let character = open(&path).map_err(UblkError::refused(format!(
            "{}: opening it (a container needs a /dev in which new devices appear)",
            path.display()
        )))?;
        for queue in 0..info.queues {
            let thread = queue::serve(&character, queue, info.depth, requests.clone(), file.clone());
            self.threads.push(thread.map_err(UblkError::refused(format!("{name}: serving its queues")))?);
        }
        driver.start(info.id).map_err(UblkError::refused(format!("{name}: starting it")))
    }

    /// The block device.
    pub fn node(&self) -> PathBuf {
        block_node(self.id)
    }

    /// Takes the block device away, and frees its number as soon as nobody has it open any more.
    ///
    /// # Errors
    /// What the driver says.
    pub fn remove(self, driver: &mut Driver) -> Result<(), UblkError> {
        let name = self.node().display().to_string();
        let stopped = driver.stop(self.id);
        if stopped.is_ok() {
            // The driver has given all places of its queues back.
            for thread in self.threads {
                // A panic of it is told by the panic itself.
                let _ = thread.join();
            }
        }
        let removed = driver.delete(self.id);
        stopped.and(removed).map_err(UblkError::refused(format!("{name}: removing it")))
    }
}

/// Opens the character device, which one process at a time can have open.
fn open(path: &std::path::Path) -> io::Result<SystemFile> {
    let begun = Instant::now();
    loop {
        match SystemFile::options().read(true).write(true).open(path) {
            Err(error)
                if [Errno::BUSY, Errno::NOENT]
                    .iter()
                    .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
                    && begun.elapsed() < OPENERS_TIMEOUT =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return opened,
        }
    }
}
