//! Sizes, rates, times and shares as people write them: one grammar for the command line, a drive's TOML, layouts and sweeps.
//!
//! A quantity is a number and a unit: `64MiB`, `1.5GB/s`, `250us`, `12.5%`. Whether there is a space between them makes no difference,
//! but `m` and `M` are different letters. The result is an integer of the smallest unit; a fraction is rounded to the nearest.
//!
//! Validated here: that the text is a quantity and fits 64 bits. Not here: the range that the caller allows.

mod quantity;
mod suggestion;
mod toml;

pub use quantity::{
    Wrong, format_size, parse_hours, parse_millis, parse_percent, parse_rate, parse_seconds, parse_size,
    parse_time,
};
pub use suggestion::{did_you_mean, nearest, nearest_few};
pub use toml::toml_error;
