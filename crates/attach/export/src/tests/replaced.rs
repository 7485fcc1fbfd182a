//! Namespaces are replaced under every front end while the thread that follows the drive is busy. What was opened before stays with the namespace
//! that it was opened on: it writes to no other, and reads nothing of another.
//!
//! `TRANCHE_REPLACED_SEEDS` is the number of seeds, `TRANCHE_REPLACED_SEED` the first.

use super::nbd::Client;
use crate::backend::{Backend, Follower};
use crate::drive::{Extent, ExtentQuery};
use crate::export::{Export, FuseTransport, Options};
use crate::file_table::{Changes, File};
use crate::nbd::{Listener, Place, Server};
use crate::request_queue::Answer;
use crate::uring;
use fuser::Errno;
use host::{Host, Identity, IoQueue, namespace_create};
use live::{LocalQueue, LocalTransport, Running, Shape};
use nvme::Csi;
use nvme::admin::{FormatNvm, SecureErase};
use nvme::identify::ZonedCreate;
use nvme::zone::ZoneSendAction;
use rng::Rng;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;
use testkit::{possible, wait_for};

/// Conventional namespaces are on set 2, zoned ones on set 1.
fn drive() -> String {
    let flash = testkit::drives::flash("128MiB", "zone = { active = 14 }");
    format!(
        r#"
[drive]
timing = false
write_buffer = "1MiB"
{flash}
[[set]]
media = "dram"
capacity = "16MiB"
"#
    )
}

/// Namespaces 1 to this.
const NAMESPACES: u32 = 2;
/// Bytes of a conventional namespace, and the bytes of a zone that are written.
const BYTES: u64 = 64 << 10;
const STEPS: u32 = 150;
const MAX_HANDLES: usize = 32;
/// Commands that a thread sends while a namespace is replaced.
const CONCURRENT_WRITES: u64 = 12;

/// Keeps the thread that follows the drive busy, as a ublk device that starts does.
#[derive(Default)]
struct Hold {
    held: Mutex<bool>,
    changed: Condvar,
    /// The thread waits.
    waits: AtomicBool,
}

impl Hold {
    fn set(&self, held: bool) {
        *self.held.lock().unwrap() = held;
        self.changed.notify_all();
    }
}

impl Follower for Hold {
    fn follow(&self, _: &Changes) {
        let mut held = self.held.lock().unwrap();
        self.waits.store(*held, Ordering::SeqCst);
        while *held {
            held = self.changed.wait(held).unwrap();
        }
        self.waits.store(false, Ordering::SeqCst);
    }
}

/// A way to a namespace that was opened once.
enum Way {
    /// As FUSE, NBD and ublk have it: a file, and the request queue.
    File(Arc<File>),
    Fuse(std::fs::File),
    Nbd(Client),
    /// The association ends with its host.
    Typed {
        _host: Box<Host<LocalTransport>>,
        queue: IoQueue<LocalQueue>,
        namespace: host::Namespace,
    },
}

struct Handle {
    way: Way,
    /// What it was opened on.
    of: host::Namespace,
}

impl Handle {
    fn generation(&self) -> u64 {
        self.of.generation.unwrap().get()
    }
}

/// Bytes that say which generation of namespaces their writer means.
fn stamps(generation: u64, bytes: u64) -> Vec<u8> {
    generation.to_le_bytes().into_iter().cycle().take(bytes as usize).collect()
}

struct World {
    hold: Arc<Hold>,
    handles: Vec<Handle>,
    exports: Vec<Export>,
    nbd: Option<Server>,
    backend: Arc<Backend>,
    admin: Host<LocalTransport>,
    running: Option<Running>,
    dir: tempfile::TempDir,
    random: Rng,
    trace: Vec<String>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.hold.set(false);
        self.handles.clear();
        self.nbd = None;
        self.exports.clear();
        if let Some(running) = self.running.take() {
            running.stop();
        }
        if std::thread::panicking() {
            println!("{}", self.trace.join("\n"));
        }
    }
}

fn connect(running: &Running, name: &str) -> Host<LocalTransport> {
    let identity = Identity::new(format!("nqn.2026-11.test:{name}").parse().unwrap());
    Host::connect(LocalTransport::new(running.handle()), &identity).unwrap()
}

