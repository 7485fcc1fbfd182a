//! Settings of a server as files say them: each with the file and the line, the last one of a name counts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

/// Names of settings that a report shows where it counts them.
const MAX_SHOWN_NAMES: usize = 8;
/// Misspelt settings that a report shows.
const MISSPELT_SHOWN: usize = 50;

/// A setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Its group; empty where files have none.
    pub group: String,
    /// Its name, with underscores.
    pub name: String,
    /// Its value; none of an option that stands alone.
    pub value: Option<String>,
    /// What a prefix of its name, as `skip_`, makes of it.
    pub switched: Option<bool>,
    /// Whether a server that does not know its name starts nevertheless.
    pub loose: bool,
    /// The file that says it.
    pub file: PathBuf,
    /// The line there, from 1.
    pub line: u32,
}

impl Setting {
    /// `FILE:LINE`.
    pub fn place(&self) -> String {
        place(&self.file, self.line)
    }

    /// What is said of a value that cannot be read.
    pub fn wrong(&self, why: &str) -> anyhow::Error {
        let value = self.value.as_deref().unwrap_or("");
        anyhow!("{}: {} = {value:?}: {why}", self.place(), self.name)
    }
}

/// `FILE:LINE`.
pub fn place(file: &Path, line: u32) -> String {
    format!("{}:{line}", file.display())
}

/// All settings, in the order in which the server reads them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Settings {
    /// The settings.
    pub all: Vec<Setting>,
    /// The files that were read.
    pub files: Vec<PathBuf>,
    /// What the server ignores, or may read elsewhere.
    pub ignored: Vec<String>,
}

/// What is said of a setting that no server has, with the known one that it is near to.
pub fn passed_over(near: Option<String>) -> String {
    let near = near.map(|near| format!(": did you mean {near}?")).unwrap_or_default();
    format!(
        "passed over, because no setting of this name is known{near} (a server that knows none, either, does not start)"
    )
}

impl Settings {
    /// Settings of which `unknown` has something to say by their names, and what. Of each name it is the one that counts. So many are
    /// told that people read them.
    pub fn misspelt(&self, unknown: fn(&str) -> Option<String>) -> Vec<(&Setting, String)> {
        let told = self.that_count().into_values();
        told.filter_map(|setting| Some((setting, unknown(&setting.name)?))).take(MISSPELT_SHOWN).collect()
    }

    /// Of each name the setting that counts.
    pub fn that_count(&self) -> BTreeMap<&str, &Setting> {
        self.all.iter().map(|setting| (setting.name.as_str(), setting)).collect()
    }

    /// How many names of settings are `wanted`, and the first of them: `N: a, b`. None if there is none.
    pub fn names(&self, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let names: BTreeSet<&str> = self.all.iter().map(|setting| setting.name.as_str()).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| wanted(name)).collect();
        let (more, count) = (if names.len() > MAX_SHOWN_NAMES { ", …" } else { "" }, names.len());
        (count > 0).then(|| format!("{count}: {}{more}", names[..count.min(MAX_SHOWN_NAMES)].join(", ")))
    }

    /// The setting of this name that counts.
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.all.iter().rfind(|setting| setting.name == name)
    }

    /// A word, as it is written.
    ///
    /// # Errors
    /// It has no value.
    pub fn word(&self, name: &str) -> Result<Option<(&str, &Setting)>> {
        let Some(setting) = self.get(name) else { return Ok(None) };
        let word = setting.value.as_deref().ok_or_else(|| setting.wrong("it has no value"))?;
        Ok(Some((word, setting)))
    }
}

#[cfg(test)]
impl Settings {
    /// Those of a file `my.cnf`, one on each line: the group, the name and the value.
    pub fn of_lines<'a>(lines: impl IntoIterator<Item = (&'a str, &'a str, Option<&'a str>)>) -> Self {
        let setting = |(line, (group, name, value)): (u32, (&str, &str, Option<&str>))| Setting {
            group: group.into(),
            name: name.into(),
            value: value.map(str::to_owned),
            switched: None,
            loose: false,
            file: "my.cnf".into(),
            line,
        };
        Self { all: (1..).zip(lines).map(setting).collect(), ..Self::default() }
    }
}
