//! The engine as an actor: events, requests, memtables, and what follows from each.

use super::cache::Cache;
use super::config::{Config, Lifetime};
use super::counts::Counts;
use super::job::{BLOCK, Job, Reader};
use super::pick::{self, Stall, Targets};
use super::space::{DeviceIo, FileId, FileSpace, Hint, Usage};
use super::table::Levels;
use hdrhistogram::Histogram;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use workload::{Actor, Nanos, Next, Request, Rng};

/// Latencies in nanoseconds up to ten minutes, to three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000_000, 3).unwrap_or_else(|_| unreachable!("the bounds are valid"))
}

/// What requests were for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Log(FileId),
    Job(u32),
    Reader(u32),
    /// An action of the file system's own.
    Space(DeviceIo),
}

/// Requests that belong together.
#[derive(Clone, Copy, Debug)]
struct Group {
    purpose: Purpose,
    left: u32,
    /// Of reads: see [`Engine::epochs`].
    epoch: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Event {
    Writer,
    Reader(u32),
    Job(u32),
}

/// A memtable.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Memtable {
    pub records: u64,
    pub log: Option<FileId>,
}

/// How the writer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Writer {
    /// It works until its event comes.
    Busy,
    /// It waits until writes may go on, since then; for this reason (see [`Counts::stopped`]).
    Stopped(Nanos, usize),
    /// It waits for a write of the log, since then.
    Log(Nanos),
    Ended,
}

/// The engine with its load, as an actor. Without end: [`Engine::stop`] ends the load, and then what is under way.
pub struct Engine<S> {
    pub(super) config: Config,
    pub(super) space: S,
    pub(super) now: Nanos,
    pub(super) rng: Rng,
    pub(super) levels: Levels,
    pub(super) targets: Targets,
    pub(super) pending: u64,
    pub(super) stall: Stall,
    /// Bytes per second of a slowed writer.
    pub(super) delayed_rate: u64,
    pub(super) active: Memtable,
    /// Full ones, the oldest first; the first may be flushed just now.
    pub(super) full: VecDeque<Memtable>,
    pub(super) flushing: bool,
    /// Compactions under way, and whether the file system empties a zone.
    pub(super) compacting: usize,
    pub(super) collecting: bool,
    pub(super) writer: Writer,
    /// Records that the writer has ready; when the limit of its rate lets it write again.
    pub(super) ready: u64,
    pub(super) paced: Nanos,
    /// Bytes of the log that no write has yet; writes of it under way; of a file that is wanted no more until they end.
    pub(super) log_rest: u64,
    pub(super) log_writes: BTreeMap<FileId, u32>,
    pub(super) condemned: Vec<FileId>,
    pub(super) jobs: Vec<Option<Job>>,
    /// The job that is being worked on, which is not in its place meanwhile.
    pub(super) current: Option<usize>,
    pub(super) running: pick::Running,
    /// When the limit of the rate lets the next write through.
    pub(super) rate_free: Nanos,
    pub(super) readers: Vec<Reader>,
    pub(super) cache: Cache,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    serial: u64,
    /// Requests that are to be submitted.
    out: VecDeque<Request>,
    /// By tag.
    groups: Vec<Group>,
    tags: Vec<u32>,
    free_tags: Vec<u32>,
    free_groups: Vec<u32>,
    under_way: u64,
    /// Reads under way by the epoch in which they were issued. A zone that was emptied is reset when the reads before have ended.
    epochs: BTreeMap<u64, u64>,
    pub(super) epoch: u64,
    pub(super) emptied: Option<u64>,
    block_blocks: u32,
    stopping: bool,
    pub(super) counts: Counts,
    pub(super) write_latency: Histogram<u64>,
    pub(super) read_latency: Histogram<u64>,
    /// Reused.
    pub(super) ios: Vec<DeviceIo>,
}

