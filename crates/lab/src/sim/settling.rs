//! Whether the drive's write amplification still moves when a run ends.
//!
//! A drive that was preconditioned with one load needs time to settle on another: what lies where, and how full the blocks are that garbage
//! collection finds, changes with the load. Figures from before that time depend on how long the run was.

use run::sim::{Nanos, Sim};

use crate::counters::write_amplification;

/// Samples that are kept at most. Then every other one goes, and the next ones come half as often.
const SAMPLES: usize = 128;
/// Nanoseconds between the first samples.
const STEP: u64 = 1_000_000;
/// A change of the write amplification by more than this share is told.
const MOVES: f64 = 0.02;
/// Superblocks that are collected in a quarter at least: fewer say little.
const LEAST_COLLECTIONS: u64 = 50;

/// What the flash has counted.
#[derive(Clone, Copy, Default)]
struct Sample {
    host: u64,
    programmed: u64,
    collections: u64,
}

impl Sample {
    fn of(sim: &Sim) -> Self {
        sim.flash_stats().iter().fold(Self::default(), |all, set| Self {
            host: all.host + set.host_written_bytes,
            programmed: all.programmed + set.media_written_bytes,
            collections: all.collections + set.collections,
        })
    }
}

/// Samples of a run.
pub(crate) struct Settling {
    next: Nanos,
    step: u64,
    samples: Vec<Sample>,
}

/// Write amplification in the third and in the last quarter of what was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moving {
    pub third: f64,
    pub last: f64,
}

impl Settling {
    /// Begins.
    pub fn new(sim: &Sim) -> Self {
        let samples = vec![Sample::of(sim)];
        Self { next: sim.now() + Nanos(STEP), step: STEP, samples }
    }

    /// Another load begins.
    pub fn forget(&mut self) {
        self.samples.clear();
    }

    /// When it wants to look again.
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// Looks, if it is time.
    pub fn look(&mut self, sim: &Sim) {
        if sim.now() < self.next && !self.samples.is_empty() {
            return;
        }
        self.samples.push(Sample::of(sim));
        if self.samples.len() >= SAMPLES {
            let mut at = 0;
            self.samples.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.step = self.step.saturating_mul(2);
        }
        self.next = Nanos(sim.now().0.saturating_add(self.step));
    }

    /// What still moves at the end of the run.
    pub fn end(mut self, sim: &Sim) -> Option<Moving> {
        self.samples.push(Sample::of(sim));
        moving(&self.samples)
    }
}

/// The write amplification of the last two quarters, if it moves.
fn moving(samples: &[Sample]) -> Option<Moving> {
    let (first, last) = (samples.first()?, samples.last()?);
    let written = last.host.saturating_sub(first.host);
    let at = |quarters: u64| samples.iter().find(|sample| sample.host - first.host >= written / 4 * quarters);
    let (half, most) = (at(2)?, at(3)?);
    let ratio = |from: &Sample, to: &Sample| {
        let enough = to.collections.saturating_sub(from.collections) >= LEAST_COLLECTIONS;
        write_amplification(to.programmed - from.programmed, to.host - from.host).filter(|_| enough)
    };
    let found = Moving { third: ratio(half, most)?, last: ratio(most, last)? };
    ((found.last / found.third - 1.0).abs() > MOVES).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of a run whose write amplification is such in each tenth.
    fn samples(ratios: [f64; 10], collections: u64) -> Vec<Sample> {
        let mut at = Sample { host: 5000, programmed: 9000, collections: 0 };
        let mut all = vec![at];
        for ratio in ratios {
            at.host += 1 << 30;
            at.programmed += (ratio * f64::from(1 << 30)) as u64;
            at.collections += collections;
            all.push(at);
        }
        all
    }

    #[test]
    fn what_moves_is_told_and_what_has_settled_is_not() {
        let settled = [9.0, 7.0, 5.0, 4.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0];
        assert_eq!(moving(&samples(settled, 100)), None);
        let rising = [1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.4, 2.6, 2.8];
        let found = moving(&samples(rising, 100)).unwrap();
        assert!(found.last > found.third && found.third > 2.0, "{found:?}");
        assert_eq!(moving(&samples(rising, 1)), None, "so few collections say nothing");
        assert_eq!(moving(&samples([0.0; 10], 0)), None);
        assert_eq!(moving(&[Sample::default()]), None);
        assert_eq!(moving(&[]), None);
    }
}
