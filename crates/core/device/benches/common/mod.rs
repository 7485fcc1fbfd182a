//! What the benchmarks share.

use device::{Config, ControllerId, Drive, Host, Origin, Output};
use ftl::NoContents;
use media::Nanos;
use nvme::Nqn;
use nvme::property::{Cc, PropertyOffset};

/// CPU time of this thread in nanoseconds. The kernel's accounts under /proc are brought up to date only at its ticks.
pub fn cpu() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("not negative")
}

/// The drive of the benchmarks: 64 dies of so many blocks with 256 pages of 4 KiB. `more` are lines of the table `drive`.
pub fn config(blocks: u32, spare: &str, more: &str) -> Config {
    let text = format!(
        r#"
[drive]
durable = false
write_buffer = "4MiB"
{more}
[link]
read = "3.2GB/s"
write = "3.2GB/s"
command_overhead = "2us"
[[set]]
media = "nand"
cell = "slc"
superblocks = {blocks}
spare = "{spare}"
channels = 8
dies = 64
planes = 1
nand_page = "4KiB"
pages_per_block = 256
rated_cycles = 1000000
timing = {{ read = "40us", program = "200us", erase = "2ms", channel = "800MB/s", suspend = "5us", resume = "5us", max_suspends = 4 }}
"#
    );
    Config::from_toml(&text).expect("a good configuration")
}

/// A drive with an enabled controller and an I/O queue, and room for what it says.
pub fn enabled(config: Config) -> (Drive, ControllerId, Vec<Output>) {
    let mut drive = Drive::new(config).expect("a good configuration");
    let host = Nqn::new("nqn.2026-11.bench:host").expect("a name");
    let id = drive
        .connect(Nanos::ZERO, Host::administrator(host, [1; 16], Origin::InProcess), 0xFFFF, 0)
        .expect("a controller");
    let mut out = Vec::with_capacity(1024);
    let cc = Cc::new().with_en(true).into_bits().get();
    drive.property_set(Nanos::ZERO, id, PropertyOffset::CC, cc, &mut NoContents, &mut out).expect("enabled");
    drive.add_queue(id, 1, 1024).expect("a queue");
    (drive, id, out)
}
