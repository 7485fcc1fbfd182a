//! Compare and write as one step: nothing of another request comes between.

use crate::config::PAGE;
use crate::set::NvmSet;
use crate::storage::{Io, Piece, Storage};
use crate::volume::{Extent, VolumeId};
use crate::write::Write;
use crate::{Answer, Fault, Ftl};
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
    // No longer than an atomic group, so it fits.
    let extent = Extent { start: write.start, bytes: (write.end - write.start) as u32 };
    write.at = write.at.max(read(io, extent)?);
    Ok(())
}

impl Ftl {
    /// Writes the buffer of `io` if that of `compare` is equal to what is stored, as one step: what is compared is what the write
    /// replaces, however long it has to wait. The extent lies within an atomic group of pages
    /// ([`Config::atomic_pages`](crate::Config::atomic_pages)). The answer is the write's; [`Fault::Mismatch`] if they differ, and then
    /// nothing is written.
    #[allow(clippy::too_many_arguments)]
    pub fn compare_and_write(
        &mut self,
        now: Nanos,
        compare: Io,
        io: Io,
        volume: VolumeId,
        extent: Extent,
        durable: bool,
        handle: u8,
        storage: &mut impl Storage,
    ) -> Answer {
        self.advance(now, storage);
        let group = u64::from(self.config.atomic_pages) * u64::from(PAGE);
        let end = extent.start.saturating_add(extent.bytes.into());
        let set = match self.check(volume, extent) {
            Ok(set) if extent.bytes > 0 && extent.start / group == (end - 1) / group => set,
            Ok(_) => return Answer::Failed(Fault::OutOfRange),
            Err(fault) => return Answer::Failed(fault),
        };
        let (start, compare) = (extent.start, Some(compare));
        let write =
            Write { io, volume, start, end, host: 0, zeros: false, durable, handle, compare, at: now };
        self.sets[usize::from(set.0)].write(now, write, context!(self, storage))
    }
}
