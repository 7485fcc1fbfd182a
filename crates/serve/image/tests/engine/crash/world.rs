//! A drive on a simulated disk, with what its hosts ask and what they were told.

use super::erasure::Remains;
use super::oracle::{After, Safe, Space, Value};
use super::setup::Setup;
use super::zone_oracle::Zones;
use crate::connect;
use device::{ControllerId, Drive};
use image::testing::SimDisk;
use image::{BackgroundWork, Buffer, ImageError, Keyring, Locked, Opened, Shape, Store};
use live::VirtualQueues;
use live::engine::Engine;
use media::{Nanos, Rng};
use nvme::{Command, Status};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a command does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum WorldCommand {
    /// Gives each block of a range its value; a Copy reads as many from `source` on.
    Change {
        space: usize,
        first: usize,
        values: Vec<Value>,
        durable: bool,
        source: Option<usize>,
    },
    Read {
        space: usize,
        first: usize,
        count: usize,
    },
    Flush {
        begun: u64,
    },
    Format {
        space: usize,
        values: Vec<Value>,
        /// What must be in no file afterwards.
        remains: Option<Remains>,
    },
    Other,
}

/// A write that was under way when the drive lost its power or its process.
#[derive(Clone, Debug)]
struct Torn {
    space: usize,
    first: usize,
    values: Vec<Value>,
}

pub(super) struct World {
    pub disk: SimDisk,
    pub setup: Setup,
    seed: u64,
    pub engine: Engine,
    queues: VirtualQueues,
    pub controller: ControllerId,
    pub now: Nanos,
    /// Commands under way, by their tag.
    pub commands: Vec<Option<WorldCommand>>,
    torn: Vec<Torn>,
    /// The command that is waited for, and its answer.
    asked: u32,
    answer: Option<(Status, Vec<u8>)>,
    pub spaces: Vec<Space>,
    /// Of the zoned namespace, which is the last one.
    pub zones: Option<Zones>,
    /// A sanitize operation that has begun gives all blocks this value, and this is what it erases of each namespace.
    pub sanitizing: Option<(u64, Vec<Remains>)>,
    /// Orders operations and their ends.
    clock: u64,
    pub powered: bool,
    /// A power cut was asked for, and what it may take.
    pub cut: Option<After>,
    /// Power has come back since.
    returned: bool,
    /// Power was lost, and what DRAM held with it. Nobody has looked since.
    emptied: bool,
    pub rng: Rng,
    /// Acts so far, and those that are left out.
    pub acts: u64,
    pub without: BTreeSet<u64>,
    /// Whether acts are printed.
    pub told: bool,
    /// Blocks of flash that are bad, as the drive has said since it was opened.
    bad: u64,
    pub formats: u64,
    pub erasures: u64,
    pub sanitizes: u64,
    pub made_anew: u64,
}

const DEPTH: usize = 12;
/// One in how many steps beside the drive is the end of a read.
const READ_STEPS: u64 = 4;

impl World {
    /// Makes a drive and opens it.
    pub(super) fn make(setup: Setup, seed: u64) -> World {
        let disk = SimDisk::new(seed);
        let mut config = device::Config::from_toml(&setup.toml).unwrap();
        config.ftl.durable = true;
        let mut drive = Drive::new(config).unwrap();
        let mut keys = Store::without_contents().with_keys(Keyring::new(setup.key.clone()));
        drive.encrypt(&mut keys).unwrap();
        let locked = Locked::alone(Arc::new(disk.clone()));
        locked.create(&setup.toml, &drive.save(), Nanos::ZERO).unwrap();
        let spaces = (1..).zip(&setup.spaces).map(|(nsid, made)| Space::new(nsid, made.size, made.used));
        let spaces = spaces.collect();
        let opened = open(&disk, &setup).unwrap();
        let mut world = World {
            disk,
            seed,
            engine: Engine::new(opened.drive, opened.store),
            queues: VirtualQueues::default(),
            controller: ControllerId(0),
            now: opened.time,
            setup,
            commands: vec![None; DEPTH],
            torn: Vec::new(),
            asked: 0,
            answer: None,
            spaces,
            zones: None,
            sanitizing: None,
            clock: 1,
            powered: true,
            cut: None,
            returned: false,
            emptied: false,
            rng: Rng::new(seed),
            acts: 0,
            without: BTreeSet::new(),
            told: false,
            bad: 0,
            formats: 0,
            erasures: 0,
            sanitizes: 0,
            made_anew: 0,
        };
        world.controller = connect(&mut world.engine, world.now);
        if world.setup.zoned {
            world.make_zoned();
        }
        world
    }

