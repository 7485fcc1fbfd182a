//! The angle of the platters, and where tracks start.
//!
//! A request that was not answered by the cache says at which time its first sector passed the heads. Its sector is known, and so is its track. What is not
//! known is the true speed of the spindle, and the true angle between tracks: parameter files round them to sectors. Both follow from sums of unit
//! vectors. For each observation the vector at the turns of the spindle less the angle of its sector points into one direction if both are right.
//!
//! Some files state all angles right. Then only the speed and one angle for the whole disk are to be found, which takes few observations. For others
//! the speed is found roughly at first, from requests that follow each other on one track, where no angle between tracks matters. Then
//! a search finds the speed and the angles of the zone with the most observations together, and the angles of the other zones. From then on each
//! observation moves the phase a little (a phase-locked loop), so that slow changes of the speed are followed.

use media::disk::Op;
use media::disk::geometry::{Geometry, Skew};
use media::disk::spindle::Angle;

use super::fourier::{Complex, Transform, solve, wrapped};
use crate::disksim::layout::turn;

/// Whether the pause on a line of the trace lies behind or before its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pause {
    /// Behind it, as DiskSim reads its traces.
    After,
    /// Before it, as the program that recorded some of them wrote it.
    Before,
}

/// When the first sector of a request passed its head.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// What the request did.
    pub op: Op,
    /// Nanoseconds, if pauses lie behind requests, and if they lie before.
    pub at: [f64; 2],
    /// Zone of the sector.
    pub zone: usize,
    /// Its cylinder in the zone.
    pub cylinder: u32,
    /// The number of its track on the cylinder.
    pub step: u32,
    /// Its angle on the track, in turns.
    pub sector: f64,
    /// Its angle as the parameter files have it, in turns.
    pub stated: f64,
}

/// Angles of a zone's tracks, in turns.
#[derive(Clone, Copy, Debug)]
struct Angles {
    origin: f64,
    head: f64,
    cylinder: f64,
    group: f64,
    /// Observations that it was found from.
    found_from: usize,
}

/// How far from the stated speed the true one may be, in parts of a million.
const RANGE: f64 = 6000.0;
/// The share of observations that must agree for a zone to count as found.
const AGREES: f64 = 0.75;
/// The chance of so much agreement by accident that is let pass, over all angles that are tried.
const ACCIDENT: f64 = 1e-3;
/// How far the stated angle between tracks of a cylinder may be off, in sectors.
const HEAD_SKEW: f64 = 5.0;
/// Fewest observations of a zone.
const FEWEST: usize = 14;
/// Time of the last observations that the first search looks at, in nanoseconds. Over a longer time the speed may change.
const WINDOW: f64 = 40e9;
/// Nanoseconds between two observations that say how fast the spindle turns, at least.
const LEVER: f64 = 4e9;
/// The part of an observation's distance that moves the phase.
const GAIN: f64 = 0.08;
/// An observation that is further off, in turns, is none of the phase.
const FAR: f64 = 0.1;
/// Observations of writes after which their angle beside that of reads is taken to be known.
const WRITES: usize = 30;

/// What is known of rotation.
pub struct Phase {
    stated_period: f64,
    /// Nanoseconds of a revolution, as far as known.
    period: f64,
    pause: Option<Pause>,
    passages: Vec<Passage>,
    zones: Vec<Option<Angles>>,
    /// Times and turns of the spindle since the phase is followed.
    followed: Vec<(f64, f64)>,
    /// How far writes pass before reads of the same sector would, in turns.
    writes_ahead: f64,
    writes: (Complex, usize),
}

impl Phase {
    /// Nothing is known but the stated period, in nanoseconds.
    pub fn new(period: f64, zones: usize) -> Phase {
        Phase {
            stated_period: period,
            period,
            pause: None,
            passages: Vec::new(),
            zones: vec![None; zones],
            followed: Vec::new(),
            writes_ahead: 0.0,
            writes: Default::default(),
        }
    }

