//! Sets under full load: the host writes as fast as the set takes it, so few superblocks are ever free. Wear stays even, and no set ends.

use crate::support::load::one_set;
use ftl::{
    Extent, Ftl, GcConfig, GcPolicy, Io, NoContents, PAGE, PlacementConfig, SetId, Source, VolumeId, Write,
};
use media::{Cell, Geometry, NandConfig, NandTiming, Nanos, Rng};

const SET: SetId = SetId(0);
const SUPERBLOCKS: u32 = 64;
/// Commands that are under way at a time.
const QUEUE_DEPTH: usize = 32;

struct Load {
    /// What a failure tells.
    told: String,
    ftl: Ftl,
    volume: VolumeId,
    pages: u64,
    now: Nanos,
    under_way: usize,
}

/// A set, and the write buffer before it.
#[derive(Debug)]
struct Shape {
    geometry: Geometry,
    /// Superblocks that are spare.
    spare: u32,
    buffer_pages: u32,
    gc: GcConfig,
    placement: PlacementConfig,
    timing: NandTiming,
}

impl Shape {
    /// 64 superblocks of 64 pages, of which a quarter is spare.
    fn new(gc: GcConfig, placement: PlacementConfig, timing: NandTiming) -> Shape {
        let geometry = Geometry {
            dies: 4,
            channels: 4,
            planes: 1,
            superblocks: SUPERBLOCKS,
            units_per_block: 16,
            unit_pages: 1,
            sense_pages: 1,
            in_place: false,
            rated_cycles: 1_000_000,
        };
        Shape { geometry, spare: SUPERBLOCKS / 4, buffer_pages: 16, gc, placement, timing }
    }

    /// What hosts can write, in whole granules of space.
    fn capacity_pages(&self) -> u64 {
        let superblocks = self.geometry.superblocks.saturating_sub(self.spare);
        u64::from(superblocks * self.geometry.pages_per_superblock()) / 256 * 256
    }

    /// Any small set that has no more spare than it needs.
    fn random(rng: &mut Rng) -> Shape {
        let policies = [GcPolicy::Greedy, GcPolicy::CostBenefit, GcPolicy::Fifo];
        let gc = GcConfig {
            policy: policies[rng.below(3) as usize],
            together: [0, 1, 37, 100, 100][rng.below(5) as usize],
            window: [5, 50, 100][rng.below(3) as usize],
            wear_gap: [3, 20, 1000][rng.below(3) as usize],
            ..GcConfig::default()
        };
        let handles = if gc.together > 0 { 1 } else { 1 + rng.below(3) as u32 };
        let placement = PlacementConfig { handles, isolated: rng.below(2) == 0 };
        let timing = if rng.below(2) == 0 { timing() } else { NandTiming::default() };
        let mut shape = Shape::new(gc, placement, timing);
        let geometry = &mut shape.geometry;
        geometry.dies = 1 << rng.below(4);
        geometry.channels = geometry.dies;
        geometry.units_per_block = 4 + rng.below(40) as u32;
        geometry.planes = 1 << rng.below(3);
        geometry.unit_pages = geometry.planes;
        geometry.superblocks = 24 + rng.below(40) as u32;
        let relocation = if placement.isolated { handles } else { 1 };
        shape.spare = shape.gc.low + shape.gc.ahead + 2 * handles + relocation - 1;
        shape.buffer_pages = handles * geometry.unit_pages + rng.below(64) as u32;
        if shape.capacity_pages() == 0 { Self::random(rng) } else { shape }
    }
}

impl Load {
    fn new(shape: Shape, seed: u64) -> Load {
        let told = format!("seed {seed}: {shape:?}");
        let pages = shape.capacity_pages();
        let Shape { geometry, buffer_pages, gc, placement, timing, .. } = shape;
        let nand = NandConfig { geometry, cell: Cell::Slc, timing, durable: false };
        let mut ftl = one_set(nand, pages as u32, buffer_pages, gc, placement, Default::default());
        let volume = ftl.create(SET, pages * u64::from(PAGE), &mut NoContents).expect("space");
        Load { told, ftl, volume, pages, now: Nanos::ZERO, under_way: 0 }
    }

    /// Writes a page as soon as the queue has room.
    fn write(&mut self, page: u64, handle: u8) {
        while self.under_way == QUEUE_DEPTH {
            self.wait();
        }
        let extent = Extent { start: page * u64::from(PAGE), bytes: PAGE };
        let write = Write { handle, ..Write::new(Io(0), self.volume, extent, Source::Host) };
        match self.ftl.write(self.now, write, &mut NoContents) {
            ftl::Answer::At(_) => {}
            ftl::Answer::Later => self.under_way += 1,
            ftl::Answer::Failed(fault) => panic!("{}: {fault:?}: {}", self.told, self.ftl.describe(SET)),
        }
    }

