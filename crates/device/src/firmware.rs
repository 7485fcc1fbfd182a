//! Firmware: images, slots, download, commit and activation (Base 5.1.8, 5.1.9, 3.11).
//!
//! The drive's firmware is its program; an image of it carries a revision, which the drive takes on when the image is
//! activated, and contents that nobody interprets. So updates can be tried out, with everything that hosts see of them.

use crate::contents::Contents;
use crate::core::{AsyncEvent, ControllerId, Cx, Failure, Outcome, Reply};
use crate::drive::Drive;
use media::Nanos;
use nvme::Status;
use nvme::admin::{CommitAction, FirmwareCommit, FirmwareImageDownload};
use nvme::log::{FirmwareCommitEvent, FirmwareSlots, PersistentEventType};
use nvme::zerocopy::IntoBytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Slots; the first is read-only and holds the firmware that the drive was made with.
pub(crate) const SLOTS: u8 = 4;

/// Largest image in bytes.
pub const MAX_FIRMWARE_IMAGE: usize = 1 << 20;

/// Pieces begin at multiples of so many bytes (FWUG, in units of 4 KiB).
pub(crate) const GRANULARITY_UNITS: u8 = 1;
const GRANULARITY: u64 = GRANULARITY_UNITS as u64 * 4096;

const MAGIC: &[u8; 8] = b"TRANCHFW";
const VERSION: u32 = 1;
/// Header of an image: magic (8), version (4), length of the contents (4), revision (8), reserved (8), digest (32).
const HEADER: usize = 64;
/// Of the header, what the digest covers.
const COVERED: usize = 32;

/// Why there is no firmware image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FirmwareImageError {
    /// The revision cannot stand in Identify.
    #[error(
        "a firmware revision has 1 to 8 printable ASCII characters, the first and last of which are no spaces"
    )]
    Revision,
    /// It would be too large.
    #[error("a firmware image has at most {max} bytes of contents", max = MAX_FIRMWARE_IMAGE - HEADER)]
    Size,
}

/// A firmware image for this drive, with a revision and contents that the drive does not interpret; whole dwords, as
/// Firmware Image Download wants them. [docs/vendor.md](../../../docs/vendor.md) has its layout.
///
/// # Errors
/// If the revision cannot be one, or the image would be too large.
pub fn firmware_image(revision: &str, contents: &[u8]) -> Result<Vec<u8>, FirmwareImageError> {
    if !is_revision(revision.as_bytes()) {
        return Err(FirmwareImageError::Revision);
    }
    let length = u32::try_from(contents.len()).map_err(|_| FirmwareImageError::Size)?;
    let total = (HEADER + contents.len()).next_multiple_of(4);
    if total > MAX_FIRMWARE_IMAGE {
        return Err(FirmwareImageError::Size);
    }
    let mut image = Vec::with_capacity(total);
    image.extend_from_slice(MAGIC);
    image.extend_from_slice(&VERSION.to_le_bytes());
    image.extend_from_slice(&length.to_le_bytes());
    image.extend_from_slice(&nvme::identify::ascii::<8>(revision));
    image.resize(COVERED, 0);
    let digest = Sha256::new().chain_update(&image).chain_update(contents).finalize();
    image.extend_from_slice(&digest);
    image.extend_from_slice(contents);
    image.resize(total, 0);
    Ok(image)
}

fn is_revision(text: &[u8]) -> bool {
    let spaced = text.first() == Some(&b' ') || text.last() == Some(&b' ');
    (1..=8).contains(&text.len()) && !spaced && text.iter().all(|b| (0x20..0x7F).contains(b))
}

/// The revision of an image, if it is one. What follows its contents is padding.
fn revision_of(image: &[u8]) -> Option<String> {
    let (header, rest) = image.split_at_checked(HEADER)?;
    let (covered, digest) = header.split_at(COVERED);
    let (start, reserved) = covered.split_at(24);
    let length = u32::from_le_bytes(start[12..16].try_into().ok()?);
    let contents = rest.get(..usize::try_from(length).ok()?)?;
    let right = start.starts_with(MAGIC)
        && start[8..12] == VERSION.to_le_bytes()
        && reserved.iter().all(|b| *b == 0)
        && Sha256::new().chain_update(covered).chain_update(contents).finalize()[..] == *digest;
    let text = start[16..24].trim_ascii_end();
    (right && is_revision(text)).then(|| String::from_utf8_lossy(text).into_owned())
}

/// Slots and what is in them, over power cycles.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Firmware {
    /// Revisions in slots 2 and up; `None` for an empty one.
    images: [Option<String>; SLOTS as usize - 1],
    /// The slot whose firmware runs.
    active: u8,
    /// The slot that is activated at the next reset; 0 for none.
    next: u8,
    /// The revision that runs, if another image came into its slot since: that one runs once it is activated.
    replaced: Option<String>,
}

