//! Namespace structures: CNS 00h/11h, 05h, 08h, descriptors, and what Namespace Management creates from.

use crate::reservation::Rescap;
use crate::{Csi, U16, U32, U64, U128};

wire! {
    /// Identify Namespace data structure of the NVM Command Set (NVM 4.1.5.1, CNS 00h and 11h).
    pub struct IdentifyNamespace[4096] {
        /// Namespace Size in logical blocks.
        pub nsze: U64,
        /// Namespace Capacity in logical blocks.
        pub ncap: U64,
        /// Namespace Utilization in logical blocks.
        pub nuse: U64,
        /// Namespace Features.
        pub nsfeat: Nsfeat,
        /// Number of LBA Formats, zero-based.
        pub nlbaf_z: u8,
        /// Formatted LBA Size.
        pub flbas: Flbas,
        /// Metadata Capabilities: bit 0 extended data LBA, bit 1 separate buffer.
        pub mc: u8,
        /// End-to-end Data Protection Capabilities.
        pub dpc: Dpc,
        /// End-to-end Data Protection Type Settings.
        pub dps: Dps,
        /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
        pub nmic: Nmic,
        /// Reservation Capabilities.
        pub rescap: Rescap,
        /// Format Progress Indicator: bit 7 supported, bits 6:0 percent that remains.
        pub fpi: u8,
        /// Deallocate Logical Block Features.
        pub dlfeat: Dlfeat,
        /// Namespace Atomic Write Unit Normal in logical blocks, zero-based.
        pub nawun_z: U16,
        /// Namespace Atomic Write Unit Power Fail in logical blocks, zero-based.
        pub nawupf_z: U16,
        /// Namespace Atomic Compare & Write Unit in logical blocks, zero-based.
        pub nacwu_z: U16,
        /// Namespace Atomic Boundary Size Normal in logical blocks, zero-based; 0 is no boundary.
        pub nabsn_z: U16,
        /// Namespace Atomic Boundary Offset.
        pub nabo: U16,
        /// Namespace Atomic Boundary Size Power Fail in logical blocks, zero-based; 0 is no boundary.
        pub nabspf_z: U16,
        /// Namespace Optimal I/O Boundary in logical blocks; 0 not reported.
        pub noiob: U16,
        /// NVM Capacity in bytes.
        pub nvmcap: U128,
        /// Namespace Preferred Write Granularity in logical blocks, zero-based.
        pub npwg_z: U16,
        /// Namespace Preferred Write Alignment in logical blocks, zero-based.
        pub npwa_z: U16,
        /// Namespace Preferred Deallocate Granularity in logical blocks, zero-based.
        pub npdg_z: U16,
        /// Namespace Preferred Deallocate Alignment in logical blocks, zero-based.
        pub npda_z: U16,
        /// Namespace Optimal Write Size in logical blocks, zero-based.
        pub nows_z: U16,
        /// Maximum Single Source Range Length of Copy.
        pub mssrl: U16,
        /// Maximum Copy Length.
        pub mcl: U32,
        /// Maximum Source Range Count, zero-based.
        pub msrc_z: u8,
        /// Key Per I/O Status.
        pub kpios: u8,
        /// Number of Unique Attribute LBA Formats.
        pub nulbaf: u8,
        /// Reserved.
        pub rsvd83: u8,
        /// Key Per I/O Data Access Alignment and Granularity.
        pub kpiodaag: U32,
        /// Reserved.
        pub rsvd88: [u8; 4],
        /// ANA Group Identifier.
        pub anagrpid: U32,
        /// Reserved.
        pub rsvd96: [u8; 3],
        /// Namespace Attributes: bit 0 currently write protected.
        pub nsattr: u8,
        /// NVM Set Identifier.
        pub nvmsetid: U16,
        /// Endurance Group Identifier.
        pub endgid: U16,
        /// Namespace Globally Unique Identifier, big endian; zero when there is none.
        pub nguid: [u8; 16],
        /// IEEE Extended Unique Identifier, big endian; zero when there is none.
        pub eui64: [u8; 8],
        /// LBA Formats.
        pub lbaf: [LbaFormat; 64],
        /// Vendor Specific.
        pub vs: [u8; 3712],
    }

    /// LBA Format (NVM 4.1.5.1, "LBA Format Data Structure").
    pub struct LbaFormat[4] {
        /// Metadata Size in bytes per logical block.
        pub ms: U16,
        /// LBA Data Size as a power of two: 9 or more; 0 marks a format that is not available.
        pub lbads: u8,
        /// Relative Performance in bits 1:0: 0 best to 3 degraded.
        pub rp: u8,
    }

    /// I/O Command Set Independent Identify Namespace data structure (Base 5.1.13.2.8, CNS 08h).
    pub struct IndependentNamespace[4096] {
        /// Common Namespace Features: bit 3 NGUID and EUI64 are not reused, bit 4 rotational media,
        /// bit 5 the volatile write cache does not apply.
        pub nsfeat: u8,
        /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
        pub nmic: Nmic,
        /// Reservation Capabilities.
        pub rescap: Rescap,
        /// Format Progress Indicator.
        pub fpi: u8,
        /// ANA Group Identifier.
        pub anagrpid: U32,
        /// Namespace Attributes: bit 0 currently write protected.
        pub nsattr: u8,
        /// Reserved.
        pub rsvd9: u8,
        /// NVM Set Identifier.
        pub nvmsetid: U16,
        /// Endurance Group Identifier.
        pub endgid: U16,
        /// Namespace Status: bit 0 ready.
        pub nstat: u8,
        /// Key Per I/O Status.
        pub kpios: u8,
        /// Maximum Key Tag.
        pub maxkt: U16,
        /// Reserved.
        pub rsvd18: [u8; 2],
        /// Reachability Group Identifier.
        pub rgrpid: U32,
        /// Reserved.
        pub rsvd24: [u8; 4072],
    }

    /// Identify Namespace data structure specific to the NVM Command Set (NVM 4.1.5.3, CNS 05h, CSI 00h).
    pub struct NvmNamespace[4096] {
        /// Logical Block Storage Tag Mask.
        pub lbstm: U64,
        /// Protection Information Capabilities: bit 0 storage tags with guards of 16 bits (16BPISTS), bit 2 Storage Tag Check of Reads
        /// (STCRS), bit 3 Qualified Protection Information Formats (QPIFS).
        pub pic: u8,
        /// Protection Information Format Attribute.
        pub pifa: u8,
        /// Reserved.
        pub rsvd10: [u8; 2],
        /// Extended LBA Formats: bits 6:0 Storage Tag Size, 8:7 Protection Information Format (11b: the qualified one), 12:9 Qualified
        /// Protection Information Format.
        pub elbaf: [U32; 64],
        /// Namespace Preferred Deallocate Granularity Large.
        pub npdgl: U32,
        /// Namespace Preferred Read Granularity in logical blocks.
        pub nprg: U32,
        /// Namespace Preferred Read Alignment in logical blocks.
        pub npra: U32,
        /// Namespace Optimal Read Size in logical blocks.
        pub nors: U32,
        /// Namespace Preferred Deallocate Alignment Large.
        pub npdal: U32,
        /// LBA Format Placement Shard Size.
        pub lbapss: U32,
        /// Tracked LBA Allocation Granularity.
        pub tlbaag: U32,
        /// Reserved.
        pub rsvd296: [u8; 3800],
    }

    /// What the host specifies when it creates a namespace (Base 5.1.21 and NVM 4.1.6, "Namespace Management
    /// – Host Software Specified Fields"): the offsets are those of [`IdentifyNamespace`].
    pub struct NamespaceCreate[4096] {
        /// Namespace Size in logical blocks.
        pub nsze: U64,
        /// Namespace Capacity in logical blocks.
        pub ncap: U64,
        /// Reserved.
        pub rsvd16: [u8; 10],
        /// Formatted LBA Size.
        pub flbas: Flbas,
        /// Reserved.
        pub rsvd27: [u8; 2],
        /// End-to-end Data Protection Type Settings.
        pub dps: Dps,
        /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
        pub nmic: Nmic,
        /// Reserved.
        pub rsvd31: [u8; 61],
        /// ANA Group Identifier; 0 lets the controller choose.
        pub anagrpid: U32,
        /// Reserved.
        pub rsvd96: [u8; 4],
        /// NVM Set Identifier; 0 lets the controller choose.
        pub nvmsetid: U16,
        /// Endurance Group Identifier; 0 lets the controller choose.
        pub endgid: U16,
        /// Reserved.
        pub rsvd104: [u8; 280],
        /// Logical Block Storage Tag Mask.
        pub lbstm: U64,
        /// Number of Placement Handles.
        pub nphndls: U16,
        /// Reserved.
        pub rsvd394: [u8; 105],
        /// By the I/O command set: [`ZonedCreate`](super::ZonedCreate) for the Zoned Namespace Command Set.
        pub iocs: [u8; 13],
        /// Placement Handles.
        pub phndl: [U16; 128],
        /// Reserved.
        pub rsvd768: [u8; 3328],
    }

    /// Header of a Namespace Identification Descriptor (Base 5.1.13.2.3, CNS 03h); NID follows.
    pub struct NamespaceIdHeader[4] {
        /// Namespace Identifier Type.
        pub nidt: NamespaceIdType,
        /// Namespace Identifier Length in bytes.
        pub nidl: u8,
        /// Reserved.
        pub rsvd2: [u8; 2],
    }
}
layout!(
    IdentifyNamespace, 4096,
    nsfeat @ 24, flbas @ 26, dps @ 29, nmic @ 30, dlfeat @ 33, nawun_z @ 34, nawupf_z @ 36, noiob @ 46,
    nvmcap @ 48, npwg_z @ 64, mssrl @ 74, nulbaf @ 82, anagrpid @ 92, nsattr @ 99, nvmsetid @ 100,
    nguid @ 104, eui64 @ 120, lbaf @ 128, vs @ 384,
);
layout!(
    NamespaceCreate, 4096,
    flbas @ 26, dps @ 29, nmic @ 30, anagrpid @ 92, nvmsetid @ 100, lbstm @ 384, iocs @ 499, phndl @ 512,
);
layout!(IndependentNamespace, 4096, anagrpid @ 4, nsattr @ 8, nvmsetid @ 10, nstat @ 14);

