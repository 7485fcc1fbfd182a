//! Runs a modelled server on its drive in virtual time.
//!
//! First the drive is written once and overwritten at random. The largest number of connections then loads it until garbage collection
//! fits this load. Each number of connections is measured, the largest first. A point whose figures still change at the end of its window
//! is measured again, up to a limit.

use anyhow::{Context, Result, bail};
use database_models::innodb::{Config, Counts, Innodb, PAGE};
use sim::{Actors, Nanos, Sim, SimTransport};

use super::{
    drive::{self, StudyVolumes},
    figures::{latencies, metrics, whole},
    fitted, live,
    settings::{Model, ServerLoad, WINDOWS},
    variant::Variant,
};
use lab_engines::{
    sim::{Cache, usual_cache},
    sweep::Profiles,
};
use lab_report::{
    control::{Cancel, Control, Steps},
    counters::{Counters, NamespaceCounts},
    figure::{show, show_size},
    limits::range,
    results::{Point, Run, Variant as VariantRuns},
};

const SECOND: u64 = 1_000_000_000;

/// How far the last two thirds of a window may be apart, in percent, for it to be settled: in throughput and in write amplification.
pub const SETTLED_PERCENT: f64 = 5.0;

/// Runs a modelled server with settings of its own. The result is that of the study for this layout and number of connections.
///
/// # Errors
/// A setting that makes no sense, a drive that is too small; an interruption.
pub fn run(model: &Model, profiles: &Profiles<'_>, control: &Control) -> Result<VariantRuns> {
    model.tuning.check()?;
    range("aging", Some(model.aging), 1, 86_400)?;
    let load = ServerLoad {
        connections: vec![model.connections],
        warehouses: model.warehouses,
        buffer_pool: model.buffer_pool,
        tuning: model.tuning.clone(),
        drive: model.drive.clone(),
        aging: model.aging,
        warmup: model.warmup,
        seconds: model.seconds,
        windows: WINDOWS,
        seed: model.seed,
        like_live: false,
    };
    load.check()?;
    let toml = profiles(&load.drive)?;
    let progress = Steps::new(control, 2);
    let cache = Cache::new(usual_cache());
    let drive = ServerDrive::new(&load, &toml, model.variant, 0, &cache, control.cancel())?;
    let mut runs = Vec::new();
    drive.run(&progress, &mut runs)?;
    Ok(VariantRuns {
        name: model.variant.name().into(),
        description: model.variant.description().into(),
        runs,
    })
}

/// A drive with the hosts and namespaces of a variant.
pub struct ServerDrive<'a> {
    load: &'a ServerLoad,
    variant: Variant,
    repetition: u32,
    sim: Sim,
    host: host::Host<SimTransport>,
    volumes: StudyVolumes,
    cancel: &'a Cancel,
}

impl<'a> ServerDrive<'a> {
    /// A drive that was made, or kept, for this variant, with the hosts and namespaces that it needs.
    ///
    /// # Errors
    /// The TOML is no such drive; an interruption.
    pub fn new(
        load: &'a ServerLoad,
        toml: &toml::Table,
        variant: Variant,
        repetition: u32,
        cache: &Cache,
        cancel: &'a Cancel,
    ) -> Result<Self> {
        let (sim, host, volumes) =
            drive::make(toml, variant, &load.drive, load.like_live, cache, load.seed, cancel)?;
        Ok(Self { load, variant, repetition, sim, host, volumes, cancel })
    }

    /// Runs the load with all numbers of connections.
    ///
    /// # Errors
    /// The drive has no room for the database, a command failed; an interruption.
    pub fn run(mut self, progress: &Steps, runs: &mut Vec<Run>) -> Result<()> {
        let (load, variant) = (self.load, self.variant);
        if !self.volumes.prepared {
            let end = self.model(1)?.areas().end();
            drive::age(&self.sim, end, load.seed, self.cancel)?;
        }
        self.cancel.check()?;
        // The state that the most connections leave is near that of the next fewer ones.
        let mut levels = load.connections.clone();
        levels.sort_unstable_by(|a, b| b.cmp(a));
        self.measure(levels.first().copied().unwrap_or(1), load.aging, 0)?;
        progress.done(&format!("{variant}: preparing the drive"), "");
        for threads in levels {
            let run = self.measure(threads, load.warmup, load.seconds)?;
            progress.done(&format!("{variant}, {threads} connections"), &summary(&run));
            runs.push(run);
        }
        Ok(())
    }

