//! Namespaces as block devices, over any queue.

use std::time::Duration;

use blockdev::{BlockDevice, Completed, Flushes, Geometry, Namespace, Nanos, Operation, Payload};

use crate::TransportError;
use crate::queue::{CompletedCommand, Data, Queue};

/// A queue that carries parts of requests on any namespaces of its controller.
#[derive(Debug)]
pub struct OperationQueue<Q> {
    queue: Q,
    /// By the queue's own tags.
    outstanding: Vec<Outstanding>,
    /// Buffers for lists of ranges that are not in use.
    ranges: Vec<Vec<u8>>,
}

/// A command under way.
#[derive(Clone, Copy, Default, Debug)]
struct Outstanding {
    /// The caller's tag.
    tag: u32,
    /// Whether its buffer is a list of ranges, and none of the caller's.
    ranges: bool,
}

impl<Q: Queue> OperationQueue<Q> {
    /// Over a queue on which nothing is outstanding.
    pub fn new(queue: Q) -> Self {
        let outstanding = vec![Outstanding::default(); queue.capacity()];
        Self { queue, outstanding, ranges: Vec::new() }
    }

    /// The queue itself.
    pub fn queue(&mut self) -> &mut Q {
        &mut self.queue
    }

    /// Commands that are under way.
    pub fn outstanding(&self) -> usize {
        self.queue.outstanding()
    }

    /// How many parts it takes now.
    pub fn room(&self) -> usize {
        self.queue.capacity().saturating_sub(self.queue.outstanding())
    }

    /// Submits a part that keeps to the namespace's limits, as [`BlockDevice::submit`] does.
    ///
    /// # Errors
    /// The queue is full, or the transport is broken.
    pub fn submit(
        &mut self,
        namespace: &Namespace,
        tag: u32,
        part: &Operation,
        data: Vec<u8>,
    ) -> Result<(), TransportError> {
        let (command, payload) = namespace.encode(part);
        let data = match payload {
            Payload::None => Data::None,
            Payload::Read => Data::In(data),
            Payload::Write => Data::Out(data),
            Payload::Ranges(ranges) => {
                let mut list = self.ranges.pop().unwrap_or_default();
                list.clear();
                ranges.write(&mut list);
                Data::Out(list)
            }
        };
        let at = usize::from(self.queue.submit(command, data)?.0);
        if at >= self.outstanding.len() {
            self.outstanding.resize(at + 1, Outstanding::default());
        }
        self.outstanding[at] = Outstanding { tag, ranges: matches!(payload, Payload::Ranges(_)) };
        Ok(())
    }

    /// The next part that ends: waits until `timeout` has passed, as [`Queue::next`] does.
    ///
    /// # Errors
    /// The transport is broken.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Completed>, TransportError> {
        Ok(self.queue.next(timeout)?.map(|done| self.completed(done)))
    }

    /// A part whose end has arrived already, as [`Queue::arrived`] does.
    pub fn arrived(&mut self) -> Option<Completed> {
        let done = self.queue.arrived()?;
        Some(self.completed(done))
    }

    fn completed(&mut self, done: CompletedCommand) -> Completed {
        let Outstanding { tag, ranges } =
            self.outstanding.get(usize::from(done.tag.0)).copied().unwrap_or_default();
        let mut data = done.data.into_buffer();
        if ranges {
            self.ranges.push(std::mem::take(&mut data));
        }
        Completed { tag, status: done.completion.status(), data }
    }
}

/// A namespace through a queue of its own, as a block device. The queue may lead to a drive in this process or far away.
#[derive(Debug)]
pub struct NamespaceDevice<Q> {
    queue: OperationQueue<Q>,
    namespace: Namespace,
    flushes: Flushes,
}

impl<Q: Queue> NamespaceDevice<Q> {
    /// A namespace that is attached to the queue's host. Nothing is outstanding on the queue.
    pub fn new(queue: Q, namespace: Namespace) -> Self {
        Self { queue: OperationQueue::new(queue), namespace, flushes: Flushes::default() }
    }

    /// Its queue.
    pub fn queue(&mut self) -> &mut OperationQueue<Q> {
        &mut self.queue
    }

    /// The next part that ends: waits until `timeout` has passed, as [`OperationQueue::next`] does.
    ///
    /// # Errors
    /// The transport is broken.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Completed>, TransportError> {
        let done = self.queue.next(timeout)?;
        Ok(self.judged(done))
    }

    /// A part whose end has arrived already, as [`OperationQueue::arrived`] does.
    pub fn arrived(&mut self) -> Option<Completed> {
        let done = self.queue.arrived();
        self.judged(done)
    }

    fn judged(&mut self, mut done: Option<Completed>) -> Option<Completed> {
        if let Some(done) = &mut done {
            self.flushes.ended(done);
        }
        done
    }

    /// The namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }
}

impl<Q: Queue> BlockDevice for NamespaceDevice<Q> {
    type Error = TransportError;

    fn geometry(&self) -> Geometry {
        self.namespace.geometry()
    }

    fn room(&self) -> usize {
        self.queue.room()
    }

    fn submit(
        &mut self,
        _now: Nanos,
        tag: u32,
        part: &Operation,
        data: Vec<u8>,
    ) -> Result<(), TransportError> {
        self.flushes.submitted(tag, part.verb);
        self.queue.submit(&self.namespace, tag, part, data)
    }

    fn poll(&mut self, _now: Nanos) -> Result<Option<Completed>, TransportError> {
        self.next(Some(Duration::ZERO))
    }

    fn next_event(&self) -> Nanos {
        if self.queue.outstanding() == 0 { Nanos::MAX } else { 0 }
    }
}
