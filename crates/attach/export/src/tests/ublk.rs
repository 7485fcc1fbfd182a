//! Requests of ublk over a drive in memory, without a kernel: a file stands for the character device, which has the data of requests.

use super::memory::{Limits, Memory, namespace};
use crate::access::Access;
use crate::drive::{Completions, Drive, DriveCommand, Namespace};
use crate::file_table::{File, FileTable};
use crate::request_queue::RequestQueue;
use crate::ublk::{Action, Answers, Asked, Descriptor, Done, Reply, carry_out};
use blockdev::Verb;
use fuser::Errno;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const LIMITS: Limits = Limits { transfer: 65536, zero: 1 << 20, commands: 16 };
const FUA: u32 = 1 << 13;
const KEEP_BIT: u32 = 1 << 15;

/// Where the driver has the data of requests with this tag, of queue 1.
fn place(tag: u16) -> u64 {
    0x8000_0000 + (1 << 41) + (u64::from(tag) << 25)
}

struct Bench {
    requests: Arc<RequestQueue>,
    drive: Arc<Memory>,
    files: FileTable,
    answers: Arc<Answers>,
    data: std::fs::File,
}

impl Bench {
    fn new(namespaces: &[Namespace]) -> Self {
        let requests = Arc::new(RequestQueue::new());
        let completions: Arc<dyn Completions> = requests.clone();
        let drive = Memory::new(Arc::downgrade(&completions), LIMITS, namespaces);
        requests.connect(drive.clone());
        let files = FileTable::new(Access { mode: 0o600, uid: 0, gid: 0 }, BTreeMap::new());
        files.update(&drive.namespaces().unwrap());
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let data = tempfile::tempfile().unwrap();
        let answers = Arc::new(Answers::new(data.try_clone().unwrap(), 1, event));
        Bench { requests, drive, files, answers, data }
    }

    fn file(&self) -> Arc<File> {
        self.files.find("nvme0n1").unwrap()
    }

    /// Has a request done, or begun.
    fn ask(&self, file: &Arc<File>, tag: u16, operation: u32, start: u64, sectors: u32) {
        let action = Action::of(Descriptor { operation, sectors, start }).unwrap();
        let reply = Reply::new(&self.answers, tag, action.asked());
        carry_out(&self.requests, file.clone(), action, reply);
    }

    /// What the kernel would be told.
    fn told(&self) -> Vec<(u16, i32)> {
        let mut done = Vec::new();
        self.answers.mailbox().take(&mut done);
        done.into_iter().map(|Done { tag, result }| (tag, result)).collect()
    }

    fn put(&self, tag: u16, data: &[u8]) {
        self.data.write_all_at(data, place(tag)).unwrap();
    }

    fn data(&self, tag: u16, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        self.data.read_exact_at(&mut data, place(tag)).unwrap();
        data
    }
}

fn code(errno: Errno) -> i32 {
    -errno.code()
}

#[test]
fn descriptors_become_ranges_of_bytes() {
    let of = |operation, sectors, start| Action::of(Descriptor { operation, sectors, start });
    assert_eq!(of(0, 8, 16), Some(Action::Read { offset: 8192, len: 4096 }));
    assert_eq!(of(1, 1, 0), Some(Action::Write { offset: 0, len: 512, fua: false }));
    assert_eq!(of(1 | FUA, 1, 0), Some(Action::Write { offset: 0, len: 512, fua: true }));
    assert_eq!(of(2 | 1 << 11, 0, u64::MAX), Some(Action::Flush), "the kernel gives it no place");
    // Flags that say nothing here, as of metadata of a file system.
    let zero = |deallocate, fua| Some(Action::Zero { offset: 512, len: 1 << 30, deallocate, fua });
    assert_eq!(of(3 | 1 << 11, 1 << 21, 1), zero(true, false));
    assert_eq!(of(5, 1 << 21, 1), zero(true, false));
    assert_eq!(of(5 | KEEP_BIT | FUA, 1 << 21, 1), zero(false, true));
    // WRITE_SAME, zones, and numbers that no request has.
    assert!([4, 10, 18, 255].iter().all(|operation| of(*operation, 8, 0).is_none()));
    assert_eq!(of(0, u32::MAX, 0), None, "more than 4 GiB");
    assert_eq!(of(0, 1, u64::MAX), None);
}

#[test]
fn data_travels_through_the_character_device() {
    let bench = Bench::new(&[namespace(1, 512, 1 << 20)]);
    let file = bench.file();
    let data: Vec<u8> = (0..200 << 10).map(|at| (at % 251) as u8).collect();
    bench.put(3, &data);
    bench.ask(&file, 3, 1, 2, 400);
    assert_eq!(bench.told(), [(3, 200 << 10)]);
    assert_eq!(bench.drive.content(1)[1024..][..data.len()], data);
    assert_eq!(bench.drive.seen().len(), 4, "as many commands as the transfer limit of 64 KiB asks for");

    bench.ask(&file, 9, 0, 2, 400);
    assert_eq!(bench.told(), [(9, 200 << 10)]);
    assert_eq!(bench.data(9, data.len()), data);
}

