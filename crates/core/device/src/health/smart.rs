//! Logs of health and wear: SMART of the drive, of an Endurance Group, of the OCP and of Memblaze.

use super::{Health, group_warning, groups_summary};
use crate::core::{Controller, ControllerId, Core, Failure};
use crate::stats::counts::Traffic;
use crate::temperature::TEMPERATURE;
use ftl::{MediaKind, SetId, SetInfo};
use media::Nanos;
use nvme::log::{
    CriticalWarning, EnduranceGroup, MemblazeItem, MemblazeItemId as Item, MemblazeSmart, OCP_SMART_GUID,
    OcpSmart, RawNormalized, SmartHealth, data_units, endurance_units, memblaze_units,
};
use nvme::{NSID_ALL, U16, U32, U64, U128};

const MINUTE: u64 = 60_000_000_000;

impl Health {
    /// SMART / Health of the controller, or of a namespace: what hosts did with it is its own, the rest is the
    /// controller's.
    pub fn smart(
        &self,
        core: &Core,
        id: ControllerId,
        nsid: u32,
        now: Nanos,
    ) -> Result<SmartHealth, Failure> {
        let controller = core.controller(id)?;
        let warning = self.critical_warning(core, controller);
        let administers = controller.role.is_administrator();
        let traffic = match nsid {
            0 | NSID_ALL if administers => return Ok(self.smart_of_drive(core, warning, now)),
            0 | NSID_ALL => own_traffic(core, controller, None),
            nsid => core.seen(id, nsid)?.traffic(),
        };
        let mut log = self.smart_of(core, traffic, traffic.media_errors, warning, now);
        if !administers {
            // What other hosts do is not told.
            log.controller_busy_time = U128::new(0);
            log.num_err_log_entries = U128::new(controller.error_count.into());
        }
        Ok(log)
    }

    /// SMART / Health of the drive with these critical warnings.
    pub fn smart_of_drive(&self, core: &Core, warning: CriticalWarning, now: Nanos) -> SmartHealth {
        self.smart_of(core, core.persistent.total(), core.persistent.media_errors, warning, now)
    }

    fn smart_of(
        &self,
        core: &Core,
        traffic: Traffic,
        media_errors: u64,
        warning: CriticalWarning,
        now: Nanos,
    ) -> SmartHealth {
        let wide = |value: u64| U128::new(value.into());
        let (mut spare, mut used) = (100, 0);
        for (_, info) in core.sets() {
            spare = spare.min(info.spare_percent);
            used = used.max(info.used_percent);
        }
        let mut log = SmartHealth {
            critical_warning: warning,
            composite_temperature: U16::new(TEMPERATURE),
            avail_spare: spare,
            spare_threshold: core.config.spare_threshold,
            percentage_used: used,
            endgrp_critical_warning: groups_summary(core),
            data_units_read: U128::new(data_units(traffic.read_bytes.into())),
            data_units_written: U128::new(data_units(traffic.written_bytes.into())),
            host_read_commands: wide(traffic.reads),
            host_write_commands: wide(traffic.writes),
            controller_busy_time: wide(core.busy_time(now) / MINUTE),
            power_cycles: wide(core.persistent.power_cycles),
            power_on_hours: wide(core.powered(now) / (60 * MINUTE)),
            unexpected_power_losses: wide(core.persistent.unsafe_shutdowns),
            media_errors: wide(media_errors),
            num_err_log_entries: wide(core.persistent.error_entries),
            ..SmartHealth::default()
        };
        log.temp_sensor[0].set(TEMPERATURE);
        log
    }

