//! Data of files on its way to zones: appends that have begun, and whose places the log does not know yet.
//!
//! A file's appends *land* in the order in which they began: their places are recorded. So the log never knows of a size whose bytes it does
//! not know. A caller that needs to know where blocks lie lets them land first.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::device::{Append, DeviceError, Run, ZoneDevice};
use crate::error::Error;
use crate::placement::Newcomer;
use crate::record::{Ino, Record};
use crate::state::{State, UnderWay};

/// How often data is tried again elsewhere when a zone does not take it.
const TRIES: u32 = 8;

impl State {
    /// Blocks under way that files do not have yet.
    pub(crate) fn blocks_under_way(&self) -> u64 {
        self.under_way.iter().map(|data| data.fresh).sum()
    }

    /// Blocks of a file that are under way.
    pub(crate) fn under_way_of(&self, ino: Ino) -> impl Iterator<Item = &UnderWay> {
        self.under_way.iter().filter(move |data| data.ino == ino)
    }

    /// Whether some of the blocks from `first` to `last` (exclusive) of a file are under way.
    pub(crate) fn is_under_way(&self, ino: Ino, first: u64, last: u64) -> bool {
        self.under_way_of(ino).any(|data| data.first < last && first < data.first + data.blocks)
    }

    /// Sends whole blocks of a file to zones, from the block `first` on. None of them is under way. `size` is how long the file is at least. If they
    /// are to be `durable`, their zones are up to the end of the data.
    pub(crate) fn send<D: ZoneDevice>(
        &mut self,
        device: &D,
        (ino, mut first): (Ino, u64),
        mut data: &[u8],
        (size, mtime): (u64, u64),
        durable: bool,
    ) -> Result<(), Error> {
        let block = device.shape().block;
        while !self.may_begin(ino) {
            self.land_next(device)?;
        }
        // Data that goes to two zones has two appends.
        while !data.is_empty() {
            let newcomer = self.newcomer(ino, first, first + (data.len() / block) as u64);
            let zone = self.place(device, &newcomer, false)?;
            let piece = &data[..self.room(zone).saturating_mul(block).min(data.len())];
            let blocks = (piece.len() / block) as u64;
            let contents = self.contents(ino)?;
            let there: u64 = contents.extents.within(first, first + blocks).map(|(_, run)| run.blocks).sum();
            let append = device.begin_append(zone, piece, durable);
            self.space.began(zone, blocks);
            self.reserved_blocks = self.reserved_blocks.saturating_sub(blocks);
            let fresh = blocks - there;
            let data_under_way = UnderWay { ino, first, blocks, fresh, zone, size, mtime, durable, append };
            self.under_way.push_back(data_under_way);
            (first, data) = (first + blocks, &data[piece.len()..]);
        }
        self.write_log_if_long(device)
    }

