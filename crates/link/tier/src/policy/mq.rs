//! The multi-queue policy of RHEL 7.1. The rules and constants are those of drivers/md/dm-cache-policy-mq.c of its kernel, read for what it
//! does; docs/cache.md lists them.

use super::entries::{Entries, List, NONE, Table};
use super::kinds::{Ask, Found, Work, WorkKind};
use crate::chunk::{Bits, Cblock, Oblock};
use crate::config::MqTunables;

/// Levels of a queue: the logarithm of an entry's hits (`NR_QUEUE_LEVELS`).
const LEVELS: usize = 16;
/// A dirty chunk gives way to one with so many hits more (`DISCOURAGE_DEMOTING_DIRTY_THRESHOLD`).
const DIRTY_HITS: u32 = 128;

/// Sees whether requests come in sequence.
#[derive(Default)]
struct Tracker {
    sequential: bool,
    in_sequence: u32,
    out_of_sequence: u32,
    last_sector: u64,
}

impl Tracker {
    fn see(&mut self, ask: &Ask, tunables: &MqTunables) {
        if ask.sector == self.last_sector + 1 {
            self.in_sequence = self.in_sequence.saturating_add(1);
        } else {
            // One request out of sequence begins the count anew.
            if self.in_sequence > 0 {
                (self.in_sequence, self.out_of_sequence) = (0, 0);
            }
            self.out_of_sequence = self.out_of_sequence.saturating_add(1);
        }
        self.last_sector = (ask.sector + ask.sectors).saturating_sub(1);
        let turns = match self.sequential {
            true => self.out_of_sequence >= tunables.random_threshold,
            false => self.in_sequence >= tunables.sequential_threshold,
        };
        if turns {
            self.sequential = !self.sequential;
            (self.in_sequence, self.out_of_sequence) = (0, 0);
        }
    }
}

/// Lists by the logarithm of the hits.
struct Queue {
    levels: [List; LEVELS],
    len: u32,
}

impl Queue {
    const EMPTY: Self = Self { levels: [List::EMPTY; LEVELS], len: 0 };

    fn push(&mut self, entries: &mut Entries, level: usize, at: u32) {
        self.len += 1;
        self.levels[level].push_back(entries, at);
    }

    fn remove(&mut self, entries: &mut Entries, level: usize, at: u32) {
        self.len -= 1;
        self.levels[level].remove(entries, at);
    }

    /// The oldest of the lowest populated level.
    fn first(&self) -> Option<u32> {
        self.levels.iter().map(|list| list.head).find(|at| *at != NONE)
    }
}

/// The policy. Entries below `chunks` are places on the cache device, by their number. As many behind them are chunks of the origin that
/// are watched (the pre-cache).
pub(crate) struct Mq {
    chunks: u32,
    pub(crate) tunables: MqTunables,
    entries: Entries,
    /// Of each entry. They stop at 65,535, which is the highest level.
    hits: Vec<u16>,
    table: Table,
    free: List,
    watched_free: List,
    watched: Queue,
    clean: Queue,
    dirty: Queue,
    tracker: Tracker,
    /// Counted since the last tick, with a list of them: a chunk counts one hit in a tick.
    counted: Bits,
    counted_list: Vec<u32>,
    pending: u32,
    dirty_chunks: u32,
}

impl Mq {
    pub(crate) fn new(tunables: MqTunables, chunks: u32) -> Self {
        let mut entries = Entries::new(2 * chunks, 0, false);
        let (mut free, mut watched_free) = (List::EMPTY, List::EMPTY);
        (0..chunks).for_each(|at| free.push_back(&mut entries, at));
        (chunks..2 * chunks).for_each(|at| watched_free.push_back(&mut entries, at));
        Self {
            chunks,
            tunables,
            entries,
            hits: vec![0; 2 * chunks as usize],
            table: Table::new(2 * chunks, 2 * chunks),
            free,
            watched_free,
            watched: Queue::EMPTY,
            clean: Queue::EMPTY,
            dirty: Queue::EMPTY,
            tracker: Tracker::default(),
            counted: Bits::new(2 * chunks),
            counted_list: Vec::new(),
            pending: 0,
            dirty_chunks: 0,
        }
    }

    pub(crate) fn find(&self, oblock: Oblock) -> Option<Cblock> {
        self.table.find(&self.entries, oblock.0).filter(|at| *at < self.chunks).map(Cblock)
    }

