//! What an Endurance Group keeps of Flexible Data Placement: whether it is enabled, event filters, events.

use nvme::fdp::{FdpEvent, FdpEventType, FdpEventsHeader};
use nvme::feature::Timestamp;
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{U16, U32};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Host events, and controller events, that a group keeps at most.
const MOST_EVENTS: usize = 63;

/// Event types that the drive has. Reclaim units have no time limit, and resets do not touch handles.
pub(super) const EVENTS: [FdpEventType; 4] = [
    FdpEventType::NOT_FULLY_WRITTEN,
    FdpEventType::INVALID_PLACEMENT_IDENTIFIER,
    FdpEventType::MEDIA_REALLOCATED,
    FdpEventType::IMPLICITLY_MODIFIED,
];

/// What an Endurance Group keeps. It outlives power.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FdpGroup {
    pub enabled: bool,
    /// By reclaim unit handle, a bit for each of [`EVENTS`] that is logged.
    filters: Vec<u8>,
    host_events: VecDeque<SavedFdpEvent>,
    controller_events: VecDeque<SavedFdpEvent>,
}

/// An event, as the log has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct SavedFdpEvent {
    pub kind: u8,
    pub flags: u8,
    pub pid: u16,
    /// A Timestamp structure.
    pub time: [u8; 8],
    pub nsid: u32,
    pub specific: [u8; 16],
    pub handle: u8,
}

impl FdpGroup {
    /// A group without events and filters.
    pub(super) fn new(enabled: bool) -> FdpGroup {
        FdpGroup { enabled, ..FdpGroup::default() }
    }

    /// A bit for each of [`EVENTS`] that is logged for a handle.
    pub(super) fn filter(&self, handle: u8) -> u8 {
        self.filters.get(usize::from(handle)).copied().unwrap_or(0)
    }

    /// Whether events of this type are logged for a handle.
    pub(super) fn logs(&self, handle: u8, kind: FdpEventType) -> bool {
        self.filter(handle) & bit(kind) != 0
    }

    /// Logs an event. The oldest of its kind goes when the log is full.
    pub(super) fn push(&mut self, event: SavedFdpEvent) {
        let log = if event.kind & 0x80 == 0 { &mut self.host_events } else { &mut self.controller_events };
        if log.len() == MOST_EVENTS {
            log.pop_front();
        }
        log.push_back(event);
    }

    /// Logs these event types for one of `handles` handles from now on, or no more.
    pub(super) fn set_filter(&mut self, handle: u8, mask: u8, on: bool, handles: usize) {
        self.filters.resize(handles, 0);
        if let Some(filter) = self.filters.get_mut(usize::from(handle)) {
            *filter = if on { *filter | mask } else { *filter & !mask };
        }
    }

    /// Whether some handle logs what the translation layer does by itself.
    pub(super) fn wants_notes(&self) -> bool {
        let wanted = bit(FdpEventType::MEDIA_REALLOCATED) | bit(FdpEventType::IMPLICITLY_MODIFIED);
        self.filters.iter().any(|f| f & wanted != 0)
    }

    /// The FDP Events log: host events, or controller events.
    pub(super) fn events_log(&self, host: bool) -> Vec<u8> {
        let events = if host { &self.host_events } else { &self.controller_events };
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
}

/// The bit of an event type in a filter; 0 for a type that the drive does not have.
pub(super) fn bit(kind: FdpEventType) -> u8 {
    EVENTS.iter().position(|e| *e == kind).map_or(0, |i| 1 << i)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: FdpEventType, pid: u16) -> SavedFdpEvent {
        SavedFdpEvent { kind: kind.0, flags: 0, pid, time: [0; 8], nsid: 1, specific: [0; 16], handle: 0 }
    }

    #[test]
    fn the_oldest_event_of_a_kind_goes() {
        let mut group = FdpGroup::default();
        for pid in 0..100 {
            group.push(event(FdpEventType::NOT_FULLY_WRITTEN, pid));
        }
        group.push(event(FdpEventType::MEDIA_REALLOCATED, 7));
        let first = |log: &[u8]| FdpEvent::read_from_prefix(&log[size_of::<FdpEventsHeader>()..]).unwrap().0;
        let (host, controller) = (group.events_log(true), group.events_log(false));
        assert_eq!(host[..4], 63u32.to_le_bytes());
        assert_eq!(first(&host).pid.get(), 37);
        assert_eq!(controller[..4], 1u32.to_le_bytes());
        assert_eq!((first(&controller).pid.get(), host.len()), (7, controller.len()));
    }

    #[test]
    fn a_filter_belongs_to_one_handle() {
        let mut group = FdpGroup::default();
        group.set_filter(2, bit(FdpEventType::NOT_FULLY_WRITTEN), true, 4);
        assert!(group.logs(2, FdpEventType::NOT_FULLY_WRITTEN) && !group.wants_notes());
        assert!(!group.logs(1, FdpEventType::NOT_FULLY_WRITTEN));
        group.set_filter(1, bit(FdpEventType::MEDIA_REALLOCATED), true, 4);
        assert!(group.wants_notes());
        group.set_filter(2, 0xFF, false, 4);
        assert_eq!(group.filter(2), 0);
    }
}
