//! I/O commands of the NVM and Zoned Namespace Command Sets, parsed (NVM 3.3; ZNS) and constructed.

use crate::command::{Command, IoOpcode};
use crate::completion::Completion;
use crate::copy::Copy;
use crate::fabrics::FabricsCommand;
use crate::reservation::{ReservationAcquire, ReservationRegister, ReservationRelease, ReservationReport};
use crate::zone::{ZoneManagementReceive, ZoneManagementSend};
use crate::{Nsid, Status, U32, U64};

pub use crate::pr_info::PrInfo;

/// A command of an I/O queue, as a controller executes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoCommand {
    /// Flush (Base 7.2): make all completed writes of the namespace durable. FFFFFFFFh is all namespaces.
    Flush {
        /// Namespace Identifier.
        nsid: Nsid,
    },
    /// Write (NVM 3.3.6).
    Write(Blocks),
    /// Read (NVM 3.3.4).
    Read(Blocks),
    /// Write Uncorrectable (NVM 3.3.7): reads of the range fail until it is written again.
    WriteUncorrectable(Blocks),
    /// Compare (NVM 3.3.1).
    Compare(Blocks),
    /// Write Zeroes (NVM 3.3.8).
    WriteZeroes(Blocks),
    /// Dataset Management (NVM 3.3.3); the data is up to 256 [`DsmRange`].
    DatasetManagement(DatasetManagement),
    /// Verify (NVM 3.3.5).
    Verify(Blocks),
    /// Reservation Register (Base 7.6).
    ReservationRegister(ReservationRegister),
    /// Reservation Report (Base 7.8).
    ReservationReport(ReservationReport),
    /// Reservation Acquire (Base 7.5).
    ReservationAcquire(ReservationAcquire),
    /// Reservation Release (Base 7.7).
    ReservationRelease(ReservationRelease),
    /// Copy (NVM 3.3.2); the data is its source ranges.
    Copy(Copy),
    /// I/O Management Receive (Base 7.3).
    IoManagementReceive(IoManagementReceive),
    /// I/O Management Send (Base 7.4).
    IoManagementSend(IoManagementSend),
    /// Zone Management Send (ZNS).
    ZoneManagementSend(ZoneManagementSend),
    /// Zone Management Receive (ZNS).
    ZoneManagementReceive(ZoneManagementReceive),
    /// Zone Append (ZNS): the starting LBA is that of the zone, and the completion says where the blocks are ([`appended_lba`]).
    ZoneAppend(Blocks),
    /// A fabrics command: Connect comes on the queue that it creates.
    Fabrics(FabricsCommand),
}

/// I/O Management Receive (Base 7.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoManagementReceive {
    /// Namespace Identifier.
    pub nsid: Nsid,
    /// Management Operation: [`RUH_STATUS`](crate::fdp::RUH_STATUS).
    pub mo: u8,
    /// Management Operation Specific.
    pub mos: u16,
    /// Number of dwords to return, counted from one: 1 to 2^32.
    pub dwords: u64,
}

/// I/O Management Send (Base 7.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoManagementSend {
    /// Namespace Identifier.
    pub nsid: Nsid,
    /// Management Operation: [`RUH_UPDATE`](crate::fdp::RUH_UPDATE), whose data is a list of placement identifiers.
    pub mo: u8,
    /// Management Operation Specific: for Reclaim Unit Handle Update the number of identifiers, zero-based.
    pub mos: u16,
}

/// The fields that the commands on a range of logical blocks share. A field that the command in question
/// does not define is reserved there: ignored by the controller, zero from the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Blocks {
    /// Namespace Identifier.
    pub nsid: Nsid,
    /// Starting LBA.
    pub slba: u64,
    /// Number of logical blocks, counted from one: 1 to 65536 (the wire's NLB counts from zero).
    pub nlb: u32,
    /// Limited Retry.
    pub lr: bool,
    /// Force Unit Access.
    pub fua: bool,
    /// Protection Information Field.
    pub prinfo: PrInfo,
    /// Deallocate (Write Zeroes).
    pub deac: bool,
    /// Protection Information Remap (Zone Append): the reference tag that the host sent counts from the zone's start. The
    /// controller writes it as if it counted to where the blocks are.
    pub piremap: bool,
    /// Storage Tag Check.
    pub stc: bool,
    /// Namespace Zeroes (Write Zeroes): zero the whole namespace.
    pub nsz: bool,
    /// Directive Type (Write): 0 none, 1 streams, 2 data placement. Four bits; three for Write Zeroes.
    pub dtype: u8,
    /// Directive Specific.
    pub dspec: u16,
    /// Dataset Management hints (Read, Write): access frequency, latency, sequential, incompressible.
    pub dsm: u8,
    /// Command Extension Type.
    pub cetype: u8,
    /// Logical Block Tags Upper (LBTU): 48 bits, the upper 16 in CDW2, the lower 32 in CDW3 (NVM 5.2.1.4: the storage
    /// and reference space of 64-bit guards begins in CDW3, that of 32-bit guards in CDW2).
    pub lbtu: u64,
    /// Logical Block Tags Lower (LBTL): the (expected) initial reference tag of 32-bit formats.
    pub lbtl: u32,
    /// (Expected) Logical Block Application Tag.
    pub lbat: u16,
    /// (Expected) Logical Block Application Tag Mask.
    pub lbatm: u16,
}

