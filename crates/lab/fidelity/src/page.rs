//! The page `docs/fidelity.md`.

use std::{collections::BTreeSet, fmt::Write as _};

use crate::{
    Ledger, crosstab,
    data_set::{Bound, DataSet, Role, Row},
    results::Prediction,
    score::{CLOSE_LN_RATIO, Summary, distance},
};

/// A published figure with ours.
struct Pair<'a> {
    set: &'a str,
    row: &'a Row,
    role: Role,
    published: f64,
    ours: f64,
}

impl Pair<'_> {
    fn distance(&self) -> f64 {
        distance(self.ours, self.published, self.row.bound)
    }
}

/// All pairs, the worst first. The prediction of a row that was blind counts as blind for good; the newest figure has the row's role.
fn pairs(ledger: &Ledger) -> Vec<Pair<'_>> {
    let mut pairs = Vec::new();
    for (set, data) in &ledger.sets {
        for row in data.rows() {
            let Some(published) = row.value else { continue };
            let mut add = |role, ours: Option<f64>| {
                pairs.extend(ours.map(|ours| Pair { set, row, role, published, ours }))
            };
            add(row.role, ledger.ours(set, row));
            add(Role::Blind, ledger.results.prediction(set, &row.id).map(|(_, ours)| ours));
        }
    }
    pairs.sort_by(|a, b| b.distance().total_cmp(&a.distance()));
    pairs
}

/// The score of each data set, by role.
pub fn summaries(ledger: &Ledger) -> Vec<(String, Role, Summary)> {
    let pairs = pairs(ledger);
    let mut found = Vec::new();
    for set in ledger.sets.keys() {
        for role in Role::ALL {
            let of = pairs.iter().filter(|pair| pair.set == set && pair.role == role);
            let distances: Vec<f64> = of.map(Pair::distance).collect();
            found.extend(Summary::of(&distances).map(|summary| (set.clone(), role, summary)));
        }
    }
    found
}

/// The whole page.
pub fn page(ledger: &Ledger) -> String {
    let pairs = pairs(ledger);
    let mut text = INTRODUCTION.to_owned();
    text += &scores(ledger);
    text += &parts(ledger);
    text += &fitted(ledger);
    for role in Role::ALL {
        let is_listed = |pair: &&Pair<'_>| pair.role == role && !ledger.sets[pair.set].crosstab;
        text += &rows(role, &pairs.iter().filter(is_listed).collect::<Vec<_>>());
    }
    text += &crosstab::section(ledger);
    text += &predictions(ledger);
    text += &without_ours(ledger);
    text
}

const INTRODUCTION: &str = "# How far to trust Tranche

Every published figure that Tranche knows stands here beside ours, the worst first. Read it before you believe a study: it shows which kinds of figures agree,
which do not, and why. `make fidelity` writes this page from the [ledger](../ledger/README.md). The ledger has the quote, the first comparison, the command and
the commit of each figure. CI fails when the page is out of date, never for a bad score.

| role of a figure | meaning |
|---|---|
| blind | it was predicted before anybody here knew it. Only these prove anything |
| seen | it was known, and no parameter was chosen to match it |
| fitted | a parameter was chosen to match it: agreement proves nothing |

The **distance** is |ln(ours / published)|: 0 is equal, 0.1 is 10 % off, 0.69 is half or double. *Not run* means that no result of this version was read.

";

/// Median, worst and share of each data set, for each role.
fn scores(ledger: &Ledger) -> String {
    let all = summaries(ledger);
    let mut text = "## Scores\n\nMedian and worst distance. All data sets have the same weight.\n".to_owned();
    for role in Role::ALL {
        let of_role: Vec<_> = all.iter().filter(|(_, of, _)| *of == role).collect();
        let _ = writeln!(text, "\n### {}\n", capital(role.name()));
        if of_role.is_empty() {
            text += "No row has been compared.\n";
            continue;
        }
        text += "| data set | rows | median | worst | within 10 % | fitted parameters |\n|---|---|---|---|---|---|\n";
        for (set, _, of) in &of_role {
            let name = name(set, &ledger.sets[set]);
            let _ = writeln!(text, "{}", score(&name, of, &ledger.parameters.fitted_to(set).to_string()));
        }
        let together = Summary::of_sets(&of_role.iter().map(|(_, _, of)| *of).collect::<Vec<_>>());
        text.extend(together.map(|of| score("**all, sets weighted equally**", &of, "") + "\n"));
    }
    text + "\nScores of earlier versions, also better ones, are in `ledger/history.csv`.\n\n"
}

