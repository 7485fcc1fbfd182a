//! The server: connections, processors, the pool and the log, as one actor. Checkpoints and the background writer are in [`background`].

mod background;

use super::checkpoint::{Background, Checkpoint, WRITE_DELAY};
use super::config::{Config, Counts, PAGE};
use super::pool::{NONE, Pool};
use super::wal::{Step, Wal};
use crate::database::{
    Area, BlockRange, Mixture, Schema, Storage, Tables, Terminals, TransactionPlan, Volume,
};
use hdrhistogram::Histogram;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use workload::{Actor, Nanos, Next, Request, Verb};

/// Bytes of a command of the log at most.
const COMMAND: u64 = 128 << 10;
/// The log takes this share of a namespace at most, if the data is there, too.
const LOG_SHARE: u64 = 8;

/// Who writes a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Writer {
    /// A connection that needs its place.
    Connection(u32),
    Background,
    Checkpoint,
}

/// What a command was for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Nothing,
    Read {
        frame: u32,
    },
    Wal,
    Page {
        frame: u32,
        lsn: u64,
        writer: Writer,
    },
    /// The files are synced at the end of a checkpoint.
    Sync,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Event {
    /// A connection's statement is done.
    Statement(u32),
    /// A commit has waited for others.
    Delay,
    /// The log is flushed for nobody.
    WalWriter,
    /// The background writer looks again.
    Background,
    /// The checkpointer does.
    Checkpointer,
}

struct Connection {
    work: TransactionPlan,
    kind: usize,
    /// The next use.
    at: usize,
    /// Whether its statement has been executed, and its inner page been used.
    executed: bool,
    descended: bool,
    wrote: bool,
    /// Since when it waits for its commit.
    since: Nanos,
    next_waiter: u32,
}

/// The database server with its load, as an actor. Without end: [`Postgresql::stop`] ends it.
pub struct Postgresql {
    pub(super) config: Config,
    data: Area,
    log: Area,
    data_pages: u64,
    terminals: Terminals,
    pub(super) pool: Pool,
    pub(super) wal: Wal,
    pub(super) checkpoint: Checkpoint,
    pub(super) background: Background,
    connections: Vec<Connection>,
    /// Connections that go on now.
    ready: VecDeque<u32>,
    /// Processors in use, and statements that wait for one.
    running: u32,
    statements: VecDeque<(u32, Nanos)>,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    serial: u64,
    /// Pages that are to be written when their log is flushed.
    unlogged: Vec<(u32, u64, Writer)>,
    /// Connections that wait for a frame at which nobody is.
    starved: Vec<u32>,
    /// Segments of the log that are filled with zeroes.
    segments: u64,
    outgoing: VecDeque<Request>,
    purposes: Vec<Purpose>,
    spare: Vec<u32>,
    stopped: bool,
    begun: bool,
    pub(super) counts: Counts,
    commits: Histogram<u64>,
}

/// Where the log and the data lie. None if the namespaces are too small.
fn areas(config: &Config, pages: u64) -> Option<(Area, Area)> {
    let whole = |namespace, volume: Volume, start: u64, bytes: u64| Area {
        namespace,
        start,
        bytes: bytes / PAGE * PAGE,
        block_bytes: volume.block_bytes.into(),
    };
    if !config.data.is_valid() || !config.wal.is_none_or(Volume::is_valid) {
        return None;
    }
    let total = config.data.bytes();
    let log = match config.wal {
        Some(volume) => whole(1, volume, 0, config.max_wal_size.min(volume.bytes())),
        None => whole(0, config.data, 0, config.max_wal_size.min(total / LOG_SHARE)),
    };
    let start = if config.wal.is_some() { 0 } else { log.bytes };
    let data = whole(0, config.data, start, (total - start).min(pages.checked_mul(PAGE)?));
    (log.bytes >= 1 << 20 && data.bytes >= 1 << 24).then_some((log, data))
}

