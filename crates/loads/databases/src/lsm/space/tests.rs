//! All file systems under random files: nothing is given twice, nothing gets lost, zones are written in order and reset when nothing of files is there.

use super::*;
use crate::lsm::config::Lifetime;
use std::collections::BTreeMap;
use workload::{Rng, ZoneAction};

/// Logical blocks with the file that wrote them last; writes of zones must be at their write pointers.
struct Device {
    owner: BTreeMap<u64, FileId>,
    zones: Option<(u64, BTreeMap<u64, u64>)>,
    capacity: u64,
}

impl Device {
    fn apply(&mut self, file: FileId, ios: &[DeviceIo], seed: u64) -> Vec<DeviceIo> {
        let mut own = Vec::new();
        for io in ios {
            match io.verb {
                Verb::Write => {
                    if let Some((size, pointers)) = &mut self.zones {
                        let zone = io.lba / *size;
                        let pointer = pointers.entry(zone).or_default();
                        assert_eq!(io.lba % *size, *pointer, "seed {seed}: a write beside the write pointer");
                        *pointer += u64::from(io.blocks);
                        assert!(*pointer <= self.capacity, "seed {seed}: a zone has more than it holds");
                    }
                    for lba in io.lba..io.lba + u64::from(io.blocks) {
                        self.owner.insert(lba, file);
                    }
                }
                Verb::Zone(ZoneAction::Reset) => {
                    let Some((size, pointers)) = &mut self.zones else { panic!("there are no zones") };
                    pointers.remove(&(io.lba / *size));
                    let end = io.lba + *size;
                    self.owner.retain(|lba, _| !(io.lba..end).contains(lba));
                    own.push(*io);
                }
                Verb::Zone(ZoneAction::Finish) => {
                    let Some((size, pointers)) = &mut self.zones else { panic!("there are no zones") };
                    pointers.insert(io.lba / *size, self.capacity);
                    own.push(*io);
                }
                Verb::Trim => {}
                other => panic!("seed {seed}: {other:?} is no change"),
            }
        }
        own
    }
}

/// Files come, grow and go; some are moved. What is in them is always where it was written.
fn play(mut space: impl FileSpace, mut device: Device, room: u64, seed: u64) -> Usage {
    let mut rng = Rng::new(seed);
    let mut files: Vec<(FileId, u64, bool)> = Vec::new();
    let mut later: Vec<DeviceIo> = Vec::new();
    let mut live = 0u64;
    for step in 0..4000 {
        let mut out = Vec::new();
        let mut of = FileId(u32::MAX);
        match rng.below(10) {
            0..2 if files.iter().filter(|file| file.2).count() < 4 => {
                let lifetime = [Lifetime::Short, Lifetime::Medium, Lifetime::Long, Lifetime::Extreme]
                    [rng.below(4) as usize];
                let from = rng.below(1000);
                let table = (lifetime != Lifetime::Short).then_some((rng.below(4) as u32, from, from + 50));
                files.push((space.create(Hint { lifetime, table, expected: 40 * 4096 }), 0, true));
            }
            2..7 if live < room => {
                let open: Vec<usize> = (0..files.len()).filter(|at| files[*at].2).collect();
                if let Some(&at) = open.get(rng.below(open.len().max(1) as u64) as usize) {
                    of = files[at].0;
                    let took = space.append(of, 1 + rng.below(30) as u32, &mut out);
                    files[at].1 += u64::from(took);
                    live += u64::from(took);
                    if files[at].1 > 60 {
                        files[at].2 = false;
                        space.close(of, &mut out);
                    }
                }
            }
            7 if !files.is_empty() && (live * 2 > room || rng.below(3) == 0) => {
                let (file, blocks, _) = files.swap_remove(rng.below(files.len() as u64) as usize);
                live -= blocks;
                space.delete(file, &mut out);
            }
            8 => {
                if let Some(moves) = space.collect(8) {
                    for one in moves {
                        let (mut rest, mut tries) = (one, 0);
                        while rest.blocks > 0 && tries < 4 {
                            // What lies there is still of the file, or of nobody.
                            let mut moved = Vec::new();
                            let took = space.relocate(&rest, &mut moved);
                            later.extend(device.apply(one.file, &moved, seed));
                            rest.lba += u64::from(took);
                            rest.blocks -= took;
                            tries += 1;
                        }
                    }
                    space.collected(&mut out);
                }
            }
            _ => {
                for io in later.drain(..) {
                    space.ended(&io);
                }
            }
        }
        later.extend(device.apply(of, &out, seed));
        space.check();
        let usage = space.usage();
        assert_eq!(usage.live, live, "seed {seed}, step {step}");
        assert!(
            usage.taken >= usage.live && usage.live <= usage.capacity.max(live),
            "seed {seed}: {usage:?}"
        );
        let Some(&(file, blocks, _)) = files.get(rng.below(files.len().max(1) as u64) as usize) else {
            continue;
        };
        if blocks > 0 {
            let at = rng.below(blocks);
            let length = (blocks - at).min(20) as u32;
            let mut reads = Vec::new();
            space.read(file, at, length, &mut reads);
            assert_eq!(reads.iter().map(|io| io.blocks).sum::<u32>(), length);
            for io in &reads {
                for lba in io.lba..io.lba + u64::from(io.blocks) {
                    let owner = device.owner.get(&lba);
                    assert_eq!(owner, Some(&file), "seed {seed}, step {step}: block {lba}");
                }
            }
        }
    }
    for (file, ..) in files {
        space.delete(file, &mut Vec::new());
    }
    assert_eq!(space.usage().live, 0, "seed {seed}");
    space.usage()
}

