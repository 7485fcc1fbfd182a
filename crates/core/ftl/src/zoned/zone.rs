//! One zone, and the window of it that is not on flash yet.

use super::striping::Plot;
use crate::config::PAGE;
use crate::config::ZoneAging;
use crate::storage::Io;
use crate::volume::VolumeId;
use crate::zone::{ZoneFault, ZoneLayout, ZoneState};
use media::{Nanos, Slot};
use std::collections::VecDeque;

/// Which zone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ZoneId {
    pub volume: VolumeId,
    pub zone: u32,
}

/// A zone's record.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    pub state: ZoneState,
    /// The write pointer, in pages from the begin: where the next write goes.
    pub accepted: u32,
    /// Pages that are in the window or on flash. Fewer than `accepted` where writes wait for room.
    pub admitted: u32,
    /// Writes that wait for room.
    pub waiting: u32,
    /// Where it lies on flash; none before its first unit is programmed.
    pub plot: Option<Plot>,
    /// The window, if it has one.
    pub window: Option<u16>,
    /// Whether some of its pages may lie in the page-mapped part of the set.
    pub strays: bool,
    /// When it was opened by a write, among the zones of its volume: the drive closes the oldest first.
    pub opened: u64,
    /// Units from its begin that the record of the zone vouches for.
    pub floor: u32,
    /// The host's descriptor extension; empty if none is set.
    pub extension: Box<[u8]>,
    /// Whether it has a Zone Random Write Area.
    pub zrwa: bool,
    /// When it became active, or full.
    pub since: Nanos,
    /// What the set recommends, or did by itself.
    pub finish_recommended: bool,
    pub reset_recommended: bool,
    pub finished_by_set: bool,
    /// The write pointer, in pages, that the record of a zone with such an area vouches for.
    pub committed: u32,
}

impl Zone {
    pub fn empty() -> Zone {
        Zone {
            state: ZoneState::Empty,
            accepted: 0,
            admitted: 0,
            waiting: 0,
            plot: None,
            window: None,
            strays: false,
            opened: 0,
            floor: 0,
            extension: Box::default(),
            zrwa: false,
            committed: 0,
            since: Nanos::ZERO,
            finish_recommended: false,
            reset_recommended: false,
            finished_by_set: false,
        }
    }
}

/// The zones of a volume.
#[derive(Clone, Debug)]
pub(super) struct ZoneTable {
    pub layout: ZoneLayout,
    pub zones: Vec<Zone>,
    pub open: u32,
    pub active: u32,
    /// Zones with a Zone Random Write Area.
    pub zrwas: u32,
    /// How many times a write opened a zone.
    pub opened: u64,
    /// The time of what changes states now.
    pub now: Nanos,
    /// When the next zone may come of age, and what makes it so.
    pub next_age: Nanos,
    pub aging: ZoneAging,
}

impl ZoneTable {
    pub fn new(layout: ZoneLayout, aging: ZoneAging) -> ZoneTable {
        let zones = vec![Zone::empty(); layout.zones as usize];
        ZoneTable {
            layout,
            zones,
            open: 0,
            active: 0,
            zrwas: 0,
            opened: 0,
            now: Nanos::ZERO,
            next_age: Nanos::MAX,
            aging,
        }
    }

    /// Sets the state of a zone, and counts what it takes.
    #[inline]
    pub fn set_state(&mut self, zone: u32, state: ZoneState) {
        let old = std::mem::replace(&mut self.zones[zone as usize].state, state);
        self.open = self.open + u32::from(state.is_open()) - u32::from(old.is_open());
        self.active = self.active + u32::from(state.is_active()) - u32::from(old.is_active());
        if state != old && self.aging.is_on() {
            self.begins_anew(zone, old);
        }
    }

    /// A zone may have become active, or full, or neither: then its age begins anew.
    #[cold]
    fn begins_anew(&mut self, zone: u32, old: ZoneState) {
        let now = self.now;
        let zone = &mut self.zones[zone as usize];
        let kind = |state: ZoneState| (state.is_active(), state == ZoneState::Full);
        if kind(zone.state) == kind(old) {
            return;
        }
        zone.since = now;
        (zone.finish_recommended, zone.reset_recommended) = (false, false);
        zone.finished_by_set &= zone.state == ZoneState::Full;
        let next = zone.next_age(&self.aging);
        self.next_age = self.next_age.min(next);
    }

    /// Gives a zone a Zone Random Write Area, or takes it.
    pub fn set_zrwa(&mut self, zone: u32, zrwa: bool) {
        let old = std::mem::replace(&mut self.zones[zone as usize].zrwa, zrwa);
        self.zrwas = self.zrwas + u32::from(zrwa) - u32::from(old);
    }

