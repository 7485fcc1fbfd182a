//! Flexible Data Placement (Base 8.1.10, TP4146).
//!
//! An Endurance Group's reclaim unit handles are the placement handles of its NVM Set. There is one reclaim group and one
//! configuration. What a group keeps is in [`group`]; the core stores it and knows which sets place data.

pub(crate) mod group;
pub(crate) mod logs;

use crate::contents::Contents;
use crate::core::{AdminResult, ControllerId, Core, Cx, Direction, Failure, Namespace, Reply};
use ftl::{PAGE, PlacementChange, PlacementNote, SetId};
use group::{EVENTS, FdpGroup, SavedFdpEvent, bit};
use media::Nanos;
use nvme::admin::{GetFeatures, SetFeatures};
use nvme::fdp::*;
use nvme::feature::{FdpEventsCdw11, FdpMode, Select};
use nvme::identify::NamespaceCreate;
use nvme::io::{IoManagementReceive, IoManagementSend};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{Status, U16, U64};

/// The NVM Set of an Endurance Group: they have the same numbers.
fn set_of(endgid: u16) -> Option<SetId> {
    endgid.checked_sub(1).and_then(|i| u8::try_from(i).ok()).map(SetId)
}

fn group(core: &Core, set: SetId) -> Option<&FdpGroup> {
    core.persistent.fdp.get(usize::from(set.0))
}

fn group_mut(core: &mut Core, set: SetId) -> &mut FdpGroup {
    let index = usize::from(set.0);
    if core.persistent.fdp.len() <= index {
        core.persistent.fdp.resize(index + 1, FdpGroup::default());
    }
    &mut core.persistent.fdp[index]
}

/// Enables it where the configuration of a new drive says so.
pub(crate) fn enable_initial(core: &mut Core) {
    for set in core.config.fdp.clone() {
        if let Some(set) = set_of(set) {
            group_mut(core, set).enabled = true;
        }
    }
}

/// Tells the translation layer to note its changes to reclaim units where a host logs them.
pub(crate) fn refresh_notes(core: &mut Core) {
    for i in 0..core.ftl.set_count() {
        let set = SetId(i as u8);
        let notes = core.is_placing(set) && group(core, set).is_some_and(FdpGroup::wants_notes);
        core.ftl.note_placement(set, notes);
    }
}

/// The reclaim unit handles of a namespace that is to be created, and whether the controller chose them. Without
/// Flexible Data Placement there are none.
///
/// # Errors
/// Invalid Placement Handle List, or FDP Disabled and Invalid Field where a host names handles that there are not.
pub(crate) fn choose_handles(
    core: &Core,
    set: SetId,
    new: &NamespaceCreate,
) -> Result<(Vec<u8>, bool), Failure> {
    let count = usize::from(new.nphndls.get());
    if !core.is_placing(set) {
        return match count {
            0 => Ok((Vec::new(), false)),
            _ if core.can_place(set) => Err(Status::FDP_DISABLED.into()),
            _ => Err(Status::INVALID_FIELD.into()),
        };
    }
    let invalid = || Failure::from(Status::INVALID_PLACEMENT_HANDLE_LIST);
    let uses = handle_uses(core, set);
    if count == 0 {
        // A free handle first; then one that the controller gave to other namespaces.
        let free = |wanted| uses.iter().position(|u| *u == wanted);
        let chosen = free(ReclaimUnitHandleUse::UNUSED).or_else(|| free(ReclaimUnitHandleUse::CONTROLLER));
        return Ok((vec![chosen.ok_or_else(invalid)? as u8], true));
    }
    let list = new.phndl.get(..count).ok_or_else(invalid)?;
    let mut handles = Vec::with_capacity(count);
    for ruhid in list {
        let usable =
            uses.get(usize::from(ruhid.get())).is_some_and(|u| *u != ReclaimUnitHandleUse::CONTROLLER);
        let handle = u8::try_from(ruhid.get()).ok().filter(|h| usable && !handles.contains(h));
        handles.push(handle.ok_or_else(invalid)?);
    }
    Ok((handles, false))
}

/// Who uses each reclaim unit handle of a set.
fn handle_uses(core: &Core, set: SetId) -> Vec<ReclaimUnitHandleUse> {
    let mut uses = vec![ReclaimUnitHandleUse::UNUSED; core.ftl.handles(set)];
    for (_, ns) in core.namespaces.iter().filter(|(_, ns)| ns.set == set) {
        for handle in &ns.handles {
            if let Some(u) = uses.get_mut(usize::from(*handle)) {
                *u = match ns.handles_by_controller {
                    true => ReclaimUnitHandleUse::CONTROLLER,
                    false => ReclaimUnitHandleUse::HOST,
                };
            }
        }
    }
    uses
}

