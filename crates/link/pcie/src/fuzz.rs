//! What a `fuzz` target calls.

use crate::config_space::PciIdentity;
use crate::function::{EnabledValues, Function, FunctionConfig, Incoming, Request, Step};
use crate::memory::GuestMemory;
use crate::msix::MsixTableOwner;
use crate::ram::Ram;
use nvme::property::{Cap, PropertyOffset};
use nvme::protocol_fault::CompletionFault;
use nvme::zerocopy::IntoBytes;
use nvme::{AdminOpcode, Command, Completion, SeparateBlock, SglDescriptor, Status, Transfer};

/// Guest memory: two regions with a hole between them.
const REGIONS: [std::ops::Range<u64>; 2] = [0..0x1_0000, 0x1_4000..0x2_0000];
/// Addresses of the admin queues, each of a page.
const ADMIN_BASES: [u32; 2] = [0x1000, 0x2000];
/// Entries of an admin queue.
const ADMIN_ENTRIES: u32 = 16;
/// Bytes of the pages of doorbells.
pub(crate) const DOORBELL_BYTES: u64 = 0x1000;
/// Offset of Command in the configuration space.
const COMMAND_OFFSET: u64 = 4;

/// A function for tests: up to this many queue pairs.
pub(crate) fn config(queue_pairs: u16) -> FunctionConfig {
    FunctionConfig {
        identity: PciIdentity {
            vendor: 0x1234,
            device: 1,
            subsystem_vendor: 0x1234,
            subsystem: 2,
            revision: 0,
        },
        capabilities: Cap::new().with_css(0x41).with_to(20).with_nssrs(true).with_crms(1),
        queue_pairs,
        max_entries: 256,
        vectors: queue_pairs + 1,
        doorbell_stride: 0,
        requires_contiguous: false,
        max_transfer: 1 << 17,
        max_commands: 64,
        msix_table: MsixTableOwner::Function,
    }
}

/// Input as a stream of numbers; zeros follow it.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn dword(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }
}

/// A function with its owner, a controller that answers anything.
struct Bench {
    function: Function,
    memory: Ram,
    /// Doorbells that the host writes in memory, if it maps them.
    doorbells: Ram,
    is_mapped: bool,
    now_ns: u64,
    in_flight: Vec<Incoming>,
    /// Entries that the host has put into the admin queue.
    tail: u32,
}

/// The tools of a call, of fields of a test's structure.
macro_rules! bus {
    ($of:expr) => {
        crate::memory::Bus {
            memory: &$of.memory,
            doorbells: $of.is_mapped.then_some(&$of.doorbells),
            now_ns: $of.now_ns,
        }
    };
}
#[cfg(test)]
pub(crate) use bus;

impl Bench {
    fn write_bar(&mut self, offset: u32, bytes: &[u8]) {
        let bus = bus!(self);
        self.function.write_bar(offset.into(), bytes, bus);
    }

    /// The host enables the controller as it should.
    fn enable(&mut self) {
        let bus = bus!(self);
        self.function.write_config(COMMAND_OFFSET, &[0x06, 0], bus);
        let aqa = (ADMIN_ENTRIES - 1) << 16 | (ADMIN_ENTRIES - 1);
        for (offset, value) in [
            (PropertyOffset::CC, 0),
            (PropertyOffset::AQA, aqa),
            (PropertyOffset::ASQ, ADMIN_BASES[0]),
            (PropertyOffset::ACQ, ADMIN_BASES[1]),
        ] {
            self.write_bar(offset.0, &value.to_le_bytes());
        }
        self.settle(true);
        self.in_flight.clear();
        self.tail = 0;
        self.write_bar(PropertyOffset::CC.0, &0x0046_0061u32.to_le_bytes());
        self.settle(true);
    }

    /// The host puts a command into the admin queue.
    fn submit(&mut self, command: Command) {
        let at = u64::from(ADMIN_BASES[0]) + u64::from(self.tail) * 64;
        let _ = self.memory.write(at, command.as_bytes());
        self.tail = (self.tail + 1) % ADMIN_ENTRIES;
        let tail = self.tail;
        self.write_bar(0x1000, &tail.to_le_bytes());
    }

    /// The owner does what there is to do. With `all`, it answers all commands. Whether nothing was left.
    fn settle(&mut self, all: bool) -> bool {
        for _ in 0..1000 {
            let bus = bus!(self);
            self.function.follow_doorbells(bus);
            match self.function.poll(bus) {
                Some(Step::Request(Request::Enable(_))) => {
                    self.function.enabled(Some(EnabledValues { arbitration: 3 }), bus);
                }
                Some(Step::Request(Request::Shutdown(_))) => self.function.shut_down(),
                Some(Step::Request(Request::SubsystemReset)) => self.function.subsystem_reset(),
                Some(Step::Command(incoming)) => self.in_flight.push(incoming),
                Some(Step::Request(_) | Step::Handled) => {}
                None if all && !self.in_flight.is_empty() => self.answer(0, 0),
                None => return true,
            }
        }
        false
    }

