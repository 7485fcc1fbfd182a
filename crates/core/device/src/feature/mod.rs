//! Features: Get and Set Features (Base 5.1.11, 5.1.25; NVM 4.1.3).
//!
//! [`table`] says which features there are, and [`values`] has the values that a controller keeps. This component gets and sets those, and what
//! the core keeps of a host. Features of other components (quotas, placement, reservations, windows) are theirs; the drive hands them out.

pub(crate) mod table;
pub(crate) mod values;

use crate::contents::Contents;
use crate::core::{AdminResult, ControllerId, Core, Cx, Failure, MAX_IO_QUEUES, Reply};
use media::Nanos;
use nvme::admin::{GetFeatures, SetFeatures};
use nvme::feature::{
    FeatureId, HostBehaviorSupport, HostIdentifierCdw11, IoCommandSetProfile, NumberOfQueues, Select,
    Timestamp,
};
use nvme::log::{PersistentEventType, SetFeatureEvent, TimestampChangeEvent};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{Command, NSID_ALL, Status, U32, U64};
use table::{FeatureInfo, FeatureRequirement};
use values::{Behavior, FeatureValues};

/// The row of a feature; `None` if the drive does not have it.
pub(crate) fn info(core: &Core, fid: FeatureId) -> Option<&'static FeatureInfo> {
    table::of(fid).filter(|info| match info.requires {
        FeatureRequirement::None => true,
        FeatureRequirement::VolatileWriteCache => core.config.has_volatile_write_cache(),
        FeatureRequirement::Windows => core.config.windows.iter().any(|longest| *longest > Nanos::ZERO),
        FeatureRequirement::Placement => core.has_placement(),
    })
}

/// Whether a command may name this namespace for a feature that has no namespace scope. Error Recovery has one, and this drive keeps one value
/// for all namespaces.
fn check_nsid(core: &Core, id: ControllerId, fid: FeatureId, nsid: u32) -> Result<(), Failure> {
    if nsid == 0 || nsid == NSID_ALL {
        return Ok(());
    }
    if !core.controller(id)?.is_attached(nsid) {
        return Err(core.no_namespace(nsid));
    }
    core.check_access(id)?;
    if [FeatureId::ERROR_RECOVERY, FeatureId::FDP_EVENTS].contains(&fid) {
        return Ok(());
    }
    Err(Failure { location: 4, ..Status::FEATURE_NOT_NAMESPACE_SPECIFIC.into() })
}

/// Checks what Get Features of every feature but a quota must fulfil: a namespace that it names is attached (Base 5.1.11).
///
/// # Errors
/// What the namespace identifier is refused for.
pub(crate) fn check_get(core: &Core, id: ControllerId, c: &GetFeatures) -> Result<(), Failure> {
    // These belong to the host and not to a namespace. Default and saved values exist without any namespace.
    let ignores = [
        FeatureId::HOST_IDENTIFIER,
        FeatureId::TIMESTAMP,
        FeatureId::KEEP_ALIVE_TIMER,
        FeatureId::HOST_BEHAVIOR_SUPPORT,
    ];
    if c.sel != Select::CURRENT || ignores.contains(&c.fid) {
        return Ok(());
    }
    check_nsid(core, id, FeatureId::ERROR_RECOVERY, c.nsid)
}

/// Checks what Set Features of every feature but a quota must fulfil.
///
/// # Errors
/// Feature Not Namespace Specific, Feature Not Saveable, or Command Sequence Error for the Host Identifier, which fabrics hosts give with Connect
/// (Base 5.1.25.1.28).
pub(crate) fn check_set(
    core: &Core,
    id: ControllerId,
    c: &SetFeatures,
    info: &FeatureInfo,
) -> Result<(), Failure> {
    if !info.capabilities().namespace_specific() {
        check_nsid(core, id, c.fid, c.nsid)?;
    }
    if c.sv && !info.saveable {
        return Err(Failure { location: 40, ..Status::FEATURE_NOT_SAVEABLE.into() });
    }
    if c.fid == FeatureId::HOST_IDENTIFIER {
        return Err(Status::COMMAND_SEQUENCE_ERROR.into());
    }
    Ok(())
}

