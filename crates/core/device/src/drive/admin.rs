//! Dispatch of commands of admin queues, and of what several components do for one of them.

use super::Drive;
use super::steps::CommandWork;
use crate::contents::Contents;
use crate::core::{
    AdminResult, Admission, ControllerId, Cx, Failure, Output, PortId, Reply, Token, WaitingAdminCommand,
};
use crate::lba_status::Scan;
use crate::namespaces::change::{ChangeCommand, NamespaceChange};
use crate::namespaces::{attachment, format, management};
use crate::{
    admin, fault_injection, fdp, firmware, identify, keys, persistent_event_log, predictable_latency,
    self_test, streams,
};
use drive_config::LbaFormat;
use media::Nanos;
use nvme::admin::{
    AdminCommand, FaultInjection, FaultKind, FormatNvm, Identify, NamespaceManagement,
    NamespaceManagementSelect, SecureErase,
};
use nvme::command::AdminOpcode;
use nvme::fabrics::FabricsCommand;
use nvme::identify::Cns;
use nvme::log::SelfTestOutcome;
use nvme::protocol_fault::{FaultField, ProtocolFault, ProtocolFaultInjection};
use nvme::{Command, Status};
use std::collections::BTreeSet;

impl Drive {
    /// What every controller says of the NVM Command Set, so that a host in virtual time need not ask.
    pub fn nvm_controller() -> nvme::identify::NvmController {
        identify::nvm_controller()
    }

    /// Whether a namespace of the drive has zones, so that a host in virtual time need not ask.
    pub fn has_zones(&self) -> bool {
        self.core.namespaces.iter().any(|(_, namespace)| namespace.zones.is_some())
    }

    /// What a command of the admin queue that only looks would answer now: dword 0 of its completion, and its data. The command is not
    /// executed: it takes no time, no queue and no link, and nothing counts it. Such are Identify, Get Features, and Get Log Page of logs
    /// that the drive keeps ready.
    ///
    /// # Errors
    /// The status with which the command would fail. Invalid Opcode for commands that do more than look.
    pub fn inspect(&self, now: Nanos, id: ControllerId, command: &Command) -> Result<(u32, Vec<u8>), Status> {
        let parsed = AdminCommand::parse(command)?;
        let looked =
            self.core.check_role(id, AdminOpcode(command.opc), &parsed).and_then(|()| match parsed {
                AdminCommand::Identify(c) => identify::answer(&self.core, &self.identify_inputs(), id, c),
                AdminCommand::GetFeatures(c) => self.get_features(id, c, now),
                AdminCommand::GetLogPage(c) => self.inspect_log(id, &c, now),
                _ => Err(Failure { location: 0, ..Status::INVALID_OPCODE.into() }),
            });
        match looked.map_err(|failure| failure.status)? {
            Reply::Done(dw0) => Ok((dw0, Vec::new())),
            Reply::Data(data, dw0) => Ok((dw0, data)),
            Reply::Wide(_) | Reply::Parked => Err(Status::INTERNAL_ERROR),
        }
    }

