//! The contract of an NVM Set: what the translation layer asks of each.
//!
//! A set answers what does not concern it with the defaults here. A new kind of set is a type with this trait and a variant of
//! [`Set`](crate::sets::Set). Zones have a contract of their own, [`ZonedSet`](crate::zoned_set::ZonedSet).

use crate::answer::{Answer, Fault, PlacementNote, SetInfo, SetStats, SuperblockInfo, WriteHistory};
use crate::context::{Event, SetContext};
use crate::lost::LostPages;
use crate::storage::{Io, Piece, Storage};
use crate::volume::{Extent, VolumeId};
use crate::write::Write;
use enum_dispatch::enum_dispatch;
use media::{DieTimes, FaultPlan, Nanos, Slot, Spare};
use std::ops::Range;

/// What a power cut leaves of a set beside its medium.
#[derive(Clone, Default, Debug)]
pub(crate) struct AfterCut {
    /// Pages of the write buffer that the capacitors saved.
    pub saved: Vec<Spare>,
    /// Whether completed writes may be lost.
    pub lossy: bool,
}

/// An NVM Set as the translation layer sees it. A page is a logical page of the set, counted from 0. Volumes are made of them.
#[enum_dispatch]
pub(crate) trait NvmSet {
    /// Handle of a page's contents; `None` if it holds nothing. No medium is asked.
    fn slot_of(&self, page: u32) -> Option<Slot>;

    /// How many of these pages hold something.
    fn mapped_pages(&self, pages: Range<u32>) -> u64;

    /// The contents that anything refers to, each as often as it is. Looks at every page: for tests.
    fn references(&self) -> Vec<Slot>;

    /// Reads. `visit` gets each piece of the extent, in order, with its contents, before this returns; if it fails, so does the read. The
    /// answer says when the data are in the controller. Where that is not known yet it comes later through [`SetContext::done`], and
    /// says, too, whether the medium could give the data: the contents are those that `visit` got.
    fn read<S: Storage, V: FnMut(&mut S, Piece, Option<Slot>) -> Result<(), Fault>>(
        &mut self,
        now: Nanos,
        io: Io,
        volume: VolumeId,
        extent: Extent,
        cx: &mut SetContext<'_, S>,
        visit: V,
    ) -> Answer;

