//! `nvme id-ctrl`, and what belongs to it.

use super::{text, uuid};
use nvme::Nqn;
use nvme::identify::{IdentifyController, NvmController, PowerStateDescriptor};
use schemars::JsonSchema;
use serde::Serialize;

view! {
    /// The keys of `nvme id-ctrl` (nvme-cli 2).
    IdCtrl(c: IdentifyController) {
        /// PCI Vendor ID.
        vid: u16 = c.vid.get(),
        /// PCI Subsystem Vendor ID.
        ssvid: u16 = c.ssvid.get(),
        /// Serial Number, ASCII padded with spaces.
        sn: String = text(&c.sn),
        /// Model Number, ASCII padded with spaces.
        mn: String = text(&c.mn),
        /// Firmware Revision, ASCII padded with spaces.
        fr: String = text(&c.fr),
        /// Recommended Arbitration Burst as a power of two.
        rab: u8 = c.rab,
        /// IEEE OUI Identifier, least significant byte first.
        ieee: u32 = u32::from_le_bytes([c.ieee[0], c.ieee[1], c.ieee[2], 0]),
        /// Controller Multi-Path I/O and Namespace Sharing Capabilities.
        cmic: u8 = c.cmic.into_bits(),
        /// Maximum Data Transfer Size: 2 to this, in units of CAP.MPSMIN; 0 is no limit.
        mdts: u8 = c.mdts,
        /// Controller ID.
        cntlid: u16 = c.cntlid.get(),
        /// Version, as in VS.
        ver: u32 = c.ver.get(),
        /// RTD3 Resume Latency in microseconds.
        #[schemars(extend("unit" = "us"))]
        rtd3r: u32 = c.rtd3r.get(),
        /// RTD3 Entry Latency in microseconds.
        #[schemars(extend("unit" = "us"))]
        rtd3e: u32 = c.rtd3e.get(),
        /// Optional Asynchronous Events Supported: bits of AsyncEventConfiguration.
        oaes: u32 = c.oaes.into_bits().get(),
        /// Controller Attributes.
        ctratt: u32 = c.ctratt.into_bits().get(),
        /// Read Recovery Levels Supported.
        rrls: u16 = c.rrls.get(),
        /// Boot Partition Capabilities.
        bpcap: u8 = c.bpcap,
        /// NVM Subsystem Shutdown Latency in microseconds.
        #[schemars(extend("unit" = "us"))]
        nssl: u32 = c.nssl.get(),
        /// Power Loss Signaling Information.
        plsi: u8 = c.plsi,
        /// Controller Type.
        cntrltype: u8 = c.cntrltype.0,
        /// FRU Globally Unique Identifier.
        fguid: String = uuid(&c.fguid),
        /// Command Retry Delay Time 1 in units of 100 ms.
        #[schemars(extend("unit" = "100 ms"))]
        crdt1: u16 = c.crdt1.get(),
        /// Command Retry Delay Time 2 in units of 100 ms.
        #[schemars(extend("unit" = "100 ms"))]
        crdt2: u16 = c.crdt2.get(),
        /// Command Retry Delay Time 3 in units of 100 ms.
        #[schemars(extend("unit" = "100 ms"))]
        crdt3: u16 = c.crdt3.get(),
        /// Controller Reachability Capabilities.
        crcap: u8 = c.crcap,
        /// NVM Subsystem Report (management interface).
        nvmsr: u8 = c.nvmsr,
        /// VPD Write Cycle Information.
        vwci: u8 = c.vwci,
        /// Management Endpoint Capabilities.
        mec: u8 = c.mec,
        /// Optional Admin Command Support.
        oacs: u16 = c.oacs.into_bits().get(),
        /// Abort Command Limit, zero-based.
        acl: u8 = c.acl_z,
        /// Asynchronous Event Request Limit, zero-based.
        aerl: u8 = c.aerl_z,
        /// Firmware Updates.
        frmw: u8 = c.frmw.into_bits(),
        /// Log Page Attributes.
        lpa: u8 = c.lpa.into_bits(),
        /// Error Log Page Entries, zero-based.
        elpe: u8 = c.elpe_z,
        /// Number of Power States Support, zero-based.
        npss: u8 = c.npss_z,
        /// Admin Vendor Specific Command Configuration: bit 0 the standard format.
        avscc: u8 = c.avscc,
        /// Autonomous Power State Transition Attributes.
        apsta: u8 = c.apsta,
        /// Warning Composite Temperature Threshold in kelvins.
        #[schemars(extend("unit" = "K"))]
        wctemp: u16 = c.wctemp.get(),
        /// Critical Composite Temperature Threshold in kelvins.
        #[schemars(extend("unit" = "K"))]
        cctemp: u16 = c.cctemp.get(),
        /// Maximum Time for Firmware Activation in units of 100 ms.
        #[schemars(extend("unit" = "100 ms"))]
        mtfa: u16 = c.mtfa.get(),
        /// Host Memory Buffer Preferred Size.
        #[schemars(extend("unit" = "4 KiB"))]
        hmpre: u32 = c.hmpre.get(),
        /// Host Memory Buffer Minimum Size.
        #[schemars(extend("unit" = "4 KiB"))]
        hmmin: u32 = c.hmmin.get(),
        /// Total NVM Capacity in bytes.
        #[schemars(extend("unit" = "bytes"))]
        tnvmcap: u128 = c.tnvmcap.get(),
        /// Unallocated NVM Capacity in bytes.
        #[schemars(extend("unit" = "bytes"))]
        unvmcap: u128 = c.unvmcap.get(),
        /// Replay Protected Memory Block Support.
        rpmbs: u32 = c.rpmbs.get(),
        /// Extended Device Self-test Time in minutes.
        #[schemars(extend("unit" = "min"))]
        edstt: u16 = c.edstt.get(),
        /// Device Self-test Options.
        dsto: u8 = c.dsto,
        /// Firmware Update Granularity in units of 4 KiB.
        #[schemars(extend("unit" = "4 KiB"))]
        fwug: u8 = c.fwug,
        /// Keep Alive Support: granularity of the timer in units of 100 ms; 0 is not supported.
        #[schemars(extend("unit" = "100 ms"))]
        kas: u16 = c.kas.get(),
        /// Host Controlled Thermal Management Attributes.
        hctma: u16 = c.hctma.get(),
        /// Minimum Thermal Management Temperature in kelvins.
        #[schemars(extend("unit" = "K"))]
        mntmt: u16 = c.mntmt.get(),
        /// Maximum Thermal Management Temperature in kelvins.
        #[schemars(extend("unit" = "K"))]
        mxtmt: u16 = c.mxtmt.get(),
        /// Sanitize Capabilities.
        sanicap: u32 = c.sanicap.into_bits().get(),
        /// Host Memory Buffer Minimum Descriptor Entry Size.
        #[schemars(extend("unit" = "4 KiB"))]
        hmminds: u32 = c.hmminds.get(),
        /// Host Memory Maximum Descriptors Entries.
        hmmaxd: u16 = c.hmmaxd.get(),
        /// NVM Set Identifier Maximum.
        nsetidmax: u16 = c.nsetidmax.get(),
        /// Endurance Group Identifier Maximum.
        endgidmax: u16 = c.endgidmax.get(),
        /// ANA Transition Time in seconds.
        #[schemars(extend("unit" = "s"))]
        anatt: u8 = c.anatt,
        /// Asymmetric Namespace Access Capabilities.
        anacap: u8 = c.anacap.into_bits(),
        /// ANA Group Identifier Maximum.
        anagrpmax: u32 = c.anagrpmax.get(),
        /// Number of ANA Group Identifiers.
        nanagrpid: u32 = c.nanagrpid.get(),
        /// Persistent Event Log Size in units of 64 KiB.
        #[schemars(extend("unit" = "64 KiB"))]
        pels: u32 = c.pels.get(),
        /// Domain Identifier.
        domainid: u16 = c.did.get(),
        /// Key Per I/O Capabilities.
        kpioc: u8 = c.kpioc,
        /// Maximum Processing Time for Firmware Activation Without Reset in units of 100 ms.
        #[schemars(extend("unit" = "100 ms"))]
        mptfawr: u16 = c.mptfawr.get(),
        /// Max Endurance Group Capacity in bytes.
        #[schemars(extend("unit" = "bytes"))]
        megcap: u128 = c.megcap.get(),
        /// Temperature Threshold Hysteresis Attributes.
        tmpthha: u8 = c.tmpthha,
        /// Command Quiesce Time in milliseconds.
        #[schemars(extend("unit" = "ms"))]
        cqt: u16 = c.cqt.get(),
        /// Submission Queue Entry Size.
        sqes: u8 = c.sqes.into_bits(),
        /// Completion Queue Entry Size.
        cqes: u8 = c.cqes.into_bits(),
        /// Maximum Outstanding Commands per I/O queue over fabrics; 0 not reported.
        maxcmd: u16 = c.maxcmd.get(),
        /// Number of Namespaces: the largest NSID (with MNAN: the most that may be allocated).
        nn: u32 = c.nn.get(),
        /// Optional NVM Command Support.
        oncs: u16 = c.oncs.into_bits().get(),
        /// Fused Operation Support: bit 0 Compare and Write (FCWS).
        fuses: u16 = c.fuses.get(),
        /// Format NVM Attributes.
        fna: u8 = c.fna.into_bits(),
        /// Volatile Write Cache.
        vwc: u8 = c.vwc.into_bits(),
        /// Atomic Write Unit Normal in logical blocks, zero-based.
        #[schemars(extend("unit" = "logical blocks"))]
        awun: u16 = c.awun_z.get(),
        /// Atomic Write Unit Power Fail in logical blocks, zero-based.
        #[schemars(extend("unit" = "logical blocks"))]
        awupf: u16 = c.awupf_z.get(),
        /// I/O Command Set Vendor Specific Command Configuration: bit 0 the standard format.
        icsvscc: u8 = c.icsvscc,
        /// Namespace Write Protection Capabilities: bit 0 no/write protect, 1 until power cycle, 2 permanent.
        nwpc: u8 = c.nwpc,
        /// Atomic Compare & Write Unit in logical blocks, zero-based.
        #[schemars(extend("unit" = "logical blocks"))]
        acwu: u16 = c.acwu_z.get(),
        /// Copy Descriptor Formats Supported.
        ocfs: u16 = c.cdfs.get(),
        /// SGL Support.
        sgls: u32 = c.sgls.into_bits().get(),
        /// Maximum Number of Allowed Namespaces; 0: as many as NN.
        mnan: u32 = c.mnan.get(),
        /// Maximum Domain Namespace Attachments.
        maxdna: u128 = c.maxdna.get(),
        /// Maximum I/O Controller Namespace Attachments; 0: as many as NN.
        maxcna: u32 = c.maxcna.get(),
        /// Optimal Aggregated Queue Depth; 0 not reported.
        oaqd: u32 = c.oaqd.get(),
        /// Recommended Host-Initiated Refresh Interval.
        #[schemars(extend("unit" = "days"))]
        rhiri: u8 = c.rhiri,
        /// Host-Initiated Refresh Time in minutes.
        #[schemars(extend("unit" = "min"))]
        hirt: u8 = c.hirt,
        /// Controller Maximum Memory Range Tracking Descriptors.
        cmmrtd: u16 = c.cmmrtd.get(),
        /// NVM Subsystem Maximum Memory Range Tracking Descriptors.
        nmmrtd: u16 = c.nmmrtd.get(),
        /// Minimum Memory Range Tracking Granularity.
        minmrtg: u8 = c.minmrtg,
        /// Maximum Memory Range Tracking Granularity.
        maxmrtg: u8 = c.maxmrtg,
        /// Tracking Attributes.
        trattr: u8 = c.trattr,
        /// Maximum Controller User Data Migration Queues.
        mcudmq: u16 = c.mcudmq.get(),
        /// Maximum NVM Subsystem User Data Migration Queues.
        mnsudmq: u16 = c.mnsudmq.get(),
        /// Maximum CDQ Memory Ranges.
        mcmr: u16 = c.mcmr.get(),
        /// NVM Subsystem Maximum CDQ Memory Ranges.
        nmcmr: u16 = c.nmcmr.get(),
        /// Maximum Controller Data Queue PRP Count.
        mcdqpc: u16 = c.mcdqpc.get(),
        /// NVM Subsystem NVMe Qualified Name.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("absent" = "the drive gives no name that can be read"))]
        subnqn: Option<String> = Nqn::from_field(&c.subnqn).ok().map(|nqn| nqn.to_string()),
        /// I/O Queue Command Capsule Supported Size (fabrics).
        #[schemars(extend("unit" = "16 bytes"))]
        ioccsz: u32 = c.ioccsz.get(),
        /// I/O Queue Response Capsule Supported Size (fabrics).
        #[schemars(extend("unit" = "16 bytes"))]
        iorcsz: u32 = c.iorcsz.get(),
        /// In Capsule Data Offset (fabrics).
        #[schemars(extend("unit" = "16 bytes"))]
        icdoff: u16 = c.icdoff.get(),
        /// Fabrics Controller Attributes: bit 0 static controller model.
        fcatt: u8 = c.fcatt,
        /// Maximum SGL Data Block Descriptors (fabrics); 0 is no limit.
        msdbd: u8 = c.msdbd,
        /// Optional Fabrics Commands Support: bit 0 Disconnect.
        ofcs: u16 = c.ofcs.get(),
        /// Power State Descriptors.
        psds: Vec<PowerState> = c.psd.iter().take(usize::from(c.npss_z) + 1).map(PowerState::from).collect(),
    }
}

