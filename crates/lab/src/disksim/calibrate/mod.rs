//! A model that learns from the requests before: what a host that watches its disk would do.
//!
//! The parameter files of a disk were extracted by experiments, and leave things out: the true speed of the spindle, the angles between tracks to less than a
//! sector, what firmware really does. Each request that was measured says something of them. The model predicts a request from those before it
//! only, and then hears how long it took.

mod firmware;
mod fourier;
mod phase;
mod positions;

use media::Nanos;
use media::disk::Op;
use media::disk::cache::{CacheConfig, Extent, Lookup, ReadAhead, Served};
use media::disk::geometry::Run;
use media::disk::mechanism::{Arm, SeekTable};
use media::disk::service::{Model, State};
use media::disk::spindle::Spindle;
use serde::Serialize;

use self::firmware::Firmware;
pub use self::phase::Pause;
use self::phase::{Passage, Phase};
use self::positions::{Positions, Way};
use super::layout::turn;
use super::spec::Spec;
use super::trace::Measured;

/// Requests of which the buffer's firmware is taken as stated, and that only say how fast the bus is.
const FIRST: usize = 250;
/// Requests after which the stated angles are first held against the requests: few are needed for that.
const LOOK: usize = 48;
/// Requests after which what is not followed request by request is searched anew: then each time there are a third more.
const SEARCH: usize = 400;
/// Requests after which times of positioning and the speed are set anew.
const SETTLE: usize = 50;
/// The bus of a disk that does not state it, until it is known: SCSI's 5 MB/s.
const BUS: f64 = 102_400.0;
/// Answers of the buffer that the time of the bus follows from.
const ANSWERS: usize = 400;
/// Requests of a class that its mean overhead follows, at most.
const MEAN: f64 = 200.0;
/// What the stated overhead counts, in requests.
const STATED: f64 = 3.0;

/// What was learned, for reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Learned {
    /// Revolutions per minute.
    pub rpm: f64,
    /// Where the pauses of the trace lie; none if the phase of the platters was never found.
    pub pause: Option<Pause>,
    /// Requests before the phase was found.
    pub phase_after: Option<usize>,
    /// Zones whose angles were found.
    pub zones: usize,
    /// Zones of the disk.
    pub of_zones: usize,
    /// Microseconds of a block on the bus.
    pub bus_us: f64,
    /// Whether writes are complete in the buffer.
    pub write_cache: bool,
    /// The firmware of the buffer.
    pub firmware: String,
}

/// A model that learns.
pub struct Calibrated {
    model: Model,
    bus: f64,
    positions: Positions,
    firmware: Firmware,
    phase: Phase,
    phase_after: Option<usize>,
    /// When the last request ended and how long the pause on its line is, if pauses lie behind requests, and if they lie before.
    ends: [u64; 2],
    pause: u64,
    before: media::disk::mechanism::Before,
    requests: usize,
    next_search: usize,
    /// Writes, and those that were too fast for the platters.
    writes: (f64, f64),
    /// Size and time of requests that the buffer answered, with their class.
    answers: Vec<(usize, f64, f64)>,
    /// Overheads of requests that the buffer answers, by operation, by that before, and by where the arm is.
    overheads: [[[Mean; 4]; 2]; 2],
}

impl Calibrated {
    /// A model as the parameter files have it.
    pub fn new(spec: &Spec) -> Calibrated {
        let mut model = spec.model.clone();
        fold_command_into_positioning(&mut model);
        let stated_bus = spec.bus_stated.then_some(model.overheads.block.0 as f64);
        Calibrated {
            bus: stated_bus.unwrap_or(BUS),
            positions: Positions::new(model.mechanism.positioning.clone()),
            firmware: Firmware::new(spec.cache),
            phase: Phase::new(period(&model.mechanism.spindle), model.mechanism.geometry.zones()),
            phase_after: None,
            ends: [0; 2],
            pause: 0,
            before: State::new(spec.cache).before,
            requests: 0,
            next_search: LOOK,
            writes: (0.0, if model.write_cache { 1.0 } else { 0.0 }),
            answers: Vec::new(),
            overheads: stated_overheads(&model),
            model,
        }
    }

    /// When the request is issued, if pauses lie behind requests, and if they lie before.
    fn issues(&self, request: &Measured) -> [u64; 2] {
        [self.ends[0] + self.pause, self.ends[1] + request.think.0]
    }

    fn issue(&self, request: &Measured) -> Nanos {
        let pause = self.phase.pause().unwrap_or(Pause::After);
        Nanos(self.issues(request)[pause as usize])
    }

    fn state(&self) -> State {
        State { before: self.before, cache: self.firmware.best().clone(), busy: Nanos::ZERO }
    }

