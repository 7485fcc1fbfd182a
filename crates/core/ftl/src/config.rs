//! What a translation layer is built from.

use crate::placement::Placement;
use crate::policies::Policies;
use crate::victim::GcPolicy;
use crate::zone::ZrwaLayout;
use media::disk::shape::DiskShape;
use media::{FaultPlan, Geometry, MemoryConfig, NandConfig, Nanos};
use serde::Deserialize;

/// Bytes of a page, the unit of mapping.
pub const PAGE: u32 = 4096;

/// Pages of a granule, the unit in which capacity is given to volumes: 1 MiB.
pub const GRANULE_PAGES: u32 = 256;

/// Everything that shapes a translation layer.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// The NVM Sets, in order; set identifiers of NVMe are one more than the index here.
    pub sets: Vec<SetConfig>,
    /// Pages of the write buffer (drive-wide, shared by the NAND sets).
    pub buffer_pages: u32,
    /// Whether capacitors save the write buffer and volatile sets when power is lost.
    pub protected: bool,
    /// Bytes that the capacitors can save: the write buffer and the volatile sets together must fit.
    pub energy_bytes: u64,
    /// Pages that are written all or not at all across a power cut, aligned to their size: a power of two.
    pub atomic_pages: u32,
    /// Whether spare areas keep versions and slots, so that power cuts and images are possible.
    pub durable: bool,
    /// Faults from the start, of all sets; usually none. Each set draws its own from the seed.
    pub faults: FaultPlan,
}

/// One NVM Set.
#[derive(Clone, PartialEq, Debug)]
pub enum SetConfig {
    /// Flash under mapping and garbage collection.
    Nand {
        /// The chips.
        nand: NandConfig,
        /// Logical pages offered: what remains of the raw pages is spare.
        capacity_pages: u32,
        /// How garbage is collected.
        gc: GcConfig,
        /// How data is kept apart.
        placement: PlacementConfig,
        /// Policies of one's own.
        policies: Policies,
        /// Zones beside the page-mapped part.
        zones: ZonesConfig,
    },
    /// DRAM or persistent memory, written in place.
    Memory {
        /// The modules.
        memory: MemoryConfig,
        /// Whether it loses its contents without capacitors (DRAM).
        volatile: bool,
    },
    /// A hard disk, written in place.
    Disk {
        /// The disk.
        shape: DiskShape,
        /// Logical pages offered, from its first sector on.
        capacity_pages: u32,
        /// Whether requests take time. Otherwise they end at once.
        timed: bool,
    },
}

/// Garbage collection and wear levelling: the table `gc` of a drive's TOML. A new key is a field here, its default below, and a row in
/// `docs/drive-toml.md`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GcConfig {
    /// Which superblock is collected next.
    pub policy: GcPolicy,
    /// Free superblocks below which collection starts (at least 3).
    pub low: u32,
    /// The policy chooses among the oldest superblocks that can be collected: this percentage of them, 1 to 100, and one at least.
    pub window: u32,
    /// Difference of program/erase cycles between superblocks from which cold data is moved on purpose.
    pub wear_gap: u32,
    /// Difference down to which it is moved then; without it, `wear_gap`.
    pub wear_stop: Option<u32>,
    /// Divides the dies: one in so many may be busy at a time with erases and with collection ahead of need. Reads find the others
    /// free. 1 allows all dies; 0 is an error.
    pub idle_share: u32,
    /// Percentage of the victims whose data goes to the superblock that the host writes to, and so comes among newer data; that of the others has one
    /// of its own. Above 0 only with one placement handle.
    pub together: u32,
    /// Superblocks that collection frees beyond `low` while it is asked to collect ahead: what can be written while it
    /// is held back. No key of the table `gc`: it follows from the table `window`.
    #[serde(skip)]
    pub ahead: u32,
}

impl Default for GcConfig {
    fn default() -> Self {
        GcConfig {
            policy: GcPolicy::Greedy,
            low: 3,
            window: 100,
            wear_gap: 100,
            wear_stop: None,
            // An eighth of the dies. This is assumed: no source tells what drives do.
            idle_share: 8,
            together: 0,
            ahead: 0,
        }
    }
}

