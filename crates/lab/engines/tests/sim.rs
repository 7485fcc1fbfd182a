//! The simulator as a library: settings in memory, an observer, and a token that ends it.

use std::sync::{Arc, Mutex};

use lab_engines::sim::{Contents, Figure, Format, LoadFile, Precondition, Settings, Sheet, run, simulate};
use lab_report::control::{Cancel, Control, Event, Observer, Parts};
use lab_report::profile::Profile;
use lab_report::results::Overwrite;

fn settings(job: &str, set: &[&str]) -> Settings {
    Settings {
        load: LoadFile::fio("in memory", job).unwrap(),
        drive: "default".into(),
        toml: Profile::default_drive().toml.into(),
        nsid: None,
        precondition: Precondition::None,
        contents: Contents::None,
        seed: 1,
        set: set.iter().map(|set| (*set).to_owned()).collect(),
        until_steady: false,
        interval: None,
        policies: Default::default(),
        out: None,
        overwrite: Overwrite::default(),
        resume: false,
        cache: None,
        parallel: Some(2),
    }
}

const SHORT_JOB: &str = "[a]\nrw=randwrite\nbs=4k\niodepth=8\nsize=8m\n";
const LONG_JOB: &str = "[a]\nrw=randwrite\nbs=4k\niodepth=8\nruntime=100d\ntime_based\n";

/// Keeps what it is told, and cancels as soon as it is told how far runs are.
#[derive(Default)]
struct Witness {
    cancel: Option<Cancel>,
    told: Mutex<Vec<String>>,
}

impl Observer for Witness {
    fn event(&self, event: Event<'_>) {
        let word = match event {
            Event::Began(_, Parts::Runs(runs)) => format!("began {runs}"),
            Event::RunEnded { ended, of, .. } => format!("{ended} of {of}"),
            Event::Ended(_) => "ended".to_owned(),
            Event::Share { .. } => {
                self.cancel.iter().for_each(Cancel::cancel);
                return;
            }
            other => format!("{other:?}"),
        };
        self.told.lock().unwrap().push(word);
    }
}

#[test]
fn a_run_needs_no_files_and_tells_how_far_it_is() {
    let witness = Arc::new(Witness::default());
    let control = Control::new(Cancel::default(), witness.clone());
    let one = run(&settings(SHORT_JOB, &[]), &control).unwrap();
    assert!(one.failure.is_none() && one.written.is_none(), "{:?}", one.failure);
    assert_eq!(*witness.told.lock().unwrap(), ["began 1", "1 of 1", "ended"]);
    // Another caller gets the same.
    let again = run(&settings(SHORT_JOB, &[]), &Control::default()).unwrap();
    let digest = |results: &serde_json::Value| results["simulation"]["digest"].as_str().map(str::to_owned);
    assert!(digest(&one.results).is_some(), "{:#}", one.results);
    assert_eq!(digest(&one.results), digest(&again.results));
}

#[test]
fn a_token_ends_a_run_and_what_it_did_counts() {
    let cancel = Cancel::default();
    let witness = Arc::new(Witness { cancel: Some(cancel.clone()), ..Witness::default() });
    let out = run(&settings(LONG_JOB, &[]), &Control::new(cancel, witness));
    match out {
        // It had begun, or it had not.
        Ok(out) => assert!(out.failure.unwrap().contains("interrupted")),
        Err(error) => assert!(format!("{error:#}").contains("interrupted"), "{error:#}"),
    }
    // A token that was cancelled before lets nothing begin; another one is not concerned.
    let cancelled = Control::default();
    cancelled.cancel().cancel();
    assert!(run(&settings(SHORT_JOB, &[]), &cancelled).is_err());
    assert!(run(&settings(SHORT_JOB, &[]), &Control::default()).is_ok());
}

/// All figures of a column, those of whole numbers.
fn wholes(sheet: &Sheet, name: &str) -> Vec<i64> {
    let column = sheet.columns().iter().find(|column| column.name == name).unwrap();
    column.values.iter().flatten().filter_map(Figure::whole).collect()
}

const ACT: &str =
    "device-names: /dev/a\ntest-duration-sec: 2\nread-reqs-per-sec: 500\nwrite-reqs-per-sec: 100\n";

#[test]
fn a_time_series_changes_nothing_and_adds_up() {
    let jobs = "[a]\nrw=randrw\nbs=4k\niodepth=8\nsize=8m\n[b]\nstonewall\nrw=randwrite\nbs=8k\nsize=4m\n";
    for load in [LoadFile::fio("jobs", jobs).unwrap(), LoadFile::parse("act", Format::Act, ACT).unwrap()] {
        let without = Settings { load, ..settings(SHORT_JOB, &[]) };
        // No whole number of intervals.
        let with = Settings { interval: Some(1_234_567), ..without.clone() };
        let plain = simulate(&without, &Control::default()).unwrap().results;
        let looked = simulate(&with, &Control::default()).unwrap().results;
        let [before, after] = [&plain, &looked].map(|of| &of.document["simulation"]);
        assert!(before["digest"].is_string(), "{before:#}");
        assert_eq!(before["digest"], after["digest"]);
        assert!(plain.series.columns().is_empty());
        let ends = looked.series.columns().iter().find(|column| column.name == "end_seconds").unwrap();
        let Some(Some(Figure::Real(end))) = ends.values.last() else { panic!("{ends:?}") };
        let simulated = after["simulated_seconds"].as_f64().unwrap();
        assert!((end - simulated).abs() < 1e-9, "{end} {simulated}");
        assert_eq!(ends.values.len(), (simulated / 1_234_567e-9).ceil() as usize);
        for name in ["read_ios", "write_ios", "read_bytes", "write_bytes", "nand_bytes_written"] {
            let sum: i64 = wholes(&looked.series, name).iter().sum();
            assert_eq!(Some(sum), after[name].as_i64(), "{name}");
        }
    }
    let too_short = Settings { interval: Some(999), ..settings(SHORT_JOB, &[]) };
    assert!(simulate(&too_short, &Control::default()).is_err());
}
