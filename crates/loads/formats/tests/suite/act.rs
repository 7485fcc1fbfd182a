//! The loads of Aerospike's certification tool, on devices that answer after a fixed time.

use load_formats::act::{Act, ActProgram, Config, HostTime, Space, Stop};
use std::collections::BTreeMap;
use workload::{Actor, Nanos, Next, Request, Verb};

const SECOND: Nanos = 1_000_000_000;
const SPACE: Space = Space { blocks: (1 << 30) / 512, block_bytes: 512, volatile_cache: false };

/// The start of a run is not the clock's.
const START: Nanos = 777_000_000;

struct ActRun {
    act: Act,
    text: String,
    issued: Vec<(Nanos, Request)>,
    end: Nanos,
}

fn run(config: Config, space: Space, latency: impl Fn(&Request) -> Nanos) -> ActRun {
    run_on(config, space, HostTime::NONE, latency)
}

fn run_on(config: Config, space: Space, host: HostTime, latency: impl Fn(&Request) -> Nanos) -> ActRun {
    let spaces = vec![space; config.device_names.len()];
    let mut act = Act::new(config, &spaces, 1, 1).unwrap().on_host(host).with_text();
    let (mut now, mut number) = (START, 0u64);
    let mut outstanding = BTreeMap::new();
    let (mut issued, mut text) = (Vec::new(), String::new());
    loop {
        let wake = match act.next(now) {
            Next::Submit(request) => {
                let same = |(_, tag): &(u64, u32)| *tag == request.tag;
                assert!(!outstanding.values().any(same), "a thread does one thing at a time");
                assert!(request.lba + u64::from(request.blocks) <= space.blocks);
                assert!(usize::from(request.namespace) < spaces.len());
                number += 1;
                outstanding.insert((now + latency(&request), number), (number, request.tag));
                issued.push((now - START, request));
                continue;
            }
            Next::Done => break,
            Next::At(at) => at,
            Next::Wait => Nanos::MAX,
        };
        let first = outstanding.first_key_value().map(|(&key, &(_, tag))| (key, tag));
        match first {
            Some((key, tag)) if key.0 <= wake => {
                outstanding.remove(&key);
                now = key.0;
                act.completed(now, tag, true);
            }
            _ => now = wake,
        }
        text += &act.take_text();
    }
    text += &act.take_text();
    ActRun { act, text, issued, end: now - START }
}

fn storage(lines: &str) -> Config {
    Config::parse(ActProgram::Storage, &format!("device-names: a, b\ntest-duration-sec: 4\n{lines}")).unwrap()
}

#[test]
fn a_file() {
    let text = "# ACT-storage\n\ndevice-names: /dev/nvme0n1,/dev/nvme0n2;c\ntest-duration-sec: 86400 # a day\n  \
                read-reqs-per-sec:2000\nwrite-reqs-per-sec\t1000\ntomb-raider: yes\nscheduler-mode: noop\r\n";
    let config = Config::parse(ActProgram::Storage, text).unwrap();
    let names = ["/dev/nvme0n1", "/dev/nvme0n2", "c"].map(str::to_owned).to_vec();
    let standard = Config::standard(ActProgram::Storage, names);
    let (read_reqs_per_sec, write_reqs_per_sec) = (2000, 1000);
    assert_eq!(config, Config { tomb_raider: true, read_reqs_per_sec, write_reqs_per_sec, ..standard });
    assert_eq!((config.service_threads, config.max_lag_sec, config.record_bytes), (40, 10, 1536));
}

