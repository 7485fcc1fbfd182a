//! Write amplification is counted, and agrees with theory where there is one: [`load`] has the formulas and their sources.
//! `cargo bench -p ftl --bench amplification` does it for more loads.

use crate::support::load;

use ftl::{
    Config, Extent, Ftl, GcConfig, GcPolicy, Io, NoContents, PAGE, Policies, SetId, Source, Write,
    WriteHistory,
};
use load::{Class, LoadedDrive, hot_and_cold, kept_apart, oldest_first, uniform, zipf};
use media::{Nanos, Rng};

#[test]
fn uniform_random_writes_amplify_as_theory_says_and_from_the_first_on_if_they_are_past() {
    for spare in [0.28, 0.125, 0.07] {
        let mut written = LoadedDrive::new(spare, GcPolicy::Greedy, uniform());
        (0..written.pages).for_each(|page| written.write(page));
        written.overwrite(5 * written.pages);
        let measured = written.overwrite(2 * written.pages);
        let theory = oldest_first(&uniform(), written.alpha);
        println!("spare {spare}: measured {measured:.3}, theory {theory:.3}");
        assert!((measured / theory - 1.0).abs() < 0.03, "spare {spare}: {measured:.3} against {theory:.3}");

        let mut aged = LoadedDrive::new(spare, GcPolicy::Greedy, uniform());
        assert!(aged.ftl.precondition(
            Nanos::ZERO,
            &[aged.volume],
            WriteHistory::Overwritten(1),
            &mut NoContents,
            &mut || true
        ));
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
        assert!((oldest_first(&uniform(), 1.0 + spare) - published).abs() < 0.01);
        assert!((kept_apart(&uniform(), 1.0 + spare) - published).abs() < 0.01);
        // Classes that are written equally often are one.
        assert!((oldest_first(&hot_and_cold(0.3, 0.3), 1.0 + spare) - published).abs() < 0.01);
        assert!((kept_apart(&hot_and_cold(0.3, 0.3), 1.0 + spare) - published).abs() < 0.01);
    }
    for classes in [hot_and_cold(0.9, 0.1), zipf(1.0, 1e6)] {
        let sums = classes.iter().fold((0.0, 0.0), |s, c| (s.0 + c.size, s.1 + c.rate));
        assert!((sums.0 - 1.0f64).abs() < 1e-9 && (sums.1 - 1.0f64).abs() < 1e-9, "{sums:?}");
        // To mix costs, to keep apart pays.
        assert!(oldest_first(&classes, 1.28) > 2.48 && kept_apart(&classes, 1.28) < 2.48);
    }
}

/// Cleaning in the order of sealing has a theory of its own, for any mixture of hot and cold data.
#[test]
fn the_oldest_first_amplifies_as_its_theory_says() {
    for (spare, classes) in [(0.12, uniform()), (0.28, uniform()), (0.28, hot_and_cold(0.9, 0.1))] {
        let mut load = LoadedDrive::new(spare, GcPolicy::Fifo, classes.clone());
        (0..load.pages).for_each(|page| load.write(page));
        load.overwrite(4 * load.pages);
        let measured = load.overwrite(load.pages);
        let theory = oldest_first(&classes, load.alpha);
        println!("spare {spare}, {} classes: {measured:.3}, theory {theory:.3}", classes.len());
        assert!((measured / theory - 1.0).abs() < 0.03, "{measured:.3} is not {theory:.3}");
    }
}

/// A drive after five drive writes of random data, with greedy victims among the oldest.
fn windowed(window: u32, classes: &[Class]) -> (f64, LoadedDrive) {
    let gc = GcConfig { window, wear_gap: 1000, ..GcConfig::default() };
    let mut load = LoadedDrive::with_gc(0.28, gc, Policies::default(), classes.to_vec());
    (0..load.pages).for_each(|page| load.write(page));
    load.overwrite(4 * load.pages);
    (load.overwrite(load.pages), load)
}

