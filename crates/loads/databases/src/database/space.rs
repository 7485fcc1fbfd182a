//! Where files lie on the namespaces.

/// A namespace that files lie on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Volume {
    /// Logical blocks.
    pub blocks: u64,
    /// Bytes of a logical block: a divisor of 4,096.
    pub block_bytes: u32,
}

impl Volume {
    /// Its size in bytes.
    pub(crate) fn bytes(self) -> u64 {
        self.blocks.saturating_mul(self.block_bytes.into())
    }

    /// Whether files can lie on it: blocks of 512 to 4,096 bytes.
    pub(crate) fn is_valid(self) -> bool {
        self.block_bytes >= 512 && 4096 % self.block_bytes == 0
    }
}

/// A run of logical blocks of one namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    /// The namespace, as the actor counts them.
    pub namespace: u16,
    /// Its first byte.
    pub start: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Bytes of a logical block.
    pub block_bytes: u64,
}

/// Blocks of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockRange {
    pub(crate) namespace: u16,
    pub(crate) lba: u64,
    pub(crate) blocks: u32,
}

impl Area {
    /// Bytes from here on, folded into the area; `at` and `bytes` are multiples of 4,096.
    pub(crate) fn place(&self, at: u64, bytes: u64) -> BlockRange {
        let room = self.bytes.saturating_sub(bytes) / 4096 + 1;
        let start = self.start + at / 4096 % room * 4096;
        BlockRange {
            namespace: self.namespace,
            lba: start / self.block_bytes,
            blocks: u32::try_from(bytes / self.block_bytes).unwrap_or(u32::MAX),
        }
    }
}

/// A database's pages in an area: in order, and folded onto it if they are more than it holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pages {
    pub(crate) area: Area,
    /// How many there are.
    pub(crate) count: u64,
    /// Bytes of each.
    pub(crate) bytes: u64,
}

impl Pages {
    /// Where a page lies.
    pub(crate) fn place(&self, page: u64) -> BlockRange {
        let room = self.area.bytes / self.bytes;
        let page = (u128::from(page) * u128::from(room) / u128::from(self.count.max(room))) as u64;
        self.area.place(page * self.bytes, self.bytes)
    }
}
