//! Every medium passes the same suite, with and without faults.

use media::conformance::{Step, Suite};
use media::{
    Cell, FaultPlan, Faulty, Geometry, Medium, Memory, MemoryConfig, MemoryKind, Nand, NandConfig,
    NandTiming, Nanos, Rng, Sense, StateError, memory::Bandwidth,
};
use proptest::prelude::*;

/// Different in everything that a rule or a time depends on.
fn nand(cell: Cell, by_page: bool) -> NandConfig {
    let bits = cell.bits();
    let (planes, sense_pages) = (1 + bits % 3, [1, 4, 2][bits as usize % 3]);
    let types: Vec<Nanos> = (1..=u64::from(bits)).map(|i| Nanos(30_000 * i)).collect();
    NandConfig {
        geometry: Geometry {
            dies: 2 + bits,
            channels: 2,
            planes,
            superblocks: 3,
            units_per_block: 3 + bits,
            unit_pages: planes * sense_pages * if by_page { 1 } else { bits },
            sense_pages,
            in_place: false,
            rated_cycles: 20,
        },
        cell,
        timing: NandTiming {
            sense: if by_page { Sense::ByPageType(types) } else { Sense::Same(Nanos(50_000)) },
            program: Nanos(400_000 * u64::from(bits)),
            erase: Nanos(3_000_000),
            channel_bytes_per_second: 800_000_000,
            suspend: Nanos(8_000),
            resume: Nanos(4_000),
            max_suspends: bits,
        },
        durable: true,
    }
}

fn all_nand() -> impl Iterator<Item = NandConfig> {
    let cells = [Cell::Slc, Cell::Mlc, Cell::Tlc, Cell::Qlc];
    cells.into_iter().flat_map(|cell| [false, true].map(|by_page| nand(cell, by_page)))
}

fn memory(kind: MemoryKind) -> MemoryConfig {
    let pmem = kind == MemoryKind::Pmem;
    MemoryConfig {
        kind,
        pages: 48,
        banks: 4,
        read_latency: Nanos(300),
        write_latency: Nanos(900),
        bytes_per_second: match pmem {
            true => Bandwidth::Separate { read: 4_000_000_000, write: 1_000_000_000 },
            false => Bandwidth::Shared(2_000_000_000),
        },
        rated_cycles: if pmem { 1000 } else { u32::MAX },
        durable: true,
    }
}

fn plan(seed: u64) -> FaultPlan {
    FaultPlan {
        seed,
        corrected_reads: 100_000_000,
        uncorrectable_reads: 50_000_000,
        weak_pages: 20_000_000,
        program_failures: 50_000_000,
        erase_failures: 50_000_000,
        initial_bad_blocks: 100_000_000,
        slow_operations: 100_000_000,
        slow_factor: 5,
        wear_out: 500_000_000,
        ..FaultPlan::default()
    }
}

/// Runs `history` on the medium itself, in a wrapper without faults, and in one with.
fn everything<M: Medium>(
    new: impl Fn() -> M + Copy,
    restore: impl Fn(&[u8]) -> Result<M, StateError> + Copy,
    seed: u64,
    history: &[Step],
) {
    let open = |bytes: &[u8]| restore(bytes).unwrap();
    Suite { new, restore: open, faults: false }.history(history);
    let wrapped = |plan: FaultPlan| {
        let again = plan.clone();
        Suite {
            faults: plan != FaultPlan::default(),
            new: move || Faulty::new(new(), plan.clone()),
            restore: move |bytes: &[u8]| Faulty::restore(again.clone(), bytes, restore).unwrap(),
        }
    };
    wrapped(FaultPlan::default()).history(history);
    wrapped(plan(seed)).history(history);
}

fn all_media(seed: u64, history: &[Step]) {
    for config in all_nand() {
        let untimed = NandConfig { timing: NandTiming::default(), ..config.clone() };
        for config in [config, untimed] {
            let (new, open) =
                (|| Nand::new(config.clone()).unwrap(), |b: &[u8]| Nand::restore(config.clone(), b));
            everything(new, open, seed, history);
        }
    }
    for kind in [MemoryKind::Dram, MemoryKind::Pmem] {
        let config = memory(kind);
        let (new, open) =
            (|| Memory::new(config.clone()).unwrap(), |b: &[u8]| Memory::restore(config.clone(), b));
        everything(new, open, seed, history);
    }
}

#[test]
fn long_random_histories() {
    for seed in 0..8 {
        // Seen if it fails.
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let history: Vec<Step> = (0..3000).map(|_| Step::random(&mut rng)).collect();
        all_media(seed, &history);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Short ones, which shrink to what breaks.
    #[test]
    fn short_random_histories(seed: u64, history in prop::collection::vec(any::<u64>().prop_map(|c| Step::random(&mut Rng::new(c))), 0..200)) {
        all_media(seed, &history);
    }
}
