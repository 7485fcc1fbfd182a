//! A cache, what happens to it, and what must be true then.

use super::disk::{Disk, Power};
use super::oracle::{Oracle, SECTOR, Stamp, contents};
use crate::stack::composite::{Composite, Devices, Machine};
use crate::{BlockDevice, Completed, Geometry, Nanos, Operation, Verb};
use rng::Rng;
use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::ops::Range;

const SECOND: Nanos = 1_000_000_000;

/// The block device that a [`Subject`] makes.
pub type Made<S> = Composite<<S as Subject>::Machine, <S as Subject>::Devices>;

type Control<S> = <<S as Subject>::Machine as Machine>::Control;
type ControlError<S> = <<S as Subject>::Machine as Machine>::ControlError;
type OpenError<S> = <<S as Subject>::Machine as Machine>::OpenError;

/// How often what happens, of a thousand steps. What is left are devices that vanish.
#[derive(Clone, Copy, Debug)]
pub struct Odds {
    /// A request begins.
    pub request: u64,
    /// Time passes until something happens.
    pub pass: u64,
    /// Seconds pass.
    pub wait: u64,
    /// Everything is read.
    pub compare: u64,
    /// A change while it runs.
    pub change: u64,
    /// It is shut down in order, and opened again.
    pub close: u64,
    /// The process dies.
    pub kill: u64,
    /// The power goes when nothing is handed over.
    pub cut: u64,
    /// The power goes after some more calls of devices.
    pub later_cut: u64,
    /// Requests of a device fail for a while.
    pub fail: u64,
    /// One of the next flushes of a device fails. The device reports that once, and has lost some of what was not flushed.
    pub fail_flush: u64,
}

/// A design of a cache, with what the model has to know of it: a random configuration, and what it may refuse.
pub trait Subject: Sized {
    /// Its state machine.
    type Machine: Machine<Control: Copy + Debug, ControlError: Display, OpenError: Display>;
    /// Its devices, all of them [`Disk`]s.
    type Devices: Devices<<Self::Machine as Machine>::Device>;

    /// How often what happens.
    const ODDS: Odds;

    /// Chooses sizes, and makes the devices. The first is the origin.
    fn new(rng: &mut Rng, power: &Power, seed: u64) -> (Self, Vec<Disk>);

    /// Chooses another configuration for the next opening.
    fn configure(&mut self, rng: &mut Rng);

    /// The configuration in words.
    fn shown(&self) -> String;

    /// Begins to make a cache with this seed, or to open the one that is there.
    ///
    /// # Errors
    /// It cannot be.
    fn begin(&self, create: Option<u64>, disks: &[Disk], now: Nanos) -> Result<Made<Self>, OpenError<Self>>;

    /// It did not open. Whether it may with what this changes.
    fn reconsiders(&mut self, _: &OpenError<Self>) -> bool {
        false
    }

    /// Adds what the cache has counted, before it is gone.
    fn note(&mut self, machine: &Self::Machine);

    /// Where a request goes: first block and length, at most `most` blocks. `tag` counts requests.
    fn range(&self, rng: &mut Rng, geometry: &Geometry, most: u64, tag: u32) -> (u64, u64);

    /// A change of a cache that runs.
    fn change(&self, rng: &mut Rng) -> Control<Self>;

    /// The change that shuts it down.
    fn close() -> Control<Self>;

    /// Whether it may refuse a change like this. `failing`: requests of devices fail.
    fn may_refuse(&self, error: &ControlError<Self>, failing: bool) -> bool;

    /// A change has been made.
    fn changed(&mut self, _: Control<Self>) {}

    /// Devices come back after it was shut down while one was failing or gone.
    fn come_back(&self, rng: &mut Rng, disks: &[Disk]);

