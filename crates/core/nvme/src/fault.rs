//! Faults that this drive injects on request: their kinds, and the names that programs give them.

open_enum! {
    /// What [`FaultInjection`](crate::admin::FaultInjection) injects.
    pub struct FaultKind: u8 {
        /// Take away every armed fault; the other fields are ignored.
        CLEAR = 0x00 => "clear all faults",
        /// Reads need error correction.
        BIT_ERRORS = 0x01 => "bit errors",
        /// Reads fail beyond correction.
        UNCORRECTABLE = 0x02 => "uncorrectable read",
        /// Page programs fail.
        PROGRAM_FAILURE = 0x03 => "program failure",
        /// Block erases fail.
        ERASE_FAILURE = 0x04 => "erase failure",
        /// A die stops answering; `param` is its index.
        STUCK_DIE = 0x05 => "stuck die",
        /// Programs are acknowledged and lost.
        LOST_WRITE = 0x06 => "lost write",
        /// Programs land on another page.
        MISDIRECTED_WRITE = 0x07 => "misdirected write",
        /// Media operations take longer; `param` is the factor, 2 or more.
        SLOW = 0x08 => "slow media",
        /// The host's disk under the drive's image is full.
        HOST_DISK_FULL = 0x09 => "host disk full",
        /// The host's disk under the drive's image fails.
        HOST_DISK_ERROR = 0x0A => "host disk error",
        /// Written data cannot be read until it is written again.
        WEAK_PAGE = 0x0B => "weak page",
        /// A port takes another Asymmetric Namespace Access state, `param`; the port's identifier stands in the
        /// place of the NVM Set Identifier, 0 for all.
        PORT_ANA = 0x10 => "ANA state of a port",
        /// A port loses its connections and takes no new ones for `param` milliseconds, at least 1; the port's
        /// identifier stands in the place of the NVM Set Identifier.
        PORT_DOWN = 0x11 => "port down",
        /// The completion of a command never comes.
        DROP = 0x30 => "dropped completion",
        /// The completion of a command comes later, by `param` microseconds.
        DELAY = 0x31 => "delayed completion",
        /// The completion of a command comes twice.
        DUPLICATE = 0x32 => "duplicated completion",
        /// The completion of a command has another status, `param`.
        STATUS = 0x33 => "another status",
        /// A completion comes without an interrupt.
        LOST_INTERRUPT = 0x34 => "lost interrupt",
        /// An interrupt comes without a completion, which comes `param` microseconds later or more.
        SPURIOUS_INTERRUPT = 0x35 => "spurious interrupt",
        /// Identify returns old data.
        STALE_IDENTIFY = 0x36 => "stale Identify",
        /// A controller vanishes for `param` microseconds.
        VANISH = 0x37 => "vanished controller",
        /// A controller becomes ready `param` microseconds late; all ones: never.
        LATE_READY = 0x38 => "late ready",
        /// A planned power cut (vendor specific command D0h). Only the log Injected Faults has this kind.
        POWER_CUT = 0x20 => "planned power cut",
    }
}

impl FaultKind {
    /// Every kind, by the name that programs give it.
    pub const NAMES: [(&'static str, FaultKind); 24] = [
        ("clear", Self::CLEAR),
        ("bit-errors", Self::BIT_ERRORS),
        ("uncorrectable", Self::UNCORRECTABLE),
        ("program-failure", Self::PROGRAM_FAILURE),
        ("erase-failure", Self::ERASE_FAILURE),
        ("stuck-die", Self::STUCK_DIE),
        ("lost-write", Self::LOST_WRITE),
        ("misdirected-write", Self::MISDIRECTED_WRITE),
        ("weak-page", Self::WEAK_PAGE),
        ("slow", Self::SLOW),
        ("host-disk-full", Self::HOST_DISK_FULL),
        ("host-disk-error", Self::HOST_DISK_ERROR),
        ("port-ana", Self::PORT_ANA),
        ("port-down", Self::PORT_DOWN),
        ("drop", Self::DROP),
        ("delay", Self::DELAY),
        ("duplicate", Self::DUPLICATE),
        ("status", Self::STATUS),
        ("lost-interrupt", Self::LOST_INTERRUPT),
        ("spurious-interrupt", Self::SPURIOUS_INTERRUPT),
        ("stale-identify", Self::STALE_IDENTIFY),
        ("vanish", Self::VANISH),
        ("late-ready", Self::LATE_READY),
        ("power-cut", Self::POWER_CUT),
    ];

    /// The name that programs give it; `unknown` for a kind of a later drive.
    #[must_use]
    pub fn keyword(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("unknown", |(name, _)| name)
    }

    /// Whether a set number of operations can fail (CDW11), rather than some of them by chance.
    #[must_use]
    pub fn is_counted(self) -> bool {
        [Self::UNCORRECTABLE, Self::PROGRAM_FAILURE, Self::ERASE_FAILURE].contains(&self)
    }

    /// Whether it concerns a port, whose identifier stands in the place of the NVM Set Identifier.
    #[must_use]
    pub fn is_of_port(self) -> bool {
        [Self::PORT_ANA, Self::PORT_DOWN].contains(&self)
    }

    /// Whether it is a fault of the protocol ([`ProtocolFault`](crate::protocol_fault::ProtocolFault)).
    #[must_use]
    pub fn is_of_protocol(self) -> bool {
        (Self::DROP..=Self::LATE_READY).contains(&self)
    }

    /// Whether it concerns the host's disk under the drive's image.
    #[must_use]
    pub fn is_of_host_disk(self) -> bool {
        [Self::HOST_DISK_FULL, Self::HOST_DISK_ERROR].contains(&self)
    }
}
