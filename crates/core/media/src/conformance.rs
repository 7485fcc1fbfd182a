//! What every medium must do, as checks that any implementation can be put through.
//!
//! A history of random [`Step`]s runs against the medium and a simple model of it. The model knows for
//! each unit whether it is erased, under way, good or unreadable. After every power cut and at the end
//! the whole medium is compared with the model. Then the journal of the history is replayed on a new medium, which must
//! come out the same.

use crate::types::{BlockState, Geometry, LogicalPage, OpStatus, Page, Progress, Slot, Spare, Unit};
use crate::{Medium, Nanos};
use rng::Rng;

/// A step of a history. The numbers choose among what is possible at that point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Programs the next unit of a block that has one (NAND) or some pages (in place).
    Program(u32),
    /// Reads a page that was programmed, perhaps only just, and perhaps more of its sense.
    Read(u32),
    /// Erases a block.
    Erase(u32),
    /// Retires a block.
    Retire(u32),
    /// Lets time pass.
    Wait(u32),
    /// Waits until an operation under way has ended.
    Settle(u32),
    /// Cuts the power.
    PowerCut,
    /// Saves and restores.
    Reopen,
}

impl Step {
    /// A random step; programs and reads are frequent.
    pub fn random(rng: &mut Rng) -> Step {
        let choice = rng.next_u64() as u32;
        match rng.below(1000) {
            0..400 => Step::Program(choice),
            400..650 => Step::Read(choice),
            650..700 => Step::Erase(choice),
            700..701 => Step::Retire(choice),
            701..850 => Step::Wait(choice),
            850..980 => Step::Settle(choice),
            980..990 => Step::PowerCut,
            _ => Step::Reopen,
        }
    }
}

/// How the media to be checked are made.
pub struct Suite<New, Restore> {
    /// A new medium: durable, so that spare areas are complete.
    pub new: New,
    /// The same medium from saved state.
    pub restore: Restore,
    /// Whether it may fail at random (program, erase and read; but no write that is lost unnoticed).
    pub faults: bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum UnitState {
    Erased,
    UnderWay,
    Good,
    Unreadable,
}

/// A program or an erase under way.
#[derive(Clone, Copy, Debug)]
struct Op {
    unit: u32,
    /// Units; 0 for an erase.
    units: u32,
    end: Nanos,
}

/// What a translation layer would have journalled.
#[derive(Clone, Debug)]
enum Record {
    Program(u32, Vec<Spare>),
    Spoil(u32),
    Erase(u32),
    Bad(u32),
}

impl Record {
    fn replay(&self, medium: &mut impl Medium) {
        match self {
            Record::Program(unit, spares) => medium.apply_program(Unit(*unit), spares),
            Record::Spoil(unit) => medium.apply_spoil(Unit(*unit)),
            Record::Erase(unit) => medium.apply_erase(Unit(*unit)),
            Record::Bad(unit) => medium.apply_bad(Unit(*unit)),
        }
        .expect("the unit is on the medium");
    }
}

struct Model {
    g: Geometry,
    now: Nanos,
    version: u64,
    state: Vec<UnitState>,
    spares: Vec<Spare>,
    blocks: Vec<BlockState>,
    wear: Vec<u32>,
    ops: Vec<Op>,
    journal: Vec<Record>,
    faults: bool,
    steps: u64,
}

impl<M: Medium, New: Fn() -> M, Restore: Fn(&[u8]) -> M> Suite<New, Restore> {
    /// Runs a history on a new medium.
    ///
    /// # Panics
    /// If the medium does not conform.
    pub fn history(&self, steps: &[Step]) {
        let mut medium = (self.new)();
        let mut model = Model::new(&medium, self.faults);
        for &step in steps {
            model.steps += 1;
            match step {
                Step::Program(choice) => model.program(&mut medium, choice),
                Step::Read(choice) => model.read(&mut medium, choice),
                Step::Erase(choice) => model.erase(&mut medium, choice),
                Step::Retire(choice) => model.retire(&mut medium, choice),
                Step::Wait(choice) => model.now += Nanos(u64::from(choice) >> (choice % 24 + 8)),
                Step::Settle(choice) => model.settle(&mut medium, choice),
                Step::PowerCut => {
                    model.settle_ended(&mut medium);
                    medium.power_cut(model.now);
                    model.tear(&medium);
                    model.compare(&mut medium);
                }
                Step::Reopen => {
                    model.settle_ended(&mut medium);
                    let mut bytes = Vec::new();
                    medium.save(&mut bytes);
                    medium = (self.restore)(&bytes);
                    model.tear(&medium);
                    model.compare(&mut medium);
                    let mut again = Vec::new();
                    medium.save(&mut again);
                    let reopened = (self.restore)(&again);
                    model.compare_spares(&reopened);
                }
            }
        }
        while !model.ops.is_empty() {
            model.settle(&mut medium, 0);
        }
        model.compare(&mut medium);
        let mut twin = (self.new)();
        for record in &model.journal {
            record.replay(&mut twin);
        }
        // An erase that was cut short is not journalled: what matters is that the block is empty.
        for block in model.blocks.iter_mut().filter(|b| **b == BlockState::MustErase) {
            *block = BlockState::Writable { next: 0 };
        }
        if model.g.in_place && model.faults {
            // Failed writes in place are not counted a second time.
            model.g.rated_cycles = u32::MAX;
        }
        model.compare(&mut twin);
    }
}

impl Model {
    fn new(medium: &impl Medium, faults: bool) -> Model {
        let g = medium.geometry().clone();
        assert_eq!(u64::from(g.superblocks * g.units_per_superblock() * g.unit_pages), g.pages());
        let units = (g.superblocks * g.units_per_superblock()) as usize;
        let blocks = (g.superblocks * g.dies) as usize;
        let mut model = Model {
            now: Nanos(1_000),
            version: 0,
            state: vec![UnitState::Erased; units],
            spares: vec![Spare::EMPTY; g.pages() as usize],
            blocks: vec![BlockState::Writable { next: 0 }; blocks],
            wear: vec![0; blocks],
            ops: Vec::new(),
            journal: Vec::new(),
            faults,
            steps: 0,
            g,
        };
        for block in 0..blocks {
            // A new medium may have bad blocks, but nothing else.
            let first = Unit(model.unit(block, 0));
            assert_eq!(medium.wear(first), 0, "a new block is not worn");
            if medium.is_bad(first) {
                model.blocks[block] = BlockState::Bad;
            }
        }
        model.compare_spares(medium);
        model
    }