    /// It is shut down: devices may get another size. Returns the time, if it was opened for that and not shut down again.
    fn resize(&mut self, _: &mut Rng, _: &mut [Disk], _: &Power, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// Blocks or chunks that only the cache has.
    fn dirty(machine: &Self::Machine) -> u32;

    /// Devices that vanish together, by their numbers.
    fn vanishing(rng: &mut Rng) -> Vec<usize>;

    /// Whether it serves every request all the same when these vanish, as long as nothing else fails.
    fn outlives(machine: &Self::Machine, vanishing: &[usize]) -> bool;
}

/// What happened in a run.
#[derive(Clone, Copy, Default, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Counts {
    pub steps: u64,
    pub flushes: u64,
    pub power_cuts: u64,
    pub cuts_in_opening: u64,
    pub kills: u64,
    pub vanished: u64,
    pub closed: u64,
    pub changes: u64,
    pub failed_requests: u64,
    /// Blocks that a failed flush lost.
    pub lost_blocks: u64,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.flushes += other.flushes;
        self.power_cuts += other.power_cuts;
        self.cuts_in_opening += other.cuts_in_opening;
        self.kills += other.kills;
        self.vanished += other.vanished;
        self.closed += other.closed;
        self.changes += other.changes;
        self.failed_requests += other.failed_requests;
        self.lost_blocks += other.lost_blocks;
    }

    /// Whether everything happened at least once.
    #[must_use]
    pub fn has_all(&self) -> bool {
        let Self { flushes, power_cuts, cuts_in_opening, kills, vanished, closed, changes, .. } = *self;
        let all =
            [flushes, power_cuts, cuts_in_opening, kills, vanished, closed, changes, self.failed_requests];
        !all.contains(&0)
    }
}

/// A request under way.
struct UnderWay {
    operation: Operation,
    stamp: Stamp,
    /// The oracle's clock when it began.
    began: u64,
}

/// A cache with its devices, what is under way, and what may be true.
pub struct World<S: Subject> {
    seed: u64,
    rng: Rng,
    power: Power,
    disks: Vec<Disk>,
    subject: S,
    open: Option<Made<S>>,
    now: Nanos,
    oracle: Oracle,
    under_way: BTreeMap<u32, UnderWay>,
    next_tag: u32,
    next_stamp: Stamp,
    /// Requests may fail: a device fails or is gone.
    failing: bool,
    /// They may not all the same: it [outlives](Subject::outlives) what is gone.
    outlived: bool,
    doing: &'static str,
    counts: Counts,
}

