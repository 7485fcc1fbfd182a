//! The translation layer of a drive: its volumes over its NVM Sets, its queue of events, and what is done.
//!
//! Requests come in here, are checked against their volume, and go to the set that the volume lies on.

/// Borrows the parts that every call of a set needs.
macro_rules! context {
    ($ftl:expr, $storage:expr) => {
        &mut $crate::context::SetContext {
            storage: $storage,
            events: &mut $ftl.events,
            volumes: &mut $ftl.volumes,
            done: &mut $ftl.done,
            version: &mut $ftl.version,
        }
    };
}

mod compare;
mod flush;
mod lost;
pub(crate) mod persist;
#[cfg(test)]
mod tests;
mod zones;

use crate::answer::{
    Answer, CompletedIo, Fault, PageState, PlacementNote, STEP_EMPTY_FACTOR, STEP_MAPPED_PAGES, SetInfo,
    SetStats, StepDone, SuperblockInfo, WriteHistory,
};
use crate::broadcast::BroadcastCommands;
use crate::compare::matches;
use crate::config::{Config, ConfigError, GRANULE_PAGES, PAGE, SetConfig};
use crate::context::EventQueue;
use crate::disk::DiskSet;
use crate::lost::LOST;
use crate::memory::MemorySet;
use crate::nand_set::NandSet;
use crate::page_mapped::PageMappedSet;
use crate::set::NvmSet;
use crate::sets::Set;
use crate::storage::{Io, Piece, Record, Section, Storage};
use crate::volume::{Extent, SetId, Volume, VolumeId, VolumeStats, Volumes};
use crate::write::Write;
use crate::zoned_set::ZonedSet;
use media::{DieTimes, FaultPlan, Faulty, MemoryConfig, NandConfig, Nanos, Slot, Spare};
use std::ops::Range;

/// The media are durable if the drive is.
fn nand_config(nand: &NandConfig, config: &Config) -> NandConfig {
    NandConfig { durable: config.durable, ..nand.clone() }
}

fn memory_config(memory: &MemoryConfig, config: &Config) -> MemoryConfig {
    MemoryConfig { durable: config.durable, ..memory.clone() }
}

/// Counts the pages of a volume that hold data, by looking at each.
fn mapped_pages(sets: &[Set], volume: &Volume) -> u64 {
    let set = &sets[usize::from(volume.set.0)];
    volume.granules.iter().map(|g| set.mapped_pages(g * GRANULE_PAGES..(g + 1) * GRANULE_PAGES)).sum()
}

/// Bytes that hosts read and wrote.
#[derive(Clone, Copy, Default, Debug)]
struct HostBytes {
    read: u64,
    written: u64,
}

/// The translation layer of a drive.
#[derive(Clone)]
pub struct Ftl {
    config: Config,
    sets: Vec<Set>,
    /// What hosts read of each set and wrote to it.
    host_bytes: Vec<HostBytes>,
    volumes: Volumes,
    events: EventQueue,
    done: Vec<CompletedIo>,
    version: u64,
    /// Commands that several sets answer.
    broadcasts: BroadcastCommands,
    /// What the capacitors saved of each set's write buffer, between a power cut and recovery.
    saved: Option<Vec<Vec<Spare>>>,
}

impl Ftl {
    /// A new drive: nothing is mapped, nothing worn.
    ///
    /// # Errors
    /// If the configuration cannot be.
    pub fn new(config: Config) -> Result<Ftl, ConfigError> {
        let media = |set: usize| move |error| ConfigError::Media { set: set as u32 + 1, error };
        let mut ftl = Ftl::assemble(
            config,
            |i, nand, plan| Ok(Faulty::new(media::Nand::new(nand).map_err(media(i))?, plan)),
            |i, memory, plan| Ok(Faulty::new(media::Memory::new(memory).map_err(media(i))?, plan)),
        )?;
        for set in &mut ftl.sets {
            if let Set::Nand(set) = set {
                set.mapped.start_blank();
            }
        }
        Ok(ftl)
    }

