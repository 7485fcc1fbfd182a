//! Steps, syncs, checkpoints, and erasing for good.

use super::files;
use super::format::{self, Header, ImageFileKind};
use super::jobs::{Forget, Job, JobFailure, JobReport, Written};
use super::{DiskEvent, Image, ImageError, ImageState, Journal};
use ftl::{Io, StorageError};
use media::{Nanos, Slot};

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

impl Image {
    pub(super) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No write is taken from now on. What was completed is there at the next opening; after a sync that failed, what was
    /// flushed before it.
    pub(super) fn fail(&mut self, what: String) {
        if self.failed.is_none() {
            tracing::error!(
                "the image {} takes no further writes: {what}; the drive answers with errors, and what was \
                 flushed is found when the image is opened again",
                self.disk.path().display()
            );
            self.failed = Some(what);
        }
    }

    /// Whether a write may be accepted at all.
    #[inline]
    pub(crate) fn writable(&mut self) -> Result<(), StorageError> {
        if self.tight {
            self.tight = {
                let mut journal = self.journal();
                journal.reserve(0);
                journal.tight
            };
        }
        if self.failed.is_some() {
            return Err(StorageError::Failed);
        }
        if self.tight {
            self.tell_full();
            return Err(StorageError::Full);
        }
        Ok(())
    }

    /// Says once a minute that writes fail, and why: their host sees nothing but errors.
    #[cold]
    pub(super) fn tell_full(&mut self) {
        const WARNING_INTERVAL: Duration = Duration::from_secs(60);
        if self.told_full.is_none_or(|told| told.elapsed() > WARNING_INTERVAL) {
            self.told_full = Some(Instant::now());
            tracing::warn!(
                "no space is left on this machine for the image {}: writes fail until there is some; nothing that was \
                 completed is lost",
                self.disk.path().display()
            );
        }
    }

    /// The drive has recovered from what was found, and this is its state: from here on the image has a generation of its own.
    /// Its checkpoint is on the host's disk when this returns, so no older journal is needed any more, and none was changed.
    pub(crate) fn opened(&mut self, found: &ImageState, state: &[u8], time: Nanos) -> Result<(), ImageError> {
        let failed = |image: &Image| {
            let what = image.failed.clone().unwrap_or_else(|| "its journal cannot be written".to_owned());
            ImageError::State { path: image.disk.path().to_owned(), reason: what }
        };
        self.commit(time).map_err(|()| failed(self))?;
        // A clean stop left this state as the newest checkpoint.
        let saved = match found.clean {
            true => false,
            false => {
                let (header, body) = self.next_checkpoint(state, time, false)?;
                let result = self.now(Job::checkpoint(header, body, None, self.options.host_sync));
                self.checkpoint_runs = false;
                match result {
                    Ok(()) => true,
                    // The journals say the same, as long as they are there.
                    Err(JobFailure::NotDone(e)) if !found.lost => {
                        tracing::warn!("no checkpoint could be written, the journal grows on: {e}");
                        false
                    }
                    Err(JobFailure::Lost(e) | JobFailure::NotDone(e)) => return Err(e),
                }
            }
        };
        if !saved && self.options.host_sync {
            let mark = self.journal().mark();
            let job = Job::sync(mark, time, Written { many: true, ..Written::default() });
            self.now(job).map_err(|(JobFailure::Lost(e) | JobFailure::NotDone(e))| e)?;
        }
        self.written = Written::default();
        self.slots.all_is_safe();
        Ok(())
    }

    /// Does a job while nothing else goes on.
    fn now(&mut self, job: Job) -> Result<(), JobFailure> {
        let (JobReport::Sync(result) | JobReport::Checkpoint(result) | JobReport::Forget(result)) =
            self.work.carry_out(job);
        if let Err(JobFailure::Lost(e)) = &result {
            self.fail(e.to_string());
        }
        result
    }

