//! The state of collection: its victim, its pace, and what is gathered.

use super::ops::NO_OP;
use super::validity::Validity;
use crate::config::GcConfig;
use media::{Geometry, Nanos};
use std::collections::VecDeque;

/// No superblock is being collected.
const NO_VICTIM: u32 = u32::MAX;

/// How much faster than the host collection is paced, as a fraction: so that the victim is empty, and
/// erased, before the host needs it.
const PACE: (i64, i64) = (5, 4);

/// Pages that collection gathers at a time, so that a small unit does not cost an event of its own.
const BATCH_PAGES: u32 = 16;

/// Most units that are gathered and not sent to their die yet.
const MOST_GATHERED: u32 = 64;

/// Most pages that the host may be ahead.
const MOST_LEAD: u32 = 128;

#[derive(Clone, Debug)]
pub(super) struct Collector {
    pub config: GcConfig,
    /// Collection is held back, as long as there is something else to write to.
    pub paused: bool,
    /// Superblocks that are kept free beyond those that always are.
    pub reserve: u32,
    victim: u32,
    /// When it was chosen.
    pub begun: Nanos,
    /// The stream that takes what is collected from it.
    stream: usize,
    /// Next page of the victim to look at, from 0.
    cursor: u32,
    /// Pages of a superblock.
    superblock_pages: u32,
    /// Units on their way: gathered, being gathered or being programmed.
    ops: u32,
    /// Of those, units that were not sent to their die yet.
    gathered: u32,
    most_gathered: u32,
    /// Dies that may be busy with what no command waits for.
    background_dies: u32,
    /// Most units on their way while the host has nothing to write and no space is lacking.
    most_idle: u32,
    /// The host has nothing to write: collection goes on all the same, a little at a time.
    idle: bool,
    /// Pages that the host may be ahead of the collector.
    lead: i64,
    /// [`BATCH_PAGES`] in units.
    batch: u32,
    /// Programs whose pages are in the controller.
    pub ready: VecDeque<u32>,
    /// What the host is ahead of the collector, in pages x pages: the host adds `valid` for each page
    /// that it programs, a moved page takes `gain` away.
    balance: i64,
    valid: i64,
    gain: i64,
    /// All that is left of the victim is being programmed.
    ending: bool,
    /// Victims to choose before one may be chosen for its wear.
    pub victims_until_levelling: u32,
    /// Wear was too uneven, and is not even enough yet.
    levelling: bool,
}

/// How much may be gathered now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// Whether there is room for more.
    pub room: bool,
    /// Whether space is lacking, or is to be made ahead.
    pub urgent: bool,
    /// Whether the host is so far ahead that a batch is to be gathered.
    pub due: bool,
}

/// Dies that collection may keep busy in the background, so that the others can go on.
fn background_share(dies: u32, share: u32) -> u32 {
    (dies / share.max(1)).max(1)
}

impl Collector {
    pub fn new(geo: &Geometry, config: GcConfig) -> Collector {
        let batch = (BATCH_PAGES / geo.unit_pages).clamp(1, 2 * geo.dies);
        // One batch that is programmed, and one that is gathered meanwhile.
        let most_gathered = (geo.dies / 2).clamp(2 * batch, MOST_GATHERED);
        let lead = (2 * geo.dies).clamp(2 * BATCH_PAGES, MOST_LEAD);
        let background_dies = background_share(geo.dies, config.idle_share);
        Collector {
            config,
            paused: false,
            reserve: 0,
            victim: NO_VICTIM,
            begun: Nanos::ZERO,
            stream: 0,
            cursor: 0,
            superblock_pages: geo.pages_per_superblock(),
            ops: 0,
            gathered: 0,
            most_gathered,
            background_dies,
            most_idle: background_dies.max(batch),
            idle: false,
            lead: lead.into(),
            batch,
            ready: VecDeque::with_capacity(most_gathered as usize),
            balance: 0,
            valid: 0,
            gain: 0,
            ending: false,
            victims_until_levelling: 0,
            levelling: false,
        }
    }

    /// The difference of program/erase cycles down to which cold data is moved now, if it is. `gap` is the present difference.
    pub fn levels_wear(&mut self, gap: u32) -> Option<u32> {
        let limit = if self.levelling { self.config.wear_stop() } else { self.config.wear_gap };
        self.levelling = gap > limit;
        self.levelling.then(|| self.config.wear_stop())
    }

