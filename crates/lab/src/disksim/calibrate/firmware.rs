//! Which firmware the buffer has: each candidate answers each read, and the one that was right most often is believed.

use media::Nanos;
use media::disk::cache::{Cache, CacheConfig, Extent, Lookup, ReadAhead, Served};
use media::disk::geometry::Geometry;

/// How much an answer counts when so many more have come.
const DECAY: f64 = 0.999;
/// What the firmware of the parameter files is ahead of all others, in answers.
const STATED: f64 = 3.0;

struct Candidate {
    cache: Cache,
    score: f64,
}

/// Buffers with all firmware that is tried.
pub struct Firmware {
    candidates: Vec<Candidate>,
    best: usize,
}

impl Firmware {
    /// Candidates around the stated firmware.
    pub fn new(stated: CacheConfig) -> Firmware {
        let mut configs = vec![stated];
        let blocks = match stated.extent {
            Extent::Blocks(n) => n,
            _ => 0,
        };
        let mut extents = vec![Extent::Track, Extent::NextTrack, Extent::Cylinder];
        extents.extend([64, 128, 256, 512, blocks].map(Extent::Blocks));
        let whens = [ReadAhead::Off, ReadAhead::Always, ReadAhead::Sequential];
        for read_ahead in whens {
            for &extent in if read_ahead == ReadAhead::Off { &extents[..1] } else { &extents[..] } {
                for code in 0..16u32 {
                    let bit = |n: u32| code >> n & 1 == 1;
                    for written in [0, 2] {
                        configs.push(CacheConfig {
                            segments: if bit(0) { 1 } else { stated.segments.max(2) },
                            read_ahead,
                            extent,
                            keeps_read: bit(1),
                            whole_track: bit(2) && read_ahead == ReadAhead::Sequential,
                            written,
                            write_clears: bit(3),
                        });
                    }
                }
            }
        }
        let mut distinct: Vec<CacheConfig> = Vec::new();
        for config in configs {
            if !distinct.contains(&config) && config.extent != Extent::Blocks(0) {
                distinct.push(config);
            }
        }
        let score = |c: &CacheConfig| if *c == stated { STATED } else { 0.0 };
        let candidates = distinct.iter().map(|c| Candidate { cache: Cache::new(*c), score: score(c) });
        Firmware { candidates: candidates.collect(), best: 0 }
    }

    /// The buffer with the firmware that is believed.
    pub fn best(&self) -> &Cache {
        &self.candidates[self.best].cache
    }

    /// A read at `now` was answered by the cache, or was not.
    pub fn judge(&mut self, now: Nanos, block: u64, count: u32, hit: bool) {
        for candidate in &mut self.candidates {
            let answer = candidate.cache.lookup(now, block, count) != Lookup::Miss;
            candidate.score = candidate.score * DECAY + f64::from(u8::from(answer == hit));
        }
        let mut best = self.best;
        for (i, candidate) in self.candidates.iter().enumerate() {
            if candidate.score > self.candidates[best].score {
                best = i;
            }
        }
        self.best = best;
    }

    /// All buffers see a request.
    pub fn note(&mut self, geometry: &Geometry, served: &Served) {
        for candidate in &mut self.candidates {
            candidate.cache.note(geometry, served);
        }
    }
}
