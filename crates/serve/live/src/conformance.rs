//! What holds for hosts of every front end: in this process, over NVMe/TCP, in virtual machines, and under a virtual clock.

use crate::clock::Clock;
use crate::endpoint::{HostIdentity, QueueEndpoint};
use crate::engine::Engine;
use crate::engine::front_end::{EngineTurn, FrontEnd};
use crate::hosts::{Connect, Hosts, ManagedBy, Request};
use crate::pci::{PciHosts, Port};
use crate::server::{Guard, Limits, Ports, Server};
use crate::virtual_queues::VirtualQueues;
use crate::wake::{Ready, Sleeper};
use device::{ControllerId, Drive, Origin, PortId};
use fabric::host::{Config, Connection, Data};
use image::Buffer;
use image::testing;
use image::{DataBuffer, Store, pages};
use media::Nanos;
use nvme::admin::PowerCut;
use nvme::fabrics::{
    Connect as ConnectCommand, ConnectAttributes, ConnectData, ConnectResult, FabricsCommand,
};
use nvme::io::DsmRange;
use nvme::property::{Cc, PropertyOffset};
use nvme::zerocopy::IntoBytes;
use nvme::{AdminOpcode, CNTLID_DYNAMIC, Command, IoOpcode, Nqn, Status};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use vfio::{ClientLink, ClientMessage, DeviceAccess, Driver, MapAccess, Space};

const BLOCK: usize = 4096;
const HOST: &str = "nqn.2026-11.test:host";

/// A command's end, as its host sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Answer {
    status: Status,
    data: Vec<u8>,
}

/// What a command moves.
#[derive(Clone, Debug)]
enum CommandData {
    Nothing,
    Out(Vec<u8>),
    In(usize),
}

/// A host's way to the drive, with an admin queue (0) and an I/O queue (1).
trait Host {
    type FrontEnd: FrontEnd;

    /// A front end, and a host of it that has not connected.
    fn new(engine: &mut Engine) -> (Self, Self::FrontEnd)
    where
        Self: Sized;

    /// The host connects, for the first time or after a power cut.
    fn connect(bench: &mut Bench<Self>)
    where
        Self: Sized;

    /// Sends a command; it is known by its number.
    fn send(
        &mut self,
        engine: &mut Engine,
        now: Nanos,
        qid: u16,
        number: u64,
        command: (Command, CommandData),
    );

    /// Moves bytes between the host and the front end, and takes what has come.
    fn exchange(&mut self, front_end: &mut Self::FrontEnd, answers: &mut Vec<(u64, Answer)>);

    /// Sockets with news.
    fn ready(&mut self) -> Option<&Ready> {
        None
    }

    /// Whether the host's commands end with Power Loss at a cut. Otherwise its connections end.
    const SEES_POWER_LOSS: bool;
}

struct Bench<H: Host> {
    engine: Engine,
    front_end: H::FrontEnd,
    host: H,
    clock: Clock,
    sent: u64,
    answers: BTreeMap<u64, Answer>,
}

impl<H: Host> Bench<H> {
    fn new() -> Self {
        let mut config = testing::shape("", "4MiB", &[("1MiB", "4096")]).config;
        config.ftl.durable = true;
        let mut drive = Drive::new(config).unwrap();
        drive.add_port(PortId(1), nvme::log::AnaState::OPTIMIZED);
        let store = Store::in_memory(pages(drive.config()));
        let mut engine = Engine::new(drive, store);
        let (host, front_end) = H::new(&mut engine);
        let clock = Clock::Virtual(1.into());
        let mut bench = Bench { engine, front_end, host, clock, sent: 0, answers: BTreeMap::new() };
        H::connect(&mut bench);
        bench
    }

    fn send(&mut self, qid: u16, command: Command, moves: CommandData) -> u64 {
        self.sent += 1;
        self.host.send(&mut self.engine, self.clock.now(), qid, self.sent, (command, moves));
        self.sent
    }

    /// Lets the engine do what there is to do now.
    fn turn(&mut self) {
        for _ in 0..4 {
            let mut answers = Vec::new();
            self.host.exchange(&mut self.front_end, &mut answers);
            let mut turn = EngineTurn::new(&self.clock, self.host.ready());
            self.engine.turn(&mut turn, &mut self.front_end);
            self.host.exchange(&mut self.front_end, &mut answers);
            for (number, answer) in answers {
                assert_eq!(self.answers.insert(number, answer), None, "command {number} ended twice");
            }
        }
    }

