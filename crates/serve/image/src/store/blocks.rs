//! Movements of blocks that are more than plain bytes of a page: with metadata, protection information, or marks.

use super::{Backing, DataBuffer, Held, Store, WORTH_REFERRING, ZEROS, in_page};
use crate::image::Unreadable;
use crate::memory::{Memory, SLOT};
use device::{
    BlockAction, BlockError, BlockTransform, Contents, DriveKeyId, HostDiskFault, SPARE_BYTES, WrappedKey,
};
use ftl::{Io, Piece, StorageError};
use media::Slot;
use std::ops::Range;

/// What a slot holds: its page, and the bytes beside it.
pub(super) type SlotBytes = ([u8; SLOT], [u8; SPARE_BYTES]);

/// What a page of a namespace is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageCondition {
    /// Never written, or deallocated.
    Nothing,
    /// As it was written.
    Whole,
    /// There, with nothing to check it by: from an image of an earlier version.
    Unchecked,
    /// Not as it was written, or the host's disk does not give it.
    Damaged,
    /// The drive itself had lost it, to a fault of its media.
    Lost,
}

/// Where a command's blocks come from.
pub(super) fn source<'a>(
    buffers: &'a [Held],
    gathered: &'a [(Io, Vec<u8>)],
    io: Io,
    transform: &BlockTransform,
) -> &'a [u8] {
    match transform.gathered {
        true => gathered.iter().find(|(of, _)| *of == io).map_or(&[], |(_, bytes)| bytes),
        false => buffers.get(io.0 as usize).map_or(&[], |held| held.buffer.as_slice()),
    }
}

/// Where a command's blocks go.
pub(super) fn target<'a>(
    buffers: &'a mut [Held],
    gathered: &'a mut [(Io, Vec<u8>)],
    io: Io,
    transform: &BlockTransform,
) -> Option<&'a mut [u8]> {
    match transform.gathered {
        true => gathered.iter_mut().find(|(of, _)| *of == io).map(|(_, bytes)| &mut bytes[..]),
        false => buffers.get_mut(io.0 as usize).map(|held| held.buffer.as_mut_slice()),
    }
}

/// Whether something lies beside a page.
pub(super) fn has_beside((_, spare): &SlotBytes) -> bool {
    *spare != [0; SPARE_BYTES]
}

impl Contents for Store {
    fn must_sync(&self) -> bool {
        // Memory is as durable as it gets; a fault that is armed may strike.
        matches!(self.backing, Backing::Image(_)) || self.fault.is_some()
    }

    fn host_disk_fault(&self) -> Option<HostDiskFault> {
        let fault = self.fault?;
        Some(HostDiskFault { full: fault.full, remaining: fault.left.unwrap_or(0) })
    }

    fn set_transform(&mut self, io: Io, transform: &BlockTransform) -> Result<(), BlockError> {
        self.held(io).transformed = true;
        let checked = match transform.action {
            BlockAction::Write | BlockAction::Compare => {
                transform.check_host(source(&self.buffers, &self.gathered, io, transform))
            }
            BlockAction::Read | BlockAction::Verify | BlockAction::Zeroes | BlockAction::Mark => Ok(()),
        };
        let index = io.0 as usize;
        if index >= self.transforms.len() {
            self.transforms.resize(self.buffers.len(), None);
        }
        self.transforms[index] = Some(*transform);
        checked
    }

    fn gather(&mut self, io: Io, bytes: u32) {
        self.held(io).transformed = true;
        self.gathered.push((io, vec![0; bytes as usize]));
    }

    fn marks(&self, slot: Slot, stamp: u32, always: bool) -> u8 {
        match self.spare(slot) {
            Ok(spare) => BlockTransform::marks(&spare, stamp, always),
            // Where every page has something beside it, none of its blocks can be read without that.
            Err(_) if always => u8::MAX,
            Err(_) => 0,
        }
    }

    fn block_error(&mut self, io: Io) -> Option<BlockError> {
        self.block_error.take().filter(|(of, _)| *of == io).map(|(_, block_error)| block_error)
    }

    fn drive_key(&self) -> Option<DriveKeyId> {
        self.keys.drive_key()
    }

    fn make_key(&mut self, nsid: u32, uuid: &[u8; 16]) -> Result<Option<WrappedKey>, StorageError> {
        self.open_reads();
        self.keys.make(nsid, uuid).map_err(|error| {
            tracing::error!("no key can be made for namespace {nsid}: {error}");
            StorageError::Failed
        })
    }

