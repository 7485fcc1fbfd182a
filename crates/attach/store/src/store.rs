//! The store as programs use it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::device::ZoneDevice;
use crate::error::Error;
use crate::files::Read;
use crate::metadata::Claim;
use crate::open::{self, FormatOptions};
use crate::placement::Placement;
use crate::reason::Reason;
use crate::record::{Attributes, Ino};
use crate::state::{Counters, State, UnderWay};

/// What `stat` tells of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stat {
    /// Its number.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
    /// Owner, permissions, times.
    pub attributes: Attributes,
    /// Names that it has; of a directory, also those within it.
    pub links: u32,
    /// Length in bytes; of a symbolic link, that of its target.
    pub size: u64,
    /// Logical blocks of the device that it has.
    pub blocks: u64,
}

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

/// How the store is filled. Blocks are logical blocks of the device.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Usage {
    /// Bytes of a block.
    pub block: u64,
    /// Blocks that files may have.
    pub blocks: u64,
    /// Of these, blocks that no file has.
    pub free_blocks: u64,
    /// Files, directories and symbolic links.
    pub inodes: u64,
    /// Inodes that can be made besides those, if their names have 55 bytes.
    pub free_inodes: u64,
    /// Bytes of the metadata in a snapshot, at most, when all that is in memory has been written.
    pub metadata: u64,
    /// Bytes that the metadata may have with something new. Changes of what is there may use a fourteenth more, and garbage collection two.
    pub metadata_limit: u64,
    /// Zones of data: empty, open, closed, dead (they will be reset), broken.
    pub zones: [usize; 5],
    /// Zones of the log.
    pub log_zones: u32,
    /// Zones of data that no file can take.
    pub reserved_zones: u32,
    /// Blocks of files that programs wrote to zones since the store was made.
    pub written_blocks: u64,
    /// Blocks that garbage collection wrote since the store was made.
    pub moved_blocks: u64,
}

impl Usage {
    /// Blocks that were written to zones for each block that programs wrote, since the store was made; 1 if nothing was written.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        match self.written_blocks {
            0 => 1.0,
            written => (written + self.moved_blocks) as f64 / written as f64,
        }
    }
}

/// A store on a device with zones. All methods may be called from several threads.
///
/// What a program writes is visible at once, and durable after [`sync`](Store::sync). Changes of names survive a crash in their order:
/// if one is there after it, all earlier ones are.
#[derive(Debug)]
pub struct Store<D> {
    pub(crate) device: D,
    pub(crate) state: Mutex<State>,
}

impl<D: ZoneDevice> Store<D> {
    /// Makes an empty store on a device. `id` tells it from others, `now` is the time in nanoseconds since 1970.
    ///
    /// # Errors
    /// The device cannot carry a store, holds something, or failed.
    pub fn format(device: &D, options: &FormatOptions, id: [u8; 16], now: u64) -> Result<(), Error> {
        open::format(device, options, id, now)
    }

    /// Opens the store on a device. No other program may write to the device. With `None`, the placement is that which [`FormatOptions::placement`] or the attribute
    /// [`Placement::XATTR`] of the top directory says.
    ///
    /// # Errors
    /// There is no store, it is damaged or was made for another device, or the device failed.
    pub fn open(device: D, placement: impl Into<Option<Placement>>) -> Result<Self, Error> {
        let state = open::open(&device, false, placement.into())?;
        Ok(Self { device, state: Mutex::new(state) })
    }

    /// Opens the store on a device, and changes nothing.
    ///
    /// # Errors
    /// As [`open`](Store::open).
    pub fn open_read_only(device: D) -> Result<Self, Error> {
        let state = open::open(&device, true, None)?;
        Ok(Self { device, state: Mutex::new(state) })
    }

    /// Makes everything durable, and gives the device back.
    ///
    /// # Errors
    /// The device failed. What was synced before is durable.
    pub fn close(self) -> Result<D, Error> {
        if self.lock().writable().is_ok() {
            self.sync_all()?;
        }
        Ok(self.device)
    }

    /// The device, without writing what is not yet written: as if the program had crashed.
    pub fn abandon(self) -> D {
        self.device
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is a bug; the store goes on with what others see.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn device_zone(&self, lba: u64) -> u32 {
        self.device.shape().zone_of(lba)
    }

    pub(crate) fn block(&self) -> u64 {
        self.device.shape().block as u64
    }

    /// Reads from a file into a buffer. Returns how many bytes there are: fewer than asked for only at the end of the file.
    ///
    /// # Errors
    /// There is no such file, or the device failed.
    pub fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut reads = [Read { offset, buffer, length: 0 }];
        self.read_many(ino, &mut reads)?;
        Ok(reads[0].length)
    }

