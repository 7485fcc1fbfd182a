//! What the kernel's policy answered, call by call.

use std::collections::BTreeSet;
use tier::{Agreement, Difference, replay_policy};

/// Corrections of a trace, at most.
const CORRECTIONS: usize = 6;

/// Holds the tier's smq against a trace. Returns what was the same, and how often the trace had to be corrected: two calls of different
/// processors are recorded in the wrong order at times, and the clock may have ticked between a probe and the look at it.
///
/// # Errors
/// The first answer that differs.
pub fn agree(trace: &str) -> Result<(Agreement, usize), String> {
    let mut lines: Vec<&str> = trace.lines().collect();
    let mut later = BTreeSet::new();
    for corrections in 0..=CORRECTIONS {
        let difference = match replay_policy(&lines, &later) {
            Ok(agreement) => return Ok((agreement, corrections)),
            Err(difference) => difference,
        };
        if !correct(&mut lines, &mut later, &difference) {
            let from = difference.line.saturating_sub(12);
            let before = lines[from..difference.line].join("\n");
            return Err(format!("after\n{before}\nline {}: {}", difference.line, difference.why));
        }
    }
    Err(format!("the trace needs more than {CORRECTIONS} corrections"))
}

/// Whether a correction brings the trace further than the difference.
fn correct(lines: &mut [&str], later: &mut BTreeSet<usize>, difference: &Difference) -> bool {
    let further = |lines: &[&str], later: &BTreeSet<usize>| {
        replay_policy(lines, later).map_or_else(|error| error.line > difference.line + 20, |_| true)
    };
    for edge in difference.edges.iter().rev().take(40) {
        if later.insert(*edge) {
            if further(lines, later) {
                return true;
            }
            later.remove(edge);
        }
    }
    let at = difference.line;
    for other in (at.saturating_sub(6)..at).rev().chain(at + 1..(at + 6).min(lines.len())) {
        lines.swap(at, other);
        if further(lines, later) {
            return true;
        }
        lines.swap(at, other);
    }
    false
}
