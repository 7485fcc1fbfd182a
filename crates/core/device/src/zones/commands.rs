//! Zone Append, Zone Management Send and Zone Management Receive.

use super::describe::{EXTENSION_BYTES, zones_of};
use super::report::ZoneReportWork;
use super::sweep::ZoneSweep;
use crate::contents::Contents;
use crate::core::{CommandKind, ControllerId, Core, Cx, Failure, Output, Token};
use crate::io::commands as io;
use crate::io::locate::check_length;
use drive_config::protection::Protection;
use ftl::{Answer, Fault, Source, VolumeId, ZoneAction, ZoneLayout, ZoneTarget};
use media::Nanos;
use nvme::Status;
use nvme::io::Blocks;
use nvme::zone::{ZoneManagementReceive, ZoneManagementSend, ZoneSendAction};

/// How far a command on zones came at once.
pub(crate) enum ZonesDone {
    /// It is done; without a time, the translation layer says when.
    All(Option<Nanos>),
    /// It goes on in steps.
    Swept(ZoneSweep),
    /// Likewise.
    Reported(ZoneReportWork),
}

/// Zone Append: the drive says in the completion where the data went.
pub(crate) fn append<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    blocks: &Blocks,
    cx: &mut Cx<'_, S>,
) -> Result<Option<Nanos>, Failure> {
    let (volume, shift, zones) = zones_of(core, id, blocks.nsid)?;
    let mut location = io::locate_write(core, token, id, blocks, Source::Host)?;
    check_length(&location, core.config.max_append)?;
    let start = location.extent.start;
    if !start.is_multiple_of(zones.size) {
        return Err(Failure::field(40));
    }
    if let Some(protection) = &core.attached(id, blocks.nsid)?.layout.protection {
        check_tags(protection, blocks)?;
    }
    let at = core.ftl.append_at(volume, start, location.extent.bytes);
    // It lies in the zone, so it lies in the namespace.
    location.extent.start = at.map_err(|fault| Failure::of_fault(fault, CommandKind::Write))?;
    let blocks = Blocks { slba: location.extent.start >> shift, ..*blocks };
    let entry = core.commands.get_mut(token);
    (entry.lba, entry.dw0, entry.dw1) = (blocks.slba, blocks.slba as u32, (blocks.slba >> 32) as u32);
    io::write(core, token, id, &blocks, location, cx)
}

/// Whether the tags of an append can be those of where the data goes (ZNS 3.4.1): with type 1 they are, so the host has them remapped
/// from those of the zone's start, and with type 3 they stay.
fn check_tags(protection: &Protection, blocks: &Blocks) -> Result<(), Failure> {
    let (_, reference) = protection.split(blocks.lbtu, blocks.lbtl);
    let fits = match protection.kind {
        1 => blocks.piremap && protection.may_expect(reference, blocks.slba),
        3 => !blocks.piremap,
        _ => true,
    };
    match fits {
        true => Ok(()),
        false => Err(Failure { location: 51, ..Status::INVALID_PROTECTION_INFORMATION.into() }),
    }
}

