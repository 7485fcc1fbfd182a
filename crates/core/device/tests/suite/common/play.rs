//! Plays arbitrary steps on a small drive and keeps books: for the property tests and the fuzzer.

use super::plausible::plausible;
use super::{Bench, Memory, TIMED_SMALL};
use device::{ControllerId, Drive, Host, Io, Origin, Output, Submission, Transfer};
use media::Nanos;
use nvme::property::PropertyOffset;
use nvme::{Command, Status, U16};

/// What a host, or the world, does.
#[derive(Clone, Debug)]
pub enum Step {
    Admin(Box<Command>, Vec<u8>),
    Io(Box<Command>, Vec<u8>),
    /// A command that means something, made of these numbers, on the admin queue or not.
    Plausible(bool, [u32; 12]),
    Property(u32, u32),
    Connect,
    Disconnect,
    Pass(u64),
    Cut(bool),
}

/// Keeps books of what is in flight.
struct Books {
    bench: Bench,
    busy: Vec<bool>,
    events: usize,
    /// Answers of the owner so far: every tenth is that it failed.
    answers: u32,
}

impl Books {
    fn take(&mut self, mut out: Vec<Output>) {
        while !out.is_empty() {
            let mut more = Vec::new();
            for output in out.drain(..) {
                match output {
                    Output::Complete { io, completion, .. } => {
                        let busy = &mut self.busy[io.0 as usize];
                        assert!(std::mem::take(busy), "{io:?} completes twice");
                        self.bench.memory.transforms.remove(&io.0);
                        self.bench.memory.gathered.remove(&io.0);
                        assert_eq!(completion.cid.get(), io.0 as u16);
                    }
                    Output::Data { io, bytes } => {
                        assert!(self.busy[io.0 as usize]);
                        assert_eq!(self.bench.memory.buffers[&io.0].len(), bytes.len());
                    }
                    Output::Sync { io } | Output::Forget { io, .. } => {
                        let b = &mut self.bench;
                        self.answers += 1;
                        let ok = !self.answers.is_multiple_of(10);
                        b.drive.synced(b.now, io, ok, &mut b.memory, &mut more);
                    }
                    Output::PowerCut { .. } => {
                        self.busy.fill(false);
                        self.bench.memory.transforms.clear();
                    }
                    Output::Disconnect { .. }
                    | Output::ShutDown
                    | Output::FaultInjected { .. }
                    | Output::HostDiskFault { .. }
                    | Output::PortDown { .. }
                    | Output::PortsUp
                    | Output::ClearHostDiskFaults => {}
                }
            }
            out = more;
        }
    }

    fn submit(&mut self, qid: u16, command: Command, data: &[u8]) {
        let io = self.busy.iter().position(|b| !b).expect("a free number") as u32;
        self.busy[io as usize] = true;
        let b = &mut self.bench;
        let command = Command { cid: U16::new(io as u16), ..command };
        let transfer = b.drive.transfer(b.controller, qid, &command);
        // A transport gathers as much as the command's transfer; the host's buffer has that size.
        let buffer = match transfer {
            Transfer::None => Vec::new(),
            t => vec![0x5A; t.bytes() as usize],
        };
        b.memory.buffers.insert(io, buffer);
        let mut out = Vec::new();
        let submission = Submission { controller: b.controller, qid, io: Io(io), command: &command, data };
        b.drive.submit(b.now, submission, &mut b.memory, &mut out);
        self.take(out);
    }

    fn run(&mut self, until: Nanos) {
        while let Some(at) = self.bench.drive.next_event().filter(|at| *at <= until) {
            self.bench.now = self.bench.now.max(at);
            let mut out = Vec::new();
            self.bench.drive.poll(self.bench.now, &mut self.bench.memory, &mut out);
            self.take(out);
        }
        self.bench.now = self.bench.now.max(until);
    }

