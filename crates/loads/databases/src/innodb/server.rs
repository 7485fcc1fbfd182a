//! The server: connections, processors, logs and flushers, as one actor.

mod durable;

use super::clients::Clients;
use super::config::{Config, PAGE};
use super::counts::Counts;
use super::flush::{Batch, Flusher, Phase, Shard};
use super::journal::{File, Journal, Waiter};
use super::log::{Log, SECOND, in_blocks, pressure};
use super::pool::{NONE, Pool};
use super::space::Areas;
use crate::database::{Area, BlockRange, Storage, TABLESPACES, Tables, TransactionPlan};
use hdrhistogram::Histogram;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use workload::{Actor, Nanos, Next, Request, Verb};

/// Whether a flusher is one of the LRU lists.
fn of_lru(flusher: u32) -> bool {
    flusher.is_multiple_of(2)
}

/// Latencies in microseconds, up to ten minutes, to three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000, 3).unwrap_or_else(|_| unreachable!("the bounds are valid"))
}

/// What a command was for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Nothing,
    Read { frame: u32 },
    Redo,
    Binlog,
    Journal { of: u16 },
    Batch { flusher: u32 },
    Page { flusher: u32, frame: u32, lsn: u64 },
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// A connection's statement is done.
    Statement(u32),
    /// A flusher has its batch together.
    Gathered(u32),
    /// Adaptive flushing decides again.
    Second,
}

struct Connection {
    work: TransactionPlan,
    /// Its place in counts and latencies.
    kind: usize,
    /// The next use.
    at: usize,
    /// Whether its statement has been executed, and its inner page been used.
    executed: bool,
    descended: bool,
    wrote: bool,
    began: Nanos,
    /// Since when it waits.
    since: Nanos,
    next_waiter: u32,
}

/// The database server with its load, as an actor. Without end: [`Innodb::stop`] ends it.
pub struct Innodb {
    config: Config,
    /// The time of the call that it is in.
    now: Nanos,
    areas: Areas,
    data_pages: u64,
    clients: Clients,
    pool: Pool,
    connections: Vec<Connection>,
    /// Connections that go on now.
    ready: VecDeque<u32>,
    /// Processors in use, and statements that wait for one.
    running: u32,
    statements: VecDeque<(u32, Nanos)>,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    serial: u64,
    redo: Log,
    /// The log is to be written although nobody waits for it.
    log_due: bool,
    binlog: Log,
    /// Those of the file systems, by namespace.
    journals: [Journal; 2],
    /// What they know of the files, which [`durable`] numbers.
    files: [File; durable::TABLES + TABLESPACES],
    /// Two for each instance: of the LRU list, and of the list of dirty pages.
    flushers: Vec<Flusher>,
    shards: Vec<Shard>,
    /// The doublewrite file: ext4 lets one direct write to a file be under way at a time, unless it is asynchronous.
    copying: Shard,
    /// Batches that wait for the log.
    unlogged: Vec<u32>,
    /// Connections that wait for a frame, by instance.
    starved: Vec<VecDeque<u32>>,
    outgoing: VecDeque<Request>,
    purposes: Vec<Purpose>,
    spare: Vec<u32>,
    stopped: bool,
    /// The pool's own clock runs ahead of the actor's by what it was warmed.
    warmed: Nanos,
    begun: bool,
    counts: Counts,
    latencies: [Histogram<u64>; 5],
    commits: Histogram<u64>,
}

