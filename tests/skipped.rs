//! How a test says that it cannot run. Test files of all crates include this one.
#![allow(dead_code, reason = "each of them uses what it needs")]

/// Says loudly that a test, or a part of it, does not run.
///
/// # Panics
///
/// If `TRANCHE_NO_SKIPS` is set to anything but 0: where everything can run, a test that does not has failed.
pub fn skipped(test: &str, why: &str) {
    let strict = std::env::var_os("TRANCHE_NO_SKIPS").is_some_and(|value| value != "0" && !value.is_empty());
    assert!(!strict, "{test} cannot run here, and TRANCHE_NO_SKIPS is set: {why}");
    say(test, why);
}

/// Says loudly that a test does not run because of what others serve, or do not serve today: software that this project neither pins
/// nor needs for its own set-up. It fails nowhere, as nothing in the project could mend it.
pub fn unavailable(test: &str, why: &str) {
    say(test, why);
}

fn say(test: &str, why: &str) {
    // Not `eprintln`, which the test runner swallows.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("SKIPPED {test}: {why}\n").as_bytes());
}