fn score(name: &str, of: &Summary, fitted: &str) -> String {
    format!(
        "| {name} | {} | {:.2} | {:.2} | {:.0} % | {fitted} |",
        of.rows,
        of.median,
        of.worst,
        of.close * 100.0
    )
}

/// Sums beside their parts, so that errors which cancel each other show.
fn parts(ledger: &Ledger) -> String {
    let mut text = "## Sums and their parts\n\nA sum may agree because errors of its parts cancel. Each sum is followed by its parts.\n".to_owned();
    for (set, data) in &ledger.sets {
        for sum in data.rows().filter(|row| !row.parts.is_empty() && has_ours(ledger, set, row)) {
            let rows: Vec<&Row> =
                std::iter::once(sum).chain(sum.parts.iter().filter_map(|id| data.row(id))).collect();
            let _ = writeln!(
                text,
                "\n**{}**, {}\n\n| | published | ours | difference | off by |\n|---|---|---|---|---|",
                data.title, sum.id
            );
            let mut off = Vec::new();
            for row in rows {
                let (Some(published), ours) = (row.value, ledger.ours(set, row)) else { continue };
                let is_sum = row.id == sum.id;
                let name = if is_sum { format!("**{}**", row.id) } else { row.id.clone() };
                let [difference, by] = ours.map_or(["-".to_owned(), "-".to_owned()], |ours| {
                    [signed(ours - published), off_by(ours, published)]
                });
                off.extend(ours.map(|ours| distance(ours, published, row.bound)));
                let _ = writeln!(
                    text,
                    "| {name} | {} | {} | {difference} | {by} |",
                    figure(published, &row.unit),
                    ours.map_or("not run".into(), |ours| figure(ours, &row.unit))
                );
            }
            if let [sum, parts @ ..] = &off[..]
                && *sum <= CLOSE_LN_RATIO
                && parts.iter().any(|part| *part > CLOSE_LN_RATIO)
            {
                text += "\nThe sum is within 10 % because its parts' errors cancel.\n";
            }
        }
    }
    if !text.contains("**") {
        text += "\nNone has been run.\n";
    }
    text + "\n"
}

/// Whether there is a figure of ours for a sum, or for one of its parts.
fn has_ours(ledger: &Ledger, set: &str, sum: &Row) -> bool {
    let parts = sum.parts.iter().filter_map(|id| ledger.sets[set].row(id));
    parts.chain([sum]).any(|row| ledger.ours(set, row).is_some())
}

/// Parameters that were chosen to match published figures.
fn fitted(ledger: &Ledger) -> String {
    let mut text = "## Fitted parameters\n\nAll others are published, measured, or usual for their class: their files say which.\n\n| parameter | value | data set | fitted to |\n|---|---|---|---|\n".to_owned();
    for (table, name, value, of) in ledger.parameters.fitted() {
        let _ = writeln!(
            text,
            "| {table}: {name} | {} | {} | {} |",
            value.replace('"', ""),
            of.to.as_deref().unwrap_or(""),
            of.why
        );
    }
    text + "\n"
}

