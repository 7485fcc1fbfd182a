//! Drives by their TOML.

use std::path::PathBuf;

use lab_report::profile;
use live::Config;
use pyo3::{exceptions::PyValueError, prelude::*};

use crate::error::failed;

/// A drive: its name and its TOML.
#[pyclass(frozen, eq, hash, module = "tranche")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Profile {
    /// What it is called in results and messages.
    #[pyo3(get)]
    pub name: String,
    /// Its TOML.
    #[pyo3(get)]
    pub toml: String,
}

impl Profile {
    fn checked(name: String, toml: String) -> Result<Self, String> {
        let profile = Self { name, toml };
        profile.config().map(|_| profile)
    }

    /// What its TOML says.
    pub fn config(&self) -> Result<Config, String> {
        Config::from_toml(&self.toml).map_err(|error| format!("the drive {}: {error}", self.name))
    }
}

#[pymethods]
impl Profile {
    #[new]
    #[pyo3(signature = (toml, name = "drive"))]
    fn new(toml: String, name: &str) -> PyResult<Self> {
        Self::checked(name.to_owned(), toml).map_err(PyValueError::new_err)
    }

    #[staticmethod]
    fn open(name: PathBuf) -> PyResult<Self> {
        let name = name.display().to_string();
        let toml = profile::read(&name).map_err(failed)?;
        Self::checked(name, toml).map_err(PyValueError::new_err)
    }

    #[staticmethod]
    fn all() -> Vec<Self> {
        let own = |profile: &profile::Profile| Self {
            name: profile.name.to_owned(),
            toml: profile.toml.to_owned(),
        };
        profile::Profile::all().map(own).collect()
    }

    #[getter]
    fn about(&self) -> String {
        profile::about(&self.toml)
    }

    fn __repr__(&self) -> String {
        format!("<tranche.Profile {}>", self.name)
    }
}
