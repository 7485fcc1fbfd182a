//! Options of the command line that libraries have as values.

use anyhow::Result;
use clap::{Args, Command};

/// Options as a command line without arguments has them.
///
/// # Panics
/// An option is required.
pub fn defaults<T: Args>() -> T {
    let command = T::augment_args(Command::new("defaults").no_binary_name(true));
    let parsed = command.try_get_matches_from([""; 0]).and_then(|matches| T::from_arg_matches(&matches));
    parsed.expect("every option has a default")
}

/// Checks that an option names nothing twice.
///
/// # Errors
/// It does.
pub fn once<T: PartialEq>(option: &str, values: &[T]) -> Result<()> {
    if (1..values.len()).any(|at| values[..at].contains(&values[at])) {
        crate::misuse!("{option} names one twice");
    }
    Ok(())
}
