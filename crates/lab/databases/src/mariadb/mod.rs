//! Private instances of MariaDB or MySQL: own data directory, own socket, no network, no system service touched.

mod instance;
mod rocksdb;
mod server;

pub use self::rocksdb::{rocksdb_logs, rocksdb_options};
pub use self::{
    instance::{Files, SystemTablespace, Tuning, check_pages, connect, install, start},
    server::{Server, Vendor},
};
