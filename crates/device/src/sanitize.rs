//! Sanitize (Base 5.1.22, 8.1.24): all that hosts ever wrote is made unreadable, on every NVM Set, in the buffer and in
//! what the owner keeps.
//!
//! An operation goes through these stages: the state is recorded and made durable, and only then does the command complete
//! (so that no power cut can undo what a host was told); I/O under way ends; the translation layer gives everything up and
//! erases the flash; for Overwrite the passes take their time; the owner forgets contents and older states. From the first
//! stage to the last no command reaches user data. After a power cut it starts again at the second stage.

use crate::contents::Contents;
use crate::core::{AsyncEvent, ControllerId, Cx, Failure, Outcome, Output, Reply, TimedEvent, Token};
use crate::drive::Drive;
use crate::keys;
use crate::log_table;
use crate::persistent_event_log;
use crate::self_test;
use crate::streams::open::Streams;
use ftl::{Answer, Io, SetConfig, SetProperties};
use media::Nanos;
use nvme::admin::{Sanitize, SanitizeAction};
use nvme::command::AdminOpcode;
use nvme::command_table;
use nvme::log::SelfTestOutcome;
use nvme::log::{LogId, SanitizeOperationStatus, SanitizeSstat, SanitizeStatus};
use nvme::{Command, Status, U16, U32};
use serde::{Deserialize, Serialize};

/// The drive's own number among those of commands.
pub(crate) const IO: Io = Io(u32::MAX);

/// Passes of an overwrite for which the log estimates the time.
const MOST_PASSES: u32 = 16;

/// What is known of the most recent operation, and outlives power.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    state: State,
    /// Dwords 10 and 11 of its command.
    cdw10: u32,
    pattern: u32,
    /// A host has left the failure mode.
    exited: bool,
    /// The translation layer's version when it ended well.
    version: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
enum State {
    #[default]
    Never,
    InProgress,
    Completed,
    Failed,
}

/// An operation under way.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    stage: Stage,
    /// When it began, and when it should end by the media's times.
    began: Nanos,
    end: Nanos,
    /// When the first pass of an overwrite began.
    passes_began: Nanos,
    /// Whether commands that touch user data are refused.
    restricts: bool,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    None,
    /// The state is being made durable for this command; what there was before it.
    Announced(u32, Record),
    /// Waits until no I/O is under way.
    Waiting,
    Erasing,
    Overwriting,
    Forgetting,
}

impl Progress {
    /// Whether it can begin once no I/O is under way.
    #[inline]
    pub fn waits(&self) -> bool {
        matches!(self.stage, Stage::Waiting)
    }

    /// Whether commands that touch user data are refused.
    #[inline]
    pub fn restricts(&self) -> bool {
        self.restricts
    }

    fn is_under_way(&self) -> bool {
        !matches!(self.stage, Stage::None)
    }
}

/// The command that an operation began with, as far as it matters.
impl Record {
    fn command(&self) -> Option<Sanitize> {
        let mut command = Command::new(AdminOpcode::SANITIZE.0, 0);
        (command.cdw10, command.cdw11) = (U32::new(self.cdw10), U32::new(self.pattern));
        match nvme::AdminCommand::parse(&command) {
            Ok(nvme::AdminCommand::Sanitize(c)) => Some(c),
            _ => None,
        }
    }

    fn unrestricted(&self) -> bool {
        self.command().is_some_and(|c| c.ause)
    }

    fn is_crypto(&self) -> bool {
        self.command().is_some_and(|c| c.sanact == SanitizeAction::CRYPTO_ERASE)
    }

    fn passes(&self) -> u32 {
        match self.command() {
            Some(c) if c.sanact == SanitizeAction::OVERWRITE && c.owpass == 0 => MOST_PASSES,
            Some(c) if c.sanact == SanitizeAction::OVERWRITE => c.owpass.into(),
            _ => 0,
        }
    }
}

