//! Data sets with a row for each pair of, say, drive and pattern: the page shows them as one table.

use std::fmt::Write as _;

use crate::{
    Ledger,
    data_set::{BETWEEN_LINE_AND_COLUMN, DataSet, Role, Row, place},
    score::{CLOSE_LN_RATIO, distance},
};

/// The section of all such data sets; empty without one.
pub fn section(ledger: &Ledger) -> String {
    let sets: Vec<_> = ledger.sets.iter().filter(|(_, data)| data.crosstab).collect();
    if sets.is_empty() {
        return String::new();
    }
    let mut text = "## Rows in a table\n\nOurs over the published figure. **Bold**: off by more than 10 %. (In parentheses): fitted. *Italic*: the prediction of a blind row.\n\n"
        .to_owned();
    sets.into_iter().for_each(|(set, data)| text += &table(ledger, set, data));
    text
}

/// Different names, in order of their first row.
fn different<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    names.for_each(|name| {
        if !found.contains(&name) {
            found.push(name);
        }
    });
    found
}

fn table(ledger: &Ledger, set: &str, data: &DataSet) -> String {
    let places = || data.rows().filter_map(|row| place(&row.id).ok());
    let (lines, columns) =
        (different(places().map(|(line, _)| line)), different(places().map(|(_, column)| column)));
    let mut text = format!(
        "**{set}**: {}\n\n| | {} |\n|---|{}\n",
        data.title,
        columns.join(" | "),
        "---|".repeat(columns.len())
    );
    for line in lines {
        let cell = |column: &&str| {
            let row = data.row(&format!("{line}{BETWEEN_LINE_AND_COLUMN}{column}"));
            row.map_or(String::new(), |row| cell(ledger, set, row))
        };
        let cells: Vec<String> = columns.iter().map(cell).collect();
        let _ = writeln!(text, "| {line} | {} |", cells.join(" | "));
    }
    text += "\n";
    text + &causes(ledger, set, data)
}

fn cell(ledger: &Ledger, set: &str, row: &Row) -> String {
    let predicted = ledger.results.prediction(set, &row.id).map(|(_, ours)| ours);
    let ours = predicted.filter(|_| row.role == Role::Blind).or_else(|| ledger.ours(set, row));
    let Some(ours) = ours else { return "-".to_owned() };
    match row.value {
        None => format!("*{ours:.0}*"),
        Some(published) if row.role == Role::Fitted => format!("({:.2})", ours / published),
        Some(published) if distance(ours, published, row.bound) > CLOSE_LN_RATIO => {
            format!("**{:.2}**", ours / published)
        }
        Some(published) => format!("{:.2}", ours / published),
    }
}

/// Rows off by more than 10 % by their cause, which is told once.
fn causes(ledger: &Ledger, set: &str, data: &DataSet) -> String {
    let is_far = |row: &&Row| {
        let far = |published| ledger.ours(set, row).map(|ours| distance(ours, published, row.bound));
        row.value.and_then(far).is_some_and(|distance| distance > CLOSE_LN_RATIO)
    };
    let far: Vec<&Row> = data.rows().filter(is_far).collect();
    let cause = |row: &Row| row.cause.clone().unwrap_or_else(|| "Not known.".to_owned());
    let all: Vec<String> = far.iter().map(|row| cause(row)).collect();
    let mut text = String::new();
    for cause_of_several in different(all.iter().map(String::as_str)) {
        let rows: Vec<&str> =
            far.iter().filter(|row| cause(row) == cause_of_several).map(|row| &*row.id).collect();
        let _ = writeln!(text, "- {}: {cause_of_several}", rows.join("; "));
    }
    if text.is_empty() { text } else { text + "\n" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Entry;

    #[test]
    fn rows_of_a_crosstab_are_cells() {
        let mut ledger = crate::check::tests::example();
        let row = |id: &str, quote: &str, more: &str| {
            format!("{{ id = \"{id}\", quote = \"{quote}\", ours = \"$.{quote}\", {more} }}")
        };
        let rows = [
            row("A, x", "100", "role = \"fitted\""),
            row("A, y", "200", "role = \"seen\", cause = \"It is new.\""),
            row("B, y", "300", "role = \"seen\""),
        ];
        let text = format!(
            "title = \"Two drives\"\ndocument = \"\"\ncrosstab = true\n[run.sim]\ncommand = \"sim\"\n[[group]]\ntitle = \"\"\nrun = \"sim\"\n\
             first = \"unknown\"\nrows = [ {} ]\n[[group]]\ntitle = \"\"\ndeclared_blind = \"2026-12-01\"\nrun = \"sim\"\nrows = [ {} ]",
            rows.join(", "),
            row("B, x", "held", "role = \"blind\"")
        );
        let data = DataSet::parse(&text).unwrap();
        let figures = [("$.100", 101.0), ("$.200", 250.0), ("$.300", 290.0), ("$.held", 55.4)]
            .map(|(s, f)| (s.into(), f));
        let entry = Entry { figures: figures.into(), ..ledger.results.runs["drive.sim"].clone() };
        ledger.results.runs.insert("two.sim".into(), entry);
        ledger.sets.insert("two".into(), data);
        let section = section(&ledger);
        for line in ["| | x | y |", "| A | (1.01) | **1.25** |", "| B | *55* | 0.97 |", "- A, y: It is new."]
        {
            assert!(section.lines().any(|of| of == line), "{line:?} is not in {section}");
        }
        assert!(DataSet::parse(&text.replace("\"A, x\"", "\"A\"")).is_err());
    }
}
