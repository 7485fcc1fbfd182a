//! Whether a store contradicts itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::device::{Condition, ZoneDevice};
use crate::error::Error;
use crate::record::Ino;
use crate::store::Store;
use crate::tree::{Kind, Tree};

/// What [`Store::check`] found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Report {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Blocks of files.
    pub blocks: u64,
    /// Runs that they lie in.
    pub extents: u64,
    /// What is wrong, one sentence each.
    pub problems: Vec<String>,
}

/// The paths of files, each by one of its names.
fn paths(tree: &Tree, files: BTreeSet<Ino>) -> BTreeMap<Ino, String> {
    let directories = tree.inodes().filter_map(|(ino, inode)| Some((ino, inode.directory()?)));
    let named =
        directories.flat_map(|(above, directory)| directory.names.iter().map(move |one| (above, one)));
    let found: Vec<_> = named.filter(|(_, (_, ino))| files.contains(ino)).collect();
    let path = |(above, (name, ino)): (Ino, (&Vec<u8>, &Ino))| {
        let mut parts = vec![name.as_slice()];
        let mut below = above;
        while below != Ino::ROOT && parts.len() <= tree.count() {
            let directory = tree.get(below)?.directory()?;
            let above = tree.get(directory.parent)?.directory()?;
            parts.push(above.names.iter().find(|(_, ino)| **ino == below)?.0);
            below = directory.parent;
        }
        let all = parts.iter().rev().map(|part| format!("/{}", String::from_utf8_lossy(part)));
        Some((*ino, all.collect::<String>()))
    };
    found.into_iter().filter_map(path).collect()
}

impl<D: ZoneDevice> Store<D> {
    /// Looks for contradictions: names of what is not there, files without names, blocks of two files, blocks behind the end of what a zone
    /// holds. Looks for files that have lost blocks, as their zone went offline. With `data`, reads all others.
    ///
    /// # Errors
    /// The device failed.
    pub fn check(&self, data: bool) -> Result<Report, Error> {
        let zones = self.device.zones()?;
        let shape = self.device.shape();
        let state = self.lock();
        let mut report = Report::default();
        let mut problems = Vec::new();
        let mut runs = Vec::new();
        let mut named: BTreeSet<Ino> = BTreeSet::from([Ino::ROOT]);
        let mut names = BTreeMap::<Ino, u32>::from([(Ino::ROOT, 1)]);
        for (ino, inode) in state.tree.inodes() {
            match &inode.kind {
                Kind::File(contents) => {
                    report.files += 1;
                    runs.extend(contents.extents.iter().map(|(_, run)| (run, ino)));
                }
                Kind::Directory(directory) => {
                    report.directories += 1;
                    let is_directory =
                        |ino: &&Ino| state.tree.get(**ino).is_some_and(|inode| inode.directory().is_some());
                    let within = directory.names.values().filter(is_directory).count();
                    if within != directory.directories as usize {
                        let says = directory.directories;
                        problems
                            .push(format!("directory {} has {within} directories, and says {says}", ino.0));
                    }
                    for (name, ino) in &directory.names {
                        named.insert(*ino);
                        *names.entry(*ino).or_default() += 1;
                        if state.tree.get(*ino).is_none() {
                            let name = String::from_utf8_lossy(name);
                            problems.push(format!("the name '{name}' is that of nothing"));
                        }
                    }
                }
                Kind::Symlink(_) => report.symlinks += 1,
            }
        }
        for (ino, inode) in state.tree.inodes() {
            let (has, says) = (names.get(&ino).copied().unwrap_or(0), inode.names);
            if has != says {
                problems.push(format!("inode {} has {has} names, and says that it has {says}", ino.0));
            }
            if !state.tree.is_within(ino, Ino::ROOT) && inode.directory().is_some() && has > 0 {
                problems.push(format!("directory {} cannot be reached from the top directory", ino.0));
            }
        }
        let is_offline =
            |zone: u32| zones.get(zone as usize).is_some_and(|state| state.condition == Condition::Offline);
        // What files have lost, by file and zone.
        let mut lost = BTreeMap::<(Ino, u32), u64>::new();
        for (run, ino) in &runs {
            let zone = shape.zone_of(run.lba);
            if is_offline(zone) {
                *lost.entry((*ino, zone)).or_default() += run.blocks;
            }
        }
        let paths = paths(&state.tree, lost.keys().map(|(ino, _)| *ino).collect());
        for ((ino, zone), blocks) in lost {
            let name = paths.get(&ino).map_or_else(|| "a file without a name".to_owned(), Clone::clone);
            let number = ino.0;
            problems.push(format!(
                "{name} (inode {number}) has lost {blocks} blocks: zone {zone} is offline. What it had elsewhere can be read"
            ));
        }
        drop(state);
        runs.sort_by_key(|(run, _)| run.lba);
        for pair in runs.windows(2) {
            let [(first, one), (second, other)] = pair else { continue };
            if first.lba + first.blocks > second.lba {
                let block = second.lba;
                problems.push(format!("block {block} belongs to the inodes {} and {}", one.0, other.0));
            }
        }
        for (run, ino) in &runs {
            report.blocks += run.blocks;
            report.extents += 1;
            let zone = shape.zone_of(run.lba);
            let end = run.lba + run.blocks - shape.start_of(zone);
            if is_offline(zone) {
                continue;
            }
            match zones.get(zone as usize) {
                Some(state) if end <= state.written => {}
                _ => problems.push(format!("inode {} has blocks behind the end of zone {zone}", ino.0)),
            }
            if data && let Err(error) = self.read_run(run.lba, run.blocks) {
                problems.push(format!("blocks of inode {} cannot be read: {error}", ino.0));
            }
        }
        report.problems = problems;
        Ok(report)
    }

