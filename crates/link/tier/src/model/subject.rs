//! The tier as the model uses it.

use crate::{
    Config, Control, ControlError, Core, Mode, MqTunables, OpenError, PolicyKind, Start, TierDevice,
};
use blockdev::stack::Below;
use blockdev::stack::model::{Disk, Odds, Power, Subject, limits};
use blockdev::{BlockDevice, Completed, Geometry, Limits, Nanos, Operation};
use rng::Rng;

const CHUNK: u64 = 32 << 10;
const MODES: [Mode; 3] = [Mode::Writeback, Mode::Writethrough, Mode::Passthrough];
const KINDS: [PolicyKind; 4] =
    [PolicyKind::Smq, PolicyKind::SmqBefore412, PolicyKind::Mq, PolicyKind::Cleaner];

type Devices = (Below<Disk, crate::Device>, Below<Disk, crate::Device>, Below<Disk, crate::Device>);

/// What tiers have done.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Done {
    pub(crate) hits: u64,
    pub(crate) promotions: u64,
    pub(crate) demotions: u64,
    pub(crate) writebacks: u64,
    pub(crate) checkpoints: u64,
    pub(crate) resized: u64,
}

impl Done {
    pub(crate) fn add(&mut self, other: &Self) {
        self.hits += other.hits;
        self.promotions += other.promotions;
        self.demotions += other.demotions;
        self.writebacks += other.writebacks;
        self.checkpoints += other.checkpoints;
        self.resized += other.resized;
    }

    pub(crate) fn has_all(&self) -> bool {
        let Self { hits, promotions, demotions, writebacks, checkpoints, resized } = *self;
        ![hits, promotions, demotions, writebacks, checkpoints, resized].contains(&0)
    }
}

pub(crate) struct Tier {
    config: Config,
    cache_chunks: u64,
    pub(crate) done: Done,
}

impl Tier {
    fn open(
        &self,
        start: Start,
        disks: &[Disk],
        now: Nanos,
    ) -> Result<TierDevice<Disk, Disk, Disk>, OpenError> {
        let [origin, cache, metadata] = disks else { unreachable!("three devices") };
        crate::begin(self.config, start, (origin.clone(), cache.clone(), metadata.clone()), now)
    }
}

impl Subject for Tier {
    type Machine = Core;
    type Devices = Devices;

    const ODDS: Odds = Odds {
        request: 614,
        pass: 200,
        wait: 60,
        compare: 20,
        change: 30,
        close: 20,
        kill: 10,
        cut: 10,
        later_cut: 15,
        fail: 8,
        fail_flush: 6,
    };

    fn new(rng: &mut Rng, power: &Power, seed: u64) -> (Self, Vec<Disk>) {
        let of_cache = [512, 512, 4096][rng.below(3) as usize];
        let chunks = 8 + rng.below(16);
        // The last chunk is no whole one.
        let sectors = chunks * (CHUNK / 512) + 8 * rng.below(8);
        let origin = Disk::new(512, sectors, limits(rng), seed ^ 1, power);
        let cache_chunks = 2 + rng.below(8);
        let cache_limits = Limits { transfer: 1 + rng.below(70) as u32, ..limits(rng) };
        let cache_blocks = cache_chunks * (CHUNK / u64::from(of_cache));
        let cache = Disk::new(of_cache, cache_blocks, cache_limits, seed ^ 2, power);
        let metadata_blocks = 8 * (22 + rng.below(30));
        let metadata = Disk::new(512, metadata_blocks, limits(rng), seed ^ 3, power);
        let config = Config { chunk: CHUNK, ..Config::default() };
        (Self { config, cache_chunks, done: Done::default() }, vec![origin, cache, metadata])
    }

    fn configure(&mut self, rng: &mut Rng) {
        let threshold = [0, 64, 129, 2048, 1 << 20][rng.below(5) as usize];
        let mq = MqTunables {
            read_promote_adjustment: rng.below(3) as u32,
            write_promote_adjustment: rng.below(3) as u32,
            sequential_threshold: [0, 2, 512][rng.below(3) as usize],
            ..MqTunables::default()
        };
        let mode = MODES[[0, 0, 0, 1, 1, 2][rng.below(6) as usize]];
        let policy = KINDS[[0, 0, 0, 1, 1, 2, 2, 3][rng.below(8) as usize]];
        let discard_passdown = rng.below(3) > 0;
        let migration_threshold = threshold;
        self.config = Config {
            chunk: CHUNK,
            mode,
            policy,
            mq,
            migration_threshold,
            discard_passdown,
            ..Config::default()
        };
    }

    fn shown(&self) -> String {
        format!("{}, {}", self.config.mode, self.config.policy)
    }

    fn begin(
        &self,
        create: Option<u64>,
        disks: &[Disk],
        now: Nanos,
    ) -> Result<TierDevice<Disk, Disk, Disk>, OpenError> {
        let start = create.map_or(Start::Open, |seed| Start::Create { seed, replace: false });
        self.open(start, disks, now)
    }

    fn reconsiders(&mut self, error: &OpenError) -> bool {
        match error {
            OpenError::NotClean(_) => self.config.mode = Mode::Writeback,
            OpenError::NeedsCheck => self.config.repair = true,
            _ => return false,
        }
        true
    }

