//! What the export needs of a drive: the contract for everything that has block files.

use blockdev::{Operation, Verb};
use fuser::Errno;
use nvme::zone::{ZoneDescriptor, ZoneReportHeader, ZoneSendAction};
use std::collections::BTreeMap;
use std::sync::{Weak, mpsc};

pub use host::{Extent, ExtentQuery};

/// Largest read or write that the kernel is asked to send: what its default limit of 256 pages allows.
pub const MAX_TRANSFER_BYTES: u32 = 1 << 20;

/// Receives a result, on the thread that delivers it. It must not block.
pub type Then<T> = Box<dyn FnOnce(Result<T, Errno>) + Send>;

/// A namespace as the drive reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Namespace {
    /// The namespace as a block device: which one it is, its size, and the limits of its commands.
    pub device: blockdev::Namespace,
    /// NGUID, zero if it has none. A namespace that was deleted and created again under the same NSID has
    /// another one; one that was formatted keeps it.
    pub nguid: [u8; 16],
    /// Its zones, if it is zoned.
    pub zones: Option<Zones>,
    /// Whether the drive refuses writes to it.
    pub read_only: bool,
    /// What [`Drive::losses`] was when it was identified. A namespace that lost completed writes is another one: who had
    /// it open learns of it.
    pub losses: u64,
    /// What it can do beyond the contract of drives.
    pub abilities: Abilities,
}

impl Namespace {
    /// A namespace without zones and abilities that may be written. No command moves more than [`MAX_TRANSFER_BYTES`].
    pub fn new(device: blockdev::Namespace) -> Self {
        let blockdev::Namespace { limits, block_size, .. } = device;
        let transfer = limits.transfer.min(MAX_TRANSFER_BYTES / block_size).max(1);
        Namespace {
            device: blockdev::Namespace { limits: blockdev::Limits { transfer, ..limits }, ..device },
            nguid: [0; 16],
            zones: None,
            read_only: false,
            losses: 0,
            abilities: Abilities::default(),
        }
    }

    /// Its identifier.
    pub fn nsid(&self) -> u32 {
        self.device.nsid
    }

    /// Bytes per logical block: a power of two, 512 or more.
    pub fn block_size(&self) -> u32 {
        self.device.block_size
    }

    /// Size in bytes. Of a zoned namespace, what can be written in all its zones.
    pub fn bytes(&self) -> u64 {
        let blocks = self.zones.map_or(self.device.blocks, |zones| u64::from(zones.count) * zones.capacity);
        blocks * u64::from(self.block_size())
    }

    /// First logical block of a zone.
    pub fn zone_start(&self, zone: u32) -> u64 {
        self.zones.map_or(0, |zones| u64::from(zone) * zones.size)
    }

    /// Zones that one report has at most: 1 or more.
    pub fn zones_of_report(&self) -> u32 {
        let room = u64::from(self.device.limits.transfer) * u64::from(self.block_size());
        let zones =
            room.saturating_sub(size_of::<ZoneReportHeader>() as u64) / size_of::<ZoneDescriptor>() as u64;
        u32::try_from(zones).unwrap_or(u32::MAX).max(1)
    }

    /// Bytes of a zone that can be written; 0 if it has no zones.
    pub fn zone_bytes(&self) -> u64 {
        self.zones.map_or(0, |zones| zones.capacity * u64::from(self.block_size()))
    }
}

/// How zones lie in a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zones {
    /// How many, 1 or more.
    pub count: u32,
    /// Logical blocks from the begin of a zone to the begin of the next.
    pub size: u64,
    /// Logical blocks of a zone that can be written, from its begin: at most `size`.
    pub capacity: u64,
}

/// One command, in logical blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriveCommand {
    /// A read, a write, zeroes or a flush, within the limits of the namespace. The buffer of a read or write has the length of the blocks; others have
    /// none.
    Blocks(Operation),
    /// Fill the buffer with a report of zones (Zone Management Receive), which starts with the zone at `lba`.
    Report {
        /// First logical block of a zone.
        lba: u64,
    },
    /// Change the state of a zone (Zone Management Send). No buffer.
    Zone {
        /// First logical block of the zone.
        lba: u64,
        /// What is done with it.
        action: ZoneSendAction,
    },
}

impl DriveCommand {
    /// A verb on blocks.
    pub fn blocks(verb: Verb, lba: u64, blocks: u32) -> Self {
        DriveCommand::Blocks(Operation { verb, lba, blocks })
    }
}

/// What a namespace can do that front ends tell their clients.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Abilities {
    /// To zero whole pages of 4,096 bytes with [`Verb::WriteZeroes`] and `deallocate` takes less than to write zeroes.
    pub fast_zeroes: bool,
    /// [`Drive::extents`] answers.
    pub extents: bool,
}

/// A drive's namespaces and its queue.
///
/// The drive itself is behind it in the running program, or what looks like one, as a cache tier does; the tests put memory there.
pub trait Drive: Send + Sync + 'static {
    /// Commands in flight at most, 1 or more; does not change.
    fn queue_entries(&self) -> u32;

    /// The attached namespaces, by ascending NSID. Blocks; not called from [`Completions`].
    ///
    /// # Errors
    /// Why they could not be identified, in words.
    fn namespaces(&self) -> Result<Vec<Namespace>, String>;

    /// How often the drive has lost completed writes to a power cut. A completion comes after all cuts before it are counted.
    fn losses(&self) -> u64;

    /// The names of files that are not those of a Linux block device (`nvme0n1`), by NSID. They do not change.
    fn names(&self) -> BTreeMap<u32, String> {
        BTreeMap::new()
    }

    /// Asks which blocks are allocated; `then` follows once, perhaps before this returns, with `EOPNOTSUPP` if the drive cannot tell. No question about
    /// one namespace waits for a question about another.
    fn extents(&self, query: ExtentQuery, then: Then<Vec<Extent>>) {
        let _ = query;
        then(Err(Errno::EOPNOTSUPP));
    }

    /// Starts a command; [`Completions::complete`] follows exactly once, perhaps before this returns.
    /// Never called with more than [`queue_entries`](Drive::queue_entries) commands in flight. If another namespace has the NSID by now, or this one was
    /// formatted, the command does nothing, and ends with `ENODEV`.
    fn submit(&self, tag: u64, of: &blockdev::Namespace, command: DriveCommand, data: Vec<u8>);

    /// Makes several calls of [`submit`](Drive::submit). The drive may begin these commands together when `submits` returns, which costs less.
    /// `submits` must not wait for one of them.
    fn together(&self, submits: &mut dyn FnMut()) {
        submits();
    }
}

/// Where the completions of a [`Drive`] go.
pub trait Completions: Send + Sync + 'static {
    /// The command that was submitted with `tag` is complete; `data` is its buffer.
    fn complete(&self, tag: u64, result: Result<(), Errno>, data: Vec<u8>);
}

/// What a drive tells an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriveNotice {
    /// The attached namespaces may be others now.
    Namespaces,
    /// The export ends.
    Stop,
}

/// What a drive is given to report to.
#[derive(Clone)]
pub struct Reports {
    /// Where completions go. Weak, because they belong to an export that owns the drive.
    pub completions: Weak<dyn Completions>,
    /// Where news go.
    pub news: mpsc::Sender<DriveNotice>,
}
