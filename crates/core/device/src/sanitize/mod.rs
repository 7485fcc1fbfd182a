//! Sanitize (Base 5.1.22, 8.1.24): everything that hosts ever wrote is made unreadable, on every NVM Set, in the buffer and
//! in what the owner of contents keeps.
//!
//! An operation has these stages. From the first to the last one no command reaches user data.
//! 1. The state is recorded and made durable. Only then does the command complete, so that no power cut can undo what a host
//!    was told.
//! 2. I/O that is under way ends.
//! 3. The namespaces are deallocated in steps of bounded work. Then the translation layer erases the flash.
//! 4. The passes of an Overwrite take their time.
//! 5. The owner of contents forgets contents and older states.
//!
//! After a power cut the operation starts again at the second stage.

pub(crate) mod record;

use crate::contents::Contents;
use crate::core::{
    AdminResult, AsyncEvent, ControllerId, Core, Cx, Failure, Output, Reply, TimedEvent, Token,
};
use crate::log_table;
use ftl::{Answer, Io, SetConfig, SetProperties};
use media::Nanos;
use nvme::admin::{Sanitize, SanitizeAction};
use nvme::command::AdminOpcode;
use nvme::command_table;
use nvme::log::{LogId, SanitizeOperationStatus, SanitizeSstat, SanitizeStatus};
use nvme::{Command, Status, U16, U32};
use record::{MOST_PASSES, SanitizeRecord, SanitizeState};

/// The drive's own number among those of commands.
pub(crate) const SANITIZE_IO: Io = Io(u32::MAX);

/// The operation under way, if there is one.
#[derive(Debug, Default)]
pub(crate) struct SanitizeOperation {
    stage: SanitizeStage,
    /// When it began, and when it should end by the media's times.
    began: Nanos,
    end: Nanos,
    /// When the first pass of an overwrite began.
    passes_began: Nanos,
    /// Whether commands that touch user data are refused.
    restricts: bool,
}

#[derive(Debug, Default)]
enum SanitizeStage {
    #[default]
    None,
    /// The state is being made durable for this command. The record is the one of before.
    Announced(u32, SanitizeRecord),
    /// Waits until no I/O is under way.
    Waiting,
    Erasing,
    Overwriting,
    Forgetting,
}

impl SanitizeOperation {
    /// Whether it can begin to erase once no I/O is under way.
    #[inline]
    pub fn waits(&self) -> bool {
        matches!(self.stage, SanitizeStage::Waiting)
    }

    /// Whether commands that touch user data are refused.
    #[inline]
    pub fn restricts(&self) -> bool {
        self.restricts
    }

    fn is_under_way(&self) -> bool {
        !matches!(self.stage, SanitizeStage::None)
    }

    /// Checks the command Sanitize, and leaves the failure mode if it asks for that. `crypto_erase` says whether new keys make
    /// everything unreadable. Returns whether an operation is to be [announced](Self::announce).
    ///
    /// # Errors
    /// If the drive cannot or must not do it.
    pub fn admit<S: Contents>(
        &mut self,
        core: &mut Core,
        id: ControllerId,
        c: &Sanitize,
        crypto_erase: bool,
        cx: &mut Cx<'_, S>,
    ) -> Result<bool, Failure> {
        let record = core.persistent.sanitize;
        if self.is_under_way() {
            return Err(Failure::transient(Status::SANITIZE_IN_PROGRESS));
        }
        let failed = record.in_failure_mode();
        match c.sanact {
            SanitizeAction::EXIT_FAILURE_MODE if !failed => return Ok(false),
            SanitizeAction::EXIT_FAILURE_MODE if record.unrestricted() => {
                core.persistent.sanitize.exited = true;
                self.restricts = false;
                core.record(cx.storage);
                return Ok(false);
            }
            SanitizeAction::EXIT_FAILURE_MODE => return Err(Status::SANITIZE_FAILED.into()),
            SanitizeAction::BLOCK_ERASE | SanitizeAction::OVERWRITE => {}
            SanitizeAction::CRYPTO_ERASE if crypto_erase => {}
            // Not with data in the clear; there is no media verification (SANICAP).
            _ => return Err(Failure::field(40)),
        }
        if failed && !record.unrestricted() && c.ause {
            return Err(Status::SANITIZE_FAILED.into());
        }
        if c.ndas || c.emvs {
            // Everything is deallocated always (SANICAP.NDI), and then there is nothing to be verified.
            return Err(Failure::field(41));
        }
        if core.drive_key.locked {
            return Err(Status::ACCESS_DENIED.into());
        }
        core.check_access(id)?;
        if core.persistent.firmware.is_pending() {
            // Base 5.1.22: firmware that waits for a reset comes first.
            return Err(Status::FIRMWARE_NEEDS_CONTROLLER_RESET.into());
        }
        Ok(true)
    }

