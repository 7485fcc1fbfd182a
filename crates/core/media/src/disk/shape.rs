//! A disk by the figures that a data sheet has: speed, heads, cylinders, sectors, three seek times, buffer.
//!
//! Where a validated description says each skew and each seek, a data sheet says a few figures. What it leaves open follows from how disks
//! are made: skews just cover the switch that they are for, and seek times follow a curve through the three that are given.

use super::cache::CacheConfig;
use super::drive::{DiskConfig, Scheduling};
use super::geometry::{Geometry, GeometryConfig, HeadOrder, Skew, Sparing, ZoneConfig};
use super::mechanism::{Mechanism, OnCylinder, Positioning, SeekTable};
use super::service::{Model, Overheads};
use super::spindle::{Angle, RPM, Spindle};
use super::types::{DiskError, MOST_CYLINDERS};
use crate::time::Nanos;

/// Seek times of a data sheet. The settle is part of them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SeekTimes {
    /// To the next cylinder.
    pub track: Nanos,
    /// Mean of seeks between any two cylinders.
    pub average: Nanos,
    /// Over all cylinders.
    pub full: Nanos,
}

/// A disk by the figures of its data sheet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskShape {
    /// Revolutions per minute.
    pub rpm: u32,
    /// Surfaces with data.
    pub heads: u32,
    /// Cylinders, at most [`MOST_CYLINDERS`].
    pub cylinders: u32,
    /// Zones with the same number of cylinders, but for the last.
    pub zones: u32,
    /// Sectors of a track of the outermost zone.
    pub outer_sectors: u32,
    /// Sectors of a track of the innermost zone. Those between lie on a straight line.
    pub inner_sectors: u32,
    /// Bytes of a sector: 512 or 4096.
    pub sector_bytes: u32,
    /// Seeks of reads.
    pub read_seek: SeekTimes,
    /// Seeks of writes, which settle for longer.
    pub write_seek: SeekTimes,
    /// From one head to the next one, for reads and for writes.
    pub head_switch: [Nanos; 2],
    /// From the command to the start of positioning, or of the transfer from the buffer.
    pub overhead: Nanos,
    /// Bytes per second of the link; 0 takes no time.
    pub link: u64,
    /// Firmware of the buffer.
    pub cache: CacheConfig,
    /// Writes are complete when they are in the buffer.
    pub write_cache: bool,
    /// Sectors of writes that the buffer holds.
    pub write_buffer: u64,
    /// Which waiting request is next.
    pub scheduling: Scheduling,
}

/// Binary places of the square roots and slopes below.
const PLACES: u32 = 20;

/// A curve of seek times: `track + root * (sqrt(d) - 1) + linear * (d - 1)` for `d` cylinders. Short seeks accelerate and brake, long
/// ones coast (Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994).
struct Curve {
    track: i128,
    root: i128,
    linear: i128,
}

impl Curve {
    /// The curve through the times of a data sheet, for so many cylinders.
    fn through(times: &SeekTimes, cylinders: u32, what: &str) -> Result<Curve, DiskError> {
        let SeekTimes { track, average, full } = *times;
        if !(track <= average && average <= full) {
            let text = format!("{what} seeks: track to track, average and full stroke must not fall");
            return Err(DiskError::new(text));
        }
        let (n, one) = (i128::from(cylinders), 1i128 << PLACES);
        let track = i128::from(track.0);
        if cylinders < 16 {
            // Too few for a curve: a line.
            let linear = ((i128::from(full.0) - track) << PLACES) / (n - 2).max(1);
            return Ok(Curve { track, root: 0, linear });
        }
        // The mean of sqrt(d) over all pairs is 8/15 of the root of all cylinders, that of d a third of all.
        let all = root(u64::from(cylinders));
        let (a1, b1) = (all * 8 / 15 - one, (n << PLACES) / 3 - one);
        let (a2, b2) = (root(u64::from(cylinders) - 1) - one, (n - 2) << PLACES);
        let (r1, r2) = (i128::from(average.0) - track, i128::from(full.0) - track);
        let determinant = a1 * b2 - a2 * b1;
        let shifted = |numerator: i128| (numerator << (2 * PLACES)) / determinant;
        let curve = Curve { track, root: shifted(r1 * b2 - r2 * b1), linear: shifted(r2 * a1 - r1 * a2) };
        let mut last = 0;
        for step in 0..=64 {
            let time = curve.time((u64::from(cylinders) - 1) * step / 64);
            if time < last {
                let text = format!(
                    "{what} seeks: no curve that always rises has these three times: with this average, the full stroke is too short"
                );
                return Err(DiskError::new(text));
            }
            last = time;
        }
        Ok(curve)
    }

