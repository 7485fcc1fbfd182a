//! Fair sharing of an NVM Set among its namespaces, by start-time fair queueing.
//!
//! What a command takes is counted in time of its set: how long the whole set, working in parallel as it can, would be
//! busy with it. Writes count with the write amplification of their namespace. Each namespace has a *tag*: what it took so far,
//! divided by its weight. The set's *clock* is the tag of what started last.
//!
//! A command starts at once if its namespace is alone, or behind the clock. Others start in the order of their tags, as long as less
//! is under way than a window that keeps the set busy. The clock jumps by a whole command of others, which may be large. A small
//! command between two such jumps would find the window full. So a part of the window, by weight, is kept for each namespace that got
//! less than another one.
//!
//! A namespace that uses less than its share does not wait. The set is never idle for the sake of fairness. Without timing everything
//! ends at once, and there is nothing to share.

use drive_config::Config;
use ftl::{PAGE, SetConfig, SetCost};
use media::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a command does, for its quota.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// How long a namespace counts after its last command: a pause as short as this is none, and others are not to fill the
/// set's queues meanwhile.
const PRESENCE: Nanos = Nanos(10_000_000);

/// Reads that the window lets be under way for each place that can work on one.
const DEPTH: u64 = 8;

/// A tag advances by a command's cost times this, divided by the weight.
const SCALE: u64 = nvme::quota::Quota::MAX_WEIGHT as u64;

/// Tags are made smaller when the clock reaches this.
const REBASE_TAG: u64 = 1 << 62;

/// 1 as a write factor.
pub(crate) const UNIT_FACTOR: u32 = 256;

/// A held queue that waits for its turn, ordered by its tag. All in one number, whose comparison needs no branches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct WaitingTurn(u128);

impl WaitingTurn {
    #[inline]
    fn new(tag: u64, nsid: u32, direction: Direction) -> WaitingTurn {
        WaitingTurn(u128::from(tag) << 64 | u128::from(nsid) << 1 | direction as u128)
    }

    #[inline]
    fn tag(self) -> u64 {
        (self.0 >> 64) as u64
    }

    #[inline]
    fn queue(self) -> (u32, Direction) {
        ((self.0 >> 1) as u32, if self.0 & 1 == 0 { Direction::Read } else { Direction::Write })
    }
}

/// What a namespace has of its set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub weight: u16,
    /// What it took of the set so far, by its weight.
    pub tag: u64,
    /// What of that is under way, in nanoseconds of the whole set.
    pub under_way: u64,
}

impl Default for Share {
    fn default() -> Self {
        Share { weight: nvme::quota::Quota::DEFAULT_WEIGHT, tag: 0, under_way: 0 }
    }
}

/// One NVM Set.
#[derive(Default, Debug)]
pub(crate) struct SharedSet {
    costs: SetCost,
    /// What may be under way, in nanoseconds of the whole set; 0 if it need not be shared.
    window: u64,
    under_way: u64,
    clock: u64,
    /// The highest tag of all.
    front: u64,
    /// Sum of the weights of all namespaces.
    pub weights: u64,
    /// Held queues whose first command may start as far as its quota goes, by tag.
    ready: BinaryHeap<Reverse<WaitingTurn>>,
    /// The namespace whose command came last, and when.
    latest: (u32, Nanos),
    /// Until when another one counts as present.
    others: Nanos,
}

impl SharedSet {
    fn new(config: &Config, set: &SetConfig) -> SharedSet {
        let link = config.effective_link();
        let links = [link.read_bytes_per_second, link.write_bytes_per_second]
            .map(|rate| Nanos::of_transfer(u64::from(PAGE), rate));
        let own = set.properties().cost;
        let latency = own.latency;
        let costs = SetCost {
            read_page: own.read_page.max(links[0].0 * 1000),
            write_page: own.write_page.max(links[1].0 * 1000),
            ..own
        };
        let once = latency + links[0].max(links[1]) + link.command_overhead.max(link.write_overhead);
        let timed = config.timing && config.fair_sharing && latency + links[0] + links[1] > Nanos::ZERO;
        SharedSet { costs, window: if timed { DEPTH * once.0 } else { 0 }, ..SharedSet::default() }
    }