#[test]
fn extents_are_given_once() {
    for seed in 0..20 {
        let config = ConventionalConfig { blocks: 2000, block_bytes: 4096, discard: seed % 2 == 0 };
        let device = Device { owner: BTreeMap::new(), zones: None, capacity: 0 };
        let usage = play(Conventional::new(config), device, 1900, seed);
        assert_eq!(usage.taken, 0);
    }
}

#[test]
fn zones_are_written_in_order_and_reset_when_nothing_is_there() {
    for placement in [Placement::None, Placement::Lifetime, Placement::Overlap] {
        let mut resets = 0;
        let mut moved = 0;
        for seed in 0..20 {
            let config = ZonedConfig {
                zones: 40,
                size: 64,
                capacity: 50,
                block_bytes: 4096,
                active: 8,
                placement,
                reserve: 2,
                finish: 20,
            };
            let zones = Some((config.size, BTreeMap::new()));
            let device = Device { owner: BTreeMap::new(), zones, capacity: config.capacity };
            let usage = play(Zoned::new(config), device, 1300, seed);
            resets += usage.resets;
            moved += usage.moved;
        }
        assert!(resets > 200, "{placement:?}: {resets} resets");
        assert!(moved > 0, "{placement:?}: nothing was moved");
    }
}

/// f2fs on 40 sections, of which files may have 30.
fn f2fs(zones: bool) -> (F2fs, Device) {
    let (size, capacity) = if zones { (64, 50) } else { (50, 50) };
    let space = F2fs::new(F2fsConfig { sections: 40, size, capacity, spare: 10, reserve: 3, zones });
    let pointers = zones.then(|| (size, BTreeMap::new()));
    (space, Device { owner: BTreeMap::new(), zones: pointers, capacity })
}

#[test]
fn logs_give_each_block_once_and_cleaning_loses_nothing() {
    for zones in [false, true] {
        let mut of_all = Usage::default();
        for seed in 0..20 {
            let (space, device) = f2fs(zones);
            let usage = play(space, device, 1400, seed);
            of_all.resets += usage.resets;
            of_all.moved += usage.moved;
        }
        assert_eq!((of_all.resets > 200, of_all.moved > 0), (zones, zones), "{of_all:?}");
    }
}