/// How long a drive in memory may take to answer on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

impl World {
    fn new(seed: u64, mounts: &[FuseTransport]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let shape = Shape { config: device::Config::from_toml(&drive()).unwrap(), toml: drive() };
        let running = live::start(Some(shape), &live::Options::default(), &mut |_| ()).unwrap();
        let admin = connect(&running, "admin");
        let backend = Backend::start(&running.handle()).unwrap();
        let hold = Arc::new(Hold::default());
        backend.subscribe(hold.clone(), |_| Ok::<(), ()>(())).unwrap();
        let mounted = |(index, transport): (usize, &FuseTransport)| {
            let at = dir.path().join(index.to_string());
            std::fs::create_dir(&at).unwrap();
            Export::of(&backend, &at, Options { transport: *transport, ..Options::default() }).unwrap()
        };
        let exports = mounts.iter().enumerate().map(mounted).collect();
        let listener = Listener::bind(Place::Unix(dir.path().join("nbd"))).unwrap();
        let nbd = Some(Server::start(vec![listener], &backend).unwrap());
        let mut world = World {
            hold,
            handles: Vec::new(),
            exports,
            nbd,
            backend,
            admin,
            running: Some(running),
            dir,
            random: Rng::new(seed),
            trace: vec![format!("seed {seed}")],
        };
        for nsid in 1..=NAMESPACES {
            world.create(nsid);
        }
        world.settle();
        world
    }

    fn note(&mut self, what: String) {
        self.trace.push(what);
    }

    /// The generation that a namespace has in the drive now; 0 if it is not there.
    fn truth(&mut self, nsid: u32) -> u64 {
        self.admin.identify_allocated(nsid).map_or(0, |identified| identified.generation())
    }

    fn create(&mut self, nsid: u32) {
        let made = if self.random.below(3) == 0 {
            let mut create = namespace_create(2 * 512, 0, 1);
            create.set_zoned(&ZonedCreate { rar: 2.into(), ror: 2.into(), ..ZonedCreate::default() });
            self.admin.create_namespace_of(Csi::ZONED, &create).unwrap()
        } else {
            let format = self.random.below(2) as u8;
            let shift = if format == 0 { 12 } else { 9 };
            self.admin.create_namespace(&namespace_create(BYTES >> shift, format, 2)).unwrap()
        };
        assert_eq!(made, nsid, "an identifier is given again");
        self.attach(nsid);
    }

    fn attach(&mut self, nsid: u32) {
        let all = self.admin.controllers().unwrap();
        self.admin.attach_namespace(nsid, &all).unwrap();
    }

    fn is_zoned(&mut self, nsid: u32) -> bool {
        self.admin.command_set(nsid).unwrap() == Csi::ZONED
    }

    /// Replaces a namespace, formats it, or attaches it again.
    fn replace(&mut self) {
        let nsid = 1 + self.random.below(NAMESPACES.into()) as u32;
        match self.random.below(4) {
            0 | 1 => {
                self.admin.delete_namespace(nsid).unwrap();
                self.create(nsid);
            }
            2 => {
                let zoned = self.is_zoned(nsid);
                let lbaf = if zoned { 0 } else { self.random.below(2) as u8 };
                let ses = SecureErase::NONE;
                self.admin.format(FormatNvm { nsid, lbaf, mset: false, pi: 0, pil: false, ses }).unwrap();
            }
            _ => {
                let all = self.admin.namespace_controllers(nsid).unwrap();
                self.admin.detach_namespace(nsid, &all).unwrap();
                // So that what is opened later is not opened on a file that is about to go.
                let hold = self.hold.clone();
                wait_for("that the file goes", || {
                    hold.waits.load(Ordering::SeqCst) || self.file(nsid).is_none()
                });
                self.attach(nsid);
            }
        }
        let generation = self.truth(nsid);
        self.note(format!("namespace {nsid} has generation {generation}"));
    }

    /// Waits until the files are those of the drive, or the thread that makes them so is busy.
    fn settle(&mut self) {
        let truth: Vec<u64> = (1..=NAMESPACES).map(|nsid| self.truth(nsid)).collect();
        let (backend, hold) = (self.backend.clone(), self.hold.clone());
        wait_for("that the files follow the drive", || {
            let found = |file: &Arc<File>| file.namespace.device.generation.map_or(0, u64::from);
            let files: Vec<u64> = backend.files().all().iter().map(found).collect();
            hold.waits.load(Ordering::SeqCst) || files == truth
        });
    }

