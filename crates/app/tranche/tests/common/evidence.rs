//! Directories with logs that the messages of a failed test name.

use std::{ops::Deref, thread};

use tempfile::TempDir;

/// A temporary directory. It stays when the test fails.
#[derive(Debug)]
pub struct Evidence(TempDir);

impl Evidence {
    /// Makes an empty one.
    pub fn new() -> Self {
        Self(tempfile::Builder::new().prefix("tranche-test-").tempdir().unwrap())
    }
}

impl Deref for Evidence {
    type Target = TempDir;

    fn deref(&self) -> &TempDir {
        &self.0
    }
}

impl Drop for Evidence {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.disable_cleanup(true);
            eprintln!("the test failed; {} has its files", self.0.path().display());
        }
    }
}
