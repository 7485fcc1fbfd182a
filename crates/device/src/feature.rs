//! Features: their values, and Set and Get Features (Base 5.1.11, 5.1.25; NVM 4.1.3).

use crate::contents::Contents;
use crate::core::{ControllerId, Cx, Failure, MAX_IO_QUEUES, Outcome, Reply};
use crate::drive::Drive;
use crate::fdp;
use crate::io::copy::COPY_FORMATS;
use crate::lost_blocks::POLL_INTERVAL;
use crate::quota;
use crate::reservation;
use crate::temperature::WARNING_TEMPERATURE;
use crate::uuid::{self, Vendor};
use media::Nanos;
use nvme::admin::{GetFeatures, SetFeatures};
use nvme::feature::{
    AsyncEventConfiguration, EnduranceGroupEvents, FeatureCapabilities, FeatureId, HostBehaviorSupport,
    HostIdentifierCdw11, LbaStatusAttributes, NumberOfQueues, PowerManagement, Select, TemperatureThreshold,
    Timestamp, VolatileWriteCache,
};
use nvme::log::{PersistentEventType, SetFeatureEvent, TimestampChangeEvent};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{Command, NSID_ALL, Status, U16, U32, U64};
use serde::{Deserialize, Serialize};

/// Values of the features that a controller keeps. What is saved is the drive's: every controller starts
/// with it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Values {
    pub arbitration: u32,
    pub power: u32,
    /// Kelvins; at or above it is too warm.
    pub over_temperature: u16,
    /// Kelvins; at or below it is too cold.
    pub under_temperature: u16,
    pub error_recovery: u32,
    pub write_cache: bool,
    pub write_atomicity: u32,
    pub async_events: u32,
    /// LBA Status Information Report Interval, in units of 100 ms.
    pub lba_report_interval: u16,
    /// Critical warnings that raise an event, by Endurance Group.
    group_events: Vec<u8>,
}

impl Default for Values {
    fn default() -> Self {
        Values {
            // No limit of the burst, equal weights.
            arbitration: 7,
            power: 0,
            over_temperature: WARNING_TEMPERATURE,
            under_temperature: 0,
            error_recovery: 0,
            write_cache: true,
            write_atomicity: 0,
            async_events: 0,
            lba_report_interval: 0,
            group_events: Vec::new(),
        }
    }
}

impl Values {
    /// What Asynchronous Event Configuration says.
    pub fn events(&self) -> AsyncEventConfiguration {
        AsyncEventConfiguration::from_bits(self.async_events.into())
    }

    /// Critical warnings of an Endurance Group that raise an event.
    pub fn group_events(&self, endgid: u16) -> u8 {
        self.group_events.get(usize::from(endgid).wrapping_sub(1)).copied().unwrap_or(0)
    }

    fn set_group_events(&mut self, endgid: u16, warnings: u8) {
        let index = usize::from(endgid).saturating_sub(1);
        if self.group_events.len() <= index {
            self.group_events.resize(index + 1, 0);
        }
        self.group_events[index] = warnings;
    }
}

/// What a host says of itself (Host Behavior Support, Base 5.1.25.1.14); every controller begins without.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Behavior(HostBehaviorSupport);

impl Behavior {
    /// LBA Format Extension Enable.
    #[inline]
    pub fn extended_formats(&self) -> bool {
        self.0.lbafee != 0
    }

    /// Whether a Copy Descriptor Format may be used: 2h and 3h must be enabled (CDFE).
    pub fn copy_format(&self, format: u8) -> bool {
        format < 2 || self.0.cdfe.get().checked_shr(format.into()).unwrap_or(0) & 1 != 0
    }
}

const SAVEABLE: FeatureCapabilities = FeatureCapabilities::new().with_saveable(true).with_changeable(true);
const CHANGEABLE: FeatureCapabilities = FeatureCapabilities::new().with_changeable(true);
const FIXED: FeatureCapabilities = FeatureCapabilities::new();

/// Optional asynchronous events that the drive sends (OAES).
pub(crate) const OPTIONAL_EVENTS: AsyncEventConfiguration = AsyncEventConfiguration::new()
    .with_nan(true)
    .with_fan(true)
    .with_tln(true)
    .with_anacn(true)
    .with_pleln(true)
    .with_lsin(true)
    .with_egealcn(true);

