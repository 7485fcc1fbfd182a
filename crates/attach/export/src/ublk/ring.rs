//! The rings that commands to ublk travel through, and the memory that the driver describes requests in. All `unsafe` of this front end is here.
#![allow(
    unsafe_code,
    reason = "io_uring takes addresses and descriptors as numbers, and the driver's descriptors of requests are only to be had as mapped memory"
)]

use super::abi::{
    COMMIT_AND_FETCH, Control, Descriptor, FETCH, control_command, descriptors_offset, request_command,
};
use super::reply::{Answers, Done};
use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, opcode, types};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

type Uring = IoUring<Entry128, cqueue::Entry>;

/// Commands to `/dev/ublk-control`, one after the other.
pub struct ControlRing {
    /// Goes first: the kernel gives up what it still has of the file.
    uring: Uring,
    file: File,
    /// Commands so far.
    sent: u64,
}

impl ControlRing {
    /// A ring for this file.
    ///
    /// # Errors
    /// The process may not have one.
    pub fn new(file: File) -> io::Result<Self> {
        Ok(ControlRing { uring: IoUring::builder().build(4)?, file, sent: 0 })
    }

    /// Has a command done, which may take long, and gives the buffer back, as the kernel left it.
    ///
    /// # Errors
    /// What the driver says.
    pub fn send(&mut self, command: Control, device: u32, data: u64, buffer: Vec<u8>) -> io::Result<Vec<u8>> {
        // At most 64 bytes.
        let len = u16::try_from(buffer.len()).unwrap_or(0);
        let mut buffer = buffer;
        let address = buffer.as_mut_ptr().expose_provenance() as u64;
        self.sent += 1;
        let file = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd80::new(file, command.code())
            .cmd(control_command(device, len, address, data))
            .build()
            .user_data(self.sent);
        match self.complete(&entry) {
            Ok(result) if result < 0 => Err(io::Error::from_raw_os_error(-result)),
            Ok(_) => Ok(buffer),
            Err(error) => {
                // The kernel may have it still.
                buffer.leak();
                Err(error)
            }
        }
    }

    fn complete(&mut self, entry: &Entry128) -> io::Result<i32> {
        // SAFETY: the file is open as long as the ring. The buffer that the command points to is freed after its completion only: `send` leaks it
        // if there was none.
        unsafe { self.uring.submission().push(entry) }.map_err(io::Error::other)?;
        loop {
            if let Err(error) = self.uring.submit_and_wait(1)
                && !is(&error, &TRANSIENT_ERRNOS)
            {
                return Err(error);
            }
            for completion in self.uring.completion() {
                if completion.user_data() == self.sent {
                    return Ok(completion.result());
                }
            }
        }
    }
}

/// Errors of a system call after which it is to be made again. EBUSY: completions have to be taken first.
const TRANSIENT_ERRNOS: [Errno; 3] = [Errno::INTR, Errno::BUSY, Errno::AGAIN];
/// What completes when the event was written to.
const EVENT: u64 = u64::MAX;

fn is(error: &io::Error, of: &[Errno]) -> bool {
    of.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// A place for requests that the kernel has given back: with a request in it, or not to be used again.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Which.
    pub tag: u16,
    /// 0 with a request, else a negative error.
    pub result: i32,
}

/// The ring of a queue. It belongs to the thread that made it: the driver takes commands of no other.
pub struct QueueRing {
    /// Goes first: the kernel gives up what it still has.
    uring: Uring,
    descriptors: Descriptors,
    device: File,
    /// Its event wakes the ring.
    answers: Arc<Answers>,
    queue: u16,
    /// Places that the kernel has.
    lent: u32,
}

