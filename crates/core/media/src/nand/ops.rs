//! The programs and erases of a die, in their order: mostly two, which then lie in the die itself.

use crate::time::Nanos;
use std::ops::{Index, IndexMut};

/// What [`Op`] is, and of what: the number of a unit or of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OpKind {
    Program(u32),
    Erase(u32),
}

/// A program or an erase under way or waiting on a die.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    /// When the array starts it, or goes on with it after a suspension.
    pub(super) start: Nanos,
    /// When it ends, unless it is postponed.
    pub(super) end: Nanos,
    pub(super) kind: OpKind,
    /// Reads that postponed it.
    pub(super) postponed: u32,
    /// Whether it is suspended: then `resume` passes before `start`.
    pub(super) suspended: bool,
}

const NULL_OP: Op =
    Op { start: Nanos::ZERO, end: Nanos::ZERO, kind: OpKind::Program(0), postponed: 0, suspended: false };

/// How many lie in the die itself.
const INLINE_OPS: usize = 3;

/// A queue.
#[derive(Clone, Debug)]
pub(super) struct Ops {
    inline: [Op; INLINE_OPS],
    len: usize,
    /// Those behind the inline ones.
    spilled: Vec<Op>,
}

impl Default for Ops {
    fn default() -> Self {
        Ops { inline: [NULL_OP; INLINE_OPS], len: 0, spilled: Vec::new() }
    }
}

impl Ops {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(super) fn first(&self) -> Option<&Op> {
        self.inline.first().filter(|_| self.len > 0)
    }

    #[inline]
    pub(super) fn last(&self) -> Option<&Op> {
        self.len.checked_sub(1).map(|last| &self[last])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Op> {
        self.inline.iter().take(self.len).chain(&self.spilled)
    }

    #[inline]
    pub(super) fn push(&mut self, op: Op) {
        match self.inline.get_mut(self.len) {
            Some(place) => *place = op,
            None => self.spilled.push(op),
        }
        self.len += 1;
    }

    /// Drops the first; there must be one.
    #[inline]
    pub(super) fn drop_first(&mut self) {
        self.inline.copy_within(1.., 0);
        self.len -= 1;
        if self.len >= INLINE_OPS {
            self.inline[INLINE_OPS - 1] = self.spilled.remove(0);
        }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.spilled.clear();
    }
}

impl Index<usize> for Ops {
    type Output = Op;
    #[inline]
    fn index(&self, i: usize) -> &Op {
        if i < INLINE_OPS { &self.inline[i] } else { &self.spilled[i - INLINE_OPS] }
    }
}

impl IndexMut<usize> for Ops {
    #[inline]
    fn index_mut(&mut self, i: usize) -> &mut Op {
        if i < INLINE_OPS { &mut self.inline[i] } else { &mut self.spilled[i - INLINE_OPS] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use std::collections::VecDeque;

    #[test]
    fn few_and_many_are_one_queue() {
        for seed in 0..20 {
            let (mut rng, mut ops, mut model) = (Rng::new(seed), Ops::default(), VecDeque::new());
            for n in 0..500 {
                if rng.below(2) == 0 {
                    ops.push(Op { end: Nanos(n), ..NULL_OP });
                    model.push_back(n);
                } else if model.pop_front().is_some() {
                    ops.drop_first();
                }
                if rng.below(50) == 0 {
                    ops.clear();
                    model.clear();
                }
                let ends: Vec<u64> = ops.iter().map(|op| op.end.0).collect();
                assert!(model.iter().eq(&ends), "seed {seed}");
                assert_eq!((ops.len(), ops.is_empty()), (model.len(), model.is_empty()), "seed {seed}");
                assert_eq!(ops.first().map(|op| op.end.0), model.front().copied(), "seed {seed}");
                assert_eq!(ops.last().map(|op| op.end.0), model.back().copied(), "seed {seed}");
                assert!(model.iter().enumerate().all(|(i, &end)| ops[i].end.0 == end), "seed {seed}");
            }
        }
    }
}