    fn open_key(&mut self, nsid: u32, uuid: &[u8; 16], key: &WrappedKey) -> bool {
        self.open_reads();
        self.keys.open(nsid, uuid, key)
    }

    fn rewrap_key(
        &mut self,
        nsid: u32,
        uuids: [&[u8; 16]; 2],
        key: &WrappedKey,
    ) -> Result<Option<WrappedKey>, StorageError> {
        self.open_reads();
        self.keys.rewrap(nsid, uuids, key).map_err(|error| {
            tracing::error!("the key of namespace {nsid} cannot be wrapped: {error}");
            StorageError::Failed
        })
    }

    fn drop_key(&mut self, nsid: u32) {
        self.open_reads();
        self.keys.drop_key(nsid);
    }
}

impl Store {
    fn transform(&self, io: Io) -> Result<BlockTransform, StorageError> {
        self.transforms.get(io.0 as usize).copied().flatten().ok_or(StorageError::Failed)
    }

    /// What a slot holds beside its page.
    fn spare(&self, slot: Slot) -> Result<[u8; SPARE_BYTES], Unreadable> {
        let mut spare = [0; SPARE_BYTES];
        match &self.backing {
            _ if slot == Slot::NONE => {}
            Backing::None => {}
            Backing::Memory { spares, .. } => spare = spares.get(slot).copied().unwrap_or(spare),
            Backing::Image(image) => image.read_spare(slot, &mut spare)?,
        }
        Ok(spare)
    }

    /// Looks at a whole slot of an image without a command: what it is, and which of its blocks are marked. With `opens`, blocks that are
    /// encrypted are decrypted.
    pub(crate) fn look(
        &mut self,
        transform: &BlockTransform,
        opens: bool,
        slot: Slot,
        page: &mut [u8; SLOT],
        beside: &mut [u8; SPARE_BYTES],
    ) -> (PageCondition, u8) {
        let Backing::Image(image) = &self.backing else { return (PageCondition::Damaged, 0) };
        let Ok(checked) = image.look(slot, page) else { return (PageCondition::Damaged, 0) };
        beside.fill(0);
        let mut marks = 0;
        if transform.uses_spare() {
            let always = transform.metadata > 0;
            match image.read_spare(slot, beside) {
                Ok(()) => marks = BlockTransform::marks(beside, transform.stamp, always),
                Err(Unreadable::Other) if !always => {}
                Err(_) => return (PageCondition::Damaged, 0),
            }
        }
        if transform.encrypted && opens {
            let mut whole = (*page, *beside);
            let all = Piece { host: 0, page: 0, len: SLOT as u32 };
            if self.open(transform, all, &mut whole).is_err() {
                return (PageCondition::Damaged, 0);
            }
            (*page, *beside) = whole;
        }
        (if checked { PageCondition::Whole } else { PageCondition::Unchecked }, marks)
    }

    /// What a slot holds as it lies there; what a page holds that was never written.
    fn whole(&self, transform: &BlockTransform, slot: Option<Slot>) -> Result<SlotBytes, StorageError> {
        let (mut page, mut spare) = (ZEROS, [0; SPARE_BYTES]);
        match (&self.backing, slot.filter(|&slot| slot != Slot::NONE)) {
            (Backing::None, _) | (_, None) => transform.fill_unwritten(&mut page, &mut spare),
            (Backing::Memory { memory, spares, .. }, Some(slot)) => {
                page.copy_from_slice(memory.get(slot).unwrap_or(&ZEROS));
                if transform.uses_spare() {
                    spare.copy_from_slice(spares.get(slot).unwrap_or(&[0; SPARE_BYTES]));
                }
            }
            (Backing::Image(image), Some(slot)) => {
                image.read(slot, 0, &mut page).map_err(|()| StorageError::Failed)?;
                if transform.uses_spare() {
                    match image.read_spare(slot, &mut spare) {
                        Ok(()) => {}
                        // Nothing was written beside this page.
                        Err(Unreadable::Other) if transform.metadata == 0 => spare = [0; SPARE_BYTES],
                        Err(_) => return Err(StorageError::Failed),
                    }
                }
            }
        }
        Ok((page, spare))
    }

    /// What the last write of a slot put beside its page, if it put anything there.
    pub(super) fn beside(backing: &Backing, slot: Slot) -> Result<Option<[u8; SPARE_BYTES]>, StorageError> {
        if slot == Slot::NONE {
            return Ok(None);
        }
        match backing {
            Backing::None => Ok(None),
            Backing::Memory { spares, .. } => {
                Ok(spares.get(slot).copied().filter(|spare| *spare != [0; SPARE_BYTES]))
            }
            Backing::Image(image) if !image.is_marked(slot) => Ok(None),
            Backing::Image(image) => {
                let mut spare = [0; SPARE_BYTES];
                match image.read_spare(slot, &mut spare) {
                    Ok(()) => Ok(Some(spare)),
                    Err(Unreadable::Other) => Ok(None),
                    Err(Unreadable::Failed) => Err(StorageError::Failed),
                }
            }
        }
    }