    /// What a command takes, in nanoseconds of the whole set.
    #[inline]
    pub fn cost(&self, direction: Direction, bytes: u64, write_factor: u32) -> u32 {
        let pages = bytes.div_ceil(PAGE.into());
        let c = &self.costs;
        let pico = match direction {
            Direction::Read => {
                // Most are small, and a division is slow.
                let accesses = if pages <= c.access_pages { 1 } else { pages.div_ceil(c.access_pages) };
                (accesses * c.access).max(pages * c.read_page)
            }
            Direction::Write => {
                (pages * c.write_page).saturating_mul(write_factor.into()) / u64::from(UNIT_FACTOR)
            }
        };
        u32::try_from(pico / 1000 + 1).unwrap_or(u32::MAX)
    }

    /// Notes that a namespace has a command.
    #[inline]
    pub fn note(&mut self, nsid: u32, now: Nanos) {
        if self.latest.0 != nsid {
            self.others = if self.latest.0 == 0 { Nanos::ZERO } else { self.latest.1 + PRESENCE };
            self.latest.0 = nsid;
        }
        self.latest.1 = now;
    }

    /// Whether no other namespace had a command lately.
    #[inline]
    fn is_alone(&self, nsid: u32, now: Nanos) -> bool {
        self.latest.0 == nsid && self.others <= now
    }

    /// Whether a namespace got less than another one, and has less under way than its part of the window.
    #[inline]
    fn is_behind(&self, tag: u64, share: &Share) -> bool {
        tag < self.front
            && share.under_way.saturating_mul(self.weights)
                < self.window.saturating_mul(share.weight.max(1).into())
    }

    /// Whether a command may start of a namespace that does not wait yet.
    #[inline]
    pub fn may_start(&self, nsid: u32, share: &Share, now: Nanos) -> bool {
        let tag = share.tag;
        if tag < self.clock || self.is_alone(nsid, now) {
            return true;
        }
        match self.ready.peek() {
            None => self.under_way < self.window || self.is_behind(tag, share),
            Some(Reverse(first)) => tag < first.tag() && self.is_behind(tag, share),
        }
    }

    /// A command of a namespace starts.
    #[inline]
    pub fn start(&mut self, share: &mut Share, cost: u32) {
        self.under_way += u64::from(cost);
        share.under_way += u64::from(cost);
        self.clock = self.clock.max(share.tag);
        share.tag = self.clock + u64::from(cost) * SCALE / u64::from(share.weight.max(1));
        self.front = self.front.max(share.tag);
    }

    /// What a namespace took outside of the queues, such as a step of an admin command: it counts, and is not under way.
    pub fn take(&mut self, share: &mut Share, cost: u32) {
        let under_way = (self.under_way, share.under_way);
        self.start(share, cost);
        (self.under_way, share.under_way) = under_way;
    }

    /// Whether another namespace had a command lately.
    pub fn has_company(&self, nsid: u32, now: Nanos) -> bool {
        match self.latest {
            (0, _) => false,
            (latest, _) if latest == nsid => self.others > now,
            (_, at) => at + PRESENCE > now,
        }
    }

    /// A held queue waits for its turn.
    pub fn wait(&mut self, tag: u64, nsid: u32, direction: Direction) {
        self.ready.push(Reverse(WaitingTurn::new(tag, nsid, direction)));
    }

    /// Takes the held queue whose turn it is, with the tag that it waited with, if something may start.
    pub fn next<'a>(
        &mut self,
        now: Nanos,
        share: impl Fn(u32) -> Option<&'a Share>,
    ) -> Option<(u64, u32, Direction)> {
        let &Reverse(turn) = self.ready.peek()?;
        let (tag, (nsid, direction)) = (turn.tag(), turn.queue());
        let may_start = self.under_way < self.window
            || tag < self.clock
            || self.is_alone(nsid, now)
            // A namespace that is gone is not to be in the way.
            || share(nsid).is_none_or(|share| self.is_behind(tag, share));
        if !may_start {
            return None;
        }
        self.ready.pop();
        Some((tag, nsid, direction))
    }
}

