//! What is done for NS1.

use std::fmt;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use host::{Host, Transport};
use nvme::{
    Nsid,
    plm::PredictableLatencyConfig,
    quota::{Quota, QuotaKind},
};

use super::{scale::Scale, windows::WindowSchedule};

/// A way to help NS1.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
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

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Variant {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fair => "fair",
            Self::Weights => "weights",
            Self::Quota => "quota",
            Self::Sets => "sets",
            Self::Fdp => "fdp",
            Self::Windows => "windows",
        }
    }

    /// What it is, in a sentence.
    pub fn description(self) -> &'static str {
        match self {
            Self::None => {
                "Both namespaces share everything, and commands are served in the order of their arrival."
            }
            Self::Fair => {
                "The drive shares its time in equal parts when both want it: what it does by itself."
            }
            Self::Weights => "The same with ten times the weight for NS1 (feature D8h).",
            Self::Quota => "NS2 has a quota of bandwidth, read and write (feature D8h).",
            Self::Sets => "Each namespace has an NVM Set of its own, with half of the dies.",
            Self::Fdp => {
                "Flexible Data Placement: each namespace has a reclaim unit handle of its own, persistently isolated."
            }
            Self::Windows => {
                "Predictable Latency Mode: a host gives the set of both a deterministic window, in which no garbage is collected, whenever \
                 it has room for one."
            }
        }
    }

    /// Colour in charts.
    pub fn colour(self) -> &'static str {
        match self {
            Self::None => "#c2410c",
            Self::Fair => "#d97706",
            Self::Weights => "#7c3aed",
            Self::Quota => "#2563eb",
            Self::Sets => "#059669",
            Self::Fdp => "#db2777",
            Self::Windows => "#0891b2",
        }
    }

    /// The drive's TOML for it: that of the profile without namespaces, with more where the variant wants it.
    pub(super) fn drive(self, profile: &toml::Table, scale: &Scale) -> Result<toml::Table> {
        let mut table = profile.clone();
        table.remove("namespace");
        let drive = table.entry("drive").or_insert_with(|| toml::Table::new().into());
        let fair = matches!(self, Self::Fair | Self::Weights);
        drive.as_table_mut().context("[drive] is no table")?.insert("fair_sharing".into(), fair.into());
        let sets =
            table.get_mut("set").and_then(toml::Value::as_array_mut).context("a drive without sets")?;
        let first = sets.first_mut().and_then(toml::Value::as_table_mut).context("a drive without sets")?;
        match self {
            Self::None | Self::Fair | Self::Weights | Self::Quota => {}
            Self::Sets => {
                halve(first)?;
                let half = toml::Value::Table(first.clone());
                sets.insert(1, half);
            }
            Self::Fdp => {
                let placement = toml::toml! {
                    handles = 2
                    isolation = "persistent"
                    fdp = true
                };
                first.insert("placement".into(), placement.into());
            }
            Self::Windows => {
                let mut window = toml::Table::new();
                window.insert("superblocks".into(), scale.ahead.into());
                window.insert("time".into(), "10s".into());
                first.insert("window".into(), window.into());
            }
        }
        Ok(table)
    }

    /// What a host does while the loads run, if it does anything.
    pub(super) fn schedule(self, scale: &Scale) -> Option<WindowSchedule> {
        (self == Self::Windows).then(|| WindowSchedule::new(self.sets()[0], scale.window))
    }

    /// The NVM Sets of NS1 and NS2.
    pub fn sets(self) -> [u16; 2] {
        if self == Self::Sets { [1, 2] } else { [1, 1] }
    }

    /// The reclaim unit handles of NS1 and NS2.
    pub fn handles(self) -> [Option<u16>; 2] {
        if self == Self::Fdp { [Some(0), Some(1)] } else { [None; 2] }
    }

    /// Tells the drive.
    ///
    /// # Errors
    /// The drive refuses: then the variant is not available.
    pub(super) fn apply<T: Transport>(
        self,
        host: &mut Host<T>,
        nsids: [Nsid; 2],
        scale: &Scale,
    ) -> Result<(), host::Error> {
        let [_, second] = nsids;
        match self {
            Self::None | Self::Fair | Self::Sets | Self::Fdp => Ok(()),
            Self::Windows => {
                host.set_predictable_latency(self.sets()[0], true, &PredictableLatencyConfig::default(), true)
            }
            Self::Weights => {
                for (nsid, weight) in nsids.into_iter().zip([1000, 100]) {
                    let quota = Quota { weight: weight.into(), ..Quota::unlimited() };
                    set_quota(host, nsid, &quota)?;
                }
                Ok(())
            }
            Self::Quota => {
                let mut quota = Quota::unlimited();
                quota.set_limit(QuotaKind::ReadBandwidth, Some(scale.limit[0]));
                quota.set_limit(QuotaKind::WriteBandwidth, Some(scale.limit[1]));
                set_quota(host, second, &quota)
            }
        }
    }
}

/// Sets a namespace's quota for good.
///
/// # Errors
/// The drive refuses.
pub(super) fn set_quota<T: Transport>(
    host: &mut Host<T>,
    nsid: Nsid,
    quota: &Quota,
) -> Result<(), host::Error> {
    host.set_quota(nsid, quota, true)
}

/// Gives an NVM Set half of its dies, channels and capacity.
fn halve(set: &mut toml::Table) -> Result<()> {
    for key in ["dies", "channels"] {
        let value = set.get(key).and_then(toml::Value::as_integer).unwrap_or(0);
        if value < 2 || value % 2 != 0 {
            bail!("the drive's first NVM Set has {key} = {value}: it cannot be divided in two");
        }
        set.insert(key.into(), (value / 2).into());
    }
    if let Some(capacity) = set.get("capacity") {
        let bytes = match capacity {
            toml::Value::String(text) => units::parse_size(text).map_err(anyhow::Error::msg)?,
            other => u64::try_from(other.as_integer().unwrap_or(0))?,
        };
        let half = i64::try_from((bytes / 2) >> 20 << 20)?;
        set.insert("capacity".into(), half.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_divided() {
        let text = "[[set]]\ncapacity = \"2GiB\"\ndies = 4\nchannels = 2\n[[namespace]]\nsize = 1\n";
        let profile: toml::Table = toml::from_str(text).unwrap();
        let scale = Scale::lab(true);
        let drive = Variant::Sets.drive(&profile, &scale).unwrap();
        assert!(!drive.contains_key("namespace"));
        let sets = drive["set"].as_array().unwrap();
        assert_eq!(sets.len(), 2);
        for set in sets {
            assert_eq!((set["dies"].as_integer(), set["channels"].as_integer()), (Some(2), Some(1)));
            assert_eq!(set["capacity"].as_integer(), Some(1 << 30));
        }
        let none = Variant::None.drive(&profile, &scale).unwrap();
        assert_eq!((&none["set"], none["drive"]["fair_sharing"].as_bool()), (&profile["set"], Some(false)));
        let odd: toml::Table = toml::from_str("[[set]]\ndies = 3\nchannels = 2\n").unwrap();
        assert!(Variant::Sets.drive(&odd, &scale).unwrap_err().to_string().contains("dies = 3"));
    }
}
