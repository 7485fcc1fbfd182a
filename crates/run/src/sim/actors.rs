//! Loads that run at the same time under one virtual clock.

use super::machine::{Arrival, World};
use super::queue::SimQueue;
use super::{Outcome, SimTransport};
use crate::buffer::Buffer;
use crate::engine::Engine;
use crate::store::DataBuffer;
use crate::virtual_queues::{VirtualCompletion, VirtualQueues};
use host::{Host, Namespace, Queue};
use media::Nanos;
use nvme::io::{Blocks, DsmRange};
use nvme::{Command, IoOpcode, Nsid, Status, zerocopy::IntoBytes};
use std::cell::RefCell;
use std::rc::Rc;
use workload::{Actor, Next, Request, Verb};

/// Logical blocks of a range of a Copy at most.
const COPY_MOST: u64 = 1 << 16;
/// While more commands than these can be put in flight, requests need not be counted.
const AMPLE: usize = 1 << 15;
/// Commands in flight that are left to typed hosts.
const RESERVED: usize = 256;

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

/// A command where contents are kept: which part of which request it is.
#[derive(Clone, Copy, Default)]
struct Part {
    tag: u32,
    /// Its first byte of the request's.
    at: u64,
    read: bool,
}

/// Where an actor's requests go.
struct Wire {
    queue: SimQueue,
    spaces: Vec<Space>,
    /// Whether the drive keeps contents.
    keeps: bool,
    /// Where it does: buffers that are not in use, the commands under way by their own tags, and tags that are free.
    buffers: Vec<Buffer>,
    parts: Vec<Part>,
    free: Vec<u32>,
}

/// An actor on its queue.
struct Lane<A> {
    actor: A,
    wire: Wire,
    outstanding: Vec<Option<Outstanding>>,
    in_flight: u32,
    /// A request for which the drive has no room yet, and when it was made: it waits as in a queue of the host's.
    held: Option<(Request, Nanos)>,
    /// Whether something has happened since it was asked.
    ready: bool,
    /// When it wants to be asked.
    wake: Nanos,
    ended: bool,
    started: Option<Nanos>,
    outcome: Outcome,
}

