//! Results as tables of typed columns, for callers that read Arrow or Parquet.

use std::collections::BTreeSet;

use crate::{
    counters::NamespaceCounts,
    results::{Comparison, Percentiles, Point, Results, Run, Variant},
    sheet::{Cell, Row, Sheet},
};

/// The tables of a study's results. Columns are the same in each row; what a row does not have is null.
#[derive(Clone, Debug)]
pub struct Tables {
    /// A row for each run, with the figures of `results.csv`.
    pub runs: Sheet,
    /// A row for each namespace of each run: what the drive counted for it.
    pub namespaces: Sheet,
    /// A row for each comparison of two variants.
    pub comparisons: Sheet,
}

type Named = (String, Cell);

impl Tables {
    /// Those of these results.
    pub fn new(results: &Results) -> Self {
        Self {
            runs: runs(&results.variants),
            namespaces: namespaces(&results.variants),
            comparisons: comparisons(&results.comparisons, &axes(&results.variants)),
        }
    }
}

fn text(name: &str, value: &str) -> Named {
    (name.to_owned(), Cell::text(value.to_owned()))
}

fn whole(name: &str, value: impl Into<Option<u64>>) -> Named {
    (name.to_owned(), Cell::whole(value))
}

fn real(name: &str, value: Option<f64>) -> Named {
    (name.to_owned(), Cell::real(value))
}

fn all(variants: &[Variant]) -> impl Iterator<Item = (&Variant, &Run)> {
    variants.iter().flat_map(|variant| variant.runs.iter().map(move |run| (variant, run)))
}

/// The names of some parts of all runs, sorted.
fn names<'a>(
    variants: &'a [Variant],
    of: impl Fn(&'a Run) -> Box<dyn Iterator<Item = &'a String> + 'a>,
) -> BTreeSet<&'a str> {
    all(variants).flat_map(|(_, run)| of(run)).map(String::as_str).collect()
}

fn axes(variants: &[Variant]) -> BTreeSet<&str> {
    names(variants, |run| Box::new(run.at.keys()))
}

fn place(variant: &str, repetition: u32, at: &Point, axes: &BTreeSet<&str>) -> Vec<Named> {
    let mut figures = vec![text("variant", variant), whole("repetition", u64::from(repetition))];
    figures.extend(axes.iter().map(|axis| whole(axis, at.get(*axis).copied())));
    figures
}

fn sheet(rows: Vec<Vec<Named>>) -> Sheet {
    let rows: Vec<Row<'_, String>> =
        rows.into_iter().map(|figures| Row { parameters: Vec::new().into(), figures }).collect();
    Sheet::new(&rows)
}

type Part = fn(&Percentiles) -> f64;
const PARTS: [(&str, Part); 3] = [("p50", |p| p.p50), ("p95", |p| p.p95), ("p99", |p| p.p99)];

/// A row for each run of these variants.
pub fn runs(variants: &[Variant]) -> Sheet {
    let axes = axes(variants);
    let metrics = names(variants, |run| Box::new(run.metrics.keys()));
    let latencies = names(variants, |run| Box::new(run.latency_ms.keys()));
    let row = |(variant, run): (&Variant, &Run)| {
        let mut figures = place(&variant.name, run.repetition, &run.at, &axes);
        // Studies have a point of time, too, which is called `seconds`.
        figures.push(real("measured_seconds", Some(run.seconds)));
        figures.extend(metrics.iter().map(|name| real(name, run.metrics.get(*name).copied())));
        for name in &latencies {
            for (part, get) in PARTS {
                let column = format!("{name}_{part}_ms");
                // A metric of the same name is the same figure.
                if !metrics.contains(column.as_str()) {
                    figures.push(real(&column, run.latency_ms.get(*name).map(get)));
                }
            }
        }
        figures
    };
    sheet(all(variants).map(row).collect())
}

/// A row for each namespace of each run of these variants.
pub fn namespaces(variants: &[Variant]) -> Sheet {
    let axes = axes(variants);
    let rows = all(variants).flat_map(|(variant, run)| {
        let axes = &axes;
        run.namespaces.iter().map(move |namespace| {
            let mut figures = place(&variant.name, run.repetition, &run.at, axes);
            figures.extend(counted(namespace));
            figures
        })
    });
    sheet(rows.collect())
}

