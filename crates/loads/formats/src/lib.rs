//! Loads that people write down or record, as actors of crate `workload`: they do no I/O and read no clock.
//!
//! - [`fio`]: jobs of fio's job files,
//! - [`act`]: the loads of Aerospike's certification tool,
//! - [`trace`]: block traces.

pub mod act;
pub mod fio;
pub mod trace;
