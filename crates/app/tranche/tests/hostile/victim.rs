//! The neighbour: it reads and writes at a low rate, knows what each block has to hold, and wants to connect at any time.

use crate::drive::{HANG_TIMEOUT, SENTINEL_NSID, SHARED_NSID, VICTIM_NSID, VICTIM_PLACED_NSID, World};
use crate::web;
use host::{Data, Host, IoQueue, Queue, SocketQueue, SocketTransport, Tag};
use nvme::aer::{EventType, NoticeInfo};
use nvme::feature::{AsyncEventConfiguration, FeatureId};
use nvme::reservation::{
    AcquireAction, AcquireKeys, ChangePtpl, RegisterAction, RegisterKeys, RegistrantExtended,
    ReservationAcquire, ReservationRegister, ReservationReport, ReservationStatusExtended, ReservationType,
};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{Command, Nsid, U64};
use rng::Rng;
use std::time::{Duration, Instant};

/// Time between two commands. They do not wait for each other, so that a pause of the drive is seen by all that fall into it.
const INTERVAL: Duration = Duration::from_micros(500);
/// One command in this many is a write.
const WRITE_SHARE: u64 = 16;
const DEPTH: u16 = 256;
/// Blocks that are only read, from the start of a namespace.
const READ_BLOCKS: [(Nsid, u64); 2] = [(VICTIM_NSID, 8192), (VICTIM_PLACED_NSID, 4096)];
/// Blocks of the first namespace that are written again and again.
const WRITTEN_BLOCKS: std::ops::Range<u64> = 8192..8448;
const BLOCK_BYTES: usize = 4096;
/// The reservation key.
const KEY: u64 = 0x1234_5678;
/// How long an event may take that has happened already.
const EVENT_TIMEOUT: Duration = Duration::from_secs(2);

/// What a version of a block holds.
fn block(nsid: Nsid, lba: u64, version: u64) -> Vec<u8> {
    let word = rng::mix(u64::from(nsid) << 56 ^ lba << 28 ^ version);
    word.to_le_bytes().repeat(BLOCK_BYTES / 8)
}

/// A command under way.
struct Outstanding {
    since: Instant,
    nsid: Nsid,
    lba: u64,
    /// Of a write the version.
    version: Option<u64>,
}

pub struct Victim {
    host: Host<SocketTransport>,
    queue: IoQueue<SocketQueue>,
    outstanding: Vec<Option<Outstanding>>,
    rng: Rng,
    /// Versions of the blocks that are written.
    versions: Vec<u64>,
    commands: u64,
}

impl Victim {
    /// Connects, writes what it will read, and reserves its namespace and the shared one.
    pub fn arrive(world: &World, seed: u64) -> Victim {
        let mut host = world.connect_far(&World::victim_identity()).expect("the victim connects");
        let notices = AsyncEventConfiguration::new().with_nan(true).into_bits().get();
        host.set_feature(FeatureId::ASYNC_EVENT_CONFIGURATION, 0, notices, Data::None, false).unwrap();
        let mut queue = host.io_queue(DEPTH).unwrap();
        let capacity = queue.raw().capacity();
        for (nsid, blocks) in READ_BLOCKS {
            let namespace = host.namespace(nsid).unwrap();
            for first in (0..blocks).step_by(256) {
                let data: Vec<u8> = (first..first + 256).flat_map(|lba| block(nsid, lba, 0)).collect();
                queue.write(&namespace, first, &data, false).unwrap();
            }
        }
        let versions = vec![0; (WRITTEN_BLOCKS.end - WRITTEN_BLOCKS.start) as usize];
        let outstanding = (0..=capacity).map(|_| None).collect();
        let mut victim = Victim { host, queue, outstanding, rng: Rng::new(seed), versions, commands: 0 };
        let namespace = victim.host.namespace(VICTIM_NSID).unwrap();
        for lba in WRITTEN_BLOCKS {
            victim.queue.write(&namespace, lba, &block(VICTIM_NSID, lba, 0), false).unwrap();
        }
        let shared = victim.host.namespace(SHARED_NSID).unwrap();
        victim.queue.write(&shared, 0, &block(SHARED_NSID, 0, 0), false).unwrap();
        victim.reserve().expect("the victim's reservations");
        victim
    }

    pub fn cntlid(&self) -> u16 {
        self.host.cntlid()
    }

    pub fn queue(&mut self) -> &mut IoQueue<SocketQueue> {
        &mut self.queue
    }

