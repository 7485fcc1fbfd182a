//! The NVMe controller and subsystem as a state machine, without I/O, threads or a clock.
//!
//! [`Drive`] is one NVM subsystem (Base 2.1): its namespaces, controllers, features and logs over the translation
//! layer of crate `ftl`. Commands and the current time go in; [`Output`]s come out: completions that are due,
//! data, syncs of the host's disk. Between two calls nothing happens; [`Drive::next_event`] says when to call again.
//!
//! How a command travels: [`Drive::submit`] parses it into a typed command, checks controller, namespace and
//! fields, and hands it to the translation layer. Its completion waits in a queue of events until its modelled
//! time: the end that the medium gives, the transfer over the link, the controller's own time. With timing off it
//! comes out of the same call.
//!
//! How the crate is built: `core` has what a command needs from submission to completion. Components, one for each feature of
//! the controller, stand above it. [`Drive`] stands above the components, and hands commands and events out.
//!
//! What is validated here: every field of every command, of Connect and of property writes. A host can reach no
//! panic. What is not validated: that a transport's data is as long as the command's transfer; capsules (crate
//! `fabric`); that the runner's numbers of commands are unique (a second one is answered with Internal Error).
//!
//! Not implemented: command sets other than NVM and Zoned Namespace.

mod admin;
mod association;
mod block_transform;
mod contents;
mod core;
mod drive;
mod fault_injection;
mod fdp;
mod feature;
mod firmware;
#[cfg(test)]
mod fixture;
mod health;
mod identify;
mod identity;
mod io;
mod keys;
mod lba_status;
mod log_table;
mod logs;
mod lost_blocks;
mod namespaces;
mod persist;
mod persistent_event_log;
mod ports;
mod predictable_latency;
mod protocol_faults;
mod quota;
mod reservation;
mod sanitize;
mod self_test;
mod shutdown;
mod stats;
mod streams;
mod telemetry;
mod temperature;
mod uuid;
mod zone_state;
mod zones;

pub use block_transform::{BlockAction, BlockError, BlockTransform, SPARE_BYTES};
pub use contents::{Contents, HostDiskFault};
pub use core::{
    ControllerId, Host, MAX_IO, MAX_IO_QUEUES, MAX_QUEUE_ENTRIES, Origin, Output, PortId, Role,
    TransportModel,
};
pub use drive::{Drive, Submission};
pub use drive_config::{
    Attach, Config, ConfigError, DataSheet, FlashSpace, Identity, InitialNamespace, LbaFormat, Limits, Link,
    protection,
};
pub use firmware::{FirmwareImageError, MAX_FIRMWARE_IMAGE, firmware_image};
pub use io::NamespaceLayout;
pub use keys::wrapped::{DriveKeyId, WrappedKey};
pub use persist::{LoadError, Restorer};
pub use stats::snapshot::{
    CommandLatency, ControllerSnapshot, DriveSnapshot, Held, NamespaceSnapshot, SetSnapshot, ZoneCounts,
};

pub use ftl::Io;
pub use nvme::Transfer;
