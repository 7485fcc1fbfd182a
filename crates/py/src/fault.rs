//! Faults by their names, which are those of `tranche fault`.

use nvme::admin::FaultKind;
use pyo3::{exceptions::PyValueError, prelude::*};

const KINDS: [(&str, FaultKind); 12] = [
    ("clear", FaultKind::CLEAR),
    ("bit-errors", FaultKind::BIT_ERRORS),
    ("uncorrectable", FaultKind::UNCORRECTABLE),
    ("program-failure", FaultKind::PROGRAM_FAILURE),
    ("erase-failure", FaultKind::ERASE_FAILURE),
    ("stuck-die", FaultKind::STUCK_DIE),
    ("lost-write", FaultKind::LOST_WRITE),
    ("misdirected-write", FaultKind::MISDIRECTED_WRITE),
    ("weak-page", FaultKind::WEAK_PAGE),
    ("slow", FaultKind::SLOW),
    ("host-disk-full", FaultKind::HOST_DISK_FULL),
    ("host-disk-error", FaultKind::HOST_DISK_ERROR),
];

/// The fault of this name.
pub fn kind(name: &str) -> PyResult<FaultKind> {
    let found = KINDS.iter().find(|(known, _)| *known == name);
    found.map(|(_, kind)| *kind).ok_or_else(|| {
        let all = KINDS.map(|(name, _)| name).join(", ");
        PyValueError::new_err(format!("no fault {name:?}: {all}"))
    })
}