    /// Ends a step: its records are in the journal when this returns `Ok`, and completions may be
    /// delivered.
    pub(crate) fn commit(&mut self, time: Nanos) -> Result<(), ()> {
        if let Some(what) = self.slots.broken() {
            let what = format!("its state contradicts itself: {what}");
            self.fail(what);
        }
        if self.frame.len() > format::FRAME_HEAD && self.failed.is_none() {
            self.steps += 1;
            let mut frame = std::mem::take(&mut self.frame);
            let (result, tight, generation) = {
                let mut journal = self.journal();
                let result = journal.append_step(&mut frame, time);
                (result, journal.tight, journal.generation())
            };
            self.tight = tight;
            self.frame = frame;
            if let Err(e) = result {
                let path = files::path(&*self.disk, &files::journal_name(generation));
                self.fail(format!("cannot write {}: {e}", path.display()));
            }
        }
        self.frame.truncate(format::FRAME_HEAD);
        if self.failed.is_some() {
            return Err(());
        }
        self.slots.committed();
        Ok(())
    }

    /// A command waits until everything committed is on the host's disk.
    pub(crate) fn want_sync(&mut self, io: Io) {
        self.flush_habit.flushes(self.is_covered());
        self.waiting.push(io);
    }

    /// Whether the sync that was begun last covers every step. It is under way, or has ended well unless the image has failed.
    fn is_covered(&self) -> bool {
        self.covered == Some(self.steps) && self.frame.len() == format::FRAME_HEAD
    }

    /// Commands that wait for no more than the last sync that was begun.
    fn join_sync(&mut self, news: &mut Vec<DiskEvent>) {
        if self.failed.is_none() && self.is_covered() {
            match self.sync_runs {
                true => self.sync_ios.append(&mut self.waiting),
                false => news.extend(self.waiting.drain(..).map(|io| DiskEvent::Synced(io, true))),
            }
        }
    }

    /// The commands that waited for a sync are no more: power was lost.
    pub fn forget_waiters(&mut self) {
        self.waiting.clear();
        self.sync_ios.clear();
        self.forgetting.waiting.clear();
        self.forgetting.ios.clear();
        self.forgetting.all = false;
        self.missed_reads.forget();
    }

    /// Starts what is due (a sync, also when free slots run low) and tells what has ended.
    pub(crate) fn tend(&mut self, time: Nanos, news: &mut Vec<DiskEvent>) {
        while let Some(report) = self.helper.report() {
            self.take(report, news);
        }
        if self.failed.is_some() {
            self.refuse_to_forget(news);
        }
        self.join_sync(news);
        let parked = self.slots.parked();
        let low = parked > self.margin / 2 || (parked > 0 && self.slots.available() < self.margin / 4);
        let asked = low || !self.waiting.is_empty();
        let ahead = !asked && self.flush_habit.expects_flush();
        if !self.sync_runs && (asked || ahead) {
            if self.failed.is_some() || !self.options.host_sync {
                let ok = self.failed.is_none();
                news.extend(self.waiting.drain(..).map(|io| DiskEvent::Synced(io, ok)));
                return;
            }
            if ahead {
                self.flush_habit.begins();
            }
            self.sync_runs = true;
            self.covered = Some(self.steps);
            std::mem::swap(&mut self.sync_ios, &mut self.waiting);
            self.slots.sync_begins();
            let mark = self.journal().mark();
            let mut written = std::mem::take(&mut self.written);
            // Slots without references are in no state that this sync makes durable.
            written.pages.retain(|&slot| !self.slots.is_unreferenced(slot));
            let (slots, marked) = (&self.slots, &mut self.marked);
            written.beside.retain(|&slot| {
                let unreferenced = slots.is_unreferenced(slot);
                if unreferenced && let Some(mark) = marked.get_mut(slot as usize) {
                    // Recovery may put back there what an earlier sync carries.
                    *mark = true;
                }
                !unreferenced
            });
            self.helper.ask(Job::sync(mark, time, written));
        }
    }

