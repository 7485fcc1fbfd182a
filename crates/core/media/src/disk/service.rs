//! One request after the other: the controller's overheads, the buffer, the mechanism and the bus.

use super::cache::{Cache, CacheConfig, Lookup, Served};
use super::geometry::Place;
use super::mechanism::{Access, Arm, Before, Mechanism};
use super::types::Op;
use crate::time::Nanos;

/// Times of the controller and of the bus.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Overheads {
    /// From the command to the start of positioning or transfer: by operation, by whether the cache
    /// answers (0: no, 1: yes), and by the operation before.
    pub command: [[[Nanos; 2]; 2]; 2],
    /// From the last block to the completion, by operation.
    pub completion: [Nanos; 2],
    /// A block on the bus.
    pub block: Nanos,
}

/// A disk without a queue.
#[derive(Clone, Debug)]
pub struct Model {
    /// The moving parts.
    pub mechanism: Mechanism,
    /// The controller.
    pub overheads: Overheads,
    /// A write is complete when it is in the buffer.
    pub write_cache: bool,
}

/// Where a disk without a queue is.
#[derive(Clone, Debug)]
pub struct State {
    /// The request before.
    pub before: Before,
    /// The buffer.
    pub cache: Cache,
    /// The arm works until then, read-ahead aside.
    pub busy: Nanos,
}

impl State {
    /// A disk that has just started: the arm is on the first track, the buffer empty.
    pub fn new(cache: CacheConfig) -> State {
        let before = Before { op: Op::Read, next: u64::MAX, arm: Arm::default() };
        State { before, cache: Cache::new(cache), busy: Nanos::ZERO }
    }
}

/// How a request goes, if nothing else happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// What it does.
    pub op: Op,
    /// First block and number of blocks.
    pub range: (u64, u32),
    /// Whether the cache answers.
    pub hit: bool,
    /// When it is complete.
    pub complete: Nanos,
    /// What the heads do for it. For a write in the cache, that is later.
    pub access: Option<Access>,
}

impl Model {
    /// How a request that arrives at `now` goes.
    ///
    /// # Panics
    /// If the disk does not have the blocks, or `count` is 0.
    pub fn plan(&self, state: &State, now: Nanos, op: Op, block: u64, count: u32) -> Plan {
        let range = (block, count);
        let overheads = &self.overheads;
        let found = match op {
            Op::Read => state.cache.lookup(now, block, count),
            Op::Write if self.write_cache => Lookup::Hit,
            Op::Write => Lookup::Miss,
        };
        let hit = found != Lookup::Miss;
        let ready = now + overheads.command[op as usize][usize::from(hit)][state.before.op as usize];
        let bus = Nanos(overheads.block.0 * u64::from(count));
        let completion = overheads.completion[op as usize];
        match found {
            Lookup::Hit => Plan { op, range, hit, complete: ready + bus + completion, access: None },
            Lookup::Coming(last) => {
                let complete = (ready + bus).max(last + overheads.block) + completion;
                Plan { op, range, hit, complete, access: None }
            }
            Lookup::Miss => {
                let from = ready.max(state.busy);
                let access = self.mechanism.access(from, &state.before, op, range, overheads.block);
                let complete = completion
                    + match op {
                        Op::Read => access.bus_end,
                        Op::Write => access.end,
                    };
                Plan { op, range, hit, complete, access: Some(access) }
            }
        }
    }

    /// Accounts for a request as planned.
    pub fn commit(&self, state: &mut State, plan: &Plan) {
        let Plan { op, range, hit, complete, access } = *plan;
        let (mut over, mut last) = (complete, None);
        match (op, access) {
            (_, Some(access)) => {
                state.busy = access.end;
                (over, last) = (access.end, Some(access.last));
            }
            // The buffer is written to the platters as soon as the host knows nothing of it any more.
            (Op::Write, None) => {
                let from = complete.max(state.busy);
                let access = self.mechanism.access(from, &state.before, op, range, Nanos::ZERO);
                state.busy = access.end;
                last = Some(access.last);
            }
            (Op::Read, None) => {}
        }
        self.account(state, over, op, range, hit, last);
    }

    /// Accounts for a request whose outcome is known: its last block passed the heads or was found at `at`. `last` is the place of that
    /// block, if it is known.
    #[inline]
    pub fn account(
        &self,
        state: &mut State,
        at: Nanos,
        op: Op,
        range: (u64, u32),
        hit: bool,
        last: Option<Place>,
    ) {
        let geometry = &self.mechanism.geometry;
        let last = last.unwrap_or_else(|| geometry.place(range.0 + u64::from(range.1) - 1));
        let block_time = if op == Op::Read { self.block_time(last.zone as usize) } else { Nanos::ZERO };
        state.cache.note(geometry, &Served { op, range, last, at, hit, block_time });
        state.before = Before { op, next: range.0 + u64::from(range.1), arm: last.into() };
    }

    /// Time of a block of a long read: a track and a track switch by the blocks of a track.
    pub fn block_time(&self, zone: usize) -> Nanos {
        let geometry = &self.mechanism.geometry;
        let switch = self.mechanism.spindle.span(geometry.skew(zone).head);
        Nanos((self.mechanism.spindle.revolution() + switch).0 / u64::from(geometry.track_sectors(zone)))
    }
}
