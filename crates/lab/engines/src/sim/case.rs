//! One run: a drive, what it goes through first, and its load.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use host::Host;
use live::Config;
use nvme::Nsid;
use rustix::time::{ClockId, clock_gettime};
use sim::{Contents, Precondition, Sim, SimTransport};

use super::{
    act,
    cache::Cache,
    jobs::{self, LoadResult, Seed},
    load::{LoadFile, LoadForm, without_contents},
    onlooker::{Onlooker, Stage},
    series::Series,
    settling::{Moving, Rounds, Settling},
    watch::{WHOLE_LOAD_PPM, Watch},
};
use crate::{bench, sweep::settings};
use lab_report::{
    control::{Cancel, Interrupted},
    counters::{Counters, NamespaceCounts, flash_bytes_written, total_on_flash, write_amplification},
    figure::show_size,
    sheet::NamedCell as Column,
};

/// Host NQN of the load.
pub(super) const NQN: &str = "nqn.2026-11.io.tranche:sim";

/// A run that is to be made.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// What is different from other runs: names and values.
    pub parameters: Vec<(String, String)>,
    pub config: Config,
    /// The media of its NVM Sets.
    pub media: Vec<String>,
    /// Whether its TOML has cache tiers.
    pub tiers: bool,
    pub load: LoadFile,
    pub nsid: Option<Nsid>,
    pub precondition: Precondition,
    pub contents: Contents,
    pub seed: u64,
    /// Whether the load is repeated, before it is measured, until write amplification no longer changes.
    pub until_steady: bool,
    /// Nanoseconds of the intervals of its time series, if it has one.
    pub interval: Option<u64>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct RunResult {
    pub played: LoadResult,
    /// Simulated time of the load.
    pub simulated: Duration,
    /// Time of this machine for the load, and of its processor.
    pub wall: Duration,
    pub cpu: Duration,
    /// Time of this machine for the preconditioning.
    pub preparation: Duration,
    /// Whether the preconditioned drive was kept from an earlier time.
    pub kept: bool,
    /// Bytes programmed on flash during the load.
    pub nand_bytes_written: u64,
    /// What the drive counted during the load, for each namespace of the load's host.
    pub namespaces: Vec<NamespaceCounts>,
    /// What happened in each interval.
    pub series: Vec<Vec<Column>>,
    /// Write amplification, if it still moves at the end.
    pub moving: Option<Moving>,
    /// The rounds that went before, if there were any.
    pub settled: Option<Settled>,
}

/// Rounds of the load before the one that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settled {
    /// How many.
    pub rounds: u64,
    /// Whether write amplification no longer changed at their end.
    pub is_steady: bool,
    /// Their simulated time.
    pub simulated: Duration,
}

impl RunResult {
    /// Bytes programmed on flash for each that the host wrote there, if it did.
    pub fn write_amplification(&self) -> Option<f64> {
        let host = total_on_flash(&self.namespaces).host_bytes_written;
        write_amplification(self.nand_bytes_written, host)
    }

    /// Requests for each second of a processor, if that took long enough to be measured.
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    pub fn requests_per_cpu_second(&self) -> Option<f64> {
        (self.cpu.as_millis() > 0).then(|| self.played.requests as f64 / self.cpu.as_secs_f64())
    }
}

/// Most rounds of a load before it is measured.
const MAX_ROUNDS: u64 = 100;

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It came to figures, and nothing went wrong.
    Done,
    /// It came to none, or requests failed.
    Failed,
    /// The user ended it.
    Interrupted,
}

impl State {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }

    /// That of a run with figures.
    pub fn of(ran: &RunResult) -> Self {
        match (ran.played.interrupted, ran.played.problems.is_empty()) {
            (true, _) => Self::Interrupted,
            (false, true) => Self::Done,
            (false, false) => Self::Failed,
        }
    }

    /// That of a run without figures.
    pub fn of_error(error: &anyhow::Error) -> Self {
        if error.is::<Interrupted>() { Self::Interrupted } else { Self::Failed }
    }
}

