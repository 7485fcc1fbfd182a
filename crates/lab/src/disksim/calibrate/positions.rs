//! Times of positioning that follow from when sectors were reached.
//!
//! A request that arrives when its sector is anywhere waits for positioning, and then up to a revolution. So if its sector starts x after its
//! arrival, positioning took at most x, and more than x less a revolution. The time for a distance is where as many requests of similar distance were
//! faster as were slower than such a time allows. That needs no phase of the platters, and leaves no bias in the number of revolutions even where times
//! of positioning vary.

use media::Nanos;
use media::disk::Op;
use media::disk::mechanism::{OnCylinder, Positioning, SeekTable};

/// Requests of similar distance that are looked at.
const NEAREST: usize = 60;
/// What the stated time counts, in requests.
const STATED: f64 = 4.0;
/// Requests whose distance differs by more than this factor's logarithm are not similar.
const SIMILAR: f64 = 1.5;
/// Requests without a seek that are looked at.
const RECENT: usize = 200;
/// Knots of the correction, as a factor of the distance from one to the next.
const KNOT: f64 = 1.25;

/// What is known of one way to get to a sector: how much later than stated each was reached.
type Excesses = Vec<(f64, f64)>;

/// Times of positioning, stated and learned. The overhead of the command is part of them.
pub struct Positions {
    stated: Positioning,
    seeks: [[Excesses; 2]; 2],
    on_cylinder: [[[Excesses; 3]; 2]; 2],
}

/// How a request gets to its track.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// A seek over so many cylinders.
    Seek(u32),
    /// To the block behind the last one.
    Next,
    /// To another sector of the track.
    SameTrack,
    /// To another head.
    HeadSwitch,
}

impl Way {
    /// Its number: of those on a cylinder 0 to 2, a seek 3.
    pub fn kind(self) -> usize {
        match self {
            Way::Next => 0,
            Way::SameTrack => 1,
            Way::HeadSwitch => 2,
            Way::Seek(_) => 3,
        }
    }
}

impl Positions {
    /// Nothing learned yet.
    pub fn new(stated: Positioning) -> Positions {
        Positions { stated, seeks: Default::default(), on_cylinder: Default::default() }
    }

    /// The stated time of a way, in nanoseconds.
    fn stated(&self, op: Op, before: Op, way: Way) -> f64 {
        let on = &self.stated.on_cylinder[op as usize][before as usize];
        let time = match way {
            Way::Seek(cylinders) => self.stated.seek[op as usize][before as usize].time(cylinders),
            Way::Next => on.next,
            Way::SameTrack => on.same_track,
            Way::HeadSwitch => on.head_switch,
        };
        time.0 as f64
    }

    /// A request reached its first sector `reached` nanoseconds after it arrived.
    pub fn learn(&mut self, op: Op, before: Op, way: Way, reached: f64, revolution: f64) {
        let excess = reached - self.stated(op, before, way);
        // Retries, or something else that is no positioning.
        if excess > 2.5 * revolution {
            return;
        }
        match way {
            Way::Seek(cylinders) => {
                self.seeks[op as usize][before as usize].push((f64::from(cylinders).ln(), excess));
            }
            _ => {
                let list = &mut self.on_cylinder[op as usize][before as usize][way.kind()];
                if list.len() == 2 * RECENT {
                    list.drain(..RECENT);
                }
                list.push((0.0, excess));
            }
        }
    }

    /// The times as they are known now.
    pub fn positioning(&self, revolution: f64) -> Positioning {
        let mut positioning = self.stated.clone();
        for op in [Op::Read, Op::Write] {
            for before in [Op::Read, Op::Write] {
                positioning.seek[op as usize][before as usize] = self.seek_table(op, before, revolution);
                let time = |way: Way| {
                    let known = &self.on_cylinder[op as usize][before as usize][way.kind()];
                    let recent = &known[known.len().saturating_sub(RECENT)..];
                    let excess = balanced(recent.iter().map(|k| k.1).collect(), revolution);
                    nanos(self.stated(op, before, way) + excess)
                };
                positioning.on_cylinder[op as usize][before as usize] = OnCylinder {
                    next: time(Way::Next),
                    same_track: time(Way::SameTrack),
                    head_switch: time(Way::HeadSwitch),
                };
            }
        }
        positioning
    }

