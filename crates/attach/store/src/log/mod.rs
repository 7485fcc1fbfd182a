//! The log of the metadata: epochs, each of which begins with a snapshot of the tree, and goes on with what changed.
//!
//! An epoch lies in one or more of the device's first zones. Each of these zones begins with a frame that says which epoch it belongs
//! to, and which zone of it this is. Every opening for writing begins a new epoch, so a log is never continued behind what a crash left.
//!
//! The newest epoch belongs to the program that has the store. A program that begins an epoch, or another zone of its own, then looks whether a
//! newer one was begun: of two that do so at once, at least one sees the other. See [`Log::claim`].

mod frame;
mod read;

use std::sync::Arc;
use std::time::Instant;

use crate::device::{Append, Condition, DeviceError, Run, Zone, ZoneDevice};
use crate::error::Error;
use crate::record::Record;
use frame::{FrameHeader, FrameKind, HEADER, Part};

use read::Starts;

pub use frame::Layout;
pub(crate) use read::{Finding, Found, MAX_DEFAULT_LOG_ZONES, find, identify, offline};

/// Counts how far the log was written: the larger one was later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct Position(u64);

/// A frame on its way to the log.
#[derive(Debug)]
pub(crate) struct FrameUnderWay {
    payload: Vec<u8>,
    durable: bool,
    zone: u32,
    blocks: u64,
    pub(crate) append: Arc<dyn Append>,
}

/// The log that is being written.
#[derive(Debug)]
pub(crate) struct Log {
    layout: Layout,
    id: [u8; 16],
    epoch: u64,
    sequence: u64,
    /// Its zones, in their order. The last one is being written.
    chain: Vec<u32>,
    /// Zones of the epoch that were begun, also those that failed at it.
    begun: Vec<u32>,
    /// Zones of the epoch before, until its successor is durable.
    replaced: Vec<u32>,
    /// Zones that did not take their first frame. The epoch after the one that began them takes them back.
    failed: Vec<u32>,
    /// Zones of the log that are offline.
    offline: Vec<u32>,
    /// Another program has the store. That stays so: this one can only open it again.
    is_taken: bool,
    /// Blocks that the last zone still takes.
    room: u64,
    /// Where the next of them is.
    next_lba: u64,
    /// Empty zones.
    free: Vec<u32>,
    /// Zones that the program which had the store before may be about to reset, or to write to.
    contested: Vec<u32>,
    /// When the first epoch of this program began, or shortly after.
    claimed: Instant,
    /// How many of them are kept for the next snapshot. A crash can leave any state of the epoch, so it is the largest that there may be.
    kept: u64,
    /// Blocks of the snapshot, and of all.
    snapshot_blocks: u64,
    blocks: u64,
    position: Position,
}

impl Log {
    /// A log that has no epoch yet, on zones in these states. `epoch` is the newest that lies on the device.
    pub(crate) fn new(layout: Layout, id: [u8; 16], epoch: u64, zones: &[Zone]) -> Self {
        let log_zones = || (0..layout.log_zones).zip(zones);
        let is_empty = |state: &Zone| state.condition == Condition::Writable && state.written == 0;
        let free = log_zones().filter(|(_, state)| is_empty(state)).map(|(zone, _)| zone).collect();
        let offline = offline(layout.log_zones, zones).collect();
        Self {
            layout,
            id,
            epoch,
            sequence: 0,
            chain: Vec::new(),
            begun: Vec::new(),
            replaced: Vec::new(),
            failed: Vec::new(),
            offline,
            is_taken: false,
            room: 0,
            next_lba: 0,
            free,
            contested: Vec::new(),
            claimed: Instant::now(),
            kept: 0,
            snapshot_blocks: 0,
            blocks: 0,
            position: Position::default(),
        }
    }

    /// Which store this is.
    pub(crate) fn id(&self) -> [u8; 16] {
        self.id
    }

    /// How the store lies on its device.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// The zones of the epoch, in their order.
    pub(crate) fn chain(&self) -> &[u32] {
        &self.chain
    }

