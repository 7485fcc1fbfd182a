//! The tier that runs.
//!
//! **Who runs it.** One thread at a time, as with the drive itself (`live::handle`). The thread of a request tries to become the one that runs
//! the state machine. If it succeeds, a hit on a namespace of this process is read, answered and delivered before `submit` returns, without
//! a switch of threads. If another thread is at it, the request goes into the inbox, and that one takes it along. The thread of
//! a device that has news does the same. The tier's own thread does what nobody brings: ticks, and the sockets of drives elsewhere.

use crate::bell::{Ring, without};
use crate::claim::Claim;
use crate::device::{Backing, Kind, Trouble};
use crate::error::Error;
use crate::source::Source;
use crate::watch::Watch;
use blockdev::{BlockDevice, Geometry, Nanos, Operation, Status};
use export::drive::Completions;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak, mpsc};
use std::time::{Duration, Instant};
use tier::{Config, Control, ControlError, Counters, Health, Mode, OpenError, Start, TierDevice};

/// How long the tier's own thread sleeps at most. It also notices then that a drive is silent.
const MAX_SLEEP: Duration = Duration::from_millis(250);

/// The three devices of a tier.
pub struct Devices {
    /// The large and slow one.
    pub origin: Source,
    /// The small and fast one.
    pub cache: Source,
    /// What says what lies on the cache.
    pub metadata: Source,
}

/// A tier that runs.
pub struct LiveTier {
    name: String,
    geometry: Geometry,
    begun: Instant,
    /// There is something to do: a request, or news of a device.
    pending: AtomicBool,
    inbox: Mutex<Vec<Ask>>,
    inner: Mutex<Inner>,
    /// Where answers go, once there is a block file.
    completions: OnceLock<Weak<dyn Completions>>,
    /// One change at a time.
    changes: Mutex<()>,
    watch: Watch,
    troubles: [Trouble; 3],
    over: AtomicBool,
    /// What says that the devices are this process's. Others may have them when the tier is gone.
    _claims: [Claim; 3],
}

/// A request on its way to the tier.
struct Ask {
    tag: u64,
    operation: Operation,
    data: Vec<u8>,
}

struct Inner {
    tier: TierDevice<Backing, Backing, Backing>,
    /// The asker's tags, by the tier's.
    tags: Vec<u64>,
    free: Vec<u32>,
    /// Takes turns with the inbox, so that neither is allocated again.
    asks: Vec<Ask>,
    opening: Option<mpsc::Sender<Result<(), OpenError>>>,
    changing: Option<mpsc::Sender<Result<(), ControlError>>>,
}

/// A request that has ended.
struct Answer {
    tag: u64,
    status: Status,
    data: Vec<u8>,
}

/// How a tier is.
#[derive(Clone, Debug)]
pub struct Report {
    /// dm-cache's fields.
    pub status: tier::Status,
    /// What it has done.
    pub counters: Counters,
    /// What has failed.
    pub health: Health,
    /// Why devices are of no more use.
    pub troubles: Vec<String>,
}