    /// The response time of the next request, which is all that is asked of `request` but for its time.
    pub fn predict(&mut self, request: &Measured) -> Nanos {
        let now = self.issue(request);
        let run = self.model.mechanism.geometry.run(request.block, request.count);
        let kind = self.way(request.block, run).kind();
        let (op, before) = (request.op as usize, self.before.op as usize);
        self.model.overheads.block = Nanos(self.bus as u64);
        self.model.overheads.command[op][1][before] = Nanos(self.overheads[op][before][kind].value as u64);
        if let Some(turns) = self.phase.turns(request.op, now.0 as f64) {
            let rpm = 60e15 / self.phase.period();
            self.model.mechanism.spindle = Spindle::new(rpm as u64).with_angle(now, turn(turns));
        }
        let plan = self.model.plan(&self.state(), now, request.op, request.block, request.count);
        plan.complete.since(now)
    }

    /// The request took as long as it says.
    pub fn learn(&mut self, request: &Measured) {
        let &Measured { op, block, count, response, .. } = request;
        let now = self.issue(request);
        let issues = self.issues(request);
        let run = self.model.mechanism.geometry.run(block, count);
        let hit = self.answered(request);
        if op == Op::Write {
            self.writes.0 += 1.0;
            self.writes.1 += f64::from(u8::from(hit));
            if self.writes.0 >= 40.0 {
                self.model.write_cache = self.writes.1 > self.writes.0 / 2.0;
            }
        }
        if op == Op::Read && self.requests > FIRST {
            self.firmware.judge(now, block, count, hit);
        }
        self.learn_bus(request);
        if hit {
            self.learn_overhead(request, run);
        } else {
            self.learn_passage(request, run, issues);
        }
        let over = now + response;
        let zone = run.place.zone as usize;
        let geometry = &self.model.mechanism.geometry;
        let last = geometry.place(block + u64::from(count) - 1);
        let block_time = self.model.block_time(zone);
        self.firmware.note(geometry, &Served { op, range: (block, count), last, at: over, hit, block_time });
        self.before.op = op;
        self.before.next = block + u64::from(count);
        self.before.arm = last.into();
        self.ends = issues.map(|issue| issue + response.0);
        self.pause = request.think.0;
        self.requests += 1;
        self.search();
    }

    /// Whether the buffer answered: the request was too fast for the platters.
    fn answered(&self, request: &Measured) -> bool {
        let fastest = self.model.overheads.command[request.op as usize][1][self.before.op as usize].0 as f64;
        let slack = (self.phase.period() / 8.0).min(900_000.0);
        (request.response.0 as f64) < fastest + self.bus * f64::from(request.count) + slack
    }

    /// The bus: the slope of the time over the size, among requests that the buffer answered or should have.
    fn learn_bus(&mut self, request: &Measured) {
        let class = request.op as usize * 2 + self.before.op as usize;
        let likely = match request.op {
            Op::Write => self.model.write_cache,
            Op::Read if self.requests > FIRST => {
                let now = self.issue(request);
                self.firmware.best().lookup(now, request.block, request.count) == Lookup::Hit
            }
            Op::Read => {
                self.before.op == Op::Read && (0..64).contains(&request.block.wrapping_sub(self.before.next))
            }
        };
        if !likely {
            return;
        }
        self.answers.push((class, f64::from(request.count), request.response.0 as f64));
        // The first slope is wanted soon, and the last ones move little.
        let n = self.answers.len();
        if n < 12 || (n >= 30 && !n.is_multiple_of(n / 10)) || n > 4 * ANSWERS {
            return;
        }
        let recent = &self.answers[n.saturating_sub(ANSWERS)..];
        let mut slopes = Vec::new();
        for (i, a) in recent.iter().enumerate() {
            for b in recent[..i].iter().rev().take(12) {
                if a.0 == b.0 && a.1 != b.1 {
                    slopes.push((a.2 - b.2) / (a.1 - b.1));
                }
            }
        }
        if slopes.len() > 8 {
            slopes.sort_by(f64::total_cmp);
            self.bus = slopes[slopes.len() / 2].clamp(1_000.0, 400_000.0);
        }
    }

    fn learn_overhead(&mut self, request: &Measured, run: Run) {
        let kind = self.way(request.block, run).kind();
        let completion = self.model.overheads.completion[request.op as usize].0 as f64;
        let took = request.response.0 as f64 - completion - self.bus * f64::from(request.count);
        self.overheads[request.op as usize][self.before.op as usize][kind].learn(took.max(0.0));
    }

    /// A request that the heads moved for.
    fn learn_passage(&mut self, request: &Measured, run: Run, issues: [u64; 2]) {
        let mechanism = &self.model.mechanism;
        let count = f64::from(request.count);
        let sector =
            self.phase.period() / f64::from(mechanism.geometry.track_sectors(run.place.zone as usize));
        let completion = self.model.overheads.completion[request.op as usize].0 as f64;
        // From the start of the first sector to the end of the request.
        let transfer = match request.op {
            Op::Read => (sector + self.bus * count).max(sector * count + self.bus),
            Op::Write => sector * count,
        };
        let reached = request.response.0 as f64 - completion - transfer;
        if run.count < request.count || reached < 0.0 {
            return;
        }
        let way = self.way(request.block, run);
        self.positions.learn(request.op, self.before.op, way, reached, self.phase.period());
        let place = run.place;
        let (first, _) = mechanism.geometry.zone_cylinders(place.zone as usize);
        let passage = Passage {
            op: request.op,
            at: issues.map(|issue| issue as f64 + reached),
            zone: place.zone as usize,
            cylinder: place.cylinder.saturating_sub(first),
            step: mechanism.geometry.step(place),
            sector: place.on_track.0 as f64 / 2f64.powi(64),
            stated: place.angle.0 as f64 / 2f64.powi(64),
        };
        self.phase.learn(&self.model.mechanism.geometry, passage);
    }

