//! The cryptography of hosts that connect, on a thread of its own: a Diffie-Hellman exchange takes milliseconds, and commands of
//! other hosts are not to wait for it.

use super::connection_id::ConnectionId;
use crate::wake::Sleeper;
use fabric::Tag;
use fabric::auth::Target;
use host::fill_random;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
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
}

/// The thread, from its first job on.
pub(super) struct Helper {
    sleeper: Arc<Sleeper>,
    worker: Option<Worker>,
    /// Whether there may be a thread. A test that repeats a run has none.
    threaded: bool,
}

struct Worker {
    /// `None` when the thread is to end.
    jobs: Option<Sender<Job>>,
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

    /// Has a job done. It comes back by [`finished`](Self::finished), after the sleeper was rung; or at once, done, where there is
    /// no thread.
    pub(super) fn take(&mut self, mut job: Job) -> Option<Job> {
        if self.worker.is_none() && self.threaded {
            self.worker = Worker::start(self.sleeper.clone()).ok();
        }
        if let Some(jobs) = self.worker.as_ref().and_then(|worker| worker.jobs.as_ref()) {
            match jobs.send(job) {
                Ok(()) => return None,
                Err(mpsc::SendError(back)) => job = back,
            }
        }
        job.run();
        Some(job)
    }

    /// A job that is done.
    pub(super) fn finished(&self) -> Option<Job> {
        self.worker.as_ref()?.done.try_recv().ok()
    }
}

impl Worker {
    fn start(sleeper: Arc<Sleeper>) -> io::Result<Self> {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let (outbox, done) = mpsc::channel();
        let thread = std::thread::Builder::new().name("tranche-auth".to_owned()).spawn(move || {
            for mut job in inbox {
                job.run();
                if outbox.send(job).is_err() {
                    break;
                }
                sleeper.ring();
            }
        })?;
        Ok(Worker { jobs: Some(jobs), done, thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It ends after the jobs that it has. A panic of it is told by the panic itself.
            let _ = thread.join();
        }
    }
}
