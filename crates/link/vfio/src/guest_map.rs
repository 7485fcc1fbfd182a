//! Memory of a guest, mapped from the files that its client passes.

use crate::fault_guard::FaultGuard;
use nix::libc;
use pcie::{GuestMemory, Unmapped};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::sync::atomic::Ordering;
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory, VolatileSlice};

/// Mappings of one client, at most.
pub const MAX_MAPPINGS: usize = 512;

/// What a device may do with a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapAccess {
    /// Read it.
    pub read: bool,
    /// Write it.
    pub write: bool,
}

/// A part of a file that is guest memory.
#[derive(Debug)]
struct Mapping {
    /// Before the memory, so that it is dropped before that is unmapped.
    guard: FaultGuard,
    memory: MmapRegion,
    access: MapAccess,
}

/// All memory of a guest that a device may use.
#[derive(Debug, Default)]
pub struct GuestMap {
    /// By guest address. They do not overlap.
    mappings: BTreeMap<u64, Mapping>,
}

impl GuestMap {
    /// Maps `size` bytes of a file from `offset` on, to a guest address.
    ///
    /// # Errors
    /// The range is empty, wraps, overlaps another one, or is not in the file; the file is no regular file; there are too many mappings;
    /// or what the system says.
    pub fn map(
        &mut self,
        addr: u64,
        size: u64,
        file: File,
        offset: u64,
        access: MapAccess,
    ) -> Result<(), Error> {
        let invalid = || Error::from(ErrorKind::InvalidInput);
        let end = addr.checked_add(size).filter(|_| size > 0).ok_or_else(invalid)?;
        let metadata = file.metadata()?;
        let is_in_file = offset.checked_add(size).is_some_and(|end| end <= metadata.len());
        if !metadata.is_file() || !is_in_file || self.mappings.len() >= MAX_MAPPINGS {
            return Err(invalid());
        }
        let before = self.mappings.range(..end).next_back();
        if before.is_some_and(|(start, mapping)| start + mapping.memory.size() as u64 > addr) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let protection = |is_allowed, flag| if is_allowed { flag } else { 0 };
        let prot = protection(access.read, libc::PROT_READ) | protection(access.write, libc::PROT_WRITE);
        let memory: MmapRegion = MmapRegionBuilder::new(usize::try_from(size).map_err(|_| invalid())?)
            .with_mmap_prot(prot)
            .with_mmap_flags(libc::MAP_SHARED | libc::MAP_NORESERVE)
            .with_file_offset(FileOffset::new(file, offset))
            .build()
            .map_err(Error::other)?;
        let guard = FaultGuard::new(memory.as_ptr() as usize, memory.size()).ok_or_else(invalid)?;
        self.mappings.insert(addr, Mapping { guard, memory, access });
        Ok(())
    }

    /// Unmaps what lies in a range.
    ///
    /// # Errors
    /// A mapping is only in part in the range, or the range wraps. Nothing is unmapped.
    pub fn unmap(&mut self, addr: u64, size: u64) -> Result<(), Error> {
        let invalid = || Error::from(ErrorKind::InvalidInput);
        let end = addr.checked_add(size).ok_or_else(invalid)?;
        let reaches = |start: &u64, mapping: &Mapping| start + mapping.memory.size() as u64;
        let is_cut =
            |(start, mapping): (&u64, &Mapping), at: u64| *start < at && at < reaches(start, mapping);
        let cuts = |at: u64| self.mappings.range(..at).next_back().is_some_and(|found| is_cut(found, at));
        if cuts(addr) || cuts(end) {
            return Err(invalid());
        }
        self.mappings.retain(|start, _| !(addr..end).contains(start));
        Ok(())
    }

    /// Unmaps everything.
    pub fn clear(&mut self) {
        self.mappings.clear();
    }

    /// The mapping with an address, and the offset in it.
    fn find(&self, addr: u64) -> Option<(&Mapping, usize)> {
        let (start, mapping) = self.mappings.range(..=addr).next_back()?;
        let offset = usize::try_from(addr - start).ok()?;
        (offset < mapping.memory.size()).then_some((mapping, offset))
    }

    /// Calls `access` for each mapped piece of a range, with the bytes of the range before it. First it checks that all of the range is
    /// mapped.
    fn for_pieces(
        &self,
        addr: u64,
        len: usize,
        is_allowed: impl Fn(&MapAccess) -> bool,
        mut access: impl FnMut(VolatileSlice<'_>, usize) -> Result<(), vm_memory::VolatileMemoryError>,
    ) -> Result<(), Unmapped> {
        let piece = |done: usize| {
            let at = addr.checked_add(done as u64)?;
            let (mapping, offset) = self.find(at).filter(|(mapping, _)| is_allowed(&mapping.access))?;
            Some((mapping, offset, (mapping.memory.size() - offset).min(len - done)))
        };
        let mut checked = 0;
        while checked < len {
            checked += piece(checked).ok_or(Unmapped)?.2;
        }
        let mut done = 0;
        while done < len {
            let (mapping, offset, bytes) = piece(done).ok_or(Unmapped)?;
            let slice = mapping.memory.get_slice(offset, bytes).map_err(|_| Unmapped)?;
            access(slice, done).map_err(|_| Unmapped)?;
            if mapping.guard.is_broken() {
                return Err(Unmapped);
            }
            done += bytes;
        }
        Ok(())
    }
}

impl GuestMemory for GuestMap {
    fn read(&self, addr: u64, bytes: &mut [u8]) -> Result<(), Unmapped> {
        self.for_pieces(
            addr,
            bytes.len(),
            |access| access.read,
            |slice, done| slice.read_slice(&mut bytes[done..done + slice.len()], 0),
        )
    }

    fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), Unmapped> {
        self.for_pieces(
            addr,
            bytes.len(),
            |access| access.write,
            |slice, done| slice.write_slice(&bytes[done..done + slice.len()], 0),
        )
    }

    fn load(&self, addr: u64) -> Result<u32, Unmapped> {
        let mut value = 0;
        self.for_pieces(
            addr,
            4,
            |access| access.read,
            |slice, _| {
                value = u32::from_le(slice.load(0, Ordering::SeqCst)?);
                Ok(())
            },
        )?;
        Ok(value)
    }

    fn store(&self, addr: u64, value: u32) -> Result<(), Unmapped> {
        self.for_pieces(
            addr,
            4,
            |access| access.write,
            |slice, _| slice.store(value.to_le(), 0, Ordering::SeqCst),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: MapAccess = MapAccess { read: true, write: true };

    fn file(bytes: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        file
    }

    #[test]
    fn memory_is_that_of_the_file() {
        let shared = file(0x4000);
        let mut map = GuestMap::default();
        map.map(0x1_0000, 0x2000, shared.try_clone().unwrap(), 0x2000, ALL).unwrap();
        map.map(0x1_2000, 0x1000, shared.try_clone().unwrap(), 0, MapAccess { write: false, ..ALL }).unwrap();
        let mut other = GuestMap::default();
        other.map(0, 0x4000, shared, 0, ALL).unwrap();
        other.write(0x3FFE, &[1, 2]).unwrap();
        other.write(0, &[3, 4]).unwrap();
        let mut bytes = [0; 4];
        map.read(0x1_1FFE, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 3, 4], "mappings that touch are one range");
        assert_eq!(map.write(0x1_1FFE, &bytes), Err(Unmapped), "a part of it cannot be written");
        map.store(0x1_0004, 0x0403_0201).unwrap();
        assert_eq!((other.load(0x2004), map.load(0x1_2FFC)), (Ok(0x0403_0201), Ok(0)));
        for addr in [0xFFFF, 0x1_2FFD, 0x1_3000, u64::MAX, u64::MAX - 3] {
            assert_eq!(map.read(addr, &mut bytes), Err(Unmapped));
        }
        assert_eq!(map.read(u64::MAX, &mut []), Ok(()));
    }

    #[test]
    fn ranges_that_make_no_sense_are_refused() {
        let mut map = GuestMap::default();
        map.map(0x1000, 0x2000, file(0x2000), 0, ALL).unwrap();
        for (addr, size, offset) in [
            (0x8000, 0, 0),
            (u64::MAX - 0xFFF, 0x2000, 0),
            (0x8000, 0x2000, 0x1000),
            (0x8000, 0x1000, u64::MAX),
            (0x2000, 0x1000, 0),
            (0, 0x2000, 0),
            (0, 0x8000, 0),
        ] {
            assert!(map.map(addr, size, file(0x2000), offset, ALL).is_err(), "{addr:x} {size:x} {offset:x}");
        }
        let directory = File::open("/").unwrap();
        assert!(map.map(0x8000, 0x1000, directory, 0, ALL).is_err());
        assert!(map.unmap(0x2000, 0x1000).is_err() && map.unmap(0, 0x2000).is_err());
        assert!(map.unmap(1, u64::MAX).is_err());
        map.unmap(0, 0x10_0000).unwrap();
        assert_eq!(map.load(0x1000), Err(Unmapped));
    }

    #[test]
    fn a_file_that_becomes_shorter_is_unmapped() {
        let shared = file(0x4000);
        let mut map = GuestMap::default();
        map.map(0, 0x4000, shared.try_clone().unwrap(), 0, ALL).unwrap();
        map.write(0x3000, &[7; 16]).unwrap();
        shared.set_len(0x1000).unwrap();
        let mut bytes = [0; 0x100];
        assert_eq!(map.read(0x3000, &mut bytes), Err(Unmapped));
        assert_eq!(map.write(0x2000, &bytes), Err(Unmapped));
        assert_eq!(map.load(0), Err(Unmapped), "all of the mapping");
        map.clear();
        map.map(0, 0x1000, shared, 0, ALL).unwrap();
        assert_eq!(map.load(0), Ok(0));
    }
}
