//! The tables of MSI-X (PCIe 7.7.2).

use crate::layout::MSIX_ENTRY_BYTES;

/// Vector Control: Mask Bit.
const MASK_BIT: u8 = 1;
/// Offset of Vector Control in an entry.
const CONTROL_OFFSET: usize = 12;

/// Who keeps the table that counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MsixTableOwner {
    /// The function: it honours the masks of its table.
    Function,
    /// The client, as over vfio-user: it connects each vector to an event, and masks it itself. The function's table stays as it was at
    /// the start, with all vectors masked, and means nothing.
    Client,
}

/// A message of a vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsixMessage {
    /// The address that it is written to.
    pub addr: u64,
    /// The dword that is written.
    pub data: u32,
}

/// Table and pending bits.
#[derive(Clone, Debug)]
pub(crate) struct MsixTable {
    owner: MsixTableOwner,
    table: Vec<[u8; MSIX_ENTRY_BYTES as usize]>,
    pending: Vec<bool>,
}

impl MsixTable {
    /// A table with this many vectors, all of them masked.
    pub(crate) fn new(owner: MsixTableOwner, vectors: u16) -> Self {
        let mut entry = [0; MSIX_ENTRY_BYTES as usize];
        entry[CONTROL_OFFSET] = MASK_BIT;
        MsixTable { owner, table: vec![entry; vectors.into()], pending: vec![false; vectors.into()] }
    }

    /// Everything is as at the start.
    pub(crate) fn reset(&mut self) {
        *self = MsixTable::new(self.owner, self.table.len() as u16);
    }

    /// A byte of the table.
    pub(crate) fn byte(&self, at: usize) -> u8 {
        self.table.as_flattened().get(at).copied().unwrap_or(0)
    }

    /// A byte of the pending bit array.
    pub(crate) fn pending_byte(&self, at: usize) -> u8 {
        let bits = self.pending.iter().skip(at.saturating_mul(8)).take(8);
        bits.zip(0..).fold(0, |byte, (bit, shift)| byte | u8::from(*bit) << shift)
    }

    /// Writes a dword of the table.
    pub(crate) fn write(&mut self, at: usize, dword: u32) {
        let table = self.table.as_flattened_mut();
        let Some(place) = at.checked_add(4).and_then(|end| table.get_mut(at..end)) else { return };
        let control = at % MSIX_ENTRY_BYTES as usize == CONTROL_OFFSET;
        // Only the mask of Vector Control can be written.
        let dword = if control { dword & u32::from(MASK_BIT) } else { dword };
        place.copy_from_slice(&dword.to_le_bytes());
    }

    fn is_masked(&self, vector: usize, function_masked: bool) -> bool {
        self.owner == MsixTableOwner::Function
            && (function_masked || self.table[vector][CONTROL_OFFSET] & MASK_BIT != 0)
    }

    /// A vector has an interrupt. Whether its message goes out now; otherwise it is pending.
    pub(crate) fn raise(&mut self, vector: u16, function_masked: bool) -> bool {
        let vector = usize::from(vector);
        if vector >= self.table.len() {
            return false;
        }
        let is_masked = self.is_masked(vector, function_masked);
        self.pending[vector] |= is_masked;
        !is_masked
    }

    /// Takes the vectors that are pending and not masked any more.
    pub(crate) fn take_unmasked(&mut self, function_masked: bool, mut raise: impl FnMut(u16)) {
        for vector in 0..self.pending.len() {
            if self.pending[vector] && !self.is_masked(vector, function_masked) {
                self.pending[vector] = false;
                raise(vector as u16);
            }
        }
    }

    /// The message of a vector.
    pub(crate) fn message(&self, vector: u16) -> Option<MsixMessage> {
        let entry = self.table.get(usize::from(vector))?;
        let (addr, data) = (entry[..8].first_chunk()?, entry[8..].first_chunk()?);
        Some(MsixMessage { addr: u64::from_le_bytes(*addr), data: u32::from_le_bytes(*data) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_vector_is_pending() {
        let mut table = MsixTable::new(MsixTableOwner::Function, 10);
        let taken = |table: &mut MsixTable, masked| {
            let mut found = Vec::new();
            table.take_unmasked(masked, |vector| found.push(vector));
            found
        };
        assert!(!table.raise(9, false));
        assert_eq!((table.pending_byte(0), table.pending_byte(1), table.pending_byte(99)), (0, 2, 0));
        table.write(9 * 16, 0xFEE0_0000);
        table.write(9 * 16 + 8, 0x41);
        table.write(9 * 16 + 12, 0xFFFF_FFFE);
        assert_eq!(taken(&mut table, true), []);
        assert_eq!(taken(&mut table, false), [9]);
        assert!(table.raise(9, false) && !table.raise(9, true) && !table.raise(10, false));
        assert_eq!(table.message(9), Some(MsixMessage { addr: 0xFEE0_0000, data: 0x41 }));
        assert_eq!((table.byte(9 * 16 + 12), table.byte(12), table.byte(160)), (0, 1, 0));
        table.write(158, 0);
        table.write(usize::MAX, 0);
        table.reset();
        assert!(!table.raise(9, false));
    }

    #[test]
    fn a_table_of_the_client_masks_nothing() {
        let mut table = MsixTable::new(MsixTableOwner::Client, 2);
        assert!(table.raise(1, true) && table.pending_byte(0) == 0);
    }
}
