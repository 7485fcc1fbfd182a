//! The database of a layout: a private server that is there while the command runs.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::size::Size;
use crate::postgresql::{Tuning, WalSync};

/// A private database server on a layout's namespaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// Which server.
    pub engine: Engine,
    /// Namespace with the data directory.
    #[serde(default = "data")]
    pub data: String,
    /// Namespace with the write-ahead log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "it is with the data"))]
    pub wal: Option<String>,
    /// `shared_buffers` with its unit: a whole number of MiB.
    #[serde(default = "shared_buffers")]
    #[schemars(with = "String")]
    pub shared_buffers: Size,
    /// `max_wal_size` with its unit, the log that makes a checkpoint start: a whole number of MiB, 32 MiB or more.
    #[serde(default = "max_wal_size")]
    #[schemars(with = "String")]
    pub max_wal_size: Size,
    /// Whether the log has whole pages after each checkpoint.
    #[serde(default = "on")]
    pub full_page_writes: bool,
    /// Whether pages have checksums.
    #[serde(default = "on")]
    pub checksums: bool,
    /// How the log gets to the drive at a commit.
    #[serde(default)]
    pub wal_sync_method: WalSync,
    /// Scale of pgbench's tables, which are filled when the layout is prepared; 0 makes none.
    #[serde(default)]
    pub pgbench_scale: u32,
    /// Warehouses of TPC-C, which are filled when the layout is prepared; 0 makes none.
    #[serde(default)]
    pub tpcc_warehouses: u32,
    /// Further settings of the server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("absent" = "there are none"))]
    pub settings: BTreeMap<String, String>,
}

/// A database server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// PostgreSQL.
    PostgreSql,
}

fn data() -> String {
    "data".into()
}

fn shared_buffers() -> Size {
    Size::Bytes(128 << 20)
}

fn max_wal_size() -> Size {
    Size::Bytes(256 << 20)
}

fn on() -> bool {
    true
}

/// A whole number of MiB, at least `least`.
fn mebibytes(key: &str, size: Size, least: u64) -> Result<u64> {
    match size {
        Size::Bytes(bytes) if bytes % (1 << 20) == 0 && bytes >> 20 >= least => Ok(bytes >> 20),
        _ => bail!("{key} is a whole number of MiB, and {least}MiB at least"),
    }
}

impl Database {
    /// How the server is to be set.
    ///
    /// # Errors
    /// A size that cannot be.
    pub fn tuning(&self) -> Result<Tuning> {
        Ok(Tuning {
            shared_buffers_mib: mebibytes("shared_buffers", self.shared_buffers, 1)?,
            max_wal_mib: mebibytes("max_wal_size", self.max_wal_size, 32)?,
            full_page_writes: self.full_page_writes,
            checksums: self.checksums,
            wal_sync: self.wal_sync_method,
            extra: self.settings.clone().into_iter().collect(),
        })
    }

    /// Checks what the types do not. `mounted` says of a namespace's name whether that has a file system, and nothing if there is no
    /// such namespace.
    ///
    /// # Errors
    /// The first value that cannot be.
    pub(super) fn check(&self, mounted: impl Fn(&str) -> Option<bool>) -> Result<()> {
        self.tuning()?;
        for (key, name) in [("data", Some(&self.data)), ("wal", self.wal.as_ref())] {
            let Some(name) = name else { continue };
            match mounted(name) {
                Some(true) => {}
                Some(false) => bail!("{key} = {name:?}: that namespace needs a file system, xfs or ext4"),
                None => bail!("{key} = {name:?}: there is no namespace of this name in the layout"),
            }
        }
        if self.wal.as_ref() == Some(&self.data) {
            bail!("wal names the namespace of the data: leave it out, and the log is there");
        }
        Ok(())
    }
}
