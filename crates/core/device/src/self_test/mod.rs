//! Device Self-test (Base 5.1.5, 8.1.7): one operation at a time in the subsystem, carried out by timed events.
//!
//! Segment 1 looks at the drive's health: power-loss protection, and whether a set has become read-only. Segment 2 reads
//! what is on the namespaces: a sample in a short test, everything in an extended one. An extended test goes on after
//! resets and power cycles.
//!
//! The state is persistent, so it lies in the core ([`state`]). This component is functions over it.

pub(crate) mod state;

use crate::contents::Contents;
use crate::core::{AdminResult, CommandKind, ControllerId, Core, Cx, Failure, Reply, TimedEvent};
use ftl::{Answer, CompletedIo, Extent, Fault, Io};
use media::Nanos;
use nvme::admin::DeviceSelfTest;
use nvme::log::{SelfTestLog, SelfTestOutcome};
use nvme::{NSID_ALL, Status};
use state::{EXTENDED_TEST, FailedBlock, SHORT_TEST, SelfTestOperation};

/// The number of the reads of a self-test, among those of commands.
pub(crate) const SELF_TEST_IO: Io = Io(u32::MAX - 1);

/// Self-test code that aborts.
const ABORT_TEST: u8 = 0xF;

/// Segments.
const HEALTH: u8 = 1;
const MEDIA: u8 = 2;

/// Bytes that are read at a time.
const CHUNK: u32 = 1 << 20;
/// From the end of one chunk to the next.
const PAUSE: Nanos = Nanos(1_000_000);
/// Chunks of each namespace that a short test reads, at most.
const SAMPLE: u64 = 64;
/// Bytes in a minute for the estimated time of an extended test: a quarter of what an idle drive reads.
const BYTES_PER_MINUTE: u64 = 15 << 30;

/// The command Device Self-test.
pub(crate) fn execute<S: Contents>(
    core: &mut Core,
    id: ControllerId,
    c: DeviceSelfTest,
    cx: &mut Cx<'_, S>,
) -> AdminResult {
    match c.stc {
        SHORT_TEST | EXTENDED_TEST => {}
        ABORT_TEST => {
            end(core, SelfTestOutcome::ABORTED, cx);
            return Ok(Reply::Done(0));
        }
        _ => return Err(Failure::field(40)),
    }
    let controller = core.controller(id)?;
    let namespaces = match c.nsid {
        0 => Vec::new(),
        NSID_ALL => core.namespaces.ids().into_iter().filter(|n| controller.is_attached(*n)).collect(),
        nsid if controller.is_attached(nsid) => vec![nsid],
        nsid => return Err(core.no_namespace(nsid)),
    };
    if core.persistent.self_tests.is_running() {
        return Err(Failure::transient(Status::SELF_TEST_IN_PROGRESS));
    }
    let number = core.controllers.fresh();
    core.persistent.self_tests.running =
        Some(SelfTestOperation { code: c.stc, controller: id.0, namespaces, done: 0, number, waits: false });
    core.events.push(cx.now + PAUSE, TimedEvent::SelfTest(number));
    core.record(cx.storage);
    Ok(Reply::Done(0))
}

/// How many chunks of a namespace an operation reads, and the distance from one to the next in chunks.
fn chunks(core: &Core, code: u8, nsid: u32) -> (u64, u64) {
    let bytes = core.namespaces.get(nsid).map_or(0, |ns| ns.volume_bytes());
    let all = bytes.div_ceil(CHUNK.into());
    let stride = if code == SHORT_TEST { all.div_ceil(SAMPLE).max(1) } else { 1 };
    (all.div_ceil(stride), stride)
}

/// All chunks of an operation.
fn total_chunks(core: &Core, operation: &SelfTestOperation) -> u64 {
    operation.namespaces.iter().map(|nsid| chunks(core, operation.code, *nsid).0).sum()
}

/// The namespace and the byte where the next chunk of an operation starts; `None` if all are read.
fn next_chunk(core: &Core, operation: &SelfTestOperation) -> Option<(u32, u64)> {
    let mut left = operation.done;
    for nsid in &operation.namespaces {
        let (count, stride) = chunks(core, operation.code, *nsid);
        if left < count {
            return Some((*nsid, left * stride * u64::from(CHUNK)));
        }
        left -= count;
    }
    None
}

