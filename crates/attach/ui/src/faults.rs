//! Faults that a page can ask for, by the names of `tranche fault`.

use nvme::admin::FaultKind;
use serde_json::{Value, json};

/// Kinds of faults that a page can order, by their names. Faults of ports and of the host's disk are not among them: they are no part
/// of what the view shows. Nor is a planned power cut, which is another order.
pub(crate) fn kinds() -> impl Iterator<Item = (&'static str, FaultKind)> {
    let other = |kind: FaultKind| {
        kind.is_of_port() || kind.is_of_host_disk() || kind.is_of_protocol() || kind == FaultKind::POWER_CUT
    };
    FaultKind::NAMES.into_iter().filter(move |(_, kind)| !other(*kind))
}

/// A kind for the page: whether a number of the next operations can fail, and what its parameter is.
pub(crate) fn document((name, kind): (&str, FaultKind)) -> Value {
    let parameter = match kind {
        FaultKind::STUCK_DIE => Some("die"),
        FaultKind::SLOW => Some("factor"),
        _ => None,
    };
    json!({ "kind": name, "counted": kind.is_counted(), "parameter": parameter })
}
