//! What a large drive without contents takes of the host's memory before anything is written. The only test of its program, as others would take
//! memory beside it.

use ftl::{Config, Ftl, GcConfig, NoContents, PAGE, SetConfig, SetId, ZoneLayout, ZonesConfig};
use media::{Cell, Geometry, NandConfig, NandTiming};

/// Resident memory of this process in bytes. Nothing where the system does not say.
fn resident() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    // The smallest page that Linux has: the least that it can be.
    Some(pages * 4096)
}

#[test]
fn a_zoned_drive_of_4_tb_takes_under_64_mib() {
    let geometry = Geometry {
        dies: 128,
        channels: 16,
        planes: 4,
        superblocks: 1046,
        units_per_block: 152,
        unit_pages: 48,
        sense_pages: 4,
        in_place: false,
        rated_cycles: 3_000,
    };
    assert!(geometry.pages() * u64::from(PAGE) > 4_000_000_000_000);
    let capacity = geometry.pages() as u32 - 20 * geometry.pages_per_superblock();
    let config = Config {
        sets: vec![SetConfig::Nand {
            nand: NandConfig { geometry, cell: Cell::Tlc, timing: NandTiming::default(), durable: false },
            capacity_pages: capacity / 256 * 256,
            gc: GcConfig::default(),
            placement: Default::default(),
            policies: Default::default(),
            zones: ZonesConfig { dies: 0, active: 14, buffer_pages: 14 * 48, ..ZonesConfig::default() },
        }],
        buffer_pages: 4096,
        protected: true,
        energy_bytes: 1 << 30,
        atomic_pages: 1,
        durable: false,
        faults: Default::default(),
    };
    let before = resident();
    let mut ftl = Ftl::new(config).unwrap();
    let set = SetId(0);
    let support = ftl.zone_support(set).unwrap();
    let layout = ZoneLayout {
        zones: 1000,
        size: support.capacity.next_power_of_two(),
        capacity: support.capacity,
        max_active: 14,
        max_open: 14,
        zrwa: None,
    };
    let volume = ftl.create_zoned(set, layout, &mut NoContents).unwrap();
    assert!(ftl.zone(volume, 999).is_some());
    let grown = resident().zip(before).map(|(after, before)| after.saturating_sub(before));
    println!("{grown:?} bytes");
    assert!(grown.is_none_or(|grown| grown < 64 << 20), "{grown:?} bytes of resident memory");
}
