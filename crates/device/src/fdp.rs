//! Flexible Data Placement (Base 8.1.10, TP4146): an Endurance Group's reclaim unit handles are the placement handles of
//! its NVM Set, and there is one reclaim group and one configuration.

use crate::contents::Contents;
use crate::core::{ControllerId, Cx, Failure, Namespace, Outcome, Reply};
use crate::drive::Drive;
use ftl::{PAGE, PlacementChange, PlacementNote, SetId};
use media::Nanos;
use nvme::admin::{GetFeatures, SetFeatures};
use nvme::fdp::*;
use nvme::feature::{FdpEventsCdw11, FdpMode, Select, Timestamp};
use nvme::identify::NamespaceCreate;
use nvme::io::{IoManagementReceive, IoManagementSend};
use nvme::log::LogId;
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{Status, U16, U32, U64, U128};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Events that are kept of the host's and of the controller's kind.
const MOST_EVENTS: usize = 63;

/// Event types that the drive has. There is no time limit for reclaim units, and resets do not touch handles.
const EVENTS: [FdpEventType; 4] = [
    FdpEventType::NOT_FULLY_WRITTEN,
    FdpEventType::INVALID_PLACEMENT_IDENTIFIER,
    FdpEventType::MEDIA_REALLOCATED,
    FdpEventType::IMPLICITLY_MODIFIED,
];

/// What an Endurance Group keeps.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Group {
    pub enabled: bool,
    /// By reclaim unit handle, a bit for each of [`EVENTS`] that is logged.
    filters: Vec<u8>,
    host_events: VecDeque<Event>,
    controller_events: VecDeque<Event>,
}

/// An event, as the log has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Event {
    kind: u8,
    flags: u8,
    pid: u16,
    /// A Timestamp structure.
    time: [u8; 8],
    nsid: u32,
    specific: [u8; 16],
    handle: u8,
}

impl Group {
    fn filter(&self, handle: u8) -> u8 {
        self.filters.get(usize::from(handle)).copied().unwrap_or(0)
    }

    /// Whether events of this type are logged for a handle.
    fn logs(&self, handle: u8, kind: FdpEventType) -> bool {
        self.filter(handle) & bit(kind) != 0
    }

    fn push(&mut self, event: Event) {
        let log = if event.kind & 0x80 == 0 { &mut self.host_events } else { &mut self.controller_events };
        if log.len() == MOST_EVENTS {
            log.pop_front();
        }
        log.push_back(event);
    }
}

fn bit(kind: FdpEventType) -> u8 {
    EVENTS.iter().position(|e| *e == kind).map_or(0, |i| 1 << i)
}

/// The NVM Set of an Endurance Group: they have the same numbers.
fn set_of(endgid: u16) -> Option<SetId> {
    endgid.checked_sub(1).and_then(|i| u8::try_from(i).ok()).map(SetId)
}

impl Namespace {
    /// The reclaim unit handle of a placement handle; those of namespaces without any are all 0.
    #[inline]
    pub fn handle(&self, placement: u16) -> Option<u8> {
        self.handles.get(usize::from(placement)).copied()
    }
}

impl Drive {
    /// Whether an Endurance Group could use Flexible Data Placement.
    fn can_place(&self, set: SetId) -> bool {
        usize::from(set.0) < self.core.ftl.set_count() && self.core.ftl.handles(set) > 1
    }

    /// Whether the drive has Flexible Data Placement at all.
    pub(crate) fn has_fdp(&self) -> bool {
        (0..self.core.ftl.set_count()).any(|i| self.can_place(SetId(i as u8)))
    }

    fn group(&self, set: SetId) -> Option<&Group> {
        self.core.persistent.fdp.get(usize::from(set.0))
    }

    fn group_mut(&mut self, set: SetId) -> &mut Group {
        let index = usize::from(set.0);
        if self.core.persistent.fdp.len() <= index {
            self.core.persistent.fdp.resize(index + 1, Group::default());
        }
        &mut self.core.persistent.fdp[index]
    }

