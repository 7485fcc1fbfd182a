//! `report.html`: one file without scripts or links, to be mailed and kept.

pub mod charts;
mod table;

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};

pub use self::table::Table;
use crate::{
    figure::{show, show_size},
    results::{CPU_SATURATED, CPU_WAITED, Comparison, Point, Results},
};

/// A part of the report.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its heading.
    pub heading: String,
    /// A sentence or two below it.
    pub text: String,
    /// SVG images.
    pub charts: Vec<String>,
    /// A table.
    pub table: Option<Table>,
}

/// A figure worth a large number at the top.
#[derive(Clone, Debug)]
pub struct Headline {
    /// What it is.
    pub label: String,
    /// The number with its unit.
    pub value: String,
    /// Spread and published figure.
    pub detail: String,
}

/// The report around a study's results.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// Title of the page.
    pub title: String,
    /// The question that the study answers.
    pub question: String,
    /// The answer, in a sentence.
    pub answer: String,
    /// Large numbers.
    pub headlines: Vec<Headline>,
    /// The results.
    pub results: &'a Results,
    /// What the study adds to the comparison, its notes and the description of the machine.
    pub sections: Vec<Section>,
}

/// Escapes text for HTML.
pub(crate) fn html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A point for reading: "8 threads".
pub fn show_point(point: Option<&Point>) -> String {
    match point {
        None => "all".into(),
        Some(point) if point.is_empty() => "-".into(),
        Some(point) => {
            point.iter().map(|(name, value)| format!("{value} {name}")).collect::<Vec<_>>().join(", ")
        }
    }
}

/// The comparisons as a table; the published figure stands beside ours where there is any.
pub fn comparison_table(rows: &[Comparison]) -> Table {
    let mut table = Table::new(["metric", "of", "over", "at", "ratio", "spread", "change"]);
    let any_published = rows.iter().any(|row| row.published.is_some());
    table.columns.extend(any_published.then(|| "published".to_owned()));
    for row in rows {
        let mut cells = vec![
            row.metric.clone(),
            row.of.clone(),
            row.over.clone(),
            show_point(row.at.as_ref()),
            if row.is_meaningful() { format!("{:.3}", row.ratio) } else { "host-bound".into() },
            if row.is_meaningful() { format!("{:.3} .. {:.3}", row.low, row.high) } else { "-".into() },
            if row.is_meaningful() { format!("{:+.1}%", (row.ratio - 1.0) * 100.0) } else { "-".into() },
        ];
        if any_published {
            cells.push(match &row.published {
                Some(p) if p.kind == "ratio" => format!("{:.3} ({:+.1}%)", p.value, (p.value - 1.0) * 100.0),
                Some(p) => format!("{} {}", show(p.value), p.unit),
                None => "-".into(),
            });
        }
        table.rows.push(cells);
    }
    table
}

/// The rows that a reader wants first: each point, and the row over all points when there are several.
pub fn essential(rows: &[Comparison]) -> Vec<Comparison> {
    let several = |row: &Comparison| {
        rows.iter()
            .filter(|r| r.at.is_some() && r.metric == row.metric && r.of == row.of && r.over == row.over)
            .count()
            != 1
    };
    rows.iter().filter(|row| row.at.is_some() || several(row)).cloned().collect()
}

/// How busy the host was, by variant.
pub fn cpu_table(results: &Results) -> Table {
    let mut names: Vec<&String> =
        results.variants.iter().flat_map(|v| &v.runs).flat_map(|run| run.cpu.by_process.keys()).collect();
    names.sort();
    names.dedup();
    let mut table = Table::new(["variant", "at", "busy", "stolen", "waited for"]);
    table.columns.extend(names.iter().map(|name| (*name).clone()));
    for variant in &results.variants {
        for point in crate::results::points(std::slice::from_ref(variant)) {
            let runs: Vec<_> = variant.runs.iter().filter(|run| run.at == point).collect();
            let median = |f: &dyn Fn(&crate::results::Run) -> f64| {
                let values: Vec<f64> = runs.iter().map(|run| f(run)).collect();
                format!("{}%", show(crate::results::median(&values).unwrap_or(0.0)))
            };
            let mut row = vec![variant.name.clone(), show_point(Some(&point))];
            row.extend([
                median(&|run| run.cpu.busy),
                median(&|run| run.cpu.steal),
                median(&|run| run.cpu.waiting),
            ]);
            row.extend(
                names.iter().map(|name| median(&|run| run.cpu.by_process.get(*name).copied().unwrap_or(0.0))),
            );
            table.rows.push(row);
        }
    }
    table
}

