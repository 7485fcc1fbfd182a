//! Get Log Page (Base 5.1.12) and the logs.

use super::Drive;
use crate::contents::{Contents, HostDiskFault};
use crate::core::AsyncEvent;
use crate::core::{AdminResult, ControllerId, Core, Cx, ERROR_ENTRIES, Failure, Reply};
use crate::fdp;
use crate::firmware;
use crate::health::smart;
use crate::keys;
use crate::log_table::{self, LOGS, LogRequirement};
use crate::logs::{
    capacity, command_effects, controllers, die_times, feature_effects, injected_faults, part_of, rotational,
    set_map,
};
use crate::persistent_event_log::{self, PersistentLogReport};
use crate::ports;
use crate::predictable_latency;
use crate::self_test;
use crate::stats;
use crate::telemetry;
use crate::uuid::{self, Vendor};
use crate::zones;
use media::Nanos;
use nvme::admin::GetLogPage;
use nvme::log::{
    ChangedNamespaces, ErrorInformation, LidSupported, LogId, PersistentEventAction, SupportedLogPages,
    TELEMETRY_BLOCK,
};
use nvme::zerocopy::IntoBytes;
use nvme::{NSID_ALL, Status};

impl Drive {
    pub(super) fn get_log_page<S: Contents>(
        &mut self,
        id: ControllerId,
        c: GetLogPage,
        cx: &mut Cx<'_, S>,
    ) -> AdminResult {
        let length = self.check_log(&c)?;
        match c.lid {
            // LSP bit 0: Create Telemetry Host-Initiated Data.
            LogId::TELEMETRY_HOST if c.lsp & 1 != 0 => {
                let inputs = self.telemetry_inputs();
                self.telemetry.create(&mut self.core, &inputs, id, cx);
            }
            LogId::LBA_STATUS => self.lost.gather(&mut self.core),
            LogId::FDP_EVENTS => fdp::gather_notes(&mut self.core, c.lsi),
            LogId::PREDICTABLE_LATENCY | LogId::PREDICTABLE_LATENCY_EVENTS => {
                self.windows.look_at_all(&mut self.core, self.sanitize.restricts(), cx);
            }
            _ => {}
        }
        let bytes = if c.lid == LogId::PERSISTENT_EVENT {
            let action = PersistentEventAction(c.lsp & 3);
            match persistent_event_log::report(&mut self.core, cx.now, id, action)? {
                PersistentLogReport::Released => vec![0; length],
                PersistentLogReport::Log(log) => part_of(log, c.offset, length)?,
                // For any offset.
                PersistentLogReport::Header(header) => part_of(header.as_bytes(), 0, length)?,
            }
        } else {
            part_of(&self.log(id, &c, cx.now, cx.storage.host_disk_fault())?, c.offset, length)?
        };
        if !c.rae {
            self.clear_event(id, &c, cx)?;
        }
        Ok(Reply::Data(bytes, 0))
    }

    /// Looks at the fields of a Get Log Page, and says how many bytes it asks for.
    fn check_log(&self, c: &GetLogPage) -> Result<usize, Failure> {
        if c.ot {
            // No log has an index (LID Supported and Effects, IOS).
            return Err(Failure::field(56));
        }
        if !c.offset.is_multiple_of(4) {
            return Err(Failure::field(48));
        }
        let is_telemetry = [LogId::TELEMETRY_HOST, LogId::TELEMETRY_CONTROLLER].contains(&c.lid);
        if is_telemetry && !c.offset.is_multiple_of(TELEMETRY_BLOCK as u64) {
            return Err(Failure::field(48));
        }
        if is_telemetry && !c.bytes().is_multiple_of(TELEMETRY_BLOCK as u64) {
            return Err(Failure::field(42));
        }
        if c.bytes() > u64::from(self.core.config.max_transfer) {
            return Err(Failure::field(42));
        }
        let by_namespace = log_table::of(c.lid).is_some_and(|info| info.by_namespace);
        if c.nsid != 0 && c.nsid != NSID_ALL && !by_namespace {
            // No other log is kept by namespace.
            return Err(Failure::field(4));
        }
        if let Some(owner) = Vendor::of_log(c.lid)
            && uuid::chosen(c.uidx)?.is_some_and(|vendor| vendor != owner)
        {
            return Err(Failure { location: 40, ..Status::INVALID_LOG_PAGE.into() });
        }
        usize::try_from(c.bytes()).map_err(|_| Failure::field(42))
    }

