//! Loads that run at the same time under one virtual clock.

use super::queue::SimQueue;
use super::{Arrival, Outcome, SimTransport, World};
use crate::buffer::Buffer;
use crate::engine::Owner;
use crate::store::{Backing, Lent};
use host::{Host, Namespace, Queue};
use media::Nanos;
use nvme::{Command, Nsid, Status, io::DsmRange, zerocopy::IntoBytes};
use std::cell::RefCell;
use std::rc::Rc;
use workload::{Actor, Next, Request, Verb};

/// A request of an actor has ended.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Which actor, in the order in which they were added.
    pub actor: usize,
    /// What it asked for.
    pub request: &'a Request,
    /// From its submission to its completion.
    pub latency: Nanos,
    /// How it ended.
    pub status: Status,
    /// When it ended.
    pub now: Nanos,
    /// The actor's outcome so far, this request counted.
    pub outcome: &'a Outcome,
}

/// A request under way.
#[derive(Clone, Copy)]
struct Outstanding {
    request: Request,
    submitted: Nanos,
    /// Commands of it that have not completed.
    parts: u32,
    /// The first status that was no success.
    status: Status,
}

/// One of an actor's namespaces.
#[derive(Clone, Copy)]
struct Space {
    namespace: Namespace,
    /// Logical blocks of one command at most.
    most: u32,
}

/// Where an actor's requests go.
struct Wire {
    queue: SimQueue,
    spaces: Vec<Space>,
    /// Buffers that are not in use, where contents are kept.
    buffers: Vec<Buffer>,
}

/// An actor on its queue.
struct Lane<A> {
    actor: A,
    wire: Wire,
    outstanding: Vec<Option<Outstanding>>,
    in_flight: u32,
    /// Whether something has happened since it was asked.
    ready: bool,
    /// When it wants to be asked.
    wake: Nanos,
    ended: bool,
    started: Option<Nanos>,
    outcome: Outcome,
}

/// Actors on I/O queues of one drive, under its clock.
///
/// A host that waits for an admin command while actors are in the middle of their work lets the clock run, too: their
/// completions are counted with their true times, but they are asked for what comes next when they run again.
pub struct Actors<A> {
    world: Rc<RefCell<World>>,
    lanes: Vec<Lane<A>>,
    /// The lane of each queue.
    routes: Vec<Option<u32>>,
}

impl<A: Actor> Actors<A> {
    pub(super) fn new(world: Rc<RefCell<World>>) -> Self {
        Actors { world, lanes: Vec::new(), routes: Vec::new() }
    }

    /// Puts an actor on an I/O queue of its own of this host, for a namespace that is attached to it. Returns its number:
    /// they are counted from 0. It begins with the next run.
    ///
    /// # Errors
    /// The drive refuses the queue, or the namespace is not attached.
    pub fn add(&mut self, host: &mut Host<SimTransport>, nsid: Nsid, actor: A) -> Result<usize, host::Error> {
        self.add_over(host, &[nsid], actor)
    }

    /// Like [`Actors::add`], for an actor of several namespaces: [`Request::namespace`] is the index in `nsids`. To run it panics
    /// if the actor names another.
    ///
    /// # Errors
    /// The drive refuses the queue, or one of the namespaces is not attached.
    pub fn add_over(
        &mut self,
        host: &mut Host<SimTransport>,
        nsids: &[Nsid],
        actor: A,
    ) -> Result<usize, host::Error> {
        let namespaces = nsids.iter().map(|&nsid| host.namespace(nsid)).collect::<Result<Vec<_>, _>>()?;
        let queue = host.io_queue(u16::MAX)?;
        let bytes = u64::try_from(queue.max_transfer()).unwrap_or(u64::MAX);
        let space = |namespace: Namespace| Space {
            namespace,
            // A command has at most 65,536 logical blocks.
            most: (bytes / u64::from(namespace.block_size)).clamp(1, 1 << 16) as u32,
        };
        let spaces = namespaces.into_iter().map(space).collect();
        let queue = queue.into_raw();
        let number = queue.number as usize;
        if self.routes.len() <= number {
            self.routes.resize(number + 1, None);
        }
        self.routes[number] = Some(self.lanes.len() as u32);
        self.lanes.push(Lane {
            actor,
            wire: Wire { queue, spaces, buffers: Vec::new() },
            outstanding: Vec::new(),
            in_flight: 0,
            ready: true,
            wake: Nanos::MAX,
            ended: false,
            started: None,
            outcome: Outcome::default(),
        });
        Ok(self.lanes.len() - 1)
    }

