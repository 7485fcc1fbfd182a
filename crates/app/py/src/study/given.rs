//! Options of a study, as Python gives them.

use std::{collections::HashMap, fmt::Display, num::NonZeroU64, ops::RangeInclusive, path::PathBuf};

use lab_engines::machine::{Controller, HostPath};
use pyo3::{
    exceptions::{PyOverflowError, PyTypeError, PyValueError},
    prelude::*,
    types::PyDict,
};

use crate::profile::Profile;

/// A drive, by what Python says of it.
#[derive(FromPyObject)]
enum Drive {
    Profile(Py<Profile>),
    Name(PathBuf),
}

/// Options by their names. Each is taken once; what is left at the end is none of the study.
pub struct Given<'py> {
    study: String,
    options: Bound<'py, PyDict>,
    known: Vec<&'static str>,
    /// TOML of drives that are given as such, by their names.
    pub drives: HashMap<String, String>,
}

impl<'py> Given<'py> {
    pub fn new(study: &str, options: &Bound<'py, PyDict>) -> PyResult<Self> {
        Ok(Self {
            study: study.to_owned(),
            options: options.copy()?,
            known: Vec::new(),
            drives: HashMap::new(),
        })
    }

    fn taken(&mut self, name: &'static str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.known.push(name);
        let Some(value) = self.options.get_item(name)? else { return Ok(None) };
        self.options.del_item(name)?;
        Ok(Some(value).filter(|value| !value.is_none()))
    }

    /// The value of an option, if it is given.
    fn get<T>(&mut self, name: &'static str) -> PyResult<Option<T>>
    where
        T: for<'a> FromPyObject<'a, 'py>,
    {
        let Some(value) = self.taken(name)? else { return Ok(None) };
        let error: PyErr = match value.extract::<T>() {
            Ok(given) => return Ok(Some(given)),
            Err(error) => error.into(),
        };
        let shown = value.repr().map_or_else(|_| "this".to_owned(), |text| text.to_string());
        Err(match error.is_instance_of::<PyOverflowError>(value.py()) {
            true => PyValueError::new_err(format!("{name} is {shown}: it is too large, or negative")),
            false => PyTypeError::new_err(format!("{name} cannot be {shown}")),
        })
    }

    /// Takes a value as it is.
    pub fn take<T>(&mut self, name: &'static str, into: &mut T) -> PyResult<()>
    where
        T: for<'a> FromPyObject<'a, 'py>,
    {
        if let Some(value) = self.get(name)? {
            *into = value;
        }
        Ok(())
    }

    /// Takes a value that may also be none.
    pub fn maybe<T>(&mut self, name: &'static str, into: &mut Option<T>) -> PyResult<()>
    where
        T: for<'a> FromPyObject<'a, 'py>,
    {
        if let Some(value) = self.get(name)? {
            *into = Some(value);
        }
        Ok(())
    }

    /// Takes a number of this range.
    pub fn number<T>(&mut self, name: &'static str, range: RangeInclusive<T>, into: &mut T) -> PyResult<()>
    where
        T: for<'a> FromPyObject<'a, 'py> + PartialOrd + Display,
    {
        let Some(value) = self.get::<T>(name)? else { return Ok(()) };
        if !range.contains(&value) {
            let (low, high) = (range.start(), range.end());
            return Err(PyValueError::new_err(format!("{name} is {value}: {low} to {high} are possible")));
        }
        *into = value;
        Ok(())
    }

    /// Takes seconds, up to one, as nanoseconds.
    pub fn nanos(&mut self, name: &'static str, into: &mut u64) -> PyResult<()> {
        let mut seconds = f64::NAN;
        self.number(name, 0.0..=1.0, &mut seconds)?;
        if !seconds.is_nan() {
            *into = (seconds * 1e9).round() as u64;
        }
        Ok(())
    }

    /// Takes one of these names.
    pub fn one<T: Copy>(&mut self, name: &'static str, all: &[(&str, T)], into: &mut T) -> PyResult<()> {
        if let Some(text) = self.get::<String>(name)? {
            *into = named(name, &text, all)?;
        }
        Ok(())
    }

    /// Takes some of these names.
    pub fn some<T: Copy>(
        &mut self,
        name: &'static str,
        all: &[(&str, T)],
        into: &mut Vec<T>,
    ) -> PyResult<()> {
        if let Some(texts) = self.get::<Vec<String>>(name)? {
            if texts.is_empty() {
                return Err(PyValueError::new_err(format!("{name} names nothing")));
            }
            *into = texts.iter().map(|text| named(name, text, all)).collect::<PyResult<_>>()?;
        }
        Ok(())
    }

    /// The name of a drive, if one is given.
    pub fn drive(&mut self, name: &'static str) -> PyResult<Option<String>> {
        Ok(match self.get::<Drive>(name)? {
            None => None,
            Some(Drive::Name(path)) => Some(path.display().to_string()),
            Some(Drive::Profile(profile)) => {
                let profile = profile.get();
                let other = self.drives.insert(profile.name.clone(), profile.toml.clone());
                if other.is_some_and(|other| other != profile.toml) {
                    return Err(PyValueError::new_err(format!(
                        "two drives have the name {:?}: give each a name of its own",
                        profile.name
                    )));
                }
                Some(profile.name.clone())
            }
        })
    }

    /// Takes the name of a drive.
    pub fn drive_into(&mut self, name: &'static str, into: &mut String) -> PyResult<()> {
        if let Some(drive) = self.drive(name)? {
            *into = drive;
        }
        Ok(())
    }

    /// Takes what a host takes for a request.
    pub fn path(&mut self, path: &mut HostPath) -> PyResult<()> {
        self.number("processors", 1..=1024, &mut path.processors)?;
        self.nanos("submission", &mut path.submission)?;
        self.nanos("completion", &mut path.completion)?;
        self.nanos("lock", &mut path.lock)?;
        self.number("requests", 1..=65_536, &mut path.requests)?;
        let mut rate = path.sas_rate.get();
        self.number("sas_rate", 1..=u64::MAX, &mut rate)?;
        path.sas_rate = NonZeroU64::new(rate).unwrap_or(path.sas_rate);
        Ok(())
    }

    /// Takes a storage controller.
    pub fn controller(&mut self, into: &mut Controller) -> PyResult<()> {
        self.one("controller", &[("h330", Controller::H330), ("h730p", Controller::H730p)], into)
    }

    /// Refuses what was not taken.
    pub fn end(self) -> PyResult<HashMap<String, String>> {
        let Some(left) = self.options.keys().iter().next() else { return Ok(self.drives) };
        let left: String = left.extract()?;
        let study = &self.study;
        Err(PyTypeError::new_err(format!("{study} has no option {left:?}; it has {}", self.known.join(", "))))
    }
}

fn named<T: Copy>(option: &str, text: &str, all: &[(&str, T)]) -> PyResult<T> {
    all.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        PyValueError::new_err(format!("{option} cannot be {text:?}: {} are possible", names.join(", ")))
    })
}
