//! The journal that is written to.

use super::disk::{self, Disk, DiskFile, Open};
use super::error::ImageError;
use super::files;
use super::format::{self, Continuation, FrameKind, Header, ImageFileKind, Mark, Start};
use media::Nanos;
use std::io;
use std::sync::Arc;

/// Bytes that are set aside for the journal at a time.
const RESERVE_BYTES: u64 = 4 << 20;
/// Bytes that must be left of them. The records of one step need less; a longer step sets aside what it needs.
const MARGIN_BYTES: u64 = 2 << 20;
/// Most zeros that are written ahead at a time. A sync of bytes that take the place of others needs no change of the file's own
/// description, which takes a host's file system as long again.
const FILL_MOST: u64 = 1 << 20;
const FILL_LEAST: u64 = 1 << 14;

/// The journal that is written to, and those before it that may not be on the disk yet.
pub(crate) struct Journal {
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    header: Header,
    offset: u64,
    sequence: u64,
    /// Up to here room is set aside.
    reserved: u64,
    /// Up to here there are bytes.
    filled: u64,
    /// Whether room is set aside and filled at all: syncs are asked for.
    fills: bool,
    /// The host's disk has no room to set aside.
    pub(crate) tight: bool,
    /// Earlier journals whose ends are not known to be on the disk.
    unsynced: Vec<Arc<dyn DiskFile>>,
    /// Whether a file was made since the directory was synced.
    unsynced_names: bool,
    /// Contents that were written before this are on the disk in their own files.
    pub(crate) full: Mark,
    /// Everything up to here is on the disk.
    pub(crate) durable: Mark,
    /// Whether a frame behind that place says so.
    told: bool,
    /// A part of a frame is at the end: nothing more is written.
    torn: bool,
}

/// What has to be synced so that everything in the journal is on the disk.
pub(crate) struct Unsynced {
    pub files: Vec<Arc<dyn DiskFile>>,
    pub names: bool,
    /// Where the journal ends.
    until: Mark,
}

impl Journal {
    /// Begins the journal of a generation, which continues at `from`.
    pub(crate) fn create(
        disk: &Arc<dyn Disk>,
        image: [u8; 16],
        generation: u64,
        time: Nanos,
        from: Start,
        fills: bool,
    ) -> Result<Self, ImageError> {
        let header = Header {
            kind: ImageFileKind::Journal,
            version: format::VERSION,
            image,
            generation,
            boot: disk.boot(),
            time,
            body: 0,
            body_crc: 0,
            clean: false,
        };
        // Header and first frame in one: a process that dies leaves both or none.
        let mut begin = header.encode().to_vec();
        let start = format::begin_frame(&mut begin);
        from.encode(&mut begin);
        format::end_frame(&mut begin, start, FrameKind::Start, 0, time, header.salt());
        let name = files::journal_name(generation);
        let make = || -> io::Result<Arc<dyn DiskFile>> {
            let file = disk.open(&name, Open::Empty)?;
            file.write_at(&begin, 0)?;
            Ok(file)
        };
        let file = make().map_err(|e| {
            let _ = disk.remove(&name);
            ImageError::io("create", &files::path(&**disk, &name))(e)
        })?;
        let offset = begin.len() as u64;
        let mut journal = Journal {
            disk: disk.clone(),
            file,
            header,
            offset,
            sequence: 1,
            reserved: 0,
            filled: offset,
            fills,
            tight: false,
            unsynced: Vec::new(),
            unsynced_names: true,
            full: Mark { generation, offset: 0 },
            durable: Mark { generation: 0, offset: 0 },
            told: true,
            torn: false,
        };
        journal.reserve(0);
        Ok(journal)
    }

    /// Files that it continues, which may not be on the disk either.
    pub(crate) fn follows(&mut self, files: Vec<Arc<dyn DiskFile>>) {
        self.unsynced = files;
    }

    /// Nothing more is written: gives back what was set aside.
    pub(crate) fn close(&mut self) {
        let _ = self.file.set_len(self.offset);
    }

    /// Where the next frame goes.
    pub(crate) fn mark(&self) -> Mark {
        Mark { generation: self.header.generation, offset: self.offset }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.header.generation
    }

