//! `tranche bench`: job files against a served drive, beside fio's own report.

mod common;

use common::{Served, TRANCHE, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use testkit::skipped;

/// A drive on a Unix socket and as a PCI device, and a place for job files.
struct Drive {
    served: Served,
    dir: tempfile::TempDir,
    /// The address that is used.
    on: String,
}

impl Drive {
    fn start() -> Self {
        Self::with(&[])
    }

    fn with(args: &[&str]) -> Self {
        Self::over("unix", args)
    }

    /// One that is used by an address of this scheme: `unix` or `pci`.
    fn over(scheme: &str, args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [unix, pci] = ["unix", "pci"].map(|name| dir.path().join(name));
        let mut command = Command::new(TRANCHE);
        command.args(["serve", "--timing", "off", "--unix"]).arg(&unix).arg("--pci").arg(&pci).args(args);
        let on = format!("{scheme}://{}", dir.path().join(scheme).display());
        Self { served: Served::run(&mut command), dir, on }
    }

    fn command(&self, job: &str, args: &[&str]) -> Command {
        let file = self.dir.path().join("job.fio");
        std::fs::File::create(&file).unwrap().write_all(job.as_bytes()).unwrap();
        let mut command = Command::new(TRANCHE);
        command.arg("bench").arg(file).args(["--on", &self.on]).args(args);
        command
    }

    fn bench(&self, job: &str, args: &[&str]) -> Output {
        self.command(job, args).output().unwrap()
    }

    /// Reads of hosts so far.
    fn reads(&self) -> u64 {
        let on = format!("unix://{}", self.dir.path().join("unix").display());
        let smart = Command::new(TRANCHE).args(["smart", "--output", "json", "--on", &on]).output().unwrap();
        let smart: Value = serde_json::from_slice(&smart.stdout).expect("SMART");
        smart["host_read_commands"].as_u64().expect("a count")
    }

    /// Starts a job that reads, and waits until it does.
    fn reading(&self, command: &mut Command) -> Child {
        let before = self.reads();
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while self.reads() < before + 100 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        child
    }

    /// The results of a run that succeeds.
    fn json(&self, job: &str) -> Value {
        let output = self.bench(job, &["--output", "json"]);
        assert!(output.status.success(), "{job}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

#[test]
fn jobs_do_what_they_say_and_report_it() {
    let drive = Drive::start();
    let report = drive.json(
        "[global]\nioengine=libaio\nbs=4k\n[fill]\nrw=write\nsize=8m\niodepth=8\nbs=512k\nend_fsync=1\n\
         [mixed]\nstonewall\nrw=randrw\nsize=4m\niodepth=32\nnumjobs=2\ngroup_reporting\nfsync=32\n\
         [trims]\nstonewall\nrw=randtrim\nsize=1m\n",
    );
    let jobs = report["jobs"].as_array().unwrap();
    let names: Vec<&Value> = jobs.iter().map(|job| &job["jobname"]).collect();
    assert_eq!(names, ["fill", "mixed", "trims"]);
    assert_eq!(jobs.iter().map(|job| job["groupid"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    let fill = &jobs[0];
    assert_eq!(fill["write"]["io_bytes"], 8 << 20);
    assert_eq!(
        (&fill["write"]["total_ios"], &fill["sync"]["total_ios"]),
        (&Value::from(16), &Value::from(1))
    );
    let mixed = &jobs[1];
    let total = |key: &str| mixed["read"][key].as_u64().unwrap() + mixed["write"][key].as_u64().unwrap();
    assert_eq!(total("io_bytes"), 8 << 20, "two clones");
    assert!(mixed["sync"]["total_ios"].as_u64().unwrap() >= 20);
    assert!(mixed["read"]["iops"].as_f64().unwrap() > 0.0);
    let percentiles = mixed["read"]["clat_ns"]["percentile"].as_object().unwrap();
    assert!(percentiles["1.000000"].as_u64() <= percentiles["99.990000"].as_u64());
    assert_eq!(jobs[2]["trim"]["io_bytes"], 1 << 20);
    assert_eq!(report["global options"]["bs"], "4k");

    let output = drive.bench("[a]\nrw=randread\nsize=1m\ndirect=1\n", &["--poll"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    for part in [
        "a: (groupid=0, jobs=1): err= 0:",
        "  read: IOPS=",
        "clat percentiles",
        "issued rwts: total=256,0,0,0",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(err.contains("direct is ignored: I/Os go past the page cache"), "{err}");
}

#[test]
fn verification_sees_what_others_wrote() {
    for scheme in ["unix", "pci"] {
        sees_what_others_wrote(&Drive::over(scheme, &[]));
    }
}

fn sees_what_others_wrote(drive: &Drive) {
    let job = "[v]\nrw=randwrite\nsize=4m\nbsrange=4k-32k\niodepth=16\nverify=sha256\n";
    let report = drive.json(job);
    assert_eq!(report["jobs"][0]["read"]["io_bytes"], 4 << 20);
    // Still there for another job in another order, and for the same.
    drive.json("[v]\nrw=randread\nsize=4m\nbs=4k\niodepth=4\nverify=sha256\n");
    drive.json(&format!("{job}verify_only\n"));
    // An I/O beyond MDTS is cut and put together.
    drive.json("[v]\nrw=write\nsize=16m\nbs=4m\nverify=md5\nverify_interval=4k\niodepth=2\noffset=8m\n");
    // Somebody else writes 8 KiB in the middle.
    drive.json("[other]\nrw=write\nbs=4k\noffset=1m\nsize=8k\n");
    let output = drive.bench(&format!("{job}verify_only\n"), &["--output", "json"]);
    assert!(!output.status.success());
    let (err, report) = (text(&output.stderr), serde_json::from_slice::<Value>(&output.stdout).unwrap());
    assert!(err.contains("job v: verify failed at offset 10"), "{err}");
    assert!(err.contains("no header") && err.contains(" not what was written"), "{err}");
    assert!(err.lines().all(|line| line.len() < 250), "a line for each: {err}");
    assert_eq!(report["jobs"][0]["error"], 84);
}

/// What was flushed is there after the drive's process was killed.
#[test]
fn verification_survives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image").display().to_string();
    let serve = || Drive::with(&["--image", &image]);
    let job = "[v]\nrw=randwrite\nsize=16m\nbssplit=4k/50:16k/50\niodepth=16\nverify=crc32c\nend_fsync=1\n";
    serve().json(&format!("{job}do_verify=0\n"));
    let report = serve().json(&format!("{job}verify_only\n"));
    assert_eq!(report["jobs"][0]["read"]["io_bytes"], 16 << 20);
}

#[test]
fn errors_say_what_and_where() {
    let drive = Drive::start();
    for (job, said) in [
        ("[a]\nrw=randread\niodpeth=4\n", "job.fio:3: there is no option \"iodpeth\": did you mean iodepth?"),
        ("[a]\nbs=1000\n", "job.fio:1: job a: a block size of 1000 bytes is no multiple"),
        ("[a]\nsize=900g\n", "beyond the end of the namespace"),
        ("[a]\nsize=1m\nnumjobs=100\n", "this drive grants 64 I/O queues: reduce numjobs"),
        ("[a]\nsize=64m\nbs=1m\niodepth=1024\nnumjobs=60\n", "of memory: "),
    ] {
        let output = drive.bench(job, &[]);
        assert!(!output.status.success() && output.stdout.is_empty());
        assert!(text(&output.stderr).contains(said), "{said}: {}", text(&output.stderr));
    }
    let output = drive.bench("[a]\nsize=1m\n", &["--nsid", "77"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(text(&output.stderr).contains("there is no namespace 77 (the drive has 1)"));
    let output = drive.bench("[a]\nsize=1m\n", &["--nsid", "9"]);
    assert!(
        text(&output.stderr)
            .contains("namespace 9 is not attached to this host, or is not there (attached: 1)"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn an_interrupt_and_a_drive_that_dies_leave_a_report() {
    for scheme in ["unix", "pci"] {
        leaves_a_report(Drive::over(scheme, &[]));
    }
}

fn leaves_a_report(mut drive: Drive) {
    let job = "[a]\nrw=randread\nruntime=1000\ntime_based\niodepth=4\n[b]\nstonewall\nsize=1m\n";
    for dies in [false, true] {
        let child = drive.reading(&mut drive.command(job, &["--output", "json"]));
        if dies {
            drive.served.child.kill().unwrap();
        } else {
            let sent = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status();
            assert!(sent.unwrap().success());
        }
        let output = child.wait_with_output().unwrap();
        let (err, report) = (text(&output.stderr), serde_json::from_slice::<Value>(&output.stdout));
        let report = report.unwrap_or_else(|error| panic!("{error}: {err}"));
        assert!(!output.status.success());
        assert!(err.contains(if dies { "job a: the connection was closed" } else { "interrupted" }), "{err}");
        let read = &report["jobs"][0]["read"];
        assert!(read["total_ios"].as_u64().unwrap() > 0);
        assert!(read["runtime"].as_u64().unwrap() > 0 && read["iops"].as_f64().unwrap() > 0.0, "{read}");
        assert_eq!(report["jobs"].as_array().unwrap().len(), if dies { 2 } else { 1 });
    }
}

#[test]
fn a_job_file_from_standard_input() {
    let drive = Drive::start();
    for (job, said) in
        [("[piped]\nrw=randread\nsize=1m\n", None), ("[a]\nbs=1000\n", Some("standard input:1: job a"))]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tranche"));
        command.args(["bench", "-", "--on", &drive.on]).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(job.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.success(), said.is_none(), "{err}");
        assert!(said.map_or(out.contains("piped: (groupid=0"), |said| err.contains(said)), "{out}{err}");
    }
}

/// What a job does to a file or a block device.
fn on_device(job: &str, device: &Path, args: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("job.fio");
    std::fs::write(&file, job).unwrap();
    Command::new(TRANCHE).arg("bench").arg(file).arg("--device").arg(device).args(args).output().unwrap()
}

/// Writes, verifies and trims what one device has.
const WORK: &str = "[global]\nbs=4k\niodepth=16\nsize=2m\n[fill]\nrw=write\nbs=64k\nverify=crc32c\nend_fsync=1\n\
                    [mixed]\nstonewall\nrw=randrw\noffset=2m\nnumjobs=2\noffset_increment=1m\nsize=1m\ngroup_reporting\n\
                    [trims]\nstonewall\nrw=randtrim\nsize=1m\n";

fn did_the_work(output: &Output) {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ios = |job: usize, direction: &str| report["jobs"][job][direction]["total_ios"].as_u64().unwrap();
    assert_eq!((ios(0, "write"), ios(1, "read") + ios(1, "write"), ios(2, "trim")), (32, 512, 256));
}

#[test]
fn a_file_takes_the_place_of_a_drive() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let bytes = (8 << 20) + 100;
    std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
    did_the_work(&on_device(WORK, &path, &["--output", "json"]));
    let after = std::fs::read(&path).unwrap();
    assert_eq!(after.len() as u64, bytes);
    // Trimmed, written, and never touched.
    assert!(after[..1 << 20].iter().all(|byte| *byte == 0) && after[4 << 20..].iter().all(|byte| *byte == 0));
    assert!(after[1 << 20..2 << 20].chunks(4096).all(|page| page.iter().any(|byte| *byte != 0)));

    let missing = dir.path().join("nothing");
    for (device, job, args, code, said) in [
        (&missing, WORK, &[][..], 1, "No such file"),
        (&dir.path().to_path_buf(), WORK, &[], 1, "neither a regular file nor a block device"),
        (&path, "[a]\nrw=read\nfilename=nvme0n2\n", &[], 1, "names a namespace"),
        (&path, "[a]\nrw=read\noffset=9m\nsize=1m\n", &[], 1, "job a"),
        (&path, WORK, &["--nsid", "1"], 2, "--nsid"),
        (&path, WORK, &["--on", "tcp://127.0.0.1:4420"], 2, "--on"),
    ] {
        let output = on_device(job, device, args);
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(code) && error.contains(said), "{said}: {error}");
    }
    assert!(!missing.exists());
    assert!(std::fs::read(&path).unwrap() == after);
}

#[test]
fn a_block_device_takes_the_place_of_a_drive_unless_it_is_in_use() {
    use std::os::unix::fs::OpenOptionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    std::fs::File::create(&path).unwrap().set_len(8 << 20).unwrap();
    let made = Command::new("losetup").args(["--find", "--show"]).arg(&path).output();
    let Some(made) = made.ok().filter(|made| made.status.success()) else {
        return skipped(
            "a_block_device_takes_the_place_of_a_drive_unless_it_is_in_use",
            "losetup makes no loop device",
        );
    };
    let device = std::path::PathBuf::from(text(&made.stdout).trim());
    let exclusive = rustix::fs::OFlags::EXCL.bits().cast_signed();
    let user = std::fs::OpenOptions::new().read(true).custom_flags(exclusive).open(&device);
    let refused = on_device(WORK, &device, &[]);
    drop(user.unwrap());
    let worked = on_device(WORK, &device, &["--output", "json"]);
    let detached = Command::new("losetup").arg("--detach").arg(&device).status().unwrap();
    assert!(detached.success());
    let error = text(&refused.stderr);
    assert!(refused.status.code() == Some(1) && error.contains("mounted or in use"), "{error}");
    did_the_work(&worked);
}

/// A process that is stopped keeps its connections, and says nothing.
#[test]
fn a_drive_that_stops_answering_holds_up_neither_the_end_nor_an_interrupt() {
    for scheme in ["unix", "pci"] {
        holds_up_nothing(&Drive::over(scheme, &[]), scheme == "unix");
    }
}

fn holds_up_nothing(drive: &Drive, with_end: bool) {
    let signal = |name: &str, process: &Child| {
        let sent = Command::new("kill").args(["-s", name, &process.id().to_string()]).status();
        assert!(sent.unwrap().success());
    };
    let cases = [(3, "the runtime is over"), (1000, "job a: interrupted: ")];
    for (runtime, said) in cases.into_iter().skip(usize::from(!with_end)) {
        let job = format!("[a]\nrw=randread\nruntime={runtime}\ntime_based\niodepth=4\n");
        let child = drive.reading(&mut drive.command(&job, &["--output", "json"]));
        signal("STOP", &drive.served.child);
        if runtime == 1000 {
            signal("INT", &child);
        }
        let output = child.wait_with_output().unwrap();
        signal("CONT", &drive.served.child);
        let err = text(&output.stderr);
        assert!(!output.status.success() && err.contains(said), "{err}");
        assert!(err.contains(" left without an answer"), "{err}");
        let report = serde_json::from_slice::<Value>(&output.stdout).unwrap();
        assert!(report["jobs"][0]["read"]["runtime"].as_u64().unwrap() > 0);
    }
}

/// Jobs at the same time have queues of their own, which sleep or poll. One program at a time has the device.
#[test]
fn a_pci_device_takes_many_jobs_of_one_program() {
    let drive = Drive::over("pci", &[]);
    let job = "[global]\nbs=4k\nsize=2m\nnumjobs=8\noffset_increment=4m\ngroup_reporting\n[w]\nrw=randwrite\niodepth=64\nverify=crc32c\n\
               [r]\nstonewall\nrw=randrw\niodepth=1\nfsync=16\n[t]\nstonewall\nrw=randtrim\n";
    for args in [&["--output", "json"][..], &["--output", "json", "--poll"]] {
        let output = drive.bench(job, args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let bytes = |job: usize, what: &str| report["jobs"][job][what]["io_bytes"].as_u64().unwrap();
        assert_eq!((bytes(0, "write"), bytes(0, "read"), bytes(2, "trim")), (16 << 20, 16 << 20, 16 << 20));
        assert_eq!(bytes(1, "write") + bytes(1, "read"), 16 << 20);
    }
    let job = "[a]\nrw=randread\nruntime=1000\ntime_based\n";
    let first = drive.reading(&mut drive.command(job, &[]));
    let second = drive.bench(job, &[]);
    let error = text(&second.stderr);
    assert_eq!(second.status.code(), Some(3), "{error}");
    assert!(error.contains("a virtual machine or another program may have it"), "{error}");
    let sent = Command::new("kill").args(["-s", "INT", &first.id().to_string()]).status();
    assert!(sent.unwrap().success());
    first.wait_with_output().unwrap();
    drive.json("[a]\nrw=read\nsize=1m\n");
    // What listens there speaks something else.
    let wrong = drive.on.replace("pci:", "unix:");
    let output = Command::new(TRANCHE).args(["id", "--on", &wrong]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let wrong = format!("pci://{}", drive.dir.path().join("unix").display());
    let output = Command::new(TRANCHE).args(["id", "--on", &wrong]).output().unwrap();
    let error = text(&output.stderr);
    assert!(output.status.code() == Some(3) && error.contains("does not speak vfio-user"), "{error}");
}

/// Every key of a document, with its place; the members of lists are taken together.
fn keys(value: &Value, place: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let place = format!("{place}/{key}");
                into.insert(place.clone());
                keys(value, &place, into);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, place, into)),
        _ => {}
    }
}

#[test]
fn the_report_has_the_keys_of_fios() {
    let dir = tempfile::tempdir().unwrap();
    let lines = "[global]\nbs=4k\n[a]\nrw=randrw\nsize=1m\nfsync=16\n";
    let file = dir.path().join("job.fio");
    std::fs::write(&file, format!("{lines}ioengine=psync\nfilename=target\n")).unwrap();
    let fio = Command::new("fio").args(["--output-format=json"]).arg(&file).current_dir(dir.path()).output();
    let Ok(fio) = fio else {
        return skipped("the_report_has_the_keys_of_fios", "fio is not installed");
    };
    let fios: Value = serde_json::from_slice(&fio.stdout).unwrap();
    let drive = Drive::start();
    let ours = drive.json(lines);
    let set = |value: &Value| {
        let mut all = BTreeSet::new();
        keys(value, "", &mut all);
        // What the job was given is not a matter of layout, nor is fio's list of the machine's disks.
        all.retain(|key| !key.contains("options/") && !key.starts_with("/disk_util"));
        all
    };
    let (fios, ours) = (set(&fios), set(&ours));
    let missing: Vec<_> = fios.difference(&ours).collect();
    let more: Vec<_> = ours.difference(&fios).collect();
    assert!(missing.is_empty() && more.is_empty(), "missing {missing:?}, more {more:?}");
}

/// The drive is in memory, so its speed is this machine's. The profile is held against what was measured.
#[test]
fn a_profile_is_fitted_to_a_drive_and_its_data_survive() {
    let drive = Drive::start();
    let on = drive.on.as_str();
    let run =
        |args: &[&str]| Command::new(TRANCHE).current_dir(drive.dir.path()).args(args).output().unwrap();
    let fit = ["profile", "fit", "--seconds", "1s", "--on", on];
    drive.json("[fill]\nrw=write\nsize=8m\nbs=64k\nverify=crc32c\ndo_verify=0\n");
    let output = run(&fit);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains("fitted.toml") && said.contains("writes as assumed"), "{said}");
    assert_eq!(text(&output.stderr).lines().last(), Some("results: fitted.toml"));
    // Nothing was written.
    drive.json("[check]\nrw=read\nsize=8m\nbs=64k\nverify=crc32c\n");
    let checked = run(&["profile", "check", "fitted.toml", "--dry-run"]);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    // What is there stays.
    let again = run(&fit);
    assert!(!again.status.success() && text(&again.stderr).contains("--force"), "{}", text(&again.stderr));
    let both = run(&["profile", "fit", "/dev/null", "--on", on]);
    assert_eq!(both.status.code(), Some(2), "{}", text(&both.stderr));
    let none = run(&["profile", "fit", "/dev/null", "--file", "other.toml"]);
    assert!(
        text(&none.stderr).contains("neither a regular file nor a block device"),
        "{}",
        text(&none.stderr)
    );
}

#[test]
fn writes_of_a_drive_are_measured_if_it_may_be_overwritten() {
    let drive = Drive::start();
    let on = drive.on.as_str();
    let mut command = Command::new(TRANCHE);
    command.current_dir(drive.dir.path()).args(["profile", "fit", "--seconds", "1s", "--settle", "1s"]);
    let output = command.args(["--overwrite-device", "--output", "json", "--on", on]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["measured"]["writes"]["iops"].as_f64().unwrap() > 0.0, "{document}");
    assert_eq!(document["data_sheet"]["figures"].as_array().unwrap().len(), 6);
    let toml = std::fs::read_to_string(drive.dir.path().join("fitted.toml")).unwrap();
    assert!(toml.contains("[fitted] to random writes"), "{toml}");
}
