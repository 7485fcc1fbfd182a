//! The write buffer at its limits.

use ftl::{Answer, Config, Extent, Ftl, GcConfig, Io, NoContents, SetConfig, SetId, Source};
use media::{Cell, Geometry, NandConfig, NandTiming, Nanos};

/// Chunks of four pages that hold one each: they fill the buffer and make no whole program unit. It is drained all the same
/// when a write waits for room.
#[test]
fn single_pages_of_large_atomic_units_do_not_jam_the_buffer() {
    let geometry = Geometry {
        dies: 2,
        channels: 1,
        planes: 2,
        superblocks: 16,
        units_per_block: 16,
        unit_pages: 24,
        sense_pages: 4,
        in_place: false,
        rated_cycles: 1000,
    };
    let mut ftl = Ftl::new(Config {
        sets: vec![SetConfig::Nand {
            nand: NandConfig { geometry, cell: Cell::Tlc, timing: NandTiming::default(), durable: false },
            capacity_pages: 6144,
            gc: GcConfig::default(),
            placement: Default::default(),
        }],
        buffer_pages: 24,
        protected: true,
        energy_bytes: 1 << 30,
        atomic_pages: 4,
        durable: false,
        faults: Default::default(),
    })
    .unwrap();
    let volume = ftl.create(SetId(0), 6144 * 4096, &mut NoContents).unwrap();
    let mut done = Vec::new();
    for number in 0..1000u32 {
        let extent = Extent { start: u64::from(number) * 4 * 4096, bytes: 4096 };
        let now = Nanos(u64::from(number));
        match ftl.write(now, Io(number), volume, extent, Source::Host, false, &mut NoContents) {
            Answer::At(_) => {}
            Answer::Later => {
                ftl.poll(now, &mut NoContents, &mut done);
                assert_eq!(done.len(), 1, "write {number} never ends; {}", ftl.describe(SetId(0)));
                done.clear();
            }
            Answer::Failed(fault) => panic!("{fault}"),
        }
    }
}
