//! `tranche study doublewrite --sim`: the published server and database as a model ([`workload::innodb`]), on the published drive in virtual
//! time.
//!
//! Each variant has a drive of its own, on a processor of its own. The drive is written once, overwritten at random, and loaded with the
//! most connections for a while, so that garbage collection is in the state that this load makes. Then it is measured with each number of
//! connections, the most first. A point whose figures still move at the end of its window is measured again, a few times at most.

pub(crate) mod drive;
pub(crate) mod fitted;
pub(super) mod live;
mod report;
pub mod server;
#[cfg(test)]
mod tests;

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use run::sim::{Actors, Nanos, Sim, SimTransport};
use workload::innodb::{Config, Counts, Innodb, PAGE};

pub(super) use self::server::{AGING, DEFAULT_PROFILE};
use self::{drive::StudyVolumes, server::Model};
use super::{Options, Settings, Variant, latencies, metrics, published, report as common, whole};
use crate::{
    Findings,
    control::{self, Cancel, Control, Interrupted, Steps},
    counters::{Counters, NamespaceCounts},
    figure::{show, show_size},
    limits::range,
    memory, parallel,
    results::{Host, Point, Results, Run},
    sim::{Cache, usual_cache},
    sweep::{Profiles, Study},
};

const SECOND: u64 = 1_000_000_000;

/// Seconds for which a quick run loads the drive before anything is measured.
pub(super) const QUICK_AGING: u64 = 10;

/// Windows in which a point may come to rest. The first that is settled counts, else the last.
const WINDOWS: u64 = 4;

/// How far the last two thirds of a window may be apart, in percent, for it to be settled: in throughput and in write amplification.
const SETTLED: f64 = 5.0;

/// Memory of a server's model beside its drive: a pool of 16 GiB has a million frames.
const SERVER: u64 = 256 << 20;

/// What became of a variant.
#[derive(Default)]
struct PieceResult {
    runs: Vec<Run>,
    error: Option<anyhow::Error>,
}