    /// Reads and writes for this long. Returns the latencies, in no order.
    ///
    /// # Errors
    /// The drive closed the connection, a command failed or never ended, or a block holds something else than it has to.
    pub fn measure(&mut self, length: Duration) -> Result<Vec<Duration>, String> {
        let mut latencies = Vec::with_capacity((length.as_micros() / INTERVAL.as_micros()) as usize + 1);
        let start = Instant::now();
        let (end, mut due) = (start + length, start);
        let broken = |error: host::TransportError| format!("the victim's connection broke: {error}");
        loop {
            let now = Instant::now();
            let queue = self.queue.raw();
            if now >= end && queue.outstanding() == 0 {
                return Ok(latencies);
            }
            if now >= end + HANG_TIMEOUT {
                return Err(format!("{} commands of the victim do not end", queue.outstanding()));
            }
            if now < end && now >= due && queue.outstanding() < queue.capacity() {
                due = (due + INTERVAL).max(now);
                self.submit(now)?;
                continue;
            }
            let until = if now < end { due.max(now + Duration::from_micros(1)) } else { end + HANG_TIMEOUT };
            if let Some(done) = queue.next(Some(until - now)).map_err(broken)? {
                let status = done.completion.status();
                latencies.push(self.ended(done.tag, &done.data.into_buffer(), status)?);
            }
        }
    }

    fn submit(&mut self, now: Instant) -> Result<(), String> {
        self.commands += 1;
        let (nsid, lba, version) = if self.commands.is_multiple_of(WRITE_SHARE) {
            let place = self.commands / WRITE_SHARE % self.versions.len() as u64;
            let version = self.versions[place as usize] + 1;
            (VICTIM_NSID, WRITTEN_BLOCKS.start + place, Some(version))
        } else {
            let (nsid, blocks) = READ_BLOCKS[(self.commands % 2) as usize];
            (nsid, self.rng.below(blocks), None)
        };
        let (command, data) = match version {
            Some(version) => (Command::write(nsid, lba, 1), Data::Out(block(nsid, lba, version))),
            None => (Command::read(nsid, lba, 1), Data::room(BLOCK_BYTES)),
        };
        let queue = self.queue.raw();
        let tag = queue.submit(command, data).map_err(|error| error.to_string())?;
        queue.flush().map_err(|error| error.to_string())?;
        let place = usize::from(tag.0);
        self.outstanding.resize_with(self.outstanding.len().max(place + 1), || None);
        self.outstanding[place] = Some(Outstanding { since: now, nsid, lba, version });
        Ok(())
    }

    fn ended(&mut self, tag: Tag, data: &[u8], status: nvme::Status) -> Result<Duration, String> {
        let command = self.outstanding[usize::from(tag.0)].take().expect("a command of this tag");
        let Outstanding { since, nsid, lba, version } = command;
        status.ok().map_err(|status| format!("a command of the victim failed: {status}"))?;
        match version {
            Some(version) => self.versions[(lba - WRITTEN_BLOCKS.start) as usize] = version,
            None if data != block(nsid, lba, 0) => {
                return Err(format!("block {lba} of the victim's namespace {nsid} has other data"));
            }
            None => {}
        }
        Ok(since.elapsed())
    }

    /// Whether every block that it wrote holds the last version.
    pub fn verify(&mut self) -> Result<(), String> {
        let namespace = self.host.namespace(VICTIM_NSID).map_err(|error| error.to_string())?;
        let mut data = vec![0; self.versions.len() * BLOCK_BYTES];
        self.queue.read(&namespace, WRITTEN_BLOCKS.start, &mut data).map_err(|error| error.to_string())?;
        for (place, (found, version)) in data.chunks(BLOCK_BYTES).zip(&self.versions).enumerate() {
            let lba = WRITTEN_BLOCKS.start + place as u64;
            if found != block(VICTIM_NSID, lba, *version) {
                return Err(format!("block {lba} does not hold what the victim wrote last"));
            }
        }
        let shared = self.host.namespace(SHARED_NSID).map_err(|error| error.to_string())?;
        let mut data = vec![0; BLOCK_BYTES];
        self.queue.read(&shared, 0, &mut data).map_err(|error| error.to_string())?;
        match data == block(SHARED_NSID, 0, 0) {
            true => Ok(()),
            false => Err("the block that the victim's reservation protects has other data".to_owned()),
        }
    }

    /// Makes sure that it holds a reservation of the shared namespace that lets in nobody else, and one of its own.
    pub fn reserve(&mut self) -> Result<(), String> {
        for nsid in [SHARED_NSID, VICTIM_NSID] {
            let action = RegisterAction::REGISTER;
            let register = ReservationRegister { nsid, action, iekey: true, cptpl: ChangePtpl::NO_CHANGE };
            let keys = RegisterKeys { crkey: U64::new(0), nrkey: U64::new(KEY) };
            let call = |queue: &mut IoQueue<SocketQueue>, command: Command, data: &[u8]| {
                let done =
                    queue.call(command, Data::Out(data.to_vec())).map_err(|error| error.to_string())?;
                done.completion.status().ok().map_err(|status| status.to_string())
            };
            call(&mut self.queue, register.into(), keys.as_bytes())?;
            let rtype = ReservationType::EXCLUSIVE_ACCESS;
            let action = AcquireAction::ACQUIRE;
            let acquire = ReservationAcquire { nsid, action, iekey: false, rtype };
            let keys = AcquireKeys { crkey: U64::new(KEY), prkey: U64::new(0) };
            call(&mut self.queue, acquire.into(), keys.as_bytes())?;
        }
        Ok(())
    }