    fn read_run(&self, lba: u64, blocks: u64) -> Result<(), Error> {
        /// Blocks of one read.
        const STEP: u64 = 256;
        let mut buffer = Vec::new();
        for from in (0..blocks).step_by(256) {
            let bytes = STEP.min(blocks - from) * self.block();
            buffer.resize(usize::try_from(bytes).unwrap_or(0), 0);
            self.device.read(lba + from, &mut buffer)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::Simulated;
    use crate::zones::ZoneState;
    use crate::{Attributes, NewKind, Placement};

    fn file(store: &Store<&Simulated>, above: Ino, name: &str) -> Ino {
        store.create(above, name.as_bytes(), NewKind::File, Attributes::default()).unwrap().ino
    }

    /// The zone of a file's first block.
    fn first_zone(store: &Store<&Simulated>, ino: Ino) -> u32 {
        let state = store.lock();
        let (_, run) = state.contents(ino).unwrap().extents.iter().next().unwrap();
        store.device_zone(run.lba)
    }

    #[test]
    fn files_that_lost_a_zone_are_named_and_all_else_is_there() {
        let device = Simulated::formatted();
        let store = Store::open(&device, Placement::None).unwrap();
        let directory = NewKind::Directory;
        let above = store.create(Ino::ROOT, b"some", directory.clone(), Attributes::default()).unwrap().ino;
        let above = store.create(above, b"where", directory, Attributes::default()).unwrap().ino;
        let (lost, whole) = (file(&store, above, "lost"), file(&store, Ino::ROOT, "whole"));
        // The first zone has 48 blocks of the file, the second the others.
        store.write(lost, 0, &[1; 80 * 512], 1).unwrap();
        store.sync_all().unwrap();
        store.write(whole, 0, &[2; 40 * 512], 1).unwrap();
        store.sync_all().unwrap();
        let zone = first_zone(&store, lost);
        device.wear_out(zone, Condition::Offline);
        let is_told = |store: &Store<&Simulated>, read: bool| {
            let problems = store.check(read).unwrap().problems;
            let [problem] = problems.as_slice() else { panic!("{problems:?}") };
            let says =
                format!("/some/where/lost (inode {}) has lost 48 blocks: zone {zone} is offline", lost.0);
            assert!(problem.starts_with(&says), "{problem}");
        };
        is_told(&store, false);
        drop(store);

        // It opens, for reading and for writing. What is lost fails, and is not read as zeroes.
        is_told(&Store::open_read_only(&device).unwrap(), true);
        let store = Store::open(&device, Placement::None).unwrap();
        is_told(&store, true);
        let mut read = vec![9; 512];
        for block in [0, 47] {
            assert!(matches!(store.read(lost, block * 512, &mut read), Err(Error::Device(_))), "{block}");
        }
        let mut read = vec![9; 33 * 512];
        assert_eq!(store.read(lost, 48 * 512, &mut read), Ok(32 * 512));
        assert!(read[..32 * 512] == [1; 32 * 512]);
        let mut read = vec![9; 40 * 512];
        assert_eq!(store.read(whole, 0, &mut read), Ok(40 * 512));
        assert!(read == [2; 40 * 512]);
        let shown = store.zones().into_iter().find(|found| found.zone == zone).unwrap();
        assert_eq!((shown.state, shown.written, shown.live), (ZoneState::Broken, 0, 48));

        // What is written anew lies elsewhere.
        store.write(lost, 0, &[3; 48 * 512], 2).unwrap();
        store.sync_all().unwrap();
        assert_eq!(store.check(true).unwrap().problems, Vec::<String>::new());
    }

    #[test]
    fn garbage_collection_goes_on_without_a_zone_that_went_offline() {
        let device = Simulated::formatted();
        let store = Store::open(&device, Placement::None).unwrap();
        let write = |number: u32| {
            let ino = file(&store, Ino::ROOT, &number.to_string());
            store.write(ino, 0, &[1; 20 * 512], 1).and_then(|()| store.sync_all()).map(|()| ino)
        };
        let full = (0..).find(|number| write(*number) == Err(Error::NoSpace)).unwrap();
        let zone = first_zone(&store, store.find(b"/11").unwrap().ino);
        for number in (0..=full).step_by(2) {
            store.unlink(Ino::ROOT, number.to_string().as_bytes(), 2).unwrap();
        }
        store.sync_all().unwrap();
        device.wear_out(zone, Condition::Offline);
        // More than the zones hold that are empty now.
        for number in 0..full / 2 - 4 {
            write(1000 + number).unwrap_or_else(|error| panic!("{number} of {full}: {error}"));
        }
        let shown = store.zones().into_iter().find(|found| found.zone == zone).unwrap();
        assert_eq!(shown.state, ZoneState::Broken);
        assert!(store.counters().moved_blocks > 0);
        let problems = store.check(true).unwrap().problems;
        assert!(
            !problems.is_empty() && problems.iter().all(|one| one.contains("is offline")),
            "{problems:?}"
        );
    }
}
