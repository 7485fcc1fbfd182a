//! The stochastic multi-queue policy, with the rules of Linux before and since 4.12. The rules and constants are those of
//! drivers/md/dm-cache-policy-smq.c, read for what it does; docs/cache.md lists them.

use super::entries::{Entries, List, Table};
use super::kinds::{Ask, Found, Pace, Work, WorkKind};
use super::queue::{LEVELS, Pushed, Queue};
use crate::chunk::{Bits, Cblock, Oblock};
use blockdev::Nanos;
use std::collections::{BTreeSet, VecDeque};

const SECOND: Nanos = 1_000_000_000;
/// Entries of the dirty and of the clean queue become old with these periods (`WRITEBACK_PERIOD`, `DEMOTE_PERIOD`).
const WRITEBACK_PERIOD: Nanos = 10 * SECOND;
const DEMOTE_PERIOD: Nanos = 60 * SECOND;
/// Levels of the hotspot queue are filled anew with this period (`HOTSPOT_UPDATE_PERIOD`).
const HOTSPOT_PERIOD: Nanos = SECOND;
/// Chunks of the origin in a hotspot block, at most; and how many cache blocks there are for one of them.
const HOTSPOT_CHUNKS: u32 = 16;
const CACHE_PER_HOTSPOT: u32 = 4;
const HOTSPOTS_AT_LEAST: u32 = 1024;
const HOTSPOT_TOP_LEVELS: u8 = 8;
/// A hit in this level or above says that a queue knows what is used (three quarters of the levels).
const GOOD_LEVEL: u8 = LEVELS / 4 * 3;
/// Levels that a new chunk must have risen to, counted from the top, by the share of hits among the cache's lookups in sixteenths.
const PROMOTE_LEVELS: [u8; 17] = [1, 1, 1, 2, 4, 6, 7, 8, 7, 6, 4, 4, 3, 3, 2, 2, 1];
/// Percent of the cache that a promotion wants free (`FREE_TARGET`), and that is kept clean under load before 4.12 (`CLEAN_TARGET_CRITICAL`).
const FREE_TARGET: u64 = 25;
const CLEAN_TARGET: u64 = 5;
/// Migrations that are queued or under way, at most.
const WORK_AT_MOST: usize = 4096;

/// Which rules hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rules {
    /// Linux 4.2 to 4.11: the policy answers a lookup with a migration, which the request waits for.
    Inline,
    /// Linux 4.12 and later: migrations are work in the background.
    Background,
    /// The same, and nothing is promoted: everything dirty is written back.
    Cleaner,
}

/// How well a queue knows what is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Performance {
    Poor,
    Fair,
    Well,
}

/// Lookups of a queue in its present period.
#[derive(Clone, Copy, Default)]
struct Lookups {
    good: u32,
    other: u32,
}

impl Lookups {
    #[inline]
    fn found(&mut self, level: u8) {
        match level >= GOOD_LEVEL {
            true => self.good = self.good.saturating_add(1),
            false => self.other = self.other.saturating_add(1),
        }
    }

    /// The share of good ones, in so many parts.
    fn share(self, parts: u64) -> u64 {
        let all = u64::from(self.good) + u64::from(self.other);
        (u64::from(self.good) * parts).checked_div(all).unwrap_or(0)
    }

    fn assess(self) -> Performance {
        match self.share(256) {
            0..16 => Performance::Poor,
            16..32 => Performance::Fair,
            _ => Performance::Well,
        }
    }
}

/// The first sentinels of the dirty and of the clean queue: two for each level. The `current` ones are the younger.
struct Sentinels {
    first: u32,
    current: bool,
    moved: Nanos,
}

impl Sentinels {
    #[inline]
    fn of(&self, level: u8, current: bool) -> u32 {
        self.first + u32::from(level) + if current == self.current { 0 } else { u32::from(LEVELS) }
    }

