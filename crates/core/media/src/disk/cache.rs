//! The disk's buffer: segments with read-ahead, and what was written last.

use super::geometry::{Geometry, Place};
use super::types::Op;
use crate::time::Nanos;

/// When the disk reads ahead.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum ReadAhead {
    /// Never.
    Off,
    /// After each read.
    #[default]
    Always,
    /// After a read that follows another one, block by block.
    Sequential,
}

/// How far the disk reads ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// So many blocks.
    Blocks(u32),
    /// To the end of the track.
    Track,
    /// To the end of the track behind the track.
    NextTrack,
    /// To the end of the cylinder.
    Cylinder,
}

/// Firmware of the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheConfig {
    /// Segments: streams that the buffer can hold. 0 turns it off.
    pub segments: u32,
    /// When the disk reads ahead.
    pub read_ahead: ReadAhead,
    /// How far.
    pub extent: Extent,
    /// Blocks that the host has read stay in the segment. Otherwise read-ahead overwrites them.
    pub keeps_read: bool,
    /// Once a stream is known, a miss reads the whole track from its start.
    pub whole_track: bool,
    /// Writes of which a read may find the blocks in the buffer.
    pub written: u32,
    /// A write empties the segments.
    pub write_clears: bool,
}

impl Default for CacheConfig {
    fn default() -> Self {
        CacheConfig {
            segments: 1,
            read_ahead: ReadAhead::Always,
            extent: Extent::Track,
            keeps_read: true,
            whole_track: false,
            written: 0,
            write_clears: false,
        }
    }
}

/// What the buffer has of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// All of it.
    Hit,
    /// All of it once read-ahead has got so far: then.
    Coming(Nanos),
    /// Not all.
    Miss,
}

/// A request whose outcome is known.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// What it did.
    pub op: Op,
    /// First block and number of blocks.
    pub range: (u64, u32),
    /// Place of its last block.
    pub last: Place,
    /// When its last block was read off the track, was written, or was found in the buffer.
    pub at: Nanos,
    /// Whether the buffer answered.
    pub hit: bool,
    /// Time of a block of read-ahead.
    pub block_time: Nanos,
}

/// Blocks that one stream of reads brought.
#[derive(Clone, Copy, Debug)]
struct Segment {
    first: u64,
    /// One past the last block that is there.
    filled: u64,
    /// One past the last block that read-ahead brings.
    end: u64,
}

/// Read-ahead under way into the first segment.
#[derive(Clone, Copy, Debug)]
struct Filling {
    since: Nanos,
    /// Time of a block.
    block: Nanos,
}

/// Ends of reads that are remembered, to recognise streams.
const STREAMS: usize = 4;

/// The buffer of a disk. It holds no contents: only which blocks are there, and since when.
#[derive(Clone, Debug)]
pub struct Cache {
    config: CacheConfig,
    /// Most recently used first.
    segments: Vec<Segment>,
    filling: Option<Filling>,
    /// Most recent first: first block, and the one past the last.
    written: Vec<(u64, u64)>,
    ends: [u64; STREAMS],
}

impl Cache {
    /// An empty buffer.
    pub fn new(config: CacheConfig) -> Cache {
        Cache { config, segments: Vec::new(), filling: None, written: Vec::new(), ends: [u64::MAX; STREAMS] }
    }

    /// Its firmware.
    pub fn config(&self) -> CacheConfig {
        self.config
    }

    /// Empties the buffer: power is lost.
    pub fn clear(&mut self) {
        *self = Cache::new(self.config);
    }

    /// What the buffer has of a read at `now`.
    #[inline]
    pub fn lookup(&self, now: Nanos, block: u64, count: u32) -> Lookup {
        let end = block + u64::from(count);
        for (i, segment) in self.segments.iter().enumerate() {
            if block < segment.first || end > segment.end {
                continue;
            }
            let filled = if i == 0 { self.filled(now) } else { segment.filled };
            if end <= filled {
                return Lookup::Hit;
            }
            if let (0, Some(filling)) = (i, self.filling)
                && block <= filled
            {
                let blocks = end - segment.filled;
                return Lookup::Coming(filling.since + Nanos(filling.block.0 * blocks));
            }
        }
        let written = |w: &&(u64, u64)| w.0 <= block && end <= w.1;
        if self.written.iter().take(self.config.written as usize).find(written).is_some() {
            return Lookup::Hit;
        }
        Lookup::Miss
    }

