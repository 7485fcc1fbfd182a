//! Attacks by connections: many, slow, half open, nonsense, and in the name of others.

use crate::attack::Attack;
use crate::drive::{World, keys, nqn};
use crate::victim::Victim;
use crate::wire::{Association, Stop, Tally, call, connect_queue, flood, queue, stream};
use fabric::auth::{AuthStep, Host as ChapHost, Methods, Parties};
use host::{Data, Identity, Queue, SocketQueue};
use nvme::admin::GetLogPage;
use nvme::auth::{DhGroupId, HashId, SECP_NVME};
use nvme::fabrics::{Authentication, FabricsCommand};
use nvme::log::LogId;
use nvme::{CNTLID_DYNAMIC, Command, Nqn};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

pub const ATTACKS: &[Attack] = &[
    Attack::new("discovery-held", |world, stop| discovery_held(world, stop, 1)).filling(),
    Attack::new("discovery-held-many-addresses", |world, stop| discovery_held(world, stop, 200))
        .lasting_ms(1500),
    Attack::new("half-open", |world, stop| half_open(world, stop, 1)).filling(),
    Attack::new("half-open-many-addresses", |world, stop| half_open(world, stop, 20)).filling(),
    Attack::new("half-open-renewed", half_open_renewed),
    Attack::new("slow-pdus", slow_pdus).filling(),
    Attack::new("churn", churn),
    Attack::new("churn-behind-many", churn_behind_many).lasting_ms(1000),
    Attack::new("nonsense", nonsense),
    Attack::new("answers-not-taken", answers_not_taken),
    Attack::new("controllers", controllers).filling(),
    Attack::new("controllers-many-addresses", controllers_many_addresses).filling(),
    Attack::new("io-queues", io_queues).filling(),
    Attack::new("impostors", impostors).filling(),
    Attack::new("impostor-queues", impostor_queues).prepared_by(victims_controller),
    Attack::new("chap-ffdhe8192", |world, stop| chap(world, stop, "heavy")).lasting_ms(1000),
    Attack::new("chap-ffdhe8192-as-victim", |world, stop| chap(world, stop, "victim")).lasting_ms(1000),
];

/// More connections than a drive serves (`MAX_CONNECTIONS`).
const EXCESS_CONNECTIONS: usize = 4200;

fn stranger(number: usize) -> Identity {
    Identity::new(nqn(&format!("stranger{number}")))
}

/// Holds on to connections, made in this way, until the end.
fn hold<T>(stop: &Stop, count: usize, mut connect: impl FnMut(usize) -> Option<T>) -> Tally {
    let mut tally = Tally::default();
    let mut held = Vec::new();
    for number in 0..count {
        if stop.is_set() {
            break;
        }
        let connection = connect(number);
        tally.count(connection.is_some());
        held.extend(connection);
    }
    stop.set_full();
    stop.wait();
    tally
}

/// Strangers on the discovery service, whose connections would end in 49 days.
fn discovery_held(world: &World, stop: &Stop, addresses: usize) -> Tally {
    let discovery = Nqn::new(Nqn::DISCOVERY).unwrap();
    hold(stop, EXCESS_CONNECTIONS, |number| {
        let from = world.source((number % addresses) as u8 + 10);
        let mut queue = queue(world, from, 32).ok()?;
        let place = (0, CNTLID_DYNAMIC);
        connect_queue(&mut queue, &stranger(number), &discovery, place, u32::MAX).ok()?;
        Some(queue)
    })
}

/// Connections that send nothing.
fn half_open(world: &World, stop: &Stop, addresses: usize) -> Tally {
    let count = if addresses > 1 { 5000 } else { 300 };
    hold(stop, count, |number| stream(world.tcp, world.source((number % addresses) as u8 + 10)).ok())
}