    /// Around media with their indices. Those of NAND have no map yet, and their superblocks are not sorted.
    fn assemble<E: From<ConfigError>>(
        config: Config,
        mut nand_of: impl FnMut(usize, NandConfig, FaultPlan) -> Result<Faulty<media::Nand>, E>,
        mut memory_of: impl FnMut(usize, MemoryConfig, FaultPlan) -> Result<Faulty<media::Memory>, E>,
    ) -> Result<Ftl, E> {
        config.check()?;
        let mut sets = Vec::new();
        for (i, set) in config.sets.iter().enumerate() {
            let id = SetId(i as u8);
            // Each set draws its own faults.
            let plan = config.faults_of(i);
            sets.push(match set {
                SetConfig::Nand { nand, capacity_pages, gc, placement, policies, zones } => {
                    let nand = nand_of(i, nand_config(nand, &config), plan)?;
                    let (gc, placement, own) = (gc.clone(), *placement, policies.clone());
                    let mapped = PageMappedSet::new(id, nand, *capacity_pages, gc, placement, own, &config);
                    NandSet::new(mapped, zones, &config).into()
                }
                SetConfig::Memory { memory, volatile } => {
                    let memory = memory_of(i, memory_config(memory, &config), plan)?;
                    MemorySet::new(id, memory, config.durable, *volatile, config.atomic_pages).into()
                }
                SetConfig::Disk { shape, capacity_pages, timed } => {
                    DiskSet::new(id, shape, *capacity_pages, *timed, config.durable, plan)
                        .map_err(|error| ConfigError::Media { set: i as u32 + 1, error: error.into() })?
                        .into()
                }
            });
        }
        let pages: Vec<u32> = config.sets.iter().map(SetConfig::capacity_pages).collect();
        Ok(Ftl {
            volumes: Volumes::new(&pages),
            host_bytes: vec![HostBytes::default(); sets.len()],
            config,
            sets,
            events: EventQueue::default(),
            done: Vec::with_capacity(1024),
            version: 0,
            broadcasts: BroadcastCommands::default(),
            saved: None,
        })
    }

    /// What it was built from.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How many NVM Sets there are.
    pub fn set_count(&self) -> usize {
        self.sets.len()
    }

    /// Reserves `bytes` of a set, in granules of 1 MiB.
    ///
    /// # Errors
    /// [`Fault::NoSpace`] if less is unallocated; [`Fault::OutOfRange`] if there is no such set.
    pub fn create(&mut self, set: SetId, bytes: u64, storage: &mut impl Storage) -> Result<VolumeId, Fault> {
        if usize::from(set.0) >= self.sets.len() {
            return Err(Fault::OutOfRange);
        }
        let volume = self.volumes.create(set, bytes, None).ok_or(Fault::NoSpace)?;
        self.record_volumes(storage);
        Ok(volume)
    }

    /// Deallocates everything in a volume and gives its granules back.
    pub fn delete(&mut self, now: Nanos, volume: VolumeId, storage: &mut impl Storage) {
        self.advance(now, storage);
        let Some(v) = self.volumes.get(volume).cloned() else { return };
        if v.zones.is_some()
            && let Some(zones) = self.sets[usize::from(v.set.0)].zoned_mut()
        {
            zones.remove(now, volume, context!(self, storage));
        }
        // What was given up before needs no look at each page.
        for granule in v.granules.iter().filter(|_| v.zones.is_some() || v.mapped > 0) {
            self.trim_pages(now, v.set, granule * GRANULE_PAGES, GRANULE_PAGES, storage);
        }
        self.volumes.remove(volume);
        self.record_volumes(storage);
    }

    /// What a page of a volume holds, counted from its begin; `None` if nothing, or if there is no such page. No medium
    /// is asked.
    pub fn page_state(&self, volume: VolumeId, page: u64) -> Option<PageState> {
        let (id, volume) = (volume, self.volumes.get(volume).filter(|v| page < v.bytes / u64::from(PAGE))?);
        let set = &self.sets[usize::from(volume.set.0)];
        let slot = match volume.zones {
            Some(_) => set.zoned()?.slot_of_zone(id, volume, page)?,
            None => set.slot_of(volume.page(page))?,
        };
        Some(if slot == LOST { PageState::Lost } else { PageState::Held(slot) })
    }