view! {
    /// One power state.
    PowerState(p: PowerStateDescriptor) {
        /// Maximum Power, scaled by max_power_scale.
        #[schemars(extend("unit" = "0.01 W"))]
        max_power: u16 = p.mp.get(),
        /// Max Power Scale (MXPS): 1 if max_power is in units of 0.0001 W.
        max_power_scale: u8 = p.flags & 1,
        /// Non-Operational State (NOPS): 1 if the drive takes no I/O in it.
        #[serde(rename = "non-operational_state")]
        non_operational_state: u8 = p.flags >> 1 & 1,
        /// Entry Latency in microseconds.
        #[schemars(extend("unit" = "us"))]
        entry_lat: u32 = p.enlat.get(),
        /// Exit Latency in microseconds.
        #[schemars(extend("unit" = "us"))]
        exit_lat: u32 = p.exlat.get(),
        /// Relative Read Throughput.
        read_tput: u8 = p.rrt,
        /// Relative Read Latency.
        read_lat: u8 = p.rrl,
        /// Relative Write Throughput.
        write_tput: u8 = p.rwt,
        /// Relative Write Latency.
        write_lat: u8 = p.rwl,
        /// Idle Power.
        idle_power: u16 = p.idlp.get(),
        /// Idle Power Scale.
        idle_scale: u8 = p.ips >> 6,
        /// Active Power.
        active_power: u16 = p.actp.get(),
        /// Active Power Workload.
        active_power_work: u8 = p.apws & 7,
        /// Active Power Scale.
        active_scale: u8 = p.apws >> 6,
        /// Emergency Power Fail Recovery Time.
        emerg_power_fail_recover_time: u8 = p.epfrt,
        /// Emergency Power Fail Recovery Time Scale.
        emerg_power_fail_recover_scale: u8 = p.fqvts_epfrts & 0xF,
        /// Forced Quiescence Vault Time.
        force_quiesce_vault_time: u8 = p.fqvt,
        /// Forced Quiescence Vault Time Scale.
        force_quiesce_vault_scale: u8 = p.fqvts_epfrts >> 4,
        /// Emergency Power Fail Vault Time.
        emerg_power_fail_vault_time: u8 = p.epfvt,
        /// Emergency Power Fail Vault Time Scale.
        emerg_power_fail_vault_scale: u8 = p.epfvts & 0xF,
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
