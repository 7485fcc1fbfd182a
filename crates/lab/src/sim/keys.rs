//! What the keys of `--set` mean: values of the drive's TOML, options of jobs, and what the run itself is.

use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;
use toml::{Table, Value};
use workload::fio::{JobFile, Setting};

use super::{case::Precondition, load::Load};

/// What is varied.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    /// The drive's TOML.
    pub drive: Table,
    pub load: Load,
    pub precondition: Precondition,
    pub seed: u64,
}

/// Short names of tables of the first NVM Set on flash.
const OF_THE_SET: [&str; 5] = ["gc", "timing", "placement", "window", "faults"];

impl Variable {
    /// Gives a key its value.
    ///
    /// # Errors
    /// There is no such key, or it cannot have this value. Whether the drive can be so is not looked at.
    pub fn set(&mut self, key: &str, text: &str) -> Result<()> {
        let parts: Vec<&str> = key.split('.').collect();
        if parts.iter().any(|part| part.is_empty()) {
            bail!("{key:?} is no key: write TABLE.KEY, such as set.1.spare");
        }
        match parts[..] {
            ["seed"] => {
                self.seed = text.parse().map_err(|_| anyhow!("{text:?} is no seed: a whole number"))?;
            }
            ["precondition"] => {
                self.precondition = Precondition::from_str(text, false)
                    .map_err(|_| anyhow!("{text:?} is no preconditioning: none, fill or steady"))?;
            }
            ["job", _, ..] => self.load.set(&key["job.".len()..], text)?,
            ["drive" | "link", _, ..] => put(&mut self.drive, &parts, text)?,
            ["set" | "namespace", number, _, ..] => {
                let table = element(&mut self.drive, parts[0], number)?;
                drive_value(table, &parts[2..], text, parts[0] == "set")?;
            }
            ["ftl", _, ..] => drive_value(self.flash()?, &parts[1..], text, true)?,
            [table, _, ..] if OF_THE_SET.contains(&table) => {
                drive_value(self.flash()?, &parts, text, true)?;
            }
            _ => bail!(
                "there is no key {key:?}: there are seed, precondition, job.OPTION and job.JOB.OPTION, and those of the drive's \
                 TOML: drive.KEY, link.KEY, set.N.KEY, namespace.N.KEY; for the first NVM Set on flash ftl.KEY, and {}",
                OF_THE_SET.map(|table| format!("{table}.KEY")).join(", ")
            ),
        }
        Ok(())
    }

    /// The first NVM Set on flash.
    fn flash(&mut self) -> Result<&mut Table> {
        let sets = self.drive.get_mut("set").and_then(Value::as_array_mut);
        let mut tables = sets.into_iter().flatten().filter_map(Value::as_table_mut);
        tables
            .find(|set| set.get("media").and_then(Value::as_str) == Some("nand"))
            .ok_or_else(|| anyhow!("the drive has no NVM Set on flash"))
    }
}

/// One of a list of tables, counted from 1.
fn element<'a>(drive: &'a mut Table, list: &str, number: &str) -> Result<&'a mut Table> {
    let all = drive.get_mut(list).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default();
    let count = all.len();
    let index = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    index.and_then(|index| all.get_mut(index)).and_then(Value::as_table_mut).ok_or_else(|| match count {
        0 => anyhow!("the drive has no table {list}"),
        count => anyhow!("the drive has {list}.1 to {list}.{count}, and no {list}.{number}"),
    })
}

/// Two of these determine the third.
const SIZES: [&str; 3] = ["superblocks", "spare", "capacity"];

/// A value of an NVM Set or a namespace.
fn drive_value(table: &mut Table, path: &[&str], text: &str, set: bool) -> Result<()> {
    if let [key] = path
        && set
        && SIZES.contains(key)
        && !table.contains_key(*key)
    {
        // The one that was not given before gives way: superblocks, if it may.
        let others = SIZES.into_iter().filter(|other| other != key && table.contains_key(*other));
        let others: Vec<&str> = others.collect();
        if let [gives_way, _] = others[..] {
            table.remove(gives_way);
        }
    }
    put(table, path, text)
}

/// Puts a value where a path of tables leads.
fn put(table: &mut Table, path: &[&str], text: &str) -> Result<()> {
    let Some((last, tables)) = path.split_last() else { return Ok(()) };
    let mut at = table;
    for name in tables {
        let next = at.entry(*name).or_insert_with(|| Table::new().into());
        at = next.as_table_mut().ok_or_else(|| anyhow!("{name:?} is a value, not a table"))?;
    }
    let value = match at.get(*last) {
        Some(Value::Table(_) | Value::Array(_)) if !text.starts_with(['[', '{']) && is_table(at, last) => {
            bail!("{last:?} is a table: write {last}.KEY")
        }
        Some(Value::String(_)) => Value::String(text.to_owned()),
        _ => value(text),
    };
    at.insert((*last).to_owned(), value);
    Ok(())
}

