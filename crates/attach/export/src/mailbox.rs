//! What other threads hand to the thread of a ring, which may sleep in the kernel meanwhile.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Letters on their way to the thread that takes them out. Only a sleeping thread is woken, and only once.
#[derive(Debug)]
pub struct Mailbox<T> {
    letters: Mutex<Vec<T>>,
    /// Whether that thread waits in the kernel, where only the event reaches it.
    asleep: AtomicBool,
    event: OwnedFd,
}

impl<T> Mailbox<T> {
    /// An empty one. `event` is an eventfd.
    pub fn new(event: OwnedFd) -> Self {
        Mailbox { letters: Mutex::default(), asleep: AtomicBool::new(false), event }
    }

    /// The eventfd that is written to for a sleeping thread.
    pub fn event(&self) -> &OwnedFd {
        &self.event
    }

    /// Takes out what is there, into an empty `letters`, before the thread goes to sleep.
    pub fn take(&self, letters: &mut Vec<T>) {
        let mut there = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *there, letters);
        // While the lock is held: what comes later finds the thread asleep.
        self.asleep.store(true, Ordering::SeqCst);
    }

    /// The thread is awake and looks again by itself.
    pub fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Puts a letter in, and wakes the thread if it sleeps.
    pub fn put(&self, letter: T) {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            // Fails only if it has been rung four billion times.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }
}