    /// Writes bytes to a file. They are durable after [`sync`](Store::sync).
    ///
    /// # Errors
    /// There is no such file, there is no space, or the device failed.
    pub fn write(&self, ino: Ino, offset: u64, data: &[u8], now: u64) -> Result<(), Error> {
        let mut state = self.with_room(ino, |_| Ok(offset), data.len())?.0;
        state.write(&self.device, ino, offset, data, now)
    }

    /// Writes bytes at the end of a file, and returns the offset of the first.
    ///
    /// # Errors
    /// As [`write`](Store::write).
    pub fn append(&self, ino: Ino, data: &[u8], now: u64) -> Result<u64, Error> {
        let (mut state, end) = self.with_room(ino, |state| state.size(ino), data.len())?;
        state.write(&self.device, ino, end, data, now)?;
        Ok(end)
    }

    /// The state, when a write of a file's bytes from an offset on need not wait for appends that are under way; and the offset.
    fn with_room(
        &self,
        ino: Ino,
        offset: impl Fn(&State) -> Result<u64, Error>,
        length: usize,
    ) -> Result<(MutexGuard<'_, State>, u64), Error> {
        let mut state = self.lock();
        loop {
            let offset = offset(&state)?;
            let end = offset.saturating_add(length as u64).div_ceil(self.block());
            if state.is_under_way(ino, offset / self.block(), end) {
                state = self.land(state, |data| data.ino == ino)?;
            } else if state.may_begin(ino) {
                return Ok((state, offset));
            } else {
                state = self.make_room(state, ino)?;
            }
        }
    }

