//! A store, what happens to it, and what must be true then.

use std::collections::{BTreeMap, BTreeSet};

use rng::Rng;

use super::oracle::{File, Names, Oracle};
use crate::device::{Condition, Shape};
use crate::error::Error;
use crate::keys::KeyRange;
use crate::lifetime::Lifetime;
use crate::names::{Change, Replace};
use crate::open::FormatOptions;
use crate::placement::Placement;
use crate::record::{Attributes, Ino, NewKind};
use crate::simulated::Simulated;
use crate::state::Limits;
use crate::store::{FileKind, Store};
use crate::tree::Kind;

pub(super) const BLOCK: u64 = 256;
/// Names of a directory in stores that have few of them.
pub(super) const MIN_NAMES: u64 = 2;

/// What happened in a run.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    pub(crate) steps: u64,
    pub(crate) power_cuts: u64,
    pub(crate) kills: u64,
    pub(crate) syncs: u64,
    /// Blocks that garbage collection moved.
    pub(crate) collected: u64,
    pub(crate) resets: u64,
    pub(crate) epochs: u64,
    /// Operations for which there was no space.
    pub(crate) full: u64,
    /// Stores that stopped.
    pub(crate) stopped: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.power_cuts += other.power_cuts;
        self.kills += other.kills;
        self.syncs += other.syncs;
        self.collected += other.collected;
        self.resets += other.resets;
        self.epochs += other.epochs;
        self.full += other.full;
        self.stopped += other.stopped;
    }
}

