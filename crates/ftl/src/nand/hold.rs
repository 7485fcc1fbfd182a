//! Times without collection: a set collects ahead, and is then left alone by collection, wear levelling and erases until
//! what was freed is written.

use super::NandSet;
use crate::context::SetContext;
use crate::storage::Storage;
use media::Nanos;

impl NandSet {
    /// Whether collection frees [`GcConfig::ahead`](crate::GcConfig::ahead) superblocks more than it needs.
    pub fn collect_ahead<S: Storage>(&mut self, now: Nanos, on: bool, cx: &mut SetContext<'_, S>) {
        self.reserve = if on { self.gc_config.ahead } else { 0 };
        if !self.has_spare_ahead() {
            self.reserve = 0;
        }
        self.pump(now, cx);
    }

    /// Holds collection back, or lets it go on. What it has begun to program or erase ends.
    pub fn hold<S: Storage>(&mut self, now: Nanos, held: bool, cx: &mut SetContext<'_, S>) {
        self.held = held;
        self.pump(now, cx);
    }

    /// Whether collection is held back.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Pages that can be written before collection is needed.
    pub fn room_without_collection(&self) -> u64 {
        let free = self.blocks.free.len().saturating_sub(2) as u64;
        let open: u64 =
            (0..self.handles).filter(|&h| self.streams[h].is_open()).map(|h| self.room_of(h)).sum();
        free * u64::from(self.geo.pages_per_superblock()) + open / u64::from(crate::PAGE)
    }

    /// Whether collection, which is held back, is to stay so; if there is no other way to go on writing, or everything
    /// is to be erased, it is not.
    #[cold]
    pub(super) fn is_holding(&mut self) -> bool {
        self.held = self.purge.is_none() && self.blocks.free.len() >= 2;
        self.held
    }

    /// Whether there is spare for what is collected ahead; else collection would never end.
    pub(super) fn has_spare_ahead(&self) -> bool {
        let additional = self.streams.len() as u64 - 2 + self.handles as u64 - 1;
        let kept = u64::from(self.gc_config.low) + u64::from(self.reserve) + 2 + additional;
        let needed = kept * u64::from(self.geo.pages_per_superblock());
        self.blocks.usable_pages() >= u64::from(self.capacity) + needed
    }
}
