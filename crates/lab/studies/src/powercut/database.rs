//! What a campaign asks of a database server of any kind.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::ledger::Session;
use lab_databases::{database::Instance, layout::Layout, mounted_drive::MountedDrive, scratch::Scratch};
use lab_report::control::Cancel;

/// A server with the settings of a variant.
pub(super) trait Database {
    /// The drive and what is on it. `media` are those of the NVM Sets of `drive`.
    ///
    /// # Errors
    /// The drive lacks a medium, or this machine or the server cannot do what the variant needs.
    fn layout(&self, drive: &str, media: &[String]) -> Result<Layout>;

    /// Makes the database on a fresh drive, starts it and makes the empty ledger.
    ///
    /// # Errors
    /// The installation fails, or the server does.
    fn prepare(
        &self,
        mounted: &MountedDrive,
        scratch: &Scratch,
        connections: u32,
        progress: &mut dyn FnMut(&str),
    ) -> Result<()>;

    /// The prepared database on a drive that is up, ready to be started.
    ///
    /// # Errors
    /// A part of it cannot be moved to where the variant wants it.
    fn place(&self, mounted: &MountedDrive) -> Result<Box<dyn Placed + '_>>;
}

/// A database on a drive that is up.
pub(super) trait Placed: Sync {
    /// Starts the server, which recovers.
    ///
    /// # Errors
    /// When it does not come up, with the end of its log.
    fn start(&self, scratch: &Scratch) -> Result<Instance>;

    /// A connection to the ledger.
    ///
    /// # Errors
    /// Nobody answers at the socket.
    fn session(&self, socket: &Path) -> Result<Box<dyn Session>>;

    /// Pages with bad checksums in the files as they are, before the server repairs them.
    ///
    /// # Errors
    /// A file cannot be read.
    fn torn_pages(&self) -> Result<u64>;

    /// The running server's own check of its tables and indexes.
    ///
    /// # Errors
    /// Says what is wrong with which.
    fn check_tables(&self, socket: &Path) -> Result<()>;

    /// The server's own logs that lie on the drive.
    fn logs(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Checks all pages of the stopped server.
    ///
    /// # Errors
    /// Names what is damaged.
    fn check_files(&self) -> Result<()>;
}

/// Calls `insert` for each row of the ledger, and `commit` after every few thousand.
///
/// # Errors
/// Those of the calls; it was cancelled.
pub(super) fn each_row<S>(
    session: &mut S,
    connections: u32,
    cancel: &Cancel,
    mut insert: impl FnMut(&mut S, u32, u32) -> Result<()>,
    mut commit: impl FnMut(&mut S) -> Result<()>,
) -> Result<()> {
    for id in 0..super::ledger::ROWS {
        cancel.check()?;
        if id % 500 == 499 {
            commit(session)?;
        }
        for connection in 0..connections {
            insert(session, connection, id)?;
        }
    }
    commit(session)
}
