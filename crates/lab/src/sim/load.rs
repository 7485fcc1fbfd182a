//! What is put on the drive.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;
use workload::fio::{JobFile, Jobs};

/// In which form a load is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A job file of fio.
    Fio,
}

impl Format {
    /// By the name of the file; what has no other ending is a job file.
    fn of(_path: &Path) -> Self {
        Self::Fio
    }
}

/// A load that has been read.
#[derive(Clone, Debug)]
pub(super) enum Load {
    /// A job file: its name, for messages, and its text understood so far that options can be replaced.
    Fio { name: String, file: JobFile },
}

impl Load {
    /// Reads a load. `text` gives the text of a file.
    ///
    /// # Errors
    /// The file cannot be read, or makes no sense.
    pub fn read(path: &Path, format: Option<Format>, text: &dyn Fn(&Path) -> Result<String>) -> Result<Self> {
        let name = match path.to_str() {
            Some("-") => "standard input".to_owned(),
            _ => path.display().to_string(),
        };
        match format.unwrap_or_else(|| Format::of(path)) {
            Format::Fio => {
                let file = JobFile::parse(&text(path)?, &|name| std::env::var(name).ok())
                    .map_err(|error| anyhow!("{name}:{}: {}", error.line, error.problem))?;
                let load = Self::Fio { name, file };
                for note in &load.fio()?.1.notes {
                    tracing::info!("{note}");
                }
                Ok(load)
            }
        }
    }

    /// The jobs of a job file, with its name.
    ///
    /// # Errors
    /// An option makes no sense.
    pub fn fio(&self) -> Result<(&str, Jobs)> {
        let Self::Fio { name, file } = self;
        let jobs = file.jobs().map_err(|error| anyhow!("{name}:{}: {}", error.line, error.problem))?;
        Ok((name, jobs))
    }
}

/// Refuses what needs contents on a drive that keeps none.
pub(super) fn without_contents(jobs: &Jobs) -> Result<()> {
    if let Some(job) = jobs.jobs.iter().find(|spec| spec.options.verify.is_some()) {
        bail!(
            "job {} verifies what it reads, and the simulated drive keeps no contents: leave out its option verify",
            job.name
        );
    }
    Ok(())
}
