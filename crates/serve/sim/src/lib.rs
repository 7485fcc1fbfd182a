//! Drives under a virtual clock, with actors (crate `workload`) as their hosts.
//!
//! Nothing waits: when neither the drive nor any actor has something to do now, the clock moves on to the next
//! event of all of them. The same seed gives the same completions at the same times on every machine.
//!
//! A [`Machine`] is a clock with any number of drives, each of which is a [`Sim`]. Typed hosts ([`host::Host`]) manage a drive through
//! [`SimTransport`], as they do over a socket. [`Actors`] are loads that run at the same time, each on an I/O queue of one of those hosts.
//! A [`SimDevice`] is a namespace as a block device. A [`BlockLayer`] has loads on such devices and on what is made of them.
//! [`precondition`] brings a new drive into the state of a used one. [`Sim::go_live`] gives a drive to crate `live`.

mod actors;
mod block_device;
mod block_layer;
mod checkpoint;
mod contents;
mod inspector;
mod machine;
pub mod precondition;
mod queue;
mod world;

pub use actors::{Actors, Step};
pub use block_device::SimDevice;
pub use block_layer::{BlockLayer, MachineDevice, Processors};
pub use checkpoint::{Checkpoint, CheckpointError};
pub use contents::Contents;
pub use inspector::{Inspector, InspectorQueue};
pub use machine::{GoLiveError, Machine, Sim};
pub use media::Nanos;
pub use precondition::Precondition;
pub use queue::{SimQueue, SimTransport};
pub use workload::executor::ActorTotals;
