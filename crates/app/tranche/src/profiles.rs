//! `tranche profile`: drives that are built in, and drives in files.

use crate::args::Profile;
use crate::options::Output;
use crate::{print_json, print_outcome, print_text, progress};
use anyhow::{Context, Result, anyhow};
use blockdev::{Geometry, Limits};
use cache::table::Entry;
use device::{Config, InitialNamespace};
use lab_engines::datasheet::{self, Measured, Settings};
use lab_report::profile::{self, Profile as BuiltIn};
use lab_report::terminal::{self, Look};
use schemars::JsonSchema;
use serde::Serialize;
use units::format_size;

/// The profiles.
#[derive(Serialize, JsonSchema)]
pub struct Profiles(Vec<Listed>);

/// The drive's TOML as JSON ([drive-toml.md](drive-toml.md) has its keys).
#[derive(Serialize, JsonSchema)]
pub struct Shown(#[schemars(with = "serde_json::Map<String, serde_json::Value>")] toml::Table);

/// A profile.
#[derive(Serialize, JsonSchema)]
struct Listed {
    /// Its name.
    name: &'static str,
    /// What it is.
    about: String,
}

/// What the drive is.
#[derive(Serialize, JsonSchema)]
pub struct Checked {
    /// Profile or file.
    name: String,
    /// Model.
    model: String,
    /// Serial number.
    serial: String,
    /// NQN of the subsystem.
    nqn: String,
    /// Whether operations take their modelled time.
    timing: bool,
    /// Whether capacitors save the write buffer.
    power_loss_protection: bool,
    /// Write buffer.
    #[schemars(extend("unit" = "bytes"))]
    write_buffer: u64,
    /// What the capacitors can save.
    #[schemars(extend("unit" = "bytes"))]
    energy: u64,
    /// Largest atomic write.
    #[schemars(extend("unit" = "bytes"))]
    atomic_write: u64,
    /// The NVM Sets.
    sets: Vec<CheckedSet>,
    /// The namespaces of a new drive.
    namespaces: Vec<CheckedNamespace>,
    /// The cache tiers that are served with the drive.
    tiers: Vec<CheckedTier>,
    /// What was measured.
    #[schemars(extend("null" = "the drive has no data sheet, or --dry-run was given"))]
    data_sheet: Option<Measured>,
}

/// An NVM Set.
#[derive(Serialize, JsonSchema)]
struct CheckedSet {
    /// Its number.
    set: usize,
    /// Its medium.
    media: String,
    /// What it offers.
    #[schemars(extend("unit" = "bytes"))]
    capacity: u64,
    /// What it has.
    #[schemars(extend("unit" = "bytes"))]
    raw: u64,
    /// Raw over capacity, less 100.
    #[schemars(extend("unit" = "%"))]
    spare_percent: f64,
    /// Its parts.
    geometry: String,
}

/// A namespace.
#[derive(Serialize, JsonSchema)]
struct CheckedNamespace {
    /// Namespace identifier.
    nsid: usize,
    /// NVM Set.
    set: u16,
    /// Size.
    #[schemars(extend("unit" = "bytes"))]
    bytes: u64,
    /// Data of a logical block.
    #[schemars(extend("unit" = "bytes"))]
    lba: u32,
    /// LBA format.
    format: String,
}

/// A cache tier.
#[derive(Serialize, JsonSchema)]
struct CheckedTier {
    /// Its name.
    name: String,
    /// The origin: a namespace of the drive, or a device elsewhere.
    origin: String,
    /// The cache device, likewise.
    cache: String,
    /// The metadata device, likewise.
    metadata: String,
    /// Size of a chunk.
    #[schemars(extend("unit" = "bytes"))]
    chunk: u64,
    /// What a write does.
    mode: String,
    /// Which chunks are cached.
    policy: String,
}

/// What is said of a drive without a data sheet.
const NO_DATASHEET: &str = "nothing was measured: the TOML has no [datasheet], which says how fast the drive should be (docs/drive-toml.md)";

/// `tranche profile`.
pub fn profile(command: &Profile, output: Output) -> Result<()> {
    match command {
        Profile::List => {
            let all: Vec<Listed> =
                BuiltIn::all().map(|p| Listed { name: p.name, about: p.about() }).collect();
            match output {
                Output::Json => print_json(&Profiles(all)),
                Output::Text => {
                    let rows: Vec<_> =
                        all.iter().map(|p| vec![p.name.to_owned(), p.about.to_string()]).collect();
                    let look = Look { text: 2, ..Look::default() };
                    print_text(terminal::table(look, &[], &rows).trim_end())
                }
            }
        }
        Profile::Show { name } => {
            let toml = profile::read(name)?;
            match output {
                Output::Json => print_json(&Shown(toml::from_str(&toml)?)),
                Output::Text => print_text(toml.trim_end()),
            }
        }
        Profile::Fit(fit) => print_outcome(output, &crate::fit::fit(fit)?),
        Profile::Check { disksim: Some(disk), trace: Some(trace), .. } => {
            print_outcome(output, &lab_engines::disksim::check::check(disk, trace)?)
        }
        Profile::Check { name, dry_run, full, seed, .. } => {
            let name = name.as_deref().unwrap_or_default();
            let toml = profile::read(name)?;
            let config = Config::from_toml(&toml).with_context(|| name.to_owned())?;
            let tiers = tiers(&toml, &config).map_err(|problem| anyhow!("{name}: {problem}"))?;
            let mut checked = describe(name, &config, &tiers);
            if *dry_run || config.data_sheet.is_none() {
                return match output {
                    Output::Json => print_json(&checked),
                    Output::Text if *dry_run => print_text(&text(&checked)),
                    Output::Text => print_text(&format!("{}\n{NO_DATASHEET}", text(&checked))),
                };
            }
            let settings = Settings { full: *full, seed: *seed };
            let outcome = datasheet::check(name, &config, settings, &progress::control()?)?;
            let text = format!("{}\n{}", text(&checked), outcome.text);
            checked.data_sheet = Some(outcome.results);
            print_outcome(
                output,
                &lab_report::Findings { results: checked, written: None, text, failure: outcome.failure },
            )
        }
    }
}

/// The cache tiers of a drive's TOML, which lie on its namespaces.
fn tiers(toml: &str, config: &Config) -> Result<Vec<Entry>, String> {
    let entries = cache::table::read(toml)?;
    let conventional = (1..).zip(&config.namespaces).filter(|(_, namespace)| namespace.zones.is_none());
    let namespaces = conventional.map(|(nsid, InitialNamespace { bytes, format, .. })| {
        let geometry = Geometry {
            block_size: format.data,
            blocks: bytes / u64::from(format.data),
            limits: Limits::NONE,
        };
        (nsid, geometry)
    });
    cache::table::check(&entries, &namespaces.collect())?;
    Ok(entries)
}

fn describe(name: &str, config: &Config, tiers: &[Entry]) -> Checked {
    let page = u64::from(ftl::PAGE);
    let sets = config.ftl.sets.iter().enumerate().map(|(i, set)| {
        let capacity = u64::from(set.capacity_pages()) * page;
        let p = set.properties();
        let raw = p.raw_pages * page;
        let media = match p.cell {
            Some(cell) => format!("nand ({cell:?})"),
            None => format!("{:?}", p.media),
        }
        .to_lowercase();
        let geometry = match p.superblocks {
            0 => format!("{} banks", p.units),
            superblocks => format!(
                "{} dies on {} channels, {} planes, {superblocks} superblocks of {}",
                p.units,
                p.channels,
                p.planes,
                format_size(u64::from(p.superblock_pages) * page)
            ),
        };
        #[expect(clippy::cast_precision_loss, reason = "a percentage to read")]
        let spare_percent = (raw as f64 / capacity as f64 - 1.0) * 100.0;
        CheckedSet { set: i + 1, media, capacity, raw, spare_percent, geometry }
    });
    let namespaces = config.namespaces.iter().enumerate().map(|(i, ns)| CheckedNamespace {
        nsid: i + 1,
        set: ns.set,
        bytes: ns.bytes,
        lba: ns.format.data,
        format: ns.format.to_string(),
    });
    let tiers = tiers.iter().map(|tier| CheckedTier {
        name: tier.name.clone(),
        origin: tier.origin.to_string(),
        cache: tier.cache.to_string(),
        metadata: tier.metadata.to_string(),
        chunk: tier.chunk,
        mode: tier.mode.to_string(),
        policy: tier.policy.to_string(),
    });
    Checked {
        name: name.to_owned(),
        model: config.identity.model.clone(),
        serial: config.identity.serial.clone(),
        nqn: config.identity.nqn.to_string(),
        timing: config.timing,
        power_loss_protection: config.ftl.protected,
        write_buffer: u64::from(config.ftl.buffer_pages) * page,
        energy: config.ftl.energy_bytes,
        atomic_write: u64::from(config.ftl.atomic_pages) * page,
        sets: sets.collect(),
        namespaces: namespaces.collect(),
        tiers: tiers.collect(),
        data_sheet: None,
    }
}

fn text(c: &Checked) -> String {
    let on = |b| if b { "on" } else { "off" };
    let mut lines = vec![
        format!("{}: {} ({}), {}", c.name, c.model, c.serial, c.nqn),
        format!(
            "timing {}, power-loss protection {} ({}), write buffer {}, atomic writes of {}",
            on(c.timing),
            on(c.power_loss_protection),
            format_size(c.energy),
            format_size(c.write_buffer),
            format_size(c.atomic_write)
        ),
    ];
    for s in &c.sets {
        lines.push(format!(
            "NVM Set {}: {}, {} of {} raw (spare {:.1} %), {}",
            s.set,
            s.media,
            format_size(s.capacity),
            format_size(s.raw),
            s.spare_percent,
            s.geometry
        ));
    }
    for n in &c.namespaces {
        lines.push(format!(
            "namespace {}: {} on NVM Set {}, blocks of {}",
            n.nsid,
            format_size(n.bytes),
            n.set,
            n.format
        ));
    }
    for t in &c.tiers {
        lines.push(format!(
            "cache tier {}: origin {}, cache {}, metadata {}, chunks of {}, {}, {}",
            t.name,
            t.origin,
            t.cache,
            t.metadata,
            format_size(t.chunk),
            t.mode,
            t.policy
        ));
    }
    lines.join("\n")
}
