//! The server: its pool and its flushers.

mod durable;

use super::config::{Config, PAGE};
use super::flush::{Batch, Flusher, Phase, Shard};
use super::journal::{File, Journal, Waiter};
use super::log::{SECOND, in_blocks, pressure};
use super::pool::{Pool, State};
use super::space::Areas;
use crate::database::{
    Clients, Engine, Frames, Load, LoadOn, Log, Mixture, Pages, Server, Storage, TABLESPACES, Tables,
    TransactionPlan,
};
use std::collections::VecDeque;
use workload::Nanos;

/// Whether a flusher is one of the LRU lists.
fn of_lru(flusher: u32) -> bool {
    flusher.is_multiple_of(2)
}

/// What a command was for.
#[derive(Clone, Copy)]
pub enum Purpose {
    Redo,
    Binlog,
    Journal { of: u16 },
    Batch { flusher: u32 },
    Page { flusher: u32, frame: u32, lsn: u64 },
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Event {
    /// A flusher has its batch together.
    Gathered(u32),
    /// Adaptive flushing decides again.
    Second,
}

/// The parts of InnoDB, and the server's binary log.
pub struct InnodbEngine {
    config: Config,
    areas: Areas,
    pool: Pool,
    redo: Log,
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
    /// The pool's own clock runs ahead of the actor's by what it was warmed.
    warmed: Nanos,
}

/// The database server with its load, as an actor. Without end: [`Server::stop`] ends it.
pub type Innodb = Server<InnodbEngine>;

type Loaded = LoadOn<InnodbEngine>;

impl Innodb {
    /// The model; `None` if the namespaces are too small for its files.
    pub fn new(config: Config) -> Option<Innodb> {
        let tables = Tables::new(config.schema, config.warehouses, Storage::Clustered);
        let areas = Areas::new(&config, tables.pages())?;
        let pool = Pool::new(&config);
        let instances = pool.instances();
        let mixture = Mixture {
            warehouses: config.warehouses,
            mix: config.mix,
            stock_statements: config.stock_statements,
            stray: config.stray,
            seed: config.seed,
        };
        let pages = Pages { area: areas.data, count: tables.pages(), bytes: PAGE };
        let load = Load::new(
            config.connections,
            config.cores,
            config.statement,
            Clients::new(config.schema, &mixture, tables),
            pages,
        );
        let engine = InnodbEngine {
            areas,
            redo: Log::new(durable::BLOCK),
            binlog: Log::new(durable::BLOCK),
            journals: [Journal::new(), Journal::new()],
            files: [File::NEW; durable::TABLES + TABLESPACES],
            flushers: vec![Flusher { batch: None, quota: 0 }; instances * 2],
            shards: vec![Shard::default(); config.doublewrite.map_or(0, |d| d.shards.max(1) as usize)],
            copying: Shard::default(),
            unlogged: Vec::new(),
            starved: vec![VecDeque::new(); instances],
            warmed: 0,
            pool,
            config,
        };
        Some(Server::with(engine, load))
    }

    /// Where its files lie.
    pub fn areas(&self) -> &Areas {
        &self.engine.areas
    }

    /// Dirty pages of the pool, per mille.
    pub fn dirty_per_mille(&self) -> u64 {
        self.engine.pool.dirty() * 1000 / u64::from(self.engine.pool.frames.len())
    }

    /// Fills the pool by running so many transactions without a drive, each `interval` after the one before: pages are there at once.
    /// A dirty page that would have been written is clean. To be called before it begins. `go_on` is asked after each second; when it says no,
    /// the rest is left out.
    pub fn warm(&mut self, transactions: u64, interval: Nanos, mut go_on: impl FnMut() -> bool) {
        let mut work = TransactionPlan::default();
        let mut second = self.engine.warmed + SECOND;
        for _ in 0..transactions {
            self.load.clients.draw(&mut work);
            self.engine.warmed += interval;
            while second <= self.engine.warmed {
                second += SECOND;
                if !go_on() {
                    return;
                }
                self.engine.clean_at_once();
            }
            if !self.run_at_once(&work) {
                return;
            }
        }
        self.engine.redo.flushed = self.engine.redo.end;
    }
}

impl Engine for InnodbEngine {
    type Frame = State;
    type Event = Event;
    type Purpose = Purpose;
    type Counts = ();

