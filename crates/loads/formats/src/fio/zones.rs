//! The zones of a job's region: which of them is written, read or reset next (`zonemode=zbd`).
//!
//! The job knows each write pointer, because nobody else writes in its region. So it never asks the drive in between. A zone has one
//! write under way at a time, or several appends.

use super::options::Direction;
use super::plan::Plan;
use super::stream::{Draw, Stream};
use blockdev::ZoneAction;
use workload::{Rng, Verb};

/// What can be done with a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneAccess {
    /// It can be read, written and reset.
    All,
    /// It can be read.
    Read,
    /// Nothing: it is offline.
    None,
}

/// A zone as the drive reports it, in logical blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zone {
    /// Its first block.
    pub start: u64,
    /// How many can be written.
    pub capacity: u64,
    /// How many are written, from its start on: all of a full one.
    pub written: u64,
    /// Whether it takes one of the resources of active zones: it is open or closed.
    pub active: bool,
    /// What can be done with it.
    pub access: ZoneAccess,
}

/// What a job does next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// An I/O.
    Io(Draw, Target),
    /// The state of a zone changes.
    Change(Target),
    /// Something that is under way must end first.
    Wait,
    /// There is nothing more to do.
    End,
}

/// What is asked of the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub verb: Verb,
    /// The byte where the request begins: of an append, the zone's first.
    pub at: u64,
    /// What it is to the zones, if there are some.
    pub task: Option<Task>,
}

/// What a request is to the zones: its zone, by its index.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    /// An I/O of the job.
    Io(u32),
    /// A reset before the job writes anything.
    Clear(u32),
    /// A reset because the zone is written again.
    Reuse(u32),
    /// The rest of the zone holds no block: it gives its resources back.
    Finish(u32),
}

impl Target {
    /// That of an I/O on a namespace without zones.
    #[inline]
    pub fn plain(draw: &Draw) -> Self {
        let verb = match draw.direction {
            Direction::Read => Verb::Read,
            Direction::Write => Verb::Write,
            Direction::Trim => Verb::Trim,
        };
        Self { verb, at: draw.offset, task: None }
    }
}

/// A zone of the region. Numbers are bytes.
#[derive(Clone, Debug)]
struct KnownZone {
    start: u64,
    capacity: u64,
    /// From its start on: what was given to writes, and what of it is written.
    given: u64,
    written: u64,
    /// Writes under way.
    writes: u32,
    /// A reset or a finish is under way.
    changing: bool,
    finished: bool,
    access: ZoneAccess,
}

impl KnownZone {
    /// What can still be given to writes.
    fn left(&self) -> u64 {
        match self.access {
            ZoneAccess::All if !self.finished => self.capacity - self.given,
            _ => 0,
        }
    }

    fn is_idle(&self) -> bool {
        self.writes == 0 && !self.changing
    }
}

/// Some of the zones: whether one is among them, and all of them, each in a few steps.
#[derive(Clone, Debug)]
struct Members {
    list: Vec<u32>,
    /// Where each zone stands in the list.
    places: Vec<Option<u32>>,
}

impl Members {
    fn new(zones: usize) -> Self {
        Self { list: Vec::new(), places: vec![None; zones] }
    }

    fn has(&self, zone: u32) -> bool {
        self.places[zone as usize].is_some()
    }

    fn insert(&mut self, zone: u32) {
        if !self.has(zone) {
            self.places[zone as usize] = Some(self.list.len() as u32);
            self.list.push(zone);
        }
    }

    fn remove(&mut self, zone: u32) {
        if let Some(place) = self.places[zone as usize].take() {
            self.list.swap_remove(place as usize);
            if let Some(&moved) = self.list.get(place as usize) {
                self.places[moved as usize] = Some(place);
            }
        }
    }
}

/// Which zone a write goes to.
enum Choice {
    Write(u32),
    /// This one is full: it is reset first.
    Reset(u32),
    /// None now.
    Nothing,
    /// The job's passes are over.
    End,
}

/// What a job has decided of zones.
#[derive(Clone, Copy, Debug)]
struct Rules {
    random: bool,
    append: bool,
    /// One append at a time in a zone, so that its place is known.
    alone: bool,
    /// What is written is looked at when all is full, and not written again.
    keep: bool,
    beyond_wp: bool,
    writes: bool,
    trims: bool,
    /// Smallest blocks: read, write, trim.
    least: [u64; 3],
    zone_bytes: u64,
    /// Passes that end the job, if they do.
    loops: Option<u64>,
    /// Less than so much left ends the job with a pass, if that does.
    largest: u64,
    /// Bytes written from which on zones are reset, and writes between two resets.
    resets: Option<(u64, u64)>,
}