impl Postgresql {
    /// The model; `None` if the namespaces are too small for its files.
    pub fn new(config: Config) -> Option<Postgresql> {
        let tables = Tables::new(Schema::Live, config.warehouses, Storage::Heap);
        let data_pages = tables.pages();
        let (log, data) = areas(&config, data_pages)?;
        let mixture = Mixture {
            warehouses: config.warehouses,
            mix: config.mix,
            stock_statements: 0,
            stray: 0,
            seed: config.seed,
        };
        let connection = |_| Connection {
            work: TransactionPlan::default(),
            kind: 0,
            at: 0,
            executed: false,
            descended: false,
            wrote: false,
            since: 0,
            next_waiter: NONE,
        };
        Some(Postgresql {
            data,
            log,
            data_pages,
            terminals: Terminals::new(&mixture, tables),
            pool: Pool::new(config.pool_pages),
            wal: Wal::new(data_pages),
            checkpoint: Checkpoint::default(),
            background: Background::default(),
            connections: (0..config.connections.max(1)).map(connection).collect(),
            ready: VecDeque::new(),
            running: 0,
            statements: VecDeque::new(),
            events: BinaryHeap::new(),
            serial: 0,
            unlogged: Vec::new(),
            starved: Vec::new(),
            segments: 0,
            outgoing: VecDeque::new(),
            purposes: Vec::new(),
            spare: Vec::new(),
            stopped: false,
            begun: false,
            counts: Counts::default(),
            // Microseconds, up to ten minutes, to three digits.
            commits: Histogram::new_with_bounds(1, 600_000_000, 3).ok()?,
            config,
        })
    }

    /// Where the log lies; it is written in a circle.
    pub fn log(&self) -> Area {
        self.log
    }

    /// Where tables and indexes lie.
    pub fn data(&self) -> Area {
        self.data
    }

    /// Pages of the database; more than the data's area holds if it is folded.
    pub fn data_pages(&self) -> u64 {
        self.data_pages
    }

    /// What it has done.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Latencies in microseconds of commits that wrote and waited, since it began or they were last forgotten.
    pub fn commits(&self) -> &Histogram<u64> {
        &self.commits
    }

    /// Forgets the latencies so far.
    pub fn forget_latencies(&mut self) {
        self.commits.reset();
    }

    /// Fills the pool by running so many transactions without a drive: pages are there at once, and a dirty one whose place is needed is clean. To be called
    /// before it begins. `go_on` is asked again and again; when it says no, the rest is left out.
    pub fn warm(&mut self, transactions: u64, mut go_on: impl FnMut() -> bool) {
        /// Transactions between two questions.
        const TRANSACTIONS_PER_CHECK: u64 = 1 << 10;
        let mut work = TransactionPlan::default();
        for number in 0..transactions {
            if number.is_multiple_of(TRANSACTIONS_PER_CHECK) && !go_on() {
                break;
            }
            self.terminals.draw(&mut work);
            for one in &work.uses {
                for page in [one.path.inner, one.path.leaf] {
                    let frame = match self.pool.find(page) {
                        Some(frame) => frame,
                        None => {
                            let Some(frame) = self.room_at_once() else { return };
                            self.pool.insert(frame, page);
                            self.pool.read(frame);
                            frame
                        }
                    };
                    self.pool.touch(frame);
                    if one.change && (page == one.path.leaf || one.insert) {
                        self.wal.end += u64::from(self.config.record);
                        self.pool.change(frame, self.wal.end);
                    }
                }
            }
        }
        self.wal.flushed = self.wal.end;
    }

    fn room_at_once(&mut self) -> Option<u32> {
        if let Some(frame) = self.pool.take() {
            return Some(frame);
        }
        let frame = self.pool.victim()?;
        self.pool.change(frame, 0);
        self.pool.evict(frame);
        self.pool.take()
    }

