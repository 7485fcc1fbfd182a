//! The submission queue entry and its parts (Base 4.1).

use crate::{U32, U64};

bits8! {
    /// Byte 1 of a submission queue entry (Base 4.1, "Command Dword 0").
    pub struct CommandFlags {
        /// Fused Operation (FUSE): 0 normal, 1 first, 2 second command of a fused operation.
        #[bits(2)]
        pub fuse: u8,
        #[bits(4)]
        _rsvd: u8,
        /// PRP or SGL for Data Transfer (PSDT): 0 PRP; 1 or 2 SGL. Fabrics always use 1 (Base 4.1.1).
        #[bits(2)]
        pub psdt: u8,
    }
}

wire! {
    /// Submission Queue Entry: a command as it is on the wire (Base 4.1, "Common Command Format").
    pub struct Command[64] {
        /// Opcode (OPC): [`AdminOpcode`] or [`IoOpcode`] by the queue it arrives on.
        pub opc: u8,
        /// FUSE and PSDT.
        pub flags: CommandFlags,
        /// Command Identifier (CID), unique among the outstanding commands of a queue.
        pub cid: crate::U16,
        /// Namespace Identifier (NSID). Fabrics commands keep their type in its first byte.
        pub nsid: U32,
        /// Command Dword 2.
        pub cdw2: U32,
        /// Command Dword 3.
        pub cdw3: U32,
        /// Metadata Pointer (MPTR).
        pub mptr: U64,
        /// Data Pointer (DPTR): one SGL descriptor, or two PRP entries when PSDT is 0.
        pub dptr: SglDescriptor,
        /// Command Dword 10.
        pub cdw10: U32,
        /// Command Dword 11.
        pub cdw11: U32,
        /// Command Dword 12.
        pub cdw12: U32,
        /// Command Dword 13.
        pub cdw13: U32,
        /// Command Dword 14.
        pub cdw14: U32,
        /// Command Dword 15.
        pub cdw15: U32,
    }

    /// SGL Descriptor (Base 4.3.2): all types but the keyed ones, which fabrics over TCP do not use.
    pub struct SglDescriptor[16] {
        /// Address; for an offset subtype the offset within the capsule.
        pub addr: U64,
        /// Length in bytes.
        pub length: U32,
        /// Reserved.
        pub rsvd12: [u8; 3],
        /// SGL Descriptor Type and Sub Type.
        pub id: SglId,
    }
}
layout!(Command, 64, cid @ 2, nsid @ 4, mptr @ 16, dptr @ 24, cdw10 @ 40, cdw15 @ 60);

bits8! {
    /// SGL Identifier: byte 15 of a descriptor (Base 4.3.2).
    pub struct SglId {
        /// SGL Descriptor Sub Type.
        #[bits(4)]
        pub subtype: SglSubtype,
        /// SGL Descriptor Type.
        #[bits(4)]
        pub kind: SglType,
    }
}

open_enum! {
    /// SGL Descriptor Type (Base 4.3.2, "SGL Descriptor Type").
    pub struct SglType: u8 {
        /// SGL Data Block descriptor.
        DATA_BLOCK = 0x0 => "SGL Data Block descriptor",
        /// SGL Bit Bucket descriptor.
        BIT_BUCKET = 0x1 => "SGL Bit Bucket descriptor",
        /// SGL Segment descriptor.
        SEGMENT = 0x2 => "SGL Segment descriptor",
        /// SGL Last Segment descriptor.
        LAST_SEGMENT = 0x3 => "SGL Last Segment descriptor",
        /// Keyed SGL Data Block descriptor.
        KEYED_DATA_BLOCK = 0x4 => "Keyed SGL Data Block descriptor",
        /// Transport SGL Data Block descriptor: the transport moves the data.
        TRANSPORT_DATA_BLOCK = 0x5 => "Transport SGL Data Block descriptor",
    }
}

open_enum! {
    /// SGL Descriptor Sub Type (Base 4.3.2, "SGL Descriptor Sub Type Values").
    pub struct SglSubtype: u8 {
        /// The address is a memory address.
        ADDRESS = 0x0 => "Address",
        /// The address is an offset within the capsule's data.
        OFFSET = 0x1 => "Offset",
        /// Defined by the transport; TCP names commands whose data the controller asks for with it.
        TRANSPORT = 0xA => "NVMe Transport Specific",
    }
}

impl SglDescriptor {
    /// Bytes at an address of the host's memory (Base 4.3.2.1: SGL Data Block descriptor).
    #[must_use]
    pub fn data_block(addr: u64, length: u32) -> Self {
        Self::list(SglType::DATA_BLOCK, addr, length)
    }

