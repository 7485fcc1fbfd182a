//! What the metadata says of a tier that is not open.

use crate::config::{DeviceId, Mode, PolicyKind};
use crate::error::OpenError;
use crate::metadata::BLOCK;
use crate::metadata::layout::SUPERBLOCKS;
use crate::metadata::superblock::{Found, State, Superblock};

/// What the first blocks of a metadata device say of the tier that was made there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// Bytes of a chunk.
    pub chunk: u64,
    /// Chunks that the cache device has room for.
    pub chunks: u32,
    /// Bytes of the origin.
    pub origin_bytes: u64,
    /// The origin's identity.
    pub origin: DeviceId,
    /// The mode of the last session.
    pub mode: Mode,
    /// The policy of the last session.
    pub policy: PolicyKind,
    /// The last session was shut down in order. If not, it runs still or ended with a crash, or what says so is damaged.
    pub in_order: bool,
    /// An operation of metadata failed: opening it needs [`repair`](crate::Config::repair).
    pub needs_check: bool,
    /// Hits of reads, misses of reads, hits of writes and misses of writes until the last checkpoint.
    pub hits_and_misses: [u64; 4],
    /// Grows with every change of the superblock. If it changes while a session does not change it, another session has begun.
    pub sequence: u64,
}

impl Recorded {
    /// Bytes at the beginning of the metadata device that say all of this. Zeroes there remove the tier.
    pub const BYTES: usize = (SUPERBLOCKS * BLOCK) as usize;

    /// Reads the first [`BYTES`](Recorded::BYTES) of a metadata device.
    ///
    /// # Errors
    /// There is no tier, one of a later version, or a damaged one.
    pub fn read(first: &[u8]) -> Result<Self, OpenError> {
        let mut best: Option<Superblock> = None;
        let mut worst = OpenError::Foreign;
        let mut missing = false;
        for place in first.chunks_exact(BLOCK as usize).take(SUPERBLOCKS as usize) {
            match Superblock::decode(place) {
                Found::Superblock(found) if best.is_none_or(|best| found.sequence > best.sequence) => {
                    best = Some(found);
                }
                Found::Superblock(_) => {}
                Found::Foreign => missing = true,
                Found::Version(version) => return Err(OpenError::Version(version)),
                Found::Damaged => {
                    worst = OpenError::Damaged("both superblocks are");
                    missing = true;
                }
            }
        }
        let found = best.ok_or(worst)?;
        let counts = found.counts;
        Ok(Self {
            chunk: found.chunk,
            chunks: found.chunks,
            origin_bytes: found.origin_bytes,
            origin: found.origin,
            mode: found.mode,
            policy: found.policy,
            in_order: found.state == State::Clean && !(missing && found.sequence > 1),
            needs_check: found.needs_check,
            hits_and_misses: [counts.read_hits, counts.read_misses, counts.write_hits, counts.write_misses],
            sequence: found.sequence,
        })
    }
}
