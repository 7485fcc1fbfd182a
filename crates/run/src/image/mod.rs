//! A drive that outlives the process: a directory with its configuration, the contents of its pages,
//! checkpoints of its state and journals of what changed since. `docs/image-format.md` draws the files.
//!
//! # What is promised, and how
//!
//! - *The process dies at any instant*: every completed command is there. The records of a step are one
//!   frame of the journal, with a checksum, written after the contents and before any completion of the
//!   step is delivered; a frame counts whole or not at all.
//! - *The host goes down*: everything is there that was completed before the last successful Flush, and
//!   every write with FUA. A sync waits for the contents, then writes a marker that names the place in
//!   the journal up to which they are safe, then waits for the journal. Replay stops at the last marker's
//!   place if the host was booted since, because later contents may be missing. `--no-host-sync` gives
//!   this up.
//! - A slot that was freed is not written again before the record that freed it is safe in the same sense:
//!   otherwise a replay that stops earlier would find new bytes under an old page.
//! - *The host's disk is full*: room for the journal is set aside beforehand; when neither that nor a slot
//!   can be had, the command fails and nothing else.
//! - *A write or sync of the host's disk fails*: the image takes no further writes (what the kernel holds
//!   is unknown from then on) and says so; what was promised before is found at the next opening.
//!
//! # Limits
//!
//! The thread that steps the drive copies the state for a checkpoint, some 10 ms for a GiB of drive; writing it is
//! another thread's work. Contents are read and written through the host's page cache by the thread that steps the drive. A
//! read that misses it is waited for elsewhere; only the rest of a page that is written in part, Compare, Copy, and reads of
//! namespaces whose blocks are more than plain bytes (metadata, marks, keys) hold the drive
//! for as long as the host's disk takes. Slots of trimmed and
//! overwritten pages are reused, and punched out of the file only when something is to be erased for good: it grows up to
//! the raw size of the drive.

mod cold;
mod error;
mod files;
mod forget;
pub(crate) mod format;
mod helper;
#[cfg(test)]
mod host_crash;
mod recovery;
#[cfg(test)]
mod tests;

pub use error::ImageError;
pub use format::{FormatError, fuzz_open};
pub(crate) use recovery::Found;

use crate::memory::SLOT;
use crate::slots::Slots;
use cold::Cold;
use device::SPARE;
use files::Journal;
use format::{FrameKind, Header, Kind};
use ftl::{Io, Record};
use helper::{Helper, Job, Report};
use media::{Nanos, Slot};
use nvme::Completion;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Slots beyond the drive's pages and buffer, in parts of those: what may wait for a sync.
const MARGIN_SHARE: u32 = 16;
const MARGIN_LEAST: u32 = 4096;

/// How an image is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImageOptions {
    /// Whether Flush and FUA wait for the host's disk.
    pub host_sync: bool,
    /// A checkpoint replaces a journal that has grown to this, and to the size of the checkpoint before.
    pub checkpoint_bytes: u64,
}

impl Default for ImageOptions {
    fn default() -> Self {
        ImageOptions { host_sync: true, checkpoint_bytes: 64 << 20 }
    }
}

/// An image directory that this process has locked.
pub(crate) struct Locked {
    dir: PathBuf,
    lock: File,
}

/// Whether there is an image in a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// The directory is empty or does not exist.
    Nothing,
    /// There is one.
    Image,
}

/// Looks whether `dir` holds an image.
///
/// # Errors
/// If it holds something else, or an image whose creation was interrupted.
pub fn presence(dir: &Path) -> Result<Presence, ImageError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Presence::Nothing),
        Err(e) => return Err(ImageError::io("list", dir)(e)),
    };
    let names: Vec<_> = entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
    let ours = |name: &str| {
        matches!(name, "drive.toml" | "contents" | "spares" | "lock")
            || name.contains("checkpoint.")
            || name.contains("journal.")
    };
    match names.iter().any(|n| n.starts_with("checkpoint.") && n != "checkpoint.new") {
        true => Ok(Presence::Image),
        false if names.is_empty() || names == ["lock"] => Ok(Presence::Nothing),
        false if names.iter().all(|n| ours(n)) => Err(ImageError::Unfinished { path: dir.to_owned() }),
        false => Err(ImageError::Foreign { path: dir.to_owned() }),
    }
}

