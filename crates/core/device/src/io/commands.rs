//! Commands that read, write and give up blocks (NVM 3.3).

use super::locate::{self, BlockLocation};
use super::transform;
use crate::block_transform::BlockAction;
use crate::contents::Contents;
use crate::core::{CommandKind, ControllerId, Core, Cx, Failure, StepCost, Token, WORK_TIME};
use ftl::{Answer, Source, StepDone, VolumeId, Write};
use media::Nanos;
use nvme::io::{Blocks, DatasetManagement, DsmRange};
use nvme::zerocopy::FromBytes;
use nvme::{NSID_ALL, Status};

/// What one Dataset Management deallocates: this many ranges (DMRL), and this many logical blocks of each (DMRSL) and of all
/// (DMSL). So that no command holds up the drive for long.
pub(crate) const DSM_RANGES: u8 = 255;
pub(crate) const DSM_BLOCKS: u32 = 4 << 20;

/// Begins a command that reads blocks: finds them, and says how they are checked on their way.
#[inline]
fn begin_read<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    blocks: &Blocks,
    (kind, action): (CommandKind, BlockAction),
    cx: &mut Cx<'_, S>,
) -> Result<BlockLocation, Failure> {
    let location = locate::locate(core, token, id, blocks, kind)?;
    // Verify transfers no data.
    match action {
        BlockAction::Verify => locate::check_dataless(&location)?,
        _ => locate::check_size(core, &location)?,
    }
    if location.transformed {
        transform::begin(core, token, id, blocks, action, cx)?;
    }
    core.enter(token);
    Ok(location)
}

#[inline]
pub(crate) fn read<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    blocks: &Blocks,
    cx: &mut Cx<'_, S>,
) -> Result<Option<Nanos>, Failure> {
    let location = begin_read(core, token, id, blocks, (CommandKind::Read, BlockAction::Read), cx)?;
    let answer = core.ftl.read(cx.now, token.io(), location.volume, location.extent, cx.storage);
    let end = end_of_read(core, token, answer, CommandKind::Read, cx)?;
    if blocks.fua { make_durable(core, token, end.unwrap_or(cx.now), cx) } else { Ok(end) }
}

/// When a read of the translation layer ends; `None` if it is a part of the command that comes later.
#[inline]
pub(super) fn end_of_read<S: Contents>(
    core: &mut Core,
    token: &Token,
    answer: Answer,
    kind: CommandKind,
    cx: &mut Cx<'_, S>,
) -> Result<Option<Nanos>, Failure> {
    if answer == Answer::Later {
        core.commands.get_mut(token).parts += 1;
    }
    answer.end().map_err(|fault| transform::read_failure(core, token, fault, kind, cx))
}

/// A command of which parts come later ends with the last of them, also where the rest of it has failed.
pub(crate) fn wait_for_parts(core: &mut Core, token: Token, rest: Result<Option<Nanos>, Failure>) {
    match rest {
        Ok(end) => {
            let entry = core.commands.get_mut(&token);
            entry.at = entry.at.max(end.unwrap_or(Nanos::ZERO));
        }
        Err(failure) => core.note_failure(&token, failure),
    }
    token.park();
}

/// Brings everything that was accepted so far to non-volatile media before the command completes: a Flush, or a read with FUA
/// (NVM 3.2.4). `end` is when the command would complete otherwise.
fn make_durable<S: Contents>(
    core: &mut Core,
    token: &Token,
    end: Nanos,
    cx: &mut Cx<'_, S>,
) -> Result<Option<Nanos>, Failure> {
    core.commands.get_mut(token).sync = true;
    match core.ftl.flush(cx.now, token.io(), cx.storage) {
        Answer::At(at) => Ok(Some(at.max(end))),
        Answer::Later => {
            let entry = core.commands.get_mut(token);
            entry.parts += 1;
            entry.at = entry.at.max(end);
            Ok(None)
        }
        Answer::Failed(fault) => Err(Failure::of_fault(fault, CommandKind::Write)),
    }
}

pub(crate) fn compare<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    blocks: &Blocks,
    cx: &mut Cx<'_, S>,
) -> Result<Option<Nanos>, Failure> {
    let location = begin_read(core, token, id, blocks, (CommandKind::Compare, BlockAction::Compare), cx)?;
    let answer = core.ftl.compare(cx.now, token.io(), location.volume, location.extent, cx.storage);
    end_of_read(core, token, answer, CommandKind::Compare, cx)
}

