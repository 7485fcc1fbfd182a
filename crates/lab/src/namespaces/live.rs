//! Tests under the wall's clock, on a drive in this process.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use host::{Data, Host, Identity, IoQueue, Namespace, Queue, TransportError};
use nvme::{
    Command, IoCommand, Nsid,
    io::{Blocks, DsmRange},
    zerocopy::IntoBytes,
};
use run::{LocalQueue, LocalTransport, Running};
use workload::{Actor, Next, Request, Verb, act};

use super::{
    rig::{NQN, names},
    trial::{Counted, LARGE, Plan, Seen, Trial},
};
use crate::{control::Cancel, cpu};

/// Commands that a queue of small requests, and the one of large ones, may have outstanding.
const DEPTH: u16 = 1023;
/// How long is waited for what is outstanding at the end.
const AFTERWARDS: Duration = Duration::from_secs(30);
/// Where there is only one processor, the load's thread leaves it to the drive's for so long at most.
const NAP: Duration = Duration::from_millis(1);
/// Turns between two looks at what the user wants.
const LOOK: u64 = 4096;

/// A drive that runs under the wall's clock.
pub(super) struct LiveRig {
    // The host goes before the drive.
    host: Host<LocalTransport>,
    _running: Running,
    nsids: Vec<Nsid>,
    spaces: Vec<act::Space>,
    slow_motion: u32,
    cancel: Cancel,
}

impl LiveRig {
    pub(super) fn new(
        running: Running,
        nsids: Vec<Nsid>,
        spaces: Vec<act::Space>,
        slow_motion: u32,
        cancel: Cancel,
    ) -> Result<Self> {
        let identity = Identity::new(NQN.parse().map_err(|e| anyhow!("host NQN {NQN:?}: {e}"))?);
        let transport = LocalTransport::new(running.handle());
        let host = Host::connect(transport, &identity).context("connecting to the drive")?;
        Ok(Self { host, _running: running, nsids, spaces, slow_motion: slow_motion.max(1), cancel })
    }

    /// A test, on all namespaces; all times are the drive's.
    pub(super) fn test(mut self, plan: &Plan) -> Result<Trial> {
        let mut act = plan.act(names(&self.nsids), &self.spaces)?;
        let namespaces = self.nsids.clone().into_iter().map(|nsid| self.host.namespace(nsid));
        let namespaces: Vec<Namespace> = namespaces.collect::<Result<_, _>>()?;
        let queues = [self.host.io_queue(DEPTH)?, self.host.io_queue(DEPTH)?];
        if (queues[0].max_transfer() as u64) < LARGE {
            bail!(
                "the drive takes {} bytes in one command: live, it must take {LARGE}",
                queues[0].max_transfer()
            );
        }
        let before = Counted::read(&mut self.host)?;
        let (from, end) = plan.times();
        let mut seen = Seen::new(from, &self.spaces)?;
        let me = [("tranche", std::process::id())];
        let sample = cpu::Sample::take(&me);
        let mut wires = Wires::new(queues, namespaces, self.slow_motion, self.cancel.clone());
        let late = wires.play(&mut act, end, |request, now, latency| seen.add(request, now, latency))?;
        let behind = act.behind(end);
        // The test is over: it makes its last window.
        while let Next::Submit(_) = act.next(end) {}
        wires.drain()?;
        drop(wires);
        let cpu = cpu::Sample::take(&me).since(&sample, 1);
        let after = Counted::read(&mut self.host)?;
        let trial = seen.judge(plan, &act, behind, &before, &after)?;
        Ok(Trial { cpu, late_ms: late, ..trial })
    }
}

/// A request under way.
#[derive(Clone, Copy)]
struct Sent {
    request: Request,
    at: u64,
}

/// Queues of a host, and what is under way on them.
struct Wires {
    /// Of small requests, and of large ones.
    queues: [IoQueue<LocalQueue>; 2],
    /// The actor's tag of each of theirs.
    tags: [Vec<u32>; 2],
    /// What a queue has no place for yet.
    backlog: [VecDeque<u32>; 2],
    namespaces: Vec<Namespace>,
    /// By the actor's tag.
    sent: Vec<Option<Sent>>,
    /// Buffers that are not in use, of small and of large requests.
    buffers: [Vec<Vec<u8>>; 2],
    start: Instant,
    slow_motion: u64,
    processors: usize,
    cancel: Cancel,
}

impl Wires {
    fn new(
        queues: [IoQueue<LocalQueue>; 2],
        namespaces: Vec<Namespace>,
        slow_motion: u32,
        cancel: Cancel,
    ) -> Self {
        Self {
            queues,
            tags: [vec![0; usize::from(DEPTH)], vec![0; usize::from(DEPTH)]],
            backlog: Default::default(),
            namespaces,
            sent: Vec::new(),
            buffers: Default::default(),
            start: Instant::now(),
            slow_motion: slow_motion.into(),
            cancel,
            processors: std::thread::available_parallelism().map_or(1, Into::into),
        }
    }

