//! Commands of the admin queue (Base 5).

mod attach;
mod format;
mod identify;
mod lba_status;
mod log;
mod namespace;
mod vendor;

use crate::contents::Contents;
use crate::core::{CommandKind, ControllerId, Cx, Failure, Outcome, Reply, Token, Waiting};
use crate::drive::Drive;
use crate::streams;
use nvme::admin::{Abort, AdminCommand, NamespaceManagement, NamespaceManagementSelect};
use nvme::command::AdminOpcode;
use nvme::command_table::{self, Requirement};
use nvme::fabrics::FabricsCommand;
use nvme::{Command, Status};

/// Whether the drive has an admin command: all but those of queues in the host's memory.
pub(crate) fn has(opcode: u8) -> bool {
    let info = command_table::of_admin(AdminOpcode(opcode));
    info.is_some_and(|info| info.requires != Requirement::MemoryQueues)
}

/// Abort commands that may be outstanding at once, zero-based (ACL).
pub(crate) const ABORT_LIMIT_Z: u8 = 3;

impl Drive {
    /// Executes a command of an admin queue.
    pub(crate) fn submit_admin<S: Contents>(
        &mut self,
        token: Token,
        id: ControllerId,
        command: &Command,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) {
        // Before anything of a command that the drive does not have is looked at.
        let parsed =
            if has(command.opc) { AdminCommand::parse(command) } else { Err(Status::INVALID_OPCODE) };
        let command = match parsed {
            Ok(command) => command,
            Err(status) => {
                // The parser refuses an opcode, or a field whose values it knows.
                let location = if status.is(Status::INVALID_OPCODE) { 0 } else { 40 };
                return self.core.fail(token, Failure { location, ..status.into() }, cx);
            }
        };
        if let AdminCommand::Fabrics(command) = command {
            return self.fabrics(token, id, command, cx);
        }
        let outcome = self.execute_admin(&token, id, command, data, cx);
        if outcome.is_ok() && self.cut.is_some_and(|cut| cut.at_once) {
            // The completion goes out first, so that the host knows that the command was accepted.
            self.core.complete(token, cx);
            self.start_cut(cx);
        } else {
            self.core.reply(token, outcome, cx);
        }
    }

