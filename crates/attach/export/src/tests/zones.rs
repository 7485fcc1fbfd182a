//! The files of zones, without the kernel.

use super::memory::{Limits, Memory, namespace};
use crate::access::{Access, AccessChange};
use crate::attributes::Shown;
use crate::directory::{Change, Directory, Space};
use crate::drive::{Drive, DriveCommand, Namespace, Zones};
use crate::file_table::{FileTable, ROOT};
use crate::request_queue::{Answer, RequestQueue};
use crate::task;
use blockdev::Verb;
use fuser::{Errno, FopenFlags};
use nvme::zone::{ZoneSendAction, ZoneState};
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, mpsc};

const BLOCK: u64 = 4096;
/// Blocks of a zone that can be written.
const CAPACITY: u64 = 6;
const COUNT: u32 = 5;
const LIMITS: Limits = Limits { transfer: 1 << 20, zero: 65536, commands: 4 };
/// A transfer is one block, and a report has 63 zones at most.
const ONE_BLOCK: Limits = Limits { transfer: BLOCK as u32, ..LIMITS };

struct Bench {
    drive: Arc<Memory>,
    directory: Directory,
    files: Arc<FileTable>,
}

type Outcome<T> = mpsc::Receiver<Result<T, i32>>;

fn zoned(count: u32) -> Namespace {
    let zones = Some(Zones { count, size: 8, capacity: CAPACITY });
    Namespace { zones, ..namespace(2, BLOCK as u32, u64::from(count) * 8 * BLOCK) }
}

fn write_only() -> u32 {
    (OFlags::WRONLY | OFlags::DIRECT).bits()
}

impl Bench {
    fn new() -> Self {
        Self::with(LIMITS, COUNT)
    }

    fn with(limits: Limits, zones: u32) -> Self {
        let requests = Arc::new(RequestQueue::new());
        let completions = Arc::downgrade(&requests);
        let drive = Memory::new(completions, limits, &[namespace(1, 512, 8192), zoned(zones)]);
        requests.connect(drive.clone());
        let files = Arc::new(FileTable::new(Access { mode: 0o640, uid: 3, gid: 4 }, BTreeMap::new()));
        files.update(&drive.namespaces().unwrap());
        let directory = Directory::new(files.clone(), requests, false);
        Bench { drive, directory, files }
    }

    fn start<T, F>(future: F) -> Outcome<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Errno>> + Send + 'static,
    {
        let (send, outcome) = mpsc::channel();
        task::run(async move {
            let _ = send.send(future.await.map_err(i32::from));
        });
        outcome
    }

    fn zone(&self, zone: u32) -> u64 {
        self.files.find("nvme0n2").unwrap().zone_ino(zone)
    }

    fn find(&self, parent: u64, name: &'static str) -> Result<Shown, i32> {
        let directory = self.directory.clone();
        Self::start(async move { directory.find(parent, name).await }).recv().unwrap()
    }

    fn show(&self, zone: u32) -> Result<Shown, i32> {
        let (directory, ino) = (self.directory.clone(), self.zone(zone));
        Self::start(async move { directory.attributes(ino).await }).recv().unwrap()
    }

    /// Size and permissions of a zone's file.
    fn size(&self, zone: u32) -> (u64, u16) {
        let attributes = self.show(zone).unwrap().attributes;
        (attributes.size, attributes.perm)
    }

    fn open(&self, zone: u32) -> Outcome<FopenFlags> {
        let (directory, ino) = (self.directory.clone(), self.zone(zone));
        Self::start(async move { directory.open(ino, write_only()).await })
    }

    fn close(&self, zone: u32) -> Outcome<()> {
        let (directory, ino) = (self.directory.clone(), self.zone(zone));
        Self::start(async move { directory.release(ino, write_only()).await })
    }

    fn change(&self, zone: u32, mode: Option<u32>, size: Option<u64>) -> Outcome<Shown> {
        let (directory, ino) = (self.directory.clone(), self.zone(zone));
        let access = AccessChange { mode, ..AccessChange::default() };
        Self::start(async move { directory.change(ino, Change { access, size, open: true }).await })
    }

