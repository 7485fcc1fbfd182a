//! The host's way to a drive, and storage controllers. Each number says where it is from.

use std::num::NonZeroU64;

use blockdev::BlockDevice;
use blockdev::stack::{Hop, HopConfig, WriteCache, WriteCacheConfig};
use clap::{Args, ValueEnum, value_parser};
use sim::{MachineDevice, Processors, SimDevice};

/// What the host takes for a request, in nanoseconds. Sweep these: only the number of processors is known of the published machine.
#[derive(Args, Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostPath {
    /// Processors of the host
    #[arg(long, default_value_t = Self::PUBLISHED.processors, value_name = "N", value_parser = value_parser!(u32).range(1..=1024))]
    pub processors: u32,
    /// Time of a processor to submit a request
    #[arg(long, default_value = "3us", value_name = "TIME", value_parser = units::parse_time)]
    pub submission: u64,
    /// Time of a processor when a request has ended
    #[arg(long, default_value = "2us", value_name = "TIME", value_parser = units::parse_time)]
    pub completion: u64,
    /// Time of the lock of a SCSI device's only request queue, for each submission and each completion; 0s is a queue for each processor
    #[arg(long, default_value = "2us", value_name = "TIME", value_parser = units::parse_time)]
    pub lock: u64,
    /// Requests that a SCSI device's request queue holds
    #[arg(long, default_value_t = Self::PUBLISHED.requests, value_name = "N", value_parser = value_parser!(u32).range(1..=65536))]
    pub requests: u32,
    /// Rate of a SAS device's lane, each way: 1.2GB/s of 12 Gb/s, 600MB/s of 6 Gb/s
    #[arg(long, default_value = "1.2GB/s", value_name = "RATE", value_parser = rate)]
    pub sas_rate: NonZeroU64,
}

fn rate(text: &str) -> Result<NonZeroU64, String> {
    let rate = units::parse_rate(text).map_err(|wrong| wrong.to_string())?;
    NonZeroU64::new(rate).ok_or_else(|| "a rate is more than 0".into())
}

impl HostPath {
    /// Two Xeon E5-2680 v3 with RHEL 7.1.
    pub const PUBLISHED: Self = Self {
        processors: 24,    // published
        submission: 3_000, // an assumption: no source was found for this kernel
        completion: 2_000, // an assumption, as above
        lock: 2_000,       // an assumption: 250,000 requests per second of one device
        requests: 128,     // nr_requests of the kernel (BLKDEV_MAX_RQ in include/linux/blkdev.h)
        // 12 Gb/s with 8b/10b: the published facts of SAS.
        sas_rate: NonZeroU64::new(1_200_000_000).expect("it is not 0"),
    };

    /// The processors, for a block layer.
    #[must_use]
    pub fn host(&self) -> Processors {
        Processors { count: self.processors, submission: self.submission, completion: self.completion }
    }

    /// The way to a drive on a storage controller: request queue, controller, its write cache, SAS.
    pub(super) fn over_sas(&self, controller: Controller, device: SimDevice) -> MachineDevice {
        let rate = Some(self.sas_rate);
        let link = Hop::new(HopConfig { down: rate, up: rate, ..SAS }, device);
        let queue = HopConfig {
            submission: self.lock,
            completion: self.lock,
            requests: self.requests as usize,
            ..HopConfig::NONE
        };
        match controller {
            Controller::H330 => queued(queue, Hop::new(Controller::COMMANDS, link)),
            Controller::H730p => {
                queued(queue, Hop::new(Controller::COMMANDS, WriteCache::new(Controller::CACHE, link)))
            }
        }
    }
}

fn queued<D: BlockDevice<Error = std::convert::Infallible> + 'static>(
    queue: HopConfig,
    device: D,
) -> MachineDevice {
    Box::new(Hop::new(queue, device))
}

/// SAS, but for its rate. The queue of a device holds 254 commands (the published facts of SAS). A command's frames take 5 microseconds: an
/// assumption.
const SAS: HopConfig = HopConfig { latency: 5_000, depth: 254, ..HopConfig::NONE };

/// A storage controller.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Controller {
    /// PERC H330: without a cache
    H330,
    /// PERC H730P: with 2 GB of memory that a battery protects
    H730p,
}

impl Controller {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::H330, Self::H730p];

    /// Its short name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::H330 => "h330",
            Self::H730p => "h730p",
        }
    }

    /// Its processor takes 2 microseconds for a command: an assumption, 500,000 per second.
    const COMMANDS: HopConfig = HopConfig { submission: 2_000, ..HopConfig::NONE };

    /// Half of the 2 GB of the H730P is for written data. It goes to the drives after 4 seconds, which is usual for such controllers.
    /// How much, and how, is an assumption.
    const CACHE: WriteCacheConfig = WriteCacheConfig {
        capacity: 1 << 30,
        interval: 4_000_000_000,
        high: 80,
        low: 60,
        writes: 32,
        write_size: 256 << 10,
        contents: false,
    };
}
