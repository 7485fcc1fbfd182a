//! What the files of an image say, which may be damaged: nothing of them is changed.
//!
//! The image is found on an [`Overlay`], as always. That may fail for a damaged journal, or for a checkpoint that cannot be read. Then the
//! overlay leaves out the checkpoint, or the journal from the damage on, and the image is looked for again. This leads to an older state.

use super::disk::{Disk, HostDisk};
use super::error::ImageError;
use super::files;
use super::format::{FormatError, HEADER};
use super::overlay::Overlay;
use super::replay;
use super::{ImageState, Locked, Open};
use media::Nanos;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the last process left an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LastShutdown {
    /// The drive was stopped.
    Clean,
    /// Its process ended in another way; everything that was completed counts.
    Killed,
    /// The host went down, or a sync failed; what was flushed counts.
    HostDown,
}

/// A file that is not as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedFile {
    /// Which one.
    pub path: PathBuf,
    /// What is wrong with it, and where.
    pub what: String,
    /// Whether that leads to an older state.
    pub loses: bool,
}

/// What is missing from a state that is older than the newest there was.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Missing {
    /// Bytes of journals that are left out.
    pub journal_bytes: u64,
    /// How far the drive's clock had gone on, as far as anything tells.
    pub time: Nanos,
}

/// What the files of an image say.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Format version of the checkpoint.
    pub version: u32,
    /// Generations of which there is a checkpoint.
    pub checkpoints: Vec<u64>,
    /// Generations of which there is a journal.
    pub journals: Vec<u64>,
    /// The checkpoint that the state begins with.
    pub checkpoint: u64,
    /// Generation and byte at which the replay of journals ends.
    pub end: (u64, u64),
    /// How it was left.
    pub last_shutdown: LastShutdown,
    /// What was passed over.
    pub notes: Vec<String>,
    /// Files that are damaged.
    pub damaged: Vec<DamagedFile>,
    /// What is not in the state; `None` if it is the newest.
    pub missing: Option<Missing>,
}

/// An image whose newest state was found, with what its files say.
pub(crate) struct Salvaged {
    pub(crate) findings: Findings,
    pub(crate) locked: Locked,
    pub(crate) found: ImageState,
    /// Keeps others from the image.
    pub(crate) lock: Option<File>,
}

/// Finds the newest state that the files of an image still lead to.
///
/// # Errors
/// If the image is in use, or its files lead to no state.
pub(crate) fn salvage(dir: &Path) -> Result<Salvaged, ImageError> {
    let overlay = Arc::new(Overlay::new(HostDisk::open_dir(dir)?));
    let lock = overlay.lock()?;
    let locked = Locked::looking(overlay.clone());
    let newest = newest_time(&*overlay);
    let (checkpoints, journals) = files::generations(&*overlay)?;
    let mut damaged = damaged_checkpoints(&*overlay, &checkpoints);
    let mut missing: Option<Missing> = None;
    let mut first = None;
    let found = loop {
        let error = match locked.find() {
            Ok(found) => break found,
            Err(error) => error,
        };
        let Some((left_out, path)) = leave_out(&*overlay, &error)? else {
            return Err(first.unwrap_or(error));
        };
        missing.get_or_insert_default().journal_bytes += left_out;
        match damaged.iter_mut().find(|file| file.path == path) {
            Some(file) => file.loses = true,
            None => damaged.push(DamagedFile { path, what: without_path(&error), loses: true }),
        }
        first.get_or_insert(error);
    };
    if let Some(missing) = &mut missing {
        missing.time = newest.since(found.time);
    } else if damaged.is_empty() {
        damaged.extend(damaged_fallback(&overlay, &checkpoints, &found)?);
    }
    let findings = Findings {
        version: found.version,
        checkpoints,
        journals,
        checkpoint: found.checkpoint,
        end: (found.end.generation, found.end.offset),
        last_shutdown: match (found.clean && found.left_out == 0, found.restored) {
            (true, _) => LastShutdown::Clean,
            (false, false) => LastShutdown::Killed,
            (false, true) => LastShutdown::HostDown,
        },
        notes: found.notes.clone(),
        damaged,
        missing,
    };
    Ok(Salvaged { findings, locked, found, lock })
}

/// The generation that a file's name ends with, and what it begins with.
pub fn generation_of(path: &Path) -> Option<(&str, u64)> {
    let (stem, number) = path.file_name()?.to_str()?.split_once('.')?;
    Some((stem, number.parse().ok()?))
}

