//! SIGINT and SIGTERM stop a study cleanly: loops ask [`check`], return an error, and guards tidy up on the way out.

use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The error of work that the user interrupted.
#[derive(Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// From now on the first signal asks to stop; the second ends the process at once (the next run removes what it left).
///
/// # Errors
/// When the handlers cannot be installed.
pub fn install() -> io::Result<()> {
    if ASKED.get().is_some() {
        return Ok(());
    }
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(&asked))?;
        flag::register(signal, Arc::clone(&asked))?;
    }
    let _ = ASKED.set(asked);
    Ok(())
}

/// Why a command fails that reports although it was interrupted.
pub(crate) const PARTIAL: &str = "interrupted: the results are those of the part that ran";

/// Whether the user asked to stop.
pub fn asked() -> bool {
    ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed))
}

/// # Errors
/// [`Interrupted`] when the user asked to stop.
pub fn check() -> Result<(), Interrupted> {
    if asked() { Err(Interrupted) } else { Ok(()) }
}

/// Sleeps, but not through an interruption.
///
/// # Errors
/// [`Interrupted`] when the user asked to stop.
pub fn sleep(time: Duration) -> Result<(), Interrupted> {
    let end = Instant::now() + time;
    loop {
        check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(Duration::from_millis(100)));
    }
}
