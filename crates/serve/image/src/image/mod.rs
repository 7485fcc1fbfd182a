//! A drive that outlives the process: a directory with its configuration, the contents of its pages,
//! checkpoints of its state and journals of what changed since. `docs/image-format.md` draws the files, `docs/promises.md` says
//! what is there after what.
//!
//! # How it is kept
//!
//! - A step of the drive is one frame of the journal, with a checksum. It is written after the contents and before any
//!   completion of the step is delivered, and counts whole or not at all ([`sync`]).
//! - A Flush writes a sync frame, which says how far journal and contents are safe when it is, and waits for the journal.
//!   Pages that were written since the last Flush are in that frame, if they are few ([`jobs`]). The sync may begin before the
//!   Flush arrives ([`habit`]).
//! - A slot belongs to one page at a time. It is free again when what freed it is safe ([`crate::slots`]).
//! - An opening changes no journal. It ends with a checkpoint of a generation of its own ([`recovery`]).
//! - Every page has a checksum, which every read checks ([`sums`]), and a thread that goes over all pages ([`scrub`]).
//! - To look at an image changes nothing: what an opening writes stays in memory ([`overlay`], [`findings`]).
//! - When the host's disk is full, the command fails and nothing else. Room for the journal is set aside beforehand.
//! - When a sync fails, the image takes no further writes, and what was not synced does not count any more.
//!
//! Everything goes through a [`disk::Disk`]. The real one is a directory; a test has a simulated one, and the work beside
//! the drive goes on a step at a time.
//!
//! # Limits
//!
//! The thread that steps the drive copies the state for a checkpoint, some 10 ms for a GiB of drive. Another thread writes it.
//! The thread that steps the drive also reads and writes contents, through the host's page cache. Another thread waits for a
//! read that misses it. Some operations hold the drive for as long as the host's disk takes: the rest of a page that is written in part,
//! Compare, Copy, and reads of namespaces whose blocks are more than plain bytes (metadata, marks, keys).
//!
//! Slots of trimmed and overwritten pages are reused. They are punched out of the file only when something must be erased for good. So
//! the file grows to what was ever in use at once.

mod contents;
pub(crate) mod disk;
mod error;
pub mod files;
mod findings;
mod flush_habit;
pub mod format;
mod helper;
mod jobs;
mod journal;
mod missed_reads;
mod overlay;
mod recovery;
mod replay;
mod scrub;
mod scrubbing;
pub(crate) mod sums;
mod sync;
#[cfg(test)]
mod tests;

pub(crate) use contents::Unreadable;
pub use disk::random;
pub use error::ImageError;
pub use findings::{DamagedFile, Findings, LastShutdown, Missing, generation_of};
pub(crate) use findings::{Salvaged, salvage};
pub use format::{FormatError, fuzz_open};
pub(crate) use recovery::ImageState;
pub use scrub::ScrubOptions;
#[cfg(any(test, feature = "testing"))]
pub use scrubbing::SteppedScrub;

use crate::memory::SLOT;
use crate::slots::{Reuse, Slots};
use crate::trust::TrustError;
use device::SPARE_BYTES;
use disk::{Disk, DiskFile, HostDisk, ImageLock, Open};
use files::{CONFIG, CONTENTS, SPARES, open};
use flush_habit::FlushHabit;
use format::{Entry, Header, ImageFileKind};
use ftl::Io;
use helper::Helper;
use jobs::{JobFiles, Written};
use journal::Journal;
use media::{Nanos, Slot};
use missed_reads::MissedReads;
use nvme::Completion;
use scrub::Scrub;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use sums::Sums;

/// Slots beyond the drive's pages and buffer, in parts of those: what may wait for a sync.
const MARGIN_SHARE: u32 = 16;

/// How an image is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImageOptions {
    /// Whether Flush and FUA wait for the host's disk.
    pub host_sync: bool,
    /// A checkpoint replaces a journal that has grown to this, and to the size of the checkpoint before.
    pub checkpoint_bytes: u64,
    /// At least so many slots are there beyond the drive's pages and buffer, for what may wait for a sync.
    pub margin_slots: u32,
}

impl Default for ImageOptions {
    fn default() -> Self {
        ImageOptions { host_sync: true, checkpoint_bytes: 64 << 20, margin_slots: 4096 }
    }
}

/// What is said of an image that another directory holds, too.
const COPY_WARNING: &str = "this image was copied since it was last open: the drive has the NQN, the serial number and the identifiers of \
                      namespaces (NGUID, UUID) of the original. A host that sees both takes them for one drive. \
                      `tranche image renew` gives a copy its own";
