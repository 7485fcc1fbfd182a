//! Which superblock is written next.

use super::PageMappedSet;
use crate::answer::PlacementChange;
use crate::context::SetContext;
use crate::flash::{Next, Stream, Target, Wear};
use crate::storage::Storage;
use media::Nanos;

impl PageMappedSet {
    /// The next unit of a stream's superblock, for the host or for what was `collected`, if its die has room; opens another superblock when
    /// one is full. The host leaves the last free one to garbage collection.
    #[inline]
    pub(super) fn next_unit<S: Storage>(
        &mut self,
        now: Nanos,
        index: usize,
        collected: bool,
        cx: &mut SetContext<'_, S>,
    ) -> Option<Target> {
        // Mostly its die is busy, and nothing is in the way of that: then this is all.
        match self.flash.is_busy(self.streams.get(index)) {
            true => None,
            false => self.find_unit(now, index, collected, cx),
        }
    }

    /// The same for a stream whose die may have room. It is out of line: most callers need no more than the look at the die.
    #[inline(never)]
    fn find_unit<S: Storage>(
        &mut self,
        now: Nanos,
        index: usize,
        collected: bool,
        cx: &mut SetContext<'_, S>,
    ) -> Option<Target> {
        loop {
            if !self.streams.get(index).is_open() {
                self.open_superblock(index, collected, cx)?;
            }
            match self.flash.next_unit(self.streams.get_mut(index)) {
                Next::Unit(target) => return Some(target),
                Next::Busy => return None,
                Next::Ask(die) => {
                    if !self.land_first(now, die, true, cx) {
                        return None;
                    }
                }
                Next::Full => {
                    self.seal(index);
                    if !self.streams.is_relocation(index) {
                        self.notes.add(now, index, PlacementChange::Filled);
                    }
                }
            }
        }
    }

    fn open_superblock<S: Storage>(
        &mut self,
        index: usize,
        collected: bool,
        cx: &mut SetContext<'_, S>,
    ) -> Option<()> {
        if !collected && self.flash.superblocks().free() < 2 {
            return None;
        }
        // What collection moves is colder.
        let wear = if self.streams.is_relocation(index) { Wear::Most } else { Wear::Least };
        let superblock = self.flash.open(wear, index as u8, cx.storage)?;
        self.streams.count_open(index);
        *self.streams.get_mut(index) = Stream::new(superblock);
        Some(())
    }

    /// Nothing more is written to a stream's superblock.
    pub(super) fn seal(&mut self, index: usize) {
        if let Some(superblock) = std::mem::replace(self.streams.get_mut(index), Stream::CLOSED).superblock()
        {
            self.flash.seal(superblock);
        }
    }

    /// The stream that takes what is collected from the victim: the one that the policy says. If there is no superblock for
    /// that one, it is another relocation stream: to go on is worth more than to keep data apart.
    #[inline]
    pub(super) fn collecting_stream(&self) -> usize {
        let own = self.gc.stream();
        if self.streams.get(own).is_open() || self.flash.superblocks().free() > 0 {
            return own;
        }
        self.streams.open_relocation_stream().unwrap_or(own)
    }
}
