//! When the chips are busy: dies, planes and channels.
//!
//! Everything is reserved when it is asked for. A die runs its programs and erases in the order in which
//! they came, all planes together. A read goes first where it may. It joins a gap, goes before an
//! operation that has not begun, or suspends the one that runs. A suspended operation ends later, by the time
//! for which the array was taken from it. Each operation can be postponed only so many times.

use super::NandConfig;
use super::ops::{Op, OpKind, Ops};
use crate::time::{Nanos, Timeline};

/// Bytes of a page.
const PAGE: u64 = 4096;

/// What every operation on a die needs.
#[derive(Clone, Default, Debug)]
#[repr(align(64))]
struct Die {
    /// In order of time, one after the other.
    ops: Ops,
    /// When the last read reserved on any plane ends.
    reads_end: Nanos,
    /// When the operation suspended last lets go of the array.
    suspended_at: Nanos,
    /// What it was asked for since the power came.
    times: DieTimes,
}

/// Nanoseconds for which a die was asked to work since the power came. Work counts when it is asked for, so its end may lie ahead. Time for which an
/// operation is suspended does not count.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct DieTimes {
    /// Senses; those that planes do at the same time count once.
    pub reads: u64,
    /// Programs.
    pub programs: u64,
    /// Erases.
    pub erases: u64,
}

/// All dies and channels.
#[derive(Clone, Debug)]
pub(super) struct Dies {
    dies: Vec<Die>,
    /// When the last read reserved on a plane ends: `die * planes + plane`.
    planes: Vec<Nanos>,
    channels: Vec<Timeline>,
    /// Channel of each die.
    channel_of: Vec<u32>,
    planes_per_die: usize,
    /// Time on the channel by number of pages, up to a sense.
    transfer: Vec<Nanos>,
    transfer_unit: Nanos,
    program: Nanos,
    erase: Nanos,
    rules: Rules,
    /// The latest time that was seen.
    latest: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Rules {
    suspend: Nanos,
    resume: Nanos,
    max_suspends: u32,
}

impl Die {
    /// Drops operations that ended: nothing can postpone them any more.
    #[inline]
    fn forget_ended(&mut self, now: Nanos) {
        while self.ops.first().is_some_and(|op| op.end <= now) {
            self.ops.drop_first();
        }
    }

    #[inline]
    fn append(&mut self, earliest: Nanos, span: Nanos, kind: OpKind) -> Nanos {
        let after = self.ops.last().map_or(Nanos::ZERO, |op| op.end);
        let start = earliest.max(after).max(self.reads_end);
        let end = start + span;
        self.ops.push(Op { start, end, kind, postponed: 0, suspended: false });
        end
    }

    /// End of a sense of `span` on a plane that is free of reads from `plane_free`, where programs or erases
    /// are under way.
    fn sense_among(&mut self, now: Nanos, plane_free: Nanos, span: Nanos, rules: Rules) -> Nanos {
        // The array is free from here on, as far as the operations before the one looked at go.
        let mut free = now.max(self.suspended_at);
        for i in 0..self.ops.len() {
            let op = &mut self.ops[i];
            let lead = if op.suspended { rules.resume } else { Nanos::ZERO };
            // Reads of a plane keep their order: if one waits behind this operation, so does this one.
            let in_turn = plane_free <= op.start;
            if in_turn && now.0 >= op.start.0.saturating_sub(lead.0) {
                // It runs, or resumes.
                if op.postponed < rules.max_suspends {
                    let remaining = op.end - op.start.max(now);
                    self.suspended_at = now + rules.suspend;
                    let end = self.suspended_at.max(plane_free) + span;
                    op.suspended = true;
                    op.postponed += 1;
                    op.start = end + rules.resume;
                    op.end = op.start + remaining;
                    self.push_on(i);
                    return end;
                }
            } else if in_turn {
                let end = free.max(plane_free) + span;
                if end + lead <= op.start {
                    return end;
                }
                if op.postponed < rules.max_suspends {
                    let remaining = op.end - op.start;
                    op.postponed += 1;
                    op.start = end + lead;
                    op.end = op.start + remaining;
                    self.push_on(i);
                    return end;
                }
            }
            free = op.end;
        }
        free.max(plane_free) + span
    }

    /// Operation `first` ends later now: moves those behind it that it runs into.
    fn push_on(&mut self, first: usize) {
        let mut free = self.ops[first].end;
        for i in first + 1..self.ops.len() {
            let op = &mut self.ops[i];
            if op.start >= free {
                break;
            }
            let span = op.end - op.start;
            op.start = free;
            op.end = free + span;
            free = op.end;
        }
    }
}

impl Dies {
    pub(super) fn new(config: &NandConfig) -> Self {
        let (g, t) = (&config.geometry, &config.timing);
        let transfer = |pages: u32| Nanos::of_transfer(u64::from(pages) * PAGE, t.channel_bytes_per_second);
        Dies {
            dies: vec![Die::default(); g.dies as usize],
            planes: vec![Nanos::ZERO; (g.dies * g.planes) as usize],
            channels: vec![Timeline::default(); g.channels as usize],
            channel_of: (0..g.dies).map(|d| d % g.channels).collect(),
            planes_per_die: g.planes as usize,
            transfer: (0..=g.sense_pages).map(transfer).collect(),
            transfer_unit: transfer(g.unit_pages),
            program: t.program,
            erase: t.erase,
            latest: Nanos::ZERO,
            rules: Rules { suspend: t.suspend, resume: t.resume, max_suspends: t.max_suspends },
        }
    }

