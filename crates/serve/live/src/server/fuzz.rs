//! Hosts that do anything, on connections to a whole drive: proper ones, broken ones, and all between, for a fuzz target
//! and the suite.

use super::socket::{Source, Stream};
use super::{Guard, Limits, Ports, Server};
use crate::access::{Access, Rule};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::engine::front_end::EngineTurn;
use crate::wake::{Ready, Sleeper};
use device::{Config, Drive, PortId};
use fabric::Tag;
use fabric::auth::{ChapKey, ChapKeys, Methods, Parties};
use fabric::host::{Connection, Data};
use image::{Store, pages};
use media::Nanos;
use nvme::admin::FaultKind;
use nvme::auth::SECP_NVME;
use nvme::fabrics::{
    Authentication, Connect, ConnectAttributes, ConnectData, ConnectResult, FabricsCommand, FabricsType,
};
use nvme::log::AnaState;
use nvme::property::{Cc, PropertyOffset};
use nvme::protocol_fault::FaultSelector;
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{AdminOpcode, CNTLID_DYNAMIC, Command, Nqn};
use peers::Network;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// A drive of a few MiB: 4 dies of 16 blocks with two placement handles, a DRAM set, one namespace for everybody and room
/// for more.
const DRIVE: &str = r#"
[drive]
max_transfer = "64KiB"
write_buffer = "256KiB"
max_namespaces = 4
allow_network_faults = true

[[set]]
media = "nand"
cell = "slc"
capacity = "8MiB"
spare = "100%"
channels = 2
dies = 4
planes = 1
nand_page = "4KiB"
pages_per_block = 64
rated_cycles = 100000
placement = { handles = 2 }

[[set]]
media = "dram"
capacity = "2MiB"

[[namespace]]
size = "4MiB"
"#;

/// Opcodes of commands that mean something on an admin queue, on an I/O queue, or on both.
const OPCODES: [u8; 32] = [
    0x00, 0x01, 0x01, 0x02, 0x02, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0A, 0x0C, 0x0D, 0x0E, 0x10, 0x11, 0x12,
    0x14, 0x15, 0x18, 0x19, 0x19, 0x1A, 0x1D, 0x80, 0x84, 0x86, 0xC0, 0xD0, 0xD1, 0x7F, 0x7F,
];

/// Makes of random bytes what is more often one of these commands as it should be.
fn plausible(bytes: &mut [u8; 64]) {
    bytes[0] = OPCODES[usize::from(bytes[0]) % OPCODES.len()];
    bytes[4] %= 5;
    bytes[5..8].fill(0);
    let choice = std::mem::take(&mut bytes[41]);
    bytes[42..48].fill(0);
    match bytes[0] {
        // Reservation types, of which others than admin commands have no bits there.
        0x0D | 0x11 | 0x15 => bytes[41] = choice % 8,
        // A directive's operation and type; else a Copy to the first blocks.
        0x19 | 0x1A if choice & 1 == 0 => [bytes[44], bytes[45]] = [choice >> 1 & 3, choice >> 3 & 1],
        // Few ranges, in a format that there is.
        0x19 => [bytes[48], bytes[49]] = [choice >> 1 & 3, choice >> 3 & 0x30],
        // A fault of the protocol, as it should be.
        0xD1 if choice & 1 != 0 => {
            bytes[40] = 0x30 + (choice >> 1) % 9;
            bytes[44] = choice >> 5;
            bytes[48..52].fill(0);
            match FaultKind(bytes[40]) {
                FaultKind::STATUS => (bytes[52], bytes[54], bytes[55]) = (bytes[52] | 1, 0, 0),
                FaultKind::DROP
                | FaultKind::DUPLICATE
                | FaultKind::LOST_INTERRUPT
                | FaultKind::STALE_IDENTIFY => bytes[52..56].fill(0),
                _ => (bytes[52], bytes[55]) = (bytes[52] | 1, 0),
            }
        }
        // What is allocated.
        0x86 => bytes[55] = 0x10 | choice & 1,
        _ => {}
    }
}

/// Connections of a script at once.
const PEERS: usize = 4;
/// Steps of a script.
const STEPS: usize = 400;

