//! Arm, heads and platters: how long it takes to get to a sector and over it.

use super::geometry::{Geometry, Place, Run};
use super::spindle::Spindle;
use super::types::{DiskError, Op};
use crate::time::Nanos;

/// Where the arm stands, and which head is in use.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Arm {
    /// Cylinder.
    pub cylinder: u32,
    /// Head.
    pub head: u32,
}

impl From<Place> for Arm {
    fn from(place: Place) -> Arm {
        Arm { cylinder: place.cylinder, head: place.head }
    }
}

/// Times of seeks by distance, from 0 cylinders on. Measured curves need not be monotonic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeekTable(Vec<u32>);

impl SeekTable {
    /// A table from times for each distance: the first is for 0 cylinders.
    ///
    /// # Errors
    /// If it is empty, or a time is over four seconds.
    pub fn new(times: impl IntoIterator<Item = Nanos>) -> Result<SeekTable, DiskError> {
        let times: Result<Vec<u32>, _> = times.into_iter().map(|t| u32::try_from(t.0)).collect();
        let times = times.map_err(|_| DiskError::new("a seek of more than four seconds"))?;
        if times.is_empty() {
            return Err(DiskError::new("a seek table needs a time at least"));
        }
        Ok(SeekTable(times))
    }

    /// Time of a seek over so many cylinders. Beyond the table the last time counts.
    #[inline]
    pub fn time(&self, cylinders: u32) -> Nanos {
        let at = (cylinders as usize).min(self.0.len() - 1);
        Nanos(self.0[at].into())
    }

    /// Distances that the table has, from 0 on.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the table is empty. It never is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Times of an arm that stays on its cylinder.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct OnCylinder {
    /// To the block that follows the last one of the request before.
    pub next: Nanos,
    /// To another sector of the track.
    pub same_track: Nanos,
    /// To another head.
    pub head_switch: Nanos,
}

/// Times of positioning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Positioning {
    /// Seeks, by operation and by that of the request before. The settle is part of them.
    pub seek: [[SeekTable; 2]; 2],
    /// Without a seek, in the same way.
    pub on_cylinder: [[OnCylinder; 2]; 2],
    /// Head switch within a request, by operation.
    pub track_switch: [Nanos; 2],
    /// Cylinder switch within a request, by operation.
    pub cylinder_switch: [Nanos; 2],
}

/// Slow sectors: the heads need so many more revolutions for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlowSectors {
    /// First block.
    pub first: u64,
    /// Number of blocks.
    pub count: u64,
    /// Additional revolutions of a run that touches one of them.
    pub revolutions: u32,
}

/// The moving parts.
#[derive(Clone, Debug)]
pub struct Mechanism {
    /// Where blocks lie.
    pub geometry: Geometry,
    /// The spindle.
    pub spindle: Spindle,
    /// Times of positioning.
    pub positioning: Positioning,
    /// Slow sectors, sorted and disjoint.
    pub slow: Vec<SlowSectors>,
}

/// What the heads did for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The arm is on the track.
    pub positioned: Nanos,
    /// The first sector starts.
    pub start: Nanos,
    /// The last sector ends.
    pub end: Nanos,
    /// A bus that follows the heads without a pause can end then: it never overtakes them.
    pub bus_end: Nanos,
    /// The place of the last block: there the arm is then.
    pub last: Place,
}

/// Which request came before, and where it ended.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    /// Its operation.
    pub op: Op,
    /// The block behind its last one.
    pub next: u64,
    /// Where the arm is.
    pub arm: Arm,
}

impl Mechanism {
    /// Time to bring a head to the track of `place`.
    #[inline]
    pub fn position(&self, before: &Before, op: Op, block: u64, place: Place) -> Nanos {
        let on_cylinder = &self.positioning.on_cylinder[op as usize][before.op as usize];
        let distance = before.arm.cylinder.abs_diff(place.cylinder);
        let switch = before.arm.head != place.head;
        if distance > 0 {
            let seek = self.positioning.seek[op as usize][before.op as usize].time(distance);
            return if switch { seek.max(on_cylinder.head_switch) } else { seek };
        }
        match switch {
            true => on_cylinder.head_switch,
            false if block == before.next => on_cylinder.next,
            false => on_cylinder.same_track,
        }
    }

