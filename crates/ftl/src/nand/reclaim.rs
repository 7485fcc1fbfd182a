//! Reclaim units: the superblocks of placement handles, as their owner sees them. What a host calls a reclaim unit is
//! the superblock that a handle's data goes to.

use super::NandSet;
use super::superblock::Stream;
use crate::answer::{PlacementChange, PlacementNote};
use crate::config::PAGE;
use crate::context::SetContext;
use crate::storage::Storage;
use media::{LogicalPage, Medium, Nanos, Page, Unit};

/// Notes that are kept until somebody takes them; of more the oldest are dropped.
const MOST_NOTES: usize = 256;

impl NandSet {
    /// Bytes of a superblock without bad blocks: the nominal size of a reclaim unit.
    pub(super) fn superblock_bytes(&self) -> u64 {
        u64::from(self.geo.pages_per_superblock()) * u64::from(PAGE)
    }

    /// Bytes that can still be written with a placement handle before its superblock is full; what is in the write
    /// buffer counts as written.
    pub(super) fn room_of(&self, handle: usize) -> u64 {
        let stream = &self.streams[handle];
        let mut pages = self.geo.pages_per_superblock();
        if stream.is_open() {
            let units = self.geo.units_per_superblock();
            let first = stream.block * units;
            let usable = (stream.next..units)
                .map(|u| Unit(first + u))
                .filter(|&u| !(self.nand.is_bad(u) || (stream.resumed && self.is_programmed(u))));
            pages = usable.count() as u32 * self.geo.unit_pages;
        }
        let waiting = self.buffer.waiting_of(handle);
        // What waits may be more than one superblock takes.
        let waiting = if waiting > pages { waiting % self.geo.pages_per_superblock() } else { waiting };
        u64::from(pages.saturating_sub(waiting)) * u64::from(PAGE)
    }

    /// The handle goes on with another superblock; what was accepted before still goes to the present one. Returns the
    /// bytes that it had room for.
    pub(super) fn renew_unit<S: Storage>(
        &mut self,
        now: Nanos,
        handle: usize,
        cx: &mut SetContext<'_, S>,
    ) -> u64 {
        let room = self.room_of(handle);
        if room == self.superblock_bytes() {
            // It is empty.
            return 0;
        }
        self.closing[handle] = self.buffer.mark();
        self.close_handle(handle);
        self.pump(now, cx);
        room
    }

    /// Seals the superblock of a handle that is to get another one, when the last of its pages are programmed.
    pub(super) fn close_handle(&mut self, handle: usize) {
        if self.buffer.waits_since(handle, self.closing[handle]) {
            return;
        }
        self.closing[handle] = 0;
        let stream = &mut self.streams[handle];
        if stream.is_open() && stream.next > 0 {
            let block = stream.block;
            *stream = Stream::default();
            self.superblocks.seal(block);
        }
    }

    pub(super) fn note(&mut self, at: Nanos, handle: usize, change: PlacementChange) {
        if self.notes_wanted {
            if self.notes.len() == MOST_NOTES {
                self.notes.pop_front();
            }
            self.notes.push_back(PlacementNote { at, handle: handle as u8, change });
        }
    }

    /// Notes that the data of a superblock is moved, if a handle wrote it.
    #[cold]
    pub(super) fn note_moved<S: Storage>(&mut self, now: Nanos, superblock: u32, cx: &SetContext<'_, S>) {
        let block = self.superblocks.all[superblock as usize];
        let writer = usize::from(block.writer);
        if block.valid == 0 {
            return;
        }
        // With one lane for all, what was collected before belongs to no handle any more.
        let handle = match writer.checked_sub(self.handles) {
            None => writer,
            Some(lane) if self.streams.len() > self.handles + 1 => lane,
            Some(_) => return,
        };
        let pages = self.geo.pages_per_superblock();
        let first = (superblock * pages..(superblock + 1) * pages)
            .find(|&p| super::bit(&self.valid, p))
            .map(|p| self.nand.inner().logical(Page(p)))
            .and_then(|LogicalPage(page)| cx.volumes.place_of(self.id, page));
        self.note(now, handle, PlacementChange::Moved { pages: block.valid, first });
    }

    /// By superblock, the stream that wrote it; empty if there is but one placement handle.
    pub fn writers(&self) -> Vec<u8> {
        match self.handles {
            1 => Vec::new(),
            _ => self.superblocks.all.iter().map(|b| b.writer).collect(),
        }
    }

    /// Sets what stream wrote a superblock; whether both exist.
    pub fn apply_open(&mut self, superblock: u32, writer: u8) -> bool {
        match self.superblocks.all.get_mut(superblock as usize) {
            Some(block) if usize::from(writer) < self.streams.len() => {
                block.writer = writer;
                true
            }
            _ => false,
        }
    }
}
