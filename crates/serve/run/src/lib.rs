//! Owns a drive at run time: its clock, its contents, its persistence, its hosts.
//!
//! The drive itself (crate `device`) is a state machine. This crate tells it the time, gives it commands,
//! carries out what it asks for and delivers what it completes:
//!
//! - [`start`] brings a drive up under the wall clock, in memory or from an [`image`], and serves hosts over
//!   sockets; [`handle`] is how hosts in this process reach it.
//! - [`LocalTransport`] connects the typed hosts of crate `host` to a drive in this process.
//! - [`sim`] runs the same drive under a virtual clock, with an actor of crate `workload` as its host.
//! - [`Handle::snapshot`] says what the drive counts, for monitors.
//! - [`policies`] are those of flash, for drives that are to have their own.
//! - What hosts do can be recorded ([`Options::record`]), to be replayed in virtual time (`load_formats::trace`).
//! - [`trust`] opens directories that other users cannot change.
//! - [`precondition`] brings a new drive into the state of a used one, in virtual time, before it goes live.
//!
//! Validated here: that a buffer holds its command's transfer; Connect; everything about files. Not here:
//! anything else about commands.

pub mod access;
pub mod buffer;
mod clock;
#[cfg(test)]
mod conformance;
mod endpoint;
mod engine;
pub mod examine;
pub mod handle;
mod hosts;
pub mod image;
mod keys;
mod live;
pub mod machine;
mod memory;
pub mod policies;
pub mod precondition;
mod prefault;
mod record;
pub mod renew;
mod server;
mod shared;
pub mod sim;
mod slots;
mod snapshot;
mod start;
mod store;
#[cfg(test)]
mod testing;
mod transport;
pub mod trust;
mod virtual_queues;
mod wake;
mod xts;

pub use access::Access;
pub use buffer::Buffer;
pub use device::{
    CommandLatency, ControllerSnapshot, DriveSnapshot, Held, NamespaceSnapshot, SetSnapshot, ZoneCounts,
};
pub use device::{Config, DataSheet, FlashSpace, Role};
pub use handle::{
    BlockingQueue, ConnectError, Controller, Events, Gone, Handle, HostIdentity, NoEvents, Queue, Refused,
    RefusedReason, Sink,
};
pub use image::{ImageError, ImageOptions, ScrubOptions};
pub use keys::{DriveKey, DriveKeyError};
pub use precondition::Precondition;
pub use record::latencies_between;
pub use server::{Limits, MAX_PORTS, TcpPort, accept_tcp, fuzz_hosts, listen_privately};
pub use snapshot::{AuthenticationFailures, ConnectionCounts, Snapshot, TransportSnapshot};
pub use start::{Options, PortInfo, Running, Shape, StartError, start};
pub use transport::{LocalQueue, LocalTransport};
