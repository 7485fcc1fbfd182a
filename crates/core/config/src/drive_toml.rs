//! A drive's TOML. `docs/drive-toml.md` documents every key.

use crate::config::{Config, Identity, Link};
use crate::config_error::ConfigError;
use crate::datasheet::DataSheetTable;
use crate::disk_table::DiskTable;
use crate::fault_table::{self, ProtocolFaultTable};
use crate::lba_format::LbaFormat;
use crate::namespace_table::{self, NamespaceTable};
use crate::quantity::{Percent, Rate, Size, Time};
use crate::toml_keys;
use crate::zone_table::ZoneTable;
use ftl::{GRANULE_PAGES, GcConfig, PAGE, PlacementConfig, Policies, SetConfig, ZonesConfig};
use media::memory::Bandwidth;
use media::{Cell, FaultPlan, Geometry, MemoryConfig, MemoryKind, NandConfig, NandTiming, Nanos, Sense};
use nvme::Nqn;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use units::{format_size, toml_error};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    drive: DriveTable,
    #[serde(default)]
    link: LinkTable,
    #[serde(default)]
    set: Vec<SetTable>,
    #[serde(default)]
    namespace: Vec<NamespaceTable>,
    #[serde(default)]
    fault: Vec<ProtocolFaultTable>,
    datasheet: Option<DataSheetTable>,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct DriveTable {
    serial: String,
    model: String,
    firmware: String,
    nqn: String,
    max_namespaces: u32,
    max_transfer: Size,
    max_append: Option<Size>,
    in_capsule: Size,
    lba_formats: Option<Vec<LbaFormat>>,
    /// Formats without metadata, as files said before there were others.
    lba_sizes: Option<Vec<u32>>,
    default_set: u16,
    timing: bool,
    fair_sharing: bool,
    write_buffer: Size,
    power_loss_protection: bool,
    energy: Option<Size>,
    atomic_write: Size,
    spare_threshold: u8,
    allow_network_faults: bool,
    durable: bool,
    seed: u64,
}

