//! Zoned namespaces: CNS 05h and 06h of the Zoned Namespace Command Set, and what a zoned namespace is created from.

use super::NamespaceCreate;
use crate::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

wire! {
    /// Identify Namespace data structure specific to the Zoned Namespace Command Set (ZNS, "I/O Command Set Specific Identify
    /// Namespace Data Structure", CNS 05h, CSI 02h). Limits of recommendations are in seconds; 0 does not report one.
    pub struct ZonedNamespace[4096] {
        /// Zone Operation Characteristics.
        pub zoc: Zoc,
        /// Optional Zoned Command Support.
        pub ozcs: Ozcs,
        /// Maximum Active Resources, zero-based; FFFFFFFFh is no limit. See [`ZonedNamespace::max_active`].
        pub mar_z: U32,
        /// Maximum Open Resources, zero-based; FFFFFFFFh is no limit. See [`ZonedNamespace::max_open`].
        pub mor_z: U32,
        /// Reset Recommended Limit.
        pub rrl: U32,
        /// Finish Recommended Limit.
        pub frl: U32,
        /// Reset Recommended Limit 1.
        pub rrl1: U32,
        /// Reset Recommended Limit 2.
        pub rrl2: U32,
        /// Reset Recommended Limit 3.
        pub rrl3: U32,
        /// Finish Recommended Limit 1.
        pub frl1: U32,
        /// Finish Recommended Limit 2.
        pub frl2: U32,
        /// Finish Recommended Limit 3.
        pub frl3: U32,
        /// Number of ZRWA Resources, zero-based; meaningless without ZRWA.
        pub numzrwa_z: U32,
        /// ZRWA Flush Granularity in logical blocks.
        pub zrwafg: U16,
        /// ZRWA Size in logical blocks.
        pub zrwas: U16,
        /// ZRWA Capability.
        pub zrwacap: Zrwacap,
        /// Reserved.
        pub rsvd53: [u8; 2763],
        /// LBA Format Extensions, by the index of the LBA format.
        pub lbafe: [LbaFormatExtension; 64],
        /// Vendor Specific.
        pub vs: [u8; 256],
    }

    /// LBA Format Extension (ZNS, "LBA Format Extension Data Structure").
    pub struct LbaFormatExtension[16] {
        /// Zone Size in logical blocks.
        pub zsze: U64,
        /// Zone Descriptor Extension Size in units of 64 bytes; 0: there are no extensions.
        pub zdes: u8,
        /// Reserved.
        pub rsvd9: [u8; 7],
    }

    /// Identify Controller data structure of the Zoned Namespace Command Set (ZNS, "I/O Command Set Specific Identify Controller
    /// Data Structure", CNS 06h, CSI 02h).
    pub struct ZonedController[4096] {
        /// Zone Append Size Limit: 2 to this, in units of CAP.MPSMIN; 0: as MDTS.
        pub zasl: u8,
        /// Reserved.
        pub rsvd1: [u8; 4095],
    }

    /// What the host specifies for a zoned namespace when it creates one (ZNS, "Namespace Management"): bytes 499 to 511 of
    /// [`NamespaceCreate`].
    pub struct ZonedCreate[13] {
        /// Zoned Namespace Create Options.
        pub znsco: Znsco,
        /// Requested Active Resources.
        pub rar: U32,
        /// Requested Open Resources.
        pub ror: U32,
        /// Requested Number of ZRWA Resources; meaningless without AZR.
        pub rnumzrwa: U32,
    }
}
layout!(
    ZonedNamespace, 4096,
    mar_z @ 4, mor_z @ 8, rrl @ 12, frl @ 16, rrl1 @ 20, frl1 @ 32, numzrwa_z @ 44, zrwafg @ 48, zrwas @ 50,
    zrwacap @ 52, lbafe @ 2816, vs @ 3840,
);
layout!(LbaFormatExtension, 16, zdes @ 8);
layout!(ZonedCreate, 13, rar @ 1, ror @ 5, rnumzrwa @ 9);

