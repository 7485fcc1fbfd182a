//! One virtual clock, and the drives on it.

use super::{Actors, Checkpoint, CheckpointError, Contents, Sim};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::store::Store;
use crate::virtual_queues::{VirtualCompletion, VirtualQueues};
use device::{Config, ConfigError, Drive};
use media::Nanos;
use std::cell::RefCell;
use std::rc::Rc;
use workload::Actor;

/// A completion that its queue has not taken yet, and when it came.
pub(super) struct Arrival {
    pub(super) done: VirtualCompletion,
    pub(super) at: Nanos,
}

/// The state of a machine: its drives, their clock, and what is under way between them and their hosts.
pub(super) struct World {
    /// By their numbers: in the order in which they were added.
    pub(super) drives: Vec<Engine>,
    pub(super) clock: Clock,
    /// The queues of all drives.
    pub(super) front_end: VirtualQueues,
    /// Queues so far, of all drives: each has a number of its own.
    pub(super) queues: u32,
    pub(super) arrived: Vec<Arrival>,
}

impl World {
    fn new() -> World {
        World {
            drives: Vec::new(),
            clock: Clock::Virtual(0.into()),
            front_end: VirtualQueues::default(),
            queues: 0,
            arrived: Vec::new(),
        }
    }

    /// Runs what is due now, drive after drive in the order of their numbers. Completions go where their queues find them.
    pub(super) fn settle(&mut self) {
        let now = self.clock.now();
        for engine in &mut self.drives {
            engine.settle(now, &mut self.front_end);
            self.arrived.extend(self.front_end.completions.drain(..).map(|done| Arrival { done, at: now }));
        }
    }

    /// When the next drive wants to be stepped.
    pub(super) fn deadline(&self) -> Nanos {
        self.drives.iter().map(Engine::deadline).min().unwrap_or(Nanos::MAX)
    }

    /// Lets the clock run to this time. Drives do what is due until then, in the order of their times.
    fn run_until(&mut self, until: Nanos) {
        loop {
            self.settle();
            match self.deadline() {
                next if next <= until && next != Nanos::MAX => self.clock.advance(next),
                _ => break,
            }
        }
        self.clock.advance(until);
    }
}

/// A virtual clock with any number of drives on it.
///
/// The machine steps the drive that wants to be stepped first. Drives that want it at the same time are stepped in the order in which they
/// were added. So the same drives, loads and seeds give the same events on every computer, and a drive does what it does alone.
/// A step looks at every drive, which suits a handful of them.
#[derive(Clone)]
pub struct Machine {
    pub(super) world: Rc<RefCell<World>>,
}

impl Default for Machine {
    fn default() -> Self {
        Machine { world: Rc::new(RefCell::new(World::new())) }
    }
}

impl Machine {
    /// A machine without drives; its clock stands at 0.
    pub fn new() -> Machine {
        Machine::default()
    }

    /// Adds a new drive. Where time has passed, the drive was idle until now.
    ///
    /// # Errors
    /// If it cannot be as configured.
    pub fn add(&self, config: Config, contents: Contents) -> Result<Sim, ConfigError> {
        let drive = Drive::new(contents.shape(config))?;
        let store = contents.store(drive.config());
        Ok(self.insert(drive, store))
    }

    /// Powers a drive on that was kept as a checkpoint. The clock is not before the drive's own time afterwards: the drives that are there
    /// already run until then.
    ///
    /// # Errors
    /// Its state, read from a file, contradicts itself.
    pub fn power_on(&self, checkpoint: Checkpoint) -> Result<Sim, CheckpointError> {
        self.run_until(checkpoint.time());
        let (drive, store) = checkpoint.power_on(self.now())?;
        Ok(self.insert(drive, store))
    }

    /// Adds a drive as it is.
    pub(super) fn insert(&self, drive: Drive, store: Store) -> Sim {
        let drives = &mut self.world.borrow_mut().drives;
        drives.push(Engine::new(drive, store));
        Sim { machine: self.clone(), number: drives.len() - 1 }
    }

    /// Lets time pass until then. Completions wait for their queues.
    pub(super) fn run_until(&self, until: Nanos) {
        self.world.borrow_mut().run_until(until);
    }

    /// The time of all its drives.
    pub fn now(&self) -> Nanos {
        self.world.borrow().clock.now()
    }

    /// No actors yet. They may be on queues of any of the drives.
    pub fn actors<A: Actor>(&self) -> Actors<A> {
        Actors::new(self.world.clone())
    }
}
