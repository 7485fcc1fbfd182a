//! Format NVM (Base 5.1.10, NVM 4.1.4).

use crate::contents::Contents;
use crate::core::{ControllerId, Core, Cx, Failure, TransportModel};
use drive_config::LbaFormat;
use nvme::admin::{FormatNvm, SecureErase};
use nvme::{NSID_ALL, Status};

/// Whether a controller's host may have a namespace of this format with these settings.
pub(crate) fn check(
    core: &Core,
    id: ControllerId,
    index: u8,
    extended: bool,
    protection: u8,
) -> Result<LbaFormat, Failure> {
    let format = core.config.lba_formats.get(usize::from(index)).copied().ok_or(Status::INVALID_FORMAT)?;
    if format.extension() != 0 && !core.controller(id)?.behavior.extended_formats() {
        // NVM 4.1.4: the host has not said that it knows such formats (LBAFEE).
        return Err(Status::INVALID_NAMESPACE.into());
    }
    let impossible = protection > 3 || (protection != 0 && !format.can_protect());
    // MC: the host has no other buffer.
    let separate = format.metadata > 0 && !extended;
    if impossible || (separate && core.controller(id)?.transport == TransportModel::Message) {
        return Err(Status::INVALID_FORMAT.into());
    }
    Ok(format)
}

/// The namespaces that a command formats: those that are attached to the controller, or the one that it names.
pub(crate) fn targets(core: &Core, id: ControllerId, c: &FormatNvm) -> Result<Vec<u32>, Failure> {
    match c.nsid {
        NSID_ALL => {
            let controller = core.controller(id)?;
            Ok(core.namespaces.ids().into_iter().filter(|nsid| controller.is_attached(*nsid)).collect())
        }
        nsid if core.namespaces.get(nsid).is_some() => Ok(vec![nsid]),
        nsid => Err(core.no_namespace(nsid)),
    }
}

/// Whether these namespaces can be formatted in this way.
pub(crate) fn check_targets(core: &Core, targets: &[u32], c: &FormatNvm) -> Result<(), Failure> {
    targets.iter().try_for_each(|nsid| core.refuse_read_only(*nsid))?;
    let small =
        core.config.lba_formats.get(usize::from(c.lbaf)).is_some_and(|format| format.data != ftl::PAGE);
    let zoned = |nsid: &u32| core.namespaces.get(*nsid).is_some_and(|ns| ns.zones.is_some());
    if small && targets.iter().any(zoned) {
        // Blocks of zones are whole pages.
        return Err(Status::INVALID_FORMAT.into());
    }
    let plain = |nsid: &u32| core.namespaces.get(*nsid).is_some_and(|ns| ns.key.is_none());
    if c.ses == SecureErase::CRYPTOGRAPHIC && targets.iter().any(plain) {
        // A new key does not erase what no key encrypts (FNA).
        return Err(Failure::field(41));
    }
    Ok(())
}

/// Formats a namespace that holds nothing any more. Returns whether it is to have a new key.
pub(crate) fn format<S: Contents>(
    core: &mut Core,
    nsid: u32,
    c: &FormatNvm,
    format: LbaFormat,
    cx: &mut Cx<'_, S>,
) -> bool {
    core.controllers.replaced(nsid);
    core.namespaces.renew(nsid);
    let Some(namespace) = core.namespaces.get_mut(nsid) else { return false };
    namespace.protection_type = c.pi;
    namespace.protection_first = c.pil && c.pi != 0;
    // The whole storage tag is checked, as Format has no mask.
    namespace.storage_mask = u64::MAX;
    namespace.separate_metadata = format.metadata > 0 && !c.mset;
    namespace.stamp = 0;
    namespace.set_format(c.lbaf, format);
    let volume = namespace.volume;
    let keyed = core.namespaces.get(nsid).is_some_and(|ns| ns.key.is_some());
    if c.ses != SecureErase::NONE {
        core.ftl.scrub(volume, cx.storage);
    }
    // A new key erases what the old one encrypts, also for User Data Erase (Base 5.1.10).
    (c.ses != SecureErase::NONE || !keyed) && !core.drive_key.locked
}