#[test]
fn what_is_wrong_and_where() {
    let wrong = |kind, text: &str, what: &[&str]| {
        let error = Config::parse(kind, text).unwrap_err().to_string();
        assert!(what.iter().all(|what| error.contains(what)), "{error}");
    };
    let good = "device-names: a\ntest-duration-sec: 9\nread-reqs-per-sec: 2000\n";
    let storage = |line: &str, what: &[&str]| wrong(ActProgram::Storage, &format!("{good}{line}\n"), what);
    wrong(ActProgram::Storage, "", &["line 1", "device-names is missing"]);
    wrong(ActProgram::Storage, "device-names: a\n", &["line 1", "test-duration-sec is missing"]);
    wrong(ActProgram::Storage, "device-names: a\ntest-duration-sec: 9", &["line 2", "both 0"]);
    storage("cache-threads: 8", &["line 4", "no key \"cache-threads\"", "large-block-op-kbytes"]);
    wrong(ActProgram::Index, &format!("{good}record-bytes: 8"), &["line 4", "no key", "cache-threads"]);
    storage("record-bytes: 12x", &["line 4", "\"12x\"", "whole number"]);
    storage("record-bytes: 4294967296", &["line 4", "whole number"]);
    storage("record-bytes:", &["line 4", "\"\""]);
    storage("tomb-raider: maybe", &["line 4", "yes or no"]);
    storage("record-bytes-range-max: 1536", &["line 4", "from 1537"]);
    storage("large-block-op-kbytes: 96", &["line 4", "power of two"]);
    storage("large-block-op-kbytes: 1", &["line 4", "not one record"]);
    storage("defrag-lwm-pct: 100", &["line 4", "0 to 99"]);
    storage("service-threads: 2001", &["line 4", "2000 small requests"]);
    storage("service-threads: 4000000000", &["line 4", "1 to 65536"]);
    storage("threads-per-queue: 70000", &["line 4", "threads-per-queue"]);
    storage("disable-odsync: yes\ncommit-to-device: yes", &["line 4", "contradict"]);
    storage("scheduler-mode: fast", &["line 4", "noop"]);
    storage(&format!("device-names: {}", "x,".repeat(200)), &["line 4", "more than 128"]);
    storage(&"x".repeat(5000), &["line 4", "longer than"]);
    let small = Space { blocks: 8, ..SPACE };
    let config = Config::standard(ActProgram::Storage, vec!["a".to_owned()]);
    let refused = |spaces: &[Space]| Act::new(config.clone(), spaces, 0, 1).unwrap_err();
    assert!(refused(&[small]).contains("a: it has 4096 bytes"));
    assert!(refused(&[]).contains("there are 0 namespaces"));
    assert!(refused(&[Space { block_bytes: 8192, ..SPACE }]).contains("8192"));
}

#[test]
fn rates_are_derived_as_the_tool_does() {
    let rates = |lines: &str| storage(lines).rates().unwrap();
    let at_1x = rates("read-reqs-per-sec: 2000\nwrite-reqs-per-sec: 1000");
    // 85 records of 1,536 bytes to a block, and each block written is written again once.
    assert_eq!((at_1x.large_reads_hundredths(), at_1x.large_writes_hundredths()), (2353, 2353));
    assert_eq!((at_1x.reads, at_1x.writes), (2000, 0));
    let odd =
        rates("write-reqs-per-sec: 1000\nrecord-bytes: 1500\nrecord-bytes-range-max: 3000\nupdate-pct: 50");
    // 1,504 to 3,008 bytes, 2,256 on average: 58 to a block.
    assert_eq!((odd.record_stored_bytes, odd.record_stored_bytes_max), (1504, 3008));
    assert_eq!((odd.reads, odd.large_writes_hundredths()), (500, 3448));
    let commit =
        rates("write-reqs-per-sec: 850\ncommit-to-device: y\nreplication-factor: 2\ndefrag-lwm-pct: 60");
    assert_eq!((commit.writes, commit.large_reads_hundredths()), (1700, 5000));
    assert_eq!(commit.large_writes_hundredths(), 3000);
    let reads = rates("write-reqs-per-sec: 850\nno-defrag-reads: yes");
    assert_eq!((reads.large_reads_hundredths(), reads.large_writes_hundredths()), (0, 2000));
    let index = "device-names: a\ntest-duration-sec: 1\nread-reqs-per-sec: 2000\nwrite-reqs-per-sec: 1000\n\
                 replication-factor: 2\ndefrag-lwm-pct: 60";
    let index = Config::parse(ActProgram::Index, index).unwrap().rates().unwrap();
    assert_eq!((index.reads, index.cache), (4000, 5000));
}

