//! `tranche sim`.

use crate::{profiles, read_text};
use anyhow::Result;
use lab::sim::{Options, Sources};

/// Runs a load in virtual time.
pub fn sim(options: &Options) -> Result<lab::Outcome<serde_json::Value>> {
    lab::sim::run(options, &Sources { text: &read_text, drive: &profiles::read })
}
