//! The server: its pool and its log. Checkpoints and the background writer are in [`background`].

mod background;

use super::changed::Changed;
use super::checkpoint::{Background, Checkpoint, WRITE_DELAY};
use super::config::{Config, OwnCounts, PAGE};
use super::pool::{Pool, State};
use crate::database::{
    Area, Clients, Engine, Frames, Load, LoadOn, Log, Mixture, Pages, Schema, Server, Step, Storage, Tables,
    TransactionPlan, Volume,
};
use workload::Nanos;

/// The log takes this share of a namespace at most, if the data is there, too.
const LOG_SHARE: u64 = 8;

/// Who writes a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writer {
    /// A connection that needs its place.
    Connection(u32),
    Background,
    Checkpoint,
}

/// What a command was for.
#[derive(Clone, Copy)]
pub enum Purpose {
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
pub enum Event {
    /// A commit has waited for others.
    Delay,
    /// The log is flushed for nobody.
    WalWriter,
    /// The background writer looks again.
    Background,
    /// The checkpointer does.
    Checkpointer,
}

/// The parts of PostgreSQL.
pub struct PostgresqlEngine {
    config: Config,
    log: Area,
    pub(super) pool: Pool,
    wal: Log,
    changed: Changed,
    checkpoint: Checkpoint,
    background: Background,
    /// Pages that are to be written when their log is flushed.
    unlogged: Vec<(u32, u64, Writer)>,
    /// Connections that wait for a frame at which nobody is.
    starved: Vec<u32>,
    /// Segments of the log that are filled with zeroes.
    segments: u64,
}

/// The database server with its load, as an actor. Without end: [`Server::stop`] ends it.
pub type Postgresql = Server<PostgresqlEngine>;

type Loaded = LoadOn<PostgresqlEngine>;

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
        let count = tables.pages();
        let (log, area) = areas(&config, count)?;
        let mixture = Mixture {
            warehouses: config.warehouses,
            mix: config.mix,
            stock_statements: 0,
            stray: 0,
            seed: config.seed,
        };
        let load = Load::new(
            config.connections,
            config.cores,
            config.statement,
            Clients::new(Schema::Live, &mixture, tables),
            Pages { area, count, bytes: PAGE },
        );
        let engine = PostgresqlEngine {
            log,
            pool: Pool::new(config.pool_pages),
            wal: Log::new(PAGE),
            changed: Changed::new(count),
            checkpoint: Checkpoint::default(),
            background: Background::default(),
            unlogged: Vec::new(),
            starved: Vec::new(),
            segments: 0,
            config,
        };
        Some(Server::with(engine, load))
    }

    /// Where the log lies; it is written in a circle.
    pub fn log(&self) -> Area {
        self.engine.log
    }

    /// Where tables and indexes lie.
    pub fn data(&self) -> Area {
        self.load.pages.area
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
            self.load.clients.draw(&mut work);
            if !self.run_at_once(&work) {
                return;
            }
        }
        self.engine.wal.flushed = self.engine.wal.end;
    }
}

impl Engine for PostgresqlEngine {
    type Frame = State;
    type Event = Event;
    type Purpose = Purpose;
    type Counts = OwnCounts;

    fn frames(&mut self) -> &mut Frames<State> {
        &mut self.pool.frames
    }

    fn begin(&mut self, load: &mut Loaded) {
        self.begin_checkpoint(load);
        load.after(WRITE_DELAY, Event::Checkpointer);
        load.after(self.config.wal_writer_delay.max(1), Event::WalWriter);
        load.after(self.config.bgwriter_delay.max(1), Event::Background);
    }

    fn touch(&mut self, frame: u32, _: Nanos) {
        self.pool.touch(frame);
    }

    fn take(&mut self, load: &mut Loaded, id: u32, page: u64) -> Option<u32> {
        let frame = match self.pool.take() {
            Some(frame) => frame,
            None => {
                load.waits(id);
                let Some(frame) = self.pool.victim() else {
                    self.starved.push(id);
                    return None;
                };
                if self.pool.mark(frame) {
                    self.write_page(load, frame, Writer::Connection(id));
                    return None;
                }
                self.pool.evict(frame);
                self.pool.take()?
            }
        };
        self.pool.frames.insert(frame, page);
        self.background.taken += 1;
        Some(frame)
    }

    /// A dirty page whose place is needed is clean.
    fn take_at_once(&mut self, page: u64) -> Option<u32> {
        let free = self.pool.take();
        let frame = free.or_else(|| {
            let frame = self.pool.victim()?;
            self.pool.change(frame, 0);
            self.pool.evict(frame);
            self.pool.take()
        })?;
        self.pool.frames.insert(frame, page);
        Some(frame)
    }

    fn has_read(&mut self, load: &mut Loaded, frame: u32) {
        self.pool.touch(frame);
        self.feed(load);
    }

    /// The log has the change, and perhaps the page.
    fn change(&mut self, load: &mut Loaded, frame: u32, rows: u32) {
        let mut bytes = u64::from(self.config.record) * u64::from(rows.max(1));
        if self.config.full_page_writes && self.changed.is_first(self.pool.frames.page(frame)) {
            bytes += u64::from(self.config.image);
            load.counts.own.images += 1;
        }
        self.append(load, bytes);
        self.pool.change(frame, self.wal.end);
        // Only now: a checkpoint that begins here must find the page dirty.
        self.appended(load);
    }

