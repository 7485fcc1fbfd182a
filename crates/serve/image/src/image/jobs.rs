//! What is done while the drive goes on: syncs, checkpoints, and erasing for good. Each is a list of small steps, so that a test
//! can put any step of the drive between any two of them.

use super::disk::{Disk, DiskFile, read_full};
use super::error::ImageError;
use super::files;
use super::format::{self, FrameKind, Header, Mark};
use super::journal::{Journal, Unsynced};
use crate::memory::SLOT;
use device::SPARE_BYTES;
use media::Nanos;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Pages that a sync writes into the journal rather than syncing the contents' own files. One sync instead of three, for twice
/// the bytes.
pub(super) const MOST_INLINE: usize = 64;

/// What is to be done.
pub(crate) struct Job {
    what: JobKind,
    stage: JobStage,
    /// What of the journal is being synced, and how many of its files were.
    unsynced: Option<(Unsynced, usize)>,
}

enum JobKind {
    Sync { mark: Mark, time: Nanos, written: Written },
    Checkpoint { header: Header, body: Vec<u8>, forget: Option<Forget> },
}

/// Contents that were written since the last sync, to the files that are not synced by themselves.
#[derive(Default, Debug)]
pub(crate) struct Written {
    /// Slots whose pages were written; those that are still wanted.
    pub pages: Vec<u32>,
    /// Slots beside which something was written.
    pub beside: Vec<u32>,
    /// There were too many to list.
    pub many: bool,
}

/// What is to be erased when a checkpoint is complete.
pub(crate) enum Forget {
    /// The contents of these slots, in ascending order.
    Slots(Vec<u32>),
    /// All contents.
    All,
}

/// What comes next, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum JobStage {
    Contents,
    Spares,
    Mark,
    Journal,
    Names,
    Write,
    SyncNew,
    Rename,
    SyncName,
    Remove,
    EraseContents,
    EraseSpares,
    SyncContents,
    SyncSpares,
    Done,
}

/// Why a job failed.
#[derive(Debug)]
pub(crate) enum JobFailure {
    /// The host's disk has lost what it was given: nothing is known any more.
    Lost(ImageError),
    /// It cannot be done now.
    NotDone(ImageError),
}

/// What became of a job.
pub(crate) enum JobReport {
    Sync(Result<(), JobFailure>),
    Checkpoint(Result<(), JobFailure>),
    Forget(Result<(), JobFailure>),
}

impl Job {
    /// Contents and journal up to `mark` onto the host's disk.
    pub(crate) fn sync(mark: Mark, time: Nanos, written: Written) -> Self {
        let stage = if written.many { JobStage::Contents } else { JobStage::Mark };
        Job { what: JobKind::Sync { mark, time, written }, stage, unsynced: None }
    }

    /// Writes a checkpoint of a generation whose journal has been started, and erases what is to be forgotten.
    pub(crate) fn checkpoint(header: Header, body: Vec<u8>, forget: Option<Forget>, sync: bool) -> Self {
        let stage = if sync || forget.is_some() { JobStage::Contents } else { JobStage::Write };
        Job { what: JobKind::Checkpoint { header, body, forget }, stage, unsynced: None }
    }
}

/// The files that jobs work on.
pub(crate) struct JobFiles {
    pub disk: Arc<dyn Disk>,
    pub contents: Arc<dyn DiskFile>,
    pub spares: Arc<dyn DiskFile>,
    pub journal: Arc<Mutex<Journal>>,
    /// Whether anything is synced that need not be.
    pub host_sync: bool,
    /// A sync has failed. The host reports that once. A later sync that succeeds says nothing about what was lost.
    pub lost: AtomicBool,
}

impl JobFiles {
    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the whole of a job.
    pub(crate) fn carry_out(&self, mut job: Job) -> JobReport {
        loop {
            if let Some(report) = self.step(&mut job) {
                return report;
            }
        }
    }

