//! The drive: commands and the time go in, completions and requests to its owner come out.

mod admin;
mod associations;
mod features;
mod io;
mod logs;
mod power;
mod sanitize;
mod steps;
mod turns;

use crate::contents::Contents;
use crate::core::{
    CommandKind, CommandStage, ComponentRequests, ControllerId, Core, Cx, Direction, Failure, InFlight,
    MAX_IO, Namespaces, Output, PersistentState, PortId, StartDecision, TimedEvent, TransportModel, is_fused,
};
use crate::fault_injection::PlannedPowerCut;
use crate::fdp;
use crate::firmware;
use crate::health::{self, Health};
use crate::identity;
use crate::io::copy::ReadingCopies;
use crate::io::fused;
use crate::keys;
use crate::lost_blocks::LostBlocks;
use crate::namespaces::management;
use crate::persistent_event_log;
use crate::ports::Ports;
use crate::predictable_latency::PredictableLatency;
use crate::protocol_faults::ProtocolFaults;
use crate::reservation::ReservationCommands;
use crate::sanitize::{SANITIZE_IO, SanitizeOperation};
use crate::self_test;
use crate::shutdown::{Shutdowns, shutdown_complete};
use crate::stats::snapshot::DriveSnapshot;
use crate::stats::{self, DeletedNamespaces};
use crate::telemetry::{self, Telemetry};
use crate::zones;
use drive_config::{Config, ConfigError};
use ftl::{CompletedIo, Ftl, Io, SetStats, StorageError, WriteHistory};
use media::Nanos;
use nvme::log::{AnaState, NamespaceStatistics};
use nvme::protocol_fault::{CommandSource, ProtocolAction, QueueKind};
use nvme::{Command, Completion, FormatUnit, IoCommand, Nsid, SeparateBlock, Status, Transfer};
use steps::Steps;

/// A command as a host submits it.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// The controller.
    pub controller: ControllerId,
    /// The queue: 0 is the admin queue.
    pub qid: u16,
    /// The owner's number for it, less than [`MAX_IO`](crate::MAX_IO) and not in use.
    pub io: Io,
    /// The command.
    pub command: &'a Command,
    /// Data of commands that the controller itself reads (Dataset Management, Namespace Management, Set Features, …). Contents of Write and
    /// Compare stay in the owner's buffer, which [`ftl::Storage`] finds by `io`.
    pub data: &'a [u8],
}

/// An NVMe subsystem with its controllers, namespaces and media.
///
/// It performs no I/O and reads no clock. Every call says what time it is (time never goes backwards;
/// an earlier one counts as the latest that was seen) and appends to `out` what its owner is to do.
pub struct Drive {
    pub(crate) core: Core,
    pub(crate) health: Health,
    /// A power cut that is to come.
    pub(crate) cut: Option<PlannedPowerCut>,
    pub(crate) telemetry: Telemetry,
    pub(crate) reservations: ReservationCommands,
    pub(crate) shutdowns: Shutdowns,
    pub(crate) copies: ReadingCopies,
    pub(crate) windows: PredictableLatency,
    pub(crate) ports: Ports,
    pub(crate) protocol_faults: ProtocolFaults,
    /// Blocks that are potentially unrecoverable.
    pub(crate) lost: LostBlocks,
    pub(crate) sanitize: SanitizeOperation,
    pub(crate) deleted: DeletedNamespaces,
    pub(crate) steps: Steps,
    /// Answers of the translation layer; kept for its room.
    pub(crate) done: Vec<CompletedIo>,
}

impl From<Core> for Drive {
    /// A drive whose components have no state yet.
    fn from(core: Core) -> Drive {
        let protocol_faults = ProtocolFaults::new(core.config.ftl.faults.seed, &core.config.protocol_faults);
        Drive {
            core,
            protocol_faults,
            health: Health::default(),
            cut: None,
            telemetry: Telemetry::default(),
            reservations: ReservationCommands::default(),
            shutdowns: Shutdowns::default(),
            copies: ReadingCopies::default(),
            windows: PredictableLatency::default(),
            ports: Ports::default(),
            lost: LostBlocks::default(),
            sanitize: SanitizeOperation::default(),
            deleted: DeletedNamespaces::default(),
            steps: Steps::default(),
            done: Vec::with_capacity(1024),
        }
    }
}

