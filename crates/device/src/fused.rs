//! Fused operations (Base 3.4.2; NVM 2.1.4): Compare and Write, two commands that follow each other in a queue and are executed as one.
//!
//! The first command waits for the second, which is the next one of its queue; if that is another one, or none will come
//! ([`Drive::end_fused`]), the first is aborted. From then on the two are one command: the second waits for its turn for both, and the
//! translation layer compares what it is about to replace ([`ftl::Ftl::compare_and_write`]). If one of them fails, the other is aborted,
//! except that a comparison that was good stays good.

use crate::contents::Contents;
use crate::core::{CommandKind, ControllerId, Cx, FIRST, Failure, SECOND, Token, Turn, other_failed};
use crate::drive::Drive;
use crate::treatment::Action;
use ftl::{Answer, Fault};
use media::Nanos;
use nvme::io::Blocks;
use nvme::{Command, IoCommand, Status};

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
        let now = self.core.tick(now);
        let mut cx = Cx { now, storage, out };
        self.give_up_first(id, qid, &mut cx);
        self.pump(&mut cx);
    }

    fn give_up_first<S: Contents>(&mut self, id: ControllerId, qid: u16, cx: &mut Cx<'_, S>) {
        let first = self.core.fused.firsts.remove(&(id.0, qid)).flatten();
        if let Some(token) = first.and_then(|(io, _)| self.core.commands.unpark(io)) {
            self.core.fail(token, other_missing(), cx);
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
        let qid = self.core.commands.get_mut(&token).qid;
        let parsed = admitted.and_then(|()| IoCommand::parse(command).map_err(Failure::from));
        if command.flags.fuse() == FIRST {
            match parsed {
                Ok(IoCommand::Compare(blocks)) => {
                    self.core.fused.firsts.insert((id.0, qid), Some((token.park(), blocks)));
                }
                other => {
                    self.core.fused.firsts.insert((id.0, qid), None);
                    // The only fused operation is Compare and Write.
                    self.core.fail(token, other.err().unwrap_or(Failure::field(1)), cx);
                }
            }
            return;
        }
        let Some(first) = self.core.fused.firsts.remove(&(id.0, qid)) else {
            let failure = parsed.err().unwrap_or_else(other_missing);
            return self.core.fail(token, failure, cx);
        };
        let first = first.and_then(|(io, compared)| Some((self.core.commands.unpark(io)?, compared)));
        let blocks = match parsed {
            Ok(IoCommand::Write(blocks)) => Ok(blocks),
            Ok(_) => Err(Failure::field(1)),
            Err(failure) => Err(failure),
        };
        match (first, blocks) {
            (None, Ok(_)) => self.core.fail(token, other_failed(), cx),
            (None, Err(failure)) => self.core.fail(token, failure, cx),
            (Some((first, _)), Err(failure)) => {
                self.core.fail(first, other_failed(), cx);
                self.core.fail(token, failure, cx);
            }
            (Some((first, compared)), Ok(blocks)) => match differs(&compared, &blocks) {
                Some(byte) => {
                    self.core.fail(first, Failure::field(byte), cx);
                    self.core.fail(token, Failure::field(byte), cx);
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
        self.core.commands.get_mut(&second).fused = true;
        self.core.fused.pairs.insert(second.io().0, (first.park(), compared));
        // The quota counts what is written.
        match self.core.arbitrate(&second, id, &IoCommand::Write(blocks), &[], cx.now) {
            Turn::Now => self.execute_pair(second, &blocks, cx),
            Turn::Held => {
                second.park();
            }
        }
    }

    /// Executes both commands of a pair, whose turn has come.
    #[cold]
    pub(crate) fn execute_pair<S: Contents>(&mut self, second: Token, blocks: &Blocks, cx: &mut Cx<'_, S>) {
        let Some((first, compared)) = self.core.part(&second) else {
            return self.core.fail(second, other_missing(), cx);
        };
        let entry = self.core.commands.get_mut(&second);
        let id = ControllerId(entry.controller);
        if !entry.status.is_success() {
            // It was preempted.
            self.core.fail(first, other_failed(), cx);
            return self.core.schedule(second, cx.now, cx);
        }
        if let Err(failure) = self.begin_compare(&first, id, &compared, cx) {
            self.core.fail(first, failure, cx);
            return self.core.fail(second, other_failed(), cx);
        }
        let place = match self.begin_write(&second, id, blocks, cx) {
            Ok(place) => place,
            Err(failure) => {
                self.core.fail(first, other_failed(), cx);
                return self.core.fail(second, failure, cx);
            }
        };
        self.core.enter(&first);
        self.core.enter(&second);
        let durable = self.must_be_durable(id, blocks.fua);
        self.core.commands.get_mut(&second).sync |= durable;
        let answer = self.core.ftl.compare_and_write(
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
                self.core.schedule(first, at, cx);
                self.core.schedule(second, at, cx);
            }
            Answer::Failed(fault) => self.pair_failed(first, second, fault, cx),
            Answer::Later => {
                let entry = self.core.commands.get_mut(&second);
                (entry.parts, entry.stalled, entry.fused) = (1, !durable, true);
                self.core.fused.pairs.insert(second.park(), (first.park(), compared));
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
        let place = self.place(first, id, blocks, CommandKind::Compare)?;
        self.check_size(&place)?;
        self.check_unit(&place)?;
        if place.treated {
            self.treat(first, id, blocks, Action::Compare, cx)?;
        }
        Ok(())
    }

    fn check_reservation_of(&mut self, token: &Token, id: ControllerId) -> Result<(), Failure> {
        let entry = self.core.commands.get_mut(token);
        let (opcode, nsid) = (entry.opcode, entry.nsid);
        self.core.check_reservation(id, opcode, nsid)
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
        let (unit, extent) = (self.core.config.atomic_bytes(), place.extent);
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
            (Fault::Mismatch | Fault::Unrecovered, _) => Failure::of_fault(fault, CommandKind::Compare),
            _ => {
                self.core.fail(first, other_failed(), cx);
                return self.core.fail(second, Failure::of_fault(fault, CommandKind::Write), cx);
            }
        };
        self.core.fail(first, failure, cx);
        self.core.fail(second, other_failed(), cx);
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
        let Some((first, _)) = self.core.part(&second) else {
            return self.core.fail(second, other_missing(), cx);
        };
        match result {
            Ok(()) => {
                self.core.schedule(first, at, cx);
                self.core.schedule(second, at, cx);
            }
            Err(fault) => self.pair_failed(first, second, fault, cx),
        }
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