    fn execute_admin<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        command: AdminCommand,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        let (opcode, nsid) = {
            let entry = self.core.commands.get_mut(token);
            (entry.opcode, entry.nsid)
        };
        self.core.check_role(id, AdminOpcode(opcode), &command)?;
        self.core.check_admin_reservation(id, opcode, nsid)?;
        // Those that touch what is on a namespace. (A command that waits is not asked again.)
        let deletes = |c: &NamespaceManagement| c.sel == NamespaceManagementSelect::DELETE;
        if matches!(&command, AdminCommand::FormatNvm(_))
            || matches!(&command, AdminCommand::NamespaceManagement(c) if deletes(c))
        {
            self.core.check_access(id)?;
        }
        match command {
            AdminCommand::Identify(c) => self.identify(id, c),
            AdminCommand::GetLogPage(c) => self.get_log_page(id, c, cx),
            AdminCommand::SetFeatures(c) => self.set_features(id, c, data, cx),
            AdminCommand::GetFeatures(c) => self.get_features(id, c, cx.now),
            AdminCommand::AsyncEventRequest => self.async_event_request(token, id, cx),
            AdminCommand::Abort(c) => self.abort(token, id, c, cx),
            AdminCommand::KeepAlive => Ok(Reply::Done(0)),
            AdminCommand::NamespaceManagement(c) => self.namespace_management(token, id, c, data, cx),
            AdminCommand::FirmwareCommit(c) => self.commit_firmware(id, c, cx),
            AdminCommand::FirmwareImageDownload(c) => self.download_firmware(id, c, data),
            AdminCommand::DeviceSelfTest(c) => self.device_self_test(id, c, cx),
            AdminCommand::NamespaceAttachment(c) => self.namespace_attachment(c, data, cx),
            AdminCommand::DirectiveSend(c) => streams::directive_send(&mut self.core, id, c),
            AdminCommand::DirectiveReceive(c) => streams::directive_receive(&mut self.core, id, c),
            AdminCommand::FormatNvm(c) => self.format(token, id, c, cx),
            AdminCommand::Sanitize(c) => self.sanitize(token, id, c, cx),
            AdminCommand::GetLbaStatus(c) => self.get_lba_status(id, c, cx),
            AdminCommand::PowerCut(c) => self.power_cut_command(id, c),
            AdminCommand::FaultInjection(c) => self.fault_injection(id, c, cx),
            AdminCommand::DeleteIoSq(_)
            | AdminCommand::CreateIoSq(_)
            | AdminCommand::DeleteIoCq(_)
            | AdminCommand::CreateIoCq(_)
            | AdminCommand::Fabrics(_) => Err(Failure { location: 0, ..Status::INVALID_OPCODE.into() }),
        }
    }

    /// Fabrics commands that came all the way here: properties. Connect, authentication and Disconnect are
    /// the transport's.
    pub(crate) fn fabrics<S: Contents>(
        &mut self,
        token: Token,
        id: ControllerId,
        command: FabricsCommand,
        cx: &mut Cx<'_, S>,
    ) {
        let admin = self.core.commands.get_mut(&token).qid == 0;
        let outcome = match command {
            FabricsCommand::PropertyGet { offset, wide } if admin => {
                self.property_get(id, offset, wide).map(Reply::Wide).map_err(Failure::from)
            }
            FabricsCommand::PropertySet { offset, wide, value } if admin => {
                self.set_property(id, offset, wide, value, cx).map(|()| Reply::Done(0)).map_err(Failure::from)
            }
            _ => Err(Failure { location: 4, ..Status::INVALID_OPCODE.into() }),
        };
        self.core.reply(token, outcome, cx);
    }

    fn async_event_request<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        let io = token.io().0;
        let request =
            self.core.controller_mut(id)?.events.request(io).map_err(|_| Status::AER_LIMIT_EXCEEDED)?;
        let entry = self.core.commands.get_mut(token);
        entry.kind = CommandKind::Event;
        if let Some(answered) = request {
            // Something was pending: this request tells it.
            self.core.answer_event(answered, cx);
        }
        Ok(Reply::Parked)
    }

    /// Abort is best effort: what waits, for events, for idle namespaces or for its turn, is aborted; everything else is being executed and ends by itself. An Abort takes the controller's own time, so several can be
    /// outstanding.
    fn abort<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        c: Abort,
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        if !self.core.controller(id)?.has_queue(c.sqid) {
            return Err(Failure::field(40));
        }
        // The one that is being executed counts, too.
        if self.core.commands.count_of(id.0, AdminOpcode::ABORT.0) > usize::from(ABORT_LIMIT_Z) + 1 {
            return Err(Failure::transient(Status::ABORT_LIMIT_EXCEEDED));
        }
        let Some(io) = self.core.commands.find(id.0, c.sqid, c.cid).filter(|io| *io != token.io().0) else {
            return Ok(Reply::Done(1));
        };
        let waited = self.core.waiting.len();
        self.core.waiting.retain(|w| w.io != io);
        let waited = waited != self.core.waiting.len();
        if waited {
            // Those that others wait for are closed again when these are tried again, which is at once.
            self.core.reopen();
        }
        let status = Status::ABORT_REQUESTED.with_dnr();
        if self.core.return_held(cx.now, |_, held, _| (held == io).then_some(status)) {
            return Ok(Reply::Done(0));
        }
        if !waited && !self.core.controller_mut(id)?.events.abort(io) {
            return Ok(Reply::Done(1));
        }
        self.core.return_parked(io, status, cx);
        Ok(Reply::Done(0))
    }

    /// Tries the commands again that wait for namespaces to be idle.
    pub(crate) fn retry_waiting<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        // Those that they still wait for are closed again.
        self.core.reopen();
        for Waiting { io, controller, command } in std::mem::take(&mut self.core.waiting) {
            let Some(token) = self.core.commands.unpark(io) else { continue };
            let outcome = match command {
                AdminCommand::NamespaceManagement(c) => {
                    self.namespace_management(&token, controller, c, &[], cx)
                }
                AdminCommand::FormatNvm(c) => self.format(&token, controller, c, cx),
                _ => Err(Failure::transient(Status::INTERNAL_ERROR)),
            };
            self.core.reply(token, outcome, cx);
        }
    }
}
