//! A database server with its load, as one actor. Connections run transactions without pause: processors execute their statements, pages that they
//! use are in the pool or are read, and commits wait. All else is the server's own: an [`Engine`].

use super::counts::Counts;
use super::frames::{Frames, NONE};
use super::load::{Event, Load, Purpose};
use super::tpcc::TransactionPlan;
use hdrhistogram::Histogram;
use std::cmp::Reverse;
use workload::{Actor, Nanos, Next, Verb};

/// The load on an engine.
pub(crate) type LoadOn<E> = Load<<E as Engine>::Event, <E as Engine>::Purpose, <E as Engine>::Counts>;

/// What a server has of its own: its pool, its log, and what works in the background.
pub trait Engine: Sized {
    /// What its pool knows of a frame.
    type Frame: Copy;
    /// What happens at a time of its own.
    type Event: Copy + Ord;
    /// What its commands are for.
    type Purpose: Copy;
    /// What it counts beside the load.
    type Counts: Copy + Default;

    /// The frames of its pool.
    fn frames(&mut self) -> &mut Frames<Self::Frame>;

    /// The background begins.
    fn begin(&mut self, load: &mut LoadOn<Self>);

    /// A page in the pool is used.
    fn touch(&mut self, frame: u32, now: Nanos);

    /// Puts a page that is not there in a frame. `None`: the connection waits for one.
    fn take(&mut self, load: &mut LoadOn<Self>, id: u32, page: u64) -> Option<u32>;

    /// The same without a drive; `None` if there is no room.
    fn take_at_once(&mut self, page: u64) -> Option<u32>;

    /// A page has been read.
    fn has_read(&mut self, _load: &mut LoadOn<Self>, _frame: u32) {}

    /// So many rows change on a page.
    fn change(&mut self, load: &mut LoadOn<Self>, frame: u32, rows: u32);

    /// A page changes without a drive.
    fn change_at_once(&mut self, frame: u32);

    /// A transaction that wrote commits; whether it waits for its [group](Load::committed).
    fn commit(&mut self, load: &mut LoadOn<Self>, id: u32) -> bool;

    /// What was to happen now.
    fn happen(&mut self, load: &mut LoadOn<Self>, event: Self::Event);

    /// A command has ended.
    fn done(&mut self, load: &mut LoadOn<Self>, purpose: Self::Purpose);
}

/// The database server with its load, as an actor. Without end: [`Server::stop`] ends it.
pub struct Server<E: Engine> {
    pub(crate) engine: E,
    pub(crate) load: LoadOn<E>,
    begun: bool,
    stopped: bool,
}

impl<E: Engine> Server<E> {
    pub(crate) fn with(engine: E, load: LoadOn<E>) -> Self {
        Server { engine, load, begun: false, stopped: false }
    }

    /// Pages of the database; more than the data's area holds if it is folded.
    pub fn data_pages(&self) -> u64 {
        self.load.pages.count
    }

    /// What it has done.
    pub fn counts(&self) -> Counts<E::Counts> {
        self.load.counts
    }

    /// Latencies of transactions in microseconds since it began or they were last forgotten, in the order of
    /// [`TransactionKind::ALL`](super::TransactionKind::ALL); sysbench's are the first.
    pub fn latencies(&self) -> &[Histogram<u64>; 5] {
        &self.load.latencies
    }

    /// The same of commits that wrote and waited.
    pub fn commits(&self) -> &Histogram<u64> {
        &self.load.commits
    }

    /// Forgets the latencies so far.
    pub fn forget_latencies(&mut self) {
        self.load.latencies.iter_mut().for_each(Histogram::reset);
        self.load.commits.reset();
    }

