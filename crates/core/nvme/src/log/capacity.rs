//! Supported Capacity Configuration List log (Base 5.1.12.1.17, LID 11h): a tree of descriptors that follow one another.

use crate::{U16, U128};

wire! {
    /// Header of the log.
    pub struct CapacityConfigurationList[16] {
        /// Number of Supported Capacity Configurations: [`CapacityConfiguration`]s that follow.
        pub sccn: u8,
        /// Reserved.
        pub rsvd1: [u8; 15],
    }

    /// Capacity Configuration Descriptor.
    pub struct CapacityConfiguration[32] {
        /// Capacity Configuration Identifier.
        pub ccid: U16,
        /// Domain Identifier; 0 without domains.
        pub did: U16,
        /// Number of Endurance Group Configuration Descriptors that follow.
        pub egcn: U16,
        /// Reserved.
        pub rsvd6: [u8; 26],
    }

    /// Endurance Group Configuration Descriptor. Its NVM Set Identifiers follow, then the number of its channels, then
    /// [`ChannelConfiguration`]s.
    pub struct EnduranceGroupConfiguration[82] {
        /// Endurance Group Identifier.
        pub endgid: U16,
        /// Capacity Adjustment Factor.
        pub caf: U16,
        /// Reserved.
        pub rsvd4: [u8; 12],
        /// Total Endurance Group Capacity in bytes.
        pub tegcap: U128,
        /// Spare Endurance Group Capacity in bytes.
        pub segcap: U128,
        /// Endurance Estimate: total 10^9 bytes that may be written at a write amplification of 1.
        pub endurance_estimate: U128,
        /// Reserved.
        pub rsvd64: [u8; 16],
        /// Number of NVM Sets.
        pub egsets: U16,
    }

    /// Channel Configuration Descriptor, before its [`MediaUnitConfiguration`]s.
    pub struct ChannelConfiguration[4] {
        /// Channel Identifier.
        pub chanid: U16,
        /// Number of Channel Media Units.
        pub chmus: U16,
    }

    /// Media Unit Configuration Descriptor.
    pub struct MediaUnitConfiguration[8] {
        /// Media Unit Identifier.
        pub muid: U16,
        /// Reserved.
        pub rsvd2: [u8; 4],
        /// Media Unit Descriptor Length: bytes that follow.
        pub mudl: U16,
    }
}
layout!(EnduranceGroupConfiguration, 82, tegcap @ 16, segcap @ 32, endurance_estimate @ 48, egsets @ 80);
