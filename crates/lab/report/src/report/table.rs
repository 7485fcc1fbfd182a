//! Tables, on the terminal and in the report.

use crate::terminal::{self, Look};

/// A table; the first column is text, the others are numbers.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty one.
    pub fn new<const N: usize>(columns: [&str; N]) -> Self {
        Self { columns: columns.map(str::to_owned).to_vec(), rows: Vec::new() }
    }

    /// For the terminal: columns aligned, a rule below their names.
    pub fn text(&self) -> String {
        terminal::table(Look { rule: true, text: 1, indent: 0 }, &self.columns, &self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_aligned() {
        let mut table = Table::new(["name", "µs"]);
        table.rows.push(vec!["a<b".into(), "1,234".into()]);
        table.rows.push(vec!["c".into(), "7".into()]);
        assert_eq!(table.text(), "name     µs\n-----------\na<b   1,234\nc         7\n");
    }
}