    /// Bytes reserved for a volume.
    pub fn reserved_bytes(&self, volume: VolumeId) -> u64 {
        let granules = self.volumes.get(volume).map_or(0, |v| v.granules.len());
        granules as u64 * u64::from(GRANULE_PAGES) * u64::from(PAGE)
    }

    /// Bytes of a volume that hold data.
    pub fn allocated_bytes(&self, volume: VolumeId) -> u64 {
        let Some(v) = self.volumes.get(volume) else { return 0 };
        if v.zones.is_some() {
            let zones = self.sets[usize::from(v.set.0)].zoned();
            return zones.map_or(0, |zones| zones.written_bytes(volume));
        }
        debug_assert_eq!(v.mapped, mapped_pages(&self.sets, v));
        v.mapped * u64::from(PAGE)
    }

    /// Volumes that exist, with their set and size.
    pub fn volumes(&self) -> impl Iterator<Item = (VolumeId, SetId, u64)> {
        self.volumes.iter().map(|(id, v)| (id, v.set, v.bytes))
    }

    /// Begins to bring what a command that starts at this byte will need into the host's cache. Worth it where
    /// the next command is known while one is executed: the time of most goes into one miss in the map.
    #[inline]
    pub fn prefetch(&self, volume: VolumeId, start: u64) {
        let Some(volume) = self.volumes.get(volume).filter(|v| start < v.bytes && v.zones.is_none()) else {
            return;
        };
        self.sets[usize::from(volume.set.0)].prefetch(volume.page(start / u64::from(PAGE)));
    }

    /// The second step, where several commands are known ahead: when what [`prefetch`](Ftl::prefetch) asked for has
    /// come, it tells what is needed next.
    #[inline]
    pub fn prefetch_place(&self, volume: VolumeId, start: u64) {
        let Some(volume) = self.volumes.get(volume).filter(|v| start < v.bytes && v.zones.is_none()) else {
            return;
        };
        self.sets[usize::from(volume.set.0)].prefetch_place(volume.page(start / u64::from(PAGE)));
    }

    /// Reads; the answer says when the data is in the controller. What was never written reads as zeros. The storage has loaded
    /// all contents when this returns, also where the answer comes later. It fails if the extent is outside the volume, or data is lost.
    pub fn read<S: Storage>(
        &mut self,
        now: Nanos,
        io: Io,
        volume: VolumeId,
        extent: Extent,
        storage: &mut S,
    ) -> Answer {
        self.visit(now, io, volume, extent, storage, |storage: &mut S, piece, slot: Option<Slot>| {
            storage.load(io, piece, slot).map_err(Fault::from)
        })
    }

    /// Compares the host's buffer with what is stored; timed as a read. It fails as [`read`](Ftl::read) does, and with
    /// [`Fault::Mismatch`].
    pub fn compare<S: Storage>(
        &mut self,
        now: Nanos,
        io: Io,
        volume: VolumeId,
        extent: Extent,
        storage: &mut S,
    ) -> Answer {
        self.visit(now, io, volume, extent, storage, matches(io))
    }

    /// Reads without giving the data to anyone; the storage checks the contents. It fails as [`read`](Ftl::read) does.
    pub fn verify<S: Storage>(
        &mut self,
        now: Nanos,
        io: Io,
        volume: VolumeId,
        extent: Extent,
        storage: &mut S,
    ) -> Answer {
        self.visit(now, io, volume, extent, storage, |storage: &mut S, _, slot: Option<Slot>| match slot {
            Some(slot) => storage.verify(io, slot).map_err(Fault::from),
            None => Ok(()),
        })
    }

    /// Reads the medium, and nothing of contents. It fails as [`read`](Ftl::read) does, without errors of the storage.
    pub fn read_medium<S: Storage>(
        &mut self,
        now: Nanos,
        io: Io,
        volume: VolumeId,
        extent: Extent,
        storage: &mut S,
    ) -> Answer {
        self.visit(now, io, volume, extent, storage, |_: &mut S, _, _| Ok(()))
    }

