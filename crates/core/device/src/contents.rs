//! What the controller asks of the owner of contents, beyond what the translation layer does.

use crate::block_transform::{BlockError, BlockTransform};
use crate::keys::wrapped::{DriveKeyId, WrappedKey};
use ftl::{Io, NoContents, Storage, StorageError};
use media::Slot;

/// An injected fault of the host's disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostDiskFault {
    /// The disk is full, rather than failing.
    pub full: bool,
    /// Operations that it strikes until it ends; 0 until it is cleared.
    pub remaining: u32,
}

/// Storage that knows what a controller does with contents on their way between host and medium. The drive decides, and
/// never touches a byte itself.
///
/// A slot of contents is a page of 4,096 bytes and [`SPARE_BYTES`](crate::SPARE_BYTES) bytes beside it, as a page of flash has a spare area. Only
/// commands that were begun here touch those.
pub trait Contents: Storage {
    /// Sets the transform of a command's blocks, before the translation layer gets the command. It holds until
    /// the command completes. The protection information of a Write or Compare is checked now, in the host's buffer.
    /// A command without a transform moves plain bytes.
    ///
    /// # Errors
    /// The first block of the host's that does not pass a check.
    fn set_transform(&mut self, io: Io, transform: &BlockTransform) -> Result<(), BlockError> {
        let _ = (io, transform);
        Ok(())
    }

    /// Whether what is stored here must be synced to be durable. If not, a command that waits for nothing else ends at its own time. It does
    /// not wait for an answer to [`Output::Sync`](crate::Output::Sync).
    fn must_sync(&self) -> bool {
        true
    }

    /// Makes room of its own for the blocks of a Copy. Until the command completes, a transform that is `gathered` moves blocks there
    /// instead of the host's buffer.
    fn gather(&mut self, io: Io, bytes: u32) {
        let _ = (io, bytes);
    }

    /// Which blocks of a slot's page are marked uncorrectable, bit by bit, in a namespace with this stamp; `always` if
    /// its slots always have spare bytes.
    fn marks(&self, slot: Slot, stamp: u32, always: bool) -> u8 {
        let _ = (slot, stamp, always);
        0
    }

    /// The block that made the storage fail a command with a transform, if a block did. Asked once.
    fn block_error(&mut self, io: Io) -> Option<BlockError> {
        let _ = io;
        None
    }

    /// The injected fault of the host's disk that is active, if one is.
    fn host_disk_fault(&self) -> Option<HostDiskFault> {
        None
    }

    /// The name of the key that wraps the namespaces' keys; `None` if there is none.
    fn drive_key(&self) -> Option<DriveKeyId> {
        None
    }

    /// Makes a new random key for a namespace, which from now on is the one that its blocks are encrypted with; what was
    /// encrypted with the one before cannot be read any more. `None` without a drive key: blocks are stored as they are.
    /// The key is wrapped for this namespace alone, by NSID and UUID.
    ///
    /// # Errors
    /// If no key can be made. The namespace has none then.
    fn make_key(&mut self, nsid: u32, uuid: &[u8; 16]) -> Result<Option<WrappedKey>, StorageError> {
        let _ = (nsid, uuid);
        Ok(None)
    }

    /// Takes a namespace's key into use; false if it cannot be unwrapped.
    fn open_key(&mut self, nsid: u32, uuid: &[u8; 16], key: &WrappedKey) -> bool {
        let _ = (nsid, uuid, key);
        false
    }

    /// Wraps a namespace's key anew, for another UUID. The key itself stays. `None` if it cannot be unwrapped.
    ///
    /// # Errors
    /// If the key cannot be wrapped.
    fn rewrap_key(
        &mut self,
        nsid: u32,
        [from, to]: [&[u8; 16]; 2],
        key: &WrappedKey,
    ) -> Result<Option<WrappedKey>, StorageError> {
        let _ = (nsid, from, to, key);
        Ok(None)
    }

    /// A namespace has gone, and its key with it.
    fn drop_key(&mut self, nsid: u32) {
        let _ = nsid;
    }
}

impl Contents for NoContents {}