    /// Sets room aside, so that records of what has happened can always be written: `more` bytes beyond what always is.
    pub(crate) fn reserve(&mut self, more: u64) {
        let wanted = self.offset + MARGIN_BYTES + more;
        if wanted <= self.reserved {
            self.tight = false;
            return;
        }
        let end = wanted.next_multiple_of(RESERVE_BYTES);
        self.tight = match self.file.reserve(self.reserved, end - self.reserved) {
            Ok(()) => {
                self.reserved = end;
                false
            }
            Err(e) if disk::is_full(&e) => true,
            Err(_) => {
                self.reserved = end;
                false
            }
        };
    }

    /// Writes zeros behind `until`, where the next frames go.
    fn fill(&mut self, until: u64) -> io::Result<()> {
        // Larger pieces make the host's page cache handle larger ones, which costs every small write behind them.
        static ZEROS: [u8; 1 << 14] = [0; 1 << 14];
        if !self.fills || until <= self.filled {
            return Ok(());
        }
        let end = (until + until.clamp(FILL_LEAST, FILL_MOST)).min(self.reserved).max(until);
        let mut at = until;
        while at < end {
            let len = (end - at).min(ZEROS.len() as u64);
            match self.file.write_at(&ZEROS[..len as usize], at) {
                // Frames will do without.
                Err(e) if disk::is_full(&e) => break,
                other => other?,
            }
            at += len;
        }
        self.filled = at;
        Ok(())
    }

    /// Writes one frame. `frame` is what [`format::begin_frame`] began at its start, with the payload.
    pub(crate) fn append(&mut self, frame: &mut Vec<u8>, kind: FrameKind, time: Nanos) -> io::Result<()> {
        if frame.len() - format::FRAME_HEAD > format::MAX_PAYLOAD as usize {
            return Err(io::Error::other("a step of the drive is too long for the journal"));
        }
        if self.torn {
            return Err(io::Error::other("its end holds a part of a step that could not be written"));
        }
        format::end_frame(frame, 0, kind, self.sequence, time, self.header.salt());
        let end = self.offset + frame.len() as u64;
        if end > self.reserved {
            self.reserve(frame.len() as u64);
        }
        if let Err(e) = self.file.write_at(frame, self.offset) {
            // A part may be there. A shorter frame in its place would leave the rest behind it, which looks like damage.
            self.torn = true;
            return Err(e);
        }
        self.offset = end;
        self.sequence += 1;
        self.fill(end)?;
        self.reserve(0);
        Ok(())
    }

    /// Writes the records of a step. The first step after a sync names the place up to which everything was synced. Before that place, a frame that
    /// is not intact is damage. Behind it, the frame may be one that the host had not written when it went down.
    pub(crate) fn append_step(&mut self, frame: &mut Vec<u8>, time: Nanos) -> io::Result<()> {
        if !std::mem::replace(&mut self.told, true) {
            format::encode_durable(self.durable, frame);
        }
        self.append(frame, FrameKind::Step, time)
    }

    /// Goes over to the next generation's journal.
    pub(crate) fn switch(&mut self, time: Nanos) -> Result<(), ImageError> {
        let (image, generation) = (self.header.image, self.header.generation + 1);
        let from = Start { at: self.mark(), how: Continuation::Switched };
        let next = Journal::create(&self.disk, image, generation, time, from, self.fills)?;
        self.close();
        let old = std::mem::replace(self, next);
        self.unsynced = old.unsynced;
        self.unsynced.push(old.file);
        (self.full, self.durable, self.told) = (old.full, old.durable, old.told);
        Ok(())
    }

    /// What to sync so that everything up to now is on the disk.
    pub(crate) fn unsynced(&self) -> Unsynced {
        let files = self.unsynced.iter().chain([&self.file]).cloned().collect();
        Unsynced { files, names: self.unsynced_names, until: self.mark() }
    }

    /// All of that is synced. The last file is still written to, or was until another one followed.
    pub(crate) fn synced(&mut self, what: &Unsynced) {
        (self.durable, self.told) = (what.until, false);
        self.unsynced.drain(..what.files.len() - 1);
        if self.unsynced.is_empty() {
            self.unsynced_names = false;
        }
    }

    /// The image has failed: what was not synced does not count at the next opening, although the host may still hold it.
    pub(crate) fn disown(&mut self) -> io::Result<()> {
        self.header.boot = format::NO_BOOT;
        self.file.write_at(&self.header.encode(), 0)
    }

    pub(crate) fn image(&self) -> [u8; 16] {
        self.header.image
    }

    /// Bytes in the journal.
    pub(crate) fn bytes(&self) -> u64 {
        self.offset
    }
}