/// Appends all of it, and cleans where that is asked for.
fn append_all(space: &mut F2fs, device: &mut Device, file: FileId, blocks: u32, seed: u64) {
    let mut left = blocks;
    for _ in 0..200 {
        let mut out = Vec::new();
        left -= space.append(file, left, &mut out);
        let mut own = device.apply(file, &out, seed);
        if let Some(moves) = space.collect(8) {
            for one in moves {
                let mut moved = Vec::new();
                assert_eq!(space.relocate(&one, &mut moved), one.blocks, "seed {seed}: cleaning has room");
                own.extend(device.apply(one.file, &moved, seed));
            }
            let mut out = Vec::new();
            space.collected(&mut out);
            own.extend(device.apply(file, &out, seed));
        }
        for io in own {
            space.ended(&io);
        }
        space.check();
        if left == 0 {
            return;
        }
    }
    panic!("seed {seed}: no room for {left} of {blocks} blocks: {:?}, {}", space.usage(), space.describe());
}

#[test]
fn a_log_structured_file_system_has_room_for_all_that_files_may_have() {
    for (zones, seed) in [false, true].into_iter().flat_map(|zones| (0..10).map(move |seed| (zones, seed))) {
        let (mut space, mut device) = f2fs(zones);
        let mut rng = Rng::new(seed);
        let mut files: Vec<(FileId, u64)> = Vec::new();
        let (mut live, capacity) = (0, space.usage().capacity);
        assert_eq!(capacity, 1500);
        for _ in 0..600 {
            while live < capacity {
                let lifetime = [Lifetime::Short, Lifetime::Long, Lifetime::Extreme][rng.below(3) as usize];
                let file = space.create(Hint { lifetime, table: None, expected: 0 });
                let blocks = (1 + rng.below(70)).min(capacity - live);
                append_all(&mut space, &mut device, file, blocks as u32, seed);
                files.push((file, blocks));
                live += blocks;
            }
            let one = space.create(Hint { lifetime: Lifetime::Short, table: None, expected: 0 });
            assert_eq!(space.append(one, 1, &mut Vec::new()), 0, "seed {seed}: more than files may have");
            space.delete(one, &mut Vec::new());
            let (file, blocks) = files.swap_remove(rng.below(files.len() as u64) as usize);
            let mut out = Vec::new();
            space.delete(file, &mut out);
            for io in device.apply(file, &out, seed) {
                space.ended(&io);
            }
            live -= blocks;
            let mut reads = Vec::new();
            for (file, blocks) in &files {
                space.read(*file, 0, *blocks as u32, &mut reads);
                let owned =
                    |io: DeviceIo| (io.lba..io.lba + u64::from(io.blocks)).map(|lba| device.owner[&lba]);
                assert!(reads.drain(..).flat_map(owned).all(|owner| owner == *file), "seed {seed}");
            }
        }
        assert_eq!(space.usage().moved > 0, zones, "seed {seed}");
    }
}

#[test]
fn files_of_unlike_lives_share_no_section_until_they_must() {
    let (mut space, mut device) = f2fs(false);
    for lifetime in [Lifetime::Short, Lifetime::Medium, Lifetime::Extreme].into_iter().cycle().take(12) {
        let file = space.create(Hint { lifetime, table: None, expected: 0 });
        append_all(&mut space, &mut device, file, 20, 0);
    }
    let mut by_section: BTreeMap<u64, Vec<FileId>> = BTreeMap::new();
    for (lba, file) in &device.owner {
        by_section.entry(lba / 50).or_default().push(*file);
    }
    // Files were made in turn: those of one life are three apart.
    let alike = |files: &Vec<FileId>| files.iter().all(|file| file.0 % 3 == files[0].0 % 3);
    assert!(by_section.values().all(alike), "{by_section:?}");
    assert_eq!(by_section.len(), 6);
}
