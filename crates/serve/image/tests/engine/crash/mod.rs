//! Crashes of a drive in an image, on a simulated disk: the whole of engine, drive and image, deterministic by its seed.
//!
//! `TRANCHE_CRASHES=1000000 cargo test --release -p image --test engine crashes_lose_nothing -- --nocapture` is the campaign; the suite
//! has a slice of it. A failure prints its seed and the few acts that it takes. `TRANCHE_CRASH_SEED=N` repeats the world of
//! one seed and prints what its hosts do; `TRANCHE_CRASH_WITHOUT=A-B,C` leaves out acts by their numbers.

mod acts;
mod erasure;
mod oracle;
mod setup;
mod shrink;
mod world;
mod zone_oracle;
mod zones;

use media::Rng;
use oracle::{After, Safe};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use world::World;

/// Crashes of one world.
const ROUNDS: u64 = 8;

/// What the worlds went through.
#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    kills: u64,
    host_crashes: u64,
    in_recovery: u64,
    full_at_opening: u64,
    damaged: u64,
    power_cuts: u64,
    failed_syncs: u64,
    stops: u64,
    formats: u64,
    erasures: u64,
    sanitizes: u64,
    made_anew: u64,
}

impl Tally {
    fn crashes(&self) -> u64 {
        self.kills + self.host_crashes
    }

    fn add(&mut self, other: &Tally) {
        self.kills += other.kills;
        self.host_crashes += other.host_crashes;
        self.in_recovery += other.in_recovery;
        self.full_at_opening += other.full_at_opening;
        self.damaged += other.damaged;
        self.power_cuts += other.power_cuts;
        self.failed_syncs += other.failed_syncs;
        self.stops += other.stops;
        self.formats += other.formats;
        self.erasures += other.erasures;
        self.sanitizes += other.sanitizes;
        self.made_anew += other.made_anew;
    }
}

/// Plays the world of a seed without some of its acts.
fn play(seed: u64, without: &BTreeSet<u64>, told: bool) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let setup = setup::setup(&mut Rng::new(seed));
    if told {
        println!("{setup:#?}\n{}", setup.toml);
    }
    let host_sync = setup.options.host_sync;
    let mut world = World::make(setup, seed);
    world.without.clone_from(without);
    world.told = told;
    for round in 0..ROUNDS {
        let failed = |what: String| format!("round {round}: {what}");
        let mut rng = world.draw(u64::MAX - round - 1);
        if rng.below(3) == 0 {
            world.disk.die_in(1 + rng.below(400));
        }
        if host_sync && rng.below(8) == 0 {
            world.disk.fail_syncs(2 + rng.below(6));
        }
        let steps = rng.below(400);
        let last = world.acts + 400;
        for _ in 0..steps {
            if world.is_over() {
                break;
            }
            world.act();
            let cut = world.cut.is_some();
            world.look_after_cut().map_err(|e| format!("round {round}, after a cut: {e}"))?;
            tally.power_cuts += u64::from(cut && world.cut.is_none());
        }
        // The numbers of later acts do not depend on how long this took.
        world.acts = last;
        if !world.is_over() && rng.below(12) == 0 {
            world.disk.set_full(false);
            world.stop();
            tally.stops += 1;
        }
        if world.disk.is_unmarked() {
            break;
        }
        let lost = world.disk.has_failed();
        tally.failed_syncs += u64::from(lost);
        crash_and_return(&mut world, &mut rng, lost, &mut tally).map_err(failed)?;
        // Idle or not, what is there stays.
        for _ in 0..rng.below(60) {
            world.act();
            world.look_after_cut().map_err(failed)?;
        }
        world.acts = last + 60;
    }
    tally.formats += world.formats;
    tally.erasures += world.erasures;
    tally.sanitizes += world.sanitizes;
    tally.made_anew += world.made_anew;
    Ok(tally)
}

/// The process dies, with the host or without; others die while they open the image, find no room, or find it damaged; the
/// last one finds what may be there.
fn crash_and_return(world: &mut World, rng: &mut Rng, failed: bool, tally: &mut Tally) -> Result<(), String> {
    let host_sync = world.setup.options.host_sync;
    let mut after = world.cut.take().unwrap_or_default().and(After { host: failed, ..After::default() });
    loop {
        world.disk.die();
        let host = host_sync && rng.below(2) == 0;
        match host {
            true => tally.host_crashes += 1,
            false => tally.kills += 1,
        }
        after.host |= host;
        world.disk.restart(host);
        if world.told {
            println!("a crash, of the host: {host}, {after:?}");
        }
        if rng.below(4) == 0 {
            world.disk.die_in(1 + rng.below(30));
        }
        let full = rng.below(12) == 0;
        world.disk.set_full(full);
        let damage = if rng.below(12) == 0 { world.disk.damage(rng) } else { None };
        if world.told {
            println!("  opened: full {full}, {damage:?}");
        }
        let opened = world.reopen();
        let dead = world.disk.is_dead();
        if let Some(damage) = &damage {
            world.disk.mend(damage);
            tally.damaged += 1;
        }
        match opened {
            Ok(()) if !dead => break,
            Err(e) if !dead && !full && damage.is_none() => {
                return Err(format!("the image does not open: {e}"));
            }
            Ok(()) | Err(_) if dead => tally.in_recovery += 1,
            _ => tally.full_at_opening += u64::from(full),
        }
    }
    world.disk.die_in(u64::MAX);
    world.disk.set_full(false);
    world.verify(after, Safe::FromHost)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Numbers and ranges of numbers, separated by commas.
fn numbers(text: &str) -> BTreeSet<u64> {
    let mut all = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse::<u64>().unwrap()..=last.parse().unwrap());
    }
    all
}

#[test]
fn crashes_lose_nothing() {
    if let Some(seed) = number("TRANCHE_CRASH_SEED") {
        let without = numbers(&std::env::var("TRANCHE_CRASH_WITHOUT").unwrap_or_default());
        play(seed, &without, true).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        return;
    }
    let mut tally = Tally::default();
    let wanted = number("TRANCHE_CRASHES").unwrap_or(2000);
    let first = u64::from_le_bytes(image::random()) >> 16;
    println!("worlds from seed {first} on");
    let mut seed = first;
    let mut told = Instant::now();
    while tally.crashes() < wanted {
        match shrink::played(seed, &BTreeSet::new()) {
            Ok(world) => tally.add(&world),
            Err(what) => {
                println!("seed {seed} fails: {what}");
                let without = shrink::shrink(seed);
                panic!("TRANCHE_CRASH_SEED={seed} TRANCHE_CRASH_WITHOUT={without}: {what}");
            }
        }
        seed += 1;
        if told.elapsed() > Duration::from_secs(60) {
            println!("{} worlds, {tally:?}", seed - first);
            told = Instant::now();
        }
    }
    println!("{} worlds, {tally:?}", seed - first);
}
