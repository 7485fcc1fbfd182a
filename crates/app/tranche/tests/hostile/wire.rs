//! Associations that a hostile host makes by hand: any name, any identifier, any address of its own, and no patience.

use crate::drive::{HANG_TIMEOUT, World};
use fabric::host::Config;
use host::{CompletedCommand, Data, Identity, Queue, SocketQueue};
use nvme::fabrics::{Connect, ConnectAttributes, ConnectData, ConnectResult, FabricsCommand};
use nvme::property::{Cap, Cc, Csts, PropertyOffset};
use nvme::zerocopy::{FromZeros, IntoBytes};
use nvme::{CNTLID_DYNAMIC, Command, Nqn, Status, U16, U32, U64};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a connection of an attack may take to be accepted.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How often an attack looks whether it is to end.
const STOP_INTERVAL: Duration = Duration::from_millis(10);

/// Says when an attack ends, and whether it has all the connections that it wants.
#[derive(Default)]
pub struct Stop {
    ended: AtomicBool,
    full: AtomicBool,
}

impl Stop {
    pub fn set(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub fn set_full(&self) {
        self.full.store(true, Ordering::Relaxed);
    }

    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Waits until the end.
    pub fn wait(&self) {
        while !self.is_set() {
            std::thread::sleep(STOP_INTERVAL);
        }
    }
}

/// What the drive made of commands, or of connections.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    /// Carried out.
    pub done: u64,
    /// Refused, or failed.
    pub failed: u64,
}

impl Tally {
    pub fn count(&mut self, succeeded: bool) {
        *(if succeeded { &mut self.done } else { &mut self.failed }) += 1;
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.done += other.done;
        self.failed += other.failed;
    }
}

/// A connected socket from this address.
pub fn stream(to: SocketAddr, from: IpAddr) -> std::io::Result<TcpStream> {
    let family = if from.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket(family, SocketType::STREAM, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(CONNECT_TIMEOUT))?;
    bind(&socket, &SocketAddr::new(from, 0))?;
    connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}

/// A connection that has exchanged its first PDUs.
pub fn queue(world: &World, from: IpAddr, depth: u16) -> Result<SocketQueue, String> {
    let stream = stream(world.tcp, from).map_err(|error| error.to_string())?;
    let config = Config { depth, ..Config::default() };
    SocketQueue::over_tcp(stream, config, CONNECT_TIMEOUT).map_err(|error| error.to_string())
}

/// Sends Connect.
pub fn connect_queue(
    queue: &mut SocketQueue,
    identity: &Identity,
    subsystem: &Nqn,
    (qid, cntlid): (u16, u16),
    kato_ms: u32,
) -> Result<ConnectResult, String> {
    let connect = Connect {
        recfmt: 0,
        qid,
        sqsize_z: queue.capacity() as u16 - 1,
        cattr: ConnectAttributes::new().with_dis_sqflow(true),
        kato: kato_ms,
    };
    let data = ConnectData {
        hostid: identity.hostid,
        cntlid: U16::new(cntlid),
        subnqn: subsystem.to_field(),
        hostnqn: identity.hostnqn.to_field(),
        ..ConnectData::new_zeroed()
    };
    let data = Data::Out(data.as_bytes().to_vec());
    let done = call(queue, FabricsCommand::Connect(connect).into(), data, &Stop::default())?;
    succeeded(&done)?;
    Ok(ConnectResult::from_dw0(done.completion.dw0.get()))
}

fn succeeded(done: &CompletedCommand) -> Result<(), String> {
    done.completion.status().ok().map_err(|status: Status| status.to_string())
}

/// One command. It ends early, with an error, when the attack does.
pub fn call(
    queue: &mut SocketQueue,
    command: Command,
    data: Data,
    stop: &Stop,
) -> Result<CompletedCommand, String> {
    let deadline = Instant::now() + HANG_TIMEOUT;
    let tag = queue.submit(command, data).map_err(|error| error.to_string())?;
    while !stop.is_set() && Instant::now() < deadline {
        match queue.next(Some(STOP_INTERVAL)).map_err(|error| error.to_string())? {
            Some(done) if done.tag == tag => return Ok(done),
            _ => {}
        }
    }
    Err("no answer until the end".to_owned())
}

/// Whether one command succeeds.
pub fn succeeds(queue: &mut SocketQueue, command: impl Into<Command>, data: Data, stop: &Stop) -> bool {
    call(queue, command.into(), data, stop).is_ok_and(|done| done.completion.status().is_success())
}

