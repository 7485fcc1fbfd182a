//! Runs a modelled store on its drive in virtual time.

use anyhow::Result;

use super::{
    chips::{AllChips, Layout},
    database::{Database, FileSystem},
    settings::{Model, Space},
};
use lab_engines::sweep::Profiles;
use lab_report::{
    control::{Control, Progress},
    results::Variant,
};

/// Runs a modelled store with settings of its own: a run of overwrites, and one for each of the reads. They are those of the study for the same set-up.
///
/// # Errors
/// A setting that makes no sense, a drive without zones, a database that does not fit; an interruption.
pub fn run(model: &Model, profiles: &Profiles<'_>, control: &Control) -> Result<Variant> {
    model.check()?;
    let toml = profiles(&model.drive)?;
    let chips = AllChips::new(&toml, model.scale, &model.drive)?;
    let (layout, files, chips, about) = match model.space {
        Space::Spare7 => (Layout::Spare7, FileSystem::Xfs, &chips.conventional, "a conventional namespace"),
        Space::Spare28 => (Layout::Spare28, FileSystem::Xfs, &chips.conventional, "a conventional namespace"),
        Space::Zones(dies, placement) => {
            (chips.zones.layout(dies)?, FileSystem::ZenFs(placement), &chips.zones, "zones")
        }
    };
    let mut progress = Progress::new(control, 1 + model.reads.len() as u64);
    progress.begin("filling and overwriting");
    let (compaction, tuning, seed) = (model.compaction_ns, &model.tuning, model.seed);
    let mut database = Database::new(chips, layout, files, model.filled(), compaction, tuning, seed, 0)?;
    let mut runs = vec![database.overwrite(model.overwrites, control)?];
    progress.end("");
    for reads in &model.reads {
        progress.begin("reading beside writes");
        runs.push(database.read(reads.readers, reads.write_limit, reads.seconds, control)?);
        progress.end("");
    }
    Ok(Variant { name: "store".into(), description: format!("A log-structured store on {about}."), runs })
}
