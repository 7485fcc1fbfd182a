//! What a maker says of a drive's speed.
//!
//! The drive does not look at its data sheet: `tranche profile check` measures a profile against it.

use crate::config_error::ConfigError;
use crate::quantity::{Rate, Time};
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
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
}
