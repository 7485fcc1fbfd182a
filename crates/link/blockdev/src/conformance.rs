//! What every block device must do, as a check that any implementation can be put through, and a device in memory.

use crate::{BlockDevice, Completed, Flushes, Geometry, Namespace, Nanos, Operation, Payload, Status, Verb};
use nvme::IoCommand;
use nvme::copy::CopySource;
use nvme::io::{Blocks, DsmRange};
use nvme::zerocopy::FromBytes;
use rng::Rng;
use std::convert::Infallible;
use std::fmt::Debug;

/// Puts a device through so many random requests and compares its contents with a model. It must hold zeroes and keep what is written.
/// What is deallocated may read as zeroes: a deallocation is advice.
///
/// `wait` lets time pass until the device has news, and returns the time. The device reaches completions in any order; requests on the
/// same blocks are not under way at the same time.
///
/// # Panics
/// The device breaks the contract.
pub fn check<D>(device: &mut D, seed: u64, requests: u32, mut wait: impl FnMut(&mut D) -> Nanos)
where
    D: BlockDevice<Error: Debug>,
{
    let (block_size, blocks, limits) = (device.block_size(), device.blocks(), device.limits());
    assert!(block_size.is_power_of_two() && block_size >= 512 && blocks > 0);
    assert_eq!(device.next_event(), Nanos::MAX, "nothing is outstanding");
    let mut rng = Rng::new(seed);
    let span = blocks.min(512);
    let mut model = Model { block_size: block_size as usize, blocks: vec![Block::default(); span as usize] };
    let mut now = wait(device);
    let mut under_way: Vec<(u32, Operation)> = Vec::new();
    for n in 0..requests {
        let operation = random(&mut rng, span);
        let parts: Vec<Operation> = operation.parts(&limits).collect();
        let mut next = parts.iter();
        let mut part = next.next();
        while part.is_some() || !under_way.is_empty() {
            while let Some(&submitted) = part {
                if device.room() == 0 {
                    break;
                }
                let data = model.data(&submitted, n);
                let tag = under_way.iter().map(|(tag, _)| tag + 1).max().unwrap_or(n);
                device.submit(now, tag, &submitted, data).expect("a device that works");
                under_way.push((tag, submitted));
                part = next.next();
            }
            assert!(device.next_event() < Nanos::MAX, "something is outstanding");
            assert!(device.next_work() <= device.next_event(), "what is outstanding is work, too");
            while let Some(completed) = device.poll(now).expect("a device that works") {
                let at =
                    under_way.iter().position(|(tag, _)| *tag == completed.tag).expect("a tag under way");
                let (_, done) = under_way.swap_remove(at);
                assert!(completed.status.is_success(), "{done:?}: {}", completed.status);
                if done.verb.reads() {
                    model.check(&done, &completed.data);
                }
            }
            if part.is_some() || !under_way.is_empty() {
                now = wait(device);
            }
        }
        model.apply(&operation, n);
        assert_eq!(device.next_event(), Nanos::MAX, "nothing is outstanding");
    }
}

/// Puts a device through a flush that fails. `fail` makes the next flush fail that reaches what is below, once. The device's own flushes fail from
/// then on, with new writes and without.
///
/// # Panics
/// The device breaks the contract.
pub fn check_failed_flush<D>(device: &mut D, fail: impl FnOnce(&mut D), mut wait: impl FnMut(&mut D) -> Nanos)
where
    D: BlockDevice<Error: Debug>,
{
    let block = device.block_size() as usize;
    let mut now = wait(device);
    let mut run = |device: &mut D, verb: Verb| {
        let blocks = u32::from(verb == Verb::Write);
        let data = vec![7; blocks as usize * block];
        device.submit(now, 0, &Operation { verb, lba: 0, blocks }, data).expect("a device that works");
        loop {
            if let Some(done) = device.poll(now).expect("a device that works") {
                return done.status;
            }
            now = wait(device);
        }
    };
    for verb in [Verb::Write, Verb::Flush, Verb::Write] {
        assert_eq!(run(device, verb), Status::SUCCESS, "{verb:?} before anything fails");
    }
    fail(device);
    // Writes may be refused from now on.
    for verb in [Verb::Flush, Verb::Flush, Verb::Write, Verb::Flush] {
        let status = run(device, verb);
        assert!(verb == Verb::Write || !status.is_success(), "a flush succeeds after one that failed");
    }
}

/// What blocks should hold.
struct Model {
    block_size: usize,
    blocks: Vec<Block>,
}

/// What a block should hold.
#[derive(Clone, Copy, Default)]
struct Block {
    /// The stamp of the request that wrote it; 0 is zeroes.
    stamp: u32,
    /// Whether it has been deallocated since, and may hold zeroes.
    deallocated: bool,
}

impl Model {
    /// The contents that belong to a stamp.
    fn contents(&self, stamp: u32) -> impl Iterator<Item = u8> + use<> {
        let word = u64::from(stamp).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        word.to_le_bytes().into_iter().cycle().take(self.block_size)
    }

