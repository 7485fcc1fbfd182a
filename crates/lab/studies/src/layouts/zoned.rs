//! What is compared: a storage engine, a file system, and how the chips are offered.

use std::fmt;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use toml::{Table, Value};

use lab_databases::layout::{Filesystem, Layout, Namespace, Precondition, Size};

/// The scaled ZN540.
pub const DEFAULT_PROFILE: &str = "zn540-lab";

/// What the live study compares.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Variant {
    /// MyRocks on XFS on a conventional namespace with 7 % of spare
    #[value(name = "myrocks-7")]
    Spare7,
    /// MyRocks on XFS on a conventional namespace with 28 % of spare
    #[value(name = "myrocks-28")]
    Spare28,
    /// MyRocks on a store on zones
    #[value(name = "myrocks-zones")]
    Zones,
    /// InnoDB on XFS on a conventional namespace with 7 % of spare
    #[value(name = "innodb-7")]
    InnoDb,
    /// RocksDB on XFS on a conventional namespace with 7 % of spare
    #[value(name = "rocksdb-7")]
    Rocks7,
    /// RocksDB on XFS on a conventional namespace with 28 % of spare
    #[value(name = "rocksdb-28")]
    Rocks28,
    /// RocksDB with its plug-in on a store on zones
    #[value(name = "rocksdb-zones")]
    RocksZones,
}

/// Thousandths of the media that the published drives offer: 2.0, 1.92 and 1.60 TB of 2 TiB (ATC 2021, section 5).
const OFFERED_PERMILLE: [u64; 3] = [910, 873, 728];

impl Variant {
    /// Whether it is RocksDB alone, under db_bench; the others are databases under sysbench.
    pub(crate) fn is_db_bench(self) -> bool {
        matches!(self, Self::RocksZones | Self::Rocks7 | Self::Rocks28)
    }

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zones => "myrocks-zones",
            Self::Spare7 => "myrocks-7",
            Self::Spare28 => "myrocks-28",
            Self::InnoDb => "innodb-7",
            Self::RocksZones => "rocksdb-zones",
            Self::Rocks7 => "rocksdb-7",
            Self::Rocks28 => "rocksdb-28",
        }
    }

    /// What it is.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Zones => "MyRocks on a store on zones.",
            Self::Spare7 => "MyRocks on XFS on a conventional namespace with 7 % of spare.",
            Self::Spare28 => "MyRocks on XFS on a conventional namespace with 28 % of spare.",
            Self::InnoDb => "InnoDB on XFS on a conventional namespace with 7 % of spare.",
            Self::RocksZones => "RocksDB with its plug-in on a store on zones.",
            Self::Rocks7 => "RocksDB on XFS on a conventional namespace with 7 % of spare.",
            Self::Rocks28 => "RocksDB on XFS on a conventional namespace with 28 % of spare.",
        }
    }

    /// The storage engine as SQL names it.
    pub(crate) fn engine(self) -> &'static str {
        if self == Self::InnoDb { "innodb" } else { "rocksdb" }
    }

    /// The drive of a profile, offered as the variant wants it, with a file system over all of it.
    ///
    /// # Errors
    /// The drive has no zones, or lacks a key.
    pub fn layout(self, profile: &str, drive: &Table) -> Result<Layout> {
        let sets = drive.get("set").and_then(Value::as_array).context("the drive has no NVM Set")?;
        let mut set = sets.first().and_then(Value::as_table).context("the NVM Set is no table")?.clone();
        if set.get("zone").is_none() {
            bail!("NVM Set 1 of the drive {profile:?} has no table zone");
        }
        let integer = |key: &str| {
            let value = set.get(key).and_then(Value::as_integer);
            value
                .and_then(|value| u64::try_from(value).ok())
                .with_context(|| format!("the NVM Set has no {key}"))
        };
        let page = set.get("nand_page").and_then(Value::as_str).context("the NVM Set has no nand_page")?;
        let page: u64 = units::parse_size(page).map_err(|e| anyhow::anyhow!("nand_page: {e}"))?;
        let superblock = integer("dies")? * integer("planes")? * integer("pages_per_block")? * page;
        let superblocks = integer("superblocks")?;
        let offered = |share: u64| superblocks * superblock * share / 1000;
        let (bytes, size, filesystem) = match self {
            Self::Zones | Self::RocksZones => {
                let zones = offered(OFFERED_PERMILLE[0]) / superblock;
                (zones * superblock, zones * superblock.next_power_of_two(), Filesystem::Store)
            }
            Self::Spare7 | Self::InnoDb | Self::Rocks7 => {
                (offered(OFFERED_PERMILLE[1]), offered(OFFERED_PERMILLE[1]), Filesystem::Xfs)
            }
            Self::Spare28 | Self::Rocks28 => {
                (offered(OFFERED_PERMILLE[2]), offered(OFFERED_PERMILLE[2]), Filesystem::Xfs)
            }
        };
        let whole = |bytes: u64| bytes >> 20 << 20;
        set.insert("capacity".into(), format!("{}MiB", bytes.div_ceil(1 << 20)).into());
        if filesystem == Filesystem::Xfs {
            set.remove("zone");
            set.insert("capacity".into(), format!("{}MiB", bytes >> 20).into());
        }
        let size = if filesystem == Filesystem::Store { size } else { whole(size) };
        let mount = if filesystem == Filesystem::Xfs { vec!["noatime".into()] } else { Vec::new() };
        let data = Namespace { filesystem, mount, ..Namespace::raw("data", 1, Size::Bytes(size)) };
        let mut layout = Layout::new(self.name(), Some(profile.to_owned()), vec![data]);
        layout.precondition = Precondition::Steady;
        layout.overrides.insert("set".into(), Value::Array(vec![set.into()]));
        layout.overrides.insert("namespace".into(), Value::Array(Vec::new()));
        Ok(layout)
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_drives() {
        let drive = lab_report::profile::table(DEFAULT_PROFILE).unwrap();
        for variant in Variant::value_variants() {
            let layout = variant.layout(DEFAULT_PROFILE, &drive).unwrap();
            layout.check().unwrap();
            let toml = toml::to_string(&layout.drive_toml().unwrap()).unwrap();
            live::Config::from_toml(&toml).unwrap_or_else(|error| panic!("{variant}: {error}"));
        }
        let conventional = lab_report::profile::table("pblaze5-910-lab").unwrap();
        let refused = Variant::Zones.layout("pblaze5-910-lab", &conventional).unwrap_err().to_string();
        assert!(refused.contains("no table zone"), "{refused}");
    }
}