    /// Waits for the append that began first, and records where its blocks lie.
    pub(crate) fn land_next<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        match self.under_way.front() {
            Some(data) => self.land_first(device, data.ino),
            None => Ok(()),
        }
    }

    /// Waits for all appends of a file, and records where its blocks lie.
    pub(crate) fn land<D: ZoneDevice>(&mut self, device: &D, ino: Ino) -> Result<(), Error> {
        while self.under_way_of(ino).next().is_some() {
            self.land_first(device, ino)?;
        }
        Ok(())
    }

    /// Waits for all appends of all files, and records where their blocks lie.
    pub(crate) fn land_all<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        while !self.under_way.is_empty() {
            self.land_next(device)?;
        }
        Ok(())
    }

    /// Waits for these appends, and for what their files began before them, and records where their blocks lie.
    pub(crate) fn land_those<D: ZoneDevice>(
        &mut self,
        device: &D,
        appends: &[Arc<dyn Append>],
    ) -> Result<(), Error> {
        for append in appends {
            while let Some(data) = self.under_way.iter().find(|data| Arc::ptr_eq(&data.append, append)) {
                self.land_first(device, data.ino)?;
            }
        }
        Ok(())
    }

    /// Waits until the device has carried out all appends.
    pub(crate) fn wait_for_all(&self) {
        for data in &self.under_way {
            // What came of it is asked for again when it lands.
            let _ = data.append.wait();
        }
    }

    /// Waits until the device has carried out all appends to a zone.
    pub(crate) fn wait_for(&self, zone: u32) {
        for data in self.under_way.iter().filter(|data| data.zone == zone) {
            let _ = data.append.wait();
        }
    }

    /// Waits for the first append of a file, and records where its blocks lie.
    fn land_first<D: ZoneDevice>(&mut self, device: &D, ino: Ino) -> Result<(), Error> {
        let Some(at) = self.under_way.iter().position(|data| data.ino == ino) else { return Ok(()) };
        let Some(data) = self.under_way.remove(at) else { return Ok(()) };
        let ended = data.append.wait();
        self.space.ended(data.zone);
        let landed = match ended {
            Ok(runs) => {
                let durable = data.durable && self.durable_appends == self.appends;
                self.count(data.blocks, false);
                if durable {
                    self.durable_appends = self.appends;
                }
                self.place_runs(&data, data.first, &runs)
            }
            Err(DeviceError::Zone { .. }) => self.send_again(device, &data),
            Err(error) => Err(error.into()),
        };
        // The program that wrote this was told that it is written.
        landed.and_then(|()| self.forget_if_clean(ino)).inspect_err(|error| {
            self.lost.insert(ino);
            self.stop(error);
        })
    }

    /// Records where blocks of a file lie.
    fn place_runs(&mut self, data: &UnderWay, mut first: u64, runs: &[Run]) -> Result<(), Error> {
        if self.tree.get(data.ino).is_none() {
            // It was deleted meanwhile.
            return Ok(());
        }
        for run in runs {
            // The log must not tell of a size whose bytes it does not know.
            let size = data.size.min((first + run.blocks) * self.tree.block());
            self.record(&Record::Extent { ino: data.ino, block: first, run: *run, size, mtime: data.mtime })?;
            first += run.blocks;
        }
        Ok(())
    }

    /// A zone did not take what was sent to it. What the file has under way behind that waits until it has a place elsewhere.
    fn send_again<D: ZoneDevice>(&mut self, device: &D, data: &UnderWay) -> Result<(), Error> {
        let (mut behind, others): (VecDeque<UnderWay>, _) =
            self.under_way.drain(..).partition(|other| other.ino == data.ino);
        self.under_way = others;
        for data in &behind {
            // Zones that it fills must be full, or too many would be open.
            let _ = data.append.wait();
        }
        self.retire(device, data.zone)?;
        let bytes = data.append.take_back();
        let (mut first, mut rest) = (data.first, bytes.as_slice());
        while !rest.is_empty() && self.tree.get(data.ino).is_some() {
            let newcomer = self.newcomer(data.ino, first, data.first + data.blocks);
            let runs = self.put(device, &newcomer, rest, false)?;
            self.place_runs(data, first, &runs)?;
            let blocks: u64 = runs.iter().map(|run| run.blocks).sum();
            first += blocks;
            rest = &rest[usize::try_from(blocks).unwrap_or(usize::MAX) * device.shape().block..];
        }
        self.under_way.append(&mut behind);
        Ok(())
    }

    /// Appends whole blocks to a zone of data and waits: as many from the first on as it takes. Tells where they lie, in the order of the data. The caller
    /// records that before it calls this again: a zone that is full, and of which no file has a block, is reset.
    pub(crate) fn put<D: ZoneDevice>(
        &mut self,
        device: &D,
        newcomer: &Newcomer,
        data: &[u8],
        collecting: bool,
    ) -> Result<Vec<Run>, Error> {
        let block = device.shape().block;
        let mut tries = 0;
        loop {
            let zone = self.place(device, newcomer, collecting)?;
            let piece = &data[..self.room(zone).saturating_mul(block).min(data.len())];
            match device.append(zone, piece, false) {
                Ok(runs) => {
                    let blocks = (piece.len() / block) as u64;
                    self.space.wrote(zone, blocks);
                    self.count(blocks, collecting);
                    return Ok(runs);
                }
                Err(DeviceError::Zone { .. }) if tries < TRIES => {
                    tries += 1;
                    self.retire(device, zone)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Blocks that a zone still takes.
    fn room(&self, zone: u32) -> usize {
        let room = self.space.zone(zone).map_or(0, |zone| zone.capacity - zone.written);
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    fn count(&mut self, blocks: u64, collecting: bool) {
        self.appends += 1;
        self.counters.data_blocks += blocks;
        if collecting {
            self.counters.moved_blocks += blocks;
            self.totals.moved += blocks;
        } else {
            self.totals.written += blocks;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::device::Shape;
    use crate::open::FormatOptions;
    use crate::record::{Attributes, Ino, NewKind};
    use crate::simulated::Simulated;
    use crate::{Error, Placement, Store};

    /// What was written is lost: neither zeroes nor what was there before may be read in its place.
    #[test]
    fn a_file_that_lost_a_write_is_not_read() {
        let device = Simulated::formatted();
        let store = Store::open(&device, Placement::None).unwrap();
        store.lock().limits.direct = 1;
        let [kept, lost] = [b"kept".as_slice(), b"lost"]
            .map(|name| store.create(Ino::ROOT, name, NewKind::File, Attributes::default()).unwrap().ino);
        store.write(kept, 0, &[7; 1024], 1).unwrap();
        store.sync_all().unwrap();
        store.write(lost, 0, &[7; 1024], 1).unwrap();
        device.lose_power_after(0);
        assert!(store.sync(lost).is_err());
        device.keep_power();
        let mut there = [0; 1024];
        assert!(matches!(store.read(lost, 0, &mut there), Err(Error::Stopped(_))));
        assert_eq!(store.read(kept, 0, &mut there), Ok(1024));
        assert_eq!(there, [7; 1024]);
    }

    /// Appends of two files are under way to one zone, and one of them fails.
    #[test]
    fn a_zone_is_not_finished_under_appends_of_others() {
        const BLOCK: usize = 512;
        for seed in 0..200 {
            let shape = Shape { block: BLOCK, zone_blocks: 64, zones: 32, open: 6, append_blocks: 16 };
            let device = Simulated::new(shape, 48, seed);
            Store::format(&device, &FormatOptions::default(), [1; 16], 0).unwrap();
            let store = Store::open(&device, Placement::None).unwrap();
            store.lock().limits.direct = 1;
            let files = [b"one".as_slice(), b"other"]
                .map(|name| store.create(Ino::ROOT, name, NewKind::File, Attributes::default()).unwrap().ino);
            store.sync_all().unwrap();
            device.fail(500_000_000, 0);
            for number in 0..4 {
                for ino in files {
                    let _ = store.write(ino, number * 2 * BLOCK as u64, &[7; 2 * BLOCK], 1);
                }
            }
            let _ = store.sync(files[0]);
            device.fail(0, 0);
            assert_eq!(device.finished_in_doubt(3), [0; 0], "seed {seed}: full, and not durable");
        }
    }
}
