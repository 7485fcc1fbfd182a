//! Wear, spare, temperature: what SMART warns of, and the events that say so.

use crate::contents::Contents;
use crate::core::{AsyncEvent, Controller, ControllerId, Cx};
use crate::drive::Drive;
use ftl::{MediaKind, SetId, SetInfo};
use nvme::feature::AsyncEventConfiguration;
use nvme::log::{CriticalWarning, EnduranceWarning};

/// Composite temperature in kelvins (40 °C). Heat is not modelled.
pub(crate) const TEMPERATURE: u16 = 313;
/// Warning Composite Temperature Threshold (70 °C).
pub(crate) const WARNING_TEMPERATURE: u16 = 343;
/// Critical Composite Temperature Threshold (85 °C).
pub(crate) const CRITICAL_TEMPERATURE: u16 = 358;

/// What the last look at the media found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    /// Critical warnings that the Persistent Event log knows of.
    remembered: u8,
    /// Volatile memory lost what the capacitors should have saved.
    pub backup_failed: bool,
    /// Erases and failures at the last look.
    seen: Vec<(u64, u64)>,
}

/// Erases after which wear is looked at again.
const ERASES: u64 = 4096;

impl Drive {
    /// Critical warnings of one Endurance Group.
    pub(crate) fn group_warning(&self, info: &SetInfo) -> EnduranceWarning {
        EnduranceWarning::new()
            .with_spare(
                info.media == MediaKind::Nand && info.spare_percent < self.core.config.spare_threshold,
            )
            .with_degraded(info.used_percent > 100 || info.read_only)
            .with_read_only(info.read_only)
    }

    /// Critical warnings of the drive, as this controller sees them (its temperature thresholds are its own).
    pub(crate) fn critical_warning(&self, controller: &Controller) -> CriticalWarning {
        let values = &controller.values;
        let temperature = TEMPERATURE >= values.over_temperature || TEMPERATURE <= values.under_temperature;
        self.common_warning().with_ttc(temperature)
    }

    /// Critical warnings that all controllers see alike.
    pub(crate) fn common_warning(&self) -> CriticalWarning {
        let (mut spare, mut degraded, mut read_only) = (false, false, true);
        for (_, info) in self.core.sets() {
            let group = self.group_warning(&info);
            spare |= group.spare();
            degraded |= group.degraded();
            read_only &= group.read_only();
        }
        CriticalWarning::new()
            .with_ascbt(spare)
            .with_ndr(degraded)
            .with_amro(read_only)
            .with_vmbf(self.health.backup_failed)
    }

    /// A summary of what every Endurance Group warns of.
    pub(crate) fn groups_summary(&self) -> EnduranceWarning {
        self.core.sets().fold(EnduranceWarning::new(), |all, (_, info)| {
            EnduranceWarning::from_bits(all.into_bits() | self.group_warning(&info).into_bits())
        })
    }

    /// Looks whether the media have worn or failed since the last look; cheap enough to be called often.
    pub(crate) fn watch_wear<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        let mut changed = false;
        for i in 0..self.core.ftl.set_count() {
            let stats = self.core.ftl.set_stats(SetId(i as u8));
            if self.health.seen.len() <= i {
                self.health.seen.push((0, 0));
            }
            let seen = &mut self.health.seen[i];
            if stats.media_failures != seen.1 || stats.erases >= seen.0 + ERASES {
                *seen = (stats.erases, stats.media_failures);
                changed = true;
            }
        }
        if changed {
            self.check_health(cx);
        }
    }

    /// Looks for new critical warnings and raises their events.
    pub(crate) fn check_health<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        let groups: Vec<EnduranceWarning> =
            self.core.sets().map(|(_, info)| self.group_warning(&info)).collect();
        let before = std::mem::replace(&mut self.core.group_warnings, groups);
        let warning = self.common_warning().into_bits();
        let new = warning & !self.health.remembered;
        self.health.remembered = warning;
        let mut worse = new != 0;
        if worse {
            self.remember_warning(cx.now, CriticalWarning::from_bits(new));
        }
        for (i, group) in self.core.group_warnings.clone().into_iter().enumerate() {
            let old = before.get(i).map_or(0, |w| w.into_bits());
            let new = group.into_bits() & !old;
            if new != 0 {
                worse = true;
                self.remember_group_warning(cx.now, i as u16 + 1, EnduranceWarning::from_bits(new));
                self.group_event(i as u16 + 1, new, cx);
            }
        }
        if worse {
            let groups = self.groups_summary().into_bits();
            let reason = format!("critical warning {warning:02x}h, of endurance groups {groups:02x}h");
            self.capture_telemetry(reason, cx);
            self.core.record(cx.storage);
        }
        for id in self.core.controllers.ids() {
            self.warn(id, cx);
        }
    }

    /// Raises the events of critical warnings that this controller was not told yet.
    pub(crate) fn warn<S: Contents>(&mut self, id: ControllerId, cx: &mut Cx<'_, S>) {
        let Some(controller) = self.core.controllers.get(id) else { return };
        let warning = self.critical_warning(controller);
        let Some(controller) = self.core.controllers.get_mut(id) else { return };
        let configuration = controller.values.events();
        let enabled = warning.into_bits() & configuration.smart();
        let new = CriticalWarning::from_bits(enabled & !controller.warned);
        controller.warned = enabled;
        let mut events = Vec::new();
        if new.ascbt() {
            events.push(AsyncEvent::Spare);
        }
        if new.ttc() {
            events.push(AsyncEvent::Temperature);
        }
        if new.ndr() || new.amro() || new.vmbf() {
            events.push(AsyncEvent::Reliability);
        }
        let answered: Vec<_> =
            events.into_iter().filter_map(|e| controller.events.raise(e, configuration)).collect();
        for answer in answered {
            self.core.answer_event(answer, cx);
        }
    }

    /// New critical warnings of an Endurance Group.
    fn group_event<S: Contents>(&mut self, endgid: u16, new: u8, cx: &mut Cx<'_, S>) {
        let mut answers = Vec::new();
        for (_, controller) in self.core.controllers.iter_mut() {
            if controller.values.group_events(endgid) & new == 0 {
                continue;
            }
            controller.changed_groups.insert(endgid);
            let configuration: AsyncEventConfiguration = controller.values.events();
            answers.extend(controller.events.raise(AsyncEvent::EnduranceGroup, configuration));
        }
        for answer in answers {
            self.core.answer_event(answer, cx);
        }
    }
}