impl<S: FileSpace> Engine<S> {
    /// An empty database on an empty file system, of which a logical block has so many bytes: a divisor of 4,096.
    pub fn new(config: Config, space: S, block_bytes: u32) -> Self {
        let levels = Levels::new(config.levels);
        let targets = Targets::new(&config, &levels);
        let mut engine = Engine {
            rng: Rng::new(config.seed ^ 0x006c_736d),
            targets,
            pending: 0,
            stall: Stall::None,
            delayed_rate: config.delayed_rate,
            levels,
            active: Memtable::default(),
            full: VecDeque::new(),
            flushing: false,
            compacting: 0,
            collecting: false,
            writer: if config.writer { Writer::Busy } else { Writer::Ended },
            ready: 0,
            paced: 0,
            log_rest: 0,
            log_writes: BTreeMap::new(),
            condemned: Vec::new(),
            jobs: Vec::new(),
            current: None,
            running: pick::Running::default(),
            rate_free: 0,
            readers: (0..config.readers).map(|_| Reader::default()).collect(),
            cache: Cache::new(config.cache / BLOCK),
            events: BinaryHeap::new(),
            serial: 0,
            out: VecDeque::new(),
            groups: Vec::new(),
            tags: Vec::new(),
            free_tags: Vec::new(),
            free_groups: Vec::new(),
            under_way: 0,
            epochs: BTreeMap::new(),
            epoch: 0,
            emptied: None,
            block_blocks: (BLOCK / u64::from(block_bytes.max(1))) as u32,
            stopping: false,
            counts: Counts::default(),
            write_latency: histogram(),
            read_latency: histogram(),
            ios: Vec::new(),
            now: 0,
            space,
            config,
        };
        engine.begin_load();
        engine
    }

    fn begin_load(&mut self) {
        if self.writer == Writer::Busy {
            self.at(self.now, Event::Writer);
        }
        for reader in 0..self.readers.len() as u32 {
            self.at(self.now, Event::Reader(reader));
        }
    }

    /// Changes the load at `now`: whether there is a writer, how many readers there are, limits of rates. Everything else of the configuration stays.
    pub fn change_load(&mut self, now: Nanos, change: impl FnOnce(&mut Config)) {
        self.now = now;
        let mut config = self.config.clone();
        change(&mut config);
        let Config { writer, readers, write_limit, rate_limit, .. } = config;
        self.config = Config { writer, readers, write_limit, rate_limit, ..self.config.clone() };
        self.paced = now;
        if writer && self.writer == Writer::Ended {
            self.writer = Writer::Busy;
            self.at(now, Event::Writer);
        }
        // Those that are too many end by themselves.
        while self.readers.len() < readers as usize {
            self.at(now, Event::Reader(self.readers.len() as u32));
            self.readers.push(Reader::default());
        }
        for number in 0..readers {
            if std::mem::take(&mut self.readers[number as usize].ended) {
                self.at(now, Event::Reader(number));
            }
        }
    }

