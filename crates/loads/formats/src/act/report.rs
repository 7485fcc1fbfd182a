//! What the tool prints, and what is judged by.

use super::config::{ActProgram, Config};
use super::placement::Space;
use super::rates::Rates;
use std::fmt::Write;

/// Versions whose text this is: without queues of requests, and with them.
const VERSION: &str = "6.6";
const VERSION_QUEUES: &str = "5.1";

/// Pairs of a time in nanoseconds and a number. In each window fewer than that number of 1,000 reads may take that time or longer (README
/// of the tool, "Evaluate Device(s) by the Standard Pass/Fail Criteria").
pub const LIMITS: [(u64, u64); 3] = [(1_000_000, 50), (8_000_000, 10), (64_000_000, 1)];

/// Small reads of a part of the test.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Window {
    /// How many there were.
    pub reads: u64,
    /// Those that took 1 ms, 8 ms and 64 ms or longer ([`LIMITS`]).
    pub over: [u64; 3],
}

impl Window {
    #[inline]
    pub(super) fn add(&mut self, nanos: u64) {
        self.reads += 1;
        for (count, (limit, _)) in self.over.iter_mut().zip(LIMITS) {
            *count += u64::from(nanos >= limit);
        }
    }

    pub(super) fn since(&self, before: &Window) -> Window {
        let mut over = self.over;
        for (count, before) in over.iter_mut().zip(before.over) {
            *count -= before;
        }
        Window { reads: self.reads - before.reads, over }
    }

    /// Whether it keeps within the limits. A window without reads does.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.over
            .iter()
            .zip(LIMITS)
            .all(|(over, (_, mille))| self.reads == 0 || over * 1000 < self.reads * mille)
    }
}

/// Why a test ended before its time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stop {
    /// A service thread was more than `max-lag-sec` behind.
    Service,
    /// A device's thread that reads large blocks was.
    LargeBlockReads,
    /// A device's thread that writes large blocks was.
    LargeBlockWrites,
    /// A cache thread was.
    Cache,
    /// There were more than `max-reqs-queued` outstanding requests.
    Queued,
}

impl Stop {
    pub(super) fn text(self, kind: ActProgram) -> String {
        let (who, rest) = match (self, kind) {
            (Stop::Queued, _) => return format!("ERROR: too many requests queued\n{DRIVE}\n"),
            (Stop::Service, ActProgram::Storage) => ("service thread", ACT),
            (Stop::Service, ActProgram::Index) => ("read request generator", ACT),
            (Stop::LargeBlockReads, _) => ("large block reads", DRIVE),
            (Stop::LargeBlockWrites, _) => ("large block writes", DRIVE),
            (Stop::Cache, _) => ("cache thread device IO", DRIVE),
        };
        format!("ERROR: {who} can't keep up\n{rest}\n")
    }
}

const ACT: &str = "ACT can't do requested load - test stopped\ntry configuring more 'service-threads'";
const DRIVE: &str = "drive(s) can't keep up - test stopped";

fn yes(flag: bool) -> &'static str {
    if flag { "yes" } else { "no" }
}

/// All that is printed before the first report.
pub(super) fn head(config: &Config, rates: &Rates, spaces: &[Space], names: &[String]) -> String {
    let storage = config.kind == ActProgram::Storage;
    let what = if storage { "Storage" } else { "Index" };
    let version = if config.num_queues == 0 { VERSION } else { VERSION_QUEUES };
    let mut text = format!("\nACT version {version}\n{what} device IO test\nits load, without the tool\n\n");
    let c = config;
    let _ = writeln!(text, "ACT-{} CONFIGURATION", what.to_uppercase());
    let _ = writeln!(text, "device-names: {}", c.device_names.join(" "));
    let mut line = |key: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(text, "{key}: {value}");
    };
    line("num-devices", &c.device_names.len());
    if c.file_size_mbytes != 0 {
        line("file-size-mbytes", &c.file_size_mbytes);
    }
    line("service-threads", &c.service_threads);
    if c.num_queues != 0 {
        line("num-queues", &c.num_queues);
        line("threads-per-queue", &c.threads_per_queue);
    }
    if !storage {
        line("cache-threads", &c.cache_threads);
    }
    line("test-duration-sec", &c.test_duration_sec);
    line("report-interval-sec", &c.report_interval_sec);
    line("microsecond-histograms", &yes(c.microsecond_histograms));
    line("read-reqs-per-sec", &c.read_reqs_per_sec);
    line("write-reqs-per-sec", &c.write_reqs_per_sec);
    if storage {
        line("record-bytes", &c.record_bytes);
        line("record-bytes-range-max", &c.record_bytes_range_max);
        line("large-block-op-kbytes", &c.large_block_op_kbytes);
    }
    line("replication-factor", &c.replication_factor);
    if storage {
        line("update-pct", &c.update_pct);
    }
    line("defrag-lwm-pct", &c.defrag_lwm_pct);
    if storage {
        line("no-defrag-reads", &yes(c.no_defrag_reads));
        line("compress-pct", &c.compress_pct);
    }
    line("disable-odsync", &yes(c.disable_odsync));
    if storage {
        line("commit-to-device", &yes(c.commit_to_device));
        line("tomb-raider", &yes(c.tomb_raider));
        line("tomb-raider-sleep-usec", &c.tomb_raider_sleep_usec);
    }
    if c.num_queues != 0 {
        line("max-reqs-queued", &c.max_reqs_queued);
    }
    line("max-lag-sec", &c.max_lag_sec);
    text.push_str("\nDERIVED CONFIGURATION\n");
    if storage {
        let hundredths = |n: u64| format!("{}.{:02}", n / 100, n % 100);
        let _ = write!(
            text,
            "record-stored-bytes: {} ... {}\ninternal-read-reqs-per-sec: {}\ninternal-write-reqs-per-sec: {}\n\
             large-block-reads-per-sec: {}\nlarge-block-writes-per-sec: {}\n",
            rates.record_stored_bytes,
            rates.record_stored_bytes_max,
            rates.reads,
            rates.writes,
            hundredths(rates.large_reads_hundredths()),
            hundredths(rates.large_writes_hundredths()),
        );
    } else {
        let _ = write!(
            text,
            "service-thread-reads-per-sec: {}\ncache-thread-reads-and-writes-per-sec: {}\n",
            rates.reads, rates.cache
        );
    }
    text.push('\n');
    for (name, space) in c.device_names.iter().zip(spaces) {
        let bytes = space.blocks * u64::from(space.block_bytes);
        let _ = write!(text, "{name} size = {bytes} bytes");
        if storage {
            let large = bytes / (u64::from(c.large_block_op_kbytes) << 10);
            let _ = write!(text, ", {large} large blocks, minimum IO size = {} bytes", space.block_bytes);
        }
        text.push('\n');
    }
    text.push_str("\nHISTOGRAM NAMES\n");
    for name in names {
        let _ = writeln!(text, "{name}");
    }
    text.push('\n');
    text
}
