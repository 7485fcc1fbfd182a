//! What slots hold: reading it, with its checksum, and writing it.

use super::disk::{self, read_full};
use super::files::{self, CONTENTS, SPARES};
use super::format;
use super::jobs::MOST_INLINE;
use super::sums;
use super::{Image, MissedReads};
use crate::memory::SLOT;
use device::SPARE_BYTES;
use ftl::{Io, Record, StorageError};
use media::Slot;
use std::ops::Range;

impl Image {
    #[inline]
    pub(crate) fn allocate(&mut self) -> Option<Slot> {
        self.slots.take()
    }

    pub(crate) fn retain(&mut self, slot: Slot) {
        self.slots.retain(slot);
    }

    #[inline]
    pub(crate) fn release(&mut self, slot: Slot) {
        self.slots.release(slot);
    }

    /// Recovery begins: it counts all references anew.
    pub(crate) fn forget_slots(&mut self) {
        self.missed_reads.forget();
        if let Some(scrub) = &mut self.scrub {
            scrub.forget();
        }
        self.forgetting.stale.clear();
        self.slots.forget();
    }

    /// Recovery has counted all references.
    pub(crate) fn slots_are_counted(&mut self) {
        self.slots.counted();
    }

    /// Reads a part of a slot's page, and waits for the host's disk if it must.
    pub(crate) fn read(&self, slot: Slot, page: u32, bytes: &mut [u8]) -> Result<(), ()> {
        sums::read(&*self.contents, slot, self.sums.get(slot), page, bytes)
            .map_err(|damage| tracing::error!("{damage}"))
    }

    /// Reads what a slot holds beside its page, if it was written with the page.
    pub(crate) fn read_spare(&self, slot: Slot, bytes: &mut [u8; SPARE_BYTES]) -> Result<(), Unreadable> {
        let at = u64::from(slot.0) * SPARE_BYTES as u64;
        if let Err(e) = read_full(&*self.spares, at, bytes) {
            let path = files::path(&*self.disk, SPARES);
            tracing::error!("cannot read {} at byte {at}: {e}", path.display());
            return Err(Unreadable::Failed);
        }
        if sums::belongs(self.sums.get(slot), bytes) { Ok(()) } else { Err(Unreadable::Other) }
    }

    /// Reads a slot's page without a command. The answer is whether a checksum vouches for it. The caller reports damage.
    pub(crate) fn look(&self, slot: Slot, page: &mut [u8; SLOT]) -> Result<bool, ()> {
        let sum = self.sums.get(slot);
        sums::read(&*self.contents, slot, sum, 0, page).map_err(|damage| tracing::debug!("{damage}"))?;
        Ok(sum != sums::UNKNOWN)
    }

    /// Reads a part of a slot's page for a command: now if the host has it in memory, otherwise when its disk has given it.
    pub(crate) fn load(
        &mut self,
        io: Io,
        host: Range<usize>,
        slot: Slot,
        page: u32,
        bytes: &mut [u8],
    ) -> Result<(), ()> {
        let sum = self.sums.get(slot);
        let mut whole = [0; SLOT];
        let room = if bytes.len() == SLOT { &mut *bytes } else { &mut whole[..] };
        match self.contents.read_now(room, sums::place(slot)) {
            Ok(Some(read)) if read == SLOT => {
                sums::check(slot, sum, room).map_err(|damage| tracing::error!("{damage}"))?;
                if bytes.len() < SLOT {
                    bytes.copy_from_slice(&whole[page as usize..page as usize + bytes.len()]);
                }
                Ok(())
            }
            // It would wait, or a part of it is there, or the file ends: all are rare.
            Ok(_) if self.begin_missed_read(io, host, slot, page) => Ok(()),
            Ok(_) | Err(_) => self.read(slot, page, bytes),
        }
    }

    /// A thread reads a part of a slot's page for a command; false where too many read that page already.
    pub(super) fn begin_missed_read(&mut self, io: Io, host: Range<usize>, slot: Slot, page: u32) -> bool {
        let lent = self.slots.lend(slot);
        if lent {
            self.missed_reads.begin(io, host, slot, self.sums.get(slot), page);
        }
        lent
    }

    /// Checks a slot's page for a command that wants no data: now if the host has it in memory, otherwise when its disk has
    /// given it.
    pub(crate) fn verify(&mut self, io: Io, slot: Slot) -> Result<(), ()> {
        self.load(io, 0..0, slot, 0, &mut [])
    }

    /// Reads that were not over when they were begun.
    pub(crate) fn missed_reads(&mut self) -> &mut MissedReads {
        &mut self.missed_reads
    }

    /// Writes a slot's page, and what lies beside it if anything does.
    pub(crate) fn write(
        &mut self,
        slot: Slot,
        page: &[u8; SLOT],
        beside: Option<&mut [u8; SPARE_BYTES]>,
    ) -> Result<(), StorageError> {
        let sum = sums::sum(page);
        match beside {
            Some(beside) => {
                sums::seal(sum, beside);
                self.write_beside(slot, beside)?;
            }
            // What an earlier page left there would outlive the erasure of its namespace.
            None if self.is_marked(slot) => self.write_beside(slot, &[0; SPARE_BYTES])?,
            None => {}
        }
        let at = sums::place(slot);
        self.contents.write_at(page, at).map_err(|e| self.not_written(CONTENTS, at, &e))?;
        note(&mut self.written.pages, &mut self.written.many, slot, self.options.host_sync);
        self.flush_habit.writes();
        self.sums.set(slot, sum);
        format::encode_sum(slot.0, sum, &mut self.frame);
        Ok(())
    }

    /// Whether something may lie beside a slot's page.
    pub(crate) fn is_marked(&self, slot: Slot) -> bool {
        self.marked.get(slot.0 as usize).copied().unwrap_or(false)
    }

    fn write_beside(&mut self, slot: Slot, beside: &[u8; SPARE_BYTES]) -> Result<(), StorageError> {
        let at = u64::from(slot.0) * SPARE_BYTES as u64;
        let index = slot.0 as usize;
        let is_zero = beside.iter().all(|&byte| byte == 0);
        if !is_zero {
            // First: of a write that fails, a part may be there.
            self.marked.resize(self.marked.len().max(index + 1), false);
            self.marked[index] = true;
        }
        self.spares.write_at(beside, at).map_err(|e| self.not_written(SPARES, at, &e))?;
        note(&mut self.written.beside, &mut self.written.many, slot, self.options.host_sync);
        if is_zero && let Some(mark) = self.marked.get_mut(index) {
            *mark = false;
        }
        Ok(())
    }

    #[cold]
    fn not_written(&mut self, name: &str, at: u64, e: &std::io::Error) -> StorageError {
        if disk::is_full(e) {
            self.tell_full();
            return StorageError::Full;
        }
        let path = files::path(&*self.disk, name);
        self.fail(format!("cannot write {} at byte {at}: {e}", path.display()));
        StorageError::Failed
    }

    #[inline]
    pub(crate) fn record(&mut self, record: &Record<'_>) {
        format::encode(record, &mut self.frame);
    }
}

/// Why the bytes beside a page cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unreadable {
    /// The host's disk failed.
    Failed,
    /// The bytes there belong to another page: to an earlier one of this slot, or they have changed.
    Other,
}

/// Notes a slot that was written since the last sync, as long as there are few.
#[inline]
fn note(list: &mut Vec<u32>, many: &mut bool, slot: Slot, syncs: bool) {
    if syncs && !*many {
        match list.len() < MOST_INLINE {
            true => list.push(slot.0),
            false => *many = true,
        }
    }
}
