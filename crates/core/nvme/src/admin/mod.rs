//! Admin commands, parsed (Base 5); the inverse is `Command::from`.

mod encode;
pub(crate) mod parse;

use crate::command::{AdminOpcode, Command};
use crate::directive::{Directive, DirectiveType};
use crate::fabrics::FabricsCommand;
pub use crate::fault::FaultKind;
use crate::feature::{FeatureId, Select};
use crate::identify::Cns;
use crate::log::LogId;
use crate::{Csi, Nsid, Status, U32};

/// A command of an admin queue, as a controller executes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdminCommand {
    /// Delete I/O Submission Queue.
    DeleteIoSq(DeleteQueue),
    /// Create I/O Submission Queue.
    CreateIoSq(CreateIoSq),
    /// Get Log Page.
    GetLogPage(GetLogPage),
    /// Delete I/O Completion Queue.
    DeleteIoCq(DeleteQueue),
    /// Create I/O Completion Queue.
    CreateIoCq(CreateIoCq),
    /// Identify.
    Identify(Identify),
    /// Abort.
    Abort(Abort),
    /// Set Features.
    SetFeatures(SetFeatures),
    /// Get Features.
    GetFeatures(GetFeatures),
    /// Asynchronous Event Request.
    AsyncEventRequest,
    /// Namespace Management.
    NamespaceManagement(NamespaceManagement),
    /// Firmware Commit.
    FirmwareCommit(FirmwareCommit),
    /// Firmware Image Download.
    FirmwareImageDownload(FirmwareImageDownload),
    /// Device Self-test.
    DeviceSelfTest(DeviceSelfTest),
    /// Namespace Attachment.
    NamespaceAttachment(NamespaceAttachment),
    /// Keep Alive.
    KeepAlive,
    /// Directive Send.
    DirectiveSend(Directive),
    /// Directive Receive.
    DirectiveReceive(Directive),
    /// Format NVM.
    FormatNvm(FormatNvm),
    /// Sanitize.
    Sanitize(Sanitize),
    /// Get LBA Status.
    GetLbaStatus(GetLbaStatus),
    /// Vendor specific D0h: cut the drive's power.
    PowerCut(PowerCut),
    /// Vendor specific D1h: inject a fault.
    FaultInjection(FaultInjection),
    /// The same for a fault of the protocol.
    ProtocolFault(ProtocolFaultInjection),
    /// A fabrics command.
    Fabrics(FabricsCommand),
}

/// Delete I/O Submission Queue, Delete I/O Completion Queue (Base 5.2.3, 5.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeleteQueue {
    /// Queue Identifier.
    pub qid: u16,
}

/// Create I/O Completion Queue (Base 5.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreateIoCq {
    /// Queue Identifier.
    pub qid: u16,
    /// Queue Size, zero-based.
    pub qsize_z: u16,
    /// Physically Contiguous.
    pub pc: bool,
    /// Interrupts Enabled.
    pub ien: bool,
    /// Interrupt Vector.
    pub iv: u16,
}

/// Create I/O Submission Queue (Base 5.2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreateIoSq {
    /// Queue Identifier.
    pub qid: u16,
    /// Queue Size, zero-based.
    pub qsize_z: u16,
    /// Physically Contiguous.
    pub pc: bool,
    /// Queue Priority: 0 urgent, 1 high, 2 medium, 3 low.
    pub qprio: u8,
    /// Completion Queue Identifier.
    pub cqid: u16,
    /// NVM Set Identifier; 0 for none.
    pub nvmsetid: u16,
}

/// Get Log Page (Base 5.1.12).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetLogPage {
    /// Namespace Identifier: 0 or FFFFFFFFh for the controller's scope.
    pub nsid: Nsid,
    /// Log Page Identifier.
    pub lid: LogId,
    /// Log Specific Parameter.
    pub lsp: u8,
    /// Log Specific Identifier: NVM Set, Endurance Group, … by the log.
    pub lsi: u16,
    /// Retain Asynchronous Event.
    pub rae: bool,
    /// Number of dwords to return, counted from one: 1 to 2^32.
    pub dwords: u64,
    /// Log Page Offset in bytes, or an index when `ot` is set. Not checked for alignment.
    pub offset: u64,
    /// Offset Type: the offset is an index into the log's entries.
    pub ot: bool,
    /// Command Set Identifier.
    pub csi: Csi,
    /// UUID Index.
    pub uidx: u8,
}

impl GetLogPage {
    /// Bytes to return: 4 to 2^34.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.dwords * 4
    }
}