    /// SMART / Health Information Extended. Media units are those of flash: memory does not wear.
    pub fn ocp_smart(&self, core: &Core, firmware_revision: [u8; 8]) -> OcpSmart {
        let life = &core.persistent;
        let (mut written, mut read, mut uncorrectable, mut bad, mut estimate) = (0u128, 0u128, 0, 0, 0u128);
        let (mut spare, mut min, mut max, mut mean) = (100, u32::MAX, 0, 0);
        let (mut free, mut superblocks, mut dies) = (0u64, 0u64, 0u32);
        for (id, info) in core.sets().filter(|(_, info)| info.media == MediaKind::Nand) {
            let media = core.ftl.set_stats(id);
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
            let properties = core.set_properties(id);
            superblocks += u64::from(properties.superblocks);
            dies += properties.units;
        }
        let nuse: u64 = core.namespaces.iter().map(|(_, ns)| core.ftl.allocated_bytes(ns.volume)).sum();
        let protected = core.config.ftl.protected;
        OcpSmart {
            physical_media_units_written: U128::new(written),
            physical_media_units_read: U128::new(read),
            bad_user_nand_blocks: RawNormalized::new(bad, spare.into()),
            bad_system_nand_blocks: RawNormalized::new(0, 100),
            uncorrectable_read_error_count: U64::new(uncorrectable),
            max_user_data_erase_count: U32::new(max),
            // No flash at all, no erases.
            min_user_data_erase_count: U32::new(min.min(max)),
            // OCP 2.5.
            dssd_version: [0, 0, 0, 5, 0, 2],
            incomplete_shutdowns: U32::new(u32::try_from(life.unsafe_shutdowns).unwrap_or(u32::MAX)),
            percent_free_blocks: (free * 100).checked_div(superblocks).unwrap_or(0).min(100) as u8,
            capacitor_health: U16::new(match (protected, self.backup_failed) {
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
            dssd_firmware_revision: firmware_revision,
            log_page_version: U16::new(4),
            log_page_guid: OCP_SMART_GUID,
            ..OcpSmart::default()
        }
    }

    /// Memblaze's additional SMART log; of flash, as above. What this drive has no notion of is 0, at its best.
    pub fn memblaze_smart(&self, core: &Core) -> MemblazeSmart {
        let (mut programs, mut erases, mut unread, mut written) = (0, 0, 0, 0);
        let (mut min, mut max, mut mean, mut used, mut spare) = (u32::MAX, 0, 0, 0, 100);
        for (id, info) in core.sets().filter(|(_, info)| info.media == MediaKind::Nand) {
            let media = core.ftl.set_stats(id);
            erases += media.erase_failures;
            programs += media.media_failures.saturating_sub(media.erase_failures);
            unread += media.uncorrectable;
            written += media.media_written_bytes;
            min = min.min(info.min_cycles);
            max = max.max(info.max_cycles);
            mean = mean.max(info.mean_cycles);
            used = used.max(info.used_percent);
            spare = spare.min(info.spare_percent);
        }
        let traffic = core.persistent.total();
        let short = |cycles: u32| u16::try_from(cycles).unwrap_or(u16::MAX);
        let wear = [min.min(max), max, mean].map(short);
        let count = MemblazeItem::count;
        let mut log = MemblazeSmart::default();
        for (item, id) in log.item.iter_mut().zip(Item::ORDER) {
            *item = match id {
                Item::PROGRAM_FAIL => count(id, spare, programs),
                Item::ERASE_FAIL => count(id, spare, erases),
                Item::WEAR_LEVELING => MemblazeItem::triple(id, 100 - used.min(100), wear),
                Item::NAND_WRITTEN => count(id, 100, memblaze_units(written)),
                Item::HOST_WRITTEN => count(id, 100, memblaze_units(traffic.written_bytes)),
                Item::HOST_READ => count(id, 100, memblaze_units(traffic.read_bytes)),
                Item::SYSTEM_AREA_LIFE => count(id, 100, 100),
                Item::TEMPERATURE_SINCE_BORN | Item::TEMPERATURE_SINCE_BOOT => {
                    MemblazeItem::triple(id, 100, [TEMPERATURE; 3])
                }
                Item::POWER_LOSS_PROTECTION => {
                    let good = core.config.ftl.protected && !self.backup_failed;
                    count(id, u8::from(good) * 100, good.into())
                }
                Item::READ_FAIL => count(id, 100, unread),
                Item::FLASH_MEDIA_ERROR => count(id, spare, programs + erases + unread),
                _ => count(id, 100, 0),
            };
        }
        log
    }
}

/// What hosts did with the namespaces that the host of a controller sees, on all sets or on one.
fn own_traffic(core: &Core, controller: &Controller, set: Option<SetId>) -> Traffic {
    let own = core.namespaces.iter().filter(|(nsid, _)| controller.sees(*nsid));
    own.filter(|(_, ns)| set.is_none_or(|set| ns.set == set))
        .fold(Traffic::default(), |sum, (_, ns)| sum.and(ns.traffic()))
}

/// Bytes that the medium of a set wrote for the namespaces that the host of a controller sees.
fn own_media_bytes(core: &Core, controller: &Controller, set: SetId) -> u64 {
    let own = core.namespaces.iter().filter(|(nsid, ns)| ns.set == set && controller.sees(*nsid));
    own.map(|(_, ns)| core.ftl.volume_stats(ns.volume)).map(|s| s.media_host_bytes + s.media_gc_bytes).sum()
}

/// The Endurance Group log. Hosts that do not administer the drive get the counts of their own namespaces.
///
/// # Errors
/// Invalid Field if there is no such group.
pub(crate) fn endurance_group(
    core: &Core,
    controller: &Controller,
    endgid: u16,
) -> Result<EnduranceGroup, Failure> {
    let index = usize::from(endgid).checked_sub(1).and_then(|i| u8::try_from(i).ok());
    let set = SetId(index.ok_or(Failure::field(46))?);
    let info = core.ftl.set_info(set).ok_or(Failure::field(46))?;
    let (traffic, written) = match controller.role.is_administrator() {
        true => (core.persistent.traffic(set), core.ftl.set_stats(set).media_written_bytes),
        false => (own_traffic(core, controller, Some(set)), own_media_bytes(core, controller, set)),
    };
    let wide = |value: u64| U128::new(value.into());
    let units = |bytes: u64| U128::new(endurance_units(bytes.into()));
    Ok(EnduranceGroup {
        critical_warning: group_warning(core, &info),
        avail_spare: info.spare_percent,
        spare_threshold: core.config.spare_threshold,
        percentage_used: info.used_percent,
        endurance_estimate: U128::new(endurance_units(endurance(&info))),
        data_units_read: units(traffic.read_bytes),
        data_units_written: units(traffic.written_bytes),
        media_units_written: units(written),
        host_read_commands: wide(traffic.reads),
        host_write_commands: wide(traffic.writes),
        media_errors: wide(traffic.media_errors),
        num_err_log_entries: wide(traffic.media_errors),
        tegcap: wide(info.capacity_bytes),
        uegcap: wide(info.unallocated_bytes),
        ..EnduranceGroup::default()
    })
}

/// Bytes that a set can take at a write amplification of 1; 0 if it does not wear.
pub(crate) fn endurance(info: &SetInfo) -> u128 {
    match info.rated_cycles {
        u32::MAX => 0,
        cycles => u128::from(info.raw_bytes) * u128::from(cycles),
    }
}
