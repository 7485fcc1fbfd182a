//! Parameters: constants of fitted modules, and keys of profiles. `ledger/parameters.toml` declares all of them, so that none is fitted in silence.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// The origin of a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Chosen so that a result matches a published one.
    Fitted,
    /// Usual for its class, or a guess. Nothing was matched.
    Assumed,
    /// Measured on a machine of the project.
    Measured,
    /// It changes no result.
    Text,
}

/// A declared constant, or a declared key of one profile.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// Its origin.
    pub kind: Kind,
    /// The data set that it was fitted to.
    pub to: Option<String>,
    /// The figures that it was fitted to, or where it comes from.
    pub why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    constants: BTreeMap<String, Module>,
    keys: BTreeMap<String, String>,
    profiles: BTreeMap<String, BTreeMap<String, Declaration>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Module {
    file: String,
    declared: BTreeMap<String, Declaration>,
}

/// Declarations, and the parameters of the sources.
#[derive(Debug, Default)]
pub struct Parameters {
    /// Declared constants by table, and declared keys by profile.
    declared: BTreeMap<String, BTreeMap<String, Declaration>>,
    /// Keys that any profile may have, with their meaning.
    keys: BTreeMap<String, String>,
    /// Values by table or profile and name, as their files have them.
    values: BTreeMap<String, BTreeMap<String, String>>,
    /// Lines of profiles with the word `[fitted]`, by profile: the keys that they explain.
    marked: BTreeMap<String, Vec<String>>,
}

impl Parameters {
    /// Of a repository.
    ///
    /// # Errors
    /// A file that cannot be read, or is wrong.
    pub fn read(root: &Path) -> Result<Self> {
        let read = |path: &str| fs::read_to_string(root.join(path)).with_context(|| path.to_owned());
        let file: File =
            toml::from_str(&read("ledger/parameters.toml")?).context("ledger/parameters.toml")?;
        let mut all = Self { declared: file.profiles, keys: file.keys, ..Self::default() };
        for (name, module) in file.constants {
            all.values.insert(name.clone(), constants(&read(&module.file)?));
            all.declared.insert(name, module.declared);
        }
        for entry in fs::read_dir(root.join("profiles")).context("profiles")? {
            let path = entry?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            all.add_profile(&name, &text).with_context(|| path.display().to_string())?;
        }
        Ok(all)
    }

    fn add_profile(&mut self, name: &str, text: &str) -> Result<()> {
        let mut values = BTreeMap::new();
        // Where figures are stated, no parameter is.
        let mut toml: toml::Table = toml::from_str(text)?;
        toml.remove("datasheet");
        flatten("", &toml.into(), &mut values);
        self.values.insert(name.to_owned(), values);
        self.marked.insert(name.to_owned(), marked(text));
        Ok(())
    }

    /// Whether there is a table of constants or a profile of this name.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// How many parameters were fitted to a data set.
    pub fn fitted_to(&self, set: &str) -> usize {
        self.declared.values().flat_map(BTreeMap::values).filter(|of| of.to.as_deref() == Some(set)).count()
    }

    /// All fitted parameters: table or profile, name, value, declaration.
    pub fn fitted(&self) -> impl Iterator<Item = (&str, &str, &str, &Declaration)> {
        self.declared.iter().flat_map(move |(table, all)| {
            let fitted = all.iter().filter(|(_, of)| of.kind == Kind::Fitted);
            fitted.map(move |(name, of)| {
                let value = self.values.get(table).and_then(|values| values.get(name));
                (&**table, &**name, value.map_or("", |value| value), of)
            })
        })
    }

    /// A hash of the values of some tables and profiles, or of all, and of a text: 16 hexadecimal digits.
    pub fn hash(&self, of: Option<&[String]>, text: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(text);
        for (table, values) in &self.values {
            if of.is_none_or(|of| of.contains(table)) {
                values.iter().for_each(|(name, value)| hash.update(format!("\n{table} {name} {value}")));
            }
        }
        hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Parameters that are not declared, and declarations without a parameter, each in words.
    pub fn undeclared(&self, sets: &[&str]) -> Vec<String> {
        let mut wrong = Vec::new();
        let none = BTreeMap::new();
        for (table, values) in &self.values {
            let declared = self.declared.get(table).unwrap_or(&none);
            let is_profile = self.marked.contains_key(table);
            for name in values.keys() {
                let known = if is_profile {
                    self.keys.contains_key(&general(name))
                } else {
                    declared.contains_key(name)
                };
                if !known {
                    wrong.push(format!("{table}: {name} is not declared"));
                }
            }
            for name in
                self.marked.get(table).into_iter().flatten().filter(|name| !declared.contains_key(*name))
            {
                wrong.push(format!("{table}: {name} is marked [fitted], and not declared"));
            }
        }
        for (table, all) in &self.declared {
            for (name, of) in all {
                if !self.values.get(table).is_some_and(|values| values.contains_key(name)) {
                    wrong.push(format!("{table}: {name} is declared, and not there"));
                }
                match (&of.to, of.kind) {
                    (Some(set), Kind::Fitted) if sets.contains(&&**set) => {}
                    (None, Kind::Assumed | Kind::Measured | Kind::Text) => {}
                    (Some(_), Kind::Fitted) => {
                        wrong.push(format!("{table}: {name} is fitted to no data set of the ledger"))
                    }
                    _ => wrong.push(format!(
                        "{table}: {name}: `to` belongs to what is fitted, and to nothing else"
                    )),
                }
            }
        }
        wrong
    }
}

/// The constants that a source declares, with their values as written.
fn constants(source: &str) -> BTreeMap<String, String> {
    let declared = source.lines().filter(|line| !line.trim_start().starts_with("//")).filter_map(|line| {
        let (before, rest) = line.split_once("const ")?;
        let (name, rest) = rest.split_once(": ")?;
        let (_, value) = rest.split_once(" = ")?;
        let is_item = before.is_empty() || before.starts_with("pub");
        is_item.then(|| (name.to_owned(), value.trim_end_matches(';').to_owned()))
    });
    declared.collect()
}

/// The keys of a TOML with their values: `set.1.timing.read`.
fn flatten(path: &str, value: &toml::Value, found: &mut BTreeMap<String, String>) {
    let inner = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        toml::Value::Table(table) => {
            table.iter().for_each(|(name, value)| flatten(&inner(name), value, found))
        }
        toml::Value::Array(all) if all.iter().all(toml::Value::is_table) => {
            (1..).zip(all).for_each(|(n, value): (usize, _)| flatten(&inner(&n.to_string()), value, found));
        }
        other => {
            found.insert(path.to_owned(), other.to_string());
        }
    }
}

