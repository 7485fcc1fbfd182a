//! The drive: commands and the time go in, completions and requests to its owner come out.

use crate::admin;
use crate::arbiter::{Held, Way};
use crate::config::{Config, ConfigError, Link};
use crate::contents::Contents;
use crate::controller::{Controller, ControllerId, Controllers};
use crate::fair::Fair;
use crate::feature::Clock;
use crate::flight::{Flight, InFlight, Kind, MAX_IO, Stage, Token};
use crate::fused::{self, Fused};
use crate::health::Health;
use crate::life::Life;
use crate::lost::Lost;
use crate::namespace::Namespaces;
use crate::output::Output;
use crate::ports::Ports;
use crate::power::{Power, Shutdown};
use crate::reservation::Preempting;
use crate::sanitize;
use crate::selftest;
use crate::stats::NamespaceStats;
use crate::telemetry::Capture;
use ftl::{Done, Fault, Ftl, Io, Past, VolumeStats};
use media::{Events, FaultPlan, Nanos, Timeline};
use nvme::admin::AdminCommand;
use nvme::log::{ErrorInformation, NamespaceStatistics};
use nvme::{Command, Completion, IoCommand, Nsid, Status, Transfer, U16, U32, U64};

/// An NVMe subsystem with its controllers, namespaces and media.
///
/// It performs no I/O and reads no clock. Every call says what time it is (time never goes backwards;
/// an earlier one counts as the latest that was seen) and appends to `out` what its owner is to do.
pub struct Drive {
    pub(crate) config: Config,
    pub(crate) ftl: Ftl,
    pub(crate) namespaces: Namespaces,
    pub(crate) controllers: Controllers,
    pub(crate) flight: Flight,
    /// Commands that wait for their turn.
    pub(crate) held: Held,
    pub(crate) fair: Fair,
    pub(crate) fused: Fused,
    pub(crate) events: Events<Event>,
    pub(crate) life: Life,
    pub(crate) health: Health,
    pub(crate) power: Power,
    pub(crate) clock: Clock,
    /// Telemetry that a host asked for.
    pub(crate) telemetry: Capture,
    /// Admin commands that wait until their namespaces are idle.
    pub(crate) waiting: Vec<Waiting>,
    /// Commands that wait for those that they abort.
    pub(crate) preempting: Vec<Preempting>,
    /// Shutdowns that the translation layer has not ended yet.
    pub(crate) shutdowns: Vec<Shutdown>,
    /// Faults planned for each NVM Set.
    pub(crate) faults: Vec<FaultPlan>,
    /// Predictable Latency Mode, by NVM Set.
    pub(crate) windows: Vec<crate::window::Window>,
    pub(crate) ports: Ports,
    /// Blocks that are potentially unrecoverable.
    pub(crate) lost: Lost,
    pub(crate) sanitize: sanitize::Progress,
    /// The drive key is not the one that the keys of namespaces were wrapped with.
    pub(crate) locked: bool,
    /// There is a drive key, and it is the right one.
    pub(crate) keyed: bool,
    /// Counts of namespaces that were deleted since power on.
    pub(crate) departed: Box<(NamespaceStats, VolumeStats)>,
    pub(crate) link: Link,
    /// I/O commands on their way, and since when there are any.
    busy: (u32, Nanos),
    read_link: Timeline,
    write_link: Timeline,
    /// The controller's own part of commands that move data.
    processor: Timeline,
    done: Vec<Done>,
    now: Nanos,
}

/// What is due at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A command's modelled time has come.
    End(u32),
    /// A namespace's quota lets commands go on that were held.
    Lane(u32, Way),
    /// A keep-alive timer, told from others by its number, may have run out.
    KeepAlive(ControllerId, u32),
    /// A sanitize operation may go on.
    Sanitize,
    /// It is time to look at the deterministic window of a set, told from others by its number.
    Window(ftl::SetId, u32),
    /// A controller may be told of lost blocks now.
    LbaAlert(ControllerId),
    /// The next step of a self-test, told from others by its number.
    SelfTest(u32),
    /// The shutdown of a controller (and its association), or of the drive, is complete.
    ShutdownComplete(Option<(ControllerId, u32)>),
}

