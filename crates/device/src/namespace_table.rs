//! The tables `[[namespace]]` of a drive's TOML.

use crate::config::{Attach, GRANULE_BYTES, InitialNamespace, offered_bytes};
use crate::lba_format::LbaFormat;
use crate::quantity::{Rate, Size, Time};
use crate::quota::limits::Limits;
use ftl::SetConfig;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamespaceTable {
    set: Option<u16>,
    size: NamespaceSize,
    lba: Option<LbaFormat>,
    #[serde(default)]
    pi: u8,
    #[serde(default = "attach_all")]
    attach: Attach,
    read: Option<Rate>,
    write: Option<Rate>,
    read_iops: Option<u64>,
    write_iops: Option<u64>,
    burst: Option<Time>,
    weight: Option<u16>,
}

/// Size of a namespace.
enum NamespaceSize {
    Bytes(Size),
    /// All that the other namespaces of its NVM Set leave.
    Rest,
}

impl<'de> Deserialize<'de> for NamespaceSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) if text == "rest" => Ok(Self::Rest),
            other => {
                let wrong =
                    |e: toml::de::Error| D::Error::custom(format_args!("{}, or \"rest\"", e.message()));
                other.try_into().map(Self::Bytes).map_err(wrong)
            }
        }
    }
}

/// What each NVM Set has left beside the namespaces of known size; nothing once a namespace has taken the rest.
fn rests(sets: &[SetConfig], namespaces: &[NamespaceTable], default_set: u16) -> Vec<Option<u64>> {
    let mut left: Vec<u64> = sets.iter().map(offered_bytes).collect();
    for namespace in namespaces {
        let set = usize::from(namespace.set.unwrap_or(default_set)).wrapping_sub(1);
        if let (Some(left), NamespaceSize::Bytes(size)) = (left.get_mut(set), &namespace.size) {
            *left = left.saturating_sub(size.0.div_ceil(GRANULE_BYTES).saturating_mul(GRANULE_BYTES));
        }
    }
    left.into_iter().map(Some).collect()
}

fn attach_all() -> Attach {
    Attach::All
}

/// The drive's first format of the size that was asked for, unless just that one is there.
fn known(asked: LbaFormat, formats: &[LbaFormat]) -> LbaFormat {
    let same_size = |f: &&LbaFormat| (f.data, f.metadata) == (asked.data, asked.metadata);
    match formats.contains(&asked) {
        true => asked,
        false if asked.extension() == 0 => formats.iter().find(same_size).copied().unwrap_or(asked),
        false => asked,
    }
}

/// The namespaces of a drive with these sets and formats.
pub(crate) fn build(
    tables: Vec<NamespaceTable>,
    sets: &[SetConfig],
    default_set: u16,
    formats: &[LbaFormat],
) -> Vec<InitialNamespace> {
    let default_format = formats.first().copied().unwrap_or(LbaFormat::plain(4096));
    let mut rests = rests(sets, &tables, default_set);
    let one = |n: NamespaceTable| InitialNamespace {
        set: n.set.unwrap_or(default_set),
        bytes: match n.size {
            NamespaceSize::Bytes(size) => size.0,
            NamespaceSize::Rest => {
                let set = usize::from(n.set.unwrap_or(default_set)).wrapping_sub(1);
                rests.get_mut(set).and_then(Option::take).unwrap_or(0)
            }
        },
        format: n.lba.map_or(default_format, |lba| known(lba, formats)),
        protection: n.pi,
        attach: n.attach,
        limits: Limits {
            read_bandwidth: n.read.map(|rate| rate.0),
            write_bandwidth: n.write.map(|rate| rate.0),
            read_commands: n.read_iops,
            write_commands: n.write_iops,
            // A burst of 0, or of a fraction of a microsecond, is as wrong as one that is too long.
            burst_us: n.burst.map_or(0, |time| match (time.0.0 / 1000, time.0.0 % 1000) {
                (us @ 1.., 0) => u32::try_from(us).unwrap_or(u32::MAX),
                _ => u32::MAX,
            }),
            weight: n.weight.map_or(0, |weight| if weight == 0 { u16::MAX } else { weight }),
        },
    };
    tables.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::drive_toml::DEFAULT_DRIVE;

    #[test]
    fn a_namespace_has_a_quota() {
        for (quota, rule) in [
            ("weight = 1001", "namespace.1.weight is out of range: 1 to 1,000"),
            ("burst = \"1500ns\"", "namespace.1.burst is out of range: whole microseconds, from 1us to 10s"),
            ("read = 0", "namespace.1.read is 0: 4096B/s to 1TB/s; leave it out for no limit"),
            (
                "write_iops = 0",
                "namespace.1.write_iops is 0: 1 to 1,000,000,000 commands per second; leave it out for no limit",
            ),
        ] {
            let text = DEFAULT_DRIVE.replace("size = \"1GiB\"", &format!("size = \"1GiB\"\n{quota}"));
            assert_eq!(Config::from_toml(&text).unwrap_err().to_string(), rule);
        }
        let quota = "read = \"391MB/s\"\nwrite_iops = 5000\nburst = \"2ms\"\nweight = 300";
        let text = DEFAULT_DRIVE.replace("size = \"1GiB\"", &format!("size = \"1GiB\"\n{quota}"));
        let given = Config::from_toml(&text).unwrap().namespaces[0].limits;
        let limits = Limits {
            read_bandwidth: Some(391_000_000),
            write_commands: Some(5000),
            burst_us: 2000,
            weight: 300,
            ..Limits::default()
        };
        assert_eq!(given, limits);
    }

    #[test]
    fn a_namespace_takes_the_rest() {
        let sizes = |size: &str, more: &str| {
            let text = DEFAULT_DRIVE.replace("size = \"1GiB\"", &format!("size = \"{size}\""));
            Config::from_toml(&format!("{text}\n{more}"))
                .map(|c| c.namespaces.iter().map(|n| n.bytes >> 20).collect::<Vec<_>>())
                .map_err(|e| e.to_string())
        };
        assert_eq!(sizes("rest", ""), Ok(vec![2048]));
        assert_eq!(sizes("rest", "[[namespace]]\nset = 1\nsize = \"512MiB\"\n"), Ok(vec![1536, 512]));
        assert_eq!(sizes("rest", "[[namespace]]\nset = 2\nsize = \"rest\"\n"), Ok(vec![2048, 64]));
        for (size, more) in [
            ("rest", "[[namespace]]\nset = 1\nsize = \"rest\"\n"),
            ("2GiB", "[[namespace]]\nset = 1\nsize = \"rest\"\n"),
        ] {
            let error = sizes(size, more).unwrap_err();
            assert!(error.starts_with("namespace.2.size is 0"), "{error}");
        }
        let error = sizes("all", "").unwrap_err();
        assert!(error.contains("size = \"all\"") && error.contains("or \"rest\""), "{error}");
    }
}