    /// Forgets what it was at, and goes on: power is lost. What it keeps free ahead stays.
    pub fn reset(&mut self, geo: &Geometry) {
        *self = Collector { reserve: self.reserve, ..Collector::new(geo, self.config.clone()) };
    }

    /// Begins to collect a superblock. `stream` takes its `valid` pages. The host may write `gain` pages meanwhile.
    pub fn begin(&mut self, victim: u32, valid: u32, gain: u32, stream: usize) {
        (self.victim, self.stream) = (victim, stream);
        self.cursor = 0;
        self.valid = i64::from(valid);
        self.gain = i64::from(gain);
        self.balance = 0;
    }

    /// The victim is empty.
    pub fn end(&mut self) {
        self.victim = NO_VICTIM;
        self.balance = self.balance.min(0);
    }

    /// Whether the host may program now, or has to let collection catch up.
    #[inline]
    pub fn lets_host(&self) -> bool {
        self.victim == NO_VICTIM || self.balance <= self.lead * self.gain.max(1)
    }

    /// The host programs so many pages.
    #[inline]
    pub fn host_wrote(&mut self, pages: u32) {
        if self.victim != NO_VICTIM {
            self.balance += i64::from(pages) * self.valid * PACE.0 / PACE.1;
        }
    }

    /// What is to be gathered, where `lacking` says whether space is.
    #[inline]
    pub fn demand(&self, lacking: impl FnOnce() -> bool) -> Demand {
        let room = self.has_room();
        let urgent = room && (self.reserve > 0 || lacking());
        let due = self.balance > i64::from(BATCH_PAGES) * self.gain || urgent;
        Demand { room, urgent, due }
    }

    /// Whether collection goes on by itself from now on. Returns whether it begins to.
    #[inline]
    pub fn set_idle(&mut self, idle: bool) -> bool {
        !std::mem::replace(&mut self.idle, idle) && idle
    }

    /// Whether a batch is to be begun.
    #[inline]
    pub fn begins_batch(&self, demand: Demand) -> bool {
        demand.room && (demand.due || self.has_idle_room())
    }

    /// Whether another unit belongs to this batch.
    #[inline]
    pub fn goes_on(&self, demand: Demand) -> bool {
        self.gathered < self.most_gathered && (self.balance > 0 || demand.urgent || self.has_idle_room())
    }

    /// A unit of so many pages is gathered.
    #[inline]
    pub fn gathers(&mut self, pages: u32) {
        self.ops += 1;
        self.gathered += 1;
        self.balance -= i64::from(pages) * self.gain;
    }

    /// The next unit whose pages are in the controller leaves for its die.
    #[inline]
    pub fn send(&mut self) -> Option<u32> {
        let op = self.ready.pop_front()?;
        self.gathered -= 1;
        Some(op)
    }

    /// A unit has landed, or failed to.
    #[inline]
    pub fn landed(&mut self) {
        self.ops -= 1;
    }

    /// A move failed: the victim is looked through again once nothing of it is under way.
    pub fn start_over(&mut self) {
        self.cursor = u32::MAX;
    }

    /// The next valid page of the victim.
    #[inline]
    pub fn next_valid(&mut self, valid: &Validity) -> Option<u32> {
        if self.cursor >= self.superblock_pages {
            return None;
        }
        let base = self.victim * self.superblock_pages;
        let next = valid.next(base + self.cursor, base + self.superblock_pages);
        self.cursor = next.map_or(self.superblock_pages, |page| page - base + 1);
        next
    }

    /// Whether all of the victim was looked through, and everything that was gathered has left.
    #[inline]
    pub fn is_through(&self) -> bool {
        self.cursor >= self.superblock_pages && self.gathered == 0
    }

    /// Whether something of the victim is being programmed.
    #[inline]
    pub fn has_ops(&self) -> bool {
        self.ops > 0
    }

    /// Whether only the ends of programs are waited for. Returns whether that is new.
    pub fn set_ending(&mut self) -> bool {
        !std::mem::replace(&mut self.ending, true)
    }

    /// Those programs have ended: the victim is looked through again, or let go.
    pub fn all_landed(&mut self) {
        self.ending = false;
    }

    /// Looks through the victim once more.
    pub fn rewind(&mut self) {
        self.cursor = 0;
    }