bits16! {
    /// Zone Operation Characteristics. Linux refuses namespaces where either is set.
    pub struct Zoc {
        /// Variable Zone Capacity: the capacity of a zone may change when it is reset.
        pub vzcap: bool,
        /// Zone Active Excursions: the controller may finish an active zone by itself.
        pub zae: bool,
        #[bits(14)]
        _r2: u16,
    }

    /// Optional Zoned Command Support.
    pub struct Ozcs {
        /// Read Across Zone Boundaries.
        pub razb: bool,
        /// Zone Random Write Area Supported.
        pub zrwasup: bool,
        #[bits(14)]
        _r2: u16,
    }
}

bits8! {
    /// ZRWA Capability.
    pub struct Zrwacap {
        /// Explicit ZRWA Flush Operations Supported.
        pub expflushsup: bool,
        #[bits(7)]
        _r1: u8,
    }

    /// Zoned Namespace Create Options.
    pub struct Znsco {
        /// Allocate ZRWA Resources.
        pub azr: bool,
        #[bits(7)]
        _r1: u8,
    }
}

/// A zero-based number of resources that is no limit.
const UNLIMITED: u32 = u32::MAX;

fn limit(zero_based: U32) -> Option<u32> {
    let resources = zero_based.get();
    (resources != UNLIMITED).then(|| resources.saturating_add(1))
}

fn zero_based(limit: Option<u32>) -> U32 {
    U32::new(limit.map_or(UNLIMITED, |resources| resources.saturating_sub(1)))
}

impl ZonedNamespace {
    /// How many zones may be active at once, 1 or more; `None` without limit.
    #[must_use]
    pub fn max_active(&self) -> Option<u32> {
        limit(self.mar_z)
    }

    /// How many zones may be open at once, 1 or more; `None` without limit.
    #[must_use]
    pub fn max_open(&self) -> Option<u32> {
        limit(self.mor_z)
    }

    /// How many zones may have a Zone Random Write Area at once; 0 without ZRWA.
    #[must_use]
    pub fn zrwa_resources(&self) -> u32 {
        if self.ozcs.zrwasup() { self.numzrwa_z.get().saturating_add(1) } else { 0 }
    }

    /// Sets how many zones may be active at once, 1 or more; `None` without limit.
    pub fn set_max_active(&mut self, zones: Option<u32>) {
        self.mar_z = zero_based(zones);
    }

    /// Sets how many zones may be open at once, 1 or more; `None` without limit.
    pub fn set_max_open(&mut self, zones: Option<u32>) {
        self.mor_z = zero_based(zones);
    }

    /// Sets how many zones may have a Zone Random Write Area at once, and that there are such areas; 0 for none.
    pub fn set_zrwa_resources(&mut self, zones: u32) {
        self.ozcs.set_zrwasup(zones > 0);
        self.numzrwa_z.set(zones.saturating_sub(1));
    }
}

impl LbaFormatExtension {
    /// Zones of so many logical blocks, whose descriptors have extensions of `zdes` times 64 bytes.
    #[must_use]
    pub fn new(zsze: u64, zdes: u8) -> Self {
        Self { zsze: U64::new(zsze), zdes, ..Self::default() }
    }

    /// Bytes of a Zone Descriptor Extension.
    #[must_use]
    pub const fn extension_bytes(&self) -> u32 {
        self.zdes as u32 * 64
    }
}

impl NamespaceCreate {
    /// What it says of zones, if the namespace to be created is zoned.
    #[must_use]
    pub fn zoned(&self) -> ZonedCreate {
        ZonedCreate::read_from_bytes(&self.iocs).unwrap_or_default()
    }

    /// Says this of zones.
    pub fn set_zoned(&mut self, zoned: &ZonedCreate) {
        self.iocs.copy_from_slice(zoned.as_bytes());
    }
}
