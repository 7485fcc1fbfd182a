//! What is put on the drive.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use load_formats::act::{self, Config};
use load_formats::fio::{Distribution, FileError, JobFile, Jobs, Options};

use super::replay::{Trace, TraceOptions};
use super::trace_file::{begins_as_trace, is_of_blktrace};
use lab_report::input::read_text;

/// In which form a load is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A job file of fio.
    Fio,
    /// A configuration of Aerospike's act_storage.
    Act,
    /// A configuration of Aerospike's act_index.
    ActIndex,
    /// A trace ([`load_formats::trace::Format`]).
    Trace,
}

impl Format {
    /// By the name of the file; what ends otherwise is a trace if it begins as one, or else a job file.
    fn of(path: &Path) -> Self {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("").to_ascii_lowercase();
        match name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("act" | "conf") if name.contains("index") => Self::ActIndex,
            Some("act" | "conf") => Self::Act,
            Some("trace" | "rec" | "csv" | "iolog" | "blkparse" | "blktrace" | "pfw" | "gz" | "zst") => {
                Self::Trace
            }
            _ if is_of_blktrace(&name) => Self::Trace,
            _ if begins_as_trace(path) => Self::Trace,
            _ => Self::Fio,
        }
    }
}

/// A load that has been read.
#[derive(Clone, Debug)]
pub struct LoadFile {
    /// Where it came from, for results.
    pub(super) source: String,
    pub(super) form: LoadForm,
}

/// What a load is.
#[derive(Clone, Debug)]
pub(super) enum LoadForm {
    /// A job file: its name, for messages, and its text understood so far that options can be replaced.
    Fio { name: String, file: JobFile },
    /// The loads of Aerospike's certification tool.
    Act(Box<Config>),
    /// A block trace, which is read while it is replayed.
    Trace(Box<Trace>),
}

impl LoadFile {
    /// Whether all that it writes goes anywhere on its namespaces, as often to one place as to another.
    pub(super) fn writes_everywhere_alike(&self) -> bool {
        let is_uniform = |options: &Options| {
            let usual = Options::default();
            let whole = (options.size == usual.size) && (options.offset == usual.offset);
            let [_, writes, trims] = options.rw.does;
            !writes || (options.rw.random && !trims && whole && options.distribution == Distribution::Random)
        };
        matches!(self.jobs(), Ok(Some((_, jobs))) if jobs.jobs.iter().all(|job| is_uniform(&job.options)))
    }

    /// Reads a load from a file, `-` from standard input. Without a format the file's name and its begin tell.
    ///
    /// # Errors
    /// The file cannot be read, or makes no sense.
    pub fn open(path: &Path, format: Option<Format>, trace: &TraceOptions) -> Result<Self> {
        let source = path.display().to_string();
        let name = if source == "-" { "standard input" } else { &source };
        let load = match format.unwrap_or_else(|| Format::of(path)) {
            Format::Fio => return Ok(Self { source: source.clone(), ..Self::fio(name, &read_text(path)?)? }),
            Format::Act => Self::act(name, act::ActProgram::Storage, &read_text(path)?)?,
            Format::ActIndex => Self::act(name, act::ActProgram::Index, &read_text(path)?)?,
            Format::Trace => {
                let trace = Trace { path: path.to_owned(), name: name.to_owned(), options: trace.clone() };
                trace.check()?;
                LoadForm::Trace(Box::new(trace))
            }
        };
        Ok(Self { source, form: load })
    }

    /// Reads a load from a text. `name` is that of the text, for messages and results.
    ///
    /// # Errors
    /// It makes no sense, or should be a trace: those are files, and are read while they are replayed.
    pub fn parse(name: &str, format: Format, text: &str) -> Result<Self> {
        let load = match format {
            Format::Fio => return Self::fio(name, text),
            Format::Act => Self::act(name, act::ActProgram::Storage, text)?,
            Format::ActIndex => Self::act(name, act::ActProgram::Index, text)?,
            Format::Trace => bail!("a trace is a file: name it by its path"),
        };
        Ok(Self { source: name.to_owned(), form: load })
    }

    /// The jobs of a job file's text. `name` is that of the file, for messages and results.
    ///
    /// # Errors
    /// It makes no sense.
    pub fn fio(name: &str, text: &str) -> Result<Self> {
        let file = JobFile::parse(text, &|name| std::env::var(name).ok()).map_err(|e| at(name, &e))?;
        for note in &file.jobs().map_err(|e| at(name, &e))?.notes {
            tracing::info!("{note}");
        }
        Ok(Self { source: name.to_owned(), form: LoadForm::Fio { name: name.to_owned(), file } })
    }

    fn act(name: &str, kind: act::ActProgram, text: &str) -> Result<LoadForm> {
        let config =
            Config::parse(kind, text).map_err(|error| anyhow!("{name}:{}: {}", error.line, error.problem))?;
        Ok(LoadForm::Act(Box::new(config)))
    }

    /// Whether it is a trace.
    pub fn is_trace(&self) -> bool {
        matches!(self.form, LoadForm::Trace(_))
    }

    /// Where it came from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The jobs of a job file, with its name, if it is one.
    ///
    /// # Errors
    /// An option makes no sense.
    pub(super) fn jobs(&self) -> Result<Option<(&str, Jobs)>> {
        let LoadForm::Fio { name, file } = &self.form else { return Ok(None) };
        let jobs = file.jobs().map_err(|e| at(name, &e))?;
        Ok(Some((name, jobs)))
    }
}

/// An error with its place.
fn at(name: &str, error: &FileError) -> anyhow::Error {
    anyhow!("{name}:{}: {}", error.line, error.problem)
}

/// Refuses what needs contents on a drive that keeps none.
pub(super) fn without_contents(jobs: &Jobs) -> Result<()> {
    if let Some(job) = jobs.jobs.iter().find(|spec| spec.options.verify.is_some()) {
        bail!(
            "job {} verifies what it reads, and the simulated drive keeps no contents: add --contents memory, or leave out its option verify",
            job.name
        );
    }
    Ok(())
}