    /// Nanoseconds of a revolution.
    pub fn period(&self) -> f64 {
        self.period
    }

    /// Where the pauses of the trace lie, once the phase is known.
    pub fn pause(&self) -> Option<Pause> {
        self.pause
    }

    /// Zones whose angles are known.
    pub fn known_zones(&self) -> usize {
        self.zones.iter().flatten().count()
    }

    /// The turns of the spindle at a time, for requests of `op`; none if the phase is not known.
    pub fn turns(&self, op: Op, at: f64) -> Option<f64> {
        self.pause?;
        let ahead = if op == Op::Write { self.writes_ahead } else { 0.0 };
        Some(self.spindle(at) + ahead)
    }

    fn spindle(&self, at: f64) -> f64 {
        let followed = &self.followed;
        let after = followed.partition_point(|f| f.0 <= at);
        match (after.checked_sub(1).map(|i| followed[i]), followed.get(after)) {
            (Some(a), Some(b)) => a.1 + (at - a.0) / (b.0 - a.0) * (b.1 - a.1),
            (Some(a), None) => a.1 + (at - a.0) / self.period,
            (None, Some(b)) => b.1 - (b.0 - at) / self.period,
            (None, None) => at / self.period,
        }
    }

    /// The skews of zones that are known.
    pub fn skews(&self, geometry: &Geometry) -> Vec<Option<Skew>> {
        let skew = |(i, angles): (usize, &Option<Angles>)| {
            let group_cylinders = geometry.skew(i).group_cylinders;
            angles.map(|a| Skew {
                origin: turn(a.origin),
                head: turn(a.head),
                cylinder: turn(a.cylinder),
                group: turn(a.group),
                group_cylinders,
            })
        };
        self.zones.iter().enumerate().map(skew).collect()
    }

    /// An observation. Those of requests over several tracks are none.
    pub fn learn(&mut self, geometry: &Geometry, passage: Passage) {
        self.passages.push(passage);
        let (Some(pause), Some(angles)) = (self.pause, self.zones[passage.zone]) else { return };
        let group = geometry.skew(passage.zone).group_cylinders;
        let at = passage.at[pause as usize];
        let turns = self.spindle(at);
        let ahead = if passage.op == Op::Write { self.writes_ahead } else { 0.0 };
        let off = wrapped(angles.of(&passage, group) - turns - ahead);
        if passage.op == Op::Write && self.writes.1 < WRITES {
            let (sum, count) = &mut self.writes;
            *sum += Complex::turn(off + ahead);
            *count += 1;
            if *count >= 3 {
                self.writes_ahead = sum.direction();
            }
        } else if off.abs() < FAR && self.followed.last().is_none_or(|f| f.0 < at) {
            self.followed.push((at, turns + GAIN * off));
        }
    }

    /// Looks for what is not known yet, with all observations.
    pub fn search(&mut self, geometry: &Geometry) {
        match self.pause {
            Some(_) => self.search_zones(geometry, None),
            None => {
                for pause in [Pause::After, Pause::Before] {
                    if let Some(speeds) = self.rough_speed(pause) {
                        self.pause = Some(pause);
                        self.search_zones(geometry, Some(&speeds));
                        if self.known_zones() > 0 {
                            return;
                        }
                        self.pause = None;
                    }
                }
            }
        }
    }

    /// The speed follows from how the phase went: what few requests said at first is rough, and a spindle may change.
    pub fn follow_speed(&mut self) {
        let Some(&last) = self.followed.last() else { return };
        // The first two are no observations.
        let first = self.followed.partition_point(|f| f.0 < last.0 - WINDOW).max(2);
        if let Some(&first) = self.followed.get(first).filter(|first| last.0 - first.0 > LEVER) {
            self.period = (last.0 - first.0) / (last.1 - first.1);
        }
    }

