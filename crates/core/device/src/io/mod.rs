//! Commands of I/O queues on blocks (NVM 3.3).
//!
//! They have no state of their own: each is a function of the core, the command, and what the drive's components said of it.

pub(crate) mod commands;
pub(crate) mod copy;
pub(crate) mod fused;
pub(crate) mod locate;
mod transform;

pub use transform::NamespaceLayout;