    /// The older ones of a queue become the younger ones, and go to the end of their levels.
    fn turn(&mut self, entries: &mut Entries, queue: &mut Queue, now: Nanos) {
        self.moved = now;
        self.current = !self.current;
        for level in 0..LEVELS {
            let sentinel = self.of(level, true);
            queue.remove(entries, sentinel);
            queue.push_back(entries, sentinel);
        }
    }
}

/// The policy. Entries below `chunks` are places on the cache device, by their number; behind them are the hotspot blocks.
pub(crate) struct Smq {
    rules: Rules,
    chunks: u32,
    hotspots: u32,
    hotspots_used: u32,
    /// Chunks of the origin in a hotspot block.
    hotspot_chunks: u32,
    entries: Entries,
    table: Table,
    hotspot_table: Table,
    free: List,
    clean: Queue,
    dirty: Queue,
    hotspot: Queue,
    writeback: Sentinels,
    demote: Sentinels,
    /// Hit in this period.
    cache_hit: Bits,
    /// Hit since the last tick, with a list of them.
    hotspot_hit: Bits,
    hotspots_hit: Vec<u32>,
    cache_lookups: Lookups,
    hotspot_lookups: Lookups,
    cache_period: Nanos,
    hotspot_period: Nanos,
    jump: u8,
    read_level: u8,
    write_level: u8,
    work: VecDeque<Work>,
    /// Work that is queued or under way, demotions among it, and what is being promoted.
    pending: usize,
    demotions: u32,
    promoting: BTreeSet<Oblock>,
    dirty_chunks: u32,
    may_promote: bool,
}

impl Smq {
    /// For a cache of so many chunks before an origin of so many.
    pub(crate) fn new(rules: Rules, chunks: u32, origin: u32, now: Nanos) -> Self {
        let hotspots = (chunks / CACHE_PER_HOTSPOT).max(HOTSPOTS_AT_LEAST);
        let mut hotspot_chunks = HOTSPOT_CHUNKS;
        while hotspot_chunks > 1 && u64::from(hotspot_chunks) * u64::from(hotspots) > u64::from(origin) {
            hotspot_chunks /= 2;
        }
        // More hotspot blocks than the origin has are never used.
        let hotspots = hotspots.min(origin.div_ceil(hotspot_chunks));
        let wanted = (chunks / CACHE_PER_HOTSPOT).max(HOTSPOTS_AT_LEAST);
        let in_top = (wanted / u32::from(LEVELS)).min(chunks / hotspot_chunks);
        let real = chunks + hotspots;
        let mut entries = Entries::new(real, 4 * u32::from(LEVELS), true);
        let mut free = List::EMPTY;
        (0..chunks).for_each(|at| free.push_back(&mut entries, at));
        let sentinels = |first| Sentinels { first, current: false, moved: now };
        let mut smq = Self {
            rules,
            chunks,
            hotspots,
            hotspots_used: 0,
            hotspot_chunks,
            entries,
            table: Table::new(chunks, chunks),
            hotspot_table: Table::new(hotspots, real),
            free,
            clean: Queue::new((0, 0)),
            dirty: Queue::new((0, 0)),
            hotspot: Queue::new((HOTSPOT_TOP_LEVELS, in_top)),
            writeback: sentinels(real),
            demote: sentinels(real + 2 * u32::from(LEVELS)),
            cache_hit: Bits::new(chunks),
            hotspot_hit: Bits::new(hotspots),
            hotspots_hit: Vec::new(),
            cache_lookups: Lookups::default(),
            hotspot_lookups: Lookups::default(),
            cache_period: now,
            hotspot_period: now,
            jump: 1,
            read_level: LEVELS,
            write_level: LEVELS,
            work: VecDeque::new(),
            pending: 0,
            demotions: 0,
            promoting: BTreeSet::new(),
            dirty_chunks: 0,
            may_promote: rules != Rules::Cleaner,
        };
        for current in [false, true] {
            for level in 0..LEVELS {
                let of_dirty = smq.writeback.of(level, current);
                smq.entries.set_level(of_dirty, level);
                smq.dirty.push_back(&mut smq.entries, of_dirty);
                let of_clean = smq.demote.of(level, current);
                smq.entries.set_level(of_clean, level);
                smq.clean.push_back(&mut smq.entries, of_clean);
            }
        }
        smq
    }