impl Report<'_> {
    /// Writes the page.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        fs::write(path, self.html()).with_context(|| format!("writing {}", path.display()))
    }

    /// The page.
    pub fn html(&self) -> String {
        let results = self.results;
        let mut body = String::new();
        let _ = writeln!(
            body,
            "<header><h1>{}</h1>\n<p class=\"question\">{}</p>",
            html(&self.title),
            html(&self.question)
        );
        let class = if results.host_was_bottleneck() { "answer warning" } else { "answer" };
        let _ = writeln!(body, "<p class=\"{class}\">{}</p></header>", html(&self.answer));
        if !self.headlines.is_empty() {
            body.push_str("<div class=\"headlines\">\n");
            for headline in &self.headlines {
                let _ = writeln!(
                    body,
                    "<div><span>{}</span><b>{}</b><i>{}</i></div>",
                    html(&headline.label),
                    html(&headline.value),
                    html(&headline.detail)
                );
            }
            body.push_str("</div>\n");
        }
        for section in &self.sections {
            section.write(&mut body);
        }
        Section {
            heading: "All comparisons".into(),
            text: "Ratios are medians over interleaved pairs of runs, with the smallest and the largest pair; \"all\" is the \
                   geometric mean over the points."
                .into(),
            table: Some(comparison_table(&results.comparisons)),
            ..Section::default()
        }
        .write(&mut body);
        Section {
            heading: "The host".into(),
            text: format!(
                "{}, {} processors, {} of memory, Linux {}. {} Use of all processors together, and the share of the connections' \
                 time that went into waiting for one; \
                 medians of the runs. With more than {CPU_SATURATED}% and {CPU_WAITED}% the host set the pace, not the drive.",
                results.host.cpu,
                results.host.processors,
                show_size(results.host.memory),
                results.host.kernel,
                results.host.software.iter().map(|s| format!("{s}.")).collect::<Vec<_>>().join(" "),
            ),
            table: Some(cpu_table(results)),
            ..Section::default()
        }
        .write(&mut body);
        if !results.notes.is_empty() {
            body.push_str("<section><h2>Notes</h2><ul>\n");
            results.notes.iter().for_each(|note| {
                let _ = writeln!(body, "<li>{}</li>", html(note));
            });
            body.push_str("</ul></section>\n");
        }
        let drive = serde_json::to_string_pretty(&results.drive).unwrap_or_default();
        let _ = writeln!(
            body,
            "<section><details><summary>The drive, as configured</summary><pre>{}</pre></details></section>\n<footer>tranche \
             study {}, {}, seed {}. The figures of every run are in results.json and results.csv beside this file.</footer>",
            html(&drive),
            html(&results.study),
            results.engine,
            results.seed
        );
        page(&self.title, &body)
    }
}

fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>{STYLE}</style></head>\n<body>{body}\
         </body></html>\n",
        html(title)
    )
}

/// A page over the reports of several studies.
#[derive(Clone, Debug)]
pub struct Overview {
    /// Title of the page.
    pub title: String,
    /// The question that the studies answer.
    pub question: String,
    /// The answer, a paragraph for each study.
    pub answers: Vec<String>,
    /// What they found, side by side.
    pub sections: Vec<Section>,
}

impl Overview {
    /// Writes the page.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut body = format!(
            "<header><h1>{}</h1>\n<p class=\"question\">{}</p>\n",
            html(&self.title),
            html(&self.question)
        );
        for answer in &self.answers {
            let _ = writeln!(body, "<p class=\"answer\">{}</p>", html(answer));
        }
        body.push_str("</header>\n");
        for section in &self.sections {
            section.write(&mut body);
        }
        fs::write(path, page(&self.title, &body)).with_context(|| format!("writing {}", path.display()))
    }
}

impl Section {
    fn write(&self, out: &mut String) {
        let _ = writeln!(out, "<section><h2>{}</h2>", html(&self.heading));
        if !self.text.is_empty() {
            let _ = writeln!(out, "<p>{}</p>", html(&self.text));
        }
        if !self.charts.is_empty() {
            out.push_str("<div class=\"charts\">\n");
            self.charts.iter().for_each(|svg| {
                let _ = writeln!(out, "<figure>{svg}</figure>");
            });
            out.push_str("</div>\n");
        }
        if let Some(table) = &self.table {
            out.push_str(&table.html());
        }
        out.push_str("</section>\n");
    }
}

const STYLE: &str = include_str!("style.css");
