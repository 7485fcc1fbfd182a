//! What ublk is told and tells, as bytes (Linux, `include/uapi/linux/ublk_cmd.h`). Numbers are in the byte order of the machine.

use crate::drive::{MAX_TRANSFER_BYTES, Namespace};

/// Bytes of a sector, in which the kernel counts.
pub const SECTOR: u64 = 512;
/// Block sizes that every kernel has: up to a page.
pub const LARGEST_BLOCK: u32 = 4096;
/// Bytes of a page: what the drive deallocates as a whole.
const PAGE: u32 = 4096;
/// Bytes of one discard, or of zeroes to write, at most. The request queue makes several commands of it.
const LARGEST_ZERO: u64 = 1 << 30;

/// `_IOR('u', number, …)` and `_IOWR`, of a structure with so many bytes.
const fn encoded(writes: bool, number: u32, size: u32) -> u32 {
    let direction = if writes { 3 } else { 2 };
    direction << 30 | size << 16 | (b'u' as u32) << 8 | number
}

/// Commands to `/dev/ublk-control`, with `struct ublksrv_ctrl_cmd`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// Tell how a device is.
    GetInfo,
    /// Make a device, which cannot be used yet.
    Add,
    /// Remove a device, and wait until nobody has it open.
    Delete,
    /// Remove a device, without waiting (Linux 6.9).
    DeleteLater,
    /// Make the block device, when all its queues have been served with commands.
    Start,
    /// Take the block device away, after its data was written.
    Stop,
    /// Set size and limits.
    SetParameters,
    /// Tell what the driver can do (Linux 6.5).
    GetFeatures,
}

impl Control {
    /// The number in the command.
    pub const fn code(self) -> u32 {
        match self {
            Control::GetInfo => encoded(false, 0x02, 32),
            Control::Add => encoded(true, 0x04, 32),
            Control::Delete => encoded(true, 0x05, 32),
            Control::DeleteLater => encoded(false, 0x14, 32),
            Control::Start => encoded(true, 0x06, 32),
            Control::Stop => encoded(true, 0x07, 32),
            Control::SetParameters => encoded(true, 0x08, 32),
            Control::GetFeatures => encoded(false, 0x13, 32),
        }
    }
}

/// Gives the place of a request to the kernel for the first time.
pub const FETCH: u32 = encoded(true, 0x20, 16);
/// Gives it back with a result, for the next request.
pub const COMMIT_AND_FETCH: u32 = encoded(true, 0x21, 16);
/// How commands about requests end when the device was stopped: `-ENODEV`.
pub const ABORT: i32 = -19;

/// Data goes through the character device, at [`data_offset`] (Linux 6.5).
pub const USER_COPY: u64 = 1 << 7;
/// The state of a block device that can be used.
const LIVE_STATE: u16 = 1;
/// Any free number.
pub const ANY_NUMBER: u32 = u32::MAX;

/// Puts numbers one behind the other.
#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }
}

/// `N` bytes at `at`; zeroes where there are none.
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// `struct ublksrv_ctrl_cmd`, with room for the longer command of the ring. `len` and `address` are those of the buffer.
pub fn control_command(device: u32, len: u16, address: u64, data: u64) -> [u8; 80] {
    // The queue number of a command for the whole device.
    const NO_QUEUE: u16 = u16::MAX;
    let out = Out::default().u32(device).u16(NO_QUEUE).u16(len).u64(address).u64(data);
    padded(&out.0)
}

/// `struct ublksrv_io_cmd`. Its address stays 0: data goes through the character device.
pub fn request_command(queue: u16, tag: u16, result: i32) -> [u8; 80] {
    padded(&Out::default().u16(queue).u16(tag).u32(result.cast_unsigned()).u64(0).0)
}

fn padded(bytes: &[u8]) -> [u8; 80] {
    let mut all = [0; 80];
    all[..bytes.len()].copy_from_slice(bytes);
    all
}

/// Who serves a device. The kernel keeps it, and does not look at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// Number of the process.
    pub process: u32,
}

impl Owner {
    /// This program, in the upper half.
    const MARK: u32 = u32::from_be_bytes(*b"Trnc");

    fn flags(self) -> u64 {
        u64::from(Self::MARK) << 32 | u64::from(self.process)
    }

    fn from_flags(flags: u64) -> Option<Self> {
        // Upper and lower half.
        (flags >> 32 == u64::from(Self::MARK)).then_some(Owner { process: flags as u32 })
    }
}

/// `struct ublksrv_ctrl_dev_info`, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// Its number: of `/dev/ublkbN`.
    pub id: u32,
    /// Its queues.
    pub queues: u16,
    /// Requests of a queue at once.
    pub depth: u16,
    /// Bytes of a request at most.
    pub largest: u32,
    /// What it uses: [`USER_COPY`].
    pub features: u64,
    /// Whether it is a block device that can be used.
    pub live: bool,
    /// Who serves it, if it is this program.
    pub owner: Option<Owner>,
}

