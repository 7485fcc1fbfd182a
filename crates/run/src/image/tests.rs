//! An image under crashes, damage and full disks, with a drive whose state is a list of numbers.

use super::*;
use media::{Spare, Unit};
use std::fs;
use tempfile::TempDir;

const OTHER_BOOT: u64 = 1;

struct Rig {
    temp: TempDir,
}

impl Rig {
    fn new() -> Rig {
        let rig = Rig { temp: tempfile::tempdir().unwrap() };
        Locked::fresh(&rig.dir()).unwrap().create("# a drive\n", b"base", Nanos(5)).unwrap();
        rig
    }

    fn dir(&self) -> PathBuf {
        self.temp.path().join("image")
    }

    fn open(&self, options: ImageOptions) -> Image {
        let locked = Locked::existing(&self.dir()).unwrap();
        let found = locked.find().unwrap();
        locked.start(&found, 64, options, Arc::new(|| ())).unwrap()
    }

    /// What an opening would find: the checkpoint's state and the numbers that were recorded since.
    fn numbers(&self, boot: u64) -> Result<(Vec<u8>, Vec<u32>), ImageError> {
        let found = Found::read(&self.dir(), boot)?;
        let mut numbers = Vec::new();
        found.replay(|record| {
            match *record {
                Record::Spoil { unit, .. } => numbers.push(unit.0),
                _ => return Err("a record that was never written".to_owned()),
            }
            Ok(())
        })?;
        Ok((found.state, numbers))
    }

    fn journal(&self, generation: u64) -> PathBuf {
        files::journal_path(&self.dir(), generation)
    }
}

fn step(image: &mut Image, numbers: Range<u32>) {
    for n in numbers {
        image.record(&Record::Spoil { set: 0, unit: Unit(n) });
    }
    image.commit(Nanos(10)).unwrap();
}

fn sync(image: &mut Image, io: u32) -> Vec<News> {
    let mut news = Vec::new();
    image.want_sync(Io(io));
    image.tend(Nanos(11), &mut news);
    image.settle(&mut news);
    news
}

#[test]
fn every_prefix_of_the_journal_is_a_state_between_steps() {
    let rig = Rig::new();
    let mut image = rig.open(ImageOptions::default());
    let mut ends = vec![(HEADER_END, 0)];
    for n in 0..12 {
        step(&mut image, n * 3..n * 3 + n % 4);
        ends.push((image.journal().bytes(), (0..=n).map(|m| m % 4).sum::<u32>()));
    }
    drop(image);
    let path = rig.journal(2);
    let whole = fs::read(&path).unwrap();
    for cut in HEADER_END..=whole.len() as u64 {
        fs::write(&path, &whole[..cut as usize]).unwrap();
        let (state, numbers) = rig.numbers(files::boot()).unwrap();
        let expected = ends.iter().rev().find(|(end, _)| *end <= cut).unwrap().1;
        assert_eq!((&state[..], numbers.len()), (&b"base"[..], expected as usize), "cut at {cut}");
    }
    // A changed byte ends the replay before its frame, wherever it is.
    for at in HEADER_END as usize..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x40;
        fs::write(&path, &changed).unwrap();
        let (_, numbers) = rig.numbers(files::boot()).unwrap();
        let expected = ends.iter().rev().find(|(end, _)| *end <= at as u64).unwrap().1;
        assert_eq!(numbers.len(), expected as usize, "changed at {at}");
    }
}

const HEADER_END: u64 = format::HEADER as u64;

