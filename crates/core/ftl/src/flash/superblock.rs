//! Superblocks: what each is for, how worn it is, and what is said of them.

use media::Geometry;
use std::collections::VecDeque;

/// What a superblock is for. The legal changes: Free -> Open -> Sealed -> Erasing -> Free, and from
/// Erasing to Dead when no usable block is left in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SuperblockState {
    /// It can be opened.
    Free,
    /// A stream writes it.
    Open,
    /// It is written no further.
    Sealed,
    /// It waits for the erase of its blocks, or they are being erased.
    Erasing,
    /// All of its blocks are bad.
    Dead,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Superblock {
    pub state: SuperblockState,
    /// Pages that it can hold: those of its blocks that are not bad.
    pub usable: u32,
    /// Programs under way.
    pub programs: u32,
    /// Program/erase cycles.
    pub erases: u32,
    /// When it was sealed, in superblocks sealed before it.
    pub sealed: u64,
    /// Who writes or wrote it: a number that its owner gave. Known again after a loss of power, if the set records it:
    /// the drive keeps it in its system area.
    pub writer: u8,
}

/// Which of the free superblocks is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wear {
    /// The least worn, for data that is overwritten soon.
    Least,
    /// The most worn, for data that stays (dynamic wear levelling).
    Most,
}

/// What was done for the superblocks that wait for an erase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EraseStep {
    /// Nothing is to be done now.
    Nothing,
    /// The erase of a block has begun.
    Begun,
    /// All blocks of this superblock are erased: it is free, or dead.
    Ended(u32),
}

/// A superblock that was being written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PartlyWritten {
    /// Units that can still be programmed.
    pub room: u32,
    pub superblock: u32,
}

/// Program/erase cycles of all blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cycles {
    /// Mean, fewest, most.
    pub mean: u64,
    pub fewest: u32,
    pub most: u32,
    /// Blocks that must not be used.
    pub bad: u32,
}

/// The superblocks of a set.
#[derive(Clone, Debug)]
pub(crate) struct Superblocks {
    pub(super) all: Vec<Superblock>,
    pub(super) free: Vec<u32>,
    /// Superblocks that wait for the erase of their blocks, oldest first.
    pub(super) erasing: VecDeque<u32>,
    /// Next die of the first of `erasing`, and erases under way.
    pub(super) erase_die: u32,
    pub(super) erases_under_way: u32,
    sealed_count: u64,
}

impl Superblocks {
    pub(super) fn new(geo: &Geometry) -> Superblocks {
        let (state, usable) = (SuperblockState::Free, geo.pages_per_superblock());
        let superblock = Superblock { state, usable, programs: 0, erases: 0, sealed: 0, writer: 0 };
        Superblocks {
            all: vec![superblock; geo.superblocks as usize],
            free: Vec::with_capacity(geo.superblocks as usize),
            erasing: VecDeque::with_capacity(geo.superblocks as usize),
            erase_die: 0,
            erases_under_way: 0,
            sealed_count: 0,
        }
    }

    /// Forgets what the superblocks are for. How worn they are, and who wrote them, stays.
    pub(super) fn reset(&mut self) {
        for superblock in &mut self.all {
            *superblock = Superblock { state: SuperblockState::Free, programs: 0, sealed: 0, ..*superblock };
        }
        self.free.clear();
        self.erasing.clear();
        (self.erase_die, self.erases_under_way, self.sealed_count) = (0, 0, 0);
    }

    /// One of them.
    #[inline]
    pub fn get(&self, superblock: u32) -> &Superblock {
        &self.all[superblock as usize]
    }

    /// All of them with their numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Superblock)> {
        (0..).zip(&self.all)
    }

    /// How many can be opened.
    #[inline]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// The most worn of those that can be opened: the one that is opened with [`Wear::Most`].
    pub fn most_worn_free(&self) -> Option<&Superblock> {
        let most = self.free.iter().max_by_key(|&&b| (self.all[b as usize].erases, b));
        most.map(|&b| self.get(b))
    }

    /// How many wait for an erase, or are being erased.
    #[inline]
    pub fn erasing(&self) -> usize {
        self.erasing.len()
    }

    /// How many were sealed since the set was made or recovered.
    pub fn sealed_count(&self) -> u64 {
        self.sealed_count
    }

    /// Pages that all superblocks together can hold.
    pub fn usable_pages(&self) -> u64 {
        let alive = self.all.iter().filter(|b| b.state != SuperblockState::Dead);
        alive.map(|b| u64::from(b.usable)).sum()
    }

    /// Opens a free superblock for a writer; `None` if there is none. Returns who wrote it before, too.
    pub(super) fn open(&mut self, wear: Wear, writer: u8) -> Option<(u32, u8)> {
        let worn = |&b: &u32| (self.all[b as usize].erases, b);
        let superblock = *match wear {
            Wear::Most => self.free.iter().max_by_key(|b| worn(b))?,
            Wear::Least => self.free.iter().min_by_key(|b| worn(b))?,
        };
        self.free.retain(|&b| b != superblock);
        self.all[superblock as usize].state = SuperblockState::Open;
        let before = std::mem::replace(&mut self.all[superblock as usize].writer, writer);
        Some((superblock, before))
    }

    /// Nothing more is written to an open superblock.
    pub(super) fn seal(&mut self, superblock: u32) {
        let b = &mut self.all[superblock as usize];
        debug_assert_eq!(b.state, SuperblockState::Open);
        b.state = SuperblockState::Sealed;
        b.sealed = self.sealed_count;
        self.sealed_count += 1;
    }

    /// A superblock holds no valid page any more: it waits for its erase.
    pub(super) fn give_up(&mut self, superblock: u32) {
        self.all[superblock as usize].state = SuperblockState::Erasing;
        self.erasing.push_back(superblock);
    }
}