/// Get Features of what a controller, or the core, keeps.
///
/// # Errors
/// Invalid Field with its byte.
pub(crate) fn get(
    core: &Core,
    id: ControllerId,
    c: &GetFeatures,
    info: &FeatureInfo,
    now: Nanos,
) -> AdminResult {
    let controller = core.controller(id)?;
    let current = ![Select::DEFAULT, Select::SAVED].contains(&c.sel);
    Ok(match c.fid {
        FeatureId::NUMBER_OF_QUEUES => {
            Reply::Done(queues(if current { controller.granted } else { MAX_IO_QUEUES }))
        }
        FeatureId::TIMESTAMP => {
            let timestamp = if current { core.clock.read(now) } else { Timestamp::default() };
            Reply::Data(timestamp.as_bytes().to_vec(), 0)
        }
        FeatureId::KEEP_ALIVE_TIMER => {
            let millis = if current { controller.kato.0 / 1_000_000 } else { 0 };
            Reply::Done(u32::try_from(millis).unwrap_or(u32::MAX))
        }
        FeatureId::HOST_BEHAVIOR_SUPPORT => {
            let behavior = if current { controller.behavior } else { Behavior::default() };
            Reply::Data(behavior.as_bytes().to_vec(), 0)
        }
        // The one combination that Identify lists.
        FeatureId::IO_COMMAND_SET_PROFILE => Reply::Done(0),
        FeatureId::HOST_IDENTIFIER => {
            if !HostIdentifierCdw11::from_bits(c.cdw11.into()).exhid() {
                // Fabrics hosts have identifiers of 128 bits only.
                return Err(Failure::field(44));
            }
            let host = if current { controller.host_id } else { [0; 16] };
            Reply::Data(host.to_vec(), 0)
        }
        fid => {
            let defaults = FeatureValues::default();
            let values = match c.sel {
                Select::SAVED if info.saveable => &core.persistent.saved,
                // What cannot be saved shows its default (Base 4.4, "saved value").
                Select::DEFAULT | Select::SAVED => &defaults,
                _ => &controller.values,
            };
            Reply::Done(values.get(fid, c.cdw11, core.ftl.set_count()).map_err(Failure::field)?)
        }
    })
}

/// Set Features of a value that a controller keeps.
///
/// # Errors
/// Invalid Field with its byte.
pub(crate) fn set_value<S: Contents>(
    core: &mut Core,
    id: ControllerId,
    c: &SetFeatures,
    cx: &mut Cx<'_, S>,
) -> Result<(), Failure> {
    let groups = core.ftl.set_count();
    let mut values = core.controller(id)?.values.clone();
    values.set(c.fid, c.cdw11, groups).map_err(Failure::field)?;
    if c.sv {
        // Only this feature is saved, not what others were set to without saving.
        core.persistent.saved.set(c.fid, c.cdw11, groups).map_err(Failure::field)?;
        record_saved(core, id, c, cx);
    }
    core.controller_mut(id)?.values = values;
    Ok(())
}

/// A value was saved: the Persistent Event log tells it, and the state is recorded.
pub(crate) fn record_saved<S: Contents>(
    core: &mut Core,
    id: ControllerId,
    c: &SetFeatures,
    cx: &mut Cx<'_, S>,
) {
    let command = Command::from(*c);
    let cdw = [command.cdw10, command.cdw11, command.cdw12, command.cdw13, command.cdw14, command.cdw15];
    let event = SetFeatureEvent { layout: U32::new(cdw.len() as u32), cdw };
    core.remember(cx.now, Some(id), PersistentEventType::SET_FEATURE, event.as_bytes());
    core.record(cx.storage);
}

/// Set Features of Number of Queues.
///
/// # Errors
/// Invalid Field, or Command Sequence Error if there are I/O queues.
pub(crate) fn set_number_of_queues(core: &mut Core, id: ControllerId, cdw11: u32) -> AdminResult {
    let asked = NumberOfQueues::from_bits(cdw11.into());
    if asked.nsq_z() == u16::MAX || asked.ncq_z() == u16::MAX {
        return Err(Failure::field(44));
    }
    let controller = core.controller_mut(id)?;
    if controller.has_io_queues() {
        return Err(Status::COMMAND_SEQUENCE_ERROR.into());
    }
    // Over fabrics a queue is a pair.
    controller.granted = (asked.nsq_z().min(asked.ncq_z()) + 1).min(MAX_IO_QUEUES);
    Ok(Reply::Done(queues(controller.granted)))
}

