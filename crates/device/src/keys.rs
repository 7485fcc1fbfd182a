//! Keys of namespaces, as far as the drive knows of them: wrapped, and in the hands of the owner of contents.
//!
//! A namespace that was made, or formatted, when the drive had a *drive key* has a key of its own, and its blocks are encrypted
//! by the owner of contents. The drive keeps the key as the owner wrapped it, in its non-volatile state. A drive that has
//! such namespaces and is opened without their drive key is *locked*: those namespaces are there, with all their properties,
//! and refuse whatever touches blocks with Access Denied, as do commands that would lose them.

use crate::contents::Contents;
use crate::core::Failure;
use crate::drive::Drive;
use ftl::StorageError;
use nvme::Status;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Most bytes of a wrapped key.
const MOST_WRAPPED: usize = 256;

/// A namespace's key, encrypted with the drive key: only the owner of contents can make anything of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrappedKey(Vec<u8>);

impl WrappedKey {
    /// From what the owner of contents made; `None` if that is longer than 256 bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        (bytes.len() <= MOST_WRAPPED).then_some(WrappedKey(bytes))
    }

    /// What the owner of contents made.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// As hexadecimal digits, so that it can be read, and found, in an image.
impl Serialize for WrappedKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&digits)
    }
}

impl<'de> Deserialize<'de> for WrappedKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.as_bytes().chunks(2);
        let bytes = digits.map(|pair| {
            let pair = str::from_utf8(pair).ok().filter(|p| p.len() == 2)?;
            u8::from_str_radix(pair, 16).ok()
        });
        let key = bytes.collect::<Option<Vec<u8>>>().and_then(WrappedKey::new);
        key.ok_or_else(|| {
            serde::de::Error::custom("a wrapped key is hexadecimal digits of at most 256 bytes")
        })
    }
}

/// What tells drive keys apart, and tells nothing of them.
pub type DriveKeyId = [u8; 16];

impl Drive {
    /// Gives every namespace of a new drive a key, if its owner has a drive key. To be called before anything is written.
    ///
    /// # Errors
    /// If the owner cannot make keys.
    pub fn encrypt<S: Contents>(&mut self, storage: &mut S) -> Result<(), StorageError> {
        self.core.drive_key.keyed = storage.drive_key().is_some();
        self.core.persistent.encrypted = self.core.drive_key.keyed;
        self.core.namespaces.ids().into_iter().try_for_each(|nsid| self.change_key(nsid, storage))
    }

    /// Opens the keys of all namespaces, after the drive was opened.
    pub(crate) fn open_keys<S: Contents>(&mut self, storage: &mut S) {
        let ours = storage.drive_key();
        self.core.drive_key.locked =
            self.core.persistent.drive_key.is_some() && self.core.persistent.drive_key != ours;
        self.core.drive_key.keyed = ours.is_some() && !self.core.drive_key.locked;
        for nsid in self.core.namespaces.ids() {
            let Some(ns) = self.core.namespaces.get_mut(nsid) else { continue };
            if let Some(key) = &ns.key {
                ns.locked = self.core.drive_key.locked || !storage.open_key(nsid, key);
                ns.layout.treated = true;
            }
        }
    }

    /// Whether the drive was opened without its drive key, so that namespaces with keys cannot be used.
    pub fn is_locked(&self) -> bool {
        self.core.drive_key.locked
    }

    /// Identifiers of namespaces that are stored in the clear.
    pub fn plain_namespaces(&self) -> Vec<u32> {
        self.core.namespaces.iter().filter(|(_, ns)| ns.key.is_none()).map(|(nsid, _)| nsid).collect()
    }

    /// Makes a new key for a namespace whose blocks have been given up; none without a drive key.
    pub(crate) fn renew_key<S: Contents>(&mut self, nsid: u32, storage: &mut S) -> Result<(), Failure> {
        self.change_key(nsid, storage).map_err(|_| Failure::transient(Status::INTERNAL_ERROR))
    }

    fn change_key<S: Contents>(&mut self, nsid: u32, storage: &mut S) -> Result<(), StorageError> {
        let key = storage.make_key(nsid)?;
        if key.is_some() {
            // The first of them binds the drive to its drive key.
            self.core.persistent.drive_key = storage.drive_key();
        }
        // What is not encrypted is on the media, and stays there until they are erased.
        self.core.persistent.encrypted &= key.is_some();
        if let Some(ns) = self.core.namespaces.get_mut(nsid) {
            ns.layout.treated |= key.is_some();
            ns.locked = false;
            ns.key = key;
        }
        Ok(())
    }

    /// Commands that would lose what a locked namespace holds, or put plain data on a drive that has a key.
    pub(crate) fn refuse_locked(&self, nsids: &[u32]) -> Result<(), Failure> {
        let locked = |nsid: &u32| self.core.namespaces.get(*nsid).is_some_and(|ns| ns.locked);
        // One whose key alone is damaged is lost anyway.
        if self.core.drive_key.locked && nsids.iter().any(locked) {
            Err(Status::ACCESS_DENIED.into())
        } else {
            Ok(())
        }
    }

    /// Whether all that is on the media can be erased by new keys.
    pub(crate) fn can_crypto_erase(&self) -> bool {
        self.core.persistent.encrypted && self.core.drive_key.keyed
    }
}
