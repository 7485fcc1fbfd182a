//! How many requests a modelled disk serves in a second of this CPU, printed. `cargo bench -p media --bench disk [FILTER]`.
//!
//! The disk has the shape of one of 300 GB at 15,000 rpm. Reads and writes of 4 KiB are anywhere on it.
#![allow(clippy::disallowed_methods, missing_docs)]

use media::disk::cache::CacheConfig;
use media::disk::drive::{Disk, DiskConfig, Scheduling};
use media::disk::geometry::{Geometry, GeometryConfig, HeadOrder, Skew, Sparing, ZoneConfig};
use media::disk::mechanism::{Mechanism, OnCylinder, Positioning, SeekTable};
use media::disk::service::{Model, Overheads};
use media::disk::spindle::{Angle, Spindle};
use media::disk::{Op, ReadsFirst, Request};
use media::{Nanos, Rng};
use std::time::Instant;

fn disk(scheduling: Scheduling) -> Disk {
    let zone = |i: u32| {
        let sectors = 1_400 - i * 40;
        let of = |part: u64| Angle::of(part, 1000);
        ZoneConfig {
            first_cylinder: i * 5_000,
            last_cylinder: i * 5_000 + 4_999,
            track_sectors: sectors,
            spares: 50,
            skew: Skew::of_switches(Angle::ZERO, of(140), of(180), 4, 1),
            slips: (0..20).map(|k| u64::from(sectors) * (1_000 * k + 17)).collect(),
            ..ZoneConfig::default()
        }
    };
    let geometry = GeometryConfig {
        surfaces: 4,
        heads: HeadOrder::Serpentine,
        sparing: Sparing::Cylinder { front: false, slip_to_end: false },
        zones: (0..16).map(zone).collect(),
    };
    let root = |n: u64| n.isqrt();
    let seek = |settle: u64| {
        let time = move |d: u64| Nanos(if d == 0 { 0 } else { 300_000 + root(d * 600_000_000) + settle });
        SeekTable::new((0..80_000).map(time)).unwrap()
    };
    let on_cylinder = OnCylinder { head_switch: Nanos(300_000), ..OnCylinder::default() };
    let mechanism = Mechanism {
        geometry: Geometry::new(&geometry).unwrap(),
        spindle: Spindle::new(15_000_000_000),
        positioning: Positioning {
            seek: [[seek(0), seek(0)], [seek(400_000), seek(400_000)]],
            on_cylinder: [[on_cylinder; 2]; 2],
            track_switch: [Nanos(300_000); 2],
            cylinder_switch: [Nanos(400_000); 2],
        },
        slow: Vec::new(),
    };
    let overheads =
        Overheads { command: [[[Nanos(30_000); 2]; 2]; 2], block: Nanos(800), ..Overheads::default() };
    Disk::new(DiskConfig {
        model: Model { mechanism, overheads, write_cache: false },
        cache: CacheConfig { segments: 16, ..CacheConfig::default() },
        block_bytes: 512,
        scheduling,
        write_buffer: 0,
    })
    .unwrap()
}

/// Requests per second with so many outstanding.
fn rate(scheduling: Scheduling, depth: usize) -> f64 {
    let mut disk = disk(scheduling);
    let (mut rng, mut completions) = (Rng::new(1), Vec::new());
    let places = disk.blocks() / 8 - 1;
    let (mut now, mut done) = (Nanos(0), 0u64);
    let start = Instant::now();
    while start.elapsed().as_millis() < 1_000 {
        for _ in 0..1_000 {
            let op = if rng.below(4) == 0 { Op::Write } else { Op::Read };
            disk.submit(
                now,
                Request {
                    id: done,
                    op,
                    block: rng.below(places) * 8,
                    count: 8,
                    force: false,
                    reads_first: ReadsFirst::Nothing,
                },
            );
            while disk.outstanding() >= depth {
                now = disk.next_event().unwrap();
                disk.poll(now, &mut completions);
                completions.clear();
            }
            done += 1;
        }
    }
    done as f64 / start.elapsed().as_secs_f64()
}

fn main() {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_default();
    for (name, scheduling, depth) in [
        ("one at a time", Scheduling::Fcfs, 1),
        ("first come, first served, depth 32", Scheduling::Fcfs, 32),
        ("shortest positioning time first, depth 32", Scheduling::Sptf { age: 16 }, 32),
    ] {
        if name.contains(&filter) {
            let best = (0..3).map(|_| rate(scheduling, depth)).fold(0.0, f64::max);
            println!("{name:44} {:8.2} million requests per second", best / 1e6);
        }
    }
}
