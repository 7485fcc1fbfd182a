//! A thread that puts memory under a drive's slots before they are written.
//!
//! The system clears memory when a program first writes to it. A drive that waits for that at each new page writes at a fraction of
//! its speed. The thread does it once, after the start.

use media::tables::MemoryRange;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The lowest priority, so that the drive's own thread comes first where they share a processor.
const NICENESS: i32 = 19;

/// The thread. Dropping this ends it.
pub(crate) struct Prefault {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Prefault {
    /// Starts it for these ranges, in their order. Without a thread, which the system may refuse, memory comes when it is written.
    pub(crate) fn begin(ranges: Vec<MemoryRange>) -> Option<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        let told = ends.clone();
        let thread = std::thread::Builder::new()
            .name("tranche-memory".to_owned())
            .spawn(move || back(&ranges, &told))
            .inspect_err(|error| tracing::debug!("memory is not faulted in ahead: {error}"))
            .ok()?;
        Some(Prefault { ends, thread: Some(thread) })
    }
}

impl Drop for Prefault {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn back(ranges: &[MemoryRange], ends: &AtomicBool) {
    let _ = rustix::process::nice(NICENESS);
    for range in ranges {
        if ends.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = range.back() {
            return tracing::debug!("memory is not faulted in ahead any more: {error}");
        }
    }
}
