//! Studies in virtual time.

mod given;

use std::{collections::HashMap, path::PathBuf};

use anyhow::Context;
use lab_engines::sweep::Profiles;
use lab_report::{
    Findings,
    control::Control,
    results::{Overwrite, Results},
    tables::Tables,
};
use lab_studies::{cache, doublewrite, filesystem, namespaces, oltp, quota, zoned};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};

pub use self::given::Given;
use crate::{error::failed, integer::Whole, interrupt::interruptible, table::Table};

/// What a study has found.
#[pyclass(frozen, module = "tranche")]
pub struct StudyOutcome {
    /// The document that `tranche study --output json` prints.
    #[pyo3(get)]
    document: String,
    /// The text that `tranche study` prints.
    #[pyo3(get)]
    text: String,
    /// A row for each run.
    #[pyo3(get)]
    runs: Py<Table>,
    /// A row for each namespace of each run.
    #[pyo3(get)]
    namespaces: Py<Table>,
    /// A row for each comparison.
    #[pyo3(get)]
    comparisons: Py<Table>,
}

/// A study with its options.
enum Study {
    Doublewrite(doublewrite::Options),
    Quota(quota::Options),
    Namespaces(namespaces::Options),
    Zoned(zoned::Options),
    Filesystem(filesystem::Options),
    Cache(cache::Options),
    Oltp(oltp::Options),
}

const NAMES: [&str; 7] = ["doublewrite", "quota", "namespaces", "zoned", "filesystem", "cache", "oltp"];

/// What all studies are told alike.
#[derive(Clone)]
struct Common {
    seed: u64,
    out: PathBuf,
}

impl Study {
    fn read(name: &str, given: &mut Given<'_>, common: Common) -> PyResult<Self> {
        Ok(match name {
            "doublewrite" => Self::Doublewrite(doublewrite(given, common)?),
            "quota" => Self::Quota(quota(given, common)?),
            "namespaces" => Self::Namespaces(namespaces(given, common)?),
            "zoned" => Self::Zoned(zoned(given, common)?),
            "filesystem" => Self::Filesystem(filesystem(given, common)?),
            "cache" => Self::Cache(cache(given, common)?),
            "oltp" => Self::Oltp(oltp(given, common)?),
            _ => {
                let names = NAMES.join(", ");
                return Err(PyValueError::new_err(format!("no study {name:?} in virtual time: {names}")));
            }
        })
    }

    fn run(&self, profiles: &Profiles<'_>, control: &Control) -> anyhow::Result<Findings<Results>> {
        match self {
            Self::Doublewrite(options) => doublewrite::simulate(options, profiles, control),
            Self::Quota(options) => quota::run_on(options, profiles, control),
            Self::Namespaces(options) => namespaces::run_on(options, profiles, control),
            Self::Zoned(options) => zoned::run_on(options, profiles, control),
            Self::Filesystem(options) => filesystem::run_on(options, profiles, control),
            Self::Cache(options) => cache::run_on(options, profiles, control),
            Self::Oltp(options) => oltp::run_on(options, profiles, control),
        }
    }
}

/// Repetitions at most.
const REPEAT: u32 = 100;

fn doublewrite(given: &mut Given<'_>, Common { seed, out }: Common) -> PyResult<doublewrite::Options> {
    let mut options = doublewrite::Options { sim: true, seed, out, ..doublewrite::Options::default() };
    let variants = doublewrite::Variant::ALL.map(|variant| (variant.name(), variant));
    given.take("quick", &mut options.quick)?;
    given.take("connections", &mut options.connections)?;
    given.some("variants", &variants, &mut options.variants)?;
    given.maybe("warehouses", &mut options.warehouses)?;
    given.maybe("seconds", &mut options.seconds)?;
    given.maybe("warmup", &mut options.warmup)?;
    given.maybe("repeat", &mut options.repeat)?;
    given.maybe("buffer_pool", &mut options.buffer_pool)?;
    options.drive = given.drive("drive")?;
    Ok(options)
}

fn quota(given: &mut Given<'_>, Common { seed, out }: Common) -> PyResult<quota::Options> {
    let mut options = quota::Options { sim: true, seed, out, ..quota::Options::default() };
    let variants = quota::Variant::ALL.map(|variant| (variant.name(), variant));
    given.take("quick", &mut options.quick)?;
    given.some("variants", &variants, &mut options.variants)?;
    given.number("repeat", 1..=1000, &mut options.repeat)?;
    given.drive_into("drive", &mut options.drive)?;
    Ok(options)
}

fn namespaces(given: &mut Given<'_>, Common { seed, out }: Common) -> PyResult<namespaces::Options> {
    use namespaces::HostTimes;
    let mut options = namespaces::Options { sim: true, seed, out, ..namespaces::Options::default() };
    let (mut of, mut window) = (0, 0);
    given.take("quick", &mut options.quick)?;
    given.take("counts", &mut options.counts)?;
    given.number("of", 1..=namespaces::COUNT_MAX, &mut of)?;
    given.number("window", 1..=86_400, &mut window)?;
    given.one(
        "host_time",
        &[("linux", HostTimes::Linux), ("none", HostTimes::None)],
        &mut options.host_time,
    )?;
    given.number("repeat", 1..=REPEAT, &mut options.repeat)?;
    given.drive_into("drive", &mut options.drive)?;
    options.of = Some(of).filter(|of| *of > 0);
    options.window = Some(window).filter(|window| *window > 0);
    Ok(options)
}

