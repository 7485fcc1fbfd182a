//! Database servers as loads: actors of crate `workload`, without I/O and without a clock.
//!
//! - [`innodb`] and [`postgresql`]: a [`Server`] with a buffer pool, a log and checkpoints,
//! - [`lsm`]: a log-structured database.

mod database;
pub mod innodb;
pub mod lsm;
pub mod postgresql;

pub use database::Server;