/// Identify (Base 5.1.13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identify {
    /// Namespace Identifier, where the CNS uses one.
    pub nsid: Nsid,
    /// Controller or Namespace Structure.
    pub cns: Cns,
    /// Controller Identifier, where the CNS uses one.
    pub cntid: u16,
    /// CNS Specific Identifier: the first NVM Set, Endurance Group, domain … by the CNS.
    pub cnssid: u16,
    /// Command Set Identifier.
    pub csi: Csi,
    /// UUID Index.
    pub uidx: u8,
}

/// Abort (Base 5.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abort {
    /// Submission Queue Identifier of the command to abort.
    pub sqid: u16,
    /// Command Identifier of the command to abort.
    pub cid: u16,
}

/// Set Features (Base 5.1.25).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetFeatures {
    /// Namespace Identifier, where the feature has namespace scope.
    pub nsid: Nsid,
    /// Feature Identifier.
    pub fid: FeatureId,
    /// Save: keep the value through power cycles and resets.
    pub sv: bool,
    /// UUID Index.
    pub uidx: u8,
    /// Command Dwords 11, 12, 13: the value, by the feature.
    pub cdw11: u32,
    /// Command Dword 12.
    pub cdw12: u32,
    /// Command Dword 13.
    pub cdw13: u32,
    /// Command Dword 15.
    pub cdw15: u32,
}

/// Get Features (Base 5.1.11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetFeatures {
    /// Namespace Identifier, where the feature has namespace scope.
    pub nsid: Nsid,
    /// Feature Identifier.
    pub fid: FeatureId,
    /// Select: current, default, saved or supported capabilities.
    pub sel: Select,
    /// UUID Index.
    pub uidx: u8,
    /// Command Dword 11: by the feature.
    pub cdw11: u32,
}

open_enum! {
    /// Select field of Namespace Management (Base 5.1.21).
    pub struct NamespaceManagementSelect: u8 {
        /// Create a namespace; the data is [`crate::identify::NamespaceCreate`], the result its NSID.
        CREATE = 0 => "Create",
        /// Delete the namespace; no data.
        DELETE = 1 => "Delete",
    }
}

/// Namespace Management (Base 5.1.21).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamespaceManagement {
    /// Namespace Identifier: 0 to create, the namespace or FFFFFFFFh (all) to delete.
    pub nsid: Nsid,
    /// Select: only create and delete are parsed.
    pub sel: NamespaceManagementSelect,
    /// Command Set Identifier of the namespace to create.
    pub csi: Csi,
}

open_enum! {
    /// Select field of Namespace Attachment (Base 5.1.20).
    pub struct NamespaceAttachmentSelect: u8 {
        /// Controller Attach.
        ATTACH = 0 => "Controller Attach",
        /// Controller Detach.
        DETACH = 1 => "Controller Detach",
    }
}

/// Namespace Attachment (Base 5.1.20); the data is a [`crate::identify::ControllerList`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamespaceAttachment {
    /// Namespace Identifier.
    pub nsid: Nsid,
    /// Select: only attach and detach are parsed.
    pub sel: NamespaceAttachmentSelect,
}

open_enum! {
    /// Commit Action of Firmware Commit (Base 5.1.8).
    pub struct CommitAction: u8 {
        /// The downloaded image replaces that of the slot, and is not activated.
        REPLACE = 0 => "Replace without activation",
        /// The downloaded image replaces that of the slot, and is activated at the next Controller Level Reset.
        REPLACE_AND_ACTIVATE = 1 => "Replace, activate at the next reset",
        /// The slot's image is activated at the next Controller Level Reset.
        ACTIVATE = 2 => "Activate at the next reset",
        /// The slot's image is activated immediately; a downloaded image replaces it before.
        ACTIVATE_IMMEDIATELY = 3 => "Activate immediately",
    }
}

/// Firmware Commit (Base 5.1.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirmwareCommit {
    /// Firmware Slot: 1 to 7, or 0 to let the controller choose.
    pub fs: u8,
    /// Commit Action: values that are not named come through as well.
    pub ca: CommitAction,
    /// Boot Partition ID.
    pub bpid: bool,
}

/// Firmware Image Download (Base 5.1.9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirmwareImageDownload {
    /// Number of dwords of this piece, counted from one: 1 to 2^32.
    pub dwords: u64,
    /// Offset of this piece in dwords.
    pub offset: u32,
}

/// Device Self-test (Base 5.1.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceSelfTest {
    /// Namespaces to test: 0 controller only, FFFFFFFFh all.
    pub nsid: Nsid,
    /// Self-test Code: 1 short, 2 extended, 3 host-initiated refresh, Eh vendor specific, Fh abort.
    pub stc: u8,
}

