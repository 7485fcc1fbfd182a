//! Device Self-test (Base 5.1.5, 8.1.7): one operation at a time in the subsystem, carried out by events of the drive.
//!
//! Segment 1 looks at the drive's health: power-loss protection, and whether media have become read-only. Segment 2 reads
//! what is on the namespaces: a sample in a short test, all of it in an extended one, which goes on over resets and
//! power cycles where it was.

use crate::contents::Contents;
use crate::controller::ControllerId;
use crate::drive::{Cx, Drive, Event, Failure, Outcome, Reply};
use crate::flight::Kind;
use ftl::{Answer, Done, Extent, Fault, Io};
use media::Nanos;
use nvme::admin::DeviceSelfTest;
use nvme::log::{SelfTestLog, SelfTestOutcome, SelfTestResult};
use nvme::{NSID_ALL, Status, U32, U64};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The drive's own number for its reads, among those of commands.
pub(crate) const IO: Io = Io(u32::MAX - 1);

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
    /// Whether it waits for a read that is answered later.
    #[serde(skip)]
    waits: bool,
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

/// What a test says of a read that failed.
fn status_of(fault: Fault) -> u16 {
    Failure::of_fault(fault, Kind::Other).status.code().0
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
        let controller = self.controller(id)?;
        let namespaces = match c.nsid {
            0 => Vec::new(),
            NSID_ALL => self.namespaces.ids().into_iter().filter(|n| controller.is_attached(*n)).collect(),
            nsid if controller.is_attached(nsid) => vec![nsid],
            nsid => return Err(self.no_namespace(nsid)),
        };
        if self.life.self_tests.running.is_some() {
            return Err(Failure::transient(Status::SELF_TEST_IN_PROGRESS));
        }
        let number = self.controllers.fresh();
        self.life.self_tests.running =
            Some(Running { code: c.stc, controller: id.0, namespaces, done: 0, number, waits: false });
        self.events.push(cx.now + PAUSE, Event::SelfTest(number));
        self.record(cx.storage);
        Ok(Reply::Done(0))
    }

    /// Chunks of a namespace that an operation reads, and every how manyth chunk it is.
    fn chunks(&self, code: u8, nsid: u32) -> (u64, u64) {
        let bytes = self.namespaces.get(nsid).map_or(0, |ns| ns.volume_bytes());
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
        let Some(running) = self.life.self_tests.running.as_ref().filter(|r| r.number == number) else {
            return;
        };
        if running.done == 0 && !self.is_healthy() {
            return self.fail_self_test(HEALTH, None, cx);
        }
        let Some((nsid, start)) = self.next_chunk(running) else {
            return self.end_self_test(SelfTestOutcome::PASSED, cx);
        };
        match self.read_chunk(nsid, start, cx) {
            Ok(Some(end)) => self.chunk_done(end, cx),
            // [`self_test_read`](Drive::self_test_read) goes on.
            Ok(None) => {
                if let Some(running) = &mut self.life.self_tests.running {
                    running.waits = true;
                }
            }
            Err(found) => self.fail_self_test(MEDIA, Some(found), cx),
        }
    }

    /// The chunk that is read next: its namespace, and the byte there.
    fn next_chunk(&self, running: &Running) -> Option<(u32, u64)> {
        let mut left = running.done;
        for nsid in &running.namespaces {
            let (count, stride) = self.chunks(running.code, *nsid);
            if left < count {
                return Some((*nsid, left * stride * u64::from(CHUNK)));
            }
            left -= count;
        }
        None
    }

    /// A read that was answered later has ended.
    pub(crate) fn self_test_read<S: Contents>(&mut self, done: Done, cx: &mut Cx<'_, S>) {
        let Some(running) = self.life.self_tests.running.as_mut().filter(|r| r.waits) else { return };
        running.waits = false;
        match (done.result, self.life.self_tests.running.as_ref().and_then(|r| self.next_chunk(r))) {
            (Err(fault), Some((nsid, _))) => {
                let found = Found { nsid, lba: None, status: status_of(fault) };
                self.fail_self_test(MEDIA, Some(found), cx);
            }
            _ => self.chunk_done(done.at, cx),
        }
    }

    /// A chunk was read until `end`: the next one follows.
    fn chunk_done<S: Contents>(&mut self, end: Nanos, cx: &mut Cx<'_, S>) {
        let Some(running) = &mut self.life.self_tests.running else { return };
        running.done += 1;
        let (code, number, done) = (running.code, running.number, running.done);
        self.events.push(end.max(cx.now) + PAUSE, Event::SelfTest(number));
        // Where to go on after a power cycle: by percents.
        let total = self.life.self_tests.running.as_ref().map_or(1, |r| self.chunks_of_all(r)).max(1);
        if code == EXTENDED && done * 100 / total != (done - 1) * 100 / total {
            self.record(cx.storage);
        }
    }

    fn is_healthy(&self) -> bool {
        !self.health.backup_failed && self.sets().all(|(_, info)| !info.read_only)
    }

    /// Reads a chunk of a namespace for nobody; when that ends, if it is known.
    fn read_chunk<S: Contents>(
        &mut self,
        nsid: u32,
        start: u64,
        cx: &mut Cx<'_, S>,
    ) -> Result<Option<Nanos>, Found> {
        let Some(ns) = self.namespaces.get(nsid) else { return Ok(Some(cx.now)) };
        let (volume, size) = (ns.volume, ns.volume_bytes());
        let bytes = u32::try_from(size.saturating_sub(start)).unwrap_or(CHUNK).min(CHUNK);
        let mut read = |extent| self.ftl.read_medium(cx.now, IO, volume, extent, cx.storage);
        let fault = match read(Extent { start, bytes }).end() {
            Ok(end) => return Ok(end),
            Err(fault) => fault,
        };
        // Which page of it, if it fails again.
        let page = |i: u32| Extent { start: start + u64::from(i * ftl::PAGE), bytes: ftl::PAGE };
        let failing = (0..bytes / ftl::PAGE)
            .find(|i| matches!(read(page(*i)), Answer::Failed(_)))
            .map(|i| page(i).start);
        let lba = failing.and_then(|byte| self.namespaces.get(nsid).map(|ns| byte >> ns.shift));
        Err(Found { nsid, lba, status: status_of(fault) })
    }

    fn fail_self_test<S: Contents>(&mut self, segment: u8, failure: Option<Found>, cx: &mut Cx<'_, S>) {
        self.finish_self_test(SelfTestOutcome::FAILED_SEGMENT, segment, failure, cx.now);
        self.record(cx.storage);
    }

    /// Ends the operation in progress, if there is one.
    pub(crate) fn end_self_test<S: Contents>(&mut self, outcome: SelfTestOutcome, cx: &mut Cx<'_, S>) {
        if self.life.self_tests.running.is_some() {
            self.finish_self_test(outcome, 0, None, cx.now);
            self.record(cx.storage);
        }
    }

    fn finish_self_test(
        &mut self,
        outcome: SelfTestOutcome,
        segment: u8,
        failure: Option<Found>,
        now: Nanos,
    ) {
        let hours = self.powered(now) / 3_600_000_000_000;
        let tests = &mut self.life.self_tests;
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
        let running = self.life.self_tests.running.as_ref();
        if running.is_some_and(|r| r.namespaces.contains(&nsid)) {
            self.end_self_test(outcome, cx);
        }
    }

    /// A controller is reset or gone: its short test ends, an extended one goes on.
    pub(crate) fn reset_self_test<S: Contents>(&mut self, id: ControllerId, cx: &mut Cx<'_, S>) {
        let running = self.life.self_tests.running.as_ref();
        if running.is_some_and(|r| r.code == SHORT && r.controller == id.0) {
            self.end_self_test(SelfTestOutcome::RESET, cx);
        }
    }

    /// Power is back: an extended test goes on, a short one has ended.
    pub(crate) fn resume_self_test(&mut self, now: Nanos) {
        let number = self.controllers.fresh();
        let extended = match &mut self.life.self_tests.running {
            Some(running) => {
                (running.number, running.waits) = (number, false);
                running.code == EXTENDED
            }
            None => return,
        };
        if extended {
            self.events.push(now + PAUSE, Event::SelfTest(number));
        } else {
            self.finish_self_test(SelfTestOutcome::RESET, 0, None, now);
        }
    }

    /// The Device Self-test log.
    pub(crate) fn self_test_log(&self) -> SelfTestLog {
        let mut log = SelfTestLog::default();
        if let Some(running) = &self.life.self_tests.running {
            log.operation = running.code;
            let percent = (running.done * 100).checked_div(self.chunks_of_all(running)).unwrap_or(0);
            log.completion = u8::try_from(percent).unwrap_or(100).min(100);
        }
        let results = self.life.self_tests.results.iter().map(SelfTestResult::from);
        let unused = SelfTestResult { status: SelfTestOutcome::UNUSED.0, ..SelfTestResult::default() };
        for (entry, result) in log.result.iter_mut().zip(results.chain(std::iter::repeat(unused))) {
            *entry = result;
        }
        log
    }

    /// Extended Device Self-test Time in minutes (EDSTT).
    pub(crate) fn extended_self_test_minutes(&self) -> u16 {
        let bytes: u64 = self.sets().map(|(_, info)| info.capacity_bytes).sum();
        u16::try_from(bytes.div_ceil(BYTES_PER_MINUTE)).unwrap_or(u16::MAX).max(1)
    }
}
