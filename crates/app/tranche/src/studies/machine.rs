//! Options of the studies of a host with its drives: `filesystem`, `cache` and `oltp`.

use crate::options::{Overwrite, all};
use clap::{Args, ValueEnum};
use lab_engines::machine::{Controller, HostPath};
use lab_studies::{cache, filesystem, oltp};
use std::num::NonZeroU64;
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
    /// Rate of a SAS device's lane, each way: 1.2GB/s of 12 Gb/s, 600MB/s of 6 Gb/s
    #[arg(long, default_value = "1.2GB/s", value_name = "RATE", value_parser = rate)]
    sas_rate: NonZeroU64,
}

fn rate(text: &str) -> Result<NonZeroU64, String> {
    let rate = units::parse_rate(text).map_err(|wrong| wrong.to_string())?;
    NonZeroU64::new(rate).ok_or_else(|| "a rate is more than 0".into())
}

impl From<Path> for HostPath {
    fn from(path: Path) -> Self {
        Self {
            processors: path.processors,
            submission: path.submission,
            completion: path.completion,
            lock: path.lock,
            requests: path.requests as usize,
            sas_rate: path.sas_rate,
        }
    }
}

/// `--sim` of studies that are in virtual time by themselves.
#[derive(Args, Clone, Copy, Debug)]
struct Sim {
    /// In virtual time, as this study is by itself: every study that can be so takes it
    #[arg(long)]
    #[allow(dead_code, reason = "it asks for what is so anyway")]
    sim: bool,
}

/// A storage controller.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControllerName {
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

/// A file system of the live study.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum FilesystemName {
    /// ext4
    Ext4,
    /// XFS
    Xfs,
}

impl From<FilesystemName> for lab_databases::layout::Filesystem {
    fn from(name: FilesystemName) -> Self {
        match name {
            FilesystemName::Ext4 => Self::Ext4,
            FilesystemName::Xfs => Self::Xfs,
        }
    }
}

/// Options of the live study of file systems.
#[derive(Args, Clone, Debug)]
struct FilesystemLive {
    /// Live: file systems
    #[arg(long, requires = "live", value_delimiter = ',', default_value = "ext4,xfs", value_name = "NAME,…")]
    filesystems: Vec<FilesystemName>,
    /// Live: drives and files have the published capacity divided by this
    #[arg(long, requires = "live", default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    scale: u32,
    /// Live: a second of the drives takes N seconds on the wall's clock, so that they and not this machine are the limit
    #[arg(long, requires = "live", default_value_t = 128, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200))]
    slow_motion: u32,
    /// Live: measured time of a job on an SSD, on the wall's clock
    #[arg(long, requires = "live", default_value = "10s", value_name = "TIME", value_parser = units::parse_seconds::<u32>)]
    seconds: u32,
    /// Live: measured time of a job on the disk, likewise
    #[arg(long, requires = "live", default_value = "30s", value_name = "TIME", value_parser = units::parse_seconds::<u32>)]
    disk_seconds: u32,
    /// Live: directory for drive images and mount points while the study runs [default: /dev/shm when it has room, else /tmp]
    #[arg(long, requires = "live", value_name = "DIR")]
    scratch: Option<PathBuf>,
}

impl From<FilesystemLive> for filesystem::Live {
    fn from(live: FilesystemLive) -> Self {
        Self {
            filesystems: all(live.filesystems),
            scale: live.scale,
            slow_motion: live.slow_motion,
            seconds: live.seconds,
            disk_seconds: live.disk_seconds,
            scratch: live.scratch,
        }
    }
}

