//! A piece of the study: one cache, made anew, with the loads on it.

use std::collections::BTreeMap;

use anyhow::Result;
use tier::{Mode, PolicyKind};

use super::{
    designs,
    options::{Options, Part},
    setup::{Design, Load, LoadKind, Made, Places, SKEWED_FILE, SKEWED_LOAD, Ssd, WARMING_LOAD},
    testbed::{DriveTables, Outcome, Testbed},
};
use lab_engines::machine::CacheSizes;
use lab_report::{
    control::Control,
    figure::{show, show_size},
    pieces,
    results::{Point, Run, seed_of},
};

/// Chunks that are tried.
pub(super) const CHUNKS: [u64; 8] =
    [32 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20, 4 << 20, 64 << 20, 1 << 30];
/// Policies that are tried.
pub(super) const POLICIES: [PolicyKind; 3] = [PolicyKind::Mq, PolicyKind::SmqBefore412, PolicyKind::Smq];
/// Modes that are tried.
pub(super) const MODES: [Mode; 3] = [Mode::Writeback, Mode::Writethrough, Mode::Passthrough];

/// The load whose warming is watched.
const WATCHED_LOAD: Load = Load { kind: LoadKind::Read, block: 4 << 10, depth: 1, places: Places::Uniform };

#[derive(Clone, Copy, PartialEq, Debug)]
enum What {
    /// All loads, cold and warm.
    Modes,
    /// The skewed load, and which of the points it is.
    Chunks,
    /// The watched load.
    Warming,
    /// Everything with one design.
    Design(Design),
}

/// A piece.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Piece {
    what: What,
    /// `None`: the disk alone.
    made: Option<Made>,
    repetition: u32,
}

/// Times of loads in microseconds.
struct Times {
    /// A load that is measured.
    measured: u64,
    /// The longest warming up.
    warming: u64,
    /// The skewed load, of which the second half is measured.
    skewed: u64,
    /// One step of the watched load.
    step: u64,
    /// How many of them.
    steps: u64,
}

impl Times {
    fn of(options: &Options) -> Self {
        const SECOND: u64 = 1_000_000;
        match options.quick {
            true => Self {
                measured: 2 * SECOND,
                warming: 60 * SECOND,
                skewed: 20 * SECOND,
                step: 5 * SECOND,
                steps: 4,
            },
            false => Self {
                measured: 10 * SECOND,
                warming: 7_200 * SECOND,
                skewed: 400 * SECOND,
                step: 60 * SECOND,
                steps: 40,
            },
        }
    }
}

/// All pieces of the parts that are asked for.
pub(super) fn pieces(options: &Options) -> Vec<Piece> {
    let mut all = Vec::new();
    for repetition in 0..options.repeat {
        let mut add = |what, made| all.push(Piece { what, made, repetition });
        for part in &options.parts {
            match part {
                Part::Modes => {
                    add(What::Modes, None);
                    for ssd in [Ssd::Nvme, Ssd::Sas] {
                        MODES.iter().for_each(|mode| add(What::Modes, Some(Made::usual(ssd, *mode))));
                    }
                }
                Part::Chunks => {
                    for chunk in CHUNKS {
                        let usual = Made { chunk, ..Made::usual(Ssd::Nvme, Mode::Writeback) };
                        POLICIES.iter().for_each(|&policy| add(What::Chunks, Some(Made { policy, ..usual })));
                        if chunk >= 1 << 20 {
                            add(What::Chunks, Some(usual.with_eight_chunks()));
                        }
                    }
                }
                Part::Designs => Design::ALL.into_iter().for_each(|design| add(What::Design(design), None)),
                Part::Warming => {
                    let usual = Made::usual(Ssd::Nvme, Mode::Writeback);
                    POLICIES.iter().for_each(|&policy| add(What::Warming, Some(Made { policy, ..usual })));
                }
            }
        }
    }
    all
}

/// The variant of a policy in the part of chunks; with room for eight chunks, or as the kernel has it.
pub(super) fn chunk_variant(policy: PolicyKind, eight: bool) -> String {
    format!("chunks-{policy}{}", if eight { "-8-chunks" } else { "" })
}

/// The variant of a policy in the part of warming.
pub(super) fn warming_variant(policy: PolicyKind) -> String {
    format!("warming-{policy}")
}

/// The variant of a cache in the part of modes.
pub(super) fn mode_variant(ssd: Ssd, mode: Mode) -> String {
    format!("{}-{mode}", ssd.name())
}

impl pieces::Piece<(&Options, DriveTables)> for Piece {
    fn variant(&self) -> (String, String) {
        (self.variant_name(), self.about())
    }

    fn name(&self) -> String {
        match self.made {
            Some(made) if self.what == What::Chunks => {
                format!("{} of {}", self.variant_name(), show_size(made.chunk))
            }
            _ => self.variant_name(),
        }
    }

    fn run(&self, (options, tables): &(&Options, DriveTables), control: &Control) -> Result<Vec<Run>> {
        control.check()?;
        let seed = seed_of(options.seed, self.repetition);
        if let What::Design(design) = self.what {
            let metrics = designs::run(design, options, tables, seed, control)?;
            return Ok(metrics
                .into_iter()
                .map(|(at, micros, metrics)| self.result(at, micros, metrics))
                .collect());
        }
        let bed = Testbed::new(options, tables, self.made, seed)?;
        let times = Times::of(options);
        match self.what {
            What::Design(_) => Ok(Vec::new()),
            What::Modes => self.modes(&bed, options, &times, seed, control),
            What::Chunks => self.chunks(&bed, &times, seed, control),
            What::Warming => self.warming(&bed, options, &times, seed, control),
        }
    }

