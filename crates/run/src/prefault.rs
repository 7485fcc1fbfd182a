//! A thread that puts memory under a drive's slots before they are written.
//!
//! The system clears memory when a program first writes to it. A drive that waits for that at each new page writes at a fraction of
//! its speed. So the thread goes ahead of it, while the processor has nothing better to do.

use media::tables::Place;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// The lowest priority, so that the drive's own thread comes first where they share a processor.
const NICENESS: i32 = 19;

/// The thread. Dropping this ends it.
pub(crate) struct Prefault {
    asked: Option<Sender<Place>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Prefault {
    /// Starts it; without a thread, which the system may refuse, memory comes when it is written.
    pub(crate) fn begin() -> Option<Self> {
        let (asked, places) = channel();
        let ends = Arc::new(AtomicBool::new(false));
        let told = ends.clone();
        let thread = std::thread::Builder::new()
            .name("tranche-memory".to_owned())
            .spawn(move || back(&places, &told))
            .inspect_err(|error| tracing::debug!("memory is not faulted in ahead: {error}"))
            .ok()?;
        Some(Prefault { asked: Some(asked), ends, thread: Some(thread) })
    }

    /// Memory is wanted here, in the order of asking.
    pub(crate) fn ask(&self, place: Place) {
        if let Some(asked) = &self.asked {
            // The thread has ended if the system cannot do it.
            let _ = asked.send(place);
        }
    }
}

impl Drop for Prefault {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.asked = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn back(places: &Receiver<Place>, ends: &AtomicBool) {
    let _ = rustix::process::nice(NICENESS);
    for place in places {
        if ends.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = place.back() {
            return tracing::debug!("memory is not faulted in ahead any more: {error}");
        }
    }
}
