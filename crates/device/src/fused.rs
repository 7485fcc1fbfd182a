//! Fused operations (Base 3.4.2; NVM 2.1.4): Compare and Write, two commands that follow each other in a queue and are executed as one.
//!
//! The first command waits for the second, which is the next one of its queue; if that is another one, or none will come
//! ([`Drive::end_fused`]), the first is aborted. From then on the two are one command: the second waits for its turn for both, and the
//! translation layer compares what it is about to replace ([`ftl::Ftl::compare_and_write`]). If one of them fails, the other is aborted,
//! except that a comparison that was good stays good.

use crate::arbiter::Turn;
use crate::contents::Contents;
use crate::controller::{ControllerId, Controllers};
use crate::drive::{Cx, Drive, Event, Failure};
use crate::flight::{InFlight, Kind, Token};
use crate::treatment::Action;
use ftl::{Answer, Fault};
use media::Nanos;
use nvme::io::Blocks;
use nvme::{Command, IoCommand, Status};
use std::collections::BTreeMap;

/// Values of FUSE (Base 4.1, Command Dword 0).
const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// Whether a command is one of a fused operation.
#[inline]
pub(crate) fn concerns(command: &Command, qid: u16) -> bool {
    let fuse = command.flags.fuse();
    (fuse == FIRST || fuse == SECOND) && qid != 0 && command.opc != nvme::command::FABRICS_OPCODE
}

/// Fused operations under way.
#[derive(Default)]
pub(crate) struct Fused {
    /// First commands whose second is the next of the queue, by controller and queue: number and blocks; `None` if it has failed, and the
    /// second is to be told.
    firsts: BTreeMap<(u16, u16), Option<(u32, Blocks)>>,
    /// The number and the blocks of the first command, by the number of the second: until both are executed.
    pairs: BTreeMap<u32, (u32, Blocks)>,
}

impl Fused {
    /// Whether any command waits for its second.
    #[inline]
    pub fn waits(&self) -> bool {
        !self.firsts.is_empty()
    }

    /// A queue is gone, or all of a controller's are.
    pub fn forget(&mut self, controller: ControllerId, qid: Option<u16>) {
        self.firsts
            .retain(|&(c, q), first| first.is_some() || c != controller.0 || qid.is_some_and(|qid| qid != q));
    }

    /// Power was lost.
    pub fn clear(&mut self) {
        *self = Fused::default();
    }
}

/// Aborted, for the other one has failed.
fn other_failed() -> Failure {
    Failure { location: 1, ..Status::ABORTED_FAILED_FUSED.into() }
}

/// Aborted, for there is no other one.
fn other_missing() -> Failure {
    Failure { location: 1, ..Status::ABORTED_MISSING_FUSED.into() }
}

impl Drive {
    /// A command comes in a queue where another may wait for its second: if this is not it, that one is aborted.
    #[cold]
    pub(crate) fn separate<S: Contents>(
        &mut self,
        id: ControllerId,
        qid: u16,
        command: &Command,
        cx: &mut Cx<'_, S>,
    ) {
        if command.flags.fuse() != SECOND {
            self.give_up_first(id, qid, cx);
        }
    }

    /// What was submitted last to this queue is a first command, and no second will follow it, or not next: it is aborted. Only transports that
    /// know more than the order of [`submit`](Drive::submit) need it.
    pub fn end_fused<S: Contents>(
        &mut self,
        now: Nanos,
        id: ControllerId,
        qid: u16,
        storage: &mut S,
        out: &mut Vec<crate::Output>,
    ) {
        let now = self.tick(now);
        let mut cx = Cx { now, storage, out };
        self.give_up_first(id, qid, &mut cx);
        self.pump(&mut cx);
    }

    fn give_up_first<S: Contents>(&mut self, id: ControllerId, qid: u16, cx: &mut Cx<'_, S>) {
        let first = self.fused.firsts.remove(&(id.0, qid)).flatten();
        if let Some(token) = first.and_then(|(io, _)| self.flight.unpark(io)) {
            self.fail(token, other_missing(), cx);
        }
    }

