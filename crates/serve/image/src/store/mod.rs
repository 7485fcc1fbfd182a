//! The contents of the drive's pages and its persistence, as the core asks for them.

mod blocks;
mod data_buffer;
mod sealed;
mod sealed_read;
#[cfg(test)]
mod tests;

pub use blocks::PageCondition;
pub use data_buffer::{AnswerPart, DataBuffer, LentMemory};

use crate::image::{DiskEvent, Image};
use crate::keys::Keyring;
use crate::memory::{Memory, SLOT};
use crate::slots::{Reuse, Slots};
use device::{BlockError, BlockTransform, Config, SPARE_BYTES};
use ftl::{Io, Piece, Record, StorageError};
use media::{Nanos, Slot};
use nvme::Completion;
use sealed_read::SealedRead;
use std::ops::Range;

/// Where contents are.
#[expect(clippy::large_enum_variant, reason = "a drive has one")]
enum Backing {
    /// Nowhere: the drive is only simulated, reads give zeros.
    None,
    /// In memory.
    Memory { slots: Slots, memory: Memory, spares: Memory<SPARE_BYTES> },
    /// In an image directory.
    Image(Box<Image>),
}

impl Backing {
    /// Contents in memory for a drive with this many pages, buffer included.
    fn memory(pages: u32) -> Self {
        // A write takes its new slot before the old one is given back, and answers keep some.
        let count = pages.saturating_add(4096 + MOST_REFERENCES);
        Backing::Memory {
            slots: Slots::new(count, Reuse::AtOnce),
            memory: Memory::new(count),
            spares: Memory::new(count),
        }
    }

    /// Has memory ready before it is written, `bytes` of it at most; see [`Memory::prefault`].
    fn prefault(mut self, bytes: u64) -> Self {
        if let Backing::Memory { slots, memory, .. } = &mut self {
            memory.prefault(slots.count(), bytes);
        }
        self
    }
}

/// Pages of 4 KiB that a drive can refer to at once: its media and its buffers.
pub fn pages(config: &Config) -> u32 {
    let raw = config.ftl.sets.iter().map(|set| set.properties().raw_pages);
    let pages = raw.sum::<u64>() + config.ftl.buffered_pages();
    // Slots are numbered with 32 bits, and the last number means none.
    u32::try_from(pages).unwrap_or(u32::MAX - 1)
}

/// Fails or refuses operations on the host's disk, on demand of the fault injection command.
#[derive(Clone, Copy)]
struct HostFault {
    /// No room, rather than an error: reads go on.
    full: bool,
    /// Operations left; `None` is until cleared.
    left: Option<u32>,
}

/// What the store has of a command in flight.
#[derive(Debug, Default)]
struct Held {
    buffer: DataBuffer,
    /// Whether it has a transform. Beside the buffer, as every movement asks.
    transformed: bool,
}

/// Implements [`ftl::Storage`]: contents, the hosts' buffers, and the journal.
pub struct Store {
    backing: Backing,
    /// Buffers of the commands in flight, by [`Io`].
    buffers: Vec<Held>,
    /// The transforms of commands, by [`Io`].
    transforms: Vec<Option<BlockTransform>>,
    /// What the last read or comparison of a command met, until it is asked for.
    block_error: Option<(Io, BlockError)>,
    /// What commands gather that copy blocks.
    gathered: Vec<(Io, Vec<u8>)>,
    /// Reads whose blocks are still encrypted.
    sealed_reads: Vec<SealedRead>,
    /// References to slots that answers hold.
    references: u32,
    /// Contents are neither taken nor given and nothing is recorded: preconditioning in virtual time.
    dry: bool,
    fault: Option<HostFault>,
    /// Keys of the drive's namespaces.
    keys: Keyring,
}

/// References to slots that answers may hold at once. Hosts that do not take what they asked for must not use up the memory for
/// writes.
const MOST_REFERENCES: u32 = 4096;
/// Fewer bytes are copied: it is less work.
const WORTH_REFERRING: u32 = 2048;

const ZEROS: [u8; SLOT] = [0; SLOT];

impl Store {
    /// A store that keeps no contents: reads give zeros.
    pub fn without_contents() -> Self {
        Store::new(Backing::None)
    }

    /// A store that neither takes nor gives contents and records nothing: what is written before the drive has its contents.
    pub fn dry() -> Self {
        Store { dry: true, ..Store::without_contents() }
    }

    /// A store in memory, for a drive that can refer to this many [`pages`] at once.
    pub fn in_memory(pages: u32) -> Self {
        Store::new(Backing::memory(pages))
    }