/// Zone Management Send.
pub(crate) fn send<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    c: &ZoneManagementSend,
    data: &[u8],
    cx: &mut Cx<'_, S>,
) -> Result<ZonesDone, Failure> {
    let (volume, shift, zones) = zones_of(core, id, c.nsid)?;
    // These concern one zone each.
    let single = [ZoneSendAction::SET_DESCRIPTOR_EXTENSION, ZoneSendAction::FLUSH_ZRWA].contains(&c.action);
    if c.select_all && single {
        return Err(Failure::field(53));
    }
    let target = match c.select_all {
        true => ZoneTarget::All,
        // A commit names the last block that it is for.
        false if c.action == ZoneSendAction::FLUSH_ZRWA => {
            let lba = c.slba - c.slba % (zones.size >> shift);
            ZoneTarget::One(zone_at(lba, shift, &zones)?)
        }
        false => ZoneTarget::One(zone_at(c.slba, shift, &zones)?),
    };
    let action = match c.action {
        ZoneSendAction::OPEN if c.zrwa && zones.zrwa.is_none() => return Err(Failure::field(53)),
        ZoneSendAction::OPEN if c.zrwa => ZoneAction::OpenWithZrwa,
        ZoneSendAction::FLUSH_ZRWA if zones.zrwa.is_none() => return Err(Failure::field(52)),
        ZoneSendAction::FLUSH_ZRWA => ZoneAction::Commit(((c.slba % (zones.size >> shift)) + 1) << shift),
        ZoneSendAction::OPEN => ZoneAction::Open,
        ZoneSendAction::CLOSE => ZoneAction::Close,
        ZoneSendAction::FINISH => ZoneAction::Finish,
        ZoneSendAction::RESET => ZoneAction::Reset,
        ZoneSendAction::OFFLINE => ZoneAction::TakeOffline,
        ZoneSendAction::SET_DESCRIPTOR_EXTENSION => {
            let extension = data.get(..EXTENSION_BYTES as usize).ok_or(Status::DATA_SGL_LENGTH_INVALID)?;
            ZoneAction::Extend(extension)
        }
        _ => return Err(Failure::field(52)),
    };
    core.enter(token);
    let entry = core.commands.get_mut(token);
    (entry.lba, entry.kind) = (c.slba, CommandKind::Other);
    match action {
        // The others concern no more zones than can be active.
        ZoneAction::Reset if c.select_all => return sweep(core, token, volume, zones, ZoneAction::Reset, cx),
        ZoneAction::TakeOffline if c.select_all => {
            return sweep(core, token, volume, zones, ZoneAction::TakeOffline, cx);
        }
        _ => {}
    }
    match core.ftl.manage_zones(cx.now, token.io(), volume, target, action, cx.storage) {
        Answer::At(at) => Ok(ZonesDone::All(Some(at))),
        Answer::Later => {
            core.commands.get_mut(token).parts += 1;
            Ok(ZonesDone::All(None))
        }
        Answer::Failed(fault) => Err(Failure::of_fault(fault, CommandKind::Other)),
    }
}

/// Changes all zones that an action concerns: what one step of the drive can do at once, the rest in steps.
fn sweep<S: Contents>(
    core: &mut Core,
    token: &Token,
    volume: VolumeId,
    zones: ZoneLayout,
    action: ZoneAction<'static>,
    cx: &mut Cx<'_, S>,
) -> Result<ZonesDone, Failure> {
    let mut sweep = ZoneSweep::new(volume, zones, action);
    match sweep.step(core, token, cx) {
        (_, Some(end)) => end.map(|at| ZonesDone::All(Some(at))),
        (_, None) => {
            // The steps are a part of the command, which does not end before the last of them.
            core.commands.get_mut(token).parts += 1;
            Ok(ZonesDone::Swept(sweep))
        }
    }
}

/// The zone that begins at a block.
fn zone_at(lba: u64, shift: u8, zones: &ZoneLayout) -> Result<u32, Failure> {
    let blocks = zones.size >> shift;
    let zone = lba / blocks;
    if zone >= zones.zones.into() {
        return Err(Failure { location: 40, ..Failure::of_fault(Fault::OutOfRange, CommandKind::Other) });
    }
    if !lba.is_multiple_of(blocks) {
        return Err(Failure::field(40));
    }
    Ok(zone as u32)
}

/// Zone Management Receive. What one step of the drive can look at is reported at once.
pub(crate) fn receive<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    c: &ZoneManagementReceive,
    cx: &mut Cx<'_, S>,
) -> Result<ZonesDone, Failure> {
    let mut report = ZoneReportWork::begin(core, id, c)?;
    let (_, data) = report.step(core);
    let Some(bytes) = data else {
        core.enter(token);
        return Ok(ZonesDone::Reported(report));
    };
    cx.out.push(Output::Data { io: token.io(), bytes });
    Ok(ZonesDone::All(Some(cx.now)))
}
