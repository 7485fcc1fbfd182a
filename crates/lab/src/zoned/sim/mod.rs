//! The study in virtual time.

mod drive;
mod fitted;
mod raw;

use anyhow::{Context, Result};
use run::Config;

use self::{
    drive::{Chips, Layout},
    raw::Raw,
};
use super::{Options, Part, published, report};
use crate::{
    Findings,
    control::{self, Control, Interrupted, Steps},
    figure::show,
    parallel,
    results::{self, Host, Results, Run, Variant, compare},
    sim::{Cache, usual_cache},
    sweep::Profiles,
};

/// A drive without a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Plain {
    name: &'static str,
    about: &'static str,
    layout: Layout,
}

/// The published ones.
const PLAIN: [Plain; 3] = [
    Plain {
        name: "cns-7",
        about: "A conventional namespace with 7 % of spare (1.92 of 2.2 TB).",
        layout: Layout::Spare7,
    },
    Plain { name: "cns-28", about: "The same with 28 % of spare (1.60 of 2.2 TB).", layout: Layout::Spare28 },
    Plain {
        name: "zns",
        about: "Zones over all dies, on the same chips (2.0 of 2.2 TB).",
        layout: Layout::Zones(0),
    },
];

/// Something that is done on a drive of its own.
#[derive(Clone, Copy, Debug)]
struct Piece {
    part: Part,
    of: Plain,
    repetition: u32,
}

/// The drives of the study, as far as its parts need them.
///
/// # Errors
/// The TOML is no drive with zones.
pub(super) fn drives(options: &Options, toml: &toml::Table) -> Result<Vec<Config>> {
    let chips = Chips::new(toml, options.scale, &options.drive)?;
    PLAIN.iter().map(|plain| chips.config(plain.layout)).collect()
}

/// Runs the study and writes its results.
pub(super) fn run_on(
    options: &Options,
    profiles: &Profiles<'_>,
    control: &Control,
) -> Result<Findings<Results>> {
    options.check()?;
    let toml = profiles(&options.drive)?;
    let chips = Chips::new(&toml, options.scale, &options.drive)?;
    drives(options, &toml)?;
    results::directory(&options.out)?;
    let repetitions = (0..options.repeat).flat_map(|repetition| {
        let parts = options.parts.iter();
        parts.flat_map(move |&part| PLAIN.into_iter().map(move |of| Piece { part, of, repetition }))
    });
    let pieces: Vec<Piece> = repetitions.collect();
    let progress = Steps::new(control, pieces.len() as u64);
    let cache = Cache::new(usual_cache());
    let done = parallel::map(control, &pieces, |piece| {
        let runs = piece.run(options, &chips, &cache, control);
        if let Ok(runs) = &runs {
            progress.done(&format!("{}: {:?}", piece.of.name, piece.part).to_lowercase(), &summary(runs));
        }
        runs
    });
    drop(progress);
    let mut variants: Vec<Variant> = Vec::new();
    let mut interrupted = false;
    for (piece, runs) in pieces.iter().zip(done) {
        let runs = match runs {
            Ok(runs) => runs,
            Err(error) if error.is::<Interrupted>() => {
                interrupted = true;
                continue;
            }
            Err(error) => return Err(error).with_context(|| format!("in variant {}", piece.of.name)),
        };
        match variants.iter_mut().find(|variant| variant.name == piece.of.name) {
            Some(variant) => variant.runs.extend(runs),
            None => variants.push(Variant {
                name: piece.of.name.into(),
                description: piece.of.about.into(),
                runs,
            }),
        }
    }
    if variants.is_empty() {
        return Err(Interrupted.into());
    }
    let mut results = Results {
        study: "zoned".into(),
        engine: "sim",
        seed: options.seed,
        drive: serde_json::json!({
            "profile": options.drive,
            "toml": chips.toml(Layout::Zones(0))?,
        }),
        host: Host::this(Vec::new()),
        comparisons: comparisons(&variants),
        variants,
        notes: Vec::new(),
    };
    results.notes = report::notes(&results, options, chips.media());
    results.write(&options.out)?;
    let page = options.out.join("report.html");
    report::write(&results, &page)?;
    let text = report::text(&results, &page);
    let failure = interrupted.then(|| control::PARTIAL.to_owned());
    Ok(Findings { results, written: Some(options.out.clone()), text, failure })
}

/// Figures that are compared.
const METRICS: [&str; 3] = ["steady_write_MiBps", "read_mean_us", "read_p99_us"];

fn comparisons(variants: &[Variant]) -> Vec<results::Comparison> {
    let find = |name: &str| variants.iter().find(|variant| variant.name == name);
    let mut rows = Vec::new();
    for (of, over) in [("zns", "cns-7"), ("zns", "cns-28"), ("cns-28", "cns-7")] {
        let (Some(of), Some(over)) = (find(of), find(over)) else { continue };
        for metric in METRICS {
            let published = |at: Option<&results::Point>| {
                let writes = at.and_then(|at| at.get("writes_MiBps").copied());
                published::ratio(metric, &of.name, &over.name, writes)
            };
            rows.extend(compare(metric, of, over, published).into_iter().filter(|row| row.at.is_some()));
        }
    }
    rows
}

impl Piece {
    fn run(self, options: &Options, chips: &Chips, cache: &Cache, control: &Control) -> Result<Vec<Run>> {
        control.check()?;
        let mut raw = Raw::new(chips, self.of.layout, cache, options.seed(self.repetition), control)?;
        let times = if options.quick { 0.5 } else { 3.0 };
        match self.part {
            Part::Writes => Ok(vec![raw.steady(times, self.repetition, control)?]),
            Part::Reads => {
                raw.steady(times, self.repetition, control)?;
                let seconds = if options.quick { 0.5 } else { 5.0 };
                let rates = std::iter::once(0).chain(published::READS.iter().map(|row| row.0));
                rates.map(|rate| raw.reads(rate, seconds, self.repetition, control)).collect()
            }
        }
    }
}

fn summary(runs: &[Run]) -> String {
    let one = |run: &Run| {
        let metric = |name: &str| run.metrics.get(name).copied();
        let write = metric("steady_write_MiBps").map(|mib| format!("{} MiB/s", show(mib)));
        write.or_else(|| metric("read_mean_us").map(|us| format!("{} us", show(us))))
    };
    runs.iter().filter_map(one).collect::<Vec<_>>().join(", ")
}
