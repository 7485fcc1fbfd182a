//! Part 2, the noisy neighbour: NS1 reads at a fixed rate while the load of NS2 grows.

use std::fmt;

use anyhow::{Context, Result};
use live::Config;
use load_formats::fio::{Latency, Response, Stats};
use nvme::Nsid;

use super::{
    scale::{NoiseKind, Scale},
    variants::Variant,
    windows::{WindowSchedule, quantile},
};
use lab_databases::drive::create_namespace;
use lab_engines::stage::{HostJob, Prepared, SimStage, Stage, no_script};
use lab_report::{
    control::Cancel,
    counters::{Counters, NamespaceCounts},
    results::{Percentiles, Point, Run},
};

/// What NS2 does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noise {
    Idle,
    Busy(NoiseKind, u32),
}

impl Noise {
    /// All points of a scale, the quietest first.
    pub fn all(scale: &Scale, quick: bool) -> Vec<Self> {
        let mut all = vec![Self::Idle];
        for (kind, depths) in NoiseKind::ALL.into_iter().zip(&scale.depths) {
            let skip = if quick { depths.len().saturating_sub(1) } else { 0 };
            all.extend(depths.iter().skip(skip).map(|&depth| Self::Busy(kind, depth)));
        }
        all
    }

    /// The point in results: an idle neighbour has a queue depth of 0.
    pub fn point(self) -> Point {
        match self {
            Self::Idle => Point::from([(NoiseKind::Reads.axis().into(), 0)]),
            Self::Busy(kind, depth) => Point::from([(kind.axis().into(), depth.into())]),
        }
    }

    /// For reading.
    pub fn title(self) -> String {
        match self {
            Self::Idle => "idle".into(),
            Self::Busy(kind, depth) => format!("{}, QD {depth}", kind.title()),
        }
    }
}

/// A drive on which the two live, used as it was long in use. Every run begins from it as it is.
pub(super) struct SharedDrive {
    drive: Prepared,
    nsids: [Nsid; 2],
    variant: Variant,
}

