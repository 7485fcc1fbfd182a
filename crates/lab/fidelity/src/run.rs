//! Running the commands of data sets, and reading their results.
//!
//! A result stays in `target/fidelity` under a name with the hash of its inputs and the commit, so that a new row needs no new run.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{Ledger, data_set::Run, results::Entry, select};

/// What the notes of a study's `results.json` say of a quick run.
const QUICK_RUN_NOTE: &str = "A quick run (--quick)";

/// What to run with, and what not.
#[derive(Debug)]
pub struct Settings {
    /// The repository.
    pub root: PathBuf,
    /// The program `tranche`.
    pub program: PathBuf,
    /// Only these data sets; empty: all.
    pub sets: Vec<String>,
    /// Runs that take more processor time are left out, in seconds.
    pub longest: u64,
    /// Whether results that are kept do not count.
    pub again: bool,
}

/// Who made figures, and when.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Today, as `2026-12-01`.
    pub date: String,
    /// The commit that the program was made of.
    pub commit: String,
    /// The program's version.
    pub version: String,
}

/// The output of a command.
fn printed(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("running {:?}", command.get_program()))?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

impl Origin {
    /// Of a program, as its `--version` says: `tranche 0.2.0 (074d7d76b6)`.
    ///
    /// # Errors
    /// The program does not run, or says something else.
    pub fn of_program(program: &Path) -> Result<Self> {
        let text = printed(Command::new(program).arg("--version"))?;
        let parsed = text.strip_prefix("tranche ").and_then(|text| text.strip_suffix(')')?.split_once(" ("));
        let (version, commit) = parsed.with_context(|| format!("{text:?} has no version and commit"))?;
        Ok(Self {
            commit: commit.to_owned(),
            version: version.to_owned(),
            ..Self::of_repository(Path::new("."))?
        })
    }

    /// Of a repository, for work that runs no program.
    ///
    /// # Errors
    /// There is no git, or no date.
    pub fn of_repository(root: &Path) -> Result<Self> {
        let commit =
            printed(Command::new("git").arg("-C").arg(root).args(["rev-parse", "--short=10", "HEAD"]))?;
        Ok(Self { date: printed(Command::new("date").args(["-u", "+%F"]))?, commit, version: String::new() })
    }
}

/// Brings the results of all runs up to date: reads those that are kept, and makes those that are missing or stale. Reports each in a line.
///
/// # Errors
/// A result that is kept and cannot be read.
pub fn update(
    ledger: &mut Ledger,
    settings: &Settings,
    origin: &Origin,
    say: &mut dyn FnMut(&str),
) -> Result<()> {
    let mut entries = BTreeMap::new();
    for (set_name, set) in &ledger.sets {
        let is_wanted = settings.sets.is_empty() || settings.sets.contains(set_name);
        for (run_name, run) in &set.runs {
            let name = format!("{set_name}.{run_name}");
            let inputs = ledger.inputs(run);
            let rows = set.rows().filter(|row| row.run.as_ref() == Some(run_name));
            let selectors: BTreeSet<&String> = rows.filter_map(|row| row.ours.as_ref()).collect();
            let mut known = ledger.results.runs.get(&name).cloned();
            known.iter_mut().for_each(|entry| entry.figures.retain(|one, _| selectors.contains(one)));
            let is_complete =
                |entry: &Entry| entry.inputs == inputs && entry.figures.len() == selectors.len();
            let made = match is_wanted && (settings.again || !known.as_ref().is_some_and(is_complete)) {
                true => result(settings, &name, run, &file(settings, &name, &inputs, &origin.commit), say)?,
                false => None,
            };
            let entry = match made {
                Some((result, commit)) => {
                    let origin = Origin { commit, ..origin.clone() };
                    let entry = entry(&selectors, &result, origin, &inputs);
                    entry.map_err(|error| say(&format!("{name}: left out: {error:#}"))).ok()
                }
                None => known,
            };
            entries.extend(entry.map(|entry| (name, entry)));
        }
    }
    ledger.results.runs = entries;
    Ok(())
}

