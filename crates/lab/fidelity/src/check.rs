//! Whether the files of the ledger agree with each other, and with parameters and page. No score is judged.

use std::path::Path;

use anyhow::{Context, Result};

use crate::{Ledger, data_set::NOT_YET, page};

/// Where the page is.
pub const PAGE_PATH: &str = "docs/fidelity.md";

/// Results whose command or parameters have changed since, or that no row asks for.
pub fn stale(ledger: &Ledger) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, entry) in &ledger.results.runs {
        let found = name
            .split_once('.')
            .and_then(|(set, run)| Some((set, run, ledger.sets.get(set)?.runs.get(run)?)));
        let Some((set, run_name, run)) = found else {
            wrong.push(format!("{name} has results, and no data set names this run"));
            continue;
        };
        if entry.inputs != ledger.inputs(run) {
            wrong.push(format!("{name}: its command or a parameter has changed since {}", entry.commit));
        }
        let asks = |selector: &String| {
            ledger.sets[set]
                .rows()
                .any(|row| row.run.as_deref() == Some(run_name) && row.ours.as_ref() == Some(selector))
        };
        let unasked = entry.figures.keys().filter(|selector| !asks(selector));
        wrong.extend(unasked.map(|selector| format!("{name}: no row asks for {selector}")));
    }
    wrong
}

/// Rows that were compared, and do not say when for the first time.
pub fn undated(ledger: &Ledger) -> Vec<String> {
    let mut wrong = Vec::new();
    for (set, data) in &ledger.sets {
        let compared = data.rows().filter(|row| row.value.is_some() && ledger.ours(set, row).is_some());
        for row in compared.filter(|row| row.first.as_deref() == Some(NOT_YET)) {
            wrong.push(format!("{set}, {}: it is compared now: `first` must have date and commit", row.id));
        }
    }
    wrong
}

/// Rows and predictions that break the rules of blind tests ([`crate::data_set`] checks single rows).
pub fn blind(ledger: &Ledger) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, set) in &ledger.sets {
        for row in set.rows() {
            let predicted = ledger.results.prediction(name, &row.id).is_some();
            if row.prediction.is_some() && !predicted {
                wrong.push(format!("{name}, {}: ledger/predictions.toml has no prediction of it", row.id));
            }
            if row.value.is_some() && predicted && row.prediction.is_none() {
                wrong
                    .push(format!("{name}, {}: it was predicted: `prediction` must name the commit", row.id));
            }
        }
    }
    for prediction in &ledger.results.predictions {
        if !ledger.history.has_prediction(prediction) {
            wrong.push(format!(
                "the prediction of {} from {}: ledger/history.csv has no such line, with these parameters",
                prediction.set, prediction.date
            ));
        }
        let rows = prediction
            .figures
            .keys()
            .filter(|row| ledger.sets.get(&prediction.set).is_none_or(|set| set.row(row).is_none()));
        wrong.extend(
            rows.map(|row| {
                format!("{}, {row}: it was predicted, and is not in the data set", prediction.set)
            }),
        );
    }
    wrong
}