    pub(crate) fn allow_promotions(&mut self, allow: bool) {
        self.may_promote = allow && self.rules != Rules::Cleaner;
    }

    #[inline]
    pub(crate) fn find(&self, oblock: Oblock) -> Option<Cblock> {
        self.table.find(&self.entries, oblock.0).map(Cblock)
    }

    pub(crate) fn oblock(&self, cblock: Cblock) -> Option<Oblock> {
        self.entries.is_mapped(cblock.0).then(|| Oblock(self.entries.block(cblock.0)))
    }

    #[inline]
    pub(crate) fn is_dirty(&self, cblock: Cblock) -> bool {
        self.entries.is_dirty(cblock.0)
    }

    pub(crate) fn resident(&self) -> u32 {
        self.chunks - self.free.len
    }

    #[inline]
    pub(crate) fn dirty(&self) -> u32 {
        self.dirty_chunks
    }

    /// The queue that a chunk belongs to.
    #[inline]
    fn queue(&mut self, at: u32) -> (&mut Queue, &mut Entries) {
        let queue = if self.entries.is_dirty(at) { &mut self.dirty } else { &mut self.clean };
        (queue, &mut self.entries)
    }

    /// Into its queue after its state changed.
    fn requeue(&mut self, at: u32) {
        let before = (self.rules == Rules::Inline).then(|| {
            let sentinels = if self.entries.is_dirty(at) { &self.writeback } else { &self.demote };
            sentinels.of(self.entries.level(at), true)
        });
        let (queue, entries) = self.queue(at);
        match before {
            Some(sentinel) => queue.insert_before(entries, sentinel, at),
            None => queue.push_back(entries, at),
        }
    }

    #[inline]
    fn hit(&mut self, at: u32) {
        if self.entries.is_pending(at) || self.cache_hit.set(at) {
            return;
        }
        let (level, is_dirty) = (self.entries.level(at), self.entries.is_dirty(at));
        let pushed = match (self.rules, is_dirty) {
            (Rules::Inline, true) => Pushed::Before(self.writeback.of(level, true)),
            (Rules::Inline, false) => Pushed::Before(self.demote.of(level, true)),
            (_, true) => Pushed::Among(self.writeback.of(level, false), self.writeback.of(level, true)),
            (_, false) => Pushed::Back,
        };
        let (queue, entries) = self.queue(at);
        queue.hit(entries, at, 1, pushed);
    }

    /// The hotspot block of a chunk is used. Its level; `None` where there is no hotspot block at all.
    fn use_hotspot(&mut self, oblock: Oblock) -> Option<u8> {
        let block = oblock.0 / self.hotspot_chunks;
        if let Some(at) = self.hotspot_table.find(&self.entries, block) {
            self.hotspot_lookups.found(self.entries.level(at));
            let index = at - self.chunks;
            let jump = match self.hotspot_hit.set(index) {
                true => 0,
                false => {
                    self.hotspots_hit.push(index);
                    self.jump
                }
            };
            self.hotspot.hit(&mut self.entries, at, jump, Pushed::Back);
            return Some(self.entries.level(at));
        }
        self.hotspot_lookups.found(0);
        let at = if self.hotspots_used < self.hotspots {
            self.hotspots_used += 1;
            let at = self.chunks + self.hotspots_used - 1;
            self.entries.set_level(at, 0);
            at
        } else {
            // The worst one becomes this one, and keeps its level.
            let at = self.hotspot.first(&self.entries, LEVELS, true)?;
            self.hotspot.remove(&mut self.entries, at);
            self.hotspot_table.remove(&mut self.entries, at);
            self.hotspot_hit.clear(at - self.chunks);
            at
        };
        self.entries.assign(at, block);
        self.hotspot.push_back(&mut self.entries, at);
        self.hotspot_table.insert(&mut self.entries, at);
        Some(self.entries.level(at))
    }