    fn change_at_once(&mut self, frame: u32) {
        let lsn = self.wal.append(self.config.record.into());
        self.pool.change(frame, lsn);
    }

    fn commit(&mut self, load: &mut Loaded, id: u32) -> bool {
        self.append(load, self.config.commit_record.into());
        self.appended(load);
        if self.config.flush_at_commit {
            self.wal.queue.push(id);
            self.flush_wal(load);
        }
        self.config.flush_at_commit
    }

    fn happen(&mut self, load: &mut Loaded, event: Event) {
        match event {
            Event::Delay => self.write_wal(load),
            Event::WalWriter => {
                if self.wal.unwritten() > 0 {
                    self.wal.due = true;
                    self.flush_wal(load);
                }
                load.after(self.config.wal_writer_delay.max(1), Event::WalWriter);
            }
            Event::Background => self.look_ahead(load),
            Event::Checkpointer => self.wake_checkpointer(load),
        }
    }

    fn done(&mut self, load: &mut Loaded, purpose: Purpose) {
        match purpose {
            Purpose::Wal => self.wal_done(load),
            Purpose::Page { frame, lsn, writer } => self.page_written(load, frame, lsn, writer),
            Purpose::Sync => self.synced(load),
        }
    }
}

impl PostgresqlEngine {
    /// Bytes come to the log.
    fn append(&mut self, load: &mut Loaded, bytes: u64) {
        self.wal.append(bytes);
        load.counts.own.wal_bytes += bytes;
    }

    /// What follows from that: the log is written, or a checkpoint begins.
    fn appended(&mut self, load: &mut Loaded) {
        if self.wal.unwritten() > self.config.wal_buffers {
            self.wal.due = true;
            self.flush_wal(load);
        }
        self.look_at_log(load);
    }

    /// Begins a flush of the log, if one is wanted and none is under way.
    fn flush_wal(&mut self, load: &mut Loaded) {
        if self.wal.step != Step::Idle || !self.wal.is_wanted() {
            return;
        }
        let others = load.connections.len() as u32 - 1;
        let waits = !self.wal.due && self.config.commit_delay > 0 && others >= self.config.commit_siblings;
        if waits {
            self.wal.step = Step::Delay;
            load.after(self.config.commit_delay, Event::Delay);
        } else {
            self.write_wal(load);
        }
    }

    fn write_wal(&mut self, load: &mut Loaded) {
        let (from, bytes) = self.wal.begin();
        load.counts.groups += u64::from(!self.wal.group.is_empty());
        self.wal.parts = load.write_log(self.log, from, bytes, Purpose::Wal);
        let segment = self.config.new_segment;
        while segment > 0 && self.segments * segment < from + bytes {
            self.wal.parts += load.write_log(self.log, self.segments * segment, segment, Purpose::Wal);
            self.segments += 1;
        }
    }

    /// A command of the log has ended.
    fn wal_done(&mut self, load: &mut Loaded) {
        match self.wal.part_done() {
            Some(Step::Idle) => {}
            Some(_) => return load.flush(self.log.namespace, Purpose::Wal),
            None => return,
        }
        load.committed(&mut self.wal.group);
        for (frame, lsn, writer) in std::mem::take(&mut self.unlogged) {
            self.write_logged(load, frame, lsn, writer);
        }
        self.flush_wal(load);
    }

    /// A checkpoint is in the log.
    fn log_checkpoint(&mut self, load: &mut Loaded, bytes: u64) {
        self.append(load, bytes);
        self.wal.due = true;
        self.flush_wal(load);
        self.appended(load);
    }

    /// Writes a page that is marked, after the log of its changes.
    fn write_page(&mut self, load: &mut Loaded, frame: u32, writer: Writer) {
        self.write_logged(load, frame, self.pool.lsn(frame), writer);
        self.flush_wal(load);
    }

    fn write_logged(&mut self, load: &mut Loaded, frame: u32, lsn: u64, writer: Writer) {
        if lsn > self.wal.flushed {
            self.wal.due = true;
            return self.unlogged.push((frame, lsn, writer));
        }
        *match writer {
            Writer::Connection(_) => &mut load.counts.own.backend_writes,
            Writer::Background => &mut load.counts.own.background_writes,
            Writer::Checkpoint => &mut load.counts.own.checkpoint_writes,
        } += 1;
        load.write_page(self.pool.frames.page(frame), Purpose::Page { frame, lsn, writer });
    }

    fn page_written(&mut self, load: &mut Loaded, frame: u32, lsn: u64, writer: Writer) {
        self.pool.written(frame, lsn);
        match writer {
            Writer::Connection(id) => {
                self.pool.evict(frame);
                load.has_room(id);
            }
            Writer::Background => {}
            Writer::Checkpoint => {
                self.checkpoint.parts -= 1;
                self.go_on_with_checkpoint(load);
            }
        }
        self.feed(load);
    }

    /// Somebody has left a frame: who waits for one looks again.
    fn feed(&mut self, load: &mut Loaded) {
        self.starved.drain(..).for_each(|id| load.has_room(id));
    }
}
