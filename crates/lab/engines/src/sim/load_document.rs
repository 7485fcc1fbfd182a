//! What the own tools of loads would print.

use load_formats::act::Window;
use nvme::Nsid;
use schemars::JsonSchema;
use serde::Serialize;

use crate::bench::FioDocument;

/// The document of a load's own tool.
#[derive(Clone, Debug)]
pub(crate) enum LoadDocument {
    Fio(FioDocument),
    Act(ActDocument),
    Trace(TraceDocument),
}

/// The requests of a load, as its host saw them.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Requests {
    /// Reads.
    pub read: Requested,
    /// Writes.
    pub write: Requested,
    /// Trims.
    pub trim: Requested,
}

/// Requests of one kind.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Requested {
    /// How many.
    pub ios: u64,
    /// What they moved.
    #[schemars(extend("unit" = "bytes"))]
    pub bytes: u64,
    /// I/Os that ended.
    #[schemars(extend("unit" = "1/s"))]
    pub iops: f64,
    /// Bandwidth.
    #[schemars(extend("unit" = "bytes/s"))]
    pub bw_bytes: f64,
    /// Latency.
    pub lat_ns: RequestLatency,
}

/// Latency of requests.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct RequestLatency {
    /// The mean.
    #[schemars(extend("unit" = "ns"))]
    pub mean: f64,
    /// The median.
    #[schemars(extend("unit" = "ns"))]
    pub p50: u64,
    /// 99 in 100 are no longer.
    #[schemars(extend("unit" = "ns"))]
    pub p99: u64,
    /// 999 in 1000 are no longer.
    #[serde(rename = "p99.9")]
    #[schemars(extend("unit" = "ns"))]
    pub p999: u64,
    /// The longest.
    #[schemars(extend("unit" = "ns"))]
    pub max: u64,
}

/// A configuration of ACT.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ActDocument {
    /// ACT's verdict.
    pub(super) act: ActVerdict,
    /// The requests.
    pub(super) requests: Requests,
    /// What ACT itself prints.
    pub(super) log: String,
}

/// ACT's verdict.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct ActVerdict {
    /// Whether every window passes.
    pub passes: bool,
    /// What could not keep up.
    #[schemars(extend("null" = "the test ran to its end"))]
    pub stopped: Option<String>,
    /// Windows of an hour.
    pub windows: Vec<ActWindow>,
    /// What came after the last window.
    pub rest: ActWindow,
    /// Large blocks read, and written.
    pub large_blocks_read_and_written: [u64; 2],
}

/// Reads of a window.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct ActWindow {
    /// Reads in it.
    reads: u64,
    /// Reads that took longer than 1, 8 and 64 ms.
    over_1_8_64_ms: [u64; 3],
}

impl From<Window> for ActWindow {
    fn from(Window { reads, over }: Window) -> Self {
        Self { reads, over_1_8_64_ms: over }
    }
}

/// A block trace or a recording.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TraceDocument {
    /// What was replayed.
    pub(super) trace: Replayed,
    /// The requests.
    pub(super) requests: Requests,
}

/// What was replayed of a trace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Replayed {
    /// Form of the trace.
    pub format: String,
    /// Its devices.
    pub devices: Vec<String>,
    /// Lines that were read.
    pub lines: u64,
    /// Requests that were replayed.
    pub requests: u64,
    /// The line in the middle of which the trace ends.
    #[schemars(extend("null" = "it ends with a whole line"))]
    pub cut_at_line: Option<u64>,
    /// How late the latest request was.
    #[schemars(extend("unit" = "ns"))]
    pub late_ns: u64,
    /// Lines with a time before an earlier one's.
    pub reordered: u64,
    /// Lines that are no I/O that counts.
    pub ignored: u64,
    /// Lines that make no sense and were left out.
    pub unknown: u64,
    /// I/Os of devices that were not asked for.
    pub left_out: u64,
    /// Requests that were moved or shortened to fit their namespace.
    pub folded: u64,
    /// Latencies that a recording has, beside this drive's; empty for other traces.
    pub latencies: Vec<LatencyPair>,
}

/// Commands of one kind on a namespace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct LatencyPair {
    /// Namespace identifier.
    pub nsid: Nsid,
    /// Which commands.
    pub commands: &'static str,
    /// In the recorded drive.
    pub recorded: LatencySummary,
    /// In this drive.
    pub replayed: LatencySummary,
    /// As the recorded drive's host saw them.
    #[schemars(extend("null" = "the recording does not have them"))]
    pub recorded_at_host: Option<LatencySummary>,
    /// Replayed over recorded mean.
    #[schemars(extend("null" = "the recorded mean is 0"))]
    pub mean_ratio: Option<f64>,
    /// Replayed over recorded p99.
    #[schemars(extend("null" = "the recorded p99 is 0"))]
    pub p99_ratio: Option<f64>,
    /// Whether they agree.
    #[schemars(extend("null" = "the recorded drive took no time"))]
    pub within_5_percent: Option<bool>,
}

/// Latencies in a few numbers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct LatencySummary {
    /// How many commands.
    pub commands: u64,
    /// The mean.
    #[schemars(extend("unit" = "ns"))]
    pub mean_ns: u64,
    /// The median.
    #[schemars(extend("unit" = "ns"))]
    pub p50_ns: u64,
    /// 99 in 100 are no longer.
    #[schemars(extend("unit" = "ns"))]
    pub p99_ns: u64,
    /// The longest.
    #[schemars(extend("unit" = "ns"))]
    pub max_ns: u64,
}
