//! Loads that run at the same time under one virtual clock.

use crate::block_device::{Port, completed};
use crate::queue::{SimQueue, SimTransport};
use crate::world::{Arrival, World};
use blockdev::{Geometry, Namespace};
use host::Host;
use live::VirtualCompletion;
use live::engine::Engine;
use media::Nanos;
use nvme::{Nsid, Status};
use std::cell::RefCell;
use std::rc::Rc;
use workload::executor::{ActorTotals, Executor, Finished};
use workload::{Actor, Request};

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
    pub outcome: &'a ActorTotals,
}

/// An actor on its queue.
struct RunningActor<A> {
    executor: Executor<A>,
    queue: SimQueue,
    /// The actor's namespaces.
    namespaces: Vec<Namespace>,
    /// Whether the drive keeps contents.
    keeps: bool,
}

/// Actors on I/O queues of the drives of a machine, under its clock.
///
/// A host that waits for an admin command while actors are in the middle of their work lets the clock run, too: their
/// completions are counted with their true times, but they are asked for what comes next when they run again.
pub struct Actors<A> {
    world: Rc<RefCell<World>>,
    running: Vec<RunningActor<A>>,
    /// The number of each queue's actor.
    routes: Vec<Option<u32>>,
}

impl<A: Actor> Actors<A> {
    pub(crate) fn new(world: Rc<RefCell<World>>) -> Self {
        Actors { world, running: Vec::new(), routes: Vec::new() }
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
        let (bytes, unit) = (queue.max_transfer(), actor.unit());
        let geometries: Vec<Geometry> = namespaces.iter().map(Namespace::geometry).collect();
        let executor = Executor::new(actor, &geometries).ok_or_else(|| {
            host::Error::Usage(format!(
                "the drive takes {bytes} bytes in one command, less than the {unit} that are filled and checked together"
            ))
        })?;
        let queue = queue.into_raw();
        if !Rc::ptr_eq(&queue.association.world, &self.world) {
            return Err(host::Error::Usage("the host's drive is not on this machine".to_owned()));
        }
        let keeps = self.world.borrow().drives[queue.association.drive].store.keeps();
        let number = queue.number as usize;
        if self.routes.len() <= number {
            self.routes.resize(number + 1, None);
        }
        self.routes[number] = Some(self.running.len() as u32);
        // What the drive has no room for waits in the host, and the actor waits with it.
        let executor = executor.with_patience(1);
        self.running.push(RunningActor { executor, queue, namespaces, keeps });
        Ok(self.running.len() - 1)
    }

    /// An actor, to be looked at.
    ///
    /// # Panics
    /// There is no actor of this number.
    pub fn actor(&self, number: usize) -> &A {
        self.running[number].executor.actor()
    }

    /// An actor, to be changed; it is asked again.
    ///
    /// # Panics
    /// There is no actor of this number.
    pub fn actor_mut(&mut self, number: usize) -> &mut A {
        self.running[number].executor.actor_mut()
    }

    /// What has become of an actor's requests so far.
    ///
    /// # Panics
    /// There is no actor of this number.
    pub fn outcome(&self, number: usize) -> ActorTotals {
        *self.running[number].executor.outcome()
    }

    /// Runs all of them until they have ended, until the machine's time is `until`, or until `enough` says so after a
    /// completion. Whether they have ended; in the last case what is outstanding is waited for, and they have.
    pub fn run(&mut self, until: Nanos, enough: impl FnMut(&Step<'_>) -> bool) -> bool {
        self.go(until, until == Nanos::MAX, enough)
    }

    /// As [`Actors::run`], for one part of a run without an end in time. Where nothing will ever happen again they have ended: the clock
    /// does not go on to `until`. So it makes no difference in how many parts a run goes.
    pub fn run_part(&mut self, until: Nanos, enough: impl FnMut(&Step<'_>) -> bool) -> bool {
        self.go(until, true, enough)
    }

    /// `ends` says whether they have ended when nothing will ever happen again.
    fn go(&mut self, until: Nanos, ends: bool, mut enough: impl FnMut(&Step<'_>) -> bool) -> bool {
        let world = &mut *self.world.borrow_mut();
        let now = world.clock.now();
        let mut stop = false;
        for arrival in std::mem::take(&mut world.arrived) {
            match running_of(&self.routes, arrival.done.queue) {
                Some(number) => {
                    stop |= self.running[number].arrived(number, arrival.done, arrival.at, now, &mut enough);
                }
                None => world.arrived.push(arrival),
            }
        }
        // When an actor wants to be asked, and whether any still works.
        let (mut wanted, mut alive) = (Nanos::ZERO, true);
        loop {
            let now = world.clock.now();
            if wanted <= now {
                (wanted, alive) = (Nanos::MAX, false);
                for running in &mut self.running {
                    if stop {
                        running.executor.stop();
                    }
                    if running.executor.is_due(now.0) {
                        let drive = running.queue.association.drive;
                        running.ask(now, &mut world.drives[drive]);
                    }
                    if !running.executor.has_ended() {
                        wanted = wanted.min(Nanos(running.executor.wake()));
                    }
                    alive |= !running.executor.is_over();
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
                    // An actor whose request has ended is asked for the next one.
                    wanted = now;
                }
                for done in done.drain(..) {
                    match running_of(&self.routes, done.queue) {
                        Some(number) => {
                            stop |= self.running[number].arrived(number, done, now, now, &mut enough)
                        }
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
            if next == Nanos::MAX && ends {
                // Nothing will ever happen again: they wait for what the drive does not have.
                return true;
            }
            if next > until {
                world.clock.advance(until);
                return false;
            }
            world.clock.advance(next);
        }
    }
}

#[inline]
fn running_of(routes: &[Option<u32>], queue: u32) -> Option<usize> {
    routes.get(queue as usize).copied().flatten().map(|number| number as usize)
}

impl<A: Actor> RunningActor<A> {
    /// Submits what the actor wants now.
    fn ask(&mut self, now: Nanos, engine: &mut Engine) {
        let RunningActor { executor, queue, namespaces, keeps } = self;
        let Ok(_) = executor.ask(now.0, &mut Port { queue, namespaces, keeps: *keeps, engine });
    }

    /// Takes a completion; true if there were enough of them.
    #[inline(always)]
    fn arrived(
        &mut self,
        number: usize,
        done: VirtualCompletion,
        at: Nanos,
        now: Nanos,
        enough: &mut impl FnMut(&Step<'_>) -> bool,
    ) -> bool {
        let Some(finished) = self.executor.complete(at.0, completed(done), self.keeps) else { return false };
        let Finished { request, latency, status } = &finished;
        let outcome = self.executor.outcome();
        enough(&Step { actor: number, request, latency: Nanos(*latency), status: *status, now, outcome })
    }
}
