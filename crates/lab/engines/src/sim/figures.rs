//! What a run is in figures: the columns of the results, and fields of its document.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use sim::Precondition;

use super::{
    case::{Case, RunResult, State},
    jobs::Moved,
};
use crate::bench::per_second;
use lab_report::{
    counters::total,
    sheet::{Cell, NamedCell as Column},
};

/// What is between several problems or warnings of a run.
const SEPARATOR: &str = "; ";

/// The column of warnings, which are a list in documents.
const WARNINGS: &str = "warnings";

/// When figures are null.
const FAILED: &str = "the run failed before there were figures";
const NO_SUCH_IO: &str = "there was none of this kind";

const PRECONDITIONS: &[&str] =
    &[Precondition::None.name(), Precondition::Fill.name(), Precondition::Steady.name()];
const STATES: &[&str] = &[State::Done.name(), State::Failed.name(), State::Interrupted.name()];

/// A figure of a run.
struct Field {
    name: &'static str,
    about: &'static str,
    value: FieldValue,
    /// Empty: it has none.
    unit: &'static str,
    /// When documents have null in its place. Empty: never.
    null: &'static str,
    /// The smallest that a whole number is.
    least: u64,
    /// All texts that it may be. Empty: any.
    choices: &'static [&'static str],
}

use FieldValue::{Real, Text, Whole};

/// How a run comes to a figure.
enum FieldValue {
    Whole(fn(&Case, &RunResult) -> Option<u64>),
    Real(fn(&Case, &RunResult) -> Option<f64>),
    Text(fn(&Case, &RunResult) -> Option<String>),
}

impl Field {
    const fn new(name: &'static str, about: &'static str, value: FieldValue) -> Self {
        Self { name, about, value, unit: "", null: FAILED, least: 0, choices: &[] }
    }

    const fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    const fn null(self, null: &'static str) -> Self {
        Self { null, ..self }
    }

    const fn at_least(self, least: u64) -> Self {
        Self { least, ..self }
    }

    const fn one_of(self, choices: &'static [&'static str]) -> Self {
        Self { choices, ..self }
    }

    fn cell(&self, case: &Case, ran: &RunResult) -> Cell {
        match self.value {
            Whole(value) => Cell::whole(value(case, ran)),
            Real(value) => Cell::real(value(case, ran)),
            Text(value) => Cell::text(value(case, ran)),
        }
    }

    fn schema(&self) -> Schema {
        let kind = match self.value {
            Whole(_) => "integer",
            Real(_) => "number",
            Text(_) => "string",
        };
        let mut schema = json_schema!({ "description": self.about, "type": kind });
        if !self.null.is_empty() {
            schema.insert("type".to_owned(), Value::from([kind, "null"].as_slice()));
        }
        for (key, words) in [("null", self.null), ("unit", self.unit)] {
            if !words.is_empty() {
                schema.insert(key.to_owned(), words.into());
            }
        }
        if kind == "integer" {
            schema.insert("minimum".to_owned(), self.least.into());
        }
        if !self.choices.is_empty() {
            schema.insert("enum".to_owned(), self.choices.into());
        }
        schema
    }
}

const SETTINGS: &[Field] = &[
    Field::new("seed", "Seed of everything random.", Whole(|case, _| Some(case.seed))).null(""),
    Field::new(
        "precondition",
        "What the drive went through first.",
        Text(|case, _| Some(case.precondition.name().to_owned())),
    )
    .null("")
    .one_of(PRECONDITIONS),
    Field::new(
        "settling_rounds",
        "Rounds of the load before the measured one.",
        Whole(|_, ran| ran.settled.map(|settled| settled.rounds)),
    )
    .null("rounds were not asked for")
    .at_least(1),
    Field::new(
        "simulated_seconds",
        "Time of the load on the drive.",
        Real(|_, ran| Some(ran.simulated.as_secs_f64())),
    )
    .unit("s"),
    Field::new("requests", "Requests of the load.", Whole(|_, ran| Some(ran.played.requests))),
];

/// A figure of I/Os of one kind, if there were any.
fn of_any(moved: &Moved, figure: fn(&Moved) -> f64) -> Option<f64> {
    (moved.ios > 0).then(|| figure(moved))
}

fn iops(moved: &Moved) -> f64 {
    per_second(moved.ios, moved.nanos)
}

