//! Where the blocks of a command are, and the checks that all commands on blocks share.

use crate::core::{CommandKind, ControllerId, Core, Failure, Token, TransportModel};
use ftl::{Extent, Io, Source, VolumeId, Write};
use nvme::Status;
use nvme::io::Blocks;

/// Where a command's blocks are, after every check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockLocation {
    pub volume: VolumeId,
    pub extent: Extent,
    /// Whether the blocks are more than plain bytes: see [`transform::begin`](super::transform::begin).
    pub transformed: bool,
    /// Bytes of metadata that travel between the data of the blocks.
    metadata: u32,
    /// Metadata travels in a separate buffer, which the host does not have.
    lacks_buffer: bool,
    /// Placement handle of what is written.
    pub handle: u8,
}

impl BlockLocation {
    /// A write of a command to its blocks.
    #[inline]
    pub fn write(&self, io: Io, source: Source, fua: bool) -> Write {
        Write { durable: fua, handle: self.handle, ..Write::new(io, self.volume, self.extent, source) }
    }
}

/// The checks that all commands on blocks share: namespace, range, fields that only mean something
/// with what this drive does not have.
#[inline]
pub(crate) fn locate(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    b: &Blocks,
    kind: CommandKind,
) -> Result<BlockLocation, Failure> {
    let ns = core.attached(id, b.nsid)?;
    let (shift, blocks, volume) = (ns.shift, ns.blocks(), ns.volume);
    // Of the layout only what is needed: to copy all of it costs more than the checks.
    let (protected, transformed) = (ns.layout.protection.is_some(), ns.layout.transformed);
    let block_metadata = u32::from(ns.layout.host_metadata(b.prinfo.pract()));
    let (metadata, lacks_buffer) = match ns.layout.separate {
        false => (block_metadata * b.nlb, false),
        true => (0, block_metadata > 0 && core.controller(id)?.transport == TransportModel::Message),
    };
    let handle = ns.handle(0).unwrap_or(0);
    let entry = core.commands.get_mut(token);
    entry.lba = b.slba;
    entry.kind = kind;
    let end = b.end().filter(|end| *end <= blocks).ok_or(Failure {
        // Bytes 40 to 47: the starting LBA.
        location: 40,
        ..Status::LBA_OUT_OF_RANGE.into()
    })?;
    debug_assert!(end >= b.slba);
    let bytes = b.nlb << shift;
    entry.bytes = bytes;
    if (b.prinfo.into_bits() != 0 || b.stc) && !protected {
        return Err(Failure { location: 51, ..Status::INVALID_PROTECTION_INFORMATION.into() });
    }
    if b.cetype != 0 {
        return Err(Failure::field(50));
    }
    let extent = Extent { start: b.slba << shift, bytes };
    Ok(BlockLocation { volume, extent, transformed, metadata, lacks_buffer, handle })
}

/// Commands that move data between host and controller: MDTS, and a way for the metadata.
#[inline]
pub(crate) fn check_size(core: &Core, location: &BlockLocation) -> Result<(), Failure> {
    check_length(location, core.config.max_transfer)
}

/// Checks that a command moves at most `most` bytes. Its host must have a buffer for all of them.
#[inline]
pub(crate) fn check_length(location: &BlockLocation, most: u32) -> Result<(), Failure> {
    if location.lacks_buffer {
        return Err(Status::INVALID_NAMESPACE.into());
    }
    // Metadata counts if it lies between the data (MDTS).
    if location.extent.bytes.saturating_add(location.metadata) > most {
        return Err(Failure::field(48));
    }
    Ok(())
}

/// Bytes of the blocks of one Verify, Write Zeroes or Write Uncorrectable at most (VSL, WZSL, WUSL), as no transfer limits them.
pub(crate) const DATALESS_BYTES: u32 = 8 << 20;

/// Commands without data on blocks: VSL, WZSL, WUSL.
#[inline]
pub(crate) fn check_dataless(location: &BlockLocation) -> Result<(), Failure> {
    if location.extent.bytes > DATALESS_BYTES { Err(Failure::field(48)) } else { Ok(()) }
}

/// Whether a write must be durable before it completes: FUA, or a volatile write cache that is off.
#[inline]
pub(crate) fn must_be_durable(core: &Core, id: ControllerId, fua: bool) -> bool {
    let cache_off = || {
        core.config.has_volatile_write_cache()
            && core.controllers.get(id).is_some_and(|c| !c.values.write_cache)
    };
    fua || cache_off()
}
