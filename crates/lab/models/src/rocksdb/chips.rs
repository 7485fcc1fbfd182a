//! The drives: one kind of chips, as zones or as a conventional namespace with more or less spare.

use anyhow::{Context, Result, bail};
use live::Config;
use toml::{Table, Value};

use super::assumed::OVER_PROVISIONING_PERCENT;

/// How the chips are offered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Layout {
    /// A conventional namespace of 1.92 TB.
    Spare7,
    /// A conventional namespace of 1.60 TB.
    Spare28,
    /// Zones of so many dies; 0: those that the profile says.
    Zones(u32),
}

impl Layout {
    /// Capacity of the published drive in bytes.
    #[must_use]
    pub fn published_bytes(self) -> u64 {
        match self {
            Layout::Spare7 => 1_920_000_000_000,
            Layout::Spare28 => 1_600_000_000_000,
            Layout::Zones(_) => 2_000_000_000_000,
        }
    }
}

/// Bytes of the published drives' media.
const MEDIA: u64 = 2 << 40;

/// Programs of a block, at least: shorter ones keep dies waiting where one superblock ends and the next begins.
const PROGRAMS: i64 = 16;
/// The same for zones, of which several are written to at a time. So a zone shrinks as all else does, and there are nearly as many as there should be.
const ZONE_PROGRAMS: i64 = 4;

/// Superblocks of a scaled drive, at least, as long as its blocks have [`ZONE_PROGRAMS`]: of the seven that are 7 % of over-provisioning, five are open or kept free.
const MIN_SUPERBLOCKS: i64 = 96;

/// Chips, and the fraction of them that is there.
#[derive(Clone, Debug)]
pub struct Chips {
    toml: Table,
    /// Bytes of all blocks.
    media: u64,
    /// Bytes of a superblock.
    superblock: u64,
    /// Superblocks.
    superblocks: u64,
    dies: u64,
    zone_dies: u64,
    cycles: u32,
}

impl Chips {
    /// Those of a drive's first NVM Set, with `scale` times fewer bytes. Blocks become shorter, as far as they may, then there are fewer of them.
    pub fn new(profile: &Table, scale: u32, name: &str) -> Result<Self> {
        Self::with(profile, scale, name, PROGRAMS)
    }

    /// The same for zones.
    pub(crate) fn for_zones(profile: &Table, scale: u32, name: &str) -> Result<Self> {
        Self::with(profile, scale, name, ZONE_PROGRAMS)
    }

    fn with(profile: &Table, scale: u32, name: &str, programs: i64) -> Result<Self> {
        let mut toml = profile.clone();
        let sets = toml.get_mut("set").and_then(Value::as_array_mut).context("the drive has no NVM Set")?;
        let set = sets.first_mut().and_then(Value::as_table_mut).context("the NVM Set is no table")?;
        if set.get("media").and_then(Value::as_str) != Some("nand") {
            bail!("NVM Set 1 of the drive {name:?} is no NAND");
        }
        let Some(zone) = set.get("zone").and_then(Value::as_table).cloned() else {
            bail!("NVM Set 1 of the drive {name:?} has no table zone");
        };
        let integer = |key: &str| {
            set.get(key).and_then(Value::as_integer).with_context(|| format!("the NVM Set has no {key}"))
        };
        let (dies, planes, pages) = (integer("dies")?, integer("planes")?, integer("pages_per_block")?);
        let Ok(superblocks) = integer("superblocks") else {
            bail!(
                "NVM Set 1 of the drive {name:?} has no key superblocks. The study makes smaller drives of it, of 64 superblocks or more: a drive \
                 of some hundred superblocks is large enough (--drive zn540-2t is one; `superblocks` takes the place of `capacity` and `spare`)"
            );
        };
        let cycles = u32::try_from(integer("rated_cycles")?)?;
        let bits = match set.get("cell").and_then(Value::as_str) {
            Some("slc") => 1,
            Some("mlc") => 2,
            Some("qlc") => 4,
            _ => 3,
        };
        let page = set.get("nand_page").and_then(Value::as_str).context("the NVM Set has no nand_page")?;
        let page = units::parse_size(page).map_err(|e| anyhow::anyhow!("nand_page: {e}"))?;
        let scale = i64::from(scale);
        let programs = programs.min(superblocks * pages / scale / MIN_SUPERBLOCKS / bits).max(ZONE_PROGRAMS);
        let short = (pages / scale / bits * bits).max((programs * bits).min(pages));
        // So many are left that the bytes are what they should be.
        let left = (superblocks * pages / scale / short).max(64);
        set.insert("pages_per_block".into(), short.into());
        set.insert("superblocks".into(), left.into());
        let timing =
            set.get_mut("timing").and_then(Value::as_table_mut).context("the NVM Set has no timing")?;
        if let Some(erase) = timing.get("erase").and_then(Value::as_str) {
            let nanos: u64 = units::parse_time(erase).map_err(|e| anyhow::anyhow!("erase: {e}"))?;
            let nanos = nanos * u64::try_from(short)? / u64::try_from(pages)?;
            timing.insert("erase".into(), format!("{}us", nanos.div_ceil(1000)).into());
        }
        let superblock = u64::try_from(short * dies * planes)? * page;
        let dies = u64::try_from(dies)?;
        let zone_dies = zone.get("dies").and_then(Value::as_integer).unwrap_or(0);
        let zone_dies = if zone_dies == 0 { dies } else { u64::try_from(zone_dies)? };
        let superblocks = u64::try_from(left)?;
        toml.remove("datasheet");
        let drive = toml.entry("drive").or_insert_with(|| Table::new().into());
        drive.as_table_mut().context("[drive] is no table")?.insert("timing".into(), true.into());
        Ok(Self { toml, media: superblocks * superblock, superblock, superblocks, dies, zone_dies, cycles })
    }

