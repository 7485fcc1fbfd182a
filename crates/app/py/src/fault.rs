//! Faults by their names, which are those of `tranche fault`.

use nvme::admin::FaultKind;
use pyo3::{exceptions::PyValueError, prelude::*};

/// Kinds that can be ordered by name. Drives in a Python process have no ports, and a power cut is another order.
fn kinds() -> impl Iterator<Item = (&'static str, FaultKind)> {
    let other = |kind: FaultKind| kind.is_of_port() || kind.is_of_protocol() || kind == FaultKind::POWER_CUT;
    FaultKind::NAMES.into_iter().filter(move |(_, kind)| !other(*kind))
}

/// The fault of this name.
pub fn kind(name: &str) -> PyResult<FaultKind> {
    let found = kinds().find(|(known, _)| *known == name);
    found.map(|(_, kind)| kind).ok_or_else(|| {
        let all: Vec<&str> = kinds().map(|(name, _)| name).collect();
        PyValueError::new_err(format!("no fault {name:?}: {}", all.join(", ")))
    })
}
