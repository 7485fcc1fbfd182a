//! Tools for tests of several crates: skipping, needs of the machine, waiting, small drives, HTTP.
//!
//! It knows no crate of the project, so that each of them can use it.

pub mod drives;
pub mod http;
mod machine;
pub mod mysql;
mod skip;

pub use machine::{has_program, has_rings, is_mounted, possible, run, wait_for};
pub use skip::{not_in_this_kernel, skipped};