/// Bytes as decisions; zeroes when they are used up.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn bytes(&mut self, len: usize) -> &[u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn number(&mut self, bytes: usize) -> u64 {
        self.bytes(bytes).iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
    }

    fn byte(&mut self) -> u8 {
        self.number(1) as u8
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut all = [0; N];
        let taken = self.bytes(N);
        all[..taken.len()].copy_from_slice(taken);
        all
    }
}

/// One host's end of a connection.
struct Peer {
    stream: UnixStream,
    wire: Connection,
    /// It has sent something that no host sends: what it gets in return is its own affair.
    spoilt: bool,
    /// The controller that its Connect gave it.
    cntlid: u16,
    /// It has to prove who it is before anything else.
    must_prove: bool,
    /// It begins to as soon as it has connected.
    proves: bool,
    proof: Proof,
    /// Commands outstanding that need no proof: Connect, and those of authentication.
    exempt: HashMap<Tag, Exempt>,
}

/// How far a host has come with proving who it is.
enum Proof {
    /// Its Connect has not succeeded.
    Nobody,
    Under(Box<fabric::auth::Host>),
    Proven,
}

enum Exempt {
    Connect(Box<Parties>),
    Proof,
    /// An authentication message that makes no sense.
    Noise,
}

impl Peer {
    fn submit(&mut self, command: FabricsCommand, data: Data, exempt: Exempt) {
        if let Ok(tag) = self.wire.submit(command.into(), data) {
            self.exempt.insert(tag, exempt);
        }
    }

    /// Goes on with proving who it is.
    fn prove(&mut self, answer: Option<&[u8]>) {
        let Proof::Under(host) = &mut self.proof else { return };
        let message = |length| Authentication { spsp0: 1, spsp1: 1, secp: SECP_NVME, length };
        match host.step(answer, &mut host::fill_random) {
            fabric::auth::AuthStep::Send(bytes) => {
                let send = FabricsCommand::AuthenticationSend(message(bytes.len() as u32));
                self.submit(send, Data::Out(bytes), Exempt::Proof);
            }
            fabric::auth::AuthStep::Receive => {
                let receive = FabricsCommand::AuthenticationReceive(message(fabric::auth::Host::ROOM as u32));
                self.submit(receive, Data::In(vec![0; fabric::auth::Host::ROOM]), Exempt::Proof);
            }
            fabric::auth::AuthStep::Done => self.proof = Proof::Proven,
            // Noise has come between.
            fabric::auth::AuthStep::Failed(_) => self.proof = Proof::Nobody,
        }
    }

    fn completed(&mut self, done: fabric::host::Completed) {
        let well = done.completion.status().is_success();
        match self.exempt.remove(&done.tag) {
            Some(Exempt::Connect(parties)) if well => {
                let result = ConnectResult::from_dw0(done.completion.dw0.get());
                self.cntlid = result.cntlid;
                assert_eq!(result.atr, self.must_prove, "what Connect says of authentication");
                let (keys, methods) = (keys(), Methods::default());
                self.proof = Proof::Under(Box::new(fabric::auth::Host::new(*parties, keys, methods, 7)));
                if self.proves {
                    self.prove(None);
                }
            }
            Some(Exempt::Proof) if well => match &done.data {
                Data::In(bytes) => self.prove(Some(bytes)),
                _ => self.prove(None),
            },
            Some(_) => {}
            None => {
                let proven = self.spoilt || !self.must_prove || matches!(self.proof, Proof::Proven);
                assert!(!well || proven, "a host that has not proved who it is was served: {done:?}");
            }
        }
    }

    /// Sends what is there to be sent, and takes what has come.
    fn exchange(&mut self) {
        let mut bytes: Vec<u8> = self.wire.transmit().flatten().copied().collect();
        bytes.truncate(1 << 16);
        if let Ok(sent) = self.stream.write(&bytes) {
            self.wire.sent(sent);
        }
        let mut room = vec![0; 1 << 16];
        loop {
            match self.stream.read(&mut room) {
                Ok(0) | Err(_) => break,
                Ok(len) => {
                    let result = self.wire.receive(&room[..len]);
                    assert!(self.spoilt || !matches!(result, Err(fabric::Error::Violation(_))), "{result:?}");
                }
            }
        }
        while let Some(done) = self.wire.next() {
            self.completed(done);
        }
    }
}

