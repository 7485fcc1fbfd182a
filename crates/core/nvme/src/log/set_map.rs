//! NVM Set Map: this drive's vendor specific log DAh.
//!
//! What one NVM Set is like, what its medium did, and the state of each of its superblocks: what standard logs have no words for. The Log
//! Specific Identifier of Get Log Page is the NVM Set Identifier. A header, then one [`SetMapEntry`] for each superblock, by its number.
//! All numbers are little endian. `docs/vendor.md` has the offsets of both.

use crate::zone::ZoneState;
use crate::{U16, U32, U64};

open_enum! {
    /// What an NVM Set is made of, as [`SetMapHeader::medium`] says.
    pub struct SetMedium: u8 {
        /// Flash.
        NAND = 0 => "nand",
        /// DRAM.
        DRAM = 1 => "dram",
        /// Persistent memory.
        PMEM = 2 => "pmem",
        /// A hard disk.
        DISK = 3 => "disk",
    }
}

open_enum! {
    /// What a superblock is used for, as [`SetMapEntry::state`] says.
    pub struct SuperblockUse: u8 {
        /// It can be opened.
        FREE = 0 => "free",
        /// It is being written.
        OPEN = 1 => "open",
        /// It is written no further, and holds data.
        CLOSED = 2 => "closed",
        /// The same, and garbage collection moves its data away.
        COLLECTING = 3 => "collecting",
        /// It waits for the erase of its blocks, or they are being erased.
        ERASING = 4 => "erasing",
        /// Zones lie in it, or are erased there.
        ZONES = 5 => "zone",
        /// None of its blocks can be used.
        BAD = 6 => "bad",
    }
}

bits8! {
    /// Flags of [`SetMapHeader`].
    pub struct SetMapFlags {
        /// The controller that reads the log may cut the power and inject faults (admin commands D0h and D1h).
        pub faults_allowed: bool,
        /// Nothing can be written to the set any more.
        pub read_only: bool,
        #[bits(6)]
        _r2: u8,
    }
}

wire! {
    /// Header of the log NVM Set Map (LID DAh).
    pub struct SetMapHeader[256] {
        /// Version of this layout: [`SetMapHeader::VERSION`].
        pub version: U16,
        /// NVM Set Identifier.
        pub nvmsetid: U16,
        /// Bytes of this header: 256.
        pub header_bytes: U16,
        /// Bytes of an entry: 32.
        pub entry_bytes: U16,
        /// Number of entries: superblocks of the set. 0 of a medium that is written in place.
        pub entries: U32,
        /// What the set is made of.
        pub medium: SetMedium,
        /// Flags.
        pub flags: SetMapFlags,
        /// Reserved.
        pub rsvd14: [u8; 2],
        /// The drive's time at which the log was made, in nanoseconds since power on.
        pub time_ns: U64,
        /// Dies, banks, or 1.
        pub units: U32,
        /// Planes of a die.
        pub planes: U32,
        /// Pages of a superblock without bad blocks.
        pub superblock_pages: U32,
        /// Pages of a block.
        pub block_pages: U32,
        /// Bytes of a page.
        pub page_bytes: U32,
        /// Rated program/erase cycles; FFFFFFFFh of a medium that does not wear.
        pub rated_cycles: U32,
        /// Blocks that must not be used.
        pub bad_blocks: U32,
        /// Superblocks that can be opened.
        pub free_superblocks: U32,
        /// Bytes from the begin of a zone to that of the next; 0 if the set cannot have zones.
        pub zone_size: U64,
        /// Most bytes that can be written to a zone.
        pub zone_capacity: U64,
        /// Zones that new namespaces can still have active at a time.
        pub zones_active_left: U32,
        /// Reserved.
        pub rsvd76: [u8; 4],
        /// Blocks erased, over the set's life; so with all that follow.
        pub erases: U64,
        /// Superblocks that garbage collection emptied, wear levelling among it.
        pub collections: U64,
        /// Pages that it read to move them.
        pub collected_pages: U64,
        /// Nanoseconds from the choice of a superblock to its end, summed over the collections that ended.
        pub collecting_ns: U64,
        /// Bytes programmed on the medium.
        pub media_written: U64,
        /// Of those, moved by garbage collection, with what pads its program units.
        pub media_moved: U64,
        /// Bytes read from the medium.
        pub media_read: U64,
        /// Programs and erases that failed.
        pub media_failures: U64,
        /// Reads that could not be corrected.
        pub uncorrectable: U64,
        /// Reserved.
        pub rsvd152: [u8; 104],
    }

    /// A superblock in the log NVM Set Map (LID DAh).
    pub struct SetMapEntry[32] {
        /// What it is used for.
        pub state: SuperblockUse,
        /// State of the first zone in it, as in a zone descriptor; 0 without one.
        pub zone_state: ZoneState,
        /// Zones that lie in it.
        pub zones: U16,
        /// Pages that it can hold: those of its blocks that are not bad.
        pub usable_pages: U32,
        /// Pages that were programmed since its last erase.
        pub written_pages: U32,
        /// Of those, pages whose data counts: no newer copy of it is on the medium, and it was not deallocated.
        pub valid_pages: U32,
        /// Program/erase cycles.
        pub erases: U32,
        /// Namespace of the first zone in it; 0 without one.
        pub nsid: U32,
        /// Number of that zone in its namespace.
        pub zone: U32,
        /// Reserved.
        pub rsvd28: [u8; 4],
    }
}
layout!(
    SetMapHeader, 256,
    entries @ 8, medium @ 12, time_ns @ 16, units @ 24, superblock_pages @ 32, page_bytes @ 40, rated_cycles @ 44,
    zone_size @ 56, zones_active_left @ 72, erases @ 80, media_written @ 112, uncorrectable @ 144, rsvd152 @ 152,
);
layout!(SetMapEntry, 32, zones @ 2, usable_pages @ 4, erases @ 16, nsid @ 20, rsvd28 @ 28);

impl SetMapHeader {
    /// Version of this layout. Later versions only add fields in reserved places, or behind.
    pub const VERSION: u16 = 1;
}
