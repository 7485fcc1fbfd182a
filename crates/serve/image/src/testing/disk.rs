//! A disk that loses what was not synced, fails, and stops at any call.
//!
//! The fault model:
//! - A killed process leaves every call that had returned, and of the call under way a part: a write ends at a boundary of
//!   the host's pages, any other call has happened or not.
//! - A host that goes down leaves what was synced, exactly. Of each sector of 512 bytes that was written since, the old or the
//!   new bytes are there; of each change of names, it or nothing. Several such changes may be there in any combination.
//! - A failed sync is reported once. Any part of what it should have made durable may be durable. No later sync makes up for the rest.
//! - The disk may be full: calls that need more room fail, in part.

use crate::image::disk::{Disk, DiskFile, Open};
use media::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SECTOR_BYTES: usize = 512;
const HOST_PAGE_BYTES: u64 = 4096;
/// One in how many reads would have to wait for the disk below, as a rule.
const MISSED_READS: u64 = 16;

#[derive(Debug, Default)]
struct Inode {
    cached: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors of which the two may differ.
    dirty: BTreeSet<usize>,
}

/// Names that change together: to a file, or to none.
type Change = Vec<(String, Option<usize>)>;

#[derive(Debug)]
struct SimDiskState {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    changes: Vec<Change>,
    calls: u64,
    /// The call during which the process dies.
    dies_at: u64,
    dead: bool,
    rng: Rng,
    boot: u64,
    /// Whether there is no more room.
    full: bool,
    /// One in how many reads would have to wait for the disk below.
    missed_reads: u64,
    /// One in how many syncs fails; 0 for none.
    failing_syncs: u64,
    /// Whether one did.
    has_failed: bool,
    /// The call in which one did last.
    failed_at: u64,
    /// The process died before it could mark what a failed sync had lost: nothing is promised then (docs/promises.md).
    unmarked: bool,
}

/// The disk, shared with the test.
#[derive(Clone, Debug)]
pub struct SimDisk {
    state: Arc<Mutex<SimDiskState>>,
    place: PathBuf,
}

fn dead() -> io::Error {
    io::Error::other("the process is dead")
}

fn no_room() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
}

/// What happens to a call.
enum CallFate {
    Done,
    /// The process dies while it is made.
    Cut,
}

impl SimDiskState {
    /// Counts a call that changes something.
    fn call(&mut self) -> io::Result<CallFate> {
        if self.dead {
            return Err(dead());
        }
        self.calls += 1;
        self.dead = self.calls >= self.dies_at;
        self.unmarked |= self.dead && self.has_failed && self.calls == self.failed_at + 1;
        Ok(if self.dead { CallFate::Cut } else { CallFate::Done })
    }

    /// Makes a change as a whole, or, if the process dies, perhaps.
    fn change(&mut self, make: impl FnOnce(&mut SimDiskState)) -> io::Result<()> {
        match self.call()? {
            CallFate::Done => make(self),
            CallFate::Cut => {
                if self.rng.below(2) == 0 {
                    make(self);
                }
                return Err(dead());
            }
        }
        Ok(())
    }

    fn rename(&mut self, change: Change) {
        apply(&mut self.names, &change);
        self.changes.push(change);
    }

