//! The contents of the drive's pages and its persistence, as the core asks for them.

mod blocks;
mod sealed;

use crate::buffer::Buffer;
use crate::image::{Image, News};
use crate::keys::Keyring;
use crate::memory::{Memory, SLOT};
use crate::slots::{Reuse, Slots};
use device::{Blemish, SPARE, Treatment};
use fabric::Part;
use ftl::{Io, Piece, Record, StorageError};
use media::{Nanos, Slot};
use nvme::Completion;

/// Where contents are.
#[expect(clippy::large_enum_variant, reason = "a drive has one")]
pub(crate) enum Backing {
    /// Nowhere: the drive is only simulated, reads give zeros.
    None,
    /// In memory.
    Memory { slots: Slots, memory: Memory, spares: Memory<SPARE> },
    /// In an image directory.
    Image(Box<Image>),
}

impl Backing {
    /// Contents in memory for a drive with this many pages, buffer included.
    pub(crate) fn memory(pages: u32) -> Self {
        // A write takes its new slot before the old one is given back, and some are kept while they are sent.
        let count = pages.saturating_add(4096 + MOST_LOANS);
        Backing::Memory {
            slots: Slots::new(count, Reuse::AtOnce),
            memory: Memory::new(count),
            spares: Memory::new(count),
        }
    }

    /// Has memory ready before it is written, `bytes` of it at most; see [`Memory::prefault`].
    pub(crate) fn prefault(mut self, bytes: u64) -> Self {
        if let Backing::Memory { slots, memory, .. } = &mut self {
            memory.prefault(slots.count(), bytes);
        }
        self
    }
}

/// Fails or refuses operations on the host's disk, on demand of the fault injection command.
#[derive(Clone, Copy)]
struct HostFault {
    /// No room, rather than an error: reads go on.
    full: bool,
    /// Operations left; `None` is until cleared.
    left: Option<u32>,
}

/// A command's buffer while the drive has it.
#[derive(Debug, Default)]
pub(crate) enum Lent {
    /// None.
    #[default]
    Nothing,
    /// Of a host in this process.
    Own(Buffer),
    /// Of a connection.
    Wire(fabric::Buffer),
    /// Room without bytes: nobody looks at the data.
    Void,
}

impl Lent {
    /// Whether a transfer fits.
    #[inline]
    pub(crate) fn holds(&self, bytes: u64) -> bool {
        matches!(self, Lent::Void) || bytes <= self.as_slice().len() as u64
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Lent::Nothing | Lent::Void => &[],
            Lent::Own(buffer) => buffer.as_slice(),
            Lent::Wire(buffer) => buffer,
        }
    }

    #[inline]
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Lent::Nothing | Lent::Void => &mut [],
            Lent::Own(buffer) => buffer.as_mut_slice(),
            Lent::Wire(buffer) => buffer,
        }
    }

    /// The buffer of a host in this process.
    pub(crate) fn into_own(self) -> Buffer {
        match self {
            Lent::Own(buffer) => buffer,
            Lent::Nothing | Lent::Void | Lent::Wire(_) => Buffer::empty(),
        }
    }
}

impl From<Buffer> for Lent {
    fn from(buffer: Buffer) -> Self {
        Lent::Own(buffer)
    }
}

/// What the store has of a command in flight.
#[derive(Debug, Default)]
struct Held {
    buffer: Lent,
    /// Whether it was begun with a treatment. Beside the buffer, as every movement asks.
    treated: bool,
}

/// Implements [`ftl::Storage`]: contents, the hosts' buffers, and the journal.
pub(crate) struct Store {
    pub(crate) backing: Backing,
    /// Buffers of the commands in flight, by [`Io`].
    buffers: Vec<Held>,
    /// How the blocks of commands are treated that were begun, by [`Io`].
    treatments: Vec<Option<Treatment>>,
    /// What the last read or comparison of a command met, until it is asked for.
    blemish: Option<(Io, Blemish)>,
    /// What commands gather that copy blocks.
    gathered: Vec<(Io, Vec<u8>)>,
    /// Where the data that a connection's command read is, by [`Io`]: in slots that are lent, rather than copied, and
    /// in its buffer. Empty when all is in the buffer.
    parts: Vec<Vec<Part>>,
    /// Slots that are lent.
    loans: u32,
    /// Contents are neither taken nor given and nothing is recorded: preconditioning in virtual time.
    pub(crate) dry: bool,
    fault: Option<HostFault>,
    /// Keys of the drive's namespaces.
    keys: Keyring,
}

