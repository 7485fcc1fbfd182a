//! The scrub of an image while hosts are at work.

use crate::connect;
use device::{ControllerId, Drive, SPARE_BYTES};
use ftl::PageState;
use image::testing::{self, SLOT, SteppedScrub, place};
use image::{BackgroundWork, Buffer, ImageOptions, Locked, Opened, Shape};
use live::VirtualQueues;
use live::engine::Engine;
use media::{Nanos, Rng, Slot};
use nvme::Command;
use nvme::admin::{FormatNvm, PowerCut, SecureErase};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

/// Namespace 1 has a block in a page, 2 metadata, 3 eight blocks in a page. Nothing but the spare blocks is left.
fn shape() -> Shape {
    let formats = r#"lba_formats = ["4096", "4096+8", "512"]"#;
    testing::shape(formats, "4MiB", &[("1MiB", "4096"), ("1MiB", "4096+8"), ("1MiB", "512")])
}

/// Bytes that a block of a namespace takes in a command's buffer, and how many of them there are.
const BLOCKS: [(u32, u64); 3] = [(4096, 256), (4096 + 8, 256), (512, 2048)];

/// A drive in an image, under a virtual clock, with a scrub that a test steps.
struct Bench {
    _temp: tempfile::TempDir,
    dir: PathBuf,
    engine: Engine,
    controller: ControllerId,
    now: Nanos,
    scrub: SteppedScrub,
}

impl Bench {
    fn new(host_sync: bool) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("image");
        let Shape { mut config, toml } = shape();
        config.ftl.durable = true;
        let drive = Drive::new(config).unwrap();
        Locked::fresh(&dir).unwrap().create(&toml, &drive.save(), Nanos::ZERO).unwrap();
        let image_options = ImageOptions { host_sync, checkpoint_bytes: 64 << 10, margin_slots: 128 };
        let locked = Locked::existing(&dir).unwrap();
        let opened = locked.open(None, None, image_options, BackgroundWork::Stepped).unwrap();
        let Opened { drive, mut store, time, .. } = opened;
        let scrub = store.image().unwrap().begin_stepped_scrub().unwrap();
        let mut engine = Engine::new(drive, store);
        let controller = connect(&mut engine, time);
        Bench { _temp: temp, dir, engine, controller, now: time, scrub }
    }

    fn submit(&mut self, qid: u16, command: Command, data: Vec<u8>) {
        let owner = VirtualQueues::owner(0, 0);
        self.engine.submit(self.now, owner, self.controller, qid, command, Buffer::from(data).into());
        self.settle();
    }

    fn settle(&mut self) {
        let powered = self.engine.drive.is_powered();
        self.engine.settle(self.now, &mut VirtualQueues::default());
        if self.engine.drive.is_powered() && !powered {
            self.controller = connect(&mut self.engine, self.now);
        }
        assert_eq!(self.engine.store.image().unwrap().broken_slots(), None);
    }

    /// The clock goes on to what is due next, and the image's helper with it.
    fn advance(&mut self) {
        let next = self.engine.deadline();
        if next != Nanos::MAX {
            self.now = self.now.max(next);
        }
        self.engine.store.image().unwrap().step_aside();
        self.settle();
    }

    fn write(&mut self, nsid: u32, lba: u64, count: u64, byte: u8) {
        let bytes = u64::from(BLOCKS[nsid as usize - 1].0) * count;
        self.submit(1, Command::write(nsid, lba, count as u32), vec![byte; bytes as usize]);
    }

    /// The scrub's thread does what it was asked for; how many pages it found to be damaged.
    fn scrub(&mut self) -> usize {
        let found = self.read();
        self.settle();
        found
    }

    /// The same before the drive hears of it.
    fn read(&mut self) -> usize {
        self.scrub.read(self.engine.store.image().unwrap())
    }

    /// Passes that have ended, and pages that were found damaged.
    fn tally(&mut self) -> (u64, u64) {
        self.engine.store.image().unwrap().scrub_tally()
    }

    /// Goes on to the end of the pass after this one; how many pages are damaged.
    fn whole_pass(&mut self) -> u64 {
        for _ in 0..50 {
            self.advance();
        }
        let end = |bench: &mut Bench| {
            let (before, _) = bench.tally();
            while bench.tally().0 == before {
                bench.scrub();
            }
            bench.tally().1
        };
        let before = end(self);
        end(self) - before
    }

    fn slot(&self, nsid: u32, page: u64) -> Slot {
        let layout = self.engine.drive.namespace_layouts().find(|layout| layout.nsid == nsid).unwrap();
        match self.engine.drive.ftl().page_state(layout.volume, page) {
            Some(PageState::Held(slot)) => slot,
            other => panic!("page {page} of namespace {nsid} is {other:?}"),
        }
    }

    /// Changes a byte of a file behind the image's back.
    fn flip(&self, name: &str, at: u64) {
        let file = std::fs::File::options().read(true).write(true).open(self.dir.join(name)).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 4], at).unwrap();
    }

    fn act(&mut self, rng: &mut Rng) {
        let nsid = 1 + rng.below(3) as u32;
        let (_, blocks) = BLOCKS[nsid as usize - 1];
        let count = 1 + rng.below(16);
        let lba = rng.below(blocks - count);
        match rng.below(1000) {
            0..500 => self.write(nsid, lba, count, rng.below(256) as u8),
            500..560 => {
                let mut range = vec![0; 4];
                range.extend_from_slice(&(count as u32).to_le_bytes());
                range.extend_from_slice(&lba.to_le_bytes());
                self.submit(1, Command::deallocate(nsid, 1), range);
            }
            560..600 => self.submit(1, Command::flush(nsid), Vec::new()),
            600..602 => {
                let seed = rng.next_u64() as u32;
                let cut = PowerCut { after_media_ops: rng.below(4) as u32, off_ms: 1, seed, no_plp: false };
                self.submit(0, cut.into(), Vec::new());
            }
            602..604 => {
                let ses = [SecureErase::USER_DATA, SecureErase::NONE][rng.below(2) as usize];
                let lbaf = nsid as u8 - 1;
                let format = FormatNvm { nsid, lbaf, mset: nsid == 2, pi: 0, pil: false, ses };
                self.submit(0, format.into(), Vec::new());
            }
            604..800 => self.advance(),
            _ => assert_eq!(self.scrub(), 0, "a false alarm"),
        }
    }
}

