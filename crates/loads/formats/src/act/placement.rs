//! Devices, and where on them requests go.

use super::config::{ActProgram, Config};
use super::rates::Rates;
use workload::Rng;

/// Bytes of an I/O of `act_index`.
const INDEX_IO: u32 = 4096;

/// A device of the test: a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Its size in logical blocks.
    pub blocks: u64,
    /// Bytes of a logical block: a power of two from 512 to 4096.
    pub block_bytes: u32,
    /// Whether it has a volatile write cache, so that each durable write is followed by a flush.
    pub volatile_cache: bool,
}

/// Where and how large the requests to a device are, in logical blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestPlacement {
    /// Places of large blocks, and the size of one.
    pub large: u64,
    pub large_blocks: u32,
    /// Places of small requests, the smallest size of one, and how many sizes there are.
    small: u64,
    small_blocks: u32,
    sizes: u32,
    /// Whether each write is followed by a flush.
    pub volatile_cache: bool,
}

impl RequestPlacement {
    pub(super) fn new(config: &Config, rates: &Rates, space: &Space) -> Result<RequestPlacement, String> {
        let block = space.block_bytes;
        if !(512..=4096).contains(&block) || !block.is_power_of_two() {
            return Err(format!("its blocks have {block} bytes: they must have 512, 1024, 2048 or 4096"));
        }
        let mut bytes = space.blocks.saturating_mul(block.into());
        if config.file_size_mbytes != 0 {
            let wanted = u64::from(config.file_size_mbytes) << 20;
            if wanted > bytes {
                return Err(format!("it has {bytes} bytes: file-size-mbytes is more"));
            }
            bytes = wanted;
        }
        let volatile_cache = space.volatile_cache && !config.disable_odsync;
        if config.kind == ActProgram::Index {
            let small = bytes / u64::from(INDEX_IO);
            if small == 0 {
                return Err(format!("it has {bytes} bytes: it needs {INDEX_IO}"));
            }
            let small_blocks = INDEX_IO / block;
            return Ok(RequestPlacement {
                large: 0,
                large_blocks: 0,
                small,
                small_blocks,
                sizes: 1,
                volatile_cache,
            });
        }
        let large_bytes = config.large_block_op_kbytes << 10;
        if large_bytes < block {
            return Err(format!("its blocks have {block} bytes: large-block-op-kbytes is less"));
        }
        let large = bytes / u64::from(large_bytes);
        let blocks = large * u64::from(large_bytes / block);
        let least = rates.record_stored_bytes.div_ceil(block);
        let most = rates.record_stored_bytes_max.div_ceil(block);
        let small = (blocks + 1).saturating_sub(most.into());
        if large == 0 || small == 0 {
            return Err(format!("it has {bytes} bytes: it needs one large block, and room for one record"));
        }
        let large_blocks = large_bytes / block;
        Ok(RequestPlacement {
            large,
            large_blocks,
            small,
            small_blocks: least,
            sizes: most - least + 1,
            volatile_cache,
        })
    }

    /// First block of a random large block.
    pub(super) fn large(&self, rng: &mut Rng) -> u64 {
        rng.below(self.large) * u64::from(self.large_blocks)
    }

    /// A small request: first block and blocks.
    pub(super) fn small(&self, rng: &mut Rng, kind: ActProgram) -> (u64, u32) {
        let more = if self.sizes == 1 { 0 } else { rng.below(self.sizes.into()) as u32 };
        let scale = if kind == ActProgram::Index { u64::from(self.small_blocks) } else { 1 };
        (rng.below(self.small) * scale, self.small_blocks + more)
    }
}