/// All critical warnings of SMART.
const SMART_EVENTS: u8 = 0x1F;

impl Drive {
    /// What may be done with a feature; `None` if the drive does not have it.
    pub(crate) fn capabilities(&self, fid: FeatureId) -> Option<FeatureCapabilities> {
        Some(match fid {
            FeatureId::ARBITRATION
            | FeatureId::POWER_MANAGEMENT
            | FeatureId::TEMPERATURE_THRESHOLD
            | FeatureId::ERROR_RECOVERY
            | FeatureId::WRITE_ATOMICITY
            | FeatureId::ASYNC_EVENT_CONFIGURATION
            | FeatureId::LBA_STATUS_ATTRIBUTES
            | FeatureId::ENDURANCE_GROUP_EVENT_CONFIGURATION => SAVEABLE,
            FeatureId::VOLATILE_WRITE_CACHE if self.core.config.has_volatile_write_cache() => SAVEABLE,
            FeatureId::NUMBER_OF_QUEUES
            | FeatureId::TIMESTAMP
            | FeatureId::KEEP_ALIVE_TIMER
            | FeatureId::HOST_BEHAVIOR_SUPPORT => CHANGEABLE,
            FeatureId::PREDICTABLE_LATENCY_CONFIG if self.has_windows() => SAVEABLE,
            FeatureId::PREDICTABLE_LATENCY_WINDOW if self.has_windows() => CHANGEABLE,
            FeatureId::FDP if self.core.has_placement() => SAVEABLE,
            FeatureId::FDP_EVENTS if self.core.has_placement() => SAVEABLE.with_namespace_specific(true),
            FeatureId::HOST_IDENTIFIER => FIXED,
            FeatureId::QUOTA => SAVEABLE.with_namespace_specific(true),
            FeatureId::RESERVATION_NOTIFICATION_MASK | FeatureId::RESERVATION_PERSISTENCE => {
                CHANGEABLE.with_namespace_specific(true)
            }
            _ => return None,
        })
    }

    /// What may be done with the feature that a command names. A UUID Index must choose this drive's own vendor specific
    /// features; there are no others.
    fn known_feature(&self, fid: FeatureId, uidx: u8) -> Result<FeatureCapabilities, Failure> {
        if fid.0 >= uuid::VENDOR_SPECIFIC && !matches!(uuid::chosen(uidx)?, None | Some(Vendor::Tranche)) {
            return Err(Failure::field(40));
        }
        self.capabilities(fid).ok_or(Failure::field(40))
    }

    /// Features that do not belong to a namespace; Error Recovery does, and this drive keeps it for all alike.
    fn check_nsid(&self, id: ControllerId, fid: FeatureId, nsid: u32) -> Result<(), Failure> {
        if nsid == 0 || nsid == NSID_ALL {
            return Ok(());
        }
        if !self.core.controller(id)?.is_attached(nsid) {
            return Err(self.core.no_namespace(nsid));
        }
        self.core.check_access(id)?;
        if [FeatureId::ERROR_RECOVERY, FeatureId::FDP_EVENTS].contains(&fid) {
            return Ok(());
        }
        Err(Failure { location: 4, ..Status::FEATURE_NOT_NAMESPACE_SPECIFIC.into() })
    }