impl QueueRing {
    /// Gives all places of a queue of this device to the kernel.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(device: File, queue: u16, depth: u16, answers: Arc<Answers>) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        // The kernel hands requests over when the thread asks for them, not in between.
        builder.setup_single_issuer().setup_defer_taskrun();
        // And the event.
        let uring = builder.build((u32::from(depth) + 1).next_power_of_two())?;
        let descriptors = Descriptors::map(&device, queue, depth)?;
        let mut ring = QueueRing { uring, descriptors, device, answers, queue, lent: 0 };
        for tag in 0..depth {
            ring.lend(FETCH, Done { tag, result: 0 })?;
        }
        ring.listen()?;
        ring.uring.submit()?;
        // What the driver does not take it gives back at once.
        match ring.arrived()?.iter().find(|arrival| arrival.result < 0) {
            Some(refused) => Err(io::Error::from_raw_os_error(-refused.result)),
            None => Ok(ring),
        }
    }

    /// How many places the kernel has.
    pub fn lent(&self) -> u32 {
        self.lent
    }

    /// Tells the kernel that a request is done, and gives its place back.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn commit(&mut self, done: Done) -> io::Result<()> {
        self.lend(COMMIT_AND_FETCH, done)
    }

    /// Hands over what there is for the kernel, and waits until something has arrived or there are answers.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn wait(&mut self) -> io::Result<()> {
        match self.uring.submit_and_wait(1) {
            Err(error) if !is(&error, &TRANSIENT_ERRNOS) => Err(error),
            _ => Ok(()),
        }
    }

    /// What has arrived.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn arrived(&mut self) -> io::Result<Vec<Arrival>> {
        let mut arrived = Vec::new();
        let mut again = false;
        for completion in self.uring.completion() {
            match completion.user_data() {
                EVENT => again |= !cqueue::more(completion.flags()),
                // The tag that it was given.
                tag => arrived.push(Arrival { tag: tag as u16, result: completion.result() }),
            }
        }
        // At most so many.
        self.lent -= arrived.len() as u32;
        if again {
            self.listen()?;
        }
        Ok(arrived)
    }

    /// The request in a place.
    pub fn descriptor(&self, tag: u16) -> Option<Descriptor> {
        self.descriptors.read(tag)
    }

    fn lend(&mut self, command: u32, done: Done) -> io::Result<()> {
        let entry = opcode::UringCmd80::new(types::Fd(self.device.as_raw_fd()), command)
            .cmd(request_command(self.queue, done.tag, done.result))
            .build()
            .user_data(done.tag.into());
        self.push(&entry)?;
        self.lent += 1;
        Ok(())
    }

    /// Asks to be woken whenever the event is written to. Nobody reads it. The kernel reports each write.
    fn listen(&mut self) -> io::Result<()> {
        let event = types::Fd(self.answers.mailbox().event().as_raw_fd());
        let readable = u32::from(PollFlags::IN.bits());
        let entry = opcode::PollAdd::new(event, readable).multi(true).build();
        self.push(&Entry128::from(entry).user_data(EVENT))
    }

    fn push(&mut self, entry: &Entry128) -> io::Result<()> {
        // SAFETY: no entry of this ring points to memory. Device and event are open as long as the ring.
        while unsafe { self.uring.submission().push(entry) }.is_err() {
            self.uring.submit()?;
        }
        Ok(())
    }
}

/// Memory in which the driver describes the requests of a queue.
struct Descriptors {
    begin: *mut c_void,
    bytes: usize,
    depth: u16,
}

impl Descriptors {
    fn map(device: &File, queue: u16, depth: u16) -> io::Result<Self> {
        let bytes = (usize::from(depth) * Descriptor::SIZE).next_multiple_of(rustix::param::page_size());
        let at = descriptors_offset(queue);
        // SAFETY: the kernel chooses an address that is free.
        let begin = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, device, at)
        }?;
        Ok(Descriptors { begin, bytes, depth })
    }

    fn read(&self, tag: u16) -> Option<Descriptor> {
        if tag >= self.depth {
            return None;
        }
        let at = self.begin.cast::<[u8; Descriptor::SIZE]>().wrapping_add(tag.into());
        // SAFETY: it is within the mapping, and bytes have no alignment. The driver may write there at any time; a volatile read of bytes gives what is
        // there. It does not write while this process has the place.
        let bytes = unsafe { at.read_volatile() };
        Some(Descriptor::decode(&bytes))
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: nobody else knows the mapping.
        let _ = unsafe { rustix::mm::munmap(self.begin, self.bytes) };
    }
}
