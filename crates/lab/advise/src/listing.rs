//! Files of configurations, and directories of them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::settings::place;
use lab_report::input::read_bytes;

/// Files within files, as the servers allow.
pub const MAX_NESTING: u32 = 10;
/// The longest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

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

/// Which line includes a file, for messages.
pub fn at_include(path: &Path, line: u32) -> String {
    format!("included by {}", place(path, line))
}

/// Whether there is a regular file that can be read.
///
/// # Errors
/// It is there and cannot be read, or is no file.
pub fn is_there(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        // Opening a pipe would wait for who writes to it.
        Ok(about) if !about.is_file() => Err(io::Error::other("it is no file")),
        Ok(_) => fs::File::open(path).map(|_| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The bytes of a file.
///
/// # Errors
/// It cannot be read, or is longer than 4 MiB.
pub fn content(path: &Path) -> Result<Vec<u8>> {
    read_bytes(path, MAX_FILE_BYTES)
}
