//! Lines for people on standard error.

/// Writes a line to standard error. If that fails there is nobody to tell: the exit code says the rest.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

/// As [`tell`], without the end of the line.
macro_rules! tell_part {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stderr(), $($text)*);
    }};
}

pub(crate) use {tell, tell_part};