impl IoCommand {
    /// The blocks of a command on one range of them; none of other commands. The range of a Zone Append is elsewhere in its zone.
    #[must_use]
    #[inline]
    pub const fn blocks(&self) -> Option<&Blocks> {
        match self {
            Self::Write(blocks)
            | Self::Read(blocks)
            | Self::WriteUncorrectable(blocks)
            | Self::Compare(blocks)
            | Self::WriteZeroes(blocks)
            | Self::Verify(blocks)
            | Self::ZoneAppend(blocks) => Some(blocks),
            _ => None,
        }
    }
}

impl Blocks {
    /// `blocks` logical blocks from `slba`, nothing else asked. `blocks` is clamped to 1 to 65536.
    #[must_use]
    #[inline]
    pub fn new(nsid: Nsid, slba: u64, blocks: u32) -> Self {
        Self { nsid, slba, nlb: blocks.clamp(1, 65536), ..Self::default() }
    }

    /// The block after the last, or `None` when the range leaves 64 bits.
    #[must_use]
    pub const fn end(&self) -> Option<u64> {
        self.slba.checked_add(self.nlb as u64)
    }
}

/// Assigned LBA of a completed Zone Append: where the first block is (ZNS, "Zone Append").
#[must_use]
pub fn appended_lba(completion: &Completion) -> u64 {
    completion.result64()
}

/// Dataset Management (NVM 3.3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatasetManagement {
    /// Namespace Identifier.
    pub nsid: Nsid,
    /// Number of ranges, counted from one: 1 to 256.
    pub nr: u16,
    /// Attribute – Integral Dataset for Read.
    pub idr: bool,
    /// Attribute – Integral Dataset for Write.
    pub idw: bool,
    /// Attribute – Deallocate.
    pub ad: bool,
}

wire! {
    /// One range of Dataset Management (NVM 3.3.3, "Dataset Management – Range Definition").
    pub struct DsmRange[16] {
        /// Context Attributes.
        pub cattr: U32,
        /// Length in logical blocks, counted from one; 0 is an empty range.
        pub lengthlb: U32,
        /// Starting LBA.
        pub slba: U64,
    }
}

impl DsmRange {
    /// A range without context attributes.
    #[must_use]
    pub fn new(slba: u64, blocks: u32) -> Self {
        Self { cattr: U32::ZERO, lengthlb: U32::new(blocks), slba: U64::new(slba) }
    }
}

/// Ranges that one Dataset Management command carries at most.
pub const DSM_RANGES_MAX: usize = 256;

