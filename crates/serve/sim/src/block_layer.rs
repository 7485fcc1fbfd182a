//! Loads on block devices of a machine, through its processors.

use crate::actors::Step;
use crate::machine::Machine;
use blockdev::stack::{Due, Server};
use blockdev::{BlockDevice, Completed, Geometry, Operation, Parts};
use media::Nanos;
use std::convert::Infallible;
use workload::Actor;
use workload::executor::{ActorTotals, Executor, Finished, Target};

/// A block device of a machine: a namespace, or what is made of several of them.
pub type MachineDevice = Box<dyn BlockDevice<Error = Infallible>>;

/// What the host takes for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Processors {
    /// How many there are, 1 or more. A load stays on one; several loads take them in turn.
    pub count: u32,
    /// Nanoseconds of the load's processor for each part that is submitted: system call, file system, block layer, driver.
    pub submission: u64,
    /// Nanoseconds of the same processor for each that has ended: interrupt, block layer, the way back to the load.
    pub completion: u64,
}

impl Processors {
    /// The host takes no time.
    pub const NONE: Self = Self { count: 1, submission: 0, completion: 0 };
}

/// A device with what is on its way to it.
struct Attached {
    device: MachineDevice,
    contents: bool,
    entering: usize,
    outstanding: usize,
}

/// A part under way.
struct UnderWay {
    load: usize,
    /// The load's own tag.
    tag: u32,
}

/// A part before the device.
struct Entering {
    tag: u32,
    device: usize,
    part: Operation,
    data: Vec<u8>,
}

struct Load<A> {
    executor: Executor<A>,
    devices: Vec<usize>,
    processor: usize,
    contents: bool,
}

/// The ways between loads and devices.
#[derive(Default)]
struct Ways {
    devices: Vec<Attached>,
    processors: Vec<Server>,
    entering: Due<Entering>,
    /// Ends of parts on their way to their loads, by the parts' tags.
    coming: Due<Completed>,
    parts: Vec<Option<UnderWay>>,
    free: Vec<u32>,
}

/// Loads on block devices of a machine. Unlike [`Actors`](crate::Actors), which are on queues of drives, they go through what the host has
/// in between: its [`Processors`], and the layers that a device is made of (`blockdev::stack`, `tier`).
pub struct BlockLayer<A> {
    machine: Machine,
    host: Processors,
    ways: Ways,
    loads: Vec<Load<A>>,
    /// The load that is asked first next time, so that none takes all the room of a device for itself.
    first: usize,
}

/// A load's devices, while it is asked what it wants.
struct Port<'a> {
    ways: &'a mut Ways,
    load: usize,
    devices: &'a [usize],
    processor: usize,
    contents: bool,
    submission: u64,
}

impl Target for Port<'_> {
    type Error = Infallible;

    fn moves_data(&self) -> bool {
        self.contents
    }

    /// As many as all of its devices take: the request's device is not known here.
    fn room(&self, _parts: &Parts) -> usize {
        let room = |device: &usize| {
            let Attached { device, entering, .. } = &self.ways.devices[*device];
            BlockDevice::room(device).saturating_sub(*entering)
        };
        self.devices.iter().map(room).min().unwrap_or(0)
    }

    fn submit(
        &mut self,
        now: u64,
        namespace: u16,
        tag: u32,
        part: &Operation,
        data: Vec<u8>,
    ) -> Result<(), Infallible> {
        let ways = &mut *self.ways;
        let device = self.devices[usize::from(namespace)];
        let place = ways.free.pop().unwrap_or_else(|| {
            ways.parts.push(None);
            ways.parts.len() as u32 - 1
        });
        ways.parts[place as usize] = Some(UnderWay { load: self.load, tag });
        ways.devices[device].entering += 1;
        let at = ways.processors[self.processor].serve(now, self.submission);
        ways.entering.add(at, Entering { tag: place, device, part: *part, data });
        Ok(())
    }
}

impl<A: Actor> BlockLayer<A> {
    /// No devices and loads yet.
    pub fn new(machine: &Machine, host: Processors) -> Self {
        let host = Processors { count: host.count.max(1), ..host };
        let processors = vec![Server::default(); host.count as usize];
        Self {
            machine: machine.clone(),
            host,
            ways: Ways { processors, ..Ways::default() },
            loads: Vec::new(),
            first: 0,
        }
    }

    /// Adds a device on which nothing is outstanding, and whose drives are on this machine. Returns its number, counted from 0. `contents`
    /// says whether it keeps what is written to it.
    pub fn add_device(&mut self, device: MachineDevice, contents: bool) -> usize {
        self.ways.devices.push(Attached { device, contents, entering: 0, outstanding: 0 });
        self.ways.devices.len() - 1
    }

    /// Adds a load on devices: [`Request::namespace`](workload::Request) is the index in `devices`. Returns its number, counted from 0. It begins
    /// with the next run. `None` if one of the devices takes less in one part than the load fills and checks together.
    ///
    /// # Panics
    /// There is no device of such a number, or some keep contents and others do not.
    pub fn add_load(&mut self, actor: A, devices: &[usize]) -> Option<usize> {
        let attached = |number: &usize| &self.ways.devices[*number];
        let geometries: Vec<Geometry> =
            devices.iter().map(|number| attached(number).device.geometry()).collect();
        let contents = devices.iter().any(|number| attached(number).contents);
        assert!(
            devices.iter().all(|number| attached(number).contents == contents),
            "contents are kept or not"
        );
        let executor = Executor::new(actor, &geometries)?.with_patience(1);
        let processor = self.loads.len() % self.ways.processors.len();
        self.loads.push(Load { executor, devices: devices.to_vec(), processor, contents });
        Some(self.loads.len() - 1)
    }

