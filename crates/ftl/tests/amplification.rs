//! Write amplification is counted, and agrees with theory for uniform random writes and greedy collection:
//! A = α / (α + W(-α e^-α)), α = raw / logical pages, W the Lambert function (Xiang & Kurkoski,
//! arXiv 1110.4245). Superblocks that are open or kept free are no spare.

use ftl::{
    Answer, Config, Extent, Ftl, GcConfig, GcPolicy, Io, NoContents, PAGE, Past, SetConfig, SetId, Source,
    VolumeId,
};
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

/// A drive under uniform random writes.
struct Load {
    ftl: Ftl,
    volume: VolumeId,
    pages: u64,
    /// Raw pages over logical ones, without superblocks that are open or kept free.
    alpha: f64,
    rng: Rng,
}

impl Load {
    fn new(spare: f64) -> Load {
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
        let alpha = (raw - reserved) / f64::from(pages);
        Load { ftl, volume, pages: pages.into(), alpha, rng: Rng::new(7) }
    }

    fn write(&mut self, page: u64) {
        let extent = Extent { start: page * u64::from(PAGE), bytes: PAGE };
        let answer =
            self.ftl.write(Nanos::ZERO, Io(0), self.volume, extent, Source::Host, false, &mut NoContents);
        assert!(!matches!(answer, Answer::Failed(_)), "{answer:?}");
        if answer == Answer::Later {
            self.ftl.poll(Nanos::ZERO, &mut NoContents, &mut Vec::new());
        }
    }

    /// Writes so many pages at random; how often each was programmed.
    fn overwrite(&mut self, count: u64) -> f64 {
        let before = self.ftl.set_stats(SetId(0));
        for _ in 0..count {
            let page = self.rng.below(self.pages);
            self.write(page);
        }
        let after = self.ftl.set_stats(SetId(0));
        (after.media_written_bytes - before.media_written_bytes) as f64
            / (after.host_written_bytes - before.host_written_bytes) as f64
    }
}

#[test]
fn uniform_random_writes_amplify_as_theory_says_and_from_the_first_on_if_they_are_past() {
    for spare in [0.28, 0.125, 0.07] {
        let mut written = Load::new(spare);
        (0..written.pages).for_each(|page| written.write(page));
        written.overwrite(5 * written.pages);
        let measured = written.overwrite(2 * written.pages);
        let theory = theory(written.alpha);
        println!("spare {spare}: measured {measured:.3}, theory {theory:.3}");
        assert!((measured / theory - 1.0).abs() < 0.03, "spare {spare}: {measured:.3} against {theory:.3}");

        let mut aged = Load::new(spare);
        assert!(aged.ftl.age(Nanos::ZERO, &[aged.volume], Past::Overwritten(1), &mut NoContents));
        assert_eq!(aged.ftl.allocated_bytes(aged.volume), aged.pages * u64::from(PAGE));
        // The first of these writes, and later ones: it neither has to settle nor drifts away.
        for what in ["from the first on", "later"] {
            let aged = aged.overwrite(aged.pages / 2);
            println!("  aged, {what}: {aged:.3}");
            assert!(
                (aged / measured - 1.0).abs() < 0.01,
                "spare {spare}, {what}: {aged:.3} against {measured:.3}"
            );
        }
    }
}

#[test]
fn theory_gives_the_published_values() {
    for (spare, published) in [(0.07, 7.82), (0.125, 4.68), (0.28, 2.48)] {
        assert!((theory(1.0 + spare) - published).abs() < 0.01);
    }
}

#[test]
fn a_past_outlives_a_power_cut_and_a_saved_drive() {
    let kinds = [
        (true, Past::Overwritten(3)),
        (false, Past::Overwritten(3)),
        (true, Past::Filled),
        (false, Past::Filled),
    ];
    for (durable, past) in kinds {
        let config = Config { durable, ..Load::new(0.28).ftl.config().clone() };
        let mut ftl = Ftl::new(config.clone()).expect("a good configuration");
        // Half of the set, in two volumes.
        let bytes = (128 << 10) * u64::from(PAGE);
        let volumes = [(); 2].map(|()| ftl.create(SetId(0), bytes, &mut NoContents).expect("space"));
        assert!(ftl.age(Nanos::ZERO, &volumes, past, &mut NoContents));
        assert!(!ftl.age(Nanos::ZERO, &volumes, past, &mut NoContents), "it is not blank any more");
        let pages = bytes / u64::from(PAGE);
        let write = |ftl: &mut Ftl, count: u64, seed: u64| {
            let mut rng = Rng::new(seed);
            for _ in 0..count {
                let extent = Extent { start: rng.below(pages - 1) * u64::from(PAGE), bytes: PAGE };
                let volume = volumes[rng.below(2) as usize];
                ftl.write(Nanos::ZERO, Io(0), volume, extent, Source::Host, false, &mut NoContents);
                ftl.poll(Nanos::ZERO, &mut NoContents, &mut Vec::new());
            }
        };
        write(&mut ftl, pages, 5);
        // The last page of one of them is gone for good.
        let start = bytes - u64::from(PAGE);
        ftl.trim(Nanos::ZERO, volumes[0], start, PAGE.into(), &mut NoContents).expect("in range");
        let gone = |ftl: &Ftl| volumes.map(|v| bytes - ftl.allocated_bytes(v));
        assert_eq!(gone(&ftl), [PAGE.into(), 0]);
        ftl.power_cut(Nanos::ZERO, true);
        ftl.recover(Nanos::ZERO, &mut NoContents);
        assert_eq!(gone(&ftl), [PAGE.into(), 0]);
        let parked = ftl.park(Nanos::ZERO);
        let mut saved = Vec::new();
        parked.save(&mut saved);
        let again = Ftl::restore(config, &saved).expect("it was saved just now");
        // Whether it was kept in memory or in bytes makes no difference.
        let all = [parked.clone(), parked, again].map(|parked| {
            let mut ftl = parked.finish(Nanos::ZERO, &mut NoContents).expect("it can be opened");
            assert_eq!(gone(&ftl), [PAGE.into(), 0]);
            write(&mut ftl, pages, 6);
            let mut saved = Vec::new();
            ftl.park(Nanos::ZERO).save(&mut saved);
            saved
        });
        assert!(all[0] == all[1] && all[0] == all[2], "durable {durable}, {past:?}");
    }
}
