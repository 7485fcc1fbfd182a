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
use lab_engines::sweep::{self, Profiles};
use lab_report::{
    Findings,
    control::Control,
    pieces::{Gathered, run_pieces},
    profile,
    report::publish,
    results::{self, Point, Published, Results, Variant, compare},
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
        drive: serde_json::json!({
            "disk": options.disk, "nvme": options.nvme, "controller": options.controller.name(), "rows": options.rows,
            "pool_bytes": options.pool, "threads": options.threads,
        }),
        comparisons: comparisons(&variants),
        variants,
        ..Results::empty("oltp", "sim", options.seed, Vec::new())
    };
    results.note(report::notes(options), options.quick);
    publish(results, options.out.path(), interrupted, |results| report::report(results, options))
}

fn comparisons(variants: &[Variant]) -> Vec<results::Comparison> {
    let find = |name: &str| variants.iter().find(|variant| variant.name == name);
    let mut rows = Vec::new();
    for (of, over) in [
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
    ] {
        let (Some(of), Some(over)) = (find(of), find(over)) else { continue };
        let published = |at: Option<&Point>| {
            let there = at.is_some_and(Point::is_empty);
            match of.name.as_str() {
                "nvme" | "nvme-cold" if there => Some(Published::ratio(published::NVME)),
                "cache-writethrough" | "cache-writeback" | "cache-cold" | "cache-second" | "cache-full"
                | "cache-full-cold"
                    if there =>
                {
                    Some(Published::ratio(published::CACHE))
                }
                _ => None,
            }
        };
        rows.extend(compare("tps", of, over, published).into_iter().filter(|row| row.at.is_some()));
    }
    rows
}
