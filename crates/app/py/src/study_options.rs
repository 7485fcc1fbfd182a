//! Options of a study: a dictionary of Python becomes a command line, and the definition of that makes the options.

use std::{ffi::OsString, num::ParseIntError, path::Path};

use clap::{
    Command, FromArgMatches, Subcommand,
    error::{ContextKind, ErrorKind},
};
use lab_studies::{
    StudyCommand,
    sim_option::{Kind, SimOption, options, simulated},
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyDict, PyString},
};

use crate::{drives::Drives, given::nanos_of};

/// A study in virtual time with the options that Python gives, and their drives.
///
/// # Errors
/// `ValueError`: there is no such study, or a value is not possible. `TypeError`: it has no such option, or a value has the wrong type.
pub fn read(
    name: &str,
    given: &Bound<'_, PyDict>,
    seed: u64,
    out: &Path,
) -> PyResult<(StudyCommand, Drives)> {
    let studies: Vec<Command> = simulated().collect();
    let Some(study) = studies.iter().find(|study| study.get_name() == name) else {
        let names: Vec<&str> = studies.iter().map(Command::get_name).collect();
        let names = names.join(", ");
        return Err(PyValueError::new_err(format!("no study {name:?} in virtual time: {names}")));
    };
    let known = options(study);
    let mut drives = Drives::default();
    let mut line =
        vec![OsString::from(name), "--sim".into(), format!("--seed={seed}").into(), "--out".into()];
    line.push(out.into());
    let mut names = Vec::new();
    for (key, value) in given {
        let key: String = key.extract()?;
        let Some(option) = known.iter().find(|option| option.is_named(&key)) else {
            let known: Vec<&str> = known.iter().map(|option| &*option.name).collect();
            let known = known.join(", ");
            return Err(PyTypeError::new_err(format!(
                "the study {name} has no option {key:?}; it has {known}"
            )));
        };
        if !value.is_none() {
            line.extend(words(option, &key, &value, &mut drives)?);
        }
        names.push((option.arg.to_string(), key));
    }
    let command = StudyCommand::augment_subcommands(Command::new("study").no_binary_name(true));
    let parsed = command.try_get_matches_from(line).and_then(|found| StudyCommand::from_arg_matches(&found));
    Ok((parsed.map_err(|error| refusal(&error, &names))?, drives))
}

/// An option on the command line; nothing for a flag that is off.
fn words(
    option: &SimOption<'_>,
    key: &str,
    value: &Bound<'_, PyAny>,
    drives: &mut Drives,
) -> PyResult<Option<OsString>> {
    let long = option.arg.get_long().unwrap_or_default();
    let text = match option.kind {
        Kind::Flag => return Ok(typed::<bool>(key, value)?.then(|| format!("--{long}").into())),
        _ if option.is_list => {
            let each = value.try_iter().map_err(|_| wrong_type(key, value))?;
            let texts: Vec<String> =
                each.map(|one| text(option.kind, key, &one?, drives)).collect::<PyResult<_>>()?;
            if texts.is_empty() {
                return Err(PyValueError::new_err(format!("{key} names nothing")));
            }
            texts.join(",")
        }
        kind => text(kind, key, value, drives)?,
    };
    Ok(Some(format!("--{long}={text}").into()))
}

/// A value as the command line has it.
fn text(kind: Kind, key: &str, value: &Bound<'_, PyAny>, drives: &mut Drives) -> PyResult<String> {
    let whole = || {
        let number = value.call_method0("__index__").map_err(|_| wrong_type(key, value))?;
        Ok::<_, PyErr>(number.str()?.to_string())
    };
    Ok(match kind {
        Kind::Flag | Kind::Name => typed(key, value)?,
        Kind::Number | Kind::Size => whole()?,
        Kind::Rate => format!("{}B/s", whole()?),
        Kind::Seconds => format!("{}s", whole()?),
        Kind::Time => format!("{}ns", nanos_of(key, typed(key, value)?)?),
        Kind::Drive => drives.name(key, value)?,
    })
}

fn typed<'py, T: for<'a> FromPyObject<'a, 'py>>(key: &str, value: &Bound<'py, PyAny>) -> PyResult<T> {
    value.extract().map_err(|_| wrong_type(key, value))
}

fn wrong_type(key: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let shown = value.repr().unwrap_or_else(|_| PyString::new(value.py(), "this"));
    PyTypeError::new_err(format!("{key} cannot be {shown}"))
}

/// What is wrong with a value. The `names` are those of Python, by what the command line calls an option.
fn refusal(error: &clap::Error, names: &[(String, String)]) -> PyErr {
    let context = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let (option, value) = (context(ContextKind::InvalidArg), context(ContextKind::InvalidValue));
    let name = names.iter().find(|(shown, _)| *shown == option).map_or(&option, |(_, name)| name);
    let source = std::error::Error::source(error);
    let message = match (error.kind(), source) {
        (ErrorKind::InvalidValue, _) => {
            format!("{name} cannot be {value:?}: {} are possible", context(ContextKind::ValidValue))
        }
        (_, Some(source)) if source.is::<ParseIntError>() => {
            format!("{name} is {value}: it is too large, or negative")
        }
        (_, Some(source)) => {
            let reason = source.to_string();
            let range = reason.split_once(" is not in ").and_then(|(_, range)| range.split_once("..="));
            match range {
                Some((low, high)) => format!("{name} is {value}: {low} to {high} are possible"),
                None => format!("{name} is {value}: {reason}"),
            }
        }
        _ => error.to_string().trim_start_matches("error: ").lines().next().unwrap_or_default().to_owned(),
    };
    PyValueError::new_err(message)
}