impl GcConfig {
    /// Difference of program/erase cycles down to which cold data is moved on purpose, once that began.
    pub(crate) fn wear_stop(&self) -> u32 {
        self.wear_stop.unwrap_or(self.wear_gap)
    }

    fn check(&self, superblocks: u32) -> Result<(), ConfigError> {
        let range = |what, value: u32, rule| Err(ConfigError::Range { what, value: value.into(), rule });
        if self.low < 3 || self.low >= superblocks {
            let rule = "free superblocks to keep: at least 3 and fewer than there are superblocks";
            return range("gc.low", self.low, rule);
        }
        if self.idle_share == 0 {
            return range("gc.idle_share", 0, "one in so many dies: at least 1");
        }
        if !(1..=100).contains(&self.window) {
            return range("gc.window", self.window, "1 to 100 (percent)");
        }
        if self.together > 100 {
            return range("gc.together", self.together, "0 to 100 (percent)");
        }
        if self.wear_stop() > self.wear_gap {
            return range("gc.wear_stop", self.wear_stop(), "at most gc.wear_gap");
        }
        Ok(())
    }
}

/// Zones of a NAND set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZonesConfig {
    /// Dies of a zone, which divide those of the set; 0: all of them.
    pub dies: u32,
    /// Zones that can be active at a time; 0: the set has no zones.
    pub active: u32,
    /// How many of them a volume gets that does not say how many it wants, if they are left; 0: all that are left.
    pub share: u32,
    /// Bytes from the begin of a zone to that of the next, which hold what can be written of it, in whole pages; 0: the next power of two.
    pub size: u64,
    /// Pages of all windows: what was written to zones and is not on flash. A program unit for each active zone at least. They count
    /// against what the capacitors can save.
    pub buffer_pages: u32,
    /// Zone Random Write Areas, which take memory of their own that the capacitors must save, too. `None`: there are none.
    pub zrwa: Option<ZrwaLayout>,
    /// What the set recommends for zones that were not touched for long.
    pub aging: ZoneAging,
    /// How long the set writes the record of zones that a host finishes, once what was written to them is on flash. No die is busy with it.
    pub finish: Nanos,
}

/// What a set recommends of zones, and does to them by itself, as time passes. Time without power does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZoneAging {
    /// A zone that has been active for so long should be finished; 0: never.
    pub finish_after: Nanos,
    /// The set finishes it when it has been active for so long (an excursion); 0: never. No less than `finish_after`.
    pub excursion_after: Nanos,
    /// A zone that has been full for so long should be reset; 0: never.
    pub reset_after: Nanos,
    /// In what time hosts are told to reset it then; 0: they are told nothing. Nothing happens when it has passed.
    pub reset_limit: Nanos,
}

impl ZoneAging {
    /// Whether time changes anything.
    pub(crate) fn is_on(&self) -> bool {
        [self.finish_after, self.excursion_after, self.reset_after].iter().any(|after| after.0 > 0)
    }
}

/// Placement handles: data that is written with one of them shares superblocks with no other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacementConfig {
    /// Placement handles: 1 to [`MAX_HANDLES`]. Each has a superblock of its own open.
    pub handles: u32,
    /// Whether garbage collection, too, keeps the data of each handle by itself (persistently isolated, in
    /// the words of Flexible Data Placement); else it gathers all of a set's (initially isolated).
    pub isolated: bool,
}

/// Most placement handles of a set.
pub const MAX_HANDLES: u32 = 64;

impl Default for PlacementConfig {
    fn default() -> Self {
        PlacementConfig { handles: 1, isolated: false }
    }
}

impl PlacementConfig {
    /// The placement of data; `together` is the percentage of victims whose data goes where the host writes.
    pub(crate) fn placement(&self, together: u32) -> Placement {
        match (together, self.isolated && self.handles > 1) {
            (1.., _) => Placement::Together(together),
            (0, true) => Placement::ByHandle,
            (0, false) => Placement::Mixed,
        }
    }

