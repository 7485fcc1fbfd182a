//! Options of the study.

use std::path::PathBuf;

use anyhow::Result;
use live::Config;
use load_formats::act::HostTime;

use super::{
    act_drive, published,
    trial::{Length, Plan},
};
use lab_engines::sweep::SetOptions;
use lab_report::results::{Overwrite, seed_of};

/// Options of the study.
#[derive(Clone, Debug)]
pub struct Options {
    /// The drive in this process under the wall's clock, in slow motion, beside the same in virtual time
    pub live: bool,
    /// In virtual time; so it is, too, if neither is given
    pub sim: bool,
    /// Live: a second of the drive takes so many on the clock on the wall, so that what the machine adds to a command weighs as much less
    pub slow_motion: u32,
    /// Numbers of namespaces [default: 1,2,4,8,16,32, as far as there are so many; live: 1,8]
    pub counts: Vec<u32>,
    /// Cut the drive into so many namespaces, write all of them, and use the first of them: as published with 8. Otherwise the
    /// drive is cut into as many as are used
    pub of: Option<u32>,
    /// The drive: a profile or a TOML file; its first namespace says how much is cut into equal ones
    pub drive: String,
    /// How long a load must pass, after half of that which is not measured; the real test takes 24 hours [default: 10s; live: 1s]
    pub window: Option<u32>,
    /// What the application's machine takes for its threads: `linux` (measured: docs/studies/namespaces.md), or `none`, so that the drive
    /// alone limits them
    pub host_time: HostTimes,
    /// Repetitions, with other random numbers
    pub repeat: u32,
    /// Short windows and rough steps: to see that it works, not for figures
    pub quick: bool,
    /// Directory for report.html, results.json and results.csv
    pub out: PathBuf,
    /// Whether results that are in `out` may go
    pub overwrite: Overwrite,
    /// Seed of everything random
    pub seed: u64,
    /// What is varied.
    pub sweep: SetOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            live: false,
            sim: false,
            slow_motion: 32,
            counts: Vec::new(),
            of: None,
            drive: DEFAULT_PROFILE.into(),
            window: None,
            host_time: HostTimes::Linux,
            repeat: 1,
            quick: false,
            out: "out/namespaces".into(),
            overwrite: Overwrite::default(),
            seed: 1,
            sweep: SetOptions::default(),
        }
    }
}

/// What the application's machine takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostTimes {
    /// As measured on a Linux machine
    Linux,
    /// No time
    None,
}

impl HostTimes {
    pub(super) fn times(self) -> HostTime {
        match self {
            Self::Linux => HostTime::LINUX,
            Self::None => HostTime::NONE,
        }
    }
}

/// The published drive with short blocks.
pub const DEFAULT_PROFILE: &str = "micron-9300-max-short";

/// Most namespaces of a drive, as published.
pub const COUNT_MAX: u32 = 32;

/// Numbers of namespaces if none are given, in virtual time and live.
const COUNTS: [u32; 6] = [1, 2, 4, 8, 16, 32];
const LIVE_COUNTS: [u32; 2] = [published::PAIR.1, published::PAIR.0];

impl Options {
    pub(super) fn length(&self) -> Length {
        let usual = if self.quick || self.live { 1 } else { 10 };
        let window = self.window.unwrap_or(usual);
        Length { ramp: window.div_ceil(2), window }
    }

    /// Numbers of namespaces.
    pub(super) fn counts(&self) -> &[u32] {
        let usual: &[u32] = if self.live { &LIVE_COUNTS } else { &COUNTS };
        match &self.counts[..] {
            [] => &usual[..usual.partition_point(|&count| count <= self.most())],
            given => given,
        }
    }

    /// Most namespaces that can be used.
    pub(super) fn most(&self) -> u32 {
        self.of.unwrap_or(COUNT_MAX)
    }

    /// A drive for tests on so many namespaces.
    pub(super) fn drive(&self, toml: &toml::Table, count: u32) -> Result<Config> {
        act_drive::cut(toml, self.of.unwrap_or(count))
    }

    /// A number of namespaces, in words.
    pub(super) fn describe(&self, count: u32) -> String {
        match self.of {
            Some(of) => format!("{count} of {of} equal namespaces of 512-byte blocks"),
            None => format!("{count} equal namespaces of 512-byte blocks"),
        }
    }

    /// A test of a repetition.
    pub(super) fn plan(&self, multiple: u32, repetition: u32) -> Plan {
        Plan {
            multiple,
            length: self.length(),
            host_time: self.host_time.times(),
            seed: self.seed(repetition),
        }
    }

    /// The seed of a repetition.
    pub(super) fn seed(&self, repetition: u32) -> u64 {
        seed_of(self.seed, repetition)
    }

    /// How exactly the highest multiple is found: to this share of it, in per cent.
    pub(super) fn step(&self) -> u32 {
        if self.quick { 20 } else { 4 }
    }
}