    /// The same with memory that is ready before it is written: `bytes` of it at most.
    pub fn prefaulted(pages: u32, bytes: u64) -> Self {
        Store::new(Backing::memory(pages).prefault(bytes))
    }

    /// A store in an image.
    pub(crate) fn in_image(image: Image) -> Self {
        Store::new(Backing::Image(Box::new(image)))
    }

    fn new(backing: Backing) -> Self {
        Store {
            backing,
            buffers: Vec::new(),
            transforms: Vec::new(),
            block_error: None,
            gathered: Vec::new(),
            sealed_reads: Vec::new(),
            references: 0,
            dry: false,
            fault: None,
            keys: Keyring::default(),
        }
    }

    /// Whether contents are taken and given.
    pub fn keeps(&self) -> bool {
        !self.dry && !matches!(self.backing, Backing::None)
    }

    /// Whether it is a [dry](Store::dry) one.
    pub fn is_dry(&self) -> bool {
        self.dry
    }

    /// The same with the keys of another, or of none yet.
    pub fn with_keys(self, keys: Keyring) -> Self {
        Store { keys, ..self }
    }

    /// Gives the keys to the store that takes over.
    pub fn into_keys(self) -> Keyring {
        self.keys
    }

    /// Lends a command's buffer to the drive.
    #[inline]
    pub fn lend(&mut self, io: Io, buffer: DataBuffer) {
        self.held(io).buffer = buffer;
    }

    /// The place of a command, made if there is none.
    #[inline]
    fn held(&mut self, io: Io) -> &mut Held {
        let index = io.0 as usize;
        if index >= self.buffers.len() {
            self.buffers.resize_with((index + 1).next_power_of_two(), Held::default);
        }
        &mut self.buffers[index]
    }

    /// Puts what the controller answers into a command's buffer, as far as it fits.
    pub fn fill(&mut self, io: Io, bytes: &[u8]) {
        let Some(held) = self.buffers.get_mut(io.0 as usize) else { return };
        let room = held.buffer.as_mut_slice();
        let len = bytes.len().min(room.len());
        room[..len].copy_from_slice(&bytes[..len]);
    }

    /// Takes a command's buffer back.
    #[inline]
    pub fn give_back(&mut self, io: Io) -> DataBuffer {
        self.open_reads();
        let Some(held) = self.buffers.get_mut(io.0 as usize) else { return DataBuffer::None };
        if std::mem::take(&mut held.transformed) && !self.gathered.is_empty() {
            self.gathered.retain(|(of, _)| *of != io);
        }
        std::mem::take(&mut held.buffer)
    }

    /// Ends the references to slots of an answer that is not sent.
    pub fn end_references(&mut self, answer: &mut LentMemory) {
        for part in answer.parts.drain(..) {
            if let AnswerPart::InSlot { slot, .. } = part {
                self.end_reference(slot);
            }
        }
    }

    /// References to slots that answers hold now.
    pub fn references(&self) -> u32 {
        self.references
    }

    /// What an answer has of a slot has been sent.
    #[inline]
    pub fn end_reference(&mut self, slot: Slot) {
        self.references = self.references.saturating_sub(1);
        ftl::Storage::release(self, slot);
    }

    /// The page of a slot that an answer refers to.
    #[inline]
    pub fn page(&self, slot: Slot) -> &[u8] {
        match &self.backing {
            Backing::Memory { memory, .. } => memory.get(slot).unwrap_or(&ZEROS),
            _ => &[],
        }
    }

    /// Refers to the slot in an answer instead of copying from it; false if it must be copied. A slot never changes while somebody
    /// refers to it: an overwrite takes another.
    #[inline]
    fn refer(&mut self, io: Io, piece: Piece, slot: Slot) -> bool {
        let Backing::Memory { slots, memory, .. } = &mut self.backing else { return false };
        let Some(lent) = self.buffers[io.0 as usize].buffer.lent_mut() else { return false };
        if self.references >= MOST_REFERENCES || memory.get(slot).is_none() || !slots.lend(slot) {
            return false;
        }
        self.references += 1;
        lent.parts.push(AnswerPart::InSlot { slot, start: piece.page, len: piece.len });
        true
    }

    /// Arms a fault of the host's disk: `count` operations, 0 until cleared.
    pub fn arm_fault(&mut self, full: bool, count: u32) {
        self.fault = Some(HostFault { full, left: (count > 0).then_some(count) });
    }

