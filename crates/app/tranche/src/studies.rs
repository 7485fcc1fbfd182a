//! `tranche study` and `tranche compare`: options of the command line, and the studies that they ask for.

mod cuts;
mod machine;

pub use self::cuts::Powercut;
pub use self::machine::ControllerName;
use self::machine::{Cache, Filesystem, Oltp};
use crate::options::{Overwrite, all};
use crate::progress;
use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use lab_databases::compare;
use lab_report::Findings;
use lab_studies::{cache, doublewrite, filesystem, namespaces, oltp, powercut, quota, zoned};
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;

/// `tranche study`.
#[derive(Subcommand, Debug)]
pub enum Study {
    /// What a DRAM namespace for InnoDB's doublewrite buffer buys MariaDB
    Doublewrite(Box<Doublewrite>),
    /// What MariaDB and PostgreSQL have left after power cuts: acknowledged transactions, whole pages, sound tables
    Powercut(Box<Powercut>),
    /// Eight namespaces with quotas, and what helps against a noisy neighbour
    Quota(Box<Quota>),
    /// What an application that scales with devices gains from several namespaces
    Namespaces(Box<Namespaces>),
    /// What zones buy a log-structured database, against a conventional namespace of the same chips
    Zoned(Box<Zoned>),
    /// How many small requests a host gets from an NVMe drive, a SAS SSD and a hard disk
    Filesystem(Box<Filesystem>),
    /// What an SSD as a cache in front of a hard disk gives, by mode, policy and chunk
    Cache(Box<Cache>),
    /// What a database does on a hard disk, on an NVMe drive, and on the disk with the drive as its cache
    Oltp(Box<Oltp>),
}

/// `--set` of a simulated study.
#[derive(Args, Clone, Debug)]
struct Sweep {
    /// With --sim, repeat the study for each value of KEY. With several --set, repeat it for each combination. KEY is seed, or a key of the
    /// drive's TOML (set.1.spare). ftl.spare and gc.policy mean the first NVM Set on flash. Values may also be ranges: 1..5, 4..64:4 or
    /// 1..64:x2 (docs/sim.md)
    #[arg(long, value_name = "KEY=A,B,…")]
    set: Vec<String>,
}

impl From<Sweep> for lab_engines::sweep::SetOptions {
    fn from(sweep: Sweep) -> Self {
        Self { set: sweep.set }
    }
}

/// A layout of the doublewrite buffer.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Layout {
    /// Doublewrite buffer beside the data, on NAND.
    Nand,
    /// Doublewrite buffer on a DRAM namespace of the same drive.
    Dram,
    /// Doublewrite buffer on a persistent memory namespace of the same drive.
    Pmem,
    /// No doublewrite buffer: the upper bound, and unsafe.
    Off,
    /// No doublewrite buffer, on a drive that writes 16 KiB atomically.
    Atomic,
}

impl From<Layout> for doublewrite::Variant {
    fn from(layout: Layout) -> Self {
        match layout {
            Layout::Nand => Self::Nand,
            Layout::Dram => Self::Dram,
            Layout::Pmem => Self::Pmem,
            Layout::Off => Self::Off,
            Layout::Atomic => Self::Atomic,
        }
    }
}

/// A way to help NS1.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cure {
    /// Nothing: commands are served in the order of their arrival.
    None,
    /// The drive shares its time in equal parts, as it does by itself.
    Fair,
    /// NS1 has ten times the weight of NS2.
    Weights,
    /// A quota for NS2.
    Quota,
    /// An NVM Set for each: half of the dies are NS1's.
    Sets,
    /// Flexible Data Placement: a reclaim unit handle for each.
    Fdp,
    /// Predictable Latency Mode: windows without garbage collection.
    Windows,
}

impl From<Cure> for quota::Variant {
    fn from(cure: Cure) -> Self {
        match cure {
            Cure::None => Self::None,
            Cure::Fair => Self::Fair,
            Cure::Weights => Self::Weights,
            Cure::Quota => Self::Quota,
            Cure::Sets => Self::Sets,
            Cure::Fdp => Self::Fdp,
            Cure::Windows => Self::Windows,
        }
    }
}

/// What the application's machine takes.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum HostTimes {
    /// As measured on a Linux machine
    Linux,
    /// No time
    None,
}

