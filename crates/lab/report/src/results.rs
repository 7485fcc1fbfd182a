//! What a study found: the content of `results.json` and `results.csv`.
//!
//! Runs are interleaved (A B C A B C), so runs of the same repetition were made close together in time and are compared
//! with each other; a comparison is the median of these pairs, with the smallest and the largest as its spread.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::counters::NamespaceCounts;

pub use crate::percentiles::Percentiles;

/// Makes the directory that will receive results, and sees that files can be made in it: before the work, not after hours.
///
/// # Errors
/// It cannot be made, or nothing can be written there.
pub fn directory(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
    tempfile::tempfile_in(path).with_context(|| format!("making files in {}", path.display()))?;
    Ok(())
}

/// The runs of a sweep that have ended, in the directory of its results.
pub const JOURNAL: &str = "runs.jsonl";

/// What becomes of the results of an earlier run.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Overwrite {
    /// Overwrite the results of an earlier run in the directory of --out
    #[arg(long)]
    pub force: bool,
}

impl Overwrite {
    /// Checks that the directory `out` has no results, or that they may go.
    ///
    /// # Errors
    /// When it has results and nothing was said of them.
    pub fn check(self, out: &Path) -> Result<()> {
        let found = [JOURNAL, "results.json", "powercut.json"].iter().find(|name| out.join(name).exists());
        match found {
            Some(name) if !self.force => bail!(
                "{} holds the results of an earlier run ({name}): name another directory with --out, {}or overwrite them with --force",
                out.display(),
                if *name == JOURNAL { "continue the sweep with --resume, " } else { "" }
            ),
            _ => Ok(()),
        }
    }

    /// The directory of a run's results: the one that is `named`, or `usual`, with a number behind it if it has results that stay.
    pub fn place(self, named: Option<PathBuf>, usual: &str) -> PathBuf {
        named.unwrap_or_else(|| {
            numbered(usual).find(|out| self.check(out).is_ok()).unwrap_or_else(|| PathBuf::from(usual))
        })
    }

    /// That directory, if the results that it has may go.
    ///
    /// # Errors
    /// As of [`check`](Self::check).
    pub fn directory(self, named: Option<&Path>, usual: &str) -> Result<PathBuf> {
        let place = self.place(named.map(Path::to_owned), usual);
        self.check(&place).map(|()| place)
    }

    /// The last directory of `usual`, with a number behind it, that has results; `usual` if none has.
    pub fn latest(self, usual: &str) -> PathBuf {
        let taken = numbered(usual).take_while(|out| self.check(out).is_err());
        taken.last().unwrap_or_else(|| PathBuf::from(usual))
    }
}

/// A directory, and the same with the numbers from 2 on behind it.
fn numbered(usual: &str) -> impl Iterator<Item = PathBuf> {
    let numbered = (2_u32..).map(move |number| PathBuf::from(format!("{usual}-{number}")));
    std::iter::once(PathBuf::from(usual)).chain(numbered)
}

/// Where in a study's parameter space a run was made: `{"threads": 8}`.
pub type Point = BTreeMap<String, u64>;

/// A published figure to hold ours against.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Published {
    /// The figure.
    pub value: f64,
    /// Its unit; x for a ratio.
    pub unit: String,
    /// Whether it is a ratio or absolute.
    #[schemars(extend("enum" = ["ratio", "absolute"]))]
    pub kind: &'static str,
}

impl Published {
    /// A published ratio.
    pub fn ratio(value: f64) -> Self {
        Self { value, unit: "x".into(), kind: "ratio" }
    }
}

/// A layout or setting that was tried.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Variant {
    /// Short name.
    pub name: String,
    /// What it is, in a sentence.
    pub description: String,
    /// Its runs, in the order in which they were made.
    pub runs: Vec<Run>,
}

