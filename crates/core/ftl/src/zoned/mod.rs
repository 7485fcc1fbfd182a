//! Zones of a NAND set: written from their begin on, read anywhere, given up as a whole. There is no map: a zone's record says which
//! blocks hold it, and arithmetic says the rest.
//!
//! # How a zone is written
//!
//! - A write is checked against the zone's state and write pointer, which it moves at once. Then its pages come into the zone's
//!   [`Window`](zone::Window), as there is room: every active zone has room for one program unit, and all share the rest.
//! - A full unit is sent to its place. The first one binds a [`Plot`](striping::Plot): a superblock, or some dies of one.
//! - Where a unit cannot be programmed in its place, its pages become *strays*: the page-mapped part of the set takes them under the same
//!   logical pages. This happens where a program fails, a block is bad, or power was lost during a program. It also keeps the begin of
//!   a unit that a host flushes where no capacitor would save it.
//! - A reset gives the plot up. Its written blocks are erased, and the command ends with the last erase.
//!
//! The zones and the page-mapped part stand on one [`Flash`](crate::flash::Flash). A volume of zones owns as much of the set's logical
//! space as its zones can hold, so that there are always enough superblocks for both.

mod admit;
mod aging;
mod area;
mod context;
mod manage;
mod plots;
mod program;
mod read;
mod rebuild;
mod record;
mod recover;
mod striping;
mod wear;
mod zone;

use crate::answer::{SuperblockInfo, SuperblockUse};
use crate::config::{Config, GRANULE_PAGES, PAGE, ZonesConfig};
use crate::flash::Flash;
use crate::storage::{Io, Storage};
use crate::volume::{Volume, VolumeId};
use crate::write::Write;
use crate::zone::{ZoneInfo, ZoneLayout, ZoneState, ZoneSupport, ZrwaLayout};
pub(crate) use context::ZoneContext;
use media::{Geometry, Nanos, Slot, Spare, Unit};
use plots::Plots;
use std::collections::VecDeque;
use striping::{Plot, Striping};
pub(crate) use zone::ZoneId;
use zone::{Window, Zone, ZoneTable};

/// A write that waits for room.
#[derive(Clone, Debug)]
struct Waiting {
    zone: ZoneId,
    write: Write,
    /// Where the write pointer of a zone with a Zone Random Write Area is when it is admitted, in pages.
    pointer: u32,
}

/// A program of the zones.
#[derive(Clone, Copy, Debug)]
struct ZoneOp {
    /// The window that its pages are in; or [`ORPHAN`], or [`UNUSED`].
    window: u16,
    /// Unit of the zone.
    unit: u32,
}

/// [`ZoneOp::window`] of a program whose zone was given up.
const ORPHAN: u16 = u16::MAX;
/// [`ZoneOp::window`] where no program is under way.
const UNUSED: u16 = u16::MAX - 1;
const NO_OP: ZoneOp = ZoneOp { window: UNUSED, unit: 0 };

/// A plot that was given up: its programs end, then its blocks are erased.
#[derive(Clone, Copy, Debug)]
struct Erasing {
    /// The command that waits for it.
    io: Option<Io>,
    plot: Plot,
    /// Programs that have not ended.
    programs: u32,
}

/// A command that finishes zones.
#[derive(Clone, Debug)]
struct Finishing {
    io: Io,
    /// Those of which something is not on flash.
    zones: Vec<ZoneId>,
}

