//! Which plots hold zones, which are free, and which have to be erased before they are.

use super::striping::{Plot, Striping};
use crate::flash::{Flash, SuperblockState, Wear, ZONES};
use crate::storage::Storage;
use media::{BlockState, Medium, Unit};

/// What a plot is for. The legal changes: Elsewhere -> Free (with its superblock) -> Bound -> Dirty -> Free -> Elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// Its superblock is not one of the zones'.
    Elsewhere,
    /// It can be bound.
    Free,
    /// It holds a zone.
    Bound,
    /// So many of its blocks are being erased.
    Dirty(u32),
}

/// The plots of all superblocks.
#[derive(Clone, Debug)]
pub(super) struct Plots {
    uses: Vec<Use>,
    /// Free plots of superblocks of the zones, in the order in which they became free.
    free: Vec<Plot>,
    per_superblock: u32,
}

impl Plots {
    pub fn new(superblocks: u32, striping: &Striping) -> Plots {
        let uses = vec![Use::Elsewhere; (superblocks * striping.plots) as usize];
        Plots { uses, free: Vec::new(), per_superblock: striping.plots }
    }

    fn at(&self, plot: Plot) -> usize {
        (plot.superblock * self.per_superblock + plot.index) as usize
    }

    fn of_superblock(&self, superblock: u32) -> impl Iterator<Item = Plot> + use<> {
        (0..self.per_superblock).map(move |index| Plot { superblock, index })
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.uses.fill(Use::Elsewhere);
        self.free.clear();
    }

    /// Whether a superblock is one of the zones'.
    pub fn holds(&self, superblock: u32) -> bool {
        let first = (superblock * self.per_superblock) as usize;
        self.uses[first..first + self.per_superblock as usize].iter().any(|plot| *plot != Use::Elsewhere)
    }

    /// Binds the least worn plot of those that are free already, else one of the least worn superblock, if `may_open` allows to open one.
    /// `None` if there is none.
    pub fn bind<S: Storage>(
        &mut self,
        flash: &mut Flash,
        striping: &Striping,
        may_open: bool,
        storage: &mut S,
    ) -> Option<Plot> {
        if self.free.is_empty() && may_open {
            let superblock = flash.open(Wear::Least, ZONES, storage)?;
            for plot in self.of_superblock(superblock) {
                let at = self.at(plot);
                self.uses[at] = Use::Free;
                self.free.push(plot);
            }
        }
        // A plot is as worn as its most worn block. Of those that are alike, it is the first.
        let wear = |plot: Plot| striping.blocks(plot).map(|block| flash.nand.wear(block)).max();
        let least = (0..self.free.len()).min_by_key(|&at| wear(self.free[at]))?;
        let plot = self.free.remove(least);
        let at = self.at(plot);
        assert_eq!(self.uses[at], Use::Free, "{plot:?} holds another zone");
        self.uses[at] = Use::Bound;
        Some(plot)
    }

    /// Recovery finds that a plot holds a zone. Whether nothing else does.
    pub fn take(&mut self, plot: Plot) -> bool {
        let at = self.at(plot);
        let vacant = self.uses[at] != Use::Bound;
        self.uses[at] = Use::Bound;
        vacant
    }

    /// Recovery knows all plots that hold zones: the others of their superblocks are free, or are returned to be erased.
    pub fn sort(&mut self, flash: &Flash, striping: &Striping) -> Vec<Plot> {
        let mut dirty = Vec::new();
        for superblock in 0..self.uses.len() as u32 / self.per_superblock {
            if !self.of_superblock(superblock).any(|plot| self.uses[self.at(plot)] == Use::Bound) {
                continue;
            }
            for plot in self.of_superblock(superblock) {
                let at = self.at(plot);
                if self.uses[at] == Use::Bound {
                    continue;
                }
                if striping.blocks(plot).any(|unit| is_written(flash, unit)) {
                    self.uses[at] = Use::Dirty(0);
                    dirty.push(plot);
                } else {
                    self.uses[at] = Use::Free;
                    self.free.push(plot);
                }
            }
        }
        dirty
    }

    /// A plot holds nothing any more: it can be bound again when the blocks that `erase` begins to erase have been. Returns how many.
    pub fn give_up(
        &mut self,
        plot: Plot,
        flash: &mut Flash,
        striping: &Striping,
        mut erase: impl FnMut(&mut Flash, Unit),
    ) -> u32 {
        let mut blocks = 0;
        for unit in striping.blocks(plot).filter(|&unit| is_written(flash, unit)).collect::<Vec<_>>() {
            erase(flash, unit);
            blocks += 1;
        }
        let at = self.at(plot);
        assert!(matches!(self.uses[at], Use::Bound | Use::Dirty(0)), "{plot:?} is given up twice");
        self.uses[at] = Use::Dirty(blocks);
        if blocks == 0 {
            self.is_clean(plot, flash);
        }
        blocks
    }

    /// A block of a plot was erased; whether it was the last.
    pub fn erased(&mut self, plot: Plot, flash: &mut Flash) -> bool {
        let at = self.at(plot);
        let Use::Dirty(blocks) = &mut self.uses[at] else { return false };
        *blocks -= 1;
        let ended = *blocks == 0;
        if ended {
            self.is_clean(plot, flash);
        }
        ended
    }

    /// A plot is free; its superblock goes back if all of its plots are.
    fn is_clean(&mut self, plot: Plot, flash: &mut Flash) {
        let at = self.at(plot);
        self.uses[at] = Use::Free;
        self.free.push(plot);
        let superblock = plot.superblock;
        if self.of_superblock(superblock).all(|plot| self.uses[self.at(plot)] == Use::Free) {
            for plot in self.of_superblock(superblock) {
                let at = self.at(plot);
                self.uses[at] = Use::Elsewhere;
            }
            self.free.retain(|free| free.superblock != superblock);
            flash.release(superblock);
        }
    }

    /// Superblocks of the set.
    pub fn all_superblocks(&self) -> u32 {
        self.uses.len() as u32 / self.per_superblock
    }

    /// Superblocks of the zones.
    pub fn superblocks(&self) -> u32 {
        (0..self.uses.len() as u32 / self.per_superblock).filter(|&superblock| self.holds(superblock)).count()
            as u32
    }

    /// Whether the plots agree with the states of the superblocks. For tests.
    pub fn check(&self, flash: &Flash) -> Result<(), String> {
        for superblock in 0..self.uses.len() as u32 / self.per_superblock {
            let state = flash.superblocks().get(superblock).state;
            if self.holds(superblock) && state != SuperblockState::Open {
                return Err(format!("superblock {superblock} of the zones is {state:?}"));
            }
        }
        Ok(())
    }
}

/// Whether a block has to be erased before it is written from its begin. A bad block is never written again.
fn is_written(flash: &Flash, unit: Unit) -> bool {
    match flash.nand.block(unit) {
        BlockState::Writable { next } => next > 0,
        BlockState::MustErase => true,
        BlockState::Bad => false,
    }
}
