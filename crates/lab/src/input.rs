//! Files that may be pipes.

use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    os::{fd::AsFd, unix::fs::OpenOptionsExt},
    path::Path,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::OFlags,
};

use crate::interrupt::{self, Interrupted};

/// How long it is waited until somebody may have asked to stop.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Reads a file, or standard input if its name is `-`. Waiting for a pipe that says nothing ends when the user asks to stop.
#[derive(Debug)]
pub(crate) struct Input(File);

impl Input {
    /// Opens it, without waiting for somebody who writes to it.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        if path.to_str() == Some("-") {
            return Ok(Input(File::from(io::stdin().as_fd().try_clone_to_owned()?)));
        }
        let without_waiting = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        File::options().read(true).custom_flags(without_waiting).open(path).map(Input)
    }
}

impl Read for Input {
    /// # Errors
    /// The system's, and [`Interrupted`].
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut files = [PollFd::new(&self.0, PollFlags::IN)];
            let ready = match poll(&mut files, Some(&LOOK)) {
                Err(rustix::io::Errno::INTR) => 0,
                ready => ready?,
            };
            if interrupt::asked() {
                return Err(io::Error::other(Interrupted));
            }
            if ready > 0 {
                match self.0.read(buffer) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    read => return read,
                }
            }
        }
    }
}
