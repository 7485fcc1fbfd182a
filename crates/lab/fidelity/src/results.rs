//! Our figures: `results.toml` has the newest of each run, `predictions.toml` those that were frozen before a comparison. Programs write both.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The figures of one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// When they were read.
    pub date: String,
    /// The commit that made them.
    pub commit: String,
    /// The version of Tranche.
    pub version: String,
    /// Hash of the command and of the parameters that it uses.
    pub inputs: String,
    /// Figures by selector.
    pub figures: BTreeMap<String, f64>,
}

/// Figures of a blind data set before it was compared.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// The data set.
    pub set: String,
    /// When it was made.
    pub date: String,
    /// The commit that made it. The next one holds it.
    pub commit: String,
    /// Hash of all parameters.
    pub parameters: String,
    /// Hashes of the runs' commands and parameters, by run.
    pub inputs: BTreeMap<String, String>,
    /// Figures by row.
    pub figures: BTreeMap<String, f64>,
}

/// All of ours.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Results {
    /// By data set and run, as `SET.RUN`.
    pub runs: BTreeMap<String, Entry>,
    /// Predictions, oldest first.
    pub predictions: Vec<Prediction>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Predictions {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    prediction: Vec<Prediction>,
}

const RESULTS_HEADER: &str = "# Made by `make fidelity`: our figures by run and selector.\n\n";
const PREDICTIONS_HEADER: &str = "# Made by `make fidelity ARGS=\"--predict SET\"`: figures of blind data sets before they were compared. Entries stay as they are.\n\n";

impl Results {
    /// Of a folder; no files are no results.
    ///
    /// # Errors
    /// A file that is wrong.
    pub fn read(folder: &Path) -> Result<Self> {
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let predictions: Predictions =
            toml::from_str(&text("predictions.toml")).context("ledger/predictions.toml")?;
        Ok(Self {
            runs: toml::from_str(&text("results.toml")).context("ledger/results.toml")?,
            predictions: predictions.prediction,
        })
    }

    /// Writes both files.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let predictions = Predictions { prediction: self.predictions.clone() };
        for (name, header, text) in [
            ("results.toml", RESULTS_HEADER, toml::to_string(&self.runs)?),
            ("predictions.toml", PREDICTIONS_HEADER, toml::to_string(&predictions)?),
        ] {
            fs::write(folder.join(name), header.to_owned() + text.trim_start())
                .with_context(|| format!("writing ledger/{name}"))?;
        }
        Ok(())
    }

    /// The last prediction of a row.
    pub fn prediction(&self, set: &str, row: &str) -> Option<(&Prediction, f64)> {
        let of_set = self.predictions.iter().rev().filter(|prediction| prediction.set == set);
        of_set.filter_map(|prediction| Some((prediction, *prediction.figures.get(row)?))).next()
    }
}