    fn frames(&mut self) -> &mut Frames<State> {
        &mut self.pool.frames
    }

    fn begin(&mut self, load: &mut Loaded) {
        load.after(SECOND, Event::Second);
        for instance in 0..self.pool.instances() {
            self.sweep(load, instance);
        }
    }

    fn touch(&mut self, frame: u32, now: Nanos) {
        self.pool.touch(frame, self.warmed + now);
    }

    fn take(&mut self, load: &mut Loaded, id: u32, page: u64) -> Option<u32> {
        let instance = self.pool.instance(page);
        let taken = self.pool.take(instance);
        if self.pool.free(instance) < self.config.scan_depth as usize / 2 {
            self.sweep(load, instance);
        }
        match taken {
            Some(frame) => self.pool.insert(frame, page),
            None => {
                load.waits(id);
                self.starved[instance].push_back(id);
            }
        }
        taken
    }

    /// A dirty page that would have been written is clean.
    fn take_at_once(&mut self, page: u64) -> Option<u32> {
        let instance = self.pool.instance(page);
        let free = self.pool.take(instance);
        let frame = free.or_else(|| {
            let mut batch = Vec::new();
            self.pool.sweep(instance, self.config.scan_depth, self.config.batch, &mut batch);
            self.written_at_once(&mut batch);
            self.pool.take(instance)
        })?;
        self.pool.insert(frame, page);
        Some(frame)
    }

    fn change(&mut self, _: &mut Loaded, frame: u32, _: u32) {
        self.change_at_once(frame);
    }

    fn change_at_once(&mut self, frame: u32) {
        let lsn = self.redo.append(in_blocks(self.config.redo_change.into()));
        self.pool.change(frame, lsn);
    }

    fn commit(&mut self, load: &mut Loaded, id: u32) -> bool {
        if self.config.flush_at_commit {
            let rows = load.connections[id as usize].work.logged;
            self.binlog.append(u64::from(rows) * u64::from(self.config.binlog_change));
            self.redo.queue.push(id);
            self.write_redo(load);
        }
        self.config.flush_at_commit
    }

    fn happen(&mut self, load: &mut Loaded, event: Event) {
        match event {
            Event::Gathered(flusher) => self.gathered(load, flusher),
            Event::Second => self.second(load),
        }
    }

    fn done(&mut self, load: &mut Loaded, purpose: Purpose) {
        match purpose {
            Purpose::Redo => self.redo_done(load),
            Purpose::Binlog => self.binlog_done(load),
            Purpose::Journal { of } => self.journal_done(load, of.into()),
            Purpose::Batch { flusher } => self.batch_done(load, flusher),
            Purpose::Page { flusher, frame, lsn } => self.page_written(load, flusher, frame, lsn),
        }
    }
}

impl InnodbEngine {
    /// What adaptive flushing writes in a second, without a drive.
    fn clean_at_once(&mut self) {
        let quota = self.quota();
        let mut batch = Vec::new();
        for instance in 0..self.pool.instances() {
            self.pool.oldest_dirty(instance, quota, &mut batch);
            self.written_at_once(&mut batch);
        }
    }

    fn written_at_once(&mut self, batch: &mut Vec<u32>) {
        for frame in batch.drain(..) {
            let lsn = self.pool.newest(frame);
            self.pool.written(frame, lsn);
        }
    }

    /// The LRU flusher of an instance looks after its free frames.
    fn sweep(&mut self, load: &mut Loaded, instance: usize) {
        let flusher = instance * 2;
        if self.flushers[flusher].batch.is_some() {
            return;
        }
        let mut frames = Vec::new();
        self.pool.sweep(instance, self.config.scan_depth, self.config.batch, &mut frames);
        self.feed(load, instance);
        self.gather(load, flusher, &frames);
    }

