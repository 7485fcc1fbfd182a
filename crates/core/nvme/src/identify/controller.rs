//! Identify Controller (CNS 01h) and its NVM Command Set part (CNS 06h).

use crate::nqn::NqnField;
use crate::{U16, U32, U64, U128};

wire! {
    /// Identify Controller data structure (Base 5.1.13.2.1, CNS 01h).
    pub struct IdentifyController[4096] {
        /// PCI Vendor ID.
        pub vid: U16,
        /// PCI Subsystem Vendor ID.
        pub ssvid: U16,
        /// Serial Number, ASCII padded with spaces.
        pub sn: [u8; 20],
        /// Model Number, ASCII padded with spaces.
        pub mn: [u8; 40],
        /// Firmware Revision, ASCII padded with spaces.
        pub fr: [u8; 8],
        /// Recommended Arbitration Burst as a power of two.
        pub rab: u8,
        /// IEEE OUI Identifier, least significant byte first.
        pub ieee: [u8; 3],
        /// Controller Multi-Path I/O and Namespace Sharing Capabilities.
        pub cmic: Cmic,
        /// Maximum Data Transfer Size: 2 to this, in units of CAP.MPSMIN; 0 is no limit.
        pub mdts: u8,
        /// Controller ID.
        pub cntlid: U16,
        /// Version, as in VS.
        pub ver: U32,
        /// RTD3 Resume Latency in microseconds.
        pub rtd3r: U32,
        /// RTD3 Entry Latency in microseconds.
        pub rtd3e: U32,
        /// Optional Asynchronous Events Supported: bits of [`crate::feature::AsyncEventConfiguration`].
        pub oaes: crate::feature::AsyncEventConfiguration,
        /// Controller Attributes.
        pub ctratt: Ctratt,
        /// Read Recovery Levels Supported.
        pub rrls: U16,
        /// Boot Partition Capabilities.
        pub bpcap: u8,
        /// Reserved.
        pub rsvd103: u8,
        /// NVM Subsystem Shutdown Latency in microseconds.
        pub nssl: U32,
        /// Reserved.
        pub rsvd108: [u8; 2],
        /// Power Loss Signaling Information.
        pub plsi: u8,
        /// Controller Type.
        pub cntrltype: ControllerType,
        /// FRU Globally Unique Identifier.
        pub fguid: [u8; 16],
        /// Command Retry Delay Time 1 in units of 100 ms.
        pub crdt1: U16,
        /// Command Retry Delay Time 2 in units of 100 ms.
        pub crdt2: U16,
        /// Command Retry Delay Time 3 in units of 100 ms.
        pub crdt3: U16,
        /// Controller Reachability Capabilities.
        pub crcap: u8,
        /// Reserved.
        pub rsvd135: [u8; 118],
        /// NVM Subsystem Report (management interface).
        pub nvmsr: u8,
        /// VPD Write Cycle Information.
        pub vwci: u8,
        /// Management Endpoint Capabilities.
        pub mec: u8,
        /// Optional Admin Command Support.
        pub oacs: Oacs,
        /// Abort Command Limit, zero-based.
        pub acl_z: u8,
        /// Asynchronous Event Request Limit, zero-based.
        pub aerl_z: u8,
        /// Firmware Updates.
        pub frmw: Frmw,
        /// Log Page Attributes.
        pub lpa: Lpa,
        /// Error Log Page Entries, zero-based.
        pub elpe_z: u8,
        /// Number of Power States Support, zero-based.
        pub npss_z: u8,
        /// Admin Vendor Specific Command Configuration: bit 0 the standard format.
        pub avscc: u8,
        /// Autonomous Power State Transition Attributes.
        pub apsta: u8,
        /// Warning Composite Temperature Threshold in kelvins.
        pub wctemp: U16,
        /// Critical Composite Temperature Threshold in kelvins.
        pub cctemp: U16,
        /// Maximum Time for Firmware Activation in units of 100 ms.
        pub mtfa: U16,
        /// Host Memory Buffer Preferred Size.
        pub hmpre: U32,
        /// Host Memory Buffer Minimum Size.
        pub hmmin: U32,
        /// Total NVM Capacity in bytes.
        pub tnvmcap: U128,
        /// Unallocated NVM Capacity in bytes.
        pub unvmcap: U128,
        /// Replay Protected Memory Block Support.
        pub rpmbs: U32,
        /// Extended Device Self-test Time in minutes.
        pub edstt: U16,
        /// Device Self-test Options.
        pub dsto: u8,
        /// Firmware Update Granularity in units of 4 KiB.
        pub fwug: u8,
        /// Keep Alive Support: granularity of the timer in units of 100 ms; 0 is not supported.
        pub kas: U16,
        /// Host Controlled Thermal Management Attributes.
        pub hctma: U16,
        /// Minimum Thermal Management Temperature in kelvins.
        pub mntmt: U16,
        /// Maximum Thermal Management Temperature in kelvins.
        pub mxtmt: U16,
        /// Sanitize Capabilities.
        pub sanicap: Sanicap,
        /// Host Memory Buffer Minimum Descriptor Entry Size.
        pub hmminds: U32,
        /// Host Memory Maximum Descriptors Entries.
        pub hmmaxd: U16,
        /// NVM Set Identifier Maximum.
        pub nsetidmax: U16,
        /// Endurance Group Identifier Maximum.
        pub endgidmax: U16,
        /// ANA Transition Time in seconds.
        pub anatt: u8,
        /// Asymmetric Namespace Access Capabilities.
        pub anacap: Anacap,
        /// ANA Group Identifier Maximum.
        pub anagrpmax: U32,
        /// Number of ANA Group Identifiers.
        pub nanagrpid: U32,
        /// Persistent Event Log Size in units of 64 KiB.
        pub pels: U32,
        /// Domain Identifier.
        pub did: U16,
        /// Key Per I/O Capabilities.
        pub kpioc: u8,
        /// Reserved.
        pub rsvd359: u8,
        /// Maximum Processing Time for Firmware Activation Without Reset in units of 100 ms.
        pub mptfawr: U16,
        /// Reserved.
        pub rsvd362: [u8; 6],
        /// Max Endurance Group Capacity in bytes.
        pub megcap: U128,
        /// Temperature Threshold Hysteresis Attributes.
        pub tmpthha: u8,
        /// Reserved.
        pub rsvd385: u8,
        /// Command Quiesce Time in milliseconds.
        pub cqt: U16,
        /// Reserved.
        pub rsvd388: [u8; 124],
        /// Submission Queue Entry Size.
        pub sqes: EntrySize,
        /// Completion Queue Entry Size.
        pub cqes: EntrySize,
        /// Maximum Outstanding Commands per I/O queue over fabrics; 0 not reported.
        pub maxcmd: U16,
        /// Number of Namespaces: the largest NSID (with MNAN: the most that may be allocated).
        pub nn: U32,
        /// Optional NVM Command Support.
        pub oncs: Oncs,
        /// Fused Operation Support: bit 0 Compare and Write (FCWS).
        pub fuses: U16,
        /// Format NVM Attributes.
        pub fna: Fna,
        /// Volatile Write Cache.
        pub vwc: Vwc,
        /// Atomic Write Unit Normal in logical blocks, zero-based.
        pub awun_z: U16,
        /// Atomic Write Unit Power Fail in logical blocks, zero-based.
        pub awupf_z: U16,
        /// I/O Command Set Vendor Specific Command Configuration: bit 0 the standard format.
        pub icsvscc: u8,
        /// Namespace Write Protection Capabilities: bit 0 no/write protect, 1 until power cycle, 2 permanent.
        pub nwpc: u8,
        /// Atomic Compare & Write Unit in logical blocks, zero-based.
        pub acwu_z: U16,
        /// Copy Descriptor Formats Supported.
        pub cdfs: U16,
        /// SGL Support.
        pub sgls: Sgls,
        /// Maximum Number of Allowed Namespaces; 0: as many as NN.
        pub mnan: U32,
        /// Maximum Domain Namespace Attachments.
        pub maxdna: U128,
        /// Maximum I/O Controller Namespace Attachments; 0: as many as NN.
        pub maxcna: U32,
        /// Optimal Aggregated Queue Depth; 0 not reported.
        pub oaqd: U32,
        /// Recommended Host-Initiated Refresh Interval in days.
        pub rhiri: u8,
        /// Host-Initiated Refresh Time in minutes.
        pub hirt: u8,
        /// Controller Maximum Memory Range Tracking Descriptors.
        pub cmmrtd: U16,
        /// NVM Subsystem Maximum Memory Range Tracking Descriptors.
        pub nmmrtd: U16,
        /// Minimum Memory Range Tracking Granularity.
        pub minmrtg: u8,
        /// Maximum Memory Range Tracking Granularity.
        pub maxmrtg: u8,
        /// Tracking Attributes.
        pub trattr: u8,
        /// Reserved.
        pub rsvd577: u8,
        /// Maximum Controller User Data Migration Queues.
        pub mcudmq: U16,
        /// Maximum NVM Subsystem User Data Migration Queues.
        pub mnsudmq: U16,
        /// Maximum CDQ Memory Ranges.
        pub mcmr: U16,
        /// NVM Subsystem Maximum CDQ Memory Ranges.
        pub nmcmr: U16,
        /// Maximum Controller Data Queue PRP Count.
        pub mcdqpc: U16,
        /// Reserved.
        pub rsvd588: [u8; 180],
        /// NVM Subsystem NVMe Qualified Name.
        pub subnqn: NqnField,
        /// Reserved.
        pub rsvd1024: [u8; 768],
        /// I/O Queue Command Capsule Supported Size in units of 16 bytes (fabrics).
        pub ioccsz: U32,
        /// I/O Queue Response Capsule Supported Size in units of 16 bytes (fabrics).
        pub iorcsz: U32,
        /// In Capsule Data Offset in units of 16 bytes (fabrics).
        pub icdoff: U16,
        /// Fabrics Controller Attributes: bit 0 static controller model.
        pub fcatt: u8,
        /// Maximum SGL Data Block Descriptors (fabrics); 0 is no limit.
        pub msdbd: u8,
        /// Optional Fabrics Commands Support: bit 0 Disconnect.
        pub ofcs: U16,
        /// Discovery Controller Type: 0 not reported, 1 DDC, 2 CDC.
        pub dctype: u8,
        /// Reserved.
        pub rsvd1807: [u8; 241],
        /// Power State Descriptors.
        pub psd: [PowerStateDescriptor; 32],
        /// Vendor Specific.
        pub vs: [u8; 1024],
    }

    /// Power State Descriptor (Base 5.1.13.2.1, "Power State Descriptor Data Structure").
    pub struct PowerStateDescriptor[32] {
        /// Maximum Power, in units of 0.01 W (0.0001 W when MXPS is set).
        pub mp: U16,
        /// Reserved.
        pub rsvd2: u8,
        /// Bit 0 Max Power Scale (MXPS), bit 1 Non-Operational State (NOPS).
        pub flags: u8,
        /// Entry Latency in microseconds.
        pub enlat: U32,
        /// Exit Latency in microseconds.
        pub exlat: U32,
        /// Relative Read Throughput.
        pub rrt: u8,
        /// Relative Read Latency.
        pub rrl: u8,
        /// Relative Write Throughput.
        pub rwt: u8,
        /// Relative Write Latency.
        pub rwl: u8,
        /// Idle Power.
        pub idlp: U16,
        /// Idle Power Scale in bits 7:6.
        pub ips: u8,
        /// Reserved.
        pub rsvd19: u8,
        /// Active Power.
        pub actp: U16,
        /// Active Power Scale in bits 7:6, Active Power Workload in bits 2:0.
        pub apws: u8,
        /// Emergency Power Fail Recovery Time.
        pub epfrt: u8,
        /// Forced Quiescence Vault Time.
        pub fqvt: u8,
        /// Emergency Power Fail Vault Time.
        pub epfvt: u8,
        /// Scales of FQVT (bits 7:4) and EPFRT (bits 3:0).
        pub fqvts_epfrts: u8,
        /// Scale of EPFVT in bits 3:0.
        pub epfvts: u8,
        /// Reserved.
        pub rsvd28: [u8; 4],
    }

    /// Identify Controller data structure of the NVM Command Set (NVM 4.1.5.4, CNS 06h, CSI 00h). Sizes are
    /// powers of two in units of CAP.MPSMIN; 0 reports no limit.
    pub struct NvmController[4096] {
        /// Verify Size Limit.
        pub vsl: u8,
        /// Write Zeroes Size Limit.
        pub wzsl: u8,
        /// Write Uncorrectable Size Limit.
        pub wusl: u8,
        /// Dataset Management Ranges Limit: ranges of one command.
        pub dmrl: u8,
        /// Dataset Management Range Size Limit: logical blocks of one range.
        pub dmrsl: U32,
        /// Dataset Management Size Limit: logical blocks of one command.
        pub dmsl: U64,
        /// Key Per I/O Capabilities.
        pub kpiocap: u8,
        /// Write Zeroes With Deallocate Size Limit.
        pub wzdsl: u8,
        /// Admin Optional Command Support.
        pub aocs: U16,
        /// Version of the NVM Command Set Specification.
        pub ver: U32,
        /// LBA Migration Queue Format.
        pub lbamqf: u8,
        /// Reserved.
        pub rsvd25: [u8; 4071],
    }
}
layout!(
    IdentifyController, 4096,
    rab @ 72, cmic @ 76, cntlid @ 78, ver @ 80, oaes @ 92, ctratt @ 96, cntrltype @ 111, fguid @ 112,
    nvmsr @ 253, oacs @ 256, frmw @ 260, lpa @ 261, wctemp @ 266, tnvmcap @ 280, unvmcap @ 296, kas @ 320,
    sanicap @ 328, nsetidmax @ 338, endgidmax @ 340, anacap @ 343, pels @ 352, megcap @ 368, sqes @ 512,
    maxcmd @ 514, nn @ 516, oncs @ 520, vwc @ 525, awun_z @ 526, nwpc @ 531, sgls @ 536, mnan @ 540,
    subnqn @ 768, ioccsz @ 1792, msdbd @ 1803, ofcs @ 1804, psd @ 2048, vs @ 3072,
);

