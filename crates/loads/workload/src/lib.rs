//! What a host asks for, as state machines without I/O: the same actor drives a simulated drive and a
//! real one.
//!
//! An [`Actor`] is asked for its next request at the start, after each completion, and at a time that it named. It
//! is told how its requests ended. It reads no clock and draws its random numbers from a seed. So the same seed and the same
//! completions give the same requests on every machine.
//!
//! An [`Executor`](executor::Executor) runs any actor on any block device.
//!
//! Actors of this crate:
//! - [`Mix`]: uniform random or sequential reads and writes at a fixed queue depth,
//! - [`on_zones`]: any actor whose logs lie on zones,
//! - [`Ranges`]: writers that fill ranges or zones in order.
//!
//! Crate `load_formats` has the actors of job files and traces. Crate `database_models` has the actors of database servers.

pub mod executor;
mod mix;
pub mod on_zones;
mod ranges;

pub use blockdev::{Nanos, Verb, ZoneAction};
pub use mix::{Mix, MixConfig, Order};
pub use ranges::{Pace, Ranges, RangesConfig};
pub use rng::Rng;

/// One request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Request {
    /// Comes back with the completion; unique among the outstanding requests of the actor.
    pub tag: u32,
    /// What to do.
    pub verb: Verb,
    /// On which of the actor's namespaces, counted from 0; one with a single namespace has no other.
    pub namespace: u16,
    /// First logical block.
    pub lba: u64,
    /// How many logical blocks; 0 for a flush.
    pub blocks: u32,
}

/// What an actor wants next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Next {
    /// This request, now; then ask again.
    Submit(Request),
    /// To be asked again at this time, or after a completion.
    At(Nanos),
    /// To be asked again after a completion.
    Wait,
    /// Nothing more; it ends when its outstanding requests have.
    Done,
}

/// A source of requests.
pub trait Actor {
    /// What it wants at `now`.
    fn next(&mut self, now: Nanos) -> Next;

    /// A request has ended at `now`; `ok` if it succeeded.
    fn completed(&mut self, now: Nanos, tag: u32, ok: bool);

    /// Where its next request will begin, if it knows: index of the namespace and logical block. The executor may prefetch what lies
    /// there. Nothing else depends on it, and the next request may begin elsewhere.
    #[inline]
    fn coming(&self) -> Option<(u16, u64)> {
        None
    }

    /// Bytes of a request that are filled and checked together, from 1: where it is cut into commands it is cut at multiples of them.
    fn unit(&self) -> u64 {
        1
    }

    /// Where contents are kept: fills in what the write `tag` writes, from its byte `at` on. What is in `data` before is arbitrary.
    fn fill(&mut self, tag: u32, at: u64, data: &mut [u8]) {
        let _ = (tag, at, data);
    }

    /// Where contents are kept: this is what the read `tag` has found, from its byte `at` on. Its completion follows.
    fn check(&mut self, tag: u32, at: u64, data: &[u8]) {
        let _ = (tag, at, data);
    }
}

/// A reference to an actor, and a box with one, are actors.
macro_rules! forward {
    ($($place:ty),+) => { $(
        impl<A: Actor + ?Sized> Actor for $place {
            #[inline]
            fn next(&mut self, now: Nanos) -> Next {
                (**self).next(now)
            }

            #[inline]
            fn completed(&mut self, now: Nanos, tag: u32, ok: bool) {
                (**self).completed(now, tag, ok);
            }

            #[inline]
            fn coming(&self) -> Option<(u16, u64)> {
                (**self).coming()
            }

            fn unit(&self) -> u64 {
                (**self).unit()
            }

            fn fill(&mut self, tag: u32, at: u64, data: &mut [u8]) {
                (**self).fill(tag, at, data);
            }

            fn check(&mut self, tag: u32, at: u64, data: &[u8]) {
                (**self).check(tag, at, data);
            }
        }
    )+ };
}
forward!(&mut A, Box<A>);