/// The zones of a set.
#[derive(Clone, Debug)]
pub(crate) struct Zones {
    config: ZonesConfig,
    striping: Striping,
    /// Whether capacitors save the windows.
    protected: bool,
    /// Whether spare areas keep versions and slots, and a journal is kept.
    durable: bool,
    /// Pages that are written as a whole or not at all.
    atomic_pages: u32,
    /// Slots of the pages that are being admitted.
    slots: Vec<Slot>,
    /// By volume; `None` for one without zones.
    tables: Vec<Option<ZoneTable>>,
    plots: Plots,
    windows: Vec<Window>,
    free_windows: Vec<u16>,
    /// Pages in the windows, and pages that active zones can still claim of their own.
    used: u32,
    claims: u32,
    /// Pages that windows can have: the buffer, and Zone Random Write Areas of windows.
    pool: u32,
    /// Zone Random Write Areas that no window has.
    free_areas: u32,
    waiting: VecDeque<Waiting>,
    /// Zones of which writes wait.
    waiting_zones: u32,
    /// Whether pages have become free since it was tried last to admit what waits.
    freed: bool,
    /// Whether a write pointer has passed pages of an area since it was tried last to admit what waits.
    committed: bool,
    /// Whether a window may have strays that had no room, or commands that wait for its pages.
    unsettled: bool,
    /// Reused: see [`admit_waiting`](Zones::admit_waiting).
    stuck: Vec<ZoneId>,
    /// Flushes, and how many windows each still waits for.
    flushes: Vec<(Io, u32)>,
    /// Reused: pages and spare areas of a unit that is sent.
    spares: Vec<Spare>,
    /// What waits first does so for a slot, and no event will tell when there is one.
    lacks_slots: bool,
    /// Windows with a unit to send; those whose next unit waits for a die are in `blocked`, with the die.
    ready: VecDeque<u16>,
    blocked: Vec<(u16, u32)>,
    ops: Vec<ZoneOp>,
    free_ops: Vec<u32>,
    erasing: Vec<Erasing>,
    finishing: Vec<Finishing>,
    /// Whether a zone waits for a superblock.
    wants_superblock: bool,
    /// Whether time changes zones.
    ages: bool,
    /// When zones are looked at for their age; never if [`Nanos::MAX`].
    look_at: Nanos,
    /// Zones that the set changed by itself, as time passed or as they wore out.
    changed: Vec<(VolumeId, u32)>,
}

impl Zones {
    /// Without volumes.
    pub fn new(geo: &Geometry, config: &ZonesConfig, drive: &Config) -> Zones {
        let striping = Striping::new(geo, if config.dies == 0 { geo.dies } else { config.dies });
        let ops = if config.active == 0 { 0 } else { geo.dies * crate::flash::DIE_QUEUE as u32 };
        Zones {
            config: *config,
            striping,
            protected: drive.protected,
            durable: drive.durable,
            atomic_pages: drive.atomic_pages,
            slots: Vec::with_capacity(drive.atomic_pages as usize),
            tables: Vec::new(),
            plots: Plots::new(geo.superblocks, &striping),
            windows: Vec::new(),
            free_windows: Vec::new(),
            used: 0,
            claims: 0,
            pool: config.buffer_pages,
            free_areas: config.zrwa.map_or(0, |zrwa| zrwa.max),
            waiting: VecDeque::new(),
            waiting_zones: 0,
            freed: false,
            committed: false,
            unsettled: false,
            stuck: Vec::new(),
            flushes: Vec::new(),
            spares: Vec::new(),
            lacks_slots: false,
            ready: VecDeque::new(),
            blocked: Vec::new(),
            ops: vec![NO_OP; ops as usize],
            free_ops: (0..ops).rev().collect(),
            erasing: Vec::new(),
            finishing: Vec::new(),
            wants_superblock: false,
            ages: config.aging.is_on(),
            look_at: Nanos::MAX,
            changed: Vec::new(),
        }
    }

    /// What zones the set can have; `None` if none.
    pub fn support(&self) -> Option<ZoneSupport> {
        let promised: u32 = self.tables.iter().flatten().map(|table| table.layout.max_active).sum();
        let (capacity, active) = (self.striping.bytes(), self.config.active.saturating_sub(promised));
        (self.config.active > 0).then(|| ZoneSupport {
            capacity,
            size: self.config.distance(capacity),
            active,
            share: self.config.share_of(active),
            zrwa: self.config.zrwa.map(|zrwa| {
                let layouts = self.tables.iter().flatten().filter_map(|table| table.layout.zrwa);
                let promised: u32 = layouts.map(|zrwa| zrwa.max).sum();
                ZrwaLayout { max: zrwa.max.saturating_sub(promised), ..zrwa }
            }),
        })
    }

    /// Makes the zones of a new volume, all empty.
    pub fn create(&mut self, volume: VolumeId, layout: ZoneLayout) {
        let at = usize::from(volume.0);
        if self.tables.len() <= at {
            self.tables.resize(at + 1, None);
        }
        self.tables[at] = Some(ZoneTable::new(layout, self.config.aging));
    }

    /// Gives up the zones of a volume that goes.
    pub fn remove<S: Storage>(&mut self, volume: VolumeId, cx: &mut ZoneContext<'_, '_, S>) {
        for id in self.ids().filter(|id| id.volume == volume).collect::<Vec<_>>() {
            self.empty(None, id, cx);
        }
        self.drop_table(volume);
        self.tell_spared(cx);
    }

    /// Forgets the zones of a volume.
    pub fn drop_table(&mut self, volume: VolumeId) {
        if let Some(table) = self.tables.get_mut(usize::from(volume.0)) {
            *table = None;
        }
    }

