//! Faults by their names, which are those of `tranche fault`.

use nvme::admin::FaultKind;
use pyo3::{exceptions::PyValueError, prelude::*};

/// Kinds that can be ordered by name. Drives in a Python process have no ports, and a power cut is another order.
fn kinds() -> impl Iterator<Item = (&'static str, FaultKind)> {
    FaultKind::NAMES.into_iter().filter(|(_, kind)| !kind.is_of_port() && *kind != FaultKind::POWER_CUT)
}

/// The fault of this name.
pub fn kind(name: &str) -> PyResult<FaultKind> {
    let found = kinds().find(|(known, _)| *known == name);
    found.map(|(_, kind)| kind).ok_or_else(|| {
        let all: Vec<&str> = kinds().map(|(name, _)| name).collect();
        PyValueError::new_err(format!("no fault {name:?}: {}", all.join(", ")))
    })
}