    /// Page cleaners that have nothing to do take up instances that still may write in this second.
    fn clean_more(&mut self, load: &mut Loaded) {
        let busy =
            |flushers: &[Flusher]| flushers.iter().skip(1).step_by(2).filter(|f| f.batch.is_some()).count();
        for instance in 0..self.pool.instances() {
            if busy(&self.flushers) >= self.config.page_cleaners.max(1) as usize {
                return;
            }
            self.clean(load, instance);
        }
    }

    /// The flusher of an instance's dirty pages goes on with what it may write in this second.
    fn clean(&mut self, load: &mut Loaded, instance: usize) {
        let flusher = instance * 2 + 1;
        let most = self.flushers[flusher].quota.min(self.config.batch);
        if most == 0 || self.flushers[flusher].batch.is_some() {
            return;
        }
        let mut frames = Vec::new();
        self.pool.oldest_dirty(instance, most, &mut frames);
        let done = if frames.is_empty() { most } else { frames.len() as u32 };
        self.flushers[flusher].quota -= done;
        self.gather(load, flusher, &frames);
    }

    fn gather(&mut self, load: &mut Loaded, flusher: usize, frames: &[u32]) {
        if frames.is_empty() {
            return;
        }
        let pages = frames.iter().map(|&frame| (frame, self.pool.newest(frame))).collect();
        self.flushers[flusher].batch = Some(Batch { phase: Phase::Gather, pages, parts: 0, unsynced: 0 });
        let time = self.config.flush_page * frames.len() as u64;
        load.after(time, Event::Gathered(flusher as u32));
    }

    /// Frames became free: who waited for one goes on.
    fn feed(&mut self, load: &mut Loaded, instance: usize) {
        for _ in 0..self.pool.free(instance) {
            let Some(id) = self.starved[instance].pop_front() else { return };
            load.has_room(id);
        }
    }

    fn batch(&mut self, flusher: u32) -> Option<&mut Batch> {
        self.flushers[flusher as usize].batch.as_mut()
    }

    fn gathered(&mut self, load: &mut Loaded, flusher: u32) {
        let Some(batch) = self.batch(flusher) else { return };
        batch.phase = Phase::Log;
        let newest = batch.pages.iter().map(|page| page.1).max().unwrap_or(0);
        if newest > self.redo.flushed {
            self.unlogged.push(flusher);
            self.write_redo(load);
        } else {
            self.logged(load, flusher);
        }
    }

    /// The log of a batch's changes may be durable now.
    fn logged(&mut self, load: &mut Loaded, flusher: u32) {
        let flushed = self.redo.flushed;
        let shards = self.shards.len();
        let Some(batch) = self.batch(flusher) else { return };
        if batch.pages.iter().any(|page| page.1 > flushed) {
            return self.unlogged.push(flusher);
        }
        if shards == 0 {
            return self.write_pages(load, flusher);
        }
        batch.phase = Phase::Shard;
        let shard = &mut self.shards[flusher as usize % shards];
        if shard.owner.is_some() {
            shard.queue.push_back(flusher);
        } else {
            shard.owner = Some(flusher);
            self.copy(load, flusher);
        }
    }

    /// A batch has its shard: it is written when the file is free.
    fn copy(&mut self, load: &mut Loaded, flusher: u32) {
        if self.copying.owner.is_some() {
            return self.copying.queue.push_back(flusher);
        }
        self.copying.owner = Some(flusher);
        self.write_copies(load, flusher);
    }

    /// A batch is in the doublewrite file: the next may be written.
    fn copied(&mut self, load: &mut Loaded) {
        self.copying.owner = self.copying.queue.pop_front();
        if let Some(next) = self.copying.owner {
            self.write_copies(load, next);
        }
    }

    fn write_copies(&mut self, load: &mut Loaded, flusher: u32) {
        let (Some(area), Some(doublewrite)) = (self.areas.copies, self.config.doublewrite) else { return };
        let shard = u64::from(flusher) % self.shards.len() as u64;
        let Some(batch) = self.batch(flusher) else { return };
        batch.phase = Phase::Copy;
        let bytes = batch.pages.len() as u64 * PAGE;
        let at = shard * u64::from(self.config.batch) * PAGE;
        let command = u64::from(doublewrite.command).max(PAGE) / 4096 * 4096;
        let parts = load.write(area, at, bytes, command, Purpose::Batch { flusher });
        if let Some(batch) = self.batch(flusher) {
            batch.parts = parts;
        }
        self.changed(load, durable::COPIES);
    }

