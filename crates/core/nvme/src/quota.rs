//! Quota: this drive's vendor specific feature D8h, what one namespace may use.
//!
//! A structure of 64 bytes, chosen by the NSID of Set and Get Features. All numbers are little endian.
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 1 | version of this layout: 1 |
//! | 1 | 1 | limits in force: bit 0 read bandwidth, bit 1 write bandwidth, bit 2 read commands, bit 3 write commands; bits 7:4 zero |
//! | 2 | 2 | weight: 1 to 1,000; 0 is the default, 100 |
//! | 4 | 4 | burst in microseconds, up to 10,000,000; 0 is the default, 1,000 |
//! | 8 | 8 | bytes per second that may be read: 4,096 to 10^12; 0 if bit 0 of byte 1 is cleared |
//! | 16 | 8 | bytes per second that may be written, likewise with bit 1 |
//! | 24 | 8 | commands per second that may read: 1 to 10^9; 0 if bit 2 is cleared |
//! | 32 | 8 | commands per second that may write, likewise with bit 3 |
//! | 40 | 24 | reserved |
//!
//! A limit of nothing does not exist: a bit that is set with a value of 0 is refused, and so is a value whose bit is cleared.

use crate::{U16, U32, U64};

bits8! {
    /// Limits in force.
    pub struct QuotaLimits {
        /// Bytes per second that may be read.
        pub read_bandwidth: bool,
        /// Bytes per second that may be written.
        pub write_bandwidth: bool,
        /// Commands per second that may read.
        pub read_commands: bool,
        /// Commands per second that may write.
        pub write_commands: bool,
        #[bits(4)]
        _r4: u8,
    }
}

wire! {
    /// Quota (FID D8h). The module's documentation has the offsets.
    pub struct Quota[64] {
        /// Version of this layout: [`Quota::VERSION`].
        pub version: u8,
        /// Limits in force.
        pub limits: QuotaLimits,
        /// Share of its NVM Set beside others that want it, too; 0 is [`Quota::DEFAULT_WEIGHT`].
        pub weight: U16,
        /// How much may come at once after a pause: what the limits allow in so many microseconds; 0 is
        /// [`Quota::DEFAULT_BURST_US`].
        pub burst_us: U32,
        /// Bytes per second that may be read.
        pub read_bandwidth: U64,
        /// Bytes per second that may be written.
        pub write_bandwidth: U64,
        /// Commands per second that may read.
        pub read_commands: U64,
        /// Commands per second that may write.
        pub write_commands: U64,
        /// Reserved.
        pub rsvd40: [u8; 24],
    }
}
layout!(
    Quota, 64,
    weight @ 2, burst_us @ 4, read_bandwidth @ 8, write_bandwidth @ 16, read_commands @ 24, write_commands @ 32,
);

impl Quota {
    /// Version of this layout.
    pub const VERSION: u8 = 1;
    /// The weight where none is given.
    pub const DEFAULT_WEIGHT: u16 = 100;
    /// The greatest weight; the least is 1.
    pub const MAX_WEIGHT: u16 = 1000;
    /// The burst where none is given, in microseconds.
    pub const DEFAULT_BURST_US: u32 = 1000;
    /// The longest burst, in microseconds.
    pub const MAX_BURST_US: u32 = 10_000_000;
    /// The least bytes per second.
    pub const MIN_BANDWIDTH: u64 = 4096;
    /// The most bytes per second.
    pub const MAX_BANDWIDTH: u64 = 1_000_000_000_000;
    /// The most commands per second; the least is 1.
    pub const MAX_COMMANDS: u64 = 1_000_000_000;

    /// No limits and everything at its default: what a new namespace has.
    #[must_use]
    pub fn unlimited() -> Self {
        Self { version: Self::VERSION, ..Self::default() }
    }

