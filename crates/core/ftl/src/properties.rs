//! What an NVM Set is like, for controllers and tools, which do not ask what kind of set it is.

use crate::answer::MediaKind;
use crate::config::{GRANULE_PAGES, GcConfig, PAGE, SetConfig};
use media::disk::shape::{DiskShape, SeekTimes};
use media::memory::Bandwidth;
use media::{Cell, MemoryConfig, MemoryKind, NandConfig, NandTiming, Nanos, Sense};

/// What commands take of a set, in picoseconds of the whole set: how long it, working in parallel as it can, is busy.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SetCost {
    /// An access of a read.
    pub access: u64,
    /// Pages that an access of a read brings, 1 at least.
    pub access_pages: u64,
    /// A page on its way out of the medium.
    pub read_page: u64,
    /// A page that is written, once.
    pub write_page: u64,
    /// How long one page takes that finds the set idle.
    pub latency: Nanos,
}

/// What deterministic windows of Predictable Latency Mode are on a set that collects garbage.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct WindowProperties {
    /// The longest that an access of a read takes.
    pub sense: Nanos,
    /// Pages that are collected ahead for a window.
    pub pages_ahead: u64,
    /// How long it takes to collect them: at most (collected superblocks are as full as the set is when all of its capacity is
    /// used), and at least (they are empty).
    pub recovery: (Nanos, Nanos),
}

/// What an NVM Set is like. A set that is written in place has no erase units: their numbers are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetProperties {
    /// What it is made of.
    pub media: MediaKind,
    /// Bits of a flash cell; none of memory.
    pub cell: Option<Cell>,
    /// Raw pages of the medium.
    pub raw_pages: u64,
    /// Channels to the units.
    pub channels: u32,
    /// Units that work in parallel: dies or banks.
    pub units: u32,
    /// Planes of a unit, which read and program together.
    pub planes: u32,
    /// Superblocks: what collection gives back at a time. Reclaim units of Flexible Data Placement.
    pub superblocks: u32,
    /// Pages of a superblock.
    pub superblock_pages: u32,
    /// Pages of a block, which a die erases at a time.
    pub block_pages: u32,
    /// Pages that are programmed at a time.
    pub program_pages: u32,
    /// Whether collection keeps the data of each placement handle by itself.
    pub isolates_handles: bool,
    /// What commands take of it.
    pub cost: SetCost,
    /// How long it takes to erase all of it; nothing for a set without erase units.
    pub erase_time: Nanos,
    /// How long it takes to write all of it once.
    pub overwrite_time: Nanos,
    /// What deterministic windows are on it; none on a set whose latency collection does not disturb.
    pub window: Option<WindowProperties>,
    /// Revolutions per minute of a disk; 0 of what does not turn.
    pub rpm: u32,
    /// Bytes that a power cut leaves whole if nothing saves what is under way: a sector of a disk; 0 of media that write pages as a whole.
    pub sector_bytes: u32,
}

impl SetProperties {
    /// Of a set that does not exist.
    pub const NONE: SetProperties = SetProperties {
        media: MediaKind::Dram,
        cell: None,
        raw_pages: 0,
        channels: 0,
        units: 0,
        planes: 0,
        superblocks: 0,
        superblock_pages: 0,
        block_pages: 0,
        program_pages: 0,
        isolates_handles: false,
        cost: SetCost { access: 0, access_pages: 1, read_page: 0, write_page: 0, latency: Nanos::ZERO },
        erase_time: Nanos::ZERO,
        overwrite_time: Nanos::ZERO,
        window: None,
        rpm: 0,
        sector_bytes: 0,
    };
}

/// A time that so many units share, in picoseconds.
fn shared(time: Nanos, among: u32) -> u64 {
    time.0 * 1000 / u64::from(among.max(1))
}

/// A page, in a transfer at so many bytes per second.
fn transfer(rate: u64) -> Nanos {
    Nanos::of_transfer(u64::from(PAGE), rate)
}