    /// A command of a fused operation has come. `admitted` is whether it may be executed at all.
    #[cold]
    pub(crate) fn submit_fused<S: Contents>(
        &mut self,
        token: Token,
        id: ControllerId,
        command: &Command,
        admitted: Result<(), Failure>,
        cx: &mut Cx<'_, S>,
    ) {
        let qid = self.flight.get_mut(&token).qid;
        let parsed = admitted.and_then(|()| IoCommand::parse(command).map_err(Failure::from));
        if command.flags.fuse() == FIRST {
            match parsed {
                Ok(IoCommand::Compare(blocks)) => {
                    self.fused.firsts.insert((id.0, qid), Some((token.park(), blocks)));
                }
                other => {
                    self.fused.firsts.insert((id.0, qid), None);
                    // The only fused operation is Compare and Write.
                    self.fail(token, other.err().unwrap_or(Failure::field(1)), cx);
                }
            }
            return;
        }
        let Some(first) = self.fused.firsts.remove(&(id.0, qid)) else {
            let failure = parsed.err().unwrap_or_else(other_missing);
            return self.fail(token, failure, cx);
        };
        let first = first.and_then(|(io, compared)| Some((self.flight.unpark(io)?, compared)));
        let blocks = match parsed {
            Ok(IoCommand::Write(blocks)) => Ok(blocks),
            Ok(_) => Err(Failure::field(1)),
            Err(failure) => Err(failure),
        };
        match (first, blocks) {
            (None, Ok(_)) => self.fail(token, other_failed(), cx),
            (None, Err(failure)) => self.fail(token, failure, cx),
            (Some((first, _)), Err(failure)) => {
                self.fail(first, other_failed(), cx);
                self.fail(token, failure, cx);
            }
            (Some((first, compared)), Ok(blocks)) => match differs(&compared, &blocks) {
                Some(byte) => {
                    self.fail(first, Failure::field(byte), cx);
                    self.fail(token, Failure::field(byte), cx);
                }
                None => self.submit_pair(first, compared, token, id, blocks, cx),
            },
        }
    }

    fn submit_pair<S: Contents>(
        &mut self,
        first: Token,
        compared: Blocks,
        second: Token,
        id: ControllerId,
        blocks: Blocks,
        cx: &mut Cx<'_, S>,
    ) {
        self.flight.get_mut(&second).fused = true;
        self.fused.pairs.insert(second.io().0, (first.park(), compared));
        // The quota counts what is written.
        match self.arbitrate(&second, id, &IoCommand::Write(blocks), &[], cx.now) {
            Turn::Now => self.execute_pair(second, &blocks, cx),
            Turn::Held => {
                second.park();
            }
        }
    }

    /// The first command of a pair, which is a pair no more.
    fn part(&mut self, second: &Token) -> Option<(Token, Blocks)> {
        self.flight.get_mut(second).fused = false;
        let (io, blocks) = self.fused.pairs.remove(&second.io().0)?;
        Some((self.flight.unpark(io)?, blocks))
    }

    /// Executes both commands of a pair, whose turn has come.
    #[cold]
    pub(crate) fn execute_pair<S: Contents>(&mut self, second: Token, blocks: &Blocks, cx: &mut Cx<'_, S>) {
        let Some((first, compared)) = self.part(&second) else {
            return self.fail(second, other_missing(), cx);
        };
        let entry = self.flight.get_mut(&second);
        let id = ControllerId(entry.controller);
        if !entry.status.is_success() {
            // It was preempted.
            self.fail(first, other_failed(), cx);
            return self.schedule(second, cx.now, cx);
        }
        if let Err(failure) = self.begin_compare(&first, id, &compared, cx) {
            self.fail(first, failure, cx);
            return self.fail(second, other_failed(), cx);
        }
        let place = match self.begin_write(&second, id, blocks, cx) {
            Ok(place) => place,
            Err(failure) => {
                self.fail(first, other_failed(), cx);
                return self.fail(second, failure, cx);
            }
        };
        self.enter(&first);
        self.enter(&second);
        let durable = self.must_be_durable(id, blocks.fua);
        self.flight.get_mut(&second).sync |= durable;
        let answer = self.ftl.compare_and_write(
            cx.now,
            first.io(),
            second.io(),
            place.volume,
            place.extent,
            durable,
            place.handle,
            cx.storage,
        );
        match answer {
            Answer::At(at) => {
                self.schedule(first, at, cx);
                self.schedule(second, at, cx);
            }
            Answer::Failed(fault) => self.pair_failed(first, second, fault, cx),
            Answer::Later => {
                let entry = self.flight.get_mut(&second);
                (entry.parts, entry.stalled, entry.fused) = (1, !durable, true);
                self.fused.pairs.insert(second.park(), (first.park(), compared));
            }
        }
    }