#[test]
fn after_a_host_crash_only_what_was_synced_counts() {
    let rig = Rig::new();
    let mut image = rig.open(ImageOptions::default());
    step(&mut image, 0..3);
    assert!(matches!(sync(&mut image, 7)[..], [News::Synced(Io(7), true)]));
    step(&mut image, 3..5);
    drop(image);
    assert_eq!(rig.numbers(files::boot()).unwrap().1, [0, 1, 2, 3, 4]);
    assert_eq!(rig.numbers(OTHER_BOOT).unwrap().1, [0, 1, 2]);
    // Once opened after the crash, the lost steps stay lost, and what follows is kept.
    let locked = Locked::existing(&rig.dir()).unwrap();
    let found = Found::read(&rig.dir(), OTHER_BOOT).unwrap();
    assert!(!found.notes.is_empty());
    let mut image = locked.start(&found, 64, ImageOptions::default(), Arc::new(|| ())).unwrap();
    step(&mut image, 10..12);
    drop(image);
    assert_eq!(rig.numbers(files::boot()).unwrap().1, [0, 1, 2, 10, 11]);
    assert_eq!(rig.numbers(OTHER_BOOT).unwrap().1, [0, 1, 2]);
}

#[test]
fn a_checkpoint_replaces_the_journal_and_the_one_before_is_kept() {
    let rig = Rig::new();
    let mut image = rig.open(ImageOptions::default());
    let mut news = Vec::new();
    for n in 0..3 {
        step(&mut image, n..n + 1);
        image.checkpoint(format!("state {n}").into_bytes(), Nanos(20), false).unwrap();
        image.settle(&mut news);
    }
    step(&mut image, 90..92);
    drop(image);
    let (checkpoints, journals) = files::generations(&rig.dir()).unwrap();
    assert_eq!((checkpoints, journals), (vec![4, 5], vec![4, 5]));
    assert_eq!(rig.numbers(OTHER_BOOT).unwrap(), (b"state 2".to_vec(), vec![]));
    assert_eq!(rig.numbers(files::boot()).unwrap(), (b"state 2".to_vec(), vec![90, 91]));
    // The newest is damaged: the one before, and both journals, lead to the same state.
    let newest = files::checkpoint_path(&rig.dir(), 5);
    let bytes = fs::read(&newest).unwrap();
    for damaged in [&bytes[..bytes.len() - 1], &bytes[..20], &[]] {
        fs::write(&newest, damaged).unwrap();
        assert_eq!(rig.numbers(files::boot()).unwrap(), (b"state 1".to_vec(), vec![2, 90, 91]));
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        fs::write(&newest, &changed).unwrap();
        match rig.numbers(files::boot()) {
            Ok(found) => assert_eq!(found, (b"state 1".to_vec(), vec![2, 90, 91]), "byte {at}"),
            Err(ImageError::Format { source: FormatError::Newer(_), .. }) => assert!((8..12).contains(&at)),
            Err(e) => panic!("byte {at}: {e}"),
        }
    }
    // Both are damaged: an error that says so, no panic.
    fs::write(files::checkpoint_path(&rig.dir(), 4), b"no").unwrap();
    fs::write(&newest, b"no").unwrap();
    assert!(matches!(rig.numbers(files::boot()), Err(ImageError::Damaged { .. })));
}

#[test]
fn the_checkpoint_before_stays_whatever_lies_between() {
    let rig = Rig::new();
    let mut news = Vec::new();
    for n in 0..2 {
        // Each opening begins a generation that has no checkpoint at first.
        let mut image = rig.open(ImageOptions::default());
        step(&mut image, n..n + 1);
        image.checkpoint(format!("state {n}").into_bytes(), Nanos(20), true).unwrap();
        image.settle(&mut news);
    }
    assert_eq!(files::generations(&rig.dir()).unwrap(), (vec![3, 5], vec![3, 4, 5]));
    fs::write(files::checkpoint_path(&rig.dir(), 5), b"damaged").unwrap();
    assert_eq!(rig.numbers(files::boot()).unwrap(), (b"state 0".to_vec(), vec![1]));
}