    /// The drive's nanoseconds since the start.
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX) / self.slow_motion
    }

    /// Runs an actor until a time. This thread does not sleep where there is another processor for the drive's: to be woken up would be a part of what is
    /// measured. Returns by how much later than the actor wanted it was asked, on average, in milliseconds.
    fn play(
        &mut self,
        actor: &mut impl Actor,
        end: u64,
        mut ended: impl FnMut(&Request, u64, u64),
    ) -> Result<f64> {
        self.start = Instant::now();
        let (mut late, mut times, mut wake) = (0u64, 0u64, None);
        for turn in 0u64.. {
            if turn.is_multiple_of(LOOK) {
                self.cancel.check()?;
            }
            // The actor's time begins now.
            let now = if turn == 0 { 0 } else { self.now() };
            if now >= end {
                break;
            }
            if let Some(at) = wake
                && at <= now
            {
                late += now - at;
                times += 1;
            }
            wake = None;
            loop {
                match actor.next(now) {
                    Next::Submit(request) => self.send(request, now)?,
                    Next::At(at) => break wake = Some(at),
                    Next::Wait => break,
                    // It has stopped before its time.
                    Next::Done => return Ok(mean(late, times)),
                }
            }
            let found = self.reap(|now, sent, ok| {
                actor.completed(now, sent.request.tag, ok);
                ended(&sent.request, now, now.saturating_sub(sent.at));
            })?;
            if !found && self.processors == 1 {
                let span =
                    wake.map_or(u64::MAX, |at| at.saturating_sub(now).saturating_mul(self.slow_motion));
                std::thread::sleep(Duration::from_nanos(span).min(NAP));
            }
        }
        Ok(mean(late, times))
    }

    /// Waits for what is outstanding.
    fn drain(&mut self) -> Result<()> {
        let limit = Instant::now() + AFTERWARDS;
        for backlog in &mut self.backlog {
            backlog.clear();
        }
        while self.queues.iter_mut().any(|queue| queue.raw().outstanding() > 0) {
            self.cancel.check()?;
            if Instant::now() > limit {
                bail!("the drive leaves commands without an answer");
            }
            self.reap(|_, _, _| {})?;
        }
        Ok(())
    }

    /// Takes what has arrived; whether that was anything.
    fn reap(&mut self, mut ended: impl FnMut(u64, Sent, bool)) -> Result<bool> {
        let mut found = false;
        for index in 0..self.queues.len() {
            while let Some(done) = self.queues[index].raw().next(Some(Duration::ZERO))? {
                found = true;
                let tag = self.tags[index][usize::from(done.tag.0)];
                if let Data::In(bytes) | Data::Out(bytes) = done.data {
                    self.buffers[index].push(bytes);
                }
                let sent = self.sent.get_mut(tag as usize).and_then(Option::take);
                let sent = sent.context("the drive answered what nobody asked")?;
                ended(self.now(), sent, done.completion.status().is_success());
                if let Some(next) = self.backlog[index].pop_front() {
                    self.submit(index, next)?;
                }
            }
        }
        Ok(found)
    }

    fn send(&mut self, request: Request, now: u64) -> Result<()> {
        let tag = request.tag as usize;
        if self.sent.len() <= tag {
            self.sent.resize(tag + 1, None);
        }
        self.sent[tag] = Some(Sent { request, at: now });
        let block = u64::from(self.namespaces[usize::from(request.namespace)].block_size);
        let index = usize::from(u64::from(request.blocks) * block >= LARGE);
        self.submit(index, request.tag)
    }

    fn submit(&mut self, index: usize, tag: u32) -> Result<()> {
        let Some(Sent { request, .. }) = self.sent[tag as usize] else { return Ok(()) };
        let namespace = self.namespaces[usize::from(request.namespace)];
        let queue = self.queues[index].raw();
        if queue.outstanding() >= queue.capacity() {
            self.backlog[index].push_back(tag);
            return Ok(());
        }
        let mut buffer = || {
            let mut bytes = self.buffers[index].pop().unwrap_or_default();
            bytes.resize((u64::from(request.blocks) * u64::from(namespace.block_size)) as usize, 0);
            bytes
        };
        let fua = request.verb.fua();
        let (command, data): (Command, Data) = match request.verb {
            Verb::Read | Verb::ReadFua => {
                let range = namespace.checked_range(request.lba, request.blocks);
                (IoCommand::Read(Blocks { fua, ..range }).into(), Data::In(buffer()))
            }
            Verb::Write | Verb::WriteFua => {
                let range = namespace.range(request.lba, request.blocks);
                (IoCommand::Write(Blocks { fua, ..range }).into(), Data::Out(buffer()))
            }
            Verb::Copy { from, .. } => {
                let (command, source) =
                    host::copy_range(namespace.nsid, request.lba, from, request.blocks, fua);
                (command, Data::Out(source))
            }
            Verb::Trim => {
                let range = DsmRange::new(request.lba, request.blocks).as_bytes().to_vec();
                (Command::deallocate(namespace.nsid, 1), Data::Out(range))
            }
            Verb::WriteZeroes { deallocate } => {
                let (nsid, lba) = (namespace.nsid, request.lba);
                (Command::write_zeroes(nsid, lba, request.blocks, deallocate), Data::None)
            }
            Verb::Flush => (Command::flush(namespace.nsid), Data::None),
        };
        match queue.submit(command, data) {
            Ok(at) => self.tags[index][usize::from(at.0)] = tag,
            Err(TransportError::Full) => self.backlog[index].push_back(tag),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Milliseconds.
fn mean(nanos: u64, times: u64) -> f64 {
    nanos as f64 / times.max(1) as f64 / 1e6
}
