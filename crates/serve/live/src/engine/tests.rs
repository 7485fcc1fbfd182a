//! The contract of front ends, held against one that does nothing but write down what it is told.

use super::front_end::{EndedCommand, EngineTurn, FrontEnd};
use super::{Engine, FrontEndId, Owner, Token};
use crate::clock::Clock;
use device::{ControllerId, Drive, PortId};
use image::Buffer;
use image::testing;
use image::{AnswerPart, DataBuffer, LentMemory, Store, pages};
use media::Nanos;
use nvme::admin::{FaultInjection, FaultKind, PowerCut};
use nvme::property::{NSSR_NVME, PropertyOffset};
use nvme::{AdminOpcode, Command, Status};

/// What the front end was told, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Told {
    Polled,
    Completed(u64, Status),
    Flushed,
    ControllerLost(ControllerId),
    PortDown(PortId),
    PortsUp,
    Interrupted(u64),
    Vanished(ControllerId, Nanos),
    PowerLost,
    PowerReturned,
    Stopped,
}

pub(super) struct Fake {
    /// What it submits when it is polled.
    pub(super) waiting: Vec<(u16, Command, DataBuffer)>,
    pub(super) controller: ControllerId,
    pub(super) submitted: u64,
    pub(super) told: Vec<Told>,
    pub(super) ended: Vec<EndedCommand>,
    deadline: Nanos,
    unflushed: bool,
}

impl Fake {
    const ID: FrontEndId = FrontEndId::new(77);
    /// Numbers of no use but to come back as they are.
    const QUEUE: u64 = u64::MAX - 5;
    pub(super) const FIRST: u64 = 1 << 63;
}

impl FrontEnd for Fake {
    fn poll(&mut self, engine: &mut Engine, turn: &mut EngineTurn<'_>) {
        self.told.push(Told::Polled);
        for (qid, command, data) in std::mem::take(&mut self.waiting) {
            let token = Token { queue: Fake::QUEUE, command: Fake::FIRST + self.submitted };
            self.submitted += 1;
            let owner = Owner { front_end: Fake::ID, token };
            engine.submit(turn.now, owner, self.controller, qid, command, data);
        }
    }

    fn complete(&mut self, ended: EndedCommand, _: &mut Store) {
        assert_eq!((ended.owner.front_end, ended.owner.token.queue), (Fake::ID, Fake::QUEUE));
        let number = ended.owner.token.command - Fake::FIRST;
        self.told.push(Told::Completed(number, ended.completion.status()));
        self.ended.push(ended);
        self.unflushed = true;
    }

    fn has_to_flush(&self) -> bool {
        self.unflushed
    }

    fn flush(&mut self, _: &mut Engine, _: Nanos) -> bool {
        if std::mem::take(&mut self.unflushed) {
            self.told.push(Told::Flushed);
        }
        true
    }

    fn deadline(&self) -> Nanos {
        self.deadline
    }

    fn controller_lost(&mut self, controller: ControllerId) {
        self.told.push(Told::ControllerLost(controller));
    }

    fn interrupt(&mut self, owner: Owner) {
        self.told.push(Told::Interrupted(owner.token.command - Fake::FIRST));
    }

    fn controller_vanished(&mut self, controller: ControllerId, host: &nvme::Nqn, until: Nanos) {
        assert_eq!(host.as_str(), "nqn.2026-11.test:host");
        self.told.push(Told::Vanished(controller, until));
    }

    fn port_down(&mut self, port: PortId, span: Nanos) {
        assert_eq!(span, Nanos(7_000_000));
        self.told.push(Told::PortDown(port));
    }

    fn ports_up(&mut self) {
        self.told.push(Told::PortsUp);
    }

    fn power_lost(&mut self, _: &mut Store) {
        self.told.push(Told::PowerLost);
    }

    fn power_returned(&mut self, engine: &mut Engine, now: Nanos) {
        self.told.push(Told::PowerReturned);
        self.controller = testing::connect(&mut engine.drive, &mut engine.store, &mut engine.outputs, now);
    }

    fn stopped(&mut self, _: &mut Store) {
        self.told.push(Told::Stopped);
    }
}

pub(super) struct Bench {
    pub(super) engine: Engine,
    pub(super) fake: Fake,
    pub(super) clock: Clock,
}

impl Bench {
    pub(super) fn new() -> Self {
        Bench::with(|_| ())
    }

    /// A drive that is shaped further.
    pub(super) fn with(change: impl FnOnce(&mut device::Config)) -> Self {
        let mut config = testing::shape("", "4MiB", &[("1MiB", "4096")]).config;
        config.ftl.durable = true;
        change(&mut config);
        let mut drive = Drive::new(config).unwrap();
        drive.add_port(PortId(1), nvme::log::AnaState::OPTIMIZED);
        let store = Store::in_memory(pages(drive.config()));
        let mut engine = Engine::new(drive, store);
        let clock = Clock::Virtual(1.into());
        let fake = Fake {
            waiting: Vec::new(),
            controller: testing::connect(
                &mut engine.drive,
                &mut engine.store,
                &mut engine.outputs,
                clock.now(),
            ),
            submitted: 0,
            told: Vec::new(),
            ended: Vec::new(),
            deadline: Nanos::MAX,
            unflushed: false,
        };
        Bench { engine, fake, clock }
    }