    fn write_pages(&mut self, load: &mut Loaded, flusher: u32) {
        let Some(batch) = self.batch(flusher) else { return };
        batch.phase = Phase::Pages;
        batch.parts = batch.pages.len() as u32;
        let pages = batch.pages.clone();
        debug_assert!(pages.iter().all(|page| page.1 <= self.redo.flushed), "the log goes first");
        for (frame, lsn) in pages {
            let page = self.pool.frames.page(frame);
            self.changed(load, durable::TABLES + load.clients.tablespace(page));
            load.write_page(page, Purpose::Page { flusher, frame, lsn });
        }
    }

    /// A command of a batch has ended.
    fn batch_done(&mut self, load: &mut Loaded, flusher: u32) {
        let Some(batch) = self.batch(flusher) else { return };
        batch.parts -= 1;
        if batch.parts > 0 {
            return;
        }
        match batch.phase {
            Phase::Copy => {
                (batch.phase, batch.parts) = (Phase::CopySync, 1);
                self.copied(load);
                self.sync(load, durable::COPIES, Waiter::Batch(flusher));
            }
            Phase::CopySync => self.write_pages(load, flusher),
            Phase::Pages => self.sync_tables(load, flusher),
            Phase::PagesSync if batch.unsynced != 0 => self.sync_next(load, flusher),
            _ => {
                self.flushers[flusher as usize].batch = None;
                self.release_shard(load, flusher);
                let instance = flusher as usize / 2;
                if !of_lru(flusher) {
                    self.clean(load, instance);
                    self.clean_more(load);
                } else if self.pool.free(instance) < self.config.scan_depth as usize {
                    self.sweep(load, instance);
                }
            }
        }
    }

    fn release_shard(&mut self, load: &mut Loaded, flusher: u32) {
        if self.shards.is_empty() {
            return;
        }
        let count = self.shards.len();
        let shard = &mut self.shards[flusher as usize % count];
        shard.owner = shard.queue.pop_front();
        if let Some(next) = shard.owner {
            self.copy(load, next);
        }
    }

    fn page_written(&mut self, load: &mut Loaded, flusher: u32, frame: u32, lsn: u64) {
        self.pool.written(frame, lsn);
        // Pages that the LRU flusher writes leave the pool.
        if of_lru(flusher) && self.pool.release(frame) {
            self.feed(load, flusher as usize / 2);
        }
        self.batch_done(load, flusher);
    }

    /// Pages that adaptive flushing has each instance write in this second: by the age of the log and by the share of dirty
    /// pages (`page_cleaner_flush_pages_recommendation`).
    fn quota(&self) -> u32 {
        let (capacity, most) = (u64::from(self.config.io_capacity), u64::from(self.config.io_capacity_max));
        let age = self.pool.oldest().map_or(0, |oldest| self.redo.end - oldest);
        let by_age = pressure(age, self.config.redo_capacity, (most / capacity.max(1)).max(1));
        let dirty = self.pool.dirty() * 100 / u64::from(self.pool.frames.len());
        let by_dirty = if dirty >= self.config.dirty_low.into() {
            dirty * 100 / (u64::from(self.config.dirty_high) + 1)
        } else {
            0
        };
        let pages = (capacity * by_age.max(by_dirty) / 100).min(most);
        (pages / self.pool.instances() as u64) as u32
    }

    fn second(&mut self, load: &mut Loaded) {
        if !self.config.flush_at_commit {
            self.redo.due = true;
            self.write_redo(load);
        }
        let quota = self.quota();
        for instance in 0..self.pool.instances() {
            self.flushers[instance * 2 + 1].quota = quota;
            // Otherwise the connection that takes a frame starts the flusher.
            if !self.starved[instance].is_empty() {
                self.sweep(load, instance);
            }
        }
        self.clean_more(load);
        load.after(SECOND, Event::Second);
    }
}
