//! What the machine on which the tool runs adds to its threads.

use workload::Nanos;

/// Times of the host, in nanoseconds. [`HostTime::NONE`] is a host that takes no time: then all threads start at once, go on in the moment at which they
/// are due, and are limited by the drive alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostTime {
    /// What a thread takes for a small request: the system call, and to be woken up for it.
    pub small: Nanos,
    /// What a thread takes for reading a large block: the system call, and to be woken up at its end.
    pub large_read: Nanos,
    /// The same for writing one.
    pub large_write: Nanos,
    /// What it takes, besides, to fill the large block with random bytes before it is written.
    pub fill: Nanos,
    /// A thread that sleeps until it is due goes on later than that, by this at most: any time up to it is equally likely.
    pub slack: Nanos,
    /// Threads start one after the other, so far apart.
    pub start: Nanos,
}

impl HostTime {
    /// A host that takes no time.
    pub const NONE: HostTime =
        HostTime { small: 0, large_read: 0, large_write: 0, fill: 0, slack: 0, start: 0 };

    /// A Linux host, measured on a virtual machine with processors "AMD EPYC" and Linux 6.18, whose kernel talks to its disk through the hypervisor:
    /// - a processor's time for a call with direct I/O (`crates/lab/studies/examples/act_host.rs`),
    /// - 48 µs for the tool's own `rand_fill`, built by its own Makefile, which does not optimize,
    /// - a thousandth of the time in which 1,000 threads start.
    ///
    /// A write is taken to cost what a read does. The slack is Linux's for the timers of usual threads (prctl(2), `PR_SET_TIMERSLACK`).
    pub const LINUX: HostTime = HostTime {
        small: 20_000,
        large_read: 32_000,
        large_write: 32_000,
        fill: 48_000,
        slack: 50_000,
        start: 50_000,
    };
}
