//! What a running drive counts, for Prometheus and other programs that read its formats.
//!
//! - [`families`] is the table of all metrics: name, unit, help, labels, and where each is in a [`live::Snapshot`].
//! - [`exposition`] writes a snapshot in the OpenMetrics text format, or in Prometheus's own of version 0.0.4.
//! - [`Endpoint`] answers scrapes over HTTP, on a thread of its own.
//!
//! A scrape takes one snapshot of the drive: the drive waits while its counters are copied, and for nothing else.
//! Everything is read; nobody can change anything here.

pub mod endpoint;
pub mod exposition;
pub mod families;

pub use endpoint::Endpoint;
pub use web::Listener;