    /// Waits for a command, and takes its answer.
    fn wait(&mut self, number: u64) -> Answer {
        loop {
            self.turn();
            if let Some(answer) = self.answers.remove(&number) {
                return answer;
            }
            let next = self.engine.deadline();
            assert_ne!(next, Nanos::MAX, "command {number} never ends");
            self.clock.advance(next);
        }
    }

    fn call(&mut self, command: Command, moves: CommandData) -> Answer {
        let number = self.send(1, command, moves);
        self.wait(number)
    }
}

fn block(seed: u64) -> Vec<u8> {
    (0..BLOCK).map(|at| (at as u64 * 7 + seed * 13) as u8).collect()
}

fn blocks(seeds: std::ops::Range<u64>) -> Vec<u8> {
    seeds.flat_map(block).collect()
}

fn conform<H: Host>() {
    let mut bench: Bench<H> = Bench::new();
    // Several commands at once: each comes back once, with its own data.
    let writes: Vec<_> =
        (0..8).map(|lba| bench.send(1, Command::write(1, lba, 1), CommandData::Out(block(lba)))).collect();
    for number in writes {
        assert!(bench.wait(number).status.is_success());
    }
    let reads: Vec<_> =
        (0..8).map(|lba| bench.send(1, Command::read(1, lba, 1), CommandData::In(BLOCK))).collect();
    for (lba, number) in reads.into_iter().enumerate().rev() {
        let answer = bench.wait(number);
        assert!(answer.status.is_success() && answer.data == block(lba as u64), "block {lba}");
    }
    // Data in several pages, some of which were never written.
    let answer = bench.call(Command::read(1, 6, 4), CommandData::In(4 * BLOCK));
    assert_eq!(answer.data, [blocks(6..8), vec![0; 2 * BLOCK]].concat());
    // The controller itself takes the data, or makes them.
    let range = DsmRange::new(0, 2).as_bytes().to_vec();
    assert!(bench.call(Command::deallocate(1, 1), CommandData::Out(range)).status.is_success());
    assert_eq!(
        bench.call(Command::read(1, 0, 3), CommandData::In(3 * BLOCK)).data,
        [vec![0; 2 * BLOCK], block(2)].concat()
    );
    let mut identify = Command::new(AdminOpcode::IDENTIFY.0, 0);
    identify.cdw10.set(1);
    let number = bench.send(0, identify, CommandData::In(BLOCK));
    let answer = bench.wait(number);
    let nqn = bench.engine.drive.config().identity.nqn.to_string();
    assert!(answer.data[768..].starts_with(nqn.as_bytes()), "SUBNQN of Identify Controller");
    // What is refused has an answer as well.
    let answer = bench.call(Command::read(1, 256, 1), CommandData::In(BLOCK));
    assert!(answer.status.is(Status::LBA_OUT_OF_RANGE), "{}", answer.status);
    assert!(bench.call(Command::new(0x7E, 1), CommandData::Nothing).status.is(Status::INVALID_OPCODE));
    assert!(bench.call(Command::new(IoOpcode::FLUSH.0, 1), CommandData::Nothing).status.is_success());
    assert_eq!((bench.engine.drive.in_flight(), bench.engine.store.references()), (0, 0));

    // Power goes while something is in flight.
    let event = bench.send(0, Command::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0), CommandData::Nothing);
    bench.turn();
    let cut = PowerCut { after_media_ops: 0, off_ms: 2, seed: 1, no_plp: false };
    let cut = bench.send(0, cut.into(), CommandData::Nothing);
    assert!(bench.wait(cut).status.is_success(), "the command itself succeeds");
    let lost = bench.answers.remove(&event).map(|answer| answer.status);
    assert_eq!(lost, H::SEES_POWER_LOSS.then_some(Status::POWER_LOSS));
    assert_eq!((bench.engine.drive.in_flight(), bench.engine.store.references()), (0, 0));
    let back = bench.engine.deadline();
    assert!(back > bench.clock.now() && back != Nanos::MAX);
    bench.clock.advance(back);
    bench.turn();
    H::connect(&mut bench);
    assert_eq!(bench.call(Command::read(1, 2, 6), CommandData::In(6 * BLOCK)).data, blocks(2..8));
    bench.engine.stop_now(bench.clock.now(), &mut bench.front_end);
}

/// A host in this process, which looks after its controller itself.
struct Local {
    inbox: SyncSender<Request>,
    arrived: Arc<Mutex<Vec<(u64, Answer)>>>,
    queues: [Option<Arc<QueueEndpoint>>; 2],
}