/// Runs the study and writes its results.
///
/// # Errors
/// A profile that does not exist or is too small, a directory that cannot be written; an interruption before there was anything to report.
pub(super) fn run_on(
    options: &Settings,
    profiles: &Profiles<'_>,
    control: &Control,
) -> Result<Findings<Results>> {
    let toml = profiles(&options.drive)?;
    crate::results::directory(&options.out)?;
    let pieces: Vec<(Variant, u32)> =
        options.variants.iter().flat_map(|&v| (0..options.repeat).map(move |r| (v, r))).collect();
    let steps = pieces.len() * (options.connections.len() + 1);
    let progress = Steps::new(control, steps as u64);
    let cache = Cache::new(usual_cache());
    let begin = Instant::now();
    // Drives that do not fit in memory together come one after the other.
    let each = options
        .variants
        .iter()
        .map(|&v| drive::config(&toml, v, &options.drive).map(|c| Sim::memory(&c, run::sim::Contents::None)));
    let each = each.collect::<Result<Vec<_>>>()?.into_iter().max().unwrap_or(0) + SERVER;
    let together = parallel::width(pieces.len());
    let room = memory::available().map(memory::spendable);
    if let Some(room) = room.filter(|room| *room < each) {
        progress.note(&format!(
            "a drive takes about {} of memory, and {} are free with a margin: it may not fit",
            show_size(each),
            show_size(room)
        ));
    }
    let alone = room.is_some_and(|room| room / together < each) && together > 1;
    if alone {
        progress.note(&format!(
            "drives of about {} of memory run one after the other: {} are free with a margin",
            show_size(each),
            show_size(room.unwrap_or(0))
        ));
    }
    let alone = alone.then(Mutex::default);
    let done = parallel::map(control, &pieces, |&(variant, repetition)| {
        let _turn =
            alone.as_ref().map(|turn: &Mutex<()>| turn.lock().unwrap_or_else(PoisonError::into_inner));
        let mut result = PieceResult::default();
        let stage = VariantDrive::new(options, &toml, variant, repetition, &cache, control.cancel());
        let ran = stage.and_then(|stage| stage.run(&progress, &mut result.runs));
        result.error = ran.err();
        result
    });
    drop(progress);
    let mut variants: Vec<crate::results::Variant> = Vec::new();
    let mut interrupted = false;
    for (&(variant, _), done) in pieces.iter().zip(done) {
        if let Some(error) = done.error {
            if !error.is::<Interrupted>() {
                return Err(error).with_context(|| format!("in variant {variant}"));
            }
            interrupted = true;
        }
        match variants.iter_mut().find(|v| v.name == variant.name()) {
            Some(found) => found.runs.extend(done.runs),
            None => variants.push(crate::results::Variant {
                name: variant.name().into(),
                description: variant.description().into(),
                runs: done.runs,
            }),
        }
    }
    if variants.iter().all(|v| v.runs.is_empty()) {
        return Err(Interrupted.into());
    }
    for variant in &mut variants {
        variant.runs.sort_by_key(|run| (run.repetition, run.at.get("threads").copied()));
    }
    let mut results = Results {
        study: "doublewrite".into(),
        engine: "sim",
        seed: options.seed,
        drive: serde_json::json!({
            "profile": options.drive,
            "toml": drive::toml(&toml, Variant::Nand, &options.drive)?,
        }),
        host: Host::this(vec![report::modelled(options).into()]),
        comparisons: options.comparisons(&variants)?,
        variants,
        notes: Vec::new(),
    };
    let mut notes = report::notes(&results, options);
    notes.push(effort(begin.elapsed()));
    results.note(notes, options.quick);
    results.write(&options.out)?;
    let page = options.out.join("report.html");
    common::write(&results, &page, report::answer(&results, options), report::sections(&results, options))?;
    let text = report::text(&results, options, &page);
    let failure = interrupted.then(|| control::PARTIAL.to_owned());
    Ok(Findings { results, written: Some(options.out.clone()), text, failure })
}

/// Runs a modelled server with settings of its own. The result is that of the study for this layout and number of connections.
///
/// # Errors
/// A setting that makes no sense, a drive that is too small; an interruption.
pub fn run_model(
    model: &Model,
    profiles: &Profiles<'_>,
    control: &Control,
) -> Result<crate::results::Variant> {
    model.tuning.check()?;
    range("aging", Some(model.aging), 1, 86_400)?;
    let settings = Settings::new(&Options {
        sim: true,
        connections: vec![model.connections],
        variants: vec![model.variant],
        warehouses: Some(model.warehouses),
        seconds: Some(model.seconds),
        warmup: Some(model.warmup),
        buffer_pool: Some(model.buffer_pool),
        drive: Some(model.drive.clone()),
        seed: model.seed,
        ..Options::default()
    })?;
    let settings = Settings { aging: model.aging, tuning: model.tuning.clone(), ..settings };
    let toml = profiles(&settings.drive)?;
    let progress = Steps::new(control, 2);
    let cache = Cache::new(usual_cache());
    let drive = VariantDrive::new(&settings, &toml, model.variant, 0, &cache, control.cancel())?;
    let mut runs = Vec::new();
    drive.run(&progress, &mut runs)?;
    Ok(crate::results::Variant {
        name: model.variant.name().into(),
        description: model.variant.description().into(),
        runs,
    })
}

/// What the study took of this machine.
fn effort(time: Duration) -> String {
    let memory = memory::peak().map_or(String::new(), |bytes| format!(" and {} of memory", show_size(bytes)));
    format!("It took {:.1} minutes{memory}.", time.as_secs_f64() / 60.0)
}

