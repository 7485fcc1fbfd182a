//! A run that has ended, as results have it: of this sweep, or of an earlier one that it continues.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::{
    case::{Case, RunResult},
    figures, report, series,
};
use crate::{control::Interrupted, sweep::sheet::NamedCell as Column};

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It came to figures, and nothing went wrong.
    Done,
    /// It came to none, or requests failed.
    Failed,
    /// The user ended it.
    Interrupted,
}

impl State {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }

    /// That of a run with figures.
    pub fn of(ran: &RunResult) -> Self {
        match (ran.played.interrupted, ran.played.problems.is_empty()) {
            (true, _) => Self::Interrupted,
            (false, true) => Self::Done,
            (false, false) => Self::Failed,
        }
    }

    /// That of a run without figures.
    pub fn of_error(error: &anyhow::Error) -> Self {
        if error.is::<Interrupted>() { Self::Interrupted } else { Self::Failed }
    }
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub state: State,
    /// All columns of its row.
    pub figures: Vec<Column>,
    /// The run for programs.
    pub document: Value,
    /// A row for each interval.
    pub series: Vec<Vec<Column>>,
    /// What makes the figures mean less than they seem to.
    pub warnings: Vec<String>,
    /// What went wrong.
    pub problems: Vec<String>,
    /// Time of this machine that it took in this sweep; `None` if an earlier one has made it.
    pub took: Option<Duration>,
}

impl Ended {
    pub fn new(case: &Case, ran: &Result<RunResult>) -> Self {
        match ran {
            Ok(ran) => Self {
                state: State::of(ran),
                figures: figures::columns(case, ran),
                document: report::document(case, ran),
                series: ran.series.clone(),
                warnings: case.doubts(ran),
                problems: ran.played.problems.clone(),
                took: Some(ran.preparation + ran.wall),
            },
            Err(error) => {
                let (state, problem) = (State::of_error(error), format!("{error:#}"));
                let figures = figures::failed(case, state, &problem);
                Self {
                    state,
                    document: report::failed(case, &figures),
                    figures,
                    series: Vec::new(),
                    warnings: Vec::new(),
                    problems: vec![problem],
                    took: Some(Duration::ZERO),
                }
            }
        }
    }

    /// For a file that [`Ended::read`] reads.
    pub fn written(&self) -> Value {
        let row = |row: &Vec<Column>| row.iter().map(|(_, cell)| cell.json()).collect::<Value>();
        json!({ "document": self.document, "series": self.series.iter().map(row).collect::<Vec<_>>() })
    }

    /// A run of this case that an earlier sweep has written, if it is done.
    ///
    /// # Errors
    /// It is not what was written.
    pub fn read(case: &Case, written: &Value) -> Result<Option<Self>> {
        let document = &written["document"];
        let simulation = document["simulation"].as_object().context("there is no simulation")?;
        if simulation.get("state") != Some(&json!(State::Done.name())) {
            return Ok(None);
        }
        let warnings = simulation.get("warnings").and_then(Value::as_array).into_iter().flatten();
        let warnings: Vec<String> = warnings.filter_map(|text| text.as_str().map(str::to_owned)).collect();
        let template = series::template()?;
        let row = |row: &Value| {
            let cells = template.iter().enumerate();
            cells.map(|(at, (name, cell))| (*name, cell.clone().filled(&row[at]))).collect()
        };
        Ok(Some(Self {
            state: State::Done,
            figures: figures::read(case, simulation, &warnings),
            document: document.clone(),
            series: written["series"].as_array().into_iter().flatten().map(row).collect(),
            warnings,
            problems: Vec::new(),
            took: None,
        }))
    }
}

/// Parameters of a run for programs.
pub(super) fn parameters(case: &Case) -> Value {
    let all = case.parameters.iter().map(|(key, value)| (key.clone(), json!(value)));
    all.collect::<Map<_, _>>().into()
}
