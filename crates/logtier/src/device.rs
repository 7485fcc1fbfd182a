//! A log-structured cache as a block device over two others.

use crate::config::Config;
use crate::error::{ControlError, OpenError};
use crate::open::Start;
use crate::shape::{Device, Geometries};
use crate::state::{Control, Core, Sub};
use blockdev::{BlockDevice, Completed, Geometry, Nanos, Operation, Status};
use std::collections::VecDeque;
use std::convert::Infallible;

/// One of the two, and what it has no room for.
struct Below<D> {
    device: D,
    /// It is of no more use.
    failed: bool,
    waiting: VecDeque<Sub>,
    under_way: Vec<u32>,
}

impl<D: BlockDevice> Below<D> {
    fn new(device: D) -> Self {
        Self { device, failed: false, waiting: VecDeque::new(), under_way: Vec::new() }
    }

    /// Hands over what there is room for. False if the device is of no more use.
    fn submit(&mut self, now: Nanos) -> bool {
        while !self.waiting.is_empty() && self.device.room() > 0 {
            let Some(Sub { id, operation, data, .. }) = self.waiting.pop_front() else { break };
            self.under_way.push(id);
            if self.device.submit(now, id, &operation, data).is_err() {
                return false;
            }
        }
        true
    }

    fn next_work(&self) -> Nanos {
        if self.failed { Nanos::MAX } else { self.device.next_work() }
    }
}

/// A log-structured cache over an origin and a cache device, as a block device.
///
/// Its [`next_event`](BlockDevice::next_event) keeps to the contract: it is `Nanos::MAX` while no request of the host is under way. Write-back
/// and commits go on in the background. Who wants them to, polls the cache at the time of [`next_work`](LogDevice::next_work), too.
pub struct LogDevice<O, C> {
    core: Core,
    origin: Below<O>,
    cache: Below<C>,
    /// Requests of the host at most.
    depth: usize,
}

/// Requests of the host at the same time, if nothing else is said.
const DEPTH: usize = 1024;

impl<O: BlockDevice, C: BlockDevice> LogDevice<O, C> {
    /// Begins to make or to open a cache. Requests wait until it is [open](LogDevice::opened).
    ///
    /// # Errors
    /// The devices and the configuration do not fit.
    pub fn begin(
        config: Config,
        start: Start,
        (origin, cache): (O, C),
        now: Nanos,
    ) -> Result<Self, OpenError> {
        let geometries = Geometries { origin: origin.geometry(), cache: cache.geometry() };
        let core = Core::new(config, &geometries, start, now)?;
        let mut it = Self { core, origin: Below::new(origin), cache: Below::new(cache), depth: DEPTH };
        it.settle(now);
        Ok(it)
    }

    /// Makes or opens a cache, and waits until it is open. `wait` lets time pass until one of the devices has news, and returns the time.
    ///
    /// # Errors
    /// It cannot be made or opened.
    pub fn open(
        config: Config,
        start: Start,
        devices: (O, C),
        now: Nanos,
        mut wait: impl FnMut(&Self) -> Nanos,
    ) -> Result<Self, OpenError> {
        let mut it = Self::begin(config, start, devices, now)?;
        while !it.opened()? {
            let now = wait(&it);
            it.settle(now);
        }
        Ok(it)
    }

