//! `tranche sim` with loads that are no job files.

mod common;

use common::{Served, TRANCHE, text};
use serde_json::Value;
use std::process::{Command, Output};

fn sim(file: &str, content: impl AsRef<[u8]>, args: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(file), content).unwrap();
    Command::new(TRANCHE).current_dir(dir.path()).args(["sim", file]).args(args).output().unwrap()
}

fn json(file: &str, content: &str, args: &[&str]) -> Value {
    let output = sim(file, content, &[args, &["--output", "json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn error(file: &str, content: &str, args: &[&str]) -> String {
    let output = sim(file, content, args);
    // A load that cannot be, an option that cannot be for it, or one that ran and met errors.
    assert!(matches!(output.status.code(), Some(1 | 2 | 5)), "{}", text(&output.stdout));
    text(&output.stderr)
}

const ACT: &str =
    "device-names: /dev/nvme0n1\ntest-duration-sec: 2\nread-reqs-per-sec: 2000\nwrite-reqs-per-sec: 1000\n";
const LAB: [&str; 2] = ["--drive", "pblaze5-910-lab"];

#[test]
fn act() {
    let output = sim("storage.act", ACT, &LAB);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    for what in [
        "ACT version 6.6",
        "report-interval-sec: 1\n",
        "HISTOGRAM NAMES\n",
        "after 2 sec:",
        "large-block-writes (",
    ] {
        assert!(out.contains(what), "{what}: {out}");
    }
    let result = json("storage.act", ACT, &LAB);
    assert_eq!(result["act"]["passes"], true);
    // 23.53 per second, and the first at once.
    assert_eq!(result["act"]["large_blocks_read_and_written"], serde_json::json!([48, 48]));
    let index = json("act_index.conf", ACT, &LAB);
    assert!(index["log"].as_str().unwrap().contains("ACT-INDEX CONFIGURATION"));
    let wrong = error("storage.act", &format!("{ACT}service-thread: 4\n"), &[]);
    assert!(wrong.contains("storage.act:5: there is no key \"service-thread\""), "{wrong}");
    let two = error("storage.act", &ACT.replace("n1", "n1,/dev/nvme0n2"), &[]);
    assert!(two.contains("device-names are 2: the drive has 1 namespaces"), "{two}");
}

const TRACE: &str =
    "0,W,0,4096,1000000\n1,W,8192,8192,1000100\n0,R,0,4096,1500000\n1,R,1099511627776,4096,2000000\n";

#[test]
fn traces() {
    let at = |args: &[&str]| json("t.csv", TRACE, &[&LAB, args].concat());
    let plain = at(&[]);
    assert_eq!(plain["trace"]["requests"], 4);
    assert_eq!(plain["trace"]["folded"], 1);
    assert_eq!(plain["trace"]["devices"], serde_json::json!(["0", "1"]));
    let seconds = |result: &Value| result["simulation"]["simulated_seconds"].as_f64().unwrap();
    assert!((1.0..1.01).contains(&seconds(&plain)));
    assert!((0.25..0.26).contains(&seconds(&at(&["--speed", "4"]))));
    assert!(seconds(&at(&["--depth", "1"])) < 0.01);
    let some = at(&["--only", "1=1"]);
    assert_eq!((&some["trace"]["requests"], &some["trace"]["left_out"]), (&2.into(), &2.into()));
    assert_eq!(at(&["--fold", "scatter"])["trace"]["requests"], 4);
    let cut = json("t.csv", &TRACE[..TRACE.len() - 12], &LAB);
    assert_eq!((&cut["trace"]["requests"], &cut["trace"]["cut_at_line"]), (&3.into(), &4.into()));
    let line = "t.csv: the trace ends in the middle of line 4, which was left out";
    let told = |warnings: &Value| {
        warnings.as_array().unwrap().iter().any(|one| one.as_str().unwrap().contains(line))
    };
    assert!(told(&cut["simulation"]["warnings"]) && !told(&plain["simulation"]["warnings"]));
    let output = sim("t.csv", &TRACE[..TRACE.len() - 12], &LAB);
    let warned = text(&output.stderr).lines().any(|said| said.contains("WARN") && said.contains(line));
    assert!(output.status.success() && warned, "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("the trace ends in the middle of line 4"),
        "the report says it, too"
    );
    assert_eq!(json("week.txt", TRACE, &LAB)["trace"], plain["trace"], "known by how it begins");
    // Some programs begin a text with a mark.
    let marked = format!("\u{feff}{TRACE}");
    for (file, more) in [("t.csv", &[][..]), ("week.txt", &[]), ("t.csv", &["--trace-format", "alibaba"])] {
        let told = json(file, &marked, &[&LAB[..], more].concat());
        assert_eq!(told["trace"], plain["trace"], "{file} {more:?}");
    }
    let wrong = error("t.csv", &format!("\u{feff}{TRACE}\u{feff}what\n"), &LAB);
    assert!(wrong.contains("t.csv:5: "), "{wrong}");
    let wrong = error("t.csv", &format!("{TRACE}what\n"), &LAB);
    assert!(wrong.contains("t.csv:5: there are 1 fields: there must be 5"), "{wrong}");
    let wrong = error("t.csv", "a\n", &LAB);
    assert!(wrong.contains("t.csv:1: this is no trace that is known"), "{wrong}");
    let wrong = error("t.csv", TRACE, &[&LAB[..], &["--only", "1=7"]].concat());
    assert!(wrong.contains("there are [1]"), "{wrong}");
}

/// A run of nothing is no success: the message says why, and what helps.
#[test]
fn a_trace_of_which_nothing_counts_fails() {
    let fails = |file: &str, content: &str, args: &[&str], what: &str| {
        let output = sim(file, content, &[&LAB, args].concat());
        let told = text(&output.stderr);
        assert!(!output.status.success() && told.contains(what), "{what}: {told}");
    };
    let issued = "  8,0 0 1 0.000000000 697 D W 8 + 8 [x]\n  8,0 0 1 0.000001000 697 C W 8 + 8 [0]\n";
    fails(
        "t.blkparse",
        issued,
        &[],
        "1 I/Os have another action than the one that counts: choose it with --action",
    );
    fails("t.csv", TRACE, &["--only", "7=1"], "no device is one of --only; the trace has 0, 1");
    let opened = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n";
    fails("t.iolog", opened, &[], "none of its 3 lines is a read, write, flush or deallocation");
    let issued = json("t.blkparse", issued, &[&LAB[..], &["--action", "D"]].concat());
    assert_eq!(issued["trace"]["requests"], 1);
    for (action, what) in [("C", "it is Q (queued), D (issued) or N"), ("", "is no action")] {
        let wrong = error("t.csv", TRACE, &[&LAB[..], &["--action", action]].concat());
        assert!(wrong.contains(what), "{wrong}");
    }
    let wrong = error("t.csv", TRACE, &[&LAB[..], &["--trace-block", "1000"]].concat());
    assert!(wrong.contains("a power of two"), "{wrong}");
    for option in [["--depth", "4"], ["--only", "8,0=1"], ["--action", "D"]] {
        let wrong = error("j.fio", "[j]\nrw=read\nsize=1m\n", &[&LAB[..], &option].concat());
        assert!(wrong.contains("are for traces, and this is none"), "{wrong}");
    }
    let warns = |file: &str, content: &str, args: &[&str], what: &str| {
        let told = json(file, content, &[&LAB[..], args].concat())["simulation"]["warnings"].to_string();
        assert!(told.contains(what), "{what}: {told}");
    };
    warns("t.csv", TRACE, &["--only", "1=1", "--only", "x=1"], "there is no device \\\"x\\\" of --only");
    warns("t.csv", "0,W,0,4096,9\n0,W,0,4096,1\n", &[], "1 I/Os have a time before an earlier one's");
    warns("k.csv", "key,op,size\na,GET,100\nb,SET,5\n", &[], "the trace has no times");
    let sense = TRACE.repeat(50);
    let one = json("t.csv", &format!("{sense}what\n"), &LAB);
    assert_eq!((&one["trace"]["requests"], &one["trace"]["unknown"]), (&200.into(), &1.into()));
    let warnings = one["simulation"]["warnings"].to_string();
    assert!(
        warnings.contains("lines that make no sense and were left out: 1, the first is line 201"),
        "{warnings}"
    );
}

/// Compressed data that end too early are damage: the run fails, with the figures of what came before.
#[test]
fn a_compressed_trace_that_is_not_whole_fails() {
    // A frame of Zstandard (RFC 8878) with a block for each line, as it is.
    let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0, 0];
    let lines: Vec<&str> = TRACE.split_inclusive('\n').collect();
    for (n, line) in lines.iter().enumerate() {
        let header = u32::from(n + 1 == lines.len()) | (line.len() as u32) << 3;
        frame.extend(&header.to_le_bytes()[..3]);
        frame.extend(line.as_bytes());
    }
    let whole = sim("t.csv.zst", &frame, &[&LAB[..], &["--output", "json"]].concat());
    assert_eq!(whole.status.code(), Some(0), "{}", text(&whole.stderr));
    let whole: Value = serde_json::from_slice(&whole.stdout).unwrap();
    assert_eq!(whole["trace"]["requests"], 4);
    // Its window keeps what was decoded until the frame ends, so a short one is of no use: the lines come many times.
    let many: Vec<u8> =
        frame[..6].iter().copied().chain(frame[6..6 + 3 + lines[0].len()].repeat(200)).collect();
    let output = sim("t.csv.zst", &many, &[&LAB[..], &["--output", "json"]].concat());
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("a part of it is missing; what came before was replayed"));
    let cut: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!((100..=200).contains(&cut["trace"]["requests"].as_u64().unwrap()), "{}", cut["trace"]);
    assert!(cut["simulation"]["problem"].as_str().unwrap().contains("a part of it is missing"));
    assert_eq!(cut["trace"]["cut_at_line"], Value::Null);
    let output = sim("t.csv.zst", &frame[..20], &LAB);
    assert!(
        !output.status.success()
            && text(&output.stderr).contains("t.csv.zst:1: the compressed data end here")
    );
}

/// Records what a job does with a live drive, and replays it on that of `args`: what the live drive said, and the replay.
fn record_and_replay(drive: &str, args: &[&str]) -> (String, Output) {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).into_os_string().into_string().unwrap();
    let (recorded, socket, job, log) = (at("load.rec"), at("socket"), at("load.fio"), at("log"));
    std::fs::write(&job, "[mixed]\nrw=randrw\nbs=4k\nsize=8m\niodepth=4\n").unwrap();
    let mut serve = Command::new(TRANCHE);
    serve.args(["serve", "--drive", drive, "--unix", &socket, "--record", &recorded]);
    let served = Served::run(serve.stderr(std::fs::File::create(&log).unwrap()));
    let on = format!("unix://{socket}");
    let bench = Command::new(TRANCHE).args(["bench", &job, "--on", &on]).output().unwrap();
    assert!(bench.status.success(), "{}", text(&bench.stderr));
    served.signal("TERM");
    assert_eq!(served.end(), Some(0));
    let replayed =
        Command::new(TRANCHE).args(["sim", &recorded, "--drive", drive]).args(args).output().unwrap();
    assert!(replayed.status.success(), "{}", text(&replayed.stderr));
    (std::fs::read_to_string(&log).unwrap(), replayed)
}

