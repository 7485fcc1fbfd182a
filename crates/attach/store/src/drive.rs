//! A zoned namespace as a device, over queues of a host.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use host::{Appends, Error, IoQueue, Queue, Zoned, Zones};
use nvme::Status;
use nvme::zone::{ZoneDescriptor, ZoneReportFilter, ZoneSendAction, ZoneState};

use crate::device::{Append, Condition, DeviceError, Run, Shape, Zone, ZoneDevice};
use crate::reason::Reason;

/// Zones that may be open at once where the namespace sets no limit.
const OPEN_WITHOUT_LIMIT: u32 = 16;

/// How long a program believes that it still has the store: a look costs commands.
const LEASE: Duration = Duration::from_secs(1);

/// A zoned namespace. Several threads use it at once: each call takes one of its queues, and each append keeps one until it has ended.
#[derive(Debug)]
pub struct NamespaceZones<Q> {
    zoned: Zoned,
    pool: Arc<Pool<Q>>,
}

/// The queues.
#[derive(Debug)]
struct Pool<Q> {
    /// How many there are.
    total: usize,
    idle: Mutex<Idle<Q>>,
    given_back: Condvar,
}

#[derive(Debug)]
struct Idle<Q> {
    queues: Vec<IoQueue<Q>>,
    /// Queues that appends keep.
    kept: usize,
}

/// Queues that a namespace should have beside one for each of its callers: appends keep them while they are under way. Up to six pieces of
/// data have one each, or two where they cross zones, and the store's log has one.
pub const APPEND_QUEUES: usize = 8;
/// Queues that appends leave for other calls.
const OTHER_QUEUES: usize = 2;

/// A queue that is in use. It goes back when it is dropped.
struct Borrowed<'a, Q> {
    queue: Option<IoQueue<Q>>,
    from: &'a Pool<Q>,
}

impl<Q> Drop for Borrowed<'_, Q> {
    fn drop(&mut self) {
        self.from.idle().queues.extend(self.queue.take());
        self.from.given_back.notify_one();
    }
}

impl<Q> Pool<Q> {
    fn idle(&self) -> MutexGuard<'_, Idle<Q>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, call: impl FnOnce(&mut IoQueue<Q>) -> Result<T, Error>) -> Result<T, Error> {
        let waited = self.given_back.wait_while(self.idle(), |idle| idle.queues.is_empty());
        let queue = waited.unwrap_or_else(PoisonError::into_inner).queues.pop();
        let mut borrowed = Borrowed { queue, from: self };
        match &mut borrowed.queue {
            Some(queue) => call(queue),
            None => Err(Error::Usage("there is no queue".into())),
        }
    }

    /// A queue that an append keeps, if enough are left for other calls.
    fn keep(&self) -> Option<IoQueue<Q>> {
        let mut idle = self.idle();
        if idle.kept + OTHER_QUEUES >= self.total {
            return None;
        }
        let queue = idle.queues.pop()?;
        idle.kept += 1;
        Some(queue)
    }

    fn give_back(&self, queue: IoQueue<Q>) {
        let mut idle = self.idle();
        idle.queues.push(queue);
        idle.kept -= 1;
        self.given_back.notify_one();
    }
}

impl<Q> NamespaceZones<Q> {
    /// A namespace that is attached to the host of these queues. There is at least one. With more than two, appends are under way
    /// while other calls go on.
    #[must_use]
    pub fn new(zoned: Zoned, queues: Vec<IoQueue<Q>>) -> Self {
        assert!(!queues.is_empty(), "there is at least one queue");
        let total = queues.len();
        let idle = Mutex::new(Idle { queues, kept: 0 });
        Self { zoned, pool: Arc::new(Pool { total, idle, given_back: Condvar::new() }) }
    }

    fn with<T>(&self, call: impl FnOnce(&mut IoQueue<Q>) -> Result<T, Error>) -> Result<T, Error> {
        self.pool.with(call)
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
        self.with(|queue| queue.manage_zones(nsid, action, zones)).map_err(|error| of_zone(zone, error))
    }
}

/// An append on a queue of its own.
struct QueuedAppend<Q> {
    target: Target,
    pool: Arc<Pool<Q>>,
    progress: Mutex<Progress<Q>>,
}

/// Where an append goes, and how long it is.
#[derive(Clone, Copy)]
struct Target {
    zoned: Zoned,
    zone: u32,
    /// Length in logical blocks.
    blocks: u64,
}

/// What came of an append: where the data lies; or why not, and the data.
type Ended = Result<Vec<Run>, (DeviceError, Vec<u8>)>;

enum Progress<Q> {
    /// Its commands were sent.
    Sent(IoQueue<Q>, Appends),
    /// It has ended.
    Ended(Ended),
}

impl<Q> std::fmt::Debug for QueuedAppend<Q> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueuedAppend").finish_non_exhaustive()
    }
}

