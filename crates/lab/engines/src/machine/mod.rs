//! A host with its drives in virtual time: what stands between a load and the media (docs/machine.md).
//!
//! - [`HostPath`] says what the host takes for a request, and [`Controller`] what a storage controller does.
//! - [`Drives`] has the drives on one clock, and gives them as block devices with their way.
//! - [`play`] runs a fio job on such a device.

mod load;
mod path;

use anyhow::{Context, Result};
use blockdev::BlockDevice;
use blockdev::stack::{Partition, Shared};
use live::Config;
use sim::{Contents, Machine, MachineDevice, Sim, SimDevice};
use tier::{Start, TierDevice};

pub use self::load::{Played, play};
pub use self::path::{Controller, HostPath};
use lab_report::counters::Counters;

/// Host NQN of the loads.
const NQN: &str = "nqn.2026-11.io.tranche:machine";

/// How a drive is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attachment {
    /// To the processors, with queues for each of them.
    Nvme,
    /// To a storage controller over SAS.
    Sas(Controller),
}

/// A device that several users share.
pub type SharedDevice = Shared<MachineDevice>;

/// Drives on one clock.
pub struct Drives {
    machine: Machine,
    path: HostPath,
    // A drive lives as long as it.
    drives: Vec<Sim>,
}

impl Drives {
    /// No drives yet, on a new clock.
    pub fn new(path: HostPath) -> Self {
        Self { machine: Machine::new(), path, drives: Vec::new() }
    }

    /// A drive that is prepared, with its clock. Others come beside it.
    pub fn with(path: HostPath, sim: Sim) -> Self {
        Self { machine: sim.machine().clone(), path, drives: vec![sim] }
    }

    /// The clock.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The host.
    pub fn path(&self) -> HostPath {
        self.path
    }

    /// Adds an empty drive; its number.
    fn number(&mut self, config: Config) -> Result<usize> {
        self.drives.push(self.machine.add(config, Contents::None)?);
        Ok(self.drives.len() - 1)
    }

    /// Adds an empty drive. Its first namespace, with its way from the host, for several users.
    ///
    /// # Errors
    /// It cannot be as configured, or has no namespace.
    pub fn add(&mut self, config: Config, attachment: Attachment) -> Result<SharedDevice> {
        let number = self.number(config)?;
        Ok(Shared::new(self.device(number, attachment)?))
    }

    /// The first namespace of a drive, with its way from the host.
    ///
    /// # Errors
    /// It has none.
    pub fn device(&self, number: usize, attachment: Attachment) -> Result<MachineDevice> {
        let mut host = self.drives[number].host(NQN)?;
        let device = SimDevice::new(&mut host, 1).context("opening a namespace")?;
        Ok(match attachment {
            Attachment::Nvme => Box::new(device),
            Attachment::Sas(controller) => self.path.over_sas(controller, device),
        })
    }

    /// Adds an empty drive of this TOML. Its first namespace, with its way from the host, for several users.
    ///
    /// # Errors
    /// It cannot be as configured, or has no namespace.
    pub fn add_shared(&mut self, table: &toml::Table, attachment: Attachment) -> Result<SharedDevice> {
        self.add(config(table)?, attachment)
    }

    /// Adds an empty drive of this configuration, attached over NVMe, for several users; and its number.
    ///
    /// # Errors
    /// It cannot be as configured, or has no namespace.
    pub fn add_nvme(&mut self, config: Config) -> Result<(SharedDevice, usize)> {
        let number = self.number(config)?;
        Ok((Shared::new(self.device(number, Attachment::Nvme)?), number))
    }

    /// What a drive has counted for its first namespace so far.
    ///
    /// # Errors
    /// It does not answer.
    pub fn counters(&self, number: usize) -> Result<Counters> {
        Ok(Counters::read(&mut self.drives[number].host(NQN)?, 1)?)
    }

    /// Lets time pass until then, or not at all if that is over.
    pub fn run_until(&self, time: u64) -> u64 {
        let now = self.machine.now();
        if time < u64::MAX
            && let Some(sim) = self.drives.first()
        {
            sim.run_until(now.max(sim::Nanos(time)));
        }
        self.machine.now().0
    }
}

/// A range of a shared device, in bytes.
///
/// # Errors
/// The device ends before.
pub fn partition(
    shared: &SharedDevice,
    name: &str,
    first: u64,
    bytes: u64,
) -> Result<Partition<MachineDevice>> {
    let geometry = shared.with(|device| BlockDevice::geometry(device));
    let block = u64::from(geometry.block_size);
    shared.partition(first / block, bytes / block).with_context(|| {
        let (has, wants) = (geometry.blocks * block, first + bytes);
        format!(
            "{name}: the drive has {has} bytes, and {wants} are needed: use a larger drive, or smaller sizes"
        )
    })
}

/// A cache tier of such devices.
pub type Tier = TierDevice<MachineDevice, MachineDevice, MachineDevice>;

/// Bytes of the parts of a cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheSizes {
    /// Of the origin, from its first byte on.
    pub origin: u64,
    /// Of the cache, from the first byte of the SSD on.
    pub cache: u64,
    /// Of the metadata, behind it.
    pub metadata: u64,
}

impl CacheSizes {
    /// 200 GB on the disk, 60 GB of cache, 2 GB of metadata: the smallest of the published ranges.
    pub const PUBLISHED: Self =
        Self { origin: 200_000_000_000, cache: 60_000_000_000, metadata: 2_000_000_000 };
}

/// Makes a cache on an SSD in front of a disk. Both drives keep no contents.
///
/// # Errors
/// A drive is too small, or the cache cannot be made.
pub fn cached(
    drives: &Drives,
    disk: &SharedDevice,
    ssd: &SharedDevice,
    sizes: CacheSizes,
    config: tier::Config,
    seed: u64,
) -> Result<Shared<Tier>> {
    let devices: (MachineDevice, MachineDevice, MachineDevice) = (
        Box::new(partition(disk, "the disk", 0, sizes.origin)?),
        Box::new(partition(ssd, "the SSD of the cache", 0, sizes.cache)?),
        Box::new(partition(ssd, "the SSD of the cache", sizes.cache, sizes.metadata)?),
    );
    let config = tier::Config { contents: false, ..config };
    let start = Start::Create { seed, replace: false };
    let now = drives.machine().now().0;
    let tier = tier::open(config, start, devices, now, |tier| drives.run_until(tier.next_work()))
        .context("making the cache")?;
    Ok(Shared::new(tier))
}

/// All of a cache, as a device.
///
/// # Errors
/// It has no blocks.
pub fn whole<D>(tier: &Shared<D>) -> Result<MachineDevice>
where
    D: BlockDevice<Error = std::convert::Infallible> + 'static,
{
    let blocks = tier.with(|tier| BlockDevice::blocks(tier));
    Ok(Box::new(tier.partition(0, blocks).context("the cache has no blocks")?))
}

/// The configuration of a drive's TOML.
///
/// # Errors
/// It is none.
pub fn config(table: &toml::Table) -> Result<Config> {
    Ok(Config::from_toml(&toml::to_string(table)?)?)
}