/// The share of a run's progress that preconditioning is thought to take.
const PREPARATION: u32 = WHOLE_LOAD_PPM / 2;

/// What this thread has used of a processor.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

impl Case {
    /// What is different from other runs.
    pub fn settings(&self) -> String {
        settings(&self.parameters)
    }

    /// Whether it can run with the contents that it has, in so much memory.
    ///
    /// # Errors
    /// It cannot, or an option makes no sense.
    pub fn check(&self, available: Option<u64>) -> Result<()> {
        match (self.load.jobs()?, self.contents) {
            (Some((_, jobs)), Contents::None | Contents::Later) => without_contents(&jobs),
            (None, Contents::None | Contents::Later) => Ok(()),
            (None, Contents::Memory) => {
                bail!(
                    "contents are kept for job files only: other loads neither say what they write nor look at what they read"
                )
            }
            (Some(_), Contents::Memory) => match available.filter(|available| *available < self.memory()) {
                Some(available) => bail!(
                    "a drive with its contents takes up to {}, and {} of memory are left: take a smaller drive, or --contents none",
                    show_size(self.memory()),
                    show_size(available)
                ),
                None => Ok(()),
            },
        }
    }

    /// Whether its load fits the drive of this host, which is as its own and has nothing on it yet.
    ///
    /// # Errors
    /// It does not.
    pub fn fits(&self, host: &mut Host<SimTransport>) -> Result<()> {
        match &self.load.form {
            LoadForm::Act(config) => act::check(config, host, self.nsid),
            LoadForm::Trace(trace) => trace.fits(host, self.nsid),
            LoadForm::Fio { .. } => {
                let (name, jobs) = self.load.jobs()?.context("a job file")?;
                jobs::check(name, &jobs, host, self.nsid, self.contents == Contents::Memory)
            }
        }
    }

    /// Roughly the bytes of this machine's memory that it takes.
    pub fn memory(&self) -> u64 {
        Sim::memory(&self.config, self.contents)
    }

    /// The drive as it runs: without time nothing would ever end.
    pub fn timed(&self) -> Config {
        let mut config = self.config.clone();
        config.timing = true;
        config
    }