    fn file(&self, nsid: u32) -> Option<Arc<File>> {
        self.backend.files().find(&format!("nvme0n{nsid}"))
    }

    fn open(&mut self) {
        let nsid = 1 + self.random.below(NAMESPACES.into()) as u32;
        let Some(file) = self.file(nsid) else { return };
        let of = file.namespace.device;
        let handle = match self.random.below(4) {
            0 if file.namespace.zones.is_none() => self.open_typed(nsid),
            1 if file.namespace.zones.is_none() => {
                Client::open(&self.dir.path().join("nbd"), &file.name(), true)
                    // The table may have changed meanwhile.
                    .filter(|_| self.file(nsid).is_some_and(|now| now.ino == file.ino))
                    .map(|mut client| {
                        // The server closes a connection whose export goes before it has begun.
                        let _ = client.read(0, 4096);
                        Handle { way: Way::Nbd(client), of }
                    })
            }
            2 if file.namespace.zones.is_none() => self.open_fuse(nsid),
            _ => Some(Handle { way: Way::File(file), of }),
        };
        if self.handles.len() == MAX_HANDLES {
            let at = self.random.below(MAX_HANDLES as u64) as usize;
            self.handles.swap_remove(at);
        }
        self.handles.extend(handle);
    }

    fn open_typed(&mut self, nsid: u32) -> Option<Handle> {
        let mut host = connect(self.running.as_ref().unwrap(), "typed");
        if !host.active_namespaces().unwrap().contains(&nsid) {
            // The hosts of before keep it.
            let id = host.cntlid();
            self.admin.attach_namespace(nsid, &[id]).unwrap();
        }
        if host.command_set(nsid).unwrap() == Csi::ZONED {
            return None;
        }
        let namespace = host.namespace(nsid).unwrap();
        let queue = host.io_queue(4).unwrap();
        Some(Handle { way: Way::Typed { _host: Box::new(host), queue, namespace }, of: namespace })
    }

    fn open_fuse(&mut self, nsid: u32) -> Option<Handle> {
        let mount = self.exports.get(self.random.below(self.exports.len().max(1) as u64) as usize)?;
        let path: PathBuf = mount.dir().join(format!("nvme0n{nsid}"));
        // The name may be that of an earlier file for a moment: the inode number tells which one it is.
        let opened = OpenOptions::new().read(true).write(true).open(path).ok()?;
        let ino = opened.metadata().ok()?.ino();
        let file = self.backend.files().all().into_iter().find(|file| file.ino == ino)?;
        Some(Handle { way: Way::Fuse(opened), of: file.namespace.device })
    }

    /// Uses what was opened some time.
    fn use_one(&mut self) {
        if self.handles.is_empty() {
            return;
        }
        let at = self.random.below(self.handles.len() as u64) as usize;
        let what = self.random.below(4);
        let (nsid, generation) = (self.handles[at].of.nsid, self.handles[at].generation());
        let is_current = self.truth(nsid) == generation;
        let offset = self.random.below(BYTES / 8) * 8;
        let bytes = 8 * (1 + self.random.below(3000));
        let bytes = bytes.min(BYTES - offset);
        let requests = self.backend.requests().clone();
        let outcome = match &mut self.handles[at].way {
            Way::File(file) => use_file(&requests, file, generation, (what, offset, bytes)),
            Way::Fuse(file) => match what {
                0 | 1 => file.write_all_at(&stamps(generation, bytes), offset).map(|()| Vec::new()),
                2 => file.sync_all().map(|()| Vec::new()),
                _ => {
                    let mut data = vec![0; bytes as usize];
                    file.read_exact_at(&mut data, offset).map(|()| data)
                }
            }
            .map_err(|error| error.to_string()),
            Way::Nbd(client) => match what {
                0 | 1 => client.write(offset & !4095, &stamps(generation, 4096)),
                _ => client.read(offset & !4095, 4096),
            }
            .map_err(|error| error.to_string()),
            Way::Typed { queue, namespace, .. } => {
                let size = u64::from(namespace.block_size);
                let lba = (offset & !4095) / size;
                match what {
                    0 => queue.write(namespace, lba, &stamps(generation, 4096), false).map(|()| Vec::new()),
                    1 => queue.write_zeroes(namespace, lba, 4096 / size, true).map(|()| Vec::new()),
                    2 => queue.flush(nsid).map(|()| Vec::new()),
                    _ => {
                        let mut data = vec![0; 4096];
                        queue.read(namespace, lba, &mut data).map(|()| data)
                    }
                }
                .map_err(|error| error.to_string())
            }
        };
        let (way, ok) = (self.handles[at].name(), outcome.is_ok());
        self.note(format!("{way} of {nsid}, generation {generation}, does {what}: {ok} ({is_current})"));
        match (&outcome, &self.handles[at].way) {
            (Ok(_), _) if !is_current => {
                panic!("{way} of generation {generation} has outlived its namespace")
            }
            (Err(error), Way::File(file))
                if is_current && !file.is_gone() && file.namespace.zones.is_none() =>
            {
                panic!("{way} of generation {generation}: {error}")
            }
            (Ok(data), _) => check(data, generation, way),
            (Err(_), _) => {}
        }
        self.ask_for_extents(at);
    }

