//! Data sets: the files of the ledger that people write. `ledger/README.md` shows how a row is added.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// Files of the folder that are no data sets.
const OTHER_FILES: [&str; 3] = ["parameters", "results", "predictions"];

/// Between the line and the column in the name of a row.
pub const BETWEEN_LINE_AND_COLUMN: &str = ", ";

/// The line and the column of a row, from its name.
///
/// # Errors
/// The name has no column.
pub fn place(id: &str) -> Result<(&str, &str)> {
    let place = id.split_once(BETWEEN_LINE_AND_COLUMN);
    place.ok_or_else(|| anyhow::anyhow!("row {id}: a crosstab needs names such as \"LINE, COLUMN\""))
}

/// How a published figure was used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It was not known when the parameters were chosen: the figure is held back, or only the prediction counts.
    Blind,
    /// It was known, and no parameter was chosen to match it.
    Seen,
    /// A parameter was chosen to match it.
    Fitted,
}

impl Role {
    /// All, the most telling first.
    pub const ALL: [Self; 3] = [Self::Blind, Self::Seen, Self::Fitted];

    /// As files have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blind => "blind",
            Self::Seen => "seen",
            Self::Fitted => "fitted",
        }
    }
}

/// How exact a published figure is.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(untagged)]
pub enum Precision {
    /// In the figure's unit.
    Absolute(f64),
    /// `"10 %"` of the figure.
    Percent(String),
}

impl Precision {
    /// In the unit of the figure.
    fn absolute(&self, value: f64) -> Result<f64> {
        match self {
            Self::Absolute(precision) => Ok(*precision),
            Self::Percent(text) => {
                let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
                let percent =
                    percent.with_context(|| format!("precision {text:?} is neither a number nor \"N %\""))?;
                Ok(value * percent / 100.0)
            }
        }
    }
}

/// The meaning of a published figure that is a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Ours should not be larger.
    Most,
    /// Ours should not be smaller.
    Least,
}

/// `first` of a row that has not been compared.
pub const NOT_YET: &str = "not yet";