    /// Senses for `span` on a plane, then brings `count` pages over the channel; returns the end.
    #[inline]
    pub(super) fn read(&mut self, now: Nanos, die: u32, plane: u32, span: Nanos, count: u32) -> Nanos {
        self.latest = now;
        let chip = &mut self.dies[die as usize];
        let plane_free = &mut self.planes[die as usize * self.planes_per_die + plane as usize];
        chip.forget_ended(now);
        let sensed = if chip.ops.is_empty() {
            now.max(*plane_free) + span
        } else {
            chip.sense_among(now, *plane_free, span, self.rules)
        };
        *plane_free = sensed;
        let alone = chip.reads_end.max(Nanos(sensed.0.saturating_sub(span.0)));
        chip.times.reads += sensed.0.saturating_sub(alone.0);
        chip.reads_end = chip.reads_end.max(sensed);
        let transfer = self.transfer[count as usize];
        self.channels[self.channel_of[die as usize] as usize].reserve(now, sensed, transfer) + transfer
    }

    /// Brings a unit over the channel, then programs it; returns the provisional end.
    #[inline]
    pub(super) fn program(&mut self, now: Nanos, die: u32, unit: u32) -> Nanos {
        self.latest = now;
        let channel = &mut self.channels[self.channel_of[die as usize] as usize];
        let arrived = channel.reserve(now, now, self.transfer_unit) + self.transfer_unit;
        let chip = &mut self.dies[die as usize];
        chip.forget_ended(now);
        chip.times.programs += self.program.0;
        chip.append(arrived, self.program, OpKind::Program(unit))
    }

    /// Erases a block; returns the provisional end.
    pub(super) fn erase(&mut self, now: Nanos, die: u32, block: u32) -> Nanos {
        self.latest = now;
        let chip = &mut self.dies[die as usize];
        chip.forget_ended(now);
        chip.times.erases += self.erase.0;
        chip.append(now, self.erase, OpKind::Erase(block))
    }

    /// When an operation ends, if it has not ended by `now`.
    #[inline]
    pub(super) fn unended(&mut self, now: Nanos, die: u32, kind: OpKind) -> Option<Nanos> {
        self.latest = now;
        let chip = &mut self.dies[die as usize];
        chip.forget_ended(now);
        // Mostly it is the first.
        match chip.ops.first() {
            Some(op) if op.kind == kind => Some(op.end),
            _ => chip.ops.iter().find(|op| op.end > now && op.kind == kind).map(|op| op.end),
        }
    }

    /// All operations not yet ended at `now` in the order of each die.
    pub(super) fn in_flight(&self, now: Nanos) -> impl Iterator<Item = OpKind> {
        self.dies.iter().flat_map(|d| d.ops.iter()).filter(move |op| op.end > now).map(|op| op.kind)
    }

    /// How many dies sense, program or erase at `now`.
    pub(super) fn busy(&self, now: Nanos) -> u32 {
        let works =
            |die: &&Die| die.reads_end > now || die.ops.iter().any(|op| op.start <= now && now < op.end);
        self.dies.iter().filter(works).count() as u32
    }

    /// What each die was asked for, in order.
    pub(super) fn times(&self) -> impl Iterator<Item = DieTimes> {
        self.dies.iter().map(|die| die.times)
    }

    /// The latest time that was seen: what ended by then did end.
    pub(super) fn latest(&self) -> Nanos {
        self.latest
    }

    /// Everything is idle: power was lost.
    pub(super) fn clear(&mut self) {
        for die in &mut self.dies {
            die.ops.clear();
            (die.reads_end, die.suspended_at) = (Nanos::ZERO, Nanos::ZERO);
            die.times = DieTimes::default();
        }
        self.planes.fill(Nanos::ZERO);
        self.channels.iter_mut().for_each(Timeline::clear);
    }
}

/// What is known of the pages of a unit before any is read: plane, sense time, and how many pages from
/// this one on lie in the same sense.
#[derive(Clone, Copy, Debug)]
pub(super) struct Within {
    pub(super) span: Nanos,
    pub(super) plane: u32,
    pub(super) left: u32,
}

/// [`Within`] of all pages of a unit of page type `kind` (page by page) or of all types (one-shot).
pub(super) fn within(config: &NandConfig, kind: u32, one_shot: bool) -> impl Iterator<Item = Within> {
    let g = &config.geometry;
    (0..g.unit_pages).map(move |i| {
        let nand_page = i / g.sense_pages;
        let page_type = if one_shot { nand_page / g.planes } else { kind };
        Within {
            span: config.timing.sense_of(page_type),
            plane: nand_page % g.planes,
            left: g.sense_pages - i % g.sense_pages,
        }
    })
}