    fn range(operation: &Operation) -> std::ops::Range<usize> {
        operation.lba as usize..operation.lba as usize + operation.blocks as usize
    }

    /// The buffer of a part: full of what is written, or of something else where it is room.
    fn data(&self, part: &Operation, n: u32) -> Vec<u8> {
        let stamp = if part.verb.writes() { n + 1 } else { u32::MAX };
        let blocks = if part.bytes(1) > 0 { part.blocks } else { 0 };
        (0..blocks).flat_map(|_| self.contents(stamp)).collect()
    }

    /// A read has found this.
    fn check(&self, part: &Operation, data: &[u8]) {
        assert_eq!(data.len(), part.blocks as usize * self.block_size, "the data of {part:?}");
        let expected = self.blocks[Self::range(part)].iter();
        for (n, (block, found)) in expected.zip(data.chunks_exact(self.block_size)).enumerate() {
            let holds = |stamp| self.contents(stamp).eq(found.iter().copied());
            let right = holds(block.stamp) || block.deallocated && holds(0);
            assert!(right, "{part:?}: its block {n} does not hold what was written");
        }
    }

    fn apply(&mut self, operation: &Operation, n: u32) {
        let range = Self::range(operation);
        match operation.verb {
            Verb::Write | Verb::WriteFua => {
                self.blocks[range].fill(Block { stamp: n + 1, deallocated: false })
            }
            Verb::WriteZeroes { .. } => self.blocks[range].fill(Block::default()),
            Verb::Trim => self.blocks[range].iter_mut().for_each(|block| block.deallocated = true),
            Verb::Copy { from, .. } => {
                let from = from as usize;
                self.blocks.copy_within(from..from + operation.blocks as usize, range.start);
            }
            Verb::Read | Verb::ReadFua | Verb::Flush => {}
            Verb::Append | Verb::Zone(_) => unreachable!("devices without zones are put through"),
        }
    }
}

/// A request on the first `span` blocks.
fn random(rng: &mut Rng, span: u64) -> Operation {
    let blocks = 1 + rng.below(span / 2);
    let lba = rng.below(span - blocks + 1);
    let verb = match rng.below(12) {
        0..3 => Verb::Read,
        3 => Verb::ReadFua,
        4..7 => Verb::Write,
        7 => Verb::WriteFua,
        8 => Verb::Trim,
        9 => Verb::WriteZeroes { deallocate: rng.below(2) == 0 },
        10 => return Operation { verb: Verb::Flush, lba: 0, blocks: 0 },
        _ => {
            // Source and destination must not overlap.
            let (half, fua) = (span / 2, rng.below(2) == 0);
            let blocks = 1 + rng.below(half);
            let from = rng.below(half - blocks + 1);
            let lba = half + rng.below(half - blocks + 1);
            return Operation { verb: Verb::Copy { from, fua }, lba, blocks: blocks as u32 };
        }
    };
    Operation { verb, lba, blocks: blocks as u32 }
}

/// A device in memory, under a virtual clock. It holds its user to the contract: a part becomes a command of its namespace, which is
/// parsed and done when it ends. Parts take a random time each.
pub struct Memory {
    namespace: Namespace,
    contents: Vec<u8>,
    capacity: usize,
    rng: Rng,
    under_way: Vec<UnderWay>,
    /// Parts that fail: their numbers in the order of submission.
    fails: Vec<u64>,
    submitted: u64,
    /// The most parts that were under way together.
    deepest: usize,
    flushes: Flushes,
}

struct UnderWay {
    tag: u32,
    ends: Nanos,
    part: Operation,
    data: Vec<u8>,
    status: Status,
}

/// The longest time that a part takes.
const MAX_PART_NANOS: Nanos = 100_000;

impl Memory {
    /// A new device for so many parts at once; the seed decides their times.
    pub fn new(namespace: Namespace, capacity: usize, seed: u64) -> Self {
        let bytes = usize::try_from(namespace.bytes()).unwrap_or(usize::MAX);
        Self {
            namespace,
            contents: vec![0; bytes],
            capacity,
            rng: Rng::new(seed),
            under_way: Vec::new(),
            fails: Vec::new(),
            submitted: 0,
            deepest: 0,
            flushes: Flushes::default(),
        }
    }

    /// The part that is submitted as the so-many-th from now on, counted from 0, fails. With a flush, all later ones do.
    pub fn fail(&mut self, part: u64) {
        self.fails.push(self.submitted + part);
    }

    /// Parts submitted so far.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// The most parts that were under way at the same time.
    pub fn deepest(&self) -> usize {
        self.deepest
    }

    /// What it holds.
    pub fn contents(&self) -> &[u8] {
        &self.contents
    }

    fn bytes(&self, lba: u64, blocks: u32) -> std::ops::Range<usize> {
        let block = self.namespace.block_size as usize;
        let first = lba as usize * block;
        first..first + blocks as usize * block
    }

