//! The same drive under a virtual clock, with an actor as its host.
//!
//! Nothing waits: when neither the drive nor the actor has anything to do now, the clock moves on to the
//! next event of either. The same seed gives the same completions at the same times on every machine.

use crate::buffer::Buffer;
use crate::clock::Clock;
use crate::engine::{Engine, Owner};
use crate::shared::Delivery;
use crate::store::{Backing, Lent, Store};
use device::{Config, ConfigError, ControllerId, Drive, Origin};
use media::Nanos;
use nvme::property::{Cc, PropertyOffset};
use nvme::{AdminOpcode, CNTLID_DYNAMIC, Command, Completion, IoOpcode, Nqn, Status};
use workload::{Actor, Next, Request, Verb};

/// Host NQN of actors.
const ACTOR_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:7472616e-6368-6500-0000-6163746f7200";

/// Whether a simulated drive keeps what is written to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    /// No: reads give zeros. Nothing is copied.
    None,
    /// In memory.
    Memory,
}

/// What became of an actor's requests.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Outcome {
    /// Requests that ended.
    pub requests: u64,
    /// Those that failed.
    pub failed: u64,
    /// Bytes of those that did not fail.
    pub bytes: u64,
    /// From the first submission to the last completion.
    pub elapsed: Nanos,
    /// Sum of the requests' latencies.
    pub latency_sum: u128,
    /// Longest of them.
    pub latency_max: Nanos,
    /// Depends on every request, its time, its latency and its status: equal runs have equal digests.
    pub digest: u64,
}

impl Outcome {
    fn count(&mut self, request: &Request, submitted: Nanos, now: Nanos, status: Status, lba_bytes: u64) {
        let latency = now.since(submitted);
        self.requests += 1;
        match status.is_success() {
            true => self.bytes += u64::from(request.blocks) * lba_bytes,
            false => self.failed += 1,
        }
        self.latency_sum += u128::from(latency.0);
        self.latency_max = self.latency_max.max(latency);
        for word in [request.lba, u64::from(request.tag), now.0, latency.0, u64::from(status.0)] {
            self.digest = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
        }
    }
}

/// A drive in virtual time.
pub struct Sim {
    pub(crate) engine: Engine,
    pub(crate) clock: Clock,
}

impl Sim {
    /// A new drive.
    ///
    /// # Errors
    /// If it cannot be as configured.
    pub fn new(mut config: Config, contents: Contents) -> Result<Sim, ConfigError> {
        config.ftl.durable |= contents == Contents::Memory;
        let drive = Drive::new(config)?;
        let backing = match contents {
            Contents::None => Backing::None,
            Contents::Memory => Backing::memory(crate::start::pages(drive.config())),
        };
        Ok(Sim { engine: Engine::alone(drive, Store::new(backing)), clock: Clock::Virtual(0.into()) })
    }

    /// The drive, to be looked at.
    pub fn drive(&self) -> &Drive {
        &self.engine.drive
    }

    /// The drive's time.
    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// Connects a host and finds out about one of its namespaces.
    ///
    /// # Errors
    /// The status with which the drive refuses, Invalid Namespace if it is not attached.
    pub fn host(&mut self, nsid: u32) -> Result<SimHost<'_>, Status> {
        SimHost::connect(&mut self.engine, &self.clock, nsid)
    }
}

/// A host of a drive in virtual time, for one namespace.
pub struct SimHost<'a> {
    engine: &'a mut Engine,
    clock: &'a Clock,
    controller: ControllerId,
    nsid: u32,
    blocks: u64,
    lba_bytes: u32,
    deliveries: Vec<Delivery>,
    buffers: Vec<Lent>,
}

struct Outstanding {
    request: Request,
    submitted: Nanos,
}

