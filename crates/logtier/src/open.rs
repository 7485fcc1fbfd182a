//! Making a cache, and opening one: the superblock that holds, and the journal from its tail on.

use crate::bits::Bits;
use crate::buckets::Buckets;
use crate::config::{BLOCK, Config};
use crate::error::OpenError;
use crate::format::{Cycle, JournalBlock, Record, Superblock};
use crate::index::Index;
use crate::sequential::Sequential;
use crate::shape::{Device, Geometries, SUPERBLOCKS, Shape};
use crate::state::{Commit, Core, Counters, Health, Opening, Owner, Phase, Step};
use blockdev::{Nanos, Operation, Status, Verb};
use stack::Slab;
use std::collections::{BTreeMap, VecDeque};

/// How a cache begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// Make a new one.
    Create {
        /// What its identity is drawn from.
        seed: u64,
        /// Whether a cache that is there may go, with what is dirty in it.
        replace: bool,
    },
    /// Open the one that is there.
    Open,
}

const FOREIGN: Superblock = Superblock {
    sequence: 0,
    identity: 0,
    session: 0,
    clean: false,
    bucket: 0,
    cache_blocks: 0,
    origin_blocks: 0,
    origin: crate::config::OriginId([0; 16]),
    tail: 0,
    head: 0,
};

impl Commit {
    fn new() -> Self {
        Self {
            step: Step::Idle,
            pending: Vec::new(),
            waiters: Vec::new(),
            wanted: false,
            flush_wanted: false,
            clean_wanted: None,
            records: Vec::new(),
            blocks: Vec::new(),
            served: Vec::new(),
            freed: Vec::new(),
            returned: Vec::new(),
            cycle_before: Cycle::default(),
            clean: None,
            left: 0,
            failed: None,
            head: 0,
            cycle: Cycle::default(),
            superblock: FOREIGN,
            slot: 1,
            // An earlier session may have left something: what is read now is to stay.
            origin_unflushed: true,
            cache_unflushed: true,
            says_dirty: false,
            dirtied: false,
            next: 0,
        }
    }
}

impl Core {
    /// Begins to make or to open a cache on devices of these geometries.
    ///
    /// # Errors
    /// The devices and the configuration do not fit.
    pub fn new(config: Config, geometries: &Geometries, start: Start, now: Nanos) -> Result<Self, OpenError> {
        let shape = Shape::new(&config, geometries)?;
        let (create, replace, seed) = match start {
            Start::Create { seed, replace } => (true, replace, seed),
            Start::Open if !config.contents => return Err(OpenError::NoContents),
            Start::Open => (false, false, 0),
        };
        let opening = Opening {
            create,
            replace,
            seed,
            at: 0,
            session: 0,
            known: false,
            refusal: None,
            drop_clean: false,
        };
        let mut core = Self {
            config,
            shape,
            phase: Phase::Opening(Box::new(opening)),
            health: Health::default(),
            index: Index::new(shape.places()),
            buckets: Buckets::new(shape.buckets, shape.bucket, config.replacement),
            dirty: Bits::new(shape.origin_blocks),
            returning: Bits::new(shape.origin_blocks),
            requests: Slab::new(),
            subs: Slab::new(),
            fills: Slab::new(),
            backs: Slab::new(),
            locks: BTreeMap::new(),
            blocked: VecDeque::new(),
            held: VecDeque::new(),
            starved: VecDeque::new(),
            out: VecDeque::new(),
            done: VecDeque::new(),
            sequential: Sequential::new(),
            commit: Commit::new(),
            returned: Vec::new(),
            cursor: 0,
            urgent: VecDeque::new(),
            next_back: 0,
            pause: 0,
            cleaning: false,
            last_request: now,
            look_for_room: false,
            counters: Counters::default(),
            outcome: None,
        };
        match config.contents {
            true => core.read_blocks(0, SUPERBLOCKS),
            false => core.create(seed),
        }
        core.work(now);
        Ok(core)
    }