impl Target {
    /// Waits for the end of an append on a queue.
    fn end<Q: Queue>(&self, queue: &mut IoQueue<Q>, mut appends: Appends) -> Ended {
        match queue.end_appends(&mut appends) {
            Ok(lbas) => Ok(self.runs(&lbas)),
            Err(error) => Err((of_zone(self.zone, error), appends.into_data())),
        }
    }

    fn runs(&self, lbas: &[u64]) -> Vec<Run> {
        let piece = u64::from(self.zoned.namespace.limits.append);
        let lengths = (0..self.blocks).step_by(usize::try_from(piece).unwrap_or(usize::MAX));
        let lengths = lengths.map(|from| piece.min(self.blocks - from));
        lbas.iter().zip(lengths).map(|(lba, blocks)| Run { lba: *lba, blocks }).collect()
    }
}

impl<Q> QueuedAppend<Q> {
    fn progress(&self) -> MutexGuard<'_, Progress<Q>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Q: Queue + Send> Append for QueuedAppend<Q> {
    fn wait(&self) -> Result<Vec<Run>, DeviceError> {
        let mut progress = self.progress();
        let lost = Progress::Ended(Err((DeviceError::Failed("its end is not known".into()), Vec::new())));
        let ended = match std::mem::replace(&mut *progress, lost) {
            Progress::Sent(mut queue, appends) => {
                let ended = self.target.end(&mut queue, appends);
                self.pool.give_back(queue);
                ended
            }
            Progress::Ended(ended) => ended,
        };
        let result = ended.clone().map_err(|(error, _)| error);
        *progress = Progress::Ended(ended);
        result
    }

    fn take_back(&self) -> Vec<u8> {
        match &mut *self.progress() {
            Progress::Ended(Err((_, data))) => std::mem::take(data),
            Progress::Ended(Ok(_)) | Progress::Sent(..) => Vec::new(),
        }
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
        (_, Condition::Offline) => 0,
        // Of a read-only zone nobody knows. What the log says is there is taken for there.
        _ => capacity,
    };
    Zone { capacity, written: written.min(capacity), condition }
}

fn failed(error: Error) -> DeviceError {
    DeviceError::Failed(Reason::new(error))
}

/// What an error says of a zone, if it does not concern all of the device.
fn of_zone(zone: u32, error: Error) -> DeviceError {
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
    if about_it { DeviceError::Zone { zone, problem: Reason::new(error) } } else { failed(error) }
}

impl<Q: Queue + Send + 'static> ZoneDevice for NamespaceZones<Q> {
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
        self.report(0, usize::MAX).map_err(failed)
    }

    fn first_zones(&self, count: u32) -> Result<Vec<Zone>, DeviceError> {
        self.report(0, usize::try_from(count).unwrap_or(usize::MAX)).map_err(failed)
    }

    fn zone(&self, zone: u32) -> Result<Zone, DeviceError> {
        let zones = self.report(self.start(zone), 1).map_err(failed)?;
        zones.first().copied().ok_or_else(|| DeviceError::Failed(format!("there is no zone {zone}").into()))
    }

    fn read(&self, lba: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.with(|queue| queue.read(&self.zoned.namespace, lba, buffer)).map_err(failed)
    }

    fn read_many(&self, places: &mut [(u64, &mut [u8])]) -> Result<(), DeviceError> {
        self.with(|queue| queue.read_many(&self.zoned.namespace, places)).map_err(failed)
    }

    fn begin_append(&self, zone: u32, data: &[u8], durable: bool) -> Arc<dyn Append> {
        let (zoned, start) = (self.zoned, self.start(zone));
        let blocks = (data.len() / (zoned.namespace.block_size as usize).max(1)) as u64;
        let target = Target { zoned, zone, blocks };
        let failed = |error| Progress::Ended(Err((of_zone(zone, error), data.to_vec())));
        let progress = match self.pool.keep() {
            Some(mut queue) => match queue.begin_appends(&zoned, start, data, durable) {
                Ok(appends) => Progress::Sent(queue, appends),
                Err(error) => {
                    self.pool.give_back(queue);
                    failed(error)
                }
            },
            None => {
                let ended = self.with(|queue| {
                    let appends = queue.begin_appends(&zoned, start, data, durable)?;
                    Ok(target.end(queue, appends))
                });
                ended.map_or_else(failed, Progress::Ended)
            }
        };
        Arc::new(QueuedAppend { target, pool: Arc::clone(&self.pool), progress: Mutex::new(progress) })
    }

    fn reset(&self, zone: u32) -> Result<(), DeviceError> {
        self.manage(ZoneSendAction::RESET, zone)
    }

    fn finish(&self, zone: u32) -> Result<(), DeviceError> {
        self.manage(ZoneSendAction::FINISH, zone)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.with(|queue| queue.flush(self.zoned.namespace.nsid)).map_err(failed)
    }

    fn lease(&self) -> Duration {
        LEASE
    }
}
