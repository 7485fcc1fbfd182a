//! Drives that Python names or gives.

use std::{collections::HashMap, path::PathBuf};

use anyhow::Context;
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
};

use crate::profile::Profile;

/// A drive, by what Python says of it.
#[derive(FromPyObject)]
enum Drive {
    Profile(Py<Profile>),
    Name(PathBuf),
}

/// The TOML of drives that are given as such, by their names.
#[derive(Default)]
pub struct Drives(HashMap<String, String>);

impl Drives {
    /// The name of the drive that an option gives.
    ///
    /// # Errors
    /// It is no drive, or another drive has its name.
    pub fn name(&mut self, option: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
        match value.extract::<Drive>() {
            Ok(Drive::Name(path)) => Ok(path.display().to_string()),
            Ok(Drive::Profile(profile)) => {
                let Profile { name, toml } = profile.get();
                let other = self.0.insert(name.clone(), toml.clone());
                if other.is_some_and(|other| other != *toml) {
                    return Err(PyValueError::new_err(format!(
                        "two drives have the name {name:?}: give each a name of its own"
                    )));
                }
                Ok(name.clone())
            }
            Err(_) => Err(PyTypeError::new_err(format!("{option} cannot be {}", value.repr()?))),
        }
    }

    /// The TOML of a drive: one that was given, or a built-in or a file.
    pub fn profile(&self, name: &str) -> anyhow::Result<toml::Table> {
        match self.0.get(name) {
            Some(text) => toml::from_str(text).with_context(|| format!("in the drive {name}")),
            None => lab_report::profile::table(name),
        }
    }
}
