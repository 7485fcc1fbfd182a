//! `tranche sim`: loads in virtual time.

mod common;

use common::{TRANCHE, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Read};
use std::process::{Command, Output, Stdio};

/// A directory with a job file.
struct JobDirectory {
    dir: tempfile::TempDir,
}

impl JobDirectory {
    fn new(job: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("job.fio"), job).unwrap();
        Self { dir }
    }

    fn sim(&self, args: &[&str]) -> Output {
        let mut command = Command::new(TRANCHE);
        command.env("XDG_CACHE_HOME", self.dir.path().join("cache"));
        command.current_dir(self.dir.path()).args(["sim", "job.fio", "--force"]).args(args).output().unwrap()
    }

    /// The results of a run that succeeds.
    fn json(&self, args: &[&str]) -> Value {
        let output = self.sim(&[args, &["--output", "json"]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What is said of a run that fails.
    fn error(&self, args: &[&str]) -> String {
        self.ends_with(1, args)
    }

    /// The same with this exit code.
    fn ends_with(&self, code: i32, args: &[&str]) -> String {
        let output = self.sim(args);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
        text(&output.stderr)
    }
}

const RANDOM_JOBS: &str = "[global]\nbs=4k\niodepth=8\n[w]\nrw=randwrite\nsize=32m\n[r]\nstonewall\nrw=randread\nsize=16m\nnumjobs=2\ngroup_reporting\n";

#[test]
fn an_interval_gives_a_time_series() {
    let load = JobDirectory::new(RANDOM_JOBS);
    load.json(&["--interval", "1ms", "--out", "series"]);
    let file = std::fs::read(load.dir.path().join("series/series.parquet")).unwrap();
    assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"));
    // Where sweeps go, if nothing else is said; and no series without an interval.
    load.json(&["--interval", "1s"]);
    load.json(&["--out", "none"]);
    let there = |path: &str| load.dir.path().join(path).exists();
    assert!(there("out/sim/series.parquet") && there("none/results.json") && !there("none/series.parquet"));
    assert!(load.error(&["--interval", "1ns"]).contains("a microsecond or more"));
}

#[test]
fn the_same_seed_is_the_same_run() {
    let load = JobDirectory::new(RANDOM_JOBS);
    let digest = |args: &[&str]| load.json(args)["simulation"]["digest"].as_str().unwrap().to_owned();
    let first = digest(&[]);
    assert_eq!(first, digest(&["--seed", "1"]));
    assert_ne!(first, digest(&["--seed", "2"]));
    assert_ne!(first, digest(&["--drive", "pblaze5-910-lab"]));
    let conditioned = ["--precondition", "steady", "--seed", "3"];
    let steady = digest(&conditioned);
    let files = || std::fs::read_dir(load.dir.path().join("cache/tranche")).unwrap().count();
    assert_eq!(files(), 1);
    assert_eq!(steady, digest(&conditioned), "from the cache");
    assert_eq!(steady, digest(&[&conditioned[..], &["--no-cache"]].concat()));
    assert_eq!(files(), 1);
}

#[test]
fn jobs_on_zones_run_in_virtual_time() {
    let load = JobDirectory::new(
        "[global]\nzonemode=zbd\nbs=32k\niodepth=16\nsize=4z\n[write]\nrw=write\n[append]\nstonewall\noffset=4z\nrw=write\nzone_append=1\n\
         [random]\nstonewall\nrw=randwrite\nmax_open_zones=3\nio_size=64m\nzone_reset_threshold=0.5\nzone_reset_frequency=0.05\n",
    );
    let drive = testkit::drives::SMALL_DRIVE;
    let (head, _) = drive.split_once("[[namespace]]").unwrap();
    assert!(head.contains("media = \"nand\""));
    let nand = head.replacen("rated_cycles", "zone = { active = 6 }\nrated_cycles", 1);
    let toml =
        format!("{nand}[[namespace]]\nsize = \"32MiB\"\n[[namespace]]\nzoned = true\nsize = \"rest\"\n");
    std::fs::write(load.dir.path().join("zoned.toml"), toml).unwrap();
    let args = ["--drive", "zoned.toml", "--nsid", "2"];
    let report = load.json(&args);
    let jobs = report["jobs"].as_array().unwrap();
    let number = |job: usize, key: &str| jobs[job]["write"][key].as_f64().unwrap();
    assert_eq!(number(0, "io_bytes"), number(1, "io_bytes"));
    let resets = |job: usize| jobs[job]["zone_resets"].as_u64().unwrap();
    assert_eq!((resets(0), resets(1), number(2, "io_bytes")), (0, 0, f64::from(64 << 20)));
    assert!(resets(2) > 20, "{}", resets(2));
    let sim = &report["simulation"];
    assert_eq!(sim["problem"], Value::Null);
    // Nothing moves what is in zones.
    assert!(sim["write_amplification"].as_f64().unwrap() < 1.1, "{}", sim["write_amplification"]);
    assert_eq!(load.json(&args)["simulation"]["digest"], sim["digest"]);
    // With contents, a job verifies.
    std::fs::write(
        load.dir.path().join("job.fio"),
        "[v]\nzonemode=zbd\nrw=randwrite\nbs=16k\niodepth=8\nsize=4z\nverify=crc32c\nzone_append=1\n",
    )
    .unwrap();
    let verified = load.json(&[&args[..], &["--contents", "memory"]].concat());
    assert_eq!(verified["jobs"][0]["read"]["io_bytes"], verified["jobs"][0]["write"]["io_bytes"]);
    let error = load.error(&["--drive", "zoned.toml", "--nsid", "1", "--contents", "memory"]);
    assert!(error.contains("zonemode=zbd, but the namespace has no zones"), "{error}");
}

#[test]
fn reports_are_fios_and_the_drives() {
    let load = JobDirectory::new(RANDOM_JOBS);
    let report = load.json(&["--precondition", "fill"]);
    let jobs = report["jobs"].as_array().unwrap();
    let names: Vec<&Value> = jobs.iter().map(|job| &job["jobname"]).collect();
    assert_eq!(names, ["w", "r"]);
    assert_eq!(jobs[0]["write"]["io_bytes"], 32 << 20);
    assert_eq!(jobs[1]["read"]["io_bytes"], 32 << 20);
    let sim = &report["simulation"];
    assert_eq!((&sim["write_bytes"], &sim["read_bytes"]), (&Value::from(32 << 20), &Value::from(32 << 20)));
    assert_eq!((&sim["host_bytes_written"], &sim["requests"]), (&Value::from(32 << 20), &Value::from(16384)));
    assert_eq!((&sim["precondition"], &sim["problem"]), (&Value::from("fill"), &Value::Null));
    assert!(sim["simulated_seconds"].as_f64().unwrap() > 0.0);
    let amplification = sim["write_amplification"].as_f64().unwrap();
    // The buffer holds a part back, and gets rid of what it held before.
    assert!((0.4..2.0).contains(&amplification), "{amplification}");
    assert_eq!(sim["namespaces"][0]["writes"], 8192);
    assert!(sim["namespaces"][0]["read_latency_ms"]["p99"].as_f64().unwrap() > 0.0);

    let output = load.sim(&["--nsid", "1"]);
    let out = text(&output.stdout);
    for part in ["w: (groupid=0, jobs=1): err= 0:", "clat percentiles", "write amplification", "digest"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(!out.contains("cpu  "), "nobody's processor: {out}");
}

#[test]
fn figures_that_mislead_come_with_warnings() {
    let load = JobDirectory::new("[a]\nrw=randwrite\nsize=8m\n");
    let warnings = |args: &[&str]| -> Vec<String> {
        let told = load.json(args)["simulation"]["warnings"].as_array().unwrap().clone();
        told.iter().map(|warning| warning.as_str().unwrap().to_owned()).collect()
    };
    // The default drive: new, and half of its flash in no namespace, which counts once garbage is collected.
    let told = warnings(&[]);
    assert!(told.iter().any(|w| w.contains("the drive was new")), "{told:?}");
    assert!(!told.iter().any(|w| w.contains("in no namespace")), "{told:?}");
    let told = warnings(&["--precondition", "steady"]);
    assert!(
        told.iter().any(|w| w.contains("in no namespace") && w.contains("namespace.N.size=rest")),
        "{told:?}"
    );
    let filled = ["--precondition", "fill", "--set", "namespace.1.size=rest", "--out", "filled"];
    let runs = load.json(&filled);
    let told = runs["runs"][0]["simulation"]["warnings"].to_string();
    assert!(told.contains("has not settled") && !told.contains("in no namespace"), "{told}");

    // Namespaces of a cache tier are simulated without it.
    let tier = "[[set]]\nmedia = \"dram\"\ncapacity = \"64MiB\"\n[[namespace]]\nsize = \"32MiB\"\n[[namespace]]\nsize = \"8MiB\"\n\
                [[namespace]]\nsize = \"2MiB\"\n[[cache]]\nname = \"a\"\norigin = 1\ncache = 2\nmetadata = 3\n";
    std::fs::write(load.dir.path().join("tier.toml"), tier).unwrap();
    let told = warnings(&["--drive", "tier.toml", "--nsid", "1"]);
    assert!(told.iter().any(|w| w.contains("[[cache]]")), "{told:?}");

    // A run's space is told in words.
    let output = load.sim(&[]);
    assert!(text(&output.stdout).contains("effective over-provisioning"), "{}", text(&output.stdout));

    // The sweep over the spare shows what it is for only where the namespace has all of its set.
    let spare = |args: &[&str]| -> Vec<f64> {
        let all = [args, &["--set", "ftl.spare=7%,28%", "--out", "spare"]].concat();
        let runs = load.json(&all)["runs"].as_array().unwrap().clone();
        runs.iter().map(|run| run["simulation"]["over_provisioning"].as_f64().unwrap()).collect()
    };
    let (half, all) = (spare(&[]), spare(&["--set", "namespace.1.size=rest"]));
    assert!(half.iter().all(|op| *op > 1.0), "{half:?}");
    assert!((0.05..0.1).contains(&all[0]) && (0.25..0.35).contains(&all[1]), "{all:?}");
}

#[test]
fn rounds_of_the_load_go_before_until_write_amplification_is_steady() {
    let skewed = "[a]\nrw=randwrite\nsize=100%\nio_size=64m\nrandom_distribution=zipf:1.1\n";
    let load = JobDirectory::new(skewed);
    let small = TIMELESS_DRIVE.replace("spare = \"60%\"", "spare = \"20%\"").replace(
        "rated",
        "timing = { read = \"60us\", program = \"700us\", erase = \"4ms\", channel = \"800MB/s\" }\nrated",
    );
    std::fs::write(load.dir.path().join("small.toml"), small).unwrap();
    let run = |args: &[&str]| {
        let all = [&["--drive", "small.toml", "--precondition", "steady"], args].concat();
        load.json(&all)["simulation"].clone()
    };
    let at_once = run(&[]);
    assert!(at_once["warnings"].to_string().contains("has not settled"), "{at_once}");
    assert_eq!(at_once["settling_rounds"], Value::Null);
    let settled = run(&["--until-steady"]);
    let warned = settled["warnings"].to_string();
    assert!(
        !["settled", "still moves", "still changed"].iter().any(|words| warned.contains(words)),
        "{warned}"
    );
    assert!(
        settled["settling_rounds"].as_u64().is_some_and(|rounds| (3..100).contains(&rounds)),
        "{settled}"
    );
    // Uniform writes before it leave hot and cold pages together, which costs more than the load's own order.
    let amplification = |run: &Value| run["write_amplification"].as_f64().unwrap();
    assert_ne!(amplification(&settled), amplification(&at_once));
    assert_eq!(settled["digest"], run(&["--until-steady"])["digest"]);
    let told = text(&load.sim(&["--drive", "small.toml", "--until-steady"]).stdout);
    assert!(told.contains("until write amplification no longer changed"), "{told}");
}

/// The rows of a CSV file by the names of their columns. Texts have neither quotes nor ends of lines.
fn rows(csv: &str) -> Vec<BTreeMap<String, String>> {
    let fields = |line: &str| -> Vec<String> {
        let (mut fields, mut quoted) = (vec![String::new()], false);
        for letter in line.chars() {
            match letter {
                '"' => quoted = !quoted,
                ',' if !quoted => fields.push(String::new()),
                _ => fields.last_mut().unwrap().push(letter),
            }
        }
        fields
    };
    let mut lines = csv.lines().map(fields);
    let head = lines.next().unwrap();
    lines.map(|row| head.iter().cloned().zip(row).collect()).collect()
}

#[test]
fn rows_of_a_sweep_have_the_warnings_and_the_state_of_their_runs() {
    let load = JobDirectory::new(
        "[a]\nrw=randwrite\ntime_based\nruntime=1ms\nbs=4k\n[b]\nstonewall\nrw=read\nsize=8m\n",
    );
    std::fs::write(load.dir.path().join("drive.toml"), TIMELESS_DRIVE).unwrap();
    let sets = ["--set", "link.command_overhead=1us,0us", "--set", "precondition=none,fill", "--out", "x"];
    let output = load.sim(&[&["--drive", "drive.toml"], &sets[..]].concat());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let file = |name: &str| std::fs::read_to_string(load.dir.path().join("x").join(name)).unwrap();
    let rows = rows(&file("results.csv"));
    let results: Value = serde_json::from_str(&file("results.json")).unwrap();
    assert_eq!(rows.len(), 4);
    let mut kinds = BTreeSet::new();
    for (row, run) in rows.iter().zip(results["runs"].as_array().unwrap()) {
        let simulation = &run["simulation"];
        let warnings = simulation["warnings"].as_array().unwrap().iter().map(|text| text.as_str().unwrap());
        let warnings: Vec<&str> = warnings.collect();
        assert_eq!(row["warnings"], warnings.join("; "));
        assert_eq!(row["state"], simulation["state"].as_str().unwrap());
        let failed = row["link.command_overhead"] == "0";
        assert_eq!(
            (row["state"] == "failed", warnings.is_empty(), row["problem"].is_empty()),
            (failed, failed, !failed)
        );
        kinds.extend(warnings.iter().map(|text| text.split([':', ',']).next().unwrap().to_owned()));
    }
    // The table has numbers of them, which are below it.
    let head = out.lines().next().unwrap();
    assert!(head.contains("state") && head.ends_with("warnings"), "{out}");
    let below = out.split_once("\nWarnings:\n").unwrap().1;
    assert!(kinds.len() >= 2 && kinds.iter().all(|kind| below.contains(kind.as_str())), "{kinds:?}\n{out}");
    assert!(out.contains("failed") && below.contains("  1 (1 run) "), "{out}");
    assert!(err.contains("2 of 4 runs have warnings"), "{err}");
}

/// The columns that depend on the machine.
const OF_THIS_MACHINE: [&str; 4] =
    ["preparation_seconds", "wall_seconds", "cpu_seconds", "requests_per_cpu_second"];

#[test]
fn a_sweep_continues_where_it_was() {
    let load = JobDirectory::new("[a]\nrw=randrw\nsize=8m\nbs=4k\n");
    let job = std::fs::read(load.dir.path().join("job.fio")).unwrap();
    let sim = |args: &[&str], code: i32| {
        let mut command = Command::new(TRANCHE);
        command.current_dir(load.dir.path()).args(["sim", "job.fio", "--no-cache"]).args(args);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
        text(&output.stderr)
    };
    let path = |name: &str| load.dir.path().join(name);
    let read = |name: &str| std::fs::read_to_string(path(name)).unwrap();
    let two = ["--set", "job.iodepth=1,8", "--set", "seed=1,2", "--interval", "1ms"];
    let three = ["--set", "seed=3,2,1", "--set", "job.iodepth=1,8", "--interval", "1ms"];
    sim(&[&two[..], &["--out", "grown"]].concat(), 0);
    sim(&[&three[..], &["--out", "whole"]].concat(), 0);
    let before = rows(&read("grown/results.csv"));
    // A program that was killed leaves runs, half a line, and no results.
    let journal = read("grown/runs.jsonl");
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    assert_eq!(lines.len(), 5);
    let last = lines[4];
    std::fs::write(path("grown/runs.jsonl"), lines[..4].concat() + &last[..last.len() / 2]).unwrap();
    std::fs::remove_file(path("grown/results.json")).unwrap();
    let error = sim(&[&two[..], &["--out", "grown"]].concat(), 1);
    assert!(error.contains("runs.jsonl") && error.contains("--resume"), "{error}");

    let told = sim(&[&three[..], &["--out", "grown", "--resume"]].concat(), 0);
    assert!(told.contains("[3/3]") && !told.contains("/4]"), "{told}");
    let (grown, whole) = (rows(&read("grown/results.csv")), rows(&read("whole/results.csv")));
    let plain = |row: &BTreeMap<String, String>| {
        let mut row = row.clone();
        row.retain(|name, _| !OF_THIS_MACHINE.contains(&name.as_str()));
        row
    };
    assert_eq!(grown.iter().map(plain).collect::<Vec<_>>(), whole.iter().map(plain).collect::<Vec<_>>());
    // Rows that were there are as they were: in their times, too.
    assert_eq!(before.iter().filter(|row| grown.contains(row)).count(), 3);
    let results = |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap();
    let (ours, theirs) = (results("grown/results.json"), results("whole/results.json"));
    assert_eq!((&ours["kept_runs"], &theirs["kept_runs"]), (&3.into(), &0.into()));
    for (one, other) in ours["runs"].as_array().unwrap().iter().zip(theirs["runs"].as_array().unwrap()) {
        for part in ["namespaces", "parameters", "digest", "write_mean_us", "warnings"] {
            assert_eq!(one["simulation"][part], other["simulation"][part], "{part}");
        }
    }
    assert!(
        std::fs::read(path("grown/series.parquet")).unwrap()
            == std::fs::read(path("whole/series.parquet")).unwrap()
    );
    // Nothing is left: no run is made. Without --out it is the last directory with results.
    sim(&[&three[..], &["--out", "grown", "--resume"]].concat(), 0);
    assert_eq!(rows(&read("grown/results.csv")), grown);
    sim(&["--set", "seed=1"], 0);
    sim(&["--set", "seed=1,2", "--resume"], 0);
    assert_eq!(rows(&read("out/sim/results.csv")).len(), 2);
    assert!(!path("out/sim-2").exists());
    sim(&["--resume"], 2);
    sim(&["--set", "seed=1", "--resume", "--force"], 2);

    // What is another sweep is refused by the name of what differs, and what is there stays.
    let there = read("grown/results.csv");
    let refused = |args: &[&str], names: &[&str]| {
        let error = sim(&[args, &["--out", "grown", "--resume"]].concat(), 1);
        assert!(names.iter().all(|name| error.contains(name)), "{args:?}: {error}");
        assert!(read("grown/results.csv") == there);
    };
    let with = |more: &[&'static str]| [&three[..], more].concat();
    refused(&with(&["--drive", "pblaze5-910-lab"]), &["the drive (default then, pblaze5-910-lab now)"]);
    refused(&with(&["--precondition", "fill"]), &["--precondition (none then, fill now)"]);
    refused(&with(&["--contents", "memory"]), &["--contents (none then, memory now)"]);
    refused(&with(&["--until-steady"]), &["--until-steady (false then, true now)"]);
    refused(&with(&["--nsid", "1"]), &["--nsid (none then, 1 now)"]);
    refused(&with(&["--set", "ftl.spare=7%"]), &["the keys of --set"]);
    refused(&three[..4], &["--interval (1000000 ns then, none now)"]);
    refused(&["--set", "job.iodepth=1,8"], &["the keys of --set", "--seed (varied then, 1 now)"]);
    std::fs::write(path("job.fio"), [&job[..], b"rate=1m\n"].concat()).unwrap();
    refused(&three, &["the load job.fio (its content)"]);
    std::fs::write(path("job.fio"), &job).unwrap();
}

#[test]
fn runs_that_failed_or_were_interrupted_are_made_again() {
    let load = JobDirectory::new("[a]\nrw=randwrite\nbs=4k\nsize=8m\ntime_based\nruntime=1ms\n");
    let sweep = |more: &[&str]| {
        let mut command = Command::new(TRANCHE);
        command.current_dir(load.dir.path()).args(["sim", "job.fio", "--no-cache", "--parallel", "1"]);
        command.args(["--set", "job.runtime=1ms,1000000s", "--out", "x"]).args(more);
        command
    };
    let mut child = sweep(&[]).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut told = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("[1/2]") {
        line.clear();
        assert!(told.read_line(&mut line).unwrap() > 0, "the first run has not ended");
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    let mut rest = String::new();
    told.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success() && rest.contains("--resume"), "{rest}");
    let csv = || rows(&std::fs::read_to_string(load.dir.path().join("x/results.csv")).unwrap());
    let states: Vec<String> = csv().iter().map(|row| row["state"].clone()).collect();
    // The second may not have begun.
    let done = states.iter().take_while(|state| *state == "done").count();
    assert!(done == 1 && states[1..].iter().all(|state| state == "interrupted"), "{states:?}");
    for row in &csv()[1..] {
        assert!(
            row["warnings"].contains("was interrupted") || row["problem"].contains("interrupted"),
            "{row:?}"
        );
    }
    let journal = std::fs::read_to_string(load.dir.path().join("x/runs.jsonl")).unwrap();
    assert_eq!(journal.lines().count(), 1 + states.len());
    // Only runs that are done are kept.
    let load = JobDirectory::new("[a]\nrw=randwrite\nruntime=1ms\ntime_based\n");
    std::fs::write(load.dir.path().join("drive.toml"), TIMELESS_DRIVE).unwrap();
    for (more, made) in [("--force", "[2/2]"), ("--resume", "1 of 2 runs are done already")] {
        let mut command = Command::new(TRANCHE);
        command.current_dir(load.dir.path()).args([
            "sim",
            "job.fio",
            "--no-cache",
            "--drive",
            "drive.toml",
            more,
        ]);
        let output = command.args(["--set", "link.command_overhead=1us,0us"]).output().unwrap();
        assert_eq!(output.status.code(), Some(5));
        assert!(text(&output.stderr).contains(made), "{}", text(&output.stderr));
    }
}

/// A drive on which time stands still.
const TIMELESS_DRIVE: &str = "[[set]]\nmedia = \"nand\"\ncell = \"tlc\"\ncapacity = \"64MiB\"\nspare = \"60%\"\nchannels = 2\ndies = 2\n\
                        planes = 1\nnand_page = \"4KiB\"\npages_per_block = 96\nrated_cycles = 3000\n[[namespace]]\nsize = \"64MiB\"\n";

#[test]
fn what_cannot_be_is_said_before_anything_runs() {
    let load = JobDirectory::new("[v]\nrw=randwrite\nsize=4m\nverify=crc32c\n");
    assert!(
        load.error(&[]).contains("job v verifies what it reads, and the simulated drive keeps no contents")
    );
    let load = JobDirectory::new("[a]\nrw=randwrite\nsize=4m\niodpeth=4\n");
    assert!(load.error(&[]).contains("job.fio:4: there is no option \"iodpeth\": did you mean iodepth?"));
    let load = JobDirectory::new("[a]\nrw=randwrite\nsize=4g\n");
    assert!(load.error(&[]).contains("beyond the end of the namespace"));
    let load = JobDirectory::new(RANDOM_JOBS);
    assert!(load.ends_with(2, &["--drive", "none-such"]).contains("there is no profile \"none-such\""));
    let absent = load.ends_with(4, &["--nsid", "9"]);
    assert!(
        absent.contains("namespace 9 is not attached to this host, or is not there (attached: 1)"),
        "{absent}"
    );
    let load = JobDirectory::new("[a]\nrw=randread\nruntime=1\ntime_based\n");
    std::fs::write(load.dir.path().join("drive.toml"), TIMELESS_DRIVE).unwrap();
    assert!(load.error(&["--drive", "drive.toml"]).contains("the drive's time stands still"));
}

#[test]
fn sweeps_come_in_order_with_all_their_figures() {
    let load = JobDirectory::new("[a]\nrw=randwrite\nsize=8m\niodepth=4\n");
    let args = [
        "--set",
        "ftl.spare=7%,28%",
        "--set",
        "namespace.1.size=rest",
        "--set",
        "job.iodepth=1..4:x4",
        "--set",
        "seed=5,6",
    ];
    let results = load.json(&[&args[..], &["--parallel", "3", "--out", "here"]].concat());
    let runs = results["runs"].as_array().unwrap();
    let parameter =
        |run: &Value, key: &str| run["simulation"]["parameters"][key].as_str().unwrap().to_owned();
    let order: Vec<String> = runs
        .iter()
        .map(|run| ["ftl.spare", "job.iodepth", "seed"].map(|key| parameter(run, key)).join(" "))
        .collect();
    assert_eq!(order, ["7% 1 5", "7% 1 6", "7% 4 5", "7% 4 6", "28% 1 5", "28% 1 6", "28% 4 5", "28% 4 6"]);
    let digest = |run: &Value| run["simulation"]["digest"].as_str().unwrap().to_owned();
    let digests: BTreeSet<String> = runs.iter().map(digest).collect();
    // A new drive with so little on it does not care for its spare.
    assert_eq!(digests.len(), 4);
    assert_eq!(runs[2]["jobs"][0]["latency_depth"], 4);

    // The files have the same but for where they are, and one at a time is no different.
    let mut told = results.clone();
    assert_eq!(told.as_object_mut().unwrap().remove("results"), Some("here".into()));
    let file = |name: &str| std::fs::read_to_string(load.dir.path().join("here").join(name)).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&file("results.json")).unwrap(), told);
    let csv = file("results.csv");
    assert!(
        csv.starts_with("ftl.spare,namespace.1.size,job.iodepth,seed,precondition,settling_rounds,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 9);
    let parquet = std::fs::read(load.dir.path().join("here/results.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    let alone = load.json(&[&args[..], &["--parallel", "1"]].concat());
    let again: Vec<String> = alone["runs"].as_array().unwrap().iter().map(digest).collect();
    assert_eq!(again, runs.iter().map(digest).collect::<Vec<_>>());
    assert!(load.dir.path().join("out/sim/results.csv").is_file());

    let output = load.sim(&args);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(out.starts_with("ftl.spare  namespace.1.size  job.iodepth  seed  write IOPS"), "{out}");
    assert!(out.contains("8 runs, "), "{out}");
    assert!(err.contains("[8/8] --set ftl.spare="), "{err}");
}

#[test]
fn settings_that_make_no_sense_are_said_before_anything_runs() {
    let load = JobDirectory::new("[a]\nrw=randwrite\nsize=8m\n");
    for (set, problem) in [
        (
            "spare=7%",
            "--set spare=7%: there is no key \"spare\": there are seed, precondition, contents, job.OPTION",
        ),
        ("ftl.spair=7%", "unknown field `spair`"),
        ("ftl.spair=7%", "did you mean spare?"),
        ("ftll.spare=7%", "there is no key \"ftll.spare\""),
        ("ftll.spare=7%", "did you mean ftl?"),
        ("jobb.rw=read", "did you mean job?"),
        ("ftl.spare=7%,much", "--set ftl.spare=much: \"much\" is not a percentage: write 12.5%"),
        ("ftl.dies=4,4000", "set.1.dies is 4000"),
        ("gc.policy=greedy,lazy", "lazy"),
        ("set.7.spare=1%", "the drive has set.1 to set.2, and no set.7"),
        ("seed", "there is no value"),
    ] {
        let error = load.ends_with(2, &["--set", set, "--out", "never"]);
        assert!(error.contains(problem), "{set}: {error}");
    }
    for (set, problem) in [
        ("job.iodepth=1,none", "--set job.iodepth=none: job.fio:1: "),
        ("job.verify=crc32c", "verifies what it reads"),
        ("job.rw=randwrit", "(did you mean randwrite?)"),
    ] {
        let error = load.error(&["--set", set, "--out", "never"]);
        assert!(error.contains(problem), "{set}: {error}");
    }
    assert!(!load.dir.path().join("never").exists());
    // Nobody makes files there, not even root: that is seen before the runs, too.
    let error = load.error(&["--set", "seed=1,2", "--out", "/proc"]);
    assert!(error.contains("making files in /proc") && !error.contains("[1/2]"), "{error}");
}

#[test]
fn every_point_of_a_sweep_fits_its_drive_before_the_first_one_runs() {
    let load = JobDirectory::new("[a]\nrw=randwrite\nsize=8m\nio_size=1m\n");
    load.json(&["--set", "job.bs=4k,8k", "--out", "here"]);
    let names = ["results.parquet", "results.json", "results.csv"];
    let files = || names.map(|name| std::fs::read(load.dir.path().join("here").join(name)).unwrap());
    let earlier = files();
    for (set, problem) in [
        ("job.bs=4k,3k,8k", "--set job.bs=3k: job.fio:1: job a: a block size of 3072 bytes is no multiple"),
        (
            "job.size=8m,8g",
            "--set job.size=8g: job.fio:1: job a: 8589934592 bytes from 0 on are beyond the end",
        ),
        ("job.numjobs=1,400", "--set job.numjobs=400: 400 jobs are to run at the same time"),
        ("job.zonemode=none,zbd", "--set job.zonemode=zbd: job.fio:1: job a: zonemode=zbd, but"),
        ("namespace.1.size=64MiB,4MiB", "--set namespace.1.size=4MiB: job.fio:1: job a: 8388608 bytes"),
    ] {
        for more in [&[][..], &["--set", "seed=1..3"]] {
            let error = load.error(&[&["--set", set, "--out", "here"], more].concat());
            let first = problem.split_once(": ").unwrap();
            assert!(error.contains(first.0) && error.contains(first.1), "{set}: {error}");
            assert!(!error.contains("/3]") && !error.contains("/2]"), "something ran: {error}");
        }
        assert!(files() == earlier, "{set}: what an earlier run found has gone");
    }
}

#[test]
fn a_run_that_fails_does_not_end_the_others() {
    let load = JobDirectory::new("[a]\nrw=randwrite\nruntime=1ms\ntime_based\n");
    std::fs::write(load.dir.path().join("drive.toml"), TIMELESS_DRIVE).unwrap();
    let set = "link.command_overhead=1us,0us";
    let output = load.sim(&["--drive", "drive.toml", "--set", set, "--output", "json"]);
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results["runs"][0]["simulation"]["problem"], Value::Null);
    let problem = results["runs"][1]["simulation"]["problem"].as_str().unwrap();
    assert!(problem.contains("time stands still"), "{problem}");
    assert!(text(&output.stderr).contains("--set link.command_overhead=0us: "), "{}", text(&output.stderr));
}

const VERIFY: &str = "[w]\nrw=randwrite\nbsrange=4k-64k\nsize=32m\niodepth=16\nverify=crc32c\nverify_interval=4k\n\
                      [large]\nrw=write\nbs=3m\nsize=30m\noffset=60m\niodepth=4\nverify=sha256\nverify_interval=12k\n\
                      [r]\nstonewall\nrw=randread\nsize=16m\n";

#[test]
fn contents_are_kept_and_verified() {
    let load = JobDirectory::new(VERIFY);
    let report = load.json(&["--contents", "memory"]);
    let sim = &report["simulation"];
    assert_eq!(sim["problem"], Value::Null);
    // What was written is read again, and the last job reads.
    assert_eq!(sim["read_bytes"], (32 + 30 + 16) << 20);
    let digest = sim["contents"].as_str().unwrap();
    assert_eq!(load.json(&["--contents", "memory"])["simulation"]["contents"], digest);
    let swept = load.json(&["--set", "contents=memory", "--set", "seed=1,2", "--out", "x"]);
    assert_eq!(swept["runs"][0]["simulation"]["contents"], digest);
    assert_ne!(swept["runs"][1]["simulation"]["contents"], digest);
    // A preconditioned drive reads as zeros, and collects garbage with what it holds.
    let steady = load.json(&["--contents", "memory", "--precondition", "steady"]);
    assert_eq!(steady["simulation"]["problem"], Value::Null);

    // Nobody has written what this looks for.
    let nothing = JobDirectory::new("[v]\nrw=write\nsize=1m\nverify=crc32c\nverify_only\n");
    let output = nothing.sim(&["--contents", "memory"]);
    assert_eq!(output.status.code(), Some(5));
    let error = text(&output.stderr);
    assert!(error.contains("job v: verify failed at offset 0: all zeroes"), "{error}");
    let full = load.error(&["--contents", "memory", "--drive", "pblaze5-910-3.84t"]);
    assert!(full.contains("a drive with its contents takes up to 4"), "{full}");
}

#[test]
fn contents_change_no_decision() {
    let load = JobDirectory::new(RANDOM_JOBS);
    for args in [&[][..], &["--precondition", "steady"]] {
        let digest = |contents| {
            let report = load.json(&[args, &["--contents", contents]].concat());
            report["simulation"]["digest"].as_str().unwrap().to_owned()
        };
        assert_eq!(digest("none"), digest("memory"), "{args:?}");
    }
}

#[test]
fn jobs_name_their_namespaces() {
    let load = JobDirectory::new(
        "[global]\nrw=write\nbs=4k\n[a]\nfilename=/dev/nvme0n2\nsize=4m\n[b]\nfilename=nvme3n1\nsize=1m\n[c]\nsize=2m\n",
    );
    let drive = "[[set]]\nmedia = \"dram\"\ncapacity = \"64MiB\"\ntiming = { read = \"1us\", write = \"1us\", bandwidth = \"1GB/s\" }\n\
                 [[namespace]]\nsize = \"16MiB\"\n[[namespace]]\nsize = \"16MiB\"\n";
    std::fs::write(load.dir.path().join("two.toml"), drive).unwrap();
    let written = |args: &[&str]| {
        let report = load.json(&[&["--drive", "two.toml"], args].concat());
        let of =
            |n: usize| report["simulation"]["namespaces"][n]["host_bytes_written"].as_u64().unwrap() >> 20;
        [of(0), of(1)]
    };
    assert_eq!(written(&[]), [3, 4]);
    assert_eq!(written(&["--nsid", "2"]), [0, 7]);
    let error = load.error(&[]);
    assert!(error.contains("job.fio:4: job a: its filename names namespace 2"), "{error}");
    assert!(error.contains("attached to this host are 1: attach it, or give --nsid"), "{error}");
}