    #[inline]
    fn visit<S: Storage>(
        &mut self,
        now: Nanos,
        io: Io,
        volume: VolumeId,
        extent: Extent,
        storage: &mut S,
        visit: impl FnMut(&mut S, Piece, Option<Slot>) -> Result<(), Fault>,
    ) -> Answer {
        self.advance(now, storage);
        let end = extent.start.saturating_add(extent.bytes.into());
        let (set, zoned) = match self.check(volume, end, HostBytes { read: extent.bytes.into(), written: 0 })
        {
            Ok(found) => found,
            Err(fault) => return Answer::Failed(fault),
        };
        let set = &mut self.sets[usize::from(set.0)];
        match (zoned, set.zoned_mut()) {
            (true, Some(zones)) => zones.read_zones(now, volume, extent, context!(self, storage), visit),
            (true, None) => Answer::Failed(Fault::OutOfRange),
            (false, _) => set.read(now, io, volume, extent, context!(self, storage), visit),
        }
    }

    /// The set of a volume that bytes up to `end` lie in, and whether the volume has zones. What the host asks for is counted, also if it
    /// fails later.
    #[inline]
    fn check(&mut self, volume: VolumeId, end: u64, asked: HostBytes) -> Result<(SetId, bool), Fault> {
        let v = self.volumes.get_mut(volume).filter(|v| end <= v.bytes).ok_or(Fault::OutOfRange)?;
        let (set, zoned) = (v.set, v.zones.is_some());
        v.stats.host_read_bytes += asked.read;
        v.stats.host_written_bytes += asked.written;
        let all = &mut self.host_bytes[usize::from(set.0)];
        all.read += asked.read;
        all.written += asked.written;
        Ok((set, zoned))
    }

    /// A set that can only be read takes nothing: what was asked for does not count.
    #[cold]
    fn uncount(&mut self, volume: VolumeId, set: SetId, asked: HostBytes) {
        if let Some(v) = self.volumes.get_mut(volume) {
            v.stats.host_read_bytes -= asked.read;
            v.stats.host_written_bytes -= asked.written;
        }
        let all = &mut self.host_bytes[usize::from(set.0)];
        all.read -= asked.read;
        all.written -= asked.written;
    }

    /// Writes. The answer comes when all of it is accepted; when [`durable`](Write::durable) data is safe from a power cut.
    ///
    /// It fails if the write is outside its volume, or compares and does not lie within an atomic group of a volume without zones.
    pub fn write(&mut self, now: Nanos, write: Write, storage: &mut impl Storage) -> Answer {
        assert!(write.start <= write.end, "a write of volume {} ends before it starts", write.volume.0);
        if let Some(fault) = self.compare_fault(&write) {
            return Answer::Failed(fault);
        }
        self.advance(now, storage);
        let (volume, bytes) = (write.volume, write.bytes());
        // What is compared is read.
        let asked = HostBytes { read: if write.compare.is_some() { bytes } else { 0 }, written: bytes };
        let (set, zoned) = match self.check(volume, write.end, asked) {
            Ok(found) => found,
            Err(fault) => return Answer::Failed(fault),
        };
        let of_volume = &mut self.sets[usize::from(set.0)];
        let answer = match (zoned, of_volume.zoned_mut()) {
            (true, Some(zones)) => zones.write_zone(now, write, context!(self, storage)),
            (true, None) => Answer::Failed(Fault::OutOfRange),
            (false, _) => of_volume.write(now, write, context!(self, storage)),
        };
        if matches!(answer, Answer::Failed(Fault::ReadOnly | Fault::Zone(_))) {
            self.uncount(volume, set, asked);
        }
        answer
    }

    /// How many placement handles a set has: 1 if it does not keep data apart.
    pub fn handles(&self, set: SetId) -> usize {
        self.set(set).map_or(1, NvmSet::handles)
    }

