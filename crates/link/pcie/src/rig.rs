//! A host as its driver writes it, and a controller that the test answers for.

use crate::function::{EnabledValues, Function, FunctionConfig, Incoming, Request, Step};
use crate::fuzz::{self, bus};
use crate::memory::GuestMemory;
use crate::ram::Ram;
use nvme::admin::{CreateIoCq, CreateIoSq};
use nvme::aer::{AsyncEvent, ErrorInfo};
use nvme::property::{Cc, Csts, PropertyOffset};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{AdminOpcode, Command, Completion, SglDescriptor, Status, U32};
use std::collections::BTreeMap;

/// Guest memory of the tests, with a hole.
pub(crate) const REGIONS: [std::ops::Range<u64>; 2] = [0..0x8_0000, 0x9_0000..0x10_0000];
/// Entries of the admin queues.
const ADMIN_ENTRIES: u32 = 16;
/// Addresses of the admin queues.
const ADMIN_BASES: [u64; 2] = [0x1000, 0x2000];
/// What enables the controller.
pub(crate) const ENABLED: Cc = Cc::new().with_en(true).with_css(6).with_iosqes(6).with_iocqes(4);

/// The host's side of a queue.
#[derive(Clone, Debug)]
pub(crate) struct HostQueue {
    pub pages: Vec<u64>,
    pub size: u32,
    /// Tail of a submission queue, head of a completion queue.
    pub index: u32,
    pub phase: bool,
}

impl HostQueue {
    pub(crate) fn contiguous(base: u64, size: u32) -> Self {
        let pages = (0..16).map(|page| base + page * 4096).collect();
        HostQueue { pages, size, index: 0, phase: true }
    }

    fn entry(&self, bytes: u64) -> u64 {
        let offset = u64::from(self.index) * bytes;
        self.pages[(offset / 4096) as usize] + offset % 4096
    }
}

/// A function, guest memory, and the host's sides of the queues.
pub(crate) struct Rig {
    pub function: Function,
    pub memory: Ram,
    /// Doorbells that the host writes in memory, if it maps them.
    pub doorbells: Ram,
    pub is_mapped: bool,
    /// Pages of shadow doorbells and of their events.
    pub shadow: Option<[u64; 2]>,
    /// What the host has written to doorbells, by their offset.
    rung: BTreeMap<u64, u32>,
    /// Whether the owner sleeps until the host writes to BAR0.
    pub is_asleep: bool,
    pub now_ns: u64,
    pub submission: BTreeMap<u16, HostQueue>,
    pub completion: BTreeMap<u16, HostQueue>,
}

impl Rig {
    pub(crate) fn new(config: FunctionConfig) -> Self {
        let mut rig = Rig {
            function: Function::new(config),
            memory: Ram::new(&REGIONS),
            doorbells: Ram::whole(fuzz::DOORBELL_BYTES),
            is_mapped: false,
            shadow: None,
            rung: BTreeMap::new(),
            is_asleep: false,
            now_ns: 0,
            submission: BTreeMap::new(),
            completion: BTreeMap::new(),
        };
        rig.config(4, &[0x06, 0]);
        rig
    }

    /// An enabled controller with up to four queue pairs, and messages.
    pub(crate) fn enabled() -> Self {
        let mut rig = Rig::new(fuzz::config(4));
        rig.enable(ENABLED);
        // MSI-X, all vectors unmasked.
        rig.config(0x52, &[0, 0x80]);
        let table = rig.function.layout().msix_table;
        for vector in 0..5 {
            rig.write(table + 16 * vector + 12, 0);
        }
        rig
    }

    pub(crate) fn config(&mut self, offset: u64, bytes: &[u8]) {
        self.is_asleep = false;
        self.function.write_config(offset, bytes, bus!(self));
    }

    pub(crate) fn write(&mut self, offset: u32, value: u32) {
        let bus = bus!(self);
        self.is_asleep = false;
        self.function.write_bar(offset.into(), &value.to_le_bytes(), bus);
        self.function.check();
    }

    pub(crate) fn register(&self, offset: PropertyOffset) -> u32 {
        let mut bytes = [0; 4];
        self.function.read_bar(offset.0.into(), &mut bytes);
        u32::from_le_bytes(bytes)
    }

