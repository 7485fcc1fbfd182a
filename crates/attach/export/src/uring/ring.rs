//! The threads that carry frames between the kernel and this program.
#![allow(
    unsafe_code,
    reason = "the kernel is handed addresses, which no safe interface does for commands of FUSE"
)]

use super::frame::{Frame, Iovec, Outbox, Reply};
use super::serve::serve;
use crate::directory::Directory;
use crate::mount::UNMOUNT_ERRNOS;
use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, opcode, types};
use rustix::event::{EventfdFlags, PollFlags};
use rustix::io::Errno;
use rustix::thread::CpuSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// `FUSE_IO_URING_CMD_REGISTER`: gives a frame to the kernel for the first time.
const REGISTER: u32 = 1;
/// `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`: gives it back with an answer, for the next request.
const COMMIT_AND_FETCH: u32 = 2;
/// Frames over all queues, and of one queue. More requests wait in the kernel.
const FRAMES: u16 = 512;
const MAX_ENTRIES: u16 = 64;
const MIN_ENTRIES: u16 = 4;
/// Threads at most, where nobody says how many.
const THREADS: u16 = 64;
/// The connection among the files that a ring knows.
const FUSE: types::Fixed = types::Fixed(0);
/// What completes when the event was written to.
const EVENT: u64 = u64::MAX;

/// The queues of one mounted directory and their threads.
#[derive(Debug)]
pub struct Rings {
    threads: Vec<JoinHandle<()>>,
    failed: Arc<AtomicBool>,
}

impl Rings {
    /// Takes the requests of the connection `fuse` from now on, with so many threads; one for each queue if nobody says how many.
    /// The kernel has agreed to it and holds all requests back until this has returned.
    ///
    /// A thread stays on the processors of its queues: the kernel wakes it there, and to wake up another processor takes
    /// longer than to serve the request.
    ///
    /// # Errors
    /// If a thread or its ring cannot be made, or the kernel does not take the frames. The connection is of no
    /// use then.
    pub fn start(fuse: OwnedFd, directory: &Directory, threads: Option<usize>) -> io::Result<Self> {
        let queues = super::queues();
        let threads = threads.map_or(THREADS, |threads| u16::try_from(threads).unwrap_or(u16::MAX));
        let threads = threads.clamp(1, queues);
        let depth = (FRAMES / queues).clamp(MIN_ENTRIES, MAX_ENTRIES);
        let failed = Arc::new(AtomicBool::new(false));
        let mut rings = Rings { threads: Vec::new(), failed: failed.clone() };
        let (started, news) = mpsc::channel();
        for first in 0..threads {
            let mine = (first..queues).step_by(usize::from(threads));
            let frames = mine.clone().flat_map(|queue| std::iter::repeat_n(queue, usize::from(depth)));
            let frames: Vec<Frame> =
                (0..).zip(frames).map(|(index, queue)| Frame::new(index, queue)).collect();
            let (fuse, directory) = (fuse.try_clone()?, directory.clone());
            let (started, failed) = (started.clone(), failed.clone());
            let run = move || {
                stay_on(mine);
                match Ring::new(&fuse, directory, frames) {
                    Ok(mut ring) => {
                        let _ = started.send(Ok(()));
                        drop(started);
                        if let Err(error) = ring.run() {
                            tracing::error!(%error, "FUSE over io_uring has failed");
                            failed.store(true, Ordering::Relaxed);
                        }
                    }
                    Err(error) => {
                        let _ = started.send(Err(error));
                    }
                };
            };
            rings.threads.push(std::thread::Builder::new().name(format!("fuse-ring-{first}")).spawn(run)?);
        }
        drop(started);
        for _ in 0..threads {
            news.recv().unwrap_or_else(|_| Err(io::Error::other("a thread of the rings panicked")))?;
        }
        Ok(rings)
    }

    /// Whether requests are not answered any more although the directory is mounted.
    pub fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Whether all threads have ended, which they do when the directory is unmounted.
    pub fn ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }
}

