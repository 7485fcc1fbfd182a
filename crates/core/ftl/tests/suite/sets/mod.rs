//! NVM Sets for tests.
#![allow(dead_code, reason = "not every test needs each")]

use ftl::{GcConfig, SetConfig};
use media::{Cell, Geometry, MemoryConfig, MemoryKind, NandConfig, NandTiming, Nanos};

/// Small flash of single-level cells. Its shape is planes, superblocks, program units of a block, and pages of a unit.
pub fn nand(
    [planes, superblocks, units_per_block, unit_pages]: [u32; 4],
    rated_cycles: u32,
    capacity_pages: u32,
) -> SetConfig {
    let geometry = Geometry {
        dies: 2,
        channels: 1,
        planes,
        superblocks,
        units_per_block,
        unit_pages,
        sense_pages: 4,
        in_place: false,
        rated_cycles,
    };
    let timing = NandTiming { program: Nanos(300_000), erase: Nanos(1_000_000), ..NandTiming::default() };
    SetConfig::Nand {
        nand: NandConfig { geometry, cell: Cell::Slc, timing, durable: true },
        capacity_pages,
        gc: GcConfig::default(),
        placement: Default::default(),
        policies: Default::default(),
        zones: ftl::ZonesConfig::default(),
    }
}

/// 2 MiB of persistent memory that takes no time.
pub fn pmem() -> SetConfig {
    SetConfig::Memory {
        memory: MemoryConfig {
            kind: MemoryKind::Pmem,
            pages: 512,
            banks: 4,
            read_latency: Nanos::ZERO,
            write_latency: Nanos::ZERO,
            bytes_per_second: Default::default(),
            rated_cycles: u32::MAX,
            durable: true,
        },
        volatile: false,
    }
}
