//! What the store asks of the device below it.

use std::fmt::Debug;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::reason::Reason;

/// Where consecutive blocks lie on the device. A run never crosses the border of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Its first logical block.
    pub lba: u64,
    /// Its length in logical blocks, at least 1.
    pub blocks: u64,
}

/// What does not change while a device is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes of a logical block.
    pub block: usize,
    /// Logical blocks from the start of a zone to that of the next.
    pub zone_blocks: u64,
    /// Number of zones.
    pub zones: u32,
    /// Zones that may be written to at the same time.
    pub open: u32,
    /// Logical blocks of one command that appends, at most.
    pub append_blocks: u64,
}

impl Shape {
    /// The zone of a logical block.
    #[must_use]
    pub fn zone_of(&self, lba: u64) -> u32 {
        u32::try_from(lba / self.zone_blocks).unwrap_or(u32::MAX)
    }

    /// The first logical block of a zone.
    #[must_use]
    pub fn start_of(&self, zone: u32) -> u64 {
        u64::from(zone) * self.zone_blocks
    }
}

/// What can be done with a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// It has room, and takes blocks.
    Writable,
    /// It takes no blocks until it is reset.
    Full,
    /// It can only be read.
    ReadOnly,
    /// Its contents are lost.
    Offline,
}

/// The state of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zone {
    /// Logical blocks that it can hold.
    pub capacity: u64,
    /// Logical blocks that it holds. All of the capacity if the zone is full, none if it is offline.
    pub written: u64,
    /// What can be done with it.
    pub condition: Condition,
}

/// Why a device did not do something.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DeviceError {
    /// This zone takes nothing now. Others may.
    #[error("zone {zone}: {problem}")]
    Zone {
        /// Which.
        zone: u32,
        /// What the device said.
        #[source]
        problem: Reason,
    },
    /// The device failed.
    #[error(transparent)]
    Failed(Reason),
}

/// An append that was begun.
pub trait Append: Debug + Send + Sync {
    /// Waits until it has ended, and tells where the data lies, in the order of the data. Several threads may wait for it, each as often as
    /// it likes.
    ///
    /// # Errors
    /// The zone takes nothing, or the device failed. Any part of the data may then be in the zone.
    fn wait(&self) -> Result<Vec<Run>, DeviceError>;

    /// The data, after the zone did not take it. It is given away once.
    fn take_back(&self) -> Vec<u8>;
}

/// A device with zones. All methods may be called from several threads.
///
/// What was appended is visible when its append has ended. It survives a loss of power after the next [`flush`](ZoneDevice::flush) that begins later and
/// succeeds. After a loss of power each zone holds a prefix of what was appended to it, at least as long as what was flushed.
pub trait ZoneDevice {
    /// What does not change.
    fn shape(&self) -> Shape;

    /// The states of all zones, in their order.
    ///
    /// # Errors
    /// The device failed.
    fn zones(&self) -> Result<Vec<Zone>, DeviceError>;

    /// The states of the first zones, in their order.
    ///
    /// # Errors
    /// The device failed, or has fewer.
    fn first_zones(&self, count: u32) -> Result<Vec<Zone>, DeviceError> {
        (0..count).map(|zone| self.zone(zone)).collect()
    }

    /// The state of one zone.
    ///
    /// # Errors
    /// The device failed, or has no such zone.
    fn zone(&self, zone: u32) -> Result<Zone, DeviceError>;

    /// Reads whole blocks from `lba` on, all of one zone.
    ///
    /// # Errors
    /// The device failed. The contents of the buffer are then undefined.
    fn read(&self, lba: u64, buffer: &mut [u8]) -> Result<(), DeviceError>;

    /// Reads whole blocks from several places, each all of one zone: at the same time, if the device can.
    ///
    /// # Errors
    /// As [`read`](ZoneDevice::read).
    fn read_many(&self, places: &mut [(u64, &mut [u8])]) -> Result<(), DeviceError> {
        places.iter_mut().try_for_each(|(lba, buffer)| self.read(*lba, buffer))
    }

    /// Begins to append whole blocks to a zone. Several commands may be necessary, which may be carried out in any order, also among those
    /// of other appends that have not ended. Data of up to [`Shape::append_blocks`] is one command, and one run. If it is to be `durable`, the
    /// zone is durable up to the end of the data when the append has ended.
    fn begin_append(&self, zone: u32, data: &[u8], durable: bool) -> Arc<dyn Append>;

    /// Appends whole blocks to a zone, and waits for the end.
    ///
    /// # Errors
    /// As [`Append::wait`].
    fn append(&self, zone: u32, data: &[u8], durable: bool) -> Result<Vec<Run>, DeviceError> {
        self.begin_append(zone, data, durable).wait()
    }

    /// Empties a zone. This is durable when it returns.
    ///
    /// # Errors
    /// The zone is read only or offline, or the device failed.
    fn reset(&self, zone: u32) -> Result<(), DeviceError>;

    /// Makes a zone full.
    ///
    /// # Errors
    /// The zone is read only or offline, or the device failed.
    fn finish(&self, zone: u32) -> Result<(), DeviceError>;

    /// Makes everything durable that was appended before.
    ///
    /// # Errors
    /// The device failed. Nothing is known then about what is durable.
    fn flush(&self) -> Result<(), DeviceError>;

    /// How long a program may believe that it still has the store before it looks again. A program that takes the store over resets no zone of data for
    /// twice that long. Zero: it looks each time.
    fn lease(&self) -> Duration {
        Duration::ZERO
    }

    /// Waits, so that another program finds out what this one did.
    ///
    /// # Errors
    /// The device is one of a test, in which the other program waits for this one.
    fn pause(&self, time: Duration) -> Result<(), DeviceError> {
        thread::sleep(time);
        Ok(())
    }
}

impl<D: ZoneDevice + ?Sized> ZoneDevice for &D {
    fn shape(&self) -> Shape {
        (**self).shape()
    }

    fn zones(&self) -> Result<Vec<Zone>, DeviceError> {
        (**self).zones()
    }

    fn first_zones(&self, count: u32) -> Result<Vec<Zone>, DeviceError> {
        (**self).first_zones(count)
    }

    fn zone(&self, zone: u32) -> Result<Zone, DeviceError> {
        (**self).zone(zone)
    }

    fn read(&self, lba: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        (**self).read(lba, buffer)
    }

    fn read_many(&self, places: &mut [(u64, &mut [u8])]) -> Result<(), DeviceError> {
        (**self).read_many(places)
    }

    fn begin_append(&self, zone: u32, data: &[u8], durable: bool) -> Arc<dyn Append> {
        (**self).begin_append(zone, data, durable)
    }

    fn reset(&self, zone: u32) -> Result<(), DeviceError> {
        (**self).reset(zone)
    }

    fn finish(&self, zone: u32) -> Result<(), DeviceError> {
        (**self).finish(zone)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        (**self).flush()
    }

    fn lease(&self) -> Duration {
        (**self).lease()
    }

    fn pause(&self, time: Duration) -> Result<(), DeviceError> {
        (**self).pause(time)
    }
}
