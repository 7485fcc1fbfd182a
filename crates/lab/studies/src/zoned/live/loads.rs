//! What is run on the databases.

/// What is run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Load {
    /// sysbench's `oltp_read_only`: 14 queries.
    ReadOnly,
    /// sysbench's `oltp_write_only`: 4 changes.
    WriteOnly,
    /// sysbench's `oltp_read_write`: both.
    ReadWrite,
    /// db_bench's `fillrandom`: an empty database is filled.
    Fill,
    /// db_bench's `overwrite`: keys at random get new values.
    Overwrite,
    /// db_bench's `readwhilewriting`: as many reads as can be, beside one that overwrites.
    ReadWhileWriting,
    /// The same; the writes have a limit.
    ReadWhileLimited,
}

impl Load {
    /// All of them, in the order in which they run.
    pub const ALL: [Self; 7] = [
        Self::WriteOnly,
        Self::ReadWrite,
        Self::ReadOnly,
        Self::Fill,
        Self::Overwrite,
        Self::ReadWhileWriting,
        Self::ReadWhileLimited,
    ];

    /// Whether db_bench runs it; otherwise sysbench does.
    pub(super) fn is_db_bench(self) -> bool {
        matches!(self, Self::Fill | Self::Overwrite | Self::ReadWhileWriting | Self::ReadWhileLimited)
    }

    /// Whether what counts are reads, of so many threads as there are connections, beside one that writes.
    pub(super) fn reads_beside_writes(self) -> bool {
        matches!(self, Self::ReadWhileWriting | Self::ReadWhileLimited)
    }

    /// What the program calls it.
    pub(super) fn script(self) -> &'static str {
        match self {
            Self::ReadOnly => "oltp_read_only",
            Self::WriteOnly => "oltp_write_only",
            Self::ReadWrite => "oltp_read_write",
            Self::Fill => "fillrandom",
            Self::Overwrite => "overwrite",
            Self::ReadWhileWriting | Self::ReadWhileLimited => "readwhilewriting",
        }
    }

    /// What people call it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::ReadWhileWriting => "readwhilewriting, writes without a limit",
            Self::ReadWhileLimited => "readwhilewriting, writes limited",
            other => other.script(),
        }
    }

    /// What metrics of this load begin with.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::WriteOnly => "write_only",
            Self::ReadWrite => "read_write",
            Self::Fill => "fill",
            Self::Overwrite => "overwrite",
            Self::ReadWhileWriting => "read_while_writing",
            Self::ReadWhileLimited => "read_while_limited",
        }
    }

    /// The rate: transactions or operations per second.
    pub(super) fn rate(self) -> &'static str {
        if self.is_db_bench() { "ops_per_second" } else { "tps" }
    }

    /// Bytes of flash for what the load writes.
    pub(super) fn flash(self) -> &'static str {
        if self.is_db_bench() { "flash_bytes_per_write" } else { "flash_bytes_per_transaction" }
    }

    /// The figures that are compared.
    pub(super) fn compared(self) -> Vec<&'static str> {
        let mut metrics = vec![self.rate()];
        if self.reads_beside_writes() {
            metrics.push("writes_per_second");
        }
        metrics.extend(["p99_ms", "p999_ms"]);
        if self.is_db_bench() {
            metrics.extend(["p9999_ms", "drive_write_amplification"]);
        }
        metrics.extend([self.flash(), "lifetime_years"]);
        metrics
    }
}
