//! Copy and Write Uncorrectable (NVM 3.3.2, 3.3.7): commands that write blocks which no host sends.

use super::locate;
use super::{commands, transform};
use crate::block_transform::{BlockAction, BlockTransform};
use crate::contents::Contents;
use crate::core::{CommandKind, ControllerId, Core, Cx, Failure, Namespace, Token};
use ftl::{Source, Write};
use media::Nanos;
use nvme::copy::{COPY_RANGES_MAX, Copy, CopySource};
use nvme::io::{Blocks, PrInfo};
use nvme::{IoOpcode, Status};
use std::collections::BTreeMap;

/// Most bytes of data that one Copy moves (MCL), and that one of its ranges has (MSSRL). They are in memory while the command runs.
pub(crate) const COPY_BYTES: u32 = 1 << 20;

/// Source ranges of one Copy at most, zero-based (MSRC).
pub(crate) const COPY_RANGES_Z: u8 = (COPY_RANGES_MAX - 1) as u8;

/// Copy Descriptor Formats that there are (CDFS): 0h to 3h.
pub(crate) const COPY_FORMATS: u16 = 0xF;

/// Copies whose sources are still being read: a set answers some of their reads later. Each writes when the last read has ended.
#[derive(Debug, Default)]
pub(crate) struct ReadingCopies(BTreeMap<u32, Destination>);

impl ReadingCopies {
    /// All reads of a command have ended. If it is a Copy that has yet to write, and none of them failed, what it writes.
    pub(crate) fn read(&mut self, core: &mut Core, token: &Token) -> Option<Destination> {
        let destination = self.0.remove(&token.io().0)?;
        core.commands.get_mut(token).status.is_success().then_some(destination)
    }

    /// Power was lost.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// What a Copy writes when its sources are read.
#[derive(Debug)]
pub(crate) struct Destination {
    controller: ControllerId,
    write: Write,
    treatment: BlockTransform,
    lba: u64,
    ranges: u16,
}

impl Destination {
    /// Writes what was gathered, as one part of the command.
    pub(crate) fn write<S: Contents>(
        self,
        core: &mut Core,
        token: &Token,
        cx: &mut Cx<'_, S>,
    ) -> Result<Option<Nanos>, Failure> {
        let entry = core.commands.get_mut(token);
        (entry.lba, entry.dw0) = (self.lba, u32::from(self.ranges));
        cx.storage
            .set_transform(token.io(), &self.treatment)
            .map_err(|block_error| transform::failure(core, token, block_error))?;
        // The blocks must have been read before they are written, even if the medium says otherwise.
        let read = core.commands.get_mut(token).at;
        let written = commands::store_entered(core, token, self.controller, self.write, cx)?;
        Ok(written.map(|at| at.max(read)))
    }
}

/// The sources of a Copy that were gathered so far, in the format of the destination.
struct Gathered {
    shift: u8,
    host_metadata: u8,
    blocks: u32,
}

impl Gathered {
    /// Bytes of so many blocks.
    fn bytes(&self, blocks: u32) -> u32 {
        blocks * ((1 << self.shift) + u32::from(self.host_metadata))
    }
}

/// Write Uncorrectable: reads of the blocks fail until they are written again.
pub(crate) fn write_uncorrectable<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    blocks: &Blocks,
    cx: &mut Cx<'_, S>,
) -> Result<Option<Nanos>, Failure> {
    // It has no field but the range.
    let blocks = &Blocks::new(blocks.nsid, blocks.slba, blocks.nlb);
    let location = locate::locate(core, token, id, blocks, CommandKind::Other)?;
    locate::check_dataless(&location)?;
    core.refuse_read_only(blocks.nsid)?;
    let stamp = core.persistent.stamps.wrapping_add(1).max(1);
    if let Some(ns) = core.namespaces.get_mut(blocks.nsid).filter(|ns| ns.stamp == 0) {
        // From now on reads look for marks.
        (ns.stamp, ns.layout.transformed) = (stamp, true);
        core.persistent.stamps = stamp;
        core.record(cx.storage);
    }
    transform::begin(core, token, id, blocks, BlockAction::Mark, cx)?;
    commands::store(core, token, id, location.write(token.io(), Source::Zeros, false), cx)
}

