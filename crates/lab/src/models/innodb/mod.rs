//! An InnoDB server ([`workload::innodb`]) on a drive in virtual time, as the published one was.
//!
//! - [`Server`] and [`ServerTuning`] are its settings, and [`run()`] runs one.
//! - [`Variant`] is where its doublewrite buffer is, and [`drive`] makes the drive for that.
//! - [`fitted`] has the values that no source tells.

pub(crate) mod drive;
pub(crate) mod figures;
pub(crate) mod fitted;
mod live;
mod run;
mod settings;
mod variant;

pub(crate) use self::{
    live::REDO_MIB,
    run::{SETTLED, ServerDrive},
    settings::{AGING, DEFAULT_PROFILE, ServerLoad, WINDOWS},
};
pub use self::{
    run::run,
    settings::{Model as Server, Tuning as ServerTuning},
    variant::{Family, Variant},
};

/// Threads, tpmC with the doublewrite buffer on the NAND namespace, and on the DRAM namespace.
pub const THROUGHPUT: [(u64, f64, f64); 5] = [
    (4, 9_505.272, 10_814.7),
    (8, 15_678.145, 18_124.768),
    (16, 23_205.877, 27_210.906),
    (32, 29_988.883, 39_297.746),
    (64, 31_138.277, 42_189.027),
];