/// The placement handle of the translation layer for a write with a directive of data placement. An invalid identifier
/// places the data as a write without one, and is logged (Base 8.1.10.2).
///
/// # Errors
/// Invalid Field if Flexible Data Placement is not enabled.
#[cold]
pub(crate) fn place_by_identifier(core: &mut Core, nsid: u32, pid: u16, now: Nanos) -> Result<u8, Failure> {
    let ns = core.namespaces.get(nsid).ok_or(Status::INVALID_NAMESPACE)?;
    let (set, handle, default) = (ns.set, ns.handle(pid), ns.handle(0).unwrap_or(0));
    if !core.is_placing(set) {
        return Err(Failure::field(50));
    }
    if handle.is_none()
        && group(core, set).is_some_and(|g| g.logs(default, FdpEventType::INVALID_PLACEMENT_IDENTIFIER))
    {
        let time = event_time(core, now);
        group_mut(core, set).push(SavedFdpEvent {
            kind: FdpEventType::INVALID_PLACEMENT_IDENTIFIER.0,
            flags: event_flags::PID | event_flags::NSID,
            pid,
            time,
            nsid,
            specific: [0; 16],
            handle: 0,
        });
    }
    Ok(handle.unwrap_or(default))
}

fn event_time(core: &Core, at: Nanos) -> [u8; 8] {
    let mut time = [0; 8];
    time.copy_from_slice(core.clock.read(at).as_bytes());
    time
}

/// The namespace of an I/O Management command, if Flexible Data Placement is enabled for it.
fn managed(core: &Core, id: ControllerId, nsid: u32) -> Result<&Namespace, Failure> {
    let ns = core.attached(id, nsid)?;
    if !core.is_placing(ns.set) {
        return Err(Status::FDP_DISABLED.into());
    }
    Ok(ns)
}

/// I/O Management Receive: Reclaim Unit Handle Status (Base 7.3.1).
pub(crate) fn receive(core: &Core, id: ControllerId, c: IoManagementReceive) -> Result<Vec<u8>, Failure> {
    if c.dwords * 4 > u64::from(core.config.max_transfer) {
        return Err(Failure::field(44));
    }
    if !core.has_placement() {
        return Err(Failure { location: 0, ..Status::INVALID_OPCODE.into() });
    }
    let ns = managed(core, id, c.nsid)?;
    if c.mo != RUH_STATUS {
        return Err(Failure::field(40));
    }
    let count = ns.handles.len() as u16;
    let head = ReclaimUnitHandleStatusHeader { nruhsd: U16::new(count), ..Default::default() };
    let mut out = head.as_bytes().to_vec();
    for (pid, handle) in (0..count).zip(&ns.handles) {
        let (_, room) = core.ftl.reclaim_unit(ns.set, *handle).unwrap_or((0, 0));
        let status = ReclaimUnitHandleStatus {
            pid: U16::new(pid),
            ruhid: U16::new((*handle).into()),
            ruamw: U64::new(room >> ns.shift),
            ..Default::default()
        };
        out.extend_from_slice(status.as_bytes());
    }
    out.resize((c.dwords * 4) as usize, 0);
    Ok(out)
}

/// I/O Management Send: Reclaim Unit Handle Update (Base 7.4.1). All identifiers are checked before any handle
/// is changed.
pub(crate) fn send<S: Contents>(
    core: &mut Core,
    id: ControllerId,
    c: IoManagementSend,
    data: &[u8],
    cx: &mut Cx<'_, S>,
) -> Result<Nanos, Failure> {
    if !core.has_placement() {
        return Err(Failure { location: 0, ..Status::INVALID_OPCODE.into() });
    }
    let ns = managed(core, id, c.nsid)?;
    if c.mo != RUH_UPDATE {
        return Err(Failure::field(40));
    }
    let set = ns.set;
    let list = <[U16]>::ref_from_bytes(data).ok().and_then(|all| all.get(..usize::from(c.mos) + 1));
    let list = list.ok_or(Status::DATA_SGL_LENGTH_INVALID)?;
    let mut handles = Vec::new();
    for pid in list {
        let handle = ns.handle(pid.get()).ok_or(Status::INVALID_FIELD)?;
        if !handles.contains(&(pid.get(), handle)) {
            handles.push((pid.get(), handle));
        }
    }
    for (pid, handle) in handles {
        let left = core.ftl.renew_handle(cx.now, set, handle, cx.storage);
        // What stays empty is lost to others as if it had been written.
        core.charge_media(c.nsid, Direction::Write, left, cx.now);
        if left > 0 && group(core, set).is_some_and(|g| g.logs(handle, FdpEventType::NOT_FULLY_WRITTEN)) {
            let time = event_time(core, cx.now);
            group_mut(core, set).push(SavedFdpEvent {
                kind: FdpEventType::NOT_FULLY_WRITTEN.0,
                flags: event_flags::PID | event_flags::NSID | event_flags::LOCATION,
                pid,
                time,
                nsid: c.nsid,
                specific: [0; 16],
                handle,
            });
        }
    }
    Ok(cx.now)
}

