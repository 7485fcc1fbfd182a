//! What an operation costs: nanoseconds of this CPU per call, printed. `cargo bench -p media [FILTER]`.
//!
//! The load is that of a translation layer under uniform random 4 KiB I/O on 16 GiB of flash with 64 dies: units are
//! programmed in order over the dies and polled when they should have ended, reads are anywhere. Time advances so
//! that the dies are about as busy as a queue depth of 64 keeps them.
#![allow(clippy::disallowed_methods, missing_docs)]

use media::*;
use std::hint::black_box;
use std::time::Instant;

const SECOND: u64 = 1_000_000_000;

fn bench_geometry() -> NandConfig {
    NandConfig {
        geometry: Geometry {
            dies: 64,
            channels: 8,
            planes: 1,
            superblocks: 256,
            units_per_block: 256,
            unit_pages: 1,
            sense_pages: 1,
            in_place: false,
            rated_cycles: 100_000,
        },
        cell: Cell::Mlc,
        timing: NandTiming {
            sense: Nanos(40_000).into(),
            program: Nanos(200_000),
            erase: Nanos(2_000_000),
            channel_bytes_per_second: 1_200_000_000,
            suspend: Nanos(5_000),
            resume: Nanos(5_000),
            max_suspends: 4,
        },
        durable: false,
    }
}

fn tlc_geometry() -> NandConfig {
    let mut config = bench_geometry();
    config.cell = Cell::Tlc;
    config.geometry.planes = 4;
    config.geometry.sense_pages = 4;
    config.geometry.unit_pages = 48;
    config.geometry.superblocks = 64;
    config.geometry.units_per_block = 22;
    config.timing.program = Nanos(1_800_000);
    config
}

/// Runs `step` until half a second has gone by, five times, and prints the best.
fn measure(filter: &str, name: &str, mut step: impl FnMut()) {
    if !name.contains(filter) {
        return;
    }
    let batch = 200_000;
    (0..batch).for_each(|_| step());
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            let mut done = 0u64;
            while start.elapsed().as_millis() < 200 {
                (0..batch).for_each(|_| step());
                done += batch;
            }
            start.elapsed().as_secs_f64() / done as f64
        })
        .fold(f64::MAX, f64::min);
    println!("{name:44} {:8.1} ns", best * 1e9);
}

/// A writer over all dies in a ring of superblocks, `depth` programs under way.
struct Writer<M> {
    medium: M,
    now: Nanos,
    next: u32,
    units: u32,
    spares: Vec<Spare>,
    under_way: std::collections::VecDeque<(Nanos, Unit)>,
    depth: usize,
}

impl<M: Medium> Writer<M> {
    fn new(medium: M, depth: usize) -> Self {
        let g = medium.geometry();
        let units = g.superblocks * g.units_per_superblock();
        let spare = Spare { page: LogicalPage(7), version: 1, slot: Slot(3) };
        Writer {
            now: Nanos::ZERO,
            next: 0,
            units,
            spares: vec![spare; g.unit_pages as usize],
            under_way: std::collections::VecDeque::with_capacity(depth + 1),
            depth,
            medium,
        }
    }

    /// One program, and the settling of an older one.
    fn step(&mut self) {
        let g = self.medium.geometry();
        let (dies, per_superblock) = (g.dies, g.units_per_superblock());
        if self.next.is_multiple_of(per_superblock) {
            for die in 0..dies {
                let unit = Unit(self.next + die);
                let end = self.medium.erase(self.now, unit);
                black_box(end);
            }
        }
        let unit = Unit(self.next);
        let end = self.medium.program(self.now, unit, &self.spares);
        self.under_way.push_back((end, unit));
        if self.under_way.len() > self.depth {
            let (end, unit) = self.under_way.pop_front().unwrap();
            self.now = self.now.max(end);
            while let Progress::Until(end) = self.medium.poll_program(self.now, unit) {
                self.now = end;
            }
        }
        self.next = if self.next + 1 == self.units { 0 } else { self.next + 1 };
    }
}

/// Every page programmed once.
fn filled<M: Medium>(medium: M) -> Writer<M> {
    let mut writer = Writer::new(medium, 64);
    (0..writer.units).for_each(|_| writer.step());
    writer.now += Nanos(SECOND);
    writer
}

