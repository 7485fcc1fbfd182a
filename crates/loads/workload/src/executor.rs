//! The executor: any actor, on any device, under any clock.
//!
//! An [`Executor`] asks its actor for requests, cuts them into parts that the device takes, and submits these while there is room.
//! It counts parts, keeps the buffers of data, lets the actor fill and check them, and tells the actor how each request ended.
//!
//! Time is an argument. Its caller says when to [ask](Executor::ask) the actor, takes completions from the device and hands them to
//! [`Executor::complete`]. Limits of rate, timeouts and waiting are the caller's.

use crate::{Actor, Nanos, Next, Request};
use blockdev::{BlockDevice, Completed, Geometry, Operation, Parts, Status};
use rng::Rng;
use std::collections::VecDeque;

/// Where the parts of requests go.
///
/// Every [`BlockDevice`] is a target, for actors of one namespace.
pub trait Target {
    /// Why it is of no more use.
    type Error;

    /// Whether data moves. Without it no part has a buffer, and tags of parts are those of their requests: they are not unique.
    #[inline]
    fn moves_data(&self) -> bool {
        true
    }

    /// How many of these parts of one request it takes now.
    fn room(&self, parts: &Parts) -> usize;

    /// Begins a part on one of the actor's namespaces, as [`BlockDevice::submit`] does.
    ///
    /// # Errors
    /// It is of no more use.
    fn submit(
        &mut self,
        now: Nanos,
        namespace: u16,
        tag: u32,
        part: &Operation,
        data: Vec<u8>,
    ) -> Result<(), Self::Error>;

    /// A request is about to be submitted, and the next one is expected at `coming`: an index of a namespace and a logical block.
    #[inline]
    fn expect(&self, request: &Request, coming: Option<(u16, u64)>) {
        let _ = (request, coming);
    }
}

impl<D: BlockDevice> Target for D {
    type Error = D::Error;

    #[inline]
    fn room(&self, _parts: &Parts) -> usize {
        BlockDevice::room(self)
    }

    #[inline]
    fn submit(
        &mut self,
        now: Nanos,
        _namespace: u16,
        tag: u32,
        part: &Operation,
        data: Vec<u8>,
    ) -> Result<(), D::Error> {
        BlockDevice::submit(self, now, tag, part, data)
    }
}

/// What became of an actor's requests.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ActorTotals {
    /// Requests that ended.
    pub requests: u64,
    /// Those that failed.
    pub failed: u64,
    /// Bytes of those that did not fail.
    pub bytes: u64,
    /// Nanoseconds from the first time that the actor was asked to its last completion.
    pub elapsed: Nanos,
    /// Sum of the requests' latencies.
    pub latency_sum: u128,
    /// Longest of them.
    pub latency_max: Nanos,
    /// Depends on every request, its time, its latency and its status: equal runs have equal digests.
    pub digest: u64,
}

impl ActorTotals {
    #[inline]
    fn count(&mut self, request: &Request, latency: Nanos, now: Nanos, status: Status, block_size: u32) {
        self.requests += 1;
        match status.is_success() {
            true => self.bytes += u64::from(request.blocks) * u64::from(block_size),
            false => self.failed += 1,
        }
        self.latency_sum += u128::from(latency);
        self.latency_max = self.latency_max.max(latency);
        for word in [request.lba, u64::from(request.tag), now, latency, u64::from(status.0)] {
            self.digest = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
        }
    }
}

/// A request that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finished {
    /// What the actor asked for.
    pub request: Request,
    /// Nanoseconds from the time when the actor asked for it to its end.
    pub latency: Nanos,
    /// How it ended: the first failure among its parts.
    pub status: Status,
}

/// A request under way.
#[derive(Clone, Copy)]
struct Outstanding {
    request: Request,
    submitted: Nanos,
    /// Parts that have not completed, and one more while others wait for room.
    parts: u32,
    /// The first status that was no success.
    status: Status,
}

