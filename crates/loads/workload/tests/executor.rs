//! The executor over a device in memory, which holds it to the contract of block devices.

use blockdev::conformance::Memory;
use blockdev::{BlockDevice, Limits, Namespace, Operation, Status};
use load_formats::fio::{Job, JobFile, Prompt, Space};
use std::collections::BTreeMap;
use workload::executor::Executor;
use workload::{Actor, Mix, MixConfig, Nanos, Next, Order, Request, Rng, Verb};

fn namespace(limits: Limits, protection: u8) -> Namespace {
    Namespace { limits, copy_range: 3, deallocate_range: 30, protection, ..Namespace::plain(1, 4096, 512) }
}

fn small(seed: u64) -> Limits {
    Limits { transfer: 1 + seed as u32 % 16, write_zeroes: 11, deallocate: 70, copy: 7, append: 1 }
}

/// Runs an actor to its end in virtual time; when that was.
fn run<A: Actor>(executor: &mut Executor<A>, device: &mut Memory) -> Nanos {
    let mut now = 0;
    loop {
        if executor.is_due(now) {
            executor.ask(now, device).unwrap();
        }
        if let Some(completed) = device.poll(now).unwrap() {
            executor.complete(now, completed, true);
            continue;
        }
        if executor.is_over() {
            break;
        }
        let next = device.next_event().min(executor.wake());
        assert!(now < next && next < Nanos::MAX, "something will happen");
        now = next;
    }
    assert_eq!(device.next_event(), Nanos::MAX);
    now
}

fn executor<A: Actor>(actor: A, device: &Memory) -> Executor<A> {
    Executor::new(actor, &[device.geometry()]).unwrap()
}

/// Random requests of all kinds on blocks of which no other request under way knows, so that contents can be checked.
struct Random {
    rng: Rng,
    left: u32,
    depth: usize,
    blocks: u64,
    /// What each block should hold.
    stamps: Vec<u32>,
    /// Requests with their stamps.
    under_way: BTreeMap<u32, (Request, u32)>,
    /// Bytes of each request that were filled or checked.
    touched: BTreeMap<u32, Vec<(u64, u64)>>,
}

impl Random {
    fn new(seed: u64, blocks: u64, depth: usize, left: u32) -> Self {
        Self {
            rng: Rng::new(seed),
            left,
            depth,
            blocks,
            stamps: vec![0; blocks as usize],
            under_way: BTreeMap::new(),
            touched: BTreeMap::new(),
        }
    }

    fn ranges(request: &Request) -> Vec<(u64, u64)> {
        let blocks = u64::from(request.blocks);
        match request.verb {
            Verb::Copy { from, .. } => vec![(request.lba, blocks), (from, blocks)],
            _ => vec![(request.lba, blocks)],
        }
    }

    /// Whether nothing under way knows its blocks, and a copy does not overlap itself.
    fn is_free(&self, request: &Request) -> bool {
        let apart = |a: (u64, u64), b: (u64, u64)| a.0 + a.1 <= b.0 || b.0 + b.1 <= a.0;
        let own = Self::ranges(request);
        let others: Vec<_> = self.under_way.values().flat_map(|(other, _)| Self::ranges(other)).collect();
        (own.len() < 2 || apart(own[0], own[1]))
            && own.iter().all(|range| others.iter().all(|other| apart(*range, *other)))
    }

    fn request(&mut self) -> Request {
        let blocks = 1 + self.rng.below(100);
        let lba = self.rng.below(self.blocks - blocks);
        let verb = match self.rng.below(8) {
            0 => Verb::Read,
            1 => Verb::ReadFua,
            2 | 3 => Verb::Write,
            4 => Verb::WriteFua,
            5 => Verb::Trim,
            6 => Verb::WriteZeroes { deallocate: true },
            _ => Verb::Copy { from: self.rng.below(self.blocks - blocks), fua: false },
        };
        let tag = (0..).find(|tag| !self.under_way.contains_key(tag)).unwrap();
        Request { tag, verb, namespace: 0, lba, blocks: blocks as u32 }
    }

