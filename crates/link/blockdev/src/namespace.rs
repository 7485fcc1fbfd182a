//! A namespace as NVMe commands.

use crate::limits::{self, ControllerLimits};
use crate::{Geometry, Limits, Operation, Verb, ZoneAction};
use nvme::copy::{Copy, CopySource};
use nvme::identify::IdentifyNamespace;
use nvme::io::{Blocks, DatasetManagement, DsmRange, PrInfo};
use nvme::zerocopy::IntoBytes;
use nvme::zone::{ZoneManagementSend, ZoneSendAction};
use nvme::{Command, IoOpcode, Nsid, Status};
use std::num::NonZeroU64;

/// Bytes of protection information with guards of 16 bits.
const TUPLE: u16 = 8;

/// What encoding commands on a namespace takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Namespace {
    /// Namespace identifier.
    pub nsid: Nsid,
    /// Which namespace with this identifier, in which format: another number after each creation and each Format. `None` if the drive has no
    /// generations.
    pub generation: Option<NonZeroU64>,
    /// Size in logical blocks.
    pub blocks: u64,
    /// Bytes of data per logical block: a power of two, 512 or more.
    pub block_size: u32,
    /// Type of its protection information, 1 to 3, which the controller inserts and strips; 0 if it has none.
    pub protection: u8,
    /// Logical blocks of one command at most.
    pub limits: Limits,
    /// Logical blocks of one range of a deallocation at most.
    pub deallocate_range: u32,
    /// Logical blocks of one source range of a Copy at most.
    pub copy_range: u32,
}

/// Why a host that leaves metadata to the controller cannot use a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// It has no size: it is not attached, or not there.
    Absent,
    /// Its blocks carry metadata that the controller does not insert and strip by itself.
    Metadata,
    /// Its LBA format is none.
    Format,
}

/// Whether a status says that the host has no such namespace any more. A drive takes an NSID that is not attached for an invalid field (Base 3.2.1.4). The
/// other fields of an [encoded](Namespace::encode) command are valid.
#[must_use]
pub fn is_absent(status: Status) -> bool {
    [Status::INVALID_NAMESPACE, Status::NAMESPACE_NOT_ATTACHED, Status::INVALID_FIELD]
        .contains(&status.code())
}