/// Options of `tranche study doublewrite`.
#[derive(Args, Clone, Debug)]
pub struct Doublewrite {
    /// Run real software on a real file system over the drive [default: where root, FUSE, loop devices and a server are there, else --sim]
    #[arg(long, conflicts_with = "sim")]
    live: bool,
    /// In virtual time: a model of the published server and database on the published drive
    #[arg(long)]
    sim: bool,
    /// The model with the live study's parameters, beside what that measured: its results.json
    #[arg(long, value_name = "FILE", conflicts_with = "live")]
    like_live: Option<PathBuf>,
    /// Connections that run transactions; several values make one point each [default: 4; with --sim 4,8,16,32,64]
    #[arg(long, alias = "threads", value_delimiter = ',', value_name = "N,…")]
    connections: Vec<u32>,
    /// Layouts to compare
    #[arg(long, value_delimiter = ',', default_value = "nand,dram,off", value_name = "NAME,…")]
    variants: Vec<Layout>,
    /// TPC-C warehouses: live about 85 MB each [default: 8; with --sim 28000]
    #[arg(long, value_name = "N")]
    warehouses: Option<u32>,
    /// Measured time of each run [default: 25s; with --sim 60s]
    #[arg(long, value_name = "TIME", value_parser = units::parse_seconds::<u64>)]
    seconds: Option<u64>,
    /// Load before the measurement [default: 10s; with --sim 60s]
    #[arg(long, value_name = "TIME", value_parser = units::parse_seconds::<u64>)]
    warmup: Option<u64>,
    /// Interleaved repetitions [default: 3; with --sim 1]
    #[arg(long, value_name = "N")]
    repeat: Option<u32>,
    /// InnoDB buffer pool; smaller makes more writes per transaction [default: 96MiB; with --sim 16GiB]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    buffer_pool: Option<u64>,
    /// Drive: a profile or a TOML file [default: pblaze5-910-lab; with --sim pblaze5-910-short, onto which the database is folded]
    #[arg(long, alias = "profile", value_name = "NAME|FILE")]
    drive: Option<String>,
    /// Database server, instead of the one installed: MariaDB, MySQL or Percona Server; given several times, one after the other and
    /// side by side
    #[arg(long, value_name = "PATH", conflicts_with = "sim")]
    mysqld: Vec<PathBuf>,
    /// Directory for report.html, results.json and results.csv [default: out/doublewrite, or the first of out/doublewrite-2, out/doublewrite-3, … without results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Whether results that are in `out` may go
    #[command(flatten)]
    overwrite: Overwrite,
    /// Directory for drive images and mount points while the study runs [default: /dev/shm when it has room, else /tmp]
    #[arg(long, value_name = "DIR", conflicts_with = "sim")]
    scratch: Option<PathBuf>,
    /// With --sim: two points, and short ones. To see that it works, not for figures
    #[arg(long, requires = "sim", conflicts_with = "like_live")]
    quick: bool,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// What is varied.
    #[command(flatten)]
    sweep: Sweep,
}

impl From<Doublewrite> for doublewrite::Options {
    fn from(options: Doublewrite) -> Self {
        Self {
            live: options.live,
            sim: options.sim,
            like_live: options.like_live,
            connections: options.connections,
            variants: all(options.variants),
            warehouses: options.warehouses,
            seconds: options.seconds,
            warmup: options.warmup,
            repeat: options.repeat,
            buffer_pool: options.buffer_pool,
            drive: options.drive,
            mysqld: options.mysqld,
            out: options.overwrite.place(options.out, "out/doublewrite"),
            overwrite: options.overwrite.into(),
            scratch: options.scratch,
            quick: options.quick,
            seed: options.seed,
            sweep: options.sweep.into(),
        }
    }
}

