//! What the drives of a study were, in its results.

use std::collections::BTreeMap;

use lab_databases::layout::Layout;
use schemars::JsonSchema;
use serde::Serialize;
use toml::Table;

/// What the drive of a study was, or its drives.
#[derive(Default, Serialize, JsonSchema)]
pub struct StudyDrive<'a> {
    /// Profile or TOML file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "filesystem, cache and oltp: each drive has its own"))]
    pub(crate) profile: Option<&'a str>,
    /// The drive's TOML as JSON ([drive-toml.md](drive-toml.md) has its keys).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    #[schemars(extend("absent" = "filesystem and cache, oltp without `--live`, zoned with `--db-bench`"))]
    pub(crate) toml: Option<&'a Table>,
    /// The scaled drives' TOML as JSON, by the drives' names.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, serde_json::Map<String, serde_json::Value>>>")]
    #[schemars(extend("absent" = "any study but filesystem with `--live`"))]
    pub(crate) tomls: Option<BTreeMap<&'static str, &'a Table>>,
    /// The layout of the drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "any study but doublewrite without `--sim`"))]
    pub(crate) layout: Option<&'a Layout>,
    /// Profile or TOML file of the NVMe drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "any study but filesystem, cache and oltp"))]
    pub(crate) nvme: Option<&'a str>,
    /// Profile or TOML file of the SAS SSD.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "any study but filesystem and cache"))]
    pub(crate) sas: Option<&'a str>,
    /// Profile or TOML file of the hard disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "any study but filesystem, cache and oltp"))]
    pub(crate) disk: Option<&'a str>,
    /// The storage controller of the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "any study but cache and oltp; with `--live`"))]
    pub(crate) controller: Option<&'static str>,
    /// Whether the drives have the size of the published ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "any study but filesystem; with `--live`"))]
    pub(crate) full: Option<bool>,
    /// Size of the disk that is cached.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("unit" = "bytes", "absent" = "any study but cache"))]
    pub(crate) origin_bytes: Option<u64>,
    /// Size of the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("unit" = "bytes", "absent" = "any study but cache"))]
    pub(crate) cache_bytes: Option<u64>,
    /// Size of its metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("unit" = "bytes", "absent" = "any study but cache"))]
    pub(crate) metadata_bytes: Option<u64>,
    /// Size of the file that the loads use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("unit" = "bytes", "absent" = "any study but cache"))]
    pub(crate) file_bytes: Option<u64>,
    /// Rows of the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "any study but oltp"))]
    pub(crate) rows: Option<u64>,
    /// Size of the buffer pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("unit" = "bytes", "absent" = "any study but oltp"))]
    pub(crate) pool_bytes: Option<u64>,
    /// Threads of sysbench.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "any study but oltp"))]
    pub(crate) threads: Option<u32>,
    /// The drives have the profiles' capacity divided by this.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "without `--live`; any study but filesystem and oltp"))]
    pub(crate) scale: Option<u32>,
    /// Times of the drives are multiplied by this, and rates are divided by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "without `--live`; any study but filesystem and oltp"))]
    pub(crate) slow_motion: Option<u32>,
}
