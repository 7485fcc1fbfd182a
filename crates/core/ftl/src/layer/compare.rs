//! Compare and write as one command.

use super::Ftl;
use crate::answer::{Answer, Fault};
use crate::config::PAGE;
use crate::storage::{Io, Storage};
use crate::volume::{Extent, VolumeId};
use crate::write::Write;
use crate::zone::ZoneFault;
use media::Nanos;

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
        let group = u64::from(self.config.atomic_pages) * u64::from(PAGE);
        let end = extent.start.saturating_add(extent.bytes.into());
        if extent.bytes == 0 || extent.start / group != (end - 1) / group {
            return Answer::Failed(Fault::OutOfRange);
        }
        if self.is_zoned(volume) {
            // What is written to a zone has not been written before.
            return Answer::Failed(Fault::Zone(ZoneFault::InvalidWrite));
        }
        let (start, compare) = (extent.start, Some(compare));
        let write =
            Write { io, volume, start, end, host: 0, zeros: false, durable, handle, compare, at: now };
        self.start_write(now, write, extent, storage)
    }
}