impl Innodb {
    /// The model; `None` if the namespaces are too small for its files.
    pub fn new(config: Config) -> Option<Innodb> {
        let tables = Tables::new(config.schema, config.warehouses, Storage::Clustered);
        let areas = Areas::new(&config, tables.pages())?;
        let pool = Pool::new(&config);
        let instances = pool.instances();
        let connection = |_| Connection {
            work: TransactionPlan::default(),
            kind: 0,
            at: 0,
            executed: false,
            descended: false,
            wrote: false,
            began: 0,
            since: 0,
            next_waiter: NONE,
        };
        Some(Innodb {
            now: 0,
            areas,
            data_pages: tables.pages(),
            clients: Clients::new(&config, tables),
            connections: (0..config.connections.max(1)).map(connection).collect(),
            ready: VecDeque::new(),
            running: 0,
            statements: VecDeque::new(),
            events: BinaryHeap::new(),
            serial: 0,
            redo: Log::new(),
            log_due: false,
            binlog: Log::new(),
            journals: [Journal::new(), Journal::new()],
            files: [File::NEW; durable::TABLES + TABLESPACES],
            flushers: vec![Flusher { batch: None, quota: 0 }; instances * 2],
            shards: vec![Shard::default(); config.doublewrite.map_or(0, |d| d.shards.max(1) as usize)],
            copying: Shard::default(),
            unlogged: Vec::new(),
            starved: vec![VecDeque::new(); instances],
            outgoing: VecDeque::new(),
            purposes: Vec::new(),
            spare: Vec::new(),
            stopped: false,
            warmed: 0,
            begun: false,
            counts: Counts::default(),
            latencies: std::array::from_fn(|_| histogram()),
            commits: histogram(),
            pool,
            config,
        })
    }

    /// Where its files lie.
    pub fn areas(&self) -> &Areas {
        &self.areas
    }

    /// Pages of the database; more than the data's area holds if it is folded.
    pub fn data_pages(&self) -> u64 {
        self.data_pages
    }

    /// What it has done.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Latencies of transactions in microseconds since it began or they were last forgotten, in the order of
    /// [`TransactionKind::ALL`](super::TransactionKind::ALL); sysbench's are the first.
    pub fn latencies(&self) -> &[Histogram<u64>; 5] {
        &self.latencies
    }

    /// The same of commits that wrote.
    pub fn commits(&self) -> &Histogram<u64> {
        &self.commits
    }

    /// Forgets the latencies so far.
    pub fn forget_latencies(&mut self) {
        self.latencies.iter_mut().for_each(Histogram::reset);
        self.commits.reset();
    }

    /// Dirty pages of the pool, per mille.
    pub fn dirty_per_mille(&self) -> u64 {
        self.pool.dirty() * 1000 / self.pool.frames()
    }

    /// Fills the pool by running so many transactions without a drive, each `interval` after the one before: pages are there at once.
    /// A dirty page that would have been written is clean. To be called before it begins. `go_on` is asked after each second; when it says no,
    /// the rest is left out.
    pub fn warm(&mut self, transactions: u64, interval: Nanos, mut go_on: impl FnMut() -> bool) {
        let mut work = TransactionPlan::default();
        let mut batch = Vec::new();
        let mut second = self.warmed + SECOND;
        for _ in 0..transactions {
            self.clients.draw(&mut work);
            self.warmed += interval;
            while second <= self.warmed {
                second += SECOND;
                if !go_on() {
                    return;
                }
                let quota = self.quota();
                for instance in 0..self.pool.instances() {
                    self.pool.oldest_dirty(instance, quota, &mut batch);
                    self.written_at_once(&mut batch);
                }
            }
            for one in &work.uses {
                for page in [one.path.inner, one.path.leaf] {
                    let frame = match self.pool.find(page) {
                        Some(frame) => frame,
                        None => {
                            let instance = self.pool.instance(page);
                            let frame = match self.pool.take(instance) {
                                Some(frame) => frame,
                                None => {
                                    let (depth, most) = (self.config.scan_depth, self.config.batch);
                                    self.pool.sweep(instance, depth, most, &mut batch);
                                    self.written_at_once(&mut batch);
                                    let Some(frame) = self.pool.take(instance) else { return };
                                    frame
                                }
                            };
                            self.pool.insert(frame, page);
                            self.pool.read(frame);
                            frame
                        }
                    };
                    self.pool.touch(frame, self.warmed);
                    if one.change && page == one.path.leaf {
                        let lsn = self.redo.append(in_blocks(self.config.redo_change.into()));
                        self.pool.change(frame, lsn);
                    }
                }
            }
        }
        self.redo.flushed = self.redo.end;
    }

