//! Loads of one seed.

use super::BLOCK;
use rng::Rng;
use std::fmt;
use tier::{MIGRATION_THRESHOLD, Mode, PolicyKind};

/// Bytes of a sector, in which Linux counts the threshold.
const SECTOR: u64 = 512;

/// One step of a load, in blocks of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Makes the cache, or gives it another mode and policy.
    Table(Mode, PolicyKind),
    /// Takes it away.
    Remove,
    /// Microseconds between requests, from here on.
    Think(u64),
    /// Milliseconds without a request.
    Pause(u64),
    /// Waits until so many milliseconds have passed since the beginning.
    Until(u64),
    Read(u64, u32),
    Write(u64, u32),
    /// A write with Force Unit Access.
    Fua(u64, u32),
    Discard(u64, u32),
    Flush,
}

/// A phase of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Phase {
    pub name: &'static str,
    /// Steps until its end.
    pub end: usize,
    /// Whether hits, misses and promotions follow from the requests alone, and not from how long anything takes.
    pub exact: bool,
}

/// A load: steps, and where the counts are to be compared.
#[derive(Clone, Debug)]
pub struct Load {
    pub name: String,
    /// Blocks of a chunk.
    pub chunk: u64,
    /// Chunks of the origin and of the cache.
    pub origin: u64,
    pub cache: u64,
    pub steps: Vec<Step>,
    pub phases: Vec<Phase>,
    rng: Rng,
}

impl Load {
    /// An empty load on an origin of so many chunks of so many bytes, and on a cache of so many.
    pub fn new(name: &str, chunk: u64, origin: u64, cache: u64, seed: u64) -> Self {
        let chunk = chunk / BLOCK;
        let rng = Rng::new(seed);
        Self { name: name.to_owned(), chunk, origin, cache, steps: Vec::new(), phases: Vec::new(), rng }
    }

    /// Whether dirty chunks are written back while nothing else is done. Larger chunks than the migration threshold are not: they are written back
    /// only to make room, so how many are dirty depends on when the cache became full.
    pub fn is_cleaned_when_idle(&self) -> bool {
        self.chunk * BLOCK <= MIGRATION_THRESHOLD * SECTOR
    }

    pub fn step(&mut self, step: Step) -> &mut Self {
        self.steps.push(step);
        self
    }

    /// A phase has ended here.
    pub fn phase(&mut self, name: &'static str) -> &mut Self {
        self.phases.push(Phase { name, end: self.steps.len(), exact: false });
        self
    }

    /// A phase has ended here whose counts do not depend on time.
    pub fn exact(&mut self, name: &'static str) -> &mut Self {
        self.phases.push(Phase { name, end: self.steps.len(), exact: true });
        self
    }

    /// A block somewhere in a chunk.
    fn within(&mut self, chunk: u64) -> u64 {
        chunk * self.chunk + self.rng.below(self.chunk)
    }

    /// Requests of one block: of a hundred so many write, in chunks from `first` on. Of `many` chunks the early ones are used far more often than
    /// the late ones: as often as Zipf's law says with an exponent of 1, in octaves.
    pub fn hot(&mut self, requests: u64, writes: u64, first: u64, many: u64) -> &mut Self {
        let octaves = u64::from(many.max(2).ilog2());
        for _ in 0..requests {
            let most = 2 << self.rng.below(octaves);
            // Which chunk comes when has nothing to do with where it lies.
            let chunk = first + rng::mix(self.rng.below(most.min(many))) % many;
            let lba = self.within(chunk % self.origin);
            let step = if self.rng.below(100) < writes { Step::Write(lba, 1) } else { Step::Read(lba, 1) };
            self.step(step);
        }
        self
    }

    /// Requests of one block in any of so many chunks.
    pub fn uniform(&mut self, requests: u64, writes: u64, first: u64, many: u64) -> &mut Self {
        for _ in 0..requests {
            let chunk = first + self.rng.below(many);
            let lba = self.within(chunk % self.origin);
            let step = if self.rng.below(100) < writes { Step::Write(lba, 1) } else { Step::Read(lba, 1) };
            self.step(step);
        }
        self
    }

    /// Reads or writes so many chunks one after the other, in requests of so many blocks.
    pub fn stream(&mut self, write: bool, first: u64, chunks: u64, blocks: u32) -> &mut Self {
        let (begin, end) = (first * self.chunk, (first + chunks) * self.chunk);
        for lba in (begin..end).step_by(blocks as usize) {
            let blocks = u64::from(blocks).min(end - lba) as u32;
            self.step(if write { Step::Write(lba, blocks) } else { Step::Read(lba, blocks) });
        }
        self
    }
}

impl fmt::Display for Load {
    /// As the guest reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "cache {} {} {}", self.chunk, self.origin, self.cache)?;
        for step in &self.steps {
            match step {
                Step::Table(mode, policy) => writeln!(f, "table {mode} {policy}")?,
                Step::Remove => writeln!(f, "remove")?,
                Step::Think(time) => writeln!(f, "think {time}")?,
                Step::Pause(time) => writeln!(f, "pause {time}")?,
                Step::Until(time) => writeln!(f, "until {time}")?,
                Step::Read(lba, blocks) => writeln!(f, "read {lba} {blocks}")?,
                Step::Write(lba, blocks) => writeln!(f, "write {lba} {blocks}")?,
                Step::Fua(lba, blocks) => writeln!(f, "fua {lba} {blocks}")?,
                Step::Discard(lba, blocks) => writeln!(f, "discard {lba} {blocks}")?,
                Step::Flush => writeln!(f, "flush")?,
            }
        }
        Ok(())
    }
}
