//! Queues in guest memory (Base 3.3.1, "Memory-based Transport Queue Model").

use crate::arbitration::QueueSet;
use crate::memory::{GuestMemory, Unmapped};
use nvme::zerocopy::IntoBytes;
use nvme::{Command, Completion};
use std::collections::VecDeque;

/// Bytes of a submission queue entry.
pub(crate) const SQE_BYTES: u64 = size_of::<Command>() as u64;
/// Bytes of a completion queue entry.
pub(crate) const CQE_BYTES: u64 = size_of::<Completion>() as u64;
/// Commands of a queue beyond its entries that may be outstanding: the host may use an entry again as soon as its command was fetched,
/// and asynchronous event requests wait for long.
const SPARE_COMMANDS: u32 = 16;

/// Where the entries of a queue are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum QueueMemory {
    /// One after the other.
    Contiguous(u64),
    /// In these pages, each of this many bytes.
    Pages(Box<[u64]>, u64),
}

impl QueueMemory {
    /// The address of the entry with this index. A range that wraps is unmapped.
    fn entry(&self, index: u32, bytes: u64) -> u64 {
        let offset = u64::from(index) * bytes;
        match self {
            QueueMemory::Contiguous(base) => base.wrapping_add(offset),
            QueueMemory::Pages(pages, page) => pages[(offset / page) as usize] + offset % page,
        }
    }
}

/// A doorbell value is not one that the host may write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InvalidDoorbellValue;

/// The distance from one index to another in a queue of this many entries.
fn distance(from: u32, to: u32, size: u32) -> u32 {
    (to + size - from) % size
}

/// A submission queue.
#[derive(Debug)]
pub(crate) struct SubmissionQueue {
    memory: QueueMemory,
    /// Entries: 2 to 65,536.
    size: u32,
    /// The entry that is fetched next.
    head: u32,
    /// The entry behind the last one that the host has announced.
    tail: u32,
    /// Its completion queue.
    pub cqid: u16,
    /// Commands that were fetched and not answered.
    pub outstanding: u32,
    /// The entry at the head, if it was read ahead: the one behind a first fused command.
    ahead: Option<Command>,
    /// The command identifier of the Delete I/O Submission Queue command that waits for its commands.
    pub deleted_by: Option<u16>,
}

impl SubmissionQueue {
    /// An empty queue.
    pub(crate) fn new(memory: QueueMemory, size: u32, cqid: u16) -> Self {
        SubmissionQueue {
            memory,
            size,
            head: 0,
            tail: 0,
            cqid,
            outstanding: 0,
            ahead: None,
            deleted_by: None,
        }
    }

    /// SQ Head Pointer of completions.
    pub(crate) fn head(&self) -> u16 {
        self.head as u16
    }

    /// The index behind the last entry.
    pub(crate) fn tail(&self) -> u32 {
        self.tail
    }

    /// Whether entries wait to be fetched.
    pub(crate) fn has_entries(&self) -> bool {
        self.head != self.tail && self.deleted_by.is_none()
    }

    /// Whether another command may be outstanding.
    pub(crate) fn has_room(&self) -> bool {
        self.outstanding < self.size + SPARE_COMMANDS
    }

    /// The host has added entries up to this index.
    ///
    /// # Errors
    /// The index is out of range, or there is no room for this many entries.
    pub(crate) fn ring(&mut self, tail: u32) -> Result<(), InvalidDoorbellValue> {
        let used = distance(self.head, self.tail, self.size);
        if tail >= self.size || distance(self.tail, tail, self.size) > self.size - 1 - used {
            return Err(InvalidDoorbellValue);
        }
        self.tail = tail;
        Ok(())
    }

    /// Fetches the entry at the head. There must be one.
    ///
    /// # Errors
    /// The queue is not mapped.
    pub(crate) fn fetch<M: GuestMemory>(&mut self, memory: &M) -> Result<Command, Unmapped> {
        let command = match self.ahead.take() {
            Some(command) => command,
            None => self.read(memory)?,
        };
        self.head = (self.head + 1) % self.size;
        Ok(command)
    }

    /// The entry at the head, which stays there. [`fetch`](SubmissionQueue::fetch) does not read it again.
    ///
    /// # Errors
    /// The queue is not mapped.
    pub(crate) fn peek<M: GuestMemory>(&mut self, memory: &M) -> Result<Option<Command>, Unmapped> {
        if self.ahead.is_none() && self.has_entries() {
            self.ahead = Some(self.read(memory)?);
        }
        Ok(self.ahead)
    }

    fn read<M: GuestMemory>(&self, memory: &M) -> Result<Command, Unmapped> {
        let mut command = Command::default();
        memory.read(self.memory.entry(self.head, SQE_BYTES), command.as_mut_bytes())?;
        Ok(command)
    }
}

/// A completion queue.
#[derive(Debug)]
pub(crate) struct CompletionQueue {
    memory: QueueMemory,
    /// Entries: 2 to 65,536.
    size: u32,
    /// The entry that the host takes next.
    head: u32,
    /// The entry that is written next.
    tail: u32,
    /// Phase Tag of the entries that are written now.
    phase: bool,
    /// Its interrupt vector; `None` if interrupts are not enabled.
    pub vector: Option<u16>,
    /// Entries that wait for room, or for the right to access memory. The outstanding commands of its submission queues bound
    /// them.
    waiting: VecDeque<Completion>,
    /// Submission queues that use it.
    pub users: QueueSet,
}

