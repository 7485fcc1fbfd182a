//! A zoned namespace as a device, over queues of a host.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use host::{Error, IoQueue, Queue, Zoned, Zones};
use nvme::Status;
use nvme::zone::{ZoneDescriptor, ZoneReportFilter, ZoneSendAction, ZoneState};

use crate::device::{Condition, DeviceError, Run, Shape, Zone, ZoneDevice};

/// Zones that may be open at once where the namespace sets no limit.
const OPEN_WITHOUT_LIMIT: u32 = 16;

/// A zoned namespace. Several threads use it at once: each call takes one of its queues.
#[derive(Debug)]
pub struct NamespaceZones<Q> {
    zoned: Zoned,
    queues: Mutex<Vec<IoQueue<Q>>>,
    given_back: Condvar,
}

/// A queue that is in use. It goes back when it is dropped.
struct Borrowed<'a, Q> {
    queue: Option<IoQueue<Q>>,
    from: &'a NamespaceZones<Q>,
}

impl<Q> Drop for Borrowed<'_, Q> {
    fn drop(&mut self) {
        self.from.queues().extend(self.queue.take());
        self.from.given_back.notify_one();
    }
}

impl<Q> NamespaceZones<Q> {
    /// A namespace that is attached to the host of these queues. There is at least one.
    #[must_use]
    pub fn new(zoned: Zoned, queues: Vec<IoQueue<Q>>) -> Self {
        assert!(!queues.is_empty(), "there is at least one queue");
        Self { zoned, queues: Mutex::new(queues), given_back: Condvar::new() }
    }

    fn queues(&self) -> MutexGuard<'_, Vec<IoQueue<Q>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, call: impl FnOnce(&mut IoQueue<Q>) -> Result<T, Error>) -> Result<T, Error> {
        let waited = self.given_back.wait_while(self.queues(), |queues| queues.is_empty());
        let queue = waited.unwrap_or_else(PoisonError::into_inner).pop();
        let mut borrowed = Borrowed { queue, from: self };
        match &mut borrowed.queue {
            Some(queue) => call(queue),
            None => Err(Error::Usage("there is no queue".into())),
        }
    }

    fn start(&self, zone: u32) -> u64 {
        u64::from(zone) * self.zoned.zone_blocks
    }

    fn report(&self, from: u64, most: usize) -> Result<Vec<Zone>, Error>
    where
        Q: Queue,
    {
        let zones = self.with(|queue| queue.report_zones(&self.zoned, from, ZoneReportFilter::ALL, most))?;
        Ok(zones.iter().map(view).collect())
    }

    fn manage(&self, action: ZoneSendAction, zone: u32) -> Result<(), DeviceError>
    where
        Q: Queue,
    {
        let zones = Zones::One(self.start(zone));
        let nsid = self.zoned.namespace.nsid;
        self.with(|queue| queue.manage_zones(nsid, action, zones)).map_err(|error| of_zone(zone, &error))
    }
}

fn view(zone: &ZoneDescriptor) -> Zone {
    let capacity = zone.zcap.get();
    let condition = match zone.state() {
        ZoneState::FULL => Condition::Full,
        ZoneState::READ_ONLY => Condition::ReadOnly,
        ZoneState::OFFLINE => Condition::Offline,
        _ => Condition::Writable,
    };
    let written = match (zone.write_pointer(), condition) {
        (Some(pointer), Condition::Writable) => pointer.saturating_sub(zone.zslba.get()),
        // Of a read-only zone nobody knows. What the log says is there is taken for there.
        _ => capacity,
    };
    Zone { capacity, written: written.min(capacity), condition }
}

fn failed(error: &Error) -> DeviceError {
    DeviceError::Failed(error.to_string())
}

/// What an error says of a zone, if it does not concern all of the device.
fn of_zone(zone: u32, error: &Error) -> DeviceError {
    let statuses = [
        Status::ZONE_IS_FULL,
        Status::ZONE_IS_READ_ONLY,
        Status::ZONE_IS_OFFLINE,
        Status::ZONE_BOUNDARY_ERROR,
        Status::ZONE_INVALID_WRITE,
        Status::TOO_MANY_ACTIVE_ZONES,
        Status::TOO_MANY_OPEN_ZONES,
        Status::INVALID_ZONE_STATE_TRANSITION,
        Status::WRITE_FAULT,
    ];
    let about_it = error.status().is_some_and(|status| statuses.iter().any(|one| status.is(*one)));
    if about_it { DeviceError::Zone { zone, problem: error.to_string() } } else { failed(error) }
}

impl<Q: Queue> ZoneDevice for NamespaceZones<Q> {
    fn shape(&self) -> Shape {
        let limits = [self.zoned.max_active, self.zoned.max_open];
        Shape {
            block: self.zoned.namespace.block_size as usize,
            zone_blocks: self.zoned.zone_blocks,
            zones: u32::try_from(self.zoned.zones()).unwrap_or(u32::MAX),
            open: limits.into_iter().flatten().min().unwrap_or(OPEN_WITHOUT_LIMIT),
            append_blocks: self.zoned.namespace.limits.append.into(),
        }
    }

    fn zones(&self) -> Result<Vec<Zone>, DeviceError> {
        self.report(0, usize::MAX).map_err(|error| failed(&error))
    }

    fn zone(&self, zone: u32) -> Result<Zone, DeviceError> {
        let zones = self.report(self.start(zone), 1).map_err(|error| failed(&error))?;
        zones.first().copied().ok_or_else(|| DeviceError::Failed(format!("there is no zone {zone}")))
    }

    fn read(&self, lba: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.with(|queue| queue.read(&self.zoned.namespace, lba, buffer)).map_err(|error| failed(&error))
    }

    fn read_many(&self, places: &mut [(u64, &mut [u8])]) -> Result<(), DeviceError> {
        self.with(|queue| queue.read_many(&self.zoned.namespace, places)).map_err(|error| failed(&error))
    }

    fn append(&self, zone: u32, data: &[u8], durable: bool) -> Result<Vec<Run>, DeviceError> {
        let block = self.zoned.namespace.block_size as usize;
        let piece = self.zoned.namespace.limits.append as usize * block;
        let lbas = self.with(|queue| queue.append_all(&self.zoned, self.start(zone), data, durable));
        let lbas = lbas.map_err(|error| of_zone(zone, &error))?;
        let pieces = data.chunks(piece).map(|piece| (piece.len() / block) as u64);
        Ok(lbas.into_iter().zip(pieces).map(|(lba, blocks)| Run { lba, blocks }).collect())
    }

    fn reset(&self, zone: u32) -> Result<(), DeviceError> {
        self.manage(ZoneSendAction::RESET, zone)
    }

    fn finish(&self, zone: u32) -> Result<(), DeviceError> {
        self.manage(ZoneSendAction::FINISH, zone)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.with(|queue| queue.flush(self.zoned.namespace.nsid)).map_err(|error| failed(&error))
    }
}
