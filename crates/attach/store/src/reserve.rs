//! Reservations: blocks of zones of data, and place in the log.
//!
//! The log has place for a snapshot of [`Log::snapshot_limit`](crate::log::Log::snapshot_limit) bytes. With a larger one the store could not be opened for writing. So
//! this holds always: the snapshot keeps within the limit, whatever comes of what is in memory. [`State::owed`] is its size in the worst case. A change that adds to
//! it asks for place first, and what was taken can be written.

use crate::device::ZoneDevice;
use crate::error::Error;
use crate::metadata::{BLOCK_BYTES, Claim, PIECE_BYTES, PROMOTION_BYTES, TYPICAL_NAME_BYTES};
use crate::record::Ino;
use crate::state::State;
use crate::tree::{EXTENT_BYTES, INODE_BYTES, NAME_BYTES};

impl State {
    /// Blocks that files may still take.
    pub(crate) fn free_blocks(&self) -> u64 {
        let live = self.tree.live_total() - self.space.stranded(&self.tree);
        let in_memory = self.fresh_blocks as u64 + self.blocks_under_way();
        let taken = live + in_memory + self.tree.patch_pieces();
        self.space.usable().saturating_sub(taken)
    }

    /// Makes sure that a file may have all blocks from `first` to `last` (exclusive).
    pub(crate) fn reserve<D: ZoneDevice>(
        &mut self,
        device: &D,
        ino: Ino,
        (first, last): (u64, u64),
    ) -> Result<(), Error> {
        if self.free_blocks() < self.missing_blocks(ino, first, last)? {
            // Pieces of patches count as whole blocks until they are in zones. Blocks in memory have place, and are there then.
            self.empty_memory(device)?;
        }
        if self.free_blocks() >= self.missing_blocks(ino, first, last)? {
            Ok(())
        } else {
            Err(Error::NoSpace)
        }
    }

    /// Blocks from `first` to `last` (exclusive) that a file has not in zones.
    fn missing_blocks(&self, ino: Ino, first: u64, last: u64) -> Result<u64, Error> {
        let there: u64 = self.contents(ino)?.extents.within(first, last).map(|(_, run)| run.blocks).sum();
        Ok(last - first - there)
    }

    /// Bytes that a snapshot takes when all that is in memory is in the log and in zones, at most.
    pub(crate) fn owed(&self) -> u64 {
        let under_way: u64 = self.under_way.iter().map(|data| data.blocks).sum();
        let in_memory = self.dirty_blocks as u64 + self.reserved_blocks + under_way;
        self.tree.snapshot_bytes() + in_memory * BLOCK_BYTES + self.tree.patch_pieces() * PROMOTION_BYTES
    }

    /// Bytes that a snapshot may take with such a change.
    pub(crate) fn metadata_limit(&self, claim: Claim) -> u64 {
        self.log.snapshot_limit(self.log_capacity()) / 16 * claim.sixteenths()
    }

    /// Bytes that such a change may add to a snapshot.
    pub(crate) fn metadata_room(&self, claim: Claim) -> u64 {
        self.metadata_limit(claim).saturating_sub(self.owed())
    }