    /// Whether Flexible Data Placement is enabled in a set's Endurance Group.
    pub(crate) fn is_placing(&self, set: SetId) -> bool {
        self.can_place(set) && self.group(set).is_some_and(|g| g.enabled)
    }

    /// Enables it where the configuration of a new drive says so.
    pub(crate) fn enable_initial_fdp(&mut self) {
        for set in self.core.config.fdp.clone() {
            if let Some(set) = set_of(set) {
                self.group_mut(set).enabled = true;
            }
        }
    }

    /// Tells the translation layer whether somebody wants to hear of its changes to reclaim units.
    pub(crate) fn refresh_placement_notes(&mut self) {
        let wanted = bit(FdpEventType::MEDIA_REALLOCATED) | bit(FdpEventType::IMPLICITLY_MODIFIED);
        for i in 0..self.core.ftl.set_count() {
            let set = SetId(i as u8);
            let notes = self.is_placing(set)
                && self.group(set).is_some_and(|g| g.filters.iter().any(|f| f & wanted != 0));
            self.core.ftl.note_placement(set, notes);
        }
    }

    /// The reclaim unit handles of a namespace that is to be created; whether the controller chose them. Without
    /// Flexible Data Placement there are none.
    pub(crate) fn choose_handles(
        &self,
        set: SetId,
        new: &NamespaceCreate,
    ) -> Result<(Vec<u8>, bool), Failure> {
        let count = usize::from(new.nphndls.get());
        if !self.is_placing(set) {
            return match count {
                0 => Ok((Vec::new(), false)),
                _ if self.can_place(set) => Err(Status::FDP_DISABLED.into()),
                _ => Err(Status::INVALID_FIELD.into()),
            };
        }
        let invalid = || Failure::from(Status::INVALID_PLACEMENT_HANDLE_LIST);
        let uses = self.handle_uses(set);
        if count == 0 {
            // One that nobody has; else one that others have by the controller's choice, too.
            let free = |wanted| uses.iter().position(|u| *u == wanted);
            let chosen =
                free(ReclaimUnitHandleUse::UNUSED).or_else(|| free(ReclaimUnitHandleUse::CONTROLLER));
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
    fn handle_uses(&self, set: SetId) -> Vec<ReclaimUnitHandleUse> {
        let mut uses = vec![ReclaimUnitHandleUse::UNUSED; self.core.ftl.handles(set)];
        for (_, ns) in self.core.namespaces.iter().filter(|(_, ns)| ns.set == set) {
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

    /// The placement handle of the translation layer for a write with a directive of data placement. An identifier
    /// that is invalid places the data as if there were none, and is logged (Base 8.1.10.2).
    #[cold]
    pub(crate) fn place_by_identifier(&mut self, nsid: u32, pid: u16, now: Nanos) -> Result<u8, Failure> {
        let ns = self.core.namespaces.get(nsid).ok_or(Status::INVALID_NAMESPACE)?;
        let (set, handle, default) = (ns.set, ns.handle(pid), ns.handle(0).unwrap_or(0));
        if !self.is_placing(set) {
            return Err(Failure::field(50));
        }
        if handle.is_none()
            && self.group(set).is_some_and(|g| g.logs(default, FdpEventType::INVALID_PLACEMENT_IDENTIFIER))
        {
            let time = self.event_time(now);
            self.group_mut(set).push(Event {
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

    fn event_time(&self, at: Nanos) -> [u8; 8] {
        let mut time = [0; 8];
        time.copy_from_slice(self.core.clock.read(at).as_bytes());
        time
    }

    /// The namespace of an I/O Management command, if Flexible Data Placement is enabled for it.
    fn managed(&self, id: ControllerId, nsid: u32) -> Result<&Namespace, Failure> {
        let ns = self.core.attached(id, nsid)?;
        if !self.is_placing(ns.set) {
            return Err(Status::FDP_DISABLED.into());
        }
        Ok(ns)
    }

    /// I/O Management Receive: Reclaim Unit Handle Status (Base 7.3.1).
    pub(crate) fn io_management_receive(
        &self,
        id: ControllerId,
        c: IoManagementReceive,
    ) -> Result<Vec<u8>, Failure> {
        if c.dwords * 4 > u64::from(self.core.config.max_transfer) {
            return Err(Failure::field(44));
        }
        if !self.has_fdp() {
            return Err(Failure { location: 0, ..Status::INVALID_OPCODE.into() });
        }
        let ns = self.managed(id, c.nsid)?;
        if c.mo != RUH_STATUS {
            return Err(Failure::field(40));
        }
        let count = ns.handles.len() as u16;
        let head = ReclaimUnitHandleStatusHeader { nruhsd: U16::new(count), ..Default::default() };
        let mut out = head.as_bytes().to_vec();
        for (pid, handle) in (0..count).zip(&ns.handles) {
            let (_, room) = self.core.ftl.reclaim_unit(ns.set, *handle).unwrap_or((0, 0));
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
    pub(crate) fn io_management_send<S: Contents>(
        &mut self,
        id: ControllerId,
        c: IoManagementSend,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> Result<Nanos, Failure> {
        if !self.has_fdp() {
            return Err(Failure { location: 0, ..Status::INVALID_OPCODE.into() });
        }
        let ns = self.managed(id, c.nsid)?;
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
            let left = self.core.ftl.renew_handle(cx.now, set, handle, cx.storage);
            if left > 0 && self.group(set).is_some_and(|g| g.logs(handle, FdpEventType::NOT_FULLY_WRITTEN)) {
                let time = self.event_time(cx.now);
                self.group_mut(set).push(Event {
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

    /// Takes what the translation layer noted of a set into its log.
    pub(crate) fn gather_placement_notes(&mut self, endgid: u16) {
        let Some(set) = set_of(endgid).filter(|set| self.is_placing(*set)) else { return };
        for note in self.core.ftl.placement_notes(set) {
            if let Some(event) = self.event_of(set, note) {
                self.group_mut(set).push(event);
            }
        }
    }

    fn event_of(&self, set: SetId, note: PlacementNote) -> Option<Event> {
        let (handle, time) = (note.handle, self.event_time(note.at));
        let (kind, pages, first) = match note.change {
            PlacementChange::Moved { pages, first } => (FdpEventType::MEDIA_REALLOCATED, pages, first),
            PlacementChange::Filled => (FdpEventType::IMPLICITLY_MODIFIED, 0, None),
        };
        if !self.group(set)?.logs(handle, kind) {
            return None;
        }
        let mut event = Event {
            kind: kind.0,
            flags: event_flags::LOCATION,
            pid: 0,
            time,
            nsid: 0,
            specific: [0; 16],
            handle,
        };
        let owner = |volume| self.core.namespaces.iter().find(|(_, ns)| ns.volume == volume);
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

    /// The logs of Flexible Data Placement.
    pub(crate) fn fdp_log(&self, lid: LogId, endgid: u16, lsp: u8) -> Result<Vec<u8>, Failure> {
        let set = set_of(endgid).filter(|set| self.can_place(*set)).ok_or(Failure::field(46))?;
        if lid == LogId::FDP_CONFIGURATIONS {
            return Ok(self.fdp_configurations(set));
        }
        if !self.is_placing(set) {
            return Err(Status::FDP_DISABLED.into());
        }
        Ok(match lid {
            LogId::RUH_USAGE => {
                let uses = self.handle_uses(set);
                let nruh = U16::new(uses.len() as u16);
                let head = ReclaimUnitHandleUsageHeader { nruh, ..Default::default() };
                let mut log = head.as_bytes().to_vec();
                for ruha in uses {
                    let usage = ReclaimUnitHandleUsage { ruha, ..Default::default() };
                    log.extend_from_slice(usage.as_bytes());
                }
                log
            }
            LogId::FDP_STATISTICS => {
                let media = self.core.ftl.set_stats(set);
                let statistics = FdpStatistics {
                    hbmw: U128::new(self.core.persistent.traffic(set).written_bytes.into()),
                    mbmw: U128::new(media.media_written_bytes.into()),
                    mbe: U128::new(u128::from(media.erases) * u128::from(self.block_bytes(set))),
                    ..Default::default()
                };
                statistics.as_bytes().to_vec()
            }
            _ => self.fdp_events(set, lsp & 1 != 0),
        })
    }

    /// Bytes of one block of a die.
    fn block_bytes(&self, set: SetId) -> u64 {
        u64::from(self.core.set_properties(set).block_pages) * u64::from(PAGE)
    }

    fn fdp_configurations(&self, set: SetId) -> Vec<u8> {
        let handles = self.core.ftl.handles(set);
        let ruht = match self.core.set_properties(set).isolates_handles {
            true => ReclaimUnitHandleType::PERSISTENTLY_ISOLATED,
            false => ReclaimUnitHandleType::INITIALLY_ISOLATED,
        };
        let size = size_of::<FdpConfiguration>() + handles * size_of::<ReclaimUnitHandleDescriptor>();
        // Descriptors are multiples of 8 bytes.
        let size = size.next_multiple_of(8);
        let head = FdpConfigurationsHeader {
            sze: U32::new((size_of::<FdpConfigurationsHeader>() + size) as u32),
            ..Default::default()
        };
        let configuration = FdpConfiguration {
            dsze: U16::new(size as u16),
            fdpa: 1 << 7 | u8::from(self.core.config.has_volatile_write_cache()) << 4,
            nrg: U32::new(1),
            nruh: U16::new(handles as u16),
            maxpids_z: U16::new(handles as u16 - 1),
            nns: U32::new(self.core.config.max_namespaces),
            runs: U64::new(self.core.ftl.reclaim_unit(set, 0).map_or(0, |(size, _)| size)),
            ..Default::default()
        };
        let mut log = head.as_bytes().to_vec();
        log.extend_from_slice(configuration.as_bytes());
        for _ in 0..handles {
            let handle = ReclaimUnitHandleDescriptor { ruht, ..Default::default() };
            log.extend_from_slice(handle.as_bytes());
        }
        log.resize(size_of::<FdpConfigurationsHeader>() + size, 0);
        log
    }

    fn fdp_events(&self, set: SetId, host: bool) -> Vec<u8> {
        let none = VecDeque::new();
        let events =
            self.group(set).map_or(&none, |g| if host { &g.host_events } else { &g.controller_events });
        let head = FdpEventsHeader { n: U32::new(events.len() as u32), ..Default::default() };
        let mut log = head.as_bytes().to_vec();
        for e in events {
            let event = FdpEvent {
                fdpet: FdpEventType(e.kind),
                fdpef: e.flags,
                pid: U16::new(e.pid),
                etime: Timestamp::read_from_bytes(&e.time).unwrap_or_default(),
                nsid: U32::new(e.nsid),
                specific: e.specific,
                ruhid: U16::new(e.handle.into()),
                ..Default::default()
            };
            log.extend_from_slice(event.as_bytes());
        }
        // All that there could be, so that the log can be read before its number is known.
        log.resize(size_of::<FdpEventsHeader>() + MOST_EVENTS * size_of::<FdpEvent>(), 0);
        log
    }

    /// Get Features: Flexible Data Placement (Base 5.1.25.1.20).
    pub(crate) fn get_fdp(&self, c: &GetFeatures) -> Outcome {
        let endgid = c.cdw11 as u16;
        let set = set_of(endgid).filter(|s| usize::from(s.0) < self.core.ftl.set_count());
        let set = set.ok_or(Failure::field(44))?;
        let enabled = match c.sel {
            Select::DEFAULT => self.core.config.fdp.contains(&endgid),
            _ => self.is_placing(set),
        };
        Ok(Reply::Done(FdpMode::new().with_fdpe(enabled).into_bits().get()))
    }

    /// Set Features: Flexible Data Placement. It can be changed while the Endurance Group has no namespaces; the
    /// value outlives power, whether it is to be saved or not.
    pub(crate) fn set_fdp<S: Contents>(&mut self, c: &SetFeatures, cx: &mut Cx<'_, S>) -> Outcome {
        let set = set_of(c.cdw11 as u16).filter(|set| self.can_place(*set)).ok_or(Failure::field(44))?;
        let mode = FdpMode::from_bits(c.cdw12.into());
        if mode.fdpe() && mode.fdpcidx() != 0 {
            return Err(Failure::field(49));
        }
        if mode.fdpe() == self.is_placing(set) {
            return Ok(Reply::Done(0));
        }
        if self.core.namespaces.iter().any(|(_, ns)| ns.set == set) {
            return Err(Status::COMMAND_SEQUENCE_ERROR.into());
        }
        *self.group_mut(set) = Group { enabled: mode.fdpe(), ..Group::default() };
        self.refresh_placement_notes();
        self.core.record(cx.storage);
        Ok(Reply::Done(0))
    }

    /// The set and the reclaim unit handle that FDP Events is about.
    fn event_handle(&self, id: ControllerId, nsid: u32, cdw11: u32) -> Result<(SetId, u8), Failure> {
        if !self.core.controller(id)?.is_attached(nsid) {
            return Err(self.core.no_namespace(nsid));
        }
        let ns = self.core.namespaces.get(nsid).ok_or(Status::INVALID_NAMESPACE)?;
        if !self.is_placing(ns.set) {
            return Err(Status::FDP_DISABLED.into());
        }
        let placement = FdpEventsCdw11::from_bits(cdw11.into()).phndl();
        Ok((ns.set, ns.handle(placement).ok_or(Failure::field(44))?))
    }

    /// Get Features: FDP Events (Base 5.1.25.1.21): the types that the drive has, and which are enabled.
    pub(crate) fn get_fdp_events(&self, id: ControllerId, c: &GetFeatures) -> Outcome {
        let (set, handle) = self.event_handle(id, c.nsid, c.cdw11)?;
        let room = usize::from(FdpEventsCdw11::from_bits(c.cdw11.into()).noet());
        if room == 0 {
            return Err(Failure::field(46));
        }
        let filter = match c.sel {
            Select::DEFAULT => 0,
            _ => self.group(set).map_or(0, |g| g.filter(handle)),
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
    pub(crate) fn set_fdp_events<S: Contents>(
        &mut self,
        id: ControllerId,
        c: &SetFeatures,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        let (set, handle) = self.event_handle(id, c.nsid, c.cdw11)?;
        let count = usize::from(FdpEventsCdw11::from_bits(c.cdw11.into()).noet());
        let types = data.get(..count).ok_or(Status::DATA_SGL_LENGTH_INVALID)?;
        let mut mask = 0;
        for kind in types {
            match bit(FdpEventType(*kind)) {
                0 => return Err(Status::INVALID_FIELD.into()),
                bit => mask |= bit,
            }
        }
        let handles = self.core.ftl.handles(set);
        let group = self.group_mut(set);
        group.filters.resize(handles, 0);
        let filter = &mut group.filters[usize::from(handle)];
        *filter = if c.cdw12 & 1 != 0 { *filter | mask } else { *filter & !mask };
        self.refresh_placement_notes();
        self.core.record(cx.storage);
        Ok(Reply::Done(0))
    }
}
