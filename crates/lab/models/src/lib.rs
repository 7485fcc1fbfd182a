//! Databases on drives in virtual time, with settings of one's own. The studies run them as they were published.

pub mod innodb;
pub mod rocksdb;