/// Repeats the study on every drive of `--set`.
///
/// # Errors
/// A setting that makes no sense, and like [`run_on`].
pub(super) fn sweep_on(
    options: &Settings,
    set: &[String],
    profiles: &Profiles<'_>,
    control: &Control,
) -> Result<Findings<serde_json::Value>> {
    let drive = |toml: &toml::Table, variant| drive::config(toml, variant, &options.drive);
    Study {
        name: "doublewrite",
        profile: &options.drive,
        toml: &profiles(&options.drive)?,
        seed: options.seed,
        out: &options.out,
        drives: &|toml| options.variants.iter().map(|&variant| drive(toml, variant)).collect(),
        run: &|toml, seed, out, control| {
            let options = Settings { seed, out: out.to_owned(), ..options.clone() };
            run_on(&options, &|_| Ok(toml.clone()), control)
        },
    }
    .sweep(set, control)
}

/// A drive with the hosts and namespaces of a variant.
struct VariantDrive<'a> {
    options: &'a Settings,
    variant: Variant,
    repetition: u32,
    sim: Sim,
    host: host::Host<SimTransport>,
    volumes: StudyVolumes,
    cancel: &'a Cancel,
}

impl<'a> VariantDrive<'a> {
    /// A drive that was made, or kept, for this variant, with the hosts and namespaces that it needs.
    fn new(
        options: &'a Settings,
        toml: &toml::Table,
        variant: Variant,
        repetition: u32,
        cache: &Cache,
        cancel: &'a Cancel,
    ) -> Result<Self> {
        let (like_live, seed) = (options.like.is_some(), options.seed);
        let (sim, host, volumes) =
            drive::make(toml, variant, &options.drive, like_live, cache, seed, cancel)?;
        Ok(Self { options, variant, repetition, sim, host, volumes, cancel })
    }

    /// Runs the load with all numbers of connections.
    fn run(mut self, progress: &Steps, runs: &mut Vec<Run>) -> Result<()> {
        let (options, variant) = (self.options, self.variant);
        if !self.volumes.prepared {
            let end = self.model(1)?.areas().end();
            drive::age(&self.sim, end, options.seed, self.cancel)?;
        }
        self.cancel.check()?;
        // The state that the most connections leave is near that of the next fewer ones.
        let mut levels = options.connections.clone();
        levels.sort_unstable_by(|a, b| b.cmp(a));
        self.load(levels.first().copied().unwrap_or(1), options.aging, 0)?;
        progress.done(&format!("{variant}: preparing the drive"), "");
        for threads in levels {
            let run = self.load(threads, options.warmup, options.seconds)?;
            progress.done(&format!("{variant}, {threads} connections"), &summary(&run));
            runs.push(run);
        }
        Ok(())
    }

    fn config(&self, threads: u32) -> Config {
        let options = self.options;
        let seed = options.seed.wrapping_add(u64::from(self.repetition));
        let mut config = match &options.like {
            None => fitted::config(threads, self.volumes.data, seed),
            Some(_) => live::config(threads, self.volumes.data, seed),
        };
        config.warehouses = options.warehouses;
        config.pool_pages = u32::try_from(options.buffer_pool >> 14).unwrap_or(u32::MAX);
        config.copies = self.volumes.copies;
        match &mut config.doublewrite {
            Some(doublewrite) if self.variant.doublewrite() => {
                doublewrite.namespace = u16::from(self.volumes.copies.is_some());
            }
            _ => config.doublewrite = None,
        }
        options.tuning.apply(&mut config);
        config
    }

    fn model(&self, threads: u32) -> Result<Innodb> {
        Innodb::new(self.config(threads)).with_context(|| {
            format!("the drive {:?} has no room for the logs and the doublewrite buffer", self.options.drive)
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
    fn load(&mut self, threads: u32, warmup: u64, seconds: u64) -> Result<Run> {
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
        let most = if self.options.quick { 1 } else { WINDOWS };
        while windows < most {
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
            if third == 0 || drifts.iter().all(|(_, percent)| percent.abs() <= SETTLED) {
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
        let settled = drifts.iter().all(|(_, percent)| percent.abs() <= SETTLED);
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