fn zoned(given: &mut Given<'_>, Common { seed, out }: Common) -> PyResult<zoned::Options> {
    use zoned::Part;
    let mut options = zoned::Options { sim: true, seed, out, ..zoned::Options::default() };
    let parts = [
        ("writes", Part::Writes),
        ("reads", Part::Reads),
        ("rocksdb", Part::Rocksdb),
        ("f2fs", Part::F2fs),
        ("placement", Part::Placement),
        ("dies", Part::Dies),
        ("durability", Part::Durability),
    ];
    given.take("quick", &mut options.quick)?;
    given.some("parts", &parts, &mut options.parts)?;
    given.number("scale", 1..=1024, &mut options.scale)?;
    given.nanos("compaction_time", &mut options.compaction_ns)?;
    given.number("repeat", 1..=REPEAT, &mut options.repeat)?;
    given.drive_into("drive", &mut options.drive)?;
    Ok(options)
}

fn filesystem(given: &mut Given<'_>, Common { seed, out }: Common) -> PyResult<filesystem::Options> {
    let mut options = filesystem::Options { seed, out, ..filesystem::Options::default() };
    given.take("quick", &mut options.quick)?;
    given.take("full", &mut options.full)?;
    given.number("repeat", 1..=REPEAT, &mut options.repeat)?;
    given.drive_into("nvme", &mut options.nvme)?;
    given.drive_into("sas", &mut options.sas)?;
    given.drive_into("disk", &mut options.disk)?;
    given.path(&mut options.path)?;
    Ok(options)
}

fn cache(given: &mut Given<'_>, Common { seed, out }: Common) -> PyResult<cache::Options> {
    use cache::Part;
    let mut options = cache::Options { seed, out, ..cache::Options::default() };
    let parts = [
        ("modes", Part::Modes),
        ("chunks", Part::Chunks),
        ("warming", Part::Warming),
        ("designs", Part::Designs),
    ];
    given.take("quick", &mut options.quick)?;
    given.some("parts", &parts, &mut options.parts)?;
    given.take("file", &mut options.file)?;
    given.number("repeat", 1..=REPEAT, &mut options.repeat)?;
    given.drive_into("disk", &mut options.disk)?;
    given.drive_into("nvme", &mut options.nvme)?;
    given.drive_into("sas", &mut options.sas)?;
    given.controller(&mut options.controller)?;
    given.path(&mut options.path)?;
    Ok(options)
}

fn oltp(given: &mut Given<'_>, Common { seed, out }: Common) -> PyResult<oltp::Options> {
    let mut options = oltp::Options { seed, out, ..oltp::Options::default() };
    given.take("quick", &mut options.quick)?;
    given.number("seconds", 1..=86_400, &mut options.seconds)?;
    given.take("rows", &mut options.rows)?;
    given.take("pool", &mut options.pool)?;
    given.number("threads", 1..=4096, &mut options.threads)?;
    given.nanos("statement_time", &mut options.statement_ns)?;
    given.number("repeat", 1..=REPEAT, &mut options.repeat)?;
    given.drive_into("disk", &mut options.disk)?;
    given.drive_into("nvme", &mut options.nvme)?;
    given.controller(&mut options.controller)?;
    given.path(&mut options.path)?;
    Ok(options)
}

/// The TOML of a drive: one that was given, or a built-in or a file.
pub fn profile(drives: &HashMap<String, String>, name: &str) -> anyhow::Result<toml::Table> {
    match drives.get(name) {
        Some(text) => toml::from_str(text).with_context(|| format!("in the drive {name}")),
        None => lab_report::profile::table(name),
    }
}

/// What `tranche study` does in virtual time. Its report and results are in `out`.
#[pyfunction]
#[pyo3(signature = (name, options, *, seed, out, overwrite))]
pub fn study(
    py: Python<'_>,
    name: &str,
    options: &Bound<'_, PyDict>,
    seed: Whole<u64>,
    out: PathBuf,
    overwrite: bool,
) -> PyResult<StudyOutcome> {
    let seed = seed.named("seed")?;
    let mut given = Given::new(&format!("the study {name}"), options)?;
    let study = Study::read(name, &mut given, Common { seed, out: out.clone() })?;
    let drives = given.end()?;
    Overwrite { force: overwrite }.check(&out).map_err(failed)?;
    let found = interruptible(py, |control| study.run(&|name| profile(&drives, name), control))?;
    let found = found.map_err(failed)?;
    if let Some(failure) = found.failure {
        return Err(failed(anyhow::anyhow!(failure)));
    }
    let Tables { runs, namespaces, comparisons } = Tables::new(&found.results);
    Ok(StudyOutcome {
        document: serde_json::to_string(&found.results).map_err(failed)?,
        text: found.text,
        runs: Py::new(py, Table::new(&runs)?)?,
        namespaces: Py::new(py, Table::new(&namespaces)?)?,
        comparisons: Py::new(py, Table::new(&comparisons)?)?,
    })
}