    /// What the victim has registered with the two namespaces, and holds.
    pub fn reservations(&mut self) -> Result<Vec<String>, host::Error> {
        let mut all = Vec::new();
        for nsid in [SHARED_NSID, VICTIM_NSID] {
            let report = ReservationReport { nsid, dwords: 1024, eds: true };
            let data = self.queue.call(report.into(), Data::room(4096))?.data.into_buffer();
            let (status, rest) = ReservationStatusExtended::read_from_prefix(&data).unwrap();
            let count = usize::from(status.registrants.get());
            let registrants = rest.chunks_exact(size_of::<RegistrantExtended>()).take(count);
            let mut seen: Vec<_> = registrants
                .filter_map(|bytes| RegistrantExtended::read_from_bytes(bytes).ok())
                .filter(|registrant| registrant.rkey.get() == KEY)
                .map(|registrant| format!("{:?} {} {}", registrant.hostid, registrant.rkey, registrant.rcsts))
                .collect();
            seen.sort();
            seen.dedup();
            all.push(format!("reservation of {nsid}: {} {seen:?}", status.rtype));
        }
        Ok(all)
    }

    /// Has something happen that the victim is to be told.
    pub fn arm(&mut self, world: &World) {
        let mut admin = world.admin();
        admin
            .detach_namespace(SENTINEL_NSID, &[self.cntlid()])
            .expect("the administrator detaches a namespace");
        admin
            .attach_namespace(SENTINEL_NSID, &[self.cntlid()])
            .expect("the administrator attaches a namespace");
    }

    /// Whether the victim is told of it.
    pub fn disarm(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + EVENT_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.host.next_event(left).map_err(|error| error.to_string())? {
                Some(event)
                    if event.kind() == EventType::NOTICE
                        && event.info() == NoticeInfo::NAMESPACE_ATTRIBUTE_CHANGED.0 =>
                {
                    break;
                }
                Some(_) => {}
                None => return Err("the victim's event is lost".to_owned()),
            }
        }
        let changed = self.host.changed_namespaces().map_err(|error| error.to_string())?;
        match changed.contains(&SENTINEL_NSID) {
            true => Ok(()),
            false => Err(format!("the log of changed namespaces has lost one: {changed:?}")),
        }
    }

    /// Reads and writes some mebibytes, which drive-wide counters would show.
    pub fn be_active(&mut self) {
        let namespaces = [VICTIM_NSID, VICTIM_PLACED_NSID].map(|nsid| self.host.namespace(nsid).unwrap());
        for (namespace, (nsid, blocks)) in namespaces.iter().zip(READ_BLOCKS) {
            let mut data = vec![0; 4 << 20];
            self.queue.read(namespace, 0, &mut data).unwrap();
            let first = blocks / 2;
            let data: Vec<u8> = (first..first + 1024).flat_map(|lba| block(nsid, lba, 0)).collect();
            self.queue.write(namespace, first, &data, false).unwrap();
        }
    }
}

/// How long it took to connect and to ask for something: the administrator over the Unix socket and over TCP, the victim, and whoever
/// looks at the live view and at the metrics.
pub type Visit = [Duration; 5];

pub const VISITORS: [&str; 5] =
    ["administrator, Unix", "administrator, TCP", "victim", "live view", "metrics"];

/// How long somebody tries who is not served. Whoever tries that long is locked out.
const VISIT_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two attempts.
const VISIT_PAUSE: Duration = Duration::from_millis(2);

/// Everybody who has to be served at any time comes once. A host whose connection is closed before it has authenticated itself tries again, as hosts do:
/// a flood from its own network can take its place. What that costs is in the times.
///
/// # Errors
/// The one that was not served.
pub fn visit(world: &World) -> Result<Visit, String> {
    let mut times = Visit::default();
    let visits: [&dyn Fn() -> Result<(), String>; 5] = [
        &|| {
            world
                .connect_near()
                .and_then(|mut host| host.active_namespaces())
                .map(|_| ())
                .map_err(|e| e.to_string())
        },
        &|| {
            let host = world.connect_far(&World::administrator_identity());
            host.and_then(|mut host| host.active_namespaces()).map(|_| ()).map_err(|error| error.to_string())
        },
        &|| {
            let read = || -> Result<(), host::Error> {
                let mut host = world.connect_far(&World::victim_identity())?;
                let namespace = host.namespace(VICTIM_NSID)?;
                host.io_queue(32)?.read(&namespace, 0, &mut [0; BLOCK_BYTES])
            };
            read().map_err(|error| error.to_string())
        },
        &|| web::expect(200, web::get_with_token(world, &world.view, "/api/state")),
        &|| web::expect(200, web::get_with_token(world, &world.metrics, "/metrics")),
    ];
    for ((visit, time), who) in visits.iter().zip(&mut times).zip(VISITORS) {
        let start = Instant::now();
        while let Err(error) = visit() {
            if start.elapsed() > VISIT_TIMEOUT {
                return Err(format!("{who}: {error}"));
            }
            std::thread::sleep(VISIT_PAUSE);
        }
        *time = start.elapsed();
    }
    Ok(times)
}