    fn written_at_once(&mut self, batch: &mut Vec<u32>) {
        for frame in batch.drain(..) {
            let lsn = self.pool.newest(frame);
            self.pool.written(frame, lsn);
        }
    }

    /// No further commands: it is done when those under way have ended.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.outgoing.clear();
    }

    /// The time of its next event, if it has one.
    pub fn wait(&self) -> Option<Nanos> {
        match self.begun {
            false => Some(0),
            true => self.events.peek().map(|event| event.0.0),
        }
    }

    fn at(&mut self, time: Nanos, event: Event) {
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

    /// Writes from a position of an area on, in as many commands as it takes; how many.
    fn write(&mut self, area: Area, at: u64, bytes: u64, command: u64, purpose: Purpose) -> u32 {
        let (mut at, mut left, mut parts) = (at, bytes, 0);
        while left > 0 {
            let now = left.min(command);
            self.submit(Verb::Write, area.place(at, now), purpose);
            (at, left, parts) = (at + now, left - now, parts + 1);
        }
        parts
    }

    /// Where a page of the database lies.
    fn place(&self, page: u64) -> BlockRange {
        let room = self.areas.data.bytes / PAGE;
        let page = (u128::from(page) * u128::from(room) / u128::from(self.data_pages.max(room))) as u64;
        self.areas.data.place(page * PAGE, PAGE)
    }

    // Connections.

    fn begin(&mut self, now: Nanos) {
        self.begun = true;
        for connection in 0..self.connections.len() as u32 {
            self.start(connection, now);
        }
        self.at(now + SECOND, Event::Second);
        for instance in 0..self.pool.instances() {
            self.sweep(now, instance);
        }
    }

    fn start(&mut self, id: u32, now: Nanos) {
        let connection = &mut self.connections[id as usize];
        connection.kind = self.clients.draw(&mut connection.work);
        (connection.at, connection.executed, connection.descended) = (0, false, false);
        (connection.wrote, connection.began) = (false, now);
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
                    connection.since = now;
                    let time = self.config.statement * u64::from(one.statements);
                    if self.running < self.config.cores {
                        self.running += 1;
                        self.counts.busy += time;
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
                let lsn = self.redo.append(in_blocks(self.config.redo_change.into()));
                self.pool.change(frame, lsn);
                self.connections[id as usize].wrote = true;
            }
            let connection = &mut self.connections[id as usize];
            connection.at += 1;
            (connection.executed, connection.descended) = (false, false);
        }
    }

    /// A statement is done: its processor takes the next.
    fn executed(&mut self, id: u32, now: Nanos) {
        self.counts.processor += now - self.connections[id as usize].since;
        match self.statements.pop_front() {
            Some((next, time)) => {
                self.counts.busy += time;
                self.at(now + time, Event::Statement(next));
            }
            None => self.running -= 1,
        }
        self.ready.push_back(id);
    }

    /// The frame of a page, if it is there; else the connection waits, and asks again.
    fn use_page(&mut self, id: u32, page: u64, now: Nanos) -> Option<u32> {
        if let Some(frame) = self.pool.find(page) {
            if self.pool.is_reading(frame) {
                self.wait_for(id, frame, now);
                return None;
            }
            self.counts.uses += 1;
            self.pool.touch(frame, self.warmed + now);
            return Some(frame);
        }
        let instance = self.pool.instance(page);
        let taken = self.pool.take(instance);
        if self.pool.free(instance) < self.config.scan_depth as usize / 2 {
            self.sweep(now, instance);
        }
        let Some(frame) = taken else {
            self.connections[id as usize].since = now;
            self.starved[instance].push_back(id);
            return None;
        };
        self.pool.insert(frame, page);
        self.counts.page_reads += 1;
        self.wait_for(id, frame, now);
        self.submit(Verb::Read, self.place(page), Purpose::Read { frame });
        None
    }

    fn wait_for(&mut self, id: u32, frame: u32, now: Nanos) {
        let waiter = self.pool.waiter(frame);
        let connection = &mut self.connections[id as usize];
        (connection.next_waiter, connection.since) = (*waiter, now);
        *waiter = id;
    }

    fn page_read(&mut self, frame: u32, now: Nanos) {
        self.pool.read(frame);
        let mut id = std::mem::replace(self.pool.waiter(frame), NONE);
        while id != NONE {
            let connection = &mut self.connections[id as usize];
            self.counts.read_wait += now - connection.since;
            let next = connection.next_waiter;
            self.ready.push_back(id);
            id = next;
        }
    }

    fn commit(&mut self, id: u32, now: Nanos) {
        let connection = &mut self.connections[id as usize];
        if !connection.wrote || connection.work.rollback {
            return self.ended(id, now);
        }
        connection.since = now;
        self.counts.commits += 1;
        if !self.config.flush_at_commit {
            return self.ended(id, now);
        }
        if self.config.binlog_change > 0 {
            let bytes = u64::from(connection.work.logged) * u64::from(self.config.binlog_change);
            self.binlog.append(bytes);
        }
        self.redo.queue.push(id);
        self.write_redo();
    }

    fn ended(&mut self, id: u32, now: Nanos) {
        let connection = &self.connections[id as usize];
        let (kind, took) = (connection.kind, now - connection.began);
        self.counts.transactions[kind] += u64::from(!connection.work.rollback);
        self.counts.latency[kind] += took;
        self.latencies[kind].saturating_record(took / 1000);
        self.start(id, now);
    }

    // Flushing.

    /// The LRU flusher of an instance looks after its free frames.
    fn sweep(&mut self, now: Nanos, instance: usize) {
        let flusher = instance * 2;
        if self.flushers[flusher].batch.is_some() {
            return;
        }
        let mut frames = Vec::new();
        self.pool.sweep(instance, self.config.scan_depth, self.config.batch, &mut frames);
        self.feed(instance, now);
        self.gather(flusher, &frames, now);
    }

    /// Page cleaners that have nothing to do take up instances that still may write in this second.
    fn clean_more(&mut self, now: Nanos) {
        let busy =
            |flushers: &[Flusher]| flushers.iter().skip(1).step_by(2).filter(|f| f.batch.is_some()).count();
        for instance in 0..self.pool.instances() {
            if busy(&self.flushers) >= self.config.page_cleaners.max(1) as usize {
                return;
            }
            self.clean(now, instance);
        }
    }

    /// The flusher of an instance's dirty pages goes on with what it may write in this second.
    fn clean(&mut self, now: Nanos, instance: usize) {
        let flusher = instance * 2 + 1;
        let most = self.flushers[flusher].quota.min(self.config.batch);
        if most == 0 || self.flushers[flusher].batch.is_some() {
            return;
        }
        let mut frames = Vec::new();
        self.pool.oldest_dirty(instance, most, &mut frames);
        let done = if frames.is_empty() { most } else { frames.len() as u32 };
        self.flushers[flusher].quota -= done;
        self.gather(flusher, &frames, now);
    }

    fn gather(&mut self, flusher: usize, frames: &[u32], now: Nanos) {
        if frames.is_empty() {
            return;
        }
        let pages = frames.iter().map(|&frame| (frame, self.pool.newest(frame))).collect();
        self.flushers[flusher].batch = Some(Batch { phase: Phase::Gather, pages, parts: 0, unsynced: 0 });
        let time = self.config.flush_page * frames.len() as u64;
        self.at(now + time, Event::Gathered(flusher as u32));
    }

    /// Frames became free: who waited for one goes on.
    fn feed(&mut self, instance: usize, now: Nanos) {
        for _ in 0..self.pool.free(instance) {
            let Some(id) = self.starved[instance].pop_front() else { return };
            self.counts.free_wait += now - self.connections[id as usize].since;
            self.ready.push_back(id);
        }
    }

    fn batch(&mut self, flusher: u32) -> Option<&mut Batch> {
        self.flushers[flusher as usize].batch.as_mut()
    }

    fn gathered(&mut self, flusher: u32) {
        let Some(batch) = self.batch(flusher) else { return };
        batch.phase = Phase::Log;
        let newest = batch.pages.iter().map(|page| page.1).max().unwrap_or(0);
        if newest > self.redo.flushed {
            self.unlogged.push(flusher);
            self.write_redo();
        } else {
            self.logged(flusher);
        }
    }

    /// The log of a batch's changes may be durable now.
    fn logged(&mut self, flusher: u32) {
        let flushed = self.redo.flushed;
        let shards = self.shards.len();
        let Some(batch) = self.batch(flusher) else { return };
        if batch.pages.iter().any(|page| page.1 > flushed) {
            return self.unlogged.push(flusher);
        }
        if shards == 0 {
            return self.write_pages(flusher);
        }
        batch.phase = Phase::Shard;
        let shard = &mut self.shards[flusher as usize % shards];
        if shard.owner.is_some() {
            shard.queue.push_back(flusher);
        } else {
            shard.owner = Some(flusher);
            self.copy(flusher);
        }
    }

    /// A batch has its shard: it is written when the file is free.
    fn copy(&mut self, flusher: u32) {
        if self.copying.owner.is_some() {
            return self.copying.queue.push_back(flusher);
        }
        self.copying.owner = Some(flusher);
        self.write_copies(flusher);
    }

    /// A batch is in the doublewrite file: the next may be written.
    fn copied(&mut self) {
        self.copying.owner = self.copying.queue.pop_front();
        if let Some(next) = self.copying.owner {
            self.write_copies(next);
        }
    }

    fn write_copies(&mut self, flusher: u32) {
        let (Some(area), Some(doublewrite)) = (self.areas.copies, self.config.doublewrite) else { return };
        let shard = u64::from(flusher) % self.shards.len() as u64;
        let Some(batch) = self.batch(flusher) else { return };
        batch.phase = Phase::Copy;
        let bytes = batch.pages.len() as u64 * PAGE;
        let at = shard * u64::from(self.config.batch) * PAGE;
        let command = u64::from(doublewrite.command).max(PAGE) / 4096 * 4096;
        let parts = self.write(area, at, bytes, command, Purpose::Batch { flusher });
        if let Some(batch) = self.batch(flusher) {
            batch.parts = parts;
        }
        self.changed(durable::COPIES);
    }

    fn write_pages(&mut self, flusher: u32) {
        let Some(batch) = self.batch(flusher) else { return };
        batch.phase = Phase::Pages;
        batch.parts = batch.pages.len() as u32;
        let pages = batch.pages.clone();
        debug_assert!(pages.iter().all(|page| page.1 <= self.redo.flushed), "the log goes first");
        self.counts.page_writes += pages.len() as u64;
        if of_lru(flusher) {
            self.counts.lru_writes += pages.len() as u64;
        }
        for (frame, lsn) in pages {
            let page = self.pool.page(frame);
            self.changed(durable::TABLES + self.clients.tablespace(page));
            let place = self.place(page);
            self.submit(Verb::Write, place, Purpose::Page { flusher, frame, lsn });
        }
    }

    /// A command of a batch has ended.
    fn batch_done(&mut self, flusher: u32, now: Nanos) {
        let Some(batch) = self.batch(flusher) else { return };
        batch.parts -= 1;
        if batch.parts > 0 {
            return;
        }
        match batch.phase {
            Phase::Copy => {
                (batch.phase, batch.parts) = (Phase::CopySync, 1);
                self.copied();
                self.sync(durable::COPIES, Waiter::Batch(flusher));
            }
            Phase::CopySync => self.write_pages(flusher),
            Phase::Pages => self.sync_tables(flusher),
            Phase::PagesSync if batch.unsynced != 0 => self.sync_next(flusher),
            _ => {
                self.flushers[flusher as usize].batch = None;
                self.release_shard(flusher);
                let instance = flusher as usize / 2;
                if !of_lru(flusher) {
                    self.clean(now, instance);
                    self.clean_more(now);
                } else if self.pool.free(instance) < self.config.scan_depth as usize {
                    self.sweep(now, instance);
                }
            }
        }
    }

    fn release_shard(&mut self, flusher: u32) {
        if self.shards.is_empty() {
            return;
        }
        let count = self.shards.len();
        let shard = &mut self.shards[flusher as usize % count];
        shard.owner = shard.queue.pop_front();
        if let Some(next) = shard.owner {
            self.copy(next);
        }
    }

    fn page_written(&mut self, flusher: u32, frame: u32, lsn: u64, now: Nanos) {
        self.pool.written(frame, lsn);
        // Pages that the LRU flusher writes leave the pool.
        if of_lru(flusher) && self.pool.release(frame) {
            self.feed(flusher as usize / 2, now);
        }
        self.batch_done(flusher, now);
    }

    /// Pages that adaptive flushing has each instance write in this second: by the age of the log and by the share of dirty
    /// pages (`page_cleaner_flush_pages_recommendation`).
    fn quota(&self) -> u32 {
        let (capacity, most) = (u64::from(self.config.io_capacity), u64::from(self.config.io_capacity_max));
        let age = self.pool.oldest().map_or(0, |oldest| self.redo.end - oldest);
        let by_age = pressure(age, self.config.redo_capacity, (most / capacity.max(1)).max(1));
        let dirty = self.pool.dirty() * 100 / self.pool.frames();
        let by_dirty = if dirty >= self.config.dirty_low.into() {
            dirty * 100 / (u64::from(self.config.dirty_high) + 1)
        } else {
            0
        };
        let pages = (capacity * by_age.max(by_dirty) / 100).min(most);
        (pages / self.pool.instances() as u64) as u32
    }

    fn second(&mut self, now: Nanos) {
        if !self.config.flush_at_commit {
            self.log_due = true;
            self.write_redo();
        }
        let quota = self.quota();
        for instance in 0..self.pool.instances() {
            self.flushers[instance * 2 + 1].quota = quota;
            // Otherwise the connection that takes a frame starts the flusher.
            if !self.starved[instance].is_empty() {
                self.sweep(now, instance);
            }
        }
        self.clean_more(now);
        self.at(now + SECOND, Event::Second);
    }
}

