//! Tables for people.

use lab_report::terminal::{self, Look};

/// Columns of figures under their names.
pub fn table(heads: &[&str], rows: &[impl AsRef<[String]>]) -> String {
    let rows: Vec<_> = rows.iter().map(|row| row.as_ref().to_vec()).collect();
    let heads: Vec<String> = heads.iter().map(|&head| head.to_owned()).collect();
    terminal::table(Look::default(), &heads, &rows).trim_end().to_owned()
}
