//! Options of the study of power cuts.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lab_studies::{doublewrite, powercut};

use crate::options::{Overwrite, all};

/// What loses its power.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum CutLayout {
    /// InnoDB, doublewrite buffer beside the data, on NAND.
    Nand,
    /// InnoDB, doublewrite buffer on a DRAM namespace of the same drive.
    Dram,
    /// InnoDB, doublewrite buffer on a persistent memory namespace of the same drive.
    Pmem,
    /// InnoDB without doublewrite buffer: unsafe.
    Off,
    /// InnoDB without doublewrite buffer, on a drive that writes 16 KiB atomically.
    Atomic,
    /// MyRocks on a store on zones, on the drive zn540-lab.
    MyrocksZones,
    /// PostgreSQL with full_page_writes.
    PostgresFpw,
    /// PostgreSQL without full_page_writes, on a drive that writes 8 KiB atomically.
    PostgresAtomic,
    /// PostgreSQL without full_page_writes, on a drive that writes 4 KiB atomically: unsafe.
    PostgresTorn,
}

impl From<CutLayout> for powercut::Variant {
    fn from(layout: CutLayout) -> Self {
        use doublewrite::Variant;
        use powercut::Protection;
        Self::InnoDb(match layout {
            CutLayout::Nand => Variant::Nand,
            CutLayout::Dram => Variant::Dram,
            CutLayout::Pmem => Variant::Pmem,
            CutLayout::Off => Variant::Off,
            CutLayout::Atomic => Variant::Atomic,
            CutLayout::MyrocksZones => return Self::Rocks,
            CutLayout::PostgresFpw => return Self::PostgreSql(Protection::FullPages),
            CutLayout::PostgresAtomic => return Self::PostgreSql(Protection::AtomicWrites),
            CutLayout::PostgresTorn => return Self::PostgreSql(Protection::Nothing),
        })
    }
}

/// Options of `tranche study powercut`.
#[derive(Args, Clone, Debug)]
pub struct Powercut {
    /// Rounds for each variant
    #[arg(long, default_value_t = 10, value_name = "N")]
    rounds: u32,
    /// Layouts to try; `off` and `postgres-torn` are expected to show torn pages, the others must lose nothing
    #[arg(long, value_delimiter = ',', default_value = "nand,dram,atomic,off", value_name = "NAME,…")]
    variants: Vec<CutLayout>,
    /// Connections that write
    #[arg(long, alias = "threads", default_value_t = 4, value_name = "N")]
    connections: u32,
    /// Seed of every cut and of the load [default: from the clock; it is printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Drive of InnoDB and PostgreSQL: a profile or a TOML file
    #[arg(long, alias = "profile", default_value = doublewrite::DEFAULT_PROFILE, value_name = "NAME|FILE")]
    drive: String,
    /// Database server, instead of the one installed: MariaDB, MySQL or Percona Server
    #[arg(long, value_name = "PATH")]
    mysqld: Option<PathBuf>,
    /// PostgreSQL's program postgres, instead of the newest one installed
    #[arg(long, value_name = "PATH")]
    postgres: Option<PathBuf>,
    /// Directory for powercut.json [default: out/powercut, or the first of out/powercut-2, out/powercut-3, … without results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Whether results that are in `out` may go
    #[command(flatten)]
    overwrite: Overwrite,
    /// Directory for drive images and mount points meanwhile [default: /dev/shm when it has room, else /tmp]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

impl From<Powercut> for powercut::Options {
    fn from(options: Powercut) -> Self {
        Self {
            rounds: options.rounds,
            variants: all(options.variants),
            connections: options.connections,
            seed: options.seed,
            drive: options.drive,
            mysqld: options.mysqld,
            postgres: options.postgres,
            out: options.overwrite.place(options.out, "out/powercut"),
            overwrite: options.overwrite.into(),
            scratch: options.scratch,
        }
    }
}