    /// Time from `now` until the first sector of `place` is under its head.
    #[inline]
    pub fn reach(&self, now: Nanos, before: &Before, op: Op, block: u64, place: Place) -> Nanos {
        let position = self.position(before, op, block, place);
        position + self.spindle.until(now + position, place.angle)
    }

    /// Moves the heads over `count` blocks from `block` on. The arm starts at `now`, and a block takes `bus` on the bus.
    ///
    /// # Panics
    /// If the disk does not have the blocks.
    pub fn access(&self, now: Nanos, before: &Before, op: Op, range: (u64, u32), bus: Nanos) -> Access {
        self.access_from(now, before, op, range, self.geometry.place(range.0), bus)
    }

    /// The same where the place of the first block is known.
    pub fn access_from(
        &self,
        now: Nanos,
        before: &Before,
        op: Op,
        (block, count): (u64, u32),
        place: Place,
        bus: Nanos,
    ) -> Access {
        let run = self.geometry.run_from(block, place, count);
        let positioned = now + self.position(before, op, block, run.place);
        let (start, passed) = self.spindle.pass(positioned, run.place.angle, run.turn);
        let mut end = passed + self.slowness(block, run.count);
        let sector = |run: &Run| Nanos(self.spindle.span(run.turn).0 / u64::from(run.count));
        let mut bus_end = start + sector(&run) + Nanos(bus.0 * u64::from(count));
        let (mut last, mut done) = (run.last, run.count);
        while done < count {
            let next = block + u64::from(done);
            let run = self.geometry.run(next, count - done);
            let there = end + self.switch(op, last.into(), run.place);
            let (start, passed) = self.spindle.pass(there, run.place.angle, run.turn);
            bus_end = bus_end.max(start + sector(&run) + Nanos(bus.0 * u64::from(count - done)));
            end = passed + self.slowness(next, run.count);
            last = run.last;
            done += run.count;
        }
        Access { positioned, start, end, bus_end: bus_end.max(end + bus), last }
    }

    /// Time from one track to the next one of a request.
    fn switch(&self, op: Op, arm: Arm, to: Place) -> Nanos {
        match (arm.cylinder == to.cylinder, arm.head == to.head) {
            // A slip or a remap on the same track.
            (true, true) => Nanos::ZERO,
            (true, false) => self.positioning.track_switch[op as usize],
            _ => self.positioning.cylinder_switch[op as usize],
        }
    }

