//! What somebody who makes runs elsewhere, or one by one, has to know before: which there are, what memory they take, and on which
//! preconditioned drives.

use anyhow::Result;
use sim::precondition::kept_as;

use super::{
    cache::Cache,
    case::Case,
    settings::{Settings, cases},
};
use lab_report::control::Control;

/// A run that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What is different from other runs: keys of `Settings::set` with a single value each.
    pub parameters: Vec<(String, String)>,
    /// The same as they stand in results: sizes of jobs are numbers of bytes.
    pub shown: Vec<(String, String)>,
    /// Roughly the bytes of memory that it takes.
    pub memory: u64,
    /// The file of a cache that has its preconditioned drive; `None` without preconditioning. Runs with the same one begin on the same drive.
    pub checkpoint: Option<String>,
}

/// The runs that are asked for, in their order. A trace need not be there yet, and no drive is made: whether a load fits its drive shows
/// when it runs.
///
/// # Errors
/// As of [`simulate`](super::simulate), before it makes a drive.
pub fn planned(options: &Settings) -> Result<Vec<Planned>> {
    let planned = |case: Case| Planned {
        memory: case.memory(),
        checkpoint: kept_as(&case.timed(), case.contents, case.precondition, case.seed),
        shown: case.load.in_bytes(&case.parameters),
        parameters: case.parameters,
    };
    Ok(cases(options)?.into_iter().map(planned).collect())
}

/// Makes the preconditioned drives of all runs, as far as the cache has none yet, one after the other. The load is not run.
///
/// # Errors
/// As of [`simulate`](super::simulate); an interruption.
pub fn prepare(options: &Settings, control: &Control) -> Result<()> {
    let cache = Cache::new(options.cache.clone());
    for case in cases(options)? {
        let cancel = control.cancel();
        let made = cache.drive(case.timed(), case.contents, case.precondition, case.seed, &mut |_| {
            !cancel.is_cancelled()
        });
        cancel.check()?;
        made?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Contents, LoadFile, Precondition, TraceOptions, simulate};

    #[test]
    fn what_is_planned_is_what_runs() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings {
            load: LoadFile::fio("x", "[a]\nrw=randread\nbs=4k\nsize=64k\n").unwrap(),
            drive: "default".to_owned(),
            toml: lab_report::profile::read("default").unwrap(),
            nsid: None,
            precondition: Precondition::Fill,
            contents: Contents::None,
            seed: 1,
            set: vec!["job.iodepth=1,2".to_owned(), "seed=1,2".to_owned()],
            out: None,
            overwrite: lab_report::results::Overwrite::default(),
            resume: false,
            cache: Some(dir.path().to_owned()),
            until_steady: false,
            interval: None,
            policies: Default::default(),
            parallel: Some(1),
        };
        let runs = planned(&settings).unwrap();
        let parameters: Vec<String> =
            runs.iter().map(|run| crate::sweep::settings(&run.parameters)).collect();
        assert_eq!(parameters.len(), 4);
        assert!(
            parameters[1].contains("job.iodepth=1") && parameters[1].contains("seed=2"),
            "{parameters:?}"
        );
        assert!(runs.iter().all(|run| run.memory > 16 << 20));
        // The depth is nothing to the drive, and the seed is.
        assert_eq!(runs[0].checkpoint, runs[2].checkpoint);
        assert_ne!(runs[0].checkpoint, runs[1].checkpoint);
        prepare(&settings, &Control::default()).unwrap();
        let files = || {
            let all = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap());
            let mut all: Vec<_> =
                all.map(|e| (e.file_name().into_string().unwrap(), e.metadata().unwrap().len())).collect();
            all.sort();
            all
        };
        let made = files();
        let mut names: Vec<String> = runs.iter().filter_map(|run| run.checkpoint.clone()).collect();
        names.sort();
        names.dedup();
        assert_eq!(made.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), names);
        let ran = simulate(&settings, &Control::default()).unwrap();
        assert_eq!(ran.failure, None);
        assert_eq!(files(), made, "the runs begin on them");
        // Nothing is kept of a new drive, and a trace may come later.
        let options = TraceOptions::default();
        let later = LoadFile::open(&dir.path().join("none.csv"), None, &options).unwrap();
        let new = Settings { load: later, precondition: Precondition::None, set: Vec::new(), ..settings };
        let runs = planned(&new).unwrap();
        assert_eq!((runs.len(), runs[0].checkpoint.as_deref(), runs[0].parameters.len()), (1, None, 0));
    }
}