    fn unit(&self, block: usize, at: u32) -> u32 {
        let (superblock, die) = (block as u32 / self.g.dies, block as u32 % self.g.dies);
        (superblock * self.g.units_per_block + at) * self.g.dies + die
    }

    fn block_of(&self, unit: u32) -> usize {
        let superblock = unit / self.g.dies / self.g.units_per_block;
        (superblock * self.g.dies + unit % self.g.dies) as usize
    }

    fn pages(&self, unit: u32) -> std::ops::Range<usize> {
        let first = (unit * self.g.unit_pages) as usize;
        first..first + self.g.unit_pages as usize
    }

    fn is_erasing(&self, block: usize) -> bool {
        self.ops.iter().any(|op| op.units == 0 && self.block_of(op.unit) == block)
    }

    fn spares_for(&mut self, pages: u32) -> Vec<Spare> {
        (0..pages)
            .map(|i| {
                self.version += 1;
                // Now and then padding.
                if self.version.is_multiple_of(13) {
                    return Spare::EMPTY;
                }
                let page = LogicalPage((self.version as u32).wrapping_mul(2_654_435_761) >> 4);
                Spare { page, version: self.version << 8, slot: Slot(self.version as u32 * 3 + i) }
            })
            .collect()
    }

    fn program(&mut self, medium: &mut impl Medium, choice: u32) {
        let block = choice as usize % self.blocks.len();
        let BlockState::Writable { next } = self.blocks[block] else { return };
        if next == self.g.units_per_block || self.is_erasing(block) {
            return;
        }
        let unit = self.unit(block, next);
        let units = match self.g.in_place {
            true => {
                let most = (self.state.len() as u32 - unit).min(3);
                let units = 1 + choice / 7 % most;
                let overlaps = |op: &Op| op.unit < unit + units && unit < op.unit + op.units;
                if self.ops.iter().any(overlaps) || (unit..unit + units).any(|u| medium.is_bad(Unit(u))) {
                    return;
                }
                units
            }
            false => 1,
        };
        let spares = self.spares_for(self.g.unit_pages * units);
        let end = medium.program(self.now, Unit(unit), &spares);
        assert!(end >= self.now, "a program ended before it began");
        for (u, spares) in (unit..).zip(spares.chunks(self.g.unit_pages as usize)) {
            self.state[u as usize] = UnitState::UnderWay;
            let pages = self.pages(u);
            self.spares[pages].copy_from_slice(spares);
            let block = self.block_of(u);
            if self.g.in_place {
                self.wear[block] += 1;
            }
        }
        if !self.g.in_place {
            self.blocks[block] = BlockState::Writable { next: next + 1 };
            // Programs of a die end in the order in which they were asked for, unless a fault delays one.
            let before = self.ops.iter().filter(|op| op.unit % self.g.dies == unit % self.g.dies);
            assert!(
                self.faults || before.map(|op| op.end).all(|e| e <= end),
                "programs of a die out of order"
            );
        }
        self.ops.push(Op { unit, units, end });
    }