impl Drive {
    /// A new drive, powered on, with the namespaces that the configuration gives it.
    ///
    /// # Errors
    /// The first value of the configuration that cannot be.
    pub fn new(config: Config) -> Result<Drive, ConfigError> {
        Self::made(config, 0)
    }

    /// A new drive with a number of its own, by which hosts tell its namespaces from those of another drive that is configured alike: their identifiers
    /// (NGUID, UUID) come from the serial number, this number, and how many namespaces there were before. With 0 drives that are configured alike have the
    /// same ones, as every run of a simulation should.
    ///
    /// # Errors
    /// The first value of the configuration that cannot be.
    pub fn made(config: Config, mark: u64) -> Result<Drive, ConfigError> {
        config.check()?;
        let ftl = Ftl::new(config.effective_ftl())?;
        let namespaces = Namespaces::new(config.max_namespaces);
        let mut drive = Drive::from(Core::new(config, ftl, namespaces, PersistentState::default()));
        drive.core.persistent.power_cycles = 1;
        drive.core.persistent.mark = mark;
        fdp::enable_initial(&mut drive.core);
        management::create_initial(&mut drive.core)?;
        drive.note_power_on(Nanos::ZERO, false);
        Ok(drive)
    }

    /// Preconditions namespaces of a drive that holds nothing ([`Ftl::precondition`]). Returns false if it holds something already, or
    /// `go_on` has said no: then the drive is of no use.
    pub fn precondition<S: Contents>(
        &mut self,
        now: Nanos,
        nsids: &[Nsid],
        history: WriteHistory,
        storage: &mut S,
        go_on: &mut dyn FnMut() -> bool,
    ) -> bool {
        let now = self.core.tick(now);
        let volumes: Vec<_> =
            nsids.iter().filter_map(|&nsid| self.core.namespaces.get(nsid)).map(|ns| ns.volume).collect();
        self.core.ftl.precondition(now, &volumes, history, storage, go_on)
    }

    /// What the drive was built from.
    pub fn config(&self) -> &Config {
        &self.core.config
    }

    /// The translation layer below, to be looked at.
    pub fn ftl(&self) -> &Ftl {
        &self.core.ftl
    }

    /// Commands in flight, Asynchronous Event Requests among them.
    pub fn in_flight(&self) -> u32 {
        self.core.commands.len()
    }

    /// Bytes of a namespace's logical block (without metadata), and how many blocks it has; `None` if there is no such
    /// namespace.
    #[inline]
    pub fn geometry(&self, nsid: u32) -> Option<(u32, u64)> {
        self.core.namespaces.get(nsid).map(|ns| (1 << ns.shift, ns.blocks()))
    }

    /// Whether a namespace is of this generation, which Identify tells: no other namespace has it, nor had the namespace before it was formatted. A
    /// host that names it knows the namespace as if its controller had identified it.
    #[inline]
    pub fn confirm(&mut self, controller: ControllerId, nsid: u32, generation: u64) -> bool {
        let current = self.core.namespaces.get(nsid).is_some_and(|ns| ns.generation == generation);
        if current && self.core.controllers.get(controller).is_some_and(|c| !c.is_open(nsid)) {
            self.core.controllers.known(controller, nsid);
        }
        current
    }