/// The zones of a job's region.
#[derive(Clone, Debug)]
pub(super) struct Zones {
    zones: Vec<KnownZone>,
    rules: Rules,
    rng: Rng,
    /// Zones that are written, or about to be: no more than `most_open`.
    open: Members,
    most_open: usize,
    /// Zones with something to read; of a job that trims, something to reset.
    filled: Members,
    /// To be reset before anything is written, and resets of that kind under way.
    to_clear: Vec<u32>,
    clearing: u32,
    to_finish: Vec<u32>,
    /// Writes and changes under way.
    under_way: u32,
    /// Bytes given to writes in all zones.
    given: u64,
    /// Writes until the next reset above the threshold, and whether one is due.
    countdown: u64,
    reset_due: bool,
    /// Where a job in order is: the zone that it writes (just arrived there?), what it reads, the zone that it resets.
    write_at: u32,
    arrived: bool,
    read_at: (u32, u64),
    trim_at: u32,
    passes: u64,
    verified: (u32, u64),
}

impl Zones {
    /// The zones of a plan's region; `zones` are all of the namespace. The job may have so many open.
    ///
    /// # Errors
    /// The job can do nothing in these zones.
    pub fn new(plan: &Plan, zones: &[Zone], most_open: usize) -> Result<Self, String> {
        let options = &plan.options;
        let [_, writes, trims] = options.rw.does;
        let known: Vec<KnownZone> = region(plan, zones).map(|zone| known(zone, plan.block_bytes)).collect();
        let zone_bytes = plan.zone_bytes();
        if known.len() as u64 * zone_bytes != plan.size {
            return Err("the drive has not reported all zones of its region".to_owned());
        }
        let least = [0, 1, 2].map(|direction: usize| options.sizes[direction].least());
        let capacity: u64 = known.iter().map(|zone| zone.capacity).sum();
        let threshold = u128::from(capacity) * u128::from(options.zones.reset_threshold)
            / u128::from(super::value::MILLION);
        let interval = options.zones.reset_interval();
        let rules = Rules {
            random: options.rw.random,
            append: options.zones.append,
            alone: options.verify.is_some(),
            keep: options.verify.is_some() && !options.time_based,
            beyond_wp: options.zones.read_beyond_wp,
            writes,
            trims,
            least: if trims { [1; 3] } else { least },
            zone_bytes,
            loops: (options.io_size.is_none() && !options.time_based).then_some(options.loops),
            largest: if options.time_based { 0 } else { options.largest_block() },
            resets: interval.map(|interval| (u64::try_from(threshold).unwrap_or(u64::MAX), interval)),
        };
        let count = known.len();
        let mut all = Self {
            given: known.iter().map(|zone| zone.given).sum(),
            rng: Rng::new(plan.seed ^ 0x5A4F_4E45),
            open: Members::new(count),
            filled: Members::new(count),
            to_clear: Vec::new(),
            clearing: 0,
            to_finish: Vec::new(),
            under_way: 0,
            countdown: interval.unwrap_or(0),
            reset_due: false,
            write_at: 0,
            arrived: true,
            read_at: (0, 0),
            trim_at: 0,
            passes: 0,
            verified: (0, 0),
            zones: known,
            rules,
            most_open,
        };
        all.begin(plan, region(plan, zones).map(|zone| zone.active))?;
        Ok(all)
    }

    /// Looks at what the zones hold when the job begins.
    fn begin(&mut self, plan: &Plan, active: impl Iterator<Item = bool>) -> Result<(), String> {
        let Rules { writes, alone, least, .. } = self.rules;
        let does = plan.options.rw.does;
        // What was there before is not what the job would verify.
        let clears = writes && alone && !plan.options.verify_only;
        for (index, active) in (0u32..).zip(active) {
            let zone = &self.zones[index as usize];
            if clears && zone.access == ZoneAccess::All && zone.given > 0 {
                self.to_clear.push(index);
                continue;
            }
            if writes && active {
                self.open.insert(index);
                if zone.left() < least[Direction::Write as usize] {
                    self.to_finish.push(index);
                }
            }
            self.note_filled(index);
        }
        // The first is reset first.
        self.to_clear.reverse();
        if !writes {
            return Ok(());
        }
        if self.open.list.len() > self.most_open {
            return Err(format!(
                "{} zones of its region are written in part, and it may have {} open: finish or reset some (tranche zone \
                 finish), or change max_open_zones",
                self.open.list.len(),
                self.most_open
            ));
        }
        let writable = self.zones.iter().filter(|zone| zone.access == ZoneAccess::All);
        match writable.map(|zone| zone.capacity).max() {
            None => Err("no zone of its region can be written: they are read only or offline".to_owned()),
            Some(most) if most < least[Direction::Write as usize] && does[Direction::Write as usize] => {
                Err(format!(
                    "a block size of {} bytes is more than a zone holds, {most} bytes: reduce bs",
                    least[Direction::Write as usize]
                ))
            }
            Some(_) => Ok(()),
        }
    }

