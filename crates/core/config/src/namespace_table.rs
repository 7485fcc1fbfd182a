//! The tables `[[namespace]]` of a drive's TOML.

use crate::config::{Attach, GRANULE_BYTES, InitialNamespace, offered_bytes};
use crate::lba_format::LbaFormat;
use crate::limits::Limits;
use crate::quantity::{BandwidthLimit, CommandLimit, Size, Time};
use ftl::{SetConfig, ZoneLayout, ZoneSupport, ZrwaLayout};
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
    read: Option<BandwidthLimit>,
    write: Option<BandwidthLimit>,
    read_iops: Option<CommandLimit>,
    write_iops: Option<CommandLimit>,
    burst: Option<Time>,
    weight: Option<u16>,
    #[serde(default)]
    zoned: bool,
    max_active: Option<u32>,
    max_open: Option<u32>,
    zrwa: Option<u32>,
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

impl NamespaceTable {
    /// Its NVM Set, from 1.
    fn set(&self, default_set: u16) -> u16 {
        self.set.unwrap_or(default_set)
    }

    /// Its zones in this set, as many as `bytes` have. `active` zones are its share where it does not say.
    fn zones(&self, set: &SetConfig, bytes: u64, active: u32) -> Option<ZoneLayout> {
        // A set without zones is told of later, by what it lacks.
        let support = set.zone_support();
        let (capacity, size) = support.map_or((0, 1), |support| (support.capacity, support.size));
        let none = ZrwaLayout { pages: 0, granularity: 0, max: 0 };
        let area = support.and_then(|support| support.zrwa).unwrap_or(none);
        let max_active = self.max_active.unwrap_or(active);
        self.zoned.then(|| ZoneLayout {
            zones: u32::try_from(bytes / size).unwrap_or(u32::MAX),
            size,
            capacity,
            max_active,
            max_open: self.max_open.unwrap_or(max_active),
            zrwa: self.zrwa.filter(|areas| *areas > 0).map(|max| ZrwaLayout { max, ..area }),
        })
    }
}

/// What an NVM Set has for its namespaces.
struct Left {
    /// Bytes beside the namespaces of known size; `None` once a namespace has taken the rest.
    bytes: Option<u64>,
    /// Active zones for those zoned namespaces that do not say how many, and how many namespaces these are.
    active: u32,
    sharers: u32,
}

/// What each NVM Set has left.
fn left(sets: &[SetConfig], tables: &[NamespaceTable], default_set: u16) -> Vec<Left> {
    let one = |(number, set): (u16, &SetConfig)| {
        let own = || tables.iter().filter(|table| table.set(default_set) == number);
        let known = |table: &NamespaceTable| match table.size {
            NamespaceSize::Bytes(size) => table.zones(set, size.0, 0).map_or_else(
                || size.0.div_ceil(GRANULE_BYTES).saturating_mul(GRANULE_BYTES),
                |zones| zones.capacity.next_multiple_of(GRANULE_BYTES).saturating_mul(zones.zones.into()),
            ),
            NamespaceSize::Rest => 0,
        };
        let taken = own().map(known).fold(0, u64::saturating_add);
        let active = set.zone_support().map_or(0, |support| support.active);
        let said = own().filter(|table| table.zoned).filter_map(|table| table.max_active);
        let sharers = own().filter(|table| table.zoned && table.max_active.is_none()).count();
        Left {
            bytes: Some(offered_bytes(set).saturating_sub(taken)),
            active: said.fold(active, u32::saturating_sub),
            sharers: u32::try_from(sharers).unwrap_or(u32::MAX),
        }
    };
    (1..).zip(sets).map(one).collect()
}

impl Left {
    /// The rest of the set for a namespace with or without zones; 0 if another has taken it.
    fn rest(&mut self, set: &SetConfig, zoned: bool) -> u64 {
        let bytes = self.bytes.take().unwrap_or(0);
        match set.zone_support().filter(|_| zoned) {
            None => bytes,
            Some(ZoneSupport { capacity, size, .. }) => {
                bytes / capacity.next_multiple_of(GRANULE_BYTES) * size
            }
        }
    }