struct World {
    engine: Engine,
    server: Server,
    sleeper: Arc<Sleeper>,
    ready: Ready,
    clock: Clock,
    peers: [Option<Peer>; PEERS],
    nqn: Nqn,
    /// Hosts of the network have to prove who they are.
    guarded: bool,
    /// Faults of the protocol were injected: what hosts are answered may break it.
    is_faulty: bool,
}

/// Which commands a fault of the protocol strikes.
fn selector(script: &mut Script<'_>) -> Vec<u8> {
    let mut bytes: [u8; 64] = script.array();
    (bytes[0], bytes[1]) = (FaultSelector::VERSION, bytes[1] & 0xF);
    bytes[3] = 0;
    bytes[5..8].fill(0);
    // Few blocks, few commands that pass.
    [10..16, 17..24, 25..28, 29..32, 32..64].into_iter().for_each(|range| bytes[range].fill(0));
    match bytes[2] {
        0..64 => (bytes[1], bytes[2], bytes[16]) = (bytes[1] | 3, 0x06, 0),
        64..128 => (bytes[1], bytes[2], bytes[16]) = (bytes[1] | 3, 0x7F, 0),
        _ => bytes[2] = OPCODES[usize::from(bytes[2]) % OPCODES.len()],
    }
    bytes.to_vec()
}

/// The key of all hosts.
fn keys() -> ChapKeys {
    let key = ChapKey::generate(None, Some(32), &mut |bytes| bytes.fill(7)).expect("a key");
    ChapKeys { host: key, controller: None }
}

impl World {
    fn new(guarded: bool, ports: Ports) -> Self {
        let mut config = Config::from_toml(DRIVE).expect("a drive");
        config.ftl.durable = true;
        let nqn = config.identity.nqn;
        let mut drive = Drive::new(config).expect("a drive");
        drive.add_port(PortId(1), AnaState::OPTIMIZED);
        drive.add_port(PortId(2), AnaState::NON_OPTIMIZED);
        let store = Store::in_memory(pages(drive.config()));
        let sleeper = Arc::new(Sleeper::new().expect("an event queue"));
        let engine = Engine::new(drive, store);
        let rule = Rule { chap: Some(keys()), ..Rule::named(nqn) };
        let access = guarded.then(|| Arc::new(Access::new(vec![rule])));
        let server = Server::new(
            sleeper.clone(),
            ports,
            Guard { access, tls: None },
            Limits::default(),
            engine.limits(),
        );
        let mut server = server.expect("a server");
        // A thread would make each run another one.
        server.helper.at_once();
        let peers = [const { None }; PEERS];
        let ready = Ready::new();
        World {
            engine,
            server,
            sleeper,
            ready,
            clock: Clock::Virtual(1.into()),
            peers,
            nqn,
            guarded,
            is_faulty: false,
        }
    }

    /// Lets the drive do what there is to do, until nothing more comes of it.
    fn pump(&mut self) {
        for _ in 0..8 {
            self.peers.iter_mut().flatten().for_each(Peer::exchange);
            self.sleeper.sleep(&mut self.ready, false);
            let quiet = !self.ready.has_sockets();
            self.engine.turn(&mut EngineTurn::new(&self.clock, Some(&self.ready)), &mut self.server);
            if quiet {
                break;
            }
        }
    }

    fn pass(&mut self, span: u64) {
        self.clock.advance(Nanos(self.clock.now().0.saturating_add(span)));
    }

    fn open(&mut self, index: usize, script: &mut Script<'_>) {
        let how = script.byte();
        let config = fabric::host::Config {
            depth: 1 + u16::from(script.byte()),
            hpda_z: how & 3,
            header_digest: how & 4 != 0,
            data_digest: how & 8 != 0,
            ..fabric::host::Config::default()
        };
        let (ours, theirs) = UnixStream::pair().expect("a socket");
        ours.set_nonblocking(true).expect("a socket");
        theirs.set_nonblocking(true).expect("a socket");
        let source = match how & 16 {
            0 => Source::Network(Network::Loopback),
            _ => Source::User(u32::from(how >> 5)),
        };
        let port = PortId(1 + u16::from(how >> 7));
        self.server.adopt(Stream::Unix(theirs), source, port, self.clock.now());
        let wire = Connection::new(config);
        self.peers[index] = Some(Peer {
            stream: ours,
            wire,
            spoilt: self.is_faulty,
            cntlid: CNTLID_DYNAMIC,
            proves: how & 32 == 0,
            must_prove: self.guarded && matches!(source, Source::Network(_)),
            proof: Proof::Nobody,
            exempt: HashMap::new(),
        });
    }

