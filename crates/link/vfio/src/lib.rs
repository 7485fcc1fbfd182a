//! Devices of virtual machines over vfio-user: the socket of a device, and memory of its guest.
//!
//! - [`serve`] runs the socket on a thread of its own, and passes messages on.
//! - [`GuestMap`] is guest memory, mapped from the files that a client passes. It is a [`pcie::GuestMemory`].
//! - [`PciDevice`] is the other side: a device that this process drives, over a [`Client`]. [`QueuePair`] has the entries of its queues.
//! - [`Driver`] is a small driver for tests.
//!
//! Not here: the device itself; migration; guest memory that a client only lends by messages.

mod client;
mod driver;
mod fault_guard;
mod guest_map;
mod pci_device;
mod rings;
mod server;

pub use client::{Client, MappableArea, RegionInfo};
pub use driver::{DeviceAccess, Driver, MEMORY_BYTES, create_queues};
pub use guest_map::{GuestMap, MAX_MAPPINGS, MapAccess};
pub use pci_device::{Doorbell, LentMemory, PAGE_BYTES, PciDevice};
pub use pcie::{GuestMemory, Unmapped};
pub use rings::{CQE_BYTES, QueuePair, SQE_BYTES};
pub use server::{
    Answer, ClientLink, ClientMessage, DeviceShape, InterruptChange, InterruptKind, Space, serve,
};