    /// The active zones of the next namespace that does not say how many it may have.
    fn share(&mut self) -> u32 {
        let share = self.active.div_ceil(self.sharers.max(1));
        self.active -= share;
        self.sharers = self.sharers.saturating_sub(1);
        share
    }
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
    let mut left = left(sets, &tables, default_set);
    let mut one = |n: NamespaceTable| {
        let number = n.set(default_set);
        let index = usize::from(number).wrapping_sub(1);
        // A set that is not there is told of later.
        let set = sets.get(index).zip(left.get_mut(index));
        let (bytes, zones) = match (&n.size, set) {
            (NamespaceSize::Rest, None) => (0, None),
            (NamespaceSize::Bytes(size), None) => (size.0, None),
            (size, Some((set, left))) => {
                let bytes = match size {
                    NamespaceSize::Bytes(size) => size.0,
                    NamespaceSize::Rest => left.rest(set, n.zoned),
                };
                let share = if n.zoned && n.max_active.is_none() { left.share() } else { 0 };
                (bytes, n.zones(set, bytes, share))
            }
        };
        InitialNamespace {
            set: number,
            bytes,
            zones,
            format: n.lba.map_or(default_format, |lba| known(lba, formats)),
            protection: n.pi,
            attach: n.attach,
            limits: Limits {
                read_bandwidth: n.read.map(|rate| rate.0).filter(|rate| *rate > 0),
                write_bandwidth: n.write.map(|rate| rate.0).filter(|rate| *rate > 0),
                read_commands: n.read_iops.map(|rate| rate.0).filter(|rate| *rate > 0),
                write_commands: n.write_iops.map(|rate| rate.0).filter(|rate| *rate > 0),
                // A burst of 0, or of a fraction of a microsecond, is as wrong as one that is too long.
                burst_us: n.burst.map_or(0, |time| match (time.0.0 / 1000, time.0.0 % 1000) {
                    (us @ 1.., 0) => u32::try_from(us).unwrap_or(u32::MAX),
                    _ => u32::MAX,
                }),
                weight: n.weight.map_or(0, |weight| if weight == 0 { u16::MAX } else { weight }),
            },
        }
    };
    tables.into_iter().map(&mut one).collect()
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
            ("read = \"4kB/s\"", "namespace.1.read is 4000: 4096B/s to 1TB/s, or none"),
            (
                "write_iops = 2_000_000_000",
                "namespace.1.write_iops is 2000000000: 1 to 1,000,000,000 commands per second, or none",
            ),
        ] {
            let text = DEFAULT_DRIVE.replace("size = \"1GiB\"", &format!("size = \"1GiB\"\n{quota}"));
            assert_eq!(Config::from_toml(&text).unwrap_err().to_string(), rule);
        }
        for none in ["0", "\"none\""] {
            let quota =
                ["read", "write", "read_iops", "write_iops"].map(|key| format!("{key} = {none}\n")).concat();
            let text = DEFAULT_DRIVE.replace("size = \"1GiB\"", &format!("size = \"1GiB\"\n{quota}"));
            assert_eq!(Config::from_toml(&text).unwrap().namespaces[0].limits, Limits::default());
        }
        let text = DEFAULT_DRIVE.replace("size = \"1GiB\"", "size = \"1GiB\"\nread_iops = \"5k\"");
        let wrong = Config::from_toml(&text).unwrap_err().to_string();
        assert!(wrong.contains("\"5k\" is no number of commands per second"), "{wrong}");
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

    /// A drive with zones of 1.5 MiB, 2 MiB apart, and these namespaces.
    fn zoned(set: &str, namespaces: &str) -> Result<Vec<InitialNamespace>, String> {
        let text = format!(
            "[drive]\nwrite_buffer = \"1MiB\"\n[[set]]\nmedia = \"nand\"\ncell = \"tlc\"\ncapacity = \"64MiB\"\nspare = \"60%\"\n\
             channels = 2\ndies = 4\nplanes = 2\nnand_page = \"4KiB\"\npages_per_block = 48\nrated_cycles = 3000\n{set}\n{namespaces}"
        );
        Config::from_toml(&text).map(|config| config.namespaces).map_err(|error| error.to_string())
    }

    #[test]
    fn namespaces_have_zones() {
        let (mib, zones) = (1 << 20, "zone = {}");
        let one = |lines: &str| format!("[[namespace]]\nzoned = true\n{lines}\n");
        let made = zoned(zones, &one("size = \"16MiB\"\nmax_active = 5\nmax_open = 3")).unwrap();
        let layout = ZoneLayout {
            zones: 8,
            size: 2 * mib,
            capacity: 3 * mib / 2,
            max_active: 5,
            max_open: 3,
            zrwa: None,
        };
        assert_eq!((made[0].zones, made[0].bytes, made[0].needed()), (Some(layout), 16 * mib, 16 * mib));
        // A zone of 1.5 MiB takes 2 MiB of the capacity. What the others leave is for the one that takes the rest.
        let rest = one("size = \"rest\"")
            + "[[namespace]]\nsize = \"5MiB\"\n"
            + &one("size = \"4MiB\"\nmax_active = 1");
        let made = zoned(zones, &rest).unwrap();
        let of = |n: usize| made[n].zones.map(|zones| (zones.zones, zones.max_active, zones.max_open));
        assert_eq!((of(0), of(1), of(2)), (Some((27, 13, 13)), None, Some((2, 1, 1))));
        let three = one("size = \"4MiB\"").repeat(3);
        let shares = zoned(zones, &three).unwrap();
        assert_eq!(
            shares.iter().filter_map(|n| n.zones).map(|z| z.max_active).collect::<Vec<_>>(),
            [5, 5, 4]
        );
        for (set, lines, said) in [
            (
                "",
                "size = \"4MiB\"",
                "namespace.1.zoned is true: NVM Set 1 has no zones: give its [[set]] zone = {}",
            ),
            (
                zones,
                "size = \"3MiB\"",
                "namespace.1.size is 3MiB: a whole number of zones, which have 2MiB each on NVM Set 1",
            ),
            (zones, "size = \"4MiB\"\nlba = 512", "namespace.1.lba is 512: blocks of zones have 4096 bytes"),
            (
                zones,
                "size = \"4MiB\"\nmax_active = 15",
                "namespace.1.max_active is 15: 1 to 14 zones, as many as NVM Set 1 can have active",
            ),
            (
                zones,
                "size = \"4MiB\"\nmax_active = 2\nmax_open = 3",
                "namespace.1.max_open is 3: 1 to max_active = 2",
            ),
            (
                zones,
                "size = \"66MiB\"",
                "namespace.1.size is 66MiB: NVM Set 1 has 64MiB left, given in steps of 1MiB",
            ),
        ] {
            assert_eq!(zoned(set, &one(lines)), Err(said.to_owned()));
        }
        let both = one("size = \"4MiB\"\nmax_active = 9").repeat(2);
        let said =
            "namespace.2.max_active is 9: NVM Set 1 can have 14 zones active, for all of its namespaces";
        assert_eq!(zoned(zones, &both), Err(said.to_owned()));
    }
}
