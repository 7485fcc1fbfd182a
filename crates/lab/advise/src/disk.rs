//! A database that is not on the drive: on a hard disk or SAS SSD, alone or with a part of the drive as a cache before it.

use anyhow::{Context, Result, bail, ensure};
use live::Config;
use toml::{Table, Value};

use super::{
    database_model::Database,
    layouts::{Arrangement, Place, Plan, size},
    load::Load,
};
use lab_engines::machine::{CacheSizes, Controller, config};
use lab_report::{
    figure::{show, show_size},
    profile,
};

/// Bytes of a chunk: lvm2's default.
pub const CHUNK: u64 = 64 << 10;
/// The cache has one part in so many of the database, if no size is said.
const SHARE: u64 = 4;
/// The smallest cache that is simulated, in chunks.
const LEAST_CHUNKS: u64 = 64;
/// Bytes of metadata for a chunk, and beside that. The tier wants less.
const METADATA: (u64, u64) = (64, 8 << 20);

/// What the database lies on in place of the drive.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Profile or file.
    name: String,
    table: Table,
    controller: Controller,
    /// Bytes of the cache; without them a share of the database.
    cache: Option<u64>,
}

/// A disk and a cache as they are simulated.
#[derive(Clone, Debug)]
pub struct Behind {
    /// The disk.
    pub disk: Config,
    /// What it is attached to.
    pub controller: Controller,
    /// Bytes of it that the database may take with its logs.
    pub bytes: u64,
    /// The cache on the drive, if there is one.
    pub cache: Option<CacheSizes>,
}

impl Disk {
    /// # Errors
    /// There is no such disk, or the cache is too small.
    pub fn new(name: &str, controller: Controller, cache: Option<u64>) -> Result<Self> {
        let table = profile::table(name).context("--disk")?;
        config(&table).context("--disk")?;
        ensure!(
            cache.is_none_or(|bytes| bytes >= 1 << 20),
            "--cache-size is too small: 1MiB or more are possible"
        );
        Ok(Self { name: name.to_owned(), table, controller, cache })
    }

    /// The rows: the disk alone, and with the cache. `configured`: what is configured, on the drive.
    pub fn plans(&self, configured: &Plan, load: &Load) -> [Plan; 2] {
        let twice = configured.arrangement.twice;
        let mut warnings = Vec::new();
        if !twice {
            warnings.push("A power cut may tear a page, and nothing mends it: pages are not written twice, and a disk writes sectors of 512 bytes or 4 KiB.".to_owned());
        }
        let behind = format!("{} on a PERC {}", self.name, self.controller.name().to_uppercase());
        let bytes = self.cache_bytes(load.dataset);
        let percent = show(bytes as f64 * 100.0 / load.dataset.max(1) as f64);
        let disk = Plan {
            name: "disk",
            description: format!("As configured, on a disk in place of the drive: {behind}."),
            arrangement: Arrangement { atomic: false, ..configured.arrangement },
            place: Place::Disk { cache: false },
            needs: Some(format!("a disk ({})", self.name)),
            safe: configured.safe && twice,
            warnings,
            steps: Vec::new(),
        };
        let mut cache = Plan {
            name: "cache",
            description: format!(
                "The same disk with {} of the drive as a cache before it ({percent} % of the database): writeback, smq, chunks of 64 KiB.",
                show_size(bytes)
            ),
            place: Place::Disk { cache: true },
            steps: vec![
                format!(
                    "vgextend VG /dev/nvme0n1, lvcreate --size {} --name fast VG /dev/nvme0n1, and lvconvert --type cache --cachevol fast --cachemode writeback VG/data (lvmcache(7))",
                    size(bytes).replace("iB", "")
                ),
                "To try it here: [[cache]] in a drive's TOML (docs/howto/cache.md).".into(),
            ],
            ..disk.clone()
        };
        cache.warnings.push("Chunks that are not written back yet are on the NVMe drive alone. If it fails, the database is lost: use two that mirror each other.".into());
        [disk, cache]
    }