impl Local {
    fn endpoint(&self) -> Arc<QueueEndpoint> {
        let arrived = self.arrived.clone();
        let sink = move |number, completion: nvme::Completion, buffer: Buffer| {
            let answer = Answer { status: completion.status(), data: buffer.as_slice().to_vec() };
            arrived.lock().unwrap().push((number, answer));
        };
        Arc::new(QueueEndpoint::new(32, Arc::new(sink)))
    }
}

impl Host for Local {
    type FrontEnd = Hosts;
    const SEES_POWER_LOSS: bool = true;

    fn new(_: &mut Engine) -> (Self, Hosts) {
        let (inbox, requests) = sync_channel(64);
        (Local { inbox, arrived: Arc::default(), queues: [None, None] }, Hosts::new(requests))
    }

    fn connect(bench: &mut Bench<Self>) {
        let (admin, io) = (bench.host.endpoint(), bench.host.endpoint());
        let (answer, connected) = channel();
        let host = HostIdentity::new(HOST).unwrap();
        let managed_by = ManagedBy::Host { kato_ms: 0 };
        let origin = Origin::InProcess;
        let connect = Connect { host, managed_by, origin, endpoint: admin.clone(), answer };
        bench.host.inbox.send(Request::Connect(Box::new(connect))).unwrap();
        bench.turn();
        connected.recv().unwrap().unwrap();
        let association = admin.association.load(std::sync::atomic::Ordering::Relaxed);
        io.association.store(association, std::sync::atomic::Ordering::Relaxed);
        let (answer, added) = channel();
        bench.host.inbox.send(Request::AddQueue { endpoint: io.clone(), answer }).unwrap();
        bench.turn();
        assert_eq!(added.recv().unwrap(), Ok(1));
        bench.host.queues = [Some(admin), Some(io)];
    }

    fn send(
        &mut self,
        _: &mut Engine,
        _: Nanos,
        qid: u16,
        number: u64,
        (command, moves): (Command, CommandData),
    ) {
        let endpoint = self.queues[usize::from(qid)].clone().unwrap();
        assert!(endpoint.enter());
        let buffer = match moves {
            CommandData::Nothing => Buffer::empty(),
            CommandData::Out(bytes) => bytes.into(),
            CommandData::In(bytes) => Buffer::zeroed(bytes as u32),
        };
        self.inbox
            .send(Request::Command { endpoint, tag: number, command, generation: None, buffer })
            .unwrap();
    }

    fn exchange(&mut self, hosts: &mut Hosts, answers: &mut Vec<(u64, Answer)>) {
        let mut notices = Vec::new();
        hosts.exchange_notices(&mut notices);
        notices.into_iter().for_each(|notice| notice.deliver());
        answers.append(&mut self.arrived.lock().unwrap());
    }
}

/// A connection: its socket, its protocol, and the numbers of commands by their tags.
type RemoteQueue = (UnixStream, Connection, BTreeMap<fabric::Tag, u64>);

/// A host on connections.
struct Remote {
    sleeper: Arc<Sleeper>,
    ready: Ready,
    nqn: Nqn,
    /// The admin queue and the I/O queue.
    queues: [Option<RemoteQueue>; 2],
}

impl Remote {
    fn open(bench: &mut Bench<Self>, qid: u16, cntlid: u16) -> u16 {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        bench.front_end.adopt_unix(theirs, bench.clock.now());
        let wire = Connection::new(Config { depth: 32, ..Config::default() });
        bench.host.queues[usize::from(qid)] = Some((ours, wire, BTreeMap::new()));
        bench.turn();
        let mut data = ConnectData {
            subnqn: bench.host.nqn.to_field(),
            hostnqn: HOST.parse::<Nqn>().unwrap().to_field(),
            ..Default::default()
        };
        data.cntlid.set(cntlid);
        let cattr = ConnectAttributes::new().with_dis_sqflow(true);
        let connect = ConnectCommand { recfmt: 0, qid, sqsize_z: 31, cattr, kato: 0 };
        let tag = bench
            .queue(qid)
            .1
            .submit(FabricsCommand::Connect(connect).into(), Data::Out(data.as_bytes().to_vec()))
            .unwrap();
        // The result is of interest, which answers do not have.
        for _ in 0..4 {
            bench.host.pump(usize::from(qid));
            let mut turn = EngineTurn::new(&bench.clock, bench.host.ready());
            bench.engine.turn(&mut turn, &mut bench.front_end);
        }
        bench.host.pump(usize::from(qid));
        let done = bench.queue(qid).1.next().unwrap();
        assert!(done.tag == tag && done.completion.status().is_success(), "{done:?}");
        ConnectResult::from_dw0(done.completion.dw0.get()).cntlid
    }

