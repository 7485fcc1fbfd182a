//! `make fidelity`: reads or makes our figures, and writes the page.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use lab_fidelity::{Ledger, check, page, results::Prediction, run};

const USAGE: &str = "usage: lab-fidelity [OPTION ...] [SET ...]
  SET                  only this data set
  --page               run nothing: write the page from ledger/
  --longest SECONDS    leave out runs that take more processor time
  --again              run also what has results
  --read SET.RUN=FILE  read a result that was made by hand
  --predict SET        freeze our figures of a blind data set, before it is compared
  --program TRANCHE    the program: target/release/tranche";

/// Options of the command line.
struct Options {
    settings: run::Settings,
    runs: bool,
    read: Option<String>,
    predict: Option<String>,
}

fn options(root: &Path) -> Result<Options> {
    let program = root.join("target/release/tranche");
    let settings =
        run::Settings { root: root.to_owned(), program, sets: Vec::new(), longest: u64::MAX, again: false };
    let mut options = Options { settings, runs: true, read: None, predict: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().context(USAGE);
        match &*argument {
            "--page" => options.runs = false,
            "--longest" => options.settings.longest = value()?.parse().context(USAGE)?,
            "--again" => options.settings.again = true,
            "--read" => options.read = Some(value()?),
            "--predict" => options.predict = Some(value()?),
            "--program" => options.settings.program = PathBuf::from(value()?),
            set if !set.starts_with('-') => options.settings.sets.push(argument),
            _ => bail!(USAGE),
        }
    }
    Ok(options)
}

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize()?;
    let Options { settings, runs, read, predict } = options(&root)?;
    let mut ledger = Ledger::read(&root)?;
    let mut named = settings.sets.iter().chain(&predict);
    if let Some(unknown) = named.find(|name| !ledger.sets.contains_key(*name)) {
        bail!("there is no data set {unknown:?} in ledger");
    }
    let origin = match runs {
        true => run::Origin::of_program(&settings.program)?,
        false => run::Origin::of_repository(&root)?,
    };
    if let Some(what) = &read {
        run::keep(&mut ledger, &settings, what, &origin)?;
    }
    if runs {
        run::update(&mut ledger, &settings, &origin, &mut |line| eprintln!("{line}"))?;
    }
    if let Some(set) = &predict {
        let prediction = prediction(&ledger, set, &origin)?;
        ledger.history.add_prediction(&prediction);
        ledger.results.predictions.push(prediction);
    }
    let mut history = std::mem::take(&mut ledger.history);
    history.add_scores(&ledger, &origin.date, &origin.commit);
    history.write(&root.join("ledger"))?;
    ledger.results.write(&root.join("ledger"))?;
    std::fs::write(root.join(check::PAGE_PATH), page::page(&ledger)).context(check::PAGE_PATH)?;
    println!("{}", check::PAGE_PATH);
    Ok(())
}

/// Our figures of the rows of a blind data set that have no published figure yet.
fn prediction(ledger: &Ledger, set: &str, origin: &run::Origin) -> Result<Prediction> {
    let run::Origin { date, commit, .. } = origin.clone();
    let stale = check::stale(ledger);
    if let Some(why) = stale.iter().find(|why| why.starts_with(&format!("{set}."))) {
        bail!("{why}: run it first");
    }
    let data = &ledger.sets[set];
    let blind = data.rows().filter(|row| row.value.is_none());
    let figures = blind.map(|row| {
        let ours = ledger
            .ours(set, row)
            .with_context(|| format!("{set}, {}: there is no figure of ours", row.id))?;
        Ok((row.id.clone(), ours))
    });
    let figures = figures.collect::<Result<_>>()?;
    let inputs = data.runs.iter().map(|(name, run)| (name.clone(), ledger.inputs(run))).collect();
    Ok(Prediction {
        set: set.into(),
        date,
        commit,
        parameters: ledger.parameters.hash(None, ""),
        inputs,
        figures,
    })
}
