//! What `tranche.fleet` has to know before it makes runs.

use std::path::PathBuf;

use lab_engines::sim::{Settings, parameter, planned as runs, prepare as prepare_drives};
use nvme::Nsid;
use pyo3::{prelude::*, types::PyList};

use crate::{
    error::simulation_failed,
    integer::Whole,
    interrupt::interruptible,
    load::Load,
    profile::Profile,
    simulate::settings,
    table::{array, objects},
};

type Parameters = Vec<(String, String)>;

/// A run: its parameters, the same as they stand in results, the bytes of memory that it takes, and the file of its preconditioned drive.
type Planned = (Parameters, Parameters, u64, Option<String>);

/// The runs of a sweep, in their order. A trace need not be there.
#[pyfunction]
#[pyo3(signature = (load, drive, *, nsid, precondition, contents, seed, set))]
pub fn planned(
    load: &Load,
    drive: &Profile,
    nsid: Option<Whole<Nsid>>,
    precondition: &str,
    contents: &str,
    seed: Whole<u64>,
    set: Vec<String>,
) -> PyResult<Vec<Planned>> {
    let nsid = Whole::maybe(nsid, "nsid")?;
    let seed = seed.named("seed")?;
    let settings = settings(load, drive, nsid, precondition, contents, seed, set)?;
    let all = runs(&settings).map_err(simulation_failed)?;
    Ok(all.into_iter().map(|run| (run.parameters, run.shown, run.memory, run.checkpoint)).collect())
}

/// The values of a parameter in all runs, as results have them: numbers, if all are of one kind, or texts.
#[pyfunction]
pub fn typed<'py>(py: Python<'py>, name: &str, texts: Vec<String>) -> PyResult<Bound<'py, PyList>> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    objects(py, &array(&parameter(name, &texts)))
}

/// Makes the preconditioned drives of a sweep in a directory, as far as they are not there.
#[pyfunction]
#[pyo3(signature = (load, drive, *, nsid, precondition, contents, seed, set, cache))]
#[expect(clippy::too_many_arguments, reason = "options that Python names")]
pub fn prepare(
    py: Python<'_>,
    load: &Load,
    drive: &Profile,
    nsid: Option<Whole<Nsid>>,
    precondition: &str,
    contents: &str,
    seed: Whole<u64>,
    set: Vec<String>,
    cache: PathBuf,
) -> PyResult<()> {
    let nsid = Whole::maybe(nsid, "nsid")?;
    let seed = seed.named("seed")?;
    let settings =
        Settings { cache: Some(cache), ..settings(load, drive, nsid, precondition, contents, seed, set)? };
    interruptible(py, |control| prepare_drives(&settings, control))?.map_err(simulation_failed)
}