thread_local! {
    /// The tiers that this thread runs at this moment, or delivers answers of; the innermost is the last.
    static RUNS: RefCell<Vec<*const LiveTier>> = const { RefCell::new(Vec::new()) };
    /// Room for answers, so that none is allocated for a request.
    static ROOM: Cell<Vec<Answer>> = const { Cell::new(Vec::new()) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LiveTier {
    /// Makes or opens a tier, and waits until it is open.
    ///
    /// # Errors
    /// The devices and the configuration do not fit, the metadata does not, or a device fails.
    pub fn open(name: &str, config: Config, start: Start, devices: Devices) -> Result<Arc<Self>, Error> {
        let Devices { mut origin, mut cache, mut metadata } = devices;
        let config = Config { origin: origin.id, cache: cache.id, ..config };
        let watch = Watch::new().map_err(Error::system("watching devices"))?;
        for device in [&mut origin, &mut cache, &mut metadata] {
            if let Kind::Socket(device) = device.device.kind() {
                watch.add(device.socket()).map_err(Error::system("watching a connection"))?;
            }
        }
        let bells = [&origin, &cache, &metadata].map(|device| device.bell.clone());
        let troubles = [&origin, &cache, &metadata].map(|device| device.device.trouble());
        let claims = [origin.claim, cache.claim, metadata.claim];
        let tier = tier::begin(config, start, (origin.device, cache.device, metadata.device), 0)?;
        let (tell, told) = mpsc::channel();
        let inner = Inner {
            tags: Vec::new(),
            free: Vec::new(),
            asks: Vec::new(),
            opening: Some(tell),
            changing: None,
            tier,
        };
        let live = Arc::new(LiveTier {
            name: name.to_owned(),
            geometry: inner.tier.geometry(),
            begun: Instant::now(),
            pending: AtomicBool::new(true),
            inbox: Mutex::default(),
            inner: Mutex::new(inner),
            completions: OnceLock::new(),
            changes: Mutex::default(),
            watch,
            troubles,
            over: AtomicBool::new(false),
            _claims: claims,
        });
        for bell in bells {
            let listener: Weak<LiveTier> = Arc::downgrade(&live);
            bell.hang(listener);
        }
        let own = Arc::downgrade(&live);
        std::thread::Builder::new()
            .name("tranche-tier".into())
            .spawn(move || attend(&own))
            .map_err(Error::system("starting a thread"))?;
        live.run();
        told.recv().unwrap_or(Err(OpenError::Foreign))?;
        Ok(live)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its blocks, and how many of them go into a request.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Says where answers go; the first one stays.
    pub(crate) fn answer_to(&self, completions: Weak<dyn Completions>) {
        let _ = self.completions.set(completions);
    }

    /// Begins a request. Its answer may be delivered before this returns.
    pub(crate) fn submit(&self, tag: u64, operation: Operation, data: Vec<u8>) {
        if !self.is_run_here()
            && let Ok(inner) = self.inner.try_lock()
        {
            self.turn(inner, Some(Ask { tag, operation, data }));
        } else {
            self.leave(tag, operation, data);
        }
        self.run();
    }

    /// Leaves a request for the next [turn](LiveTier::run).
    pub(crate) fn leave(&self, tag: u64, operation: Operation, data: Vec<u8>) {
        lock(&self.inbox).push(Ask { tag, operation, data });
        self.pending.store(true, Ordering::SeqCst);
    }

    /// Whether this thread runs the tier, or delivers its answers, in an outer call.
    fn is_run_here(&self) -> bool {
        let me: *const LiveTier = self;
        RUNS.with_borrow(|runs| runs.contains(&me))
    }

    fn now(&self) -> Nanos {
        // 584 years.
        self.begun.elapsed().as_nanos() as Nanos
    }

    /// Runs the tier as long as there is something to do and nobody else does.
    pub(crate) fn run(&self) {
        // The answers of an outer call lead here: that one goes on when it has delivered them.
        if !self.pending.load(Ordering::SeqCst) || self.is_run_here() {
            return;
        }
        while self.pending.load(Ordering::SeqCst) {
            // Who has it looks again when it lets go.
            let Ok(inner) = self.inner.try_lock() else { break };
            self.turn(inner, None);
        }
    }

    /// Takes what has come, moves everything on that can move on, and delivers the answers.
    fn turn(&self, mut inner: MutexGuard<'_, Inner>, ask: Option<Ask>) {
        RUNS.with_borrow_mut(|runs| runs.push(self));
        let mut answers = ROOM.take();
        // What a device does within `submit` is looked for before the pass is over.
        without(self, || self.pass(&mut inner, ask, &mut answers));
        drop(inner);
        self.deliver(&mut answers);
        ROOM.set(answers);
        RUNS.with_borrow_mut(|runs| runs.pop());
    }

    fn pass(&self, inner: &mut Inner, ask: Option<Ask>, answers: &mut Vec<Answer>) {
        let now = self.now();
        if let Some(ask) = ask {
            inner.begin(now, ask);
        }
        // A look costs less than to write what others read.
        if self.pending.load(Ordering::SeqCst) && self.pending.swap(false, Ordering::SeqCst) {
            let mut asks = std::mem::take(&mut inner.asks);
            std::mem::swap(&mut asks, &mut *lock(&self.inbox));
            asks.iter().for_each(|ask| inner.tier.core().touch(ask.operation.lba));
            asks.drain(..).for_each(|ask| inner.begin(now, ask));
            inner.asks = asks;
        }
        inner.tier.settle(now);
        while let Some(done) = inner.tier.take_done() {
            inner.free.push(done.tag);
            let tag = inner.tags.get(done.tag as usize).copied().unwrap_or_default();
            answers.push(Answer { tag, status: done.status, data: done.data });
        }
        if inner.opening.is_some() {
            inner.tell_opened();
        }
        if inner.changing.is_some()
            && let Some(outcome) = inner.tier.take_outcome()
            && let Some(tell) = inner.changing.take()
        {
            // Who asked may be gone.
            let _ = tell.send(outcome);
        }
    }

    fn deliver(&self, answers: &mut Vec<Answer>) {
        if answers.is_empty() {
            return;
        }
        let completions = self.completions.get().and_then(Weak::upgrade);
        for Answer { tag, status, data } in answers.drain(..) {
            if let Some(completions) = &completions {
                completions.complete(tag, status.ok().map_err(export::errno), data);
            }
        }
    }

    /// Does something with the state machine, and what others wanted meanwhile.
    fn with<T>(&self, act: impl FnOnce(&mut TierDevice<Backing, Backing, Backing>) -> T) -> T {
        let result = act(&mut lock(&self.inner).tier);
        self.ring();
        result
    }

    /// Makes a change, and waits until it is made. Requests of the host wait meanwhile, except while dirty chunks are written back.
    ///
    /// # Errors
    /// It could not be made.
    pub fn change(&self, control: Control) -> Result<(), ControlError> {
        let _turn = lock(&self.changes);
        let (tell, told) = mpsc::channel();
        let begun = {
            let mut inner = lock(&self.inner);
            let now = self.now();
            inner.changing = Some(tell);
            let begun = inner.tier.control(now, control);
            if begun.is_err() {
                inner.changing = None;
            }
            begun
        };
        self.ring();
        begun?;
        told.recv().unwrap_or(Err(ControlError::Busy))
    }

    /// Sets a tunable by dm-cache's name. It holds until the tier is closed.
    ///
    /// # Errors
    /// There is none of this name with this policy, or the value is none.
    pub fn set(&self, key: &str, value: &str) -> Result<(), ControlError> {
        self.with(|tier| tier.core_mut().set(key, value))
    }

    /// How it is.
    pub fn report(&self) -> Report {
        let troubles = self.troubles.iter().filter_map(Trouble::words).collect();
        self.with(|tier| Report {
            status: tier.core().status(),
            counters: *tier.core().counters(),
            health: tier.core().health(),
            troubles,
        })
    }

    /// Why the tier can take no more writes, if it cannot. What was flushed is on its devices.
    pub fn failure(&self) -> Option<String> {
        let (health, mode) = self.with(|tier| (tier.core().health(), tier.core().config().mode));
        let what = match health {
            Health { origin_failed: true, .. } => "the origin has failed",
            Health { cache_failed: true, .. } if mode == Mode::Writeback => "the cache device has failed",
            Health { metadata_failed: true, .. } if mode == Mode::Writeback => {
                "an operation of metadata has failed"
            }
            _ => return None,
        };
        let troubles: Vec<String> = self.troubles.iter().filter_map(Trouble::words).collect();
        let reasons = in_brackets(&troubles);
        Some(format!(
            "the cache tier {} takes no more writes: {what}{reasons}; what was flushed is on its devices, start it again when they are back",
            self.name
        ))
    }

    /// What has failed without keeping the tier from going on, and what that means.
    pub fn warning(&self) -> Option<String> {
        if self.failure().is_some() {
            return None;
        }
        let report = self.report();
        let what = match report.health {
            Health { cache_failed: true, .. } => "the cache device",
            Health { metadata_failed: true, .. } => "the metadata device",
            _ => return None,
        };
        Some(format!(
            "the cache tier {}: {what} has failed{}, and the tier goes on with the origin alone",
            self.name,
            in_brackets(&report.troubles)
        ))
    }

    /// The metadata device of a tier that is closed, once nobody else has the tier.
    ///
    /// # Errors
    /// Its own thread or somebody else did not let go of it.
    pub fn into_metadata(tier: Arc<Self>) -> Option<Backing> {
        let mut tier = tier;
        for _ in 0..1000 {
            match Arc::try_unwrap(tier) {
                Ok(live) => {
                    let inner = live.inner.into_inner().unwrap_or_else(PoisonError::into_inner);
                    return Some(inner.tier.into_devices().2);
                }
                Err(shared) => tier = shared,
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Shuts it down in order: everything is durable, and its metadata says so. Requests fail from then on.
    ///
    /// # Errors
    /// It could not; the next opening is as after a crash. It is shut down nevertheless.
    pub fn close(&self) -> Result<(), ControlError> {
        let closed = self.change(Control::Close);
        self.over.store(true, Ordering::SeqCst);
        closed
    }
}

fn in_brackets(reasons: &[String]) -> String {
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) }
}

impl Ring for LiveTier {
    fn ring(&self) {
        self.pending.store(true, Ordering::SeqCst);
        self.run();
    }
}

impl Inner {
    fn begin(&mut self, now: Nanos, Ask { tag, operation, data }: Ask) {
        let own = self.own_tag(tag);
        let Ok(()) = self.tier.submit(now, own, &operation, data);
    }

    fn own_tag(&mut self, tag: u64) -> u32 {
        match self.free.pop() {
            Some(own) => {
                self.tags[own as usize] = tag;
                own
            }
            None => {
                self.tags.push(tag);
                self.tags.len() as u32 - 1
            }
        }
    }

    fn tell_opened(&mut self) {
        let opened = match self.tier.opened() {
            Ok(false) => return,
            Ok(true) => Ok(()),
            Err(error) => Err(error),
        };
        if let Some(tell) = self.opening.take() {
            let _ = tell.send(opened);
        }
    }
}

/// What the tier's own thread does until the tier is gone.
fn attend(tier: &Weak<LiveTier>) {
    while let Some(tier) = tier.upgrade().filter(|tier| !tier.over.load(Ordering::SeqCst)) {
        let (now, next) = (tier.now(), tier.with(|tier| tier.core().next_event()));
        let nap = Duration::from_nanos(next.saturating_sub(now)).clamp(Duration::from_millis(1), MAX_SLEEP);
        tier.watch.wait(nap);
        let now = tier.now();
        tier.with(|tier| tier.look_at_idle(now));
    }
}