#[test]
fn flags_arrive_at_the_drive() {
    let bench = Bench::new(&[namespace(1, 512, 1 << 20)]);
    let file = bench.file();
    bench.put(0, &[7; 512]);
    bench.ask(&file, 0, 1 | FUA, 0, 1);
    bench.ask(&file, 1, 2, u64::MAX, 0);
    bench.ask(&file, 2, 3, 8, 8);
    bench.ask(&file, 3, 5 | KEEP_BIT, 8, 8);
    bench.ask(&file, 4, 5 | FUA, 16, 8);
    assert_eq!(bench.told(), [(0, 512), (1, 0), (2, 0), (3, 0), (4, 0)]);
    let zero = |lba, deallocate| DriveCommand::blocks(Verb::WriteZeroes { deallocate }, lba, 8);
    let flush = DriveCommand::blocks(Verb::Flush, 0, 0);
    let write = DriveCommand::blocks(Verb::WriteFua, 0, 1);
    assert_eq!(bench.drive.seen(), [write, flush, zero(8, true), zero(8, false), zero(16, true), flush]);
}

#[test]
fn errors_are_those_that_the_block_layer_knows() {
    let bench = Bench::new(&[namespace(1, 512, 1 << 20)]);
    let file = bench.file();
    let table = [
        (Errno::EIO, Errno::EIO),
        (Errno::ENOSPC, Errno::ENOSPC),
        (Errno::EOPNOTSUPP, Errno::EOPNOTSUPP),
        (Errno::EILSEQ, Errno::EILSEQ),
        // The driver would take these for something else.
        (Errno::ENODEV, Errno::EIO),
        (Errno::EAGAIN, Errno::EIO),
        (Errno::EBUSY, Errno::EIO),
    ];
    for (of_drive, expected) in table {
        bench.drive.fail(Some(of_drive));
        bench.ask(&file, 5, 0, 0, 8);
        assert_eq!(bench.told(), [(5, code(expected))], "{of_drive:?}");
    }
    bench.drive.fail(None);
    drop(Reply::new(&bench.answers, 6, Asked::Done));
    assert_eq!(bench.told(), [(6, code(Errno::EIO))], "nobody waits for ever");
    // A write whose data cannot be had.
    bench.data.set_len(0).unwrap();
    bench.ask(&file, 7, 1, 0, 8);
    assert_eq!(bench.told(), [(7, code(Errno::EIO))]);
    assert_eq!(bench.drive.seen().len(), 7, "reads");
}

#[test]
fn a_protected_namespace_takes_no_writes() {
    let bench = Bench::new(&[Namespace { read_only: true, ..namespace(1, 512, 1 << 20) }]);
    let file = bench.file();
    bench.put(0, &[7; 512]);
    bench.ask(&file, 0, 1, 0, 1);
    bench.ask(&file, 1, 3, 0, 8);
    bench.ask(&file, 2, 0, 0, 1);
    assert_eq!(bench.told(), [(0, code(Errno::EIO)), (1, code(Errno::EIO)), (2, 512)]);
}

#[test]
fn a_flush_that_a_cut_overtakes_fails_as_all_after_it() {
    let bench = Bench::new(&[namespace(1, 512, 1 << 20)]);
    let file = bench.file();
    bench.put(0, &[7; 512]);
    bench.ask(&file, 0, 1, 0, 1);
    bench.drive.hold();
    bench.ask(&file, 1, 2, u64::MAX, 0);
    bench.drive.lose();
    assert!(bench.drive.release(0));
    assert_eq!(bench.told(), [(0, 512), (1, code(Errno::EIO))]);
    for (tag, operation) in [(2, 0), (3, 1), (4, 2), (5, 3)] {
        bench.ask(&file, tag, operation, 0, 1);
        assert_eq!(bench.told(), [(tag, code(Errno::EIO))]);
    }
}

#[test]
fn requests_end_in_any_order() {
    let bench = Bench::new(&[namespace(1, 512, 1 << 20)]);
    let file = bench.file();
    bench.drive.hold();
    for tag in 0..32 {
        bench.ask(&file, tag, 0, u64::from(tag), 1);
    }
    assert!(bench.drive.most_in_flight() <= LIMITS.commands);
    let mut pick = 5;
    while bench.drive.release(pick) {
        pick = (pick * 7 + 3) % 11;
    }
    let told = bench.told();
    assert!(told.iter().all(|(_, result)| *result == 512));
    let mut tags: Vec<u16> = told.into_iter().map(|(tag, _)| tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, (0..32).collect::<Vec<u16>>());
}