    fn step(&mut self, kind: u8, index: usize, script: &mut Script<'_>) {
        let cntlids: Vec<u16> = self.peers.iter().flatten().map(|peer| peer.cntlid).collect();
        let nqn = self.nqn;
        let Some(peer) = &mut self.peers[index] else { return self.open(index, script) };
        // Before it has connected, a host seldom does anything else.
        let kind = if peer.cntlid == CNTLID_DYNAMIC && kind < 8 && script.byte() < 192 { 0 } else { kind };
        match kind {
            // Connect, as it should be or as it should not.
            0 | 1 => {
                let how = if kind == 0 { script.byte() & 0b1110_1001 } else { script.byte() };
                let qid = if how & 1 == 0 { 0 } else { u16::from(script.byte() % 4) };
                let cntlid =
                    if qid == 0 { CNTLID_DYNAMIC } else { cntlids[usize::from(how >> 5) % cntlids.len()] };
                let subnqn = if how & 2 == 0 { nqn } else { Nqn::new(Nqn::DISCOVERY).unwrap_or(nqn) };
                let mut data = ConnectData {
                    subnqn: subnqn.to_field(),
                    hostnqn: nqn.to_field(),
                    ..ConnectData::default()
                };
                data.cntlid.set(if how & 4 == 0 { cntlid } else { script.number(2) as u16 });
                let cattr = ConnectAttributes::new().with_dis_sqflow(how & 8 != 0);
                let sqsize_z = if how & 16 == 0 { 31 } else { script.number(2) as u16 };
                let connect = Connect { recfmt: 0, qid, sqsize_z, cattr, kato: script.number(2) as u32 };
                let command = FabricsCommand::Connect(connect);
                let parties = Box::new(Parties { host: nqn, subsystem: subnqn });
                peer.submit(command, Data::Out(data.as_bytes().to_vec()), Exempt::Connect(parties));
            }
            // A property, mostly the one that enables the controller.
            2 => {
                let value = Cc::new()
                    .with_en(true)
                    .with_css(Cc::CSS_SETS)
                    .with_iosqes(6)
                    .with_iocqes(4)
                    .into_bits()
                    .get()
                    .into();
                let (offset, value) = match script.byte() {
                    0..200 => (PropertyOffset::CC, value),
                    other => (PropertyOffset(u32::from(other & 0x3F) * 4), script.number(4)),
                };
                let set = FabricsCommand::PropertySet { offset, wide: false, value };
                let _ = peer.wire.submit(set.into(), Data::None);
            }
            // Any command, with data either way; mostly one that is allowed on a namespace that may be there.
            3..8 => {
                let mut bytes: [u8; 64] = script.array();
                if kind < 7 {
                    plausible(&mut bytes);
                }
                let Ok(command) = Command::read_from_bytes(&bytes) else { return };
                let len = usize::from(script.byte() % 17) * 4096 + usize::from(script.byte() & 3) * 512;
                let kind = FaultKind(command.cdw10.get() as u8);
                let is_fault = command.opc == AdminOpcode::FAULT_INJECTION.0 && kind.is_of_protocol();
                self.is_faulty |= is_fault;
                let data = match script.byte() % 8 {
                    _ if is_fault => Data::Out(selector(script)),
                    // Another direction than the opcode's: no host's, as it could not tell what comes of it.
                    0 => {
                        peer.spoilt = true;
                        Data::In(vec![0; len])
                    }
                    _ => match command.opc & 3 {
                        1 => Data::Out(vec![script.byte() & script.byte(); len]),
                        2 => Data::In(vec![0; len]),
                        _ => Data::None,
                    },
                };
                if let Ok(tag) = peer.wire.submit(command, data)
                    && command.fctype() == FabricsType::DISCONNECT
                {
                    peer.exempt.insert(tag, Exempt::Noise);
                }
                if self.is_faulty {
                    self.peers.iter_mut().flatten().for_each(|peer| peer.spoilt = true);
                }
            }
            // Bytes that make no sense.
            8 => {
                peer.spoilt = true;
                let len = usize::from(script.byte());
                let _ = peer.stream.write(script.bytes(len));
            }
            // What a host would send, with one byte of it changed, or cut off.
            9 => {
                peer.spoilt = true;
                let mut bytes: Vec<u8> = peer.wire.transmit().flatten().copied().collect();
                let at = script.number(2) as usize;
                let len = bytes.len();
                if len != 0 {
                    bytes[at % len] ^= script.byte();
                    let _ = peer.stream.write(&bytes);
                    peer.wire.sent(len);
                }
            }
            // A host goes on with proving who it is, or begins, when it is not its turn.
            12 => peer.prove(None),
            13 => {
                let mut bytes = vec![script.byte() % 2, script.byte() % 8];
                bytes.extend(script.bytes(32));
                let length = bytes.len() as u32;
                let send = Authentication { spsp0: 1, spsp1: 1, secp: SECP_NVME, length };
                peer.submit(FabricsCommand::AuthenticationSend(send), Data::Out(bytes), Exempt::Noise);
            }
            10 => self.peers[index] = None,
            11 => self.pass(script.number(4)),
            _ => self.pump(),
        }
    }
}

