//! Directories of configuration files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The files of a directory whose names end so, by name; hidden ones are left out.
///
/// # Errors
/// The directory cannot be read.
pub fn files(path: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(path).with_context(|| format!("cannot read the directory {}", path.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let file = entry.with_context(|| format!("cannot read the directory {}", path.display()))?.path();
        let hidden = file.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && file.extension().is_some_and(|end| end == ending) && !file.is_dir() {
            found.push(file);
        }
    }
    found.sort();
    Ok(found)
}