open_enum! {
    /// Namespace Identifier Type (Base 5.1.13.2.3).
    pub struct NamespaceIdType: u8 {
        /// IEEE Extended Unique Identifier, 8 bytes.
        EUI64 = 1 => "IEEE Extended Unique Identifier",
        /// Namespace Globally Unique Identifier, 16 bytes.
        NGUID = 2 => "Namespace Globally Unique Identifier",
        /// Namespace UUID, 16 bytes.
        UUID = 3 => "Namespace UUID",
        /// Command Set Identifier, 1 byte.
        CSI = 4 => "Command Set Identifier",
    }
}

/// One entry of the Namespace Identification Descriptor list (Base 5.1.13.2.3, CNS 03h).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NamespaceIdDescriptor {
    /// IEEE Extended Unique Identifier.
    Eui64([u8; 8]),
    /// Namespace Globally Unique Identifier.
    Nguid([u8; 16]),
    /// Namespace UUID.
    Uuid([u8; 16]),
    /// Command Set Identifier.
    Csi(Csi),
}

impl NamespaceIdDescriptor {
    /// Writes the descriptors one behind another; the rest of the page becomes zero, which ends the list.
    /// Descriptors that do not fit are left out (one of each always fits).
    pub fn write_list(descriptors: &[Self], page: &mut [u8; crate::IDENTIFY_SIZE]) {
        page.fill(0);
        let mut at = 0;
        for descriptor in descriptors {
            let csi;
            let (kind, nid): (_, &[u8]) = match descriptor {
                Self::Eui64(id) => (NamespaceIdType::EUI64, id),
                Self::Nguid(id) => (NamespaceIdType::NGUID, id),
                Self::Uuid(id) => (NamespaceIdType::UUID, id),
                Self::Csi(id) => {
                    csi = [id.0];
                    (NamespaceIdType::CSI, &csi)
                }
            };
            let Some(room) = page.get_mut(at..at + 4 + nid.len()) else { return };
            room[0] = kind.0;
            room[1] = u8::try_from(nid.len()).unwrap_or(0);
            room[4..].copy_from_slice(nid);
            at += 4 + nid.len();
        }
    }

