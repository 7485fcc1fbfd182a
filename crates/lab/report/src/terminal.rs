//! Tables for people at a terminal (comfy-table): as wide as the terminal, or as their cells where there is none.

use std::io::{IsTerminal as _, stdout};

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

/// How a table looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// A line of dashes below the head.
    pub rule: bool,
    /// So many columns from the first are text, aligned to the left. The others are numbers, aligned to the right.
    pub text: usize,
    /// Blanks before each line.
    pub indent: u16,
}

/// Characters in a line of the terminal that standard output goes to. `None` if it goes elsewhere: what a program reads does
/// not depend on a window.
fn width() -> Option<u16> {
    let out = stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok())??;
    // Terminals that do not know their size say 0.
    Some(size.ws_col).filter(|&columns| columns > 0)
}

/// The lines of a table, each with its end: columns aligned, two blanks between them. Cells wrap where the terminal is narrower
/// than the table.
pub fn table(look: Look, head: &[String], rows: &[Vec<String>]) -> String {
    within(width(), look, head, rows)
}

fn within(width: Option<u16>, look: Look, head: &[String], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    let line = LineStyle::none();
    table.load_style(TableStyle::new().header_separator(if look.rule { line.fill('-') } else { line }));
    if !head.is_empty() {
        table.set_header(head);
    }
    table.add_rows(rows);
    if let Some(width) = width {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width.saturating_sub(look.indent));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 0 } else { 2 }, 0));
        let text = index < look.text;
        column.set_cell_alignment(if text { CellAlignment::Left } else { CellAlignment::Right });
    }
    let indent = " ".repeat(look.indent.into());
    table.lines().map(|line| format!("{indent}{}", line.trim_end()).trim_end().to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect()
    }

    const RULED_LOOK: Look = Look { rule: true, text: 1, indent: 0 };

    #[test]
    fn columns_are_aligned_and_as_wide_as_their_cells() {
        let all = cells(&[&["name", "µs"], &["a<b", "1,234"], &["c", "7"]]);
        let shown = within(None, RULED_LOOK, &all[0], &all[1..]);
        assert_eq!(shown, "name     µs\n-----------\na<b   1,234\nc         7\n");
        // A wide terminal changes nothing.
        assert_eq!(within(Some(80), RULED_LOOK, &all[0], &all[1..]), shown);
        let look = Look { rule: false, text: 0, indent: 2 };
        assert_eq!(within(None, look, &all[0], &all[1..]), "  name     µs\n   a<b  1,234\n     c      7\n");
        let look = Look { text: 2, ..Look::default() };
        assert_eq!(within(None, look, &[], &all[1..]), "a<b  1,234\nc    7\n");
    }

    #[test]
    fn a_table_fits_its_terminal_and_loses_nothing() {
        let head = cells(&[&["metric", "variant", "spread over all pairs", "published figure"]]);
        let rows = cells(&[
            &["new orders per minute", "dram", "1.234 .. 1.567", "47.1 (+12.3%)"],
            &["NAND bytes per new order", "nand", "0.934 .. 1.001", "-"],
        ]);
        for look in [RULED_LOOK, Look { indent: 2, ..RULED_LOOK }] {
            for width in [40, 60, 72, 120] {
                let shown = within(Some(width), look, &head[0], &rows);
                let widest = shown.lines().map(|line| line.chars().count()).max().unwrap();
                assert!(widest <= usize::from(width), "{width}: {widest}\n{shown}");
                for word in rows.concat().iter().flat_map(|cell| cell.split(' ')) {
                    let there = shown.split_whitespace().any(|found| found == word);
                    assert!(width < 60 || there, "{width}: {word}\n{shown}");
                }
            }
        }
    }
}