    /// Ends injected faults.
    pub fn clear_faults(&mut self) {
        self.fault = None;
    }

    /// Whether an injected fault strikes now.
    fn struck(&mut self, write: bool) -> bool {
        let Some(fault) = &mut self.fault else { return false };
        if fault.full && !write {
            return false;
        }
        if let Some(left) = &mut fault.left {
            *left -= 1;
            if *left == 0 {
                self.fault = None;
            }
        }
        true
    }

    /// The error of an injected fault, if one strikes now.
    #[inline]
    fn strike(&mut self, write: bool) -> Result<(), StorageError> {
        match self.fault {
            None => Ok(()),
            Some(HostFault { full, .. }) => match self.struck(write) {
                false => Ok(()),
                true if full => Err(StorageError::Full),
                true => Err(StorageError::Failed),
            },
        }
    }

    /// Ends a step: when this returns `Ok`, its completions may be delivered.
    #[inline]
    pub fn commit(&mut self, time: Nanos) -> Result<(), StorageError> {
        match &mut self.backing {
            Backing::Image(image) if !self.dry => image.commit(time).map_err(|()| StorageError::Failed),
            _ => Ok(()),
        }
    }

    /// A command must not complete before what was committed is on the host's disk.
    pub fn want_sync(&mut self, io: Io, news: &mut Vec<DiskEvent>) {
        let struck = self.struck(true);
        match &mut self.backing {
            Backing::Image(image) if !struck => image.want_sync(io),
            _ => news.push(DiskEvent::Synced(io, !struck)),
        }
    }

    /// A command must not complete before everything earlier is erased.
    pub fn want_forget(&mut self, io: Io, all: bool, news: &mut Vec<DiskEvent>) {
        self.open_reads();
        let struck = self.struck(true);
        match &mut self.backing {
            Backing::Image(image) if !struck => return image.want_forget(io, all),
            Backing::Memory { slots, memory, spares } if !struck => {
                memory.erase(|slot| slots.is_unreferenced(slot));
                spares.erase(|slot| slots.is_unreferenced(slot));
            }
            _ => {}
        }
        news.push(DiskEvent::Synced(io, !struck));
    }

    /// Starts and ends what is asynchronous.
    pub fn tend(&mut self, time: Nanos, news: &mut Vec<DiskEvent>) {
        let Backing::Image(image) = &mut self.backing else { return };
        image.tend(time, news);
        while let Some(read) = image.missed_reads().ended() {
            image.release(read.slot);
            if let Some(bytes) = &read.bytes
                && let Some(held) = self.buffers.get_mut(read.io.0 as usize)
                && let Some(room) = held.buffer.as_mut_slice().get_mut(read.host)
            {
                room.copy_from_slice(bytes);
            }
            news.extend(read.completion.map(|completion| DiskEvent::Loaded(read.io, completion)));
        }
    }

    /// The drive has ended a command: gives the completion back, unless data is still on its way to the command's buffer.
    /// Then it comes as [`DiskEvent::Loaded`].
    #[inline]
    pub fn hold(&mut self, io: Io, completion: Completion) -> Option<Completion> {
        match &mut self.backing {
            Backing::Image(image) => image.missed_reads().hold(io, completion),
            _ => Some(completion),
        }
    }

    /// Whether data is on its way to a command's buffer.
    pub fn is_loading(&mut self) -> bool {
        self.image().is_some_and(|image| image.missed_reads().is_busy())
    }

    /// Gives up the backing: files are closed, their locks end.
    pub fn close(&mut self) {
        self.open_reads();
        self.backing = Backing::None;
    }

    /// Whether contents are in an image.
    #[inline]
    pub fn has_image(&self) -> bool {
        matches!(self.backing, Backing::Image(_))
    }

    /// The image that contents are in.
    #[inline]
    pub fn image(&mut self) -> Option<&mut Image> {
        match &mut self.backing {
            Backing::Image(image) => Some(image),
            _ => None,
        }
    }

    /// A slot's whole page, into `page`.
    fn fetch(backing: &Backing, slot: Slot, page: &mut [u8; SLOT]) -> Result<(), StorageError> {
        match backing {
            _ if slot == Slot::NONE => page.fill(0),
            Backing::None => page.fill(0),
            Backing::Memory { memory, .. } => page.copy_from_slice(memory.get(slot).unwrap_or(&ZEROS)),
            Backing::Image(image) => image.read(slot, 0, page).map_err(|()| StorageError::Failed)?,
        }
        Ok(())
    }