/// The next step of operation `number`. `backup_failed` says whether power-loss protection has failed.
pub(crate) fn step<S: Contents>(core: &mut Core, backup_failed: bool, number: u32, cx: &mut Cx<'_, S>) {
    let Some(operation) = core.persistent.self_tests.running.as_ref().filter(|r| r.number == number) else {
        return;
    };
    let (done, place) = (operation.done, next_chunk(core, operation));
    if done == 0 && (backup_failed || core.sets().any(|(_, info)| info.read_only)) {
        return fail(core, HEALTH, None, cx);
    }
    let Some((nsid, start)) = place else {
        return end(core, SelfTestOutcome::PASSED, cx);
    };
    match read_chunk(core, nsid, start, cx) {
        Ok(Some(end)) => chunk_done(core, end, cx),
        // `read_done` goes on.
        Ok(None) => {
            if let Some(operation) = &mut core.persistent.self_tests.running {
                operation.waits = true;
            }
        }
        Err(failure) => fail(core, MEDIA, Some(failure), cx),
    }
}

/// A read that was answered later has ended.
pub(crate) fn read_done<S: Contents>(core: &mut Core, done: CompletedIo, cx: &mut Cx<'_, S>) {
    let Some(operation) = core.persistent.self_tests.running.as_mut().filter(|r| r.waits) else { return };
    operation.waits = false;
    let place = core.persistent.self_tests.running.as_ref().and_then(|r| next_chunk(core, r));
    match (done.result, place) {
        (Err(fault), Some((nsid, _))) => {
            let failure = FailedBlock { nsid, lba: None, status: status_of(fault) };
            fail(core, MEDIA, Some(failure), cx);
        }
        _ => chunk_done(core, done.at, cx),
    }
}

/// A chunk was read until `end`: the next one follows.
fn chunk_done<S: Contents>(core: &mut Core, end: Nanos, cx: &mut Cx<'_, S>) {
    let Some(operation) = &mut core.persistent.self_tests.running else { return };
    operation.done += 1;
    let (code, number, done) = (operation.code, operation.number, operation.done);
    core.events.push(end.max(cx.now) + PAUSE, TimedEvent::SelfTest(number));
    // An extended test goes on from here after a power cycle. Each percent is recorded.
    let total = core.persistent.self_tests.running.as_ref().map_or(1, |r| total_chunks(core, r)).max(1);
    if code == EXTENDED_TEST && done * 100 / total != (done - 1) * 100 / total {
        core.record(cx.storage);
    }
}

/// What a test says of a read that failed.
fn status_of(fault: Fault) -> u16 {
    Failure::of_fault(fault, CommandKind::Other).status.code().0
}

/// Reads a chunk of a namespace from the medium. Returns when that ends, if it is known.
fn read_chunk<S: Contents>(
    core: &mut Core,
    nsid: u32,
    start: u64,
    cx: &mut Cx<'_, S>,
) -> Result<Option<Nanos>, FailedBlock> {
    let Some(ns) = core.namespaces.get(nsid) else { return Ok(Some(cx.now)) };
    let (volume, size, shift) = (ns.volume, ns.volume_bytes(), ns.shift);
    let bytes = u32::try_from(size.saturating_sub(start)).unwrap_or(CHUNK).min(CHUNK);
    let mut read = |extent| core.ftl.read_medium(cx.now, SELF_TEST_IO, volume, extent, cx.storage);
    let fault = match read(Extent { start, bytes }).end() {
        Ok(end) => return Ok(end),
        Err(fault) => fault,
    };
    // Which page of it, if it fails again.
    let page = |i: u32| Extent { start: start + u64::from(i * ftl::PAGE), bytes: ftl::PAGE };
    let failing =
        (0..bytes / ftl::PAGE).find(|i| matches!(read(page(*i)), Answer::Failed(_))).map(|i| page(i).start);
    Err(FailedBlock { nsid, lba: failing.map(|byte| byte >> shift), status: status_of(fault) })
}

/// Ends the operation in progress, as something did not pass.
fn fail<S: Contents>(core: &mut Core, segment: u8, failure: Option<FailedBlock>, cx: &mut Cx<'_, S>) {
    finish(core, SelfTestOutcome::FAILED_SEGMENT, segment, failure, cx.now);
    core.record(cx.storage);
}

/// Ends the operation in progress, if there is one.
pub(crate) fn end<S: Contents>(core: &mut Core, outcome: SelfTestOutcome, cx: &mut Cx<'_, S>) {
    if core.persistent.self_tests.is_running() {
        finish(core, outcome, 0, None, cx.now);
        core.record(cx.storage);
    }
}

fn finish(core: &mut Core, outcome: SelfTestOutcome, segment: u8, failure: Option<FailedBlock>, now: Nanos) {
    let hours = core.powered(now) / 3_600_000_000_000;
    core.persistent.self_tests.finish(outcome, segment, failure, hours);
}

