//! The files of an image's directory: names, reading, and the journal that is written to.

use super::error::ImageError;
use super::format::{self, FrameKind, HEADER, Header, Kind, Mark};
use media::Nanos;
use rustix::fs::{FallocateFlags, FlockOperation};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The drive's configuration, as TOML.
pub(crate) const CONFIG: &str = "drive.toml";
/// Slot `n` at byte `n * 4096`.
pub(crate) const CONTENTS: &str = "contents";
pub(crate) const SPARES: &str = "spares";
const LOCK: &str = "lock";

pub(crate) fn checkpoint_path(dir: &Path, generation: u64) -> PathBuf {
    dir.join(format!("checkpoint.{generation}"))
}

pub(crate) fn journal_path(dir: &Path, generation: u64) -> PathBuf {
    dir.join(format!("journal.{generation}"))
}

/// Which boot of the host this is; a host that does not tell counts as booted anew each time.
pub(crate) fn boot() -> u64 {
    match std::fs::read("/proc/sys/kernel/random/boot_id") {
        Ok(id) => format::fold_boot(&id),
        Err(_) => u64::from_le_bytes(random()),
    }
}

/// Random bytes for identifiers.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) != Ok(N) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let seed = format::crc(&now.as_nanos().to_le_bytes()) ^ u64::from(std::process::id());
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = seed.rotate_left(i as u32 * 7).to_le_bytes()[i % 8];
        }
    }
    bytes
}

/// Takes the lock that keeps a second process out; it lives as long as the returned file.
pub(crate) fn lock(dir: &Path) -> Result<File, ImageError> {
    let path = dir.join(LOCK);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(ImageError::io("open", &path))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut holder = String::new();
            let _ = (&file).take(20).read_to_string(&mut holder);
            let holder =
                if holder.trim().is_empty() { "unknown".to_owned() } else { holder.trim().to_owned() };
            return Err(ImageError::Locked { path: dir.to_owned(), holder });
        }
        Err(e) => return Err(ImageError::io("lock", &path)(e.into())),
    }
    // Only for the message above; that it cannot be written is no reason to refuse the image.
    let _ =
        file.set_len(0).and_then(|()| file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0));
    Ok(file)
}

/// Generations of which there is a checkpoint, and of which there is a journal, in ascending order.
pub(crate) fn generations(dir: &Path) -> Result<(Vec<u64>, Vec<u64>), ImageError> {
    let (mut checkpoints, mut journals) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(dir).map_err(ImageError::io("list", dir))? {
        let name = entry.map_err(ImageError::io("list", dir))?.file_name();
        let Some((stem, number)) = name.to_str().and_then(|n| n.split_once('.')) else { continue };
        let Ok(generation) = number.parse() else { continue };
        match stem {
            "checkpoint" => checkpoints.push(generation),
            "journal" => journals.push(generation),
            _ => {}
        }
    }
    checkpoints.sort_unstable();
    journals.sort_unstable();
    Ok((checkpoints, journals))
}

/// Reads and checks a checkpoint.
pub(crate) fn read_checkpoint(dir: &Path, generation: u64) -> Result<(Header, Vec<u8>), ImageError> {
    let path = checkpoint_path(dir, generation);
    let mut file = File::open(&path).map_err(ImageError::io("open", &path))?;
    let mut head = Vec::with_capacity(HEADER);
    (&file).take(HEADER as u64).read_to_end(&mut head).map_err(ImageError::io("read", &path))?;
    let header = Header::decode(Kind::Checkpoint, &head).map_err(ImageError::format(&path))?;
    let found = file.metadata().map_err(ImageError::io("read", &path))?.len();
    // Compared before anything is allocated: the length is only a number in a file.
    if found != header.body.saturating_add(HEADER as u64) {
        return Err(ImageError::format(&path)(format::FormatError::Truncated(found)));
    }
    let mut body = Vec::with_capacity(header.body as usize);
    file.read_to_end(&mut body).map_err(ImageError::io("read", &path))?;
    if body.len() as u64 != header.body {
        return Err(ImageError::format(&path)(format::FormatError::Truncated(found)));
    }
    if format::crc(&body) != header.body_crc {
        return Err(ImageError::format(&path)(format::FormatError::Checksum));
    }
    if header.generation != generation {
        return Err(ImageError::format(&path)(format::FormatError::Mixed));
    }
    Ok((header, body))
}

/// Writes a checkpoint so that it is either complete under its name or not there at all.
pub(crate) fn write_checkpoint(
    dir: &Path,
    header: &Header,
    body: &[u8],
    sync: bool,
) -> Result<(), ImageError> {
    let path = checkpoint_path(dir, header.generation);
    let temporary = dir.join("checkpoint.new");
    let write = || -> io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(&header.encode())?;
        file.write_all(body)?;
        if sync {
            file.sync_data()?;
        }
        std::fs::rename(&temporary, &path)
    };
    if let Err(e) = write() {
        let _ = std::fs::remove_file(&temporary);
        return Err(ImageError::io("write", &path)(e));
    }
    if sync { sync_directory(dir) } else { Ok(()) }
}