impl Drive {
    /// Sanitize.
    pub(crate) fn sanitize<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        c: Sanitize,
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        let record = self.core.persistent.sanitize;
        if self.sanitize.is_under_way() {
            return Err(Failure::transient(Status::SANITIZE_IN_PROGRESS));
        }
        let failed = record.state == State::Failed && !record.exited;
        match c.sanact {
            SanitizeAction::EXIT_FAILURE_MODE if !failed => return Ok(Reply::Done(0)),
            SanitizeAction::EXIT_FAILURE_MODE if record.unrestricted() => {
                self.core.persistent.sanitize.exited = true;
                self.sanitize.restricts = false;
                self.core.record(cx.storage);
                return Ok(Reply::Done(0));
            }
            SanitizeAction::EXIT_FAILURE_MODE => return Err(Status::SANITIZE_FAILED.into()),
            SanitizeAction::BLOCK_ERASE | SanitizeAction::OVERWRITE => {}
            SanitizeAction::CRYPTO_ERASE if keys::can_crypto_erase(&self.core) => {}
            // Data in the clear, no verification (SANICAP).
            _ => return Err(Failure::field(40)),
        }
        if failed && !record.unrestricted() && c.ause {
            return Err(Status::SANITIZE_FAILED.into());
        }
        if c.ndas || c.emvs {
            // Everything is deallocated always (SANICAP.NDI), and then there is nothing to be verified.
            return Err(Failure::field(41));
        }
        if self.core.drive_key.locked {
            return Err(Status::ACCESS_DENIED.into());
        }
        self.core.check_access(id)?;
        if self.core.persistent.firmware.is_pending() {
            // Base 5.1.22: firmware that waits for a reset comes first.
            return Err(Status::FIRMWARE_NEEDS_CONTROLLER_RESET.into());
        }
        let cdw10 = Command::from(c).cdw10.get();
        self.core.persistent.sanitize =
            Record { state: State::InProgress, cdw10, pattern: c.ovrpat, exited: false, version: 0 };
        self.sanitize = Progress {
            stage: Stage::Announced(token.io().0, record),
            restricts: true,
            ..Progress::default()
        };
        self_test::end(&mut self.core, SelfTestOutcome::SANITIZE, cx);
        for (_, controller) in self.core.controllers.iter_mut() {
            // Of an earlier operation.
            controller.events.withdraw(AsyncEvent::Sanitized);
            controller.streams.values_mut().for_each(Streams::release);
        }
        let sanicap = self.identify_controller(id).sanicap;
        persistent_event_log::sanitize_start(&mut self.core, cx.now, id, c, sanicap);
        self.core.record(cx.storage);
        cx.out.push(Output::Sync { io: IO });
        Ok(Reply::Parked)
    }

    /// What must not be executed now: everything that could touch user data.
    pub(crate) fn check_sanitize(&self, command: &Command, admin: bool) -> Result<(), Failure> {
        let log = LogId(command.cdw10.get() as u8);
        let reads_log = admin && AdminOpcode(command.opc) == AdminOpcode::GET_LOG_PAGE;
        let allowed = command_table::of(command.opc, admin).is_some_and(|info| info.during_sanitize)
            && (!reads_log || log_table::of(log).is_some_and(|info| info.during_sanitize));
        match (allowed, self.sanitize.is_under_way()) {
            (true, _) => Ok(()),
            (false, true) => Err(Failure::transient(Status::SANITIZE_IN_PROGRESS)),
            (false, false) => Err(Status::SANITIZE_FAILED.into()),
        }
    }

    /// The owner has done, or failed to do, what an operation asked for.
    pub(crate) fn sanitize_synced<S: Contents>(&mut self, ok: bool, cx: &mut Cx<'_, S>) {
        match std::mem::take(&mut self.sanitize.stage) {
            Stage::Announced(io, before) => {
                let token = self.core.commands.unpark(io);
                if ok {
                    self.sanitize_start(cx.now);
                    self.core.return_waiting(cx);
                } else {
                    self.core.persistent.sanitize = before;
                    self.sanitize.restricts = before.state == State::Failed && !before.exited;
                    self.core.record(cx.storage);
                }
                let Some(token) = token else { return };
                let failure = Failure::transient(Status::INTERNAL_ERROR);
                self.core.reply(token, if ok { Ok(Reply::Done(0)) } else { Err(failure) }, cx);
            }
            Stage::Forgetting => self.sanitize_end(ok, cx),
            other => self.sanitize.stage = other,
        }
    }

    /// Power is back, or the state is durable: an operation in progress goes on as soon as no I/O is under way.
    pub(crate) fn sanitize_start(&mut self, now: Nanos) {
        let record = self.core.persistent.sanitize;
        self.sanitize = Progress::default();
        match record.state {
            State::InProgress => {
                self.sanitize.stage = Stage::Waiting;
                self.sanitize.began = now;
                self.sanitize.restricts = true;
                self.core.events.push(now, TimedEvent::Sanitize);
            }
            State::Failed => self.sanitize.restricts = !record.exited,
            State::Never | State::Completed => {}
        }
    }

    /// Begins to erase if nothing is in the way.
    pub(crate) fn sanitize_if_idle<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        // A drive that was opened without its key goes on when it is opened with it.
        if !self.sanitize.waits()
            || self.core.io_under_way()
            || !self.shutdowns.is_empty()
            || self.core.drive_key.locked
        {
            return;
        }
        let passes = self.core.persistent.sanitize.passes();
        let erase = if self.core.persistent.sanitize.is_crypto() { 0 } else { self.erase_time().0 };
        let span = erase.saturating_add(self.pass_time().0.saturating_mul(passes.into()));
        self.sanitize.began = cx.now;
        self.sanitize.end = cx.now + Nanos(span);
        self.sanitize.stage = Stage::Erasing;
        for id in self.core.controllers.ids() {
            let Some(controller) = self.core.controllers.get_mut(id) else { continue };
            // Where data was is nobody's business any more.
            controller.errors.iter_mut().for_each(|e| e.lba.set(0));
        }
        if !self.renew_keys(cx) {
            return self.sanitize_end(false, cx);
        }
        let erased = match self.core.persistent.sanitize.is_crypto() {
            // What the media hold cannot be read any more; it is collected as garbage in time.
            true => self.give_up_all(cx),
            false => {
                self.windows.leave_all(&mut self.core, cx);
                self.core.ftl.purge(cx.now, IO, cx.storage)
            }
        };
        match erased {
            Answer::At(at) => self.sanitize_erased(at),
            Answer::Later => {}
            Answer::Failed(_) => self.sanitize_end(false, cx),
        }
    }

    /// Every namespace gets a new key, if there is a drive key.
    fn renew_keys<S: Contents>(&mut self, cx: &mut Cx<'_, S>) -> bool {
        self.core
            .namespaces
            .ids()
            .into_iter()
            .all(|nsid| keys::renew(&mut self.core, nsid, cx.storage).is_ok())
    }

    /// Deallocates all namespaces.
    fn give_up_all<S: Contents>(&mut self, cx: &mut Cx<'_, S>) -> Answer {
        for nsid in self.core.namespaces.ids() {
            let Some(ns) = self.core.namespaces.get(nsid) else { continue };
            let (volume, bytes) = (ns.volume, ns.volume_bytes());
            if let Err(fault) = self.core.ftl.trim(cx.now, volume, 0, bytes, cx.storage) {
                return Answer::Failed(fault);
            }
        }
        Answer::At(cx.now)
    }

    /// The flash is erased.
    pub(crate) fn sanitize_erased(&mut self, at: Nanos) {
        if !matches!(self.sanitize.stage, Stage::Erasing) {
            return;
        }
        let passes = self.core.persistent.sanitize.passes();
        let end = at + Nanos(self.pass_time().0.saturating_mul(passes.into()));
        self.sanitize.stage = Stage::Overwriting;
        (self.sanitize.passes_began, self.sanitize.end) = (at, end);
        self.core.events.push(end, TimedEvent::Sanitize);
    }

    /// An event of an operation is due.
    pub(crate) fn sanitize_due<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        match self.sanitize.stage {
            Stage::Waiting => self.sanitize_if_idle(cx),
            Stage::Overwriting if self.sanitize.end <= cx.now => {
                self.sanitize.stage = Stage::Forgetting;
                cx.out.push(Output::Forget { io: IO, all: !self.core.persistent.sanitize.is_crypto() });
            }
            _ => {}
        }
    }

    fn sanitize_end<S: Contents>(&mut self, ok: bool, cx: &mut Cx<'_, S>) {
        self.sanitize.stage = Stage::None;
        self.sanitize.restricts = !ok;
        self.core.persistent.sanitize.state = if ok { State::Completed } else { State::Failed };
        self.core.persistent.sanitize.version = self.core.ftl.version();
        if ok {
            let keyed = self.core.namespaces.iter().all(|(_, ns)| ns.key.is_some());
            self.core.persistent.encrypted = keyed && self.core.drive_key.keyed;
        }
        let status = self.sanitize_status(cx.now);
        persistent_event_log::sanitize_end(&mut self.core, cx.now, &status);
        self.core.record(cx.storage);
        for id in self.core.controllers.ids() {
            let Some(controller) = self.core.controllers.get_mut(id) else { continue };
            let configuration = controller.values.events();
            if let Some(answered) = controller.events.raise(AsyncEvent::Sanitized, configuration) {
                self.core.answer_event(answered, cx);
            }
        }
    }

    /// How long it takes to erase all flash.
    fn erase_time(&self) -> Nanos {
        self.longest(|set| set.erase_time)
    }

    /// How long one pass over all media takes.
    fn pass_time(&self) -> Nanos {
        self.longest(|set| set.overwrite_time)
    }

    /// Of all NVM Sets, which work in parallel; nothing with timing off.
    fn longest(&self, time: impl Fn(&SetProperties) -> Nanos) -> Nanos {
        let sets = self.core.config.ftl.sets.iter().map(SetConfig::properties);
        if self.core.config.timing {
            sets.map(|set| time(&set)).max().unwrap_or_default()
        } else {
            Nanos::ZERO
        }
    }

    /// Whether user data was written since the drive was made, or sanitized.
    fn written(&self) -> bool {
        let record = self.core.persistent.sanitize;
        let since = if record.state == State::Completed { record.version } else { 0 };
        self.core.ftl.version() != since
    }

    /// The Sanitize Status log.
    pub(crate) fn sanitize_status(&self, now: Nanos) -> SanitizeStatus {
        let (record, progress) = (self.core.persistent.sanitize, &self.sanitize);
        // The state of the state machine (SSI) is told by drives with media verification only (SANICAP.VERS).
        let sos = match record.state {
            State::Never => SanitizeOperationStatus::NEVER,
            State::Completed => SanitizeOperationStatus::COMPLETED,
            State::InProgress => SanitizeOperationStatus::IN_PROGRESS,
            State::Failed => SanitizeOperationStatus::FAILED,
        };
        let sprog = match record.state {
            State::InProgress => {
                let (done, span) = (now.since(progress.began).0, progress.end.since(progress.began).0);
                let share = u128::from(done.min(span)) * 0xFFFE / u128::from(span.max(1));
                u16::try_from(share).unwrap_or(0xFFFE)
            }
            _ => 0xFFFF,
        };
        let passes = match (record.state, &progress.stage) {
            (State::Completed, _) | (_, Stage::Forgetting) => u64::from(record.passes()),
            (_, Stage::Overwriting) => {
                let pass = self.pass_time().0.max(1);
                (now.since(progress.passes_began).0 / pass).min(record.passes().into())
            }
            _ => 0,
        };
        let seconds =
            |time: Nanos| U32::new(u32::try_from(time.0.div_ceil(1_000_000_000)).unwrap_or(u32::MAX - 1));
        let overwrite = Nanos(self.pass_time().0.saturating_mul(MOST_PASSES.into()));
        SanitizeStatus {
            sprog: U16::new(sprog),
            sstat: SanitizeSstat::new()
                .with_sos(sos)
                .with_opc(passes.min(31) as u8)
                .with_gde(!self.written()),
            scdw10: U32::new(record.cdw10),
            eto: seconds(self.erase_time() + overwrite),
            etbe: seconds(self.erase_time()),
            etce: if keys::can_crypto_erase(&self.core) { U32::new(0) } else { U32::new(u32::MAX) },
            etond: U32::new(u32::MAX),
            etbend: U32::new(u32::MAX),
            etcend: U32::new(u32::MAX),
            etpvds: U32::new(u32::MAX),
            ..SanitizeStatus::default()
        }
    }
}
