//! What the controller asks of the owner of contents, beyond what the translation layer does.

use crate::treatment::{Blemish, Treatment};
use ftl::{Io, NoContents, Storage};

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
    fn begin(&mut self, io: Io, treatment: &Treatment) -> Result<(), Blemish> {
        let _ = (io, treatment);
        Ok(())
    }

    /// Why the storage failed a command that was begun, if it was for what a block holds; asked once.
    fn blemish(&mut self, io: Io) -> Option<Blemish> {
        let _ = io;
        None
    }
}

impl Contents for NoContents {}
