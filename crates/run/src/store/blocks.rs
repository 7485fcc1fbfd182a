//! Movements of blocks that are more than plain bytes of a page: with metadata, protection information, or marks.

use super::{Backing, Lent, Store, WORTH_LENDING, ZEROS, in_page};
use crate::memory::SLOT;
use device::{Action, Blemish, Contents, SPARE, Treatment};
use ftl::{Io, Piece, StorageError};
use media::Slot;

/// What a slot holds: its page, and the bytes beside it.
type Whole = ([u8; SLOT], [u8; SPARE]);

impl Contents for Store {
    fn begin(&mut self, io: Io, treatment: &Treatment) -> Result<(), Blemish> {
        let held = self.held(io);
        held.treated = true;
        let checked = match treatment.action {
            Action::Write | Action::Compare => treatment.check_host(held.buffer.as_slice()),
            Action::Read | Action::Verify | Action::Zeroes | Action::Mark => Ok(()),
        };
        let index = io.0 as usize;
        if index >= self.treatments.len() {
            self.treatments.resize(self.buffers.len(), None);
        }
        self.treatments[index] = Some(*treatment);
        checked
    }

    fn blemish(&mut self, io: Io) -> Option<Blemish> {
        self.blemish.take().filter(|(of, _)| *of == io).map(|(_, blemish)| blemish)
    }
}

impl Store {
    fn treatment(&self, io: Io) -> Result<Treatment, StorageError> {
        self.treatments.get(io.0 as usize).copied().flatten().ok_or(StorageError)
    }

    /// What a slot holds as it lies there; what a page holds that was never written.
    fn whole(&self, treatment: &Treatment, slot: Option<Slot>) -> Result<Whole, StorageError> {
        let (mut page, mut spare) = (ZEROS, [0; SPARE]);
        match (&self.backing, slot.filter(|&slot| slot != Slot::NONE)) {
            (Backing::None, _) | (_, None) => treatment.nothing(&mut page, &mut spare),
            (Backing::Memory { memory, spares, .. }, Some(slot)) => {
                page.copy_from_slice(memory.get(slot).unwrap_or(&ZEROS));
                if treatment.uses_spare() {
                    spare.copy_from_slice(spares.get(slot).unwrap_or(&[0; SPARE]));
                }
            }
            (Backing::Image(image), Some(slot)) => {
                image.read(slot, 0, &mut page).map_err(|()| StorageError)?;
                if treatment.uses_spare() {
                    image.read_spare(slot, &mut spare).map_err(|()| StorageError)?;
                }
            }
        }
        Ok((page, spare))
    }

    /// Puts blocks of the host's buffer, or zeros, into a slot, and the rest from `base`.
    pub(super) fn put_blocks(
        &mut self,
        io: Io,
        piece: Piece,
        slot: Slot,
        base: Option<Slot>,
        from_host: bool,
    ) -> Result<(), StorageError> {
        let treatment = self.treatment(io)?;
        if !in_page(piece) {
            return Err(StorageError);
        }
        let whole = piece.len as usize == SLOT;
        let rest = if whole { None } else { Some(self.rest(&treatment, base)?) };
        let host: &[u8] = match from_host {
            true => {
                let held = self.buffers.get(io.0 as usize).ok_or(StorageError)?;
                held.buffer.as_slice().get(treatment.host(piece)).ok_or(StorageError)?
            }
            false => &[],
        };
        match &mut self.backing {
            Backing::None => Ok(()),
            Backing::Memory { memory, spares, .. } => {
                let page = memory.get_mut(slot).map_err(|_| StorageError)?;
                let mut scratch = [0; SPARE];
                let spare = match treatment.uses_spare() {
                    true => spares.get_mut(slot).map_err(|_| StorageError)?,
                    false => &mut scratch,
                };
                if let Some((rest, beside)) = rest {
                    (*page, *spare) = (rest, beside);
                }
                treatment.put(piece, host, page, spare);
                Ok(())
            }
            Backing::Image(image) => {
                if !image.writable() {
                    return Err(StorageError);
                }
                let (mut page, mut spare) = rest.unwrap_or((ZEROS, [0; SPARE]));
                treatment.put(piece, host, &mut page, &mut spare);
                if treatment.uses_spare() {
                    image.write_spare(slot, &spare).map_err(|()| StorageError)?;
                }
                image.write(slot, &page).map_err(|()| StorageError)
            }
        }
    }