    /// Nanoseconds of a seek over `d` cylinders.
    fn time(&self, d: u64) -> i128 {
        if d == 0 {
            return 0;
        }
        let root = (self.root * (root(d) - (1 << PLACES))) >> (2 * PLACES);
        self.track + root + ((self.linear * (i128::from(d) - 1)) >> PLACES)
    }

    fn table(&self, cylinders: u32) -> Result<SeekTable, DiskError> {
        let time = |d: u32| Nanos(u64::try_from(self.time(d.into())).unwrap_or(0));
        SeekTable::new((0..cylinders).map(time))
    }
}

/// The square root with [`PLACES`] binary places.
fn root(of: u64) -> i128 {
    (u128::from(of) << (2 * PLACES)).isqrt().cast_signed()
}

impl DiskShape {
    /// The disk.
    ///
    /// # Errors
    /// If it cannot be: no head, a speed or a number of sectors that no disk has, more zones than cylinders, seek times that fall.
    pub fn config(&self) -> Result<DiskConfig, DiskError> {
        self.check()?;
        let spindle = Spindle::new(u64::from(self.rpm) * 1_000_000);
        let table =
            |times: &SeekTimes, what| Curve::through(times, self.cylinders, what)?.table(self.cylinders);
        let (read, write) = (table(&self.read_seek, "read")?, table(&self.write_seek, "write")?);
        let on_cylinder =
            |switch: Nanos| OnCylinder { next: Nanos::ZERO, same_track: Nanos::ZERO, head_switch: switch };
        let [read_switch, write_switch] = self.head_switch;
        let mechanism = Mechanism {
            geometry: Geometry::new(&self.geometry(&spindle))?,
            spindle,
            positioning: Positioning {
                seek: [[read.clone(), read], [write.clone(), write]],
                on_cylinder: [[on_cylinder(read_switch); 2], [on_cylinder(write_switch); 2]],
                track_switch: self.head_switch,
                cylinder_switch: [self.read_seek.track, self.write_seek.track],
            },
            slow: Vec::new(),
        };
        let overheads = Overheads {
            command: [[[self.overhead; 2]; 2]; 2],
            completion: [Nanos::ZERO; 2],
            block: Nanos::of_transfer(self.sector_bytes.into(), self.link),
        };
        Ok(DiskConfig {
            model: Model { mechanism, overheads, write_cache: self.write_cache },
            cache: self.cache,
            block_bytes: self.sector_bytes,
            scheduling: self.scheduling,
            write_buffer: self.write_buffer,
        })
    }

    /// Sectors of the whole disk, also of one that cannot be.
    pub fn sectors(&self) -> u64 {
        let zones = (0..self.zones).map(|zone| {
            let (first, end) = self.zone(zone);
            u64::from(end.saturating_sub(first)) * u64::from(self.track_sectors(zone))
        });
        zones.sum::<u64>().saturating_mul(self.heads.into())
    }

    /// Bytes per second of a long read of a zone, with its head and cylinder switches.
    pub fn sustained_bytes_per_second(&self, zone: u32) -> u64 {
        let sectors = u64::from(self.track_sectors(zone)) * u64::from(self.heads);
        let spindle = Spindle::new(u64::from(self.rpm.max(60)) * 1_000_000);
        let (track, cylinder) = self.skews(&spindle, zone);
        let turns = spindle.revolution().0 * u64::from(self.heads)
            + spindle.span(track).0 * u64::from(self.heads.saturating_sub(1))
            + spindle.span(cylinder).0;
        let bytes = u128::from(sectors) * u128::from(self.sector_bytes) * 1_000_000_000;
        u64::try_from(bytes / u128::from(turns.max(1))).unwrap_or(u64::MAX)
    }

