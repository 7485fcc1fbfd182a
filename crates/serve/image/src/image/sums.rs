//! Checksums of what slots hold. They are kept with the drive's state, not beside the contents: so a page that was lost, or
//! that lies where another belongs, is noticed as well as one that has changed.

use super::disk::{DiskFile, read_full};
use crate::memory::SLOT;
use crc_fast::{CrcAlgorithm, checksum};
use device::SPARE_BYTES;
use media::Slot;
use std::fmt;
use std::io;

/// The checksum of a page that was written before there were checksums.
pub(crate) const UNKNOWN: u32 = 0;

/// The checksum of a page: CRC-32C, and 1 where that is [`UNKNOWN`].
#[inline]
pub(crate) fn sum(page: &[u8]) -> u32 {
    (checksum(CrcAlgorithm::Crc32Iscsi, page) as u32).max(1)
}

/// Where in the bytes beside a page their own checksum is. It covers those before it, and the page's.
const SPARE_SUM_OFFSET: usize = 72;

fn beside_sum(page_sum: u32, beside: &[u8; SPARE_BYTES]) -> u32 {
    let mut covered = [0; SPARE_SUM_OFFSET + 4];
    covered[..SPARE_SUM_OFFSET].copy_from_slice(&beside[..SPARE_SUM_OFFSET]);
    covered[SPARE_SUM_OFFSET..].copy_from_slice(&page_sum.to_le_bytes());
    sum(&covered)
}

/// Puts the checksum into the bytes beside a page.
pub(crate) fn seal(page_sum: u32, beside: &mut [u8; SPARE_BYTES]) {
    let sum = beside_sum(page_sum, beside);
    beside[SPARE_SUM_OFFSET..SPARE_SUM_OFFSET + 4].copy_from_slice(&sum.to_le_bytes());
}

/// Whether bytes were written beside the page with this checksum. Those of earlier versions have none.
pub(crate) fn belongs(page_sum: u32, beside: &[u8; SPARE_BYTES]) -> bool {
    page_sum == UNKNOWN
        || beside[SPARE_SUM_OFFSET..SPARE_SUM_OFFSET + 4] == beside_sum(page_sum, beside).to_le_bytes()
}

/// A slot does not hold what it should.
#[derive(Debug)]
pub(crate) struct Damage {
    slot: Slot,
    /// Whether it is what lies beside its page.
    beside: bool,
    /// What the host's disk said; `None` if it gave something else than was written.
    error: Option<io::Error>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = if self.beside { "spares" } else { "contents" };
        match &self.error {
            Some(e) => write!(f, "cannot read slot {} of the image's {file}: {e}", self.slot.0),
            None => write!(
                f,
                "slot {} of the image's {file} is damaged: the host's disk holds something else than what was written; \
                 `tranche image check` lists all such slots",
                self.slot.0
            ),
        }
    }
}

impl Damage {
    fn new(slot: Slot, error: Option<io::Error>) -> Self {
        Damage { slot, beside: false, error }
    }

    /// Damage of the spare bytes beside a page.
    pub(crate) fn beside(slot: Slot, error: Option<io::Error>) -> Self {
        Damage { slot, beside: true, error }
    }
}

/// Where a slot's page begins in the contents.
pub fn place(slot: Slot) -> u64 {
    u64::from(slot.0) * SLOT as u64
}

/// Reads a part of a slot's page, from byte `page` of it, and checks all of it; also if the part is empty.
pub(crate) fn read(
    contents: &dyn DiskFile,
    slot: Slot,
    expected: u32,
    page: u32,
    bytes: &mut [u8],
) -> Result<(), Damage> {
    if bytes.is_empty() {
        return read(contents, slot, expected, 0, &mut [0; SLOT]);
    }
    let failed = |e| Damage::new(slot, Some(e));
    if expected == UNKNOWN {
        // Every slot was written as a whole, so a file that ends within one was cut off.
        return match read_full(contents, place(slot) + u64::from(page), bytes).map_err(failed)? {
            true => Ok(()),
            false => Err(Damage::new(slot, None)),
        };
    }
    if bytes.len() == SLOT {
        read_full(contents, place(slot), bytes).map_err(failed)?;
        return check(slot, expected, bytes);
    }
    let mut whole = [0; SLOT];
    read_full(contents, place(slot), &mut whole).map_err(failed)?;
    check(slot, expected, &whole)?;
    bytes.copy_from_slice(&whole[page as usize..page as usize + bytes.len()]);
    Ok(())
}

/// Checks a slot's page.
#[inline]
pub(crate) fn check(slot: Slot, expected: u32, page: &[u8]) -> Result<(), Damage> {
    if expected == UNKNOWN || sum(page) == expected { Ok(()) } else { Err(Damage::new(slot, None)) }
}

/// The checksums of all slots.
pub(crate) struct Sums {
    table: Vec<u32>,
}

impl Sums {
    /// For `count` slots, with what is known of the first of them.
    pub(crate) fn new(count: u32, mut known: Vec<u32>) -> Self {
        known.resize(count as usize, UNKNOWN);
        Sums { table: known }
    }

    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> u32 {
        self.table.get(slot.0 as usize).copied().unwrap_or(UNKNOWN)
    }

    #[inline]
    pub(crate) fn set(&mut self, slot: Slot, sum: u32) {
        if let Some(place) = self.table.get_mut(slot.0 as usize) {
            *place = sum;
        }
    }

    /// Those of slots that `wanted` says are in use, for a checkpoint.
    pub(crate) fn kept(&self, wanted: impl Fn(u32) -> bool) -> Vec<u32> {
        let keep = |(slot, &sum): (u32, &u32)| if wanted(slot) { sum } else { UNKNOWN };
        let mut kept: Vec<u32> = (0..).zip(&self.table).map(keep).collect();
        kept.truncate(kept.iter().rposition(|&sum| sum != UNKNOWN).map_or(0, |last| last + 1));
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_lost_or_exchanged_is_noticed() {
        let page = [5; SLOT];
        let good = sum(&page);
        assert!(check(Slot(1), good, &page).is_ok());
        assert!(check(Slot(1), good, &[0; SLOT]).is_err());
        let mut changed = page;
        changed[4095] ^= 1;
        assert!(check(Slot(1), good, &changed).is_err());
        assert!(check(Slot(1), UNKNOWN, &changed).is_ok(), "of an earlier version");
        let mut beside = [3; SPARE_BYTES];
        seal(good, &mut beside);
        assert!(belongs(good, &beside) && !belongs(good + 1, &beside) && belongs(UNKNOWN, &beside));
        beside[64] ^= 2;
        assert!(!belongs(good, &beside));
    }

    #[test]
    fn checksums_of_slots_in_use_are_kept() {
        let mut sums = Sums::new(5, vec![1, 2]);
        sums.set(Slot(3), 9);
        sums.set(Slot(77), 9);
        assert_eq!((sums.get(Slot(1)), sums.get(Slot(3)), sums.get(Slot(77))), (2, 9, UNKNOWN));
        assert_eq!(sums.kept(|slot| slot != 0), [0, 2, 0, 9]);
        assert!(sums.kept(|_| false).is_empty());
    }
}
