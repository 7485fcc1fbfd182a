//! Whether a store contradicts itself.

use std::collections::BTreeSet;

use crate::device::{Condition, ZoneDevice};
use crate::error::Error;
use crate::record::Ino;
use crate::store::Store;
use crate::tree::Kind;

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

impl<D: ZoneDevice> Store<D> {
    /// Looks for contradictions: names of what is not there, files without names, blocks of two files, blocks behind the end of what a zone
    /// holds. With `data`, reads all blocks.
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
        let mut names = std::collections::BTreeMap::<Ino, u32>::from([(Ino::ROOT, 1)]);
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
            match zones.get(zone as usize) {
                Some(state) if state.condition == Condition::Offline => {
                    problems.push(format!("inode {} has blocks in zone {zone}, which is offline", ino.0));
                }
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
