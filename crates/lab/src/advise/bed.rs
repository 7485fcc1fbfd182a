//! The simulated drive with the modelled server on it: one layout, one seed.
//!
//! The drive has the profile's chips with shorter blocks ([`run::Config::shortened`]), so that its garbage collection is steady within seconds of virtual time. The
//! server's buffer pool, its database and its log are made smaller together where they are large.
//!
//! A load that depends on how long ago the last checkpoint began is measured over whole checkpoints, from the begin of one to the begin of another.

use anyhow::{Context, Result, bail, ensure};
use host::Host;
use run::{
    Precondition,
    sim::{Actors, Contents, Nanos, Sim, SimTransport},
};
use workload::innodb::Volume;

use super::{
    drive::Drive,
    family::{Database, Done, Model},
    layouts::Arrangement,
    load::Load,
};
use crate::{
    control::Cancel,
    counters::{Counters, NamespaceCounts, total, total_on_flash},
    results::Percentiles,
    sim::Cache,
};

const SECOND: u64 = 1_000_000_000;
/// Bytes that the shortened drive offers at least.
const SHORT: u64 = 16 << 30;
/// Bytes of the drive that the database takes at least, if there is so much: otherwise its pages and logs would be overwritten in the write buffer.
const LEAST: u64 = 8 << 30;
/// A simulation of whole checkpoints looks in such steps whether another has begun.
const STEP: u64 = SECOND / 10;
/// It waits for the begin of a checkpoint for so many times the measured time at most.
const LONGEST: u64 = 6;

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Transactions of each second.
    pub tps: f64,
    /// Commits that waited for the log, in ms; none where they do not.
    pub commit: Option<Percentiles>,
    /// Bytes programmed on flash for each transaction.
    pub nand_bytes: f64,
    /// Bytes that the server wrote for each transaction, to flash.
    pub host_bytes: f64,
    /// Write amplification of the flash.
    pub write_amplification: f64,
    /// Bytes written to all namespaces in a second.
    pub written: f64,
    /// How far throughput still moved within the window, in percent.
    pub drift: f64,
    /// Whole checkpoints that the window consists of, if the load depends on them; 0: one took too long.
    pub cycles: Option<u64>,
}

/// A drive with the server's host connected to it.
pub struct Bed {
    sim: Sim,
    host: Host<SimTransport>,
    volumes: [Volume; 2],
    nsids: &'static [u32],
    full: u64,
}

impl Bed {
    /// A drive that was written to at random until its garbage collection was steady, or one that was kept.
    ///
    /// # Errors
    /// The drive cannot be so; an interruption.
    pub fn new(
        drive: &Drive,
        database: &dyn Database,
        atomic: bool,
        cache: &Cache,
        cancel: &Cancel,
    ) -> Result<Self> {
        let whole = drive.config(atomic.then(|| database.page()), database.memory())?;
        let full = whole.namespaces.first().context("the drive has no namespace")?.bytes;
        let config = whole.shortened(SHORT).unwrap_or(whole);
        let made =
            cache.drive(config, Contents::None, Precondition::Steady, 1, &mut |_| !cancel.is_cancelled());
        cancel.check()?;
        let (sim, _) = made?;
        let mut host = sim.host("nqn.2026-11.io.tranche:advise").context("connecting to the drive")?;
        let mut volume = |nsid| -> Result<Volume> {
            let namespace = host.namespace(nsid)?;
            Ok(Volume { blocks: namespace.blocks, block_bytes: namespace.block_size })
        };
        let data = volume(1)?;
        let (memory, nsids): (_, &[u32]) = if atomic { (data, &[1]) } else { (volume(2)?, &[1, 2]) };
        Ok(Self { sim, host, volumes: [data, memory], nsids, full })
    }

    /// The part of the drive that the database is on: as large beside it as it is beside the whole drive, but not too small.
    fn data(&self, dataset: u64) -> Volume {
        let [data, _] = self.volumes;
        let room = data.blocks.saturating_mul(data.block_bytes.into());
        // A tenth more for logs.
        let wanted = u128::from(dataset) * 11 / 10;
        let share = u128::from(room) * wanted / u128::from(self.full.max(1));
        let bytes = u64::try_from(share).unwrap_or(u64::MAX).max(LEAST).min(room);
        Volume { blocks: bytes / u64::from(data.block_bytes), ..data }
    }

    fn counters(&mut self) -> Result<Vec<NamespaceCounts>> {
        let mut all = Vec::new();
        for &nsid in self.nsids {
            let medium = if nsid == 1 { "nand" } else { "dram" };
            let counted = Counters::read(&mut self.host, nsid)?;
            all.push(NamespaceCounts { nsid, medium: medium.into(), counted, ..NamespaceCounts::default() });
        }
        Ok(all)
    }

