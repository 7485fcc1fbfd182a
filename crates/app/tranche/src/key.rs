//! `tranche key`.

use crate::options::Output;
use crate::{print_json, print_text, say_results};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use fabric::auth::{ChapKey, TlsPsk};
use live::DriveKey;
use nvme::auth::HashId;
use schemars::JsonSchema;
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What a key is for.
#[derive(Subcommand, Debug)]
pub enum Key {
    /// A DH-HMAC-CHAP key, as `nvme gen-dhchap-key` makes them
    Dhchap {
        /// Function that binds it to its owner's NQN: 0 none, 1 SHA-256, 2 SHA-384, 3 SHA-512
        #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=3))]
        hmac: u8,
        /// Its length in bytes: 32, 48 or 64 [default: as --hmac says, else 32]
        #[arg(long, value_name = "BYTES")]
        key_length: Option<u16>,
    },
    /// A drive key, for `tranche serve --drive-key` (docs/keys.md)
    Drive,
    /// A pre-shared key of TLS, as `nvme gen-tls-key` makes them
    Tls {
        /// Function that binds it to the host's NQN: 0 none, 1 SHA-256, 2 SHA-384
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=2))]
        hmac: u8,
        /// Its length in bytes: 32 or 48 [default: as --hmac says, else 32]
        #[arg(long, value_name = "BYTES")]
        key_length: Option<u16>,
    },
}

/// `tranche key`.
#[derive(Args, Debug)]
pub struct MakeKey {
    /// Write the key to a new file that only its owner can read, rather than print it
    #[arg(long, alias = "out", value_name = "FILE", global = true)]
    pub file: Option<PathBuf>,
    #[command(subcommand)]
    pub kind: Key,
}

/// The key, or where it is.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub enum MadeKey {
    /// Without --file.
    Printed {
        /// The key.
        key: String,
    },
    /// With --file.
    Kept {
        /// The file with the key.
        results: String,
    },
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
    }
    match (&command.file, output) {
        (Some(file), Output::Json) => print_json(&MadeKey::Kept { results: file.display().to_string() }),
        (Some(file), Output::Text) => {
            say_results(file);
            Ok(())
        }
        (None, Output::Json) => print_json(&MadeKey::Printed { key: text }),
        (None, Output::Text) => print_text(&text),
    }
}

/// Writes a key to a file that only its owner can read. The file must be new: what is encrypted with the key of an old one would be
/// lost.
fn keep(file: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    writeln!(file, "{text}")?;
    file.sync_all()
}
