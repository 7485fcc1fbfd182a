//! What each sector may hold.

use std::collections::BTreeSet;

/// Bytes of a sector.
pub const SECTOR: usize = 512;

/// What a sector holds: zeroes, or what was written with this stamp.
pub type Stamp = u64;

/// The contents of a sector that is written with this stamp.
pub fn contents(sector: u64, stamp: Stamp) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    if stamp > 0 {
        for (n, word) in bytes.chunks_exact_mut(8).enumerate() {
            let word_is = if n % 2 == 0 { stamp } else { sector ^ stamp.rotate_left(17) };
            word.copy_from_slice(&word_is.to_le_bytes());
        }
    }
    bytes
}

/// The stamp of a sector's contents, if they are whole and the sector's own.
pub fn stamp(sector: u64, bytes: &[u8]) -> Option<Stamp> {
    let stamp = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    (bytes == contents(sector, stamp)).then_some(stamp)
}

/// One value of a sector, and when its write ended.
#[derive(Clone, Copy, Debug)]
struct Value {
    stamp: Stamp,
    /// `u64::MAX` while its write is under way.
    ended: u64,
    /// Its write failed, or it is the zeroes of a deallocation: the one before may be there as well.
    uncertain: bool,
}

/// A sector.
#[derive(Clone, Debug)]
struct Sector {
    /// What it held at the last flush, and everything since.
    values: Vec<Value>,
    /// A read found this one of several, and nothing was written since.
    found: Option<Stamp>,
}

/// All sectors, and a clock of ends.
pub struct Oracle {
    sectors: Vec<Sector>,
    clock: u64,
}

impl Oracle {
    /// So many sectors of zeroes.
    pub fn new(sectors: u64) -> Self {
        let zeroes = Value { stamp: 0, ended: 0, uncertain: false };
        let sector = Sector { values: vec![zeroes], found: None };
        Self { sectors: vec![sector; sectors as usize], clock: 0 }
    }

    /// The time by which everything has ended that has ended.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// A write of a sector begins.
    pub fn begin(&mut self, sector: u64, stamp: Stamp, trim: bool) {
        let sector = &mut self.sectors[sector as usize];
        sector.values.push(Value { stamp, ended: u64::MAX, uncertain: trim });
        sector.found = None;
    }

    /// A write of a sector has ended: it did what it should, or failed.
    pub fn end(&mut self, sector: u64, stamp: Stamp, ok: bool) {
        self.clock += 1;
        let sector = &mut self.sectors[sector as usize];
        let under_way = |value: &&mut Value| value.stamp == stamp && value.ended == u64::MAX;
        if let Some(value) = sector.values.iter_mut().find(under_way) {
            value.ended = self.clock;
            value.uncertain |= !ok;
        }
    }

    /// A flush that began at this time has ended.
    pub fn flushed(&mut self, began: u64) {
        for sector in &mut self.sectors {
            let covered = |value: &Value| value.ended <= began && !value.uncertain;
            if let Some(last) = sector.values.iter().rposition(covered) {
                sector.values.drain(..last);
            }
        }
    }

    /// A write of a sector is durable.
    pub fn durable(&mut self, sector: u64, stamp: Stamp) {
        let sector = &mut self.sectors[sector as usize];
        let is_it = |value: &Value| value.stamp == stamp && !value.uncertain;
        if let Some(last) = sector.values.iter().rposition(is_it) {
            sector.values.drain(..last);
        }
    }

    /// What a read may find now. Nothing is being written there.
    fn may_hold(&self, sector: u64) -> BTreeSet<Stamp> {
        let Sector { values, found } = &self.sectors[sector as usize];
        if let Some(found) = found {
            return BTreeSet::from([*found]);
        }
        let certain = values.iter().rposition(|value| !value.uncertain).unwrap_or(0);
        values[certain..].iter().map(|value| value.stamp).collect()
    }

    /// A read found these contents. Why they cannot be there.
    pub fn read(&mut self, sector: u64, bytes: &[u8]) -> Option<String> {
        let may = self.may_hold(sector);
        match stamp(sector, bytes) {
            Some(stamp) if may.contains(&stamp) => {
                let it = &mut self.sectors[sector as usize];
                let trimmed = it.values.iter().any(|value| value.stamp == 0 && value.uncertain);
                // What is deallocated may change from what it was to zeroes.
                it.found = (!trimmed).then_some(stamp);
                None
            }
            other => Some(format!("sector {sector} holds {other:?} and may hold {may:?}")),
        }
    }

    /// The first read after a crash found these contents. Why they cannot be there.
    pub fn read_after_crash(&mut self, sector: u64, bytes: &[u8]) -> Option<String> {
        let it = &mut self.sectors[sector as usize];
        match stamp(sector, bytes) {
            Some(stamp) if it.values.iter().any(|value| value.stamp == stamp) => {
                // What is deallocated may still change from what it was to zeroes.
                let trimmed = it.values.iter().find(|value| value.stamp == 0 && value.uncertain).copied();
                let last =
                    it.values.iter().rev().find(|value| !value.uncertain).map_or(0, |value| value.stamp);
                let stamp = if stamp == 0 && trimmed.is_some() { last } else { stamp };
                let mut values = vec![Value { stamp, ended: 0, uncertain: false }];
                values.extend(trimmed.map(|value| Value { ended: 0, ..value }));
                *it = Sector { values, found: None };
                None
            }
            other => {
                Some(format!("after the crash sector {sector} holds {other:?}, and may hold {:?}", it.values))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_objects_to_what_cannot_be() {
        let mut oracle = Oracle::new(2);
        oracle.begin(1, 5, false);
        oracle.end(1, 5, true);
        assert!(oracle.read(1, &contents(1, 0)).is_some(), "the write has ended");
        assert!(oracle.read(1, &contents(0, 5)).is_some(), "another sector's");
        assert!(oracle.read(1, &contents(1, 5)).is_none());
        let began = oracle.clock();
        oracle.begin(1, 6, false);
        oracle.end(1, 6, true);
        let mut lost = contents(1, 6);
        lost[300] ^= 1;
        assert!(oracle.read_after_crash(1, &lost).is_some(), "torn within a sector");
        oracle.flushed(began);
        assert!(oracle.read_after_crash(1, &contents(1, 0)).is_some(), "5 was flushed");
        assert!(oracle.read_after_crash(1, &contents(1, 5)).is_none(), "6 was not");
        assert!(oracle.read_after_crash(1, &contents(1, 6)).is_some(), "it changes no more");
    }
}