    fn block(stamp: u32) -> [u8; 512] {
        let mut block = [0; 512];
        block[..4].copy_from_slice(&stamp.to_le_bytes());
        block
    }
}

impl Actor for Random {
    fn next(&mut self, _: Nanos) -> Next {
        if self.left == 0 {
            return Next::Done;
        }
        if self.under_way.len() >= self.depth {
            return Next::Wait;
        }
        let request = self.request();
        if !self.is_free(&request) {
            return if self.under_way.is_empty() { self.next(0) } else { Next::Wait };
        }
        self.left -= 1;
        self.under_way.insert(request.tag, (request, self.left + 1));
        self.touched.insert(request.tag, Vec::new());
        Next::Submit(request)
    }

    fn completed(&mut self, _: Nanos, tag: u32, ok: bool) {
        let (request, stamp) = self.under_way.remove(&tag).expect("a request that is under way");
        let mut touched = self.touched.remove(&tag).unwrap();
        touched.sort_unstable();
        assert!(ok);
        if request.verb.reads() || request.verb.writes() {
            let mut next = 0;
            for (at, bytes) in touched {
                assert_eq!(at, next, "each byte once");
                next += bytes;
            }
            assert_eq!(next, u64::from(request.blocks) * 512);
        }
        let range = request.lba as usize..request.lba as usize + request.blocks as usize;
        match request.verb {
            Verb::Write | Verb::WriteFua => self.stamps[range].fill(stamp),
            Verb::Trim | Verb::WriteZeroes { .. } => self.stamps[range].fill(0),
            Verb::Copy { from, .. } => {
                let from = from as usize;
                self.stamps.copy_within(from..from + request.blocks as usize, range.start);
            }
            _ => {}
        }
    }

    fn fill(&mut self, tag: u32, at: u64, data: &mut [u8]) {
        self.touched.get_mut(&tag).unwrap().push((at, data.len() as u64));
        let stamp = self.under_way[&tag].1;
        data.chunks_exact_mut(512).for_each(|block| block.copy_from_slice(&Self::block(stamp)));
    }

    fn check(&mut self, tag: u32, at: u64, data: &[u8]) {
        self.touched.get_mut(&tag).unwrap().push((at, data.len() as u64));
        let first = self.under_way[&tag].0.lba + at / 512;
        for (n, block) in data.chunks_exact(512).enumerate() {
            assert!(block == Self::block(self.stamps[first as usize + n]), "block {}", first + n as u64);
        }
    }
}

#[test]
fn every_block_of_every_request_is_moved_once() {
    for seed in 0..16 {
        let mut device = Memory::new(namespace(small(seed), (seed % 4) as u8), 1 + seed as usize % 7, seed);
        let actor = Random::new(seed, 4096, 1 + seed as usize % 5, 400);
        let mut executor = executor(actor, &device);
        run(&mut executor, &mut device);
        let outcome = *executor.outcome();
        assert_eq!((outcome.requests, outcome.failed, executor.actor().left), (400, 0, 0));
        assert!(device.submitted() > 800, "requests are cut: {}", device.submitted());
        let stamps = &executor.actor().stamps;
        for (block, stamp) in device.contents().chunks_exact(512).zip(stamps) {
            assert!(block == Random::block(*stamp));
        }
    }
}

#[test]
fn a_part_that_fails_fails_its_request() {
    let mut device = Memory::new(namespace(Limits { transfer: 4, ..Limits::NONE }, 0), 3, 1);
    let mix = MixConfig {
        range: 4096,
        blocks: 10,
        order: Order::Sequential,
        writes_per_mille: 1000,
        depth: 2,
        count: Some(20),
        seed: 1,
    };
    // The second part of the third request, and two of the fourth.
    [7, 9, 11].into_iter().for_each(|part| device.fail(part));
    let mut executor = executor(Mix::new(mix), &device);
    run(&mut executor, &mut device);
    let outcome = executor.outcome();
    assert_eq!((outcome.requests, outcome.failed, outcome.bytes), (20, 2, 18 * 5120));
    assert_eq!(device.submitted(), 60, "the parts after it are submitted all the same");
    assert_eq!(device.deepest(), 3);
}

