//! Compare and write as one step: nothing of another request comes between.

use crate::answer::Fault;
use crate::storage::{Io, Piece, Storage};
use crate::volume::Extent;
use crate::write::Write;
use media::{Nanos, Slot};

/// Whether a piece of the comparing request's buffer is what is stored.
pub(crate) fn matches<S: Storage>(io: Io) -> impl FnMut(&mut S, Piece, Option<Slot>) -> Result<(), Fault> {
    move |storage, piece, slot| match storage.compare(io, piece, slot) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Fault::Mismatch),
        Err(error) => Err(error.into()),
    }
}

/// Compares what is stored where a write goes that is about to be admitted. `read` shows a request the contents of an extent, and tells when
/// reading them ends.
#[cold]
pub(crate) fn match_before(
    write: &mut Write,
    read: impl FnOnce(Io, Extent) -> Result<Nanos, Fault>,
) -> Result<(), Fault> {
    let Some(io) = write.compare else { return Ok(()) };
    write.at = write.at.max(read(io, write.extent())?);
    Ok(())
}
