//! Commands of the admin queue that are about other commands: Abort and Asynchronous Event Request (Base 5.1.1, 5.1.2).

use crate::contents::Contents;
use crate::core::{AdminResult, CommandKind, ControllerId, Core, Cx, Failure, Reply, Token};
use nvme::Status;
use nvme::admin::Abort;
use nvme::command::AdminOpcode;
use nvme::command_table::{self, Requirement};

/// Whether the drive has an admin command: all but those of queues in the host's memory.
pub(crate) fn has(opcode: u8) -> bool {
    let info = command_table::of_admin(AdminOpcode(opcode));
    info.is_some_and(|info| info.requires != Requirement::MemoryQueues)
}

/// Abort commands that may be outstanding at once, zero-based (ACL).
pub(crate) const ABORT_LIMIT_Z: u8 = 3;

/// An Asynchronous Event Request: it waits for its event, or tells one that is pending.
pub(crate) fn async_event_request<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    cx: &mut Cx<'_, S>,
) -> AdminResult {
    let io = token.io().0;
    let request = core.controller_mut(id)?.events.request(io).map_err(|_| Status::AER_LIMIT_EXCEEDED)?;
    let entry = core.commands.get_mut(token);
    entry.kind = CommandKind::Event;
    if let Some(answered) = request {
        // Something was pending: this request tells it.
        core.answer_event(answered, cx);
    }
    Ok(Reply::Parked)
}

/// Abort is best effort. Commands that wait for events, for idle namespaces or for their turn are aborted. Others are being executed, and
/// end by themselves. An Abort takes the controller's own time, so several can be outstanding.
pub(crate) fn abort<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    c: Abort,
    cx: &mut Cx<'_, S>,
) -> AdminResult {
    if !core.controller(id)?.has_queue(c.sqid) {
        return Err(Failure::field(40));
    }
    // The one that is being executed counts, too.
    if core.commands.count_of(id.0, AdminOpcode::ABORT.0) > usize::from(ABORT_LIMIT_Z) + 1 {
        return Err(Failure::transient(Status::ABORT_LIMIT_EXCEEDED));
    }
    let Some(io) = core.commands.find(id.0, c.sqid, c.cid).filter(|io| *io != token.io().0) else {
        return Ok(Reply::Done(1));
    };
    let waited = core.waiting.len();
    core.waiting.retain(|w| w.io != io);
    let waited = waited != core.waiting.len();
    if waited {
        // Those that others wait for are closed again when these are tried again, which is at once.
        core.reopen();
    }
    let status = Status::ABORT_REQUESTED.with_dnr();
    if core.return_held(cx.now, |_, held, _| (held == io).then_some(status)) {
        return Ok(Reply::Done(0));
    }
    if !waited && !core.controller_mut(id)?.events.abort(io) {
        return Ok(Reply::Done(1));
    }
    core.return_parked(io, status, cx);
    Ok(Reply::Done(0))
}