/// Connections that send nothing, and make room for others that send nothing either.
fn half_open_renewed(world: &World, stop: &Stop) -> Tally {
    const HELD_CONNECTIONS: usize = 400;
    let mut tally = Tally::default();
    let mut held = std::collections::VecDeque::new();
    while !stop.is_set() {
        let stream = stream(world.tcp, world.source((tally.done % 4) as u8 + 10));
        tally.count(stream.is_ok());
        held.extend(stream);
        if held.len() > HELD_CONNECTIONS {
            held.pop_front();
        }
    }
    tally
}

/// PDUs that come byte by byte.
fn slow_pdus(world: &World, stop: &Stop) -> Tally {
    let mut tally = Tally::default();
    let mut held: Vec<_> =
        (0..240).map_while(|number| stream(world.tcp, world.source(number as u8 % 4 + 10)).ok()).collect();
    let pdu = initialize();
    for byte in pdu.iter().cycle() {
        held.iter_mut().for_each(|stream| tally.count(stream.write_all(&[*byte]).is_ok()));
        std::thread::sleep(Duration::from_millis(5));
        if stop.is_set() {
            break;
        }
    }
    tally
}

/// An Initialize Connection Request.
fn initialize() -> Vec<u8> {
    let mut pdu = vec![0; 128];
    (pdu[2], pdu[4]) = (128, 128);
    pdu
}

/// Strangers that come and go: with a Connect that is refused, or without a word.
fn churn(world: &World, stop: &Stop) -> Tally {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                scope.spawn(move || {
                    let mut tally = Tally::default();
                    for number in 0.. {
                        if stop.is_set() {
                            break;
                        }
                        let from = world.source(thread * 8 + (number % 8) as u8 + 10);
                        match number % 2 {
                            0 => tally.count(stream(world.tcp, from).is_ok()),
                            _ => tally.count(queue(world, from, 32).is_ok_and(|mut queue| {
                                let place = (0, CNTLID_DYNAMIC);
                                connect_queue(&mut queue, &stranger(number), &world.subsystem, place, 0)
                                    .is_ok()
                            })),
                        }
                    }
                    tally
                })
            })
            .collect();
        threads.into_iter().fold(Tally::default(), |mut all, thread| {
            all += thread.join().unwrap();
            all
        })
    })
}

/// The same, while as many connections as the drive lets in are open: each of them may be asked at each accept.
fn churn_behind_many(world: &World, stop: &Stop) -> Tally {
    let held: Vec<_> = (0..3000)
        .map_while(|number| stream(world.tcp, world.source((number % 20) as u8 + 100)).ok())
        .collect();
    let mut tally = churn(world, stop);
    tally.done += held.len() as u64;
    tally
}

/// Bytes that are no PDUs, or PDUs that may not come.
fn nonsense(world: &World, stop: &Stop) -> Tally {
    let mut tally = Tally::default();
    let mut rng = rng::Rng::new(1);
    while !stop.is_set() {
        let Ok(mut stream) = stream(world.tcp, world.source(10 + (tally.done % 16) as u8)) else {
            tally.count(false);
            continue;
        };
        let mut bytes = initialize();
        bytes.extend((0..64).flat_map(|_| rng.next_u64().to_le_bytes()));
        // A kind of PDU for each connection.
        bytes[128] = (tally.done % 16) as u8;
        let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
        let sent = stream.write_all(&bytes).is_ok();
        let _ = stream.read(&mut [0; 512]);
        tally.count(sent);
    }
    tally
}

/// Asks for much and takes nothing.
fn answers_not_taken(world: &World, stop: &Stop) -> Tally {
    hold(stop, 32, |_| {
        let identity = Identity::new(nqn("hostile"));
        let mut tenant = Association::open(world, &identity, world.source(1), 0).ok()?;
        for n in 0..30 {
            let lid = [LogId::COMMAND_EFFECTS, LogId::SUPPORTED, LogId::NAMESPACE_STATISTICS][n % 3];
            let csi = nvme::Csi::NVM;
            let get = GetLogPage {
                nsid: 0,
                lid,
                lsp: 0,
                lsi: 0,
                rae: true,
                dwords: 32_768,
                offset: 0,
                ot: false,
                csi,
                uidx: 0,
            };
            tenant.admin.submit(get.into(), Data::room(131_072)).ok()?;
        }
        tenant.admin.flush().ok()?;
        Some(tenant)
    })
}