    fn config(&self, threads: u32) -> Config {
        let load = self.load;
        let seed = load.seed.wrapping_add(u64::from(self.repetition));
        let mut config = match load.like_live {
            false => fitted::config(threads, self.volumes.data, seed),
            true => live::config(threads, self.volumes.data, seed),
        };
        config.warehouses = load.warehouses;
        config.pool_pages = u32::try_from(load.buffer_pool >> 14).unwrap_or(u32::MAX);
        config.copies = self.volumes.copies;
        match &mut config.doublewrite {
            Some(doublewrite) if self.variant.doublewrite() => {
                doublewrite.namespace = u16::from(self.volumes.copies.is_some());
            }
            _ => config.doublewrite = None,
        }
        load.tuning.apply(&mut config);
        config
    }

    fn model(&self, threads: u32) -> Result<Innodb> {
        Innodb::new(self.config(threads)).with_context(|| {
            format!("the drive {:?} has no room for the logs and the doublewrite buffer", self.load.drive)
        })
    }

    fn counters(&mut self) -> Result<Vec<Counters>> {
        let nsids = self.volumes.nsids();
        nsids.iter().map(|&nsid| Ok(Counters::read(&mut self.host, nsid)?)).collect()
    }

    fn counted(&self, before: &[Counters], after: &[Counters]) -> Vec<NamespaceCounts> {
        let names = [("data", "nand"), ("doublewrite", self.variant.medium().unwrap_or("nand"))];
        (1..)
            .zip(names)
            .zip(before.iter().zip(after))
            .map(|((nsid, (name, medium)), (before, after))| NamespaceCounts {
                name: name.into(),
                nsid,
                set: u16::try_from(nsid).unwrap_or(1),
                medium: medium.into(),
                counted: after.since(before),
            })
            .collect()
    }

    /// Runs the load, and measures so many seconds of it after the warm-up, again if it has not settled by then.
    fn measure(&mut self, threads: u32, warmup: u64, seconds: u64) -> Result<Run> {
        let mut model = self.model(threads)?;
        let pages = u64::from(self.config(threads).pool_pages);
        // Until every frame has been used several times; at a pace near that which will be found.
        let cancel = self.cancel;
        model.warm(pages / fitted::PAGES_PER_TRANSACTION * 4, fitted::interval(threads), || {
            !cancel.is_cancelled()
        });
        cancel.check()?;
        let mut actors: Actors<Innodb> = self.sim.actors();
        let at = actors.add_over(&mut self.host, self.volumes.nsids(), model)?;
        let begin = self.sim.now();
        let (mut per_second, cancel) = (Vec::new(), self.cancel);
        let mut step = |actors: &mut Actors<Innodb>, count: u64| -> Result<()> {
            for _ in 0..count {
                let before = actors.actor(at).counts();
                let until = begin + Nanos((per_second.len() as u64 + 1) * SECOND);
                actors.run(until, |_| false);
                let counts = actors.actor(at).counts();
                per_second.push(counts.since(&before).transactions[0]);
                if counts.failed > 0 {
                    bail!("{} commands failed", counts.failed);
                }
                cancel.check()?;
            }
            Ok(())
        };
        step(&mut actors, warmup)?;
        let (mut samples, mut drifts) = (Vec::new(), Vec::new());
        let mut windows = 0;
        while windows < self.load.windows {
            windows += 1;
            actors.actor_mut(at).forget_latencies();
            samples = vec![(self.counters()?, actors.actor(at).counts())];
            // Thirds show whether it has settled.
            let third = seconds / 3;
            for count in [third, third, seconds - 2 * third] {
                step(&mut actors, count)?;
                samples.push((self.counters()?, actors.actor(at).counts()));
            }
            let thirds: Vec<_> = samples
                .windows(2)
                .map(|pair| {
                    let orders = pair[1].1.since(&pair[0].1).transactions[0];
                    (orders, self.counted(&pair[0].0, &pair[1].0))
                })
                .collect();
            drifts = drift(&thirds, seconds);
            // Windows too short for thirds say nothing.
            if third == 0 || drifts.iter().all(|(_, percent)| percent.abs() <= SETTLED_PERCENT) {
                break;
            }
        }
        let model = actors.actor(at);
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        let folded = (model.data_pages() * PAGE) as f64 / model.areas().data.bytes as f64;
        let latency_ms = latencies(model.latencies(), model.commits());
        let dirty = model.dirty_per_mille();
        actors.actor_mut(at).stop();
        actors.run(Nanos::MAX, |_| false);
        let [first, .., last] = &samples[..] else { bail!("nothing was measured") };
        let namespaces = self.counted(&first.0, &last.0);
        let counts = last.1.since(&first.1);
        #[expect(clippy::cast_precision_loss, reason = "a few minutes")]
        let (length, before) = (seconds as f64, (warmup + (windows - 1) * seconds) as f64);
        let mut metrics = metrics(counts.transactions[0], length, &namespaces);
        metrics.extend(more(&counts, length, dirty));
        let settled = drifts.iter().all(|(_, percent)| percent.abs() <= SETTLED_PERCENT);
        metrics.insert("settled".into(), f64::from(u8::from(settled)));
        metrics.insert("folded".into(), folded);
        metrics.extend(drifts);
        Ok(Run {
            at: Point::from([("threads".into(), threads.into())]),
            repetition: self.repetition,
            seconds: length,
            metrics,
            latency_ms,
            namespaces,
            per_second,
            warmup_seconds: before,
            ..Run::default()
        })
    }
}