/// One run of a variant.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Run {
    /// Where in the parameter space: names of parameters, such as threads, and their values.
    pub at: Point,
    /// Which repetition, from 0.
    pub repetition: u32,
    /// What was measured.
    #[schemars(extend("unit" = "s"))]
    pub seconds: f64,
    /// The figures that are compared, by name. The name tells the unit; the study's page says what each is.
    pub metrics: BTreeMap<String, f64>,
    /// Percentiles of latencies, by the name of what took that long.
    pub latency_ms: BTreeMap<String, Percentiles>,
    /// What the drive counted, by namespace.
    pub namespaces: Vec<NamespaceCounts>,
    /// Use of the host's processors, of all together.
    pub cpu: Cpu,
    /// Events in each second (new orders, say), warm-up included; empty where nothing is counted by the second.
    pub per_second: Vec<u64>,
    /// Seconds of `per_second` before the measurement.
    #[schemars(extend("unit" = "s"))]
    pub warmup_seconds: f64,
}

/// Use of the host's processors during a run, of all processors together.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Cpu {
    /// Not idle; I/O wait counts as idle.
    #[schemars(extend("unit" = "%"))]
    pub busy: f64,
    /// Of that, taken away by the hypervisor.
    #[schemars(extend("unit" = "%"))]
    pub steal: f64,
    /// Time that threads of the measured processes waited for a processor, of the connections' time: the host slowed the load
    /// down by this at most.
    #[schemars(extend("unit" = "%"))]
    pub waiting: f64,
    /// Part of the busy time by process: the database, the drive, the load.
    #[schemars(extend("unit" = "%"))]
    pub by_process: BTreeMap<String, f64>,
}

/// Above this the processors may have set the pace.
pub const CPU_SATURATED: f64 = 90.0;
/// They did when, besides, the load spent more than this share of its time waiting for one.
pub const CPU_WAITED: f64 = 25.0;

/// A comparison of two variants.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// Name of the figure.
    pub metric: String,
    /// The variant compared.
    pub of: String,
    /// The variant it is compared with.
    pub over: String,
    /// The point in the parameter space.
    #[schemars(extend("null" = "the row over all points: a geometric mean"))]
    pub at: Option<Point>,
    /// Median ratio of the interleaved pairs.
    pub ratio: f64,
    /// Smallest ratio of a pair.
    pub low: f64,
    /// Largest ratio of a pair.
    pub high: f64,
    /// The published figure.
    #[schemars(extend("null" = "nothing is published for this row"))]
    pub published: Option<Published>,
    /// The host's processors were busy and the load waited for them, in most runs of one of the two: a ratio of rates says little.
    pub host_bound: bool,
}

impl Comparison {
    /// Whether it is of runs in which nothing was varied.
    pub fn is_at_origin(&self) -> bool {
        self.at.as_ref().is_some_and(Point::is_empty)
    }

    /// Whether the ratio means something: bytes per piece of work do not depend on what set the pace, rates do.
    pub fn is_meaningful(&self) -> bool {
        !self.host_bound || self.metric.contains("bytes") || self.metric.starts_with("write_amplification")
    }
}

/// What a study or a comparison found: also the content of results.json, without `results`. `D` is the type of what the drive was:
/// each study has its own.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(
    rename = "StudyResults",
    description = "What was found: also the content of results.json, without `results`."
)]
pub struct Results<D = serde_json::Value> {
    /// Name of the study.
    pub study: String,
    /// live: on a drive under wall-clock time. sim: in virtual time.
    #[schemars(extend("enum" = ["live", "sim"]))]
    pub engine: &'static str,
    /// Seed of everything random.
    pub seed: u64,
    /// What the drive was.
    pub drive: D,
    /// The machine.
    pub host: Host,
    /// The variants with their runs.
    pub variants: Vec<Variant>,
    /// The comparisons.
    pub comparisons: Vec<Comparison>,
    /// Plain sentences for the reader: verdicts, warnings, why the figures differ from the published ones.
    pub notes: Vec<String>,
}

/// The machine and the software that results were found on.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Host {
    /// Processor model.
    pub cpu: String,
    /// Processors.
    pub processors: usize,
    /// Memory.
    #[schemars(extend("unit" = "bytes"))]
    pub memory: u64,
    /// Kernel release.
    pub kernel: String,
    /// Other software that matters, with versions.
    pub software: Vec<String>,
}

