//! A drive with several hosts that put loads on it at the same time, live or in virtual time.
//!
//! The same jobs ([`load_formats::fio`]) run on both, and the same typed hosts manage both: what a study does is written once, for any
//! [`Stage`]. [`SimStage`] is a drive under a virtual clock; [`LiveStage`] the same drive, prepared in virtual time and then run under
//! the wall's clock in this process, each job with a thread. From a [`Prepared`] drive runs begin that do not follow each other: each
//! finds it as it was. All times are the drive's, also where that is live in slow motion.

mod contract;
mod live;
mod sim;

pub use self::{
    contract::{HostJob, INTERVAL, JobResult, Nanos, Script, Stage, StageResult, no_script},
    live::LiveStage,
    sim::{Prepared, SimStage},
};
