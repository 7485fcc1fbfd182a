//! Injected Faults: this drive's vendor specific log DCh.
//!
//! The faults that are active now. A header, then one [`InjectedFault`] for each. All numbers are little endian. `docs/vendor.md` has the
//! offsets of both.

use crate::fault::FaultKind;
use crate::fault_selector::FaultSelector;
use crate::{U16, U32, U64};

wire! {
    /// Header of the log Injected Faults (LID DCh).
    pub struct InjectedFaultsHeader[64] {
        /// Version of this layout: [`InjectedFaultsHeader::VERSION`].
        pub version: U16,
        /// Ports of the subsystem; their identifiers begin at 1.
        pub ports: U16,
        /// Bytes of this header: 64.
        pub header_bytes: U16,
        /// Bytes of an entry: 96.
        pub entry_bytes: U16,
        /// Number of entries.
        pub entries: U32,
        /// Reserved.
        pub rsvd12: [u8; 52],
    }

    /// A fault in the log Injected Faults (LID DCh).
    pub struct InjectedFault[96] {
        /// Its kind.
        pub kind: FaultKind,
        /// Reserved.
        pub rsvd1: u8,
        /// NVM Set Identifier, or the identifier of a port; 0 for faults of the host's disk and a planned power cut, and for faults of the
        /// protocol on any port.
        pub nvmsetid: U16,
        /// Operations that it strikes, of 1,000,000,000.
        pub chance: U32,
        /// By the kind, as in the command that injected it; 0 for kinds without a parameter.
        pub param: U32,
        /// The namespace of a fault of the protocol; 0 for any.
        pub nsid: U32,
        /// Operations that it strikes until it ends; 0: until cleared. For a port that is down the milliseconds until it is back, for a
        /// planned power cut the operations of the media until then.
        pub remaining: U64,
        /// Commands that a fault of the protocol has struck.
        pub strikes: U64,
        /// Which commands a fault of the protocol strikes; otherwise zeros.
        pub selector: FaultSelector,
    }
}
layout!(InjectedFaultsHeader, 64, ports @ 2, header_bytes @ 4, entry_bytes @ 6, entries @ 8);
layout!(InjectedFault, 96, nvmsetid @ 2, chance @ 4, param @ 8, nsid @ 12, remaining @ 16, strikes @ 24, selector @ 32);

impl InjectedFaultsHeader {
    /// Version of this layout. Later versions only add fields in reserved places, or behind.
    pub const VERSION: u16 = 2;
}

impl InjectedFault {
    /// The chance of a fault that strikes every operation.
    pub const CERTAINTY_PPB: u32 = 1_000_000_000;

    /// It strikes one in this many operations, to the nearest whole number.
    #[must_use]
    pub fn one_in(&self) -> u32 {
        let chance = self.chance.get().max(1);
        Self::CERTAINTY_PPB.saturating_add(chance / 2) / chance
    }
}