    /// The reclaim unit of a placement handle: bytes of a whole one, and bytes that can still be written to the
    /// present one. `None` if there is no such handle or the set is written in place.
    pub fn reclaim_unit(&self, set: SetId, handle: u8) -> Option<(u64, u64)> {
        self.set(set)?.reclaim_unit(handle.into())
    }

    /// A placement handle goes on with an empty reclaim unit. Returns the bytes that could still have been written to
    /// the one before; 0 also if there is no such handle.
    pub fn renew_handle(&mut self, now: Nanos, set: SetId, handle: u8, storage: &mut impl Storage) -> u64 {
        self.advance(now, storage);
        match self.sets.get_mut(usize::from(set.0)) {
            Some(set) => set.renew(now, handle.into(), context!(self, storage)),
            None => 0,
        }
    }

    /// Whether a NAND set keeps more superblocks free than it needs, [`GcConfig::ahead`](crate::GcConfig::ahead), for a time without collection.
    pub fn collect_ahead(&mut self, now: Nanos, set: SetId, on: bool, storage: &mut impl Storage) {
        self.advance(now, storage);
        if let Some(set) = self.sets.get_mut(usize::from(set.0)) {
            set.collect_ahead(now, on, context!(self, storage));
        }
    }

    /// Holds back collection, wear levelling and erases of a NAND set, or lets them go on. They go on by themselves when
    /// there is nothing else left to write to: see [`is_gc_paused`](Ftl::is_gc_paused).
    pub fn pause_gc(&mut self, now: Nanos, set: SetId, paused: bool, storage: &mut impl Storage) {
        self.advance(now, storage);
        if let Some(set) = self.sets.get_mut(usize::from(set.0)) {
            set.pause_gc(now, paused, context!(self, storage));
        }
    }

    /// Whether collection of a set is held back.
    pub fn is_gc_paused(&self, set: SetId) -> bool {
        self.set(set).is_some_and(NvmSet::is_gc_paused)
    }

    /// Pages that can be written to a NAND set before it has to collect; 0 of others.
    pub fn room_without_collection(&self, set: SetId) -> u64 {
        self.set(set).map_or(0, NvmSet::room_without_collection)
    }

    /// Whether a set notes what happens to reclaim units without the host's asking.
    pub fn note_placement(&mut self, set: SetId, wanted: bool) {
        if let Some(set) = self.sets.get_mut(usize::from(set.0)) {
            set.take_notes(wanted);
        }
    }

    /// Takes what a set has noted since the last time, oldest first.
    pub fn placement_notes(&mut self, set: SetId) -> Vec<PlacementNote> {
        self.sets.get_mut(usize::from(set.0)).map_or_else(Vec::new, NvmSet::notes)
    }

    /// Deallocates the pages that lie wholly in the extent; they read as zeros from now on.
    ///
    /// # Errors
    /// If the extent is outside the volume.
    pub fn trim(
        &mut self,
        now: Nanos,
        volume: VolumeId,
        start: u64,
        bytes: u64,
        storage: &mut impl Storage,
    ) -> Result<Nanos, Fault> {
        self.trim_within(now, volume, start, bytes, u64::MAX, storage).map(|_| now)
    }

    /// The same, as far as one step of the drive may go: at most [`STEP_MAPPED_PAGES`] that hold something, or as many times
    /// [`STEP_EMPTY_FACTOR`] that hold nothing, and less than a granule more. Another call goes on behind what was done.
    ///
    /// # Errors
    /// If the extent is outside the volume.
    pub fn trim_step(
        &mut self,
        now: Nanos,
        volume: VolumeId,
        start: u64,
        bytes: u64,
        storage: &mut impl Storage,
    ) -> Result<StepDone, Fault> {
        self.trim_within(now, volume, start, bytes, STEP_MAPPED_PAGES * STEP_EMPTY_FACTOR, storage)
    }

