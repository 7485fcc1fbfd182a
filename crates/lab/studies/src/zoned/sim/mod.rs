//! The study in virtual time.

mod durability;
mod raw;

use anyhow::Result;
use database_models::lsm::Placement;
use live::Config;

use self::raw::Raw;
use super::{Options, Part, published, report};
use crate::StudyDrive;
use lab_engines::sweep::Profiles;
use lab_models::rocksdb::{
    KEYS, Overwrites, StoreTuning as Tuning,
    chips::{AllChips, Chips, Layout},
    database::{Database, FileSystem, filling_keys},
};
use lab_report::{
    Findings,
    control::Control,
    figure::show,
    pieces::{self, Gathered, run_pieces},
    report::publish,
    results::{self, Results, Run, Variant, compare, seed_of},
};

/// What is on a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Load {
    /// Nothing but what writes and reads its blocks.
    Raw,
    /// RocksDB on a file system.
    Database(FileSystem),
    /// A log, until the power is cut.
    Log(durability::Case),
}

/// A drive with what is on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Setup {
    name: &'static str,
    about: &'static str,
    layout: Layout,
    load: Load,
}

const fn raw(name: &'static str, about: &'static str, layout: Layout) -> Setup {
    Setup { name, about, layout, load: Load::Raw }
}

const fn database(name: &'static str, about: &'static str, layout: Layout, files: FileSystem) -> Setup {
    Setup { name, about, layout, load: Load::Database(files) }
}

/// Those without a file system.
const PLAIN_SETUPS: [Setup; 3] = [
    raw("cns-7", "A conventional namespace with 7 % of spare (1.92 of 2.2 TB).", Layout::Spare7),
    raw("cns-28", "The same with 28 % of spare (1.60 of 2.2 TB).", Layout::Spare28),
    raw("zns", "Zones over all dies, on the same chips (2.0 of 2.2 TB).", Layout::Zones(0)),
];

/// RocksDB as published.
const DATABASES: [Setup; 3] = [
    database("xfs-7", "RocksDB on extents, as XFS has them, on cns-7.", Layout::Spare7, FileSystem::Xfs),
    database("xfs-28", "The same on cns-28.", Layout::Spare28, FileSystem::Xfs),
    database(
        "zenfs",
        "RocksDB on zones that files of one lifetime share, as ZenFS has them, on zns.",
        Layout::Zones(0),
        FileSystem::ZenFs(Placement::Lifetime),
    ),
];

/// RocksDB on f2fs, as published.
const F2FS: [Setup; 3] = [
    database(
        "f2fs-7",
        "RocksDB on f2fs, which threads its logs, on cns-7.",
        Layout::Spare7,
        FileSystem::F2fs,
    ),
    database("f2fs-28", "The same on cns-28.", Layout::Spare28, FileSystem::F2fs),
    database("f2fs-zns", "RocksDB on f2fs, which cleans zones, on zns.", Layout::Zones(0), FileSystem::F2fs),
];

/// Other ways to share zones.
const PLACEMENTS: [Setup; 3] = [
    database(
        "zones-none",
        "RocksDB on zones that any files share.",
        Layout::Zones(0),
        FileSystem::ZenFs(Placement::None),
    ),
    database(
        "zones-lifetime",
        "RocksDB on zones that files of one lifetime share.",
        Layout::Zones(0),
        FileSystem::ZenFs(Placement::Lifetime),
    ),
    database(
        "zones-overlap",
        "RocksDB on zones that files share whose keys meet.",
        Layout::Zones(0),
        FileSystem::ZenFs(Placement::Overlap),
    ),
];

/// Smaller zones.
const SMALL_ZONE_SETUPS: [Setup; 2] = [
    database(
        "zones-16-dies",
        "RocksDB on zones of 16 of 32 dies, half as large.",
        Layout::Zones(16),
        FileSystem::ZenFs(Placement::Lifetime),
    ),
    database(
        "zones-8-dies",
        "RocksDB on zones of 8 of 32 dies, a quarter as large.",
        Layout::Zones(8),
        FileSystem::ZenFs(Placement::Lifetime),
    ),
];

const fn log(name: &'static str, about: &'static str, flush: bool, protection: bool) -> Setup {
    let load = Load::Log(durability::Case { flush, protection });
    Setup { name, about, layout: Layout::Zones(0), load }
}

/// Logs under power cuts.
const LOGS: [Setup; 4] = [
    log("no-flush", "A log without Flush, on a drive without power-loss protection.", false, false),
    log("flush", "A log with a Flush after each record, on the same.", true, false),
    log("no-flush-protected", "A log without Flush, on a drive with power-loss protection.", false, true),
    log("flush-protected", "A log with a Flush after each record, on the same.", true, true),
];

