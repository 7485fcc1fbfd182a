//! What is compared live, and the drive that it is on.

use anyhow::{Context, Result};
use tier::{Mode, PolicyKind};
use toml::{Table, Value};

use crate::oltp::{
    options::{Live, Options},
    published,
};
use lab_databases::{
    layout::{Filesystem, Layout, Namespace, Size},
    mounted_drive::Tier,
    scratch::Scratch,
};
use lab_engines::machine::CacheSizes;
use lab_report::{profile, scaled_drive::Scale};

/// Where the database is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Disk,
    Nvme,
    /// On the disk, behind a cache on the NVMe drive.
    Cache {
        mode: Mode,
        policy: PolicyKind,
    },
}

/// A variant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Setup {
    pub name: &'static str,
    pub about: &'static str,
    pub place: Place,
    pub doublewrite: bool,
    /// The same in virtual time, from an empty buffer pool where there is such a variant.
    pub in_virtual_time: &'static str,
}

const fn setup(
    name: &'static str,
    about: &'static str,
    place: Place,
    in_virtual_time: &'static str,
) -> Setup {
    Setup { name, about, place, doublewrite: false, in_virtual_time }
}

const fn cache(mode: Mode, policy: PolicyKind) -> Place {
    Place::Cache { mode, policy }
}

/// What is compared.
pub(super) const SETUPS: [Setup; 6] = [
    setup("hdd", "The hard disk.", Place::Disk, "hdd-cold"),
    Setup {
        doublewrite: true,
        ..setup("hdd-doublewrite", "The same with the doublewrite buffer.", Place::Disk, "hdd-doublewrite")
    },
    setup("nvme", "The NVMe drive.", Place::Nvme, "nvme-cold"),
    setup(
        "cache-writethrough",
        "The disk behind a cache on the NVMe drive: policy mq, lvm2's default mode.",
        cache(Mode::Writethrough, PolicyKind::Mq),
        "cache-writethrough",
    ),
    setup(
        "cache-writeback",
        "The same in writeback mode.",
        cache(Mode::Writeback, PolicyKind::Mq),
        "cache-cold",
    ),
    setup(
        "cache-smq",
        "The same in writeback mode with today's policy smq.",
        cache(Mode::Writeback, PolicyKind::Smq),
        "cache-smq-cold",
    ),
];

/// What is run: all, or the disk, the NVMe drive and one cache where it has to be quick.
pub(super) fn chosen(options: &Options) -> Vec<Setup> {
    let quick = ["hdd", "nvme", "cache-smq"];
    SETUPS.into_iter().filter(|setup| !options.quick || quick.contains(&setup.name)).collect()
}

/// Namespace on the disk.
pub(super) const DISK: &str = "disk";
/// Namespace on the NVMe drive with a database of its own.
pub(super) const NVME: &str = "nvme";
/// Namespaces of the tier.
const CACHE: (&str, &str) = ("cache", "metadata");
/// lvm2's default. It is not scaled: a page of the database is not either.
const CHUNK: &str = "64KiB";
/// Rows that make a database at least.
const LEAST_ROWS: u64 = 10_000;

/// Everything that is scaled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    pub rows: u64,
    /// MiB of the buffer pool.
    pub pool_mib: u64,
    /// MiB of the redo log.
    pub redo_mib: u64,
    /// Measured seconds on the wall's clock.
    pub seconds: u64,
}

pub(super) fn scale(live: &Live) -> Scale {
    Scale { capacity: live.scale, slow_motion: live.slow_motion }
}

impl Sizes {
    /// A smaller buffer pool is full in less time, drives in slow motion take more: so much of both has the measured time.
    pub(super) fn of(options: &Options, live: &Live) -> Self {
        let scale = scale(live);
        let mib = |bytes| scale.bytes(bytes) >> 20;
        let seconds = options.seconds * u64::from(live.slow_motion) / u64::from(live.scale);
        Self {
            rows: (options.rows / u64::from(live.scale)).max(LEAST_ROWS),
            pool_mib: mib(options.pool).max(8),
            redo_mib: if options.quick { 16 } else { mib(published::REDO).max(16) },
            seconds: if options.quick { 3 } else { seconds.max(10) },
        }
    }
}