    /// Moves bytes of one queue. Whether the other end is still there.
    fn pump(&mut self, index: usize) -> bool {
        let Some((stream, wire, _)) = &mut self.queues[index] else { return false };
        let bytes: Vec<u8> = wire.transmit().flatten().copied().collect();
        if let Ok(sent) = stream.write(&bytes) {
            wire.sent(sent);
        }
        let mut room = vec![0; 1 << 16];
        loop {
            match stream.read(&mut room) {
                Ok(0) => return false,
                Ok(len) => wire.receive(&room[..len]).unwrap(),
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            }
        }
    }
}

impl Bench<Remote> {
    fn queue(&mut self, qid: u16) -> &mut RemoteQueue {
        self.host.queues[usize::from(qid)].as_mut().unwrap()
    }
}

impl Host for Remote {
    type FrontEnd = Server;
    const SEES_POWER_LOSS: bool = false;

    fn new(engine: &mut Engine) -> (Self, Server) {
        let sleeper = Arc::new(Sleeper::new().unwrap());
        let (ports, guard) = (Ports::new(Vec::new()), Guard::default());
        let server = Server::new(sleeper.clone(), ports, guard, Limits::default(), engine.limits()).unwrap();
        let nqn = engine.drive.config().identity.nqn;
        (Remote { sleeper, ready: Ready::new(), nqn, queues: [None, None] }, server)
    }

    fn connect(bench: &mut Bench<Self>) {
        assert!(bench.host.queues.iter().all(Option::is_none), "connections end with the power");
        assert_eq!(bench.front_end.connections(), 0);
        let cntlid = Remote::open(bench, 0, CNTLID_DYNAMIC);
        let value = Cc::new()
            .with_en(true)
            .with_css(Cc::CSS_SETS)
            .with_iosqes(6)
            .with_iocqes(4)
            .into_bits()
            .get()
            .into();
        let enable = FabricsCommand::PropertySet { offset: PropertyOffset::CC, wide: false, value };
        let number = bench.send(0, enable.into(), CommandData::Nothing);
        assert!(bench.wait(number).status.is_success());
        Remote::open(bench, 1, cntlid);
    }

    fn send(
        &mut self,
        _: &mut Engine,
        _: Nanos,
        qid: u16,
        number: u64,
        (command, moves): (Command, CommandData),
    ) {
        let data = match moves {
            CommandData::Nothing => Data::None,
            CommandData::Out(bytes) => Data::Out(bytes),
            CommandData::In(bytes) => Data::In(vec![0; bytes]),
        };
        let (_, wire, numbers) = self.queues[usize::from(qid)].as_mut().unwrap();
        numbers.insert(wire.submit(command, data).unwrap(), number);
    }

    fn exchange(&mut self, _: &mut Server, answers: &mut Vec<(u64, Answer)>) {
        for index in 0..2 {
            let is_there = self.pump(index);
            if let Some((_, wire, numbers)) = &mut self.queues[index] {
                while let Some(done) = wire.next() {
                    let data = match done.data {
                        Data::In(bytes) => bytes,
                        Data::None | Data::Out(_) | Data::Elsewhere(_) => Vec::new(),
                    };
                    let answer = Answer { status: done.completion.status(), data };
                    answers.extend(numbers.remove(&done.tag).map(|number| (number, answer)));
                }
            }
            self.queues[index].take_if(|_| !is_there);
        }
    }

    fn ready(&mut self) -> Option<&Ready> {
        self.sleeper.sleep(&mut self.ready, false);
        Some(&self.ready)
    }
}

/// A host under a virtual clock.
struct Virtual {
    controller: ControllerId,
}

impl Host for Virtual {
    type FrontEnd = VirtualQueues;
    const SEES_POWER_LOSS: bool = true;

    fn new(_: &mut Engine) -> (Self, VirtualQueues) {
        (Virtual { controller: ControllerId(0) }, VirtualQueues::default())
    }

    fn connect(bench: &mut Bench<Self>) {
        let Engine { drive, store, outputs, .. } = &mut bench.engine;
        bench.host.controller = testing::connect(drive, store, outputs, bench.clock.now());
    }

    fn send(
        &mut self,
        engine: &mut Engine,
        now: Nanos,
        qid: u16,
        number: u64,
        (command, moves): (Command, CommandData),
    ) {
        let data = match moves {
            CommandData::Nothing => DataBuffer::None,
            CommandData::Out(bytes) => Buffer::from(bytes).into(),
            CommandData::In(bytes) => Buffer::zeroed(bytes as u32).into(),
        };
        let owner = VirtualQueues::owner(u32::from(qid), number as u32);
        engine.submit(now, owner, self.controller, qid, command, data);
    }

