//! What all repetitions of a study have found, as one table: a row for each figure.

use super::RepetitionResult;
use lab_report::{
    control, figure,
    report::Table,
    results::{Comparison, Point, Run},
    sheet::{Cell, Row, Sheet},
};

/// Columns of a row, without those of the parameters and of the points.
const COLUMNS: [&str; 11] = [
    "study",
    "seed",
    "variant",
    "over",
    "repetition",
    "metric",
    "value",
    "low",
    "high",
    "published",
    "published_unit",
];

/// A row: a figure of a run, or how two variants compare.
#[derive(Default)]
struct Line<'a> {
    variant: Option<&'a str>,
    over: Option<&'a str>,
    at: Option<&'a Point>,
    repetition: Option<u32>,
    metric: String,
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    published: Option<(f64, &'a str)>,
}

impl<'a> Line<'a> {
    fn of_run(variant: &'a str, run: &'a Run) -> impl Iterator<Item = Self> {
        let line = move |metric: String, value: f64| Line {
            variant: Some(variant),
            at: Some(&run.at),
            repetition: Some(run.repetition),
            metric,
            value: Some(value),
            ..Line::default()
        };
        let metrics = run.metrics.iter().map(move |(name, value)| line(name.clone(), *value));
        let latencies = run.latency_ms.iter().flat_map(move |(name, latency)| {
            [("p50", latency.p50), ("p95", latency.p95), ("p99", latency.p99)]
                .map(|(at, value)| line(format!("{name}_{at}_ms"), value))
        });
        metrics.chain(latencies)
    }

    fn of_comparison(comparison: &'a Comparison) -> Self {
        Line {
            variant: Some(&comparison.of),
            over: Some(&comparison.over),
            at: comparison.at.as_ref(),
            repetition: None,
            metric: comparison.metric.clone(),
            value: Some(comparison.ratio),
            low: Some(comparison.low),
            high: Some(comparison.high),
            published: comparison.published.as_ref().map(|p| (p.value, p.unit.as_str())),
        }
    }

    fn figures(self, of: &RepetitionResult<'_>, axes: &[String]) -> Vec<(String, Cell)> {
        let text = |text: Option<&str>| Cell::text(text.map(str::to_owned));
        let values = [
            Cell::whole(of.combination.number as u64),
            Cell::whole(of.combination.seed),
            text(self.variant),
            text(self.over),
            Cell::whole(self.repetition.map(u64::from)),
            text(Some(&self.metric).filter(|metric| !metric.is_empty()).map(String::as_str)),
            Cell::real(self.value),
            Cell::real(self.low),
            Cell::real(self.high),
            Cell::real(self.published.map(|(value, _)| value)),
            text(self.published.map(|(_, unit)| unit)),
        ];
        let mut figures: Vec<_> = COLUMNS.map(str::to_owned).into_iter().zip(values).collect();
        let at = axes.iter().map(|axis| (axis.clone(), self.at.and_then(|at| at.get(axis).copied())));
        figures.extend(at.map(|(axis, value)| (format!("at_{axis}"), Cell::whole(value))));
        let state = match of.problem.as_deref() {
            None => "done",
            Some(control::PARTIAL) => "interrupted",
            Some(_) => "failed",
        };
        figures.push(("state".to_owned(), text(Some(state))));
        figures.push(("problem".to_owned(), text(of.problem.as_deref())));
        figures
    }
}

/// All figures of all repetitions.
pub(super) fn sheet(done: &[RepetitionResult<'_>]) -> Sheet {
    let results = || done.iter().filter_map(|done| done.results.as_ref());
    let runs = results().flat_map(|results| results.variants.iter().flat_map(|variant| &variant.runs));
    let mut axes: Vec<String> = runs.flat_map(|run| run.at.keys().cloned()).collect();
    axes.sort();
    axes.dedup();
    let mut rows = Vec::new();
    for done in done {
        let mut lines = Vec::new();
        if let Some(results) = &done.results {
            for variant in &results.variants {
                lines.extend(variant.runs.iter().flat_map(|run| Line::of_run(&variant.name, run)));
            }
            lines.extend(results.comparisons.iter().map(Line::of_comparison));
        }
        if lines.is_empty() {
            lines.push(Line::default());
        }
        rows.extend(lines.into_iter().map(|line| Row {
            parameters: done.combination.parameters.as_slice().into(),
            figures: line.figures(done, &axes),
        }));
    }
    Sheet::new(&rows)
}

/// How variants compare over all points, for people: each comparison with all values of the parameters.
pub(super) fn text(done: &[RepetitionResult<'_>]) -> String {
    let mut table = Table::new(["metric", "of", "over"]);
    let keys = done.first().map(|done| done.combination.parameters.iter().map(|(key, _)| key.clone()));
    table.columns.extend(keys.into_iter().flatten());
    table.columns.extend(["ratio", "low", "high", "published"].map(str::to_owned));
    let whole = |done: &RepetitionResult<'_>| -> Vec<Comparison> {
        let all = done.results.iter().flat_map(|results| results.comparisons.clone());
        all.filter(|comparison| comparison.at.is_none()).collect()
    };
    let mut names: Vec<(String, String, String)> = Vec::new();
    for comparison in done.iter().flat_map(whole) {
        let name = (comparison.metric, comparison.of, comparison.over);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for (metric, of, over) in &names {
        for done in done {
            let found = whole(done).into_iter().find(|c| (&c.metric, &c.of, &c.over) == (metric, of, over));
            let mut row = vec![metric.clone(), of.clone(), over.clone()];
            row.extend(done.combination.parameters.iter().map(|(_, value)| value.clone()));
            row.extend(match &found {
                Some(c) => [c.ratio, c.low, c.high].map(figure::show),
                None => ["-".to_owned(), "-".to_owned(), "-".to_owned()],
            });
            let published = found.as_ref().and_then(|c| c.published.as_ref());
            row.push(published.map_or(String::new(), |p| format!("{} {}", figure::show(p.value), p.unit)));
            table.rows.push(row);
        }
    }
    if table.rows.is_empty() { String::new() } else { table.text() }
}