    /// Puts something beside a slot's page in memory, or takes away what an earlier page left there.
    #[inline]
    pub(super) fn put_beside(
        spares: &mut Memory<SPARE_BYTES>,
        slot: Slot,
        beside: Option<&[u8; SPARE_BYTES]>,
    ) -> Result<(), StorageError> {
        let beside = match beside {
            Some(beside) => beside,
            None if spares.get(slot).is_some() => &[0; SPARE_BYTES],
            None => return Ok(()),
        };
        *spares.get_mut(slot).map_err(|_| StorageError::Failed)? = *beside;
        Ok(())
    }

    /// A part of one slot over another, as they lie there. Blocks that are encrypted are so with the same key and their LBA, in both.
    ///
    /// Blocks that nobody wrote are zeroes, and on a drive with keys they are encrypted, too. Without a base only `from` has them so: then all of
    /// it is taken. What else it has was accepted before, so a power cut may leave it.
    pub(super) fn splice_slots(
        &mut self,
        slot: Slot,
        from: Slot,
        bytes: Range<u32>,
        base: Option<Slot>,
    ) -> Result<(), StorageError> {
        let base = match base.filter(|base| *base != Slot::NONE) {
            None if self.keys.drive_key().is_some() => Some(from),
            base => base,
        };
        let (mut page, mut newer) = (ZEROS, ZEROS);
        Store::fetch(&self.backing, base.unwrap_or(Slot::NONE), &mut page)?;
        Store::fetch(&self.backing, from, &mut newer)?;
        let range = bytes.start as usize..bytes.end as usize;
        let part = newer.get(range.clone()).ok_or(StorageError::Failed)?;
        page[range].copy_from_slice(part);
        let older = base.map_or(Ok(None), |base| Store::beside(&self.backing, base))?;
        let newer = Store::beside(&self.backing, from)?;
        let mut beside = BlockTransform::splice_spare(older, newer, bytes);
        match &mut self.backing {
            Backing::None => Ok(()),
            Backing::Memory { memory, spares, .. } => {
                *memory.get_mut(slot).map_err(|_| StorageError::Failed)? = page;
                Store::put_beside(spares, slot, beside.as_ref())
            }
            Backing::Image(image) => {
                image.writable()?;
                image.write(slot, &page, beside.as_mut())
            }
        }
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
        let transform = self.transform(io)?;
        if !in_page(piece) {
            return Err(StorageError::Failed);
        }
        if transform.encrypted {
            return self.put_sealed(io, &transform, piece, slot, base, from_host);
        }
        let whole = piece.len as usize == SLOT;
        let rest = if whole { None } else { Some(self.rest(&transform, base)?) };
        let uses_spare = transform.uses_spare() || rest.as_ref().is_some_and(has_beside);
        let host: &[u8] = match from_host {
            true => source(&self.buffers, &self.gathered, io, &transform)
                .get(transform.host_range(piece))
                .ok_or(StorageError::Failed)?,
            false => &[],
        };
        match &mut self.backing {
            Backing::None => Ok(()),
            Backing::Memory { memory, spares, .. } => {
                let page = memory.get_mut(slot).map_err(|_| StorageError::Failed)?;
                let mut spare = [0; SPARE_BYTES];
                if let Some((rest, beside)) = rest {
                    (*page, spare) = (rest, beside);
                }
                transform.write_slot(piece, host, page, &mut spare);
                Store::put_beside(spares, slot, uses_spare.then_some(&spare))
            }
            Backing::Image(image) => {
                image.writable()?;
                let (mut page, mut spare) = rest.unwrap_or((ZEROS, [0; SPARE_BYTES]));
                transform.write_slot(piece, host, &mut page, &mut spare);
                image.write(slot, &page, uses_spare.then_some(&mut spare))
            }
        }
    }

    /// What a slot that is written in part begins with.
    pub(super) fn rest(
        &self,
        transform: &BlockTransform,
        base: Option<Slot>,
    ) -> Result<SlotBytes, StorageError> {
        let (page, mut spare) = self.whole(transform, base)?;
        if !transform.uses_spare()
            && let Some(beside) = base.map_or(Ok(None), |base| Store::beside(&self.backing, base))?
        {
            // Blocks of the namespace were marked after the command began.
            spare = beside;
        }
        transform.claim_spare(&mut spare);
        Ok((page, spare))
    }

