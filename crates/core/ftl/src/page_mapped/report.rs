//! What a set says of itself.

use super::PageMappedSet;
use crate::answer::{MediaKind, SetInfo, SuperblockInfo, SuperblockUse};
use crate::config::PAGE;
use crate::flash::{Cycles, Superblock, SuperblockState};
use std::ops::Range;

impl PageMappedSet {
    pub fn in_words(&self) -> String {
        let describe = |(superblock, b): (u32, &Superblock)| {
            format!("{:?}:{}/{}+{}", b.state, self.valid.of(superblock), b.usable, b.programs)
        };
        let superblocks: Vec<String> = self.flash.superblocks().iter().map(describe).collect();
        format!(
            "die queues {:?}, programs {}, free {}, erasing {}, streams {:?}, collector {:?}, buffer {} pages in {} chunks, room {}, \
             {} writes wait, {} flushes, superblocks (state:valid/usable+programs) {}",
            self.flash.dies(),
            self.ops.taken(),
            self.flash.superblocks().free(),
            self.flash.superblocks().erasing(),
            self.streams,
            self.gc,
            self.buffer.waiting_pages(),
            self.buffer.used_chunks(),
            self.buffer.has_room(),
            self.waiting.len(),
            self.flushes.len(),
            superblocks.join(" ")
        )
    }

    /// Some of the superblocks, as far as this part of the set knows them: those of zones count as open.
    pub fn superblocks(&self, range: Range<u32>) -> Vec<SuperblockInfo> {
        let count = (range.end.saturating_sub(range.start)) as usize;
        let all = self.flash.superblocks().iter().skip(range.start as usize).take(count);
        all.map(|(superblock, b)| self.superblock(superblock, b)).collect()
    }

    fn superblock(&self, superblock: u32, b: &Superblock) -> SuperblockInfo {
        let is_victim = self.gc.is_active() && self.gc.victim() == superblock;
        let usage = match b.state {
            SuperblockState::Free => SuperblockUse::Free,
            SuperblockState::Open => SuperblockUse::Open,
            SuperblockState::Sealed if is_victim => SuperblockUse::Collecting,
            SuperblockState::Sealed => SuperblockUse::Closed,
            SuperblockState::Erasing => SuperblockUse::Erasing,
            SuperblockState::Dead => SuperblockUse::Bad,
        };
        SuperblockInfo {
            usage,
            usable: b.usable,
            written: self.flash.written_pages(superblock),
            valid: self.valid.of(superblock),
            erases: b.erases,
            zones: 0,
            zone: None,
        }
    }

    pub fn state(&self, capacity_bytes: u64, unallocated_bytes: u64) -> SetInfo {
        let capacity = u64::from(self.capacity);
        let geo = self.flash.geo();
        let raw = geo.pages();
        // The spare of a new drive, and what of it is left, beyond what is needed to go on at all.
        let needed = u64::from(self.gc.config.low) * u64::from(geo.pages_per_superblock());
        let spare = |pages: u64| pages.saturating_sub(capacity + needed);
        let percent = match spare(raw) {
            0 => 100,
            new => (spare(self.flash.superblocks().usable_pages()) * 100 / new).min(100),
        };
        let Cycles { mean, fewest, most, bad } = self.flash.cycles();
        let used = mean * 100 / u64::from(geo.rated_cycles.max(1));
        SetInfo {
            media: MediaKind::Nand,
            capacity_bytes,
            unallocated_bytes,
            raw_bytes: raw * u64::from(PAGE),
            spare_percent: percent as u8,
            used_percent: used.min(255) as u8,
            mean_cycles: mean as u32,
            min_cycles: fewest,
            max_cycles: most,
            rated_cycles: geo.rated_cycles,
            bad_blocks: bad,
            free_superblocks: self.flash.superblocks().free() as u32,
            read_only: self.read_only,
        }
    }
}
