//! What the drive says, as JSON with the keys of nvme-cli 2.x (`-o json` of `id-ctrl`, `id-ns`, `list`,
//! `list-ns`, `smart-log`, `endurance-log`, `error-log`, `nvm-id-ctrl`, `id-nvmset`, `id-endurance-group-list`,
//! `supported-log-pages`, `zns id-ns`, `zns report-zones`). Numbers of 128 bits are plain JSON numbers.

use nvme::identify::{
    IdentifyController, IdentifyNamespace, NvmController, NvmSetAttributes, PowerStateDescriptor, ascii_text,
};
use nvme::log::{
    EnduranceGroup, ErrorInformation, LatencyHistogram, LatencySum, NamespaceStatistics, SmartHealth,
    SupportedLogPages, latency_bucket_low,
};
use nvme::{Nqn, Nsid};
use serde::Serialize;

/// Defines a view: a structure whose fields are the keys, made from a structure of the wire.
macro_rules! view {
    ($(#[$meta:meta])* $name:ident($from:ident: $source:ty) {
        $($(#[$fmeta:meta])* $field:ident: $ty:ty = $value:expr,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Serialize)]
        pub struct $name {
            $($(#[$fmeta])* $field: $ty,)*
        }

        impl From<&$source> for $name {
            fn from($from: &$source) -> Self {
                Self { $($field: $value,)* }
            }
        }
    };
}

mod vendor;
mod zones;

pub use vendor::*;
pub use zones::*;

view! {
    /// `nvme id-ctrl`.
    IdCtrl(c: IdentifyController) {
        vid: u16 = c.vid.get(),
        ssvid: u16 = c.ssvid.get(),
        sn: String = text(&c.sn),
        mn: String = text(&c.mn),
        fr: String = text(&c.fr),
        rab: u8 = c.rab,
        ieee: u32 = u32::from_le_bytes([c.ieee[0], c.ieee[1], c.ieee[2], 0]),
        cmic: u8 = c.cmic.into_bits(),
        mdts: u8 = c.mdts,
        cntlid: u16 = c.cntlid.get(),
        ver: u32 = c.ver.get(),
        rtd3r: u32 = c.rtd3r.get(),
        rtd3e: u32 = c.rtd3e.get(),
        oaes: u32 = c.oaes.into_bits().get(),
        ctratt: u32 = c.ctratt.into_bits().get(),
        rrls: u16 = c.rrls.get(),
        bpcap: u8 = c.bpcap,
        nssl: u32 = c.nssl.get(),
        plsi: u8 = c.plsi,
        cntrltype: u8 = c.cntrltype.0,
        fguid: String = uuid(&c.fguid),
        crdt1: u16 = c.crdt1.get(),
        crdt2: u16 = c.crdt2.get(),
        crdt3: u16 = c.crdt3.get(),
        crcap: u8 = c.crcap,
        nvmsr: u8 = c.nvmsr,
        vwci: u8 = c.vwci,
        mec: u8 = c.mec,
        oacs: u16 = c.oacs.into_bits().get(),
        acl: u8 = c.acl_z,
        aerl: u8 = c.aerl_z,
        frmw: u8 = c.frmw.into_bits(),
        lpa: u8 = c.lpa.into_bits(),
        elpe: u8 = c.elpe_z,
        npss: u8 = c.npss_z,
        avscc: u8 = c.avscc,
        apsta: u8 = c.apsta,
        wctemp: u16 = c.wctemp.get(),
        cctemp: u16 = c.cctemp.get(),
        mtfa: u16 = c.mtfa.get(),
        hmpre: u32 = c.hmpre.get(),
        hmmin: u32 = c.hmmin.get(),
        tnvmcap: u128 = c.tnvmcap.get(),
        unvmcap: u128 = c.unvmcap.get(),
        rpmbs: u32 = c.rpmbs.get(),
        edstt: u16 = c.edstt.get(),
        dsto: u8 = c.dsto,
        fwug: u8 = c.fwug,
        kas: u16 = c.kas.get(),
        hctma: u16 = c.hctma.get(),
        mntmt: u16 = c.mntmt.get(),
        mxtmt: u16 = c.mxtmt.get(),
        sanicap: u32 = c.sanicap.into_bits().get(),
        hmminds: u32 = c.hmminds.get(),
        hmmaxd: u16 = c.hmmaxd.get(),
        nsetidmax: u16 = c.nsetidmax.get(),
        endgidmax: u16 = c.endgidmax.get(),
        anatt: u8 = c.anatt,
        anacap: u8 = c.anacap.into_bits(),
        anagrpmax: u32 = c.anagrpmax.get(),
        nanagrpid: u32 = c.nanagrpid.get(),
        pels: u32 = c.pels.get(),
        domainid: u16 = c.did.get(),
        kpioc: u8 = c.kpioc,
        mptfawr: u16 = c.mptfawr.get(),
        megcap: u128 = c.megcap.get(),
        tmpthha: u8 = c.tmpthha,
        cqt: u16 = c.cqt.get(),
        sqes: u8 = c.sqes.into_bits(),
        cqes: u8 = c.cqes.into_bits(),
        maxcmd: u16 = c.maxcmd.get(),
        nn: u32 = c.nn.get(),
        oncs: u16 = c.oncs.into_bits().get(),
        fuses: u16 = c.fuses.get(),
        fna: u8 = c.fna.into_bits(),
        vwc: u8 = c.vwc.into_bits(),
        awun: u16 = c.awun_z.get(),
        awupf: u16 = c.awupf_z.get(),
        icsvscc: u8 = c.icsvscc,
        nwpc: u8 = c.nwpc,
        acwu: u16 = c.acwu_z.get(),
        ocfs: u16 = c.cdfs.get(),
        sgls: u32 = c.sgls.into_bits().get(),
        mnan: u32 = c.mnan.get(),
        maxdna: u128 = c.maxdna.get(),
        maxcna: u32 = c.maxcna.get(),
        oaqd: u32 = c.oaqd.get(),
        rhiri: u8 = c.rhiri,
        hirt: u8 = c.hirt,
        cmmrtd: u16 = c.cmmrtd.get(),
        nmmrtd: u16 = c.nmmrtd.get(),
        minmrtg: u8 = c.minmrtg,
        maxmrtg: u8 = c.maxmrtg,
        trattr: u8 = c.trattr,
        mcudmq: u16 = c.mcudmq.get(),
        mnsudmq: u16 = c.mnsudmq.get(),
        mcmr: u16 = c.mcmr.get(),
        nmcmr: u16 = c.nmcmr.get(),
        mcdqpc: u16 = c.mcdqpc.get(),
        #[serde(skip_serializing_if = "Option::is_none")]
        subnqn: Option<String> = Nqn::from_field(&c.subnqn).ok().map(|nqn| nqn.to_string()),
        ioccsz: u32 = c.ioccsz.get(),
        iorcsz: u32 = c.iorcsz.get(),
        icdoff: u16 = c.icdoff.get(),
        fcatt: u8 = c.fcatt,
        msdbd: u8 = c.msdbd,
        ofcs: u16 = c.ofcs.get(),
        psds: Vec<PowerState> = c.psd.iter().take(usize::from(c.npss_z) + 1).map(PowerState::from).collect(),
    }
}

view! {
    /// One power state of `nvme id-ctrl`.
    PowerState(p: PowerStateDescriptor) {
        max_power: u16 = p.mp.get(),
        max_power_scale: u8 = p.flags & 1,
        #[serde(rename = "non-operational_state")]
        non_operational_state: u8 = p.flags >> 1 & 1,
        entry_lat: u32 = p.enlat.get(),
        exit_lat: u32 = p.exlat.get(),
        read_tput: u8 = p.rrt,
        read_lat: u8 = p.rrl,
        write_tput: u8 = p.rwt,
        write_lat: u8 = p.rwl,
        idle_power: u16 = p.idlp.get(),
        idle_scale: u8 = p.ips >> 6,
        active_power: u16 = p.actp.get(),
        active_power_work: u8 = p.apws & 7,
        active_scale: u8 = p.apws >> 6,
        emerg_power_fail_recover_time: u8 = p.epfrt,
        emerg_power_fail_recover_scale: u8 = p.fqvts_epfrts & 0xF,
        force_quiesce_vault_time: u8 = p.fqvt,
        force_quiesce_vault_scale: u8 = p.fqvts_epfrts >> 4,
        emerg_power_fail_vault_time: u8 = p.epfvt,
        emerg_power_fail_vault_scale: u8 = p.epfvts & 0xF,
    }
}

view! {
    /// `nvme id-ns`.
    IdNs(n: IdentifyNamespace) {
        nsze: u64 = n.nsze.get(),
        ncap: u64 = n.ncap.get(),
        nuse: u64 = n.nuse.get(),
        nsfeat: u8 = n.nsfeat.into_bits(),
        nlbaf: u8 = n.nlbaf_z,
        flbas: u8 = n.flbas.into_bits(),
        mc: u8 = n.mc,
        dpc: u8 = n.dpc.into_bits(),
        dps: u8 = n.dps.into_bits(),
        nmic: u8 = n.nmic.into_bits(),
        rescap: u8 = n.rescap.into_bits(),
        fpi: u8 = n.fpi,
        dlfeat: u8 = n.dlfeat.into_bits(),
        nawun: u16 = n.nawun_z.get(),
        nawupf: u16 = n.nawupf_z.get(),
        nacwu: u16 = n.nacwu_z.get(),
        nabsn: u16 = n.nabsn_z.get(),
        nabo: u16 = n.nabo.get(),
        nabspf: u16 = n.nabspf_z.get(),
        noiob: u16 = n.noiob.get(),
        nvmcap: u128 = n.nvmcap.get(),
        #[serde(flatten)]
        performance: Option<PreferredSizes> = (n.nsfeat.optperf() != 0).then(|| n.into()),
        mssrl: u16 = n.mssrl.get(),
        mcl: u32 = n.mcl.get(),
        msrc: u8 = n.msrc_z,
        kpios: u8 = n.kpios,
        nulbaf: u8 = n.nulbaf,
        kpiodaag: u32 = n.kpiodaag.get(),
        anagrpid: u32 = n.anagrpid.get(),
        nsattr: u8 = n.nsattr,
        nvmsetid: u16 = n.nvmsetid.get(),
        endgid: u16 = n.endgid.get(),
        nguid: String = hex(&n.nguid),
        eui64: String = hex(&n.eui64),
        lbafs: Vec<Lbaf> = n.lbaf.iter().take(usize::from(n.nlbaf_z) + 1).map(Lbaf::from).collect(),
        vs: Vec<String> = Vec::new(),
    }
}

view! {
    /// Preferred sizes of `nvme id-ns`.
    PreferredSizes(n: IdentifyNamespace) {
        npwg: u16 = n.npwg_z.get(),
        npwa: u16 = n.npwa_z.get(),
        #[serde(skip_serializing_if = "Option::is_none")]
        npdg: Option<u16> = (n.nsfeat.optperf() & 1 != 0).then(|| n.npdg_z.get()),
        npda: u16 = n.npda_z.get(),
        nows: u16 = n.nows_z.get(),
    }
}

view! {
    /// One LBA format of `nvme id-ns`.
    Lbaf(f: nvme::identify::LbaFormat) {
        ms: u16 = f.ms.get(),
        ds: u8 = f.lbads,
        rp: u8 = f.rp,
    }
}

view! {
    /// `nvme nvm-id-ctrl`.
    NvmIdCtrl(c: NvmController) {
        vsl: u8 = c.vsl,
        wzsl: u8 = c.wzsl,
        wusl: u8 = c.wusl,
        dmrl: u8 = c.dmrl,
        dmrsl: u32 = c.dmrsl.get(),
        dmsl: u64 = c.dmsl.get(),
    }
}

view! {
    /// `nvme smart-log`.
    SmartLog(s: SmartHealth) {
        critical_warning: u8 = s.critical_warning.into_bits(),
        temperature: u16 = s.composite_temperature.get(),
        avail_spare: u8 = s.avail_spare,
        spare_thresh: u8 = s.spare_threshold,
        percent_used: u8 = s.percentage_used,
        endurance_grp_critical_warning_summary: u8 = s.endgrp_critical_warning.into_bits(),
        data_units_read: u128 = s.data_units_read.get(),
        data_units_written: u128 = s.data_units_written.get(),
        host_read_commands: u128 = s.host_read_commands.get(),
        host_write_commands: u128 = s.host_write_commands.get(),
        controller_busy_time: u128 = s.controller_busy_time.get(),
        power_cycles: u128 = s.power_cycles.get(),
        power_on_hours: u128 = s.power_on_hours.get(),
        unsafe_shutdowns: u128 = s.unexpected_power_losses.get(),
        media_errors: u128 = s.media_errors.get(),
        num_err_log_entries: u128 = s.num_err_log_entries.get(),
        warning_temp_time: u32 = s.warning_temp_time.get(),
        critical_comp_time: u32 = s.critical_temp_time.get(),
        #[serde(skip_serializing_if = "Option::is_none")]
        temperature_sensor_1: Option<u16> = sensor(s, 0),
        #[serde(skip_serializing_if = "Option::is_none")]
        temperature_sensor_2: Option<u16> = sensor(s, 1),
        #[serde(skip_serializing_if = "Option::is_none")]
        temperature_sensor_3: Option<u16> = sensor(s, 2),
        #[serde(skip_serializing_if = "Option::is_none")]
        temperature_sensor_4: Option<u16> = sensor(s, 3),
        #[serde(skip_serializing_if = "Option::is_none")]
        temperature_sensor_5: Option<u16> = sensor(s, 4),
        #[serde(skip_serializing_if = "Option::is_none")]
        temperature_sensor_6: Option<u16> = sensor(s, 5),
        #[serde(skip_serializing_if = "Option::is_none")]
        temperature_sensor_7: Option<u16> = sensor(s, 6),
        #[serde(skip_serializing_if = "Option::is_none")]
        temperature_sensor_8: Option<u16> = sensor(s, 7),
        thm_temp1_trans_count: u32 = s.thermal_transitions[0].get(),
        thm_temp2_trans_count: u32 = s.thermal_transitions[1].get(),
        thm_temp1_total_time: u32 = s.thermal_time[0].get(),
        thm_temp2_total_time: u32 = s.thermal_time[1].get(),
    }
}

view! {
    /// `nvme endurance-log`.
    EnduranceLog(e: EnduranceGroup) {
        critical_warning: u8 = e.critical_warning.into_bits(),
        endurance_group_features: u8 = e.egfeat,
        avl_spare: u8 = e.avail_spare,
        avl_spare_threshold: u8 = e.spare_threshold,
        percent_used: u8 = e.percentage_used,
        domain_identifier: u16 = e.did.get(),
        endurance_estimate: u128 = e.endurance_estimate.get(),
        data_units_read: u128 = e.data_units_read.get(),
        data_units_written: u128 = e.data_units_written.get(),
        media_units_written: u128 = e.media_units_written.get(),
        host_read_cmds: u128 = e.host_read_commands.get(),
        host_write_cmds: u128 = e.host_write_commands.get(),
        media_data_integrity_err: u128 = e.media_errors.get(),
        num_err_info_log_entries: u128 = e.num_err_log_entries.get(),
        total_end_grp_cap: u128 = e.tegcap.get(),
        unalloc_end_grp_cap: u128 = e.uegcap.get(),
    }
}

view! {
    /// One entry of `nvme error-log`.
    ErrorEntry(e: ErrorInformation) {
        error_count: u64 = e.error_count.get(),
        sqid: u16 = e.sqid.get(),
        cmdid: u16 = e.cmdid.get(),
        status_field: u16 = e.status_info.get() >> 1,
        phase_tag: u16 = e.status_info.get() & 1,
        parm_error_location: u16 = e.pel.get(),
        lba: u64 = e.lba.get(),
        nsid: u32 = e.nsid.get(),
        vs: u8 = e.vsia,
        trtype: u8 = e.trtype,
        cs: u64 = e.cs.get(),
        trtype_spec_info: u16 = e.ttsi.get(),
    }
}

/// `nvme error-log`.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorLog {
    errors: Vec<ErrorEntry>,
}

impl ErrorLog {
    /// The log with these entries.
    #[must_use]
    pub fn new(entries: &[ErrorInformation]) -> Self {
        Self { errors: entries.iter().map(ErrorEntry::from).collect() }
    }
}

view! {
    /// One set of `nvme id-nvmset`.
    NvmSet(s: NvmSetAttributes) {
        nvmset_id: u16 = s.nvmsetid.get(),
        endurance_group_id: u16 = s.endgid.get(),
        random_4k_read_typical: u32 = s.r4krt.get(),
        optimal_write_size: u32 = s.ows.get(),
        total_nvmset_cap: u128 = s.tnvmsetcap.get(),
        unalloc_nvmset_cap: u128 = s.unvmsetcap.get(),
    }
}

/// `nvme id-nvmset`.
#[derive(Clone, Debug, Serialize)]
pub struct NvmSets {
    nid: usize,
    #[serde(rename = "NVMSet")]
    sets: Vec<NvmSet>,
}

impl NvmSets {
    /// The list of these sets.
    #[must_use]
    pub fn new(sets: &[NvmSetAttributes]) -> Self {
        Self { nid: sets.len(), sets: sets.iter().map(NvmSet::from).collect() }
    }
}

/// `nvme list-ns`.
#[derive(Clone, Debug, Serialize)]
pub struct ListNs {
    nsid_list: Vec<ListedNsid>,
}

#[derive(Clone, Debug, Serialize)]
struct ListedNsid {
    nsid: Nsid,
}

impl ListNs {
    /// The list of these namespaces.
    #[must_use]
    pub fn new(nsids: &[Nsid]) -> Self {
        Self { nsid_list: nsids.iter().map(|nsid| ListedNsid { nsid: *nsid }).collect() }
    }
}

/// `nvme id-endurance-group-list`.
#[derive(Clone, Debug, Serialize)]
pub struct EnduranceGroups {
    num_endgrp_id: usize,
    endgrp_list: Vec<ListedEndgid>,
}

#[derive(Clone, Debug, Serialize)]
struct ListedEndgid {
    endgrp_id: u16,
}

impl EnduranceGroups {
    /// The list of these groups.
    #[must_use]
    pub fn new(groups: &[u16]) -> Self {
        let endgrp_list = groups.iter().map(|endgid| ListedEndgid { endgrp_id: *endgid }).collect();
        Self { num_endgrp_id: groups.len(), endgrp_list }
    }
}

/// `nvme ana-log`.
#[derive(Clone, Debug, Serialize)]
pub struct AnaLog {
    chgcnt: u64,
    ngrps: u16,
    #[serde(rename = "ANA DESC LIST ")]
    groups: Vec<ListedAnaGroup>,
}

#[derive(Clone, Debug, Serialize)]
struct ListedAnaGroup {
    grpid: u32,
    nnsids: u32,
    chgcnt: u64,
    state: String,
    #[serde(rename = "NSIDS")]
    nsids: Vec<ListedNsid>,
}

impl From<&crate::AnaLog> for AnaLog {
    fn from(log: &crate::AnaLog) -> Self {
        let group = |(group, nsids): &(nvme::log::AnaGroup, Vec<Nsid>)| ListedAnaGroup {
            grpid: group.agid.get(),
            nnsids: group.nnv.get(),
            chgcnt: group.chngcnt.get(),
            state: group.anas.to_string(),
            nsids: nsids.iter().map(|nsid| ListedNsid { nsid: *nsid }).collect(),
        };
        Self {
            chgcnt: log.header.chngcnt.get(),
            ngrps: log.header.nagd.get(),
            groups: log.groups.iter().map(group).collect(),
        }
    }
}

/// `nvme supported-log-pages`.
#[derive(Clone, Debug, Serialize)]
pub struct SupportedLogs {
    supported_logs: Vec<std::collections::BTreeMap<String, u32>>,
}

impl From<&SupportedLogPages> for SupportedLogs {
    fn from(log: &SupportedLogPages) -> Self {
        let supported = log.lid.iter().enumerate().filter(|(_, lid)| lid.lsupp());
        // The key has this blank in nvme-cli.
        let entry = |(lid, bits): (usize, &nvme::log::LidSupported)| {
            [(format!("lid_0x{lid:x} "), bits.into_bits().get())].into()
        };
        Self { supported_logs: supported.map(entry).collect() }
    }
}

/// `nvme list`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct List {
    #[serde(rename = "Devices")]
    devices: Vec<ListItem>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ListItem {
    name_space: Nsid,
    device_path: String,
    generic_path: String,
    firmware: String,
    model_number: String,
    serial_number: String,
    used_bytes: u64,
    #[serde(rename = "MaximumLBA")]
    maximum_lba: u64,
    physical_size: u64,
    sector_size: u32,
}

impl List {
    /// Adds a namespace. `path` is where a program finds it (a device, a file, an address).
    pub fn add(&mut self, ctrl: &IdentifyController, nsid: Nsid, ns: &IdentifyNamespace, path: &str) {
        let sector_size = ns.format().data_bytes().unwrap_or(0);
        let bytes = |blocks: u64| blocks.saturating_mul(sector_size.into());
        self.devices.push(ListItem {
            name_space: nsid,
            device_path: path.into(),
            generic_path: path.into(),
            // From sysfs, which has them without padding.
            firmware: ascii_text(&ctrl.fr).trim_end().into(),
            model_number: ascii_text(&ctrl.mn).trim_end().into(),
            serial_number: ascii_text(&ctrl.sn).trim_end().into(),
            used_bytes: bytes(ns.nuse.get()),
            maximum_lba: ns.nsze.get(),
            physical_size: bytes(ns.nsze.get()),
            sector_size,
        });
    }
}

view! {
    /// Namespace Statistics (vendor specific log D8h): the names of [`NamespaceStatistics`].
    Statistics(s: NamespaceStatistics) {
        nsid: u32 = s.nsid.get(),
        nvmsetid: u16 = s.nvmsetid.get(),
        endgid: u16 = s.endgid.get(),
        time_ns: u64 = s.time_ns.get(),
        host_bytes_read: u64 = s.host_bytes_read.get(),
        host_bytes_written: u64 = s.host_bytes_written.get(),
        host_read_commands: u64 = s.host_read_commands.get(),
        host_write_commands: u64 = s.host_write_commands.get(),
        host_flush_commands: u64 = s.host_flush_commands.get(),
        host_deallocate_commands: u64 = s.host_deallocate_commands.get(),
        host_other_commands: u64 = s.host_other_commands.get(),
        host_bytes_deallocated: u64 = s.host_bytes_deallocated.get(),
        media_bytes_written_host: u64 = s.media_bytes_written_host.get(),
        media_bytes_written_gc: u64 = s.media_bytes_written_gc.get(),
        media_bytes_written_metadata: u64 = s.media_bytes_written_metadata.get(),
        media_bytes_read_host: u64 = s.media_bytes_read_host.get(),
        media_bytes_read_gc: u64 = s.media_bytes_read_gc.get(),
        buffer_bytes_read: u64 = s.buffer_bytes_read.get(),
        buffer_bytes_absorbed: u64 = s.buffer_bytes_absorbed.get(),
        whole_writes: u64 = s.whole_writes.get(),
        split_writes: u64 = s.split_writes.get(),
        stalled_write_commands: u64 = s.stalled_write_commands.get(),
        stalled_write_ns: u64 = s.stalled_write_ns.get(),
        throttled_read_commands: u64 = s.throttled_read_commands.get(),
        throttled_read_ns: u64 = s.throttled_read_ns.get(),
        throttled_write_commands: u64 = s.throttled_write_commands.get(),
        throttled_write_ns: u64 = s.throttled_write_ns.get(),
        shared_read_commands: u64 = s.shared_read_commands.get(),
        shared_read_ns: u64 = s.shared_read_ns.get(),
        shared_write_commands: u64 = s.shared_write_commands.get(),
        shared_write_ns: u64 = s.shared_write_ns.get(),
        failed_commands: u64 = s.failed_commands.get(),
        read_latency: Latency = Latency::new(&s.read_latency, &s.read_latency_sum),
        write_latency: Latency = Latency::new(&s.write_latency, &s.write_latency_sum),
        flush_latency: Latency = Latency::new(&s.flush_latency, &s.flush_latency_sum),
        deallocate_latency: Latency = Latency::new(&s.deallocate_latency, &s.deallocate_latency_sum),
    }
}

/// A latency histogram: percentiles (upper bounds of their buckets), and the buckets that are not empty.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    count: u64,
    mean_ns: u64,
    max_ns: u64,
    p50_ns: u64,
    p95_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    p9999_ns: u64,
    buckets: Vec<LatencyBucket>,
}

#[derive(Clone, Debug, Serialize)]
struct LatencyBucket {
    from_ns: u64,
    count: u64,
}

impl Latency {
    fn new(histogram: &LatencyHistogram, sum: &LatencySum) -> Self {
        let count = histogram.total();
        let max_ns = sum.max_ns.get();
        let percentile = |parts| histogram.percentile(parts, 10_000).unwrap_or(0).min(max_ns);
        Self {
            count,
            mean_ns: sum.sum_ns.get().checked_div(count).unwrap_or(0),
            max_ns,
            p50_ns: percentile(5_000),
            p95_ns: percentile(9_500),
            p99_ns: percentile(9_900),
            p999_ns: percentile(9_990),
            p9999_ns: percentile(9_999),
            buckets: histogram
                .count
                .iter()
                .enumerate()
                .filter(|(_, count)| count.get() != 0)
                .map(|(bucket, count)| LatencyBucket {
                    from_ns: latency_bucket_low(bucket),
                    count: count.get(),
                })
                .collect(),
        }
    }
}

/// nvme-cli prints these with their padding.
fn text(field: &[u8]) -> String {
    match ascii_text(field) {
        "" => String::new(),
        _ => String::from_utf8_lossy(field).trim_end_matches('\0').into(),
    }
}

/// A little-endian number of at most 8 bytes.
fn low(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A UUID as RFC 9562 writes it.
pub fn uuid(bytes: &[u8; 16]) -> String {
    let hex = hex(bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

fn sensor(smart: &SmartHealth, index: usize) -> Option<u16> {
    Some(smart.temp_sensor[index].get()).filter(|kelvins| *kelvins != 0)
}
