//! Devices of virtual machines over vfio-user: the socket of a device, and memory of its guest.
//!
//! - [`serve`] runs the socket on a thread of its own, and passes messages on.
//! - [`GuestMap`] is guest memory, mapped from the files that a client passes. It is a [`pcie::GuestMemory`].
//! - [`Driver`] is the other side: a guest's driver of an NVMe function.
//!
//! Not here: the device itself; doorbells and registers that a client maps; migration; guest memory that a client only lends by messages.

mod driver;
mod fault_guard;
mod guest_map;
mod server;

pub use driver::{DeviceAccess, Driver, MEMORY_BYTES, create_queues};
pub use guest_map::{GuestMap, MAX_MAPPINGS, MapAccess};
pub use server::{
    Answer, ClientLink, ClientMessage, DeviceShape, InterruptChange, InterruptKind, Space, serve,
};
