//! What is advised, as `--output json` has it.

use serde::Serialize;

use super::{database_model::Row, layouts::Excluded, rates::Rates, simulate::Found};

/// The load that was simulated.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Loaded {
    /// What it is.
    pub description: String,
    /// Connections.
    pub connections: u32,
    /// Bytes of the database.
    pub dataset_bytes: u64,
    /// The pool, the database and the log are divided by this in the model, and PostgreSQL's checkpoint_timeout.
    pub scale: u64,
    /// Processors of the server.
    pub processors: u32,
    /// Measured seconds of each simulation.
    pub seconds: u64,
    /// Simulations of each layout.
    pub seeds: u32,
    /// What was measured of the real load; none of the generic one.
    pub measured: Option<Rates>,
    /// What the model writes in a second as configured, over what was measured; none of the generic one.
    pub written_over_measured: Option<f64>,
}

/// The drive that was simulated.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Modelled {
    /// Profile or file.
    pub name: String,
    /// Bytes that hold data.
    pub full_bytes: u64,
    /// Percent of the whole.
    pub full_percent: u32,
    /// Whether the model was fitted on this drive.
    pub fitted: bool,
}

/// A recommendation.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Recommendation {
    /// Which layout.
    pub layout: &'static str,
    /// What speaks for it.
    pub why: String,
}

/// What is advised.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Advice {
    /// The server.
    pub server: String,
    /// How it was told.
    pub server_told_by: String,
    /// Who told the values: an installed server, or the files alone.
    pub values_told_by: String,
    /// The files that were read.
    pub files: Vec<String>,
    /// What matters of them.
    pub settings: Vec<Row>,
    /// Where defaults are documented.
    pub defaults_source: &'static str,
    /// The load.
    pub load: Loaded,
    /// The drive.
    pub drive: Modelled,
    /// The layouts, what is configured first.
    pub layouts: Vec<Found>,
    /// What is not simulated.
    pub excluded: Vec<Excluded>,
    /// What is recommended, the best first; nothing if nothing is gained.
    pub recommended: Vec<Recommendation>,
    /// What the model does not know.
    pub uncertainty: Vec<String>,
}