/// Moves the notes of the translation layer on a set into the group's log.
pub(crate) fn gather_notes(core: &mut Core, endgid: u16) {
    let Some(set) = set_of(endgid).filter(|set| core.is_placing(*set)) else { return };
    for note in core.ftl.placement_notes(set) {
        if let Some(event) = event_of(core, set, note) {
            group_mut(core, set).push(event);
        }
    }
}

fn event_of(core: &Core, set: SetId, note: PlacementNote) -> Option<SavedFdpEvent> {
    let (handle, time) = (note.handle, event_time(core, note.at));
    let (kind, pages, first) = match note.change {
        PlacementChange::Moved { pages, first } => (FdpEventType::MEDIA_REALLOCATED, pages, first),
        PlacementChange::Filled => (FdpEventType::IMPLICITLY_MODIFIED, 0, None),
    };
    if !group(core, set)?.logs(handle, kind) {
        return None;
    }
    let mut event = SavedFdpEvent {
        kind: kind.0,
        flags: event_flags::LOCATION,
        pid: 0,
        time,
        nsid: 0,
        specific: [0; 16],
        handle,
    };
    let owner = |volume| core.namespaces.iter().find(|(_, ns)| ns.volume == volume);
    if let Some((nsid, ns, page)) = first.and_then(|(v, page)| owner(v).map(|(id, ns)| (id, ns, page))) {
        event.nsid = nsid;
        event.flags |= event_flags::NSID;
        if let Some(pid) = ns.handles.iter().position(|h| *h == handle) {
            event.pid = pid as u16;
            event.flags |= event_flags::PID;
        }
        let moved = (u64::from(pages) * u64::from(PAGE)) >> ns.shift;
        let lba = (page * u64::from(PAGE)) >> ns.shift;
        let specific = MediaReallocated {
            // What was moved may belong to several namespaces; the block is one of this.
            sef: 1,
            nlbam: U16::new(u16::try_from(moved).unwrap_or(u16::MAX)),
            lba: U64::new(lba),
            ..Default::default()
        };
        event.specific.copy_from_slice(specific.as_bytes());
    }
    Some(event)
}

/// Get Features: Flexible Data Placement (Base 5.1.25.1.20).
pub(crate) fn get_mode(core: &Core, c: &GetFeatures) -> AdminResult {
    let endgid = c.cdw11 as u16;
    let set = set_of(endgid).filter(|s| usize::from(s.0) < core.ftl.set_count());
    let set = set.ok_or(Failure::field(44))?;
    let enabled = match c.sel {
        Select::DEFAULT => core.config.fdp.contains(&endgid),
        _ => core.is_placing(set),
    };
    Ok(Reply::Done(FdpMode::new().with_fdpe(enabled).into_bits().get()))
}

/// Set Features: Flexible Data Placement. It can be changed while the Endurance Group has no namespaces; the
/// value outlives power, whether it is to be saved or not.
pub(crate) fn set_mode<S: Contents>(core: &mut Core, c: &SetFeatures, cx: &mut Cx<'_, S>) -> AdminResult {
    let set = set_of(c.cdw11 as u16).filter(|set| core.can_place(*set)).ok_or(Failure::field(44))?;
    let mode = FdpMode::from_bits(c.cdw12.into());
    if mode.fdpe() && mode.fdpcidx() != 0 {
        return Err(Failure::field(49));
    }
    if mode.fdpe() == core.is_placing(set) {
        return Ok(Reply::Done(0));
    }
    if core.namespaces.iter().any(|(_, ns)| ns.set == set) {
        return Err(Status::COMMAND_SEQUENCE_ERROR.into());
    }
    *group_mut(core, set) = FdpGroup::new(mode.fdpe());
    refresh_notes(core);
    core.record(cx.storage);
    Ok(Reply::Done(0))
}

