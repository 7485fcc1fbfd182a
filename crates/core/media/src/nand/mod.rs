//! NAND: what may be done when, how long it takes, how it wears.
//!
//! The array of logical pages is always kept: it *is* the reverse map of the translation layer. Versions
//! and slots are kept only if the medium is durable. Erasing a block costs nothing per page: how far a
//! block is programmed says which entries count.

mod config;
mod dies;
mod ops;
#[cfg(test)]
mod tests;

pub use config::{Cell, NandConfig, NandTiming, Sense};
pub use dies::DieTimes;

use crate::Medium;
use crate::config::ConfigError;
use crate::divide::Divisor;
use crate::state::{self, Reader, StateError};
use crate::tables::{Table, prefetch};
use crate::time::Nanos;
use crate::types::{BlockState, Geometry, LogicalPage, OpStatus, Page, Progress, Read, Slot, Spare, Unit};
use dies::{Dies, Within};
use ops::OpKind;

/// "TNND", the first word of saved state.
const MAGIC: u32 = u32::from_le_bytes(*b"TNND");
/// Complement of [`LogicalPage::NONE`].
const NO_PAGE: u32 = !LogicalPage::NONE.0;
/// Entries of a table that are converted at once when state is saved.
const CHUNK: usize = 1 << 16;
/// [`Block::next`] after an erase that was cut short.
const MUST_ERASE: u32 = u32::MAX;
/// Bit of [`Block::marks`]: some units cannot be read.
const SPOILED_BIT: u32 = 1 << 31;
/// Bit of [`Block::marks`]: must no longer be used.
const BAD_BIT: u32 = 1 << 30;
/// The other bits of [`Block::marks`]: erase cycles.
const CYCLES: u32 = BAD_BIT - 1;

/// A block of all planes of a die.
#[derive(Clone, Copy, Default, Debug)]
struct Block {
    /// The unit to program next, as counted in the block, or [`MUST_ERASE`].
    next: u32,
    /// Cycles and two flags, so that one comparison checks a program.
    marks: u32,
}

/// Where a unit is.
#[derive(Clone, Copy)]
struct UnitAddress {
    die: u32,
    /// Index into the blocks: superblock * dies + die.
    block: usize,
    /// Unit as counted in its block.
    at: u32,
}

/// A set of NAND chips; see [`NandConfig`].
#[derive(Clone, Debug)]
pub struct Nand {
    geometry: Geometry,
    unit_pages: Divisor,
    dies_count: Divisor,
    units_per_block: Divisor,
    pages: u32,
    units: u32,
    timed: bool,
    durable: bool,
    /// Complements of the logical pages: [`LogicalPage::NONE`] is zero, so that what was never programmed takes no memory.
    complements: Table<u32>,
    versions: Table<u64>,
    slots: Table<Slot>,
    blocks: Vec<Block>,
    /// A bit per unit that cannot be read; looked at only in blocks with [`SPOILED_BIT`].
    spoiled: Vec<u64>,
    /// Of the pages of a unit; one after another for each page type if `page_types` is set.
    within: Vec<Within>,
    /// Page types, if units differ by them.
    page_types: Option<Divisor>,
    dies: Dies,
}

impl Nand {
    /// New chips, erased, without wear.
    ///
    /// # Errors
    /// If `config` cannot be.
    pub fn new(config: NandConfig) -> Result<Self, ConfigError> {
        let pages = config.check()?;
        let g = &config.geometry;
        let units = pages / g.unit_pages;
        let bits = config.cell.bits();
        let one_shot = g.unit_pages == g.planes * g.sense_pages * bits;
        let by_type = !one_shot && matches!(config.timing.sense, Sense::ByPageType(_));
        let kinds = if by_type { bits } else { 1 };
        let spare_pages = if config.durable { pages as usize } else { 0 };
        Ok(Nand {
            unit_pages: Divisor::new(g.unit_pages),
            dies_count: Divisor::new(g.dies),
            units_per_block: Divisor::new(g.units_per_block),
            pages,
            units,
            timed: !config.timing.is_off(),
            durable: config.durable,
            complements: Table::zeros(pages as usize),
            versions: Table::zeros(spare_pages),
            slots: Table::new(Slot::NONE, spare_pages),
            blocks: vec![Block::default(); (g.superblocks * g.dies) as usize],
            spoiled: vec![0; units.div_ceil(64) as usize],
            within: (0..kinds).flat_map(|kind| dies::within(&config, kind, one_shot)).collect(),
            page_types: by_type.then(|| Divisor::new(bits)),
            dies: Dies::new(&config),
            geometry: config.geometry,
        })
    }

