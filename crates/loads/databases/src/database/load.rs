//! The load on a server: connections, the processors that they share, and what is under way.

use super::clients::Clients;
use super::counts::Counts;
use super::space::{Area, BlockRange, Pages};
use super::tpcc::TransactionPlan;
use hdrhistogram::Histogram;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use workload::{Nanos, Request, Verb};

/// What a command was for; `T` is what the server's own are for.
#[derive(Clone, Copy)]
pub(super) enum Purpose<T> {
    /// A page is read into this frame.
    Read(u32),
    Own(T),
}

/// What happens at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event<T> {
    /// A connection's statement is done.
    Statement(u32),
    Own(T),
}

#[derive(Default)]
pub(crate) struct Connection {
    pub(crate) work: TransactionPlan,
    /// Its place in counts and latencies.
    kind: usize,
    /// The next use.
    pub(super) at: usize,
    /// Whether its statement has been executed, and its inner page been used.
    pub(super) executed: bool,
    pub(super) descended: bool,
    pub(super) wrote: bool,
    began: Nanos,
    /// Since when it waits.
    since: Nanos,
    pub(super) next_waiter: u32,
}

/// Latencies in microseconds, up to ten minutes, to three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000, 3).unwrap_or_else(|_| unreachable!("the bounds are valid"))
}

/// The load on a server whose own events, commands and counts are `V`, `P` and `C`.
pub struct Load<V, P, C> {
    /// The time of the call that the server is in.
    pub(crate) now: Nanos,
    pub(crate) counts: Counts<C>,
    /// Where the database lies.
    pub(crate) pages: Pages,
    pub(crate) clients: Clients,
    pub(crate) connections: Vec<Connection>,
    /// Connections that go on now.
    pub(super) ready: VecDeque<u32>,
    cores: u32,
    /// The time of a statement.
    statement: Nanos,
    /// Processors in use, and statements that wait for one.
    running: u32,
    statements: VecDeque<(u32, Nanos)>,
    pub(super) events: BinaryHeap<Reverse<(Nanos, u64, Event<V>)>>,
    serial: u64,
    pub(super) outgoing: VecDeque<Request>,
    /// What the command under way with each tag is for.
    pub(super) purposes: Vec<Option<Purpose<P>>>,
    pub(super) spare: Vec<u32>,
    pub(super) latencies: [Histogram<u64>; 5],
    pub(super) commits: Histogram<u64>,
}

impl<V: Ord, P: Copy, C: Default> Load<V, P, C> {
    pub(crate) fn new(
        connections: u32,
        cores: u32,
        statement: Nanos,
        clients: Clients,
        pages: Pages,
    ) -> Self {
        Load {
            now: 0,
            counts: Counts::default(),
            pages,
            clients,
            connections: (0..connections.max(1)).map(|_| Connection::default()).collect(),
            ready: VecDeque::new(),
            cores,
            statement,
            running: 0,
            statements: VecDeque::new(),
            events: BinaryHeap::new(),
            serial: 0,
            outgoing: VecDeque::new(),
            purposes: Vec::new(),
            spare: Vec::new(),
            latencies: std::array::from_fn(|_| histogram()),
            commits: histogram(),
        }
    }

    /// Something of the server's own happens after so long.
    pub(crate) fn after(&mut self, time: Nanos, event: V) {
        self.schedule(time, Event::Own(event));
    }

    fn schedule(&mut self, time: Nanos, event: Event<V>) {
        self.serial += 1;
        self.events.push(Reverse((self.now + time, self.serial, event)));
    }

    pub(super) fn submit(&mut self, verb: Verb, place: BlockRange, purpose: Purpose<P>) {
        let tag = self.spare.pop().unwrap_or_else(|| {
            self.purposes.push(None);
            self.purposes.len() as u32 - 1
        });
        self.purposes[tag as usize] = Some(purpose);
        let BlockRange { namespace, lba, blocks } = place;
        self.outgoing.push_back(Request { tag, verb, namespace, lba, blocks });
    }

    pub(crate) fn flush(&mut self, namespace: u16, purpose: P) {
        self.submit(Verb::Flush, BlockRange { namespace, lba: 0, blocks: 0 }, Purpose::Own(purpose));
    }

    /// Writes a page in place.
    pub(crate) fn write_page(&mut self, page: u64, purpose: P) {
        self.counts.page_writes += 1;
        self.submit(Verb::Write, self.pages.place(page), Purpose::Own(purpose));
    }

    /// Writes from a position of an area on, in commands of `most` bytes at most; how many.
    pub(crate) fn write(&mut self, area: Area, from: u64, bytes: u64, most: u64, purpose: P) -> u32 {
        let (mut at, mut left, mut parts) = (from, bytes, 0);
        while left > 0 {
            let now = left.min(most);
            self.submit(Verb::Write, area.place(at, now), Purpose::Own(purpose));
            (at, left, parts) = (at + now, left - now, parts + 1);
        }
        parts
    }

    /// The same to a log's file, in commands of 128 KiB at most.
    pub(crate) fn write_log(&mut self, area: Area, from: u64, bytes: u64, purpose: P) -> u32 {
        self.counts.log_bytes += bytes;
        self.write(area, from, bytes, 128 << 10, purpose)
    }

    /// A connection begins to wait.
    pub(crate) fn waits(&mut self, id: u32) {
        self.connections[id as usize].since = self.now;
    }

    /// How long a connection has waited.
    pub(super) fn waited(&self, id: u32) -> Nanos {
        self.now - self.connections[id as usize].since
    }

    /// There is room for the page that a connection waits for.
    pub(crate) fn has_room(&mut self, id: u32) {
        self.counts.free_wait += self.waited(id);
        self.ready.push_back(id);
    }

    /// A connection begins its next transaction.
    pub(super) fn start(&mut self, id: u32) {
        let connection = &mut self.connections[id as usize];
        connection.kind = self.clients.draw(&mut connection.work);
        (connection.at, connection.executed, connection.descended) = (0, false, false);
        (connection.wrote, connection.began) = (false, self.now);
        self.ready.push_back(id);
    }

    /// A connection has a processor execute statements.
    pub(super) fn execute(&mut self, id: u32, statements: u32) {
        self.waits(id);
        let time = self.statement * u64::from(statements);
        if self.running < self.cores {
            self.running += 1;
            self.run(id, time);
        } else {
            self.statements.push_back((id, time));
        }
    }

    fn run(&mut self, id: u32, time: Nanos) {
        self.counts.busy += time;
        self.schedule(time, Event::Statement(id));
    }

    /// A statement is done: its processor takes the next.
    pub(super) fn executed(&mut self, id: u32) {
        self.counts.processor += self.waited(id);
        match self.statements.pop_front() {
            Some((next, time)) => self.run(next, time),
            None => self.running -= 1,
        }
        self.ready.push_back(id);
    }

    /// The commits of a group are durable.
    pub(crate) fn committed(&mut self, group: &mut Vec<u32>) {
        for id in group.drain(..) {
            let took = self.waited(id);
            self.counts.commit_wait += took;
            self.commits.saturating_record(took / 1000);
            self.ended(id);
        }
    }

    pub(super) fn ended(&mut self, id: u32) {
        let connection = &self.connections[id as usize];
        let (kind, took) = (connection.kind, self.now - connection.began);
        self.counts.transactions[kind] += u64::from(!connection.work.rollback);
        self.counts.latency[kind] += took;
        self.latencies[kind].saturating_record(took / 1000);
        self.start(id);
    }
}
