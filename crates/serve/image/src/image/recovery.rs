//! Opening an image: which checkpoint, and how far its journals are replayed. Nothing on the disk is changed here.

use super::disk::Disk;
use super::error::ImageError;
use super::files::{self, Saved};
use super::format::{
    self, Continuation, Entry, FrameKind, HEADER, Header, ImageFileKind, Mark, Records, Start, Synced,
};
use super::replay::Replay;
use ftl::Record;
use media::Nanos;

/// What an image's files say, read but not yet applied.
pub(crate) struct ImageState {
    pub(crate) image: [u8; 16],
    /// Generation and format version of the checkpoint.
    pub(super) checkpoint: u64,
    pub(super) version: u32,
    /// The state in the checkpoint, as the drive encoded it.
    pub(crate) state: Vec<u8>,
    /// Checksums of contents in the checkpoint.
    pub(super) sums: Vec<u32>,
    /// The drive's clock at the end of what is replayed.
    pub(crate) time: Nanos,
    journals: Vec<Replay>,
    /// What was passed over, for the user.
    pub(crate) notes: Vec<String>,
    /// Where the replay ends.
    pub(super) end: Mark,
    /// The generation that follows all that there are files of.
    pub(super) next: u64,
    /// The checkpoint was left by a clean stop, and nothing came after it.
    pub(super) clean: bool,
    /// Contents that may be nowhere but in the journal, oldest first, as places of sync frames.
    inline: Vec<(usize, usize)>,
    /// Whether the host went down since the last of it was written.
    pub(super) restored: bool,
    /// A sync had failed: what the journals say may be nowhere but in the host's memory.
    pub(super) lost: bool,
    /// Bytes of journals that are left out because of that.
    pub(super) left_out: usize,
    place: std::path::PathBuf,
}

/// The beginning of a journal.
struct Head {
    generation: u64,
    header: Header,
    /// Where it continues; `None` up to version 2.
    from: Option<Start>,
}

impl ImageState {
    /// Reads the newest state that counts.
    pub(crate) fn read(disk: &dyn Disk) -> Result<ImageState, ImageError> {
        let (checkpoints, journals) = files::generations(disk)?;
        let mut newest = None;
        let mut notes = Vec::new();
        for &generation in checkpoints.iter().rev() {
            match files::read_checkpoint(disk, generation) {
                Ok(saved) => {
                    let next = checkpoints.iter().chain(&journals).max().map_or(1, |last| last + 1);
                    let floor = newest.as_ref().map(|(generation, _)| *generation);
                    let mut found = ImageState::with(disk, saved, &journals, next, floor)?;
                    // The state must be that of the checkpoint which cannot be used, or a later one.
                    if let Some((wanted, error)) = newest
                        && found.end.generation < wanted
                    {
                        return Err(ImageError::damaged(disk.path(), error));
                    }
                    found.notes.splice(0..0, notes);
                    return Ok(found);
                }
                // A newer program's image must not be changed by this one.
                Err(e @ ImageError::Format { source: format::FormatError::Newer(_), .. }) => return Err(e),
                Err(e) => {
                    notes.push(format!("{e}; using the checkpoint before it"));
                    newest.get_or_insert((generation, e));
                }
            }
        }
        match newest {
            Some((_, error)) => Err(ImageError::damaged(disk.path(), error)),
            None => Err(ImageError::Unfinished { path: disk.path().to_owned() }),
        }
    }