/// Options of `tranche study quota`.
#[derive(Args, Clone, Debug)]
pub struct Quota {
    /// Only live: the lab drive in this process, with threads that load it, beside the same in virtual time [default: this and
    /// --sim]
    #[arg(long, conflicts_with = "sim")]
    live: bool,
    /// Only in virtual time, at the published drive's speed
    #[arg(long)]
    sim: bool,
    /// What is done for NS1
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "none,fair,weights,quota,sets,fdp,windows",
        value_name = "NAME,…"
    )]
    variants: Vec<Cure>,
    /// Repetitions, with other random numbers; live ones take turns
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Drive of --sim: a profile or a TOML file
    #[arg(long, alias = "profile", default_value = quota::DEFAULT_PROFILE, value_name = "NAME|FILE")]
    drive: String,
    /// Part 2 live: a second of the drive takes N seconds on the wall's clock. So what the machine adds to a command weighs N times
    /// less
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    slow_motion: u32,
    /// Fewer points and shorter runs: to see that it works, not for figures
    #[arg(long)]
    quick: bool,
    /// Directory for report.html, results.json and results.csv; those of the live part are in `live` below it when both
    /// parts run [default: out/quota, or the first of out/quota-2, out/quota-3, … without results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Whether results that are in `out` may go
    #[command(flatten)]
    overwrite: Overwrite,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// What is varied.
    #[command(flatten)]
    sweep: Sweep,
}

impl From<Quota> for quota::Options {
    fn from(options: Quota) -> Self {
        Self {
            live: options.live,
            sim: options.sim,
            variants: all(options.variants),
            repeat: options.repeat,
            drive: options.drive,
            slow_motion: options.slow_motion,
            quick: options.quick,
            out: options.overwrite.place(options.out, "out/quota"),
            overwrite: options.overwrite.into(),
            seed: options.seed,
            sweep: options.sweep.into(),
        }
    }
}

/// A second to a day.
fn window(text: &str) -> Result<u32, String> {
    match units::parse_seconds(text) {
        Ok(seconds @ 1..=86_400) => Ok(seconds),
        Ok(_) => Err("a window is 1s to 24h".to_owned()),
        Err(wrong) => Err(wrong.to_string()),
    }
}

/// Options of `tranche study namespaces`.
#[derive(Args, Clone, Debug)]
pub struct Namespaces {
    /// The drive in this process under the wall's clock, in slow motion, beside the same in virtual time
    #[arg(long, conflicts_with_all = ["sim", "set"])]
    live: bool,
    /// In virtual time; so it is, too, if neither is given
    #[arg(long)]
    sim: bool,
    /// Live: a second of the drive takes so many on the clock on the wall, so that what the machine adds to a command weighs as much less
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    slow_motion: u32,
    /// Numbers of namespaces [default: 1,2,4,8,16,32, as far as there are so many; live: 1,8]
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    counts: Vec<u32>,
    /// Cut the drive into so many namespaces, write all of them, and use the first of them: as published with 8. Otherwise the
    /// drive is cut into as many as are used
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=namespaces::COUNT_MAX as i64))]
    of: Option<u32>,
    /// The drive: a profile or a TOML file; its first namespace says how much is cut into equal ones
    #[arg(long, alias = "profile", default_value = namespaces::DEFAULT_PROFILE, value_name = "NAME|FILE")]
    drive: String,
    /// How long a load must pass, after half of that which is not measured; the real test takes 24 hours [default: 10s; live: 1s]
    #[arg(long, value_name = "TIME", value_parser = window)]
    window: Option<u32>,
    /// What the application's machine takes for its threads: `linux` (measured: docs/studies/namespaces.md), or `none`, so that the drive
    /// alone limits them
    #[arg(long, value_enum, default_value_t = HostTimes::Linux, value_name = "TIMES")]
    host_time: HostTimes,
    /// Repetitions, with other random numbers
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Short windows and rough steps: to see that it works, not for figures
    #[arg(long)]
    quick: bool,
    /// Directory for report.html, results.json and results.csv [default: out/namespaces, or the first of out/namespaces-2, out/namespaces-3, … without results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Whether results that are in `out` may go
    #[command(flatten)]
    overwrite: Overwrite,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// What is varied.
    #[command(flatten)]
    sweep: Sweep,
}

impl From<Namespaces> for namespaces::Options {
    fn from(options: Namespaces) -> Self {
        Self {
            live: options.live,
            sim: options.sim,
            slow_motion: options.slow_motion,
            counts: options.counts,
            of: options.of,
            drive: options.drive,
            window: options.window,
            host_time: match options.host_time {
                HostTimes::Linux => namespaces::HostTimes::Linux,
                HostTimes::None => namespaces::HostTimes::None,
            },
            repeat: options.repeat,
            quick: options.quick,
            out: options.overwrite.place(options.out, "out/namespaces"),
            overwrite: options.overwrite.into(),
            seed: options.seed,
            sweep: options.sweep.into(),
        }
    }
}

