//! Options of the study, and what they are by default.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use super::{measured::Measured, published};
use crate::layouts::doublewrite::DEFAULT_PROFILE;
use lab_databases::mariadb::Tuning;
use lab_engines::sweep::SetOptions;
use lab_models::innodb::{
    AGING_SECONDS, DEFAULT_PROFILE as PUBLISHED_PROFILE, REDO_MIB, ServerLoad, ServerTuning, Variant, WINDOWS,
};
use lab_report::{
    options::{DefaultDirectory, ResultsDirectory, defaults, once},
    results::{Comparison, compare},
};

/// Options of `tranche study doublewrite`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Run real software on a real file system over the drive [default: where root, FUSE, loop devices and a server are there, else --sim]
    #[arg(long, conflicts_with = "sim")]
    pub live: bool,
    /// In virtual time: a model of the published server and database on the published drive
    #[arg(long)]
    pub sim: bool,
    /// The model with the live study's parameters, beside what that measured: its results.json
    #[arg(long, value_name = "FILE", conflicts_with = "live")]
    pub like_live: Option<PathBuf>,
    /// Connections that run transactions; several values make one point each [default: 4; with --sim 4,8,16,32,64]
    #[arg(long, alias = "threads", value_delimiter = ',', value_name = "N,…")]
    pub connections: Vec<u32>,
    /// Layouts to compare
    #[arg(long, value_delimiter = ',', default_value = "nand,dram,off", value_name = "NAME,…")]
    pub variants: Vec<Variant>,
    /// TPC-C warehouses: live about 85 MB each [default: 8; with --sim 28000]
    #[arg(long, value_name = "N")]
    pub warehouses: Option<u32>,
    /// Measured time of each run [default: 25s; with --sim 60s]
    #[arg(long, value_name = "TIME", value_parser = units::parse_seconds::<u64>)]
    pub seconds: Option<u64>,
    /// Load before the measurement [default: 10s; with --sim 60s]
    #[arg(long, value_name = "TIME", value_parser = units::parse_seconds::<u64>)]
    pub warmup: Option<u64>,
    /// Interleaved repetitions [default: 3; with --sim 1]
    #[arg(long, value_name = "N")]
    pub repeat: Option<u32>,
    /// InnoDB buffer pool; smaller makes more writes per transaction [default: 96MiB; with --sim 16GiB]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub buffer_pool: Option<u64>,
    /// Drive: a profile or a TOML file [default: pblaze5-910-lab; with --sim pblaze5-910-short, onto which the database is folded]
    #[arg(long, alias = "profile", value_name = "NAME|FILE")]
    pub drive: Option<String>,
    /// Database server, instead of the one installed: MariaDB, MySQL or Percona Server; given several times, one after the other and
    /// side by side
    #[arg(long, value_name = "PATH", conflicts_with = "sim")]
    pub mysqld: Vec<PathBuf>,
    /// Where results go.
    #[command(flatten)]
    pub out: ResultsDirectory<Self>,
    /// Directory for drive images and mount points while the study runs [default: /dev/shm when it has room, else /tmp]
    #[arg(long, value_name = "DIR", conflicts_with = "sim")]
    pub scratch: Option<PathBuf>,
    /// With --sim: two points, and short ones. To see that it works, not for figures
    #[arg(long, requires = "sim", conflicts_with = "like_live")]
    pub quick: bool,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// What is varied.
    #[command(flatten)]
    pub sweep: SetOptions,
}

impl DefaultDirectory for Options {
    const DIRECTORY: &'static str = "out/doublewrite";
}

impl Default for Options {
    fn default() -> Self {
        defaults()
    }
}

/// The options with what they are by default.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) connections: Vec<u32>,
    pub(super) variants: Vec<Variant>,
    pub(super) warehouses: u32,
    pub(super) seconds: u64,
    pub(super) warmup: u64,
    pub(super) repeat: u32,
    pub(super) buffer_pool: u64,
    pub(super) drive: String,
    pub(super) out: PathBuf,
    pub(super) scratch: Option<PathBuf>,
    pub(super) quick: bool,
    /// In virtual time: seconds of load before anything is measured.
    pub(super) aging: u64,
    pub(super) seed: u64,
    /// What the model is held against instead of the published results.
    pub(super) like: Option<Measured>,
}

