//! The two scales at which the study runs: the published drive, and what a laptop can serve.

/// A drive and the loads that fit it.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    /// Its profile.
    pub profile: String,
    /// Part 1: bytes per second that the favoured namespaces may read, and the others.
    pub set: [u64; 2],
    /// Part 1: bytes of each namespace that are read.
    pub span: u64,
    /// Part 2: 4 KiB reads per second of NS1.
    pub iops: u64,
    /// Part 2: bytes per second that NS2 may read and write where it has a quota.
    pub limit: [u64; 2],
    /// Part 2: queue depths of NS2 for each kind of load, the smallest first.
    pub depths: [Vec<u32>; 3],
    /// Part 2: seconds that are measured, and seconds before that.
    pub seconds: f64,
    pub ramp: f64,
    /// Part 2: superblocks that are collected ahead for a deterministic window, and its length at most, in nanoseconds.
    pub ahead: u32,
    pub window: u64,
    /// Part 1: seconds until quotas are set, and after that.
    pub lead: f64,
    pub flat: f64,
    /// Preconditioning: NS2 is overwritten so many times at random; and by how many per cent of it more for each further repetition.
    pub overwrites: u64,
    pub more: u64,
}

/// Part 1 sets these published rates, in bytes per second.
pub(super) const PUBLISHED_RATES: [u64; 2] = [391_000_000, 39_000_000];

/// The lab drive's quotas are the published ones divided by this: its two dies read 0.9 GB/s, a quarter of what the
/// published drive's link lets through, and the machine has to move these bytes, too.
pub(super) const LAB_DIVISOR: u64 = 8;

impl Scale {
    /// The published drive with short blocks.
    pub fn full(profile: &str, quick: bool) -> Self {
        Self {
            profile: profile.to_owned(),
            set: PUBLISHED_RATES,
            span: 256 << 20,
            iops: 50_000,
            limit: [391_000_000, 391_000_000],
            depths: [vec![64, 256], vec![4, 64], vec![1, 16]],
            seconds: if quick { 0.2 } else { 1.5 },
            ramp: if quick { 0.1 } else { 1.0 },
            ahead: 2,
            window: 500_000_000,
            lead: if quick { 0.5 } else { 2.0 },
            flat: if quick { 1.0 } else { 6.0 },
            overwrites: 2,
            more: 15,
        }
    }

    /// The drive with half of 2 of the 64 dies: 1/32 of the reads, 1/64 of the writes.
    pub fn lab(quick: bool) -> Self {
        Self {
            profile: "pblaze5-910-lab".to_owned(),
            set: PUBLISHED_RATES.map(|rate| rate / LAB_DIVISOR),
            span: 32 << 20,
            iops: 50_000 / 32,
            limit: [391_000_000 / 32, 391_000_000 / 64],
            depths: [vec![32], vec![16], vec![4]],
            seconds: if quick { 0.5 } else { 1.0 },
            ramp: 0.3,
            ahead: 8,
            window: 500_000_000,
            lead: if quick { 0.5 } else { 2.0 },
            flat: if quick { 1.0 } else { 6.0 },
            overwrites: 2,
            more: 15,
        }
    }
}

/// What NS2 does in part 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoiseKind {
    /// 4 KiB random reads.
    Reads,
    /// 4 KiB random writes.
    Writes,
    /// 128 KiB random writes.
    Large,
}

impl NoiseKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Reads, Self::Writes, Self::Large];

    /// The axis in results: its value is NS2's queue depth.
    pub fn axis(self) -> &'static str {
        match self {
            Self::Reads => "ns2_read_4k_qd",
            Self::Writes => "ns2_write_4k_qd",
            Self::Large => "ns2_write_128k_qd",
        }
    }

    /// For reading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Reads => "4 KiB random reads",
            Self::Writes => "4 KiB random writes",
            Self::Large => "128 KiB random writes",
        }
    }

    /// The job at a queue depth.
    pub fn job(self, depth: u32) -> String {
        let (rw, bs) = match self {
            Self::Reads => ("randread", "4k"),
            Self::Writes => ("randwrite", "4k"),
            Self::Large => ("randwrite", "128k"),
        };
        format!("rw={rw}\nbs={bs}\niodepth={depth}\nnorandommap\n")
    }
}
