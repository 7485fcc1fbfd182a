//! One clone of a job on one I/O queue.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use host::{Data, Done, IoQueue, Namespace, Queue, TransportError};
use nvme::{Command, Status, io::DsmRange, zerocopy::IntoBytes};
use workload::{
    Actor, Next, Request, Rng, Verb,
    fio::{Job, Stats},
};

/// How long the drive may take until nothing is expected of it any more.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to sleep at most, so that a request to stop is seen.
const NAP: Duration = Duration::from_millis(100);

/// errno of an I/O error, and of contents that are not what they should be: fio's `error`.
pub(super) const EIO: i32 = 5;
pub(super) const EILSEQ: i32 = 84;

/// What the main thread sees of a worker meanwhile.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// I/Os and bytes: reads, writes, trims.
    pub ios: [AtomicU64; 3],
    pub bytes: [AtomicU64; 3],
    pub verifying: AtomicBool,
    pub done: AtomicBool,
}

/// How a clone ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub stats: Stats,
    /// errno, or 0.
    pub error: i32,
    /// What went wrong.
    pub problems: Vec<String>,
    /// What its thread used.
    pub usage: Usage,
    pub elapsed: Duration,
}

/// A request under way: parts of it that are not back.
#[derive(Clone, Copy, Default)]
struct Pending {
    request: Option<Request>,
    parts: u32,
    failed: bool,
}

/// A part of a request: from its byte `at` on, `len` bytes.
#[derive(Clone, Copy, Default)]
struct Part {
    tag: u32,
    at: u64,
    len: usize,
}

pub(super) struct Worker<'a, Q> {
    pub job: Job,
    pub queue: &'a mut IoQueue<Q>,
    pub namespace: Namespace,
    pub poll: bool,
    pub stop: &'a AtomicBool,
    pub shared: &'a Shared,
    start: Instant,
    pending: Vec<Pending>,
    /// By the queue's tag.
    parts: Vec<Part>,
    /// What the queue has no place for yet.
    backlog: VecDeque<Part>,
    buffers: Vec<Vec<u8>>,
    ranges: Vec<Vec<u8>>,
    /// Bytes of a command's data at most.
    most: u64,
    stamp: u64,
    zeroes: bool,
    first_failure: Option<(Request, Status)>,
}

impl<'a, Q: Queue> Worker<'a, Q> {
    pub fn new(
        job: Job,
        queue: &'a mut IoQueue<Q>,
        namespace: Namespace,
        poll: bool,
        stop: &'a AtomicBool,
        shared: &'a Shared,
        start: Instant,
    ) -> Result<Self, String> {
        let options = &job.plan().options;
        let unit = job.unit();
        // The limit of a command's data in whole units, and in 65,536 logical blocks.
        let most = (queue.max_transfer() as u64).min(u64::from(namespace.block_size) << 16);
        let most = most - most % unit;
        if most == 0 {
            return Err(format!(
                "the drive takes {} bytes in one command, less than the {unit} that are verified together: reduce \
                 verify_interval",
                queue.max_transfer()
            ));
        }
        let depth = options.iodepth as usize;
        let capacity = queue.raw().capacity();
        Ok(Self {
            pending: vec![Pending::default(); depth],
            parts: vec![Part::default(); capacity],
            backlog: VecDeque::with_capacity(depth),
            buffers: Vec::with_capacity(capacity),
            ranges: Vec::with_capacity(capacity),
            most,
            stamp: job.plan().seed,
            zeroes: options.zero_buffers,
            first_failure: None,
            job,
            queue,
            namespace,
            poll,
            stop,
            shared,
            start,
        })
    }

    /// Nanoseconds since the start of the run, never 0.
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    /// Runs the job to its end.
    pub fn run(mut self) -> Ended {
        let began = Instant::now();
        let before = Usage::of_this_thread();
        let broken = self.work().err();
        self.shared.done.store(true, Ordering::Release);
        let mut problems = Vec::new();
        let mut error = 0;
        if let Some((request, status)) = self.first_failure {
            error = EIO;
            problems.push(format!("{}: the drive answered: {status}", describe(&request, &self.namespace)));
        }
        let (mismatches, first) = self.job.mismatches();
        if mismatches > 0 {
            error = EILSEQ;
            problems.extend(first.iter().map(ToString::to_string));
            problems.push(format!("{mismatches} parts were not what was written"));
        }
        if let Some(broken) = broken {
            error = EIO;
            problems.push(broken.to_string());
        }
        Ended {
            stats: self.job.stats().clone(),
            error,
            problems,
            usage: Usage::of_this_thread().since(&before),
            elapsed: began.elapsed(),
        }
    }

