//! What is printed of runs for programs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{
    case::{Case, RunResult},
    figures::Figures,
    load_document::{ActDocument, LoadDocument, TraceDocument},
};
use crate::bench::FioDocument;
use lab_report::{counters::NamespaceCounts, memory, results::Host};

/// All runs of a sweep. It is also the content of results.json, without `results`.
#[derive(Serialize, JsonSchema)]
pub struct SweepDocument<'a> {
    /// Always sim.
    #[schemars(extend("enum" = ["sim"]))]
    pub(super) engine: &'static str,
    /// The file of the load.
    pub(super) load: &'a str,
    /// Profile or TOML file of the drive.
    pub(super) drive: &'a str,
    /// The seed that was given.
    pub(super) seed: u64,
    /// The settings.
    pub(super) set: &'a [String],
    /// The machine.
    pub(super) host: Host,
    /// Runs at the same time.
    pub(super) threads: usize,
    /// Time of this machine.
    #[schemars(extend("unit" = "s"))]
    pub(super) wall_seconds: f64,
    /// Time of all runs together.
    #[schemars(extend("unit" = "s"))]
    pub(super) busy_seconds: f64,
    /// This process's largest memory.
    #[schemars(extend("unit" = "bytes", "null" = "the system does not tell"))]
    pub(super) peak_memory_bytes: Option<u64>,
    /// Runs that an earlier sweep in this directory has made (--resume).
    pub(super) kept_runs: usize,
    /// The runs.
    pub(super) runs: Vec<&'a RunDocument>,
}

/// A run: the document of the load's own tool, and what only the simulated drive knows.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum RunDocument {
    Fio(Run<FioDocument>),
    Act(Run<ActDocument>),
    Trace(Run<TraceDocument>),
    /// A run that came to no figures.
    Failed {
        /// Why it failed.
        simulation: Simulation,
    },
    /// A run of an earlier sweep, as its journal has it.
    #[schemars(skip)]
    Kept(Value),
}

impl RunDocument {
    /// Of a run that has ended. `warnings` say what makes its figures mean less than they seem to.
    pub fn new(case: &Case, ran: &RunResult, figures: Figures, warnings: Vec<String>) -> Self {
        let simulation = Simulation {
            figures,
            parameters: parameters(case),
            namespaces: Some(ran.namespaces.clone()),
            warnings,
            peak_memory_bytes: Some(memory::peak()),
        };
        match ran.played.document.clone() {
            Some(LoadDocument::Fio(load)) => Self::Fio(Run { load, simulation }),
            Some(LoadDocument::Act(load)) => Self::Act(Run { load, simulation }),
            Some(LoadDocument::Trace(load)) => Self::Trace(Run { load, simulation }),
            None => Self::Failed { simulation },
        }
    }

    /// Of a run that failed.
    pub fn failed(case: &Case, figures: Figures) -> Self {
        Self::Failed {
            simulation: Simulation {
                figures,
                parameters: parameters(case),
                namespaces: None,
                warnings: Vec::new(),
                peak_memory_bytes: None,
            },
        }
    }
}

/// Parameters of a run: keys of --set, with their values.
pub(super) fn parameters(case: &Case) -> BTreeMap<String, String> {
    case.parameters.iter().cloned().collect()
}

/// The document of a load's own tool, whose description this has in schemas, and what only the simulated drive knows.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(description = "")]
pub struct Run<L> {
    #[serde(flatten)]
    load: L,
    /// What only the simulated drive knows.
    simulation: Simulation,
}

/// What only the simulated drive knows.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Simulation {
    #[serde(flatten)]
    figures: Figures,
    /// What is different in this run of a sweep: keys of --set, with their values.
    parameters: BTreeMap<String, String>,
    /// What the drive counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "the run failed"))]
    namespaces: Option<Vec<NamespaceCounts>>,
    /// What makes the figures mean less than they seem to.
    warnings: Vec<String>,
    /// This process's largest memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("unit" = "bytes", "null" = "the system does not tell", "absent" = "the run failed"))]
    peak_memory_bytes: Option<Option<u64>>,
}