    /// Reads the descriptors of a page; ends at the list's end or at the first that makes no sense. Types
    /// that the crate does not know are skipped.
    pub fn read_list(page: &[u8]) -> impl Iterator<Item = Self> + '_ {
        let mut rest = page;
        core::iter::from_fn(move || {
            loop {
                let [nidt, nidl, _, _, tail @ ..] = rest else { return None };
                let nid = tail.get(..usize::from(*nidl)).filter(|nid| !nid.is_empty())?;
                rest = &tail[nid.len()..];
                let found = match NamespaceIdType(*nidt) {
                    NamespaceIdType::EUI64 => nid.try_into().ok().map(Self::Eui64),
                    NamespaceIdType::NGUID => nid.try_into().ok().map(Self::Nguid),
                    NamespaceIdType::UUID => nid.try_into().ok().map(Self::Uuid),
                    NamespaceIdType::CSI => Some(Self::Csi(Csi(nid[0]))),
                    _ => None,
                };
                if found.is_some() {
                    return found;
                }
            }
        })
    }
}

bits8! {
    /// Namespace Features (NVM 4.1.5.1).
    pub struct Nsfeat {
        /// Thin Provisioning.
        pub thinp: bool,
        /// Namespace Supported Atomic Boundary & Power: NAWUN, NAWUPF, NACWU are valid here.
        pub nsabp: bool,
        /// Deallocated or Unwritten Logical Block Error.
        pub dae: bool,
        /// NGUID and EUI64 are never reused.
        pub uidreuse: bool,
        /// Optimal performance fields: bit 0 NPWG, NPWA, NPDG, NPDA and NOWS are valid.
        #[bits(2)]
        pub optperf: u8,
        /// Multiple Atomicity Mode.
        pub mam: bool,
        /// NPRG, NPRA and NORS are valid.
        pub optrperf: bool,
    }

    /// Formatted LBA Size.
    pub struct Flbas {
        /// LBA format index, bits 3:0.
        #[bits(4)]
        pub fidxl: u8,
        /// Metadata is part of an extended data LBA.
        pub mtelba: bool,
        /// LBA format index, bits 5:4.
        #[bits(2)]
        pub fidxu: u8,
        #[bits(1)]
        _r7: u8,
    }

    /// End-to-end Data Protection Capabilities.
    pub struct Dpc {
        /// Type 1.
        pub pit1s: bool,
        /// Type 2.
        pub pit2s: bool,
        /// Type 3.
        pub pit3s: bool,
        /// Protection information in the first bytes of metadata.
        pub piifb: bool,
        /// Protection information in the last bytes of metadata.
        pub piilb: bool,
        #[bits(3)]
        _r5: u8,
    }

    /// End-to-end Data Protection Type Settings.
    pub struct Dps {
        /// Protection Information Type: 0 off, 1 to 3.
        #[bits(3)]
        pub pit: u8,
        /// Protection information in the first bytes of metadata, else in the last.
        pub pip: bool,
        #[bits(4)]
        _r4: u8,
    }

    /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
    pub struct Nmic {
        /// May be attached to two or more controllers at once.
        pub shrns: bool,
        /// Dispersed Namespace.
        pub disns: bool,
        #[bits(6)]
        _r2: u8,
    }

    /// Deallocate Logical Block Features.
    pub struct Dlfeat {
        /// What deallocated blocks read as: 0 not reported, 1 all 00h, 2 all FFh.
        #[bits(3)]
        pub drb: u8,
        /// Write Zeroes supports Deallocate.
        pub wzds: bool,
        /// The guard of deallocated blocks is the CRC of what they read as, else FFFFh.
        pub gds: bool,
        #[bits(3)]
        _r5: u8,
    }
}

