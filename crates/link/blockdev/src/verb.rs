//! What can be asked of a block device.

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verb {
    /// Read logical blocks.
    Read,
    /// Write logical blocks.
    Write,
    /// Deallocate logical blocks.
    Trim,
    /// Make what was written durable.
    Flush,
    /// Read logical blocks with Force Unit Access.
    ReadFua,
    /// Write logical blocks with Force Unit Access: durable when it ends.
    WriteFua,
    /// Write logical blocks with what others of the same namespace hold (NVMe's Copy).
    Copy {
        /// The first of them, in the unit of the place that is written.
        from: u64,
        /// With Force Unit Access.
        fua: bool,
    },
    /// Make logical blocks read as zeroes.
    WriteZeroes {
        /// Give their space back where the device can.
        deallocate: bool,
    },
    /// Append logical blocks to the zone that begins at the operation's first block. The device chooses the place: the zone's
    /// write pointer. An append that is cut becomes several, which need not lie side by side.
    Append,
    /// Change the zone that begins at the operation's first block. The operation has no blocks.
    Zone(ZoneAction),
}

/// What happens to a zone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ZoneAction {
    /// It becomes full, however much of it is written.
    Finish,
    /// It becomes empty, and what was written is gone.
    Reset,
}

impl Verb {
    /// Whether it has Force Unit Access.
    #[inline]
    #[must_use]
    pub fn fua(self) -> bool {
        matches!(self, Verb::ReadFua | Verb::WriteFua | Verb::Copy { fua: true, .. })
    }

    /// The same without Force Unit Access.
    #[inline]
    #[must_use]
    pub fn plain(self) -> Verb {
        match self {
            Verb::ReadFua => Verb::Read,
            Verb::WriteFua => Verb::Write,
            Verb::Copy { from, .. } => Verb::Copy { from, fua: false },
            plain => plain,
        }
    }

    /// Whether the device fills a buffer with the blocks.
    #[inline]
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, Verb::Read | Verb::ReadFua)
    }

    /// Whether the device takes the blocks from a buffer.
    #[inline]
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, Verb::Write | Verb::WriteFua | Verb::Append)
    }
}
