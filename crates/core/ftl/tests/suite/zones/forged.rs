//! State that a stranger made. The saved state of a drive with zones and its journal are changed at random. Such a drive opens, or is
//! refused. An open one takes commands and losses of power without a panic. Its saved state opens again.
//!
//!     TRANCHE_MODEL_ROUNDS=10000 cargo test -p ftl --release --test suite forged::     (a campaign)

use super::{Run, SET};
use crate::support::{Kept, for_seeds};
use ftl::{
    Config, Extent, Ftl, Io, PAGE, Piece, Record, Section, SetConfig, Source, Storage, StorageError,
    VolumeId, Write, ZoneAction, ZoneTarget,
};
use media::{Geometry, LogicalPage, Nanos, Rng, Slot, Spare, Unit};
use std::ops::Range;

/// Slots of the contents.
const SLOTS: u32 = 60_000;
/// Forged drives that are made of one drive.
const FORGERIES: u32 = 12;

/// Contents that no forged handle disturbs: the owner of real ones checks them itself.
#[derive(Default)]
struct AnyContents {
    next: u32,
    journal: Vec<Kept>,
}

impl Storage for AnyContents {
    fn allocate(&mut self) -> Option<Slot> {
        self.next = (self.next + 1) % SLOTS;
        Some(Slot(self.next))
    }
    fn retain(&mut self, _: Slot) {}
    fn release(&mut self, _: Slot) {}
    fn forget_slots(&mut self) {}
    fn store(&mut self, _: Io, _: Piece, _: Slot, _: Option<Slot>) -> Result<(), StorageError> {
        Ok(())
    }
    fn store_zeros(&mut self, _: Io, _: Piece, _: Slot, _: Option<Slot>) -> Result<(), StorageError> {
        Ok(())
    }
    fn splice(&mut self, _: Slot, _: Slot, _: Range<u32>, _: Option<Slot>) -> Result<(), StorageError> {
        Ok(())
    }
    fn load(&mut self, _: Io, _: Piece, _: Option<Slot>) -> Result<(), StorageError> {
        Ok(())
    }
    fn compare(&mut self, _: Io, _: Piece, _: Option<Slot>) -> Result<bool, StorageError> {
        Ok(true)
    }
    fn record(&mut self, record: Record<'_>) {
        self.journal.push(Kept::of(record));
    }
}

/// Makes records and changes them.
struct Forger {
    rng: Rng,
    geo: Geometry,
    pages: u32,
    zones: u32,
    /// What was saved of the volumes: JSON.
    volumes: Vec<u8>,
}

impl Forger {
    fn below(&mut self, end: u32) -> u32 {
        self.rng.below(u64::from(end)) as u32
    }

    /// A number below `end`, as a rule.
    fn number(&mut self, end: u32) -> u32 {
        match self.rng.below(16) {
            0 => u32::MAX - self.below(4),
            1 => end,
            2 => self.rng.next_u64() as u32,
            _ => self.below(end),
        }
    }

    fn version(&mut self) -> u64 {
        match self.rng.below(24) {
            0 => u64::MAX - self.rng.below(3),
            1 => 0,
            _ => self.rng.below(20_000),
        }
    }

    fn unit(&mut self) -> Unit {
        let units = self.geo.superblocks * self.geo.units_per_superblock();
        Unit(self.number(units))
    }

    fn spare(&mut self) -> Spare {
        match self.rng.below(8) {
            0 => Spare::EMPTY,
            _ => Spare {
                page: LogicalPage(self.number(self.pages)),
                version: self.version(),
                slot: Slot(self.number(SLOTS)),
            },
        }
    }

    /// A word of a zone's record: state, superblock, plot, units, write pointer.
    fn word_of_zone(&mut self, word: usize) -> u32 {
        let units = self.geo.units_per_superblock();
        match word {
            0 => {
                let flags = (self.below(4) << 30) & self.rng.next_u64() as u32;
                [1, 2, 3, 4, 0xD, 0xE, 0xF, 5][self.below(8) as usize] | flags
            }
            1 => self.number(self.geo.superblocks),
            2 => self.number(self.geo.dies),
            3 => self.number(units + 1),
            _ => self.number(units * self.geo.unit_pages + 1),
        }
    }