impl DeviceInfo {
    /// Bytes of the structure.
    pub const SIZE: usize = 64;

    /// A device to be made.
    pub fn wanted(queues: u16, depth: u16, owner: Owner) -> Self {
        DeviceInfo {
            id: ANY_NUMBER,
            queues,
            depth,
            largest: MAX_TRANSFER_BYTES,
            features: USER_COPY,
            live: false,
            owner: Some(owner),
        }
    }

    /// The structure.
    pub fn encode(&self) -> Vec<u8> {
        let out = Out::default()
            .u16(self.queues)
            .u16(self.depth)
            .u16(if self.live { LIVE_STATE } else { 0 })
            .u16(0);
        let out = out.u32(self.largest).u32(self.id).u32(0).u32(0).u64(self.features);
        let mut bytes = out.u64(self.owner.map_or(0, Owner::flags)).0;
        bytes.resize(Self::SIZE, 0);
        bytes
    }

    /// What the structure says.
    pub fn decode(bytes: &[u8]) -> Self {
        DeviceInfo {
            queues: u16::from_ne_bytes(bytes_at(bytes, 0)),
            depth: u16::from_ne_bytes(bytes_at(bytes, 2)),
            live: u16::from_ne_bytes(bytes_at(bytes, 4)) == LIVE_STATE,
            largest: u32::from_ne_bytes(bytes_at(bytes, 8)),
            id: u32::from_ne_bytes(bytes_at(bytes, 12)),
            features: u64::from_ne_bytes(bytes_at(bytes, 24)),
            owner: Owner::from_flags(u64::from_ne_bytes(bytes_at(bytes, 32))),
        }
    }
}

/// `struct ublk_params`: size and limits of the block device of a namespace, with requests of up to `largest` bytes.
pub fn parameters(namespace: &Namespace, largest: u32) -> Vec<u8> {
    // Bits of `types`, then of `attrs`.
    const BASIC_PARAMETERS: u32 = 1 << 0;
    const DISCARD: u32 = 1 << 1;
    const READ_ONLY: u32 = 1 << 0;
    const VOLATILE_CACHE: u32 = 1 << 2;
    const FUA: u32 = 1 << 3;
    // The kernel's file systems know from these that Flush and Force Unit Access mean something.
    let access = VOLATILE_CACHE | FUA | if namespace.read_only { READ_ONLY } else { 0 };
    // A power of two, of 512 to 4,096 bytes.
    let block = namespace.block_size().trailing_zeros() as u8;
    let page = namespace.block_size().max(PAGE);
    let page_shift = page.trailing_zeros() as u8;
    // At most 2^21.
    let zeroes = (LARGEST_ZERO / SECTOR) as u32;
    let out = Out::default().u32(0).u32(BASIC_PARAMETERS | DISCARD).u32(access);
    let out = out.u8(block).u8(page_shift).u8(page_shift).u8(page_shift);
    let out = out.u32(largest / SECTOR as u32).u32(0).u64(namespace.bytes() / SECTOR).u64(0);
    let mut bytes = out.u32(0).u32(page).u32(zeroes).u32(zeroes).u16(1).u16(0).0;
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let len = bytes.len() as u32;
    bytes[..4].copy_from_slice(&len.to_ne_bytes());
    bytes
}

/// Where the bytes of a request are in the character device.
pub fn data_offset(queue: u16, tag: u16) -> u64 {
    0x8000_0000 + (u64::from(queue) << 41) + (u64::from(tag) << 25)
}

/// Where the descriptors of a queue are mapped from.
pub fn descriptors_offset(queue: u16) -> u64 {
    /// Requests that a queue can have at most.
    const MAX_QUEUE_REQUESTS: u64 = 4096;
    (MAX_QUEUE_REQUESTS * Descriptor::SIZE as u64).next_multiple_of(PAGE.into()) * u64::from(queue)
}

/// `struct ublksrv_io_desc`: a request of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// What is to be done: bits 0 to 7. How: the others.
    pub operation: u32,
    /// Sectors.
    pub sectors: u32,
    /// First sector.
    pub start: u64,
}

impl Descriptor {
    /// Bytes of the structure.
    pub const SIZE: usize = 24;