    /// What the job does next in this direction, when so many of its bytes are left. A read where nothing is to be read becomes a write
    /// of a job that writes.
    pub fn step(&mut self, direction: Direction, stream: &mut Stream, left: u64) -> Step {
        match direction {
            Direction::Read => match self.read(stream, left) {
                Some(step) => step,
                None if self.rules.writes => self.write(stream, left),
                None => Step::End,
            },
            Direction::Write => self.write(stream, left),
            Direction::Trim => self.trim(left),
        }
    }

    /// A request has succeeded.
    pub fn completed(&mut self, task: Task, draw: Option<Draw>) {
        let (Task::Io(index) | Task::Clear(index) | Task::Reuse(index) | Task::Finish(index)) = task;
        if let (Task::Io(_), Some(Draw { direction: Direction::Read, .. })) = (task, draw) {
            return;
        }
        self.under_way -= 1;
        let zone = &mut self.zones[index as usize];
        match (task, draw) {
            (Task::Io(_), Some(Draw { direction: Direction::Write, bytes, .. })) => {
                zone.writes -= 1;
                zone.written += bytes;
                let (left, idle) = (zone.left(), zone.is_idle());
                self.note_filled(index);
                if idle && left == 0 {
                    self.open.remove(index);
                } else if idle && left < self.rules.least[Direction::Write as usize] {
                    self.to_finish.push(index);
                }
            }
            (Task::Reuse(_), _) => zone.changing = false,
            (Task::Finish(_), _) => {
                (zone.changing, zone.finished) = (false, true);
                self.open.remove(index);
            }
            (Task::Clear(_) | Task::Io(_), _) => {
                zone.changing = false;
                self.clearing -= u32::from(matches!(task, Task::Clear(_)));
                self.open.remove(index);
            }
        }
    }

    /// A job that ends leaves no zone open whose rest holds no block: the next of those to be finished.
    pub fn finish(&mut self) -> Option<Target> {
        let index = self.to_finish.pop()?;
        match self.change(index, ZoneAction::Finish, Task::Finish(index)) {
            Step::Change(target) => Some(target),
            Step::Io(..) | Step::Wait | Step::End => None,
        }
    }

    /// The next I/O that verifies what is in the zones, of so many bytes at most; parts are multiples of `unit`.
    pub fn verify(&mut self, most: u64, unit: u64) -> Option<(Draw, Target)> {
        loop {
            let (index, at) = self.verified;
            let zone = self.zones.get(index as usize)?;
            let end = if zone.access == ZoneAccess::All { zone.written / unit * unit } else { 0 };
            if at >= end {
                self.verified = (index + 1, 0);
                continue;
            }
            let bytes = (end - at).min(most);
            self.verified.1 += bytes;
            let draw = Draw { direction: Direction::Read, offset: zone.start + at, bytes };
            return Some((draw, Target { task: Some(Task::Io(index)), ..Target::plain(&draw) }));
        }
    }

    fn note_filled(&mut self, index: u32) {
        let zone = &self.zones[index as usize];
        let least = self.rules.least[Direction::Read as usize];
        let to_read = if self.rules.beyond_wp { zone.capacity } else { zone.written };
        let usable = match self.rules.trims {
            true => zone.access == ZoneAccess::All,
            false => zone.access != ZoneAccess::None,
        };
        if usable && to_read >= least && !zone.changing {
            self.filled.insert(index);
        }
    }

