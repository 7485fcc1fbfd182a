//! All block devices of a drive, which follow its namespaces.

use super::control::Driver;
use super::device::{UblkDevice, suits};
use super::error::UblkError;
use crate::backend::{Backend, Follower};
use crate::file_table::{Changes, File};
use crate::request_queue::RequestQueue;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A namespace that is a block device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exported {
    /// Name of its block file: `nvme0n1`.
    pub name: String,
    /// The block device: `/dev/ublkb0`.
    pub node: PathBuf,
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes per logical block.
    pub block_size: u32,
}

/// The conventional namespaces of a drive as block devices. [`stop`](Devices::stop) them in the end; dropping them does the same, but can only log
/// what was in the way.
pub struct Devices {
    shared: Arc<Shared>,
    backend: Arc<Backend>,
}

struct Shared {
    requests: Arc<RequestQueue>,
    state: Mutex<State>,
}

struct State {
    driver: Driver,
    /// By inode number, which no other namespace gets.
    devices: BTreeMap<u64, (Exported, UblkDevice)>,
}

impl Devices {
    /// Makes a block device of each conventional namespace, and follows the drive from then on. What killed processes of this program have left is
    /// removed first.
    ///
    /// # Errors
    /// The driver is not there, cannot be used, or refuses a device. No device is left then.
    pub fn start(backend: &Arc<Backend>) -> Result<Self, UblkError> {
        let mut driver = Driver::open()?;
        for device in driver.clean() {
            tracing::info!("removed what a process that was killed had left of /dev/ublkb{device}");
        }
        let state = Mutex::new(State { driver, devices: BTreeMap::new() });
        let shared = Arc::new(Shared { requests: backend.requests().clone(), state });
        // From here on, dropping it on an error cleans up.
        let devices = Devices { shared: shared.clone(), backend: backend.clone() };
        let attach = |files: &[Arc<File>]| files.iter().try_for_each(|file| shared.attach(file));
        backend.subscribe(shared.clone(), attach)?;
        Ok(devices)
    }

    /// The devices as they are now, by the age of their namespaces.
    pub fn exported(&self) -> Vec<Exported> {
        self.shared.state().devices.values().map(|(exported, _)| exported.clone()).collect()
    }

    /// Removes the devices. The kernel writes what file systems on them have in memory.
    ///
    /// Returns what was in the way, a sentence for each. Doing it twice is harmless.
    pub fn stop(&mut self) -> Vec<String> {
        let follower: Arc<dyn Follower> = self.shared.clone();
        self.backend.unsubscribe(&follower);
        let mut state = self.shared.state();
        let State { driver, devices } = &mut *state;
        let devices = std::mem::take(devices).into_values();
        devices.filter_map(|(_, device)| device.remove(driver).err()).map(|error| error.to_string()).collect()
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        for obstacle in self.stop() {
            tracing::warn!("{obstacle}");
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attach(&self, file: &Arc<File>) -> Result<(), UblkError> {
        let name = file.name();
        if let Err(why) = suits(file) {
            tracing::warn!("{name}: no ublk device, because {why}");
            return Ok(());
        }
        let mut state = self.state();
        let device = UblkDevice::start(&mut state.driver, &self.requests, file)?;
        let node = device.node();
        let exported =
            Exported { name, node, bytes: file.namespace.bytes(), block_size: file.namespace.block_size() };
        state.devices.insert(file.ino, (exported, device));
        Ok(())
    }
}

impl Follower for Shared {
    fn follow(&self, changes: &Changes) {
        for file in &changes.gone {
            let mut state = self.state();
            let State { driver, devices } = &mut *state;
            let Some((exported, device)) = devices.remove(&file.ino) else { continue };
            match device.remove(driver) {
                Ok(()) => tracing::info!("{} is gone, it was {}", exported.node.display(), exported.name),
                Err(error) => tracing::warn!("{error}"),
            }
        }
        for file in &changes.new {
            match self.attach(file) {
                Ok(()) => {
                    let state = self.state();
                    if let Some((exported, _)) = state.devices.get(&file.ino) {
                        tracing::info!("{} is {}", exported.node.display(), exported.name);
                    }
                }
                Err(error) => tracing::warn!("{}: no ublk device: {error}", file.name()),
            }
        }
    }
}