impl SetConfig {
    /// What the set is like.
    pub fn properties(&self) -> SetProperties {
        match self {
            SetConfig::Nand { nand, capacity_pages, gc, placement, .. } => {
                let geometry = &nand.geometry;
                SetProperties {
                    media: MediaKind::Nand,
                    cell: Some(nand.cell),
                    raw_pages: geometry.pages(),
                    channels: geometry.channels,
                    units: geometry.dies,
                    planes: geometry.planes,
                    superblocks: geometry.superblocks,
                    superblock_pages: geometry.pages_per_superblock(),
                    block_pages: geometry.units_per_block * geometry.unit_pages,
                    program_pages: geometry.unit_pages,
                    isolates_handles: placement.isolated,
                    cost: cost_of_flash(nand),
                    erase_time: erase_time(nand),
                    overwrite_time: overwrite_time(nand),
                    window: Some(window(nand, *capacity_pages, gc)),
                    rpm: 0,
                    sector_bytes: 0,
                }
            }
            SetConfig::Memory { memory, .. } => SetProperties {
                media: match memory.kind {
                    MemoryKind::Dram => MediaKind::Dram,
                    MemoryKind::Pmem => MediaKind::Pmem,
                },
                cell: None,
                raw_pages: memory.pages.into(),
                channels: 1,
                units: memory.banks,
                planes: 1,
                superblocks: 0,
                superblock_pages: 0,
                block_pages: 0,
                program_pages: 0,
                isolates_handles: false,
                cost: cost_of_memory(memory),
                erase_time: Nanos::ZERO,
                overwrite_time: Nanos(
                    memory.write_latency.0.saturating_mul(memory.pages.into())
                        / u64::from(memory.banks.max(1)),
                ),
                window: None,
                rpm: 0,
                sector_bytes: 0,
            },
            SetConfig::Disk { shape, .. } => properties_of_disk(shape),
        }
    }

    /// Takes away the times of its medium: everything ends at once.
    pub fn without_timing(&mut self) {
        match self {
            SetConfig::Nand { nand, zones, .. } => {
                nand.timing = NandTiming::default();
                zones.finish = Nanos::ZERO;
            }
            SetConfig::Memory { memory, .. } => {
                memory.read_latency = Nanos::ZERO;
                memory.write_latency = Nanos::ZERO;
                memory.bytes_per_second = Bandwidth::default();
            }
            SetConfig::Disk { timed, .. } => *timed = false,
        }
    }

    /// Shortens the blocks of flash, so that the set offers just more than `bytes`, or what blocks of `least` programs make. An
    /// erase takes less by as much. Numerator and denominator of the share that is left; `None` if nothing changes.
    pub fn shorten(&mut self, bytes: u64, least: u64) -> Option<(u64, u64)> {
        let SetConfig::Nand { nand, capacity_pages, .. } = self else { return None };
        let before = nand.geometry.units_per_block;
        let pages = u64::from(*capacity_pages);
        let wanted = bytes.div_ceil(u64::from(PAGE)).max(1);
        // As many units as still offer so much.
        let after = (wanted * u64::from(before)).div_ceil(pages.max(1)).max(least);
        let after = u32::try_from(after).ok().filter(|after| *after < before)?;
        let (after, before) = (u64::from(after), u64::from(before));
        nand.geometry.units_per_block = after as u32;
        nand.timing.erase = Nanos(nand.timing.erase.0.saturating_mul(after) / before);
        let granule = u64::from(GRANULE_PAGES);
        *capacity_pages = ((pages * after / before).max(granule) / granule * granule) as u32;
        Some((after, before))
    }
}

