//! What lies between a load and a device, as block devices over block devices: a request queue, a controller, a link, and the protected
//! write cache of a storage controller.
//!
//! - [`Hop`] is one step of the way. It takes time, and it lets so many requests through at once.
//! - [`WriteCache`] acknowledges writes from memory that a battery protects, and writes them to the device later.
//! - [`Composite`] is a block device that is made of others, as the cache of `tier` is: a state machine ([`Machine`]) above, and devices
//!   below ([`Below`]). [`Slab`] numbers what is under way.
//! - [`Partition`] is a range of a device that several share ([`Shared`]).
//!
//! All are state machines: time is an argument, and nothing does I/O. docs/machine.md says what they model and where each number is from.
//!
//! ```
//! # use blockdev::{BlockDevice, Namespace, Operation, Verb, conformance::Memory};
//! # use blockdev::stack::{Hop, HopConfig};
//! let device = Memory::new(Namespace::plain(1, 1000, 4096), 32, 7);
//! // A queue with one lock, which each request holds for 2 microseconds twice.
//! let mut queue = Hop::new(HopConfig { submission: 2000, completion: 2000, ..HopConfig::NONE }, device);
//! queue.submit(0, 1, &Operation { verb: Verb::Read, lba: 5, blocks: 1 }, vec![0; 4096])?;
//! assert_eq!(queue.next_event(), 2000);
//! # Ok::<(), std::convert::Infallible>(())
//! ```

mod composite;
mod event_queue;
mod hop;
mod member;
#[cfg(feature = "model")]
pub mod model;
mod partition;
mod slab;
mod write_cache;

pub use composite::{Composite, Devices, Machine};
pub use event_queue::Due;
pub use hop::{Hop, HopConfig, Server};
pub use member::{Above, Below, Done, Sub};
pub use partition::{Partition, Shared};
pub use slab::Slab;
pub use write_cache::{WriteCache, WriteCacheConfig, WriteCacheCounts};
