//! Faults of the protocol: what hosts see instead of what the drive has done.
//!
//! The drive says which command a fault strikes ([`Drive::strike`](device::Drive::strike)), and executes it as any other. Here the
//! completion is held back or changed on its way to the front end. A completion that is dropped stays here with its number and its buffer
//! until its host gives the command up: by an Abort, by a reset of its controller, by the end of its queue or connection. Then it goes to
//! its front end as every completion does, so nothing of it is left anywhere.

use super::Engine;
use super::front_end::{EndedCommand, FrontEnd};
use super::struck::{
    Effect, MAX_STALE, StruckCommand, StruckCommands, WithheldCompletion, identify_key, micros,
};
use device::ControllerId;
use ftl::Io;
use media::Nanos;
use nvme::admin::{AdminCommand, Identify};
use nvme::fabrics::FabricsCommand;
use nvme::identify::Cns;
use nvme::property::{Cc, Csts, PropertyOffset};
use nvme::protocol_fault::{CompletionFault, ProtocolAction};
use nvme::{AdminOpcode, Command, Completion, Csi, Nsid, Status, U32};

impl Engine {
    /// Whether commands can meet faults from now on.
    pub(super) fn watch_faults(&mut self) {
        self.watches_faults = self.drive.has_protocol_faults() || self.struck.is_concerned();
    }

    /// Faults were injected or cleared.
    #[cold]
    pub(super) fn faults_changed(&mut self, is_identify: bool) {
        if is_identify {
            self.keep_identify_data();
        } else if !self.drive.has_protocol_faults() {
            self.struck.stale.clear();
        }
        self.watch_faults();
    }

    /// Looks whether a command meets a fault. Returns its completion if it is not executed.
    #[cold]
    pub(super) fn meet_faults(
        &mut self,
        now: Nanos,
        io: Io,
        (controller, qid): (ControllerId, u16),
        command: &Command,
    ) -> Option<Completion> {
        let action = self.drive.strike(controller, qid, command);
        let cid = command.cid.get();
        let strike = |engine: &mut Engine, effect| {
            engine.struck.struck.push(StruckCommand { io, controller, qid, effect });
            engine.table[io.0 as usize].is_struck = true;
        };
        let mut instead = None;
        match action {
            None => {}
            Some(ProtocolAction::StaleIdentify) => instead = self.old_identify(now, io, controller, command),
            Some(ProtocolAction::SpuriousInterrupt(time)) => {
                self.struck.interrupts.push(io);
                strike(self, Effect::NotBefore(now + micros(time)));
            }
            Some(action) => {
                if let ProtocolAction::Vanish(time) = action {
                    self.struck.vanishing.push((controller, now + micros(time)));
                }
                if action.is_unexecuted() {
                    // Its status is that of a failure, whatever the host is told.
                    instead = Some(Completion::new(cid, Status::ABORT_REQUESTED));
                }
                strike(self, Effect::Fault(action));
            }
        }
        if qid == 0
            && instead.is_none()
            && let Some(effect) = self.meet_admin(now, controller, command)
        {
            strike(self, effect);
        }
        self.struck.look_again();
        self.watch_faults();
        instead
    }