    /// Does the next step of a job; its report if that was the last.
    pub(crate) fn step(&self, job: &mut Job) -> Option<JobReport> {
        let result = match self.lost.load(Ordering::Relaxed) {
            false => self.advance(job),
            true => Err(JobFailure::Lost(ImageError::State {
                path: self.disk.path().to_owned(),
                reason: "a sync of the host's disk has failed".to_owned(),
            })),
        };
        if let Err(JobFailure::Lost(_)) = result
            && !self.lost.swap(true, Ordering::Relaxed)
            && self.host_sync
        {
            // At once: a process that dies now must not leave a journal that is believed.
            if let Err(e) = self.journal().disown() {
                tracing::error!("cannot mark the image {} as failed: {e}", self.disk.path().display());
            }
        }
        let result = match (result, job.stage) {
            (Ok(()), JobStage::Done) => Ok(()),
            (Ok(()), _) => return None,
            (Err(e), _) => Err(e),
        };
        Some(match &job.what {
            JobKind::Sync { .. } => JobReport::Sync(result),
            JobKind::Checkpoint { forget: None, .. } => JobReport::Checkpoint(result),
            JobKind::Checkpoint { .. } => JobReport::Forget(result),
        })
    }

    fn advance(&self, job: &mut Job) -> Result<(), JobFailure> {
        let next = match job.stage {
            JobStage::Contents => self.sync_file(&*self.contents, files::CONTENTS, JobStage::Spares)?,
            JobStage::Spares => {
                let next =
                    if matches!(job.what, JobKind::Sync { .. }) { JobStage::Mark } else { JobStage::Journal };
                self.sync_file(&*self.spares, files::SPARES, next)?
            }
            JobStage::Mark => self.mark(&job.what)?,
            JobStage::Journal => self.sync_journal(job)?,
            JobStage::Names => {
                files::sync_names(&*self.disk).map_err(JobFailure::Lost)?;
                self.journal_is_synced(job)
            }
            JobStage::Write
            | JobStage::SyncNew
            | JobStage::Rename
            | JobStage::SyncName
            | JobStage::Remove
            | JobStage::EraseContents
            | JobStage::EraseSpares => self.checkpoint(job)?,
            JobStage::SyncContents => {
                self.sync_file(&*self.contents, files::CONTENTS, JobStage::SyncSpares)?
            }
            JobStage::SyncSpares => self.sync_file(&*self.spares, files::SPARES, JobStage::Done)?,
            JobStage::Done => JobStage::Done,
        };
        job.stage = next;
        Ok(())
    }

    fn sync_file(&self, file: &dyn DiskFile, name: &str, next: JobStage) -> Result<JobStage, JobFailure> {
        let path = files::path(&*self.disk, name);
        file.sync().map_err(|e| JobFailure::Lost(ImageError::io("sync", &path)(e)))?;
        Ok(next)
    }

    /// Says in the journal what will be safe when the journal is, with the contents that are nowhere else yet.
    fn mark(&self, what: &JobKind) -> Result<JobStage, JobFailure> {
        let JobKind::Sync { mark, time, written } = what else { return Ok(JobStage::Journal) };
        let full = if written.many { *mark } else { self.journal().full };
        let mut frame = Vec::with_capacity(format::FRAME + 32 + written.pages.len() * (SLOT + 6));
        format::begin_frame(&mut frame);
        format::encode_mark(*mark, &mut frame);
        format::encode_mark(full, &mut frame);
        format::encode_durable(self.journal().durable, &mut frame);
        if !written.many {
            self.inline(written, &mut frame)?;
        }
        let mut journal = self.journal();
        let path = files::path(&*self.disk, &files::journal_name(journal.generation()));
        let result = journal.append(&mut frame, FrameKind::Sync, *time);
        result.map_err(|e| JobFailure::NotDone(ImageError::io("write", &path)(e)))?;
        journal.full = full;
        Ok(JobStage::Journal)
    }

    fn inline(&self, written: &Written, frame: &mut Vec<u8>) -> Result<(), JobFailure> {
        let failed =
            |name| move |e| JobFailure::Lost(ImageError::io("read", &files::path(&*self.disk, name))(e));
        let (mut page, mut beside) = ([0; SLOT], [0; SPARE_BYTES]);
        for &slot in &written.pages {
            let at = u64::from(slot) * SLOT as u64;
            read_full(&*self.contents, at, &mut page).map_err(failed(files::CONTENTS))?;
            format::encode_page(slot, &page, frame);
        }
        for &slot in &written.beside {
            let at = u64::from(slot) * SPARE_BYTES as u64;
            read_full(&*self.spares, at, &mut beside).map_err(failed(files::SPARES))?;
            format::encode_beside(slot, &beside, frame);
        }
        Ok(())
    }