    /// Makes sure that the log has place for a change that adds so many bytes to a snapshot, at most.
    pub(crate) fn reserve_metadata<D: ZoneDevice>(
        &mut self,
        device: &D,
        claim: Claim,
        bytes: u64,
    ) -> Result<(), Error> {
        if bytes > self.metadata_room(claim) {
            // What is in memory counts as if each block had an extent of its own.
            self.empty_memory(device)?;
        }
        if bytes <= self.metadata_room(claim) { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Writes what is in memory to zones, and what the log has of files.
    fn empty_memory<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        self.write_out_all(device)?;
        self.promote_all(device)?;
        self.land_all(device)
    }

    /// What the blocks from `first` to `last` (exclusive) of a file are, when a program writes them.
    pub(crate) fn claim(&self, ino: Ino, first: u64, last: u64) -> Result<Claim, Error> {
        let (contents, block) = (self.contents(ino)?, self.tree.block());
        let dirty = self.active.get(&ino).map(|active| &active.dirty);
        let is_there = |number: u64| {
            contents.extents.has(number)
                || dirty.is_some_and(|dirty| dirty.has(number))
                || contents.patches.within(number * block, (number + 1) * block).next().is_some()
        };
        Ok(if (first..last).all(is_there) { Claim::Change } else { Claim::New })
    }

    /// Bytes that zeroes add to a snapshot which lie over a part of a block of a file: from `from` to `to` (exclusive).
    pub(crate) fn zeroes_bytes(&self, ino: Ino, from: u64, to: u64) -> Result<u64, Error> {
        let number = from / self.tree.block();
        // What is in memory, or in the log, may be in a zone until then.
        let is_there = from < to && self.claim(ino, number, number + 1)? == Claim::Change;
        Ok(if is_there { PIECE_BYTES + (to - from) } else { 0 })
    }

    /// Bytes that a hole adds to a snapshot, at most: zeroes over parts of its first and last block, a piece and an extent that it cuts in two.
    pub(crate) fn hole_bytes(&self, ino: Ino, from: u64, to: u64) -> Result<u64, Error> {
        let block = self.tree.block();
        let head = from.next_multiple_of(block).min(to);
        let tail = (to / block * block).max(head);
        let zeroes = self.zeroes_bytes(ino, from, head)? + self.zeroes_bytes(ino, tail, to)?;
        Ok(zeroes + PIECE_BYTES + EXTENT_BYTES)
    }

    /// Inodes that can be made, with names of [`TYPICAL_NAME_BYTES`].
    pub(crate) fn free_inodes(&self) -> u64 {
        self.metadata_room(Claim::New) / (INODE_BYTES + NAME_BYTES + TYPICAL_NAME_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Replace;
    use crate::record::{Attributes, NewKind};
    use crate::simulated::Simulated;
    use crate::{Placement, Store};

    fn open(device: Simulated) -> Store<Simulated> {
        Store::open(device, Placement::default()).unwrap()
    }

    fn make(store: &Store<Simulated>, name: &str) -> Result<Ino, Error> {
        let made = store.create(Ino::ROOT, name.as_bytes(), NewKind::File, Attributes::default());
        made.map(|stat| stat.ino)
    }

    /// Makes files with typical names until there is no place for more. Returns how many.
    fn fill(store: &Store<Simulated>, prefix: &str) -> u64 {
        let rest = usize::try_from(TYPICAL_NAME_BYTES).unwrap() - prefix.len();
        for number in 0.. {
            match make(store, &format!("{prefix}{number:0rest$}")) {
                Ok(_) => {}
                Err(Error::NoSpace) => return number,
                Err(error) => panic!("{error}"),
            }
        }
        0
    }

    #[test]
    fn a_store_opens_that_was_fragmented_in_memory() {
        let store = open(Simulated::formatted());
        {
            let limits = &mut store.lock().limits;
            (limits.file_blocks, limits.total_blocks) = (10_000, 10_000);
        }
        let ino = make(&store, "file").unwrap();
        store.write(ino, 0, &vec![1; 1000 * 512], 1).unwrap();
        store.sync_all().unwrap();
        let mut overwritten = 0;
        for block in (0..1000).step_by(2) {
            match store.write(ino, block * 512, &[2; 512], 2) {
                Ok(()) => overwritten = block + 1,
                Err(Error::NoSpace) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(overwritten > 150, "{overwritten}");
        store.sync_all().unwrap();
        let store = open(store.abandon());
        let mut there = vec![0; 1000 * 512];
        assert_eq!(store.read(ino, 0, &mut there), Ok(there.len()));
        let expected = |block: usize| 1 + u8::from(block.is_multiple_of(2) && (block as u64) < overwritten);
        let wrong = there.iter().enumerate().find(|(at, byte)| **byte != expected(at / 512));
        assert_eq!(wrong, None);
    }

    #[test]
    fn files_can_be_changed_when_no_more_can_be_made() {
        let store = open(Simulated::formatted());
        let files = ["a", "b", "c"].map(|name| make(&store, name).unwrap());
        for ino in files {
            store.write(ino, 0, &[1; 20 * 512], 1).unwrap();
        }
        store.sync_all().unwrap();
        let free = store.usage().free_inodes;
        assert!(free > 20);
        assert_eq!(fill(&store, "new"), free);
        assert_eq!(store.usage().free_inodes, 0);
        store.write(files[0], 3 * 512, &[2; 512], 2).unwrap();
        store.write(files[0], 5 * 512 + 100, &[2; 30], 2).unwrap();
        store.sync(files[0]).unwrap();
        store.truncate(files[1], 1000, 2).unwrap();
        store.truncate(files[1], 0, 2).unwrap();
        store.punch(files[0], 512, 1100, 2).unwrap();
        store.rename((Ino::ROOT, b"a"), (Ino::ROOT, b"c"), Replace::Yes, 2).unwrap();
        store.unlink(Ino::ROOT, b"b", 2).unwrap();
        store.sync_all().unwrap();
        let store = open(store.abandon());
        let free = store.usage().free_inodes;
        let made = fill(&store, "newer");
        // What the log has of a file counts as more than it takes in a zone, until then.
        assert!(made == free || made == free + 1, "{made} made, {free} promised");
        let mut there = [0; 3];
        assert_eq!(store.read(files[0], 3 * 512, &mut there), Ok(3));
        assert_eq!(there, [2; 3]);
    }

    #[test]
    fn what_is_in_memory_can_be_overwritten_in_a_full_store() {
        let store = open(Simulated::formatted());
        let files = ["full", "in memory"].map(|name| make(&store, name).unwrap());
        let blocks = usize::try_from(store.usage().free_blocks).unwrap() - 1;
        store.write(files[0], 0, &vec![1; blocks * 512], 1).unwrap();
        store.sync_all().unwrap();
        store.write(files[1], 0, &[2; 512], 1).unwrap();
        assert_eq!(store.usage().free_blocks, 0);
        assert_eq!(store.write(files[1], 0, &[3; 512], 2), Ok(()));
        assert_eq!(store.write(files[1], 512, &[3], 2), Err(Error::NoSpace));
    }

    #[test]
    fn the_log_has_place_for_blocks_of_which_it_has_bytes() {
        let store = open(Simulated::formatted());
        let ino = make(&store, "file").unwrap();
        store.write(ino, 0, &vec![1; 400 * 512], 1).unwrap();
        store.sync_all().unwrap();
        fill(&store, "new");
        for block in (1..400).step_by(3) {
            match store.write(ino, block * 512 + 9, &[2], 2) {
                Ok(()) => store.sync(ino).unwrap(),
                Err(Error::NoSpace) => break,
                Err(error) => panic!("{error}"),
            }
        }
        let mut state = store.lock();
        state.promote_all(&store.device).unwrap();
        let (owed, limit) = (state.owed(), state.metadata_limit(Claim::Move));
        assert!(owed <= limit, "{owed} of {limit} bytes");
    }
}
