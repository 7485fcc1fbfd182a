//! The drives, and a cache on them.

use anyhow::{Context, Result};
use run::sim::MachineDevice;
use stack::Shared;
use toml::Table;

use super::{
    options::Options,
    setup::{Load, Made, Ssd},
};
use crate::{
    control::Control,
    machine::{
        Attachment, CacheSizes, Drives, Played, SharedDevice, Tier, cached, config, partition, play, whole,
    },
};

/// The TOML of the drives.
pub(super) struct DriveTables {
    pub disk: Table,
    pub nvme: Table,
    pub sas: Table,
}

/// What the loads run on: the disk alone, or behind a cache.
pub(super) struct Bed {
    drives: Drives,
    store: Store,
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

impl Bed {
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
            return Ok(Self { drives, store: Store::Disk(disk) });
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
        Ok(Self { drives, store: Store::Cache(tier) })
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
