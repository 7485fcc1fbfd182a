//! Health: critical warnings of the media, and the events that tell hosts of them.
//!
//! Logs that show it are in [`smart`]. A look at the media returns what is new; the drive remembers that in the Persistent Event log and
//! captures telemetry.

pub(crate) mod smart;

use crate::contents::Contents;
use crate::core::{AsyncEvent, Controller, ControllerId, Core, Cx};
use crate::temperature::TEMPERATURE;
use ftl::{MediaKind, SetId, SetInfo};
use nvme::log::{CriticalWarning, EnduranceWarning};

/// Erases after which wear is looked at again.
const ERASES: u64 = 4096;

/// What the last look at the media found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    /// Critical warnings of the drive.
    warned: u8,
    /// Volatile memory lost what the capacitors should have saved.
    pub backup_failed: bool,
    /// Erases and failures, by NVM Set.
    seen: Vec<(u64, u64)>,
}

/// Critical warnings that a look at the media found and the one before did not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct NewWarnings {
    /// Of the drive.
    pub drive: CriticalWarning,
    /// By Endurance Group Identifier.
    pub groups: Vec<(u16, EnduranceWarning)>,
}

impl NewWarnings {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.drive.into_bits() == 0 && self.groups.is_empty()
    }
}

impl Health {
    /// Critical warnings of the drive as a controller sees them. Its temperature thresholds are its own.
    pub fn critical_warning(&self, core: &Core, controller: &Controller) -> CriticalWarning {
        let values = &controller.values;
        let temperature = TEMPERATURE >= values.over_temperature || TEMPERATURE <= values.under_temperature;
        self.common_warning(core).with_ttc(temperature)
    }

    /// Critical warnings that all controllers see alike.
    pub fn common_warning(&self, core: &Core) -> CriticalWarning {
        let (mut spare, mut degraded, mut read_only) = (false, false, true);
        for (_, info) in core.sets() {
            let group = group_warning(core, &info);
            spare |= group.spare();
            degraded |= group.degraded();
            read_only &= group.read_only();
        }
        CriticalWarning::new()
            .with_ascbt(spare)
            .with_ndr(degraded)
            .with_amro(read_only)
            .with_vmbf(self.backup_failed)
    }

    /// Whether the media have worn or failed since the last look. It is cheap enough to be called often.
    pub fn has_worn(&mut self, core: &Core) -> bool {
        let mut changed = false;
        for i in 0..core.ftl.set_count() {
            let stats = core.ftl.set_stats(SetId(i as u8));
            if self.seen.len() <= i {
                self.seen.push((0, 0));
            }
            let seen = &mut self.seen[i];
            if stats.media_failures != seen.1 || stats.erases >= seen.0 + ERASES {
                *seen = (stats.erases, stats.media_failures);
                changed = true;
            }
        }
        changed
    }

    /// Looks for critical warnings. The core learns which sets can only be read.
    pub fn look(&mut self, core: &mut Core) -> NewWarnings {
        let groups: Vec<EnduranceWarning> = core.sets().map(|(_, info)| group_warning(core, &info)).collect();
        let before = std::mem::replace(&mut core.group_warnings, groups);
        let warning = self.common_warning(core).into_bits();
        let drive = CriticalWarning::from_bits(warning & !self.warned);
        self.warned = warning;
        let mut new = NewWarnings { drive, groups: Vec::new() };
        for (i, group) in core.group_warnings.iter().enumerate() {
            let old = before.get(i).map_or(0, |w| w.into_bits());
            let bits = group.into_bits() & !old;
            if bits != 0 {
                new.groups.push((i as u16 + 1, EnduranceWarning::from_bits(bits)));
            }
        }
        new
    }

    /// What the last look found, in words.
    pub fn summary(&self, core: &Core) -> String {
        let (warning, groups) = (self.warned, groups_summary(core).into_bits());
        format!("critical warning {warning:02x}h, of endurance groups {groups:02x}h")
    }

    /// Tells all controllers of critical warnings that they were not told of.
    pub fn warn_all<S: Contents>(&self, core: &mut Core, cx: &mut Cx<'_, S>) {
        for id in core.controllers.ids() {
            self.warn(core, id, cx);
        }
    }

