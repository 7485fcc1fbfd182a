//! What may be in a sector: its versions, from the last that is certainly durable to the last that was begun.

use super::load::Space;
use super::stamp;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers everything that happens in a campaign: versions, completions and flushes.
#[derive(Debug)]
pub struct Clock(AtomicU64);

impl Clock {
    pub fn new() -> Self {
        Clock(AtomicU64::new(1))
    }

    pub fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// The beginning of the last Flush of a namespace that completed.
#[derive(Debug, Default)]
pub struct Flushed(AtomicU64);

impl Flushed {
    pub fn completed(&self, began: u64) {
        self.0.fetch_max(began, Ordering::SeqCst);
    }

    fn covers(&self, done: u64) -> bool {
        done < self.0.load(Ordering::SeqCst)
    }
}

/// What becomes of acknowledged writes when power and capacitors fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// Those that no Flush covers may be lost.
    Buffered,
    /// The same, but it has capacitors that Flush and FUA rely on: if they fail, these are lost with the rest.
    Relying,
    /// All are.
    Dram,
    /// None is.
    Persistent,
}

/// Not answered, or answered before what had been buffered was lost: it may be there or not.
const UNCERTAIN_ANSWER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    version: u64,
    done: u64,
}

const NEVER_WRITTEN: Entry = Entry { version: 0, done: 0 };

/// The sectors that one writer owns. A sector that was never written has no entry.
#[derive(Debug, Default)]
pub struct Sectors {
    entries: HashMap<u64, Vec<Entry>>,
    /// Sectors whose last version was not there, and did not have to be.
    pub older: u64,
}

impl Sectors {
    fn entries(&mut self, lba: u64) -> &mut Vec<Entry> {
        self.entries.entry(lba).or_insert_with(|| vec![NEVER_WRITTEN])
    }

    /// A write of these sectors is sent.
    pub fn begin(&mut self, first: u64, sectors: u64, version: u64) {
        for lba in first..first + sectors {
            self.entries(lba).push(Entry { version, done: UNCERTAIN_ANSWER });
        }
    }

    /// The last write that was sent is acknowledged; with FUA it is `durable`.
    pub fn complete(&mut self, first: u64, sectors: u64, now: u64, durable: bool, space: &Space) {
        let durable = durable && space.memory != Memory::Relying;
        for lba in first..first + sectors {
            let entries = self.entries(lba);
            entries.last_mut().unwrap().done = now;
            if durable {
                entries.drain(..entries.len() - 1);
            }
            forget_older(entries, space);
        }
    }

    /// Everything that was acknowledged was brought to the media: the drive was stopped in good order.
    pub fn settle(&mut self) {
        for entries in self.entries.values_mut() {
            let sure = entries.iter().rposition(|entry| entry.done != UNCERTAIN_ANSWER).unwrap_or(0);
            entries.drain(..sure);
        }
    }

    /// Power and capacitors have failed, not before `began`.
    pub fn power_lost(&mut self, began: u64, space: &Space) {
        let memory = space.memory;
        if memory == Memory::Persistent {
            return;
        }
        for entries in self.entries.values_mut() {
            if memory == Memory::Dram {
                entries.retain(|entry| entry.done > began);
                entries.insert(0, NEVER_WRITTEN);
            }
            forget_older(entries, space);
            entries[1..].iter_mut().for_each(|entry| entry.done = UNCERTAIN_ANSWER);
        }
    }

    /// Compares a sector with what may be there, and takes what is there for what was acknowledged.
    pub fn check(&mut self, owner: u64, lba: u64, found: &[u8], now: u64) -> Result<(), String> {
        let Some(entries) = self.entries.get_mut(&lba) else {
            return match stamp::is(found, owner, lba, 0) {
                true => Ok(()),
                false => Err(format!("never written, found {}", stamp::describe(found))),
            };
        };
        let sure = entries.iter().rposition(|entry| entry.done != UNCERTAIN_ANSWER).unwrap_or(0);
        let there = (sure..entries.len()).find(|&index| stamp::is(found, owner, lba, entries[index].version));
        let Some(there) = there else {
            let may: Vec<u64> = entries[sure + 1..].iter().map(|entry| entry.version).collect();
            return Err(format!(
                "version {} is sure and {may:?} may be there (0 is zeros), found {}",
                entries[sure].version,
                stamp::describe(found)
            ));
        };
        if there > sure {
            entries[there].done = now;
        }
        self.older += u64::from(there + 1 < entries.len());
        entries.truncate(there + 1);
        Ok(())
    }
}

/// Drops what no loss of power brings back.
fn forget_older(entries: &mut Vec<Entry>, space: &Space) {
    if space.memory != Memory::Buffered {
        return;
    }
    if let Some(floor) =
        entries.iter().rposition(|entry| entry.done != UNCERTAIN_ANSWER && space.flushed.covers(entry.done))
    {
        entries.drain(..floor);
    }
}
