//! The tier against a model. Requests, modes and policies are random. The tier is shut down, and it crashes. Power goes at any call,
//! several times in a row, and while the tier opens. Devices fail or vanish, a failed flush loses data, and caches grow and shrink.
//!
//! One seed: `TRANCHE_TIER_SEED=7 cargo test --profile suite -p tier model`. Many: `TRANCHE_TIER_ROUNDS=5000`, from `TRANCHE_TIER_FIRST` on.

mod failures;
mod subject;

use blockdev::stack::model::{Counts, World, number};
use subject::{Done, Tier};

#[test]
fn whatever_happens_no_write_is_lost_that_was_promised() {
    let steps = number("TRANCHE_TIER_STEPS").unwrap_or(600);
    let run = |seed| World::<Tier>::new(seed).run(steps);
    if let Some(seed) = number("TRANCHE_TIER_SEED") {
        let (counts, subject) = run(seed);
        println!("{counts:?}, {:?}", subject.done);
        return;
    }
    let first = number("TRANCHE_TIER_FIRST").unwrap_or(0);
    let rounds = number("TRANCHE_TIER_ROUNDS").unwrap_or(150);
    let (mut counts, mut done) = (Counts::default(), Done::default());
    for seed in first..first + rounds {
        let (of_run, subject) = run(seed);
        counts.add(&of_run);
        done.add(&subject.done);
    }
    println!("{rounds} tiers: {counts:?}, {done:?}");
    let tried = counts.has_all() && counts.lost_blocks > 0 && done.has_all();
    assert!(rounds < 100 || tried, "the model does not try what it should: {counts:?}, {done:?}");
}
