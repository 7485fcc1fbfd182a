//! Two programs have the store. The second one takes it over between any two calls of the device. The first one continues all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use rng::Rng;

use super::oracle::Names;
use super::world::World;
use crate::error::Error;
use crate::placement::Placement;
use crate::record::{Attributes, Ino, NewKind};
use crate::simulated::Simulated;
use crate::store::Store;

/// A program that was taken over.
struct Rival {
    store: Store<Simulated>,
    /// Files as it knows them.
    files: BTreeMap<Ino, Vec<u8>>,
    names: Names,
    /// Files of which its successor may have something else, so it must not say that they are durable.
    changed: BTreeSet<Ino>,
    has_changed_names: bool,
}

/// What happened in a run.
#[derive(Default, Debug)]
struct Counts {
    takeovers: u64,
    within_a_call: u64,
    /// Takeovers within a call that the device or the first program stopped.
    stopped: u64,
    refused: u64,
    /// Reads that a program that was taken over could still answer.
    answered: u64,
}

/// Where a takeover within a step leaves the store of the successor.
type Slot = Arc<Mutex<Option<Result<Store<Simulated>, Error>>>>;

impl World {
    /// Whether another program has the store.
    pub(super) fn is_taken(&self) -> bool {
        let mut state = self.store().lock();
        state.log.look(&self.store().device) == Err(Error::Taken)
    }

    /// Lets another program take over, which has opened the store. The model goes on with that one.
    fn succeed(&mut self, successor: Store<Simulated>) -> Rival {
        self.note();
        let store = self.store.take().expect("the store is open");
        self.open.clear();
        let names = self.oracle.names.clone();
        // What has no name is gone for the successor, as after a crash.
        let named = self.oracle.files.iter().filter(|(ino, _)| names.values().any(|named| named == *ino));
        let before: BTreeMap<Ino, Vec<u8>> = named.map(|(ino, file)| (*ino, file.now.clone())).collect();
        self.run_on(successor);
        self.resume();
        let has = |ino: &Ino, contents: &Vec<u8>| {
            self.oracle.files.get(ino).is_some_and(|file| file.now == *contents)
        };
        let changed = before.iter().filter(|(ino, contents)| !has(ino, contents));
        let changed = changed.map(|(ino, _)| *ino).collect();
        let has_changed_names = names != self.oracle.names;
        Rival { store, files: before, names, changed, has_changed_names }
    }
}

impl Rival {
    fn act(&mut self, rng: &mut Rng, counts: &mut Counts, seed: u64) {
        let files: Vec<Ino> = self.files.keys().copied().collect();
        let file = (!files.is_empty()).then(|| files[rng.below(files.len() as u64) as usize]);
        match (rng.below(6), file) {
            (0..2, Some(ino)) => {
                let contents = &self.files[&ino];
                let mut there = vec![0; contents.len()];
                match self.store.read(ino, 0, &mut there) {
                    Ok(length) => {
                        counts.answered += 1;
                        let is_same = length == there.len() && there == *contents;
                        assert!(
                            is_same,
                            "seed {seed}: a program that was taken over reads what is not its own"
                        );
                    }
                    Err(_) => counts.refused += 1,
                }
            }
            (2, Some(ino)) => {
                let data = vec![0xAA; 1 + rng.below(3000) as usize];
                let offset = rng.below(self.files[&ino].len() as u64 + 1) as usize;
                if self.store.write(ino, offset as u64, &data, 1).is_ok() {
                    let contents = self.files.entry(ino).or_default();
                    contents.resize(contents.len().max(offset + data.len()), 0);
                    contents[offset..offset + data.len()].copy_from_slice(&data);
                    self.changed.insert(ino);
                } else {
                    // Some of it may be there.
                    self.files.remove(&ino);
                }
            }
            (3, _) => {
                let name = format!("rival {}", rng.below(9));
                let made =
                    self.store.create(Ino::ROOT, name.as_bytes(), NewKind::File, Attributes::default());
                self.has_changed_names |= made.is_ok();
            }
            (4, Some(ino)) if self.names.values().filter(|named| **named == ino).count() == 1 => {
                let found = self.names.iter().find(|(_, named)| **named == ino).map(|(name, _)| name.clone());
                let (parent, name) = found.expect("it was counted");
                self.names.remove(&(parent, name.clone()));
                self.files.remove(&ino);
                self.has_changed_names |= self.store.unlink(parent, &name, 1).is_ok();
            }
            (_, Some(ino)) if rng.below(2) == 0 => {
                let is_durable = self.store.sync(ino).is_ok();
                let lies = is_durable && (self.changed.contains(&ino) || self.has_changed_names);
                let (changed, names) = (&self.changed, self.has_changed_names);
                assert!(
                    !lies,
                    "seed {seed}: a program that was taken over says that {ino:?} is durable; {changed:?} and names: {names}"
                );
            }
            _ => {
                let is_durable = self.store.sync_all().is_ok();
                let lies = is_durable && (!self.changed.is_empty() || self.has_changed_names);
                let (changed, names) = (&self.changed, self.has_changed_names);
                assert!(
                    !lies,
                    "seed {seed}: a program that was taken over says that all is durable; {changed:?} and names: {names}"
                );
            }
        }
    }
}