    #[inline]
    fn slowness(&self, block: u64, count: u32) -> Nanos {
        if self.slow.is_empty() {
            return Nanos::ZERO;
        }
        let at = self.slow.partition_point(|s| s.first + s.count <= block);
        match self.slow.get(at) {
            Some(s) if s.first < block + u64::from(count) => {
                Nanos(self.spindle.revolution().0 * u64::from(s.revolutions))
            }
            _ => Nanos::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::geometry::{GeometryConfig, Skew, Sparing, ZoneConfig};
    use crate::disk::spindle::Angle;

    const MS: u64 = 1_000_000;

    /// 6,000 rpm, ten sectors a track: a sector is a millisecond.
    fn mechanism() -> Mechanism {
        let skew = Skew::of_switches(Angle::ZERO, Angle::of(2, 10), Angle::of(4, 10), 2, 1);
        let zone = ZoneConfig { last_cylinder: 99, track_sectors: 10, skew, ..ZoneConfig::default() };
        let config =
            GeometryConfig { surfaces: 2, sparing: Sparing::None, zones: vec![zone], ..Default::default() };
        let seek = |settle: u64| {
            SeekTable::new((0..100u64).map(|d| Nanos(if d == 0 { 0 } else { 2 * MS + d * 10_000 + settle })))
                .unwrap()
        };
        let on_cylinder = OnCylinder { head_switch: Nanos(MS), ..OnCylinder::default() };
        Mechanism {
            geometry: Geometry::new(&config).unwrap(),
            spindle: Spindle::new(6_000_000_000),
            positioning: Positioning {
                seek: [[seek(0), seek(0)], [seek(500_000), seek(500_000)]],
                on_cylinder: [[on_cylinder; 2]; 2],
                track_switch: [Nanos(MS); 2],
                cylinder_switch: [Nanos(2 * MS); 2],
            },
            slow: Vec::new(),
        }
    }

    fn before() -> Before {
        Before { op: Op::Read, next: 0, arm: Arm::default() }
    }

    #[test]
    fn an_access_seeks_waits_and_reads() {
        let m = mechanism();
        let access = m.access(Nanos(0), &before(), Op::Read, (5, 3), Nanos(0));
        assert_eq!((access.positioned, access.start.0), (Nanos(0), 5 * MS));
        assert_eq!((access.end.0, access.bus_end.0), (8 * MS, 8 * MS));
        // Cylinder 50 starts 50 * 6 tenths of a turn later: at sector 0's own angle again.
        let access = m.access(Nanos(0), &before(), Op::Read, (1000, 1), Nanos(0));
        assert_eq!((access.positioned.0, access.start.0), (2 * MS + 500_000, 10 * MS));
        let write = m.access(Nanos(0), &before(), Op::Write, (1000, 1), Nanos(0));
        assert_eq!(write.positioned.0, 3 * MS, "settling for a write");
    }

    #[test]
    fn a_request_over_tracks_loses_the_skew_only_if_the_switch_fits_into_it() {
        let mut m = mechanism();
        let access = m.access(Nanos(0), &before(), Op::Read, (8, 4), Nanos(0));
        assert_eq!(access.start.0, 8 * MS);
        // Two sectors, a skew of two sectors, two sectors.
        assert_eq!(access.end.0, 14 * MS);
        assert_eq!(Arm::from(access.last), Arm { cylinder: 0, head: 1 });
        let over_cylinder = m.access(Nanos(0), &before(), Op::Read, (18, 4), Nanos(0));
        assert_eq!(over_cylinder.end.0 - over_cylinder.start.0, (2 + 4 + 2) * MS);
        m.positioning.track_switch = [Nanos(2 * MS + 4); 2];
        let access = m.access(Nanos(0), &before(), Op::Read, (8, 4), Nanos(0));
        assert_eq!(access.end.0, 24 * MS, "missed by a little");
    }

    #[test]
    fn a_slow_bus_follows_the_heads() {
        let m = mechanism();
        let slow = m.access(Nanos(0), &before(), Op::Read, (5, 3), Nanos(2 * MS));
        assert_eq!(slow.bus_end.0, (6 + 3 * 2) * MS, "from the end of the first sector on");
        let fast = m.access(Nanos(0), &before(), Op::Read, (5, 3), Nanos(MS / 2));
        assert_eq!(fast.bus_end.0, 8 * MS + MS / 2, "half a millisecond behind the last");
        // Two sectors until 10 ms, and two from 12 ms on: at 12 ms the bus has caught up.
        let both = m.access(Nanos(0), &before(), Op::Read, (8, 4), Nanos(3 * MS / 2));
        assert_eq!(both.bus_end.0, (13 + 3) * MS);
    }

    #[test]
    fn slow_sectors_take_revolutions() {
        let mut m = mechanism();
        m.slow = vec![SlowSectors { first: 6, count: 1, revolutions: 2 }];
        assert_eq!(m.access(Nanos(0), &before(), Op::Read, (5, 3), Nanos(0)).end.0, 28 * MS);
        assert_eq!(m.access(Nanos(0), &before(), Op::Read, (7, 3), Nanos(0)).end.0, 10 * MS);
    }
}
