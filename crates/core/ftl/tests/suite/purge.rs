//! Everything is given up and erased.

use crate::support::{Kept, Store};
use ftl::{
    Answer, Config, Extent, Ftl, GcConfig, Io, PAGE, SetConfig, SetId, Source, VolumeId, Write, ZonesConfig,
};
use media::{Cell, Geometry, NandConfig, NandTiming, Nanos};

const PAGES: u32 = 4096;

fn config() -> Config {
    let geometry = Geometry {
        dies: 4,
        channels: 2,
        planes: 2,
        superblocks: 12,
        units_per_block: 8,
        unit_pages: 24,
        sense_pages: 4,
        in_place: false,
        rated_cycles: 1000,
    };
    let timing = NandTiming { erase: Nanos(1_000_000), ..NandTiming::default() };
    Config {
        sets: vec![
            SetConfig::Nand {
                nand: NandConfig { geometry, cell: Cell::Tlc, timing, durable: true },
                capacity_pages: PAGES,
                gc: GcConfig::default(),
                placement: Default::default(),
                policies: Default::default(),
                zones: ZonesConfig::default(),
            },
            crate::sets::pmem(),
        ],
        buffer_pages: 64,
        protected: true,
        energy_bytes: 1 << 30,
        atomic_pages: 1,
        durable: true,
        faults: Default::default(),
    }
}

struct Bench {
    ftl: Ftl,
    store: Store,
    now: Nanos,
}

impl Bench {
    fn write(&mut self, volume: VolumeId, page: u32, value: u32) {
        self.store.host_writes(Io(0), value);
        let extent = Extent { start: u64::from(page * PAGE), bytes: PAGE };
        let answer =
            self.ftl.write(self.now, Write::new(Io(0), volume, extent, Source::Host), &mut self.store);
        self.finish(answer);
    }

    fn finish(&mut self, answer: Answer) {
        let mut done = Vec::new();
        while answer == Answer::Later && done.is_empty() {
            self.now = self.now.max(self.ftl.next_event().expect("it ends"));
            self.ftl.poll(self.now, &mut self.store, &mut done);
        }
        assert!(done.iter().all(|d| d.result.is_ok()), "{answer:?}: {done:?}");
        assert!(!matches!(answer, Answer::Failed(_)));
    }

    fn read(&mut self, volume: VolumeId, page: u32) -> u32 {
        self.store.host_reads(8);
        let extent = Extent { start: u64::from(page * PAGE), bytes: PAGE };
        let answer = self.ftl.read(self.now, Io(1), volume, extent, &mut self.store);
        assert!(matches!(answer, Answer::At(_)), "{answer:?}");
        self.store.host[0]
    }
}

#[test]
fn nothing_is_left_and_the_drive_goes_on() {
    let mut b = Bench { ftl: Ftl::new(config()).unwrap(), store: Store::new(16384), now: Nanos::ZERO };
    let volumes = [(0, PAGES), (1, 256)].map(|(set, pages)| {
        (b.ftl.create(SetId(set), u64::from(pages * PAGE), &mut b.store).unwrap(), pages)
    });
    for round in 1..6 {
        for (volume, pages) in volumes {
            for page in 0..pages {
                b.write(volume, page, round * 100_000 + page);
            }
        }
        // Old versions on flash, some pages in the buffer, collection and programs under way.
        let free = b.store.free();
        let erases = b.ftl.set_stats(SetId(0)).erases;
        let began = b.now;
        let answer = b.ftl.purge(b.now, Io(7), &mut b.store);
        assert_eq!(answer, Answer::Later);
        b.finish(answer);
        assert!(b.store.free() > free);
        assert_eq!(b.store.free(), 16384, "no slot is referred to");
        assert!(b.ftl.set_stats(SetId(0)).erases > erases);
        assert!(b.now.0 >= began.0 + 1_000_000, "erases take their time");
        let info = b.ftl.set_info(SetId(0)).unwrap();
        assert_eq!(info.free_superblocks, 12, "round {round}");
        for (volume, pages) in volumes {
            assert!((0..pages).all(|page| b.read(volume, page) == 0));
        }
        b.ftl.power_cut(b.now, true, &mut b.store);
        b.ftl.recover(b.now, &mut b.store);
        for (volume, pages) in volumes {
            assert!((0..pages).all(|page| b.read(volume, page) == 0));
        }
    }
}

