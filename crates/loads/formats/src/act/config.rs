//! Configuration files.

use crate::fio::FileError;

/// Processors of the simulated host that the tool runs on; they decide the default of `service-threads`.
pub const PROCESSORS: u32 = 8;
/// Longest configuration file, in bytes.
pub const FILE_MAX: usize = 1 << 20;
/// Longest line, as in the tool.
const LINE_MAX: usize = 4095;
/// Longest device name, as in the tool.
const NAME_MAX: usize = 127;
/// Most devices of `act_storage`, as in the tool (`act_index`: 16).
pub const DEVICES_MAX: usize = 128;
const INDEX_DEVICES_MAX: usize = 16;
/// Most service threads, and most cache threads.
pub const THREADS_MAX: u32 = 65_536;
/// A record, and a large block, is at most a write block of the server: 8 MiB.
const WRITE_BLOCK: u32 = 8 << 20;

/// Which of the two programs a configuration is for. The files do not say.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ActProgram {
    /// `act_storage`: small reads, large-block reads and writes.
    Storage,
    /// `act_index`: 4 KiB reads and writes.
    Index,
}

/// A configuration: the keys of the file, named as there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Which program.
    pub kind: ActProgram,
    /// `device-names`, in order.
    pub device_names: Vec<String>,
    /// `service-threads`: those that do the small requests.
    pub service_threads: u32,
    /// `cache-threads` of `act_index`: those that write.
    pub cache_threads: u32,
    /// `test-duration-sec`.
    pub test_duration_sec: u32,
    /// `report-interval-sec`.
    pub report_interval_sec: u32,
    /// `microsecond-histograms`: the histograms' unit is a microsecond, not a millisecond.
    pub microsecond_histograms: bool,
    /// `read-reqs-per-sec`, of all devices together.
    pub read_reqs_per_sec: u32,
    /// `write-reqs-per-sec`, of all devices together.
    pub write_reqs_per_sec: u32,
    /// `record-bytes`.
    pub record_bytes: u32,
    /// `record-bytes-range-max`: 0 if all records have the same size.
    pub record_bytes_range_max: u32,
    /// `large-block-op-kbytes`, in KiB: a power of two.
    pub large_block_op_kbytes: u32,
    /// `replication-factor`.
    pub replication_factor: u32,
    /// `update-pct`: so many writes of a hundred read first.
    pub update_pct: u32,
    /// `defrag-lwm-pct`: blocks that are used less are moved together.
    pub defrag_lwm_pct: u32,
    /// `no-defrag-reads`: large blocks are not read.
    pub no_defrag_reads: bool,
    /// `compress-pct`: how much of what is written is random.
    pub compress_pct: u32,
    /// `disable-odsync`: writes need not be durable.
    pub disable_odsync: bool,
    /// `commit-to-device`: every record is written by itself, and only defragmentation writes large blocks.
    pub commit_to_device: bool,
    /// `tomb-raider`: a thread per device reads it from end to end.
    pub tomb_raider: bool,
    /// `tomb-raider-sleep-usec`: what that thread rests before each read.
    pub tomb_raider_sleep_usec: u32,
    /// `max-lag-sec`: a thread that is further behind ends the test; 0: never.
    pub max_lag_sec: u32,
    /// `num-queues` of version 5, in which service threads only put requests into queues; 0: version 6.
    pub num_queues: u32,
    /// `threads-per-queue` of version 5: those that do the requests.
    pub threads_per_queue: u32,
    /// `max-reqs-queued` of version 5: more outstanding small requests end the test.
    pub max_reqs_queued: u32,
    /// `file-size-mbytes`: only so much of each device is used; 0: all of it.
    pub file_size_mbytes: u32,
}

