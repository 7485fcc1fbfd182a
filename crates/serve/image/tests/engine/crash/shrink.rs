//! Makes a failure smaller: acts are left out as long as it stays.

use super::{Tally, play};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::panic::{catch_unwind, set_hook, take_hook};
use std::time::{Duration, Instant};

/// How long it is tried.
const SHRINK_TIME_LIMIT: Duration = Duration::from_secs(60);

/// Numbers of acts of a world: no more than this.
const ACTS: u64 = super::ROUNDS * 460;

/// Plays a world; a panic is a failure, too.
pub(super) fn played(seed: u64, without: &BTreeSet<u64>) -> Result<Tally, String> {
    catch_unwind(|| play(seed, without, false)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
    })
}

/// The acts that a failing world fails without, as numbers and ranges.
pub(super) fn shrink(seed: u64) -> String {
    let (before, began) = (take_hook(), Instant::now());
    set_hook(Box::new(|_| ()));
    let mut without = BTreeSet::new();
    let mut chunk = ACTS / 2;
    while chunk > 0 {
        for first in (1..=ACTS).step_by(chunk as usize) {
            let mut more = without.clone();
            more.extend(first..(first + chunk).min(ACTS + 1));
            if more.len() > without.len()
                && began.elapsed() < SHRINK_TIME_LIMIT
                && played(seed, &more).is_err()
            {
                without = more;
            }
        }
        chunk /= 2;
    }
    set_hook(before);
    ranges(&without)
}

fn ranges(numbers: &BTreeSet<u64>) -> String {
    let mut text = String::new();
    let mut numbers = numbers.iter().copied().peekable();
    while let Some(first) = numbers.next() {
        let mut last = first;
        while let Some(next) = numbers.next_if_eq(&(last + 1)) {
            last = next;
        }
        if !text.is_empty() {
            text.push(',');
        }
        let _ = if first == last { write!(text, "{first}") } else { write!(text, "{first}-{last}") };
    }
    text
}

#[test]
fn ranges_and_numbers_are_the_same() {
    for text in ["", "3", "1-4", "1-4,7,9-10"] {
        assert_eq!(ranges(&super::numbers(text)), text);
    }
}
