//! What is compared.

use tier::{Mode, PolicyKind};

use super::options::Options;
use lab_report::results::Point;

/// What the database lies on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Store {
    Disk,
    Nvme,
    /// The disk with a cache on the NVMe drive.
    Cache {
        mode: Mode,
        policy: PolicyKind,
    },
}

/// What the cache has seen before the database begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Past {
    /// Nothing.
    New,
    /// A whole run of the database, whose server has been stopped.
    Run,
    /// Reads of the whole database: all of it is in the cache, and clean.
    Full,
}

/// A variant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Setup {
    pub name: &'static str,
    pub about: &'static str,
    pub store: Store,
    pub doublewrite: bool,
    /// The buffer pool is empty at first.
    pub cold: bool,
    pub past: Past,
}

const fn setup(name: &'static str, about: &'static str, store: Store) -> Setup {
    Setup { name, about, store, doublewrite: false, cold: false, past: Past::New }
}

const fn cold(name: &'static str, about: &'static str, store: Store) -> Setup {
    Setup { cold: true, ..setup(name, about, store) }
}

const fn after(past: Past, setup: Setup) -> Setup {
    Setup { past, ..setup }
}

const fn cache(mode: Mode, policy: PolicyKind) -> Store {
    Store::Cache { mode, policy }
}

/// What is compared. The published run had no doublewrite buffer.
pub(super) const SETUPS: [Setup; 15] = [
    setup("hdd", "The hard disk.", Store::Disk),
    Setup {
        doublewrite: true,
        ..setup("hdd-doublewrite", "The same with the doublewrite buffer.", Store::Disk)
    },
    setup("nvme", "The NVMe drive.", Store::Nvme),
    Setup {
        doublewrite: true,
        ..setup("nvme-doublewrite", "The same with the doublewrite buffer.", Store::Nvme)
    },
    setup(
        "cache-writethrough",
        "The disk with a cache on the NVMe drive: policy mq, lvm2's default mode.",
        cache(Mode::Writethrough, PolicyKind::Mq),
    ),
    setup("cache-writeback", "The same in writeback mode.", cache(Mode::Writeback, PolicyKind::Mq)),
    setup(
        "cache-smq",
        "The same in writeback mode with today's policy smq.",
        cache(Mode::Writeback, PolicyKind::Smq),
    ),
    cold("hdd-cold", "The hard disk, with an empty buffer pool at first.", Store::Disk),
    cold("nvme-cold", "The NVMe drive, with an empty buffer pool at first.", Store::Nvme),
    cold(
        "cache-cold",
        "The disk with a cache in writeback mode, policy mq, with an empty buffer pool at first.",
        cache(Mode::Writeback, PolicyKind::Mq),
    ),
    cold("cache-smq-cold", "The same with today's policy smq.", cache(Mode::Writeback, PolicyKind::Smq)),
    after(
        Past::Run,
        setup(
            "cache-second",
            "The cache in writeback mode, policy mq, in a second run.",
            cache(Mode::Writeback, PolicyKind::Mq),
        ),
    ),
    after(
        Past::Run,
        setup("cache-smq-second", "The same with policy smq.", cache(Mode::Writeback, PolicyKind::Smq)),
    ),
    after(
        Past::Full,
        setup(
            "cache-full",
            "The cache in writeback mode, policy mq, which holds the whole database at first.",
            cache(Mode::Writeback, PolicyKind::Mq),
        ),
    ),
    after(
        Past::Full,
        cold(
            "cache-full-cold",
            "The same, with an empty buffer pool at first.",
            cache(Mode::Writeback, PolicyKind::Mq),
        ),
    ),
];

/// Nanoseconds of a statement that are tried.
pub(super) const STATEMENTS: [u64; 4] = [50_000, 100_000, 200_000, 400_000];

/// A run.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub setup: Setup,
    pub at: Point,
    pub statement_ns: u64,
    pub seconds: u64,
    pub repetition: u32,
}

/// Seconds of a run of the sweep at most.
const SWEEP_SECONDS: u64 = 100;

pub(super) fn pieces(options: &Options) -> Vec<Piece> {
    let mut all = Vec::new();
    for repetition in 0..options.repeat {
        for setup in SETUPS {
            all.push(Piece {
                setup,
                at: Point::new(),
                statement_ns: options.statement_ns,
                seconds: options.seconds,
                repetition,
            });
        }
        if options.quick {
            continue;
        }
        for setup in
            SETUPS.into_iter().filter(|setup| ["hdd", "nvme", "cache-writeback"].contains(&setup.name))
        {
            for statement_ns in STATEMENTS.into_iter().filter(|tried| *tried != options.statement_ns) {
                let at = Point::from([("statement_us".to_owned(), statement_ns / 1000)]);
                let seconds = options.seconds.min(SWEEP_SECONDS);
                all.push(Piece { setup, at, statement_ns, seconds, repetition });
            }
        }
    }
    all
}