    fn read(&mut self, medium: &mut impl Medium, choice: u32) {
        let page = choice % self.spares.len() as u32;
        let unit = page / self.g.unit_pages;
        if self.state[unit as usize] == UnitState::Erased || self.is_erasing(self.block_of(unit)) {
            return;
        }
        let left = self.g.sense_pages - page % self.g.unit_pages % self.g.sense_pages;
        let count = 1 + choice / 3 % left;
        let read = medium.read(self.now, Page(page), count);
        assert!(read.done >= self.now, "a read ended before it began");
        match self.state[unit as usize] {
            UnitState::Unreadable => assert_eq!(read.status, OpStatus::Failed, "{unit} cannot be read"),
            _ if self.faults => {}
            _ => assert_eq!(read.status, OpStatus::Good, "unit {unit} can be read"),
        }
    }

    fn erase(&mut self, medium: &mut impl Medium, choice: u32) {
        let block = choice as usize % self.blocks.len();
        let busy =
            self.ops.iter().any(|op| (op.unit..op.unit + op.units.max(1)).any(|u| self.block_of(u) == block));
        if busy {
            return;
        }
        let unit = self.unit(block, choice / 7 % self.g.units_per_block);
        let end = medium.erase(self.now, Unit(unit));
        assert!(end >= self.now, "an erase ended before it began");
        if self.blocks[block] != BlockState::Bad {
            self.journal.push(Record::Erase(unit));
            if !self.g.in_place {
                self.wear[block] += 1;
            }
            self.blocks[block] = BlockState::Writable { next: 0 };
            self.forget(block);
        }
        self.ops.push(Op { unit, units: 0, end });
    }

    /// The block holds nothing.
    fn forget(&mut self, block: usize) {
        for at in 0..self.g.units_per_block {
            let unit = self.unit(block, at);
            self.state[unit as usize] = UnitState::Erased;
            let pages = self.pages(unit);
            self.spares[pages].fill(Spare::EMPTY);
        }
    }

    fn retire(&mut self, medium: &mut impl Medium, choice: u32) {
        let block = choice as usize % self.blocks.len();
        medium.apply_bad(Unit(self.unit(block, 0))).expect("the unit is on the medium");
        self.blocks[block] = BlockState::Bad;
        self.journal.push(Record::Bad(self.unit(block, 0)));
    }

    /// Lets an operation end: it must, after so many postponements as there may be reads.
    fn settle(&mut self, medium: &mut impl Medium, choice: u32) {
        if self.ops.is_empty() {
            return;
        }
        let op = self.ops[choice as usize % self.ops.len()];
        self.now = self.now.max(op.end);
        while let Some(until) = self.settle_op(medium, op) {
            assert!(until > self.now, "must be asked again at a time that has passed");
            self.now = until;
        }
    }

    /// Everything that has ended is seen to have.
    fn settle_ended(&mut self, medium: &mut impl Medium) {
        for op in self.ops.clone() {
            self.settle_op(medium, op);
        }
    }