bits32! {
    /// CDW12 of Read, Write, Compare, Verify and Write Zeroes.
    struct BlocksCdw12 {
        #[bits(16)] nlb_z: u16,
        #[bits(4)] cetype: u8,
        #[bits(4)] dtype: u8,
        stc: bool,
        deac: bool,
        #[bits(4)] prinfo: u8,
        fua: bool,
        lr: bool,
    }
    struct BlocksCdw13 { #[bits(8)] dsm: u8, #[bits(8)] _r: u8, #[bits(16)] dspec: u16 }
    struct BlocksCdw15 { #[bits(16)] lbat: u16, #[bits(16)] lbatm: u16 }
    struct ManagementCdw10 { #[bits(8)] mo: u8, #[bits(8)] _r: u8, #[bits(16)] mos: u16 }
    struct DsmCdw11 { idr: bool, idw: bool, ad: bool, #[bits(29)] _r: u32 }
}

/// The fields of each command that has no type of its own elsewhere. The command table names these functions.
pub(crate) mod parse {
    use super::*;

    type Parsed = Result<IoCommand, Status>;

    pub(crate) fn flush(cmd: &Command) -> Parsed {
        Ok(IoCommand::Flush { nsid: cmd.nsid.get() })
    }

    #[inline]
    pub(crate) fn read(cmd: &Command) -> Parsed {
        Ok(IoCommand::Read(Blocks::parse(cmd)))
    }

    #[inline]
    pub(crate) fn write(cmd: &Command) -> Parsed {
        Ok(IoCommand::Write(Blocks::parse(cmd)))
    }

    pub(crate) fn write_uncorrectable(cmd: &Command) -> Parsed {
        Ok(IoCommand::WriteUncorrectable(Blocks::parse(cmd)))
    }

    pub(crate) fn compare(cmd: &Command) -> Parsed {
        Ok(IoCommand::Compare(Blocks::parse(cmd)))
    }

    pub(crate) fn write_zeroes(cmd: &Command) -> Parsed {
        // NSZ is the bit that is the highest of DTYPE elsewhere (NVM 3.3.8).
        let mut blocks = Blocks::parse(cmd);
        blocks.nsz = blocks.dtype & 8 != 0;
        blocks.dtype &= 7;
        Ok(IoCommand::WriteZeroes(blocks))
    }

    pub(crate) fn zone_append(cmd: &Command) -> Parsed {
        // PIREMAP is the bit that is DEAC in Write Zeroes.
        let mut blocks = Blocks::parse(cmd);
        blocks.piremap = blocks.deac;
        blocks.deac = false;
        Ok(IoCommand::ZoneAppend(blocks))
    }

    pub(crate) fn dataset_management(cmd: &Command) -> Parsed {
        let d = DsmCdw11(cmd.cdw11);
        Ok(IoCommand::DatasetManagement(DatasetManagement {
            nsid: cmd.nsid.get(),
            nr: u16::from(cmd.cdw10.to_bytes()[0]) + 1,
            idr: d.idr(),
            idw: d.idw(),
            ad: d.ad(),
        }))
    }

    pub(crate) fn verify(cmd: &Command) -> Parsed {
        Ok(IoCommand::Verify(Blocks::parse(cmd)))
    }

    pub(crate) fn io_management_receive(cmd: &Command) -> Parsed {
        let d = ManagementCdw10(cmd.cdw10);
        Ok(IoCommand::IoManagementReceive(IoManagementReceive {
            nsid: cmd.nsid.get(),
            mo: d.mo(),
            mos: d.mos(),
            dwords: u64::from(cmd.cdw11.get()) + 1,
        }))
    }

    pub(crate) fn io_management_send(cmd: &Command) -> Parsed {
        let d = ManagementCdw10(cmd.cdw10);
        Ok(IoCommand::IoManagementSend(IoManagementSend { nsid: cmd.nsid.get(), mo: d.mo(), mos: d.mos() }))
    }
}

impl Blocks {
    #[inline]
    pub(crate) fn parse(cmd: &Command) -> Self {
        let (d12, d13, d15) = (BlocksCdw12(cmd.cdw12), BlocksCdw13(cmd.cdw13), BlocksCdw15(cmd.cdw15));
        Self {
            nsid: cmd.nsid.get(),
            slba: cmd.cdw10_11(),
            nlb: u32::from(d12.nlb_z()) + 1,
            lr: d12.lr(),
            fua: d12.fua(),
            prinfo: PrInfo::from_nibble(d12.prinfo()),
            deac: d12.deac(),
            piremap: false,
            stc: d12.stc(),
            nsz: false,
            dtype: d12.dtype(),
            dspec: d13.dspec(),
            dsm: d13.dsm(),
            cetype: d12.cetype(),
            lbtu: u64::from(cmd.cdw3.get()) | u64::from(cmd.cdw2.get() & 0xFFFF) << 32,
            lbtl: cmd.cdw14.get(),
            lbat: d15.lbat(),
            lbatm: d15.lbatm(),
        }
    }

    /// The command entry of this opcode. Values too wide for their field lose their upper bits; `nlb` is
    /// clamped to 1 to 65536.
    #[must_use]
    #[inline]
    pub fn encode(&self, opcode: IoOpcode) -> Command {
        let nlb_z = u16::try_from(self.nlb.clamp(1, 65536) - 1).unwrap_or(u16::MAX);
        let slba = self.slba.to_le_bytes();
        let lbtu = self.lbtu.to_le_bytes();
        Command {
            cdw2: U32::from_bytes([lbtu[4], lbtu[5], 0, 0]),
            cdw3: U32::from_bytes([lbtu[0], lbtu[1], lbtu[2], lbtu[3]]),
            cdw10: U32::from_bytes([slba[0], slba[1], slba[2], slba[3]]),
            cdw11: U32::from_bytes([slba[4], slba[5], slba[6], slba[7]]),
            cdw12: BlocksCdw12::new()
                .with_nlb_z(nlb_z)
                .with_cetype(self.cetype & 0xF)
                .with_dtype(self.dtype & 0xF | if self.nsz { 8 } else { 0 })
                .with_stc(self.stc)
                .with_deac(self.deac || self.piremap)
                .with_prinfo(self.prinfo.into_bits() & 0xF)
                .with_fua(self.fua)
                .with_lr(self.lr)
                .0,
            cdw13: BlocksCdw13::new().with_dsm(self.dsm).with_dspec(self.dspec).0,
            cdw14: U32::new(self.lbtl),
            cdw15: BlocksCdw15::new().with_lbat(self.lbat).with_lbatm(self.lbatm).0,
            ..Command::new(opcode.0, self.nsid)
        }
    }
}

/// The way back: each parsed command as the entry that parses to it.
impl From<IoCommand> for Command {
    fn from(command: IoCommand) -> Self {
        match command {
            IoCommand::Flush { nsid } => Self::new(IoOpcode::FLUSH.0, nsid),
            IoCommand::Write(b) => b.encode(IoOpcode::WRITE),
            IoCommand::Read(b) => b.encode(IoOpcode::READ),
            IoCommand::WriteUncorrectable(b) => b.encode(IoOpcode::WRITE_UNCORRECTABLE),
            IoCommand::Compare(b) => b.encode(IoOpcode::COMPARE),
            IoCommand::WriteZeroes(b) => b.encode(IoOpcode::WRITE_ZEROES),
            IoCommand::DatasetManagement(d) => d.into(),
            IoCommand::Verify(b) => b.encode(IoOpcode::VERIFY),
            IoCommand::ReservationRegister(c) => c.into(),
            IoCommand::ReservationReport(c) => c.into(),
            IoCommand::ReservationAcquire(c) => c.into(),
            IoCommand::ReservationRelease(c) => c.into(),
            IoCommand::Copy(c) => c.into(),
            IoCommand::IoManagementReceive(c) => c.into(),
            IoCommand::IoManagementSend(c) => c.into(),
            IoCommand::ZoneManagementSend(c) => c.into(),
            IoCommand::ZoneManagementReceive(c) => c.into(),
            IoCommand::ZoneAppend(b) => b.encode(IoOpcode::ZONE_APPEND),
            IoCommand::Fabrics(c) => c.into(),
        }
    }
}

impl From<IoManagementReceive> for Command {
    fn from(c: IoManagementReceive) -> Self {
        Self {
            cdw10: ManagementCdw10::new().with_mo(c.mo).with_mos(c.mos).0,
            cdw11: U32::new(u32::try_from(c.dwords.saturating_sub(1)).unwrap_or(u32::MAX)),
            ..Self::new(IoOpcode::IO_MANAGEMENT_RECEIVE.0, c.nsid)
        }
    }
}

impl From<IoManagementSend> for Command {
    fn from(c: IoManagementSend) -> Self {
        Self {
            cdw10: ManagementCdw10::new().with_mo(c.mo).with_mos(c.mos).0,
            ..Self::new(IoOpcode::IO_MANAGEMENT_SEND.0, c.nsid)
        }
    }
}

impl From<DatasetManagement> for Command {
    fn from(d: DatasetManagement) -> Self {
        Self {
            cdw10: U32::new(u32::from(d.nr.clamp(1, 256) - 1)),
            cdw11: DsmCdw11::new().with_idr(d.idr).with_idw(d.idw).with_ad(d.ad).0,
            ..Self::new(IoOpcode::DATASET_MANAGEMENT.0, d.nsid)
        }
    }
}

/// Shorthands for what hosts ask most.
impl Command {
    /// Read `blocks` (1 to 65536) logical blocks.
    #[must_use]
    pub fn read(nsid: Nsid, slba: u64, blocks: u32) -> Self {
        IoCommand::Read(Blocks::new(nsid, slba, blocks)).into()
    }

    /// Write `blocks` (1 to 65536) logical blocks.
    #[must_use]
    pub fn write(nsid: Nsid, slba: u64, blocks: u32) -> Self {
        IoCommand::Write(Blocks::new(nsid, slba, blocks)).into()
    }

    /// Zone Append: `blocks` (1 to 65536) logical blocks to the zone that begins at `zslba`.
    #[must_use]
    pub fn zone_append(nsid: Nsid, zslba: u64, blocks: u32) -> Self {
        IoCommand::ZoneAppend(Blocks::new(nsid, zslba, blocks)).into()
    }

    /// Flush the namespace.
    #[must_use]
    pub fn flush(nsid: Nsid) -> Self {
        IoCommand::Flush { nsid }.into()
    }

    /// Write Zeroes to `blocks` (1 to 65536) logical blocks, with or without deallocating them.
    #[must_use]
    pub fn write_zeroes(nsid: Nsid, slba: u64, blocks: u32, deallocate: bool) -> Self {
        IoCommand::WriteZeroes(Blocks { deac: deallocate, ..Blocks::new(nsid, slba, blocks) }).into()
    }

    /// Deallocate the ranges in the command's data: `ranges` of them, 1 to 256.
    #[must_use]
    pub fn deallocate(nsid: Nsid, ranges: u16) -> Self {
        DatasetManagement { nsid, nr: ranges, idr: false, idw: false, ad: true }.into()
    }
}
