//! A run that has ended, as results have it: of this sweep, or of an earlier one that it continues.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{
    case::{Case, RunResult, State},
    document::RunDocument,
    figures::{self, Figures},
    series,
};
use lab_report::sheet::NamedCell as Column;

/// A run that has ended.
#[derive(Clone, Debug)]
pub(super) struct EndedRun {
    pub state: State,
    /// All columns of its row.
    pub figures: Vec<Column>,
    /// The run for programs.
    pub document: RunDocument,
    /// A row for each interval.
    pub series: Vec<Vec<Column>>,
    /// What makes the figures mean less than they seem to.
    pub warnings: Vec<String>,
    /// What went wrong.
    pub problems: Vec<String>,
    /// Time of this machine that it took in this sweep; `None` if an earlier one has made it.
    pub took: Option<Duration>,
}

impl EndedRun {
    pub fn new(case: &Case, ran: &Result<RunResult>) -> Self {
        match ran {
            Ok(ran) => {
                let (figures, warnings) = (figures::columns(case, ran), case.doubts(ran));
                Self {
                    state: State::of(ran),
                    document: RunDocument::new(case, ran, Figures(figures.clone()), warnings.clone()),
                    figures,
                    series: ran.series.clone(),
                    warnings,
                    problems: ran.played.problems.clone(),
                    took: Some(ran.preparation + ran.wall),
                }
            }
            Err(error) => {
                let (state, problem) = (State::of_error(error), format!("{error:#}"));
                let figures = figures::failed(case, state, &problem);
                Self {
                    state,
                    document: RunDocument::failed(case, Figures(figures.clone())),
                    figures,
                    series: Vec::new(),
                    warnings: Vec::new(),
                    problems: vec![problem],
                    took: Some(Duration::ZERO),
                }
            }
        }
    }

    /// For a file that [`EndedRun::read`] reads.
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
            document: RunDocument::Kept(document.clone()),
            series: written["series"].as_array().into_iter().flatten().map(row).collect(),
            warnings,
            problems: Vec::new(),
            took: None,
        }))
    }
}
