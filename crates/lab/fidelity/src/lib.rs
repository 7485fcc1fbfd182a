//! The ledger: each published figure beside ours, with its role, and the page `docs/fidelity.md` that shows them.
//!
//! `ledger/*.toml` is written by hand: one file for each data set ([`data_set`]), and one for the parameters of models and profiles ([`parameters`]).
//! `make fidelity` runs the commands that the files name ([`run`]), keeps our figures in `ledger/results.toml` and `ledger/predictions.toml` ([`results`]),
//! adds changed scores to `ledger/history.csv` ([`history`]), and writes the page ([`page`]). Tests of this crate fail on files that contradict each
//! other ([`check`]), never on a score.

pub mod check;
pub mod crosstab;
pub mod data_set;
pub mod history;
pub mod page;
pub mod parameters;
pub mod results;
pub mod run;
pub mod score;
pub mod select;

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};

use self::{data_set::DataSet, history::History, parameters::Parameters, results::Results};

/// Everything that the folder `ledger` holds.
#[derive(Debug)]
pub struct Ledger {
    /// Data sets by the names of their files.
    pub sets: BTreeMap<String, DataSet>,
    /// Parameters of models and profiles.
    pub parameters: Parameters,
    /// Our figures, and the predictions of blind rows.
    pub results: Results,
    /// Scores over time.
    pub history: History,
    /// Job files and drives of `ledger/jobs`, by the paths that commands have.
    pub files: BTreeMap<String, String>,
}

impl Ledger {
    /// Reads the ledger of a repository.
    ///
    /// # Errors
    /// A file that is missing or wrong; the message names it.
    pub fn read(root: &Path) -> Result<Self> {
        Ok(Self {
            sets: data_set::read_all(&root.join("ledger"))?,
            parameters: Parameters::read(root)?,
            results: Results::read(&root.join("ledger"))?,
            history: History::read(&root.join("ledger"))?,
            files: files(root)?,
        })
    }

    /// The hash of the inputs of a run: its command with the files that it names, and the parameters that it uses.
    pub fn inputs(&self, run: &data_set::Run) -> String {
        let files = run.command.split_whitespace().filter_map(|word| self.files.get(word));
        let text: Vec<&str> = std::iter::once(&run.command).chain(files).map(String::as_str).collect();
        self.parameters.hash(Some(&run.uses), &text.join("\n"))
    }

    /// Our figure of a row, if its run was made.
    pub fn ours(&self, set: &str, row: &data_set::Row) -> Option<f64> {
        let entry = self.results.runs.get(&format!("{set}.{}", row.run.as_ref()?))?;
        entry.figures.get(row.ours.as_ref()?).copied()
    }
}

fn files(root: &Path) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root.join("ledger/jobs")).context("ledger/jobs")? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        found.insert(format!("ledger/jobs/{name}"), fs::read_to_string(entry.path()).with_context(|| name)?);
    }
    Ok(found)
}