    /// The volumes with zones, and their layouts.
    pub fn volumes(&self) -> impl Iterator<Item = (VolumeId, ZoneLayout)> {
        let tables = (0..).zip(&self.tables);
        tables.filter_map(|(volume, table)| Some((VolumeId(volume), table.as_ref()?.layout)))
    }

    /// A zone; `None` if there is none.
    pub fn info(&self, volume: VolumeId, zone: u32) -> Option<ZoneInfo> {
        let zone = self.tables.get(usize::from(volume.0))?.as_ref()?.zones.get(zone as usize)?;
        Some(ZoneInfo {
            state: zone.state,
            written: u64::from(zone.accepted) * u64::from(PAGE),
            extension: zone.extension.clone(),
            zrwa: zone.zrwa,
            finish_recommended: zone.finish_recommended,
            reset_recommended: zone.reset_recommended,
            finished_by_set: zone.finished_by_set,
        })
    }

    /// Adds to superblocks, the first of which has the number `first`, what lies in them of zones.
    pub fn describe_superblocks(&self, first: u32, superblocks: &mut [SuperblockInfo], unit_pages: u32) {
        for (superblock, info) in (first..).zip(superblocks.iter_mut()) {
            if self.plots.holds(superblock) {
                (info.usage, info.valid) = (SuperblockUse::Zones, 0);
            }
        }
        for id in self.ids() {
            let zone = self.zone(id);
            let Some(superblock) = zone.plot.and_then(|plot| plot.superblock.checked_sub(first)) else {
                continue;
            };
            let Some(info) = superblocks.get_mut(superblock as usize) else { continue };
            // What is in the window is not on flash, or may not be.
            let on_flash = zone.window.map_or(zone.admitted, |window| {
                self.windows[usize::from(window)].first_page(unit_pages).min(zone.admitted)
            });
            info.valid = (info.valid + on_flash).min(info.written);
            info.zones += 1;
            info.zone.get_or_insert((id.volume, id.zone));
        }
    }

    /// Bytes of a volume that hold data.
    pub fn written_bytes(&self, volume: VolumeId) -> u64 {
        let table = self.tables.get(usize::from(volume.0)).and_then(Option::as_ref);
        table.map_or(0, |table| table.zones.iter().map(|z| u64::from(z.admitted) * u64::from(PAGE)).sum())
    }

    fn table(&self, volume: VolumeId) -> Option<&ZoneTable> {
        self.tables.get(usize::from(volume.0))?.as_ref()
    }

    fn table_mut(&mut self, volume: VolumeId) -> Option<&mut ZoneTable> {
        self.tables.get_mut(usize::from(volume.0))?.as_mut()
    }

    /// A zone that exists.
    fn zone(&self, id: ZoneId) -> &Zone {
        &self.tables[usize::from(id.volume.0)].as_ref().expect("the volume has zones").zones[id.zone as usize]
    }

    fn zone_mut(&mut self, id: ZoneId) -> &mut Zone {
        let table = self.tables[usize::from(id.volume.0)].as_mut().expect("the volume has zones");
        &mut table.zones[id.zone as usize]
    }

    /// All zones.
    fn ids(&self) -> impl Iterator<Item = ZoneId> {
        let tables = (0..).zip(&self.tables).filter_map(|(volume, table)| Some((volume, table.as_ref()?)));
        tables.flat_map(|(volume, table)| {
            (0..table.layout.zones).map(move |zone| ZoneId { volume: VolumeId(volume), zone })
        })
    }

    /// Does what can be done at `now`: programs, strays, and what waits for room.
    pub fn pump<S: Storage>(&mut self, cx: &mut ZoneContext<'_, '_, S>) {
        loop {
            let sent = self.send(cx);
            let landed = self.land_ended(cx);
            let admitted = self.admit_waiting(cx.now, cx.set);
            if !(sent | landed | admitted) {
                break;
            }
        }
        if cx.shared.is_read_only() {
            self.wear_out(cx.now, cx.set);
        }
        self.end_finishes(cx.now, cx.set);
        cx.shared.want_superblocks(u32::from(self.wants_superblock));
        if self.wants_superblock {
            cx.shared.pump(cx.now, cx.set);
        }
    }

    /// The same, unless a write has changed nothing that could be done.
    #[inline]
    fn pump_if_due<S: Storage>(&mut self, cx: &mut ZoneContext<'_, '_, S>) {
        let nothing = self.ready.is_empty() && !(self.unsettled | self.freed | self.lacks_slots);
        if !nothing {
            self.pump(cx);
        }
    }

