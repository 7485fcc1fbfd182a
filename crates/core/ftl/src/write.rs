//! A write of a host, from where its place is known until all of it is in a set.

use crate::answer::Source;
use crate::storage::{Io, Piece, Storage, StorageError};
use crate::volume::{Extent, VolumeId};
use media::{Nanos, Slot};

/// A write, or what is left of one: [`start`](Write::start), [`host`](Write::host) and [`compare`](Write::compare) follow what is admitted.
#[derive(Clone, Debug)]
pub struct Write {
    /// The request that it is a part of.
    pub io: Io,
    /// Where it goes.
    pub volume: VolumeId,
    /// First byte of the volume.
    pub start: u64,
    /// The byte behind the last.
    pub end: u64,
    /// Byte of the request's data that belongs to `start`. The owner of contents learns from it which of the request's blocks these are.
    pub host: u32,
    /// Where the data comes from.
    pub source: Source,
    /// Whether it completes only when a power cut cannot take the data: FUA, or a write cache that is off.
    pub durable: bool,
    /// Placement handle, from 0. The data shares superblocks only with data of the same handle. One that the set does not have counts as 0.
    /// A set that is written in place has one handle.
    pub handle: u8,
    /// A request whose buffer must be equal to the stored data when this is admitted. Otherwise the write fails with
    /// [`Fault::Mismatch`](crate::Fault::Mismatch) and changes nothing. Such a write lies within an atomic group of pages
    /// ([`Config::atomic_pages`](crate::Config::atomic_pages)).
    pub compare: Option<Io>,
    /// When it completes at the earliest: the latest end of the reads that it needed.
    pub at: Nanos,
}

impl Write {
    /// A write of a whole request with placement handle 0, which need not be durable. An end beyond the numbers is beyond every volume.
    #[inline]
    pub fn new(io: Io, volume: VolumeId, extent: Extent, source: Source) -> Write {
        let end = extent.start.saturating_add(extent.bytes.into());
        let (host, durable, handle, compare, at) = (0, false, 0, None, Nanos::ZERO);
        Write { io, volume, start: extent.start, end, host, source, durable, handle, compare, at }
    }

    /// The part of it from one byte of the volume to another.
    pub fn part(&self, start: u64, end: u64) -> Write {
        Write { start, end, host: self.host + (start - self.start) as u32, ..self.clone() }
    }

    /// Stores a piece of its data over `old` contents.
    #[inline]
    pub(crate) fn store<S: Storage>(
        &self,
        storage: &mut S,
        piece: Piece,
        slot: Slot,
        old: Option<Slot>,
    ) -> Result<(), StorageError> {
        match self.source {
            Source::Host => storage.store(self.io, piece, slot, old),
            Source::Zeros => storage.store_zeros(self.io, piece, slot, old),
        }
    }

    /// Bytes that are left.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.end - self.start
    }

    /// The bytes that are left, of one request at most.
    #[inline]
    pub(crate) fn extent(&self) -> Extent {
        Extent { start: self.start, bytes: self.bytes() as u32 }
    }

    /// The end of the first group of bytes in it, or its own end. A group is aligned, and its bytes are a power of two: dividing takes its
    /// time.
    #[inline]
    pub(crate) fn end_of_group(&self, bytes: u64) -> u64 {
        self.end.min((self.start | (bytes - 1)) + 1)
    }
}