/// A key without the numbers of sets: `set.timing.read`.
fn general(name: &str) -> String {
    name.split('.').filter(|part| part.parse::<u32>().is_err()).collect::<Vec<_>>().join(".")
}

/// The keys of a profile that a comment with `[fitted]` explains: behind the value, or in lines before it.
fn marked(text: &str) -> Vec<String> {
    let (mut table, mut sets, mut pending, mut found) = (String::new(), BTreeMap::new(), false, Vec::new());
    // The first lines say what the words mean.
    for line in text.lines().skip_while(|line| line.starts_with('#')) {
        let (code, comment) = line.split_once('#').unwrap_or((line, ""));
        pending |= comment.contains("[fitted]");
        let code = code.trim();
        if let Some(name) = code.strip_prefix("[[").and_then(|code| code.strip_suffix("]]")) {
            let count: &mut u32 = sets.entry(name.to_owned()).or_default();
            *count += 1;
            table = format!("{name}.{count}");
        } else if let Some(name) = code.strip_prefix('[').and_then(|code| code.strip_suffix(']')) {
            name.clone_into(&mut table);
        } else if let Some((name, _)) = code.split_once('=')
            && std::mem::take(&mut pending)
        {
            found.push(format!("{table}.{}", name.trim()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "# [fitted] was chosen.\n\n[link]\nread = \"3GB/s\" # [class]\n[[set]]\ndies = 4\n# [fitted] to writes\nspare = \"9 %\"\n\
        [[set]]\ntiming = { read = \"1us\" } # [class]\n[datasheet]\nsource = \"\"\n";

    fn parameters() -> Parameters {
        let mut all = Parameters::default();
        all.values.insert(
            "model".into(),
            constants("/// The speed.\npub(super) const SPEED: u32 = 7;\nlet const_ = 1;\n"),
        );
        all.add_profile("drive", PROFILE).unwrap();
        let declare =
            |kind, to: Option<&str>| Declaration { kind, to: to.map(str::to_owned), why: String::new() };
        all.declared.insert("model".into(), [("SPEED".into(), declare(Kind::Fitted, Some("tables")))].into());
        all.declared
            .insert("drive".into(), [("set.1.spare".into(), declare(Kind::Fitted, Some("sheets")))].into());
        all.keys = ["link.read", "set.dies", "set.spare", "set.timing.read"]
            .map(|key| (key.into(), String::new()))
            .into();
        all
    }

    #[test]
    fn everything_is_declared_or_named() {
        let sets = ["sheets", "tables"];
        assert_eq!(parameters().undeclared(&sets), [""; 0]);
        let wrong = |change: &dyn Fn(&mut Parameters)| {
            let mut all = parameters();
            change(&mut all);
            all.undeclared(&sets)
        };
        assert_eq!(
            wrong(&|all| all.declared.get_mut("model").unwrap().clear()),
            ["model: SPEED is not declared"]
        );
        assert_eq!(wrong(&|all| all.keys.clear()).len(), 4);
        assert_eq!(
            wrong(&|all| all.declared.get_mut("drive").unwrap().clear()),
            ["drive: set.1.spare is marked [fitted], and not declared"]
        );
        assert_eq!(
            wrong(&|all| all.values.get_mut("model").unwrap().clear()),
            ["model: SPEED is declared, and not there"]
        );
        let speed = |of: &dyn Fn(&mut Declaration)| {
            wrong(&|all| of(all.declared.get_mut("model").unwrap().get_mut("SPEED").unwrap()))
        };
        assert_eq!(
            speed(&|of| of.to = Some("x".into())),
            ["model: SPEED is fitted to no data set of the ledger"]
        );
        assert_eq!(
            speed(&|of| of.kind = Kind::Assumed),
            ["model: SPEED: `to` belongs to what is fitted, and to nothing else"]
        );
    }

    #[test]
    fn a_hash_is_of_what_a_run_uses() {
        let (all, of_model) = (parameters(), [String::from("model")]);
        let mut other = parameters();
        other.add_profile("drive", &PROFILE.replace("dies = 4", "dies = 8")).unwrap();
        assert_eq!(all.hash(Some(&of_model), "x"), other.hash(Some(&of_model), "x"));
        assert_ne!(all.hash(None, "x"), other.hash(None, "x"));
        assert_ne!(all.hash(None, "x"), all.hash(None, "y"));
        // Neither comments nor data sheets are parameters.
        other
            .add_profile(
                "drive",
                &PROFILE.replace("# [class]", "").replace("source = \"\"", "source = \"a\""),
            )
            .unwrap();
        assert_eq!(all.hash(None, "x"), other.hash(None, "x"));
        assert_eq!((all.fitted_to("tables"), all.fitted().count()), (1, 2));
    }
}
