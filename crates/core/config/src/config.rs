//! What shapes a drive.

pub use crate::config_error::ConfigError;
use crate::datasheet::DataSheet;
use crate::lba_format::{LbaFormat, MAX_FORMATS};
use crate::limits::Limits;
use crate::toml_names;
use ftl::{MediaKind, PAGE, SetConfig, ZoneLayout};
use media::Nanos;
use nvme::Nqn;
use nvme::protocol_fault::ProtocolFault;
use units::format_size;

/// Everything that shapes a drive. [`Config::from_toml`] reads it from a file.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Media, write buffer, power-loss protection, atomicity.
    pub ftl: ftl::Config,
    /// What the drive says of itself.
    pub identity: Identity,
    /// Namespaces that the drive can have, and the highest namespace identifier: 1 to 1,024.
    pub max_namespaces: u32,
    /// Largest transfer of one command (MDTS): 4 KiB times a power of two, at most 128 MiB.
    pub max_transfer: u32,
    /// Largest Zone Append (ZASL): 4 KiB times a power of two above 1, at most `max_transfer`, and then the controller says that it is as large.
    pub max_append: u32,
    /// Data that may come within a command capsule over fabrics (IOCCSZ): a multiple of 16, at most 1 MiB.
    pub in_capsule_bytes: u32,
    /// LBA formats offered, the default first: 1 to 64, each at most once.
    pub lba_formats: Vec<LbaFormat>,
    /// NVM Set, from 1, of namespaces that are created with NVMSETID 0.
    pub default_set: u16,
    /// The way between host and controller, and the controller's own time.
    pub link: Link,
    /// Whether completions are held until their modelled time; else the drive is as fast as the machine.
    pub timing: bool,
    /// Whether namespaces of one NVM Set share its time by their weights. If not, commands are served in the order of their arrival.
    pub fair_sharing: bool,
    /// Available spare in percent below which the drive warns: 0 to 100.
    pub spare_threshold: u8,
    /// Whether hosts on the network may cut the power and inject faults.
    pub allow_fault_commands_from_network: bool,
    /// Longest deterministic window of each NVM Set, in order; zero where there is no Predictable Latency Mode.
    pub windows: Vec<Nanos>,
    /// NVM Sets, from 1, in whose Endurance Groups a new drive has Flexible Data Placement enabled.
    pub fdp: Vec<u16>,
    /// Namespaces that a new drive has.
    pub namespaces: Vec<InitialNamespace>,
    /// Faults of the protocol that are armed from the start.
    pub protocol_faults: Vec<ProtocolFault>,
    /// What its maker says of its speed. The drive does not look at it.
    pub data_sheet: Option<DataSheet>,
}

/// What a drive says of itself in Identify Controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Serial number: 1 to 20 printable ASCII characters.
    pub serial: String,
    /// Model number: 1 to 40 printable ASCII characters.
    pub model: String,
    /// Firmware revision: 1 to 8 printable ASCII characters.
    pub firmware: String,
    /// NQN of the subsystem.
    pub nqn: Nqn,
}

/// The way between host and controller. Zero takes no time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Link {
    /// Towards the host.
    pub read_bytes_per_second: u64,
    /// From the host.
    pub write_bytes_per_second: u64,
    /// The controller's own time for each command but a write.
    pub command_overhead: Nanos,
    /// The controller's own time for each write.
    pub write_overhead: Nanos,
    /// How long the controller is busy with a command that moves data, one after the other: what limits how many there are in a
    /// second.
    pub command_interval: Nanos,
}

/// A namespace that a new drive has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InitialNamespace {
    /// NVM Set, from 1.
    pub set: u16,
    /// Size; a multiple of the logical block size.
    pub bytes: u64,
    /// Its LBA format: one of [`Config::lba_formats`].
    pub format: LbaFormat,
    /// Protection Information Type: 0 none, 1 to 3, at the end of the metadata.
    pub protection: u8,
    /// Who has it attached.
    pub attach: Attach,
    /// Its quota, as if it had been set and saved.
    pub limits: Limits,
    /// Its zones, if it is zoned: together as large as `bytes`.
    pub zones: Option<ZoneLayout>,
}

