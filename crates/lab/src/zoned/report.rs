//! What the study says: the published tables beside ours.

use std::path::Path;

use anyhow::Result;

use super::{Options, published};
use crate::{
    figure::{show, show_size},
    report::{Headline, Report, Section, Table},
    results::{Point, Results},
};

fn percent(ratio: f64) -> String {
    format!("{:+.0}%", (ratio - 1.0) * 100.0)
}

fn value(results: &Results, variant: &str, metric: &str, at: &Point) -> Option<f64> {
    results.variant(variant)?.median(metric, at)
}

/// `ours`, what was published, and how far ours is from that.
fn beside(ours: Option<f64>, published: Option<f64>) -> [String; 3] {
    let text = |value: Option<f64>| value.map_or("-".into(), show);
    let off = ours.zip(published).map_or("-".into(), |(ours, theirs)| percent(ours / theirs));
    [text(ours), text(published), off]
}

/// Steady writes beside the published.
fn writes(results: &Results) -> Table {
    let mut table = Table::new(["drive", "MiB/s", "published", "off by", "write amplification"]);
    for (name, theirs) in published::STEADY_WRITES {
        let ours = value(results, name, "steady_write_MiBps", &Point::new());
        if ours.is_none() {
            continue;
        }
        let mut row = vec![name.to_owned()];
        row.extend(beside(ours, Some(theirs)));
        row.push(value(results, name, "write_amplification", &Point::new()).map_or("-".into(), show));
        table.rows.push(row);
    }
    table
}

/// Latency of reads beside writes, and the zoned drive's over the others'.
fn reads(results: &Results) -> Table {
    let mut table = Table::new([
        "writes MiB/s",
        "cns-7 us",
        "cns-28 us",
        "zns us",
        "zns / cns-7",
        "published",
        "zns / cns-28",
        "published",
    ]);
    for writes in std::iter::once(0).chain(published::READS.iter().map(|row| row.0)) {
        let at = Point::from([("writes_MiBps".into(), writes)]);
        let mean = |name: &str| value(results, name, "read_mean_us", &at);
        let zns = mean("zns");
        let ratio = |name: &str| zns.zip(mean(name)).map_or("-".into(), |(zns, other)| percent(zns / other));
        let theirs = published::READS.iter().find(|row| row.0 == writes);
        let text = |value: Option<f64>| value.map_or("-".into(), show);
        let row = vec![
            writes.to_string(),
            text(mean("cns-7")),
            text(mean("cns-28")),
            text(zns),
            ratio("cns-7"),
            theirs.map_or("-".into(), |row| percent(row.1)),
            ratio("cns-28"),
            theirs.map_or("-".into(), |row| percent(row.2)),
        ];
        if ["cns-7", "cns-28", "zns"].iter().any(|name| mean(name).is_some()) {
            table.rows.push(row);
        }
    }
    table
}

fn sections(results: &Results) -> Vec<Section> {
    let section = |heading: &str, text: &str, table: Table| {
        let table = (!table.rows.is_empty()).then_some(table)?;
        let (heading, text) = (heading.into(), text.into());
        Some(Section { heading, text, charts: Vec::new(), table: Some(table) })
    };
    [
        section(
            "Steady writes",
            "Writes of 64 KiB at random, after the drive was overwritten several times. ATC 2021, figure 1.",
            writes(results),
        ),
        section(
            "Reads beside writes",
            &format!(
                "Mean latency of a read of 4 KiB, one at a time. ATC 2021, figure 5b; an idle conventional drive takes {} us there.",
                published::IDLE_READ_US
            ),
            reads(results),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn answer(results: &Results) -> String {
    let steady = |name: &str| value(results, name, "steady_write_MiBps", &Point::new());
    match (steady("zns"), steady("cns-7"), steady("cns-28")) {
        (Some(zns), Some(seven), Some(more)) => format!(
            "Zones take {:.1} times the steady writes of a conventional namespace with 7 % of spare (published: 2.7), and {:.1} times those with 28 % (1.7).",
            zns / seven,
            zns / more
        ),
        _ => "The tables have what was asked for.".into(),
    }
}

/// Sentences for the reader.
pub(super) fn notes(results: &Results, options: &Options, media: u64) -> Vec<String> {
    let mut notes = vec![format!(
        "The drives have the chips of {:?} with 1/{} of their capacity: {} of flash. Channels, dies and their speed are whole; blocks are shorter, and there are fewer of them.",
        options.drive,
        options.scale,
        show_size(media)
    )];
    notes.push("f2fs is not simulated.".into());
    if results.variants.iter().any(|v| v.runs.iter().all(|run| run.repetition == 0)) {
        notes.push("One repetition: the same seed gives the same figures on every machine; --repeat shows how much they depend on it.".into());
    }
    notes
}

/// Writes the page.
pub(super) fn write(results: &Results, path: &Path) -> Result<()> {
    let steady = |name: &str| value(results, name, "steady_write_MiBps", &Point::new());
    let headline = steady("zns").zip(steady("cns-7")).map(|(zns, seven)| Headline {
        label: "Steady writes, zones over 7 % of spare".into(),
        value: format!("{:.2}x", zns / seven),
        detail: "published: 2.73x".into(),
    });
    Report {
        title: "Zones for a log-structured database".into(),
        question: "What do zones buy, against a conventional namespace of the same chips?".into(),
        answer: answer(results),
        headlines: headline.into_iter().collect(),
        results,
        sections: sections(results),
    }
    .write(path)
}

/// The tables and the answer, for a terminal.
pub(super) fn text(results: &Results, page: &Path) -> String {
    let tables: String = sections(results)
        .iter()
        .filter_map(|section| Some(format!("{}\n{}\n", section.heading, section.table.as_ref()?.text())))
        .collect();
    let notes: String = results.notes.iter().map(|note| format!("- {note}\n")).collect();
    format!("{tables}{}\n\n{notes}\nreport: {}", answer(results), page.display())
}