    /// A turn with this command: what the front end was told.
    pub(super) fn turn_with(&mut self, qid: u16, command: Command, data: DataBuffer) -> Vec<Told> {
        self.fake.waiting.push((qid, command, data));
        self.turn()
    }

    pub(super) fn turn(&mut self) -> Vec<Told> {
        self.engine.turn(&mut EngineTurn::new(&self.clock, None), &mut self.fake);
        let mut told = std::mem::take(&mut self.fake.told);
        assert_eq!(told.remove(0), Told::Polled, "each turn begins with a poll");
        told
    }

    /// Turns until so many commands have ended that were not taken yet, and takes them.
    pub(super) fn ended(&mut self, count: usize) -> Vec<EndedCommand> {
        while self.fake.ended.len() < count {
            let next = self.engine.next_deadline(&self.fake);
            assert_ne!(next, Nanos::MAX, "nothing more will happen");
            self.clock.advance(next);
            self.turn();
        }
        std::mem::take(&mut self.fake.ended)
    }
}

pub(super) fn lent(bytes: u32) -> DataBuffer {
    DataBuffer::Lent(Box::new(LentMemory { bytes: Buffer::zeroed(bytes), parts: Vec::new() }))
}

#[test]
fn every_command_comes_back_once_with_its_buffer() {
    let mut bench = Bench::new();
    let write = Command::write(1, 3, 2);
    bench.fake.waiting.push((1, write, Buffer::from(vec![5; 8192]).into()));
    bench.fake.waiting.push((1, Command::read(1, 3, 2), lent(8192)));
    bench.fake.waiting.push((1, Command::read(1, 3, 2), Buffer::zeroed(8192).into()));
    bench.fake.waiting.push((1, Command::read(1, 3, 2), DataBuffer::Void));
    // Identify Controller: the controller itself makes the data.
    let mut identify = Command::new(AdminOpcode::IDENTIFY.0, 0);
    identify.cdw10.set(1);
    bench.fake.waiting.push((0, identify, lent(4096)));
    // It does not hold what the command moves.
    bench.fake.waiting.push((1, Command::read(1, 3, 2), lent(8191)));
    bench.turn();
    let mut ended = bench.ended(6);
    ended.sort_by_key(|ended| ended.owner.token.command);
    let numbers: Vec<_> = ended.iter().map(|ended| ended.owner.token.command - Fake::FIRST).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
    let to_host: Vec<_> = ended.iter().map(|ended| ended.to_host).collect();
    assert_eq!(to_host, [0, 8192, 8192, 0, 4096, 8192]);
    for (number, ended) in ended.iter().enumerate() {
        let wanted = if number == 5 { Status::DATA_SGL_LENGTH_INVALID } else { Status::SUCCESS };
        assert!(ended.completion.status().is(wanted), "command {number}: {}", ended.completion.status());
    }
    let all_five = |data: &[u8]| data.len() == 8192 && data.iter().all(|&byte| byte == 5);
    assert!(all_five(ended[0].data.as_slice()) && all_five(ended[2].data.as_slice()));
    assert!(matches!(ended[3].data, DataBuffer::Void));
    assert_ne!(ended[4].data.as_slice(), [0; 4096]);
    // What was read into lent memory is in slots, until the front end has sent it.
    let memory = ended[1].data.lent_mut().unwrap();
    let found: Vec<u8> = memory
        .parts
        .iter()
        .flat_map(|part| match *part {
            AnswerPart::InSlot { slot, start, len } => {
                bench.engine.store.page(slot)[start as usize..][..len as usize].to_vec()
            }
            AnswerPart::Copied { start, len } => {
                memory.bytes.as_slice()[start as usize..][..len as usize].to_vec()
            }
        })
        .collect();
    assert!(all_five(&found) && memory.refers_to_slots());
    assert_eq!(bench.engine.store.references(), 2);
    bench.engine.store.end_references(memory);
    assert_eq!((bench.engine.store.references(), bench.engine.drive.in_flight()), (0, 0));
}

#[test]
fn a_batch_is_flushed_when_all_of_it_has_ended() {
    let mut bench = Bench::new();
    let success = Status::SUCCESS;
    for _ in 0..2 {
        bench.fake.waiting.push((1, Command::flush(1), DataBuffer::None));
    }
    let told = bench.turn();
    assert_eq!(told, [Told::Completed(0, success), Told::Completed(1, success), Told::Flushed]);
    assert_eq!(bench.turn(), []);
}

