//! The thread of a queue: it takes requests from the kernel, and tells it what is done.

use super::abi::ABORT;
use super::reply::{Answers, Reply};
use super::requests::{Action, carry_out};
use super::ring::{Arrival, QueueRing};
use crate::file_table::File;
use crate::request_queue::RequestQueue;
use fuser::Errno;
use rustix::event::EventfdFlags;
use std::fs::File as SystemFile;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// Starts the thread of a queue, which ends when the device is stopped. It has given all its places to the kernel when this returns.
///
/// # Errors
/// What the kernel says.
pub fn serve(
    device: &SystemFile,
    queue: u16,
    depth: u16,
    requests: Arc<RequestQueue>,
    file: Arc<File>,
) -> io::Result<JoinHandle<()>> {
    let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
    let answers = Arc::new(Answers::new(device.try_clone()?, queue, event));
    let device = device.try_clone()?;
    let (started, news) = mpsc::channel();
    let run = move || match QueueRing::new(device, queue, depth, answers.clone()) {
        Ok(ring) => {
            let _ = started.send(Ok(()));
            let name = file.name();
            let places = depth.into();
            if let Err(error) = (Queue { ring, answers, requests, file, places, over: false }).run() {
                tracing::error!(%error, "{name}: a queue of its ublk device has failed: its requests fail");
            }
        }
        Err(error) => {
            let _ = started.send(Err(error));
        }
    };
    let thread = std::thread::Builder::new().name(format!("ublk-{queue}")).spawn(run)?;
    match news.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::Error::other("the thread of a queue panicked")),
    }
}

struct Queue {
    ring: QueueRing,
    answers: Arc<Answers>,
    requests: Arc<RequestQueue>,
    file: Arc<File>,
    /// Places for requests that can be used.
    places: u32,
    /// Whether the device was stopped.
    over: bool,
}

impl Queue {
    /// Until the device is stopped.
    fn run(mut self) -> io::Result<()> {
        let mut done = Vec::new();
        loop {
            self.answers.mailbox().take(&mut done);
            for done in done.drain(..) {
                // A device that was stopped has no requests.
                if !self.over {
                    self.ring.commit(done)?;
                }
            }
            if self.over && self.ring.lent() == 0 {
                return Ok(());
            }
            if self.places == 0 {
                return Err(io::Error::other("the driver takes no answers"));
            }
            self.ring.wait()?;
            self.answers.mailbox().awake();
            let arrived = self.ring.arrived()?;
            let requests = self.requests.clone();
            requests.together(|| arrived.iter().for_each(|arrival| self.take(arrival)));
        }
    }

    fn take(&mut self, arrival: &Arrival) {
        let &Arrival { tag, result } = arrival;
        match result {
            0 => {}
            ABORT => {
                self.over = true;
                return;
            }
            _ => {
                self.places -= 1;
                let error = io::Error::from_raw_os_error(-result);
                tracing::error!(%error, "{}: a place for requests of its ublk device is lost", self.file.name());
                return;
            }
        }
        let action = self.ring.descriptor(tag).and_then(Action::of);
        match action {
            Some(action) => {
                let reply = Reply::new(&self.answers, tag, action.asked());
                carry_out(&self.requests, self.file.clone(), action, reply);
            }
            None => Reply::new(&self.answers, tag, super::reply::Asked::Done).fail(Errno::EOPNOTSUPP),
        }
    }
}
