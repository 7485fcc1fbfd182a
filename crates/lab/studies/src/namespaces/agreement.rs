//! How well the live drive and the one in virtual time agree in the same tests.

use super::{options::Options, trial::Trial};
use lab_report::{
    agree::{Figures, TOLERANCE, Verdict},
    figure::show,
    report::Table,
    results::{Comparison, Point, Results, Run, Variant, compare},
};

/// What the variants of [`Pair`]s are called behind their number of namespaces.
const LIVE_SUFFIX: &str = "@live";
const SIM: &str = "@sim";

/// Figures that are compared. Those that begin with `drive` are the drive's own (log D8h): of all reads, and of all writes, small and large, in its own
/// time and from a command's arrival on; `large_block` and `small_read` are as the host sees them.
const METRICS: [&str; 12] = [
    "reads_per_second",
    "large_block_MBps",
    "drive_read_mean_ms",
    "drive_read_p99_ms",
    "drive_write_mean_ms",
    "small_read_mean_ms",
    "small_read_p50_ms",
    "small_read_p99_ms",
    "large_block_read_mean_ms",
    "large_block_write_mean_ms",
    "write_amplification",
    "reads_over_1ms_percent",
];

const FIGURES: Figures<'_> = Figures {
    own: &["drive_read_mean_ms", "drive_read_p99_ms", "drive_write_mean_ms"],
    in_buckets: &["drive_read_p99_ms"],
    rare: &["reads_over_1ms_percent"],
};

/// A test live, and the same in virtual time.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    /// How many namespaces.
    pub count: u32,
    pub repetition: u32,
    pub live: Trial,
    pub sim: Trial,
}

/// Whether it passes, for reading.
fn passes(trial: &Trial) -> String {
    trial.limit.map_or("passes".into(), |limit| format!("fails: {}", limit.text()))
}

impl Pair {
    /// In a line.
    pub fn summary(&self) -> String {
        format!("{} ({} in virtual time)", passes(&self.live), passes(&self.sim))
    }

    fn run(&self, trial: &Trial) -> Run {
        let at = Point::from([("act_multiple".to_owned(), trial.multiple.into())]);
        let mut run = trial.run(at, self.repetition);
        let (reads, writes) =
            (trial.drive.read_latency.percentiles(), trial.drive.write_latency.percentiles());
        for (name, value) in [
            ("drive_read_mean_ms", reads.mean),
            ("drive_read_p99_ms", reads.p99),
            ("drive_write_mean_ms", writes.mean),
            ("small_read_mean_ms", trial.latency.mean),
            ("small_read_p50_ms", trial.latency.p50),
            ("small_read_p99_ms", trial.latency.p99),
            ("passes", f64::from(u8::from(trial.limit.is_none()))),
            ("late_mean_ms", trial.late_ms),
        ] {
            run.metrics.insert(name.into(), value);
        }
        run
    }
}

/// Adds the pairs to the results, as variants of their own, and compares them.
pub(super) fn add(results: &mut Results, pairs: &[Pair], options: &Options) {
    let mut counts: Vec<u32> = pairs.iter().map(|pair| pair.count).collect();
    counts.dedup();
    counts.sort_unstable();
    counts.dedup();
    for count in counts {
        let of = || pairs.iter().filter(|pair| pair.count == count);
        let variant = |suffix: &str, what: &str, runs| Variant {
            name: format!("{count}{suffix}"),
            description: format!("{}, {what}.", options.describe(count)),
            runs,
        };
        let live = variant(LIVE_SUFFIX, "live", of().map(|pair| pair.run(&pair.live)).collect());
        let sim = variant(SIM, "in virtual time", of().map(|pair| pair.run(&pair.sim)).collect());
        for metric in METRICS {
            results.comparisons.extend(compare(metric, &live, &sim, |_| None));
        }
        results.variants.extend([live, sim]);
    }
}

/// The rows that compare a test, and what they say.
fn point<'a>(results: &'a Results, pair: &Pair) -> (Vec<&'a Comparison>, Verdict) {
    let (of, multiple) = (format!("{}{LIVE_SUFFIX}", pair.count), u64::from(pair.live.multiple));
    let at = |row: &&Comparison| row.at.as_ref().is_some_and(|at| at.get("act_multiple") == Some(&multiple));
    let rows: Vec<&Comparison> = results.comparisons.iter().filter(|row| row.of == of).filter(at).collect();
    let verdict = Verdict::of(&rows, &FIGURES);
    (rows, verdict)
}

/// Test by test: live over virtual time, and what it says.
pub(super) fn table(results: &Results, pairs: &[Pair]) -> Table {
    const SHOWN_METRICS: [&str; 7] = [
        "reads_per_second",
        "drive_read_mean_ms",
        "drive_write_mean_ms",
        "small_read_mean_ms",
        "small_read_p99_ms",
        "large_block_read_mean_ms",
        "large_block_write_mean_ms",
    ];
    let mut table = Table::new([
        "namespaces",
        "load",
        "reads/s",
        "drive's read",
        "drive's write",
        "read mean",
        "read p99",
        "large read",
        "large write",
        "> 1 ms live, sim %",
        "passes live, sim",
        "busy %",
        "verdict",
    ]);
    for pair in pairs {
        let (rows, verdict) = point(results, pair);
        let ratio = |metric: &str| {
            rows.iter().find(|row| row.metric == metric).map_or("-".into(), |row| format!("{:.3}", row.ratio))
        };
        let mut cells = vec![pair.count.to_string(), format!("{}x", pair.live.multiple)];
        cells.extend(SHOWN_METRICS.iter().map(|metric| ratio(metric)));
        let yes = |trial: &Trial| if trial.limit.is_none() { "yes" } else { "no" };
        cells.push(format!("{:.2}, {:.2}", pair.live.over(0), pair.sim.over(0)));
        cells.push(format!("{}, {}", yes(&pair.live), yes(&pair.sim)));
        cells.push(format!("{:.0}", pair.live.cpu.busy));
        cells.push(verdict.name().to_owned());
        table.rows.push(cells);
    }
    table
}

/// In some sentences.
pub(super) fn text(results: &Results, pairs: &[Pair]) -> String {
    let verdicts: Vec<Verdict> = pairs.iter().map(|pair| point(results, pair).1).collect();
    let of = |verdict| verdicts.iter().filter(|v| **v == verdict).count();
    let same = pairs.iter().filter(|pair| pair.live.limit.is_none() == pair.sim.limit.is_none()).count();
    let mut text = format!(
        "Live and virtual time: of {} tests {} agree altogether within {:.0} %, {} in all but what this machine added, {} do not; {same} of {} pass or fail in both alike.",
        pairs.len(),
        of(Verdict::Agrees),
        TOLERANCE * 100.0,
        of(Verdict::Machine),
        of(Verdict::Differs),
        pairs.len()
    );
    let late = pairs.iter().map(|pair| pair.live.late_ms * 1e3).fold(0.0, f64::max);
    text.push_str(&format!(
        " The load's thread looked {} µs of the drive's time too late on average in the worst of them.",
        show(late)
    ));
    let bound = pairs.iter().filter(|pair| point(results, pair).0.iter().any(|row| row.host_bound)).count();
    if bound > 0 {
        text.push_str(&format!(
            " In {bound} of them the host's processors were the bottleneck; those say nothing about the drive: choose a larger --slow-motion."
        ));
    }
    text
}
