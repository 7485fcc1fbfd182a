//! What this program keeps about the zones of a namespace: only of those that somebody uses, and little, because the drive is asked.

use crate::access::{Access, AccessChange};
use crate::task::{Giver, Promised, promise};
use crate::write_lock::WriteLock;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The zones of a namespace, by their numbers; empty for a namespace without.
pub struct ZoneTable {
    /// Permissions that zones start with.
    access: Access,
    zones: Mutex<HashMap<u32, ZoneEntry>>,
}

#[derive(Default)]
struct ZoneEntry {
    access: Option<Access>,
    /// Logical blocks that are known to be written, from the begin of the zone.
    written: Option<u64>,
    /// The last number of them that was known.
    last_written: Option<u64>,
    /// How often it has changed, as far as this program has seen.
    changes: u64,
    /// How often its file is open for writing.
    writers: u32,
    /// Those that want to change its state.
    turns: WriteLock<Giver<()>>,
    /// Writes that wait for the block before theirs.
    early: Vec<(u64, Giver<()>)>,
}

impl ZoneTable {
    /// Nothing is known yet. Permissions and owners are those of `before`, if there is such a table.
    pub fn new(access: Access, before: Option<&ZoneTable>) -> Self {
        let kept = before.map(|before| {
            let zones = before.lock();
            let changed = zones.iter().filter(|(_, entry)| entry.access.is_some());
            changed
                .map(|(zone, entry)| (*zone, ZoneEntry { access: entry.access, ..ZoneEntry::default() }))
                .collect()
        });
        ZoneTable { access, zones: Mutex::new(kept.unwrap_or_default()) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, ZoneEntry>> {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Permissions and ownership of a zone's file.
    pub fn access(&self, zone: u32) -> Access {
        self.lock().get(&zone).and_then(|entry| entry.access).unwrap_or(self.access)
    }

    /// Changes them.
    pub fn change_access(&self, zone: u32, change: AccessChange) {
        change.apply(self.lock().entry(zone).or_default().access.get_or_insert(self.access));
    }

    /// Logical blocks of a zone that are written, as far as this is known.
    pub fn written(&self, zone: u32) -> Option<u64> {
        self.lock().get(&zone).and_then(|entry| entry.written)
    }

    /// The zone has changed: so many blocks are written; `None` if that is not known.
    pub fn note_written(&self, zone: u32, written: Option<u64>) {
        let mut zones = self.lock();
        let entry = zones.entry(zone).or_default();
        entry.changes += 1;
        entry.written = written;
        entry.last_written = written.or(entry.last_written);
        let come: Vec<_> =
            entry.early.extract_if(.., |(at, _)| written.is_none_or(|written| *at <= written)).collect();
        drop(zones);
        come.into_iter().for_each(|(_, giver)| giver.give(()));
    }

    /// A write that begins at block `at` waits until those before are written, or [`end_waiting`](ZoneTable::end_waiting) is called.
    /// `None` if there is nothing to wait for, as far as this is known.
    pub fn wait_for_block(&self, zone: u32, at: u64) -> Option<Promised<()>> {
        let mut zones = self.lock();
        let entry = zones.entry(zone).or_default();
        entry.written.filter(|written| *written < at)?;
        let (giver, come) = promise();
        entry.early.push((at, giver));
        Some(come)
    }

    /// Nothing that waits for a block waits any longer.
    pub fn end_waiting(&self, zone: u32) {
        let early = std::mem::take(&mut self.lock().entry(zone).or_default().early);
        early.into_iter().for_each(|(_, giver)| giver.give(()));
    }

    /// The last number of written blocks that was known. A zone that has become read only has no write pointer.
    pub fn last_written(&self, zone: u32) -> Option<u64> {
        self.lock().get(&zone).and_then(|entry| entry.last_written)
    }

    /// How often the zone has changed. Ask before the drive is asked for a report.
    pub fn changes(&self, zone: u32) -> u64 {
        self.lock().get(&zone).map_or(0, |entry| entry.changes)
    }

    /// The report says that so many blocks are written. It does not count if the zone has changed since.
    pub fn note_report(&self, zone: u32, changes: u64, written: u64) {
        let mut zones = self.lock();
        let entry = zones.entry(zone).or_default();
        if entry.changes == changes {
            (entry.written, entry.last_written) = (Some(written), Some(written));
        }
    }

    /// How often a zone's file is open for writing.
    pub fn writers(&self, zone: u32) -> u32 {
        self.lock().get(&zone).map_or(0, |entry| entry.writers)
    }

    /// A zone's file is opened for writing.
    pub fn add_writer(&self, zone: u32) {
        self.lock().entry(zone).or_default().writers += 1;
    }

    /// A file that was opened for writing is closed; how many are left.
    pub fn remove_writer(&self, zone: u32) -> u32 {
        let mut zones = self.lock();
        let entry = zones.entry(zone).or_default();
        entry.writers = entry.writers.saturating_sub(1);
        entry.writers
    }

    /// Asks for a turn. `Some` gives the giver back: the turn has come, and [`leave`](ZoneTable::leave) ends it. Otherwise it waits.
    pub fn enter(&self, zone: u32, turn: Giver<()>) -> Option<Giver<()>> {
        self.lock().entry(zone).or_default().turns.enter(turn, true)
    }

    /// A turn has ended. Returns whose turn it is now.
    pub fn leave(&self, zone: u32) -> Option<Giver<()>> {
        let mut next = Vec::new();
        self.lock().entry(zone).or_default().turns.leave(&mut next);
        // One at a time.
        next.pop()
    }
}

impl fmt::Debug for ZoneTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZoneTable({} zones)", self.lock().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCESS: Access = Access { mode: 0o600, uid: 0, gid: 0 };

    #[test]
    fn turns_follow_each_other_zone_by_zone() {
        let table = ZoneTable::new(ACCESS, None);
        let turn = || promise().0;
        let (first, other) = (table.enter(1, turn()), table.enter(2, turn()));
        assert!(first.is_some() && other.is_some());
        let (second, third) = (table.enter(1, turn()), table.enter(1, turn()));
        assert!(second.is_none() && third.is_none());
        assert!(table.leave(1).is_some());
        assert!(table.leave(1).is_some());
        assert!(table.leave(1).is_none() && table.leave(2).is_none());
        assert!(table.enter(1, turn()).is_some());
    }

    #[test]
    fn a_report_of_before_a_change_does_not_count() {
        let table = ZoneTable::new(ACCESS, None);
        let before = table.changes(1);
        table.note_report(1, before, 5);
        assert_eq!(table.written(1), Some(5));
        table.note_written(1, None);
        table.note_report(1, before, 5);
        assert_eq!((table.written(1), table.last_written(1)), (None, Some(5)));
        table.note_report(1, table.changes(1), 0);
        assert_eq!((table.written(1), table.written(2)), (Some(0), None));
    }

    #[test]
    fn a_table_after_a_loss_keeps_permissions_only() {
        let table = ZoneTable::new(ACCESS, None);
        table.change_access(3, AccessChange { mode: Some(0o100_640), ..AccessChange::default() });
        table.note_written(3, Some(7));
        table.add_writer(3);
        let next = ZoneTable::new(ACCESS, Some(&table));
        assert_eq!(next.access(3), Access { mode: 0o640, ..ACCESS });
        assert_eq!((next.access(4), next.written(3), next.writers(3)), (ACCESS, None, 0));
        assert_eq!((table.written(3), table.writers(3), table.remove_writer(3)), (Some(7), 1, 0));
    }
}
