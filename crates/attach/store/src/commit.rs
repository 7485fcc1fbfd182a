//! Records go to the log, and become durable.
//!
//! One append to the log is under way at a time. Programs that sync meanwhile add records to those that wait. The next append takes them all.

use crate::device::ZoneDevice;
use crate::error::Error;
use crate::log::Position;
use crate::record::Record;
use crate::state::{State, Writing};

impl State {
    /// Whether everything is durable that the device has.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable_records == self.logged && self.durable_appends == self.appends
    }

    /// Writes to the log what waits for it.
    pub(crate) fn write_log<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        self.end_writing(device)?;
        self.begin_writing(device)?;
        self.end_writing(device)
    }

    /// Writes the log if much waits for it.
    pub(crate) fn write_log_if_long<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        if self.pending.len() > self.limits.pending { self.write_log(device) } else { Ok(()) }
    }

    /// Begins to write to the log what waits for it. Nothing may be under way to it. If all else is durable, that becomes durable with it, and
    /// needs no Flush. A short piece is under way then; a longer one is written.
    pub(crate) fn begin_writing<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        let durable = self.is_durable();
        self.space.bury(&self.tree);
        let freed = self.space.dead();
        for zone in &freed {
            self.record(&Record::Freed { zone: *zone })?;
        }
        if self.pending.is_empty() {
            return Ok(());
        }
        self.hold(device)?;
        let (pending, records) = (std::mem::take(&mut self.pending), self.recorded);
        let begun = match self.log.begin(device, &pending, durable) {
            Ok(Some(frame)) => {
                self.writing = Some(Writing { frame, records, freed, durable });
                return Ok(());
            }
            Ok(None) => self.append(device, &pending, durable),
            Err(error) => Err(error),
        };
        self.written(device, begun, (records, &freed, durable))
    }

    /// Waits for the append to the log that is under way.
    pub(crate) fn end_writing<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        let Some(Writing { frame, records, freed, durable }) = self.writing.take() else { return Ok(()) };
        let ended = self.log.end(device, frame);
        self.written(device, ended, (records, &freed, durable))
    }

    /// The log has more records now, or could not take them.
    fn written<D: ZoneDevice>(
        &mut self,
        device: &D,
        result: Result<(), Error>,
        (records, freed, durable): (u64, &[u32], bool),
    ) -> Result<(), Error> {
        let result = match result {
            Ok(()) if self.log.is_long(self.log_capacity()) => self.begin_epoch(device),
            // A snapshot has everything, and needs less.
            Err(Error::LogFull) => self.begin_epoch(device),
            // Another program can have the zone by now, filled as far as this one left it.
            Ok(()) => self.hold(device).map(|()| {
                self.logged = self.logged.max(records);
                if durable {
                    self.durable = self.log.position();
                    self.durable_records = self.durable_records.max(records);
                }
                self.space.freed(freed, self.log.position());
            }),
            Err(error) => Err(error),
        };
        result.inspect_err(|error| self.stop(error))
    }

    /// Appends many records to the log.
    fn append<D: ZoneDevice>(&mut self, device: &D, pending: &[u8], durable: bool) -> Result<(), Error> {
        let (block, capacity) = (device.shape().block, self.log_capacity());
        let piece = usize::try_from(capacity / 2).unwrap_or(usize::MAX).saturating_mul(block);
        for piece in pending.chunks(piece.max(block)) {
            self.log.append(device, piece, durable)?;
            if self.log.is_long(capacity) {
                return Err(Error::LogFull);
            }
        }
        Ok(())
    }

    /// Begins a new epoch of the log. Everything that the tree has is durable then. Nothing may be under way to the log.
    pub(crate) fn begin_epoch<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        self.log.look(device)?;
        self.log.claim(device)?;
        self.write_snapshot(device)
    }

    /// Writes the snapshot of an epoch that has begun.
    pub(crate) fn write_snapshot<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        self.pending.clear();
        let (records, fills) = (self.recorded, self.ended_fills());
        self.tree.apply(&self.totals.record())?;
        self.log.write_snapshot(device, self.tree.snapshot())?;
        self.space.settle(fills);
        self.counters.epochs += 1;
        // It ends with a Flush, which comes after all appends.
        (self.durable, self.durable_appends) = (self.log.position(), self.appends);
        (self.logged, self.durable_records) = (records, records);
        let dead = self.space.dead();
        self.space.freed(&dead, self.durable);
        Ok(())
    }

    /// Writes the log, and makes it durable.
    pub(crate) fn commit<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        self.write_log(device)?;
        self.flush(device)
    }

    /// Makes everything durable that the device has.
    pub(crate) fn flush<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        let flushed = self.synced_up_to();
        device.flush().map_err(Error::from).inspect_err(|error| self.stop(error))?;
        self.flushed(flushed);
        Ok(())
    }

    /// How much a Flush makes durable that begins now.
    pub(crate) fn synced_up_to(&self) -> Flushed {
        Flushed {
            position: self.log.position(),
            records: self.logged,
            appends: self.appends,
            fills: self.ended_fills(),
        }
    }

    fn ended_fills(&self) -> u64 {
        self.space.ended_fills(self.under_way.iter().map(|data| data.zone))
    }

    /// A Flush has ended.
    pub(crate) fn flushed(&mut self, flushed: Flushed) {
        self.durable = self.durable.max(flushed.position);
        self.durable_records = self.durable_records.max(flushed.records);
        self.durable_appends = self.durable_appends.max(flushed.appends);
        self.space.settle(flushed.fills);
    }
}

/// What a Flush makes durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flushed {
    position: Position,
    records: u64,
    appends: u64,
    /// Zones of data that became full.
    fills: u64,
}
