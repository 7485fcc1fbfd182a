//! The scaled drives of the live study, each with a namespace for each file system.

use anyhow::{Context, Result};
use toml::Table;

use super::super::{
    options::{Live, Options},
    published,
    setup::Kind,
};
use lab_databases::{
    layout::{Layout, Namespace, Precondition, Size},
    scratch::Scratch,
};
use lab_report::{profile, scaled_drive::Scale};

/// The drives, in the order in which they are measured.
pub(super) const KINDS: [Kind; 3] = [Kind::Nvme, Kind::Sas, Kind::Disk];

/// A name as results have it.
pub(super) fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Nvme => "nvme",
        Kind::Sas => "sas-ssd",
        Kind::Disk => "hdd",
    }
}

/// How much less the drives are than the published ones.
pub(super) fn scale(live: &Live) -> Scale {
    Scale { capacity: live.scale, slow_motion: live.slow_motion }
}

/// Bytes of a file: the published 4 GiB, scaled.
pub(super) fn file(live: &Live) -> u64 {
    scale(live).bytes(published::FILE)
}

/// The profile's drive, scaled.
///
/// # Errors
/// There is no such profile, or it cannot be scaled so.
pub(super) fn table(options: &Options, live: &Live, kind: Kind) -> Result<Table> {
    let drive = match kind {
        Kind::Nvme => &options.nvme,
        Kind::Sas => &options.sas,
        Kind::Disk => &options.disk,
    };
    let scaled = || -> Result<Table> {
        let table = scale(live).of(&profile::table(drive)?)?;
        live::Config::from_toml(&toml::to_string(&table)?)?;
        Ok(table)
    };
    scaled().with_context(|| {
        format!("the drive {drive} with 1/{} of its capacity, {} times slower", live.scale, live.slow_motion)
    })
}

/// A drive with its namespaces: each file system has as much of it. SSDs were overwritten at random before.
pub(super) fn layout(
    live: &Live,
    quick: bool,
    kind: Kind,
    table: &Table,
    scratch: &Scratch,
) -> Result<Layout> {
    let path = scratch.dir("drives")?.join(format!("{}.toml", name(kind)));
    std::fs::write(&path, toml::to_string(table)?).with_context(|| format!("writing {}", path.display()))?;
    let set = table.get("set").and_then(|sets| sets.get(0)).context("the drive has no NVM Set")?;
    let capacity = set.get("capacity").and_then(|size| units::parse_size(size.as_str()?).ok());
    let capacity = capacity.context("the NVM Set has no capacity")?;
    let each = (capacity / live.filesystems.len().max(1) as u64) >> 20 << 20;
    let namespaces = live.filesystems.iter().map(|&filesystem| Namespace {
        filesystem: filesystem.into(),
        ..Namespace::raw(filesystem.name(), 1, Size::Bytes(each))
    });
    let mut layout = Layout::new(name(kind), Some(path.display().to_string()), namespaces.collect());
    if kind != Kind::Disk && !quick {
        layout.precondition = Precondition::Steady;
    }
    Ok(layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_have_room_for_their_files() {
        let (options, live) = (Options::default(), Live::default());
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(parent.path(), &lab_report::control::Cancel::default()).unwrap();
        for kind in KINDS {
            let table = table(&options, &live, kind).unwrap();
            let layout = layout(&live, false, kind, &table, &scratch).unwrap();
            layout.check().unwrap();
            live::Config::from_toml(&toml::to_string(&layout.drive_toml().unwrap()).unwrap()).unwrap();
            let Size::Bytes(bytes) = layout.namespaces[0].size else { panic!() };
            // 16 files, that of the buffered run, and what mkfs.xfs asks for.
            assert!(bytes > 18 * file(&live) && bytes > 300 << 20, "{bytes}");
        }
    }
}
