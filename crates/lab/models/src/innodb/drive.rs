//! The drive of a variant.

use anyhow::{Context, Result, bail};
use database_models::innodb::Volume;
use host::Host;
use live::Config;
use sim::{Sim, SimTransport};
use toml::{Table, Value};
use workload::{Mix, MixConfig, Order};

use super::{
    fitted,
    variant::{Family, Variant},
};
use lab_engines::sim::{Cache, Contents, Precondition};
use lab_report::control::Cancel;

/// Bytes of the namespace for the doublewrite buffer: 8 instances with two shards of 120 pages of 16 KiB need 30 MiB (32 MB as published).
const COPIES: u64 = 32 << 20;

/// Profiles that are the published drive, for which the fitted figures hold.
const PUBLISHED_PROFILES: [&str; 2] = ["pblaze5-910-short", "pblaze5-910-3.84t"];

/// Whether a profile is the published drive.
pub fn is_published(profile: &str) -> bool {
    PUBLISHED_PROFILES.contains(&profile)
}

/// The namespaces.
#[derive(Clone, Copy)]
pub(super) struct StudyVolumes {
    pub(super) data: Volume,
    pub(super) copies: Option<Volume>,
    /// Whether the drive has been in use already.
    pub(super) prepared: bool,
}

impl StudyVolumes {
    pub(super) fn nsids(&self) -> &'static [u32] {
        if self.copies.is_some() { &[1, 2] } else { &[1] }
    }
}

/// The drive's TOML: the profile's NAND set as one namespace, and a set beside it where the variant wants one. DRAM and
/// persistent memory of the published drive are as fast as the link: the profile's figures for DRAM are derived from the results that are tested
/// here. Other drives keep their own, if they have one.
pub fn toml(profile: &Table, variant: Variant, name: &str) -> Result<Table> {
    let mut table = profile.clone();
    let sets = table.get("set").and_then(Value::as_array).context("the drive has no NVM Set")?;
    let mut nand = sets.first().and_then(Value::as_table).context("the drive's NVM Set is no table")?.clone();
    if nand.get("media").and_then(Value::as_str) != Some("nand") {
        bail!("NVM Set 1 of the drive {name:?} is no NAND");
    }
    let published = is_published(name);
    if published {
        fit(&mut nand)?;
    }
    let own = variant.medium().map(|medium| {
        sets.iter().find(|set| set.get("media").and_then(Value::as_str) == Some(medium)).cloned()
    });
    let size = table
        .get("namespace")
        .and_then(Value::as_array)
        .and_then(|all| all.iter().find(|n| n.get("set").and_then(Value::as_integer) == Some(1)))
        .and_then(|n| n.get("size"))
        .or(nand.get("capacity"))
        .and_then(Value::as_str)
        .context("the size of NVM Set 1 is not said")?
        .to_owned();
    let mut sets = vec![Value::Table(nand)];
    let mut namespaces = vec![namespace(1, &size)];
    if let Some(medium) = variant.medium() {
        let own = own.filter(|_| !published).flatten();
        sets.push(own.unwrap_or_else(|| as_fast_as_the_link(medium)));
        namespaces.push(namespace(2, &format!("{COPIES}B")));
    }
    table.insert("set".into(), sets.into());
    table.insert("namespace".into(), namespaces.into());
    let drive = table.entry("drive").or_insert_with(|| Table::new().into());
    let drive = drive.as_table_mut().context("[drive] is no table")?;
    drive.insert("timing".into(), true.into());
    if published {
        drive.insert("write_buffer".into(), fitted::WRITE_BUFFER.into());
    }
    if variant.family() == Family::Atomic {
        drive.insert("atomic_write".into(), "16KiB".into());
    }
    Ok(table)
}

fn as_fast_as_the_link(medium: &str) -> Value {
    let mut set = Table::new();
    set.insert("media".into(), medium.into());
    set.insert("capacity".into(), "64MiB".into());
    let mut timing = Table::new();
    for (key, value) in [("read", "1us"), ("write", "1us"), ("bandwidth", "3.3GB/s")] {
        timing.insert(key.into(), value.into());
    }
    set.insert("timing".into(), timing.into());
    set.into()
}