/// The parts of a request that wait for room.
struct Waiting {
    tag: u32,
    parts: Parts,
}

/// A part under way, where data moves.
#[derive(Clone, Copy)]
struct Part {
    /// The request's tag.
    tag: u32,
    /// Its first byte of the request's.
    at: u64,
    reads: bool,
    /// When it was submitted; `None` if it is not under way.
    submitted: Option<Nanos>,
}

/// An actor and its requests under way.
pub struct Executor<A> {
    actor: A,
    /// Of each of the actor's namespaces.
    geometries: Vec<Geometry>,
    /// By the actor's tags.
    outstanding: Vec<Option<Outstanding>>,
    in_flight: u32,
    waiting: VecDeque<Waiting>,
    /// The actor is not asked while so many requests wait.
    patience: usize,
    /// By the tags that the target has.
    parts: Vec<Part>,
    free: Vec<u32>,
    buffers: Buffers,
    /// Whether something has happened since the actor was asked.
    ready: bool,
    /// When it wants to be asked.
    wake: Nanos,
    ended: bool,
    started: Option<Nanos>,
    outcome: ActorTotals,
}

impl<A: Actor> Executor<A> {
    /// An actor whose namespaces are cut so. `None` if one of them takes less in a part than the actor fills and checks together.
    pub fn new(actor: A, geometries: &[Geometry]) -> Option<Self> {
        let unit = actor.unit().max(1);
        let in_units = |of: &Geometry| {
            let limits = of.limits.in_units(unit, of.block_size)?;
            Some(Geometry { limits, ..*of })
        };
        Some(Self {
            geometries: geometries.iter().map(in_units).collect::<Option<_>>()?,
            actor,
            outstanding: Vec::new(),
            in_flight: 0,
            waiting: VecDeque::new(),
            patience: usize::MAX,
            parts: Vec::new(),
            free: Vec::new(),
            buffers: Buffers::EMPTY,
            ready: true,
            wake: Nanos::MAX,
            ended: false,
            started: None,
            outcome: ActorTotals::default(),
        })
    }

    /// The actor is not asked for more while so many of its requests wait for room: 1 or more.
    #[must_use]
    pub fn with_patience(mut self, requests: usize) -> Self {
        self.patience = requests.max(1);
        self
    }

    /// New buffers hold random bytes of this seed, instead of zeroes.
    #[must_use]
    pub fn with_noise(mut self, seed: u64) -> Self {
        self.buffers.noise = Some(seed);
        self
    }

    /// The actor.
    #[inline]
    pub fn actor(&self) -> &A {
        &self.actor
    }

    /// The actor, to be changed; it is asked again.
    #[inline]
    pub fn actor_mut(&mut self) -> &mut A {
        self.ready = true;
        &mut self.actor
    }

    /// The actor, without what is under way.
    pub fn into_actor(self) -> A {
        self.actor
    }

    /// What has become of the actor's requests so far.
    #[inline]
    pub fn outcome(&self) -> &ActorTotals {
        &self.outcome
    }