    /// What the structure says.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        Descriptor {
            operation: u32::from_ne_bytes(bytes_at(bytes, 0)),
            sectors: u32::from_ne_bytes(bytes_at(bytes, 4)),
            start: u64::from_ne_bytes(bytes_at(bytes, 8)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(nsid: u32, block_size: u32, bytes: u64) -> Namespace {
        Namespace::new(blockdev::Namespace::plain(nsid, bytes / u64::from(block_size), block_size))
    }

    #[test]
    fn commands_have_the_numbers_of_the_header() {
        // As a C program prints them.
        assert_eq!(Control::GetInfo.code(), 0x8020_7502);
        assert_eq!(Control::Add.code(), 0xC020_7504);
        assert_eq!(Control::GetFeatures.code(), 0x8020_7513);
        assert_eq!(Control::DeleteLater.code(), 0x8020_7514);
        assert_eq!((FETCH, COMMIT_AND_FETCH), (0xC010_7520, 0xC010_7521));
    }

    #[test]
    fn commands_are_laid_out_as_in_the_header() {
        let bytes = control_command(7, 64, 0x1234_5678_9ABC_DEF0, 42);
        assert_eq!(u32::from_ne_bytes(bytes_at(&bytes, 0)), 7);
        assert_eq!(u16::from_ne_bytes(bytes_at(&bytes, 4)), u16::MAX);
        assert_eq!(u16::from_ne_bytes(bytes_at(&bytes, 6)), 64);
        assert_eq!(u64::from_ne_bytes(bytes_at(&bytes, 8)), 0x1234_5678_9ABC_DEF0);
        assert_eq!(u64::from_ne_bytes(bytes_at(&bytes, 16)), 42);
        assert!(bytes[24..].iter().all(|byte| *byte == 0));

        let bytes = request_command(3, 200, -5);
        assert_eq!(u16::from_ne_bytes(bytes_at(&bytes, 0)), 3);
        assert_eq!(u16::from_ne_bytes(bytes_at(&bytes, 2)), 200);
        assert_eq!(i32::from_ne_bytes(bytes_at(&bytes, 4)), -5);
        assert!(bytes[8..].iter().all(|byte| *byte == 0), "an address would be refused");
    }

    #[test]
    fn a_device_keeps_who_serves_it() {
        let wanted = DeviceInfo::wanted(2, 128, Owner { process: 4711 });
        let bytes = wanted.encode();
        assert_eq!(bytes.len(), DeviceInfo::SIZE);
        assert_eq!(u32::from_ne_bytes(bytes_at(&bytes, 8)), 1 << 20, "max_io_buf_bytes");
        assert_eq!(i32::from_ne_bytes(bytes_at(&bytes, 12)), -1, "dev_id");
        assert_eq!(u64::from_ne_bytes(bytes_at(&bytes, 24)), 128, "flags");
        assert_eq!(DeviceInfo::decode(&bytes), wanted);

        let mut of_another = bytes;
        of_another[32..40].fill(0);
        of_another[4..6].copy_from_slice(&1u16.to_ne_bytes());
        let info = DeviceInfo::decode(&of_another);
        assert_eq!((info.owner, info.live), (None, true));
    }

    #[test]
    fn a_device_has_the_size_and_the_limits_of_its_namespace() {
        let of = |namespace: &Namespace| parameters(namespace, 1 << 20);
        let bytes = of(&namespace(1, 4096, 1 << 30));
        let u32_at = |bytes: &[u8], at| u32::from_ne_bytes(bytes_at(bytes, at));
        assert_eq!((u32_at(&bytes, 0) as usize, u32_at(&bytes, 4)), (bytes.len(), 3));
        assert_eq!(u32_at(&bytes, 8), 1 << 2 | 1 << 3, "write cache and FUA");
        assert_eq!(bytes[12..16], [12; 4]);
        assert_eq!((u32_at(&bytes, 16), u32_at(&bytes, 20)), (2048, 0), "max_sectors, chunk_sectors");
        assert_eq!(u64::from_ne_bytes(bytes_at(&bytes, 24)), 1 << 21, "dev_sectors");
        let discard: Vec<u32> = (40..56).step_by(4).map(|at| u32_at(&bytes, at)).collect();
        assert_eq!(discard, [0, 4096, 1 << 21, 1 << 21]);
        assert_eq!(u16::from_ne_bytes(bytes_at(&bytes, 56)), 1, "segments of a discard");

        let bytes = of(&Namespace { read_only: true, ..namespace(1, 512, 1 << 20) });
        assert_eq!((bytes[12], bytes[13]), (9, 12), "logical and physical blocks");
        assert_eq!(u32_at(&bytes, 8), 1 | 1 << 2 | 1 << 3);
        assert_eq!(u64::from_ne_bytes(bytes_at(&bytes, 24)), 2048);
    }

    #[test]
    fn requests_have_places_of_their_own() {
        assert_eq!(data_offset(0, 0), 0x8000_0000);
        assert_eq!(data_offset(1, 3) - data_offset(0, 0), (1 << 41) + (3 << 25));
        assert_eq!([0, 1, 2].map(descriptors_offset), [0, 98304, 196_608]);
    }
}