/// The set and the reclaim unit handle that FDP Events is about.
fn event_handle(core: &Core, id: ControllerId, nsid: u32, cdw11: u32) -> Result<(SetId, u8), Failure> {
    if !core.controller(id)?.is_attached(nsid) {
        return Err(core.no_namespace(nsid));
    }
    let ns = core.namespaces.get(nsid).ok_or(Status::INVALID_NAMESPACE)?;
    if !core.is_placing(ns.set) {
        return Err(Status::FDP_DISABLED.into());
    }
    let placement = FdpEventsCdw11::from_bits(cdw11.into()).phndl();
    Ok((ns.set, ns.handle(placement).ok_or(Failure::field(44))?))
}

/// Get Features: FDP Events (Base 5.1.25.1.21): the types that the drive has, and which are enabled.
pub(crate) fn get_events(core: &Core, id: ControllerId, c: &GetFeatures) -> AdminResult {
    let (set, handle) = event_handle(core, id, c.nsid, c.cdw11)?;
    let room = usize::from(FdpEventsCdw11::from_bits(c.cdw11.into()).noet());
    if room == 0 {
        return Err(Failure::field(46));
    }
    let filter = match c.sel {
        Select::DEFAULT => 0,
        _ => group(core, set).map_or(0, |g| g.filter(handle)),
    };
    let mut data = Vec::new();
    for fdpet in EVENTS.into_iter().take(room) {
        let enabled = u8::from(filter & bit(fdpet) != 0);
        data.extend_from_slice(FdpEventDescriptor { fdpet, fdpeta: enabled }.as_bytes());
    }
    data.resize(room * size_of::<FdpEventDescriptor>(), 0);
    Ok(Reply::Data(data, EVENTS.len().min(room) as u32))
}

/// Set Features: FDP Events. What is enabled outlives power.
pub(crate) fn set_events<S: Contents>(
    core: &mut Core,
    id: ControllerId,
    c: &SetFeatures,
    data: &[u8],
    cx: &mut Cx<'_, S>,
) -> AdminResult {
    let (set, handle) = event_handle(core, id, c.nsid, c.cdw11)?;
    let count = usize::from(FdpEventsCdw11::from_bits(c.cdw11.into()).noet());
    let types = data.get(..count).ok_or(Status::DATA_SGL_LENGTH_INVALID)?;
    let mut mask = 0;
    for kind in types {
        match bit(FdpEventType(*kind)) {
            0 => return Err(Status::INVALID_FIELD.into()),
            bit => mask |= bit,
        }
    }
    let handles = core.ftl.handles(set);
    group_mut(core, set).set_filter(handle, mask, c.cdw12 & 1 != 0, handles);
    refresh_notes(core);
    core.record(cx.storage);
    Ok(Reply::Done(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    const SET: SetId = SetId(0);

    fn placing() -> Core {
        let mut core = fixture::core();
        group_mut(&mut core, SET).enabled = true;
        core
    }

    #[test]
    fn the_controller_chooses_free_handles_first() {
        let mut core = placing();
        let none = NamespaceCreate::default();
        let mut chosen = Vec::new();
        for nsid in [1, 2] {
            let (handles, by_controller) = choose_handles(&core, SET, &none).unwrap();
            assert!(by_controller);
            chosen.extend_from_slice(&handles);
            let ns = core.namespaces.get_mut(nsid).unwrap();
            (ns.handles, ns.handles_by_controller) = (handles, true);
        }
        assert_eq!(chosen, [0, 1]);
        // A host cannot name a handle that the controller has given away.
        let mut named = NamespaceCreate { nphndls: U16::new(1), ..NamespaceCreate::default() };
        assert!(choose_handles(&core, SET, &named).is_err());
        named.phndl[0] = U16::new(3);
        assert_eq!(choose_handles(&core, SET, &named).unwrap(), (vec![3], false));
    }

    #[test]
    fn an_invalid_identifier_is_logged_where_a_host_asked_for_it() {
        let mut core = placing();
        core.namespaces.get_mut(1).unwrap().handles = vec![2, 1];
        assert_eq!(place_by_identifier(&mut core, 1, 1, Nanos::ZERO).unwrap(), 1);
        assert_eq!(place_by_identifier(&mut core, 1, 7, Nanos::ZERO).unwrap(), 2);
        let count = |core: &Core| group(core, SET).unwrap().events_log(true)[0];
        assert_eq!(count(&core), 0);
        let mask = bit(FdpEventType::INVALID_PLACEMENT_IDENTIFIER);
        group_mut(&mut core, SET).set_filter(2, mask, true, 4);
        assert_eq!(place_by_identifier(&mut core, 1, 7, Nanos::ZERO).unwrap(), 2);
        assert_eq!(count(&core), 1);
        group_mut(&mut core, SET).enabled = false;
        assert!(place_by_identifier(&mut core, 1, 1, Nanos::ZERO).is_err());
    }
}
