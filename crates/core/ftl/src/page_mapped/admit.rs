//! Writes on their way into the write buffer.

use super::buffer::{Entry, NONE};
use super::map::{BUFFERED, UNMAPPED};
use super::{Flush, PageMappedSet};
use crate::answer::{Answer, CompletedIo, Fault};
use crate::compare::{match_before, matches};
use crate::config::PAGE;
use crate::context::SetContext;
use crate::lost::LOST;
use crate::storage::{Io, Piece, Record, Storage};
use crate::write::Write;
use media::{Nanos, Slot};

impl PageMappedSet {
    /// Accepts a write; the answer is `Later` if the buffer is full or the write must reach the flash.
    pub fn accept<S: Storage>(&mut self, now: Nanos, mut write: Write, cx: &mut SetContext<'_, S>) -> Answer {
        if self.read_only {
            return Answer::Failed(Fault::ReadOnly);
        }
        if self.waiting.is_empty() {
            match self.admit(now, &mut write, cx) {
                Err(fault) => return Answer::Failed(fault),
                Ok(true) if !write.durable || self.protected => {
                    self.pump(now, cx);
                    return Answer::At(write.at.max(now));
                }
                Ok(true) => return self.drain_buffer(now, write.io, cx),
                Ok(false) => {}
            }
        }
        self.waiting.push_back(write);
        // One that waits behind others changes nothing.
        if self.waiting.len() == 1 {
            self.pump(now, cx);
        }
        Answer::Later
    }

