//! How a session begins: the metadata is read and checked, and the session's own table is written before the host gets an answer.

use crate::chunk::{Bits, Cblock, Oblock};
use crate::config::{Config, DeviceId, Mode};
use crate::error::OpenError;
use crate::metadata::BLOCK;
use crate::metadata::layout::{Layout, SUPERBLOCKS};
use crate::metadata::superblock::{Counts, Found, State, Superblock};
use crate::metadata::table::{self, ENTRIES, Entry, Record};
use crate::policy::Policy;
use crate::shape::{Device, Geometries, Shape};
use crate::state::{Commit, Core, Counters, Health, OpenStep, Opening, Owner, Phase, Step};
use blockdev::stack::Slab;
use blockdev::{Nanos, Operation, Status, Verb};
use std::collections::{BTreeMap, VecDeque};

/// How a session begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// Makes a tier. What the cache device holds is of no more use.
    Create {
        /// Any number that was used for no other tier on this metadata device: a random one.
        seed: u64,
        /// Whether it may take the place of another tier, which is lost.
        replace: bool,
    },
    /// Opens one that was made before.
    Open,
}

const SECOND: Nanos = 1_000_000_000;

impl Core {
    /// A tier of three devices. It begins to read the metadata, and holds requests of the host until it is open.
    ///
    /// # Errors
    /// The devices and the configuration do not fit. What the metadata says is wrong shows [later](Core::opened).
    pub fn new(config: Config, devices: &Geometries, start: Start, now: Nanos) -> Result<Self, OpenError> {
        let shape = Shape::new(&config, devices)?;
        let layout = Layout::new(shape.cache_chunks, shape.metadata_bytes)?;
        let create = matches!(start, Start::Create { .. });
        let replace = matches!(start, Start::Create { replace: true, .. });
        if !config.contents && !create {
            return Err(OpenError::NoContents);
        }
        let epoch = if let Start::Create { seed, .. } = start { rng::mix(seed) >> 2 } else { 0 };
        let superblock = Superblock {
            sequence: 0,
            epoch,
            copy: 1,
            state: State::Open,
            needs_check: false,
            mode: config.mode,
            policy: config.policy,
            chunk: config.chunk,
            chunks: shape.cache_chunks,
            origin_bytes: shape.origin_bytes,
            origin: config.origin,
            cache: config.cache,
            layout,
            discard_block: shape.discard_block,
            counts: Counts::default(),
        };
        let commit = Commit {
            step: Step::Idle,
            pending: Vec::new(),
            writing: Vec::new(),
            waiters: Vec::new(),
            served: Vec::new(),
            wanted: false,
            flush_wanted: false,
            goal_wanted: None,
            goal: None,
            left: 0,
            failed: None,
            table_at: 0,
            log_at: 0,
            parked: Vec::new(),
            superblock,
            slot: 1,
            // A session before this one may have left some.
            origin_unflushed: true,
            cache_unflushed: true,
            metadata_unflushed: !create,
            written_back: true,
        };
        let opening = Opening {
            create,
            replace,
            entries: Vec::new(),
            discards: Vec::new(),
            read: OpenStep::Superblocks,
            older: false,
            log_end: None,
        };
        let mut core = Self {
            policy: Policy::new(config.policy, config.mq, shape.cache_chunks, shape.origin_chunks, now),
            discards: Bits::new(shape.discards()),
            phase: Phase::Opening(Box::new(opening)),
            config,
            shape,
            health: Health::default(),
            requests: Slab::new(),
            pieces: Slab::new(),
            subs: Slab::new(),
            migrations: Slab::new(),
            cells: BTreeMap::new(),
            out: VecDeque::new(),
            done: VecDeque::new(),
            held: VecDeque::new(),
            commit,
            counters: Counters::default(),
            migrating: 0,
            origin_pieces: 0,
            origin_idle: now,
            tick_wanted: true,
            next_tick: now + SECOND,
            wake: false,
            paused: false,
            cleaning: false,
            cleaning_failed: false,
            outcome: None,
        };
        match core.config.contents {
            true => core.read_metadata(0, SUPERBLOCKS),
            false => core.begin_session(now),
        }
        Ok(core)
    }

