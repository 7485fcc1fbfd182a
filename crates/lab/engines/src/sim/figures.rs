//! What a run is in figures: the columns of the results.

use serde_json::{Map, Value};

use super::case::{Case, RunResult, State};
use lab_report::{
    counters::total,
    sheet::{Cell, NamedCell as Column},
};

/// What is between several problems or warnings of a run.
const SEPARATOR: &str = "; ";

const DIRECTIONS: [[&str; 9]; 3] = [
    [
        "read_ios",
        "read_bytes",
        "read_iops",
        "read_bytes_per_second",
        "read_mean_us",
        "read_p50_us",
        "read_p99_us",
        "read_p999_us",
        "read_max_us",
    ],
    [
        "write_ios",
        "write_bytes",
        "write_iops",
        "write_bytes_per_second",
        "write_mean_us",
        "write_p50_us",
        "write_p99_us",
        "write_p999_us",
        "write_max_us",
    ],
    [
        "trim_ios",
        "trim_bytes",
        "trim_iops",
        "trim_bytes_per_second",
        "trim_mean_us",
        "trim_p50_us",
        "trim_p99_us",
        "trim_p999_us",
        "trim_max_us",
    ],
];

/// All columns of a run, always the same in the same order. Those of this machine, which differ from run to run, are the last.
#[expect(clippy::cast_precision_loss, reason = "for reading")]
pub(super) fn columns(case: &Case, ran: &RunResult) -> Vec<Column> {
    let mut columns: Vec<Column> = vec![
        ("seed", Cell::whole(case.seed)),
        ("precondition", Cell::text(case.precondition.name().to_owned())),
        ("settling_rounds", Cell::whole(ran.settled.map(|settled| settled.rounds))),
        ("simulated_seconds", Cell::real(ran.simulated.as_secs_f64())),
        ("requests", Cell::whole(ran.played.requests)),
    ];
    for (names, moved) in DIRECTIONS.into_iter().zip(&ran.played.traffic) {
        let there = moved.ios > 0;
        let real = |value: f64| Cell::real(there.then_some(value));
        let us = |nanos: u64| real(nanos as f64 / 1e3);
        let rate = |count| real(crate::bench::per_second(count, moved.nanos));
        let figures = [
            Cell::whole(moved.ios),
            Cell::whole(moved.bytes),
            rate(moved.ios),
            rate(moved.bytes),
            real(moved.mean / 1e3),
            us(moved.p50),
            us(moved.p99),
            us(moved.p999),
            us(moved.max),
        ];
        columns.extend(names.into_iter().zip(figures));
    }
    let all = total(&ran.namespaces);
    let texts = |texts: &[String]| Cell::text((!texts.is_empty()).then(|| texts.join(SEPARATOR)));
    columns.extend([
        ("host_bytes_read", Cell::whole(all.host_bytes_read)),
        ("host_bytes_written", Cell::whole(all.host_bytes_written)),
        ("nand_bytes_written", Cell::whole(ran.nand_bytes_written)),
        ("write_amplification", Cell::real(ran.write_amplification())),
        ("over_provisioning", Cell::real(case.over_provisioning())),
        ("digest", Cell::text(format!("{:016x}", ran.played.digest))),
        ("contents", Cell::text(ran.played.found.map(|found| format!("{found:016x}")))),
        ("state", Cell::text(State::of(ran).name().to_owned())),
        ("problem", texts(&ran.played.problems)),
        ("warnings", texts(&case.doubts(ran))),
        ("interrupted", Cell::whole(u64::from(ran.played.interrupted))),
        ("preparation_seconds", Cell::real(ran.preparation.as_secs_f64())),
        ("wall_seconds", Cell::real(ran.wall.as_secs_f64())),
        ("cpu_seconds", Cell::real(ran.cpu.as_secs_f64())),
        ("requests_per_cpu_second", Cell::real(ran.requests_per_cpu_second())),
    ]);
    columns
}

/// The columns of a run that did not come to figures.
pub(super) fn failed(case: &Case, state: State, problem: &str) -> Vec<Column> {
    let keep = |(name, cell): Column| match name {
        "seed" | "precondition" => (name, cell),
        "state" => (name, Cell::text(state.name().to_owned())),
        "problem" => (name, Cell::text(problem.to_owned())),
        _ => (name, cell.empty()),
    };
    columns(case, &RunResult::default()).into_iter().map(keep).collect()
}

/// The columns of a run from its document.
pub(super) fn read(case: &Case, simulation: &Map<String, Value>, warnings: &[String]) -> Vec<Column> {
    let fill = |(name, cell): Column| match name {
        "warnings" => (name, Cell::text((!warnings.is_empty()).then(|| warnings.join(SEPARATOR)))),
        _ => (name, cell.filled(simulation.get(name).unwrap_or(&Value::Null))),
    };
    columns(case, &RunResult::default()).into_iter().map(fill).collect()
}

/// The columns as an object.
pub(super) fn object(columns: &[Column]) -> Map<String, Value> {
    columns.iter().map(|(name, cell)| ((*name).to_owned(), cell.json())).collect()
}