impl<S: Subject> World<S> {
    /// A new cache.
    ///
    /// # Panics
    /// It cannot be made.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let power = Power::default();
        let (subject, disks) = S::new(&mut rng, &power, seed);
        let origin = disks[0].geometry();
        let mut world = Self {
            oracle: Oracle::new(origin.blocks * u64::from(origin.block_size) / SECTOR as u64),
            seed,
            rng,
            power,
            disks,
            subject,
            open: None,
            now: 0,
            under_way: BTreeMap::new(),
            next_tag: 0,
            next_stamp: 1,
            failing: false,
            outlived: false,
            doing: "making",
            counts: Counts::default(),
        };
        world.subject.configure(&mut world.rng);
        if let Err(error) = world.try_open(Some(seed)) {
            world.fail(&format!("it cannot be made: {error}"));
        }
        world
    }

    /// Lets so many things happen. Returns what did, and the subject with its own counts.
    ///
    /// # Panics
    /// Something is not as promised. The message has the seed and the step.
    pub fn run(mut self, steps: u64) -> (Counts, S) {
        for _ in 0..steps {
            self.counts.steps += 1;
            self.step();
            if self.power.is_off() {
                self.crash(true);
            }
        }
        self.settle();
        if self.power.is_off() {
            self.crash(true);
        }
        self.compare();
        self.note();
        self.counts.lost_blocks = self.disks.iter().map(Disk::lost).sum();
        (self.counts, self.subject)
    }

    fn fail(&self, why: &str) -> ! {
        let shown = self.subject.shown();
        panic!("seed {}, step {}, {} ({shown}): {why}", self.seed, self.counts.steps, self.doing);
    }

    fn it(&mut self) -> &mut Made<S> {
        self.open.as_mut().expect("the cache is open")
    }

    /// Makes or opens a cache with the present configuration.
    fn try_open(&mut self, create: Option<u64>) -> Result<(), OpenError<S>> {
        let mut now = self.now;
        let mut left = 100_000;
        let begun = self.subject.begin(create, &self.disks, now)?;
        let opened = begun.until_open(|it| {
            left -= 1;
            assert!(left > 0, "seed {}: it never opens", self.seed);
            now = match it.next_work() {
                Nanos::MAX => now + SECOND,
                next => next.max(now),
            };
            now
        });
        self.now = now;
        self.open = Some(opened?);
        Ok(())
    }

    fn note(&mut self) {
        if let Some(open) = &self.open {
            self.subject.note(open.core());
        }
    }

    fn step(&mut self) {
        let odds = S::ODDS;
        let mut at = self.rng.below(1000);
        let mut is = |odds: u64| {
            let is = at < odds;
            at = if is { u64::MAX } else { at - odds };
            is
        };
        if is(odds.request) {
            self.request();
        } else if is(odds.pass) {
            self.pass();
        } else if is(odds.wait) {
            self.wait_long();
        } else if is(odds.compare) {
            self.compare();
        } else if is(odds.change) {
            self.change();
        } else if is(odds.close) {
            self.close();
        } else if is(odds.kill) {
            self.crash(false);
        } else if is(odds.cut) {
            self.doing = "losing power";
            self.crash(true);
        } else if is(odds.later_cut) {
            let calls = self.rng.below(80);
            self.power.fails_after(calls + 1);
        } else if is(odds.fail) {
            self.devices_fail();
        } else if is(odds.fail_flush) {
            self.flush_fails();
        } else {
            self.vanish();
        }
    }

    /// A range of blocks on which nothing is under way.
    fn range(&mut self) -> Option<(u64, u32)> {
        let geometry = self.open.as_ref()?.geometry();
        let Geometry { blocks, limits, .. } = geometry;
        let most = u64::from(limits.transfer.min(limits.write_zeroes).min(limits.deallocate));
        let (lba, length) = self.subject.range(&mut self.rng, &geometry, most, self.next_tag);
        let length = length.min(blocks - lba).min(most);
        let end = lba + length;
        let overlaps = |it: &UnderWay| {
            let Operation { lba: begin, blocks, .. } = it.operation;
            lba < begin + u64::from(blocks) && begin < end
        };
        (!self.under_way.values().any(overlaps)).then_some((lba, length as u32))
    }

    fn request(&mut self) {
        self.doing = "a request";
        if self.it().room() == 0 || self.under_way.len() > 8 {
            return self.pass();
        }
        let verb = match self.rng.below(20) {
            0..6 => Verb::Read,
            6 => Verb::ReadFua,
            7..13 => Verb::Write,
            13 | 14 => Verb::WriteFua,
            15 => Verb::WriteZeroes { deallocate: self.rng.below(2) == 0 },
            16 => Verb::Trim,
            _ => Verb::Flush,
        };
        let (lba, blocks) = match verb {
            Verb::Flush => (0, 0),
            _ => match self.range() {
                Some(range) => range,
                None => return self.pass(),
            },
        };
        self.submit(Operation { verb, lba, blocks });
    }

    /// Sectors of the origin that an operation is about.
    fn sectors(&self, operation: &Operation) -> Range<u64> {
        let per = self.open.as_ref().map_or(1, |it| u64::from(it.block_size()) / SECTOR as u64);
        operation.lba * per..(operation.lba + u64::from(operation.blocks)) * per
    }

    fn submit(&mut self, operation: Operation) {
        let tag = self.next_tag;
        self.next_tag += 1;
        let stamp = match operation.verb {
            Verb::Write | Verb::WriteFua => {
                self.next_stamp += 1;
                self.next_stamp
            }
            _ => 0,
        };
        let sectors = self.sectors(&operation);
        let data = match operation.verb {
            Verb::Write | Verb::WriteFua => {
                sectors.clone().flat_map(|sector| contents(sector, stamp)).collect()
            }
            Verb::Read | Verb::ReadFua => vec![0xA5; (sectors.end - sectors.start) as usize * SECTOR],
            _ => Vec::new(),
        };
        let began = self.oracle.clock();
        if !matches!(operation.verb, Verb::Read | Verb::ReadFua | Verb::Flush) {
            for sector in sectors {
                self.oracle.begin(sector, stamp, operation.verb == Verb::Trim);
            }
        }
        self.under_way.insert(tag, UnderWay { operation, stamp, began });
        let now = self.now;
        let Ok(()) = self.it().submit(now, tag, &operation, data);
    }

    /// Takes what has ended.
    fn take(&mut self) {
        loop {
            let now = self.now;
            let Ok(done) = self.it().poll(now);
            // What ends when the power is off is no answer.
            if self.power.is_off() {
                return;
            }
            let Some(done) = done else { return };
            self.ended(done);
        }
    }

    fn ended(&mut self, done: Completed) {
        let Completed { tag, status, data } = done;
        let Some(UnderWay { operation, stamp, began }) = self.under_way.remove(&tag) else {
            self.fail(&format!("the tag {tag} is not under way"));
        };
        let ok = status.is_success();
        if !ok {
            self.counts.failed_requests += 1;
            if !self.failing || self.outlived {
                self.fail(&format!("{operation:?}: {status}"));
            }
        }
        let sectors = self.sectors(&operation);
        match operation.verb {
            Verb::Read | Verb::ReadFua if ok => {
                for (sector, found) in sectors.zip(data.chunks_exact(SECTOR)) {
                    if let Some(objection) = self.oracle.read(sector, found) {
                        self.fail(&format!("{operation:?}: {objection}"));
                    }
                }
            }
            Verb::Read | Verb::ReadFua => {}
            Verb::Flush if ok => {
                self.counts.flushes += 1;
                self.oracle.flushed(began);
            }
            Verb::Flush => {}
            _ => {
                for sector in sectors {
                    self.oracle.end(sector, stamp, ok);
                    if ok && operation.verb == Verb::WriteFua {
                        self.oracle.durable(sector, stamp);
                    }
                }
            }
        }
    }

    /// Time passes until something happens.
    fn pass(&mut self) {
        self.now = match self.it().next_work() {
            Nanos::MAX => self.now + SECOND / 8,
            next => next.max(self.now),
        };
        self.take();
    }

    /// Time passes until everything has ended.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            if self.under_way.is_empty() || self.power.is_off() {
                return;
            }
            self.pass();
        }
        let waiting: Vec<&Operation> = self.under_way.values().map(|it| &it.operation).collect();
        self.fail(&format!("these never end: {waiting:?}"));
    }

    fn wait_long(&mut self) {
        self.doing = "waiting";
        let end = self.now + [1, 3, 40][self.rng.below(3) as usize] * SECOND;
        for _ in 0..10_000 {
            let next = self.it().next_work().max(self.now);
            if next > end || self.power.is_off() {
                break;
            }
            self.now = next;
            self.take();
        }
        self.now = self.now.max(end);
        self.take();
    }

    /// Reads everything.
    fn compare(&mut self) {
        self.settle();
        self.doing = "comparing";
        self.read_all(|oracle, sector, found| oracle.read(sector, found));
    }

    fn read_all(&mut self, mut check: impl FnMut(&mut Oracle, u64, &[u8]) -> Option<String>) {
        if self.power.is_off() {
            return;
        }
        let Geometry { block_size, blocks, limits } = self.it().geometry();
        let mut lba = 0;
        while lba < blocks {
            let length = u64::from(limits.transfer).min(blocks - lba) as u32;
            let operation = Operation { verb: Verb::Read, lba, blocks: length };
            let now = self.now;
            let room = vec![0; operation.bytes(block_size) as usize];
            let Ok(()) = self.it().submit(now, u32::MAX, &operation, room);
            let done = loop {
                let now = self.now;
                let Ok(done) = self.it().poll(now);
                if self.power.is_off() {
                    return;
                }
                if let Some(done) = done {
                    break done;
                }
                self.now = self.it().next_work().max(self.now);
            };
            if done.status.is_success() {
                for (sector, found) in self.sectors(&operation).zip(done.data.chunks_exact(SECTOR)) {
                    if let Some(objection) = check(&mut self.oracle, sector, found) {
                        self.fail(&objection);
                    }
                }
            } else if !self.failing {
                self.fail(&format!("{operation:?}: {}", done.status));
            }
            lba += u64::from(length);
        }
    }

    /// A change, with requests under way.
    fn change(&mut self) {
        self.doing = "a change";
        let control = self.subject.change(&mut self.rng);
        match self.control(control) {
            Some(Ok(())) => {
                self.counts.changes += 1;
                self.subject.changed(control);
            }
            Some(Err(error)) if !self.subject.may_refuse(&error, self.failing) => {
                self.fail(&format!("{control:?}: {error}"));
            }
            Some(Err(_)) | None => {}
        }
    }

    /// Makes a change. `None`: the power went meanwhile, and either may hold.
    fn control(&mut self, control: Control<S>) -> Option<Result<(), ControlError<S>>> {
        let now = self.now;
        if let Err(error) = self.it().control(now, control) {
            return (!self.power.is_off()).then_some(Err(error));
        }
        for _ in 0..100_000 {
            if self.power.is_off() {
                return None;
            }
            if let Some(outcome) = self.it().take_outcome() {
                return Some(outcome);
            }
            self.pass();
        }
        self.fail(&format!("{control:?} never ends"));
    }

    /// Shuts the cache down in order, and opens it with another configuration.
    fn close(&mut self) {
        self.settle();
        self.doing = "closing";
        if self.power.is_off() {
            return;
        }
        let Some(closed) = self.control(S::close()) else { return };
        if let Err(error) = closed {
            if !self.failing {
                self.fail(&format!("it does not close: {error}"));
            }
            return self.crash(false);
        }
        self.counts.closed += 1;
        // Nothing may happen to the devices any more.
        if self.rng.below(2) == 0 {
            self.wait_long();
            self.doing = "closed";
            if self.power.is_off() {
                return;
            }
        }
        let dirty = S::dirty(self.it().core());
        self.note();
        self.open = None;
        if self.failing {
            self.subject.come_back(&mut self.rng, &self.disks);
        }
        self.heal();
        self.subject.configure(&mut self.rng);
        let resized = self.subject.resize(&mut self.rng, &mut self.disks, &self.power, self.now);
        self.now = resized.unwrap_or(self.now);
        if self.reopen(false) && resized.is_none() && S::dirty(self.it().core()) > dirty {
            self.fail("more is dirty than when it was closed");
        }
    }

    fn heal(&mut self) {
        (self.failing, self.outlived) = (false, false);
        for disk in &self.disks {
            disk.fail(0);
            disk.fail_flush(None);
        }
    }

    fn restart(&mut self, power_lost: bool) {
        self.power.restore();
        self.disks.iter().for_each(|disk| disk.restart(power_lost));
    }

    /// The process or the machine dies, and the cache is opened again.
    fn crash(&mut self, power_lost: bool) {
        self.doing = if power_lost { "after a power cut" } else { "after a kill" };
        match power_lost {
            true => self.counts.power_cuts += 1,
            false => self.counts.kills += 1,
        }
        self.note();
        self.open = None;
        self.under_way.clear();
        self.heal();
        self.restart(power_lost);
        self.subject.configure(&mut self.rng);
        self.reopen(true);
    }

    /// The power goes soon, now and then: once in so many times.
    fn cut_while_opening(&mut self, once_in: u64) {
        if self.rng.below(once_in) == 0 {
            let most = [12, 40][self.rng.below(2) as usize];
            let calls = self.rng.below(most);
            self.power.fails_after(calls + 1);
        }
    }

    /// Opens the cache, with the power failing now and then while it does. Whether it did not.
    fn reopen(&mut self, crashed: bool) -> bool {
        let mut crashed = crashed;
        self.cut_while_opening(4);
        loop {
            let opened = self.try_open(None);
            if self.power.is_off() {
                self.counts.cuts_in_opening += 1;
                self.open = None;
                self.restart(true);
                crashed = true;
                self.cut_while_opening(2);
                continue;
            }
            match opened {
                Ok(()) => break,
                Err(error) if self.subject.reconsiders(&error) => {}
                Err(error) => self.fail(&format!("it does not open: {error}")),
            }
        }
        // The power may have been about to fail while everything is read, too.
        self.power.restore();
        if crashed {
            self.read_all(|oracle, sector, found| oracle.read_after_crash(sector, found));
        }
        !crashed
    }

    /// Requests of a device fail for a while.
    fn devices_fail(&mut self) {
        self.doing = "devices fail";
        if self.failing {
            return self.crash(true);
        }
        self.failing = true;
        let disk = &self.disks[self.rng.below(self.disks.len() as u64) as usize];
        disk.fail([1, 20, 300][self.rng.below(3) as usize] * 1_000_000);
    }

    /// One of the next flushes of a device fails.
    fn flush_fails(&mut self) {
        self.doing = "a flush fails";
        (self.failing, self.outlived) = (true, false);
        let disk = &self.disks[self.rng.below(self.disks.len() as u64) as usize];
        disk.fail_flush(Some(self.rng.below(3)));
    }

    /// Devices are gone until the next crash or shutdown.
    fn vanish(&mut self) {
        self.doing = "a device vanishes";
        self.counts.vanished += 1;
        let vanishing = S::vanishing(&mut self.rng);
        self.outlived = !self.failing && S::outlives(self.it().core(), &vanishing);
        self.failing = true;
        vanishing.iter().for_each(|disk| self.disks[*disk].vanish());
        for _ in 0..self.rng.below(40) {
            self.request();
            if self.power.is_off() {
                return;
            }
        }
        self.settle();
        if self.rng.below(2) == 0 {
            self.close();
        } else {
            let power_lost = self.rng.below(2) == 0;
            self.crash(power_lost);
        }
    }
}