/// Why a variant is not available.
#[derive(Debug)]
pub(super) struct Unavailable(String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

impl SharedDrive {
    /// The drive of a variant with both namespaces, written, and then overwritten at random until collection has settled. `live`: it
    /// shall be run live.
    ///
    /// # Errors
    /// [`Unavailable`] if the drive refuses what makes the variant; what [`Stage::play`] returns.
    pub fn new(
        variant: Variant,
        profile: &toml::Table,
        scale: &Scale,
        seed: u64,
        live: bool,
        cancel: &Cancel,
    ) -> Result<Self> {
        let config = Config::from_toml(&toml::to_string(&variant.drive(profile, scale)?)?);
        let config = match config {
            Err(error) if variant == Variant::Windows => return Err(Unavailable(error.to_string()).into()),
            other => other?,
        };
        let mut stage = SimStage::new(config, 2, live, cancel)?;
        let sets = stage.manager().nvm_sets()?;
        let [first, second] = variant.sets();
        let mut size = u64::MAX;
        for id in [first, second] {
            let set =
                sets.iter().find(|set| set.nvmsetid.get() == id).context("the drive lacks an NVM Set")?;
            let share = if first == second { 2 } else { 1 };
            let free = u64::try_from(set.unvmsetcap.get() / share).unwrap_or(u64::MAX);
            size = size.min(free >> 20 << 20);
        }
        let nsids = [
            create_namespace(stage.manager(), first, size, 4096, variant.handles()[0])?,
            create_namespace(stage.manager(), second, size, 4096, variant.handles()[1])?,
        ];
        let fill =
            |host: usize| HostJob { host, nsid: nsids[host], job: "rw=write\nbs=128k\niodepth=16\n".into() };
        stage.play(&[fill(0), fill(1)], &mut no_script)?;
        if let Err(error) = variant.apply(stage.manager(), nsids, scale) {
            return Err(match error.status() {
                Some(_) => Unavailable(error.to_string()).into(),
                None => error.into(),
            });
        }
        let drive = overwritten(stage, nsids, &format!("loops={}", scale.overwrites), seed)?;
        Ok(Self { drive, nsids, variant })
    }

    /// The drive of the next repetition: somewhat longer in use, so that collection is somewhere else.
    ///
    /// # Errors
    /// What [`Stage::play`] returns.
    pub fn age(&mut self, scale: &Scale, seed: u64) -> Result<()> {
        let more = format!("size={}%", scale.more);
        self.drive = overwritten(self.drive.begin()?, self.nsids, &more, seed)?;
        Ok(())
    }

    /// The drive as it is, for one run.
    ///
    /// # Errors
    /// The drive refuses the hosts.
    pub fn begin(&self) -> Result<SimStage> {
        self.drive.begin()
    }
}

/// NS2 overwritten at random.
fn overwritten(mut stage: SimStage, nsids: [Nsid; 2], amount: &str, seed: u64) -> Result<Prepared> {
    let job = format!("rw=randwrite\nbs=4k\niodepth=64\nnorandommap\nrandseed={seed}\n{amount}\n");
    stage.play(&[HostJob { host: 1, nsid: nsids[1], job }], &mut no_script)?;
    // What collection has begun ends in peace.
    let rest = "rw=read\nbs=4k\nnumber_ios=1\nstartdelay=5\n".to_owned();
    stage.play(&[HostJob { host: 0, nsid: nsids[0], job: rest }], &mut no_script)?;
    stage.prepared()
}

fn percentiles(latency: &Latency) -> Percentiles {
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    let ms = |nanos: u64| nanos as f64 / 1e6;
    let series = &latency.series;
    if series.count == 0 {
        return Percentiles::default();
    }
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    let mean = series.sum as f64 / series.count as f64 / 1e6;
    Percentiles {
        count: series.count,
        mean,
        p50: ms(latency.quantile(500_000)),
        p95: ms(latency.quantile(950_000)),
        p99: ms(latency.quantile(990_000)),
        max: ms(series.max),
    }
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn rates(stats: &Stats) -> (f64, f64) {
    let seconds = (stats.runtime as f64 / 1e9).max(1e-9);
    let sum = |of: fn(&load_formats::fio::Traffic) -> u64| stats.traffic.iter().map(of).sum::<u64>() as f64;
    (sum(|t| t.ios) / seconds, sum(|t| t.bytes) / seconds / 1e6)
}

/// One run of one point, on a stage that has just begun.
pub(super) fn play<S: Stage>(
    mut stage: S,
    shared: &SharedDrive,
    noise: Noise,
    scale: &Scale,
    repetition: u32,
    seed: u64,
) -> Result<Run> {
    let window = format!(
        "time_based\nramp_time={}ms\nruntime={}ms\nrandseed={seed}\n",
        milliseconds(scale.ramp),
        milliseconds(scale.seconds)
    );
    let nsids = shared.nsids;
    // An open loop: as many outstanding as a queue lets be.
    let reader = format!("rw=randread\nbs=4k\niodepth=1000\nnorandommap\nrate_iops={}\n{window}", scale.iops);
    let mut loads = vec![HostJob { host: 0, nsid: nsids[0], job: reader }];
    if let Noise::Busy(kind, depth) = noise {
        loads.push(HostJob { host: 1, nsid: nsids[1], job: format!("{}{window}", kind.job(depth)) });
    }
    let counters = |stage: &mut S| -> Result<Vec<Counters>> {
        nsids.iter().map(|&nsid| Ok(Counters::read(stage.manager(), nsid)?)).collect()
    };
    let before = counters(&mut stage)?;
    let mut schedule = shared.variant.schedule(scale);
    let played = stage.play(&loads, &mut |host, now| match &mut schedule {
        Some(schedule) => schedule.step(host, now),
        None => Ok(None),
    })?;
    let after = counters(&mut stage)?;
    let first = &played.loads[0].stats;
    let response = &first.traffic[0].response;
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    let ms = |millionths: u32| response.quantile(millionths) as f64 / 1e6;
    let mut run =
        Run { at: noise.point(), repetition, seconds: scale.seconds, cpu: played.cpu, ..Run::default() };
    run.metrics.extend([
        ("ns1_iops".to_owned(), rates(first).0),
        ("ns1_p50_ms".to_owned(), ms(500_000)),
        ("ns1_p99_ms".to_owned(), ms(990_000)),
        ("ns1_p999_ms".to_owned(), ms(999_000)),
    ]);
    run.latency_ms.insert("ns1".into(), percentiles(response));
    if let Some(schedule) = &schedule {
        run.metrics.extend(in_windows(schedule, &played.loads[0].responses));
    }
    if let Some(second) = played.loads.get(1) {
        let (iops, bandwidth) = rates(&second.stats);
        run.metrics.extend([("ns2_iops".to_owned(), iops), ("ns2_MBps".to_owned(), bandwidth)]);
        let mut both = Latency::default();
        for traffic in &second.stats.traffic {
            both.merge(&traffic.completion);
        }
        run.latency_ms.insert("ns2".into(), percentiles(&both));
    }
    for (index, (after, before)) in after.iter().zip(&before).enumerate() {
        let counted = after.since(before);
        let own = counted.read_latency.percentiles();
        if index == 0 && own.count > 0 {
            run.metrics.extend([
                ("ns1_drive_mean_ms".to_owned(), own.mean),
                ("ns1_drive_p50_ms".to_owned(), own.p50),
                ("ns1_drive_p99_ms".to_owned(), own.p99),
            ]);
        }
        run.namespaces.push(NamespaceCounts {
            name: format!("ns{}", index + 1),
            nsid: nsids[index],
            medium: "nand".into(),
            counted,
            ..NamespaceCounts::default()
        });
    }
    Ok(run)
}

/// Figures of the reads inside and outside of deterministic windows.
#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn in_windows(schedule: &WindowSchedule, responses: &[Response]) -> Vec<(String, f64)> {
    let [inside, outside] = schedule.split(responses);
    let mut metrics = vec![
        ("ns1_dtwin_share".to_owned(), inside.len() as f64 / responses.len().max(1) as f64),
        ("dtwin_cut_short".to_owned(), schedule.cut_short.into()),
    ];
    for (part, reads) in [("dtwin", &inside), ("ndwin", &outside)] {
        for (name, millionths) in [("p50", 500_000), ("p99", 990_000), ("p999", 999_000)] {
            let value = quantile(reads, millionths);
            metrics.extend(value.map(|ms| (format!("ns1_{part}_{name}_ms"), ms)));
        }
    }
    metrics
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of a scale")]
fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1e3) as u64
}
