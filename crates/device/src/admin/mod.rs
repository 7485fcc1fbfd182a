//! Commands of the admin queue (Base 5).

mod attach;
mod format;
mod identify;
mod lba_status;
mod log;
mod namespace;
mod vendor;

use crate::contents::Contents;
use crate::controller::ControllerId;
use crate::drive::{Cx, Drive, Failure, Outcome, Reply, Waiting};
use crate::flight::{Kind, Token};
use crate::output::Output;
use media::Nanos;
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
                return self.fail(token, Failure { location, ..status.into() }, cx);
            }
        };
        if let AdminCommand::Fabrics(command) = command {
            return self.fabrics(token, id, command, cx);
        }
        let outcome = self.execute_admin(&token, id, command, data, cx);
        if outcome.is_ok() && self.power.cut.is_some_and(|cut| cut.at_once) {
            // The completion goes out first, so that the host knows that the command was accepted.
            self.complete(token, cx);
            self.start_cut(cx);
        } else {
            self.reply(token, outcome, cx);
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
            let entry = self.flight.get_mut(token);
            (entry.opcode, entry.nsid)
        };
        self.check_role(id, AdminOpcode(opcode), &command)?;
        self.check_admin_reservation(id, opcode, nsid)?;
        // Those that touch what is on a namespace. (A command that waits is not asked again.)
        let deletes = |c: &NamespaceManagement| c.sel == NamespaceManagementSelect::DELETE;
        if matches!(&command, AdminCommand::FormatNvm(_))
            || matches!(&command, AdminCommand::NamespaceManagement(c) if deletes(c))
        {
            self.check_access(id)?;
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
            AdminCommand::DirectiveSend(c) => self.directive_send(id, c),
            AdminCommand::DirectiveReceive(c) => self.directive_receive(id, c),
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
        let admin = self.flight.get_mut(&token).qid == 0;
        let outcome = match command {
            FabricsCommand::PropertyGet { offset, wide } if admin => {
                self.property_get(id, offset, wide).map(Reply::Wide).map_err(Failure::from)
            }
            FabricsCommand::PropertySet { offset, wide, value } if admin => {
                self.set_property(id, offset, wide, value, cx).map(|()| Reply::Done(0)).map_err(Failure::from)
            }
            _ => Err(Failure { location: 4, ..Status::INVALID_OPCODE.into() }),
        };
        self.reply(token, outcome, cx);
    }

    fn async_event_request<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        let io = token.io().0;
        let request = self.controller_mut(id)?.events.request(io).map_err(|_| Status::AER_LIMIT_EXCEEDED)?;
        let entry = self.flight.get_mut(token);
        entry.kind = Kind::Event;
        if let Some(answered) = request {
            // Something was pending: this request tells it.
            self.answer_event(answered, cx);
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
        if !self.controller(id)?.has_queue(c.sqid) {
            return Err(Failure::field(40));
        }
        // The one that is being executed counts, too.
        if self.flight.count_of(id.0, AdminOpcode::ABORT.0) > usize::from(ABORT_LIMIT_Z) + 1 {
            return Err(Failure::transient(Status::ABORT_LIMIT_EXCEEDED));
        }
        let Some(io) = self.flight.find(id.0, c.sqid, c.cid).filter(|io| *io != token.io().0) else {
            return Ok(Reply::Done(1));
        };
        let waited = self.waiting.len();
        self.waiting.retain(|w| w.io != io);
        let waited = waited != self.waiting.len();
        if waited {
            // Those that others wait for are closed again when these are tried again, which is at once.
            self.reopen();
        }
        let status = Status::ABORT_REQUESTED.with_dnr();
        if self.return_held(cx.now, |_, held, _| (held == io).then_some(status)) {
            return Ok(Reply::Done(0));
        }
        if !waited && !self.controller_mut(id)?.events.abort(io) {
            return Ok(Reply::Done(1));
        }
        self.return_parked(io, status, cx);
        Ok(Reply::Done(0))
    }

    /// Leaves a command until the namespaces that it is about are idle.
    fn wait_for_idle(&mut self, token: &Token, id: ControllerId, command: AdminCommand) -> Outcome {
        self.waiting.push(Waiting { io: token.io().0, controller: id, command });
        Ok(Reply::Parked)
    }

    /// Tries the commands again that wait for namespaces to be idle.
    pub(crate) fn retry_waiting<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        // Those that they still wait for are closed again.
        self.reopen();
        for Waiting { io, controller, command } in std::mem::take(&mut self.waiting) {
            let Some(token) = self.flight.unpark(io) else { continue };
            let outcome = match command {
                AdminCommand::NamespaceManagement(c) => {
                    self.namespace_management(&token, controller, c, &[], cx)
                }
                AdminCommand::FormatNvm(c) => self.format(&token, controller, c, cx),
                _ => Err(Failure::transient(Status::INTERNAL_ERROR)),
            };
            self.reply(token, outcome, cx);
        }
    }

    /// Nobody waits any more until namespaces are idle.
    pub(crate) fn reopen(&mut self) {
        self.namespaces.iter_mut().for_each(|(_, ns)| ns.closing = false);
    }

    /// Whether the namespaces that are to be changed are idle; those that are not take no more commands until
    /// they are, and what is held for any of them comes back: its turn might be long in coming.
    fn claim(&mut self, nsids: &[u32], now: Nanos) -> bool {
        self.return_held_of(now, nsids);
        let mut idle = true;
        for &nsid in nsids {
            if let Some(ns) = self.namespaces.get_mut(nsid)
                && ns.in_flight > 0
            {
                ns.closing = true;
                idle = false;
            }
        }
        idle
    }

    /// Tells controllers that a namespace of theirs was changed.
    pub(crate) fn namespace_changed<S: Contents>(
        &mut self,
        nsid: u32,
        who: &[ControllerId],
        cx: &mut Cx<'_, S>,
    ) {
        for &id in who {
            let Some(controller) = self.controllers.get_mut(id) else { continue };
            controller.changed.insert(nsid);
            let configuration = controller.values.events();
            let answered = controller.events.raise(crate::aer::Event::Namespaces, configuration);
            if let Some(answered) = answered {
                self.answer_event(answered, cx);
            }
        }
    }

    /// Controllers that have a namespace attached.
    pub(crate) fn attached_controllers(&self, nsid: u32) -> Vec<ControllerId> {
        self.controllers.iter().filter(|(_, c)| c.is_attached(nsid)).map(|(id, _)| id).collect()
    }

    /// Drops a controller: it is removed, and its waiting event requests come back.
    pub(crate) fn drop_controller<S: Contents>(
        &mut self,
        id: ControllerId,
        status: Status,
        cx: &mut Cx<'_, S>,
    ) -> bool {
        let Some(mut controller) = self.controllers.remove(id) else { return false };
        for io in controller.events.reset() {
            self.return_parked(io, status, cx);
        }
        self.return_held(cx.now, |_, _, held| (held.controller == id.0).then_some(status));
        self.fused.forget(id, None);
        self.flight.orphan(id.0);
        true
    }

    /// Drops a controller on the drive's own account; the owner is told.
    pub(crate) fn expel<S: Contents>(&mut self, id: ControllerId, status: Status, cx: &mut Cx<'_, S>) {
        if self.drop_controller(id, status, cx) {
            cx.out.push(Output::Disconnect { controller: id });
        }
    }
}
