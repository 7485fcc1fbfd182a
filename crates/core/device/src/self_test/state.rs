//! What the drive remembers of self-tests: the operation in progress, and how earlier ones ended.

use nvme::log::{SelfTestLog, SelfTestOutcome, SelfTestResult};
use nvme::{Status, U32, U64};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Self-test code of a short test.
pub(super) const SHORT_TEST: u8 = 0x1;
/// Self-test code of an extended test.
pub(super) const EXTENDED_TEST: u8 = 0x2;

/// Results that are kept.
const RESULTS: usize = 20;

/// What outlives power.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SelfTests {
    pub(super) running: Option<SelfTestOperation>,
    /// Newest first.
    results: VecDeque<EndedSelfTest>,
}

/// The operation in progress.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct SelfTestOperation {
    pub code: u8,
    /// The controller that started it.
    pub controller: u16,
    /// Namespaces whose media are read.
    pub namespaces: Vec<u32>,
    /// Chunks read so far.
    pub done: u64,
    /// Tells its events from those of earlier operations.
    #[serde(skip)]
    pub number: u32,
    /// Whether it waits for a read that is answered later.
    #[serde(skip)]
    pub waits: bool,
}

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct EndedSelfTest {
    code: u8,
    outcome: u8,
    segment: u8,
    hours: u64,
    failure: Option<FailedBlock>,
}

/// What an operation could not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct FailedBlock {
    pub nsid: u32,
    /// The first block of the page that failed; `None` if it did not fail again.
    pub lba: Option<u64>,
    pub status: u16,
}

impl From<&EndedSelfTest> for SelfTestResult {
    fn from(ended: &EndedSelfTest) -> Self {
        let mut result = SelfTestResult {
            status: ended.code << 4 | ended.outcome,
            segment: ended.segment,
            poh: U64::new(ended.hours),
            ..SelfTestResult::default()
        };
        if let Some(failure) = ended.failure {
            let status = Status(failure.status);
            result.valid = 0b1101 | u8::from(failure.lba.is_some()) << 1;
            result.nsid = U32::new(failure.nsid);
            result.flba = U64::new(failure.lba.unwrap_or(0));
            (result.sct, result.sc) = (status.sct().0, status.sc());
        }
        result
    }
}

impl SelfTests {
    /// Whether an operation is in progress.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Ends the operation in progress, if there is one. `hours` are the power-on hours.
    pub(super) fn finish(
        &mut self,
        outcome: SelfTestOutcome,
        segment: u8,
        failure: Option<FailedBlock>,
        hours: u64,
    ) {
        let Some(operation) = self.running.take() else { return };
        self.results.truncate(RESULTS - 1);
        let outcome = outcome.0;
        self.results.push_front(EndedSelfTest { code: operation.code, outcome, segment, hours, failure });
    }

    /// The Device Self-test log. `total` is how many chunks the operation in progress reads.
    pub(super) fn log(&self, total: u64) -> SelfTestLog {
        let mut log = SelfTestLog::default();
        if let Some(operation) = &self.running {
            log.operation = operation.code;
            let percent = (operation.done * 100).checked_div(total).unwrap_or(0);
            log.completion = u8::try_from(percent).unwrap_or(100).min(100);
        }
        let results = self.results.iter().map(SelfTestResult::from);
        let unused = SelfTestResult { status: SelfTestOutcome::UNUSED.0, ..SelfTestResult::default() };
        for (entry, result) in log.result.iter_mut().zip(results.chain(std::iter::repeat(unused))) {
            *entry = result;
        }
        log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(code: u8, done: u64) -> SelfTestOperation {
        SelfTestOperation { code, controller: 1, namespaces: vec![1], done, number: 0, waits: false }
    }

    #[test]
    fn the_log_shows_progress_and_the_newest_results() {
        let mut tests = SelfTests::default();
        for hours in 0..30 {
            tests.running = Some(operation(SHORT_TEST, 0));
            tests.finish(SelfTestOutcome::PASSED, 0, None, hours);
            // Nothing is in progress: this adds no result.
            tests.finish(SelfTestOutcome::ABORTED, 0, None, hours);
        }
        assert_eq!(tests.results.len(), RESULTS);
        tests.running = Some(operation(EXTENDED_TEST, 50));
        let log = tests.log(200);
        assert_eq!((log.operation, log.completion), (EXTENDED_TEST, 25));
        assert_eq!(tests.log(0).completion, 0);
        assert_eq!(log.result[0].poh.get(), 29);
        assert_eq!(log.result[0].status, SHORT_TEST << 4 | SelfTestOutcome::PASSED.0);
        assert_eq!(log.result[RESULTS - 1].poh.get(), 10);
    }

    #[test]
    fn a_result_tells_what_failed() {
        let mut tests = SelfTests { running: Some(operation(SHORT_TEST, 3)), ..SelfTests::default() };
        let status = Status::UNRECOVERED_READ_ERROR;
        let failure = FailedBlock { nsid: 7, lba: Some(9), status: status.0 };
        tests.finish(SelfTestOutcome::FAILED_SEGMENT, 2, Some(failure), 5);
        let log = tests.log(0);
        let result = &log.result[0];
        assert_eq!((log.operation, result.segment, result.valid), (0, 2, 0b1111));
        assert_eq!((result.nsid.get(), result.flba.get()), (7, 9));
        assert_eq!((result.sct, result.sc), (status.sct().0, status.sc()));
        assert_eq!(log.result[1].status, SelfTestOutcome::UNUSED.0);
    }
}