    /// Whether a zone of the epoch, or of the one before, did not take its first frame.
    #[cfg(test)]
    pub(crate) fn has_begun_in_vain(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Whether its last zone takes no more records.
    #[cfg(test)]
    pub(crate) fn has_no_room(&self) -> bool {
        self.room == 0
    }

    /// How far it was written.
    pub(crate) fn position(&self) -> Position {
        self.position
    }

    /// Zones that a snapshot may take, so that two of them have place, and, unless zones are worn out, a zone for what follows. One that did not take its
    /// first frame counts: it comes back once the next snapshot lies in zones that are kept for it.
    fn snapshot_zones(&self) -> u64 {
        let usable = (self.chain.len() + self.replaced.len() + self.free.len() + self.failed.len()) as u64;
        (u64::from(self.layout.log_zones.saturating_sub(1)) / 2).min(usable / 2)
    }

    /// Bytes that a snapshot may have. Frames are padded to whole blocks. Each zone begins with one more, and the last one is cut at the end.
    pub(crate) fn snapshot_limit(&self, capacity: u64) -> u64 {
        self.snapshot_zones() * capacity.saturating_sub(8) * u64::from(self.layout.block) / 8 * 7
    }

    /// Whether a new epoch should begin: the log is much longer than its snapshot, or only what the next snapshot takes is free.
    pub(crate) fn is_long(&self, capacity: u64) -> bool {
        let changes = self.blocks - self.snapshot_blocks;
        changes > self.snapshot_blocks.max(capacity) || self.free.len() as u64 <= self.kept
    }

    /// Begins the next epoch in an empty zone. From then on no other program can add anything to an older epoch that counts: it cannot write to zones that
    /// are finished now, and where it begins another one, it finds this epoch.
    ///
    /// # Errors
    /// Another program claims the store at the same time, the device failed, or no zone of the log is empty.
    pub(crate) fn claim<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        self.replaced = std::mem::take(&mut self.chain);
        (self.epoch, self.sequence, self.room, self.blocks) = (self.epoch + 1, 0, 0, 0);
        self.begun.clear();
        self.kept = 0;
        self.next_zone(device, false)?;
        let Starts { zones, found: starts } = read::starts(device, self.id, self.layout.log_zones)?;
        for (zone, state) in (0..).zip(zones) {
            // They must not take the place of one that is open. One that was full can have room again after a loss of power. If one cannot be
            // finished, it takes no place. A program that has begun an epoch as new as this one may need its zone: it has the store.
            let is_active = state.condition == Condition::Writable && state.written > 0;
            let is_older = starts.iter().all(|(start, epoch)| *start != zone || *epoch < self.epoch);
            if is_active && is_older {
                let _ = device.finish(zone);
            }
        }
        Ok(())
    }

    /// Writes the snapshot that the epoch begins with, makes it durable, and empties the zones of the epoch before.
    ///
    /// # Errors
    /// Another program has the store, the device failed, or the log has not enough zones.
    pub(crate) fn write_snapshot<D: ZoneDevice>(
        &mut self,
        device: &D,
        snapshot: impl Iterator<Item = Record>,
    ) -> Result<(), Error> {
        let per_frame = usize::try_from(device.shape().append_blocks).unwrap_or(usize::MAX);
        // Frames as long as can be: the zones that are kept suffice for no more of them.
        let frame = per_frame.saturating_mul(device.shape().block) - HEADER;
        let mut bytes = Vec::new();
        for record in snapshot {
            record.encode(&mut bytes);
            while bytes.len() >= frame {
                self.append(device, &bytes[..frame], false)?;
                bytes.drain(..frame);
            }
        }
        self.append(device, &bytes, false)?;
        self.write_frame(device, (FrameKind::SnapshotEnd, false), &[])?;
        self.snapshot_blocks = self.blocks;
        device.flush()?;
        self.look(device)?;
        self.refuse_lost_zones()?;
        let (own, failed) =
            std::mem::take(&mut self.failed).into_iter().partition(|zone| self.begun.contains(zone));
        self.failed = own;
        for zone in std::mem::take(&mut self.replaced).into_iter().chain::<Vec<u32>>(failed) {
            self.take_back(device, zone)?;
        }
        self.kept = self.snapshot_zones();
        Ok(())
    }

