//! What a maker says of a drive's speed, and a shorter drive that is as fast.
//!
//! The drive does not look at its data sheet: whoever checks a profile measures against it (`tranche profile check`).

use crate::config::{Config, ConfigError, GRANULE_BYTES};
use crate::quantity::{Rate, Time};
use ftl::PAGE;
use media::Nanos;
use serde::Deserialize;

/// The table `[datasheet]` of a drive's TOML.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DataSheetTable {
    source: String,
    sequential_read: Option<Rate>,
    sequential_write: Option<Rate>,
    random_read_iops: Option<u64>,
    random_write_iops: Option<u64>,
    read_latency: Option<Time>,
    write_latency: Option<Time>,
    #[serde(default = "sequential_depth")]
    sequential_depth: u32,
    #[serde(default = "random_depth")]
    random_depth: u32,
}

fn sequential_depth() -> u32 {
    32
}

fn random_depth() -> u32 {
    256
}

/// A drive's speed as its maker states it. A figure that is not stated is `None`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataSheet {
    /// Where the figures are from.
    pub source: String,
    /// Sequential reads of 128 KiB, in bytes per second.
    pub sequential_read: Option<u64>,
    /// Sequential writes of 128 KiB, in bytes per second.
    pub sequential_write: Option<u64>,
    /// Random reads of 4 KiB, per second.
    pub random_read_iops: Option<u64>,
    /// Random writes of 4 KiB, per second, in the steady state of a drive that has been written at random.
    pub random_write_iops: Option<u64>,
    /// A random read of 4 KiB alone, typically.
    pub read_latency: Option<Nanos>,
    /// A random write of 4 KiB alone, typically.
    pub write_latency: Option<Nanos>,
    /// Commands outstanding at once for the sequential figures: 1 to 1,024.
    pub sequential_depth: u32,
    /// Commands outstanding at once for the random figures: 1 to 1,024.
    pub random_depth: u32,
}

impl DataSheetTable {
    /// The data sheet, if it makes sense.
    pub(crate) fn build(self) -> Result<DataSheet, ConfigError> {
        let wrong = |key: &str, value: String, rule: &str| {
            Err(ConfigError::value(format!("datasheet.{key}"), value, rule))
        };
        if self.source.trim().is_empty() {
            return wrong("source", format!("{:?}", self.source), "where the figures are from");
        }
        let rates = [("sequential_read", self.sequential_read), ("sequential_write", self.sequential_write)];
        let times = [("read_latency", self.read_latency), ("write_latency", self.write_latency)];
        let counts =
            [("random_read_iops", self.random_read_iops), ("random_write_iops", self.random_write_iops)];
        let rates = rates.map(|(key, rate)| (key, rate.map(|rate| rate.0)));
        let times = times.map(|(key, time)| (key, time.map(|time| time.0.0)));
        let figures = [rates, counts, times].concat();
        if let Some((key, _)) = figures.iter().find(|(_, figure)| *figure == Some(0)) {
            return wrong(key, "0".to_owned(), "more than 0; leave out what the maker does not state");
        }
        if figures.iter().all(|(_, figure)| figure.is_none()) {
            let keys: Vec<&str> = figures.iter().map(|(key, _)| *key).collect();
            let rule = format!("at least one of {}", keys.join(", "));
            return Err(ConfigError::value("number of figures in [datasheet]", 0, rule));
        }
        for (key, depth) in [("sequential_depth", self.sequential_depth), ("random_depth", self.random_depth)]
        {
            if !(1..=1024).contains(&depth) {
                return wrong(key, depth.to_string(), "1 to 1,024");
            }
        }
        Ok(DataSheet {
            source: self.source,
            sequential_read: self.sequential_read.map(|rate| rate.0),
            sequential_write: self.sequential_write.map(|rate| rate.0),
            random_read_iops: self.random_read_iops,
            random_write_iops: self.random_write_iops,
            read_latency: self.read_latency.map(|time| time.0),
            write_latency: self.write_latency.map(|time| time.0),
            sequential_depth: self.sequential_depth,
            random_depth: self.random_depth,
        })
    }
}

/// Programs that fill a shortened block at least. With two or three, dies wait where one superblock ends and the next begins, and random
/// writes are up to a third slower than on the whole drive; with sixteen they are within 2 %.
const LEAST_UNITS: u64 = 16;

impl Config {
    /// Bytes of the largest superblock of its flash; zero without flash.
    pub fn largest_superblock(&self) -> u64 {
        let pages = self.ftl.sets.iter().map(|set| set.properties().superblock_pages);
        u64::from(pages.max().unwrap_or(0)) * u64::from(PAGE)
    }

