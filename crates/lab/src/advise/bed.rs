//! The simulated drive with the modelled server on it: one layout, one seed.
//!
//! The drive has the profile's chips with shorter blocks ([`run::Config::shortened`]), so that its garbage collection is steady within seconds of virtual time. The
//! server's buffer pool, its database and its redo log are made smaller together where they are large.

use anyhow::{Context, Result, bail, ensure};
use host::Host;
use run::{
    Config, Precondition,
    sim::{Actors, Contents, Nanos, Sim, SimTransport},
};
use toml::{Table, Value};
use workload::innodb::{self, Counts, Doublewrite, Innodb, PAGE, Volume};

use super::innodb::Database;
use crate::{
    control::Cancel,
    counters::{Counters, NamespaceCounts, total, total_on_flash},
    doublewrite::{
        Variant,
        sim::{drive as study_drive, fitted},
    },
    results::Percentiles,
    sim::Cache,
};

const SECOND: u64 = 1_000_000_000;
/// Bytes that the shortened drive offers at least.
const SHORT: u64 = 16 << 30;
/// Bytes of the drive that the database takes at least, if there is so much: otherwise its pages and logs would be overwritten in the write buffer.
const LEAST: u64 = 8 << 30;
/// The most pages of the pool: a larger one, its database and its log are made smaller together.
const FRAMES: u64 = 128 << 10;
/// Bytes of a namespace for one shard of the doublewrite buffer, with what its file system takes.
const SHARD: u64 = 120 * PAGE + (1 << 20);

/// Where the doublewrite buffer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Beside the data.
    Flash,
    /// On a namespace in the drive's memory.
    Dram,
    /// Nowhere.
    None,
}

/// What is put on the drive.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Connections, without time to think.
    pub connections: u32,
    /// Bytes of the database.
    pub dataset: u64,
    /// Processors that the server has.
    pub processors: u32,
    /// Seconds before the measurement.
    pub warmup: u64,
    /// Measured seconds.
    pub seconds: u64,
}

/// The drive that is modelled.
#[derive(Clone, Debug)]
pub struct Drive {
    /// Its name, or file.
    pub name: String,
    /// Its TOML.
    pub profile: Table,
    /// Percent of it that hold data.
    pub full: u32,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Transactions of each second.
    pub tps: f64,
    /// Commits that waited for the log, in ms; none where they do not.
    pub commit: Option<Percentiles>,
    /// Bytes programmed on flash for each transaction.
    pub nand_bytes: f64,
    /// Bytes that the server wrote for each transaction, to flash.
    pub host_bytes: f64,
    /// Write amplification of the flash.
    pub write_amplification: f64,
    /// Bytes written to all namespaces in a second.
    pub written: f64,
    /// How far throughput still moved within the window, in percent.
    pub drift: f64,
}

impl Drive {
    /// The drive of a variant: all that is there but the namespace of copies and atomicity is the same.
    ///
    /// # Errors
    /// It has no NAND, or cannot be as its TOML says.
    pub fn config(&self, atomic: bool, shards: u32) -> Result<Config> {
        let variant = if atomic { Variant::Atomic } else { Variant::Dram };
        let mut table = study_drive::toml(&self.profile, variant, &self.name)?;
        let copies = u64::from(shards.max(1)).saturating_mul(SHARD).div_ceil(1 << 20) << 20;
        let sets = table.get_mut("set").and_then(Value::as_array_mut).context("the drive has no NVM Set")?;
        if let Some(Value::Table(dram)) = sets.get_mut(1) {
            dram.insert("capacity".into(), format!("{}MiB", copies.max(64 << 20) >> 20).into());
        }
        let namespaces =
            table.get_mut("namespace").and_then(Value::as_array_mut).context("the drive has no namespace")?;
        for (namespace, bytes) in namespaces.iter_mut().zip([None, Some(copies)]) {
            let namespace = namespace.as_table_mut().context("a namespace is no table")?;
            let size = namespace.get("size").and_then(Value::as_str).context("a namespace has no size")?;
            let whole = units::parse_size(size)
                .map_err(|wrong| anyhow::anyhow!("the size of a namespace: {wrong}"))?;
            let bytes = bytes.unwrap_or(whole / 100 * u64::from(self.full));
            namespace.insert("size".into(), format!("{}MiB", (bytes >> 20).max(1)).into());
        }
        Ok(Config::from_toml(&toml::to_string(&table)?)?)
    }

    /// Bytes of its first namespace, and that its flash can take: rated cycles times raw capacity. None if cycles are not said.
    ///
    /// # Errors
    /// Like [`Drive::config`].
    pub fn sizes(&self) -> Result<(u64, Option<u128>)> {
        let config = self.config(false, 1)?;
        let raw = config.ftl.sets.first().context("the drive has no NVM Set")?.properties().raw_pages;
        let sets = self.profile.get("set").and_then(Value::as_array);
        let cycles = sets.and_then(|sets| sets.first()?.get("rated_cycles")?.as_integer());
        let endurance = cycles
            .and_then(|cycles| u128::try_from(cycles).ok())
            .map(|cycles| u128::from(raw) * 4096 * cycles);
        Ok((config.namespaces.first().context("the drive has no namespace")?.bytes, endurance))
    }

