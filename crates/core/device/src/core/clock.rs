//! The wall clock that hosts set (Timestamp feature).

use media::Nanos;
use nvme::feature::Timestamp;

/// The drive's wall clock, as a host set it.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Clock {
    /// Milliseconds since 1970 at `since`; 0 if no host has told.
    millis: u64,
    since: Nanos,
    by_host: bool,
}

impl Clock {
    pub fn read(&self, now: Nanos) -> Timestamp {
        Timestamp::new(self.millis.saturating_add(now.since(self.since).0 / 1_000_000), self.by_host)
    }

    /// A host tells the time.
    pub fn set(&mut self, millis: u64, now: Nanos) {
        *self = Clock { millis, since: now, by_host: true };
    }

    /// Power was lost: the clock starts from zero.
    pub fn reset(&mut self, now: Nanos) {
        *self = Clock { millis: 0, since: now, by_host: false };
    }
}