    fn zone_record(&mut self) -> Vec<u8> {
        let words = 4 + self.below(3) as usize;
        (0..words).flat_map(|word| self.word_of_zone(word).to_le_bytes()).collect()
    }

    /// Volumes that are gone, or have other numbers.
    fn volumes(&mut self) -> Vec<u8> {
        let mut text = self.volumes.clone();
        if self.below(4) == 0 {
            return b"[null,null]".to_vec();
        }
        for _ in 0..1 + self.below(3) {
            let at = self.below(text.len() as u32) as usize;
            if text[at].is_ascii_digit() {
                text[at] = b'0' + self.below(10) as u8;
            }
        }
        text
    }

    fn record(&mut self) -> Kept {
        match self.rng.below(11) {
            10 => Kept::Section(Section::Volumes, self.volumes()),
            0 => Kept::Program(0, self.unit(), (0..self.geo.unit_pages).map(|_| self.spare()).collect()),
            1 => Kept::Spoil(0, self.unit()),
            2 => Kept::Erase(0, self.unit()),
            3 => Kept::Retire(0, self.unit()),
            4 => Kept::Open(0, self.number(self.geo.superblocks), [0, 1, 2, u8::MAX][self.below(4) as usize]),
            5 => Kept::Buffer(0, self.spare()),
            6 => Kept::Lose(0),
            7 => {
                let (first, count) = (self.number(self.pages), self.number(64));
                Kept::Trim(0, first, count, self.version(), self.below(2) == 0)
            }
            _ => Kept::Zone(0, self.number(2) as u16, self.number(self.zones), self.zone_record()),
        }
    }

    /// Changes a part of a record.
    fn change(&mut self, record: &mut Kept) {
        match record {
            Kept::Program(_, _, spares) if self.below(2) == 0 => {
                // A unit that is not whole.
                let first = self.below(spares.len() as u32) as usize;
                spares[first..].fill(Spare::EMPTY);
            }
            Kept::Program(_, _, spares) if self.below(2) == 0 => {
                let at = self.below(spares.len() as u32) as usize;
                spares[at] = self.spare();
            }
            Kept::Program(_, unit, _) | Kept::Spoil(_, unit) | Kept::Erase(_, unit) => *unit = self.unit(),
            Kept::Buffer(_, spare) => *spare = self.spare(),
            Kept::Zone(_, _, _, bytes) => {
                let word = self.below(5) as usize;
                if let Some(place) = bytes.get_mut(word * 4..word * 4 + 4) {
                    place.copy_from_slice(&self.word_of_zone(word).to_le_bytes());
                }
            }
            Kept::Trim(_, first, ..) => *first = self.number(self.pages),
            other => *other = self.record(),
        }
    }

    /// Changes a journal in a few places.
    fn forge_journal(&mut self, journal: &mut Vec<Kept>) {
        for _ in 0..1 + self.below(6) {
            let end = journal.len() as u32;
            if end == 0 {
                journal.push(self.record());
                continue;
            }
            let at = self.below(end) as usize;
            match self.below(8) {
                0 => drop(journal.remove(at)),
                1 => journal.swap(at, self.below(end) as usize),
                2 => journal.insert(at, journal[self.below(end) as usize].clone()),
                3 => journal.insert(at, self.record()),
                4 => journal.push(self.record()),
                _ => self.change(&mut journal[at]),
            }
        }
    }

    /// Changes a few words of what was saved.
    fn forge_saved(&mut self, saved: &mut [u8]) {
        for _ in 0..1 + self.below(8) {
            let at = self.below(saved.len() as u32 - 4) as usize;
            let word = match self.below(4) {
                0 => saved[at] as u32 ^ 1 << self.below(8),
                1 => self.number(self.pages),
                _ => self.number(64),
            };
            match self.below(2) {
                0 => saved[at] = word as u8,
                _ => saved[at & !3..][..4].copy_from_slice(&word.to_le_bytes()),
            }
        }
    }
}

