//! Studies in virtual time.

use std::path::PathBuf;

use lab_report::{results::Overwrite, tables::Tables};
use pyo3::{prelude::*, types::PyDict};

use crate::{error::failed, integer::Whole, interrupt::interruptible, study_options, table::Table};

/// What a study has found.
#[pyclass(frozen, module = "tranche")]
pub struct StudyOutcome {
    /// The document that `tranche study --output json` prints.
    #[pyo3(get)]
    document: String,
    /// The text that `tranche study` prints.
    #[pyo3(get)]
    text: String,
    /// A row for each run.
    #[pyo3(get)]
    runs: Py<Table>,
    /// A row for each namespace of each run.
    #[pyo3(get)]
    namespaces: Py<Table>,
    /// A row for each comparison.
    #[pyo3(get)]
    comparisons: Py<Table>,
}

/// What `tranche study` does in virtual time. Its report and results are in `out`.
#[pyfunction]
#[pyo3(signature = (name, options, *, seed, out, overwrite))]
pub fn study(
    py: Python<'_>,
    name: &str,
    options: &Bound<'_, PyDict>,
    seed: Whole<u64>,
    out: PathBuf,
    overwrite: bool,
) -> PyResult<StudyOutcome> {
    let seed = seed.named("seed")?;
    let (study, drives) = study_options::read(name, options, seed, &out)?;
    Overwrite { force: overwrite }.check(&out).map_err(failed)?;
    let found = interruptible(py, |control| study.simulate(&|name| drives.profile(name), control))?;
    let found = found.map_err(failed)?;
    if let Some(failure) = found.failure {
        return Err(failed(anyhow::anyhow!(failure)));
    }
    let Tables { runs, namespaces, comparisons } = Tables::new(&found.results);
    Ok(StudyOutcome {
        document: serde_json::to_string(&found.results).map_err(failed)?,
        text: found.text,
        runs: Py::new(py, Table::new(&runs)?)?,
        namespaces: Py::new(py, Table::new(&namespaces)?)?,
        comparisons: Py::new(py, Table::new(&comparisons)?)?,
    })
}
