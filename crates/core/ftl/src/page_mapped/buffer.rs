//! The write buffer: pages that were accepted and are not on flash yet.
//!
//! Its unit is the chunk: an aligned group of as many pages as the drive writes atomically (one, or
//! four for 16 KiB). A chunk is drained into one program unit, so a power cut shows all of it or
//! nothing; a write to a chunk that still waits joins it, a write to one that is being programmed
//! opens another. A chunk whose program failed waits again, but is closed: it holds what was written
//! then, and newer pages of its group may be in the buffer or on flash already. Chunks drain in the order
//! of their first write, those of each host stream by themselves: a program unit holds pages of
//! one stream only.
//!
//! Several versions of a page may be held at a time, the newest of which the map names. Each knows the
//! one that was held when it was accepted. Their programs may end in any order: when one does, those
//! before it are superseded ([`SUPERSEDED`]).

use media::{LogicalPage, Slot};
use std::collections::VecDeque;

/// No flash page, no entry.
pub(crate) const NONE: u32 = u32::MAX;
/// [`Entry::old`] of a page in flight that nobody needs: a newer version is on flash, or it was deallocated.
pub(crate) const SUPERSEDED: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The logical page, or [`NONE`].
    pub page: u32,
    /// The newest copy on flash, valid until this one is there too; [`NONE`] if there is none, or the map names a
    /// newer entry; or [`SUPERSEDED`].
    pub old: u32,
    pub slot: Slot,
    /// The entry that held this page before, when this one was accepted; [`NONE`] if none did. It may hold something
    /// else by now: see [`Buffer::older`].
    pub prev: u32,
    pub version: u64,
}

const _: () = assert!(size_of::<Entry>() == 24);

const EMPTY: Entry = Entry { page: NONE, old: NONE, slot: Slot::NONE, prev: NONE, version: 0 };

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ChunkState {
    Free,
    /// May be joined.
    Open,
    /// Waits again, as its program failed.
    Closed,
    InFlight,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    state: ChunkState,
    /// Entries in use.
    pages: u32,
    /// Host stream of its latest write.
    stream: u8,
    /// Order of admission.
    number: u64,
}

/// What waits for the superblock of one host stream.
#[derive(Clone, Debug)]
struct StreamQueue {
    /// Waiting chunks, oldest first.
    fifo: VecDeque<u32>,
    /// Their pages.
    pages: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    /// Pages of a chunk, a power of two.
    atomic: u32,
    entries: Vec<Entry>,
    chunks: Vec<Chunk>,
    free: Vec<u32>,
    /// By host stream.
    queues: Vec<StreamQueue>,
    /// Pages of waiting chunks.
    waiting_pages: u32,
    /// Chunks that hold pages, waiting or in flight.
    used: u32,
    next_number: u64,
}

impl Buffer {
    pub fn new(pages: u32, atomic: u32, streams: u32) -> Buffer {
        let chunks = (pages / atomic).max(1);
        Buffer {
            atomic,
            entries: vec![EMPTY; (chunks * atomic) as usize],
            chunks: vec![Chunk { state: ChunkState::Free, pages: 0, stream: 0, number: 0 }; chunks as usize],
            free: (0..chunks).rev().collect(),
            queues: (0..streams)
                .map(|_| StreamQueue { fifo: VecDeque::with_capacity(chunks as usize + 1), pages: 0 })
                .collect(),
            waiting_pages: 0,
            used: 0,
            next_number: 0,
        }
    }

    #[inline]
    pub fn entry(&self, index: u32) -> &Entry {
        &self.entries[index as usize]
    }

    #[inline]
    pub fn entry_mut(&mut self, index: u32) -> &mut Entry {
        &mut self.entries[index as usize]
    }

    #[inline]
    fn state(&self, index: u32) -> ChunkState {
        self.chunks[(index / self.atomic) as usize].state
    }

    /// Whether the chunk of an entry may still be written to.
    #[inline]
    pub fn is_open(&self, index: u32) -> bool {
        self.state(index) == ChunkState::Open
    }

    /// Whether the chunk of an entry is being programmed.
    #[inline]
    pub fn is_in_flight(&self, index: u32) -> bool {
        self.state(index) == ChunkState::InFlight
    }

    /// The entry with the version of the same page before this one, if it is still held.
    #[inline]
    pub fn older(&self, entry: &Entry) -> Option<u32> {
        let prev = self.entries.get(entry.prev as usize)?;
        // What took its place since is of another page, or newer.
        (prev.page == entry.page && prev.version < entry.version).then_some(entry.prev)
    }

