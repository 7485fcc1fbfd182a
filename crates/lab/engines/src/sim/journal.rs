//! The runs of a sweep that have ended, in a file that grows with them: `runs.jsonl`. A later sweep in the same directory takes over those that are
//! done (`--resume`).

use std::{
    collections::HashMap,
    fs::File,
    io::{Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Map, Value, json};

use super::{case::Case, document::parameters, ended_run::EndedRun, load::LoadForm, settings::Settings};
use crate::sweep::axes;
use lab_report::results::JOURNAL as FILE;

/// Something that all runs of a sweep have in common.
#[derive(Debug, PartialEq)]
struct Common {
    /// What it is, in words.
    what: &'static str,
    /// For messages.
    shown: String,
    /// Runs with another one are other runs.
    identity: String,
}

/// What all runs have in common. What is varied belongs to each run.
fn common(options: &Settings) -> Result<Vec<Common>> {
    let axes = axes::parse(&options.set)?;
    let mut keys: Vec<&str> = axes.iter().map(|axis| axis.key.as_str()).collect();
    keys.sort_unstable();
    let varies = |key: &str| keys.contains(&key);
    let (load, drive) = (options.load.source.clone(), options.drive.clone());
    let mut all = vec![
        ("the version of tranche", env!("CARGO_PKG_VERSION").to_owned(), None),
        ("the load", load, Some(options.load.identity())),
        ("the drive", drive, Some(options.toml.clone())),
        ("the keys of --set", keys.join(", "), None),
        ("--nsid", options.nsid.map_or("none".to_owned(), |nsid| nsid.to_string()), None),
        ("--until-steady", options.until_steady.to_string(), None),
        ("--interval", options.interval.map_or("none".to_owned(), |nanos| format!("{nanos} ns")), None),
    ];
    for (key, what, value) in [
        ("seed", "--seed", options.seed.to_string()),
        ("precondition", "--precondition", options.precondition.name().to_owned()),
        ("contents", "--contents", format!("{:?}", options.contents).to_lowercase()),
    ] {
        all.push((what, if varies(key) { "varied".to_owned() } else { value }, None));
    }
    let part = |(what, shown, identity): (_, String, Option<String>)| {
        let identity = identity.unwrap_or_else(|| shown.clone());
        Common { what, shown, identity: format!("{:016x}", digest(&identity)) }
    };
    Ok(all.into_iter().map(part).collect())
}

fn digest(text: &str) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, text.as_bytes())
}

impl super::LoadFile {
    /// What makes two loads the same: the text of a job file with its options, and of a trace the place, size and time of its file.
    fn identity(&self) -> String {
        match &self.form {
            LoadForm::Fio { file, .. } => format!("{file:?}"),
            LoadForm::Act(config) => format!("{config:?}"),
            LoadForm::Trace(trace) => {
                let about = std::fs::metadata(&trace.path).ok();
                let about = about.map(|about| (about.len(), about.modified().ok()));
                format!("{:?} {:?} {about:?}", trace.path, trace.options)
            }
        }
    }
}

/// Runs of an earlier sweep by their parameters. Of a run that was made again it is the last.
#[derive(Default)]
pub(super) struct Kept(HashMap<String, Value>);

impl Kept {
    /// The run of this case, if it is done.
    ///
    /// # Errors
    /// What was kept is no run.
    pub fn of(&self, case: &Case) -> Result<Option<EndedRun>> {
        let Some(run) = self.0.get(&key(&json!(parameters(case)))) else { return Ok(None) };
        EndedRun::read(case, &inexact(run)).with_context(|| format!("{FILE}: {}", case.settings()))
    }
}

/// Parameters as a key: their order does not count.
fn key(parameters: &Value) -> String {
    let mut all: Vec<_> = parameters.as_object().into_iter().flatten().collect();
    all.sort_unstable_by_key(|(key, _)| key.as_str());
    format!("{all:?}")
}

/// The file, to which runs are added.
pub(super) struct Journal {
    path: PathBuf,
    file: Mutex<File>,
}