    fn change(&mut self, index: u32, action: ZoneAction, task: Task) -> Step {
        let zone = &mut self.zones[index as usize];
        zone.changing = true;
        self.under_way += 1;
        if action == ZoneAction::Reset {
            self.given -= zone.given;
            (zone.given, zone.written, zone.finished) = (0, 0, false);
            if !self.rules.beyond_wp {
                self.filled.remove(index);
            }
            if matches!(task, Task::Reuse(_)) {
                self.open.insert(index);
            }
        }
        Step::Change(Target { verb: Verb::Zone(action), at: zone.start, task: Some(task) })
    }

    fn write(&mut self, stream: &mut Stream, left: u64) -> Step {
        if let Some(index) = self.to_clear.pop() {
            self.clearing += 1;
            return self.change(index, ZoneAction::Reset, Task::Clear(index));
        }
        if self.clearing > 0 {
            return Step::Wait;
        }
        if let Some(index) = self.to_finish.pop() {
            return self.change(index, ZoneAction::Finish, Task::Finish(index));
        }
        let choice = match self.rules.random {
            true => self.any_zone(),
            false => self.next_zone(left),
        };
        match choice {
            Choice::Write(index) => {
                let zone = &self.zones[index as usize];
                if self.reset_due && self.above_threshold().is_some() && zone.given > 0 && zone.is_idle() {
                    self.reset_due = false;
                    return self.change(index, ZoneAction::Reset, Task::Reuse(index));
                }
                self.write_to(index, stream)
            }
            Choice::Reset(index) => self.change(index, ZoneAction::Reset, Task::Reuse(index)),
            Choice::Nothing if self.under_way > 0 => Step::Wait,
            Choice::Nothing | Choice::End => Step::End,
        }
    }

    fn write_to(&mut self, index: u32, stream: &mut Stream) -> Step {
        let zone = &mut self.zones[index as usize];
        let Some(bytes) = stream.size(Direction::Write, zone.left()) else { return Step::End };
        let draw = Draw { direction: Direction::Write, offset: zone.start + zone.given, bytes };
        let (verb, at) = match self.rules.append {
            true => (Verb::Append, zone.start),
            false => (Verb::Write, draw.offset),
        };
        zone.given += bytes;
        zone.writes += 1;
        self.given += bytes;
        self.under_way += 1;
        self.open.insert(index);
        if let Some(interval) = self.above_threshold() {
            self.countdown -= 1;
            if self.countdown == 0 {
                (self.countdown, self.reset_due) = (interval, true);
            }
        }
        Step::Io(draw, Target { verb, at, task: Some(Task::Io(index)) })
    }

    /// Writes between two resets, if so much is written that zones are reset.
    fn above_threshold(&self) -> Option<u64> {
        self.rules.resets.filter(|(threshold, _)| self.given >= *threshold).map(|(_, interval)| interval)
    }

    /// Whether a zone takes a write now.
    fn takes(&self, index: u32) -> bool {
        let zone = &self.zones[index as usize];
        let several = self.rules.append && !self.rules.alone;
        !zone.changing
            && (zone.writes == 0 || several)
            && zone.left() >= self.rules.least[Direction::Write as usize]
    }

    /// Any of the zones that are open; all of the others while no more than these may be.
    fn any_zone(&mut self) -> Choice {
        if self.open.list.len() >= self.most_open {
            return self.open_zone();
        }
        let count = self.zones.len() as u64;
        let first = self.rng.below(count);
        for step in 0..count {
            let index = ((first + step) % count) as u32;
            let zone = &self.zones[index as usize];
            if self.takes(index) {
                return Choice::Write(index);
            }
            let full = zone.left() < self.rules.least[Direction::Write as usize];
            if zone.access == ZoneAccess::All && full && zone.is_idle() && !self.rules.keep {
                return Choice::Reset(index);
            }
        }
        Choice::Nothing
    }

    /// Any open zone that takes a write now.
    fn open_zone(&mut self) -> Choice {
        let list = &self.open.list;
        if list.is_empty() {
            return Choice::Nothing;
        }
        let first = self.rng.below(list.len() as u64) as usize;
        let turned = list[first..].iter().chain(&list[..first]);
        turned.copied().find(|index| self.takes(*index)).map_or(Choice::Nothing, Choice::Write)
    }

