//! Sizes, rates and times as texts of the command line.

use pyo3::{exceptions::PyValueError, prelude::*};

use crate::integer::{Bounded, Whole};

fn wrong(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

#[pyfunction]
pub fn parse_size(text: &str) -> PyResult<u64> {
    units::parse_size(text).map_err(wrong)
}

#[pyfunction]
pub fn parse_rate(text: &str) -> PyResult<u64> {
    units::parse_rate(text).map_err(wrong)
}

/// Seconds.
#[pyfunction]
#[expect(clippy::cast_precision_loss, reason = "a time of Python")]
pub fn parse_time(text: &str) -> PyResult<f64> {
    units::parse_time(text).map(|nanos| nanos as f64 / 1e9).map_err(wrong)
}

#[pyfunction]
pub fn parse_seconds(text: &str) -> PyResult<u64> {
    units::parse_seconds(text).map_err(wrong)
}

/// Bytes that are given as a number or as a text.
pub struct Size<T>(Whole<T>);

impl<'a, 'py, T: FromPyObject<'a, 'py> + TryFrom<u64>> FromPyObject<'a, 'py> for Size<T> {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match given.extract::<&str>() {
            Ok(text) => {
                let bytes = units::parse_size(text).map_err(|error| error.to_string());
                let bytes = bytes.and_then(|bytes| T::try_from(bytes).map_err(|_| text.to_owned()));
                Ok(Self(Whole::given(bytes)))
            }
            Err(_) => Whole::extract(given).map(Self),
        }
    }
}

impl<T: Bounded> Size<T> {
    /// The bytes, which the caller knows by this name.
    ///
    /// # Errors
    /// `ValueError`: the text is no size, or it is negative, or too large.
    pub fn maybe(given: Option<Self>, name: &str) -> PyResult<Option<T>> {
        Whole::maybe(given.map(|given| given.0), name)
    }
}