    /// An actor, to be looked at.
    ///
    /// # Panics
    /// There is no actor of this number.
    pub fn actor(&self, number: usize) -> &A {
        &self.lanes[number].actor
    }

    /// An actor, to be changed; it is asked again.
    ///
    /// # Panics
    /// There is no actor of this number.
    pub fn actor_mut(&mut self, number: usize) -> &mut A {
        let lane = &mut self.lanes[number];
        lane.ready = true;
        &mut lane.actor
    }

    /// What has become of an actor's requests so far.
    ///
    /// # Panics
    /// There is no actor of this number.
    pub fn outcome(&self, number: usize) -> Outcome {
        self.lanes[number].outcome
    }

    /// Runs all of them until they have ended, until the drive's time is `until`, or until `enough` says so after a
    /// completion. Whether they have ended; in the last case what is outstanding is waited for, and they have.
    pub fn run(&mut self, until: Nanos, mut enough: impl FnMut(&Step<'_>) -> bool) -> bool {
        let world = &mut *self.world.borrow_mut();
        let now = world.clock.now();
        let mut stop = false;
        for arrival in std::mem::take(&mut world.arrived) {
            match lane_of(&self.routes, arrival.queue) {
                Some(lane) => stop |= self.lanes[lane].arrived(lane, arrival, now, &mut enough),
                None => world.arrived.push(arrival),
            }
        }
        loop {
            let now = world.clock.now();
            let mut wanted = Nanos::MAX;
            let mut alive = false;
            for lane in &mut self.lanes {
                lane.ended |= stop;
                if !lane.ended && (lane.ready || lane.wake <= now) {
                    lane.ask(now, world);
                }
                if !lane.ended {
                    wanted = wanted.min(lane.wake);
                }
                alive |= !lane.ended || lane.in_flight > 0;
            }
            world.engine.settle(now, &mut world.deliveries);
            world.deliveries.clear();
            let mut done = std::mem::take(&mut world.engine.actor_done);
            let progress = !done.is_empty();
            for (queue, tag, completion, data) in done.drain(..) {
                let arrival = Arrival { queue, tag, completion, data, at: now };
                match lane_of(&self.routes, queue) {
                    Some(lane) => stop |= self.lanes[lane].arrived(lane, arrival, now, &mut enough),
                    None => world.arrived.push(arrival),
                }
            }
            world.engine.actor_done = done;
            if progress {
                continue;
            }
            if !alive {
                return true;
            }
            let next = world.engine.deadline().min(wanted);
            if next > until {
                world.clock.advance(until);
                return false;
            }
            if next == Nanos::MAX {
                // Nothing will ever happen again: they wait for what the drive does not have.
                return true;
            }
            world.clock.advance(next);
        }
    }
}

#[inline]
fn lane_of(routes: &[Option<u32>], queue: u32) -> Option<usize> {
    routes.get(queue as usize).copied().flatten().map(|lane| lane as usize)
}

impl<A: Actor> Lane<A> {
    /// Submits what the actor wants now.
    fn ask(&mut self, now: Nanos, world: &mut World) {
        self.started.get_or_insert(now);
        self.ready = false;
        self.wake = Nanos::MAX;
        loop {
            match self.actor.next(now.0) {
                Next::Submit(request) => {
                    let index = request.tag as usize;
                    if self.outstanding.len() <= index {
                        self.outstanding.resize(index + 1, None);
                    }
                    let parts = self.wire.submit(now, &request, world);
                    let (submitted, status) = (now, Status::SUCCESS);
                    self.outstanding[index] = Some(Outstanding { request, submitted, parts, status });
                    self.in_flight += 1;
                }
                Next::At(at) => {
                    self.wake = Nanos(at);
                    return;
                }
                Next::Wait => return,
                Next::Done => {
                    self.ended = true;
                    return;
                }
            }
        }
    }