    fn write(&mut self, inode: usize, bytes: &[u8], at: u64) {
        if bytes.is_empty() {
            return;
        }
        let inode = &mut self.inodes[inode];
        let (start, end) = (at as usize, at as usize + bytes.len());
        if inode.cached.len() < end {
            let from = inode.cached.len() / SECTOR_BYTES;
            inode.cached.resize(end, 0);
            inode.dirty.extend(from..end.div_ceil(SECTOR_BYTES));
        }
        inode.cached[start..end].copy_from_slice(bytes);
        inode.dirty.extend(start / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES));
    }

    fn set_len(&mut self, inode: usize, len: u64) {
        let inode = &mut self.inodes[inode];
        let (old, len) = (inode.cached.len(), len as usize);
        inode.cached.resize(len, 0);
        inode.dirty.extend(old.min(len) / SECTOR_BYTES..old.max(len).div_ceil(SECTOR_BYTES));
    }

    /// What a sector of a file holds, filled with zeros.
    fn sector(bytes: &[u8], sector: usize) -> [u8; SECTOR_BYTES] {
        let mut out = [0; SECTOR_BYTES];
        let rest = bytes.get(sector * SECTOR_BYTES..).unwrap_or_default();
        let len = rest.len().min(SECTOR_BYTES);
        out[..len].copy_from_slice(&rest[..len]);
        out
    }

    /// Makes the dirty sectors of a file durable that `which` says; none of them is dirty afterwards.
    fn settle(inode: &mut Inode, mut which: impl FnMut() -> bool) {
        let dirty = std::mem::take(&mut inode.dirty);
        let len = inode.cached.len();
        for sector in dirty {
            if which() {
                let bytes = SimDiskState::sector(&inode.cached, sector);
                let end = (sector * SECTOR_BYTES + SECTOR_BYTES).min(len.max(sector * SECTOR_BYTES));
                if inode.durable.len() < end {
                    inode.durable.resize(end, 0);
                }
                let room = &mut inode.durable[sector * SECTOR_BYTES..];
                let count = room.len().min(SECTOR_BYTES);
                room[..count].copy_from_slice(&bytes[..count]);
            }
        }
    }

    fn sync(&mut self, inode: usize) -> io::Result<()> {
        if let CallFate::Cut = self.call()? {
            return Err(dead());
        }
        let fails = self.failing_syncs > 0 && self.rng.below(self.failing_syncs) == 0;
        if fails {
            self.failed_at = self.calls;
        }
        let (inode, rng) = (&mut self.inodes[inode], &mut self.rng);
        if fails {
            self.has_failed = true;
            SimDiskState::settle(inode, || rng.below(2) == 0);
            return Err(io::Error::other("the disk has failed"));
        }
        SimDiskState::settle(inode, || true);
        inode.durable.truncate(inode.cached.len());
        Ok(())
    }
}

fn apply(names: &mut BTreeMap<String, usize>, change: &Change) {
    for (name, inode) in change {
        match inode {
            Some(inode) => names.insert(name.clone(), *inode),
            None => names.remove(name),
        };
    }
}

impl SimDisk {
    /// An empty disk, whose faults come from this seed.
    pub fn new(seed: u64) -> Self {
        let state = SimDiskState {
            inodes: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changes: Vec::new(),
            calls: 0,
            dies_at: u64::MAX,
            dead: false,
            rng: Rng::new(seed),
            boot: 7,
            full: false,
            missed_reads: MISSED_READS,
            failing_syncs: 0,
            has_failed: false,
            failed_at: 0,
            unmarked: false,
        };
        SimDisk { state: Arc::new(Mutex::new(state)), place: PathBuf::from("simulated") }
    }

    fn state(&self) -> MutexGuard<'_, SimDiskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process will die during the call that comes so many calls later.
    pub fn die_in(&self, calls: u64) {
        let state = &mut *self.state();
        state.dies_at = state.calls.saturating_add(calls).max(state.calls + 1);
    }

    /// The process dies now, unless it has.
    pub fn die(&self) {
        self.state().dead = true;
    }

    /// Whether the process has died.
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Whether there is no more room from now on.
    pub fn set_full(&self, full: bool) {
        self.state().full = full;
    }

    /// From now on every read waits for the disk below, or as many as ever.
    pub fn miss_reads(&self, all: bool) {
        self.state().missed_reads = if all { 1 } else { MISSED_READS };
    }

    /// One in so many syncs fails from now on; 0 for none.
    pub fn fail_syncs(&self, one_in: u64) {
        self.state().failing_syncs = one_in;
    }

