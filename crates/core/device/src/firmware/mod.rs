//! Firmware: images, slots, download, commit and activation (Base 5.1.8, 5.1.9, 3.11).
//!
//! The drive's firmware is its program. An image carries a revision, which the drive shows once the image is activated, and
//! contents that the drive does not interpret. So updates can be tried out, with all that hosts see of them.
//!
//! Slots are persistent, so they lie in the core ([`slots`]). Each controller holds its host's [`download`]. This component
//! is functions over both.

pub(crate) mod download;
mod image;
pub(crate) mod slots;

pub use image::{FirmwareImageError, MAX_FIRMWARE_IMAGE, firmware_image};
pub(crate) use slots::SLOTS;

use crate::contents::Contents;
use crate::core::{AdminResult, AsyncEvent, ControllerId, Core, Cx, Failure, Reply};
use nvme::Status;
use nvme::admin::{CommitAction, FirmwareCommit, FirmwareImageDownload};
use nvme::log::{FirmwareCommitEvent, FirmwareSlots, PersistentEventType};
use nvme::zerocopy::IntoBytes;

/// Pieces begin at multiples of so many units of 4 KiB (FWUG).
pub(crate) const GRANULARITY_UNITS: u8 = 1;
const GRANULARITY: u64 = GRANULARITY_UNITS as u64 * 4096;

/// Revision of the running firmware, as Identify has it.
pub(crate) fn revision(core: &Core) -> [u8; 8] {
    core.persistent.firmware.running(&core.config.identity.firmware)
}

/// Firmware Image Download.
pub(crate) fn download(
    core: &mut Core,
    id: ControllerId,
    c: FirmwareImageDownload,
    data: &[u8],
) -> AdminResult {
    let (offset, bytes) = (u64::from(c.offset) * 4, c.dwords * 4);
    if bytes > u64::from(core.config.max_transfer) || offset + bytes > MAX_FIRMWARE_IMAGE as u64 {
        return Err(Failure::field(40));
    }
    if !offset.is_multiple_of(GRANULARITY) {
        return Err(Failure::field(44));
    }
    if data.len() as u64 != bytes {
        return Err(Status::DATA_SGL_LENGTH_INVALID.into());
    }
    core.controller_mut(id)?.download.add(offset, data).map_err(|_| Status::OVERLAPPING_RANGE)?;
    Ok(Reply::Done(0))
}

/// Firmware Commit. The Persistent Event log notes it, whether it succeeds or not.
pub(crate) fn commit<S: Contents>(
    core: &mut Core,
    id: ControllerId,
    c: FirmwareCommit,
    cx: &mut Cx<'_, S>,
) -> AdminResult {
    let old = revision(core);
    let outcome = try_commit(core, id, c, cx);
    let slot = outcome.unwrap_or(c.fs);
    let status = outcome.err().map_or(Status::SUCCESS, |failure| failure.status);
    let committed = || core.persistent.firmware.revision_in(slot, &core.config.identity.firmware);
    let event = FirmwareCommitEvent {
        old,
        new: if status.is_success() { committed() } else { old },
        action: c.ca.0,
        slot,
        sct: status.sct().0,
        sc: status.sc(),
        ..FirmwareCommitEvent::default()
    };
    core.remember(cx.now, Some(id), PersistentEventType::FIRMWARE_COMMIT, event.as_bytes());
    core.record(cx.storage);
    outcome.map(|_| Reply::Done(0))
}

