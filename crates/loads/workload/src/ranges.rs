//! Writers that fill ranges of a namespace, such as zones, each from its start to its end.
//!
//! The first pass takes the ranges in order. After that a writer draws its next range among the full ones, and gives it back to the device before it
//! writes it again: a zone is reset, a range of a conventional namespace is deallocated. A writer has one request outstanding, so no other writer can
//! take a range before its last write has ended.
//!
//! One reader may read at random from full ranges meanwhile.

use crate::{Actor, Nanos, Next, Request, Rng, Verb};

const SECOND: u64 = 1_000_000_000;

/// Settings of [`Ranges`]. Sizes are in logical blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangesConfig {
    /// Number of ranges: more than the writers.
    pub ranges: u32,
    /// From the start of a range to the start of the next.
    pub size: u64,
    /// Blocks of a range that are written: 1 to `size`.
    pub capacity: u32,
    /// Number of writers, at least 1.
    pub writers: u32,
    /// Blocks of a write, at least 1. The last write of a range has the rest.
    pub blocks: u32,
    /// Blocks of a read, at least 1. It begins at a multiple of them.
    pub read_blocks: u32,
    /// How a range is given back: [`Verb::Trim`], or [`Verb::Zone`] with a reset.
    pub give_back: Verb,
    /// Seed of every choice.
    pub seed: u64,
}

/// How fast the writers write, all together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// As fast as the device takes it.
    Unlimited,
    /// This number of logical blocks a second; 0: nothing.
    BlocksPerSecond(u64),
}

/// A writer.
#[derive(Clone, Copy, Default, Debug)]
struct Writer {
    /// Its range, and the blocks of it that are written.
    range: Option<u32>,
    at: u32,
    /// Blocks of the write that is outstanding; 0 while the range is given back.
    outstanding: Option<u32>,
    /// When its pace allows the next write.
    due: Nanos,
}

/// The writers, and the reader. Endless.
#[derive(Clone, Debug)]
pub struct Ranges {
    config: RangesConfig,
    rng: Rng,
    pace: Pace,
    /// Whether there is a reader, and whether its read is outstanding.
    reads: bool,
    reading: bool,
    /// Ranges that are full, and not in the hands of a writer.
    full: Vec<u32>,
    /// Ranges of the first pass that were taken.
    taken: u32,
    writers: Vec<Writer>,
    written: u64,
    failed: u64,
}

impl Ranges {
    /// The writers of an empty namespace, without a limit and without a reader.
    pub fn new(config: RangesConfig) -> Self {
        Ranges {
            rng: Rng::new(config.seed),
            pace: Pace::Unlimited,
            reads: false,
            reading: false,
            full: Vec::with_capacity(config.ranges as usize),
            taken: 0,
            writers: vec![Writer::default(); config.writers.max(1) as usize],
            written: 0,
            failed: 0,
            config,
        }
    }

    /// Changes the load at `now`.
    pub fn change_load(&mut self, now: Nanos, pace: Pace, reads: bool) {
        (self.pace, self.reads) = (pace, reads);
        let (interval, writers) = (self.interval(), self.writers.len() as u64);
        // Writers with a pace take turns.
        for (number, writer) in (0..).zip(&mut self.writers) {
            writer.due = now + interval / writers * number;
        }
    }

    /// Blocks that were written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Requests that failed.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Nanoseconds between two writes of a writer; 0 without a limit.
    fn interval(&self) -> Nanos {
        match self.pace {
            Pace::Unlimited => 0,
            Pace::BlocksPerSecond(rate) => {
                self.writers.len() as u64 * u64::from(self.config.blocks) * SECOND / rate.max(1)
            }
        }
    }

    fn request(&self, tag: u32, verb: Verb, range: u32, at: u32, blocks: u32) -> Next {
        let lba = u64::from(range) * self.config.size + u64::from(at);
        Next::Submit(Request { tag, verb, namespace: 0, lba, blocks })
    }

    /// The next request of an idle writer: it takes another range, or writes. `None`: there is no range for it.
    fn write(&mut self, number: u32) -> Option<Next> {
        let writer = self.writers[number as usize];
        let (capacity, give_back) = (self.config.capacity, self.config.give_back);
        let range = match writer.range {
            Some(range) => range,
            None if self.taken < self.config.ranges => {
                self.taken += 1;
                self.taken - 1
            }
            None if self.full.is_empty() => return None,
            None => {
                let drawn = self.rng.below(self.full.len() as u64) as usize;
                let range = self.full.swap_remove(drawn);
                let writer = &mut self.writers[number as usize];
                *writer = Writer { range: Some(range), at: 0, outstanding: Some(0), ..*writer };
                let blocks = if give_back == Verb::Trim { capacity } else { 0 };
                return Some(self.request(number, give_back, range, 0, blocks));
            }
        };
        let at = writer.at;
        let blocks = self.config.blocks.max(1).min(capacity - at);
        let due = writer.due + self.interval();
        self.writers[number as usize] = Writer { range: Some(range), at, outstanding: Some(blocks), due };
        Some(self.request(number, Verb::Write, range, at, blocks))
    }

    fn read(&mut self) -> Next {
        let range = self.full[self.rng.below(self.full.len() as u64) as usize];
        let blocks = self.config.read_blocks.clamp(1, self.config.capacity);
        let at = self.rng.below(u64::from(self.config.capacity / blocks)) as u32 * blocks;
        self.reading = true;
        self.request(self.writers.len() as u32, Verb::Read, range, at, blocks)
    }
}