fn count(ran: &ActRun, verb: Verb, blocks: u32) -> usize {
    ran.issued.iter().filter(|(_, request)| request.verb == verb && request.blocks == blocks).count()
}

#[test]
fn storage_at_1x() {
    let ran = run(storage("read-reqs-per-sec: 4000\nwrite-reqs-per-sec: 2000"), SPACE, |_| 100_000);
    assert_eq!(ran.end, 4 * SECOND);
    // 1,536 bytes are three blocks; each of 40 threads starts with one, and keeps its 100 per second.
    assert_eq!(count(&ran, Verb::Read, 3), 4000 * 4);
    // 47.06 per second, of two devices, in four seconds.
    let blocks = 2 * (1.0 + 4.0 * 47.06 / 2.0) as usize;
    assert_eq!((count(&ran, Verb::Read, 256), count(&ran, Verb::Write, 256)), (blocks, blocks));
    assert_eq!(ran.issued.len(), 4 * 4000 + 2 * blocks);
    let second = ran.issued.iter().filter(|(_, request)| request.namespace == 1).count();
    assert!((7500..8500).contains(&second), "{second}");
    assert!(ran.act.passes() && ran.act.stopped().is_none());
    let windows: Vec<_> = ran.act.windows().iter().map(|w| (w.reads, w.over)).collect();
    assert_eq!(windows, [(4000, [0; 3]); 4]);
    assert_eq!(ran.text.lines().filter(|line| line.starts_with("after ")).count(), 4);
}

#[test]
fn slow_reads_fail_and_lag_stops() {
    let lines = "read-reqs-per-sec: 4000\nwrite-reqs-per-sec: 2000\nmax-lag-sec: 1";
    let turn = std::cell::Cell::new(0u32);
    // Of 100 small reads 4, then 6 take 2 ms.
    for (slow, passes) in [(4, true), (6, false)] {
        turn.set(0);
        let ran = run(storage(lines), SPACE, |request| {
            turn.set(turn.get() + u32::from(request.blocks == 3));
            if request.blocks == 3 && turn.get() % 100 < slow { 2_000_000 } else { 100_000 }
        });
        assert_eq!(ran.act.passes(), passes);
    }
    // A thread writes 23.5 blocks per second: it cannot if one takes 60 ms.
    let slow = |verb: Verb, blocks: u32, latency: Nanos| {
        run(storage(lines), SPACE, move |request| {
            if (request.verb, request.blocks) == (verb, blocks) { latency } else { 100_000 }
        })
    };
    let ran = slow(Verb::Write, 256, 60_000_000);
    assert_eq!(ran.act.stopped(), Some(Stop::LargeBlockWrites));
    assert!(!ran.act.passes());
    // It is one second behind after 1 / (1 - 42.5 / 60) seconds, and the report of that second is the last.
    assert!((3 * SECOND..4 * SECOND).contains(&ran.end), "{}", ran.end);
    assert!(
        ran.text.contains("ERROR: large block writes can't keep up\ndrive(s) can't keep up - test stopped\n")
    );
    assert_eq!(ran.text.lines().rfind(|line| line.starts_with("after ")), Some("after 4 sec:"));
    assert_eq!(slow(Verb::Read, 256, 60_000_000).act.stopped(), Some(Stop::LargeBlockReads));
    assert_eq!(slow(Verb::Read, 3, 20_000_000).act.stopped(), Some(Stop::Service));
    let keeps_up = slow(Verb::Write, 256, 40_000_000).act;
    assert_eq!(keeps_up.stopped(), None);
    let lag = keeps_up.behind(START + 4 * SECOND).unwrap().0;
    assert!(lag < 50_000_000, "{lag}");
    let (lag, who) = ran.act.behind(START + ran.end).unwrap();
    assert!(lag >= SECOND && who == Stop::LargeBlockWrites, "{lag} {who:?}");
}