/// Keeps this thread on these processors, as far as the process may use them.
fn stay_on(processors: impl Iterator<Item = u16>) {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return };
    let mut wanted = CpuSet::new();
    for processor in processors.map(usize::from).filter(|it| *it < CpuSet::MAX_CPU && allowed.is_set(*it)) {
        wanted.set(processor);
    }
    if wanted.count() > 0 {
        // Elsewhere it works, too.
        let _ = rustix::thread::sched_setaffinity(None, &wanted);
    }
}

type Uring = IoUring<Entry128, cqueue::Entry>;

/// Whether this process may have a ring such as the threads need.
pub fn probe() -> io::Result<()> {
    build(1).map(drop)
}

fn build(entries: usize) -> io::Result<Uring> {
    let mut builder = IoUring::builder();
    // The kernel copies requests when the thread asks for them, not in between.
    builder.setup_single_issuer().setup_defer_taskrun();
    // And the event.
    builder.build(u32::try_from(entries + 1).unwrap_or(u32::MAX).next_power_of_two())
}

/// A completion.
struct Arrival {
    /// The frame's number, or [`EVENT`].
    number: u64,
    result: i32,
    /// Whether more of them follow.
    more: bool,
}

impl From<cqueue::Entry> for Arrival {
    fn from(entry: cqueue::Entry) -> Self {
        let (number, result) = (entry.user_data(), entry.result());
        Arrival { number, result, more: cqueue::more(entry.flags()) }
    }
}

/// What one thread has.
struct Ring {
    /// Goes first: what the kernel still has of the frames it gives up with it.
    uring: Uring,
    /// Frames that the kernel has.
    lent: Vec<Option<Frame>>,
    /// How many.
    count: usize,
    /// Frames that the kernel gave back with an error.
    lost: usize,
    /// The kernel reads them when frames are registered.
    iovecs: Vec<[Iovec; 2]>,
    outbox: Arc<Outbox>,
    directory: Directory,
    /// Completions of frames that had a request before the ring was ready.
    early: Vec<Arrival>,
    /// Whether the connection has ended.
    over: bool,
}

