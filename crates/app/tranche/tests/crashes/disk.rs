//! The ways to a namespace: its block file, the loop device on that, and NVMe over a socket.

use super::drive::{Drive, connect};
use super::load::PAGE;
use host::{Host, IoQueue, Namespace, SocketQueue, SocketTransport};
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// How a host reaches a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessPath {
    File,
    Loop,
    Unix,
    Tcp,
}

/// A namespace, by whichever way. Errors are words: nobody looks at them but people.
pub trait Disk: Send {
    fn read(&mut self, lba: u64, data: &mut [u8]) -> Result<(), String>;
    fn write(&mut self, lba: u64, data: &[u8], fua: bool) -> Result<(), String>;
    fn flush(&mut self) -> Result<(), String>;
    /// Write Zeroes, with or without Deallocate.
    fn zeroes(&mut self, lba: u64, sectors: u64, deallocate: bool) -> Result<(), String>;
    /// Dataset Management, where there is a way to it.
    fn deallocate(&mut self, lba: u64, sectors: u64) -> Result<(), String>;
}

pub fn open(drive: &Drive, path: AccessPath, nsid: u32, sector: u32) -> Result<Box<dyn Disk>, String> {
    Ok(match path {
        AccessPath::File => Box::new(FileDisk::open(&drive.file(nsid)?, sector, false)?),
        AccessPath::Loop => Box::new(FileDisk::open(&drive.node(nsid)?, sector, true)?),
        AccessPath::Unix => Box::new(HostDisk::open(&drive.unix(), nsid)?),
        AccessPath::Tcp => Box::new(HostDisk::open(drive.tcp()?, nsid)?),
    })
}

struct FileDisk {
    plain: File,
    /// Writes through this one carry FUA.
    synchronous: File,
    sector: u64,
    /// For direct I/O.
    buffer: Vec<u8>,
}

/// Not that of rustix, which is `O_SYNC`.
const O_DSYNC: OFlags = OFlags::from_bits_retain(0o10000);

const ALIGNMENT: usize = 4096;

impl FileDisk {
    fn open(path: &Path, sector: u32, direct: bool) -> Result<Self, String> {
        let direct = if direct { OFlags::DIRECT } else { OFlags::empty() };
        let open = |flags: OFlags| {
            let flags = i32::try_from(flags.bits()).unwrap();
            let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
            file.map_err(|error| format!("{}: {error}", path.display()))
        };
        let (plain, synchronous) = (open(direct)?, open(direct | O_DSYNC)?);
        Ok(FileDisk { plain, synchronous, sector: sector.into(), buffer: Vec::new() })
    }

    /// So much of the buffer, aligned as direct I/O wants it.
    fn aligned(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
        if buffer.len() < len + ALIGNMENT {
            buffer.resize(len + ALIGNMENT, 0);
        }
        let offset = buffer.as_ptr().align_offset(ALIGNMENT);
        &mut buffer[offset..offset + len]
    }

    fn punch(&self, lba: u64, sectors: u64, flags: FallocateFlags) -> Result<(), String> {
        let (at, len) = (lba * self.sector, sectors * self.sector);
        fallocate(&self.plain, flags | FallocateFlags::KEEP_SIZE, at, len).map_err(|error| error.to_string())
    }
}

impl Disk for FileDisk {
    fn read(&mut self, lba: u64, data: &mut [u8]) -> Result<(), String> {
        let buffer = Self::aligned(&mut self.buffer, data.len());
        self.plain.read_exact_at(buffer, lba * self.sector).map_err(|error| error.to_string())?;
        data.copy_from_slice(buffer);
        Ok(())
    }

    fn write(&mut self, lba: u64, data: &[u8], fua: bool) -> Result<(), String> {
        let buffer = Self::aligned(&mut self.buffer, data.len());
        buffer.copy_from_slice(data);
        let file = if fua { &self.synchronous } else { &self.plain };
        file.write_all_at(buffer, lba * self.sector).map_err(|error| error.to_string())
    }

    fn flush(&mut self) -> Result<(), String> {
        self.plain.sync_data().map_err(|error| error.to_string())
    }

    fn zeroes(&mut self, lba: u64, sectors: u64, deallocate: bool) -> Result<(), String> {
        let how = if deallocate { FallocateFlags::PUNCH_HOLE } else { FallocateFlags::ZERO_RANGE };
        self.punch(lba, sectors, how)
    }

    fn deallocate(&mut self, lba: u64, sectors: u64) -> Result<(), String> {
        // The other way to deallocate does not zero what is less than a page.
        let page = PAGE / self.sector;
        let (first, end) = (lba.next_multiple_of(page), (lba + sectors) / page * page);
        if first >= end {
            return Ok(());
        }
        self.punch(first, end - first, FallocateFlags::PUNCH_HOLE)
    }
}

struct HostDisk {
    /// Its association ends with it.
    _host: Host<SocketTransport>,
    queue: IoQueue<SocketQueue>,
    namespace: Namespace,
}

impl HostDisk {
    fn open(addr: &str, nsid: u32) -> Result<Self, String> {
        let mut host = connect(addr)?;
        let namespace = host.namespace(nsid).map_err(|error| error.to_string())?;
        let queue = host.io_queue(8).map_err(|error| error.to_string())?;
        Ok(HostDisk { _host: host, queue, namespace })
    }
}

impl Disk for HostDisk {
    fn read(&mut self, lba: u64, data: &mut [u8]) -> Result<(), String> {
        self.queue.read(&self.namespace, lba, data).map_err(|error| error.to_string())
    }

    fn write(&mut self, lba: u64, data: &[u8], fua: bool) -> Result<(), String> {
        self.queue.write(&self.namespace, lba, data, fua).map_err(|error| error.to_string())
    }

    fn flush(&mut self) -> Result<(), String> {
        self.queue.flush(self.namespace.nsid).map_err(|error| error.to_string())
    }

    fn zeroes(&mut self, lba: u64, sectors: u64, deallocate: bool) -> Result<(), String> {
        let done = self.queue.write_zeroes(&self.namespace, lba, sectors, deallocate);
        done.map_err(|error| error.to_string())
    }

    fn deallocate(&mut self, lba: u64, sectors: u64) -> Result<(), String> {
        self.queue.deallocate(&self.namespace, lba, sectors).map_err(|error| error.to_string())
    }
}
