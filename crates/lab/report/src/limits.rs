//! Ranges of settings.

use std::fmt::Display;

use anyhow::{Result, bail};

/// Checks that a value, if there is one, is from `low` to `high`.
///
/// # Errors
/// It is not, with its name and the range.
pub fn range<T: PartialOrd + Display + Copy>(name: &str, value: Option<T>, low: T, high: T) -> Result<()> {
    match value {
        Some(value) if !(low..=high).contains(&value) => {
            bail!("{name} is {value}: {low} to {high} are possible")
        }
        _ => Ok(()),
    }
}
