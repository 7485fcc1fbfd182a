//! Tables, on the terminal and in the report.

use std::fmt::Write as _;

use super::html;

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

    /// For the terminal: columns aligned, two blanks between them.
    pub fn text(&self) -> String {
        let width = |text: &String| text.chars().count();
        let all = || std::iter::once(&self.columns).chain(&self.rows);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|i| all().filter_map(|row| row.get(i)).map(width).max().unwrap_or(0))
            .collect();
        let mut out = String::new();
        for (number, row) in all().enumerate() {
            let mut line = String::new();
            for (i, (cell, &wide)) in row.iter().zip(&widths).enumerate() {
                if i == 0 {
                    let _ = write!(line, "{cell:<wide$}");
                } else {
                    let _ = write!(line, "  {cell:>wide$}");
                }
            }
            let _ = writeln!(out, "{}", line.trim_end());
            if number == 0 {
                let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
                let _ = writeln!(out, "{}", "-".repeat(total));
            }
        }
        out
    }

    /// For the report.
    pub fn html(&self) -> String {
        let cells = |tag: &str, row: &[String]| -> String {
            row.iter().map(|cell| format!("<{tag}>{}</{tag}>", html(cell))).collect()
        };
        let rows: String = self.rows.iter().map(|row| format!("<tr>{}</tr>\n", cells("td", row))).collect();
        format!(
            "<div class=\"scroll\"><table><thead><tr>{}</tr></thead>\n<tbody>{rows}</tbody></table></div>\n",
            cells("th", &self.columns)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_aligned_and_html_escaped() {
        let mut table = Table::new(["name", "µs"]);
        table.rows.push(vec!["a<b".into(), "1,234".into()]);
        table.rows.push(vec!["c".into(), "7".into()]);
        assert_eq!(table.text(), "name     µs\n-----------\na<b   1,234\nc         7\n");
        assert!(table.html().contains("<td>a&lt;b</td>"));
    }
}
