//! Controller properties (Base 3.1.4): a fabrics host reads and writes them with Property Get and Set, a PCI Express host as registers.

open_enum! {
    /// Offset of a property (Base 3.1.4, "Property Definition").
    pub struct PropertyOffset: u32 {
        /// Controller Capabilities, 8 bytes.
        CAP = 0x00 => "Controller Capabilities",
        /// Version, 4 bytes.
        VS = 0x08 => "Version",
        /// Interrupt Mask Set, 4 bytes; not a property over fabrics.
        INTMS = 0x0C => "Interrupt Mask Set",
        /// Interrupt Mask Clear, 4 bytes; not a property over fabrics.
        INTMC = 0x10 => "Interrupt Mask Clear",
        /// Controller Configuration, 4 bytes.
        CC = 0x14 => "Controller Configuration",
        /// Controller Status, 4 bytes.
        CSTS = 0x1C => "Controller Status",
        /// NVM Subsystem Reset, 4 bytes.
        NSSR = 0x20 => "NVM Subsystem Reset",
        /// Admin Queue Attributes, 4 bytes; not a property over fabrics.
        AQA = 0x24 => "Admin Queue Attributes",
        /// Admin Submission Queue Base Address, 8 bytes; not a property over fabrics.
        ASQ = 0x28 => "Admin Submission Queue Base Address",
        /// Admin Completion Queue Base Address, 8 bytes; not a property over fabrics.
        ACQ = 0x30 => "Admin Completion Queue Base Address",
        /// NVM Subsystem Shutdown, 4 bytes.
        NSSD = 0x64 => "NVM Subsystem Shutdown",
        /// Controller Ready Timeouts, 4 bytes.
        CRTO = 0x68 => "Controller Ready Timeouts",
    }
}

/// What NSSR takes to reset the subsystem: "NVMe" (Base 3.1.4.7).
pub const NSSR_NVME: u32 = 0x4E56_4D65;

bits64! {
    /// Controller Capabilities, CAP (Base 3.1.4.1).
    pub struct Cap {
        /// Maximum Queue Entries Supported, zero-based.
        #[bits(16)]
        pub mqes_z: u16,
        /// Contiguous Queues Required; set over fabrics.
        pub cqr: bool,
        /// Arbitration Mechanism Supported: bit 0 weighted round robin with urgent, bit 1 vendor specific.
        #[bits(2)]
        pub ams: u8,
        #[bits(5)]
        _r19: u8,
        /// Timeout: the longest wait for CSTS.RDY, in units of 500 ms.
        #[bits(8)]
        pub to: u8,
        /// Doorbell Stride.
        #[bits(4)]
        pub dstrd: u8,
        /// NVM Subsystem Reset Supported.
        pub nssrs: bool,
        /// Command Sets Supported: bit 0 NVM, bit 6 one or more by CSI, bit 7 no I/O command set.
        #[bits(8)]
        pub css: u8,
        /// Boot Partition Support.
        pub bps: bool,
        /// Controller Power Scope.
        #[bits(2)]
        pub cps: u8,
        /// Memory Page Size Minimum: 2 to the power of 12 + this.
        #[bits(4)]
        pub mpsmin: u8,
        /// Memory Page Size Maximum: 2 to the power of 12 + this.
        #[bits(4)]
        pub mpsmax: u8,
        /// Persistent Memory Region Supported.
        pub pmrs: bool,
        /// Controller Memory Buffer Supported.
        pub cmbs: bool,
        /// NVM Subsystem Shutdown Supported.
        pub nsss: bool,
        /// Controller Ready Modes Supported: bit 0 with media, bit 1 independent of media.
        #[bits(2)]
        pub crms: u8,
        /// NVM Subsystem Shutdown Enhancements Supported.
        pub nsses: bool,
        #[bits(2)]
        _r62: u8,
    }
}

impl Cap {
    /// CAP.CSS: the NVM Command Set.
    pub const CSS_NVM: u8 = 1 << 0;
    /// CAP.CSS: one or more I/O command sets, which Identify lists (CNS 1Ch).
    pub const CSS_SETS: u8 = 1 << 6;
    /// CAP.CSS: no I/O command set.
    pub const CSS_ADMIN_ONLY: u8 = 1 << 7;
}