    /// The logical page of a *programmed* page (the reverse map). Of pages that were not programmed since
    /// their erase it may say what they held before; [`Medium::spare`] checks that.
    #[inline]
    pub fn logical(&self, page: Page) -> LogicalPage {
        LogicalPage(!self.complements[page.0 as usize])
    }

    /// Begins to bring what [`Medium::read`] and [`Medium::slot`] look at into the host's cache.
    #[inline]
    pub fn prefetch(&self, page: Page) {
        let address = self.address(self.unit_pages.quotient(page.0));
        prefetch(&self.blocks, address.block as u32);
        prefetch(&self.slots, page.0);
    }

    /// Changes the contents that a page's spare area names: the owner of contents gave them up. Returns those before. Chips
    /// that are not durable name none.
    #[inline]
    pub fn replace_slot(&mut self, page: Page, slot: Slot) -> Slot {
        self.slots.get_mut(page.0 as usize).map_or(Slot::NONE, |at| std::mem::replace(at, slot))
    }

    /// Begins to bring what [`replace_slot`](Nand::replace_slot) changes into the host's cache.
    #[inline]
    pub fn prefetch_slot(&self, page: Page) {
        prefetch(&self.slots, page.0);
    }

    /// Makes padding of all pages except those whose bit is set in `valid`. Without versions, copies of a logical page could not be told
    /// from each other later.
    pub fn forget_stale(&mut self, valid: &[u64]) {
        for (pages, &valid) in self.complements.chunks_mut(64).zip(valid) {
            for (i, complement) in pages.iter_mut().enumerate() {
                // What is none already is not touched.
                if valid >> i & 1 == 0 && *complement != NO_PAGE {
                    *complement = NO_PAGE;
                }
            }
        }
    }

    /// How many pages of a unit were programmed since its erase: all or none.
    #[inline]
    pub fn programmed(&self, unit: Unit) -> u32 {
        let address = self.address(unit.0);
        let next = self.blocks[address.block].next;
        if address.at >= next || next == MUST_ERASE { 0 } else { self.geometry.unit_pages }
    }

    #[inline]
    fn address(&self, unit: u32) -> UnitAddress {
        let (row, die) = self.dies_count.div_rem(unit);
        let (superblock, at) = self.units_per_block.div_rem(row);
        UnitAddress { die, block: (superblock * self.geometry.dies + die) as usize, at }
    }

    /// Index of the first page of a unit.
    #[inline]
    fn first_page(&self, unit: u32) -> usize {
        unit as usize * self.geometry.unit_pages as usize
    }

    /// How many dies sense, program or erase at `now`, as far as that was asked for before.
    pub fn busy_dies(&self, now: Nanos) -> u32 {
        self.dies.busy(now)
    }

    /// What each die was asked for since the power came, in order.
    pub fn die_times(&self) -> impl Iterator<Item = DieTimes> {
        self.dies.times()
    }

    /// First unit of a block; the others follow at a distance of the number of dies.
    fn units_of(&self, block: usize) -> impl Iterator<Item = u32> + use<> {
        let (superblock, die) = self.dies_count.div_rem(block as u32);
        let g = &self.geometry;
        let first = superblock * g.units_per_block * g.dies + die;
        (first..).step_by(g.dies as usize).take(g.units_per_block as usize)
    }

    fn is_spoiled(&self, unit: u32) -> bool {
        self.spoiled[(unit / 64) as usize] >> (unit % 64) & 1 == 1
    }