pub(crate) fn verify<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    blocks: &Blocks,
    cx: &mut Cx<'_, S>,
) -> Result<Option<Nanos>, Failure> {
    let location = begin_read(core, token, id, blocks, (CommandKind::Other, BlockAction::Verify), cx)?;
    let answer = match location.transformed {
        // Their contents must be checked.
        true => core.ftl.read(cx.now, token.io(), location.volume, location.extent, cx.storage),
        false => core.ftl.verify(cx.now, token.io(), location.volume, location.extent, cx.storage),
    };
    end_of_read(core, token, answer, CommandKind::Other, cx)
}

/// The first half of a Write or a Write Zeroes: where its blocks are. A directive may then choose another placement handle.
#[inline]
pub(crate) fn locate_write(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    blocks: &Blocks,
    source: Source,
) -> Result<BlockLocation, Failure> {
    if source == Source::Zeros {
        return match blocks.nsz {
            true => Err(Failure::field(50)),
            false => {
                let location = locate::locate(core, token, id, blocks, CommandKind::Other)?;
                locate::check_dataless(&location).map(|()| location)
            }
        };
    }
    let location = locate::locate(core, token, id, blocks, CommandKind::Write)?;
    locate::check_size(core, &location)?;
    Ok(location)
}

/// The second half of a Write.
#[inline]
pub(crate) fn write<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    blocks: &Blocks,
    location: BlockLocation,
    cx: &mut Cx<'_, S>,
) -> Result<Option<Nanos>, Failure> {
    if location.transformed {
        transform::begin(core, token, id, blocks, BlockAction::Write, cx)?;
    }
    store(core, token, id, location.write(token.io(), Source::Host, blocks.fua), cx)
}

/// Hands a write to the translation layer, as one part of a command.
#[inline]
pub(crate) fn store<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    write: Write,
    cx: &mut Cx<'_, S>,
) -> Result<Option<Nanos>, Failure> {
    core.enter(token);
    store_entered(core, token, id, write, cx)
}

/// The same for a command that counts as one of its namespace's already. It is durable if it asks for it, or the write cache is off.
#[inline]
pub(crate) fn store_entered<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    mut write: Write,
    cx: &mut Cx<'_, S>,
) -> Result<Option<Nanos>, Failure> {
    let durable = locate::must_be_durable(core, id, write.durable);
    write.durable = durable;
    core.commands.get_mut(token).sync |= durable;
    match core.ftl.write(cx.now, write, cx.storage) {
        Answer::At(at) => Ok(Some(at)),
        Answer::Later => {
            let entry = core.commands.get_mut(token);
            entry.parts += 1;
            entry.stalled = !durable;
            Ok(None)
        }
        Answer::Failed(fault) => Err(Failure::of_fault(fault, CommandKind::Write)),
    }
}

/// The second half of a Write Zeroes. With DEAC the pages that lie wholly in the range are deallocated, which reads as
/// zeros too; what remains at the ends is written.
pub(crate) fn write_zeroes<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    blocks: &Blocks,
    location: BlockLocation,
    cx: &mut Cx<'_, S>,
) -> Result<Option<Nanos>, Failure> {
    if location.transformed {
        transform::begin(core, token, id, blocks, BlockAction::Zeroes, cx)?;
    }
    let mut write = location.write(token.io(), Source::Zeros, blocks.fua);
    let page = u64::from(ftl::PAGE);
    let (first, last) = (write.start.next_multiple_of(page), write.end / page * page);
    let zoned = core.attached(id, blocks.nsid)?.zones.is_some();
    // Zones are written in order, and deallocated as a whole.
    if !blocks.deac || first >= last || zoned {
        return store(core, token, id, write, cx);
    }
    core.enter(token);
    write.durable = locate::must_be_durable(core, id, blocks.fua);
    core.refuse_read_only(blocks.nsid)?;
    let entry = core.commands.get_mut(token);
    entry.sync = write.durable;
    entry.kind = CommandKind::Deallocate;
    let as_failure = |fault| Failure::of_fault(fault, CommandKind::Write);
    let trimmed = core.ftl.trim(cx.now, write.volume, first, last - first, cx.storage);
    let mut at = trimmed.map_err(as_failure)?;
    let mut parts = 0;
    // Less than a page each. The transform needs to know which of the command's blocks they are.
    for part in [write.part(write.start, first), write.part(last, write.end)] {
        if part.start == part.end {
            continue;
        }
        match core.ftl.write(cx.now, part, cx.storage) {
            Answer::At(end) => at = at.max(end),
            Answer::Later => parts += 1,
            // The other end may still be under way: the command ends with it.
            Answer::Failed(fault) if parts > 0 => core.note_failure(token, as_failure(fault)),
            Answer::Failed(fault) => return Err(as_failure(fault)),
        }
    }
    let entry = core.commands.get_mut(token);
    entry.parts = parts;
    entry.at = at;
    Ok((parts == 0).then_some(at))
}

