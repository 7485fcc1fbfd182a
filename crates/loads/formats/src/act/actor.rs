//! The threads of the tool at work.

use super::config::{ActProgram, Config};
use super::host::HostTime;
use super::placement::{RequestPlacement, Space};
use super::rates::{Rate, Rates};
use super::report::{Stop, Window};
use super::tally::Tally;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use workload::{Actor, Nanos, Next, Request, Rng, Verb};

/// Pairs of a read and a write that a cache thread does at once.
const BUNDLE: u64 = 100;
/// How finely reads and writes of service threads are told apart.
const SPLIT: u64 = 1 << 20;
/// Failures that are told one by one.
const FAILURES: u64 = 10;
const SECOND: Nanos = 1_000_000_000;

/// What a thread does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// Small requests, at a rate.
    Service,
    /// Puts small reads, or small writes, into the queues.
    Generator {
        write: bool,
    },
    /// Does what is in a queue.
    Worker {
        queue: u32,
    },
    /// Large blocks of one device.
    LargeReads {
        device: u16,
    },
    LargeWrites {
        device: u16,
    },
    /// Reads a device from end to end.
    TombRaider {
        device: u16,
    },
    /// Reads and writes of `act_index` in turn.
    Cache,
}

/// A request of a thread.
#[derive(Clone, Copy, Debug)]
struct Io {
    device: u16,
    write: bool,
    lba: u64,
    blocks: u32,
    /// When it was generated.
    at: Nanos,
}

#[derive(Clone, Debug)]
struct Thread {
    role: Role,
    rng: Rng,
    /// Requests that it has done, or put into queues.
    count: u64,
    /// What it does, and since when the drive does.
    io: Option<Io>,
    issued: Nanos,
    /// Its write has ended, and is being made durable.
    flushing: bool,
    /// The host has done its part of the request.
    ready: bool,
}

/// Requests that wait for a thread, or threads that wait for a request.
#[derive(Clone, Debug, Default)]
struct ReqQueue {
    waiting: VecDeque<Io>,
    idle: Vec<u32>,
}

/// All threads of the tool on all of its devices: an actor over as many namespaces, in the order of `device-names`.
#[derive(Clone, Debug)]
pub struct Act {
    config: Config,
    rates: Rates,
    host: HostTime,
    spaces: Vec<Space>,
    places: Vec<RequestPlacement>,
    threads: Vec<Thread>,
    /// Threads that do not wait for the drive, by when they go on.
    asleep: BinaryHeap<Reverse<(Nanos, u32)>>,
    queues: Vec<ReqQueue>,
    /// Requests in the queues, and those that were, under way.
    queued: u64,
    /// Service threads that generate reads, and those that generate writes.
    generators: [u64; 2],
    start: Option<Nanos>,
    stop: Option<Stop>,
    done: bool,
    failed: u64,
    tally: Tally,
}

