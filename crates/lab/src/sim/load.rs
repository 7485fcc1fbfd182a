//! What is put on the drive.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;
use workload::act::{self, Config};
use workload::fio::{JobFile, Jobs};

use super::replay::{Trace, TraceOptions, begins_as_trace};

/// In which form a load is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A job file of fio.
    Fio,
    /// A configuration of Aerospike's act_storage.
    Act,
    /// A configuration of Aerospike's act_index.
    ActIndex,
    /// A block trace: blkparse, MSR Cambridge, Alibaba, fio's iolog, or a recording.
    Trace,
}

impl Format {
    /// By the name of the file; what ends otherwise is a trace if it begins as one, or else a job file.
    fn of(path: &Path) -> Self {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("").to_ascii_lowercase();
        match name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("act" | "conf") if name.contains("index") => Self::ActIndex,
            Some("act" | "conf") => Self::Act,
            Some("trace" | "rec" | "csv" | "iolog" | "blkparse" | "gz" | "zst") => Self::Trace,
            _ if begins_as_trace(path) => Self::Trace,
            _ => Self::Fio,
        }
    }
}

/// A load that has been read.
#[derive(Clone, Debug)]
pub(super) enum Load {
    /// A job file: its name, for messages, and its text understood so far that options can be replaced.
    Fio { name: String, file: JobFile },
    /// The loads of Aerospike's certification tool.
    Act(Box<Config>),
    /// A block trace, which is read while it is replayed.
    Trace(Box<Trace>),
}

impl Load {
    /// Reads a load. `text` gives the text of a file.
    ///
    /// # Errors
    /// The file cannot be read, or makes no sense.
    pub fn read(
        path: &Path,
        format: Option<Format>,
        trace: &TraceOptions,
        text: &dyn Fn(&Path) -> Result<String>,
    ) -> Result<Self> {
        let name = match path.to_str() {
            Some("-") => "standard input".to_owned(),
            _ => path.display().to_string(),
        };
        let format = format.unwrap_or_else(|| Format::of(path));
        match format {
            Format::Act | Format::ActIndex => {
                let kind = if format == Format::Act { act::Kind::Storage } else { act::Kind::Index };
                let config = Config::parse(kind, &text(path)?)
                    .map_err(|error| anyhow!("{name}:{}: {}", error.line, error.problem))?;
                Ok(Self::Act(Box::new(config)))
            }
            Format::Trace => {
                let trace = Trace { path: path.to_owned(), name, options: trace.clone() };
                trace.check()?;
                Ok(Self::Trace(Box::new(trace)))
            }
            Format::Fio => {
                let file = JobFile::parse(&text(path)?, &|name| std::env::var(name).ok())
                    .map_err(|error| anyhow!("{name}:{}: {}", error.line, error.problem))?;
                let load = Self::Fio { name, file };
                if let Some((_, jobs)) = load.fio()? {
                    for note in &jobs.notes {
                        tracing::info!("{note}");
                    }
                }
                Ok(load)
            }
        }
    }

    /// The jobs of a job file, with its name, if it is one.
    ///
    /// # Errors
    /// An option makes no sense.
    pub fn fio(&self) -> Result<Option<(&str, Jobs)>> {
        let Self::Fio { name, file } = self else { return Ok(None) };
        let jobs = file.jobs().map_err(|error| anyhow!("{name}:{}: {}", error.line, error.problem))?;
        Ok(Some((name, jobs)))
    }
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