    /// Nothing more is begun, and the actor ends when what is under way has.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        let mut counts = self.counts;
        counts.moved_bytes = self.space.usage().moved * self.block_bytes();
        counts
    }

    /// How much room there is, in logical blocks.
    pub fn usage(&self) -> Usage {
        self.space.usage()
    }

    /// Logical blocks of 4 KiB.
    pub(super) fn blocks_of_block(&self) -> u32 {
        self.block_blocks
    }

    fn block_bytes(&self) -> u64 {
        BLOCK / u64::from(self.block_blocks)
    }

    /// Tables and bytes of a level; `None` beyond the last.
    pub fn level(&self, level: usize) -> Option<(usize, u64)> {
        (level <= self.levels.last()).then(|| (self.levels.count(level), self.levels.bytes(level)))
    }

    /// Bytes that compaction is behind.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Latencies of writes and of point reads, in nanoseconds.
    pub fn latencies(&self) -> (&Histogram<u64>, &Histogram<u64>) {
        (&self.write_latency, &self.read_latency)
    }

    /// Forgets them.
    pub fn forget_latencies(&mut self) {
        self.write_latency.reset();
        self.read_latency.reset();
    }

    /// What it is waiting for, for messages.
    #[cfg(test)]
    pub(super) fn state(&self) -> String {
        let jobs: Vec<_> = self.jobs.iter().flatten().map(|job| (job.wait, job.output.level)).collect();
        format!(
            "{jobs:?}, {:?}, {:?}, emptied {:?}, {:?}, {}",
            self.writer,
            self.stall,
            self.emptied,
            self.space.usage(),
            self.space.describe()
        )
    }

    /// What must hold at any time, as far as it can be seen from outside of it.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<(), String> {
        self.levels.check()?;
        let tables: u64 = (0..=self.levels.last()).map(|level| self.levels.bytes(level)).sum();
        let live = self.space.usage().live * self.block_bytes();
        if live < tables {
            return Err(format!("tables have {tables} bytes, the file system only {live}"));
        }
        Ok(())
    }

    /// Something is to be done then.
    pub(super) fn at(&mut self, when: Nanos, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((when, self.serial, event)));
    }

    /// Submits requests of logical blocks as they are.
    fn submit(&mut self, ios: &[DeviceIo], purpose: Purpose, epoch: Option<u64>) {
        if ios.is_empty() {
            return;
        }
        let group = Group { purpose, left: ios.len() as u32, epoch };
        let number = match self.free_groups.pop() {
            Some(number) => {
                self.groups[number as usize] = group;
                number
            }
            None => {
                self.groups.push(group);
                self.groups.len() as u32 - 1
            }
        };
        for io in ios {
            let tag = match self.free_tags.pop() {
                Some(tag) => {
                    self.tags[tag as usize] = number;
                    tag
                }
                None => {
                    self.tags.push(number);
                    self.tags.len() as u32 - 1
                }
            };
            self.out.push_back(Request { tag, verb: io.verb, namespace: 0, lba: io.lba, blocks: io.blocks });
            self.under_way += 1;
        }
        if let Some(epoch) = epoch {
            *self.epochs.entry(epoch).or_default() += 1;
        }
    }

    /// Submits actions of the file system's own among these, and returns the others.
    fn housekeeping(&mut self, ios: Vec<DeviceIo>) -> Vec<DeviceIo> {
        let own = |io: &DeviceIo| !io.verb.reads() && !io.verb.writes();
        if ios.iter().any(own) {
            for io in ios.iter().filter(|io| own(io)) {
                self.submit(&[*io], Purpose::Space(*io), None);
            }
            return ios.into_iter().filter(|io| !own(io)).collect();
        }
        ios
    }

    /// Appends blocks of 4 KiB to a file. Returns how many found room.
    pub(super) fn append(&mut self, file: FileId, blocks: u32, purpose: Purpose) -> u32 {
        let mut ios = std::mem::take(&mut self.ios);
        let took = self.space.append(file, blocks * self.block_blocks, &mut ios) / self.block_blocks;
        let mut writes = self.housekeeping(ios);
        self.submit(&writes, purpose, None);
        writes.clear();
        self.ios = writes;
        // A zone may be full by that, so that another can be opened; or zones have become scarce.
        if took > 0 {
            self.wake_those_without_room();
        }
        self.schedule_collection();
        took
    }

    /// Reads blocks of 4 KiB of a file.
    pub(super) fn read(&mut self, file: FileId, at: u64, blocks: u32, purpose: Purpose) {
        let mut ios = std::mem::take(&mut self.ios);
        let own = self.block_blocks;
        self.space.read(file, at * u64::from(own), blocks * own, &mut ios);
        self.submit(&ios, purpose, Some(self.epoch));
        ios.clear();
        self.ios = ios;
    }

    /// Reads or writes logical blocks.
    pub(super) fn raw(&mut self, ios: &[DeviceIo], purpose: Purpose) {
        let epoch = ios.iter().any(|io| io.verb.reads()).then_some(self.epoch);
        self.submit(ios, purpose, epoch);
    }

    /// A change of the file system that makes requests of its own.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut S, &mut Vec<DeviceIo>)) {
        let mut ios = std::mem::take(&mut self.ios);
        change(&mut self.space, &mut ios);
        let mut rest = self.housekeeping(ios);
        debug_assert!(rest.is_empty(), "a change that writes");
        rest.clear();
        self.ios = rest;
        self.wake_those_without_room();
        self.schedule_collection();
    }

    /// Deletes a log, when its writes have ended.
    pub(super) fn condemn(&mut self, file: FileId) {
        if self.log_writes.get(&file).copied().unwrap_or(0) > 0 {
            self.condemned.push(file);
        } else {
            self.change(|space, out| space.delete(file, out));
        }
    }

    /// A new log, if there are logs.
    pub(super) fn new_log(&mut self) -> Option<FileId> {
        let expected = self.config.write_buffer / u64::from(self.config.memory_record.max(1))
            * u64::from(self.config.log_record);
        let hint = Hint { lifetime: Lifetime::Short, table: None, expected };
        self.config.log.then(|| self.space.create(hint))
    }

    /// A memtable or level has changed: what follows from that.
    pub(super) fn changed(&mut self) {
        let before = self.pending;
        self.targets = Targets::new(&self.config, &self.levels);
        self.pending = self.targets.pending(&self.config, &self.levels);
        self.set_stall(before);
        self.schedule_jobs();
        self.wake_writer();
    }

    fn ended(&mut self, group: Group) {
        if let Some(epoch) = group.epoch {
            let left = self.epochs.get_mut(&epoch);
            if let Some(left) = left {
                *left -= 1;
                if *left == 0 {
                    self.epochs.remove(&epoch);
                }
            }
            self.reset_emptied();
        }
        match group.purpose {
            Purpose::Log(file) => {
                let left = self.log_writes.entry(file).or_default();
                *left -= 1;
                if *left == 0 {
                    self.log_writes.remove(&file);
                    if let Some(at) = self.condemned.iter().position(|other| *other == file) {
                        self.condemned.swap_remove(at);
                        self.change(|space, out| space.delete(file, out));
                    }
                }
                self.log_written();
            }
            Purpose::Job(job) => self.job_request_ended(job),
            Purpose::Reader(reader) => self.block_read(reader),
            Purpose::Space(io) => {
                if self.space.ended(&io) {
                    self.wake_those_without_room();
                    self.schedule_collection();
                }
            }
        }
    }

    /// A zone that was emptied is reset when all reads of what was there have ended.
    pub(super) fn reset_emptied(&mut self) {
        if let Some(epoch) = self.emptied
            && self.epochs.first_key_value().is_none_or(|(first, _)| *first >= epoch)
        {
            self.emptied = None;
            self.change(|space, out| space.collected(out));
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Writer => self.writer_goes_on(),
            Event::Reader(reader) => self.reader_goes_on(reader),
            Event::Job(job) => self.job_goes_on(job),
        }
    }
}

impl<S: FileSpace> Actor for Engine<S> {
    fn next(&mut self, now: Nanos) -> Next {
        self.now = now;
        loop {
            if let Some(request) = self.out.pop_front() {
                return Next::Submit(request);
            }
            if self.stopping {
                return if self.under_way == 0 { Next::Done } else { Next::Wait };
            }
            match self.events.peek() {
                Some(Reverse((when, ..))) if *when <= now => {}
                Some(Reverse((when, ..))) => return Next::At(*when),
                None => return Next::Wait,
            }
            if let Some(Reverse((_, _, event))) = self.events.pop() {
                self.handle(event);
            }
        }
    }

    fn completed(&mut self, now: Nanos, tag: u32, ok: bool) {
        self.now = now;
        self.counts.failed += u64::from(!ok);
        self.under_way -= 1;
        let number = self.tags[tag as usize];
        self.free_tags.push(tag);
        let group = &mut self.groups[number as usize];
        group.left -= 1;
        if group.left == 0 {
            let group = *group;
            self.free_groups.push(number);
            self.ended(group);
        }
    }
}
