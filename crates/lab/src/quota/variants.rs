//! What is done for NS1.

use std::fmt;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use host::{Data, Host, Transport};
use nvme::{Nsid, feature::FeatureId, quota::Quota, quota::QuotaKind, zerocopy::IntoBytes};

use super::scale::Scale;

/// A way to help NS1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Variant {
    /// Nothing: whoever comes first is served first.
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
        }
    }

    /// What it is, in a sentence.
    pub fn description(self) -> &'static str {
        match self {
            Self::None => "Both namespaces share everything, and whoever comes first is served first.",
            Self::Fair => {
                "The drive shares its time in equal parts when both want it: what it does by itself."
            }
            Self::Weights => "The same with ten times the weight for NS1 (feature D8h).",
            Self::Quota => "NS2 has a quota of bandwidth, read and write (feature D8h).",
            Self::Sets => "Each namespace has an NVM Set of its own, with half of the dies.",
            Self::Fdp => {
                "Flexible Data Placement: each namespace has a reclaim unit handle of its own, persistently isolated."
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
        }
    }

    /// The drive's TOML for it: that of the profile without namespaces, with more where the variant wants it.
    pub fn drive(self, profile: &toml::Table) -> Result<toml::Table> {
        let mut table = profile.clone();
        table.remove("namespace");
        let drive = table.entry("drive").or_insert_with(|| toml::Table::new().into());
        let fair = matches!(self, Self::Fair | Self::Weights);
        drive.as_table_mut().context("[drive] is no table")?.insert("fair_sharing".into(), fair.into());
        if self == Self::Sets {
            let sets =
                table.get_mut("set").and_then(toml::Value::as_array_mut).context("a drive without sets")?;
            let first =
                sets.first_mut().and_then(toml::Value::as_table_mut).context("a drive without sets")?;
            halve(first)?;
            let half = toml::Value::Table(first.clone());
            sets.insert(1, half);
        }
        if self == Self::Fdp {
            let first =
                table.get_mut("set").and_then(toml::Value::as_array_mut).and_then(|sets| sets.first_mut());
            let placement = toml::toml! {
                handles = 2
                isolation = "persistent"
                fdp = true
            };
            let first = first.and_then(toml::Value::as_table_mut).context("a drive without sets")?;
            first.insert("placement".into(), placement.into());
        }
        Ok(table)
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

    /// Takes back what [`apply`](Self::apply) did, where variants take turns on one drive.
    ///
    /// # Errors
    /// The drive refuses.
    pub fn withdraw<T: Transport>(self, host: &mut Host<T>, nsids: [Nsid; 2]) -> Result<(), host::Error> {
        if matches!(self, Self::Quota | Self::Weights) {
            for nsid in nsids {
                set_quota(host, nsid, &Quota::unlimited())?;
            }
        }
        Ok(())
    }

    /// The first variant whose drive it can use, taking turns.
    pub fn family(self) -> Self {
        match self {
            Self::None | Self::Quota => Self::None,
            Self::Fair | Self::Weights => Self::Fair,
            Self::Sets | Self::Fdp => self,
        }
    }
}

/// Sets a namespace's quota until the next power cycle.
///
/// # Errors
/// The drive refuses.
pub(super) fn set_quota<T: Transport>(
    host: &mut Host<T>,
    nsid: Nsid,
    quota: &Quota,
) -> Result<(), host::Error> {
    let data = Data::Out(quota.as_bytes().to_vec());
    host.set_feature(FeatureId::QUOTA, nsid, 0, data, false).map(drop)
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
            toml::Value::String(text) => crate::units::parse_size(text).map_err(anyhow::Error::msg)?,
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
        let drive = Variant::Sets.drive(&profile).unwrap();
        assert!(!drive.contains_key("namespace"));
        let sets = drive["set"].as_array().unwrap();
        assert_eq!(sets.len(), 2);
        for set in sets {
            assert_eq!((set["dies"].as_integer(), set["channels"].as_integer()), (Some(2), Some(1)));
            assert_eq!(set["capacity"].as_integer(), Some(1 << 30));
        }
        let none = Variant::None.drive(&profile).unwrap();
        assert_eq!((&none["set"], none["drive"]["fair_sharing"].as_bool()), (&profile["set"], Some(false)));
        let odd: toml::Table = toml::from_str("[[set]]\ndies = 3\nchannels = 2\n").unwrap();
        assert!(Variant::Sets.drive(&odd).unwrap_err().to_string().contains("dies = 3"));
    }
}
