//! What is advised, as `--output json` has it.

use schemars::JsonSchema;
use serde::Serialize;

use super::{database_model::Row, layouts::Excluded, rates::Rates, simulate::Found};

/// The load that was simulated.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Loaded {
    /// What it is.
    pub description: String,
    /// Connections without pause.
    pub connections: u32,
    /// Size of the database.
    #[schemars(extend("unit" = "bytes"))]
    pub dataset_bytes: u64,
    /// Buffer pool, database and log are divided by this in the model, and PostgreSQL's checkpoint_timeout.
    pub scale: u64,
    /// Processors of the server.
    pub processors: u32,
    /// Measured time of each simulation.
    #[schemars(extend("unit" = "s"))]
    pub seconds: u64,
    /// Simulations of each layout.
    pub seeds: u32,
    /// What was measured of the real load.
    #[schemars(extend("null" = "without --sample and --recording"))]
    pub measured: Option<Rates>,
    /// What the model writes in a second as configured, over what was measured.
    #[schemars(extend("null" = "without --sample and --recording"))]
    pub written_over_measured: Option<f64>,
}

/// The drive that was simulated.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Modelled {
    /// Profile or file.
    pub name: String,
    /// What holds data.
    #[schemars(extend("unit" = "bytes"))]
    pub full_bytes: u64,
    /// The same, of the whole drive.
    #[schemars(extend("unit" = "%"))]
    pub full_percent: u32,
    /// Whether the model was fitted to published results on this drive.
    pub fitted: bool,
}

/// A recommendation.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Recommendation {
    /// Which layout.
    #[schemars(extend("enum" = ["doublewrite", "dram", "atomic", "fpw", "wal", "zones"]))]
    pub layout: &'static str,
    /// What speaks for it.
    pub why: String,
}

/// What other layouts of the drive would gain.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Advice {
    /// The server, with the release series whose defaults hold.
    pub server: String,
    /// How it was told.
    pub server_told_by: String,
    /// Who told the values: an installed server, or the files alone.
    pub values_told_by: String,
    /// The files that were read, in their order.
    pub files: Vec<String>,
    /// Settings that matter for the drive.
    pub settings: Vec<Row>,
    /// Where the defaults are documented.
    pub defaults_source: &'static str,
    /// The load that was simulated.
    pub load: Loaded,
    /// The drive that was simulated.
    pub drive: Modelled,
    /// The layouts; what is configured is the first.
    pub layouts: Vec<Found>,
    /// Layouts that were not simulated.
    pub excluded: Vec<Excluded>,
    /// What is recommended: what this drive can do, the best first, then what wants another drive; empty if nothing
    /// is gained.
    pub recommended: Vec<Recommendation>,
    /// What the figures do not tell.
    pub uncertainty: Vec<String>,
}
