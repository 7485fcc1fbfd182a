//! Answers on their way to the kernel.

use super::abi::data_offset;
use crate::mailbox::Mailbox;
use crate::request_queue::Responder;
use fuser::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A request that is done: its tag, and a number of bytes or a negative error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// The place of the request in its queue.
    pub tag: u16,
    /// What the kernel is told.
    pub result: i32,
}

/// What an answer has to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// So many bytes of data.
    Data(u32),
    /// That so many bytes were written.
    Bytes(u32),
    /// Nothing but success.
    Done,
}

/// Where answers of a queue go. Any thread may answer: it copies data of a read into the request by itself, and the thread of the queue tells the
/// kernel.
#[derive(Debug)]
pub struct Answers {
    /// The character device of the block device.
    data: std::fs::File,
    queue: u16,
    mailbox: Mailbox<Done>,
}

impl Answers {
    /// Of a queue of the character device. `event` is an eventfd.
    pub fn new(data: std::fs::File, queue: u16, event: OwnedFd) -> Self {
        Answers { data, queue, mailbox: Mailbox::new(event) }
    }

    /// What is done.
    pub fn mailbox(&self) -> &Mailbox<Done> {
        &self.mailbox
    }
}

/// Answers a request, once. A request that is dropped without an answer fails.
#[derive(Debug)]
pub struct Reply {
    answers: Arc<Answers>,
    tag: u16,
    asked: Asked,
    answered: bool,
}

impl Reply {
    /// The request with this tag.
    pub fn new(answers: &Arc<Answers>, tag: u16, asked: Asked) -> Self {
        Reply { answers: answers.clone(), tag, asked, answered: false }
    }

    /// Copies the data of a write out of the request.
    ///
    /// # Errors
    /// The device has gone.
    pub fn take_data(&self, data: &mut [u8]) -> io::Result<()> {
        self.answers.data.read_exact_at(data, data_offset(self.answers.queue, self.tag))
    }

    /// Success. `data` has all that a read asked for.
    pub fn succeed(mut self, data: &[u8]) {
        match self.asked {
            Asked::Done => self.send(0),
            Asked::Bytes(len) => self.send(len.cast_signed()),
            Asked::Data(len) if data.len() as u64 != u64::from(len) => self.fail(Errno::EIO),
            Asked::Data(len) => {
                let at = data_offset(self.answers.queue, self.tag);
                match self.answers.data.write_all_at(data, at) {
                    Ok(()) => self.send(len.cast_signed()),
                    Err(error) => {
                        tracing::debug!(%error, "the kernel does not take the data of a read");
                        self.fail(Errno::EIO);
                    }
                }
            }
        }
    }

    /// Fails. Programs see the error where the block layer has one for it, else `EIO`.
    pub fn fail(mut self, errno: Errno) {
        self.refuse(errno);
    }

    fn refuse(&mut self, errno: Errno) {
        let known = [Errno::ENOSPC, Errno::EOPNOTSUPP, Errno::EILSEQ].map(i32::from);
        // Others mean something else to the driver: ENODEV that the device was stopped, EAGAIN that it is to try again.
        let code = if known.contains(&errno.code()) { errno.code() } else { Errno::EIO.code() };
        self.send(-code);
    }

    fn send(&mut self, result: i32) {
        self.answered = true;
        self.answers.mailbox.put(Done { tag: self.tag, result });
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
            self.refuse(Errno::EIO);
        }
    }
}
