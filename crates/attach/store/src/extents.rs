//! Where the blocks of a file lie.

use std::collections::BTreeMap;

use crate::device::Run;

/// A map from blocks of a file to runs on the device. What is missing is a hole, and reads as zeroes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Extents {
    runs: BTreeMap<u64, Run>,
}

impl Extents {
    /// Number of runs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// All runs, each with the block of the file at which it begins.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Run)> {
        self.runs.iter().map(|(at, run)| (*at, *run))
    }

    /// The runs that have blocks of the file from `from` to `to` (exclusive), cut to that range.
    pub fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, Run)> {
        let first = self.runs.range(..=from).next_back().map_or(from, |(at, _)| *at);
        self.runs.range(first..to.max(first)).filter_map(move |(at, run)| {
            let (start, end) = ((*at).max(from), (at + run.blocks).min(to));
            (start < end).then(|| (start, Run { lba: run.lba + (start - at), blocks: end - start }))
        })
    }

    /// Whether a block of the file is on the device.
    #[must_use]
    pub fn has(&self, block: u64) -> bool {
        self.within(block, block + 1).next().is_some()
    }

    /// Takes blocks of the file out, from `from` to `to` (exclusive). `dead` gets the runs that no longer belong to the file.
    pub fn remove(&mut self, from: u64, to: u64, mut dead: impl FnMut(Run)) {
        let touched: Vec<(u64, Run)> = self.within(from, to).collect();
        for (start, cut) in touched {
            let Some((at, run)) = self.runs.range(..=start).next_back().map(|(at, run)| (*at, *run)) else {
                continue;
            };
            self.runs.remove(&at);
            if at < start {
                self.runs.insert(at, Run { lba: run.lba, blocks: start - at });
            }
            let (end, run_end) = (start + cut.blocks, at + run.blocks);
            if end < run_end {
                self.runs.insert(end, Run { lba: run.lba + (end - at), blocks: run_end - end });
            }
            dead(cut);
        }
    }

    /// Puts a run at a block of the file, in place of what was there. Runs that continue each other within a zone become one.
    pub fn insert(&mut self, block: u64, run: Run, zone_blocks: u64, dead: impl FnMut(Run)) {
        self.remove(block, block + run.blocks, dead);
        let before = self.runs.range(..block).next_back().map(|(at, run)| (*at, *run));
        match before {
            Some((at, earlier))
                if at + earlier.blocks == block
                    && earlier.lba + earlier.blocks == run.lba
                    && earlier.lba / zone_blocks == run.lba / zone_blocks =>
            {
                let blocks = earlier.blocks + run.blocks;
                self.runs.insert(at, Run { lba: earlier.lba, blocks });
            }
            _ => {
                self.runs.insert(block, run);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rng::Rng;

    use super::*;

    #[test]
    fn it_says_the_same_as_an_array() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut extents = Extents::default();
            let mut array = [None; 64];
            let mut next = 0;
            for _ in 0..60 {
                let from = rng.below(64);
                let blocks = 1 + rng.below(64 - from);
                let mut dead = Vec::new();
                let range = from as usize..(from + blocks) as usize;
                let mut expected: Vec<u64> = array[range.clone()].iter().flatten().copied().collect();
                if rng.below(3) == 0 {
                    extents.remove(from, from + blocks, |run| dead.push(run));
                    array[range].fill(None);
                } else {
                    // Sometimes the run continues the one before it.
                    next += rng.below(2) * 5;
                    extents.insert(from, Run { lba: next, blocks }, 100, |run| dead.push(run));
                    for block in range {
                        array[block] = Some(next);
                        next += 1;
                    }
                    next = if next % 100 + 64 > 100 { (next / 100 + 1) * 100 } else { next };
                }
                let mut died: Vec<u64> = dead.iter().flat_map(|run| run.lba..run.lba + run.blocks).collect();
                died.sort_unstable();
                expected.sort_unstable();
                assert_eq!(died, expected, "seed {seed}");
                for (block, place) in array.iter().enumerate() {
                    let block = block as u64;
                    let found = extents.within(block, block + 1).next().map(|(_, run)| run.lba);
                    assert_eq!(found, *place, "seed {seed}, block {block}");
                }
                let total: u64 = extents.iter().map(|(_, run)| run.blocks).sum();
                assert_eq!(total, array.iter().flatten().count() as u64);
            }
        }
    }
}
