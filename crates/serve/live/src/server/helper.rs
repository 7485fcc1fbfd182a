//! The cryptography of hosts that connect, on a thread of its own: a Diffie-Hellman exchange takes milliseconds, and commands of
//! other hosts are not to wait for it.
//!
//! There is one thread, so hosts take turns: networks, and in a network its hosts. A host waits for one job of each other
//! network, and not for all that one of them has begun. Anybody of its network can claim to be a host. So of a host's jobs the shortest comes
//! first: who asks for the longest exchanges delays those who do the same.

use super::connection_id::ConnectionId;
use crate::wake::Sleeper;
use fabric::Tag;
use fabric::auth::Target;
use host::fill_random;
use nvme::Nqn;
use peers::Network;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// What is to be done for a connection. The connection takes no further commands until it is.
pub(super) enum Task {
    /// A message of DH-HMAC-CHAP has come with the command of this tag.
    Message { tag: Tag, chap: Box<Target>, message: Vec<u8> },
    /// Something of a TLS handshake has come, or its first bytes may have.
    Handshake { session: Box<tls::Session<TcpStream>>, result: io::Result<()> },
}

/// A task and whose it is.
pub(super) struct Job {
    pub(super) connection: ConnectionId,
    pub(super) task: Task,
}

impl Job {
    fn run(&mut self) {
        match &mut self.task {
            Task::Message { chap, message, .. } => chap.take(message, &mut fill_random),
            Task::Handshake { session, result } => *result = session.handshake(),
        }
    }

    /// How long the job is, in no unit.
    fn length(&self) -> usize {
        match &self.task {
            Task::Message { chap, message, .. } => chap.exchange_bytes(message),
            Task::Handshake { .. } => 0,
        }
    }

    /// The host that it claims to be for; nobody knows before a TLS handshake is over.
    fn host(&self) -> Option<Nqn> {
        match &self.task {
            Task::Message { chap, .. } => Some(chap.parties().host),
            Task::Handshake { .. } => None,
        }
    }
}

/// Jobs of a host, of a network or of all.
type Lanes<K, L> = VecDeque<(K, L)>;

/// Jobs of one host, with their lengths: the shortest first, and those of one length as they came.
#[derive(Default)]
struct HostJobs(BTreeMap<(usize, u64), Job>);

/// Jobs that wait. Networks take turns, and so do the hosts of each.
#[derive(Default)]
struct Waiting {
    networks: Lanes<Network, Lanes<Option<Nqn>, HostJobs>>,
    /// Jobs that ever came.
    count: u64,
    /// The thread is to end.
    end: bool,
}

/// What waits of `key`. A newcomer is the last to have its turn.
fn lane<K: PartialEq, L: Default>(lanes: &mut Lanes<K, L>, key: K) -> &mut L {
    let at = lanes.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
        lanes.push_back((key, L::default()));
        lanes.len() - 1
    });
    &mut lanes[at].1
}

impl Waiting {
    fn push(&mut self, network: Network, job: Job) {
        let (host, length) = (job.host(), job.length());
        self.count += 1;
        lane(lane(&mut self.networks, network), host).0.insert((length, self.count), job);
    }

    fn pop(&mut self) -> Option<Job> {
        let (network, mut hosts) = self.networks.pop_front()?;
        let (host, mut jobs) = hosts.pop_front()?;
        let job = jobs.0.pop_first();
        if !jobs.0.is_empty() {
            hosts.push_back((host, jobs));
        }
        if !hosts.is_empty() {
            self.networks.push_back((network, hosts));
        }
        job.map(|(_, job)| job)
    }

    /// Drops the job of a connection that has ended: a host that comes and goes leaves no work behind.
    fn forget(&mut self, connection: ConnectionId) {
        for (_, hosts) in &mut self.networks {
            for (_, jobs) in hosts.iter_mut() {
                jobs.0.retain(|_, job| job.connection != connection);
            }
            hosts.retain(|(_, jobs)| !jobs.0.is_empty());
        }
        self.networks.retain(|(_, hosts)| !hosts.is_empty());
    }
}

/// Where the server leaves jobs for the thread.
#[derive(Default)]
struct Desk {
    waiting: Mutex<Waiting>,
    news: Condvar,
}