impl CompletionQueue {
    /// An empty queue.
    pub(crate) fn new(memory: QueueMemory, size: u32, vector: Option<u16>) -> Self {
        let waiting = VecDeque::new();
        CompletionQueue { memory, size, head: 0, tail: 0, phase: true, vector, waiting, users: 0 }
    }

    /// The index behind the last entry that the host has taken.
    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    /// Whether the host has taken all entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Whether there is no room for another entry.
    pub(crate) fn is_full(&self) -> bool {
        (self.tail + 1) % self.size == self.head
    }

    /// Whether entries wait for room.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The host has taken entries up to this index.
    ///
    /// # Errors
    /// The index is out of range, or there are not this many entries.
    pub(crate) fn ring(&mut self, head: u32) -> Result<(), InvalidDoorbellValue> {
        if head >= self.size
            || distance(self.head, head, self.size) > distance(self.head, self.tail, self.size)
        {
            return Err(InvalidDoorbellValue);
        }
        self.head = head;
        Ok(())
    }

    /// Adds an entry, which waits for [`post`](CompletionQueue::post).
    pub(crate) fn push(&mut self, completion: Completion) {
        self.waiting.push_back(completion);
    }

    /// Writes the entries for which there is room. Returns how many.
    ///
    /// # Errors
    /// The queue is not mapped.
    pub(crate) fn post<M: GuestMemory>(&mut self, memory: &M) -> Result<u32, Unmapped> {
        let mut count = 0;
        while !self.is_full()
            && let Some(mut completion) = self.waiting.pop_front()
        {
            let status = completion.sf.get() & !1 | u16::from(self.phase);
            completion.sf.set(status);
            let at = self.memory.entry(self.tail, CQE_BYTES);
            // The host sees the Phase Tag only with what is before it.
            let (start, end) = completion.as_bytes().split_at(CQE_BYTES as usize - 4);
            memory.write(at, start)?;
            let last = end.first_chunk().copied().map_or(0, u32::from_le_bytes);
            memory.store(at.wrapping_add(start.len() as u64), last)?;
            self.tail = (self.tail + 1) % self.size;
            self.phase ^= self.tail == 0;
            count += 1;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ram::Ram;
    use nvme::zerocopy::FromBytes;
    use nvme::{IoOpcode, Status};

    fn command(cid: u16) -> Command {
        Command::new(IoOpcode::FLUSH.0, 1).with_cid(cid)
    }

    #[test]
    fn a_submission_queue_wraps_and_refuses_too_many_entries() {
        let memory = Ram::whole(0x4000);
        // Two entries of the second page lie before the first page.
        let pages = QueueMemory::Pages([0x3000, 0x1000].into(), 0x1000);
        let mut queue = SubmissionQueue::new(pages, 66, 1);
        for index in 0..66u16 {
            let page = if index < 64 { 0x3000 } else { 0x1000 };
            memory.write(page + u64::from(index % 64) * 64, command(index).as_bytes()).unwrap();
        }
        assert_eq!(queue.ring(66), Err(InvalidDoorbellValue));
        queue.ring(65).unwrap();
        for cid in 0..65 {
            assert!(queue.has_entries());
            assert_eq!(queue.fetch(&memory).unwrap().cid.get(), cid);
        }
        assert!(!queue.has_entries());
        queue.ring(2).unwrap();
        assert_eq!(queue.ring(66 - 1), Err(InvalidDoorbellValue), "63 more than the two, with room for 62");
        assert_eq!(queue.peek(&memory).unwrap().unwrap().cid.get(), 65);
        memory.write(0x1040, command(7).as_bytes()).unwrap();
        assert_eq!(queue.fetch(&memory).unwrap().cid.get(), 65, "it is read once");
        assert_eq!((queue.head(), queue.fetch(&memory).unwrap().cid.get()), (0, 0));
    }

    #[test]
    fn a_completion_queue_has_a_phase_and_waits_for_room() {
        let memory = Ram::whole(0x1000);
        let mut queue = CompletionQueue::new(QueueMemory::Contiguous(0x100), 4, None);
        let entry = |index: u64| {
            let mut bytes = [0; 16];
            memory.read(0x100 + index * 16, &mut bytes).unwrap();
            let completion = Completion::read_from_bytes(&bytes).unwrap();
            (completion.cid.get(), completion.sf.get() & 1, completion.status())
        };
        (0..5).for_each(|cid| queue.push(Completion::new(cid, Status::LBA_OUT_OF_RANGE)));
        assert_eq!(queue.post(&memory), Ok(3));
        assert!(queue.is_full() && queue.has_waiting());
        assert_eq!(entry(2), (2, 1, Status::LBA_OUT_OF_RANGE));
        assert_eq!(entry(3).1, 0);
        assert_eq!(queue.ring(4), Err(InvalidDoorbellValue));
        queue.ring(3).unwrap();
        assert_eq!(queue.ring(0), Err(InvalidDoorbellValue), "one more than there are");
        assert_eq!(queue.post(&memory), Ok(2));
        assert_eq!(
            (entry(3), entry(0)),
            ((3, 1, Status::LBA_OUT_OF_RANGE), (4, 0, Status::LBA_OUT_OF_RANGE))
        );
        queue.ring(1).unwrap();
        assert!(queue.is_empty() && !queue.has_waiting());
    }
}
