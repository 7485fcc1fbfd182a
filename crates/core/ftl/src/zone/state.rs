//! The states of a zone, and what leads from one to another: one table (NVMe Zoned Namespace Command Set 1.2, "Zone State Machine").

use serde::{Deserialize, Serialize};

/// State of a zone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ZoneState {
    /// Nothing is written.
    Empty,
    /// A write opened it. The drive may close it when it needs the resource.
    ImplicitlyOpened,
    /// The host opened it.
    ExplicitlyOpened,
    /// It keeps what it needs to be written, and is not open.
    Closed,
    /// Nothing more can be written before a reset.
    Full,
    /// It can be read, and never be written again.
    ReadOnly,
    /// Its contents are gone, and it cannot be used.
    Offline,
}

/// What is asked of a zone, or happens to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneEvent {
    /// A write that leaves room.
    Write,
    /// A write of the last block, or the host finishes the zone.
    Fill,
    /// The host opens it.
    Open,
    /// The host closes it, or the drive takes an open resource back.
    Close,
    /// The host gives its contents up.
    Reset,
    /// The host sets the descriptor extension of an empty zone.
    Extend,
    /// It can be written no more: the drive lacks spare blocks. One that holds nothing has no use any more.
    WearOut,
    /// The host takes a read-only zone out of use.
    TakeOffline,
}

/// Why a zone does not do what is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ZoneFault {
    /// The range crosses the end of a zone, or of what can be written of it.
    #[error("the range crosses a zone boundary")]
    Boundary,
    /// The zone is full.
    #[error("the zone is full")]
    Full,
    /// The zone is read only.
    #[error("the zone is read only")]
    ReadOnly,
    /// The zone is offline.
    #[error("the zone is offline")]
    Offline,
    /// A write does not begin at the write pointer.
    #[error("the write does not begin at the write pointer of the zone")]
    InvalidWrite,
    /// As many zones are active as can be.
    #[error("too many zones are active")]
    TooManyActive,
    /// As many zones are open as can be.
    #[error("too many zones are open")]
    TooManyOpen,
    /// The state of the zone does not allow it.
    #[error("the state of the zone does not allow this")]
    InvalidTransition,
    /// A Zone Random Write Area is asked of a zone that is not empty; or it is missing, or in the way, or does not reach so far.
    #[error("the zone's Zone Random Write Area does not allow this")]
    InvalidOperation,
    /// As many zones have a Zone Random Write Area as can.
    #[error("no Zone Random Write Area is left")]
    NoZrwa,
}

impl ZoneState {
    /// All of them.
    pub const ALL: [ZoneState; 7] = [
        ZoneState::Empty,
        ZoneState::ImplicitlyOpened,
        ZoneState::ExplicitlyOpened,
        ZoneState::Closed,
        ZoneState::Full,
        ZoneState::ReadOnly,
        ZoneState::Offline,
    ];

    /// Whether it takes an open resource.
    #[inline]
    pub fn is_open(self) -> bool {
        matches!(self, ZoneState::ImplicitlyOpened | ZoneState::ExplicitlyOpened)
    }

    /// Whether it takes an active resource.
    #[inline]
    pub fn is_active(self) -> bool {
        self.is_open() || self == ZoneState::Closed
    }

    /// The state after an event.
    ///
    /// # Errors
    /// Why the event cannot be in this state.
    pub fn after(self, event: ZoneEvent) -> Result<ZoneState, ZoneFault> {
        use ZoneEvent as E;
        use ZoneState as S;
        Ok(match (self, event) {
            (S::Offline, E::TakeOffline) => S::Offline,
            (S::Offline, E::Write) => return Err(ZoneFault::Offline),
            (S::ReadOnly, E::TakeOffline) => S::Offline,
            (S::ReadOnly, E::WearOut) => S::ReadOnly,
            (S::ReadOnly, E::Write) => return Err(ZoneFault::ReadOnly),
            (S::Empty, E::WearOut) => S::Offline,
            (S::ReadOnly | S::Offline, _) => return Err(ZoneFault::InvalidTransition),

            (S::Empty | S::Closed, E::Write) => S::ImplicitlyOpened,
            (S::ImplicitlyOpened | S::ExplicitlyOpened, E::Write) => self,
            (S::Full, E::Write) => return Err(ZoneFault::Full),
            (_, E::Fill) => S::Full,

            (S::Full, E::Open | E::Close) => return Err(ZoneFault::InvalidTransition),
            (_, E::Open) => S::ExplicitlyOpened,
            (S::Empty, E::Close) => return Err(ZoneFault::InvalidTransition),
            (_, E::Close) => S::Closed,

            (_, E::Reset) => S::Empty,
            (S::Empty, E::Extend) => S::Closed,
            (_, E::Extend) => return Err(ZoneFault::InvalidTransition),
            (_, E::WearOut) => S::ReadOnly,
            (_, E::TakeOffline) => return Err(ZoneFault::InvalidTransition),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::ZoneEvent::*;
    use super::ZoneFault as F;
    use super::ZoneState::*;
    use super::*;

    /// The whole table, as the specification draws it: a row for each state, a column for each event.
    #[test]
    fn every_state_answers_every_event_as_the_specification_says() {
        let bad = Err(F::InvalidTransition);
        let events = [Write, Fill, Open, Close, Reset, Extend, WearOut, TakeOffline];
        let to = |state| -> Result<ZoneState, ZoneFault> { Ok(state) };
        #[rustfmt::skip]
        let table = [
            (Empty, [to(ImplicitlyOpened), to(Full), to(ExplicitlyOpened), bad, to(Empty), to(Closed), to(Offline), bad]),
            (ImplicitlyOpened, [to(ImplicitlyOpened), to(Full), to(ExplicitlyOpened), to(Closed), to(Empty), bad, to(ReadOnly), bad]),
            (ExplicitlyOpened, [to(ExplicitlyOpened), to(Full), to(ExplicitlyOpened), to(Closed), to(Empty), bad, to(ReadOnly), bad]),
            (Closed, [to(ImplicitlyOpened), to(Full), to(ExplicitlyOpened), to(Closed), to(Empty), bad, to(ReadOnly), bad]),
            (Full, [Err(F::Full), to(Full), bad, bad, to(Empty), bad, to(ReadOnly), bad]),
            (ReadOnly, [Err(F::ReadOnly), bad, bad, bad, bad, bad, to(ReadOnly), to(Offline)]),
            (Offline, [Err(F::Offline), bad, bad, bad, bad, bad, bad, to(Offline)]),
        ];
        assert_eq!(table.map(|(state, _)| state), ZoneState::ALL);
        for (state, row) in table {
            for (event, wanted) in events.into_iter().zip(row) {
                assert_eq!(state.after(event), wanted, "{state:?} after {event:?}");
            }
        }
    }

    #[test]
    fn open_zones_are_active() {
        let open: Vec<_> = ZoneState::ALL.into_iter().filter(|s| s.is_open()).collect();
        let active: Vec<_> = ZoneState::ALL.into_iter().filter(|s| s.is_active()).collect();
        assert_eq!(open, [ImplicitlyOpened, ExplicitlyOpened]);
        assert_eq!(active, [ImplicitlyOpened, ExplicitlyOpened, Closed]);
    }
}
