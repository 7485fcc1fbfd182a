//! A tier that runs, on files and on namespaces of a drive in this process: many threads at once, changes, and a second opening.

use crate::device::{Backing, execute};
use crate::live::{Devices, LiveTier};
use crate::source::{Source, recorded, recorded_or_blank, remove};
use crate::{BlockFiles, Error, Role};
use blockdev::{BlockDevice, Operation, Verb};
use export::Errno;
use export::drive::{Completions, Drive, DriveCommand, Namespace, Reports};
use host::{Addr, DriveTransport, Host, Identity, namespace_create};
use nvme::admin::FormatNvm;
use rng::Rng;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::time::Duration;
use tier::{Config, Control, Mode, OpenError, PolicyKind, Start};

const MIB: u64 = 1 << 20;

/// Asks a block file, and waits for each answer. Lost answers end a test, late ones do not.
#[derive(Default)]
struct Asker {
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, mpsc::Sender<Answer>>>,
}

type Answer = (Result<(), Errno>, Vec<u8>);

impl Completions for Asker {
    fn complete(&self, tag: u64, result: Result<(), Errno>, data: Vec<u8>) {
        let answer = self.waiting.lock().unwrap().remove(&tag).expect("a request is answered once");
        answer.send((result, data)).unwrap();
    }
}

impl Asker {
    fn begin(
        &self,
        drive: &dyn Drive,
        of: &blockdev::Namespace,
        command: DriveCommand,
        data: Vec<u8>,
    ) -> mpsc::Receiver<Answer> {
        let tag = self.next.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = mpsc::channel();
        self.waiting.lock().unwrap().insert(tag, tell);
        drive.submit(tag, of, command, data);
        told
    }
}

fn answer(told: &mpsc::Receiver<Answer>) -> Answer {
    told.recv_timeout(Duration::from_secs(60)).expect("an answer")
}

/// A tier as a block file.
struct Shown {
    files: Arc<BlockFiles>,
    asker: Arc<Asker>,
    namespace: Namespace,
}

fn shown(tier: &Arc<LiveTier>) -> Shown {
    let asker = Arc::new(Asker::default());
    let (news, _) = mpsc::channel();
    let weak: Weak<Asker> = Arc::downgrade(&asker);
    let files =
        BlockFiles::new(None, BTreeSet::new(), vec![tier.clone()], Reports { completions: weak, news });
    let [namespace] = files.namespaces().unwrap()[..] else { panic!("one file") };
    Shown { files, asker, namespace }
}

impl Shown {
    fn ask(&self, command: DriveCommand, data: Vec<u8>) -> Answer {
        answer(&self.asker.begin(&*self.files, &self.namespace.device, command, data))
    }

    /// Asks for all of them before it waits for the first answer.
    fn ask_together(&self, commands: Vec<(DriveCommand, Vec<u8>)>) -> Vec<Answer> {
        let (mut commands, mut told) = (commands.into_iter(), Vec::new());
        self.files.together(&mut || {
            let begin =
                |(command, data)| self.asker.begin(&*self.files, &self.namespace.device, command, data);
            told.extend(commands.by_ref().map(begin));
        });
        told.iter().map(answer).collect()
    }

    fn flush(&self) -> Answer {
        self.ask(DriveCommand::blocks(Verb::Flush, 0, 0), Vec::new())
    }

    fn write(&self, lba: u64, fill: u8) -> Result<(), Errno> {
        let bytes = 8 * self.namespace.block_size() as usize;
        let verb = if fill.is_multiple_of(32) { Verb::WriteFua } else { Verb::Write };
        self.ask(DriveCommand::blocks(verb, lba, 8), vec![fill; bytes]).0
    }

    fn read(&self, lba: u64) -> Vec<u8> {
        let bytes = 8 * self.namespace.block_size() as usize;
        let (result, data) = self.ask(DriveCommand::blocks(Verb::Read, lba, 8), vec![0; bytes]);
        result.unwrap();
        data
    }
}

