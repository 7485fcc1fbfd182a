//! Options of the study.

use anyhow::Result;
use clap::{Args, ValueEnum, value_parser};

use lab_engines::machine::{CacheSizes, Controller, HostPath};
use lab_report::options::{DefaultDirectory, ResultsDirectory, defaults, once};

/// Options of `tranche study cache`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// In virtual time, as this study is by itself: every study that can be so takes it
    #[arg(long)]
    pub sim: bool,
    /// What is done
    #[arg(long, value_delimiter = ',', default_value = "modes,chunks,warming", value_name = "NAME,…")]
    pub parts: Vec<Part>,
    /// The hard disk: a profile or a TOML file
    #[arg(long, default_value = "savvio-15k3-300g", value_name = "NAME|FILE")]
    pub disk: String,
    /// The NVMe drive of the cache, likewise
    #[arg(long, default_value = "xs1715-400g", value_name = "NAME|FILE")]
    pub nvme: String,
    /// The SAS SSD of the cache, likewise
    #[arg(long, default_value = "px02sm-400g", value_name = "NAME|FILE")]
    pub sas: String,
    /// The storage controller of the disk and of the SAS SSD
    #[arg(long, value_enum, default_value = "h730p", value_name = "NAME")]
    pub controller: Controller,
    /// What the host takes for a request.
    #[command(flatten)]
    pub path: HostPath,
    /// Size of the file of the loads that fit into the cache
    #[arg(long = "file-size", alias = "file", default_value = "4GiB", value_name = "SIZE", value_parser = units::parse_size)]
    pub file: u64,
    /// Repetitions, with other random numbers
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = value_parser!(u32).range(1..=100))]
    pub repeat: u32,
    /// Short and rough: to see that it works, not for figures
    #[arg(long)]
    pub quick: bool,
    /// Where results go.
    #[command(flatten)]
    pub out: ResultsDirectory<Self>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
}

/// A part of the study of caches.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// The disk alone, and both caches in three modes, cold and warm
    Modes,
    /// Chunks from 32 KiB to 1 GiB with three policies, and reads of more data than the cache holds
    Chunks,
    /// Hits of a cold cache over time, with three policies
    Warming,
    /// Speed of dm-cache's policies mq and smq, and their writes to the SSD
    Designs,
}

impl DefaultDirectory for Options {
    const DIRECTORY: &'static str = "out/cache";
}

impl Default for Options {
    fn default() -> Self {
        defaults()
    }
}

impl Options {
    pub(super) fn check(&self) -> Result<()> {
        once("--parts", &self.parts)?;
        let (least, most) = (16 << 20, CacheSizes::PUBLISHED.cache / 2);
        if !(least..=most).contains(&self.file) {
            lab_report::misuse!(
                "--file-size is {} bytes: from {least} to {most} are possible, half of the cache",
                self.file
            );
        }
        Ok(())
    }
}
