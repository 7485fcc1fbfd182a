//! What is told of a check.

use std::fmt::Write as _;

use super::{Figure, Measured, Unit};
use crate::figure;

/// The figures as a table.
pub(super) fn text(measured: &Measured) -> String {
    let mut out = format!("data sheet: {}\n", measured.source);
    // Writing to a string does not fail.
    let _ = match measured.shortened_to {
        Some(bytes) => writeln!(
            out,
            "measured on a shortened drive: fewer pages in each block, and the time of an erase in proportion; namespace 1 is {}",
            figure::show_size(bytes)
        ),
        None => writeln!(out, "measured on the whole drive"),
    };
    let _ = write!(out, "{:<18} {:>14} {:>14} {:>7}", "figure", "measured", "data sheet", "ratio");
    for figure in &measured.figures {
        let off = if figure.within { "" } else { "  off by more than 10 %" };
        let _ = write!(
            out,
            "\n{:<18} {:>14} {:>14} {:>7.3}{off}",
            figure.figure,
            value(figure, figure.measured),
            value(figure, figure.stated),
            figure.ratio
        );
    }
    out
}

/// One of a figure's values with its unit.
fn value(figure: &Figure, value: f64) -> String {
    match figure.unit {
        Unit::BytesPerSecond => format!("{} MB/s", figure::show(value / 1e6)),
        Unit::Nanoseconds => format!("{} us", figure::show(value / 1e3)),
        Unit::PerSecond => format!("{} IOPS", figure::show(value)),
    }
}

/// What is wrong with a figure.
pub(super) fn off(figure: &Figure) -> String {
    format!(
        "{} is {} instead of {}",
        figure.figure,
        value(figure, figure.measured),
        value(figure, figure.stated)
    )
}