    /// Syncs the next of the journal's files.
    fn sync_journal(&self, job: &mut Job) -> Result<JobStage, JobFailure> {
        let (unsynced, done) = job.unsynced.get_or_insert_with(|| (self.journal().unsynced(), 0));
        let result = unsynced.files[*done].sync();
        result.map_err(|e| JobFailure::Lost(ImageError::io("sync a journal in", self.disk.path())(e)))?;
        *done += 1;
        if *done < unsynced.files.len() {
            return Ok(JobStage::Journal);
        }
        if unsynced.names { Ok(JobStage::Names) } else { Ok(self.journal_is_synced(job)) }
    }

    fn journal_is_synced(&self, job: &mut Job) -> JobStage {
        let mut journal = self.journal();
        if let Some((unsynced, _)) = job.unsynced.take() {
            journal.synced(&unsynced);
        }
        match &job.what {
            JobKind::Sync { .. } => JobStage::Done,
            JobKind::Checkpoint { header, .. } => {
                // The contents' own files were synced, too.
                let here = Mark { generation: header.generation, offset: 0 };
                journal.full = journal.full.max(here);
                JobStage::Write
            }
        }
    }

    /// The stages of a checkpoint, when all that it refers to and the journal that leads to it are on the disk.
    fn checkpoint(&self, job: &mut Job) -> Result<JobStage, JobFailure> {
        let JobKind::Checkpoint { header, body, forget } = &job.what else { return Ok(JobStage::Done) };
        let disk = &*self.disk;
        let sync = self.host_sync || forget.is_some();
        Ok(match job.stage {
            JobStage::Write => {
                files::write_checkpoint(disk, header, body).map_err(JobFailure::NotDone)?;
                if sync { JobStage::SyncNew } else { JobStage::Rename }
            }
            JobStage::SyncNew => {
                files::sync_checkpoint(disk).map_err(JobFailure::Lost)?;
                JobStage::Rename
            }
            JobStage::Rename => {
                files::rename_checkpoint(disk, header.generation).map_err(JobFailure::NotDone)?;
                if sync { JobStage::SyncName } else { JobStage::Remove }
            }
            JobStage::SyncName => {
                files::sync_names(disk).map_err(JobFailure::Lost)?;
                JobStage::Remove
            }
            JobStage::Remove => self.remove_older(header.generation, forget.is_some())?,
            JobStage::EraseContents => {
                self.erase(&*self.contents, files::CONTENTS, SLOT, forget)?;
                JobStage::EraseSpares
            }
            _ => {
                self.erase(&*self.spares, files::SPARES, SPARE_BYTES, forget)?;
                JobStage::SyncContents
            }
        })
    }

    /// Removes one file that is not needed any more. Otherwise than to forget, the checkpoint before stays, with everything
    /// that leads from it to the new one.
    fn remove_older(&self, generation: u64, forget: bool) -> Result<JobStage, JobFailure> {
        let disk = &*self.disk;
        let keep = match forget {
            true => generation,
            false => {
                let (checkpoints, _) = files::generations(disk).map_err(JobFailure::NotDone)?;
                checkpoints.into_iter().rev().find(|&g| g < generation).unwrap_or(0)
            }
        };
        let older = files::below(disk, keep).map_err(JobFailure::NotDone)?;
        match older.first().map(|name| files::remove(disk, name)) {
            Some(Ok(())) => return Ok(JobStage::Remove),
            Some(Err(e)) if forget => return Err(JobFailure::NotDone(e)),
            // What cannot be removed only takes up room.
            Some(Err(_)) | None => {}
        }
        if forget || self.host_sync {
            files::sync_names(disk).map_err(JobFailure::Lost)?;
        }
        Ok(if forget { JobStage::EraseContents } else { JobStage::Done })
    }

    /// Erases what slots hold in one of the files.
    fn erase(
        &self,
        file: &dyn DiskFile,
        name: &str,
        size: usize,
        forget: &Option<Forget>,
    ) -> Result<(), JobFailure> {
        let erased = match forget {
            Some(Forget::All) => file.set_len(0),
            Some(Forget::Slots(slots)) => erase_slots(file, slots, size as u64),
            None => Ok(()),
        };
        let path = files::path(&*self.disk, name);
        erased.map_err(|e| JobFailure::NotDone(ImageError::io("erase a part of", &path)(e)))
    }
}

fn erase_slots(file: &dyn DiskFile, slots: &[u32], size: u64) -> std::io::Result<()> {
    let end = file.len()?.div_ceil(size);
    for run in slots.chunk_by(|a, b| *b == a + 1) {
        let first = u64::from(run[0]);
        let last = (first + run.len() as u64).min(end);
        if last > first {
            file.punch(first * size, (last - first) * size)?;
        }
    }
    Ok(())
}