#[test]
fn units_are_not_cut_and_contents_are_verified() {
    let text = "[a]\nrw=randwrite\nbs=24k\nsize=1536k\niodepth=8\nverify=crc32c\nverify_interval=6144\ndo_verify=1\n";
    let jobs = JobFile::parse(text, &|_| None).unwrap().jobs().unwrap();
    let job = Job::of(&jobs.jobs[0], Space::new(4096, 512), 0, 0, 0).unwrap();
    let mut device = Memory::new(namespace(Limits { transfer: 31, ..Limits::NONE }, 1), 4, 3);
    let mut executor = executor(Prompt::new(job.clone()), &device);
    run(&mut executor, &mut device);
    assert_eq!(executor.actor().job().mismatches().0, 0);
    // Two parts of 12 KiB for each of 64 requests, written and then read.
    assert_eq!((executor.outcome().requests, device.submitted()), (128, 256));
    // A device that takes less than what is verified together.
    let tiny = namespace(Limits { transfer: 11, ..Limits::NONE }, 0);
    assert!(Executor::new(Prompt::new(job), &[tiny.geometry()]).is_none());
}

/// Wants to submit so many reads at once.
struct Burst(u32);

impl Actor for Burst {
    fn next(&mut self, _: Nanos) -> Next {
        let Some(left) = self.0.checked_sub(1) else { return Next::Wait };
        self.0 = left;
        Next::Submit(Request { verb: Verb::Read, namespace: 0, lba: 0, blocks: 8, tag: left })
    }

    fn completed(&mut self, _: Nanos, _: u32, _: bool) {}
}

#[test]
fn what_finds_no_room_waits() {
    let device = || Memory::new(namespace(Limits { transfer: 4, ..Limits::NONE }, 0), 5, 7);
    let mut eager = device();
    let mut all = executor(Burst(10), &eager);
    assert!(all.ask(0, &mut eager).unwrap());
    assert_eq!((all.actor().0, eager.submitted()), (0, 5), "the actor is asked all the same");
    assert!(all.is_due(0), "something waits");

    let mut patient = device();
    let mut two = executor(Burst(10), &patient).with_patience(2);
    two.ask(0, &mut patient).unwrap();
    // Two are under way, of the third one part, and the fourth waits as a whole.
    assert_eq!((two.actor().0, patient.submitted()), (6, 5));
    let end = patient.next_event();
    let first = patient.poll(end).unwrap().unwrap();
    two.complete(end, first, true);
    two.resume(end, &mut patient).unwrap();
    assert_eq!((two.actor().0, patient.submitted()), (6, 6));

    // What waits is forgotten, and what is under way ends.
    assert!(two.overdue(0).is_none() && two.overdue(1).is_some());
    two.stop();
    let mut finished = 0;
    while patient.next_event() < Nanos::MAX {
        let now = patient.next_event();
        let completed = patient.poll(now).unwrap().unwrap();
        if let Some(done) = two.complete(now, completed, true) {
            assert_eq!((done.status, done.latency), (Status::SUCCESS, now));
            finished += 1;
        }
    }
    assert!(two.is_over() && two.overdue(Nanos::MAX).is_none());
    assert_eq!((finished, patient.submitted()), (3, 6));
}

#[test]
fn a_flush_has_no_data() {
    struct Once(bool);
    impl Actor for Once {
        fn next(&mut self, _: Nanos) -> Next {
            if std::mem::replace(&mut self.0, true) {
                return Next::Done;
            }
            Next::Submit(Request { verb: Verb::Flush, namespace: 0, lba: 0, blocks: 0, tag: 3 })
        }

        fn completed(&mut self, _: Nanos, tag: u32, ok: bool) {
            assert!(tag == 3 && ok);
        }
    }
    let mut device = Memory::new(namespace(small(0), 0), 1, 1);
    let mut once = executor(Once(false), &device);
    let end = run(&mut once, &mut device);
    assert_eq!((once.outcome().requests, once.outcome().bytes, once.outcome().elapsed), (1, 0, end));
    let flush = Operation { verb: Verb::Flush, lba: 0, blocks: 0 };
    assert_eq!(flush.bytes(512), 0);
}