    pub(crate) fn csts(&self) -> Csts {
        Csts::from_bits(U32::new(self.register(PropertyOffset::CSTS)))
    }

    pub(crate) fn set_cc(&mut self, cc: Cc) {
        self.write(PropertyOffset::CC.0, cc.into_bits().get());
    }

    /// Sets the admin queues and CC, and answers the request that follows.
    pub(crate) fn enable(&mut self, cc: Cc) {
        self.write(PropertyOffset::AQA.0, (ADMIN_ENTRIES - 1) << 16 | (ADMIN_ENTRIES - 1));
        self.write(PropertyOffset::ASQ.0, ADMIN_BASES[0] as u32);
        self.write(PropertyOffset::ACQ.0, ADMIN_BASES[1] as u32);
        // What an earlier life left there has the wrong phase.
        self.memory.write(ADMIN_BASES[1], &[0; 4096]).unwrap();
        (self.shadow, self.rung) = (None, BTreeMap::new());
        self.set_cc(cc);
        assert!(matches!(self.poll(), Some(Step::Request(Request::Enable(_)))));
        self.function.enabled(Some(EnabledValues::default()), bus!(self));
        assert!(self.csts().rdy());
        let queues =
            ADMIN_BASES.map(|base| BTreeMap::from([(0, HostQueue::contiguous(base, ADMIN_ENTRIES))]));
        [self.submission, self.completion] = queues;
    }

    pub(crate) fn poll(&mut self) -> Option<Step> {
        self.function.follow_doorbells(bus!(self));
        let step = self.function.poll(bus!(self));
        self.function.check();
        step
    }

