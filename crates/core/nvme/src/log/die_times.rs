//! Die Times: this drive's vendor specific log DBh.
//!
//! For how long each die of an NVM Set was asked to work. The Log Specific Identifier of Get Log Page is the NVM Set Identifier. A header, then
//! one [`DieTimesEntry`] for each die, by its number. All numbers are little endian. `docs/vendor.md` has the offsets of both.

use crate::{U16, U32, U64};

wire! {
    /// Header of the log Die Times (LID DBh).
    pub struct DieTimesHeader[64] {
        /// Version of this layout: [`DieTimesHeader::VERSION`].
        pub version: U16,
        /// NVM Set Identifier.
        pub nvmsetid: U16,
        /// Bytes of this header: 64.
        pub header_bytes: U16,
        /// Bytes of an entry: 32.
        pub entry_bytes: U16,
        /// Number of entries: dies of the set. 0 of a medium that is not flash.
        pub entries: U32,
        /// Reserved.
        pub rsvd12: [u8; 4],
        /// The drive's time at which the log was made, in nanoseconds since power on.
        pub time_ns: U64,
        /// Reserved.
        pub rsvd24: [u8; 40],
    }

    /// A die in the log Die Times (LID DBh): nanoseconds for which it was asked to work since power on. Work counts when it is asked for, so
    /// its end may lie ahead. Time for which a program or an erase is suspended does not count.
    pub struct DieTimesEntry[32] {
        /// Reads of the array; those that planes do at the same time count once.
        pub read_ns: U64,
        /// Programs.
        pub program_ns: U64,
        /// Erases.
        pub erase_ns: U64,
        /// Reserved.
        pub rsvd24: [u8; 8],
    }
}
layout!(DieTimesHeader, 64, nvmsetid @ 2, header_bytes @ 4, entries @ 8, time_ns @ 16, rsvd24 @ 24);
layout!(DieTimesEntry, 32, program_ns @ 8, erase_ns @ 16, rsvd24 @ 24);

impl DieTimesHeader {
    /// Version of this layout. Later versions only add fields in reserved places, or behind.
    pub const VERSION: u16 = 1;
}
