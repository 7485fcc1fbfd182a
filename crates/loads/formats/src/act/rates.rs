//! What follows from a configuration.

use super::config::{ActProgram, Config};
use workload::Nanos;

/// Records are stored in units of so many bytes.
const RECORD_UNIT: u32 = 16;

/// So many per second, as a fraction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rate {
    pub of: u64,
    pub per: u64,
}

impl Rate {
    const ZERO: Rate = Rate { of: 0, per: 1 };

    /// When the `count`th of them is due, in whole microseconds after the start, if the rate is shared by `among`.
    pub(super) fn due(self, count: u64, among: u64) -> Nanos {
        let top = u128::from(count) * 1_000_000 * u128::from(among) * u128::from(self.per);
        let micros = top / u128::from(self.of.max(1));
        u64::try_from(micros).unwrap_or(u64::MAX).saturating_mul(1000)
    }

    /// In hundredths, rounded.
    pub(super) fn hundredths(self) -> u64 {
        let top = u128::from(self.of) * 200 + u128::from(self.per);
        u64::try_from(top / (2 * u128::from(self.per))).unwrap_or(u64::MAX)
    }
}

/// The derived configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rates {
    /// Stored bytes of the smallest record: in units of 16 bytes.
    pub record_stored_bytes: u32,
    /// Stored bytes of the largest record.
    pub record_stored_bytes_max: u32,
    /// Small reads per second, of all devices.
    pub reads: u64,
    /// Small writes per second, of all devices: 0 unless each record is committed by itself.
    pub writes: u64,
    /// Large-block reads per second, of all devices (`act_index`: 0).
    pub(super) large_reads: Rate,
    /// Large-block writes per second, of all devices (`act_index`: 0).
    pub(super) large_writes: Rate,
    /// Reads, and as many writes, of the cache threads per second (`act_storage`: 0).
    pub cache: u64,
}

impl Rates {
    /// Large-block reads per second of all devices, in hundredths.
    #[must_use]
    pub fn large_reads_hundredths(&self) -> u64 {
        self.large_reads.hundredths()
    }

    /// Large-block writes per second of all devices, in hundredths.
    #[must_use]
    pub fn large_writes_hundredths(&self) -> u64 {
        self.large_writes.hundredths()
    }
}

impl Config {
    /// The rates that follow from it, as the tool derives them.
    ///
    /// # Errors
    /// A key, and why its value gives no load.
    pub fn rates(&self) -> Result<Rates, (&'static str, String)> {
        let (reads, writes) = (u64::from(self.read_reqs_per_sec), u64::from(self.write_reqs_per_sec));
        if reads + writes == 0 {
            let problem = "read-reqs-per-sec and write-reqs-per-sec are both 0 or missing: set one of them";
            return Err(("read-reqs-per-sec", problem.to_owned()));
        }
        let replicated = writes * u64::from(self.replication_factor);
        let lwm = u64::from(self.defrag_lwm_pct.min(99));
        let rates = if self.kind == ActProgram::Index {
            Rates {
                record_stored_bytes: 0,
                record_stored_bytes_max: 0,
                reads: reads + replicated,
                writes: 0,
                large_reads: Rate::ZERO,
                large_writes: Rate::ZERO,
                cache: replicated * 100 / (100 - lwm),
            }
        } else {
            let stored = self.record_bytes.next_multiple_of(RECORD_UNIT);
            let most = match self.record_bytes_range_max {
                0 => stored,
                most => most.next_multiple_of(RECORD_UNIT),
            };
            let average = u64::midpoint(stored.into(), most.into());
            let records = (u64::from(self.large_block_op_kbytes) << 10) / average.max(1);
            if records == 0 {
                let problem = format!(
                    "large-block-op-kbytes is {}: not one record of {average} bytes fits into such a block",
                    self.large_block_op_kbytes
                );
                return Err(("large-block-op-kbytes", problem));
            }
            let all = Rate { of: replicated * 100, per: records * (100 - lwm) };
            let commit = self.commit_to_device;
            Rates {
                record_stored_bytes: stored,
                record_stored_bytes_max: most,
                reads: reads + writes * u64::from(self.update_pct) / 100,
                writes: if commit { replicated } else { 0 },
                large_reads: if self.no_defrag_reads { Rate::ZERO } else { all },
                large_writes: if commit { Rate { of: replicated * lwm, ..all } } else { all },
                cache: 0,
            }
        };
        let small = rates.reads + rates.writes;
        if small != 0 && small < u64::from(self.service_threads) {
            let problem = format!(
                "service-threads is {}: that is more than the {small} small requests per second that they share",
                self.service_threads
            );
            return Err(("service-threads", problem));
        }
        Ok(rates)
    }
}
