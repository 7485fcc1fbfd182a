//! Reads and writes of one size, random or sequential, at a fixed queue depth.

use crate::{Actor, Nanos, Next, Request, Rng, Verb};

/// In which order places are visited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Each place is drawn uniformly, independent of those before.
    Random,
    /// One after the other, from the start again at the end.
    Sequential,
}

/// What a [`Mix`] does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MixConfig {
    /// Logical blocks of the range, from 0. Those at the end that make no whole request are not used.
    pub range: u64,
    /// Logical blocks of a request: at least 1, at most the range.
    pub blocks: u32,
    /// Order of the places.
    pub order: Order,
    /// Writes among 1,000 requests; the others read.
    pub writes_per_mille: u32,
    /// Requests outstanding at once, at least 1.
    pub depth: u32,
    /// How many requests there are; `None`: without end.
    pub count: Option<u64>,
    /// Seed of every choice.
    pub seed: u64,
}

/// An actor that keeps `depth` requests outstanding.
#[derive(Clone, Debug)]
pub struct Mix {
    config: MixConfig,
    rng: Rng,
    places: u64,
    cursor: u64,
    left: Option<u64>,
    free: Vec<u32>,
    failed: u64,
    completed: u64,
}

impl Mix {
    /// The actor. Zero `blocks` and zero `depth` count as 1.
    pub fn new(config: MixConfig) -> Self {
        let places = config.range / u64::from(config.blocks.max(1));
        Mix {
            rng: Rng::new(config.seed),
            places,
            cursor: 0,
            left: if places == 0 { Some(0) } else { config.count },
            free: (0..config.depth.max(1)).rev().collect(),
            failed: 0,
            completed: 0,
            config,
        }
    }

    /// Requests that failed.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Requests that ended, failed ones among them.
    pub fn ended(&self) -> u64 {
        self.completed
    }
}

impl Actor for Mix {
    #[inline]
    fn next(&mut self, _: Nanos) -> Next {
        if self.left == Some(0) {
            return Next::Done;
        }
        let Some(tag) = self.free.pop() else { return Next::Wait };
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        let place = match self.config.order {
            Order::Random => self.rng.below(self.places),
            Order::Sequential => {
                let place = self.cursor;
                self.cursor = if place + 1 == self.places { 0 } else { place + 1 };
                place
            }
        };
        let share = self.config.writes_per_mille;
        let write = share >= 1000 || (share > 0 && self.rng.below(1000) < u64::from(share));
        let blocks = self.config.blocks.max(1);
        let verb = if write { Verb::Write } else { Verb::Read };
        Next::Submit(Request { tag, verb, namespace: 0, lba: place * u64::from(blocks), blocks })
    }

    #[inline]
    fn completed(&mut self, _: Nanos, tag: u32, ok: bool) {
        self.completed += 1;
        self.failed += u64::from(!ok);
        self.free.push(tag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: MixConfig = MixConfig {
        range: 100,
        blocks: 8,
        order: Order::Sequential,
        writes_per_mille: 300,
        depth: 4,
        count: Some(1000),
        seed: 5,
    };

    fn run(mut mix: Mix) -> Vec<Request> {
        let mut all = Vec::new();
        let mut outstanding = Vec::new();
        loop {
            match mix.next(0) {
                Next::Submit(request) => {
                    assert!(!outstanding.contains(&request.tag));
                    outstanding.push(request.tag);
                    all.push(request);
                }
                Next::Wait => {
                    assert_eq!(outstanding.len(), 4);
                    mix.completed(0, outstanding.remove(0), true);
                }
                Next::At(_) => unreachable!("it names no times"),
                Next::Done => return all,
            }
        }
    }

    #[test]
    fn keeps_its_depth_range_and_share() {
        let all = run(Mix::new(CONFIG));
        assert_eq!(all.len(), 1000);
        assert!(all.iter().all(|r| r.blocks == 8 && r.lba + 8 <= 100));
        assert_eq!(
            all[..13].iter().map(|r| r.lba / 8).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0]
        );
        let writes = all.iter().filter(|r| r.verb == Verb::Write).count();
        assert!((250..350).contains(&writes), "{writes}");
    }

    #[test]
    fn equal_seeds_give_equal_requests() {
        let random = |seed| run(Mix::new(MixConfig { order: Order::Random, seed, ..CONFIG }));
        assert_eq!(random(1), random(1));
        assert_ne!(random(1), random(2));
    }

    #[test]
    fn a_range_that_holds_no_request_is_done_at_once() {
        assert!(run(Mix::new(MixConfig { range: 7, count: None, ..CONFIG })).is_empty());
    }
}