impl Flbas {
    /// Index into the LBA formats: 0 to 63.
    #[must_use]
    pub const fn format_index(self) -> u8 {
        self.fidxu() << 4 | self.fidxl()
    }

    /// The field for an index of 0 to 63; upper bits are dropped.
    #[must_use]
    pub const fn from_format_index(index: u8) -> Self {
        Self::new().with_fidxl(index & 0xF).with_fidxu(index >> 4 & 3)
    }
}

/// Where the generation is among the vendor specific bytes of [`IdentifyNamespace`].
const GENERATION: core::ops::Range<usize> = 8..16;

impl IdentifyNamespace {
    /// The namespace's generation (vendor specific: bytes 392 to 399); 0 if the drive has none. It changes with each creation and each Format,
    /// also where NSID and NGUID stay. It means nothing beyond the drive's process.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.vs[GENERATION].try_into().map_or(0, u64::from_le_bytes)
    }

    /// Sets the [generation](IdentifyNamespace::generation).
    pub fn set_generation(&mut self, generation: u64) {
        self.vs[GENERATION].copy_from_slice(&generation.to_le_bytes());
    }

    /// The LBA format in use.
    #[must_use]
    pub fn format(&self) -> &LbaFormat {
        &self.lbaf[usize::from(self.flbas.format_index())]
    }
}

impl LbaFormat {
    /// A format with 2 to `lbads` bytes of data and `ms` bytes of metadata per block, best performance.
    #[must_use]
    pub fn new(lbads: u8, ms: u16) -> Self {
        Self { ms: U16::new(ms), lbads, rp: 0 }
    }

    /// Bytes of data per logical block; `None` when the format is unavailable or out of range.
    #[must_use]
    pub fn data_bytes(&self) -> Option<u32> {
        if self.lbads < 9 { None } else { 1u32.checked_shl(u32::from(self.lbads)) }
    }
}