    /// The answer of a Get Log Page that changes nothing.
    pub(super) fn inspect_log(&self, id: ControllerId, c: &GetLogPage, now: Nanos) -> AdminResult {
        let length = self.check_log(c)?;
        Ok(Reply::Data(part_of(&self.log(id, c, now, None)?, c.offset, length)?, 0))
    }

    /// Reading a log without Retain Asynchronous Event clears what it told.
    fn clear_event<S: Contents>(
        &mut self,
        id: ControllerId,
        c: &GetLogPage,
        cx: &mut Cx<'_, S>,
    ) -> Result<(), Failure> {
        let controller = self.core.controller_mut(id)?;
        let mut more = None;
        match c.lid {
            LogId::CHANGED_NAMESPACES => controller.changed.clear(),
            LogId::TELEMETRY_CONTROLLER => {
                controller.events.clear(c.lid);
                telemetry::release(&mut self.core, cx);
                return Ok(());
            }
            LogId::ENDURANCE_GROUP => {
                controller.changed_groups.remove(&c.lsi);
            }
            LogId::PREDICTABLE_LATENCY => {
                controller.changed_windows.remove(&c.lsi);
                controller.window_events.remove(&c.lsi);
                return Ok(());
            }
            LogId::LBA_STATUS => controller.lost.read(cx.now),
            LogId::CHANGED_ZONES if controller.events.zones_read(c.nsid) => more = Some(AsyncEvent::Zones),
            LogId::RESERVATION_NOTIFICATION if controller.notifications.read() => {
                more = Some(AsyncEvent::Reservation);
            }
            _ => {}
        }
        controller.events.clear(c.lid);
        let answered = more.and_then(|event| controller.raise(event));
        if let Some(answered) = answered {
            self.core.answer_event(answered, cx);
        }
        Ok(())
    }