/// The smallest window takes the oldest, whatever the policy. Uniform data amplifies as theory says with any window.
#[test]
fn a_window_amplifies_between_the_oldest_first_and_greedy() {
    let classes = hot_and_cold(0.9, 0.1);
    let [greedy, eighth, oldest] = [100, 12, 1].map(|window| windowed(window, &classes).0);
    let theory = oldest_first(&classes, LoadedDrive::new(0.28, GcPolicy::Greedy, uniform()).alpha);
    println!("greedy {greedy:.3}, eighth {eighth:.3}, oldest {oldest:.3} ({theory:.3})");
    assert!((oldest / theory - 1.0).abs() < 0.03, "{oldest:.3} is not {theory:.3}");
    assert!((greedy.min(oldest)..greedy.max(oldest)).contains(&eighth), "{eighth:.3}");
    let (uniform_writes, load) = windowed(25, &uniform());
    let theory = oldest_first(&uniform(), load.alpha);
    assert!((uniform_writes / theory - 1.0).abs() < 0.03, "{uniform_writes:.3} is not {theory:.3}");
}

/// What collection moves is written apart from what hosts write, and is colder: so a drive does better than one that collects the
/// oldest first, and cannot do as well as one that knows.
#[test]
fn skewed_writes_amplify_between_the_bounds_of_theory() {
    let classes = hot_and_cold(0.9, 0.1);
    for policy in [GcPolicy::Greedy, GcPolicy::CostBenefit] {
        let mut load = LoadedDrive::new(0.28, policy, classes.clone());
        (0..load.pages).for_each(|page| load.write(page));
        load.overwrite(4 * load.pages);
        let measured = load.overwrite(load.pages);
        let bounds = kept_apart(&classes, load.alpha)..oldest_first(&classes, load.alpha);
        println!("{policy:?}: {measured:.3} within {bounds:.3?}");
        assert!(bounds.contains(&measured), "{policy:?}: {measured:.3} is not within {bounds:?}");
    }
}

#[test]
fn a_past_outlives_a_power_cut_and_a_saved_drive() {
    let kinds = [
        (true, WriteHistory::Overwritten(3)),
        (false, WriteHistory::Overwritten(3)),
        (true, WriteHistory::Filled),
        (false, WriteHistory::Filled),
    ];
    for (durable, history) in kinds {
        let config =
            Config { durable, ..LoadedDrive::new(0.28, GcPolicy::Greedy, uniform()).ftl.config().clone() };
        let mut ftl = Ftl::new(config.clone()).expect("a good configuration");
        // Half of the set, in two volumes.
        let bytes = (128 << 10) * u64::from(PAGE);
        let volumes = [(); 2].map(|()| ftl.create(SetId(0), bytes, &mut NoContents).expect("space"));
        assert!(ftl.precondition(Nanos::ZERO, &volumes, history, &mut NoContents, &mut || true));
        assert!(
            !ftl.precondition(Nanos::ZERO, &volumes, history, &mut NoContents, &mut || true),
            "it is not blank any more"
        );
        let pages = bytes / u64::from(PAGE);
        let write = |ftl: &mut Ftl, count: u64, seed: u64| {
            let mut rng = Rng::new(seed);
            for _ in 0..count {
                let extent = Extent { start: rng.below(pages - 1) * u64::from(PAGE), bytes: PAGE };
                let volume = volumes[rng.below(2) as usize];
                ftl.write(Nanos::ZERO, Write::new(Io(0), volume, extent, Source::Host), &mut NoContents);
                ftl.poll(Nanos::ZERO, &mut NoContents, &mut Vec::new());
            }
        };
        write(&mut ftl, pages, 5);
        // The last page of one of them is gone for good.
        let start = bytes - u64::from(PAGE);
        ftl.trim(Nanos::ZERO, volumes[0], start, PAGE.into(), &mut NoContents).expect("in range");
        let gone = |ftl: &Ftl| volumes.map(|v| bytes - ftl.allocated_bytes(v));
        assert_eq!(gone(&ftl), [PAGE.into(), 0]);
        ftl.power_cut(Nanos::ZERO, true, &mut NoContents);
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
        assert!(all[0] == all[1] && all[0] == all[2], "durable {durable}, {history:?}");
    }
}
