//! Device Self-test (Base 5.1.5, 8.1.7): one operation at a time in the subsystem, carried out by events of the drive.
//!
//! Segment 1 looks at the drive's health: power-loss protection, and whether media have become read-only. Segment 2 reads
//! what is on the namespaces: a sample in a short test, all of it in an extended one, which goes on over resets and
//! power cycles where it was.

use crate::contents::Contents;
use crate::core::{CommandKind, ControllerId, Cx, Failure, Outcome, Reply, TimedEvent};
use crate::drive::Drive;
use ftl::Extent;
use media::Nanos;
use nvme::admin::DeviceSelfTest;
use nvme::log::{SelfTestLog, SelfTestOutcome, SelfTestResult};
use nvme::{NSID_ALL, Status, U32, U64};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Self-test codes.
const SHORT: u8 = 0x1;
const EXTENDED: u8 = 0x2;
const ABORT: u8 = 0xF;

/// Segments.
const HEALTH: u8 = 1;
const MEDIA: u8 = 2;

/// Bytes that are read at a time.
const CHUNK: u32 = 1 << 20;
/// From the end of one chunk to the next.
const PAUSE: Nanos = Nanos(1_000_000);
/// Chunks of each namespace that a short test reads, at most.
const SAMPLE: u64 = 64;
/// Results that are kept.
const RESULTS: usize = 20;
/// Bytes in a minute that the time of an extended test counts with: a quarter of what an idle drive reads.
const BYTES_PER_MINUTE: u64 = 15 << 30;

/// What the drive remembers of self-tests.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SelfTests {
    running: Option<Running>,
    /// Newest first.
    results: VecDeque<Tested>,
}

/// The operation in progress.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Running {
    code: u8,
    /// Through which controller it was started.
    controller: u16,
    /// Namespaces whose media are read.
    namespaces: Vec<u32>,
    /// Chunks read so far.
    done: u64,
    /// Tells its events from those of earlier operations.
    #[serde(skip)]
    number: u32,
}

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Tested {
    code: u8,
    outcome: u8,
    segment: u8,
    hours: u64,
    failure: Option<Found>,
}

/// What did not pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Found {
    nsid: u32,
    lba: Option<u64>,
    status: u16,
}

impl From<&Tested> for SelfTestResult {
    fn from(t: &Tested) -> Self {
        let mut result = SelfTestResult {
            status: t.code << 4 | t.outcome,
            segment: t.segment,
            poh: U64::new(t.hours),
            ..SelfTestResult::default()
        };
        if let Some(found) = t.failure {
            let status = Status(found.status);
            result.valid = 0b1101 | u8::from(found.lba.is_some()) << 1;
            result.nsid = U32::new(found.nsid);
            result.flba = U64::new(found.lba.unwrap_or(0));
            (result.sct, result.sc) = (status.sct().0, status.sc());
        }
        result
    }
}

impl Drive {
    /// The command.
    pub(crate) fn device_self_test<S: Contents>(
        &mut self,
        id: ControllerId,
        c: DeviceSelfTest,
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        match c.stc {
            SHORT | EXTENDED => {}
            ABORT => {
                self.end_self_test(SelfTestOutcome::ABORTED, cx);
                return Ok(Reply::Done(0));
            }
            _ => return Err(Failure::field(40)),
        }
        let controller = self.core.controller(id)?;
        let namespaces = match c.nsid {
            0 => Vec::new(),
            NSID_ALL => {
                self.core.namespaces.ids().into_iter().filter(|n| controller.is_attached(*n)).collect()
            }
            nsid if controller.is_attached(nsid) => vec![nsid],
            nsid => return Err(self.core.no_namespace(nsid)),
        };
        if self.core.persistent.self_tests.running.is_some() {
            return Err(Failure::transient(Status::SELF_TEST_IN_PROGRESS));
        }
        let number = self.core.controllers.fresh();
        self.core.persistent.self_tests.running =
            Some(Running { code: c.stc, controller: id.0, namespaces, done: 0, number });
        self.core.events.push(cx.now + PAUSE, TimedEvent::SelfTest(number));
        self.core.record(cx.storage);
        Ok(Reply::Done(0))
    }

    /// Chunks of a namespace that an operation reads, and every how manyth chunk it is.
    fn chunks(&self, code: u8, nsid: u32) -> (u64, u64) {
        let bytes = self.core.namespaces.get(nsid).map_or(0, |ns| ns.volume_bytes());
        let all = bytes.div_ceil(CHUNK.into());
        let stride = if code == SHORT { all.div_ceil(SAMPLE).max(1) } else { 1 };
        (all.div_ceil(stride), stride)
    }

    /// All chunks of the operation in progress.
    fn chunks_of_all(&self, running: &Running) -> u64 {
        running.namespaces.iter().map(|nsid| self.chunks(running.code, *nsid).0).sum()
    }

    /// The next step of the operation in progress.
    pub(crate) fn self_test_step<S: Contents>(&mut self, number: u32, cx: &mut Cx<'_, S>) {
        let Some(running) = self.core.persistent.self_tests.running.as_ref().filter(|r| r.number == number)
        else {
            return;
        };
        let total = self.chunks_of_all(running);
        let (code, done) = (running.code, running.done);
        let mut left = done;
        let mut place = None;
        for nsid in &running.namespaces {
            let (count, stride) = self.chunks(code, *nsid);
            if left < count {
                place = Some((*nsid, left * stride * u64::from(CHUNK)));
                break;
            }
            left -= count;
        }
        if done == 0 && !self.is_healthy() {
            return self.fail_self_test(HEALTH, None, cx);
        }
        let Some((nsid, start)) = place else {
            return self.end_self_test(SelfTestOutcome::PASSED, cx);
        };
        let end = match self.read_chunk(nsid, start, cx) {
            Ok(end) => end,
            Err(found) => return self.fail_self_test(MEDIA, Some(found), cx),
        };
        if let Some(running) = &mut self.core.persistent.self_tests.running {
            running.done += 1;
        }
        self.core.events.push(end.max(cx.now) + PAUSE, TimedEvent::SelfTest(number));
        // Where to go on after a power cycle: by percents.
        if code == EXTENDED && (done + 1) * 100 / total != done * 100 / total {
            self.core.record(cx.storage);
        }
    }