    fn way(&self, block: u64, run: Run) -> Way {
        let Arm { cylinder, head } = self.before.arm;
        match cylinder.abs_diff(run.place.cylinder) {
            0 if head != run.place.head => Way::HeadSwitch,
            0 if block == self.before.next => Way::Next,
            0 => Way::SameTrack,
            cylinders => Way::Seek(cylinders),
        }
    }

    fn search(&mut self) {
        if self.requests.is_multiple_of(SETTLE) {
            self.phase.follow_speed();
            self.model.mechanism.positioning = self.positions.positioning(self.phase.period());
        }
        if self.requests < self.next_search {
            return;
        }
        let next = self.requests * 4 / 3;
        // The large search has its own time, whenever the small ones were.
        self.next_search = if self.requests < SEARCH { next.min(SEARCH) } else { next };
        let geometry = &self.model.mechanism.geometry;
        if self.phase.pause().is_none() {
            self.phase.search_stated(geometry);
        }
        if self.requests >= SEARCH {
            self.phase.search(geometry);
        }
        if self.phase.pause().is_some() && self.phase_after.is_none() {
            self.phase_after = Some(self.requests);
        }
        for (zone, skew) in self.phase.skews(&self.model.mechanism.geometry).into_iter().enumerate() {
            if let Some(skew) = skew {
                self.model.mechanism.geometry.set_skew(zone, skew);
            }
        }
    }

    /// What was learned so far.
    pub fn learned(&self) -> Learned {
        Learned {
            rpm: 60e9 / self.phase.period(),
            pause: self.phase.pause(),
            phase_after: self.phase_after,
            zones: self.phase.known_zones(),
            of_zones: self.model.mechanism.geometry.zones(),
            bus_us: self.bus / 1e3,
            write_cache: self.model.write_cache,
            firmware: described(&self.firmware.best().config()),
        }
    }
}

/// The firmware of a buffer in words.
fn described(config: &CacheConfig) -> String {
    let when = match config.read_ahead {
        ReadAhead::Off => return format!("{} segments, no read-ahead", config.segments),
        ReadAhead::Always => "each read",
        ReadAhead::Sequential => "a read that follows another",
    };
    let extent = match config.extent {
        Extent::Blocks(n) => format!("{n} blocks"),
        Extent::Track => "to the end of the track".to_owned(),
        Extent::NextTrack => "to the end of the next track".to_owned(),
        Extent::Cylinder => "to the end of the cylinder".to_owned(),
    };
    let mut text = format!("{} segments, read-ahead of {extent} after {when}", config.segments);
    for (holds, what) in [
        (config.whole_track, "reads whole tracks of a stream"),
        (!config.keeps_read, "overwrites what was read"),
        (config.write_clears, "emptied by writes"),
        (config.written > 0, "keeps what was written"),
    ] {
        if holds {
            text = text + ", " + what;
        }
    }
    text
}

/// A mean that follows what it is told.
#[derive(Clone, Copy)]
struct Mean {
    value: f64,
    weight: f64,
}

impl Mean {
    fn learn(&mut self, value: f64) {
        self.weight = (self.weight + 1.0).min(MEAN);
        self.value += (value - self.value) / self.weight;
    }
}

fn stated_overheads(model: &Model) -> [[[Mean; 4]; 2]; 2] {
    let mean = |op: usize, before: usize| {
        [Mean { value: model.overheads.command[op][1][before].0 as f64, weight: STATED }; 4]
    };
    [[mean(0, 0), mean(0, 1)], [mean(1, 0), mean(1, 1)]]
}

/// Nanoseconds of a revolution.
fn period(spindle: &Spindle) -> f64 {
    let turned = spindle.angle(Nanos(1_000)) - spindle.angle(Nanos(0));
    1e3 * 2f64.powi(64) / turned.0 as f64
}

/// The overhead of a command that the cache does not answer becomes part of positioning: nobody can tell them apart from outside.
fn fold_command_into_positioning(model: &mut Model) {
    for op in [Op::Read, Op::Write] {
        let command = std::mem::take(&mut model.overheads.command[op as usize][0]);
        let positioning = &mut model.mechanism.positioning;
        for before in [Op::Read, Op::Write] {
            let on = &mut positioning.on_cylinder[op as usize][before as usize];
            for time in [&mut on.next, &mut on.same_track, &mut on.head_switch] {
                *time += command[before as usize];
            }
            let seek = &mut positioning.seek[op as usize][before as usize];
            let later = |d| if d == 0 { Nanos::ZERO } else { seek.time(d) + command[before as usize] };
            if let Ok(table) = SeekTable::new((0..seek.len() as u32).map(later)) {
                *seek = table;
            }
        }
    }
}
