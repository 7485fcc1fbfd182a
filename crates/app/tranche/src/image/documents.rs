//! What `tranche image` prints as JSON.

use host::view::uuid;
use image::examine::{Findings, LastShutdown};
use live::renew::DriveIdentity;
use nvme::Nsid;
use schemars::JsonSchema;
use serde::Serialize;

/// Who the drive was, and who it is now.
#[derive(Serialize, JsonSchema)]
pub struct Renewed {
    /// The identity that the image had.
    pub before: Identity,
    /// The identity that it has now.
    pub now: Identity,
}

/// An identity of a drive.
#[derive(Serialize, JsonSchema)]
pub struct Identity {
    /// All namespaces.
    namespaces: Vec<NamespaceIdentity>,
    /// NQN of the subsystem.
    nqn: String,
    /// Serial number.
    serial: String,
}

/// A namespace.
#[derive(Serialize, JsonSchema)]
struct NamespaceIdentity {
    /// Its identifier on the drive.
    nsid: Nsid,
    /// Its UUID. The NGUID has the same bytes.
    uuid: String,
}

impl From<&DriveIdentity> for Identity {
    fn from(of: &DriveIdentity) -> Self {
        let namespaces =
            of.namespaces.iter().map(|(nsid, id)| NamespaceIdentity { nsid: *nsid, uuid: uuid(id) });
        Self { namespaces: namespaces.collect(), nqn: of.nqn.to_string(), serial: of.serial.clone() }
    }
}

/// What is in an image.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Checked {
    /// An image that can be looked at.
    Usable {
        #[serde(flatten)]
        findings: FoundFiles,
        /// Whether anything is damaged.
        damaged: bool,
        /// The namespaces.
        namespaces: Vec<CheckedNamespace>,
        /// Always true.
        #[schemars(extend("const" = true))]
        usable: bool,
    },
    /// An image that cannot be opened.
    Unusable {
        /// Always true.
        #[schemars(extend("const" = true))]
        damaged: bool,
        /// Why not.
        error: String,
        /// Always false.
        #[schemars(extend("const" = false))]
        usable: bool,
    },
}

/// What was saved. The same is in report.json, without `results`.
#[derive(Serialize, JsonSchema)]
pub struct Saved {
    #[serde(flatten)]
    pub findings: FoundFiles,
    /// Whether everything is saved.
    pub complete: bool,
    /// The namespaces.
    pub namespaces: Vec<SavedNamespace>,
}

// What the files of an image say. It is a part of other documents.
#[derive(Serialize, JsonSchema)]
pub struct FoundFiles {
    /// Version of the image format.
    format_version: u32,
    /// Generations of checkpoints that are there.
    checkpoints: Vec<u64>,
    /// Generations of journals that are there.
    journals: Vec<u64>,
    /// The checkpoint that the state begins with.
    checkpoint: u64,
    /// Where the journals that count end.
    replayed_to: JournalEnd,
    /// How the drive was left.
    #[schemars(extend("enum" = ["clean", "killed", "host-down"]))]
    left: &'static str,
    /// What else is to be known.
    notes: Vec<String>,
    /// Damaged files.
    damaged_files: Vec<DamagedFile>,
    /// What was completed and is missing.
    #[schemars(extend("null" = "nothing is missing"))]
    missing: Option<Missing>,
}

/// Where the journals that count end.
#[derive(Serialize, JsonSchema)]
struct JournalEnd {
    /// The journal.
    generation: u64,
    /// The offset; 0 without a journal.
    #[schemars(extend("unit" = "bytes"))]
    byte: u64,
}

/// A file.
#[derive(Serialize, JsonSchema)]
struct DamagedFile {
    /// Its path.
    file: String,
    /// What is wrong.
    what: String,
    /// Whether anything is lost by that.
    loses: bool,
}

/// What was completed and is missing.
#[derive(Serialize, JsonSchema)]
struct Missing {
    /// Journals that are left out.
    #[schemars(extend("unit" = "bytes"))]
    journal_bytes: u64,
    /// The drive's time, at least.
    #[schemars(extend("unit" = "s"))]
    drive_seconds: f64,
}

impl From<&Findings> for FoundFiles {
    fn from(findings: &Findings) -> Self {
        let (generation, byte) = findings.end;
        let damaged = findings.damaged.iter().map(|file| DamagedFile {
            file: file.path.display().to_string(),
            what: file.what.clone(),
            loses: file.loses,
        });
        Self {
            format_version: findings.version,
            checkpoints: findings.checkpoints.clone(),
            journals: findings.journals.clone(),
            checkpoint: findings.checkpoint,
            replayed_to: JournalEnd { generation, byte },
            left: match findings.last_shutdown {
                LastShutdown::Clean => "clean",
                LastShutdown::Killed => "killed",
                LastShutdown::HostDown => "host-down",
            },
            notes: findings.notes.clone(),
            damaged_files: damaged.collect(),
            missing: findings.missing.map(|missing| Missing {
                journal_bytes: missing.journal_bytes,
                drive_seconds: seconds(missing.time.0),
            }),
        }
    }
}

/// A time of the drive in seconds.
pub fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// A namespace.
#[derive(Serialize, JsonSchema)]
pub struct CheckedNamespace {
    /// Data of a logical block.
    #[schemars(extend("unit" = "bytes"))]
    pub block_size: u32,
    /// Size.
    #[schemars(extend("unit" = "logical blocks"))]
    pub blocks: u64,
    /// Size.
    #[schemars(extend("unit" = "bytes"))]
    pub bytes: u64,
    /// Damaged blocks.
    pub damaged: Vec<BlockRange>,
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// Blocks that the drive itself lost to a fault of its media.
    pub lost_by_drive: Vec<BlockRange>,
    /// Blocks that a host marked.
    pub marked_uncorrectable: Vec<BlockRange>,
    /// Metadata of a logical block.
    #[schemars(extend("unit" = "bytes"))]
    pub metadata: u32,
    /// Namespace identifier.
    pub nsid: Nsid,
    /// Blocks of a page, which a checksum is that of.
    pub page_blocks: u32,
    /// Blocks that hold data and are whole.
    pub whole: u64,
    /// Of these, blocks of an earlier version without checksum.
    pub without_checksum: u64,
}

/// A range of blocks.
#[derive(Serialize, JsonSchema)]
pub struct BlockRange {
    /// How many.
    #[schemars(extend("unit" = "logical blocks"))]
    pub blocks: u64,
    /// First block.
    #[schemars(extend("unit" = "logical blocks"))]
    pub lba: u64,
}

/// A namespace.
#[derive(Serialize, JsonSchema)]
pub struct SavedNamespace {
    #[serde(flatten)]
    found: CheckedNamespace,
    /// Name of its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "it was not saved"))]
    pub file: Option<String>,
    /// Name of the file with its metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "it was not saved", "null" = "it has no metadata"))]
    pub metadata_file: Option<Option<String>>,
    /// Whether it was saved.
    saved: bool,
    /// Why it was not saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "it was saved"))]
    pub why_not: Option<&'static str>,
}

impl SavedNamespace {
    /// A namespace that is saved or not, without files and reasons.
    pub fn new(found: CheckedNamespace, saved: bool) -> Self {
        Self { found, file: None, metadata_file: None, saved, why_not: None }
    }
}
