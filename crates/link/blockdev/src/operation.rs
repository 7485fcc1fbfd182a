//! What is asked of a block device, and how it is cut into parts.

use crate::{Limits, Verb};

/// A verb on a range of logical blocks: a whole request, or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Operation {
    /// What to do.
    pub verb: Verb,
    /// First logical block; of an append or an action on a zone, that of the zone.
    pub lba: u64,
    /// How many logical blocks; 0 for a flush and an action on a zone.
    pub blocks: u32,
}

impl Operation {
    /// Bytes of data that move between host and device, with blocks of `block_size` bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self, block_size: u32) -> u64 {
        match self.verb.reads() || self.verb.writes() {
            true => u64::from(self.blocks) * u64::from(block_size),
            false => 0,
        }
    }

    /// The parts that a device with these limits takes, in order.
    #[inline]
    #[must_use]
    pub fn parts(self, limits: &Limits) -> Parts {
        Parts { operation: self, most: limits.most(self.verb), done: 0, ended: false }
    }

    /// The part that begins at the block `at` of it and has so many blocks.
    #[inline]
    fn part(&self, at: u32, blocks: u32) -> Operation {
        let verb = match self.verb {
            // Each goes to the same zone.
            Verb::Append => return Operation { blocks, ..*self },
            Verb::Copy { from, fua } => Verb::Copy { from: from + u64::from(at), fua },
            other => other,
        };
        Operation { verb, lba: self.lba + u64::from(at), blocks }
    }
}

/// The parts of an operation. Each is a whole operation within the limits. Together they cover its blocks once, in order.
/// An operation without blocks is one part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    operation: Operation,
    /// Blocks of a part at most.
    most: u32,
    /// Blocks of the parts so far.
    done: u32,
    ended: bool,
}

impl Parts {
    /// Where the next part begins: logical blocks from the first of the whole operation on.
    #[inline]
    #[must_use]
    pub fn at(&self) -> u32 {
        self.done
    }

    /// How many parts are still to come.
    #[must_use]
    pub fn left(&self) -> usize {
        match self.ended {
            true => 0,
            false => (self.operation.blocks - self.done).div_ceil(self.most).max(1) as usize,
        }
    }

    /// Whether no part is still to come.
    #[inline]
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ended
    }
}

impl Iterator for Parts {
    type Item = Operation;

    #[inline]
    fn next(&mut self) -> Option<Operation> {
        if self.ended {
            return None;
        }
        let rest = self.operation.blocks - self.done;
        let part = self.operation.part(self.done, rest.min(self.most));
        self.done += part.blocks;
        self.ended = rest <= self.most;
        Some(part)
    }
}
