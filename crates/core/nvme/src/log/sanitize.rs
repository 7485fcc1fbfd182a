//! The Sanitize Status log (Base 5.1.12.1.33).

use crate::{U16, U32};

wire! {
    /// Sanitize Status (LID 81h). Estimated times are in seconds; FFFFFFFFh is not reported.
    pub struct SanitizeStatus[512] {
        /// Sanitize Progress: the share that is done, in 1/65,536; FFFFh if none is in progress.
        pub sprog: U16,
        /// Sanitize Status.
        pub sstat: SanitizeSstat,
        /// Sanitize Command Dword 10: of the command that started the most recent operation.
        pub scdw10: U32,
        /// Estimated Time For Overwrite: 16 passes.
        pub eto: U32,
        /// Estimated Time For Block Erase.
        pub etbe: U32,
        /// Estimated Time For Crypto Erase.
        pub etce: U32,
        /// Estimated Time For Overwrite With No-Deallocate Media Modification.
        pub etond: U32,
        /// Estimated Time For Block Erase With No-Deallocate Media Modification.
        pub etbend: U32,
        /// Estimated Time For Crypto Erase With No-Deallocate Media Modification.
        pub etcend: U32,
        /// Estimated Time For Post-Verification Deallocation State.
        pub etpvds: U32,
        /// Sanitize State Information.
        pub ssi: SanitizeSsi,
        /// Reserved.
        pub rsvd37: [u8; 475],
    }
}

layout!(SanitizeStatus, 512, scdw10 @ 4, etbe @ 12, etpvds @ 32, ssi @ 36);

bits16! {
    /// Sanitize Status, field SSTAT.
    pub struct SanitizeSstat {
        /// Sanitize Operation Status.
        #[bits(3)]
        pub sos: SanitizeOperationStatus,
        /// Overwrite Passes Completed.
        #[bits(5)]
        pub opc: u8,
        /// Global Data Erased: no user data was written since the subsystem was made, or since it was last sanitized with
        /// success.
        pub gde: bool,
        /// Media Verification Canceled.
        pub mvcncld: bool,
        #[bits(6)]
        _r10: u8,
    }
}

bits8! {
    /// Sanitize State Information, field SSI.
    pub struct SanitizeSsi {
        /// Sanitize State.
        #[bits(4)]
        pub sans: SanitizeState,
        /// Failure State: the state in which the operation failed.
        #[bits(4)]
        pub fails: SanitizeState,
    }
}

open_enum! {
    /// Sanitize Operation Status.
    pub struct SanitizeOperationStatus: u8 {
        /// The subsystem has never been sanitized.
        NEVER = 0 => "never sanitized",
        /// The most recent operation completed.
        COMPLETED = 1 => "completed",
        /// An operation is in progress.
        IN_PROGRESS = 2 => "in progress",
        /// The most recent operation failed.
        FAILED = 3 => "failed",
        /// Completed, with blocks deallocated against the host's wish.
        UNEXPECTED_DEALLOCATION = 4 => "completed with unexpected deallocation",
    }
}

open_enum! {
    /// State of the sanitize operation state machine (Base 8.1.24).
    pub struct SanitizeState: u8 {
        /// No operation is in progress, none has failed.
        IDLE = 0 => "Idle",
        /// In progress; exit from a failure only by another operation.
        RESTRICTED_PROCESSING = 1 => "Restricted Processing",
        /// Failed, and only another operation leads out.
        RESTRICTED_FAILURE = 2 => "Restricted Failure",
        /// In progress; exit from a failure is allowed.
        UNRESTRICTED_PROCESSING = 3 => "Unrestricted Processing",
        /// Failed; Exit Failure Mode or another operation leads out.
        UNRESTRICTED_FAILURE = 4 => "Unrestricted Failure",
        /// Media Verification.
        MEDIA_VERIFICATION = 5 => "Media Verification",
        /// Post-Verification Deallocation.
        POST_VERIFICATION_DEALLOCATION = 6 => "Post-Verification Deallocation",
    }
}
