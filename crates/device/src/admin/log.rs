//! Get Log Page (Base 5.1.12) and the logs.

use crate::contents::Contents;
use crate::controller::{Controller, ControllerId, ERROR_ENTRIES, Origin};
use crate::drive::{Cx, Drive, Failure, Outcome, Reply};
use crate::health::TEMPERATURE;
use crate::stats;
use ftl::{MediaKind, SetConfig, SetId, SetInfo};
use media::Nanos;
use nvme::admin::GetLogPage;
use nvme::command::{AdminOpcode, IoOpcode};
use nvme::feature::FeatureId;
use nvme::log::{
    ChangedNamespaces, CommandEffects, Effects, EnduranceGroup, ErrorInformation, FirmwareSlots,
    LidSupported, LogId, NamespaceStatistics, OCP_SMART_GUID, OcpSmart, RawNormalized, SmartHealth,
    SupportedLogPages, data_units, endurance_units,
};
use nvme::zerocopy::IntoBytes;
use nvme::{NSID_ALL, Status, U16, U32, U64, U128};

/// Logs that the drive has.
const LOGS: [LogId; 13] = [
    LogId::SUPPORTED,
    LogId::ERROR,
    LogId::SMART,
    LogId::FIRMWARE_SLOT,
    LogId::CHANGED_NAMESPACES,
    LogId::COMMAND_EFFECTS,
    LogId::ENDURANCE_GROUP,
    LogId::ANA,
    LogId::ENDURANCE_GROUP_EVENTS,
    LogId::FEATURE_EFFECTS,
    LogId::OCP_SMART,
    LogId::NAMESPACE_STATISTICS,
    LogId::CONTROLLERS,
];

const MINUTE: u64 = 60_000_000_000;

impl Drive {
    pub(super) fn get_log_page<S: Contents>(
        &mut self,
        id: ControllerId,
        c: GetLogPage,
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        if c.ot {
            // No log has an index (LID Supported and Effects, IOS).
            return Err(Failure::field(56));
        }
        if !c.offset.is_multiple_of(4) {
            return Err(Failure::field(48));
        }
        if c.bytes() > u64::from(self.config.max_transfer) {
            return Err(Failure::field(42));
        }
        let length = usize::try_from(c.bytes()).map_err(|_| Failure::field(42))?;
        if c.nsid != 0 && c.nsid != NSID_ALL && c.lid != LogId::NAMESPACE_STATISTICS {
            // No other log is kept by namespace.
            return Err(Failure::field(4));
        }
        let log = self.log(id, &c, cx.now)?;
        let offset = usize::try_from(c.offset).ok().filter(|o| *o <= log.len()).ok_or(Failure::field(48))?;
        let mut bytes = vec![0; length];
        let available = &log[offset..];
        let count = available.len().min(length);
        bytes[..count].copy_from_slice(&available[..count]);
        if !c.rae {
            self.clear_event(id, &c)?;
        }
        Ok(Reply::Data(bytes, 0))
    }

    /// Reading a log without Retain Asynchronous Event clears what it told.
    fn clear_event(&mut self, id: ControllerId, c: &GetLogPage) -> Result<(), Failure> {
        let controller = self.controller_mut(id)?;
        match c.lid {
            LogId::CHANGED_NAMESPACES => controller.changed.clear(),
            LogId::ENDURANCE_GROUP => {
                controller.changed_groups.remove(&c.lsi);
            }
            _ => {}
        }
        controller.events.clear(c.lid);
        Ok(())
    }