open_enum! {
    /// Secure Erase Settings (Base 5.1.10, Format NVM).
    pub struct SecureErase: u8 {
        /// No secure erase operation requested.
        NONE = 0 => "No secure erase operation requested",
        /// User Data Erase.
        USER_DATA = 1 => "User Data Erase",
        /// Cryptographic Erase.
        CRYPTOGRAPHIC = 2 => "Cryptographic Erase",
    }
}

/// Format NVM (Base 5.1.10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FormatNvm {
    /// Namespace Identifier, or FFFFFFFFh for all (`fna` says whether that is allowed).
    pub nsid: Nsid,
    /// Index into the namespace's LBA formats: LBAFL and LBAFU together, 0 to 63.
    pub lbaf: u8,
    /// Metadata Settings: metadata as part of an extended data LBA.
    pub mset: bool,
    /// Protection Information: 0 off, 1 to 3 the type.
    pub pi: u8,
    /// Protection Information Location: first bytes of metadata (else last).
    pub pil: bool,
    /// Secure Erase Settings.
    pub ses: SecureErase,
}

open_enum! {
    /// Sanitize Action (Base 5.1.22).
    pub struct SanitizeAction: u8 {
        /// Exit Failure Mode.
        EXIT_FAILURE_MODE = 1 => "Exit Failure Mode",
        /// Start a Block Erase sanitize operation.
        BLOCK_ERASE = 2 => "Block Erase",
        /// Start an Overwrite sanitize operation.
        OVERWRITE = 3 => "Overwrite",
        /// Start a Crypto Erase sanitize operation.
        CRYPTO_ERASE = 4 => "Crypto Erase",
        /// Exit Media Verification State.
        EXIT_MEDIA_VERIFICATION = 5 => "Exit Media Verification State",
    }
}

open_enum! {
    /// Action Type of Get LBA Status (NVM 4.2.1).
    pub struct LbaStatusAction: u8 {
        /// Allocated blocks.
        ALLOCATED = 0x02 => "Tracked Allocated Logical Blocks",
        /// Potentially Unrecoverable blocks, after a scan of the medium.
        SCAN = 0x10 => "Untracked and Tracked Potentially Unrecoverable Logical Blocks",
        /// Potentially Unrecoverable blocks that are known without a scan.
        TRACKED = 0x11 => "Tracked Potentially Unrecoverable Logical Blocks",
    }
}

/// Get LBA Status (NVM 4.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetLbaStatus {
    /// Namespace Identifier.
    pub nsid: Nsid,
    /// Starting LBA.
    pub slba: u64,
    /// Maximum Number of Dwords to be returned, counted from one.
    pub dwords: u64,
    /// Range Length in logical blocks; 0 is up to the namespace's end.
    pub range: u16,
    /// Action Type; unknown ones are refused by the parser.
    pub atype: LbaStatusAction,
}

impl GetLbaStatus {
    /// Bytes of data.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.dwords * 4
    }
}

wire! {
    /// Header of what Get LBA Status returns (NVM 4.2.1, "LBA Status Descriptor List").
    pub struct LbaStatusHeader[8] {
        /// Number of LBA Status Descriptors that follow.
        pub nlsd: U32,
        /// Completion Condition: 1 more is to be returned or looked at, 2 complete.
        pub cmpc: u8,
        /// Reserved.
        pub rsvd5: [u8; 3],
    }

    /// LBA Status Descriptor (NVM 4.2.1).
    pub struct LbaStatusDescriptor[16] {
        /// Descriptor Starting LBA.
        pub dslba: crate::U64,
        /// Number of Logical Blocks, counted from one.
        pub nlb: U32,
        /// Reserved.
        pub rsvd12: u8,
        /// Additional status: bits 2:0, the range's state for an action of 02h.
        pub status: u8,
        /// Reserved.
        pub rsvd14: [u8; 2],
    }
}

/// Sanitize (Base 5.1.22).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sanitize {
    /// Sanitize Action; 0 and values above 5 are refused by the parser.
    pub sanact: SanitizeAction,
    /// Allow Unrestricted Sanitize Exit.
    pub ause: bool,
    /// Overwrite Pass Count: 0 means 16.
    pub owpass: u8,
    /// Overwrite Invert Pattern Between Passes.
    pub oipbp: bool,
    /// No-Deallocate After Sanitize.
    pub ndas: bool,
    /// Enter Media Verification State.
    pub emvs: bool,
    /// Overwrite Pattern.
    pub ovrpat: u32,
}

