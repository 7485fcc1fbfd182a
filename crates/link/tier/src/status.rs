//! The status line, with dm-cache's fields in dm-cache's order (its documentation, "Status").

use crate::config::{Mode, PolicyKind, SECTOR};
use crate::metadata::BLOCK;
use crate::metadata::table::ENTRIES;
use crate::state::{Core, Counters};
use std::fmt;

/// What dm-cache says of a cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// Sectors of a block of metadata.
    pub metadata_block: u64,
    /// Blocks of metadata that are used, and all.
    pub metadata_blocks: (u64, u64),
    /// Sectors of a chunk.
    pub cache_block: u64,
    /// Chunks in the cache, and places for them.
    pub cache_blocks: (u32, u32),
    /// Hits, misses, demotions and promotions.
    pub counters: Counters,
    /// Chunks that differ from the origin's.
    pub dirty: u32,
    /// What a write does.
    pub mode: Mode,
    /// Whether deallocations go on to the origin.
    pub discard_passdown: bool,
    /// Sectors that migrate at the same time.
    pub migration_threshold: u64,
    /// Which chunks are cached.
    pub policy: PolicyKind,
    /// The policy's names and values.
    pub policy_arguments: Vec<(&'static str, u64)>,
    /// The metadata cannot be written.
    pub read_only: bool,
    /// An operation of metadata failed.
    pub needs_check: bool,
    /// The origin failed, or the cache device did, and what that has is newer than the origin.
    pub failed: bool,
}

impl Core {
    /// Chunks in the cache: one number of the status, for who asks often.
    pub fn resident(&self) -> u32 {
        self.policy.resident()
    }

    /// What dm-cache would say of it.
    pub fn status(&self) -> Status {
        let layout = self.commit.superblock.layout;
        let table = u64::from(self.shape.cache_chunks).div_ceil(ENTRIES as u64) + 1;
        let mq = self.config.mq;
        let policy_arguments = match self.config.policy {
            PolicyKind::Mq => vec![
                ("random_threshold", mq.random_threshold.into()),
                ("sequential_threshold", mq.sequential_threshold.into()),
                ("discard_promote_adjustment", mq.discard_promote_adjustment.into()),
                ("read_promote_adjustment", mq.read_promote_adjustment.into()),
                ("write_promote_adjustment", mq.write_promote_adjustment.into()),
            ],
            PolicyKind::Smq | PolicyKind::SmqBefore412 | PolicyKind::Cleaner => Vec::new(),
        };
        Status {
            metadata_block: BLOCK / SECTOR,
            metadata_blocks: (2 + 2 * table + self.commit.log_at, layout.blocks()),
            cache_block: self.config.chunk / SECTOR,
            cache_blocks: (self.policy.resident(), self.shape.cache_chunks),
            counters: self.counters,
            dirty: self.policy.dirty(),
            mode: self.config.mode,
            discard_passdown: self.config.discard_passdown,
            migration_threshold: self.config.migration_threshold,
            policy: self.config.policy,
            policy_arguments,
            read_only: self.health.metadata_failed,
            needs_check: self.health.metadata_failed || self.commit.superblock.needs_check,
            failed: self.health.origin_failed || self.health.cache_failed && self.policy.dirty() > 0,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.failed {
            return f.write_str("Fail");
        }
        let Counters { read_hits, read_misses, write_hits, write_misses, demotions, promotions, .. } =
            self.counters;
        write!(f, "{} {}/{} ", self.metadata_block, self.metadata_blocks.0, self.metadata_blocks.1)?;
        write!(f, "{} {}/{} ", self.cache_block, self.cache_blocks.0, self.cache_blocks.1)?;
        write!(f, "{read_hits} {read_misses} {write_hits} {write_misses} ")?;
        write!(f, "{demotions} {promotions} {} ", self.dirty)?;
        match self.discard_passdown {
            true => write!(f, "1 {} ", self.mode)?,
            false => write!(f, "2 {} no_discard_passdown ", self.mode)?,
        }
        write!(f, "2 migration_threshold {} ", self.migration_threshold)?;
        write!(f, "{} {}", self.policy.kernel_name(), 2 * self.policy_arguments.len())?;
        for (name, value) in &self.policy_arguments {
            write!(f, " {name} {value}")?;
        }
        write!(f, " {}", if self.read_only { "ro" } else { "rw" })?;
        write!(f, " {}", if self.needs_check { "needs_check" } else { "-" })
    }
}
