//! Drives with their ways from the host, and what of the host is swept.

use lab_engines::machine::Controller;

/// A kind of drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Nvme,
    Sas,
    Disk,
}

/// A drive with its way from the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Setup {
    pub name: &'static str,
    pub about: &'static str,
    pub kind: Kind,
    pub controller: Option<Controller>,
}

const fn setup(name: &'static str, kind: Kind, controller: Option<Controller>, about: &'static str) -> Setup {
    Setup { name, about, kind, controller }
}

pub(super) const SETUPS: [Setup; 5] = [
    setup("nvme", Kind::Nvme, None, "The NVMe drive, with a queue for each processor."),
    setup("sas-ssd", Kind::Sas, Some(Controller::H730p), "The SAS SSD on a PERC H730P, as published."),
    setup(
        "sas-ssd-h330",
        Kind::Sas,
        Some(Controller::H330),
        "The same on a PERC H330, without a write cache.",
    ),
    setup("hdd", Kind::Disk, Some(Controller::H730p), "The hard disk on a PERC H730P."),
    setup("hdd-h330", Kind::Disk, Some(Controller::H330), "The same on a PERC H330."),
];

/// Nanoseconds of the lock of a request queue that are tried.
pub(super) const LOCKS: [u64; 4] = [0, 2_000, 4_000, 8_000];
/// Nanoseconds of a processor for a request, submission and completion, that are tried.
pub(super) const PROCESSOR: [u64; 3] = [0, 5_000, 20_000];
