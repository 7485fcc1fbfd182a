//! I/O queues: reading and writing namespaces.

use std::time::Duration;

use blockdev::{Namespace, Operation, Payload, Verb};
use nvme::{Command, Nsid};

use crate::call::{call_alone, complete_alone};
use crate::queue::{CompletedCommand, Data, Queue, Tag};
use crate::{Error, TransportError};

/// How long one I/O command may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An I/O queue: commands one at a time through the typed methods, or many through [`IoQueue::raw`].
///
/// The typed methods split what is longer than the drive takes in one command and keep as many parts in
/// flight as the queue allows; nothing else may be outstanding on the queue meanwhile.
#[derive(Debug)]
pub struct IoQueue<Q> {
    queue: Q,
    max_transfer: usize,
    /// Buffers of appends that have ended, for the next ones.
    pub(crate) spare: Vec<Vec<u8>>,
}

impl<Q: Queue> IoQueue<Q> {
    /// A queue whose commands move at most `max_transfer` bytes each.
    pub fn new(queue: Q, max_transfer: usize) -> Self {
        Self { queue, max_transfer, spare: Vec::new() }
    }

    /// The queue itself.
    pub fn raw(&mut self) -> &mut Q {
        &mut self.queue
    }

    /// The queue alone.
    #[must_use]
    pub fn into_raw(self) -> Q {
        self.queue
    }

    /// Bytes of data that one command may move.
    #[must_use]
    pub fn max_transfer(&self) -> usize {
        self.max_transfer
    }

    /// Any I/O command, alone. Returns its completion, also of one that failed.
    ///
    /// # Errors
    /// The transport is broken, or there was no completion within a minute.
    pub fn call(&mut self, command: Command, data: Data) -> Result<CompletedCommand, TransportError> {
        complete_alone(&mut self.queue, command, data, TIMEOUT)
    }

    fn ask(
        &mut self,
        command: Command,
        data: Data,
        what: impl FnOnce() -> String,
    ) -> Result<CompletedCommand, Error> {
        call_alone(&mut self.queue, command, data, TIMEOUT, what)
    }

    /// Reads whole blocks from `slba` on.
    ///
    /// # Errors
    /// The length is not one of whole blocks; a command failed; the transport is broken.
    pub fn read(&mut self, ns: &Namespace, slba: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.read_many(ns, &mut [(slba, buffer)])
    }

    /// Reads whole blocks from several places, each a first block with its buffer: as many commands at a time as the queue allows.
    ///
    /// # Errors
    /// As [`read`](Self::read). The contents of all buffers are then undefined.
    pub fn read_many(&mut self, ns: &Namespace, places: &mut [(u64, &mut [u8])]) -> Result<(), Error> {
        let slba = places.first().map_or(0, |(slba, _)| *slba);
        let mut all = Vec::with_capacity(places.len());
        for (slba, buffer) in places {
            let per = self.per_command(ns, buffer.len())?;
            let parts = buffer.chunks_mut(per).enumerate();
            all.extend(parts.map(|(index, part)| (at(*slba, index, per, ns), part)));
        }
        let mut parts = all.into_iter();
        let mut waiting: Vec<(Tag, &mut [u8])> = Vec::new();
        let mut failed = None;
        let mut end = false;
        while !(end && waiting.is_empty()) {
            while !end && failed.is_none() && waiting.len() < self.queue.capacity() {
                let Some((lba, part)) = parts.next() else {
                    end = true;
                    break;
                };
                let blocks = count(part.len(), ns);
                let (command, _) = ns.encode(&Operation { verb: Verb::Read, lba, blocks });
                waiting.push((self.queue.submit_read(command, part.len())?, part));
            }
            end |= failed.is_some();
            if waiting.is_empty() {
                continue;
            }
            let done = self.queue.next_to(Some(TIMEOUT), &mut waiting)?;
            let done = done.ok_or(TransportError::Timeout(TIMEOUT))?;
            let Some(position) = waiting.iter().position(|(tag, _)| *tag == done.tag) else { continue };
            waiting.swap_remove(position);
            if let Err(status) = done.completion.status().ok() {
                failed = failed.or(Some(status));
            }
        }
        match failed {
            None => Ok(()),
            Some(status) => Err(Error::Command { what: describe("reading", ns, slba), status }),
        }
    }

    /// Writes whole blocks from `slba` on. With `fua` they are durable when this returns.
    ///
    /// # Errors
    /// The length is not one of whole blocks; a command failed (others of a long write may have been carried
    /// out); the transport is broken.
    pub fn write(&mut self, ns: &Namespace, slba: u64, data: &[u8], fua: bool) -> Result<(), Error> {
        let verb = if fua { Verb::WriteFua } else { Verb::Write };
        self.send(ns, slba, data, "writing", |lba, blocks| ns.encode(&Operation { verb, lba, blocks }).0)
    }