    /// Deallocates until so much work was done: 1 for a page that holds nothing, [`STEP_EMPTY_FACTOR`] more for another.
    fn trim_within(
        &mut self,
        now: Nanos,
        volume: VolumeId,
        start: u64,
        bytes: u64,
        work: u64,
        storage: &mut impl Storage,
    ) -> Result<StepDone, Fault> {
        self.advance(now, storage);
        let v = self.volumes.get_mut(volume).ok_or(Fault::OutOfRange)?;
        let end = start.checked_add(bytes).filter(|&end| end <= v.bytes).ok_or(Fault::OutOfRange)?;
        let page_bytes = u64::from(PAGE);
        let (mut page, mut stop) = (start.div_ceil(page_bytes), end / page_bytes);
        if v.zones.is_some() || v.mapped == 0 {
            // A zone is given up as a whole, by its reset.
            stop = page;
        }
        let granule = u64::from(GRANULE_PAGES);
        let mut done = StepDone { bytes, work: 0 };
        while page < stop {
            if done.work >= work {
                done.bytes = page * page_bytes - start;
                break;
            }
            let Some(v) = self.volumes.get(volume) else { break };
            let (set, first, mapped) = (v.set, v.page(page), v.mapped);
            let count = (stop - page).min(granule - page % granule);
            self.trim_pages(now, set, first, count as u32, storage);
            let left = self.volumes.get(volume).map_or(0, |v| v.mapped);
            done.work += count + mapped.saturating_sub(left) * STEP_EMPTY_FACTOR;
            page += count;
        }
        if let Some(v) = self.volumes.get_mut(volume) {
            v.stats.trimmed_bytes += done.bytes;
        }
        Ok(done)
    }

    fn trim_pages(&mut self, now: Nanos, set: SetId, first: u32, count: u32, storage: &mut impl Storage) {
        self.sets[usize::from(set.0)].trim(now, first, count, context!(self, storage));
    }

    /// Asks for the contents of a volume whose pages are all deallocated to be erased, which programs under way still
    /// refer to ([`Storage::scrub`]).
    pub fn scrub(&mut self, volume: VolumeId, storage: &mut impl Storage) {
        let Some(v) = self.volumes.get(volume) else { return };
        let (set, granules) = (v.set, v.granules.clone());
        let mine = |page: u32| granules.binary_search(&(page / GRANULE_PAGES)).is_ok();
        self.sets[usize::from(set.0)].scrub(mine, context!(self, storage));
    }

    /// The order of the newest write or deallocation: it only grows, also across losses of power.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Runs every event that is due, each at its own time.
    #[inline]
    fn advance(&mut self, now: Nanos, storage: &mut impl Storage) {
        if self.events.due() <= now {
            self.run_events(now, storage);
        }
    }

    #[inline(never)]
    fn run_events(&mut self, now: Nanos, storage: &mut impl Storage) {
        while let Some((at, (set, event))) = self.events.pop_due(now) {
            let seen = self.done.len();
            self.sets[usize::from(set.0)].handle(at, event, context!(self, storage));
            self.broadcasts.join(seen, &mut self.done);
        }
    }

    /// Runs every event that is due, each at its own time, tries again what waits for slots, and moves
    /// what is done to `done`.
    pub fn poll(&mut self, now: Nanos, storage: &mut impl Storage, done: &mut Vec<CompletedIo>) {
        self.advance(now, storage);
        for i in 0..self.sets.len() {
            let seen = self.done.len();
            self.sets[i].retry(now, context!(self, storage));
            self.broadcasts.join(seen, &mut self.done);
        }
        // Without timing, what was started just now has ended just now.
        self.advance(now, storage);
        // Other commands may have ended a part, too: a write that finds the end of a set's life does.
        self.broadcasts.join(0, &mut self.done);
        done.append(&mut self.done);
    }

    /// Whether a write waits for slots, so that [`poll`](Ftl::poll) may find something to do before the next event.
    #[inline]
    pub fn lacks_slots(&self) -> bool {
        self.sets.iter().any(NvmSet::lacks_slots)
    }

    /// When the next event is due.
    #[inline]
    pub fn next_event(&self) -> Option<Nanos> {
        Some(self.due()).filter(|at| *at != Nanos::MAX)
    }

