//! What is run: caches, and the loads on them.

use tier::{MIGRATION_THRESHOLD, Mode, PolicyKind, SECTOR};

/// A drive in front of the disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Ssd {
    Nvme,
    Sas,
}

impl Ssd {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nvme => "nvme",
            Self::Sas => "sas",
        }
    }
}

/// A cache as it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Made {
    pub ssd: Ssd,
    pub mode: Mode,
    pub policy: PolicyKind,
    pub chunk: u64,
    /// Sectors that migrate at the same time.
    pub threshold: u64,
}

impl Made {
    /// lvm2's default chunk, and the policy of RHEL 7.1.
    pub(super) const fn usual(ssd: Ssd, mode: Mode) -> Self {
        Self { ssd, mode, policy: PolicyKind::Mq, chunk: 64 << 10, threshold: MIGRATION_THRESHOLD }
    }

    /// Room for eight chunks, as lvm2 sets it since 2019.
    pub(super) const fn with_eight_chunks(self) -> Self {
        let eight = self.chunk * 8 / SECTOR;
        Self { threshold: if eight > MIGRATION_THRESHOLD { eight } else { MIGRATION_THRESHOLD }, ..self }
    }
}

/// A design of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Design {
    /// None: the disk alone.
    Disk,
    /// dm-cache's, with chunks of 64 KiB and this policy.
    Chunks(PolicyKind),
}

impl Design {
    /// Those that are tried.
    pub(super) const ALL: [Self; 3] =
        [Self::Disk, Self::Chunks(PolicyKind::Mq), Self::Chunks(PolicyKind::Smq)];

    /// Its variant.
    pub(super) fn variant(self) -> String {
        match self {
            Self::Disk => "designs-hdd".into(),
            Self::Chunks(policy) => format!("designs-{policy}"),
        }
    }

    /// Its name in tables of designs.
    pub(super) fn short_name(self) -> String {
        self.variant().trim_start_matches("designs-").to_owned()
    }

    /// What it is, in a sentence.
    pub(super) fn about(self) -> String {
        match self {
            Self::Disk => "The hard disk alone.".into(),
            Self::Chunks(policy) => {
                format!(
                    "The disk behind a cache of chunks of 64 KiB on the NVMe drive, policy {policy}, in writeback mode."
                )
            }
        }
    }
}

/// A load of fio's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Load {
    pub kind: LoadKind,
    /// Bytes of a request.
    pub block: u64,
    pub depth: u32,
    /// Where the requests go.
    pub places: Places,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LoadKind {
    Read,
    Write,
    /// Seven reads and three writes.
    Mixed,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Places {
    Uniform,
    /// fio's zipf with this theta in hundredths.
    Zipf(u32),
}

/// The load of chunks: small reads of which some places get most, on more than the cache holds.
pub(super) const SKEWED_LOAD: Load =
    Load { kind: LoadKind::Read, block: 4 << 10, depth: 32, places: Places::Zipf(120) };
/// Bytes of its file.
pub(super) const SKEWED_FILE: u64 = 150_000_000_000;
/// What warms a cache up: reads of 64 KiB from everywhere.
pub(super) const WARMING_LOAD: Load =
    Load { kind: LoadKind::Read, block: 64 << 10, depth: 32, places: Places::Uniform };

impl LoadKind {
    pub(super) const ALL: [Self; 3] = [Self::Read, Self::Mixed, Self::Write];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Mixed => "mixed",
        }
    }
}

impl Load {
    /// Reads, then what writes: what an earlier load has made dirty is no burden for a later one that reads.
    pub(super) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for kind in LoadKind::ALL {
            for block in [4 << 10, 64 << 10] {
                for depth in [1, 32] {
                    all.push(Self { kind, block, depth, places: Places::Uniform });
                }
            }
        }
        all
    }

    /// Its name, and one of its figures.
    pub(super) fn metric(&self, figure: &str) -> String {
        format!("{}_{}k_qd{}_{figure}", self.kind.name(), self.block >> 10, self.depth)
    }

    /// The job: on the first `bytes` of the device, for so long.
    pub(super) fn text(&self, bytes: u64, micros: u64) -> String {
        let rw = match self.kind {
            LoadKind::Read => "rw=randread",
            LoadKind::Write => "rw=randwrite",
            LoadKind::Mixed => "rw=randrw\nrwmixread=70",
        };
        let places = match self.places {
            Places::Uniform => String::new(),
            Places::Zipf(theta) => format!("random_distribution=zipf:{}.{:02}\n", theta / 100, theta % 100),
        };
        format!(
            "[load]\n{rw}\nbs={}\niodepth={}\nsize={bytes}\nnorandommap=1\n{places}time_based=1\nruntime={micros}us\n",
            self.block, self.depth
        )
    }
}