fn cost_of_flash(nand: &NandConfig) -> SetCost {
    let (g, t) = (&nand.geometry, &nand.timing);
    let sense = match &t.sense {
        Sense::Same(time) => *time,
        Sense::ByPageType(all) => Nanos(all.iter().map(|t| t.0).sum::<u64>() / all.len().max(1) as u64),
    };
    let bus = transfer(t.channel_bytes_per_second);
    let read_page = shared(bus, g.channels);
    SetCost {
        access: shared(sense, g.dies * g.planes),
        access_pages: u64::from(g.sense_pages.max(1)),
        read_page,
        write_page: shared(t.program, g.dies * g.unit_pages).max(read_page),
        latency: sense + bus,
    }
}

fn cost_of_memory(memory: &MemoryConfig) -> SetCost {
    let (read, write) = match memory.bytes_per_second {
        Bandwidth::Shared(rate) => (rate, rate),
        Bandwidth::Separate { read, write } => (read, write),
    };
    let (read, write) = (transfer(read), transfer(write));
    SetCost {
        access: shared(memory.read_latency, memory.banks),
        access_pages: 1,
        read_page: shared(read, 1),
        write_page: shared(memory.write_latency, memory.banks).max(shared(write, 1)),
        latency: memory.read_latency.max(memory.write_latency) + read.max(write),
    }
}

fn properties_of_disk(shape: &DiskShape) -> SetProperties {
    let raw_pages = shape.sectors() * u64::from(shape.sector_bytes) / u64::from(PAGE);
    let half_turn = 30_000_000_000 / u64::from(shape.rpm.max(1));
    let access = |seek: &SeekTimes| Nanos(seek.average.0 + half_turn + shape.overhead.0);
    // The middle of the disk.
    let page = transfer(shape.sustained_bytes_per_second(shape.zones / 2));
    SetProperties {
        media: MediaKind::Disk,
        raw_pages,
        channels: 1,
        units: 1,
        planes: 1,
        rpm: shape.rpm,
        sector_bytes: shape.sector_bytes,
        cost: SetCost {
            access: shared(access(&shape.read_seek), 1),
            // A request of 1 MiB is one access.
            access_pages: 256,
            read_page: shared(page, 1),
            write_page: shared(Nanos(access(&shape.write_seek).0 / 256), 1).max(shared(page, 1)),
            latency: access(&shape.read_seek) + page,
        },
        overwrite_time: Nanos(page.0.saturating_mul(raw_pages)),
        ..SetProperties::NONE
    }
}

/// The dies work in parallel.
fn erase_time(nand: &NandConfig) -> Nanos {
    Nanos(nand.timing.erase.0.saturating_mul(nand.geometry.superblocks.into()))
}

/// Each block is programmed and erased.
fn overwrite_time(nand: &NandConfig) -> Nanos {
    let block = nand.timing.program.0.saturating_mul(nand.geometry.units_per_block.into());
    Nanos(block.saturating_add(nand.timing.erase.0).saturating_mul(nand.geometry.superblocks.into()))
}

fn window(nand: &NandConfig, capacity_pages: u32, gc: &GcConfig) -> WindowProperties {
    let (geo, timing) = (&nand.geometry, &nand.timing);
    let sense = match &timing.sense {
        Sense::Same(time) => *time,
        Sense::ByPageType(all) => all.iter().copied().max().unwrap_or_default(),
    };
    let rounds = u64::from(geo.dies / (geo.dies / gc.idle_share.max(1)).max(1));
    let erase = rounds.saturating_mul(timing.erase.0);
    let program = u64::from(geo.units_per_block).saturating_mul(timing.program.0);
    let spare = geo.pages().saturating_sub(u64::from(capacity_pages)).max(1);
    let moved = program.saturating_mul(u64::from(capacity_pages)) / spare;
    let ahead = u64::from(gc.ahead);
    let all = |each: u64| Nanos(ahead.saturating_mul(each));
    WindowProperties {
        sense,
        pages_ahead: ahead * u64::from(geo.pages_per_superblock()),
        recovery: (all(erase.saturating_add(moved)), all(erase)),
    }
}
