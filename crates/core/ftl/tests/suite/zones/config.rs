//! Drives at random.

use super::aging::random_aging;
use super::pick;
use ftl::{Config, GcConfig, PlacementConfig, SetConfig, ZonesConfig, ZrwaLayout};
use media::{Cell, FaultPlan, Geometry, NandConfig, NandTiming, Nanos, Rng};

pub fn random_config(rng: &mut Rng) -> Config {
    let cell = pick(rng, &[Cell::Slc, Cell::Tlc]);
    let (planes, sense_pages) = (pick(rng, &[1, 2]), pick(rng, &[1, 4]));
    let unit_pages = planes * sense_pages * pick(rng, &[1, cell.bits()]);
    let dies = pick(rng, &[1, 2, 4]);
    let geometry = Geometry {
        dies,
        channels: 1,
        planes,
        superblocks: 40 + rng.below(16) as u32,
        units_per_block: (64 / (unit_pages * dies)).max(2),
        unit_pages,
        sense_pages,
        in_place: false,
        rated_cycles: 100_000,
    };
    let timing = match rng.below(4) {
        0 => NandTiming::default(),
        _ => NandTiming {
            sense: Nanos(40_000).into(),
            program: Nanos(300_000),
            erase: Nanos(2_000_000),
            channel_bytes_per_second: 400_000_000,
            suspend: Nanos(5_000),
            resume: Nanos(5_000),
            max_suspends: pick(rng, &[0, 2]),
        },
    };
    let reserve = (9 + rng.below(4) as u32) * geometry.pages_per_superblock();
    // A granule for each zone at least, whose superblocks are smaller: the set says that it has more than its chips, as a small model
    // must.
    let capacity_pages = (geometry.pages() as u32 - reserve).next_multiple_of(256);
    let per_billion = pick(rng, &[0, 0, 3_000_000, 20_000_000]);
    let active = 1 + rng.below(4) as u32;
    let zone_dies = pick(rng, &[0, 1]).min(dies);
    let zone_pages = if zone_dies == 0 { dies } else { zone_dies } * geometry.units_per_block * unit_pages;
    let granularity = Some(pick(rng, &[1, 2, 4])).filter(|g| zone_pages.is_multiple_of(*g)).unwrap_or(1);
    let zrwa = ZrwaLayout {
        pages: granularity * (1 + rng.below(4) as u32),
        granularity,
        max: 1 + rng.below(active.into()) as u32,
    };
    // What is in an area must outlive power.
    let protected = rng.below(2) == 0;
    let zrwa = Some(zrwa).filter(|zrwa| protected && rng.below(3) > 0 && zrwa.pages <= zone_pages);
    Config {
        sets: vec![SetConfig::Nand {
            nand: NandConfig { geometry: geometry.clone(), cell, timing, durable: true },
            capacity_pages: capacity_pages.min(geometry.pages() as u32 - 8 * geometry.pages_per_superblock())
                / 256
                * 256,
            gc: GcConfig { wear_gap: pick(rng, &[3, 100]), ..GcConfig::default() },
            placement: PlacementConfig::default(),
            policies: Default::default(),
            zones: ZonesConfig {
                dies: zone_dies,
                active,
                buffer_pages: active * unit_pages + rng.below(40) as u32,
                zrwa,
                aging: random_aging(rng),
                ..ZonesConfig::default()
            },
        }],
        buffer_pages: unit_pages * 4 + 8,
        protected,
        energy_bytes: 1 << 30,
        // As many as whole groups of them fill a program unit.
        atomic_pages: pick(rng, &[1, 1 << unit_pages.trailing_zeros()]),
        durable: true,
        faults: FaultPlan {
            seed: rng.next_u64(),
            program_failures: per_billion,
            erase_failures: per_billion,
            slow_operations: pick(rng, &[0, 200_000_000]),
            slow_factor: 5,
            ..FaultPlan::default()
        },
    }
}
