//! Replies on their way to a client.
//!
//! Any thread may put a reply here. It sends what there is, if the socket takes it at once, and never waits: what the socket does not take
//! stays until the connection's own thread can send it. While that thread hands out a batch of requests, replies gather and leave together.

use super::replies;
use super::wire::NbdError;
use crate::drive::Extent;
use crate::request_queue::Responder;
use fuser::Errno;
use rustix::event::EventfdFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Requests of a connection under way at most. More wait in its socket.
pub const REQUESTS: u32 = 512;
/// Bytes of requests under way and of replies that the client has not taken. One request more is let in.
pub const BYTES: u64 = 32 << 20;
/// Data of this size leaves at once, without being copied.
const DIRECT_BYTES: usize = 32 << 10;
/// Room for replies that is kept.
const MAX_KEPT_BYTES: usize = 1 << 20;

/// A connection's socket. It never blocks.
#[derive(Debug)]
pub enum Socket {
    /// TCP.
    Tcp(TcpStream),
    /// Unix.
    Unix(UnixStream),
}

impl Socket {
    /// Reads what is there.
    pub fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => (&mut &*socket).read(bytes),
            Socket::Unix(socket) => (&mut &*socket).read(bytes),
        }
    }

    /// Writes what it takes.
    pub fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => (&mut &*socket).write_vectored(slices),
            Socket::Unix(socket) => (&mut &*socket).write_vectored(slices),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Unix(socket) => socket.as_fd(),
        }
    }
}

/// What the connection's thread sleeps for, beside what its client sends.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Wants {
    /// To send what the socket would not take.
    pub send: bool,
    /// Room for further requests.
    pub room: bool,
    /// That all requests are answered.
    pub quiet: bool,
}

#[derive(Debug, Default)]
struct OutboxState {
    unsent: VecDeque<u8>,
    /// Requests under way, and the bytes that they hold.
    requests: u32,
    bytes: u64,
    /// The connection's thread is handing out requests, and sends afterwards.
    batch: bool,
    /// The connection's thread sleeps, or is about to.
    sleeps: Option<Wants>,
    /// The client has gone.
    dead: bool,
}

/// Where replies of a connection go.
#[derive(Debug)]
pub struct Outbox {
    socket: Socket,
    bell: Arc<OwnedFd>,
    structured: bool,
    state: Mutex<OutboxState>,
}

impl Outbox {
    /// Replies to this socket. `bell` wakes the connection's thread.
    pub fn new(socket: Socket, bell: Arc<OwnedFd>, structured: bool) -> Arc<Self> {
        Arc::new(Outbox { socket, bell, structured, state: Mutex::default() })
    }

    /// The socket.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// What wakes the connection's thread.
    pub fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// A request that holds so many bytes is under way: what answers it.
    pub fn begin(self: &Arc<Self>, cookie: u64, asked: Asked, bytes: u32) -> Reply {
        let mut state = self.state();
        state.requests += 1;
        state.bytes += u64::from(bytes);
        Reply { outbox: self.clone(), cookie, asked, bytes, answered: false }
    }

    /// Whether one more request may come.
    pub fn has_room(&self) -> bool {
        self.state().has_room()
    }

    /// Whether nothing is under way and nothing is to be sent; also if nobody would take it.
    pub fn is_quiet(&self) -> bool {
        self.state().is_quiet()
    }

    /// Replies gather from now on.
    pub fn begin_batch(&self) {
        self.state().batch = true;
    }

    /// Sends what has gathered. `false`: the client has gone.
    pub fn end_batch(&self) -> bool {
        let mut state = self.state();
        state.batch = false;
        state.send(&self.socket, &[], &[]);
        !state.dead
    }

    /// What to sleep for, of this; `None` if there is no need to sleep.
    pub fn before_sleep(&self, room: bool, quiet: bool) -> Option<Wants> {
        let mut state = self.state();
        let wants = Wants { send: state.is_unsent(), room, quiet };
        if state.dead || room && state.has_room() || quiet && state.is_quiet() {
            return None;
        }
        state.sleeps = Some(wants);
        Some(wants)
    }

    /// The connection's thread is awake.
    pub fn after_sleep(&self) {
        self.state().sleeps = None;
        let mut buffer = [0; 8];
        // Empty, if nobody has rung.
        let _ = rustix::io::read(&self.bell, &mut buffer);
    }

    /// Nobody takes replies any more.
    pub fn close(&self) {
        self.state().lose();
    }

