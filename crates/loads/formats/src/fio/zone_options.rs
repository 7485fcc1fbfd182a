//! The options of a job on a zoned namespace (`zonemode=zbd`).

use super::value::{self, MILLION};

/// Most zones that an option can name, as in fio.
const ZONES: u64 = 4096;

/// What a job does with zones.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ZoneOptions {
    /// `zonemode=zbd`: the namespace has zones, and the job keeps to their rules.
    pub zoned: bool,
    /// Bytes from a zone to the next, as the job file says (`zonesize`); 0 if it does not.
    pub size: u64,
    /// Zones that all jobs together may have open (`max_open_zones`); 0: as many as the namespace allows.
    pub max_open: u32,
    /// Zones that the job may have open (`job_max_open_zones`); 0: no limit of its own.
    pub job_max_open: u32,
    /// `max_open_zones` counts even beyond what the namespace allows (`ignore_zone_limits`).
    pub ignore_limits: bool,
    /// Reads go beyond write pointers, too (`read_beyond_wp`).
    pub read_beyond_wp: bool,
    /// Writes are appends (`zone_append`, which fio does not have).
    pub append: bool,
    /// Share of the region that is written above which zones are reset (`zone_reset_threshold`), in millionths.
    pub reset_threshold: u64,
    /// Resets for each write above the threshold (`zone_reset_frequency`), in millionths; 0: none.
    pub reset_frequency: u64,
}

impl ZoneOptions {
    /// Sets an option that has a value. Whether it is one of these.
    ///
    /// # Errors
    /// The value makes no sense.
    pub(super) fn set(&mut self, name: &str, text: &str, base: u64) -> Result<bool, String> {
        let count = |text| value::number(text, base, 0, ZONES).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        match name {
            "zonemode" => {
                self.zoned = match text {
                    "none" => false,
                    "zbd" => true,
                    "strided" => return Err("strided is not supported: none or zbd".to_owned()),
                    _ => return Err(format!("{text:?} is neither none nor zbd")),
                }
            }
            "zonesize" => self.size = value::size(text, base)?,
            "max_open_zones" => self.max_open = count(text)?,
            "job_max_open_zones" => self.job_max_open = count(text)?,
            "zone_reset_threshold" => self.reset_threshold = fraction(text)?,
            "zone_reset_frequency" => self.reset_frequency = fraction(text)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Writes between two resets above the threshold; `None` if there are no such resets.
    pub(super) fn reset_interval(&self) -> Option<u64> {
        MILLION.checked_div(self.reset_frequency)
    }
}

/// A number from 0 to 1 in millionths.
fn fraction(text: &str) -> Result<u64, String> {
    match value::millionths(text)? {
        share @ 0..=MILLION => Ok(share),
        _ => Err(format!("{text:?} is not from 0 to 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let mut options = ZoneOptions::default();
        for (name, text) in [
            ("zonemode", "zbd"),
            ("zonesize", "1m"),
            ("max_open_zones", "14"),
            ("job_max_open_zones", "2"),
            ("zone_reset_threshold", "0.8"),
            ("zone_reset_frequency", "0.3"),
        ] {
            assert_eq!(options.set(name, text, 1024), Ok(true), "{name}");
        }
        let wanted = ZoneOptions {
            zoned: true,
            size: 1 << 20,
            max_open: 14,
            job_max_open: 2,
            reset_threshold: 800_000,
            reset_frequency: 300_000,
            ..ZoneOptions::default()
        };
        assert_eq!(options, wanted);
        // As fio: the whole part of 1 / 0.3.
        assert_eq!((options.reset_interval(), ZoneOptions::default().reset_interval()), (Some(3), None));
        for (name, text, said) in [
            ("zonemode", "strided", "none or zbd"),
            ("zonemode", "x", "neither"),
            ("max_open_zones", "4097", "not from 0 to 4096"),
            ("zone_reset_threshold", "1.1", "not from 0 to 1"),
        ] {
            let error = options.set(name, text, 1024).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert_eq!(options.set("bs", "4k", 1024), Ok(false));
    }
}