    #[inline]
    pub(crate) fn lookup(&mut self, ask: &Ask) -> Found {
        let early = if self.rules == Rules::Inline { self.use_hotspot(ask.oblock) } else { None };
        if let Some(at) = self.table.find(&self.entries, ask.oblock.0) {
            self.cache_lookups.found(self.entries.level(at));
            self.hit(at);
            return Found::Hit(Cblock(at));
        }
        self.cache_lookups.found(0);
        let level = match self.rules {
            Rules::Inline => early,
            Rules::Background | Rules::Cleaner => self.use_hotspot(ask.oblock),
        };
        let Some(level) = level else { return Found::Miss };
        let wanted = match ask.write {
            true if ask.fast && self.free.len > 0 => 0,
            true => self.write_level,
            false => self.read_level,
        };
        if level < wanted {
            return Found::Miss;
        }
        match self.rules {
            Rules::Inline => self.promote_inline(ask),
            Rules::Background | Rules::Cleaner => self.promote_later(ask),
        }
    }

    fn promote_inline(&mut self, ask: &Ask) -> Found {
        if !ask.may_migrate {
            return Found::Miss;
        }
        let (at, victim) = match self.free.pop_front(&mut self.entries) {
            Some(at) => (at, None),
            None => {
                let Some(at) = self.clean.first(&self.entries, LEVELS, false) else { return Found::Miss };
                self.clean.remove(&mut self.entries, at);
                (at, Some(Oblock(self.entries.block(at))))
            }
        };
        self.entries.set_pending(at, true);
        self.pending += 1;
        Found::Promote { cblock: Cblock(at), victim }
    }

    fn promote_later(&mut self, ask: &Ask) -> Found {
        if !self.may_promote {
            return Found::Miss;
        }
        if self.free.len == 0 {
            if u64::from(self.demotions) < u64::from(self.chunks) * FREE_TARGET / 100 {
                self.queue_demotion();
            }
            return Found::Miss;
        }
        if self.pending >= WORK_AT_MOST || self.promoting.contains(&ask.oblock) {
            return Found::Miss;
        }
        let Some(at) = self.free.pop_front(&mut self.entries) else { return Found::Miss };
        self.entries.assign(at, ask.oblock.0);
        self.entries.set_pending(at, true);
        self.promoting.insert(ask.oblock);
        self.pending += 1;
        let cblock = Cblock(at);
        if ask.fast {
            return Found::Promote { cblock, victim: None };
        }
        self.work.push_back(Work { kind: WorkKind::Promote, oblock: ask.oblock, cblock });
        Found::Miss
    }

    fn queue_demotion(&mut self) {
        if self.pending >= WORK_AT_MOST {
            return;
        }
        match self.clean.first(&self.entries, LEVELS / 2, true) {
            Some(at) => {
                self.clean.remove(&mut self.entries, at);
                self.queue_work(WorkKind::Demote, at);
                self.demotions += 1;
            }
            None => self.queue_writeback(false),
        }
    }

    fn queue_writeback(&mut self, any_age: bool) {
        if self.pending >= WORK_AT_MOST {
            return;
        }
        if let Some(at) = self.dirty.first(&self.entries, LEVELS, any_age) {
            self.dirty.remove(&mut self.entries, at);
            self.queue_work(WorkKind::WriteBack, at);
        }
    }

    fn queue_work(&mut self, kind: WorkKind, at: u32) {
        self.entries.set_pending(at, true);
        self.pending += 1;
        let oblock = Oblock(self.entries.block(at));
        self.work.push_back(Work { kind, oblock, cblock: Cblock(at) });
    }

