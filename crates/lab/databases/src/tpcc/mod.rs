//! TPC-C (revision 5.11) on MariaDB, MySQL or PostgreSQL, over a Unix socket.
//!
//! What follows the specification: tables, population, the five transactions, their mix, the non-uniform numbers, 1%
//! rollbacks, remote warehouses, consistency conditions 1 to 4. What does not: keying and think times are off, a connection
//! serves all warehouses instead of one district's terminal, and deliveries run at once instead of in a queue. So the
//! figures compare layouts of one machine; they are no TPC-C results.

mod check;
mod connection;
mod database;
mod driver;
mod load;
mod mariadb;
mod postgresql;
mod random;
mod schema;
mod transactions;

pub use self::{
    check::check,
    connection::{Connection, Error, Value},
    database::Database,
    driver::{LoadResult, LoadSettings, Phase, Window, run},
    load::{load, rows},
    random::{Constants, Rng},
    transactions::{Deck, Terminal},
};
pub use database_models::innodb::TransactionKind;
