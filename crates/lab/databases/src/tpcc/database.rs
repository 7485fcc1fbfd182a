//! Where TPC-C runs.

use std::path::PathBuf;

use anyhow::Result;

use super::{
    connection::Connection,
    mariadb::{self, MariaDb},
    postgresql::{self, PostgreSql},
};

/// A private server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// MariaDB or MySQL at this socket.
    MariaDb(PathBuf),
    /// PostgreSQL, whose socket is in this directory.
    PostgreSql(PathBuf),
}

impl Database {
    /// Makes the database `tpcc` anew, with its empty tables.
    pub(super) fn create(&self) -> Result<()> {
        match self {
            Self::MariaDb(socket) => mariadb::create(socket),
            Self::PostgreSql(socket) => postgresql::create(socket),
        }
    }

    /// What the server wants when the tables have been filled.
    pub(super) fn settle(&self) -> Result<()> {
        match self {
            Self::MariaDb(_) => Ok(()),
            Self::PostgreSql(socket) => postgresql::analyze(socket),
        }
    }

    /// A connection to the database `tpcc`.
    pub(super) fn connect(&self) -> Result<Box<dyn Connection>> {
        Ok(match self {
            Self::MariaDb(socket) => Box::new(MariaDb::connect(socket)?),
            Self::PostgreSql(socket) => Box::new(PostgreSql::connect(socket)?),
        })
    }
}
