//! An InnoDB server ([`database_models::innodb`]) on a drive in virtual time, as the published one was.
//!
//! - [`Server`] and [`ServerTuning`] are its settings, and [`run()`] runs one.
//! - [`Variant`] is where its doublewrite buffer is, and [`drive`] makes the drive for that.
//! - [`fitted`] has the values that no source tells.

pub mod drive;
pub mod figures;
pub mod fitted;
mod live;
mod published;
mod run;
mod settings;
mod variant;

pub use self::{
    live::REDO_MIB,
    published::THROUGHPUT,
    run::{SETTLED_PERCENT, ServerDrive},
    settings::{AGING_SECONDS, DEFAULT_PROFILE, ServerLoad, WINDOWS},
};
pub use self::{
    run::run,
    settings::{Model as Server, Tuning as ServerTuning},
    variant::{Family, Variant},
};