/// How far a Dataset Management came at once.
pub(crate) enum Deallocated {
    /// It is done.
    All(Nanos),
    /// It goes on in steps.
    Some(Deallocation),
}

/// What is left of a Dataset Management with many blocks.
#[derive(Debug)]
pub(crate) struct Deallocation {
    volume: VolumeId,
    /// Bytes from the begin of the volume, and how many: what comes last comes first.
    ranges: Vec<(u64, u64)>,
}

impl Deallocation {
    /// Deallocates some of it. With a time, it was the last step.
    pub fn step<S: Contents>(
        &mut self,
        core: &mut Core,
        cx: &mut Cx<'_, S>,
    ) -> (StepCost, Option<Result<Nanos, Failure>>) {
        let mut work = 0;
        while work < STEP_WORK
            && let Some((start, bytes)) = self.ranges.pop()
        {
            match deallocate(core, self.volume, start, bytes, cx) {
                Ok(done) => {
                    work += done.work;
                    if done.bytes < bytes {
                        self.ranges.push((start + done.bytes, bytes - done.bytes));
                    }
                }
                Err(failure) => return (StepCost::controller(Nanos(WORK_TIME)), Some(Err(failure))),
            }
        }
        (StepCost::controller(Nanos(work * WORK_TIME)), self.ranges.is_empty().then_some(Ok(cx.now)))
    }
}

/// Work of a step of a deallocation, over its ranges.
const STEP_WORK: u64 = ftl::STEP_MAPPED_PAGES * ftl::STEP_EMPTY_FACTOR;

fn deallocate<S: Contents>(
    core: &mut Core,
    volume: VolumeId,
    start: u64,
    bytes: u64,
    cx: &mut Cx<'_, S>,
) -> Result<StepDone, Failure> {
    let done = core.ftl.trim_step(cx.now, volume, start, bytes, cx.storage);
    done.map_err(|fault| Failure::of_fault(fault, CommandKind::Write))
}

/// Dataset Management: every range is checked before any is deallocated. What one step of the drive can do is done at once.
pub(crate) fn dataset_management<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    dsm: DatasetManagement,
    data: &[u8],
    cx: &mut Cx<'_, S>,
) -> Result<Deallocated, Failure> {
    let ns = core.attached(id, dsm.nsid)?;
    let (shift, blocks, volume) = (ns.shift, ns.blocks(), ns.volume);
    let ranges = <[DsmRange]>::ref_from_bytes(data).ok().and_then(|all| all.get(..usize::from(dsm.nr)));
    let ranges = ranges.ok_or(Status::DATA_SGL_LENGTH_INVALID)?;
    for range in ranges {
        let end = range.slba.get().checked_add(range.lengthlb.get().into());
        if end.is_none_or(|end| end > blocks) {
            core.commands.get_mut(token).lba = range.slba.get();
            return Err(Status::LBA_OUT_OF_RANGE.into());
        }
    }
    core.enter(token);
    if !dsm.ad {
        return Ok(Deallocated::All(cx.now));
    }
    core.commands.get_mut(token).kind = CommandKind::Deallocate;
    core.refuse_read_only(dsm.nsid)?;
    // What is beyond the limits stays, and is no mistake (NVM 3.3.3 and ONCS.NVMDSMSV).
    let (mut left, mut work, mut rest) = (DSM_BLOCKS, 0, Vec::new());
    for range in ranges.iter().take(DSM_RANGES.into()) {
        let blocks = range.lengthlb.get().min(left);
        left -= blocks;
        let (start, bytes) = (range.slba.get() << shift, u64::from(blocks) << shift);
        let mut done = 0;
        if work < STEP_WORK {
            let step = deallocate(core, volume, start, bytes, cx)?;
            work += step.work;
            done = step.bytes;
        }
        if done < bytes {
            rest.push((start + done, bytes - done));
        }
    }
    rest.reverse();
    Ok(match rest.is_empty() {
        true => Deallocated::All(cx.now),
        false => Deallocated::Some(Deallocation { volume, ranges: rest }),
    })
}

/// Flush of one namespace or of all (Base 7.2): the drive has one write buffer, so both are the same.
pub(crate) fn flush<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    nsid: u32,
    cx: &mut Cx<'_, S>,
) -> Result<Option<Nanos>, Failure> {
    if nsid != NSID_ALL {
        core.attached(id, nsid)?;
        core.enter(token);
    } else {
        core.check_access(id)?;
    }
    core.commands.get_mut(token).kind = CommandKind::Flush;
    make_durable(core, token, cx.now, cx)
}
