//! Namespaces of a drive in virtual time, as block devices.

use crate::queue::{SimQueue, SimTransport};
use blockdev::{BlockDevice, Completed, Flushes, Geometry, Namespace, Operation, Parts, Payload, Verb};
use host::Host;
use image::Buffer;
use image::DataBuffer;
use live::engine::Engine;
use live::{VirtualCompletion, VirtualQueues};
use media::Nanos;
use nvme::Nsid;
use std::convert::Infallible;
use workload::Request;
use workload::executor::Target;

/// While more commands than these can be put in flight, requests need not be counted.
const UNCOUNTED_ROOM_COMMANDS: usize = 1 << 15;
/// Commands in flight that are left to typed hosts.
const RESERVED_COMMANDS: usize = 256;

impl SimQueue {
    /// Hands a part to the drive as one command. Where it does not keep contents, `data` is empty and nothing is copied.
    #[inline(always)]
    fn submit_part(
        &self,
        now: Nanos,
        namespace: &Namespace,
        tag: u32,
        part: &Operation,
        data: Option<Vec<u8>>,
        engine: &mut Engine,
    ) {
        let (command, payload) = namespace.encode(part);
        let data = match payload {
            Payload::None => DataBuffer::None,
            Payload::Read | Payload::Write => data.map_or(DataBuffer::Void, |data| Buffer::from(data).into()),
            Payload::Ranges(ranges) => {
                let mut list = Vec::new();
                ranges.write(&mut list);
                Buffer::from(list).into()
            }
        };
        let owner = VirtualQueues::owner(self.number, tag);
        engine.submit(now, owner, self.association.controller, self.qid, command, data);
    }
}

/// A completion as a block device tells it.
#[inline]
pub(crate) fn completed(done: VirtualCompletion) -> Completed {
    let data = match done.data {
        DataBuffer::Owned(buffer) => buffer.into_vec(),
        DataBuffer::None | DataBuffer::Void | DataBuffer::Lent(_) => Vec::new(),
    };
    Completed { tag: done.tag, status: done.completion.status(), data }
}

/// An actor's namespaces on one queue.
pub(crate) struct Port<'a> {
    pub(crate) queue: &'a SimQueue,
    pub(crate) namespaces: &'a [Namespace],
    /// Whether the drive keeps contents.
    pub(crate) keeps: bool,
    /// The engine of the queue's drive.
    pub(crate) engine: &'a mut Engine,
}

impl Target for Port<'_> {
    type Error = Infallible;

    #[inline]
    fn moves_data(&self) -> bool {
        self.keeps
    }

    /// All parts of a request, or none: it waits as in a queue of the host's.
    #[inline]
    fn room(&self, parts: &Parts) -> usize {
        let room = self.engine.room();
        if room < UNCOUNTED_ROOM_COMMANDS && room < parts.left() + RESERVED_COMMANDS { 0 } else { usize::MAX }
    }

    #[inline(always)]
    fn submit(
        &mut self,
        now: u64,
        namespace: u16,
        tag: u32,
        part: &Operation,
        data: Vec<u8>,
    ) -> Result<(), Infallible> {
        let namespace = &self.namespaces[usize::from(namespace)];
        let data = self.keeps.then_some(data);
        self.queue.submit_part(Nanos(now), namespace, tag, part, data, self.engine);
        Ok(())
    }

    /// What the next request needs comes from memory while this one is done. If that is not known, what this one needs comes while it
    /// is looked at.
    #[inline(always)]
    fn expect(&self, request: &Request, coming: Option<(u16, u64)>) {
        let drive = &self.engine.drive;
        let nsid =
            |namespace: u16| self.namespaces.get(usize::from(namespace)).map(|namespace| namespace.nsid);
        let (namespace, lba) = coming.unwrap_or((request.namespace, request.lba));
        if let Some(nsid) = nsid(namespace) {
            drive.prefetch_block(nsid, lba);
        }
        // The map's entry has come, and says what a read looks at next.
        if let Some(nsid) =
            nsid(request.namespace).filter(|_| coming.is_some() && request.verb.plain() == Verb::Read)
        {
            drive.prefetch_place_of_block(nsid, request.lba);
        }
    }
}

/// A namespace of a drive in virtual time, on a queue of its own, as a block device. Its times are those of the machine's clock, which
/// [`Sim::run_until`](crate::Sim::run_until) moves.
pub struct SimDevice {
    queue: SimQueue,
    namespace: Namespace,
    outstanding: usize,
    flushes: Flushes,
}

impl SimDevice {
    /// A namespace that is attached to this host.
    ///
    /// # Errors
    /// The drive refuses the queue, or the namespace is not attached.
    pub fn new(host: &mut Host<SimTransport>, nsid: Nsid) -> Result<Self, host::Error> {
        let namespace = host.namespace(nsid)?;
        let queue = host.io_queue(u16::MAX)?.into_raw();
        Ok(SimDevice { queue, namespace, outstanding: 0, flushes: Flushes::default() })
    }
}

impl BlockDevice for SimDevice {
    type Error = Infallible;

    fn geometry(&self) -> Geometry {
        self.namespace.geometry()
    }

    fn room(&self) -> usize {
        let association = &self.queue.association;
        association.world.borrow().drives[association.drive].room().saturating_sub(RESERVED_COMMANDS)
    }

    fn submit(&mut self, now: u64, tag: u32, part: &Operation, data: Vec<u8>) -> Result<(), Infallible> {
        let engine = &mut self.queue.association.world.borrow_mut().drives[self.queue.association.drive];
        let data = engine.store.keeps().then_some(data);
        self.queue.submit_part(Nanos(now), &self.namespace, tag, part, data, engine);
        self.flushes.submitted(tag, part.verb);
        self.outstanding += 1;
        Ok(())
    }

    fn poll(&mut self, _now: u64) -> Result<Option<Completed>, Infallible> {
        let world = &mut *self.queue.association.world.borrow_mut();
        world.settle();
        let Some(at) = world.arrived.iter().position(|arrival| arrival.done.queue == self.queue.number)
        else {
            return Ok(None);
        };
        self.outstanding -= 1;
        let mut done = completed(world.arrived.remove(at).done);
        self.flushes.ended(&mut done);
        Ok(Some(done))
    }

    fn next_event(&self) -> u64 {
        if self.outstanding == 0 {
            return u64::MAX;
        }
        let world = self.queue.association.world.borrow();
        let engine = &world.drives[self.queue.association.drive];
        let news =
            engine.has_news() || world.arrived.iter().any(|arrival| arrival.done.queue == self.queue.number);
        if news { world.clock.now().0 } else { engine.deadline().0 }
    }
}
