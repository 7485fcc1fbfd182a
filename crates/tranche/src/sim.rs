//! `tranche sim`.

use anyhow::Result;
use lab::input::read_text;
use lab::profile;
use lab::sim::{Options, Sources};

/// Runs a load in virtual time.
pub fn sim(options: &Options) -> Result<lab::Outcome<serde_json::Value>> {
    lab::sim::run(options, &Sources { text: &read_text, drive: &profile::read })
}