    /// Runs the load, and measures it after its warm-up. The drive stays as that leaves it.
    ///
    /// # Errors
    /// The database does not fit, a command failed, or an interruption.
    pub fn run(
        &mut self,
        database: &dyn Database,
        load: &Load,
        arrangement: Arrangement,
        seed: u64,
        cancel: &Cancel,
    ) -> Result<Measured> {
        ensure!(!arrangement.memory || self.nsids.len() > 1, "the drive has no DRAM namespace");
        let volumes = [self.data(load.dataset), self.volumes[1]];
        let model = database.model(load, arrangement, volumes, seed)?;
        let mut actors: Actors<Box<dyn Model>> = self.sim.actors();
        let at = actors.add_over(&mut self.host, self.nsids, model)?;
        let mut course = Course {
            begin: self.sim.now(),
            passed: 0,
            longest: load.seconds * LONGEST * SECOND,
            actors: &mut actors,
            at,
            cancel,
        };
        let mut done = course.step(load.warmup * SECOND)?;
        if done.cycles.is_some() {
            done = course.next_cycle()?;
        }
        course.actors.actor_mut(at).forget_latencies();
        let before = (self.counters()?, done);
        let window = match done.cycles {
            None => course.halves(load.seconds, &done)?,
            Some(_) => course.cycles(load.seconds, &done)?,
        };
        let after = self.counters()?;
        let commits = actors.actor(at).commits();
        let commit =
            (database.waits_at_commit() && !commits.is_empty()).then(|| Percentiles::of(commits, 1e3));
        actors.actor_mut(at).stop();
        actors.run(Nanos::MAX, |_| false);
        measured(&before, &after, &window, commit)
    }
}

/// A simulation on its way.
struct Course<'a> {
    begin: Nanos,
    /// Nanoseconds since then.
    passed: u64,
    /// It waits for a checkpoint for so many of them at most.
    longest: u64,
    actors: &'a mut Actors<Box<dyn Model>>,
    at: usize,
    cancel: &'a Cancel,
}

/// What happened in the measured time.
struct Window {
    last: Done,
    seconds: f64,
    drift: f64,
    cycles: Option<u64>,
}

impl Course<'_> {
    /// Lets so much time pass; what the model has done by then.
    fn step(&mut self, time: u64) -> Result<Done> {
        let end = self.passed + time;
        while self.passed < end {
            self.passed = (self.passed + SECOND).min(end);
            self.actors.run(self.begin + Nanos(self.passed), |_| false);
            self.cancel.check()?;
        }
        let done = self.actors.actor(self.at).done();
        ensure!(done.failed == 0, "{} commands failed", done.failed);
        Ok(done)
    }

    /// Goes on until another checkpoint begins, or for too long.
    fn next_cycle(&mut self) -> Result<Done> {
        let (first, end) = (self.step(0)?, self.passed + self.longest);
        loop {
            let done = self.step(STEP)?;
            if done.cycles != first.cycles || self.passed >= end {
                return Ok(done);
            }
        }
    }

    /// So many seconds.
    fn halves(&mut self, seconds: u64, before: &Done) -> Result<Window> {
        let half = seconds / 2;
        let middle = self.step(half * SECOND)?;
        let last = self.step((seconds - half) * SECOND)?;
        let first = (middle.transactions - before.transactions) as f64;
        let second = (last.transactions - middle.transactions) as f64;
        let rates = (first / (half.max(1) as f64), second / (seconds - half).max(1) as f64);
        let drift = if half == 0 { 0.0 } else { (rates.1 / rates.0.max(1e-9) - 1.0) * 100.0 };
        Ok(Window { last, seconds: seconds as f64, drift, cycles: None })
    }

    /// As many whole checkpoints as take so many seconds or more. The drift is that of the later half of them from the other. Where one takes too long, there
    /// are none.
    fn cycles(&mut self, seconds: u64, before: &Done) -> Result<Window> {
        let mut marks = vec![(self.passed, *before)];
        let rate = |marks: &[(u64, Done)], from: usize, to: usize| {
            let (from, to) = (marks[from], marks[to]);
            (to.1.transactions - from.1.transactions) as f64 / ((to.0 - from.0).max(1) as f64)
        };
        loop {
            let last = self.next_cycle()?;
            let is_whole = last.cycles != marks[marks.len() - 1].1.cycles;
            marks.push((self.passed, last));
            let time = self.passed - marks[0].0;
            if is_whole && time < seconds * SECOND {
                continue;
            }
            let count = marks.len() - 1;
            let drift = match count {
                1 => 0.0,
                _ => {
                    let (early, late) = (rate(&marks, 0, count / 2), rate(&marks, count / 2, count));
                    (late / early.max(1e-18) - 1.0) * 100.0
                }
            };
            let cycles = Some(if is_whole { count as u64 } else { 0 });
            return Ok(Window { last, seconds: time as f64 / 1e9, drift, cycles });
        }
    }
}

fn measured(
    before: &(Vec<NamespaceCounts>, Done),
    after: &[NamespaceCounts],
    window: &Window,
    commit: Option<Percentiles>,
) -> Result<Measured> {
    let since = |(before, after): (&NamespaceCounts, &NamespaceCounts)| NamespaceCounts {
        counted: after.counted.since(&before.counted),
        ..after.clone()
    };
    let namespaces: Vec<_> = before.0.iter().zip(after).map(since).collect();
    let (transactions, seconds) = ((window.last.transactions - before.1.transactions) as f64, window.seconds);
    if transactions < 1.0 {
        bail!("no transaction ended in {seconds} s");
    }
    let (all, flash) = (total(&namespaces), total_on_flash(&namespaces));
    Ok(Measured {
        tps: transactions / seconds,
        commit,
        nand_bytes: flash.media_bytes_written as f64 / transactions,
        host_bytes: flash.host_bytes_written as f64 / transactions,
        write_amplification: flash.write_amplification().unwrap_or(0.0),
        written: all.host_bytes_written as f64 / seconds,
        drift: window.drift,
        cycles: window.cycles,
    })
}
