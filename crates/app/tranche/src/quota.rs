//! `tranche quota`: what namespaces may use (vendor specific feature D8h, docs/vendor.md).

use crate::connect::{Connected, connect};
use crate::options::{Output, Target};
use crate::refusal::about;
use crate::table::table;
use crate::{print_json, print_text};
use anyhow::Result;
use clap::{Args, Subcommand};
use nvme::feature::Select;
use nvme::quota::{Quota as Values, QuotaKind};
use schemars::JsonSchema;
use serde::Serialize;

/// `tranche quota`.
#[derive(Subcommand, Debug)]
pub enum Quota {
    /// Show the quota of a namespace: what is in force, and what is saved
    Get {
        /// Namespace identifier
        nsid: u32,
        #[command(flatten)]
        target: Target,
    },
    /// Change the quota of a namespace, at once; what is not given stays as it is
    Set(Box<Set>),
    /// Take all limits of a namespace away, and give it the weight and burst that every namespace has at first
    Clear {
        /// Namespace identifier
        nsid: u32,
        /// Keep it so through power cycles
        #[arg(long)]
        save: bool,
        #[command(flatten)]
        target: Target,
    },
}

/// `tranche quota set`.
#[derive(Args, Debug)]
pub struct Set {
    /// Namespace identifier
    pub nsid: u32,
    #[command(flatten)]
    pub change: Change,
    /// Keep it through power cycles; until the next one without
    #[arg(long)]
    pub save: bool,
    #[command(flatten)]
    pub target: Target,
}

/// What is to be different.
#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
pub struct Change {
    /// Bandwidth of reads at most, such as 391MB/s; none or 0: no limit
    #[arg(long, value_name = "RATE", value_parser = bandwidth)]
    pub read: Option<Limit>,
    /// Bandwidth of writes at most; none or 0: no limit
    #[arg(long, value_name = "RATE", value_parser = bandwidth)]
    pub write: Option<Limit>,
    /// Commands per second that read at most; none or 0: no limit
    #[arg(long, value_name = "N", value_parser = commands)]
    pub read_iops: Option<Limit>,
    /// Commands per second that write at most; none or 0: no limit
    #[arg(long, value_name = "N", value_parser = commands)]
    pub write_iops: Option<Limit>,
    /// What may come at once after a pause, as the time in which the limits give it: 1us to 10s
    #[arg(long, value_name = "TIME", value_parser = burst)]
    pub burst: Option<u32>,
    /// Share of the NVM Set beside other namespaces that want it, too: 1 to 1000; every namespace has 100 at first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(Values::MAX_WEIGHT)))]
    pub weight: Option<u16>,
}

/// What stands for no limit.
const NO_LIMIT: [&str; 2] = ["none", "0"];

/// A limit, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit(Option<u64>);

fn bandwidth(text: &str) -> Result<Limit, String> {
    let range = Values::MIN_BANDWIDTH..=Values::MAX_BANDWIDTH;
    if NO_LIMIT.contains(&text) {
        return Ok(Limit(None));
    }
    let rate =
        units::parse_rate(text).map_err(|wrong| format!("{wrong} (none or 0 takes the limit away)"))?;
    if !range.contains(&rate) {
        return Err("a bandwidth is 4096B/s to 1TB/s, or none".to_owned());
    }
    Ok(Limit(Some(rate)))
}

fn commands(text: &str) -> Result<Limit, String> {
    match text.parse() {
        _ if NO_LIMIT.contains(&text) => Ok(Limit(None)),
        Ok(rate) if (1..=Values::MAX_COMMANDS).contains(&rate) => Ok(Limit(Some(rate))),
        _ => Err("commands per second are 1 to 1000000000, or none".to_owned()),
    }
}

fn burst(text: &str) -> Result<u32, String> {
    let time = units::parse_time(text).map_err(|wrong| wrong.to_string())?;
    let us = Some(time / 1000).filter(|_| time.is_multiple_of(1000)).and_then(|us| u32::try_from(us).ok());
    us.filter(|us| (1..=Values::MAX_BURST_US).contains(us))
        .ok_or_else(|| "a burst is 1us to 10s in whole microseconds, such as 500us or 2ms".to_owned())
}

impl Change {
    fn apply(&self, values: &mut Values) {
        for (kind, limit) in [
            (QuotaKind::ReadBandwidth, self.read),
            (QuotaKind::WriteBandwidth, self.write),
            (QuotaKind::ReadCommands, self.read_iops),
            (QuotaKind::WriteCommands, self.write_iops),
        ] {
            if let Some(Limit(limit)) = limit {
                values.set_limit(kind, limit);
            }
        }
        if let Some(burst) = self.burst {
            values.burst_us.set(burst);
        }
        if let Some(weight) = self.weight {
            values.weight.set(weight);
        }
    }
}

