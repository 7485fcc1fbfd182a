//! Settings of a model, as Python gives them.

use pyo3::{
    exceptions::{PyOverflowError, PyTypeError, PyValueError},
    prelude::*,
    types::PyDict,
};

use crate::drives::Drives;

/// Options by their names. Each is taken once; what is left at the end is none of the model.
pub struct Given<'py> {
    model: String,
    options: Bound<'py, PyDict>,
    known: Vec<&'static str>,
    drives: Drives,
}

impl<'py> Given<'py> {
    pub fn new(model: &str, options: &Bound<'py, PyDict>) -> PyResult<Self> {
        Ok(Self {
            model: model.to_owned(),
            options: options.copy()?,
            known: Vec::new(),
            drives: Drives::default(),
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

    /// Takes seconds, up to one, as nanoseconds.
    pub fn nanos(&mut self, name: &'static str, into: &mut u64) -> PyResult<()> {
        if let Some(seconds) = self.get::<f64>(name)? {
            *into = nanos_of(name, seconds)?;
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

    /// Takes the name of a drive.
    pub fn drive_into(&mut self, name: &'static str, into: &mut String) -> PyResult<()> {
        if let Some(drive) = self.taken(name)? {
            *into = self.drives.name(name, &drive)?;
        }
        Ok(())
    }

    /// Refuses what was not taken.
    pub fn end(self) -> PyResult<Drives> {
        let Some(left) = self.options.keys().iter().next() else { return Ok(self.drives) };
        let left: String = left.extract()?;
        let model = &self.model;
        Err(PyTypeError::new_err(format!("{model} has no option {left:?}; it has {}", self.known.join(", "))))
    }
}

/// Seconds, 0 to 1, as nanoseconds.
pub fn nanos_of(name: &str, seconds: f64) -> PyResult<u64> {
    if (0.0..=1.0).contains(&seconds) {
        Ok((seconds * 1e9).round() as u64)
    } else {
        Err(PyValueError::new_err(format!("{name} is {seconds}: 0 to 1 are possible")))
    }
}

fn named<T: Copy>(option: &str, text: &str, all: &[(&str, T)]) -> PyResult<T> {
    all.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        PyValueError::new_err(format!("{option} cannot be {text:?}: {} are possible", names.join(", ")))
    })
}
