//! What the core asks of the program that runs the drive: contents, and a place where the chips' state outlives
//! the process.

use media::{Page, Slot, Spare, Unit};
use std::ops::Range;

/// A host command in flight. Its submitter chooses the number, which identifies the host's buffer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Io(pub u32);

/// A part of one 4 KiB page of contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Byte of the host's buffer at which the piece begins.
    pub host: u32,
    /// Byte of the page at which the piece begins.
    pub page: u32,
    /// Bytes, at most 4,096.
    pub len: u32,
}

/// Why contents cannot be stored or loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StorageError {
    /// The host's disk, or its memory, failed.
    #[error("the storage that holds the drive's contents failed")]
    Failed,
    /// No space is left on the host's disk.
    #[error("no space is left for the drive's contents")]
    Full,
}

/// Contents and persistence, injected into every call of the core that may need them.
///
/// The core decides and never copies. It names slots, and the implementation carries out each movement
/// *in the order of the calls*. It may defer a movement if no host can see that, and it holds the completion of the
/// command until then.
///
/// References to slots are counted. [`allocate`](Storage::allocate) gives a slot one
/// reference, [`retain`](Storage::retain) adds one, [`release`](Storage::release) drops one. A slot
/// without references may be given out again once that cannot harm what is on disk. [`Slot::NONE`] is no slot: references to it are not
/// counted.
pub trait Storage {
    /// A fresh slot; `None` if there is none now (the write waits and is tried again).
    fn allocate(&mut self) -> Option<Slot>;
    /// One more page refers to `slot`.
    fn retain(&mut self, slot: Slot);
    /// One page fewer refers to `slot`.
    fn release(&mut self, slot: Slot);
    /// The contents of `slot` are out of date, though something on its way to the medium refers to it. No command will read
    /// them. Storage that can erase them does so when the owner of contents is asked to forget.
    fn scrub(&mut self, _slot: Slot) {}
    /// Forgets all references: recovery begins, and retains those that it finds.
    fn forget_slots(&mut self);
    /// Recovery has retained every slot that the media and the saved buffer refer to. All others are free as soon as the
    /// records of this step are safe.
    fn slots_are_counted(&mut self) {}

    /// Host buffer to slot. The rest of the page is copied from `base`, or zeros.
    ///
    /// # Errors
    /// When the contents cannot be kept: the host's disk is full or fails.
    fn store(&mut self, io: Io, piece: Piece, slot: Slot, base: Option<Slot>) -> Result<(), StorageError>;
    /// Zeros into a part of a slot for a command; the rest of the page is copied from `base`, or zeros.
    ///
    /// # Errors
    /// As for [`store`](Storage::store).
    fn store_zeros(
        &mut self,
        io: Io,
        piece: Piece,
        slot: Slot,
        base: Option<Slot>,
    ) -> Result<(), StorageError>;
    /// A part of another slot, `from`, into a slot; the rest of the page is copied from `base`, or zeros. A medium that changes less than a page
    /// at a time asks for this when a power cut leaves a part of a write. `bytes` are whole sectors of 512 bytes.
    ///
    /// # Errors
    /// As for [`store`](Storage::store).
    fn splice(
        &mut self,
        slot: Slot,
        from: Slot,
        bytes: Range<u32>,
        base: Option<Slot>,
    ) -> Result<(), StorageError>;
    /// Slot to host buffer; `None` is a page that was never written or was deallocated: zeros.
    ///
    /// # Errors
    /// When the contents cannot be read back.
    fn load(&mut self, io: Io, piece: Piece, slot: Option<Slot>) -> Result<(), StorageError>;
    /// Checks a slot's contents for a command that gets none of them. Contents that cannot be damaged need no check.
    ///
    /// # Errors
    /// When the contents cannot be read back.
    fn verify(&mut self, _io: Io, _slot: Slot) -> Result<(), StorageError> {
        Ok(())
    }
    /// Whether the host's buffer equals the slot's contents (`None`: zeros).
    ///
    /// # Errors
    /// When the contents cannot be read back.
    fn compare(&mut self, io: Io, piece: Piece, slot: Option<Slot>) -> Result<bool, StorageError>;