    pub fn atomic(&self) -> u32 {
        self.atomic
    }

    pub fn pages(&self) -> usize {
        self.entries.len()
    }

    pub fn waiting_pages(&self) -> u32 {
        self.waiting_pages
    }

    /// Pages that wait for the superblock of a host stream.
    #[inline]
    pub fn waiting_of(&self, stream: usize) -> u32 {
        self.queues[stream].pages
    }

    /// Those of them that were admitted before `mark`.
    pub fn waiting_before(&self, stream: usize, mark: u64) -> u32 {
        let chunks = self.queues[stream].fifo.iter().map(|&c| &self.chunks[c as usize]);
        chunks.filter(|chunk| chunk.number < mark).map(|chunk| chunk.pages).sum()
    }

    /// The host stream with most waiting pages.
    pub fn fullest(&self) -> usize {
        (0..self.queues.len()).max_by_key(|&h| (self.queues[h].pages, usize::MAX - h)).unwrap_or(0)
    }

    /// Whether a chunk that was admitted before `mark` waits first for the superblock of a stream.
    pub fn waits_since(&self, stream: usize, mark: u64) -> bool {
        self.queues[stream].fifo.front().is_some_and(|&c| self.chunks[c as usize].number < mark)
    }

    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Full, and nothing is on its way that would make room: chunks may hold fewer pages than fit.
    pub fn is_stuck(&self) -> bool {
        self.free.is_empty() && self.queues.iter().map(|l| l.fifo.len()).sum::<usize>() as u32 == self.used
    }

    pub fn used_chunks(&self) -> u32 {
        self.used
    }

    /// Chunks with a number below this were admitted before now.
    pub fn mark(&self) -> u64 {
        self.next_number
    }

    /// Takes the entry for `page` in a new chunk. The caller fills it.
    #[inline]
    pub fn open(&mut self, page: u32, stream: u8) -> Option<u32> {
        let chunk = self.free.pop()?;
        let number = self.next_number;
        self.chunks[chunk as usize] = Chunk { state: ChunkState::Open, pages: 0, stream, number };
        self.next_number += 1;
        self.used += 1;
        self.queues[usize::from(stream)].fifo.push_back(chunk);
        Some(self.join(chunk * self.atomic, page))
    }

    /// Takes the entry for `page` in the open chunk that holds `neighbour`, an entry of the same
    /// aligned group of pages.
    #[inline]
    pub fn join(&mut self, neighbour: u32, page: u32) -> u32 {
        let chunk = neighbour / self.atomic;
        let index = chunk * self.atomic + page % self.atomic;
        let c = &mut self.chunks[chunk as usize];
        c.pages += 1;
        self.queues[usize::from(c.stream)].pages += 1;
        self.waiting_pages += 1;
        self.entries[index as usize].page = page;
        index
    }

    /// The open chunk of `index` was written with this host stream: that is where it goes.
    #[inline]
    pub fn hand_over(&mut self, index: u32, stream: u8) {
        let chunk = index / self.atomic;
        if self.chunks[chunk as usize].stream != stream {
            self.change_queue(chunk, stream);
        }
    }

    #[cold]
    fn change_queue(&mut self, chunk: u32, stream: u8) {
        let c = &mut self.chunks[chunk as usize];
        let from = &mut self.queues[usize::from(std::mem::replace(&mut c.stream, stream))];
        from.fifo.retain(|&f| f != chunk);
        from.pages -= c.pages;
        let to = &mut self.queues[usize::from(stream)];
        to.fifo.push_back(chunk);
        to.pages += c.pages;
    }

    /// Drops a page of a chunk that is not in flight: it was deallocated or superseded. Returns the number of its chunk if that is free now.
    pub fn drop_waiting(&mut self, index: u32) -> Option<u64> {
        let chunk = index / self.atomic;
        self.entries[index as usize] = EMPTY;
        self.waiting_pages -= 1;
        let c = &mut self.chunks[chunk as usize];
        c.pages -= 1;
        let queue = &mut self.queues[usize::from(c.stream)];
        queue.pages -= 1;
        if c.pages > 0 {
            return None;
        }
        let number = c.number;
        queue.fifo.retain(|&f| f != chunk);
        self.release(chunk);
        Some(number)
    }

    fn release(&mut self, chunk: u32) {
        self.chunks[chunk as usize].state = ChunkState::Free;
        self.used -= 1;
        self.free.push(chunk);
    }

