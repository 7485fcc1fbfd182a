//! Aerospike's certification tool on a drive in virtual time.

use anyhow::{Result, anyhow, bail};
use host::Host;
use load_formats::act::{Act, Config, Space};
use nvme::Nsid;
use sim::{Nanos, Sim, SimTransport};

use super::{
    jobs::LoadResult,
    load_document::{ActDocument, ActVerdict, ActWindow, LoadDocument},
    tally::{self, Tally},
    watch::Watch,
};
use crate::bench::progress::Goal;

/// Seconds of a window in which reads are judged, as in the tool's README.
const WINDOW: u32 = 3600;
/// Simulated time after which the tool's text is taken.
const SLICE: u64 = 60_000_000_000;

/// The tool on a drive, before it begins, with the namespaces that stand for its devices and their spaces.
fn lay(
    config: &Config,
    host: &mut Host<SimTransport>,
    nsid: Option<Nsid>,
    seed: u64,
) -> Result<(Act, Vec<Nsid>, Vec<Space>)> {
    let nsids = namespaces(host, nsid, config.device_names.len())?;
    let volatile_cache = host.identify_controller()?.vwc.present();
    let mut spaces = Vec::new();
    for &nsid in &nsids {
        let namespace = host.namespace(nsid)?;
        spaces.push(Space { blocks: namespace.blocks, block_bytes: namespace.block_size, volatile_cache });
    }
    let act = Act::new(config.clone(), &spaces, seed, WINDOW).map_err(|problem| anyhow!(problem))?;
    Ok((act, nsids, spaces))
}

/// Whether [`play`] can begin on this drive. Nothing is read or written.
///
/// # Errors
/// The configuration does not fit the drive.
pub(super) fn check(config: &Config, host: &mut Host<SimTransport>, nsid: Option<Nsid>) -> Result<()> {
    lay(config, host, nsid, 1).map(drop)
}

/// Runs the tool to its end.
///
/// # Errors
/// The configuration does not fit the drive, or the drive refuses its queue.
pub(super) fn play(
    config: &Config,
    sim: &Sim,
    host: &mut Host<SimTransport>,
    nsid: Option<Nsid>,
    seed: u64,
    watch: &mut Watch<'_>,
) -> Result<LoadResult> {
    let (act, nsids, spaces) = lay(config, host, nsid, seed)?;
    let act = act.with_text();
    let mut actors = sim.actors();
    actors.add_over(host, &nsids, act)?;
    let blocks: Vec<u64> = spaces.iter().map(|space| space.block_bytes.into()).collect();
    let goal = Goal::of_seconds(config.test_duration_sec.into());
    watch.goals(vec![(goal, blocks[0])], sim.now());
    let mut tally = Tally::new(blocks, sim.now())?;
    let mut text = String::new();
    loop {
        let until = Nanos(sim.now().0.saturating_add(SLICE));
        let ended = watch.run(&mut actors, sim, until, |step| tally.step(step))?;
        text.push_str(&actors.actor_mut(0).take_text());
        if ended || watch.interrupted() || watch.stands_still() {
            break;
        }
    }
    let act = actors.actor(0);
    let outcome = actors.outcome(0);
    let mut problems = Vec::new();
    watch.check_time()?;
    if let Some(stop) = act.stopped() {
        problems.push(format!("the test was stopped before its end: {stop:?} cannot keep up"));
    }
    if outcome.failed > 0 {
        problems.push(format!("{} requests failed", outcome.failed));
    }
    let traffic = tally.moved(sim.now());
    let passes = act.passes();
    let document = ActDocument {
        act: ActVerdict {
            passes,
            stopped: act.stopped().map(|stop| format!("{stop:?}")),
            windows: act.windows().iter().copied().map(ActWindow::from).collect(),
            rest: ActWindow::from(act.rest()),
            large_blocks_read_and_written: act.large_blocks(),
        },
        requests: tally::document(&traffic),
        log: text.clone(),
    };
    let verdict = match (passes, act.windows().is_empty()) {
        (true, false) => {
            "passes: in every hour reads keep within 5 % over 1 ms, 1 % over 8 ms, 0.1 % over 64 ms"
        }
        (true, true) => {
            "keeps within 5 % of reads over 1 ms, 1 % over 8 ms, 0.1 % over 64 ms, but is shorter than an hour"
        }
        (false, _) => "does NOT pass",
    };
    let text = format!("{text}\n{verdict}\n\n{}", tally::text(&traffic));
    Ok(LoadResult {
        document: Some(LoadDocument::Act(document)),
        text,
        traffic,
        requests: outcome.requests,
        digest: outcome.digest,
        problems,
        interrupted: watch.interrupted(),
        ..LoadResult::default()
    })
}

/// The namespaces that stand for so many devices.
fn namespaces(host: &mut Host<SimTransport>, nsid: Option<Nsid>, count: usize) -> Result<Vec<Nsid>> {
    let all = match nsid {
        Some(nsid) => vec![nsid],
        None => host.active_namespaces()?,
    };
    if all.len() < count {
        bail!(
            "device-names are {count}: the drive has {} namespaces for them; name fewer devices, or give the drive's TOML more [[namespace]]",
            all.len()
        );
    }
    Ok(all[..count].to_vec())
}
