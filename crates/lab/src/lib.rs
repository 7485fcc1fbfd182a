//! Studies and comparisons with real databases.

pub mod interrupt;
pub mod mariadb;
pub mod process;
pub mod scratch;
pub mod tpcc;
