//! What differs between servers: how a configuration is understood, which layouts there are, and the model.

use std::path::PathBuf;

use anyhow::Result;
use database_models::innodb::Volume;
use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::Serialize;
use workload::Actor;

use super::{
    drive::Drive,
    installed_server::clean,
    layouts::{Arrangement, Excluded, Layout, Plan},
    load::Load,
    server::Server,
    settings::Setting,
};
use lab_report::control::Cancel;

/// A setting that matters, as the report shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// `FILE:LINE`, or which default it is.
    pub from: String,
    /// Whether it is a default, and not from a file.
    pub default: bool,
    /// What it means for the drive.
    pub meaning: String,
}

impl Row {
    /// A setting of a file, or the server's default.
    pub fn new(
        server: Server,
        name: &str,
        value: String,
        from: Option<&Setting>,
        meaning: impl Into<String>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            value: clean(&value),
            from: from.map_or_else(|| format!("default of {server}"), Setting::place),
            default: from.is_none(),
            meaning: meaning.into(),
        }
    }
}

/// A configuration that was read.
pub struct Configuration {
    /// The server.
    pub server: Server,
    /// How it was told.
    pub told_by: String,
    /// Who told the values.
    pub values_by: String,
    /// The files that were read.
    pub files: Vec<PathBuf>,
    /// How the server uses its drive.
    pub database: Box<dyn Database>,
}

/// How a server uses its drive.
pub trait Database: Sync {
    /// The settings that matter.
    fn rows(&self) -> &[Row];

    /// What the model leaves out of the configuration.
    fn left_out(&self) -> &[String];

    /// Bytes of the buffer pool.
    fn pool(&self) -> u64;

    /// Whether a commit waits for the log.
    fn waits_at_commit(&self) -> bool;

    /// Bytes of a page, which a drive may tear.
    fn page(&self) -> u64;

    /// Bytes of a namespace in the simulated drive's memory for what a layout moves there.
    fn memory(&self) -> u64;

    /// How much smaller the server's memory, database and log are in the model.
    fn divisor(&self) -> u64;

    /// The layouts that there are for this family.
    fn layouts(&self) -> &'static [Layout];

    /// Layouts of this server alone on the drive, as far as they apply; what is configured is the first.
    fn plans(&self, drive: &Drive) -> Vec<Plan>;

    /// Of these layouts, what is not simulated, and why.
    fn excluded(&self, drive: &Drive) -> Vec<Excluded>;

    /// Bytes, from and how many, of what an arrangement with logs of their own has on their namespace.
    ///
    /// # Errors
    /// The namespaces are too small.
    fn streams(&self, load: &Load, arrangement: Arrangement, volumes: [Volume; 2])
    -> Result<Vec<(u64, u64)>>;

    /// How the logs get to a directory on another file system.
    fn moving(&self, directory: &str) -> Vec<String>;

    /// The model with its pool filled, on the namespaces of the data, and of the memory or the logs.
    ///
    /// # Errors
    /// The namespaces are too small; an interruption.
    fn model(
        &self,
        load: &Load,
        arrangement: Arrangement,
        volumes: [Volume; 2],
        seed: u64,
        cancel: &Cancel,
    ) -> Result<Box<dyn Model>>;

    /// What the report says of the family.
    fn words(&self) -> Words;
}

/// What the report says of a family of servers.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// The name of what is modelled.
    pub model: &'static str,
    /// What the model was fitted to, on the drive to which it was; none if it was fitted to no drive.
    pub fitted: Option<&'static str>,
    /// The same on other drives.
    pub not_fitted: &'static str,
    /// What is divided by the scale.
    pub scaled: &'static str,
    /// What is not modelled.
    pub not_modelled: &'static str,
    /// How a gain is confirmed.
    pub confirm: &'static str,
}

/// What a model has done since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// Transactions that ended.
    pub transactions: u64,
    /// Commands that failed.
    pub failed: u64,
    /// Checkpoints that have begun, if the load on the drive depends on how long ago that was.
    pub cycles: Option<u64>,
}

/// A database server with its load.
pub trait Model: Actor {
    /// What it has done.
    fn done(&self) -> Done;

    /// Latencies in microseconds of commits that waited.
    fn commits(&self) -> &Histogram<u64>;

    /// Forgets the latencies so far.
    fn forget_latencies(&mut self);

    /// No further commands.
    fn stop(&mut self);
}