impl Host {
    /// This machine.
    pub fn this(software: Vec<String>) -> Self {
        let field = |file: &str, name: &str| -> Option<String> {
            let text = fs::read_to_string(file).ok()?;
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = field("/proc/meminfo", "MemTotal")
            .and_then(|text| text.split(' ').next()?.parse::<u64>().ok())
            .map_or(0, |kib| kib * 1024);
        Self {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
            processors: std::thread::available_parallelism().map_or(1, Into::into),
            memory,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            software,
        }
    }
}

/// The seed of a repetition of a study with this seed.
pub fn seed_of(seed: u64, repetition: u32) -> u64 {
    seed.wrapping_add(u64::from(repetition) << 32)
}

/// The median; the mean of the middle two of an even number. None of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// A median with its smallest and largest value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
}

impl Spread {
    /// Of these values; none of nothing.
    pub fn of(values: &[f64]) -> Option<Self> {
        Some(Self {
            median: median(values)?,
            low: values.iter().copied().reduce(f64::min)?,
            high: values.iter().copied().reduce(f64::max)?,
        })
    }
}

impl Variant {
    /// The values of a metric at a point, by repetition.
    pub fn values(&self, metric: &str, at: &Point) -> BTreeMap<u32, f64> {
        let runs = self.runs.iter().filter(|run| run.at == *at);
        runs.filter_map(|run| Some((run.repetition, *run.metrics.get(metric)?))).collect()
    }

    /// Whether the host's processors set the pace in most runs at a point, or in most of all runs.
    pub fn host_bound(&self, at: Option<&Point>) -> bool {
        let runs = || self.runs.iter().filter(|run| at.is_none_or(|at| run.at == *at));
        let median =
            |f: fn(&Cpu) -> f64| median(&runs().map(|run| f(&run.cpu)).collect::<Vec<_>>()).unwrap_or(0.0);
        median(|cpu| cpu.busy) > CPU_SATURATED && median(|cpu| cpu.waiting) > CPU_WAITED
    }

    /// Median of a metric at a point.
    pub fn median(&self, metric: &str, at: &Point) -> Option<f64> {
        median(&self.values(metric, at).into_values().collect::<Vec<_>>())
    }
}

/// The points at which any variant ran, in ascending order.
pub fn points(variants: &[Variant]) -> Vec<Point> {
    let mut points: Vec<Point> =
        variants.iter().flat_map(|v| v.runs.iter().map(|run| run.at.clone())).collect();
    points.sort();
    points.dedup();
    points
}

