//! Movements of blocks that are encrypted in their slots: each block's data, with its metadata behind it, is one data unit of
//! AES-XTS, and its LBA the tweak. Marks and stamps beside the page stay as they are.
//!
//! Blocks of a page that a write leaves alone stay as they lie there, encrypted; only what was never written is encrypted
//! along, because a read decrypts it.
//!
//! Reads of whole blocks without metadata from memory may wait for each other, until the first of their buffers is given back. So the
//! memory of one is on its way while another is decrypted. Each of them refers to its slot, which does not change meanwhile.

use super::blocks::{SlotBytes, has_beside, source, target};
use super::sealed_read::SealedRead;
use super::{Backing, MOST_REFERENCES, Store, ZEROS};
use crate::keys::{BlockCipher, Keyring};
use crate::memory::SLOT;
use crate::xts::Line;
use device::{BlockAction, BlockTransform, SPARE_BYTES};
use ftl::{Io, Piece, StorageError};
use media::Slot;
use std::ops::Range;

/// Data of the largest block and metadata of a page.
const UNIT: usize = SLOT + 64;

/// Most reads that wait to be decrypted: what they are decrypted into must still be in the cache when it is sent.
const MOST_READS: usize = 64;

/// Which way units are turned.
#[derive(Clone, Copy)]
enum CipherDirection {
    Encrypt,
    Decrypt,
}

/// Encrypts or decrypts units where they lie.
fn turn(
    cipher: &mut BlockCipher,
    direction: CipherDirection,
    units: impl Iterator<Item = (u64, Range<usize>, Range<usize>)>,
    page: &mut [u8; SLOT],
    spare: &mut [u8; SPARE_BYTES],
) -> Result<(), StorageError> {
    let mut one = |lba, block: &mut [u8]| match direction {
        CipherDirection::Encrypt => cipher.encrypt(lba, block),
        CipherDirection::Decrypt => cipher.decrypt(lba, block),
    };
    let mut unit = [0; UNIT];
    for (lba, data, metadata) in units {
        let (data, metadata) = (&mut page[data], &mut spare[metadata]);
        if metadata.is_empty() {
            one(lba, data).map_err(|_| StorageError::Failed)?;
            continue;
        }
        let len = data.len() + metadata.len();
        let unit = unit.get_mut(..len).ok_or(StorageError::Failed)?;
        unit[..data.len()].copy_from_slice(data);
        unit[data.len()..].copy_from_slice(metadata);
        one(lba, unit).map_err(|_| StorageError::Failed)?;
        let (sealed, beside) = unit.split_at(data.len());
        data.copy_from_slice(sealed);
        metadata.copy_from_slice(beside);
    }
    Ok(())
}

fn cipher<'a>(
    keys: &'a mut Keyring,
    transform: &BlockTransform,
) -> Result<&'a mut BlockCipher, StorageError> {
    keys.cipher(transform.nsid).ok_or(StorageError::Failed)
}

impl Store {
    /// Decrypts a piece's blocks in what a slot holds.
    pub(super) fn open(
        &mut self,
        transform: &BlockTransform,
        piece: Piece,
        whole: &mut SlotBytes,
    ) -> Result<(), StorageError> {
        let cipher = cipher(&mut self.keys, transform)?;
        turn(cipher, CipherDirection::Decrypt, transform.encryption_units(piece), &mut whole.0, &mut whole.1)
    }

    /// Puts blocks into a slot, and the rest from `base`, which is encrypted already; checked by the caller as far as plain
    /// blocks are.
    pub(super) fn put_sealed(
        &mut self,
        io: Io,
        transform: &BlockTransform,
        piece: Piece,
        slot: Slot,
        base: Option<Slot>,
        from_host: bool,
    ) -> Result<(), StorageError> {
        let fresh = base.is_none_or(|base| base == Slot::NONE);
        let mut rest = match piece.len as usize == SLOT {
            true => None,
            false => Some(self.rest(transform, base)?),
        };
        let uses_spare = transform.uses_spare() || rest.as_ref().is_some_and(has_beside);
        let host: &[u8] = match from_host {
            true => source(&self.buffers, &self.gathered, io, transform)
                .get(transform.host_range(piece))
                .ok_or(StorageError::Failed)?,
            false => &[],
        };
        let cipher = cipher(&mut self.keys, transform)?;
        // Nothing but data, and all of the page: from one place to the other.
        let plain =
            rest.is_none() && from_host && !transform.uses_spare() && transform.action != BlockAction::Mark;
        let mut fill = |page: &mut [u8; SLOT], spare: &mut [u8; SPARE_BYTES]| {
            if plain {
                let size = 1 << transform.shift;
                for ((lba, to, _), from) in transform.encryption_units(piece).zip(host.chunks_exact(size)) {
                    cipher.encrypt_to(lba, from, &mut page[to]).map_err(|_| StorageError::Failed)?;
                }
                return Ok(());
            }
            if let Some((begun, beside)) = rest.take() {
                (*page, *spare) = (begun, beside);
                transform.write_slot(piece, host, page, spare);
                return match fresh {
                    true => turn(
                        cipher,
                        CipherDirection::Encrypt,
                        transform.encryption_units_of_page(piece),
                        page,
                        spare,
                    ),
                    false => {
                        turn(cipher, CipherDirection::Encrypt, transform.encryption_units(piece), page, spare)
                    }
                };
            }
            transform.write_slot(piece, host, page, spare);
            turn(cipher, CipherDirection::Encrypt, transform.encryption_units(piece), page, spare)
        };
        match &mut self.backing {
            Backing::None => Ok(()),
            Backing::Memory { memory, spares, .. } => {
                let mut spare = [0; SPARE_BYTES];
                fill(memory.get_mut(slot).map_err(|_| StorageError::Failed)?, &mut spare)?;
                Store::put_beside(spares, slot, uses_spare.then_some(&spare))
            }
            Backing::Image(image) => {
                image.writable()?;
                let (mut page, mut spare) = (ZEROS, [0; SPARE_BYTES]);
                fill(&mut page, &mut spare)?;
                image.write(slot, &page, uses_spare.then_some(&mut spare))
            }
        }
    }

