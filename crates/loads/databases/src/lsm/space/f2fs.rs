//! A log-structured file system, as F2FS is one (C. Lee et al., "F2FS: A New File System for Flash Storage", FAST 2015; Documentation/filesystems/f2fs.rst of Linux).
//!
//! Space is cut into sections. There are three logs for data: hot, warm and cold, by the life that a file is expected to have. All files of one kind write to the same log, which
//! fills one section after the other.
//!
//! - On zones a section is a zone. Where no more sections are free than are reserved, every write waits, and the section with the least data is emptied: cleaning on demand,
//!   greedy. What is moved goes to the cold log.
//! - On a conventional namespace a section is a segment. Where few are free, logs go through the gaps of sections that have data, the emptiest first: threaded logging. Nothing is moved.
//!
//! Not modelled: blocks of nodes (one for 1,018 of data) and checkpoints; cleaning in the background and discards, which both wait until nothing was asked of the file system for five
//! seconds, and so never come under a load; the area of metadata, which has a device of its own if there are zones.

use super::{DeviceIo, Extent, FileId, FileSpace, Files, Hint, Move, Usage, push, reads, replace};
use crate::lsm::config::Lifetime;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use workload::{Verb, ZoneAction};

/// A namespace, and how it is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct F2fsConfig {
    /// How many sections there are.
    pub sections: u32,
    /// Logical blocks from one section to the next, and that can be written to one.
    pub size: u64,
    /// See [`F2fsConfig::size`].
    pub capacity: u64,
    /// Sections that no file may have, those of [`F2fsConfig::reserve`] among them: at least 5 more. Three are for logs.
    pub spare: u32,
    /// Where no more are free than these, sections are cleaned first; and where no more are free than twice as many, logs are threaded. At least 2.
    pub reserve: u32,
    /// Whether sections are zones: they are cleaned and reset. Else logs are threaded.
    pub zones: bool,
}

/// Logs. What is moved goes to the last.
const HOT: usize = 0;
const WARM: usize = 1;
const COLD: usize = 2;

