//! How a range of bytes becomes commands on logical blocks.
//!
//! [`Operation::parts`](blockdev::Operation::parts) cuts whole blocks, up to 2^32 of them. A `fallocate` may cover more bytes. Its first and last block may be
//! partial.

use blockdev::Verb;

/// A range of whole logical blocks, and the bytes of the request that lie in it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CommandStep {
    /// First logical block.
    pub lba: u64,
    /// Number of logical blocks.
    pub blocks: u32,
    /// Bytes at the start of the range that the request does not touch.
    pub skip: u32,
    /// Bytes of the request in this range.
    pub len: u64,
    /// Where those bytes are in the request.
    pub at: u64,
}

impl CommandStep {
    /// Whether the request touches only a part of the range: a write has to keep the rest.
    pub fn is_partial(&self, block_size: u32) -> bool {
        self.len != u64::from(self.blocks) * u64::from(block_size)
    }
}

/// The commands for `len` bytes (1 or more) at `offset`, each of at most `most` logical blocks (1 or more). A read takes blocks whole, and its bytes are
/// cut out of them. In other requests, a block that is touched in part is a step of its own. The common case, a range of whole blocks that one
/// command carries, is a single step.
pub fn split(verb: Verb, offset: u64, len: u64, block_size: u32, most: u32) -> Steps {
    let size = u64::from(block_size);
    let most = u64::from(most);
    let skip = u32::try_from(offset % size).unwrap_or(0);
    let mut step = CommandStep { lba: offset / size, skip, ..CommandStep::default() };
    let mut steps = Steps::None;
    let mut at = 0;
    while at < len {
        let rest = u64::from(step.skip) + (len - at);
        let blocks = match verb.reads() {
            true => rest.div_ceil(size).min(most),
            // A first block with something to keep, or a last one, stands alone.
            false if step.skip > 0 || rest < size => 1,
            false => (rest / size).min(most),
        };
        step.at = at;
        step.len = rest.min(blocks * size) - u64::from(step.skip);
        // No more than `most`, which has 32 bits.
        step.blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        steps.push(step);
        at += step.len;
        step = CommandStep { lba: step.lba + blocks, skip: 0, ..step };
    }
    steps
}

/// Steps of a request; one of them needs no allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Steps {
    /// Nothing to do.
    None,
    /// One command.
    One(CommandStep),
    /// Several.
    Many(Vec<CommandStep>),
}

impl Steps {
    fn push(&mut self, step: CommandStep) {
        *self = match std::mem::replace(self, Steps::None) {
            Steps::None => Steps::One(step),
            Steps::One(first) => Steps::Many(vec![first, step]),
            Steps::Many(mut all) => {
                all.push(step);
                Steps::Many(all)
            }
        };
    }

    /// All of them, in order.
    pub fn as_slice(&self) -> &[CommandStep] {
        match self {
            Steps::None => &[],
            Steps::One(step) => std::slice::from_ref(step),
            Steps::Many(all) => all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERBS: [Verb; 3] = [Verb::Read, Verb::Write, Verb::WriteZeroes { deallocate: true }];

    fn step(lba: u64, blocks: u32, skip: u32, len: u64, at: u64) -> CommandStep {
        CommandStep { lba, blocks, skip, len, at }
    }

    #[test]
    fn one_command_where_the_limit_allows() {
        for verb in VERBS {
            assert_eq!(split(verb, 16384, 16384, 512, 32), Steps::One(step(32, 32, 0, 16384, 0)));
        }
    }

    #[test]
    fn larger_requests_are_cut_at_the_limit() {
        let steps = split(Verb::Write, 4096, 40960, 4096, 4);
        let expected = [step(1, 4, 0, 16384, 0), step(5, 4, 0, 16384, 16384), step(9, 2, 0, 8192, 32768)];
        assert_eq!(steps.as_slice(), expected);
    }

    #[test]
    fn reads_take_whole_blocks_and_writes_single_out_the_partial_ones() {
        assert_eq!(split(Verb::Read, 100, 5000, 4096, 4), Steps::One(step(0, 2, 100, 5000, 0)));
        let steps = split(Verb::Write, 100, 9000, 4096, 4);
        let expected = [step(0, 1, 100, 3996, 0), step(1, 1, 0, 4096, 3996), step(2, 1, 0, 908, 8092)];
        assert_eq!(steps.as_slice(), expected);
        assert!(steps.as_slice()[0].is_partial(4096) && !steps.as_slice()[1].is_partial(4096));
        let within = split(VERBS[2], 600, 7, 512, 100);
        assert_eq!(within, Steps::One(step(1, 1, 88, 7, 0)));
    }

    #[test]
    fn every_split_covers_its_request_exactly_once() {
        for verb in VERBS {
            for block_size in [512u32, 4096] {
                for offset in (0..9000).step_by(37) {
                    for len in [1u64, 99, 511, 512, 513, 4096, 5000, 8192, 40000] {
                        let steps = split(verb, offset, len, block_size, 16384 / block_size);
                        let mut at = 0;
                        for s in steps.as_slice() {
                            assert_eq!(s.at, at);
                            let position = s.lba * u64::from(block_size) + u64::from(s.skip);
                            assert_eq!(position, offset + at);
                            let room = u64::from(s.blocks) * u64::from(block_size);
                            assert!(s.len > 0 && u64::from(s.skip) + s.len <= room);
                            assert!(verb.reads() || !s.is_partial(block_size) || s.blocks == 1);
                            at += s.len;
                        }
                        assert_eq!(at, len);
                    }
                }
            }
        }
    }
}
