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
use self::{piece::pieces, setup::Load, testbed::DriveTables};
use crate::StudyDrive;
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
    results::{self, Comparison, Published, Results, Variant, compare_pairs},
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
        drive: serde_json::json!(StudyDrive {
            disk: Some(&options.disk),
            nvme: Some(&options.nvme),
            sas: Some(&options.sas),
            controller: Some(options.controller.name()),
            origin_bytes: Some(CacheSizes::PUBLISHED.origin),
            cache_bytes: Some(CacheSizes::PUBLISHED.cache),
            metadata_bytes: Some(CacheSizes::PUBLISHED.metadata),
            file_bytes: Some(options.file),
            ..StudyDrive::default()
        }),
        comparisons: comparisons(&variants),
        variants,
        ..Results::empty("cache", "sim", options.seed, Vec::new())
    };
    results.note(report::notes(&results, options), options.quick);
    publish(results, options.out.path(), interrupted, |results| report::report(results, options))
}

/// Each cache over the disk alone, warm.
fn comparisons(variants: &[Variant]) -> Vec<Comparison> {
    let caches = variants.iter().map(|variant| variant.name.as_str()).filter(|name| name.contains("write"));
    let pairs: Vec<_> = caches.map(|name| (name, "hdd")).collect();
    let metrics: Vec<_> = Load::all().iter().map(|load| load.metric("iops")).collect();
    let mut rows = compare_pairs(variants, &pairs, &metrics, |row| match row.metric.as_str() {
        "read_4k_qd1_iops" if row.of == "nvme-writeback" => Some(Published::ratio(published::READ.0)),
        "mixed_4k_qd1_iops" if row.of == "nvme-writeback" => Some(Published::ratio(published::READ_WRITE.0)),
        _ => None,
    });
    rows.retain(Comparison::is_at_origin);
    rows
}
