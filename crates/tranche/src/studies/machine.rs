//! Options of the studies of a host with its drives in virtual time: `filesystem`, `cache` and `oltp`.

use crate::options::{Overwrite, all};
use clap::{Args, ValueEnum};
use lab::machine::{Controller, HostPath};
use lab::{cache, filesystem, oltp};
use std::path::PathBuf;

/// What the host takes for a request.
#[derive(Args, Clone, Debug)]
struct Path {
    /// Processors of the host
    #[arg(long, default_value_t = HostPath::PUBLISHED.processors, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    processors: u32,
    /// Time of a processor to submit a request
    #[arg(long, default_value = "3us", value_name = "TIME", value_parser = units::parse_time)]
    submission: u64,
    /// Time of a processor when a request has ended
    #[arg(long, default_value = "2us", value_name = "TIME", value_parser = units::parse_time)]
    completion: u64,
    /// Time of the lock of a SCSI device's only request queue, for each submission and each completion; 0s is a queue for each processor
    #[arg(long, default_value = "2us", value_name = "TIME", value_parser = units::parse_time)]
    lock: u64,
    /// Requests that a SCSI device's request queue holds
    #[arg(long, default_value_t = HostPath::PUBLISHED.requests as u32, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    requests: u32,
}

impl From<Path> for HostPath {
    fn from(path: Path) -> Self {
        Self {
            processors: path.processors,
            submission: path.submission,
            completion: path.completion,
            lock: path.lock,
            requests: path.requests as usize,
        }
    }
}

/// A storage controller.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum ControllerName {
    /// PERC H330: without a cache
    H330,
    /// PERC H730P: with 2 GB of memory that a battery protects
    H730p,
}

impl From<ControllerName> for Controller {
    fn from(name: ControllerName) -> Self {
        match name {
            ControllerName::H330 => Self::H330,
            ControllerName::H730p => Self::H730p,
        }
    }
}

/// Options of `tranche study filesystem`.
#[derive(Args, Clone, Debug)]
pub struct Filesystem {
    /// The NVMe drive: a profile or a TOML file
    #[arg(long, default_value = "xs1715-400g", value_name = "NAME|FILE")]
    nvme: String,
    /// The SAS SSD, likewise
    #[arg(long, default_value = "px02sm-400g", value_name = "NAME|FILE")]
    sas: String,
    /// The hard disk, likewise
    #[arg(long, default_value = "savvio-15k3-300g", value_name = "NAME|FILE")]
    disk: String,
    /// Whole SSDs instead of shortened ones: as much memory and time as their size takes
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    path: Path,
    /// Repetitions, with other random numbers
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Short and rough: to see that it works, not for figures
    #[arg(long)]
    quick: bool,
    /// Directory for report.html, results.json and results.csv
    #[arg(long, default_value = "out/filesystem", value_name = "DIR")]
    out: PathBuf,
    /// Whether results that are in `out` may go
    #[command(flatten)]
    overwrite: Overwrite,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

impl From<Filesystem> for filesystem::Options {
    fn from(options: Filesystem) -> Self {
        Self {
            nvme: options.nvme,
            sas: options.sas,
            disk: options.disk,
            full: options.full,
            path: options.path.into(),
            repeat: options.repeat,
            quick: options.quick,
            out: options.out,
            overwrite: options.overwrite.into(),
            seed: options.seed,
        }
    }
}

/// A part of the study of caches.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum CachePart {
    /// The disk alone, and both caches in three modes, cold and warm, under reads, writes and a mix
    Modes,
    /// Chunks from 32 KiB to 1 GiB, with three policies, under reads of more than the cache holds
    Chunks,
    /// How a cache warms up, step by step, with three policies
    Warming,
    /// dm-cache's design beside a log-structured one, cold, warming and warm, and what each writes to its SSD
    Designs,
}

impl From<CachePart> for cache::Part {
    fn from(part: CachePart) -> Self {
        match part {
            CachePart::Modes => Self::Modes,
            CachePart::Chunks => Self::Chunks,
            CachePart::Warming => Self::Warming,
            CachePart::Designs => Self::Designs,
        }
    }
}

