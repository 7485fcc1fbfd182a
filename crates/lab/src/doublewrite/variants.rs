//! The layouts that the study compares.

use std::fmt;

use crate::{
    layout::{Filesystem, Layout, Namespace, Precondition, Size},
    mariadb::SystemTablespace,
    mounted_drive::MountedDrive,
};
use anyhow::{Result, bail};

/// A layout of the doublewrite buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// Doublewrite buffer beside the data, on NAND.
    Nand,
    /// Doublewrite buffer on a DRAM namespace of the same drive.
    Dram,
    /// Doublewrite buffer on a persistent memory namespace of the same drive.
    Pmem,
    /// No doublewrite buffer: the upper bound, and unsafe.
    Off,
    /// No doublewrite buffer, on a drive that writes 16 KiB atomically.
    Atomic,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Variant {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Nand, Self::Dram, Self::Pmem, Self::Off, Self::Atomic];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nand => "nand",
            Self::Dram => "dram",
            Self::Pmem => "pmem",
            Self::Off => "off",
            Self::Atomic => "atomic",
        }
    }

    /// That of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variant| variant.name() == name)
    }

    /// What it is, in a sentence.
    pub fn description(self) -> &'static str {
        match self {
            Self::Nand => "Doublewrite buffer beside the data on the NAND namespace.",
            Self::Dram => "Doublewrite buffer on a DRAM namespace of the same drive.",
            Self::Pmem => "Doublewrite buffer on a persistent memory namespace of the same drive.",
            Self::Off => "No doublewrite buffer: the upper bound; a power cut may tear pages.",
            Self::Atomic => "No doublewrite buffer, on a drive that writes 16 KiB atomically.",
        }
    }

    /// Colour in charts.
    pub fn colour(self) -> &'static str {
        match self {
            Self::Nand => "#c2410c",
            Self::Dram => "#2563eb",
            Self::Pmem => "#7c3aed",
            Self::Off => "#6b7280",
            Self::Atomic => "#059669",
        }
    }

    /// Whether InnoDB writes pages twice.
    pub fn doublewrite(self) -> bool {
        !matches!(self, Self::Off | Self::Atomic)
    }

    /// The medium that holds the doublewrite buffer, when it is not the data's.
    pub fn medium(self) -> Option<&'static str> {
        match self {
            Self::Dram => Some("dram"),
            Self::Pmem => Some("pmem"),
            _ => None,
        }
    }

    /// Which prepared drive it starts from: variants of one family share it.
    pub fn family(self) -> Family {
        if self == Self::Atomic { Family::Atomic } else { Family::Standard }
    }

    /// Where the system tablespace goes.
    ///
    /// # Errors
    /// When the layout lacks the namespace.
    pub fn system(self, mounted: &MountedDrive) -> Result<SystemTablespace> {
        let Some(medium) = self.medium() else { return Ok(SystemTablespace::BesideData) };
        let volume = mounted.volume(medium)?;
        Ok(match &volume.mount {
            Some(mount) => SystemTablespace::In(mount.clone()),
            None => SystemTablespace::Raw(volume.device.clone()),
        })
    }
}

/// A prepared drive that several variants start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// The drive of the profile.
    Standard,
    /// The same with an atomic write unit of 16 KiB.
    Atomic,
}

impl Family {
    /// For messages and directories.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Atomic => "atomic",
        }
    }
}

/// Size of the namespace for the doublewrite buffer in the system tablespace, which has 12 MiB.
const SYSTEM_BYTES: u64 = 16 << 20;
/// Size of the namespace for doublewrite files, as published. MySQL 9.7 makes 16 MiB of them for one instance of the buffer pool,
/// and with the file system needs 32 MiB; for eight instances 40 MiB.
const FILES_BYTES: u64 = 64 << 20;

/// The layout of a family: the data's namespace, and one for the doublewrite buffer on every medium that a variant wants.
///
/// # Errors
/// When the drive lacks a medium.
pub fn layout(
    family: Family,
    profile: &str,
    media: &[String],
    variants: &[Variant],
    files_for_doublewrite: bool,
) -> Result<Layout> {
    let mut namespaces = vec![Namespace {
        filesystem: Filesystem::Xfs,
        // Stripe unit and extent size make XFS place every 16 KiB of a file on 16 aligned KiB of the device. Only
        // `atomic` needs that; the others have it too, so that they differ in nothing else.
        mkfs: ["-d", "su=16k,sw=1,extszinherit=4"].map(str::to_owned).to_vec(),
        mount: vec!["noatime".into()],
        ..Namespace::raw("data", 1, Size::Rest)
    }];
    for medium in variants.iter().filter(|v| v.family() == family).filter_map(|v| v.medium()) {
        let Some(set) = media.iter().position(|m| m == medium) else {
            bail!(
                "the drive {profile:?} has no {medium} (its NVM Sets are {}): choose another with --drive, or leave out \
                 the variant with --variants",
                media.join(", ")
            );
        };
        let set = u16::try_from(set + 1).unwrap_or(u16::MAX);
        let bytes = if files_for_doublewrite { FILES_BYTES } else { SYSTEM_BYTES };
        let mut namespace = Namespace::raw(medium, set, Size::Bytes(bytes));
        if files_for_doublewrite {
            namespace.filesystem = Filesystem::Ext4;
            namespace.mount = vec!["noatime".into()];
        }
        namespaces.push(namespace);
    }
    let mut layout = Layout::new(family.name(), Some(profile.to_owned()), namespaces);
    layout.precondition = Precondition::Steady;
    if family == Family::Atomic {
        layout.overrides.insert("drive".into(), atomic_unit());
    }
    Ok(layout)
}

/// The change to a drive's TOML that makes 16 KiB writes atomic.
fn atomic_unit() -> toml::Value {
    let mut drive = toml::Table::new();
    drive.insert("atomic_write".into(), "16KiB".into());
    drive.into()
}
