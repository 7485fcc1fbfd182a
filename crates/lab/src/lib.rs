//! Studies and comparisons with real databases.

pub mod cpu;
pub mod interrupt;
pub mod mariadb;
pub mod process;
pub mod report;
pub mod results;
pub mod scratch;
pub mod tpcc;
pub mod units;
