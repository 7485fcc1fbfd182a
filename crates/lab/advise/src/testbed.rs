//! The simulated drive with the modelled server on it: one layout, one seed.
//!
//! The server's buffer pool, its database and its log are made smaller together where they are large.

use anyhow::{Context, Result, bail, ensure};
use database_models::innodb::Volume;
use hdrhistogram::Histogram;
use host::Host;
use load_formats::fio::Prompt;
use nvme::quota::{Quota, QuotaKind};
use sim::{Actors, Contents, Nanos, Precondition, Sim, SimTransport};
use workload::{
    Actor, Next,
    on_zones::{OnZones, Stream},
};

use super::{
    database_model::{Database, Done, Model},
    figures::Figure,
    layouts::Arrangement,
    load::Load,
    measurement::{Measurement, Stage, Window},
    simulated_drive::{Guest, SimulatedDrive},
};
use lab_databases::drive::create_zoned_namespace;
use lab_engines::sim::{Cache, play_text};
use lab_report::{
    control::Cancel,
    counters::{Counters, NamespaceCounts, total, total_on_flash},
    results::Percentiles,
};

/// Host NQNs of the server and of a neighbour.
const SERVER: &str = "nqn.2026-11.io.tranche:advise";
const NEIGHBOUR: &str = "nqn.2026-11.io.tranche:neighbour";

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
    /// Figures that only some layouts have.
    pub more: Vec<(Figure, f64)>,
}

/// A drive with the server's host connected to it.
pub struct Testbed {
    sim: Sim,
    host: Host<SimTransport>,
    ground: SimulatedDrive,
    volumes: [Volume; 2],
}

/// Who uses the drive.
enum User {
    Server(Box<dyn Model>),
    Neighbour(Box<Prompt>),
}

impl Model for OnZones<Box<dyn Model>> {
    fn done(&self) -> Done {
        self.actor().done()
    }

    fn commits(&self) -> &Histogram<u64> {
        self.actor().commits()
    }

    fn forget_latencies(&mut self) {
        self.actor_mut().forget_latencies();
    }

    fn stop(&mut self) {
        self.actor_mut().stop();
    }
}

impl Actor for User {
    fn next(&mut self, now: u64) -> Next {
        match self {
            Self::Server(model) => model.next(now),
            Self::Neighbour(job) => job.next(now),
        }
    }

    fn completed(&mut self, now: u64, tag: u32, ok: bool) {
        match self {
            Self::Server(model) => model.completed(now, tag, ok),
            Self::Neighbour(job) => job.completed(now, tag, ok),
        }
    }
}

/// Users on queues of the drive; the server is the first.
struct Queues {
    actors: Actors<User>,
}

impl Stage for Queues {
    fn run(&mut self, until: Nanos) {
        self.actors.run(until, |_| false);
    }

    fn model(&self) -> &dyn Model {
        match self.actors.actor(0) {
            User::Server(model) => &**model,
            User::Neighbour(_) => unreachable!("the server is the first"),
        }
    }

    fn model_mut(&mut self) -> &mut dyn Model {
        match self.actors.actor_mut(0) {
            User::Server(model) => &mut **model,
            User::Neighbour(_) => unreachable!("the server is the first"),
        }
    }
}

impl Testbed {
    /// A drive that was written to at random until its garbage collection was steady, or one that was kept.
    ///
    /// # Errors
    /// The drive cannot be so; an interruption.
    pub fn new(ground: SimulatedDrive, cache: &Cache, cancel: &Cancel) -> Result<Self> {
        let config = ground.config.clone();
        let made =
            cache.drive(config, Contents::None, Precondition::Steady, 1, &mut |_| !cancel.is_cancelled());
        cancel.check()?;
        let (sim, _) = made?;
        let mut host = sim.host(SERVER).context("connecting to the drive")?;
        if let Some((zones, layout)) = ground.zones {
            // Now, because a drive is not brought into a used state with zones.
            let nsid = create_zoned_namespace(&mut host, 1, zones * layout.size * 4096, 4096)?;
            // The logs have been round before. Else each zone that is opened would take space that collection has to make first.
            let fill =
                format!("[fill]\nfilename=nvme0n{nsid}\nrw=write\nbs=128k\niodepth=32\nzonemode=zbd\n");
            play_text("the zones", &fill, &sim, &mut host, 1, cancel)?;
        }
        let mut volume = |nsid| -> Result<Volume> {
            let namespace = host.namespace(nsid)?;
            Ok(Volume { blocks: namespace.blocks, block_bytes: namespace.block_size })
        };
        let data = volume(1)?;
        let beside = ground.nsids.get(1).map(|&nsid| volume(nsid)).transpose()?.unwrap_or(data);
        let data = Volume { blocks: data.blocks.min(ground.data / u64::from(data.block_bytes)), ..data };
        if let Some(Guest { nsid, quota: Some(rate), .. }) = ground.neighbour {
            let mut quota = Quota::unlimited();
            quota.set_limit(QuotaKind::ReadBandwidth, Some(rate));
            quota.set_limit(QuotaKind::WriteBandwidth, Some(rate));
            host.set_quota(nsid, &quota, false)?;
        }
        Ok(Self { sim, host, ground, volumes: [data, beside] })
    }

