//! New identities for the drive of an image that was copied.

use crate::engine::Engine;
use crate::hosts::Hosts;
use crate::live_drive::FrontEnds;
use crate::shared::INBOX;
use crate::start::StartError;
use device::{Config, Drive, Identity};
use image::DriveKey;
use image::Opened;
use image::{BackgroundWork, ImageOptions, Locked};
use nvme::Nqn;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use toml_edit::DocumentMut;

/// Why a drive has no new identity.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// The image cannot be opened, or a name cannot be.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The key that was given is not the drive key.
    #[error(
        "the drive is LOCKED: renewing wraps the keys of namespaces for their new identifiers, which takes its drive key"
    )]
    Locked,
    /// A namespace's key could not be wrapped for its new identifier.
    #[error("the key of a namespace cannot be wrapped for its new identifier: nothing was changed")]
    Rewrap,
    /// New names cannot be put into the configuration.
    #[error("{0}")]
    Names(String),
    /// The image does not have the new identity.
    #[error("the new identity could not be recorded: see the warning before, and try again")]
    NotRecorded,
}

/// What the copy is to be called. What is `None` stays as the image's `drive.toml` has it.
#[derive(Clone, Default, Debug)]
pub struct NewNames {
    /// Serial number: up to 20 characters.
    pub serial: Option<String>,
    /// NQN of the subsystem.
    pub nqn: Option<String>,
}

/// Who the drive of an image is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveIdentity {
    /// Serial number.
    pub serial: String,
    /// NQN of the subsystem.
    pub nqn: Nqn,
    /// NSID, and the identifier (NGUID and UUID), of each namespace.
    pub namespaces: Vec<(u32, [u8; 16])>,
}

/// Gives the drive of an image, which nobody may use, an identity of its own: always new identifiers of namespaces, and the `names` that
/// are given. Contents, keys and settings stay. Returns what the drive was before, and what it is now.
///
/// After a crash the image opens, and has some of the new names at most. The call can be repeated.
///
/// # Errors
/// The image is in use or cannot be opened; the drive is locked, because `key` is not its drive key; a name cannot be; the host's disk fails.
pub fn renew(dir: &Path, names: &NewNames, key: Option<DriveKey>) -> Result<[DriveIdentity; 2], RenewError> {
    let locked = Locked::existing(dir).map_err(StartError::from)?;
    let text = names.put_into(&locked.config().map_err(StartError::from)?)?;
    let named = Config::from_toml(&text).map_err(StartError::from)?.identity;
    let open =
        |locked: Locked| locked.open(None, key.clone(), ImageOptions::default(), BackgroundWork::unheard());
    let Opened { mut drive, mut store, time, .. } = open(locked).map_err(StartError::from)?;
    if drive.is_locked() {
        return Err(RenewError::Locked);
    }
    let before = DriveIdentity::of(&drive, &drive.config().identity);
    drive.renew_identity(u64::from_le_bytes(image::random()), &mut store).map_err(|_| RenewError::Rewrap)?;
    let now = DriveIdentity::of(&drive, &named);
    let mut engine = Engine::new(drive, store);
    let (_inbox, requests) = sync_channel(INBOX);
    engine.stop_now(time, &mut FrontEnds { hosts: Hosts::new(requests), server: None, pci: None });
    drop(engine);
    let locked = Locked::existing(dir).map_err(StartError::from)?;
    locked.set_config(&text).map_err(StartError::from)?;
    // What was recorded may have failed, with no more than a warning.
    let Opened { drive, .. } = open(locked).map_err(StartError::from)?;
    match DriveIdentity::of(&drive, &drive.config().identity) == now {
        true => Ok([before, now]),
        false => Err(RenewError::NotRecorded),
    }
}

impl NewNames {
    /// The text of a configuration with these names; everything else stays as it is written.
    fn put_into(&self, text: &str) -> Result<String, RenewError> {
        let mut document: DocumentMut =
            text.parse().map_err(|e| RenewError::Names(format!("drive.toml: {e}")))?;
        for (key, name) in [("serial", &self.serial), ("nqn", &self.nqn)] {
            if let Some(name) = name {
                document["drive"][key] = toml_edit::value(name);
            }
        }
        Ok(document.to_string())
    }
}

impl DriveIdentity {
    fn of(drive: &Drive, named: &Identity) -> DriveIdentity {
        DriveIdentity {
            serial: named.serial.clone(),
            nqn: named.nqn,
            namespaces: drive.namespace_identifiers().collect(),
        }
    }
}