#[test]
fn what_hosts_do_meanwhile_is_no_damage() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut bench = Bench::new(seed % 2 == 0);
        for _ in 0..4000 {
            if bench.engine.drive.is_powered() {
                bench.act(&mut rng);
            } else {
                bench.advance();
            }
        }
        let (passes, damaged) = bench.tally();
        assert!(passes > 10 && damaged == 0, "{passes} passes found {damaged} damaged pages");
        bench.write(1, 0, 1, 1);
        bench.flip("contents", place(bench.slot(1, 0)));
        assert_eq!(bench.whole_pass(), 1, "it would have noticed");
    }
}

#[test]
fn damage_is_found_without_a_host() {
    let mut bench = Bench::new(true);
    for nsid in 1..=3 {
        bench.write(nsid, 8, 16, 7);
    }
    assert_eq!(bench.whole_pass(), 0);
    bench.flip("contents", place(bench.slot(1, 9)) + 4095);
    assert_eq!(bench.whole_pass(), 1);
    bench.flip("contents", place(bench.slot(3, 2)));
    assert_eq!(bench.whole_pass(), 2);
    bench.flip("spares", u64::from(bench.slot(2, 10).0) * SPARE_BYTES as u64 + 3);
    assert_eq!(bench.whole_pass(), 3);
    // Nothing counts beside a page without metadata.
    let beside = u64::from(bench.slot(1, 8).0) * SPARE_BYTES as u64;
    std::fs::File::options()
        .write(true)
        .open(bench.dir.join("spares"))
        .unwrap()
        .write_all_at(&[9], beside)
        .unwrap();
    assert_eq!(bench.whole_pass(), 3);
    // What is written again is whole again, even before the drive hears of the damage.
    bench.write(1, 9, 1, 8);
    assert_eq!(bench.whole_pass(), 2);
    let (_, before) = bench.tally();
    while bench.read() < 2 {
        bench.settle();
    }
    bench.write(3, 16, 8, 8);
    assert_eq!(bench.tally().1, before + 1, "only that of namespace 2 is still there");
    bench.write(2, 10, 1, 8);
    assert_eq!(bench.whole_pass(), 0);
    // The file ends too early.
    let contents = std::fs::File::options().write(true).open(bench.dir.join("contents")).unwrap();
    contents.set_len(place(bench.slot(1, 20))).unwrap();
    assert!(bench.whole_pass() > 1);
}

#[test]
fn what_is_erased_for_good_waits_for_the_batch() {
    let mut bench = Bench::new(true);
    bench.write(1, 0, 16, 7);
    let slot = bench.slot(1, 3);
    // A batch with it is under way.
    assert!(bench.engine.store.image().unwrap().is_reading_batch());
    let format = FormatNvm { nsid: 1, lbaf: 0, mset: false, pi: 0, pil: false, ses: SecureErase::USER_DATA };
    bench.submit(0, format.into(), Vec::new());
    for _ in 0..100 {
        bench.advance();
    }
    let holds = |bench: &Bench| {
        let mut page = [0; SLOT];
        let contents = std::fs::File::open(bench.dir.join("contents")).unwrap();
        let _ = contents.read_at(&mut page, place(slot)).unwrap();
        page != [0; SLOT]
    };
    assert!(holds(&bench), "it was erased while it was being read");
    for _ in 0..100 {
        bench.scrub();
        bench.advance();
    }
    assert!(!holds(&bench), "it was never erased");
}

#[test]
fn the_thread_keeps_to_its_rate() {
    let mut bench = Bench::new(true);
    bench.write(1, 0, 16, 7);
    let span = bench.scrub.rest_after_batch(16);
    assert!(span > Duration::from_secs(3600), "{span:?} for 64 KiB at 16 bytes a second");
}