    /// A change of the non-volatile state, in order. An image makes the records of one step durable
    /// against a crash of the process, as a whole, before it delivers any completion of that step.
    fn record(&mut self, record: Record<'_>);

    /// Whether records are kept at all. To make one can take long.
    fn keeps_records(&self) -> bool {
        true
    }
}

/// A change of what outlives power: the state of the chips and of the drive's system area.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Record<'a> {
    /// The program of a unit of set `set` ended well.
    Program {
        /// NVM Set, from 0.
        set: u8,
        /// Which unit.
        unit: Unit,
        /// Spare areas of its pages.
        spares: &'a [Spare],
    },
    /// The program of a unit failed or was torn: it can be read no more and is skipped.
    Spoil {
        /// NVM Set, from 0.
        set: u8,
        /// Which unit.
        unit: Unit,
    },
    /// The block that holds `unit` was erased.
    Erase {
        /// NVM Set, from 0.
        set: u8,
        /// Any unit of the block.
        unit: Unit,
    },
    /// The block that holds `unit` is bad from now on.
    Retire {
        /// NVM Set, from 0.
        set: u8,
        /// Any unit of the block.
        unit: Unit,
    },
    /// A page was accepted into the write buffer. Whether power takes it away or not, the end of the process does not.
    Buffer {
        /// NVM Set, from 0.
        set: u8,
        /// What was accepted.
        spare: Spare,
    },
    /// Power was lost, and with it what the write buffer of a NAND set held.
    Lose {
        /// NVM Set, from 0.
        set: u8,
    },
    /// A page of a medium that is written in place was written, or given up ([`Spare::EMPTY`]).
    Place {
        /// NVM Set, from 0.
        set: u8,
        /// Where.
        page: Page,
        /// What.
        spare: Spare,
    },
    /// Sectors of a disk can be read no more, or (`readable`) again, or they take more revolutions from now on.
    Sectors {
        /// NVM Set, from 0.
        set: u8,
        /// First sector of the disk.
        first: u64,
        /// How many.
        count: u32,
        /// What they are from now on.
        state: SectorState,
    },
    /// Pages `first..first + count` of a medium that is written in place were given up; some may have held nothing.
    Clear {
        /// NVM Set, from 0.
        set: u8,
        /// First page.
        first: u32,
        /// How many.
        count: u32,
    },
    /// Logical pages `first..first + count` were deallocated at `version`, or (`gone` false) a page that was
    /// deallocated has a newer copy on the medium.
    Trim {
        /// NVM Set, from 0.
        set: u8,
        /// First logical page.
        first: u32,
        /// How many.
        count: u32,
        /// Order among the host's writes.
        version: u64,
        /// Deallocated, or written again.
        gone: bool,
    },
    /// A superblock is written from now on, by this stream (only of sets with several placement handles).
    Open {
        /// NVM Set, from 0.
        set: u8,
        /// Which superblock.
        superblock: u32,
        /// A placement handle; or, from their number on, what collection writes to.
        writer: u8,
    },
    /// What a zone is from now on; the last one of a zone counts.
    Zone {
        /// NVM Set, from 0.
        set: u8,
        /// Volume.
        volume: u16,
        /// Zone of the volume.
        zone: u32,
        /// Encoded by the set.
        bytes: &'a [u8],
    },
    /// A small part of the state as a whole; the last one of a kind counts.
    Section {
        /// Whose.
        kind: Section,
        /// Encoded by its owner.
        bytes: &'a [u8],
    },
}

/// What sectors of a disk are. See [`Record::Sectors`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SectorState {
    /// Readable.
    Good,
    /// Unreadable until they are written again.
    Unreadable,
    /// So many revolutions more for each request that touches one; 0 is none more.
    Slow(u32),
}

/// Kinds of [`Record::Section`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Section {
    /// The translation layer's volumes and counters.
    Volumes = 1,
    /// The controller's: namespaces, attachments, saved features, logs.
    Controller = 2,
}

/// The storage of a drive that is only simulated: no contents, nothing outlives it.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoContents;

impl Storage for NoContents {
    fn allocate(&mut self) -> Option<Slot> {
        Some(Slot::NONE)
    }
    fn retain(&mut self, _: Slot) {}
    fn release(&mut self, _: Slot) {}
    fn forget_slots(&mut self) {}
    fn store(&mut self, _: Io, _: Piece, _: Slot, _: Option<Slot>) -> Result<(), StorageError> {
        Ok(())
    }
    fn store_zeros(&mut self, _: Io, _: Piece, _: Slot, _: Option<Slot>) -> Result<(), StorageError> {
        Ok(())
    }
    fn splice(&mut self, _: Slot, _: Slot, _: Range<u32>, _: Option<Slot>) -> Result<(), StorageError> {
        Ok(())
    }
    fn load(&mut self, _: Io, _: Piece, _: Option<Slot>) -> Result<(), StorageError> {
        Ok(())
    }
    fn compare(&mut self, _: Io, _: Piece, _: Option<Slot>) -> Result<bool, StorageError> {
        Ok(true)
    }
    fn record(&mut self, _: Record<'_>) {}

    fn keeps_records(&self) -> bool {
        false
    }
}