open_enum! {
    /// Controller Type (Base 5.1.13.2.1).
    pub struct ControllerType: u8 {
        /// Controller type not reported.
        NOT_REPORTED = 0 => "Controller type not reported",
        /// I/O controller.
        IO = 1 => "I/O controller",
        /// Discovery controller.
        DISCOVERY = 2 => "Discovery controller",
        /// Administrative controller.
        ADMINISTRATIVE = 3 => "Administrative controller",
    }
}

bits8! {
    /// Controller Multi-Path I/O and Namespace Sharing Capabilities.
    pub struct Cmic {
        /// Multiple Ports.
        pub mports: bool,
        /// Multiple Controllers.
        pub mctrs: bool,
        /// Function Type: an SR-IOV virtual function.
        pub ft: bool,
        /// Asymmetric Namespace Access Reporting Support.
        pub anars: bool,
        #[bits(4)]
        _r4: u8,
    }

    /// Firmware Updates.
    pub struct Frmw {
        /// First Firmware Slot is Read Only.
        pub ffsro: bool,
        /// Number of Firmware Slots, 1 to 7.
        #[bits(3)]
        pub nofs: u8,
        /// Firmware Activation Without Reset.
        pub fawr: bool,
        /// Support Multiple Update Detection.
        pub smud: bool,
        #[bits(2)]
        _r6: u8,
    }

    /// Log Page Attributes.
    pub struct Lpa {
        /// SMART Support: the SMART log per namespace.
        pub smarts: bool,
        /// Commands Supported and Effects Support.
        pub cses: bool,
        /// Log Page Extended Data Support: offsets and lengths of 32 bits.
        pub lpeds: bool,
        /// Telemetry Support.
        pub ts: bool,
        /// Persistent Event Support.
        pub pes: bool,
        /// Miscellaneous Log Page Support: Supported Log Pages, Feature Effects and others.
        pub mlps: bool,
        /// Data Area 4 Support.
        pub da4s: bool,
        #[bits(1)]
        _r7: u8,
    }

    /// Asymmetric Namespace Access Capabilities.
    pub struct Anacap {
        /// Reports ANA Optimized state.
        pub optimized: bool,
        /// Reports ANA Non-Optimized state.
        pub non_optimized: bool,
        /// Reports ANA Inaccessible state.
        pub inaccessible: bool,
        /// Reports ANA Persistent Loss state.
        pub persistent_loss: bool,
        /// Reports ANA Change state.
        pub change: bool,
        #[bits(1)]
        _r5: u8,
        /// The ANAGRPID of an attached namespace does not change.
        pub fixed_anagrpid: bool,
        /// Namespace Management accepts a non-zero ANAGRPID.
        pub nonzero_anagrpid: bool,
    }

    /// Sizes of queue entries as powers of two.
    pub struct EntrySize {
        /// Minimum, required.
        #[bits(4)]
        pub min: u8,
        /// Maximum.
        #[bits(4)]
        pub max: u8,
    }

    /// Format NVM Attributes.
    pub struct Fna {
        /// Format applies to all namespaces.
        pub format_all: bool,
        /// Secure erase applies to all namespaces.
        pub secure_erase_all: bool,
        /// Cryptographic Erase Supported.
        pub cryes: bool,
        /// The NSID FFFFFFFFh is not supported in Format NVM.
        pub no_broadcast: bool,
        #[bits(4)]
        _r4: u8,
    }

    /// Volatile Write Cache.
    pub struct Vwc {
        /// A volatile write cache is present.
        pub present: bool,
        /// Flush with the NSID FFFFFFFFh: 0 not reported, 2 fails, 3 flushes all namespaces.
        #[bits(2)]
        pub flush_broadcast: u8,
        #[bits(5)]
        _r3: u8,
    }
}