    fn truncate(&self, zone: u32, size: u64) -> Result<u64, i32> {
        self.change(zone, None, Some(size)).recv().unwrap().map(|shown| shown.attributes.size)
    }

    fn write(&self, zone: u32, offset: u64, data: &[u8], flags: u32) -> Result<(), i32> {
        let (send, outcome) = mpsc::channel();
        let answer = Answer::call(move |result| send.send(result).unwrap());
        self.directory.write(self.zone(zone), offset, data.to_vec(), flags, answer);
        outcome.recv().unwrap().map(drop).map_err(i32::from)
    }

    fn append(&self, zone: u32, data: &[u8]) {
        let end = self.size(zone).0;
        self.write(zone, end, data, write_only()).unwrap();
    }

    fn read(&self, zone: u32, offset: u64, size: u32) -> Result<Vec<u8>, i32> {
        let (send, outcome) = mpsc::channel();
        let answer = Answer::call(move |result| send.send(result).unwrap());
        self.directory.read(self.zone(zone), offset, size, answer);
        outcome.recv().unwrap().map_err(i32::from)
    }

    fn state(&self, zone: u32) -> ZoneState {
        self.drive.zones(2, |model| model.zones[zone as usize].0)
    }

    fn set(&self, zone: u32, state: ZoneState, written: u64) {
        self.drive.zones(2, |model| model.zones[zone as usize] = (state, written));
    }

    fn space(&self, ino: u64) -> Space {
        let directory = self.directory.clone();
        Self::start(async move { directory.space(ino).await }).recv().unwrap().unwrap()
    }
}

fn code(errno: Errno) -> i32 {
    errno.into()
}

#[test]
fn the_directory_has_a_file_for_each_zone() {
    let bench = Bench::new();
    let names = |ino, after| {
        let entries = bench.directory.list(ino, after).unwrap();
        entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>().join(" ")
    };
    let top = bench.find(ROOT, "nvme0n2").unwrap().attributes;
    let seq = bench.find(top.ino.0, "seq").unwrap().attributes;
    assert_eq!(names(ROOT, 0), ". .. nvme0n1 nvme0n2");
    assert_eq!(names(top.ino.0, 0), ". .. seq");
    assert_eq!(names(seq.ino.0, 0), ". .. 0 1 2 3 4");
    assert_eq!(
        (names(seq.ino.0, 1), names(seq.ino.0, 4), names(seq.ino.0, 7)),
        ("..".to_owned() + " 0 1 2 3 4", "2 3 4".into(), "".into())
    );
    assert_eq!((top.size, top.nlink, top.perm), (1, 3, 0o555));
    assert_eq!((seq.size, seq.nlink, seq.perm), (COUNT.into(), 2, 0o555));
    for wrong in ["5", "01", "+1", "-1", "", "cnv"] {
        assert_eq!(bench.find(seq.ino.0, wrong).unwrap_err(), code(Errno::ENOENT), "{wrong}");
    }
    assert_eq!(bench.find(top.ino.0, "cnv").unwrap_err(), code(Errno::ENOENT));
    let zone = bench.find(seq.ino.0, "4").unwrap();
    assert!(zone.keep.is_zero(), "the kernel asks for the size each time");
    let zone = zone.attributes;
    assert_eq!((zone.ino.0, zone.size, zone.blksize), (bench.zone(4), 0, BLOCK as u32));
    assert_eq!((zone.blocks, zone.perm, zone.uid, zone.gid), (CAPACITY * BLOCK / 512, 0o640, 3, 4));
    assert_eq!(bench.directory.list(bench.zone(0), 0).unwrap_err().code(), Errno::ENOTDIR.code());
}

