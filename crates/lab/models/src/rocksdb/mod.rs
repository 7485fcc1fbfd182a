//! A log-structured store ([`database_models::lsm`]) on zones, or on a conventional namespace of the same chips, in virtual time, as the published RocksDB was.
//!
//! - [`Store`] and [`StoreTuning`] are its settings, and [`run()`] runs one.
//! - [`chips`] makes the drives, and [`database`] is a database on one.
//! - [`assumed`] has the values that no source tells.

pub mod assumed;
pub mod chips;
pub mod database;
mod published;
mod run;
mod settings;

pub use self::{
    published::{DEFAULT_COMPACTION_NS, DEFAULT_PROFILE, DEFAULT_SCALE, FILLED_PERCENT, KEYS, RECORD},
    run::run,
    settings::{Model as Store, Overwrites, Reads, Space, Tuning as StoreTuning},
};
