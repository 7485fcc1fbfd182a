//! Batches of pages on their way to the drive.

/// What a batch does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Its pages are being copied, checksummed and submitted.
    Gather,
    /// Until the log of its pages' changes is durable.
    Log,
    /// Until its shard of the doublewrite buffer is free.
    Shard,
    /// Copies are being written, or wait until those of another shard are.
    Copy,
    /// Their file is being synced.
    CopySync,
    /// Pages are being written.
    Pages,
    /// Their files are being synced, one after the other.
    PagesSync,
}

/// A batch of one flusher.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) phase: Phase,
    /// Frames, with their positions of the log when they were gathered.
    pub(super) pages: Vec<(u32, u64)>,
    /// Commands under way.
    pub(super) parts: u32,
    /// Tablespaces that are still to be synced, a bit each.
    pub(super) unsynced: u32,
}

/// Why a flusher works, and what it is at. Each has one batch at a time.
#[derive(Clone, Debug)]
pub(super) struct Flusher {
    pub(super) batch: Option<Batch>,
    /// Pages that the list flusher may still write in this second.
    pub(super) quota: u32,
}

/// A shard of the doublewrite buffer, or its file: which flusher has it, and who waits for it.
#[derive(Clone, Default, Debug)]
pub(super) struct Shard {
    pub(super) owner: Option<u32>,
    pub(super) queue: std::collections::VecDeque<u32>,
}