    /// The same, [`Nanos::MAX`] if there is none.
    #[inline]
    pub fn due(&self) -> Nanos {
        if self.done.is_empty() { self.events.due() } else { Nanos::ZERO }
    }

    /// Power is lost: programs in flight are torn, RAM forgets, and what is waiting is never answered.
    /// `energy` says whether the capacitors do their work. Nothing but [`recover`](Ftl::recover) may follow.
    ///
    /// The journal hears of every loss here. Nothing of it comes back if the process dies before power does.
    ///
    /// Returns whether completed writes may be lost: true unless capacitors saved them, or all sets keep everything anyway.
    pub fn power_cut(&mut self, now: Nanos, energy: bool, storage: &mut impl Storage) -> bool {
        let saved = self.config.protected && energy;
        let mut kept = Vec::new();
        let mut lossy = false;
        for set in &mut self.sets {
            let after = set.power_cut(now, saved, context!(self, storage));
            lossy |= after.lossy;
            kept.push(after.saved);
        }
        self.events.clear();
        self.done.clear();
        self.broadcasts.clear();
        self.saved = Some(kept);
        lossy
    }

    /// Brings volumes of a drive that holds nothing into the state that `history` leaves, without the writes. Counts neither bytes nor wear.
    ///
    /// Returns false, having changed nothing that matters, if a set of the volumes is not blank, or too much of it is bad. Asks `go_on` again
    /// and again. When it says no, this returns false, and the drive is half done and of no use.
    pub fn precondition(
        &mut self,
        now: Nanos,
        volumes: &[VolumeId],
        history: WriteHistory,
        storage: &mut impl Storage,
        go_on: &mut dyn FnMut() -> bool,
    ) -> bool {
        self.advance(now, storage);
        let mut ok = true;
        for i in 0..self.sets.len() {
            let on_set = |id: &VolumeId| {
                self.volumes.get(*id).filter(|v| usize::from(v.set.0) == i && v.zones.is_none())
            };
            let granules: Vec<u32> =
                volumes.iter().filter_map(on_set).flat_map(|v| v.granules.clone()).collect();
            if granules.is_empty() {
                continue;
            }
            ok &= self.sets[i].precondition(&granules, history, &mut self.version, go_on);
        }
        if go_on() {
            self.recover(now, storage);
        }
        ok
    }

    /// Power is back: rebuilds everything from what the media and the capacitors kept.
    pub fn recover(&mut self, now: Nanos, storage: &mut impl Storage) {
        self.rebuild(storage);
        self.resume(now, storage);
    }

    /// Finds what the media and the capacitors kept. Nothing is written to a medium.
    fn rebuild(&mut self, storage: &mut impl Storage) {
        let saved = self.saved.take().unwrap_or_default();
        storage.forget_slots();
        for i in 0..self.sets.len() {
            let saved = saved.get(i).map_or(&[][..], Vec::as_slice);
            let newest = self.sets[i].recover(saved, context!(self, storage));
            self.version = self.version.max(newest);
        }
        storage.slots_are_counted();
        self.volumes.recount(|volume| mapped_pages(&self.sets, volume));
    }

    /// Begins to work again.
    fn resume(&mut self, now: Nanos, storage: &mut impl Storage) {
        let strange: Vec<SetId> =
            (0..self.sets.len() as u8).map(SetId).filter(|set| self.has_unowned(*set)).collect();
        for set in &mut self.sets {
            set.resume(now, context!(self, storage));
        }
        for set in strange {
            for granule in self.volumes.free_granules(set) {
                self.trim_pages(now, set, granule * GRANULE_PAGES, GRANULE_PAGES, storage);
            }
        }
    }

    /// Whether pages of a set hold something that is of no volume. No drive leaves such pages. A volume that gets them later would count them
    /// wrongly, and show them to its host.
    fn has_unowned(&self, set: SetId) -> bool {
        let owned: u64 = self.volumes.iter().filter(|(_, v)| v.set == set).map(|(_, v)| v.mapped).sum();
        let at = usize::from(set.0);
        let all = match &self.sets[at] {
            Set::Nand(set) => set.mapped.all_mapped(),
            other => other.mapped_pages(0..self.config.sets[at].capacity_pages()),
        };
        all != owned
    }