    /// How many streams a set has, those of hosts and those of collection.
    fn streams(&self, own: &Policies, together: u32) -> Result<(u32, u32), ConfigError> {
        let policy = own.placement(self.placement(together));
        let handles = self.handles as usize;
        let (hosts, relocation) = (policy.host_streams(handles), policy.relocation_streams(handles));
        let range = |what, value: usize, rule| Err(ConfigError::Range { what, value: value as u64, rule });
        let most = MAX_HANDLES as usize;
        if own.placement.is_some() && (handles > 1 || together > 0) {
            let rule = "with a placement policy of its own a set has one handle, and no gc.together";
            return range("placement handles", handles, rule);
        }
        if !(handles..=most).contains(&hosts) {
            return range("host streams", hosts, "1 to 64, and one for each placement handle at least");
        }
        if !(1..=most).contains(&relocation) {
            return range("relocation streams", relocation, "1 to 64 are possible");
        }
        Ok((hosts as u32, relocation as u32))
    }
}

impl ZonesConfig {
    /// Bytes that a zone can hold.
    pub fn capacity(&self, geo: &Geometry) -> u64 {
        let dies = if self.dies == 0 { geo.dies } else { self.dies };
        let pages = u64::from(dies) * u64::from(geo.units_per_block) * u64::from(geo.unit_pages);
        pages * u64::from(PAGE)
    }

    /// Bytes from the begin of a zone to that of the next.
    pub(crate) fn distance(&self, capacity: u64) -> u64 {
        if self.size == 0 { capacity.next_power_of_two() } else { self.size }
    }

    /// How many active zones a volume gets that does not say how many it wants, where so many are left.
    pub(crate) fn share_of(&self, left: u32) -> u32 {
        if self.share == 0 { left } else { self.share.min(left) }
    }

    /// Pages that were written to zones and are not on flash, at most.
    pub fn all_pages(&self) -> u64 {
        let areas = self.zrwa.map_or(0, |zrwa| u64::from(zrwa.max) * u64::from(zrwa.pages));
        if self.active > 0 { u64::from(self.buffer_pages) + areas } else { 0 }
    }

    /// Checks them; returns the pages of their windows and areas.
    fn check(&self, geo: &Geometry, protected: bool) -> Result<u64, ConfigError> {
        let range = |what, value: u32, rule| Err(ConfigError::Range { what, value: value.into(), rule });
        if self.dies > 0 && !geo.dies.is_multiple_of(self.dies) {
            return range("zone.dies", self.dies, "the dies of a zone must divide those of the set");
        }
        if self.active > 0 && self.buffer_pages / self.active < geo.unit_pages {
            let rule = "the zones' buffer must hold a program unit for each active zone";
            return range("zone buffer in pages", self.buffer_pages, rule);
        }
        if self.active > 0
            && self.size > 0
            && (self.size < self.capacity(geo) || !self.size.is_multiple_of(PAGE.into()))
        {
            let rule = "whole pages, and no less than a zone can hold";
            return Err(ConfigError::Range { what: "zone.size", value: self.size, rule });
        }
        if let Some(zrwa) = self.zrwa.filter(|_| self.active > 0) {
            if !protected {
                let rule =
                    "0 without power-loss protection: what is in a Zone Random Write Area must outlive power";
                return range("zone.zrwa", zrwa.max, rule);
            }
            if !(1..=self.active).contains(&zrwa.max) {
                return range("zone.zrwa", zrwa.max, "at most as many zones as can be active, and not 0");
            }
            if zrwa.granularity == 0 || zrwa.pages == 0 || !zrwa.pages.is_multiple_of(zrwa.granularity) {
                let rule = "a multiple of its granularity, and not 0";
                return range("Zone Random Write Area in pages", zrwa.pages, rule);
            }
            let capacity = self.capacity(geo) / u64::from(PAGE);
            if u64::from(zrwa.pages) > capacity || !capacity.is_multiple_of(zrwa.granularity.into()) {
                let rule = "no more than a zone can hold, which must be a multiple of the area's granularity";
                return range("Zone Random Write Area in pages", zrwa.pages, rule);
            }
        }
        let (finish, excursion) = (self.aging.finish_after, self.aging.excursion_after);
        if excursion.0 > 0 && excursion < finish {
            let rule = "no less than the time after which it recommends to finish a zone";
            return Err(ConfigError::Range { what: "zone.excursion_after in ns", value: excursion.0, rule });
        }
        let pages = self.all_pages();
        if pages > u64::from(u32::MAX / 2) {
            return range(
                "zone buffer in pages",
                self.buffer_pages,
                "with all Zone Random Write Areas fewer than 2^31",
            );
        }
        Ok(pages)
    }
}