    fn work(&mut self) -> Result<(), TransportError> {
        let mut heard = Instant::now();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                self.job.stop();
            }
            let now = self.now();
            let mut ended = false;
            let mut wake = None;
            let mut issued = false;
            loop {
                match self.job.next(now) {
                    Next::Submit(request) => {
                        self.split(&request);
                        self.submit()?;
                        issued = true;
                    }
                    Next::At(at) => {
                        wake = Some(at);
                        break;
                    }
                    Next::Wait => break,
                    Next::Done => {
                        ended = true;
                        break;
                    }
                }
            }
            if issued {
                self.queue.raw().flush()?;
                let now = self.now();
                self.job.submitted(now);
            }
            let nap = wake.map_or(NAP, |at| Duration::from_nanos(at.saturating_sub(self.now())).min(NAP));
            if self.queue.raw().outstanding() == 0 {
                if ended {
                    return Ok(());
                }
                if !self.poll {
                    std::thread::sleep(nap);
                }
                heard = Instant::now();
                continue;
            }
            let Some(done) = self.wait(nap, wake.is_some())? else {
                if heard.elapsed() > PATIENCE {
                    return Err(TransportError::Timeout(PATIENCE));
                }
                continue;
            };
            self.reap(done);
            heard = Instant::now();
            self.submit()?;
        }
    }

    /// The next completion: awaited for so long at most, or, when polling, for so many looks. `timed`: the job
    /// wants to be asked again at a certain time.
    fn wait(&mut self, nap: Duration, timed: bool) -> Result<Option<Done>, TransportError> {
        if !self.poll {
            return self.queue.raw().next(Some(nap));
        }
        let looks = if timed { 1 } else { 1024 };
        for _ in 0..looks {
            if let Some(done) = self.queue.raw().next(Some(Duration::ZERO))? {
                return Ok(Some(done));
            }
        }
        Ok(None)
    }

    /// Takes this completion and all that arrived with it.
    fn reap(&mut self, first: Done) {
        let now = self.now();
        let mut count = 0;
        let mut next = Some(first);
        while let Some(done) = next {
            count += usize::from(self.finish(done, now));
            next = self.queue.raw().arrived();
        }
        self.job.reaped(count);
        self.shared.verifying.store(self.job.is_verifying(), Ordering::Relaxed);
    }

    /// Cuts a request into what the drive takes in one command.
    fn split(&mut self, request: &Request) {
        let bytes = u64::from(request.blocks) * u64::from(self.namespace.block_size);
        let most = match request.verb {
            Verb::Read | Verb::Write => self.most,
            Verb::Trim | Verb::Flush => u64::MAX,
        };
        let mut parts = 0;
        let mut at = 0;
        loop {
            let len = (bytes - at).min(most);
            self.backlog.push_back(Part {
                tag: request.tag,
                at,
                len: usize::try_from(len).unwrap_or(usize::MAX),
            });
            parts += 1;
            at += len;
            if at >= bytes {
                break;
            }
        }
        self.pending[request.tag as usize] = Pending { request: Some(*request), parts, failed: false };
    }

    /// Hands to the queue what it has places for.
    fn submit(&mut self) -> Result<(), TransportError> {
        while let Some(part) = self.backlog.front().copied() {
            if self.queue.raw().outstanding() >= self.queue.raw().capacity() {
                return Ok(());
            }
            self.backlog.pop_front();
            let Some(request) = self.pending[part.tag as usize].request else { continue };
            let nsid = self.namespace.nsid;
            let block = u64::from(self.namespace.block_size);
            let lba = request.lba + part.at / block;
            let blocks = u32::try_from(part.len as u64 / block).unwrap_or(u32::MAX);
            let (command, data) = match request.verb {
                Verb::Read => (Command::read(nsid, lba, blocks), Data::In(self.buffer(part.len))),
                Verb::Write => {
                    let mut buffer = self.buffer(part.len);
                    self.fill(part, &mut buffer);
                    (Command::write(nsid, lba, blocks), Data::Out(buffer))
                }
                Verb::Trim => {
                    let mut range = self.ranges.pop().unwrap_or_default();
                    range.clear();
                    range.extend_from_slice(DsmRange::new(request.lba, request.blocks).as_bytes());
                    (Command::deallocate(nsid, 1), Data::Out(range))
                }
                Verb::Flush => (Command::flush(nsid), Data::None),
            };
            let tag = self.queue.raw().submit(command, data)?;
            let index = usize::from(tag.0);
            if index >= self.parts.len() {
                self.parts.resize(index + 1, Part::default());
            }
            self.parts[index] = part;
        }
        Ok(())
    }

    fn buffer(&mut self, len: usize) -> Vec<u8> {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        let had = buffer.len();
        buffer.resize(len, 0);
        if len > had {
            // What is written must not compress or be the same again.
            let mut rng = Rng::new(self.stamp);
            for chunk in buffer[had..].chunks_mut(8) {
                chunk.copy_from_slice(&rng.next_u64().to_le_bytes()[..chunk.len()]);
            }
        }
        buffer
    }

    fn fill(&mut self, part: Part, buffer: &mut [u8]) {
        if self.job.fill(part.tag, part.at, buffer) {
            return;
        }
        if self.zeroes {
            buffer.fill(0);
            return;
        }
        for sector in buffer.chunks_mut(512) {
            self.stamp = self.stamp.wrapping_add(0x9E37_79B9_7F4A_7C15);
            if let Some(first) = sector.first_chunk_mut::<8>() {
                *first = self.stamp.to_le_bytes();
            }
        }
    }

    /// A part is back; true if that completes its request.
    fn finish(&mut self, done: Done, now: u64) -> bool {
        let Some(part) = self.parts.get(usize::from(done.tag.0)).copied() else { return false };
        let pending = &mut self.pending[part.tag as usize];
        let Some(request) = pending.request else { return false };
        if let Err(status) = done.completion.status().ok() {
            pending.failed = true;
            self.first_failure.get_or_insert((request, status));
        } else if let (Verb::Read, Data::In(buffer)) = (request.verb, &done.data) {
            self.job.check(part.tag, part.at, buffer);
        }
        match request.verb {
            Verb::Read | Verb::Write => self.buffers.push(done.data.into_buffer()),
            Verb::Trim => self.ranges.push(done.data.into_buffer()),
            Verb::Flush => {}
        }
        pending.parts -= 1;
        if pending.parts > 0 {
            return false;
        }
        let failed = pending.failed;
        pending.request = None;
        let direction = match request.verb {
            Verb::Read => Some(0),
            Verb::Write => Some(1),
            Verb::Trim => Some(2),
            Verb::Flush => None,
        };
        if let Some(direction) = direction {
            // This thread alone writes them.
            let add = |counter: &AtomicU64, count| {
                counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
            };
            add(&self.shared.ios[direction], 1);
            add(
                &self.shared.bytes[direction],
                u64::from(request.blocks) * u64::from(self.namespace.block_size),
            );
        }
        self.job.completed(now, part.tag, !failed);
        true
    }
}