/// Copy: every field is checked and every source read before anything is written. So a Copy that fails has copied no range, and
/// dword 0 of its completion is 0 (NVM 3.3.2.5).
pub(crate) fn copy<S: Contents>(
    core: &mut Core,
    reading: &mut ReadingCopies,
    token: &Token,
    id: ControllerId,
    copy: &Copy,
    data: &[u8],
    cx: &mut Cx<'_, S>,
) -> Result<Option<Nanos>, Failure> {
    let ns = core.attached(id, copy.nsid)?;
    let each = CopySource::bytes(copy.desfmt).filter(|_| may_copy(core, id, copy.desfmt));
    // Byte 49: the descriptor format.
    let each = each.ok_or(Failure::field(49))?;
    if ns.layout.protection.is_some_and(|p| (p.guard.bits() > 16) != (each > 32)) {
        return Err(Failure::field(49));
    }
    let limit = COPY_BYTES >> ns.shift;
    let data = data.get(..each * usize::from(copy.nr)).ok_or(Status::DATA_SGL_LENGTH_INVALID)?;
    let sources = data.chunks_exact(each).map(|bytes| CopySource::parse(copy.desfmt, bytes));
    let sources: Vec<CopySource> = sources.flatten().collect();
    let too_much = Failure::from(Status::COMMAND_SIZE_LIMIT_EXCEEDED);
    let mut total = 0;
    for source in &sources {
        total += source.nlb;
        if source.nlb > limit || total > limit {
            return Err(too_much);
        }
    }
    let target = Blocks {
        fua: copy.fua,
        lr: copy.lr,
        prinfo: copy.prinfow,
        stc: copy.stcw,
        cetype: copy.cetype,
        dtype: copy.dtype,
        lbtu: copy.lbtu,
        lbtl: copy.lbtl,
        lbat: copy.lbat,
        lbatm: copy.lbatm,
        ..Blocks::new(copy.nsid, copy.sdlba, total)
    };
    let location = locate::locate(core, token, id, &target, CommandKind::Other)?;
    if copy.dtype != 0 {
        return Err(Failure::field(50));
    }
    core.refuse_read_only(copy.nsid)?;
    let write = transform::for_command(core, id, &target, BlockAction::Write)?;
    for source in &sources {
        check_source(core, token, id, copy, source, total)?;
    }
    let mut gathered = Gathered { shift: write.shift, host_metadata: write.host_metadata, blocks: 0 };
    cx.storage.gather(token.io(), gathered.bytes(total));
    core.enter(token);
    let mut end = cx.now;
    for source in &sources {
        let read = read_source(core, token, id, &source_blocks(copy, source), &mut gathered, cx)?;
        end = end.max(read.unwrap_or(end));
    }
    let entry = core.commands.get_mut(token);
    entry.at = entry.at.max(end);
    let wait = entry.parts > 0;
    let destination = Destination {
        controller: id,
        write: location.write(token.io(), Source::Host, locate::must_be_durable(core, id, copy.fua)),
        treatment: BlockTransform { gathered: true, ..write },
        lba: copy.sdlba,
        ranges: copy.nr,
    };
    if wait {
        reading.0.insert(token.io().0, destination);
        return Ok(None);
    }
    destination.write(core, token, cx)
}

/// Formats 2h and 3h name other namespaces; the host must have enabled them (CDFE).
fn may_copy(core: &Core, id: ControllerId, format: u8) -> bool {
    core.controller(id).is_ok_and(|c| c.behavior.copy_format(format))
}

fn source_blocks(copy: &Copy, source: &CopySource) -> Blocks {
    Blocks {
        prinfo: copy.prinfor,
        stc: copy.stcr,
        lbtu: source.lbtu,
        lbtl: source.lbtl,
        lbat: source.lbat,
        lbatm: source.lbatm,
        ..Blocks::new(source.snsid.unwrap_or(copy.nsid), source.slba, source.nlb)
    }
}

fn check_source(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    copy: &Copy,
    source: &CopySource,
    total: u32,
) -> Result<(), Failure> {
    if source.fco {
        // A copy is a read and a write here.
        return Err(Status::FAST_COPY_NOT_POSSIBLE.into());
    }
    let blocks = source_blocks(copy, source);
    let from = core.attached(id, blocks.nsid)?;
    let to = core.attached(id, copy.nsid)?;
    fits(from, to, copy.prinfor, copy.prinfow)?;
    core.check_reservation(id, IoOpcode::READ.0, blocks.nsid)?;
    let end = blocks.end().filter(|end| *end <= from.blocks());
    let Some(end) = end else {
        core.commands.get_mut(token).lba = blocks.slba;
        return Err(Status::LBA_OUT_OF_RANGE.into());
    };
    let same = blocks.nsid == copy.nsid;
    if same && blocks.slba < copy.sdlba.saturating_add(total.into()) && copy.sdlba < end {
        return Err(Status::OVERLAPPING_IO_RANGE.into());
    }
    if from.layout.protection.is_none() && (copy.prinfor.into_bits() != 0 || copy.stcr) {
        return Err(Failure { location: 49, ..Status::INVALID_PROTECTION_INFORMATION.into() });
    }
    transform::for_command(core, id, &blocks, BlockAction::Read).map(|_| ())
}

/// Reads a range of a Copy behind what was gathered so far.
fn read_source<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    blocks: &Blocks,
    gathered: &mut Gathered,
    cx: &mut Cx<'_, S>,
) -> Result<Option<Nanos>, Failure> {
    let mut read = transform::for_command(core, id, blocks, BlockAction::Read)?;
    read.gathered = true;
    read.offset = gathered.bytes(gathered.blocks);
    gathered.blocks += blocks.nlb;
    let volume = core.attached(id, blocks.nsid)?.volume;
    let extent = ftl::Extent { start: blocks.slba << gathered.shift, bytes: blocks.nlb << gathered.shift };
    cx.storage
        .set_transform(token.io(), &read)
        .map_err(|block_error| transform::failure(core, token, block_error))?;
    let answer = core.ftl.read(cx.now, token.io(), volume, extent, cx.storage);
    commands::end_of_read(core, token, answer, CommandKind::Read, cx)
}

/// Whether blocks of one namespace can become those of another (NVM 3.3.2): as large, with the same metadata on the way,
/// and protected the same way unless the controller strips and inserts all there is.
fn fits(from: &Namespace, to: &Namespace, reads: PrInfo, writes: PrInfo) -> Result<(), Failure> {
    let differ = Failure::from(Status::INCOMPATIBLE_NAMESPACE);
    if let (Some(a), Some(b)) = (from.layout.protection, to.layout.protection) {
        if reads.pract() != writes.pract() {
            return Err(Failure::field(49));
        }
        if !reads.pract() && (a.guard, a.storage_bits, a.first) != (b.guard, b.storage_bits, b.first) {
            return Err(differ);
        }
    }
    let format = |ns: &Namespace, info: PrInfo| (ns.shift, ns.layout.host_metadata(info.pract()));
    if format(from, reads) != format(to, writes) { Err(differ) } else { Ok(()) }
}