impl SetConfig {
    /// Logical pages that the set offers.
    pub fn capacity_pages(&self) -> u32 {
        match self {
            SetConfig::Nand { capacity_pages, .. } => *capacity_pages,
            SetConfig::Memory { memory, .. } => memory.pages,
            SetConfig::Disk { capacity_pages, .. } => *capacity_pages,
        }
    }
}

/// Pages of writes that a disk may work on beside its buffer, before the next one waits.
const DISK_PAGES_UNDER_WAY: u64 = 8192;

/// Pages that a disk's buffer of writes touches.
fn disk_buffer_pages(shape: &DiskShape) -> u64 {
    if !shape.write_cache {
        return 0;
    }
    let pages = u128::from(shape.write_buffer) * u128::from(shape.sector_bytes) / u128::from(PAGE);
    u64::try_from(pages).unwrap_or(u64::MAX)
}

impl Config {
    /// Gives each NVM Set on flash a copy of these policies.
    pub fn set_policies(&mut self, own: &Policies) {
        for set in &mut self.sets {
            if let SetConfig::Nand { policies, .. } = set {
                policies.clone_from(own);
            }
        }
    }

    /// NAND sets, which share the write buffer evenly; 1 if there are none.
    pub(crate) fn nand_sets(&self) -> u32 {
        (self.sets.iter().filter(|s| matches!(s, SetConfig::Nand { .. })).count() as u32).max(1)
    }

    /// Pages that are not on the media, at most: those of the write buffer and of the zones.
    pub fn buffered_pages(&self) -> u64 {
        let of_zones = self.sets.iter().map(|set| match set {
            SetConfig::Nand { zones, .. } => zones.all_pages(),
            SetConfig::Memory { .. } => 0,
            // A page with several writes under way has contents for each, and for what is on the platters.
            SetConfig::Disk { shape, .. } => 2 * disk_buffer_pages(shape) + DISK_PAGES_UNDER_WAY,
        });
        u64::from(self.buffer_pages) + of_zones.sum::<u64>()
    }

    fn check_disk(&self, shape: &DiskShape, capacity_pages: u32) -> Result<(), media::ConfigError> {
        shape.config()?;
        let pages = shape.sectors() * u64::from(shape.sector_bytes) / u64::from(PAGE);
        let range = |what, value, rule| Err(media::ConfigError::Range { what, value, rule });
        if shape.write_buffer > 1 << 28 {
            return range("sectors of the write buffer", shape.write_buffer, "at most 2^28");
        }
        if u64::from(capacity_pages) > pages || capacity_pages < GRANULE_PAGES {
            let rule = "at least 1 MiB, and no more than heads, cylinders and sectors make";
            return range("capacity of the disk in pages", capacity_pages.into(), rule);
        }
        Ok(())
    }

    /// The faults of one set.
    pub(crate) fn faults_of(&self, set: usize) -> FaultPlan {
        FaultPlan { seed: self.faults.seed.wrapping_add(set as u64), ..self.faults.clone() }
    }

