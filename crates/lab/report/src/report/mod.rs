//! `report.html`: one file without scripts or links, to be mailed and kept.

pub mod charts;
mod metric_table;
mod table;

use std::{fs, path::Path};

use anyhow::{Context, Result};
use askama::Template;

pub use self::{
    metric_table::{MetricRow, MetricTable},
    table::Table,
};
use crate::{
    Findings,
    control::PARTIAL,
    figure::{show, show_size},
    results::{CPU_SATURATED, CPU_WAITED, Comparison, Point, QUICK_RUN_NOTE, Results},
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

/// Writes a study's results and its page into a directory. A terminal shows the tables of its sections, the answer, the notes, and where the
/// page is.
///
/// # Errors
/// Something cannot be written.
pub fn publish(
    mut results: Results,
    out: &Path,
    interrupted: bool,
    report: impl FnOnce(&Results) -> Report<'_>,
) -> Result<Findings<Results>> {
    if interrupted {
        results.notes.insert(0, INTERRUPTION_NOTE.to_owned());
    }
    results.write(out)?;
    let page = out.join("report.html");
    let mut report = report(&results);
    if !qualify(&mut report.title, &mut report.answer, &results.notes) {
        report.headlines.clear();
    }
    report.write(&page)?;
    let text = terminal_text(&report.sections, &report.answer, &results.notes, &page);
    let failure = interrupted.then(|| PARTIAL.to_owned());
    Ok(Findings { results, written: Some(out.to_owned()), text, failure })
}

fn terminal_text(sections: &[Section], answer: &str, notes: &[String], page: &Path) -> String {
    let tables: String = sections
        .iter()
        .filter_map(|section| Some(format!("{}\n{}\n", section.heading, section.table.as_ref()?.text())))
        .collect();
    let notes: String = notes.iter().map(|note| format!("- {note}\n")).collect();
    format!("{tables}{answer}\n\n{notes}\nreport: {}", page.display())
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

/// The page of `page.html`.
#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    title: &'a str,
    question: &'a str,
    answers: &'a [String],
    /// Whether the answers are to be taken with care.
    warning: bool,
    headlines: &'a [Headline],
    sections: &'a [Section],
    run: Option<Run<'a>>,
}

/// How the figures of a page came about.
struct Run<'a> {
    study: &'a str,
    engine: String,
    seed: u64,
    /// Its configuration.
    drive: String,
    notes: &'a [String],
}

impl Page<'_> {
    fn write(&self, path: &Path) -> Result<()> {
        let html = self.render().context("making the report")?;
        fs::write(path, html).with_context(|| format!("writing {}", path.display()))
    }
}

/// The first note of results that are not all there.
const INTERRUPTION_NOTE: &str = "The run was interrupted: these are the results of the part that ran.";

/// Says in the title and before the answer what makes results less than those of a whole run. Whether they are whole.
fn qualify(title: &mut String, answer: &mut String, notes: &[String]) -> bool {
    let mut whole = true;
    for (note, word) in [(QUICK_RUN_NOTE, "quick run"), (INTERRUPTION_NOTE, "interrupted")] {
        if notes.iter().any(|other| other == note) {
            *title = format!("{title} ({word})");
            *answer = format!("{note} {answer}");
            whole = false;
        }
    }
    whole
}

impl Report<'_> {
    /// Writes the page.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let results = self.results;
        let mut sections = self.sections.clone();
        sections.push(comparisons(results));
        sections.push(host(results));
        let run = Run {
            study: &results.study,
            engine: results.engine.to_string(),
            seed: results.seed,
            drive: serde_json::to_string_pretty(&results.drive).context("showing the drive")?,
            notes: &results.notes,
        };
        Page {
            title: &self.title,
            question: &self.question,
            answers: std::slice::from_ref(&self.answer),
            warning: results.host_was_bottleneck(),
            headlines: &self.headlines,
            sections: &sections,
            run: Some(run),
        }
        .write(path)
    }
}

fn comparisons(results: &Results) -> Section {
    Section {
        heading: "All comparisons".into(),
        text: "Ratios are medians over interleaved pairs of runs, with the smallest and the largest pair; \"all\" is the \
               geometric mean over the points."
            .into(),
        table: Some(comparison_table(&essential(&results.comparisons))),
        ..Section::default()
    }
}

fn host(results: &Results) -> Section {
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
        Page {
            title: &self.title,
            question: &self.question,
            answers: &self.answers,
            warning: false,
            headlines: &[],
            sections: &self.sections,
            run: None,
        }
        .write(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn runs_that_are_less_than_whole_say_so_first() {
        let qualified = |notes: &[&str]| {
            let notes: Vec<String> = notes.iter().map(|note| (*note).to_owned()).collect();
            let (mut title, mut answer) = ("Caches".to_owned(), "It is 3 times as fast.".to_owned());
            let whole = qualify(&mut title, &mut answer, &notes);
            (whole, title, answer)
        };
        assert_eq!(qualified(&["A note."]), (true, "Caches".into(), "It is 3 times as fast.".into()));
        for (note, title) in
            [(QUICK_RUN_NOTE, "Caches (quick run)"), (INTERRUPTION_NOTE, "Caches (interrupted)")]
        {
            let answer = format!("{note} It is 3 times as fast.");
            assert_eq!(qualified(&["A note.", note]), (false, title.into(), answer));
        }
    }

    #[test]
    fn text_is_escaped_and_charts_are_not() {
        let mut table = Table::new(["name", "<b>"]);
        table.rows.push(vec!["a<b".into(), "\"&\"".into()]);
        let section = Section {
            heading: "<i>".into(),
            charts: vec!["<svg></svg>".into()],
            table: Some(table),
            ..Section::default()
        };
        let overview = Overview {
            title: "<script>".into(),
            question: "1 < 2?".into(),
            answers: vec!["yes".into(), "no".into()],
            sections: vec![section],
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.html");
        overview.write(&path).unwrap();
        let page = fs::read_to_string(&path).unwrap();
        assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"), "{page}");
        assert!(page.contains("<figure><svg></svg></figure>"), "{page}");
        for tag in ["<script>", "<i>", "<b>", "a<b", "1 < 2"] {
            assert!(!page.contains(tag), "{tag} is in the page as it is");
        }
        assert!(page.contains("<td>a&#60;b</td>") && page.contains("<style>\n:root {"), "{page}");
        assert_eq!(page.matches("class=\"answer\"").count(), 2);
        assert!(!page.contains("<footer>"), "there is no single run behind it");
    }
}