    fn wait(&mut self) {
        let mut done = Vec::new();
        self.now =
            self.ftl.next_event().unwrap_or_else(|| panic!("{}", self.ftl.describe(SET))).max(self.now);
        self.ftl.poll(self.now, &mut NoContents, &mut done);
        self.under_way -= done.len();
    }

    fn gap(&self) -> u32 {
        let erases = || self.ftl.superblocks(SET, 0..SUPERBLOCKS).into_iter().map(|b| b.erases);
        erases().max().unwrap_or(0) - erases().min().unwrap_or(0)
    }
}

fn timing() -> NandTiming {
    NandTiming {
        sense: Nanos(40_000).into(),
        program: Nanos(300_000),
        erase: Nanos(2_000_000),
        channel_bytes_per_second: 400_000_000,
        ..NandTiming::default()
    }
}

/// Program/erase cycles by which superblocks may differ: `wear_gap`, and more while cold data moves. Of four victims one is chosen for its
/// wear, so moving all superblocks takes four times as many victims. They are spread over the superblocks without cold data. Twice that,
/// because a destination that is not worn makes it wait.
fn largest_gap(wear_gap: u32, hot: u32) -> u32 {
    wear_gap + 2 * 4 * SUPERBLOCKS / hot
}

/// Most of the set is written once, the rest again and again. Returns the largest difference of wear, and the least after levelling began.
fn gaps_under_full_load(gc: GcConfig, placement: PlacementConfig, timing: NandTiming) -> (u32, u32) {
    let wear_gap = gc.wear_gap;
    let mut load = Load::new(Shape::new(gc, placement, timing), 5);
    let handle = |page: u64| (page % u64::from(placement.handles)) as u8;
    (0..load.pages).for_each(|page| load.write(page, handle(page)));
    let mut rng = Rng::new(5);
    let (mut most, mut least) = (0, u32::MAX);
    for n in 0..60 * load.pages {
        let page = rng.below(load.pages / 4);
        load.write(page, handle(page));
        if n % 64 == 0 {
            let gap = load.gap();
            most = most.max(gap);
            least = if most > wear_gap { least.min(gap) } else { least };
        }
    }
    (most, least)
}

#[test]
fn wear_stays_even_while_the_host_writes_as_fast_as_it_can() {
    // A quarter of what the set offers, three quarters of its superblocks, is hot; a quarter is spare.
    let bound = largest_gap(10, SUPERBLOCKS * 3 / 16 + SUPERBLOCKS / 4);
    for (policy, handles, isolated, wear_stop) in [
        (GcPolicy::Greedy, 1, false, None),
        (GcPolicy::Greedy, 1, false, Some(3)),
        (GcPolicy::Greedy, 3, false, None),
        (GcPolicy::Greedy, 3, true, Some(3)),
        (GcPolicy::CostBenefit, 1, false, None),
        (GcPolicy::Fifo, 1, false, Some(3)),
    ] {
        for timing in [timing(), NandTiming::default()] {
            let gc = GcConfig { policy, wear_gap: 10, wear_stop, ..GcConfig::default() };
            let (most, least) = gaps_under_full_load(gc, PlacementConfig { handles, isolated }, timing);
            println!("{policy:?}, {handles} handles, {wear_stop:?}: from {least} to {most}, at most {bound}");
            assert!(most <= bound, "{policy:?}, {handles} handles: {most} is more than {bound}");
            // It goes down to where it is to end, within what the host wears out between two looks.
            let stop = wear_stop.unwrap_or(10);
            assert!(least <= stop + 2, "{policy:?}, {handles} handles: {least} is more than {stop}");
        }
    }
}

/// Without faults a set never ends, however little of it is spare. `TRANCHE_MODEL_ROUNDS` sets are tried, 60 by default.
#[test]
fn no_set_ends_while_the_host_writes_as_fast_as_it_can() {
    let rounds = std::env::var("TRANCHE_MODEL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    for seed in 0..rounds.unwrap_or(60) {
        let mut rng = Rng::new(seed);
        let shape = Shape::random(&mut rng);
        let handles = u64::from(shape.placement.handles);
        let mut load = Load::new(shape, seed);
        let hot = load.pages / [1, 4, 32][rng.below(3) as usize];
        for n in 0..10 * load.pages {
            let page = if n < load.pages { n } else { rng.below(hot) };
            load.write(page, (page % handles) as u8);
        }
    }
}
