//! The Discovery log (Base 5.1.12.3.1, LID 70h).

use crate::nqn::NqnField;
use crate::{U16, U64};

wire! {
    /// Header of the Discovery log; the entries follow.
    pub struct DiscoveryHeader[1024] {
        /// Generation Counter.
        pub genctr: U64,
        /// Number of Records.
        pub numrec: U64,
        /// Record Format: 0.
        pub recfmt: U16,
        /// Reserved.
        pub rsvd18: [u8; 1006],
    }

    /// Discovery Log Page Entry.
    pub struct DiscoveryEntry[1024] {
        /// Transport Type.
        pub trtype: TransportType,
        /// Address Family: 1 IPv4, 2 IPv6.
        pub adrfam: u8,
        /// Subsystem Type.
        pub subtype: SubsystemType,
        /// Transport Requirements: bits 1:0 secure channel (0 unspecified, 1 required, 2 not required),
        /// bit 2 SQ flow control may be disabled.
        pub treq: u8,
        /// Port ID.
        pub portid: U16,
        /// Controller ID: FFFFh dynamic, FFFEh static, of any host.
        pub cntlid: U16,
        /// Admin Max SQ Size, in entries.
        pub asqsz: U16,
        /// Entry Flags: bit 0 duplicate returned information, 1 explicit persistent connection, 2 no CDC.
        pub eflags: U16,
        /// Reserved.
        pub rsvd12: [u8; 20],
        /// Transport Service Identifier: the port number in ASCII.
        pub trsvcid: [u8; 32],
        /// Reserved.
        pub rsvd64: [u8; 192],
        /// NVM Subsystem Qualified Name.
        pub subnqn: NqnField,
        /// Transport Address in ASCII.
        pub traddr: [u8; 256],
        /// Transport Specific Address Subtype; TCP: byte 0 is SECTYPE (0 none, 2 TLS 1.3).
        pub tsas: [u8; 256],
    }
}
layout!(DiscoveryEntry, 1024, trsvcid @ 32, subnqn @ 256, traddr @ 512, tsas @ 768);

open_enum! {
    /// Transport Type (Base 5.1.12.3.1).
    pub struct TransportType: u8 {
        /// RDMA.
        RDMA = 1 => "RDMA",
        /// Fibre Channel.
        FC = 2 => "Fibre Channel",
        /// TCP.
        TCP = 3 => "TCP",
        /// Intra-host: loopback.
        LOOP = 254 => "Intra-host Transport",
    }
}

open_enum! {
    /// Subsystem Type (Base 5.1.12.3.1).
    pub struct SubsystemType: u8 {
        /// A referral to another discovery service.
        REFERRAL = 1 => "Discovery Referral",
        /// An NVM subsystem whose controllers may have namespaces.
        NVM = 2 => "NVM subsystem",
        /// The current discovery subsystem.
        CURRENT_DISCOVERY = 3 => "Current Discovery subsystem",
    }
}
