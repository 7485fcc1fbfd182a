//! The store against a model: random operations, crashes, losses of power, failing appends and flushes, zones that wear out.
//!
//! One seed: `TRANCHE_STORE_SEED=7 cargo test --profile suite -p store model`. Many: `TRANCHE_STORE_ROUNDS=5000`.

mod limits;
mod offline;
mod oracle;
mod rivals;
mod threads;
mod world;

use world::World;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// The seeds of a campaign of this many rounds, or the one that was asked for.
fn seeds(rounds: u64) -> std::ops::Range<u64> {
    let first = number("TRANCHE_STORE_FIRST").unwrap_or(0);
    number("TRANCHE_STORE_SEED").map_or(first..first + rounds, |seed| seed..seed + 1)
}

#[test]
fn whatever_happens_what_was_synced_is_there() {
    let steps = number("TRANCHE_STORE_STEPS").unwrap_or(600);
    if let Some(seed) = number("TRANCHE_STORE_SEED") {
        println!("{:?}", World::new(seed).run(steps));
        return;
    }
    let rounds = number("TRANCHE_STORE_ROUNDS").unwrap_or(300);
    let mut counts = world::Counts::default();
    for seed in seeds(rounds) {
        counts.add(&World::new(seed).run(steps));
    }
    println!("{rounds} stores: {counts:?}");
    let cuts_are_tried = counts.power_cuts > 0 && counts.kills > 0 && counts.collected > 0 && counts.full > 0;
    assert!(cuts_are_tried || rounds < 100, "the model does not try what it should: {counts:?}");
}