/// A part of the study of zones.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum ZonedPart {
    /// Steady writes to the whole drive
    Writes,
    /// Latency of reads beside writes
    Reads,
    /// RocksDB's fills and overwrites, and reads beside writes
    Rocksdb,
    /// The same on f2fs, on conventional namespaces and on zones
    F2fs,
    /// Which files share zones: any, those of one lifetime, or those whose keys meet
    Placement,
    /// Zones on all dies, and on a few
    Dies,
    /// What a power cut takes from a log, with and without Flush and power-loss protection
    Durability,
}

impl From<ZonedPart> for zoned::Part {
    fn from(part: ZonedPart) -> Self {
        match part {
            ZonedPart::Writes => Self::Writes,
            ZonedPart::Reads => Self::Reads,
            ZonedPart::Rocksdb => Self::Rocksdb,
            ZonedPart::F2fs => Self::F2fs,
            ZonedPart::Placement => Self::Placement,
            ZonedPart::Dies => Self::Dies,
            ZonedPart::Durability => Self::Durability,
        }
    }
}

/// What the live study compares.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum ZonedVariant {
    /// MyRocks on XFS on a conventional namespace with 7 % of spare
    #[value(name = "myrocks-7")]
    Spare7,
    /// MyRocks on XFS on a conventional namespace with 28 % of spare
    #[value(name = "myrocks-28")]
    Spare28,
    /// MyRocks on a store on zones
    #[value(name = "myrocks-zones")]
    Zones,
    /// InnoDB on XFS on a conventional namespace with 7 % of spare
    #[value(name = "innodb-7")]
    InnoDb,
    /// RocksDB on XFS on a conventional namespace with 7 % of spare
    #[value(name = "rocksdb-7")]
    Rocks7,
    /// RocksDB on XFS on a conventional namespace with 28 % of spare
    #[value(name = "rocksdb-28")]
    Rocks28,
    /// RocksDB with its plug-in on a store on zones
    #[value(name = "rocksdb-zones")]
    RocksZones,
}

impl From<ZonedVariant> for zoned::live::Variant {
    fn from(variant: ZonedVariant) -> Self {
        match variant {
            ZonedVariant::Spare7 => Self::Spare7,
            ZonedVariant::Spare28 => Self::Spare28,
            ZonedVariant::Zones => Self::Zones,
            ZonedVariant::InnoDb => Self::InnoDb,
            ZonedVariant::Rocks7 => Self::Rocks7,
            ZonedVariant::Rocks28 => Self::Rocks28,
            ZonedVariant::RocksZones => Self::RocksZones,
        }
    }
}

/// What sysbench runs on MyRocks and InnoDB in the live study, and db_bench on RocksDB.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum ZonedLoad {
    /// sysbench oltp_write_only
    WriteOnly,
    /// sysbench oltp_read_write
    ReadWrite,
    /// sysbench oltp_read_only
    ReadOnly,
    /// db_bench fillrandom, to the last key
    Fill,
    /// db_bench overwrite
    Overwrite,
    /// db_bench readwhilewriting
    ReadWhileWriting,
    /// db_bench readwhilewriting, writes limited to 640 KiB/s: the published 20 MiB/s, scaled as zn540-lab is
    ReadWhileLimited,
}

impl From<ZonedLoad> for zoned::live::Load {
    fn from(load: ZonedLoad) -> Self {
        match load {
            ZonedLoad::WriteOnly => Self::WriteOnly,
            ZonedLoad::ReadWrite => Self::ReadWrite,
            ZonedLoad::ReadOnly => Self::ReadOnly,
            ZonedLoad::Fill => Self::Fill,
            ZonedLoad::Overwrite => Self::Overwrite,
            ZonedLoad::ReadWhileWriting => Self::ReadWhileWriting,
            ZonedLoad::ReadWhileLimited => Self::ReadWhileLimited,
        }
    }
}

