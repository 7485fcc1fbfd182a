//! A log-structured cache as a block device over two others.

use crate::config::Config;
use crate::error::{ControlError, OpenError};
use crate::open::Start;
use crate::shape::{Device, Geometries};
use crate::state::{Control, Core};
use blockdev::{BlockDevice, Completed, Geometry, Nanos, Operation, Status};
use stack::{Above, Below};
use std::convert::Infallible;

impl Above<Device> for Core {
    fn complete(&mut self, now: Nanos, id: u32, status: Status, data: Vec<u8>, _: Device) {
        Core::complete(self, now, id, status, data);
    }

    fn device_failed(&mut self, now: Nanos, device: Device) {
        Core::device_failed(self, now, device);
    }
}

/// A log-structured cache over an origin and a cache device, as a block device.
///
/// Its [`next_event`](BlockDevice::next_event) keeps to the contract: it is `Nanos::MAX` while no request of the host is under way. Write-back
/// and commits go on in the background. Who wants them to, polls the cache at the time of [`next_work`](LogDevice::next_work), too.
pub struct LogDevice<O, C> {
    core: Core,
    origin: Below<O, Device>,
    cache: Below<C, Device>,
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
        let mut it = Self {
            core,
            origin: Below::new(origin, Device::Origin),
            cache: Below::new(cache, Device::Cache),
            depth: DEPTH,
        };
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
        self.origin.device()
    }

    /// The cache device.
    pub fn cache(&self) -> &C {
        self.cache.device()
    }

    /// Whether a device is of no more use: it failed as a whole, and not a request of it.
    pub fn has_failed(&self, device: Device) -> bool {
        match device {
            Device::Origin => self.origin.has_failed(),
            Device::Cache => self.cache.has_failed(),
        }
    }

    /// The two devices. What is under way on them may or may not be done.
    pub fn into_devices(self) -> (O, C) {
        (self.origin.into_device(), self.cache.into_device())
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
            let mut news = self.origin.poll(&mut self.core, now);
            news |= self.cache.poll(&mut self.core, now);
            if !news {
                break;
            }
        }
    }

    /// Asks devices on which nothing is under way whether they are of use still. Without, the cache notices with its next request to them.
    pub fn look_at_idle(&mut self, now: Nanos) {
        self.origin.look_at_idle(&mut self.core, now);
        self.cache.look_at_idle(&mut self.core, now);
        self.settle(now);
    }

    /// Gives the devices what the core wants of them.
    fn hand_out(&mut self, now: Nanos) {
        loop {
            while let Some(sub) = self.core.next_sub() {
                match sub.device {
                    Device::Origin => self.origin.want(sub),
                    Device::Cache => self.cache.want(sub),
                }
            }
            let mut failed = self.origin.give(&mut self.core, now);
            failed |= self.cache.give(&mut self.core, now);
            if !failed {
                break;
            }
        }
    }
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
