//! The field PRINFO, which reads, writes and copies share.

bits8! {
    /// Protection Information Field, PRINFO (NVM 5.2, "Protection Information Field").
    pub struct PrInfo {
        /// Check the reference tag (PRCHK bit 0).
        pub check_reference: bool,
        /// Check the application tag (PRCHK bit 1).
        pub check_application: bool,
        /// Check the guard (PRCHK bit 2).
        pub check_guard: bool,
        /// Protection Information Action: the controller inserts or strips the protection information.
        pub pract: bool,
        #[bits(4)]
        _rsvd: u8,
    }
}

impl PrInfo {
    /// From the four bits of a command.
    #[must_use]
    pub const fn from_nibble(bits: u8) -> Self {
        Self::from_bits(bits & 0xF)
    }
}
