//! Fused operations (Base 3.4.2; NVM 2.1.4): Compare and Write, two commands that follow each other in a queue and are executed as one.
//!
//! The first command waits for the second, which is the next one of its queue; if that is another one, or none will come
//! ([`Drive::end_fused`]), the first is aborted. From then on the two are one command: the second waits for its turn for both, and the
//! translation layer compares what it is about to replace ([`ftl::Write::compare`]). If one of them fails, the other is aborted,
//! except that a comparison that was good stays good.

use super::locate::{self, BlockLocation};
use super::{commands, transform};
use crate::block_transform::BlockAction;
use crate::contents::Contents;
use crate::core::{
    CommandKind, ControllerId, Core, Cx, FIRST, Failure, SECOND, StartDecision, Token, other_failed,
};
use ftl::{Answer, Fault, Source, Write};
use media::Nanos;
use nvme::io::Blocks;
use nvme::{Command, IoCommand, Status};

/// Aborted, for there is no other one.
fn other_missing() -> Failure {
    Failure { location: 1, ..Status::ABORTED_MISSING_FUSED.into() }
}

/// A fused operation under way.
pub(crate) struct FusedPair {
    first: Token,
    compared: Blocks,
    second: Token,
    id: ControllerId,
    location: BlockLocation,
}

impl FusedPair {
    /// The controller that both commands came to.
    pub fn controller(&self) -> ControllerId {
        self.id
    }

    /// A directive has chosen a placement handle.
    pub fn place_at(&mut self, handle: u8) {
        self.location.handle = handle;
    }
}

/// A command of a fused operation has come. `admitted` is whether it may be executed at all. Returns the second of a pair whose turn is
/// now, with its blocks.
#[cold]
pub(crate) fn submit<S: Contents>(
    core: &mut Core,
    token: Token,
    id: ControllerId,
    command: &Command,
    admitted: Result<(), Failure>,
    cx: &mut Cx<'_, S>,
) -> Option<(Token, Blocks)> {
    let qid = core.commands.get_mut(&token).qid;
    let parsed = admitted.and_then(|()| {
        IoCommand::parse_of(command, core.namespaces.csi(command.nsid.get())).map_err(Failure::from)
    });
    if command.flags.fuse() == FIRST {
        match parsed {
            Ok(IoCommand::Compare(blocks)) => {
                core.fused.firsts.insert((id.0, qid), Some((token.park(), blocks)));
            }
            other => {
                core.fused.firsts.insert((id.0, qid), None);
                // The only fused operation is Compare and Write.
                core.fail(token, other.err().unwrap_or(Failure::field(1)), cx);
            }
        }
        return None;
    }
    let Some(first) = core.fused.firsts.remove(&(id.0, qid)) else {
        let failure = parsed.err().unwrap_or_else(other_missing);
        core.fail(token, failure, cx);
        return None;
    };
    let first = first.and_then(|(io, compared)| Some((core.commands.unpark(io)?, compared)));
    let blocks = match parsed {
        Ok(IoCommand::Write(blocks)) => Ok(blocks),
        Ok(_) => Err(Failure::field(1)),
        Err(failure) => Err(failure),
    };
    match (first, blocks) {
        (None, Ok(_)) => core.fail(token, other_failed(), cx),
        (None, Err(failure)) => core.fail(token, failure, cx),
        (Some((first, _)), Err(failure)) => {
            core.fail(first, other_failed(), cx);
            core.fail(token, failure, cx);
        }
        (Some((first, compared)), Ok(blocks)) => {
            if let Some(byte) = differs(&compared, &blocks) {
                core.fail(first, Failure::field(byte), cx);
                core.fail(token, Failure::field(byte), cx);
                return None;
            }
            core.commands.get_mut(&token).fused = true;
            core.fused.pairs.insert(token.io().0, (first.park(), compared));
            // The quota counts what is written.
            match core.arbitrate(&token, id, &IoCommand::Write(blocks), &[], cx.now) {
                StartDecision::Now => return Some((token, blocks)),
                StartDecision::Held => {
                    token.park();
                }
            }
        }
    }
    None
}

/// The turn of a pair has come: checks both commands, and begins the comparison. `None` if they have failed.
pub(crate) fn begin<S: Contents>(
    core: &mut Core,
    second: Token,
    blocks: &Blocks,
    cx: &mut Cx<'_, S>,
) -> Option<FusedPair> {
    let Some((first, compared)) = core.part(&second) else {
        core.fail(second, other_missing(), cx);
        return None;
    };
    let entry = core.commands.get_mut(&second);
    let id = ControllerId(entry.controller);
    if !entry.status.is_success() {
        // It was preempted.
        core.fail(first, other_failed(), cx);
        core.schedule(second, cx.now, cx);
        return None;
    }
    if let Err(failure) = begin_compare(core, &first, id, &compared, cx) {
        core.fail(first, failure, cx);
        core.fail(second, other_failed(), cx);
        return None;
    }
    let located = check_reservation_of(core, &second, id)
        .and_then(|()| commands::locate_write(core, &second, id, blocks, Source::Host));
    match located {
        Ok(location) => Some(FusedPair { first, compared, second, id, location }),
        Err(failure) => {
            core.fail(first, other_failed(), cx);
            core.fail(second, failure, cx);
            None
        }
    }
}