/// Options of the live study of zones.
#[derive(Args, Clone, Debug)]
struct ZonedLive {
    /// Live: what is compared
    #[arg(
        long,
        requires = "live",
        value_delimiter = ',',
        default_value = "myrocks-7,myrocks-28,myrocks-zones,innodb-7,rocksdb-7,rocksdb-28,rocksdb-zones",
        value_name = "NAME,…"
    )]
    variants: Vec<ZonedVariant>,
    /// Live: what sysbench and db_bench run, one after the other
    #[arg(
        long,
        requires = "live",
        value_delimiter = ',',
        default_value = "write-only,read-write,read-only,fill,overwrite,read-while-writing,read-while-limited",
        value_name = "NAME,…"
    )]
    loads: Vec<ZonedLoad>,
    /// Live: connections, and threads of db_bench that read; several values make one point each
    #[arg(long, requires = "live", value_delimiter = ',', default_value = "16", value_name = "N,…")]
    connections: Vec<u32>,
    /// Live: tables
    #[arg(long, requires = "live", default_value_t = 4, value_name = "N")]
    tables: u32,
    /// Live: rows of each table, which take about 200 bytes
    #[arg(long, requires = "live", default_value_t = 600_000, value_name = "N")]
    rows: u64,
    /// Live: keys of db_bench, which take about 450 bytes
    #[arg(long, requires = "live", default_value_t = 1_500_000, value_name = "N")]
    keys: u64,
    /// Live: measured time of each run; a fill takes as long as it takes
    #[arg(long, requires = "live", default_value = "20s", value_name = "TIME", value_parser = units::parse_seconds::<u64>)]
    seconds: u64,
    /// Live: load before the first measurement of a drive
    #[arg(long, requires = "live", default_value = "20s", value_name = "TIME", value_parser = units::parse_seconds::<u64>)]
    warmup: u64,
    /// Live: RocksDB's block cache and InnoDB's buffer pool
    #[arg(long, alias = "cache", requires = "live", default_value = "32MiB", value_name = "SIZE", value_parser = units::parse_size)]
    buffer_pool: u64,
    /// Live: database server, instead of the one installed
    #[arg(long, requires = "live", value_name = "PATH")]
    mysqld: Option<PathBuf>,
    /// Live: RocksDB's plug-in [default: target/plugins/libtranche_rocksdb.so, which `make plugin` makes]
    #[arg(long, requires = "live", value_name = "FILE")]
    plugin: Option<PathBuf>,
    /// Live: directory for drive images and mount points while the study runs [default: /dev/shm when it has room, else /tmp]
    #[arg(long, requires = "live", value_name = "DIR")]
    scratch: Option<PathBuf>,
}

/// Options of `tranche study zoned`.
#[derive(Args, Clone, Debug)]
pub struct Zoned {
    /// Run MyRocks and InnoDB with sysbench, and RocksDB with db_bench, on real file systems over the drive. Needs root, FUSE, MariaDB with its
    /// RocksDB plug-in, sysbench, db_bench, and RocksDB's plug-in (`make plugin`), as far as the variants need them
    #[arg(long, conflicts_with_all = ["sim", "set", "parts", "scale", "quick", "compaction_time"])]
    live: bool,
    #[command(flatten)]
    real: ZonedLive,
    /// In virtual time, at the published drive's speed; so it is, too, if neither is given
    #[arg(long)]
    sim: bool,
    /// Instead of the study: the model of RocksDB beside this db_bench, which fills and overwrites a small database in a temporary directory
    #[arg(long, value_name = "PATH", conflicts_with_all = ["live", "sim", "set", "parts"])]
    db_bench: Option<PathBuf>,
    /// What is done
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "writes,reads,rocksdb,f2fs,placement,dies,durability",
        value_name = "NAME,…"
    )]
    parts: Vec<ZonedPart>,
    /// Chips of the drives: a profile or a TOML file with zones
    /// [default: zn540-2t; live: zn540-lab]
    #[arg(long, alias = "profile", value_name = "NAME|FILE")]
    drive: Option<String>,
    /// The drives have this fraction of the capacity, and so have files, buffers and zones; channels, dies and their speed stay
    #[arg(long, default_value_t = zoned::DEFAULT_SCALE, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    scale: u32,
    /// Time of a processor that a compaction takes for each KiB that it reads, and a flush for each that it writes
    #[arg(long, default_value = "6us", value_name = "TIME", value_parser = units::parse_time)]
    compaction_time: u64,
    /// Repetitions, with other random numbers [default: 1; live: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: Option<u32>,
    /// Short and rough: to see that it works, not for figures
    #[arg(long)]
    quick: bool,
    /// Directory for report.html, results.json and results.csv [default: out/zoned, or the first of out/zoned-2, out/zoned-3, … without results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Whether results that are in `out` may go
    #[command(flatten)]
    overwrite: Overwrite,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// What is varied.
    #[command(flatten)]
    sweep: Sweep,
}

