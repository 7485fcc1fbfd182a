//! Movements of blocks that are encrypted in their slots: each block's data, with its metadata behind it, is one data unit of
//! AES-XTS, and its LBA the tweak. Marks and stamps beside the page stay as they are.
//!
//! Blocks of a page that a write leaves alone stay as they lie there, encrypted; only what was never written is encrypted
//! along, because a read decrypts it.

use super::blocks::{SlotBytes, has_beside, source, target};
use super::{Backing, Store, ZEROS};
use crate::keys::{BlockCipher, Keyring};
use crate::memory::SLOT;
use device::{BlockAction, BlockTransform, SPARE};
use ftl::{Io, Piece, StorageError};
use media::Slot;
use std::ops::Range;

/// Data of the largest block and metadata of a page.
const UNIT: usize = SLOT + 64;

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
    spare: &mut [u8; SPARE],
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
        let mut fill = |page: &mut [u8; SLOT], spare: &mut [u8; SPARE]| {
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
                let mut spare = [0; SPARE];
                fill(memory.get_mut(slot).map_err(|_| StorageError::Failed)?, &mut spare)?;
                Store::put_beside(spares, slot, uses_spare.then_some(&spare))
            }
            Backing::Image(image) => {
                image.writable()?;
                let (mut page, mut spare) = (ZEROS, [0; SPARE]);
                fill(&mut page, &mut spare)?;
                image.write(slot, &page, uses_spare.then_some(&mut spare))
            }
        }
    }

    /// Moves blocks of a slot that is there to the command's buffer, at `range`; false if there is more to be done than
    /// that.
    pub(super) fn load_sealed(
        &mut self,
        io: Io,
        transform: &BlockTransform,
        piece: Piece,
        slot: Slot,
        range: Range<usize>,
    ) -> Result<bool, StorageError> {
        let Backing::Memory { memory, .. } = &self.backing else { return Ok(false) };
        if transform.uses_spare() || transform.needs_check() {
            return Ok(false);
        }
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
}