    /// Takes a completion; true if there were enough of them.
    #[inline]
    fn arrived(
        &mut self,
        number: usize,
        arrival: Arrival,
        now: Nanos,
        enough: &mut impl FnMut(&Step<'_>) -> bool,
    ) -> bool {
        self.wire.keep(arrival.data);
        let Some(place) = self.outstanding.get_mut(arrival.tag as usize) else { return false };
        let Some(was) = place else { return false };
        let status = arrival.completion.status();
        if was.status.is_success() {
            was.status = status;
        }
        was.parts -= 1;
        if was.parts > 0 {
            return false;
        }
        let Outstanding { request, submitted, status, .. } = *was;
        *place = None;
        self.in_flight -= 1;
        self.ready = true;
        let latency = arrival.at.since(submitted);
        let lba_bytes = self.wire.spaces[usize::from(request.namespace)].namespace.block_size.into();
        self.outcome.count(&request, latency, arrival.at, status, lba_bytes);
        self.outcome.elapsed = arrival.at.since(self.started.unwrap_or(submitted));
        self.actor.completed(arrival.at.0, request.tag, status.is_success());
        let outcome = &self.outcome;
        enough(&Step { actor: number, request: &request, latency, status, now, outcome })
    }
}

impl Wire {
    /// Hands a request to the drive, in as many commands as it takes. How many those are.
    fn submit(&mut self, now: Nanos, request: &Request, world: &mut World) -> u32 {
        let Space { namespace, most } = self.spaces[usize::from(request.namespace)];
        let (nsid, block_size) = (namespace.nsid, namespace.block_size);
        match request.verb {
            Verb::Flush => {
                self.command(now, request.tag, &Command::flush(nsid), Lent::Nothing, world);
                1
            }
            Verb::Trim => {
                let range = DsmRange::new(request.lba, request.blocks);
                let data = Buffer::from(range.as_bytes().to_vec()).into();
                self.command(now, request.tag, &Command::deallocate(nsid, 1), data, world);
                1
            }
            Verb::Read | Verb::Write => {
                let (mut lba, mut left, mut parts) = (request.lba, request.blocks.max(1), 0);
                loop {
                    let blocks = left.min(most);
                    let command = match request.verb {
                        Verb::Write => Command::write(nsid, lba, blocks),
                        _ => Command::read(nsid, lba, blocks),
                    };
                    let data = self.buffer(blocks, block_size, world);
                    self.command(now, request.tag, &command, data, world);
                    parts += 1;
                    left -= blocks;
                    if left == 0 {
                        return parts;
                    }
                    lba += u64::from(blocks);
                }
            }
        }
    }

    #[inline]
    fn command(&self, now: Nanos, tag: u32, command: &Command, data: Lent, world: &mut World) {
        let SimQueue { association, number, qid, .. } = &self.queue;
        let owner = Owner::Actor { queue: *number, tag };
        world.engine.submit(now, owner, association.controller, *qid, command, data);
    }

    #[inline]
    fn buffer(&mut self, blocks: u32, block_size: u32, world: &World) -> Lent {
        if world.engine.store.dry || matches!(world.engine.store.backing, Backing::None) {
            return Lent::Void;
        }
        let bytes = u64::from(blocks) * u64::from(block_size);
        match self.buffers.pop() {
            Some(buffer) if buffer.as_slice().len() as u64 == bytes => buffer.into(),
            _ => Buffer::zeroed(u32::try_from(bytes).unwrap_or(0)).into(),
        }
    }

    #[inline]
    fn keep(&mut self, data: Lent) {
        if let Lent::Own(buffer) = data
            && self.buffers.len() < self.queue.capacity()
        {
            self.buffers.push(buffer);
        }
    }
}
