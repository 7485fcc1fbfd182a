//! A typed NVMe host over any connection.
//!
//! - [`Queue`] and [`Transport`] are the contract with what carries commands: a drive in this process, a
//!   Unix socket, TCP ([`SocketTransport`]), a PCI device ([`PciTransport`]). [`DriveTransport`] is what an [`Addr`] names.
//! - [`Host`] is a controller with typed admin commands; [`IoQueue`] reads and writes namespaces.
//! - [`Zoned`] is what an [`IoQueue`] must know of a zoned namespace, to report, manage and write its zones.
//! - [`NamespaceDevice`] is a namespace as a [block device](blockdev::BlockDevice), over any queue.
//! - [`view`] shows what the drive says as JSON with the keys of nvme-cli.
//!
//! ```no_run
//! # use std::time::Duration;
//! let addr: host::Addr = "unix:///run/drive.sock".parse()?;
//! let transport = host::SocketTransport::new(addr, Duration::from_secs(10));
//! let identity = host::Identity::new("nqn.2026-11.org.example:me".parse()?);
//! let mut drive = host::Host::connect(transport, &identity)?;
//! let namespace = drive.namespace(1)?;
//! let mut queue = drive.io_queue(32)?;
//! queue.write(&namespace, 0, &[7; 4096], false)?;
//! queue.flush(1)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A failed command is a value with its status ([`Error::Command`], or the [`CompletedCommand`] of a raw call); `Err` of
//! the low-level contract means that the transport is broken.
//!
//! - [`retry`] tries until a drive is there; a [`Session`] makes its association again after a loss.
//! - A host authenticates itself, and the drive to it, if its [`Identity`] has the keys ([`auth`](fabric::auth)), and
//!   speaks TLS over TCP if it has a key for that.
//!
//! Metadata is left to the controller: it inserts protection information and strips it.

mod addr;
mod appends;
mod auth;
mod call;
mod device;
mod drive;
mod error;
mod extents;
mod faults;
mod file;
mod host;
mod io;
mod local;
mod logs;
mod pci;
mod queue;
mod random;
mod session;
mod socket;
pub mod view;
mod zones;

pub use blockdev::Namespace;

pub use addr::{Addr, AddrError, DEFAULT_PORT, Endpoint};
pub use appends::Appends;
pub(crate) use call::call_alone as call;
pub use device::{NamespaceDevice, OperationQueue};
pub use drive::{DriveQueue, DriveTransport};
pub use error::{Error, TransportError, nsid_list};
pub use extents::{Extent, ExtentQuery};
pub use file::{BlockFile, FileDevice};
pub use host::{Host, namespace_create};
pub use io::IoQueue;
pub use local::local_nqn;
pub use logs::AnaLog;
pub use pci::{PciQueue, PciTransport};
pub use queue::{CompletedCommand, Connected, Data, Identity, Queue, Tag, Transport};
pub use random::fill_random;
pub use session::{InFlight, Session, TrackedQueue, may_pass, retry};
pub use socket::{SocketQueue, SocketTransport};
pub use zones::{Zoned, Zones, Zrwa};