bits16! {
    /// Optional Admin Command Support.
    pub struct Oacs {
        /// Security Send and Receive.
        pub ssrs: bool,
        /// Format NVM.
        pub fnvms: bool,
        /// Firmware Commit and Image Download.
        pub fwds: bool,
        /// Namespace Management and Attachment.
        pub nms: bool,
        /// Device Self-test.
        pub dsts: bool,
        /// Directives.
        pub dirs: bool,
        /// NVMe-MI Send and Receive.
        pub nsrs: bool,
        /// Virtualization Management.
        pub vms: bool,
        /// Doorbell Buffer Config.
        pub dbcs: bool,
        /// Get LBA Status.
        pub glss: bool,
        /// Command and Feature Lockdown.
        pub cfls: bool,
        /// Host Managed Live Migration.
        pub hmlms: bool,
        #[bits(4)]
        _r12: u8,
    }

    /// Optional NVM Command Support.
    pub struct Oncs {
        /// Compare.
        pub nvmcmps: bool,
        /// Write Uncorrectable.
        pub nvmwusv: bool,
        /// Dataset Management.
        pub nvmdsmsv: bool,
        /// Write Zeroes.
        pub nvmwzsv: bool,
        /// Save and Select fields of Set and Get Features.
        pub ssfs: bool,
        /// Reservations.
        pub reservs: bool,
        /// Timestamp feature.
        pub tss: bool,
        /// Verify.
        pub nvmvfys: bool,
        /// Copy.
        pub nvmcpys: bool,
        /// The whole of a Copy is atomic as the Write of that size.
        pub nvmcsa: bool,
        /// All Fast Copy.
        pub nvmafc: bool,
        /// Maximum Write Zeroes with Deallocate: WZDSL is valid.
        pub maxwzd: bool,
        /// Namespace Zeroes.
        pub nszs: bool,
        #[bits(3)]
        _r13: u8,
    }
}