    /// Looks whether the stated angles are right but for the speed, and for one angle of the whole disk.
    pub fn search_stated(&mut self, geometry: &Geometry) {
        for pause in [Pause::After, Pause::Before] {
            if self.pause.is_none() {
                self.search_stated_for(geometry, pause);
            }
        }
    }

    fn search_stated_for(&mut self, geometry: &Geometry, pause: Pause) {
        let at = |p: &Passage| p.at[pause as usize];
        let end = self.passages.last().map_or(0.0, at);
        let leading = self.leading();
        let recent = self.passages.iter().filter(|p| p.op == leading && at(p) > end - WINDOW);
        let seen: Vec<(f64, f64)> = recent.map(|p| (at(p), p.stated)).collect();
        if seen.len() < FEWEST {
            return;
        }
        // Over the window of the search, no observation is off by more than a twentieth of a turn.
        let step = 0.1 * self.stated_period / WINDOW * 1e6;
        let tried = (2.0 * RANGE / step) as usize;
        let (mut best, mut found) = (Complex::default(), self.stated_period);
        for i in 0..=tried {
            let period = self.stated_period * (1.0 + (i as f64 * step - RANGE) * 1e-6);
            let sum =
                seen.iter().fold(Complex::default(), |s, (at, angle)| s + Complex::turn(at / period - angle));
            if sum.square() > best.square() {
                (best, found) = (sum, period);
            }
        }
        if !is_no_accident(best.square(), seen.len(), tried) {
            return;
        }
        (self.pause, self.period) = (Some(pause), found);
        self.followed = vec![(0.0, 0.0), (end, end / found)];
        let turns = |angle: Angle| angle.0 as f64 / 2f64.powi(64);
        for (zone, angles) in self.zones.iter_mut().enumerate() {
            let skew = geometry.skew(zone);
            *angles = Some(Angles {
                origin: turns(skew.origin) + best.direction(),
                head: turns(skew.head),
                cylinder: turns(skew.cylinder),
                group: turns(skew.group),
                found_from: 0,
            });
        }
    }

    /// Periods to try, from requests that follow each other on one track or close to it.
    fn rough_speed(&self, pause: Pause) -> Option<Vec<f64>> {
        let at = |p: &Passage| p.at[pause as usize];
        let mut pairs: Vec<(f64, f64)> = Vec::new();
        for close in [0, 1, 8] {
            pairs.clear();
            for (i, a) in self.passages.iter().enumerate() {
                let later = self.passages[i + 1..].iter().take(20);
                for b in later.take_while(|b| at(b) - at(a) < 4e8) {
                    let same = a.zone == b.zone && a.op == b.op && a.cylinder.abs_diff(b.cylinder) <= close;
                    if same && (close > 0 || a.step == b.step) {
                        pairs.push((at(b) - at(a), b.stated - a.stated));
                    }
                }
            }
            if pairs.len() >= 16 {
                break;
            }
        }
        if pairs.len() < 16 {
            return None;
        }
        let agreement = |ppm: f64| {
            let period = self.stated_period * (1.0 + ppm * 1e-6);
            let sum = pairs.iter().map(|(dt, da)| Complex::turn(dt / period - da).re).sum::<f64>();
            sum / pairs.len() as f64
        };
        let grid = |low: f64, high: f64, step: f64| {
            (0..=((high - low) / step) as usize).map(move |i| low + i as f64 * step)
        };
        let best = grid(-RANGE, RANGE, 20.0).max_by(|a, b| agreement(*a).total_cmp(&agreement(*b)))?;
        let deviation = (-2.0 * agreement(best).max(1e-6).ln()).max(1e-3).sqrt() / std::f64::consts::TAU;
        let squares = pairs.iter().map(|p| p.0 * p.0).sum::<f64>().sqrt();
        let reach = (4.0 * deviation / squares * self.stated_period * 1e6).clamp(150.0, 4000.0);
        // Over the window of the search, no observation is off by more than a twentieth of a turn.
        let step = 0.1 * self.stated_period / WINDOW * 1e6;
        Some(
            grid(best - reach, best + reach, step)
                .map(|ppm| self.stated_period * (1.0 + ppm * 1e-6))
                .collect(),
        )
    }