    fn take(&mut self, report: JobReport, news: &mut Vec<DiskEvent>) {
        match report {
            JobReport::Sync(result) => {
                self.sync_runs = false;
                let ok = result.is_ok();
                match result {
                    Ok(()) => {
                        if self.slots.sync_ended() {
                            news.push(DiskEvent::SlotsFree);
                        }
                    }
                    Err(JobFailure::Lost(e) | JobFailure::NotDone(e)) => self.fail(e.to_string()),
                }
                news.extend(self.sync_ios.drain(..).map(|io| DiskEvent::Synced(io, ok)));
            }
            JobReport::Forget(result) => self.forgotten(result, news),
            JobReport::Checkpoint(result) => {
                self.checkpoint_runs = false;
                match result {
                    Ok(()) => {}
                    Err(JobFailure::Lost(e)) => self.fail(e.to_string()),
                    Err(JobFailure::NotDone(e)) => {
                        tracing::warn!("no checkpoint could be written, the journal grows on: {e}");
                    }
                }
            }
        }
    }

    /// Whether the journal has grown so long that the state should be written anew.
    pub fn checkpoint_is_due(&self) -> bool {
        !self.checkpoint_runs
            && self.failed.is_none()
            && self.journal().bytes() > self.options.checkpoint_bytes.max(self.state_bytes)
    }

    /// Writes the drive's state as it is after the last committed step.
    pub fn checkpoint(&mut self, state: &[u8], time: Nanos, clean: bool) -> Result<(), ImageError> {
        let (header, body) = self.next_checkpoint(state, time, clean)?;
        self.helper.ask(Job::checkpoint(header, body, None, self.options.host_sync));
        Ok(())
    }

    /// Begins the next generation with a journal of its own; the checkpoint that belongs to it.
    fn next_checkpoint(
        &mut self,
        state: &[u8],
        time: Nanos,
        clean: bool,
    ) -> Result<(Header, Vec<u8>), ImageError> {
        if let Some(what) = &self.failed {
            return Err(ImageError::State { path: self.disk.path().to_owned(), reason: what.clone() });
        }
        let (image, generation) = {
            let mut journal = self.journal();
            journal.switch(time)?;
            (journal.image(), journal.generation())
        };
        let body = files::body(state, &self.sums.kept(|slot| !self.slots.is_unreferenced(slot)));
        self.state_bytes = body.len() as u64;
        self.checkpoint_runs = true;
        let header = Header {
            kind: ImageFileKind::Checkpoint,
            version: format::VERSION,
            image,
            generation,
            boot: self.disk.boot(),
            time,
            body: body.len() as u64,
            body_crc: format::crc(&body),
            clean,
        };
        Ok((header, body))
    }

    /// The contents of a slot are to go with the next forgetting, though a program under way refers to it.
    pub(crate) fn outdate(&mut self, slot: Slot) {
        if slot.0 < self.slots.count() {
            self.slots.retain(slot);
            self.forgetting.stale.push(slot);
        }
    }

    /// A command waits until everything before is forgotten: older states, and the contents that no page refers to.
    pub(crate) fn want_forget(&mut self, io: Io, all: bool) {
        self.forgetting.waiting.push(io);
        self.forgetting.all |= all;
    }

    /// Whether [`forget`](Image::forget) is to be called with the drive's state, after a commit. What a slot holds can be erased when
    /// nothing refers to it any more: first programs of pages that are gone must end, and reads of them.
    pub fn forget_is_due(&mut self) -> bool {
        if self.forgetting.waiting.is_empty() || self.sync_runs || self.checkpoint_runs {
            return false;
        }
        let scrubbed = self.scrub.iter().flat_map(|scrub| scrub.slots());
        let mut read: Vec<Slot> = self.missed_reads.slots().chain(scrubbed).collect();
        if self.any_slot(&mut read, |references, reads| references == reads) {
            return false;
        }
        let mut stale = std::mem::take(&mut self.forgetting.stale);
        if self.any_slot(&mut stale, |references, marks| references > marks) {
            self.forgetting.stale = stale;
            return false;
        }
        stale.into_iter().for_each(|slot| self.release(slot));
        true
    }

