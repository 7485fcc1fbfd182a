//! Engines of the laboratory: what puts a load on a drive, and measures.
//!
//! - [`mod@bench`] is the load generator, for any drive and the wall's clock; [`sim`] is the same on a drive in virtual time.
//! - [`stage`] has several hosts on one drive, by either clock; [`machine`] is a host with its drives and the way to them, in virtual time.
//! - [`sweep`] repeats a run or a study with other values.
//! - [`datasheet`] holds a drive against what its maker states, [`fit`] makes a profile of a device, and [`disksim`] holds the model of a disk against
//!   measured requests of a real one.

pub mod bench;
pub mod datasheet;
pub mod disksim;
pub mod fit;
pub mod machine;
pub mod sim;
pub mod stage;
pub mod sweep;