    /// Whether a controller may take this.
    ///
    /// # Errors
    /// The offset of the first field whose value is not allowed.
    pub fn check(&self) -> Result<(), usize> {
        use core::mem::offset_of;
        let limits = self.limits;
        let bandwidth = Self::MIN_BANDWIDTH..=Self::MAX_BANDWIDTH;
        let commands = 1..=Self::MAX_COMMANDS;
        let allowed = |set, value: U64, range: &core::ops::RangeInclusive<u64>| match set {
            true => range.contains(&value.get()),
            false => value.get() == 0,
        };
        let fields = [
            (offset_of!(Self, version), self.version == Self::VERSION),
            (offset_of!(Self, limits), limits.into_bits() & 0xF0 == 0),
            (offset_of!(Self, weight), self.weight.get() <= Self::MAX_WEIGHT),
            (offset_of!(Self, burst_us), self.burst_us.get() <= Self::MAX_BURST_US),
            (
                offset_of!(Self, read_bandwidth),
                allowed(limits.read_bandwidth(), self.read_bandwidth, &bandwidth),
            ),
            (
                offset_of!(Self, write_bandwidth),
                allowed(limits.write_bandwidth(), self.write_bandwidth, &bandwidth),
            ),
            (offset_of!(Self, read_commands), allowed(limits.read_commands(), self.read_commands, &commands)),
            (
                offset_of!(Self, write_commands),
                allowed(limits.write_commands(), self.write_commands, &commands),
            ),
            (offset_of!(Self, rsvd40), self.rsvd40 == [0; 24]),
        ];
        fields.into_iter().find(|(_, allowed)| !allowed).map_or(Ok(()), |(offset, _)| Err(offset))
    }

    /// The limit of a kind in units per second, if it is in force.
    #[must_use]
    pub fn limit(&self, kind: QuotaKind) -> Option<u64> {
        let (set, value) = match kind {
            QuotaKind::ReadBandwidth => (self.limits.read_bandwidth(), self.read_bandwidth),
            QuotaKind::WriteBandwidth => (self.limits.write_bandwidth(), self.write_bandwidth),
            QuotaKind::ReadCommands => (self.limits.read_commands(), self.read_commands),
            QuotaKind::WriteCommands => (self.limits.write_commands(), self.write_commands),
        };
        set.then_some(value.get())
    }

    /// Puts a limit in force, or takes it away.
    pub fn set_limit(&mut self, kind: QuotaKind, limit: Option<u64>) {
        let (set, value) = (limit.is_some(), U64::new(limit.unwrap_or(0)));
        match kind {
            QuotaKind::ReadBandwidth => {
                self.limits.set_read_bandwidth(set);
                self.read_bandwidth = value;
            }
            QuotaKind::WriteBandwidth => {
                self.limits.set_write_bandwidth(set);
                self.write_bandwidth = value;
            }
            QuotaKind::ReadCommands => {
                self.limits.set_read_commands(set);
                self.read_commands = value;
            }
            QuotaKind::WriteCommands => {
                self.limits.set_write_commands(set);
                self.write_commands = value;
            }
        }
    }

    /// The weight, the default where none is given.
    #[must_use]
    pub fn effective_weight(&self) -> u16 {
        match self.weight.get() {
            0 => Self::DEFAULT_WEIGHT,
            given => given,
        }
    }

    /// The burst in microseconds, the default where none is given.
    #[must_use]
    pub fn effective_burst_us(&self) -> u32 {
        match self.burst_us.get() {
            0 => Self::DEFAULT_BURST_US,
            given => given,
        }
    }
}

/// What can be limited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuotaKind {
    /// Bytes per second that may be read.
    ReadBandwidth,
    /// Bytes per second that may be written.
    WriteBandwidth,
    /// Commands per second that may read.
    ReadCommands,
    /// Commands per second that may write.
    WriteCommands,
}

impl QuotaKind {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::ReadBandwidth, Self::WriteBandwidth, Self::ReadCommands, Self::WriteCommands];
}
