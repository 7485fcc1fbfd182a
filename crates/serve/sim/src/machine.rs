//! One virtual clock, and the drives on it.

use crate::actors::{Actors, Step};
use crate::contents::Contents;
use crate::inspector::Inspector;
use crate::queue::SimTransport;
use crate::world::World;
use device::{Config, ConfigError, Drive, DriveSnapshot};
use ftl::{PAGE, SetStats, WriteHistory};
use host::{Host, Identity};
use image::{Store, pages};
use live::engine::Engine;
use live::{Running, StartError};
use media::Nanos;
use nvme::{Nqn, Nsid};
use std::cell::{Ref, RefCell};
use std::rc::Rc;
use workload::Actor;
use workload::executor::ActorTotals;

/// Host NQN of actors that come without one.
const ACTOR_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:7472616e-6368-6500-0000-6163746f7200";

/// A virtual clock with any number of drives on it.
///
/// The machine steps the drive that wants to be stepped first. Drives that want it at the same time are stepped in the order in which they
/// were added. So the same drives, loads and seeds give the same events on every computer, and a drive does what it does alone.
/// A step looks at every drive, which suits a handful of them.
#[derive(Clone)]
pub struct Machine {
    pub(crate) world: Rc<RefCell<World>>,
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

    /// Adds a drive as it is.
    pub(crate) fn insert(&self, drive: Drive, store: Store) -> Sim {
        let drives = &mut self.world.borrow_mut().drives;
        drives.push(Engine::new(drive, store));
        Sim { machine: self.clone(), number: drives.len() - 1 }
    }

