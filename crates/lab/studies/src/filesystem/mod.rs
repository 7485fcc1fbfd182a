//! `tranche study filesystem`: how many requests of 4 KiB a host gets from an NVMe drive, a SAS SSD and a hard disk. They read and write, at random
//! and in order.
//!
//! In virtual time the drives have their published size in proportion, and their way from the host (docs/machine.md). A file that was written
//! before and is used with direct I/O gives the drive the requests of the job; a file system adds nothing that is simulated.
//!
//! `--live` runs the real fio on real file systems over scaled drives.

mod cell;
mod live;
mod options;
mod published;
mod report;
mod setup;

use anyhow::Result;
use serde_json::Value;

pub use self::options::{Filesystem, Live, Options};
use self::{
    cell::{Cell, Job},
    setup::{Kind, LOCKS, PROCESSOR, SETUPS},
};
use crate::StudyDrive;
use lab_engines::{
    machine::HostPath,
    sim::{Cache, usual_cache},
    sweep::{self, Profiles},
};
use lab_report::{
    Findings,
    control::Control,
    pieces::{Gathered, run_pieces},
    profile,
    report::publish,
    results::{self, Comparison, Point, Published, Results, Run, Variant, compare_pairs},
};

/// All that is run: the cells, and those in which the host's times are swept.
fn cells(options: &Options) -> Vec<Cell> {
    let path = options.path;
    let mut all = Vec::new();
    for repetition in 0..options.repeat {
        for setup in SETUPS {
            for job in Job::ALL {
                all.push(Cell { setup, job, path, at: Point::new(), repetition });
            }
        }
        for setup in &SETUPS[..2] {
            let cell = |path, at: [(&str, u64); 1]| Cell {
                setup: *setup,
                job: Job::RandomRead,
                path,
                at: at.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
                repetition,
            };
            if setup.kind == Kind::Sas {
                all.extend(LOCKS.map(|lock| cell(HostPath { lock, ..path }, [("lock_ns", lock)])));
            }
            all.extend(PROCESSOR.map(|takes| {
                let path = HostPath { submission: takes * 3 / 5, completion: takes * 2 / 5, ..path };
                cell(path, [("processor_ns", takes)])
            }));
        }
    }
    all
}

/// Runs the study and writes its results.
///
/// # Errors
/// A profile that does not exist, a directory that cannot be written; an interruption before there was anything to report. Live, also what is missing
/// on this machine.
pub fn run(options: &Options, control: &Control) -> Result<Findings<Value>> {
    let options = &Options { out: options.out.free()?, ..options.clone() };
    if options.live {
        return sweep::value(live::run(options, control)?);
    }
    sweep::value(run_on(options, &profile::table, control)?)
}

/// Runs the study with profiles from elsewhere.
///
/// # Errors
/// Like [`run()`].
pub fn run_on(options: &Options, profiles: &Profiles<'_>, control: &Control) -> Result<Findings<Results>> {
    let drives = cell::DriveTables {
        nvme: profiles(&options.nvme)?,
        sas: profiles(&options.sas)?,
        disk: profiles(&options.disk)?,
    };
    drives.check(options)?;
    results::directory(options.out.path())?;
    let study = (options, drives, Cache::new(usual_cache()));
    let Gathered { mut variants, interrupted } = run_pieces(&study, &cells(options), control)?;
    variants.iter_mut().for_each(|variant| variant.runs = joined(std::mem::take(&mut variant.runs)));
    let mut results = Results {
        drive: serde_json::json!(StudyDrive {
            nvme: Some(&options.nvme),
            sas: Some(&options.sas),
            disk: Some(&options.disk),
            full: Some(options.full),
            ..StudyDrive::default()
        }),
        comparisons: comparisons(&variants),
        variants,
        ..Results::empty("filesystem", "sim", options.seed, Vec::new())
    };
    results.note(report::notes(options), options.quick);
    publish(results, options.out.path(), interrupted, report::report)
}

/// Jobs at the same point and repetition are one run, with the figures of all.
fn joined(runs: Vec<Run>) -> Vec<Run> {
    let mut joined: Vec<Run> = Vec::new();
    for run in runs {
        match joined.iter_mut().find(|other| other.at == run.at && other.repetition == run.repetition) {
            Some(other) => other.metrics.extend(run.metrics),
            None => joined.push(run),
        }
    }
    joined
}

fn comparisons(variants: &[Variant]) -> Vec<Comparison> {
    let pairs = [("nvme", "sas-ssd"), ("nvme", "sas-ssd-h330"), ("nvme", "hdd"), ("sas-ssd", "hdd")];
    let metrics: Vec<String> =
        Job::ALL.iter().flat_map(|job| ["iops", "mean_us"].map(|figure| job.metric(figure))).collect();
    let mut rows = compare_pairs(variants, &pairs, &metrics, |row| {
        published::ratio(&row.metric, &row.of, &row.over).map(Published::ratio)
    });
    rows.retain(Comparison::is_at_origin);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link with 200 MB/s carries 48,828 reads of 4 KiB. The NVMe drive has none.
    #[test]
    fn a_slower_sas_link_limits_reads() {
        let path =
            HostPath { sas_rate: std::num::NonZeroU64::new(200_000_000).unwrap(), ..HostPath::PUBLISHED };
        let options = Options { path, quick: true, ..Options::default() };
        let table = |name: &str| profile::table(name).unwrap();
        let (nvme, sas, disk) = (table(&options.nvme), table(&options.sas), table(&options.disk));
        let study = (&options, cell::DriveTables { nvme, sas, disk }, Cache::new(usual_cache()));
        let mut cells = cells(&options);
        cells.retain(|cell| {
            cell.job == Job::RandomRead
                && cell.at.is_empty()
                && ["nvme", "sas-ssd"].contains(&cell.setup.name)
        });
        assert_eq!(cells.len(), 2);
        let Gathered { variants, .. } = run_pieces(&study, &cells, &Control::default()).unwrap();
        let of = |name: &str| {
            let variant = variants.iter().find(|variant| variant.name == name).unwrap();
            variant.runs[0].metrics["randread_iops"]
        };
        assert!((46_000.0..49_500.0).contains(&of("sas-ssd")), "{}", of("sas-ssd"));
        assert!(of("nvme") > 700_000.0, "{}", of("nvme"));
    }
}