/// Compares `of` with `over` at each point, and over all points. `published` gives the figure for a point, or for all of
/// them together. Rows without a pair of finite, positive values are left out.
pub fn compare(
    metric: &str,
    of: &Variant,
    over: &Variant,
    published: impl Fn(Option<&Point>) -> Option<Published>,
) -> Vec<Comparison> {
    let all = points(std::slice::from_ref(of));
    let mut rows = Vec::new();
    // Logarithms of the ratios by repetition, for the row over all points.
    let mut logs: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    let bound = |at: Option<&Point>| [of, over].iter().any(|variant| variant.host_bound(at));
    let row = |at: Option<&Point>, ratios: &[f64]| {
        let Spread { median: ratio, low, high } = Spread::of(ratios)?;
        Some(Comparison {
            metric: metric.into(),
            of: of.name.clone(),
            over: over.name.clone(),
            at: at.cloned(),
            ratio,
            low,
            high,
            published: published(at),
            host_bound: bound(at),
        })
    };
    for point in &all {
        let reference = over.values(metric, point);
        let pairs: BTreeMap<u32, f64> = of
            .values(metric, point)
            .into_iter()
            .filter_map(|(repetition, value)| Some((repetition, value / reference.get(&repetition)?)))
            .filter(|(_, ratio)| ratio.is_finite() && *ratio >= 0.0)
            .collect();
        for (repetition, ratio) in &pairs {
            logs.entry(*repetition).or_default().push(ratio.ln());
        }
        rows.extend(row(Some(point), &pairs.into_values().collect::<Vec<_>>()));
    }
    #[expect(clippy::cast_precision_loss, reason = "a handful of points")]
    let means: Vec<f64> = logs
        .values()
        .filter(|logs| logs.len() == rows.len())
        .map(|logs| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
        .collect();
    rows.extend(row(None, &means));
    rows
}

/// Compares pairs of variants, each with the second, in each metric and at each point. `published` gives the figure for a row. A pair of which
/// one did not run is left out.
pub fn compare_pairs<N: AsRef<str>, M: AsRef<str>>(
    variants: &[Variant],
    pairs: &[(N, N)],
    metrics: &[M],
    published: impl Fn(&Comparison) -> Option<Published>,
) -> Vec<Comparison> {
    let find = |name: &N| variants.iter().find(|variant| variant.name == name.as_ref());
    let mut rows = Vec::new();
    for (of, over) in pairs.iter().filter_map(|(of, over)| find(of).zip(find(over))) {
        rows.extend(metrics.iter().flat_map(|metric| compare(metric.as_ref(), of, over, |_| None)));
    }
    rows.retain(|row| row.at.is_some());
    rows.iter_mut().for_each(|row| row.published = published(row));
    rows
}

/// The first note of a run with `--quick`.
pub const QUICK_RUN_NOTE: &str = "A quick run (--quick): too short and too rough for figures.";

impl Results {
    /// Results of this machine and `software`, still empty. The engine is `"live"` or `"sim"`.
    pub fn empty(study: &str, engine: &'static str, seed: u64, software: Vec<String>) -> Self {
        Self {
            study: study.to_owned(),
            engine,
            seed,
            drive: serde_json::Value::Null,
            host: Host::this(software),
            variants: Vec::new(),
            comparisons: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Takes what a reader must know. A quick run says first that it was one.
    pub fn note(&mut self, notes: Vec<String>, quick: bool) {
        self.notes = quick.then(|| QUICK_RUN_NOTE.to_owned()).into_iter().chain(notes).collect();
    }

    /// The variant of this name.
    pub fn variant(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == name)
    }

    /// Median of a variant's metric at a point.
    pub fn median(&self, variant: &str, metric: &str, at: &Point) -> Option<f64> {
        self.variant(variant)?.median(metric, at)
    }

    /// Whether the processors were the bottleneck in most runs of some variant, so that ratios mean little.
    pub fn host_was_bottleneck(&self) -> bool {
        self.variants.iter().any(|variant| variant.host_bound(None))
    }

    /// What to say when [`host_was_bottleneck`](Self::host_was_bottleneck), of the first variant where it was.
    pub fn host_verdict(&self) -> String {
        let Some(variant) = self.variants.iter().find(|variant| variant.host_bound(None)) else {
            return String::new();
        };
        let of = |f: &dyn Fn(&Cpu) -> f64| {
            median(&variant.runs.iter().map(|run| f(&run.cpu)).collect::<Vec<_>>()).unwrap_or(0.0)
        };
        let (busy, waiting) = (of(&|cpu| cpu.busy), of(&|cpu| cpu.waiting));
        let own = of(&|cpu| cpu.by_process.values().sum());
        let cure = if own < busy / 2.0 {
            "Most of that was other work on this machine: run it again when the machine is quiet"
        } else {
            "Use a machine with more processors, fewer connections or a slower drive profile"
        };
        format!(
            "No ratio of speeds: with {} the host's processors were {busy:.0}% busy, and the load spent {waiting:.0}% of its time \
             waiting for one. {cure}.",
            variant.name
        )
    }

    /// Writes `results.json` and `results.csv` into `directory`.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let json = serde_json::to_string_pretty(self).context("making results.json")?;
        for (name, content) in [("results.json", json + "\n"), ("results.csv", self.csv())] {
            let path = directory.join(name);
            fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }

    /// One line for each run.
    pub fn csv(&self) -> String {
        let runs = || self.variants.iter().flat_map(|v| v.runs.iter().map(move |run| (v, run)));
        let mut axes: Vec<&String> = runs().flat_map(|(_, run)| run.at.keys()).collect();
        let mut metrics: Vec<&String> = runs().flat_map(|(_, run)| run.metrics.keys()).collect();
        let mut latencies: Vec<&String> = runs().flat_map(|(_, run)| run.latency_ms.keys()).collect();
        for names in [&mut axes, &mut metrics, &mut latencies] {
            names.sort();
            names.dedup();
        }
        let mut header: Vec<String> = vec!["study".into(), "variant".into(), "repetition".into()];
        header.extend(axes.iter().map(|name| csv_field(name)));
        header.extend(["seconds".into(), "cpu_busy_percent".into()]);
        header.extend(metrics.iter().map(|name| csv_field(name)));
        type Part = fn(&Percentiles) -> f64;
        let parts: [(&str, Part); 3] = [("p50", |p| p.p50), ("p95", |p| p.p95), ("p99", |p| p.p99)];
        // A metric of the same name is the same figure.
        let column = |name: &str, part: &str| format!("{name}_{part}_ms");
        let own = |name: &str, part: &str| !metrics.contains(&&column(name, part));
        let latencies: Vec<(&String, &str, Part)> = latencies
            .into_iter()
            .flat_map(|name| parts.map(|(part, get)| (name, part, get)))
            .filter(|(name, part, _)| own(name, part))
            .collect();
        header.extend(latencies.iter().map(|(name, part, _)| csv_field(&column(name, part))));
        let mut out = header.join(",") + "\n";
        for (variant, run) in runs() {
            let mut line = vec![csv_field(&self.study), csv_field(&variant.name), run.repetition.to_string()];
            line.extend(axes.iter().map(|name| run.at.get(*name).map(u64::to_string).unwrap_or_default()));
            line.extend([run.seconds, run.cpu.busy].map(|v| format!("{v:.3}")));
            line.extend(
                metrics.iter().map(|name| run.metrics.get(*name).map(f64::to_string).unwrap_or_default()),
            );
            for (name, _, get) in &latencies {
                let found = run.latency_ms.get(*name).map(get);
                line.push(found.map(|v| format!("{v:.4}")).unwrap_or_default());
            }
            let _ = writeln!(out, "{}", line.join(","));
        }
        out
    }
}

/// A field of a file of comma separated values.
pub fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_names_no_directory_leaves_earlier_results_alone() {
        let dir = tempfile::tempdir().unwrap();
        let usual = dir.path().join("sim");
        let usual = usual.to_str().unwrap();
        let place = |force: bool| Overwrite { force }.place(None, usual).to_str().unwrap().to_owned();
        for wanted in [usual.to_owned(), format!("{usual}-2"), format!("{usual}-3")] {
            assert_eq!(place(false), wanted);
            fs::create_dir_all(&wanted).unwrap();
            assert_eq!(place(false), wanted, "a directory without results is free");
            fs::write(format!("{wanted}/results.json"), "{}").unwrap();
        }
        assert_eq!(place(true), usual);
        let latest = |usual: &str| Overwrite { force: false }.latest(usual).to_str().unwrap().to_owned();
        assert_eq!((latest(usual), latest("none")), (format!("{usual}-3"), "none".to_owned()));
        let named = PathBuf::from(usual);
        assert_eq!(Overwrite { force: false }.place(Some(named.clone()), "x"), named);
    }

    fn variant(name: &str, values: &[(u64, u32, f64)]) -> Variant {
        let run = |&(threads, repetition, value): &(u64, u32, f64)| Run {
            at: Point::from([("threads".into(), threads)]),
            repetition,
            metrics: BTreeMap::from([("tpmC".into(), value)]),
            ..Run::default()
        };
        Variant { name: name.into(), description: String::new(), runs: values.iter().map(run).collect() }
    }

    #[test]
    fn pairs_of_one_repetition_are_compared() {
        let nand = variant("nand", &[(8, 0, 100.0), (8, 1, 200.0), (8, 2, 100.0)]);
        let dram = variant("dram", &[(8, 0, 150.0), (8, 1, 220.0), (8, 2, 130.0)]);
        let rows = compare("tpmC", &dram, &nand, |_| None);
        assert_eq!(rows.len(), 2);
        assert!((rows[0].ratio - 1.3).abs() < 1e-9 && (rows[0].low - 1.1).abs() < 1e-9);
        assert!((rows[0].high - 1.5).abs() < 1e-9);
        assert_eq!(rows[0].at, Some(Point::from([("threads".into(), 8)])));
        assert_eq!((rows[1].at.as_ref(), rows[1].ratio), (None, rows[0].ratio));
    }

    #[test]
    fn the_row_over_all_points_is_a_geometric_mean() {
        let nand = variant("nand", &[(4, 0, 1.0), (8, 0, 1.0)]);
        let dram = variant("dram", &[(4, 0, 2.0), (8, 0, 8.0)]);
        let rows = compare("tpmC", &dram, &nand, |at| at.is_none().then(|| Published::ratio(3.0)));
        assert!((rows[2].ratio - 4.0).abs() < 1e-9);
        assert_eq!(rows[2].published, Some(Published::ratio(3.0)));
        assert_eq!(rows[0].published, None);
    }

    #[test]
    fn a_busy_host_spoils_speeds_but_not_bytes() {
        let nand = variant("nand", &[(8, 0, 1.0), (8, 1, 1.0)]);
        let mut dram = variant("dram", &[(8, 0, 2.0), (8, 1, 2.0)]);
        assert!(compare("tpmC", &dram, &nand, |_| None).iter().all(Comparison::is_meaningful));
        dram.runs.iter_mut().for_each(|run| run.cpu.busy = 97.0);
        assert!(!compare("tpmC", &dram, &nand, |_| None)[0].host_bound, "busy, but nobody waited");
        dram.runs.iter_mut().for_each(|run| run.cpu.waiting = 30.0);
        let row = compare("tpmC", &dram, &nand, |_| None).remove(0);
        assert!(row.host_bound && !row.is_meaningful());
        assert!(Comparison { metric: "nand_bytes_per_new_order".into(), ..row }.is_meaningful());
    }

    #[test]
    fn nothing_is_a_ratio_of_zero_and_over_nothing_there_is_none() {
        let nand = variant("nand", &[(8, 0, 0.0), (8, 1, 5.0)]);
        let off = variant("off", &[(8, 0, 1.0)]);
        assert!(compare("tpmC", &off, &nand, |_| None).is_empty());
        assert!(compare("other", &off, &nand, |_| None).is_empty());
        let none = variant("none", &[(8, 1, 0.0)]);
        assert!(
            compare("tpmC", &none, &nand, |_| None).iter().all(|row| row.ratio == 0.0 && row.high == 0.0)
        );
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let results = Results {
            study: "a, \"b\"".into(),
            engine: "live",
            seed: 1,
            drive: serde_json::Value::Null,
            host: Host::default(),
            variants: vec![variant("nand", &[(8, 0, 1.5)])],
            comparisons: Vec::new(),
            notes: Vec::new(),
        };
        let csv = results.csv();
        assert_eq!(
            csv.lines().next(),
            Some("study,variant,repetition,threads,seconds,cpu_busy_percent,tpmC")
        );
        assert_eq!(csv.lines().nth(1), Some("\"a, \"\"b\"\"\",nand,0,8,0.000,0.000,1.5"));
    }

    #[test]
    fn csv_has_each_column_once() {
        let mut measured = variant("nand", &[(8, 0, 1.5)]);
        measured.runs[0].metrics.insert("ns1_p50_ms".into(), 0.5);
        measured.runs[0]
            .latency_ms
            .insert("ns1".into(), Percentiles { p50: 0.5, p99: 2.0, ..Default::default() });
        let results = Results {
            study: "quota".into(),
            engine: "sim",
            seed: 1,
            drive: serde_json::Value::Null,
            host: Host::default(),
            variants: vec![measured],
            comparisons: Vec::new(),
            notes: Vec::new(),
        };
        let csv = results.csv();
        let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines[0][6..], ["ns1_p50_ms", "tpmC", "ns1_p95_ms", "ns1_p99_ms"]);
        assert_eq!(lines[1][6..], ["0.5", "1.5", "0.0000", "2.0000"]);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
    }
}
