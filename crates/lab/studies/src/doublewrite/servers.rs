//! The study with several database servers, one after the other, and what they gave side by side.
//!
//! Each server's study is whole: its own prepared drive, its own interleaved runs, its own report in a directory named after it.
//! Figures of different servers are not from interleaved runs, so only what is compared within a server stands side by side.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, to_value};

use super::{
    live::run_on,
    published,
    report::{self, doublewrite_share},
    settings::Options,
};
use lab_databases::{drive::Program, mariadb::Server};
use lab_report::{
    Findings,
    control::Control,
    counters::total,
    figure::show,
    options::ResultsDirectory,
    report::{Overview, Section, Table, show_point},
    results::{Comparison, Results, Run, Spread, csv_field},
};

/// A server's part.
struct Part {
    /// Name and version, and a number where two have the same.
    title: String,
    /// Its directory within the study's.
    directory: String,
    results: Results,
}

/// The study with several servers. `D` is the type of what the drive was.
#[derive(Serialize, JsonSchema)]
#[schemars(description = "doublewrite with several --mysqld.")]
pub struct Servers<'a, D = Value> {
    /// Always doublewrite.
    #[schemars(extend("enum" = ["doublewrite"]))]
    study: &'static str,
    /// Always live.
    #[schemars(extend("enum" = ["live"]))]
    engine: &'static str,
    /// The servers.
    servers: Vec<ServerPart<'a, D>>,
    /// Figures of all servers.
    side_by_side: &'a [Row],
}

/// A server.
#[derive(Serialize, JsonSchema)]
struct ServerPart<'a, D> {
    /// Name and version.
    server: &'a str,
    /// Its directory in the directory of the results.
    directory: &'a str,
    /// What it gave.
    results: &'a Results<D>,
}

/// A figure of all servers; unit says its unit.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct Row {
    /// What it is.
    figure: String,
    /// At which point.
    at: String,
    /// Its unit.
    unit: &'static str,
    /// The published figure.
    #[schemars(extend("null" = "nothing is published"))]
    published: Option<f64>,
    /// By server; null where the server has none, or the host set the pace.
    values: Vec<Option<Spread>>,
}

/// Runs the study with each of these servers.
///
/// # Errors
/// Like [`run_on`], with the server's name. Reports of servers before it stay.
pub(super) fn run(
    options: &Options,
    servers: Vec<Server>,
    program: &Program,
    control: &Control,
) -> Result<Findings<Value>> {
    lab_report::results::directory(options.out.path())?;
    let mut parts: Vec<Part> = Vec::new();
    for server in servers {
        let same = parts.iter().filter(|part| part.results.host.software.contains(&server.title)).count();
        let title = if same == 0 { server.title.clone() } else { format!("{} #{}", server.title, same + 1) };
        let directory = title.to_lowercase().replace(" #", "-").replace(' ', "-");
        control.note(&title);
        let own =
            Options { out: ResultsDirectory::at(options.out.path().join(&directory)), ..options.clone() };
        let outcome =
            run_on(&own, server, program.clone(), control).with_context(|| format!("with {title}"))?;
        parts.push(Part { title, directory, results: outcome.results });
    }
    write(options.out.path(), &parts)
}

