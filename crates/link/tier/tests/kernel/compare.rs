//! dm-cache's counts beside the tier's.

use super::load::Load;
use super::{Counts, Log, replay};
use std::fmt;

/// How long parts of migrations and commits take in the replays at most, in milliseconds. How long they took in the guest is not known, and it
/// changes what the requests after them find.
const SLOWEST_PARTS_MS: [u64; 6] = [0, 2, 10, 30, 100, 300];
/// Replays with each of them.
const SEEDS: u64 = 3;
/// A count that depends on time may lie outside of what the replays show by so many, and by so many percent of the requests so far. On a quiet machine 3
/// percent are enough. On a busy one the guest's migrations take longer than in any replay. What the policy decides is held call by call elsewhere
/// ([`agree`](super::agree)), and does not depend on the machine.
const SLACK: i64 = 2;
const SLACK_PERCENT: usize = 15;
/// Index of the count of dirty chunks.
const DIRTY_INDEX: usize = 7;

const NAMES: [&str; 8] =
    ["used", "read hits", "read misses", "write hits", "write misses", "demotions", "promotions", "dirty"];

/// The end of a phase.
#[derive(Clone, Debug)]
pub struct Line {
    pub load: String,
    pub phase: &'static str,
    /// What dm-cache counted.
    pub theirs: Counts,
    /// The least and the most that a replay counted.
    pub ours: [(i64, i64); 8],
    /// Counts that differ by more than they may.
    pub differ: Vec<String>,
}

/// A load's phases: dm-cache's counts and the tier's.
pub fn compare(load: &Load, log: &Log) -> Vec<Line> {
    let times =
        SLOWEST_PARTS_MS.iter().flat_map(|slowest| (0..SEEDS).map(move |seed| (slowest * 1_000_000, seed)));
    let replays: Vec<Log> = times.map(|(slowest, seed)| replay(load, log, slowest, seed)).collect();
    let line = |phase: &super::load::Phase| {
        let theirs = log.0[phase.end].counts;
        let slack = SLACK + (phase.end * SLACK_PERCENT / 100).cast_signed() as i64;
        let all = |index: usize| replays.iter().map(move |replay| replay.0[phase.end].counts.list()[index]);
        let range = |index| (all(index).min().unwrap_or(0), all(index).max().unwrap_or(0));
        let ours: [(i64, i64); 8] = std::array::from_fn(range);
        let exact = |index: usize| phase.exact && index != DIRTY_INDEX;
        let differs = |&index: &usize| {
            let (least, most) = ours[index];
            // How much is dirty depends on when the guest was last idle. Where it was idle for long, nothing is.
            if index == DIRTY_INDEX && (most > 0 || !load.is_cleaned_when_idle()) {
                return false;
            }
            let slack = match index {
                DIRTY_INDEX => SLACK,
                _ if exact(index) => 0,
                _ => slack,
            };
            !(least - slack..=most + slack).contains(&theirs.list()[index])
        };
        let say = |index: usize| format!("{} {}, not {:?}", NAMES[index], theirs.list()[index], ours[index]);
        let differ = (0..8).filter(differs).map(say).collect();
        Line { load: load.name.clone(), phase: phase.name, theirs, ours, differ }
    };
    load.phases.iter().map(line).collect()
}

impl fmt::Display for Line {
    /// A row of the table that the test prints.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| `{}`: {} |", self.load, self.phase)?;
        for (theirs, (least, most)) in self.theirs.list().iter().zip(self.ours) {
            match least == most {
                true => write!(f, " {theirs} / {least} |")?,
                false => write!(f, " {theirs} / {least}–{most} |")?,
            }
        }
        Ok(())
    }
}
