//! Options of the study.

use anyhow::Result;
use clap::{Args, ValueEnum, value_parser};
use live::Config;
use load_formats::act::HostTime;

use super::{
    act_drive, published,
    trial::{Length, Plan},
};
use lab_engines::sweep::SetOptions;
use lab_report::{
    options::{DefaultDirectory, ResultsDirectory, defaults},
    results::seed_of,
};

/// Options of `tranche study namespaces`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The drive in this process under the wall's clock, in slow motion, beside the same in virtual time
    #[arg(long, conflicts_with_all = ["sim", "set"])]
    pub live: bool,
    /// In virtual time; so it is, too, if neither is given
    #[arg(long)]
    pub sim: bool,
    /// Live: a second of the drive takes so many on the clock on the wall, so that what the machine adds to a command weighs as much less
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = value_parser!(u32).range(1..=1000))]
    pub slow_motion: u32,
    /// Numbers of namespaces [default: 1,2,4,8,16,32, as far as there are so many; live: 1,8]
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    pub counts: Vec<u32>,
    /// Cut the drive into so many namespaces, write all of them, and use the first of them: as published with 8. Otherwise the
    /// drive is cut into as many as are used
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=COUNT_MAX as i64))]
    pub of: Option<u32>,
    /// The drive: a profile or a TOML file; its first namespace says how much is cut into equal ones
    #[arg(long, alias = "profile", default_value = DEFAULT_PROFILE, value_name = "NAME|FILE")]
    pub drive: String,
    /// How long a load must pass, after half of that which is not measured; the real test takes 24 hours [default: 10s; live: 1s]
    #[arg(long, value_name = "TIME", value_parser = window)]
    pub window: Option<u32>,
    /// What the application's machine takes for its threads: `linux` (measured: docs/studies/namespaces.md), or `none`, so that the drive
    /// alone limits them
    #[arg(long, value_enum, default_value_t = HostTimes::Linux, value_name = "TIMES")]
    pub host_time: HostTimes,
    /// Repetitions, with other random numbers
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = value_parser!(u32).range(1..=100))]
    pub repeat: u32,
    /// Short windows and rough steps: to see that it works, not for figures
    #[arg(long)]
    pub quick: bool,
    /// Where results go.
    #[command(flatten)]
    pub out: ResultsDirectory<Self>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// What is varied.
    #[command(flatten)]
    pub sweep: SetOptions,
}

impl DefaultDirectory for Options {
    const DIRECTORY: &'static str = "out/namespaces";
}

impl Default for Options {
    fn default() -> Self {
        defaults()
    }
}

/// What the application's machine takes.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
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
            seed: seed_of(self.seed, repetition),
        }
    }

    /// How exactly the highest multiple is found: to this share of it, in per cent.
    pub(super) fn step(&self) -> u32 {
        if self.quick { 20 } else { 4 }
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