    /// Whether a sync has failed.
    pub fn has_failed(&self) -> bool {
        self.state().has_failed
    }

    /// Whether nothing is promised of it any more.
    pub fn is_unmarked(&self) -> bool {
        self.state().unmarked
    }

    /// Another process begins, on the same host or after it went down.
    pub fn restart(&self, host_went_down: bool) {
        let state = &mut *self.state();
        (state.dead, state.dies_at, state.has_failed) = (false, u64::MAX, false);
        (state.full, state.failing_syncs) = (false, 0);
        if !host_went_down {
            return;
        }
        state.boot += 1;
        // All was written, nothing was, or anything in between.
        let share = [0, 4, 2, 1, 3][state.rng.below(5) as usize];
        for change in std::mem::take(&mut state.changes) {
            if state.rng.below(4) < share {
                apply(&mut state.durable_names, &change);
            }
        }
        state.names = state.durable_names.clone();
        let (inodes, rng) = (&mut state.inodes, &mut state.rng);
        for inode in inodes {
            SimDiskState::settle(inode, || rng.below(4) < share);
            if rng.below(4) < share && inode.durable.len() > inode.cached.len() {
                inode.durable.truncate(inode.cached.len());
            }
            inode.cached = inode.durable.clone();
        }
    }

    /// What a file holds, as the process sees it.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let state = self.state();
        state.names.get(name).map(|&inode| state.inodes[inode].cached.clone()).unwrap_or_default()
    }

    /// The files that any of some bytes are found in, as the process sees them or as they are after a crash of the host.
    pub fn holding(&self, found: impl Fn(&str, &[u8]) -> bool) -> BTreeSet<String> {
        let state = self.state();
        let holds = |name: &str, inode: &Inode| found(name, &inode.cached) || found(name, &inode.durable);
        let names = state.names.iter().chain(&state.durable_names);
        names
            .filter(|(name, inode)| holds(name, &state.inodes[**inode]))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Changes a byte of a checkpoint or a journal, here and on the disk below; gives what undoes it.
    pub fn damage(&self, rng: &mut Rng) -> Option<Damage> {
        let state = &mut *self.state();
        let is_one = |name: &&String| name.starts_with("checkpoint.") || name.starts_with("journal.");
        let names: Vec<_> = state.names.keys().filter(is_one).cloned().collect();
        let name = names.get(rng.below(names.len() as u64) as usize)?.clone();
        let inode = state.names[&name];
        let len = state.inodes[inode].cached.len() as u64;
        let at = rng.below(len.max(1)) as usize;
        let was = *state.inodes[inode].cached.get(at)?;
        let damage = Damage { name, inode, at, was, is: was ^ 1 << rng.below(8) };
        state.inodes[inode].change(at, was, damage.is);
        Some(damage)
    }

    /// Undoes it, unless something else was written there.
    pub fn mend(&self, damage: &Damage) {
        self.state().inodes[damage.inode].change(damage.at, damage.is, damage.was);
    }
}

/// A byte of a file that has changed.
#[derive(Debug)]
pub struct Damage {
    #[expect(dead_code, reason = "printed")]
    name: String,
    inode: usize,
    at: usize,
    was: u8,
    is: u8,
}

impl Inode {
    fn change(&mut self, at: usize, from: u8, to: u8) {
        for byte in [&mut self.cached, &mut self.durable].into_iter().filter_map(|bytes| bytes.get_mut(at)) {
            if *byte == from {
                *byte = to;
            }
        }
    }
}