impl Locked {
    /// Locks the directory of an image that exists.
    pub(crate) fn existing(dir: &Path) -> Result<Self, ImageError> {
        match presence(dir)? {
            Presence::Nothing => Err(ImageError::Missing { path: dir.to_owned() }),
            Presence::Image => Ok(Locked { dir: dir.to_owned(), lock: files::lock(dir)? }),
        }
    }

    /// Makes and locks the directory of a new image.
    pub(crate) fn fresh(dir: &Path) -> Result<Self, ImageError> {
        match presence(dir)? {
            Presence::Image => return Err(ImageError::Foreign { path: dir.to_owned() }),
            Presence::Nothing => std::fs::create_dir_all(dir).map_err(ImageError::io("create", dir))?,
        }
        Ok(Locked { dir: dir.to_owned(), lock: files::lock(dir)? })
    }

    /// The configuration that the image was created with.
    pub(crate) fn config(&self) -> Result<String, ImageError> {
        let path = self.dir.join(files::CONFIG);
        std::fs::read_to_string(&path).map_err(ImageError::io("read", &path))
    }

    /// Reads the newest state.
    pub(crate) fn find(&self) -> Result<Found, ImageError> {
        Found::read(&self.dir, files::boot())
    }

    /// Fills the directory of a new image: afterwards it can be opened.
    pub(crate) fn create(&self, config: &str, state: &[u8], time: Nanos) -> Result<(), ImageError> {
        let path = self.dir.join(files::CONFIG);
        std::fs::write(&path, config).map_err(ImageError::io("write", &path))?;
        for name in [files::CONTENTS, files::SPARES] {
            let path = self.dir.join(name);
            File::create(&path).map_err(ImageError::io("create", &path))?;
        }
        let header = Header {
            kind: Kind::Checkpoint,
            image: files::random(),
            generation: 1,
            boot: files::boot(),
            time,
            body: state.len() as u64,
            body_crc: format::crc(state),
            clean: true,
        };
        // The checkpoint comes last: without it there is no image.
        Journal::create(&self.dir, header.image, 1, time)?;
        files::write_checkpoint(&self.dir, &header, state, true)
    }