/// An admin command that waits until its namespaces are idle.
pub(crate) struct Waiting {
    pub io: u32,
    pub controller: ControllerId,
    pub command: AdminCommand,
}

/// What a call may touch besides the drive.
pub(crate) struct Cx<'a, S: Contents> {
    pub now: Nanos,
    pub storage: &'a mut S,
    pub out: &'a mut Vec<Output>,
}

/// How a command goes on.
pub(crate) enum Reply {
    /// It is done, with this dword 0.
    Done(u32),
    /// It is done, with data for the host.
    Data(Vec<u8>, u32),
    /// It is done, with a result of 64 bits.
    Wide(u64),
    /// It was left somewhere that brings it back.
    Parked,
}

/// Why a command fails, for its completion and the Error Information log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    pub status: Status,
    /// Parameter Error Location: byte, and bit times 256; FFFFh for none.
    pub location: u16,
    /// Command Specific Information.
    pub information: u64,
}

impl From<Status> for Failure {
    /// The host's mistake: the same command would fail again.
    fn from(status: Status) -> Self {
        Failure { status: status.with_dnr(), location: 0xFFFF, information: 0 }
    }
}

impl Failure {
    /// Something that another try may not meet.
    pub fn transient(status: Status) -> Self {
        Failure { status: status.code(), location: 0xFFFF, information: 0 }
    }

    /// Invalid Field in Command, with the byte of the command that is invalid.
    pub fn field(byte: u16) -> Self {
        Failure { location: byte, ..Status::INVALID_FIELD.into() }
    }

    /// The same, with Command Specific Information.
    pub fn with_information(self, information: u64) -> Self {
        Failure { information, ..self }
    }

    /// What a fault of the medium is to the host.
    pub fn of_fault(fault: Fault, kind: Kind) -> Self {
        match fault {
            Fault::OutOfRange => Status::LBA_OUT_OF_RANGE.into(),
            Fault::Write => Self::transient(Status::WRITE_FAULT),
            // A write of less than a page that cannot read the rest of it.
            Fault::Unrecovered if matches!(kind, Kind::Write | Kind::Deallocate) => {
                Self::transient(Status::WRITE_FAULT)
            }
            Fault::Unrecovered => Status::UNRECOVERED_READ_ERROR.into(),
            Fault::ReadOnly => Status::WRITE_TO_READ_ONLY_RANGE.into(),
            Fault::Storage => Self::transient(Status::INTERNAL_ERROR),
            Fault::NoSpace | Fault::Full => Self::transient(Status::CAPACITY_EXCEEDED),
            Fault::Mismatch => Status::COMPARE_FAILURE.into(),
        }
    }
}

/// Result of executing an admin command.
pub(crate) type Outcome = Result<Reply, Failure>;

impl Drive {
    pub(crate) fn assemble(config: Config, ftl: Ftl, namespaces: Namespaces, life: Life) -> Drive {
        let link = config.effective_link();
        let faults = vec![FaultPlan::default(); ftl.set_count()];
        Drive {
            ftl,
            namespaces,
            controllers: Controllers::default(),
            flight: Flight::default(),
            held: Held::default(),
            fair: Fair::new(&config),
            fused: Fused::default(),
            events: Events::default(),
            life,
            health: Health::default(),
            power: Power::default(),
            clock: Clock::default(),
            telemetry: Capture::default(),
            waiting: Vec::new(),
            preempting: Vec::new(),
            shutdowns: Vec::new(),
            faults,
            windows: Vec::new(),
            ports: Ports::default(),
            lost: Lost::default(),
            sanitize: sanitize::Progress::default(),
            locked: false,
            keyed: false,
            departed: Box::default(),
            link,
            busy: (0, Nanos::ZERO),
            read_link: Timeline::default(),
            write_link: Timeline::default(),
            processor: Timeline::default(),
            done: Vec::with_capacity(1024),
            now: Nanos::ZERO,
            config,
        }
    }