    /// Asks once; when to ask again.
    fn settle_op(&mut self, medium: &mut impl Medium, op: Op) -> Option<Nanos> {
        let progress = match op.units {
            0 => medium.poll_erase(self.now, Unit(op.unit)),
            _ => medium.poll_program(self.now, Unit(op.unit)),
        };
        let status = match progress {
            Progress::Until(until) => return Some(until),
            Progress::Ended(status) => status,
        };
        self.ops.retain(|o| (o.unit, o.units) != (op.unit, op.units));
        let block = self.block_of(op.unit);
        match (op.units, status) {
            (0, OpStatus::Failed) => {
                let known = self.blocks[block] == BlockState::Bad;
                assert!(self.faults || known, "an erase failed");
                if !known {
                    self.journal.push(Record::Bad(op.unit));
                    self.blocks[block] = BlockState::Bad;
                }
            }
            (0, _) => assert_ne!(self.blocks[block], BlockState::Bad, "a bad block was erased"),
            (units, status) => {
                let failed = status == OpStatus::Failed;
                assert!(self.faults || !failed, "a program failed");
                for unit in op.unit..op.unit + units {
                    self.land(unit, !failed);
                }
            }
        }
        None
    }

    /// The program of a unit ended, well or not.
    fn land(&mut self, unit: u32, good: bool) {
        let pages = self.pages(unit);
        if good {
            self.journal.push(Record::Program(unit, self.spares[pages].to_vec()));
            self.state[unit as usize] = UnitState::Good;
        } else {
            self.journal.push(Record::Spoil(unit));
            self.spares[pages].fill(Spare::EMPTY);
            self.state[unit as usize] = UnitState::Unreadable;
        }
    }

    /// What the loss of power leaves of operations under way.
    fn tear(&mut self, medium: &impl Medium) {
        for op in std::mem::take(&mut self.ops) {
            let block = self.block_of(op.unit);
            if op.units == 0 {
                // A failing erase may have left a bad block.
                let bad = self.faults && medium.is_bad(Unit(op.unit));
                if self.blocks[block] != BlockState::Bad {
                    self.blocks[block] = if bad { BlockState::Bad } else { BlockState::MustErase };
                    if bad {
                        self.journal.push(Record::Bad(op.unit));
                    }
                }
                continue;
            }
            for unit in op.unit..op.unit + op.units {
                // What is written in place was accepted, and survives unless it failed.
                let expected = self.spares[self.pages(unit).start];
                let failed = self.faults && medium.spare(Page(unit)) != expected;
                let lost = !self.g.in_place || failed;
                self.land(unit, !lost);
            }
        }
    }

    fn compare_spares(&self, medium: &impl Medium) {
        for (page, &spare) in (0..).zip(&self.spares) {
            let unit = page / self.g.unit_pages;
            let is = medium.spare(Page(page));
            assert_eq!(is, spare, "spare area of page {page} of unit {unit} after step {}", self.steps);
        }
    }

    fn compare(&mut self, medium: &mut impl Medium) {
        self.compare_spares(medium);
        for block in 0..self.blocks.len() {
            let unit = Unit(self.unit(block, self.g.units_per_block - 1));
            let step = self.steps;
            assert_eq!(medium.block(unit), self.blocks[block], "block of {unit:?} after step {step}");
            assert_eq!(medium.is_bad(unit), self.blocks[block] == BlockState::Bad);
            if self.g.rated_cycles != u32::MAX {
                assert_eq!(medium.wear(unit), self.wear[block], "cycles of {unit:?} after step {step}");
            }
        }
        for unit in 0..self.state.len() as u32 {
            let state = self.state[unit as usize];
            if state == UnitState::Erased || self.is_erasing(self.block_of(unit)) {
                continue;
            }
            let status = medium.read(self.now, Page(unit * self.g.unit_pages), 1).status;
            match state {
                UnitState::Unreadable => assert_eq!(status, OpStatus::Failed, "unit {unit}"),
                _ => assert!(self.faults || status == OpStatus::Good, "unit {unit}: {status:?}"),
            }
        }
    }
}