    /// Checks what the media cannot check themselves.
    ///
    /// # Errors
    /// The first value that cannot be, with what is allowed.
    pub fn check(&self) -> Result<(), ConfigError> {
        let range = |what, value, rule| Err(ConfigError::Range { what, value, rule });
        if self.sets.is_empty() || self.sets.len() > 128 {
            return range("number of NVM Sets", self.sets.len() as u64, "1 to 128 are possible");
        }
        let atomic = self.atomic_pages;
        if !atomic.is_power_of_two() || atomic > 64 {
            return range(
                "atomic write unit in pages",
                atomic.into(),
                "a power of two, at most 64 (256 KiB)",
            );
        }
        let mut saved = u64::from(self.buffer_pages);
        for (i, set) in self.sets.iter().enumerate() {
            match set {
                SetConfig::Nand { nand, capacity_pages, gc, placement, policies, zones } => {
                    nand.check().map_err(|error| ConfigError::Media { set: i as u32 + 1, error })?;
                    let geo = &nand.geometry;
                    gc.check(geo.superblocks)?;
                    if atomic > geo.unit_pages {
                        let rule = "an atomic write must fit into one program unit";
                        return range("atomic write unit in pages", atomic.into(), rule);
                    }
                    if zones.active > 0 && !geo.unit_pages.is_multiple_of(atomic) {
                        let rule = "a program unit of a set with zones must hold whole atomic writes";
                        return range("atomic write unit in pages", atomic.into(), rule);
                    }
                    if !(1..=MAX_HANDLES).contains(&placement.handles) {
                        return range("placement handles", placement.handles.into(), "1 to 64 are possible");
                    }
                    if gc.together > 0 && placement.handles > 1 {
                        let rule = "with gc.together there is one superblock for the host and for collection: 1 is possible";
                        return range("placement handles", placement.handles.into(), rule);
                    }
                    let (hosts, relocation) = placement.streams(policies, gc.together)?;
                    // Else streams with a part of a unit each could fill it.
                    let units = u64::from(hosts) * u64::from(geo.unit_pages.max(atomic));
                    if u64::from(self.buffer_pages / self.nand_sets()) < units && hosts > 1 {
                        let rule = "each NAND set's share of the write buffer must hold a program unit for each of its placement handles or host streams";
                        return range("write buffer in pages", self.buffer_pages.into(), rule);
                    }
                    if self.buffer_pages < geo.unit_pages.max(atomic) {
                        let rule = "the write buffer must hold a program unit at least";
                        return range("write buffer in pages", self.buffer_pages.into(), rule);
                    }
                    saved += zones.check(geo, self.protected)?;
                    // Those that are open, those that collection keeps free and collects ahead, and for each further host stream
                    // one in reserve, as all may need another at the same time.
                    let kept = u64::from(gc.low) + u64::from(gc.ahead);
                    let kept = kept + u64::from(hosts + relocation + hosts - 1);
                    let needed = kept.saturating_mul(u64::from(geo.pages_per_superblock()));
                    let capacity = u64::from(*capacity_pages);
                    let spare = geo.pages().saturating_sub(capacity);
                    if spare < needed || capacity < u64::from(GRANULE_PAGES) {
                        return Err(ConfigError::Spare { set: i as u32 + 1, capacity, spare, needed });
                    }
                }
                SetConfig::Memory { memory, volatile } => {
                    memory.check().map_err(|error| ConfigError::Media { set: i as u32 + 1, error })?;
                    if *volatile {
                        saved += u64::from(memory.pages);
                    }
                }
                SetConfig::Disk { shape, capacity_pages, .. } => {
                    self.check_disk(shape, *capacity_pages)
                        .map_err(|error| ConfigError::Media { set: i as u32 + 1, error })?;
                    if atomic > 1 && !self.protected {
                        let rule = "a disk writes sector by sector, and nothing finishes a write for it: 1 is possible without protection";
                        return range("atomic write unit in pages", atomic.into(), rule);
                    }
                    saved += disk_buffer_pages(shape);
                }
            }
        }
        let needed = saved * u64::from(PAGE);
        if self.protected && needed > self.energy_bytes {
            return Err(ConfigError::Energy { needed, energy: self.energy_bytes });
        }
        Ok(())
    }
}

/// Why a configuration cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// The medium of a set cannot be.
    #[error("NVM Set {set}: {error}")]
    Media {
        /// From 1.
        set: u32,
        /// What is wrong.
        error: media::ConfigError,
    },
    /// A value is out of range.
    #[error("{what} is {value}: {rule}")]
    Range {
        /// Which value.
        what: &'static str,
        /// What it was.
        value: u64,
        /// What is allowed.
        rule: &'static str,
    },
    /// Sets and buffer do not fit into what the capacitors save.
    #[error(
        "write buffer, buffers of zones and DRAM sets need {needed} bytes saved at a power loss, the energy budget saves {energy}: \
         make a DRAM set or a buffer smaller, or the budget larger"
    )]
    Energy {
        /// Bytes to save.
        needed: u64,
        /// Bytes of the budget.
        energy: u64,
    },
    /// Too little spare for the superblocks that are always open or reserved.
    #[error(
        "NVM Set {set}: {capacity} logical pages leave {spare} spare pages; open and reserved superblocks need {needed}: \
         raise the spare or use more, smaller superblocks"
    )]
    Spare {
        /// NVM Set, from 1.
        set: u32,
        /// Logical pages.
        capacity: u64,
        /// Raw minus logical.
        spare: u64,
        /// At least this many.
        needed: u64,
    },
}