    fn store(&mut self, unit: u32, spares: &[Spare]) {
        let first = self.first_page(unit);
        let complements = &mut self.complements[first..first + spares.len()];
        for (to, from) in complements.iter_mut().zip(spares) {
            *to = !from.page.0;
        }
        if self.durable {
            let versions = &mut self.versions[first..first + spares.len()];
            let slots = &mut self.slots[first..first + spares.len()];
            for ((version, slot), from) in versions.iter_mut().zip(slots).zip(spares) {
                *version = from.version;
                *slot = from.slot;
            }
        }
    }

    fn spoil(&mut self, unit: u32) {
        let address = self.address(unit);
        let block = &mut self.blocks[address.block];
        block.marks |= SPOILED_BIT;
        block.next = block.next.max(address.at + 1);
        self.spoiled[(unit / 64) as usize] |= 1 << (unit % 64);
        let first = self.first_page(unit);
        let pages = first..first + self.geometry.unit_pages as usize;
        self.complements[pages.clone()].fill(NO_PAGE);
        if self.durable {
            self.versions[pages.clone()].fill(0);
            self.slots[pages].fill(Slot::NONE);
        }
    }

    /// The block is empty and has one more cycle.
    fn wipe(&mut self, block: usize) {
        if self.blocks[block].marks & SPOILED_BIT != 0 {
            for unit in self.units_of(block) {
                self.spoiled[(unit / 64) as usize] &= !(1 << (unit % 64));
            }
        }
        let block = &mut self.blocks[block];
        block.next = 0;
        let cycles = (block.marks & CYCLES) + 1;
        block.marks = (block.marks & BAD_BIT) | cycles.min(CYCLES);
    }

    /// An erase of a bad block does nothing, cut short or not.
    fn cut_erase(&mut self, block: usize) {
        let block = &mut self.blocks[block];
        if block.marks & BAD_BIT == 0 {
            block.next = MUST_ERASE;
            block.marks |= SPOILED_BIT;
        }
    }

    /// What an operation that has not ended leaves behind when it is cut short.
    fn tear(&mut self, kind: OpKind) {
        match kind {
            OpKind::Program(unit) if self.blocks[self.address(unit).block].next != MUST_ERASE => {
                self.spoil(unit)
            }
            OpKind::Program(_) => {}
            OpKind::Erase(block) => self.cut_erase(block as usize),
        }
    }

    /// A unit that replayed state names.
    fn known(&self, unit: Unit) -> Result<u32, StateError> {
        if unit.0 < self.units {
            return Ok(unit.0);
        }
        Err(StateError::Range { what: "unit", value: unit.0.into(), limit: self.units.into() })
    }

