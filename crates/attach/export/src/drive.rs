//! What the export needs of a drive: the contract for everything that has block files.

use fuser::Errno;
use nvme::zone::ZoneSendAction;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::{Weak, mpsc};

/// Largest read or write that the kernel is asked to send: what its default limit of 256 pages allows.
pub const MAX_TRANSFER_BYTES: u32 = 1 << 20;

/// Which namespace a command is for: more than its identifier, because others had that, or get it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamespaceKey {
    /// Namespace identifier: 1 or more.
    pub nsid: u32,
    /// Its generation: a namespace that was created again under the same NSID, or formatted, has another one. `None` if the drive never replaces
    /// namespaces.
    pub generation: Option<NonZeroU64>,
}

/// A namespace as the drive reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Namespace {
    /// Which one it is, for commands.
    pub key: NamespaceKey,
    /// NGUID, zero if it has none. A namespace that was deleted and created again under the same NSID has
    /// another one; one that was formatted keeps it.
    pub nguid: [u8; 16],
    /// Bytes per logical block: a power of two, 512 or more.
    pub block_size: u32,
    /// Size in logical blocks.
    pub blocks: u64,
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
    /// Its identifier.
    pub fn nsid(&self) -> u32 {
        self.key.nsid
    }

    /// Size in bytes. Of a zoned namespace, what can be written in all its zones.
    pub fn bytes(&self) -> u64 {
        let blocks = self.zones.map_or(self.blocks, |zones| u64::from(zones.count) * zones.capacity);
        blocks * u64::from(self.block_size)
    }

    /// First logical block of a zone.
    pub fn zone_start(&self, zone: u32) -> u64 {
        self.zones.map_or(0, |zones| u64::from(zone) * zones.size)
    }

    /// Bytes of a zone that can be written; 0 if it has no zones.
    pub fn zone_bytes(&self) -> u64 {
        self.zones.map_or(0, |zones| zones.capacity * u64::from(self.block_size))
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
pub enum Op {
    /// Fill the buffer, which has the length of the range.
    Read {
        /// First logical block.
        lba: u64,
        /// Number of logical blocks, 1 or more.
        blocks: u32,
    },
    /// Write the buffer, which has the length of the range.
    Write {
        /// First logical block.
        lba: u64,
        /// Number of logical blocks, 1 or more.
        blocks: u32,
        /// Durable before it completes (Force Unit Access).
        fua: bool,
    },
    /// Make the range read as zeroes. No buffer.
    Zero {
        /// First logical block.
        lba: u64,
        /// Number of logical blocks, 1 or more.
        blocks: u32,
        /// Give the space back where the drive can.
        deallocate: bool,
    },
    /// Make all completed writes of the namespace durable. No buffer.
    Flush,
    /// Fill the buffer with a report of zones (Zone Management Receive), which begins with the zone at `lba`.
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

/// What a namespace can do that front ends tell their clients.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Abilities {
    /// To zero whole pages of 4,096 bytes with [`Op::Zero`] and `deallocate` takes less than to write zeroes.
    pub fast_zeroes: bool,
    /// [`Drive::extents`] answers.
    pub extents: bool,
}

/// Blocks in a row of which the drive says the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// How many, 1 or more.
    pub blocks: u64,
    /// Whether they have a place on the medium. If not, they read as zeroes.
    pub allocated: bool,
}

/// What one command may carry.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of data of one read or write: a multiple of every block size.
    pub transfer: u32,
    /// Bytes of one [`Op::Zero`].
    pub zero: u32,
    /// Commands in flight.
    pub commands: u32,
}

/// A drive's namespaces and its queue.
///
/// The drive itself is behind it in the running program, or what looks like one, as a cache tier does; the tests put memory there.
pub trait Drive: Send + Sync + 'static {
    /// What its commands may carry; does not change.
    fn limits(&self) -> Limits;

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

    /// Which blocks are allocated, from `lba` on, up to `blocks` of them: at most so many extents. It may tell of fewer blocks, of one at
    /// least. Blocks; not called from [`Completions`].
    ///
    /// # Errors
    /// `EOPNOTSUPP` if it cannot tell, and what the drive says.
    fn extents(&self, of: NamespaceKey, lba: u64, blocks: u64, most: usize) -> Result<Vec<Extent>, Errno> {
        let _ = (of, lba, blocks, most);
        Err(Errno::EOPNOTSUPP)
    }

    /// Starts a command; [`Completions::complete`] follows exactly once, perhaps before this returns.
    /// Never called with more than [`Limits::commands`] commands in flight. If another namespace has the NSID by now, the command does nothing, and
    /// ends with `ENODEV`.
    fn submit(&self, tag: u64, of: NamespaceKey, op: Op, data: Vec<u8>);

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
