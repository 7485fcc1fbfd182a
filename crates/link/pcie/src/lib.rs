//! An NVMe controller as a PCI Express function, without I/O: configuration space, registers, doorbells, queues, data pointers and
//! interrupts as one state machine.
//!
//! Accesses of the host go in ([`Function::read_config`], [`Function::write_config`], [`Function::read_bar`], [`Function::write_bar`]).
//! Commands and requests come out ([`Function::poll`]); answers go in ([`Function::respond`]); interrupts come out
//! ([`Function::take_interrupts`]). The caller carries them: over vfio-user, or in a test. It also has the controller itself, which knows
//! nothing of PCI: it gets [`Request::Enable`], [`Request::Reset`] and the like, and commands that are not the transport's.
//!
//! Sources: *NVM Express Base Specification, Revision 2.1* ("Base"); *NVM Express NVMe over PCIe Transport Specification, Revision 1.1*;
//! *PCI Express Base Specification, Revision 5.0* ("PCIe").
//!
//! - **Guest memory** ([`GuestMemory`]) is hostile: unmapped, wrapping, overlapping, changing. Each queue entry, list entry and byte of
//!   data is read once. Unmapped data and lists cause a Data Transfer Error, unmapped queues a Controller Fatal Status.
//! - **Work is bounded.** One call of [`Function::poll`] fetches one command. A list that leads to itself ends. A completion queue that the
//!   host does not empty stops its submission queues.
//! - **Commands of the transport** are executed here: Create and Delete of I/O queues, Doorbell Buffer Config, and the features
//!   Interrupt Coalescing (08h) and Interrupt Vector Configuration (09h). Of the controller's answers to Number of Queues (07h) and
//!   Arbitration (01h) the function learns.
//! - **A reset** ends when no command is in flight: afterwards nothing is read from or written to the memory that was used before.
//!
//! Not here: controller memory buffer, persistent memory region, host memory buffer, virtual functions, MSI.

mod admin;
mod arbitration;
mod config_space;
mod data;
mod function;
mod fuzz;
mod identify;
mod interrupts;
mod layout;
mod memory;
#[cfg(test)]
mod metadata_model;
#[cfg(test)]
mod model;
mod msix;
mod prp;
mod queue;
mod queues;
mod ram;
mod registers;
#[cfg(test)]
mod rig;
mod segment;
mod sgl;
mod slots;
#[cfg(test)]
mod tests;

pub use config_space::{CONFIG_SPACE_BYTES, PciIdentity};
pub use function::{EnabledValues, Function, FunctionConfig, Incoming, Request, Step};
pub use fuzz::fuzz;
pub use layout::{BarLayout, MAX_QUEUE_PAIRS, MAX_STRIDE, MAX_VECTORS};
pub use memory::{Bus, GuestMemory, Unmapped};
pub use msix::{MsixMessage, MsixTableOwner};
pub use sgl::MAX_SGL_DESCRIPTORS;
pub use slots::{CommandTag, StaleTag};
