//! Options of the study.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum, value_parser};

use lab_databases::layout;
use lab_engines::machine::HostPath;
use lab_report::options::{DefaultDirectory, ResultsDirectory, defaults, once};

/// Options of the live study.
#[derive(Args, Clone, Debug)]
pub struct Live {
    /// Live: file systems
    #[arg(long, requires = "live", value_delimiter = ',', default_value = "ext4,xfs", value_name = "NAME,…")]
    pub filesystems: Vec<Filesystem>,
    /// Live: drives and files have the published capacity divided by this
    #[arg(long, requires = "live", default_value_t = 256, value_name = "N", value_parser = value_parser!(u32).range(1..=256))]
    pub scale: u32,
    /// Live: a second of the drives takes N seconds on the wall's clock, so that they and not this machine are the limit
    #[arg(long, requires = "live", default_value_t = 128, value_name = "N", value_parser = value_parser!(u32).range(1..=200))]
    pub slow_motion: u32,
    /// Live: measured time of a job on an SSD, on the wall's clock
    #[arg(long, requires = "live", default_value = "10s", value_name = "TIME", value_parser = units::parse_seconds::<u32>)]
    pub seconds: u32,
    /// Live: measured time of a job on the disk, likewise
    #[arg(long, requires = "live", default_value = "30s", value_name = "TIME", value_parser = units::parse_seconds::<u32>)]
    pub disk_seconds: u32,
    /// Live: directory for drive images and mount points while the study runs [default: /dev/shm when it has room, else /tmp]
    #[arg(long, requires = "live", value_name = "DIR")]
    pub scratch: Option<PathBuf>,
}

impl Default for Live {
    fn default() -> Self {
        Options::default().real
    }
}

impl Live {
    pub(super) fn check(&self) -> Result<()> {
        let range = |name: &str, value: u32| match (1..=3600).contains(&value) {
            true => Ok(()),
            false => lab_report::misuse!("--{name} is {value}: 1 to 3600 are possible"),
        };
        range("seconds", self.seconds)?;
        range("disk-seconds", self.disk_seconds)?;
        once("--filesystems", &self.filesystems)
    }
}

/// A file system of the live study.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filesystem {
    /// ext4
    Ext4,
    /// XFS
    Xfs,
}

impl Filesystem {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }
}

impl From<Filesystem> for layout::Filesystem {
    fn from(filesystem: Filesystem) -> Self {
        match filesystem {
            Filesystem::Ext4 => Self::Ext4,
            Filesystem::Xfs => Self::Xfs,
        }
    }
}

/// Options of `tranche study filesystem`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// In virtual time, as this study is by itself: every study that can be so takes it
    #[arg(long)]
    pub sim: bool,
    /// Run the real fio on ext4 and XFS over scaled drives in slow motion. Needs root, FUSE, loop devices and fio. Without it the study is in virtual
    /// time
    #[arg(long, conflicts_with_all = ["sim", "full"])]
    pub live: bool,
    /// What the live study does.
    #[command(flatten)]
    pub real: Live,
    /// The NVMe drive: a profile or a TOML file
    #[arg(long, default_value = "xs1715-400g", value_name = "NAME|FILE")]
    pub nvme: String,
    /// The SAS SSD, likewise
    #[arg(long, default_value = "px02sm-400g", value_name = "NAME|FILE")]
    pub sas: String,
    /// The hard disk, likewise
    #[arg(long, default_value = "savvio-15k3-300g", value_name = "NAME|FILE")]
    pub disk: String,
    /// Whole SSDs instead of shortened ones: as much memory and time as their size takes
    #[arg(long)]
    pub full: bool,
    /// What the host takes for a request.
    #[command(flatten)]
    pub path: HostPath,
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

impl DefaultDirectory for Options {
    const DIRECTORY: &'static str = "out/filesystem";
}

impl Default for Options {
    fn default() -> Self {
        defaults()
    }
}