    /// Compares whole blocks from `slba` on with these bytes. Compare Failure is the status when they differ.
    ///
    /// # Errors
    /// As [`IoQueue::write`].
    pub fn compare(&mut self, ns: &Namespace, slba: u64, data: &[u8]) -> Result<(), Error> {
        self.send(ns, slba, data, "comparing", |lba, blocks| ns.compare(lba, blocks))
    }

    fn send(
        &mut self,
        ns: &Namespace,
        slba: u64,
        data: &[u8],
        verb: &str,
        command: impl Fn(u64, u32) -> Command,
    ) -> Result<(), Error> {
        let per = self.per_command(ns, data.len())?;
        let mut parts = data.chunks(per).enumerate();
        let mut outstanding = 0;
        let mut failed = None;
        let mut end = false;
        while !(end && outstanding == 0) {
            while !end && failed.is_none() && outstanding < self.queue.capacity() {
                let Some((index, part)) = parts.next() else {
                    end = true;
                    break;
                };
                let (lba, blocks) = (at(slba, index, per, ns), count(part.len(), ns));
                self.queue.submit(command(lba, blocks), Data::Out(part.to_vec()))?;
                outstanding += 1;
            }
            end |= failed.is_some();
            if outstanding > 0 {
                let done = self.next_done()?;
                outstanding -= 1;
                if let Err(status) = done.completion.status().ok() {
                    failed = failed.or(Some(status));
                }
            }
        }
        match failed {
            None => Ok(()),
            Some(status) => Err(Error::Command { what: describe(verb, ns, slba), status }),
        }
    }

    fn next_done(&mut self) -> Result<CompletedCommand, TransportError> {
        self.queue.next(Some(TIMEOUT))?.ok_or(TransportError::Timeout(TIMEOUT))
    }

    /// Bytes of one command: as many whole blocks as the drive takes.
    fn per_command(&self, ns: &Namespace, len: usize) -> Result<usize, Error> {
        let block = usize::try_from(ns.block_size).unwrap_or(usize::MAX);
        if !len.is_multiple_of(block) {
            return Err(Error::Usage(format!(
                "{len} bytes are no whole number of the {block}-byte blocks of namespace {}",
                ns.nsid
            )));
        }
        Ok((self.max_transfer / block).clamp(1, ns.limits.transfer.max(1) as usize) * block)
    }

    /// Makes all completed writes of the namespace durable.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn flush(&mut self, nsid: Nsid) -> Result<(), Error> {
        self.ask(Command::flush(nsid), Data::None, || format!("flushing namespace {nsid}")).map(|_| ())
    }

    /// Makes `blocks` logical blocks from `slba` on read as zeroes; `deallocate` gives their space back.
    ///
    /// # Errors
    /// A command failed, or the transport is broken.
    pub fn write_zeroes(
        &mut self,
        ns: &Namespace,
        slba: u64,
        blocks: u64,
        deallocate: bool,
    ) -> Result<(), Error> {
        let verb = Verb::WriteZeroes { deallocate };
        self.without_blocks(ns, verb, slba, blocks, "writing zeroes")
    }

    /// Deallocates logical blocks.
    ///
    /// # Errors
    /// A command failed, or the transport is broken.
    pub fn deallocate(&mut self, ns: &Namespace, slba: u64, blocks: u64) -> Result<(), Error> {
        self.without_blocks(ns, Verb::Trim, slba, blocks, "deallocating in")
    }

    /// Commands without data but lists of ranges, cut by the namespace's limits, one after the other.
    fn without_blocks(
        &mut self,
        ns: &Namespace,
        verb: Verb,
        slba: u64,
        blocks: u64,
        what: &str,
    ) -> Result<(), Error> {
        let most = ns.limits.most(verb);
        let mut done = 0;
        while done < blocks {
            let part = u32::try_from(blocks - done).unwrap_or(u32::MAX).min(most);
            let lba = slba.saturating_add(done);
            let (command, payload) = ns.encode(&Operation { verb, lba, blocks: part });
            let mut list = Vec::new();
            if let Payload::Ranges(ranges) = payload {
                ranges.write(&mut list);
            }
            let data = if list.is_empty() { Data::None } else { Data::Out(list) };
            self.ask(command, data, || describe(what, ns, lba))?;
            done += u64::from(part);
        }
        Ok(())
    }
}

fn at(slba: u64, index: usize, per: usize, ns: &Namespace) -> u64 {
    slba.saturating_add(index as u64 * (per as u64 / u64::from(ns.block_size)))
}

fn count(bytes: usize, ns: &Namespace) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX) / ns.block_size
}

fn describe(verb: &str, ns: &Namespace, slba: u64) -> String {
    format!("{verb} namespace {} from block {slba} on", ns.nsid)
}