impl Default for Firmware {
    fn default() -> Self {
        Firmware { images: Default::default(), active: 1, next: 0, replaced: None }
    }
}

impl Firmware {
    /// The revision in a slot from 2 up.
    fn image(&self, slot: u8) -> Option<&str> {
        self.images.get(usize::from(slot).checked_sub(2)?)?.as_deref()
    }

    /// Whether a slot has something to activate.
    fn is_there(&self, slot: u8) -> bool {
        slot == 1 || self.image(slot).is_some()
    }

    /// Puts an image into a slot from 2 up; what runs goes on running.
    fn replace(&mut self, slot: u8, revision: String) {
        let Some(place) = usize::from(slot).checked_sub(2).and_then(|i| self.images.get_mut(i)) else {
            return;
        };
        let before = place.replace(revision);
        if slot == self.active && self.replaced.is_none() {
            self.replaced = before;
        }
    }

    /// Runs what is in a slot.
    fn activate(&mut self, slot: u8) {
        (self.active, self.next, self.replaced) = (slot, 0, None);
    }

    /// Whether something is activated at the next reset.
    pub fn is_pending(&self) -> bool {
        self.next != 0
    }

    /// Where an image goes whose host leaves that to the drive: to an empty slot, or else to the one after the active.
    fn choose(&self) -> u8 {
        let empty = (2..=SLOTS).find(|slot| self.image(*slot).is_none());
        empty.unwrap_or(if self.active == SLOTS { 2 } else { self.active.max(1) + 1 })
    }

    /// Whether what was saved can be.
    pub fn check(&self) -> bool {
        let possible = |slot: u8| slot <= SLOTS && self.is_there(slot);
        let texts = self.images.iter().chain([&self.replaced]).flatten();
        let texts = texts.into_iter().all(|text| is_revision(text.as_bytes()));
        texts && possible(self.active) && (self.next == 0 || possible(self.next))
    }
}

/// An image that a controller's host downloads, in pieces by their offset.
#[derive(Default, Debug)]
pub(crate) struct Download {
    pieces: BTreeMap<u64, Vec<u8>>,
}

impl Download {
    /// Takes a piece.
    ///
    /// # Errors
    /// Overlapping Range if some of it is there, and nothing is kept then.
    fn add(&mut self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        let end = offset + data.len() as u64;
        let before = self.pieces.range(..end).next_back();
        if before.is_some_and(|(at, piece)| at + piece.len() as u64 > offset) {
            self.pieces.clear();
            return Err(Status::OVERLAPPING_RANGE.into());
        }
        self.pieces.insert(offset, data.to_vec());
        Ok(())
    }

    /// The whole image, if its pieces follow each other without gaps.
    fn image(self) -> Option<Vec<u8>> {
        let mut image = Vec::new();
        for (offset, piece) in self.pieces {
            (offset == image.len() as u64).then_some(())?;
            image.extend(piece);
        }
        Some(image)
    }
}

impl Drive {
    /// Revision of the firmware that runs, as Identify has it.
    pub(crate) fn firmware_revision(&self) -> [u8; 8] {
        let firmware = &self.core.persistent.firmware;
        match &firmware.replaced {
            Some(running) => nvme::identify::ascii(running),
            None => self.revision_in(firmware.active),
        }
    }

    fn revision_in(&self, slot: u8) -> [u8; 8] {
        let built_in = self.core.config.identity.firmware.as_str();
        nvme::identify::ascii(self.core.persistent.firmware.image(slot).unwrap_or(built_in))
    }

    /// Firmware Image Download.
    pub(crate) fn download_firmware(
        &mut self,
        id: ControllerId,
        c: FirmwareImageDownload,
        data: &[u8],
    ) -> Outcome {
        let (offset, bytes) = (u64::from(c.offset) * 4, c.dwords * 4);
        if bytes > u64::from(self.core.config.max_transfer) || offset + bytes > MAX_FIRMWARE_IMAGE as u64 {
            return Err(Failure::field(40));
        }
        if !offset.is_multiple_of(GRANULARITY) {
            return Err(Failure::field(44));
        }
        if data.len() as u64 != bytes {
            return Err(Status::DATA_SGL_LENGTH_INVALID.into());
        }
        self.core.controller_mut(id)?.download.add(offset, data)?;
        Ok(Reply::Done(0))
    }

    /// Firmware Commit.
    pub(crate) fn commit_firmware<S: Contents>(
        &mut self,
        id: ControllerId,
        c: FirmwareCommit,
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        let old = self.firmware_revision();
        let outcome = self.try_commit(id, c, cx);
        let slot = outcome.unwrap_or(c.fs);
        let status = outcome.err().map_or(Status::SUCCESS, |failure| failure.status);
        let event = FirmwareCommitEvent {
            old,
            new: if status.is_success() { self.revision_in(slot) } else { old },
            action: c.ca.0,
            slot,
            sct: status.sct().0,
            sc: status.sc(),
            ..FirmwareCommitEvent::default()
        };
        self.core.remember(cx.now, Some(id), PersistentEventType::FIRMWARE_COMMIT, event.as_bytes());
        self.core.record(cx.storage);
        outcome.map(|_| Reply::Done(0))
    }

