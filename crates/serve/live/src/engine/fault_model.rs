//! Random commands meet random faults: each command comes back once, as its fault promises, or when its host gives it up. No data is lost
//! that was promised, none is seen that was not written, and nothing is left at the end.

use super::tests::{Bench, Fake, Told, lent};
use image::{Buffer, DataBuffer, testing};
use media::Nanos;
use nvme::admin::{FaultInjection, FaultKind, PowerCut};
use nvme::identify::Cns;
use nvme::protocol_fault::{BlockRange, CommandMatch, ProtocolAction, ProtocolFault, QueueKind, Recurrence};
use nvme::status::Sct;
use nvme::{AdminOpcode, Command, Status};
use rng::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// Blocks that are written and read.
const BLOCKS: u64 = 8;
/// Steps of a round.
const STEPS: usize = 150;
/// The status of faults that leave a command unexecuted. Nothing else has it.
const UNEXECUTED_STATUS: Status = Status::new(Sct::VENDOR, 0xC1);
/// The status of other faults. The drive has executed such a command, or refused it.
const OTHER_STATUS: Status = Status::new(Sct::VENDOR, 0xC2);

/// What is known of a block.
#[derive(Default)]
struct Block {
    /// Its stamp, if no write was in doubt.
    stamp: u32,
    /// Stamps of writes that may have been executed.
    doubt: BTreeSet<u32>,
    /// The stamp of a write that has not come back.
    written: Option<u32>,
    /// Reads that have not come back.
    reads: u32,
}

enum Expected {
    Write {
        block: u64,
        stamp: u32,
    },
    /// One of these stamps; `None` where the data is not looked at.
    Read {
        block: u64,
        stamps: Option<BTreeSet<u32>>,
    },
    Other,
}

struct World {
    bench: Bench,
    rng: Rng,
    blocks: Vec<Block>,
    stamps: u32,
    in_flight: BTreeMap<u64, Expected>,
}