/// Controllers of one tenant, which has the right to some.
fn controllers(world: &World, stop: &Stop) -> Tally {
    hold(stop, EXCESS_CONNECTIONS, |_| {
        let mut queue = queue(world, world.source(1), 32).ok()?;
        connect_queue(&mut queue, &Identity::new(nqn("hostile")), &world.subsystem, (0, CNTLID_DYNAMIC), 0)
            .ok()?;
        Some(queue)
    })
}

/// The same from many addresses, with other identifiers, and with a Keep Alive Timeout.
fn controllers_many_addresses(world: &World, stop: &Stop) -> Tally {
    hold(stop, EXCESS_CONNECTIONS, |number| {
        let mut hostid = [0x77; 16];
        hostid[..8].copy_from_slice(&(number as u64).to_le_bytes());
        let identity = Identity { hostid, ..Identity::new(nqn("hostile")) };
        Association::open(world, &identity, world.source((number % 200) as u8 + 10), 120_000).ok()
    })
}

/// I/O queues of one tenant, on as many controllers as it takes.
fn io_queues(world: &World, stop: &Stop) -> Tally {
    let mut tally = Tally::default();
    let mut held = Vec::new();
    while !stop.is_set() && held.len() < EXCESS_CONNECTIONS {
        let opened = Association::open(world, &Identity::new(nqn("hostile")), world.source(1), 0);
        tally.count(opened.is_ok());
        let Ok(mut tenant) = opened else { break };
        let ask = nvme::feature::NumberOfQueues::new().with_nsq_z(0xFFFE).with_ncq_z(0xFFFE);
        let set = Command::set_features(nvme::feature::FeatureId::NUMBER_OF_QUEUES, 0, ask.into_bits().get());
        let _ = call(&mut tenant.admin, set, Data::None, stop);
        let before = held.len();
        while !stop.is_set() && held.len() < EXCESS_CONNECTIONS {
            let Ok(queue) = tenant.queue(world, 2) else { break };
            tally.count(true);
            held.push(queue);
        }
        if held.len() == before {
            break;
        }
        held.push(tenant.admin);
    }
    stop.set_full();
    stop.wait();
    tally
}

/// Strangers with the victim's name and identifier, who never prove that they are.
fn impostors(world: &World, stop: &Stop) -> Tally {
    let victim = World::victim_identity();
    hold(stop, 1000, |number| {
        let mut queue = queue(world, world.source((number % 8) as u8 + 10), 32).ok()?;
        connect_queue(&mut queue, &victim, &world.subsystem, (0, CNTLID_DYNAMIC), 0).ok()?;
        Some(queue)
    })
}

static VICTIMS_CONTROLLER: AtomicU16 = AtomicU16::new(0);

fn victims_controller(_: &World, victim: &mut Victim) {
    VICTIMS_CONTROLLER.store(victim.cntlid(), Ordering::Relaxed);
}

/// Strangers who ask for I/O queues of the victim's controller.
fn impostor_queues(world: &World, stop: &Stop) -> Tally {
    let (victim, cntlid) = (World::victim_identity(), VICTIMS_CONTROLLER.load(Ordering::Relaxed));
    hold(stop, 200, |number| {
        let mut queue = queue(world, world.source((number % 8) as u8 + 10), 8).ok()?;
        let place = (number as u16 % 64 + 1, cntlid);
        connect_queue(&mut queue, &victim, &world.subsystem, place, 0).ok()?;
        // It is not proved, so nothing is carried out.
        let commands = (0..8).map(|lba| (Command::read(crate::drive::VICTIM_NSID, lba, 1), Data::room(4096)));
        if flood(&mut queue, 8, commands, stop).done > 0 {
            world.violation("a queue that was not authenticated reads the victim's blocks");
        }
        Some(queue)
    })
}