    /// Whether `test` holds for any of these slots: with all references to it, and how often it is listed.
    fn any_slot(&self, slots: &mut [Slot], test: impl Fn(usize, usize) -> bool) -> bool {
        slots.sort_unstable_by_key(|slot| slot.0);
        let references = |slot: Slot| usize::from(self.slots.references(slot.0));
        slots.chunk_by(|a, b| a == b).any(|same| test(references(same[0]), same.len()))
    }

    /// Begins to forget everything before the drive's state, which is that after the last committed step.
    pub fn forget(&mut self, state: &[u8], time: Nanos, news: &mut Vec<DiskEvent>) {
        let (header, body) = match self.next_checkpoint(state, time, false) {
            Ok(checkpoint) => checkpoint,
            Err(e) => {
                tracing::warn!("what was erased is still in older files: {e}");
                return self.refuse_to_forget(news);
            }
        };
        self.forgetting.ios = std::mem::take(&mut self.forgetting.waiting);
        let erasing = self.slots.erase();
        let forget = match std::mem::take(&mut self.forgetting.all) {
            true => Forget::All,
            false => {
                let mut slots = erasing.to_vec();
                slots.sort_unstable();
                Forget::Slots(slots)
            }
        };
        self.helper.ask(Job::checkpoint(header, body, Some(forget), true));
    }

    /// It is over.
    fn forgotten(&mut self, result: Result<(), JobFailure>, news: &mut Vec<DiskEvent>) {
        self.checkpoint_runs = false;
        let ok = result.is_ok();
        self.slots.erased(ok);
        match result {
            Ok(()) => {}
            Err(JobFailure::Lost(e)) => self.fail(e.to_string()),
            Err(JobFailure::NotDone(e)) => {
                tracing::warn!(
                    "what was erased may still be in the image {}: {e}",
                    self.disk.path().display()
                );
            }
        }
        news.push(DiskEvent::SlotsFree);
        news.extend(self.forgetting.ios.drain(..).map(|io| DiskEvent::Synced(io, ok)));
    }

    /// Those who wait for it, when it cannot be.
    fn refuse_to_forget(&mut self, news: &mut Vec<DiskEvent>) {
        self.forgetting.all = false;
        news.extend(self.forgetting.waiting.drain(..).map(|io| DiskEvent::Synced(io, false)));
    }

    /// Nothing more is written.
    pub fn close(&mut self) {
        self.journal().close();
    }

    /// Waits for what is under way on the host's disk.
    pub fn settle(&mut self, news: &mut Vec<DiskEvent>) {
        while self.sync_runs || self.checkpoint_runs {
            match self.helper.wait() {
                Some(report) => self.take(report, news),
                None => return self.fail("the thread that writes the image has ended".to_owned()),
            }
        }
    }
}

/// What a caller does that goes on a step at a time ([`BackgroundWork::Stepped`](super::BackgroundWork::Stepped)).
impl Image {
    /// Does a step of what goes on beside the drive; whether there is more of it.
    pub fn step_aside(&self) -> bool {
        self.helper.step()
    }

    /// One of the reads that wait for the host's disk ends, whichever `choice` says.
    pub fn end_missed_read(&mut self, choice: u64) {
        self.missed_reads.step(choice);
    }
}

#[cfg(any(test, feature = "testing"))]
impl Image {
    /// What is wrong with the count of references to slots; `None` if nothing is.
    pub fn broken_slots(&self) -> Option<&str> {
        self.slots.broken()
    }

    /// Whether the image takes no further writes, because a sync has failed.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }
}
