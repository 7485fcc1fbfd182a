//! A drive on a simulated disk, with what its hosts ask and what they were told.

use super::disk::SimDisk;
use super::oracle::{After, Safe, Space, Value};
use crate::buffer::Buffer;
use crate::engine::{Engine, Owner};
use crate::image::{Hands, ImageError, ImageOptions, Locked};
use crate::start::{Opened, StartError, open_image};
use crate::store::Lent;
use crate::{Options, Shape};
use device::{ControllerId, Drive, Origin};
use media::{Nanos, Rng};
use nvme::admin::{FaultInjection, FaultKind, FormatNvm, PowerCut, SecureErase};
use nvme::property::{Cc, PropertyOffset};
use nvme::{CNTLID_DYNAMIC, Command, IoOpcode};
use std::path::Path;
use std::sync::Arc;

/// What a command does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Change { space: usize, first: usize, count: usize, value: Value, durable: bool },
    Read { space: usize, first: usize, count: usize },
    Flush { begun: u64 },
    Format { space: usize, value: Value, erase: bool },
    Other,
}

/// How a world is made.
#[derive(Clone, Debug)]
pub(super) struct Manner {
    pub toml: String,
    pub options: ImageOptions,
    pub protected: bool,
    /// A set loses its contents with its power if the capacitors do nothing.
    pub volatile: bool,
    /// Bytes of a block and number of blocks, by namespace.
    pub spaces: Vec<(usize, usize)>,
}

pub(super) struct World {
    pub disk: SimDisk,
    pub manner: Manner,
    engine: Engine,
    controller: ControllerId,
    now: Nanos,
    /// Commands under way, by their tag.
    commands: Vec<Option<What>>,
    pub spaces: Vec<Space>,
    /// Orders operations and their ends.
    clock: u64,
    powered: bool,
    /// A power cut was asked for, and what it may take.
    pub cut: Option<After>,
    /// Power has come back since.
    returned: bool,
    pub rng: Rng,
    pub formats: u64,
}

const DEPTH: usize = 12;

impl World {
    /// Makes a drive and opens it.
    pub(super) fn make(manner: Manner, seed: u64) -> World {
        let disk = SimDisk::new(seed);
        let mut config = device::Config::from_toml(&manner.toml).unwrap();
        config.ftl.durable = true;
        let drive = Drive::new(config).unwrap();
        let locked = Locked::alone(Arc::new(disk.clone()));
        locked.create(&manner.toml, &drive.save(), Nanos::ZERO).unwrap();
        let spaces =
            (1..).zip(&manner.spaces).map(|(nsid, &(size, len))| Space::new(nsid, size, len)).collect();
        let opened = open(&disk, &manner).unwrap();
        let mut world = World {
            disk,
            engine: Engine::alone(opened.drive, opened.store),
            controller: ControllerId(0),
            now: opened.time,
            manner,
            commands: vec![None; DEPTH],
            spaces,
            clock: 1,
            powered: true,
            cut: None,
            returned: false,
            rng: Rng::new(seed ^ 0x5EED),
            formats: 0,
        };
        world.connect();
        world
    }