    /// Takes the image into use: from here on its files change.
    ///
    /// `pages` is the number of slots that the drive's pages and buffer can refer to at once.
    pub(crate) fn start(
        self,
        found: &Found,
        pages: u32,
        options: ImageOptions,
        notify: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Image, ImageError> {
        let Locked { dir, lock } = self;
        let path = dir.join(files::CONTENTS);
        let contents =
            OpenOptions::new().read(true).write(true).open(&path).map_err(ImageError::io("open", &path))?;
        // Images of format version 1 have none.
        let path = dir.join(files::SPARES);
        let spares = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let spares = spares.map_err(ImageError::io("open", &path))?;
        let generation = found.settle()?;
        let journal = Journal::create(&dir, found.image, generation, found.time)?;
        let journal = Arc::new(Mutex::new(journal));
        let copies = [&contents, &spares].map(File::try_clone);
        let [copy, spares_copy] = copies;
        let copies = [
            copy.map_err(ImageError::io("open", &dir))?,
            spares_copy.map_err(ImageError::io("open", &path))?,
        ];
        let cold = Cold::start(&contents, &notify, &dir)?;
        let helper = Helper::start(dir.clone(), copies, journal.clone(), options.host_sync, notify)?;
        let mut frame = Vec::with_capacity(1 << 16);
        format::begin_frame(&mut frame);
        let margin = (pages / MARGIN_SHARE).max(MARGIN_LEAST);
        Ok(Image {
            dir,
            _lock: lock,
            contents,
            spares,
            cold,
            waits: true,
            slots: Slots::new(pages.saturating_add(margin)),
            margin,
            journal,
            helper,
            options,
            frame,
            tight: false,
            told_full: None,
            released: Vec::new(),
            parked: Vec::new(),
            syncing: Vec::new(),
            waiting: Vec::new(),
            sync_ios: Vec::new(),
            sync_runs: false,
            checkpoint_runs: false,
            forgetting: forget::Forgetting::default(),
            state_bytes: found.state.len() as u64,
            failed: None,
        })
    }
}

/// An image in use: contents, slots and journal.
pub(crate) struct Image {
    dir: PathBuf,
    _lock: File,
    contents: File,
    /// What slots hold beside their pages.
    spares: File,
    cold: Cold,
    /// The host's file system can say that a read would wait.
    waits: bool,
    slots: Slots,
    margin: u32,
    journal: Arc<Mutex<Journal>>,
    helper: Helper,
    options: ImageOptions,
    /// The frame of the step that runs: its head, and records so far.
    frame: Vec<u8>,
    /// No room for the journal is left on the host's disk.
    tight: bool,
    /// When the user was last told that the host's disk is full.
    told_full: Option<Instant>,
    /// Slots freed by the step that runs.
    released: Vec<u32>,
    /// Slots freed by earlier steps, to be covered by the next sync.
    parked: Vec<u32>,
    /// Slots that the sync in progress covers.
    syncing: Vec<u32>,
    /// Commands that wait for the next sync.
    waiting: Vec<Io>,
    /// Commands that wait for the sync in progress.
    sync_ios: Vec<Io>,
    sync_runs: bool,
    checkpoint_runs: bool,
    forgetting: forget::Forgetting,
    state_bytes: u64,
    failed: Option<String>,
}

/// What happened to an image since it was last asked.
pub(crate) enum News {
    /// A sync ended for this command.
    Synced(Io, bool),
    /// Slots became free: a write that found none may be tried again.
    SlotsFree,
    /// All that a command reads is there, and how it ended.
    Loaded(Io, Completion),
}

impl Image {
    #[cfg(test)]
    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&mut self, what: String) {
        if self.failed.is_none() {
            tracing::error!(
                "the image {} takes no further writes: {what}; the drive answers with errors, and what was \
                 completed so far is found when the image is opened again",
                self.dir.display()
            );
            self.failed = Some(what);
        }
    }

    #[inline]
    pub(crate) fn allocate(&mut self) -> Option<Slot> {
        self.slots.take()
    }

    /// The free slots of an image whose state is all on the disk can be used at once.
    pub(crate) fn all_is_synced(&mut self) {
        let mut free = std::mem::take(&mut self.parked);
        self.slots.give_all(&mut free);
    }

    pub(crate) fn retain(&mut self, slot: Slot) {
        self.slots.retain(slot);
    }

    #[inline]
    pub(crate) fn release(&mut self, slot: Slot) {
        if self.slots.release(slot) {
            self.released.push(slot.0);
        }
    }

    /// Recovery begins: it counts all references anew.
    pub(crate) fn forget_slots(&mut self) {
        self.cold.forget();
        self.slots.forget();
        // Whatever these lists hold is among the slots that recovery finds unreferenced.
        self.released.clear();
        self.parked.clear();
        self.syncing.clear();
    }

    /// Recovery has counted all references. An older state may still need the slots without one, so they wait as if this
    /// step had freed them. Those that a Forget keeps back come when it ends.
    pub(crate) fn slots_are_counted(&mut self) {
        let mut free = self.slots.unreferenced();
        self.forgetting.keep_back(&mut free);
        self.released = free;
    }

    /// Whether a write may be accepted at all.
    #[inline]
    pub(crate) fn writable(&mut self) -> bool {
        if self.tight {
            self.tight = {
                let mut journal = self.journal();
                journal.reserve();
                journal.tight
            };
        }
        if self.tight {
            self.tell_full();
        }
        !self.tight && self.failed.is_none()
    }

    /// Says once a minute that writes fail, and why: their host sees nothing but errors.
    #[cold]
    fn tell_full(&mut self) {
        const AGAIN: Duration = Duration::from_secs(60);
        if self.told_full.is_none_or(|told| told.elapsed() > AGAIN) {
            self.told_full = Some(Instant::now());
            tracing::warn!(
                "no space is left on this machine for the image {}: writes fail until there is some; nothing that was \
                 completed is lost",
                self.dir.display()
            );
        }
    }