impl Namespace {
    /// From what the drive says of it.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn new(
        nsid: Nsid,
        identified: &IdentifyNamespace,
        controller: &ControllerLimits,
    ) -> Result<Self, Unusable> {
        if identified.nsze.get() == 0 {
            return Err(Unusable::Absent);
        }
        let format = identified.format();
        let protection = identified.dps.pit();
        let stripped = protection != 0 && format.ms.get() == TUPLE;
        if format.ms.get() != 0 && !stripped {
            return Err(Unusable::Metadata);
        }
        let block_size = format.data_bytes().ok_or(Unusable::Format)?;
        let (copy_range, copy) =
            limits::copy(identified.mssrl.get(), identified.mcl.get(), identified.msrc_z);
        Ok(Self {
            nsid,
            generation: NonZeroU64::new(identified.generation()),
            blocks: identified.nsze.get(),
            block_size,
            protection,
            limits: controller.of_blocks(block_size, copy),
            deallocate_range: controller.range_blocks.max(1),
            copy_range,
        })
    }

    /// A namespace without protection information, of a drive whose only limits are those of the commands' fields.
    #[must_use]
    pub fn plain(nsid: Nsid, blocks: u64, block_size: u32) -> Self {
        let (copy_range, copy) = limits::copy(0, 0, 0);
        let limits = ControllerLimits::NONE.of_blocks(block_size, copy);
        Self {
            nsid,
            generation: None,
            blocks,
            block_size,
            protection: 0,
            limits,
            deallocate_range: u32::MAX,
            copy_range,
        }
    }

    /// That of the namespace as a block device.
    #[inline]
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        Geometry { block_size: self.block_size, blocks: self.blocks, limits: self.limits }
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u128 {
        u128::from(self.blocks) * u128::from(self.block_size)
    }

    /// The command for a part within the limits, and what its data is.
    ///
    /// The controller inserts protection information and strips it (PRACT). Reads let it check the guard (PRCHK). Reference tags are
    /// the lower part of the address, as type 1 wants them.
    #[inline]
    #[must_use]
    pub fn encode(&self, part: &Operation) -> (Command, Payload) {
        let Operation { verb, lba, blocks } = *part;
        match verb {
            Verb::Read | Verb::ReadFua => {
                let range = Blocks { fua: verb.fua(), prinfo: self.checked(), ..self.range(lba, blocks) };
                (range.encode(IoOpcode::READ), Payload::Read)
            }
            Verb::Write | Verb::WriteFua => {
                let range = Blocks { fua: verb.fua(), ..self.range(lba, blocks) };
                (range.encode(IoOpcode::WRITE), Payload::Write)
            }
            Verb::Flush => (Command::flush(self.nsid), Payload::None),
            Verb::Trim => self.deallocation(lba, blocks),
            Verb::Copy { from, fua } => self.copy(lba, from, blocks, fua),
            Verb::WriteZeroes { deallocate } => {
                let range = Blocks { deac: deallocate, ..self.range(lba, blocks) };
                (range.encode(IoOpcode::WRITE_ZEROES), Payload::None)
            }
            Verb::Append => (self.append(lba, blocks), Payload::Write),
            Verb::Zone(action) => {
                let action = match action {
                    ZoneAction::Finish => ZoneSendAction::FINISH,
                    ZoneAction::Reset => ZoneSendAction::RESET,
                };
                (ZoneManagementSend::new(self.nsid, action, lba).into(), Payload::None)
            }
        }
    }

    /// The command that compares blocks with its data: 1 to 65,536 of them.
    #[must_use]
    pub fn compare(&self, lba: u64, blocks: u32) -> Command {
        self.range(lba, blocks).encode(IoOpcode::COMPARE)
    }

    /// The command that appends blocks to the zone that begins at `zslba`: 1 to 65,536 of them. Reference tags count from the zone's
    /// start, and the controller remaps them, as types 1 and 2 want it.
    #[must_use]
    pub fn append(&self, zslba: u64, blocks: u32) -> Command {
        let piremap = matches!(self.protection, 1 | 2);
        Blocks { piremap, ..self.range(zslba, blocks) }.encode(IoOpcode::ZONE_APPEND)
    }

    /// The same with Force Unit Access: the blocks are durable when it completes.
    #[must_use]
    pub fn append_durably(&self, zslba: u64, blocks: u32) -> Command {
        let piremap = matches!(self.protection, 1 | 2);
        Blocks { piremap, fua: true, ..self.range(zslba, blocks) }.encode(IoOpcode::ZONE_APPEND)
    }

    #[inline]
    fn range(&self, lba: u64, blocks: u32) -> Blocks {
        Blocks { prinfo: self.stripped(), lbtl: lba as u32, ..Blocks::new(self.nsid, lba, blocks) }
    }

    /// The controller inserts or strips.
    #[inline]
    fn stripped(&self) -> PrInfo {
        PrInfo::new().with_pract(self.protection != 0)
    }

    /// The controller checks the guard and strips.
    #[inline]
    fn checked(&self) -> PrInfo {
        self.stripped().with_check_guard(self.protection != 0)
    }

    #[inline(never)]
    fn deallocation(&self, lba: u64, blocks: u32) -> (Command, Payload) {
        let ranges = Ranges { lba, blocks, each: self.deallocate_range.max(1), copy: false };
        let dsm = DatasetManagement { nsid: self.nsid, nr: ranges.count(), idr: false, idw: false, ad: true };
        (dsm.into(), Payload::Ranges(ranges))
    }

    #[inline(never)]
    fn copy(&self, lba: u64, from: u64, blocks: u32, fua: bool) -> (Command, Payload) {
        let ranges = Ranges { lba: from, blocks, each: self.copy_range.max(1), copy: true };
        let copy = Copy {
            nsid: self.nsid,
            sdlba: lba,
            nr: ranges.count(),
            fua,
            prinfor: self.checked(),
            prinfow: self.stripped(),
            lbtl: lba as u32,
            ..Copy::default()
        };
        (copy.into(), Payload::Ranges(ranges))
    }
}

/// What the data of a command is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    /// It has none.
    None,
    /// The blocks, to the host.
    Read,
    /// The blocks, from the host.
    Write,
    /// A list of ranges, from the host.
    Ranges(Ranges),
}

/// The ranges of a deallocation, or the source ranges of a Copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ranges {
    lba: u64,
    blocks: u32,
    /// Blocks of each at most.
    each: u32,
    copy: bool,
}

impl Ranges {
    fn count(&self) -> u16 {
        u16::try_from(self.blocks.div_ceil(self.each).max(1)).unwrap_or(u16::MAX)
    }

    /// Puts them at the end of `out`, as the command's data has them.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (mut lba, mut left) = (self.lba, self.blocks);
        loop {
            let blocks = left.min(self.each);
            if self.copy {
                let source = CopySource { slba: lba, nlb: blocks, lbtl: lba as u32, ..CopySource::default() };
                source.write(0, |bytes| out.extend_from_slice(bytes));
            } else {
                out.extend_from_slice(DsmRange::new(lba, blocks).as_bytes());
            }
            lba += u64::from(blocks);
            left -= blocks;
            if left == 0 {
                return;
            }
        }
    }
}