    /// Tries again what waits for slots.
    #[inline]
    pub fn retry<S: Storage>(&mut self, cx: &mut ZoneContext<'_, '_, S>) {
        if std::mem::take(&mut self.lacks_slots) {
            self.freed = true;
            self.pump(cx);
        }
    }

    /// Whether any volume has zones, or blocks of theirs are being erased.
    #[inline]
    pub fn are_there(&self) -> bool {
        !(self.tables.is_empty() && self.erasing.is_empty())
    }

    /// Whether a unit lies in a superblock of the zones.
    pub fn holds(&self, unit: Unit) -> bool {
        self.plots.holds(self.striping.plot_of(unit).superblock)
    }

    /// Whether a superblock is one of the zones'.
    pub fn holds_superblock(&self, superblock: u32) -> bool {
        self.plots.holds(superblock)
    }

    /// Pages of all windows.
    pub fn buffer_pages(&self) -> usize {
        self.config.all_pages() as usize
    }

    /// Whether a write waits for a slot.
    pub fn lacks_slots(&self) -> bool {
        self.lacks_slots
    }

    /// What the zones do, for a developer.
    pub fn describe(&self) -> String {
        let windows = self.windows.iter().filter(|window| window.zone.is_some());
        let windows: Vec<String> = windows
            .map(|w| {
                format!(
                    "{:?} settled {} sent {:?} pages {} waiters {}",
                    w.zone,
                    w.settled,
                    w.sent,
                    w.pages.len(),
                    w.waiters.len()
                )
            })
            .collect();
        format!(
            "zones: {} pages in windows, {} claimed, {} writes wait, {} windows ready, {} programs, {} erases, {} superblocks, windows {}",
            self.used,
            self.claims,
            self.waiting.len(),
            self.ready.len() + self.blocked.len(),
            self.ops.len() - self.free_ops.len(),
            self.erasing.len(),
            self.plots.superblocks(),
            windows.join("; ")
        )
    }
}

impl Zones {
    /// Whether what is kept in memory agrees with itself and with the chips. For tests.
    ///
    /// # Errors
    /// What does not agree, in words.
    pub fn check_consistency(&self, flash: &Flash) -> Result<(), String> {
        self.plots.check(flash)?;
        let charged: u32 = self.windows.iter().map(|window| window.charged).sum();
        let claims: u32 = self.windows.iter().map(|window| window.claim.saturating_sub(window.charged)).sum();
        if (charged, claims) != (self.used, self.claims) {
            return Err(format!(
                "{} pages in windows and {} claims are counted, {charged} and {claims} are there",
                self.used, self.claims
            ));
        }
        for (volume, table) in (0..).zip(&self.tables) {
            let Some(table) = table else { continue };
            let open = table.zones.iter().filter(|zone| zone.state.is_open()).count() as u32;
            let active = table.zones.iter().filter(|zone| zone.state.is_active()).count() as u32;
            if (open, active) != (table.open, table.active) {
                return Err(format!("volume {volume}: {open} open zones, {} counted", table.open));
            }
            if open > table.layout.max_open || active > table.layout.max_active {
                return Err(format!("volume {volume}: {open} zones are open, {active} active"));
            }
            let zrwas = table.zones.iter().filter(|zone| zone.zrwa).count() as u32;
            if zrwas != table.zrwas || zrwas > table.layout.zrwa.map_or(0, |zrwa| zrwa.max) {
                return Err(format!("volume {volume}: {zrwas} zones have areas, {} counted", table.zrwas));
            }
        }
        self.check_areas()?;
        self.check_zones()
    }

    fn check_zones(&self) -> Result<(), String> {
        for id in self.ids() {
            let zone = self.zone(id);
            let waiting = self.waiting.iter().filter(|waiting| waiting.zone == id).count() as u32;
            let empty = zone.state == ZoneState::Empty;
            if zone.zrwa && !zone.state.is_active() && waiting == 0 {
                return Err(format!("{id:?} has an area: {zone:?}"));
            }
            if waiting != zone.waiting
                || zone.admitted > zone.accepted
                || (waiting == 0 && zone.admitted != zone.accepted)
                || (empty && (zone.accepted > 0 || zone.plot.is_some() || zone.window.is_some()))
            {
                return Err(format!("{id:?}: {waiting} writes wait for {zone:?}"));
            }
        }
        Ok(())
    }
}

/// The set's logical page of a page of a zone.
fn logical(volume: &Volume, layout: &ZoneLayout, zone: u32, page: u32) -> u32 {
    let granule = zone * layout.granules_of_zone() + page / GRANULE_PAGES;
    volume.granules[granule as usize] * GRANULE_PAGES + page % GRANULE_PAGES
}
