//! The cache against a model. Requests, modes and rules of replacement are random. The cache is shut down, and it crashes. Power goes at
//! any call, several times in a row, and while the cache opens. Devices fail or vanish. Disks and oracle are those of the tier's model.
//!
//! One seed: `TRANCHE_LOGTIER_SEED=7 cargo test --profile suite -p logtier model`. Many: `TRANCHE_LOGTIER_ROUNDS=5000`, from
//! `TRANCHE_LOGTIER_FIRST` on.

#[expect(dead_code, reason = "the tier's model also changes the size of its devices")]
#[path = "../../../tier/src/model/disk.rs"]
mod disk;
mod failures;
#[path = "../../../tier/src/model/oracle.rs"]
mod oracle;
mod world;

use world::{Counts, World};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

#[test]
fn whatever_happens_no_write_is_lost_that_was_promised() {
    let steps = number("TRANCHE_LOGTIER_STEPS").unwrap_or(600);
    if let Some(seed) = number("TRANCHE_LOGTIER_SEED") {
        println!("{:?}", World::new(seed).run(steps));
        return;
    }
    let first = number("TRANCHE_LOGTIER_FIRST").unwrap_or(0);
    let rounds = number("TRANCHE_LOGTIER_ROUNDS").unwrap_or(60);
    let mut counts = Counts::default();
    for seed in first..first + rounds {
        counts.add(&World::new(seed).run(steps));
    }
    println!("{rounds} caches: {counts:?}");
    let tried = [
        counts.hits,
        counts.filled,
        counts.written_back,
        counts.reclaimed,
        counts.power_cuts,
        counts.cuts_in_opening,
        counts.kills,
        counts.vanished,
        counts.closed,
        counts.changes,
        counts.failed_requests,
    ];
    assert!(counts.journal > rounds * 128, "the journal's ring does not come round: {counts:?}");
    assert!(rounds < 60 || !tried.contains(&0), "the model does not try what it should: {counts:?}");
}
