//! `tranche key`, and keys on the command line.

use crate::args::{Key, MakeKey, Output};
use crate::{print_json, print_text, print_written};
use anyhow::{Context, Result};
use fabric::auth::{ChapKey, TlsPsk};
use nvme::auth::HashId;
use run::DriveKey;
use std::convert::Infallible;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
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

/// `tranche key`.
pub fn key(command: &MakeKey, output: Output) -> Result<()> {
    let transform = |hmac: u8| (hmac != 0).then_some(HashId(hmac));
    let length = |length: &Option<u16>| length.map(usize::from);
    let random = &mut host::fill_random;
    let text = match &command.kind {
        Key::Dhchap { hmac, key_length } => {
            ChapKey::generate(transform(*hmac), length(key_length), random)?.to_secret_text()
        }
        Key::Drive => DriveKey::generate(random).to_secret_text(),
        Key::Tls { hmac, key_length } => {
            TlsPsk::generate(transform(*hmac), length(key_length), random)?.to_secret_text()
        }
    };
    if let Some(file) = &command.file {
        keep(file, &text).with_context(|| format!("--file: cannot write the file {}", file.display()))?;
        return print_written(&serde_json::Map::new(), file, output);
    }
    match output {
        Output::Json => print_json(&serde_json::json!({ "key": text })),
        Output::Text => print_text(&text),
    }
}

/// Writes a key to a file that only its owner can read. The file must be new: what is encrypted with the key of an old one would be
/// lost.
fn keep(file: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    writeln!(file, "{text}")?;
    file.sync_all()
}
