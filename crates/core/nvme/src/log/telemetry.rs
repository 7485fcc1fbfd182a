//! Telemetry (Base 5.1.12.1.8 and 5.1.12.1.9, LID 07h and 08h) and Device Self-test (Base 5.1.12.1.7, LID 06h) logs.

use crate::log::LogId;
use crate::{U16, U32, U64};

wire! {
    /// Header of both Telemetry logs: block 0. Data areas all begin at block 1 and end at their last block.
    pub struct TelemetryHeader[512] {
        /// Log Identifier: 07h or 08h.
        pub lid: LogId,
        /// Reserved.
        pub rsvd1: [u8; 4],
        /// IEEE OUI Identifier.
        pub ieee: [u8; 3],
        /// Data Area 1 Last Block; 0 if the area is empty.
        pub dalb1: U16,
        /// Data Area 2 Last Block.
        pub dalb2: U16,
        /// Data Area 3 Last Block.
        pub dalb3: U16,
        /// Reserved.
        pub rsvd14: [u8; 2],
        /// Data Area 4 Last Block.
        pub dalb4: U32,
        /// Reserved.
        pub rsvd20: [u8; 360],
        /// Host-initiated: Telemetry Host-Initiated Scope. Controller-initiated: reserved.
        pub host_scope: u8,
        /// Host-initiated: Data Generation Number. Controller-initiated: Telemetry Controller-Initiated Scope.
        pub host_generation: u8,
        /// Telemetry Controller-Initiated Data Available: 1 if log 08h holds something.
        pub controller_available: u8,
        /// Telemetry Controller-Initiated Data Generation Number.
        pub controller_generation: u8,
        /// Reason Identifier: why this was captured.
        pub reason: [u8; 128],
    }

    /// Device Self-test log.
    pub struct SelfTestLog[564] {
        /// Current Device Self-test Operation in bits 3:0: 0 none, else the self-test code.
        pub operation: u8,
        /// Current Device Self-test Completion in percent, bits 6:0.
        pub completion: u8,
        /// Reserved.
        pub rsvd2: [u8; 2],
        /// The last operations, newest first.
        pub result: [SelfTestResult; 20],
    }

    /// Self-test Result.
    pub struct SelfTestResult[28] {
        /// Device Self-test Status: bits 7:4 the self-test code, 3:0 the result, [`SelfTestOutcome`].
        pub status: u8,
        /// Segment Number of the first failure, if the result says that it is known.
        pub segment: u8,
        /// Valid Diagnostic Information: bit 0 NSID, 1 Failing LBA, 2 Status Code Type, 3 Status Code.
        pub valid: u8,
        /// Reserved.
        pub rsvd3: u8,
        /// Power On Hours at its end.
        pub poh: U64,
        /// Namespace Identifier of the failing LBA.
        pub nsid: U32,
        /// Failing LBA.
        pub flba: U64,
        /// Status Code Type.
        pub sct: u8,
        /// Status Code.
        pub sc: u8,
        /// Vendor Specific.
        pub vs: U16,
    }
}
layout!(TelemetryHeader, 512, dalb1 @ 8, dalb4 @ 16, host_scope @ 380, controller_available @ 382, reason @ 384);
layout!(SelfTestResult, 28, poh @ 4, nsid @ 12, flba @ 16, sct @ 24);

/// Bytes of a telemetry data block.
pub const TELEMETRY_BLOCK: usize = 512;

open_enum! {
    /// Result of a self-test: bits 3:0 of its status.
    pub struct SelfTestOutcome: u8 {
        /// Operation completed without error.
        PASSED = 0x0 => "Operation completed without error",
        /// Aborted by a Device Self-test command.
        ABORTED = 0x1 => "Operation was aborted by a Device Self-test command",
        /// Aborted by a Controller Level Reset.
        RESET = 0x2 => "Operation was aborted by a Controller Level Reset",
        /// A namespace was removed from the inventory.
        NAMESPACE_REMOVED = 0x3 => "Operation was aborted due to a removal of a namespace from the namespace inventory",
        /// Aborted by Format NVM.
        FORMAT = 0x4 => "Operation was aborted due to the processing of a Format NVM command",
        /// A fatal or unknown error; it did not complete.
        FATAL = 0x5 => "A fatal error or unknown test error occurred and the operation did not complete",
        /// A segment failed, which is not known.
        FAILED = 0x6 => "Operation completed with a segment that failed and the segment is not known",
        /// Segments failed; the first is told.
        FAILED_SEGMENT = 0x7 => "Operation completed with one or more failed segments",
        /// Aborted for an unknown reason.
        UNKNOWN = 0x8 => "Operation was aborted for unknown reason",
        /// Aborted by a sanitize operation.
        SANITIZE = 0x9 => "Operation was aborted due to a sanitize operation",
        /// Entry not used.
        UNUSED = 0xF => "Entry not used",
    }
}
