//! Opening an image: which checkpoint, and how far its journals are replayed.

use super::error::ImageError;
use super::files;
use super::format::{self, Frame, FrameKind, HEADER, Header, Kind, Mark, Records};
use ftl::Record;
use media::Nanos;
use std::path::{Path, PathBuf};

/// What an image's files say, read but not yet applied: nothing has been changed on disk so far.
pub(crate) struct Found {
    pub(crate) dir: PathBuf,
    pub(crate) image: [u8; 16],
    /// The state in the checkpoint, as the drive encoded it.
    pub(crate) state: Vec<u8>,
    /// The drive's clock at the end of what is replayed.
    pub(crate) time: Nanos,
    journals: Vec<Replay>,
    /// What was passed over, for the user.
    pub(crate) notes: Vec<String>,
    /// Whether contents may not have reached the host's disk although the journal counts.
    pub(crate) unsynced: bool,
    /// Generation of the checkpoint.
    base: u64,
    /// Whether the host has been running since the last step.
    this_boot: bool,
}

struct Replay {
    generation: u64,
    salt: u64,
    bytes: Vec<u8>,
    /// Where the replay ends and the next frame would go.
    end: usize,
    /// Frames up to there.
    frames: u64,
    complete: bool,
}

impl Found {
    /// Reads the newest state that counts, when the host has been running since `boot`.
    pub(crate) fn read(dir: &Path, boot: u64) -> Result<Found, ImageError> {
        let (checkpoints, journals) = files::generations(dir)?;
        let mut newest = None;
        let mut notes = Vec::new();
        for &generation in checkpoints.iter().rev() {
            match files::read_checkpoint(dir, generation) {
                Ok((header, state)) => {
                    let mut found = Found::with(dir, boot, header, state, &journals)?;
                    found.notes.splice(0..0, notes);
                    return Ok(found);
                }
                // A newer program's image must not be changed by this one.
                Err(e @ ImageError::Format { source: format::FormatError::Newer(_), .. }) => return Err(e),
                Err(e) => {
                    notes.push(format!("{e}; using the checkpoint before it"));
                    newest.get_or_insert(e);
                }
            }
        }
        match newest {
            Some(newest) => Err(ImageError::Damaged { path: dir.to_owned(), newest: Box::new(newest) }),
            None => Err(ImageError::Unfinished { path: dir.to_owned() }),
        }
    }

    fn with(
        dir: &Path,
        boot: u64,
        checkpoint: Header,
        state: Vec<u8>,
        names: &[u64],
    ) -> Result<Found, ImageError> {
        let mut journals: Vec<Replay> = Vec::new();
        let mut notes = Vec::new();
        let mut last_mark = None;
        let mut this_boot = false;
        let mut time = checkpoint.time;
        let mut generation = checkpoint.generation;
        while names.contains(&generation) {
            let path = files::journal_path(dir, generation);
            let bytes = std::fs::read(&path).map_err(ImageError::io("read", &path))?;
            let header = match Header::decode(Kind::Journal, &bytes) {
                Ok(header) if header.image == checkpoint.image && header.generation == generation => header,
                Ok(_) => return Err(ImageError::format(&path)(format::FormatError::Mixed)),
                Err(e @ format::FormatError::Newer(_)) => return Err(ImageError::format(&path)(e)),
                // A journal whose header never reached the disk holds nothing that was promised.
                Err(e) => {
                    notes.push(format!("{} is left out: {e}", path.display()));
                    break;
                }
            };
            let replay = Replay::scan(generation, header.salt(), bytes, &mut last_mark);
            this_boot = header.boot == boot;
            let complete = replay.complete;
            if replay.end < replay.bytes.len() {
                let rest = replay.bytes.len() - replay.end;
                notes
                    .push(format!("{} ends in {rest} bytes of an incomplete step, left out", path.display()));
            }
            journals.push(replay);
            generation += 1;
            if !complete {
                break;
            }
        }
        // While the host runs, what was written is there: a torn tail has nothing behind it.
        let last = journals.last().filter(|journal| !journal.complete).map_or(generation, |j| j.generation);
        for &later in names.iter().filter(|&&name| name > last) {
            let bytes = std::fs::read(files::journal_path(dir, later)).unwrap_or_default();
            let header = Header::decode(Kind::Journal, &bytes);
            if header.is_ok_and(|h| h.image == checkpoint.image && h.boot == boot) {
                return Err(ImageError::Gap { path: files::journal_path(dir, last) });
            }
        }
        // The host was booted since: only what was synced is sure to have its contents.
        if !this_boot {
            let limit = last_mark.unwrap_or(Mark { generation: checkpoint.generation, offset: 0 });
            let before: usize = journals.iter().map(|j| j.end).sum();
            journals.retain_mut(|journal| journal.cut(limit));
            let after: usize = journals.iter().map(|j| j.end).sum();
            if after < before {
                notes.push(format!(
                    "the host went down: {} bytes of journal that no Flush or FUA had asked for are left out",
                    before - after
                ));
            }
        }
        for journal in &journals {
            for frame in journal.frames() {
                time = time.max(frame.time);
            }
        }
        let steps = journals.iter().any(|j| j.frames().any(|f| f.kind == FrameKind::Step));
        Ok(Found {
            dir: dir.to_owned(),
            image: checkpoint.image,
            state,
            time,
            journals,
            notes,
            unsynced: steps && this_boot,
            base: checkpoint.generation,
            this_boot,
        })
    }

