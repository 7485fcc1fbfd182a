//! Faults that a page can ask for, by the names of `tranche fault`.

use nvme::admin::FaultKind;

/// A kind of fault.
pub(crate) struct FaultName {
    pub name: &'static str,
    pub kind: FaultKind,
    /// Whether so many of the next operations can fail.
    pub counted: bool,
    /// What its parameter is.
    pub parameter: Option<&'static str>,
}

const fn fault(name: &'static str, kind: FaultKind) -> FaultName {
    FaultName { name, kind, counted: false, parameter: None }
}

const fn counted(name: &'static str, kind: FaultKind) -> FaultName {
    FaultName { counted: true, ..fault(name, kind) }
}

/// All of them. Those of ports and of the host's disk are not among them: they are no part of what the view shows.
pub(crate) const FAULTS: &[FaultName] = &[
    fault("clear", FaultKind::CLEAR),
    fault("bit-errors", FaultKind::BIT_ERRORS),
    counted("uncorrectable", FaultKind::UNCORRECTABLE),
    counted("program-failure", FaultKind::PROGRAM_FAILURE),
    counted("erase-failure", FaultKind::ERASE_FAILURE),
    FaultName { parameter: Some("die"), ..fault("stuck-die", FaultKind::STUCK_DIE) },
    fault("lost-write", FaultKind::LOST_WRITE),
    fault("misdirected-write", FaultKind::MISDIRECTED_WRITE),
    fault("weak-page", FaultKind::WEAK_PAGE),
    FaultName { parameter: Some("factor"), ..fault("slow", FaultKind::SLOW) },
];