    /// Whether work is queued.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// The next migration that is to begin.
    pub(crate) fn next_work(&mut self, pace: Pace) -> Option<Work> {
        if self.work.is_empty() && self.dirty.len > 0 {
            match (self.rules, pace) {
                (_, Pace::All) | (Rules::Background | Rules::Cleaner, Pace::Idle) => {
                    self.queue_writeback(true)
                }
                (Rules::Background, Pace::Busy) => {}
                // What it was made with counts as old.
                (Rules::Cleaner, Pace::Busy) => self.queue_writeback(false),
                (Rules::Inline, _) => self.queue_writeback_inline(pace == Pace::Busy),
            }
        }
        self.work.pop_front()
    }

    fn queue_writeback_inline(&mut self, busy: bool) {
        let clean = u64::from(self.chunks - self.dirty.len);
        let enough = clean >= u64::from(self.chunks) * CLEAN_TARGET / 100;
        // Under load the lowest level is kept clean, and more where too little is clean.
        let levels = if busy && enough { 1 } else { LEVELS };
        if let Some(at) = self.dirty.first(&self.entries, levels, false) {
            self.dirty.remove(&mut self.entries, at);
            self.queue_work(WorkKind::WriteBack, at);
        }
    }

    /// Takes a chunk out of its queue for a demotion that the core wants. False if a migration of it is under way.
    pub(crate) fn claim(&mut self, cblock: Cblock) -> bool {
        let at = cblock.0;
        if self.entries.is_pending(at) {
            let queued = self.work.iter().position(|work| work.cblock == cblock);
            let Some(work) = queued.and_then(|at| self.work.remove(at)) else { return false };
            self.demotions += u32::from(work.kind != WorkKind::Demote);
            return true;
        }
        let (queue, entries) = self.queue(at);
        queue.remove(entries, at);
        self.entries.set_pending(at, true);
        self.pending += 1;
        self.demotions += 1;
        true
    }

    /// A chunk leaves the cache, so that another one can take its place: the victim of a promotion.
    pub(crate) fn evict(&mut self, cblock: Cblock) {
        self.forget(cblock.0);
    }

    fn forget(&mut self, at: u32) {
        self.table.remove(&mut self.entries, at);
        self.dirty_chunks -= u32::from(self.entries.is_dirty(at));
        self.entries.set_dirty(at, false);
        self.cache_hit.clear(at);
    }

    /// A migration has ended.
    pub(crate) fn finished(&mut self, work: &Work, ok: bool) {
        let at = work.cblock.0;
        assert!(self.pending > 0 && self.entries.is_pending(at), "{work:?} ends twice");
        self.pending -= 1;
        match work.kind {
            WorkKind::Promote => {
                self.promoting.remove(&work.oblock);
                if !ok {
                    self.fail_promotion(at);
                    return;
                }
                self.entries.assign(at, work.oblock.0);
                self.table.insert(&mut self.entries, at);
                let level = if self.rules == Rules::Inline { 0 } else { LEVELS - 1 };
                self.entries.set_level(at, level);
                self.clean.push_back(&mut self.entries, at);
            }
            WorkKind::Demote if ok => {
                self.demotions -= 1;
                self.forget(at);
                self.entries.set_pending(at, false);
                self.free.push_back(&mut self.entries, at);
            }
            WorkKind::Demote => {
                self.demotions -= 1;
                self.entries.set_pending(at, false);
                self.requeue(at);
            }
            WorkKind::WriteBack => {
                self.entries.set_pending(at, false);
                if ok {
                    self.dirty_chunks -= u32::from(self.entries.is_dirty(at));
                    self.entries.set_dirty(at, false);
                }
                self.requeue(at);
            }
        }
    }

    fn fail_promotion(&mut self, at: u32) {
        self.entries.set_pending(at, false);
        match self.entries.is_mapped(at) {
            // The victim stays.
            true => self.requeue(at),
            false => self.free.push_back(&mut self.entries, at),
        }
    }

