//! Get and Set Features, by the component that a feature belongs to.

use super::Drive;
use crate::contents::Contents;
use crate::core::{AdminResult, ControllerId, Cx, Failure, Reply};
use crate::feature::table::FeatureInfo;
use crate::io::copy::COPY_FORMATS;
use crate::uuid::{self, Vendor};
use crate::{fdp, feature, quota, reservation};
use media::Nanos;
use nvme::admin::{GetFeatures, SetFeatures};
use nvme::feature::{FeatureId, Select};

impl Drive {
    /// The feature that a command names. A UUID Index must choose this drive's own vendor specific features; there are no
    /// others.
    fn known_feature(&self, fid: FeatureId, uidx: u8) -> Result<&'static FeatureInfo, Failure> {
        if fid.0 >= uuid::VENDOR_SPECIFIC && !matches!(uuid::chosen(uidx)?, None | Some(Vendor::Tranche)) {
            return Err(Failure::field(40));
        }
        feature::info(&self.core, fid).ok_or(Failure::field(40))
    }

    /// Whether Set Features waits for its turn: it records the drive's state, and the host does not administer the drive.
    pub(super) fn must_wait(&self, id: ControllerId, c: &SetFeatures) -> Result<bool, Failure> {
        let records = c.sv || [FeatureId::FDP_EVENTS, FeatureId::RESERVATION_PERSISTENCE].contains(&c.fid);
        Ok(records && !self.core.controller(id)?.role.is_administrator())
    }

    pub(super) fn get_features(&self, id: ControllerId, c: GetFeatures, now: Nanos) -> AdminResult {
        let info = self.known_feature(c.fid, c.uidx)?;
        if c.sel == Select::SUPPORTED_CAPABILITIES {
            return Ok(Reply::Done(info.capabilities().into_bits().get()));
        }
        if c.fid == FeatureId::QUOTA {
            return quota::get(&self.core, id, &c);
        }
        feature::check_get(&self.core, id, &c)?;
        match c.fid {
            FeatureId::PREDICTABLE_LATENCY_CONFIG => self.windows.get_config(&self.core, &c),
            FeatureId::PREDICTABLE_LATENCY_WINDOW => self.windows.get_window(&self.core, &c, now),
            FeatureId::FDP => fdp::get_mode(&self.core, &c),
            FeatureId::FDP_EVENTS => fdp::get_events(&self.core, id, &c),
            FeatureId::RESERVATION_NOTIFICATION_MASK | FeatureId::RESERVATION_PERSISTENCE => {
                let current = ![Select::DEFAULT, Select::SAVED].contains(&c.sel);
                reservation::get_feature(&self.core, id, c.fid, c.nsid, current)
            }
            _ => feature::get(&self.core, id, &c, info, now),
        }
    }

    pub(super) fn set_features<S: Contents>(
        &mut self,
        id: ControllerId,
        c: SetFeatures,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> AdminResult {
        let info = self.known_feature(c.fid, c.uidx)?;
        if c.fid == FeatureId::QUOTA {
            let reply = quota::set(&mut self.core, id, &c, data, cx.now)?;
            if c.sv {
                feature::record_saved(&mut self.core, id, &c, cx);
            }
            return Ok(reply);
        }
        feature::check_set(&self.core, id, &c, info)?;
        match c.fid {
            FeatureId::NUMBER_OF_QUEUES => feature::set_number_of_queues(&mut self.core, id, c.cdw11),
            FeatureId::IO_COMMAND_SET_PROFILE => feature::choose_command_sets(c.cdw11),
            FeatureId::TIMESTAMP => feature::set_timestamp(&mut self.core, id, data, cx),
            FeatureId::HOST_BEHAVIOR_SUPPORT => feature::set_behavior(&mut self.core, id, data, COPY_FORMATS),
            FeatureId::RESERVATION_NOTIFICATION_MASK | FeatureId::RESERVATION_PERSISTENCE => {
                reservation::set_feature(&mut self.core, id, c, cx)
            }
            FeatureId::PREDICTABLE_LATENCY_CONFIG => self.windows.set_config(&mut self.core, &c, data, cx),
            FeatureId::PREDICTABLE_LATENCY_WINDOW => {
                self.windows.set_window(&mut self.core, &c, self.sanitize.restricts(), cx)
            }
            FeatureId::FDP => fdp::set_mode(&mut self.core, &c, cx),
            FeatureId::FDP_EVENTS => fdp::set_events(&mut self.core, id, &c, data, cx),
            FeatureId::KEEP_ALIVE_TIMER => {
                self.core.set_keep_alive(id, c.cdw11, cx.now).map(|()| Reply::Done(0))
            }
            _ => {
                feature::set_value(&mut self.core, id, &c, cx)?;
                // A warning or an alert may be enabled now.
                self.health.warn(&mut self.core, id, cx);
                self.core.alert_of_losses(id, cx);
                Ok(Reply::Done(0))
            }
        }
    }
}
