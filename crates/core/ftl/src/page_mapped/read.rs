//! Reads.

use super::PageMappedSet;
use super::buffer::NONE;
use super::map::{BUFFERED, UNMAPPED};
use crate::answer::Fault;
use crate::config::PAGE;
use crate::context::SetContext;
use crate::lost::LOST;
use crate::storage::{Piece, Storage};
use crate::volume::{Extent, VolumeId};
use media::{Nanos, OpStatus, Slot};

impl PageMappedSet {
    /// Where a page's contents are: handle and, if on flash, the flash page. `None` if nowhere.
    #[inline]
    pub fn locate(&self, page: u32) -> Option<(Slot, u32)> {
        match self.map.at(page) {
            UNMAPPED => None,
            at if at & BUFFERED != 0 => Some((self.buffer.entry(at ^ BUFFERED).slot, NONE)),
            at => Some((self.flash.slot(at), at)),
        }
    }

    /// Walks the pages of an extent; flash pages of one sense are read together. `visit` gets the
    /// piece and the contents.
    pub fn read_extent<S: Storage>(
        &mut self,
        now: Nanos,
        volume: VolumeId,
        extent: Extent,
        cx: &mut SetContext<'_, S>,
        mut visit: impl FnMut(&mut S, Piece, Option<Slot>) -> Result<(), Fault>,
    ) -> Result<Nanos, Fault> {
        let volume = cx.volumes.get_mut(volume).ok_or(Fault::OutOfRange)?;
        if let Some((page, piece)) = extent.only_piece() {
            let Some((slot, at)) = self.locate(volume.page(page)) else {
                return visit(cx.storage, piece, None).map(|()| now);
            };
            if at != NONE {
                volume.stats.media_read_bytes += u64::from(PAGE);
            }
            let mut fault = (slot == LOST).then_some(Fault::Unrecovered);
            if fault.is_none() {
                visit(cx.storage, piece, Some(slot))?;
            }
            let end = if at == NONE { now } else { self.sense(now, at, 1, &mut fault) };
            return fault.map_or(Ok(end), Err);
        }
        let mut end = now;
        let mut fault = None;
        // The run of flash pages in one sense that is read next.
        let (mut first, mut count) = (NONE, 0);
        for (page, piece) in extent.pieces() {
            let page = volume.page(page);
            let slot = match self.locate(page) {
                None => None,
                Some((slot, at)) => {
                    if at != NONE {
                        if count > 0
                            && at == first + count
                            && !at.is_multiple_of(self.flash.geo().sense_pages)
                        {
                            count += 1;
                        } else {
                            if count > 0 {
                                end = end.max(self.sense(now, first, count, &mut fault));
                            }
                            (first, count) = (at, 1);
                        }
                        volume.stats.media_read_bytes += u64::from(PAGE);
                    }
                    if slot == LOST {
                        fault = Some(Fault::Unrecovered);
                    }
                    Some(slot)
                }
            };
            if fault.is_none() {
                visit(cx.storage, piece, slot)?;
            }
        }
        if count > 0 {
            end = end.max(self.sense(now, first, count, &mut fault));
        }
        fault.map_or(Ok(end), Err)
    }

    #[inline]
    pub fn sense(&mut self, now: Nanos, first: u32, count: u32, fault: &mut Option<Fault>) -> Nanos {
        let read = self.flash.read(now, first, count);
        if read.status == OpStatus::Failed {
            *fault = Some(Fault::Unrecovered);
        }
        read.done
    }
}