/// Vendor specific command D0h: the drive loses its power.
///
/// | dword | meaning |
/// |---|---|
/// | CDW10 | media operations to let through before the cut: 0 cuts now |
/// | CDW11 | how long the power stays off, in milliseconds of the drive's time; 0 as short as possible |
/// | CDW12 | seed for what the cut tears |
/// | CDW13 | bit 0: also without the capacitors' energy (power-loss protection fails) |
///
/// The command completes before the power goes, so that the host knows that it was accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PowerCut {
    /// Media operations to let through before the cut.
    pub after_media_ops: u32,
    /// Milliseconds of the drive's time without power.
    pub off_ms: u32,
    /// Seed of the media's faults from now on; 0 keeps theirs. What a cut tears is no chance: it is all that is under way.
    pub seed: u32,
    /// The capacitors fail too: what relies on power-loss protection is lost.
    pub no_plp: bool,
}

/// Vendor specific command D1h: arm or clear a fault.
///
/// | field | meaning |
/// |---|---|
/// | NSID | namespace whose logical blocks are hit; 0 or FFFFFFFFh: any media operation |
/// | CDW10 7:0 | [`FaultKind`] |
/// | CDW10 31:16 | NVM Set Identifier, 0 for all; for faults of a port the port's identifier |
/// | CDW11 | how many operations are hit before the fault disarms itself; 0 means until cleared |
/// | CDW12 | one in how many matching operations is hit; 0 and 1 mean every one |
/// | CDW13 | `param`, by the kind |
/// | CDW14, CDW15 | first logical block, lower and upper half; all ones means any |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultInjection {
    /// Namespace whose logical blocks are hit; 0 or FFFFFFFFh for any.
    pub nsid: Nsid,
    /// What to inject.
    pub kind: FaultKind,
    /// NVM Set Identifier, 0 for all; for faults of a port the port's identifier.
    pub nvmsetid: u16,
    /// Operations to hit; 0 without limit.
    pub count: u32,
    /// One in how many matching operations is hit.
    pub one_in: u32,
    /// By the kind.
    pub param: u32,
    /// The logical block to hit; `None` for any.
    pub lba: Option<u64>,
}

/// Vendor specific command D1h for a fault of the protocol. Its data is a [`FaultSelector`](crate::fault_selector::FaultSelector).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtocolFaultInjection {
    /// The namespace of the commands; 0 or FFFFFFFFh for any.
    pub nsid: Nsid,
    /// What to inject: 30h and above.
    pub kind: FaultKind,
    /// The identifier of a port, 0 for all.
    pub port: u16,
    /// Commands to strike; 0 without limit.
    pub count: u32,
    /// One in how many is struck.
    pub one_in: u32,
    /// By the kind.
    pub param: u32,
}

bits32! {
    struct IdentifyCdw10 { #[bits(8)] cns: Cns, #[bits(8)] _r: u8, #[bits(16)] cntid: u16 }
    struct IdentifyCdw11 { #[bits(16)] cnssid: u16, #[bits(8)] _r: u8, #[bits(8)] csi: Csi }
    struct LogCdw10 { #[bits(8)] lid: LogId, #[bits(7)] lsp: u8, rae: bool, #[bits(16)] numdl: u16 }
    struct LogCdw11 { #[bits(16)] numdu: u16, #[bits(16)] lsi: u16 }
    struct LogCdw14 { #[bits(7)] uidx: u8, #[bits(16)] _r: u16, ot: bool, #[bits(8)] csi: Csi }
    struct SetFeaturesCdw10 { #[bits(8)] fid: FeatureId, #[bits(23)] _r: u32, sv: bool }
    struct GetFeaturesCdw10 { #[bits(8)] fid: FeatureId, #[bits(3)] sel: Select, #[bits(21)] _r: u32 }
    struct Halves { #[bits(16)] low: u16, #[bits(16)] high: u16 }
    struct CqCdw11 { pc: bool, ien: bool, #[bits(14)] _r: u16, #[bits(16)] iv: u16 }
    struct SqCdw11 { pc: bool, #[bits(2)] qprio: u8, #[bits(13)] _r: u16, #[bits(16)] cqid: u16 }
    struct FormatCdw10 {
        #[bits(4)] lbafl: u8, mset: bool, #[bits(3)] pi: u8, pil: bool, #[bits(3)] ses: SecureErase,
        #[bits(2)] lbafu: u8, #[bits(18)] _r: u32,
    }
    struct SanitizeCdw10 {
        #[bits(3)] sanact: SanitizeAction, ause: bool, #[bits(4)] owpass: u8, oipbp: bool, ndas: bool,
        emvs: bool, #[bits(21)] _r: u32,
    }
    struct DirectiveCdw11 { #[bits(8)] doper: u8, #[bits(8)] dtype: DirectiveType, #[bits(16)] dspec: u16 }
    struct FaultCdw10 { #[bits(8)] kind: FaultKind, #[bits(8)] _r: u8, #[bits(16)] nvmsetid: u16 }
}

fn halves(dword: U32) -> (u16, u16) {
    let d = Halves(dword);
    (d.low(), d.high())
}
