//! What a block device that is made of others has to do with each of them.
//!
//! A state machine without I/O ([`Above`]) says what it wants of its devices ([`Sub`]). For each device it has a [`Below`]. That hands over what the device
//! has room for, and brings back what it has ended. If the device is of no more use, it fails everything. After a failed flush the device is of
//! no more use: reads may find what was there before, and the state machine above relied on what the flush should have made durable.

use crate::{BlockDevice, Completed, Flushes, Nanos, Operation, Status};
use std::collections::VecDeque;

/// What a state machine wants of one of its devices, which `N` names.
#[derive(Debug)]
pub struct Sub<N> {
    /// Comes back with its completion.
    pub id: u32,
    /// Which device.
    pub device: N,
    /// What to do, in blocks of that device, within its limits.
    pub operation: Operation,
    /// As long as the blocks: of a write their contents, of a read room for them. Empty with other verbs, and where contents are not kept.
    pub data: Vec<u8>,
}

/// A request of the host has ended.
#[derive(Debug)]
pub struct Done {
    /// What it was submitted with.
    pub tag: u32,
    /// How it ended.
    pub status: Status,
    /// The buffer that was lent with it.
    pub data: Vec<u8>,
}

/// A state machine above devices, which `N` names.
pub trait Above<N> {
    /// A device has ended what was wanted. `data` is the buffer: of a successful read, filled.
    fn complete(&mut self, now: Nanos, id: u32, status: Status, data: Vec<u8>, device: N);

    /// A device is of no more use. What was wanted of it fails next.
    fn device_failed(&mut self, now: Nanos, device: N);
}

/// A device below a state machine, and what it has no room for.
#[derive(Debug)]
pub struct Below<D, N> {
    device: D,
    name: N,
    /// It is of no more use.
    failed: bool,
    waiting: VecDeque<Sub<N>>,
    under_way: Vec<u32>,
    flushes: Flushes,
}

impl<D, N> Below<D, N> {
    /// A device on which nothing is outstanding.
    pub fn new(device: D, name: N) -> Self {
        let (waiting, under_way) = (VecDeque::new(), Vec::new());
        Self { device, name, failed: false, waiting, under_way, flushes: Flushes::default() }
    }

    /// What it is called.
    #[inline]
    pub fn name(&self) -> N
    where
        N: Copy,
    {
        self.name
    }

    /// The device.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// The device. What is under way on it may or may not be done.
    pub fn into_device(self) -> D {
        self.device
    }

    /// Whether it is of no more use: it failed as a whole, or a flush of it did, and not another request.
    pub const fn has_failed(&self) -> bool {
        self.failed
    }
}

impl<D: BlockDevice, N: Copy> Below<D, N> {
    /// When it is to be polled next: `Nanos::MAX` if it has nothing to do.
    #[inline]
    pub fn next_work(&self) -> Nanos {
        if self.failed { Nanos::MAX } else { self.device.next_work() }
    }

    /// Something is wanted of it. It goes to the device at once, if that has room, else with the next [`give`](Below::give).
    pub fn want(&mut self, above: &mut impl Above<N>, now: Nanos, sub: Sub<N>) {
        if self.failed || !self.waiting.is_empty() || self.device.room() == 0 {
            return self.waiting.push_back(sub);
        }
        if !self.hand(now, sub) {
            self.fail(above, now);
        }
    }

    /// Hands over one. False if the device is of no more use.
    fn hand(&mut self, now: Nanos, Sub { id, operation, data, .. }: Sub<N>) -> bool {
        self.under_way.push(id);
        self.flushes.submitted(id, operation.verb);
        self.device.submit(now, id, &operation, data).is_ok()
    }

    /// Hands over what there is room for. False if the device is of no more use.
    fn submit(&mut self, now: Nanos) -> bool {
        while !self.waiting.is_empty() && self.device.room() > 0 {
            let Some(sub) = self.waiting.pop_front() else { break };
            if !self.hand(now, sub) {
                return false;
            }
        }
        true
    }

    /// Gives the device what waits for it. True if requests failed because it is of no more use.
    pub fn give(&mut self, above: &mut impl Above<N>, now: Nanos) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        if !self.failed && self.submit(now) {
            return false;
        }
        self.fail(above, now);
        true
    }

    /// It is of no more use: what is under way and what waits for it fails.
    fn fail(&mut self, above: &mut impl Above<N>, now: Nanos) {
        if !std::mem::replace(&mut self.failed, true) {
            above.device_failed(now, self.name);
        }
        for id in std::mem::take(&mut self.under_way) {
            above.complete(now, id, Status::INTERNAL_ERROR, Vec::new(), self.name);
        }
        for sub in std::mem::take(&mut self.waiting) {
            above.complete(now, sub.id, Status::INTERNAL_ERROR, sub.data, self.name);
        }
    }

    /// A device on which nothing is under way says whether it has failed.
    pub fn look_at_idle(&mut self, above: &mut impl Above<N>, now: Nanos) {
        if !self.failed && self.under_way.is_empty() && self.device.poll(now).is_err() {
            self.fail(above, now);
        }
    }

    /// Takes what the device has ended. True if there was something.
    pub fn poll(&mut self, above: &mut impl Above<N>, now: Nanos) -> bool {
        let mut news = false;
        while !self.failed && self.device.next_work() <= now {
            match self.device.poll(now) {
                Ok(Some(mut done)) => {
                    if let Some(at) = self.under_way.iter().position(|id| *id == done.tag) {
                        self.under_way.swap_remove(at);
                    }
                    self.failed = self.flushes.ended(&mut done);
                    if self.failed {
                        above.device_failed(now, self.name);
                    }
                    let Completed { tag, status, data } = done;
                    above.complete(now, tag, status, data, self.name);
                    if self.failed {
                        self.fail(above, now);
                    }
                }
                Ok(None) => break,
                Err(_) => self.fail(above, now),
            }
            news = true;
        }
        news
    }
}