    /// A descriptor of this type with a memory address: a data block, or a segment of a list with its bytes.
    #[must_use]
    pub fn list(kind: SglType, addr: u64, length: u32) -> Self {
        Self { addr: U64::new(addr), ..Self::new(kind, SglSubtype::ADDRESS, length) }
    }

    /// Two PRP entries, which a data pointer has when PSDT is 0 (Base 4.3.1).
    #[must_use]
    pub fn of_prps(prps: [u64; 2]) -> Self {
        zerocopy::transmute!(prps.map(U64::new))
    }

    /// The two PRP entries of a data pointer when PSDT is 0 (Base 4.3.1).
    #[must_use]
    pub fn prps(self) -> [u64; 2] {
        let prps: [U64; 2] = zerocopy::transmute!(self);
        prps.map(U64::get)
    }

    /// Data inside the capsule, at its start (TCP 1.1 3.3.2.1: in-capsule data).
    #[must_use]
    pub fn in_capsule(length: u32) -> Self {
        Self::new(SglType::DATA_BLOCK, SglSubtype::OFFSET, length)
    }

    /// Data moved by the transport on the controller's demand (TCP 1.1 3.3.2.1).
    #[must_use]
    pub fn transport(length: u32) -> Self {
        Self::new(SglType::TRANSPORT_DATA_BLOCK, SglSubtype::TRANSPORT, length)
    }

    fn new(kind: SglType, subtype: SglSubtype, length: u32) -> Self {
        Self {
            addr: U64::ZERO,
            length: U32::new(length),
            rsvd12: [0; 3],
            id: SglId::new().with_kind(kind).with_subtype(subtype),
        }
    }
}

open_enum! {
    /// Opcodes of the Admin Command Set (Base 5, "Opcodes for Admin Commands").
    pub struct AdminOpcode: u8 {
        /// Delete I/O Submission Queue.
        DELETE_IO_SQ = 0x00 => "Delete I/O Submission Queue",
        /// Create I/O Submission Queue.
        CREATE_IO_SQ = 0x01 => "Create I/O Submission Queue",
        /// Get Log Page.
        GET_LOG_PAGE = 0x02 => "Get Log Page",
        /// Delete I/O Completion Queue.
        DELETE_IO_CQ = 0x04 => "Delete I/O Completion Queue",
        /// Create I/O Completion Queue.
        CREATE_IO_CQ = 0x05 => "Create I/O Completion Queue",
        /// Identify.
        IDENTIFY = 0x06 => "Identify",
        /// Abort.
        ABORT = 0x08 => "Abort",
        /// Set Features.
        SET_FEATURES = 0x09 => "Set Features",
        /// Get Features.
        GET_FEATURES = 0x0A => "Get Features",
        /// Asynchronous Event Request.
        ASYNC_EVENT_REQUEST = 0x0C => "Asynchronous Event Request",
        /// Namespace Management.
        NAMESPACE_MANAGEMENT = 0x0D => "Namespace Management",
        /// Firmware Commit.
        FIRMWARE_COMMIT = 0x10 => "Firmware Commit",
        /// Firmware Image Download.
        FIRMWARE_IMAGE_DOWNLOAD = 0x11 => "Firmware Image Download",
        /// Device Self-test.
        DEVICE_SELF_TEST = 0x14 => "Device Self-test",
        /// Namespace Attachment.
        NAMESPACE_ATTACHMENT = 0x15 => "Namespace Attachment",
        /// Keep Alive.
        KEEP_ALIVE = 0x18 => "Keep Alive",
        /// Directive Send.
        DIRECTIVE_SEND = 0x19 => "Directive Send",
        /// Directive Receive.
        DIRECTIVE_RECEIVE = 0x1A => "Directive Receive",
        /// Virtualization Management.
        VIRTUALIZATION_MANAGEMENT = 0x1C => "Virtualization Management",
        /// NVMe-MI Send.
        NVME_MI_SEND = 0x1D => "NVMe-MI Send",
        /// NVMe-MI Receive.
        NVME_MI_RECEIVE = 0x1E => "NVMe-MI Receive",
        /// Capacity Management.
        CAPACITY_MANAGEMENT = 0x20 => "Capacity Management",
        /// Lockdown.
        LOCKDOWN = 0x24 => "Lockdown",
        /// Doorbell Buffer Config.
        DOORBELL_BUFFER_CONFIG = 0x7C => "Doorbell Buffer Config",
        /// Fabrics Commands.
        FABRICS = 0x7F => "Fabrics Commands",
        /// Format NVM.
        FORMAT_NVM = 0x80 => "Format NVM",
        /// Security Send.
        SECURITY_SEND = 0x81 => "Security Send",
        /// Security Receive.
        SECURITY_RECEIVE = 0x82 => "Security Receive",
        /// Sanitize.
        SANITIZE = 0x84 => "Sanitize",
        /// Get LBA Status.
        GET_LBA_STATUS = 0x86 => "Get LBA Status",
        /// Vendor specific: power cut ([`PowerCut`](crate::admin::PowerCut)). No data.
        POWER_CUT = 0xD0 => "Power Cut (vendor specific)",
        /// Vendor specific: fault injection ([`FaultInjection`](crate::admin::FaultInjection)). No data.
        FAULT_INJECTION = 0xD1 => "Fault Injection (vendor specific)",
    }
}

