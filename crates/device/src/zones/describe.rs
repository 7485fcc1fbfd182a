//! What zoned namespaces say of themselves, and the zones of one that is created.

use crate::core::{Core, Failure, Namespace};
use crate::lba_format::LbaFormat;
use ftl::{PAGE, SetId, ZoneLayout};
use nvme::Status;
use nvme::identify::{LbaFormatExtension, NamespaceCreate, Ozcs, ZonedController, ZonedNamespace};

/// Bytes of a Zone Descriptor Extension.
pub(crate) const EXTENSION_BYTES: u32 = 64;

/// Whether some NVM Set can have zones.
pub(crate) fn are_supported(core: &Core) -> bool {
    core.sets().any(|(set, _)| core.ftl.zone_support(set).is_some())
}

/// What every controller says of the command set: an append is as large as any write (ZASL 0).
pub(crate) fn controller() -> ZonedController {
    ZonedController::default()
}

/// The zones that a namespace on this set gets: bytes from one to the next, a power of two as Linux wants it, and bytes that can be
/// written. `None` if the set has none.
fn zone_bytes(core: &Core, set: SetId) -> Option<(u64, u64)> {
    let capacity = core.ftl.zone_support(set)?.capacity;
    Some((capacity.next_power_of_two(), capacity))
}

/// Identify Namespace of the command set. Without a namespace, what those on the default set have in common.
pub(crate) fn namespace(core: &Core, ns: Option<&Namespace>) -> ZonedNamespace {
    let mut n = ZonedNamespace { ozcs: Ozcs::new().with_razb(true), ..ZonedNamespace::default() };
    let set = ns.map_or(SetId((core.config.default_set - 1) as u8), |ns| ns.set);
    let size = match ns.and_then(|ns| ns.zones) {
        Some(zones) => {
            n.set_max_active(Some(zones.max_active));
            n.set_max_open(Some(zones.max_open));
            Some(zones.size)
        }
        None => zone_bytes(core, set).map(|(size, _)| size),
    };
    for (extension, format) in n.lbafe.iter_mut().zip(&core.config.lba_formats) {
        // Blocks of zones are whole pages.
        if let Some(size) = size.filter(|_| format.data == PAGE) {
            *extension = LbaFormatExtension::new(size >> format.shift(), (EXTENSION_BYTES / 64) as u8);
        }
    }
    n
}

/// The zones of a namespace that is to be created.
///
/// # Errors
/// Invalid Format for blocks of less than a page; Invalid Field for a size that is no whole number of zones, or a set without zones;
/// Namespace Insufficient Capacity if fewer active zones are left than are asked for.
pub(crate) fn layout_of_new(
    core: &Core,
    set: SetId,
    format: &LbaFormat,
    new: &NamespaceCreate,
) -> Result<ZoneLayout, Failure> {
    let support = core.ftl.zone_support(set).ok_or(Status::INVALID_FIELD)?;
    let (size, capacity) = zone_bytes(core, set).ok_or(Status::INVALID_FIELD)?;
    if format.data != PAGE {
        return Err(Status::INVALID_FORMAT.into());
    }
    let asked = new.zoned();
    if asked.znsco.azr() {
        // There is no Zone Random Write Area.
        return Err(Status::INVALID_FIELD.into());
    }
    let blocks_of_zone = size >> format.shift();
    let (nsze, ncap) = (new.nsze.get(), new.ncap.get());
    let zones = nsze / blocks_of_zone;
    let whole = nsze == zones * blocks_of_zone && zones > 0;
    // The host may say how much can be written, or that it is all.
    let writable = zones.checked_mul(capacity >> format.shift());
    let (Ok(count), true) = (u32::try_from(zones), whole && (ncap == nsze || Some(ncap) == writable)) else {
        return Err(Status::INVALID_FIELD.into());
    };
    let max_active = if asked.rar.get() == 0 { support.active } else { asked.rar.get() };
    let max_open = if asked.ror.get() == 0 { max_active } else { asked.ror.get() };
    if max_active == 0 || max_active > support.active {
        return Err(Status::NAMESPACE_INSUFFICIENT_CAPACITY.into());
    }
    if max_open > max_active {
        return Err(Status::INVALID_FIELD.into());
    }
    Ok(ZoneLayout { zones: count, size, capacity, max_active, max_open })
}