    /// Angles of zones that are not known, or known from few observations. Together with the speed, while `periods` are to be tried.
    fn search_zones(&mut self, geometry: &Geometry, mut periods: Option<&[f64]>) {
        let Some(pause) = self.pause else { return };
        let end = self.passages.last().map_or(0.0, |p| p.at[pause as usize]);
        let mut of_zone: Vec<Vec<Passage>> = vec![Vec::new(); geometry.zones()];
        for passage in self.passages.iter().filter(|p| p.op == self.leading()) {
            if periods.is_none() || passage.at[pause as usize] > end - WINDOW {
                of_zone[passage.zone].push(*passage);
            }
        }
        let mut order: Vec<usize> = (0..of_zone.len()).collect();
        order.sort_by_key(|&z| std::cmp::Reverse(of_zone[z].len()));
        for zone in order {
            let seen = &of_zone[zone];
            let known_from = self.zones[zone].map_or(0, |z| z.found_from);
            if seen.len() < FEWEST || (periods.is_none() && seen.len() * 2 < known_from * 3) {
                continue;
            }
            if let Some(angles) = self.zones[zone] {
                let found_from = seen.len();
                let angles = self.refined(geometry, zone, seen, Angles { found_from, ..angles }, pause);
                self.zones[zone] = Some(angles);
                continue;
            }
            let Some((period, angles)) = self.search_zone(geometry, zone, seen, periods, pause) else {
                continue;
            };
            if let Some(period) = period {
                (self.period, periods) = (period, None);
                self.followed = vec![(0.0, 0.0), (end, end / period)];
            }
            self.zones[zone] = Some(self.refined(geometry, zone, seen, angles, pause));
        }
    }

    /// The operation whose passages are looked at first.
    fn leading(&self) -> Op {
        let reads = self.passages.iter().filter(|p| p.op == Op::Read).count();
        if reads * 4 >= self.passages.len() { Op::Read } else { Op::Write }
    }

    /// The best angles of a zone, if they are no accident.
    fn search_zone(
        &self,
        geometry: &Geometry,
        zone: usize,
        seen: &[Passage],
        periods: Option<&[f64]>,
        pause: Pause,
    ) -> Option<(Option<f64>, Angles)> {
        let skew = geometry.skew(zone);
        let group = skew.group_cylinders;
        let (_, cylinders) = geometry.zone_cylinders(zone);
        let transform = Transform::of_at_least(((cylinders - 1) / group + 1) as usize * 2);
        let length = transform.length();
        let sectors = f64::from(geometry.track_sectors(zone));
        let stated = skew.head.0 as f64 / 2f64.powi(64);
        // Steps so small that no observation is off by more than a twentieth of a turn for them.
        let step = 0.1 / f64::from(geometry.surfaces().max(2) - 1);
        let reach = (HEAD_SKEW / sectors / step).ceil() as i32;
        let mut heads: Vec<f64> = (-reach..=reach).map(|i| stated + f64::from(i) * step).collect();
        heads.extend(self.zones.iter().flatten().map(|a| a.head).take(2));
        let steps = if group == 1 { 1 } else { 10 * (group - 1) };
        let within: Vec<f64> = (0..steps).map(|i| f64::from(i) / f64::from(steps)).collect();
        let tried = periods.map_or(1, <[f64]>::len) * heads.len() * within.len() * length / 2;
        let mut best =
            (0.0, None, Angles { origin: 0.0, head: 0.0, cylinder: 0.0, group: 0.0, found_from: 0 });
        let mut sums = vec![Complex::default(); length];
        let every: Vec<Option<f64>> = match periods {
            Some(periods) => periods.iter().copied().map(Some).collect(),
            None => vec![None],
        };
        for period in every {
            let at = |p: &Passage| match period {
                Some(period) => p.at[pause as usize] / period,
                None => self.spindle(p.at[pause as usize]),
            };
            let turns: Vec<f64> = seen.iter().map(|p| at(p) - p.sector).collect();
            for &head in &heads {
                for &cylinder in &within {
                    sums.fill(Complex::default());
                    for (p, turns) in seen.iter().zip(&turns) {
                        let rest =
                            turns - head * f64::from(p.step) - cylinder * f64::from(p.cylinder % group);
                        sums[(p.cylinder / group) as usize] += Complex::turn(rest);
                    }
                    transform.apply(&mut sums);
                    for (k, sum) in sums.iter().enumerate() {
                        if sum.square() > best.0 {
                            let group = k as f64 / length as f64;
                            let origin = sum.direction();
                            let found_from = seen.len();
                            best =
                                (sum.square(), period, Angles { origin, head, cylinder, group, found_from });
                        }
                    }
                }
            }
        }
        is_no_accident(best.0, seen.len(), tried).then_some((best.1, best.2))
    }

