//! What goes wrong, as exceptions of Python.

use pyo3::{create_exception, exceptions::PyException, import_exception, prelude::*};

create_exception!(
    tranche,
    Error,
    PyException,
    "What the drive, the simulation or the file at hand does not let happen."
);

// In Python, because it has fields.
import_exception!(tranche._errors, CommandError);

/// An error of the crates below, with its causes, as [`Error`].
pub fn failed(error: impl Into<anyhow::Error>) -> PyErr {
    Error::new_err(format!("{:#}", error.into()))
}

/// A command to a drive that failed: as `CommandError` if the drive said so.
pub fn command_failed(error: host::Error) -> PyErr {
    match error.status() {
        Some(status) => {
            let code = u16::from(status.sct().0) << 8 | u16::from(status.sc());
            CommandError::new_err((error.to_string(), status.to_string(), code))
        }
        None => failed(error),
    }
}