/// Makes names in a directory durable.
pub(crate) fn sync_directory(dir: &Path) -> Result<(), ImageError> {
    File::open(dir).and_then(|d| d.sync_all()).map_err(ImageError::io("sync", dir))
}

/// Removes the generations below `keep`; what cannot be removed only takes up room.
pub(crate) fn remove_below(dir: &Path, keep: u64) {
    if let Ok((checkpoints, journals)) = generations(dir) {
        for old in checkpoints.into_iter().filter(|&g| g < keep) {
            let _ = std::fs::remove_file(checkpoint_path(dir, old));
        }
        for old in journals.into_iter().filter(|&g| g < keep) {
            let _ = std::fs::remove_file(journal_path(dir, old));
        }
    }
}

/// Bytes that are set aside for the journal at a time.
const RESERVE: u64 = 4 << 20;
/// Bytes that must be left of them; the records of one step need less.
const MARGIN: u64 = 2 << 20;

/// The journal that is written to, and those before it that may not be on the disk yet.
pub(crate) struct Journal {
    dir: PathBuf,
    file: File,
    header: Header,
    offset: u64,
    sequence: u64,
    reserved: u64,
    /// The host's disk has no room to set aside.
    pub(crate) tight: bool,
    /// Earlier journals whose ends are not known to be on the disk.
    pub(crate) unsynced: Vec<File>,
    /// Whether a file was made since the directory was synced.
    pub(crate) unsynced_names: bool,
}

impl Journal {
    /// Starts the journal of a generation.
    pub(crate) fn create(
        dir: &Path,
        image: [u8; 16],
        generation: u64,
        time: Nanos,
    ) -> Result<Self, ImageError> {
        let header = Header {
            kind: Kind::Journal,
            image,
            generation,
            boot: boot(),
            time,
            body: 0,
            body_crc: 0,
            clean: false,
        };
        let path = journal_path(dir, generation);
        let make = || -> io::Result<File> {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
            file.write_all_at(&header.encode(), 0)?;
            Ok(file)
        };
        let file = make().map_err(ImageError::io("create", &path))?;
        let mut journal = Journal {
            dir: dir.to_owned(),
            file,
            header,
            offset: HEADER as u64,
            sequence: 0,
            reserved: 0,
            tight: false,
            unsynced: Vec::new(),
            unsynced_names: true,
        };
        journal.reserve();
        Ok(journal)
    }

    /// Where the next frame goes.
    pub(crate) fn mark(&self) -> Mark {
        Mark { generation: self.header.generation, offset: self.offset }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.header.generation
    }

    /// Sets room aside, so that records of what has happened can always be written.
    pub(crate) fn reserve(&mut self) {
        if self.offset + MARGIN <= self.reserved {
            self.tight = false;
            return;
        }
        let end = (self.offset + MARGIN).next_multiple_of(RESERVE);
        let span = end - self.reserved;
        self.tight = match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.reserved, span) {
            Ok(()) => {
                self.reserved = end;
                false
            }
            Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT | rustix::io::Errno::FBIG) => true,
            // A file system that cannot set room aside: errors come when they come.
            Err(_) => {
                self.reserved = end;
                false
            }
        };
    }

    /// Writes one frame. `frame` is what [`format::begin_frame`] began at its start, with the payload.
    pub(crate) fn append(&mut self, frame: &mut Vec<u8>, kind: FrameKind, time: Nanos) -> io::Result<()> {
        format::end_frame(frame, 0, kind, self.sequence, time, self.header.salt());
        self.file.write_all_at(frame, self.offset)?;
        self.offset += frame.len() as u64;
        self.sequence += 1;
        self.reserve();
        Ok(())
    }

    /// Writes a frame with this payload.
    pub(crate) fn append_small(&mut self, kind: FrameKind, payload: &[u8], time: Nanos) -> io::Result<()> {
        let mut frame = Vec::with_capacity(format::FRAME + payload.len());
        format::begin_frame(&mut frame);
        frame.extend_from_slice(payload);
        self.append(&mut frame, kind, time)
    }

    /// Goes over to the next generation's journal.
    pub(crate) fn switch(&mut self, time: Nanos) -> Result<(), ImageError> {
        let next = Journal::create(&self.dir, self.header.image, self.header.generation + 1, time)?;
        let path = journal_path(&self.dir, self.header.generation);
        if let Err(e) = self.append_small(FrameKind::End, &[], time) {
            let _ = std::fs::remove_file(journal_path(&self.dir, next.header.generation));
            return Err(ImageError::io("write", &path)(e));
        }
        // Gives back what was set aside beyond the end.
        let _ = self.file.set_len(self.offset);
        let old = std::mem::replace(self, next);
        self.unsynced = old.unsynced;
        self.unsynced.push(old.file);
        Ok(())
    }

    /// The files to sync so that everything up to now is on the disk.
    pub(crate) fn to_sync(&self) -> io::Result<Vec<File>> {
        self.unsynced.iter().chain([&self.file]).map(File::try_clone).collect()
    }

    pub(crate) fn image(&self) -> [u8; 16] {
        self.header.image
    }

    /// Bytes in the journal.
    pub(crate) fn bytes(&self) -> u64 {
        self.offset
    }
}