    /// What is allocated is told of no other namespace, either.
    fn ask_for_extents(&mut self, at: usize) {
        let of = self.handles[at].of;
        let is_current = self.truth(of.nsid) == self.handles[at].generation();
        let (told, answer) = mpsc::channel();
        let then = move |found: Result<Vec<Extent>, Errno>| told.send(found.is_ok()).unwrap();
        self.backend.drive().extents(ExtentQuery::new(&of, 0, 8, 8), Box::new(then));
        let is_told = answer.recv_timeout(ANSWER_TIMEOUT).expect("an answer about allocated blocks");
        assert!(is_current || !is_told, "extents of another namespace");
    }

    /// No namespace has stamps of another.
    fn check_all(&mut self) {
        for nsid in 1..=NAMESPACES {
            let generation = self.truth(nsid);
            let mut host = connect(self.running.as_ref().unwrap(), "checker");
            if !host.active_namespaces().unwrap().contains(&nsid) {
                let id = host.cntlid();
                self.admin.attach_namespace(nsid, &[id]).unwrap();
            }
            let namespace = host.namespace(nsid).unwrap();
            let size = u64::from(namespace.block_size);
            let mut queue = host.io_queue(8).unwrap();
            let mut data = vec![0; 4096];
            for lba in (0..BYTES / size).step_by(4096 / size as usize) {
                // Of a zone, as far as it is written.
                match queue.read(&namespace, lba, &mut data) {
                    Ok(()) => check(&data, generation, "the drive"),
                    Err(error) => assert!(self.is_zoned(nsid), "{error}"),
                }
            }
        }
    }

    /// Replaces a namespace while another thread writes to files that were opened before.
    fn replace_under_writes(&mut self) {
        let files: Vec<(Arc<File>, u64)> = self
            .handles
            .iter()
            .filter_map(|handle| match &handle.way {
                Way::File(file) => Some((file.clone(), handle.generation())),
                _ => None,
            })
            .collect();
        let requests = self.backend.requests().clone();
        let mut random = Rng::new(self.random.next_u64());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for _ in 0..CONCURRENT_WRITES * u64::from(!files.is_empty()) {
                    let (file, generation) = &files[random.below(files.len() as u64) as usize];
                    let offset = random.below(BYTES / 16) * 8;
                    // Many commands, and parts of blocks.
                    let _ = use_file(&requests, file, *generation, (0, offset, BYTES / 2 - 8));
                }
            });
            self.replace();
        });
    }

    fn run(mut self) {
        for _ in 0..STEPS {
            match self.random.below(12) {
                0 => {
                    let held = self.random.below(3) > 0;
                    self.note(format!("held: {held}"));
                    self.hold.set(held);
                    if !held {
                        let hold = self.hold.clone();
                        wait_for("that the thread goes on", || !hold.waits.load(Ordering::SeqCst));
                    }
                    self.settle();
                }
                1 => {
                    self.replace();
                    self.settle();
                    self.check_all();
                }
                2 => {
                    self.replace_under_writes();
                    self.settle();
                    self.check_all();
                }
                3..6 => self.open(),
                _ => self.use_one(),
            }
        }
        self.check_all();
    }
}