    /// Tells a controller of critical warnings that it was not told of.
    pub fn warn<S: Contents>(&self, core: &mut Core, id: ControllerId, cx: &mut Cx<'_, S>) {
        let Some(controller) = core.controllers.get(id) else { return };
        let warning = self.critical_warning(core, controller);
        let Some(controller) = core.controllers.get_mut(id) else { return };
        let enabled = warning.into_bits() & controller.values.events().smart();
        let new = CriticalWarning::from_bits(enabled & !controller.warned);
        controller.warned = enabled;
        let events = [
            (new.ascbt(), AsyncEvent::Spare),
            (new.ttc(), AsyncEvent::Temperature),
            (new.ndr() || new.amro() || new.vmbf(), AsyncEvent::Reliability),
        ];
        let answered: Vec<_> = events
            .into_iter()
            .filter(|(happened, _)| *happened)
            .filter_map(|(_, event)| controller.raise(event))
            .collect();
        for answer in answered {
            core.answer_event(answer, cx);
        }
    }
}

/// Tells controllers of new critical warnings of Endurance Groups.
pub(crate) fn tell_of_groups<S: Contents>(core: &mut Core, new: &NewWarnings, cx: &mut Cx<'_, S>) {
    for (endgid, warning) in &new.groups {
        let note = |controller: &mut Controller| {
            let wanted = controller.values.group_events(*endgid) & warning.into_bits() != 0;
            if wanted {
                controller.changed_groups.insert(*endgid);
            }
            wanted
        };
        core.raise_where(AsyncEvent::EnduranceGroup, note, cx);
    }
}

/// Critical warnings of one Endurance Group.
fn group_warning(core: &Core, info: &SetInfo) -> EnduranceWarning {
    EnduranceWarning::new()
        .with_spare(info.media == MediaKind::Nand && info.spare_percent < core.config.spare_threshold)
        .with_degraded(info.used_percent > 100 || info.read_only)
        .with_read_only(info.read_only)
}

/// Critical warnings of all Endurance Groups together.
fn groups_summary(core: &Core) -> EnduranceWarning {
    core.sets().fold(EnduranceWarning::new(), |all, (_, info)| {
        EnduranceWarning::from_bits(all.into_bits() | group_warning(core, &info).into_bits())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Role;
    use crate::fixture;
    use media::Nanos;
    use nvme::NSID_ALL;

    #[test]
    fn a_warning_is_new_once() {
        let (mut core, mut health) = (fixture::core(), Health::default());
        assert!(health.look(&mut core).is_empty());
        // A threshold that no drive reaches.
        core.config.spare_threshold = 101;
        health.backup_failed = true;
        let new = health.look(&mut core);
        assert!(new.drive.ascbt() && new.drive.vmbf() && !new.drive.amro());
        assert_eq!(new.groups, [(1, EnduranceWarning::new().with_spare(true))]);
        assert!(health.look(&mut core).is_empty());
        assert_eq!(health.summary(&core), "critical warning 11h, of endurance groups 01h");
    }

    #[test]
    fn a_tenant_is_not_told_how_busy_the_drive_is() {
        let mut core = fixture::core();
        let id = fixture::connect(&mut core, 1);
        core.persistent.busy = 5 * 60_000_000_000;
        let health = Health::default();
        let busy =
            |core: &Core, nsid| health.smart(core, id, nsid, Nanos::ZERO).unwrap().controller_busy_time.get();
        assert_eq!(busy(&core, NSID_ALL), 5);
        core.controllers.get_mut(id).unwrap().role = Role::Tenant(vec![1]);
        assert_eq!([0, NSID_ALL, 1].map(|nsid| busy(&core, nsid)), [0; 3]);
    }

    #[test]
    fn temperature_thresholds_belong_to_a_controller() {
        let mut core = fixture::core();
        let (a, b) = (fixture::connect(&mut core, 1), fixture::connect(&mut core, 2));
        core.controllers.get_mut(a).unwrap().values.over_temperature = TEMPERATURE;
        let health = Health::default();
        let warns = |id| health.critical_warning(&core, core.controllers.get(id).unwrap()).ttc();
        assert!(warns(a) && !warns(b));
    }
}