fn summary(run: &Run) -> String {
    let metric = |name: &str| run.metrics.get(name).copied().unwrap_or(0.0);
    format!(
        "{} tpmC, {} of NAND writes per new order, write amplification {}",
        show(metric("tpmC")),
        show_size(whole(metric("nand_bytes_per_new_order"))),
        show(metric("write_amplification_nand"))
    )
}

/// The model's own figures.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn more(counts: &Counts, seconds: f64, dirty: u64) -> Vec<(String, f64)> {
    let orders = counts.transactions[0].max(1) as f64;
    let each = |value: u64| value as f64 / orders;
    let ms = |value: u64| value as f64 / orders / 1e6;
    [
        ("page_reads_per_new_order", each(counts.page_reads)),
        ("page_writes_per_new_order", each(counts.page_writes)),
        ("log_bytes_per_new_order", each(counts.log_bytes)),
        ("commits_per_group", counts.commits as f64 / counts.groups.max(1) as f64),
        ("read_wait_ms_per_new_order", ms(counts.read_wait)),
        ("free_wait_ms_per_new_order", ms(counts.free_wait)),
        ("commit_wait_ms_per_new_order", ms(counts.commit_wait)),
        ("processor_ms_per_new_order", ms(counts.processor)),
        ("processors_busy", counts.busy as f64 / 1e9 / seconds.max(1e-9)),
        ("dirty_pages_percent", dirty as f64 / 10.0),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// How far the last two thirds of the window are apart, in percent: throughput and write amplification.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn drift(thirds: &[(u64, Vec<NamespaceCounts>)], seconds: u64) -> Vec<(String, f64)> {
    let [_, second, third] = thirds else { return Vec::new() };
    let of = |(orders, namespaces): &(u64, Vec<NamespaceCounts>), seconds: u64| {
        let metrics = metrics(*orders, seconds as f64, namespaces);
        ["tpmC", "write_amplification_nand"].map(|name| metrics.get(name).copied().unwrap_or(0.0))
    };
    let length = seconds / 3;
    let (a, b) = (of(second, length), of(third, seconds - 2 * length));
    ["drift_tpmC_percent", "drift_write_amplification_percent"]
        .into_iter()
        .zip(a.into_iter().zip(b))
        .map(|(name, (a, b))| (name.to_owned(), (b / a.max(1e-9) - 1.0) * 100.0))
        .collect()
}