impl Disk for SimDisk {
    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let state = &mut *self.state();
        let found = state.names.get(name).copied();
        let inode = match (found, how) {
            (Some(inode), Open::Existing | Open::Create) => {
                if state.dead {
                    return Err(dead());
                }
                inode
            }
            (Some(inode), Open::Empty) => {
                state.change(|state| state.set_len(inode, 0))?;
                inode
            }
            (None, Open::Existing) => return Err(io::Error::from(io::ErrorKind::NotFound)),
            (None, _) => {
                if state.full && state.rng.below(4) == 0 {
                    return Err(no_room());
                }
                let inode = state.inodes.len();
                state.inodes.push(Inode::default());
                state.change(|state| state.rename(vec![(name.to_owned(), Some(inode))]))?;
                inode
            }
        };
        Ok(Arc::new(SimFile { disk: self.clone(), inode }))
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.read_head(name, usize::MAX)
    }

    fn read_head(&self, name: &str, most: usize) -> io::Result<Vec<u8>> {
        let state = self.state();
        if state.dead {
            return Err(dead());
        }
        let inode = state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        let bytes = &state.inodes[*inode].cached;
        Ok(bytes[..bytes.len().min(most)].to_vec())
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        let state = self.state();
        let inode = state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(state.inodes[*inode].cached.len() as u64)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let state = &mut *self.state();
        let inode = *state.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        state.change(|state| state.rename(vec![(from.to_owned(), None), (to.to_owned(), Some(inode))]))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let state = &mut *self.state();
        if !state.names.contains_key(name) {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        state.change(|state| state.rename(vec![(name.to_owned(), None)]))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.state().names.keys().cloned().collect())
    }

    fn sync_names(&self) -> io::Result<()> {
        let state = &mut *self.state();
        if let CallFate::Cut = state.call()? {
            return Err(dead());
        }
        for change in std::mem::take(&mut state.changes) {
            apply(&mut state.durable_names, &change);
        }
        Ok(())
    }

    fn boot(&self) -> u64 {
        self.state().boot
    }

    fn random(&self) -> [u8; 16] {
        [9; 16]
    }

    fn path(&self) -> &Path {
        &self.place
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: usize,
}

impl DiskFile for SimFile {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let state = self.disk.state();
        if state.dead {
            return Err(dead());
        }
        let rest = state.inodes[self.inode].cached.get(at as usize..).unwrap_or_default();
        let len = rest.len().min(bytes.len());
        bytes[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn read_now(&self, bytes: &mut [u8], at: u64) -> io::Result<Option<usize>> {
        let missed = {
            let state = &mut *self.disk.state();
            state.rng.below(state.missed_reads) == 0
        };
        if missed { Ok(None) } else { self.read_at(bytes, at).map(Some) }
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let state = &mut *self.disk.state();
        let end = at + bytes.len() as u64;
        let cut = |state: &mut SimDiskState| {
            let pages = (end / HOST_PAGE_BYTES).saturating_sub(at / HOST_PAGE_BYTES) + 1;
            let stop = ((at / HOST_PAGE_BYTES + state.rng.below(pages + 1)) * HOST_PAGE_BYTES).clamp(at, end);
            (stop - at) as usize
        };
        if state.full && end > state.inodes[self.inode].cached.len() as u64 && state.rng.below(2) == 0 {
            let _ = state.call()?;
            let len = cut(state);
            state.write(self.inode, &bytes[..len], at);
            return Err(no_room());
        }
        match state.call()? {
            CallFate::Done => state.write(self.inode, bytes, at),
            CallFate::Cut => {
                let len = cut(state);
                state.write(self.inode, &bytes[..len], at);
                return Err(dead());
            }
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.state().inodes[self.inode].cached.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.state().change(|state| state.set_len(self.inode, len))
    }

    fn reserve(&self, _at: u64, _span: u64) -> io::Result<()> {
        let state = &mut *self.disk.state();
        if state.full && state.rng.below(2) == 0 { Err(no_room()) } else { Ok(()) }
    }

    fn punch(&self, at: u64, span: u64) -> io::Result<()> {
        let state = &mut *self.disk.state();
        let end = (at + span).min(state.inodes[self.inode].cached.len() as u64);
        let zeros = vec![0; end.saturating_sub(at) as usize];
        state.change(|state| state.write(self.inode, &zeros, at))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.state().sync(self.inode)
    }
}