    /// Whether what is written at once is atomic in pages of InnoDB.
    pub fn is_atomic(&self) -> bool {
        let drive = self.profile.get("drive").and_then(Value::as_table);
        let unit = drive.and_then(|drive| drive.get("atomic_write")?.as_str());
        unit.and_then(|unit| units::parse_size(unit).ok()).is_some_and(|unit| unit >= PAGE)
    }

    /// Whether memory keeps its content in a power cut.
    pub fn is_protected(&self) -> bool {
        let drive = self.profile.get("drive").and_then(Value::as_table);
        drive.and_then(|drive| drive.get("power_loss_protection")?.as_bool()).unwrap_or(true)
    }
}

/// How much smaller the server's memory, database and log are in the model.
pub fn divisor(database: &Database) -> u64 {
    (database.pool / PAGE).div_ceil(FRAMES).max(1)
}

/// Warehouses of a database of so many bytes.
///
/// # Errors
/// The model refuses it.
fn warehouses(config: &innodb::Config, dataset: u64) -> Result<u32> {
    let pages = |warehouses| {
        let small = innodb::Config { warehouses, pool_pages: 1024, ..config.clone() };
        Innodb::new(small).map(|model| model.data_pages()).context("the drive has no room for the logs")
    };
    let each = ((pages(200)? - pages(100)?) / 100).max(1);
    let fixed = pages(100)?.saturating_sub(each * 100);
    let count = (dataset / PAGE).saturating_sub(fixed) / each;
    Ok(u32::try_from(count).unwrap_or(u32::MAX).clamp(1, 100_000))
}

/// The modelled server.
fn config(
    database: &Database,
    load: &Load,
    place: Place,
    volumes: [Volume; 2],
    seed: u64,
) -> Result<innodb::Config> {
    let smaller = divisor(database);
    let [data, copies] = volumes;
    let fitted = fitted::config(load.connections, data, seed);
    let scan = u64::from(database.scan_depth) / smaller;
    let mut config = innodb::Config {
        filled: 1000,
        pool_pages: u32::try_from(database.pool / smaller / PAGE).unwrap_or(u32::MAX),
        instances: database.instances,
        page_cleaners: database.page_cleaners,
        scan_depth: u32::try_from(scan.max(256)).unwrap_or(u32::MAX),
        io_capacity: database.io_capacity,
        io_capacity_max: database.io_capacity_max,
        dirty_low: database.dirty_low,
        dirty_high: database.dirty_high,
        redo_capacity: (database.redo / smaller).max(4 << 20),
        binlog_change: if database.binlog { fitted.binlog_change } else { 0 },
        journal_times: database.journal_times,
        cores: load.processors,
        flush_at_commit: database.flush_at_commit,
        doublewrite: (place != Place::None).then_some(Doublewrite {
            namespace: u16::from(place == Place::Dram),
            shards: database.shards,
            command: 124 << 10,
        }),
        copies: (place == Place::Dram).then_some(copies),
        ..fitted
    };
    config.warehouses = warehouses(&config, load.dataset / smaller)?;
    Ok(config)
}

/// A drive with the server's host connected to it.
pub struct Bed {
    sim: Sim,
    host: Host<SimTransport>,
    volumes: [Volume; 2],
    nsids: &'static [u32],
    full: u64,
}

impl Bed {
    /// A drive that was written to at random until its garbage collection was steady, or one that was kept.
    ///
    /// # Errors
    /// The drive cannot be so; an interruption.
    pub fn new(drive: &Drive, atomic: bool, shards: u32, cache: &Cache, cancel: &Cancel) -> Result<Self> {
        let whole = drive.config(atomic, shards)?;
        let full = whole.namespaces.first().context("the drive has no namespace")?.bytes;
        let config = whole.shortened(SHORT).unwrap_or(whole);
        let made =
            cache.drive(config, Contents::None, Precondition::Steady, 1, &mut |_| !cancel.is_cancelled());
        cancel.check()?;
        let (sim, _) = made?;
        let mut host = sim.host("nqn.2026-11.io.tranche:advise").context("connecting to the drive")?;
        let mut volume = |nsid| -> Result<Volume> {
            let namespace = host.namespace(nsid)?;
            Ok(Volume { blocks: namespace.blocks, block_bytes: namespace.block_size })
        };
        let data = volume(1)?;
        let (copies, nsids): (_, &[u32]) = if atomic { (data, &[1]) } else { (volume(2)?, &[1, 2]) };
        Ok(Self { sim, host, volumes: [data, copies], nsids, full })
    }