    /// A new drive, powered on, with the namespaces that the configuration gives it.
    ///
    /// # Errors
    /// The first value of the configuration that cannot be.
    pub fn new(config: Config) -> Result<Drive, ConfigError> {
        config.check()?;
        let ftl = Ftl::new(config.effective_ftl())?;
        let namespaces = Namespaces::new(config.max_namespaces);
        let mut drive = Drive::assemble(config, ftl, namespaces, Life::default());
        drive.life.power_cycles = 1;
        drive.enable_initial_fdp();
        drive.create_initial_namespaces()?;
        drive.remember_power_on(Nanos::ZERO, false);
        Ok(drive)
    }

    /// Gives namespaces of a drive that holds nothing a past ([`Ftl::age`]). Returns false if it holds something already, or `go_on` has
    /// said no: then the drive is of no use.
    pub fn age<S: Contents>(
        &mut self,
        now: Nanos,
        nsids: &[Nsid],
        past: Past,
        storage: &mut S,
        go_on: &mut dyn FnMut() -> bool,
    ) -> bool {
        let now = self.tick(now);
        let volumes: Vec<_> =
            nsids.iter().filter_map(|&nsid| self.namespaces.get(nsid)).map(|ns| ns.volume).collect();
        self.ftl.age(now, &volumes, past, storage, go_on)
    }

    /// What the drive was built from.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The translation layer below, to be looked at.
    pub fn ftl(&self) -> &Ftl {
        &self.ftl
    }

    /// Commands in flight, Asynchronous Event Requests among them.
    pub fn in_flight(&self) -> u32 {
        self.flight.len()
    }

    /// The time of a call: never earlier than that of the call before.
    #[inline]
    pub(crate) fn tick(&mut self, now: Nanos) -> Nanos {
        self.now = self.now.max(now);
        self.now
    }

    /// The latest time that the drive was told.
    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    /// Bytes of a namespace's logical block (without metadata), and how many blocks it has; `None` if there is no such
    /// namespace.
    #[inline]
    pub fn geometry(&self, nsid: u32) -> Option<(u32, u64)> {
        self.namespaces.get(nsid).map(|ns| (1 << ns.shift, ns.blocks()))
    }