    /// `floor` is the generation of a checkpoint that cannot be used: it was complete once, so all that led to it was on the
    /// disk.
    fn with(
        disk: &dyn Disk,
        saved: Saved,
        names: &[u64],
        next: u64,
        floor: Option<u64>,
    ) -> Result<ImageState, ImageError> {
        let Saved { header, state, sums } = saved;
        let boot = disk.boot();
        let heads = heads(disk, &header, names)?;
        let mut journals = chain(disk, header.generation, &heads, boot)?;
        let mut notes = Vec::new();
        let last = journals.last().map(|journal| journal.generation);
        let this_boot =
            last.is_some_and(|g| heads.iter().any(|h| h.generation == g && h.header.boot == boot));
        for head in heads.iter().filter(|head| head.header.boot == boot) {
            // What was written since the host was booted is there: a torn tail has nothing behind it.
            let is_void = head.from.is_some_and(|from| {
                let follows =
                    |j: &Replay| j.generation == from.at.generation && from.at.offset < j.end as u64;
                from.how == Continuation::Switched && journals.iter().any(follows)
            });
            if last.is_none_or(|last| head.generation > last) && !is_void {
                let before = files::journal_name(last.unwrap_or(header.generation));
                return Err(ImageError::Gap { path: files::path(disk, &before) });
            }
        }
        if let Some(journal) = journals.last() {
            journal.check_end(disk, this_boot)?;
            let rest = journal.rest();
            if rest > 0 {
                let name = files::journal_name(journal.generation);
                notes.push(format!("{name} ends in {rest} bytes of an incomplete step, left out"));
            }
        }
        let synced = last_sync(&journals);
        let mut inline = Vec::new();
        let mut left_out = 0;
        if !this_boot {
            // The host was booted since: only what was synced is sure to have its contents.
            let least = Mark { generation: floor.unwrap_or(header.generation), offset: 0 };
            let limit = synced.map_or(least, |(mark, ..)| mark.max(least));
            // What a checkpoint follows is in the contents' own files, where slots may have been written again since.
            inline =
                synced.map_or_else(Vec::new, |(_, full, last)| syncs_after(&journals, full.max(least), last));
            let before = journals.iter().map(|j| j.end).sum::<usize>();
            for journal in &mut journals {
                journal.cut(limit);
            }
            left_out = before - journals.iter().map(|j| j.end).sum::<usize>();
            if left_out > 0 {
                notes.push(format!(
                    "the host went down: {left_out} bytes of journal that no Flush or FUA had asked for are left out"
                ));
            }
        }
        // What failed to be synced may be missing on the disk, even if later records behind it were synced.
        let disowned = |head: &&Head| head.header.boot == format::NO_BOOT;
        let lost = heads
            .iter()
            .filter(disowned)
            .any(|head| journals.iter().any(|journal| journal.generation == head.generation));
        let mut found = ImageState {
            image: header.image,
            checkpoint: header.generation,
            version: header.version,
            state,
            sums,
            time: header.time,
            end: Mark { generation: header.generation, offset: 0 },
            clean: header.clean,
            journals,
            notes,
            next,
            inline,
            restored: !this_boot,
            lost,
            left_out,
            place: disk.path().to_owned(),
        };
        found.look_through();
        Ok(found)
    }

    /// Finds time and place of the end.
    fn look_through(&mut self) {
        for journal in self.journals.iter().filter(|journal| journal.end > 0) {
            self.end = Mark { generation: journal.generation, offset: journal.end as u64 };
            for frame in journal.frames() {
                self.time = self.time.max(frame.time);
                self.clean &= frame.kind != FrameKind::Step;
            }
        }
    }