    /// No further commands: it is done when those under way have ended.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.load.outgoing.clear();
    }

    /// The time of its next event, if it has one.
    pub fn wait(&self) -> Option<Nanos> {
        match self.begun {
            false => Some(0),
            true => self.load.events.peek().map(|event| event.0.0),
        }
    }

    /// Runs a transaction without a drive: pages are there at once. False if the pool has no room.
    pub(crate) fn run_at_once(&mut self, work: &TransactionPlan) -> bool {
        for one in &work.uses {
            for page in [one.path.inner, one.path.leaf] {
                let found = self.engine.frames().find(page);
                let Some(frame) = found.or_else(|| self.engine.take_at_once(page)) else { return false };
                self.engine.frames().read(frame);
                self.engine.touch(frame, self.load.now);
                if one.change && (page == one.path.leaf || one.insert) {
                    self.engine.change_at_once(frame);
                }
            }
        }
        true
    }

    fn begin(&mut self) {
        self.begun = true;
        for id in 0..self.load.connections.len() as u32 {
            self.load.start(id);
        }
        self.engine.begin(&mut self.load);
    }

    /// Lets a connection go on until it has to wait.
    fn go_on(&mut self, id: u32) {
        loop {
            let connection = &mut self.load.connections[id as usize];
            let Some(&one) = connection.work.uses.get(connection.at) else { return self.commit(id) };
            if !connection.executed {
                connection.executed = true;
                if one.statements > 0 {
                    return self.load.execute(id, one.statements);
                }
            }
            if !connection.descended {
                if self.use_page(id, one.path.inner).is_none() {
                    return;
                }
                self.load.connections[id as usize].descended = true;
            }
            let Some(frame) = self.use_page(id, one.path.leaf) else { return };
            let mut index = None;
            if one.insert {
                // The leaf of the index may have left while the page was read.
                let frames = self.engine.frames();
                index = frames.find(one.path.inner).filter(|&index| !frames.is_reading(index));
                if index.is_none() {
                    self.load.connections[id as usize].descended = false;
                    continue;
                }
            }
            if one.change {
                for frame in [Some(frame), index].into_iter().flatten() {
                    self.engine.change(&mut self.load, frame, one.rows);
                }
                self.load.connections[id as usize].wrote = true;
            }
            let connection = &mut self.load.connections[id as usize];
            connection.at += 1;
            (connection.executed, connection.descended) = (false, false);
        }
    }

    /// The frame of a page, if it is there; else the connection waits, and asks again.
    fn use_page(&mut self, id: u32, page: u64) -> Option<u32> {
        if let Some(frame) = self.engine.frames().find(page) {
            if self.engine.frames().is_reading(frame) {
                self.wait_for(id, frame);
                return None;
            }
            self.load.counts.uses += 1;
            self.engine.touch(frame, self.load.now);
            return Some(frame);
        }
        let frame = self.engine.take(&mut self.load, id, page)?;
        self.load.counts.page_reads += 1;
        self.wait_for(id, frame);
        self.load.submit(Verb::Read, self.load.pages.place(page), Purpose::Read(frame));
        None
    }

    fn wait_for(&mut self, id: u32, frame: u32) {
        self.load.waits(id);
        let waiter = self.engine.frames().waiter(frame);
        self.load.connections[id as usize].next_waiter = std::mem::replace(waiter, id);
    }

    fn page_read(&mut self, frame: u32) {
        self.engine.frames().read(frame);
        let mut id = std::mem::replace(self.engine.frames().waiter(frame), NONE);
        while id != NONE {
            self.load.counts.read_wait += self.load.waited(id);
            self.load.ready.push_back(id);
            id = self.load.connections[id as usize].next_waiter;
        }
        self.engine.has_read(&mut self.load, frame);
    }

    fn commit(&mut self, id: u32) {
        let connection = &self.load.connections[id as usize];
        if connection.wrote && !connection.work.rollback {
            self.load.waits(id);
            self.load.counts.commits += 1;
            if self.engine.commit(&mut self.load, id) {
                return;
            }
        }
        self.load.ended(id);
    }
}

impl<E: Engine> Actor for Server<E> {
    fn next(&mut self, now: Nanos) -> Next {
        self.load.now = now;
        if self.stopped {
            return Next::Done;
        }
        if !self.begun {
            self.begin();
        }
        loop {
            if let Some(request) = self.load.outgoing.pop_front() {
                return Next::Submit(request);
            }
            if let Some(id) = self.load.ready.pop_front() {
                self.go_on(id);
                continue;
            }
            match self.load.events.peek() {
                Some(&Reverse((time, _, event))) if time <= now => {
                    self.load.events.pop();
                    match event {
                        Event::Statement(id) => self.load.executed(id),
                        Event::Own(event) => self.engine.happen(&mut self.load, event),
                    }
                }
                Some(&Reverse((time, ..))) => return Next::At(time),
                None => return Next::Wait,
            }
        }
    }

    fn completed(&mut self, now: Nanos, tag: u32, ok: bool) {
        self.load.now = now;
        self.load.counts.failed += u64::from(!ok);
        let Some(purpose) = self.load.purposes.get_mut(tag as usize).and_then(Option::take) else { return };
        self.load.spare.push(tag);
        match purpose {
            Purpose::Read(frame) => self.page_read(frame),
            Purpose::Own(purpose) => self.engine.done(&mut self.load, purpose),
        }
    }
}
