//! New identifiers for a drive that was copied, so that hosts can tell the copy from its original.

use crate::contents::Contents;
use crate::core::{Core, identifiers};
use crate::keys::wrapped::WrappedKey;
use ftl::StorageError;

/// What a namespace gets: its NSID, its identifier (NGUID and UUID), and its key, wrapped for that UUID.
struct Renewed {
    nsid: u32,
    id: [u8; 16],
    key: Option<WrappedKey>,
}

/// Gives the drive the number `mark`, and its namespaces the identifiers that follow from it. All of them change, or none does.
///
/// # Errors
/// If a namespace is locked, or its key cannot be wrapped for its new UUID.
pub(crate) fn renew<S: Contents>(core: &mut Core, mark: u64, storage: &mut S) -> Result<(), StorageError> {
    let drive = (core.config.identity.serial.as_str(), mark);
    let mut all = Vec::new();
    for (serial, (nsid, ns)) in (0..).zip(core.namespaces.iter()) {
        let id = identifiers(drive, serial);
        let key = match &ns.key {
            Some(_) if ns.locked => return Err(StorageError::Failed),
            Some(key) => {
                let wrapped = storage.rewrap_key(nsid, [&ns.uuid, &id], key)?;
                Some(wrapped.ok_or(StorageError::Failed)?)
            }
            None => None,
        };
        all.push(Renewed { nsid, id, key });
    }
    // Identifiers of namespaces to come continue this count.
    core.persistent.namespaces_made = core.persistent.namespaces_made.max(all.len() as u64);
    core.persistent.mark = mark;
    for Renewed { nsid, id, key } in all {
        if let Some(ns) = core.namespaces.get_mut(nsid) {
            (ns.nguid, ns.uuid, ns.key) = (id, id, key);
        }
    }
    core.record(storage);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use ftl::NoContents;

    #[test]
    fn identifiers_are_new_and_differ() {
        let mut core = fixture::core();
        let ids = |core: &Core| core.namespaces.iter().map(|(_, ns)| (ns.nguid, ns.uuid)).collect::<Vec<_>>();
        let before = ids(&core);
        renew(&mut core, 7, &mut NoContents).unwrap();
        let after = ids(&core);
        assert!(before.len() > 1 && after.iter().all(|id| !before.contains(id) && id.0 == id.1));
        assert!((1..after.len()).all(|n| !after[..n].contains(&after[n])));
        assert!(core.persistent.namespaces_made >= after.len() as u64);
        renew(&mut core, 8, &mut NoContents).unwrap();
        assert!(ids(&core).iter().all(|id| !after.contains(id)));
    }

    #[test]
    fn a_locked_namespace_keeps_everything_as_it_is() {
        let mut core = fixture::core();
        let ns = core.namespaces.get_mut(2).unwrap();
        (ns.key, ns.locked) = (WrappedKey::new(vec![1]), true);
        let before = core.section();
        assert!(renew(&mut core, 7, &mut NoContents).is_err());
        assert_eq!(core.section(), before);
        // As if the key could not be unwrapped.
        core.namespaces.get_mut(2).unwrap().locked = false;
        assert!(renew(&mut core, 7, &mut NoContents).is_err());
    }
}