/// A command that gives our figures.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Arguments of `tranche`, without those for its output. A `study`, and a sweep with `--set`, write `results.json`; other commands print JSON. `$NAME` is a variable of the environment.
    pub command: String,
    /// The parameters that the results depend on: tables of constants, or names of profiles.
    #[serde(default)]
    pub uses: Vec<String>,
    /// Processor time in seconds, about.
    #[serde(default)]
    pub seconds: u64,
    /// It needs root or other programs: `make fidelity` does not start it, but reads its results.
    #[serde(default)]
    pub by_hand: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetFile {
    title: String,
    document: String,
    page: Option<String>,
    #[serde(default)]
    crosstab: bool,
    #[serde(default)]
    run: BTreeMap<String, Run>,
    group: Vec<GroupFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupFile {
    title: String,
    declared_blind: Option<String>,
    unit: Option<String>,
    precision: Option<Precision>,
    bound: Option<Bound>,
    formula: Option<String>,
    run: Option<String>,
    role: Option<Role>,
    first: Option<String>,
    cause: Option<String>,
    rows: Vec<RowFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowFile {
    id: String,
    quote: String,
    value: Option<f64>,
    unit: Option<String>,
    precision: Option<Precision>,
    bound: Option<Bound>,
    formula: Option<String>,
    run: Option<String>,
    ours: Option<String>,
    role: Option<Role>,
    first: Option<String>,
    prediction: Option<String>,
    cause: Option<String>,
    #[serde(default)]
    parts: Vec<String>,
}

/// One document, or a part of it that is judged by itself.
#[derive(Debug)]
pub struct DataSet {
    /// The experiment.
    pub title: String,
    /// Authors, title, where and when.
    pub document: String,
    /// The page of `docs` that treats it.
    pub page: Option<String>,
    /// Whether its rows are shown as one table.
    pub crosstab: bool,
    /// Commands by name.
    pub runs: BTreeMap<String, Run>,
    /// Tables of the document.
    pub groups: Vec<Group>,
}

/// Rows that belong together.
#[derive(Debug)]
pub struct Group {
    /// Their subject.
    pub title: String,
    /// The date on which its rows were declared blind, before any was compared.
    pub declared_blind: Option<String>,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// A published figure.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name within the data set.
    pub id: String,
    /// As published.
    pub quote: String,
    /// The figure, above 0; none if it is held back.
    pub value: Option<f64>,
    /// Its unit; empty for a ratio.
    pub unit: String,
    /// The figure is exact to plus and minus this.
    pub precision: f64,
    /// Whether it is a bound.
    pub bound: Option<Bound>,
    /// How the figure follows from published ones, if it does not stand there.
    pub formula: Option<String>,
    /// The run that has ours.
    pub run: Option<String>,
    /// Where the run's result has ours ([`crate::select`]).
    pub ours: Option<String>,
    /// How it was used.
    pub role: Role,
    /// Date and commit of the first comparison, `unknown`, or `not yet`.
    pub first: Option<String>,
    /// The commit that holds the prediction, once a blind row has been compared.
    pub prediction: Option<String>,
    /// Why ours deviates, where that is known.
    pub cause: Option<String>,
    /// Rows whose sum this is.
    pub parts: Vec<String>,
}

impl DataSet {
    /// Of the text of a file.
    ///
    /// # Errors
    /// What makes no sense, with the row's name.
    pub fn parse(text: &str) -> Result<Self> {
        let mut file: SetFile = toml::from_str(text)?;
        let mut groups = Vec::new();
        for mut group in std::mem::take(&mut file.group) {
            let rows = std::mem::take(&mut group.rows);
            let rows = rows.into_iter().map(|row| {
                let id = row.id.clone();
                group.row(row).with_context(|| format!("row {id}"))
            });
            let rows = rows.collect::<Result<_>>()?;
            groups.push(Group { title: group.title, declared_blind: group.declared_blind, rows });
        }
        let SetFile { title, document, page, crosstab, run: runs, .. } = file;
        let set = Self { title, document, page, crosstab, runs, groups };
        set.check()?;
        Ok(set)
    }

    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.groups.iter().flat_map(|group| &group.rows)
    }

    /// The row of a name.
    pub fn row(&self, id: &str) -> Option<&Row> {
        self.rows().find(|row| row.id == id)
    }

    fn check(&self) -> Result<()> {
        for (at, row) in self.rows().enumerate() {
            let id = &row.id;
            if self.crosstab {
                place(id)?;
            }
            ensure!(!self.rows().take(at).any(|other| other.id == *id), "row {id} is there twice");
            if let Some(run) = &row.run {
                ensure!(self.runs.contains_key(run), "row {id}: there is no run {run:?}");
            }
            let mut sum = (0.0, 0.0);
            for part in &row.parts {
                let part = self.row(part).with_context(|| format!("row {id}: there is no row {part:?}"))?;
                sum = (sum.0 + part.value.unwrap_or(0.0), sum.1 + part.precision);
            }
            let off = (sum.0 - row.value.unwrap_or(0.0)).abs();
            ensure!(
                row.parts.is_empty() || off <= sum.1 + row.precision,
                "row {id}: its parts make {}, off by more than their precision",
                sum.0
            );
        }
        Ok(())
    }
}

impl GroupFile {
    /// A row, with what the group says of all its rows.
    fn row(&self, row: RowFile) -> Result<Row> {
        let role = row.role.or(self.role).context("its role is missing: fitted, seen or blind")?;
        let number = row.quote.replace(',', "").parse::<f64>().ok();
        let value = row.value.or(number);
        ensure!(value.is_none_or(|value| value > 0.0), "its value is not above 0");
        let precision = match (row.precision.as_ref().or(self.precision.as_ref()), value) {
            (_, None) => 0.0,
            (Some(precision), Some(value)) => precision.absolute(value)?,
            (None, Some(value)) if number == Some(value) => half_of_the_last_digit(&row.quote),
            (None, Some(_)) => bail!("its precision is missing: the quote is not the value"),
        };
        let run = row.run.or_else(|| self.run.clone()).filter(|_| row.ours.is_some());
        ensure!(row.ours.is_none() || run.is_some(), "`ours` needs a run");
        let first = row.first.or_else(|| self.first.clone());
        match role {
            Role::Blind => {
                ensure!(self.declared_blind.is_some(), "a blind row needs `declared_blind` in its group");
                ensure!(value.is_none(), "a blind row has no value: the comparison makes it seen");
                ensure!(
                    row.prediction.is_none(),
                    "`prediction` belongs to the comparison, which makes the row seen"
                );
            }
            Role::Seen if self.declared_blind.is_some() => {
                ensure!(
                    row.prediction.is_some(),
                    "it was declared blind: `prediction` must name the commit that predicted it"
                );
            }
            Role::Seen | Role::Fitted => {}
        }
        ensure!(role == Role::Blind || value.is_some(), "its value is missing");
        ensure!(
            role == Role::Blind || first.is_some(),
            "`first` is missing: date and commit of the first comparison"
        );
        Ok(Row {
            id: row.id,
            quote: row.quote,
            value,
            unit: row.unit.or_else(|| self.unit.clone()).unwrap_or_default(),
            precision,
            bound: row.bound.or(self.bound),
            formula: row.formula.or_else(|| self.formula.clone()),
            run,
            ours: row.ours,
            role,
            first,
            prediction: row.prediction,
            cause: row.cause.or_else(|| self.cause.clone()).filter(|cause| !cause.is_empty()),
            parts: row.parts,
        })
    }
}

/// Half a unit of the last digit of a number as printed.
fn half_of_the_last_digit(number: &str) -> f64 {
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    0.5 / 10_f64.powi(i32::try_from(decimals).unwrap_or(0))
}

/// All data sets of a folder, by the names of their files.
///
/// # Errors
/// A file that cannot be read, or is wrong.
pub fn read_all(folder: &Path) -> Result<BTreeMap<String, DataSet>> {
    let mut sets = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if path.extension().is_some_and(|extension| extension == "toml") && !OTHER_FILES.contains(&&*name) {
            let text = fs::read_to_string(&path)?;
            sets.insert(name, DataSet::parse(&text).with_context(|| path.display().to_string())?);
        }
    }
    Ok(sets)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = r#"
title = "A drive"
document = "Somebody, 2020"
[run.sim]
command = "study x --sim"
[[group]]
title = "Table 1"
run = "sim"
role = "seen"
first = "2026-11-22 abc"
unit = "ms"
rows = [
  { id = "a", quote = "1,234.50", ours = "@a[].metrics.a" },
  { id = "b", quote = "about 5", value = 5, precision = "10 %" },
  { id = "all", quote = "1239.5", parts = ["a", "b"], role = "fitted" },
]
"#;

    #[test]
    fn a_row_takes_what_its_group_says() {
        let set = DataSet::parse(SET).unwrap();
        let [a, b, all] = &set.groups[0].rows[..] else { panic!() };
        assert_eq!(
            (a.value, a.precision, &*a.unit, a.run.as_deref()),
            (Some(1234.5), 0.005, "ms", Some("sim"))
        );
        assert_eq!((b.precision, b.run.as_deref(), b.role), (0.5, None, Role::Seen));
        assert_eq!((all.role, all.precision, all.parts.len()), (Role::Fitted, 0.05, 2));
        assert_eq!(half_of_the_last_digit("850"), 0.5);
    }

    #[test]
    fn mistakes_are_named_with_their_row() {
        for (from, to, what) in [
            ("role = \"seen\"\n", "", "row a: its role is missing"),
            ("first = \"2026-11-22 abc\"\n", "", "`first` is missing"),
            ("run = \"sim\"\n", "", "`ours` needs a run"),
            ("run = \"sim\"\n", "run = \"live\"\n", "there is no run \"live\""),
            (", precision = \"10 %\"", "", "row b: its precision is missing"),
            ("\"10 %\"", "\"some\"", "neither a number"),
            ("value = 5", "value = 0", "not above 0"),
            ("id = \"b\"", "id = \"a\"", "row a is there twice"),
            ("[\"a\", \"b\"]", "[\"a\", \"c\"]", "there is no row \"c\""),
            ("1239.5", "1250.5", "its parts make 1239.5"),
            ("about 5\", value = 5", "about 5\"", "its value is missing"),
            ("precision = \"10 %\"", "precision = \"10 %\", colour = 1", "colour"),
        ] {
            assert!(SET.contains(from), "{from}");
            let error = format!("{:#}", DataSet::parse(&SET.replacen(from, to, 1)).unwrap_err());
            assert!(error.contains(what), "{what}: {error}");
        }
    }

    #[test]
    fn a_blind_row_has_a_prediction_before_it_has_a_value() {
        let blind = |row: &str, group: &str| {
            let text =
                format!("title = \"\"\ndocument = \"\"\n[[group]]\ntitle = \"\"\n{group}\nrows = [ {row} ]");
            DataSet::parse(&text).map_err(|error| format!("{error:#}"))
        };
        let declared = "declared_blind = \"2026-12-01\"\nfirst = \"2026-12-02 abc\"";
        let refused = |row, group: &str, what: &str| {
            let error = blind(row, group).unwrap_err();
            assert!(error.contains(what), "{error}");
        };
        assert!(blind("{ id = \"a\", quote = \"held\", role = \"blind\" }", declared).is_ok());
        refused("{ id = \"a\", quote = \"held\", role = \"blind\" }", "", "declared_blind");
        refused("{ id = \"a\", quote = \"5\", role = \"blind\" }", declared, "makes it seen");
        refused("{ id = \"a\", quote = \"5\", role = \"seen\" }", declared, "must name the commit");
        refused(
            "{ id = \"a\", quote = \"held\", role = \"blind\", prediction = \"abc\" }",
            declared,
            "belongs to the comparison",
        );
        assert!(
            blind("{ id = \"a\", quote = \"5\", role = \"seen\", prediction = \"abc\" }", declared).is_ok()
        );
    }
}
