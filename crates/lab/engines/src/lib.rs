//! Engines of the laboratory: they load a drive and measure it.
//!
//! - [`mod@bench`] loads any drive in wall-clock time.
//! - [`sim`] loads a drive in virtual time.
//! - [`stage`] has several hosts on one drive, by either clock.
//! - [`machine`] is a host with its drives and the paths to them, in virtual time.
//! - [`sweep`] repeats a run or a study with other values.
//! - [`datasheet`] compares a drive with its data sheet.
//! - [`fit`] makes a profile of a device.
//! - [`disksim`] compares the model of a disk with measured requests.

pub mod bench;
pub mod datasheet;
pub mod disksim;
pub mod fit;
pub mod machine;
pub mod sim;
pub mod stage;
pub mod sweep;