    /// A host connects.
    fn connect(&mut self) {
        let engine = &mut self.engine;
        let nqn = nvme::Nqn::new("nqn.2026-11.test:host").unwrap();
        let made = engine.drive.connect(self.now, &nqn, [1; 16], CNTLID_DYNAMIC, 0, Origin::InProcess);
        self.controller = made.unwrap();
        let enable = u64::from(Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).into_bits());
        let (store, outputs) = (&mut engine.store, &mut engine.outputs);
        let set = engine.drive.property_set(
            self.now,
            self.controller,
            PropertyOffset::CC,
            false,
            enable,
            store,
            outputs,
        );
        set.unwrap();
        engine.drive.add_queue(self.controller, 1, 64).unwrap();
    }

    /// Another process opens the image after this one has died.
    pub(super) fn reopen(&mut self) -> Result<(), StartError> {
        let opened = open(&self.disk, &self.manner)?;
        self.engine = Engine::alone(opened.drive, opened.store);
        self.now = opened.time;
        self.commands = vec![None; DEPTH];
        self.powered = true;
        (self.cut, self.returned) = (None, false);
        self.connect();
        Ok(())
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn submit(&mut self, qid: u16, command: Command, data: Vec<u8>, what: What) {
        let Some(tag) = self.commands.iter().position(Option::is_none) else { return };
        self.begin(what);
        self.commands[tag] = Some(what);
        let owner = Owner::Actor { queue: 0, tag: tag as u32 };
        self.engine.submit(self.now, owner, self.controller, qid, command, Buffer::from(data).into());
        self.settle();
    }

    fn begin(&mut self, what: What) {
        match what {
            What::Change { space, first, count, value, .. } => self.spaces[space].begin(first, count, value),
            What::Read { space, first, count } => self.spaces[space].hold(first, count),
            What::Format { space, value, .. } => {
                let len = self.spaces[space].len();
                self.spaces[space].begin(0, len, value);
            }
            What::Flush { .. } | What::Other => {}
        }
    }

    /// Runs what is due now, and hears what has ended.
    pub(super) fn settle(&mut self) {
        let mut deliveries = Vec::new();
        self.engine.settle(self.now, &mut deliveries);
        for done in std::mem::take(&mut self.engine.actor_done) {
            let Some(what) = self.commands[done.tag as usize].take() else { continue };
            let well = done.completion.status().is_success();
            let at = self.tick();
            self.ended(what, well, at, done.data);
        }
        if !self.engine.drive.is_powered() {
            self.powered = false;
        } else if !self.powered {
            (self.powered, self.returned) = (true, true);
            self.connect();
        }
        if let Some(image) = self.engine.store.image() {
            assert_eq!(image.slots().broken(), None);
        }
    }

    fn ended(&mut self, what: What, well: bool, at: u64, data: Lent) {
        match what {
            What::Change { space, first, count, value, durable } => {
                let safe = durable && self.keeps();
                self.spaces[space].end(first, count, value, at, well, safe);
            }
            What::Read { space, first, count } => {
                let size = self.spaces[space].size;
                self.spaces[space].let_go(first, count);
                if well && self.powered && !self.is_over() {
                    for (lba, bytes) in (first..).zip(data.as_slice().chunks(size)).take(count) {
                        self.spaces[space].check(lba, bytes, After::default(), Safe::No).unwrap();
                    }
                }
            }
            What::Flush { begun } => {
                if well && self.keeps() {
                    self.spaces.iter_mut().for_each(|space| space.flushed(begun));
                }
            }
            What::Format { space, value, erase } => {
                let len = self.spaces[space].len();
                self.spaces[space].end(0, len, value, at, well, erase && well);
                self.formats += u64::from(well);
                if well && erase {
                    self.nothing_is_left(space);
                }
            }
            What::Other => {}
        }
    }

    /// Whether a Flush keeps anything from a crash of the host.
    fn keeps(&self) -> bool {
        self.manner.options.host_sync
    }

    /// What was erased for good is in no file.
    fn nothing_is_left(&self, space: usize) {
        let nsid = self.spaces[space].nsid;
        let magic = Space::new(nsid, 512, 0).stamp(0, 0);
        let holds = self.disk.holds("contents", |sector| sector.len() >= 8 && sector[..8] == magic[..8]);
        assert!(!holds, "what was erased of namespace {nsid} is still in the contents");
    }

    /// Does one thing at random.
    pub(super) fn act(&mut self) {
        match self.rng.below(100) {
            0..62 if self.powered => self.access(),
            0..70 if self.powered => {
                let begun = self.clock;
                let nsid = 1 + self.rng.below(self.spaces.len() as u64) as u32;
                self.submit(1, Command::flush(nsid), Vec::new(), What::Flush { begun });
            }
            0..90 => self.step_aside(),
            90..98 => self.advance(),
            98 => self.idle(),
            _ if self.powered => self.rare(),
            _ => self.advance(),
        }
    }

    /// The image's helper does a few steps.
    fn step_aside(&mut self) {
        for _ in 0..=self.rng.below(4) {
            if let Some(image) = self.engine.store.image()
                && !image.step_aside()
            {
                break;
            }
        }
        self.settle();
    }

    /// The clock goes on to what is due next.
    fn advance(&mut self) {
        let next = self.engine.deadline();
        if next != Nanos::MAX {
            self.now = self.now.max(next);
        }
        self.settle();
    }

    /// Nobody asks for anything, and everything that is under way comes to its end.
    fn idle(&mut self) {
        for _ in 0..200 {
            let next = self.engine.deadline();
            if next == Nanos::MAX {
                break;
            }
            self.now = self.now.max(next);
            self.step_aside();
        }
        for _ in 0..100 {
            self.step_aside();
        }
    }

    fn access(&mut self) {
        let index = self.rng.below(self.spaces.len() as u64) as usize;
        let (len, size) = (self.spaces[index].len(), self.spaces[index].size);
        let nsid = self.spaces[index].nsid;
        let most = (1 << self.rng.below(5)).min(len as u64);
        let count = 1 + self.rng.below(most) as usize;
        // A few places are written again and again.
        let within = if self.rng.below(2) == 0 { len } else { len / 8 };
        let first = (self.rng.below(within as u64) as usize).min(len - count);
        let kind = self.rng.below(20);
        // Blocks of a page that is deallocated in part may stay as they are.
        let page = 4096 / size;
        let (first, count) = match kind {
            18.. => (first / page * page, count.next_multiple_of(page)),
            _ => (first, count),
        };
        let (slba, blocks) = (first as u64, count as u32);
        if first + count > len || !self.spaces[index].is_idle(first, count) {
            return self.advance();
        }
        if kind < 3 {
            let what = What::Read { space: index, first, count };
            return self.submit(1, Command::read(nsid, slba, blocks), vec![0; count * size], what);
        }
        let version = self.tick();
        let change = |zeros, durable| What::Change {
            space: index,
            first,
            count,
            value: Value { version, zeros },
            durable,
        };
        match kind {
            3..16 => {
                let durable = kind == 3;
                let mut command = Command::write(nsid, slba, blocks);
                if durable {
                    command.cdw12.set(command.cdw12.get() | 1 << 30);
                }
                let stamps = (first..first + count).flat_map(|lba| self.spaces[index].stamp(lba, version));
                let data = stamps.collect();
                self.submit(1, command, data, change(false, durable));
            }
            16 | 17 => {
                let command = Command::write_zeroes(nsid, slba, blocks, kind == 16);
                self.submit(1, command, Vec::new(), change(true, false));
            }
            _ => {
                let mut range = vec![0; 4];
                range.extend_from_slice(&blocks.to_le_bytes());
                range.extend_from_slice(&slba.to_le_bytes());
                debug_assert_eq!(IoOpcode::DATASET_MANAGEMENT.0, Command::deallocate(nsid, 1).opc);
                self.submit(1, Command::deallocate(nsid, 1), range, change(true, false));
            }
        }
    }

    /// What happens now and then.
    fn rare(&mut self) {
        let fault = |kind, count| FaultInjection {
            nsid: 0,
            kind,
            // A program that fails in place takes what was there along.
            nvmsetid: 1,
            count,
            one_in: 1,
            param: 0,
            lba: None,
        };
        match self.rng.below(10) {
            0..3 => {
                let index = self.rng.below(self.spaces.len() as u64) as usize;
                let erase = self.rng.below(2) == 0;
                if !self.spaces[index].is_idle(0, self.spaces[index].len()) {
                    return self.idle();
                }
                let value = Value { version: self.tick(), zeros: true };
                let ses = if erase { SecureErase::USER_DATA } else { SecureErase::NONE };
                let nsid = self.spaces[index].nsid;
                let format =
                    FormatNvm { nsid, lbaf: self.format_of(index), mset: false, pi: 0, pil: false, ses };
                self.submit(0, format.into(), Vec::new(), What::Format { space: index, value, erase });
            }
            3..7 => {
                let no_plp = self.rng.below(3) == 0;
                let after_media_ops = self.rng.below(6) as u32;
                let cut = PowerCut {
                    after_media_ops,
                    off_ms: [1, 1, 50, 2000][self.rng.below(4) as usize],
                    seed: self.rng.next_u64() as u32,
                    no_plp,
                };
                let (protected, volatile) = (self.manner.protected, self.manner.volatile);
                let ruin = if protected { no_plp } else { volatile };
                self.cut = Some(After { cut: !protected, ruin, ..After::default() });
                self.submit(0, cut.into(), Vec::new(), What::Other);
            }
            7 => {
                let count = 1 + self.rng.below(2) as u32;
                self.submit(0, fault(FaultKind::PROGRAM_FAILURE, count).into(), Vec::new(), What::Other);
            }
            8 => self.submit(0, fault(FaultKind::ERASE_FAILURE, 1).into(), Vec::new(), What::Other),
            _ => {
                let full = self.rng.below(3) == 0;
                self.disk.set_full(full);
            }
        }
    }

    fn format_of(&self, index: usize) -> u8 {
        // In the order of `lba_formats`.
        u8::from(self.spaces[index].size == 4096)
    }

    /// If power has come back: looks what is left.
    pub(super) fn look_after_cut(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.returned) {
            return Ok(());
        }
        if self.is_over() {
            return Ok(());
        }
        let Some(after) = self.cut else { return Err("power was cut without being asked for".to_owned()) };
        let result = self.verify(after, Safe::FromCut);
        // A process that has died tells nothing, nor does one whose image keeps nothing any more, and the cut is still to be
        // reckoned with.
        if self.is_over() {
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
    pub(super) fn quiet(&mut self) {
        for _ in 0..5000 {
            if self.powered && self.commands.iter().all(Option::is_none) {
                return;
            }
            self.advance();
            self.step_aside();
        }
        let left: Vec<_> = self.commands.iter().flatten().collect();
        panic!("commands never end: {left:?}, powered {}", self.powered);
    }

    /// Reads everything and holds it against what may be there.
    pub(super) fn verify(&mut self, after: After, safe: Safe) -> Result<(), String> {
        for index in 0..self.spaces.len() {
            let (len, size, nsid) =
                (self.spaces[index].len(), self.spaces[index].size, self.spaces[index].nsid);
            let step = (32 * 1024 / size).min(len);
            for first in (0..len).step_by(step) {
                let count = step.min(len - first);
                let command = Command::read(nsid, first as u64, count as u32);
                let data = self.fetch(command, count * size)?;
                for (lba, bytes) in (first..).zip(data.chunks(size)) {
                    self.spaces[index].check(lba, bytes, after, safe)?;
                }
            }
            self.spaces[index].settle(after, safe);
        }
        Ok(())
    }

    fn fetch(&mut self, command: Command, bytes: usize) -> Result<Vec<u8>, String> {
        let owner = Owner::Actor { queue: 1, tag: 0 };
        self.engine.submit(self.now, owner, self.controller, 1, command, Buffer::zeroed(bytes as u32).into());
        for _ in 0..10_000 {
            let mut deliveries = Vec::new();
            self.engine.settle(self.now, &mut deliveries);
            if let Some(at) = self.engine.actor_done.iter().position(|done| done.queue == 1) {
                let done = self.engine.actor_done.remove(at);
                let status = done.completion.status();
                if !status.is_success() {
                    return Err(format!("{command:?} fails with {status}"));
                }
                return Ok(done.data.as_slice().to_vec());
            }
            let next = self.engine.deadline();
            if next != Nanos::MAX {
                self.now = self.now.max(next);
            }
            if let Some(image) = self.engine.store.image() {
                image.step_aside();
            }
        }
        Err("a read never ends".to_owned())
    }

    /// The drive is stopped in order.
    pub(super) fn stop(&mut self) {
        self.quiet();
        self.engine.stop_now(self.now);
    }
}

fn open(disk: &SimDisk, manner: &Manner) -> Result<Opened, StartError> {
    let locked = Locked::alone(Arc::new(disk.clone()));
    let options = Options { image_options: manner.options, ..Options::default() };
    let config = device::Config::from_toml(&manner.toml).map_err(|e| {
        let reason = e.to_string();
        ImageError::State { path: "simulated".into(), reason }
    })?;
    let shape = Shape { config, toml: manner.toml.clone() };
    open_image(locked, Path::new("simulated"), Some(shape), &options, Hands::Stepped)
}
