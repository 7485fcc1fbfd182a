//! Files that are read: texts, and streams that may be pipes.

use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    os::{fd::AsFd, unix::fs::OpenOptionsExt},
    path::Path,
    sync::OnceLock,
};

use anyhow::{Context, Result, anyhow, bail};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::OFlags,
};

use crate::control::Cancel;

/// The longest description that is read, in bytes.
const LONGEST_TEXT: u64 = 4 << 20;

/// What ends waiting for pipes where no control is at hand.
static ENDS_WAITING: OnceLock<Cancel> = OnceLock::new();

/// From now on this token ends waiting for pipes, in all of the process: that of a program which handles signals. The first one that is
/// given stays.
pub fn wait_until(cancel: &Cancel) {
    ENDS_WAITING.get_or_init(|| cancel.clone());
}

/// The text of a file that describes something: a drive, a job. `-` is standard input.
///
/// # Errors
/// It cannot be read, is no UTF-8, or is longer than 4 MiB; or it is a pipe that says nothing, and the token of [`wait_until`] is cancelled.
pub fn read_text(path: &Path) -> Result<String> {
    let bytes = read_bytes(path, LONGEST_TEXT)?;
    String::from_utf8(bytes).map_err(|_| anyhow!("{} is no text: it must be UTF-8", path.display()))
}

/// The bytes of a file, so many at most. `-` is standard input.
///
/// # Errors
/// It cannot be read, or is longer; or it is a pipe that says nothing, and the token of [`wait_until`] is cancelled.
pub fn read_bytes(path: &Path, most: u64) -> Result<Vec<u8>> {
    let name = path.display();
    let failed = || format!("cannot read {name}");
    let cancel = ENDS_WAITING.get().cloned().unwrap_or_default();
    let mut bytes = Vec::new();
    // A file's metadata says nothing reliable of its length: it may be a device.
    let source = Input::open(path, &cancel).with_context(failed)?;
    source.take(most + 1).read_to_end(&mut bytes).with_context(failed)?;
    if bytes.len() as u64 > most {
        bail!("{name} is longer than {} MiB", most >> 20);
    }
    Ok(bytes)
}

/// How long is waited before the token is looked at again.
const TOKEN_POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Reads a file, or standard input if its name is `-`. Waiting for a pipe that says nothing ends when it is cancelled.
#[derive(Debug)]
pub struct Input {
    file: File,
    cancel: Cancel,
}

impl Input {
    /// Opens it, without waiting for somebody who writes to it.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path, cancel: &Cancel) -> io::Result<Self> {
        let cancel = cancel.clone();
        if path.to_str() == Some("-") {
            let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
            return Ok(Input { file, cancel });
        }
        let without_waiting = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        File::options().read(true).custom_flags(without_waiting).open(path).map(|file| Input { file, cancel })
    }
}

impl Read for Input {
    /// # Errors
    /// The system's, and [`Interrupted`](crate::control::Interrupted).
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut files = [PollFd::new(&self.file, PollFlags::IN)];
            let ready = match poll(&mut files, Some(&TOKEN_POLL_INTERVAL)) {
                Err(rustix::io::Errno::INTR) => 0,
                ready => ready?,
            };
            self.cancel.check().map_err(io::Error::other)?;
            if ready > 0 {
                match self.file.read(buffer) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    read => return read,
                }
            }
        }
    }
}