    /// Takes waiting chunks of a host stream for one program unit of `room` pages; appends their entries
    /// to `out`.
    pub fn take(&mut self, stream: usize, mut room: u32, out: &mut Vec<u32>) {
        /// How far past the oldest a smaller chunk is looked for to fill a unit.
        const LOOK_AHEAD: usize = 16;
        let queue = &mut self.queues[stream];
        let mut at = 0;
        while room > 0 && at < queue.fifo.len().min(LOOK_AHEAD) {
            let chunk = queue.fifo[at];
            let pages = self.chunks[chunk as usize].pages;
            if pages > room {
                at += 1;
                continue;
            }
            if at == 0 {
                queue.fifo.pop_front();
            } else {
                queue.fifo.remove(at);
            }
            self.chunks[chunk as usize].state = ChunkState::InFlight;
            queue.pages -= pages;
            self.waiting_pages -= pages;
            room -= pages;
            let first = chunk * self.atomic;
            out.extend((first..first + self.atomic).filter(|&e| self.entries[e as usize].page != NONE));
        }
    }

    /// A page of a chunk in flight is on flash, or was given up. Returns the number of its chunk if
    /// that was its last.
    #[inline]
    pub fn land(&mut self, index: u32) -> Option<u64> {
        let chunk = index / self.atomic;
        self.entries[index as usize] = EMPTY;
        let c = &mut self.chunks[chunk as usize];
        c.pages -= 1;
        if c.pages > 0 {
            return None;
        }
        let number = c.number;
        self.release(chunk);
        Some(number)
    }

    /// A program failed: the chunk of `index`, if in flight, waits again, ahead of all others, and is closed.
    pub fn put_back(&mut self, index: u32) {
        let chunk = index / self.atomic;
        let c = &mut self.chunks[chunk as usize];
        if c.state == ChunkState::InFlight {
            c.state = ChunkState::Closed;
            self.waiting_pages += c.pages;
            let queue = &mut self.queues[usize::from(c.stream)];
            queue.pages += c.pages;
            queue.fifo.push_front(chunk);
        }
    }

    /// Every page that is held, for the capacitors to save.
    pub fn entries(&self) -> impl Iterator<Item = (u32, &Entry)> {
        self.entries.iter().enumerate().filter(|(_, e)| e.page != NONE).map(|(i, e)| (i as u32, e))
    }

    /// Whether what is counted is what is there; says what is not.
    pub fn audit(&self) -> Result<(), String> {
        let wrong = |what: &str, is: u32, counted: u32| Err(format!("{what}: {counted} counted, {is} there"));
        let mut waiting = vec![0; self.queues.len()];
        let (mut used, mut queued) = (0, 0);
        for (i, chunk) in (0..).zip(&self.chunks) {
            let first = (i * self.atomic) as usize;
            let held = self.entries[first..][..self.atomic as usize].iter().filter(|e| e.page != NONE);
            let held = held.count() as u32;
            if chunk.state != ChunkState::Free && held != chunk.pages
                || (held > 0) == (chunk.state == ChunkState::Free)
            {
                return wrong(&format!("pages of chunk {i} ({chunk:?})"), held, chunk.pages);
            }
            used += u32::from(chunk.state != ChunkState::Free);
            if matches!(chunk.state, ChunkState::Open | ChunkState::Closed) {
                queued += 1;
                waiting[usize::from(chunk.stream)] += held;
                if !self.queues[usize::from(chunk.stream)].fifo.contains(&i) {
                    return Err(format!("chunk {i} waits in no queue"));
                }
            }
        }
        for (queue, &pages) in self.queues.iter().zip(&waiting) {
            if queue.pages != pages {
                return wrong("waiting pages of a stream", pages, queue.pages);
            }
        }
        let pages: u32 = waiting.iter().sum();
        if self.waiting_pages != pages {
            return wrong("waiting pages", pages, self.waiting_pages);
        }
        let fifos: u32 = self.queues.iter().map(|l| l.fifo.len() as u32).sum();
        if fifos != queued || self.used != used || self.free.len() + used as usize != self.chunks.len() {
            return wrong("chunks that wait or are used", queued + used, fifos + self.used);
        }
        Ok(())
    }

    /// Power is gone.
    pub fn clear(&mut self) {
        let next_number = self.next_number;
        *self = Buffer::new(self.entries.len() as u32, self.atomic, self.queues.len() as u32);
        self.next_number = next_number;
    }
}

impl Entry {
    pub fn spare(&self) -> media::Spare {
        media::Spare { page: LogicalPage(self.page), version: self.version, slot: self.slot }
    }
}