/// A drive of a stranger.
struct Forged {
    rng: Rng,
    config: Config,
    ftl: Ftl,
    store: AnyContents,
    now: Nanos,
    next: u32,
}

impl Forged {
    fn open(config: &Config, saved: &[u8], journal: &[Kept], rng: Rng, now: Nanos) -> Result<Forged, String> {
        let mut store = AnyContents::default();
        let mut restorer = Ftl::restore(config.clone(), saved).map_err(|error| error.to_string())?;
        for record in journal {
            restorer.apply(&record.borrowed()).map_err(|error| error.to_string())?;
        }
        let ftl = restorer.finish(now, &mut store).map_err(|error| error.to_string())?;
        Ok(Forged { rng, config: config.clone(), ftl, store, now, next: 1 })
    }

    fn io(&mut self) -> Io {
        self.next += 1;
        Io(self.next)
    }

    /// One of the volumes, and its bytes.
    fn volume(&mut self) -> Option<(VolumeId, u64)> {
        let all: Vec<_> = self.ftl.volumes().map(|(volume, _, bytes)| (volume, bytes)).collect();
        (!all.is_empty()).then(|| all[self.rng.below(all.len() as u64) as usize])
    }

    fn write(&mut self) {
        let Some((volume, bytes)) = self.volume() else { return };
        let mut at = self.rng.below((bytes / u64::from(PAGE)).max(1)) * u64::from(PAGE);
        let len = (1 + self.rng.below(16)) * u64::from(PAGE);
        if let Some(layout) = self.ftl.zone_layout(volume) {
            let zone = self.rng.below(layout.zones.into()) as u32;
            let Some(info) = self.ftl.zone(volume, zone) else { return };
            let ahead = if info.zrwa { self.rng.below(4) * u64::from(PAGE) } else { 0 };
            at = u64::from(zone) * layout.size + info.written + ahead;
        }
        let len = len.min(bytes.saturating_sub(at));
        if len == 0 {
            return;
        }
        let extent = Extent { start: at, bytes: len as u32 };
        let durable = self.rng.below(8) == 0;
        let write = Write { durable, ..Write::new(self.io(), volume, extent, Source::Host) };
        self.ftl.write(self.now, write, &mut self.store);
    }

    fn read(&mut self) {
        let Some((volume, bytes)) = self.volume() else { return };
        let start = self.rng.below((bytes / u64::from(PAGE)).max(1)) * u64::from(PAGE);
        let extent = Extent { start, bytes: (bytes - start).min(u64::from(64 * PAGE)) as u32 };
        let io = self.io();
        self.ftl.read(self.now, io, volume, extent, &mut self.store);
    }

    fn manage(&mut self) {
        let Some((volume, _)) = self.volume() else { return };
        let Some(layout) = self.ftl.zone_layout(volume) else { return };
        let zone = self.rng.below(layout.zones.into()) as u32;
        let target = if self.rng.below(8) == 0 { ZoneTarget::All } else { ZoneTarget::One(zone) };
        let written = self.ftl.zone(volume, zone).map_or(0, |info| info.written);
        let action = match self.rng.below(12) {
            0..2 => ZoneAction::OpenWithZrwa,
            2 => ZoneAction::Open,
            3 => ZoneAction::Close,
            4..6 => ZoneAction::Finish,
            6..10 => ZoneAction::Reset,
            10 => ZoneAction::Commit(written + (1 + self.rng.below(8)) * u64::from(PAGE)),
            _ => ZoneAction::Extend(&[7; 8]),
        };
        let io = self.io();
        self.ftl.manage_zones(self.now, io, volume, target, action, &mut self.store);
    }

    fn pass_time(&mut self, events: u32) {
        let mut done = Vec::new();
        for _ in 0..events {
            let Some(at) = self.ftl.next_event() else { return };
            self.now = self.now.max(at);
            self.ftl.poll(self.now, &mut self.store, &mut done);
        }
    }