#[test]
fn queues_of_version_5() {
    let lines = "read-reqs-per-sec: 4000\nservice-threads: 4\nnum-queues: 2\nthreads-per-queue: 8\n";
    let ran = run(storage(lines), SPACE, |_| 1_000_000);
    // One more of each service thread: they generate what they start with.
    let reads = ran.act.windows().iter().map(|w| w.reads).sum::<u64>();
    assert!((15_990..=16_000).contains(&reads), "{reads}");
    assert!(ran.text.contains("ACT version 5.1") && ran.text.contains("requests-queued: "));
    // 16 threads that take 5 ms each do 3,200 per second: what waits for them counts as latency.
    let ran = run(storage(lines), SPACE, |_| 5_000_000);
    assert!(!ran.act.passes() && ran.act.stopped().is_none());
    let last = ran.act.windows()[3];
    assert!((3150..=3250).contains(&last.reads) && last.over[2] == last.reads, "{last:?}");
    let few = format!("{lines}max-reqs-queued: 1000\ncommit-to-device: yes\nwrite-reqs-per-sec: 10");
    assert_eq!(run(storage(&few), SPACE, |_| 5_000_000).act.stopped(), Some(Stop::Queued));
}

#[test]
fn durable_writes_are_flushed_where_they_must_be() {
    let lines = "write-reqs-per-sec: 850\nread-reqs-per-sec: 850\ncommit-to-device: yes\n";
    let cached = Space { volatile_cache: true, block_bytes: 4096, ..SPACE };
    let ran = run(storage(lines), cached, |_| 10_000);
    let writes = ran.issued.iter().filter(|(_, request)| request.verb == Verb::Write).count();
    assert!((3300..3600).contains(&writes), "{writes}");
    assert_eq!(ran.issued.iter().filter(|(_, request)| request.verb == Verb::Flush).count(), writes);
    let plain = run(storage(lines), SPACE, |_| 10_000);
    assert!(plain.issued.iter().all(|(_, request)| request.verb != Verb::Flush));
    let lines = "write-reqs-per-sec: 850\nread-reqs-per-sec: 850\ndisable-odsync: yes\n";
    let careless = run(storage(lines), cached, |_| 10_000);
    assert!(careless.issued.iter().all(|(_, request)| request.verb != Verb::Flush));
}

#[test]
fn index_threads() {
    let text = "device-names: a\ntest-duration-sec: 4\nread-reqs-per-sec: 2000\nwrite-reqs-per-sec: 1000\n";
    let ran = run(Config::parse(ActProgram::Index, text).unwrap(), SPACE, |_| 50_000);
    assert!(ran.issued.iter().all(|(_, r)| r.blocks == 8 && r.lba.is_multiple_of(8)));
    // 2,000 reads and writes per second in bundles of 100 of 8 threads, and 3,000 reads of the service threads.
    let writes = count(&ran, Verb::Write, 8);
    assert_eq!(writes, 2000 * 4);
    assert_eq!(count(&ran, Verb::Read, 8), 3000 * 4 + writes);
    assert!(ran.text.contains("ACT-INDEX CONFIGURATION") && ran.text.contains("\nwrites ("));
}

#[test]
fn the_tomb_raider_goes_from_end_to_end() {
    let lines =
        "read-reqs-per-sec: 100\ntomb-raider: yes\ntomb-raider-sleep-usec: 4900\nfile-size-mbytes: 64\n";
    let ran = run(storage(lines), SPACE, |_| 100_000);
    let tomb: Vec<u64> = ran
        .issued
        .iter()
        .filter(|(_, request)| request.blocks == 256 && request.namespace == 1)
        .map(|(_, request)| request.lba / 256)
        .collect();
    assert_eq!(tomb.len(), 800);
    assert!(tomb.iter().zip((0..512).cycle()).all(|(a, b)| *a == b));
}

