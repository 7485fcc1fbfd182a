//! Zones go offline at any step, those of the log too.

use std::collections::BTreeMap;

use rng::Rng;

use super::oracle::Names;
use super::world::World;
use crate::device::Condition;
use crate::error::Error;
use crate::placement::Placement;
use crate::record::Ino;
use crate::store::{FileKind, Store};

/// What happened in a run.
#[derive(Default, Debug)]
struct Counts {
    /// Stores that opened although a zone of the log was offline.
    opened: u64,
    refused: u64,
    /// Files that lost something, and say so.
    unreadable: u64,
}

impl World {
    fn is_down(&self) -> bool {
        self.store().device.is_without_power() || self.store().lock().stopped.is_some()
    }

    /// What is there must be allowed after a crash. Files that lost something cannot be read. Counts them.
    fn objection_with_losses(&self, may_lose: bool) -> u64 {
        let mut unreadable = 0;
        let mut names = Names::new();
        let mut contents = BTreeMap::new();
        let mut directories = vec![Ino::ROOT];
        while let Some(directory) = directories.pop() {
            for (name, stat) in self.store().list(directory, None, usize::MAX).expect("it is there") {
                names.insert((directory, name), stat.ino);
                match stat.kind {
                    FileKind::Directory => directories.push(stat.ino),
                    FileKind::Symlink => {}
                    FileKind::File => match self.read(stat.ino) {
                        Ok(there) => drop(contents.insert(stat.ino, there)),
                        Err(Error::Device(_)) if may_lose => unreadable += 1,
                        Err(error) => self.fail(&format!("{:?}: {error}", stat.ino)),
                    },
                }
            }
        }
        if let Some(objection) = self.oracle.objection(&names, &contents) {
            self.fail(&format!("with a zone offline: {objection}"));
        }
        unreadable
    }
}

/// Some steps; a zone goes offline; some more; a crash. What opens then has lost nothing but what lay in the zone, and says so.
fn run(seed: u64, steps: u64, counts: &mut Counts) {
    let mut world = World::new(seed);
    let mut rng = Rng::new(seed ^ 0x0FF1);
    for _ in 0..rng.below(steps) {
        world.advance();
    }
    let layout = world.store().lock().log.layout();
    let chain = world.store().lock().log.chain().to_vec();
    let zone = match rng.below(4) {
        0 => chain[chain.len() - 1],
        1 => chain[0],
        2 => rng.below(layout.log_zones.into()) as u32,
        _ => layout.log_zones + rng.below((layout.zones - layout.log_zones).into()) as u32,
    };
    let is_of_log = zone < layout.log_zones;
    world.broken += 1;
    world.store().device.wear_out(zone, Condition::Offline);
    let more = if is_of_log { [0, rng.below(12)][rng.below(2) as usize] } else { 0 };
    if more > 0 && rng.below(2) == 0 {
        // Also while an epoch begins that replaces the one which lost the zone.
        world.store().device.lose_power_after(rng.below(30));
    }
    for _ in 0..more {
        world.operate();
        if world.is_down() {
            break;
        }
    }
    world.note();
    let is_idle = more == 0 && world.store().lock().writing.is_none();
    let device = world.store.take().expect("the store is open").abandon();
    device.disconnect();
    device.fail(0, 0);
    let is_cut = device.is_without_power() || rng.below(2) == 0;
    if is_cut {
        device.restore_power();
    }
    device.keep_power();
    let opened = match Store::open(device.share(), Placement::default()) {
        // All zones of the log that are left are needed. It can be read.
        Err(Error::LogFull) if is_of_log => Store::open_read_only(device),
        opened => opened,
    };
    match opened {
        Ok(store) => {
            counts.opened += u64::from(is_of_log);
            world.run_on(store);
            let unreadable = world.objection_with_losses(!is_of_log);
            counts.unreadable += unreadable;
        }
        Err(Error::Damaged(why)) => {
            counts.refused += 1;
            assert!(
                is_of_log && why.contains(&format!("zone {zone}, which is offline")),
                "seed {seed}: {why}"
            );
            let is_needed = chain.contains(&zone) || is_cut || !is_idle;
            assert!(is_needed, "seed {seed}: zone {zone} was empty, and is missed: {why}");
        }
        Err(error) => panic!("seed {seed}: {error}"),
    }
}

#[test]
fn a_zone_that_goes_offline_is_missed_or_not_needed() {
    let mut counts = Counts::default();
    let rounds = super::number("TRANCHE_STORE_ROUNDS").unwrap_or(300);
    for seed in super::seeds(rounds) {
        run(seed, super::number("TRANCHE_STORE_STEPS").unwrap_or(600) / 2, &mut counts);
    }
    println!("{rounds} stores: {counts:?}");
    let is_one = super::number("TRANCHE_STORE_SEED").is_some();
    assert!(
        counts.opened > 0 && counts.refused > 0 && counts.unreadable > 0 || rounds < 100 || is_one,
        "{counts:?}"
    );
}