    /// Applies every record that counts, in order.
    pub(crate) fn replay(
        &self,
        mut apply: impl FnMut(&Record<'_>) -> Result<(), String>,
    ) -> Result<(), ImageError> {
        for journal in &self.journals {
            let path = files::journal_path(&self.dir, journal.generation);
            for frame in journal.frames().filter(|f| f.kind == FrameKind::Step) {
                let mut records = Records::new(frame.payload);
                while let Some(record) = records.next() {
                    let record = record.map_err(ImageError::format(&path))?;
                    apply(&record).map_err(|reason| ImageError::State { path: self.dir.clone(), reason })?;
                }
            }
        }
        Ok(())
    }

    /// Makes the chain of journals end where the replay ended, so that a later opening does the same,
    /// and returns the generation that follows.
    pub(crate) fn settle(&self) -> Result<u64, ImageError> {
        use std::os::unix::fs::FileExt;
        // Without a journal of its own the checkpoint's is started again.
        let mut next = self.base;
        for (i, journal) in self.journals.iter().enumerate() {
            let last = i + 1 == self.journals.len();
            next = journal.generation + 1;
            if journal.complete && !last {
                continue;
            }
            let path = files::journal_path(&self.dir, journal.generation);
            let file =
                std::fs::OpenOptions::new().write(true).open(&path).map_err(ImageError::io("open", &path))?;
            let mut frame = Vec::new();
            if !journal.complete {
                let mut frames = journal.frames;
                // The marker that vouched for what is left was behind it and goes with the rest.
                if !self.this_boot {
                    format::begin_frame(&mut frame);
                    let mark = Mark { generation: journal.generation, offset: journal.end as u64 };
                    format::encode_mark(mark, &mut frame);
                    format::end_frame(&mut frame, 0, FrameKind::Sync, frames, self.time, journal.salt);
                    frames += 1;
                }
                let start = format::begin_frame(&mut frame);
                format::end_frame(&mut frame, start, FrameKind::End, frames, self.time, journal.salt);
            }
            let end = journal.end as u64;
            file.write_all_at(&frame, end)
                .and_then(|()| file.set_len(end + frame.len() as u64))
                .and_then(|()| file.sync_data())
                .map_err(ImageError::io("write", &path))?;
        }
        // Journals beyond the end of the chain belong to a history that did not happen.
        let (_, names) = files::generations(&self.dir)?;
        for orphan in names.into_iter().filter(|&g| g >= next) {
            let path = files::journal_path(&self.dir, orphan);
            std::fs::remove_file(&path).map_err(ImageError::io("remove", &path))?;
        }
        let (checkpoints, _) = files::generations(&self.dir)?;
        for orphan in checkpoints.into_iter().filter(|&g| g >= next && g != self.base) {
            let path = files::checkpoint_path(&self.dir, orphan);
            std::fs::remove_file(&path).map_err(ImageError::io("remove", &path))?;
        }
        Ok(next)
    }
}

impl Replay {
    /// Finds the complete frames of a journal and the last mark among them.
    fn scan(generation: u64, salt: u64, bytes: Vec<u8>, last_mark: &mut Option<Mark>) -> Replay {
        let mut replay = Replay { generation, salt, bytes, end: HEADER, frames: 0, complete: false };
        while let Some(frame) = format::frame_at(&replay.bytes, replay.end, replay.frames, salt) {
            match frame.kind {
                FrameKind::Sync => *last_mark = format::decode_mark(frame.payload).or(*last_mark),
                FrameKind::End => replay.complete = true,
                FrameKind::Step => {}
            }
            replay.end = frame.next;
            replay.frames += 1;
            if replay.complete {
                break;
            }
        }
        replay
    }

    /// Leaves out everything after `limit`; false if nothing is left.
    fn cut(&mut self, limit: Mark) -> bool {
        if self.generation < limit.generation {
            return true;
        }
        if self.generation > limit.generation {
            return false;
        }
        let (mut end, mut frames) = (HEADER, 0);
        while let Some(frame) = format::frame_at(&self.bytes, end, frames, self.salt) {
            if frame.next as u64 > limit.offset {
                break;
            }
            end = frame.next;
            frames += 1;
        }
        if end < self.end {
            self.complete = false;
        }
        (self.end, self.frames) = (end, frames);
        true
    }

    fn frames(&self) -> impl Iterator<Item = Frame<'_>> {
        let (mut at, mut sequence) = (HEADER, 0);
        std::iter::from_fn(move || {
            if sequence == self.frames {
                return None;
            }
            let frame = format::frame_at(&self.bytes, at, sequence, self.salt)?;
            at = frame.next;
            sequence += 1;
            Some(frame)
        })
    }
}
