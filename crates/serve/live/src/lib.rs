//! Runs a drive under the wall clock, with its hosts.
//!
//! The drive (crate `device`) is a state machine, and crate `image` has its contents. This crate tells the drive the time and gives it commands. It
//! carries out the drive's requests and delivers completions:
//!
//! - [`start`] brings a drive up, in memory or from an image, and serves hosts over sockets; [`handle`] is how hosts in
//!   this process reach it.
//! - [`Preparation`] is what a new drive goes through before.
//! - [`LocalTransport`] connects the typed hosts of crate `host` to a drive in this process.
//! - [`engine`] is the drive with the commands in flight, and the contract of front ends. Under a virtual clock ([`Clock`], [`VirtualQueues`]) crate
//!   `sim` owns it.
//! - [`Handle::snapshot`] says what the drive counts, for monitors.
//! - [`policies`] are those of flash, for drives that are to have their own.
//! - What hosts do can be recorded ([`Options::record`], [`blockdev::recording`]), to be replayed in virtual time.
//! - [`renew`] gives a copied image an identity of its own.
//!
//! Validated here: that a buffer holds its command's transfer; Connect. Not here: anything else about commands, and files.

pub mod access;
mod clock;
#[cfg(test)]
mod conformance;
mod endpoint;
pub mod engine;
pub mod handle;
mod hosts;
mod live_drive;
mod pci;
pub mod policies;
mod preparation;
mod record;
pub mod renew;
mod server;
mod shared;
mod snapshot;
mod start;
mod transport;
mod virtual_queues;
mod wake;

pub use access::Access;
pub use clock::Clock;
pub use device::{
    CommandLatency, ControllerSnapshot, DriveSnapshot, Held, NamespaceSnapshot, SetSnapshot, ZoneCounts,
};
pub use device::{Config, DataSheet, FlashSpace, Role};
pub use handle::{
    BlockingQueue, ConnectError, Controller, Events, Gone, Handle, HostIdentity, NoEvents, Queue, Refused,
    RefusedReason, Sink,
};
// What `Options` and a `Handle` take.
pub use image::{Buffer, DriveKey, DriveKeyError, ImageOptions, ScrubOptions, Shape};
pub use preparation::{Preparation, Progress};
pub use record::latencies_between;
pub use server::{Limits, MAX_PORTS, TcpPort, accept_tcp, fuzz_hosts, listen_privately};
pub use snapshot::{AuthenticationFailures, ConnectionCounts, Snapshot, TransportSnapshot};
pub use start::{Options, PortInfo, Running, StartError, start, start_prepared};
pub use transport::{AdminQueue, LocalQueue, LocalTransport};
pub use virtual_queues::{VirtualCompletion, VirtualQueues};