    fn shape(&self) -> [(&'static str, u64); 6] {
        let g = &self.geometry;
        [
            ("geometry.dies", g.dies.into()),
            ("geometry.superblocks", g.superblocks.into()),
            ("geometry.units_per_block", g.units_per_block.into()),
            ("geometry.unit_pages", g.unit_pages.into()),
            ("durable", self.durable.into()),
            ("pages", self.pages.into()),
        ]
    }

    /// Chips with the state that [`Medium::save`] wrote.
    ///
    /// # Errors
    /// If `config` cannot be, or `bytes` are not the state of such chips.
    pub fn restore(config: NandConfig, bytes: &[u8]) -> Result<Self, StateError> {
        let mut nand = Nand::new(config)?;
        let mut from = Reader::new(bytes, MAGIC, "NAND", &nand.shape())?;
        let mut words = vec![0u32; nand.blocks.len()];
        from.fill(&mut words)?;
        for (block, &next) in nand.blocks.iter_mut().zip(&words) {
            if next != MUST_ERASE && next > nand.geometry.units_per_block {
                let limit = nand.geometry.units_per_block.into();
                return Err(StateError::Range { what: "next unit of a block", value: next.into(), limit });
            }
            block.next = next;
        }
        from.fill(&mut words)?;
        for (block, &marks) in nand.blocks.iter_mut().zip(&words) {
            block.marks = marks;
        }
        from.fill(&mut nand.spoiled)?;
        from.fill(&mut nand.complements)?;
        nand.complements.iter_mut().for_each(|entry| *entry = !*entry);
        from.fill(&mut nand.versions)?;
        from.fill(&mut nand.slots)?;
        let torn: u32 = from.one()?;
        for _ in 0..torn {
            let (erase, number): (u32, u32) = (from.one()?, from.one()?);
            let limit = if erase == 1 { nand.blocks.len() as u64 } else { nand.units.into() };
            if u64::from(number) >= limit {
                return Err(StateError::Range { what: "torn unit or block", value: number.into(), limit });
            }
            nand.tear(if erase == 1 { OpKind::Erase(number) } else { OpKind::Program(number) });
        }
        from.end()?;
        Ok(nand)
    }

    #[cold]
    #[inline(never)]
    fn broken(&self, unit: u32, what: &str) -> ! {
        let address = self.address(unit.min(self.units - 1));
        let block = self.blocks[address.block];
        let superblock = address.block as u32 / self.geometry.dies;
        panic!(
            "NAND rule broken: {what} unit {unit} (die {}, superblock {superblock}, unit {} of its block), \
             where {:?}",
            address.die,
            address.at,
            BlockState::from(block)
        );
    }
}

impl From<Block> for BlockState {
    fn from(block: Block) -> Self {
        match block {
            Block { marks, .. } if marks & BAD_BIT != 0 => BlockState::Bad,
            Block { next: MUST_ERASE, .. } => BlockState::MustErase,
            Block { next, .. } => BlockState::Writable { next },
        }
    }
}

impl Medium for Nand {
    #[inline]
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Blocks that went bad can still be read, units that were spoiled give [`OpStatus::Failed`].
    ///
    /// # Panics
    /// If a page was not programmed since its erase, or the pages do not lie in one sense.
    #[inline]
    fn read(&mut self, now: Nanos, first: Page, count: u32) -> Read {
        let (unit, i) = self.unit_pages.div_rem(first.0);
        let address = self.address(unit);
        let block = self.blocks[address.block];
        if address.at >= block.next {
            self.broken(unit, "read of a page that was not programmed:");
        }
        let mut status = OpStatus::Good;
        if block.marks & SPOILED_BIT != 0 && (block.next == MUST_ERASE || self.is_spoiled(unit)) {
            status = OpStatus::Failed;
        }
        let index = match self.page_types {
            None => i,
            Some(types) => types.remainder(address.at) * self.geometry.unit_pages + i,
        };
        let within = self.within[index as usize];
        if count.wrapping_sub(1) >= within.left {
            self.broken(unit, "read across the end of a sense, or of nothing, in");
        }
        if !self.timed {
            return Read { done: now, status };
        }
        Read { done: self.dies.read(now, address.die, within.plane, within.span, count), status }
    }

    #[inline]
    fn program(&mut self, now: Nanos, unit: Unit, spares: &[Spare]) -> Nanos {
        let address = self.address(unit.0);
        let block = &mut self.blocks[address.block];
        if block.next != address.at || block.marks & BAD_BIT != 0 {
            self.broken(unit.0, "program of");
        }
        block.next += 1;
        if spares.len() != self.geometry.unit_pages as usize {
            self.broken(unit.0, "program of too many or too few pages:");
        }
        self.store(unit.0, spares);
        if !self.timed {
            return now;
        }
        self.dies.program(now, address.die, unit.0)
    }

    #[inline]
    fn poll_program(&mut self, now: Nanos, unit: Unit) -> Progress {
        if !self.timed {
            return Progress::Ended(OpStatus::Good);
        }
        match self.dies.unended(now, self.dies_count.remainder(unit.0), OpKind::Program(unit.0)) {
            Some(end) => Progress::Until(end),
            None => Progress::Ended(OpStatus::Good),
        }
    }

    fn erase(&mut self, now: Nanos, unit: Unit) -> Nanos {
        let address = self.address(unit.0);
        if self.blocks[address.block].marks & BAD_BIT == 0 {
            self.wipe(address.block);
        }
        if !self.timed {
            return now;
        }
        self.dies.erase(now, address.die, address.block as u32)
    }

    fn poll_erase(&mut self, now: Nanos, unit: Unit) -> Progress {
        let address = self.address(unit.0);
        match self.dies.unended(now, address.die, OpKind::Erase(address.block as u32)) {
            Some(end) => Progress::Until(end),
            None if self.blocks[address.block].marks & BAD_BIT != 0 => Progress::Ended(OpStatus::Failed),
            None => Progress::Ended(OpStatus::Good),
        }
    }

