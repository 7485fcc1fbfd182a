//! Contents for tests: a sector is the number of the write that made it. Slots are counted strictly.

pub mod load;

use ftl::{Io, PAGE, Piece, Record, Section, SectorState, Storage, StorageError};
use media::{Page, Rng, Slot, Spare, Unit};
use std::collections::BTreeMap;
use std::ops::Range;

pub const SECTOR: u32 = 512;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Names the seed of a run that fails.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("TRANCHE_MODEL_SEED={} repeats this run", self.0);
        }
    }
}

/// Runs a model once for each seed. Returns how many.
///
/// `TRANCHE_MODEL_SEED` is the only seed. Otherwise there are `TRANCHE_MODEL_ROUNDS` of them, or `usual`, from `TRANCHE_MODEL_FIRST` on, or
/// from 0.
pub fn for_seeds(usual: u64, mut run: impl FnMut(u64)) -> u64 {
    let first = number("TRANCHE_MODEL_FIRST").unwrap_or(0);
    let rounds = number("TRANCHE_MODEL_ROUNDS").unwrap_or(usual);
    let seeds = number("TRANCHE_MODEL_SEED").map_or(first..first + rounds, |seed| seed..seed + 1);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let _named = Named(seed);
        run(seed);
    }
    count
}

/// One of these.
#[allow(dead_code, reason = "each test uses its part")]
pub fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

const PER_PAGE: usize = (PAGE / SECTOR) as usize;
/// What is nobody's.
const FREE: [u32; PER_PAGE] = [u32::MAX - 1; PER_PAGE];

/// A record that was kept.
#[derive(Clone, Debug)]
pub enum Kept {
    Program(u8, Unit, Vec<Spare>),
    Spoil(u8, Unit),
    Erase(u8, Unit),
    Retire(u8, Unit),
    Open(u8, u32, u8),
    Buffer(u8, Spare),
    Lose(u8),
    Clear(u8, u32, u32),
    Place(u8, Page, Spare),
    Trim(u8, u32, u32, u64, bool),
    Zone(u8, u16, u32, Vec<u8>),
    Section(Section, Vec<u8>),
    Sectors(u8, u64, u32, SectorState),
}

impl Kept {
    pub fn of(record: Record<'_>) -> Kept {
        match record {
            Record::Program { set, unit, spares } => Kept::Program(set, unit, spares.to_vec()),
            Record::Spoil { set, unit } => Kept::Spoil(set, unit),
            Record::Erase { set, unit } => Kept::Erase(set, unit),
            Record::Retire { set, unit } => Kept::Retire(set, unit),
            Record::Open { set, superblock, writer } => Kept::Open(set, superblock, writer),
            Record::Buffer { set, spare } => Kept::Buffer(set, spare),
            Record::Lose { set } => Kept::Lose(set),
            Record::Clear { set, first, count } => Kept::Clear(set, first, count),
            Record::Place { set, page, spare } => Kept::Place(set, page, spare),
            Record::Trim { set, first, count, version, gone } => Kept::Trim(set, first, count, version, gone),
            Record::Zone { set, volume, zone, bytes } => Kept::Zone(set, volume, zone, bytes.to_vec()),
            Record::Section { kind, bytes } => Kept::Section(kind, bytes.to_vec()),
            Record::Sectors { set, first, count, state } => Kept::Sectors(set, first, count, state),
        }
    }

    pub fn borrowed(&self) -> Record<'_> {
        match *self {
            Kept::Program(set, unit, ref spares) => Record::Program { set, unit, spares },
            Kept::Spoil(set, unit) => Record::Spoil { set, unit },
            Kept::Erase(set, unit) => Record::Erase { set, unit },
            Kept::Retire(set, unit) => Record::Retire { set, unit },
            Kept::Open(set, superblock, writer) => Record::Open { set, superblock, writer },
            Kept::Buffer(set, spare) => Record::Buffer { set, spare },
            Kept::Lose(set) => Record::Lose { set },
            Kept::Clear(set, first, count) => Record::Clear { set, first, count },
            Kept::Place(set, page, spare) => Record::Place { set, page, spare },
            Kept::Trim(set, first, count, version, gone) => Record::Trim { set, first, count, version, gone },
            Kept::Zone(set, volume, zone, ref bytes) => Record::Zone { set, volume, zone, bytes },
            Kept::Section(kind, ref bytes) => Record::Section { kind, bytes },
            Kept::Sectors(set, first, count, state) => Record::Sectors { set, first, count, state },
        }
    }
}

pub struct Store {
    slots: Vec<[u32; PER_PAGE]>,
    references: Vec<u32>,
    free: Vec<u32>,
    /// Recovery counts references.
    counting: bool,
    /// There is no room for contents: the host's disk is full.
    pub full: bool,
    writes: BTreeMap<u32, u32>,
    /// What the last read returned, a number per sector.
    pub host: Vec<u32>,
    pub journal: Vec<Kept>,
}

impl Store {
    pub fn new(slots: u32) -> Store {
        Store {
            slots: vec![[0; PER_PAGE]; slots as usize],
            references: vec![0; slots as usize],
            free: (0..slots).rev().collect(),
            counting: false,
            full: false,
            writes: BTreeMap::new(),
            host: Vec::new(),
            journal: Vec::new(),
        }
    }