    /// Moves blocks of a slot that is there to the command's buffer, at `range`; false if there is more to be done than
    /// that. They may be decrypted later ([`open_reads`](Store::open_reads)).
    pub(super) fn load_sealed(
        &mut self,
        io: Io,
        transform: &BlockTransform,
        piece: Piece,
        slot: Slot,
        range: Range<usize>,
    ) -> Result<bool, StorageError> {
        if !matches!(self.backing, Backing::Memory { .. })
            || transform.uses_spare()
            || transform.needs_check()
        {
            return Ok(false);
        }
        let wide = cipher(&mut self.keys, transform)?.wide(1 << transform.shift).is_some();
        if wide && !transform.gathered {
            let read = SealedRead { io, transform: *transform, piece, slot, host: range.start };
            if self.postpone(read) {
                return Ok(true);
            }
        }
        let Backing::Memory { memory, .. } = &self.backing else { return Ok(false) };
        let cipher = cipher(&mut self.keys, transform)?;
        let page = memory.get(slot).unwrap_or(&ZEROS);
        let room = target(&mut self.buffers, &mut self.gathered, io, transform);
        let host = room.and_then(|room| room.get_mut(range)).ok_or(StorageError::Failed)?;
        for ((lba, from, _), to) in
            transform.encryption_units(piece).zip(host.chunks_exact_mut(1 << transform.shift))
        {
            cipher.decrypt_to(lba, &page[from], to).map_err(|_| StorageError::Failed)?;
        }
        Ok(true)
    }

    /// Leaves a read for later, with a reference to its slot; false where too many are out.
    fn postpone(&mut self, read: SealedRead) -> bool {
        let Backing::Memory { slots, .. } = &mut self.backing else { return false };
        if self.references >= MOST_REFERENCES || !slots.lend(read.slot) {
            return false;
        }
        self.references += 1;
        self.sealed_reads.push(read);
        if self.sealed_reads.len() == MOST_READS {
            self.open_reads();
        }
        true
    }

    /// Decrypts what was left for later. Nobody sees a difference: it happens before a buffer is given back, before keys
    /// change, and before slots are erased.
    #[inline]
    pub(super) fn open_reads(&mut self) {
        if !self.sealed_reads.is_empty() {
            self.open_all_reads();
        }
    }

    fn open_all_reads(&mut self) {
        let mut reads = std::mem::take(&mut self.sealed_reads);
        for (at, read) in reads.iter().enumerate() {
            self.open_read(read, reads.get(at + 1));
            self.end_reference(read.slot);
        }
        // Its memory is kept.
        reads.clear();
        self.sealed_reads = reads;
    }

    /// Decrypts one read, while the memory of the next one is on its way.
    fn open_read(&mut self, read: &SealedRead, next: Option<&SealedRead>) {
        let Backing::Memory { memory, .. } = &self.backing else { return };
        let bytes = |read: &SealedRead| {
            let page = memory.get(read.slot).unwrap_or(&ZEROS);
            &page[read.piece.page as usize..][..read.piece.len as usize]
        };
        let Some(held) = self.buffers.get_mut(read.io.0 as usize) else { return };
        let len = read.piece.len as usize;
        let Some(room) = held.buffer.as_mut_slice().get_mut(read.host..read.host + len) else { return };
        let size = 1 << read.transform.shift;
        let Some(cipher) = self.keys.cipher(read.transform.nsid).and_then(|cipher| cipher.wide(size)) else {
            // Keys change only when nothing is left, so this does not happen. If it did, nothing old may be sent.
            return room.fill(0);
        };
        let mut next = next.map_or(&[][..], |next| bytes(next).as_chunks().0);
        let units = read.transform.encryption_units(read.piece);
        for ((lba, ..), (from, to)) in
            units.zip(bytes(read).chunks_exact(size).zip(room.chunks_exact_mut(size)))
        {
            cipher.decrypt_to(lba, from, to, next);
            next = next.get(size / size_of::<Line>()..).unwrap_or(&[]);
        }
    }
}