fn namespace(set: i64, size: &str) -> Value {
    let mut table = Table::new();
    table.insert("set".into(), set.into());
    table.insert("size".into(), size.into());
    table.insert("lba".into(), 4096.into());
    table.insert("attach".into(), "all".into());
    table.into()
}

/// The fitted figures; superblocks keep their size.
fn fit(nand: &mut Table) -> Result<()> {
    let integer = |nand: &Table, key: &str| {
        nand.get(key).and_then(Value::as_integer).with_context(|| format!("the NVM Set has no {key}"))
    };
    let (planes, pages) = (integer(nand, "planes")?, integer(nand, "pages_per_block")?);
    nand.insert("planes".into(), fitted::PLANES.into());
    nand.insert("pages_per_block".into(), (pages * planes / fitted::PLANES).into());
    let timing = nand.get_mut("timing").and_then(Value::as_table_mut).context("the NVM Set has no timing")?;
    timing.insert("program".into(), format!("{}us", fitted::PROGRAM_US).into());
    timing.insert("max_suspends".into(), fitted::MAX_SUSPENDS.into());
    Ok(())
}

/// The same, as the drive takes it.
pub fn config(profile: &Table, variant: Variant, name: &str) -> Result<Config> {
    Ok(Config::from_toml(&toml::to_string(&toml(profile, variant, name)?)?)?)
}

/// A larger drive is not written page by page before the study: it is put into the state of uniform overwriting, and kept for the next time.
const MAX_WRITTEN_BYTES: u64 = 256 << 30;

/// Bytes of the NVM Sets.
fn bytes(config: &Config) -> u64 {
    config.ftl.sets.iter().map(|set| u64::from(set.capacity_pages()) * 4096).sum()
}

/// Makes the drive, and connects the server to it.
pub(super) fn make(
    profile: &Table,
    variant: Variant,
    name: &str,
    like_live: bool,
    cache: &Cache,
    seed: u64,
    cancel: &Cancel,
) -> Result<(Sim, Host<SimTransport>, StudyVolumes)> {
    let config = config(profile, variant, name)?;
    let prepared = like_live || bytes(&config) > MAX_WRITTEN_BYTES;
    let how = if prepared { Precondition::Steady } else { Precondition::None };
    let made = cache.drive(config, Contents::None, how, seed, &mut |_| !cancel.is_cancelled());
    cancel.check()?;
    let (sim, _) = made?;
    let mut host = sim.host("nqn.2026-11.io.tranche:database").context("connecting to the drive")?;
    let mut volume = |nsid| -> Result<Volume> {
        let namespace = host.namespace(nsid)?;
        Ok(Volume { blocks: namespace.blocks, block_bytes: namespace.block_size })
    };
    let data = volume(1)?;
    let copies = variant.medium().map(|_| volume(2)).transpose()?;
    if prepared && !like_live {
        // What the files do not fill holds nothing.
        #[expect(clippy::cast_possible_truncation, reason = "no more than the namespace has")]
        let filled = (u128::from(data.blocks) * u128::from(fitted::FILL_PERMILLE) / 1000) as u64;
        let namespace = host.namespace(1)?;
        host.io_queue(2)?.deallocate(&namespace, filled, data.blocks.saturating_sub(filled))?;
    }
    Ok((sim, host, StudyVolumes { data, copies, prepared }))
}

/// Writes what the files fill once in order, then one and a half times in pages at random.
pub(super) fn age(sim: &Sim, end: u64, seed: u64, cancel: &Cancel) -> Result<()> {
    // Bytes.
    const BLOCK: u64 = 4096;
    let fill = MixConfig {
        range: end / BLOCK,
        blocks: 32,
        order: Order::Sequential,
        writes_per_mille: 1000,
        depth: 32,
        count: Some(end / BLOCK / 32),
        seed,
    };
    let pages = MixConfig {
        blocks: 4,
        order: Order::Random,
        depth: 64,
        count: Some(end / BLOCK / 4 * 3 / 2),
        ..fill
    };
    for config in [fill, pages] {
        let mut completions = 0u64;
        let outcome = sim.run(1, &mut Mix::new(config), |_| {
            completions += 1;
            completions.is_multiple_of(4096) && cancel.is_cancelled()
        })?;
        cancel.check()?;
        if outcome.failed > 0 {
            bail!("{} commands failed while the drive was prepared", outcome.failed);
        }
    }
    Ok(())
}
