//! `history.csv`: a line for each score that changed, and for each prediction. Lines are only added, so that a worse score stays.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};

use crate::{Ledger, data_set::Role, page::summaries, results::Prediction};

/// The first line of the file.
const HEADER: &str = "date,commit,set,role,rows,median,worst,within_10_percent,parameters";
/// What stands in place of a role in the line of a prediction.
const PREDICTED_ROLE: &str = "predicted";

/// The lines, oldest first, each as its fields.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct History {
    lines: Vec<Vec<String>>,
}

impl History {
    /// Of a folder; no file is no history.
    ///
    /// # Errors
    /// A line with too many or too few fields.
    pub fn read(folder: &Path) -> Result<Self> {
        Self::parse(&fs::read_to_string(folder.join("history.csv")).unwrap_or_default())
    }

    fn parse(text: &str) -> Result<Self> {
        let mut lines = Vec::new();
        for line in text.lines().skip(1) {
            let fields: Vec<String> = line.split(',').map(str::to_owned).collect();
            ensure!(
                fields.len() == HEADER.split(',').count(),
                "ledger/history.csv: {line:?} has another number of fields"
            );
            lines.push(fields);
        }
        Ok(Self { lines })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        fs::write(folder.join("history.csv"), self.text()).context("writing ledger/history.csv")
    }

    fn text(&self) -> String {
        let lines = self.lines.iter().map(|fields| fields.join(","));
        [HEADER.to_owned()].into_iter().chain(lines).map(|line| line + "\n").collect()
    }

    /// Adds the scores that differ from the last line of their data set and role.
    pub fn add_scores(&mut self, ledger: &Ledger, date: &str, commit: &str) {
        for (set, role, score) in missing(self, ledger) {
            let parameters = ledger.parameters.hash(None, "");
            let line = [date, commit, &set, role.name()]
                .map(str::to_owned)
                .into_iter()
                .chain(score)
                .chain([parameters]);
            self.lines.push(line.collect());
        }
    }

    /// Adds the line of a prediction.
    pub fn add_prediction(&mut self, prediction: &Prediction) {
        let Prediction { set, date, commit, parameters, figures, .. } = prediction;
        let rows = figures.len().to_string();
        let fields = [date, commit, set, PREDICTED_ROLE, &rows, "", "", "", parameters];
        self.lines.push(fields.map(str::to_owned).to_vec());
    }

    /// Whether a prediction has its line, with the hash of the parameters of that time.
    pub fn has_prediction(&self, prediction: &Prediction) -> bool {
        let mut alone = Self::default();
        alone.add_prediction(prediction);
        self.lines.contains(&alone.lines[0])
    }

    /// Data sets and roles whose last line is not their score.
    pub fn missing(&self, ledger: &Ledger) -> Vec<String> {
        missing(self, ledger).into_iter().map(|(set, role, _)| format!("{set}, {}", role.name())).collect()
    }
}

/// Scores that are not in the last line of their data set and role: rows, median, worst, share within 10 %.
fn missing(history: &History, ledger: &Ledger) -> Vec<(String, Role, [String; 4])> {
    let mut found = Vec::new();
    for (set, role, of) in summaries(ledger) {
        let score = [
            of.rows.to_string(),
            format!("{:.4}", of.median),
            format!("{:.4}", of.worst),
            format!("{:.3}", of.close),
        ];
        let last = history.lines.iter().rfind(|fields| fields[2] == set && fields[3] == role.name());
        if last.is_none_or(|fields| fields[4..8] != score) {
            found.push((set, role, score));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::example;

    #[test]
    fn a_changed_score_is_added_and_the_old_one_stays() {
        let mut ledger = example();
        let mut history = History::default();
        assert_eq!(history.missing(&ledger), ["drive, seen", "drive, fitted"]);
        history.add_scores(&ledger, "2026-12-01", "abc");
        assert_eq!(history.missing(&ledger), [""; 0]);
        let first = history.clone();
        history.add_scores(&ledger, "2026-12-02", "def");
        assert_eq!(history, first, "nothing changed");
        ledger.results.runs.get_mut("drive.sim").unwrap().figures.insert("$.a".into(), 20.0);
        history.add_scores(&ledger, "2026-12-02", "def");
        assert_eq!(history.lines.len(), 3);
        assert_eq!(history.lines[2][2..8], ["drive", "seen", "1", "0.6931", "0.6931", "0.000"]);
        assert_eq!(history.lines[..2], first.lines);
        assert_eq!(History::parse(&history.text()).unwrap(), history);
        assert!(History::parse(&(history.text() + "1,2\n")).is_err());
    }
}
