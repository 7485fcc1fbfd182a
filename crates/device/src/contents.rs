//! What the controller asks of the owner of contents, beyond what the translation layer does.

use crate::keys::wrapped::{DriveKeyId, WrappedKey};
use crate::treatment::{BlockError, Treatment};
use ftl::{Io, NoContents, Storage, StorageError};
use media::Slot;

/// Storage that knows what a controller does with contents on their way between host and medium. The drive decides, and
/// never touches a byte itself.
///
/// A slot of contents is a page of 4,096 bytes and [`SPARE`](crate::SPARE) bytes beside it, as a page of flash has a spare area. Only
/// commands that were begun here touch those.
pub trait Contents: Storage {
    /// Says how the blocks of a command are to be treated, before the translation layer is asked for them; holds until
    /// the command completes. The protection information of a Write or Compare is checked now, in the host's buffer.
    /// Commands that are never begun move plain bytes.
    ///
    /// # Errors
    /// The first block of the host's that does not pass a check.
    fn begin(&mut self, io: Io, treatment: &Treatment) -> Result<(), BlockError> {
        let _ = (io, treatment);
        Ok(())
    }

    /// Whether what is stored here must be synced to be durable. If not, a command that waits for nothing else ends at its own time, and not when
    /// somebody gets round to answering [`Output::Sync`](crate::Output::Sync).
    fn must_sync(&self) -> bool {
        true
    }

    /// Makes room of its own for a command's blocks, for a Copy: treatments that are `gathered` move blocks there, instead of the
    /// host's buffer, until the command completes.
    fn gather(&mut self, io: Io, bytes: u32) {
        let _ = (io, bytes);
    }

    /// Which blocks of a slot's page are marked uncorrectable, bit by bit, in a namespace with this stamp; `always` if
    /// its slots always have spare bytes.
    fn marks(&self, slot: Slot, stamp: u32, always: bool) -> u8 {
        let _ = (slot, stamp, always);
        0
    }

    /// Why the storage failed a command that was begun, if it was for what a block holds; asked once.
    fn block_error(&mut self, io: Io) -> Option<BlockError> {
        let _ = io;
        None
    }

    /// What the key that wraps the namespaces' keys is called; `None` if there is none.
    fn drive_key(&self) -> Option<DriveKeyId> {
        None
    }

    /// Makes a new random key for a namespace, which from now on is the one that its blocks are encrypted with; what was
    /// encrypted with the one before cannot be read any more. `None` without a drive key: blocks are stored as they are.
    ///
    /// # Errors
    /// If no key can be made. The namespace has none then.
    fn make_key(&mut self, nsid: u32) -> Result<Option<WrappedKey>, StorageError> {
        let _ = nsid;
        Ok(None)
    }

    /// Takes a namespace's key into use; false if it cannot be unwrapped.
    fn open_key(&mut self, nsid: u32, key: &WrappedKey) -> bool {
        let _ = (nsid, key);
        false
    }

    /// A namespace has gone, and its key with it.
    fn drop_key(&mut self, nsid: u32) {
        let _ = nsid;
    }
}

impl Contents for NoContents {}