    /// The part of the drive that the database is on: as large beside it as it is beside the whole drive, but not too small.
    fn data(&self, dataset: u64) -> Volume {
        let [data, _] = self.volumes;
        let room = data.blocks.saturating_mul(data.block_bytes.into());
        // A tenth more for logs.
        let wanted = u128::from(dataset) * 11 / 10;
        let share = u128::from(room) * wanted / u128::from(self.full.max(1));
        let bytes = u64::try_from(share).unwrap_or(u64::MAX).max(LEAST).min(room);
        Volume { blocks: bytes / u64::from(data.block_bytes), ..data }
    }

    fn counters(&mut self) -> Result<Vec<NamespaceCounts>> {
        let mut all = Vec::new();
        for &nsid in self.nsids {
            let medium = if nsid == 1 { "nand" } else { "dram" };
            let counted = Counters::read(&mut self.host, nsid)?;
            all.push(NamespaceCounts { nsid, medium: medium.into(), counted, ..NamespaceCounts::default() });
        }
        Ok(all)
    }

    /// Runs the load, and measures it after its warm-up. The drive stays as that leaves it.
    ///
    /// # Errors
    /// The database does not fit, a command failed, or an interruption.
    pub fn run(
        &mut self,
        database: &Database,
        load: &Load,
        place: Place,
        seed: u64,
        cancel: &Cancel,
    ) -> Result<Measured> {
        ensure!(place != Place::Dram || self.nsids.len() > 1, "the drive has no DRAM namespace");
        let volumes = [self.data(load.dataset), self.volumes[1]];
        let config = config(database, load, place, volumes, seed)?;
        let pages = u64::from(config.pool_pages);
        let mut model =
            Innodb::new(config).context("the drive has no room for the logs and the doublewrite buffer")?;
        model.warm(pages / fitted::PAGES_PER_TRANSACTION * 4, fitted::interval(load.connections));
        let mut actors: Actors<Innodb> = self.sim.actors();
        let at = actors.add_over(&mut self.host, self.nsids, model)?;
        let begin = self.sim.now();
        let mut seconds = 0;
        let mut step = |actors: &mut Actors<Innodb>, count: u64| -> Result<Counts> {
            for _ in 0..count {
                seconds += 1;
                actors.run(begin + Nanos(seconds * SECOND), |_| false);
                cancel.check()?;
            }
            let counts = actors.actor(at).counts();
            ensure!(counts.failed == 0, "{} commands failed", counts.failed);
            Ok(counts)
        };
        step(&mut actors, load.warmup)?;
        actors.actor_mut(at).forget_latencies();
        let before = (self.counters()?, actors.actor(at).counts());
        let half = load.seconds / 2;
        let middle = step(&mut actors, half)?;
        let last = step(&mut actors, load.seconds - half)?;
        let after = self.counters()?;
        let commits = actors.actor(at).commits();
        let commit = (database.flush_at_commit && !commits.is_empty()).then(|| Percentiles::of(commits, 1e3));
        actors.actor_mut(at).stop();
        actors.run(Nanos::MAX, |_| false);
        measured(&before, (&after, &middle, &last), load, commit)
    }
}

/// What happened between two moments.
#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn measured(
    before: &(Vec<NamespaceCounts>, Counts),
    (after, middle, last): (&[NamespaceCounts], &Counts, &Counts),
    load: &Load,
    commit: Option<Percentiles>,
) -> Result<Measured> {
    let since = |(before, after): (&NamespaceCounts, &NamespaceCounts)| NamespaceCounts {
        counted: after.counted.since(&before.counted),
        ..after.clone()
    };
    let namespaces: Vec<_> = before.0.iter().zip(after).map(since).collect();
    let sum = |counts: &Counts, from: &Counts| counts.since(from).transactions.iter().sum::<u64>() as f64;
    let (transactions, seconds) = (sum(last, &before.1), load.seconds as f64);
    if transactions < 1.0 {
        bail!("no transaction ended in {seconds} s");
    }
    let half = load.seconds / 2;
    let (first, second) = (sum(middle, &before.1), sum(last, middle));
    let rates = (first / (half.max(1) as f64), second / (load.seconds - half).max(1) as f64);
    let (all, flash) = (total(&namespaces), total_on_flash(&namespaces));
    Ok(Measured {
        tps: transactions / seconds,
        commit,
        nand_bytes: flash.media_bytes_written as f64 / transactions,
        host_bytes: flash.host_bytes_written as f64 / transactions,
        write_amplification: flash.write_amplification().unwrap_or(0.0),
        written: all.host_bytes_written as f64 / seconds,
        drift: if half == 0 { 0.0 } else { (rates.1 / rates.0.max(1e-9) - 1.0) * 100.0 },
    })
}