    /// Whether the cache is open, or why it will not be.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn opened(&self) -> Result<bool, OpenError> {
        match &self.phase {
            Phase::Opening(_) => Ok(false),
            Phase::Failed(error) => Err(error.clone()),
            _ => Ok(true),
        }
    }

    fn read_blocks(&mut self, first: u32, count: u32) {
        let blocks = count.min(self.shape.journal_batch);
        let data = self.buffer(blocks);
        let operation = Operation { verb: Verb::Read, lba: first.into(), blocks };
        self.emit(Owner::Open(first), Device::Cache, operation, data);
    }

    fn refuse(&mut self, error: OpenError) {
        self.phase = Phase::Failed(error);
    }

    /// Something that opening reads is there.
    pub(crate) fn open_read(&mut self, now: Nanos, block: u32, status: Status, data: &[u8]) {
        let Phase::Opening(opening) = &mut self.phase else { return };
        if !status.is_success() {
            return self.refuse(OpenError::Device { device: Device::Cache.name(), status });
        }
        if opening.known {
            return self.read_journal(now, data);
        }
        for (slot, found) in (block..).zip(data.chunks_exact(BLOCK as usize)) {
            let commit = &mut self.commit;
            match Superblock::decode(found) {
                Some(Ok(it)) if it.sequence > commit.superblock.sequence => {
                    (commit.superblock, commit.slot) = (it, slot);
                }
                // It counts only if the other one is none, either.
                Some(Err(error)) => opening.refusal = Some(error),
                _ => {}
            }
        }
        let next = block + (data.len() as u64 / BLOCK) as u32;
        match next < SUPERBLOCKS {
            true => self.read_blocks(next, SUPERBLOCKS - next),
            false => self.superblocks_read(),
        }
    }

    fn superblocks_read(&mut self) {
        let Phase::Opening(opening) = &mut self.phase else { return };
        let Opening { create, replace, seed, .. } = **opening;
        opening.known = true;
        let refusal = opening.refusal.take();
        let it = self.commit.superblock;
        if create {
            return match (it.sequence > 0 || refusal.is_some()) && !replace {
                true => self.refuse(OpenError::Exists),
                false => self.create(seed),
            };
        }
        let (shape, config) = (self.shape, self.config);
        let bytes = |blocks: u32| u64::from(blocks) * BLOCK;
        let refused = if it.sequence == 0 {
            Some(refusal.unwrap_or(OpenError::Foreign))
        } else if it.bucket != shape.bucket {
            Some(OpenError::Bucket { recorded: bytes(it.bucket), asked: config.bucket })
        } else if it.cache_blocks != shape.cache_blocks {
            Some(OpenError::CacheSize { recorded: bytes(it.cache_blocks), found: bytes(shape.cache_blocks) })
        } else if it.origin_blocks != shape.origin_blocks {
            Some(OpenError::OriginSize {
                recorded: bytes(it.origin_blocks),
                found: bytes(shape.origin_blocks),
            })
        } else if it.origin != config.origin {
            Some(OpenError::OriginId { recorded: it.origin, found: config.origin })
        } else if it.head - it.tail > shape.journal.into() {
            Some(OpenError::Damaged("the journal is longer than its place"))
        } else {
            None
        };
        if let Some(error) = refused {
            return self.refuse(error);
        }
        if let Phase::Opening(opening) = &mut self.phase {
            (opening.at, opening.session) = (it.tail, 0);
        }
        self.commit.cycle = Cycle { whole: it.tail, begun: it.tail, cursor: 0 };
        self.read_more();
    }

    /// Makes a new cache: its first superblock, and an empty journal.
    fn create(&mut self, seed: u64) {
        let shape = self.shape;
        let sequence = self.commit.superblock.sequence;
        // What an earlier cache left in the journal has another identity.
        let identity = rng::mix(seed ^ rng::mix(self.commit.superblock.identity ^ sequence));
        self.commit.superblock = Superblock {
            sequence,
            identity,
            session: 1,
            bucket: shape.bucket,
            cache_blocks: shape.cache_blocks,
            origin_blocks: shape.origin_blocks,
            origin: self.config.origin,
            ..FOREIGN
        };
        self.mark_session(false);
    }

    /// Reads the next blocks of the journal.
    fn read_more(&mut self) {
        let Phase::Opening(opening) = &self.phase else { return };
        let length = u64::from(self.shape.journal);
        let place = opening.at % length;
        let read = opening.at - self.commit.superblock.tail;
        let count = u64::from(self.shape.journal_batch).min(length - place).min(length - read);
        if count == 0 {
            return self.journal_read();
        }
        self.read_blocks(SUPERBLOCKS + place as u32, count as u32);
    }

    fn read_journal(&mut self, _now: Nanos, data: &[u8]) {
        let identity = self.commit.superblock.identity;
        let mut ends = None;
        for found in data.chunks_exact(BLOCK as usize) {
            let Phase::Opening(opening) = &mut self.phase else { return };
            let number = opening.at;
            let block = JournalBlock::decode(found, number, identity);
            match (block, ends) {
                // What was written behind says that this was durable once.
                (Some(block), Some(end)) if block.durable > end => {
                    return self.refuse(OpenError::Damaged("a block of the journal is missing"));
                }
                (_, Some(_)) => {}
                (Some(block), None) if block.session >= opening.session => {
                    opening.session = block.session;
                    let whole = block.cycle;
                    if !self.replay(&block.records) {
                        return self.refuse(OpenError::Damaged("a record of the journal makes no sense"));
                    }
                    let places = self.shape.places();
                    if whole.begun > number + 1 || whole.whole > whole.begun || whole.cursor > places {
                        return self.refuse(OpenError::Damaged("the journal's numbers make no sense"));
                    }
                    self.commit.cycle = whole;
                }
                (_, None) => ends = Some(number),
            }
            if let Phase::Opening(opening) = &mut self.phase {
                opening.at += 1;
            }
        }
        match ends {
            None => self.read_more(),
            Some(end) => {
                if let Phase::Opening(opening) = &mut self.phase {
                    opening.at = end;
                }
                self.journal_read();
            }
        }
    }

    /// Does what records say. False if they cannot be.
    fn replay(&mut self, records: &[Record]) -> bool {
        let (places, blocks) = (u64::from(self.shape.places()), u64::from(self.shape.origin_blocks));
        let within = |first: u32, count: u32, end: u64| u64::from(first) + u64::from(count) <= end;
        for record in records {
            let fits = match *record {
                Record::Insert { block, place, count, .. } | Record::Clean { block, place, count } => {
                    within(block, count.into(), blocks) && within(place, count.into(), places)
                }
                Record::Remove { block, count } => within(block, count, blocks),
                Record::Reset { place, count } => within(place, count, places),
                Record::DropClean => true,
            };
            if !fits {
                return false;
            }
            match *record {
                Record::Insert { block, place, count, dirty } => {
                    for n in 0..u32::from(count) {
                        self.lose(place + n);
                        self.index.insert(block + n, place + n);
                        match dirty {
                            true => self.dirty.set(block + n),
                            false => self.dirty.clear(block + n),
                        };
                    }
                }
                Record::Remove { block, count } => {
                    for block in block..block + count {
                        self.index.remove(block);
                        self.dirty.clear(block);
                    }
                }
                Record::Clean { block, place, count } => {
                    for n in 0..u32::from(count) {
                        if self.index.get(block + n) == Some(place + n) {
                            self.dirty.clear(block + n);
                        }
                    }
                }
                Record::Reset { place, count } => (place..place + count).for_each(|place| self.lose(place)),
                Record::DropClean => self.drop_clean(),
            }
        }
        true
    }

    /// Nothing lies at this place.
    fn lose(&mut self, place: u32) {
        if let Some(block) = self.index.owner(place) {
            self.index.remove(block);
            self.dirty.clear(block);
        }
    }

    fn drop_clean(&mut self) {
        for place in 0..self.shape.places() {
            if let Some(block) = self.index.owner(place).filter(|block| !self.dirty.get(*block)) {
                self.index.remove(block);
            }
        }
    }

    /// All of the journal is read.
    fn journal_read(&mut self) {
        let Phase::Opening(opening) = &self.phase else { return };
        let (head, session) = (opening.at, opening.session);
        let superblock = &mut self.commit.superblock;
        if head < superblock.head || superblock.clean && head != superblock.head {
            return self.refuse(OpenError::Damaged("the journal ends too early"));
        }
        superblock.session = superblock.session.max(session) + 1;
        self.commit.head = head;
        if !superblock.clean {
            // Of what is clean the origin may have something newer.
            self.drop_clean();
            if let Phase::Opening(opening) = &mut self.phase {
                opening.drop_clean = true;
            }
        }
        let places = (0..self.shape.places()).filter_map(|place| {
            let block = self.index.owner(place)?;
            Some((place, self.dirty.get(block)))
        });
        self.buckets.rebuild(places);
        self.commit.says_dirty = self.dirty.count() > 0;
        self.look_for_room = true;
        self.mark_session(false);
    }
}
