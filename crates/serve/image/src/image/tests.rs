//! An image under crashes, damage and full disks, with a drive whose state is a list of numbers.

use super::disk::HostDisk;
use super::format::{Continuation, Mark, Start};
use super::jobs::{Job, JobFailure, JobReport};
use super::*;
use crate::testing::SimDisk;
use ftl::Record;
use media::{Spare, Unit};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

const OTHER_BOOT: u64 = 1;

pub(super) struct ImageFixture {
    temp: TempDir,
}

impl ImageFixture {
    pub(super) fn new() -> ImageFixture {
        let fixture = ImageFixture { temp: tempfile::tempdir().unwrap() };
        Locked::fresh(&fixture.dir()).unwrap().create("# a drive\n", &[], Nanos(5)).unwrap();
        fixture
    }

    pub(super) fn dir(&self) -> PathBuf {
        self.temp.path().join("image")
    }

    fn disk(&self, boot: Option<u64>) -> HostDisk {
        let disk = HostDisk::open_dir(&self.dir()).unwrap();
        boot.map_or(disk.clone(), |boot| disk.on_boot(boot))
    }

    fn open(&self, options: ImageOptions) -> Image {
        self.open_on(None, options).unwrap()
    }

    fn open_on(&self, boot: Option<u64>, options: ImageOptions) -> Result<Image, ImageError> {
        self.open_with(boot, options, || ())
    }

    fn open_with(
        &self,
        boot: Option<u64>,
        options: ImageOptions,
        notify: impl Fn() + Send + Sync + 'static,
    ) -> Result<Image, ImageError> {
        self.open_by(boot, options, BackgroundWork::Threads(Arc::new(notify)))
    }

    pub(super) fn open_by(
        &self,
        boot: Option<u64>,
        options: ImageOptions,
        background: BackgroundWork,
    ) -> Result<Image, ImageError> {
        let locked = Locked { disk: Arc::new(self.disk(boot)), lock: Some(self.disk(None).lock().unwrap()) };
        let mut found = locked.find()?;
        let numbers = numbers(&mut found)?;
        let mut image = locked.start(&found, 64, options, background)?;
        image.forget_slots();
        image.slots_are_counted();
        image.opened(&found, &encode(&numbers), found.time)?;
        Ok(image)
    }

    /// What an opening would find: the numbers that were recorded.
    fn numbers(&self, boot: Option<u64>) -> Result<Vec<u32>, ImageError> {
        numbers(&mut ImageState::read(&self.disk(boot))?)
    }

    fn journal(&self, generation: u64) -> PathBuf {
        self.dir().join(files::journal_name(generation))
    }

    fn checkpoint(&self, generation: u64) -> PathBuf {
        self.dir().join(files::checkpoint_name(generation))
    }

    fn generations(&self) -> (Vec<u64>, Vec<u64>) {
        files::generations(&self.disk(None)).unwrap()
    }
}