/// Slots that may be lent at once. Hosts that do not take what they asked for must not use up the memory for writes.
const MOST_LOANS: u32 = 4096;
/// Fewer bytes are copied: it is less work.
const WORTH_LENDING: u32 = 2048;

const ZEROS: [u8; SLOT] = [0; SLOT];

impl Store {
    pub(crate) fn new(backing: Backing) -> Self {
        Store {
            backing,
            buffers: Vec::new(),
            treatments: Vec::new(),
            blemish: None,
            gathered: Vec::new(),
            parts: Vec::new(),
            loans: 0,
            dry: false,
            fault: None,
            keys: Keyring::default(),
        }
    }

    /// Whether contents are taken and given.
    pub(crate) fn keeps(&self) -> bool {
        !self.dry && !matches!(self.backing, Backing::None)
    }

    /// The same with the keys of another, or of none yet.
    pub(crate) fn with_keys(self, keys: Keyring) -> Self {
        Store { keys, ..self }
    }

    /// Gives the keys to the store that takes over.
    pub(crate) fn into_keys(self) -> Keyring {
        self.keys
    }

    /// Lends a command's buffer to the drive.
    #[inline]
    pub(crate) fn lend(&mut self, io: Io, buffer: Lent) {
        self.held(io).buffer = buffer;
    }

    /// The place of a command, made if there is none.
    #[inline]
    fn held(&mut self, io: Io) -> &mut Held {
        let index = io.0 as usize;
        if index >= self.buffers.len() {
            self.buffers.resize_with((index + 1).next_power_of_two(), Held::default);
            self.parts.resize_with(self.buffers.len(), Vec::new);
        }
        &mut self.buffers[index]
    }

    /// The buffer of a command.
    #[inline]
    pub(crate) fn buffer(&mut self, io: Io) -> Option<&mut Lent> {
        self.buffers.get_mut(io.0 as usize).map(|held| &mut held.buffer)
    }

    /// Takes a command's buffer back.
    #[inline]
    pub(crate) fn give_back(&mut self, io: Io) -> Lent {
        let Some(held) = self.buffers.get_mut(io.0 as usize) else { return Lent::Nothing };
        if std::mem::take(&mut held.treated) && !self.gathered.is_empty() {
            self.gathered.retain(|(of, _)| *of != io);
        }
        std::mem::take(&mut held.buffer)
    }

    /// Takes the list of the parts that a command read, with their loans.
    #[inline]
    pub(crate) fn take_parts(&mut self, io: Io) -> Vec<Part> {
        self.parts.get_mut(io.0 as usize).map(std::mem::take).unwrap_or_default()
    }

    /// Gives the memory of a list back that [`take_parts`](Store::take_parts) took.
    #[inline]
    pub(crate) fn keep_parts(&mut self, io: Io, mut parts: Vec<Part>) {
        if let Some(place) = self.parts.get_mut(io.0 as usize) {
            parts.clear();
            *place = parts;
        }
    }

    /// Ends the loans of parts that nobody gets.
    pub(crate) fn end_loans(&mut self, parts: &[Part]) {
        for part in parts {
            if let Part::Away { token, .. } = *part {
                self.end_loan(token);
            }
        }
    }

    /// Slots that are lent now.
    pub(crate) fn loans(&self) -> u32 {
        self.loans
    }

    /// What was lent has been sent.
    #[inline]
    pub(crate) fn end_loan(&mut self, token: u32) {
        self.loans = self.loans.saturating_sub(1);
        ftl::Storage::release(self, Slot(token));
    }

    /// The memory of a slot that is lent.
    #[inline]
    pub(crate) fn lent(&self, token: u32) -> &[u8] {
        match &self.backing {
            Backing::Memory { memory, .. } => memory.get(Slot(token)).unwrap_or(&ZEROS),
            _ => &[],
        }
    }

    /// Lends what a connection's command reads instead of copying it; false if it must be copied. A slot never changes
    /// while somebody refers to it: an overwrite takes another.
    #[inline]
    fn lend_slot(&mut self, io: Io, piece: Piece, slot: Slot) -> bool {
        let Backing::Memory { slots, memory, .. } = &mut self.backing else { return false };
        if self.loans >= MOST_LOANS || memory.get(slot).is_none() || !slots.lend(slot) {
            return false;
        }
        self.loans += 1;
        let part = Part::Away { token: slot.0, start: piece.page, len: piece.len };
        self.parts[io.0 as usize].push(part);
        true
    }