impl Settings {
    pub(super) fn new(options: &Options) -> Result<Self> {
        let o = options.clone();
        let like = o.like_live.as_deref().map(Measured::read).transpose()?;
        // With the size of the live study, windows may be as long as the others in virtual time.
        let (sim, published) = (o.sim, o.sim && like.is_none());
        let connections = match (&o.connections[..], &like) {
            ([], Some(measured)) => measured.threads(),
            ([], None) if o.quick => QUICK_CONNECTIONS.to_vec(),
            ([], None) if sim => vec![4, 8, 16, 32, 64],
            ([], None) => vec![4],
            (given, _) => given.to_vec(),
        };
        let (seconds, warmup) = match (o.quick, sim) {
            (true, _) => (QUICK_SECONDS, QUICK_WARMUP),
            (false, true) => (60, 60),
            (false, false) => (25, 10),
        };
        let settings = Self {
            connections,
            variants: like.as_ref().map_or(o.variants, Measured::variants),
            warehouses: o.warehouses.unwrap_or(if published { 28_000 } else { 8 }),
            seconds: o.seconds.unwrap_or(seconds),
            warmup: o.warmup.unwrap_or(warmup),
            repeat: o.repeat.unwrap_or(if sim { 1 } else { 3 }),
            buffer_pool: o.buffer_pool.unwrap_or(if published { 16 << 30 } else { 96 << 20 }),
            drive: o
                .drive
                .unwrap_or_else(|| if published { PUBLISHED_PROFILE } else { DEFAULT_PROFILE }.into()),
            out: options.out.path().to_owned(),
            scratch: o.scratch,
            quick: o.quick,
            aging: if o.quick { QUICK_AGING } else { AGING_SECONDS },
            seed: o.seed,
            like,
        };
        settings.check()?;
        Ok(settings)
    }

    /// A modelled server that does what the study asks for.
    pub(super) fn load(&self) -> ServerLoad {
        ServerLoad {
            connections: self.connections.clone(),
            warehouses: self.warehouses,
            buffer_pool: self.buffer_pool,
            tuning: ServerTuning::default(),
            drive: self.drive.clone(),
            aging: self.aging,
            warmup: self.warmup,
            seconds: self.seconds,
            windows: if self.quick { 1 } else { WINDOWS },
            seed: self.seed,
            like_live: self.like.is_some(),
        }
    }

    fn check(&self) -> Result<()> {
        self.load().check()?;
        if !(1..=1_000).contains(&self.repeat) {
            lab_report::misuse!("--repeat is {}: 1 to 1000 are possible", self.repeat);
        }
        once("--variants", &self.variants)
    }

    pub(super) fn tuning(&self, variant: Variant) -> Tuning {
        Tuning {
            buffer_pool_mib: self.buffer_pool >> 20,
            redo_mib: REDO_MIB,
            doublewrite: variant.doublewrite(),
            ..Tuning::default()
        }
    }

    /// What each variant is compared in with the first of them, or with `nand` if it is among them.
    pub(super) fn comparisons(&self, variants: &[lab_report::results::Variant]) -> Result<Vec<Comparison>> {
        let find = |v: Variant| variants.iter().find(|found| found.name == v.name());
        let mut comparisons = Vec::new();
        let reference = self.variants.iter().copied().find(|v| *v == Variant::Nand);
        let reference = reference.or(self.variants.first().copied()).context("no variant")?;
        if let Some(over) = find(reference) {
            for &of in self.variants.iter().filter(|v| **v != reference) {
                let Some(variant) = find(of) else { continue };
                for metric in METRICS {
                    comparisons.extend(compare(metric, variant, over, |at| {
                        let known = of == Variant::Dram && reference == Variant::Nand;
                        known.then(|| published::dram_over_nand(metric, at)).flatten()
                    }));
                }
            }
        }
        Ok(comparisons)
    }
}

/// Connections of a quick run, and the seconds of a window and before it.
const QUICK_CONNECTIONS: [u32; 2] = [4, 64];
const QUICK_SECONDS: u64 = 3;
const QUICK_WARMUP: u64 = 2;
/// Seconds for which a quick run loads the drive before anything is measured.
const QUICK_AGING: u64 = 10;

/// The figures that are compared.
pub const METRICS: [&str; 4] =
    ["tpmC", "nand_bytes_per_new_order", "write_amplification_all", "write_amplification_nand"];