    /// Makes the run, on a drive of this cache. `share` is told, in millionths, how far it is. Somebody may look on.
    ///
    /// # Errors
    /// The drive cannot be so, the load does not fit it, or it was cancelled before the load began.
    pub fn run(
        &self,
        cache: &Cache,
        share: &AtomicU32,
        cancel: &Cancel,
        onlooker: Option<&dyn Onlooker>,
    ) -> Result<RunResult> {
        let start = Instant::now();
        let prepares = if self.precondition == Precondition::None { 0 } else { PREPARATION };
        let mut prepared = 0;
        let made = cache.drive(self.timed(), self.contents, self.precondition, self.seed, &mut |done| {
            prepared = done.min(1000);
            share.store(prepared * (prepares / 1000), Ordering::Relaxed);
            if let Some(onlooker) = onlooker {
                onlooker.prepares(prepared);
            }
            !cancel.is_cancelled()
        });
        cancel.check().with_context(|| match self.precondition {
            Precondition::None => "the load was not begun".to_owned(),
            _ => format!("the drive was preconditioned to {} %, and the load not begun", prepared / 10),
        })?;
        let (sim, kept) = made?;
        let preparation = start.elapsed();
        let mut host = sim.host(NQN).context("connecting to the drive")?;
        let settled = self.settle(&sim, &mut host, share, prepares, cancel)?;
        let round = settled.map_or(0, |settled| settled.rounds);
        let before = self.sample(&mut host)?;
        let (time, start, cpu) = (sim.now(), Instant::now(), cpu_time());
        let series = self.interval.map(|interval| Series::new(interval, &sim)).transpose()?;
        let stage = onlooker.map(|onlooker| Stage::new(onlooker, &sim, host.cntlid())).transpose()?;
        let mut watch = Watch::new(share, prepares, cancel)
            .with_series(series)
            .with_settling(Settling::new(&sim))
            .with_stage(stage);
        let played = self.play(&sim, &mut host, round, &mut watch)?;
        let (wall, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
        let simulated = Duration::from_nanos(sim.now().since(time).0);
        let series = watch.end_series(&sim)?;
        let moving = watch.end_settling(&sim);
        watch.end_stage(&sim)?;
        let after = self.sample(&mut host)?;
        let mut namespaces = Vec::new();
        for ((nsid, set, earlier), (same, _, later)) in before.namespaces.iter().zip(&after.namespaces) {
            if nsid != same {
                bail!("namespaces came or went during the load");
            }
            let medium = self.media.get(usize::from(*set).wrapping_sub(1)).cloned().unwrap_or_default();
            namespaces.push(NamespaceCounts {
                nsid: *nsid,
                set: *set,
                medium,
                name: format!("ns{nsid}"),
                counted: later.since(earlier),
            });
        }
        share.store(WHOLE_LOAD_PPM, Ordering::Relaxed);
        let nand_bytes_written = after.nand.saturating_sub(before.nand);
        Ok(RunResult {
            played,
            simulated,
            wall,
            cpu,
            preparation,
            kept,
            nand_bytes_written,
            namespaces,
            series,
            moving,
            settled,
        })
    }

    /// Runs the load once. Rounds before it were others by their number.
    fn play(
        &self,
        sim: &Sim,
        host: &mut Host<SimTransport>,
        round: u64,
        watch: &mut Watch<'_>,
    ) -> Result<LoadResult> {
        match &self.load.form {
            LoadForm::Act(config) => {
                act::play(config, sim, host, self.nsid, self.seed.wrapping_add(round), watch)
            }
            LoadForm::Trace(trace) => trace.play(sim, host, self.nsid, watch),
            LoadForm::Fio { .. } => {
                let (name, jobs) = self.load.jobs()?.context("a job file")?;
                let seed = Seed { seed: self.seed, round };
                jobs::play(name, &jobs, sim, host, self.nsid, seed, watch)
            }
        }
    }

    /// Repeats the load until write amplification no longer changes, if that is asked for.
    ///
    /// # Errors
    /// The load does not fit the drive, something goes wrong with its requests, or it was cancelled.
    fn settle(
        &self,
        sim: &Sim,
        host: &mut Host<SimTransport>,
        share: &AtomicU32,
        prepared: u32,
        cancel: &Cancel,
    ) -> Result<Option<Settled>> {
        if !self.until_steady {
            return Ok(None);
        }
        let began = sim.now();
        let mut rounds = Rounds::new(sim, self.config.flash_space().map(|space| space.allocated).sum());
        let mut settled = Settled { rounds: 0, is_steady: false, simulated: Duration::ZERO };
        while settled.rounds < MAX_ROUNDS && !settled.is_steady {
            let mut watch = Watch::new(share, prepared, cancel);
            let played = self.play(sim, host, settled.rounds, &mut watch)?;
            let rounds_before = settled.rounds;
            cancel.check().with_context(|| {
                format!("the load was repeated {rounds_before} times until write amplification no longer changes, and not measured")
            })?;
            if !played.problems.is_empty() {
                bail!(
                    "round {} before the measured one: {}",
                    rounds_before + 1,
                    bench::lines(played.problems)
                );
            }
            settled.rounds += 1;
            settled.is_steady = rounds.end_round(sim);
        }
        settled.simulated = Duration::from_nanos(sim.now().since(began).0);
        Ok(Some(settled))
    }

    fn sample(&self, host: &mut Host<SimTransport>) -> Result<Sample> {
        let nand = flash_bytes_written(host)?;
        let mut namespaces = Vec::new();
        for nsid in host.active_namespaces()? {
            let page = host.namespace_statistics(nsid)?;
            namespaces.push((nsid, page.nvmsetid.get(), Counters::new(&page)));
        }
        Ok(Sample { nand, namespaces })
    }
}

/// The drive's counters at one moment.
struct Sample {
    nand: u64,
    /// Of each namespace: its NVM Set, and what was counted.
    namespaces: Vec<(Nsid, u16, Counters)>,
}
