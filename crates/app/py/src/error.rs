//! What goes wrong, as exceptions of Python.

use pyo3::{create_exception, exceptions::PyException, import_exception, prelude::*};

create_exception!(
    tranche,
    Error,
    PyException,
    "What the drive, the simulation or the file at hand does not let happen."
);

// In Python, because it has two bases.
import_exception!(tranche._errors, ArgumentError);
// In Python, because it has fields.
import_exception!(tranche._errors, CommandError);

/// What stands before a parameter of a sweep in messages.
const OPTION: &str = "--set ";

/// An error of the crates below, with its causes, as [`Error`].
pub fn failed(error: impl Into<anyhow::Error>) -> PyErr {
    Error::new_err(format!("{:#}", error.into()))
}

/// The same of a simulation, whose parameters the crates below name as the command line does: an error of `vary` is an `ArgumentError`.
pub fn simulation_failed(error: impl Into<anyhow::Error>) -> PyErr {
    let text = format!("{:#}", error.into());
    match text.contains(OPTION) {
        true => ArgumentError::new_err(text.replace(OPTION, "vary: ")),
        false => Error::new_err(text),
    }
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