    pub fn most_gathered(&self) -> u32 {
        self.most_gathered
    }

    /// Units that are in the controller or on their way there.
    #[inline]
    pub fn gathered_units(&self) -> u32 {
        self.gathered
    }

    /// Dies that erases may take at a time, so that the others can go on.
    pub fn background_dies(&self) -> u32 {
        self.background_dies
    }

    /// Whether another unit may be gathered although nothing asks for it.
    #[inline]
    fn has_idle_room(&self) -> bool {
        self.idle && self.ops < self.most_idle
    }

    /// Whether another batch may be gathered.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.gathered + self.batch <= self.most_gathered
    }

    /// Whether the end of each of its programs is waited for.
    #[inline]
    pub fn awaits_ends(&self) -> bool {
        self.ending || self.idle
    }

    /// What is being collected; meaningless if nothing is.
    #[inline]
    pub fn victim(&self) -> u32 {
        self.victim
    }

    /// The stream that takes what is collected; meaningless if nothing is.
    #[inline]
    pub fn stream(&self) -> usize {
        self.stream
    }

    #[inline]
    pub fn is_active(&self) -> bool {
        self.victim != NO_VICTIM
    }
}

/// Units that are ready at the same time, as a chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    pub first: u32,
    pub last: u32,
    pub units: u64,
}

impl Chain {
    pub const EMPTY: Chain = Chain { first: NO_OP, last: NO_OP, units: 0 };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry() -> Geometry {
        Geometry {
            dies: 16,
            channels: 4,
            planes: 1,
            superblocks: 8,
            units_per_block: 8,
            unit_pages: 1,
            sense_pages: 1,
            in_place: false,
            rated_cycles: 1,
        }
    }

    #[test]
    fn the_host_waits_for_a_victim_that_gives_little() {
        let mut gc = Collector::new(&geometry(), GcConfig::default());
        gc.host_wrote(1000);
        assert!(gc.lets_host(), "nothing is collected");
        // 96 pages to move for 32 that become free: three for each that the host writes.
        gc.begin(3, 96, 32, 1);
        let mut written = 0;
        while gc.lets_host() {
            gc.host_wrote(1);
            written += 1;
        }
        // It may be 32 pages ahead in moved ones, at five quarters of the pace.
        assert_eq!(written, 9);
        assert!(gc.demand(|| false).due);
        while !gc.lets_host() {
            gc.gathers(1);
        }
        assert!(gc.has_ops() && gc.lets_host());
    }

    #[test]
    fn wear_is_levelled_from_one_difference_down_to_another() {
        let levelled = |wear_stop| {
            let config = GcConfig { wear_gap: 10, wear_stop, ..GcConfig::default() };
            let mut gc = Collector::new(&geometry(), config);
            [9, 10, 11, 10, 6, 5, 6, 11].map(|gap| gc.levels_wear(gap).is_some())
        };
        assert_eq!(levelled(None), [false, false, true, false, false, false, false, true]);
        assert_eq!(levelled(Some(5)), [false, false, true, true, true, false, false, true]);
    }

    #[test]
    fn a_victim_is_looked_through_to_its_end_and_again_after_a_failure() {
        let mut valid = Validity::new(&geometry());
        for page in [128, 200, 255, 256] {
            valid.set(page, page / 128);
        }
        let mut gc = Collector::new(&geometry(), GcConfig::default());
        gc.begin(1, 3, 125, 1);
        let all = |gc: &mut Collector| std::iter::from_fn(|| gc.next_valid(&valid)).collect::<Vec<_>>();
        assert_eq!(all(&mut gc), [128, 200, 255]);
        assert!(gc.is_through());
        gc.start_over();
        assert!(gc.is_through() && gc.next_valid(&valid).is_none());
        gc.rewind();
        assert_eq!(all(&mut gc), [128, 200, 255]);
    }

    #[test]
    fn power_takes_what_it_was_at_and_leaves_what_is_kept_ahead() {
        let mut gc = Collector::new(&geometry(), GcConfig { idle_share: 1, ..GcConfig::default() });
        (gc.reserve, gc.paused) = (2, true);
        gc.begin(1, 3, 125, 1);
        gc.reset(&geometry());
        assert_eq!((gc.reserve, gc.paused, gc.is_active(), gc.background_dies()), (2, false, false, 16));
    }
}
