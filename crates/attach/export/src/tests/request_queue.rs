//! Requests without the kernel.

use super::memory::{Limits, Memory, namespace};
use crate::access::Access;
use crate::drive::{Drive, DriveCommand};
use crate::file_table::{File, FileTable};
use crate::request_queue::{Answer, RequestQueue};
use blockdev::Verb;
use fuser::Errno;
use rng::Rng;
use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};

const LIMITS: Limits = Limits { transfer: 16384, zero: 65536, commands: 4 };

struct Bench {
    requests: Arc<RequestQueue>,
    drive: Arc<Memory>,
    file: Arc<File>,
}

type PendingAnswer = mpsc::Receiver<Result<Vec<u8>, Errno>>;

impl Bench {
    fn new(block_size: u32, bytes: u64) -> Self {
        Self::with(LIMITS, block_size, bytes)
    }

    fn with(limits: Limits, block_size: u32, bytes: u64) -> Self {
        let requests = Arc::new(RequestQueue::new());
        let completions = Arc::downgrade(&requests);
        let drive = Memory::new(completions, limits, &[namespace(1, block_size, bytes)]);
        requests.connect(drive.clone());
        let files = FileTable::new(Access { mode: 0o600, uid: 0, gid: 0 }, BTreeMap::new());
        files.update(&drive.namespaces().unwrap());
        let file = files.find("nvme0n1").unwrap();
        Bench { requests, drive, file }
    }

    fn answer() -> (Answer, PendingAnswer) {
        let (send, outcome) = mpsc::channel();
        (Answer::call(move |result| send.send(result).unwrap()), outcome)
    }

    fn read(&self, offset: u64, len: u32) -> PendingAnswer {
        let (answer, outcome) = Self::answer();
        self.requests.read(self.file.clone(), offset, len, answer);
        outcome
    }

    fn write(&self, offset: u64, data: &[u8]) -> PendingAnswer {
        let (answer, outcome) = Self::answer();
        self.requests.write(self.file.clone(), offset, data.to_vec(), false, answer);
        outcome
    }

    fn flush(&self) -> PendingAnswer {
        let (answer, outcome) = Self::answer();
        self.requests.flush(self.file.clone(), answer);
        outcome
    }

    fn zero(&self, offset: u64, len: u64) -> PendingAnswer {
        let (answer, outcome) = Self::answer();
        self.requests.zero(self.file.clone(), offset, len, true, answer);
        outcome
    }
}

#[test]
fn a_request_within_the_limit_is_one_command() {
    let bench = Bench::new(512, 1 << 20);
    bench.write(16384, &[7; 16384]).recv().unwrap().unwrap();
    assert_eq!(bench.read(16384, 16384).recv().unwrap().unwrap(), [7; 16384]);
    let expected = [Verb::Write, Verb::Read].map(|verb| DriveCommand::blocks(verb, 32, 32));
    assert_eq!(bench.drive.seen(), expected);
}

#[test]
fn large_requests_stay_within_the_queue_and_are_answered_once() {
    let bench = Bench::new(4096, 4 << 20);
    let data: Vec<u8> = (0..1 << 20).map(|i| (i / 4096) as u8).collect();
    let outcome = bench.write(4096, &data);
    outcome.recv().unwrap().unwrap();
    assert!(outcome.recv().is_err(), "answered twice");
    assert_eq!(bench.drive.seen().len(), 64);
    assert_eq!(bench.read(4096, 1 << 20).recv().unwrap().unwrap(), data);
    bench.zero(4096, 1 << 20).recv().unwrap().unwrap();
    assert!(bench.drive.content(1).iter().all(|byte| *byte == 0));
    assert!(bench.drive.most_in_flight() <= LIMITS.commands);
}

#[test]
fn the_end_of_the_file_is_where_it_is() {
    let bench = Bench::new(512, 8192);
    assert_eq!(bench.read(8000, 4096).recv().unwrap().unwrap().len(), 192);
    assert_eq!(bench.read(8192, 4096).recv().unwrap().unwrap().len(), 0);
    assert_eq!(bench.read(u64::MAX, u32::MAX).recv().unwrap().unwrap().len(), 0);
    bench.write(7680, &[1; 4096]).recv().unwrap().unwrap();
    assert_eq!(bench.drive.content(1)[7680..], [1; 512]);
    let error = bench.write(8192, &[1; 512]).recv().unwrap().unwrap_err();
    assert_eq!(i32::from(error), i32::from(Errno::ENOSPC));
    bench.zero(0, u64::MAX).recv().unwrap().unwrap();
    bench.zero(u64::MAX, u64::MAX).recv().unwrap().unwrap();
    assert_eq!(bench.drive.content(1), [0; 8192]);
}