fn block_of(stamp: u32) -> DataBuffer {
    Buffer::from(stamp.to_le_bytes().repeat(1024)).into()
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let bench = Bench::with(|config| {
            if rng.below(2) == 0 {
                config.timing = true;
                config.link.command_overhead = Nanos(3_000);
            }
        });
        let blocks = (0..BLOCKS).map(|_| Block::default()).collect();
        World { bench, rng, blocks, stamps: 0, in_flight: BTreeMap::new() }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    fn send(&mut self, qid: u16, command: Command, data: DataBuffer, expected: Expected) {
        self.in_flight.insert(self.bench.fake.submitted, expected);
        self.bench.turn_with(qid, command, data);
        self.take();
    }

    /// Takes what has come back.
    fn take(&mut self) {
        for mut ended in std::mem::take(&mut self.bench.fake.ended) {
            let number = ended.owner.token.command - Fake::FIRST;
            let status = ended.completion.status();
            let expected =
                self.in_flight.remove(&number).unwrap_or_else(|| panic!("{number} came back twice"));
            match expected {
                Expected::Other => {}
                Expected::Write { block, stamp } => {
                    let block = &mut self.blocks[block as usize];
                    assert_eq!(block.written.take(), Some(stamp));
                    if status.is_success() {
                        block.stamp = stamp;
                        block.doubt.clear();
                    } else if status != UNEXECUTED_STATUS {
                        block.doubt.insert(stamp);
                    }
                }
                Expected::Read { block, stamps } => {
                    let block = &mut self.blocks[block as usize];
                    block.reads -= 1;
                    if let Some(memory) = ended.data.lent_mut() {
                        self.bench.engine.store.end_references(memory);
                    }
                    if let Some(stamps) = stamps.filter(|_| status.is_success()) {
                        let bytes = ended.data.as_slice();
                        let found = u32::from_le_bytes(bytes[..4].try_into().unwrap());
                        assert_eq!(bytes, found.to_le_bytes().repeat(1024), "a torn block");
                        assert!(stamps.contains(&found), "{found} is none of {stamps:?}");
                        // What was seen stays, unless another write is on its way.
                        if block.written.is_none() && block.doubt.remove(&found) {
                            block.stamp = found;
                            block.doubt.clear();
                        }
                    }
                }
            }
        }
    }

    fn write(&mut self) {
        let index = self.below(BLOCKS);
        let block = &mut self.blocks[index as usize];
        if block.written.is_some() || block.reads > 0 {
            return;
        }
        self.stamps += 1;
        block.written = Some(self.stamps);
        let expected = Expected::Write { block: index, stamp: self.stamps };
        self.send(1, Command::write(1, index, 1), block_of(self.stamps), expected);
    }

    fn read(&mut self) {
        let index = self.below(BLOCKS);
        let is_looked_at = self.below(3) > 0;
        let block = &mut self.blocks[index as usize];
        block.reads += 1;
        let stamps = block.doubt.iter().copied().chain(block.written).chain([block.stamp]).collect();
        let expected = Expected::Read { block: index, stamps: is_looked_at.then_some(stamps) };
        let data = if is_looked_at { Buffer::zeroed(4096).into() } else { lent(4096) };
        self.send(1, Command::read(1, index, 1), data, expected);
    }

    fn fault(&mut self) -> ProtocolFault {
        let time = 1 + self.below(50) as u32;
        let unexecuted = self.below(2) == 0;
        let action = match self.below(9) {
            0 | 1 => ProtocolAction::Drop { unexecuted },
            2 | 3 => ProtocolAction::Delay(time),
            4 => ProtocolAction::Duplicate,
            5 => {
                let status = if unexecuted { UNEXECUTED_STATUS } else { OTHER_STATUS };
                ProtocolAction::Status { status, unexecuted }
            }
            6 => ProtocolAction::LoseInterrupt,
            7 => ProtocolAction::SpuriousInterrupt(time),
            _ => ProtocolAction::Vanish(time),
        };
        let opcode = [None, Some(0), Some(1), Some(2)][self.below(4) as usize];
        let range = BlockRange { slba: self.below(BLOCKS), blocks: 1 + self.below(4) };
        let mut commands = CommandMatch {
            opcode,
            nsid: (self.below(2) == 0).then_some(1),
            blocks: (self.below(3) == 0).then_some(range),
            ..CommandMatch::default()
        };
        if self.below(6) == 0 {
            let opcodes = [AdminOpcode::ABORT, AdminOpcode::IDENTIFY, AdminOpcode::ASYNC_EVENT_REQUEST];
            let opcode = Some(opcodes[self.below(3) as usize].0);
            commands = CommandMatch { queue: QueueKind::Admin, opcode, ..CommandMatch::default() };
        }
        let recurrence = Recurrence {
            after: self.below(4) as u32,
            every: self.below(3) as u32,
            one_in: self.below(3) as u32,
            count: 1 + self.below(3) as u32,
        };
        ProtocolFault { commands, recurrence, action }
    }

    fn is_powered_and_lacks_a_controller(&self) -> bool {
        let engine = &self.bench.engine;
        engine.drive.is_powered()
            && !engine.drive.controllers().any(|(id, ..)| id == self.bench.fake.controller)
    }

    fn connect(&mut self) {
        let engine = &mut self.bench.engine;
        let now = self.bench.clock.now();
        self.bench.fake.controller =
            testing::connect(&mut engine.drive, &mut engine.store, &mut engine.outputs, now);
    }

    fn step(&mut self) {
        if self.is_powered_and_lacks_a_controller() {
            self.connect();
        }
        match self.below(30) {
            0..7 => self.write(),
            7..14 => self.read(),
            14 => self.send(1, Command::flush(1), DataBuffer::None, Expected::Other),
            15..18 => {
                let mut abort = Command::new(AdminOpcode::ABORT.0, 0);
                abort.cdw10.set((self.below(12) as u32) << 16 | 1);
                self.send(0, abort, DataBuffer::None, Expected::Other);
            }
            18 => {
                let identify = Command::identify(Cns::NAMESPACE, 1);
                self.send(0, identify, Buffer::zeroed(4096).into(), Expected::Other);
            }
            19 => {
                let request = Command::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0);
                self.send(0, request, DataBuffer::None, Expected::Other);
            }
            20..25 => {
                let (command, data) = self.fault().command();
                self.send(0, command, Buffer::from(data.to_vec()).into(), Expected::Other);
            }
            25 => self.clear(),
            26 => {
                let (now, controller) = (self.bench.clock.now(), self.bench.fake.controller);
                match self.below(2) {
                    0 => self.bench.engine.drive_disconnect(now, controller),
                    _ => {
                        self.bench.engine.remove_queue(controller, 1);
                        let _ = self.bench.engine.drive.add_queue(controller, 1, 64);
                    }
                }
                self.go();
            }
            27 if self.below(4) == 0 => {
                let cut = PowerCut { after_media_ops: 0, off_ms: 1, seed: 0, no_plp: false };
                self.send(0, cut.into(), DataBuffer::None, Expected::Other);
            }
            _ => {
                let next = self.bench.engine.next_deadline(&self.bench.fake);
                let span = Nanos(self.rng.below(20_000));
                let soon = self.bench.clock.now() + span;
                self.bench.clock.advance(if next == Nanos::MAX { soon } else { soon.max(next) });
                self.go();
            }
        }
    }

    fn go(&mut self) {
        self.bench.turn();
        self.take();
    }

    /// Lets the clock run to what happens next.
    fn advance(&mut self) {
        let next = self.bench.engine.next_deadline(&self.bench.fake);
        assert_ne!(next, Nanos::MAX, "nothing more happens");
        self.bench.clock.advance(next);
        self.go();
    }

    fn clear(&mut self) {
        let kind = FaultKind::CLEAR;
        let clear = FaultInjection { nsid: 0, kind, nvmsetid: 0, count: 0, one_in: 0, param: 0, lba: None };
        self.send(0, clear.into(), DataBuffer::None, Expected::Other);
    }

    /// Everything comes back when the host goes, and all that was promised can be read.
    fn end(&mut self) {
        while !self.bench.engine.drive.is_powered() {
            self.advance();
        }
        if self.is_powered_and_lacks_a_controller() {
            self.connect();
        }
        // With timing it takes its time.
        self.clear();
        while self.bench.engine.drive.has_protocol_faults() {
            self.advance();
        }
        let controller = self.bench.fake.controller;
        self.bench.engine.drive_disconnect(self.bench.clock.now(), controller);
        while !self.in_flight.is_empty() || !self.bench.engine.drive.is_powered() {
            self.go();
            let next = self.bench.engine.next_deadline(&self.bench.fake);
            if next != Nanos::MAX {
                self.bench.clock.advance(next);
            }
            let count = self.in_flight.len();
            assert!(next != Nanos::MAX || count == 0, "{count} commands never come back");
        }
        let engine = &self.bench.engine;
        assert_eq!((engine.room(), engine.drive.in_flight()), (device::MAX_IO as usize, 0));
        assert_eq!(engine.store.references(), 0);
        assert!(engine.struck.struck_is_empty());
        if self.is_powered_and_lacks_a_controller() {
            self.connect();
        }
        for index in 0..BLOCKS {
            let block = &mut self.blocks[index as usize];
            let stamps = block.doubt.iter().copied().chain([block.stamp]).collect();
            block.reads += 1;
            let expected = Expected::Read { block: index, stamps: Some(stamps) };
            self.send(1, Command::read(1, index, 1), Buffer::zeroed(4096).into(), expected);
            while !self.in_flight.is_empty() {
                self.advance();
            }
        }
        assert!(!self.bench.fake.told.contains(&Told::Stopped));
    }
}

/// `TRANCHE_FAULT_ROUNDS` rounds instead of a few, `TRANCHE_FAULT_SEED` for the first one's seed.
#[test]
fn whatever_faults_strike_commands_come_back_and_promises_are_kept() {
    let setting = |name: &str, default| {
        std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
    };
    let (first, rounds) = (setting("TRANCHE_FAULT_SEED", 1), setting("TRANCHE_FAULT_ROUNDS", 150));
    for seed in first..first + rounds {
        let round = || {
            let mut world = World::new(seed);
            for _ in 0..STEPS {
                world.step();
            }
            world.end();
        };
        if let Err(panic) = std::panic::catch_unwind(round) {
            eprintln!("TRANCHE_FAULT_SEED={seed} TRANCHE_FAULT_ROUNDS=1 repeats this");
            std::panic::resume_unwind(panic);
        }
    }
}
