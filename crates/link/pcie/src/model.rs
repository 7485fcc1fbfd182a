//! A model of the queues: a host drives the function with random operations, some of them hostile, and predicts each answer.
//!
//!     TRANCHE_MODEL_ROUNDS=5000 cargo test --profile suite -p pcie model      (more runs)
//!     TRANCHE_MODEL_FIRST=10000 …                                             (its first seed)
//!
//! A third of the hosts writes doorbells to BAR0, a third to mapped memory, and a third to shadow doorbells: then the owner sleeps at times, and wakes up for
//! a write to BAR0 only.
//!
//! What holds: commands come in the order of their queue, with the host's bytes; each is answered once, in the order of the answers, with
//! its identifiers, status and SQ head; data is where PRPs and SGLs say; entries that wait are announced by an interrupt; a reset
//! ends when all commands are back, and nothing is written after it began; each command of the transport ends with
//! the specified status.

use crate::function::{Incoming, Request, Step};
use crate::fuzz::config;
use crate::memory::GuestMemory;
use crate::rig::{ENABLED, HostQueue, Rig, with_prp};
use crate::slots::DataPart;
use nvme::admin::{AdminCommand, CreateIoCq, CreateIoSq, DeleteQueue};
use nvme::aer::ErrorInfo;
use nvme::command::SglType;
use nvme::property::{Cc, Csts};
use nvme::zerocopy::IntoBytes;
use nvme::{Command, Completion, SglDescriptor, Status, Transfer};
use rng::Rng;
use std::collections::{BTreeMap, VecDeque};

/// Queue pairs, and one more identifier that is out of range.
const QUEUE_PAIRS: u16 = 4;
/// Where data of commands is: pages of 4 KiB.
const DATA_PAGES: std::ops::Range<u64> = 0x40..0x80;
/// Bytes of a page.
const PAGE: u64 = 4096;

/// A command that the host has sent.
#[derive(Clone, Debug)]
struct Sent {
    command: Command,
    /// Where its data is, in order.
    parts: Vec<(u64, usize)>,
    /// Its data, or what the controller is to write.
    data: Vec<u8>,
    /// The status that its data pointer has.
    status: Status,
}

/// What the model knows of a submission queue.
#[derive(Clone, Debug, Default)]
struct Submission {
    cqid: u16,
    /// Commands in the queue.
    queued: VecDeque<Sent>,
    fetched: u32,
    /// The head that the host knows of: entries before it may be written again.
    known_head: u32,
    outstanding: u32,
    /// The identifier of the command that deletes it.
    deleted_by: Option<u16>,
    /// Tells it from earlier queues with its identifier.
    generation: u64,
}

struct Model {
    rig: Rig,
    rng: Rng,
    what: String,
    submission: BTreeMap<u16, Submission>,
    /// Entries that are to appear in each completion queue, with the generation of the submission queue; and its vector.
    completion: BTreeMap<u16, (VecDeque<(Completion, u64)>, u16)>,
    in_flight: Vec<(Incoming, Sent)>,
    free_pages: Vec<u64>,
    next_cid: u16,
    /// Vectors with an interrupt since the host last looked.
    raised: u32,
    bus_master: bool,
    answered: u64,
    way: DoorbellWay,
}