    /// Moves as much of a write into the buffer as fits; whether that was all.
    fn admit<S: Storage>(
        &mut self,
        now: Nanos,
        write: &mut Write,
        cx: &mut SetContext<'_, S>,
    ) -> Result<bool, Fault> {
        let group = u64::from(self.buffer.atomic()) * u64::from(PAGE);
        while write.start < write.end {
            let stop = write.end_of_group(group);
            if !self.admit_group(now, write, stop, cx)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A buffer entry in the open chunk of the group of pages that `page` belongs to, if there is one.
    #[inline]
    pub(super) fn open_chunk(&self, page: u32) -> Option<u32> {
        let atomic = self.buffer.atomic();
        let base = page & !(atomic - 1);
        (base..(base + atomic).min(self.capacity)).find_map(|p| {
            let at = self.map.at(p);
            (at != UNMAPPED && at & BUFFERED != 0 && self.buffer.is_open(at ^ BUFFERED))
                .then_some(at ^ BUFFERED)
        })
    }

    /// Admits the pages of a write that lie in one chunk: all or none.
    fn admit_group<S: Storage>(
        &mut self,
        now: Nanos,
        write: &mut Write,
        stop: u64,
        cx: &mut SetContext<'_, S>,
    ) -> Result<bool, Fault> {
        let page_bytes = u64::from(PAGE);
        let volume = cx.volumes.get(write.volume).ok_or(Fault::OutOfRange)?;
        let first = volume.page(write.start / page_bytes);
        let mut chunk = self.open_chunk(first);
        if chunk.is_none() && !self.buffer.has_room() {
            return Ok(false);
        }
        if write.compare.is_some() {
            let volume = write.volume;
            match_before(write, |io, extent| self.read_extent(now, volume, extent, cx, matches(io)))?;
        }
        self.scratch.slots.clear();
        let mut at = write.start;
        let mut host = write.host;
        let mut page = first;
        let mut outcome = Ok(true);
        while at < stop {
            let Some(slot) = cx.storage.allocate() else {
                self.lacks_slots = true;
                outcome = Ok(false);
                break;
            };
            self.scratch.slots.push(slot);
            let offset = (at % page_bytes) as u32;
            let len = (stop - at).min(page_bytes - u64::from(offset)) as u32;
            let piece = Piece { host, page: offset, len };
            let mut old = None;
            if len < PAGE
                && let Some((slot, flash)) = self.locate(page)
            {
                let mut fault = (slot == LOST).then_some(Fault::Unrecovered);
                if flash != NONE {
                    write.at = write.at.max(self.sense(now, flash, 1, &mut fault));
                }
                if let Some(fault) = fault {
                    outcome = Err(fault);
                    break;
                }
                old = Some(slot);
            }
            if let Err(error) = write.store(cx.storage, piece, slot, old) {
                outcome = Err(error.into());
                break;
            }
            at += u64::from(len);
            host += len;
            page += 1;
        }
        if outcome != Ok(true) {
            while let Some(slot) = self.scratch.slots.pop() {
                cx.storage.release(slot);
            }
            return outcome;
        }
        let stream = self.streams.of_host(first, write.handle, *cx.version);
        if let Some(chunk) = chunk {
            self.buffer.hand_over(chunk, stream);
        }
        for i in 0..self.scratch.slots.len() as u32 {
            let slot = self.scratch.slots[i as usize];
            let entry = self.admit_page(first + i, slot, chunk, stream, cx);
            chunk = chunk.or(entry);
        }
        write.start = at;
        write.host = host;
        write.compare = None;
        Ok(true)
    }

    pub(super) fn admit_page<S: Storage>(
        &mut self,
        page: u32,
        slot: Slot,
        chunk: Option<u32>,
        stream: u8,
        cx: &mut SetContext<'_, S>,
    ) -> Option<u32> {
        *cx.version += 1;
        let version = *cx.version;
        let at = self.map.at(page);
        let (index, old, prev) = if at == UNMAPPED {
            if let Some(volume) = cx.volumes.owner_mut(self.flash.id(), page) {
                volume.count_mapped(1);
            }
            (None, NONE, NONE)
        } else if at & BUFFERED == 0 {
            (None, at, NONE)
        } else if self.buffer.is_open(at ^ BUFFERED) {
            let entry = self.buffer.entry_mut(at ^ BUFFERED);
            cx.storage.release(entry.slot);
            (Some(at ^ BUFFERED), entry.old, entry.prev)
        } else {
            // On its way to flash: the new entry takes over what its landing would invalidate.
            let prev = at ^ BUFFERED;
            (None, std::mem::replace(&mut self.buffer.entry_mut(prev).old, NONE), prev)
        };
        let index = match (index, chunk) {
            (Some(index), _) => index,
            (None, Some(neighbour)) => self.buffer.join(neighbour, page),
            (None, None) => self.buffer.open(page, stream)?,
        };
        *self.buffer.entry_mut(index) = Entry { page, old, slot, prev, version };
        self.map.set(page, BUFFERED | index);
        if self.flash.is_durable() {
            let spare = self.buffer.entry(index).spare();
            cx.storage.record(Record::Buffer { set: self.flash.id().0, spare });
        }
        Some(index)
    }

    /// Whether a write waits, and may be admitted or refused now.
    #[inline]
    pub(super) fn may_admit(&self) -> bool {
        !self.waiting.is_empty() && (self.buffer.has_room() || self.read_only)
    }

    /// Admits what waits, as far as there is room; whether anything was admitted.
    pub(super) fn admit_waiting<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) -> bool {
        let mut any = false;
        while self.buffer.has_room() || self.read_only {
            let Some(mut write) = self.waiting.pop_front() else { break };
            let before = write.start;
            let result = match self.read_only {
                true => Err(Fault::ReadOnly),
                false => self.admit(now, &mut write, cx),
            };
            any |= write.start != before;
            match result {
                Ok(false) => {
                    self.waiting.push_front(write);
                    break;
                }
                Ok(true) if write.durable && !self.protected => {
                    let left = self.buffer.used_chunks();
                    self.flushes.push(Flush { io: write.io, mark: self.buffer.mark(), left });
                }
                Ok(true) => cx.done.push(CompletedIo { io: write.io, at: write.at.max(now), result: Ok(()) }),
                Err(fault) => cx.done.push(CompletedIo { io: write.io, at: now, result: Err(fault) }),
            }
        }
        any
    }
    /// Brings everything accepted so far to flash.
    pub fn drain_buffer<S: Storage>(&mut self, now: Nanos, io: Io, cx: &mut SetContext<'_, S>) -> Answer {
        let left = self.buffer.used_chunks();
        if left == 0 {
            return Answer::At(now);
        }
        if self.read_only {
            return Answer::Failed(Fault::ReadOnly);
        }
        self.flushes.push(Flush { io, mark: self.buffer.mark(), left });
        self.pump(now, cx);
        Answer::Later
    }
}
