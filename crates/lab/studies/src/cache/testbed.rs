//! The drives, and a cache on them.

use anyhow::{Context, Result};
use blockdev::stack::Shared;
use live::Config;
use sim::MachineDevice;
use toml::Table;

use super::{
    options::Options,
    setup::{Design, Load, Made, Ssd},
};
use lab_engines::machine::{
    Attachment, CacheSizes, Drives, Played, SharedDevice, Tier, cached, config, partition, play, whole,
};
use lab_report::{control::Control, counters::Counters};

/// The TOML of the drives.
pub(super) struct DriveTables {
    pub disk: Table,
    pub nvme: Table,
    pub sas: Table,
}

/// What the loads run on: the disk alone, or behind a cache.
pub(super) struct Testbed {
    drives: Drives,
    store: Store,
    /// The number of the SSD among the drives.
    ssd: usize,
}

/// What a load's device is.
enum Store {
    Disk(SharedDevice),
    Cache(Shared<Tier>),
}

/// What a load has found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    pub played: Played,
    /// Of the requests of the load.
    pub hit_percent: f64,
    pub promotions: u64,
    pub demotions: u64,
    /// Chunks that are dirty at the end.
    pub dirty: u32,
    /// Chunks in the cache at the end.
    pub resident: u32,
}

impl DriveTables {
    /// # Errors
    /// One of them is no drive.
    pub(super) fn check(&self) -> Result<()> {
        for (table, name) in [(&self.disk, "disk"), (&self.nvme, "nvme"), (&self.sas, "sas")] {
            config(table).with_context(|| format!("--{name}"))?;
        }
        Ok(())
    }
}

impl Testbed {
    /// The disk alone, or behind a cache.
    ///
    /// # Errors
    /// A drive is too small, or the cache cannot be made.
    pub(super) fn new(
        options: &Options,
        tables: &DriveTables,
        made: Option<Made>,
        seed: u64,
    ) -> Result<Self> {
        let mut drives = Drives::new(options.path);
        let behind = Attachment::Sas(options.controller);
        let disk = drives.add_shared(&tables.disk, behind)?;
        let Some(made) = made else {
            return Ok(Self { drives, store: Store::Disk(disk), ssd: 0 });
        };
        let (table, attachment) = match made.ssd {
            Ssd::Nvme => (&tables.nvme, Attachment::Nvme),
            Ssd::Sas => (&tables.sas, behind),
        };
        let ssd = drives.add_shared(table, attachment)?;
        let config = tier::Config {
            chunk: made.chunk,
            mode: made.mode,
            policy: made.policy,
            migration_threshold: made.threshold,
            ..tier::Config::default()
        };
        let tier = cached(&drives, &disk, &ssd, CacheSizes::PUBLISHED, config, seed)?;
        Ok(Self { drives, store: Store::Cache(tier), ssd: 1 })
    }

    /// A design of a cache on an NVMe drive, of these sizes.
    ///
    /// # Errors
    /// A drive is too small, or the cache cannot be made.
    pub(super) fn of_design(
        options: &Options,
        disk: &Table,
        ssd: Config,
        sizes: CacheSizes,
        design: Design,
        seed: u64,
    ) -> Result<Self> {
        let mut drives = Drives::new(options.path);
        let disk = drives.add_shared(disk, Attachment::Sas(options.controller))?;
        let (shared, ssd) = drives.add_nvme(ssd)?;
        let store = match design {
            Design::Disk => Store::Disk(disk),
            Design::Chunks(policy) => {
                let config = tier::Config { chunk: 64 << 10, policy, ..tier::Config::default() };
                Store::Cache(cached(&drives, &disk, &shared, sizes, config, seed)?)
            }
        };
        Ok(Self { drives, store, ssd })
    }

    /// What the SSD has counted so far.
    ///
    /// # Errors
    /// It does not answer.
    pub(super) fn ssd(&self) -> Result<Counters> {
        self.drives.counters(self.ssd)
    }