/// Threads write and read places of their own, while the tier changes.
fn load(tier: &LiveTier, shown: &Shown, seed: u64) -> HashMap<u64, u8> {
    let places = shown.namespace.device.blocks / 8;
    let written: Mutex<HashMap<u64, u8>> = Mutex::default();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let written = &written;
            scope.spawn(move || {
                let mut rng = Rng::stream(seed, thread);
                let mut mine = BTreeMap::new();
                for _ in 0..400 {
                    // Half of them in the first 64 places.
                    let span = if rng.below(2) == 0 { 64.min(places) } else { places };
                    let lba = (rng.below(span / 4) * 4 + thread) * 8;
                    match rng.below(8) {
                        0..4 => {
                            let fill = rng.below(256) as u8;
                            shown.write(lba, fill).unwrap();
                            mine.insert(lba, fill);
                        }
                        4 => {
                            let verb = Verb::WriteZeroes { deallocate: rng.below(2) == 0 };
                            shown.ask(DriveCommand::blocks(verb, lba, 8), Vec::new()).0.unwrap();
                            mine.insert(lba, 0);
                        }
                        5 if rng.below(8) == 0 => shown.flush().0.unwrap(),
                        6 => {
                            let some: Vec<(u64, u8)> = mine.iter().map(|(lba, fill)| (*lba, *fill)).collect();
                            let bytes = 8 * shown.namespace.block_size() as usize;
                            let read = |(lba, _): &(u64, u8)| {
                                (DriveCommand::blocks(Verb::Read, *lba, 8), vec![0; bytes])
                            };
                            let first = rng.below(some.len() as u64 + 1) as usize;
                            let some = &some[first..(first + 16).min(some.len())];
                            let answers = shown.ask_together(some.iter().map(read).collect());
                            for ((lba, fill), (result, data)) in some.iter().zip(answers) {
                                result.unwrap();
                                assert!(data.iter().all(|byte| byte == fill), "block {lba}, seed {seed}");
                            }
                        }
                        _ => {
                            let expected = mine.get(&lba).copied().unwrap_or_default();
                            let found = shown.read(lba);
                            assert!(found.iter().all(|byte| *byte == expected), "block {lba}, seed {seed}");
                        }
                    }
                }
                written.lock().unwrap().extend(mine);
            });
        }
        for change in [
            Control::Policy(PolicyKind::Mq),
            Control::Mode(Mode::Writethrough),
            Control::WriteBack,
            Control::Mode(Mode::Passthrough),
            Control::Policy(PolicyKind::Smq),
            Control::Mode(Mode::Writeback),
            Control::Policy(PolicyKind::Mq),
        ] {
            tier.change(change).unwrap();
            assert!(tier.failure().is_none() && tier.report().troubles.is_empty());
        }
    });
    written.into_inner().unwrap()
}

fn check(shown: &Shown, written: &HashMap<u64, u8>, seed: u64) {
    for (lba, fill) in written {
        assert!(shown.read(*lba).iter().all(|byte| byte == fill), "block {lba}, seed {seed}");
    }
}

fn files(dir: &Path) -> Devices {
    let source = |role, name: &str, bytes: u64| {
        let path = dir.join(name);
        if !path.exists() {
            std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
        }
        Source::file(role, &path).unwrap()
    };
    Devices {
        origin: source(Role::Origin, "origin", 16 * MIB),
        cache: source(Role::Cache, "cache", 4 * MIB),
        metadata: source(Role::Metadata, "metadata", MIB),
    }
}

const CONFIG: Config = Config {
    chunk: 64 << 10,
    mode: Mode::Writeback,
    policy: PolicyKind::Mq,
    mq: tier::MqTunables {
        sequential_threshold: 512,
        random_threshold: 4,
        read_promote_adjustment: 4,
        write_promote_adjustment: 8,
        discard_promote_adjustment: 1,
    },
    migration_threshold: 8192,
    discard_passdown: true,
    origin: tier::DeviceId([0; 16]),
    cache: tier::DeviceId([0; 16]),
    repair: false,
    contents: true,
};

const CREATE: Start = Start::Create { seed: 1, replace: false };

#[test]
fn many_threads_changes_and_a_second_opening_on_files() {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let dir = tempfile::tempdir().unwrap();
    let tier = LiveTier::open("t", CONFIG, CREATE, files(dir.path())).unwrap();
    let shown_once = shown(&tier);
    let written = load(&tier, &shown_once, seed);
    let counters = tier.report().counters;
    assert!(counters.promotions > 0 && counters.read_hits + counters.write_hits > 0, "{counters:?}");
    let path = dir.path().join("origin");
    let again = Source::file(Role::Origin, &path).err();
    assert!(matches!(again, Some(Error::InUse { role: Role::Origin, .. })), "{again:?}");
    tier.close().unwrap();
    assert!(shown_once.write(0, 1).is_err(), "it is closed");
    drop(shown_once);
    assert!(LiveTier::into_metadata(tier).is_some());

    let mut devices = files(dir.path());
    let found = recorded(&mut devices.metadata.device).unwrap();
    assert_eq!((found.chunk, found.mode, found.in_order), (64 << 10, Mode::Writeback, true));
    let wrong = LiveTier::open("t", Config { chunk: 32 << 10, ..CONFIG }, Start::Open, devices).err();
    assert!(matches!(wrong, Some(Error::Open(OpenError::Chunk { .. }))), "{wrong:?}");
    let tier = LiveTier::open("t", CONFIG, Start::Open, files(dir.path())).unwrap();
    check(&shown(&tier), &written, seed);
    tier.change(Control::WriteBack).unwrap();
    tier.close().unwrap();
    let mut metadata = LiveTier::into_metadata(tier).unwrap();
    remove(&mut metadata).unwrap();
    assert!(recorded_or_blank(&mut metadata).unwrap().is_none());
    let origin = std::fs::read(path).unwrap();
    for (lba, fill) in &written {
        let at = *lba as usize * 512;
        assert!(origin[at..at + 4096].iter().all(|byte| byte == fill), "block {lba}, seed {seed}");
    }
}

