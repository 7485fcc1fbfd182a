//! A block device that is made of others: a state machine above, devices below.

use crate::stack::member::{Above, Below, Done, Sub};
use crate::{BlockDevice, Completed, Geometry, Nanos, Operation};
use std::convert::Infallible;

/// A state machine without I/O that makes one block device of several.
///
/// Requests of the host and the time go in. What it wants of its devices and requests that have ended come out.
pub trait Machine: Above<Self::Device> + Sized {
    /// Names one of its devices.
    type Device: Copy + PartialEq;
    /// What a user can change while it runs.
    type Control;
    /// Why such a change is not made.
    type ControlError;
    /// Why it cannot be made or opened.
    type OpenError;

    /// Blocks, and what a request may have.
    fn geometry(&self) -> Geometry;

    /// Whether it is open, or why it will not be.
    ///
    /// # Errors
    /// It cannot be opened.
    fn opened(&self) -> Result<bool, Self::OpenError>;

    /// Time has passed.
    fn poll(&mut self, now: Nanos);

    /// When time alone gives it something to do: `Nanos::MAX` if nothing.
    fn next_event(&self) -> Nanos;

    /// Begins a request of the host.
    fn submit(&mut self, now: Nanos, tag: u32, operation: &Operation, data: Vec<u8>);

    /// The next thing that it wants of a device.
    fn next_sub(&mut self) -> Option<Sub<Self::Device>>;

    /// The next request that has ended.
    fn next_done(&mut self) -> Option<Done>;

    /// Whether a request has ended that was not [taken](Machine::next_done).
    fn has_done(&self) -> bool;

    /// Requests of the host that have not ended.
    fn outstanding(&self) -> usize;

    /// Begins a change. Its [outcome](Machine::take_outcome) comes later.
    ///
    /// # Errors
    /// Another one is under way, or it makes no sense.
    fn control(&mut self, now: Nanos, control: Self::Control) -> Result<(), Self::ControlError>;

    /// How the last change ended, once.
    fn take_outcome(&mut self) -> Option<Result<(), Self::ControlError>>;
}

/// The devices below a state machine: two or three, each as a [`Below`].
pub trait Devices<N> {
    /// The devices themselves.
    type Raw;

    /// Something is wanted of the device that it names, which gets it at once if it has room.
    fn want(&mut self, above: &mut impl Above<N>, now: Nanos, sub: Sub<N>);

    /// Gives each device what waits for it. True if requests failed because one is of no more use.
    fn give(&mut self, above: &mut impl Above<N>, now: Nanos) -> bool;

    /// Takes what they have ended. True if there was something.
    fn poll(&mut self, above: &mut impl Above<N>, now: Nanos) -> bool;

    /// When the first is to be polled: `Nanos::MAX` if none has anything to do.
    fn next_work(&self) -> Nanos;

    /// Those on which nothing is under way say whether they have failed.
    fn look_at_idle(&mut self, above: &mut impl Above<N>, now: Nanos);

    /// Whether this one is of no more use.
    fn has_failed(&self, device: N) -> bool;

    /// The devices. What is under way on them may or may not be done.
    fn into_devices(self) -> Self::Raw;
}

macro_rules! devices {
    ($($device:ident . $at:tt),+) => {
        impl<N: Copy + PartialEq, $($device: BlockDevice),+> Devices<N> for ($(Below<$device, N>,)+) {
            type Raw = ($($device,)+);

            #[inline]
            fn want(&mut self, above: &mut impl Above<N>, now: Nanos, sub: Sub<N>) {
                $(if sub.device == self.$at.name() {
                    return self.$at.want(above, now, sub);
                })+
            }

            #[inline]
            fn give(&mut self, above: &mut impl Above<N>, now: Nanos) -> bool {
                let failed = [$(self.$at.give(above, now)),+];
                failed.contains(&true)
            }

            #[inline]
            fn poll(&mut self, above: &mut impl Above<N>, now: Nanos) -> bool {
                let news = [$(self.$at.poll(above, now)),+];
                news.contains(&true)
            }

            #[inline]
            fn next_work(&self) -> Nanos {
                let next = [$(self.$at.next_work()),+];
                next.into_iter().min().unwrap_or(Nanos::MAX)
            }

            fn look_at_idle(&mut self, above: &mut impl Above<N>, now: Nanos) {
                $(self.$at.look_at_idle(above, now);)+
            }

            fn has_failed(&self, device: N) -> bool {
                [$((self.$at.name(), self.$at.has_failed())),+].contains(&(device, true))
            }

            fn into_devices(self) -> Self::Raw {
                ($(self.$at.into_device(),)+)
            }
        }
    };
}

devices!(A.0, B.1);
devices!(A.0, B.1, C.2);