    /// The same drive with shorter blocks, and so less capacity: each NAND set offers just more than `bytes`, or what blocks of sixteen programs
    /// make, if it offers more now. `None` if nothing changes.
    ///
    /// Channels, dies, planes, superblocks, spare and write buffer stay, and so do all times but that of an erase, which shrinks
    /// with the block: erasing takes the same share of a die's time. So it has the rates and latencies of the whole drive,
    /// and the write amplification except for what a write buffer that is larger beside the capacity saves. Namespaces shrink with their sets.
    #[must_use]
    pub fn shortened(&self, bytes: u64) -> Option<Config> {
        let mut short = self.clone();
        let mut changed = false;
        // Numerator and denominator of each set's share.
        let mut shares = Vec::new();
        for set in &mut short.ftl.sets {
            let share = set.shorten(bytes, LEAST_UNITS);
            changed |= share.is_some();
            shares.push(share.unwrap_or((1, 1)));
        }
        for namespace in &mut short.namespaces {
            let (after, before) = *shares.get(usize::from(namespace.set).checked_sub(1)?)?;
            if after < before {
                let bytes = u128::from(namespace.bytes) * u128::from(after) / u128::from(before);
                // Whole granules together fit in the set's, each as a share of its own.
                let bytes = u64::try_from(bytes).ok()? / GRANULE_BYTES * GRANULE_BYTES;
                namespace.bytes = bytes.max(GRANULE_BYTES);
            }
        }
        (changed && short.check().is_ok()).then_some(short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive_toml::DEFAULT_DRIVE;

    fn with(sheet: &str) -> Result<Config, String> {
        Config::from_toml(&format!("{DEFAULT_DRIVE}\n[datasheet]\n{sheet}")).map_err(|e| e.to_string())
    }

    #[test]
    fn a_data_sheet_is_read_and_changes_nothing_else() {
        let text = "source = \"a\"\nsequential_read = \"3.2GB/s\"\nrandom_write_iops = 50_000\nread_latency = \"85us\"\nrandom_depth = 128";
        let config = with(text).unwrap();
        let sheet = config.data_sheet.clone().unwrap();
        assert_eq!(sheet.sequential_read, Some(3_200_000_000));
        assert_eq!((sheet.random_write_iops, sheet.random_read_iops), (Some(50_000), None));
        assert_eq!(sheet.read_latency, Some(Nanos(85_000)));
        assert_eq!((sheet.sequential_depth, sheet.random_depth), (32, 128));
        let plain = Config { data_sheet: None, ..config };
        assert_eq!(plain, Config::default_drive());
    }

    #[test]
    fn what_makes_no_sense_is_explained() {
        let cases = [
            ("sequential_read = \"1GB/s\"", "missing field `source`"),
            (
                "source = \" \"\nread_latency = \"1us\"",
                "datasheet.source is \" \": where the figures are from",
            ),
            ("source = \"a\"", "number of figures in [datasheet] is 0: at least one of sequential_read, "),
            ("source = \"a\"\nread_latency = 0", "datasheet.read_latency is 0: more than 0"),
            ("source = \"a\"\nsequential_write = \"fast\"", "\"fast\" is not a rate: write 1.2GB/s"),
            ("source = \"a\"\nrandom_read_iops = -1", "random_read_iops"),
            ("source = \"a\"\nseq_read = \"1GB/s\"", "unknown field `seq_read`"),
            (
                "source = \"a\"\nread_latency = \"1us\"\nrandom_depth = 1025",
                "datasheet.random_depth is 1025: 1 to 1,024",
            ),
        ];
        for (text, said) in cases {
            let error = with(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn a_shortened_drive_is_the_same_with_shorter_blocks() {
        let long = Config::from_toml(
            &DEFAULT_DRIVE
                .replace("capacity = \"2GiB\"", "capacity = \"64GiB\"")
                .replace("pages_per_block = 48", "pages_per_block = 1536")
                .replace("size = \"1GiB\"", "size = \"32GiB\""),
        )
        .unwrap();
        let short = long.shortened(2 << 30).unwrap();
        let (l, s) = (long.ftl.sets[0].properties(), short.ftl.sets[0].properties());
        assert_eq!(l.block_pages, s.block_pages * 32);
        assert_eq!(l.erase_time.0, s.erase_time.0 * 32);
        assert_eq!((l.superblocks, l.units), (s.superblocks, s.units));
        assert_eq!(short.ftl.sets[0].capacity_pages(), (2 << 30) / PAGE);
        assert_eq!(short.namespaces[0].bytes, 1 << 30);
        assert_eq!(short.ftl.sets[1], long.ftl.sets[1]);
        // One that is short already stays as it is.
        assert_eq!(short.shortened(2 << 30), None);
        assert_eq!(Config::default_drive().shortened(1 << 40), None);
    }
}