/// The log of a file, as f2fs takes hints of `fcntl(F_SET_RW_HINT)`.
fn log_of(lifetime: Lifetime) -> usize {
    match lifetime {
        Lifetime::Short => HOT,
        Lifetime::Medium | Lifetime::Long => WARM,
        Lifetime::Extreme => COLD,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    /// A log writes to it.
    Log,
    /// It has data, or had some that is about to be forgotten.
    Dirty,
    /// It is being emptied.
    Victim,
    Resetting,
}

#[derive(Clone, Copy, Debug)]
struct Section {
    state: State,
    /// The log that wrote to it last.
    log: usize,
    /// Blocks of files.
    live: u64,
}

#[derive(Clone, Debug)]
struct Log {
    section: u32,
    /// What it still can write there, in order.
    gaps: VecDeque<Extent>,
}

#[derive(Clone, Debug)]
struct File {
    extents: Vec<Extent>,
    log: usize,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct F2fs {
    config: F2fsConfig,
    sections: Vec<Section>,
    files: Files<File>,
    /// Blocks of files by the first, with their number and owner. None reaches into another section.
    pieces: BTreeMap<u64, (u64, FileId)>,
    logs: [Option<Log>; 3],
    /// The last section of each log.
    last: [u32; 3],
    free: BTreeSet<u32>,
    /// Sections that have data by the log that wrote to them, those with the least data first.
    dirty: [BTreeSet<(u64, u32)>; 3],
    victim: Option<u32>,
    /// Sections that got what was moved out of the victim. Writes to them may be under way, so they are not reset before the victim is.
    held: Vec<u32>,
    live: u64,
    moved: u64,
    resets: u64,
    resetting: u32,
}

impl F2fs {
    /// An empty file system.
    pub fn new(config: F2fsConfig) -> Self {
        F2fs {
            sections: vec![Section { state: State::Free, log: COLD, live: 0 }; config.sections as usize],
            files: Files::EMPTY,
            pieces: BTreeMap::new(),
            logs: [None, None, None],
            last: [config.sections; 3],
            free: (0..config.sections).collect(),
            dirty: [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()],
            victim: None,
            held: Vec::new(),
            live: 0,
            moved: 0,
            resets: 0,
            resetting: 0,
            config,
        }
    }

    fn start(&self, section: u32) -> u64 {
        u64::from(section) * self.config.size
    }

    fn section_of(&self, lba: u64) -> u32 {
        (lba / self.config.size) as u32
    }

    /// Blocks that files may have.
    fn capacity(&self) -> u64 {
        u64::from(self.config.sections.saturating_sub(self.config.spare)) * self.config.capacity
    }

    /// Whether so few sections are free that cleaning comes before any write.
    fn must_clean(&self) -> bool {
        self.config.zones && self.free.len() <= self.config.reserve as usize
    }

    /// Blocks of a section that no file has.
    fn gaps(&self, number: u32) -> VecDeque<Extent> {
        let (mut at, end) = (self.start(number), self.start(number) + self.config.capacity);
        let mut gaps = VecDeque::new();
        for (&lba, &(blocks, _)) in self.pieces.range(at..end) {
            if lba > at {
                gaps.push_back(Extent { lba: at, blocks: lba - at });
            }
            at = lba + blocks;
        }
        if end > at {
            gaps.push_back(Extent { lba: at, blocks: end - at });
        }
        gaps
    }

    /// A section that has data and gaps: the emptiest of this log, else of all.
    fn threaded(&mut self, log: usize) -> Option<u32> {
        let emptiest = |sections: &BTreeSet<(u64, u32)>| {
            sections.first().copied().filter(|(live, _)| *live < self.config.capacity)
        };
        let own = emptiest(&self.dirty[log]);
        let (live, number) = own.or_else(|| self.dirty.iter().filter_map(emptiest).min())?;
        self.dirty[self.sections[number as usize].log].remove(&(live, number));
        Some(number)
    }

    /// The next free section behind the last one of a log, going round; for hot data the first, so that it stays in few places.
    fn next_free(&mut self, log: usize) -> Option<u32> {
        let behind = if log == HOT { 0 } else { self.last[log].saturating_add(1) };
        let number = self.free.range(behind..).next().or_else(|| self.free.first()).copied()?;
        self.free.remove(&number);
        Some(number)
    }

    /// Gives a log a section.
    fn open(&mut self, log: usize) -> Option<()> {
        let few = self.free.len() <= 2 * self.config.reserve as usize;
        let threaded = if few && !self.config.zones { self.threaded(log) } else { None };
        let section = threaded.or_else(|| self.next_free(log))?;
        self.sections[section as usize].state = State::Log;
        self.sections[section as usize].log = log;
        self.last[log] = section;
        self.logs[log] = Some(Log { section, gaps: self.gaps(section) });
        Some(())
    }

    /// Writes to a log, as far as its next gap reaches. `None`: there is no room.
    fn write(&mut self, log: usize, blocks: u64, file: FileId, out: &mut Vec<DeviceIo>) -> Option<Extent> {
        if self.logs[log].is_none() {
            self.open(log)?;
        }
        let Log { section, gaps } = self.logs[log].as_mut()?;
        let number = *section;
        let gap = gaps.front_mut()?;
        let extent = Extent { lba: gap.lba, blocks: gap.blocks.min(blocks) };
        *gap = Extent { lba: gap.lba + extent.blocks, blocks: gap.blocks - extent.blocks };
        if gap.blocks == 0 {
            gaps.pop_front();
        }
        let full = gaps.is_empty();
        self.pieces.insert(extent.lba, (extent.blocks, file));
        self.sections[number as usize].live += extent.blocks;
        self.live += extent.blocks;
        out.push(DeviceIo { verb: Verb::Write, lba: extent.lba, blocks: extent.blocks as u32 });
        if full {
            self.logs[log] = None;
            self.settle(number, out);
        }
        Some(extent)
    }

    /// A section that nothing writes to and nobody empties: it has data, or it is free, on zones after a reset.
    fn settle(&mut self, number: u32, out: &mut Vec<DeviceIo>) {
        let lba = self.start(number);
        let section = &mut self.sections[number as usize];
        if section.live > 0 || self.held.contains(&number) {
            section.state = State::Dirty;
            self.dirty[section.log].insert((section.live, number));
        } else if self.config.zones {
            section.state = State::Resetting;
            self.resetting += 1;
            self.resets += 1;
            out.push(DeviceIo { verb: Verb::Zone(ZoneAction::Reset), lba, blocks: 0 });
        } else {
            section.state = State::Free;
            self.free.insert(number);
        }
    }

    /// Blocks are of no file any more.
    fn forget(&mut self, extent: Extent, out: &mut Vec<DeviceIo>) {
        let end = extent.lba + extent.blocks;
        while let Some((&lba, &(blocks, file))) = self.pieces.range(..end).next_back() {
            let (from, to) = (lba.max(extent.lba), (lba + blocks).min(end));
            if from >= to {
                break;
            }
            self.pieces.remove(&lba);
            if from > lba {
                self.pieces.insert(lba, (from - lba, file));
            }
            if to < lba + blocks {
                self.pieces.insert(to, (lba + blocks - to, file));
            }
            let number = self.section_of(from);
            let Section { state, log, live } = self.sections[number as usize];
            self.sections[number as usize].live -= to - from;
            self.live -= to - from;
            if state == State::Dirty {
                self.dirty[log].remove(&(live, number));
                self.settle(number, out);
            }
        }
    }
}

impl FileSpace for F2fs {
    fn create(&mut self, hint: Hint) -> FileId {
        self.files.add(File { extents: Vec::new(), log: log_of(hint.lifetime) })
    }

    fn append(&mut self, file: FileId, blocks: u32, out: &mut Vec<DeviceIo>) -> u32 {
        let all = u64::from(blocks).min(self.capacity().saturating_sub(self.live));
        let log = self.files.get(file).log;
        let mut left = all;
        while left > 0 && !self.must_clean() {
            let Some(extent) = self.write(log, left, file, out) else { break };
            push(&mut self.files.get_mut(file).extents, extent.lba, extent.blocks);
            left -= extent.blocks;
        }
        (all - left) as u32
    }

    fn read(&self, file: FileId, at: u64, blocks: u32, out: &mut Vec<DeviceIo>) {
        reads(&self.files.get(file).extents, at, blocks, out);
    }

    fn close(&mut self, _file: FileId, _out: &mut Vec<DeviceIo>) {}

    fn delete(&mut self, file: FileId, out: &mut Vec<DeviceIo>) {
        for extent in self.files.remove(file).extents {
            self.forget(extent, out);
        }
    }

    fn ended(&mut self, io: &DeviceIo) -> bool {
        let number = self.section_of(io.lba);
        let section = &mut self.sections[number as usize];
        if section.state != State::Resetting {
            return false;
        }
        section.state = State::Free;
        self.resetting -= 1;
        self.free.insert(number)
    }

    fn collect(&mut self, most: u32) -> Option<Vec<Move>> {
        let coming = self.free.len() + self.resetting as usize;
        if !self.config.zones || self.victim.is_some() || coming > self.config.reserve as usize {
            return None;
        }
        let (live, number) = self.dirty.iter().filter_map(BTreeSet::first).min().copied()?;
        if live >= self.config.capacity {
            return None;
        }
        self.dirty[self.sections[number as usize].log].remove(&(live, number));
        self.sections[number as usize].state = State::Victim;
        self.victim = Some(number);
        let start = self.start(number);
        let mut moves = Vec::new();
        for (&lba, &(blocks, file)) in self.pieces.range(start..start + self.config.size) {
            moves.extend((0..blocks).step_by(most.max(1) as usize).map(|at| Move {
                file,
                lba: lba + at,
                blocks: (blocks - at).min(most.into()) as u32,
            }));
        }
        Some(moves)
    }

    fn relocate(&mut self, of: &Move, out: &mut Vec<DeviceIo>) -> u32 {
        let piece = self.pieces.range(..=of.lba).next_back();
        // The file may be gone.
        if piece.is_none_or(|(lba, (blocks, file))| *file != of.file || lba + blocks <= of.lba) {
            return of.blocks;
        }
        let mut left = u64::from(of.blocks);
        let mut places = Vec::new();
        while left > 0 {
            let Some(place) = self.write(COLD, left, of.file, out) else { break };
            let number = self.section_of(place.lba);
            if self.held.last() != Some(&number) {
                self.held.push(number);
            }
            left -= place.blocks;
            places.push(place);
        }
        let moved = u64::from(of.blocks) - left;
        if moved > 0 {
            self.moved += moved;
            replace(&mut self.files.get_mut(of.file).extents, of.lba, moved, &places);
            self.forget(Extent { lba: of.lba, blocks: moved }, out);
        }
        moved as u32
    }

    fn collected(&mut self, out: &mut Vec<DeviceIo>) {
        let held = std::mem::take(&mut self.held);
        for number in self.victim.take().into_iter().chain(held) {
            let Section { state, log, live } = self.sections[number as usize];
            if state == State::Victim || state == State::Dirty && live == 0 {
                self.dirty[log].remove(&(live, number));
                self.settle(number, out);
            }
        }
    }

    fn usage(&self) -> Usage {
        let used = self.sections.len() - self.free.len();
        let open: u64 = self.logs.iter().flatten().flat_map(|log| &log.gaps).map(|gap| gap.blocks).sum();
        // Logs that are threaded find every gap. Garbage in spare sections takes nothing from files.
        let written = used as u64 * self.config.capacity - open;
        let taken = if self.config.zones { written.min(self.capacity()) } else { self.live };
        Usage {
            capacity: self.capacity(),
            live: self.live,
            taken,
            moved: self.moved,
            resets: self.resets,
            finished: 0,
        }
    }

    #[cfg(test)]
    fn describe(&self) -> String {
        format!(
            "{} free, {} reset, victim {:?}, logs {:?}",
            self.free.len(),
            self.resetting,
            self.victim,
            self.logs
        )
    }

    #[cfg(test)]
    fn check(&self) {
        let mut end = 0;
        let mut live = vec![0; self.sections.len()];
        for (&lba, &(blocks, _)) in &self.pieces {
            assert!(lba >= end && blocks > 0, "blocks of two files at {lba}");
            end = lba + blocks;
            assert_eq!(self.section_of(lba), self.section_of(end - 1), "a piece in two sections");
            live[self.section_of(lba) as usize] += blocks;
        }
        assert_eq!(live.iter().sum::<u64>(), self.live);
        for ((number, section), live) in (0..).zip(&self.sections).zip(live) {
            assert_eq!(section.live, live, "section {number}");
            assert_eq!(section.state == State::Free, self.free.contains(&number), "section {number}");
            let dirty = self.dirty[section.log].contains(&(live, number));
            assert_eq!(section.state == State::Dirty, dirty, "section {number}");
        }
        let of_files: u64 =
            self.files.files.iter().flatten().flat_map(|file| &file.extents).map(|e| e.blocks).sum();
        assert_eq!(of_files, self.live, "blocks of files");
    }
}
