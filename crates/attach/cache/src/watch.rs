//! Sockets of devices, watched together.

use rustix::event::{Timespec, epoll};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Wakes when a socket of a device has something to read, can take more, or has ended. It reports a change once (edge-triggered).
/// The thread that it wakes sends and receives until the socket has nothing more.
pub struct Watch(OwnedFd);

impl Watch {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new() -> io::Result<Self> {
        Ok(Watch(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Watches a socket until it is closed.
    ///
    /// # Errors
    /// The system refuses.
    pub fn add(&self, socket: impl AsFd) -> io::Result<()> {
        let wanted =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        Ok(epoll::add(&self.0, socket, epoll::EventData::new_u64(0), wanted)?)
    }

    /// Waits for news, or until the time is over.
    pub fn wait(&self, timeout: Duration) {
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let mut room = [MaybeUninit::uninit(); 8];
        // An error is an interruption: the caller looks around, as after any other wait.
        let _ = epoll::wait(&self.0, &mut room, Some(&timeout));
    }
}
