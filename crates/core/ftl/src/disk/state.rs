//! What of a disk outlives the process, as bytes; all little endian.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | "TDSK" |
//! | 4 | version: 1 |
//! | 4 | pages of the set |
//! | 8, then 8 each | sectors that cannot be read: how many, and which |
//! | 8, then 20 each | slow sectors: how many; first (8), count (8), revolutions (4) |
//! | 8, then 8 each | pages that hold something: how many; page (4), slot (4) |

use super::{DiskSet, SectorState};
use media::disk::shape::DiskShape;
use media::{FaultPlan, Slot, Spare};

const MAGIC: [u8; 4] = *b"TDSK";
const VERSION: u32 = 1;

/// Reads numbers one after the other.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (head, rest) = self.0.split_first_chunk().ok_or("the state of a disk ends too early")?;
        self.0 = rest;
        Ok(*head)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.take().map(u64::from_le_bytes)
    }
}

impl DiskSet {
    /// Appends its state: what a power cut would leave if all that was accepted were saved.
    pub fn save(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.table.pages().to_le_bytes());
        let unreadable = self.disk.unreadable().iter().filter(|&&sector| !self.requests.rewrite(sector));
        out.extend_from_slice(&(unreadable.clone().count() as u64).to_le_bytes());
        out.extend(unreadable.flat_map(|sector| sector.to_le_bytes()));
        out.extend_from_slice(&(self.disk.slow_sectors().len() as u64).to_le_bytes());
        for slow in self.disk.slow_sectors() {
            out.extend_from_slice(&slow.first.to_le_bytes());
            out.extend_from_slice(&slow.count.to_le_bytes());
            out.extend_from_slice(&slow.revolutions.to_le_bytes());
        }
        out.extend_from_slice(&self.table.count(0..self.table.pages()).to_le_bytes());
        for (page, slot) in self.table.iter() {
            out.extend_from_slice(&page.to_le_bytes());
            out.extend_from_slice(&slot.0.to_le_bytes());
        }
    }

    /// Takes over a state that [`save`](DiskSet::save) wrote, of a disk that holds nothing.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn load(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut from = Numbers(bytes);
        if from.take()? != MAGIC {
            return Err("it is not the state of a disk".into());
        }
        let (version, pages) = (from.u32()?, from.u32()?);
        if version != VERSION {
            return Err(format!(
                "the state of a disk has version {version}; this program knows version {VERSION}"
            ));
        }
        if pages != self.table.pages() {
            return Err(format!("the disk has {pages} pages; the configuration has {}", self.table.pages()));
        }
        let beyond = |sector: u64| format!("sector {sector} is not on the disk");
        for _ in 0..from.u64()? {
            let sector = from.u64()?;
            if !self.apply_sectors((sector, 1), SectorState::Unreadable) {
                return Err(beyond(sector));
            }
        }
        for _ in 0..from.u64()? {
            let (first, count, revolutions) = (from.u64()?, from.u64()?, from.u32()?);
            let count = u32::try_from(count).map_err(|_| beyond(first))?;
            if !self.apply_sectors((first, count), SectorState::Slow(revolutions)) {
                return Err(beyond(first));
            }
        }
        for _ in 0..from.u64()? {
            let (page, slot) = (from.u32()?, Slot(from.u32()?));
            if !self.apply_page(page, Some(slot)) {
                return Err(format!("page {page} is not on the disk"));
            }
        }
        match from.0 {
            [] => Ok(()),
            rest => Err(format!("{} bytes follow the state of a disk", rest.len())),
        }
    }

    /// Applies what a journal says of a page; whether there is such a page.
    pub fn apply_page(&mut self, page: u32, slot: Option<Slot>) -> bool {
        if page >= self.table.pages() {
            return false;
        }
        match slot {
            Some(slot) => self.table.set(page, slot),
            None => self.table.take(page),
        };
        true
    }

    /// Applies what a journal says was given up; whether there are such pages.
    pub fn apply_clear(&mut self, first: u32, count: u32) -> bool {
        let Some(end) = first.checked_add(count).filter(|&end| end <= self.table.pages()) else {
            return false;
        };
        (first..end).for_each(|page| {
            self.table.take(page);
        });
        true
    }

    /// Without power: the arm stands, the buffer is empty, and nobody waits. What outlives power stays.
    pub fn park(&mut self, shape: &DiskShape, plan: FaultPlan) {
        let mut state = Vec::new();
        self.save(&mut state);
        let (id, pages) = (self.id, self.table.pages());
        let stats = self.stats;
        // Both were possible before.
        if let Ok(mut parked) = DiskSet::new(id, shape, pages, self.timed, self.durable, plan)
            && parked.load(&state).is_ok()
        {
            parked.stats = stats;
            *self = parked;
        }
    }

    /// What a record of a page says: [`Spare::EMPTY`] is nothing.
    pub fn slot_of_record(spare: &Spare) -> Option<Slot> {
        (spare.page != media::LogicalPage::NONE).then_some(spare.slot)
    }
}
