//! Studies and comparisons with real databases.

pub mod compare;
pub mod cpu;
pub mod doublewrite;
pub mod drive;
pub mod interrupt;
pub mod layout;
pub mod mariadb;
pub mod powercut;
pub mod process;
pub mod progress;
pub mod report;
pub mod results;
pub mod rig;
pub mod scratch;
pub mod tpcc;
pub mod units;