/// `tranche quota`.
pub fn quota(command: &Quota, output: Output) -> Result<()> {
    let (nsid, target) = match command {
        Quota::Get { nsid, target } | Quota::Clear { nsid, target, .. } => (*nsid, target),
        Quota::Set(set) => (set.nsid, &set.target),
    };
    let mut host = connect(target)?;
    let current = host.quota(nsid, Select::CURRENT);
    let mut values = about(&mut host, nsid, current)?;
    let save = match command {
        Quota::Get { .. } => return show(&mut host, nsid, output),
        Quota::Set(set) => {
            set.change.apply(&mut values);
            set.save
        }
        Quota::Clear { save, .. } => {
            values = Values::unlimited();
            *save
        }
    };
    host.set_quota(nsid, &values, save)?;
    show(&mut host, nsid, output)
}

fn show(host: &mut Connected, nsid: u32, output: Output) -> Result<()> {
    let current = host.quota(nsid, Select::CURRENT)?;
    let saved = host.quota(nsid, Select::SAVED)?;
    if output == Output::Json {
        return print_json(&QuotaOf { current: (&current).into(), nsid, saved: (&saved).into() });
    }
    let heads = ["", "Read", "Write", "Read IOPS", "Write IOPS", "Burst", "Weight"];
    print_text(&table(&heads, &[row("in force", &current), row("saved", &saved)]))
}

/// The quota of a namespace.
#[derive(Serialize, JsonSchema)]
pub struct QuotaOf {
    /// What is in force.
    current: Limits,
    /// Namespace identifier.
    nsid: u32,
    /// What is in force after a power cycle.
    saved: Limits,
}

/// What a namespace may use.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Quota")]
struct Limits {
    /// What may come at once after a pause.
    #[schemars(extend("unit" = "us"))]
    burst_us: u32,
    /// Bandwidth of reads.
    #[schemars(extend("unit" = "bytes/s", "null" = "no limit"))]
    read: Option<u64>,
    /// Commands that read.
    #[schemars(extend("unit" = "1/s", "null" = "no limit"))]
    read_iops: Option<u64>,
    /// Share of the NVM Set.
    weight: u16,
    /// Bandwidth of writes.
    #[schemars(extend("unit" = "bytes/s", "null" = "no limit"))]
    write: Option<u64>,
    /// Commands that write.
    #[schemars(extend("unit" = "1/s", "null" = "no limit"))]
    write_iops: Option<u64>,
}

impl From<&Values> for Limits {
    fn from(values: &Values) -> Self {
        let [read, write, read_iops, write_iops] = QuotaKind::ALL.map(|kind| values.limit(kind));
        let (burst_us, weight) = (values.effective_burst_us(), values.effective_weight());
        Self { burst_us, read, read_iops, weight, write, write_iops }
    }
}

fn row(name: &str, values: &Values) -> [String; 7] {
    let none = || "none".to_owned();
    let rate = |kind| values.limit(kind).map_or_else(none, format_rate);
    let count = |kind| values.limit(kind).map_or_else(none, |limit: u64| limit.to_string());
    [
        name.to_owned(),
        rate(QuotaKind::ReadBandwidth),
        rate(QuotaKind::WriteBandwidth),
        count(QuotaKind::ReadCommands),
        count(QuotaKind::WriteCommands),
        format!("{}us", values.effective_burst_us()),
        values.effective_weight().to_string(),
    ]
}

/// A rate as [`bandwidth`] reads it, in the largest SI unit that divides it.
fn format_rate(rate: u64) -> String {
    for (name, factor) in [("GB/s", 1_000_000_000), ("MB/s", 1_000_000), ("kB/s", 1000)] {
        if rate.is_multiple_of(factor) {
            return format!("{}{name}", rate / factor);
        }
    }
    format!("{rate}B/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_written() {
        for text in ["391MB/s", "4096B/s", "7kB/s", "1GB/s"] {
            assert_eq!(bandwidth(text).map(|l| l.0.map(format_rate)), Ok(Some(text.to_owned())));
        }
        for text in ["0B/s", "391", "4095B/s", "2TB/s", "-1MB/s", "None"] {
            assert!(bandwidth(text).is_err(), "{text}");
        }
        for none in NO_LIMIT {
            assert_eq!((bandwidth(none), commands(none)), (Ok(Limit(None)), Ok(Limit(None))));
        }
        assert!(commands("1000000001").is_err() && commands("5k").is_err());
        assert_eq!((burst("2ms"), burst("10s")), (Ok(2000), Ok(10_000_000)));
        assert!(burst("0us").is_err() && burst("1500ns").is_err() && burst("11s").is_err());
    }

    #[test]
    fn what_is_not_given_stays() {
        let mut values = Values::unlimited();
        values.set_limit(QuotaKind::ReadBandwidth, Some(5000));
        values.set_limit(QuotaKind::WriteCommands, Some(7));
        let change = Change {
            read: Some(Limit(None)),
            write: None,
            read_iops: Some(Limit(Some(3))),
            write_iops: None,
            burst: None,
            weight: Some(5),
        };
        change.apply(&mut values);
        assert_eq!(QuotaKind::ALL.map(|kind| values.limit(kind)), [None, None, Some(3), Some(7)]);
        assert_eq!((values.effective_weight(), values.effective_burst_us()), (5, 1000));
        assert_eq!(values.check(), Ok(()));
    }
}