    /// Log D8h of each namespace, as it is now.
    pub fn statistics(&self) -> impl Iterator<Item = NamespaceStatistics> + '_ {
        self.core
            .namespaces
            .iter()
            .filter_map(|(nsid, _)| stats::statistics(&self.core, nsid, self.core.now()).ok())
    }

    /// What the drive counts, and its state, at one moment that is not before `now`. Changes nothing.
    pub fn snapshot(&self, now: Nanos) -> DriveSnapshot {
        let inputs = self.telemetry_inputs();
        let mut snapshot = stats::snapshot::take(&self.core, self.core.now().max(now));
        snapshot.firmware = nvme::identify::ascii_text(&inputs.firmware_revision).to_owned();
        snapshot.critical_warning = inputs.critical_warning;
        snapshot.backup_failed = inputs.backup_failed;
        snapshot
    }

    /// How many dies of flash sense, program or erase at `now`, and how many dies there are. Changes nothing.
    pub fn busy_dies(&self, now: Nanos) -> (u32, u32) {
        let core = &self.core;
        let of_flash = core
            .set_ids()
            .filter_map(|id| Some((core.ftl.busy_units(id, now)?, core.set_properties(id).units)));
        of_flash.fold((0, 0), |(busy, all), (works, units)| (busy + works, all + units))
    }

    /// What the NVM Sets on flash count over their lives. It looks at no block, as a [snapshot](Drive::snapshot) does for their wear.
    pub fn flash_stats(&self) -> Vec<SetStats> {
        let core = &self.core;
        let of_flash = core.set_ids().filter(|id| core.set_properties(*id).superblocks > 0);
        of_flash.map(|id| core.ftl.set_stats(id)).collect()
    }

    /// How many bytes a command moves, and in which direction. A transport needs it to gather the data of a write
    /// before it submits, and to make a buffer for a read. [`Transfer::None`] for a command that will be refused
    /// because it is too large or names no attached namespace.
    pub fn transfer(&self, controller: ControllerId, qid: u16, command: &Command) -> Transfer {
        self.transfer_of_blocks(controller, qid, command).0
    }

    /// The [transfer](Drive::transfer) of a command, and the sizes of its blocks if their metadata travels in a separate buffer. The drive has
    /// the metadata behind each block's data nevertheless: the transport joins and splits them.
    pub fn transfer_of_blocks(
        &self,
        controller: ControllerId,
        qid: u16,
        command: &Command,
    ) -> (Transfer, Option<SeparateBlock>) {
        let mut separate = None;
        let attached = |nsid: Nsid| {
            let open = self.core.controllers.get(controller).is_some_and(|c| c.is_open(nsid));
            self.core.namespaces.get(nsid).filter(|_| open)
        };
        let transfer = nvme::data_transfer(command, qid == 0, |unit| match unit {
            FormatUnit::Block(blocks) => attached(blocks.nsid).map_or(0, |ns| {
                let (data, metadata) = (1 << ns.shift, ns.layout.host_metadata(blocks.prinfo.pract()).into());
                if ns.layout.separate {
                    separate = SeparateBlock::new(data, metadata);
                }
                data + metadata
            }),
            FormatUnit::ZoneExtension(nsid) => {
                attached(nsid).filter(|ns| ns.zones.is_some()).map_or(0, |_| zones::EXTENSION_BYTES)
            }
        });
        let is_memory =
            || self.core.controller(controller).is_ok_and(|c| c.transport == TransportModel::Memory);
        let is_refused = separate.is_some() && !is_memory();
        // MDTS counts metadata only if it lies between the data.
        let counted = separate.map_or(transfer, |block: SeparateBlock| block.split(transfer)[0]);
        match counted.bytes() > u64::from(self.core.config.max_transfer) || is_refused {
            true => (Transfer::None, None),
            false => (transfer, separate),
        }
    }

    /// Gives every namespace of a new drive a key, if its owner has a drive key. To be called before anything is written.
    ///
    /// # Errors
    /// If the owner cannot make keys.
    pub fn encrypt<S: Contents>(&mut self, storage: &mut S) -> Result<(), StorageError> {
        keys::encrypt(&mut self.core, storage)
    }

    /// NSID and UUID of each namespace.
    pub fn namespace_identifiers(&self) -> impl Iterator<Item = (u32, [u8; 16])> + '_ {
        self.core.namespaces.iter().map(|(nsid, ns)| (nsid, ns.uuid))
    }

    /// Gives the drive and its namespaces identifiers of their own, so that hosts can tell a copy from its original. `mark` is a number as for
    /// [`made`](Self::made); the identifiers (NGUID, UUID) follow from it and from the serial number. Contents and keys stay. Call it before
    /// any host connects.
    ///
    /// # Errors
    /// If a namespace is locked, or its key cannot be wrapped for its new UUID. Then nothing has changed.
    pub fn renew_identity<S: Contents>(&mut self, mark: u64, storage: &mut S) -> Result<(), StorageError> {
        identity::renew(&mut self.core, mark, storage)
    }

    /// Whether the drive was opened without its drive key, so that namespaces with keys cannot be used.
    pub fn is_locked(&self) -> bool {
        self.core.drive_key.locked
    }

    /// Identifiers of namespaces that are stored in the clear.
    pub fn plain_namespaces(&self) -> Vec<u32> {
        self.core.namespaces.iter().filter(|(_, ns)| ns.key.is_none()).map(|(nsid, _)| nsid).collect()
    }

    /// Adds a port with its state.
    pub fn add_port(&mut self, id: PortId, state: AnaState) {
        self.ports.add(id, state);
    }

    /// The state of a port; `None` if there is no such port.
    pub fn port_state(&self, id: PortId) -> Option<AnaState> {
        self.ports.state(id)
    }

    /// A controller that was just connected is reached through this port.
    pub fn arrive(&mut self, controller: ControllerId, port: PortId) {
        self.ports.arrive(&mut self.core, controller, port);
    }

    /// Whether there are faults of the protocol. If so, its owner asks for each command ([`strike`](Drive::strike)) and each controller
    /// that is enabled ([`strike_enabling`](Drive::strike_enabling)).
    #[inline]
    pub fn has_protocol_faults(&self) -> bool {
        !self.protocol_faults.is_empty()
    }

    /// The fault of the protocol that a command meets, if any. It is asked for once, before the command is submitted; its owner carries it
    /// out.
    #[cold]
    pub fn strike(
        &mut self,
        controller: ControllerId,
        qid: u16,
        command: &Command,
    ) -> Option<ProtocolAction> {
        let queue = if qid == 0 { QueueKind::Admin } else { QueueKind::Io };
        let source = self.command_source(controller, queue);
        self.protocol_faults.strike(source, command)
    }

    /// How late a controller that is being enabled becomes ready, in microseconds ([`ProtocolAction::ENDLESS_US`]); `None` if it is not late.
    #[cold]
    pub fn strike_enabling(&mut self, controller: ControllerId) -> Option<u32> {
        let source = self.command_source(controller, QueueKind::Admin);
        self.protocol_faults.strike_enabling(source)
    }

    fn command_source(&self, controller: ControllerId, queue: QueueKind) -> CommandSource {
        let port = self.port_of(controller).map_or(0, |port| port.0);
        CommandSource { queue, controller: controller.0, port }
    }

    /// The port that a controller is reached through.
    pub fn port_of(&self, controller: ControllerId) -> Option<PortId> {
        self.core.controllers.get(controller).map(|c| c.port)
    }

    /// Executes a command. It comes back in exactly one [`Output::Complete`], in this call or a later one.
    pub fn submit<S: Contents>(
        &mut self,
        now: Nanos,
        submission: Submission<'_>,
        storage: &mut S,
        out: &mut Vec<Output>,
    ) {
        let Submission { controller, qid, io, command, data } = submission;
        let now = self.core.tick(now);
        let mut cx = Cx { now, storage, out };
        let entry = InFlight {
            submitted: now,
            controller: controller.0,
            qid,
            cid: command.cid.get(),
            opcode: command.opc,
            nsid: command.nsid.get(),
            kind: if qid == 0 { CommandKind::Admin } else { CommandKind::Other },
            ..InFlight::FREE
        };
        let begun = if self.core.power.on { self.core.commands.begin(io, entry) } else { None };
        let Some(token) = begun else {
            // Without power, or with a number that is taken: the host gets an answer, and that is all.
            let status = if self.core.power.on { Status::INTERNAL_ERROR } else { Status::POWER_LOSS };
            let completion = Completion::new(entry.cid, status);
            cx.out.push(Output::Complete { controller, qid, io, completion });
            return;
        };
        if qid != 0 {
            self.core.begin_busy(now);
        }
        if qid != 0 && self.core.fused.waits() {
            fused::separate(&mut self.core, controller, qid, command, &mut cx);
        }
        match admit(&mut self.core, &self.sanitize, now, controller, qid, command) {
            admitted if is_fused(command, qid) => {
                let submitted = fused::submit(&mut self.core, token, controller, command, admitted, &mut cx);
                if let Some((second, blocks)) = submitted {
                    io::execute_pair(&mut self.core, second, &blocks, &mut cx);
                }
            }
            Err(failure) => self.core.fail(token, failure, &mut cx),
            Ok(()) if qid == 0 => self.submit_admin(token, controller, command, data, &mut cx),
            Ok(()) => match IoCommand::parse_of(command, self.core.namespaces.csi(command.nsid.get())) {
                // By reference: it is too large to be moved.
                Ok(ref command) => match self.core.arbitrate(&token, controller, command, data, now) {
                    StartDecision::Now => self.execute_io(token, command, data, &mut cx),
                    StartDecision::Held => {
                        token.park();
                    }
                },
                Err(status) => self.core.fail(token, status.into(), &mut cx),
            },
        }
        self.pump(&mut cx);
    }

    /// What was submitted last to this queue is a first command of a fused operation, and no second will follow it, or not next: it is
    /// aborted. Only transports that know more than the order of [`submit`](Drive::submit) need it.
    pub fn end_fused<S: Contents>(
        &mut self,
        now: Nanos,
        id: ControllerId,
        qid: u16,
        storage: &mut S,
        out: &mut Vec<Output>,
    ) {
        let now = self.core.tick(now);
        let mut cx = Cx { now, storage, out };
        fused::give_up_first(&mut self.core, id, qid, &mut cx);
        self.pump(&mut cx);
    }

    /// Begins to load into the host's cache what a command of an I/O queue will need; changes nothing. It pays if the next command is
    /// known while another one is submitted.
    #[inline]
    pub fn prefetch(&self, command: &Command) {
        // The starting LBA of commands on blocks. Other commands have something else there; to prefetch that does no harm.
        self.prefetch_block(command.nsid.get(), command.cdw10_11());
    }

    /// The same for a command of which only the first block is known.
    #[inline]
    pub fn prefetch_block(&self, nsid: Nsid, lba: u64) {
        let Some(ns) = self.core.namespaces.get(nsid) else { return };
        self.core.ftl.prefetch(ns.volume, lba << ns.shift);
    }

    /// The second step of [`prefetch`](Drive::prefetch). With several commands at hand, take the first step for each of them, and then
    /// the second.
    #[inline]
    pub fn prefetch_place(&self, command: &Command) {
        self.prefetch_place_of_block(command.nsid.get(), command.cdw10_11());
    }

    /// The same for a command that will start at this block.
    #[inline]
    pub fn prefetch_place_of_block(&self, nsid: Nsid, lba: u64) {
        let Some(ns) = self.core.namespaces.get(nsid) else { return };
        self.core.ftl.prefetch_place(ns.volume, lba << ns.shift);
    }

    /// Runs everything that is due. A command that was submitted mostly left nothing to do yet.
    #[inline]
    pub(crate) fn pump<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        if self.has_work(cx.now) {
            self.run_due(cx);
        }
    }

    /// Whether [`run_due`](Self::run_due) has anything to do.
    #[inline]
    fn has_work(&self, now: Nanos) -> bool {
        let core = &self.core;
        core.events.due().min(core.ftl.due()) <= now
            || core.requests != ComponentRequests::default()
            || core.fair.stirred
            || core.drained && !core.waiting.is_empty()
            || self.cut.is_some()
            || self.lost.has_news(core)
            || self.reservations.waits()
            || self.sanitize.waits()
    }

    /// Runs everything that is due, and what components and waiting commands want.
    fn run_due<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        loop {
            while self.core.ftl.due() <= cx.now {
                self.poll_ftl(cx);
            }
            if self.core.requests != ComponentRequests::default() {
                self.serve_requests(cx);
            }
            if self.cut.is_some() && self.cut_if_due(cx) {
                return;
            }
            let Some((_, event)) = self.core.events.pop_due(cx.now) else {
                if std::mem::take(&mut self.core.fair.stirred) {
                    self.share(cx);
                    continue;
                }
                break;
            };
            match event {
                TimedEvent::End(io) => self.command_due(io, cx),
                other => self.event_due(other, cx),
            }
        }
        if self.lost.has_news(&self.core) {
            self.lost.note(&mut self.core, cx);
        }
        if self.core.drained && !self.core.waiting.is_empty() {
            self.retry_waiting(cx);
        }
        if self.reservations.waits() {
            self.reservations.end_preempts(&mut self.core, cx);
        }
        if self.sanitize.waits() {
            self.erase_if_idle(cx);
        }
        if self.core.requests != ComponentRequests::default() {
            self.serve_requests(cx);
        }
    }

    /// A command's time has come, unless it has ended before.
    #[inline]
    fn command_due<S: Contents>(&mut self, io: u32, cx: &mut Cx<'_, S>) {
        if let Some(token) = self.core.commands.unpark(io) {
            self.core.end(token, cx);
        }
    }

    /// An event of any kind. It is out of line: the frame of [`run_due`](Self::run_due) stays small, which most calls pay for.
    #[inline(never)]
    fn event_due<S: Contents>(&mut self, event: TimedEvent, cx: &mut Cx<'_, S>) {
        match event {
            TimedEvent::End(io) => self.command_due(io, cx),
            TimedEvent::HeldQueue(nsid, direction) => self.held_queue_due(nsid, direction, cx),
            TimedEvent::KeepAlive(id, timer) => self.core.keep_alive_due(id, timer, cx),
            TimedEvent::Window(set, number) => {
                let sanitizing = self.sanitize.restricts();
                self.windows.due(&mut self.core, set, number, sanitizing, cx);
            }
            TimedEvent::LbaAlert(id) => self.core.alert_of_losses(id, cx),
            TimedEvent::SelfTest(number) => {
                self_test::step(&mut self.core, self.health.backup_failed, number, cx);
            }
            TimedEvent::ShutdownComplete(of) => shutdown_complete(&mut self.core, of, cx),
            TimedEvent::Step => self.step(cx),
            TimedEvent::Sanitize => {
                self.sanitize.forget_if_due(&self.core, cx);
                self.erase_if_idle(cx);
            }
        }
    }

    /// What components say of themselves to telemetry.
    fn telemetry_inputs(&self) -> telemetry::TelemetryInputs {
        telemetry::TelemetryInputs {
            firmware_revision: firmware::revision(&self.core),
            backup_failed: self.health.backup_failed,
            critical_warning: self.health.common_warning(&self.core).into_bits(),
        }
    }

    /// What the core wants of components.
    #[cold]
    fn serve_requests<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        let ComponentRequests { health, wear } = std::mem::take(&mut self.core.requests);
        if health || (wear && self.health.has_worn(&self.core)) {
            self.check_health(cx);
        }
    }

    /// Looks for new critical warnings: remembers them, and tells hosts of them.
    pub(crate) fn check_health<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        let new = self.health.look(&mut self.core);
        if new.drive.into_bits() != 0 {
            let smart =
                self.health.smart_of_drive(&self.core, self.health.common_warning(&self.core), cx.now);
            persistent_event_log::critical_warning(&mut self.core, cx.now, new.drive, &smart);
        }
        for &(endgid, warning) in &new.groups {
            persistent_event_log::group_warning(&mut self.core, cx.now, endgid, warning);
        }
        health::tell_of_groups(&mut self.core, &new, cx);
        zones::changed::tell(&mut self.core, cx);
        if !new.is_empty() {
            let (reason, inputs) = (self.health.summary(&self.core), self.telemetry_inputs());
            telemetry::capture_for_controller(&mut self.core, &inputs, reason, cx);
            self.core.record(cx.storage);
        }
        self.health.warn_all(&mut self.core, cx);
    }

    /// The time has come that a held queue waited for: starts the commands that may start.
    fn held_queue_due<S: Contents>(&mut self, nsid: u32, direction: Direction, cx: &mut Cx<'_, S>) {
        let Some(alone) = self.core.take_held_queue_timer(nsid, direction, cx.now) else { return };
        if alone {
            while let Some((token, command, data)) = self.core.first_of(nsid, direction, cx.now) {
                self.execute_io(token, &command, &data, cx);
            }
        }
        self.core.wait(nsid, direction, cx.now);
    }

    /// Something ended on a shared set, or came to wait for it: starts what may start.
    #[inline(never)]
    fn share<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        for set in 0..self.core.fair.count() {
            while let Some((nsid, direction)) = self.core.next_turn(set, cx.now) {
                if let Some((token, command, data)) = self.core.first_of(nsid, direction, cx.now) {
                    self.execute_io(token, &command, &data, cx);
                }
                self.core.end_turn(nsid, direction, cx.now);
            }
        }
        // What came to wait meanwhile was looked at.
        self.core.fair.stirred = false;
    }

    /// Takes what the translation layer has ended: parts of commands that it answered later, shutdowns, erases.
    fn poll_ftl<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        let mut all = std::mem::take(&mut self.done);
        self.core.ftl.poll(cx.now, cx.storage, &mut all);
        for done in all.drain(..) {
            if done.io == SANITIZE_IO {
                self.sanitize.erased(&mut self.core, done.at);
                continue;
            }
            if done.io == self_test::SELF_TEST_IO {
                self_test::read_done(&mut self.core, done, cx);
                continue;
            }
            if done.io.0 >= MAX_IO {
                self.shutdowns.done(&mut self.core, done);
                continue;
            }
            let Some(token) = self.core.commands.unpark(done.io.0) else { continue };
            let (kind, fused) =
                (self.core.commands.get_mut(&token).kind, self.core.commands.get_mut(&token).fused);
            if fused {
                fused::pair_done(&mut self.core, token, done.at, done.result, cx);
                continue;
            }
            if let Err(fault) = done.result {
                self.core.note_failure(&token, Failure::of_fault(fault, kind));
            }
            let entry = self.core.commands.get_mut(&token);
            entry.at = entry.at.max(done.at);
            entry.parts = entry.parts.saturating_sub(1);
            if entry.parts > 0 {
                token.park();
                continue;
            }
            let at = entry.at;
            match self.copies.read(&mut self.core, &token) {
                Some(copy) => {
                    let written = copy.write(&mut self.core, &token, cx);
                    self.settle(token, written, cx);
                }
                None => self.core.schedule(token, at, cx),
            }
        }
        self.done = all;
        if self.core.ftl.has_changed_zones() {
            zones::changed::tell(&mut self.core, cx);
        }
    }

    /// Runs every event that is due at `now`, each at its own time. So the results do not depend on how late the call is.
    pub fn poll<S: Contents>(&mut self, now: Nanos, storage: &mut S, out: &mut Vec<Output>) {
        self.steps.reach(now);
        let mut cx = Cx { now: self.core.now(), storage, out };
        while self.due() <= now {
            cx.now = self.core.tick(self.due());
            self.run_due(&mut cx);
        }
        let late = cx.now < now;
        cx.now = self.core.tick(now);
        // Also if nothing is due: writes may wait for contents to become free.
        if self.core.power.on && (late || self.core.ftl.lacks_slots()) {
            self.poll_ftl(&mut cx);
            self.pump(&mut cx);
        }
    }

    /// When [`poll`](Drive::poll) is to be called next; `None` if nothing is under way.
    #[inline]
    pub fn next_event(&self) -> Option<Nanos> {
        Some(self.due()).filter(|at| *at != Nanos::MAX)
    }

    /// The same; [`Nanos::MAX`] if nothing is under way.
    #[inline]
    pub fn due(&self) -> Nanos {
        if self.core.power.on { self.core.events.due().min(self.core.ftl.due()) } else { Nanos::MAX }
    }

    /// Answers [`Output::Sync`] and [`Output::Forget`]. A failure to sync fails the command: the host must not rely on it.
    pub fn synced<S: Contents>(
        &mut self,
        now: Nanos,
        io: Io,
        ok: bool,
        storage: &mut S,
        out: &mut Vec<Output>,
    ) {
        let now = self.core.tick(now);
        let mut cx = Cx { now, storage, out };
        if io == SANITIZE_IO {
            if let Some(ok) = self.sanitize.synced(&mut self.core, ok, &mut cx) {
                self.sanitize_ended(ok, &mut cx);
            }
            return self.pump(&mut cx);
        }
        let Some(token) = self.core.commands.unpark(io.0) else { return };
        let entry = self.core.commands.get_mut(&token);
        if entry.stage != CommandStage::Syncing {
            token.park();
            return;
        }
        entry.stage = CommandStage::Running;
        entry.sync = false;
        entry.at = entry.at.max(now);
        if !ok {
            self.core.note_failure(&token, Failure::transient(Status::INTERNAL_ERROR));
        }
        self.core.complete(token, &mut cx);
        self.pump(&mut cx);
    }
}

/// What every command must fulfil.
#[inline]
fn admit(
    core: &mut Core,
    sanitize: &SanitizeOperation,
    now: Nanos,
    id: ControllerId,
    qid: u16,
    command: &Command,
) -> Result<(), Failure> {
    let controller = core.controllers.get_mut(id).ok_or(Status::COMMAND_SEQUENCE_ERROR)?;
    controller.last_command = now;
    if !controller.has_queue(qid) {
        return Err(Status::COMMAND_SEQUENCE_ERROR.into());
    }
    if command.opc == nvme::command::FABRICS_OPCODE {
        return Ok(());
    }
    if !controller.is_ready() {
        return Err(Status::COMMAND_SEQUENCE_ERROR.into());
    }
    // Fused operations (FUSES) are I/O commands; FUSE 11b and PSDT 11b are reserved.
    let fused = command.flags.fuse() != 0 && !is_fused(command, qid);
    if fused || command.flags.psdt() == 3 {
        return Err(Failure::field(1));
    }
    if sanitize.restricts() && (qid != 0 || crate::admin::has(command.opc)) {
        return sanitize.check(command, qid == 0);
    }
    Ok(())
}
