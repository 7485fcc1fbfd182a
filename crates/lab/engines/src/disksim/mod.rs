//! `tranche profile check --disksim`: compares the model of a disk with measured requests of the real disk.
//!
//! - [`params`] reads DiskSim's parameter files.
//! - [`spec`] makes a model as the files state it.
//! - [`trace`] reads measured requests.
//! - [`check`] gives the requests to the model.

pub mod check;
mod figures;
mod layout;
mod params;
mod seeks;
mod spec;
mod trace;

#[cfg(test)]
mod tests;