    /// Angles that fit best close to those that were found: least squares, a few times.
    fn refined(
        &self,
        geometry: &Geometry,
        zone: usize,
        seen: &[Passage],
        mut angles: Angles,
        pause: Pause,
    ) -> Angles {
        let group = geometry.skew(zone).group_cylinders;
        let (_, cylinders) = geometry.zone_cylinders(zone);
        let groups = f64::from(cylinders.div_ceil(group));
        // How far each may move: what was found is right to a step of the search.
        let moves = [0.003, if group > 1 { 0.003 } else { 1e-9 }, 0.5 / groups, 0.1];
        for _ in 0..4 {
            let off = |p: &Passage| self.spindle(p.at[pause as usize]) - angles.of(p, group);
            let sum = seen.iter().fold(Complex::default(), |s, p| s + Complex::turn(off(p)));
            angles.origin += sum.direction();
            let off = |p: &Passage| wrapped(self.spindle(p.at[pause as usize]) - angles.of(p, group));
            let near: Vec<(&Passage, f64)> =
                seen.iter().map(|p| (p, off(p))).filter(|p| p.1.abs() < 0.12).collect();
            if near.len() < 8 {
                break;
            }
            let (mut matrix, mut right) = ([[0.0; 4]; 4], [0.0; 4]);
            for (i, m) in moves.iter().enumerate() {
                matrix[i][i] = (0.03 / m).powi(2);
            }
            for (p, off) in near {
                let row =
                    [f64::from(p.step), f64::from(p.cylinder % group), f64::from(p.cylinder / group), 1.0];
                for i in 0..4 {
                    right[i] += row[i] * off;
                    for j in 0..4 {
                        matrix[i][j] += row[i] * row[j];
                    }
                }
            }
            let Some(step) = solve(matrix, right) else { break };
            angles.head += step[0];
            angles.cylinder += step[1];
            angles.group += step[2];
            angles.origin += step[3];
        }
        angles
    }
}

/// Whether a sum of unit vectors, of which `square` is the squared length, agrees more than the best of so many that were tried does by accident.
fn is_no_accident(square: f64, vectors: usize, tried: usize) -> bool {
    // The length of a sum of n unit vectors at random angles: exp(-n r^2) is the chance of an agreement above r.
    let agreement = square.sqrt() / vectors as f64;
    let accident = tried as f64 * (-(vectors as f64) * agreement * agreement).exp();
    agreement >= AGREES && accident < ACCIDENT
}

impl Angles {
    /// The angle of a sector, in turns.
    fn of(&self, p: &Passage, group: u32) -> f64 {
        self.origin
            + self.head * f64::from(p.step)
            + self.cylinder * f64::from(p.cylinder % group)
            + self.group * f64::from(p.cylinder / group)
            + p.sector
    }
}