    /// The next step, which is a command.
    pub(crate) fn command(&mut self) -> Incoming {
        match self.poll() {
            Some(Step::Command(incoming)) => incoming,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn respond(&mut self, incoming: Incoming, completion: Completion) {
        let bus = bus!(self);
        self.function.respond(incoming.tag, completion, bus).unwrap();
        self.function.check();
    }

    /// Puts a command into a queue, without a doorbell.
    pub(crate) fn put(&mut self, qid: u16, command: Command) {
        let queue = self.submission.get_mut(&qid).unwrap();
        self.memory.write(queue.entry(64), command.as_bytes()).unwrap();
        queue.index = (queue.index + 1) % queue.size;
    }

    pub(crate) fn ring(&mut self, qid: u16) {
        let tail = self.submission[&qid].index;
        self.write_doorbell(8 * u32::from(qid), tail);
    }

    /// Writes a doorbell with this offset from the first one, where the host has it.
    pub(crate) fn write_doorbell(&mut self, offset: u32, value: u32) {
        let before = self.rung.insert(offset.into(), value).unwrap_or(0);
        if let Some([shadow, events]) = self.shadow.filter(|_| offset >= 8) {
            self.memory.store(shadow + u64::from(offset), value).unwrap();
            let event = self.memory.load(events + u64::from(offset)).unwrap();
            // Whether the doorbell passes its event, as Linux has it.
            let [event, before, after] = [event, before, value].map(|value| value as u16);
            if after.wrapping_sub(event).wrapping_sub(1) >= after.wrapping_sub(before) {
                assert!(!self.is_asleep || !self.function.has_news(bus!(self)), "a doorbell is lost");
                return;
            }
        }
        if self.is_mapped {
            self.doorbells.store(offset.into(), value).unwrap();
        } else {
            self.write(0x1000 + offset, value);
        }
    }

    /// A queue is new: its doorbell is zero wherever the host has it.
    pub(crate) fn clear_doorbell(&mut self, offset: u32) {
        self.rung.remove(&offset.into());
        for page in self.shadow.into_iter().flatten() {
            self.memory.store(page + u64::from(offset), 0).unwrap();
        }
    }

    /// Moves doorbells of I/O queues to guest memory.
    pub(crate) fn share_doorbells(&mut self, pages: [u64; 2]) {
        pages.iter().for_each(|page| self.memory.write(*page, &[0; 4096]).unwrap());
        let command = Command::new(AdminOpcode::DOORBELL_BUFFER_CONFIG.0, 0);
        let mut command = command.with_dptr(SglDescriptor::of_prps(pages));
        command.flags.set_psdt(0);
        assert_eq!(self.admin(command).status(), Status::SUCCESS);
        self.shadow = Some(pages);
    }

    /// The owner looks at doorbells in memory all the time, or wants to sleep. Whether there is something to do.
    pub(crate) fn watch(&mut self, is_watched: bool) -> bool {
        self.function.watch(is_watched, bus!(self))
    }

    pub(crate) fn submit(&mut self, qid: u16, command: Command) {
        self.put(qid, command);
        self.ring(qid);
    }

    /// The entry at the head of a completion queue, and whether its phase says that it is new.
    fn entry(&self, cqid: u16) -> (Completion, bool) {
        let queue = &self.completion[&cqid];
        let mut bytes = [0; 16];
        self.memory.read(queue.entry(16), &mut bytes).unwrap();
        let completion = Completion::read_from_bytes(&bytes).unwrap();
        (completion, (completion.sf.get() & 1 != 0) == queue.phase)
    }

    /// Whether the host sees a new entry.
    pub(crate) fn sees_entry(&self, cqid: u16) -> bool {
        self.entry(cqid).1
    }

    /// Takes the next entry of a completion queue, without a doorbell.
    pub(crate) fn take(&mut self, cqid: u16) -> Option<Completion> {
        let (completion, is_new) = self.entry(cqid);
        let queue = self.completion.get_mut(&cqid).unwrap();
        if !is_new {
            return None;
        }
        queue.index = (queue.index + 1) % queue.size;
        queue.phase ^= queue.index == 0;
        Some(completion)
    }

    /// Tells how many entries were taken.
    pub(crate) fn ring_head(&mut self, cqid: u16) {
        let head = self.completion[&cqid].index;
        self.write_doorbell(8 * u32::from(cqid) + 4, head);
    }

    /// A command of the admin queue that the function executes itself.
    pub(crate) fn admin(&mut self, command: Command) -> Completion {
        self.submit(0, command);
        let step = self.poll();
        assert!(matches!(step, Some(Step::Handled | Step::Request(_))), "{step:?}");
        let completion = self.take(0).expect("an answer");
        self.ring_head(0);
        completion
    }

    pub(crate) fn create_cq(&mut self, qid: u16, base: u64, entries: u32, iv: u16) {
        self.memory.write(base, &[0; 4096]).unwrap();
        let c = CreateIoCq { qid, qsize_z: (entries - 1) as u16, pc: true, ien: true, iv };
        let completion = self.admin(with_prp(c.into(), base));
        assert_eq!(completion.status(), Status::SUCCESS);
        self.completion.insert(qid, HostQueue::contiguous(base, entries));
    }

    pub(crate) fn create_sq(&mut self, qid: u16, base: u64, entries: u32, cqid: u16) {
        let c = CreateIoSq { qid, qsize_z: (entries - 1) as u16, pc: true, qprio: 0, cqid, nvmsetid: 0 };
        self.submit(0, with_prp(c.into(), base));
        let step = self.poll();
        let is_added = matches!(step, Some(Step::Request(Request::AddQueue { qid: q, entries: e })) if (q, e) == (qid, entries));
        assert!(is_added, "{step:?}");
        assert_eq!(self.take(0).unwrap().status(), Status::SUCCESS);
        self.ring_head(0);
        self.submission.insert(qid, HostQueue::contiguous(base, entries));
    }

    pub(crate) fn interrupts(&mut self) -> Vec<u16> {
        let mut found = Vec::new();
        self.function.take_interrupts(self.now_ns, |vector| found.push(vector));
        found
    }

    /// The event that the function reports next.
    pub(crate) fn event(&mut self) -> Option<ErrorInfo> {
        let step = self.poll()?;
        let known = [ErrorInfo::INVALID_DOORBELL, ErrorInfo::INVALID_DOORBELL_VALUE];
        let reported = |info: &ErrorInfo| {
            let event = AsyncEvent::error(*info);
            matches!(step, Step::Request(Request::Event(found)) if found == event)
        };
        known.into_iter().find(reported)
    }
}

/// A command with PRPs.
pub(crate) fn with_prp(command: Command, base: u64) -> Command {
    let mut command = command.with_dptr(SglDescriptor::of_prps([base, 0]));
    command.flags.set_psdt(0);
    command
}
