//! The same drive under a virtual clock, with actors as its hosts.
//!
//! Nothing waits: when neither the drive nor any actor has something to do now, the clock moves on to the next
//! event of all of them. The same seed gives the same completions at the same times on every machine.
//!
//! A [`Machine`] is a clock with any number of drives, each of which is a [`Sim`]. Typed hosts ([`host::Host`]) manage a drive through
//! [`SimTransport`], as they do over a socket. [`Actors`] are loads that run at the same time, each on an I/O queue of one of those hosts.
//! A [`SimDevice`] is a namespace as a block device.

mod actors;
mod block_device;
mod checkpoint;
mod machine;
mod queue;

pub use actors::{Actors, Step};
pub use block_device::SimDevice;
pub use checkpoint::{Checkpoint, CheckpointError, Origin, preconditioned};
pub use machine::Machine;
pub use media::Nanos;
pub use queue::{SimQueue, SimTransport};
pub use workload::executor::ActorTotals;

use crate::memory::SLOT;
use crate::store::{Backing, Store, pages};
use device::{Config, ConfigError, Drive};
use ftl::WriteHistory;
use host::{Host, Identity};
use nvme::{Nqn, Nsid};
use std::cell::Ref;
use std::rc::Rc;
use workload::Actor;

/// Host NQN of actors that come without one.
const ACTOR_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:7472616e-6368-6500-0000-6163746f7200";

/// Whether a simulated drive keeps what is written to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    /// No: reads give zeros. Nothing is copied, and the drive keeps no versions and handles of contents in its spare areas.
    /// They would take two thirds of its memory, and they change none of its decisions.
    None,
    /// Not yet: the drive keeps contents when it has gone live ([`Sim::go_live`]). What was written before reads
    /// as zeros, and takes no room.
    Later,
    /// In memory.
    Memory,
}

impl Contents {
    /// A drive's configuration with what its contents need.
    fn shape(self, mut config: Config) -> Config {
        // Only contents need places for their slots: after a power cut they are looked for there.
        config.ftl.durable = self != Contents::None;
        config
    }

    fn store(self, config: &Config) -> Store {
        match self {
            Contents::None => Store::new(Backing::None),
            Contents::Later => {
                let mut store = Store::new(Backing::None);
                store.dry = true;
                store
            }
            Contents::Memory => Store::new(Backing::memory(pages(config))),
        }
    }
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
            Contents::Memory => BYTES_PER_PLACED_PAGE + SLOT as u64,
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
    fn into_parts(self) -> Option<(Drive, Store, Nanos)> {
        let mut world = Rc::into_inner(self.machine.world)?.into_inner();
        world.settle();
        let now = world.clock.now();
        let engine = world.drives.swap_remove(self.number);
        Some((engine.drive, engine.store, now))
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