/// Requests of the host at the same time.
const DEPTH: usize = 1024;

/// A block device that is made of others.
///
/// Its [`next_event`](BlockDevice::next_event) keeps to the contract: it is `Nanos::MAX` while no request of the host is under way. What the
/// state machine does in the background goes on at [`next_work`](BlockDevice::next_work).
#[derive(Debug)]
pub struct Composite<M, D> {
    core: M,
    devices: D,
}

impl<M: Machine, D: Devices<M::Device>> Composite<M, D> {
    /// Begins to make or to open it. Requests wait until it is [open](Composite::opened).
    pub fn begin(core: M, devices: D, now: Nanos) -> Self {
        let mut composite = Self { core, devices };
        composite.settle(now);
        composite
    }

    /// Waits until it is open. `wait` lets time pass until one of the devices has news, and returns the time.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn until_open(mut self, mut wait: impl FnMut(&Self) -> Nanos) -> Result<Self, M::OpenError> {
        while !self.opened()? {
            let now = wait(&self);
            self.settle(now);
        }
        Ok(self)
    }

    /// Whether it is open, or why it will not be.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn opened(&self) -> Result<bool, M::OpenError> {
        self.core.opened()
    }

    /// Makes a change, and waits until it is made. Requests of the host wait meanwhile.
    ///
    /// # Errors
    /// It could not be made.
    pub fn change(
        &mut self,
        now: Nanos,
        control: M::Control,
        mut wait: impl FnMut(&Self) -> Nanos,
    ) -> Result<(), M::ControlError> {
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
    pub fn control(&mut self, now: Nanos, control: M::Control) -> Result<(), M::ControlError> {
        let begun = self.core.control(now, control);
        self.settle(now);
        begun
    }

    /// How the last change ended, once.
    pub fn take_outcome(&mut self) -> Option<Result<(), M::ControlError>> {
        self.core.take_outcome()
    }

    /// The state machine.
    pub fn core(&self) -> &M {
        &self.core
    }

    /// The state machine, to set a tunable.
    pub fn core_mut(&mut self) -> &mut M {
        &mut self.core
    }

    /// Whether a device is of no more use: it failed as a whole, or a flush of it did, and not another request.
    pub fn has_failed(&self, device: M::Device) -> bool {
        self.devices.has_failed(device)
    }

    /// The devices. What is under way on them may or may not be done.
    pub fn into_devices(self) -> D::Raw {
        self.devices.into_devices()
    }

    /// Moves everything on that can move on at `now`.
    pub fn settle(&mut self, now: Nanos) {
        self.core.poll(now);
        loop {
            self.hand_out(now);
            if !self.devices.poll(&mut self.core, now) {
                break;
            }
        }
    }

    /// The next request that has ended, without looking at the devices: [`settle`](Composite::settle) does.
    #[inline]
    pub fn take_done(&mut self) -> Option<Done> {
        self.core.next_done()
    }

    /// Asks devices on which nothing is under way whether they are of use still. Without, the next request to them tells.
    pub fn look_at_idle(&mut self, now: Nanos) {
        self.devices.look_at_idle(&mut self.core, now);
        self.settle(now);
    }

    /// Gives the devices what the state machine wants of them.
    fn hand_out(&mut self, now: Nanos) {
        loop {
            while let Some(sub) = self.core.next_sub() {
                self.devices.want(&mut self.core, now, sub);
            }
            if !self.devices.give(&mut self.core, now) {
                break;
            }
        }
    }
}

impl<M, A, B, N> Composite<M, (Below<A, N>, Below<B, N>)> {
    /// The first device: of a cache, its origin.
    pub fn origin(&self) -> &A {
        self.devices.0.device()
    }

    /// The second device: of a cache, the fast one.
    pub fn cache(&self) -> &B {
        self.devices.1.device()
    }
}

impl<M, A, B, C, N> Composite<M, (Below<A, N>, Below<B, N>, Below<C, N>)> {
    /// The first device: of a cache, its origin.
    pub fn origin(&self) -> &A {
        self.devices.0.device()
    }

    /// The second device: of a cache, the fast one.
    pub fn cache(&self) -> &B {
        self.devices.1.device()
    }

    /// The third device: of a cache, where it keeps what it knows.
    pub fn metadata(&self) -> &C {
        self.devices.2.device()
    }
}

impl<M: Machine, D: Devices<M::Device>> BlockDevice for Composite<M, D> {
    /// A device that fails makes requests fail, and the rest goes on.
    type Error = Infallible;

    fn geometry(&self) -> Geometry {
        self.core.geometry()
    }

    fn room(&self) -> usize {
        DEPTH.saturating_sub(self.core.outstanding())
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
            false => self.devices.next_work().min(self.core.next_event()),
        }
    }
}
