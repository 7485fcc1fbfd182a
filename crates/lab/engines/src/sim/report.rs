//! What is told of runs.

use std::fmt::{self, Write as _};

use super::{
    case::{Case, RunResult, Settled, State},
    ended_run::EndedRun,
};
use lab_report::{
    counters::{Counters, total},
    figure, memory,
    report::Table,
    sheet::Figure,
};

/// A run for people.
pub(super) fn text(case: &Case, ran: &RunResult) -> String {
    let mut out = ran.played.text.clone();
    // Writing to a string does not fail.
    let _ = drive(&mut out, case, ran);
    out.truncate(out.trim_end().len());
    out
}

fn drive(out: &mut String, case: &Case, ran: &RunResult) -> fmt::Result {
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
    if case.precondition != sim::Precondition::None {
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
const TABLE_COLUMNS: [(&str, &str); 10] = [
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

/// All runs for people: parameters, the most important figures, what became of runs that are not done, and numbers of warnings, which stand below.
pub(super) fn table(runs: &[(&Case, EndedRun)]) -> String {
    let figure = |ended: &EndedRun, name: &str| {
        ended.figures.iter().find(|(column, _)| *column == name)?.1.figure.clone()
    };
    let shown: Vec<_> = TABLE_COLUMNS
        .iter()
        .filter(|(_, name)| runs.iter().any(|(_, ended)| figure(ended, name).is_some()))
        .collect();
    let mut table = Table::default();
    let keys = runs.first().map(|(case, _)| case.parameters.iter().map(|(key, _)| key.clone()));
    table.columns = keys.into_iter().flatten().collect();
    table.columns.extend(shown.iter().map(|(head, _)| (*head).to_owned()));
    let states = runs.iter().any(|(_, ended)| ended.state != State::Done);
    let notes = Notes::new(runs);
    table.columns.extend(states.then(|| "state".to_owned()));
    table.columns.extend((!notes.0.is_empty()).then(|| "warnings".to_owned()));
    for (case, ended) in runs {
        let parameters = case.load.in_bytes(&case.parameters);
        let mut cells: Vec<String> = parameters.into_iter().map(|(_, value)| value).collect();
        cells.extend(shown.iter().map(|(_, name)| match figure(ended, name) {
            Some(Figure::Real(value)) if name.ends_with("bytes_per_second") => figure::show(value / 1e6),
            Some(Figure::Real(value)) => figure::show(value),
            Some(Figure::Whole(value)) => value.to_string(),
            Some(Figure::Text(text)) => text,
            None => "-".to_owned(),
        }));
        cells.extend(states.then(|| ended.state.name().to_owned()));
        cells.extend((!notes.0.is_empty()).then(|| notes.of(ended)));
        table.rows.push(cells);
    }
    format!("{}{notes}", table.text())
}

/// The warnings of a sweep: of those that differ in numbers alone the first one, and how many runs have it.
struct Notes(Vec<(String, String, usize)>);

impl Notes {
    fn new(runs: &[(&Case, EndedRun)]) -> Self {
        let mut notes: Vec<(String, String, usize)> = Vec::new();
        for warning in runs.iter().flat_map(|(_, ended)| &ended.warnings) {
            let kind = kind(warning);
            match notes.iter_mut().find(|(same, ..)| *same == kind) {
                Some((.., count)) => *count += 1,
                None => notes.push((kind, warning.clone(), 1)),
            }
        }
        Self(notes)
    }

    /// Numbers of the warnings of a run.
    fn of(&self, ended: &EndedRun) -> String {
        let kinds: Vec<String> = ended.warnings.iter().map(|warning| kind(warning)).collect();
        let all = (1..).zip(&self.0).filter(|(_, (known, ..))| kinds.contains(known));
        let all: Vec<String> = all.map(|(number, _): (usize, _)| number.to_string()).collect();
        if all.is_empty() { "-".to_owned() } else { all.join(",") }
    }
}

/// A warning without its numbers.
fn kind(warning: &str) -> String {
    warning.chars().filter(|letter| !letter.is_ascii_digit() && *letter != '.').collect()
}

impl fmt::Display for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_empty() {
            writeln!(f, "\nWarnings:")?;
        }
        for (number, (_, warning, count)) in (1..).zip(&self.0) {
            let runs = if *count == 1 { "run" } else { "runs" };
            writeln!(f, "{number:>3} ({count} {runs}) {warning}")?;
        }
        Ok(())
    }
}