pub(crate) struct World {
    pub(super) seed: u64,
    pub(super) rng: Rng,
    pub(super) store: Option<Store<Simulated>>,
    pub(super) oracle: Oracle,
    pub(super) open: Vec<Ino>,
    /// Zones that wore out.
    pub(super) broken: u32,
    faults: bool,
    /// The log is as small as can be, and much may be in memory.
    pub(super) is_tight: bool,
    /// Names that a directory may have. With few, there is place for files in many pieces.
    pub(super) names: u64,
    stamp: u8,
    now: u64,
    /// What is going on, for messages.
    pub(super) doing: &'static str,
    pub(super) counts: Counts,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        // Some logs are as small as can be, with few zones of data.
        let is_tight = rng.below(4) == 0;
        let capacity = if is_tight { 16 } else { 16 + rng.below(17) };
        let zones = if is_tight { 9 + rng.below(8) as u32 } else { 16 + rng.below(12) as u32 };
        let append_blocks = [8, 8, 12, 64][rng.below(4) as usize];
        let open = 3 + rng.below(6) as u32;
        let shape = Shape { block: BLOCK as usize, zone_blocks: 32, zones, open, append_blocks };
        let device = Simulated::new(shape, capacity, seed);
        let options = FormatOptions {
            log_zones: Some(if is_tight { 3 } else { [3, 4, 5, 9][rng.below(4) as usize] }),
            ..FormatOptions::default()
        };
        Store::format(&device, &options, [7; 16], 0).expect("an empty device takes a store");
        let faults = rng.below(3) == 0;
        let oracle = Oracle::new(Names::new(), BTreeMap::new());
        let counts = Counts::default();
        let mut world = Self {
            seed,
            rng,
            store: None,
            oracle,
            open: Vec::new(),
            broken: 0,
            faults,
            is_tight,
            names: if is_tight { [MIN_NAMES, 40][seed as usize % 2] } else { 5 },
            stamp: 0,
            now: 1,
            doing: "opening",
            counts,
        };
        world.mount(device);
        world
    }

    pub(super) fn store(&self) -> &Store<Simulated> {
        self.store.as_ref().expect("the store is open")
    }

    /// Opens the store. Failing appends may keep it from that for a while.
    fn mount(&mut self, device: Simulated) {
        device.do_not_interrupt();
        let placement = Placement::ALL[self.rng.below(3) as usize];
        let store = Store::open(device, placement)
            .unwrap_or_else(|error| self.fail(&format!("it does not open: {error}")));
        self.run_on(store);
    }

    /// Goes on with a store that was opened.
    pub(super) fn run_on(&mut self, store: Store<Simulated>) {
        let rng = &mut self.rng;
        let times = if self.is_tight { 10 } else { 1 };
        store.lock().limits = Limits {
            file_blocks: 1 + rng.below(20 * times) as usize,
            total_blocks: 1 + rng.below(60 * times) as usize,
            direct: 1 + rng.below(12) as usize,
            piece: 1 + rng.below(16) as usize,
            inline: rng.below(512 * times) as usize,
            durable: rng.below(8) as usize,
            file_patches: rng.below(512 * times),
            total_patches: rng.below(1024 * times),
            pending: 64 + rng.below(2048) as usize,
            under_way: 1 + rng.below(5) as usize,
            under_way_of_logs: rng.below(3) as usize,
        };
        if self.faults {
            store.device.fail(5_000_000, 500_000);
        }
        self.store = Some(store);
    }

    pub(super) fn fail(&self, why: &str) -> ! {
        panic!("seed {}, step {}: {why}", self.seed, self.counts.steps);
    }

    pub(crate) fn run(mut self, steps: u64) -> Counts {
        for _ in 0..steps {
            self.advance();
        }
        self.end()
    }

    /// One step without an opening.
    pub(super) fn operate(&mut self) {
        self.counts.steps += 1;
        self.now += 1;
        match self.rng.below(3) {
            0 => self.write(),
            1 => self.make(),
            _ => self.sync(),
        }
    }

    /// One step, and the next opening if the store does not survive it.
    pub(super) fn advance(&mut self) {
        self.counts.steps += 1;
        self.now += 1;
        self.step();
        if self.store().device.is_without_power() || self.store().lock().stopped.is_some() {
            self.crash();
        }
        self.check_owed();
        self.check_finished();
    }

    pub(super) fn end(mut self) -> Counts {
        self.compare();
        self.note();
        self.counts
    }

    /// Zones of data that are full tell nothing of what they lost.
    fn check_finished(&self) {
        let log_zones = self.store().lock().log.layout().log_zones;
        let in_doubt = self.store().device.finished_in_doubt(log_zones);
        if !in_doubt.is_empty() {
            self.fail(&format!("zones {in_doubt:?} were finished before they were durable"));
        }
    }

    pub(super) fn note(&mut self) {
        let counters = self.store().counters();
        self.counts.collected += counters.moved_blocks;
        self.counts.resets += counters.resets;
        self.counts.epochs += counters.epochs;
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..20 => self.write(),
            20..30 => self.strain(),
            30..36 => self.truncate(),
            36..40 => self.punch(),
            40..50 => self.make(),
            50..56 => self.remove(),
            56..64 => self.rename(),
            64..67 => self.link(),
            67..78 => self.sync(),
            78..80 => self.begin_writing(),
            80..85 => self.open_or_close(),
            85..89 => self.hint(),
            89..95 => self.compare(),
            95 => self.crash(),
            96 => self.reopen(),
            97 => {
                let calls = self.rng.below(40);
                self.store().device.lose_power_after(calls);
            }
            98 => self.wear_out(),
            _ => self.check(),
        }
    }

    pub(super) fn files(&self) -> Vec<Ino> {
        self.oracle.files.keys().copied().collect()
    }

    pub(super) fn file(&mut self) -> Option<Ino> {
        let files = self.files();
        (!files.is_empty()).then(|| files[self.rng.below(files.len() as u64) as usize])
    }

    fn directories(&self) -> Vec<Ino> {
        let named = self.oracle.names.values();
        let mut found: BTreeSet<Ino> = named.filter(|ino| self.is_directory(**ino)).copied().collect();
        found.insert(Ino::ROOT);
        found.into_iter().collect()
    }

    fn directory(&mut self) -> Ino {
        let directories = self.directories();
        directories[self.rng.below(directories.len() as u64) as usize]
    }

    fn name(&mut self) -> Vec<u8> {
        let number = self.rng.below(self.names);
        // Few are long.
        let length = if number < 5 { 2 } else { number as usize % 7 * 30 };
        format!("n{number:0length$}").into_bytes()
    }

    /// An operation failed. Returns whether the model must look at what is there now.
    pub(super) fn failed(&mut self, error: &Error, blocks: u64) {
        match error {
            Error::NoSpace => {
                self.counts.full += 1;
                if self.doing == "remove" {
                    self.fail("no space to remove a name");
                }
                let usage = self.store().usage();
                let taken = self.oracle.blocks(BLOCK) + blocks;
                let metadata = usage.metadata + usage.metadata_limit / 4 + 2000 > usage.metadata_limit;
                // Garbage collection needs an empty zone, and those that it had can all be worn out.
                let stuck = usage.zones[0] == 0 && self.broken > 1;
                if taken <= usage.blocks && !metadata && !stuck {
                    self.fail(&format!("no space, though {taken} of {} blocks are needed", usage.blocks));
                }
            }
            Error::Device(_) | Error::Stopped(_) if self.store().device.is_without_power() => {}
            Error::Taken | Error::Stopped(_) if self.is_taken() => {}
            Error::Device(_) | Error::Stopped(_) | Error::LogFull if self.faults || self.broken > 0 => {
                self.counts.stopped += 1;
                self.store().lock().stop(&Error::NoStore);
            }
            other => self.fail(&format!("{} fails: {other}", self.doing)),
        }
    }

    fn write(&mut self) {
        self.doing = "write";
        let Some(ino) = self.file() else { return };
        let size = self.oracle.files[&ino].now.len() as u64;
        let offset = match self.rng.below(4) {
            0 => size,
            1 => self.rng.below(size + 1),
            2 => self.rng.below(size / BLOCK + 2) * BLOCK,
            _ => self.rng.below(size + 300),
        };
        let length = match self.rng.below(4) {
            0 => 1 + self.rng.below(40),
            1 => BLOCK * (1 + self.rng.below(20)),
            _ => 1 + self.rng.below(400),
        };
        let _ = self.write_at(ino, offset, length);
    }

    pub(super) fn write_at(&mut self, ino: Ino, offset: u64, length: u64) -> Result<(), Error> {
        self.stamp = self.stamp.wrapping_add(1).max(1);
        let data: Vec<u8> = (0..length).map(|at| self.stamp ^ (at as u8 & 0x80)).collect();
        let before = self.oracle.files[&ino].clone();
        if let Some(file) = self.oracle.files.get_mut(&ino) {
            file.write(offset, &data);
        }
        let written = self.store().write(ino, offset, &data, self.now);
        if let Err(error) = &written {
            let blocks = (before.now.len() as u64).max(offset);
            self.failed(error, blocks.div_ceil(BLOCK) + length / BLOCK + 2);
            if self.store().lock().stopped.is_none() && !self.store().device.is_without_power() {
                // Some of it may be there.
                let there = match self.read(ino) {
                    Ok(there) => there,
                    Err(error) => {
                        self.failed(&error, 0);
                        return written;
                    }
                };
                let objection = self.oracle.files.get_mut(&ino).and_then(|file| file.failed(there));
                if let Some(objection) = objection {
                    self.fail(&format!("{ino:?} after a failed write: {objection}"));
                }
            }
        }
        written
    }

    fn truncate(&mut self) {
        self.doing = "truncate";
        let Some(ino) = self.file() else { return };
        let size = self.oracle.files[&ino].now.len() as u64;
        let size = match self.rng.below(3) {
            0 => 0,
            1 => self.rng.below(size + 1),
            _ => self.rng.below(size + 400),
        };
        let before = self.oracle.files[&ino].clone();
        if let Some(file) = self.oracle.files.get_mut(&ino) {
            file.truncate(size);
        }
        if let Err(error) = self.store().truncate(ino, size, self.now) {
            let needs_none = size.is_multiple_of(BLOCK) || size >= before.now.len() as u64;
            if error == Error::NoSpace && needs_none && self.broken == 0 {
                self.fail("no space to truncate");
            }
            self.oracle.files.insert(ino, before);
            self.failed(&error, 0);
        }
    }

    fn punch(&mut self) {
        self.doing = "punch";
        let Some(ino) = self.file() else { return };
        let size = self.oracle.files[&ino].now.len() as u64;
        let from = self.rng.below(size + 1);
        let to = from + self.rng.below(600);
        let before = self.oracle.files[&ino].clone();
        if let Some(file) = self.oracle.files.get_mut(&ino) {
            file.punch(from, to);
        }
        if let Err(error) = self.store().punch(ino, from, to, self.now) {
            self.oracle.files.insert(ino, before);
            self.failed(&error, 0);
        }
    }

    /// Changes names: `names` are those afterwards, if it succeeds.
    pub(super) fn renamed(
        &mut self,
        names: Names,
        act: impl FnOnce(&Store<Simulated>, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let before = self.oracle.names.clone();
        self.oracle.rename(names);
        let result = act(self.store(), self.now);
        if let Err(error) = &result {
            match error {
                // It may be there after the crash.
                Error::Device(_) | Error::Stopped(_) | Error::LogFull | Error::Taken => {}
                _ => self.oracle.undo(before),
            }
            self.failed(error, 0);
        }
        result
    }

    fn make(&mut self) {
        self.doing = "make";
        let (parent, name) = (self.directory(), self.name());
        let kind = match self.rng.below(6) {
            0 => NewKind::Directory,
            1 => NewKind::Symlink(b"somewhere".to_vec()),
            _ => NewKind::File,
        };
        let attributes = Attributes { mode: 0o644, uid: 1, gid: 2, mtime: self.now, ctime: self.now };
        if self.oracle.names.contains_key(&(parent, name.clone())) {
            let taken = self.store().create(parent, &name, kind, attributes);
            assert_eq!(taken.map(|_| ()), Err(Error::Exists));
            return;
        }
        let ino = Ino(self.store().lock().tree.next_number());
        let mut names = self.oracle.names.clone();
        names.insert((parent, name.clone()), ino);
        if kind == NewKind::File {
            self.oracle.files.insert(ino, File::durable(Vec::new()));
        }
        let is_made =
            self.renamed(names, |store, _| store.create(parent, &name, kind.clone(), attributes).map(|_| ()));
        if is_made == Err(Error::NoSpace) {
            self.not_made(&name, &kind);
        }
        if is_made.is_err()
            && let Some(file) = self.oracle.files.remove(&ino)
        {
            self.oracle.gone.insert(ino, file);
        }
    }

    fn is_directory(&self, ino: Ino) -> bool {
        self.store().lock().tree.get(ino).is_some_and(|inode| matches!(inode.kind, Kind::Directory(_)))
    }

    fn some_name(&mut self) -> Option<(Ino, Vec<u8>)> {
        let names: Vec<_> = self.oracle.names.keys().cloned().collect();
        (!names.is_empty()).then(|| names[self.rng.below(names.len() as u64) as usize].clone())
    }

    fn remove(&mut self) {
        self.doing = "remove";
        let Some((parent, name)) = self.some_name() else { return };
        let ino = self.oracle.names[&(parent, name.clone())];
        let mut names = self.oracle.names.clone();
        names.remove(&(parent, name.clone()));
        if self.is_directory(ino) {
            if self.oracle.names.keys().any(|(within, _)| *within == ino) {
                assert_eq!(self.store().remove_directory(parent, &name, 1), Err(Error::NotEmpty));
                return;
            }
            let _ = self.renamed(names, |store, now| store.remove_directory(parent, &name, now));
        } else {
            let _ = self.renamed(names, |store, now| store.unlink(parent, &name, now));
        }
        self.forget_unnamed();
    }

    /// Files without names that are not open are gone, as far as operations go.
    fn forget_unnamed(&mut self) {
        let named: BTreeSet<Ino> = self.oracle.names.values().copied().collect();
        let gone = |ino: &Ino| !named.contains(ino) && !self.open.contains(ino);
        let gone: Vec<Ino> = self.oracle.files.keys().copied().filter(gone).collect();
        for ino in gone {
            // A crash can bring its name back, so what may be there is kept.
            if let Some(file) = self.oracle.files.remove(&ino) {
                self.oracle.gone.insert(ino, file);
            }
        }
    }

    fn rename(&mut self) {
        self.doing = "rename";
        let Some(from) = self.some_name() else { return };
        let to = (self.directory(), self.name());
        let ino = self.oracle.names[&from];
        let there = self.oracle.names.get(&to).copied();
        let replace =
            [Replace::Yes, Replace::Yes, Replace::No, Replace::Exchange][self.rng.below(4) as usize];
        let mut names = self.oracle.names.clone();
        match (replace, there) {
            (Replace::Exchange, Some(other)) => {
                names.insert(from.clone(), other);
                names.insert(to.clone(), ino);
            }
            (Replace::Yes, Some(other)) if other == ino => {}
            _ => {
                names.remove(&from);
                names.insert(to.clone(), ino);
            }
        }
        let before = self.oracle.names.clone();
        let result = self.store().rename((from.0, &from.1), (to.0, &to.1), replace, self.now);
        match result {
            Ok(()) => self.oracle.rename(names),
            Err(
                Error::Exists
                | Error::NotEmpty
                | Error::IsDirectory
                | Error::NotDirectory
                | Error::NotFound
                | Error::Invalid(_),
            ) => {}
            Err(error) => {
                self.oracle.rename(names);
                if error == Error::NoSpace {
                    self.oracle.undo(before);
                }
                self.failed(&error, 0);
            }
        }
        self.forget_unnamed();
    }

    fn link(&mut self) {
        self.doing = "link";
        let Some(ino) = self.file() else { return };
        let (parent, name) = (self.directory(), self.name());
        let named = self.oracle.names.values().any(|other| *other == ino);
        if !named || self.oracle.names.contains_key(&(parent, name.clone())) {
            return;
        }
        let mut names = self.oracle.names.clone();
        names.insert((parent, name.clone()), ino);
        let _ = self.renamed(names, |store, now| store.link(ino, parent, &name, now).map(|_| ()));
    }

    fn sync(&mut self) {
        self.doing = "sync";
        let what = self.rng.below(8);
        let file = self.file();
        let result = match (what, file) {
            (0, _) => self.store().sync_all(),
            (1, _) | (_, None) => self.store().sync_names(),
            (_, Some(ino)) => self.store().sync(ino),
        };
        match result {
            Ok(()) => {
                self.counts.syncs += 1;
                self.oracle.synced_names();
                match (what, file) {
                    (0, _) => self.oracle.files.values_mut().for_each(File::synced),
                    (1, _) | (_, None) => {}
                    (_, Some(ino)) => {
                        self.oracle.files.entry(ino).and_modify(File::synced);
                    }
                }
            }
            Err(error) => {
                if error == Error::NoSpace {
                    self.not_synced();
                }
                self.failed(&error, 0);
            }
        }
    }

    /// Another thread syncs, and waits for its append to the log.
    fn begin_writing(&mut self) {
        self.doing = "begin to write the log";
        let begun = {
            let mut state = self.store().lock();
            if state.writing.is_some() { Ok(()) } else { state.begin_writing(&self.store().device) }
        };
        if let Err(error) = begun {
            self.failed(&error, 0);
        }
    }

    fn open_or_close(&mut self) {
        self.doing = "open or close";
        if self.rng.below(2) == 0 || self.open.len() > 5 {
            if !self.open.is_empty() {
                let ino = self.open.swap_remove(self.rng.below(self.open.len() as u64) as usize);
                if let Err(error) = self.store().close_file(ino) {
                    self.failed(&error, 0);
                }
                self.forget_unnamed();
            }
        } else if let Some(ino) = self.file() {
            self.store().open_file(ino).expect("a file that is there can be opened");
            self.open.push(ino);
        }
    }

    fn hint(&mut self) {
        self.doing = "hint";
        let Some(ino) = self.file() else { return };
        let lifetimes = [b"short".as_slice(), b"medium", b"long", b"extreme", b"unknown", b"no lifetime"];
        let (name, value) = if self.rng.below(2) == 0 {
            (Lifetime::XATTR, lifetimes[self.rng.below(lifetimes.len() as u64) as usize].to_vec())
        } else {
            let keys = [self.rng.below(64) as u8, self.rng.below(64) as u8].map(|key| [b'k', key]);
            let range = KeyRange::new(self.rng.below(3) as u8, &keys[0], &keys[1]);
            (KeyRange::XATTR, range.map_or(b"no range".to_vec(), |range| range.attribute()))
        };
        if let Err(error) = self.store().set_xattr(ino, name, Some(&value)) {
            self.failed(&error, 0);
            return;
        }
        let change = Change { mode: Some(0o600), ..Change::default() };
        if let Err(error) = self.store().change(ino, &change, self.now) {
            self.failed(&error, 0);
        }
    }

    fn wear_out(&mut self) {
        self.doing = "wear out";
        // Each costs space for ever.
        if self.broken < 2 && self.faults {
            let layout = self.store().lock().log.layout();
            let data = u64::from(layout.zones - layout.log_zones);
            let zone = layout.log_zones + self.rng.below(data) as u32;
            self.store().device.wear_out(zone, Condition::ReadOnly);
            self.broken += 1;
        }
    }

    /// The store's own check finds nothing.
    fn check(&mut self) {
        match self.store().check(true) {
            // A device without power lets nothing be read.
            Ok(report) if report.problems.is_empty() || self.store().device.is_without_power() => {}
            Ok(report) => self.fail(&format!("{:?}", report.problems)),
            Err(error) => self.failed(&error, 0),
        }
        self.check_usage();
    }

    fn check_usage(&mut self) {
        self.doing = "check usage";
        let state = self.store().lock();
        let mut live = BTreeMap::new();
        let mut blocks = BTreeSet::new();
        for (ino, inode) in state.tree.inodes() {
            for (_, run) in inode.contents().into_iter().flat_map(|contents| contents.extents.iter()) {
                *live.entry(self.store().device_zone(run.lba)).or_insert(0) += run.blocks;
                for lba in run.lba..run.lba + run.blocks {
                    assert!(
                        blocks.insert(lba),
                        "seed {}: block {lba} belongs to two files, one {ino:?}",
                        self.seed
                    );
                }
            }
        }
        for (zone, blocks) in live {
            assert_eq!(state.tree.live(zone), blocks, "seed {}: zone {zone}", self.seed);
        }
        let mut bytes = Vec::new();
        state.tree.snapshot().for_each(|record| record.encode(&mut bytes));
        let estimate = state.tree.snapshot_bytes();
        assert!(bytes.len() as u64 <= estimate, "seed {}: {} > {estimate}", self.seed, bytes.len());
        let dirty: usize = state.active.values().map(|active| active.dirty.len()).sum();
        assert_eq!(dirty, state.dirty_blocks, "seed {}", self.seed);
        let fresh: usize = state.active.values().map(|active| active.dirty.fresh()).sum();
        assert_eq!(fresh, state.fresh_blocks, "seed {}", self.seed);
    }

    /// The contents of a file. What is under way lands first, and the power can fail while it does.
    pub(super) fn read(&self, ino: Ino) -> Result<Vec<u8>, Error> {
        let size = self.store().stat(ino).expect("it is there").size;
        let mut contents = vec![0xEE; size as usize + 10];
        let length = self.store().read(ino, 0, &mut contents)?;
        assert_eq!(length as u64, size, "seed {}", self.seed);
        contents.truncate(length);
        Ok(contents)
    }

    /// All names, and the contents of all files that have one.
    pub(super) fn all(&self) -> Result<(Names, BTreeMap<Ino, Vec<u8>>), Error> {
        let (mut names, mut contents) = (Names::new(), BTreeMap::new());
        let mut directories = vec![Ino::ROOT];
        while let Some(directory) = directories.pop() {
            for (name, stat) in self.store().list(directory, None, usize::MAX).expect("it is there") {
                match stat.kind {
                    FileKind::Directory => directories.push(stat.ino),
                    FileKind::File => drop(contents.insert(stat.ino, self.read(stat.ino)?)),
                    FileKind::Symlink => assert!(self.store().target(stat.ino).is_ok()),
                }
                names.insert((directory, name), stat.ino);
            }
        }
        Ok((names, contents))
    }

    /// Everything is as it should be, without a crash.
    fn compare(&mut self) {
        self.doing = "compare";
        if self.store().device.is_without_power() {
            return;
        }
        if let Err(error) = self.compare_all() {
            self.failed(&error, 0);
        }
    }

    fn compare_all(&self) -> Result<(), Error> {
        for (ino, file) in &self.oracle.files {
            let there = self.read(*ino)?;
            if there != file.now {
                let at = there.iter().zip(&file.now).position(|(there, expected)| there != expected);
                self.fail(&format!(
                    "{ino:?} differs at {at:?}; {} and {} bytes",
                    there.len(),
                    file.now.len()
                ));
            }
        }
        let (names, _) = self.all()?;
        if names != self.oracle.names {
            self.fail(&format!("names: {names:?} and {:?}", self.oracle.names));
        }
        Ok(())
    }

    /// The program or the power stops, perhaps several times, and the store is opened again.
    fn crash(&mut self) {
        self.doing = "crash";
        self.note();
        let mut device = self.store.take().expect("the store is open").abandon();
        device.do_not_interrupt();
        self.open.clear();
        device.disconnect();
        device.fail(0, 0);
        if device.is_without_power() || self.rng.below(2) == 0 {
            device.restore_power();
            self.counts.power_cuts += 1;
        } else {
            self.counts.kills += 1;
        }
        // It can stop again while it opens.
        while self.rng.below(3) == 0 {
            device.lose_power_after(self.rng.below(30));
            let placement = Placement::ALL[self.rng.below(3) as usize];
            device = match Store::open(&device, placement) {
                Ok(store) => {
                    store.abandon();
                    device
                }
                Err(_) if device.is_without_power() => device,
                Err(error) => self.fail(&format!("it does not open: {error}")),
            };
            if device.is_without_power() || self.rng.below(2) == 0 {
                device.restore_power();
            }
        }
        device.keep_power();
        self.mount(device);
        self.resume();
    }

    /// What is there must be allowed after a crash. The model goes on with that.
    pub(super) fn resume(&mut self) {
        let (names, contents) =
            self.all().unwrap_or_else(|error| self.fail(&format!("after a crash: {error}")));
        if let Some(objection) = self.oracle.objection(&names, &contents) {
            self.fail(&format!("after a crash: {objection}"));
        }
        let files = contents.into_iter().map(|(ino, contents)| (ino, File::durable(contents))).collect();
        self.oracle = Oracle::new(names, files);
        self.check_usage();
    }

    /// An orderly end, and the next opening.
    fn reopen(&mut self) {
        self.doing = "reopen";
        self.note();
        let store = self.store.take().expect("the store is open");
        self.open.clear();
        self.forget_unnamed();
        match store.sync_all() {
            Ok(()) => {
                let device = store.abandon();
                device.fail(0, 0);
                device.keep_power();
                self.mount(device);
                self.compare();
                let files = std::mem::take(&mut self.oracle.files);
                let files = files.into_iter().map(|(ino, file)| (ino, File::durable(file.now))).collect();
                self.oracle = Oracle::new(self.oracle.names.clone(), files);
            }
            Err(error) => {
                self.store = Some(store);
                self.failed(&error, 0);
            }
        }
    }
}