#[test]
fn the_earliest_deadline_counts_until_the_drive_has_stopped() {
    let mut bench = Bench::new();
    assert_eq!(bench.engine.next_deadline(&bench.fake), Nanos::MAX);
    bench.fake.deadline = Nanos(5_000);
    assert_eq!(bench.engine.next_deadline(&bench.fake), Nanos(5_000));
    bench.turn_with(
        0,
        PowerCut { after_media_ops: 0, off_ms: 1, seed: 1, no_plp: false }.into(),
        DataBuffer::None,
    );
    assert_eq!(bench.engine.next_deadline(&bench.fake), Nanos(5_000));
    bench.fake.deadline = Nanos::MAX;
    assert_eq!(bench.engine.next_deadline(&bench.fake), Nanos(1_000_001), "power comes back");
    bench.clock.advance(Nanos(2_000_000));
    bench.turn();
    bench.fake.deadline = Nanos(5_000);
    bench.engine.stop_now(bench.clock.now(), &mut bench.fake);
    assert_eq!(bench.fake.told, [Told::Stopped]);
    assert_eq!(bench.engine.next_deadline(&bench.fake), Nanos::MAX);
    bench.fake.told.clear();
    bench.engine.turn(&mut EngineTurn::new(&bench.clock, None), &mut bench.fake);
    assert_eq!(bench.fake.told, [], "a drive that has stopped polls nobody");
}

#[test]
fn a_power_cut_ends_what_is_in_flight_and_power_returns() {
    let mut bench = Bench::new();
    bench.turn_with(1, Command::write(1, 0, 1), Buffer::from(vec![9; 4096]).into());
    bench.ended(1);
    // Nothing answers this one before the cut.
    let request = Command::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0);
    assert_eq!(bench.turn_with(0, request, DataBuffer::None), []);
    let cut = PowerCut { after_media_ops: 0, off_ms: 3, seed: 1, no_plp: false };
    let told = bench.turn_with(0, cut.into(), DataBuffer::None);
    let cut = Told::Completed(2, Status::SUCCESS);
    let lost = Told::Completed(1, Status::POWER_LOSS);
    assert_eq!(told, [cut, Told::PowerLost, lost, Told::Flushed]);
    let before = bench.clock.now();
    bench.clock.advance(bench.engine.next_deadline(&bench.fake));
    assert_eq!(bench.clock.now(), before + Nanos(3_000_000));
    assert_eq!(bench.turn(), [Told::PowerReturned]);
    bench.fake.ended.clear();
    bench.turn_with(1, Command::read(1, 0, 1), Buffer::zeroed(4096).into());
    assert!(bench.ended(1)[0].data.as_slice().iter().all(|&byte| byte == 9));
}

#[test]
fn controllers_and_ports_that_go_are_told_of() {
    let mut bench = Bench::new();
    let fault = |kind, param| -> Command {
        FaultInjection { nsid: 0, kind, nvmsetid: 1, count: 0, one_in: 0, param, lba: None }.into()
    };
    let told = bench.turn_with(0, fault(FaultKind::PORT_DOWN, 7), DataBuffer::None);
    assert_eq!(told, [Told::PortDown(PortId(1)), Told::Completed(0, Status::SUCCESS), Told::Flushed]);
    let told = bench.turn_with(0, fault(FaultKind::CLEAR, 0), DataBuffer::None);
    assert!(told.contains(&Told::PortsUp), "{told:?}");
    let controller = bench.fake.controller;
    let (store, outputs) = (&mut bench.engine.store, &mut bench.engine.outputs);
    let now = bench.clock.now();
    bench
        .engine
        .drive
        .property_set(now, controller, PropertyOffset::NSSR, NSSR_NVME, store, outputs)
        .unwrap();
    assert!(bench.engine.is_expelling());
    assert_eq!(bench.turn(), [Told::ControllerLost(controller)]);
    assert!(!bench.engine.is_expelling());
}

/// The drive cannot tell hosts' identifiers apart unless they come from one place.
#[test]
fn the_engine_names_commands_unless_hosts_do() {
    let named = FrontEndId::new(5).with_host_identifiers();
    assert!(named.host_identifiers && !FrontEndId::new(5).host_identifiers);
    let mut bench = Bench::new();
    let mut command = Command::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0);
    command.cid.set(4711);
    bench.turn_with(0, command, DataBuffer::None);
    let controller = bench.fake.controller;
    // Abort finds the command by the identifier that the engine gave it: its number.
    let mut abort = Command::new(AdminOpcode::ABORT.0, 0);
    for (cid, aborted) in [(4711, false), (0, true)] {
        abort.cdw10.set(cid << 16);
        bench.turn_with(0, abort, DataBuffer::None);
        let ended = bench.ended(1);
        let answer = ended.iter().find(|ended| ended.owner.token.command != Fake::FIRST).unwrap();
        assert_eq!(answer.completion.dw0.get() & 1 == 0, aborted, "identifier {cid} of {controller:?}");
    }
}