impl Zoned {
    /// The options of the live study, if that is asked for.
    fn real(&self) -> Option<zoned::live::Options> {
        let real = self.real.clone();
        self.live.then(|| zoned::live::Options {
            variants: all(real.variants),
            loads: all(real.loads),
            threads: real.connections,
            tables: real.tables,
            rows: real.rows,
            keys: real.keys,
            seconds: real.seconds,
            warmup: real.warmup,
            repeat: self.repeat.unwrap_or(2),
            cache: real.buffer_pool,
            drive: self.drive.clone().unwrap_or_else(|| zoned::live::DEFAULT_PROFILE.into()),
            mysqld: real.mysqld,
            plugin: real.plugin,
            out: self.overwrite.place(self.out.clone(), "out/zoned"),
            overwrite: self.overwrite.into(),
            scratch: real.scratch,
            seed: self.seed,
        })
    }
}

impl From<Zoned> for zoned::Options {
    fn from(options: Zoned) -> Self {
        Self {
            live: options.real(),
            sim: options.sim,
            db_bench: options.db_bench,
            parts: all(options.parts),
            drive: options.drive.unwrap_or_else(|| zoned::DEFAULT_PROFILE.into()),
            scale: options.scale,
            compaction_ns: options.compaction_time,
            repeat: options.repeat.unwrap_or(1),
            quick: options.quick,
            out: options.overwrite.place(options.out, "out/zoned"),
            overwrite: options.overwrite.into(),
            seed: options.seed,
            sweep: options.sweep.into(),
        }
    }
}