    /// The controller answers a command, with data of this many bytes.
    fn answer(&mut self, index: usize, bytes: u32) {
        if self.in_flight.is_empty() {
            return;
        }
        let incoming = self.in_flight.swap_remove(index % self.in_flight.len());
        let tag = incoming.tag;
        let separate = match incoming.sqe.cid.get() & 3 {
            0 | 1 => None,
            2 => SeparateBlock::new(512, 8),
            _ => SeparateBlock::new(1 + bytes % 64, 1 + bytes % 5),
        };
        let to_host = incoming.sqe.opc & 1 == 0;
        let transfer =
            if to_host { Transfer::ToHost(bytes.into()) } else { Transfer::ToController(bytes.into()) };
        let mut data = vec![0; bytes.min(1 << 17) as usize];
        let status = self.function.map(tag, transfer, separate, &self.memory).and_then(|()| match to_host {
            true => {
                self.function.describe_transport(tag, &mut data);
                self.function.write(tag, &data, &self.memory);
                Ok(())
            }
            false => self.function.read(tag, &mut data, &self.memory),
        });
        let completion = Completion::new(0, status.err().unwrap_or(Status::SUCCESS));
        let bus = bus!(self);
        let fault = [CompletionFault::None, CompletionFault::Duplicate, CompletionFault::LostInterrupt];
        let fault = fault[(incoming.sqe.cid.get() >> 4) as usize % fault.len()];
        if incoming.sqe.cid.get() & 8 != 0 {
            self.function.raise_spurious(tag);
        }
        let _ = self.function.respond_with(tag, completion, fault, bus);
        // An answered tag means nothing any more.
        let _ = self.function.respond(tag, completion, bus);
    }

    /// One act of a host or of the owner.
    fn act(&mut self, input: &mut Input<'_>) {
        let size = self.function.layout().bytes;
        match input.byte() % 15 {
            0 => self.enable(),
            1 => {
                let offset = u32::from(input.byte()) % 0x38;
                let value = input.dword();
                self.write_bar(offset & !3, &value.to_le_bytes());
            }
            2 => {
                let (doorbell, value) = (u32::from(input.byte()) % 12, u32::from(input.byte()));
                self.write_bar(0x1000 + 4 * doorbell, &value.to_le_bytes());
            }
            3 => {
                let (offset, value) = (input.dword() % (size + 8), input.dword());
                self.write_bar(offset, &value.to_le_bytes()[..usize::from(input.byte() % 5)]);
            }
            4 => {
                let (addr, value) = (u64::from(input.dword()) % 0x2_0000, input.dword());
                let _ = self.memory.write(addr, &value.to_le_bytes());
            }
            5 | 6 => {
                let mut command = Command::default();
                command.as_mut_bytes().iter_mut().for_each(|byte| *byte = input.byte());
                self.submit(command);
            }
            7 => {
                // Queues of a page, as a host makes them.
                let (kind, qid) = (input.byte(), u32::from(input.byte() % 4));
                let opcode =
                    if kind & 1 == 0 { AdminOpcode::CREATE_IO_CQ } else { AdminOpcode::CREATE_IO_SQ };
                let mut command = Command { opc: opcode.0, ..Command::default() };
                command.cdw10.set((u32::from(input.byte()) << 16) | qid);
                command.cdw11.set(u32::from(kind >> 1) & 7 | qid << 16);
                command.dptr = SglDescriptor::of_prps([0x1000 * u64::from(input.byte() % 32), 0]);
                self.submit(command);
            }
            8 => {
                let bytes = 1 + input.dword() % (1 << 18);
                self.answer(input.byte().into(), bytes);
            }
            9 => {
                let bus = bus!(self);
                let (offset, value) = (u64::from(input.byte()) * 4 % 0x140, input.dword());
                self.function.write_config(offset, &value.to_le_bytes(), bus);
            }
            10 => match input.byte() % 4 {
                0 => self.function.function_reset(),
                1 => self.function.subsystem_reset(),
                2 => {
                    self.function.power_lost();
                    self.function.power_returned();
                }
                _ => self.function.fail(),
            },
            11 => {
                self.now_ns += u64::from(input.dword());
                self.function.take_interrupts(self.now_ns, |_| {});
            }
            12 => {
                let (doorbell, value) = (u64::from(input.byte()) % 12, u32::from(input.byte()));
                let _ = self.doorbells.store(4 * doorbell, value);
            }
            13 => {
                let is_watched = input.byte() & 1 == 0;
                let bus = bus!(self);
                // An owner that sleeps has nothing to do.
                if !self.function.watch(is_watched, bus) && !is_watched {
                    assert!(!self.function.has_news(bus));
                }
            }
            _ => {
                let mut bytes = [0; 16];
                let offset = u64::from(input.dword() % (size + 8));
                self.function.read_bar(offset, &mut bytes);
                self.function.read_config(offset, &mut bytes);
            }
        }
        let is_all = self.settle(input.byte().is_multiple_of(4));
        // What is done is no news: an owner that looks for it could not sleep.
        assert!(!is_all || !self.function.has_news(bus!(self)));
        assert!(self.function.in_flight() <= 64);
    }
}

/// Any acts of a host, and any answers of a controller, as bytes say.
pub fn fuzz(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut bench = Bench {
        function: Function::new(config(4)),
        memory: Ram::new(&REGIONS),
        doorbells: Ram::whole(DOORBELL_BYTES),
        is_mapped: input.byte() & 1 == 0,
        now_ns: 0,
        in_flight: Vec::new(),
        tail: 0,
    };
    while !input.0.is_empty() {
        bench.act(&mut input);
    }
}