    #[inline]
    fn spare(&self, page: Page) -> Spare {
        let i = page.0 as usize;
        let address = self.address(self.unit_pages.quotient(page.0));
        let block = self.blocks[address.block];
        if address.at >= block.next || block.next == MUST_ERASE {
            return Spare::EMPTY;
        }
        match self.durable {
            false => Spare { page: self.logical(page), ..Spare::EMPTY },
            true => Spare { page: self.logical(page), version: self.versions[i], slot: self.slots[i] },
        }
    }

    #[inline]
    fn slot(&self, page: Page) -> Slot {
        let address = self.address(self.unit_pages.quotient(page.0));
        let block = self.blocks[address.block];
        if address.at >= block.next || block.next == MUST_ERASE || !self.durable {
            return Spare::EMPTY.slot;
        }
        self.slots[page.0 as usize]
    }

    #[inline]
    fn wear(&self, unit: Unit) -> u32 {
        self.blocks[self.address(unit.0).block].marks & CYCLES
    }

    #[inline]
    fn is_bad(&self, unit: Unit) -> bool {
        self.blocks[self.address(unit.0).block].marks & BAD_BIT != 0
    }

    #[inline]
    fn block(&self, unit: Unit) -> BlockState {
        self.blocks[self.address(unit.0).block].into()
    }

    fn power_cut(&mut self, now: Nanos) {
        let torn: Vec<OpKind> = self.dies.in_flight(now).collect();
        for kind in torn {
            self.tear(kind);
        }
        self.dies.clear();
    }

    fn apply_program(&mut self, unit: Unit, spares: &[Spare]) -> Result<(), StateError> {
        let unit = self.known(unit)?;
        if spares.len() != self.geometry.unit_pages as usize {
            let limit = self.geometry.unit_pages.into();
            return Err(StateError::Range { what: "pages of a program", value: spares.len() as u64, limit });
        }
        self.store(unit, spares);
        self.spoiled[(unit / 64) as usize] &= !(1 << (unit % 64));
        let address = self.address(unit);
        let block = &mut self.blocks[address.block];
        // A snapshot taken while this block was being erased says so; the journal knows how it went on.
        block.next = if block.next == MUST_ERASE { address.at + 1 } else { block.next.max(address.at + 1) };
        Ok(())
    }

    fn apply_spoil(&mut self, unit: Unit) -> Result<(), StateError> {
        let unit = self.known(unit)?;
        self.spoil(unit);
        Ok(())
    }

    fn apply_erase(&mut self, unit: Unit) -> Result<(), StateError> {
        let unit = self.known(unit)?;
        self.wipe(self.address(unit).block);
        Ok(())
    }

    fn apply_bad(&mut self, unit: Unit) -> Result<(), StateError> {
        let unit = self.known(unit)?;
        let block = self.address(unit).block;
        self.blocks[block].marks |= BAD_BIT;
        Ok(())
    }

    fn save(&self, out: &mut Vec<u8>) {
        let words: usize = self.blocks.len() * 2 + self.pages as usize * if self.durable { 4 } else { 1 };
        out.reserve(words * 4 + self.spoiled.len() * 8 + 1024);
        state::header(out, MAGIC, &self.shape());
        let next: Vec<u32> = self.blocks.iter().map(|b| b.next).collect();
        state::put(out, &next);
        let marks: Vec<u32> = self.blocks.iter().map(|b| b.marks).collect();
        state::put(out, &marks);
        state::put(out, &self.spoiled);
        for complements in self.complements.chunks(CHUNK) {
            let logical: Vec<u32> = complements.iter().map(|complement| !complement).collect();
            state::put(out, &logical);
        }
        state::put(out, &self.versions);
        state::put(out, &self.slots);
        // What has not been seen to end counts as cut short.
        let torn: Vec<u32> = self
            .dies
            .in_flight(self.dies.latest())
            .flat_map(|kind| match kind {
                OpKind::Program(unit) => [0, unit],
                OpKind::Erase(block) => [1, block],
            })
            .collect();
        state::put(out, &[torn.len() as u32 / 2]);
        state::put(out, &torn);
    }
}