    /// A whole log.
    fn log(&self, id: ControllerId, c: &GetLogPage, now: Nanos) -> Result<Vec<u8>, Failure> {
        let controller = self.controller(id)?;
        Ok(match c.lid {
            LogId::SUPPORTED => {
                let mut log = SupportedLogPages::default();
                for lid in LOGS {
                    log.lid[usize::from(lid.0)] = LidSupported::new().with_lsupp(true);
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
            LogId::SMART => self.smart(controller, now).as_bytes().to_vec(),
            LogId::FIRMWARE_SLOT => {
                let mut log = FirmwareSlots { afi: 1, ..FirmwareSlots::default() };
                log.frs[0] = nvme::identify::ascii(&self.config.identity.firmware);
                log.as_bytes().to_vec()
            }
            LogId::CHANGED_NAMESPACES => {
                ChangedNamespaces::new(controller.changed.iter().copied()).as_bytes().to_vec()
            }
            LogId::COMMAND_EFFECTS => command_effects(c).as_bytes().to_vec(),
            LogId::ENDURANCE_GROUP => self.endurance_group(c.lsi)?.as_bytes().to_vec(),
            LogId::ENDURANCE_GROUP_EVENTS => {
                let groups = &controller.changed_groups;
                let mut log = (groups.len() as u64).to_le_bytes().to_vec();
                log.extend(groups.iter().flat_map(|g| g.to_le_bytes()));
                log
            }
            // LSP bit 0: Return Groups Only.
            LogId::ANA => self.ana_log(controller, c.lsp & 1 != 0),
            LogId::FEATURE_EFFECTS => self.feature_effects(),
            LogId::OCP_SMART => self.ocp_smart().as_bytes().to_vec(),
            LogId::NAMESPACE_STATISTICS => self.namespace_statistics(c.nsid, now)?.as_bytes().to_vec(),
            LogId::CONTROLLERS => self.controllers_log(),
            _ => return Err(Failure { location: 40, ..Status::INVALID_LOG_PAGE.into() }),
        })
    }

    fn powered(&self, now: Nanos) -> u64 {
        self.life.powered + now.since(self.power.since).0
    }

    fn smart(&self, controller: &Controller, now: Nanos) -> SmartHealth {
        let traffic = self.life.total();
        let wide = |value: u64| U128::new(value.into());
        let (mut spare, mut used) = (100, 0);
        for (_, info) in self.sets() {
            spare = spare.min(info.spare_percent);
            used = used.max(info.used_percent);
        }
        let mut log = SmartHealth {
            critical_warning: self.critical_warning(controller),
            composite_temperature: U16::new(TEMPERATURE),
            avail_spare: spare,
            spare_threshold: self.config.spare_threshold,
            percentage_used: used,
            endgrp_critical_warning: self.groups_summary(),
            data_units_read: U128::new(data_units(traffic.read_bytes.into())),
            data_units_written: U128::new(data_units(traffic.written_bytes.into())),
            host_read_commands: wide(traffic.reads),
            host_write_commands: wide(traffic.writes),
            controller_busy_time: wide(self.busy_time(now) / MINUTE),
            power_cycles: wide(self.life.power_cycles),
            power_on_hours: wide(self.powered(now) / (60 * MINUTE)),
            unexpected_power_losses: wide(self.life.unsafe_shutdowns),
            media_errors: wide(self.life.media_errors),
            num_err_log_entries: wide(self.life.error_entries),
            ..SmartHealth::default()
        };
        log.temp_sensor[0].set(TEMPERATURE);
        log
    }

    fn endurance_group(&self, endgid: u16) -> Result<EnduranceGroup, Failure> {
        let index = usize::from(endgid).checked_sub(1).and_then(|i| u8::try_from(i).ok());
        let set = SetId(index.ok_or(Failure::field(46))?);
        let info = self.ftl.set_info(set).ok_or(Failure::field(46))?;
        let (traffic, media) = (self.life.traffic(set), self.ftl.set_stats(set));
        let wide = |value: u64| U128::new(value.into());
        let units = |bytes: u64| U128::new(endurance_units(bytes.into()));
        Ok(EnduranceGroup {
            critical_warning: self.group_warning(&info),
            avail_spare: info.spare_percent,
            spare_threshold: self.config.spare_threshold,
            percentage_used: info.used_percent,
            endurance_estimate: U128::new(endurance_units(endurance(&info))),
            data_units_read: units(traffic.read_bytes),
            data_units_written: units(traffic.written_bytes),
            media_units_written: units(media.media_written_bytes),
            host_read_commands: wide(traffic.reads),
            host_write_commands: wide(traffic.writes),
            media_errors: wide(traffic.media_errors),
            num_err_log_entries: wide(traffic.media_errors),
            tegcap: wide(info.capacity_bytes),
            uegcap: wide(info.unallocated_bytes),
            ..EnduranceGroup::default()
        })
    }

    /// SMART / Health Information Extended. Media units are those of flash: memory does not wear.
    fn ocp_smart(&self) -> OcpSmart {
        let life = &self.life;
        let (mut written, mut read, mut uncorrectable, mut bad, mut estimate) = (0u128, 0u128, 0, 0, 0u128);
        let (mut spare, mut min, mut max, mut mean) = (100, u32::MAX, 0, 0);
        let (mut free, mut superblocks, mut dies) = (0u64, 0u64, 0u32);
        for (id, info) in self.sets().filter(|(_, info)| info.media == MediaKind::Nand) {
            let media = self.ftl.set_stats(id);
            written += u128::from(media.media_written_bytes);
            read += u128::from(media.media_read_bytes);
            uncorrectable += media.uncorrectable;
            bad += u64::from(info.bad_blocks);
            estimate += endurance(&info);
            spare = spare.min(info.spare_percent);
            min = min.min(info.min_cycles);
            max = max.max(info.max_cycles);
            mean = mean.max(info.mean_cycles);
            free += u64::from(info.free_superblocks);
            if let Some(SetConfig::Nand { nand, .. }) = self.config.ftl.sets.get(usize::from(id.0)) {
                superblocks += u64::from(nand.geometry.superblocks);
                dies += nand.geometry.dies;
            }
        }
        let nuse: u64 = self.namespaces.iter().map(|(_, ns)| self.ftl.allocated_bytes(ns.volume)).sum();
        let protected = self.config.ftl.protected;
        OcpSmart {
            physical_media_units_written: U128::new(written),
            physical_media_units_read: U128::new(read),
            bad_user_nand_blocks: RawNormalized::new(bad, spare.into()),
            bad_system_nand_blocks: RawNormalized::new(0, 100),
            uncorrectable_read_error_count: U64::new(uncorrectable),
            max_user_data_erase_count: U32::new(max),
            // No flash at all, no erases.
            min_user_data_erase_count: U32::new(min.min(max)),
            // OCP 2.0.
            dssd_version: [0, 0, 0, 0, 0, 2],
            incomplete_shutdowns: U32::new(u32::try_from(life.unsafe_shutdowns).unwrap_or(u32::MAX)),
            percent_free_blocks: (free * 100).checked_div(superblocks).unwrap_or(0).min(100) as u8,
            capacitor_health: U16::new(match (protected, self.health.backup_failed) {
                (false, _) => 0xFFFF,
                (true, failed) => u16::from(!failed) * 100,
            }),
            unaligned_io: U64::new(life.total().unaligned),
            total_nuse: U64::new(nuse),
            plp_start_count: U128::new(life.backups.into()),
            endurance_estimate: U128::new(estimate),
            total_media_dies: U16::new(u16::try_from(dies).unwrap_or(u16::MAX)),
            max_temperature_recorded: (TEMPERATURE - 273) as u8,
            nand_avg_erase_count: U64::new(mean.into()),
            system_program_fail_normalized: 100,
            system_uncorrectable_read_normalized: 100,
            system_erase_fail_normalized: 100,
            dssd_firmware_revision: nvme::identify::ascii(&self.config.identity.firmware),
            log_page_version: U16::new(3),
            log_page_guid: OCP_SMART_GUID,
            ..OcpSmart::default()
        }
    }

    fn namespace_statistics(&self, nsid: u32, now: Nanos) -> Result<NamespaceStatistics, Failure> {
        let mut page;
        if nsid == NSID_ALL || nsid == 0 {
            page = NamespaceStatistics::new(NSID_ALL, 0, 0);
            let (mut counts, mut media) = (*self.departed).clone();
            for (_, ns) in self.namespaces.iter() {
                counts.add(&ns.stats);
                let since = stats::since(&self.ftl.volume_stats(ns.volume), &ns.stats.base);
                media = stats::sum(&media, &since);
            }
            counts.fill(&mut page);
            stats::fill_media(&media, &mut page);
        } else {
            let ns = self.namespaces.get(nsid).ok_or_else(|| self.no_namespace(nsid))?;
            let set = u16::from(ns.set.0) + 1;
            page = NamespaceStatistics::new(nsid, set, set);
            ns.stats.fill(&mut page);
            stats::fill_media(&stats::since(&self.ftl.volume_stats(ns.volume), &ns.stats.base), &mut page);
        }
        page.time_ns.set(now.since(self.power.since).0);
        Ok(page)
    }

    /// Vendor specific log D9h: the controllers and their hosts.
    fn controllers_log(&self) -> Vec<u8> {
        let entries = self.controllers.iter();
        let mut log = vec![0; 16];
        let mut count = 0u16;
        for (id, controller) in entries {
            count += 1;
            let origin = match controller.origin {
                Origin::InProcess => 0,
                Origin::Unix => 1,
                Origin::Network => 2,
            };
            log.extend_from_slice(&id.0.to_le_bytes());
            log.push(origin);
            log.push(u8::from(controller.is_ready()));
            log.extend_from_slice(&controller.port.0.to_le_bytes());
            log.push(controller.ana.0);
            log.extend_from_slice(&[0; 9]);
            log.extend_from_slice(&controller.host.to_field());
        }
        log[0] = 1;
        log[2..4].copy_from_slice(&count.to_le_bytes());
        log
    }

    fn feature_effects(&self) -> Vec<u8> {
        let mut log = vec![0u8; 1024];
        for (fid, bytes) in (0..=255).zip(log.as_chunks_mut::<4>().0) {
            let fid = FeatureId(fid);
            if self.capabilities(fid).is_none() {
                continue;
            }
            // FID Supported; the scope is in bits 31:20.
            let scope: u32 = match fid {
                FeatureId::ENDURANCE_GROUP_EVENT_CONFIGURATION => 1 << 3,
                FeatureId::TIMESTAMP => 1 << 5,
                _ => 1 << 1,
            };
            let changes = u32::from(fid == FeatureId::VOLATILE_WRITE_CACHE) << 4;
            *bytes = (1 | changes | scope << 20).to_le_bytes();
        }
        log
    }
}

/// Bytes that a set stands at a write amplification of 1; 0 if it does not wear.
fn endurance(info: &SetInfo) -> u128 {
    match info.rated_cycles {
        u32::MAX => 0,
        cycles => u128::from(info.raw_bytes) * u128::from(cycles),
    }
}

fn command_effects(c: &GetLogPage) -> CommandEffects {
    let mut log = CommandEffects::default();
    let supported = Effects::new().with_csupp(true);
    // Scopes: namespace 1, controller 2, subsystem 32.
    let (namespace, controller, subsystem) = (1, 2, 32);
    let admin = [
        (AdminOpcode::GET_LOG_PAGE, supported.with_csp(controller)),
        (AdminOpcode::IDENTIFY, supported.with_csp(controller)),
        (AdminOpcode::ABORT, supported.with_csp(controller)),
        (AdminOpcode::SET_FEATURES, supported.with_ccc(true).with_csp(controller)),
        (AdminOpcode::GET_FEATURES, supported.with_csp(controller)),
        (AdminOpcode::ASYNC_EVENT_REQUEST, supported.with_csp(controller)),
        (AdminOpcode::KEEP_ALIVE, supported.with_csp(controller)),
        (AdminOpcode::NAMESPACE_MANAGEMENT, supported.with_lbcc(true).with_nic(true).with_csp(subsystem)),
        (AdminOpcode::NAMESPACE_ATTACHMENT, supported.with_nic(true).with_csp(subsystem)),
        (AdminOpcode::FORMAT_NVM, supported.with_lbcc(true).with_ncc(true).with_cse(1).with_csp(namespace)),
        (AdminOpcode::POWER_CUT, supported.with_lbcc(true).with_csp(subsystem)),
        (AdminOpcode::FAULT_INJECTION, supported.with_lbcc(true).with_csp(subsystem)),
    ];
    for (opcode, effects) in admin {
        log.acs[usize::from(opcode.0)] = effects;
    }
    if c.csi == nvme::Csi::NVM {
        let scoped = supported.with_csp(namespace);
        for opcode in [IoOpcode::FLUSH, IoOpcode::READ, IoOpcode::COMPARE, IoOpcode::VERIFY] {
            log.iocs[usize::from(opcode.0)] = scoped;
        }
        for opcode in [IoOpcode::WRITE, IoOpcode::WRITE_ZEROES, IoOpcode::DATASET_MANAGEMENT] {
            log.iocs[usize::from(opcode.0)] = scoped.with_lbcc(true);
        }
    }
    log
}