    fn begin_compare<S: Contents>(
        &mut self,
        first: &Token,
        id: ControllerId,
        blocks: &Blocks,
        cx: &mut Cx<'_, S>,
    ) -> Result<(), Failure> {
        self.check_reservation_of(first, id)?;
        let place = self.place(first, id, blocks, Kind::Compare)?;
        self.check_size(&place)?;
        self.check_unit(&place)?;
        if place.treated {
            self.treat(first, id, blocks, Action::Compare, cx)?;
        }
        Ok(())
    }

    fn check_reservation_of(&mut self, token: &Token, id: ControllerId) -> Result<(), Failure> {
        let entry = self.flight.get_mut(token);
        let (opcode, nsid) = (entry.opcode, entry.nsid);
        self.check_reservation(id, opcode, nsid)
    }

    fn begin_write<S: Contents>(
        &mut self,
        second: &Token,
        id: ControllerId,
        blocks: &Blocks,
        cx: &mut Cx<'_, S>,
    ) -> Result<crate::io::Place, Failure> {
        self.check_reservation_of(second, id)?;
        self.prepare_write(second, id, blocks, cx)
    }

    /// Both commands are within one atomic unit (ACWU, NABSN).
    fn check_unit(&self, place: &crate::io::Place) -> Result<(), Failure> {
        let (unit, extent) = (self.config.atomic_bytes(), place.extent);
        let last = extent.start + u64::from(extent.bytes) - 1;
        if extent.start / unit == last / unit {
            Ok(())
        } else {
            Err(Status::ATOMIC_WRITE_UNIT_EXCEEDED.into())
        }
    }

    /// The translation layer has ended a pair otherwise than well: one of the two has failed.
    fn pair_failed<S: Contents>(&mut self, first: Token, second: Token, fault: Fault, cx: &mut Cx<'_, S>) {
        let blemish = if fault == Fault::Storage { cx.storage.blemish(first.io()) } else { None };
        let failure = match (fault, blemish) {
            (_, Some(blemish)) => self.blemished(&first, blemish),
            (Fault::Mismatch | Fault::Unrecovered, _) => Failure::of_fault(fault, Kind::Compare),
            _ => {
                self.fail(first, other_failed(), cx);
                return self.fail(second, Failure::of_fault(fault, Kind::Write), cx);
            }
        };
        self.fail(first, failure, cx);
        self.fail(second, other_failed(), cx);
    }

    /// The translation layer has ended a pair that had to wait.
    #[cold]
    pub(crate) fn pair_done<S: Contents>(
        &mut self,
        second: Token,
        at: Nanos,
        result: Result<(), Fault>,
        cx: &mut Cx<'_, S>,
    ) {
        let Some((first, _)) = self.part(&second) else { return self.fail(second, other_missing(), cx) };
        match result {
            Ok(()) => {
                self.schedule(first, at, cx);
                self.schedule(second, at, cx);
            }
            Err(fault) => self.pair_failed(first, second, fault, cx),
        }
    }

    /// The second command of a pair ends without having been executed: the first ends before it.
    #[cold]
    pub(crate) fn abandon_first<S: Contents>(&mut self, second: &Token, cx: &mut Cx<'_, S>) {
        if let Some((first, _)) = self.part(second) {
            self.note_failure(&first, other_failed());
            self.complete(first, cx);
        }
    }

    /// Gives first commands back that wait for their second, as [`return_held`](Drive::return_held) does what waits for its turn.
    pub(crate) fn return_firsts(
        &mut self,
        now: Nanos,
        status: impl Fn(&Controllers, u32, &InFlight) -> Option<Status>,
    ) -> bool {
        let mut any = false;
        for first in self.fused.firsts.values_mut() {
            let Some(token) = first.and_then(|(io, _)| self.flight.unpark(io)) else { continue };
            let entry = self.flight.get_mut(&token);
            let Some(status) = status(&self.controllers, token.io().0, entry) else {
                token.park();
                continue;
            };
            (entry.status, entry.at) = (status, now);
            self.events.push(now, Event::End(token.park()));
            *first = None;
            any = true;
        }
        any
    }
}

/// The byte of the commands where they are not about the same blocks.
fn differs(first: &Blocks, second: &Blocks) -> Option<u16> {
    match () {
        () if first.nsid != second.nsid => Some(4),
        () if first.slba != second.slba => Some(40),
        () if first.nlb != second.nlb => Some(48),
        () => None,
    }
}