    /// Whether the actor has nothing more to ask for.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether everything is over: the actor has ended, and so have all of its requests.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.ended && self.in_flight == 0
    }

    /// When the actor wants to be asked again; `Nanos::MAX` after a completion only.
    #[inline]
    pub fn wake(&self) -> Nanos {
        self.wake
    }

    /// Whether there is a reason to ask at `now`.
    #[inline]
    pub fn is_due(&self, now: Nanos) -> bool {
        !self.waiting.is_empty() || !self.ended && (self.ready || self.wake <= now)
    }

    /// Submits what waits for room, and then what the actor wants now. Whether the actor asked for something.
    ///
    /// # Errors
    /// The target is of no more use, nor is the executor.
    #[inline]
    pub fn ask<T: Target>(&mut self, now: Nanos, target: &mut T) -> Result<bool, T::Error> {
        self.started.get_or_insert(now);
        self.ready = false;
        self.wake = Nanos::MAX;
        self.resume(now, target)?;
        let mut asked = false;
        while !self.ended && self.waiting.len() < self.patience {
            match self.actor.next(now) {
                Next::Submit(request) => self.begin(now, request, target)?,
                Next::At(at) => {
                    self.wake = at;
                    break;
                }
                Next::Wait => break,
                Next::Done => {
                    self.ended = true;
                    break;
                }
            }
            asked = true;
        }
        Ok(asked)
    }

    /// Submits what waits for room, as far as there is some.
    ///
    /// # Errors
    /// The target is of no more use, nor is the executor.
    #[inline]
    pub fn resume<T: Target>(&mut self, now: Nanos, target: &mut T) -> Result<(), T::Error> {
        while let Some(Waiting { tag, mut parts }) = self.waiting.pop_front() {
            let Some(Outstanding { request, .. }) = self.outstanding[tag as usize] else { continue };
            let count = self.submit(now, &request, &mut parts, target)?;
            let waits = !parts.is_over();
            if let Some(outstanding) = &mut self.outstanding[tag as usize] {
                outstanding.parts = outstanding.parts + count - u32::from(!waits);
            }
            if waits {
                self.waiting.push_front(Waiting { tag, parts });
                break;
            }
        }
        Ok(())
    }

    #[inline]
    fn begin<T: Target>(&mut self, now: Nanos, request: Request, target: &mut T) -> Result<(), T::Error> {
        let index = request.tag as usize;
        if self.outstanding.len() <= index {
            self.outstanding.resize(index + 1, None);
        }
        let Request { verb, lba, blocks, .. } = request;
        let limits = &self.geometries[usize::from(request.namespace)].limits;
        let mut parts = Operation { verb, lba, blocks }.parts(limits);
        let count = match self.waiting.is_empty() {
            true => self.submit(now, &request, &mut parts, target)?,
            false => 0,
        };
        let waits = !parts.is_over();
        if waits {
            self.waiting.push_back(Waiting { tag: request.tag, parts });
        }
        let (parts, status) = (count + u32::from(waits), Status::SUCCESS);
        self.outstanding[index] = Some(Outstanding { request, submitted: now, parts, status });
        self.in_flight += 1;
        Ok(())
    }

    /// Submits parts of a request while there is room; how many.
    #[inline(always)]
    fn submit<T: Target>(
        &mut self,
        now: Nanos,
        request: &Request,
        parts: &mut Parts,
        target: &mut T,
    ) -> Result<u32, T::Error> {
        let mut room = target.room(parts);
        if room == 0 {
            return Ok(0);
        }
        target.expect(request, self.actor.coming());
        let moves_data = target.moves_data();
        let mut count = 0;
        while room > 0 {
            let first = parts.at();
            let Some(part) = parts.next() else { break };
            let (tag, data) = match moves_data {
                true => self.lend(now, request, first, &part),
                false => (request.tag, Vec::new()),
            };
            target.submit(now, request.namespace, tag, &part, data)?;
            count += 1;
            room -= 1;
        }
        Ok(count)
    }

    /// A tag for the part that begins at the block `first` of its request, and its data: of a write, with what it writes.
    fn lend(&mut self, now: Nanos, request: &Request, first: u32, part: &Operation) -> (u32, Vec<u8>) {
        let block_size = self.geometries[usize::from(request.namespace)].block_size;
        let at = u64::from(first) * u64::from(block_size);
        let mut data = self.buffers.take(part.bytes(block_size));
        if part.verb.writes() {
            self.actor.fill(request.tag, at, &mut data);
        }
        let under_way = Part { tag: request.tag, at, reads: part.verb.reads(), submitted: Some(now) };
        match self.free.pop() {
            Some(tag) => {
                self.parts[tag as usize] = under_way;
                (tag, data)
            }
            None => {
                self.parts.push(under_way);
                (self.parts.len() as u32 - 1, data)
            }
        }
    }

    /// A part has completed at `now`; the request that this ends. `moves_data` is the target's.
    #[inline(always)]
    pub fn complete(&mut self, now: Nanos, completed: Completed, moves_data: bool) -> Option<Finished> {
        let Completed { mut tag, status, data } = completed;
        if moves_data {
            tag = self.take_back(tag, status, data)?;
        }
        let place = self.outstanding.get_mut(tag as usize)?;
        let outstanding = place.as_mut()?;
        if outstanding.status.is_success() {
            outstanding.status = status;
        }
        outstanding.parts -= 1;
        if outstanding.parts > 0 {
            return None;
        }
        let Outstanding { request, submitted, status, .. } = *outstanding;
        *place = None;
        self.in_flight -= 1;
        self.ready = true;
        let latency = now.saturating_sub(submitted);
        let block_size = self.geometries[usize::from(request.namespace)].block_size;
        self.outcome.count(&request, latency, now, status, block_size);
        self.outcome.elapsed = now.saturating_sub(self.started.unwrap_or(submitted));
        self.actor.completed(now, request.tag, status.is_success());
        Some(Finished { request, latency, status })
    }

    /// Takes a part's buffer back, and lets the actor check what it read. The request's tag.
    fn take_back(&mut self, tag: u32, status: Status, data: Vec<u8>) -> Option<u32> {
        let part = self.parts.get_mut(tag as usize)?;
        part.submitted.take()?;
        let Part { tag: request, at, reads, .. } = *part;
        self.free.push(tag);
        if reads && status.is_success() {
            self.actor.check(request, at, &data);
        }
        self.buffers.give(data);
        Some(request)
    }

    /// Ends the actor: it is asked no more, and what waits for room is forgotten. A request of which parts are under way ends with them.
    pub fn stop(&mut self) {
        self.ended = true;
        for Waiting { tag, .. } in std::mem::take(&mut self.waiting) {
            let place = &mut self.outstanding[tag as usize];
            let Some(outstanding) = place else { continue };
            outstanding.parts -= 1;
            if outstanding.parts == 0 {
                *place = None;
                self.in_flight -= 1;
            }
        }
    }

    /// A request of which a part is under way that was submitted before this time, where data moves.
    pub fn overdue(&self, before: Nanos) -> Option<&Request> {
        let late = |part: &&Part| part.submitted.is_some_and(|at| at < before);
        let part = self.parts.iter().find(late)?;
        self.outstanding[part.tag as usize].as_ref().map(|outstanding| &outstanding.request)
    }
}