    /// Whether the figures but for the seek times can be.
    ///
    /// # Errors
    /// As for [`config`](DiskShape::config).
    pub fn check(&self) -> Result<(), DiskError> {
        let fail = |text: String| Err(DiskError::new(text));
        if !RPM.contains(&self.rpm.into()) {
            return fail(format!("{} revolutions per minute: {} to {}", self.rpm, RPM.start(), RPM.end()));
        }
        if !(1..=1024).contains(&self.heads) {
            return fail(format!("{} heads: 1 to 1024", self.heads));
        }
        if !(2..=MOST_CYLINDERS).contains(&self.cylinders) {
            return fail(format!("{} cylinders: 2 to {MOST_CYLINDERS}", self.cylinders));
        }
        if self.zones == 0 || self.zones > self.cylinders.min(256) {
            return fail(format!("{} zones: 1 to 256, and no more than cylinders", self.zones));
        }
        if self.inner_sectors == 0 || self.inner_sectors > self.outer_sectors {
            let (inner, outer) = (self.inner_sectors, self.outer_sectors);
            return fail(format!(
                "{inner} sectors of a track inside, {outer} outside: 1 at least, and no more inside"
            ));
        }
        if ![512, 4096].contains(&self.sector_bytes) {
            return fail(format!("sectors of {} bytes: 512 or 4096", self.sector_bytes));
        }
        if self.write_cache && self.write_buffer == 0 {
            return fail("a write cache without room for writes".into());
        }
        let turn = 60_000_000_000 / u64::from(self.rpm);
        let switches =
            [self.head_switch[0], self.head_switch[1], self.read_seek.track, self.write_seek.track];
        if switches.iter().any(|switch| switch.0 >= turn) {
            return fail(format!(
                "a switch of heads or a seek to the next track takes a revolution ({turn} ns) or more"
            ));
        }
        Ok(())
    }

    /// First cylinder of a zone, and the one behind its last.
    fn zone(&self, zone: u32) -> (u32, u32) {
        let each = self.cylinders / self.zones.max(1);
        let end = if zone + 1 == self.zones { self.cylinders } else { (zone + 1) * each };
        (zone * each, end)
    }

    fn track_sectors(&self, zone: u32) -> u32 {
        let (outer, inner) = (u64::from(self.outer_sectors), u64::from(self.inner_sectors));
        let steps = u64::from(self.zones.max(2)) - 1;
        let less = (outer.saturating_sub(inner) * u64::from(zone) + steps / 2) / steps;
        (outer - less) as u32
    }

    /// Angles from a track to the next one and from a cylinder to the next one: whole sectors that cover the slower of the switches of a
    /// read and of a write.
    fn skews(&self, spindle: &Spindle, zone: u32) -> (Angle, Angle) {
        let sectors = u64::from(self.track_sectors(zone)).max(1);
        let turn = spindle.revolution().0;
        let angle = |time: Nanos| {
            // A nanosecond more, because times are rounded.
            let covered = (u128::from(time.0 + 1) * u128::from(sectors)).div_ceil(u128::from(turn));
            Angle::of(covered as u64, sectors)
        };
        let [read, write] = self.head_switch;
        (angle(read.max(write)), angle(self.read_seek.track.max(self.write_seek.track)))
    }

    fn geometry(&self, spindle: &Spindle) -> GeometryConfig {
        let mut origin = Angle::ZERO;
        let zones = (0..self.zones).map(|zone| {
            let (first, end) = self.zone(zone);
            let (track, cylinder) = self.skews(spindle, zone);
            let skew = Skew::of_switches(origin, track, cylinder, self.heads, 1);
            // The next zone goes on where this one ends, so that a long read loses no turn between them.
            origin += skew.cylinder.times(u64::from(end - first));
            ZoneConfig {
                first_cylinder: first,
                last_cylinder: end - 1,
                track_sectors: self.track_sectors(zone),
                skew,
                ..ZoneConfig::default()
            }
        });
        GeometryConfig {
            surfaces: self.heads,
            heads: HeadOrder::Ascending,
            sparing: Sparing::None,
            zones: zones.collect(),
        }
    }
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;
