//! What zones do where spare blocks run out.
//!
//! - A failed program takes a block from the set. The pages of it that are not in their places go to the page-mapped part, which needs spare
//!   superblocks for them.
//! - If there is too little spare for that, the zone of the failed program becomes Read Only, where that is enough for the others to go on.
//!   Such a zone never gets other blocks. So it needs no spare for what it holds on bad blocks, and for what would come there.
//! - Where that is not enough, the set can only be read. Its empty zones can hold nothing any more: they go Offline. All others become Read
//!   Only.

use super::zone::ZoneId;
use super::{ZoneContext, Zones};
use crate::answer::Fault;
use crate::context::SetContext;
use crate::flash::Flash;
use crate::storage::Storage;
use crate::zone::{ZoneEvent, ZoneFault, ZoneState};
use media::{LogicalPage, Medium, Nanos};

impl Zones {
    /// The set can only be read from now on: so can its zones, and those that hold nothing are of no use.
    pub(super) fn wear_out<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) {
        for id in self.ids().collect::<Vec<_>>() {
            self.wear(now, id, Fault::ReadOnly, cx);
        }
    }

    /// A program of a zone failed. If the set lacks spare blocks now, and does not if the zone can only be read, it can.
    pub(super) fn save_spare<S: Storage>(&mut self, id: ZoneId, cx: &mut ZoneContext<'_, '_, S>) {
        if cx.shared.is_read_only() {
            return;
        }
        self.tell_spared(cx);
        if !cx.shared.has_spare() && cx.shared.would_have_spare(self.spared_with(Some(id), cx.shared.flash()))
        {
            self.wear(cx.now, id, Fault::Zone(ZoneFault::ReadOnly), cx.set);
            self.tell_spared(cx);
        }
    }

    /// Tells the page-mapped part for how many pages the zones need no spare.
    pub(super) fn tell_spared<S: Storage>(&self, cx: &mut ZoneContext<'_, '_, S>) {
        let spared = self.spared(cx.shared.flash());
        cx.shared.set_spared(spared);
    }

    /// Pages of the set's capacity for which its zones need no spare. None once no zone can be written: then it is over with the set.
    pub fn spared(&self, flash: &Flash) -> u32 {
        self.spared_with(None, flash)
    }

    /// The same, `worn` taken for a zone that can only be read.
    fn spared_with(&self, worn: Option<ZoneId>, flash: &Flash) -> u32 {
        let state = |id: ZoneId| if worn == Some(id) { ZoneState::ReadOnly } else { self.zone(id).state };
        let is_dead = |id| matches!(state(id), ZoneState::ReadOnly | ZoneState::Offline);
        if self.ids().all(is_dead) {
            return 0;
        }
        self.ids().filter(|id| is_dead(*id)).map(|id| self.spared_by(id, flash)).sum()
    }

    /// The same of one zone that cannot be written: all of one that lies nowhere, else what is in its place on bad blocks, or never comes
    /// there.
    fn spared_by(&self, id: ZoneId, flash: &Flash) -> u32 {
        let Some(layout) = self.table(id.volume).map(|table| table.layout) else { return 0 };
        let (pages, admitted, unit_pages) =
            (layout.pages_of_zone(), self.zone(id).admitted, self.striping.unit_pages);
        let Some(plot) = self.zone(id).plot else { return pages - admitted };
        let spared = |unit: u32| {
            let (at, first) = (self.striping.unit(plot, unit).0, unit * unit_pages);
            let in_place = || flash.spare(at.0 * unit_pages).page != LogicalPage::NONE;
            let counts = flash.nand.is_bad(at) && (first >= admitted || in_place());
            if counts { unit_pages.min(pages - first) } else { 0 }
        };
        (0..pages.div_ceil(unit_pages)).map(spared).sum()
    }

    /// A zone is worn out: it can be written no more, and `fault` says so to what waits.
    fn wear<S: Storage>(&mut self, now: Nanos, id: ZoneId, fault: Fault, cx: &mut SetContext<'_, S>) {
        let old = self.zone(id).state;
        let Ok(state) = old.after(ZoneEvent::WearOut) else { return };
        if state == old {
            return;
        }
        self.fail_waiting(now, id, fault, cx);
        self.end_area(id, cx);
        if let Some(table) = self.table_mut(id.volume) {
            table.set_state(id.zone, state);
        }
        self.record(id, cx);
        self.changed.push((id.volume, id.zone));
        if let Some(window) = self.zone(id).window {
            self.make_ready(window);
        }
    }
}