    pub(crate) fn get_features(&mut self, id: ControllerId, c: GetFeatures, now: Nanos) -> Outcome {
        let capabilities = self.known_feature(c.fid, c.uidx)?;
        if c.sel == Select::SUPPORTED_CAPABILITIES {
            return Ok(Reply::Done(capabilities.into_bits().get()));
        }
        if c.fid == FeatureId::QUOTA {
            return quota::get(&self.core, id, &c);
        }
        if c.sel == Select::CURRENT {
            // Other values do not depend on a namespace, and default and saved ones exist without any.
            let ignores = [
                FeatureId::HOST_IDENTIFIER,
                FeatureId::TIMESTAMP,
                FeatureId::KEEP_ALIVE_TIMER,
                FeatureId::HOST_BEHAVIOR_SUPPORT,
            ];
            if !ignores.contains(&c.fid) && c.nsid != 0 && c.nsid != NSID_ALL {
                // The namespace of a Get is not used, but it must be one (Base 5.1.11).
                self.check_nsid(id, FeatureId::ERROR_RECOVERY, c.nsid)?;
            }
        }
        match c.fid {
            FeatureId::PREDICTABLE_LATENCY_CONFIG => return self.get_window_config(&c),
            FeatureId::PREDICTABLE_LATENCY_WINDOW => return self.get_window(&c, now),
            FeatureId::FDP => return fdp::get_mode(&self.core, &c),
            FeatureId::FDP_EVENTS => return fdp::get_events(&self.core, id, &c),
            _ => {}
        }
        let controller = self.core.controller(id)?;
        let defaults = Values::default();
        let (values, current) = match c.sel {
            Select::DEFAULT => (&defaults, false),
            // What cannot be saved shows its default (Base 4.4, "saved value").
            Select::SAVED => {
                (if capabilities.saveable() { &self.core.persistent.saved } else { &defaults }, false)
            }
            _ => (&controller.values, true),
        };
        Ok(match c.fid {
            FeatureId::ARBITRATION => Reply::Done(values.arbitration),
            FeatureId::POWER_MANAGEMENT => Reply::Done(values.power),
            FeatureId::TEMPERATURE_THRESHOLD => {
                let asked = TemperatureThreshold::from_bits(c.cdw11.into());
                if asked.tmpsel() != 0 || asked.thsel() > 1 {
                    return Err(Failure::field(46));
                }
                let kelvins = [values.over_temperature, values.under_temperature][usize::from(asked.thsel())];
                Reply::Done(asked.with_tmpth(kelvins).into_bits().get() & 0x003F_FFFF)
            }
            FeatureId::ERROR_RECOVERY => Reply::Done(values.error_recovery),
            FeatureId::VOLATILE_WRITE_CACHE => Reply::Done(values.write_cache.into()),
            FeatureId::NUMBER_OF_QUEUES => {
                let granted = if current { controller.granted } else { MAX_IO_QUEUES };
                Reply::Done(queues(granted))
            }
            FeatureId::WRITE_ATOMICITY => Reply::Done(values.write_atomicity),
            FeatureId::ASYNC_EVENT_CONFIGURATION => Reply::Done(values.async_events),
            FeatureId::LBA_STATUS_ATTRIBUTES => {
                let attributes = LbaStatusAttributes::new().with_lsiri(values.lba_report_interval);
                Reply::Done(attributes.with_lsipi(POLL_INTERVAL).into_bits().get())
            }
            FeatureId::TIMESTAMP => {
                let timestamp = if current { self.core.clock.read(now) } else { Timestamp::default() };
                Reply::Data(timestamp.as_bytes().to_vec(), 0)
            }
            FeatureId::KEEP_ALIVE_TIMER => {
                let millis = controller.kato.0 / 1_000_000;
                Reply::Done(if current { u32::try_from(millis).unwrap_or(u32::MAX) } else { 0 })
            }
            FeatureId::HOST_BEHAVIOR_SUPPORT => {
                let behavior = if current { controller.behavior } else { Behavior::default() };
                Reply::Data(behavior.0.as_bytes().to_vec(), 0)
            }
            FeatureId::ENDURANCE_GROUP_EVENT_CONFIGURATION => {
                let endgid = EnduranceGroupEvents::from_bits(c.cdw11.into()).endgid();
                self.check_group(endgid)?;
                let warnings = values.group_events(endgid);
                Reply::Done(
                    EnduranceGroupEvents::new().with_endgid(endgid).with_egcw(warnings).into_bits().get(),
                )
            }
            FeatureId::HOST_IDENTIFIER => {
                if !HostIdentifierCdw11::from_bits(c.cdw11.into()).exhid() {
                    // Fabrics hosts have identifiers of 128 bits only.
                    return Err(Failure::field(44));
                }
                let host = if current { controller.host_id } else { [0; 16] };
                Reply::Data(host.to_vec(), 0)
            }
            FeatureId::RESERVATION_NOTIFICATION_MASK | FeatureId::RESERVATION_PERSISTENCE => {
                return reservation::get_feature(&self.core, id, c.fid, c.nsid, current);
            }
            _ => return Err(Failure::field(40)),
        })
    }

    fn check_group(&self, endgid: u16) -> Result<(), Failure> {
        if endgid == 0 || usize::from(endgid) > self.core.ftl.set_count() {
            return Err(Failure::field(44));
        }
        Ok(())
    }