/// All that is wrong in a repository, each in words.
///
/// # Errors
/// A file that cannot be read, or is wrong by itself.
pub fn all(root: &Path) -> Result<Vec<String>> {
    let ledger = Ledger::read(root)?;
    let sets: Vec<&str> = ledger.sets.keys().map(String::as_str).collect();
    let mut wrong =
        [ledger.parameters.undeclared(&sets), stale(&ledger), undated(&ledger), blind(&ledger)].concat();
    for (name, set) in &ledger.sets {
        for (run_name, run) in &set.runs {
            let unknown = run.uses.iter().filter(|used| !ledger.parameters.has(used));
            wrong.extend(unknown.map(|used| {
                format!("{name}.{run_name} uses {used}, which is neither a profile nor a table of constants")
            }));
        }
    }
    let missing = ledger.history.missing(&ledger);
    wrong.extend(missing.iter().map(|what| format!("ledger/history.csv lacks the score of {what}")));
    let page = std::fs::read_to_string(root.join(PAGE_PATH)).context(PAGE_PATH)?;
    if page != page::page(&ledger) {
        wrong.push(format!("{PAGE_PATH} is not what the ledger says: `make fidelity ARGS=--page` writes it"));
    }
    Ok(wrong)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        data_set::DataSet,
        results::{Entry, Prediction},
    };

    /// A data set of two rows with our figures, and a blind one.
    pub(crate) fn example() -> Ledger {
        let drive = "title = \"A drive\"\ndocument = \"Somebody, 2020\"\n[run.sim]\ncommand = \"sim x\"\n[[group]]\ntitle = \"Table 1\"\n\
            run = \"sim\"\nfirst = \"unknown\"\nrows = [ { id = \"a\", quote = \"10\", ours = \"$.a\", role = \"seen\", cause = \"A cause.\" },\n\
            { id = \"b\", quote = \"5\", ours = \"$.b\", role = \"fitted\" },\n { id = \"sum\", quote = \"15\", parts = [\"a\", \"b\"], role = \"seen\" } ]";
        let held = "title = \"Held\"\ndocument = \"Somebody, 2021\"\n[[group]]\ntitle = \"Table 2\"\ndeclared_blind = \"2026-12-01\"\n\
            rows = [ { id = \"c\", quote = \"held\", role = \"blind\" } ]";
        let mut ledger = Ledger {
            sets: [("drive", drive), ("held", held)]
                .map(|(name, text)| (name.to_owned(), DataSet::parse(text).unwrap()))
                .into(),
            parameters: crate::parameters::Parameters::default(),
            results: crate::results::Results::default(),
            history: crate::history::History::default(),
            files: [].into(),
        };
        let entry = Entry {
            date: "2026-12-01".into(),
            commit: "abc".into(),
            version: "1".into(),
            inputs: ledger.inputs(&ledger.sets["drive"].runs["sim"]),
            figures: [("$.a".into(), 11.0), ("$.b".into(), 5.0)].into(),
        };
        ledger.results.runs.insert("drive.sim".into(), entry);
        ledger
    }

    fn predicted() -> Prediction {
        Prediction {
            set: "held".into(),
            date: "2026-12-01".into(),
            commit: "abc".into(),
            parameters: "0123".into(),
            inputs: [].into(),
            figures: [("c".into(), 7.0)].into(),
        }
    }

    #[test]
    fn results_are_stale_when_their_command_changes_or_nobody_asks() {
        let mut ledger = example();
        assert_eq!(stale(&ledger), [""; 0]);
        ledger.sets.get_mut("drive").unwrap().runs.get_mut("sim").unwrap().command.push_str(" --seed 2");
        assert!(stale(&ledger)[0].contains("has changed since abc"));
        let mut ledger = example();
        ledger.results.runs.get_mut("drive.sim").unwrap().figures.insert("$.x".into(), 1.0);
        assert_eq!(stale(&ledger), ["drive.sim: no row asks for $.x"]);
        ledger.sets.remove("drive");
        assert!(stale(&ledger)[0].contains("no data set names this run"));
    }

    #[test]
    fn a_row_that_is_compared_says_since_when() {
        let mut ledger = example();
        assert_eq!(undated(&ledger), [""; 0]);
        let rows = &mut ledger.sets.get_mut("drive").unwrap().groups[0].rows;
        rows.iter_mut().for_each(|row| row.first = Some(NOT_YET.into()));
        assert_eq!(undated(&ledger).len(), 2, "the sum has no figure of ours");
    }

    #[test]
    fn a_blind_row_is_compared_with_its_prediction_only() {
        let mut ledger = example();
        assert_eq!(blind(&ledger), [""; 0]);
        ledger.results.predictions.push(predicted());
        assert!(blind(&ledger)[0].contains("history.csv has no such line"), "{:?}", blind(&ledger));
        ledger.history.add_prediction(&predicted());
        assert_eq!(blind(&ledger), [""; 0]);
        // Other parameters than those of that time.
        ledger.results.predictions[0].parameters = "4567".into();
        assert!(blind(&ledger)[0].contains("with these parameters"));
        ledger.results.predictions[0] = predicted();
        let row = |ledger: &mut Ledger, change: &dyn Fn(&mut crate::data_set::Row)| {
            change(&mut ledger.sets.get_mut("held").unwrap().groups[0].rows[0]);
        };
        row(&mut ledger, &|row| row.value = Some(8.0));
        assert!(blind(&ledger)[0].contains("must name the commit"));
        row(&mut ledger, &|row| row.prediction = Some("def".into()));
        assert_eq!(blind(&ledger), [""; 0]);
        row(&mut ledger, &|row| row.id = "d".into());
        assert_eq!(blind(&ledger).len(), 2, "a prediction without a row, and a row without a prediction");
    }
}
