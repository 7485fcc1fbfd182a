//! The studies: each repeats a published experiment, and has the published result beside ours.
//!
//! A study is a directory with plain `Options` and `run`, which takes a [`Control`](lab_report::control::Control) and returns
//! [`Findings`](lab_report::Findings). No study imports another: what several use is in [`layouts`], or in the rooms below.

pub mod cache;
pub mod doublewrite;
pub mod filesystem;
mod layouts;
pub mod namespaces;
pub mod oltp;
pub mod powercut;
pub mod quota;
pub mod zoned;
