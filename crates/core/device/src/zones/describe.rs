//! What zoned namespaces say of themselves, and the zones of one that is created.

use crate::core::{ControllerId, Core, Failure, Namespace};
use drive_config::LbaFormat;
use ftl::{PAGE, SetConfig, SetId, VolumeId, ZoneAging, ZoneLayout, ZoneSupport, ZrwaLayout};
use media::Nanos;
use nvme::identify::{
    LbaFormatExtension, NamespaceCreate, Ozcs, Zoc, ZonedController, ZonedCreate, ZonedNamespace,
};
use nvme::{Nsid, Status};

/// Bytes of a Zone Descriptor Extension.
pub(crate) const EXTENSION_BYTES: u32 = 64;

/// Whether some NVM Set can have zones.
pub(crate) fn are_supported(core: &Core) -> bool {
    core.set_ids().any(|set| core.ftl.zone_support(set).is_some())
}

/// The zones of a namespace that is attached.
pub(super) fn zones_of(
    core: &Core,
    id: ControllerId,
    nsid: Nsid,
) -> Result<(VolumeId, u8, ZoneLayout), Failure> {
    let ns = core.attached(id, nsid)?;
    let zones = ns.zones.ok_or(Failure::from(Status::INVALID_OPCODE))?;
    Ok((ns.volume, ns.shift, zones))
}

/// What every controller says of the command set.
pub(crate) fn controller(core: &Core) -> ZonedController {
    ZonedController { zasl: core.config.zasl(), ..ZonedController::default() }
}

/// What time does to the zones of a set.
fn aging(core: &Core, set: SetId) -> ZoneAging {
    match core.config.ftl.sets.get(usize::from(set.0)) {
        Some(SetConfig::Nand { zones, .. }) => zones.aging,
        _ => ZoneAging::default(),
    }
}

/// Whole seconds.
fn seconds(time: Nanos) -> u32 {
    u32::try_from(time.0 / 1_000_000_000).unwrap_or(u32::MAX)
}

/// Identify Namespace of the command set. Without a namespace, what those on the default set have in common.
pub(crate) fn namespace(core: &Core, ns: Option<&Namespace>) -> ZonedNamespace {
    let mut n = ZonedNamespace { ozcs: Ozcs::new().with_razb(true), ..ZonedNamespace::default() };
    let set = ns.map_or(SetId((core.config.default_set - 1) as u8), |ns| ns.set);
    let aging = aging(core, set);
    n.zoc = Zoc::new().with_zae(aging.excursion_after.0 > 0);
    n.frl.set(seconds(Nanos(aging.excursion_after.0.saturating_sub(aging.finish_after.0))));
    n.rrl.set(seconds(aging.reset_limit));
    let support = core.ftl.zone_support(set);
    let (size, areas) = match ns.and_then(|ns| ns.zones) {
        Some(zones) => {
            n.set_max_active(Some(zones.max_active));
            n.set_max_open(Some(zones.max_open));
            (Some(zones.size), zones.zrwa)
        }
        None => (support.map(|support| support.size), support.and_then(|support| support.zrwa)),
    };
    if let Some(areas) = areas {
        // Blocks of zones are whole pages, and areas have fewer than 2^16.
        n.set_zrwa_resources(areas.max);
        n.zrwas.set(u16::try_from(areas.pages).unwrap_or(u16::MAX));
        n.zrwafg.set(u16::try_from(areas.granularity).unwrap_or(u16::MAX));
        n.zrwacap.set_expflushsup(areas.max > 0);
    }
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
/// Namespace Insufficient Capacity if fewer active zones are left than are asked for; ZRWA Resources Unavailable if fewer Zone Random
/// Write Areas are.
pub(crate) fn layout_of_new(
    core: &Core,
    set: SetId,
    format: &LbaFormat,
    new: &NamespaceCreate,
) -> Result<ZoneLayout, Failure> {
    let support = core.ftl.zone_support(set).ok_or(Status::INVALID_FIELD)?;
    let (size, capacity) = (support.size, support.capacity);
    if format.data != PAGE {
        return Err(Status::INVALID_FORMAT.into());
    }
    let asked = new.zoned();
    let blocks_of_zone = size >> format.shift();
    let (nsze, ncap) = (new.nsze.get(), new.ncap.get());
    let zones = nsze / blocks_of_zone;
    let whole = nsze == zones * blocks_of_zone && zones > 0;
    // The host may say how much can be written, or that it is all.
    let writable = zones.checked_mul(capacity >> format.shift());
    let (Ok(count), true) = (u32::try_from(zones), whole && (ncap == nsze || Some(ncap) == writable)) else {
        return Err(Status::INVALID_FIELD.into());
    };
    // Who asks for no number gets no more than there are zones: the rest is for other namespaces.
    let max_active = if asked.rar.get() == 0 { support.share.min(count) } else { asked.rar.get() };
    let max_open = if asked.ror.get() == 0 { max_active } else { asked.ror.get() };
    if max_active == 0 || max_active > support.active {
        return Err(Status::NAMESPACE_INSUFFICIENT_CAPACITY.into());
    }
    if max_open > max_active {
        return Err(Status::INVALID_FIELD.into());
    }
    let zrwa = match asked.znsco.azr() {
        true => Some(areas_of_new(&support, &asked, max_active)?),
        false => None,
    };
    Ok(ZoneLayout { zones: count, size, capacity, max_active, max_open, zrwa })
}

/// The Zone Random Write Areas of a namespace that asks for some: as many as it says, or as are left and it can use.
fn areas_of_new(support: &ZoneSupport, asked: &ZonedCreate, max_active: u32) -> Result<ZrwaLayout, Failure> {
    let left = support.zrwa.ok_or(Status::INVALID_FIELD)?;
    let max = match asked.rnumzrwa.get() {
        0 => left.max.min(max_active),
        wanted => wanted,
    };
    if max == 0 || max > left.max {
        return Err(Status::ZRWA_RESOURCES_UNAVAILABLE.into());
    }
    if max > max_active {
        return Err(Status::INVALID_FIELD.into());
    }
    Ok(ZrwaLayout { max, ..left })
}
