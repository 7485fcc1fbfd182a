//! A typed NVMe host over any connection.

mod queue;

pub use queue::{Data, Done, Queue, QueueKind, Tag, Transport, TransportError};