    /// What a slot that is written in part begins with.
    fn rest(&self, treatment: &Treatment, base: Option<Slot>) -> Result<Whole, StorageError> {
        let (page, mut spare) = self.whole(treatment, base)?;
        treatment.adopt(&mut spare);
        Ok((page, spare))
    }

    /// Notes why blocks cannot be had.
    #[cold]
    fn spoil(&mut self, io: Io, blemish: Blemish) -> StorageError {
        self.blemish = Some((io, blemish));
        StorageError
    }

    /// Checks blocks of a slot, and moves them to the command's buffer if it reads.
    pub(super) fn load_blocks(
        &mut self,
        io: Io,
        piece: Piece,
        slot: Option<Slot>,
    ) -> Result<(), StorageError> {
        let treatment = self.treatment(io)?;
        if !in_page(piece) {
            return Err(StorageError);
        }
        let slot = slot.filter(|&slot| slot != Slot::NONE);
        let buffer = &self.buffers.get(io.0 as usize).ok_or(StorageError)?.buffer;
        let wanted = treatment.action == Action::Read && !matches!(buffer, Lent::Void);
        let wire = wanted && matches!(buffer, Lent::Wire(_));
        let range = treatment.host(piece);
        if wanted && !buffer.holds(range.end as u64) {
            return Err(StorageError);
        }
        // What is in memory is looked at where it lies, and lent if it can be.
        if let (Backing::Memory { memory, spares, .. }, Some(slot)) = (&self.backing, slot) {
            let page = memory.get(slot).unwrap_or(&ZEROS);
            let spare = match treatment.uses_spare() {
                true => spares.get(slot).unwrap_or(&[0; SPARE]),
                false => &[0; SPARE],
            };
            if treatment.looks()
                && let Err(blemish) = treatment.check(piece, page, spare)
            {
                return Err(self.spoil(io, blemish));
            }
            if !wanted
                || (wire
                    && treatment.wire == 0
                    && piece.len >= WORTH_LENDING
                    && self.lend_slot(io, piece, slot))
            {
                return Ok(());
            }
        }
        if wire {
            let copied = Piece { host: range.start as u32, page: 0, len: range.len() as u32 };
            self.note_copied(io, copied);
        }
        let memory = slot.and_then(|slot| match &self.backing {
            Backing::Memory { memory, spares, .. } => {
                Some((memory.get(slot).unwrap_or(&ZEROS), spares.get(slot).unwrap_or(&[0; SPARE])))
            }
            _ => None,
        });
        if let Some((page, spare)) = memory {
            let held = self.buffers.get_mut(io.0 as usize).ok_or(StorageError)?;
            let host = held.buffer.as_mut_slice().get_mut(range).ok_or(StorageError)?;
            treatment.take(piece, page, spare, host);
            return Ok(());
        }
        let (page, spare) = self.whole(&treatment, slot)?;
        if treatment.looks()
            && let Err(blemish) = treatment.check(piece, &page, &spare)
        {
            return Err(self.spoil(io, blemish));
        }
        if wanted {
            let held = self.buffers.get_mut(io.0 as usize).ok_or(StorageError)?;
            let host = held.buffer.as_mut_slice().get_mut(range).ok_or(StorageError)?;
            treatment.take(piece, &page, &spare, host);
        }
        Ok(())
    }

    /// Checks blocks of a slot, and whether they are those of the command's buffer.
    pub(super) fn compare_blocks(
        &mut self,
        io: Io,
        piece: Piece,
        slot: Option<Slot>,
    ) -> Result<bool, StorageError> {
        let treatment = self.treatment(io)?;
        if !in_page(piece) {
            return Err(StorageError);
        }
        let (page, spare) = self.whole(&treatment, slot)?;
        if treatment.looks()
            && let Err(blemish) = treatment.check(piece, &page, &spare)
        {
            return Err(self.spoil(io, blemish));
        }
        let held = self.buffers.get(io.0 as usize).ok_or(StorageError)?;
        let host = held.buffer.as_slice().get(treatment.host(piece)).ok_or(StorageError)?;
        Ok(treatment.equal(piece, &page, &spare, host))
    }
}
