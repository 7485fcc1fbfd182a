//! Warnings about peers. Any peer that can connect can cause them, so there is a limit.

use std::fmt::Arguments;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines in a span.
const LINES: u32 = 20;
const SPAN: Duration = Duration::from_secs(10);

/// Lines of the span that runs.
#[derive(Default)]
struct LogSpan {
    since: Option<Instant>,
    lines: u32,
    /// Those that were not said.
    left_out: u64,
}

static LOG_SPAN: Mutex<LogSpan> = Mutex::new(LogSpan { since: None, lines: 0, left_out: 0 });

/// Warns of something that a peer did, unless peers have had much said of them just now; then how often is said later.
pub(super) fn warn_limited(what: Arguments<'_>) {
    let (say, before) = LOG_SPAN.lock().unwrap_or_else(PoisonError::into_inner).count(Instant::now());
    if before > 0 {
        tracing::warn!("{before} more things of this kind were not worth a line each");
    }
    if say {
        tracing::warn!("{what}");
    }
}

impl LogSpan {
    /// Whether to say one more thing, and how many were left out before it.
    fn count(&mut self, now: Instant) -> (bool, u64) {
        let mut before = 0;
        if self.since.is_none_or(|since| now.duration_since(since) >= SPAN) {
            before = self.left_out;
            *self = LogSpan { since: Some(now), ..LogSpan::default() };
        }
        self.lines += 1;
        let say = self.lines <= LINES;
        self.left_out += u64::from(!say);
        (say, before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_and_a_number() {
        let mut said = LogSpan::default();
        let start = Instant::now();
        let lines = (0..1000).filter(|_| said.count(start).0).count();
        assert_eq!(lines, LINES as usize);
        assert_eq!(said.count(start + SPAN), (true, 1000 - u64::from(LINES)));
        assert_eq!(said.count(start + SPAN), (true, 0));
    }
}
