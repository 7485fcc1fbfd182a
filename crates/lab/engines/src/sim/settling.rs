//! Whether the drive's write amplification still moves when a run ends, and rounds of the load until it does not.
//!
//! A drive that was preconditioned with one load needs time to settle on another: what lies where, and how full the blocks are that garbage
//! collection finds, changes with the load. Figures from before that time depend on how long the run was.

use sim::{Nanos, Sim};

use lab_report::counters::write_amplification;

/// Samples that are kept at most. Then every other one goes, and the next ones come half as often.
const SAMPLES: usize = 128;
/// Nanoseconds between the first samples.
const STEP: u64 = 1_000_000;
/// A change of the write amplification by more than this share is told.
const SETTLED_CHANGE: f64 = 0.02;
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

/// Spans in a row whose write amplification agrees within [`SETTLED_CHANGE`] on a steady drive.
const STEADY_SPANS: usize = 3;
/// Times that the namespaces are written over. Without a collection until then, there is nothing to collect.
const LEAST_PASSES: u64 = 2;

/// Rounds of a load that go before the one that is measured. A span is as many rounds as it takes to collect [`LEAST_COLLECTIONS`].
pub(crate) struct Rounds {
    first: Sample,
    last_round: Sample,
    last_span: Sample,
    capacity_bytes: u64,
    ratios: Vec<f64>,
}

impl Rounds {
    /// Begins. The load's namespaces on flash have so many bytes.
    pub fn new(sim: &Sim, capacity_bytes: u64) -> Self {
        Self::from(Sample::of(sim), capacity_bytes)
    }

    fn from(first: Sample, capacity_bytes: u64) -> Self {
        Self { first, last_round: first, last_span: first, capacity_bytes, ratios: Vec::new() }
    }

    /// A round has ended. Whether the drive is steady.
    pub fn end_round(&mut self, sim: &Sim) -> bool {
        self.is_steady_at(Sample::of(sim))
    }

    fn is_steady_at(&mut self, now: Sample) -> bool {
        if now.host == self.last_round.host {
            // The load writes nothing to flash.
            return true;
        }
        self.last_round = now;
        if now.collections - self.last_span.collections < LEAST_COLLECTIONS {
            let written = now.host - self.first.host;
            return now.collections == self.first.collections && written / LEAST_PASSES > self.capacity_bytes;
        }
        let (programmed, host) = (now.programmed - self.last_span.programmed, now.host - self.last_span.host);
        self.ratios.extend(write_amplification(programmed, host));
        self.last_span = now;
        let Some(spans) = self.ratios.last_chunk::<STEADY_SPANS>() else { return false };
        let (least, most) =
            spans.iter().fold((f64::MAX, 0.0_f64), |(least, most), span| (least.min(*span), most.max(*span)));
        most <= least * (1.0 + SETTLED_CHANGE)
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
    ((found.last / found.third - 1.0).abs() > SETTLED_CHANGE).then_some(found)
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

    /// After how many rounds of such write amplification and collections a drive is steady.
    fn rounds(ratios: &[f64], collections: u64) -> Option<usize> {
        let mut at = Sample { host: 5000, programmed: 9000, collections: 3 };
        let mut rounds = Rounds::from(at, 2 << 30);
        ratios.iter().position(|ratio| {
            at.host += 1 << 30;
            at.programmed += (ratio * f64::from(1 << 30)) as u64;
            at.collections += collections;
            rounds.is_steady_at(at)
        })
    }

    #[test]
    fn rounds_end_when_three_spans_agree() {
        assert_eq!(rounds(&[5.0, 4.0, 3.0, 3.01, 3.02, 3.0], 100), Some(4));
        assert_eq!(rounds(&[5.0, 4.0, 3.0, 3.01, 3.2, 3.0], 100), None, "it moves");
        // A drive that rises slowly is not steady because two rounds resemble each other.
        assert_eq!(rounds(&[1.0, 1.015, 1.03, 1.045, 1.06, 1.075], 100), None);
        // Rounds that collect little are taken together.
        assert_eq!(rounds(&[3.0; 12], 25), Some(5));
        // Nothing is ever collected: writes in order of a zoned drive.
        assert_eq!(rounds(&[1.0; 12], 0), Some(4));
    }

    #[test]
    fn a_load_that_writes_nothing_is_steady_at_once() {
        let at = Sample { host: 1 << 30, programmed: 1 << 30, collections: 1 };
        assert!(Rounds::from(at, 1 << 30).is_steady_at(at));
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