    /// A chunk is written.
    #[inline]
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
        self.clean.remove(&mut self.entries, at);
        self.entries.set_dirty(at, true);
        self.requeue(at);
    }

    /// A mapping that the metadata has. Without a hint its level is any.
    pub(crate) fn load(&mut self, cblock: Cblock, oblock: Oblock, dirty: bool, hint: Option<u16>) {
        let at = cblock.0;
        self.free.remove(&mut self.entries, at);
        self.entries.assign(at, oblock.0);
        let any = match self.rules {
            Rules::Inline => 1,
            // `hash_32` of linux/hash.h, with nine bits.
            Rules::Background | Rules::Cleaner => ((at.wrapping_mul(0x61C8_8647) >> 23) as u8) % LEVELS,
        };
        let level = hint.map_or(any, |hint| hint.min(u16::from(LEVELS) - 1) as u8);
        self.entries.set_level(at, level);
        self.entries.set_dirty(at, dirty);
        self.dirty_chunks += u32::from(dirty);
        self.table.insert(&mut self.entries, at);
        // Before the sentinels: it may be demoted or written back at once.
        let (queue, entries) = self.queue(at);
        queue.push_front(entries, at);
    }

    pub(crate) fn hint(&self, cblock: Cblock) -> u16 {
        self.entries.level(cblock.0).into()
    }

    /// Time has passed, and requests have ended.
    pub(crate) fn tick(&mut self, now: Nanos) {
        if now > self.writeback.moved + WRITEBACK_PERIOD {
            self.writeback.turn(&mut self.entries, &mut self.dirty, now);
        }
        if now > self.demote.moved + DEMOTE_PERIOD {
            self.demote.turn(&mut self.entries, &mut self.clean, now);
        }
        for index in self.hotspots_hit.drain(..) {
            self.hotspot_hit.clear(index);
        }
        self.set_promote_levels();
        let to_front = self.rules == Rules::Inline;
        if now > self.hotspot_period {
            self.jump = match self.hotspot_lookups.assess() {
                Performance::Poor => 4,
                Performance::Fair => 2,
                Performance::Well => 1,
            };
            self.hotspot.redistribute(&mut self.entries, to_front);
            self.hotspot_lookups = Lookups::default();
            self.hotspot_period = now + HOTSPOT_PERIOD;
        }
        if now > self.cache_period {
            self.cache_hit.clear_all();
            self.dirty.redistribute(&mut self.entries, to_front);
            self.clean.redistribute(&mut self.entries, to_front);
            self.cache_lookups = Lookups::default();
            // `CACHE_UPDATE_PERIOD`: 10 s before 4.12, 60 s since.
            let period = if self.rules == Rules::Inline { 10 * SECOND } else { 60 * SECOND };
            self.cache_period = now + period;
        }
    }

    /// Whether something is due after this very moment.
    pub(super) fn is_due_after(&self, now: Nanos) -> bool {
        let due = [
            self.writeback.moved + WRITEBACK_PERIOD,
            self.demote.moved + DEMOTE_PERIOD,
            self.hotspot_period,
            self.cache_period,
        ];
        due.contains(&now)
    }

    fn set_promote_levels(&mut self) {
        let wanted = match self.rules {
            // Eager while there is room.
            Rules::Inline if self.free.len > 0 => LEVELS / 2,
            Rules::Inline => PROMOTE_LEVELS[self.cache_lookups.share(16) as usize],
            // Since 4.12 the larger of this and of all levels counts, which are all levels.
            Rules::Background | Rules::Cleaner => LEVELS,
        };
        let levels = match self.hotspot_lookups.assess() {
            Performance::Poor => wanted / 4,
            Performance::Fair => wanted / 2,
            Performance::Well => wanted,
        };
        self.read_level = LEVELS - levels;
        let harder = if self.rules == Rules::Inline { 2 } else { 0 };
        self.write_level = self.read_level + harder;
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        let bits = (self.chunks as usize).div_ceil(8) + (self.hotspots as usize).div_ceil(8);
        let lists = self.work.capacity() * size_of::<Work>() + self.hotspots_hit.capacity() * 4;
        self.entries.memory() + self.table.memory() + self.hotspot_table.memory() + bits + lists
    }
}