/// A configuration that is being written.
const NEW_CONFIG: &str = "drive.new";

/// An image directory that this process has locked.
pub struct Locked {
    disk: Arc<dyn Disk>,
    lock: Option<ImageLock>,
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
/// If it holds something else, or an image whose creation was interrupted, or other users can change it.
pub fn presence(dir: &Path) -> Result<Presence, ImageError> {
    let names = match HostDisk::open_dir(dir) {
        Err(TrustError::Missing(_)) => return Ok(Presence::Nothing),
        disk => disk?.names().map_err(ImageError::io("list", dir))?,
    };
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

/// Whether no other process uses the image in `dir`, if there is one.
///
/// # Errors
/// Another process uses it; or other users can change the directory.
pub fn check_unused(dir: &Path) -> Result<(), ImageError> {
    match HostDisk::open_dir(dir) {
        Err(TrustError::Missing(_)) => Ok(()),
        disk => disk?.lock_to_look().map(drop),
    }
}

/// The configuration, as TOML, that an image was created with.
///
/// # Errors
/// If there is none that can be read, or other users can change it.
pub fn config(dir: &Path) -> Result<String, ImageError> {
    config_of(&HostDisk::open_dir(dir)?)
}

fn config_of(disk: &dyn Disk) -> Result<String, ImageError> {
    let path = files::path(disk, CONFIG);
    let text = disk.read(CONFIG).map_err(ImageError::io("read", &path))?;
    let wrong = |e| io::Error::new(io::ErrorKind::InvalidData, e);
    String::from_utf8(text).map_err(wrong).map_err(ImageError::io("read", &path))
}

/// Who does the work that an image does not wait for.
pub enum BackgroundWork {
    /// Threads, which call this when there is something to be told.
    Threads(Arc<dyn Fn() + Send + Sync>),
    /// The caller, a step at a time ([`Image::step_aside`]).
    Stepped,
}

impl BackgroundWork {
    /// Threads whose news the caller does not wait for.
    pub fn unheard() -> Self {
        BackgroundWork::Threads(Arc::new(|| ()))
    }
}

impl Locked {
    /// Locks the directory of an image that exists.
    pub fn existing(dir: &Path) -> Result<Self, ImageError> {
        match presence(dir)? {
            Presence::Nothing => Err(ImageError::Missing { path: dir.to_owned() }),
            Presence::Image => Locked::lock(HostDisk::open_dir(dir)?),
        }
    }

    /// Makes and locks the directory of a new image.
    pub fn fresh(dir: &Path) -> Result<Self, ImageError> {
        match presence(dir)? {
            Presence::Image => Err(ImageError::Foreign { path: dir.to_owned() }),
            Presence::Nothing => Locked::lock(HostDisk::make(dir)?),
        }
    }

    fn lock(disk: HostDisk) -> Result<Self, ImageError> {
        let lock = Some(disk.lock()?);
        if disk.is_open_to_others() {
            let dir = disk.path().display();
            tracing::warn!("others on this machine can read the image {dir}: chmod -R go= {dir}");
        }
        Ok(Locked { disk: Arc::new(disk), lock })
    }

    /// On a disk that nothing is written to.
    fn looking(disk: Arc<overlay::Overlay>) -> Self {
        Locked { disk, lock: None }
    }

    /// On a disk of its own.
    #[cfg(any(test, feature = "testing"))]
    pub fn alone(disk: Arc<dyn Disk>) -> Self {
        Locked { disk, lock: None }
    }

    /// Where it is, for messages.
    pub(crate) fn path(&self) -> &Path {
        self.disk.path()
    }

    /// The configuration that the image was created with.
    pub fn config(&self) -> Result<String, ImageError> {
        config_of(&*self.disk)
    }

    /// Reads the newest state.
    pub(crate) fn find(&self) -> Result<ImageState, ImageError> {
        let mut found = ImageState::read(&*self.disk)?;
        if self.lock.as_ref().is_some_and(|lock| lock.is_copy) {
            found.notes.push(COPY_WARNING.to_owned());
        }
        Ok(found)
    }

    /// Changes the configuration that the image was created with. After a crash it is the one or the other.
    pub fn set_config(&self, config: &str) -> Result<(), ImageError> {
        let failed = |e| ImageError::io("write", &files::path(&*self.disk, CONFIG))(e);
        disk::write_all(&*self.disk, NEW_CONFIG, &[config.as_bytes()], true).map_err(failed)?;
        self.disk.rename(NEW_CONFIG, CONFIG).map_err(failed)?;
        files::sync_names(&*self.disk)
    }

    /// Fills the directory of a new image: afterwards it can be opened.
    pub fn create(&self, config: &str, state: &[u8], time: Nanos) -> Result<(), ImageError> {
        let disk = &self.disk;
        for (name, bytes) in [(CONFIG, config.as_bytes()), (CONTENTS, &[]), (SPARES, &[])] {
            disk::write_all(&**disk, name, &[bytes], true)
                .map_err(ImageError::io("write", &files::path(&**disk, name)))?;
        }
        let body = files::body(state, &[]);
        let header = Header {
            kind: ImageFileKind::Checkpoint,
            version: format::VERSION,
            image: disk.random(),
            generation: 1,
            boot: disk.boot(),
            time,
            body: body.len() as u64,
            body_crc: format::crc(&body),
            clean: true,
        };
        // The checkpoint comes last: without it there is no image.
        files::sync_names(&**disk)?;
        files::write_checkpoint(&**disk, &header, &body)?;
        files::sync_checkpoint(&**disk)?;
        files::rename_checkpoint(&**disk, 1)?;
        files::sync_names(&**disk)
    }

    /// Takes the image into use. The drive recovers next, then comes [`Image::opened`].
    ///
    /// `pages` is the number of slots that the drive's pages and buffer can refer to at once.
    pub(crate) fn start(
        self,
        found: &ImageState,
        pages: u32,
        options: ImageOptions,
        background: BackgroundWork,
    ) -> Result<Image, ImageError> {
        let Locked { disk, lock } = self;
        let contents = open(&*disk, CONTENTS, Open::Existing)?;
        // Images of format version 1 have none.
        let spares = open(&*disk, SPARES, Open::Create)?;
        restore_inline(&*disk, found, &*contents, &*spares)?;
        let journal = Arc::new(Mutex::new(next_journal(&disk, found, options.host_sync)?));
        let work = Arc::new(JobFiles {
            disk: disk.clone(),
            contents: contents.clone(),
            spares: spares.clone(),
            journal: journal.clone(),
            host_sync: options.host_sync,
            lost: AtomicBool::new(false),
        });
        let (missed_reads, helper) = match background {
            BackgroundWork::Threads(notify) => {
                (MissedReads::start(&contents, &notify, disk.path())?, Helper::start(work.clone(), notify)?)
            }
            BackgroundWork::Stepped => (MissedReads::stepped(&contents), Helper::stepped(work.clone())),
        };
        let mut frame = Vec::with_capacity(1 << 16);
        format::begin_frame(&mut frame);
        let margin = margin(pages, options);
        let reuse = if options.host_sync { Reuse::AfterSync } else { Reuse::AfterStep };
        let mut slots = Slots::new(slot_count(pages, options), reuse);
        let count = |file: &dyn DiskFile, name, size: usize| match file.len() {
            Ok(len) => Ok(u32::try_from(len.div_ceil(size as u64)).unwrap_or(u32::MAX)),
            Err(e) => Err(ImageError::io("read", &files::path(&*disk, name))(e)),
        };
        let beside = count(&*spares, SPARES, SPARE_BYTES)?;
        // What lies beside a page is written first: a process that died then has left it behind the contents' end.
        slots.written_up_to(count(&*contents, CONTENTS, SLOT)?.max(beside));
        Ok(Image {
            disk,
            _lock: lock,
            contents,
            spares,
            marked: vec![true; beside.min(slots.count()) as usize],
            missed_reads,
            scrub: None,
            sums: Sums::new(slots.count(), found.sums.clone()),
            slots,
            margin,
            journal,
            work,
            helper,
            options,
            frame,
            tight: false,
            told_full: None,
            written: Written::default(),
            waiting: Vec::new(),
            sync_ios: Vec::new(),
            sync_runs: false,
            steps: 0,
            covered: None,
            flush_habit: FlushHabit::default(),
            checkpoint_runs: false,
            forgetting: Forgetting::default(),
            state_bytes: found.state.len() as u64,
            failed: None,
        })
    }
}

/// Slots beyond a drive's pages and buffer.
fn margin(pages: u32, options: ImageOptions) -> u32 {
    (pages / MARGIN_SHARE).max(options.margin_slots)
}

/// How many slots an image has for a drive with so many pages and places in its buffer.
pub(crate) fn slot_count(pages: u32, options: ImageOptions) -> u32 {
    pages.saturating_add(margin(pages, options))
}

/// Puts contents where they belong that the host may have lost except for the journal. The next journal says that this is done.
///
/// Only the newest contents of each slot are written. Another opening may have done the same before, and its journal may come to
/// light again: what it vouches for must not be there in an older form in between.
fn restore_inline(
    disk: &dyn Disk,
    found: &ImageState,
    contents: &dyn DiskFile,
    spares: &dyn DiskFile,
) -> Result<(), ImageError> {
    let failed = |name| ImageError::io("write", &files::path(disk, name));
    let mut newest = HashMap::new();
    let mut count = 0;
    found.inline(|entry| {
        newest.insert(place_of(entry), count);
        count += 1;
        Ok(())
    })?;
    let mut index = 0;
    found.inline(|entry| {
        let is_newest = newest.get(&place_of(entry)) == Some(&index);
        index += 1;
        match *entry {
            Entry::Page { slot, bytes } if is_newest => {
                let bytes = format::unmasked(bytes);
                contents.write_at(&bytes, u64::from(slot) * SLOT as u64).map_err(failed(CONTENTS))
            }
            Entry::Beside { slot, bytes } if is_newest => {
                let bytes = format::unmasked(bytes);
                spares.write_at(&bytes, u64::from(slot) * SPARE_BYTES as u64).map_err(failed(SPARES))
            }
            _ => Ok(()),
        }
    })?;
    if count > 0 {
        contents.sync().map_err(failed(CONTENTS))?;
        spares.sync().map_err(failed(SPARES))?;
    }
    Ok(())
}

/// The file and the slot that contents in a journal belong to.
fn place_of(entry: &Entry<'_>) -> Option<(&'static str, u32)> {
    match *entry {
        Entry::Page { slot, .. } => Some((CONTENTS, slot)),
        Entry::Beside { slot, .. } => Some((SPARES, slot)),
        _ => None,
    }
}

/// The journal that continues where the replay ended.
fn next_journal(disk: &Arc<dyn Disk>, found: &ImageState, host_sync: bool) -> Result<Journal, ImageError> {
    let create = || Journal::create(disk, found.image, found.next, found.time, found.start(), host_sync);
    let mut before = Vec::new();
    for (name, length) in found.journals() {
        before.push((open(&**disk, &name, Open::Existing)?, length));
    }
    let mut journal = match create() {
        // Without room a drive can still be read. What was set aside for the journal before is not needed any more.
        Err(ImageError::Io { source, .. }) if disk::is_full(&source) => {
            if let Some((file, length)) = before.last() {
                file.set_len(*length).map_err(ImageError::io("shorten a journal in", disk.path()))?;
            }
            create()?
        }
        other => other?,
    };
    journal.follows(before.into_iter().map(|(file, _)| file).collect());
    Ok(journal)
}

/// An image in use: contents, slots and journal.
pub struct Image {
    disk: Arc<dyn Disk>,
    _lock: Option<ImageLock>,
    contents: Arc<dyn DiskFile>,
    /// What slots hold beside their pages.
    spares: Arc<dyn DiskFile>,
    /// Slots beside whose pages something may lie, also of an earlier page.
    marked: Vec<bool>,
    missed_reads: MissedReads,
    scrub: Option<Box<Scrub>>,
    sums: Sums,
    slots: Slots,
    margin: u32,
    journal: Arc<Mutex<Journal>>,
    work: Arc<JobFiles>,
    helper: Helper,
    options: ImageOptions,
    /// The frame of the step that runs: its head, and records so far.
    frame: Vec<u8>,
    /// No room for the journal is left on the host's disk.
    tight: bool,
    /// When the user was last told that the host's disk is full.
    told_full: Option<Instant>,
    /// Contents since the last sync was begun.
    written: Written,
    /// Commands that wait for the next sync.
    waiting: Vec<Io>,
    /// Commands that wait for the sync in progress.
    sync_ios: Vec<Io>,
    sync_runs: bool,
    /// Steps in the journal since the image was opened.
    steps: u64,
    /// How many of them the last sync covers that was begun.
    covered: Option<u64>,
    flush_habit: FlushHabit,
    checkpoint_runs: bool,
    forgetting: Forgetting,
    state_bytes: u64,
    failed: Option<String>,
}

/// What is to be erased for good, and what is being.
#[derive(Default)]
struct Forgetting {
    /// Commands that ask for it.
    waiting: Vec<Io>,
    /// Whether one of them wants all contents to go.
    all: bool,
    /// Slots with contents that are out of date, though a program under way still refers to them: referred to from here as
    /// well, so that nobody else gets them before they are erased.
    stale: Vec<Slot>,
    /// Commands that the one under way is for.
    ios: Vec<Io>,
}

/// What happened to an image since it was last asked.
pub enum DiskEvent {
    /// A sync ended for this command.
    Synced(Io, bool),
    /// Slots became free: a write that found none may be tried again.
    SlotsFree,
    /// All that a command reads is there, and how it ended.
    Loaded(Io, Completion),
}