fn bandwidth(moved: &Moved) -> f64 {
    per_second(moved.bytes, moved.nanos)
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn us(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

/// The figures of I/Os of one kind.
macro_rules! direction {
    ($name:literal, $index:literal) => {
        &[
            Field::new(
                concat!($name, "_ios"),
                concat!("I/Os of this kind (", $name, ")."),
                Whole(|_, ran| Some(ran.played.traffic[$index].ios)),
            ),
            Field::new(
                concat!($name, "_bytes"),
                "What they moved.",
                Whole(|_, ran| Some(ran.played.traffic[$index].bytes)),
            )
            .unit("bytes"),
            direction!($name, $index, "_iops", "I/Os that ended.", "1/s", iops),
            direction!($name, $index, "_bytes_per_second", "Bandwidth.", "bytes/s", bandwidth),
            direction!($name, $index, "_mean_us", "Mean latency.", "us", |of| of.mean / 1e3),
            direction!($name, $index, "_p50_us", "Median of the latency.", "us", |of| us(of.p50)),
            direction!($name, $index, "_p99_us", "99 in 100 are no longer.", "us", |of| us(of.p99)),
            direction!($name, $index, "_p999_us", "999 in 1000 are no longer.", "us", |of| us(of.p999)),
            direction!($name, $index, "_max_us", "The longest latency.", "us", |of| us(of.max)),
        ]
    };
    ($name:literal, $index:literal, $figure:literal, $about:literal, $unit:literal, $value:expr) => {
        Field::new(
            concat!($name, $figure),
            $about,
            Real(|_, ran| of_any(&ran.played.traffic[$index], $value)),
        )
        .unit($unit)
        .null(NO_SUCH_IO)
    };
}

const READS: &[Field] = direction!("read", 0);
const WRITES: &[Field] = direction!("write", 1);
const TRIMS: &[Field] = direction!("trim", 2);

fn joined(texts: &[String]) -> Option<String> {
    (!texts.is_empty()).then(|| texts.join(SEPARATOR))
}

const OF_THE_DRIVE: &[Field] = &[
    Field::new(
        "host_bytes_read",
        "What hosts read.",
        Whole(|_, ran| Some(total(&ran.namespaces).host_bytes_read)),
    )
    .unit("bytes"),
    Field::new(
        "host_bytes_written",
        "What hosts wrote.",
        Whole(|_, ran| Some(total(&ran.namespaces).host_bytes_written)),
    )
    .unit("bytes"),
    Field::new(
        "nand_bytes_written",
        "What was programmed on flash.",
        Whole(|_, ran| Some(ran.nand_bytes_written)),
    )
    .unit("bytes"),
    Field::new(
        "write_amplification",
        "NAND bytes over host bytes to flash.",
        Real(|_, ran| ran.write_amplification()),
    )
    .null("hosts wrote nothing to flash, or the run failed"),
    Field::new(
        "over_provisioning",
        "Flash beyond what namespaces have, over what they have.",
        Real(|case, _| case.over_provisioning()),
    )
    .null("no namespace is on flash, or the run failed"),
    Field::new(
        "digest",
        "Digest of all completions, 16 hexadecimal digits: the same for the same run.",
        Text(|_, ran| Some(format!("{:016x}", ran.played.digest))),
    ),
    Field::new(
        "contents",
        "Digest of what the drive holds at the end.",
        Text(|_, ran| ran.played.found.map(|found| format!("{found:016x}"))),
    )
    .null("contents are not kept, or are not compared"),
];

/// What became of the run. The figures of this machine, which differ from run to run, are the last.
const OF_THE_RUN: &[Field] = &[
    Field::new(
        "state",
        "What became of the run: failed if it came to no figures, or requests failed.",
        Text(|_, ran| Some(State::of(ran).name().to_owned())),
    )
    .null("")
    .one_of(STATES),
    Field::new("problem", "What went wrong.", Text(|_, ran| joined(&ran.played.problems)))
        .null("nothing went wrong"),
    Field::new(
        WARNINGS,
        "What makes the figures mean less than they seem to.",
        Text(|case, ran| joined(&case.doubts(ran))),
    ),
    Field::new(
        "interrupted",
        "1 if the run was ended by a signal.",
        Whole(|_, ran| Some(u64::from(ran.played.interrupted))),
    ),
    Field::new(
        "preparation_seconds",
        "Time of this machine for preconditioning.",
        Real(|_, ran| Some(ran.preparation.as_secs_f64())),
    )
    .unit("s"),
    Field::new(
        "wall_seconds",
        "Time of this machine for the load.",
        Real(|_, ran| Some(ran.wall.as_secs_f64())),
    )
    .unit("s"),
    Field::new("cpu_seconds", "Processor time for the load.", Real(|_, ran| Some(ran.cpu.as_secs_f64())))
        .unit("s"),
    Field::new(
        "requests_per_cpu_second",
        "Requests over processor time.",
        Real(|_, ran| ran.requests_per_cpu_second()),
    )
    .unit("1/s")
    .null("the run was too short to tell, or failed"),
];

/// All figures, always the same in the same order.
const FIELDS: [&[Field]; 6] = [SETTINGS, READS, WRITES, TRIMS, OF_THE_DRIVE, OF_THE_RUN];

/// All columns of a run.
pub(super) fn columns(case: &Case, ran: &RunResult) -> Vec<Column> {
    FIELDS.into_iter().flatten().map(|field| (field.name, field.cell(case, ran))).collect()
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
        WARNINGS => (name, Cell::text(joined(warnings))),
        _ => (name, cell.filled(simulation.get(name).unwrap_or(&Value::Null))),
    };
    columns(case, &RunResult::default()).into_iter().map(fill).collect()
}

/// The columns as fields of a document.
#[derive(Clone, Debug)]
pub(super) struct Figures(pub Vec<Column>);

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let own = self.0.iter().filter(|(name, _)| *name != WARNINGS);
        serializer.collect_map(own.map(|(name, cell)| (name, cell.json())))
    }
}

impl JsonSchema for Figures {
    fn schema_name() -> Cow<'static, str> {
        "Figures".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let own = || FIELDS.into_iter().flatten().filter(|field| field.name != WARNINGS);
        let properties: Map<_, _> =
            own().map(|field| (field.name.to_owned(), field.schema().to_value())).collect();
        let required: Vec<_> = own().map(|field| field.name).collect();
        json_schema!({ "type": "object", "properties": properties, "required": required })
    }
}
