//! Lists that Identify returns, and that Namespace Attachment takes.

use crate::{U16, U32, U64, U128};

wire! {
    /// Namespace List (Base 4.4.2): ascending NSIDs, zero after the last.
    pub struct NamespaceList[4096] {
        /// The NSIDs.
        pub nsid: [U32; 1024],
    }

    /// Controller List (Base 4.4.1): ascending controller IDs.
    pub struct ControllerList[4096] {
        /// Number of identifiers, 0 to 2047.
        pub num: U16,
        /// The controller IDs.
        pub cntlid: [U16; 2047],
    }

    /// Endurance Group List (Base 5.1.13.2.17, CNS 19h): ascending identifiers.
    pub struct EnduranceGroupList[4096] {
        /// Number of identifiers, 0 to 2047.
        pub num: U16,
        /// The Endurance Group Identifiers.
        pub endgid: [U16; 2047],
    }

    /// NVM Set List (Base 5.1.13.2.4, CNS 04h): ascending by identifier.
    pub struct NvmSetList[4096] {
        /// Number of entries, 0 to 31.
        pub num: u8,
        /// Reserved.
        pub rsvd1: [u8; 127],
        /// The entries.
        pub entry: [NvmSetAttributes; 31],
    }

    /// NVM Set Attributes Entry (Base 5.1.13.2.4).
    pub struct NvmSetAttributes[128] {
        /// NVM Set Identifier.
        pub nvmsetid: U16,
        /// Endurance Group Identifier.
        pub endgid: U16,
        /// Reserved.
        pub rsvd4: [u8; 4],
        /// Random 4 KiB Read Typical in units of 100 ns; 0 not reported.
        pub r4krt: U32,
        /// Optimal Write Size in bytes; 0 not reported.
        pub ows: U32,
        /// Total NVM Set Capacity in bytes.
        pub tnvmsetcap: U128,
        /// Unallocated NVM Set Capacity in bytes.
        pub unvmsetcap: U128,
        /// Reserved.
        pub rsvd48: [u8; 80],
    }

    /// Namespace Granularity List (NVM 4.1.5.6, CNS 16h).
    pub struct NamespaceGranularityList[4096] {
        /// Namespace Granularity Attributes: bit 0 one descriptor per LBA format, else the first for all.
        pub nga: U32,
        /// Number of Descriptors, zero-based.
        pub nod_z: u8,
        /// Reserved.
        pub rsvd5: [u8; 27],
        /// The descriptors.
        pub entry: [NamespaceGranularity; 16],
        /// Reserved.
        pub rsvd288: [u8; 3808],
    }

    /// Namespace Granularity Descriptor (NVM 4.1.5.6), in bytes; 0 not reported.
    pub struct NamespaceGranularity[16] {
        /// Namespace Size Granularity.
        pub nsg: U64,
        /// Namespace Capacity Granularity.
        pub ncg: U64,
    }

    /// UUID List (Base 5.1.13.2.15, CNS 17h).
    pub struct UuidList[4096] {
        /// Reserved.
        pub rsvd0: [u8; 32],
        /// The entries; the first of all zeroes ends the list. UUID Index n is entry n - 1.
        pub entry: [UuidEntry; 127],
    }

    /// UUID List Entry (Base 5.1.13.2.15).
    pub struct UuidEntry[32] {
        /// Bits 1:0 Identifier Association: 0 none, 1 PCI vendor, 2 PCI subsystem vendor.
        pub header: u8,
        /// Reserved.
        pub rsvd1: [u8; 15],
        /// The UUID, big endian.
        pub uuid: [u8; 16],
    }

    /// Identify I/O Command Set data structure (Base 5.1.13.2.20, CNS 1Ch).
    pub struct IoCommandSets[4096] {
        /// Combinations that may be selected: bit n stands for CSI n; zero after the last.
        pub iocsc: [U64; 512],
    }
}
layout!(NvmSetAttributes, 128, r4krt @ 8, tnvmsetcap @ 16, unvmsetcap @ 32);
layout!(NvmSetList, 4096, entry @ 128);
layout!(NamespaceGranularityList, 4096, entry @ 32);

impl NamespaceList {
    /// The list of the first 1,024 of these NSIDs, which must ascend.
    pub fn new(nsids: impl IntoIterator<Item = crate::Nsid>) -> Self {
        let mut list = Self::default();
        for (entry, nsid) in list.nsid.iter_mut().zip(nsids) {
            entry.set(nsid);
        }
        list
    }

    /// The NSIDs up to the first zero.
    pub fn iter(&self) -> impl Iterator<Item = crate::Nsid> + '_ {
        self.nsid.iter().map(|nsid| nsid.get()).take_while(|nsid| *nsid != 0)
    }
}

macro_rules! counted_list {
    ($name:ident, $field:ident, $what:literal) => {
        impl $name {
            #[doc = concat!("The list of the first 2,047 of these ", $what, ", which must ascend.")]
            pub fn new(ids: impl IntoIterator<Item = u16>) -> Self {
                let mut list = Self::default();
                let mut num = 0;
                for (entry, id) in list.$field.iter_mut().zip(ids) {
                    entry.set(id);
                    num += 1;
                }
                list.num.set(num);
                list
            }

            #[doc = concat!("The ", $what, "; `num` is not trusted beyond the list's size.")]
            pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
                self.$field.iter().take(usize::from(self.num.get())).map(|id| id.get())
            }
        }
    };
}
counted_list!(ControllerList, cntlid, "controller IDs");
counted_list!(EnduranceGroupList, endgid, "Endurance Group Identifiers");

impl UuidList {
    /// The list of the first 127 of these UUIDs, none of which may be zero; no vendor is associated with them.
    pub fn new(uuids: impl IntoIterator<Item = [u8; 16]>) -> Self {
        let mut list = Self::default();
        for (entry, uuid) in list.entry.iter_mut().zip(uuids) {
            entry.uuid = uuid;
        }
        list
    }

    /// The UUID Index of a UUID, from 1; `None` if it is not in the list.
    #[must_use]
    pub fn index(&self, uuid: &[u8; 16]) -> Option<u8> {
        let used = self.entry.iter().take_while(|e| e.uuid != [0; 16]);
        let at = used.into_iter().position(|e| e.uuid == *uuid)?;
        u8::try_from(at + 1).ok()
    }
}

impl NvmSetList {
    /// The list of the first 31 of these entries, which must ascend by identifier.
    pub fn new(entries: impl IntoIterator<Item = NvmSetAttributes>) -> Self {
        let mut list = Self::default();
        for (slot, entry) in list.entry.iter_mut().zip(entries) {
            *slot = entry;
            list.num += 1;
        }
        list
    }

    /// The entries; `num` is not trusted beyond the list's size.
    #[must_use]
    pub fn entries(&self) -> &[NvmSetAttributes] {
        &self.entry[..usize::from(self.num).min(self.entry.len())]
    }
}
