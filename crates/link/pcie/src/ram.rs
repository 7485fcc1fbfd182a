//! Guest memory for tests and fuzzing.

use crate::memory::{GuestMemory, Unmapped};
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// Memory with holes. It counts how often it is read.
#[derive(Debug)]
pub(crate) struct Ram {
    regions: Vec<Range<u64>>,
    bytes: RefCell<Vec<u8>>,
    reads: Cell<usize>,
}

impl Ram {
    /// Zeros at these addresses.
    pub(crate) fn new(regions: &[Range<u64>]) -> Self {
        let end = regions.iter().map(|region| region.end).max().unwrap_or(0);
        Ram { regions: regions.to_vec(), bytes: RefCell::new(vec![0; end as usize]), reads: Cell::new(0) }
    }

    /// Zeros from address 0 on.
    pub(crate) fn whole(bytes: u64) -> Self {
        Ram::new(std::slice::from_ref(&(0..bytes)))
    }

    /// How many times it was read.
    #[cfg(test)]
    pub(crate) fn reads(&self) -> usize {
        self.reads.get()
    }

    fn range(&self, addr: u64, len: usize) -> Result<Range<usize>, Unmapped> {
        let end = addr.checked_add(len as u64).ok_or(Unmapped)?;
        let is_inside = |region: &Range<u64>| region.start <= addr && end <= region.end;
        if self.regions.iter().any(is_inside) { Ok(addr as usize..end as usize) } else { Err(Unmapped) }
    }
}

impl GuestMemory for Ram {
    fn read(&self, addr: u64, bytes: &mut [u8]) -> Result<(), Unmapped> {
        self.reads.set(self.reads.get() + 1);
        bytes.copy_from_slice(&self.bytes.borrow()[self.range(addr, bytes.len())?]);
        Ok(())
    }

    fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), Unmapped> {
        let range = self.range(addr, bytes.len())?;
        self.bytes.borrow_mut()[range].copy_from_slice(bytes);
        Ok(())
    }

    fn load(&self, addr: u64) -> Result<u32, Unmapped> {
        assert_eq!(addr % 4, 0, "the caller checks alignment");
        let mut bytes = [0; 4];
        self.read(addr, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn store(&self, addr: u64, value: u32) -> Result<(), Unmapped> {
        assert_eq!(addr % 4, 0, "the caller checks alignment");
        self.write(addr, &value.to_le_bytes())
    }
}
