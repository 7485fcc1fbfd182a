//! What is told of a check.

use std::fmt::Write as _;

use super::{Figure, Measured, Unit};
use lab_report::{
    figure,
    terminal::{self, Look},
};

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
    let head = ["figure", "measured", "data sheet", "ratio", ""].map(str::to_owned);
    let row = |figure: &Figure| {
        let off = if figure.within { "" } else { "off by more than 10 %" };
        vec![
            figure.figure.to_string(),
            value(figure, figure.measured),
            value(figure, figure.stated),
            format!("{:.3}", figure.ratio),
            off.to_owned(),
        ]
    };
    let rows: Vec<_> = measured.figures.iter().map(row).collect();
    out.push_str(terminal::table(Look { text: 1, ..Look::default() }, &head, &rows).trim_end());
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