bits32! {
    /// Controller Attributes.
    pub struct Ctratt {
        /// Host Identifier of 128 bits.
        pub hids: bool,
        /// Non-Operational Power State Permissive Mode.
        pub nopspm: bool,
        /// NVM Sets.
        pub nsets: bool,
        /// Read Recovery Levels.
        pub rrlvls: bool,
        /// Endurance Groups.
        pub egs: bool,
        /// Predictable Latency Mode.
        pub plm: bool,
        /// Traffic Based Keep Alive.
        pub tbkas: bool,
        /// Namespace Granularity.
        pub ng: bool,
        /// SQ Associations.
        pub sqa: bool,
        /// UUID List.
        pub ulist: bool,
        /// Multi-Domain Subsystem.
        pub mds: bool,
        /// Fixed Capacity Management.
        pub fcm: bool,
        /// Variable Capacity Management.
        pub vcm: bool,
        /// Delete Endurance Group.
        pub deg: bool,
        /// Delete NVM Set.
        pub dnvms: bool,
        /// Extended LBA Formats.
        pub elbas: bool,
        /// MDTS and Size Limits Exclude Metadata.
        pub mem: bool,
        /// HMB Restrict Non-Operational Power State Access.
        pub hmbr: bool,
        /// Reservations and Host Identifier Interaction.
        pub rhii: bool,
        /// Flexible Data Placement.
        pub fdps: bool,
        #[bits(12)]
        _r20: u16,
    }

    /// Sanitize Capabilities.
    pub struct Sanicap {
        /// Crypto Erase.
        pub ces: bool,
        /// Block Erase.
        pub bes: bool,
        /// Overwrite.
        pub ows: bool,
        /// Verification Support.
        pub vers: bool,
        #[bits(25)]
        _r4: u32,
        /// No-Deallocate Inhibited.
        pub ndi: bool,
        /// No-Deallocate Modifies Media After Sanitize.
        #[bits(2)]
        pub nodmmas: u8,
    }

    /// SGL Support.
    pub struct Sgls {
        /// SGLs: 0 none, 1 without alignment, 2 dword alignment.
        #[bits(2)]
        pub sgls: u8,
        /// Keyed SGL Data Block descriptor.
        pub ksdb: bool,
        #[bits(5)]
        _r3: u8,
        /// SGL Descriptor Threshold.
        #[bits(8)]
        pub sdt: u8,
        /// SGL Bit Bucket descriptor.
        pub bbd: bool,
        /// A byte-aligned contiguous metadata buffer.
        pub mptr_aligned: bool,
        /// An SGL longer than the data.
        pub oversize: bool,
        /// MPTR with an SGL descriptor.
        pub mptr_sgl: bool,
        /// The address field as an offset (in-capsule data).
        pub offset: bool,
        /// Transport SGL Data Block descriptor.
        pub transport: bool,
        #[bits(10)]
        _r22: u16,
    }
}

/// An ASCII field: `text` cut to its size and padded with spaces, as SN, MN and FR want it. Anything but
/// printable ASCII becomes `?`.
#[must_use]
pub fn ascii<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    for (byte, c) in field.iter_mut().zip(text.chars()) {
        *byte = u8::try_from(c).ok().filter(|b| matches!(b, b' '..=b'~')).unwrap_or(b'?');
    }
    field
}

/// The text of an ASCII field without its padding; empty when it is not UTF-8.
#[must_use]
pub fn ascii_text(field: &[u8]) -> &str {
    core::str::from_utf8(field).unwrap_or_default().trim_matches(|c| c == ' ' || c == '\0')
}
