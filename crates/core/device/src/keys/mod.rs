//! Keys of namespaces: which namespace has one, when it gets a new one, and what a locked drive refuses.
//!
//! The drive sees no key. The owner of contents makes keys, wraps them with the *drive key*, and encrypts blocks with them. The
//! drive keeps a wrapped key as part of its namespace ([`wrapped`]). A namespace that is made or formatted while there is a drive
//! key gets a key of its own.
//!
//! A drive with such namespaces that is opened without their drive key is *locked*. Those namespaces keep all their properties.
//! What touches their blocks fails with Access Denied, and so do commands that would lose them.

pub(crate) mod wrapped;

use crate::contents::Contents;
use crate::core::{Core, Failure};
use ftl::StorageError;
use nvme::Status;

/// Gives every namespace of a new drive a key, if its owner has a drive key. Nothing may have been written yet.
///
/// # Errors
/// If the owner cannot make keys.
pub(crate) fn encrypt<S: Contents>(core: &mut Core, storage: &mut S) -> Result<(), StorageError> {
    core.drive_key.keyed = storage.drive_key().is_some();
    core.persistent.encrypted = core.drive_key.keyed;
    core.namespaces.ids().into_iter().try_for_each(|nsid| change(core, nsid, storage))
}

/// Opens the keys of all namespaces, after the drive was opened.
pub(crate) fn open<S: Contents>(core: &mut Core, storage: &mut S) {
    let ours = storage.drive_key();
    core.drive_key.locked = core.persistent.drive_key.is_some() && core.persistent.drive_key != ours;
    core.drive_key.keyed = ours.is_some() && !core.drive_key.locked;
    let locked = core.drive_key.locked;
    for (nsid, ns) in core.namespaces.iter_mut() {
        if let Some(key) = &ns.key {
            ns.locked = locked || !storage.open_key(nsid, &ns.uuid, key);
            ns.layout.transformed = true;
        }
    }
}

/// Makes a new key for a namespace whose blocks have been given up; none without a drive key.
///
/// # Errors
/// Internal Error if the owner cannot make keys.
pub(crate) fn renew<S: Contents>(core: &mut Core, nsid: u32, storage: &mut S) -> Result<(), Failure> {
    change(core, nsid, storage).map_err(|_| Failure::transient(Status::INTERNAL_ERROR))
}

fn change<S: Contents>(core: &mut Core, nsid: u32, storage: &mut S) -> Result<(), StorageError> {
    let uuid = core.namespaces.get(nsid).map(|ns| ns.uuid).unwrap_or_default();
    let key = storage.make_key(nsid, &uuid)?;
    if key.is_some() {
        // The first key binds the drive to its drive key.
        core.persistent.drive_key = storage.drive_key();
    }
    // Plain blocks stay on the media until they are erased.
    core.persistent.encrypted &= key.is_some();
    if let Some(ns) = core.namespaces.get_mut(nsid) {
        ns.layout.transformed |= key.is_some();
        ns.locked = false;
        ns.key = key;
    }
    Ok(())
}

/// Refuses commands that would lose what a locked namespace holds, or would put plain data on a drive that has a key.
///
/// # Errors
/// Access Denied.
pub(crate) fn refuse_locked(core: &Core, nsids: &[u32]) -> Result<(), Failure> {
    let locked = |nsid: &u32| core.namespaces.get(*nsid).is_some_and(|ns| ns.locked);
    // A namespace whose key alone is damaged is lost anyway.
    if core.drive_key.locked && nsids.iter().any(locked) { Err(Status::ACCESS_DENIED.into()) } else { Ok(()) }
}

/// Whether new keys erase all that is on the media.
pub(crate) fn can_crypto_erase(core: &Core) -> bool {
    core.persistent.encrypted && core.drive_key.keyed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use ftl::NoContents;

    #[test]
    fn a_drive_without_its_key_is_locked() {
        let mut core = fixture::core();
        open(&mut core, &mut NoContents);
        assert!(!core.drive_key.locked && !core.drive_key.keyed && !can_crypto_erase(&core));
        core.persistent.drive_key = Some([7; 16]);
        core.namespaces.get_mut(1).unwrap().key = wrapped::WrappedKey::new(vec![1]);
        open(&mut core, &mut NoContents);
        assert!(core.drive_key.locked && core.namespaces.get(1).unwrap().locked);
        assert!(refuse_locked(&core, &[2, 1]).is_err() && refuse_locked(&core, &[2]).is_ok());
    }

    #[test]
    fn a_namespace_that_is_stored_in_the_clear_rules_crypto_erase_out() {
        let mut core = fixture::core();
        core.drive_key.keyed = true;
        core.persistent.encrypted = true;
        assert!(can_crypto_erase(&core));
        renew(&mut core, 2, &mut NoContents).unwrap();
        assert!(!can_crypto_erase(&core) && core.namespaces.get(2).unwrap().key.is_none());
    }
}