/// Reads what the tool's `act_latency.py` reads, by its rules: the percentages above 1, 2, 4 … units and the count of each slice.
fn act_latency(text: &str, histogram: &str, slice: u64) -> Vec<(u64, Vec<f64>)> {
    let mut lines = text.lines();
    let version = lines.find(|line| line.starts_with("ACT version")).expect("ACT version not found");
    assert_eq!(version.split(' ').nth(2).unwrap().trim().parse::<f64>().unwrap().floor(), 6.0);
    let interval = lines.find(|line| line.starts_with("report-interval-sec")).expect("no report interval");
    assert!(interval.split(' ').nth(1).unwrap().parse::<u64>().unwrap() >= 1);
    for wanted in ["CONFIGURATION", "DERIVED CONFIGURATION", "HISTOGRAM NAMES"] {
        assert!(text.lines().any(|line| line.ends_with(wanted)), "{wanted}");
    }
    let mut lines = text.lines().skip_while(|line| !line.starts_with("HISTOGRAM NAMES")).peekable();
    let (mut slices, mut after) = (Vec::new(), slice);
    let (mut old_total, mut old) = (0, vec![0u64; 17]);
    while lines.by_ref().any(|line| line.starts_with(&format!("after {after} "))) {
        while let Some(line) = lines.next_if(|line| !line.trim().is_empty()) {
            if !line.starts_with(histogram) {
                continue;
            }
            let open = line.find('(').unwrap();
            let total: u64 = line[open + 1..line.find(" total)").unwrap()].parse().unwrap();
            let mut values = vec![0u64; 17];
            while let Some(line) = lines.next_if(|line| line.starts_with(" (")) {
                for part in line.split(" (").skip(1) {
                    let (bucket, count) = part.trim_end_matches(')').split_once(": ").unwrap();
                    values[bucket.parse::<usize>().unwrap()] = count.parse().unwrap();
                }
            }
            let mut below = 0;
            let over = (0..17).map(|bucket| {
                below += values[bucket] - old[bucket];
                100.0 * (total - old_total - below) as f64 / (total - old_total) as f64
            });
            slices.push((total - old_total, over.collect()));
            (old_total, old) = (total, values);
        }
        after += slice;
    }
    slices
}

#[test]
fn the_text_is_read_as_the_tools_script_does() {
    let lines = "read-reqs-per-sec: 4000\nwrite-reqs-per-sec: 2000\n";
    // One read of four takes 3 ms, and one of eight 9.
    let latency = |request: &Request| match request.lba % 8 {
        0 => 9_000_000,
        1 | 2 => 3_000_000,
        _ => 500_000,
    };
    let ran = run(storage(lines), SPACE, latency);
    let slices = act_latency(&ran.text, "reads", 2);
    assert_eq!(slices.len(), 2);
    assert!(slices.iter().map(|(total, _)| total).sum::<u64>() >= 15_900);
    let windows = ran.act.windows();
    for ((total, over), window) in slices.iter().zip(windows.chunks(2)) {
        assert_eq!(*total, window[0].reads + window[1].reads);
        for (bucket, limit) in [(0, 0), (3, 1), (6, 2)] {
            let ours = 100.0 * (window[0].over[limit] + window[1].over[limit]) as f64 / *total as f64;
            assert!((over[bucket] - ours).abs() < 1e-9, "{over:?} {window:?}");
        }
        assert!((35.0..40.0).contains(&over[0]) && (11.0..14.0).contains(&over[3]), "{over:?}");
    }
    assert_eq!(act_latency(&ran.text, "b-reads", 1).len(), 4);
    assert_eq!(act_latency(&ran.text, "large-block-writes", 4).len(), 1);
}

