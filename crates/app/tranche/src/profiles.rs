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
use serde::Serialize;
use units::format_size;

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    about: String,
}

#[derive(Serialize)]
struct Checked {
    name: String,
    model: String,
    serial: String,
    nqn: String,
    timing: bool,
    power_loss_protection: bool,
    write_buffer: u64,
    energy: u64,
    atomic_write: u64,
    sets: Vec<CheckedSet>,
    namespaces: Vec<CheckedNamespace>,
    tiers: Vec<CheckedTier>,
    /// What was measured, if the drive has a data sheet.
    data_sheet: Option<Measured>,
}

#[derive(Serialize)]
struct CheckedSet {
    set: usize,
    media: String,
    capacity: u64,
    raw: u64,
    spare_percent: f64,
    geometry: String,
}

#[derive(Serialize)]
struct CheckedNamespace {
    nsid: usize,
    set: u16,
    bytes: u64,
    /// Bytes of data of a logical block.
    lba: u32,
    format: String,
}

/// A cache tier that is served with the drive.
#[derive(Serialize)]
struct CheckedTier {
    name: String,
    origin: String,
    cache: String,
    metadata: String,
    chunk: u64,
    mode: String,
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
                Output::Json => print_json(&all),
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
                Output::Json => print_json(&toml::from_str::<toml::Value>(&toml)?),
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