/// Where a host writes doorbells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DoorbellWay {
    Bar,
    Mapped,
    Shadow,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut model = Model {
            rig: Rig::new(config(QUEUE_PAIRS)),
            rng: Rng::new(seed),
            what: String::new(),
            submission: BTreeMap::new(),
            completion: BTreeMap::new(),
            in_flight: Vec::new(),
            free_pages: Vec::new(),
            next_cid: 0,
            raised: 0,
            bus_master: true,
            answered: 0,
            way: [DoorbellWay::Bar, DoorbellWay::Mapped, DoorbellWay::Shadow][(seed % 3) as usize],
        };
        model.rig.is_mapped = model.way == DoorbellWay::Mapped;
        model.enable();
        model
    }

    fn enable(&mut self) {
        let ams = self.rng.below(2) as u8;
        self.rig.enable(ENABLED.with_ams(ams));
        self.rig.config(0x52, &[0, 0x80]);
        let table = self.rig.function.layout().msix_table;
        (0..=u32::from(QUEUE_PAIRS)).for_each(|vector| self.rig.write(table + 16 * vector + 12, 0));
        let mut admin = Submission::default();
        if self.way == DoorbellWay::Shadow {
            self.rig.share_doorbells([0x3_8000, 0x3_9000]);
            (admin.fetched, admin.known_head) = (1, 1);
        }
        self.submission = BTreeMap::from([(0, admin)]);
        self.completion = BTreeMap::from([(0, (VecDeque::new(), 0))]);
        self.free_pages = DATA_PAGES.collect();
        self.raised = 0;
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.rng.below(one_in) == 0
    }

    fn some_qid(&mut self) -> u16 {
        self.rng.below(u64::from(QUEUE_PAIRS) + 2) as u16
    }

    /// How many commands the host may still put into a queue.
    fn room(&self, qid: u16) -> u32 {
        let (Some(queue), Some(host)) = (self.submission.get(&qid), self.rig.submission.get(&qid)) else {
            return 0;
        };
        let used = (host.index + host.size - queue.known_head) % host.size;
        if queue.deleted_by.is_some() { 0 } else { host.size - 1 - used }
    }

    fn send(&mut self, qid: u16, mut sent: Sent) {
        self.next_cid = self.next_cid.wrapping_add(1);
        sent.command.cid.set(self.next_cid);
        self.rig.put(qid, sent.command);
        self.submission.get_mut(&qid).unwrap().queued.push_back(sent);
    }

    /// A command without data.
    fn plain(command: Command) -> Sent {
        Sent { command, parts: Vec::new(), data: Vec::new(), status: Status::SUCCESS }
    }

    /// A command with data in pages of its own, with PRPs or SGLs, some of which are wrong.
    fn command_with_data(&mut self) -> Sent {
        let count = 1 + self.rng.below(5);
        if (self.free_pages.len() as u64) < count + 1 {
            return Model::plain(with_prp(Command::new(0, 1), 0));
        }
        let mut pages = Vec::new();
        for _ in 0..=count {
            let at = self.rng.below(self.free_pages.len() as u64) as usize;
            pages.push(self.free_pages.swap_remove(at) * PAGE);
        }
        let list = pages.pop().unwrap();
        let with_sgl = self.chance(2);
        let mut parts: Vec<(u64, usize)> = Vec::new();
        for (page, index) in pages.iter().zip(0..) {
            // PRPs have an offset in the first page, and end in the last one.
            let start = if with_sgl || index == 0 { self.rng.below(PAGE / 8) * 4 } else { 0 };
            let room = PAGE - start;
            let whole = !with_sgl && index + 1 < count;
            let bytes = if whole { room } else { 1 + self.rng.below(room) };
            parts.push((page + start, bytes as usize));
        }
        let len: usize = parts.iter().map(|(_, bytes)| bytes).sum();
        let is_read = self.chance(2);
        let mut command = if is_read { Command::read(1, 0, 1) } else { Command::write(1, 0, 1) };
        command.mptr.set(list);
        let status;
        (command.dptr, status) = if with_sgl { self.sgl(list, &parts) } else { self.prps(list, &parts) };
        command.flags.set_psdt(u8::from(with_sgl));
        let seed = self.rng.next_u64();
        let data: Vec<u8> = (0..len as u64).map(|at| rng::mix(seed ^ (at / 8)) as u8 ^ at as u8).collect();
        if !is_read {
            let mut rest = &data[..];
            for (addr, bytes) in &parts {
                let (part, behind) = rest.split_at(*bytes);
                self.rig.memory.write(*addr, part).unwrap();
                rest = behind;
            }
        }
        Sent { command, parts, data, status }
    }

    fn prps(&mut self, list: u64, parts: &[(u64, usize)]) -> (SglDescriptor, Status) {
        let wrong = self.rng.below(8);
        let first = parts[0].0 + if wrong == 0 { 2 } else { 0 };
        let rest: Vec<u64> = parts[1..].iter().map(|(addr, _)| *addr).collect();
        // The list ends with its page, and goes on in the first half.
        let second = match rest.len() {
            0 => self.rng.next_u64(),
            1 => rest[0],
            count => {
                let here = 1 + self.rng.below(count as u64) as usize;
                let start = list + PAGE - 8 * here as u64;
                let mut entries = rest.clone();
                if here < count {
                    entries.insert(here - 1, list);
                }
                for (entry, index) in entries.iter().zip(0..) {
                    let at = if index < here {
                        start + 8 * index as u64
                    } else {
                        list + 8 * (index - here) as u64
                    };
                    self.rig.memory.write(at, &entry.to_le_bytes()).unwrap();
                }
                start
            }
        };
        let status = if wrong == 0 { Status::PRP_OFFSET_INVALID.with_dnr() } else { Status::SUCCESS };
        (SglDescriptor::of_prps([first, second]), status)
    }

    fn sgl(&mut self, list: u64, parts: &[(u64, usize)]) -> (SglDescriptor, Status) {
        let mut descriptors: Vec<SglDescriptor> =
            parts.iter().map(|(addr, bytes)| SglDescriptor::data_block(*addr, *bytes as u32)).collect();
        let mut status = Status::SUCCESS;
        match self.rng.below(10) {
            0 => {
                descriptors[0].id.set_kind(SglType::KEYED_DATA_BLOCK);
                status = Status::SGL_TYPE_INVALID.with_dnr();
            }
            1 => {
                descriptors.last_mut().unwrap().length.set(1 << 30);
                status = Status::DATA_SGL_LENGTH_INVALID.with_dnr();
            }
            2 => {
                let last = descriptors.len() - 1;
                descriptors[last].addr.set(0x8_8000);
                status = Status::DATA_TRANSFER_ERROR.with_dnr();
            }
            _ => {}
        }
        let count = descriptors.len() as u32;
        if count == 1 && self.chance(2) {
            return (descriptors[0], status);
        }
        let split = self.rng.below(u64::from(count)) as u32;
        if split == 0 {
            self.rig.memory.write(list, descriptors.as_bytes()).unwrap();
            return (SglDescriptor::list(SglType::LAST_SEGMENT, list, 16 * count), status);
        }
        let last = SglDescriptor::list(SglType::LAST_SEGMENT, list + 2048, 16 * (count - split));
        self.rig.memory.write(list + 2048, descriptors[split as usize..].as_bytes()).unwrap();
        descriptors.truncate(split as usize);
        descriptors.push(last);
        self.rig.memory.write(list, descriptors.as_bytes()).unwrap();
        (SglDescriptor::list(SglType::SEGMENT, list, 16 * (split + 1)), status)
    }

    fn free(&mut self, sent: &Sent) {
        if !sent.parts.is_empty() {
            self.free_pages.extend(sent.parts.iter().map(|(addr, _)| addr / PAGE));
            self.free_pages.push(sent.command.mptr.get() / PAGE);
        }
    }

    /// The host puts commands into a queue, and rings once.
    fn submit(&mut self, qid: u16) {
        let count = self.rng.below(u64::from(self.room(qid)) + 1);
        for _ in 0..count {
            let sent = match qid {
                0 => Model::plain(self.admin_command()),
                _ => self.command_with_data(),
            };
            self.send(qid, sent);
        }
        if count > 0 {
            self.rig.ring(qid);
        }
    }

    /// A command of the transport with any fields, or one that makes sense.
    fn admin_command(&mut self) -> Command {
        let (mut qid, mut other) = (self.some_qid(), self.some_qid());
        let sizes = [1, 2, 7, 31, 0, 300];
        let mut qsize_z = sizes[self.rng.below(6) as usize];
        let mut kind = self.rng.below(8);
        if !self.chance(4) {
            let all = 1..=QUEUE_PAIRS;
            let missing_cq = all.clone().find(|qid| !self.completion.contains_key(qid));
            let missing_sq = all.clone().find(|qid| !self.submission.contains_key(qid));
            (kind, qid) = match (missing_cq, missing_sq) {
                (Some(qid), _) => (0, qid),
                (None, Some(qid)) => (2, qid),
                (None, None) => (6 + self.rng.below(2), qid),
            };
            (other, qsize_z) = (1 + other % QUEUE_PAIRS, sizes[self.rng.below(4) as usize]);
        }
        let offset = if self.chance(20) { 0x10 } else { 0 };
        match kind {
            0 | 1 => {
                let c = CreateIoCq { qid, qsize_z, pc: true, ien: !self.chance(4), iv: other };
                with_prp(c.into(), completion_base(qid) + offset)
            }
            2 | 3 => {
                let qprio = self.rng.below(4) as u8;
                let c = CreateIoSq { qid, qsize_z, pc: true, qprio, cqid: other, nvmsetid: 0 };
                with_prp(c.into(), submission_base(qid) + offset)
            }
            4 => with_prp(AdminCommand::DeleteIoSq(DeleteQueue { qid }).into(), 0),
            5 => with_prp(AdminCommand::DeleteIoCq(DeleteQueue { qid }).into(), 0),
            _ => with_prp(AdminCommand::KeepAlive.into(), 0),
        }
    }

    /// The owner has nothing to do, and sleeps.
    fn sleep(&mut self) {
        while self.step() {}
        if self.way == DoorbellWay::Shadow && !self.rig.watch(false) {
            self.rig.is_asleep = true;
        }
    }

    /// The owner is awake, and may look at doorbells in memory from now on.
    fn wake(&mut self) {
        self.rig.is_asleep = false;
        if self.chance(2) {
            self.rig.watch(true);
        }
    }

    /// One step of the function.
    fn step(&mut self) -> bool {
        let Some(step) = self.rig.poll() else { return false };
        match step {
            Step::Command(incoming) => {
                let queue = self.submission.get_mut(&incoming.qid).unwrap();
                let sent = queue.queued.pop_front().expect("a command that the host has sent");
                assert_eq!(incoming.sqe, sent.command, "{}", self.what);
                queue.fetched += 1;
                queue.outstanding += 1;
                self.in_flight.push((incoming, sent));
            }
            Step::Handled => self.executed(None),
            Step::Request(request @ (Request::AddQueue { .. } | Request::RemoveQueue { .. })) => {
                self.executed(Some(request));
            }
            Step::Request(other) => panic!("{}: {other:?}", self.what),
        }
        true
    }

    /// The function has executed a command of the admin queue.
    fn executed(&mut self, request: Option<Request>) {
        let queue = self.submission.get_mut(&0).unwrap();
        let sent = queue.queued.pop_front().expect("an admin command");
        queue.fetched += 1;
        let command = AdminCommand::parse(&sent.command).unwrap();
        let base = sent.command.dptr.prps()[0];
        let cid = sent.command.cid.get();
        let status = match command {
            AdminCommand::CreateIoCq(c) => self.create_cq(c, base),
            AdminCommand::CreateIoSq(c) => {
                let status = self.create_sq(c, base);
                let (qid, entries) = (c.qid, u32::from(c.qsize_z) + 1);
                let added = status.is_success().then_some(Request::AddQueue { qid, entries });
                assert_eq!(request, added, "{}", self.what);
                status
            }
            AdminCommand::DeleteIoSq(DeleteQueue { qid }) => {
                let is_there = self.submission.get(&qid).is_some_and(|queue| queue.deleted_by.is_none());
                let removed = (qid != 0 && is_there).then_some(Request::RemoveQueue { qid });
                assert_eq!(request, removed, "{}", self.what);
                if removed.is_some() {
                    return self.delete_sq(qid, cid);
                }
                Status::INVALID_QID
            }
            AdminCommand::DeleteIoCq(DeleteQueue { qid }) => {
                if qid == 0 || !self.completion.contains_key(&qid) {
                    Status::INVALID_QID
                } else if self.submission.values().any(|queue| queue.cqid == qid) {
                    Status::INVALID_QUEUE_DELETION
                } else {
                    self.completion.remove(&qid);
                    self.rig.completion.remove(&qid);
                    Status::SUCCESS
                }
            }
            other => panic!("{}: {other:?} is the controller's", self.what),
        };
        let status = if status.is_success() { status } else { status.with_dnr() };
        self.expect(0, Completion::new(cid, status));
    }

    fn create_cq(&mut self, c: CreateIoCq, base: u64) -> Status {
        if !(1..=QUEUE_PAIRS).contains(&c.qid) || self.completion.contains_key(&c.qid) {
            return Status::INVALID_QID;
        }
        if c.ien && c.iv > QUEUE_PAIRS {
            return Status::INVALID_INTERRUPT_VECTOR;
        }
        if c.qsize_z == 0 || c.qsize_z > 255 {
            return Status::INVALID_QUEUE_SIZE;
        }
        if !base.is_multiple_of(PAGE) {
            return Status::PRP_OFFSET_INVALID;
        }
        self.rig.memory.write(base, &[0; PAGE as usize]).unwrap();
        self.rig.clear_doorbell(8 * u32::from(c.qid) + 4);
        self.rig.completion.insert(c.qid, HostQueue::contiguous(base, u32::from(c.qsize_z) + 1));
        self.completion.insert(c.qid, (VecDeque::new(), if c.ien { c.iv } else { u16::MAX }));
        Status::SUCCESS
    }

    fn create_sq(&mut self, c: CreateIoSq, base: u64) -> Status {
        let is_known = (1..=QUEUE_PAIRS).contains(&c.qid) && (1..=QUEUE_PAIRS).contains(&c.cqid);
        if !is_known || self.submission.contains_key(&c.qid) {
            return Status::INVALID_QID;
        }
        if !self.completion.contains_key(&c.cqid) {
            return Status::CQ_INVALID;
        }
        if c.qsize_z == 0 || c.qsize_z > 255 {
            return Status::INVALID_QUEUE_SIZE;
        }
        if !base.is_multiple_of(PAGE) {
            return Status::PRP_OFFSET_INVALID;
        }
        self.rig.clear_doorbell(8 * u32::from(c.qid));
        self.rig.submission.insert(c.qid, HostQueue::contiguous(base, u32::from(c.qsize_z) + 1));
        let generation = self.answered;
        self.submission.insert(c.qid, Submission { cqid: c.cqid, generation, ..Submission::default() });
        Status::SUCCESS
    }

    fn delete_sq(&mut self, qid: u16, cid: u16) {
        let queue = self.submission.get_mut(&qid).unwrap();
        queue.deleted_by = Some(cid);
        let dropped: Vec<Sent> = queue.queued.drain(..).collect();
        dropped.iter().for_each(|sent| self.free(sent));
        self.end_deletion(qid);
    }

    /// A queue that is being deleted is gone when its last command has ended.
    fn end_deletion(&mut self, qid: u16) {
        let queue = &self.submission[&qid];
        if let Some(cid) = queue.deleted_by.filter(|_| queue.outstanding == 0) {
            self.submission.remove(&qid);
            self.rig.submission.remove(&qid);
            self.expect(0, Completion::new(cid, Status::SUCCESS));
        }
    }

    /// An answer to a command of a queue is to appear.
    fn expect(&mut self, qid: u16, mut completion: Completion) {
        let queue = &self.submission[&qid];
        let size = self.rig.submission[&qid].size;
        completion.sqid.set(qid);
        completion.sqhd.set((queue.fetched % size) as u16);
        let (cqid, generation) = (queue.cqid, queue.generation);
        self.completion.get_mut(&cqid).unwrap().0.push_back((completion, generation));
        self.answered += 1;
    }

    /// The controller answers a command, after it has moved its data.
    fn respond(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        self.wake();
        let at = self.rng.below(self.in_flight.len() as u64) as usize;
        let (incoming, sent) = self.in_flight.swap_remove(at);
        let dw0 = self.rng.next_u64() as u32;
        let mut status = if self.chance(4) { Status::LBA_OUT_OF_RANGE } else { Status::SUCCESS };
        let mut found = Status::SUCCESS;
        if !sent.data.is_empty() {
            found = self.move_data(incoming, &sent);
        }
        if !found.is_success() {
            status = found;
        }
        let completion = Completion::success(0, dw0).with_status(status);
        self.rig.respond(incoming, completion);
        // A write that reaches no memory shows in the answer.
        let is_damaged = found.is_success() && !sent.status.is_success() && status.is_success();
        let status = if is_damaged { sent.status } else { status };
        let expected = Completion::success(sent.command.cid.get(), dw0).with_status(status);
        self.expect(incoming.qid, expected);
        self.free(&sent);
        self.submission.get_mut(&incoming.qid).unwrap().outstanding -= 1;
        self.end_deletion(incoming.qid);
    }

    /// Moves a command's data, and checks it against the host's. Returns the status of its data pointer.
    fn move_data(&mut self, incoming: Incoming, sent: &Sent) -> Status {
        let (function, memory) = (&mut self.rig.function, &self.rig.memory);
        let (tag, part, len) = (incoming.tag, DataPart::Data, sent.data.len() as u64);
        let is_read = sent.command.opc & 1 == 0;
        let transfer = if is_read { Transfer::ToHost(len) } else { Transfer::ToController(len) };
        let is_unmapped = sent.status.is(Status::DATA_TRANSFER_ERROR);
        let mapped = function.map_part(tag, part, transfer, memory);
        if !is_unmapped {
            assert_eq!(mapped.err().unwrap_or(Status::SUCCESS), sent.status, "{}: {sent:?}", self.what);
        }
        if let Err(status) = mapped {
            return status;
        }
        if !is_read {
            let mut bytes = vec![0; sent.data.len()];
            let read = function.read_part(tag, part, &mut bytes, memory);
            assert_eq!(read.err().unwrap_or(Status::SUCCESS), sent.status, "{}", self.what);
            assert!(read.is_err() || bytes == sent.data, "{}: data of a write", self.what);
            return sent.status;
        }
        let cut = self.rng.below(len) as usize;
        function.write_part(tag, part, cut, &sent.data[cut..], memory);
        function.write_part(tag, part, 0, &sent.data[..cut], memory);
        if sent.status.is_success() {
            let mut at = 0;
            for (addr, bytes) in &sent.parts {
                let mut found = vec![0; *bytes];
                memory.read(*addr, &mut found).unwrap();
                assert!(found == sent.data[at..at + bytes], "{}: data of a read", self.what);
                at += bytes;
            }
        }
        Status::SUCCESS
    }

    /// The host takes entries, and says so.
    fn take(&mut self, cqid: u16, most: u64) {
        if !self.completion.contains_key(&cqid) {
            return;
        }
        let mut taken = 0;
        while taken < most
            && self.completion.contains_key(&cqid)
            && let Some(found) = self.rig.take(cqid)
        {
            let found = found.with_status(found.status());
            let expected = self.completion.get_mut(&cqid).unwrap().0.pop_front();
            let (expected, generation) = expected.expect("an answer");
            assert_eq!(found, expected, "{}: queue {cqid}", self.what);
            let queue = self.submission.get_mut(&found.sqid.get());
            if let Some(queue) = queue.filter(|queue| queue.generation == generation) {
                queue.known_head = found.sqhd.get().into();
            }
            taken += 1;
        }
        if taken > 0 && self.completion.contains_key(&cqid) {
            self.rig.ring_head(cqid);
        }
    }

    /// All interrupts are sent. Entries that the host sees are announced.
    fn interrupts(&mut self) {
        for vector in self.rig.interrupts() {
            self.raised |= 1 << vector;
        }
        let vectors: Vec<(u16, u16)> =
            self.completion.iter().map(|(cqid, (_, vector))| (*cqid, *vector)).collect();
        for (cqid, vector) in &vectors {
            let is_announced = *vector == u16::MAX || self.raised >> *vector & 1 != 0;
            let sees = self.bus_master && self.rig.sees_entry(*cqid);
            assert!(!sees || is_announced, "{}: no interrupt for queue {cqid}", self.what);
        }
        // The host handles some of them, and takes all entries of the queues.
        let handled = self.raised & self.rng.next_u64() as u32;
        self.raised &= !handled;
        for (cqid, vector) in vectors.into_iter().filter(|(_, vector)| *vector < 32) {
            if handled >> vector & 1 != 0 {
                self.take(cqid, u64::MAX);
            }
        }
    }

    /// A value that no host may write to a doorbell.
    fn wrong_doorbell(&mut self) {
        let qid = self.some_qid();
        let is_head = self.chance(2);
        let host = if is_head { self.rig.completion.get(&qid) } else { self.rig.submission.get(&qid) };
        let known =
            if is_head { self.completion.contains_key(&qid) } else { self.submission.contains_key(&qid) };
        let (value, error) = match host.filter(|_| known) {
            Some(host) => (host.size + self.rng.below(1 << 31) as u32, ErrorInfo::INVALID_DOORBELL_VALUE),
            None => (self.rng.next_u64() as u32, ErrorInfo::INVALID_DOORBELL),
        };
        let right = host.filter(|_| known).map(|host| host.index);
        let offset = 8 * u32::from(qid) + 4 * u32::from(is_head);
        let is_there = error == ErrorInfo::INVALID_DOORBELL_VALUE;
        match (self.way, self.rig.shadow) {
            // Doorbells without a queue are memory.
            (DoorbellWay::Mapped, _) if !is_there => return,
            (DoorbellWay::Mapped, _) => self.rig.doorbells.store(offset.into(), value).unwrap(),
            (_, Some([shadow, _])) if is_there && qid > 0 => {
                // Heads are looked at only when the doorbell is written.
                self.rig.memory.store(shadow + u64::from(offset), value).unwrap();
                self.rig.write(0x1000 + offset, 0);
            }
            _ => self.rig.write(0x1000 + offset, value),
        }
        if !self.bus_master {
            self.set_bus_master(true);
        }
        assert_eq!(self.rig.event(), Some(error), "{}", self.what);
        // In memory it may have replaced a value that was not seen.
        if let Some(right) = right {
            self.rig.write_doorbell(offset, right);
        }
    }

    fn set_bus_master(&mut self, is_on: bool) {
        self.bus_master = is_on;
        self.rig.config(4, &[if is_on { 6 } else { 2 }]);
    }

    /// The host resets the controller. What the controller does until it is reset reaches no memory.
    fn reset(&mut self) {
        self.rig.set_cc(Cc::new());
        let mut before = vec![0; 0x8_0000];
        self.rig.memory.read(0, &mut before).unwrap();
        assert!(matches!(self.rig.poll(), Some(Step::Request(Request::Reset))));
        while let Some((incoming, sent)) = self.in_flight.pop() {
            assert!(self.rig.csts().rdy() && self.rig.poll().is_none(), "{}", self.what);
            let (function, memory) = (&mut self.rig.function, &self.rig.memory);
            let (tag, part) = (incoming.tag, DataPart::Data);
            let _ = function.map_part(tag, part, Transfer::ToHost(sent.data.len() as u64), memory);
            function.write_part(tag, part, 0, &sent.data, memory);
            self.rig.respond(incoming, Completion::success(0, 0));
        }
        assert!(self.rig.poll().is_none());
        assert_eq!(self.rig.csts(), Csts::new(), "{}", self.what);
        let mut after = vec![0; 0x8_0000];
        self.rig.memory.read(0, &mut after).unwrap();
        assert!(before == after && self.rig.interrupts().is_empty(), "{}", self.what);
        self.set_bus_master(true);
        self.enable();
    }

    fn act(&mut self) {
        match self.rng.below(100) {
            0..15 => self.submit(0),
            15..45 => {
                let qid = 1 + self.rng.below(u64::from(QUEUE_PAIRS)) as u16;
                self.submit(qid);
            }
            45..70 => {
                // Another thread may do so while the owner sleeps.
                for _ in 0..=self.rng.below(8) {
                    self.step();
                }
                if self.chance(3) {
                    self.sleep();
                }
            }
            70..85 => (0..=self.rng.below(6)).for_each(|_| self.respond()),
            85..93 => {
                let (qid, most) = (self.some_qid(), 1 + self.rng.below(8));
                self.take(qid, most);
            }
            93..95 => self.wrong_doorbell(),
            95..97 => {
                let is_on = !self.bus_master;
                self.set_bus_master(is_on);
            }
            97 if self.chance(4) => self.reset(),
            _ => self.interrupts(),
        }
    }

    /// Everything comes to its end.
    fn finish(&mut self) {
        self.set_bus_master(true);
        for _ in 0..10_000 {
            // An owner that sleeps has heard of everything.
            if !self.rig.is_asleep {
                self.sleep();
            }
            self.interrupts();
            if self.in_flight.is_empty() && self.completion.values().all(|(expected, _)| expected.is_empty())
            {
                break;
            }
            self.respond();
            (0..=QUEUE_PAIRS).for_each(|cqid| self.take(cqid, u64::MAX));
        }
        assert!(self.submission.values().all(|queue| queue.queued.is_empty()), "{}", self.what);
        assert_eq!(self.rig.function.in_flight(), 0, "{}", self.what);
    }
}

fn completion_base(qid: u16) -> u64 {
    0x1_0000 + u64::from(qid) * 0x1_000
}

fn submission_base(qid: u16) -> u64 {
    0x2_0000 + u64::from(qid) * 0x4_000
}

/// Names the seed of a run that fails.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("TRANCHE_MODEL_FIRST={} TRANCHE_MODEL_ROUNDS=1 repeats this run", self.0);
        }
    }
}

/// Returns how many commands were answered.
fn play(seed: u64) -> u64 {
    let _named = Named(seed);
    let mut model = Model::new(seed);
    for step in 0..800 {
        model.what = format!("seed {seed}, step {step}");
        model.act();
    }
    model.what = format!("seed {seed}, the end");
    model.finish();
    model.answered
}

#[test]
fn random_hosts_and_answers() {
    let number =
        |name: &str, usual| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (first, rounds) = (number("TRANCHE_MODEL_FIRST", 0), number("TRANCHE_MODEL_ROUNDS", 100));
    let answered: u64 = (first..first + rounds).map(play).sum();
    println!("{rounds} hosts, {answered} answers");
    assert!(answered > 100 * rounds || rounds < 100, "{answered} answers");
}
