//! The contents of files: reading, writing, and what lies in memory.

use crate::device::{Run, ZoneDevice};
use crate::dirty::DirtyBlock;
use crate::error::Error;
use crate::metadata::{BLOCK_BYTES, Claim};
use crate::record::{Ino, Record};
use crate::state::State;
use crate::tree::MAX_SIZE;

/// A read of a file.
#[derive(Debug)]
pub struct Read<'a> {
    /// The first byte.
    pub offset: u64,
    /// Where the bytes go.
    pub buffer: &'a mut [u8],
    /// How many there were: fewer than asked for only at the end of the file.
    pub length: usize,
}

/// What a read needs, so that it can go on without the lock.
#[derive(Debug)]
pub(crate) struct ReadPlan {
    /// Bytes that the file has there.
    pub(crate) length: usize,
    /// Where they lie: place in the buffer of whole blocks, and on the device.
    pub(crate) runs: Vec<(usize, Run)>,
    /// How often the zones of the runs were reset.
    pub(crate) lives: Vec<u32>,
    /// Bytes that lie over them: place in the buffer of whole blocks.
    pub(crate) overlays: Vec<(usize, Vec<u8>)>,
    /// Bytes of the buffer before the first that is asked for.
    pub(crate) skip: usize,
    /// Bytes of the buffer.
    pub(crate) bytes: usize,
}

impl ReadPlan {
    /// Whether some bytes of the buffer lie nowhere on the device.
    pub(crate) fn has_holes(&self, block: u64) -> bool {
        let there: u64 = self.runs.iter().map(|(_, run)| run.blocks * block).sum();
        there < self.bytes as u64
    }
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl State {
    /// What a read of `length` bytes from `offset` on needs.
    pub(crate) fn plan_read(
        &self,
        ino: Ino,
        offset: u64,
        length: usize,
        block: u64,
    ) -> Result<ReadPlan, Error> {
        if let Some(why) = self.stopped.as_ref().filter(|_| self.lost.contains(&ino)) {
            return Err(Error::Stopped(why.clone()));
        }
        let contents = self.contents(ino)?;
        let size = self.size(ino)?;
        let length = length.min(index(size.saturating_sub(offset)));
        let first = offset / block;
        let last = (offset + length as u64).div_ceil(block).max(first);
        let start = first * block;
        let mut plan = ReadPlan {
            length,
            runs: Vec::new(),
            lives: Vec::new(),
            overlays: Vec::new(),
            skip: index(offset - start),
            bytes: index((last - first) * block),
        };
        if length == 0 {
            return Ok(plan);
        }
        for (at, run) in contents.extents.within(first, last) {
            plan.runs.push((index((at - first) * block), run));
        }
        plan.lives = self.lives(&plan.runs);
        let end = last * block;
        plan.overlays.extend(
            contents.patches.within(start, end).map(|(at, piece)| (index(at - start), piece.to_vec())),
        );
        if let Some(active) = self.active.get(&ino) {
            plan.overlays.extend(active.dirty.within(first, last).map(|(at, dirty)| {
                (index((at - first) * block) + dirty.from, dirty.bytes[dirty.from..dirty.to].to_vec())
            }));
        }
        Ok(plan)
    }

    /// How often the zones of these runs were reset.
    pub(crate) fn lives(&self, runs: &[(usize, Run)]) -> Vec<u32> {
        runs.iter().map(|(_, run)| self.space.life_at(run.lba)).collect()
    }

    /// A block of a file, without what is in memory.
    fn load<D: ZoneDevice>(&self, device: &D, ino: Ino, block: u64) -> Result<Vec<u8>, Error> {
        let contents = self.contents(ino)?;
        let size = device.shape().block;
        let mut bytes = vec![0; size];
        if let Some((_, run)) = contents.extents.within(block, block + 1).next() {
            device.read(run.lba, &mut bytes)?;
        }
        contents.patches.overlay(block * size as u64, &mut bytes);
        Ok(bytes)
    }

    /// Writes bytes of a file.
    pub(crate) fn write<D: ZoneDevice>(
        &mut self,
        device: &D,
        ino: Ino,
        offset: u64,
        data: &[u8],
        now: u64,
    ) -> Result<(), Error> {
        self.writable()?;
        let block = device.shape().block as u64;
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= MAX_SIZE);
        let end = end.ok_or(Error::FileTooLong)?;
        if data.is_empty() {
            return Ok(());
        }
        let (first, last) = (offset / block, end.div_ceil(block));
        if self.is_under_way(ino, first, last) {
            self.land(device, ino)?;
        }
        self.reserve(device, ino, (first, last))?;
        let claim = self.claim(ino, first, last)?;
        let (mut offset, mut data) = (offset, data);
        while !data.is_empty() {
            let at = index(offset % block);
            let whole = if at == 0 { data.len() / index(block) } else { 0 };
            let taken = if whole >= self.limits.direct {
                self.write_out_before(device, ino, offset / block)?;
                self.reserve_metadata(device, claim, BLOCK_BYTES)?;
                let most = index(self.metadata_room(claim) / BLOCK_BYTES);
                let piece = &data[..whole.min(self.limits.piece).min(most) * index(block)];
                self.write_through(device, ino, offset / block, piece, now)?;
                piece.len()
            } else {
                if self.is_under_way(ino, offset / block, offset / block + 1) {
                    // What was in memory of the last block was written out before the blocks that went to a zone at once.
                    self.land(device, ino)?;
                }
                let taken = data.len().min(index(block) - at);
                self.write_block(device, (ino, claim), (offset / block, at), &data[..taken], now)?;
                taken
            };
            (offset, data) = (offset + taken as u64, &data[taken..]);
        }
        self.bound(device, ino)
    }

