//! Whole numbers of callers. Python's have no bounds.

use std::fmt::Display;

use pyo3::{
    exceptions::{PyOverflowError, PyValueError},
    prelude::*,
};

/// A whole number that was given, whether it is one of `T` or not.
pub struct Whole<T>(Result<T, String>);

/// Kinds of whole numbers that begin with 0.
pub trait Bounded: Display {
    const MAX_VALUE: Self;
}

macro_rules! bounded {
    ($($kind:ident),*) => { $(impl Bounded for $kind { const MAX_VALUE: Self = $kind::MAX; })* };
}
bounded!(u16, u32, u64, usize);

impl<'a, 'py, T: FromPyObject<'a, 'py>> FromPyObject<'a, 'py> for Whole<T> {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match given.extract::<T>().map_err(Into::into) {
            Ok(number) => Ok(Self(Ok(number))),
            Err(error) if error.is_instance_of::<PyOverflowError>(given.py()) => {
                Ok(Self(Err(given.str()?.to_string())))
            }
            Err(error) => Err(error),
        }
    }
}

impl<T> Whole<T> {
    /// One that was read from elsewhere, or how it was written there.
    pub fn given(number: Result<T, String>) -> Self {
        Self(number)
    }
}

impl<T: Bounded> Whole<T> {
    /// The number, which the caller knows by this name.
    ///
    /// # Errors
    /// `ValueError`: it is negative, or too large.
    pub fn named(self, name: &str) -> PyResult<T> {
        self.0.map_err(|given| {
            PyValueError::new_err(format!("{name} is {given}: a whole number from 0 to {}", T::MAX_VALUE))
        })
    }

    /// The same of a number that may be left out.
    ///
    /// # Errors
    /// As of [`named`](Self::named).
    pub fn maybe(given: Option<Self>, name: &str) -> PyResult<Option<T>> {
        given.map(|given| given.named(name)).transpose()
    }
}