    pub(crate) fn oblock(&self, cblock: Cblock) -> Option<Oblock> {
        self.entries.is_mapped(cblock.0).then(|| Oblock(self.entries.block(cblock.0)))
    }

    pub(crate) fn is_dirty(&self, cblock: Cblock) -> bool {
        self.entries.is_dirty(cblock.0)
    }

    pub(crate) fn resident(&self) -> u32 {
        self.chunks - self.free.len
    }

    pub(crate) fn dirty(&self) -> u32 {
        self.dirty_chunks
    }

    fn level(&self, at: u32) -> usize {
        self.hits[at as usize].max(1).ilog2() as usize
    }

    fn queue(&mut self, at: u32) -> (&mut Queue, &mut Entries) {
        let queue = match (at < self.chunks, self.entries.is_dirty(at)) {
            (false, _) => &mut self.watched,
            (true, true) => &mut self.dirty,
            (true, false) => &mut self.clean,
        };
        (queue, &mut self.entries)
    }

    /// To the end of its level.
    fn push(&mut self, at: u32) {
        if !self.counted.set(at) {
            self.counted_list.push(at);
        }
        let level = self.level(at);
        let (queue, entries) = self.queue(at);
        queue.push(entries, level, at);
    }

    fn remove(&mut self, at: u32) {
        let level = self.level(at);
        let (queue, entries) = self.queue(at);
        queue.remove(entries, level, at);
    }

    /// Counts a hit, once in a tick.
    fn count(&mut self, at: u32) {
        if self.counted.get(at) {
            return;
        }
        if self.entries.is_pending(at) {
            self.hits[at as usize] = self.hits[at as usize].saturating_add(1);
            return;
        }
        self.remove(at);
        self.hits[at as usize] = self.hits[at as usize].saturating_add(1);
        self.push(at);
    }

    /// Hits that a chunk needs to be promoted.
    fn threshold(&self, ask: &Ask) -> u32 {
        let hits = |at: u32| u32::from(self.hits[at as usize]);
        let room = self.free.len > 0 || self.clean.len > 0;
        if ask.write && ask.discarded && room {
            return self.tunables.discard_promote_adjustment;
        }
        let base = match (self.free.len > 0, self.clean.first(), self.dirty.first()) {
            (true, ..) => 0,
            (false, Some(at), _) => hits(at),
            (false, None, Some(at)) => hits(at) + DIRTY_HITS,
            (false, None, None) => 0,
        };
        base + match ask.write {
            true => self.tunables.write_promote_adjustment,
            false => self.tunables.read_promote_adjustment,
        }
    }

    pub(crate) fn lookup(&mut self, ask: &Ask) -> Found {
        let tunables = self.tunables;
        self.tracker.see(ask, &tunables);
        let entry = self.table.find(&self.entries, ask.oblock.0);
        if let Some(at) = entry.filter(|at| *at < self.chunks) {
            self.count(at);
            return Found::Hit(Cblock(at));
        }
        if self.tracker.sequential && tunables.sequential_threshold > 0 {
            return Found::Miss;
        }
        let threshold = self.threshold(ask);
        let Some(at) = entry else {
            if threshold > 1 {
                self.watch(ask.oblock);
                return Found::Miss;
            }
            return if ask.may_migrate { self.promote(ask, 1) } else { Found::Miss };
        };
        let counted = self.counted.get(at) && !ask.discarded;
        if counted || u32::from(self.hits[at as usize]) < threshold {
            self.count(at);
            return Found::Miss;
        }
        if !ask.may_migrate {
            return Found::Miss;
        }
        self.count(at);
        self.promote(ask, self.hits[at as usize])
    }

    /// Begins to count the hits of a chunk; the one with the fewest is forgotten for it.
    fn watch(&mut self, oblock: Oblock) {
        let at = self.watched_free.pop_front(&mut self.entries).or_else(|| {
            let at = self.watched.first()?;
            self.forget_watched(at);
            self.watched_free.pop_front(&mut self.entries)
        });
        let Some(at) = at else { return };
        self.entries.assign(at, oblock.0);
        self.hits[at as usize] = 1;
        self.table.insert(&mut self.entries, at);
        self.push(at);
    }

    fn forget_watched(&mut self, at: u32) {
        self.remove(at);
        self.table.remove(&mut self.entries, at);
        self.watched_free.push_front(&mut self.entries, at);
        self.counted.clear(at);
    }