/// Buffers that are not in use, by the power of two that their lengths are within.
struct Buffers {
    free: [Vec<Vec<u8>>; 33],
    /// The seed of what new ones hold.
    noise: Option<u64>,
}

impl Buffers {
    const EMPTY: Self = Self { free: [const { Vec::new() }; 33], noise: None };

    fn class(bytes: usize) -> usize {
        (bytes.max(1).next_power_of_two().ilog2() as usize).min(32)
    }

    /// One of so many bytes; none of them is empty.
    fn take(&mut self, bytes: u64) -> Vec<u8> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if bytes == 0 {
            return Vec::new();
        }
        let Some(mut buffer) = self.free[Self::class(bytes)].pop() else {
            let mut buffer = vec![0; bytes];
            self.mix(&mut buffer);
            return buffer;
        };
        let had = buffer.len();
        buffer.resize(bytes, 0);
        if bytes > had {
            self.mix(&mut buffer[had..]);
        }
        buffer
    }

    /// Makes bytes random, so that they do not compress and are not the same again.
    fn mix(&mut self, bytes: &mut [u8]) {
        let Some(seed) = &mut self.noise else { return };
        let mut rng = Rng::new(*seed);
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&rng.next_u64().to_le_bytes()[..chunk.len()]);
        }
        *seed = rng.next_u64();
    }

    fn give(&mut self, buffer: Vec<u8>) {
        if !buffer.is_empty() {
            self.free[Self::class(buffer.len())].push(buffer);
        }
    }
}