    /// Applies every record that counts, in order, and brings the checksums of the first `slots` slots up to date: a journal that somebody
    /// else wrote may name any.
    pub(crate) fn replay(
        &mut self,
        slots: u32,
        mut apply: impl FnMut(&Record<'_>) -> Result<(), String>,
    ) -> Result<(), ImageError> {
        for journal in &self.journals {
            let path = self.place.join(files::journal_name(journal.generation));
            for frame in journal.frames().filter(|f| f.kind == FrameKind::Step) {
                let mut records = Records::new(frame.payload);
                while let Some(record) = records.next() {
                    match record.map_err(ImageError::format(&path))? {
                        Entry::Drive(record) => apply(&record)
                            .map_err(|reason| ImageError::State { path: self.place.clone(), reason })?,
                        Entry::Sum { slot, sum } if slot < slots => {
                            let slot = slot as usize;
                            if slot >= self.sums.len() {
                                self.sums.resize(slot + 1, super::sums::UNKNOWN);
                            }
                            self.sums[slot] = sum;
                        }
                        Entry::Sum { .. } | Entry::Page { .. } | Entry::Beside { .. } | Entry::Durable(_) => {
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// What the next journal says of where it continues.
    pub(super) fn start(&self) -> Start {
        Start { at: self.end, how: if self.restored { Continuation::Restored } else { Continuation::Opened } }
    }

    /// The journals that are replayed, and how long each is without the zeros that were written ahead of it.
    pub(super) fn journals(&self) -> impl Iterator<Item = (String, u64)> {
        self.journals.iter().map(|journal| (files::journal_name(journal.generation), journal.length()))
    }

    /// Goes through the contents that may be nowhere but in the journal, oldest first.
    pub(super) fn inline(
        &self,
        mut put: impl FnMut(&Entry<'_>) -> Result<(), ImageError>,
    ) -> Result<(), ImageError> {
        for &(journal, at) in &self.inline {
            let journal = &self.journals[journal];
            let path = self.place.join(files::journal_name(journal.generation));
            let Some(synced) = journal.payload(at).and_then(Synced::decode) else { continue };
            let mut records = Records::new(synced.records);
            while let Some(record) = records.next() {
                put(&record.map_err(ImageError::format(&path))?)?;
            }
        }
        Ok(())
    }
}

/// The beginnings of all journals that belong to the checkpoint's image, from its generation on.
fn heads(disk: &dyn Disk, checkpoint: &Header, names: &[u64]) -> Result<Vec<Head>, ImageError> {
    let mut heads = Vec::new();
    for &generation in names.iter().filter(|&&name| name >= checkpoint.generation) {
        let name = files::journal_name(generation);
        let path = files::path(disk, &name);
        let bytes =
            disk.read_head(&name, HEADER + format::FRAME + 17).map_err(ImageError::io("read", &path))?;
        let header = match Header::decode(ImageFileKind::Journal, &bytes) {
            Ok(header) if header.image == checkpoint.image && header.generation == generation => header,
            Ok(_) => return Err(ImageError::format(&path)(format::FormatError::Mixed)),
            Err(e @ format::FormatError::Newer(_)) => return Err(ImageError::format(&path)(e)),
            // Header and first frame are in one sector, so they reach the disk together. A journal without them holds
            // nothing that was promised.
            Err(_) if bytes.iter().all(|&b| b == 0) => continue,
            Err(e) => return Err(ImageError::format(&path)(e)),
        };
        let start = format::frame_at(&bytes, HEADER, 0, header.salt()).filter(|f| f.kind == FrameKind::Start);
        let from = start.and_then(|frame| Start::decode(frame.payload));
        if header.version >= format::FIRST_LINKED_VERSION && from.is_none() {
            return Err(ImageError::DamagedJournal { path, at: HEADER as u64 });
        }
        heads.push(Head { generation, header, from });
    }
    Ok(heads)
}

/// The journals that lead on from a checkpoint, each cut where the next one continues.
fn chain(disk: &dyn Disk, base: u64, heads: &[Head], boot: u64) -> Result<Vec<Replay>, ImageError> {
    let mut chain: Vec<Replay> = Vec::new();
    let mut generation = base;
    loop {
        if let Some(head) = heads.iter().find(|head| head.generation == generation) {
            chain.push(Replay::read(disk, &head.header)?);
        }
        let read = chain.last_mut().filter(|journal| journal.generation == generation);
        let end = read.as_ref().map_or(0, |journal| journal.end as u64);
        let mut next = None;
        // The newest that continues here: an older one belongs to an opening that never ended.
        for head in heads.iter().rev().filter(|head| head.generation > generation) {
            let Some(from) = head.from.filter(|from| from.at.generation == generation) else { continue };
            if from.at.offset < end && from.how == Continuation::Switched {
                // Its making failed, and the one before was written on.
                continue;
            }
            if from.at.offset <= end {
                next = Some((head.generation, from.at));
                break;
            }
            // It continues a journal that is not there. If the host went down before any of that journal was synced, it was lost with the rest.
            let here = Mark { generation, offset: end };
            let journal = Replay::read(disk, &head.header)?;
            if head.header.boot == boot || journal.proves(here) {
                return Err(ImageError::DamagedJournal {
                    path: files::path(disk, &files::journal_name(generation)),
                    at: end,
                });
            }
        }
        if let Some((follower, from)) = next {
            if let Some(journal) = read {
                journal.cut(from);
            }
            generation = follower;
            continue;
        }
        // Up to version 2 an end frame says that the next generation continues.
        let follows = |head: &&Head| head.generation == generation + 1 && head.from.is_none();
        if read.is_some_and(|journal| journal.ended) && heads.iter().any(|head| follows(&head)) {
            generation += 1;
            continue;
        }
        return Ok(chain);
    }
}

/// The last place of the chain that a sync frame vouches for; up to where contents are in their own files then; and where that
/// frame ends. It lies behind the place itself, perhaps in a part of the journal that is left out.
fn last_sync(journals: &[Replay]) -> Option<(Mark, Mark, Mark)> {
    let mut last: Option<(Mark, Mark, Mark)> = None;
    for journal in journals {
        for (_, frame) in journal.all_frames() {
            let vouched = match frame.kind {
                FrameKind::Sync => Synced::decode(frame.payload).map(|synced| (synced.mark, synced.full)),
                FrameKind::Start => Start::decode(frame.payload)
                    .filter(|start| start.how == Continuation::Restored)
                    .map(|start| (start.at, start.at)),
                FrameKind::Step | FrameKind::End => None,
            };
            let Some((mark, full)) = vouched else { continue };
            let at = Mark { generation: journal.generation, offset: frame.next as u64 };
            let of = journals.iter().find(|journal| journal.generation == mark.generation);
            let is_there = of.is_some_and(|journal| mark.offset <= journal.end as u64);
            if is_there && last.is_none_or(|(before, ..)| mark >= before) {
                last = Some((mark, full, at));
            }
        }
    }
    last
}

/// The sync frames from `full` up to `last`.
fn syncs_after(journals: &[Replay], full: Mark, last: Mark) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (index, journal) in journals.iter().enumerate() {
        for (at, _) in journal.all_frames().filter(|(_, frame)| frame.kind == FrameKind::Sync) {
            let place = Mark { generation: journal.generation, offset: at as u64 };
            if place >= full && place < last {
                found.push((index, at));
            }
        }
    }
    found
}
