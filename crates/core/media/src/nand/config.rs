//! What NAND can be.

use crate::config::{ConfigError, addressable, positive};
use crate::time::Nanos;
use crate::types::Geometry;
use serde::{Deserialize, Serialize};

/// Bits that a cell stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cell {
    /// One.
    Slc,
    /// Two.
    Mlc,
    /// Three.
    Tlc,
    /// Four.
    Qlc,
}

impl Cell {
    /// Bits of a cell = NAND pages of a wordline = page types, each with its own sense time.
    pub fn bits(self) -> u32 {
        match self {
            Cell::Slc => 1,
            Cell::Mlc => 2,
            Cell::Tlc => 3,
            Cell::Qlc => 4,
        }
    }

    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Cell::Slc => "SLC",
            Cell::Mlc => "MLC",
            Cell::Tlc => "TLC",
            Cell::Qlc => "QLC",
        }
    }
}

/// Time from the cells to the page register (tR).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "give sense as nanoseconds, or as an array with one for each page type")]
pub enum Sense {
    /// The same for all pages.
    Same(Nanos),
    /// One for each page type, from the lowest: as many as the cell has bits.
    ByPageType(Vec<Nanos>),
}

impl Default for Sense {
    fn default() -> Self {
        Sense::Same(Nanos::ZERO)
    }
}

impl From<Nanos> for Sense {
    fn from(time: Nanos) -> Self {
        Sense::Same(time)
    }
}

/// How long NAND takes. All zero (the default): no timing, everything ends at once.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandTiming {
    /// tR, per NAND page.
    pub sense: Sense,
    /// tPROG, per program unit.
    pub program: Nanos,
    /// tBERS, per block (all planes of a die together).
    pub erase: Nanos,
    /// Rate of a channel; 0 is infinite.
    pub channel_bytes_per_second: u64,
    /// From the request of a read until a program or erase is suspended and the sense may start.
    #[serde(default)]
    pub suspend: Nanos,
    /// From the end of that sense until the program or erase goes on.
    #[serde(default)]
    pub resume: Nanos,
    /// How many reads may postpone one program or erase, by suspending it or by going before it. Later
    /// ones wait until it ends, so that no program starves. 0: first come, first served.
    #[serde(default)]
    pub max_suspends: u32,
}

impl NandTiming {
    /// Whether everything ends at once.
    pub fn is_off(&self) -> bool {
        let no_sense = match &self.sense {
            Sense::Same(t) => *t == Nanos::ZERO,
            Sense::ByPageType(all) => all.iter().all(|t| *t == Nanos::ZERO),
        };
        no_sense
            && self.program == Nanos::ZERO
            && self.erase == Nanos::ZERO
            && self.channel_bytes_per_second == 0
    }

    /// tR of a page type.
    pub(super) fn sense_of(&self, page_type: u32) -> Nanos {
        match &self.sense {
            Sense::Same(t) => *t,
            Sense::ByPageType(all) => all[page_type as usize],
        }
    }
}

/// A set of NAND chips.
///
/// The program unit follows from how the chips are programmed, and `geometry.unit_pages` must say one of
/// - `planes * sense_pages * cell.bits()`: a whole wordline at once (one-shot; TLC and QLC of today). In
///   the unit, NAND page `n = i / sense_pages` is on plane `n % planes` and of page type `n / planes`;
/// - `planes * sense_pages`: one NAND page of every plane (SLC; older MLC and TLC). Unit `u` of a block
///   then is of page type `u % cell.bits()`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandConfig {
    /// Shape.
    pub geometry: Geometry,
    /// Bits of a cell.
    pub cell: Cell,
    /// Times; `NandTiming::default()` is without.
    #[serde(default)]
    pub timing: NandTiming,
    /// Whether spare areas keep version and slot, so that power cuts and images are possible.
    #[serde(default)]
    pub durable: bool,
}

