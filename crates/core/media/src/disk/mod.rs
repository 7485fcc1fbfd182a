//! A hard disk: zones, arm, platters, buffer and controller as arithmetic on times.
//!
//! A disk has a contract of its own and is no [`Medium`](crate::Medium): a request that waits in its queue
//! does not know its end. Like all media it performs no I/O, reads no clock and copies no byte. Times are
//! whole nanoseconds, angles whole parts of 2^64 of a turn.
//!
//! The parts, from the platters up: [`spindle`] says which angle is under the heads, [`geometry`] where a
//! block lies (in zones, or by a [`tree`] of patterns), [`mechanism`] how long the arm and the heads take to get there and over it, [`cache`] what
//! the buffer holds, [`service`] how one request goes from the command to the completion. [`drive`] is a disk with a queue. [`shape`]
//! makes one of the figures of a data sheet.

pub mod cache;
pub mod drive;
pub mod geometry;
pub mod mechanism;
pub mod service;
pub mod shape;
pub mod spindle;
pub mod tree;
mod types;

pub use types::{Completion, DiskError, MOST_CYLINDERS, Op, ReadsFirst, Request};