/// The rows of one role. Causes have numbers, and stand behind the table: several rows may have one.
fn rows(role: Role, pairs: &[&Pair<'_>]) -> String {
    let mut text = format!("## {} rows, the worst first\n\n", capital(role.name()));
    if pairs.is_empty() {
        return text + "None has been compared.\n\n";
    }
    text += "| data set | row | published | ours | off by | cause |\n|---|---|---|---|---|---|\n";
    let mut causes: Vec<&str> = Vec::new();
    for pair in pairs {
        let Pair { set, row, published, ours, .. } = pair;
        let bound = match row.bound {
            None => "",
            Some(Bound::Most) => "at most ",
            Some(Bound::Least) => "at least ",
        };
        let derived = if row.formula.is_some() { " (derived)" } else { "" };
        let exact = if (ours - published).abs() <= row.precision { ", within its precision" } else { "" };
        let cause = match &row.cause {
            Some(cause) => {
                let place = causes.iter().position(|told| told == cause).unwrap_or_else(|| {
                    causes.push(cause);
                    causes.len() - 1
                });
                (place + 1).to_string()
            }
            None if pair.distance() > CLOSE_LN_RATIO => "not known".to_owned(),
            None => String::new(),
        };
        let _ = writeln!(
            text,
            "| {set} | {} | {bound}{}{derived} | {} | {}{exact} | {cause} |",
            row.id,
            figure(*published, &row.unit),
            figure(*ours, &row.unit),
            off_by(*ours, *published)
        );
    }
    text += "\n";
    for (place, cause) in causes.iter().enumerate() {
        let _ = writeln!(text, "{}. {cause}", place + 1);
    }
    if causes.is_empty() { text } else { text + "\n" }
}

/// Blind rows, and their predictions. Rows without a prediction are only counted.
fn predictions(ledger: &Ledger) -> String {
    let mut text = "## Blind rows that wait for their comparison\n\nTheir published figures are not in this repository.\n\n\
        | data set | rows | prediction | made |\n|---|---|---|---|\n"
        .to_owned();
    for (set, data) in &ledger.sets {
        for group in &data.groups {
            let blind: Vec<&Row> = group.rows.iter().filter(|row| row.role == Role::Blind).collect();
            let predicted = |row: &&Row| ledger.results.prediction(set, &row.id).is_some();
            let open = blind.iter().filter(|row| !predicted(row)).count();
            if open > 0 {
                let _ = writeln!(text, "| {set} | {open} of: {} | not predicted yet | |", group.title);
            }
            if data.crosstab
                && let Some((of, _)) = blind.first().and_then(|row| ledger.results.prediction(set, &row.id))
            {
                let rows = blind.len() - open;
                let _ = writeln!(
                    text,
                    "| {set} | {rows} of: {} | in the table above | {} |",
                    group.title,
                    made(of)
                );
                continue;
            }
            for row in blind.into_iter().filter(predicted) {
                let Some((of, ours)) = ledger.results.prediction(set, &row.id) else { continue };
                let _ = writeln!(text, "| {set} | {} | {} | {} |", row.id, figure(ours, &row.unit), made(of));
            }
        }
    }
    text + "\n"
}

/// When a prediction was made, and with which parameters.
fn made(prediction: &Prediction) -> String {
    format!("{}, parameters {}", prediction.date, prediction.parameters)
}

/// Rows that have a published figure and none of ours.
fn without_ours(ledger: &Ledger) -> String {
    let mut text = "## Not run\n\nPublished figures without a result of this version. *No selector*: nothing in Tranche gives this figure yet.\n\n| data set | rows | command | no selector |\n|---|---|---|---|\n".to_owned();
    for (set, data) in &ledger.sets {
        let of = |selected: bool| {
            data.rows().filter(move |row| row.value.is_some() && row.ours.is_some() == selected)
        };
        let missing: Vec<&Row> = of(true).filter(|row| ledger.ours(set, row).is_none()).collect();
        let runs: BTreeSet<&str> = missing.iter().filter_map(|row| row.run.as_deref()).collect();
        let commands: Vec<String> = runs.iter().map(|run| format!("`{}`", data.runs[*run].command)).collect();
        let (rows, none) = (missing.len(), of(false).filter(|row| row.parts.is_empty()).count());
        if rows + none > 0 {
            let _ = writeln!(text, "| {set} | {rows} | {} | {none} |", shortened(&commands));
        }
    }
    text
}

/// A few commands, and how many more.
fn shortened(commands: &[String]) -> String {
    match commands {
        [first, second, more @ ..] if !more.is_empty() => {
            format!("{first}, {second} and {} more", more.len())
        }
        all => all.join(", "),
    }
}

/// A data set's name with its title, and with a link to the page that treats it.
fn name(set: &str, data: &DataSet) -> String {
    match &data.page {
        Some(page) => format!("[{set}]({page}): {}", data.title),
        None => format!("{set}: {}", data.title),
    }
}

fn capital(word: &str) -> String {
    word[..1].to_uppercase() + &word[1..]
}

/// How far ours is from the published figure.
fn off_by(ours: f64, published: f64) -> String {
    let ratio = ours / published;
    match ratio {
        2.0.. => format!("{ratio:.1} times"),
        ..0.5 => format!("1/{:.1}", 1.0 / ratio),
        _ => format!("{:+.1} %", (ratio - 1.0) * 100.0),
    }
}

fn signed(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "+" };
    sign.to_owned() + &digits(value.abs())
}