/// Something that is done on a drive of its own.
#[derive(Clone, Copy, Debug)]
struct Piece {
    part: Part,
    of: Setup,
    repetition: u32,
    keys: Keys,
}

/// Keys of a database.
#[derive(Clone, Copy, Debug)]
enum Keys {
    /// This share of the published number, in percent.
    Percent(u32),
    /// As many as published for the drive: see [`filling_keys`].
    Fill,
}

/// Keys on zones, in percent of the published number: tables take 57 and 81 % of the drive, before garbage.
const KEYS_PERCENT: [u32; 2] = [70, 100];

/// What a part is done on. The most work comes first, so that no processor is idle at the end.
fn setups(part: Part) -> Vec<(Setup, Keys)> {
    let with = |setups: &[Setup], keys: Keys| setups.iter().map(|setup| (*setup, keys)).collect();
    match part {
        Part::Writes | Part::Reads => with(&PLAIN_SETUPS, Keys::Fill),
        Part::Rocksdb => with(&DATABASES, Keys::Fill),
        Part::F2fs => with(&F2FS, Keys::Fill),
        Part::Placement => KEYS_PERCENT
            .iter()
            .flat_map(|percent| PLACEMENTS.iter().map(|setup| (*setup, Keys::Percent(*percent))))
            .collect(),
        Part::Dies => with(&SMALL_ZONE_SETUPS, Keys::Fill),
        Part::Durability => with(&LOGS, Keys::Fill),
    }
}

fn pieces(part: Part, repetition: u32) -> impl Iterator<Item = Piece> {
    setups(part).into_iter().map(move |(of, keys)| Piece { part, of, repetition, keys })
}

/// The drives of the study, as far as its parts need them.
///
/// # Errors
/// The TOML is no drive with zones.
pub(super) fn drives(options: &Options, toml: &toml::Table) -> Result<Vec<Config>> {
    let chips = AllChips::new(toml, options.scale, options.drive())?;
    let all = options.parts.iter().flat_map(|part| setups(*part));
    all.map(|(setup, _)| chips.of(setup.layout).config(setup.layout)).collect()
}

/// A small conventional drive of these chips.
///
/// # Errors
/// The TOML is no drive with zones.
pub(super) fn small(toml: &toml::Table, name: &str) -> Result<Config> {
    Chips::new(toml, 256, name)?.config(Layout::Spare7)
}

/// Runs the study and writes its results.
pub(super) fn run_on(
    options: &Options,
    profiles: &Profiles<'_>,
    control: &Control,
) -> Result<Findings<Results>> {
    options.check()?;
    let toml = profiles(options.drive())?;
    let chips = AllChips::new(&toml, options.scale, options.drive())?;
    drives(options, &toml)?;
    results::directory(options.out.path())?;
    let mut parts = options.parts.clone();
    parts.sort_unstable();
    let repeated = |part| (0..options.repeat()).flat_map(move |repetition| pieces(part, repetition));
    let pieces: Vec<Piece> = parts.into_iter().flat_map(repeated).collect();
    let study = Shared { options, toml, chips };
    let Gathered { variants, interrupted } = run_pieces(&study, &pieces, control)?;
    let chips = &study.chips.conventional;
    let mut results = Results {
        drive: serde_json::json!(StudyDrive {
            profile: Some(options.drive()),
            toml: Some(&chips.toml(Layout::Zones(0))?),
            ..StudyDrive::default()
        }),
        comparisons: comparisons(&variants),
        variants,
        ..Results::empty("zoned", "sim", options.seed, Vec::new())
    };
    results.note(report::notes(&results, options, chips.media()), options.quick);
    publish(results, options.out.path(), interrupted, report::report)
}

/// Figures that are compared, of drives and of databases.
const METRICS: [&str; 3] = ["steady_write_MiBps", "read_mean_us", "read_p99_us"];
const ENGINE_METRICS: [&str; 9] = [
    "ops_per_second",
    "reads_per_second",
    "drive_write_amplification",
    "engine_write_amplification",
    "flash_bytes_per_op",
    "lifetime_years",
    "read_p99_us",
    "read_p999_us",
    "read_p9999_us",
];