    pub fn host_writes(&mut self, io: Io, value: u32) {
        self.writes.insert(io.0, value);
    }

    /// Slots that nobody refers to.
    #[allow(dead_code, reason = "one test asks")]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    pub fn host_reads(&mut self, sectors: usize) {
        self.host = vec![u32::MAX; sectors];
    }

    /// Whether the references are those that the drive finds when it looks: each slot as often as it is in `found`.
    #[allow(dead_code, reason = "some tests ask")]
    pub fn audit(&self, found: Vec<Slot>) -> Result<(), String> {
        let mut references = vec![0; self.slots.len()];
        found
            .into_iter()
            .filter(|&slot| slot != Slot::NONE)
            .for_each(|slot| references[slot.0 as usize] += 1);
        match (0..self.slots.len()).find(|&slot| references[slot] != self.references[slot]) {
            Some(slot) => Err(format!(
                "slot {slot} has {} references, and {} are there",
                self.references[slot], references[slot]
            )),
            None => Ok(()),
        }
    }

    fn fill(&mut self, value: u32, piece: Piece, slot: Slot, base: Option<Slot>) {
        assert_eq!(self.references[slot.0 as usize], 1, "store to slot {}, which is not new", slot.0);
        let of_base = |b: Slot| {
            assert!(self.references[b.0 as usize] > 0, "load from slot {} that is free", b.0);
            self.slots[b.0 as usize]
        };
        let mut page = base.map_or([0; PER_PAGE], of_base);
        let first = (piece.page / SECTOR) as usize;
        page[first..first + (piece.len / SECTOR) as usize].fill(value);
        self.slots[slot.0 as usize] = page;
    }
}

impl Storage for Store {
    fn allocate(&mut self) -> Option<Slot> {
        if self.full {
            return None;
        }
        let slot = self.free.pop().expect("the slots suffice for all pages and the buffer");
        self.references[slot as usize] = 1;
        Some(Slot(slot))
    }
    fn retain(&mut self, slot: Slot) {
        if slot == Slot::NONE {
            return;
        }
        let count = &mut self.references[slot.0 as usize];
        assert!(*count > 0 || self.counting, "slot {} is retained, which is free", slot.0);
        *count += 1;
    }
    fn release(&mut self, slot: Slot) {
        if slot == Slot::NONE {
            return;
        }
        let count = &mut self.references[slot.0 as usize];
        *count = count.checked_sub(1).unwrap_or_else(|| panic!("slot {} released too often", slot.0));
        if *count == 0 {
            // Poison: whoever reads it now reads what is nobody's.
            self.slots[slot.0 as usize] = FREE;
            self.free.push(slot.0);
        }
    }
    fn forget_slots(&mut self) {
        self.references.fill(0);
        self.free.clear();
        self.counting = true;
    }
    fn slots_are_counted(&mut self) {
        self.counting = false;
        for slot in (0..self.slots.len()).rev().filter(|&slot| self.references[slot] == 0) {
            self.slots[slot] = FREE;
            self.free.push(slot as u32);
        }
    }
    fn store(&mut self, io: Io, piece: Piece, slot: Slot, base: Option<Slot>) -> Result<(), StorageError> {
        let value = self.writes[&io.0];
        self.fill(value, piece, slot, base);
        Ok(())
    }
    fn store_zeros(
        &mut self,
        _: Io,
        piece: Piece,
        slot: Slot,
        base: Option<Slot>,
    ) -> Result<(), StorageError> {
        self.fill(0, piece, slot, base);
        Ok(())
    }
    fn splice(
        &mut self,
        slot: Slot,
        from: Slot,
        bytes: Range<u32>,
        base: Option<Slot>,
    ) -> Result<(), StorageError> {
        assert_eq!(self.references[slot.0 as usize], 1, "splice to slot {}, which is not new", slot.0);
        let of = |slot: Slot| {
            assert!(self.references[slot.0 as usize] > 0, "splice of slot {} that is free", slot.0);
            self.slots[slot.0 as usize]
        };
        let (mut page, from) = (base.map_or([0; PER_PAGE], of), of(from));
        let sectors = (bytes.start / SECTOR) as usize..(bytes.end / SECTOR) as usize;
        page[sectors.clone()].copy_from_slice(&from[sectors]);
        self.slots[slot.0 as usize] = page;
        Ok(())
    }
    fn load(&mut self, _: Io, piece: Piece, slot: Option<Slot>) -> Result<(), StorageError> {
        let page = match slot {
            None => [0; PER_PAGE],
            Some(slot) => {
                assert!(self.references[slot.0 as usize] > 0, "load from slot {} that is free", slot.0);
                self.slots[slot.0 as usize]
            }
        };
        let (to, from, n) = (piece.host / SECTOR, piece.page / SECTOR, (piece.len / SECTOR) as usize);
        self.host[to as usize..to as usize + n].copy_from_slice(&page[from as usize..from as usize + n]);
        Ok(())
    }
    fn compare(&mut self, _: Io, _: Piece, _: Option<Slot>) -> Result<bool, StorageError> {
        Ok(true)
    }
    fn record(&mut self, record: Record<'_>) {
        self.journal.push(Kept::of(record));
    }
}