/// Options of `tranche study cache`.
#[derive(Args, Clone, Debug)]
pub struct Cache {
    /// What is done
    #[arg(long, value_delimiter = ',', default_value = "modes,chunks,warming", value_name = "NAME,…")]
    parts: Vec<CachePart>,
    /// The hard disk: a profile or a TOML file
    #[arg(long, default_value = "savvio-15k3-300g", value_name = "NAME|FILE")]
    disk: String,
    /// The NVMe drive of the cache, likewise
    #[arg(long, default_value = "xs1715-400g", value_name = "NAME|FILE")]
    nvme: String,
    /// The SAS SSD of the cache, likewise
    #[arg(long, default_value = "px02sm-400g", value_name = "NAME|FILE")]
    sas: String,
    /// The storage controller of the disk and of the SAS SSD
    #[arg(long, value_enum, default_value = "h730p", value_name = "NAME")]
    controller: ControllerName,
    #[command(flatten)]
    path: Path,
    /// Size of the file of the loads that fit into the cache
    #[arg(long, default_value = "4GiB", value_name = "SIZE", value_parser = units::parse_size)]
    file: u64,
    /// Repetitions, with other random numbers
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Short and rough: to see that it works, not for figures
    #[arg(long)]
    quick: bool,
    /// Directory for report.html, results.json and results.csv
    #[arg(long, default_value = "out/cache", value_name = "DIR")]
    out: PathBuf,
    /// Whether results that are in `out` may go
    #[command(flatten)]
    overwrite: Overwrite,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

impl From<Cache> for cache::Options {
    fn from(options: Cache) -> Self {
        Self {
            parts: all(options.parts),
            disk: options.disk,
            nvme: options.nvme,
            sas: options.sas,
            controller: options.controller.into(),
            path: options.path.into(),
            file: options.file,
            repeat: options.repeat,
            quick: options.quick,
            out: options.out,
            overwrite: options.overwrite.into(),
            seed: options.seed,
        }
    }
}

/// Options of `tranche study oltp`.
#[derive(Args, Clone, Debug)]
pub struct Oltp {
    /// The hard disk: a profile or a TOML file
    #[arg(long, default_value = "savvio-15k3-300g", value_name = "NAME|FILE")]
    disk: String,
    /// The NVMe drive, likewise
    #[arg(long, default_value = "xs1715-400g", value_name = "NAME|FILE")]
    nvme: String,
    /// The storage controller of the disk
    #[arg(long, value_enum, default_value = "h330", value_name = "NAME")]
    controller: ControllerName,
    #[command(flatten)]
    path: Path,
    /// Time of a processor for a statement, with its client
    #[arg(long, default_value = "200us", value_name = "TIME", value_parser = units::parse_time)]
    statement_time: u64,
    /// Measured time
    #[arg(long, default_value = "900s", value_name = "TIME", value_parser = units::parse_seconds::<u64>)]
    seconds: u64,
    /// Rows of the table, of about 260 bytes with its index
    #[arg(long, default_value_t = 100_000_000, value_name = "N")]
    rows: u64,
    /// Buffer pool
    #[arg(long, default_value = "8GiB", value_name = "SIZE", value_parser = units::parse_size)]
    pool: u64,
    /// Threads of sysbench
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: u32,
    /// Repetitions, with other random numbers
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Directory for report.html, results.json and results.csv
    #[arg(long, default_value = "out/oltp", value_name = "DIR")]
    out: PathBuf,
    /// Whether results that are in `out` may go
    #[command(flatten)]
    overwrite: Overwrite,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

impl From<Oltp> for oltp::Options {
    fn from(options: Oltp) -> Self {
        Self {
            disk: options.disk,
            nvme: options.nvme,
            controller: options.controller.into(),
            path: options.path.into(),
            statement_ns: options.statement_time,
            seconds: options.seconds,
            rows: options.rows,
            pool: options.pool,
            threads: options.threads,
            repeat: options.repeat,
            out: options.out,
            overwrite: options.overwrite.into(),
            seed: options.seed,
        }
    }
}
