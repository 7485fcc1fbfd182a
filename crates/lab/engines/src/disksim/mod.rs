//! `tranche profile check --disksim`: a model of a disk beside measured requests of a real one.
//!
//! [`params`] reads the grammar of DiskSim's parameter files, [`spec`] makes a model of them, [`trace`] reads what was measured, and
//! [`check`] puts the trace to the model as the files state it.

pub mod check;
mod figures;
mod layout;
mod params;
mod seeks;
mod spec;
mod trace;

#[cfg(test)]
mod tests;
