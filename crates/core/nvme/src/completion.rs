//! The completion queue entry (Base 4.2).

use crate::{Status, U16, U32};

wire! {
    /// Completion Queue Entry (Base 4.2, "Common Completion Queue Entry Layout").
    pub struct Completion[16] {
        /// Dword 0: command specific result.
        pub dw0: U32,
        /// Dword 1: command specific result.
        pub dw1: U32,
        /// SQ Head Pointer (SQHD); FFFFh over fabrics when flow control is off.
        pub sqhd: U16,
        /// SQ Identifier (SQID); reserved over fabrics.
        pub sqid: U16,
        /// Command Identifier (CID) of the command that completes.
        pub cid: U16,
        /// Status in bits 15:1, Phase Tag in bit 0 (zero over fabrics). See [`Completion::status`].
        pub sf: U16,
    }
}

impl Completion {
    /// A completion with this status and no result.
    #[must_use]
    pub fn new(cid: u16, status: Status) -> Self {
        Self::default().with_cid(cid).with_status(status)
    }

    /// A successful completion with the result in dword 0.
    #[must_use]
    pub fn success(cid: u16, dw0: u32) -> Self {
        Self { dw0: U32::new(dw0), ..Self::new(cid, Status::SUCCESS) }
    }

    /// The status, without the phase tag.
    #[must_use]
    pub fn status(&self) -> Status {
        Status(self.sf.get() >> 1)
    }

    /// The same entry with another status and phase 0.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Self {
        self.sf.set(status.0 << 1);
        self
    }

    /// The same entry with another command identifier.
    #[must_use]
    pub fn with_cid(mut self, cid: u16) -> Self {
        self.cid.set(cid);
        self
    }

    /// The result of 64 bits in dwords 0 and 1 (Property Get and a few more).
    #[must_use]
    pub fn result64(&self) -> u64 {
        u64::from(self.dw0.get()) | u64::from(self.dw1.get()) << 32
    }

    /// The same entry with a result of 64 bits.
    #[must_use]
    pub fn with_result64(mut self, result: u64) -> Self {
        let bytes = crate::U64::new(result).to_bytes();
        self.dw0 = U32::from_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        self.dw1 = U32::from_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        self
    }
}
