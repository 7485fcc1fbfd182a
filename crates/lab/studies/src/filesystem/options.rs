//! Options of the study.

use std::path::PathBuf;

use anyhow::{Result, bail};

use lab_databases::layout::Filesystem;
use lab_engines::machine::HostPath;
use lab_report::results::Overwrite;

/// Options of the live study.
#[derive(Clone, Debug)]
pub struct Live {
    /// File systems: ext4 and XFS
    pub filesystems: Vec<Filesystem>,
    /// The drives and the files have the published capacity divided by this
    pub scale: u32,
    /// A second of the drives takes so many on the wall's clock
    pub slow_motion: u32,
    /// Measured seconds of a job on an SSD, on the wall's clock
    pub seconds: u32,
    /// Measured seconds of a job on the disk, likewise
    pub disk_seconds: u32,
    /// Where images and mounts are while it runs
    pub scratch: Option<PathBuf>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            filesystems: vec![Filesystem::Ext4, Filesystem::Xfs],
            scale: 256,
            slow_motion: 128,
            seconds: 10,
            disk_seconds: 30,
            scratch: None,
        }
    }
}

impl Live {
    pub(super) fn check(&self) -> Result<()> {
        let range = |name: &str, value: u32, low: u32, high: u32| match (low..=high).contains(&value) {
            true => Ok(()),
            false => lab_report::misuse!("--{name} is {value}: {low} to {high} are possible"),
        };
        range("scale", self.scale, 1, 256)?;
        range("slow-motion", self.slow_motion, 1, 200)?;
        range("seconds", self.seconds, 1, 3600)?;
        range("disk-seconds", self.disk_seconds, 1, 3600)?;
        let mut seen = Vec::new();
        for filesystem in &self.filesystems {
            if !matches!(filesystem, Filesystem::Ext4 | Filesystem::Xfs) {
                bail!("the file systems of the study are ext4 and xfs");
            }
            if seen.contains(filesystem) {
                lab_report::misuse!("--filesystems names one twice");
            }
            seen.push(*filesystem);
        }
        if seen.is_empty() {
            bail!("there is no file system to run on")
        }
        Ok(())
    }
}

/// Options of the study.
#[derive(Clone, Debug)]
pub struct Options {
    /// Run the real fio on real file systems over scaled drives, with these options
    pub live: Option<Live>,
    /// The NVMe drive: a profile or a TOML file
    pub nvme: String,
    /// The SAS SSD, likewise
    pub sas: String,
    /// The hard disk, likewise
    pub disk: String,
    /// Whole SSDs instead of shortened ones: as much memory and time as their size takes
    pub full: bool,
    /// What the host takes for a request
    pub path: HostPath,
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

impl Default for Options {
    fn default() -> Self {
        Self {
            live: None,
            nvme: "xs1715-400g".into(),
            sas: "px02sm-400g".into(),
            disk: "savvio-15k3-300g".into(),
            full: false,
            path: HostPath::PUBLISHED,
            repeat: 1,
            quick: false,
            out: "out/filesystem".into(),
            overwrite: Overwrite::default(),
            seed: 1,
        }
    }
}