    fn exchange(&mut self, queues: &mut VirtualQueues, answers: &mut Vec<(u64, Answer)>) {
        answers.extend(queues.completions.drain(..).map(|done| {
            let (status, data) = (done.completion.status(), done.data.as_slice().to_vec());
            (done.tag.into(), Answer { status, data })
        }));
    }
}

/// The messages of a virtual machine's client, and answers to them.
struct Messages(SyncSender<ClientMessage>, Receiver<vfio::Answer>);

impl DeviceAccess for Messages {
    fn write(&mut self, space: Space, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.0.send(ClientMessage::Write { space, offset, bytes: bytes.to_vec() }).unwrap();
        Ok(())
    }
}

/// A virtual machine.
struct Machine {
    guest: Driver<Messages>,
    /// Commands in flight, by queue and identifier: their numbers, and bytes that they read.
    numbers: BTreeMap<(u16, u16), (u64, usize)>,
}

impl Bench<Machine> {
    /// Sends a message, and returns what the answer has.
    fn ask(&mut self, message: ClientMessage) -> Vec<u8> {
        self.host.guest.access.0.send(message).unwrap();
        self.turn();
        self.host.guest.access.1.try_recv().unwrap().unwrap()
    }
}

impl Host for Machine {
    type FrontEnd = PciHosts;
    const SEES_POWER_LOSS: bool = false;

    fn new(engine: &mut Engine) -> (Self, PciHosts) {
        let (send, messages) = sync_channel(256);
        let (answers, answered) = sync_channel(1);
        let link = ClientLink { messages, answers };
        let port = Port::new(engine, link, HostIdentity::new(HOST).unwrap(), None, Nanos(1)).unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(vfio::MEMORY_BYTES).unwrap();
        let guest = Driver::new(Messages(send, answered), file).unwrap();
        let sleeper = Arc::new(Sleeper::new().unwrap());
        (Machine { guest, numbers: BTreeMap::new() }, PciHosts::new(vec![port], sleeper))
    }

    fn connect(bench: &mut Bench<Self>) {
        if bench.sent == 0 {
            let file = Some(bench.host.guest.file().try_clone().unwrap());
            let access = MapAccess { read: true, write: true };
            let size = vfio::MEMORY_BYTES;
            bench.ask(ClientMessage::Map { addr: 0, size, file, offset: 0, access });
        }
        bench.host.numbers.clear();
        bench.host.guest.enable().unwrap();
        let offset = PropertyOffset::CSTS.0.into();
        // The drive's turn enables the controller before it answers the second time.
        for _ in 0..2 {
            bench.ask(ClientMessage::Read { space: Space::Bar0, offset, len: 4 });
        }
        let status = bench.ask(ClientMessage::Read { space: Space::Bar0, offset, len: 4 });
        assert_eq!(status[0] & 3, 1, "ready");
        for command in vfio::create_queues() {
            let number = bench.send(0, command, CommandData::Nothing);
            assert!(bench.wait(number).status.is_success());
        }
    }

    fn send(
        &mut self,
        _: &mut Engine,
        _: Nanos,
        qid: u16,
        number: u64,
        (command, moves): (Command, CommandData),
    ) {
        let (read, data) = match &moves {
            CommandData::Nothing => (0, None),
            CommandData::Out(bytes) => (0, Some((bytes.len(), &bytes[..]))),
            CommandData::In(bytes) => (*bytes, Some((*bytes, &[][..]))),
        };
        let cid = self.guest.submit(qid, command, data).unwrap();
        assert_eq!(self.numbers.insert((qid, cid), (number, read)), None);
    }

    fn exchange(&mut self, _: &mut PciHosts, answers: &mut Vec<(u64, Answer)>) {
        for qid in 0..2 {
            while let Some(completion) = self.guest.take(qid).unwrap() {
                let cid = completion.cid.get();
                let (number, read) = self.numbers.remove(&(qid, cid)).unwrap();
                let status = completion.status();
                let read = if status.is_success() { read } else { 0 };
                answers.push((number, Answer { status, data: self.guest.read(cid, read).unwrap() }));
            }
        }
    }
}

#[test]
fn hosts_in_virtual_machines_are_served() {
    conform::<Machine>();
}

#[test]
fn hosts_in_this_process_are_served() {
    conform::<Local>();
}

#[test]
fn hosts_over_connections_are_served() {
    conform::<Remote>();
}

#[test]
fn hosts_under_a_virtual_clock_are_served() {
    conform::<Virtual>();
}