impl Journal {
    /// The journal of a directory, and the runs in it that are done. Without `resume` it begins anew when the first run is added.
    ///
    /// # Errors
    /// Another program works there; to resume, the directory is of another sweep.
    pub fn open(out: &Path, options: &Settings) -> Result<(Self, Kept)> {
        lab_report::results::directory(out)?;
        let path = out.join(FILE);
        let opened = File::options().create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = opened.with_context(|| format!("opening {}", path.display()))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("another program makes the runs of {}", out.display());
        }
        let common = common(options)?;
        let text = match options.resume {
            true => std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?,
            false => Vec::new(),
        };
        // A program that was killed leaves a line without its end.
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut lines = text[..end].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let mut kept = Kept::default();
        let head = lines.next();
        if let Some(head) = head {
            same(out, head, &common)?;
        }
        for line in lines {
            let line: Value = serde_json::from_slice(line)
                .with_context(|| format!("{}: this is no run of a sweep", path.display()))?;
            kept.0.insert(key(&line["parameters"]), line["run"].clone());
        }
        file.set_len(end as u64)?;
        file.seek(SeekFrom::End(0))?;
        if head.is_none() {
            let part = |common: &Common| json!([common.what, common.shown, common.identity]);
            let head = json!({ "sweep": common.iter().map(part).collect::<Vec<_>>() });
            writeln!(file, "{head}").with_context(|| format!("writing {}", path.display()))?;
        }
        Ok((Self { path, file: Mutex::new(file) }, kept))
    }

    /// Adds a run that has ended.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&self, case: &Case, ended: &EndedRun) -> Result<()> {
        let line =
            json!({ "parameters": parameters(case), "run": exact(&ended.written()) }).to_string() + "\n";
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // As a whole: a line is there, or is not.
        file.write_all(line.as_bytes()).with_context(|| format!("writing {}", self.path.display()))
    }
}

/// Refuses a sweep that is another one than that of the journal's first line.
fn same(out: &Path, head: &[u8], now: &[Common]) -> Result<()> {
    let head: Value = serde_json::from_slice(head).unwrap_or_default();
    let Some(then) = head["sweep"].as_array() else {
        bail!("{}: this is no list of runs of a sweep", out.join(FILE).display());
    };
    let mut differ = Vec::new();
    for common in now {
        let earlier = then.iter().find(|part| part[0] == common.what);
        if earlier.is_some_and(|part| part[2] == common.identity.as_str()) {
            continue;
        }
        let shown = earlier.and_then(|part| part[1].as_str()).unwrap_or("not known");
        differ.push(match shown == common.shown {
            true => format!("{} {shown} (its content)", common.what),
            false => format!("{} ({shown} then, {} now)", common.what, common.shown),
        });
    }
    if !differ.is_empty() {
        bail!(
            "{} is of another sweep and cannot be resumed. These differ: {}. Name another directory with --out, or overwrite it with --force",
            out.display(),
            differ.join("; ")
        );
    }
    Ok(())
}

/// What marks a text that stands for a number, or that begins with this mark itself.
const MARK: char = '~';

/// A document whose fractions are texts: numbers of JSON are read to within a digit, and a run that is kept has the same figures.
fn exact(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => Value::String(format!("{MARK}{number}")),
        Value::String(text) if text.starts_with(MARK) => Value::String(format!("{MARK}{text}")),
        Value::Array(all) => all.iter().map(exact).collect(),
        Value::Object(all) => {
            all.iter().map(|(key, value)| (key.clone(), exact(value))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// What [`exact`] made of a document, as it was.
fn inexact(value: &Value) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix(MARK) {
            Some(rest) => rest.parse::<f64>().map_or_else(|_| json!(rest), |number| json!(number)),
            None => value.clone(),
        },
        Value::Array(all) => all.iter().map(inexact).collect(),
        Value::Object(all) => {
            all.iter().map(|(key, value)| (key.clone(), inexact(value))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}
