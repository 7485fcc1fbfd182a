//! Rotational Media Information (Base 5.1.12.1.22): how fast the medium of an Endurance Group turns.

use crate::core::{Core, Failure};
use ftl::{MediaKind, SetId};
use nvme::log::RotationalMedia;
use nvme::{U16, U32};

/// Whether any set is a disk.
pub(crate) fn is_supported(core: &Core) -> bool {
    core.sets().any(|(_, info)| info.media == MediaKind::Disk)
}

/// The log of an Endurance Group.
///
/// # Errors
/// Invalid Field if there is no such group, or its medium does not turn.
pub(crate) fn log(core: &Core, endgid: u16) -> Result<RotationalMedia, Failure> {
    let index = usize::from(endgid).checked_sub(1).and_then(|i| u8::try_from(i).ok());
    let set = SetId(index.ok_or(Failure::field(46))?);
    let rpm = core.set_properties(set).rpm;
    if rpm == 0 {
        return Err(Failure::field(46));
    }
    // The platters begin to turn and the heads are loaded with each power cycle.
    let starts = U32::new(u32::try_from(core.persistent.power_cycles).unwrap_or(u32::MAX));
    Ok(RotationalMedia {
        endgid: U16::new(endgid),
        numa: U16::new(1),
        nrs: U16::new(u16::try_from(rpm).unwrap_or(0)),
        spinc: starts,
        ldc: starts,
        ..RotationalMedia::default()
    })
}
