//! Private instances of PostgreSQL: own data directory, own socket, no network, no system service touched.

mod instance;
mod pages;
mod server;

pub use self::{
    instance::{
        Files, SUPERUSER, Tuning, WalCounts, WalSync, amcheck, check_pages, client_environment, connect,
        count_wal, install, start,
    },
    pages::{PAGE, bad_pages},
    server::Server,
};