/// Actors on I/O queues of the drives of a machine, under its clock.
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
    /// The drive refuses the queue or is not on this machine, or the namespace is not attached.
    pub fn add(&mut self, host: &mut Host<SimTransport>, nsid: Nsid, actor: A) -> Result<usize, host::Error> {
        self.add_over(host, &[nsid], actor)
    }

    /// Like [`Actors::add`], for an actor of several namespaces: [`Request::namespace`] is the index in `nsids`. To run it panics
    /// if the actor names another.
    ///
    /// # Errors
    /// The drive refuses the queue or is not on this machine, or one of the namespaces is not attached.
    pub fn add_over(
        &mut self,
        host: &mut Host<SimTransport>,
        nsids: &[Nsid],
        actor: A,
    ) -> Result<usize, host::Error> {
        let namespaces = nsids.iter().map(|&nsid| host.namespace(nsid)).collect::<Result<Vec<_>, _>>()?;
        let queue = host.io_queue(u16::MAX)?;
        let bytes = u64::try_from(queue.max_transfer()).unwrap_or(u64::MAX);
        let unit = actor.unit().max(1);
        let bytes = bytes - bytes % unit;
        if bytes == 0 {
            return Err(host::Error::Usage(format!(
                "the drive takes {} bytes in one command, less than the {unit} that are filled and checked together",
                queue.max_transfer()
            )));
        }
        let space = |namespace: Namespace| Space {
            namespace,
            // A command has at most 65,536 logical blocks.
            most: (bytes / u64::from(namespace.block_size)).clamp(1, 1 << 16) as u32,
        };
        let spaces = namespaces.into_iter().map(space).collect();
        let queue = queue.into_raw();
        if !Rc::ptr_eq(&queue.association.world, &self.world) {
            return Err(host::Error::Usage("the host's drive is not on this machine".to_owned()));
        }
        let keeps = self.world.borrow().drives[queue.association.drive].store.keeps();
        let number = queue.number as usize;
        if self.routes.len() <= number {
            self.routes.resize(number + 1, None);
        }
        self.routes[number] = Some(self.lanes.len() as u32);
        self.lanes.push(Lane {
            actor,
            wire: Wire { queue, spaces, keeps, buffers: Vec::new(), parts: Vec::new(), free: Vec::new() },
            outstanding: Vec::new(),
            in_flight: 0,
            held: None,
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

    /// Runs all of them until they have ended, until the machine's time is `until`, or until `enough` says so after a
    /// completion. Whether they have ended; in the last case what is outstanding is waited for, and they have.
    pub fn run(&mut self, until: Nanos, mut enough: impl FnMut(&Step<'_>) -> bool) -> bool {
        let world = &mut *self.world.borrow_mut();
        let now = world.clock.now();
        let mut stop = false;
        for arrival in std::mem::take(&mut world.arrived) {
            match lane_of(&self.routes, arrival.done.queue) {
                Some(lane) => {
                    stop |= self.lanes[lane].arrived(lane, arrival.done, arrival.at, now, &mut enough);
                }
                None => world.arrived.push(arrival),
            }
        }
        // When a lane wants to be asked, and whether any still works.
        let (mut wanted, mut alive) = (Nanos::ZERO, true);
        loop {
            let now = world.clock.now();
            if wanted <= now {
                (wanted, alive) = (Nanos::MAX, false);
                for lane in &mut self.lanes {
                    lane.ended |= stop;
                    if !lane.ended && (lane.ready || lane.wake <= now || lane.held.is_some()) {
                        let drive = lane.wire.queue.association.drive;
                        lane.ask(now, &mut world.drives[drive]);
                    }
                    if !lane.ended {
                        wanted = wanted.min(lane.wake);
                    }
                    alive |= !lane.ended || lane.in_flight > 0;
                }
            }
            let (mut next, mut stepped) = (wanted, false);
            for engine in &mut world.drives {
                let due = engine.deadline();
                if due > now && !engine.has_news() {
                    next = next.min(due);
                    continue;
                }
                stepped = true;
                engine.settle(now, &mut world.front_end);
                let mut done = std::mem::take(&mut world.front_end.completions);
                if !done.is_empty() {
                    // Whoever got something is asked what is next.
                    wanted = now;
                }
                for done in done.drain(..) {
                    match lane_of(&self.routes, done.queue) {
                        Some(lane) => stop |= self.lanes[lane].arrived(lane, done, now, now, &mut enough),
                        None => world.arrived.push(Arrival { done, at: now }),
                    }
                }
                world.front_end.completions = done;
            }
            if stepped {
                continue;
            }
            if !alive {
                return true;
            }
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
    fn ask(&mut self, now: Nanos, engine: &mut Engine) {
        self.started.get_or_insert(now);
        self.ready = false;
        self.wake = Nanos::MAX;
        loop {
            let (request, submitted) = match self.held.take() {
                Some(held) => held,
                None => match self.actor.next(now.0) {
                    Next::Submit(request) => (request, now),
                    Next::At(at) => {
                        self.wake = Nanos(at);
                        return;
                    }
                    Next::Wait => return,
                    Next::Done => {
                        self.ended = true;
                        return;
                    }
                },
            };
            if engine.room() < AMPLE && engine.room() < self.wire.parts(&request) + RESERVED {
                self.held = Some((request, submitted));
                return;
            }
            self.wire.prefetch(&request, self.actor.coming(), engine);
            let index = request.tag as usize;
            if self.outstanding.len() <= index {
                self.outstanding.resize(index + 1, None);
            }
            let parts = self.wire.submit(now, &request, &mut self.actor, engine);
            let status = Status::SUCCESS;
            self.outstanding[index] = Some(Outstanding { request, submitted, parts, status });
            self.in_flight += 1;
        }
    }

    /// Takes a completion; true if there were enough of them.
    #[inline]
    fn arrived(
        &mut self,
        number: usize,
        done: VirtualCompletion,
        at: Nanos,
        now: Nanos,
        enough: &mut impl FnMut(&Step<'_>) -> bool,
    ) -> bool {
        let (mut tag, status) = (done.tag, done.completion.status());
        if self.wire.keeps {
            let Some(part) = self.wire.end(tag) else { return false };
            tag = part.tag;
            if part.read && status.is_success() {
                self.actor.check(part.tag, part.at, done.data.as_slice());
            }
            self.wire.keep(done.data);
        }
        let Some(place) = self.outstanding.get_mut(tag as usize) else { return false };
        let Some(was) = place else { return false };
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
        let latency = at.since(submitted);
        let lba_bytes = self.wire.spaces[usize::from(request.namespace)].namespace.block_size.into();
        self.outcome.count(&request, latency, at, status, lba_bytes);
        self.outcome.elapsed = at.since(self.started.unwrap_or(submitted));
        self.actor.completed(at.0, request.tag, status.is_success());
        let outcome = &self.outcome;
        enough(&Step { actor: number, request: &request, latency, status, now, outcome })
    }
}

impl Wire {
    /// What the next request needs comes from memory while this one is done; where nobody knows that, what this one needs comes while it is
    /// looked at.
    #[inline]
    fn prefetch(&self, request: &Request, coming: Option<(u16, u64)>, engine: &Engine) {
        let drive = &engine.drive;
        let nsid = |namespace: u16| self.spaces.get(usize::from(namespace)).map(|space| space.namespace.nsid);
        let (namespace, lba) = coming.unwrap_or((request.namespace, request.lba));
        if let Some(nsid) = nsid(namespace) {
            drive.prefetch_block(nsid, lba);
        }
        // The map's entry has come, and says what a read looks at next.
        if let Some(nsid) =
            nsid(request.namespace).filter(|_| coming.is_some() && request.verb.plain() == Verb::Read)
        {
            drive.prefetch_place_of_block(nsid, request.lba);
        }
    }

    /// How many commands a request takes at most.
    fn parts(&self, request: &Request) -> usize {
        request.blocks.div_ceil(self.spaces[usize::from(request.namespace)].most).max(1) as usize
    }

    /// Hands a request to the drive, in as many commands as it takes. How many those are.
    fn submit<A: Actor>(&mut self, now: Nanos, request: &Request, actor: &mut A, engine: &mut Engine) -> u32 {
        let Space { namespace, most } = self.spaces[usize::from(request.namespace)];
        let (nsid, block_size) = (namespace.nsid, namespace.block_size);
        let (tag, read) = (request.tag, request.verb.plain() == Verb::Read);
        match request.verb {
            Verb::Flush => {
                self.command(now, Part { tag, at: 0, read }, Command::flush(nsid), DataBuffer::None, engine);
                1
            }
            Verb::Trim => {
                let range = DsmRange::new(request.lba, request.blocks);
                let data = Buffer::from(range.as_bytes().to_vec()).into();
                self.command(now, Part { tag, at: 0, read }, Command::deallocate(nsid, 1), data, engine);
                1
            }
            Verb::WriteZeroes { deallocate } => {
                let command = Command::write_zeroes(nsid, request.lba, request.blocks, deallocate);
                self.command(now, Part { tag, at: 0, read }, command, Lent::Nothing, world);
                1
            }
            Verb::Copy { from, fua } => {
                let (mut done, all, mut parts) = (0, u64::from(request.blocks.max(1)), 0);
                while done < all {
                    let blocks = (all - done).min(COPY_MOST);
                    let (command, source) =
                        host::copy_range(nsid, request.lba + done, from + done, blocks as u32, fua);
                    let part = Part { tag, at: done * u64::from(block_size), read };
                    self.command(now, part, command, Buffer::from(source).into(), engine);
                    parts += 1;
                    done += blocks;
                }
                parts
            }
            Verb::Read | Verb::Write | Verb::ReadFua | Verb::WriteFua => {
                let fua = request.verb.fua();
                let (mut done, all, mut parts) = (0, request.blocks.max(1), 0);
                loop {
                    let blocks = (all - done).min(most);
                    let lba = request.lba + u64::from(done);
                    let part = Part { tag, at: u64::from(done) * u64::from(block_size), read };
                    let range = Blocks { fua, ..Blocks::new(nsid, lba, blocks) };
                    let command = range.encode(if read { IoOpcode::READ } else { IoOpcode::WRITE });
                    let data = match self.keeps {
                        true => self.data(part, u64::from(blocks) * u64::from(block_size), actor).into(),
                        false => DataBuffer::Void,
                    };
                    self.command(now, part, command, data, engine);
                    parts += 1;
                    done += blocks;
                    if done == all {
                        return parts;
                    }
                }
            }
        }
    }

    #[inline]
    fn command(&mut self, now: Nanos, part: Part, command: Command, data: DataBuffer, engine: &mut Engine) {
        let tag = if self.keeps { self.begin(part) } else { part.tag };
        let SimQueue { association, number, qid, .. } = &self.queue;
        let owner = VirtualQueues::owner(*number, tag);
        engine.submit(now, owner, association.controller, *qid, command, data);
    }

    /// A tag for a part.
    fn begin(&mut self, part: Part) -> u32 {
        let tag = self.free.pop().unwrap_or(self.parts.len() as u32);
        match self.parts.get_mut(tag as usize) {
            Some(place) => *place = part,
            None => self.parts.push(part),
        }
        tag
    }

    /// The part of a tag, which is free from now on.
    fn end(&mut self, tag: u32) -> Option<Part> {
        let part = self.parts.get(tag as usize).copied()?;
        self.free.push(tag);
        Some(part)
    }

    /// The data of a part: of a write, with what it writes.
    fn data<A: Actor>(&mut self, part: Part, bytes: u64, actor: &mut A) -> Buffer {
        let mut buffer = match self.buffers.pop() {
            Some(buffer) if buffer.len() as u64 == bytes => buffer,
            _ => Buffer::zeroed(u32::try_from(bytes).unwrap_or(0)),
        };
        if !part.read {
            actor.fill(part.tag, part.at, buffer.as_mut_slice());
        }
        buffer
    }

    fn keep(&mut self, data: DataBuffer) {
        if let DataBuffer::Owned(buffer) = data
            && self.buffers.len() < self.queue.capacity()
        {
            self.buffers.push(buffer);
        }
    }
}