    /// Whether the tier is open, or why it will not be.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn opened(&self) -> Result<bool, OpenError> {
        match &self.phase {
            Phase::Opening(_) => Ok(false),
            Phase::Failed(error) => Err(error.clone()),
            Phase::Running | Phase::Quiescing(_) | Phase::Changing(_) | Phase::Closed => Ok(true),
        }
    }

    fn read_metadata(&mut self, block: u64, blocks: u64) {
        let data = vec![0; (blocks * BLOCK) as usize];
        let operation = Operation { verb: Verb::Read, lba: block, blocks: blocks as u32 };
        // Two superblocks can be more than the device takes at once.
        if blocks > self.shape.metadata_batch {
            return self.read_metadata(block, self.shape.metadata_batch);
        }
        self.emit(Owner::Open(block), Device::Metadata, operation, data);
    }

    pub(crate) fn fail_open(&mut self, error: OpenError) {
        self.phase = Phase::Failed(error);
        while let Some(request) = self.held.pop_front() {
            self.end_request(request, Status::NAMESPACE_NOT_READY);
        }
    }

    /// Blocks of metadata have been read.
    pub(crate) fn open_done(&mut self, now: Nanos, block: u64, status: Status, data: &[u8]) {
        if !status.is_success() {
            return self.fail_open(OpenError::Device { device: Device::Metadata.name(), status });
        }
        if data.is_empty() {
            return self.fail_open(OpenError::NoContents);
        }
        let Phase::Opening(opening) = &self.phase else { return };
        let result = match opening.read {
            OpenStep::Superblocks => self.read_superblocks(now, block, data),
            OpenStep::Table => self.read_table(now, block, data),
            OpenStep::Discards => self.read_discards(now, data),
            OpenStep::Log => self.read_log(now, block, data),
            OpenStep::Checkpoint => Ok(()),
        };
        if let Err(error) = result {
            self.fail_open(error);
        }
    }

    fn opening(&mut self) -> Option<&mut Opening> {
        match &mut self.phase {
            Phase::Opening(opening) => Some(opening),
            _ => None,
        }
    }

    fn read_superblocks(&mut self, now: Nanos, block: u64, data: &[u8]) -> Result<(), OpenError> {
        let mut best: Option<(u8, Superblock)> = None;
        let mut worst = OpenError::Foreign;
        let mut missing = false;
        let mut places = data.chunks_exact(BLOCK as usize);
        // Where the device takes one block at once, the first is kept as found so far.
        if block > 0 && self.commit.superblock.sequence > 0 {
            best = Some((0, self.commit.superblock));
        }
        for slot in block as u8..SUPERBLOCKS as u8 {
            let Some(place) = places.next() else { break };
            match Superblock::decode(place) {
                Found::Superblock(found) => {
                    if best.is_none_or(|(_, best)| found.sequence > best.sequence) {
                        best = Some((slot, found));
                    }
                }
                Found::Version(version) => return Err(OpenError::Version(version)),
                Found::Damaged => {
                    worst = OpenError::Damaged("both superblocks are");
                    missing = true;
                }
                Found::Foreign => missing = true,
            }
        }
        if let Some(opening) = self.opening() {
            opening.older |= missing;
        }
        let create = self.opening().is_some_and(|opening| opening.create);
        let replace = self.opening().is_some_and(|opening| opening.replace);
        match best {
            // The new one is newer.
            Some((slot, found)) if replace => {
                (self.commit.superblock.sequence, self.commit.slot) = (found.sequence, slot);
            }
            Some((slot, found)) => (self.commit.superblock, self.commit.slot) = (found, slot),
            None => {}
        }
        let read = block + (data.len() as u64 / BLOCK);
        if read < SUPERBLOCKS {
            self.read_metadata(read, SUPERBLOCKS - read);
            return Ok(());
        }
        match best {
            Some(_) if create && !replace => Err(OpenError::Exists),
            _ if create => {
                self.begin_session(now);
                Ok(())
            }
            None => Err(worst),
            Some((_, found)) => {
                if let Some(opening) = self.opening() {
                    // The first one has no other beside it.
                    opening.older &= found.sequence > 1;
                }
                self.check(&found)?;
                let capacity = found.chunks;
                if let Some(opening) = self.opening() {
                    opening.entries.reserve(capacity as usize);
                    opening.read = OpenStep::Table;
                }
                self.read_more_table();
                Ok(())
            }
        }
    }

    /// Holds a superblock against what was asked for and what there is.
    fn check(&self, found: &Superblock) -> Result<(), OpenError> {
        let Config { chunk, origin, cache, repair, .. } = self.config;
        let layout = found.layout;
        // Power cuts leave sectors as they were or as they are to be, and a superblock differs in one sector only from any that was there before.
        // So it is damaged for another reason.
        let older = matches!(&self.phase, Phase::Opening(opening) if opening.older);
        if older && !repair {
            return Err(OpenError::SuperblockDamaged);
        }
        let sane = layout.table > 0
            && layout.table < 1 << 32
            && (1..1 << 32).contains(&layout.log)
            && u64::from(found.chunks) <= layout.capacity();
        if !sane {
            return Err(OpenError::Damaged("the superblock makes no sense"));
        }
        if found.chunk != chunk {
            return Err(OpenError::Chunk { recorded: found.chunk, asked: chunk });
        }
        if found.origin != origin {
            return Err(OpenError::OriginId { recorded: found.origin, found: origin });
        }
        if found.cache != DeviceId::default() && found.cache != cache {
            return Err(OpenError::CacheId { recorded: found.cache, found: cache });
        }
        if found.origin_bytes != self.shape.origin_bytes {
            let (recorded, found) = (found.origin_bytes, self.shape.origin_bytes);
            return Err(OpenError::OriginSize { recorded, found });
        }
        let needed = layout.blocks() * BLOCK;
        if needed > self.shape.metadata_bytes {
            return Err(OpenError::MetadataShrunk { needed, found: self.shape.metadata_bytes });
        }
        if u64::from(self.shape.cache_chunks) > layout.capacity() {
            let (chunks, capacity) = (self.shape.cache_chunks, layout.capacity());
            return Err(OpenError::Grown { chunks, capacity });
        }
        if found.needs_check && !repair {
            return Err(OpenError::NeedsCheck);
        }
        Ok(())
    }

    /// Reads the next blocks of the table, or what follows it.
    fn read_more_table(&mut self) {
        let Superblock { layout, copy, chunks, state, .. } = self.commit.superblock;
        let batch = self.shape.metadata_batch;
        let Some(opening) = self.opening() else { return };
        let blocks = u64::from(chunks).div_ceil(ENTRIES as u64);
        let read = opening.entries.len().div_ceil(ENTRIES) as u64;
        let first = layout.table_at(copy);
        match state {
            _ if read < blocks => self.read_metadata(first + read, batch.min(blocks - read)),
            State::Clean => {
                opening.read = OpenStep::Discards;
                self.read_metadata(first + layout.table, 1);
            }
            State::Open => {
                opening.read = OpenStep::Log;
                self.read_metadata(layout.log_at(), batch.min(layout.log));
            }
        }
    }

    fn read_table(&mut self, _now: Nanos, block: u64, data: &[u8]) -> Result<(), OpenError> {
        let Superblock { layout, copy, epoch, chunks, .. } = self.commit.superblock;
        let first = block - layout.table_at(copy);
        let Some(opening) = self.opening() else { return Ok(()) };
        for (index, block) in (first..).zip(data.chunks_exact(BLOCK as usize)) {
            let entries = table::decode(epoch, index, block)
                .ok_or(OpenError::Damaged("a block of the table has a wrong checksum"))?;
            let left = chunks as usize - opening.entries.len();
            if entries.len() != left.min(ENTRIES) {
                return Err(OpenError::Damaged("a block of the table has too few entries"));
            }
            opening.entries.extend(entries);
        }
        self.read_more_table();
        Ok(())
    }

    fn read_discards(&mut self, now: Nanos, data: &[u8]) -> Result<(), OpenError> {
        let Superblock { epoch, discard_block, .. } = self.commit.superblock;
        let same = discard_block == self.shape.discard_block;
        let discards = table::decode_discards(epoch, data)
            .ok_or(OpenError::Damaged("the block of discards has a wrong checksum"))?;
        if let Some(opening) = self.opening() {
            opening.discards = if same { discards } else { Vec::new() };
        }
        self.load(now)
    }

    fn read_log(&mut self, now: Nanos, block: u64, data: &[u8]) -> Result<(), OpenError> {
        let Superblock { layout, epoch, .. } = self.commit.superblock;
        let batch = self.shape.metadata_batch;
        let mut index = block - layout.log_at();
        let Some(opening) = self.opening() else { return Ok(()) };
        for block in data.chunks_exact(BLOCK as usize) {
            if table::durable_before(epoch + 1, index, block).is_some() && !opening.older {
                return Err(OpenError::Damaged("the log is newer than the superblock"));
            }
            let records = table::decode_log(epoch, index, block);
            if let Some(end) = opening.log_end {
                if table::durable_before(epoch, index, block).is_some_and(|durable| durable > end) {
                    return Err(OpenError::Damaged("a block of the log is"));
                }
                index += 1;
                continue;
            }
            let Some(records) = records else {
                opening.log_end = Some(index);
                index += 1;
                continue;
            };
            for record in records {
                let entry = opening
                    .entries
                    .get_mut(record.cblock().0 as usize)
                    .ok_or(OpenError::Damaged("the log names a chunk beyond the cache's end"))?;
                match record {
                    Record::Insert(_, oblock) => *entry = Some(Entry { oblock, dirty: false, hint: 0 }),
                    Record::Remove(_) => *entry = None,
                    Record::Clean(_) => {
                        if let Some(entry) = entry {
                            entry.dirty = false;
                        }
                    }
                }
            }
            index += 1;
        }
        if index == layout.log {
            return self.load(now);
        }
        self.read_metadata(layout.log_at() + index, batch.min(layout.log - index));
        Ok(())
    }

    /// Fills the policy with what was read.
    fn load(&mut self, now: Nanos) -> Result<(), OpenError> {
        let Superblock { state, needs_check, mode, policy, counts, .. } = self.commit.superblock;
        let Some(opening) = self.opening() else { return Ok(()) };
        let in_order = state == State::Clean && !needs_check && !opening.older;
        let (entries, discards) =
            (std::mem::take(&mut opening.entries), std::mem::take(&mut opening.discards));
        for (cblock, entry) in (0..).zip(entries) {
            let Some(Entry { oblock: Oblock(oblock), dirty, hint }) = entry else { continue };
            let oblock = Oblock(oblock);
            if oblock.0 >= self.shape.origin_chunks || self.policy.find(oblock).is_some() {
                return Err(OpenError::Damaged("two places have the same chunk, or one that is not there"));
            }
            // Without order, the cache has what is newest in writeback mode. In the other modes the origin has, except where the table
            // says dirty; and it may have gone on without the cache.
            let dirty = match (in_order, mode) {
                (true, _) => dirty,
                (false, Mode::Writeback) => true,
                (false, Mode::Writethrough | Mode::Passthrough) if dirty => true,
                (false, Mode::Writethrough | Mode::Passthrough) => continue,
            };
            if cblock >= self.shape.cache_chunks {
                if dirty {
                    return Err(OpenError::Shrunk { cblock });
                }
                continue;
            }
            let hint = (in_order && policy == self.config.policy).then_some(hint);
            self.policy.load(Cblock(cblock), oblock, dirty, hint);
        }
        let dirty = self.policy.dirty();
        if self.config.mode == Mode::Passthrough && dirty > 0 {
            return Err(OpenError::NotClean(dirty));
        }
        if in_order {
            for at in discards.into_iter().filter(|at| *at < self.shape.discards()) {
                self.discards.set(at);
            }
        }
        let Counts { read_hits, read_misses, write_hits, write_misses } = counts;
        self.counters = Counters { read_hits, read_misses, write_hits, write_misses, ..self.counters };
        self.begin_session(now);
        Ok(())
    }

    /// Writes the session's table and superblock.
    fn begin_session(&mut self, now: Nanos) {
        if let Some(opening) = self.opening() {
            opening.read = OpenStep::Checkpoint;
        }
        if self.config.mode == Mode::Passthrough {
            self.policy.allow_promotions(false);
        }
        let goal = self.open_goal();
        self.checkpoint(now, goal);
    }

    /// The session has begun, or could not.
    pub(crate) fn session_begun(&mut self, now: Nanos, result: Result<(), Status>) {
        if let Err(status) = result {
            let device = self.commit.failed.map_or(Device::Metadata, |(device, _)| device).name();
            return self.fail_open(OpenError::Device { device, status });
        }
        self.phase = Phase::Running;
        self.next_tick = now + SECOND;
        self.origin_idle = now;
        self.policy.tick(now);
        self.resume(now);
    }
}
