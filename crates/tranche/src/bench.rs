//! `tranche bench`.

use crate::args::Bench;
use crate::connect::connect;
use crate::refusal;
use anyhow::Result;
use nvme::Status;

/// Runs a fio job file.
pub fn bench(bench: &Bench) -> Result<lab::Findings<serde_json::Value>> {
    let name = bench.job.display().to_string();
    let text = lab::input::read_text(&bench.job)?;
    let mut host = connect(&bench.target)?;
    let settings = lab::bench::Settings { nsid: bench.nsid, poll: bench.poll };
    let mut outcome = lab::bench::run(&name, &text, &mut host, settings, &crate::progress::control()?)?;
    let denied = Status::ACCESS_DENIED.words().unwrap_or_default();
    if let Some(failure) = &mut outcome.failure
        && failure.contains(denied)
        && let Some(locked) = refusal::without_its_key(&mut host)
    {
        failure.push_str(&format!("\n{locked}"));
    }
    // The results count even if the drive is gone meanwhile.
    if let Err(error) = host.shutdown() {
        tracing::debug!("disconnecting: {error}");
    }
    Ok(outcome)
}