    /// Looks whether the store still belongs to this program, and its log is there.
    ///
    /// # Errors
    /// - [`Error::Taken`]: another program has begun a newer epoch.
    /// - [`Error::Changed`]: a zone of the log has lost its beginning.
    /// - The device failed.
    pub(crate) fn look<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        self.look_for(device, self.epoch + 1)
    }

    /// The epoch is of no use when one of its zones is offline. The next one has everything.
    fn refuse_lost_zones(&self) -> Result<(), Error> {
        let is_lost = self.chain.iter().any(|zone| self.offline.contains(zone));
        if is_lost { Err(Error::LogFull) } else { Ok(()) }
    }

    /// Looks whether another program has begun this epoch, or a newer one.
    fn look_for<D: ZoneDevice>(&mut self, device: &D, epoch: u64) -> Result<(), Error> {
        // A program that takes the store over can empty a zone of this epoch while this looks. Then its own is found the second time.
        self.look_once(device, epoch).or_else(|error| match error {
            Error::Changed => self.look_once(device, epoch),
            error => Err(error),
        })
    }

    fn look_once<D: ZoneDevice>(&mut self, device: &D, epoch: u64) -> Result<(), Error> {
        if self.is_taken {
            return Err(Error::Taken);
        }
        let Starts { zones, found: starts } = read::starts(device, self.id, self.layout.log_zones)?;
        self.offline = offline(self.layout.log_zones, &zones).collect();
        // A zone that this one has begun in vain can have an epoch of another program.
        let is_own = |zone, found| found == self.epoch && self.begun.contains(zone);
        if starts.iter().any(|(zone, found)| *found >= epoch && !is_own(zone, *found)) {
            self.is_taken = true;
            return Err(Error::Taken);
        }
        let is_there = |zone: &&u32| self.offline.contains(zone) || starts.contains(&(**zone, self.epoch));
        if self.chain.iter().all(|zone| is_there(&zone)) { Ok(()) } else { Err(Error::Changed) }
    }

    /// The zones of the epoch that this one replaces. Another program wrote them.
    pub(crate) fn replace(&mut self, chain: Vec<u32>) {
        self.claimed = Instant::now();
        self.contested.extend(&chain);
        self.replaced = chain;
    }

    /// Empties a zone that an older epoch had. The program which had the store before may be about to reset it, too.
    pub(crate) fn take_from_before<D: ZoneDevice>(&mut self, device: &D, zone: u32) -> Result<(), Error> {
        self.contested.push(zone);
        self.take_back(device, zone)
    }

    /// Empties a zone that no epoch needs any more. It is used again after all others.
    pub(crate) fn take_back<D: ZoneDevice>(&mut self, device: &D, zone: u32) -> Result<(), Error> {
        self.look(device)?;
        match device.reset(zone) {
            Ok(()) => self.free.insert(0, zone),
            // It is worn out. The log does with those that are left.
            Err(DeviceError::Zone { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// An empty zone has something in it. A program that lost the store can have sent a frame before: then the zone is emptied once more.
    /// Another program would not use the zone before it has emptied it, and waited. If an epoch begins in it that is as new as this one, it is left alone.
    fn empty_again<D: ZoneDevice>(&mut self, device: &D, zone: u32, state: &Zone) -> Result<(), Error> {
        if !matches!(state.condition, Condition::Writable | Condition::Full) {
            return Ok(());
        }
        let mut block = vec![0; device.shape().block];
        device.read(device.shape().start_of(zone), &mut block)?;
        match frame::decode(&block) {
            Some((header, _)) if header.epoch >= self.epoch => Ok(()),
            _ => self.take_back(device, zone),
        }
    }

    /// Writes a piece of the stream of records at the end. If it is to be `durable`, all of the log is that was durable before, and the piece.
    ///
    /// # Errors
    /// The device failed, or the log has not enough zones besides those that are kept.
    pub(crate) fn append<D: ZoneDevice>(
        &mut self,
        device: &D,
        mut bytes: &[u8],
        durable: bool,
    ) -> Result<(), Error> {
        while !bytes.is_empty() {
            if self.room == 0 {
                self.next_zone(device, durable)?;
            }
            let (piece, rest) = bytes.split_at(self.most(device).min(bytes.len()));
            self.write_frame(device, (FrameKind::Records, durable), piece)?;
            bytes = rest;
        }
        Ok(())
    }

    /// Begins to write a piece of the stream of records that has place in one frame. Until it has [ended](Log::end), nothing else is written.
    /// `None`: it is too long.
    ///
    /// # Errors
    /// As of [`append`](Log::append).
    pub(crate) fn begin<D: ZoneDevice>(
        &mut self,
        device: &D,
        bytes: &[u8],
        durable: bool,
    ) -> Result<Option<FrameUnderWay>, Error> {
        if self.room == 0 {
            self.next_zone(device, durable)?;
        }
        let Some(zone) = self.chain.last().copied() else { return Err(Error::LogFull) };
        if bytes.len() > self.most(device) {
            return Ok(None);
        }
        let (frame, blocks) = self.frame(FrameKind::Records, bytes, device.shape().block);
        let append = device.begin_append(zone, &frame, durable);
        Ok(Some(FrameUnderWay { payload: bytes.to_vec(), durable, zone, blocks, append }))
    }

    /// Waits until a frame is written. Takes another zone if that one does not take it.
    ///
    /// # Errors
    /// As of [`append`](Log::append).
    pub(crate) fn end<D: ZoneDevice>(&mut self, device: &D, frame: FrameUnderWay) -> Result<(), Error> {
        let ended = frame.append.wait().map_err(Error::from);
        match ended.and_then(|runs| self.appended(device, frame.zone, &runs, frame.blocks)) {
            Err(Error::Device(DeviceError::Zone { .. })) => {
                self.room = 0;
                self.write_frame(device, (FrameKind::Records, frame.durable), &frame.payload)
            }
            result => result,
        }
    }

    /// Bytes of records that one frame takes in the last zone.
    fn most<D: ZoneDevice>(&self, device: &D) -> usize {
        let blocks = device.shape().append_blocks.min(self.room);
        usize::try_from(blocks).unwrap_or(usize::MAX).saturating_mul(device.shape().block) - HEADER
    }

    /// The next frame, and its length in blocks.
    fn frame(&self, kind: FrameKind, payload: &[u8], block: usize) -> (Vec<u8>, u64) {
        let header = FrameHeader { kind, id: self.id, epoch: self.epoch, sequence: self.sequence };
        let frame = frame::encode(&header, payload, block);
        let blocks = (frame.len() / block) as u64;
        (frame, blocks)
    }

    /// Writes a frame that has place in a zone. Takes another zone if this one does not take it.
    fn write_frame<D: ZoneDevice>(
        &mut self,
        device: &D,
        frame: (FrameKind, bool),
        payload: &[u8],
    ) -> Result<(), Error> {
        loop {
            if self.room == 0 {
                self.next_zone(device, frame.1)?;
            }
            match self.put(device, frame, payload) {
                Err(Error::Device(DeviceError::Zone { .. })) => self.room = 0,
                result => return result,
            }
        }
    }

    /// Appends a frame to the last zone.
    fn put<D: ZoneDevice>(
        &mut self,
        device: &D,
        (kind, durable): (FrameKind, bool),
        payload: &[u8],
    ) -> Result<(), Error> {
        let Some(zone) = self.chain.last().copied() else { return Err(Error::LogFull) };
        let (frame, blocks) = self.frame(kind, payload, device.shape().block);
        if blocks > self.room {
            // The device has changed its mind about the zone. Another one has more room.
            return Err(DeviceError::Zone { zone, problem: "it has not enough room".into() }.into());
        }
        let runs = device.append(zone, &frame, durable)?;
        self.appended(device, zone, &runs, blocks)
    }

    /// A frame lies in the last zone now.
    fn appended<D: ZoneDevice>(
        &mut self,
        device: &D,
        zone: u32,
        runs: &[Run],
        blocks: u64,
    ) -> Result<(), Error> {
        match runs.first() {
            Some(run) if run.lba == self.next_lba => {}
            run => {
                // Another program has the store, or had it before and has only now found that out.
                self.look(device)?;
                self.pass_strays(device, zone, run.ok_or(Error::Changed)?.lba)?;
            }
        }
        self.next_lba += blocks;
        self.sequence += 1;
        self.room = self.room.saturating_sub(blocks);
        self.blocks += blocks;
        self.position.0 += 1;
        Ok(())
    }

    /// Passes frames of another program that lie in the last zone before a frame of this one. The other program was about to write them when it lost the
    /// store. Readers of the log pass them, too.
    ///
    /// # Errors
    /// - [`Error::Changed`]: the frame lies before the place where the zone ended, or another program has the zone.
    /// - [`DeviceError::Zone`]: something else than whole frames lies there.
    fn pass_strays<D: ZoneDevice>(&mut self, device: &D, zone: u32, lba: u64) -> Result<(), Error> {
        // A zone belongs to the program whose frame is the first.
        let is_first = self.next_lba == device.shape().start_of(zone);
        let blocks = match lba.checked_sub(self.next_lba) {
            Some(blocks) if !is_first => blocks,
            _ => return Err(Error::Changed),
        };
        let mut strays = vec![0; usize::try_from(blocks).unwrap_or(0) * device.shape().block];
        device.read(self.next_lba, &mut strays)?;
        let mut rest = strays.as_slice();
        while !rest.is_empty() {
            let length = frame::decode(rest).map(|(_, payload)| frame::length(payload, device.shape().block));
            let Some(behind) = length.and_then(|length| rest.get(length..)) else {
                let problem = "something that is no frame lies in the log".into();
                return Err(DeviceError::Zone { zone, problem }.into());
            };
            rest = behind;
        }
        self.next_lba = lba;
        self.room = self.room.saturating_sub(blocks);
        Ok(())
    }

    /// Goes on in an empty zone.
    fn next_zone<D: ZoneDevice>(&mut self, device: &D, durable: bool) -> Result<(), Error> {
        // Until it has its first zone, the epoch also loses to another one of its number.
        let lost_to = self.epoch + u64::from(!self.chain.is_empty());
        if let Some(last) = self.chain.last().copied() {
            self.look(device)?;
            self.refuse_lost_zones()?;
            // That it is full says that the log has left it.
            let _ = device.finish(last);
            // The log has two places on the device. One that was full takes one after a loss of power, if it has lost its end. The other is that
            // of the zone which comes now, or in which the epoch before ended.
            device.flush()?;
        }
        loop {
            let may_take = self.free.len() as u64 > self.kept;
            let zone = if may_take { self.free.pop() } else { None };
            let Some(zone) = zone else {
                // Another program that has the store now may have taken it.
                self.look_for(device, lost_to)?;
                return Err(Error::LogFull);
            };
            if self.contested.contains(&zone) {
                device.pause((device.lease() * 2).saturating_sub(self.claimed.elapsed()))?;
                self.contested.clear();
            }
            let state = device.zone(zone)?;
            if state.condition != Condition::Writable || state.written > 0 {
                self.empty_again(device, zone, &state)?;
                continue;
            }
            assert!(!self.chain.contains(&zone), "the log goes on in its zone {zone}");
            let index = u32::try_from(self.begun.len()).unwrap_or(u32::MAX);
            self.begun.push(zone);
            self.chain.push(zone);
            // One that the epoch before had is missed until this one is whole.
            let offline = self.offline.iter().copied().filter(|zone| !self.replaced.contains(zone)).collect();
            let part = Part { index, first: self.chain.first().copied(), offline };
            // It is not filled to its end: a zone that is full was left.
            (self.room, self.next_lba) = (state.capacity - 1, device.shape().start_of(zone));
            match self.put(device, (FrameKind::Start, durable), &self.layout.encode(&part)) {
                // Another program that has begun an epoch meanwhile finds this zone, or is found now.
                Ok(()) => return self.look_for(device, lost_to),
                Err(Error::Device(DeviceError::Zone { .. })) => {
                    let _ = device.finish(zone);
                    self.chain.pop();
                    self.failed.push(zone);
                    self.room = 0;
                }
                Err(Error::Changed) => {
                    // Another program has put something into the zone since it was empty. If that is an epoch of the same number, the zone is not this one's.
                    self.begun.pop();
                    self.chain.pop();
                    return self.look_for(device, self.epoch).and(Err(Error::Changed));
                }
                Err(error) => return Err(error),
            }
        }
    }
}