/// The result of a run with its commit: one that is kept, or made now, as `file`. None if it is left out.
fn result(
    settings: &Settings,
    name: &str,
    run: &Run,
    file: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Option<(Value, String)>> {
    if let Some(kept) = find(settings, file)? {
        say(&format!("{name}: read"));
        return Ok(Some(kept));
    }
    if run.by_hand || run.seconds > settings.longest {
        say(&format!("{name}: left out: tranche {}", run.command));
        return Ok(None);
    }
    say(&format!("{name}: tranche {}", run.command));
    match make(settings, run, file) {
        Ok(result) => Ok(Some((result, commit_of(file).to_owned()))),
        Err(error) => {
            say(&format!("{name}: left out: {error:#}"));
            Ok(None)
        }
    }
}

fn entry(selectors: &BTreeSet<&String>, result: &Value, origin: Origin, inputs: &str) -> Result<Entry> {
    let figures =
        selectors.iter().map(|selector| Ok(((*selector).clone(), select::evaluate(selector, result)?)));
    let figures = figures.collect::<Result<_>>()?;
    let Origin { date, commit, version } = origin;
    Ok(Entry { date, commit, version, inputs: inputs.to_owned(), figures })
}

/// Where results are kept.
fn folder(settings: &Settings) -> PathBuf {
    settings.root.join("target/fidelity")
}

/// The file of a result: `target/fidelity/SET.RUN-INPUTS-COMMIT.json`.
fn file(settings: &Settings, name: &str, inputs: &str, commit: &str) -> PathBuf {
    folder(settings).join(format!("{name}-{inputs}-{commit}.json"))
}

fn commit_of(file: &Path) -> &str {
    file.file_stem().and_then(|name| name.to_str()?.rsplit_once('-')).map_or("", |(_, commit)| commit)
}

/// The newest result that is kept and has the inputs of `file`, of any commit.
fn find(settings: &Settings, file: &Path) -> Result<Option<(Value, String)>> {
    let inputs =
        |path: &Path| Some(path.file_name()?.to_str()?.strip_suffix(".json")?.rsplit_once('-')?.0.to_owned());
    let entries = fs::read_dir(folder(settings)).ok().filter(|_| !settings.again);
    let paths = entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let kept = paths.filter(|path| inputs(path).is_some() && inputs(path) == inputs(file));
    let age = |path: &PathBuf| path.metadata().and_then(|of| of.modified()).ok();
    let Some(path) = kept.max_by_key(age) else { return Ok(None) };
    let value = serde_json::from_slice(&fs::read(&path)?).with_context(|| path.display().to_string())?;
    Ok(Some((value, commit_of(&path).to_owned())))
}

/// Keeps a result that was made by hand: `SET.RUN=FILE`.
///
/// # Errors
/// There is no such run, the file cannot be copied, or it is of a run with `--quick`.
pub fn keep(ledger: &mut Ledger, settings: &Settings, what: &str, origin: &Origin) -> Result<()> {
    let (name, from) = what.split_once('=').context("--read wants SET.RUN=FILE")?;
    let run = name.split_once('.').and_then(|(set, run)| ledger.sets.get(set)?.runs.get(run));
    let inputs = ledger.inputs(run.with_context(|| format!("there is no run {name:?}"))?);
    let is_quick = fs::read_to_string(from).with_context(|| from.to_owned())?.contains(QUICK_RUN_NOTE);
    ensure!(!is_quick, "{from} is of a quick run (--quick): its figures are no results");
    fs::create_dir_all(folder(settings))?;
    fs::copy(from, file(settings, name, &inputs, &origin.commit)).with_context(|| from.to_owned())?;
    // The new one counts.
    ledger.results.runs.remove(name);
    Ok(())
}

/// The words of a command, with variables of the environment in place of `$NAME`.
fn words(command: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Vec<String>> {
    let word = |word: &str| {
        let Some((before, name)) = word.split_once('$') else { return Ok(word.to_owned()) };
        let end = name.find(|c: char| !(c.is_ascii_uppercase() || c == '_')).unwrap_or(name.len());
        let Some(value) = variable(&name[..end]) else { bail!("the variable {} is not set", &name[..end]) };
        Ok(format!("{before}{value}{}", &name[end..]))
    };
    command.split_whitespace().map(word).collect()
}

/// Runs a command, and keeps its result as a file.
fn make(settings: &Settings, run: &Run, file: &Path) -> Result<Value> {
    let words = words(&run.command, |name| env::var(name).ok())?;
    // A study and a sweep write their result into a directory.
    let writes =
        words.first().is_some_and(|word| word == "study") || words.iter().any(|word| word == "--set");
    let out = file.with_extension("out");
    fs::create_dir_all(folder(settings))?;
    let mut command = Command::new(&settings.program);
    command.current_dir(&settings.root).args(&words).stdin(Stdio::null()).stderr(Stdio::inherit());
    if writes {
        command.arg("--force").arg("--out").arg(&out);
    } else {
        command.args(["--output", "json"]);
    }
    let output = command.output().with_context(|| settings.program.display().to_string())?;
    // `profile check` fails on a figure that is far off, and prints all of them.
    let json = if writes { fs::read(out.join("results.json")).unwrap_or_default() } else { output.stdout };
    let value: Value = serde_json::from_slice(&json)
        .with_context(|| format!("its result is no JSON ({})", output.status))?;
    fs::write(file, &json).with_context(|| file.display().to_string())?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::example;

    fn settings(root: &Path) -> Settings {
        Settings {
            root: root.to_owned(),
            program: "/bin/false".into(),
            sets: vec!["drive".into()],
            longest: 60,
            again: false,
        }
    }

    #[test]
    fn variables_are_those_of_the_environment() {
        let words = |command| words(command, |name| (name == "DISKS").then(|| "/d".into()));
        assert_eq!(words("check --trace $DISKS/a.trace").unwrap(), ["check", "--trace", "/d/a.trace"]);
        assert!(words("$NONE").unwrap_err().to_string().contains("NONE is not set"));
    }

    #[test]
    fn kept_results_are_read_by_the_hash_of_their_inputs() {
        let root = env::temp_dir().join(format!("tranche-fidelity-{}", std::process::id()));
        let settings = settings(&root);
        let of = |inputs, commit| file(&settings, "drive.sim", inputs, commit);
        fs::create_dir_all(folder(&settings)).unwrap();
        assert!(find(&settings, &of("0123", "def")).unwrap().is_none());
        fs::write(of("0123", "abc"), "{\"a\": 1}").unwrap();
        let (value, commit) = find(&settings, &of("0123", "def")).unwrap().unwrap();
        assert_eq!((value["a"].as_u64(), &*commit), (Some(1), "abc"));
        assert!(find(&settings, &of("4567", "abc")).unwrap().is_none());
        let path = of("0123", "abc");
        assert!(find(&Settings { again: true, ..settings }, &path).unwrap().is_none());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_result_that_was_made_by_hand_is_kept_unless_it_was_quick() {
        let root = env::temp_dir().join(format!("tranche-fidelity-keep-{}", std::process::id()));
        let (settings, mut ledger) = (settings(&root), example());
        let origin = Origin { date: String::new(), commit: "abc".into(), version: String::new() };
        fs::create_dir_all(&root).unwrap();
        let from = root.join("results.json");
        let mut keep = |name: &str, text: &str| {
            fs::write(&from, text).unwrap();
            keep(&mut ledger, &settings, &format!("{name}={}", from.display()), &origin)
        };
        let quick = keep("drive.sim", "{\"notes\": [\"A quick run (--quick): too short.\"]}").unwrap_err();
        assert!(quick.to_string().contains("no results"), "{quick}");
        assert!(keep("drive.live", "{}").unwrap_err().to_string().contains("no run"));
        keep("drive.sim", "{}").unwrap();
        assert!(ledger.results.runs.is_empty(), "the new one counts");
        let inputs = ledger.inputs(&ledger.sets["drive"].runs["sim"]);
        assert!(find(&settings, &file(&settings, "drive.sim", &inputs, "def")).unwrap().is_some());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn only_what_is_missing_is_made() {
        let root = env::temp_dir().join(format!("tranche-fidelity-update-{}", std::process::id()));
        let (settings, mut ledger, mut said) = (settings(&root), example(), Vec::new());
        let origin = Origin { date: "2026-12-02".into(), commit: "def".into(), version: "2".into() };
        let mut updated = |ledger: &mut Ledger| {
            update(ledger, &settings, &origin, &mut |line| said.push(line.to_owned())).unwrap();
            (std::mem::take(&mut said), ledger.results.runs.get("drive.sim").cloned())
        };
        let known = ledger.results.runs["drive.sim"].clone();
        assert_eq!(updated(&mut ledger), (Vec::new(), Some(known)));
        ledger.results.runs.clear();
        let (lines, entry) = updated(&mut ledger);
        assert!(lines[1].contains("left out") && entry.is_none(), "{lines:?}");
        let inputs = ledger.inputs(&ledger.sets["drive"].runs["sim"]);
        fs::write(file(&settings, "drive.sim", &inputs, "abc"), "{\"a\": 1, \"b\": 2}").unwrap();
        let (lines, entry) = updated(&mut ledger);
        assert_eq!((lines, entry.unwrap().commit), (vec!["drive.sim: read".to_owned()], "abc".to_owned()));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_command_without_a_result_says_so() {
        let root = env::temp_dir().join(format!("tranche-fidelity-run-{}", std::process::id()));
        let settings = settings(&root);
        let run = &example().sets["drive"].runs["sim"];
        let error =
            format!("{:#}", make(&settings, run, &file(&settings, "drive.sim", "0", "a")).unwrap_err());
        assert!(error.contains("no JSON (exit status: 1)"), "{error}");
        fs::remove_dir_all(root).unwrap();
    }
}
