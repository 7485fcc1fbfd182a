//! Identify data structures (Base 5.1.13, NVM 4.1.5), all of 4096 bytes, by the CNS that asks for them.

mod controller;
mod lists;
mod namespace;
mod zoned;

pub use controller::*;
pub use lists::*;
pub use namespace::*;
pub use zoned::*;

open_enum! {
    /// Controller or Namespace Structure (Base 5.1.13.1, "CNS Values").
    pub struct Cns: u8 {
        /// [`IdentifyNamespace`] of an attached namespace; FFFFFFFFh for what all have in common.
        NAMESPACE = 0x00 => "Identify Namespace data structure",
        /// [`IdentifyController`].
        CONTROLLER = 0x01 => "Identify Controller data structure",
        /// [`NamespaceList`] of the attached namespaces with an NSID above the command's.
        ACTIVE_NAMESPACES = 0x02 => "Active Namespace ID list",
        /// A sequence of [`NamespaceIdDescriptor`].
        NAMESPACE_DESCRIPTORS = 0x03 => "Namespace Identification Descriptor list",
        /// [`NvmSetList`] from the NVM Set in CNSSID on.
        NVM_SETS = 0x04 => "NVM Set List",
        /// I/O command set specific namespace: [`NvmNamespace`] for the NVM Command Set, [`ZonedNamespace`] for the
        /// Zoned Namespace Command Set.
        IOCS_NAMESPACE = 0x05 => "I/O Command Set specific Identify Namespace data structure",
        /// I/O command set specific controller: [`NvmController`] for the NVM Command Set, [`ZonedController`] for the
        /// Zoned Namespace Command Set.
        IOCS_CONTROLLER = 0x06 => "I/O Command Set specific Identify Controller data structure",
        /// [`NamespaceList`] of the attached namespaces of one I/O command set.
        IOCS_ACTIVE_NAMESPACES = 0x07 => "I/O Command Set specific Active Namespace ID list",
        /// [`IndependentNamespace`].
        INDEPENDENT_NAMESPACE = 0x08 => "I/O Command Set Independent Identify Namespace data structure",
        /// [`IdentifyNamespace`] of one LBA format (user data format index in CNSSID).
        NAMESPACE_FORMAT = 0x09 => "Namespace capabilities of a User Data Format",
        /// [`NvmNamespace`] of one LBA format (user data format index in CNSSID).
        IOCS_NAMESPACE_FORMAT = 0x0A => "I/O Command Set specific capabilities of a User Data Format",
        /// [`NamespaceList`] of all namespaces of the subsystem with an NSID above the command's.
        ALLOCATED_NAMESPACES = 0x10 => "Allocated Namespace ID list",
        /// [`IdentifyNamespace`] of an allocated namespace, attached or not.
        ALLOCATED_NAMESPACE = 0x11 => "Identify Namespace data structure of an allocated NSID",
        /// [`ControllerList`] of the controllers that the namespace is attached to, from CNTID on.
        NAMESPACE_CONTROLLERS = 0x12 => "Controller List of a namespace",
        /// [`ControllerList`] of the subsystem's controllers, from CNTID on.
        CONTROLLERS = 0x13 => "Controller List",
        /// Primary Controller Capabilities.
        PRIMARY_CONTROLLER = 0x14 => "Primary Controller Capabilities data structure",
        /// Secondary Controller list.
        SECONDARY_CONTROLLERS = 0x15 => "Secondary Controller list",
        /// [`NamespaceGranularityList`].
        NAMESPACE_GRANULARITY = 0x16 => "Namespace Granularity List",
        /// [`UuidList`].
        UUIDS = 0x17 => "UUID List",
        /// Domain List.
        DOMAINS = 0x18 => "Domain List",
        /// [`EnduranceGroupList`] from the Endurance Group in CNSSID on.
        ENDURANCE_GROUPS = 0x19 => "Endurance Group List",
        /// [`NamespaceList`] of all namespaces of one I/O command set.
        IOCS_ALLOCATED_NAMESPACES = 0x1A => "I/O Command Set specific Allocated Namespace ID list",
        /// I/O command set specific namespace of an allocated namespace.
        IOCS_ALLOCATED_NAMESPACE = 0x1B => "I/O Command Set specific Identify Namespace of an allocated NSID",
        /// [`IoCommandSets`].
        IO_COMMAND_SETS = 0x1C => "I/O Command Set data structure",
        /// [`IndependentNamespace`] of an allocated namespace.
        INDEPENDENT_ALLOCATED_NAMESPACE = 0x1F => "I/O Command Set Independent Identify Namespace of an allocated NSID",
    }
}
