//! What the kernel's policy answered, call by call.

use std::collections::BTreeSet;
use tier::{Agreement, Difference, replay_policy};

/// Corrections of a trace, at most.
const CORRECTIONS: usize = 6;
/// A processor of the guest that has no time records its call late: by so many calls of the same policy, at most.
const MAX_LATE_CALLS: usize = 24;
/// What a call that is missing changes shows at once, or so many calls of the same policy later, at most.
const MAX_EFFECT_CALLS: usize = 4;

/// Holds the tier's smq against a trace. Returns what was the same, and how often the trace had to be corrected. A probe records a call
/// where it returns, when the policy's lock is free again: a call of another processor may be recorded before it. And the clock may have ticked
/// between a probe and the look at it.
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
    let policy = |line: &str| line.split(' ').nth(1).map(str::to_owned);
    let same = |other: &usize| policy(lines[*other]) == policy(lines[at]);
    let before: Vec<usize> = (0..at).rev().filter(same).take(MAX_LATE_CALLS).collect();
    let after: Vec<usize> = (at + 1..lines.len()).filter(same).take(MAX_LATE_CALLS).collect();
    // A call that was recorded late belongs before this one, or this one was late and belongs before others.
    for to in std::iter::once(at).chain(before.iter().copied().take(MAX_EFFECT_CALLS)) {
        for from in after.iter().copied() {
            lines[to..=from].rotate_right(1);
            if further(lines, later) {
                return true;
            }
            lines[to..=from].rotate_left(1);
        }
    }
    for to in before {
        lines[to..=at].rotate_right(1);
        if further(lines, later) {
            return true;
        }
        lines[to..=at].rotate_left(1);
    }
    false
}
