//! Whether what a set keeps in memory agrees with itself and with its chips: for tests.

use super::PageMappedSet;
use super::bits::bit;
use super::buffer::NONE;
use super::map::{BUFFERED, UNMAPPED, has_contents};
use media::{LogicalPage, Medium, Page, Slot};

impl PageMappedSet {
    /// Looks at everything; says what does not fit. There is at most one valid copy on flash of each page, which is the
    /// newest that has landed; counts are right.
    pub fn check_consistency(&self) -> Result<(), String> {
        self.buffer.audit()?;
        let pages = self.flash.geo().pages() as u32;
        let per_superblock = self.flash.geo().pages_per_superblock();
        let mut valid = vec![0; self.flash.geo().superblocks as usize];
        for page in (0..pages).filter(|&p| self.valid.holds(p)) {
            valid[(page / per_superblock) as usize] += 1;
            let logical = self.flash.nand.inner().logical(Page(page)).0;
            if self.copy_of(logical) != page {
                return Err(format!(
                    "flash page {page} is valid, and the copy of page {logical} is {}",
                    self.copy_of(logical)
                ));
            }
        }
        for (superblock, valid) in (0..).zip(valid) {
            let counted = self.valid.of(superblock);
            if counted != valid {
                return Err(format!("superblock {superblock}: {counted} valid pages counted, {valid} there"));
            }
        }
        for logical in 0..self.capacity {
            let at = self.map.at(logical);
            if at != UNMAPPED && at & BUFFERED != 0 && self.buffer.entry(at ^ BUFFERED).page != logical {
                return Err(format!("the map has page {logical} in an entry of another"));
            }
            let copy = self.copy_of(logical);
            if copy != NONE && !self.valid.holds(copy) {
                return Err(format!("the copy of page {logical}, flash page {copy}, is not valid"));
            }
        }
        if self.flash.is_durable() { self.audit_versions() } else { Ok(()) }
    }

    /// The contents that are referred to, as often as they are.
    pub fn all_references(&self) -> Vec<Slot> {
        let on_flash =
            (0..self.flash.geo().pages() as u32).filter(|&p| self.flash.is_durable() && self.valid.holds(p));
        let on_flash = on_flash.map(|p| self.flash.nand.inner().slot(Page(p)));
        let carried = self.ops.carried().map(|(_, slot)| slot);
        let mut all: Vec<Slot> = on_flash.chain(carried).filter(|&slot| has_contents(slot)).collect();
        all.extend(self.buffer.entries().map(|(_, entry)| entry.slot));
        all
    }

    /// The valid copy of a page on flash, or [`NONE`].
    fn copy_of(&self, logical: u32) -> u32 {
        match self.map.get(logical) {
            None | Some(UNMAPPED) => NONE,
            Some(at) if at & BUFFERED == 0 => at,
            Some(at) => self.buffer.entry(at ^ BUFFERED).old,
        }
    }

    fn audit_versions(&self) -> Result<(), String> {
        let under_way: Vec<u32> = self.flash.units_under_way().map(|unit| unit.0).collect();
        for page in self.mapped_pages() {
            let spare = self.flash.nand.spare(Page(page));
            let LogicalPage(logical) = spare.page;
            if logical >= self.capacity || under_way.contains(&(page / self.flash.geo().unit_pages)) {
                continue;
            }
            let copy = self.copy_of(logical);
            if copy == NONE && !bit(&self.trimmed, logical) {
                return Err(format!("flash page {page} holds page {logical}, which has no copy on flash"));
            }
            let newest =
                if copy == NONE { u64::MAX } else { self.flash.nand.inner().spare(Page(copy)).version };
            if newest < spare.version {
                return Err(format!(
                    "page {logical}: version {newest} on flash page {copy} is valid, and version {} is on {page}",
                    spare.version
                ));
            }
        }
        Ok(())
    }
}
