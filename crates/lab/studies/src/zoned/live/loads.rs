//! What is run on the databases.

use clap::ValueEnum;

/// What sysbench runs on MyRocks and InnoDB in the live study, and db_bench on RocksDB.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Load {
    /// sysbench oltp_write_only
    WriteOnly,
    /// sysbench oltp_read_write
    ReadWrite,
    /// sysbench oltp_read_only
    ReadOnly,
    /// db_bench fillrandom, to the last key
    Fill,
    /// db_bench overwrite
    Overwrite,
    /// db_bench readwhilewriting
    ReadWhileWriting,
    /// db_bench readwhilewriting, writes limited to 640 KiB/s: the published 20 MiB/s, scaled as zn540-lab is
    ReadWhileLimited,
}

impl Load {
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