    /// A whole log. `disk` is the injected fault of the host's disk.
    fn log(
        &self,
        id: ControllerId,
        c: &GetLogPage,
        now: Nanos,
        disk: Option<HostDiskFault>,
    ) -> Result<Vec<u8>, Failure> {
        let controller = self.core.controller(id)?;
        Ok(match c.lid {
            _ if !has_log(&self.core, c.lid) => {
                return Err(Failure { location: 40, ..Status::INVALID_LOG_PAGE.into() });
            }
            LogId::SUPPORTED => {
                let mut log = SupportedLogPages::default();
                // With a UUID Index, of vendor specific logs only those of that vendor.
                let vendor = uuid::chosen(c.uidx)?;
                let meant = |lid| Vendor::of_log(lid).is_none_or(|owner| vendor.is_none_or(|v| v == owner));
                let has = |lid| meant(lid) && has_log(&self.core, lid) && controller.role.reads(lid);
                for info in LOGS.iter().filter(|info| has(info.lid)) {
                    let supported = LidSupported::new().with_lsupp(true).with_lidsp(info.parameter);
                    log.lid[usize::from(info.lid.0)] = supported;
                }
                log.as_bytes().to_vec()
            }
            LogId::ERROR => {
                let mut log = vec![ErrorInformation::default(); ERROR_ENTRIES];
                for (out, entry) in log.iter_mut().zip(&controller.errors) {
                    *out = *entry;
                }
                log.as_bytes().to_vec()
            }
            LogId::SMART => self.health.smart(&self.core, id, c.nsid, now)?.as_bytes().to_vec(),
            LogId::FIRMWARE_SLOT => firmware::log(&self.core).as_bytes().to_vec(),
            LogId::CHANGED_NAMESPACES => {
                ChangedNamespaces::new(controller.changed.iter().copied()).as_bytes().to_vec()
            }
            LogId::COMMAND_EFFECTS => command_effects(
                c,
                self.core.has_placement(),
                zones::are_supported(&self.core),
                &controller.role,
            )
            .as_bytes()
            .to_vec(),
            LogId::DEVICE_SELF_TEST => self_test::log(&self.core).as_bytes().to_vec(),
            LogId::TELEMETRY_HOST | LogId::TELEMETRY_CONTROLLER => self.telemetry.log(&self.core, c.lid),
            LogId::ENDURANCE_GROUP => {
                smart::endurance_group(&self.core, controller, c.lsi)?.as_bytes().to_vec()
            }
            LogId::ROTATIONAL_MEDIA => rotational::log(&self.core, c.lsi)?.as_bytes().to_vec(),
            LogId::ENDURANCE_GROUP_EVENTS => {
                let groups = &controller.changed_groups;
                let mut log = (groups.len() as u64).to_le_bytes().to_vec();
                log.extend(groups.iter().flat_map(|g| g.to_le_bytes()));
                log
            }
            // LSP bit 0: Return Groups Only.
            LogId::ANA => ports::ana_log(&self.core, controller, c.lsp & 1 != 0),
            LogId::SUPPORTED_CAPACITY_CONFIGURATIONS => capacity::configurations(&self.core),
            LogId::FEATURE_EFFECTS => feature_effects(&self.core),
            // There is no management interface, so none of its commands.
            LogId::MI_EFFECTS => vec![0; 4096],
            LogId::RESERVATION_NOTIFICATION => controller.notifications.page().as_bytes().to_vec(),
            LogId::LBA_STATUS => self.lost.log(controller),
            LogId::CHANGED_ZONES => zones::changed::log(&self.core, id, c.nsid)?.as_bytes().to_vec(),
            LogId::SANITIZE_STATUS => {
                let crypto_erase = keys::can_crypto_erase(&self.core);
                self.sanitize.status(&self.core, crypto_erase, now).as_bytes().to_vec()
            }
            LogId::PREDICTABLE_LATENCY => {
                self.windows.log(&self.core, controller, c.lsi, now)?.as_bytes().to_vec()
            }
            LogId::PREDICTABLE_LATENCY_EVENTS => {
                let sets = &controller.changed_windows;
                let mut log = (sets.len() as u64).to_le_bytes().to_vec();
                log.extend(sets.iter().flat_map(|s| s.to_le_bytes()));
                log
            }
            LogId::FDP_CONFIGURATIONS | LogId::RUH_USAGE | LogId::FDP_STATISTICS | LogId::FDP_EVENTS => {
                fdp::logs::log(&self.core, c.lid, c.lsi, c.lsp)?
            }
            LogId::OCP_SMART => {
                self.health.ocp_smart(&self.core, firmware::revision(&self.core)).as_bytes().to_vec()
            }
            LogId::MEMBLAZE_SMART => self.health.memblaze_smart(&self.core).as_bytes().to_vec(),
            LogId::NAMESPACE_STATISTICS => {
                let log = match c.nsid {
                    0 | NSID_ALL => self.deleted.all_statistics(&self.core, controller, now),
                    nsid => {
                        self.core.seen(id, nsid).and_then(|_| stats::statistics(&self.core, nsid, now))?
                    }
                };
                log.as_bytes().to_vec()
            }
            LogId::CONTROLLERS => controllers(&self.core),
            LogId::SET_MAP => {
                let wanted = c.offset..c.offset.saturating_add(c.bytes());
                set_map::log(&self.core, controller, c.lsi, wanted, now)?
            }
            LogId::DIE_TIMES => die_times::log(&self.core, c.lsi, now)?,
            LogId::INJECTED_FAULTS => {
                injected_faults::log(&self.core, &self.ports, &self.protocol_faults, disk, now)
            }
            _ => return Err(Failure { location: 40, ..Status::INVALID_LOG_PAGE.into() }),
        })
    }
}

/// Whether the drive has a log.
fn has_log(core: &Core, lid: LogId) -> bool {
    log_table::of(lid).is_some_and(|info| match info.requires {
        LogRequirement::None => true,
        LogRequirement::Windows => predictable_latency::is_supported(core),
        LogRequirement::Placement => core.has_placement(),
        LogRequirement::Zones => zones::are_supported(core),
        LogRequirement::Disk => rotational::is_supported(core),
    })
}
