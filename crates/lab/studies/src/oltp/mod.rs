//! `tranche study oltp`: what a database does on a hard disk, on an NVMe drive, and on the disk with the drive as its cache.
//!
//! In virtual time: the model of InnoDB (`database_models::innodb`) runs sysbench's OLTP test on 100 million rows, on the drives of the published set-up. `--live` runs MariaDB
//! under sysbench on scaled drives.

mod live;
mod options;
mod published;
mod report;
mod setup;
mod testbed;

use anyhow::Result;
use serde_json::Value;

pub use self::options::{Live, Options};
use self::{setup::pieces, testbed::DriveTables};
use crate::StudyDrive;
use lab_engines::sweep::{self, Profiles};
use lab_report::{
    Findings,
    control::Control,
    pieces::{Gathered, run_pieces},
    profile,
    report::publish,
    results::{self, Comparison, Published, Results, Variant, compare_pairs},
};

/// Runs the study and writes its results.
///
/// # Errors
/// A profile that does not exist or is too small, a directory that cannot be written; an interruption before there was anything to report. Live, also
/// what is missing on this machine.
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
    options.check()?;
    let options = &options.of_simulation();
    let tables = DriveTables { disk: profiles(&options.disk)?, nvme: profiles(&options.nvme)? };
    tables.check()?;
    results::directory(options.out.path())?;
    let Gathered { variants, interrupted } = run_pieces(&(options, tables), &pieces(options), control)?;
    let mut results = Results {
        drive: serde_json::json!(StudyDrive {
            disk: Some(&options.disk),
            nvme: Some(&options.nvme),
            controller: Some(options.controller.name()),
            rows: Some(options.rows),
            pool_bytes: Some(options.pool),
            threads: Some(options.threads),
            ..StudyDrive::default()
        }),
        comparisons: comparisons(&variants),
        variants,
        ..Results::empty("oltp", "sim", options.seed, Vec::new())
    };
    results.note(report::notes(options), options.quick);
    publish(results, options.out.path(), interrupted, |results| report::report(results, options))
}

fn comparisons(variants: &[Variant]) -> Vec<Comparison> {
    let pairs = [
        ("nvme", "hdd"),
        ("cache-writethrough", "hdd"),
        ("cache-writeback", "hdd"),
        ("cache-smq", "hdd"),
        ("hdd-doublewrite", "hdd"),
        ("nvme-doublewrite", "nvme"),
        ("nvme-cold", "hdd-cold"),
        ("cache-cold", "hdd-cold"),
        ("cache-smq-cold", "hdd-cold"),
        ("cache-second", "hdd"),
        ("cache-smq-second", "hdd"),
        ("cache-full", "hdd"),
        ("cache-full-cold", "hdd-cold"),
    ];
    compare_pairs(variants, &pairs, &["tps"], |row| {
        published::over_disk(&row.of).filter(|_| row.is_at_origin()).map(Published::ratio)
    })
}