    /// The time of the machine.
    pub fn now(&self) -> Nanos {
        self.machine.now()
    }

    /// A load, to be looked at.
    ///
    /// # Panics
    /// There is no load of this number.
    pub fn load(&self, number: usize) -> &A {
        self.loads[number].executor.actor()
    }

    /// A load, to be changed; it is asked again.
    ///
    /// # Panics
    /// There is no load of this number.
    pub fn load_mut(&mut self, number: usize) -> &mut A {
        self.loads[number].executor.actor_mut()
    }

    /// What has become of a load's requests so far.
    ///
    /// # Panics
    /// There is no load of this number.
    pub fn outcome(&self, number: usize) -> ActorTotals {
        *self.loads[number].executor.outcome()
    }

    /// Takes the loads away, when all have ended. Devices stay.
    ///
    /// # Panics
    /// A request is under way.
    pub fn clear(&mut self) -> Vec<A> {
        assert!(self.loads.iter().all(|load| load.executor.is_over()), "requests are under way");
        self.first = 0;
        std::mem::take(&mut self.loads).into_iter().map(|load| load.executor.into_actor()).collect()
    }

    /// Runs all loads until they have ended, until the machine's time is `until`, or until `enough` says so after a completion. Whether they
    /// have ended; in the last case what is outstanding is waited for, and they have.
    pub fn run(&mut self, until: Nanos, mut enough: impl FnMut(&Step<'_>) -> bool) -> bool {
        let mut stop = false;
        loop {
            let now = self.machine.now();
            while self.step(now, &mut stop, &mut enough) {}
            if self.loads.iter().all(|load| load.executor.is_over()) {
                return true;
            }
            let wake =
                |load: &Load<A>| if load.executor.has_ended() { u64::MAX } else { load.executor.wake() };
            let wanted = self.loads.iter().map(wake).min().unwrap_or(u64::MAX);
            let next = wanted.min(self.next_work());
            if next > until.0 {
                self.machine.run_until(until);
                return false;
            }
            if next == u64::MAX {
                // Nothing will ever happen again: they wait for what the devices do not have.
                return true;
            }
            self.machine.run_until(Nanos(next.max(now.0)));
        }
    }

    /// Lets time pass without loads. What devices do by themselves goes on.
    pub fn rest(&mut self, until: Nanos) {
        loop {
            let now = self.machine.now();
            while self.step(now, &mut false, &mut |_: &Step<'_>| false) {}
            let next = self.next_work();
            if next > until.0 {
                return self.machine.run_until(until);
            }
            self.machine.run_until(Nanos(next.max(now.0)));
        }
    }

    /// When something happens on the way.
    fn next_work(&self) -> u64 {
        let devices = self.ways.devices.iter().map(|attached| attached.device.next_work());
        devices.min().unwrap_or(u64::MAX).min(self.ways.entering.next()).min(self.ways.coming.next())
    }

    /// Moves everything on that can move on now. Whether there was something.
    fn step(&mut self, now: Nanos, stop: &mut bool, enough: &mut impl FnMut(&Step<'_>) -> bool) -> bool {
        let mut news = self.poll(now.0);
        while let Some((at, done)) = self.ways.coming.take(now.0) {
            news = true;
            *stop |= self.arrived(Nanos(at), done, enough);
        }
        let count = self.loads.len();
        let mut last = None;
        for number in (self.first..count).chain(0..self.first) {
            let load = &mut self.loads[number];
            if *stop {
                load.executor.stop();
            }
            if load.executor.is_due(now.0) {
                let Load { executor, devices, processor, contents } = load;
                let mut port = Port {
                    ways: &mut self.ways,
                    load: number,
                    devices,
                    processor: *processor,
                    contents: *contents,
                    submission: self.host.submission,
                };
                let Ok(asked) = executor.ask(now.0, &mut port);
                if asked {
                    (news, last) = (true, Some(number));
                }
            }
        }
        if let Some(last) = last {
            self.first = (last + 1) % count;
        }
        while let Some((_, Entering { tag, device, part, data })) = self.ways.entering.take(now.0) {
            news = true;
            let attached = &mut self.ways.devices[device];
            attached.entering -= 1;
            attached.outstanding += 1;
            let Ok(()) = BlockDevice::submit(&mut attached.device, now.0, tag, &part, data);
        }
        news
    }

    /// Takes what devices have ended, to their loads' processors.
    fn poll(&mut self, now: u64) -> bool {
        let mut news = false;
        for number in 0..self.ways.devices.len() {
            loop {
                let attached = &mut self.ways.devices[number];
                if attached.device.next_work() > now {
                    break;
                }
                let Ok(Some(done)) = attached.device.poll(now) else { break };
                attached.outstanding -= 1;
                news = true;
                let load = self.ways.parts[done.tag as usize].as_ref().map(|part| part.load);
                let processor = load.map_or(0, |load| self.loads[load].processor);
                let at = self.ways.processors[processor].serve(now, self.host.completion);
                self.ways.coming.add(at, done);
            }
        }
        news
    }

    /// A load is told that a part has ended; true if there were enough of them.
    fn arrived(&mut self, now: Nanos, done: Completed, enough: &mut impl FnMut(&Step<'_>) -> bool) -> bool {
        let Some(UnderWay { load, tag }) = self.ways.parts[done.tag as usize].take() else { return false };
        self.ways.free.push(done.tag);
        let Load { executor, contents, .. } = &mut self.loads[load];
        let Some(finished) = executor.complete(now.0, Completed { tag, ..done }, *contents) else {
            return false;
        };
        let Finished { request, latency, status } = &finished;
        let outcome = executor.outcome();
        enough(&Step { actor: load, request, latency: Nanos(*latency), status: *status, now, outcome })
    }
}
