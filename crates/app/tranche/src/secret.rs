//! Keys on the command line.

use anyhow::{Context, Result};
use live::DriveKey;
use std::convert::Infallible;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::str::FromStr;

/// A key as the user gave it: its text, or the name of a file that holds it. It is taken as it is, because an
/// error of the command line's parser would repeat it.
#[derive(Clone)]
pub struct Secret(String);

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl Secret {
    /// Whether it says nothing: an environment variable that is set to nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The file that it names, if others than its owner can read that.
    pub fn exposed_file(&self) -> Option<&str> {
        let data = std::fs::metadata(&self.0).ok()?;
        (data.is_file() && data.permissions().mode() & 0o077 != 0).then_some(&self.0)
    }

    /// The key; `option` is what it was given with.
    pub fn read<K>(&self, option: &str) -> Result<K>
    where
        K: FromStr<Err: std::error::Error + Send + Sync + 'static>,
    {
        // Keys have colons at two places, and no file that anybody keeps a key in is called that way.
        let prefixes = ["DHHC-1:", "NVMeTLSkey-1:", DriveKey::PREFIX];
        if prefixes.iter().any(|prefix| self.0.starts_with(prefix)) {
            return self.0.trim().parse().with_context(|| option.to_owned());
        }
        let failed = || format!("{option}: cannot read the file {}", self.0);
        let mut text = String::new();
        File::open(&self.0)
            .with_context(failed)?
            .take(4096)
            .read_to_string(&mut text)
            .with_context(failed)?;
        text.trim().parse().with_context(|| format!("{option}: the file {}", self.0))
    }
}
