//! Addresses and shapes.

use serde::{Deserialize, Serialize};

/// A 4 KiB page of a medium: the unit of mapping.
///
/// Pages of NAND are numbered in the order in which a superblock is written:
/// `((superblock * units_per_block + unit) * dies + die) * unit_pages + i`, so that striping over dies
/// is an increment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Page(pub u32);

/// A program unit: the pages that one (multi-plane, one-shot) program writes, as `page / unit_pages`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Unit(pub u32);

/// A 4 KiB page as the translation layer's users number it, within one NVM Set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct LogicalPage(pub u32);

impl LogicalPage {
    /// No logical page: an erased, padding or torn physical page.
    pub const NONE: LogicalPage = LogicalPage(u32::MAX);
}

/// A handle to 4 KiB of contents. The program that runs the drive keeps them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Slot(pub u32);

impl Slot {
    /// No contents: a drive that is only simulated.
    pub const NONE: Slot = Slot(u32::MAX);
}

/// The spare (out-of-band) area of a page: what recovery knows of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Spare {
    /// The logical page whose data this is.
    pub page: LogicalPage,
    /// The drive-wide order of host writes: of two copies the higher version is newer. A copy made
    /// by garbage collection keeps the version of its source. Zero where the medium is not durable.
    pub version: u64,
    /// The contents.
    pub slot: Slot,
}

impl Spare {
    /// Padding, or a page that holds nothing.
    pub const EMPTY: Spare = Spare { page: LogicalPage::NONE, version: 0, slot: Slot::NONE };
}

/// Shape of a medium, in pages of 4 KiB.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Geometry {
    /// Dies (NAND) or independent banks: what works in parallel.
    pub dies: u32,
    /// Channels; die `d` is on channel `d % channels`.
    pub channels: u32,
    /// Planes of a die, programmed and erased together.
    pub planes: u32,
    /// Blocks of a plane = superblocks: superblock `b` is block `b` of every plane of every die.
    pub superblocks: u32,
    /// Program units in a block (taken over all planes of a die).
    pub units_per_block: u32,
    /// Pages of 4 KiB in a program unit: planes x NAND pages per wordline x NAND page / 4 KiB.
    pub unit_pages: u32,
    /// Pages of 4 KiB that one sense brings into the page register of a plane.
    pub sense_pages: u32,
    /// Whether pages may be programmed again in place, in any order, without an erase.
    pub in_place: bool,
    /// Rated program/erase cycles; `u32::MAX` if the medium does not wear.
    pub rated_cycles: u32,
}

impl Geometry {
    /// Units of a superblock, in the order in which they are written.
    pub fn units_per_superblock(&self) -> u32 {
        self.units_per_block * self.dies
    }

    /// Pages of a superblock.
    pub fn pages_per_superblock(&self) -> u32 {
        self.units_per_superblock() * self.unit_pages
    }

    /// All pages.
    pub fn pages(&self) -> u64 {
        u64::from(self.superblocks) * u64::from(self.pages_per_superblock())
    }
}

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpStatus {
    /// As it should.
    Good,
    /// A read whose bit errors the error correction could repair.
    Corrected,
    /// A read that could not be corrected, a program or an erase that failed.
    Failed,
}

/// What may be done with a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockState {
    /// Units below `next` (counted in the block) are programmed, `next` is the one to program; equal to
    /// the block's units when it is full. Media written in place say 0: any page at any time.
    Writable {
        /// Units of the block that were programmed since its erase.
        next: u32,
    },
    /// An erase was cut short: nothing can be read or programmed before the next erase.
    MustErase,
    /// Must no longer be used.
    Bad,
}

/// Result of [`Medium::read`](crate::Medium::read).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Read {
    /// When the data is in the controller.
    pub done: Nanos,
    /// Whether it is right.
    pub status: OpStatus,
}

/// Result of [`Medium::poll_program`](crate::Medium::poll_program).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Suspended meanwhile: ask again at this time.
    Until(Nanos),
    /// Ended.
    Ended(OpStatus),
}

use crate::time::Nanos;