    fn note(&mut self, core: &Core) {
        let counters = core.counters();
        self.done.hits += counters.read_hits + counters.write_hits;
        self.done.promotions += counters.promotions;
        self.done.demotions += counters.demotions;
        self.done.writebacks += counters.writebacks;
        self.done.checkpoints += counters.checkpoints;
    }

    /// A few chunks are used more than others.
    fn range(&self, rng: &mut Rng, geometry: &Geometry, most: u64, _: u32) -> (u64, u64) {
        let chunk = CHUNK / u64::from(geometry.block_size);
        let lba = match rng.below(10) {
            0..5 => rng.below(4) * chunk + rng.below(chunk),
            5 => rng.below(geometry.blocks / chunk) * chunk,
            _ => rng.below(geometry.blocks),
        };
        let length = match rng.below(6) {
            0 => most.min(chunk),
            1 => most,
            _ => 1 + rng.below(most.min(12)),
        };
        (lba, length)
    }

    fn change(&self, rng: &mut Rng) -> Control {
        let mode = MODES[rng.below(3) as usize];
        match rng.below(4) {
            0 => Control::Mode(mode),
            1 => Control::Policy(KINDS[rng.below(4) as usize]),
            2 => Control::WriteBack,
            _ => Control::Invalidate { begin: 0, end: 1 + rng.below(self.cache_chunks) as u32 },
        }
    }

    fn close() -> Control {
        Control::Close
    }

    fn may_refuse(&self, error: &ControlError, failing: bool) -> bool {
        matches!(error, ControlError::NotClean(_) | ControlError::NotPassthrough | ControlError::Degraded(_))
            || failing
    }

    fn changed(&mut self, control: Control) {
        match control {
            Control::Mode(mode) => self.config.mode = mode,
            Control::Policy(policy) => self.config.policy = policy,
            _ => {}
        }
    }

    /// A cache that is gone may have lost what it had not flushed.
    fn come_back(&self, rng: &mut Rng, disks: &[Disk]) {
        let power_lost = rng.below(2) == 0;
        for (n, disk) in disks.iter().enumerate() {
            disk.restart(n == 1 && power_lost && disk.is_gone());
        }
    }

    /// The cache grows, or shrinks if nothing lies where it is cut off.
    fn resize(&mut self, rng: &mut Rng, disks: &mut [Disk], power: &Power, now: Nanos) -> Option<Nanos> {
        if rng.below(4) > 0 {
            return None;
        }
        let chunks = 2 + rng.below(12);
        let per = CHUNK / u64::from(disks[1].geometry().block_size);
        if chunks > self.cache_chunks {
            disks[1] = disks[1].resized(chunks * per);
            self.cache_chunks = chunks;
            self.done.resized += 1;
            return None;
        }
        // Only what opens is cut off.
        let before = self.cache_chunks;
        let small = Small { disk: disks[1].clone(), blocks: chunks * per };
        let devices = (disks[0].clone(), small, disks[2].clone());
        let mut now = now;
        let opened = crate::open(self.config, Start::Open, devices, now, |tier| {
            now = tier.next_work().max(now);
            now
        });
        match opened {
            Ok(tier) => {
                drop(tier);
                disks[1] = disks[1].resized(chunks * per);
                self.cache_chunks = chunks;
                self.done.resized += 1;
            }
            Err(OpenError::Shrunk { cblock }) => {
                let cut = u64::from(cblock) >= chunks && u64::from(cblock) < before;
                assert!(cut, "{cblock} is not cut off: {before} to {chunks} chunks");
            }
            Err(OpenError::NotClean(_) | OpenError::Device { .. }) => {}
            Err(error) => panic!("resize: {error}"),
        }
        // It was not shut down.
        let power_lost = power.is_off();
        power.restore();
        disks.iter().for_each(|disk| disk.restart(power_lost));
        Some(now)
    }

    fn dirty(core: &Core) -> u32 {
        core.dirty()
    }

    /// The cache device, the metadata device, or both; or the origin.
    fn vanishing(rng: &mut Rng) -> Vec<usize> {
        match rng.below(4) {
            0 => vec![2],
            1 => vec![1, 2],
            2 => vec![0],
            _ => vec![1],
        }
    }

    /// The origin is enough if it has everything.
    fn outlives(core: &Core, vanishing: &[usize]) -> bool {
        core.status().mode != Mode::Writeback && Self::dirty(core) == 0 && !vanishing.contains(&0)
    }
}

/// A device of which only the beginning is used.
struct Small {
    disk: Disk,
    blocks: u64,
}

impl BlockDevice for Small {
    type Error = blockdev::stack::model::Gone;

    fn geometry(&self) -> Geometry {
        Geometry { blocks: self.blocks, ..self.disk.geometry() }
    }

    fn room(&self) -> usize {
        self.disk.room()
    }

    fn submit(&mut self, now: Nanos, tag: u32, part: &Operation, data: Vec<u8>) -> Result<(), Self::Error> {
        assert!(part.lba + u64::from(part.blocks) <= self.blocks, "{part:?} is beyond {}", self.blocks);
        self.disk.submit(now, tag, part, data)
    }

    fn poll(&mut self, now: Nanos) -> Result<Option<Completed>, Self::Error> {
        self.disk.poll(now)
    }

    fn next_event(&self) -> Nanos {
        self.disk.next_event()
    }
}
