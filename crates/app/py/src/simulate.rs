//! Simulations.

use std::path::PathBuf;

use lab_engines::sim::{Contents, Precondition, Settings, usual_cache};
use nvme::Nsid;
use pyo3::{exceptions::PyValueError, prelude::*};

use crate::{
    error::simulation_failed, integer::Whole, interrupt::interruptible, load::Load, policies::Policies,
    profile::Profile, table::Table,
};

/// What came of a simulation.
#[pyclass(frozen, module = "tranche")]
pub struct Outcome {
    /// The document that `tranche sim --output json` prints.
    #[pyo3(get)]
    document: String,
    /// The text that `tranche sim` prints.
    #[pyo3(get)]
    text: String,
    /// Why `tranche sim` would fail all the same.
    #[pyo3(get)]
    problem: Option<String>,
    /// A row for each run.
    #[pyo3(get)]
    runs: Py<Table>,
    /// A row for each interval of each run, if there is one.
    #[pyo3(get)]
    series: Option<Py<Table>>,
}

fn precondition(name: &str) -> PyResult<Precondition> {
    Ok(match name {
        "none" => Precondition::None,
        "fill" => Precondition::Fill,
        "steady" => Precondition::Steady,
        _ => return Err(PyValueError::new_err(format!("no precondition {name:?}: none, fill or steady"))),
    })
}

fn contents(name: &str) -> PyResult<Contents> {
    Ok(match name {
        "none" => Contents::None,
        "memory" => Contents::Memory,
        _ => return Err(PyValueError::new_err(format!("no contents {name:?}: none or memory"))),
    })
}

/// Seconds as nanoseconds.
fn nanos(seconds: f64) -> PyResult<u64> {
    let nanos = (seconds * 1e9).round();
    if !(1e3..=1e18).contains(&nanos) {
        let why = format!("interval={seconds} is no time from 1e-6 to 1e9 seconds");
        return Err(PyValueError::new_err(why));
    }
    Ok(nanos as u64)
}

/// Where preconditioned drives are kept: where users keep them, nowhere, or in a directory.
#[derive(FromPyObject)]
pub enum CacheArgument {
    Usual(bool),
    Directory(PathBuf),
}

/// What is simulated: one run at a time, without files, a time series, or preconditioned drives that are kept.
pub fn settings(
    load: &Load,
    drive: &Profile,
    nsid: Option<Nsid>,
    precondition: &str,
    contents: &str,
    seed: u64,
    set: Vec<String>,
) -> PyResult<Settings> {
    Ok(Settings {
        load: load.0.clone(),
        drive: drive.name.clone(),
        toml: drive.toml.clone(),
        nsid,
        precondition: self::precondition(precondition)?,
        contents: self::contents(contents)?,
        seed,
        set,
        out: None,
        until_steady: false,
        interval: None,
        overwrite: lab_report::results::Overwrite::default(),
        resume: false,
        cache: None,
        policies: live::policies::Policies::default(),
        parallel: Some(1),
    })
}

/// What `tranche sim` does, without files.
#[pyfunction]
#[pyo3(signature = (load, drive, *, nsid, precondition, contents, seed, set, cache, parallel, interval, victim, placement, until_steady=false))]
#[expect(clippy::too_many_arguments, reason = "options that Python names")]
pub fn simulate(
    py: Python<'_>,
    load: &Load,
    drive: &Profile,
    nsid: Option<Whole<Nsid>>,
    precondition: &str,
    contents: &str,
    seed: Whole<u64>,
    set: Vec<String>,
    cache: CacheArgument,
    parallel: Option<Whole<usize>>,
    interval: Option<f64>,
    victim: Option<Py<PyAny>>,
    placement: Option<Py<PyAny>>,
    until_steady: bool,
) -> PyResult<Outcome> {
    let nsid = Whole::maybe(nsid, "nsid")?;
    let seed = seed.named("seed")?;
    let parallel = Whole::maybe(parallel, "parallel")?;
    if parallel == Some(0) {
        return Err(PyValueError::new_err("parallel is 1 or more"));
    }
    let own = Policies::new(py, victim, placement)?;
    let settings = Settings {
        interval: interval.map(nanos).transpose()?,
        policies: own.policies.clone(),
        cache: match cache {
            CacheArgument::Usual(true) => usual_cache(),
            CacheArgument::Usual(false) => None,
            CacheArgument::Directory(path) => Some(path),
        },
        parallel,
        until_steady,
        ..settings(load, drive, nsid, precondition, contents, seed, set)?
    };
    let found = interruptible(py, |control| {
        own.cancels(control.cancel());
        lab_engines::sim::simulate(&settings, control)
    })?;
    // What a policy raised is why the run ended.
    own.raised()?;
    let found = found.map_err(simulation_failed)?;
    Ok(Outcome {
        document: found.results.document.to_string(),
        text: found.text,
        problem: found.failure,
        runs: Py::new(py, Table::new(&found.results.runs)?)?,
        series: match interval {
            Some(_) => Some(Py::new(py, Table::new(&found.results.series)?)?),
            None => None,
        },
    })
}