    fn state(&self) -> MutexGuard<'_, OutboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, bytes: u32, head: &[u8], body: &[u8]) {
        let mut state = self.state();
        state.requests -= 1;
        state.bytes -= u64::from(bytes);
        if state.batch && body.len() < DIRECT_BYTES {
            state.keep(&[head, body], 0);
        } else {
            state.send(&self.socket, head, body);
        }
        let wake = state.sleeps.is_some_and(|wants| {
            state.dead
                || !wants.send && state.is_unsent()
                || wants.room && state.has_room()
                || wants.quiet && state.is_quiet()
        });
        if wake {
            state.sleeps = None;
            drop(state);
            ring(&self.bell);
        }
    }
}

impl OutboxState {
    fn is_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    fn has_room(&self) -> bool {
        self.requests < REQUESTS && self.bytes + (self.unsent.len() as u64) < BYTES
    }

    fn is_quiet(&self) -> bool {
        self.dead || self.requests == 0 && !self.is_unsent()
    }

    /// Keeps what is behind the first `sent` bytes of these parts.
    fn keep(&mut self, parts: &[&[u8]], mut sent: usize) {
        if self.dead {
            return;
        }
        for part in parts {
            let skip = sent.min(part.len());
            sent -= skip;
            self.unsent.extend(&part[skip..]);
        }
    }

    /// Sends what is kept and then this, as far as the socket takes it; keeps the rest.
    fn send(&mut self, socket: &Socket, head: &[u8], body: &[u8]) {
        if self.dead {
            return;
        }
        let mut sent = 0;
        loop {
            let (kept, wrapped) = self.unsent.as_slices();
            let of_head = sent.min(head.len());
            let (head, body) = (&head[of_head..], &body[sent - of_head..]);
            let slices = [kept, wrapped, head, body].map(IoSlice::new);
            if slices.iter().all(|slice| slice.is_empty()) {
                break;
            }
            match socket.write(&slices) {
                Ok(0) => return self.lose(),
                Ok(bytes) => {
                    let of_kept = bytes.min(self.unsent.len());
                    self.unsent.drain(..of_kept);
                    sent += bytes - of_kept;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return self.lose(),
            }
        }
        if !self.is_unsent() {
            self.unsent.shrink_to(MAX_KEPT_BYTES);
        }
        self.keep(&[head, body], sent);
    }

    fn lose(&mut self) {
        self.dead = true;
        self.unsent = VecDeque::new();
    }
}

/// Wakes the thread that polls this descriptor.
pub fn ring(bell: &OwnedFd) {
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

/// A descriptor that one thread writes to and another polls.
///
/// # Errors
/// There are no more descriptors.
pub fn bell() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// What a client wants to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The data of a read.
    Data {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
    },
    /// Whether it was done.
    Done,
}

/// Answers a request, once. A request that is dropped without an answer gets an error.
#[derive(Debug)]
pub struct Reply {
    outbox: Arc<Outbox>,
    cookie: u64,
    asked: Asked,
    bytes: u32,
    answered: bool,
}

impl Reply {
    /// Success. `data` has all that a read asked for.
    pub fn succeed(mut self, data: &[u8]) {
        match self.asked {
            Asked::Done => self.send(&replies::done(self.cookie), &[]),
            Asked::Data { offset, len } if data.len() as u64 == u64::from(len) => {
                let head = replies::before_data(self.outbox.structured, self.cookie, offset, len);
                self.send(&head, data);
            }
            Asked::Data { .. } => self.fail(Errno::EIO),
        }
    }

    /// Fails as a block file would.
    pub fn fail(self, errno: Errno) {
        let error = NbdError::from(errno);
        let words = match error {
            NbdError::Shutdown => "the namespace is gone or another one now; connect again",
            NbdError::NoSpc => "the drive is full",
            NbdError::Perm => "the drive refuses it",
            _ => "the drive could not do it",
        };
        self.refuse(error, words);
    }

    /// Fails.
    pub fn refuse(mut self, error: NbdError, words: &str) {
        let reply = replies::error(self.outbox.structured, self.cookie, error, words);
        self.send(&reply, &[]);
    }

    /// Tells which blocks are allocated, of `len` bytes that were asked about.
    pub fn status(mut self, block_size: u32, len: u32, extents: &[Extent]) {
        let reply = replies::status(self.cookie, block_size, len, extents);
        self.send(&reply, &[]);
    }

    fn send(&mut self, head: &[u8], body: &[u8]) {
        self.answered = true;
        self.outbox.put(self.bytes, head, body);
    }
}

impl Responder for Reply {
    fn succeed(self: Box<Self>, data: &[u8], _: u32) {
        Reply::succeed(*self, data);
    }

    fn fail(self: Box<Self>, errno: Errno) {
        Reply::fail(*self, errno);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.answered {
            let words = "the request was given up";
            let reply = replies::error(self.outbox.structured, self.cookie, NbdError::Io, words);
            self.send(&reply, &[]);
        }
    }
}
