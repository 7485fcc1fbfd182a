//! The tier beside the kernel's dm-cache: loads that a guest does on dm-cache, and the same ones on the tier, with the same times.
//!
//! A load is a list of steps ([`Load`]), one after the other. A guest does it (`crates/app/tranche/tests/guest/cache.py`) and says of each step when
//! it was and what dm-cache counted after it ([`Log`]). [`replay`] does the same steps at the same times on a tier over devices in memory, under a
//! virtual clock. [`compare`] holds the counts against each other. Beside that, the guest traces what dm-cache's core and its policy say to each
//! other, and [`agree`] makes the same calls of the tier's policy.
#![allow(dead_code, unused_imports, reason = "each test takes what it needs")]

mod compare;
mod load;
mod loads;
mod replay;
mod trace;

pub use compare::compare;
pub use load::{Load, Step};
pub use loads::loads;
pub use replay::{after_crash, replay};
pub use trace::agree;

/// Bytes of a block of a load.
pub const BLOCK: u64 = 4096;

/// What dm-cache's status line counts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Places of the cache that are taken.
    pub used: i64,
    pub read_hits: i64,
    pub read_misses: i64,
    pub write_hits: i64,
    pub write_misses: i64,
    pub demotions: i64,
    pub promotions: i64,
    pub dirty: i64,
}

impl Counts {
    /// In the order of the log.
    pub fn list(&self) -> [i64; 8] {
        let Counts { used, read_hits, read_misses, write_hits, write_misses, demotions, promotions, dirty } =
            *self;
        [used, read_hits, read_misses, write_hits, write_misses, demotions, promotions, dirty]
    }

    fn from_list(list: [i64; 8]) -> Self {
        let [used, read_hits, read_misses, write_hits, write_misses, demotions, promotions, dirty] = list;
        Counts { used, read_hits, read_misses, write_hits, write_misses, demotions, promotions, dirty }
    }
}

/// What a guest says of one step: times in nanoseconds since the load began, and what dm-cache has counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Row {
    pub began: u64,
    pub ended: u64,
    pub counts: Counts,
}

/// What a guest says of a load, step by step.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Log(pub Vec<Row>);

impl Log {
    /// The log's text: for each step the microseconds since the one before, those that it took, and how much has been added to each count.
    pub fn parse(text: &str) -> Self {
        let (mut now, mut counts) = (0u64, [0i64; 8]);
        let row = |line: &str| {
            let numbers: Vec<i64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
            let [before, took, added @ ..] = &numbers[..] else { panic!("{line:?}") };
            let began = now + u64::try_from(*before).expect("time goes on") * 1000;
            now = began + u64::try_from(*took).expect("time goes on") * 1000;
            for (count, added) in counts.iter_mut().zip(added) {
                *count += added;
            }
            Row { began, ended: now, counts: Counts::from_list(counts) }
        };
        Log(text.lines().map(row).collect())
    }
}
