//! Policies of other crates: what they see, and that what they say is done.

use crate::support::load;

use ftl::{
    Candidate, ConfigError, Ftl, GcPolicy, HostWrite, PlacementConfig, PlacementPolicy, Policies, SetConfig,
    VictimPolicy, Writer,
};
use load::{LoadedDrive, hot_and_cold, kept_in_rooms, oldest_first, uniform};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Knows which pages are hot, the first ones, and what share of the superblocks is to be theirs.
#[derive(Clone)]
struct Knowing {
    hot: u32,
    share: f64,
}

impl PlacementPolicy for Knowing {
    fn host_streams(&self, _handles: usize) -> usize {
        2
    }

    fn relocation_streams(&self, _handles: usize) -> usize {
        2
    }

    fn host(&mut self, write: HostWrite) -> usize {
        usize::from(write.page >= self.hot)
    }

    fn relocated(&mut self, victim: &Candidate) -> Writer {
        Writer::Relocation(class(victim))
    }
}

fn class(superblock: &Candidate) -> usize {
    match superblock.writer {
        Writer::Host(class) | Writer::Relocation(class) => class,
    }
}

impl VictimPolicy for Knowing {
    fn choose(&mut self, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<u32> {
        let mut classes = [Vec::new(), Vec::new()];
        candidates.for_each(|c| classes[class(&c)].push(c));
        let [hot, cold] = classes.each_ref().map(Vec::len);
        let which = usize::from((hot as f64) < self.share * (hot + cold) as f64);
        classes[which].iter().min_by_key(|c| (c.valid, c.superblock)).map(|c| c.superblock)
    }
}

/// Superblocks with fewest valid pages are as full whether hot and cold pages lie apart or not: then all is as if every page were written as often
/// as any other. Who also knows how many superblocks each kind should have comes near what theory says is the best.
#[test]
fn pages_that_are_kept_apart_amplify_as_theory_says() {
    let classes = hot_and_cold(0.9, 0.1);
    let measure = |policies: Policies| {
        let mut load = LoadedDrive::with(0.28, GcPolicy::Greedy, policies, classes.clone());
        (0..load.pages).for_each(|page| load.write(page));
        load.overwrite(4 * load.pages);
        load.overwrite(load.pages)
    };
    let LoadedDrive { pages, alpha, .. } = LoadedDrive::new(0.28, GcPolicy::Greedy, classes.clone());
    let (best, shares) = kept_in_rooms(&classes, alpha);
    let knowing = Arc::new(Knowing { hot: (pages / 10) as u32, share: shares[0] });
    let mixed = measure(Policies::default());
    let apart = measure(Policies { placement: Some(knowing.clone()), ..Policies::default() });
    let shared = measure(Policies { victim: Some(knowing.clone()), placement: Some(knowing) });
    let alike = oldest_first(&uniform(), alpha);
    println!("mixed {mixed:.3}, apart {apart:.3} ({alike:.3}), shared out {shared:.3} ({best:.3})");
    assert!(mixed > apart && (apart / alike - 1.0).abs() < 0.03, "{apart:.3} is not {alike:.3}");
    assert!((0.98..1.1).contains(&(shared / best)), "{shared:.3} is not {best:.3}");
}

/// Looks at what it is shown, and takes what was full first, as the policy `fifo`.
#[derive(Clone)]
struct Oldest {
    asked: Arc<AtomicU64>,
}

impl VictimPolicy for Oldest {
    fn choose(&mut self, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<u32> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let all: Vec<Candidate> = candidates.collect();
        assert!(all.is_sorted_by_key(|c| c.superblock), "{all:?}");
        assert!(all.iter().all(|c| c.gain() > 0 && c.age >= 1), "{all:?}");
        all.iter().max_by_key(|c| (c.age, u32::MAX - c.superblock)).map(|c| c.superblock)
    }
}

#[test]
fn a_victim_policy_of_ones_own_gives_what_the_same_one_built_in_gives() {
    let measure = |named, policies| {
        let mut load = LoadedDrive::with(0.28, named, policies, uniform());
        (0..load.pages).for_each(|page| load.write(page));
        load.overwrite(load.pages)
    };
    let asked = Arc::new(AtomicU64::new(0));
    let own = Policies { victim: Some(Arc::new(Oldest { asked: asked.clone() })), ..Policies::default() };
    assert_eq!(measure(GcPolicy::Greedy, own), measure(GcPolicy::Fifo, Policies::default()));
    assert!(asked.load(Ordering::Relaxed) > 0);
}

/// Never sees reason to collect.
#[derive(Clone)]
struct Never;

impl VictimPolicy for Never {
    fn choose(&mut self, _candidates: &mut dyn Iterator<Item = Candidate>) -> Option<u32> {
        None
    }
}

/// When hosts have nothing left to write to, the set takes the superblock with fewest valid pages.
#[test]
fn a_set_goes_on_although_its_policy_chooses_nothing() {
    let policies = Policies { victim: Some(Arc::new(Never)), ..Policies::default() };
    let mut load = LoadedDrive::with(0.28, GcPolicy::Fifo, policies, uniform());
    (0..load.pages).for_each(|page| load.write(page));
    load.overwrite(3 * load.pages);
    let (measured, theory) = (load.overwrite(load.pages), oldest_first(&uniform(), load.alpha));
    assert!((measured / theory - 1.0).abs() < 0.05, "{measured:.3} is not {theory:.3}");
}

/// Wants so many streams.
#[derive(Clone)]
struct Streams(usize, usize);

impl PlacementPolicy for Streams {
    fn host_streams(&self, _handles: usize) -> usize {
        self.0
    }

    fn relocation_streams(&self, _handles: usize) -> usize {
        self.1
    }

    fn relocated(&mut self, _victim: &Candidate) -> Writer {
        Writer::Relocation(0)
    }
}

#[test]
fn impossible_numbers_of_streams_are_errors() {
    let load = LoadedDrive::new(0.28, GcPolicy::Greedy, uniform());
    let make = |streams, handles| {
        let mut config = load.ftl.config().clone();
        config.set_policies(&Policies { placement: Some(Arc::new(streams)), ..Policies::default() });
        config.buffer_pages = 64;
        if let SetConfig::Nand { placement, .. } = &mut config.sets[0] {
            *placement = PlacementConfig { handles, isolated: false };
        }
        Ftl::new(config).map(|_| ())
    };
    assert_eq!(make(Streams(4, 2), 1), Ok(()));
    for (streams, handles, what) in [
        (Streams(0, 1), 1, "host streams"),
        (Streams(65, 1), 1, "host streams"),
        (Streams(1, 0), 1, "relocation streams"),
        (Streams(1, 65), 1, "relocation streams"),
        (Streams(2, 1), 2, "placement handles"),
    ] {
        let error = make(streams, handles).unwrap_err();
        let ConfigError::Range { what: said, .. } = &error else { panic!("{error}") };
        assert_eq!(*said, what, "{error}");
    }
    // Each stream has a superblock open.
    assert!(matches!(make(Streams(64, 64), 1), Err(ConfigError::Spare { .. })));
}