#[test]
fn the_journal_tells_of_it_at_every_instant() {
    let mut b = Bench { ftl: Ftl::new(config()).unwrap(), store: Store::new(16384), now: Nanos::ZERO };
    let volume = b.ftl.create(SetId(0), u64::from(1024 * PAGE), &mut b.store).unwrap();
    for page in (0..1024).chain(0..1024).chain(0..100) {
        b.write(volume, page, page + 1);
    }
    let mut saved = Vec::new();
    b.ftl.save(&mut saved);
    b.store.journal.clear();
    let answer = b.ftl.purge(b.now, Io(7), &mut b.store);
    b.finish(answer);
    let journal = std::mem::take(&mut b.store.journal);
    assert!(journal.iter().any(|r| matches!(r, Kept::Erase(..))));
    // The deallocation comes with the first step; whatever part of the rest is there, nothing comes back.
    let trim = journal.iter().position(|r| matches!(r, Kept::Trim(..))).unwrap();
    for end in [trim + 1, journal.len() / 2, journal.len()] {
        let mut restorer = Ftl::restore(config(), &saved).unwrap();
        for record in &journal[..end] {
            restorer.apply(&record.borrowed()).unwrap();
        }
        let mut store = Store::new(16384);
        let ftl = restorer.finish(b.now, &mut store).unwrap();
        let mut again = Bench { ftl, store, now: b.now };
        assert!((0..1024).all(|page| again.read(volume, page) == 0), "after {end} records");
    }
}

#[test]
fn contents_are_given_back_when_nobody_can_read_them_any_more() {
    let mut b = Bench { ftl: Ftl::new(config()).unwrap(), store: Store::new(4096), now: Nanos::ZERO };
    let volume = b.ftl.create(SetId(0), u64::from(1024 * PAGE), &mut b.store).unwrap();
    for round in 0..3 {
        for page in 0..1024 {
            b.write(volume, page, round * 10_000 + page);
        }
        let answer = b.ftl.shutdown(b.now, Io(7), &mut b.store);
        b.finish(answer);
        assert_eq!(b.store.free(), 4096 - 1024, "round {round}: one for each page");
    }
    b.ftl.trim(b.now, volume, 0, u64::from(512 * PAGE), &mut b.store).unwrap();
    assert_eq!(b.store.free(), 4096 - 512, "what was deallocated is free at once");
    b.ftl.power_cut(b.now, true, &mut b.store);
    b.ftl.recover(b.now, &mut b.store);
    assert_eq!(b.store.free(), 4096 - 512);
    assert!((512..1024).all(|page| b.read(volume, page) == 20_000 + page));
    b.store.audit(b.ftl.references()).unwrap();
}

#[test]
fn a_step_of_a_memory_set_is_small_however_many_pages_it_gives_up() {
    let mut config = config();
    let SetConfig::Memory { volatile, .. } = &mut config.sets[1] else { unreachable!() };
    *volatile = true;
    let mut b = Bench { ftl: Ftl::new(config.clone()).unwrap(), store: Store::new(16384), now: Nanos::ZERO };
    let volume = b.ftl.create(SetId(1), u64::from(512 * PAGE), &mut b.store).unwrap();
    let mut saved = Vec::new();
    b.ftl.save(&mut saved);
    b.store.journal.clear();
    for loss in 0..4 {
        for page in (0..512).filter(|page| page % 7 != 0) {
            b.write(volume, page, page + 1);
        }
        let before = b.store.journal.len();
        // The last pages stay in one of them.
        let kept = if loss == 2 { 255 } else { 512 };
        match loss {
            0 => {
                b.ftl.power_cut(b.now, false, &mut b.store);
                b.ftl.recover(b.now, &mut b.store);
            }
            1 => {
                let answer = b.ftl.purge(b.now, Io(7), &mut b.store);
                b.finish(answer);
            }
            2 => b.ftl.trim(b.now, volume, 0, u64::from(255 * PAGE), &mut b.store).map(|_| ()).unwrap(),
            _ => b.ftl.trim(b.now, volume, 0, u64::from(512 * PAGE), &mut b.store).map(|_| ()).unwrap(),
        }
        let records = b.store.journal.len() - before;
        assert!(records <= 3, "{loss}: {records} records");
        let mut restorer = Ftl::restore(config.clone(), &saved).unwrap();
        for record in &b.store.journal {
            restorer.apply(&record.borrowed()).unwrap();
        }
        let mut store = Store::new(16384);
        let mut again = Bench { ftl: restorer.finish(b.now, &mut store).unwrap(), store, now: b.now };
        assert_eq!(again.ftl.allocated_bytes(volume), b.ftl.allocated_bytes(volume));
        assert!((0..kept).all(|page| again.read(volume, page) == 0 && b.read(volume, page) == 0));
    }
}
