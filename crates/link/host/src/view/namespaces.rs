//! `nvme id-ns`, and lists of namespaces, NVM Sets and Endurance Groups.

use super::hex;
use nvme::Nsid;
use nvme::identify::{IdentifyController, IdentifyNamespace, LbaFormat, NvmSetAttributes, ascii_text};
use schemars::JsonSchema;
use serde::Serialize;

view! {
    /// The keys of `nvme id-ns` (nvme-cli 2).
    IdNs(n: IdentifyNamespace) {
        /// Namespace Size in logical blocks.
        #[schemars(extend("unit" = "logical blocks"))]
        nsze: u64 = n.nsze.get(),
        /// Namespace Capacity in logical blocks.
        #[schemars(extend("unit" = "logical blocks"))]
        ncap: u64 = n.ncap.get(),
        /// Namespace Utilization in logical blocks.
        #[schemars(extend("unit" = "logical blocks"))]
        nuse: u64 = n.nuse.get(),
        /// Namespace Features.
        nsfeat: u8 = n.nsfeat.into_bits(),
        /// Number of LBA Formats, zero-based.
        nlbaf: u8 = n.nlbaf_z,
        /// Formatted LBA Size.
        flbas: u8 = n.flbas.into_bits(),
        /// Metadata Capabilities: bit 0 extended data LBA, bit 1 separate buffer.
        mc: u8 = n.mc,
        /// End-to-end Data Protection Capabilities.
        dpc: u8 = n.dpc.into_bits(),
        /// End-to-end Data Protection Type Settings.
        dps: u8 = n.dps.into_bits(),
        /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
        nmic: u8 = n.nmic.into_bits(),
        /// Reservation Capabilities.
        rescap: u8 = n.rescap.into_bits(),
        /// Format Progress Indicator: bit 7 supported, bits 6:0 percent that remains.
        fpi: u8 = n.fpi,
        /// Deallocate Logical Block Features.
        dlfeat: u8 = n.dlfeat.into_bits(),
        /// Namespace Atomic Write Unit Normal in logical blocks, zero-based.
        #[schemars(extend("unit" = "logical blocks"))]
        nawun: u16 = n.nawun_z.get(),
        /// Namespace Atomic Write Unit Power Fail in logical blocks, zero-based.
        #[schemars(extend("unit" = "logical blocks"))]
        nawupf: u16 = n.nawupf_z.get(),
        /// Namespace Atomic Compare & Write Unit in logical blocks, zero-based.
        #[schemars(extend("unit" = "logical blocks"))]
        nacwu: u16 = n.nacwu_z.get(),
        /// Namespace Atomic Boundary Size Normal in logical blocks, zero-based; 0 is no boundary.
        #[schemars(extend("unit" = "logical blocks"))]
        nabsn: u16 = n.nabsn_z.get(),
        /// Namespace Atomic Boundary Offset.
        nabo: u16 = n.nabo.get(),
        /// Namespace Atomic Boundary Size Power Fail in logical blocks, zero-based; 0 is no boundary.
        #[schemars(extend("unit" = "logical blocks"))]
        nabspf: u16 = n.nabspf_z.get(),
        /// Namespace Optimal I/O Boundary in logical blocks; 0 not reported.
        #[schemars(extend("unit" = "logical blocks"))]
        noiob: u16 = n.noiob.get(),
        /// NVM Capacity in bytes.
        #[schemars(extend("unit" = "bytes"))]
        nvmcap: u128 = n.nvmcap.get(),
        #[serde(flatten)]
        performance: Option<PreferredSizes> = (n.nsfeat.optperf() != 0).then(|| n.into()),
        /// Maximum Single Source Range Length of Copy.
        mssrl: u16 = n.mssrl.get(),
        /// Maximum Copy Length.
        mcl: u32 = n.mcl.get(),
        /// Maximum Source Range Count, zero-based.
        msrc: u8 = n.msrc_z,
        /// Key Per I/O Status.
        kpios: u8 = n.kpios,
        /// Number of Unique Attribute LBA Formats.
        nulbaf: u8 = n.nulbaf,
        /// Key Per I/O Data Access Alignment and Granularity.
        kpiodaag: u32 = n.kpiodaag.get(),
        /// ANA Group Identifier.
        anagrpid: u32 = n.anagrpid.get(),
        /// Namespace Attributes: bit 0 currently write protected.
        nsattr: u8 = n.nsattr,
        /// NVM Set Identifier.
        nvmsetid: u16 = n.nvmsetid.get(),
        /// Endurance Group Identifier.
        endgid: u16 = n.endgid.get(),
        /// Namespace Globally Unique Identifier, big endian; zero when there is none.
        nguid: String = hex(&n.nguid),
        /// IEEE Extended Unique Identifier, big endian; zero when there is none.
        eui64: String = hex(&n.eui64),
        /// LBA formats.
        lbafs: Vec<Lbaf> = n.lbaf.iter().take(usize::from(n.nlbaf_z) + 1).map(Lbaf::from).collect(),
        /// Vendor specific bytes: always an empty list.
        vs: Vec<String> = Vec::new(),
    }
}

