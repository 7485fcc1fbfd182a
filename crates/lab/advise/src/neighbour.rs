//! Who disturbs the database: jobs of fio on another namespace of the drive.

use std::path::Path;

use anyhow::{Result, anyhow, ensure};
use host::Host;
use load_formats::fio::{JobFile, Jobs, Prompt, Space};
use sim::SimTransport;

use lab_engines::bench;
use lab_report::input::read_text;

/// A loader that writes all of its namespace from the begin to the end, as fast as it can, again and again.
const LOADER: &str = "[loader]\nrw=write\nbs=128k\niodepth=32\n";
/// As long as any simulation, in nanoseconds.
const ENDLESS_NANOS: u64 = 1_000_000_000_000_000;

/// What a neighbour does.
#[derive(Clone, Debug)]
pub struct Neighbour {
    /// For the report.
    pub description: String,
    /// The name of its job file.
    name: String,
    jobs: Jobs,
}

impl Neighbour {
    /// The jobs of a file; without one, a bulk loader. They run at the same time, and each again and again until the simulation ends.
    ///
    /// # Errors
    /// The file cannot be read, is no job file, or wants one job to wait for another.
    pub fn new(file: Option<&Path>) -> Result<Self> {
        match file {
            None => Self::of("the bulk loader", LOADER, "a bulk loader that writes as fast as it can"),
            Some(path) => {
                let name = path.display().to_string();
                Self::of(&name, &read_text(path)?, &format!("the jobs of {name}"))
            }
        }
    }

    fn of(name: &str, text: &str, description: &str) -> Result<Self> {
        let jobs =
            JobFile::parse(text, &|variable| std::env::var(variable).ok()).and_then(|file| file.jobs());
        let mut jobs = jobs.map_err(|error| anyhow!("{name}:{}: {}", error.line, error.problem))?;
        for spec in &mut jobs.jobs {
            ensure!(
                spec.phase == 0,
                "{name}:{}: job {}: the jobs of a neighbour run at the same time: take stonewall out",
                spec.line,
                spec.name
            );
            (spec.options.time_based, spec.options.runtime) = (true, ENDLESS_NANOS);
            (spec.options.ramp_time, spec.options.verify) = (0, None);
        }
        Ok(Self { description: description.to_owned(), name: name.to_owned(), jobs })
    }

    /// The jobs on a namespace of this host.
    ///
    /// # Errors
    /// The namespace is not there, or a job does not fit it.
    pub fn actors(&self, host: &mut Host<SimTransport>, nsid: u32, seed: u64) -> Result<Vec<Prompt>> {
        let namespace = host.namespace(nsid)?;
        let space = Space::new(namespace.blocks, namespace.block_size);
        let mut plans = bench::plans(&self.name, &self.jobs, &vec![space; self.jobs.jobs.len()], seed)?;
        for (_, plan) in &mut plans {
            plan.seed = plan.seed.wrapping_add(seed.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        }
        let clones = bench::clones(&self.name, &self.jobs, plans)?;
        Ok(clones.into_iter().map(|(_, job)| Prompt::new(job)).collect())
    }
}