    /// Lets time pass until then. Completions wait for their queues.
    pub(crate) fn run_until(&self, until: Nanos) {
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

/// Why a drive in virtual time cannot go live.
#[derive(Debug, thiserror::Error)]
pub enum GoLiveError {
    /// A host is connected to it.
    #[error("a host is still connected to the drive in virtual time")]
    StillInUse,
    /// It cannot be brought up.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Memory for each page of a drive that keeps no contents: 7.7 GiB for 1.07 billion of them, rounded up.
const BYTES_PER_PAGE: u64 = 9;
/// The same where their places are known: versions and handles in the spare areas make it three times as much.
const BYTES_PER_PLACED_PAGE: u64 = 27;

/// A drive in virtual time, on a machine of its own or beside others on one.
pub struct Sim {
    machine: Machine,
    /// Its number among the machine's drives.
    number: usize,
}

impl Sim {
    /// A new drive on a machine of its own.
    ///
    /// # Errors
    /// If it cannot be as configured.
    pub fn new(config: Config, contents: Contents) -> Result<Sim, ConfigError> {
        Machine::new().add(config, contents)
    }

    /// Roughly the bytes of this machine's memory that a drive takes; that keeps contents, when every page of its media is written.
    pub fn memory(config: &Config, contents: Contents) -> u64 {
        let each = match contents {
            Contents::None => BYTES_PER_PAGE,
            Contents::Later => BYTES_PER_PLACED_PAGE,
            Contents::Memory => BYTES_PER_PLACED_PAGE + u64::from(PAGE),
        };
        u64::from(pages(config)) * each + (16 << 20)
    }

    /// This drive, whose contents come later, on a machine of its own.
    pub(crate) fn dry(drive: Drive) -> Sim {
        let store = Contents::Later.store(drive.config());
        Machine::new().insert(drive, store)
    }

    /// The drive with its time; `None` while a host is connected or the machine is in use.
    pub(crate) fn into_drive(self) -> Option<(Drive, Nanos)> {
        self.into_parts().map(|(drive, _, now)| (drive, now))
    }

    /// The drive with its store and its time; `None` while a host is connected or the machine is in use. Drives beside it are gone.
    pub(crate) fn into_parts(self) -> Option<(Drive, Store, Nanos)> {
        let mut world = Rc::into_inner(self.machine.world)?.into_inner();
        world.settle();
        let now = world.clock.now();
        let engine = world.drives.swap_remove(self.number);
        Some((engine.drive, engine.store, now))
    }

    /// From here on the drive runs under the wall's clock, with its contents in memory, for hosts of this process. It should have
    /// been made for that ([`Contents::Later`]).
    ///
    /// In slow motion a second of the drive takes `slow_motion` of them on the wall's clock (1, or 0: none). It is the same drive
    /// by its own clock, and what the machine adds to a command weighs as much less.
    ///
    /// # Errors
    /// A host is still connected; the operating system refuses a thread.
    pub fn go_live(self, slow_motion: u32) -> Result<Running, GoLiveError> {
        let (drive, time) = self.into_drive().ok_or(GoLiveError::StillInUse)?;
        Ok(live::start_prepared(drive, time, slow_motion)?)
    }

    /// Preconditions namespaces of the drive, if it holds nothing yet. Returns whether that was so, and `go_on` never said no.
    pub(crate) fn precondition(
        &self,
        nsids: &[Nsid],
        history: WriteHistory,
        go_on: &mut dyn FnMut() -> bool,
    ) -> bool {
        let world = &mut *self.machine.world.borrow_mut();
        let now = world.clock.now();
        let engine = &mut world.drives[self.number];
        engine.drive.precondition(now, nsids, history, &mut engine.store, go_on)
    }

    /// The drive, to be looked at. Not while something runs.
    pub fn drive(&self) -> Ref<'_, Drive> {
        Ref::map(self.machine.world.borrow(), |world| &world.drives[self.number].drive)
    }

    /// What the drive counts, and its state, at this moment. No command is sent. Not while something runs.
    pub fn snapshot(&self) -> DriveSnapshot {
        self.drive().snapshot(self.now())
    }

    /// What the NVM Sets on flash count over their lives. It costs little, unlike a [snapshot](Sim::snapshot). Not while something runs.
    pub fn flash_stats(&self) -> Vec<SetStats> {
        self.drive().flash_stats()
    }

    /// How many dies of flash work at this moment, and how many there are. Not while something runs.
    pub fn busy_dies(&self) -> (u32, u32) {
        self.drive().busy_dies(self.now())
    }

    /// Whether what is written to it can be read.
    pub fn keeps_contents(&self) -> bool {
        self.machine.world.borrow().drives[self.number].store.keeps()
    }

    /// The machine that it is on.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The machine's time, which is the drive's.
    pub fn now(&self) -> Nanos {
        self.machine.now()
    }

    /// Lets time pass until then, for all drives of the machine. Completions wait for their queues.
    pub fn run_until(&self, until: Nanos) {
        self.machine.run_until(until);
    }

    /// How hosts reach it.
    pub fn transport(&self) -> SimTransport {
        SimTransport::new(self.machine.world.clone(), self.number)
    }

    /// Connects a host.
    ///
    /// # Errors
    /// The drive refuses it.
    pub fn host(&self, nqn: &str) -> Result<Host<SimTransport>, host::Error> {
        let nqn = Nqn::new(nqn).map_err(|e| host::Error::Usage(format!("host NQN {nqn:?}: {e}")))?;
        Host::connect(self.transport(), &Identity::new(nqn))
    }

    /// A host that only looks, with the eyes of the controller of this identifier. What it asks takes no time and changes nothing, so that
    /// a run that is watched is the run that it is. Not while something runs.
    ///
    /// # Errors
    /// There is no such controller.
    pub fn inspect(&self, cntlid: u16) -> Result<Host<Inspector>, host::Error> {
        let nqn = Nqn::new(ACTOR_NQN).map_err(|e| host::Error::Usage(e.to_string()))?;
        let inspector = Inspector::new(self.machine.world.clone(), self.number, cntlid);
        Host::connect(inspector, &Identity::new(nqn))
    }

    /// No actors yet. They may be on queues of any drive of the machine.
    pub fn actors<A: Actor>(&self) -> Actors<A> {
        self.machine.actors()
    }

    /// Runs one actor, as the only load, on a namespace to its end, or until `enough` says so after a completion; what is
    /// outstanding then is waited for.
    ///
    /// # Errors
    /// The namespace is not attached to every host, or the drive refuses the actor's host.
    pub fn run<A: Actor>(
        &self,
        nsid: Nsid,
        actor: &mut A,
        enough: impl FnMut(&Step<'_>) -> bool,
    ) -> Result<ActorTotals, host::Error> {
        let mut host = self.host(ACTOR_NQN)?;
        let mut actors = self.actors();
        let at = actors.add(&mut host, nsid, actor)?;
        actors.run(Nanos::MAX, enough);
        Ok(actors.outcome(at))
    }
}