impl Desk {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nothing that holds it panics.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job; `None` at the end.
    fn next(&self) -> Option<Job> {
        let mut waiting = self.waiting();
        loop {
            if waiting.end {
                return None;
            }
            if let Some(job) = waiting.pop() {
                return Some(job);
            }
            waiting = self.news.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The thread, from its first job on.
pub(super) struct Helper {
    sleeper: Arc<Sleeper>,
    worker: Option<Worker>,
    /// Whether there may be a thread. A test that repeats a run has none.
    threaded: bool,
}

struct Worker {
    desk: Arc<Desk>,
    done: Receiver<Job>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    pub(super) fn new(sleeper: Arc<Sleeper>) -> Self {
        Helper { sleeper, worker: None, threaded: true }
    }

    /// Does all work at once, in the thread that asks for it.
    pub(super) fn at_once(&mut self) {
        self.threaded = false;
    }

    /// Has a job of a network done. It comes back by [`finished`](Self::finished), after the sleeper was rung; or at once, done,
    /// where there is no thread.
    pub(super) fn take(&mut self, network: Network, mut job: Job) -> Option<Job> {
        if self.worker.is_none() && self.threaded {
            self.worker = Worker::start(self.sleeper.clone()).ok();
        }
        let Some(worker) = &self.worker else {
            job.run();
            return Some(job);
        };
        worker.desk.waiting().push(network, job);
        worker.desk.news.notify_one();
        None
    }

    /// A job that is done.
    pub(super) fn finished(&self) -> Option<Job> {
        self.worker.as_ref()?.done.try_recv().ok()
    }

    /// A connection has ended: its job is not done, unless the thread has begun it.
    pub(super) fn forget(&self, connection: ConnectionId) {
        if let Some(worker) = &self.worker {
            worker.desk.waiting().forget(connection);
        }
    }
}

impl Worker {
    fn start(sleeper: Arc<Sleeper>) -> io::Result<Self> {
        let desk = Arc::new(Desk::default());
        let (outbox, done) = mpsc::channel();
        let at = desk.clone();
        let thread = std::thread::Builder::new().name("tranche-auth".to_owned()).spawn(move || {
            while let Some(mut job) = at.next() {
                job.run();
                if outbox.send(job).is_err() {
                    break;
                }
                sleeper.ring();
            }
        })?;
        Ok(Worker { desk, done, thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.desk.waiting().end = true;
        self.desk.news.notify_one();
        if let Some(thread) = self.thread.take() {
            // It ends after the job that it has. A panic of it is told by the panic itself.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabric::auth::{AuthStep, ChapKey, ChapKeys, Host as ChapHost, Methods, Parties};
    use nvme::auth::DhGroupId;

    fn job(host: &str, index: u32) -> Job {
        let host = Nqn::new(&format!("nqn.2026-11.test:{host}")).unwrap();
        let key = ChapKey::generate(None, Some(32), &mut |bytes| bytes.fill(7)).unwrap();
        let keys = ChapKeys { host: key, controller: None };
        let chap = Box::new(Target::new(Parties { host, subsystem: host }, keys, Methods::default()));
        let tag = Tag::from_bits(index);
        let connection = ConnectionId { index, generation: 0 };
        Job { connection, task: Task::Message { tag, chap, message: Vec::new() } }
    }

    /// Hosts with a hundred handshakes each, and one with one: how many others' come before it.
    #[test]
    fn a_host_waits_for_one_handshake_of_each_other_one() {
        let far = |last| Network::V4([192, 0, 2, last].into());
        // The honest host comes from the attackers' network, and from one of its own.
        for (own, most) in [(Network::Loopback, 2), (far(9), 1)] {
            let mut waiting = Waiting::default();
            for index in 0..100 {
                waiting.push(Network::Loopback, job(if index % 2 == 0 { "one" } else { "two" }, index));
            }
            waiting.push(own, job("honest", 1000));
            let before =
                std::iter::from_fn(|| waiting.pop()).take_while(|job| job.connection.index != 1000).count();
            assert!(before <= most, "{before} others came before it");
            assert_eq!(std::iter::from_fn(|| waiting.pop()).count(), 100 - before, "all have their turn");
        }
    }

    /// Somebody of its network claims to be the honest host, and asks for the longest exchanges.
    #[test]
    fn a_host_does_not_wait_for_longer_exchanges_in_its_name() {
        let negotiation = |group| {
            let Job { task: Task::Message { chap, .. }, .. } = job("honest", 0) else { unreachable!() };
            let methods = Methods { dh_groups: vec![group], ..Methods::default() };
            let key = ChapKey::generate(None, Some(32), &mut |bytes| bytes.fill(7)).unwrap();
            let mut host =
                ChapHost::new(chap.parties(), ChapKeys { host: key, controller: None }, methods, 7);
            match host.step(None, &mut |bytes| bytes.fill(1)) {
                AuthStep::Send(message) => message,
                other => panic!("{other:?}"),
            }
        };
        let asks = |index, asked: &[u8]| {
            let Job { connection, task } = job("honest", index);
            let Task::Message { tag, chap, .. } = task else { unreachable!() };
            Job { connection, task: Task::Message { tag, chap, message: asked.to_vec() } }
        };
        let (long, short) = (negotiation(DhGroupId::FFDHE8192), negotiation(DhGroupId::FFDHE3072));
        let mut waiting = Waiting::default();
        (0..100).for_each(|index| waiting.push(Network::Loopback, asks(index, &long)));
        (1000..1002).for_each(|index| waiting.push(Network::Loopback, asks(index, &short)));
        let order: Vec<u32> = std::iter::from_fn(|| waiting.pop()).map(|job| job.connection.index).collect();
        assert_eq!(order, [1000, 1001].into_iter().chain(0..100).collect::<Vec<u32>>());
    }

    #[test]
    fn a_connection_that_ends_leaves_no_work() {
        let mut waiting = Waiting::default();
        for index in 0..1000 {
            waiting.push(Network::Loopback, job("host", index));
            waiting.forget(ConnectionId { index, generation: 0 });
        }
        assert!(waiting.networks.is_empty());
    }
}