    /// One past the last block of the first segment that is there at `now`.
    #[inline]
    fn filled(&self, now: Nanos) -> u64 {
        let Some(segment) = self.segments.first() else { return 0 };
        match self.filling {
            Some(filling) => {
                let blocks = now.since(filling.since).0 / filling.block.0.max(1);
                (segment.filled + blocks).min(segment.end)
            }
            None => segment.filled,
        }
    }

    /// Read-ahead ends at `now`: the arm is needed.
    #[inline]
    pub fn stop(&mut self, now: Nanos) {
        let filled = self.filled(now);
        self.filling = None;
        if let Some(segment) = self.segments.first_mut() {
            segment.filled = filled;
            segment.end = filled;
        }
    }

    /// The host has read.
    fn read(&mut self, geometry: &Geometry, served: &Served) {
        let Served { range, last, at, hit, block_time, .. } = *served;
        let (block, count) = range;
        let end = block + u64::from(count);
        let follows = self.ends.contains(&block);
        self.ends.copy_within(..STREAMS - 1, 1);
        self.ends[0] = end;
        if self.config.segments == 0 {
            return;
        }
        if hit {
            self.go_on(geometry, served);
            return;
        }
        self.stop(at);
        let ahead = match self.config.read_ahead {
            ReadAhead::Off => false,
            ReadAhead::Always => true,
            ReadAhead::Sequential => follows,
        };
        let first = match (self.config.keeps_read, ahead && self.config.whole_track) {
            (_, true) => geometry.track_start(block),
            (true, false) => block,
            (false, false) => end,
        };
        let target = if ahead { self.target(geometry, block, end, last) } else { end };
        self.segments.retain(|s| s.end <= first || s.first >= target);
        self.segments.truncate(self.config.segments as usize - 1);
        self.segments.insert(0, Segment { first, filled: end, end: target });
        self.filling = ahead.then_some(Filling { since: at, block: block_time });
    }

    /// A hit: its segment becomes the most recent one, and read-ahead goes on from its end.
    fn go_on(&mut self, geometry: &Geometry, served: &Served) {
        let Served { range: (block, count), last, at, block_time, .. } = *served;
        let end = block + u64::from(count);
        let Some(i) = self.segments.iter().position(|s| s.first <= block && end <= s.end) else { return };
        let filled = if i == 0 { self.filled(at) } else { self.segments[i].filled };
        if i > 0 {
            self.stop(at);
        }
        let mut segment = self.segments.remove(i);
        segment.filled = filled.max(end);
        if !self.config.keeps_read {
            segment.first = end;
        }
        if self.config.read_ahead != ReadAhead::Off {
            segment.end = segment.end.max(self.target(geometry, block, end, last));
            self.filling = Some(Filling { since: at, block: block_time });
        }
        self.segments.insert(0, segment);
    }

    /// Where read-ahead ends that starts behind `end`. `place` is that of the block before.
    fn target(&self, geometry: &Geometry, block: u64, end: u64, place: Place) -> u64 {
        let last = end - 1;
        let target = match self.config.extent {
            Extent::Blocks(n) => end + u64::from(n),
            Extent::Track => geometry.track_end_from(last, place),
            Extent::Cylinder => geometry.cylinder_end(last),
            Extent::NextTrack => match geometry.track_end_from(last, place) {
                next if next < geometry.blocks() => geometry.track_end(next),
                next => next,
            },
        };
        target.min(geometry.blocks()).max(block + 1)
    }

    /// The host has written at `at`.
    pub fn write(&mut self, at: Nanos, block: u64, count: u32) {
        let end = block + u64::from(count);
        self.stop(at);
        if self.config.write_clears {
            self.segments.clear();
            self.ends = [u64::MAX; STREAMS];
        } else {
            self.segments.retain(|s| s.filled <= block || s.first >= end);
        }
        if self.config.written > 0 {
            self.written.truncate(self.config.written as usize - 1);
            self.written.insert(0, (block, end));
        }
    }

    /// Accounts for a request whose outcome is known.
    pub fn note(&mut self, geometry: &Geometry, served: &Served) {
        match served.op {
            Op::Read => self.read(geometry, served),
            Op::Write => self.write(served.at, served.range.0, served.range.1),
        }
    }
}
