//! How a drive is started.

use std::{path::Path, time::Duration};

/// How long a drive may take to become ready or to stop.
pub(crate) const DRIVE_TIMEOUT: Duration = Duration::from_secs(60);

/// How to start a drive.
#[derive(Debug)]
pub struct Start<'a> {
    /// For its socket, log and FUSE mount point.
    pub directory: &'a Path,
    /// Its TOML.
    pub toml: &'a toml::Table,
    /// The image, made when it does not exist.
    pub image: &'a Path,
    /// Whether operations take their modelled time.
    pub timing: bool,
}

/// The media of the drive's NVM Sets, as its TOML names them.
pub(super) fn media(toml: &toml::Table) -> Vec<String> {
    let sets = toml.get("set").and_then(toml::Value::as_array);
    let medium = |set: &toml::Value| Some(set.get("media")?.as_str()?.to_owned());
    sets.map(|sets| sets.iter().map(|set| medium(set).unwrap_or_else(|| "unknown".into())).collect())
        .unwrap_or_default()
}
