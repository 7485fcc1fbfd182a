//! The cache against a model. Requests, modes and rules of replacement are random. The cache is shut down, and it crashes. Power goes at
//! any call, several times in a row, and while the cache opens. Devices fail or vanish.
//!
//! One seed: `TRANCHE_LOGTIER_SEED=7 cargo test --profile suite -p logtier model`. Many: `TRANCHE_LOGTIER_ROUNDS=5000`, from
//! `TRANCHE_LOGTIER_FIRST` on.

mod failures;
mod subject;

use stack::model::{Counts, World, number};
use subject::{Cache, Done};

#[test]
fn whatever_happens_no_write_is_lost_that_was_promised() {
    let steps = number("TRANCHE_LOGTIER_STEPS").unwrap_or(600);
    let run = |seed| World::<Cache>::new(seed).run(steps);
    if let Some(seed) = number("TRANCHE_LOGTIER_SEED") {
        let (counts, subject) = run(seed);
        println!("{counts:?}, {:?}", subject.done);
        return;
    }
    let first = number("TRANCHE_LOGTIER_FIRST").unwrap_or(0);
    let rounds = number("TRANCHE_LOGTIER_ROUNDS").unwrap_or(60);
    let (mut counts, mut done) = (Counts::default(), Done::default());
    for seed in first..first + rounds {
        let (of_run, subject) = run(seed);
        counts.add(&of_run);
        done.add(&subject.done);
    }
    println!("{rounds} caches: {counts:?}, {done:?}");
    let tried = counts.has_all() && done.has_all();
    assert!(rounds < 60 || tried, "the model does not try what it should: {counts:?}, {done:?}");
    assert!(done.journal > rounds * 128, "the journal's ring does not come round: {done:?}");
}
