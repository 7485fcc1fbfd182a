//! Work without Python's lock, which Ctrl-C ends.

use std::{
    panic::resume_unwind,
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use lab_report::control::Control;
use pyo3::prelude::*;

/// How often Python is asked for signals. Only its main thread has any.
const SIGNAL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Does this work on a thread of its own. Other threads of Python go on meanwhile. A signal whose handler raises an exception cancels the work.
///
/// # Errors
/// The exception of the handler (Ctrl-C: `KeyboardInterrupt`), when the work has ended.
pub fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce(&Control) -> T + Send) -> PyResult<T> {
    let control = Control::default();
    py.detach(|| {
        thread::scope(|scope| {
            let (end, ended) = channel::<()>();
            let worker = scope.spawn(|| {
                // Dropped in any case, a panic too.
                let _end = end;
                work(&control)
            });
            let mut raised = None;
            while ended.recv_timeout(SIGNAL_POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if raised.is_none()
                    && let Err(exception) = Python::attach(|py| py.check_signals())
                {
                    control.cancel().cancel();
                    raised = Some(exception);
                }
            }
            let done = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            raised.map_or(Ok(done), Err)
        })
    })
}