    /// Rated program/erase cycles.
    pub fn cycles(&self) -> u32 {
        self.cycles
    }

    /// Bytes of all blocks.
    pub fn media(&self) -> u64 {
        self.media
    }

    /// Zones of so many dies; 0: as the profile says.
    ///
    /// # Errors
    /// The dies cannot be shared among zones of so many.
    pub fn layout(&self, dies: u32) -> Result<Layout> {
        if dies > 0 && !self.dies.is_multiple_of(dies.into()) {
            bail!("zones of {dies} dies cannot be: the drive has {}, which so many must divide", self.dies);
        }
        Ok(Layout::Zones(dies))
    }

    /// Dies of a zone.
    fn zone_dies(&self, layout: Layout) -> u64 {
        match layout {
            Layout::Zones(dies) if dies > 0 => dies.into(),
            _ => self.zone_dies,
        }
    }

    /// Bytes that can be written to a zone.
    pub fn zone_capacity(&self, layout: Layout) -> u64 {
        self.superblock / self.dies * self.zone_dies(layout)
    }

    /// Bytes that a host may write to a drive.
    pub fn capacity(&self, layout: Layout) -> u64 {
        match layout {
            Layout::Spare7 | Layout::Spare28 => {
                let scaled =
                    u128::from(layout.published_bytes()) * u128::from(self.media) / u128::from(MEDIA);
                u64::try_from(scaled).unwrap_or(u64::MAX) >> 20 << 20
            }
            Layout::Zones(_) => self.zones(layout) * self.zone_capacity(layout),
        }
    }

    /// Zones: those that the published drive's 2 TB have.
    fn zones(&self, layout: Layout) -> u64 {
        let per_superblock = self.dies / self.zone_dies(layout).max(1);
        let of = u128::from(self.superblocks) * u128::from(layout.published_bytes()) / u128::from(MEDIA);
        u64::try_from(of).unwrap_or(u64::MAX) * per_superblock
    }

    /// The drive's TOML.
    pub fn toml(&self, layout: Layout) -> Result<Table> {
        let mut toml = self.toml.clone();
        let capacity = self.capacity(layout);
        let zone = self.zone_capacity(layout);
        let set = toml
            .get_mut("set")
            .and_then(Value::as_array_mut)
            .and_then(|sets| sets.first_mut())
            .and_then(Value::as_table_mut)
            .context("the drive has no NVM Set")?;
        let mut namespace = Table::new();
        namespace.insert("attach".into(), "all".into());
        match layout {
            Layout::Spare7 | Layout::Spare28 => {
                set.remove("zone");
                let percent = OVER_PROVISIONING_PERCENT[usize::from(layout == Layout::Spare28)];
                let superblocks = (capacity * (100 + percent) / 100).div_ceil(self.superblock);
                set.insert("superblocks".into(), i64::try_from(superblocks)?.into());
                set.insert("capacity".into(), format!("{}MiB", capacity >> 20).into());
                namespace.insert("size".into(), format!("{}MiB", capacity >> 20).into());
            }
            Layout::Zones(_) => {
                let dies = i64::try_from(self.zone_dies(layout))?;
                let table = set.get_mut("zone").and_then(Value::as_table_mut).context("no table zone")?;
                table.insert(
                    "dies".into(),
                    (if self.zone_dies(layout) == self.dies { 0 } else { dies }).into(),
                );
                set.insert("capacity".into(), format!("{}MiB", capacity.div_ceil(1 << 20)).into());
                namespace.insert("zoned".into(), true.into());
                let size = self.zones(layout) * zone.next_power_of_two();
                namespace.insert("size".into(), format!("{}KiB", size >> 10).into());
            }
        }
        let sets = toml.get_mut("set").and_then(Value::as_array_mut).context("the drive has no NVM Set")?;
        sets.truncate(1);
        toml.insert("namespace".into(), Value::Array(vec![namespace.into()]));
        Ok(toml)
    }

    /// The same, as the drive takes it.
    pub fn config(&self, layout: Layout) -> Result<Config> {
        Ok(Config::from_toml(&toml::to_string(&self.toml(layout)?)?)?)
    }
}

/// The chips of the drives.
#[derive(Clone, Debug)]
pub struct AllChips {
    /// Of conventional namespaces.
    pub conventional: Chips,
    /// Of zones.
    pub zones: Chips,
}

impl AllChips {
    /// Those of a drive's TOML of this name.
    ///
    /// # Errors
    /// It has no zones, or lacks a key; the scale is out of its range.
    pub fn new(toml: &Table, scale: u32, name: &str) -> Result<Self> {
        check_scale(scale)?;
        Ok(Self { conventional: Chips::new(toml, scale, name)?, zones: Chips::for_zones(toml, scale, name)? })
    }

    /// Those of a layout.
    pub fn of(&self, layout: Layout) -> &Chips {
        match layout {
            Layout::Zones(_) => &self.zones,
            Layout::Spare7 | Layout::Spare28 => &self.conventional,
        }
    }
}

/// # Errors
/// The scale is out of its range.
pub fn check_scale(scale: u32) -> Result<()> {
    if !(1..=1024).contains(&scale) {
        lab_report::misuse!("--scale is {scale}: 1 to 1024 are possible");
    }
    Ok(())
}