impl InitialNamespace {
    /// Bytes of its set's capacity that it takes.
    pub fn needed(&self) -> u64 {
        let granules = |bytes: u64| bytes.div_ceil(GRANULE_BYTES).saturating_mul(GRANULE_BYTES);
        match &self.zones {
            None => granules(self.bytes),
            Some(zones) => granules(zones.capacity).saturating_mul(zones.zones.into()),
        }
    }
}

/// How the bytes of an NVM Set on flash are given away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlashSpace {
    /// The NVM Set, from 1.
    pub set: u16,
    /// Bytes of the flash.
    pub raw: u64,
    /// Bytes that namespaces can have: the rest is the drive's spare.
    pub offered: u64,
    /// Bytes that the namespaces of a new drive have. What no namespace has serves as spare, too.
    pub allocated: u64,
    /// Whether garbage is collected there: a namespace of it is conventional.
    pub collects: bool,
}

/// Who has a namespace attached at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attach {
    /// Every host.
    All,
    /// To no controller, until Namespace Attachment says otherwise.
    None,
}

/// Capacity is given to namespaces in granules (Namespace Granularity).
pub const GRANULE_BYTES: u64 = ftl::GRANULE_PAGES as u64 * PAGE as u64;

/// Bytes of an NVM Set that namespaces can have: whole granules.
pub(crate) fn offered_bytes(set: &SetConfig) -> u64 {
    u64::from(set.capacity_pages()) * u64::from(PAGE) / GRANULE_BYTES * GRANULE_BYTES
}

/// Most namespaces of a drive.
const MAX_NAMESPACES: u32 = 1024;

impl Config {
    /// Whether the drive has a volatile write cache: its buffer is lost without power.
    pub fn has_volatile_write_cache(&self) -> bool {
        !self.ftl.protected
    }