open_enum! {
    /// Opcodes of the I/O commands of the NVM Command Set (NVM 3, "Opcodes for NVM Commands"). The Zoned Namespace Command Set has
    /// them all, and three of its own.
    pub struct IoOpcode: u8 {
        /// Flush.
        FLUSH = 0x00 => "Flush",
        /// Write.
        WRITE = 0x01 => "Write",
        /// Read.
        READ = 0x02 => "Read",
        /// Write Uncorrectable.
        WRITE_UNCORRECTABLE = 0x04 => "Write Uncorrectable",
        /// Compare.
        COMPARE = 0x05 => "Compare",
        /// Write Zeroes.
        WRITE_ZEROES = 0x08 => "Write Zeroes",
        /// Dataset Management.
        DATASET_MANAGEMENT = 0x09 => "Dataset Management",
        /// Verify.
        VERIFY = 0x0C => "Verify",
        /// Reservation Register.
        RESERVATION_REGISTER = 0x0D => "Reservation Register",
        /// Reservation Report.
        RESERVATION_REPORT = 0x0E => "Reservation Report",
        /// Reservation Acquire.
        RESERVATION_ACQUIRE = 0x11 => "Reservation Acquire",
        /// I/O Management Receive.
        IO_MANAGEMENT_RECEIVE = 0x12 => "I/O Management Receive",
        /// Reservation Release.
        RESERVATION_RELEASE = 0x15 => "Reservation Release",
        /// Cancel.
        CANCEL = 0x18 => "Cancel",
        /// Copy.
        COPY = 0x19 => "Copy",
        /// I/O Management Send.
        IO_MANAGEMENT_SEND = 0x1D => "I/O Management Send",
        /// Zone Management Send.
        ZONE_MANAGEMENT_SEND = 0x79 => "Zone Management Send",
        /// Zone Management Receive.
        ZONE_MANAGEMENT_RECEIVE = 0x7A => "Zone Management Receive",
        /// Zone Append.
        ZONE_APPEND = 0x7D => "Zone Append",
        /// Fabrics Commands.
        FABRICS = 0x7F => "Fabrics Commands",
    }
}

/// The opcode of every fabrics command, on admin and I/O queues alike (Base 6).
pub const FABRICS_OPCODE: u8 = 0x7F;

open_enum! {
    /// Fabrics Command Type, FCTYPE (Base 6, "Fabrics Command Type").
    pub struct FabricsType: u8 {
        /// Property Set.
        PROPERTY_SET = 0x00 => "Property Set",
        /// Connect.
        CONNECT = 0x01 => "Connect",
        /// Property Get.
        PROPERTY_GET = 0x04 => "Property Get",
        /// Authentication Send.
        AUTHENTICATION_SEND = 0x05 => "Authentication Send",
        /// Authentication Receive.
        AUTHENTICATION_RECEIVE = 0x06 => "Authentication Receive",
        /// Disconnect.
        DISCONNECT = 0x08 => "Disconnect",
    }
}

impl Command {
    /// A command with this opcode and namespace, everything else zero but PSDT, which says SGL.
    #[must_use]
    #[inline]
    pub fn new(opc: u8, nsid: crate::Nsid) -> Self {
        Self { opc, nsid: U32::new(nsid), flags: CommandFlags::new().with_psdt(1), ..Self::default() }
    }

    /// The same command with another command identifier.
    #[must_use]
    pub fn with_cid(mut self, cid: u16) -> Self {
        self.cid.set(cid);
        self
    }

    /// The same command with another data pointer.
    #[must_use]
    pub fn with_dptr(mut self, dptr: SglDescriptor) -> Self {
        self.dptr = dptr;
        self
    }

    /// Fabrics Command Type (FCTYPE), meaningful when the opcode is [`FABRICS_OPCODE`] (Base 6).
    #[must_use]
    pub fn fctype(&self) -> FabricsType {
        FabricsType(self.nsid.to_bytes()[0])
    }

    /// CDW10 and CDW11 as one little-endian 64-bit number.
    #[must_use]
    pub fn cdw10_11(&self) -> u64 {
        u64::from(self.cdw10.get()) | u64::from(self.cdw11.get()) << 32
    }
}