    /// Notes what a connection's command has in its buffer, between what is lent.
    #[inline]
    fn note_copied(&mut self, io: Io, piece: Piece) {
        let parts = &mut self.parts[io.0 as usize];
        match parts.last_mut() {
            Some(Part::Own { start, len }) if *start + *len == piece.host => *len += piece.len,
            _ => parts.push(Part::Own { start: piece.host, len: piece.len }),
        }
    }

    /// Arms a fault of the host's disk: `count` operations, 0 until cleared.
    pub(crate) fn arm_fault(&mut self, full: bool, count: u32) {
        self.fault = Some(HostFault { full, left: (count > 0).then_some(count) });
    }

    /// Ends injected faults; whether there were any.
    pub(crate) fn clear_faults(&mut self) -> bool {
        self.fault.take().is_some()
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
    pub(crate) fn commit(&mut self, time: Nanos) -> Result<(), StorageError> {
        match &mut self.backing {
            Backing::Image(image) if !self.dry => image.commit(time).map_err(|()| StorageError::Failed),
            _ => Ok(()),
        }
    }

    /// A command must not complete before what was committed is on the host's disk.
    pub(crate) fn want_sync(&mut self, io: Io, news: &mut Vec<News>) {
        let struck = self.struck(true);
        match &mut self.backing {
            Backing::Image(image) if !struck => image.want_sync(io),
            _ => news.push(News::Synced(io, !struck)),
        }
    }

    /// A command must not complete before nothing of what was is left.
    pub(crate) fn want_forget(&mut self, io: Io, all: bool, news: &mut Vec<News>) {
        let struck = self.struck(true);
        match &mut self.backing {
            Backing::Image(image) if !struck => return image.want_forget(io, all),
            Backing::Memory { slots, memory, spares } if !struck => {
                memory.erase(|slot| slots.is_unreferenced(slot));
                spares.erase(|slot| slots.is_unreferenced(slot));
            }
            _ => {}
        }
        news.push(News::Synced(io, !struck));
    }

    /// Starts and ends what is asynchronous.
    pub(crate) fn tend(&mut self, time: Nanos, news: &mut Vec<News>) {
        let Backing::Image(image) = &mut self.backing else { return };
        image.tend(time, news);
        while let Some(read) = image.cold().ended() {
            image.release(read.slot);
            if let Some(bytes) = &read.bytes
                && let Some(held) = self.buffers.get_mut(read.io.0 as usize)
                && let Some(room) = held.buffer.as_mut_slice().get_mut(read.host)
            {
                room.copy_from_slice(bytes);
            }
            news.extend(read.completion.map(|completion| News::Loaded(read.io, completion)));
        }
    }

    /// The drive has ended a command: gives the completion back, unless data is still on its way to the command's buffer.
    /// Then it comes as [`News::Loaded`].
    #[inline]
    pub(crate) fn hold(&mut self, io: Io, completion: Completion) -> Option<Completion> {
        match &mut self.backing {
            Backing::Image(image) => image.cold().hold(io, completion),
            _ => Some(completion),
        }
    }

    /// Whether data is on its way to a command's buffer.
    pub(crate) fn is_loading(&mut self) -> bool {
        self.image().is_some_and(|image| image.cold().is_busy())
    }

    /// Gives up the backing: files are closed, their locks end.
    pub(crate) fn close(&mut self) {
        self.backing = Backing::None;
    }

    #[inline]
    pub(crate) fn has_image(&self) -> bool {
        matches!(self.backing, Backing::Image(_))
    }

    #[inline]
    pub(crate) fn image(&mut self) -> Option<&mut Image> {
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
        match backing {
            Backing::None => {}
            Backing::Memory { memory, .. } => {
                if !whole {
                    let mut page = [0; SLOT];
                    if let Some(base) = base.filter(|&b| b != Slot::NONE) {
                        page.copy_from_slice(memory.get(base).unwrap_or(&ZEROS));
                    }
                    memory.get_mut(slot).map_err(|_| StorageError::Failed)?.copy_from_slice(&page);
                }
                memory.get_mut(slot).map_err(|_| StorageError::Failed)?[start..end].copy_from_slice(bytes);
            }
            Backing::Image(image) => {
                image.writable()?;
                if let Ok(page) = bytes.try_into() {
                    return image.write(slot, page, None);
                }
                let mut page = [0; SLOT];
                if let Some(base) = base.filter(|&b| b != Slot::NONE) {
                    image.read(base, 0, &mut page).map_err(|()| StorageError::Failed)?;
                }
                page[start..end].copy_from_slice(bytes);
                image.write(slot, &page, None)?;
            }
        }
        Ok(())
    }
}

/// Whether a piece lies within a page, so that slicing by it cannot fail.
fn in_page(piece: Piece) -> bool {
    piece.page as usize + piece.len as usize <= SLOT
}

fn of_host(piece: Piece) -> std::ops::Range<usize> {
    piece.host as usize..piece.host as usize + piece.len as usize
}

/// The host's bytes of a piece.
#[inline]
fn of_piece(buffer: &Lent, piece: Piece) -> Result<&[u8], StorageError> {
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
        if held.treated {
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
        if self.buffers.get(io.0 as usize).is_some_and(|held| held.treated) {
            return self.put_blocks(io, piece, slot, base, false);
        }
        Store::put(&mut self.backing, &ZEROS[..piece.len as usize], piece.page, slot, base)
    }

    #[inline]
    fn load(&mut self, io: Io, piece: Piece, slot: Option<Slot>) -> Result<(), StorageError> {
        if self.dry {
            return Ok(());
        }
        self.strike(false)?;
        let Held { buffer, treated } = self.buffers.get(io.0 as usize).ok_or(StorageError::Failed)?;
        if *treated {
            return self.load_blocks(io, piece, slot);
        }
        if matches!(buffer, Lent::Void) {
            return Ok(());
        }
        let wire = matches!(buffer, Lent::Wire(_));
        if wire && piece.len >= WORTH_LENDING && in_page(piece) && buffer.holds(of_host(piece).end as u64) {
            let lent = slot.is_some_and(|slot| self.lend_slot(io, piece, slot));
            if lent {
                return Ok(());
            }
        }
        if wire {
            self.note_copied(io, piece);
        }
        let held = self.buffers.get_mut(io.0 as usize).ok_or(StorageError::Failed)?;
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
        if held.treated {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftl::Storage;

    #[test]
    fn pages_are_put_together_from_pieces() {
        let mut store = Store::new(Backing::memory(8));
        let io = Io(3);
        store.lend(io, Buffer::from(vec![1; 4096]).into());
        let a = store.allocate().unwrap();
        let all = Piece { host: 0, page: 0, len: 4096 };
        store.store(io, all, a, None).unwrap();
        store.lend(io, Buffer::from(vec![2; 512]).into());
        let b = store.allocate().unwrap();
        store.store(io, Piece { host: 0, page: 1024, len: 512 }, b, Some(a)).unwrap();
        store.lend(io, Buffer::zeroed(4096).into());
        store.load(io, all, Some(b)).unwrap();
        let got = store.give_back(io);
        assert!(got.as_slice()[..1024].iter().all(|&x| x == 1));
        assert!(got.as_slice()[1024..1536].iter().all(|&x| x == 2));
        assert!(got.as_slice()[1536..].iter().all(|&x| x == 1));
        store.lend(io, got);
        assert!(store.compare(io, all, Some(b)).unwrap());
        assert!(!store.compare(io, all, Some(a)).unwrap());
        assert!(!store.compare(io, all, None).unwrap());
    }

    #[test]
    fn what_lies_outside_is_an_error() {
        let mut store = Store::new(Backing::memory(8));
        let slot = store.allocate().unwrap();
        store.lend(Io(0), Buffer::zeroed(512).into());
        assert!(store.store(Io(0), Piece { host: 0, page: 0, len: 4096 }, slot, None).is_err());
        assert!(store.load(Io(0), Piece { host: 0, page: 4000, len: 512 }, Some(slot)).is_err());
        assert!(store.load(Io(9), Piece { host: 0, page: 0, len: 512 }, Some(slot)).is_err());
    }

    #[test]
    fn injected_faults_count_down() {
        let mut store = Store::new(Backing::memory(8));
        let slot = store.allocate().unwrap();
        store.lend(Io(0), Buffer::zeroed(4096).into());
        let all = Piece { host: 0, page: 0, len: 4096 };
        store.arm_fault(true, 1);
        assert!(store.load(Io(0), all, Some(slot)).is_ok(), "a full disk can be read");
        assert!(store.store(Io(0), all, slot, None).is_err());
        assert!(store.store(Io(0), all, slot, None).is_ok());
        store.arm_fault(false, 0);
        assert!(store.load(Io(0), all, Some(slot)).is_err());
        assert!(store.load(Io(0), all, Some(slot)).is_err());
        store.clear_faults();
        assert!(store.load(Io(0), all, Some(slot)).is_ok());
    }
}