#[test]
fn writes_go_to_the_end_of_the_file_and_nowhere_else() {
    let bench = Bench::new();
    bench.append(1, &[1; 8192]);
    assert_eq!(bench.size(1).0, 8192);
    let refused = [
        (0, 4096, write_only(), Errno::EINVAL),
        (12288, 4096, write_only(), Errno::EINVAL),
        (8192, 4095, write_only(), Errno::EINVAL),
        (8191, 4096, write_only(), Errno::EINVAL),
        (8192, 4096, OFlags::WRONLY.bits(), Errno::EIO),
        (CAPACITY * BLOCK, 4096, write_only(), Errno::EFBIG),
        (u64::MAX, 4096, write_only(), Errno::EFBIG),
    ];
    for (offset, len, flags, errno) in refused {
        let error = bench.write(1, offset, &vec![2; len], flags).unwrap_err();
        assert_eq!(error, code(errno), "{len} bytes at {offset}");
    }
    assert_eq!(bench.size(1).0, 8192);
    // As much as there is room for.
    bench.append(1, &[3; 65536]);
    assert_eq!((bench.size(1).0, bench.state(1)), (CAPACITY * BLOCK, ZoneState::FULL));
    assert_eq!(bench.read(1, 8192, 100_000).unwrap(), [3; 16384]);
    assert_eq!(bench.drive.content(2)[8 * 4096..][..8192], [1; 8192]);

    let durable = write_only() | crate::zonefs::O_DSYNC;
    assert_eq!(bench.size(2).0, 0);
    bench.drive.seen();
    bench.write(2, 0, &[4; 4096], durable).unwrap();
    assert_eq!(bench.drive.seen(), [DriveCommand::blocks(Verb::WriteFua, 16, 1)]);
}

#[test]
fn parts_of_a_write_follow_each_other() {
    let bench = Bench::with(ONE_BLOCK, COUNT);
    bench.write(0, 0, &[7; 5 * 4096], write_only()).unwrap();
    assert_eq!((bench.size(0).0, bench.drive.most_in_flight()), (5 * BLOCK, 1));
}

/// The kernel sends the parts of a large asynchronous write at once, to several threads.
#[test]
fn parts_that_overtake_each_other_are_put_in_order() {
    let bench = Bench::new();
    bench.append(0, &[1; 4096]);
    let start = |offset, value| {
        let (send, outcome) = mpsc::channel();
        let answer = Answer::call(move |result| send.send(result.map_err(i32::from)).unwrap());
        bench.directory.write(bench.zone(0), offset, vec![value; 4096], write_only(), answer);
        outcome
    };
    let (third, second) = (start(3 * BLOCK, 4), start(2 * BLOCK, 3));
    start(BLOCK, 2).recv().unwrap().unwrap();
    second.recv().unwrap().unwrap();
    third.recv().unwrap().unwrap();
    assert_eq!(bench.read(0, 0, 16384).unwrap(), [[1; 4096], [2; 4096], [3; 4096], [4; 4096]].concat());
    // What the first of them needs does not come.
    let (alone, after) = (start(5 * BLOCK, 6), start(6 * BLOCK - 4096, 6));
    assert_eq!(alone.recv().unwrap().unwrap_err(), code(Errno::EINVAL));
    assert_eq!(after.recv().unwrap().unwrap_err(), code(Errno::EINVAL));
    assert_eq!(bench.size(0).0, 4 * BLOCK);
}

#[test]
fn reads_end_where_the_file_does_and_need_no_report_within_it() {
    let bench = Bench::new();
    bench.append(0, &[1; 8192]);
    bench.drive.seen();
    assert_eq!(bench.read(0, 100, 5000).unwrap(), [1; 5000]);
    assert_eq!(bench.drive.seen().len(), 1);
    assert_eq!(bench.read(0, 8000, 5000).unwrap(), [1; 192]);
    assert_eq!((bench.read(0, 8192, 10).unwrap().len(), bench.read(0, u64::MAX, 10).unwrap().len()), (0, 0));
    // Another host writes to the zone, and resets another one.
    bench.set(0, ZoneState::CLOSED, 3);
    assert_eq!(bench.read(0, 8192, 10).unwrap(), [0; 10]);
    bench.append(1, &[1; 4096]);
    bench.set(1, ZoneState::EMPTY, 0);
    assert_eq!(bench.size(1).0, 0);
    assert_eq!(bench.read(1, 0, 10).unwrap().len(), 0);
}