    /// Checks everything that [`ftl::Ftl::new`] does not.
    ///
    /// # Errors
    /// The first value that is not allowed, with its key and what is.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_identity()?;
        self.ftl.check().map_err(|error| toml_names::in_toml(&self.ftl, error))?;
        if !(1..=MAX_NAMESPACES).contains(&self.max_namespaces) {
            return Err(ConfigError::value("drive.max_namespaces", self.max_namespaces, "1 to 1,024"));
        }
        if !self.max_transfer.is_power_of_two() || !(PAGE..=128 << 20).contains(&self.max_transfer) {
            let rule = "a power of two from 4KiB to 128MiB";
            return Err(ConfigError::value("drive.max_transfer", self.max_transfer, rule));
        }
        // ZASL tells no 4 KiB: 0 means MDTS.
        let possible = (2 * PAGE).min(self.max_transfer)..=self.max_transfer;
        if !self.max_append.is_power_of_two() || !possible.contains(&self.max_append) {
            let rule = "a power of two from 8KiB to max_transfer";
            return Err(ConfigError::value("drive.max_append", self.max_append, rule));
        }
        if !self.in_capsule_bytes.is_multiple_of(16) || self.in_capsule_bytes > 1 << 20 {
            return Err(ConfigError::value(
                "drive.in_capsule",
                self.in_capsule_bytes,
                "a multiple of 16, at most 1MiB",
            ));
        }
        self.check_formats()?;
        if self.spare_threshold > 100 {
            return Err(ConfigError::value(
                "drive.spare_threshold",
                self.spare_threshold,
                "0 to 100 (percent)",
            ));
        }
        self.check_set("drive.default_set", self.default_set)?;
        if self.namespaces.len() > self.max_namespaces as usize {
            let rule = format!("at most drive.max_namespaces = {}", self.max_namespaces);
            return Err(ConfigError::value("number of [[namespace]] tables", self.namespaces.len(), rule));
        }
        for (i, ns) in self.namespaces.iter().enumerate() {
            self.check_set(&format!("namespace.{}.set", i + 1), ns.set)?;
            if !self.lba_formats.contains(&ns.format) {
                let rule = format!("one of drive.lba_formats = {}", self.format_list());
                return Err(ConfigError::value(format!("namespace.{}.lba", i + 1), ns.format, rule));
            }
            if ns.protection > 3 || (ns.protection > 0 && !ns.format.can_protect()) {
                let rule = "0 to 3, and 0 for formats without room for protection information";
                return Err(ConfigError::value(format!("namespace.{}.pi", i + 1), ns.protection, rule));
            }
            if ns.bytes == 0 || ns.bytes % u64::from(ns.format.data) != 0 {
                let rule = format!("a multiple of the logical block size, {}, and not 0", ns.format.data);
                return Err(ConfigError::value(format!("namespace.{}.size", i + 1), ns.bytes, rule));
            }
            self.check_zones(i, ns)?;
            if let Some(fault) = ns.limits.fault() {
                let key = format!("namespace.{}.{}", i + 1, fault.key);
                return Err(ConfigError::value(key, fault.value, fault.rule));
            }
        }
        self.check_room()
    }

    fn format_list(&self) -> String {
        let all: Vec<String> = self.lba_formats.iter().map(ToString::to_string).collect();
        format!("[{}]", all.join(", "))
    }

    fn check_formats(&self) -> Result<(), ConfigError> {
        let formats = &self.lba_formats;
        let twice = (1..formats.len()).any(|i| formats[..i].contains(&formats[i]));
        let wrong = |rule: String| ConfigError::value("drive.lba_formats", self.format_list(), rule);
        if formats.is_empty() || formats.len() > MAX_FORMATS || twice {
            return Err(wrong(format!("1 to {MAX_FORMATS} formats, each once, the default first")));
        }
        match formats.iter().find_map(|f| Some((f, f.fault()?))) {
            Some((format, why)) => Err(wrong(format!("{format}: {why}"))),
            None => Ok(()),
        }
    }

    /// Whether the `i`th namespace can have its zones.
    fn check_zones(&self, i: usize, ns: &InitialNamespace) -> Result<(), ConfigError> {
        let Some(zones) = &ns.zones else { return Ok(()) };
        let wrong = |key: &str, given: String, rule: &str| {
            Err(ConfigError::value(format!("namespace.{}.{key}", i + 1), given, rule))
        };
        let Some(support) = self.ftl.sets[usize::from(ns.set) - 1].zone_support() else {
            let rule = format!("NVM Set {} has no zones: give its [[set]] zone = {{}}", ns.set);
            return wrong("zoned", "true".to_owned(), &rule);
        };
        if ns.format.data != PAGE {
            return wrong("lba", ns.format.to_string(), "blocks of zones have 4096 bytes");
        }
        if ns.bytes != zones.bytes() || zones.capacity != support.capacity {
            let size = format_size(zones.size);
            let rule = format!("a whole number of zones, which have {size} each on NVM Set {}", ns.set);
            return wrong("size", format_size(ns.bytes), &rule);
        }
        if zones.max_active == 0 || zones.max_active > support.active {
            let rule =
                format!("1 to {} zones, as many as NVM Set {} can have active", support.active, ns.set);
            return wrong("max_active", zones.max_active.to_string(), &rule);
        }
        if zones.max_open == 0 || zones.max_open > zones.max_active {
            let rule = format!("1 to max_active = {}", zones.max_active);
            return wrong("max_open", zones.max_open.to_string(), &rule);
        }
        let same = |other: &&InitialNamespace| other.set == ns.set;
        let before = self.namespaces[..=i].iter().filter(same).filter_map(|other| other.zones);
        if before.map(|zones| zones.max_active).sum::<u32>() > support.active {
            let rule = format!(
                "NVM Set {} can have {} zones active, for all of its namespaces",
                ns.set, support.active
            );
            return wrong("max_active", zones.max_active.to_string(), &rule);
        }
        let areas = |zones: &ZoneLayout| zones.zrwa.map_or(0, |zrwa| zrwa.max);
        let (mine, there) = (areas(zones), support.zrwa.map_or(0, |zrwa| zrwa.max));
        let all: u32 = self.namespaces[..=i]
            .iter()
            .filter(same)
            .filter_map(|other| other.zones.as_ref())
            .map(areas)
            .sum();
        if mine > 0 && (mine > zones.max_active || all > there) {
            let rule = format!(
                "at most max_active = {}, and NVM Set {} has {there} Zone Random Write Areas (zone.zrwa) for all of its namespaces",
                zones.max_active, ns.set
            );
            return wrong("zrwa", mine.to_string(), &rule);
        }
        Ok(())
    }

    /// Whether the namespaces of a new drive fit their NVM Sets.
    fn check_room(&self) -> Result<(), ConfigError> {
        let mut left: Vec<u64> = self.ftl.sets.iter().map(offered_bytes).collect();
        for (i, ns) in self.namespaces.iter().enumerate() {
            let room = &mut left[usize::from(ns.set) - 1];
            let Some(rest) = room.checked_sub(ns.needed()) else {
                let rule =
                    format!("NVM Set {} has {} left, given in steps of 1MiB", ns.set, format_size(*room));
                return Err(ConfigError::value(
                    format!("namespace.{}.size", i + 1),
                    format_size(ns.bytes),
                    rule,
                ));
            };
            *room = rest;
        }
        Ok(())
    }

    /// How the bytes of the NVM Sets on flash are given away, in the order of the sets.
    pub fn flash_space(&self) -> impl Iterator<Item = FlashSpace> {
        (1..).zip(&self.ftl.sets).filter_map(|(set, config)| {
            let properties = config.properties();
            if properties.media != MediaKind::Nand {
                return None;
            }
            let own = || self.namespaces.iter().filter(|ns| ns.set == set);
            Some(FlashSpace {
                set,
                raw: properties.raw_pages * u64::from(PAGE),
                offered: offered_bytes(config),
                allocated: own().map(InitialNamespace::needed).sum(),
                collects: own().any(|ns| ns.zones.is_none()),
            })
        })
    }

    fn check_set(&self, key: &str, set: u16) -> Result<(), ConfigError> {
        if set == 0 || usize::from(set) > self.ftl.sets.len() {
            let rule = format!("an NVM Set of this drive: 1 to {}", self.ftl.sets.len());
            return Err(ConfigError::value(key, set, rule));
        }
        Ok(())
    }

    fn check_identity(&self) -> Result<(), ConfigError> {
        let Identity { serial, model, firmware, .. } = &self.identity;
        for (key, text, max) in
            [("drive.serial", serial, 20), ("drive.model", model, 40), ("drive.firmware", firmware, 8)]
        {
            let printable = text.bytes().all(|b| (0x20..0x7F).contains(&b));
            if text.is_empty() || text.len() > max || !printable {
                let rule = format!("1 to {max} printable ASCII characters");
                return Err(ConfigError::value(key, format!("{text:?}"), rule));
            }
        }
        Ok(())
    }

    /// The translation layer's configuration, with the media's times only if timing is on.
    pub fn effective_ftl(&self) -> ftl::Config {
        let mut config = self.ftl.clone();
        if !self.timing {
            config.sets.iter_mut().for_each(SetConfig::without_timing);
        }
        config
    }

    /// The link's times, if timing is on.
    pub fn effective_link(&self) -> Link {
        if self.timing { self.link } else { Link::default() }
    }

    /// Bytes of the atomic write unit.
    pub fn atomic_bytes(&self) -> u64 {
        u64::from(self.ftl.atomic_pages) * u64::from(PAGE)
    }

    /// ZASL: the largest append as a power of two of pages; 0 is MDTS.
    pub fn zasl(&self) -> u8 {
        match self.max_append == self.max_transfer {
            true => 0,
            false => u8::try_from((self.max_append / PAGE).trailing_zeros()).unwrap_or(0),
        }
    }

    /// MDTS: the largest transfer as a power of two of pages.
    pub fn mdts(&self) -> u8 {
        u8::try_from((self.max_transfer / PAGE).trailing_zeros()).unwrap_or(0)
    }
}