/// Does what Firmware Commit asks. Returns the slot that it was done to.
fn try_commit<S: Contents>(
    core: &mut Core,
    id: ControllerId,
    c: FirmwareCommit,
    cx: &mut Cx<'_, S>,
) -> Result<u8, Failure> {
    // There are no boot partitions.
    if c.ca.name().is_none() || c.bpid {
        return Err(Failure::field(40));
    }
    if c.fs > SLOTS {
        return Err(Status::INVALID_FIRMWARE_SLOT.into());
    }
    let download = &mut core.controller_mut(id)?.download;
    let replaces = match c.ca {
        CommitAction::REPLACE | CommitAction::REPLACE_AND_ACTIVATE => true,
        CommitAction::ACTIVATE_IMMEDIATELY => !download.is_empty(),
        _ => false,
    };
    let slot = if replaces {
        if c.fs == 1 {
            return Err(Status::INVALID_FIRMWARE_SLOT.into());
        }
        // The download ends here, whether it is an image or not. The next piece begins another one.
        let image = std::mem::take(download).image();
        let revision =
            image.and_then(|image| image::revision_of(&image)).ok_or(Status::INVALID_FIRMWARE_IMAGE)?;
        let slot = if c.fs == 0 { core.persistent.firmware.choose() } else { c.fs };
        core.persistent.firmware.replace(slot, revision);
        slot
    } else {
        c.fs
    };
    if slot == 0 {
        return Err(Status::INVALID_FIRMWARE_SLOT.into());
    }
    let slots = &mut core.persistent.firmware;
    if !slots.is_there(slot) {
        return Err(Status::INVALID_FIRMWARE_IMAGE.into());
    }
    match c.ca {
        CommitAction::REPLACE_AND_ACTIVATE | CommitAction::ACTIVATE => slots.next = slot,
        CommitAction::ACTIVATE_IMMEDIATELY => {
            slots.activate(slot);
            // Activation takes no time: CSTS.PP is never seen set.
            core.raise_for_all(AsyncEvent::FirmwareActivation, cx);
        }
        _ => {}
    }
    Ok(slot)
}

/// A reset, or power on: the image that waits for it is activated. Returns whether there was one.
pub(crate) fn activate_pending(core: &mut Core) -> bool {
    let slots = &mut core.persistent.firmware;
    let pending = slots.is_pending();
    if pending {
        slots.activate(slots.next);
    }
    pending
}

/// The Firmware Slot Information log.
pub(crate) fn log(core: &Core) -> FirmwareSlots {
    core.persistent.firmware.log(&core.config.identity.firmware)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use ftl::NoContents;
    use media::Nanos;

    fn commit_of(fs: u8, ca: CommitAction) -> FirmwareCommit {
        FirmwareCommit { fs, ca, bpid: false }
    }

    #[test]
    fn a_downloaded_image_runs_after_the_reset() {
        let mut core = fixture::core();
        let id = fixture::connect(&mut core, 1);
        let (mut storage, mut out) = (NoContents, Vec::new());
        let mut cx = Cx { now: Nanos::ZERO, storage: &mut storage, out: &mut out };
        let before = revision(&core);
        let image = firmware_image("9.1", b"contents").unwrap();
        let piece = FirmwareImageDownload { offset: 0, dwords: image.len() as u64 / 4 };
        assert!(download(&mut core, id, piece, &image).is_ok());
        assert!(commit(&mut core, id, commit_of(2, CommitAction::REPLACE_AND_ACTIVATE), &mut cx).is_ok());
        assert_eq!((revision(&core), log(&core).afi), (before, 0x21));
        assert!(activate_pending(&mut core));
        assert!(!activate_pending(&mut core));
        assert_eq!(&revision(&core), b"9.1     ");
    }

    #[test]
    fn commits_of_nothing_and_of_wrong_slots_fail() {
        let mut core = fixture::core();
        let id = fixture::connect(&mut core, 1);
        let (mut storage, mut out) = (NoContents, Vec::new());
        let mut cx = Cx { now: Nanos::ZERO, storage: &mut storage, out: &mut out };
        let cases = [
            (5, CommitAction::ACTIVATE, Status::INVALID_FIRMWARE_SLOT),
            (0, CommitAction::ACTIVATE, Status::INVALID_FIRMWARE_SLOT),
            (1, CommitAction::REPLACE, Status::INVALID_FIRMWARE_SLOT),
            (2, CommitAction::ACTIVATE, Status::INVALID_FIRMWARE_IMAGE),
            (2, CommitAction::REPLACE, Status::INVALID_FIRMWARE_IMAGE),
        ];
        for (slot, action, status) in cases {
            let outcome = commit(&mut core, id, commit_of(slot, action), &mut cx);
            assert!(outcome.err().is_some_and(|failure| failure.status.is(status)), "{slot} {action:?}");
        }
        let beyond = FirmwareImageDownload { offset: 1, dwords: 1 };
        assert_eq!(download(&mut core, id, beyond, &[0; 4]).err(), Some(Failure::field(44)));
    }
}
