//! What a set says of itself.

use super::NandSet;
use crate::answer::{MediaKind, SetInfo};
use crate::config::PAGE;
use media::{Medium, Unit};

impl NandSet {
    pub(super) fn in_words(&self) -> String {
        let blocks: Vec<String> = self
            .superblocks
            .all
            .iter()
            .map(|b| format!("{:?}:{}/{}+{}", b.state, b.valid, b.usable, b.ops))
            .collect();
        format!(
            "die queues {:?}, programs {}, free {}, erasing {:?}, streams {:?}, collector {:?}, buffer {} pages in {} chunks, room {}, \
             {} writes wait, {} flushes, superblocks (state:valid/usable+ops) {}",
            self.die_queues,
            self.ops.len() - self.free_ops.len(),
            self.superblocks.free.len(),
            self.superblocks.erasing,
            self.streams,
            self.gc,
            self.buffer.waiting_pages(),
            self.buffer.used_chunks(),
            self.buffer.has_room(),
            self.waiting.len(),
            self.flushes.len(),
            blocks.join(" ")
        )
    }

    pub(super) fn state(&self, capacity_bytes: u64, unallocated_bytes: u64) -> SetInfo {
        let capacity = u64::from(self.capacity);
        let raw = self.geo.pages();
        // The spare of a new drive, and what of it is left, beyond what is needed to go on at all.
        let needed = u64::from(self.gc_config.low) * u64::from(self.geo.pages_per_superblock());
        let spare = |pages: u64| pages.saturating_sub(capacity + needed);
        let percent = match spare(raw) {
            0 => 100,
            new => (spare(self.superblocks.usable_pages()) * 100 / new).min(100),
        };
        let blocks = || (0..self.geo.superblocks).flat_map(|b| (0..self.geo.dies).map(move |d| (b, d)));
        let unit = |(b, d): (u32, u32)| Unit(b * self.geo.units_per_superblock() + d);
        let (mut cycles, mut fewest, mut most, mut bad) = (0u64, u32::MAX, 0, 0);
        for at in blocks() {
            let wear = self.nand.wear(unit(at));
            cycles += u64::from(wear);
            fewest = fewest.min(wear);
            most = most.max(wear);
            bad += u32::from(self.nand.is_bad(unit(at)));
        }
        let mean = cycles / u64::from(self.geo.superblocks * self.geo.dies);
        let used = mean * 100 / u64::from(self.geo.rated_cycles.max(1));
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
            rated_cycles: self.geo.rated_cycles,
            bad_blocks: bad,
            free_superblocks: self.superblocks.free.len() as u32,
            read_only: self.read_only,
        }
    }
}