    fn step(&mut self, step: Step) {
        if !self.bench.drive.is_powered() {
            self.bench.drive.power_on(self.bench.now, &mut self.bench.memory);
        }
        if self.bench.drive.controllers().all(|(id, ..)| id != self.bench.controller) {
            self.bench.controller = self.bench.connect("host", Origin::InProcess);
        }
        let b = &mut self.bench;
        let mut out = Vec::new();
        match step {
            Step::Admin(command, data) => return self.submit(0, *command, &data),
            Step::Io(command, data) => return self.submit(1, *command, &data),
            Step::Plausible(admin, numbers) => {
                let (command, data) = plausible(admin, numbers);
                self.submit(u16::from(!admin), command, &data);
                if !admin && command.opc == 0x05 && command.flags.fuse() == 1 && numbers[10] % 4 != 0 {
                    // The second one of the two.
                    let mut second = Command { opc: 0x01, ..command };
                    second.flags.set_fuse(2);
                    self.submit(1, second, &data);
                }
                return;
            }
            Step::Property(offset, value) => {
                let offset = PropertyOffset(offset);
                let _ = b.drive.property_get(b.controller, offset, value & 1 != 0);
                let (now, id) = (b.now, b.controller);
                let _ = b.drive.property_set(now, id, offset, value, &mut b.memory, &mut out);
            }
            Step::Connect => {
                let kato = (b.now.0 % 3000) as u32;
                if let Ok(id) = b.drive.connect(
                    b.now,
                    Host::administrator(super::nqn("more"), [2; 16], Origin::Unix),
                    0xFFFF,
                    kato,
                ) {
                    b.enable(id);
                    let _ = b.drive.add_queue(id, 1, 16);
                    b.controller = id;
                }
            }
            Step::Disconnect => b.drive.disconnect(b.now, b.controller, &mut b.memory, &mut out),
            Step::Pass(time) => return self.run(Nanos(self.bench.now.0 + time)),
            Step::Cut(energy) => b.drive.power_cut(b.now, energy, Nanos(1), &mut b.memory, &mut out),
        }
        self.take(out);
        self.events += 1;
    }
}

/// What there is to play on; the bits of a number.
pub struct Stage;

impl Stage {
    /// Completions are held until their modelled time.
    pub const TIMED_BIT: u8 = 1;
    /// The NAND has placement handles and windows.
    pub const PLACED_BIT: u8 = 2;
    /// Namespaces have keys.
    pub const KEYED_BIT: u8 = 4;

    fn set(of: u8) -> Bench {
        let mut changes = Vec::new();
        if of & Stage::TIMED_BIT != 0 {
            changes.extend(TIMED_SMALL);
        }
        if of & Stage::PLACED_BIT != 0 {
            changes.push((
                "spare = \"28%\"\n",
                "spare = \"100%\"\nplacement = { handles = 4 }\nwindow = { superblocks = 4, time = \"1s\" }\n",
            ));
        }
        let bench = Bench::with_namespaces(&changes);
        if of & Stage::KEYED_BIT == 0 {
            return bench;
        }
        let mut memory = Memory { drive_key: Some([1; 16]), ..Memory::default() };
        let mut drive = Drive::new(bench.drive.config().clone()).expect("a drive");
        drive.encrypt(&mut memory).expect("keys");
        Bench::around(drive, memory)
    }
}

/// Plays them, then lets everything end: nothing panics, every command completes exactly once, and no namespace stays shut.
pub fn play(stage: u8, steps: Vec<Step>) {
    let mut bench = Stage::set(stage);
    // The third namespace is private and on flash.
    bench.create_attached(1, 64);
    let mut books = Books { bench, busy: vec![false; 4096], events: 0, answers: 0 };
    for step in steps {
        books.step(step);
    }
    // In the end everything but event requests has completed.
    let end = Nanos(books.bench.now.0 + 3_600_000_000_000);
    books.run(end);
    let left = books.busy.iter().filter(|b| **b).count() as u32;
    assert_eq!(left, books.bench.drive.in_flight());
    for id in books.bench.drive.controllers().map(|(id, ..)| id).collect::<Vec<ControllerId>>() {
        let mut out = Vec::new();
        books.bench.drive.disconnect(books.bench.now, id, &mut books.bench.memory, &mut out);
        books.take(out);
    }
    books.run(Nanos(end.0 + 3_600_000_000_000));
    assert!(books.busy.iter().all(|b| !b), "commands that never completed");
    let mut b = books.bench;
    assert_eq!(b.drive.in_flight(), 0);
    if !b.drive.is_powered() {
        b.drive.power_on(b.now, &mut b.memory);
        b.run_until(Nanos(b.now.0 + 3_600_000_000_000));
    }
    b.controller = b.connect("host", Origin::InProcess);
    let mut nsid = 1;
    while nsid <= 4 {
        let read = b.submit(b.controller, 1, &Command::read(nsid, 0, 1), &[]);
        let until = Nanos(b.now.0 + 3_600_000_000_000);
        b.run_until(until);
        let Some((completion, _)) = b.done.remove(&read) else {
            // A power cut that was asked for after some operations of the media comes now, once.
            assert!(!b.drive.is_powered(), "a read of namespace {nsid} never completes");
            b.power_on();
            continue;
        };
        nsid += 1;
        let status = completion.status();
        let shut = [Status::NAMESPACE_NOT_READY, Status::SANITIZE_IN_PROGRESS].iter().any(|s| status.is(*s));
        assert!(!shut, "namespace {nsid} stays shut: {status}");
    }
}