    /// An admitted operation begins: from now on no command reaches user data. Then the drive notes it, and calls
    /// [`make_durable`](Self::make_durable).
    pub fn announce(&mut self, core: &mut Core, token: &Token, c: &Sanitize) {
        let before = std::mem::replace(&mut core.persistent.sanitize, SanitizeRecord::begun(c));
        let stage = SanitizeStage::Announced(token.io().0, before);
        *self = SanitizeOperation { stage, restricts: true, ..SanitizeOperation::default() };
        for (_, controller) in core.controllers.iter_mut() {
            // Of an earlier operation.
            controller.events.withdraw(AsyncEvent::Sanitized);
            controller.streams.values_mut().for_each(|streams| streams.release());
        }
    }

    /// The command waits until its state is durable ([`synced`](Self::synced)).
    pub fn make_durable<S: Contents>(&self, core: &Core, cx: &mut Cx<'_, S>) -> AdminResult {
        core.record(cx.storage);
        cx.out.push(Output::Sync { io: SANITIZE_IO });
        Ok(Reply::Parked)
    }

    /// Whether a command may be executed now: nothing that could touch user data.
    pub fn check(&self, command: &Command, admin: bool) -> Result<(), Failure> {
        let log = LogId(command.cdw10.get() as u8);
        let reads_log = admin && AdminOpcode(command.opc) == AdminOpcode::GET_LOG_PAGE;
        let allowed = command_table::of(command.opc, admin).is_some_and(|info| info.during_sanitize)
            && (!reads_log || log_table::of(log).is_some_and(|info| info.during_sanitize));
        match (allowed, self.is_under_way()) {
            (true, _) => Ok(()),
            (false, true) => Err(Failure::transient(Status::SANITIZE_IN_PROGRESS)),
            (false, false) => Err(Status::SANITIZE_FAILED.into()),
        }
    }