    /// No further commands: it is done when those under way have ended.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.outgoing.clear();
    }

    pub(super) fn at(&mut self, time: Nanos, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((time, self.serial, event)));
    }

    fn submit(&mut self, verb: Verb, place: BlockRange, purpose: Purpose) {
        let tag = self.spare.pop().unwrap_or_else(|| {
            self.purposes.push(Purpose::Nothing);
            self.purposes.len() as u32 - 1
        });
        self.purposes[tag as usize] = purpose;
        let BlockRange { namespace, lba, blocks } = place;
        self.outgoing.push_back(Request { tag, verb, namespace, lba, blocks });
    }

    fn flush(&mut self, namespace: u16, purpose: Purpose) {
        self.submit(Verb::Flush, BlockRange { namespace, lba: 0, blocks: 0 }, purpose);
    }

    /// All files of the data are synced.
    pub(super) fn sync_data(&mut self) {
        self.flush(0, Purpose::Sync);
    }

    /// Where a page of the database lies.
    pub(super) fn place(&self, page: u64) -> BlockRange {
        let room = self.data.bytes / PAGE;
        let page = (u128::from(page) * u128::from(room) / u128::from(self.data_pages.max(room))) as u64;
        self.data.place(page * PAGE, PAGE)
    }

    // Connections.

    fn begin(&mut self, now: Nanos) {
        self.begun = true;
        for connection in 0..self.connections.len() as u32 {
            self.start(connection);
        }
        self.begin_checkpoint(now);
        self.at(now + WRITE_DELAY, Event::Checkpointer);
        self.at(now + self.config.wal_writer_delay.max(1), Event::WalWriter);
        self.at(now + self.config.bgwriter_delay.max(1), Event::Background);
    }

    fn start(&mut self, id: u32) {
        let connection = &mut self.connections[id as usize];
        connection.kind = self.terminals.draw(&mut connection.work) as usize;
        (connection.at, connection.executed, connection.descended) = (0, false, false);
        connection.wrote = false;
        self.ready.push_back(id);
    }

    /// Lets a connection go on until it has to wait.
    fn go_on(&mut self, id: u32, now: Nanos) {
        loop {
            let connection = &mut self.connections[id as usize];
            let Some(&one) = connection.work.uses.get(connection.at) else { return self.commit(id, now) };
            if !connection.executed {
                connection.executed = true;
                if one.statements > 0 {
                    let time = self.config.statement * u64::from(one.statements);
                    if self.running < self.config.cores {
                        self.running += 1;
                        self.at(now + time, Event::Statement(id));
                    } else {
                        self.statements.push_back((id, time));
                    }
                    return;
                }
            }
            if !connection.descended {
                if self.use_page(id, one.path.inner, now).is_none() {
                    return;
                }
                self.connections[id as usize].descended = true;
            }
            let Some(frame) = self.use_page(id, one.path.leaf, now) else { return };
            if one.change {
                // The leaf of the index may have left while the page was read.
                let index = self.pool.find(one.path.inner).filter(|&frame| !self.pool.is_reading(frame));
                let entry = one.insert && one.path.inner != one.path.leaf;
                if entry && index.is_none() {
                    self.connections[id as usize].descended = false;
                    continue;
                }
                self.change(frame, one.rows, now);
                if let Some(index) = index.filter(|_| entry) {
                    self.change(index, one.rows, now);
                }
                self.connections[id as usize].wrote = true;
            }
            let connection = &mut self.connections[id as usize];
            connection.at += 1;
            (connection.executed, connection.descended) = (false, false);
        }
    }

    /// A page changes: the log has the change, and perhaps the page.
    fn change(&mut self, frame: u32, rows: u32, now: Nanos) {
        let mut bytes = u64::from(self.config.record) * u64::from(rows.max(1));
        if self.config.full_page_writes && self.wal.is_first(self.pool.page(frame)) {
            bytes += u64::from(self.config.image);
            self.counts.images += 1;
        }
        self.append(bytes);
        self.pool.change(frame, self.wal.end);
        // Only now: a checkpoint that begins here must find the page dirty.
        self.appended(now);
    }

    /// Bytes come to the log.
    fn append(&mut self, bytes: u64) {
        self.wal.end += bytes;
        self.counts.wal_bytes += bytes;
    }

    /// What follows from that: the log is written, or a checkpoint begins.
    fn appended(&mut self, now: Nanos) {
        if self.wal.unwritten() > self.config.wal_buffers {
            self.wal.due = true;
            self.flush_wal(now);
        }
        self.look_at_log(now);
    }

    /// A statement is done: its processor takes the next.
    fn executed(&mut self, id: u32, now: Nanos) {
        match self.statements.pop_front() {
            Some((next, time)) => self.at(now + time, Event::Statement(next)),
            None => self.running -= 1,
        }
        self.ready.push_back(id);
    }

    /// The frame of a page, if it is there; else the connection waits, and asks again.
    fn use_page(&mut self, id: u32, page: u64, now: Nanos) -> Option<u32> {
        if let Some(frame) = self.pool.find(page) {
            if self.pool.is_reading(frame) {
                self.wait_for(id, frame);
                return None;
            }
            self.pool.touch(frame);
            return Some(frame);
        }
        let frame = match self.pool.take() {
            Some(frame) => frame,
            None => {
                let Some(frame) = self.pool.victim() else {
                    self.starved.push(id);
                    return None;
                };
                if self.pool.mark(frame) {
                    self.write_page(frame, Writer::Connection(id), now);
                    return None;
                }
                self.pool.evict(frame);
                self.pool.take()?
            }
        };
        self.pool.insert(frame, page);
        self.background.taken += 1;
        self.counts.page_reads += 1;
        self.wait_for(id, frame);
        self.submit(Verb::Read, self.place(page), Purpose::Read { frame });
        None
    }

    fn wait_for(&mut self, id: u32, frame: u32) {
        let waiter = self.pool.waiter(frame);
        self.connections[id as usize].next_waiter = *waiter;
        *waiter = id;
    }

    fn page_read(&mut self, frame: u32) {
        self.pool.read(frame);
        self.pool.touch(frame);
        let mut id = std::mem::replace(self.pool.waiter(frame), NONE);
        while id != NONE {
            self.ready.push_back(id);
            id = self.connections[id as usize].next_waiter;
        }
        self.ready.extend(self.starved.drain(..));
    }

    fn commit(&mut self, id: u32, now: Nanos) {
        let connection = &mut self.connections[id as usize];
        if !connection.wrote || connection.work.rollback {
            return self.ended(id);
        }
        connection.since = now;
        self.counts.commits += 1;
        self.append(self.config.commit_record.into());
        self.appended(now);
        if !self.config.flush_at_commit {
            return self.ended(id);
        }
        self.wal.queue.push(id);
        self.flush_wal(now);
    }

    fn ended(&mut self, id: u32) {
        let connection = &self.connections[id as usize];
        self.counts.transactions[connection.kind] += u64::from(!connection.work.rollback);
        self.start(id);
    }

    // The log.

    /// Begins a flush of the log, if one is wanted and none is under way.
    fn flush_wal(&mut self, now: Nanos) {
        if self.wal.step != Step::Idle || (self.wal.queue.is_empty() && !self.wal.due) {
            return;
        }
        let others = self.connections.len() as u32 - 1;
        let waits = !self.wal.due && self.config.commit_delay > 0 && others >= self.config.commit_siblings;
        if waits {
            self.wal.step = Step::Delay;
            self.at(now + self.config.commit_delay, Event::Delay);
        } else {
            self.write_wal();
        }
    }

    fn write_wal(&mut self) {
        let (from, bytes) = self.wal.begin();
        self.counts.groups += u64::from(!self.wal.group.is_empty());
        let mut parts = self.write_log(from, bytes);
        let segment = self.config.new_segment;
        while segment > 0 && self.segments * segment < from + bytes {
            parts += self.write_log(self.segments * segment, segment);
            self.segments += 1;
        }
        self.wal.parts = parts;
    }

    /// Writes to the log in commands of 128 KiB at most; how many.
    fn write_log(&mut self, from: u64, bytes: u64) -> u32 {
        self.counts.wal_written += bytes;
        let (mut at, mut left, mut parts) = (from, bytes, 0);
        while left > 0 {
            let now = left.min(COMMAND);
            self.submit(Verb::Write, self.log.place(at, now), Purpose::Wal);
            (at, left, parts) = (at + now, left - now, parts + 1);
        }
        parts
    }

    /// A command of the log has ended.
    fn wal_done(&mut self, now: Nanos) {
        self.wal.parts -= 1;
        if self.wal.parts > 0 {
            return;
        }
        if self.wal.step == Step::Write {
            (self.wal.step, self.wal.parts) = (Step::Flush, 1);
            return self.flush(self.log.namespace, Purpose::Wal);
        }
        self.wal.ended();
        let mut group = std::mem::take(&mut self.wal.group);
        for id in group.drain(..) {
            let took = now - self.connections[id as usize].since;
            self.commits.saturating_record(took / 1000);
            self.ended(id);
        }
        self.wal.group = group;
        for (frame, lsn, writer) in std::mem::take(&mut self.unlogged) {
            self.write_logged(frame, lsn, writer);
        }
        self.flush_wal(now);
    }

    /// A checkpoint is in the log.
    pub(super) fn log_checkpoint(&mut self, bytes: u64, now: Nanos) {
        self.append(bytes);
        self.wal.due = true;
        self.flush_wal(now);
        self.appended(now);
    }

    // Pages.

    /// Writes a page that is marked, after the log of its changes.
    pub(super) fn write_page(&mut self, frame: u32, writer: Writer, now: Nanos) {
        self.write_logged(frame, self.pool.lsn(frame), writer);
        self.flush_wal(now);
    }

    fn write_logged(&mut self, frame: u32, lsn: u64, writer: Writer) {
        if lsn > self.wal.flushed {
            self.wal.due = true;
            return self.unlogged.push((frame, lsn, writer));
        }
        *match writer {
            Writer::Connection(_) => &mut self.counts.backend_writes,
            Writer::Background => &mut self.counts.background_writes,
            Writer::Checkpoint => &mut self.counts.checkpoint_writes,
        } += 1;
        let place = self.place(self.pool.page(frame));
        self.submit(Verb::Write, place, Purpose::Page { frame, lsn, writer });
    }

    fn page_written(&mut self, frame: u32, lsn: u64, writer: Writer, now: Nanos) {
        self.pool.written(frame, lsn);
        match writer {
            Writer::Connection(id) => {
                self.pool.evict(frame);
                self.ready.push_back(id);
            }
            Writer::Background => {}
            Writer::Checkpoint => {
                self.checkpoint.parts -= 1;
                self.go_on_with_checkpoint(now);
            }
        }
        self.ready.extend(self.starved.drain(..));
    }

    fn happen(&mut self, event: Event, now: Nanos) {
        match event {
            Event::Statement(id) => self.executed(id, now),
            Event::Delay => self.write_wal(),
            Event::WalWriter => {
                if self.wal.unwritten() > 0 {
                    self.wal.due = true;
                    self.flush_wal(now);
                }
                self.at(now + self.config.wal_writer_delay.max(1), Event::WalWriter);
            }
            Event::Background => self.look_ahead(now),
            Event::Checkpointer => self.wake_checkpointer(now),
        }
    }
}