/// Options of `tranche compare`.
#[derive(Args, Clone, Debug)]
pub struct Compare {
    /// Layouts; the others are compared with the first
    #[arg(required = true, value_name = "LAYOUT.toml")]
    layouts: Vec<PathBuf>,
    /// Command to run on each, after --
    #[arg(last = true, required_unless_present = "tpcc", value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Instead of a command, TPC-C for this time on the layouts' databases, which have tpcc_warehouses
    #[arg(long, value_name = "TIME", value_parser = units::parse_seconds::<u64>, conflicts_with = "command")]
    tpcc: Option<u64>,
    /// TPC-C: load before the measurement
    #[arg(long, requires = "tpcc", default_value = "10s", value_name = "TIME", value_parser = units::parse_seconds::<u64>)]
    warmup: u64,
    /// TPC-C: connections that run transactions
    #[arg(long, requires = "tpcc", default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=128))]
    connections: u32,
    /// Interleaved repetitions
    #[arg(long, default_value_t = 3, value_name = "N")]
    repeat: u32,
    /// Time after which a run of the command is given up
    #[arg(long, default_value = "1h", value_name = "TIME", value_parser = units::parse_seconds::<u64>)]
    timeout: u64,
    /// PostgreSQL's program postgres, instead of the newest one installed: for layouts with a database
    #[arg(long, value_name = "PATH")]
    postgres: Option<PathBuf>,
    /// Directory for report.html, results.json, results.csv and the command's output [default: out/compare, or the first of out/compare-2, out/compare-3, … without results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Whether results that are in `out` may go
    #[command(flatten)]
    overwrite: Overwrite,
    /// Directory for drive images and mount points meanwhile [default: /dev/shm when it has room, else /tmp]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

impl From<Compare> for compare::Options {
    fn from(options: Compare) -> Self {
        Self {
            layouts: options.layouts,
            command: options.command,
            tpcc: options.tpcc.map(|seconds| compare::TpccLoad {
                connections: options.connections,
                warmup: options.warmup,
                seconds,
            }),
            repeat: options.repeat,
            timeout: options.timeout,
            postgres: options.postgres,
            out: options.overwrite.place(options.out, "out/compare"),
            overwrite: options.overwrite.into(),
            scratch: options.scratch,
        }
    }
}

/// Runs a study; its results are JSON.
pub fn study(study: Study) -> Result<Findings<Value>> {
    let control = progress::control()?;
    match study {
        Study::Doublewrite(options) => doublewrite::run(&(*options).into(), &control),
        Study::Powercut(options) => {
            let outcome = powercut::run(&(*options).into(), &control)?;
            let results = serde_json::to_value(outcome.results)?;
            Ok(Findings { results, written: outcome.written, text: outcome.text, failure: outcome.failure })
        }
        Study::Quota(options) => quota::run(&(*options).into(), &control),
        Study::Namespaces(options) => namespaces::run(&(*options).into(), &control),
        Study::Zoned(options) => zoned::run(&(*options).into(), &control),
        Study::Filesystem(options) => filesystem::run(&(*options).into(), &control),
        Study::Cache(options) => cache::run(&(*options).into(), &control),
        Study::Oltp(options) => oltp::run(&(*options).into(), &control),
    }
}

/// Compares layouts.
pub fn compare(options: Compare) -> Result<Findings<lab_report::results::Results>> {
    compare::run(&options.into(), &progress::control()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn parse(line: &str) -> Result<Study, String> {
        let line = ["tranche", "study"].into_iter().chain(line.split(' '));
        match Cli::try_parse_from(line).map_err(|error| error.to_string())?.command {
            Command::Study(study) => Ok(study),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "quota --sim --live",
            "quota --variants prayer",
            "namespaces --live --sim",
            "namespaces --of 33",
            "doublewrite --sim --live",
            "zoned --sim --live",
            "zoned --scale 0",
            "cache --parts sieve",
            "filesystem --processors 0",
            "filesystem --scale 16",
            "filesystem --live --full",
            "filesystem --live --slow-motion 0",
            "oltp --mysqld mariadbd",
            "oltp --live --scale 0",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn every_study_that_can_be_in_virtual_time_takes_sim() {
        for name in ["doublewrite", "quota", "namespaces", "zoned", "filesystem", "cache", "oltp"] {
            assert!(parse(&format!("{name} --sim")).is_ok(), "{name}");
            assert!(parse(&format!("{name} --sim --live")).is_err(), "{name}");
        }
        // Real servers lose their power there.
        assert!(parse("powercut --sim").is_err());
    }

    #[test]
    fn options_are_by_default_those_of_the_studies() {
        let debug = |options: &dyn std::fmt::Debug| format!("{options:?}");
        let Study::Doublewrite(options) = parse("doublewrite").unwrap() else { panic!() };
        let plain = doublewrite::Options::from(*options);
        assert_eq!(debug(&plain), debug(&doublewrite::Options::default()));
        let Study::Powercut(options) = parse("powercut").unwrap() else { panic!() };
        let plain = powercut::Options::from(*options);
        assert_eq!(debug(&plain), debug(&powercut::Options::default()));
        let Study::Quota(options) = parse("quota").unwrap() else { panic!() };
        assert_eq!(debug(&quota::Options::from(*options)), debug(&quota::Options::default()));
        let Study::Namespaces(options) = parse("namespaces").unwrap() else { panic!() };
        let plain = namespaces::Options::from(*options);
        assert_eq!(debug(&plain), debug(&namespaces::Options::default()));
        let Study::Filesystem(options) = parse("filesystem").unwrap() else { panic!() };
        assert_eq!(debug(&filesystem::Options::from(*options)), debug(&filesystem::Options::default()));
        let Study::Cache(options) = parse("cache").unwrap() else { panic!() };
        assert_eq!(debug(&cache::Options::from(*options)), debug(&cache::Options::default()));
        let Study::Oltp(options) = parse("oltp").unwrap() else { panic!() };
        assert_eq!(debug(&oltp::Options::from(*options)), debug(&oltp::Options::default()));
        let Study::Filesystem(options) = parse("filesystem --live").unwrap() else { panic!() };
        let live = filesystem::Options::from(*options).live;
        assert_eq!(debug(&live), debug(&Some(filesystem::Live::default())));
        let Study::Oltp(options) = parse("oltp --live").unwrap() else { panic!() };
        assert_eq!(debug(&oltp::Options::from(*options).live), debug(&Some(oltp::Live::default())));
    }
}
