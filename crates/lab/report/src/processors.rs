//! The processors of this machine, and who works on them.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// How many there are.
pub(crate) fn available() -> usize {
    thread::available_parallelism().map_or(1, Into::into)
}

/// Processors that work on pieces now.
#[derive(Debug, Default)]
pub(crate) struct Processors {
    busy: Mutex<usize>,
    /// One of them has become free.
    free: Condvar,
}

/// A processor that works on a piece.
pub(crate) struct Processor<'a>(&'a Processors);

impl Processors {
    /// Waits until one is free.
    pub(crate) fn wait(&self) -> Processor<'_> {
        let most = available();
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        while *busy >= most {
            busy = self.free.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
        *busy += 1;
        Processor(self)
    }
}

impl Drop for Processor<'_> {
    fn drop(&mut self) {
        *self.0.busy.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.free.notify_one();
    }
}