    fn is_healthy(&self) -> bool {
        !self.health.backup_failed && self.core.sets().all(|(_, info)| !info.read_only)
    }

    /// Reads a chunk of a namespace for nobody; when that ends.
    fn read_chunk<S: Contents>(&mut self, nsid: u32, start: u64, cx: &mut Cx<'_, S>) -> Result<Nanos, Found> {
        let Some(ns) = self.core.namespaces.get(nsid) else { return Ok(cx.now) };
        let (volume, size) = (ns.volume, ns.volume_bytes());
        let bytes = u32::try_from(size.saturating_sub(start)).unwrap_or(CHUNK).min(CHUNK);
        let fault = match self.core.ftl.read_medium(cx.now, volume, Extent { start, bytes }, cx.storage) {
            Ok(end) => return Ok(end),
            Err(fault) => fault,
        };
        // Which page of it, if it fails again.
        let page = |i: u32| Extent { start: start + u64::from(i * ftl::PAGE), bytes: ftl::PAGE };
        let failing = (0..bytes / ftl::PAGE)
            .find(|i| self.core.ftl.read_medium(cx.now, volume, page(*i), cx.storage).is_err())
            .map(|i| page(i).start);
        let lba = failing.and_then(|byte| self.core.namespaces.get(nsid).map(|ns| byte >> ns.shift));
        Err(Found { nsid, lba, status: Failure::of_fault(fault, CommandKind::Other).status.code().0 })
    }

    fn fail_self_test<S: Contents>(&mut self, segment: u8, failure: Option<Found>, cx: &mut Cx<'_, S>) {
        self.finish_self_test(SelfTestOutcome::FAILED_SEGMENT, segment, failure, cx.now);
        self.core.record(cx.storage);
    }

    /// Ends the operation in progress, if there is one.
    pub(crate) fn end_self_test<S: Contents>(&mut self, outcome: SelfTestOutcome, cx: &mut Cx<'_, S>) {
        if self.core.persistent.self_tests.running.is_some() {
            self.finish_self_test(outcome, 0, None, cx.now);
            self.core.record(cx.storage);
        }
    }

    fn finish_self_test(
        &mut self,
        outcome: SelfTestOutcome,
        segment: u8,
        failure: Option<Found>,
        now: Nanos,
    ) {
        let hours = self.core.powered(now) / 3_600_000_000_000;
        let tests = &mut self.core.persistent.self_tests;
        let Some(running) = tests.running.take() else { return };
        tests.results.truncate(RESULTS - 1);
        tests.results.push_front(Tested { code: running.code, outcome: outcome.0, segment, hours, failure });
    }

    /// A namespace is about to be formatted or deleted.
    pub(crate) fn end_self_test_of<S: Contents>(
        &mut self,
        nsid: u32,
        outcome: SelfTestOutcome,
        cx: &mut Cx<'_, S>,
    ) {
        let running = self.core.persistent.self_tests.running.as_ref();
        if running.is_some_and(|r| r.namespaces.contains(&nsid)) {
            self.end_self_test(outcome, cx);
        }
    }

    /// A controller is reset or gone: its short test ends, an extended one goes on.
    pub(crate) fn reset_self_test<S: Contents>(&mut self, id: ControllerId, cx: &mut Cx<'_, S>) {
        let running = self.core.persistent.self_tests.running.as_ref();
        if running.is_some_and(|r| r.code == SHORT && r.controller == id.0) {
            self.end_self_test(SelfTestOutcome::RESET, cx);
        }
    }

    /// Power is back: an extended test goes on, a short one has ended.
    pub(crate) fn resume_self_test(&mut self, now: Nanos) {
        let number = self.core.controllers.fresh();
        let extended = match &mut self.core.persistent.self_tests.running {
            Some(running) => {
                running.number = number;
                running.code == EXTENDED
            }
            None => return,
        };
        if extended {
            self.core.events.push(now + PAUSE, TimedEvent::SelfTest(number));
        } else {
            self.finish_self_test(SelfTestOutcome::RESET, 0, None, now);
        }
    }

    /// The Device Self-test log.
    pub(crate) fn self_test_log(&self) -> SelfTestLog {
        let mut log = SelfTestLog::default();
        if let Some(running) = &self.core.persistent.self_tests.running {
            log.operation = running.code;
            let percent = (running.done * 100).checked_div(self.chunks_of_all(running)).unwrap_or(0);
            log.completion = u8::try_from(percent).unwrap_or(100).min(100);
        }
        let results = self.core.persistent.self_tests.results.iter().map(SelfTestResult::from);
        let unused = SelfTestResult { status: SelfTestOutcome::UNUSED.0, ..SelfTestResult::default() };
        for (entry, result) in log.result.iter_mut().zip(results.chain(std::iter::repeat(unused))) {
            *entry = result;
        }
        log
    }

    /// Extended Device Self-test Time in minutes (EDSTT).
    pub(crate) fn extended_self_test_minutes(&self) -> u16 {
        let bytes: u64 = self.core.sets().map(|(_, info)| info.capacity_bytes).sum();
        u16::try_from(bytes.div_ceil(BYTES_PER_MINUTE)).unwrap_or(u16::MAX).max(1)
    }
}