    /// `bytes` at `start` of a slot's page, and the rest from `base`.
    fn put(
        backing: &mut Backing,
        bytes: &[u8],
        start: u32,
        slot: Slot,
        base: Option<Slot>,
    ) -> Result<(), StorageError> {
        let start = start as usize;
        let end = start + bytes.len();
        let whole = bytes.len() == SLOT;
        let base = base.filter(|&base| base != Slot::NONE);
        // A command that began before blocks of its namespace were marked knows of no marks; the rest of the page keeps them.
        let mut beside = match base.filter(|_| !whole) {
            Some(base) => {
                let older = Store::beside(backing, base)?;
                BlockTransform::splice_spare(older, None, start as u32..end as u32)
            }
            None => None,
        };
        match backing {
            Backing::None => {}
            Backing::Memory { memory, spares, .. } => {
                if !whole {
                    let mut page = [0; SLOT];
                    if let Some(base) = base {
                        page.copy_from_slice(memory.get(base).unwrap_or(&ZEROS));
                    }
                    memory.get_mut(slot).map_err(|_| StorageError::Failed)?.copy_from_slice(&page);
                }
                memory.get_mut(slot).map_err(|_| StorageError::Failed)?[start..end].copy_from_slice(bytes);
                Store::put_beside(spares, slot, beside.as_ref())?;
            }
            Backing::Image(image) => {
                image.writable()?;
                if let Ok(page) = bytes.try_into() {
                    return image.write(slot, page, None);
                }
                let mut page = [0; SLOT];
                if let Some(base) = base {
                    image.read(base, 0, &mut page).map_err(|()| StorageError::Failed)?;
                }
                page[start..end].copy_from_slice(bytes);
                image.write(slot, &page, beside.as_mut())?;
            }
        }
        Ok(())
    }
}

/// Whether a piece lies within a page, so that slicing by it cannot fail.
fn in_page(piece: Piece) -> bool {
    piece.page as usize + piece.len as usize <= SLOT
}

fn of_host(piece: Piece) -> Range<usize> {
    piece.host as usize..piece.host as usize + piece.len as usize
}

/// The host's bytes of a piece.
#[inline]
fn of_piece(buffer: &DataBuffer, piece: Piece) -> Result<&[u8], StorageError> {
    let bytes = buffer.as_slice().get(of_host(piece));
    bytes.filter(|_| in_page(piece)).ok_or(StorageError::Failed)
}

impl ftl::Storage for Store {
    #[inline]
    fn allocate(&mut self) -> Option<Slot> {
        match &mut self.backing {
            _ if self.dry => Some(Slot::NONE),
            Backing::None => Some(Slot::NONE),
            Backing::Memory { slots, memory, .. } => slots.take().inspect(|&slot| memory.taken(slot)),
            Backing::Image(image) => image.allocate(),
        }
    }

    #[inline]
    fn retain(&mut self, slot: Slot) {
        match &mut self.backing {
            Backing::None => {}
            Backing::Memory { slots, .. } => slots.retain(slot),
            Backing::Image(image) => image.retain(slot),
        }
    }

    #[inline]
    fn release(&mut self, slot: Slot) {
        match &mut self.backing {
            Backing::None => {}
            Backing::Memory { slots, memory, .. } => {
                if slots.release(slot) {
                    memory.freed(slot);
                }
            }
            Backing::Image(image) => image.release(slot),
        }
    }

    fn scrub(&mut self, slot: Slot) {
        self.open_reads();
        match &mut self.backing {
            Backing::None => {}
            Backing::Memory { memory, spares, .. } => {
                memory.clear(slot);
                spares.clear(slot);
            }
            Backing::Image(image) => image.outdate(slot),
        }
    }

    fn forget_slots(&mut self) {
        self.open_reads();
        match &mut self.backing {
            Backing::None => {}
            Backing::Memory { slots, .. } => slots.forget(),
            Backing::Image(image) => image.forget_slots(),
        }
    }

    fn slots_are_counted(&mut self) {
        match &mut self.backing {
            Backing::None => {}
            Backing::Memory { slots, memory, .. } => {
                slots.counted();
                memory.recount(|slot| !slots.is_unreferenced(slot));
            }
            Backing::Image(image) => image.slots_are_counted(),
        }
    }

