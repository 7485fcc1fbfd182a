//! Which commands a fault of the protocol strikes, on the wire.

use crate::{U16, U32, U64};

wire! {
    /// Which commands a fault of the protocol strikes: the data of D1h. All zeros but the version: each command of I/O queues.
    pub struct FaultSelector[64] {
        /// Version of this layout: [`FaultSelector::VERSION`].
        pub version: u8,
        /// Which of the other fields count.
        pub flags: FaultSelectorFlags,
        /// The opcode, with [`FaultSelectorFlags::opcode`].
        pub opcode: u8,
        /// Reserved.
        pub rsvd3: u8,
        /// The controller identifier, with [`FaultSelectorFlags::controller`].
        pub cntlid: U16,
        /// Reserved.
        pub rsvd6: U16,
        /// First logical block of a range.
        pub slba: U64,
        /// Logical blocks of the range; 0: any block.
        pub blocks: U64,
        /// Matching commands that pass before the fault begins.
        pub after: U32,
        /// Then it strikes one command in this number, the first of them first; 0 and 1: each.
        pub every: U32,
        /// Reserved.
        pub rsvd32: [u8; 32],
    }
}
layout!(FaultSelector, 64, cntlid @ 4, slba @ 8, blocks @ 16, after @ 24, every @ 28, rsvd32 @ 32);

bits8! {
    /// Flags of [`FaultSelector`].
    pub struct FaultSelectorFlags {
        /// Commands of the admin queue; otherwise of I/O queues.
        pub admin: bool,
        /// Commands with this opcode only.
        pub opcode: bool,
        /// Commands of this controller only.
        pub controller: bool,
        /// A struck command is not executed: for a dropped completion, and one with another status.
        pub unexecuted: bool,
        #[bits(4)]
        _r: u8,
    }
}

impl FaultSelector {
    /// Version of this layout.
    pub const VERSION: u8 = 1;
}

/// The queue of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum QueueKind {
    /// An I/O queue.
    #[default]
    Io,
    /// The admin queue.
    Admin,
}