fn main() {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_default();
    let untimed = |mut config: NandConfig| {
        config.timing = NandTiming::default();
        config
    };
    let durable = |mut config: NandConfig| {
        config.durable = true;
        config
    };
    let (bench, tlc) = (bench_geometry(), tlc_geometry());
    for (name, config) in [
        ("bench-16g", bench.clone()),
        ("bench-16g untimed", untimed(bench.clone())),
        ("bench-16g durable", durable(bench.clone())),
        ("tlc durable", durable(tlc.clone())),
    ] {
        for depth in [1, 64, 128] {
            let mut w = Writer::new(Nand::new(config.clone()).unwrap(), depth);
            measure(&filter, &format!("{name}: program + poll, depth {depth}"), || w.step());
        }
        let mut w = filled(Nand::new(config.clone()).unwrap());
        let pages = w.medium.geometry().pages();
        let mut rng = Rng::new(1);
        // 64 reads per time of one: each die has one on average.
        measure(&filter, &format!("{name}: random number"), || {
            black_box(rng.below(pages));
        });
        measure(&filter, &format!("{name}: read, not busy"), || {
            let page = Page(rng.below(pages) as u32);
            w.now += Nanos(5_000);
            black_box(w.medium.read(w.now, page, 1));
        });
        measure(&filter, &format!("{name}: read, dies 75% busy"), || {
            let page = Page(rng.below(pages) as u32);
            w.now += Nanos(850);
            black_box(w.medium.read(w.now, page, 1));
        });
        let mut w = filled(Faulty::new(Nand::new(config.clone()).unwrap(), FaultPlan::default()));
        measure(&filter, &format!("{name}: faulty read, dies 75% busy"), || {
            let page = Page(rng.below(pages) as u32);
            w.now += Nanos(850);
            black_box(w.medium.read(w.now, page, 1));
        });
        let g = w.medium.geometry().clone();
        let per_superblock = g.pages_per_superblock();
        // A program and three reads of other superblocks: reads meet programs under way.
        measure(&filter, &format!("{name}: program, poll and 3 reads"), || {
            for _ in 0..3 {
                let beside = (w.next / g.units_per_superblock() + 1) % g.superblocks * per_superblock;
                let page = beside + rng.below(u64::from(per_superblock)) as u32;
                if w.medium.spare(Page(page)).page != LogicalPage::NONE {
                    black_box(w.medium.read(w.now, Page(page), 1));
                }
            }
            w.step();
        });
        let mut sum = 0u64;
        measure(&filter, &format!("{name}: logical page, random"), || {
            sum += u64::from(w.medium.inner().logical(Page(rng.below(pages) as u32)).0);
        });
        measure(&filter, &format!("{name}: spare, random"), || {
            sum += u64::from(w.medium.spare(Page(rng.below(pages) as u32)).page.0);
        });
        black_box(sum);
    }
    let memory = MemoryConfig {
        kind: MemoryKind::Dram,
        pages: 1 << 18,
        banks: 16,
        read_latency: Nanos(300),
        write_latency: Nanos(300),
        bytes_per_second: memory::Bandwidth::Shared(4_000_000_000),
        rated_cycles: u32::MAX,
        durable: true,
    };
    let mut m = Memory::new(memory).unwrap();
    let mut rng = Rng::new(1);
    let mut now = Nanos::ZERO;
    let spares = vec![Spare { page: LogicalPage(7), version: 1, slot: Slot(3) }; 31];
    for count in [1, 31] {
        measure(&filter, &format!("dram: program + poll of {count} pages"), || {
            let unit = Unit(rng.below((1 << 18) - 31) as u32);
            now += Nanos(1_100 * count as u64);
            let end = m.program(now, unit, &spares[..count]);
            now = now.max(end);
            black_box(m.poll_program(now, unit));
        });
        measure(&filter, &format!("dram: read of {count} pages"), || {
            let page = Page(rng.below((1 << 18) - 31) as u32);
            now += Nanos(1_100 * count as u64);
            black_box(m.read(now, page, count as u32));
        });
    }
    let mut big = bench_geometry();
    big.durable = true;
    big.geometry.superblocks = 1024;
    let nand = Nand::new(big.clone()).unwrap();
    let mut bytes = Vec::new();
    if "save restore 64 GiB".contains(&*filter) {
        for _ in 0..2 {
            bytes = Vec::new();
            let start = Instant::now();
            nand.save(&mut bytes);
            let saved = start.elapsed();
            let start = Instant::now();
            black_box(Nand::restore(big.clone(), &bytes).unwrap());
            let restored = start.elapsed();
            println!(
                "64 GiB, {} MiB of state: saved in {saved:?}, restored in {restored:?}",
                bytes.len() >> 20
            );
        }
    }
    black_box(bytes);
}