/// A drive's state: its numbers.
fn encode(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

fn numbers(found: &mut ImageState) -> Result<Vec<u32>, ImageError> {
    let mut numbers: Vec<u32> =
        found.state.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
    found.replay(u32::MAX, |record| {
        match *record {
            Record::Spoil { unit, .. } => numbers.push(unit.0),
            _ => return Err("a record that was never written".to_owned()),
        }
        Ok(())
    })?;
    Ok(numbers)
}

pub(super) fn step(image: &mut Image, numbers: std::ops::Range<u32>) {
    for n in numbers {
        image.record(&Record::Spoil { set: 0, unit: Unit(n) });
    }
    image.commit(Nanos(10)).unwrap();
}

pub(super) fn sync(image: &mut Image, io: u32) -> Vec<DiskEvent> {
    let mut news = Vec::new();
    image.want_sync(Io(io));
    image.tend(Nanos(11), &mut news);
    image.settle(&mut news);
    news
}

/// Writes a page, as a step.
fn write(image: &mut Image, number: u32) {
    let slot = image.allocate().unwrap();
    image.write(slot, &[number as u8; SLOT], None).unwrap();
    step(image, number..number + 1);
    image.tend(Nanos(11), &mut Vec::new());
}

/// Writes a checkpoint of these numbers.
fn checkpoint(image: &mut Image, numbers: &[u32]) {
    image.checkpoint(&encode(numbers), Nanos(20), false).unwrap();
    image.settle(&mut Vec::new());
}

#[test]
fn every_prefix_of_the_journal_is_a_state_between_steps() {
    let fixture = ImageFixture::new();
    let mut image = fixture.open(ImageOptions::default());
    let begin = image.journal().bytes();
    let mut ends = vec![(begin, 0)];
    for n in 0..12 {
        step(&mut image, n * 3..n * 3 + n % 4);
        ends.push((image.journal().bytes(), (0..=n).map(|m| m % 4).sum::<u32>()));
    }
    drop(image);
    let path = fixture.journal(2);
    let whole = fs::read(&path).unwrap()[..ends[12].0 as usize].to_vec();
    for cut in begin..=whole.len() as u64 {
        let expected = ends.iter().rev().find(|(end, _)| *end <= cut).unwrap().1;
        // A process that dies leaves the file as long as it was, or with the zeros that were written ahead.
        let mut bytes = whole[..cut as usize].to_vec();
        fs::write(&path, &bytes).unwrap();
        assert_eq!(fixture.numbers(None).unwrap().len(), expected as usize, "cut at {cut}");
        bytes.resize(whole.len() + 500, 0);
        fs::write(&path, &bytes).unwrap();
        // A step may end in zeros itself.
        let is_whole = |end: u64| bytes[..end as usize] == whole[..end as usize];
        let expected = ends.iter().rev().find(|(end, _)| is_whole(*end)).unwrap().1;
        match fixture.numbers(None) {
            Ok(numbers) => assert_eq!(numbers.len(), expected as usize, "zeros from {cut}"),
            // Within a page of the host no process that dies leaves a part of a step.
            Err(ImageError::DamagedJournal { .. }) => {
                assert!(ends.iter().all(|(end, _)| *end != cut), "zeros from {cut}");
            }
            Err(e) => panic!("zeros from {cut}: {e}"),
        }
    }
}

/// A byte that has changed is an error, wherever it is: cutting the journal off there would lose what was completed.
#[test]
fn damage_in_a_journal_is_noticed_and_left_as_it_is() {
    let fixture = ImageFixture::new();
    let mut image = fixture.open(ImageOptions::default());
    for n in 0..5 {
        step(&mut image, n * 2..n * 2 + 2);
    }
    sync(&mut image, 1);
    let synced = image.journal().bytes();
    step(&mut image, 10..11);
    let end = image.journal().bytes();
    drop(image);
    assert_eq!(fixture.numbers(None).unwrap().len(), 11);
    assert_eq!(fixture.numbers(Some(OTHER_BOOT)).unwrap().len(), 10);
    let path = fixture.journal(2);
    let whole = fs::read(&path).unwrap();
    for at in 0..end as usize {
        for bit in [0x40, 0x01] {
            let mut changed = whole.clone();
            changed[at] ^= bit;
            fs::write(&path, &changed).unwrap();
            let error = fixture.numbers(None).expect_err(&format!("byte {at}"));
            let damaged = |e: &ImageError| {
                matches!(
                    e,
                    ImageError::DamagedJournal { .. }
                        | ImageError::Format { source: FormatError::Checksum | FormatError::Foreign, .. }
                )
            };
            assert!(damaged(&error), "byte {at}: {error}");
            // On a host that was booted since, the last step may have been lost with the host, what was synced may not.
            match fixture.numbers(Some(OTHER_BOOT)) {
                Err(e) => assert!(damaged(&e), "byte {at}: {e}"),
                Ok(numbers) => {
                    assert!(at as u64 >= synced && numbers.len() == 10, "byte {at} of {synced}: {numbers:?}");
                }
            }
            assert!(fixture.open_on(None, ImageOptions::default()).is_err());
            assert_eq!(fs::read(&path).unwrap(), changed, "left as it was");
        }
    }
}

#[test]
fn after_a_host_crash_only_what_was_synced_counts() {
    let fixture = ImageFixture::new();
    let mut image = fixture.open(ImageOptions::default());
    step(&mut image, 0..3);
    assert!(matches!(sync(&mut image, 7)[..], [DiskEvent::Synced(Io(7), true)]));
    step(&mut image, 3..5);
    drop(image);
    assert_eq!(fixture.numbers(None).unwrap(), [0, 1, 2, 3, 4]);
    assert_eq!(fixture.numbers(Some(OTHER_BOOT)).unwrap(), [0, 1, 2]);
    // Once opened after the crash, the lost steps stay lost, and what follows is kept.
    assert!(!ImageState::read(&fixture.disk(Some(OTHER_BOOT))).unwrap().notes.is_empty());
    let mut image = fixture.open_on(Some(OTHER_BOOT), ImageOptions::default()).unwrap();
    step(&mut image, 10..12);
    drop(image);
    assert_eq!(fixture.numbers(Some(OTHER_BOOT)).unwrap(), [0, 1, 2, 10, 11]);
    assert_eq!(fixture.numbers(Some(2)).unwrap(), [0, 1, 2]);
    assert_eq!(fixture.numbers(None).unwrap(), [0, 1, 2]);
}

/// What was flushed after few writes is in the journal alone, until a checkpoint syncs the contents' own file.
#[test]
fn contents_that_only_the_journal_has_are_put_back() {
    let fixture = ImageFixture::new();
    let mut image = fixture.open(ImageOptions::default());
    let slots: Vec<Slot> = (0..3).filter_map(|_| image.allocate()).collect();
    for (byte, &slot) in (1..).zip(&slots[..2]) {
        image.write(slot, &[byte; SLOT], Some(&mut [byte; SPARE_BYTES])).unwrap();
    }
    step(&mut image, 0..1);
    sync(&mut image, 1);
    image.write(slots[2], &[3; SLOT], None).unwrap();
    step(&mut image, 1..2);
    drop(image);
    // The host went down before it wrote any of it.
    for name in [CONTENTS, SPARES] {
        fs::write(fixture.dir().join(name), b"").unwrap();
    }
    let image = fixture.open_on(Some(OTHER_BOOT), ImageOptions::default()).unwrap();
    let mut page = [9; SLOT];
    let mut beside = [9; SPARE_BYTES];
    for (byte, &slot) in (1..).zip(&slots[..2]) {
        image.read(slot, 0, &mut page).unwrap();
        assert_eq!(page, [byte; SLOT]);
        image.read_spare(slot, &mut beside).unwrap();
        assert_eq!(beside[..64], [byte; 64]);
    }
}

#[test]
fn contents_that_were_changed_are_not_returned() {
    let fixture = ImageFixture::new();
    let mut image = fixture.open(ImageOptions::default());
    let slots: Vec<Slot> = (0..4).filter_map(|_| image.allocate()).collect();
    for &slot in &slots {
        image.write(slot, &[7; SLOT], Some(&mut [7; SPARE_BYTES])).unwrap();
    }
    step(&mut image, 0..1);
    checkpoint(&mut image, &[0]);
    let change = |name: &str, f: &mut dyn FnMut(&mut Vec<u8>)| {
        let path = fixture.dir().join(name);
        let mut bytes = fs::read(&path).unwrap();
        f(&mut bytes);
        fs::write(&path, bytes).unwrap();
    };
    change(CONTENTS, &mut |bytes| {
        bytes[100] ^= 1;
        bytes.truncate(3 * SLOT + 100);
    });
    change(SPARES, &mut |bytes| bytes[SPARE_BYTES + 3] ^= 1);
    let (mut page, mut beside) = ([0; SLOT], [0; SPARE_BYTES]);
    assert!(image.read(slots[0], 0, &mut page).is_err());
    assert!(image.read(slots[0], 512, &mut page[..512]).is_err(), "another part of the page");
    assert!(image.read(slots[1], 0, &mut page).is_ok());
    assert_eq!(image.read_spare(slots[1], &mut beside), Err(Unreadable::Other));
    assert_eq!(image.read_spare(slots[2], &mut beside), Ok(()));
    assert!(image.read(slots[3], 0, &mut page).is_err(), "the file ends within it");
    assert_eq!(image.load(Io(1), 0..512, slots[1], 512, &mut page[..512]), Ok(()));
    assert!(image.load(Io(1), 0..512, slots[0], 512, &mut page[..512]).is_err());
    drop(image);
    let image = fixture.open(ImageOptions::default());
    assert!(image.read(slots[0], 0, &mut page).is_err(), "the checkpoint keeps checksums");
    assert!(image.read(slots[1], 0, &mut page).is_ok());
}

#[test]
fn a_checkpoint_replaces_the_journal_and_the_one_before_is_kept() {
    let fixture = ImageFixture::new();
    let mut image = fixture.open(ImageOptions::default());
    for n in 0..3 {
        step(&mut image, n..n + 1);
        checkpoint(&mut image, &(0..=n).collect::<Vec<_>>());
    }
    step(&mut image, 90..92);
    drop(image);
    assert_eq!(fixture.generations(), (vec![4, 5], vec![4, 5]));
    assert_eq!(fixture.numbers(Some(OTHER_BOOT)).unwrap(), [0, 1, 2]);
    assert_eq!(fixture.numbers(None).unwrap(), [0, 1, 2, 90, 91]);
    // The newest is damaged: the one before, and both journals, lead to the same state.
    let newest = fixture.checkpoint(5);
    let bytes = fs::read(&newest).unwrap();
    for damaged in [&bytes[..bytes.len() - 1], &bytes[..20], &[]] {
        fs::write(&newest, damaged).unwrap();
        assert_eq!(fixture.numbers(None).unwrap(), [0, 1, 2, 90, 91]);
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        fs::write(&newest, &changed).unwrap();
        assert_eq!(fixture.numbers(None).unwrap(), [0, 1, 2, 90, 91], "byte {at}");
    }
    assert_eq!(fixture.numbers(Some(OTHER_BOOT)).unwrap(), [0, 1, 2]);
    // An older state is not given instead.
    let before = fs::read(fixture.journal(4)).unwrap();
    fs::write(fixture.journal(4), &before[..before.len() - 1]).unwrap();
    assert!(matches!(fixture.numbers(None), Err(ImageError::DamagedJournal { .. })));
    fs::remove_file(fixture.journal(4)).unwrap();
    assert!(fixture.numbers(None).is_err() && fixture.numbers(Some(OTHER_BOOT)).is_err());
    // Both are damaged: an error that says so, no panic.
    fs::write(fixture.checkpoint(4), b"no").unwrap();
    fs::write(&newest, b"no").unwrap();
    assert!(matches!(fixture.numbers(None), Err(ImageError::Damaged { .. })));
}

#[test]
fn the_checkpoint_before_stays_whatever_lies_between() {
    let fixture = ImageFixture::new();
    for n in 0..2 {
        // Each opening begins a generation that has no checkpoint at first.
        let mut image = fixture.open(ImageOptions::default());
        step(&mut image, n..n + 1);
        image.checkpoint(&encode(&(0..=n).collect::<Vec<_>>()), Nanos(20), true).unwrap();
        image.settle(&mut Vec::new());
    }
    assert_eq!(fixture.generations(), (vec![3, 5], vec![3, 4, 5]));
    fs::write(fixture.checkpoint(5), b"damaged").unwrap();
    assert_eq!(fixture.numbers(None).unwrap(), [0, 1]);
}

#[test]
fn a_crash_between_checkpoint_and_journal_loses_nothing() {
    let fixture = ImageFixture::new();
    let mut image = fixture.open(ImageOptions::default());
    step(&mut image, 0..2);
    // The journals have changed over, the checkpoint was never written.
    image.journal().switch(Nanos(12)).unwrap();
    step(&mut image, 2..4);
    sync(&mut image, 1);
    step(&mut image, 4..5);
    drop(image);
    assert_eq!(fixture.numbers(None).unwrap(), [0, 1, 2, 3, 4]);
    assert_eq!(fixture.numbers(Some(OTHER_BOOT)).unwrap(), [0, 1, 2, 3]);
    let mut image = fixture.open(ImageOptions::default());
    step(&mut image, 5..6);
    drop(image);
    assert_eq!(fixture.numbers(None).unwrap(), [0, 1, 2, 3, 4, 5]);
    // A journal that was begun and never written to.
    fs::write(fixture.journal(9), b"").unwrap();
    assert_eq!(fixture.numbers(None).unwrap(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn freed_slots_wait_until_what_freed_them_is_safe() {
    let fixture = ImageFixture::new();
    let mut image = fixture.open(ImageOptions::default());
    let count = image.slots.count();
    let all: Vec<Slot> = std::iter::from_fn(|| image.allocate()).collect();
    assert_eq!(all.len() as u32, count);
    for &slot in &all[..10] {
        image.release(slot);
    }
    assert_eq!(image.allocate(), None, "the step is not committed");
    step(&mut image, 0..1);
    assert_eq!(image.allocate(), None, "the step is not synced");
    let news = sync(&mut image, 1);
    assert!(news.iter().any(|n| matches!(n, DiskEvent::SlotsFree)));
    assert!(image.allocate().is_some());
    drop(image);
    let mut image = fixture.open(ImageOptions { host_sync: false, ..ImageOptions::default() });
    let all: Vec<Slot> = std::iter::from_fn(|| image.allocate()).collect();
    image.release(all[3]);
    assert_eq!(image.allocate(), None, "the step is not committed");
    step(&mut image, 1..2);
    assert_eq!(image.allocate(), Some(all[3]));
}

/// Takes every free slot. None may come twice.
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
            let fixture = ImageFixture::new();
            let mut image = fixture.open(ImageOptions { host_sync, ..ImageOptions::default() });
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
                    image.forget(b"stat", Nanos(11), &mut news);
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
            let all = image.slots.count() as usize;
            assert_eq!(
                free.len() + taken[50..].len(),
                all,
                "slots are lost; {under:?}, host sync {host_sync}"
            );
        }
    }
}

#[test]
fn directories_that_are_no_image_are_told_apart() {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    assert_eq!(presence(&at("nothing")).unwrap(), Presence::Nothing);
    assert!(matches!(Locked::existing(&at("nothing")), Err(ImageError::Missing { .. })));
    fs::write(at("file"), b"precious").unwrap();
    for path in [at("file"), at("file/image")] {
        let error = Locked::fresh(&path).map(drop).unwrap_err();
        assert!(matches!(&error, ImageError::File { path } if *path == at("file")), "{error}");
        assert!(
            error
                .to_string()
                .ends_with("file is a file, and an image is a directory: name a new or an empty one")
        );
    }
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
    let fixture = ImageFixture::new();
    let image = fixture.open(ImageOptions::default());
    match Locked::existing(&fixture.dir()) {
        Err(e @ ImageError::Locked { .. }) => {
            assert!(e.to_string().contains(&std::process::id().to_string()))
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
    drop(image);
    assert!(Locked::existing(&fixture.dir()).is_ok());
}

#[test]
fn a_newer_image_is_left_alone() {
    let fixture = ImageFixture::new();
    let path = fixture.checkpoint(1);
    let mut bytes = fs::read(&path).unwrap();
    let header = Header { version: 9, ..Header::decode(ImageFileKind::Checkpoint, &bytes).unwrap() };
    bytes[..format::HEADER].copy_from_slice(&header.encode());
    fs::write(&path, &bytes).unwrap();
    let error = fixture.numbers(None).unwrap_err().to_string();
    assert!(error.contains("version 9") && error.contains("newer"), "{error}");
}

#[test]
fn a_journal_of_another_image_is_not_replayed() {
    let (a, b) = (ImageFixture::new(), ImageFixture::new());
    let mut image = a.open(ImageOptions::default());
    step(&mut image, 0..4);
    drop(image);
    fs::copy(a.journal(2), b.journal(1)).unwrap();
    assert!(matches!(b.numbers(None), Err(ImageError::Format { source: FormatError::Mixed, .. })));
}

#[test]
fn a_journal_that_cannot_be_written_stops_the_image_and_keeps_what_was() {
    let fixture = ImageFixture::new();
    let mut image = fixture.open(ImageOptions::default());
    step(&mut image, 0..2);
    // What a failing disk does, as far as the image can see it.
    image.fail("the disk is on fire".to_owned());
    image.record(&Record::Spoil { set: 0, unit: Unit(2) });
    assert!(image.commit(Nanos(3)).is_err());
    assert!(image.writable().is_err());
    assert!(matches!(sync(&mut image, 4)[..], [DiskEvent::Synced(Io(4), false)]));
    assert!(image.checkpoint(b"none", Nanos(5), false).is_err());
    drop(image);
    assert_eq!(fixture.numbers(None).unwrap(), [0, 1]);
}

#[test]
fn large_records_survive() {
    let fixture = ImageFixture::new();
    let mut image = fixture.open(ImageOptions::default());
    let spares = vec![Spare::EMPTY; 4096];
    image.record(&Record::Program { set: 0, unit: Unit(1), spares: &spares });
    image.commit(Nanos(1)).unwrap();
    drop(image);
    let mut found = ImageState::read(&fixture.disk(None)).unwrap();
    let mut seen = 0;
    found
        .replay(u32::MAX, |record| {
            if let Record::Program { spares, .. } = record {
                seen = spares.len();
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(seen, 4096);
}

#[test]
fn a_sync_begins_before_the_flush_that_is_usual_and_serves_it() {
    let fixture = ImageFixture::new();
    let mut image = fixture.open(ImageOptions::default());
    for number in 0..3 {
        write(&mut image, number);
        assert!(!image.sync_runs, "nobody has asked for it, and there is no habit yet");
        assert!(matches!(sync(&mut image, number)[..], [DiskEvent::Synced(_, true)]));
    }
    // The Flush comes while the sync runs, and after it: it needs no other.
    for number in 3..6 {
        write(&mut image, number);
        assert!(image.sync_runs);
        let mut news = Vec::new();
        if number == 4 {
            image.settle(&mut news);
        }
        let begun = image.journal().mark();
        image.want_sync(Io(number));
        image.tend(Nanos(11), &mut news);
        assert_eq!(image.sync_runs, number != 4);
        image.settle(&mut news);
        assert!(matches!(news[..], [DiskEvent::Synced(Io(io), true)] if io == number));
        assert!(number != 4 || image.journal().mark() == begun);
    }
    // Another page follows instead: the sync was in vain, and the Flush has one of its own.
    write(&mut image, 6);
    write(&mut image, 7);
    let mut news = Vec::new();
    image.settle(&mut news);
    assert!(news.is_empty());
    let begun = image.journal().mark();
    assert!(matches!(sync(&mut image, 8)[..], [DiskEvent::Synced(Io(8), true)]));
    assert_ne!(image.journal().mark(), begun);
    write(&mut image, 8);
    assert!(!image.sync_runs, "the habit is not trusted any more");
    drop(image);
    assert_eq!(fixture.numbers(None).unwrap(), (0..9).collect::<Vec<_>>());
}

/// What the host has lost of it stays lost, also when another opening has continued it, and died before it had a checkpoint.
#[test]
fn later_openings_do_not_trust_a_journal_whose_sync_has_failed() {
    let fixture = ImageFixture::new();
    let mut image = fixture.open(ImageOptions::default());
    step(&mut image, 0..3);
    assert!(matches!(sync(&mut image, 1)[..], [DiskEvent::Synced(_, true)]));
    image.journal().disown().unwrap();
    drop(image);
    for _ in 0..3 {
        let locked =
            Locked { disk: Arc::new(fixture.disk(None)), lock: Some(fixture.disk(None).lock().unwrap()) };
        let found = locked.find().unwrap();
        assert!(found.lost, "a checkpoint must be written before anything is promised");
        let background = BackgroundWork::unheard();
        drop(locked.start(&found, 64, ImageOptions::default(), background).unwrap());
    }
    drop(fixture.open(ImageOptions::default()));
    assert!(!ImageState::read(&fixture.disk(None)).unwrap().lost);
    assert_eq!(fixture.numbers(None).unwrap(), [0, 1, 2]);
}

/// Nothing was written since the last sync that went well, but nobody can trust the disk any more.
#[test]
fn a_flush_of_a_failed_image_is_refused_although_a_sync_has_covered_it() {
    let fixture = ImageFixture::new();
    let mut image = fixture.open(ImageOptions::default());
    write(&mut image, 0);
    assert!(matches!(sync(&mut image, 1)[..], [DiskEvent::Synced(_, true)]));
    image.fail("this is a test".into());
    assert!(matches!(sync(&mut image, 2)[..], [DiskEvent::Synced(_, false)]));
}

/// It goes on with the drive when its job is done. The drive may end there, which needs more of its jobs.
#[test]
fn the_thread_that_waits_for_the_disk_may_be_the_last_user_of_the_image() {
    let fixture = ImageFixture::new();
    let place: Arc<Mutex<Option<Image>>> = Arc::default();
    let (ended, end) = std::sync::mpsc::channel();
    let user = place.clone();
    let notify = move || {
        if let Some(mut image) = user.lock().unwrap().take() {
            checkpoint(&mut image, &[7]);
            drop(image);
            ended.send(()).unwrap();
        }
    };
    let mut own = place.lock().unwrap();
    let mut image = fixture.open_with(None, ImageOptions::default(), notify).unwrap();
    step(&mut image, 0..1);
    image.want_sync(Io(1));
    image.tend(Nanos(11), &mut Vec::new());
    *own = Some(image);
    drop(own);
    end.recv_timeout(std::time::Duration::from_secs(60)).expect("it ends");
    assert_eq!(fixture.numbers(None).unwrap(), [7]);
}

/// The host reports a failed sync once. A later sync that succeeds does not bring back what was lost then.
#[test]
fn no_sync_succeeds_after_one_that_failed() {
    let sim = SimDisk::new(1);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (image, zero) = ([0; 16], Nanos::ZERO);
    let start = Start { at: Mark { generation: 0, offset: 0 }, how: Continuation::Opened };
    let journal = Journal::create(&disk, image, 1, zero, start, true).unwrap();
    let mark = journal.mark();
    let work = JobFiles {
        contents: disk.open("contents", Open::Create).unwrap(),
        spares: disk.open("spares", Open::Create).unwrap(),
        disk,
        journal: Arc::new(Mutex::new(journal)),
        host_sync: true,
        lost: AtomicBool::new(false),
    };
    let sync = || match work.carry_out(Job::sync(mark, zero, Written { many: true, ..Written::default() })) {
        JobReport::Sync(result) => result,
        _ => panic!("a sync reports a sync"),
    };
    assert!(sync().is_ok());
    sim.fail_syncs(1);
    assert!(matches!(sync(), Err(JobFailure::Lost(_))));
    sim.fail_syncs(0);
    assert!(matches!(sync(), Err(JobFailure::Lost(_))));
}

/// Also of a size that the host would promise without having it.
#[test]
fn no_file_is_read_that_does_not_fit_into_the_memory_that_is_available() {
    let info = fs::read_to_string("/proc/meminfo").unwrap();
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
    let total: u64 = total.trim().trim_end_matches(" kB").parse().unwrap();
    // This program has more than a MiB of it.
    let error = disk::room((total << 10) - (1 << 20)).unwrap_err().to_string();
    assert!(error.contains("are available"), "{error}");
}

#[test]
fn checksums_of_slots_that_a_journal_names_take_no_more_memory_than_the_drive_has_slots() {
    let fixture = ImageFixture::new();
    let (dir, disk) = (fixture.dir(), fixture.disk(None));
    let mut found = ImageState::read(&disk).unwrap();
    let (checkpoint, _) = files::generations(&disk).unwrap();
    let bytes = fs::read(dir.join(files::checkpoint_name(*checkpoint.last().unwrap()))).unwrap();
    let first = Header::decode(ImageFileKind::Checkpoint, &bytes).unwrap();
    let header = Header { kind: ImageFileKind::Journal, body: 0, body_crc: 0, clean: false, ..first };
    let mut journal = header.encode().to_vec();
    let mut frame = |kind, sequence, fill: &dyn Fn(&mut Vec<u8>)| {
        let start = format::begin_frame(&mut journal);
        fill(&mut journal);
        format::end_frame(&mut journal, start, kind, sequence, Nanos(9), header.salt());
    };
    frame(format::FrameKind::Start, 0, &|out| found.start().encode(out));
    frame(format::FrameKind::Step, 1, &|out| {
        (10..32).for_each(|bits| format::encode_sum(1 << bits, 7, out));
    });
    fs::write(dir.join(files::journal_name(header.generation)), &journal).unwrap();
    found = ImageState::read(&disk).unwrap();
    found.replay(1000, |_| Ok(())).unwrap();
    assert!(found.sums.len() <= 1000, "{}", found.sums.len());
}