    /// Whether the cache is open, or why it will not be.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn opened(&self) -> Result<bool, OpenError> {
        self.core.opened()
    }

    /// Makes a change, and waits until it is made. Requests of the host wait meanwhile.
    ///
    /// # Errors
    /// It could not be made.
    pub fn change(
        &mut self,
        now: Nanos,
        control: Control,
        mut wait: impl FnMut(&Self) -> Nanos,
    ) -> Result<(), ControlError> {
        self.control(now, control)?;
        loop {
            if let Some(outcome) = self.take_outcome() {
                return outcome;
            }
            let now = wait(self);
            self.settle(now);
        }
    }

    /// Begins a change.
    ///
    /// # Errors
    /// Another one is under way, or it makes no sense.
    pub fn control(&mut self, now: Nanos, control: Control) -> Result<(), ControlError> {
        let begun = self.core.control(now, control);
        self.settle(now);
        begun
    }

    /// How the last change ended, once.
    pub fn take_outcome(&mut self) -> Option<Result<(), ControlError>> {
        self.core.take_outcome()
    }

    /// The state machine.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// The state machine, to set a tunable.
    pub fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    /// The origin.
    pub fn origin(&self) -> &O {
        &self.origin.device
    }

    /// The cache device.
    pub fn cache(&self) -> &C {
        &self.cache.device
    }

    /// Whether a device is of no more use: it failed as a whole, and not a request of it.
    pub fn has_failed(&self, device: Device) -> bool {
        match device {
            Device::Origin => self.origin.failed,
            Device::Cache => self.cache.failed,
        }
    }

    /// The two devices. What is under way on them may or may not be done.
    pub fn into_devices(self) -> (O, C) {
        (self.origin.device, self.cache.device)
    }

    /// When the cache is to be polled next so that write-back and commits go on: `Nanos::MAX` if it has nothing to do.
    pub fn next_work(&self) -> Nanos {
        let devices = [self.origin.next_work(), self.cache.next_work()];
        devices.into_iter().min().unwrap_or(Nanos::MAX).min(self.core.next_event())
    }

    /// Moves everything on that can move on at `now`.
    pub fn settle(&mut self, now: Nanos) {
        self.core.poll(now);
        loop {
            self.hand_out(now);
            let mut news = poll(&mut self.origin, &mut self.core, Device::Origin, now);
            news |= poll(&mut self.cache, &mut self.core, Device::Cache, now);
            if !news {
                break;
            }
        }
    }

    /// Asks devices on which nothing is under way whether they are of use still. Without, the cache notices with its next request to them.
    pub fn look_at_idle(&mut self, now: Nanos) {
        look_at_idle(&mut self.origin, &mut self.core, Device::Origin, now);
        look_at_idle(&mut self.cache, &mut self.core, Device::Cache, now);
        self.settle(now);
    }

    /// Gives the devices what the core wants of them.
    fn hand_out(&mut self, now: Nanos) {
        loop {
            while let Some(sub) = self.core.next_sub() {
                match sub.device {
                    Device::Origin => self.origin.waiting.push_back(sub),
                    Device::Cache => self.cache.waiting.push_back(sub),
                }
            }
            let mut failed = give(&mut self.origin, &mut self.core, Device::Origin, now);
            failed |= give(&mut self.cache, &mut self.core, Device::Cache, now);
            if !failed {
                break;
            }
        }
    }
}

/// Gives a device what waits for it. True if requests failed because it is of no more use.
fn give<D: BlockDevice>(below: &mut Below<D>, core: &mut Core, device: Device, now: Nanos) -> bool {
    if below.waiting.is_empty() {
        return false;
    }
    if !below.failed && below.submit(now) {
        return false;
    }
    fail(below, core, device, now);
    true
}

/// A device is of no more use: what is under way and what waits for it fails.
fn fail<D: BlockDevice>(below: &mut Below<D>, core: &mut Core, device: Device, now: Nanos) {
    if !std::mem::replace(&mut below.failed, true) {
        core.device_failed(now, device);
    }
    for id in std::mem::take(&mut below.under_way) {
        core.complete(now, id, Status::INTERNAL_ERROR, Vec::new());
    }
    for sub in std::mem::take(&mut below.waiting) {
        core.complete(now, sub.id, Status::INTERNAL_ERROR, sub.data);
    }
}

/// A device on which nothing is under way says whether it has failed.
fn look_at_idle<D: BlockDevice>(below: &mut Below<D>, core: &mut Core, device: Device, now: Nanos) {
    if !below.failed && below.under_way.is_empty() && below.device.poll(now).is_err() {
        fail(below, core, device, now);
    }
}

/// Takes what a device has ended. True if there was something.
fn poll<D: BlockDevice>(below: &mut Below<D>, core: &mut Core, device: Device, now: Nanos) -> bool {
    let mut news = false;
    while !below.failed && below.device.next_work() <= now {
        match below.device.poll(now) {
            Ok(Some(Completed { tag, status, data })) => {
                if let Some(at) = below.under_way.iter().position(|id| *id == tag) {
                    below.under_way.swap_remove(at);
                }
                core.complete(now, tag, status, data);
            }
            Ok(None) => break,
            Err(_) => fail(below, core, device, now),
        }
        news = true;
    }
    news
}

impl<O: BlockDevice, C: BlockDevice> BlockDevice for LogDevice<O, C> {
    /// A device that fails makes requests fail, and the cache goes on.
    type Error = Infallible;

    fn geometry(&self) -> Geometry {
        self.core.geometry()
    }

    fn room(&self) -> usize {
        self.depth.saturating_sub(self.core.outstanding())
    }

    fn submit(&mut self, now: Nanos, tag: u32, part: &Operation, data: Vec<u8>) -> Result<(), Infallible> {
        self.core.poll(now);
        self.core.submit(now, tag, part, data);
        self.hand_out(now);
        Ok(())
    }

    fn poll(&mut self, now: Nanos) -> Result<Option<Completed>, Infallible> {
        let done = match self.core.next_done() {
            None => {
                self.settle(now);
                self.core.next_done()
            }
            done => done,
        };
        Ok(done.map(|done| Completed { tag: done.tag, status: done.status, data: done.data }))
    }

    fn next_event(&self) -> Nanos {
        match (self.core.has_done(), self.core.outstanding()) {
            (true, _) => 0,
            (false, 0) => Nanos::MAX,
            (false, _) => self.next_work(),
        }
    }

    fn next_work(&self) -> Nanos {
        match self.core.has_done() {
            true => 0,
            false => LogDevice::next_work(self),
        }
    }
}