    /// Accepts a write. An answer that is to come later comes through [`SetContext::done`].
    fn write<S: Storage>(&mut self, now: Nanos, write: Write, cx: &mut SetContext<'_, S>) -> Answer;

    /// Deallocates `count` pages from `first` on.
    fn trim<S: Storage>(&mut self, now: Nanos, first: u32, count: u32, cx: &mut SetContext<'_, S>);

    /// Brings what was accepted before to the medium. A set without a write buffer has done that.
    fn drain<S: Storage>(&mut self, now: Nanos, _io: Io, _cx: &mut SetContext<'_, S>) -> Answer {
        Answer::At(now)
    }

    /// Gives everything up, and erases what was written.
    fn purge<S: Storage>(&mut self, now: Nanos, io: Io, cx: &mut SetContext<'_, S>) -> Answer;

    /// Asks for the contents of deallocated pages that are `mine` to be erased, where programs under way still refer to them.
    fn scrub<S: Storage, M: Fn(u32) -> bool>(&mut self, _mine: M, _cx: &mut SetContext<'_, S>) {}

    /// Whether something waits for slots, and no event will tell when there is one.
    fn lacks_slots(&self) -> bool;

    /// Tries again what waits for slots.
    fn retry<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>);

    /// An event of its own is due at `now`.
    fn handle<S: Storage>(&mut self, _now: Nanos, _event: Event, _cx: &mut SetContext<'_, S>) {}

    /// Power is lost; `saved` says whether the capacitors do their work. The journal hears what this takes.
    fn power_cut<S: Storage>(&mut self, now: Nanos, saved: bool, cx: &mut SetContext<'_, S>) -> AfterCut;

    /// Power is back: rebuilds everything from the medium and what the capacitors saved. Returns the highest version found.
    fn recover<S: Storage>(&mut self, saved: &[Spare], cx: &mut SetContext<'_, S>) -> u64;

    /// Begins its work after recovery, when all sets have recovered.
    fn resume<S: Storage>(&mut self, _now: Nanos, _cx: &mut SetContext<'_, S>) {}

    /// Brings the pages of `granules` into the state that `history` leaves, without the writes. `version` counts on. Returns false, having
    /// changed nothing that matters, if the set is not blank or too much of it is bad. Leaves out the rest when `go_on` says no.
    fn precondition(
        &mut self,
        granules: &[u32],
        history: WriteHistory,
        version: &mut u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> bool;

    /// Pages that were found to be lost.
    fn lost(&mut self) -> &mut LostPages;

    /// Exact counts of the medium. What hosts read and wrote is counted above.
    fn stats(&self) -> SetStats;

    /// Goes on counting from here: power is back.
    fn restore_stats(&mut self, stats: SetStats);

    /// Its state, with the bytes that it offers and those that no volume has.
    fn info(&self, capacity_bytes: u64, unallocated_bytes: u64) -> SetInfo;

    /// How many of its independent units ([`SetProperties::units`]) work at `now`, as far as it knows that: flash does.
    fn busy_units(&self, _now: Nanos) -> Option<u32> {
        None
    }

    /// For how long each of its units was asked to work since the power came, as far as it knows that: flash does.
    fn unit_times(&self) -> Option<Vec<DieTimes>> {
        None
    }

    /// Some of its superblocks, by their numbers; those beyond the last are left out. A set that is written in place has none.
    fn superblocks(&self, _range: Range<u32>) -> Vec<SuperblockInfo> {
        Vec::new()
    }

    /// The faults that its medium has; what counts down, as far as it has come.
    fn plan(&self) -> &FaultPlan;

    /// The same, to be changed.
    fn plan_mut(&mut self) -> &mut FaultPlan;

    /// Whether a planned power cut has come.
    fn cut_due(&self) -> bool;

    /// Begins to bring what a command for this page needs into the host's cache.
    fn prefetch(&self, _page: u32) {}

    /// The second step, when the first has come.
    fn prefetch_place(&self, _page: u32) {}

    /// Placement handles.
    fn handles(&self) -> usize {
        1
    }

    /// Bytes of a whole reclaim unit, and those that can still be written to the present one of a handle. `None` without them.
    fn reclaim_unit(&self, _handle: usize) -> Option<(u64, u64)> {
        None
    }

    /// A handle goes on with an empty reclaim unit. Returns the bytes that the one before had room for.
    fn renew<S: Storage>(&mut self, _now: Nanos, _handle: usize, _cx: &mut SetContext<'_, S>) -> u64 {
        0
    }

    /// Whether it collects more than it needs now, for a time without collection.
    fn collect_ahead<S: Storage>(&mut self, _now: Nanos, _on: bool, _cx: &mut SetContext<'_, S>) {}

    /// Holds collection back, or lets it go on.
    fn pause_gc<S: Storage>(&mut self, _now: Nanos, _paused: bool, _cx: &mut SetContext<'_, S>) {}

    /// Whether collection is held back.
    fn is_gc_paused(&self) -> bool {
        false
    }

    /// Pages that can be written before it has to collect; 0 if it never has to.
    fn room_without_collection(&self) -> u64 {
        0
    }

    /// Whether notes of reclaim units are taken.
    fn take_notes(&mut self, _wanted: bool) {}

    /// What was noted since the last time, oldest first.
    fn notes(&mut self) -> Vec<PlacementNote> {
        Vec::new()
    }

    /// What it is doing, in words for a developer.
    fn describe(&self) -> String {
        String::from("written in place")
    }

    /// Whether what it keeps in memory agrees with itself and with its medium. Looks at every page: for tests.
    ///
    /// # Errors
    /// What does not agree, in words.
    fn audit(&self) -> Result<(), String> {
        Ok(())
    }
}