    fn promote(&mut self, ask: &Ask, hits: u16) -> Found {
        let (at, victim) = match self.free.pop_front(&mut self.entries) {
            Some(at) => (at, None),
            None => {
                // A dirty one would make the request wait for its write-back.
                let Some(at) = self.clean.first() else {
                    if self.table.find(&self.entries, ask.oblock.0).is_none() {
                        self.watch(ask.oblock);
                    }
                    return Found::Miss;
                };
                self.remove(at);
                (at, Some(Oblock(self.entries.block(at))))
            }
        };
        // The hits of the chunk that comes. The victim has no more use of its own.
        self.hits[at as usize] = hits;
        self.entries.set_pending(at, true);
        self.pending += 1;
        Found::Promote { cblock: Cblock(at), victim }
    }

    /// The next chunk that is written back: the dirty one with the fewest hits.
    pub(crate) fn next_work(&mut self) -> Option<Work> {
        let at = self.dirty.first()?;
        self.remove(at);
        self.entries.set_pending(at, true);
        self.pending += 1;
        let oblock = Oblock(self.entries.block(at));
        Some(Work { kind: WorkKind::WriteBack, oblock, cblock: Cblock(at) })
    }

    pub(crate) fn claim(&mut self, cblock: Cblock) -> bool {
        if self.entries.is_pending(cblock.0) {
            return false;
        }
        self.remove(cblock.0);
        self.entries.set_pending(cblock.0, true);
        self.pending += 1;
        true
    }

    pub(crate) fn evict(&mut self, cblock: Cblock) {
        self.forget(cblock.0);
    }

    fn forget(&mut self, at: u32) {
        self.table.remove(&mut self.entries, at);
        self.dirty_chunks -= u32::from(self.entries.is_dirty(at));
        self.entries.set_dirty(at, false);
    }

    pub(crate) fn finished(&mut self, work: &Work, ok: bool) {
        let at = work.cblock.0;
        assert!(self.pending > 0 && self.entries.is_pending(at), "{work:?} ends twice");
        self.pending -= 1;
        match (work.kind, ok) {
            (WorkKind::Promote, true) => {
                if let Some(watched) = self.table.find(&self.entries, work.oblock.0) {
                    self.forget_watched(watched);
                }
                self.entries.assign(at, work.oblock.0);
                self.table.insert(&mut self.entries, at);
                self.push(at);
                // The request that waits for it counts.
                self.counted.clear(at);
                self.counted_list.retain(|counted| *counted != at);
            }
            (WorkKind::Promote, false) if !self.entries.is_mapped(at) => {
                self.entries.set_pending(at, false);
                self.free.push_front(&mut self.entries, at);
            }
            (WorkKind::Demote, true) => {
                self.forget(at);
                self.entries.set_pending(at, false);
                self.free.push_back(&mut self.entries, at);
            }
            (WorkKind::WriteBack, true) => {
                self.entries.set_pending(at, false);
                self.dirty_chunks -= u32::from(self.entries.is_dirty(at));
                self.entries.set_dirty(at, false);
                self.push(at);
            }
            (WorkKind::Promote | WorkKind::Demote | WorkKind::WriteBack, _) => {
                self.entries.set_pending(at, false);
                self.push(at);
            }
        }
    }

    pub(crate) fn set_dirty(&mut self, cblock: Cblock) {
        let at = cblock.0;
        if self.entries.is_dirty(at) {
            return;
        }
        self.dirty_chunks += 1;
        if self.entries.is_pending(at) {
            self.entries.set_dirty(at, true);
            return;
        }
        self.remove(at);
        self.entries.set_dirty(at, true);
        self.push(at);
    }

    pub(crate) fn load(&mut self, cblock: Cblock, oblock: Oblock, dirty: bool, hint: Option<u16>) {
        let at = cblock.0;
        self.free.remove(&mut self.entries, at);
        self.entries.assign(at, oblock.0);
        self.hits[at as usize] = hint.unwrap_or(1).max(1);
        self.entries.set_dirty(at, dirty);
        self.dirty_chunks += u32::from(dirty);
        self.table.insert(&mut self.entries, at);
        self.push(at);
    }

    pub(crate) fn hint(&self, cblock: Cblock) -> u16 {
        self.hits[cblock.0 as usize]
    }

    pub(crate) fn tick(&mut self) {
        for at in self.counted_list.drain(..) {
            self.counted.clear(at);
        }
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        let bits = (2 * self.chunks as usize).div_ceil(8);
        self.entries.memory() + self.hits.capacity() * 2 + self.table.memory() + bits
    }
}
