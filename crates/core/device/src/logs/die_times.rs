//! Vendor specific log DBh: for how long each die of an NVM Set was asked to work.

use super::set_at;
use crate::core::{Core, Failure};
use media::{DieTimes, Nanos};
use nvme::log::{DieTimesEntry, DieTimesHeader};
use nvme::zerocopy::IntoBytes;
use nvme::{U16, U32, U64};

/// The log of an NVM Set, for administrators.
///
/// # Errors
/// Invalid Field if there is no such set.
pub(crate) fn log(core: &Core, nvmsetid: u16, now: Nanos) -> Result<Vec<u8>, Failure> {
    let dies = core.ftl.unit_times(set_at(core, nvmsetid)?).unwrap_or_default();
    let header = DieTimesHeader {
        version: U16::new(DieTimesHeader::VERSION),
        nvmsetid: U16::new(nvmsetid),
        header_bytes: U16::new(size_of::<DieTimesHeader>() as u16),
        entry_bytes: U16::new(size_of::<DieTimesEntry>() as u16),
        entries: U32::new(dies.len() as u32),
        time_ns: U64::new(now.since(core.power.since).0),
        ..DieTimesHeader::default()
    };
    let entry = |die: &DieTimes| DieTimesEntry {
        read_ns: U64::new(die.reads),
        program_ns: U64::new(die.programs),
        erase_ns: U64::new(die.erases),
        ..DieTimesEntry::default()
    };
    let mut bytes = header.as_bytes().to_vec();
    dies.iter().for_each(|die| bytes.extend_from_slice(entry(die).as_bytes()));
    Ok(bytes)
}