    /// Another process opens the image after this one has died.
    pub(super) fn reopen(&mut self) -> Result<(), ImageError> {
        let opened = open(&self.disk, &self.setup)?;
        self.engine = Engine::new(opened.drive, opened.store);
        self.queues = VirtualQueues::default();
        self.now = opened.time;
        for what in std::mem::replace(&mut self.commands, vec![None; DEPTH]).into_iter().flatten() {
            self.may_be_torn(what);
        }
        self.powered = true;
        (self.cut, self.returned) = (None, false);
        self.controller = connect(&mut self.engine, self.now);
        Ok(())
    }

    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(super) fn submit(&mut self, qid: u16, command: Command, data: Vec<u8>, what: WorldCommand) {
        let Some(tag) = self.commands.iter().position(Option::is_none) else { return };
        if self.told {
            println!("  act {}: {what:?}", self.acts);
        }
        self.begin(&what);
        self.commands[tag] = Some(what);
        let owner = VirtualQueues::owner(0, tag as u32);
        self.engine.submit(self.now, owner, self.controller, qid, command, Buffer::from(data).into());
        self.settle();
    }

    fn begin(&mut self, what: &WorldCommand) {
        match what {
            WorldCommand::Change { space, first, values, source, .. } => {
                let space = &mut self.spaces[*space];
                space.begin(*first, values);
                if let Some(source) = *source {
                    space.hold(source, values.len());
                }
            }
            WorldCommand::Read { space, first, count } => self.spaces[*space].hold(*first, *count),
            WorldCommand::Format { space, values, .. } => self.spaces[*space].begin(0, values),
            WorldCommand::Flush { .. } | WorldCommand::Other => {}
        }
    }

    /// Runs what is due now, and hears what has ended.
    pub(super) fn settle(&mut self) {
        let losses = self.engine.losses();
        self.engine.settle(self.now, &mut self.queues);
        // The process that dies in this very step, or whose image fails in it, may have told nobody.
        self.emptied |= self.setup.volatile && self.engine.losses() > losses && !self.is_over();
        for done in std::mem::take(&mut self.queues.completions) {
            let status = done.completion.status();
            if done.queue == 1 {
                if done.tag == self.asked {
                    self.answer = Some((status, done.data.as_slice().to_vec()));
                }
                continue;
            }
            let Some(what) = self.commands[done.tag as usize].take() else { continue };
            let at = self.tick();
            self.ended(what, status.is_success(), at, done.data.as_slice());
        }
        if !self.engine.drive.is_powered() {
            self.powered = false;
        } else if !self.powered {
            (self.powered, self.returned) = (true, true);
            self.controller = connect(&mut self.engine, self.now);
        }
        if let Some(image) = self.engine.store.image() {
            assert_eq!(image.broken_slots(), None);
        }
    }