impl Act {
    /// The tool, about to start on these namespaces. Small reads are judged window by window of `window_sec` seconds (an hour,
    /// says the tool's README); 0 counts as 1.
    ///
    /// # Errors
    /// The configuration makes no sense, or does not fit a namespace.
    pub fn new(config: Config, spaces: &[Space], seed: u64, window_sec: u32) -> Result<Act, String> {
        config.check().map_err(|(_, problem)| problem)?;
        let rates = config.rates().map_err(|(_, problem)| problem)?;
        if spaces.len() != config.device_names.len() {
            let devices = config.device_names.len();
            return Err(format!(
                "device-names are {devices}: there are {} namespaces for them",
                spaces.len()
            ));
        }
        let mut places = Vec::with_capacity(spaces.len());
        for (name, space) in config.device_names.iter().zip(spaces) {
            places.push(RequestPlacement::new(&config, &rates, space).map_err(|e| format!("{name}: {e}"))?);
        }
        let generators = generators(&config, &rates);
        let threads = (0..).zip(roles(&config, &rates, generators)).map(|(number, role)| {
            let rng = Rng::new(seed ^ u64::from(number as u32).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            Thread { role, rng, count: 0, io: None, issued: 0, flushing: false, ready: false }
        });
        Ok(Act {
            threads: threads.collect(),
            asleep: BinaryHeap::new(),
            queues: vec![ReqQueue::default(); config.num_queues as usize],
            queued: 0,
            generators,
            start: None,
            stop: None,
            done: false,
            failed: 0,
            tally: Tally::new(&config, &rates, window_sec),
            host: HostTime::NONE,
            rates,
            places,
            spaces: spaces.to_vec(),
            config,
        })
    }

    /// On a host that takes time; before it starts.
    #[must_use]
    pub fn on_host(mut self, host: HostTime) -> Self {
        self.host = host;
        self
    }

    /// Keeps the tool's text from now on, its head first; [`Act::take_text`] gives it.
    #[must_use]
    pub fn with_text(mut self) -> Self {
        self.tally.print(&self.config, &self.rates, &self.spaces);
        self
    }

    /// The text since it was last taken. It grows until it is taken.
    pub fn take_text(&mut self) -> String {
        self.tally.take_text()
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Why it ended before its time, if it did.
    #[must_use]
    pub fn stopped(&self) -> Option<Stop> {
        self.stop
    }

    /// Requests that failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// The windows that are over.
    #[must_use]
    pub fn windows(&self) -> &[Window] {
        self.tally.windows()
    }

    /// Small reads since the last window's end.
    #[must_use]
    pub fn rest(&self) -> Window {
        self.tally.rest()
    }

    /// Whether nothing failed, nothing lagged, and all windows so far, also the one that is not over, keep within the limits.
    #[must_use]
    pub fn passes(&self) -> bool {
        let windows = self.windows().iter().all(Window::passes);
        self.stop.is_none() && self.failed == 0 && windows && self.rest().passes()
    }

    /// How far the thread that is furthest behind its rate is behind at `now`, and which kind of thread that is.
    #[must_use]
    pub fn behind(&self, now: Nanos) -> Option<(Nanos, Stop)> {
        let elapsed = self.elapsed(now);
        let lags = self.threads.iter().filter_map(|thread| {
            let (due, why) = self.due(thread)?;
            Some((elapsed.checked_sub(due)?, why))
        });
        lags.max_by_key(|(lag, _)| *lag)
    }

    /// Large blocks read and written.
    #[must_use]
    pub fn large_blocks(&self) -> [u64; 2] {
        [self.tally.large_reads.total(), self.tally.large_writes.total()]
    }

    fn elapsed(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.start.unwrap_or(now))
    }

    /// When the last report is made: at the first multiple of the interval that is not before the duration.
    fn end(&self) -> Nanos {
        let interval = u64::from(self.config.report_interval_sec.max(1));
        u64::from(self.config.test_duration_sec).next_multiple_of(interval) * SECOND
    }

    fn begin(&mut self, now: Nanos) {
        self.start = Some(now);
        for (number, thread) in (0..).zip(&self.threads) {
            match thread.role {
                Role::Worker { queue } => self.queues[queue as usize].idle.push(number),
                Role::TombRaider { .. } => {
                    let rest = Nanos::from(self.config.tomb_raider_sleep_usec) * 1000;
                    self.asleep.push(Reverse((now + rest, number)));
                }
                _ => {
                    let after = self.host.start.saturating_mul(number.into());
                    self.asleep.push(Reverse((now.saturating_add(after), number)));
                }
            }
        }
    }

    /// What a thread wants from the drive at `now`; nothing if it only wanted to put something into a queue.
    fn go_on(&mut self, number: u32, now: Nanos) -> Option<Request> {
        let thread = &mut self.threads[number as usize];
        if let Some(io) = thread.io
            && thread.flushing
        {
            let Io { device: namespace, .. } = io;
            return Some(Request { tag: number, verb: Verb::Flush, namespace, lba: 0, blocks: 0 });
        }
        if thread.ready
            && let Some(io) = thread.io
        {
            return Some(self.issue(number, io, now));
        }
        let devices = self.places.len() as u64;
        let (rates, kind) = (&self.rates, self.config.kind);
        let (write, fixed) = match thread.role {
            Role::Service => {
                let split = SPLIT * rates.reads / (rates.reads + rates.writes);
                (rates.writes != 0 && thread.rng.below(SPLIT) >= split, None)
            }
            Role::Generator { write } => (write, None),
            Role::Cache => (!thread.count.is_multiple_of(2), None),
            Role::LargeReads { device } | Role::TombRaider { device } => (false, Some(device)),
            Role::LargeWrites { device } => (true, Some(device)),
            Role::Worker { .. } => (false, None),
        };
        let io = match (thread.role, fixed) {
            (Role::Worker { .. }, _) => thread.io?,
            (role, Some(device)) => {
                let place = &self.places[usize::from(device)];
                let lba = match role {
                    Role::TombRaider { .. } => thread.count % place.large * u64::from(place.large_blocks),
                    _ => place.large(&mut thread.rng),
                };
                Io { device, write, lba, blocks: place.large_blocks, at: now }
            }
            (_, None) => {
                let device = thread.rng.below(devices) as u16;
                let (lba, blocks) = self.places[usize::from(device)].small(&mut thread.rng, kind);
                Io { device, write, lba, blocks, at: now }
            }
        };
        if let Role::Generator { .. } = thread.role {
            let queue = (thread.count % self.queues.len() as u64) as usize;
            self.put(queue, io, now);
            self.pace(number, now);
            return None;
        }
        let cost = self.host_time(number);
        if cost > 0 {
            let thread = &mut self.threads[number as usize];
            (thread.io, thread.ready) = (Some(io), true);
            self.asleep.push(Reverse((now.saturating_add(cost), number)));
            return None;
        }
        Some(self.issue(number, io, now))
    }

    /// What the host takes for the request that a thread is about to make.
    fn host_time(&self, number: u32) -> Nanos {
        let host = &self.host;
        match self.threads[number as usize].role {
            Role::LargeReads { .. } | Role::TombRaider { .. } => host.large_read,
            Role::LargeWrites { .. } => host.large_write.saturating_add(host.fill),
            Role::Service | Role::Worker { .. } | Role::Cache => host.small,
            Role::Generator { .. } => 0,
        }
    }

    /// The request that a thread makes now.
    fn issue(&mut self, number: u32, io: Io, now: Nanos) -> Request {
        let thread = &mut self.threads[number as usize];
        (thread.io, thread.ready) = (Some(io), false);
        thread.issued = now;
        let verb = if io.write { Verb::Write } else { Verb::Read };
        let Io { device: namespace, lba, blocks, .. } = io;
        Request { tag: number, verb, namespace, lba, blocks }
    }

    /// Puts a request into a queue.
    fn put(&mut self, queue: usize, io: Io, now: Nanos) {
        self.queued += 1;
        if self.queued > u64::from(self.config.max_reqs_queued) {
            return self.stop(Stop::Queued);
        }
        let queue = &mut self.queues[queue];
        match queue.idle.pop() {
            Some(worker) => {
                self.threads[worker as usize].io = Some(io);
                self.asleep.push(Reverse((now, worker)));
            }
            None => queue.waiting.push_back(io),
        }
    }

    fn stop(&mut self, why: Stop) {
        if self.stop.is_none() {
            self.stop = Some(why);
            self.tally.say(&why.text(self.config.kind));
        }
    }

    /// A thread has done another request: when it goes on.
    fn pace(&mut self, number: u32, now: Nanos) {
        let thread = &mut self.threads[number as usize];
        thread.count += 1;
        match thread.role {
            Role::Cache if !thread.count.is_multiple_of(2 * BUNDLE) => {
                return self.asleep.push(Reverse((now, number)));
            }
            Role::TombRaider { .. } => {
                let rest = Nanos::from(self.config.tomb_raider_sleep_usec) * 1000;
                return self.asleep.push(Reverse((now + rest, number)));
            }
            Role::Worker { queue } => {
                self.queued -= 1;
                let queue = &mut self.queues[queue as usize];
                thread.io = queue.waiting.pop_front();
                return match thread.io {
                    Some(_) => self.asleep.push(Reverse((now, number))),
                    None => queue.idle.push(number),
                };
            }
            _ => {}
        }
        let Some((due, why)) = self.due(&self.threads[number as usize]) else { return };
        // The tool reads its clock in whole microseconds.
        let elapsed = self.elapsed(now) / 1000 * 1000;
        let lag = Nanos::from(self.config.max_lag_sec) * SECOND;
        if lag != 0 && elapsed > due.saturating_add(lag) {
            self.stop(why);
        }
        let mut wait = due.saturating_sub(elapsed);
        if wait > 0 && self.host.slack > 0 {
            let slack = self.host.slack.saturating_add(1);
            wait = wait.saturating_add(self.threads[number as usize].rng.below(slack));
        }
        self.asleep.push(Reverse((now.saturating_add(wait), number)));
    }

    /// When a thread that has a rate is to go on after what it has done, since the start; and what it is if it cannot.
    fn due(&self, thread: &Thread) -> Option<(Nanos, Stop)> {
        let devices = self.places.len() as u64;
        let whole = |of: u64| Rate { of: of.max(1), per: 1 };
        let (rates, count) = (&self.rates, thread.count);
        Some(match thread.role {
            Role::Service => {
                let each = (rates.reads + rates.writes) / u64::from(self.config.service_threads);
                (whole(each).due(count, 1), Stop::Service)
            }
            Role::Generator { write } => {
                let all = if write { rates.writes } else { rates.reads };
                let each = all / self.generators[usize::from(write)];
                (whole(each).due(count, 1), Stop::Service)
            }
            Role::LargeReads { .. } => (rates.large_reads.due(count, devices), Stop::LargeBlockReads),
            Role::LargeWrites { .. } => (rates.large_writes.due(count, devices), Stop::LargeBlockWrites),
            Role::Cache => {
                let among = devices * u64::from(self.config.cache_threads);
                // It looks at the clock after each bundle only.
                (whole(rates.cache).due(count / (2 * BUNDLE) * BUNDLE, among), Stop::Cache)
            }
            Role::TombRaider { .. } | Role::Worker { .. } => return None,
        })
    }

    fn count(&mut self, number: u32, now: Nanos, ok: bool) {
        let thread = &self.threads[number as usize];
        let Some(io) = thread.io else { return };
        if !ok {
            self.failed += 1;
            if self.failed <= FAILURES {
                let what = if io.write { "writing" } else { "reading" };
                let name = &self.config.device_names[usize::from(io.device)];
                let text = format!("ERROR: {what} {name}: 5 'Input/output error'\n");
                self.tally.say(&text);
            }
            return;
        }
        let issued = now.saturating_sub(thread.issued);
        match thread.role {
            Role::LargeReads { .. } => self.tally.large_reads.add(issued),
            Role::LargeWrites { .. } => self.tally.large_writes.add(issued),
            Role::TombRaider { .. } => {}
            _ => {
                let latency = now.saturating_sub(io.at);
                self.tally.small(io.write, usize::from(io.device), latency, issued);
            }
        }
    }
}

/// Service threads that generate reads, and those that generate writes.
fn generators(config: &Config, rates: &Rates) -> [u64; 2] {
    let all = u64::from(config.service_threads);
    if rates.writes == 0 {
        return [all, 0];
    }
    let reads = (all * rates.reads / (rates.reads + rates.writes)).max(1);
    [reads, all.saturating_sub(reads).max(1)]
}

/// The threads, in the order in which the tool starts them.
fn roles(config: &Config, rates: &Rates, generators: [u64; 2]) -> Vec<Role> {
    let mut roles = Vec::new();
    let devices = 0..config.device_names.len() as u16;
    for device in devices.clone() {
        if rates.large_reads.of != 0 {
            roles.push(Role::LargeReads { device });
        }
        if rates.large_writes.of != 0 {
            roles.push(Role::LargeWrites { device });
        }
    }
    if config.tomb_raider && config.kind == ActProgram::Storage {
        roles.extend(devices.map(|device| Role::TombRaider { device }));
    }
    if rates.cache != 0 {
        roles.extend((0..config.cache_threads).map(|_| Role::Cache));
    }
    if rates.reads + rates.writes == 0 {
        return roles;
    }
    if config.num_queues == 0 {
        roles.extend((0..config.service_threads).map(|_| Role::Service));
        return roles;
    }
    for (write, rate) in [(false, rates.reads), (true, rates.writes)] {
        if rate != 0 {
            roles.extend((0..generators[usize::from(write)]).map(|_| Role::Generator { write }));
        }
    }
    for queue in 0..config.num_queues {
        roles.extend((0..config.threads_per_queue).map(|_| Role::Worker { queue }));
    }
    roles
}

impl Actor for Act {
    fn next(&mut self, now: Nanos) -> Next {
        if self.done {
            return Next::Done;
        }
        if self.start.is_none() {
            self.begin(now);
        }
        let start = self.start.unwrap_or(now);
        let end = self.end();
        self.tally.pass(self.elapsed(now).min(end), self.queued);
        if self.stop.is_some() {
            // The tool still makes the report that it was waiting for.
            self.tally.report(self.queued);
            self.done = true;
            return Next::Done;
        }
        if self.elapsed(now) >= end {
            self.done = true;
            return Next::Done;
        }
        while let Some(&Reverse((at, number))) = self.asleep.peek() {
            if at > now {
                return Next::At(at.min(start.saturating_add(self.tally.next())).min(start + end));
            }
            self.asleep.pop();
            if let Some(request) = self.go_on(number, now) {
                return Next::Submit(request);
            }
            if self.stop.is_some() {
                return self.next(now);
            }
        }
        Next::At(start.saturating_add(self.tally.next().min(end)))
    }

    fn completed(&mut self, now: Nanos, tag: u32, ok: bool) {
        if self.done || tag as usize >= self.threads.len() {
            return;
        }
        self.tally.pass(self.elapsed(now).min(self.end()), self.queued);
        let thread = &mut self.threads[tag as usize];
        if let Some(io) = thread.io
            && ok
            && io.write
            && !thread.flushing
            && self.places[usize::from(io.device)].volatile_cache
        {
            thread.flushing = true;
            return self.asleep.push(Reverse((now, tag)));
        }
        thread.flushing = false;
        self.count(tag, now, ok);
        self.threads[tag as usize].io = None;
        self.pace(tag, now);
    }
}