/// A namespace is about to be formatted or deleted: a test of it ends.
pub(crate) fn end_of_namespace<S: Contents>(
    core: &mut Core,
    nsid: u32,
    outcome: SelfTestOutcome,
    cx: &mut Cx<'_, S>,
) {
    let running = core.persistent.self_tests.running.as_ref();
    if running.is_some_and(|r| r.namespaces.contains(&nsid)) {
        end(core, outcome, cx);
    }
}

/// A controller is reset: its short test ends, an extended one goes on.
pub(crate) fn controller_reset<S: Contents>(core: &mut Core, id: ControllerId, cx: &mut Cx<'_, S>) {
    let running = core.persistent.self_tests.running.as_ref();
    if running.is_some_and(|r| r.code == SHORT_TEST && r.controller == id.0) {
        end(core, SelfTestOutcome::RESET, cx);
    }
}

/// Power is back: an extended test goes on, a short one has ended.
pub(crate) fn power_came(core: &mut Core, now: Nanos) {
    let number = core.controllers.fresh();
    let Some(operation) = &mut core.persistent.self_tests.running else { return };
    (operation.number, operation.waits) = (number, false);
    if operation.code == EXTENDED_TEST {
        core.events.push(now + PAUSE, TimedEvent::SelfTest(number));
    } else {
        finish(core, SelfTestOutcome::RESET, 0, None, now);
    }
}

/// The Device Self-test log.
pub(crate) fn log(core: &Core) -> SelfTestLog {
    let tests = &core.persistent.self_tests;
    tests.log(tests.running.as_ref().map_or(0, |operation| total_chunks(core, operation)))
}

/// Extended Device Self-test Time in minutes (EDSTT).
pub(crate) fn extended_minutes(core: &Core) -> u16 {
    let bytes: u64 = core.sets().map(|(_, info)| info.capacity_bytes).sum();
    u16::try_from(bytes.div_ceil(BYTES_PER_MINUTE)).unwrap_or(u16::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use ftl::NoContents;

    fn short() -> DeviceSelfTest {
        DeviceSelfTest { nsid: 0, stc: SHORT_TEST }
    }

    #[test]
    fn one_test_at_a_time_and_a_reset_ends_a_short_one() {
        let mut core = fixture::core();
        let id = fixture::connect(&mut core, 1);
        let (mut storage, mut out) = (NoContents, Vec::new());
        let mut cx = Cx { now: Nanos::ZERO, storage: &mut storage, out: &mut out };
        assert!(execute(&mut core, id, short(), &mut cx).is_ok());
        let again = execute(&mut core, id, short(), &mut cx).err().map(|f| f.status);
        assert_eq!(again, Some(Status::SELF_TEST_IN_PROGRESS));
        controller_reset(&mut core, id, &mut cx);
        assert_eq!(log(&core).result[0].status, SHORT_TEST << 4 | SelfTestOutcome::RESET.0);
    }

    #[test]
    fn a_failed_backup_fails_the_first_segment_and_events_of_others_do_nothing() {
        let mut core = fixture::core();
        let id = fixture::connect(&mut core, 1);
        let (mut storage, mut out) = (NoContents, Vec::new());
        let mut cx = Cx { now: Nanos::ZERO, storage: &mut storage, out: &mut out };
        execute(&mut core, id, short(), &mut cx).ok();
        let number = core.persistent.self_tests.running.as_ref().unwrap().number;
        step(&mut core, true, number.wrapping_add(1), &mut cx);
        assert!(core.persistent.self_tests.is_running());
        step(&mut core, true, number, &mut cx);
        let result = log(&core).result[0];
        assert_eq!((result.segment, result.status & 0xF), (HEALTH, SelfTestOutcome::FAILED_SEGMENT.0));
        // Without namespaces a healthy drive passes at once.
        execute(&mut core, id, short(), &mut cx).ok();
        let number = core.persistent.self_tests.running.as_ref().unwrap().number;
        step(&mut core, false, number, &mut cx);
        assert_eq!(log(&core).result[0].status & 0xF, SelfTestOutcome::PASSED.0);
    }

    #[test]
    fn an_extended_test_goes_on_when_power_is_back() {
        let mut core = fixture::core();
        let id = fixture::connect(&mut core, 1);
        let (mut storage, mut out) = (NoContents, Vec::new());
        let mut cx = Cx { now: Nanos::ZERO, storage: &mut storage, out: &mut out };
        execute(&mut core, id, DeviceSelfTest { stc: EXTENDED_TEST, ..short() }, &mut cx).ok();
        power_came(&mut core, Nanos(5));
        assert!(core.persistent.self_tests.is_running());
        end(&mut core, SelfTestOutcome::ABORTED, &mut cx);
        execute(&mut core, id, short(), &mut cx).ok();
        power_came(&mut core, Nanos(6));
        assert!(!core.persistent.self_tests.is_running());
    }
}