/// Options of `tranche study filesystem`.
#[derive(Args, Clone, Debug)]
pub struct Filesystem {
    #[command(flatten)]
    _sim: Sim,
    /// Run the real fio on ext4 and XFS over scaled drives in slow motion. Needs root, FUSE, loop devices and fio. Without it the study is in virtual
    /// time
    #[arg(long, conflicts_with_all = ["sim", "full"])]
    live: bool,
    #[command(flatten)]
    real: FilesystemLive,
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
    /// Directory for report.html, results.json and results.csv [default: out/filesystem, or the first of out/filesystem-2, out/filesystem-3, … without results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
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
            live: options.live.then(|| options.real.into()),
            nvme: options.nvme,
            sas: options.sas,
            disk: options.disk,
            full: options.full,
            path: options.path.into(),
            repeat: options.repeat,
            quick: options.quick,
            out: options.overwrite.place(options.out, "out/filesystem"),
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
    /// dm-cache's policies mq and smq, cold, warming and warm, and what each writes to its SSD
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
    #[command(flatten)]
    _sim: Sim,
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
    #[arg(long, alias = "file", default_value = "4GiB", value_name = "SIZE", value_parser = units::parse_size)]
    file_size: u64,
    /// Repetitions, with other random numbers
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Short and rough: to see that it works, not for figures
    #[arg(long)]
    quick: bool,
    /// Directory for report.html, results.json and results.csv [default: out/cache, or the first of out/cache-2, out/cache-3, … without results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
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
            file: options.file_size,
            repeat: options.repeat,
            quick: options.quick,
            out: options.overwrite.place(options.out, "out/cache"),
            overwrite: options.overwrite.into(),
            seed: options.seed,
        }
    }
}

/// Options of the live study of a database.
#[derive(Args, Clone, Debug)]
struct OltpLive {
    /// Live: drives, rows, buffer pool, log and cache have their size divided by this
    #[arg(long, requires = "live", default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=400))]
    scale: u32,
    /// Live: a second of the drives takes N seconds on the wall's clock, so that they and not this machine are the limit. A run takes --seconds times
    /// this, divided by --scale
    #[arg(long, requires = "live", default_value_t = 24, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200))]
    slow_motion: u32,
    /// Live: database server, instead of the one installed
    #[arg(long, requires = "live", value_name = "PATH")]
    mysqld: Option<PathBuf>,
    /// Live: directory for drive images and mount points while the study runs [default: /dev/shm when it has room, else /tmp]
    #[arg(long, requires = "live", value_name = "DIR")]
    scratch: Option<PathBuf>,
}

impl From<OltpLive> for oltp::Live {
    fn from(live: OltpLive) -> Self {
        Self { scale: live.scale, slow_motion: live.slow_motion, mysqld: live.mysqld, scratch: live.scratch }
    }
}

/// Options of `tranche study oltp`.
#[derive(Args, Clone, Debug)]
pub struct Oltp {
    #[command(flatten)]
    _sim: Sim,
    /// Run MariaDB under sysbench on scaled drives in slow motion, and on a live cache tier. Needs root, FUSE, loop devices, MariaDB and sysbench. Without
    /// it the study is in virtual time
    #[arg(long, conflicts_with_all = ["sim"])]
    live: bool,
    #[command(flatten)]
    real: OltpLive,
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
    #[arg(long, alias = "pool", default_value = "8GiB", value_name = "SIZE", value_parser = units::parse_size)]
    buffer_pool: u64,
    /// Connections, which sysbench calls threads
    #[arg(long, alias = "threads", default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    connections: u32,
    /// Repetitions, with other random numbers
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Short and rough: to see that it works, not for figures
    #[arg(long)]
    quick: bool,
    /// Directory for report.html, results.json and results.csv [default: out/oltp, or the first of out/oltp-2, out/oltp-3, … without results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
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
            live: options.live.then(|| options.real.into()),
            disk: options.disk,
            nvme: options.nvme,
            controller: options.controller.into(),
            path: options.path.into(),
            statement_ns: options.statement_time,
            seconds: options.seconds,
            rows: options.rows,
            pool: options.buffer_pool,
            threads: options.connections,
            repeat: options.repeat,
            quick: options.quick,
            out: options.overwrite.place(options.out, "out/oltp"),
            overwrite: options.overwrite.into(),
            seed: options.seed,
        }
    }
}