const DRIVE: &str = r#"
[[set]]
media = "dram"
capacity = "32MiB"
[[namespace]]
size = "16MiB"
[[namespace]]
size = "4MiB"
lba = 4096
[[namespace]]
size = "1MiB"
"#;

fn drive() -> live::Running {
    let shape = live::Shape { config: device::Config::from_toml(DRIVE).unwrap(), toml: DRIVE.to_owned() };
    live::start(Some(shape), &live::Options::default(), &mut |_| ()).unwrap()
}

fn own(handle: &live::Handle) -> Devices {
    let source = |role, nsid| Source::own(role, handle, nsid, &[]).unwrap();
    Devices {
        origin: source(Role::Origin, 1),
        cache: source(Role::Cache, 2),
        metadata: source(Role::Metadata, 3),
    }
}

#[test]
fn many_threads_and_changes_on_namespaces_of_this_process() {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let drive = drive();
    let tier = LiveTier::open("t", CONFIG, CREATE, own(&drive.handle())).unwrap();
    assert_eq!(tier.geometry().block_size, 4096, "the larger one");
    let written = load(&tier, &shown(&tier), seed);
    tier.close().unwrap();
    assert!(LiveTier::into_metadata(tier).is_some());
    let tier = LiveTier::open("t", CONFIG, Start::Open, own(&drive.handle())).unwrap();
    let shown = shown(&tier);
    check(&shown, &written, seed);
    // The drive stops under it.
    assert!(shown.write(0, 1).is_ok());
    drive.stop();
    assert!(shown.write(0, 2).is_err());
    assert!(shown.flush().0.is_err());
    let failure = tier.failure().expect("a failure");
    assert!(failure.contains("the drive has stopped"), "{failure}");
    assert!(tier.close().is_err());
}

/// Another namespace with the same NSID is not written, nor is one that was formatted: neither here nor over a socket.
#[test]
fn a_device_ends_with_the_namespace_that_it_was_opened_on() {
    type Admin = Host<live::LocalTransport>;
    let dir = tempfile::tempdir().unwrap();
    let shape = live::Shape { config: device::Config::from_toml(DRIVE).unwrap(), toml: DRIVE.to_owned() };
    let options = live::Options { unix: Some(dir.path().join("socket")), ..live::Options::default() };
    let drive = live::start(Some(shape), &options, &mut |_| ()).unwrap();
    let identity = |name: &str| Identity::new(name.parse().unwrap());
    let transport = live::LocalTransport::new(drive.handle());
    let mut admin: Admin = Host::connect(transport, &identity("nqn.2026-11.test:admin")).unwrap();
    let addr: Addr = format!("unix://{}", dir.path().join("socket").display()).parse().unwrap();
    let own = || Source::own(Role::Origin, &drive.handle(), 1, &[]).unwrap().device;
    let far = || {
        let transport = DriveTransport::new(addr.clone(), Duration::from_secs(10));
        let host = Host::connect(transport, &identity(export::HOST_NQN)).unwrap();
        Source::namespace(Role::Origin, &addr, 1, host).unwrap().device
    };
    let replace: [fn(&mut Admin); 2] = [
        |admin| {
            admin.delete_namespace(1).unwrap();
            assert_eq!(admin.create_namespace(&namespace_create(2048, 0, 1)).unwrap(), 1);
            let all = admin.controllers().unwrap();
            admin.attach_namespace(1, &all).unwrap();
        },
        |admin| {
            let ses = nvme::admin::SecureErase::NONE;
            let format = FormatNvm { nsid: 1, lbaf: 1, mset: false, pi: 0, pil: false, ses };
            admin.format(format).unwrap();
        },
    ];
    let open: [&dyn Fn() -> Backing; 2] = [&own, &far];
    for open in open {
        for replace in replace {
            let mut device = open();
            let bytes = device.block_size() as usize;
            let first = |verb| Operation { verb, lba: 0, blocks: 1 };
            execute(&mut device, &first(Verb::Write), vec![7; bytes]).unwrap();
            replace(&mut admin);
            assert!(execute(&mut device, &first(Verb::Write), vec![8; bytes]).is_err());
            drop(device);
            let mut device = open();
            let room = vec![1; device.block_size() as usize];
            let found = execute(&mut device, &first(Verb::Read), room).unwrap();
            assert!(found.iter().all(|byte| *byte == 0));
        }
    }
    drive.stop();
}

#[test]
fn what_is_not_blank_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let mut devices = files(dir.path());
    assert!(recorded_or_blank(&mut devices.metadata.device).unwrap().is_none());
    assert!(matches!(recorded(&mut devices.metadata.device), Err(Error::Open(OpenError::Foreign))));
    drop(devices);
    let mut bytes = vec![0; MIB as usize];
    bytes[8191] = 1;
    std::fs::write(dir.path().join("metadata"), &bytes).unwrap();
    let mut devices = files(dir.path());
    assert!(matches!(recorded_or_blank(&mut devices.metadata.device), Err(Error::NotBlank)));
}