    /// Does what Firmware Commit asks; the slot that it was done to.
    fn try_commit<S: Contents>(
        &mut self,
        id: ControllerId,
        c: FirmwareCommit,
        cx: &mut Cx<'_, S>,
    ) -> Result<u8, Failure> {
        // No boot partitions.
        if c.ca.name().is_none() || c.bpid {
            return Err(Failure::field(40));
        }
        if c.fs > SLOTS {
            return Err(Status::INVALID_FIRMWARE_SLOT.into());
        }
        let download = &mut self.core.controller_mut(id)?.download;
        let immediately = c.ca == CommitAction::ACTIVATE_IMMEDIATELY;
        let replaces = match c.ca {
            CommitAction::REPLACE | CommitAction::REPLACE_AND_ACTIVATE => true,
            _ => immediately && !download.pieces.is_empty(),
        };
        let slot = if replaces {
            if c.fs == 1 {
                return Err(Status::INVALID_FIRMWARE_SLOT.into());
            }
            // Whatever it was: it is gone, and the next piece begins another.
            let image = std::mem::take(download).image();
            let revision =
                image.and_then(|image| revision_of(&image)).ok_or(Status::INVALID_FIRMWARE_IMAGE)?;
            let slot = if c.fs == 0 { self.core.persistent.firmware.choose() } else { c.fs };
            self.core.persistent.firmware.replace(slot, revision);
            slot
        } else {
            c.fs
        };
        if slot == 0 {
            return Err(Status::INVALID_FIRMWARE_SLOT.into());
        }
        if !self.core.persistent.firmware.is_there(slot) {
            return Err(Status::INVALID_FIRMWARE_IMAGE.into());
        }
        match c.ca {
            CommitAction::REPLACE_AND_ACTIVATE | CommitAction::ACTIVATE => {
                self.core.persistent.firmware.next = slot
            }
            CommitAction::ACTIVATE_IMMEDIATELY => {
                self.core.persistent.firmware.activate(slot);
                self.announce_activation(cx);
            }
            _ => {}
        }
        Ok(slot)
    }

    /// Tells hosts of an activation without reset. It takes no time: CSTS.PP is never seen set.
    fn announce_activation<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        let mut answers = Vec::new();
        for (_, controller) in self.core.controllers.iter_mut() {
            let configuration = controller.values.events();
            answers.extend(controller.events.raise(AsyncEvent::FirmwareActivation, configuration));
        }
        for answer in answers {
            self.core.answer_event(answer, cx);
        }
    }

    /// A controller is reset, or power has come: what was to be activated then is. Whether there was something.
    pub(crate) fn activate_firmware(&mut self) -> bool {
        match self.core.persistent.firmware.next {
            0 => false,
            slot => {
                self.core.persistent.firmware.activate(slot);
                true
            }
        }
    }

    /// The Firmware Slot Information log.
    pub(crate) fn firmware_slots(&self) -> FirmwareSlots {
        let firmware = &self.core.persistent.firmware;
        let mut log = FirmwareSlots { afi: firmware.active | firmware.next << 4, ..FirmwareSlots::default() };
        for (slot, field) in (1..=SLOTS).zip(&mut log.frs) {
            if firmware.is_there(slot) {
                *field = self.revision_in(slot);
            }
        }
        log
    }

    /// What happens to firmware at every power on; `now` is when.
    pub(crate) fn start_firmware(&mut self, now: Nanos) {
        let activated = self.activate_firmware();
        self.remember_start(now, None, activated);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_what_was_made_or_nothing() {
        let image = firmware_image("2.0", b"contents").unwrap();
        assert_eq!(revision_of(&image), Some("2.0".into()));
        let mut padded = image.clone();
        padded.resize(8192, 0xFF);
        assert_eq!(revision_of(&padded), Some("2.0".into()));
        for i in 0..HEADER + 8 {
            let mut bad = image.clone();
            bad[i] ^= 1;
            assert_eq!(revision_of(&bad), None, "byte {i}");
        }
        for end in 0..HEADER + 8 {
            assert_eq!(revision_of(&image[..end]), None, "{end} bytes");
        }
        for bad in ["", "123456789", " 1", "1 ", "ä"] {
            assert_eq!(firmware_image(bad, &[]), Err(FirmwareImageError::Revision), "{bad:?}");
        }
        assert_eq!(firmware_image("1", &vec![0; MAX_FIRMWARE_IMAGE]), Err(FirmwareImageError::Size));
    }
}