#[test]
fn truncation_resets_and_finishes() {
    let bench = Bench::new();
    let full = CAPACITY * BLOCK;
    bench.append(0, &[1; 8192]);
    for wrong in [1, 4096, 8192, full - 1, full + 1, u64::MAX] {
        assert_eq!(bench.truncate(0, wrong), Err(code(Errno::EPERM)), "{wrong}");
    }
    assert_eq!(bench.truncate(0, full), Ok(full));
    assert_eq!((bench.state(0), bench.truncate(0, full)), (ZoneState::FULL, Ok(full)));
    assert_eq!((bench.truncate(0, 0), bench.state(0)), (Ok(0), ZoneState::EMPTY));
    bench.drive.seen();
    assert_eq!(bench.truncate(0, 0), Ok(0));
    assert!(
        bench.drive.seen().iter().all(|seen| matches!(seen, DriveCommand::Report { .. })),
        "nothing to do"
    );
    // A zone that is active, although nothing is written.
    bench.set(0, ZoneState::CLOSED, 0);
    assert_eq!((bench.truncate(0, 0), bench.state(0)), (Ok(0), ZoneState::EMPTY));
}

#[test]
fn a_file_that_is_open_for_writing_keeps_its_zone_open() {
    let bench = Bench::new();
    bench.open(0).recv().unwrap().unwrap();
    bench.open(0).recv().unwrap().unwrap();
    assert_eq!(bench.state(0), ZoneState::EXPLICITLY_OPENED);
    bench.append(0, &[1; 4096]);
    bench.close(0).recv().unwrap().unwrap();
    assert_eq!(bench.state(0), ZoneState::EXPLICITLY_OPENED, "one is left");
    assert_eq!((bench.truncate(0, 0), bench.state(0)), (Ok(0), ZoneState::EXPLICITLY_OPENED));
    bench.append(0, &[1; 4096]);
    bench.close(0).recv().unwrap().unwrap();
    assert_eq!((bench.state(0), bench.size(0).0), (ZoneState::CLOSED, 4096));

    // Opened and closed without a write, a zone takes no resources.
    bench.open(1).recv().unwrap().unwrap();
    bench.close(1).recv().unwrap().unwrap();
    assert_eq!(bench.state(1), ZoneState::EMPTY);

    // A full zone needs no resource, until it is reset.
    assert_eq!(bench.truncate(2, CAPACITY * BLOCK), Ok(CAPACITY * BLOCK));
    bench.open(2).recv().unwrap().unwrap();
    assert_eq!(bench.state(2), ZoneState::FULL);
    assert_eq!((bench.truncate(2, 0), bench.state(2)), (Ok(0), ZoneState::EXPLICITLY_OPENED));

    // Two may be open.
    bench.open(3).recv().unwrap().unwrap();
    assert_eq!(bench.open(4).recv().unwrap().unwrap_err(), code(Errno::EBUSY));
    let waiting = bench.open(4);
    bench.close(3).recv().unwrap().unwrap();
    waiting.recv().unwrap().unwrap();
    assert_eq!((bench.state(3), bench.state(4)), (ZoneState::EMPTY, ZoneState::EXPLICITLY_OPENED));
}

/// The kernel tells of a closed file later. A reset of an empty zone must not hit what was written since.
#[test]
fn what_changes_a_zone_takes_turns() {
    let bench = Bench::new();
    bench.open(0).recv().unwrap().unwrap();
    bench.drive.seen();
    bench.drive.hold();
    let closed = bench.close(0);
    let opened = bench.open(0);
    let truncated = bench.change(0, None, Some(CAPACITY * BLOCK));
    while bench.drive.release(0) {}
    closed.recv().unwrap().unwrap();
    opened.recv().unwrap().unwrap();
    truncated.recv().unwrap().unwrap();
    let action = |seen: &DriveCommand| match *seen {
        DriveCommand::Zone { lba: 0, action } => Some(action),
        _ => None,
    };
    let actions: Vec<ZoneSendAction> = bench.drive.seen().iter().filter_map(action).collect();
    assert_eq!(actions, [ZoneSendAction::RESET, ZoneSendAction::OPEN, ZoneSendAction::FINISH]);
}

