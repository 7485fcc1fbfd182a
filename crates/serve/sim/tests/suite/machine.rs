//! Several drives on one virtual clock.

use crate::common::shape_with;
use media::Nanos;
use sim::{ActorTotals, Actors, Checkpoint, Contents, Machine, Sim};
use workload::{Mix, MixConfig, Order};

/// A small drive whose flash reads and programs take this long.
fn drive(read: &str, program: &str) -> device::Config {
    let timing = format!(
        "rated_cycles = 3000\ntiming = {{ read = \"{read}\", program = \"{program}\", erase = \"4ms\", channel = \"800MB/s\" }}"
    );
    let toml = shape_with("timing = true\nwrite_buffer = \"256KiB\"").toml;
    device::Config::from_toml(&toml.replace("rated_cycles = 3000", &timing)).unwrap()
}

/// Three that differ.
fn drives() -> [device::Config; 3] {
    [drive("60us", "700us"), drive("25us", "200us"), drive("90us", "2ms")]
}

fn load(seed: u64) -> Mix {
    Mix::new(MixConfig {
        range: 8192,
        blocks: 1,
        order: Order::Random,
        writes_per_mille: 500,
        depth: 8,
        count: Some(20_000),
        seed,
    })
}

/// When a request ended, from the begin of its run; how long it took; which it was.
type Event = (u64, u64, u64);

/// Runs a load on each of the drives at the same time: the events of each, and the drive of every event in their order.
fn run(sims: &[Sim], seed: u64) -> (Vec<Vec<Event>>, Vec<usize>) {
    let machine = sims[0].machine();
    let mut hosts: Vec<_> =
        sims.iter().map(|sim| sim.host("nqn.2026-11.org.example:host").unwrap()).collect();
    let mut actors: Actors<Mix> = machine.actors();
    for (host, number) in hosts.iter_mut().zip(0..) {
        actors.add(host, 1, load(seed + number)).unwrap();
    }
    let start = machine.now();
    let (mut events, mut order, mut last) = (vec![Vec::new(); sims.len()], Vec::new(), start);
    assert!(actors.run(Nanos::MAX, |step| {
        assert!(step.status.is_success() && step.now >= last, "{step:?} after {last:?}");
        last = step.now;
        events[step.actor].push((step.now.since(start).0, step.latency.0, step.request.lba));
        order.push(step.actor);
        false
    }));
    (events, order)
}

fn together(seed: u64) -> (Vec<Vec<Event>>, Vec<usize>) {
    let machine = Machine::new();
    run(&drives().map(|config| machine.add(config, Contents::None).unwrap()), seed)
}

#[test]
fn each_of_three_drives_does_what_it_does_alone() {
    let (events, order) = together(7);
    for ((config, number), events) in drives().into_iter().zip(0..).zip(&events) {
        let alone = run(&[Sim::new(config, Contents::None).unwrap()], 7 + number).0.remove(0);
        assert!(alone.len() == 20_000 && alone == *events, "drive {number}");
    }
    // They work at the same time: while the fastest one works, the others do, too.
    let fastest = order.iter().rposition(|&drive| drive == 1).unwrap();
    let changes = order[..=fastest].windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes > 1_000, "{changes}");
    assert!([0, 2].iter().all(|drive| order[..fastest].contains(drive) && order[fastest..].contains(drive)));
}

#[test]
fn equal_seeds_give_equal_runs_of_the_machine() {
    let first = together(1);
    assert!(first == together(1));
    assert!(first.0 != together(2).0);
}

#[test]
fn drives_that_are_equal_do_the_same_in_the_order_of_their_numbers() {
    let machine = Machine::new();
    let sims = [0, 1].map(|_| machine.add(drive("60us", "700us"), Contents::None).unwrap());
    let mut hosts = sims.each_ref().map(|sim| sim.host("nqn.2026-11.org.example:host").unwrap());
    let mut actors: Actors<Mix> = machine.actors();
    // The second drive's load comes first.
    for host in hosts.iter_mut().rev() {
        actors.add(host, 1, load(5)).unwrap();
    }
    let mut times = [Vec::new(), Vec::new()];
    assert!(actors.run(Nanos::MAX, |step| {
        times[step.actor].push(step.now);
        // The first drive is always the first to do it.
        assert!(times[1].len() >= times[0].len());
        false
    }));
    assert_eq!(actors.outcome(0), actors.outcome(1));
    assert!(times[0] == times[1] && times[0].len() == 20_000);
}

#[test]
fn who_waits_on_one_drive_lets_all_of_them_run() {
    let run = |waits: bool| -> (ActorTotals, Nanos) {
        let machine = Machine::new();
        let [first, second] = ["60us", "25us"].map(|read| machine.add(drive(read, "700us"), Contents::None));
        let (first, second) = (first.unwrap(), second.unwrap());
        let nqn = "nqn.2026-11.org.example:host";
        let (mut host, mut other) = (first.host(nqn).unwrap(), second.host(nqn).unwrap());
        let mut actors: Actors<Mix> = machine.actors();
        actors.add(&mut other, 1, load(3)).unwrap();
        assert!(!actors.run(machine.now() + Nanos(10_000_000), |_| false));
        let before = machine.now();
        if waits {
            let seconds = std::time::Duration::from_secs(1);
            assert!(host.next_event(seconds).unwrap().is_none(), "nothing happened on the first");
        }
        let waited = machine.now().since(before);
        assert!(actors.run(Nanos::MAX, |_| false));
        (actors.outcome(0), waited)
    };
    let ((alone, _), (disturbed, waited)) = (run(false), run(true));
    assert!(waited >= Nanos(900_000_000), "{waited:?}");
    assert_eq!((alone.requests, alone.failed), (disturbed.requests, disturbed.failed));
    // What was outstanding on the second drive has its true latency, though it was taken much later.
    assert!(disturbed.latency_max < waited.0, "{disturbed:?}");
}

#[test]
fn a_kept_drive_is_powered_on_beside_others() {
    let used = Sim::new(drive("60us", "700us"), Contents::None).unwrap();
    run(std::slice::from_ref(&used), 9);
    let (old, config) = (Checkpoint::of(used).unwrap(), drive("25us", "200us"));
    assert!(old.time() > Nanos::ZERO);
    let machine = Machine::new();
    let new = machine.add(config, Contents::None).unwrap();
    let kept = machine.power_on(old.clone()).unwrap();
    assert_eq!((machine.now(), kept.now(), new.now()), (old.time(), old.time(), old.time()));
    let (events, _) = run(&[new, kept], 4);
    let alone = run(&[old.clone().start().unwrap()], 5).0.remove(0);
    assert!(alone == events[1]);
    // A drive that was switched off for a while is the same.
    let later = machine.power_on(old.clone()).unwrap();
    assert!(later.now() > old.time());
    assert!(run(&[later], 5).0.remove(0) == alone);
}

#[test]
fn a_drive_of_another_machine_is_refused() {
    let [first, second] = [0, 1].map(|_| Sim::new(drive("60us", "700us"), Contents::None).unwrap());
    let mut host = second.host("nqn.2026-11.org.example:host").unwrap();
    let refused = first.actors::<Mix>().add(&mut host, 1, load(1)).unwrap_err().to_string();
    assert!(refused.contains("not on this machine"), "{refused}");
    assert!(second.actors().add(&mut host, 1, load(1)).is_ok());
}