    /// Commands of the admin queue that concern what was struck before.
    fn meet_admin(&mut self, now: Nanos, controller: ControllerId, command: &Command) -> Option<Effect> {
        if command.opc == AdminOpcode::ABORT.0
            && let Ok(AdminCommand::Abort(abort)) = AdminCommand::parse(command)
        {
            let is_meant =
                |of, qid, cid: Option<u16>| of == controller && qid == abort.sqid && cid == Some(abort.cid);
            let has_aborted = self.struck.release(Status::ABORT_REQUESTED.with_dnr(), is_meant);
            return has_aborted.then_some(Effect::HasAborted);
        }
        if command.opc != AdminOpcode::FABRICS.0 {
            return None;
        }
        match FabricsCommand::parse(command) {
            Ok(FabricsCommand::PropertySet { offset: PropertyOffset::CC, value, .. }) => {
                let cc = Cc::from_bits(U32::new(value as u32));
                // Setting CC.EN again changes nothing, and shutdowns set it.
                let was = self.drive.property_get(controller, PropertyOffset::CC, false).unwrap_or(0);
                match (Cc::from_bits(U32::new(was as u32)).en(), cc.en()) {
                    (false, true) => {
                        let late = self.enabling_is_late(now, controller);
                        self.struck.late.extend(late.map(|until| (controller, until)));
                    }
                    (true, false) => self.struck.end_queues(controller, None),
                    _ => {}
                }
                None
            }
            Ok(FabricsCommand::PropertyGet { offset: PropertyOffset::CSTS, .. }) => {
                self.struck.late.retain(|(_, until)| *until > now);
                let is_late = self.struck.late.iter().any(|(late, _)| *late == controller);
                is_late.then_some(Effect::NotReady)
            }
            _ => None,
        }
    }

    /// Until when a controller that is being enabled is not ready for its host; `None` if it is not late.
    pub(crate) fn enabling_is_late(&mut self, now: Nanos, controller: ControllerId) -> Option<Nanos> {
        if !self.drive.has_protocol_faults() {
            return None;
        }
        let late = self.drive.strike_enabling(controller)?;
        self.watch_faults();
        Some(if late == ProtocolAction::ENDLESS_US { Nanos::MAX } else { now + micros(late) })
    }

    /// A command that has met a fault has ended.
    #[cold]
    pub(super) fn end_struck<F: FrontEnd>(&mut self, io: Io, mut completion: Completion, front_ends: &mut F) {
        self.table[io.0 as usize].is_struck = false;
        let mut fault = CompletionFault::None;
        let mut held = None;
        for StruckCommand { controller, qid, effect, .. } in self.struck.take(io) {
            let due = match effect {
                Effect::Fault(ProtocolAction::Drop { .. } | ProtocolAction::Vanish(_)) => Nanos::MAX,
                Effect::Fault(ProtocolAction::Delay(time)) => self.now + micros(time),
                Effect::NotBefore(at) => at,
                other => {
                    self.change(other, &mut completion, &mut fault);
                    continue;
                }
            };
            held = Some((controller, qid, due));
        }
        if let Some((controller, qid, due)) = held.filter(|(.., due)| *due > self.now) {
            self.struck.withheld.push(WithheldCompletion { io, controller, qid, completion, fault, due });
            self.struck.look_again();
        } else {
            self.return_command(io, completion, fault, front_ends);
        }
        self.watch_faults();
    }

    /// Effects that do not hold a completion back.
    fn change(&self, effect: Effect, completion: &mut Completion, fault: &mut CompletionFault) {
        // Bit 0 of the status of a controller, and of the result of an Abort.
        const _: () = assert!(Csts::new().with_rdy(true).into_bits().get() == 1);
        match effect {
            Effect::Fault(ProtocolAction::Status { status, .. }) => {
                *completion = Completion::new(completion.cid.get(), status);
            }
            Effect::Fault(ProtocolAction::Duplicate) => *fault = CompletionFault::Duplicate,
            Effect::Fault(ProtocolAction::LoseInterrupt) => *fault = CompletionFault::LostInterrupt,
            Effect::HasAborted | Effect::NotReady if completion.status().is_success() => {
                let dw0 = completion.dw0.get();
                completion.dw0.set(dw0 & !1);
            }
            _ => {}
        }
    }

