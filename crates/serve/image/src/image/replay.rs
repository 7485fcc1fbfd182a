//! One journal as it is read.

use super::disk::Disk;
use super::error::ImageError;
use super::files;
use super::format::{
    self, Entry, FRAME_HEAD, Frame, FrameKind, HEADER, Header, ImageFileKind, Mark, Records, Salt, Synced,
};
use media::Nanos;

/// A journal's frames, as far as they are replayed.
pub(super) struct Replay {
    pub generation: u64,
    salt: Salt,
    bytes: Vec<u8>,
    /// Where the replay ends and the next frame would go; 0 if not even the header counts.
    pub end: usize,
    /// Frames up to there.
    frames: u64,
    /// Where the frames end that are whole, one behind the other.
    whole: usize,
    /// Whether the last one says that the next journal continues (up to version 2).
    pub ended: bool,
}

impl Replay {
    /// Reads a journal and finds its complete frames.
    pub fn read(disk: &dyn Disk, header: &Header) -> Result<Replay, ImageError> {
        let name = files::journal_name(header.generation);
        let bytes = disk.read(&name).map_err(ImageError::io("read", &files::path(disk, &name)))?;
        let (generation, salt) = (header.generation, header.salt());
        let mut replay =
            Replay { generation, salt, bytes, end: HEADER, frames: 0, whole: HEADER, ended: false };
        while let Some(frame) = format::frame_at(&replay.bytes, replay.end, replay.frames, salt) {
            replay.ended = frame.kind == FrameKind::End;
            replay.end = frame.next;
            replay.frames += 1;
            if replay.ended {
                break;
            }
        }
        replay.whole = replay.end;
        Ok(replay)
    }

    /// Leaves out everything after `limit`.
    pub fn cut(&mut self, limit: Mark) {
        if self.generation < limit.generation {
            return;
        }
        if self.generation > limit.generation {
            (self.end, self.frames) = (0, 0);
            return;
        }
        let (mut end, mut frames) = (HEADER, 0);
        for frame in self.frames().take_while(|frame| frame.next as u64 <= limit.offset) {
            end = frame.next;
            frames += 1;
        }
        (self.end, self.frames) = (end, frames);
    }

