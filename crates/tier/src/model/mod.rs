//! The tier against a model. Requests, modes and policies are random. The tier is shut down, and it crashes. Power goes at any call,
//! several times in a row, and while the tier opens. Devices fail or vanish, and caches grow and shrink.
//!
//! One seed: `TRANCHE_TIER_SEED=7 cargo test --profile suite -p tier model`. Many: `TRANCHE_TIER_ROUNDS=5000`, from `TRANCHE_TIER_FIRST` on.

mod disk;
mod failures;
mod oracle;
mod world;

use world::{Counts, World};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

#[test]
fn whatever_happens_no_write_is_lost_that_was_promised() {
    let steps = number("TRANCHE_TIER_STEPS").unwrap_or(600);
    if let Some(seed) = number("TRANCHE_TIER_SEED") {
        println!("{:?}", World::new(seed).run(steps));
        return;
    }
    let first = number("TRANCHE_TIER_FIRST").unwrap_or(0);
    let rounds = number("TRANCHE_TIER_ROUNDS").unwrap_or(150);
    let mut counts = Counts::default();
    for seed in first..first + rounds {
        counts.add(&World::new(seed).run(steps));
    }
    println!("{rounds} tiers: {counts:?}");
    let tried = [
        counts.promotions,
        counts.demotions,
        counts.writebacks,
        counts.power_cuts,
        counts.cuts_in_opening,
        counts.kills,
        counts.vanished,
        counts.closed,
        counts.resized,
        counts.changes,
        counts.failed_requests,
    ];
    assert!(rounds < 100 || !tried.contains(&0), "the model does not try what it should: {counts:?}");
}