impl Cc {
    /// CC.CSS: the NVM Command Set alone.
    pub const CSS_NVM: u8 = 0;
    /// CC.CSS: all command sets of the combination that the I/O Command Set Profile names.
    pub const CSS_SETS: u8 = 6;
    /// CC.CSS: no I/O command set.
    pub const CSS_ADMIN_ONLY: u8 = 7;

    /// What enables a controller of these capabilities: all its I/O command sets where it has several, queue entries of the usual
    /// sizes.
    #[must_use]
    pub fn enabled(cap: Cap) -> Self {
        let css = if cap.css() & Cap::CSS_SETS != 0 { Self::CSS_SETS } else { Self::CSS_NVM };
        Self::new().with_en(true).with_css(css).with_iosqes(6).with_iocqes(4)
    }
}

bits32! {
    /// Controller Configuration, CC (Base 3.1.4.5).
    pub struct Cc {
        /// Enable.
        pub en: bool,
        #[bits(3)]
        _r1: u8,
        /// I/O Command Set Selected: 0 NVM, 6 all supported, 7 admin only.
        #[bits(3)]
        pub css: u8,
        /// Memory Page Size: 2 to the power of 12 + this.
        #[bits(4)]
        pub mps: u8,
        /// Arbitration Mechanism Selected: 0 round robin, 1 weighted round robin with urgent.
        #[bits(3)]
        pub ams: u8,
        /// Shutdown Notification.
        #[bits(2)]
        pub shn: Shn,
        /// I/O Submission Queue Entry Size as a power of two: 6.
        #[bits(4)]
        pub iosqes: u8,
        /// I/O Completion Queue Entry Size as a power of two: 4.
        #[bits(4)]
        pub iocqes: u8,
        /// Controller Ready Independent of Media Enable.
        pub crime: bool,
        #[bits(7)]
        _r25: u8,
    }

    /// Controller Status, CSTS (Base 3.1.4.6).
    pub struct Csts {
        /// Ready.
        pub rdy: bool,
        /// Controller Fatal Status.
        pub cfs: bool,
        /// Shutdown Status.
        #[bits(2)]
        pub shst: Shst,
        /// NVM Subsystem Reset Occurred.
        pub nssro: bool,
        /// Processing Paused.
        pub pp: bool,
        /// Shutdown Type: the status is about an NVM Subsystem Shutdown.
        pub st: bool,
        #[bits(25)]
        _r7: u32,
    }

    /// Admin Queue Attributes, AQA (Base 3.1.4.8): entries of the admin queues.
    pub struct Aqa {
        /// Admin Submission Queue Size, zero-based.
        #[bits(12)]
        pub asqs_z: u16,
        #[bits(4)]
        _r12: u8,
        /// Admin Completion Queue Size, zero-based.
        #[bits(12)]
        pub acqs_z: u16,
        #[bits(4)]
        _r28: u8,
    }

    /// Controller Ready Timeouts, CRTO (Base 3.1.4.20), in units of 500 ms.
    pub struct Crto {
        /// Controller Ready With Media Timeout.
        #[bits(16)]
        pub crwmt: u16,
        /// Controller Ready Independent of Media Timeout.
        #[bits(16)]
        pub crimt: u16,
    }
}

open_enum! {
    /// Shutdown Notification, CC.SHN (Base 3.1.4.5).
    pub struct Shn: u8 {
        /// No notification; no effect.
        NONE = 0 => "No notification",
        /// Normal shutdown notification.
        NORMAL = 1 => "Normal shutdown notification",
        /// Abrupt shutdown notification.
        ABRUPT = 2 => "Abrupt shutdown notification",
    }
}

open_enum! {
    /// Shutdown Status, CSTS.SHST (Base 3.1.4.6).
    pub struct Shst: u8 {
        /// Normal operation: no shutdown has been requested.
        NORMAL = 0 => "Normal operation",
        /// Shutdown processing occurring.
        OCCURRING = 1 => "Shutdown processing occurring",
        /// Shutdown processing complete.
        COMPLETE = 2 => "Shutdown processing complete",
    }
}
