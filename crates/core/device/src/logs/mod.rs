//! Log pages that are about the drive as a whole.

pub(crate) mod capacity;
mod controllers;
pub(crate) mod die_times;
mod effects;
pub(crate) mod injected_faults;
pub(crate) mod rotational;
pub(crate) mod set_map;

pub(crate) use controllers::controllers;
pub(crate) use effects::{command_effects, feature_effects};

use crate::core::{Core, Failure};
use ftl::SetId;

/// The NVM Set that a log is about.
///
/// # Errors
/// Invalid Field in Command if there is no such set.
fn set_at(core: &Core, nvmsetid: u16) -> Result<SetId, Failure> {
    let index = nvmsetid.checked_sub(1).and_then(|index| u8::try_from(index).ok());
    let is_there = |set: &SetId| usize::from(set.0) < core.config.ftl.sets.len();
    index.map(SetId).filter(is_there).ok_or(Failure::field(46))
}

/// So many bytes of a log from an offset; zeros beyond its end.
///
/// # Errors
/// Invalid Field in Command for an offset beyond the log.
pub(crate) fn part_of(log: &[u8], offset: u64, length: usize) -> Result<Vec<u8>, Failure> {
    let available = usize::try_from(offset).ok().and_then(|o| log.get(o..)).ok_or(Failure::field(48))?;
    let count = available.len().min(length);
    let mut bytes = vec![0; length];
    bytes[..count].copy_from_slice(&available[..count]);
    Ok(bytes)
}
