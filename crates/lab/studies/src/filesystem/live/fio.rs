//! The real fio: the printed job on a mounted file system, and the same requests through the page cache.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::filesystem::{cell::Job, published};
use lab_databases::{
    process::Process,
    scratch::{Role, Scratch},
};
use lab_report::{cpu, results::Cpu};

/// Package that has it.
pub(super) const PACKAGE: &str = "fio";
/// fio's histogram ends at 17.1 s: percentiles beyond are given as that.
const LONGEST_NS: f64 = 17e9;
/// Bytes of a request.
const BLOCK: &str = "4k";

/// fio, and where it writes what it has found.
pub(super) struct Fio<'a> {
    scratch: &'a Scratch,
    directory: PathBuf,
}

/// How long a job runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// Milliseconds that are measured.
    pub millis: u64,
    /// Milliseconds before, which are not.
    pub ramp: u64,
}

/// What a job found, by the wall's clock.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Found {
    pub iops: f64,
    /// From the moment when the kernel has taken the request, in microseconds.
    pub mean_us: f64,
    /// `None` if it is beyond what fio tells apart.
    pub p99_us: Option<f64>,
    /// With the wait until the kernel took it.
    pub job_us: f64,
}

impl<'a> Fio<'a> {
    pub(super) fn new(scratch: &'a Scratch) -> Result<Self> {
        Ok(Self { scratch, directory: scratch.dir("fio")? })
    }

    /// Writes the files of the printed job, each of so many bytes, and the file of the buffered run.
    pub(super) fn lay_out(&self, mount: &Path, file: u64) -> Result<()> {
        for (name, jobs) in [("job", published::JOBS), ("cached", 1)] {
            let mut command = on(mount, name);
            command.args(["--ioengine=psync", "--direct=1", "--rw=write", "--bs=1m", "--end_fsync=1"]);
            command.args([format!("--size={file}"), format!("--numjobs={jobs}")]);
            self.finish(command, &[])?;
        }
        Ok(())
    }

    /// The printed job, for each direction and order: 16 jobs with 512 requests each, direct I/O.
    pub(super) fn direct(
        &self,
        mount: &Path,
        (job, file): (Job, u64),
        span: Span,
        seed: u64,
        drive: &[(&str, u32)],
    ) -> Result<(Cpu, Found)> {
        let mut command = on(mount, "job");
        command.args(["--ioengine=libaio", "--direct=1", "--norandommap=1", "--time_based=1"]);
        command.args([
            format!("--rw={}", job.name()),
            format!("--bs={BLOCK}"),
            format!("--iodepth={}", published::DEPTH),
            format!("--numjobs={}", published::JOBS),
            format!("--size={file}"),
            format!("--runtime={}ms", span.millis),
            format!("--ramp_time={}ms", span.ramp),
            format!("--randseed={}", seed.max(1)),
        ]);
        let (cpu, said) = self.finish(command, drive)?;
        Ok((cpu, parse(&said, job)?))
    }

    /// Requests of 4 KiB to a file by one job without direct I/O: the page cache answers them.
    pub(super) fn buffered(
        &self,
        mount: &Path,
        (job, file): (Job, u64),
        millis: u64,
        seed: u64,
    ) -> Result<Found> {
        let mut command = on(mount, "cached");
        // fio drops what is cached of a file before it begins, if it is not told otherwise.
        command.args([
            "--ioengine=psync",
            "--direct=0",
            "--invalidate=0",
            "--norandommap=1",
            "--time_based=1",
        ]);
        command.args([
            format!("--rw={}", job.name()),
            format!("--bs={BLOCK}"),
            format!("--size={file}"),
            format!("--runtime={millis}ms"),
            format!("--randseed={}", seed.max(1)),
        ]);
        parse(&self.finish(command, &[])?.1, job)
    }

    /// Writes a file at random and reads it back, each block with a checksum; bytes that were verified.
    pub(super) fn verify(&self, mount: &Path, bytes: u64, seed: u64) -> Result<u64> {
        let mut command = on(mount, "verified");
        command.args(["--ioengine=libaio", "--direct=1", "--iodepth=16", "--rw=randwrite"]);
        // The state would be a file where this process runs.
        command.args(["--verify=crc32c", "--verify_fatal=1", "--do_verify=1", "--verify_state_save=0"]);
        command.args([
            format!("--bs={BLOCK}"),
            format!("--size={bytes}"),
            format!("--randseed={}", seed.max(1)),
        ]);
        let (_, said) = self.finish(command, &[]).context("verifying what fio has written")?;
        said["jobs"][0]["read"]["io_bytes"].as_u64().context("fio does not say what it has read")
    }