/// The messages of a host that authenticates itself with the largest group. They are made once: the drive's work for each copy is the same.
struct Messages {
    negotiate: Vec<u8>,
    reply: Option<Vec<u8>>,
}

fn authentication(queue: &mut SocketQueue, message: Option<&[u8]>, stop: &Stop) -> Result<Vec<u8>, String> {
    let parameters = |length| Authentication { spsp0: 1, spsp1: 1, secp: SECP_NVME, length };
    let (command, data) = match message {
        Some(message) => {
            let send = FabricsCommand::AuthenticationSend(parameters(message.len() as u32));
            (send, Data::Out(message.to_vec()))
        }
        None => {
            let receive = FabricsCommand::AuthenticationReceive(parameters(ChapHost::ROOM as u32));
            (receive, Data::room(ChapHost::ROOM))
        }
    };
    Ok(call(queue, command.into(), data, stop)?.data.into_buffer())
}

fn chap_queue(world: &World, name: &str, number: u8) -> Result<SocketQueue, String> {
    let mut queue = queue(world, world.source(number % 200 + 10), 32)?;
    connect_queue(&mut queue, &Identity::new(nqn(name)), &world.subsystem, (0, CNTLID_DYNAMIC), 0)?;
    Ok(queue)
}

impl Messages {
    fn make(world: &World, name: &str, stop: &Stop) -> Result<Messages, String> {
        let methods = Methods { hashes: vec![HashId::SHA256], dh_groups: vec![DhGroupId::FFDHE8192] };
        let parties = Parties { host: nqn(name), subsystem: world.subsystem };
        let mut host = ChapHost::new(parties, keys(), methods, 7);
        let mut random = host::fill_random;
        let AuthStep::Send(negotiate) = host.step(None, &mut random) else {
            return Err("no negotiation".to_owned());
        };
        let mut queue = chap_queue(world, name, 0)?;
        authentication(&mut queue, Some(&negotiate), stop)?;
        host.step(None, &mut random);
        let challenge = authentication(&mut queue, None, stop)?;
        let reply = match host.step(Some(&challenge), &mut random) {
            AuthStep::Send(mut reply) => {
                // A wrong response: nobody of these gets in.
                if let Some(byte) = reply.get_mut(20) {
                    *byte ^= 0xFF;
                }
                Some(reply)
            }
            _ => None,
        };
        Ok(Messages { negotiate, reply })
    }

    fn send(&self, world: &World, name: &str, number: u8, stop: &Stop) -> Result<(), String> {
        let mut queue = chap_queue(world, name, number)?;
        authentication(&mut queue, Some(&self.negotiate), stop)?;
        authentication(&mut queue, None, stop)?;
        if let Some(reply) = &self.reply {
            authentication(&mut queue, Some(reply), stop)?;
            authentication(&mut queue, None, stop)?;
        }
        Ok(())
    }
}

/// A hundred hosts that authenticate themselves at once, each with the most expensive exchange.
fn chap(world: &World, stop: &Stop, name: &str) -> Tally {
    let Ok(messages) = Messages::make(world, name, stop) else { return Tally::default() };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..100)
            .map(|number| {
                let messages = &messages;
                scope.spawn(move || {
                    let mut tally = Tally::default();
                    while !stop.is_set() {
                        tally.count(messages.send(world, name, number, stop).is_ok());
                    }
                    tally
                })
            })
            .collect();
        threads.into_iter().fold(Tally::default(), |mut all, thread| {
            all += thread.join().unwrap();
            all
        })
    })
}