fn figure(value: f64, unit: &str) -> String {
    format!("{} {unit}", digits(value)).trim_end().to_owned()
}

/// Four significant digits, thousands apart.
fn digits(value: f64) -> String {
    let decimals = match value {
        1000.0.. => 0,
        100.0.. => 1,
        10.0.. => 2,
        1.0.. => 3,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text
        .split_once('.')
        .map_or((&*text, ""), |(whole, fraction)| (whole, fraction.trim_end_matches('0')));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if fraction.is_empty() { grouped } else { format!("{grouped}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::example;

    #[test]
    fn the_page_shows_rows_parts_and_what_is_missing() {
        let page = page(&example());
        for line in [
            "| drive: A drive | 1 | 0.10 | 0.10 | 100 % | 0 |",
            "| drive | a | 10 | 11 | +10.0 % | 1 |",
            "1. A cause.",
            "| drive | b | 5 | 5 | +0.0 %, within its precision |  |",
            "| **sum** | 15 | not run | - | - |",
            "| a | 10 | 11 | +1 | +10.0 % |",
            "| held | 1 of: Table 2 | not predicted yet | |",
        ] {
            assert!(page.lines().any(|of| of == line), "{line:?} is not in {page}");
        }
    }

    #[test]
    fn a_cause_of_several_rows_is_told_once() {
        let ledger = example();
        let row = ledger.sets["drive"].row("a").unwrap();
        let pair = |set| Pair { set, row, role: Role::Seen, published: 10.0, ours: 11.0 };
        let page = rows(Role::Seen, &[&pair("drive"), &pair("drive"), &pair("disk")]);
        assert_eq!(page.matches("| +10.0 % | 1 |").count(), 3, "{page}");
        assert!(page.ends_with("\n\n1. A cause.\n\n"), "{page}");
    }

    #[test]
    fn sets_and_roles_are_apart_and_a_prediction_counts_as_blind() {
        let mut ledger = example();
        let roles = |ledger: &Ledger| {
            summaries(ledger).into_iter().map(|(set, role, of)| (set, role, of.rows)).collect::<Vec<_>>()
        };
        assert_eq!(roles(&ledger), [("drive".into(), Role::Seen, 1), ("drive".into(), Role::Fitted, 1)]);
        let mut prediction = ledger.results.runs["drive.sim"].clone();
        prediction.figures = [("a".into(), 20.0)].into();
        ledger.results.predictions.push(Prediction {
            set: "drive".into(),
            date: prediction.date,
            commit: prediction.commit,
            parameters: String::new(),
            inputs: [].into(),
            figures: prediction.figures,
        });
        assert_eq!(roles(&ledger)[0], ("drive".into(), Role::Blind, 1));
    }

    #[test]
    fn numbers_are_readable() {
        let shown = [1234567.0, 9505.272, 16.0, 0.405, 2.478, 78.9].map(digits);
        assert_eq!(shown, ["1,234,567", "9,505", "16", "0.405", "2.478", "78.9"]);
        assert_eq!([off_by(3.0, 1.0), off_by(1.0, 4.0), off_by(0.9, 1.0)], ["3.0 times", "1/4.0", "-10.0 %"]);
        assert_eq!([signed(-0.5), signed(2.0)], ["-0.5", "+2"]);
    }
}