impl Handle {
    fn name(&self) -> &'static str {
        match &self.way {
            Way::File(file) if file.namespace.zones.is_some() => "a zone's file",
            Way::File(_) => "a file",
            Way::Fuse(_) => "a mounted file",
            Way::Nbd(_) => "a client of NBD",
            Way::Typed { .. } => "a typed host",
        }
    }
}

/// A request of a front end, and its answer.
fn use_file(
    requests: &Arc<crate::request_queue::RequestQueue>,
    file: &Arc<File>,
    generation: u64,
    (what, offset, bytes): (u64, u64, u64),
) -> Result<Vec<u8>, String> {
    let (send, outcome) = mpsc::channel();
    let answer = move |result: Result<Vec<u8>, Errno>| drop(send.send(result));
    let data = stamps(generation, bytes);
    match (what, file.namespace.zones.is_some()) {
        (0, false) => requests.write(file.clone(), offset, data, false, Answer::call(answer)),
        (1, false) => requests.zero(file.clone(), offset, bytes, true, Answer::call(answer)),
        (2, _) => requests.flush(file.clone(), Answer::call(answer)),
        (_, false) => requests.read(file.clone(), offset, bytes as u32, Answer::call(answer)),
        (0, true) => {
            let data = stamps(generation, 8192);
            requests.write_zone(file.clone(), 0, 0, data, false, Answer::call(answer));
        }
        (1, true) => requests.manage(file.clone(), 0, ZoneSendAction::RESET, Box::new(answer)),
        (_, true) => {
            // Its states tell nothing of the data, but whether it was answered does.
            let told = move |result: Result<Vec<u8>, Errno>| answer(result.map(|_| Vec::new()));
            requests.report(file.clone(), 0, 1, Box::new(told));
        }
    }
    outcome.recv().unwrap().map_err(|errno| format!("{errno:?}"))
}

/// All stamps are of this generation.
#[track_caller]
fn check(data: &[u8], generation: u64, whose: &str) {
    let found: BTreeMap<u64, usize> = data
        .chunks_exact(8)
        .map(|stamp| u64::from_le_bytes(stamp.try_into().unwrap()))
        .filter(|stamp| *stamp != 0 && *stamp != generation)
        .fold(BTreeMap::new(), |mut found, stamp| {
            *found.entry(stamp).or_default() += 1;
            found
        });
    assert!(found.is_empty(), "{whose} has, beside generation {generation}, stamps of {found:?}");
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
fn what_was_opened_on_a_namespace_never_reaches_its_successor() {
    let mut mounts = Vec::new();
    if possible("what_was_opened_on_a_namespace_never_reaches_its_successor", &[]) {
        mounts.push(FuseTransport::Device);
        if uring::offered().is_ok() {
            mounts.push(FuseTransport::Uring);
        }
    }
    let first = number("TRANCHE_REPLACED_SEED", 1);
    for seed in first..first + number("TRANCHE_REPLACED_SEEDS", 4) {
        println!("seed {seed}");
        World::new(seed, &mounts).run();
    }
}

/// Before the thread that follows the drive has taken their files away.
#[test]
fn requests_to_a_detached_or_deleted_namespace_find_no_device() {
    let mut world = World::new(1, &[]);
    let files: Vec<_> = (1..=NAMESPACES).map(|nsid| world.file(nsid).unwrap()).collect();
    world.hold.set(true);
    world.create(NAMESPACES + 1);
    let hold = world.hold.clone();
    wait_for("that the thread waits", || hold.waits.load(Ordering::SeqCst));
    let all = world.admin.namespace_controllers(1).unwrap();
    world.admin.detach_namespace(1, &all).unwrap();
    world.admin.delete_namespace(2).unwrap();
    let requests = world.backend.requests().clone();
    for file in files {
        let generation = file.namespace.device.generation.unwrap().get();
        for what in 0..4 {
            let outcome = use_file(&requests, &file, generation, (what, 0, 4096));
            assert_eq!(outcome, Err(format!("{:?}", Errno::ENODEV)), "{}, request {what}", file.name());
        }
        assert!(!file.is_gone());
    }
}