    fn ended(&mut self, what: WorldCommand, well: bool, at: u64, data: &[u8]) {
        match what {
            WorldCommand::Change { space, first, ref values, durable, source } => {
                let safe = durable && self.keeps();
                self.spaces[space].end(first, values, at, well, safe);
                if let Some(source) = source {
                    self.spaces[space].let_go(source, values.len());
                }
                if let (false, Some(zones), true) = (well, &mut self.zones, self.setup.spaces[space].zoned) {
                    zones.forget(first);
                }
                if !well {
                    self.may_be_torn(what);
                }
            }
            WorldCommand::Read { space, first, count } => {
                let size = self.spaces[space].size;
                self.spaces[space].let_go(first, count);
                if well && self.powered && !self.is_over() {
                    for (lba, bytes) in (first..).zip(data.chunks(size)).take(count) {
                        self.spaces[space].check(lba, Some(bytes), After::default(), Safe::No).unwrap();
                    }
                }
            }
            WorldCommand::Flush { begun } => {
                if well && self.keeps() {
                    self.spaces.iter_mut().for_each(|space| space.flushed(begun));
                }
            }
            WorldCommand::Format { space, values, remains } => {
                self.spaces[space].end(0, &values, at, well, remains.is_some() && well);
                self.formats += u64::from(well);
                if let (true, Some(remains)) = (well, remains) {
                    self.nothing_is_left(space, &remains, false);
                    self.erasures += 1;
                }
            }
            WorldCommand::Other => {}
        }
    }

    /// A write that did not end well: all of each atomic unit must be there, or nothing.
    fn may_be_torn(&mut self, what: WorldCommand) {
        let WorldCommand::Change { space, first, values, source: None, .. } = what else { return };
        let data = 4096 / self.setup.spaces[space].per_page;
        let unit = (self.setup.atomic / data).max(1);
        // A write that crosses units of the drive's atomic size is none.
        if first / unit == (first + values.len() - 1) / unit {
            self.torn.push(Torn { space, first, values });
        }
    }

    /// Whether a Flush keeps anything from a crash of the host.
    fn keeps(&self) -> bool {
        self.setup.options.host_sync
    }

    /// Executes a command and waits for it: its status and its data. `None` if power goes, or the process is dead.
    pub(super) fn call(&mut self, qid: u16, command: Command, data: Vec<u8>) -> Option<(Status, Vec<u8>)> {
        self.asked += 1;
        self.answer = None;
        let owner = VirtualQueues::owner(1, self.asked);
        self.engine.submit(self.now, owner, self.controller, qid, command, Buffer::from(data).into());
        for _ in 0..10_000 {
            self.settle();
            if self.answer.is_some() {
                return self.answer.take();
            }
            if !self.powered || self.disk.is_dead() {
                return None;
            }
            self.advance();
            self.step_aside(1);
        }
        panic!("{command:?} never ends");
    }

    /// The image's helper does a few steps, and reads that wait for the host's disk end.
    pub(super) fn step_aside(&mut self, steps: u64) {
        for _ in 0..steps {
            let choice = self.rng.next_u64();
            if let Some(image) = self.engine.store.image() {
                match choice % READ_STEPS {
                    0 => image.end_missed_read(choice >> 32),
                    _ => _ = image.step_aside(),
                }
            }
        }
        self.settle();
    }

    /// The clock goes on to what is due next.
    pub(super) fn advance(&mut self) {
        let next = self.engine.deadline();
        if next != Nanos::MAX {
            self.now = self.now.max(next);
        }
        self.settle();
    }

