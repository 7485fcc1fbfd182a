//! What each page of a disk holds now: its contents as the controller sees them, whether they are on the platters yet or not.
//!
//! A disk may have a thousand million pages, and most laboratories write few of them. So a granule has memory from its first write on, and
//! memory for handles only where there are any.

use crate::config::GRANULE_PAGES;
use media::Slot;
use std::ops::Range;

const PAGES: usize = GRANULE_PAGES as usize;

/// Pages of a granule.
#[derive(Clone)]
struct Granule {
    /// Bit *n*: page *n* holds something.
    held: [u64; PAGES / 64],
    /// Handles; `None` if none is other than [`Slot::NONE`].
    slots: Option<Box<[Slot; PAGES]>>,
}

impl Granule {
    const EMPTY: Granule = Granule { held: [0; PAGES / 64], slots: None };

    fn holds(&self, at: usize) -> bool {
        self.held[at / 64] >> (at % 64) & 1 == 1
    }

    fn slot(&self, at: usize) -> Slot {
        self.slots.as_ref().map_or(Slot::NONE, |slots| slots[at])
    }
}

/// Page to handle.
#[derive(Clone)]
pub(super) struct PageTable {
    granules: Vec<Option<Box<Granule>>>,
}

fn split(page: u32) -> (usize, usize) {
    ((page / GRANULE_PAGES) as usize, (page % GRANULE_PAGES) as usize)
}

impl PageTable {
    pub fn new(pages: u32) -> PageTable {
        PageTable { granules: vec![None; pages.div_ceil(GRANULE_PAGES) as usize] }
    }

    pub fn pages(&self) -> u32 {
        self.granules.len() as u32 * GRANULE_PAGES
    }

    /// The handle of a page; `None` if it holds nothing.
    #[inline]
    pub fn get(&self, page: u32) -> Option<Slot> {
        let (granule, at) = split(page);
        let granule = self.granules.get(granule)?.as_deref()?;
        granule.holds(at).then(|| granule.slot(at))
    }

    /// A page holds something else. Returns what it held.
    #[inline]
    pub fn set(&mut self, page: u32, slot: Slot) -> Option<Slot> {
        let (granule, at) = split(page);
        let granule = self.granules[granule].get_or_insert_with(|| Box::new(Granule::EMPTY));
        let before = granule.holds(at).then(|| granule.slot(at));
        granule.held[at / 64] |= 1 << (at % 64);
        match &mut granule.slots {
            Some(slots) => slots[at] = slot,
            None if slot == Slot::NONE => {}
            None => granule.slots.insert(Box::new([Slot::NONE; PAGES]))[at] = slot,
        }
        before
    }

    /// A page holds nothing from now on. Returns what it held.
    pub fn take(&mut self, page: u32) -> Option<Slot> {
        let (granule, at) = split(page);
        let place = self.granules.get_mut(granule)?;
        let granule = place.as_deref_mut()?;
        let slot = granule.holds(at).then(|| granule.slot(at))?;
        granule.held[at / 64] &= !(1 << (at % 64));
        if granule.held == [0; PAGES / 64] {
            *place = None;
        }
        Some(slot)
    }

    /// How many of these pages hold something.
    pub fn count(&self, pages: Range<u32>) -> u64 {
        let (first, end) = (pages.start, pages.end.min(self.pages()));
        let mut page = first;
        let mut count = 0;
        while page < end {
            let (granule, at) = split(page);
            let stop = end.min((granule as u32 + 1) * GRANULE_PAGES);
            if let Some(granule) = self.granules[granule].as_deref() {
                count += match (stop - page) == GRANULE_PAGES {
                    true => granule.held.iter().map(|word| u64::from(word.count_ones())).sum::<u64>(),
                    false => (at..at + (stop - page) as usize).filter(|&at| granule.holds(at)).count() as u64,
                };
            }
            page = stop;
        }
        count
    }

    /// All pages that hold something, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Slot)> {
        (0..).zip(&self.granules).filter_map(|(i, granule)| Some((i, granule.as_deref()?))).flat_map(
            |(i, granule): (u32, &Granule)| {
                let held = (0..PAGES).filter(|&at| granule.holds(at));
                held.map(move |at| (i * GRANULE_PAGES + at as u32, granule.slot(at)))
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_was_set_and_counts_it() {
        let mut table = PageTable::new(1000);
        assert_eq!((table.pages(), table.get(5), table.get(5000)), (1024, None, None));
        assert_eq!(table.set(5, Slot::NONE), None);
        assert_eq!(table.set(5, Slot(9)), Some(Slot::NONE));
        assert_eq!(table.set(300, Slot(7)), None);
        assert_eq!(table.set(1023, Slot::NONE), None);
        assert_eq!(table.iter().collect::<Vec<_>>(), [(5, Slot(9)), (300, Slot(7)), (1023, Slot::NONE)]);
        assert_eq!([table.count(0..1024), table.count(6..301), table.count(0..5)], [3, 1, 0]);
        assert_eq!((table.take(300), table.take(300), table.get(300)), (Some(Slot(7)), None, None));
        assert!(table.granules[1].is_none(), "an empty granule takes no memory");
    }
}