    /// The frames that are replayed.
    pub fn frames(&self) -> impl Iterator<Item = Frame<'_>> {
        self.all_frames().map(|(_, frame)| frame).take(self.frames as usize)
    }

    /// All intact frames one behind the other, with their places: also those that are left out, which still vouch for what is
    /// before them.
    pub fn all_frames(&self) -> impl Iterator<Item = (usize, Frame<'_>)> {
        let (mut at, mut sequence) = (HEADER, 0);
        std::iter::from_fn(move || {
            let frame = format::frame_at(&self.bytes, at, sequence, self.salt).filter(|_| at < self.whole)?;
            let place = at;
            at = frame.next;
            sequence += 1;
            Some((place, frame))
        })
    }

    /// The payload of a frame that was found at a place.
    pub fn payload(&self, at: usize) -> Option<&[u8]> {
        let len = self.bytes.get(at..at + 4)?;
        let len = u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize;
        self.bytes.get(at + FRAME_HEAD..at + FRAME_HEAD + len)
    }

    /// Bytes of the file without the zeros at its end.
    pub fn length(&self) -> u64 {
        // The last frame may end in zeros, too.
        written(&self.bytes).max(self.whole as u64)
    }

    /// Bytes behind the last frame that are neither a frame nor zeros.
    pub fn rest(&self) -> usize {
        let tail = &self.bytes[self.whole.min(self.bytes.len())..];
        if self.ended { 0 } else { tail.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1) }
    }

    /// Tells a step that was being written when the process or the host died from bytes that have changed since. Such a step
    /// holds nothing that was completed. Changed bytes may, so they are an error.
    pub fn check_end(&self, disk: &dyn Disk, this_boot: bool) -> Result<(), ImageError> {
        if self.rest() == 0 {
            return Ok(());
        }
        let complete = if this_boot { self.was_written_whole() } else { self.has_every_sector() };
        if complete {
            return Err(self.is_damaged(disk));
        }
        let end = Mark { generation: self.generation, offset: self.whole as u64 };
        for frame in self.later_frames() {
            // While the host runs, nothing is there before everything before it is.
            if this_boot || durable(&frame).is_some_and(|durable| durable > end) {
                return Err(self.is_damaged(disk));
            }
        }
        Ok(())
    }

    /// Whether some frame says that more than up to `here` was on the disk.
    pub fn proves(&self, here: Mark) -> bool {
        self.all_frames().any(|(_, frame)| durable(&frame).is_some_and(|durable| durable > here))
    }

    /// Whether the first frame that is not intact was written to its end. A process that dies may leave a frame that it has begun. Such a frame
    /// begins as it should. From a boundary of the host's pages on it has zeros, or the file ends there.
    fn was_written_whole(&self) -> bool {
        // Bytes.
        const HOST_PAGE: usize = 4096;
        let Some((payload, sequence)) = format::head_at(&self.bytes, self.whole, self.salt) else {
            return self.rest() > FRAME_HEAD;
        };
        let end = self.whole + FRAME_HEAD + payload + 8;
        let last = ((end - 1) / HOST_PAGE * HOST_PAGE).max(self.whole);
        let written = self.bytes.get(last..end).is_some_and(|bytes| bytes.iter().any(|&b| b != 0));
        sequence != self.frames || written || self.rest() > end - self.whole
    }

    /// Whether no sector is missing of the first frame that is not intact. When the host goes down, each sector has the new
    /// bytes or what was there before: zeros, or the end of the file.
    fn has_every_sector(&self) -> bool {
        // Bytes.
        const SECTOR: usize = 512;
        let head = format::head_at(&self.bytes, self.whole, self.salt);
        let end = self.whole + FRAME_HEAD + head.map_or(0, |(payload, _)| payload + 8);
        let mut at = self.whole;
        // Earlier versions wrote into journals that they had recovered.
        let mut all = self.salt.heads;
        while all && at < end {
            let next = ((at / SECTOR + 1) * SECTOR).min(end);
            all = self.bytes.get(at..next).is_some_and(|part| part.iter().any(|&b| b != 0));
            at = next;
        }
        all
    }

    /// Intact frames behind the first one that is not.
    fn later_frames(&self) -> impl Iterator<Item = Frame<'_>> {
        let first = self.whole + 1;
        let last = self.whole + self.rest();
        (first..last).filter_map(|at| {
            let (_, sequence) = format::head_at(&self.bytes, at, self.salt)?;
            (sequence >= self.frames)
                .then(|| format::frame_at(&self.bytes, at, sequence, self.salt))
                .flatten()
        })
    }

    pub fn is_damaged(&self, disk: &dyn Disk) -> ImageError {
        let path = files::path(disk, &files::journal_name(self.generation));
        ImageError::DamagedJournal { path, at: self.whole as u64 }
    }
}

/// Bytes of a journal without the zeros at its end.
pub(super) fn written(journal: &[u8]) -> u64 {
    journal.iter().rposition(|&b| b != 0).map_or(0, |last| last as u64 + 1)
}

/// The latest time that any intact part of a journal tells, also behind damage.
pub(super) fn last_time(journal: &[u8]) -> Option<Nanos> {
    let header = Header::decode(ImageFileKind::Journal, journal).ok()?;
    let (mut at, mut last) = (HEADER, header.time);
    let end = written(journal) as usize;
    while at < end {
        let frame = format::head_at(journal, at, header.salt())
            .and_then(|(_, sequence)| format::frame_at(journal, at, sequence, header.salt()));
        at = frame.map_or(at + 1, |frame| frame.next);
        last = last.max(frame.map_or(last, |frame| frame.time));
    }
    Some(last)
}

/// Up to where everything was on the disk when a frame was written.
fn durable(frame: &Frame<'_>) -> Option<Mark> {
    let mut records = Records::new(match frame.kind {
        FrameKind::Step => frame.payload,
        FrameKind::Sync => Synced::decode(frame.payload)?.records,
        FrameKind::Start | FrameKind::End => &[],
    });
    let mut mark = None;
    while let Some(Ok(record)) = records.next() {
        if let Entry::Durable(durable) = record {
            mark = Some(durable);
        }
    }
    mark
}
