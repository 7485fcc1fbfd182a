//! Layouts of InnoDB's doublewrite buffer.

use anyhow::{Result, bail};

use lab_databases::{
    layout::{Filesystem, Layout, Namespace, Precondition, Size},
    mariadb::SystemTablespace,
    mounted_drive::MountedDrive,
};
use lab_models::innodb::{Family, Variant};

/// The scaled PBlaze5 910.
pub const DEFAULT_PROFILE: &str = "pblaze5-910-lab";

/// Where the system tablespace goes.
///
/// # Errors
/// When the layout lacks the namespace.
pub(crate) fn system_tablespace(variant: Variant, mounted: &MountedDrive) -> Result<SystemTablespace> {
    let Some(medium) = variant.medium() else { return Ok(SystemTablespace::BesideData) };
    let volume = mounted.volume(medium)?;
    Ok(match &volume.mount {
        Some(mount) => SystemTablespace::In(mount.clone()),
        None => SystemTablespace::Raw(volume.device.clone()),
    })
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
pub(crate) fn layout(
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