    fn trim(&mut self) {
        let Some((volume, bytes)) = self.volume() else { return };
        let start = self.rng.below((bytes / u64::from(PAGE)).max(1)) * u64::from(PAGE);
        let bytes = (bytes - start).min(u64::from(32 * PAGE));
        let _ = self.ftl.trim(self.now, volume, start, bytes, &mut self.store);
    }

    /// Deletes a volume, and makes one of what is free.
    fn change_volumes(&mut self) {
        if let Some((volume, _)) = self.volume().filter(|_| self.rng.below(2) == 0) {
            self.ftl.delete(self.now, volume, &mut self.store);
        }
        let free = self.ftl.set_info(SET).map_or(0, |info| info.unallocated_bytes);
        let _ = self.ftl.create(SET, free, &mut self.store);
    }

    fn go(&mut self, steps: u32) {
        // While no command is under way, as a controller does it.
        if self.rng.below(4) == 0 {
            self.change_volumes();
        }
        for _ in 0..steps {
            match self.rng.below(100) {
                0..50 => self.write(),
                50..62 => self.read(),
                62..74 => self.manage(),
                74..77 => self.trim(),
                77..80 => {
                    let io = self.io();
                    self.ftl.flush(self.now, io, &mut self.store);
                }
                80..98 => self.pass_time(20),
                _ => {
                    let energy = self.rng.below(2) == 0;
                    self.ftl.power_cut(self.now, energy, &mut self.store);
                    self.ftl.recover(self.now, &mut self.store);
                }
            }
        }
        self.pass_time(500);
    }
}

/// What was saved of the volumes, behind 20 bytes and its length.
fn volumes_in(saved: &[u8]) -> &[u8] {
    let (len, rest) = saved[20..].split_first_chunk().expect("a length");
    &rest[..u64::from_le_bytes(*len) as usize]
}

/// Makes forged drives of one drive. Returns how many opened.
fn forge(seed: u64) -> u32 {
    let mut run = Run::new(seed);
    run.go(100);
    // What follows is in the journal.
    run.save();
    for _ in 0..run.rng.below(100) {
        match run.rng.below(10) {
            0..5 => run.write(),
            5 => run.write_mapped(),
            6 => run.manage(),
            7 => run.flush(),
            _ => run.pass_time(false),
        }
        run.check_ages();
        if run.worn_out {
            break;
        }
    }
    let SetConfig::Nand { nand, capacity_pages, .. } = &run.config.sets[0] else { unreachable!() };
    let (geo, pages) = (nand.geometry.clone(), *capacity_pages);
    let mut opened = 0;
    for number in 0..FORGERIES {
        let rng = Rng::new(seed << 8 | u64::from(number));
        let volumes = volumes_in(&run.saved).to_vec();
        let mut forger = Forger { rng, geo: geo.clone(), pages, zones: run.layout.zones, volumes };
        let (mut saved, mut journal) = (run.saved.clone(), run.store.journal.clone());
        if forger.below(3) == 0 {
            forger.forge_saved(&mut saved);
        } else {
            forger.forge_journal(&mut journal);
        }
        let Ok(mut drive) = Forged::open(&run.config, &saved, &journal, forger.rng, run.now) else {
            continue;
        };
        opened += 1;
        drive.go(150);
        let mut saved = Vec::new();
        drive.ftl.save(&mut saved);
        let again = Forged::open(&drive.config, &saved, &[], drive.rng, drive.now);
        again.map(|mut drive| drive.go(20)).unwrap_or_else(|error| panic!("it does not open again: {error}"));
    }
    opened
}

#[test]
fn a_forged_drive_opens_or_is_refused_and_never_panics() {
    let mut opened = 0;
    let rounds = for_seeds(30, |seed| opened += forge(seed));
    println!("{rounds} drives with {FORGERIES} forgeries each, of which {opened} opened");
    assert!(rounds < 30 || opened > rounds as u32 * FORGERIES / 4, "{opened} opened");
}