/// Keeps this many commands outstanding until there are no more, the attack ends, or the connection does.
pub fn flood(
    queue: &mut SocketQueue,
    depth: usize,
    commands: impl Iterator<Item = (Command, Data)>,
    stop: &Stop,
) -> Tally {
    let (mut tally, mut commands) = (Tally::default(), commands.fuse());
    let depth = depth.min(queue.capacity());
    while !stop.is_set() {
        while queue.outstanding() < depth
            && let Some((command, data)) = commands.next()
        {
            if queue.submit(command, data).is_err() {
                return tally;
            }
        }
        if queue.outstanding() == 0 {
            break;
        }
        match queue.next(Some(STOP_INTERVAL)) {
            Ok(Some(done)) => tally.count(done.completion.status().is_success()),
            Ok(None) => {}
            Err(_) => break,
        }
    }
    tally
}

/// A host's association with the drive.
pub struct Association {
    pub admin: SocketQueue,
    pub cntlid: u16,
    identity: Identity,
    from: IpAddr,
    next_qid: u16,
}

impl Association {
    /// Connects an admin queue, and enables its controller.
    pub fn open(world: &World, identity: &Identity, from: IpAddr, kato_ms: u32) -> Result<Self, String> {
        let mut admin = queue(world, from, 32)?;
        let result = connect_queue(&mut admin, identity, &world.subsystem, (0, CNTLID_DYNAMIC), kato_ms)?;
        let mut association =
            Association { admin, cntlid: result.cntlid, identity: identity.clone(), from, next_qid: 1 };
        association.enable()?;
        Ok(association)
    }

    /// Enables the controller, and waits until it is.
    pub fn enable(&mut self) -> Result<(), String> {
        let cap = Cap::from_bits(U64::new(self.property(PropertyOffset::CAP, true)?));
        self.set_property(PropertyOffset::CC, Cc::enabled(cap).into_bits().get())?;
        let deadline = Instant::now() + HANG_TIMEOUT;
        while !Csts::from_bits(U32::new(self.property(PropertyOffset::CSTS, false)? as u32)).rdy() {
            if Instant::now() >= deadline {
                return Err("the controller does not become ready".to_owned());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    pub fn property(&mut self, offset: PropertyOffset, wide: bool) -> Result<u64, String> {
        let get = FabricsCommand::PropertyGet { offset, wide };
        let done = call(&mut self.admin, get.into(), Data::None, &Stop::default())?;
        succeeded(&done)?;
        Ok(if wide { done.completion.result64() } else { done.completion.dw0.get().into() })
    }

    pub fn set_property(&mut self, offset: PropertyOffset, value: u32) -> Result<(), String> {
        let set = FabricsCommand::PropertySet { offset, wide: false, value: value.into() };
        succeeded(&call(&mut self.admin, set.into(), Data::None, &Stop::default())?)
    }

    /// Opens an I/O queue.
    pub fn queue(&mut self, world: &World, depth: u16) -> Result<SocketQueue, String> {
        let mut queue = queue(world, self.from, depth)?;
        let place = (self.next_qid, self.cntlid);
        connect_queue(&mut queue, &self.identity, &world.subsystem, place, 0)?;
        self.next_qid += 1;
        Ok(queue)
    }
}

/// Acts on associations of the hostile tenant until the end: on a new one when the drive closes one, or refuses an act.
pub fn persist(
    world: &World,
    stop: &Stop,
    mut act: impl FnMut(&mut Association) -> Result<Tally, String>,
) -> Tally {
    let mut all = Tally::default();
    while !stop.is_set() {
        let acted =
            Association::open(world, &Identity::new(crate::drive::nqn("hostile")), world.source(1), 0);
        match acted.and_then(|mut association| act(&mut association)) {
            Ok(tally) => all += tally,
            Err(_) => {
                all.count(false);
                std::thread::sleep(STOP_INTERVAL);
            }
        }
    }
    all
}

/// Acts on the hostile tenant's I/O queues until the end, each on a thread of its own.
pub fn persist_on_queues(
    world: &World,
    stop: &Stop,
    queues: u16,
    act: impl Fn(&mut SocketQueue, u16) -> Tally + Sync,
) -> Tally {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..queues)
            .map(|number| {
                let act = &act;
                scope.spawn(move || {
                    persist(world, stop, |tenant| Ok(act(&mut tenant.queue(world, 128)?, number)))
                })
            })
            .collect();
        threads.into_iter().fold(Tally::default(), |mut all, thread| {
            all += thread.join().unwrap();
            all
        })
    })
}

/// Gives this thread, and the threads and processes that it starts from now on, a priority: from -20 (first) to 19. Only root may raise one.
pub fn set_niceness(niceness: i32) {
    let _ = rustix::process::setpriority_process(None, niceness);
}