    /// Reads a part of a slot, and waits for the host's disk if it must.
    pub(crate) fn read(&self, slot: Slot, page: u32, bytes: &mut [u8]) -> Result<(), ()> {
        let at = u64::from(slot.0) * SLOT as u64 + u64::from(page);
        cold::read(&self.contents, at, bytes).map_err(|e| {
            tracing::error!("cannot read {} at byte {at}: {e}", self.dir.join(files::CONTENTS).display());
        })
    }

    /// Reads what a slot holds beside its page.
    pub(crate) fn read_spare(&self, slot: Slot, bytes: &mut [u8; SPARE]) -> Result<(), ()> {
        let at = u64::from(slot.0) * SPARE as u64;
        cold::read(&self.spares, at, bytes).map_err(|e| {
            tracing::error!("cannot read {} at byte {at}: {e}", self.dir.join(files::SPARES).display());
        })
    }

    /// Reads a part of a slot for a command: now if the host has it in memory, otherwise when its disk has given it.
    pub(crate) fn load(
        &mut self,
        io: Io,
        host: Range<usize>,
        slot: Slot,
        page: u32,
        bytes: &mut [u8],
    ) -> Result<(), ()> {
        if !self.waits {
            return self.read(slot, page, bytes);
        }
        let at = u64::from(slot.0) * SLOT as u64 + u64::from(page);
        match preadv2(&self.contents, &mut [IoSliceMut::new(bytes)], at, ReadWriteFlags::NOWAIT) {
            Ok(read) if read == bytes.len() => Ok(()),
            // A part of it, or the end of the file: both are rare.
            Ok(_) | Err(Errno::AGAIN) => {
                self.slots.retain(slot);
                self.cold.begin(io, host, slot, page);
                Ok(())
            }
            Err(_) => {
                self.waits = false;
                self.read(slot, page, bytes)
            }
        }
    }

    /// Reads that were not over when they were begun.
    pub(crate) fn cold(&mut self) -> &mut Cold {
        &mut self.cold
    }

    pub(crate) fn write(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), ()> {
        let at = u64::from(slot.0) * SLOT as u64;
        self.contents.write_all_at(bytes, at).map_err(|e| self.not_written(files::CONTENTS, at, &e))
    }

    /// Writes what a slot holds beside its page.
    pub(crate) fn write_spare(&mut self, slot: Slot, bytes: &[u8; SPARE]) -> Result<(), ()> {
        let at = u64::from(slot.0) * SPARE as u64;
        self.spares.write_all_at(bytes, at).map_err(|e| self.not_written(files::SPARES, at, &e))
    }