    /// The zone that is next in order.
    fn next_zone(&mut self, left: u64) -> Choice {
        for _ in 0..=2 * self.zones.len() {
            let index = self.write_at;
            let zone = &self.zones[index as usize];
            let room = self.open.has(index) || self.open.list.len() < self.most_open;
            if zone.left() >= self.rules.least[Direction::Write as usize] {
                return match (self.takes(index), room) {
                    (false, _) => Choice::Nothing,
                    (true, false) => self.open_zone(),
                    (true, true) => {
                        self.arrived = false;
                        Choice::Write(index)
                    }
                };
            }
            if zone.access == ZoneAccess::All && self.arrived && !self.rules.keep {
                return match (zone.is_idle(), room) {
                    (false, _) => Choice::Nothing,
                    (true, false) => self.open_zone(),
                    (true, true) => {
                        self.arrived = false;
                        Choice::Reset(index)
                    }
                };
            }
            (self.write_at, self.arrived) = (index + 1, true);
            if self.write_at as usize == self.zones.len() {
                self.write_at = 0;
                if self.pass_ends(left) {
                    return Choice::End;
                }
            }
        }
        Choice::Nothing
    }

    /// Another pass over the region is over; whether the job ends with it.
    fn pass_ends(&mut self, left: u64) -> bool {
        self.passes += 1;
        left < self.rules.largest || self.rules.loops.is_some_and(|loops| self.passes >= loops)
    }

    /// `None` if there is nothing to read.
    fn read(&mut self, stream: &mut Stream, left: u64) -> Option<Step> {
        let beyond = self.rules.beyond_wp;
        let limit = |zone: &KnownZone| if beyond { zone.capacity } else { zone.written };
        if self.rules.random {
            let list = &self.filled.list;
            let index = *list.get(self.rng.below(list.len().max(1) as u64) as usize)?;
            let limit = limit(&self.zones[index as usize]);
            let bytes = stream.size(Direction::Read, limit)?;
            let unit = self.rules.least[Direction::Read as usize];
            let at = self.rng.below((limit - bytes) / unit + 1) * unit;
            return Some(self.read_from(index, at, bytes));
        }
        for _ in 0..=2 * self.zones.len() {
            let (index, at) = self.read_at;
            let end = if self.filled.has(index) { limit(&self.zones[index as usize]) } else { 0 };
            if let Some(bytes) = stream.size(Direction::Read, end.saturating_sub(at)) {
                self.read_at.1 += bytes;
                return Some(self.read_from(index, at, bytes));
            }
            self.read_at = (index + 1, 0);
            if self.read_at.0 as usize == self.zones.len() {
                self.read_at.0 = 0;
                // Of a job that also writes, it is the writes that end it.
                if !self.rules.writes && self.pass_ends(left) {
                    return Some(Step::End);
                }
            }
        }
        None
    }

    fn read_from(&self, index: u32, at: u64, bytes: u64) -> Step {
        let offset = self.zones[index as usize].start + at;
        let draw = Draw { direction: Direction::Read, offset, bytes };
        Step::Io(draw, Target { task: Some(Task::Io(index)), ..Target::plain(&draw) })
    }

    /// Resets a zone that is not empty. It counts as all of its bytes.
    fn trim(&mut self, left: u64) -> Step {
        let found = match self.rules.random {
            true => {
                let list = &self.filled.list;
                list.get(self.rng.below(list.len().max(1) as u64) as usize).copied()
            }
            false => loop {
                let index = self.trim_at;
                if index as usize == self.zones.len() {
                    self.trim_at = 0;
                    if self.filled.list.is_empty() || self.pass_ends(left) {
                        break None;
                    }
                    continue;
                }
                self.trim_at += 1;
                if self.filled.has(index) {
                    break Some(index);
                }
            },
        };
        let Some(index) = found else { return Step::End };
        let Step::Change(target) = self.change(index, ZoneAction::Reset, Task::Io(index)) else {
            return Step::End;
        };
        let draw = Draw { direction: Direction::Trim, offset: target.at, bytes: self.rules.zone_bytes };
        Step::Io(draw, target)
    }
}

/// The zones of a plan's region, in order.
fn region<'a>(plan: &Plan, zones: &'a [Zone]) -> impl Iterator<Item = &'a Zone> + use<'a> {
    let (first, end) = (plan.blocks(plan.start), plan.blocks(plan.start + plan.size));
    zones.iter().filter(move |zone| zone.start >= first && zone.start < end)
}

fn known(zone: &Zone, block: u64) -> KnownZone {
    let written = zone.written.min(zone.capacity) * block;
    KnownZone {
        start: zone.start * block,
        capacity: zone.capacity * block,
        given: written,
        written,
        writes: 0,
        changing: false,
        finished: false,
        access: zone.access,
    }
}
