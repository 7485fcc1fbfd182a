//! Where the tests have MySQL from, which Debian 12 does not package.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The server that `scripts/mysql.sh` makes.
///
/// # Errors
/// The reason where it cannot be had here.
///
/// # Panics
/// The script fails otherwise.
pub fn server() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let run =
        Command::new(root.join("scripts/mysql.sh")).output().expect("scripts/mysql.sh cannot be started");
    let errors = String::from_utf8_lossy(&run.stderr).trim().to_owned();
    match run.status.code() {
        Some(0) => Ok(PathBuf::from(String::from_utf8_lossy(&run.stdout).trim())),
        Some(77) => Err(errors),
        _ => panic!("scripts/mysql.sh: {}\n{errors}", run.status),
    }
}