#[test]
fn zones_that_cannot_be_written_any_more_say_so() {
    let bench = Bench::new();
    bench.append(0, &[1; 8192]);
    for zone in [0, 1] {
        bench.set(zone, ZoneState::READ_ONLY, 0);
    }
    bench.set(2, ZoneState::OFFLINE, 0);
    // The size that was known, else all that can be read.
    assert_eq!((bench.size(0), bench.size(1)), ((8192, 0o440), (CAPACITY * BLOCK, 0o440)));
    assert_eq!(bench.size(2), (0, 0));
    assert_eq!(bench.read(0, 0, 10_000).unwrap(), [1; 8192]);
    assert_eq!(bench.read(2, 0, 10).unwrap_err(), code(Errno::EPERM));
    for zone in [0, 1, 2] {
        assert_eq!(bench.open(zone).recv().unwrap().unwrap_err(), code(Errno::EPERM));
        assert_eq!(bench.truncate(zone, 0), Err(code(Errno::EPERM)));
        let changed = bench.change(zone, Some(0o666), None).recv().unwrap();
        assert_eq!(changed.unwrap_err(), code(Errno::EPERM));
    }
    assert_eq!(bench.write(0, 8192, &[1; 4096], write_only()), Err(code(Errno::EPERM)));
    let shown = bench.change(3, Some(0o600), None).recv().unwrap().unwrap();
    assert_eq!((shown.attributes.perm, bench.size(4).1), (0o600, 0o640));
}

#[test]
fn a_protected_namespace_has_read_only_zones() {
    let bench = Bench::new();
    bench.files.update(&[Namespace { read_only: true, ..zoned(COUNT) }]);
    assert_eq!(bench.size(0), (0, 0o440));
    assert_eq!(bench.open(0).recv().unwrap().unwrap_err(), code(Errno::EROFS));
    assert_eq!(bench.truncate(0, 0), Err(code(Errno::EROFS)));
    assert_eq!(bench.write(0, 0, &[1; 4096], write_only()), Err(code(Errno::EROFS)));
}

#[test]
fn free_space_is_what_zones_have_room_for() {
    let zones = 150;
    let bench = Bench::with(ONE_BLOCK, zones);
    let top = bench.files.find("nvme0n2").unwrap().ino;
    bench.set(0, ZoneState::CLOSED, 2);
    bench.set(1, ZoneState::FULL, 3);
    bench.set(62, ZoneState::READ_ONLY, 1);
    bench.set(149, ZoneState::OFFLINE, 1);
    let Space { blocks, free, unit, files } = bench.space(top);
    assert_eq!((blocks, free, unit, files), (150 * CAPACITY, 147 * CAPACITY - 2, BLOCK as u32, 150));
}

#[test]
fn errors_of_the_drive_end_every_request() {
    let bench = Bench::new();
    bench.append(0, &[1; 4096]);
    bench.drive.fail(Some(Errno::EIO));
    let io = code(Errno::EIO);
    assert_eq!(bench.show(0).unwrap_err(), io);
    assert_eq!(bench.open(0).recv().unwrap().unwrap_err(), io);
    assert_eq!(bench.truncate(0, 0), Err(io));
    assert_eq!((bench.read(0, 0, 10), bench.read(0, 8192, 10)), (Err(io), Err(io)));
    assert_eq!(bench.write(0, 4096, &[1; 4096], write_only()), Err(io));
    bench.drive.fail(None);
    bench.append(0, &[1; 4096]);
    bench.open(0).recv().unwrap().unwrap();

    // The namespace is detached.
    let ino = bench.zone(0);
    let directory = bench.directory.clone();
    bench.files.update(&[]);
    let outcome = Bench::start(async move { directory.attributes(ino).await });
    assert_eq!(outcome.recv().unwrap().unwrap_err(), code(Errno::ENODEV));
    let directory = bench.directory.clone();
    assert_eq!(Bench::start(async move { directory.release(ino, write_only()).await }).recv(), Ok(Ok(())));
}