/// What hosts did with a live drive, replayed on an equal one: as many commands, with the same latencies by the drive's clock.
#[test]
fn a_recording_is_replayed() {
    let (log, replayed) = record_and_replay("pblaze5-910-lab", &["--output", "json"]);
    assert!(!log.contains("timing"), "{log}");
    let replayed: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    let latencies = replayed["trace"]["latencies"].as_array().unwrap();
    assert_eq!(latencies.len(), 2, "{replayed}");
    for kind in latencies {
        assert_eq!(kind["within_5_percent"], true, "{kind}");
        assert!(kind["recorded"]["commands"].as_u64() > Some(900), "{kind}");
        assert!(
            kind["recorded_at_host"]["mean_ns"].as_u64() > kind["recorded"]["mean_ns"].as_u64(),
            "{kind}"
        );
    }
}

/// A drive without timing has no latencies to record: it says so, and so does the replay.
#[test]
fn a_recording_without_timing_is_told() {
    let (log, replayed) = record_and_replay("default", &[]);
    assert!(log.contains("latencies of 0") && log.contains("--timing on"), "{log}");
    let replayed = text(&replayed.stdout);
    assert!(replayed.contains("1 reads") && replayed.contains("ran without timing"), "{replayed}");
    assert!(!replayed.contains("another drive") && !replayed.contains("the same drive"), "{replayed}");
}