    /// Executes a command of an admin queue.
    pub(super) fn submit_admin<S: Contents>(
        &mut self,
        token: Token,
        id: ControllerId,
        command: &Command,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) {
        // Before anything of a command that the drive does not have is looked at.
        let parsed =
            if admin::has(command.opc) { AdminCommand::parse(command) } else { Err(Status::INVALID_OPCODE) };
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
            self.cut_if_due(cx);
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
    ) -> AdminResult {
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
            AdminCommand::SetFeatures(c) if self.must_wait(id, &c)? => {
                let work = CommandWork::SetFeatures(c, data.into());
                self.steps.add(&mut self.core, token.io().0, c.nsid, work);
                Ok(Reply::Parked)
            }
            AdminCommand::SetFeatures(c) => self.set_features(id, c, data, cx),
            AdminCommand::GetFeatures(c) => self.get_features(id, c, cx.now),
            AdminCommand::AsyncEventRequest => admin::async_event_request(&mut self.core, token, id, cx),
            AdminCommand::Abort(c) => admin::abort(&mut self.core, token, id, c, cx),
            AdminCommand::KeepAlive => Ok(Reply::Done(0)),
            AdminCommand::NamespaceManagement(c) => self.namespace_management(token, id, c, data, cx),
            AdminCommand::FirmwareCommit(c) => firmware::commit(&mut self.core, id, c, cx),
            AdminCommand::FirmwareImageDownload(c) => firmware::download(&mut self.core, id, c, data),
            AdminCommand::DeviceSelfTest(c) => self_test::execute(&mut self.core, id, c, cx),
            AdminCommand::NamespaceAttachment(c) => attachment::execute(&mut self.core, id, c, data, cx),
            AdminCommand::DirectiveSend(c) => streams::directive_send(&mut self.core, id, c),
            AdminCommand::DirectiveReceive(c) => streams::directive_receive(&mut self.core, id, c),
            AdminCommand::FormatNvm(c) => self.format(token, id, c, cx),
            AdminCommand::Sanitize(c) => self.sanitize(token, id, c, cx),
            AdminCommand::GetLbaStatus(c) => {
                let scan = Scan::begin(&self.core, id, c)?;
                self.steps.add(&mut self.core, token.io().0, c.nsid, CommandWork::Scan(scan));
                Ok(Reply::Parked)
            }
            AdminCommand::PowerCut(c) => {
                self.cut = Some(fault_injection::plan_cut(&mut self.core, id, &c)?);
                persistent_event_log::vendor_command(&mut self.core, cx, id, c.into());
                Ok(Reply::Done(0))
            }
            AdminCommand::FaultInjection(c) => self.inject_fault(id, c, cx),
            AdminCommand::ProtocolFault(c) => self.inject_protocol_fault(id, c, data, cx),
            AdminCommand::DeleteIoSq(_)
            | AdminCommand::CreateIoSq(_)
            | AdminCommand::DeleteIoCq(_)
            | AdminCommand::CreateIoCq(_)
            | AdminCommand::Fabrics(_) => Err(Failure { location: 0, ..Status::INVALID_OPCODE.into() }),
        }
    }

    /// A host that has read what a namespace is like now may access it.
    fn identify(&mut self, id: ControllerId, c: Identify) -> AdminResult {
        let answer = identify::answer(&self.core, &self.identify_inputs(), id, c)?;
        if c.cns == Cns::NAMESPACE && self.core.controller(id)?.is_attached(c.nsid) {
            self.core.controllers.known(id, c.nsid);
        }
        Ok(answer)
    }

    /// Fabrics commands that came all the way here: properties. Connect, authentication and Disconnect are
    /// the transport's.
    pub(super) fn fabrics<S: Contents>(
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

    /// Tries the commands again that wait for namespaces to be idle, in order: of those that name the same one, until one still waits.
    #[cold]
    pub(super) fn retry_waiting<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        // Those that they still wait for are closed again.
        self.core.reopen();
        self.core.drained = false;
        let mut behind = BTreeSet::new();
        for waiting in std::mem::take(&mut self.core.waiting) {
            let WaitingAdminCommand { io, controller, command } = waiting;
            let Some(token) = self.core.commands.unpark(io) else { continue };
            let nsid = self.core.commands.get_mut(&token).nsid;
            if behind.contains(&nsid) {
                self.core.waiting.push(waiting);
                token.park();
                continue;
            }
            let waited = self.core.waiting.len();
            let outcome = match command {
                AdminCommand::NamespaceManagement(c) => {
                    self.namespace_management(&token, controller, c, &[], cx)
                }
                AdminCommand::FormatNvm(c) => self.format(&token, controller, c, cx),
                _ => Err(Failure::transient(Status::INTERNAL_ERROR)),
            };
            if self.core.waiting.len() > waited {
                behind.insert(nsid);
            }
            self.core.reply(token, outcome, cx);
        }
    }

    /// What components say of themselves to Identify.
    pub(super) fn identify_inputs(&self) -> identify::IdentifyInputs {
        identify::IdentifyInputs {
            firmware_revision: firmware::revision(&self.core),
            windows: predictable_latency::is_supported(&self.core),
            placement: self.core.has_placement(),
            crypto_erase: keys::can_crypto_erase(&self.core),
            self_test_minutes: self_test::extended_minutes(&self.core),
        }
    }

    /// A namespace was created or is about to be deleted, which the Persistent Event log notes.
    fn note_namespace(&mut self, id: ControllerId, nsid: u32, select: NamespaceManagementSelect, now: Nanos) {
        let Some(ns) = self.core.namespaces.get(nsid) else { return };
        let Ok(controller) = self.core.controller(id) else { return };
        let namespace = identify::namespace(&self.core, ns, controller.transport);
        persistent_event_log::namespace_change(&mut self.core, now, id, nsid, select, &namespace);
    }

    fn namespace_management<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        c: NamespaceManagement,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> AdminResult {
        if c.sel == NamespaceManagementSelect::CREATE {
            return self.create_namespace(id, c, data, cx);
        }
        let targets = management::targets(&self.core, c.nsid)?;
        keys::refuse_locked(&self.core, &targets)?;
        if !self.core.claim(&targets, cx.now) {
            return self.core.wait_for_idle(token, id, AdminCommand::NamespaceManagement(c));
        }
        for nsid in &targets {
            self.note_namespace(id, *nsid, c.sel, cx.now);
            self_test::end_of_namespace(&mut self.core, *nsid, SelfTestOutcome::NAMESPACE_REMOVED, cx);
        }
        self.core.begin_change(&targets, Admission::Deleting);
        Ok(self.change_namespaces(token, NamespaceChange::new(ChangeCommand::Delete, targets)))
    }

    /// What the namespaces of a format or a delete hold is given up, in steps.
    fn change_namespaces(&mut self, token: &Token, change: NamespaceChange) -> Reply {
        let nsid = change.clearing.targets.first().copied().unwrap_or(0);
        self.steps.add(&mut self.core, token.io().0, nsid, CommandWork::Change(change));
        Reply::Parked
    }

    /// Everything that these namespaces held is given up: the format, or the delete, comes to its end.
    pub(super) fn end_change<S: Contents>(
        &mut self,
        token: Token,
        id: ControllerId,
        change: &NamespaceChange,
        given_up: Result<(), Failure>,
        cx: &mut Cx<'_, S>,
    ) {
        let targets = &change.clearing.targets;
        let done = match change.command {
            ChangeCommand::Format(c, format) => {
                let formatted = given_up.and_then(|()| self.end_format(id, targets, &c, format, cx));
                let status = formatted.err().map_or(Status::SUCCESS, |failure: Failure| failure.status);
                persistent_event_log::format_end(&mut self.core, cx.now, id, &c, status);
                let entry = self.core.commands.get_mut(&token);
                // A secure erase must be complete before the host gets its completion.
                entry.forget = c.ses != SecureErase::NONE;
                entry.sync = entry.forget;
                formatted
            }
            ChangeCommand::Delete => given_up.map(|()| {
                let has_key = |nsid: &u32| self.core.namespaces.get(*nsid).is_some_and(|ns| ns.key.is_some());
                let keyed = targets.iter().any(has_key);
                self.end_delete(id, targets, cx);
                // Deleting the key deletes the contents: the key must be gone when the host is told.
                let entry = self.core.commands.get_mut(&token);
                (entry.forget, entry.sync) = (keyed, keyed);
            }),
        };
        self.core.end_change(targets);
        self.core.record(cx.storage);
        self.core.reply(token, done.map(|()| Reply::Done(0)), cx);
    }

    fn end_format<S: Contents>(
        &mut self,
        id: ControllerId,
        targets: &[u32],
        c: &FormatNvm,
        format: LbaFormat,
        cx: &mut Cx<'_, S>,
    ) -> Result<(), Failure> {
        targets.iter().try_for_each(|&nsid| {
            if format::format(&mut self.core, nsid, c, format, cx) {
                keys::renew(&mut self.core, nsid, cx.storage)?;
            }
            self.core.controllers.known(id, nsid);
            let affected = self.core.attached_controllers(nsid);
            self.core.namespace_changed(nsid, &affected, cx);
            Ok(())
        })
    }

    fn end_delete<S: Contents>(&mut self, id: ControllerId, targets: &[u32], cx: &mut Cx<'_, S>) {
        for &nsid in targets {
            if let Some((counts, media)) = management::delete(&mut self.core, nsid, cx) {
                self.deleted.add(&counts, &media);
            }
            self.core.controllers.known(id, nsid);
        }
    }

    fn create_namespace<S: Contents>(
        &mut self,
        id: ControllerId,
        c: NamespaceManagement,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> AdminResult {
        let request = management::check_create(&self.core, id, &c, data)?;
        let handles = fdp::choose_handles(&self.core, request.set, request.new)?;
        let nsid = management::create(&mut self.core, &request, handles, cx)?;
        if let Err(failure) = keys::renew(&mut self.core, nsid, cx.storage) {
            management::undo_create(&mut self.core, nsid, cx);
            return Err(failure);
        }
        self.note_namespace(id, nsid, c.sel, cx.now);
        self.core.count_sharers();
        self.core.record(cx.storage);
        Ok(Reply::Done(nsid))
    }

    fn format<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        c: FormatNvm,
        cx: &mut Cx<'_, S>,
    ) -> AdminResult {
        let format = format::check(&self.core, id, c.lbaf, c.mset, c.pi)?;
        let targets = format::targets(&self.core, id, &c)?;
        keys::refuse_locked(&self.core, &targets)?;
        format::check_targets(&self.core, &targets, &c)?;
        if !self.core.claim(&targets, cx.now) {
            return self.core.wait_for_idle(token, id, AdminCommand::FormatNvm(c));
        }
        let fna = identify::controller(&self.core, &self.identify_inputs(), id).fna;
        persistent_event_log::format_start(&mut self.core, cx.now, id, &c, fna);
        for nsid in &targets {
            self_test::end_of_namespace(&mut self.core, *nsid, SelfTestOutcome::FORMAT, cx);
        }
        self.core.begin_change(&targets, Admission::Formatting);
        Ok(self.change_namespaces(token, NamespaceChange::new(ChangeCommand::Format(c, format), targets)))
    }

    fn inject_fault<S: Contents>(
        &mut self,
        id: ControllerId,
        c: FaultInjection,
        cx: &mut Cx<'_, S>,
    ) -> AdminResult {
        fault_injection::check_origin(&self.core, id)?;
        if c.kind.is_of_port() {
            self.ports.fault(&mut self.core, c, cx)?;
        } else {
            fault_injection::inject(&mut self.core, &c, cx)?;
        }
        if c.kind == FaultKind::CLEAR {
            self.cut = None;
            self.protocol_faults.clear();
            self.ports.restore(&mut self.core, cx);
            cx.out.push(Output::ClearHostDiskFaults);
        }
        persistent_event_log::vendor_command(&mut self.core, cx, id, c.into());
        cx.out.push(Output::FaultInjected { kind: c.kind, nvmsetid: c.nvmsetid });
        Ok(Reply::Done(0))
    }

    fn inject_protocol_fault<S: Contents>(
        &mut self,
        id: ControllerId,
        c: ProtocolFaultInjection,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> AdminResult {
        fault_injection::check_origin(&self.core, id)?;
        let fault = ProtocolFault::parse(&c, data).map_err(|wrong| match wrong.field {
            FaultField::Command(byte) => Failure::field(byte),
            FaultField::Data(byte) => Failure::field(24).with_information(byte.into()),
        })?;
        if fault.commands.port.is_some_and(|port| self.ports.state(PortId(port)).is_none()) {
            return Err(Failure::field(42));
        }
        if !self.protocol_faults.arm(fault) {
            return Err(Failure::field(40));
        }
        persistent_event_log::vendor_command(&mut self.core, cx, id, c.into());
        cx.out.push(Output::FaultInjected { kind: c.kind, nvmsetid: c.port });
        Ok(Reply::Done(0))
    }
}