    /// The owner has done, or failed to do, what an operation asked for. Returns how the operation has ended, if it has.
    pub fn synced<S: Contents>(&mut self, core: &mut Core, ok: bool, cx: &mut Cx<'_, S>) -> Option<bool> {
        match std::mem::take(&mut self.stage) {
            SanitizeStage::Announced(io, before) => {
                let token = core.commands.unpark(io);
                if ok {
                    self.start(core, cx.now);
                    core.return_waiting(cx);
                } else {
                    core.persistent.sanitize = before;
                    self.restricts = before.in_failure_mode();
                    core.record(cx.storage);
                }
                let failure = Failure::transient(Status::INTERNAL_ERROR);
                if let Some(token) = token {
                    core.reply(token, if ok { Ok(Reply::Done(0)) } else { Err(failure) }, cx);
                }
                None
            }
            SanitizeStage::Forgetting => Some(ok),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// Power is back, or the state is durable: an operation in progress goes on as soon as no I/O is under way.
    pub fn start(&mut self, core: &mut Core, now: Nanos) {
        let record = core.persistent.sanitize;
        *self = SanitizeOperation { restricts: record.in_failure_mode(), ..SanitizeOperation::default() };
        if record.state == SanitizeState::InProgress {
            (self.stage, self.began, self.restricts) = (SanitizeStage::Waiting, now, true);
            core.events.push(now, TimedEvent::Sanitize);
        }
    }

    /// Begins to erase if nothing is in the way. Returns whether it does: then the drive renews the keys of namespaces, deallocates them,
    /// and calls [`erase`](Self::erase).
    pub fn begin_erase(&mut self, core: &mut Core, shutting_down: bool, now: Nanos) -> bool {
        // A drive that was opened without its key goes on when it is opened with it.
        if !self.waits() || core.io_under_way() || shutting_down || core.drive_key.locked {
            return false;
        }
        // The times of the media begin with the erase.
        (self.began, self.end) = (now, now);
        self.stage = SanitizeStage::Erasing;
        for (_, controller) in core.controllers.iter_mut() {
            // Where data was is no longer told.
            controller.errors.iter_mut().for_each(|e| e.lba.set(0));
        }
        true
    }

    /// Erases everything, which is deallocated; with new keys, there is little to do. Returns false if that fails.
    pub fn erase<S: Contents>(&mut self, core: &mut Core, cx: &mut Cx<'_, S>) -> bool {
        let record = core.persistent.sanitize;
        let erase = if record.is_crypto() { 0 } else { erase_time(core).0 };
        let span = erase.saturating_add(pass_time(core).0.saturating_mul(record.passes().into()));
        (self.began, self.end) = (cx.now, cx.now + Nanos(span));
        let answer = match record.is_crypto() {
            // What the media hold cannot be read any more. Garbage collection erases it in time.
            true => scrub_all(core, cx),
            false => core.ftl.purge(cx.now, SANITIZE_IO, cx.storage),
        };
        match answer {
            Answer::At(at) => self.erased(core, at),
            Answer::Later => {}
            Answer::Failed(_) => return false,
        }
        true
    }

    /// The flash is erased.
    pub fn erased(&mut self, core: &mut Core, at: Nanos) {
        if !matches!(self.stage, SanitizeStage::Erasing) {
            return;
        }
        let passes = core.persistent.sanitize.passes();
        let end = at + Nanos(pass_time(core).0.saturating_mul(passes.into()));
        self.stage = SanitizeStage::Overwriting;
        (self.passes_began, self.end) = (at, end);
        core.events.push(end, TimedEvent::Sanitize);
    }

    /// The time has come for the last stage: the owner is to forget.
    pub fn forget_if_due<S: Contents>(&mut self, core: &Core, cx: &mut Cx<'_, S>) {
        if matches!(self.stage, SanitizeStage::Overwriting) && self.end <= cx.now {
            self.stage = SanitizeStage::Forgetting;
            cx.out.push(Output::Forget { io: SANITIZE_IO, all: !core.persistent.sanitize.is_crypto() });
        }
    }

    /// The operation has ended, well or not. Then the drive notes it, and calls [`tell_end`].
    pub fn end(&mut self, core: &mut Core, ok: bool) {
        self.stage = SanitizeStage::None;
        self.restricts = !ok;
        core.persistent.sanitize.state = if ok { SanitizeState::Completed } else { SanitizeState::Failed };
        core.persistent.sanitize.version = core.ftl.version();
        if ok {
            let keyed = core.namespaces.iter().all(|(_, ns)| ns.key.is_some());
            core.persistent.encrypted = keyed && core.drive_key.keyed;
        }
    }

    /// The Sanitize Status log. `crypto_erase` says whether new keys make everything unreadable.
    pub fn status(&self, core: &Core, crypto_erase: bool, now: Nanos) -> SanitizeStatus {
        let record = core.persistent.sanitize;
        // The state of the state machine (SSI) is told by drives with media verification only (SANICAP.VERS).
        let sos = match record.state {
            SanitizeState::Never => SanitizeOperationStatus::NEVER,
            SanitizeState::Completed => SanitizeOperationStatus::COMPLETED,
            SanitizeState::InProgress => SanitizeOperationStatus::IN_PROGRESS,
            SanitizeState::Failed => SanitizeOperationStatus::FAILED,
        };
        let sprog = match record.state {
            SanitizeState::InProgress => {
                let (done, span) = (now.since(self.began).0, self.end.since(self.began).0);
                let share = u128::from(done.min(span)) * 0xFFFE / u128::from(span.max(1));
                u16::try_from(share).unwrap_or(0xFFFE)
            }
            _ => 0xFFFF,
        };
        let passes = match (record.state, &self.stage) {
            (SanitizeState::Completed, _) | (_, SanitizeStage::Forgetting) => u64::from(record.passes()),
            (_, SanitizeStage::Overwriting) => {
                let pass = pass_time(core).0.max(1);
                (now.since(self.passes_began).0 / pass).min(record.passes().into())
            }
            _ => 0,
        };
        let seconds =
            |time: Nanos| U32::new(u32::try_from(time.0.div_ceil(1_000_000_000)).unwrap_or(u32::MAX - 1));
        let erase = erase_time(core);
        let overwrite = Nanos(pass_time(core).0.saturating_mul(MOST_PASSES.into()));
        SanitizeStatus {
            sprog: U16::new(sprog),
            sstat: SanitizeSstat::new()
                .with_sos(sos)
                .with_opc(passes.min(31) as u8)
                .with_gde(!is_written(core)),
            scdw10: U32::new(record.cdw10),
            eto: seconds(erase + overwrite),
            etbe: seconds(erase),
            etce: if crypto_erase { U32::new(0) } else { U32::new(u32::MAX) },
            etond: U32::new(u32::MAX),
            etbend: U32::new(u32::MAX),
            etcend: U32::new(u32::MAX),
            etpvds: U32::new(u32::MAX),
            ..SanitizeStatus::default()
        }
    }
}

/// Records the end of an operation and tells hosts of it.
pub(crate) fn tell_end<S: Contents>(core: &mut Core, cx: &mut Cx<'_, S>) {
    core.record(cx.storage);
    core.raise_for_all(AsyncEvent::Sanitized, cx);
}

/// Asks for what is on its way to flash to be erased, of all namespaces.
fn scrub_all<S: Contents>(core: &mut Core, cx: &mut Cx<'_, S>) -> Answer {
    for nsid in core.namespaces.ids() {
        let Some(volume) = core.namespaces.get(nsid).map(|ns| ns.volume) else { continue };
        core.ftl.scrub(volume, cx.storage);
    }
    Answer::At(cx.now)
}

/// How long it takes to erase all flash.
fn erase_time(core: &Core) -> Nanos {
    longest(core, |set| set.erase_time)
}

/// How long one pass over all media takes.
fn pass_time(core: &Core) -> Nanos {
    longest(core, |set| set.overwrite_time)
}

/// The longest time of all NVM Sets, which work in parallel; zero with timing off.
fn longest(core: &Core, time: impl Fn(&SetProperties) -> Nanos) -> Nanos {
    let sets = core.config.ftl.sets.iter().map(SetConfig::properties);
    if core.config.timing { sets.map(|set| time(&set)).max().unwrap_or_default() } else { Nanos::ZERO }
}

/// Whether user data was written since the drive was made, or sanitized.
fn is_written(core: &Core) -> bool {
    let record = core.persistent.sanitize;
    let since = if record.state == SanitizeState::Completed { record.version } else { 0 };
    core.ftl.version() != since
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::InFlight;
    use crate::fixture;
    use ftl::NoContents;

    fn sanitize(sanact: SanitizeAction, ause: bool) -> Sanitize {
        let mut command = Command::new(AdminOpcode::SANITIZE.0, 0);
        command.cdw10 = U32::new(u32::from(sanact.0) | u32::from(ause) << 3);
        match nvme::AdminCommand::parse(&command) {
            Ok(nvme::AdminCommand::Sanitize(c)) => c,
            other => panic!("{other:?}"),
        }
    }

    fn sos(operation: &SanitizeOperation, core: &Core) -> SanitizeOperationStatus {
        operation.status(core, false, Nanos::ZERO).sstat.sos()
    }

    /// Announces an operation for a command, whose token is parked.
    fn announce(operation: &mut SanitizeOperation, core: &mut Core, c: &Sanitize) {
        let token = core.commands.begin(Io(1), InFlight::FREE).expect("the number is free");
        operation.announce(core, &token, c);
        token.park();
    }

    #[test]
    fn an_operation_goes_through_its_stages() {
        let mut core = fixture::core();
        let id = fixture::connect(&mut core, 1);
        let (mut storage, mut out) = (NoContents, Vec::new());
        let mut cx = Cx { now: Nanos::ZERO, storage: &mut storage, out: &mut out };
        let mut operation = SanitizeOperation::default();
        let c = sanitize(SanitizeAction::BLOCK_ERASE, false);
        assert!(operation.admit(&mut core, id, &c, false, &mut cx).unwrap());
        announce(&mut operation, &mut core, &c);
        assert!(operation.make_durable(&core, &mut cx).is_ok());
        assert!(operation.restricts() && !operation.waits());
        assert_eq!(sos(&operation, &core), SanitizeOperationStatus::IN_PROGRESS);
        let again = operation.admit(&mut core, id, &c, false, &mut cx);
        assert_eq!(again, Err(Failure::transient(Status::SANITIZE_IN_PROGRESS)));
        assert!(operation.check(&Command::new(AdminOpcode::FORMAT_NVM.0, 0), true).is_err());
        assert_eq!(operation.synced(&mut core, true, &mut cx), None);
        assert!(operation.waits());
        assert!(!operation.begin_erase(&mut core, true, cx.now), "a shutdown comes first");
        assert!(operation.begin_erase(&mut core, false, cx.now));
        operation.erased(&mut core, cx.now);
        operation.forget_if_due(&core, &mut cx);
        assert_eq!(operation.synced(&mut core, true, &mut cx), Some(true));
        operation.end(&mut core, true);
        assert_eq!(sos(&operation, &core), SanitizeOperationStatus::COMPLETED);
        assert!(!operation.restricts());
        let io = [Output::Sync { io: SANITIZE_IO }, Output::Forget { io: SANITIZE_IO, all: true }];
        assert!(io.iter().all(|output| cx.out.contains(output)));
    }

    #[test]
    fn a_failed_operation_restricts_until_a_host_leaves_the_failure_mode() {
        let mut core = fixture::core();
        let id = fixture::connect(&mut core, 1);
        let (mut storage, mut out) = (NoContents, Vec::new());
        let mut cx = Cx { now: Nanos::ZERO, storage: &mut storage, out: &mut out };
        let leave = sanitize(SanitizeAction::EXIT_FAILURE_MODE, false);
        for unrestricted in [false, true] {
            let mut operation = SanitizeOperation::default();
            announce(&mut operation, &mut core, &sanitize(SanitizeAction::BLOCK_ERASE, unrestricted));
            operation.synced(&mut core, true, &mut cx);
            operation.end(&mut core, false);
            // Also after a power cycle.
            operation.start(&mut core, cx.now);
            assert!(operation.restricts());
            let left = operation.admit(&mut core, id, &leave, false, &mut cx);
            assert_eq!(left == Ok(false), unrestricted);
            assert_eq!(operation.restricts(), !unrestricted);
        }
    }

    #[test]
    fn what_cannot_be_made_durable_has_not_begun() {
        let mut core = fixture::core();
        let (mut storage, mut out) = (NoContents, Vec::new());
        let mut cx = Cx { now: Nanos::ZERO, storage: &mut storage, out: &mut out };
        let mut operation = SanitizeOperation::default();
        announce(&mut operation, &mut core, &sanitize(SanitizeAction::BLOCK_ERASE, false));
        assert_eq!(operation.synced(&mut core, false, &mut cx), None);
        assert_eq!(sos(&operation, &core), SanitizeOperationStatus::NEVER);
        assert!(!operation.restricts());
    }
}
