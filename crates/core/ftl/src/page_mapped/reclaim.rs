//! Reclaim units: the superblocks of placement handles, as their owner sees them. What a host calls a reclaim unit is
//! the superblock that a handle's data goes to.

use super::PageMappedSet;
use crate::answer::PlacementChange;
use crate::config::PAGE;
use crate::context::SetContext;
use crate::storage::Storage;
use media::Nanos;

impl PageMappedSet {
    /// Bytes of a superblock without bad blocks: the nominal size of a reclaim unit.
    pub fn superblock_bytes(&self) -> u64 {
        u64::from(self.flash.geo().pages_per_superblock()) * u64::from(PAGE)
    }

    /// Bytes that can still be written with a placement handle before its superblock is full; what is in the write
    /// buffer counts as written.
    pub fn room_of(&self, handle: usize) -> u64 {
        let stream = self.streams.get(handle);
        let whole = self.flash.geo().pages_per_superblock();
        let mark = self.streams.closes_at(handle);
        // What was accepted before the mark goes to the superblock that is left.
        let is_left = self.buffer.waits_since(handle, mark);
        let pages = if stream.is_open() && !is_left { self.flash.room_of(stream) } else { whole };
        let waiting = self.buffer.waiting_of(handle);
        let waiting = if is_left { waiting - self.buffer.waiting_before(handle, mark) } else { waiting };
        u64::from(room_after(pages, waiting, whole)) * u64::from(PAGE)
    }

    /// The handle goes on with another superblock; what was accepted before still goes to the present one. Returns the
    /// bytes that it had room for.
    pub fn renew_unit<S: Storage>(&mut self, now: Nanos, handle: usize, cx: &mut SetContext<'_, S>) -> u64 {
        let room = self.room_of(handle);
        if room == self.superblock_bytes() {
            // It is empty.
            return 0;
        }
        self.streams.close_at(handle, self.buffer.mark());
        self.close_handle(handle);
        self.pump(now, cx);
        room
    }

    /// Seals the superblock of a handle that is to get another one, when the last of its pages are programmed.
    pub(super) fn close_handle(&mut self, handle: usize) {
        if self.buffer.waits_since(handle, self.streams.closes_at(handle)) {
            return;
        }
        self.streams.close_at(handle, 0);
        if !self.streams.get(handle).is_unwritten() {
            self.seal(handle);
        }
    }

    /// Notes that the data of a superblock is moved, if a handle wrote it.
    #[cold]
    pub(super) fn note_moved<S: Storage>(&mut self, now: Nanos, superblock: u32, cx: &SetContext<'_, S>) {
        let valid = self.valid.of(superblock);
        if valid == 0 {
            return;
        }
        let writer = self.flash.superblocks().get(superblock).writer;
        let Some(handle) = self.streams.handle_of(writer.into()) else { return };
        let pages = self.flash.geo().pages_per_superblock();
        let first = self.valid.next(superblock * pages, (superblock + 1) * pages);
        let first = first.and_then(|page| cx.volumes.place_of(self.flash.id(), self.flash.logical(page)));
        self.notes.add(now, handle, PlacementChange::Moved { pages: valid, first });
    }
}

/// Pages that are free in the superblock that takes the last of the `waiting` pages, where the first of them has `room` of a `whole` one.
fn room_after(room: u32, waiting: u32, whole: u32) -> u32 {
    let Some(beyond) = waiting.checked_sub(room + 1) else { return room - waiting };
    whole - 1 - beyond % whole
}

#[cfg(test)]
mod tests {
    use super::room_after;

    #[test]
    fn what_waits_takes_room_in_as_many_superblocks_as_it_needs() {
        for (room, waiting, left) in [
            (8, 0, 8),
            (8, 3, 5),
            (3, 3, 0),
            (0, 0, 0),
            (0, 1, 7),
            (3, 4, 7),
            (3, 11, 0),
            (3, 12, 7),
            (0, 17, 7),
        ] {
            assert_eq!(room_after(room, waiting, 8), left, "{waiting} wait, {room} left of 8");
        }
    }
}