    /// Waits until data of a file may be sent.
    fn make_room<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        ino: Ino,
    ) -> Result<MutexGuard<'a, State>, Error> {
        while !state.may_begin(ino) {
            let oldest = state.under_way.front().map(|data| Arc::clone(&data.append));
            let is_oldest =
                |data: &UnderWay| oldest.as_ref().is_some_and(|oldest| Arc::ptr_eq(oldest, &data.append));
            state = self.land(state, is_oldest)?;
        }
        Ok(state)
    }

    /// Lets those of the appends land that are under way now and that the caller asks for. Others go on while the device works, and may begin more.
    pub(crate) fn land<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        is_asked_for: impl Fn(&UnderWay) -> bool,
    ) -> Result<MutexGuard<'a, State>, Error> {
        let asked_for = state.under_way.iter().filter(|data| is_asked_for(data));
        let appends: Vec<_> = asked_for.map(|data| Arc::clone(&data.append)).collect();
        if appends.is_empty() {
            return Ok(state);
        }
        drop(state);
        for append in &appends {
            // What came of it is asked for again when it lands.
            let _ = append.wait();
        }
        let mut state = self.lock();
        state.land_those(&self.device, &appends)?;
        Ok(state)
    }

    /// Gives a file a size.
    ///
    /// # Errors
    /// There is no such file, or it would be too long.
    pub fn truncate(&self, ino: Ino, size: u64, now: u64) -> Result<(), Error> {
        let mut state = self.land(self.lock(), |data| data.ino == ino)?;
        state.resize(&self.device, ino, size, now)
    }

    /// Makes a hole of the bytes from `from` to `to` (exclusive) of a file. They read as zeroes. The size stays.
    ///
    /// # Errors
    /// There is no such file, or the device failed.
    pub fn punch(&self, ino: Ino, from: u64, to: u64, now: u64) -> Result<(), Error> {
        let mut state = self.land(self.lock(), |data| data.ino == ino)?;
        state.punch(&self.device, ino, (from, to), now)
    }

    /// Makes a file durable, and with it all changes of names and attributes that were made before.
    ///
    /// # Errors
    /// There is no such file, or the device failed. After a failure of the device the store takes no changes any more.
    pub fn sync(&self, ino: Ino) -> Result<(), Error> {
        let mut state = self.lock();
        state.writable()?;
        state = self.land(state, |data| data.ino == ino)?;
        if state.active.contains_key(&ino) {
            state = self.make_room(state, ino)?;
            state.write_out_to_sync(&self.device, ino)?;
            state = self.land(state, |data| data.ino == ino)?;
        }
        self.make_durable(state)
    }

    /// Makes all changes of names and attributes durable.
    ///
    /// # Errors
    /// As [`sync`](Store::sync).
    pub fn sync_names(&self) -> Result<(), Error> {
        let state = self.lock();
        state.writable()?;
        self.make_durable(state)
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// As [`sync`](Store::sync).
    pub fn sync_all(&self) -> Result<(), Error> {
        let mut state = self.lock();
        state.writable()?;
        state = self.land(state, |_| true)?;
        let files: Vec<Ino> = state.active.keys().copied().collect();
        let mut failed = None;
        for ino in files {
            state = self.make_room(state, ino)?;
            // A file that lost a zone keeps no other from being durable.
            failed = failed.or(state.write_out(&self.device, ino).err());
        }
        state = self.land(state, |_| true)?;
        let durable = self.make_durable(state);
        failed.map_or(durable, Err)
    }

    /// Makes all records durable that the tree has now, and the data that they refer to. Others go on while the device works.
    fn make_durable<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Result<(), Error> {
        state.writable()?;
        let (records, appends) = (state.recorded, state.appends);
        while state.logged < records {
            let Some(writing) = &state.writing else {
                state.begin_writing(&self.device)?;
                continue;
            };
            let append = Arc::clone(&writing.frame.append);
            drop(state);
            // What came of it is asked for again when it has ended.
            let _ = append.wait();
            state = self.lock();
            state.writable()?;
            if state.writing.as_ref().is_some_and(|writing| Arc::ptr_eq(&writing.frame.append, &append)) {
                state.end_writing(&self.device)?;
            }
        }
        if state.durable_records >= records && state.durable_appends >= appends {
            return Ok(());
        }
        let upto = state.synced_up_to();
        drop(state);
        let flushed = self.device.flush();
        let mut state = self.lock();
        state.writable()?;
        flushed.map_err(Error::from).inspect_err(|error| state.stop(error))?;
        state.flushed(upto);
        Ok(())
    }

    /// Whether something was changed that is not durable yet.
    pub fn has_unsynced(&self) -> bool {
        let state = self.lock();
        let in_memory = state.dirty_blocks > 0 || !state.under_way.is_empty();
        let waits = in_memory || state.recorded > state.logged;
        state.stopped.is_none() && (waits || !state.is_durable())
    }

    /// Whether the device still answers, and the store is still this program's own. If another program has taken it over, the store stops.
    ///
    /// # Errors
    /// It does not, or is not.
    pub fn ask_device(&self) -> Result<(), Error> {
        self.lock().look(&self.device)
    }

    /// Why the store takes no changes any more, if it does not.
    pub fn failure(&self) -> Option<Reason> {
        self.lock().stopped.clone()
    }

    /// What the store has done since it was opened.
    pub fn counters(&self) -> Counters {
        self.lock().counters
    }

    /// What decides which data shares zones.
    pub fn placement(&self) -> Placement {
        self.lock().placement
    }

    /// Which store this is.
    pub fn id(&self) -> [u8; 16] {
        self.lock().log.id()
    }

    /// How the store is filled.
    pub fn usage(&self) -> Usage {
        let state = self.lock();
        let layout = state.log.layout();
        Usage {
            block: self.block(),
            blocks: state.space.usable(),
            free_blocks: state.free_blocks(),
            inodes: state.tree.count() as u64,
            free_inodes: state.free_inodes(),
            metadata: state.owed(),
            metadata_limit: state.metadata_limit(Claim::New),
            zones: state.space.counts(),
            log_zones: layout.log_zones,
            reserved_zones: layout.reserved_zones,
            written_blocks: state.totals.written,
            moved_blocks: state.totals.moved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Condition;
    use crate::record::NewKind;
    use crate::simulated::Simulated;

    #[test]
    fn who_opens_the_store_second_keeps_it() {
        let device = Simulated::formatted();
        let first = Store::open(&device, Placement::default()).unwrap();
        first.create(Ino::ROOT, b"one", NewKind::File, Attributes::default()).unwrap();
        first.sync_all().unwrap();
        let second = Store::open(&device, Placement::default()).unwrap();
        second.create(Ino::ROOT, b"two", NewKind::File, Attributes::default()).unwrap();
        first.create(Ino::ROOT, b"three", NewKind::File, Attributes::default()).unwrap();
        assert_eq!(first.sync_all(), Err(Error::Taken));
        assert!(matches!(first.sync_all(), Err(Error::Stopped(_))));
        second.sync_all().unwrap();
        drop((first, second));
        let third = Store::open_read_only(&device).unwrap();
        let names: Vec<Vec<u8>> =
            third.list(Ino::ROOT, None, 9).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [b"one".to_vec(), b"two".to_vec()]);
    }

    #[test]
    fn zones_that_others_reset_are_told_from_a_store_that_others_opened() {
        let device = Simulated::formatted();
        let store = Store::open(&device, Placement::default()).unwrap();
        store.create(Ino::ROOT, b"one", NewKind::File, Attributes::default()).unwrap();
        store.sync_all().unwrap();
        for zone in 0..32 {
            device.reset(zone).unwrap();
        }
        store.create(Ino::ROOT, b"two", NewKind::File, Attributes::default()).unwrap();
        assert_eq!(store.sync_all(), Err(Error::Changed));
        assert!(store.failure().unwrap().to_string().contains("reset"), "{:?}", store.failure());
    }

    #[test]
    fn a_failed_flush_is_not_forgotten() {
        let device = Simulated::formatted();
        let store = Store::open(&device, Placement::default()).unwrap();
        let file = store.create(Ino::ROOT, b"file", NewKind::File, Attributes::default()).unwrap();
        // Whole blocks go to a zone of data. Together with others they need a Flush.
        store.write(file.ino, 0, &[7; 4096], 1).unwrap();
        device.fail(0, 1_000_000_000);
        assert!(matches!(store.sync_all(), Err(Error::Device(_))));
        device.fail(0, 0);
        assert!(matches!(store.sync(file.ino), Err(Error::Stopped(_))), "nobody knows what is durable");
        assert!(matches!(store.write(file.ino, 0, b"more", 1), Err(Error::Stopped(_))));
        let mut read = [0; 4];
        assert_eq!(store.read(file.ino, 0, &mut read), Ok(4));
    }

    #[test]
    fn a_store_that_stops_under_a_flush_acknowledges_nothing() {
        let mut stopped = 0;
        for calls in 0..40 {
            let device = Simulated::formatted();
            let store = Arc::new(Store::open(device.share(), Placement::default()).unwrap());
            let file = store.create(Ino::ROOT, b"file", NewKind::File, Attributes::default()).unwrap();
            store.write(file.ino, 0, &[7; 4096], 1).unwrap();
            let other = Arc::clone(&store);
            // Who syncs holds the lock, except while the device works.
            device.interrupt_after(calls, move || {
                if let Ok(mut state) = other.state.try_lock() {
                    state.stop(&Error::NoStore);
                }
            });
            let synced = store.sync_all();
            device.do_not_interrupt();
            let has_stopped = store.failure().is_some();
            assert_eq!(synced.is_err(), has_stopped, "after {calls} calls: {synced:?}");
            stopped += u32::from(has_stopped);
        }
        assert!(stopped > 0, "no Flush was interrupted");
    }

    #[test]
    fn a_file_that_cannot_be_written_keeps_no_other_from_being_durable() {
        let device = Simulated::formatted();
        let store = Store::open(&device, Placement::default()).unwrap();
        let file =
            |name: &[u8]| store.create(Ino::ROOT, name, NewKind::File, Attributes::default()).unwrap().ino;
        let (lost, other) = (file(b"lost"), file(b"other"));
        store.write(lost, 0, &[1; 8 * 512], 1).unwrap();
        store.sync_all().unwrap();
        let zone = {
            let mut state = store.lock();
            // A part of a block is written with the rest of it, which has to be read.
            state.limits.file_patches = 0;
            device.shape().zone_of(state.contents(lost).unwrap().extents.iter().next().unwrap().1.lba)
        };
        device.wear_out(zone, Condition::Offline);
        store.write(lost, 10, b"part", 2).unwrap();
        store.write(other, 0, b"whole", 2).unwrap();
        assert!(matches!(store.sync_all(), Err(Error::Device(_))));
        // What was not synced is gone.
        let _ = store.abandon();
        let store = Store::open(&device, Placement::default()).unwrap();
        let mut read = [0; 5];
        assert_eq!(store.read(other, 0, &mut read), Ok(5));
        assert_eq!(&read, b"whole");
    }

    #[test]
    fn a_damaged_log_is_told() {
        let device = Simulated::formatted();
        let store = Store::open(&device, Placement::default()).unwrap();
        for number in 0..20 {
            let name = format!("file {number}");
            store.create(Ino::ROOT, name.as_bytes(), NewKind::File, Attributes::default()).unwrap();
            store.sync_all().unwrap();
        }
        let zone = (0..3).find(|zone| device.zone(*zone).unwrap().written > 10).unwrap();
        drop(store);
        // A frame in the middle: what comes behind it was synced.
        device.damage(zone, 5 * 512 + 70);
        let refused = Store::open_read_only(&device).map(|_| ());
        assert!(matches!(refused, Err(Error::Damaged(_))), "{refused:?}");
        // The last frame could as well never have been durable.
        device.damage(zone, 5 * 512 + 70);
        let last = usize::try_from(device.zone(zone).unwrap().written - 1).unwrap();
        device.damage(zone, last * 512 + 70);
        assert_eq!(Store::open_read_only(&device).unwrap().usage().inodes, 20);
    }
}