#[test]
fn a_crash_between_checkpoint_and_journal_loses_nothing() {
    let rig = Rig::new();
    let mut image = rig.open(ImageOptions::default());
    step(&mut image, 0..2);
    // The journals have changed over, the checkpoint was never written.
    image.journal().switch(Nanos(12)).unwrap();
    step(&mut image, 2..4);
    sync(&mut image, 1);
    step(&mut image, 4..5);
    drop(image);
    assert_eq!(rig.numbers(files::boot()).unwrap().1, [0, 1, 2, 3, 4]);
    assert_eq!(rig.numbers(OTHER_BOOT).unwrap().1, [0, 1, 2, 3]);
    let mut image = rig.open(ImageOptions::default());
    step(&mut image, 5..6);
    drop(image);
    assert_eq!(rig.numbers(files::boot()).unwrap().1, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn freed_slots_wait_until_what_freed_them_is_safe() {
    let rig = Rig::new();
    let mut image = rig.open(ImageOptions::default());
    image.all_is_synced();
    let count = image.slots().count();
    let all: Vec<Slot> = std::iter::from_fn(|| image.allocate()).collect();
    assert_eq!(all.len() as u32, count);
    for &slot in &all[..10] {
        image.release(slot);
    }
    assert_eq!(image.allocate(), None, "the step is not committed");
    step(&mut image, 0..1);
    assert_eq!(image.allocate(), None, "the step is not synced");
    let news = sync(&mut image, 1);
    assert!(news.iter().any(|n| matches!(n, News::SlotsFree)));
    assert!(image.allocate().is_some());
    drop(image);
    let mut image = rig.open(ImageOptions { host_sync: false, ..ImageOptions::default() });
    let all: Vec<Slot> = std::iter::from_fn(|| image.allocate()).collect();
    image.release(all[3]);
    assert_eq!(image.allocate(), None, "the step is not committed");
    step(&mut image, 1..2);
    assert_eq!(image.allocate(), Some(all[3]));
}

/// Every slot that can be had, each only once.
fn take_all(image: &mut Image) -> std::collections::HashSet<u32> {
    let mut seen = std::collections::HashSet::new();
    while let Some(slot) = image.allocate() {
        assert!(seen.insert(slot.0), "slot {} is given out twice", slot.0);
    }
    seen
}

/// A drive recovers while one of the image's jobs is under way, or with a step not yet committed, and is idle before it
/// writes on. Slots that are freed meanwhile must not be free twice.
#[test]
fn recovery_gives_no_slot_to_two_pages() {
    /// What is under way when recovery begins.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Under {
        Nothing,
        Sync,
        Forget,
        UncommittedStep,
    }
    for host_sync in [true, false] {
        for under in [Under::Nothing, Under::Sync, Under::Forget, Under::UncommittedStep] {
            let rig = Rig::new();
            let mut image = rig.open(ImageOptions { host_sync, ..ImageOptions::default() });
            let mut news = Vec::new();
            let taken: Vec<Slot> = (0..100).filter_map(|_| image.allocate()).collect();
            taken[..20].iter().for_each(|&slot| image.release(slot));
            step(&mut image, 0..1);
            match under {
                Under::Nothing => {}
                Under::Sync => {
                    image.want_sync(Io(1));
                    image.tend(Nanos(11), &mut news);
                }
                Under::Forget => {
                    image.want_forget(Io(1), false);
                    image.forget(b"state".to_vec(), Nanos(11), &mut news);
                }
                Under::UncommittedStep => taken[20..30].iter().for_each(|&slot| image.release(slot)),
            }
            // Recovery finds some of what was referred to.
            image.forget_waiters();
            image.forget_slots();
            taken[40..].iter().for_each(|&slot| image.retain(slot));
            image.slots_are_counted();
            step(&mut image, 1..2);
            // Idle: blocks are erased, and a sync covers what they held.
            taken[40..50].iter().for_each(|&slot| image.release(slot));
            step(&mut image, 2..3);
            for io in 2..5 {
                news.extend(sync(&mut image, io));
            }
            let free = take_all(&mut image);
            let held = taken[50..].iter().filter(|slot| free.contains(&slot.0)).count();
            assert_eq!(held, 0, "slots that pages refer to are free; {under:?}, host sync {host_sync}");
            let all = image.slots().count() as usize;
            assert_eq!(
                free.len() + taken[50..].len(),
                all,
                "slots are lost; {under:?}, host sync {host_sync}"
            );
        }
    }
}

#[test]
fn contents_beyond_the_end_of_the_file_are_zeros() {
    let rig = Rig::new();
    let mut image = rig.open(ImageOptions::default());
    image.write(Slot(3), &[7; SLOT]).unwrap();
    let mut page = [1; SLOT];
    image.read(Slot(3), 0, &mut page).unwrap();
    assert_eq!(page, [7; SLOT]);
    image.read(Slot(2), 0, &mut page).unwrap();
    assert_eq!(page, [0; SLOT]);
    page.fill(1);
    image.read(Slot(9), 512, &mut page[..100]).unwrap();
    assert_eq!(page[..101], [&[0; 100][..], &[1]].concat());
}

#[test]
fn directories_that_are_no_image_are_told_apart() {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    assert_eq!(presence(&at("nothing")).unwrap(), Presence::Nothing);
    assert!(matches!(Locked::existing(&at("nothing")), Err(ImageError::Missing { .. })));
    fs::create_dir(at("foreign")).unwrap();
    fs::write(at("foreign/thesis.doc"), b"precious").unwrap();
    assert!(matches!(Locked::fresh(&at("foreign")), Err(ImageError::Foreign { .. })));
    fs::create_dir(at("half")).unwrap();
    fs::write(at("half/drive.toml"), b"").unwrap();
    fs::write(at("half/checkpoint.new"), b"").unwrap();
    assert!(matches!(Locked::existing(&at("half")), Err(ImageError::Unfinished { .. })));
    assert!(matches!(Locked::fresh(&at("half")), Err(ImageError::Unfinished { .. })));
}

#[test]
fn a_second_opener_is_refused() {
    let rig = Rig::new();
    let image = rig.open(ImageOptions::default());
    match Locked::existing(&rig.dir()) {
        Err(e @ ImageError::Locked { .. }) => {
            assert!(e.to_string().contains(&std::process::id().to_string()))
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
    drop(image);
    assert!(Locked::existing(&rig.dir()).is_ok());
}

#[test]
fn a_newer_image_is_left_alone() {
    let rig = Rig::new();
    let path = files::checkpoint_path(&rig.dir(), 1);
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 9;
    fs::write(&path, &bytes).unwrap();
    let error = rig.numbers(files::boot()).unwrap_err().to_string();
    assert!(error.contains("version 9") && error.contains("newer"), "{error}");
}

#[test]
fn a_journal_of_another_image_is_not_replayed() {
    let (a, b) = (Rig::new(), Rig::new());
    let mut image = a.open(ImageOptions::default());
    step(&mut image, 0..4);
    drop(image);
    fs::copy(a.journal(2), b.journal(1)).unwrap();
    assert!(matches!(b.numbers(files::boot()), Err(ImageError::Format { source: FormatError::Mixed, .. })));
}

#[test]
fn a_journal_that_cannot_be_written_stops_the_image_and_keeps_what_was() {
    let rig = Rig::new();
    let mut image = rig.open(ImageOptions::default());
    step(&mut image, 0..2);
    // What a failing disk does, as far as the image can see it.
    image.fail("the disk is on fire".to_owned());
    image.record(&Record::Spoil { set: 0, unit: Unit(2) });
    assert!(image.commit(Nanos(3)).is_err());
    assert!(!image.writable());
    assert!(matches!(sync(&mut image, 4)[..], [News::Synced(Io(4), false)]));
    drop(image);
    assert_eq!(rig.numbers(files::boot()).unwrap().1, [0, 1]);
}

#[test]
fn large_records_survive() {
    let rig = Rig::new();
    let mut image = rig.open(ImageOptions::default());
    let spares = vec![Spare::EMPTY; 4096];
    image.record(&Record::Program { set: 0, unit: Unit(1), spares: &spares });
    image.commit(Nanos(1)).unwrap();
    drop(image);
    let found = Found::read(&rig.dir(), files::boot()).unwrap();
    let mut seen = 0;
    found
        .replay(|record| {
            if let Record::Program { spares, .. } = record {
                seen = spares.len();
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(seen, 4096);
}

/// Frames and a checkpoint whose checksums are right and whose contents are not: what a broken program, or an
/// attacker, could write. Opening them gives an error or a drive, never a panic.
#[test]
fn wrong_contents_under_right_checksums_are_survived() {
    let toml = r#"
[[set]]
media = "nand"
cell = "slc"
capacity = "2MiB"
spare = "200%"
channels = 2
dies = 2
planes = 1
nand_page = "4KiB"
pages_per_block = 16
rated_cycles = 3000
[[set]]
media = "dram"
capacity = "1MiB"
[[namespace]]
size = "1MiB"
lba = 4096
"#;
    let shape = crate::Shape { config: device::Config::from_toml(toml).unwrap(), toml: toml.to_owned() };
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("image");
    let options = crate::Options { image: Some(dir.clone()), ..crate::Options::default() };
    let running = crate::start(Some(shape), &options, &mut |_| ()).unwrap();
    let host = crate::HostIdentity::new("nqn.2026-11.test:host").unwrap();
    let controller = running.handle().connect(host, Arc::new(crate::NoEvents)).unwrap();
    let queue = controller.blocking_queue(4).unwrap();
    for n in 0..600u32 {
        let mut write = nvme::Command::new(nvme::IoOpcode::WRITE.0, 1);
        write.cdw10.set(n * 7 % 256);
        let (completion, _) = queue.execute(&write, crate::Buffer::from(vec![1; 4096])).unwrap();
        assert!(completion.status().is_success());
    }
    let journal = fs::read(files::journal_path(&dir, 2)).unwrap();
    let checkpoint = fs::read(files::checkpoint_path(&dir, 1)).unwrap();
    drop((queue, controller, running));

    let header = Header::decode(Kind::Journal, &journal).unwrap();
    let (mut frames, mut at) = (Vec::new(), format::HEADER);
    while let Some(frame) = format::frame_at(&journal, at, frames.len() as u64, header.salt()) {
        frames.push((frame.kind, frame.payload.to_vec()));
        at = frame.next;
    }
    let seed = files::random::<8>();
    println!("seed {}", u64::from_le_bytes(seed));
    let mut state = u64::from_le_bytes(seed) | 1;
    let mut below = move |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % bound.max(1)
    };
    let target = temp.path().join("changed");
    for round in 0..200 {
        let _ = fs::remove_dir_all(&target);
        fs::create_dir(&target).unwrap();
        fs::write(target.join("drive.toml"), toml).unwrap();
        fs::write(target.join("contents"), b"").unwrap();
        let mut body = checkpoint[format::HEADER..].to_vec();
        let mut changed = frames.clone();
        for _ in 0..1 + below(4) {
            if round % 2 == 0 {
                let frame = below(changed.len());
                let payload = &mut changed[frame].1;
                let byte = below(payload.len());
                if let Some(byte) = payload.get_mut(byte) {
                    *byte = byte.wrapping_add(1 + below(255) as u8);
                }
            } else {
                let byte = below(body.len());
                body[byte] = body[byte].wrapping_add(1 + below(255) as u8);
            }
        }
        let mut bytes = header.encode().to_vec();
        for (sequence, (kind, payload)) in changed.iter().enumerate() {
            let start = format::begin_frame(&mut bytes);
            bytes.extend_from_slice(payload);
            format::end_frame(&mut bytes, start, *kind, sequence as u64, Nanos(9), header.salt());
        }
        let mut first = Header::decode(Kind::Checkpoint, &checkpoint).unwrap();
        // The journal of the checkpoint's own generation is empty here: the second one follows the first.
        first.generation = header.generation;
        first.body_crc = format::crc(&body);
        files::write_checkpoint(&target, &first, &body, false).unwrap();
        fs::write(files::journal_path(&target, header.generation), &bytes).unwrap();
        let options = crate::Options { image: Some(target.clone()), ..crate::Options::default() };
        if let Ok(running) = crate::start(None, &options, &mut |_| ()) {
            assert!(running.stop_and_tell(), "the drive panicked");
        }
    }
}
