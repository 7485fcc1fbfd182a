//! Directives: Directive Send and Receive, and what they carry (Base 5.1.6, 5.1.7, 8.1.8).

use crate::{Nsid, U16, U32};

open_enum! {
    /// Directive Type (Base 8.1.8).
    pub struct DirectiveType: u8 {
        /// Identify: which directives there are, and which are enabled.
        IDENTIFY = 0 => "Identify",
        /// Streams.
        STREAMS = 1 => "Streams",
        /// Data Placement.
        DATA_PLACEMENT = 2 => "Data Placement",
    }
}

/// Directive Operations, by command and type.
pub mod operation {
    /// Receive, Identify: Return Parameters. Receive, Streams: Return Parameters.
    pub const RETURN_PARAMETERS: u8 = 1;
    /// Receive, Streams: Get Status.
    pub const GET_STATUS: u8 = 2;
    /// Receive, Streams: Allocate Resources; no data.
    pub const ALLOCATE_RESOURCES: u8 = 3;
    /// Send, Identify: Enable Directive.
    pub const ENABLE: u8 = 1;
    /// Send, Streams: Release Identifier.
    pub const RELEASE_IDENTIFIER: u8 = 1;
    /// Send, Streams: Release Resources.
    pub const RELEASE_RESOURCES: u8 = 2;
}

/// Directive Send or Directive Receive (Base 5.1.6, 5.1.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Directive {
    /// Namespace Identifier.
    pub nsid: Nsid,
    /// Number of dwords of data, counted from one.
    pub dwords: u64,
    /// Directive Operation.
    pub doper: u8,
    /// Directive Type.
    pub dtype: DirectiveType,
    /// Directive Specific.
    pub dspec: u16,
    /// Command Dword 12: by type and operation.
    pub cdw12: u32,
}

bits32! {
    /// CDW12 of Enable Directive.
    pub struct EnableDirective {
        /// Enable Directive.
        pub endir: bool,
        #[bits(7)]
        _r1: u8,
        /// Directive Type.
        #[bits(8)]
        pub tdtype: DirectiveType,
        #[bits(16)]
        _r16: u16,
    }
}

wire! {
    /// Return Parameters of the Identify directive (Base 8.1.8.2.1): a bit for each directive type.
    pub struct DirectiveParameters[4096] {
        /// Directives Supported.
        pub supported: [u8; 32],
        /// Directives Enabled.
        pub enabled: [u8; 32],
        /// Directive Persistent Across Controller Level Resets.
        pub persistent: [u8; 32],
        /// Reserved.
        pub rsvd96: [u8; 4000],
    }

    /// Return Parameters of the Streams directive (Base 8.1.8.3.1.1).
    pub struct StreamsParameters[32] {
        /// Max Streams Limit.
        pub msl: U16,
        /// NVM Subsystem Streams Available.
        pub nssa: U16,
        /// NVM Subsystem Streams Open.
        pub nsso: U16,
        /// NVM Subsystem Stream Capability.
        pub nssc: u8,
        /// Reserved.
        pub rsvd7: [u8; 9],
        /// Stream Write Size in logical blocks.
        pub sws: U32,
        /// Stream Granularity Size in stream write sizes.
        pub sgs: U16,
        /// Namespace Streams Allocated.
        pub nsa: U16,
        /// Namespace Streams Open.
        pub nso: U16,
        /// Reserved.
        pub rsvd26: [u8; 6],
    }
}
layout!(StreamsParameters, 32, nssc @ 6, sws @ 16, sgs @ 20, nsa @ 22, nso @ 24);