    /// Writes bytes of one block into memory, from the byte `at` of it on.
    fn write_block<D: ZoneDevice>(
        &mut self,
        device: &D,
        (ino, claim): (Ino, Claim),
        (number, at): (u64, usize),
        data: &[u8],
        now: u64,
    ) -> Result<(), Error> {
        let block = device.shape().block;
        let size = self.size(ino)?;
        let end = number * block as u64 + (at + data.len()) as u64;
        match self.active.entry(ino).or_default().dirty.takes(number, at, data.len()) {
            Some(takes) => {
                if !takes {
                    self.complete(device, ino, number)?;
                }
                self.active.entry(ino).or_default().dirty.change(number, at, data);
            }
            None => {
                self.reserve_metadata(device, claim, BLOCK_BYTES)?;
                let mut bytes = vec![0; block].into_boxed_slice();
                let (from, to) = (at, at + data.len());
                bytes[from..to].copy_from_slice(data);
                let fresh = !self.contents(ino)?.extents.has(number);
                let dirty = DirtyBlock { bytes, from, to, complete: data.len() == block, fresh };
                self.active.entry(ino).or_default().dirty.insert(number, dirty);
                self.dirty_blocks += 1;
                self.fresh_blocks += usize::from(fresh);
            }
        }
        let active = self.active.entry(ino).or_default();
        (active.size, active.mtime) = (Some(size.max(end)), now);
        Ok(())
    }

    /// Gives a block in memory the bytes that were not written.
    fn complete<D: ZoneDevice>(&mut self, device: &D, ino: Ino, number: u64) -> Result<(), Error> {
        let loaded = self.load(device, ino, number)?;
        self.active.entry(ino).or_default().dirty.complete(number, &loaded);
        Ok(())
    }

    /// Writes out blocks in memory before the block `first` if the log does not know the size up to there: it must not tell of a size whose bytes it does not know.
    fn write_out_before<D: ZoneDevice>(&mut self, device: &D, ino: Ino, first: u64) -> Result<(), Error> {
        let logged = self.contents(ino)?.size / device.shape().block as u64;
        match self.active.get(&ino) {
            Some(active) if active.dirty.within(logged, first).next().is_some() => {
                self.write_out(device, ino)
            }
            _ => Ok(()),
        }
    }