fn counted(of: &NamespaceCounts) -> Vec<Named> {
    let counted = &of.counted;
    let mut figures = vec![
        text("name", &of.name),
        whole("nsid", u64::from(of.nsid)),
        text("medium", &of.medium),
        whole("host_bytes_read", counted.host_bytes_read),
        whole("host_bytes_written", counted.host_bytes_written),
        whole("reads", counted.reads),
        whole("writes", counted.writes),
        whole("flushes", counted.flushes),
        whole("media_bytes_written", counted.media_bytes_written),
        whole("media_bytes_written_gc", counted.media_bytes_written_gc),
        real("write_amplification", counted.write_amplification()),
    ];
    for (name, latency) in [("read", &counted.read_latency), ("write", &counted.write_latency)] {
        let latency = latency.percentiles();
        let there = latency.count > 0;
        figures.push(real(&format!("{name}_mean_ms"), there.then_some(latency.mean)));
        let parts = PARTS.map(|(part, get)| real(&format!("{name}_{part}_ms"), there.then(|| get(&latency))));
        figures.extend(parts);
    }
    figures
}

fn comparisons(comparisons: &[Comparison], axes: &BTreeSet<&str>) -> Sheet {
    let row = |of: &Comparison| {
        let mut figures = vec![text("metric", &of.metric), text("of", &of.of), text("over", &of.over)];
        // Without a point it is the geometric mean over all.
        figures.push(text("at", if of.at.is_some() { "point" } else { "all" }));
        figures.extend(
            axes.iter().map(|axis| whole(axis, of.at.as_ref().and_then(|at| at.get(*axis).copied()))),
        );
        figures.extend([
            real("ratio", Some(of.ratio)),
            real("low", Some(of.low)),
            real("high", Some(of.high)),
            real("published", of.published.as_ref().map(|published| published.value)),
            ("published_unit".to_owned(), Cell::text(of.published.as_ref().map(|p| p.unit.clone()))),
        ]);
        figures
    };
    sheet(comparisons.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Host, Published, compare};
    use std::collections::BTreeMap;

    fn run(threads: u64, tps: f64) -> Run {
        Run {
            at: Point::from([("threads".into(), threads)]),
            seconds: 2.0,
            metrics: BTreeMap::from([("tps".into(), tps)]),
            namespaces: vec![NamespaceCounts { name: "data".into(), nsid: 1, ..NamespaceCounts::default() }],
            ..Run::default()
        }
    }

    fn results() -> Results {
        let variant = |name: &str, runs| Variant { name: name.into(), description: String::new(), runs };
        let mut second = run(8, 5.0);
        second.metrics.insert("lost".into(), 1.0);
        second.latency_ms.insert("commit".into(), Percentiles { p50: 0.5, ..Percentiles::default() });
        let variants = vec![variant("a", vec![run(4, 10.0), run(8, 20.0)]), variant("b", vec![second])];
        let published = |at: Option<&Point>| at.map(|_| Published::ratio(0.5));
        Results {
            study: "x".into(),
            engine: "sim",
            seed: 1,
            drive: serde_json::Value::Null,
            host: Host::default(),
            comparisons: compare("tps", &variants[1], &variants[0], published),
            variants,
            notes: Vec::new(),
        }
    }

    #[test]
    fn each_run_has_a_row_and_nulls_where_it_has_no_figure() {
        let tables = Tables::new(&results());
        assert_eq!(
            tables.runs.csv(),
            "variant,repetition,threads,measured_seconds,lost,tps,commit_p50_ms,commit_p95_ms,commit_p99_ms\n\
             a,0,4,2,,10,,,\na,0,8,2,,20,,,\nb,0,8,2,1,5,0.5,0,0\n"
        );
        let namespaces = tables.namespaces.csv();
        assert_eq!(namespaces.lines().count(), 4, "{namespaces}");
        assert!(namespaces.starts_with("variant,repetition,threads,name,nsid,medium,host_bytes_read,"));
    }

    #[test]
    fn comparisons_have_their_point_and_what_was_published() {
        assert_eq!(
            Tables::new(&results()).comparisons.csv(),
            "metric,of,over,at,threads,ratio,low,high,published,published_unit\n\
             tps,b,a,point,8,0.25,0.25,0.25,0.5,x\ntps,b,a,all,,0.25,0.25,0.25,,\n"
        );
    }

    #[test]
    fn nothing_is_an_empty_table() {
        let tables = Tables::new(&Results { variants: Vec::new(), comparisons: Vec::new(), ..results() });
        assert!(tables.runs.columns().is_empty() && tables.comparisons.columns().is_empty());
    }
}