#[test]
fn equal_seeds_give_equal_requests() {
    let once = || run(storage("read-reqs-per-sec: 400\nwrite-reqs-per-sec: 2000"), SPACE, |_| 100_000).issued;
    assert_eq!(once(), once());
}

proptest::proptest! {
    #[test]
    fn no_text_is_too_strange(text in "(device-names|[a-z-]{1,20})?[: ]{0,2}[a-z0-9,#\n-]{0,40}") {
        load_formats::act::fuzz(&text);
    }

    #[test]
    fn no_configuration_is_too_strange(
        numbers in proptest::collection::vec(
            ("(service-threads|report-interval-sec|record-bytes|record-bytes-range-max|large-block-op-kbytes|replication-factor|\
              update-pct|defrag-lwm-pct|compress-pct|tomb-raider-sleep-usec|max-lag-sec|num-queues|threads-per-queue|\
              max-reqs-queued|file-size-mbytes|cache-threads)", 0u32..5000), 0..4),
        flags in proptest::collection::vec(
            "(microsecond-histograms|no-defrag-reads|disable-odsync|commit-to-device|tomb-raider): (yes|no)", 0..3),
        rates in (0u32..10_000, 0u32..10_000),
    ) {
        let numbers: String = numbers.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
        let (reads, writes) = rates;
        load_formats::act::fuzz(&format!(
            "device-names: a,b,c\ntest-duration-sec: 3\nread-reqs-per-sec: {reads}\nwrite-reqs-per-sec: {writes}\n{numbers}{}\n",
            flags.join("\n")
        ));
    }
}

#[test]
fn a_host_that_takes_time_slows_its_threads_down() {
    let storage = |lines: &str| {
        let text = format!("device-names: a\ntest-duration-sec: 2\nread-reqs-per-sec: 2000\n{lines}");
        Config::parse(ActProgram::Storage, &text).unwrap()
    };
    let large = |ran: &ActRun, verb: Verb| {
        let of = ran.issued.iter().filter(|(_, r)| r.blocks == 256 && r.verb == verb);
        of.map(|(at, _)| *at).collect::<Vec<_>>()
    };
    // More large blocks than one thread can do: it does one after the other.
    let host =
        HostTime { small: 5_000, large_read: 15_000, large_write: 20_000, fill: 30_000, slack: 0, start: 0 };
    let config = storage("write-reqs-per-sec: 500000\nmax-lag-sec: 0");
    for (host, read, write) in [(HostTime::NONE, 100_000, 100_000), (host, 115_000, 150_000)] {
        let ran = run_on(config.clone(), SPACE, host, |_| 100_000);
        for (verb, each) in [(Verb::Read, read), (Verb::Write, write)] {
            let times = large(&ran, verb);
            assert!(times.len() > 1000 && times.windows(2).all(|pair| pair[1] - pair[0] == each), "{verb:?}");
        }
    }
    // Threads that wait for their time: each starts later than the one before, and goes on late, never early and never by more than the slack.
    let host = HostTime { slack: 50_000, start: 20_000, ..HostTime::NONE };
    let ran = run_on(storage("write-reqs-per-sec: 1000"), SPACE, host, |_| 100_000);
    let (reads, writes) = (large(&ran, Verb::Read), large(&ran, Verb::Write));
    assert_eq!((reads[0], writes[0]), (0, 20_000));
    // 85 records to a block, half of them still valid: 1,000 records are 23.5 blocks.
    let due = |count: u64| count * 42_500_000;
    let late: Vec<_> = (0u64..).zip(&reads).skip(1).map(|(n, at)| at.checked_sub(due(n)).unwrap()).collect();
    assert!(late.iter().all(|late| *late <= 51_000), "{late:?}");
    assert!(late.iter().max().unwrap() - late.iter().min().unwrap() > 20_000, "{late:?}");
    assert_eq!(ran.issued, run_on(storage("write-reqs-per-sec: 1000"), SPACE, host, |_| 100_000).issued);
}