fn run(seed: u64, steps: u64, counts: &mut Counts) {
    let mut world = World::new(seed);
    let mut rng = Rng::new(seed ^ 0x5157);
    let mut rival: Option<Rival> = None;
    for _ in 0..steps {
        let slot = Slot::default();
        let is_armed = rival.is_none() && rng.below(12) == 0;
        // One that tries to take over, and stops, can leave the log without an empty zone.
        let allowance = u32::from(is_armed && world.broken == 0);
        world.broken += allowance;
        if is_armed {
            let most = [4, 12, 60][rng.below(3) as usize];
            let calls = rng.below(most);
            let (to, device) = (Arc::clone(&slot), world.store().device.share());
            world.store().device.interrupt_after(calls, move || {
                device.do_not_interrupt();
                let other = device.share();
                *to.lock().unwrap() = Some(Store::open(device, Placement::default()));
                // What the first one has under way lands in zones that the other one finishes. No log knows of it.
                other.forget_doubts();
            });
        }
        let before = world.counts.kills + world.counts.power_cuts;
        world.advance();
        world.store().device.do_not_interrupt();
        let crashed = world.counts.kills + world.counts.power_cuts > before;
        let taken = slot.lock().unwrap().take();
        if !matches!(taken, Some(Err(_))) {
            world.broken -= allowance;
        }
        match taken {
            // The first one has opened the store again, after the other one.
            _ if crashed => rival = None,
            Some(Ok(successor)) if successor.ask_device().is_ok() => {
                counts.within_a_call += 1;
                rival = Some(world.succeed(successor));
            }
            Some(_) => counts.stopped += 1,
            None => {}
        }
        if rival.is_none() && rng.below(40) == 0 && !world.store().device.is_without_power() {
            let device = world.store().device.share();
            device.fail(0, 0);
            device.keep_power();
            let successor = Store::open(device, Placement::default());
            let successor =
                successor.unwrap_or_else(|error| panic!("seed {seed}: it is not taken over: {error}"));
            world.store().device.forget_doubts();
            counts.takeovers += 1;
            rival = Some(world.succeed(successor));
        }
        if let Some(other) = &mut rival
            && !world.store().device.is_without_power()
        {
            for _ in 0..rng.below(3) {
                other.act(&mut rng, counts, seed);
            }
            if rng.below(30) == 0 {
                rival = None;
            }
        }
    }
    drop(rival);
    world.end();
}

#[test]
fn who_was_taken_over_does_no_harm() {
    let mut counts = Counts::default();
    let rounds = super::number("TRANCHE_STORE_ROUNDS").unwrap_or(300) / 3;
    for seed in super::seeds(rounds) {
        run(seed, super::number("TRANCHE_STORE_STEPS").unwrap_or(600), &mut counts);
    }
    println!("{rounds} stores: {counts:?}");
    assert!(
        counts.within_a_call > 0 && counts.refused > 0
            || rounds < 30
            || super::number("TRANCHE_STORE_SEED").is_some(),
        "{counts:?}"
    );
}
