//! Owns a drive at run time: its clock, its contents, its persistence, its hosts.
//!
//! The drive itself (crate `device`) is a state machine. This crate tells it the time, gives it commands,
//! carries out what it asks for and delivers what it completes:
//!
//! - [`buffer`] and [`handle`]: hosts in this process;
//! - [`image`]: a drive that outlives the process.
//!
//! Validated here: that a buffer is as long as its command's transfer; everything about files. Not here:
//! anything about commands.

pub mod buffer;
mod clock;
pub mod image;
mod memory;
mod slots;
mod store;
