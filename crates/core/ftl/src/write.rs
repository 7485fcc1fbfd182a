//! A write on its way into a set.

use crate::storage::Io;
use crate::volume::VolumeId;
use media::Nanos;

/// A write of the host that is not wholly in the buffer yet.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub io: Io,
    pub volume: VolumeId,
    /// First byte of the volume still to be admitted.
    pub start: u64,
    pub end: u64,
    /// Byte of the host's buffer that belongs to `start`.
    pub host: u32,
    /// Zeros instead of the host's buffer.
    pub zeros: bool,
    /// Completes only when it is on flash.
    pub durable: bool,
    /// Placement handle, from 0.
    pub handle: u8,
    /// A Compare whose buffer must be equal to what is stored when this is admitted; else nothing is.
    pub compare: Option<Io>,
    /// Latest end of the reads that its partial pages needed.
    pub at: Nanos,
}

impl Write {
    /// Where the first group of bytes that it begins in ends, or where it ends itself. A group is aligned, and its bytes
    /// are a power of two: dividing takes its time.
    pub fn end_of_group(&self, bytes: u64) -> u64 {
        self.end.min((self.start | (bytes - 1)) + 1)
    }
}