impl Default for DriveTable {
    fn default() -> Self {
        DriveTable {
            serial: "TRANCHE0001".into(),
            model: "Tranche".into(),
            firmware: env!("CARGO_PKG_VERSION").into(),
            nqn: "nqn.2026-11.io.tranche:drive".into(),
            max_namespaces: 32,
            max_transfer: Size(1 << 20),
            max_append: None,
            in_capsule: Size(8192),
            lba_formats: None,
            lba_sizes: None,
            default_set: 1,
            timing: false,
            fair_sharing: true,
            write_buffer: Size(16 << 20),
            power_loss_protection: true,
            energy: None,
            atomic_write: Size(4096),
            spare_threshold: 10,
            allow_network_faults: false,
            durable: true,
            seed: 1,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct LinkTable {
    read: Option<Rate>,
    write: Option<Rate>,
    command_overhead: Option<Time>,
    write_overhead: Option<Time>,
    command_interval: Option<Time>,
}

/// A `[[set]]`, by its `media`. A new kind of set is a variant here. [`parse`] makes variants of the tables.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum SetTable {
    Nand(NandTable),
    Dram(MemoryTable),
    Pmem(MemoryTable),
    Disk(Box<DiskTable>),
}

/// Reads a file. An error has the lines of the keys or the value that are wrong.
fn parse(text: &str) -> Result<File, ConfigError> {
    let said = |mut error: toml::de::Error| {
        error.set_input(Some(text));
        toml_error(&error.to_string(), error.message())
    };
    let mut document = DeTable::parse(text).map_err(|error| ConfigError::Toml(said(error)))?;
    // Cache tiers that are served with the drive are hosts of it: the drive knows nothing of them, and who serves it reads their tables.
    document.get_mut().remove("cache");
    let mut problems = toml_keys::complete(document.get_mut(), text);
    let mut read = sets_by_media(document.get_mut());
    loop {
        match read.and_then(|()| File::deserialize(toml::Deserializer::from(document.clone()))) {
            Ok(file) if problems.is_empty() => return Ok(file),
            Ok(_) => break,
            Err(error) => {
                let goes_on = toml_keys::remove_unknown(document.get_mut(), &error);
                problems.push(said(error));
                if !goes_on {
                    break;
                }
            }
        }
        read = Ok(());
    }
    Err(ConfigError::Toml(problems.join("\n")))
}

/// Each `[[set]]` as a variant of its `media`.
fn sets_by_media(document: &mut DeTable<'_>) -> Result<(), toml::de::Error> {
    if let Some(DeValue::Array(sets)) = document.get_mut("set").map(Spanned::get_mut) {
        for set in sets.iter_mut() {
            *set = by_media(set.clone())?;
        }
    }
    Ok(())
}

/// `{ media = "nand", KEYS }` as `{ nand = { KEYS } }`, which is how TOML writes a variant of an enumeration. Serde can also read the
/// first form, but then it copies the table and forgets where its keys and values stand.
fn by_media(set: Spanned<DeValue<'_>>) -> Result<Spanned<DeValue<'_>>, toml::de::Error> {
    #[derive(Deserialize)]
    struct Tagged {
        media: Spanned<String>,
    }
    let media = Tagged::deserialize(ValueDeserializer::from(set.clone()))?.media;
    let (span, mut keys) = (set.span(), set.into_inner());
    if let DeValue::Table(keys) = &mut keys {
        keys.remove("media");
    }
    let name = Spanned::new(media.span(), media.into_inner().into());
    let variant = DeTable::from_iter([(name, Spanned::new(span.clone(), keys))]);
    Ok(Spanned::new(span, DeValue::Table(variant)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NandTable {
    cell: Cell,
    capacity: Option<Size>,
    spare: Option<Percent>,
    superblocks: Option<u32>,
    channels: u32,
    dies: u32,
    planes: u32,
    nand_page: Size,
    pages_per_block: u32,
    #[serde(default = "yes")]
    one_shot: bool,
    rated_cycles: u32,
    #[serde(default)]
    timing: NandTimes,
    #[serde(default)]
    gc: GcConfig,
    #[serde(default)]
    placement: PlacementTable,
    window: Option<WindowTable>,
    zone: Option<Box<ZoneTable>>,
    #[serde(default)]
    faults: FaultTable,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct NandTimes {
    read: Option<ReadTimes>,
    program: Option<Time>,
    erase: Option<Time>,
    channel: Option<Rate>,
    suspend: Option<Time>,
    resume: Option<Time>,
    max_suspends: u32,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a time such as \"60us\", or a list of one time for each bit of the cell")]
enum ReadTimes {
    Same(Time),
    ByPageType(Vec<Time>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WindowTable {
    superblocks: u32,
    #[serde(default = "default_window")]
    time: Time,
}

fn default_window() -> Time {
    Time(Nanos(10_000_000_000))
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PlacementTable {
    handles: u32,
    isolation: Isolation,
    fdp: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Isolation {
    Initial,
    Persistent,
}

impl Default for PlacementTable {
    fn default() -> Self {
        PlacementTable { handles: 1, isolation: Isolation::Initial, fdp: false }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryTable {
    capacity: Option<Size>,
    #[serde(default = "default_banks")]
    banks: u32,
    #[serde(default)]
    timing: MemoryTimes,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct MemoryTimes {
    read: Option<Time>,
    write: Option<Time>,
    bandwidth: Option<Rate>,
    read_bandwidth: Option<Rate>,
    write_bandwidth: Option<Rate>,
}

/// Faults of new media.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct FaultTable {
    initial_bad_blocks: Option<Percent>,
    wear_out: Option<Percent>,
}

fn yes() -> bool {
    true
}

fn default_banks() -> u32 {
    16
}

/// The drive that is served when no file says otherwise.
pub const DEFAULT_DRIVE: &str = include_str!("default_drive.toml");

impl Config {
    /// Reads a drive's TOML.
    ///
    /// # Errors
    /// What is wrong, where, and what is allowed.
    pub fn from_toml(text: &str) -> Result<Config, ConfigError> {
        let config = build(parse(text)?)?;
        config.check()?;
        Ok(config)
    }

    /// The drive that is served when no file says otherwise.
    pub fn default_drive() -> Config {
        // The text is part of the program, and a test reads it.
        Config::from_toml(DEFAULT_DRIVE).expect("the default drive is well-formed")
    }
}

/// What a drive offers when its file does not say: all that can be useful. The first two are what hosts expect there.
const DEFAULT_FORMATS: [LbaFormat; 9] = {
    use crate::protection::Guard::{Crc16, Crc32, Crc64};
    const fn with(data: u32, metadata: u8, guard: crate::protection::Guard, storage_bits: u8) -> LbaFormat {
        LbaFormat { data, metadata, guard, storage_bits, qualified: false }
    }
    [
        LbaFormat::plain(4096),
        LbaFormat::plain(512),
        with(512, 8, Crc16, 0),
        with(4096, 8, Crc16, 0),
        with(4096, 64, Crc16, 0),
        with(4096, 16, Crc32, 16),
        with(4096, 16, Crc64, 0),
        with(4096, 16, Crc64, 16),
        with(4096, 8, Crc16, 8),
    ]
};

fn build(file: File) -> Result<Config, ConfigError> {
    let d = file.drive;
    if file.set.is_empty() {
        return Err(ConfigError::value(
            "number of [[set]] tables",
            0,
            "at least one NVM Set, as [[set]] with media = \"nand\", \"dram\", \"pmem\" or \"disk\"",
        ));
    }
    let buffer_pages = pages("drive.write_buffer", d.write_buffer.0)?;
    let buffer_bytes = u64::from(buffer_pages) * u64::from(PAGE);
    let atomic_pages = pages("drive.atomic_write", d.atomic_write.0)?;
    // Without a stated budget the capacitors save just what there is to save.
    let stated: u64 = file
        .set
        .iter()
        .map(|set| match set {
            SetTable::Dram(m) => m.capacity.map_or(0, |c| c.0),
            SetTable::Disk(disk) => disk.volatile_bytes(),
            _ => 0,
        })
        .sum();
    let zones = file.set.iter().enumerate().map(|(i, set)| zones_of(set, i));
    let zones: Vec<ZonesConfig> = zones.collect::<Result<_, _>>()?;
    let windows_of_zones: u64 = zones.iter().map(|z| z.all_pages() * u64::from(PAGE)).sum();
    let fixed = buffer_bytes.saturating_add(stated).saturating_add(windows_of_zones);
    let energy_bytes = d.energy.map_or(fixed, |e| e.0);
    // A DRAM set without a capacity gets what the budget leaves.
    let left = energy_bytes.saturating_sub(fixed);
    let mut faults = FaultPlan { seed: d.seed, ..FaultPlan::default() };
    let mut sets = Vec::new();
    let mut fdp = Vec::new();
    let mut windows = vec![Nanos::ZERO; file.set.len()];
    for (i, set) in file.set.into_iter().enumerate() {
        let key = |name: &str| format!("set.{}.{name}", i + 1);
        sets.push(match set {
            SetTable::Nand(n) => {
                if let Some(window) = &n.window {
                    if window.superblocks == 0 || window.time.0.0 < 1_000_000 {
                        let rule = "at least one superblock, and at least 1ms";
                        let given = format!("{} superblocks, {} ns", window.superblocks, window.time.0.0);
                        return Err(ConfigError::value(key("window"), given, rule));
                    }
                    windows[i] = window.time.0;
                }
                if n.placement.fdp {
                    if n.placement.handles < 2 {
                        let rule = "Flexible Data Placement needs at least 2";
                        return Err(ConfigError::value(key("placement.handles"), n.placement.handles, rule));
                    }
                    fdp.push(i as u16 + 1);
                }
                for (mine, all) in [
                    (n.faults.initial_bad_blocks, &mut faults.initial_bad_blocks),
                    (n.faults.wear_out, &mut faults.wear_out),
                ] {
                    // The plan is the drive's: the worst of its sets counts.
                    *all = (*all).max(mine.map_or(0, |p| billionths(p.0)));
                }
                nand(n, d.durable, zones[i], &key)?
            }
            SetTable::Dram(m) => {
                let capacity = match m.capacity {
                    Some(c) => c.0,
                    None if left > 0 && d.power_loss_protection => left / (1 << 20) * (1 << 20),
                    None => {
                        let rule =
                            "a size; or left out where drive.energy leaves some beyond drive.write_buffer";
                        return Err(ConfigError::value(key("capacity"), "not given", rule));
                    }
                };
                memory(&m, MemoryKind::Dram, capacity, d.durable, &key)?
            }
            SetTable::Pmem(m) => {
                let capacity =
                    m.capacity.ok_or_else(|| ConfigError::value(key("capacity"), "not given", "a size"))?;
                memory(&m, MemoryKind::Pmem, capacity.0, d.durable, &key)?
            }
            SetTable::Disk(disk) => disk.build(key)?,
        });
    }
    let lba_formats = match (d.lba_formats, d.lba_sizes) {
        (Some(_), Some(_)) => {
            let rule = "left out where drive.lba_formats is given";
            return Err(ConfigError::value("drive.lba_sizes", "given", rule));
        }
        (Some(formats), None) => formats,
        (None, Some(sizes)) => sizes.into_iter().map(LbaFormat::plain).collect(),
        (None, None) => DEFAULT_FORMATS.to_vec(),
    };
    let namespaces = namespace_table::build(file.namespace, &sets, d.default_set, &lba_formats);
    let nqn = Nqn::new(&d.nqn)
        .map_err(|e| ConfigError::value("drive.nqn", format!("{:?}", d.nqn), e.to_string()))?;
    let max_transfer = u32::try_from(d.max_transfer.0).unwrap_or(u32::MAX);
    let max_append = d.max_append.map_or(max_transfer, |size| u32::try_from(size.0).unwrap_or(u32::MAX));
    let data_sheet = file.datasheet.map(DataSheetTable::build).transpose()?;
    let overhead = file.link.command_overhead.map_or(Nanos::ZERO, |t| t.0);
    Ok(Config {
        ftl: ftl::Config {
            sets,
            buffer_pages,
            protected: d.power_loss_protection,
            energy_bytes,
            atomic_pages,
            durable: d.durable,
            faults,
        },
        identity: Identity { serial: d.serial, model: d.model, firmware: d.firmware, nqn },
        max_namespaces: d.max_namespaces,
        max_transfer,
        max_append,
        in_capsule_bytes: u32::try_from(d.in_capsule.0).unwrap_or(u32::MAX),
        lba_formats,
        default_set: d.default_set,
        link: Link {
            read_bytes_per_second: file.link.read.map_or(0, |r| r.0),
            write_bytes_per_second: file.link.write.map_or(0, |r| r.0),
            command_overhead: overhead,
            write_overhead: file.link.write_overhead.map_or(overhead, |t| t.0),
            command_interval: file.link.command_interval.map_or(Nanos::ZERO, |t| t.0),
        },
        timing: d.timing,
        fair_sharing: d.fair_sharing,
        spare_threshold: d.spare_threshold,
        allow_fault_commands_from_network: d.allow_network_faults,
        fdp,
        windows,
        namespaces,
        protocol_faults: fault_table::build(file.fault)?,
        data_sheet,
    })
}

/// Millionths as billionths, at most one.
fn billionths(millionths: u64) -> u32 {
    u32::try_from(millionths.saturating_mul(1000).min(1_000_000_000)).unwrap_or(1_000_000_000)
}

/// A number of bytes as pages of 4 KiB.
fn pages(key: &str, bytes: u64) -> Result<u32, ConfigError> {
    let whole = bytes != 0 && bytes.is_multiple_of(u64::from(PAGE));
    u32::try_from(bytes / u64::from(PAGE)).ok().filter(|_| whole).ok_or_else(|| {
        ConfigError::value(key, format_size(bytes), "a multiple of 4KiB, not 0 and at most 8TiB")
    })
}

/// The zones of the `i`th set.
fn zones_of(set: &SetTable, i: usize) -> Result<ZonesConfig, ConfigError> {
    let SetTable::Nand(n) = set else { return Ok(ZonesConfig::default()) };
    let sense_pages = u32::try_from(n.nand_page.0 / u64::from(PAGE)).unwrap_or(u32::MAX);
    n.zone.as_deref().copied().unwrap_or_else(ZoneTable::unset).build(
        n.dies,
        n.unit_pages(sense_pages),
        n.timing.program.map_or(Nanos::ZERO, |time| time.0),
        |name| format!("set.{}.{name}", i + 1),
    )
}

impl NandTable {
    /// NAND pages that a program writes on each plane.
    fn bits(&self) -> u32 {
        if self.one_shot { self.cell.bits() } else { 1 }
    }

    /// Pages of 4 KiB of a program unit.
    fn unit_pages(&self, sense_pages: u32) -> u32 {
        self.planes.saturating_mul(sense_pages).saturating_mul(self.bits())
    }
}

fn nand(
    n: NandTable,
    durable: bool,
    zones: ZonesConfig,
    key: &impl Fn(&str) -> String,
) -> Result<SetConfig, ConfigError> {
    let sense_pages = pages(&key("nand_page"), n.nand_page.0)?;
    let bits = n.bits();
    if n.pages_per_block == 0 || !n.pages_per_block.is_multiple_of(bits) {
        let rule =
            format!("a multiple of the {bits} pages of a wordline (or set one_shot = false), and not 0");
        return Err(ConfigError::value(key("pages_per_block"), n.pages_per_block, rule));
    }
    let unit_pages = n.unit_pages(sense_pages);
    let units_per_block = n.pages_per_block / bits;
    let superblock = u64::from(unit_pages) * u64::from(units_per_block);
    let superblock = superblock.saturating_mul(n.dies.into());
    let granule = u64::from(GRANULE_PAGES);
    let too_small = |name: &str| ConfigError::value(key(name), "0", "at least 1");
    if superblock == 0 {
        return Err(too_small(if n.dies == 0 { "dies" } else { "planes" }));
    }
    // Spare is raw over logical capacity, minus one.
    let with_spare = |pages: u64, spare: u64| u128::from(pages) * u128::from(1_000_000 + spare);
    let (capacity, superblocks) = match (n.capacity, n.spare, n.superblocks) {
        (Some(c), Some(spare), None) => {
            let capacity = u64::from(pages(&key("capacity"), c.0)?);
            let raw = with_spare(capacity, spare.0).div_ceil(u128::from(superblock) * 1_000_000);
            (capacity, u32::try_from(raw).unwrap_or(u32::MAX))
        }
        (None, Some(spare), Some(blocks)) => {
            let raw = u128::from(superblock) * u128::from(blocks) * 1_000_000;
            let capacity = raw / u128::from(1_000_000 + spare.0);
            (u64::try_from(capacity).unwrap_or(u64::MAX), blocks)
        }
        (Some(c), None, Some(blocks)) => (u64::from(pages(&key("capacity"), c.0)?), blocks),
        (c, s, b) => {
            let given: Vec<&str> =
                [("capacity", c.is_some()), ("spare", s.is_some()), ("superblocks", b.is_some())]
                    .into_iter()
                    .filter_map(|(name, given)| given.then_some(name))
                    .collect();
            let given = if given.is_empty() { "none".to_owned() } else { given.join(", ") };
            let rule = "give exactly two of capacity, spare and superblocks: they determine the third";
            return Err(ConfigError::value(key("capacity, spare, superblocks"), given, rule));
        }
    };
    // Two are written, one is free, and some must be there to collect.
    if superblocks <= n.gc.low.max(3) {
        let rule = format!(
            "these blocks and planes on so many dies make {superblocks} superblocks of {}, and {} are needed at least: fewer dies or \
             planes, smaller blocks, or more capacity or spare",
            format_size(superblock.saturating_mul(u64::from(PAGE))),
            n.gc.low.max(3) + 1
        );
        return Err(ConfigError::value(key("dies"), n.dies, rule));
    }
    // Capacity is given out in granules.
    let capacity_pages = u32::try_from(capacity / granule * granule).unwrap_or(u32::MAX);
    let time = |t: Option<Time>| t.map_or(Nanos::ZERO, |t| t.0);
    let timing = NandTiming {
        sense: match n.timing.read {
            None => Sense::default(),
            Some(ReadTimes::Same(t)) => Sense::Same(t.0),
            Some(ReadTimes::ByPageType(all)) => Sense::ByPageType(all.into_iter().map(|t| t.0).collect()),
        },
        program: time(n.timing.program),
        erase: time(n.timing.erase),
        channel_bytes_per_second: n.timing.channel.map_or(0, |r| r.0),
        suspend: time(n.timing.suspend),
        resume: time(n.timing.resume),
        max_suspends: n.timing.max_suspends,
    };
    let nand = NandConfig {
        geometry: Geometry {
            dies: n.dies,
            channels: n.channels,
            planes: n.planes,
            superblocks,
            units_per_block,
            unit_pages,
            sense_pages,
            in_place: false,
            rated_cycles: n.rated_cycles,
        },
        cell: n.cell,
        timing,
        durable,
    };
    let ahead = n.window.map_or(0, |w| w.superblocks);
    let gc = GcConfig { ahead, ..n.gc };
    let isolated = matches!(n.placement.isolation, Isolation::Persistent);
    let placement = PlacementConfig { handles: n.placement.handles, isolated };
    Ok(SetConfig::Nand { nand, capacity_pages, gc, placement, policies: Policies::default(), zones })
}

fn memory(
    m: &MemoryTable,
    kind: MemoryKind,
    capacity: u64,
    durable: bool,
    key: &impl Fn(&str) -> String,
) -> Result<SetConfig, ConfigError> {
    let pages = pages(&key("capacity"), capacity)?;
    let time = |t: Option<Time>| t.map_or(Nanos::ZERO, |t| t.0);
    let rate = |r: Option<Rate>| r.map_or(0, |r| r.0);
    let t = &m.timing;
    let bytes_per_second = match (t.bandwidth, t.read_bandwidth, t.write_bandwidth) {
        (shared, None, None) => Bandwidth::Shared(rate(shared)),
        (None, read, write) => Bandwidth::Separate { read: rate(read), write: rate(write) },
        _ => {
            let rule = "either bandwidth, or read_bandwidth and write_bandwidth";
            return Err(ConfigError::value(key("timing"), "both", rule));
        }
    };
    let memory = MemoryConfig {
        kind,
        pages,
        banks: m.banks,
        read_latency: time(t.read),
        write_latency: time(t.write),
        bytes_per_second,
        rated_cycles: u32::MAX,
        durable,
    };
    Ok(SetConfig::Memory { memory, volatile: kind == MemoryKind::Dram })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_drive_is_the_documented_one() {
        let c = Config::default_drive();
        assert!(!c.timing && c.ftl.protected && c.max_namespaces == 32);
        assert_eq!(c.lba_formats, DEFAULT_FORMATS);
        assert_eq!(c.namespaces.len(), 1);
        assert_eq!((c.namespaces[0].bytes, c.namespaces[0].set), (1 << 30, 1));
        let SetConfig::Nand { nand, capacity_pages, .. } = &c.ftl.sets[0] else { panic!("set 1 is NAND") };
        assert_eq!(u64::from(*capacity_pages) * 4096, 2 << 30);
        // 12.5 % spare.
        assert_eq!(nand.geometry.pages() * 8, u64::from(*capacity_pages) * 9);
        assert_eq!(c.ftl.sets[1].capacity_pages(), (64 << 20) / 4096);
    }

    fn error(change: impl Fn(&str) -> String) -> String {
        Config::from_toml(&change(DEFAULT_DRIVE)).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_key_value_and_what_is_allowed() {
        let e = error(|t| t.replace("lba = 4096", "lba = 1024"));
        assert!(
            e.starts_with("namespace.1.lba is 1024: one of drive.lba_formats = [4096, 512, 512+8, "),
            "{e}"
        );
        let e = error(|t| t.replace("size = \"1GiB\"", "size = \"1Gig\""));
        assert!(e.contains("size = \"1Gig\"") && e.contains("\"1Gig\" is not a size: write 64MiB"), "{e}");
        let e = error(|t| t.replace("[drive]", "[drive]\nsereal = \"x\""));
        assert!(e.contains("sereal") && e.contains("`serial`"), "{e}");
        let e = error(|t| t.replace("spare = \"12.5%\"", "superblocks = 384\nspare = \"12.5%\""));
        assert!(e.contains("set.1") && e.contains("exactly two"), "{e}");
        let e = error(|t| t.replace("set = 1", "set = 3"));
        assert_eq!(e, "namespace.1.set is 3: an NVM Set of this drive: 1 to 2");
        let e = error(|t| t.replace("[drive]", "[drive]\nenergy = \"1MiB\""));
        assert!(e.contains("energy"), "{e}");
        let e = error(|t| t.replace("[drive]", "[drive]\nmax_transfer = \"100KiB\""));
        assert!(e.contains("drive.max_transfer") && e.contains("power of two"), "{e}");
        for size in ["4KiB", "12KiB", "2MiB"] {
            let e = error(|t| t.replace("[drive]", &format!("[drive]\nmax_append = \"{size}\"")));
            assert!(e.contains("drive.max_append") && e.contains("from 8KiB to max_transfer"), "{e}");
        }
        let e = error(|t| t.replace("size = \"1GiB\"", "size = \"5GiB\""));
        assert_eq!(e, "namespace.1.size is 5GiB: NVM Set 1 has 2GiB left, given in steps of 1MiB");
        let e = error(|t| t.replace("dies = 4", "dies = 4000"));
        assert!(
            e.starts_with(
                "set.1.dies is 4000: these blocks and planes on so many dies make 1 superblocks of"
            ),
            "{e}"
        );
        let e = error(|t| t.replace("capacity = \"2GiB\"", "capacity = \"8TB\""));
        assert!(e.starts_with("set.1.capacity with its spare is ") && e.contains("at most 8TiB"), "{e}");
        let e = error(|t| t.replace("dies = 4", "dies = \"four\""));
        assert!(e.contains("dies = \"four\"") && e.contains("expected a whole number from 0 to"), "{e}");
        let e = error(|t| t.replace("media = \"dram\"", "media = \"tape\""));
        assert!(
            e.contains("media = \"tape\"") && e.contains("expected one of `nand`, `dram`, `pmem`"),
            "{e}"
        );
        assert!(error(|_| "set = 1".into()).contains("set"));
        assert!(error(|_| String::new()).contains("[[set]]"));
    }

    #[test]
    fn the_dram_set_gets_what_the_energy_budget_leaves() {
        let text = DEFAULT_DRIVE
            .replace("capacity = \"64MiB\"\n", "")
            // The buffer of zones counts, too.
            .replace("zone = { zrwa = 14 }\n", "")
            .replace("[drive]", "[drive]\nenergy = \"48MiB\"\nwrite_buffer = \"16MiB\"");
        let c = Config::from_toml(&text).unwrap();
        assert_eq!(c.ftl.sets[1].capacity_pages(), (32 << 20) / 4096);
    }
}