    /// Does what a command says. Its data is that of the part, or a list of ranges.
    fn execute(&mut self, part: &Operation, data: &mut [u8]) {
        let (command, payload) = self.namespace.encode(part);
        let protected = self.namespace.protection != 0;
        let at = |this: &Self, blocks: &Blocks| {
            assert_eq!(blocks.prinfo.pract(), protected, "the controller inserts and strips");
            this.bytes(blocks.slba, blocks.nlb)
        };
        let mut list = Vec::new();
        if let Payload::Ranges(ranges) = payload {
            ranges.write(&mut list);
        }
        match IoCommand::parse(&command).expect("a command of the NVM Command Set") {
            IoCommand::Read(b) => data.copy_from_slice(&self.contents[at(self, &b)]),
            IoCommand::Write(b) => {
                let at = at(self, &b);
                self.contents[at].copy_from_slice(data);
            }
            IoCommand::WriteZeroes(b) => {
                let at = at(self, &b);
                self.contents[at].fill(0);
            }
            IoCommand::DatasetManagement(_) => {
                for bytes in list.chunks_exact(size_of::<DsmRange>()) {
                    let range = DsmRange::read_from_bytes(bytes).expect("a range");
                    let at = self.bytes(range.slba.get(), range.lengthlb.get());
                    self.contents[at].fill(0);
                }
            }
            IoCommand::Copy(copy) => {
                let mut to = copy.sdlba;
                for bytes in list.chunks_exact(32) {
                    let source = CopySource::parse(0, bytes).expect("a source");
                    let from = self.bytes(source.slba, source.nlb);
                    let at = self.bytes(to, source.nlb).start;
                    self.contents.copy_within(from, at);
                    to += u64::from(source.nlb);
                }
            }
            IoCommand::Flush { nsid } => assert_eq!(nsid, self.namespace.nsid),
            other => panic!("no part becomes {other:?}"),
        }
    }
}

impl BlockDevice for Memory {
    type Error = Infallible;

    fn geometry(&self) -> Geometry {
        self.namespace.geometry()
    }

    fn room(&self) -> usize {
        self.capacity - self.under_way.len()
    }

    fn submit(&mut self, now: Nanos, tag: u32, part: &Operation, data: Vec<u8>) -> Result<(), Infallible> {
        assert!(self.room() > 0, "there is no room");
        assert!(self.under_way.iter().all(|other| other.tag != tag), "the tag {tag} is under way");
        assert!(part.blocks <= self.limits().most(part.verb), "{part:?} is beyond the limits");
        assert!(part.lba + u64::from(part.blocks) <= self.blocks(), "{part:?} is beyond the end");
        assert_eq!(data.len() as u64, part.bytes(self.block_size()), "the data of {part:?}");
        let failed = self.fails.contains(&self.submitted);
        let status = if failed { Status::INTERNAL_ERROR } else { Status::SUCCESS };
        let ends = now + 1 + self.rng.below(MAX_PART_NANOS);
        self.under_way.push(UnderWay { tag, ends, part: *part, data, status });
        self.flushes.submitted(tag, part.verb);
        self.submitted += 1;
        self.deepest = self.deepest.max(self.under_way.len());
        Ok(())
    }

    fn poll(&mut self, now: Nanos) -> Result<Option<Completed>, Infallible> {
        let first = self.under_way.iter().enumerate().min_by_key(|(_, part)| part.ends);
        let Some((at, _)) = first.filter(|(_, part)| part.ends <= now) else { return Ok(None) };
        let UnderWay { tag, part, mut data, status, .. } = self.under_way.swap_remove(at);
        if status.is_success() {
            self.execute(&part, &mut data);
        }
        let mut done = Completed { tag, status, data };
        self.flushes.ended(&mut done);
        Ok(Some(done))
    }

    fn next_event(&self) -> Nanos {
        self.under_way.iter().map(|part| part.ends).min().unwrap_or(Nanos::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn memory_conforms() {
        for seed in 0..20 {
            let limits =
                Limits { transfer: 1 + seed as u32, write_zeroes: 9, deallocate: 100, copy: 7, append: 1 };
            let namespace = Namespace {
                limits,
                deallocate_range: 30,
                copy_range: 3,
                protection: (seed % 4) as u8,
                ..Namespace::plain(5, 600, 512)
            };
            let mut device = Memory::new(namespace, 1 + seed as usize, seed);
            let mut now = 0;
            check(&mut device, seed, 200, |device| {
                if device.next_event() < Nanos::MAX {
                    now = device.next_event();
                }
                now
            });
            assert_eq!(device.deepest(), 1 + seed as usize);
        }
    }

    #[test]
    fn memory_keeps_a_failed_flush_in_mind() {
        let mut device = Memory::new(Namespace::plain(1, 8, 512), 1, 3);
        check_failed_flush(
            &mut device,
            |device| device.fail(0),
            |device| if device.next_event() < Nanos::MAX { device.next_event() } else { 0 },
        );
    }
}