    /// Runs fio to its end: what the processors did, and what it says.
    fn finish(&self, mut command: Command, drive: &[(&str, u32)]) -> Result<(Cpu, Value)> {
        let (report, log) = (self.directory.join("report.json"), self.directory.join("fio.log"));
        let _ = std::fs::remove_file(&report);
        command.args(["--output-format=json".to_owned(), format!("--output={}", report.display())]);
        let mut process = Process::start(self.scratch, Role::Client, "fio", command, &log, None)?;
        let mut processes = vec![("fio", process.id())];
        processes.extend(drive);
        let before = cpu::Sample::take(&processes);
        let mut last = before.clone();
        let status = loop {
            if let Some(status) = process.exited() {
                break status;
            }
            // A process that has ended has no counters.
            last = cpu::Sample::take(&processes);
            self.scratch.cancel().sleep(Duration::from_millis(200))?;
        };
        if !status.success() {
            return Err(process.died(status));
        }
        let text =
            std::fs::read_to_string(&report).with_context(|| format!("reading {}", report.display()))?;
        // Warnings stand before the report.
        let begin = text.find('{').unwrap_or(0);
        let said = serde_json::from_str(&text[begin..]).context("fio's report is no JSON")?;
        Ok((last.since(&before, published::JOBS), said))
    }
}

/// fio with the files of this name on a mounted file system.
fn on(mount: &Path, name: &str) -> Command {
    let mut command = Command::new("fio");
    command.args([format!("--name={name}"), format!("--directory={}", mount.display())]);
    command.args([
        "--filename_format=$jobname.$jobnum",
        "--group_reporting=1",
        "--thread=1",
        "--fallocate=none",
    ]);
    command
}

/// The figures of a job.
fn parse(said: &Value, job: Job) -> Result<Found> {
    let direction = if job.writes() { "write" } else { "read" };
    let of = &said["jobs"][0][direction];
    let number =
        |value: &Value, name: &str| value.as_f64().with_context(|| format!("fio's report has no {name}"));
    let clat = &of["clat_ns"];
    Ok(Found {
        iops: number(&of["iops"], "iops")?,
        mean_us: number(&clat["mean"], "clat_ns.mean")? / 1e3,
        p99_us: Some(number(&clat["percentile"]["99.000000"], "clat_ns.percentile")?)
            .filter(|&nanos| nanos < LONGEST_NS)
            .map(|nanos| nanos / 1e3),
        job_us: number(&of["lat_ns"]["mean"], "lat_ns.mean")? / 1e3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part of what fio 3.33 writes.
    const FIO_OUTPUT: &str = r#"{
        "fio version": "fio-3.33",
        "jobs": [{
            "jobname": "job",
            "read": {
                "io_bytes": 40960, "iops": 1250.5,
                "lat_ns": {"mean": 8000000.0},
                "clat_ns": {"mean": 800000.5, "percentile": {"50.000000": 1, "99.000000": 1500000}}
            },
            "write": {"iops": 0.0, "lat_ns": {"mean": 0.0}, "clat_ns": {"mean": 0.0}}
        }]
    }"#;

    #[test]
    fn a_report_is_read() {
        let said: Value = serde_json::from_str(FIO_OUTPUT).unwrap();
        let found = parse(&said, Job::SequentialRead).unwrap();
        assert_eq!(found, Found { iops: 1250.5, mean_us: 800.0005, p99_us: Some(1500.0), job_us: 8000.0 });
        let long: Value = serde_json::from_str(&FIO_OUTPUT.replace(": 1500000}", ": 17112760320}")).unwrap();
        assert_eq!(parse(&long, Job::SequentialRead).unwrap().p99_us, None);
        let missing = parse(&said, Job::RandomWrite).unwrap_err().to_string();
        assert!(missing.contains("clat_ns.percentile"), "{missing}");
        assert!(parse(&Value::Null, Job::RandomRead).is_err());
    }
}