/// One drive with two NVM Sets: the disk, and the flash of the NVMe drive. Controller and link are the NVMe drive's.
///
/// # Errors
/// A profile does not exist, or cannot be scaled.
pub(super) fn drive(options: &Options, live: &Live) -> Result<Table> {
    let scaled = |name: &str| -> Result<Table> {
        let of = || scale(live).of(&profile::table(name)?);
        of().with_context(|| format!("the drive {name}, with 1/{} of its capacity", live.scale))
    };
    let (disk, mut drive) = (scaled(&options.disk)?, scaled(&options.nvme)?);
    let set = |table: &Table| table.get("set").and_then(|sets| sets.get(0)).cloned();
    let sets = [set(&disk), set(&drive)].into_iter().flatten().collect();
    drive.insert("set".into(), Value::Array(sets));
    live::Config::from_toml(&toml::to_string(&drive)?).context("a drive of the disk and the NVMe drive")?;
    Ok(drive)
}

/// The drive with its namespaces.
///
/// # Errors
/// The scratch directory is full.
pub(super) fn layout(live: &Live, drive: &Table, scratch: &Scratch) -> Result<Layout> {
    let path = scratch.dir("drives")?.join("oltp.toml");
    std::fs::write(&path, toml::to_string(drive)?).with_context(|| format!("writing {}", path.display()))?;
    let bytes = |bytes| Size::Bytes(scale(live).bytes(bytes));
    let sizes = CacheSizes::PUBLISHED;
    let xfs = |name, set| Namespace {
        filesystem: Filesystem::Xfs,
        ..Namespace::raw(name, set, bytes(sizes.origin))
    };
    let namespaces = vec![
        xfs(DISK, 1),
        xfs(NVME, 2),
        Namespace::raw(CACHE.0, 2, bytes(sizes.cache)),
        // Metadata of a chunk is not smaller than published: 16 MiB hold more than is needed.
        Namespace::raw(CACHE.1, 2, Size::Bytes(16 << 20)),
    ];
    Ok(Layout::new("oltp", Some(path.display().to_string()), namespaces))
}

impl Setup {
    /// Namespace with the database.
    pub(super) fn namespace(&self) -> &'static str {
        if self.place == Place::Nvme { NVME } else { DISK }
    }

    /// The cache tier, if it has one.
    pub(super) fn tier(&self) -> Option<Tier> {
        let Place::Cache { mode, policy } = self.place else { return None };
        let settings =
            [("chunk", CHUNK.to_owned()), ("mode", mode.to_string()), ("policy", policy.to_string())];
        Some(Tier {
            name: format!("oltp-{}", std::process::id()),
            origin: DISK.into(),
            cache: CACHE.0.into(),
            metadata: CACHE.1.into(),
            settings: settings.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_published_ones_scaled() {
        let (options, live) = (Options::default(), Live::default());
        let sizes = Sizes::of(&options, &live);
        assert_eq!(sizes, Sizes { rows: 390_625, pool_mib: 32, redo_mib: 256, seconds: 84 });
        let quick = Sizes::of(&Options { quick: true, ..options }, &live);
        assert_eq!((quick.seconds, quick.redo_mib), (3, 16));
    }

    #[test]
    fn the_drive_has_room_for_all_namespaces() {
        let (options, parent) = (Options::default(), tempfile::tempdir().unwrap());
        let scratch = Scratch::new(parent.path(), &lab_report::control::Cancel::default()).unwrap();
        for scale in [64, 256, 400] {
            let live = Live { scale, ..Live::default() };
            let drive = drive(&options, &live).unwrap();
            let layout = layout(&live, &drive, &scratch).unwrap();
            layout.check().unwrap();
            let config = live::Config::from_toml(&toml::to_string(&drive).unwrap()).unwrap();
            for (set, number) in config.ftl.sets.iter().zip(1..) {
                let of_it = layout.namespaces.iter().filter(|namespace| namespace.set == number);
                let bytes = of_it.map(|namespace| match namespace.size {
                    Size::Bytes(bytes) => bytes,
                    Size::Rest => 0,
                });
                assert!(
                    bytes.sum::<u64>() <= u64::from(set.capacity_pages()) * 4096,
                    "scale {scale}, set {number}"
                );
            }
        }
    }

    #[test]
    fn only_caches_have_a_tier_and_all_have_an_equal_in_virtual_time() {
        for setup in SETUPS {
            assert_eq!(setup.tier().is_some(), setup.name.starts_with("cache"));
            let found = super::super::super::setup::SETUPS.iter().any(|of| of.name == setup.in_virtual_time);
            assert!(found, "{}", setup.in_virtual_time);
        }
    }
}