    fn seek_table(&self, op: Op, before: Op, revolution: f64) -> SeekTable {
        let stated = &self.stated.seek[op as usize][before as usize];
        let mut known = self.seeks[op as usize][before as usize].clone();
        if known.is_empty() {
            return stated.clone();
        }
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        let last = (stated.len().max(2) as f64 - 1.0).ln();
        let knots = (last / KNOT.ln()).ceil() as usize + 1;
        let corrections: Vec<f64> =
            (0..knots).map(|k| balanced(nearest(&known, k as f64 * KNOT.ln()), revolution)).collect();
        let correction = |distance: usize| {
            let at = (distance as f64).ln() / KNOT.ln();
            let low = (at as usize).min(knots - 1);
            let high = (low + 1).min(knots - 1);
            corrections[low] + (corrections[high] - corrections[low]) * (at - low as f64)
        };
        let times = (0..stated.len()).map(|d| match d {
            0 => Nanos::ZERO,
            d => nanos(stated.time(d as u32).0 as f64 + correction(d)),
        });
        SeekTable::new(times).unwrap_or_else(|_| stated.clone())
    }
}

fn nanos(time: f64) -> Nanos {
    Nanos(time.clamp(0.0, 4e9) as u64)
}

/// The excesses of those whose distance is nearest to that of a logarithm.
fn nearest(known: &[(f64, f64)], at: f64) -> Vec<f64> {
    let (mut low, mut high) = (known.partition_point(|k| k.0 < at), known.partition_point(|k| k.0 < at));
    while high - low < NEAREST {
        let below = low.checked_sub(1).map(|i| at - known[i].0).filter(|&d| d < SIMILAR);
        let above = known.get(high).map(|k| k.0 - at).filter(|&d| d < SIMILAR);
        match (below, above) {
            (Some(b), Some(a)) if b < a => low -= 1,
            (_, Some(_)) => high += 1,
            (Some(_), None) => low -= 1,
            (None, None) => break,
        }
    }
    known[low..high].iter().map(|k| k.1).collect()
}

/// The correction at which as many were faster than it allows as were slower.
fn balanced(mut excesses: Vec<f64>, revolution: f64) -> f64 {
    excesses.sort_by(f64::total_cmp);
    let (mut low, mut high) = (-2.0 * revolution, 2.0 * revolution);
    for _ in 0..24 {
        let middle = f64::midpoint(low, high);
        let faster = excesses.partition_point(|&e| e < middle) as f64;
        let slower = (excesses.len() - excesses.partition_point(|&e| e < middle + revolution)) as f64;
        if faster - slower + STATED * middle / revolution > 0.0 { high = middle } else { low = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_positioning_follows_from_when_sectors_were_reached() {
        let revolution = 8e6;
        let table = || SeekTable::new((0..1000u64).map(|d| Nanos(d * 1000))).unwrap();
        let positioning = Positioning {
            seek: [[table(), table()], [table(), table()]],
            on_cylinder: Default::default(),
            track_switch: Default::default(),
            cylinder_switch: Default::default(),
        };
        let mut positions = Positions::new(positioning);
        // Seeks take 2 ms more than stated, and sectors are anywhere.
        let mut rng = rng::Rng::new(1);
        for _ in 0..3000 {
            let distance = 1 + rng.below(999) as u32;
            let latency = rng.below(8_000_000) as f64;
            let reached = f64::from(distance) * 1000.0 + 2e6 + latency;
            positions.learn(Op::Read, Op::Read, Way::Seek(distance), reached, revolution);
            positions.learn(Op::Read, Op::Write, Way::SameTrack, 1e6 + latency, revolution);
        }
        let learned = positions.positioning(revolution);
        for distance in [2u32, 30, 500, 999] {
            let time = learned.seek[0][0].time(distance).0 as f64 - f64::from(distance) * 1000.0;
            assert!((time - 2e6).abs() < 6e5, "{distance}: {time}");
        }
        let same = learned.on_cylinder[0][1].same_track.0 as f64;
        assert!((same - 1e6).abs() < 3e5, "{same}");
        assert_eq!(learned.seek[1][0], table(), "writes are stated");
    }
}