    /// Notes why blocks cannot be read.
    #[cold]
    fn spoil(&mut self, io: Io, block_error: BlockError) -> StorageError {
        self.block_error = Some((io, block_error));
        StorageError::Failed
    }

    /// Checks blocks of a slot, and moves them to the command's buffer if it reads.
    pub(super) fn load_blocks(
        &mut self,
        io: Io,
        piece: Piece,
        slot: Option<Slot>,
    ) -> Result<(), StorageError> {
        let transform = self.transform(io)?;
        if !in_page(piece) {
            return Err(StorageError::Failed);
        }
        let slot = slot.filter(|&slot| slot != Slot::NONE);
        let buffer = &self.buffers.get(io.0 as usize).ok_or(StorageError::Failed)?.buffer;
        let void = !transform.gathered && matches!(buffer, DataBuffer::Void);
        let wanted = transform.action == BlockAction::Read && !void;
        let lent = wanted && !transform.gathered && matches!(buffer, DataBuffer::Lent(_));
        let range = transform.host_range(piece);
        if wanted && !transform.gathered && !buffer.holds(range.end as u64) {
            return Err(StorageError::Failed);
        }
        // What is in memory is looked at where it lies, and referred to if that can be.
        if let (Backing::Memory { memory, spares, .. }, Some(slot), false) =
            (&self.backing, slot, transform.encrypted)
        {
            let page = memory.get(slot).unwrap_or(&ZEROS);
            let spare = match transform.uses_spare() {
                true => spares.get(slot).unwrap_or(&[0; SPARE_BYTES]),
                false => &[0; SPARE_BYTES],
            };
            if transform.needs_check()
                && let Err(block_error) = transform.check_slot(piece, page, spare)
            {
                return Err(self.spoil(io, block_error));
            }
            if !wanted
                || (lent
                    && transform.host_metadata == 0
                    && piece.len >= WORTH_REFERRING
                    && self.refer(io, piece, slot))
            {
                return Ok(());
            }
        }
        if lent && let Some(lent) = self.buffers[io.0 as usize].buffer.lent_mut() {
            lent.copied(range.start as u32, range.len() as u32);
        }
        let sealed = slot.filter(|_| transform.encrypted);
        if let Some(slot) = sealed.filter(|_| wanted)
            && self.load_sealed(io, &transform, piece, slot, range.clone())?
        {
            return Ok(());
        }
        let memory = slot.filter(|_| sealed.is_none()).and_then(|slot| match &self.backing {
            Backing::Memory { memory, spares, .. } => {
                Some((memory.get(slot).unwrap_or(&ZEROS), spares.get(slot).unwrap_or(&[0; SPARE_BYTES])))
            }
            _ => None,
        });
        if let Some((page, spare)) = memory {
            let room = target(&mut self.buffers, &mut self.gathered, io, &transform);
            let host = room.and_then(|room| room.get_mut(range)).ok_or(StorageError::Failed)?;
            transform.read_slot(piece, page, spare, host);
            return Ok(());
        }
        let mut whole = self.whole(&transform, slot)?;
        if sealed.is_some() {
            self.open(&transform, piece, &mut whole)?;
        }
        let (page, spare) = whole;
        if transform.needs_check()
            && let Err(block_error) = transform.check_slot(piece, &page, &spare)
        {
            return Err(self.spoil(io, block_error));
        }
        if wanted {
            let room = target(&mut self.buffers, &mut self.gathered, io, &transform);
            let host = room.and_then(|room| room.get_mut(range)).ok_or(StorageError::Failed)?;
            transform.read_slot(piece, &page, &spare, host);
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
        let transform = self.transform(io)?;
        if !in_page(piece) {
            return Err(StorageError::Failed);
        }
        let mut whole = self.whole(&transform, slot)?;
        if transform.encrypted && slot.is_some_and(|slot| slot != Slot::NONE) {
            self.open(&transform, piece, &mut whole)?;
        }
        let (page, spare) = whole;
        if transform.needs_check()
            && let Err(block_error) = transform.check_slot(piece, &page, &spare)
        {
            return Err(self.spoil(io, block_error));
        }
        let held = self.buffers.get(io.0 as usize).ok_or(StorageError::Failed)?;
        let host = held.buffer.as_slice().get(transform.host_range(piece)).ok_or(StorageError::Failed)?;
        Ok(transform.equals_host(piece, &page, &spare, host))
    }
}
