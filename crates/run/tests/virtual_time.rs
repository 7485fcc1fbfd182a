//! The same drive under the virtual clock.

mod common;

use common::{shape, shape_with};
use run::sim::{Contents, Outcome, Sim};
use workload::{Mix, MixConfig, Order};

fn config(writes: u32, seed: u64) -> MixConfig {
    MixConfig {
        range: 8192,
        blocks: 1,
        order: Order::Random,
        writes_per_mille: writes,
        depth: 16,
        count: Some(40_000),
        seed,
    }
}

fn run(contents: Contents, seed: u64) -> Outcome {
    let shape = shape_with("timing = true");
    let mut sim = Sim::new(shape.config, contents).unwrap();
    let mut host = sim.host(1).unwrap();
    host.run(&mut Mix::new(config(700, seed)))
}

#[test]
fn equal_seeds_give_equal_runs() {
    let first = run(Contents::None, 1);
    assert_eq!((first.requests, first.failed), (40_000, 0));
    assert_eq!(first, run(Contents::None, 1));
    // Whether contents are kept makes no difference to the drive.
    assert_eq!(first, run(Contents::Memory, 1));
    assert_ne!(first.digest, run(Contents::None, 2).digest);
}

#[test]
fn without_timing_nothing_takes_time() {
    let mut sim = Sim::new(shape().config, Contents::None).unwrap();
    let mut host = sim.host(1).unwrap();
    let outcome = host.run(&mut Mix::new(config(1000, 3)));
    assert_eq!((outcome.requests, outcome.failed), (40_000, 0));
    assert_eq!(outcome.elapsed.0, 0);
}

#[test]
fn an_actor_without_a_namespace_is_told() {
    let mut sim = Sim::new(shape().config, Contents::None).unwrap();
    assert!(sim.host(2).is_err());
}

#[test]
fn a_run_can_be_ended_early() {
    let mut sim = Sim::new(shape_with("timing = true").config, Contents::None).unwrap();
    let mut host = sim.host(1).unwrap();
    let outcome = host.run_until(&mut Mix::new(config(500, 3)), |o| o.requests >= 100);
    assert!((100..120).contains(&outcome.requests), "{}", outcome.requests);
}