    /// Exact counts of a volume.
    pub fn volume_stats(&self, volume: VolumeId) -> VolumeStats {
        self.volumes.get(volume).map_or_else(VolumeStats::default, |v| v.stats)
    }

    /// Exact counts of a set.
    pub fn set_stats(&self, set: SetId) -> SetStats {
        let Some(of_medium) = self.set(set).map(NvmSet::stats) else { return SetStats::default() };
        let HostBytes { read, written } = self.host_bytes[usize::from(set.0)];
        SetStats { host_read_bytes: read, host_written_bytes: written, ..of_medium }
    }

    /// State of a set; `None` if there is none.
    pub fn set_info(&self, set: SetId) -> Option<SetInfo> {
        let granule_bytes = u64::from(GRANULE_PAGES) * u64::from(PAGE);
        let unallocated_bytes = u64::from(self.volumes.unallocated_granules(set)) * granule_bytes;
        let capacity_bytes = self.volumes.granules(set)? as u64 * granule_bytes;
        Some(self.set(set)?.info(capacity_bytes, unallocated_bytes))
    }

    /// How many of a set's independent units work at `now`; `None` of a set that does not tell, or is not there.
    pub fn busy_units(&self, set: SetId, now: Nanos) -> Option<u32> {
        self.set(set)?.busy_units(now)
    }

    /// For how long each of a set's independent units was asked to work since the power came, in order; `None` of a set that does not tell, or
    /// is not there.
    pub fn unit_times(&self, set: SetId) -> Option<Vec<DieTimes>> {
        self.set(set)?.unit_times()
    }

    /// Some superblocks of a set, by their numbers; those beyond the last are left out. None of a set that is written in place.
    pub fn superblocks(&self, set: SetId, range: Range<u32>) -> Vec<SuperblockInfo> {
        self.set(set).map_or_else(Vec::new, |set| set.superblocks(range))
    }

    /// What a set is doing, in words for a developer: for messages of tests and bug reports.
    pub fn describe(&self, set: SetId) -> String {
        self.set(set).map_or_else(String::new, NvmSet::describe)
    }

    /// Whether what a set keeps in memory agrees with itself and with its medium. Looks at every page: for tests.
    ///
    /// # Errors
    /// What does not agree, in words.
    pub fn audit(&self, set: SetId) -> Result<(), String> {
        self.set(set).map_or(Ok(()), NvmSet::audit)
    }

    /// The contents that anything refers to, each as often as it is: what [`Storage`] must have counted. Looks at every
    /// page: for tests.
    pub fn references(&self) -> Vec<Slot> {
        self.sets.iter().flat_map(NvmSet::references).collect()
    }

    /// The faults of a set's medium; what counts down, as far as it has come.
    pub fn faults(&self, set: SetId) -> Option<&FaultPlan> {
        self.set(set).map(NvmSet::plan)
    }

    /// Plans faults of a set's medium; an empty plan ends them. Whether there is such a set.
    pub fn set_faults(&mut self, set: SetId, plan: FaultPlan) -> bool {
        match self.sets.get_mut(usize::from(set.0)) {
            Some(set) => *set.plan_mut() = plan,
            None => return false,
        }
        true
    }

    /// Whether a planned power cut ([`FaultPlan::cut_after`]) has come in any set: the owner cuts the power now.
    pub fn cut_due(&self) -> bool {
        self.sets.iter().any(NvmSet::cut_due)
    }

    /// Whether a volume has zones.
    #[inline]
    fn is_zoned(&self, volume: VolumeId) -> bool {
        self.volumes.get(volume).is_some_and(|volume| volume.zones.is_some())
    }

    fn set(&self, set: SetId) -> Option<&Set> {
        self.sets.get(usize::from(set.0))
    }

    fn record_volumes(&self, storage: &mut impl Storage) {
        storage.record(Record::Section { kind: Section::Volumes, bytes: &self.volumes.encode() });
    }
}