    #[inline]
    fn store(&mut self, io: Io, piece: Piece, slot: Slot, base: Option<Slot>) -> Result<(), StorageError> {
        if self.dry {
            return Ok(());
        }
        self.strike(true)?;
        if matches!(self.backing, Backing::None) {
            return Ok(());
        }
        let held = self.buffers.get(io.0 as usize).ok_or(StorageError::Failed)?;
        if held.transformed {
            return self.put_blocks(io, piece, slot, base, true);
        }
        let bytes = of_piece(&held.buffer, piece)?;
        Store::put(&mut self.backing, bytes, piece.page, slot, base)
    }

    fn store_zeros(
        &mut self,
        io: Io,
        piece: Piece,
        slot: Slot,
        base: Option<Slot>,
    ) -> Result<(), StorageError> {
        if self.dry {
            return Ok(());
        }
        self.strike(true)?;
        if !in_page(piece) {
            return Err(StorageError::Failed);
        }
        if self.buffers.get(io.0 as usize).is_some_and(|held| held.transformed) {
            return self.put_blocks(io, piece, slot, base, false);
        }
        Store::put(&mut self.backing, &ZEROS[..piece.len as usize], piece.page, slot, base)
    }

    #[cold]
    fn splice(
        &mut self,
        slot: Slot,
        from: Slot,
        bytes: Range<u32>,
        base: Option<Slot>,
    ) -> Result<(), StorageError> {
        if self.dry || matches!(self.backing, Backing::None) {
            return Ok(());
        }
        self.strike(true)?;
        self.splice_slots(slot, from, bytes, base)
    }

    #[inline]
    fn load(&mut self, io: Io, piece: Piece, slot: Option<Slot>) -> Result<(), StorageError> {
        if self.dry {
            return Ok(());
        }
        self.strike(false)?;
        let Held { buffer, transformed } = self.buffers.get(io.0 as usize).ok_or(StorageError::Failed)?;
        if *transformed {
            return self.load_blocks(io, piece, slot);
        }
        if matches!(buffer, DataBuffer::Void) {
            return Ok(());
        }
        if matches!(buffer, DataBuffer::Lent(_))
            && piece.len >= WORTH_REFERRING
            && in_page(piece)
            && buffer.holds(of_host(piece).end as u64)
            && slot.is_some_and(|slot| self.refer(io, piece, slot))
        {
            return Ok(());
        }
        let held = self.buffers.get_mut(io.0 as usize).ok_or(StorageError::Failed)?;
        if let Some(lent) = held.buffer.lent_mut() {
            lent.copied(piece.host, piece.len);
        }
        let bytes = held
            .buffer
            .as_mut_slice()
            .get_mut(of_host(piece))
            .filter(|_| in_page(piece))
            .ok_or(StorageError::Failed)?;
        let (start, end) = (piece.page as usize, piece.page as usize + piece.len as usize);
        match (&mut self.backing, slot.filter(|&s| s != Slot::NONE)) {
            (Backing::Memory { memory, .. }, Some(slot)) => {
                bytes.copy_from_slice(&memory.get(slot).unwrap_or(&ZEROS)[start..end]);
            }
            (Backing::Image(image), Some(slot)) => {
                image.load(io, of_host(piece), slot, piece.page, bytes).map_err(|()| StorageError::Failed)?;
            }
            (Backing::None, _) | (_, None) => bytes.fill(0),
        }
        Ok(())
    }

    fn verify(&mut self, io: Io, slot: Slot) -> Result<(), StorageError> {
        if self.dry || slot == Slot::NONE || !self.has_image() {
            return Ok(());
        }
        self.strike(false)?;
        self.image().map_or(Ok(()), |image| image.verify(io, slot).map_err(|()| StorageError::Failed))
    }

    fn compare(&mut self, io: Io, piece: Piece, slot: Option<Slot>) -> Result<bool, StorageError> {
        if self.dry || matches!(self.backing, Backing::None) {
            return Ok(true);
        }
        self.strike(false)?;
        let held = self.buffers.get(io.0 as usize).ok_or(StorageError::Failed)?;
        if held.transformed {
            return self.compare_blocks(io, piece, slot);
        }
        let mut page = ZEROS;
        Store::fetch(&self.backing, slot.unwrap_or(Slot::NONE), &mut page)?;
        let bytes = of_piece(&held.buffer, piece)?;
        Ok(bytes == &page[piece.page as usize..piece.page as usize + piece.len as usize])
    }

    #[inline]
    fn record(&mut self, record: Record<'_>) {
        if self.dry {
            return;
        }
        if let Backing::Image(image) = &mut self.backing {
            image.record(&record);
        }
    }

    fn keeps_records(&self) -> bool {
        !self.dry && self.has_image()
    }
}