    /// Does what is due: completions that were held back, interrupts, controllers that vanish.
    #[cold]
    pub(super) fn carry_out_faults<F: FrontEnd>(&mut self, now: Nanos, front_ends: &mut F) {
        for io in std::mem::take(&mut self.struck.interrupts) {
            if let Some(owner) = self.table[io.0 as usize].owner {
                front_ends.interrupt(owner);
            }
        }
        for (controller, until) in std::mem::take(&mut self.struck.vanishing) {
            let host = self.drive.controllers().find(|(id, ..)| *id == controller).map(|(_, host, _)| *host);
            let Some(host) = host else { continue };
            front_ends.controller_vanished(controller, &host, until);
            self.drive_disconnect(now, controller);
            front_ends.controller_lost(controller);
        }
        let (due, held) = std::mem::take(&mut self.struck.withheld)
            .into_iter()
            .partition::<Vec<_>, _>(|withheld| withheld.due <= now);
        self.struck.withheld = held;
        for WithheldCompletion { io, completion, fault, .. } in due {
            self.return_command(io, completion, fault, front_ends);
        }
        self.struck.look_again();
        self.watch_faults();
    }

    /// Gives a command that has ended to its front end. Its number is free from now on.
    #[inline]
    pub(super) fn return_command<F: FrontEnd>(
        &mut self,
        io: Io,
        completion: Completion,
        fault: CompletionFault,
        front_ends: &mut F,
    ) {
        let entry = &mut self.table[io.0 as usize];
        let Some(owner) = entry.owner.take() else { return };
        let to_host = entry.to_host;
        self.free.push(io.0);
        let data = self.store.give_back(io);
        front_ends.complete(EndedCommand { owner, completion, to_host, fault, data }, &mut self.store);
    }

    /// A controller is gone: what is held back of it comes back.
    pub(super) fn forget_controller(&mut self, controller: ControllerId) {
        if self.watches_faults || self.struck.due != Nanos::MAX || !self.struck.stale.is_empty() {
            self.struck.forget_controller(controller);
        }
    }

    /// A queue is gone, or with `None` all of a controller that was reset: what is held back of it comes back.
    pub(crate) fn release_queue(&mut self, controller: ControllerId, qid: Option<u16>) {
        if self.watches_faults {
            self.struck.end_queues(controller, qid);
        }
    }

    /// All commands have come back, and all controllers are gone: power was lost.
    pub(super) fn forget_struck_commands(&mut self) {
        self.struck = StruckCommands::default();
        self.watch_faults();
    }

    /// Identify data as it was, if it is known. Otherwise it is from now on.
    fn old_identify(
        &mut self,
        now: Nanos,
        io: Io,
        controller: ControllerId,
        command: &Command,
    ) -> Option<Completion> {
        let key = identify_key(controller, command);
        if let Some(bytes) = self.struck.stale.get(&key) {
            self.store.fill(io, bytes);
            return Some(Completion::success(command.cid.get(), 0));
        }
        self.keep_identify(now, controller, command);
        None
    }

    /// Keeps what an Identify would answer now.
    fn keep_identify(&mut self, now: Nanos, controller: ControllerId, command: &Command) {
        if self.struck.stale.len() < MAX_STALE
            && let Ok((_, bytes)) = self.drive.inspect(now, controller, command)
        {
            self.struck.stale.insert(identify_key(controller, command), bytes);
        }
    }

    /// Keeps what Identify answers to the hosts that are connected.
    fn keep_identify_data(&mut self) {
        let controllers: Vec<ControllerId> = self.drive.controllers().map(|(id, ..)| id).collect();
        let namespaces: Vec<Nsid> = self.drive.namespace_identifiers().map(|(nsid, _)| nsid).collect();
        for controller in controllers {
            for cns in [Cns::CONTROLLER, Cns::ACTIVE_NAMESPACES] {
                self.keep_identify(self.now, controller, &Command::identify(cns, 0));
            }
            for &nsid in &namespaces {
                for cns in [Cns::NAMESPACE, Cns::NAMESPACE_DESCRIPTORS, Cns::INDEPENDENT_NAMESPACE] {
                    self.keep_identify(self.now, controller, &Command::identify(cns, nsid));
                }
                for csi in [Csi::NVM, Csi::ZONED] {
                    let ask = Identify { nsid, cns: Cns::IOCS_NAMESPACE, cntid: 0, cnssid: 0, csi, uidx: 0 };
                    self.keep_identify(self.now, controller, &ask.into());
                }
            }
        }
    }
}