impl NandConfig {
    /// Checks it; returns the number of pages.
    ///
    /// # Errors
    /// The first value that cannot be, with what is allowed.
    pub fn check(&self) -> Result<u32, ConfigError> {
        let g = &self.geometry;
        positive("geometry.dies", g.dies, 1 << 16, "1 to 65,536")?;
        positive("geometry.channels", g.channels, g.dies, "from 1 to the number of dies")?;
        positive("geometry.planes", g.planes, 64, "1 to 64")?;
        positive("geometry.superblocks", g.superblocks, 1 << 24, "1 to 16,777,216")?;
        positive("geometry.units_per_block", g.units_per_block, 1 << 20, "1 to 1,048,576")?;
        positive("geometry.sense_pages", g.sense_pages, 64, "1 to 64 pages (NAND pages of 4 to 256 KiB)")?;
        positive("geometry.unit_pages", g.unit_pages, 1 << 14, "1 to 16,384")?;
        positive("geometry.rated_cycles", g.rated_cycles, u32::MAX, "at least 1 (4294967295 for no limit)")?;
        if g.in_place {
            return Err(ConfigError::Range {
                what: "geometry.in_place",
                value: 1,
                rule: "NAND cannot be written in place; say false",
            });
        }
        let by_page = u64::from(g.planes) * u64::from(g.sense_pages);
        let one_shot = by_page * u64::from(self.cell.bits());
        if ![by_page, one_shot].contains(&g.unit_pages.into()) {
            return Err(ConfigError::Unit {
                unit_pages: g.unit_pages,
                cell: self.cell.name(),
                planes: g.planes,
                sense_pages: g.sense_pages,
                one_shot,
                by_page,
            });
        }
        if let Sense::ByPageType(all) = &self.timing.sense
            && all.len() != self.cell.bits() as usize
        {
            return Err(ConfigError::Sense {
                given: all.len(),
                bits: self.cell.bits(),
                cell: self.cell.name(),
            });
        }
        addressable(g)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tlc() -> NandConfig {
        NandConfig {
            geometry: Geometry {
                dies: 4,
                channels: 2,
                planes: 2,
                superblocks: 8,
                units_per_block: 16,
                unit_pages: 24,
                sense_pages: 4,
                in_place: false,
                rated_cycles: 3000,
            },
            cell: Cell::Tlc,
            timing: NandTiming::default(),
            durable: true,
        }
    }

    #[test]
    fn both_ways_of_programming_are_allowed_and_no_other() {
        assert_eq!(tlc().check(), Ok(4 * 8 * 16 * 24));
        let mut c = tlc();
        c.geometry.unit_pages = 8;
        assert_eq!(c.check(), Ok(4 * 8 * 16 * 8));
        c.geometry.unit_pages = 16;
        assert_eq!(
            c.check().unwrap_err().to_string(),
            "geometry.unit_pages is 16: a TLC block with 2 planes and 4 pages per sense is programmed 24 pages \
             (a wordline at once) or 8 pages (one NAND page of every plane) at a time"
        );
    }

    #[test]
    fn configurations_are_text() {
        let text = |sense: &str| {
            let geometry = serde_json::to_string(&tlc().geometry).unwrap();
            let timing =
                r#"{"program": 1800000, "erase": 5000000, "channel_bytes_per_second": 0, "sense": SENSE}"#;
            let text = format!(r#"{{"geometry": {geometry}, "cell": "tlc", "timing": {timing}}}"#);
            serde_json::from_str::<NandConfig>(&text.replace("SENSE", sense))
        };
        assert_eq!(text("60000").unwrap().timing.sense, Sense::Same(Nanos(60_000)));
        assert_eq!(text("[1, 2, 3]").unwrap().timing.sense_of(2), Nanos(3));
        let error = text("\"fast\"").unwrap_err().to_string();
        assert!(error.contains("give sense as nanoseconds"), "{error}");
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let broken = |change: fn(&mut NandConfig)| {
            let mut c = tlc();
            change(&mut c);
            c.check().unwrap_err().to_string()
        };
        assert_eq!(broken(|c| c.geometry.dies = 0), "geometry.dies is 0: 1 to 65,536");
        assert_eq!(
            broken(|c| c.geometry.channels = 5),
            "geometry.channels is 5: from 1 to the number of dies"
        );
        assert!(broken(|c| c.geometry.in_place = true).contains("cannot be written in place"));
        assert!(broken(|c| c.geometry.superblocks = 1 << 24).contains("at most 2^31 pages"));
        assert_eq!(
            broken(|c| c.timing.sense = Sense::ByPageType(vec![Nanos(1); 2])),
            "timing.sense has 2 values: give one, or one for each of the 3 page types of TLC"
        );
    }
}