impl Actor for Innodb {
    fn next(&mut self, now: Nanos) -> Next {
        self.now = now;
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
                    match event {
                        Event::Statement(id) => self.executed(id, now),
                        Event::Gathered(flusher) => self.gathered(flusher),
                        Event::Second => self.second(now),
                    }
                }
                Some(&Reverse((time, ..))) => return Next::At(time),
                None => return Next::Wait,
            }
        }
    }

    fn completed(&mut self, now: Nanos, tag: u32, ok: bool) {
        self.now = now;
        self.counts.failed += u64::from(!ok);
        let Some(place) = self.purposes.get_mut(tag as usize) else { return };
        let purpose = std::mem::replace(place, Purpose::Nothing);
        if purpose == Purpose::Nothing {
            return;
        }
        self.spare.push(tag);
        match purpose {
            Purpose::Nothing => {}
            Purpose::Read { frame } => self.page_read(frame, now),
            Purpose::Redo => self.redo_done(now),
            Purpose::Binlog => self.binlog_done(now),
            Purpose::Journal { of } => self.journal_done(of.into(), now),
            Purpose::Batch { flusher } => self.batch_done(flusher, now),
            Purpose::Page { flusher, frame, lsn } => self.page_written(flusher, frame, lsn, now),
        }
    }
}
