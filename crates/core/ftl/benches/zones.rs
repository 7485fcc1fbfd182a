//! Zones beside pages: what a command costs in the translation layer and the media alone, on the same chips as `throughput`: 16 GiB of
//! flash, no contents, one thread, 4 KiB commands, 64 at a time, in virtual time. Variants take turns, so that all have the same machine.
//!
//!     cargo bench -p ftl --bench zones [-- ROUNDS]
//!
//! Prints host operations per second of CPU time of each round, and medians as ratios to writes of pages.

mod common;

use common::{ClosedLoop, PAGE, config, cpu_seconds};
use ftl::{
    Extent, Ftl, NoContents, SetId, Source, Write, WriteHistory, ZoneAction, ZoneLayout, ZoneTarget,
    ZonesConfig,
};
use media::Nanos;

/// Zones that are written in turn.
const ACTIVE_ZONES: u32 = 8;
/// Commands of each variant in a round.
const COMMANDS: u64 = 2 << 20;

/// Zones that are written in turn. One that is full is left for the next, which is reset first.
struct InZones {
    load: ClosedLoop,
    layout: ZoneLayout,
    /// Zones that are written, with bytes written.
    open: Vec<(u32, u64)>,
    next: u32,
    turn: usize,
}

impl InZones {
    fn new() -> InZones {
        let zones = ZonesConfig { dies: 0, active: 14, buffer_pages: 1024, ..ZonesConfig::default() };
        let mut ftl = Ftl::new(config(28.0, zones)).expect("a good configuration");
        let capacity = ftl.zone_support(SetId(0)).expect("zones").capacity;
        let zones = (ftl.set_info(SetId(0)).expect("set").capacity_bytes / capacity) as u32;
        let (size, zrwa) = (capacity, None);
        let layout =
            ZoneLayout { zones, size, capacity, max_active: ACTIVE_ZONES, max_open: ACTIVE_ZONES, zrwa };
        let volume = ftl.create_zoned(SetId(0), layout, &mut NoContents).expect("space");
        let load = ClosedLoop::on(ftl, volume, layout.bytes());
        InZones {
            load,
            layout,
            open: (0..ACTIVE_ZONES).map(|zone| (zone, 0)).collect(),
            next: ACTIVE_ZONES,
            turn: 0,
        }
    }

    /// The place of the next write.
    fn place(&mut self) -> u64 {
        self.turn = (self.turn + 1) % self.open.len();
        let at = self.turn;
        if self.open[at].1 == self.layout.capacity {
            self.open[at] = (self.next, 0);
            self.reset(self.next);
            self.next = (self.next + 1) % self.layout.zones;
        }
        let (zone, written) = &mut self.open[at];
        *written += PAGE;
        u64::from(*zone) * self.layout.size + *written - PAGE
    }

    fn reset(&mut self, zone: u32) {
        let io = self.load.begin();
        let load = &mut self.load;
        let (now, volume) = (load.now, load.volume);
        let target = ZoneTarget::One(zone);
        let answer = load.ftl.manage_zones(now, io, volume, target, ZoneAction::Reset, &mut NoContents);
        load.answered(io, answer);
    }

    fn write(&mut self) {
        let page = self.place() / PAGE;
        self.load.write(page);
    }

    fn append(&mut self) {
        let place = self.place();
        let zone = place / self.layout.size * self.layout.size;
        let load = &mut self.load;
        let io = load.begin();
        let start = load.ftl.append_at(load.volume, zone, PAGE as u32).expect("room");
        assert_eq!(start, place);
        let extent = Extent { start, bytes: PAGE as u32 };
        let answer =
            load.ftl.write(load.now, Write::new(io, load.volume, extent, Source::Host), &mut NoContents);
        load.answered(io, answer);
    }
}

/// Random writes of pages, with what was written for long before.
fn in_pages(spare: f64) -> ClosedLoop {
    let mut load = ClosedLoop::new(spare);
    let history = WriteHistory::Overwritten(1);
    assert!(load.ftl.precondition(Nanos::ZERO, &[load.volume], history, &mut NoContents, &mut || true));
    for _ in 0..load.pages / 2 {
        let page = load.random();
        load.write(page);
    }
    load
}

/// Operations per second of CPU time.
fn rate(mut one: impl FnMut()) -> f64 {
    let begin = cpu_seconds();
    for _ in 0..COMMANDS {
        one();
    }
    COMMANDS as f64 / (cpu_seconds() - begin) / 1e6
}

fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn main() {
    let rounds = std::env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(5);
    let mut random = in_pages(28.0);
    let mut in_order = ClosedLoop::new(28.0);
    let (mut writes, mut appends) = (InZones::new(), InZones::new());
    let names = ["pages, random", "pages, in order", "zones, writes", "zones, appends"];
    let mut rates: [Vec<f64>; 4] = Default::default();
    let mut page = 0;
    println!("millions per CPU-second: {}", names.join(" | "));
    for _ in 0..rounds {
        let round = [
            rate(|| {
                let page = random.random();
                random.write(page);
            }),
            rate(|| {
                in_order.write(page);
                page = (page + 1) % in_order.pages;
            }),
            rate(|| writes.write()),
            rate(|| appends.append()),
        ];
        println!("{}", round.map(|rate| format!("{rate:.3}")).join(" | "));
        for (all, one) in rates.iter_mut().zip(round) {
            all.push(one);
        }
    }
    let all = rates.map(|rates| median(&rates));
    for (name, rate) in names.iter().zip(all) {
        let (random, in_order) = (rate / all[0], rate / all[1]);
        println!("{name}: median {rate:.3} M, {random:.2} of random pages, {in_order:.2} of pages in order");
    }
}