impl Ring {
    /// Gives the frames to the kernel.
    fn new(fuse: &OwnedFd, directory: Directory, mut frames: Vec<Frame>) -> io::Result<Self> {
        let uring = build(frames.len())?;
        uring.submitter().register_files(&[fuse.as_raw_fd()])?;
        let outbox = Arc::new(Outbox::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?));
        let iovecs = frames.iter_mut().map(Frame::iovecs).collect();
        let lent = frames.iter().map(|_| None).collect();
        let mut ring = Ring {
            uring,
            lent,
            count: 0,
            lost: 0,
            early: Vec::new(),
            iovecs,
            outbox,
            directory,
            over: false,
        };
        for frame in frames {
            let entry = command(REGISTER, frame.queue, 0, frame.index);
            let entry = with_iovecs(entry, &ring.iovecs[frame.index as usize]);
            ring.lend(entry, frame)?;
        }
        ring.listen()?;
        ring.uring.submit()?;
        ring.early = ring.uring.completion().map(Arrival::from).collect();
        // What the kernel does not take it gives back at once.
        match ring.early.iter().find(|it| it.result < 0) {
            Some(refused) => Err(io::Error::from_raw_os_error(-refused.result)),
            None => Ok(ring),
        }
    }

    /// Until the connection ends.
    fn run(&mut self) -> io::Result<()> {
        let mut answered = Vec::new();
        let mut arrived = std::mem::take(&mut self.early);
        loop {
            self.all_arrived(&mut arrived)?;
            self.outbox.take(&mut answered);
            for frame in answered.drain(..) {
                self.give_back(frame)?;
            }
            if self.count == 0 && self.over {
                return Ok(());
            }
            match self.uring.submit_and_wait(1) {
                Ok(_) => {}
                // EBUSY: completions have to be taken first.
                Err(error) if is(&error, &[Errno::INTR, Errno::BUSY, Errno::AGAIN]) => {}
                Err(error) => return Err(error),
            }
            self.outbox.awake();
            arrived.extend(self.uring.completion().map(Arrival::from));
        }
    }

    fn all_arrived(&mut self, arrived: &mut Vec<Arrival>) -> io::Result<()> {
        if arrived.len() < 2 {
            return arrived.pop().map_or(Ok(()), |arrival| self.arrived(arrival));
        }
        let directory = self.directory.clone();
        let mut result = Ok(());
        directory.together(|| result = arrived.drain(..).try_for_each(|arrival| self.arrived(arrival)));
        result
    }

    fn arrived(&mut self, arrival: Arrival) -> io::Result<()> {
        let Arrival { number, result, more } = arrival;
        if number == EVENT {
            return if more { Ok(()) } else { self.listen() };
        }
        let slot = usize::try_from(number).ok().and_then(|index| self.lent.get_mut(index));
        let Some(frame) = slot.and_then(Option::take) else { return Ok(()) };
        self.count -= 1;
        if result >= 0 {
            serve(&self.directory, Reply::new(frame, &self.outbox));
            return Ok(());
        }
        let error = io::Error::from_raw_os_error(-result);
        // The directory was unmounted, or the connection aborted. What is still being worked on has been told.
        if is(&error, &UNMOUNT_ERRNOS) {
            self.over = true;
            return Ok(());
        }
        // A frame whose request ended in another way while the connection was taken down, or one that is lost.
        self.lost += 1;
        tracing::debug!(%error, "the kernel does not take an answer");
        if self.over || self.lost < self.lent.len() { Ok(()) } else { Err(error) }
    }

    fn give_back(&mut self, frame: Frame) -> io::Result<()> {
        if self.over {
            return Ok(());
        }
        let entry = command(COMMIT_AND_FETCH, frame.queue, frame.commit(), frame.index);
        self.lend(entry, frame)
    }

    fn lend(&mut self, entry: Entry128, frame: Frame) -> io::Result<()> {
        let index = frame.index as usize;
        self.lent[index] = Some(frame);
        self.count += 1;
        self.push(entry)
    }

    /// Asks to be woken whenever the event is written to. Nobody reads it. The kernel reports each write.
    fn listen(&mut self) -> io::Result<()> {
        let fd = types::Fd(self.outbox.event().as_raw_fd());
        let readable = u32::from(PollFlags::IN.bits());
        let entry = opcode::PollAdd::new(fd, readable).multi(true).build();
        self.push(Entry128::from(entry).user_data(EVENT))
    }

    fn push(&mut self, entry: Entry128) -> io::Result<()> {
        // SAFETY: what the entry points to lives as long as the ring, a frame in `lent` and its vector in `iovecs`, and is
        // not touched until its completion. The event is open as long, too.
        while unsafe { self.uring.submission().push(&entry) }.is_err() {
            self.uring.submit()?;
        }
        Ok(())
    }
}

/// A command of FUSE about a frame: `struct fuse_uring_cmd_req`.
fn command(kind: u32, queue: u16, commit: u64, index: u32) -> Entry128 {
    let mut arguments = [0; 80];
    arguments[8..16].copy_from_slice(&commit.to_ne_bytes());
    arguments[16..18].copy_from_slice(&queue.to_ne_bytes());
    opcode::UringCmd80::new(FUSE, kind).cmd(arguments).build().user_data(u64::from(index))
}

/// Adds the address of the frame's memory.
fn with_iovecs(mut entry: Entry128, iovecs: &[Iovec; 2]) -> Entry128 {
    /// Of `struct io_uring_sqe`; the crate has no setters for them.
    const ADDRESS: usize = 16;
    const LENGTH: usize = 24;
    let bytes = std::ptr::from_mut(&mut entry).cast::<u8>();
    // SAFETY: an entry is the kernel's `struct io_uring_sqe` of 128 bytes (the assertion says so), of plain numbers.
    unsafe {
        const { assert!(size_of::<Entry128>() == 128) };
        bytes.add(ADDRESS).cast::<u64>().write(iovecs.as_ptr().expose_provenance() as u64);
        bytes.add(LENGTH).cast::<u32>().write(2);
    }
    entry
}

fn is(error: &io::Error, of: &[Errno]) -> bool {
    of.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
