//! What the keys of `--set` mean: values of the drive's TOML, options of jobs, and what the run itself is.

use anyhow::{Result, anyhow, bail};
use load_formats::fio::{JobFile, Setting};
use sim::{Contents, Precondition};
use toml::Table;

use super::load::{LoadFile, LoadForm};
use crate::sweep::{keys, seed};

/// What is varied.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    /// The drive's TOML.
    pub drive: Table,
    pub load: LoadFile,
    pub precondition: Precondition,
    pub contents: Contents,
    pub seed: u64,
}

impl Variable {
    /// Gives a key its value.
    ///
    /// # Errors
    /// There is no such key, or it cannot have this value. Whether the drive can be so is not looked at.
    pub fn set(&mut self, key: &str, text: &str) -> Result<()> {
        if keys::set(&mut self.drive, key, text)? {
            return Ok(());
        }
        match key.split_once('.') {
            None if key == "seed" => self.seed = seed(text)?,
            None if key == "precondition" => {
                self.precondition = Precondition::named(text)
                    .ok_or_else(|| anyhow!("{text:?} is no preconditioning: none, fill or steady"))?;
            }
            None if key == "contents" => {
                self.contents = match text {
                    "none" => Contents::None,
                    "memory" => Contents::Memory,
                    _ => bail!("{text:?} are no contents: none or memory"),
                };
            }
            Some(("job", option)) => self.load.set(option, text)?,
            _ => bail!(
                "there is no key {key:?}: there are seed, precondition, contents, job.OPTION and job.JOB.OPTION, and {}{}",
                keys::words(),
                keys::meant(key, &["seed", "precondition", "contents", "job"])
            ),
        }
        Ok(())
    }
}

impl LoadFile {
    /// Gives an option of every job, or `JOB.OPTION` of one, another value.
    fn set(&mut self, key: &str, text: &str) -> Result<()> {
        let LoadForm::Fio { file, .. } = &mut self.form else {
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

    /// The parameters, with sizes of jobs as numbers of bytes.
    pub(super) fn in_bytes(&self, parameters: &[(String, String)]) -> Vec<(String, String)> {
        let one = |(key, text): &(String, String)| {
            let bytes = match (&self.form, key.strip_prefix("job.")) {
                (LoadForm::Fio { file, .. }, Some(option)) => {
                    file.bytes(option.rsplit_once('.').map_or(option, |(_, option)| option), text)
                }
                _ => None,
            };
            (key.clone(), bytes.map_or_else(|| text.clone(), |bytes| bytes.to_string()))
        };
        parameters.iter().map(one).collect()
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
        let load = LoadFile::fio("x", "[global]\nbs=4k\n[a]\n[b.c]\n").unwrap();
        let drive = toml::from_str(DRIVE).unwrap();
        Variable { drive, load, precondition: Precondition::None, contents: Contents::None, seed: 1 }
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
        let jobs = v.load.jobs().unwrap().unwrap().1.jobs;
        assert_eq!(jobs.iter().map(|job| job.options.iodepth).collect::<Vec<_>>(), [8, 8]);
        assert_eq!(jobs.iter().map(|job| job.options.rw.name()).collect::<Vec<_>>(), ["read", "write"]);
    }

    #[test]
    fn what_is_wrong_is_said_with_what_there_is() {
        for (key, value, problem) in [
            ("spare", "7%", "there is no key \"spare\": there are seed, precondition, contents, job.OPTION"),
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

    #[test]
    fn sizes_of_jobs_are_bytes_in_results() {
        let parameters = [("job.bs", "4k"), ("job.b.c.size", "1m"), ("job.rw", "read"), ("ftl.spare", "7%")];
        let owned = parameters.map(|(key, text)| (key.to_owned(), text.to_owned()));
        let texts: Vec<String> = variable().load.in_bytes(&owned).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["4096", "1048576", "read", "7%"]);
    }
}