/// All NVM Sets.
#[derive(Default, Debug)]
pub(crate) struct FairQueueing {
    sets: Vec<SharedSet>,
    /// Whether something ended while held queues wait.
    pub stirred: bool,
}

impl FairQueueing {
    pub fn new(config: &Config) -> FairQueueing {
        FairQueueing {
            sets: config.ftl.sets.iter().map(|set| SharedSet::new(config, set)).collect(),
            stirred: false,
        }
    }

    /// Whether namespaces of a set take turns.
    pub fn is_shared(&self, set: u8) -> bool {
        self.sets.get(usize::from(set)).is_some_and(|set| set.window > 0)
    }

    #[inline]
    pub fn set(&mut self, set: u8) -> Option<&mut SharedSet> {
        self.sets.get_mut(usize::from(set))
    }

    pub fn count(&self) -> u8 {
        u8::try_from(self.sets.len()).unwrap_or(u8::MAX)
    }

    /// A command of this cost has ended.
    #[inline]
    pub fn end(&mut self, set: u8, cost: u32) {
        if let Some(set) = self.sets.get_mut(usize::from(set)) {
            set.under_way = set.under_way.saturating_sub(cost.into());
            self.stirred |= !set.ready.is_empty();
        }
    }

    /// By how much the tags of a set are to be made smaller, so that they never end; 0 nearly always.
    pub fn rebase(&mut self, set: u8) -> u64 {
        let Some(set) = self.sets.get_mut(usize::from(set)).filter(|set| set.clock >= REBASE_TAG) else {
            return 0;
        };
        let far = std::mem::take(&mut set.clock);
        set.front = set.front.saturating_sub(far);
        let waiting = std::mem::take(&mut set.ready);
        set.ready = waiting
            .into_iter()
            .map(|Reverse(turn)| {
                let (tag, (nsid, direction)) = (turn.tag(), turn.queue());
                Reverse(WaitingTurn::new(tag.saturating_sub(far), nsid, direction))
            })
            .collect();
        far
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_time_of_the_whole_set() {
        let config = Config::from_toml(
            "[drive]\ntiming = true\n[[set]]\nmedia = \"nand\"\ncell = \"tlc\"\ncapacity = \"64MiB\"\nspare = \"60%\"\n\
             channels = 2\ndies = 4\nplanes = 2\nnand_page = \"16KiB\"\npages_per_block = 48\nrated_cycles = 3000\n\
             timing = { read = \"64us\", program = \"960us\", erase = \"4ms\", channel = \"1GB/s\" }\n",
        )
        .unwrap();
        let mut fair = FairQueueing::new(&config);
        let set = fair.set(0).unwrap();
        // 64 us among 8 planes; four pages share a sense; then the channels limit: 4096 ns among 2.
        assert_eq!(set.cost(Direction::Read, 512, 256), 8001);
        assert_eq!(set.cost(Direction::Read, 16384, 256), 8193);
        // 960 us among 4 dies and 24 pages of a unit.
        assert_eq!(set.cost(Direction::Write, 4096, 256), 10_001);
        assert_eq!(set.cost(Direction::Write, 8192, 512), 40_001);
        assert_eq!(set.cost(Direction::Write, 1 << 28, u32::MAX), u32::MAX);
    }

    #[test]
    fn tags_go_on_for_ever() {
        let mut fair = FairQueueing {
            sets: vec![SharedSet { window: 1, clock: REBASE_TAG + 5, ..SharedSet::default() }],
            stirred: false,
        };
        let set = fair.set(0).unwrap();
        set.under_way = 1;
        set.wait(REBASE_TAG + 9, 1, Direction::Read);
        assert_eq!(fair.rebase(0), REBASE_TAG + 5);
        assert_eq!(fair.rebase(0), 0);
        fair.end(0, 1);
        assert!(fair.stirred);
        assert_eq!(fair.set(0).unwrap().next(Nanos::ZERO, |_| None), Some((4, 1, Direction::Read)));
    }
}