view! {
    /// Preferred sizes of `nvme id-ns`.
    PreferredSizes(n: IdentifyNamespace) {
        /// Namespace Preferred Write Granularity in logical blocks, zero-based.
        #[schemars(extend("unit" = "logical blocks", "absent" = "the drive reports no preferred sizes (NSFEAT.OPTPERF)"))]
        npwg: u16 = n.npwg_z.get(),
        /// Namespace Preferred Write Alignment in logical blocks, zero-based.
        #[schemars(extend("unit" = "logical blocks", "absent" = "the drive reports no preferred sizes (NSFEAT.OPTPERF)"))]
        npwa: u16 = n.npwa_z.get(),
        /// Namespace Preferred Deallocate Granularity, zero-based.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("unit" = "logical blocks", "absent" = "the drive reports no preferred sizes (NSFEAT.OPTPERF)"))]
        npdg: Option<u16> = (n.nsfeat.optperf() & 1 != 0).then(|| n.npdg_z.get()),
        /// Namespace Preferred Deallocate Alignment in logical blocks, zero-based.
        #[schemars(extend("unit" = "logical blocks", "absent" = "the drive reports no preferred sizes (NSFEAT.OPTPERF)"))]
        npda: u16 = n.npda_z.get(),
        /// Namespace Optimal Write Size in logical blocks, zero-based.
        #[schemars(extend("unit" = "logical blocks", "absent" = "the drive reports no preferred sizes (NSFEAT.OPTPERF)"))]
        nows: u16 = n.nows_z.get(),
    }
}

view! {
    /// One LBA format.
    Lbaf(f: LbaFormat) {
        /// Metadata Size in bytes per logical block.
        #[schemars(extend("unit" = "bytes"))]
        ms: u16 = f.ms.get(),
        /// LBA Data Size as a power of two: 9 or more; 0 marks a format that is not available.
        ds: u8 = f.lbads,
        /// Relative Performance in bits 1:0: 0 best to 3 degraded.
        rp: u8 = f.rp,
    }
}

view! {
    /// An NVM Set.
    NvmSet(s: NvmSetAttributes) {
        /// NVM Set Identifier.
        nvmset_id: u16 = s.nvmsetid.get(),
        /// Endurance Group Identifier.
        endurance_group_id: u16 = s.endgid.get(),
        /// Random 4 KiB Read Typical; 0 not reported.
        #[schemars(extend("unit" = "100 ns"))]
        random_4k_read_typical: u32 = s.r4krt.get(),
        /// Optimal Write Size in bytes; 0 not reported.
        #[schemars(extend("unit" = "bytes"))]
        optimal_write_size: u32 = s.ows.get(),
        /// Total NVM Set Capacity in bytes.
        #[schemars(extend("unit" = "bytes"))]
        total_nvmset_cap: u128 = s.tnvmsetcap.get(),
        /// Unallocated NVM Set Capacity in bytes.
        #[schemars(extend("unit" = "bytes"))]
        unalloc_nvmset_cap: u128 = s.unvmsetcap.get(),
    }
}

/// The keys of `nvme id-nvmset` (nvme-cli 2).
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NvmSets {
    /// How many.
    nid: usize,
    /// The NVM Sets.
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

/// A namespace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct ListedNsid {
    /// Namespace identifier.
    pub(super) nsid: Nsid,
}

impl ListNs {
    /// The list of these namespaces.
    #[must_use]
    pub fn new(nsids: &[Nsid]) -> Self {
        Self { nsid_list: nsids.iter().map(|nsid| ListedNsid { nsid: *nsid }).collect() }
    }
}

/// The keys of `nvme id-endurance-group-list` (nvme-cli 2).
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EnduranceGroups {
    /// How many.
    num_endgrp_id: usize,
    /// The Endurance Groups.
    endgrp_list: Vec<ListedEndgid>,
}

/// An Endurance Group.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ListedEndgid {
    /// Its identifier.
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

/// A namespace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ListItem {
    /// Namespace identifier.
    name_space: Nsid,
    /// Address of the drive, # and the namespace.
    device_path: String,
    /// The same.
    generic_path: String,
    /// Firmware revision.
    firmware: String,
    /// Model.
    model_number: String,
    /// Serial number.
    serial_number: String,
    /// What holds data.
    #[schemars(extend("unit" = "bytes"))]
    used_bytes: u64,
    /// Size.
    #[serde(rename = "MaximumLBA")]
    #[schemars(extend("unit" = "logical blocks"))]
    maximum_lba: u64,
    /// Size.
    #[schemars(extend("unit" = "bytes"))]
    physical_size: u64,
    /// Data of a logical block.
    #[schemars(extend("unit" = "bytes"))]
    sector_size: u32,
}

impl ListItem {
    /// A namespace. `path` is where a program finds it (a device, a file, an address).
    #[must_use]
    pub fn new(ctrl: &IdentifyController, nsid: Nsid, ns: &IdentifyNamespace, path: &str) -> Self {
        let sector_size = ns.format().data_bytes().unwrap_or(0);
        let bytes = |blocks: u64| blocks.saturating_mul(sector_size.into());
        Self {
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
        }
    }
}