    fn summary(&self, runs: &[Run]) -> String {
        let of = |metric: &str| runs.last().and_then(|run| run.metrics.get(metric)).map(|value| show(*value));
        let first = Load::all().first().map(|load| load.metric("iops")).unwrap_or_default();
        let iops = of("iops").or_else(|| of(&first)).unwrap_or_default();
        match of("hit_percent") {
            Some(hits) => format!("{iops} IOPS, {hits} % hits"),
            None => format!("{iops} IOPS"),
        }
    }
}

impl Piece {
    /// The variant that it belongs to.
    fn variant_name(&self) -> String {
        let Some(made) = self.made else {
            return match self.what {
                What::Design(design) => design.variant(),
                _ => "hdd".into(),
            };
        };
        match self.what {
            What::Design(design) => design.variant(),
            What::Modes => mode_variant(made.ssd, made.mode),
            What::Chunks => {
                let usual = Made { chunk: made.chunk, ..Made::usual(made.ssd, made.mode) };
                chunk_variant(made.policy, made.threshold != usual.threshold)
            }
            What::Warming => warming_variant(made.policy),
        }
    }

    /// What the variant is, in a sentence.
    fn about(&self) -> String {
        let Some(made) = self.made else {
            return match self.what {
                What::Design(design) => design.about(),
                _ => "The hard disk alone.".into(),
            };
        };
        let cache = format!("a cache on the {} drive, policy {}", made.ssd.name(), made.policy);
        match self.what {
            What::Design(design) => design.about(),
            What::Modes => format!(
                "The disk behind {cache}, in {} mode, chunks of {}.",
                made.mode,
                show_size(made.chunk)
            ),
            What::Chunks => format!(
                "The disk behind {cache}, chunks of several sizes, a threshold of {} sectors.",
                made.threshold
            ),
            What::Warming => {
                format!("The disk behind {cache}, chunks of {}, cold at first.", show_size(made.chunk))
            }
        }
    }

    /// A run of these figures.
    fn result(&self, at: Point, micros: u64, metrics: BTreeMap<String, f64>) -> Run {
        let seconds = std::time::Duration::from_micros(micros).as_secs_f64();
        Run { at, repetition: self.repetition, seconds, metrics, ..Run::default() }
    }

    /// The first reads of a cold cache, then, when it is warm, every load.
    fn modes(
        &self,
        bed: &Testbed,
        options: &Options,
        times: &Times,
        seed: u64,
        control: &Control,
    ) -> Result<Vec<Run>> {
        let mut metrics = BTreeMap::new();
        let loads = Load::all();
        let measure =
            |load: &Load, seed| bed.run(load, options.file, times.measured, seed, control, |_| false);
        let cold = measure(&loads[0], seed)?;
        metrics.insert("cold_read_4k_qd1_iops".into(), cold.played.iops());
        if let Some(made) = self.made.filter(|made| made.mode != Mode::Passthrough) {
            let chunks = u32::try_from(options.file / made.chunk).unwrap_or(u32::MAX);
            let warm =
                bed.run(&WARMING_LOAD, options.file, times.warming, seed ^ 1, control, |resident| {
                    resident >= chunks
                })?;
            metrics.insert("warming_seconds".into(), warm.played.seconds);
            metrics
                .insert("warm_percent".into(), f64::from(warm.resident) * 100.0 / f64::from(chunks.max(1)));
        }
        for (number, load) in (2..).zip(&loads) {
            let Outcome { played, hit_percent, dirty, .. } = measure(load, seed ^ number)?;
            metrics.insert(load.metric("iops"), played.iops());
            metrics.insert(load.metric("mean_us"), played.mean_us());
            if self.made.is_some() {
                metrics.insert(load.metric("hit_percent"), hit_percent);
                metrics.insert(load.metric("dirty_chunks"), dirty.into());
            }
        }
        Ok(vec![self.result(Point::new(), times.measured, metrics)])
    }

    /// The second half of the skewed load.
    fn chunks(&self, bed: &Testbed, times: &Times, seed: u64, control: &Control) -> Result<Vec<Run>> {
        let half = times.skewed / 2;
        let first = bed.run(&SKEWED_LOAD, SKEWED_FILE, half, seed, control, |_| false)?;
        let second = bed.run(&SKEWED_LOAD, SKEWED_FILE, half, seed ^ 1, control, |_| false)?;
        let chunk = self.made.map_or(0, |made| made.chunk);
        let mut metrics = figures(&second);
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        for (name, value) in [
            ("promotions", first.promotions + second.promotions),
            ("demotions", first.demotions + second.demotions),
            ("promoted_MB", (first.promotions + second.promotions) * chunk / 1_000_000),
        ] {
            metrics.insert(name.into(), value as f64);
        }
        let share = u64::from(second.resident) * chunk * 100 / CacheSizes::PUBLISHED.cache;
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        metrics.insert("cache_percent".into(), share as f64);
        Ok(vec![self.result(Point::from([("chunk_KiB".into(), chunk >> 10)]), half, metrics)])
    }

    /// The watched load, step by step.
    fn warming(
        &self,
        bed: &Testbed,
        options: &Options,
        times: &Times,
        seed: u64,
        control: &Control,
    ) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        for step in 1..=times.steps {
            let outcome =
                bed.run(&WATCHED_LOAD, options.file, times.step, seed ^ step, control, |_| false)?;
            let at = Point::from([("seconds".into(), step * times.step / 1_000_000)]);
            runs.push(self.result(at, times.step, figures(&outcome)));
        }
        Ok(runs)
    }
}

/// Figures of one load.
fn figures(outcome: &Outcome) -> BTreeMap<String, f64> {
    let figures = [
        ("iops", outcome.played.iops()),
        ("mean_us", outcome.played.mean_us()),
        ("hit_percent", outcome.hit_percent),
    ];
    figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
