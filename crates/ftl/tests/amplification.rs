//! Write amplification is counted, and agrees with theory for uniform random writes and greedy collection:
//! A = α / (α + W(-α e^-α)), α = raw / logical pages, W the Lambert function (Xiang & Kurkoski,
//! arXiv 1110.4245). Superblocks that are open or kept free are no spare.

use ftl::{Answer, Config, Extent, Ftl, GcConfig, GcPolicy, Io, NoContents, PAGE, SetConfig, SetId, Source};
use media::{Cell, FaultPlan, Geometry, NandConfig, NandTiming, Nanos, Rng};

/// The branch of W that the formula needs, by Newton's method.
fn theory(alpha: f64) -> f64 {
    let x = -alpha * (-alpha).exp();
    let mut w = -0.5;
    for _ in 0..100 {
        w -= (w * f64::exp(w) - x) / (f64::exp(w) * (w + 1.0));
    }
    alpha / (alpha + w)
}

fn measured(spare: f64) -> (f64, f64) {
    let geometry = Geometry {
        dies: 4,
        channels: 4,
        planes: 1,
        superblocks: 512,
        units_per_block: 256,
        unit_pages: 1,
        sense_pages: 1,
        in_place: false,
        rated_cycles: 1_000_000,
    };
    let raw = geometry.pages() as f64;
    let reserved = 3.0 * f64::from(geometry.pages_per_superblock());
    let pages = ((raw / (1.0 + spare)) as u32) / 256 * 256;
    let timing = NandTiming::default();
    let mut ftl = Ftl::new(Config {
        sets: vec![SetConfig::Nand {
            nand: NandConfig { geometry, cell: Cell::Slc, timing, durable: false },
            capacity_pages: pages,
            gc: GcConfig { policy: GcPolicy::Greedy, low: 3, ahead: 0, wear_gap: 1000 },
            placement: Default::default(),
        }],
        buffer_pages: 4,
        protected: true,
        energy_bytes: 1 << 20,
        atomic_pages: 1,
        durable: false,
        faults: FaultPlan::default(),
    })
    .expect("a good configuration");
    let bytes = u64::from(pages) * u64::from(PAGE);
    let volume = ftl.create(SetId(0), bytes, &mut NoContents).expect("space");
    let mut write = |page: u64| {
        let extent = Extent { start: page * u64::from(PAGE), bytes: PAGE };
        let answer = ftl.write(Nanos::ZERO, Io(0), volume, extent, Source::Host, false, &mut NoContents);
        assert!(!matches!(answer, Answer::Failed(_)), "{answer:?}");
        if answer == Answer::Later {
            ftl.poll(Nanos::ZERO, &mut NoContents, &mut Vec::new());
        }
        ftl.set_stats(SetId(0))
    };
    let mut rng = Rng::new(7);
    let mut stats = Default::default();
    for page in 0..u64::from(pages) {
        stats = write(page);
    }
    for _ in 0..5 * u64::from(pages) {
        stats = write(rng.below(u64::from(pages)));
    }
    let before = stats;
    for _ in 0..2 * u64::from(pages) {
        stats = write(rng.below(u64::from(pages)));
    }
    let amplification = (stats.media_written_bytes - before.media_written_bytes) as f64
        / (stats.host_written_bytes - before.host_written_bytes) as f64;
    (amplification, theory((raw - reserved) / f64::from(pages)))
}

#[test]
fn uniform_random_writes_amplify_as_theory_says() {
    for spare in [0.28, 0.125, 0.07] {
        let (measured, theory) = measured(spare);
        println!("spare {spare}: measured {measured:.3}, theory {theory:.3}");
        assert!((measured / theory - 1.0).abs() < 0.03, "spare {spare}: {measured:.3} against {theory:.3}");
    }
}

#[test]
fn theory_gives_the_published_values() {
    for (spare, published) in [(0.07, 7.82), (0.125, 4.68), (0.28, 2.48)] {
        assert!((theory(1.0 + spare) - published).abs() < 0.01);
    }
}