fn describe(request: &Request, namespace: &Namespace) -> String {
    let verb = match request.verb {
        Verb::Read => "reading",
        Verb::Write => "writing",
        Verb::Trim => "deallocating",
        Verb::Flush => return format!("flushing namespace {}", namespace.nsid),
    };
    let block = u64::from(namespace.block_size);
    format!(
        "{verb} {} bytes at offset {} of namespace {}",
        u64::from(request.blocks) * block,
        request.lba * block,
        namespace.nsid
    )
}

/// What a thread used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Seconds of a processor in this program and in the kernel.
    pub user: f64,
    pub system: f64,
    pub context_switches: u64,
    pub major_faults: u64,
    pub minor_faults: u64,
}

impl Usage {
    /// From /proc; zeroes where there is none.
    fn of_this_thread() -> Self {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
        let fields: Vec<u64> = stat
            .rsplit_once(") ")
            .map_or("", |(_, rest)| rest)
            .split(' ')
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or(0);
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        #[expect(clippy::cast_precision_loss, reason = "ticks stay far below 2^52")]
        let seconds = |count: u64| count as f64 / ticks as f64;
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
        let switches = switches.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum();
        Self {
            user: seconds(field(11)),
            system: seconds(field(12)),
            context_switches: switches,
            major_faults: field(9),
            minor_faults: field(7),
        }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            user: (self.user - before.user).max(0.0),
            system: (self.system - before.system).max(0.0),
            context_switches: self.context_switches.saturating_sub(before.context_switches),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.user += other.user;
        self.system += other.system;
        self.context_switches += other.context_switches;
        self.major_faults += other.major_faults;
        self.minor_faults += other.minor_faults;
    }
}