impl Actor for Ranges {
    fn next(&mut self, now: Nanos) -> Next {
        if self.reads && !self.reading && !self.full.is_empty() {
            return self.read();
        }
        let mut soonest: Option<Nanos> = None;
        for number in 0..self.writers.len() as u32 {
            let Writer { outstanding, due, .. } = self.writers[number as usize];
            if outstanding.is_some() || self.pace == Pace::BlocksPerSecond(0) {
                continue;
            }
            if due > now && self.pace != Pace::Unlimited {
                soonest = Some(soonest.map_or(due, |other| other.min(due)));
            } else if let Some(next) = self.write(number) {
                return next;
            }
        }
        soonest.map_or(Next::Wait, Next::At)
    }

    fn completed(&mut self, _: Nanos, tag: u32, ok: bool) {
        self.failed += u64::from(!ok);
        let Some(writer) = self.writers.get_mut(tag as usize) else {
            self.reading = false;
            return;
        };
        let blocks = writer.outstanding.take().unwrap_or(0);
        writer.at += blocks;
        self.written += u64::from(blocks);
        if writer.at == self.config.capacity {
            writer.at = 0;
            self.full.extend(writer.range.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const CONFIG: RangesConfig = RangesConfig {
        ranges: 10,
        size: 32,
        capacity: 20,
        writers: 3,
        blocks: 8,
        read_blocks: 2,
        give_back: Verb::Trim,
        seed: 5,
    };

    /// Requests up to this number, and then their ends. When nothing more can be submitted the oldest ends.
    fn run(ranges: &mut Ranges, count: usize) -> Vec<Request> {
        let (mut all, mut outstanding) = (Vec::new(), Vec::new());
        while all.len() < count {
            match ranges.next(0) {
                Next::Submit(request) => {
                    assert!(!outstanding.contains(&request.tag));
                    outstanding.push(request.tag);
                    all.push(request);
                }
                _ => ranges.completed(0, outstanding.remove(0), true),
            }
        }
        for tag in outstanding {
            ranges.completed(0, tag, true);
        }
        all
    }

    #[test]
    fn a_range_is_given_back_and_then_written_in_order() {
        let mut ranges = Ranges::new(CONFIG);
        let all = run(&mut ranges, 600);
        // Where the next write of each range begins; the first pass needs no trim.
        let mut next: BTreeMap<u64, u64> = BTreeMap::new();
        for request in &all {
            let (range, at) = (request.lba / 32, request.lba % 32);
            assert!(range < 10, "{request:?}");
            if request.verb == Verb::Trim {
                assert_eq!((at, request.blocks, next.insert(range, 0)), (0, 20, Some(20)));
            } else {
                assert_eq!(next.get(&range).copied().unwrap_or(0), at, "{request:?}");
                assert_eq!(u64::from(request.blocks), 8.min(20 - at));
                next.insert(range, at + u64::from(request.blocks));
            }
        }
        let firsts: Vec<u64> =
            all.iter().filter(|of| of.lba % 32 == 0).map(|of| of.lba / 32).take(10).collect();
        assert_eq!(firsts, (0..10).collect::<Vec<_>>());
        assert!(all.iter().filter(|of| of.verb == Verb::Trim).count() > 100);
    }

    #[test]
    fn zones_are_reset_and_the_reader_reads_full_ranges() {
        let reset = Verb::Zone(blockdev::ZoneAction::Reset);
        let mut ranges = Ranges::new(RangesConfig { give_back: reset, ..CONFIG });
        run(&mut ranges, 60);
        ranges.change_load(0, Pace::Unlimited, true);
        let all = run(&mut ranges, 400);
        assert!(all.iter().any(|of| of.verb == reset && of.blocks == 0));
        let reads: Vec<_> = all.iter().filter(|of| of.verb == Verb::Read).collect();
        assert!(reads.len() > 50 && reads.iter().all(|of| of.blocks == 2 && of.lba % 32 <= 18), "{reads:?}");
    }

    #[test]
    fn writers_with_a_pace_take_turns() {
        let mut ranges = Ranges::new(CONFIG);
        // Three writers of 8 blocks: each writes once a second, a third of a second after the one before.
        ranges.change_load(0, Pace::BlocksPerSecond(24), false);
        let mut times = Vec::new();
        let mut now = 0;
        while now < 3 * SECOND {
            match ranges.next(now) {
                Next::Submit(request) => {
                    times.push((now / 1_000_000, request.tag));
                    ranges.completed(now, request.tag, true);
                }
                Next::At(at) => now = at,
                Next::Wait | Next::Done => {
                    unreachable!("all ranges are empty, and no request is outstanding")
                }
            }
        }
        assert_eq!(times[..4], [(0, 0), (333, 1), (666, 2), (1000, 0)]);
        assert_eq!((times.len(), ranges.written()), (9, 9 * 8 - 3 * 4));
        ranges.change_load(now, Pace::BlocksPerSecond(0), false);
        assert_eq!(ranges.next(now), Next::Wait);
    }

    #[test]
    fn equal_seeds_give_equal_requests() {
        let with = |seed| run(&mut Ranges::new(RangesConfig { seed, ..CONFIG }), 300);
        assert_eq!(with(1), with(1));
        assert_ne!(with(1), with(2));
    }
}