fn write(out: &Path, parts: &[Part]) -> Result<Findings<Value>> {
    let rows = rows(parts);
    let titles: Vec<&str> = parts.iter().map(|part| part.title.as_str()).collect();
    let servers = parts.iter().map(|part| ServerPart {
        server: &part.title,
        directory: &part.directory,
        results: &part.results,
    });
    let results =
        Servers { study: "doublewrite", engine: "live", servers: servers.collect(), side_by_side: &rows };
    let results = to_value(results).context("making results.json")?;
    let json = serde_json::to_string_pretty(&results).context("making results.json")? + "\n";
    for (name, content) in [("results.json", json), ("results.csv", csv(&rows, &titles))] {
        let path = out.join(name);
        fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
    }
    let table = table(&rows, &titles);
    let answers: Vec<String> =
        parts.iter().map(|part| format!("{}: {}", part.title, report::answer(&part.results))).collect();
    let page = out.join("report.html");
    let overview = Overview {
        title: "The doublewrite buffer on a DRAM namespace, by server".into(),
        question: "What does it buy each server to have its doublewrite buffer on a namespace of the same drive that is not \
                   flash?"
            .into(),
        answers: answers.clone(),
        sections: vec![
            Section {
                heading: "Side by side".into(),
                text: EXPLANATION.into(),
                table: Some(table.clone()),
                ..Section::default()
            },
            Section {
                heading: "Each server".into(),
                text: parts
                    .iter()
                    .map(|part| format!("{}: {}/report.html beside this file.", part.title, part.directory))
                    .collect::<Vec<_>>()
                    .join(" "),
                ..Section::default()
            },
        ],
    };
    overview.write(&page)?;
    let text = format!("{}\n{}\n\nreport: {}", table.text(), answers.join("\n"), page.display());
    Ok(Findings { results, written: Some(out.to_owned()), text, failure: None })
}

const EXPLANATION: &str = "Medians, with the smallest and the largest, over interleaved pairs of one server's runs. The servers ran one after \
     the other, so their new orders per minute are no comparison of the servers. Published: Percona Server 8.0.15.";