/// The second command of a pair cannot be executed.
pub(crate) fn refuse<S: Contents>(core: &mut Core, pair: FusedPair, failure: Failure, cx: &mut Cx<'_, S>) {
    core.fail(pair.first, other_failed(), cx);
    core.fail(pair.second, failure, cx);
}

/// Executes both commands of a pair.
pub(crate) fn execute<S: Contents>(core: &mut Core, pair: FusedPair, blocks: &Blocks, cx: &mut Cx<'_, S>) {
    if pair.location.transformed
        && let Err(failure) = transform::begin(core, &pair.second, pair.id, blocks, BlockAction::Write, cx)
    {
        return refuse(core, pair, failure, cx);
    }
    let FusedPair { first, compared, second, id, location } = pair;
    core.enter(&first);
    core.enter(&second);
    let durable = locate::must_be_durable(core, id, blocks.fua);
    core.commands.get_mut(&second).sync |= durable;
    let write = location.write(second.io(), Source::Host, durable);
    match core.ftl.write(cx.now, Write { compare: Some(first.io()), ..write }, cx.storage) {
        Answer::At(at) => {
            core.schedule(first, at, cx);
            core.schedule(second, at, cx);
        }
        Answer::Failed(fault) => pair_failed(core, first, second, fault, cx),
        Answer::Later => {
            let entry = core.commands.get_mut(&second);
            (entry.parts, entry.stalled, entry.fused) = (1, !durable, true);
            core.fused.pairs.insert(second.park(), (first.park(), compared));
        }
    }
}

/// A command comes in a queue where another may wait for its second: if this is not it, that one is aborted.
#[cold]
pub(crate) fn separate<S: Contents>(
    core: &mut Core,
    id: ControllerId,
    qid: u16,
    command: &Command,
    cx: &mut Cx<'_, S>,
) {
    if command.flags.fuse() != SECOND {
        give_up_first(core, id, qid, cx);
    }
}

/// The first command that waits in a queue, if any does, is aborted: no second will follow it.
pub(crate) fn give_up_first<S: Contents>(core: &mut Core, id: ControllerId, qid: u16, cx: &mut Cx<'_, S>) {
    let first = core.fused.firsts.remove(&(id.0, qid)).flatten();
    if let Some(token) = first.and_then(|(io, _)| core.commands.unpark(io)) {
        core.fail(token, other_missing(), cx);
    }
}

fn begin_compare<S: Contents>(
    core: &mut Core,
    first: &Token,
    id: ControllerId,
    blocks: &Blocks,
    cx: &mut Cx<'_, S>,
) -> Result<(), Failure> {
    check_reservation_of(core, first, id)?;
    let location = locate::locate(core, first, id, blocks, CommandKind::Compare)?;
    locate::check_size(core, &location)?;
    check_unit(core, &location)?;
    if location.transformed {
        transform::begin(core, first, id, blocks, BlockAction::Compare, cx)?;
    }
    Ok(())
}

fn check_reservation_of(core: &mut Core, token: &Token, id: ControllerId) -> Result<(), Failure> {
    let entry = core.commands.get_mut(token);
    let (opcode, nsid) = (entry.opcode, entry.nsid);
    core.check_reservation(id, opcode, nsid)
}

/// Both commands are within one atomic unit (ACWU, NABSN).
fn check_unit(core: &Core, location: &BlockLocation) -> Result<(), Failure> {
    let (unit, extent) = (core.config.atomic_bytes(), location.extent);
    let last = extent.start + u64::from(extent.bytes) - 1;
    if extent.start / unit == last / unit { Ok(()) } else { Err(Status::ATOMIC_WRITE_UNIT_EXCEEDED.into()) }
}

/// The translation layer has ended a pair otherwise than well: one of the two has failed.
fn pair_failed<S: Contents>(core: &mut Core, first: Token, second: Token, fault: Fault, cx: &mut Cx<'_, S>) {
    let block_error = if fault == Fault::Storage { cx.storage.block_error(first.io()) } else { None };
    let failure = match (fault, block_error) {
        (_, Some(block_error)) => transform::failure(core, &first, block_error),
        (Fault::Mismatch | Fault::Unrecovered, _) => Failure::of_fault(fault, CommandKind::Compare),
        _ => {
            core.fail(first, other_failed(), cx);
            return core.fail(second, Failure::of_fault(fault, CommandKind::Write), cx);
        }
    };
    core.fail(first, failure, cx);
    core.fail(second, other_failed(), cx);
}

/// The translation layer has ended a pair that had to wait.
#[cold]
pub(crate) fn pair_done<S: Contents>(
    core: &mut Core,
    second: Token,
    at: Nanos,
    result: Result<(), Fault>,
    cx: &mut Cx<'_, S>,
) {
    let Some((first, _)) = core.part(&second) else {
        return core.fail(second, other_missing(), cx);
    };
    match result {
        Ok(()) => {
            core.schedule(first, at, cx);
            core.schedule(second, at, cx);
        }
        Err(fault) => pair_failed(core, first, second, fault, cx),
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
