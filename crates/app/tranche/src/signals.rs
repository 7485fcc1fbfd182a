//! Signals that end a command.

use anyhow::{Context, Result};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that the first of these signals sets. The second one ends the process at once.
///
/// # Errors
/// The handlers cannot be installed.
pub fn asked_by(signals: &[i32]) -> Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in signals {
        flag::register_conditional_shutdown(*signal, 130, asked.clone())
            .and_then(|_| flag::register(*signal, asked.clone()))
            .context("installing signal handlers")?;
    }
    Ok(asked)
}