fn comparisons(variants: &[Variant]) -> Vec<results::Comparison> {
    let find = |name: &str| variants.iter().find(|variant| variant.name == name);
    let mut rows = Vec::new();
    let pairs = [("zns", "cns-7"), ("zns", "cns-28"), ("cns-28", "cns-7")].map(|pair| (pair, &METRICS[..]));
    let engines = [
        ("zenfs", "xfs-28"),
        ("zenfs", "xfs-7"),
        ("xfs-28", "xfs-7"),
        ("f2fs-28", "xfs-28"),
        ("f2fs-28", "f2fs-7"),
        ("f2fs-zns", "xfs-28"),
        ("f2fs-zns", "f2fs-28"),
        ("zenfs", "f2fs-28"),
        ("zenfs", "f2fs-zns"),
        ("zones-none", "zones-lifetime"),
        ("zones-overlap", "zones-lifetime"),
        ("zones-16-dies", "zenfs"),
        ("zones-8-dies", "zenfs"),
    ]
    .map(|pair| (pair, &ENGINE_METRICS[..]));
    for ((of, over), metrics) in pairs.into_iter().chain(engines) {
        let (Some(of), Some(over)) = (find(of), find(over)) else { continue };
        for metric in metrics {
            let published = |at: Option<&results::Point>| published::ratio(metric, &of.name, &over.name, at);
            rows.extend(compare(metric, of, over, published).into_iter().filter(|row| row.at.is_some()));
        }
    }
    rows
}

/// What the pieces share.
struct Shared<'a> {
    options: &'a Options,
    toml: toml::Table,
    chips: AllChips,
}

impl pieces::Piece<Shared<'_>> for Piece {
    fn variant(&self) -> (String, String) {
        (self.of.name.to_owned(), self.of.about.to_owned())
    }

    fn name(&self) -> String {
        format!("{}: {:?}", self.of.name, self.part).to_lowercase()
    }

    /// Later parts take longer.
    fn work(&self) -> u32 {
        self.part as u32
    }

    fn run(&self, study: &Shared<'_>, control: &Control) -> Result<Vec<Run>> {
        control.check()?;
        let (options, chips) = (study.options, study.chips.of(self.of.layout));
        match self.of.load {
            Load::Raw => self.raw(options, chips, control),
            Load::Database(files) => self.database(files, options, chips, control),
            Load::Log(case) => {
                let (seed, cuts) =
                    (seed_of(options.seed, self.repetition), if options.quick { 5 } else { 50 });
                let run = durability::run(
                    &study.toml,
                    options.drive(),
                    case,
                    cuts,
                    seed,
                    self.repetition,
                    control,
                )?;
                Ok(vec![run])
            }
        }
    }

    fn summary(&self, runs: &[Run]) -> String {
        let one = |run: &Run| {
            let metric = |name: &str| run.metrics.get(name).copied();
            let write = metric("steady_write_MiBps").map(|mib| format!("{} MiB/s", show(mib)));
            let ops = metric("ops_per_second").map(|ops| {
                let factor = metric("drive_write_amplification").unwrap_or(0.0);
                format!("{} writes/s (drive's write amplification {})", show(ops), show(factor))
            });
            let lost = metric("lost_records").map(|lost| format!("{} records lost", show(lost)));
            write.or(ops).or(lost).or_else(|| metric("read_mean_us").map(|us| format!("{} us", show(us))))
        };
        runs.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    }
}

impl Piece {
    fn raw(self, options: &Options, chips: &Chips, control: &Control) -> Result<Vec<Run>> {
        let seed = seed_of(options.seed, self.repetition);
        let mut raw = Raw::new(chips, self.of.layout, seed, self.repetition)?;
        let steady = raw.steady(control)?;
        if self.part == Part::Writes {
            return Ok(vec![steady]);
        }
        let seconds = if options.quick { 0.5 } else { 5.0 };
        let rates = std::iter::once(0).chain(published::READS.iter().map(|row| row.0));
        rates.map(|rate| raw.reads(rate, seconds, control)).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn database(
        self,
        files: FileSystem,
        options: &Options,
        chips: &Chips,
        control: &Control,
    ) -> Result<Vec<Run>> {
        let seed = seed_of(options.seed, self.repetition);
        let keys = match self.keys {
            Keys::Percent(percent) => f64::from(percent) / 100.0,
            Keys::Fill => filling_keys(self.of.layout) as f64 / KEYS as f64,
        };
        let mut database = Database::new(
            chips,
            self.of.layout,
            files,
            keys,
            options.compaction_ns,
            &Tuning::default(),
            seed,
            self.repetition,
        )?;
        let mut overwrites =
            database.overwrite(Overwrites::Keys(if options.quick { 200 } else { 1000 }), control)?;
        if let Keys::Percent(percent) = self.keys {
            overwrites.at.insert("filled_percent".into(), percent.into());
        }
        let mut runs = vec![overwrites];
        if matches!(self.part, Part::Rocksdb | Part::F2fs) {
            let seconds = if options.quick { 1.0 } else { 20.0 };
            for limit in [0, published::WRITE_LIMIT] {
                runs.push(database.read(published::READERS, limit, seconds, control)?);
            }
        }
        Ok(runs)
    }
}
