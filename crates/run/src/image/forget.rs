//! Forgetting: afterwards the directory holds neither an older state nor contents that nobody refers to.
//!
//! A checkpoint is written and synced, everything before it is removed, and the slots that were free when it was made are
//! punched out of the contents. Until that is over they are not given out again.

use super::error::ImageError;
use super::files;
use super::{Image, News};
use crate::image::helper::Job;
use crate::memory::SLOT;
use device::SPARE;
use ftl::Io;
use media::{Nanos, Slot};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What is to be forgotten, and what is being.
#[derive(Default)]
pub(super) struct Forgetting {
    /// Commands that ask for it.
    waiting: Vec<Io>,
    /// Whether one of them wants all contents to go.
    all: bool,
    /// Slots with contents that are out of date, though something refers to them.
    stale: Vec<u32>,
    /// Commands that the one under way is for.
    ios: Vec<Io>,
    /// Slots that nobody refers to, kept back meanwhile: those that were free, and those that waited for a sync.
    free: Vec<u32>,
    parked: Vec<u32>,
}

impl Forgetting {
    /// Nobody waits any more: power was lost.
    pub(super) fn abandon(&mut self) {
        self.waiting.clear();
        self.ios.clear();
    }

    /// Takes slots that are kept back out of a list.
    pub(super) fn keep_back(&self, free: &mut Vec<u32>) {
        if !self.free.is_empty() || !self.parked.is_empty() {
            let kept: std::collections::HashSet<u32> =
                self.free.iter().chain(&self.parked).copied().collect();
            free.retain(|slot| !kept.contains(slot));
        }
    }

    /// Those who wait for it, when it cannot be.
    pub(super) fn refuse(&mut self, news: &mut Vec<News>) {
        self.all = false;
        news.extend(self.waiting.drain(..).map(|io| News::Synced(io, false)));
    }
}

impl Image {
    /// The contents of a slot are to go with the next forgetting, though something out of date refers to it.
    pub(crate) fn scrub(&mut self, slot: Slot) {
        if slot != Slot::NONE {
            self.forgetting.stale.push(slot.0);
        }
    }

    /// A command waits until everything before is forgotten.
    pub(crate) fn want_forget(&mut self, io: Io, all: bool) {
        self.forgetting.waiting.push(io);
        self.forgetting.all |= all;
    }

    /// Whether [`forget`](Image::forget) is to be called with the drive's state.
    pub(crate) fn forget_is_due(&self) -> bool {
        !self.forgetting.waiting.is_empty() && !self.sync_runs && !self.checkpoint_runs
    }

    /// Begins to forget everything before the drive's state, which is that after the last committed step.
    pub(crate) fn forget(&mut self, state: Vec<u8>, time: Nanos, news: &mut Vec<News>) {
        let started = if self.failed.is_none() { self.next_checkpoint(&state, time, false) } else { return };
        let header = match started {
            Ok(header) => header,
            Err(e) => {
                tracing::warn!("what was erased is still in older files: {e}");
                return self.forgetting.refuse(news);
            }
        };
        self.forgetting.free = self.slots.take_all();
        self.forgetting.parked = std::mem::take(&mut self.parked);
        self.forgetting.ios = std::mem::take(&mut self.forgetting.waiting);
        let all = std::mem::take(&mut self.forgetting.all);
        let slots = match all {
            true => Vec::new(),
            false => {
                let Forgetting { free, parked, stale, .. } = &self.forgetting;
                free.iter().chain(parked).chain(stale).copied().collect()
            }
        };
        self.helper.ask(Job::Forget { header, body: state, slots, all });
    }

    /// It is over.
    pub(super) fn forgotten(&mut self, result: Result<(), ImageError>, news: &mut Vec<News>) {
        self.checkpoint_runs = false;
        let ok = result.is_ok();
        self.slots.give_all(&mut self.forgetting.free);
        if let Err(e) = result {
            tracing::warn!("what was erased may still be in the image {}: {e}", self.dir.display());
            // What waited for a sync waits for the next.
            self.parked.append(&mut self.forgetting.parked);
        } else {
            self.slots.give_all(&mut self.forgetting.parked);
            self.forgetting.stale.clear();
        }
        news.push(News::SlotsFree);
        news.extend(self.forgetting.ios.drain(..).map(|io| News::Synced(io, ok)));
    }
}

/// Removes every generation below `keep`.
pub(super) fn remove_older(dir: &Path, keep: u64) -> Result<(), ImageError> {
    let (checkpoints, journals) = files::generations(dir)?;
    let old = |all: Vec<u64>, path: fn(&Path, u64) -> std::path::PathBuf| -> Result<(), ImageError> {
        for generation in all.into_iter().filter(|&g| g < keep) {
            let path = path(dir, generation);
            std::fs::remove_file(&path).map_err(ImageError::io("remove", &path))?;
        }
        Ok(())
    };
    old(checkpoints, files::checkpoint_path)?;
    old(journals, files::journal_path)?;
    files::sync_directory(dir)
}

/// Erases what slots hold, in their pages and beside them; of all of them, whoever refers to them, with `all`.
pub(super) fn erase(files: &[File; 2], dir: &Path, mut slots: Vec<u32>, all: bool) -> Result<(), ImageError> {
    slots.sort_unstable();
    slots.dedup();
    let [contents, spares] = files;
    for (file, name, size) in [(contents, files::CONTENTS, SLOT), (spares, files::SPARES, SPARE)] {
        let erased = if all { file.set_len(0) } else { erase_slots(file, &slots, size as u64) };
        erased.map_err(ImageError::io("erase a part of", &dir.join(name)))?;
    }
    Ok(())
}

fn erase_slots(file: &File, slots: &[u32], size: u64) -> std::io::Result<()> {
    let end = file.metadata()?.len().div_ceil(size);
    for run in slots.chunk_by(|a, b| *b == a + 1) {
        let first = u64::from(run[0]);
        let last = (first + run.len() as u64).min(end);
        if last > first {
            erase_run(file, first * size, (last - first) * size)?;
        }
    }
    Ok(())
}

fn erase_run(file: &File, at: u64, span: u64) -> std::io::Result<()> {
    const ZEROS: [u8; SLOT] = [0; SLOT];
    match rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, span) {
        Ok(()) => Ok(()),
        // A file system without holes.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => (at..at + span).step_by(SLOT).try_for_each(|byte| {
            let rest = (at + span - byte).min(SLOT as u64);
            file.write_all_at(&ZEROS[..rest as usize], byte)
        }),
        Err(e) => Err(e.into()),
    }
}