    /// Takes what a zone needs to go to a state by a write: the drive closes another one for it.
    #[inline]
    pub fn write_to(&mut self, zone: u32, next: ZoneState) -> Result<(), ZoneFault> {
        let state = self.zones[zone as usize].state;
        if !state.is_active() && self.active >= self.layout.max_active {
            return Err(ZoneFault::TooManyActive);
        }
        if !state.is_open() {
            if self.open >= self.layout.max_open {
                let closed = self.closable().ok_or(ZoneFault::TooManyOpen)?;
                self.set_state(closed, ZoneState::Closed);
            }
            self.opened += 1;
            self.zones[zone as usize].opened = self.opened;
        }
        self.set_state(zone, next);
        Ok(())
    }

    /// The state of a zone as it outlives power. A zone that is full because it is written to its end is full only if that end is there.
    pub fn lasting_state(&self, zone: u32) -> ZoneState {
        let Zone { state, accepted, .. } = self.zones[zone as usize];
        let is_filled = u64::from(accepted) * u64::from(PAGE) == self.layout.capacity;
        if state == ZoneState::Full && is_filled { ZoneState::Closed } else { state }
    }

    /// The zone that the drive closes to open another one: the one that a write opened longest ago.
    pub fn closable(&self) -> Option<u32> {
        let implicit = (0..).zip(&self.zones).filter(|(_, z)| z.state == ZoneState::ImplicitlyOpened);
        implicit.min_by_key(|(_, z)| z.opened).map(|(zone, _)| zone)
    }
}

/// A page of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowPage {
    /// [`Slot::NONE`] in a hole.
    pub slot: Slot,
    /// 0 in a hole that the write pointer has not passed.
    pub version: u64,
    /// Whether it was never written: it reads as zeros, and takes no memory.
    pub is_hole: bool,
}

/// A page of a Zone Random Write Area that was not written yet.
pub(super) const HOLE: WindowPage = WindowPage { slot: Slot::NONE, version: 0, is_hole: true };

/// What became of a unit that has left the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sent {
    /// It is being programmed.
    Programming,
    /// It is on flash.
    Landed,
    /// It cannot be programmed in its place: its pages go to the page-mapped part of the set as soon as there is room.
    Stray,
}

/// The part of a zone that is not on flash: pages in their order, and what became of the units they belong to.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    pub zone: Option<ZoneId>,
    /// Units before the window: they are on flash, or in the page-mapped part.
    pub settled: u32,
    /// Units from `settled` on that were sent.
    pub sent: VecDeque<Sent>,
    /// How many of them are [`Sent::Stray`].
    pub strays: u32,
    /// Pages from the begin of unit `settled` on.
    pub pages: VecDeque<WindowPage>,
    /// How many of them, at their end, are in the Zone Random Write Area: the write pointer has not passed them.
    pub loose: u32,
    /// Pages that count against the pool: those that are no holes.
    pub charged: u32,
    /// Pages that are the window's own: a unit, and a Zone Random Write Area if it took memory for one.
    pub claim: u32,
    /// Commands that wait until so many pages of the zone are settled, in the order of their pages.
    pub waiters: VecDeque<(Io, u32)>,
    /// Pages of the zone that are durable: the last of them are in the page-mapped part of the set, too, for a host that flushed.
    pub strayed: u32,
    /// Whether it is in the list of windows with something to send.
    pub ready: bool,
}

impl Window {
    /// The first page of the zone in it.
    #[inline]
    pub fn first_page(&self, unit_pages: u32) -> u32 {
        self.settled * unit_pages
    }

    /// The next unit to be sent.
    #[inline]
    pub fn next_unit(&self) -> u32 {
        self.settled + self.sent.len() as u32
    }

    /// Pages that were not sent.
    #[inline]
    pub fn unsent(&self, unit_pages: u32) -> u32 {
        self.ordered().saturating_sub(self.sent.len() as u32 * unit_pages)
    }

    /// Pages that the write pointer has passed.
    #[inline]
    pub fn ordered(&self) -> u32 {
        self.pages.len() as u32 - self.loose
    }

    /// A page of the zone, if it is in the window.
    #[inline]
    pub fn page(&self, page: u32, unit_pages: u32) -> Option<&WindowPage> {
        self.pages.get(page.checked_sub(self.first_page(unit_pages))? as usize)
    }

    /// Empties it for another zone.
    pub fn clear(&mut self) {
        self.zone = None;
        self.settled = 0;
        self.sent.clear();
        self.strays = 0;
        self.pages.clear();
        self.loose = 0;
        self.charged = 0;
        self.claim = 0;
        self.waiters.clear();
        self.strayed = 0;
        self.ready = false;
    }
}