fn is_table(at: &Table, key: &str) -> bool {
    at.get(key).is_some_and(Value::is_table)
}

/// A value as TOML has it, if it is one; else a text.
fn value(text: &str) -> Value {
    let parsed = toml::from_str::<Table>(&format!("value = {text}")).ok();
    let parsed = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

impl Load {
    /// Gives an option of every job, or `JOB.OPTION` of one, another value.
    fn set(&mut self, key: &str, text: &str) -> Result<()> {
        let Self::Fio { file, .. } = self else {
            bail!("the load is no job file, and has no options of jobs");
        };
        let (job, option) = key.rsplit_once('.').map_or((None, key), |(job, option)| (Some(job), option));
        let mut found = false;
        for section in file.sections.iter_mut().filter(|section| !section.is_global()) {
            if job.is_none_or(|job| job == section.name) {
                found = true;
                let value = Some(text.to_owned());
                section.settings.push(Setting { line: section.line, name: option.to_owned(), value });
            }
        }
        if !found {
            bail!("there is no job {:?}: there are {}", job.unwrap_or_default(), names(file));
        }
        Ok(())
    }
}

fn names(file: &JobFile) -> String {
    let jobs = file.sections.iter().filter(|section| !section.is_global());
    let mut names: Vec<&str> = jobs.map(|section| section.name.as_str()).take(20).collect();
    names.dedup();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIVE: &str = "[drive]\nmodel = \"a\"\n[[set]]\nmedia = \"dram\"\n[[set]]\nmedia = \"nand\"\ncapacity = \"2GiB\"\n\
                         superblocks = 300\ntiming = { read = [\"1us\"] }\n[[namespace]]\nset = 2\nsize = \"1GiB\"\n";

    fn variable() -> Variable {
        let file = JobFile::parse("[global]\nbs=4k\n[a]\n[b.c]\n", &|_| None).unwrap();
        let load = Load::Fio { name: "x".into(), file };
        let drive = toml::from_str(DRIVE).unwrap();
        Variable { drive, load, precondition: Precondition::None, seed: 1 }
    }

    #[test]
    fn values_go_where_their_keys_say() {
        let mut v = variable();
        for (key, value) in [
            ("ftl.spare", "7%"),
            ("gc.policy", "cost-benefit"),
            ("gc.low", "5"),
            ("timing.read", "60us"),
            ("set.1.banks", "4"),
            ("drive.model", "12"),
            ("drive.fair_sharing", "false"),
            ("link.read", "3GB/s"),
            ("namespace.1.size", "2147483648"),
            ("seed", "9"),
            ("precondition", "steady"),
            ("job.iodepth", "8"),
            ("job.b.c.rw", "write"),
        ] {
            v.set(key, value).unwrap();
        }
        let set = &v.drive["set"][1];
        assert_eq!(set["spare"].as_str(), Some("7%"));
        assert!(set.get("superblocks").is_none(), "it follows from the others");
        assert_eq!(set["capacity"].as_str(), Some("2GiB"));
        assert_eq!(
            (set["gc"]["policy"].as_str(), set["gc"]["low"].as_integer()),
            (Some("cost-benefit"), Some(5))
        );
        assert_eq!(set["timing"]["read"].as_str(), Some("60us"));
        assert_eq!(v.drive["set"][0]["banks"].as_integer(), Some(4));
        assert_eq!(v.drive["drive"]["model"].as_str(), Some("12"), "a text stays one");
        assert_eq!(v.drive["drive"]["fair_sharing"].as_bool(), Some(false));
        assert_eq!(v.drive["link"]["read"].as_str(), Some("3GB/s"));
        assert_eq!((v.seed, v.precondition), (9, Precondition::Steady));
        let jobs = v.load.fio().unwrap().unwrap().1.jobs;
        assert_eq!(jobs.iter().map(|job| job.options.iodepth).collect::<Vec<_>>(), [8, 8]);
        assert_eq!(jobs.iter().map(|job| job.options.rw.name()).collect::<Vec<_>>(), ["read", "write"]);
    }

    #[test]
    fn what_is_wrong_is_said_with_what_there_is() {
        for (key, value, problem) in [
            ("spare", "7%", "there is no key \"spare\": there are seed, precondition, job.OPTION"),
            ("set.3.spare", "7%", "the drive has set.1 to set.2, and no set.3"),
            ("set.0.spare", "7%", "no set.0"),
            ("set.1", "7%", "there is no key"),
            ("gc..low", "7%", "is no key"),
            ("job.d.rw", "read", "there is no job \"d\": there are a, b.c"),
            ("precondition", "old", "none, fill or steady"),
            ("seed", "x", "a whole number"),
            ("set.2.timing", "1us", "is a table: write timing.KEY"),
            ("drive.model.x", "1", "is a value, not a table"),
        ] {
            let error = variable().set(key, value).unwrap_err().to_string();
            assert!(error.contains(problem), "{key}: {error}");
        }
    }
}