    #[cold]
    fn not_written(&mut self, name: &str, at: u64, e: &std::io::Error) {
        let full =
            matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge);
        match full {
            true => self.tell_full(),
            false => self.fail(format!("cannot write {} at byte {at}: {e}", self.dir.join(name).display())),
        }
    }

    #[inline]
    pub(crate) fn record(&mut self, record: &Record<'_>) {
        format::encode(record, &mut self.frame);
    }

    /// Ends a step: its records are in the journal when this returns `Ok`, and completions may be
    /// delivered.
    pub(crate) fn commit(&mut self, time: Nanos) -> Result<(), ()> {
        if self.frame.len() > format::FRAME_HEAD && self.failed.is_none() {
            let mut frame = std::mem::take(&mut self.frame);
            let (result, tight, generation) = {
                let mut journal = self.journal();
                let result = journal.append(&mut frame, FrameKind::Step, time);
                (result, journal.tight, journal.generation())
            };
            self.tight = tight;
            self.frame = frame;
            if let Err(e) = result {
                let path = files::journal_path(&self.dir, generation);
                self.fail(format!("cannot write {}: {e}", path.display()));
            }
        }
        self.frame.truncate(format::FRAME_HEAD);
        if self.failed.is_some() {
            self.released.clear();
            return Err(());
        }
        match self.options.host_sync {
            true => self.parked.append(&mut self.released),
            false => {
                let mut released = std::mem::take(&mut self.released);
                self.slots.give_all(&mut released);
                self.released = released;
            }
        }
        Ok(())
    }

    /// A command waits until everything committed is on the host's disk.
    pub(crate) fn want_sync(&mut self, io: Io) {
        self.waiting.push(io);
    }

    /// The commands that waited for a sync are no more: power was lost.
    pub(crate) fn forget_waiters(&mut self) {
        self.waiting.clear();
        self.sync_ios.clear();
        self.forgetting.abandon();
        self.cold.forget();
    }

    /// Starts what is due (a sync, also when free slots run low) and tells what has ended.
    pub(crate) fn tend(&mut self, time: Nanos, news: &mut Vec<News>) {
        while let Some(report) = self.helper.report() {
            self.take(report, news);
        }
        if self.failed.is_some() {
            self.forgetting.refuse(news);
        }
        let low = self.parked.len() as u32 > self.margin / 2
            || (!self.parked.is_empty() && self.slots.available() < self.margin / 4);
        if !self.sync_runs && (low || !self.waiting.is_empty()) {
            if self.failed.is_some() || !self.options.host_sync {
                let ok = self.failed.is_none();
                news.extend(self.waiting.drain(..).map(|io| News::Synced(io, ok)));
                return;
            }
            self.sync_runs = true;
            std::mem::swap(&mut self.sync_ios, &mut self.waiting);
            std::mem::swap(&mut self.syncing, &mut self.parked);
            let mark = self.journal().mark();
            self.helper.ask(Job::Sync { mark, time });
        }
    }

    fn take(&mut self, report: Report, news: &mut Vec<News>) {
        match report {
            Report::Sync(result) => {
                self.sync_runs = false;
                let ok = result.is_ok();
                match result {
                    Ok(()) => {
                        if !self.syncing.is_empty() {
                            let mut free = std::mem::take(&mut self.syncing);
                            self.slots.give_all(&mut free);
                            self.syncing = free;
                            news.push(News::SlotsFree);
                        }
                    }
                    Err(e) => self.fail(e.to_string()),
                }
                news.extend(self.sync_ios.drain(..).map(|io| News::Synced(io, ok)));
            }
            Report::Forget(result) => self.forgotten(result, news),
            Report::Checkpoint(result) => {
                self.checkpoint_runs = false;
                match result {
                    Ok(()) => {}
                    Err(e) => tracing::warn!("no checkpoint could be written, the journal grows on: {e}"),
                }
            }
        }
    }

    /// Whether the journal has grown so long that the state should be written anew.
    pub(crate) fn checkpoint_is_due(&self) -> bool {
        !self.checkpoint_runs
            && self.failed.is_none()
            && self.journal().bytes() > self.options.checkpoint_bytes.max(self.state_bytes)
    }

    /// Writes the drive's state as it is after the last committed step.
    pub(crate) fn checkpoint(&mut self, state: Vec<u8>, time: Nanos, clean: bool) -> Result<(), ImageError> {
        let header = self.next_checkpoint(&state, time, clean)?;
        self.helper.ask(Job::Checkpoint { header, body: state });
        Ok(())
    }

    /// Begins the next generation with a journal of its own; the header of the checkpoint that belongs to it.
    fn next_checkpoint(&mut self, state: &[u8], time: Nanos, clean: bool) -> Result<Header, ImageError> {
        let (image, generation) = {
            let mut journal = self.journal();
            journal.switch(time)?;
            (journal.image(), journal.generation())
        };
        self.state_bytes = state.len() as u64;
        self.checkpoint_runs = true;
        Ok(Header {
            kind: Kind::Checkpoint,
            image,
            generation,
            boot: files::boot(),
            time,
            body: state.len() as u64,
            body_crc: format::crc(state),
            clean,
        })
    }

    /// Waits for what is under way on the host's disk.
    pub(crate) fn settle(&mut self, news: &mut Vec<News>) {
        while self.sync_runs || self.checkpoint_runs {
            match self.helper.wait() {
                Some(report) => self.take(report, news),
                None => return self.fail("the thread that writes the image has ended".to_owned()),
            }
        }
    }
}