/// Leaves out what an opening failed at: bytes of journals, and the file that is damaged. `None` if there is nothing more
/// to leave out.
fn leave_out(disk: &dyn Disk, error: &ImageError) -> Result<Option<(u64, PathBuf)>, ImageError> {
    let (path, keep) = match error {
        // A newer program can read what this one cannot.
        ImageError::Format { source: FormatError::Newer(_), .. } => return Ok(None),
        ImageError::Damaged { newest, .. } => match &**newest {
            ImageError::Format { path, .. } | ImageError::Io { path, .. } => (path, 0),
            _ => return Ok(None),
        },
        ImageError::DamagedJournal { path, at } => (path, if *at > HEADER as u64 { *at } else { 0 }),
        // It ends well; what follows does not fit.
        ImageError::Gap { path } => (path, u64::MAX),
        ImageError::Format { path, .. } | ImageError::Io { path, .. } => (path, 0),
        _ => return Ok(None),
    };
    let Some((stem, generation)) = generation_of(path) else { return Ok(None) };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (checkpoints, journals) = files::generations(disk)?;
    if stem == "checkpoint" {
        // Without another one there is no state at all.
        if checkpoints.len() < 2 || !checkpoints.contains(&generation) {
            return Ok(None);
        }
        files::remove(disk, name)?;
        return Ok(Some((0, path.clone())));
    }
    let mut left_out = 0;
    let mut changed = false;
    for other in journals.into_iter().filter(|&other| other >= generation) {
        let name = files::journal_name(other);
        let keep = if other == generation { keep } else { 0 };
        // Of one that the host's disk does not give the length is not known either.
        let whole = disk.read(&name).map(|bytes| replay::written(&bytes)).unwrap_or(0);
        if keep >= whole && keep > 0 {
            continue;
        }
        left_out += whole - keep;
        changed = true;
        match keep {
            0 => files::remove(disk, &name)?,
            keep => {
                let cut = disk.open(&name, Open::Existing).and_then(|file| file.set_len(keep));
                cut.map_err(ImageError::io("shorten", path))?;
            }
        }
    }
    Ok(changed.then(|| (left_out, path.clone())))
}

/// The latest time of the drive's clock in any file, also in files that the opening does not use.
fn newest_time(disk: &dyn Disk) -> Nanos {
    let Ok((checkpoints, journals)) = files::generations(disk) else { return Nanos::ZERO };
    let checkpoints = checkpoints.into_iter().filter_map(|g| files::time_of_checkpoint(disk, g));
    let journals = journals.into_iter().filter_map(|g| disk.read(&files::journal_name(g)).ok());
    let journals = journals.filter_map(|bytes| replay::last_time(&bytes));
    checkpoints.chain(journals).max().unwrap_or_default()
}

/// What is wrong with a file whose path is told beside it.
fn without_path(error: &ImageError) -> String {
    match error {
        ImageError::Format { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

/// Checkpoints that cannot be read.
fn damaged_checkpoints(disk: &dyn Disk, generations: &[u64]) -> Vec<DamagedFile> {
    let damaged = |&generation: &u64| {
        let error = files::read_checkpoint(disk, generation).err()?;
        let path = files::path(disk, &files::checkpoint_name(generation));
        Some(DamagedFile { path, what: without_path(&error), loses: false })
    };
    generations.iter().filter_map(damaged).collect()
}

/// The journals between the newest two checkpoints are there in case that the newest is damaged. Whether they would do then.
fn damaged_fallback(
    overlay: &Overlay,
    checkpoints: &[u64],
    found: &ImageState,
) -> Result<Option<DamagedFile>, ImageError> {
    if checkpoints.first().is_none_or(|&oldest| oldest >= found.checkpoint) {
        return Ok(None);
    }
    let disk = overlay.anew();
    let name = files::checkpoint_name(found.checkpoint);
    let path = files::path(&disk, &name);
    let spoil = disk.open(&name, Open::Existing).and_then(|file| file.set_len(HEADER as u64 - 1));
    spoil.map_err(ImageError::io("open", &path))?;
    let Err(error) = ImageState::read(&disk) else { return Ok(None) };
    let (path, what) = match error {
        ImageError::DamagedJournal { path, at } => {
            (path, format!("a journal that only an older state needs is damaged at byte {at}"))
        }
        ImageError::Gap { path } => (
            path,
            "the journal that follows this one, which only an older state needs, is missing or damaged"
                .to_owned(),
        ),
        ImageError::Format { path, source } => (path, source.to_string()),
        ImageError::Io { path, source, .. } => (path, source.to_string()),
        other => (
            disk.path().to_owned(),
            format!("the newest checkpoint has no other to stand in for it: {other}"),
        ),
    };
    Ok(Some(DamagedFile { path, what, loses: false }))
}
