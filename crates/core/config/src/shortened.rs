//! A shorter drive that is as fast.

use crate::config::{Config, GRANULE_BYTES};
use ftl::PAGE;

/// Programs that fill a shortened block at least. With two or three, dies wait where one superblock ends and the next begins, and random
/// writes are up to a third slower than on the whole drive; with sixteen they are within 2 %.
const LEAST_UNITS: u64 = 16;

impl Config {
    /// Bytes of the largest superblock of its flash; zero without flash.
    pub fn largest_superblock(&self) -> u64 {
        let pages = self.ftl.sets.iter().map(|set| set.properties().superblock_pages);
        u64::from(pages.max().unwrap_or(0)) * u64::from(PAGE)
    }

    /// The same drive with shorter blocks, and so less capacity: each NAND set offers just more than `bytes`, or what blocks of sixteen programs
    /// make, if it offers more now. `None` if nothing changes.
    ///
    /// Channels, dies, planes, superblocks, spare and write buffer stay, and so do all times but that of an erase, which shrinks
    /// with the block: erasing takes the same share of a die's time. So it has the rates and latencies of the whole drive,
    /// and the write amplification except for what a write buffer that is larger beside the capacity saves. Namespaces shrink with their sets.
    #[must_use]
    pub fn shortened(&self, bytes: u64) -> Option<Config> {
        let mut short = self.clone();
        let mut changed = false;
        // Numerator and denominator of each set's share.
        let mut shares = Vec::new();
        for set in &mut short.ftl.sets {
            let share = set.shorten(bytes, LEAST_UNITS);
            changed |= share.is_some();
            shares.push(share.unwrap_or((1, 1)));
        }
        for namespace in &mut short.namespaces {
            let (after, before) = *shares.get(usize::from(namespace.set).checked_sub(1)?)?;
            if after < before {
                let bytes = u128::from(namespace.bytes) * u128::from(after) / u128::from(before);
                // Whole granules together fit in the set's, each as a share of its own.
                let bytes = u64::try_from(bytes).ok()? / GRANULE_BYTES * GRANULE_BYTES;
                namespace.bytes = bytes.max(GRANULE_BYTES);
            }
        }
        (changed && short.check().is_ok()).then_some(short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive_toml::DEFAULT_DRIVE;

    #[test]
    fn a_shortened_drive_is_the_same_with_shorter_blocks() {
        let long = Config::from_toml(
            &DEFAULT_DRIVE
                .replace("capacity = \"2GiB\"", "capacity = \"64GiB\"")
                .replace("pages_per_block = 48", "pages_per_block = 1536")
                .replace("size = \"1GiB\"", "size = \"32GiB\""),
        )
        .unwrap();
        let short = long.shortened(2 << 30).unwrap();
        let (l, s) = (long.ftl.sets[0].properties(), short.ftl.sets[0].properties());
        assert_eq!(l.block_pages, s.block_pages * 32);
        assert_eq!(l.erase_time.0, s.erase_time.0 * 32);
        assert_eq!((l.superblocks, l.units), (s.superblocks, s.units));
        assert_eq!(short.ftl.sets[0].capacity_pages(), (2 << 30) / PAGE);
        assert_eq!(short.namespaces[0].bytes, 1 << 30);
        assert_eq!(short.ftl.sets[1], long.ftl.sets[1]);
        // One that is short already stays as it is.
        assert_eq!(short.shortened(2 << 30), None);
        assert_eq!(Config::default_drive().shortened(1 << 40), None);
    }
}
