//! Part 1, the published example: eight namespaces of the same size read sequentially; four have a large quota, four a small one.

use anyhow::{Context, Result};
use live::Config;
use nvme::quota::{Quota, QuotaKind};

use super::{scale::Scale, variants::set_quota};
use lab_databases::drive::create_namespace;
use lab_engines::stage::{HostJob, INTERVAL, SimStage, Stage, no_script};
use lab_report::{
    control::Cancel,
    results::{Cpu, Run},
};

/// Namespaces.
pub(super) const COUNT: usize = 8;

/// Which quota a namespace has.
pub(super) fn rate(scale: &Scale, index: usize) -> u64 {
    scale.set[index / (COUNT / 2)]
}

/// What the eight have read.
#[derive(Clone, Debug)]
pub(super) struct Tenants {
    /// MB/s in each interval, by namespace.
    pub over_time: Vec<Vec<f64>>,
    /// Their runs for the results.
    pub runs: Vec<Run>,
    /// Seconds from the start until quotas were set.
    pub lead: f64,
    /// Seconds after that until every namespace stayed within 5 % of its quota.
    pub settled: Option<f64>,
}

/// Bytes of a namespace that are read.
fn span(scale: &Scale, size: u64) -> u64 {
    scale.span.min(size)
}

/// The drive with its eight namespaces, written once as far as they are read.
pub(super) fn prepare(profile: &toml::Table, scale: &Scale, live: bool, cancel: &Cancel) -> Result<SimStage> {
    let mut toml = profile.clone();
    toml.remove("namespace");
    let config = Config::from_toml(&toml::to_string(&toml)?)?;
    let mut stage = SimStage::new(config, COUNT, live, cancel)?;
    let set = stage.manager().nvm_sets()?.into_iter().find(|set| set.nvmsetid.get() == 1);
    let capacity = set.context("the drive has no NVM Set 1")?.unvmsetcap.get();
    let each = u64::try_from(capacity / COUNT as u128).unwrap_or(u64::MAX) >> 20 << 20;
    let mut loads = Vec::new();
    for host in 0..COUNT {
        let nsid = create_namespace(stage.manager(), 1, each, 4096, None)?;
        let job = format!("rw=write\nbs=128k\niodepth=8\nsize={}\n", span(scale, each));
        loads.push(HostJob { host, nsid, job });
    }
    stage.play(&loads, &mut no_script)?;
    Ok(stage)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds")]
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// Runs it: without quotas first, then with them.
#[expect(clippy::cast_precision_loss, reason = "rates for reading")]
pub(super) fn play<S: Stage>(stage: &mut S, scale: &Scale, repetition: u32, seed: u64) -> Result<Tenants> {
    let seconds = scale.lead + scale.flat;
    let nsids = stage.manager().active_namespaces()?;
    let first = *nsids.first().context("the drive has no namespace")?;
    let size = u64::try_from(stage.manager().namespace(first)?.bytes()).unwrap_or(u64::MAX);
    let loads: Vec<HostJob> = (0..COUNT)
        .zip(&nsids)
        .map(|(host, &nsid)| {
            let job = format!(
                "rw=read\nbs=128k\niodepth=16\nsize={}\ntime_based\nruntime={}ms\nrandseed={seed}\n",
                span(scale, size),
                nanos(seconds) / 1_000_000
            );
            HostJob { host, nsid, job }
        })
        .collect();
    for &nsid in &nsids {
        set_quota(stage.manager(), nsid, &Quota::unlimited())?;
    }
    let lead = nanos(scale.lead);
    let played = stage.play(&loads, &mut |host, now| {
        if now < lead {
            return Ok(Some(lead));
        }
        for (index, &nsid) in nsids.iter().enumerate() {
            let mut quota = Quota::unlimited();
            quota.set_limit(QuotaKind::ReadBandwidth, Some(rate(scale, index)));
            set_quota(host, nsid, &quota)?;
        }
        Ok(None)
    })?;
    let per_interval = INTERVAL as f64 / 1e9;
    // The last interval may be a part of one.
    let count = (nanos(seconds) / INTERVAL) as usize;
    let over_time: Vec<Vec<f64>> = played
        .loads
        .iter()
        .map(|ran| {
            let mut rates: Vec<f64> = ran.bytes.iter().map(|b| *b as f64 / 1e6 / per_interval).collect();
            rates.resize(count, 0.0);
            rates
        })
        .collect();
    let first = (lead / INTERVAL) as usize;
    let settled = settled(&over_time, scale, first);
    // The second half of the time with quotas.
    let from = first + (count - first) / 2;
    let mut runs = Vec::new();
    for (index, rates) in over_time.iter().enumerate() {
        let window = &rates[from..];
        let mean = window.iter().sum::<f64>() / window.len().max(1) as f64;
        let mut run = Run {
            repetition,
            seconds: window.len() as f64 * per_interval,
            cpu: Cpu { by_process: played.cpu.by_process.clone(), ..played.cpu.clone() },
            per_second: played.loads[index]
                .bytes
                .chunks((1_000_000_000 / INTERVAL) as usize)
                .map(|c| c.iter().sum())
                .collect(),
            warmup_seconds: from as f64 * per_interval,
            ..Run::default()
        };
        run.metrics.insert("read_MBps".into(), mean);
        run.metrics.insert("set_MBps".into(), rate(scale, index) as f64 / 1e6);
        runs.push(run);
    }
    Ok(Tenants { over_time, runs, lead: scale.lead, settled })
}

/// When all were at their quotas for good, in seconds since these were set; averaged over 4 intervals, because commands of 128 KiB
/// are a tenth of what the small ones may read in one.
#[expect(clippy::cast_precision_loss, reason = "rates for reading")]
fn settled(over_time: &[Vec<f64>], scale: &Scale, first: usize) -> Option<f64> {
    // Intervals.
    const SPAN: usize = 4;
    let mut since = first;
    for (index, rates) in over_time.iter().enumerate() {
        let wanted = rate(scale, index) as f64 / 1e6;
        let windows = rates.len().checked_sub(SPAN)?;
        let off = (first..=windows).rev().find(|&at| {
            let mean = rates[at..at + SPAN].iter().sum::<f64>() / SPAN as f64;
            (mean / wanted - 1.0).abs() > 0.05
        });
        match off {
            Some(at) if at == windows => return None,
            Some(at) => since = since.max(at + 1),
            None => {}
        }
    }
    Some((since - first) as f64 * INTERVAL as f64 / 1e9)
}