    /// The random numbers of what happens next do not depend on what happened before: a failure can be made smaller.
    pub(super) fn draw(&mut self, what: u64) -> Rng {
        Rng::new(self.seed ^ what.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// If power has come back: looks what is left.
    pub(super) fn look_after_cut(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.returned) || self.is_over() {
            return Ok(());
        }
        let Some(after) = self.cut else { return Err("power was cut without being asked for".to_owned()) };
        let result = self.verify(after, Safe::FromCut);
        // A process that has died tells nothing, nor does one whose image keeps nothing any more, and the cut is still to be
        // reckoned with.
        if self.is_over() || !self.powered {
            return Ok(());
        }
        self.cut = None;
        result
    }

    /// Whether the process is dead, or its image takes nothing any more: what it says is not kept.
    pub(super) fn is_over(&mut self) -> bool {
        self.disk.is_dead() || self.engine.store.image().is_some_and(|image| image.has_failed())
    }

    /// Waits for power, and for all commands.
    fn quiet(&mut self) {
        for _ in 0..5000 {
            if self.powered && self.commands.iter().all(Option::is_none) {
                return;
            }
            self.advance();
            self.step_aside(2);
        }
        let left: Vec<_> = self.commands.iter().flatten().collect();
        panic!("commands never end: {left:?}, powered {}", self.powered);
    }

    /// Reads everything and holds it against what may be there.
    pub(super) fn verify(&mut self, after: After, safe: Safe) -> Result<(), String> {
        self.restore()?;
        // After a crash of the host the image may lead to a moment before the cut.
        let emptied = self.emptied && !after.host;
        for index in 0..self.spaces.len() {
            let (len, size) = (self.spaces[index].len(), self.spaces[index].size);
            let step = (32 * 1024 / size).min(len);
            for first in (0..len).step_by(step) {
                let count = step.min(len - first);
                match self.read(index, first, count)? {
                    Some(data) => {
                        for (lba, bytes) in (first..).zip(data.chunks(size)) {
                            self.spaces[index].check(lba, Some(bytes), after, safe)?;
                        }
                    }
                    None => {
                        for lba in first..first + count {
                            let data = self.read(index, lba, 1)?;
                            self.spaces[index].check(lba, data.as_deref(), after, safe)?;
                        }
                    }
                }
            }
            if emptied && self.setup.spaces[index].set == 2 {
                self.spaces[index].check_empty()?;
            }
            if self.setup.spaces[index].zoned {
                self.check_zones(index)?;
            }
            self.spaces[index].settle(after, safe);
        }
        for Torn { space, first, values } in std::mem::take(&mut self.torn) {
            let space = &self.spaces[space];
            let written = (first..).zip(&values).filter(|(lba, value)| space.known(*lba) == Some(**value));
            let (all, written) = (values.len(), written.count());
            let stamps = values.iter().all(|value| matches!(value, Value::Stamp { .. }));
            if stamps && written > 0 && written < all && !after.ruin {
                return Err(format!("{written} of {all} blocks of an atomic write are there: {values:?}"));
            }
        }
        self.emptied &= self.is_over();
        self.check_bad_blocks(after)
    }

    /// Reads blocks; `None` if they cannot be read.
    fn read(&mut self, index: usize, first: usize, count: usize) -> Result<Option<Vec<u8>>, String> {
        let space = &self.spaces[index];
        let command = Command::read(space.nsid, first as u64, count as u32);
        match self.call(1, command, vec![0; count * space.size]) {
            Some((status, data)) if status.is_success() => Ok(Some(data)),
            Some((status, _)) if status.is(Status::UNRECOVERED_READ_ERROR) => Ok(None),
            Some((status, _)) => Err(format!("{command:?} fails with {status}")),
            None => Err("a read never ends".to_owned()),
        }
    }

    /// A block of flash that was found to be bad stays so, unless the host or the capacitors fail.
    fn check_bad_blocks(&mut self, after: After) -> Result<(), String> {
        if after.host || after.ruin {
            self.bad = 0;
        }
        match self.bad_blocks() {
            Some(bad) if bad < self.bad => {
                Err(format!("{} blocks of flash were bad, now {bad} are", self.bad))
            }
            _ => Ok(()),
        }
    }

    /// Remembers how many blocks are bad, if nothing is under way that may find one.
    pub(super) fn note_bad_blocks(&mut self) {
        if self.powered && !self.is_over() && self.engine.deadline() == Nanos::MAX {
            self.bad = self.bad_blocks().unwrap_or(0);
        }
    }

    /// The drive is stopped in order.
    pub(super) fn stop(&mut self) {
        self.quiet();
        self.engine.stop_now(self.now, &mut self.queues);
    }
}

fn open(disk: &SimDisk, setup: &Setup) -> Result<Opened, ImageError> {
    let locked = Locked::alone(Arc::new(disk.clone()));
    let config = device::Config::from_toml(&setup.toml).map_err(|e| {
        let reason = e.to_string();
        ImageError::State { path: "simulated".into(), reason }
    })?;
    let shape = Shape { config, toml: setup.toml.clone() };
    locked.open(Some(shape), setup.key.clone(), setup.options, BackgroundWork::Stepped)
}