impl Actor for Postgresql {
    fn next(&mut self, now: Nanos) -> Next {
        if self.stopped {
            return Next::Done;
        }
        if !self.begun {
            self.begin(now);
        }
        loop {
            if let Some(request) = self.outgoing.pop_front() {
                return Next::Submit(request);
            }
            if let Some(id) = self.ready.pop_front() {
                self.go_on(id, now);
                continue;
            }
            match self.events.peek() {
                Some(&Reverse((time, _, event))) if time <= now => {
                    self.events.pop();
                    self.happen(event, now);
                }
                Some(&Reverse((time, ..))) => return Next::At(time),
                None => return Next::Wait,
            }
        }
    }

    fn completed(&mut self, now: Nanos, tag: u32, ok: bool) {
        self.counts.failed += u64::from(!ok);
        let Some(place) = self.purposes.get_mut(tag as usize) else { return };
        let purpose = std::mem::replace(place, Purpose::Nothing);
        if purpose == Purpose::Nothing {
            return;
        }
        self.spare.push(tag);
        match purpose {
            Purpose::Nothing => {}
            Purpose::Read { frame } => self.page_read(frame),
            Purpose::Wal => self.wal_done(now),
            Purpose::Page { frame, lsn, writer } => self.page_written(frame, lsn, writer, now),
            Purpose::Sync => self.synced(now),
        }
    }
}