    fn counters(&mut self) -> Result<Vec<NamespaceCounts>> {
        let mut all = Vec::new();
        for &nsid in self.ground.nsids {
            let medium = if nsid == 1 || self.ground.zones.is_some() { "nand" } else { "dram" };
            let counted = Counters::read(&mut self.host, nsid)?;
            all.push(NamespaceCounts { nsid, medium: medium.into(), counted, ..NamespaceCounts::default() });
        }
        Ok(all)
    }

    /// What the neighbour has written and read, if there is one.
    fn moved(&mut self) -> Result<Option<u64>> {
        let Some(guest) = &self.ground.neighbour else { return Ok(None) };
        let counted = Counters::read(&mut self.host, guest.nsid)?;
        Ok(Some(counted.host_bytes_written + counted.host_bytes_read))
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
        ensure!(!arrangement.memory || self.ground.nsids.len() > 1, "the drive has no DRAM namespace");
        let mut model = database.model(load, arrangement, self.volumes, seed, cancel)?;
        if let Some((_, layout)) = self.ground.zones {
            let block = u64::from(self.volumes[1].block_bytes);
            let streams = database.streams(load, arrangement, self.volumes)?;
            let stream = |&(from, bytes): &(u64, u64)| Stream { first: from / block, blocks: bytes / block };
            let streams: Vec<_> = streams.iter().map(stream).collect();
            model = Box::new(OnZones::new(model, 1, layout, &streams));
        }
        let mut actors = self.sim.actors();
        actors.add_over(&mut self.host, self.ground.nsids, User::Server(model))?;
        if let Some(guest) = &self.ground.neighbour {
            let mut host = self.sim.host(NEIGHBOUR).context("connecting to the drive")?;
            for job in guest.load.actors(&mut host, guest.nsid, seed)? {
                actors.add(&mut host, guest.nsid, User::Neighbour(Box::new(job)))?;
            }
        }
        let mut stage = Queues { actors };
        let mut course = Measurement::new(&mut stage, self.sim.now(), load, cancel);
        let done = course.warm(load.warmup)?;
        let before = (self.counters()?, self.moved()?);
        let window = course.window(load.seconds, done)?;
        let after = (self.counters()?, self.moved()?);
        let commits = stage.model().commits();
        let commit =
            (database.waits_at_commit() && !commits.is_empty()).then(|| Percentiles::of(commits, 1e3));
        stage.model_mut().stop();
        // A neighbour does not end by itself.
        let neighbour = self.ground.neighbour.is_some();
        stage.actors.run(Nanos::MAX, |_| neighbour);
        let mut measured = measured(&before.0, &after.0, &window, commit)?;
        if let (Some(before), Some(after)) = (before.1, after.1) {
            let rate = after.saturating_sub(before) as f64 / window.seconds;
            measured.more.push((Figure::Neighbour, rate));
        }
        Ok(measured)
    }
}

/// What happened in a window, between two states of the counters.
///
/// # Errors
/// No transaction ended.
pub fn measured(
    before: &[NamespaceCounts],
    after: &[NamespaceCounts],
    window: &Window,
    commit: Option<Percentiles>,
) -> Result<Measured> {
    let since = |(before, after): (&NamespaceCounts, &NamespaceCounts)| NamespaceCounts {
        counted: after.counted.since(&before.counted),
        ..after.clone()
    };
    let namespaces: Vec<_> = before.iter().zip(after).map(since).collect();
    let (transactions, seconds) =
        ((window.last.transactions - window.first.transactions) as f64, window.seconds);
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
        more: Vec::new(),
    })
}
