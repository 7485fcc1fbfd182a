//! What is tried: layouts of the doublewrite buffer, and MyRocks on zones.

use std::fmt;

use anyhow::{Result, bail};

use crate::{
    doublewrite::{self, layout},
    layout::{Layout, Precondition},
    mariadb::{Server, SystemTablespace, Tuning, Vendor, rocksdb_options},
    mounted_drive::MountedDrive,
    profile, zoned,
};

/// What is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// InnoDB with a layout of its doublewrite buffer.
    InnoDb(doublewrite::Variant),
    /// MyRocks on a store on zones.
    Rocks,
}

impl Variant {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::InnoDb(variant) => variant.name(),
            Self::Rocks => "myrocks-zones",
        }
    }

    /// Tells the random numbers of variants apart.
    pub(super) fn number(self) -> u64 {
        match self {
            Self::InnoDb(variant) => variant as u64,
            Self::Rocks => 100,
        }
    }

    /// The storage engine of its tables.
    pub(super) fn engine(self) -> &'static str {
        if self == Self::Rocks { "RocksDB" } else { "InnoDB" }
    }

    /// Whether it must lose nothing.
    pub(super) fn is_safe(name: &str) -> bool {
        name != doublewrite::Variant::Off.name()
    }

    /// Whether capacitors protect the drive. Contents of DRAM outlive a power cut only where they do. The other variants must do without, which is
    /// harder: everything that was not flushed is gone.
    pub(super) fn is_protected(self) -> bool {
        self == Self::InnoDb(doublewrite::Variant::Dram)
    }

    pub(super) fn tuning(self) -> Tuning {
        let doublewrite = match self {
            Self::InnoDb(variant) => variant.doublewrite(),
            Self::Rocks => true,
        };
        let extra = if self == Self::Rocks { rocksdb_options(16) } else { Vec::new() };
        // The binary log would bring back what a storage engine has lost.
        let binlog = self != Self::Rocks;
        Tuning { buffer_pool_mib: 16, redo_mib: 64, doublewrite, binlog, extra, ..Tuning::default() }
    }

    /// The drive and what is on it. `media` are those of the drive's NVM Sets. MyRocks has the drive of the study of zones.
    ///
    /// # Errors
    /// The drive lacks a medium, or the server has no MyRocks.
    pub(super) fn layout(self, drive: &str, media: &[String], server: &Server) -> Result<Layout> {
        let mut layout = match self {
            Self::InnoDb(variant) => {
                layout(variant.family(), drive, media, &[variant], server.has_doublewrite_dir())?
            }
            Self::Rocks if server.vendor != Vendor::MariaDb => {
                bail!(
                    "{} has no MyRocks plug-in as MariaDB has it: leave out the variant myrocks-zones",
                    server.title
                )
            }
            Self::Rocks => {
                let name = zoned::live::DEFAULT_PROFILE;
                zoned::live::Variant::Zones.layout(name, &profile::table(name)?)?
            }
        };
        layout.name = format!("powercut-{self}");
        // Cuts are about what is in flight, not about an aged drive.
        layout.precondition = Precondition::None;
        let drive = layout.overrides.entry("drive").or_insert_with(|| toml::Table::new().into());
        if let Some(drive) = drive.as_table_mut() {
            drive.insert("power_loss_protection".into(), self.is_protected().into());
        }
        Ok(layout)
    }

    /// Where the system tablespace goes.
    ///
    /// # Errors
    /// When the layout lacks the namespace.
    pub(super) fn system(self, mounted: &MountedDrive) -> Result<SystemTablespace> {
        match self {
            Self::InnoDb(variant) => variant.system(mounted),
            Self::Rocks => Ok(SystemTablespace::BesideData),
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
