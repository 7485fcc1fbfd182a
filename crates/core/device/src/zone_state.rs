//! States of zones, as hosts know them.

use nvme::zone::ZoneState;

/// The state as zone descriptors have it.
pub(crate) fn state_of(state: ftl::ZoneState) -> ZoneState {
    match state {
        ftl::ZoneState::Empty => ZoneState::EMPTY,
        ftl::ZoneState::ImplicitlyOpened => ZoneState::IMPLICITLY_OPENED,
        ftl::ZoneState::ExplicitlyOpened => ZoneState::EXPLICITLY_OPENED,
        ftl::ZoneState::Closed => ZoneState::CLOSED,
        ftl::ZoneState::Full => ZoneState::FULL,
        ftl::ZoneState::ReadOnly => ZoneState::READ_ONLY,
        ftl::ZoneState::Offline => ZoneState::OFFLINE,
    }
}
