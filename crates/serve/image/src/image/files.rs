//! The files of an image's directory: their names, and checkpoints.

use super::disk::{self, Disk, DiskFile, Open};
use super::error::ImageError;
use super::format::{self, FormatError, HEADER, Header, ImageFileKind};
use media::Nanos;
use std::path::PathBuf;
use std::sync::Arc;

/// The drive's configuration, as TOML.
pub const CONFIG: &str = "drive.toml";
/// Slot `n` at byte `n * 4096`.
pub const CONTENTS: &str = "contents";
/// What slots hold beside their pages: slot `n` at byte `n * 128`.
pub const SPARES: &str = "spares";
/// A checkpoint that is being written.
const NEW: &str = "checkpoint.new";

/// The name of a generation's checkpoint.
pub fn checkpoint_name(generation: u64) -> String {
    format!("checkpoint.{generation}")
}

/// The name of a generation's journal.
pub fn journal_name(generation: u64) -> String {
    format!("journal.{generation}")
}

/// Opens a file of the directory.
pub(super) fn open(disk: &dyn Disk, name: &str, how: Open) -> Result<Arc<dyn DiskFile>, ImageError> {
    disk.open(name, how).map_err(ImageError::io("open", &path(disk, name)))
}

pub(crate) fn path(disk: &dyn Disk, name: &str) -> PathBuf {
    disk.path().join(name)
}

/// Generations of which there is a checkpoint, and of which there is a journal, in ascending order.
pub fn generations(disk: &dyn Disk) -> Result<(Vec<u64>, Vec<u64>), ImageError> {
    let (mut checkpoints, mut journals) = (Vec::new(), Vec::new());
    for name in disk.names().map_err(ImageError::io("list", disk.path()))? {
        let Some((stem, number)) = name.split_once('.') else { continue };
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

/// What a checkpoint holds.
pub(crate) struct Saved {
    pub header: Header,
    /// The drive's state, as it encoded it.
    pub state: Vec<u8>,
    /// Checksums of slots, by their number.
    pub sums: Vec<u32>,
}

/// The body of a checkpoint: the drive's state and the checksums of slots, each with its length before it.
pub(crate) fn body(state: &[u8], sums: &[u32]) -> Vec<u8> {
    let mut body = Vec::with_capacity(state.len() + sums.len() * 4 + 16);
    body.extend_from_slice(&(state.len() as u64).to_le_bytes());
    body.extend_from_slice(state);
    body.extend_from_slice(&(sums.len() as u64 * 4).to_le_bytes());
    body.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
    body
}

/// Takes a body apart. Up to version 2 it was the drive's state alone.
fn parts(header: &Header, mut body: Vec<u8>) -> Result<(Vec<u8>, Vec<u32>), FormatError> {
    if header.version < format::FIRST_LINKED_VERSION {
        return Ok((body, Vec::new()));
    }
    let cut = FormatError::Truncated(body.len() as u64);
    let part = |bytes: &[u8]| -> Option<usize> {
        let (len, rest) = bytes.split_first_chunk::<8>()?;
        usize::try_from(u64::from_le_bytes(*len)).ok().filter(|&len| len <= rest.len())
    };
    let len = part(&body).ok_or(cut.clone())?;
    let sums = body.split_off(8 + len);
    let bytes = part(&sums).and_then(|len| sums.get(8..8 + len)).ok_or(cut)?;
    let sums = bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
    body.drain(..8);
    Ok((body, sums))
}

/// Reads and checks a checkpoint. Its header must promise as many bytes as the file has before room is made for them.
pub(crate) fn read_checkpoint(disk: &dyn Disk, generation: u64) -> Result<Saved, ImageError> {
    let name = checkpoint_name(generation);
    let path = path(disk, &name);
    let head = disk.read_head(&name, HEADER).map_err(ImageError::io("read", &path))?;
    let header = Header::decode(ImageFileKind::Checkpoint, &head).map_err(ImageError::format(&path))?;
    let len = disk.len(&name).map_err(ImageError::io("read", &path))?;
    if len != header.body.saturating_add(HEADER as u64) {
        return Err(ImageError::format(&path)(FormatError::Truncated(len)));
    }
    let mut bytes = disk.read(&name).map_err(ImageError::io("read", &path))?;
    let wrong = match bytes.get(HEADER..) {
        None => Some(FormatError::Truncated(bytes.len() as u64)),
        Some(body) if format::crc(body) != header.body_crc => Some(FormatError::Checksum),
        Some(_) if header.generation != generation => Some(FormatError::Mixed),
        Some(_) => None,
    };
    if let Some(wrong) = wrong {
        return Err(ImageError::format(&path)(wrong));
    }
    bytes.drain(..HEADER);
    let (state, sums) = parts(&header, bytes).map_err(ImageError::format(&path))?;
    Ok(Saved { header, state, sums })
}

/// The drive's clock when a checkpoint was written, if at least its header is intact.
pub(crate) fn time_of_checkpoint(disk: &dyn Disk, generation: u64) -> Option<Nanos> {
    let head = disk.read_head(&checkpoint_name(generation), HEADER).ok()?;
    Header::decode(ImageFileKind::Checkpoint, &head).ok().map(|header| header.time)
}

/// Writes a checkpoint beside the others; it counts when [`rename_checkpoint`] has given it its name.
pub fn write_checkpoint(disk: &dyn Disk, header: &Header, body: &[u8]) -> Result<(), ImageError> {
    let written = disk::write_all(disk, NEW, &[&header.encode(), body], false);
    written.map_err(|e| {
        let _ = disk.remove(NEW);
        ImageError::io("write", &path(disk, NEW))(e)
    })
}

/// Makes the bytes of a checkpoint that was written durable.
pub(crate) fn sync_checkpoint(disk: &dyn Disk) -> Result<(), ImageError> {
    let file = disk.open(NEW, Open::Existing);
    file.and_then(|file| file.sync()).map_err(ImageError::io("sync", &path(disk, NEW)))
}

/// Gives a checkpoint that was written its name.
pub fn rename_checkpoint(disk: &dyn Disk, generation: u64) -> Result<(), ImageError> {
    let name = checkpoint_name(generation);
    disk.rename(NEW, &name).map_err(ImageError::io("rename a file to", &path(disk, &name)))
}

/// Makes names in the directory durable.
pub(crate) fn sync_names(disk: &dyn Disk) -> Result<(), ImageError> {
    disk.sync_names().map_err(ImageError::io("sync", disk.path()))
}

/// The files of the generations below `keep`. Journals come last, oldest first. So a crash in between leaves
/// no journal that leads anywhere.
pub(crate) fn below(disk: &dyn Disk, keep: u64) -> Result<Vec<String>, ImageError> {
    let (checkpoints, journals) = generations(disk)?;
    let old = |all: Vec<u64>, name: fn(u64) -> String| all.into_iter().filter(move |&g| g < keep).map(name);
    Ok(old(checkpoints, checkpoint_name).chain(old(journals, journal_name)).collect())
}

/// Removes a file.
pub(crate) fn remove(disk: &dyn Disk, name: &str) -> Result<(), ImageError> {
    disk.remove(name).map_err(ImageError::io("remove", &path(disk, name)))
}
