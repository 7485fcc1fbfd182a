//! Options of the study.

use std::path::PathBuf;

use anyhow::Result;

use lab_engines::machine::{CacheSizes, Controller, HostPath};
use lab_report::results::{Overwrite, seed_of};

/// Options of the study.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is done
    pub parts: Vec<Part>,
    /// The hard disk: a profile or a TOML file
    pub disk: String,
    /// The NVMe drive of the cache, likewise
    pub nvme: String,
    /// The SAS SSD of the cache, likewise
    pub sas: String,
    /// The storage controller of the disk and of the SAS SSD
    pub controller: Controller,
    /// What the host takes for a request
    pub path: HostPath,
    /// Bytes of the file of the loads that fit into the cache
    pub file: u64,
    /// Repetitions, with other random numbers
    pub repeat: u32,
    /// Short and rough: to see that it works, not for figures
    pub quick: bool,
    /// Directory for report.html, results.json and results.csv
    pub out: PathBuf,
    /// Whether results that are in `out` may go
    pub overwrite: Overwrite,
    /// Seed of everything random
    pub seed: u64,
}

/// A part of the study.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// The disk alone, and both caches in three modes, cold and warm, under reads, writes and a mix.
    Modes,
    /// Chunks from 32 KiB to 1 GiB, with three policies, under reads of more than the cache holds.
    Chunks,
    /// How a cache warms up, step by step, with three policies.
    Warming,
    /// dm-cache's policies mq and smq, cold, warming and warm, and what each writes to its SSD.
    Designs,
}

impl Part {
    /// Those of the published comparison, which are done if nothing else is said.
    pub const PUBLISHED: [Self; 3] = [Self::Modes, Self::Chunks, Self::Warming];
}

/// Bytes of the loads' file: fio's of the published set-up has 4 GiB, and the published cache was nearly empty.
pub const DEFAULT_FILE: u64 = 4 << 30;

impl Default for Options {
    fn default() -> Self {
        Self {
            parts: Part::PUBLISHED.to_vec(),
            disk: "savvio-15k3-300g".into(),
            nvme: "xs1715-400g".into(),
            sas: "px02sm-400g".into(),
            controller: Controller::H730p,
            path: HostPath::PUBLISHED,
            file: DEFAULT_FILE,
            repeat: 1,
            quick: false,
            out: "out/cache".into(),
            overwrite: Overwrite::default(),
            seed: 1,
        }
    }
}

impl Options {
    pub(super) fn check(&self) -> Result<()> {
        let mut parts = self.parts.clone();
        parts.sort_unstable();
        parts.dedup();
        if parts.len() != self.parts.len() {
            lab_report::misuse!("--parts names one twice");
        }
        let (least, most) = (16 << 20, CacheSizes::PUBLISHED.cache / 2);
        if !(least..=most).contains(&self.file) {
            lab_report::misuse!(
                "--file-size is {} bytes: from {least} to {most} are possible, half of the cache",
                self.file
            );
        }
        Ok(())
    }

    /// The seed of a repetition.
    pub(super) fn seed(&self, repetition: u32) -> u64 {
        seed_of(self.seed, repetition)
    }
}