    /// Bytes of the cache for a database of so many.
    fn cache_bytes(&self, dataset: u64) -> u64 {
        self.cache.unwrap_or(dataset / SHARE).max(1 << 20)
    }

    /// The disk for a database, with a cache or without. `logs`: bytes for database and logs beside which the logs are as large as on the drive.
    ///
    /// # Errors
    /// The database does not fit on the disk.
    pub fn behind(&self, database: &dyn Database, load: &Load, logs: u64, cache: bool) -> Result<Behind> {
        let divisor = database.divisor();
        let disk = self.config(divisor)?;
        let has = disk.namespaces.first().context("the disk has no namespace")?.bytes;
        let dataset = load.dataset / divisor;
        // A quarter more for logs.
        let bytes = (dataset / 4 * 5).max(logs).min(has) / CHUNK * CHUNK;
        if bytes < dataset / 20 * 21 {
            bail!(
                "the database of {} does not fit with its logs on the disk {:?} of {}: name a larger --disk, or a smaller --dataset",
                show_size(load.dataset),
                self.name,
                show_size(has.saturating_mul(divisor))
            );
        }
        let cache = cache.then(|| {
            let chunks = (self.cache_bytes(load.dataset) / divisor / CHUNK).max(LEAST_CHUNKS);
            let metadata = (chunks * METADATA.0 + METADATA.1).next_multiple_of(1 << 20);
            CacheSizes { origin: bytes, cache: chunks * CHUNK, metadata }
        });
        Ok(Behind { disk, controller: self.controller, bytes, cache })
    }

    /// The disk, as much smaller as the database. A hard disk has fewer cylinders with the same seek times, so the database takes the same part of its arm's way.
    fn config(&self, divisor: u64) -> Result<Config> {
        let mut table = self.table.clone();
        let set = table.get_mut("set").and_then(Value::as_array_mut).and_then(|sets| sets.first_mut());
        let set = set.and_then(Value::as_table_mut).context("the disk has no NVM Set")?;
        if set.get("media").and_then(Value::as_str) != Some("disk") {
            let whole = config(&table)?;
            let bytes = whole.namespaces.first().context("the disk has no namespace")?.bytes;
            return Ok(whole.shortened(bytes / divisor).unwrap_or(whole));
        }
        let cylinders = set.get("cylinders").and_then(Value::as_integer).unwrap_or(0);
        let fewer = i64::try_from(u64::try_from(cylinders).unwrap_or(0) / divisor).unwrap_or(0);
        set.insert("cylinders".into(), fewer.max(64).into());
        if let Some(text) = set.get("capacity").and_then(Value::as_str) {
            let bytes = units::parse_size(text).map_err(|wrong| anyhow::anyhow!("its capacity: {wrong}"))?;
            set.insert("capacity".into(), format!("{}MiB", (bytes / divisor) >> 20).into());
        }
        let lba = table
            .get("namespace")
            .and_then(Value::as_array)
            .and_then(|all| all.first()?.get("lba"))
            .cloned()
            .unwrap_or_else(|| "512".into());
        let namespace = Table::from_iter([("size".to_owned(), "rest".into()), ("lba".to_owned(), lba)]);
        table.insert("namespace".into(), vec![Value::Table(namespace)].into());
        config(&table).context("the disk, smaller with the database")
    }

    /// What the figures of these rows do not tell.
    pub fn limits(&self) -> String {
        let disk =
            self.table.get("set").and_then(Value::as_array).and_then(|sets| sets.first()?.get("media"));
        let of = match disk.and_then(Value::as_str) {
            Some("disk") => "It is one disk, and no array, and the database lies side by side at its begin.",
            _ => {
                "It is one disk, and no array, and it begins new: what its garbage collection costs later is not in the figures."
            }
        };
        format!(
            "The disk of \"disk\" and \"cache\" is {}. {of} All of the database and its logs are on it, and behind the cache.",
            self.name
        )
    }
}