    /// Writes whole blocks to a zone at once.
    fn write_through<D: ZoneDevice>(
        &mut self,
        device: &D,
        ino: Ino,
        first: u64,
        data: &[u8],
        now: u64,
    ) -> Result<(), Error> {
        let block = device.shape().block as u64;
        let last = first + data.len() as u64 / block;
        let size = self.size(ino)?.max(last * block);
        self.reserved_blocks = last - first;
        let sent = self.send(device, (ino, first), data, (size, now), false);
        self.reserved_blocks = 0;
        if let Err(error) = sent {
            // Some of it may be there.
            self.land(device, ino)?;
            return Err(error);
        }
        self.drop_dirty(ino, first, last);
        let active = self.active.entry(ino).or_default();
        (active.size, active.mtime) = (Some(size), now);
        self.forget_if_clean(ino)
    }

    /// Writes some blocks out if too many are in memory.
    fn bound<D: ZoneDevice>(&mut self, device: &D, ino: Ino) -> Result<(), Error> {
        if self.dirty_blocks > self.limits.total_blocks {
            return self.write_out_all(device);
        }
        match self.active.get(&ino) {
            Some(active) if active.dirty.len() > self.limits.file_blocks => self.write_out(device, ino),
            _ => Ok(()),
        }
    }

    /// Writes out what files have in memory.
    pub(crate) fn write_out_all<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        let files: Vec<Ino> = self.active.keys().copied().collect();
        files.into_iter().try_for_each(|ino| self.write_out(device, ino))
    }

    /// Writes out what a file has in memory: whole blocks to zones, parts of blocks as records.
    pub(crate) fn write_out<D: ZoneDevice>(&mut self, device: &D, ino: Ino) -> Result<(), Error> {
        self.write_out_as(device, ino, false)
    }

    /// As [`write_out`](State::write_out), for a file that is synced. If little is to be written, and all else is durable, it is when it lands.
    pub(crate) fn write_out_to_sync<D: ZoneDevice>(&mut self, device: &D, ino: Ino) -> Result<(), Error> {
        let little = self.active.get(&ino).is_none_or(|active| active.dirty.len() <= self.limits.durable);
        self.write_out_as(device, ino, little && self.is_durable())
    }

    fn write_out_as<D: ZoneDevice>(&mut self, device: &D, ino: Ino, durable: bool) -> Result<(), Error> {
        let block = device.shape().block;
        let mut inlined = 0;
        while let Some(active) = self.active.get(&ino) {
            let Some((first, dirty)) = active.dirty.first() else { break };
            let (size, mtime) = (self.size(ino)?, active.mtime);
            let part = dirty.to - dirty.from;
            // A block of which the log has no place for the bytes goes to a zone.
            let has_place = part as u64 <= self.metadata_room(Claim::Change);
            if part < block && inlined + part <= self.limits.inline && has_place {
                if self.under_way_of(ino).next().is_some() {
                    // The log must not tell of a size whose bytes it does not know.
                    self.land(device, ino)?;
                    continue;
                }
                let offset = first * block as u64 + dirty.from as u64;
                let bytes = dirty.bytes[dirty.from..dirty.to].to_vec();
                self.record(&Record::Inline { ino, offset, bytes, mtime })?;
                self.drop_dirty(ino, first, first + 1);
                inlined += part;
                continue;
            }
            if !dirty.complete {
                self.complete(device, ino, first)?;
                continue;
            }
            let run = active.dirty.whole_from(first, self.limits.piece);
            let blocks = (run.len() / block) as u64;
            self.send(device, (ino, first), &run, (size, mtime), durable)?;
            self.drop_dirty(ino, first, first + blocks);
        }
        self.forget_if_clean(ino)?;
        self.write_log_if_long(device)?;
        if self.contents(ino).is_ok_and(|contents| contents.patches.bytes() > self.limits.file_patches) {
            self.promote(device, ino, false)?;
        }
        if self.tree.patch_bytes() > self.limits.total_patches { self.promote_all(device) } else { Ok(()) }
    }

    /// Forgets blocks of a file that are in memory.
    pub(crate) fn drop_dirty(&mut self, ino: Ino, from: u64, to: u64) {
        if let Some(active) = self.active.get_mut(&ino) {
            let dropped = active.dirty.take(from, to);
            self.dirty_blocks -= dropped.len();
            self.fresh_blocks -= dropped.values().filter(|dirty| dirty.fresh).count();
        }
    }

    /// Forgets what is kept for a file that has nothing in memory, and nothing under way. Its size goes to the log behind its bytes.
    pub(crate) fn forget_if_clean(&mut self, ino: Ino) -> Result<(), Error> {
        if self.under_way_of(ino).next().is_some() {
            return Ok(());
        }
        let logged = self.contents(ino).map(|contents| contents.size);
        let Some(active) = self.active.get_mut(&ino).filter(|active| active.dirty.is_empty()) else {
            return Ok(());
        };
        let (size, mtime) = (active.size.take(), active.mtime);
        if active.opens == 0 {
            self.active.remove(&ino);
        }
        match (size, logged) {
            (Some(size), Ok(logged)) if size > logged => self.record(&Record::Size { ino, size, mtime }),
            _ => Ok(()),
        }
    }

    /// Writes blocks of a file that lie in the log in part into zones. Without `all`, the last block of the file stays: it grows.
    fn promote<D: ZoneDevice>(&mut self, device: &D, ino: Ino, all: bool) -> Result<(), Error> {
        let block = device.shape().block as u64;
        self.land(device, ino)?;
        let inode = self.tree.get(ino).ok_or(Error::NotFound)?;
        let mtime = inode.attributes.mtime;
        let contents = self.contents(ino)?;
        let end = contents.size / block;
        let mut blocks = contents.patches.blocks(block).into_iter().filter(|at| all || *at < end).peekable();
        while let Some(first) = blocks.next() {
            let mut data = self.load(device, ino, first)?;
            let mut next = first + 1;
            while blocks.next_if_eq(&next).is_some() && data.len() / index(block) < self.limits.piece {
                data.extend(self.load(device, ino, next)?);
                next += 1;
            }
            let size = self.contents(ino)?.size;
            self.send(device, (ino, first), &data, (size, mtime), false)?;
        }
        self.land(device, ino)
    }

    /// Writes all blocks that lie in the log in part into zones.
    pub(crate) fn promote_all<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        let has_patches = |inode: &crate::tree::Inode| {
            inode.contents().is_some_and(|contents| !contents.patches.is_empty())
        };
        let files: Vec<Ino> =
            self.tree.inodes().filter(|(_, inode)| has_patches(inode)).map(|(ino, _)| ino).collect();
        files.into_iter().try_for_each(|ino| self.promote(device, ino, true))
    }

    /// Gives a file a size. What lies behind it is gone; what is new reads as zeroes.
    pub(crate) fn resize<D: ZoneDevice>(
        &mut self,
        device: &D,
        ino: Ino,
        size: u64,
        now: u64,
    ) -> Result<(), Error> {
        self.writable()?;
        let block = device.shape().block;
        if size > MAX_SIZE {
            return Err(Error::FileTooLong);
        }
        self.land(device, ino)?;
        let before = self.size(ino)?;
        if size < self.contents(ino)?.size {
            let zeroes = self.zeroes_bytes(ino, size, size.next_multiple_of(block as u64))?;
            self.reserve_metadata(device, Claim::Change, zeroes)?;
        }
        if size < before {
            self.drop_dirty(ino, size.div_ceil(block as u64), u64::MAX);
            let (last, tail) = (size / block as u64, index(size % block as u64));
            if self.active.get_mut(&ino).is_some_and(|active| !active.dirty.cut(last, tail)) {
                self.drop_dirty(ino, last, last + 1);
            }
        }
        let logged = self.contents(ino)?.size;
        let mut in_memory = false;
        if let Some(active) = self.active.get_mut(&ino) {
            in_memory = !active.dirty.is_empty();
            (active.size, active.mtime) = (in_memory.then_some(size), now);
        }
        // The log must not tell of a size whose bytes it does not know, nor keep what lies behind the new one.
        if !in_memory || size < logged {
            self.record(&Record::Size { ino, size, mtime: now })?;
        }
        self.forget_if_clean(ino)
    }

    /// Makes a hole of bytes of a file. Its size stays.
    pub(crate) fn punch<D: ZoneDevice>(
        &mut self,
        device: &D,
        ino: Ino,
        (from, to): (u64, u64),
        now: u64,
    ) -> Result<(), Error> {
        self.writable()?;
        let to = to.min(self.size(ino)?);
        if from >= to {
            return Ok(());
        }
        // What is in memory would lie over the hole.
        self.write_out(device, ino)?;
        self.land(device, ino)?;
        let bytes = self.hole_bytes(ino, from, to)?;
        self.reserve_metadata(device, Claim::Change, bytes)?;
        self.record(&Record::Hole { ino, from, to, mtime: now })
    }
}

