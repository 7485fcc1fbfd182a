//! The cache as the model uses it.

use crate::{BLOCK, Config, Control, ControlError, Core, LogDevice, Mode, OpenError, Replacement, Start};
use blockdev::{Geometry, Limits, Nanos};
use rng::Rng;
use stack::Below;
use stack::model::{Disk, Odds, Power, SECTOR, Subject, limits};

const MODES: [Mode; 3] = [Mode::Writeback, Mode::Writethrough, Mode::Writearound];

/// What caches have done.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Done {
    pub(crate) hits: u64,
    pub(crate) filled: u64,
    pub(crate) written: u64,
    pub(crate) written_back: u64,
    pub(crate) reclaimed: u64,
    pub(crate) commits: u64,
    /// Blocks of the journal.
    pub(crate) journal: u64,
    pub(crate) journal_peak: u64,
}

impl Done {
    pub(crate) fn add(&mut self, other: &Self) {
        self.hits += other.hits;
        self.filled += other.filled;
        self.written += other.written;
        self.written_back += other.written_back;
        self.reclaimed += other.reclaimed;
        self.commits += other.commits;
        self.journal += other.journal;
        self.journal_peak = self.journal_peak.max(other.journal_peak);
    }

    pub(crate) fn has_all(&self) -> bool {
        let Self { hits, filled, written, written_back, reclaimed, commits, .. } = *self;
        ![hits, filled, written, written_back, reclaimed, commits].contains(&0)
    }
}

pub(crate) struct Cache {
    config: Config,
    pub(crate) done: Done,
}

impl Subject for Cache {
    type Machine = Core;
    type Devices = (Below<Disk, crate::Device>, Below<Disk, crate::Device>);

    const ODDS: Odds = Odds {
        request: 637,
        pass: 200,
        wait: 50,
        compare: 15,
        change: 20,
        close: 15,
        kill: 10,
        cut: 10,
        later_cut: 20,
        fail: 12,
        fail_flush: 3,
    };

    fn new(rng: &mut Rng, power: &Power, seed: u64) -> (Self, Vec<Disk>) {
        let of_cache = [512, 512, 4096][rng.below(3) as usize];
        let blocks = 100 + rng.below(300);
        let origin = Disk::new(512, blocks * (BLOCK / SECTOR as u64), limits(rng), seed ^ 1, power);
        // Two superblocks, the journal, and a few buckets.
        let bytes = (144 + 16 * (8 + rng.below(8)) + rng.below(16)) * BLOCK;
        let cache_limits = Limits { transfer: 8 + rng.below(70) as u32, ..limits(rng) };
        let cache = Disk::new(of_cache, bytes / u64::from(of_cache), cache_limits, seed ^ 2, power);
        (Self { config: Config::default(), done: Done::default() }, vec![origin, cache])
    }

    fn configure(&mut self, rng: &mut Rng) {
        self.config = Config {
            bucket: 64 << 10,
            mode: MODES[[0, 0, 1, 2][rng.below(4) as usize]],
            replacement: [Replacement::Lru, Replacement::Fifo, Replacement::Random][rng.below(3) as usize],
            sequential_cutoff: [0, 64 << 10, 256 << 10][rng.below(3) as usize],
            dirty_target: [0, 10, 60][rng.below(3) as usize],
            writeback_rate: [(4096, 4096), (4096, 1 << 20), (1 << 20, 1 << 26)][rng.below(3) as usize],
            ..Config::default()
        };
    }

    fn shown(&self) -> String {
        format!("{}, {}", self.config.mode, self.config.replacement)
    }

    fn begin(
        &self,
        create: Option<u64>,
        disks: &[Disk],
        now: Nanos,
    ) -> Result<LogDevice<Disk, Disk>, OpenError> {
        let [origin, cache] = disks else { unreachable!("two devices") };
        let start = create.map_or(Start::Open, |seed| Start::Create { seed, replace: false });
        crate::begin(self.config, start, (origin.clone(), cache.clone()), now)
    }

    fn note(&mut self, core: &Core) {
        let counters = core.counters();
        self.done.hits += counters.read_hits + counters.write_hits;
        self.done.filled += counters.filled;
        self.done.written += counters.written;
        self.done.written_back += counters.written_back;
        self.done.reclaimed += counters.reclaimed;
        self.done.commits += counters.commits;
        self.done.journal += counters.journal;
        self.done.journal_peak = self.done.journal_peak.max(counters.journal_peak);
    }

    /// Some blocks are used more than others, and some in order.
    fn range(&self, rng: &mut Rng, geometry: &Geometry, most: u64, tag: u32) -> (u64, u64) {
        let lba = match rng.below(10) {
            0..4 => rng.below(24),
            4 | 5 => u64::from(tag) * 2 % geometry.blocks,
            _ => rng.below(geometry.blocks),
        };
        let length = match rng.below(6) {
            0 => most,
            1 => most.min(2),
            _ => 1 + rng.below(most.min(4)),
        };
        (lba, length)
    }

    fn change(&self, rng: &mut Rng) -> Control {
        match rng.below(2) {
            0 => Control::WriteBack,
            _ => Control::Mode(MODES[rng.below(3) as usize]),
        }
    }

    fn close() -> Control {
        Control::Close
    }

    fn may_refuse(&self, _: &ControlError, failing: bool) -> bool {
        failing
    }

    fn come_back(&self, _: &mut Rng, disks: &[Disk]) {
        disks.iter().for_each(|disk| disk.restart(false));
    }

    fn dirty(core: &Core) -> u32 {
        core.status().dirty
    }

    fn vanishing(rng: &mut Rng) -> Vec<usize> {
        match rng.below(3) {
            0 => vec![0],
            _ => vec![1],
        }
    }

    /// The origin is enough if it has everything, and the journal says so.
    fn outlives(core: &Core, vanishing: &[usize]) -> bool {
        let dirty = Self::dirty(core) > 0 || core.commit.says_dirty;
        core.status().mode != Mode::Writeback && !dirty && !vanishing.contains(&0)
    }
}
