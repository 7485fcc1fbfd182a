//! What is told of runs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{
    case::{Case, RunResult, Settled},
    figures,
};
use crate::{
    counters::{Counters, total},
    figure, memory,
    report::Table,
    sweep::sheet::{Figure, Row},
};

/// A run for programs: the document of the load's own tool, and beside it what only the simulated drive knows.
pub(super) fn document(case: &Case, ran: &RunResult) -> Value {
    let mut document = match &ran.played.document {
        Value::Object(map) => map.clone(),
        _ => serde_json::Map::new(),
    };
    let mut simulation = figures::object(&figures::columns(case, ran));
    simulation.insert("parameters".into(), parameters(case));
    simulation.insert("namespaces".into(), json!(ran.namespaces));
    simulation.insert("warnings".into(), json!(case.doubts(ran)));
    simulation.insert("peak_memory_bytes".into(), json!(memory::peak()));
    document.insert("simulation".into(), simulation.into());
    document.into()
}

/// A run that failed, for programs.
pub(super) fn failed(case: &Case, problem: &str) -> Value {
    let mut simulation = figures::object(&figures::failed(case, problem));
    simulation.insert("parameters".into(), parameters(case));
    json!({ "simulation": simulation })
}

fn parameters(case: &Case) -> Value {
    let all = case.parameters.iter().map(|(key, value)| (key.clone(), json!(value)));
    all.collect::<serde_json::Map<_, _>>().into()
}

/// A run for people.
pub(super) fn text(case: &Case, ran: &RunResult) -> String {
    let mut out = ran.played.text.clone();
    // Writing to a string does not fail.
    let _ = drive(&mut out, case, ran);
    out.truncate(out.trim_end().len());
    out
}

fn drive(out: &mut String, case: &Case, ran: &RunResult) -> std::fmt::Result {
    let all = total(&ran.namespaces);
    writeln!(out, "\n\nDrive in virtual time:")?;
    write!(
        out,
        "  time         : {} s simulated in {} s, {} s of a processor",
        figure::show(ran.simulated.as_secs_f64()),
        figure::show(ran.wall.as_secs_f64()),
        figure::show(ran.cpu.as_secs_f64())
    )?;
    match ran.requests_per_cpu_second() {
        Some(rate) => writeln!(out, ": {} requests per processor-second", figure::show(rate))?,
        None => writeln!(out)?,
    }
    if case.precondition != run::Precondition::None {
        writeln!(
            out,
            "  before       : preconditioned ({}) in {} s{}",
            case.precondition.name(),
            figure::show(ran.preparation.as_secs_f64()),
            if ran.kept { ", from the cache" } else { "" }
        )?;
    }
    if let Some(Settled { rounds, is_steady, simulated }) = ran.settled {
        let end = if is_steady {
            "until write amplification no longer changed"
        } else {
            "and write amplification still changed"
        };
        let seconds = figure::show(simulated.as_secs_f64());
        writeln!(out, "  rounds       : the load {rounds} times before ({seconds} s simulated), {end}")?;
    }
    for space in case.space() {
        writeln!(out, "  space        : {space}")?;
    }
    write!(
        out,
        "  bytes        : host read {}, host wrote {}, NAND programmed {}",
        figure::show_size(all.host_bytes_read),
        figure::show_size(all.host_bytes_written),
        figure::show_size(ran.nand_bytes_written)
    )?;
    match ran.write_amplification() {
        Some(ratio) => writeln!(out, ", write amplification {ratio:.3}")?,
        None => writeln!(out)?,
    }
    for namespace in ran.namespaces.iter().filter(|n| n.counted.reads + n.counted.writes > 0) {
        let Counters { read_latency, write_latency, .. } = &namespace.counted;
        for (name, latency) in [("read", read_latency.percentiles()), ("write", write_latency.percentiles())]
        {
            if latency.count > 0 {
                writeln!(
                    out,
                    "  {:<5} {name:<6} : {} commands on {}, in the drive mean {} ms, p50 {}, p95 {}, p99 {}, max {}",
                    namespace.name,
                    figure::show(latency.count as f64),
                    namespace.medium,
                    figure::show(latency.mean),
                    figure::show(latency.p50),
                    figure::show(latency.p95),
                    figure::show(latency.p99),
                    figure::show(latency.max)
                )?;
            }
        }
    }
    let memory =
        memory::peak().map_or(String::new(), |bytes| format!(", {} of memory", figure::show_size(bytes)));
    writeln!(out, "  run          : seed {}, digest {:016x}{memory}", case.seed, ran.played.digest)
}

/// Columns of the table on the terminal: their heads, and the figures that they show if any run has them.
const SHOWN: [(&str, &str); 10] = [
    ("read IOPS", "read_iops"),
    ("read MB/s", "read_bytes_per_second"),
    ("read p99 µs", "read_p99_us"),
    ("write IOPS", "write_iops"),
    ("write MB/s", "write_bytes_per_second"),
    ("write p99 µs", "write_p99_us"),
    ("trim IOPS", "trim_iops"),
    ("NAND/host bytes", "write_amplification"),
    ("over-prov.", "over_provisioning"),
    ("seconds", "wall_seconds"),
];

/// All runs for people: parameters and the most important figures.
pub(super) fn table(rows: &[Row<'_>]) -> String {
    let figure =
        |row: &Row<'_>, name: &str| row.figures.iter().find(|(column, _)| *column == name)?.1.figure.clone();
    let shown: Vec<_> =
        SHOWN.iter().filter(|(_, name)| rows.iter().any(|row| figure(row, name).is_some())).collect();
    let mut table = Table::default();
    let keys = rows.first().map(|row| row.parameters.iter().map(|(key, _)| key.clone()));
    table.columns = keys.into_iter().flatten().collect();
    table.columns.extend(shown.iter().map(|(head, _)| (*head).to_owned()));
    for row in rows {
        let mut cells: Vec<String> = row.parameters.iter().map(|(_, value)| value.clone()).collect();
        cells.extend(shown.iter().map(|(_, name)| match figure(row, name) {
            Some(Figure::Real(value)) if name.ends_with("bytes_per_second") => figure::show(value / 1e6),
            Some(Figure::Real(value)) => figure::show(value),
            Some(Figure::Whole(value)) => value.to_string(),
            Some(Figure::Text(text)) => text,
            None => "-".to_owned(),
        }));
        table.rows.push(cells);
    }
    table.text()
}