    pub(crate) fn set_features<S: Contents>(
        &mut self,
        id: ControllerId,
        c: SetFeatures,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        let capabilities = self.known_feature(c.fid, c.uidx)?;
        if c.fid == FeatureId::QUOTA {
            let reply = quota::set(&mut self.core, id, &c, data, cx.now)?;
            if c.sv {
                self.remember_saved(id, c, cx.now);
                self.core.record(cx.storage);
            }
            return Ok(reply);
        }
        if !capabilities.namespace_specific() {
            self.check_nsid(id, c.fid, c.nsid)?;
        }
        if c.sv && !capabilities.saveable() {
            return Err(Failure { location: 40, ..Status::FEATURE_NOT_SAVEABLE.into() });
        }
        if c.fid == FeatureId::HOST_IDENTIFIER {
            // Over fabrics the host gives it with Connect (Base 5.1.25.1.28).
            return Err(Status::COMMAND_SEQUENCE_ERROR.into());
        }
        match c.fid {
            FeatureId::NUMBER_OF_QUEUES => return self.set_number_of_queues(id, c.cdw11),
            FeatureId::TIMESTAMP => return self.set_timestamp(id, data, cx),
            FeatureId::HOST_BEHAVIOR_SUPPORT => return self.set_behavior(id, data),
            FeatureId::RESERVATION_NOTIFICATION_MASK | FeatureId::RESERVATION_PERSISTENCE => {
                return reservation::set_feature(&mut self.core, id, c, cx);
            }
            FeatureId::PREDICTABLE_LATENCY_CONFIG => return self.set_window_config(&c, data, cx),
            FeatureId::PREDICTABLE_LATENCY_WINDOW => return self.set_window(&c, cx),
            FeatureId::FDP => return fdp::set_mode(&mut self.core, &c, cx),
            FeatureId::FDP_EVENTS => return fdp::set_events(&mut self.core, id, &c, data, cx),
            FeatureId::KEEP_ALIVE_TIMER => {
                return self.core.set_keep_alive(id, c.cdw11, cx.now).map(|()| Reply::Done(0));
            }
            _ => {}
        }
        let groups = self.core.ftl.set_count();
        let mut values = self.core.controller(id)?.values.clone();
        set_value(&mut values, &c, groups)?;
        if c.sv {
            // Only this feature is saved, not what others were set to without saving.
            set_value(&mut self.core.persistent.saved, &c, groups)?;
            self.remember_saved(id, c, cx.now);
            self.core.record(cx.storage);
        }
        self.core.controller_mut(id)?.values = values;
        self.health.warn(&mut self.core, id, cx);
        self.core.alert_of_losses(id, cx);
        Ok(Reply::Done(0))
    }

    /// A value was saved, which the Persistent Event log tells.
    fn remember_saved(&mut self, id: ControllerId, c: SetFeatures, now: Nanos) {
        let command = Command::from(c);
        let cdw = [command.cdw10, command.cdw11, command.cdw12, command.cdw13, command.cdw14, command.cdw15];
        let event = SetFeatureEvent { layout: U32::new(cdw.len() as u32), cdw };
        self.core.remember(now, Some(id), PersistentEventType::SET_FEATURE, event.as_bytes());
    }

    fn set_number_of_queues(&mut self, id: ControllerId, cdw11: u32) -> Outcome {
        let asked = NumberOfQueues::from_bits(cdw11.into());
        if asked.nsq_z() == u16::MAX || asked.ncq_z() == u16::MAX {
            return Err(Failure::field(44));
        }
        let controller = self.core.controller_mut(id)?;
        if controller.has_io_queues() {
            return Err(Status::COMMAND_SEQUENCE_ERROR.into());
        }
        // Over fabrics a queue is a pair.
        controller.granted = (asked.nsq_z().min(asked.ncq_z()) + 1).min(MAX_IO_QUEUES);
        Ok(Reply::Done(queues(controller.granted)))
    }

    fn set_behavior(&mut self, id: ControllerId, data: &[u8]) -> Outcome {
        let (asked, _) =
            HostBehaviorSupport::ref_from_prefix(data).map_err(|_| Status::DATA_SGL_LENGTH_INVALID)?;
        if asked.acre > 1 || asked.etdas > 1 || asked.lbafee > 1 || asked.hdisns > 1 {
            return Err(Failure::from(Status::INVALID_FIELD));
        }
        // What the drive does not have cannot be enabled, and reads as not enabled.
        let kept = HostBehaviorSupport {
            lbafee: asked.lbafee,
            // Of formats 0h and 1h there is nothing to enable.
            cdfe: U16::new(asked.cdfe.get() & COPY_FORMATS & !3),
            ..HostBehaviorSupport::default()
        };
        self.core.controller_mut(id)?.behavior = Behavior(kept);
        Ok(Reply::Done(0))
    }

