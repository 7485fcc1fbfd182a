//! What the benchmarks share.

use device::{Config, ControllerId, Drive, Origin, Output};
use ftl::NoContents;
use media::Nanos;
use nvme::Nqn;
use nvme::property::{Cc, PropertyOffset};

/// CPU time of this thread in nanoseconds. The kernel's accounts under /proc are brought up to date only at its ticks.
pub fn cpu() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("not negative")
}

/// A drive with an enabled controller and an I/O queue, and room for what it says.
pub fn enabled(config: Config) -> (Drive, ControllerId, Vec<Output>) {
    let mut drive = Drive::new(config).expect("a good configuration");
    let host = Nqn::new("nqn.2026-11.bench:host").expect("a name");
    let id = drive.connect(Nanos::ZERO, &host, [1; 16], 0xFFFF, 0, Origin::InProcess).expect("a controller");
    let mut out = Vec::with_capacity(1024);
    let cc = Cc::new().with_en(true).into_bits().get().into();
    drive
        .property_set(Nanos::ZERO, id, PropertyOffset::CC, false, cc, &mut NoContents, &mut out)
        .expect("enabled");
    drive.add_queue(id, 1, 1024).expect("a queue");
    (drive, id, out)
}