/// A place for a value.
enum Slot<'a> {
    Number(&'a mut u32),
    Flag(&'a mut bool),
    Devices(&'a mut Vec<String>),
    Scheduler,
}

impl Config {
    /// The defaults, on these devices, at 1x load: 2,000 reads and 1,000 writes per second and device, for a day.
    #[must_use]
    pub fn standard(kind: ActProgram, device_names: Vec<String>) -> Self {
        let devices = u32::try_from(device_names.len()).unwrap_or(u32::MAX);
        Config {
            test_duration_sec: 86_400,
            read_reqs_per_sec: devices.saturating_mul(2000),
            write_reqs_per_sec: devices.saturating_mul(1000),
            device_names,
            ..Self::empty(kind)
        }
    }

    fn empty(kind: ActProgram) -> Self {
        Config {
            kind,
            device_names: Vec::new(),
            service_threads: 5 * PROCESSORS,
            cache_threads: 8,
            test_duration_sec: 0,
            report_interval_sec: 1,
            microsecond_histograms: false,
            read_reqs_per_sec: 0,
            write_reqs_per_sec: 0,
            record_bytes: 1536,
            record_bytes_range_max: 0,
            large_block_op_kbytes: 128,
            replication_factor: 1,
            update_pct: 0,
            defrag_lwm_pct: 50,
            no_defrag_reads: false,
            compress_pct: 100,
            disable_odsync: false,
            commit_to_device: false,
            tomb_raider: false,
            tomb_raider_sleep_usec: 0,
            max_lag_sec: 10,
            num_queues: 0,
            threads_per_queue: 4,
            max_reqs_queued: 100_000,
            file_size_mbytes: 0,
        }
    }

    /// Reads a configuration file. Where a key is there twice the later one holds, and devices add up, as in the tool.
    ///
    /// # Errors
    /// The line that makes no sense, or the end of the file if something is missing.
    pub fn parse(kind: ActProgram, text: &str) -> Result<Self, FileError> {
        let wrong = |line, problem: String| Err(FileError { line, problem });
        if text.len() > FILE_MAX {
            return wrong(1, "a configuration has at most 1 MiB".to_owned());
        }
        let mut config = Self::empty(kind);
        // Where each key stands, for what only shows when all are known.
        let mut lines: Vec<(String, u32)> = Vec::new();
        let mut line = 0;
        for content in text.lines() {
            line += 1;
            if content.len() > LINE_MAX {
                return wrong(line, format!("the line is longer than {LINE_MAX} bytes"));
            }
            let content = content.split_once('#').map_or(content, |(before, _)| before);
            let separators = |c: char| c == ':' || c.is_ascii_whitespace();
            let content = content.trim_start_matches(separators);
            if content.is_empty() {
                continue;
            }
            let (key, value) = content.split_once(separators).unwrap_or((content, ""));
            let value = value.trim_start_matches(separators).trim();
            config.set(key, value).map_err(|problem| FileError { line, problem })?;
            lines.retain(|(known, _)| known != key);
            lines.push((key.to_owned(), line));
        }
        let given = |key| lines.iter().any(|(known, _)| known == key);
        let queues = given("threads-per-queue") || given("max-reqs-queued");
        if queues && !given("num-queues") {
            config.num_queues = PROCESSORS;
        }
        if config.num_queues != 0 && !given("service-threads") {
            config.service_threads = PROCESSORS;
        }
        match config.check() {
            Ok(()) => Ok(config),
            Err((key, problem)) => {
                let known = lines.iter().find(|(known, _)| known == key);
                wrong(known.map_or(line.max(1), |&(_, line)| line), problem)
            }
        }
    }

    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        use Slot::{Flag, Number};
        let storage = self.kind == ActProgram::Storage;
        let mut slots = vec![
            ("device-names", Slot::Devices(&mut self.device_names)),
            ("file-size-mbytes", Number(&mut self.file_size_mbytes)),
            ("service-threads", Number(&mut self.service_threads)),
            ("test-duration-sec", Number(&mut self.test_duration_sec)),
            ("report-interval-sec", Number(&mut self.report_interval_sec)),
            ("microsecond-histograms", Flag(&mut self.microsecond_histograms)),
            ("read-reqs-per-sec", Number(&mut self.read_reqs_per_sec)),
            ("write-reqs-per-sec", Number(&mut self.write_reqs_per_sec)),
            ("replication-factor", Number(&mut self.replication_factor)),
            ("defrag-lwm-pct", Number(&mut self.defrag_lwm_pct)),
            ("disable-odsync", Flag(&mut self.disable_odsync)),
            ("max-lag-sec", Number(&mut self.max_lag_sec)),
            ("scheduler-mode", Slot::Scheduler),
        ];
        if storage {
            slots.extend([
                ("record-bytes", Number(&mut self.record_bytes)),
                ("record-bytes-range-max", Number(&mut self.record_bytes_range_max)),
                ("large-block-op-kbytes", Number(&mut self.large_block_op_kbytes)),
                ("update-pct", Number(&mut self.update_pct)),
                ("no-defrag-reads", Flag(&mut self.no_defrag_reads)),
                ("compress-pct", Number(&mut self.compress_pct)),
                ("commit-to-device", Flag(&mut self.commit_to_device)),
                ("tomb-raider", Flag(&mut self.tomb_raider)),
                ("tomb-raider-sleep-usec", Number(&mut self.tomb_raider_sleep_usec)),
                ("num-queues", Number(&mut self.num_queues)),
                ("threads-per-queue", Number(&mut self.threads_per_queue)),
                ("max-reqs-queued", Number(&mut self.max_reqs_queued)),
            ]);
        } else {
            slots.push(("cache-threads", Number(&mut self.cache_threads)));
        }
        slots
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let most = if self.kind == ActProgram::Storage { DEVICES_MAX } else { INDEX_DEVICES_MAX };
        let slots = self.slots();
        let known: Vec<_> = slots.iter().map(|(name, _)| *name).collect();
        let Some((_, slot)) = slots.into_iter().find(|(name, _)| *name == key) else {
            return Err(format!("there is no key {key:?}: there are {}", known.join(", ")));
        };
        match slot {
            Slot::Number(slot) => {
                *slot = value.parse().map_err(|_| {
                    format!("{key} has the value {value:?}: write a whole number from 0 to {}", u32::MAX)
                })?;
            }
            Slot::Flag(slot) => {
                *slot = match value {
                    "yes" | "y" => true,
                    "no" | "n" => false,
                    _ => return Err(format!("{key} has the value {value:?}: write yes or no")),
                }
            }
            Slot::Devices(names) => {
                let separators = |c: char| matches!(c, ',' | ';') || c.is_ascii_whitespace();
                for name in value.split(separators).filter(|name| !name.is_empty()) {
                    if name.len() > NAME_MAX {
                        return Err(format!("a device's name is longer than {NAME_MAX} bytes"));
                    }
                    if names.len() == most {
                        return Err(format!("there are more than {most} devices"));
                    }
                    names.push(name.to_owned());
                }
            }
            Slot::Scheduler => {
                let modes = ["noop", "cfq", "kyber", "mq-deadline", "deadline", "none"];
                if !modes.contains(&value) {
                    return Err(format!("{key} has the value {value:?}: write one of {}", modes.join(", ")));
                }
            }
        }
        Ok(())
    }

    /// Whether the values are within their ranges and fit together; a key and what is wrong with it if they do not.
    ///
    /// # Errors
    /// The first key whose value cannot be.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let is = |ok: bool, key: &'static str, problem: String| if ok { Ok(()) } else { Err((key, problem)) };
        let range = |key: &'static str, value: u32, least: u32, most: u32| {
            is(
                (least..=most).contains(&value),
                key,
                format!("{key} is {value}: it is from {least} to {most}"),
            )
        };
        let missing = |key: &'static str, value: u32, what: &str| {
            is(value != 0, key, format!("{key} is missing or 0: {what}"))
        };
        let names = "device-names";
        is(!self.device_names.is_empty(), names, format!("{names} is missing: name one device at least"))?;
        missing("test-duration-sec", self.test_duration_sec, "say how long the test takes, in seconds")?;
        missing("report-interval-sec", self.report_interval_sec, "it is 1 at least")?;
        range("service-threads", self.service_threads, 1, THREADS_MAX)?;
        range("replication-factor", self.replication_factor, 1, 1000)?;
        range("defrag-lwm-pct", self.defrag_lwm_pct, 0, 99)?;
        if self.kind == ActProgram::Index {
            range("cache-threads", self.cache_threads, 1, THREADS_MAX)?;
        } else {
            range("record-bytes", self.record_bytes, 1, WRITE_BLOCK)?;
            let (key, most) = ("record-bytes-range-max", self.record_bytes_range_max);
            if most != 0 {
                range(key, most, self.record_bytes + 1, WRITE_BLOCK)?;
            }
            let (key, kib) = ("large-block-op-kbytes", self.large_block_op_kbytes);
            range(key, kib, 1, WRITE_BLOCK >> 10)?;
            is(kib.is_power_of_two(), key, format!("{key} is {kib}: it is a power of two"))?;
            range("update-pct", self.update_pct, 0, 100)?;
            range("compress-pct", self.compress_pct, 0, 100)?;
            if self.num_queues != 0 {
                range("num-queues", self.num_queues, 1, 1024)?;
                range("threads-per-queue", self.threads_per_queue, 1, THREADS_MAX / self.num_queues)?;
                range("max-reqs-queued", self.max_reqs_queued, 1, 1_000_000)?;
            }
            is(
                !(self.disable_odsync && self.commit_to_device),
                "disable-odsync",
                "disable-odsync and commit-to-device contradict each other: set one of them to no".to_owned(),
            )?;
        }
        self.rates().map(drop)
    }
}
