//! The chips under a drive: NAND, DRAM and persistent memory as state machines.
//!
//! A medium knows its rules (what may be programmed when), its timing (which resources an operation
//! occupies and for how long) and its wear. A durable one also knows what each page holds: the *spare*
//! area with the logical page, its version and a handle ([`Slot`]) to the contents. The contents
//! themselves live elsewhere, and a medium never copies a byte. It performs no I/O and reads no clock:
//! the current time is an argument, the end of an operation a result.
//!
//! A medium checks the rules of the chip. Breaking one is a bug of the translation layer and
//! panics (idea 3 of the design). It does not check addresses of hosts: the controller does.
//! Replayed and saved state comes from files, so it is checked and refused with a [`StateError`].
//!
//! Not modelled: read disturb and retention, copy-back within a die, multi-page cache reads (a plane may
//! sense again while its last page is still being transferred).

mod config;
pub mod conformance;
pub mod disk;
mod divide;
pub mod fault;
pub mod memory;
pub mod nand;
mod state;
pub mod tables;
pub mod time;
pub mod types;

pub use config::ConfigError;
pub use divide::Divisor;
pub use fault::{FaultPlan, Faulty};
pub use memory::{Memory, MemoryConfig, MemoryKind};
pub use nand::{Cell, DieTimes, Nand, NandConfig, NandTiming, Sense};
pub use rng::Rng;
pub use state::StateError;
pub use time::{Events, Nanos, Timeline};
pub use types::{BlockState, Geometry, LogicalPage, OpStatus, Page, Progress, Read, Slot, Spare, Unit};

/// The contract that every medium fulfils, and the fault wrapper too (see the `conformance` module).
///
/// Times never go backwards: `now` of a call is at least that of the call before. Operations are
/// *reserved* when they are asked for: the returned time already counts the queues of the die, plane
/// and channel. The end of a program or an erase is provisional: a later read may suspend it and so postpone
/// its end. So the owner asks [`poll_program`](Medium::poll_program) when that time has come.
pub trait Medium {
    /// Shape and rules of the medium.
    fn geometry(&self) -> &Geometry;

    /// Reads `count` consecutive pages that lie in one sense (see [`Geometry::sense_pages`]; media written
    /// in place: any number), and says when they are in the controller. Reading pages whose program is
    /// still under way is timed like any other read; the data are in the translation layer's buffer.
    fn read(&mut self, now: Nanos, first: Page, count: u32) -> Read;

    /// Programs one whole unit (NAND) or `spares.len()` pages from the unit's first page (media that
    /// are written in place). Returns the provisional end.
    ///
    /// # Panics
    /// If the medium's rules are broken: a NAND unit out of order in its block, or not erased before.
    fn program(&mut self, now: Nanos, unit: Unit, spares: &[Spare]) -> Nanos;

    /// Asks whether the program of `unit` that was to end by `now` has ended, and how.
    fn poll_program(&mut self, now: Nanos, unit: Unit) -> Progress;

    /// Erases the block that holds `unit` (any of its units); returns the provisional end.
    /// Spare areas of its pages are gone from now on.
    fn erase(&mut self, now: Nanos, unit: Unit) -> Nanos;

    /// Asks whether the erase of the block that holds `unit` has ended, and how.
    fn poll_erase(&mut self, now: Nanos, unit: Unit) -> Progress;

    /// The spare area of a programmed page.
    /// [`LogicalPage::NONE`] if it was never programmed, is padding, or was torn.
    fn spare(&self, page: Page) -> Spare;

    /// The contents that the spare area names: one table to visit instead of three.
    fn slot(&self, page: Page) -> Slot;

    /// Program/erase cycles that the block of `unit` has seen.
    fn wear(&self, unit: Unit) -> u32;

    /// Whether the block of `unit` must no longer be used.
    fn is_bad(&self, unit: Unit) -> bool;

    /// What may be done with the block of `unit`, and how far it is programmed.
    fn block(&self, unit: Unit) -> BlockState;

    /// Power is lost at `now`: programs in flight, begun or queued, are torn (all their pages
    /// unreadable), erases in flight leave an unreadable block that must be erased again, timelines are
    /// empty afterwards. Media that are written in place keep what they accepted and tear nothing.
    fn power_cut(&mut self, now: Nanos);

    /// Replays a program that ended well: sets the spare areas, takes no time.
    ///
    /// # Errors
    /// If the unit or its pages are not on the medium (as for the other replays).
    fn apply_program(&mut self, unit: Unit, spares: &[Spare]) -> Result<(), StateError>;

    /// Replays a program that failed or was torn: the unit counts as programmed and cannot be read.
    ///
    /// # Errors
    /// As for [`apply_program`](Medium::apply_program).
    fn apply_spoil(&mut self, unit: Unit) -> Result<(), StateError>;

    /// Replays the erase of the block that holds `unit`; it counts as a cycle.
    ///
    /// # Errors
    /// As for [`apply_program`](Medium::apply_program).
    fn apply_erase(&mut self, unit: Unit) -> Result<(), StateError>;

    /// The block that holds `unit` is bad from now on: it can be read, but not programmed, and its
    /// erase fails. This is also how the translation layer retires a block.
    ///
    /// # Errors
    /// As for [`apply_program`](Medium::apply_program).
    fn apply_bad(&mut self, unit: Unit) -> Result<(), StateError>;

    /// Appends the non-volatile state: what a power cut now would leave, little endian.
    fn save(&self, out: &mut Vec<u8>);
}