/// Plays a script of hosts that may do anything. The drive answers in the protocol, and nothing of the hosts is left in the end.
pub fn fuzz_hosts(script: &[u8]) {
    let mut script = Script(script);
    let mut world = World::new(script.byte() & 1 != 0, Ports::new(Vec::new()));
    for _ in 0..STEPS {
        if script.0.is_empty() {
            break;
        }
        let kind = script.byte();
        world.step(kind % 16, usize::from(kind >> 4) % PEERS, &mut script);
    }
    world.pump();
    world.peers = [const { None }; PEERS];
    // A host that was refused, or has lost power, is gone as well after a while.
    for _ in 0..64 {
        world.pass(1_000_000_000);
        world.pump();
    }
    let drive = &world.engine.drive;
    assert_eq!((drive.in_flight(), drive.controllers().count()), (0, 0), "hosts that have gone");
    assert_eq!(world.engine.store.references(), 0, "contents that nobody sends");
    assert_eq!(world.engine.room(), device::MAX_IO as usize, "completions that faults hold back");
    assert_eq!(world.server.connections(), 0);
    assert!(world.server.places.are_unused(), "places that nobody holds");
}

#[cfg(test)]
mod tests {
    use super::super::ROUND_ACCEPTS;
    use super::super::socket::Listener;
    use super::*;
    use media::Rng;
    use std::net::TcpStream;

    /// A flood of connections that never ends would otherwise hold the drive's thread.
    #[test]
    fn a_round_accepts_few_connections() {
        let listener = Listener::tcp("127.0.0.1:0").unwrap();
        let address = listener.address().unwrap();
        let mut world = World::new(false, Ports::new(vec![(listener, AnaState::OPTIMIZED)]));
        let flood: Vec<_> = (0..5 * ROUND_ACCEPTS).map(|_| TcpStream::connect(address).unwrap()).collect();
        for accepted in (0..=flood.len()).step_by(ROUND_ACCEPTS) {
            assert_eq!(world.server.connections(), accepted);
            world.sleeper.sleep(&mut world.ready, false);
            world.engine.turn(&mut EngineTurn::new(&world.clock, Some(&world.ready)), &mut world.server);
        }
        assert_eq!(world.server.connections(), flood.len());
    }

    /// `TRANCHE_HOSTS_ROUNDS` scripts instead of a few, `TRANCHE_HOSTS_SEED` for the first one's seed.
    #[test]
    fn whatever_hosts_do_is_answered_and_forgotten() {
        let setting = |name: &str, default| {
            std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
        };
        let (first, rounds) = (setting("TRANCHE_HOSTS_SEED", 1), setting("TRANCHE_HOSTS_ROUNDS", 200));
        for seed in first..first + rounds {
            let mut rng = Rng::new(seed);
            let script: Vec<u8> = (0..4096).map(|_| rng.next_u64() as u8).collect();
            if let Err(panic) = std::panic::catch_unwind(|| fuzz_hosts(&script)) {
                eprintln!("TRANCHE_HOSTS_SEED={seed} TRANCHE_HOSTS_ROUNDS=1 repeats this");
                std::panic::resume_unwind(panic);
            }
        }
    }
}
