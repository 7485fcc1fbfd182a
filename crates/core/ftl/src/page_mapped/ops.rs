//! Programs of the set: the pages of each, from when they are gathered until they have landed.

use super::buffer::NONE;
use media::Slot;

/// End of a chain of programs.
pub(super) const NO_OP: u32 = u32::MAX;

/// A page of a program unit on its way, and where it comes from: a buffer entry or a flash page.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageMove {
    /// The logical page.
    pub page: u32,
    /// With [`UNREADABLE`], the flash page could not be read.
    pub source: u32,
}

/// See [`PageMove::source`].
pub(super) const UNREADABLE: u32 = 1 << 31;

impl PageMove {
    /// The flash page that it comes from.
    #[inline]
    pub fn flash(self) -> u32 {
        self.source & !UNREADABLE
    }

    /// Whether that flash page could be read.
    #[inline]
    pub fn is_readable(self) -> bool {
        self.source & UNREADABLE == 0
    }
}

/// A program unit on its way to flash.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramOp {
    /// Pages in use.
    pub moves: u32,
    /// Whether garbage collection sent it.
    pub relocated: bool,
    /// Whether its programming is on somebody's account already.
    pub paid: bool,
    /// Whether it has left for the medium (and was not only gathered).
    pub programming: bool,
    /// The program gathered before it, in a chain that is ready at the same time.
    pub next: u32,
}

/// All programs that can be on their way at a time.
#[derive(Clone, Debug)]
pub(super) struct ProgramOps {
    ops: Vec<ProgramOp>,
    free: Vec<u32>,
    /// `unit_pages` moves per program.
    moves: Vec<PageMove>,
    /// The contents that each move of a program under way refers to; empty if the set is not durable.
    carried: Vec<Slot>,
    unit_pages: u32,
}

impl ProgramOps {
    pub fn new(count: u32, unit_pages: u32, durable: bool) -> ProgramOps {
        let op = ProgramOp { moves: 0, relocated: false, paid: false, programming: false, next: NO_OP };
        let pages = (count * unit_pages) as usize;
        ProgramOps {
            ops: vec![op; count as usize],
            free: (0..count).rev().collect(),
            moves: vec![PageMove { page: NONE, source: NONE }; pages],
            carried: vec![Slot::NONE; if durable { pages } else { 0 }],
            unit_pages,
        }
    }

    /// Forgets those on their way: power is lost.
    pub fn reset(&mut self) {
        self.free = (0..self.ops.len() as u32).rev().collect();
        self.ops.iter_mut().for_each(|op| op.programming = false);
    }

    /// One that is free.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// It is free again.
    #[inline]
    pub fn give_back(&mut self, op: u32) {
        self.free.push(op);
    }

    /// Whether none is free.
    #[inline]
    pub fn are_all_taken(&self) -> bool {
        self.free.is_empty()
    }

    /// How many are on their way.
    pub fn taken(&self) -> usize {
        self.ops.len() - self.free.len()
    }

    #[inline]
    pub fn get(&self, op: u32) -> &ProgramOp {
        &self.ops[op as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, op: u32) -> &mut ProgramOp {
        &mut self.ops[op as usize]
    }

    /// The place of a program's `i`th page in the tables.
    #[inline]
    fn place(&self, op: u32, i: u32) -> usize {
        (op * self.unit_pages + i) as usize
    }

    /// The `i`th page of a program.
    #[inline]
    pub fn page(&self, op: u32, i: u32) -> PageMove {
        self.moves[self.place(op, i)]
    }

    /// The pages of a program, and for each a place for the contents that it refers to; no such places if the set is not durable.
    #[inline]
    pub fn pages_with_contents(&mut self, op: u32) -> (&[PageMove], &mut [Slot]) {
        let begin = self.place(op, 0);
        let end = begin + self.get(op).moves as usize;
        let carried = if self.carried.is_empty() { &mut [] } else { &mut self.carried[begin..end] };
        (&self.moves[begin..end], carried)
    }

    /// Places for the pages of a program from the `i`th on.
    #[inline]
    pub fn pages_mut(&mut self, op: u32, i: u32) -> &mut [PageMove] {
        let (begin, end) = (self.place(op, i), self.place(op, self.unit_pages));
        &mut self.moves[begin..end]
    }

    /// The contents that a program refers to, page by page; nothing if the set is not durable.
    pub fn carried_by(&self, op: u32) -> &[Slot] {
        match self.carried.is_empty() {
            true => &[],
            false => &self.carried[self.place(op, 0)..][..self.get(op).moves as usize],
        }
    }

    /// Logical pages of the programs under way, and the contents that each refers to.
    pub fn carried(&self) -> impl Iterator<Item = (u32, Slot)> {
        let under_way = (0..).zip(&self.ops).filter(|(_, op)| op.programming);
        under_way
            .flat_map(|(op, _)| (0..).zip(self.carried_by(op)).map(move |(i, &slot)| (op, i, slot)))
            .map(|(op, i, slot)| (self.page(op, i).page, slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_under_way_refer_to_is_known() {
        let mut ops = ProgramOps::new(2, 3, true);
        let op = ops.take().unwrap();
        for (i, page_move) in ops.pages_mut(op, 0)[..2].iter_mut().enumerate() {
            *page_move = PageMove { page: 7 + i as u32, source: 0 };
        }
        ops.get_mut(op).moves = 2;
        ops.pages_with_contents(op).1.copy_from_slice(&[Slot(1), Slot(2)]);
        // It is only gathered yet.
        assert_eq!(ops.carried().count(), 0);
        ops.get_mut(op).programming = true;
        assert_eq!(ops.carried().collect::<Vec<_>>(), [(7, Slot(1)), (8, Slot(2))]);
        assert!(ops.take().is_some() && ops.are_all_taken());
        ops.reset();
        assert_eq!((ops.taken(), ops.carried().count()), (0, 0));
    }
}