    /// Bytes of memory of what the cache knows.
    pub(super) fn memory(&self) -> usize {
        match &self.store {
            Store::Disk(_) => 0,
            Store::Cache(tier) => tier.with(|tier| tier.core().memory()),
        }
    }

    /// Bytes of the cache's places, those that are cached, and those that are dirty.
    pub(super) fn space(&self) -> [u64; 3] {
        match &self.store {
            Store::Disk(_) => [0; 3],
            Store::Cache(tier) => tier.with(|tier| {
                let status = tier.core().status();
                let (resident, all) = status.cache_blocks;
                [all, resident, status.dirty].map(|chunks| u64::from(chunks) * (64 << 10))
            }),
        }
    }

    fn device(&self) -> Result<MachineDevice> {
        match &self.store {
            Store::Disk(disk) => Ok(Box::new(partition(disk, "the disk", 0, CacheSizes::PUBLISHED.origin)?)),
            Store::Cache(tier) => whole(tier),
        }
    }

    /// The cache, if there is one.
    fn tier(&self) -> Option<&Shared<Tier>> {
        match &self.store {
            Store::Disk(_) => None,
            Store::Cache(tier) => Some(tier),
        }
    }

    /// Runs a load of a design, until `enough` bytes are in the cache, if that is no 0. Reads and writes that the cache answered, of all.
    ///
    /// # Errors
    /// A request failed; an interruption.
    pub(super) fn run_design(
        &self,
        job: &str,
        seed: u64,
        control: &Control,
        enough: u64,
    ) -> Result<(Played, f64)> {
        let cached = || match &self.store {
            Store::Disk(_) => 0,
            Store::Cache(tier) => u64::from(tier.with(|tier| tier.core().resident())) * (64 << 10),
        };
        let hits = || match &self.store {
            Store::Disk(_) => (0, 0),
            Store::Cache(tier) => tier.with(|tier| {
                let it = *tier.core().counters();
                (it.read_hits + it.write_hits, it.read_misses + it.write_misses)
            }),
        };
        let before = hits();
        let full = |_| enough > 0 && cached() >= enough;
        let played = play(&self.drives, self.device()?, job, seed, control, full)?;
        let after = hits();
        let (hits, misses) = (after.0 - before.0, after.1 - before.1);
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        let percent = hits as f64 * 100.0 / (hits + misses).max(1) as f64;
        Ok((played, percent))
    }

    /// Runs a load on the first `bytes` for so many microseconds, or until `enough` says so of the chunks that are in the cache.
    ///
    /// # Errors
    /// A request failed; an interruption.
    pub(super) fn run(
        &self,
        load: &Load,
        bytes: u64,
        micros: u64,
        seed: u64,
        control: &Control,
        enough: impl Fn(u32) -> bool,
    ) -> Result<Outcome> {
        let status = || self.tier().map(|tier| tier.with(|tier| tier.core().status()));
        let resident = |_| {
            // Reading the status makes lists; the counter alone is cheap.
            self.tier().is_some_and(|tier| enough(tier.with(|tier| tier.core().resident())))
        };
        let before = status();
        let played = play(&self.drives, self.device()?, &load.text(bytes, micros), seed, control, resident)?;
        let mut outcome = Outcome { played, ..Outcome::default() };
        if let Some((before, after)) = before.zip(status()) {
            let (b, a) = (before.counters, after.counters);
            let hits = a.read_hits + a.write_hits - b.read_hits - b.write_hits;
            let misses = a.read_misses + a.write_misses - b.read_misses - b.write_misses;
            #[expect(clippy::cast_precision_loss, reason = "for reading")]
            let percent = hits as f64 * 100.0 / (hits + misses).max(1) as f64;
            outcome = Outcome {
                hit_percent: percent,
                promotions: a.promotions - b.promotions,
                demotions: a.demotions - b.demotions,
                dirty: after.dirty,
                resident: after.cache_blocks.0,
                ..outcome
            };
        }
        Ok(outcome)
    }
}