/// The result of Number of Queues: as many of both kinds.
fn queues(granted: u16) -> u32 {
    let zero_based = granted.saturating_sub(1);
    NumberOfQueues::new().with_nsq_z(zero_based).with_ncq_z(zero_based).into_bits().get()
}

/// Set Features of Host Behavior Support, on a drive with these Copy Descriptor Formats.
///
/// # Errors
/// Invalid Field for a value that is not allowed.
pub(crate) fn set_behavior(core: &mut Core, id: ControllerId, data: &[u8], copy_formats: u16) -> AdminResult {
    let (asked, _) =
        HostBehaviorSupport::ref_from_prefix(data).map_err(|_| Status::DATA_SGL_LENGTH_INVALID)?;
    let behavior = Behavior::new(asked, copy_formats).ok_or(Status::INVALID_FIELD)?;
    core.controller_mut(id)?.behavior = behavior;
    Ok(Reply::Done(0))
}

/// Set Features of the I/O Command Set Profile. There is one combination of command sets, and it is always enabled.
///
/// # Errors
/// I/O Command Set Combination Rejected for the index of any other.
pub(crate) fn choose_command_sets(cdw11: u32) -> AdminResult {
    match IoCommandSetProfile::from_bits(cdw11.into()).iocsci() {
        0 => Ok(Reply::Done(0)),
        _ => Err(Status::IOCS_COMBINATION_REJECTED.with_dnr().into()),
    }
}

/// Set Features of the Timestamp.
///
/// # Errors
/// If the data is too short.
pub(crate) fn set_timestamp<S: Contents>(
    core: &mut Core,
    id: ControllerId,
    data: &[u8],
    cx: &mut Cx<'_, S>,
) -> AdminResult {
    let (timestamp, _) = Timestamp::ref_from_prefix(data).map_err(|_| Status::DATA_SGL_LENGTH_INVALID)?;
    let before = core.clock.read(cx.now);
    core.clock.set(timestamp.millis(), cx.now);
    let event = TimestampChangeEvent {
        previous: U64::read_from_bytes(before.as_bytes()).unwrap_or_default(),
        since_reset_ms: U64::new(cx.now.since(core.power.since).0 / 1_000_000),
    };
    core.remember(cx.now, Some(id), PersistentEventType::TIMESTAMP_CHANGE, event.as_bytes());
    core.record(cx.storage);
    Ok(Reply::Done(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn set(fid: FeatureId, sv: bool, cdw11: u32) -> SetFeatures {
        SetFeatures { nsid: 0, fid, sv, uidx: 0, cdw11, cdw12: 0, cdw13: 0, cdw15: 0 }
    }

    #[test]
    fn a_saved_value_is_the_next_controllers() {
        let mut core = fixture::core();
        let id = fixture::connect(&mut core, 1);
        let mut interval = |sv, value| {
            let c = set(FeatureId::LBA_STATUS_ATTRIBUTES, sv, value);
            fixture::call(|cx| set_value(&mut core, id, &c, cx)).0.unwrap();
        };
        interval(true, 5);
        interval(false, 9);
        assert_eq!(core.persistent.saved.lba_report_interval, 5);
        assert_eq!(core.controllers.get(id).unwrap().values.lba_report_interval, 9);
    }

    #[test]
    fn what_the_drive_lacks_it_does_not_have() {
        let core = fixture::core();
        assert!(info(&core, FeatureId::FDP).is_some(), "the drive has placement handles");
        assert!(info(&core, FeatureId::PREDICTABLE_LATENCY_CONFIG).is_none());
        assert!(info(&core, FeatureId::HOST_MEMORY_BUFFER).is_none());
    }

    #[test]
    fn queues_are_granted_before_there_are_any() {
        let mut core = fixture::core();
        let id = fixture::connect(&mut core, 1);
        let granted = set_number_of_queues(&mut core, id, 7 << 16 | 3);
        assert!(matches!(granted, Ok(Reply::Done(0x0003_0003))));
        core.controller_mut(id).unwrap().add_queue(1);
        assert!(set_number_of_queues(&mut core, id, 0).is_err());
    }
}