#[test]
fn errors_reach_the_request_and_the_next_one_works() {
    let bench = Bench::new(4096, 1 << 20);
    bench.drive.fail(Some(Errno::EIO));
    for outcome in [bench.read(0, 1 << 20), bench.write(100, &[1; 9000]), bench.zero(100, 90000)] {
        assert_eq!(i32::from(outcome.recv().unwrap().unwrap_err()), i32::from(Errno::EIO));
        assert!(outcome.recv().is_err());
    }
    bench.drive.fail(None);
    bench.write(100, &[1; 9000]).recv().unwrap().unwrap();
    assert_eq!(bench.read(100, 9000).recv().unwrap().unwrap(), [1; 9000]);
}

#[test]
fn nothing_is_written_to_a_vanished_or_protected_file() {
    let bench = Bench::new(4096, 1 << 20);
    let files = FileTable::new(Access { mode: 0o600, uid: 0, gid: 0 }, BTreeMap::new());
    let protected = crate::drive::Namespace { read_only: true, ..namespace(1, 4096, 1 << 20) };
    files.update(&[protected]);
    let file = files.find("nvme0n1").unwrap();
    let (answer, outcome) = Bench::answer();
    bench.requests.write(file.clone(), 0, vec![1; 4096], false, answer);
    assert_eq!(i32::from(outcome.recv().unwrap().unwrap_err()), i32::from(Errno::EROFS));
    files.update(&[]);
    let (answer, outcome) = Bench::answer();
    bench.requests.read(file, 0, 4096, answer);
    assert_eq!(i32::from(outcome.recv().unwrap().unwrap_err()), i32::from(Errno::ENODEV));
    assert!(bench.drive.seen().is_empty());
}

/// A power cut took what a Flush should cover: no Flush of this file may succeed any more, also one that has begun before.
#[test]
fn a_file_that_lost_writes_fails_from_then_on() {
    let bench = Bench::new(4096, 1 << 20);
    bench.write(0, &[1; 4096]).recv().unwrap().unwrap();
    bench.flush().recv().unwrap().unwrap();
    bench.write(0, &[2; 4096]).recv().unwrap().unwrap();
    bench.drive.hold();
    let begun = bench.flush();
    bench.drive.lose();
    while bench.drive.release(0) {}
    bench.drive.seen();
    let later = [bench.flush(), bench.write(0, &[3; 4096]), bench.zero(0, 4096), bench.read(0, 4096)];
    for outcome in std::iter::once(begun).chain(later) {
        assert_eq!(i32::from(outcome.recv().unwrap().unwrap_err()), i32::from(Errno::ENODEV));
    }
    assert_eq!(bench.drive.seen(), []);
}

/// Two writes to different bytes of the same block must both be there in the end, in any order of completions.
#[test]
fn partial_writes_do_not_undo_each_other() {
    for seed in 1..200 {
        let mut random = Rng::new(seed);
        let bench = Bench::new(512, 4096);
        bench.drive.hold();
        let mut outcomes = Vec::new();
        let mut expected = vec![0u8; 4096];
        // Writers own different bytes: every third one.
        for _ in 0..12 {
            let writer = random.below(255) as u8 + 1;
            let at = random.below(4096 - 700) as usize;
            let len = 1 + random.below(700) as usize;
            if outcomes.iter().any(|(from, to, _)| *from < at + len && at < *to) {
                continue;
            }
            expected[at..at + len].fill(writer);
            outcomes.push((at, at + len, bench.write(at as u64, &vec![writer; len])));
        }
        while bench.drive.release(random.next_u64() as usize) {}
        for (_, _, outcome) in outcomes {
            outcome.recv().unwrap().unwrap();
        }
        assert_eq!(bench.drive.content(1), expected, "seed {seed}");
    }
}

/// Random requests against plain memory, completions in random order, only what cannot race at once.
#[test]
fn random_requests_agree_with_memory() {
    for seed in 1..60 {
        let mut random = Rng::new(seed);
        let block_size = [512, 4096][random.below(2) as usize];
        let commands = 1 + random.below(8) as u32;
        let limits = Limits { transfer: 8192, zero: 20480, commands };
        let bytes = 16 * 4096;
        let bench = Bench::with(limits, block_size, bytes);
        let mut model = vec![0u8; bytes as usize];
        bench.drive.hold();
        for _ in 0..200 {
            let offset = random.below(bytes);
            let len = 1 + random.below(20_000).min(bytes - offset - 1);
            let end = offset as usize + len as usize;
            let settle = |outcome: &PendingAnswer, random: &mut Rng| loop {
                match outcome.try_recv() {
                    Ok(result) => return result.unwrap(),
                    Err(_) => assert!(bench.drive.release(random.next_u64() as usize), "seed {seed}: stuck"),
                }
            };
            match random.below(3) {
                0 => {
                    let data: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
                    settle(&bench.write(offset, &data), &mut random);
                    model[offset as usize..end].copy_from_slice(&data);
                }
                1 => {
                    settle(&bench.zero(offset, len), &mut random);
                    model[offset as usize..end].fill(0);
                }
                _ => {
                    let read = settle(&bench.read(offset, len as u32), &mut random);
                    assert_eq!(read, model[offset as usize..end], "seed {seed}");
                }
            }
        }
        assert_eq!(bench.drive.content(1), model, "seed {seed}");
    }
}