    /// Log D8h of each namespace, as it is now.
    pub fn statistics(&self) -> impl Iterator<Item = NamespaceStatistics> + '_ {
        self.namespaces.iter().filter_map(|(nsid, _)| self.namespace_statistics(nsid, self.now).ok())
    }

    /// How many bytes a command moves, and which way, so that a transport can gather the data of a write
    /// before it submits and make a buffer for a read. [`Transfer::None`] for a command that will be refused
    /// because it is too large or names no attached namespace.
    pub fn transfer(&self, controller: ControllerId, qid: u16, command: &Command) -> Transfer {
        let transfer = nvme::data_transfer(command, qid == 0, |blocks| {
            let attached = self.controllers.get(controller).is_some_and(|c| c.is_attached(blocks.nsid));
            match self.namespaces.get(blocks.nsid) {
                Some(ns) if attached => (1 << ns.shift) + u32::from(ns.layout.wire(blocks.prinfo.pract())),
                _ => 0,
            }
        });
        if transfer.bytes() > u64::from(self.config.max_transfer) { Transfer::None } else { transfer }
    }

    /// Executes a command.
    ///
    /// `io` is the owner's number for it, less than [`MAX_IO`] and not in use; it comes back in exactly one
    /// [`Output::Complete`], in this call or a later one. `data` is the data of commands that the controller
    /// itself reads (Dataset Management, Namespace Management, Set Features, …); contents of Write and Compare
    /// stay in the owner's buffer, which [`ftl::Storage`] finds by `io`.
    #[allow(clippy::too_many_arguments)]
    pub fn submit<S: Contents>(
        &mut self,
        now: Nanos,
        controller: ControllerId,
        qid: u16,
        io: Io,
        command: &Command,
        data: &[u8],
        storage: &mut S,
        out: &mut Vec<Output>,
    ) {
        let now = self.tick(now);
        let mut cx = Cx { now, storage, out };
        let entry = InFlight {
            submitted: now,
            controller: controller.0,
            qid,
            cid: command.cid.get(),
            opcode: command.opc,
            nsid: command.nsid.get(),
            kind: if qid == 0 { Kind::Admin } else { Kind::Other },
            ..InFlight::FREE
        };
        let begun = if self.power.on { self.flight.begin(io, entry) } else { None };
        let Some(token) = begun else {
            // Without power, or with a number that is taken: the host gets an answer, and that is all.
            let status = if self.power.on { Status::INTERNAL_ERROR } else { Status::POWER_LOSS };
            let completion = Completion::new(entry.cid, status);
            cx.out.push(Output::Complete { controller, qid, io, completion });
            return;
        };
        if qid != 0 {
            self.begin_busy(now);
        }
        if qid != 0 && self.fused.waits() {
            self.separate(controller, qid, command, &mut cx);
        }
        match self.admit(now, controller, qid, command) {
            admitted if fused::concerns(command, qid) => {
                self.submit_fused(token, controller, command, admitted, &mut cx);
            }
            Err(failure) => self.fail(token, failure, &mut cx),
            Ok(()) if qid == 0 => self.submit_admin(token, controller, command, data, &mut cx),
            Ok(()) => match IoCommand::parse(command) {
                // By reference: it is too large to be moved.
                Ok(ref command) => self.submit_io(token, controller, command, data, &mut cx),
                Err(status) => self.fail(token, status.into(), &mut cx),
            },
        }
        self.pump(&mut cx);
    }

    /// Begins to bring what a command of an I/O queue will need into the host's cache; changes nothing. Whoever
    /// has the next command at hand while another is submitted gains by it.
    #[inline]
    pub fn prefetch(&self, command: &Command) {
        // The starting LBA of all commands on blocks; of others whatever it is, as bad as no address.
        self.prefetch_block(command.nsid.get(), command.cdw10_11());
    }

    /// The same for a command that will start at this block, for whoever knows no more of it.
    #[inline]
    pub fn prefetch_block(&self, nsid: Nsid, lba: u64) {
        let Some(ns) = self.namespaces.get(nsid) else { return };
        self.ftl.prefetch(ns.volume, lba << ns.shift);
    }

    /// The second step of [`prefetch`](Drive::prefetch), for whoever has several commands at hand: first the one for each
    /// of them, then the other.
    #[inline]
    pub fn prefetch_place(&self, command: &Command) {
        self.prefetch_place_of_block(command.nsid.get(), command.cdw10_11());
    }

    /// The same for a command that will start at this block.
    #[inline]
    pub fn prefetch_place_of_block(&self, nsid: Nsid, lba: u64) {
        let Some(ns) = self.namespaces.get(nsid) else { return };
        self.ftl.prefetch_place(ns.volume, lba << ns.shift);
    }

    /// What every command must fulfil.
    #[inline]
    fn admit(&mut self, now: Nanos, id: ControllerId, qid: u16, command: &Command) -> Result<(), Failure> {
        let controller = self.controllers.get_mut(id).ok_or(Status::COMMAND_SEQUENCE_ERROR)?;
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
        let fused = command.flags.fuse() != 0 && !fused::concerns(command, qid);
        if fused || command.flags.psdt() == 3 {
            return Err(Failure::field(1));
        }
        if self.sanitize.restricts() && (qid != 0 || admin::has(command.opc)) {
            return self.check_sanitize(command, qid == 0);
        }
        Ok(())
    }

    /// Goes on with what an admin command replied.
    pub(crate) fn reply<S: Contents>(&mut self, token: Token, outcome: Outcome, cx: &mut Cx<'_, S>) {
        let (dw0, dw1) = match outcome {
            Err(failure) => return self.fail(token, failure, cx),
            Ok(Reply::Parked) => {
                token.park();
                return;
            }
            Ok(Reply::Done(dw0)) => (dw0, 0),
            Ok(Reply::Data(bytes, dw0)) => {
                cx.out.push(Output::Data { io: token.io(), bytes });
                (dw0, 0)
            }
            Ok(Reply::Wide(value)) => (value as u32, (value >> 32) as u32),
        };
        let entry = self.flight.get_mut(&token);
        entry.dw0 = dw0;
        entry.dw1 = dw1;
        self.schedule(token, cx.now, cx);
    }

    /// Ends a command with a status, and logs it.
    pub(crate) fn fail<S: Contents>(&mut self, token: Token, failure: Failure, cx: &mut Cx<'_, S>) {
        self.note_failure(&token, failure);
        self.schedule(token, cx.now, cx);
    }

    /// Gives a command its status and logs it; it goes on to its end in its own time.
    #[cold]
    pub(crate) fn note_failure(&mut self, token: &Token, failure: Failure) {
        let entry = self.flight.get_mut(token);
        if !entry.status.is_success() {
            return;
        }
        entry.status = failure.status;
        let id = ControllerId(entry.controller);
        let entry = *entry;
        self.life.error_entries += 1;
        // Not what the medium did.
        let refused = [Status::COMPARE_FAILURE, Status::ACCESS_DENIED].iter().any(|s| failure.status.is(*s));
        if failure.status.sct() == nvme::status::Sct::MEDIA && !refused {
            self.life.media_errors += 1;
            if let Some(ns) = self.namespaces.get_mut(entry.nsid) {
                ns.stats.media_errors += 1;
                self.life.traffic_mut(ns.set).media_errors += 1;
            }
        }
        let Some(controller) = self.controllers.get_mut(id) else { return };
        self.flight.get_mut(token).status = failure.status.with_more();
        controller.log_error(ErrorInformation {
            sqid: U16::new(entry.qid),
            cmdid: U16::new(entry.cid),
            status_info: U16::new(failure.status.with_more().0 << 1),
            pel: U16::new(failure.location),
            lba: U64::new(entry.lba),
            nsid: U32::new(entry.nsid),
            opc: entry.opcode,
            cs: U64::new(failure.information),
            lpver: 1,
            ..ErrorInformation::default()
        });
    }

    /// The translation layer has answered: the command ends at `at`, plus what the link and the firmware
    /// take.
    #[inline]
    pub(crate) fn schedule<S: Contents>(&mut self, token: Token, at: Nanos, cx: &mut Cx<'_, S>) {
        let mut at = at.max(cx.now);
        let entry = self.flight.get_mut(&token);
        if entry.status.is_success() {
            let (link, rate) = match entry.kind {
                Kind::Read => (&mut self.read_link, self.link.read_bytes_per_second),
                Kind::Write | Kind::Compare => (&mut self.write_link, self.link.write_bytes_per_second),
                _ => (&mut self.read_link, 0),
            };
            if rate != 0 {
                let span = Nanos::of_transfer(entry.bytes.into(), rate);
                at = link.reserve(cx.now, at, span) + span;
            }
            let span = self.link.command_interval;
            if span != Nanos::ZERO && matches!(entry.kind, Kind::Read | Kind::Write | Kind::Compare) {
                at = self.processor.reserve(cx.now, at, span) + span;
            }
        }
        at += match entry.kind {
            Kind::Write => self.link.write_overhead,
            _ => self.link.command_overhead,
        };
        entry.at = at;
        if at <= cx.now {
            self.end(token, cx);
        } else {
            self.events.push(at, Event::End(token.park()));
        }
    }

    /// A command's time has come.
    #[inline]
    fn end<S: Contents>(&mut self, token: Token, cx: &mut Cx<'_, S>) {
        let entry = self.flight.get_mut(&token);
        if entry.sync && entry.status.is_success() && (entry.forget || cx.storage.must_sync()) {
            entry.stage = Stage::Syncing;
            let forget = entry.forget;
            let io = token.io();
            token.park();
            cx.out.push(if forget { Output::Forget { io, all: false } } else { Output::Sync { io } });
            return;
        }
        self.complete(token, cx);
    }

    /// Delivers a command's completion.
    #[inline]
    pub(crate) fn complete<S: Contents>(&mut self, token: Token, cx: &mut Cx<'_, S>) {
        let io = token.io();
        if self.flight.get_mut(&token).fused {
            self.abandon_first(&token, cx);
        }
        let entry = self.flight.end(token);
        if entry.cost != 0 {
            self.fair.end(entry.set, entry.cost);
            if let Some(ns) = self.namespaces.get_mut(entry.nsid) {
                ns.lanes.end(entry.cost);
            }
        }
        if entry.qid != 0 {
            self.end_busy(entry.at.max(entry.submitted));
            self.account(&entry, cx);
        }
        let mut completion = Completion::success(entry.cid, entry.dw0).with_status(entry.status);
        completion.dw1 = U32::new(entry.dw1);
        cx.out.push(Output::Complete {
            controller: ControllerId(entry.controller),
            qid: entry.qid,
            io,
            completion,
        });
    }

    /// Makes an NVM Set that is written in place answer reads so much later than its medium says, as a disk would. For tests.
    #[cfg(feature = "late-reads")]
    pub fn answer_reads_later(&mut self, set: u16, by: Nanos) {
        self.ftl.answer_reads_later(ftl::SetId((set - 1) as u8), by);
    }

    /// A part of a command that the translation layer answered later is done.
    fn part_done<S: Contents>(&mut self, done: Done, cx: &mut Cx<'_, S>) {
        if done.io == sanitize::IO {
            return self.sanitize_erased(done.at);
        }
        if done.io == selftest::IO {
            return self.self_test_read(done, cx);
        }
        if done.io.0 >= MAX_IO {
            return self.shutdown_done(done);
        }
        let Some(token) = self.flight.unpark(done.io.0) else { return };
        let (kind, fused) = (self.flight.get_mut(&token).kind, self.flight.get_mut(&token).fused);
        if fused {
            return self.pair_done(token, done.at, done.result, cx);
        }
        if let Err(fault) = done.result {
            self.note_failure(&token, Failure::of_fault(fault, kind));
        }
        let entry = self.flight.get_mut(&token);
        entry.at = entry.at.max(done.at);
        entry.parts = entry.parts.saturating_sub(1);
        if entry.parts > 0 {
            token.park();
        } else {
            let at = entry.at;
            self.schedule(token, at, cx);
        }
    }

    /// Runs everything that is due.
    #[inline]
    pub(crate) fn pump<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        loop {
            while self.ftl.due() <= cx.now {
                self.poll_ftl(cx);
            }
            if self.power.cut.is_some() && self.cut_is_due(cx) {
                return;
            }
            let Some((_, event)) = self.events.pop_due(cx.now) else {
                if std::mem::take(&mut self.fair.stirred) {
                    self.share(cx);
                    continue;
                }
                break;
            };
            match event {
                Event::End(io) => {
                    if let Some(token) = self.flight.unpark(io) {
                        self.end(token, cx);
                    }
                }
                Event::Lane(nsid, way) => self.lane_due(nsid, way, cx),
                Event::KeepAlive(id, timer) => self.keep_alive_due(id, timer, cx),
                Event::Window(set, number) => self.window_due(set, number, cx),
                Event::LbaAlert(id) => self.alert(id, cx),
                Event::SelfTest(number) => self.self_test_step(number, cx),
                Event::ShutdownComplete(of) => self.shutdown_complete(of, cx),
                Event::Sanitize => self.sanitize_due(cx),
            }
        }
        if self.ftl.losses() != self.lost.known {
            self.note_losses(cx);
        }
        if !self.waiting.is_empty() {
            self.retry_waiting(cx);
        }
        if !self.preempting.is_empty() {
            self.end_preempts(cx);
        }
        if self.sanitize.waits() {
            self.sanitize_if_idle(cx);
        }
    }

    fn poll_ftl<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        let mut done = std::mem::take(&mut self.done);
        self.ftl.poll(cx.now, cx.storage, &mut done);
        for d in done.drain(..) {
            self.part_done(d, cx);
        }
        self.done = done;
    }

    /// Runs every event that is due at `now`, each at its own time: what comes of it is the same however late the call is.
    pub fn poll<S: Contents>(&mut self, now: Nanos, storage: &mut S, out: &mut Vec<Output>) {
        let mut cx = Cx { now: self.now, storage, out };
        while self.due() <= now {
            cx.now = self.tick(self.due());
            self.pump(&mut cx);
        }
        let late = cx.now < now;
        cx.now = self.tick(now);
        // Also if nothing is due: writes may wait for contents to become free.
        if self.power.on && (late || self.ftl.lacks_slots()) {
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
        if self.power.on { self.events.due().min(self.ftl.due()) } else { Nanos::MAX }
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
        let now = self.tick(now);
        let mut cx = Cx { now, storage, out };
        if io == sanitize::IO {
            self.sanitize_synced(ok, &mut cx);
            return self.pump(&mut cx);
        }
        let Some(token) = self.flight.unpark(io.0) else { return };
        let entry = self.flight.get_mut(&token);
        if entry.stage != Stage::Syncing {
            token.park();
            return;
        }
        entry.stage = Stage::Running;
        entry.sync = false;
        entry.at = entry.at.max(now);
        if !ok {
            self.note_failure(&token, Failure::transient(Status::INTERNAL_ERROR));
        }
        self.complete(token, &mut cx);
        self.pump(&mut cx);
    }

    /// Gives back a parked command of its controller with a status, as a reset or an abort does.
    pub(crate) fn return_parked<S: Contents>(&mut self, io: u32, status: Status, cx: &mut Cx<'_, S>) {
        if let Some(token) = self.flight.unpark(io) {
            self.flight.get_mut(&token).status = status;
            self.complete(token, cx);
        }
    }

    /// A parked Asynchronous Event Request is answered.
    pub(crate) fn answer_event<S: Contents>(&mut self, answered: (u32, u32), cx: &mut Cx<'_, S>) {
        if let Some(token) = self.flight.unpark(answered.0) {
            self.flight.get_mut(&token).dw0 = answered.1;
            self.complete(token, cx);
        }
    }

    pub(crate) fn controller(&self, id: ControllerId) -> Result<&Controller, Failure> {
        self.controllers.get(id).ok_or(Failure::transient(Status::COMMAND_SEQUENCE_ERROR))
    }

    pub(crate) fn controller_mut(&mut self, id: ControllerId) -> Result<&mut Controller, Failure> {
        self.controllers.get_mut(id).ok_or(Failure::transient(Status::COMMAND_SEQUENCE_ERROR))
    }

    #[inline]
    fn begin_busy(&mut self, now: Nanos) {
        if self.busy.0 == 0 {
            self.busy.1 = now;
        }
        self.busy.0 += 1;
    }

    #[inline]
    fn end_busy(&mut self, now: Nanos) {
        self.busy.0 -= 1;
        if self.busy.0 == 0 {
            self.life.busy += now.since(self.busy.1).0;
        }
    }

    /// Whether any command of an I/O queue is on its way.
    pub(crate) fn io_under_way(&self) -> bool {
        self.busy.0 > 0
    }

    /// Nanoseconds during which there was an I/O command on its way.
    pub(crate) fn busy_time(&self, now: Nanos) -> u64 {
        let current = if self.busy.0 > 0 { now.since(self.busy.1).0 } else { 0 };
        self.life.busy + current
    }

    /// Forgets all that was under way.
    pub(crate) fn clear_links(&mut self) {
        self.busy.0 = 0;
        self.read_link.clear();
        self.write_link.clear();
        self.processor.clear();
        self.done.clear();
    }
}