impl<'a> SimHost<'a> {
    pub(crate) fn connect(engine: &'a mut Engine, clock: &'a Clock, nsid: u32) -> Result<Self, Status> {
        let now = clock.now();
        let nqn = Nqn::new(ACTOR_NQN).map_err(|_| Status::INTERNAL_ERROR)?;
        let controller = engine.drive.connect(now, &nqn, [1; 16], CNTLID_DYNAMIC, 0, Origin::InProcess)?;
        let enable = u64::from(Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).into_bits());
        let Engine { drive, store, outputs, .. } = &mut *engine;
        drive.property_set(now, controller, PropertyOffset::CC, false, enable, store, outputs)?;
        drive.add_queue(controller, 1, device::MAX_QUEUE_ENTRIES)?;
        let mut host = SimHost {
            engine,
            clock,
            controller,
            nsid,
            blocks: 0,
            lba_bytes: 0,
            deliveries: Vec::new(),
            buffers: Vec::new(),
        };
        let identify = Command::new(AdminOpcode::IDENTIFY.0, nsid);
        let (completion, data) = host.admin(&identify, 4096);
        completion.status().ok()?;
        let byte = |at: usize| data.as_slice().get(at).copied().unwrap_or(0);
        host.blocks = (0..8).rev().fold(0, |n, i| n << 8 | u64::from(byte(i)));
        // FLBAS, then the LBADS of that format (NVM 4.1.5.1).
        let format = usize::from(byte(26) & 0xF | (byte(26) & 0x60) >> 1);
        host.lba_bytes = 1u32.checked_shl(byte(128 + 4 * format + 2).into()).unwrap_or(0);
        if host.blocks == 0 || host.lba_bytes == 0 {
            return Err(Status::INVALID_NAMESPACE);
        }
        Ok(host)
    }

    /// Logical blocks of the namespace.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Bytes of a logical block.
    pub fn lba_bytes(&self) -> u32 {
        self.lba_bytes
    }

    /// The drive, to be looked at.
    pub fn drive(&self) -> &Drive {
        &self.engine.drive
    }

    /// Carries out one admin command, with room for `bytes` of data.
    pub fn admin(&mut self, command: &Command, bytes: u32) -> (Completion, Buffer) {
        let owner = Owner::Actor { tag: u32::MAX };
        self.engine.submit(
            self.clock.now(),
            owner,
            self.controller,
            0,
            command,
            Buffer::zeroed(bytes).into(),
        );
        loop {
            self.engine.settle(self.clock.now(), &mut self.deliveries);
            if let Some((_, completion, data)) = self.engine.actor_done.pop() {
                return (completion, data.into_own());
            }
            let deadline = self.engine.deadline();
            if deadline == Nanos::MAX {
                return (Completion::new(0, Status::INTERNAL_ERROR), Buffer::empty());
            }
            self.clock.advance(deadline);
        }
    }

    /// Runs an actor to its end.
    pub fn run(&mut self, actor: &mut impl Actor) -> Outcome {
        self.run_until(actor, |_| false)
    }

    /// Runs an actor to its end, or until `enough` says so after a completion; what is outstanding then is
    /// waited for.
    pub fn run_until(&mut self, actor: &mut impl Actor, mut enough: impl FnMut(&Outcome) -> bool) -> Outcome {
        let mut outcome = Outcome::default();
        let mut outstanding: Vec<Option<Outstanding>> = Vec::new();
        let mut in_flight = 0;
        let started = self.clock.now();
        let mut stopping = false;
        loop {
            let now = self.clock.now();
            let mut wanted = Nanos::MAX;
            let mut ended = stopping;
            while !ended {
                match actor.next(now.0) {
                    Next::Submit(request) => {
                        let index = request.tag as usize;
                        if outstanding.len() <= index {
                            outstanding.resize_with(index + 1, || None);
                        }
                        outstanding[index] = Some(Outstanding { request, submitted: now });
                        in_flight += 1;
                        self.submit(now, &request);
                    }
                    Next::At(at) => {
                        wanted = Nanos(at);
                        break;
                    }
                    Next::Wait => break,
                    Next::Done => ended = true,
                }
            }
            self.engine.settle(self.clock.now(), &mut self.deliveries);
            self.deliveries.clear();
            let mut done = std::mem::take(&mut self.engine.actor_done);
            let progress = !done.is_empty();
            for (tag, completion, buffer) in done.drain(..) {
                self.keep(tag, buffer);
                let Some(was) = outstanding.get_mut(tag as usize).and_then(Option::take) else { continue };
                in_flight -= 1;
                let status = completion.status();
                outcome.count(&was.request, was.submitted, now, status, self.lba_bytes.into());
                actor.completed(now.0, tag, status.is_success());
                stopping |= enough(&outcome);
            }
            self.engine.actor_done = done;
            if progress {
                continue;
            }
            if ended && in_flight == 0 {
                break;
            }
            let next = self.engine.deadline().min(wanted);
            if next == Nanos::MAX {
                // Nothing will ever happen again: the actor waits for what the drive does not have.
                break;
            }
            self.clock.advance(next);
        }
        outcome.elapsed = self.clock.now().since(started);
        outcome
    }

    fn submit(&mut self, now: Nanos, request: &Request) {
        let opcode = match request.verb {
            Verb::Read => IoOpcode::READ,
            Verb::Write => IoOpcode::WRITE,
            Verb::Trim => IoOpcode::DATASET_MANAGEMENT,
            Verb::Flush => IoOpcode::FLUSH,
        };
        let mut command = Command::new(opcode.0, self.nsid);
        let buffer = match request.verb {
            Verb::Flush => Lent::Nothing,
            Verb::Trim => {
                command.cdw11.set(4); // Deallocate
                let mut range = [0; 16];
                range[4..8].copy_from_slice(&request.blocks.to_le_bytes());
                range[8..].copy_from_slice(&request.lba.to_le_bytes());
                Buffer::from(range.to_vec()).into()
            }
            Verb::Read | Verb::Write => {
                command.cdw10.set(request.lba as u32);
                command.cdw11.set((request.lba >> 32) as u32);
                command.cdw12.set(request.blocks.saturating_sub(1) & 0xFFFF);
                self.buffer(request)
            }
        };
        let owner = Owner::Actor { tag: request.tag };
        self.engine.submit(now, owner, self.controller, 1, &command, buffer);
    }

    fn buffer(&mut self, request: &Request) -> Lent {
        if self.engine.store.dry || matches!(self.engine.store.backing, Backing::None) {
            return Lent::Void;
        }
        let bytes = u64::from(request.blocks) * u64::from(self.lba_bytes);
        match self.buffers.get_mut(request.tag as usize).map(std::mem::take) {
            Some(buffer) if buffer.as_slice().len() as u64 == bytes => buffer,
            _ => Buffer::zeroed(u32::try_from(bytes).unwrap_or(0)).into(),
        }
    }

    fn keep(&mut self, tag: u32, buffer: Lent) {
        if matches!(buffer, Lent::Own(_)) {
            let index = tag as usize;
            if self.buffers.len() <= index {
                self.buffers.resize_with(index + 1, Lent::default);
            }
            self.buffers[index] = buffer;
        }
    }
}

impl Drop for SimHost<'_> {
    fn drop(&mut self) {
        self.engine.drive_disconnect(self.clock.now(), self.controller);
        self.engine.settle(self.clock.now(), &mut self.deliveries);
    }
}
