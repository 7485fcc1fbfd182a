//! The error of what was asked for, and makes no sense.

use std::fmt;

/// A name that is not there, or a setting that cannot be. It stands for the request itself, or as the context of what is wrong with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Misuse(pub String);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// Returns a [`Misuse`](crate::Misuse) with these words, as `bail!` does.
#[macro_export]
macro_rules! misuse {
    ($($words:tt)*) => {
        return Err(::anyhow::Error::from($crate::Misuse(format_args!($($words)*).to_string())))
    };
}
