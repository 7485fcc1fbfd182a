//! How a test says that it cannot run.

/// Says loudly that a test, or a part of it, does not run.
///
/// # Panics
///
/// If `TRANCHE_NO_SKIPS` is set to anything but 0: where everything can run, a test that does not has failed.
pub fn skipped(test: &str, why: &str) {
    let strict = std::env::var_os("TRANCHE_NO_SKIPS").is_some_and(|value| value != "0" && !value.is_empty());
    assert!(!strict, "{test} cannot run here, and TRANCHE_NO_SKIPS is set: {why}");
    say(&format!("SKIPPED {test}: {why}"));
}

/// Says loudly that what a test is about is not in this machine's kernel, so that no set-up can make it run. That is no failure even where
/// `TRANCHE_NO_SKIPS` is set.
pub fn not_in_this_kernel(test: &str, what: &str) {
    say(&format!("NOT HERE {test}: this kernel has no {what}"));
}

fn say(line: &str) {
    // Not `eprintln`, which the test runner swallows.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{line}\n").as_bytes());
}
