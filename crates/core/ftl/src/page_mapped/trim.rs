//! Copies that are given up: deallocated, or replaced by newer ones.

use super::PageMappedSet;
use super::bits::set_bit;
use super::buffer::NONE;
use super::map::{BUFFERED, STALE, UNMAPPED, has_contents};
use crate::context::SetContext;
use crate::storage::{Record, Storage};
use media::Nanos;

impl PageMappedSet {
    /// Deallocates `count` logical pages from `first`.
    pub fn deallocate<S: Storage>(&mut self, now: Nanos, first: u32, count: u32, cx: &mut SetContext<'_, S>) {
        let range = first..first + count;
        let mut any = false;
        for page in range.clone() {
            let at = self.map.at(page);
            if at == UNMAPPED {
                continue;
            }
            any = true;
            if let Some(volume) = cx.volumes.owner_mut(self.flash.id(), page) {
                volume.count_mapped(-1);
            }
            self.map.set(page, UNMAPPED);
            if at & BUFFERED == 0 {
                self.invalidate(at, cx);
                continue;
            }
            let entry = *self.buffer.entry(at ^ BUFFERED);
            if entry.old != NONE {
                self.invalidate(entry.old, cx);
            }
            self.supersede_older(now, entry, cx);
            self.supersede(now, at ^ BUFFERED, cx);
        }
        if any && self.flash.is_durable() {
            // All of the range, as a replay of the record will do.
            for page in range {
                set_bit(&mut self.trimmed, page);
            }
            *cx.version += 1;
            let version = *cx.version;
            cx.storage.record(Record::Trim { set: self.flash.id().0, first, count, version, gone: true });
        }
    }

    #[inline]
    pub(super) fn invalidate<S: Storage>(&mut self, page: u32, cx: &mut SetContext<'_, S>) {
        self.invalidate_of(page, self.flash.superblock_of(page), cx);
    }

    /// A page of this superblock is not valid any more: its contents are given up, and what is left of it names none.
    #[inline]
    pub(super) fn invalidate_of<S: Storage>(
        &mut self,
        page: u32,
        superblock: u32,
        cx: &mut SetContext<'_, S>,
    ) {
        debug_assert_eq!(superblock, self.flash.superblock_of(page));
        self.valid.clear(page, superblock);
        if self.flash.is_durable() {
            self.drop_contents(page, cx);
        }
    }

    /// This copy on flash is not needed any more.
    #[inline]
    pub(super) fn drop_contents<S: Storage>(&mut self, page: u32, cx: &mut SetContext<'_, S>) {
        let slot = self.flash.replace_slot(page, STALE);
        if has_contents(slot) {
            cx.storage.release(slot);
        }
    }
}