    fn set_timestamp<S: Contents>(&mut self, id: ControllerId, data: &[u8], cx: &mut Cx<'_, S>) -> Outcome {
        let (timestamp, _) = Timestamp::ref_from_prefix(data).map_err(|_| Status::DATA_SGL_LENGTH_INVALID)?;
        let before = self.core.clock.read(cx.now);
        self.core.clock.set(timestamp.millis(), cx.now);
        let event = TimestampChangeEvent {
            previous: U64::read_from_bytes(before.as_bytes()).unwrap_or_default(),
            since_reset_ms: U64::new(cx.now.since(self.core.power.since).0 / 1_000_000),
        };
        self.core.remember(cx.now, Some(id), PersistentEventType::TIMESTAMP_CHANGE, event.as_bytes());
        self.core.record(cx.storage);
        Ok(Reply::Done(0))
    }
}

/// The result of Number of Queues: as many of both kinds.
fn queues(granted: u16) -> u32 {
    let zero_based = granted.saturating_sub(1);
    NumberOfQueues::new().with_nsq_z(zero_based).with_ncq_z(zero_based).into_bits().get()
}

/// Sets the value of a feature that is kept in [`Values`].
fn set_value(values: &mut Values, c: &SetFeatures, groups: usize) -> Result<(), Failure> {
    match c.fid {
        FeatureId::ARBITRATION => values.arbitration = c.cdw11 & 0xFFFF_FF07,
        FeatureId::POWER_MANAGEMENT => {
            // One power state (NPSS).
            let asked = PowerManagement::from_bits(c.cdw11.into());
            if asked.ps() != 0 {
                return Err(Failure::field(44));
            }
            values.power = c.cdw11 & 0xFF;
        }
        FeatureId::TEMPERATURE_THRESHOLD => {
            let asked = TemperatureThreshold::from_bits(c.cdw11.into());
            // The composite temperature, or all sensors, of which there are no others; no hysteresis.
            if ![0, 0xF].contains(&asked.tmpsel()) || asked.thsel() > 1 || asked.tmpthh() != 0 {
                return Err(Failure::field(46));
            }
            if asked.thsel() == 0 {
                values.over_temperature = asked.tmpth();
            } else {
                values.under_temperature = asked.tmpth();
            }
        }
        FeatureId::ERROR_RECOVERY => {
            let dulbe = c.cdw11 & 0x1_0000 != 0;
            if dulbe {
                // Deallocated blocks read as zeros, never as errors (NSFEAT.DAE).
                return Err(Failure::field(46));
            }
            values.error_recovery = c.cdw11 & 0xFFFF;
        }
        FeatureId::VOLATILE_WRITE_CACHE => {
            values.write_cache = VolatileWriteCache::from_bits(c.cdw11.into()).wce()
        }
        FeatureId::WRITE_ATOMICITY => values.write_atomicity = c.cdw11 & 1,
        FeatureId::ASYNC_EVENT_CONFIGURATION => {
            // Events that the drive never has are never sent; asking for them is no mistake.
            let asked = AsyncEventConfiguration::from_bits(c.cdw11.into());
            let kept = OPTIONAL_EVENTS.with_smart(SMART_EVENTS).into_bits().get();
            values.async_events = asked.into_bits().get() & kept;
        }
        FeatureId::LBA_STATUS_ATTRIBUTES => {
            // The poll interval is not the host's to set.
            values.lba_report_interval = LbaStatusAttributes::from_bits(c.cdw11.into()).lsiri();
        }
        FeatureId::ENDURANCE_GROUP_EVENT_CONFIGURATION => {
            let asked = EnduranceGroupEvents::from_bits(c.cdw11.into());
            if asked.endgid() == 0 || usize::from(asked.endgid()) > groups {
                return Err(Failure::field(44));
            }
            values.set_group_events(asked.endgid(), asked.egcw());
        }
        _ => return Err(Failure::field(40)),
    }
    Ok(())
}