#[cfg(test)]
mod tests {
    use crate::record::{Attributes, Ino, NewKind};
    use crate::simulated::Simulated;
    use crate::{Change, Error, Placement, Store};

    /// What is there of a file after a crash that follows the sync of another one.
    fn survives(
        limits: impl FnOnce(&mut crate::state::Limits),
        act: impl FnOnce(&Store<Simulated>, Ino) -> Result<(), Error>,
    ) -> Vec<u8> {
        let store = Store::open(Simulated::formatted(), Placement::default()).unwrap();
        limits(&mut store.lock().limits);
        let make = |name: &[u8]| store.create(Ino::ROOT, name, NewKind::File, Attributes::default()).unwrap();
        let (one, other) = (make(b"one").ino, make(b"other").ino);
        act(&store, one).unwrap();
        store.sync(other).unwrap();
        let device = store.abandon();
        device.restore_power();
        let store = Store::open(device, Placement::default()).unwrap();
        let mut contents = vec![0; usize::try_from(store.stat(one).unwrap().size).unwrap()];
        assert_eq!(store.read(one, 0, &mut contents), Ok(contents.len()));
        contents
    }

    /// The first block of a write makes the store write out the last one, which is in memory already.
    #[test]
    fn a_write_between_two_blocks_in_memory_loses_nothing() {
        let store = Store::open(Simulated::formatted(), Placement::default()).unwrap();
        {
            // As where the log has no place for parts of blocks.
            let limits = &mut store.lock().limits;
            (limits.direct, limits.inline) = (4, 0);
        }
        let file = store.create(Ino::ROOT, b"file", NewKind::File, Attributes::default()).unwrap().ino;
        store.write(file, 6144, &[7; 512], 1).unwrap();
        store.write(file, 100, &[8; 6144], 1).unwrap();
        // This writes out what is in memory.
        store.change(file, &Change { mtime: Some(2), ..Change::default() }, 2).unwrap();
        let mut there = vec![0; 6656];
        assert_eq!(store.read(file, 0, &mut there), Ok(6656));
        assert!(there[..100] == [0; 100] && there[100..6244] == [8; 6144], "the second write");
        assert!(there[6244..] == [7; 412], "the first write has {:?}", &there[6240..6250]);
    }

    #[test]
    fn a_size_is_not_durable_before_its_bytes() {
        for size in [600, 1000, 3000] {
            let contents = survives(
                |_| {},
                |store, one| {
                    store.write(one, 0, &[7; 1000], 1)?;
                    store.truncate(one, size, 2)
                },
            );
            let wrong = contents.iter().zip(0..).find(|(byte, at)| **byte != if *at < 1000 { 7 } else { 0 });
            assert_eq!(wrong, None, "truncated to {size}");
        }
        let contents = survives(
            |limits| limits.direct = 4,
            |store, one| {
                store.write(one, 0, &[7; 1000], 1)?;
                store.write(one, 2048, &[7; 2048], 2)?;
                // The direct write has landed.
                store.read(one, 2048, &mut [0; 512]).map(drop)
            },
        );
        let wrong = contents.iter().zip(0..).find(|(byte, at)| **byte != 7 && !(1000..2048).contains(at));
        assert_eq!(wrong, None, "written behind what is in memory");
    }
}