/// Every figure that any of them has.
fn rows(parts: &[Part]) -> Vec<Row> {
    let compared: Vec<Vec<Comparison>> =
        parts.iter().map(|part| report::essential_and_published(&part.results)).collect();
    let mut rows: Vec<Row> = Vec::new();
    for comparison in compared.iter().flatten() {
        let same = |c: &Comparison| {
            (&c.metric, &c.of, &c.over, &c.at)
                == (&comparison.metric, &comparison.of, &comparison.over, &comparison.at)
        };
        let row = Row {
            figure: format!("{}, {} over {}", comparison.metric, comparison.of, comparison.over),
            at: show_point(comparison.at.as_ref()),
            unit: "%",
            published: comparison.published.as_ref().map(|p| percent(p.value)),
            values: compared
                .iter()
                .map(|all| {
                    let found = all.iter().find(|c| same(c)).filter(|c| c.is_meaningful())?;
                    Some(Spread {
                        median: percent(found.ratio),
                        low: percent(found.low),
                        high: percent(found.high),
                    })
                })
                .collect(),
        };
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    for variant in ["dram", "pmem"] {
        let known = |value: f64| (variant == "dram").then_some(value);
        rows.extend([
            apart(
                parts,
                variant,
                "share of written bytes in the doublewrite",
                "%",
                known(published::doublewrite_share()),
                |run| Some(doublewrite_share(run, |n| n.counted.host_bytes_written)),
            ),
            apart(
                parts,
                variant,
                "a write of the doublewrite",
                "KiB",
                known(published::doublewrite_kib()),
                doublewrite_kib,
            ),
        ]);
    }
    rows.retain(|row| row.values.iter().any(Option::is_some));
    rows
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

/// A figure of one variant's runs.
fn apart(
    parts: &[Part],
    variant: &str,
    what: &str,
    unit: &'static str,
    published: Option<f64>,
    f: impl Fn(&Run) -> Option<f64>,
) -> Row {
    let value = |part: &Part| {
        let values: Vec<f64> = part.results.variant(variant)?.runs.iter().filter_map(&f).collect();
        Spread::of(&values)
    };
    Row {
        figure: format!("{what}, {variant}"),
        at: "all".into(),
        unit,
        published,
        values: parts.iter().map(value).collect(),
    }
}

/// KiB of a write to the namespace of the doublewrite buffer.
#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn doublewrite_kib(run: &Run) -> Option<f64> {
    let apart = total(run.namespaces.iter().filter(|namespace| !namespace.is_on_flash()));
    (apart.writes > 0).then(|| apart.host_bytes_written as f64 / apart.writes as f64 / 1024.0)
}

fn table(rows: &[Row], titles: &[&str]) -> Table {
    let mut table = Table::new(["figure", "at", "published"]);
    table.columns.extend(titles.iter().map(|title| (*title).to_owned()));
    for row in rows {
        let value = |value: f64| match row.unit {
            "%" if row.figure.contains(" over ") => format!("{value:+.1}%"),
            "%" => format!("{value:.1}%"),
            unit => format!("{} {unit}", show(value)),
        };
        let mut cells =
            vec![row.figure.clone(), row.at.clone(), row.published.map_or_else(|| "-".into(), value)];
        cells.extend(row.values.iter().map(|figure| match figure {
            None => "-".into(),
            Some(f) => format!("{} ({} .. {})", value(f.median), value(f.low), value(f.high)),
        }));
        table.rows.push(cells);
    }
    table
}

fn csv(rows: &[Row], titles: &[&str]) -> String {
    let mut text = String::from("figure,at,unit,published");
    for title in titles {
        for kind in ["", " low", " high"] {
            let _ = write!(text, ",{}", csv_field(&format!("{title}{kind}")));
        }
    }
    text.push('\n');
    for row in rows {
        let published = row.published.map(|p| p.to_string()).unwrap_or_default();
        let _ = write!(text, "{},{},{},{published}", csv_field(&row.figure), csv_field(&row.at), row.unit);
        for figure in &row.values {
            match figure {
                None => text.push_str(",,,"),
                Some(f) => {
                    let _ = write!(text, ",{},{},{}", f.median, f.low, f.high);
                }
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_report::counters::{Counters, NamespaceCounts};
    use lab_report::results::{Host, Point, Published, Variant};

    fn part(title: &str, ratio: f64, host_bound: bool) -> Part {
        let count = |medium: &str, host_bytes_written, writes| NamespaceCounts {
            medium: medium.into(),
            counted: Counters { host_bytes_written, writes, ..Counters::default() },
            ..NamespaceCounts::default()
        };
        let run = Run {
            namespaces: vec![count("nand", 6 << 20, 100), count("dram", 4 << 20, 32)],
            ..Run::default()
        };
        let at = Some(Point::from([("threads".into(), 4)]));
        let comparison = Comparison {
            metric: "tpmC".into(),
            of: "dram".into(),
            over: "nand".into(),
            at,
            ratio,
            low: ratio - 0.1,
            high: ratio + 0.1,
            published: Some(Published::ratio(1.138)),
            host_bound,
        };
        Part {
            title: title.into(),
            directory: title.to_lowercase(),
            results: Results {
                study: "doublewrite".into(),
                engine: "live",
                seed: 1,
                drive: Value::Null,
                host: Host::this(vec![title.into()]),
                variants: vec![Variant { name: "dram".into(), description: String::new(), runs: vec![run] }],
                comparisons: vec![comparison],
                notes: Vec::new(),
            },
        }
    }

    #[test]
    fn figures_stand_side_by_side_with_the_published_ones() {
        let parts = [part("A", 1.5, false), part("B", 1.2, true)];
        let rows = rows(&parts);
        let text = table(&rows, &["A", "B"]).text();
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines.len(), 3, "{text}");
        // The host set the pace of B's runs, so its ratio is left out.
        let cells = ["4 threads", "+13.8%", "+50.0% (+40.0% .. +60.0%)"];
        assert!(cells.iter().all(|cell| lines[0].contains(cell)) && lines[0].ends_with('-'), "{text}");
        assert!(lines[1].contains("46.5%") && lines[1].contains("40.0%"), "{text}");
        assert!(lines[2].contains("124") && lines[2].contains("128"), "{text}");
        let csv = csv(&rows, &["A", "B"]);
        assert!(csv.lines().all(|line| line.matches(',').count() >= 9), "{csv}");

        let directory = tempfile::tempdir().unwrap();
        let outcome = write(directory.path(), &parts).unwrap();
        assert_eq!(outcome.results["servers"][1]["server"], "B");
        let page = fs::read_to_string(directory.path().join("report.html")).unwrap();
        assert!(page.contains("<th>A</th><th>B</th>"), "{page}");
    }
}
