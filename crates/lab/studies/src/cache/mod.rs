//! `tranche study cache`: what an SSD as a cache in front of a hard disk gives, with the rules of dm-cache.
//!
//! It runs in virtual time, at the published size. 200 GB lie on a disk. 60 GB of cache and 2 GB of metadata lie on an NVMe drive or a SAS SSD. docs/machine.md
//! describes the way from the host to each.

mod designs;
mod options;
mod piece;
mod published;
mod report;
mod setup;
mod testbed;

use anyhow::Result;
use serde_json::Value;

pub use self::options::{Options, Part};
use self::{
    piece::pieces,
    setup::{Load, LoadKind},
    testbed::DriveTables,
};
use lab_engines::{
    machine::CacheSizes,
    sweep::{self, Profiles},
};
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
/// A profile that does not exist or is too small, a directory that cannot be written; an interruption before there was anything to report.
pub fn run(options: &Options, control: &Control) -> Result<Findings<Value>> {
    let options = &Options { out: options.out.free()?, ..options.clone() };
    sweep::value(run_on(options, &profile::table, control)?)
}

/// Runs the study with profiles from elsewhere.
///
/// # Errors
/// Like [`run()`].
pub fn run_on(options: &Options, profiles: &Profiles<'_>, control: &Control) -> Result<Findings<Results>> {
    options.check()?;
    let tables = DriveTables {
        disk: profiles(&options.disk)?,
        nvme: profiles(&options.nvme)?,
        sas: profiles(&options.sas)?,
    };
    tables.check()?;
    results::directory(options.out.path())?;
    let Gathered { variants, interrupted } = run_pieces(&(options, tables), &pieces(options), control)?;
    let mut results = Results {
        drive: serde_json::json!({
            "disk": options.disk, "nvme": options.nvme, "sas": options.sas, "controller": options.controller.name(),
            "origin_bytes": CacheSizes::PUBLISHED.origin, "cache_bytes": CacheSizes::PUBLISHED.cache, "metadata_bytes": CacheSizes::PUBLISHED.metadata,
            "file_bytes": options.file,
        }),
        comparisons: comparisons(&variants),
        variants,
        ..Results::empty("cache", "sim", options.seed, Vec::new())
    };
    results.note(report::notes(&results, options), options.quick);
    publish(results, options.out.path(), interrupted, |results| report::report(results, options))
}

/// Each cache over the disk alone, warm.
fn comparisons(variants: &[Variant]) -> Vec<results::Comparison> {
    let Some(disk) = variants.iter().find(|variant| variant.name == "hdd") else { return Vec::new() };
    let mut rows = Vec::new();
    for of in variants.iter().filter(|variant| variant.name.contains("write")) {
        for load in Load::all() {
            let published = |at: Option<&Point>| {
                let there = at.is_some_and(Point::is_empty) && load.block == 4 << 10 && load.depth == 1;
                let of_nvme = of.name == "nvme-writeback";
                match load.kind {
                    LoadKind::Read if there && of_nvme => Some(Published::ratio(published::READ.0)),
                    LoadKind::Mixed if there && of_nvme => Some(Published::ratio(published::READ_WRITE.0)),
                    _ => None,
                }
            };
            let compared = compare(&load.metric("iops"), of, disk, published);
            rows.extend(compared.into_iter().filter(|row| row.at.as_ref().is_some_and(Point::is_empty)));
        }
    }
    rows
}
