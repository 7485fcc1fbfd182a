//! The Changed Zone List: zones that the drive changed by itself. It does that when spare blocks run out: zones that hold something can
//! only be read then, and empty ones go offline. And it recommends to finish or reset zones, or finishes them, when they have been active or
//! full for long.

use crate::contents::Contents;
use crate::core::{AsyncEvent, Controller, ControllerId, Core, Cx, Failure};
use ftl::SetId;
use nvme::Nsid;
use nvme::log::ChangedZones;
use std::collections::BTreeMap;

/// Tells the controllers of zones that the drive changed.
#[cold]
pub(crate) fn tell<S: Contents>(core: &mut Core, cx: &mut Cx<'_, S>) {
    for set in (0..core.config.ftl.sets.len()).map(|set| SetId(set as u8)) {
        let changed = core.ftl.changed_zones(set);
        if changed.is_empty() {
            continue;
        }
        let mut zones: BTreeMap<Nsid, Vec<u32>> = BTreeMap::new();
        for nsid in core.namespaces.ids() {
            let Some(volume) = core.namespaces.get(nsid).map(|ns| ns.volume) else { continue };
            let mine = changed.iter().filter(|(of, _)| *of == volume && core.ftl.zone(volume, 0).is_some());
            let mine: Vec<u32> = mine.map(|(_, zone)| *zone).collect();
            if !mine.is_empty() {
                zones.insert(nsid, mine);
            }
        }
        let note = |controller: &mut Controller| {
            let mut any = false;
            for (&nsid, zones) in &zones {
                if controller.is_attached(nsid) {
                    controller.events.zones_changed(nsid, zones.iter().copied());
                    any = true;
                }
            }
            any
        };
        core.raise_where(AsyncEvent::Zones, note, cx);
    }
}

/// The log of a namespace: its zones that changed, if the host has not read it since they did.
///
/// # Errors
/// Invalid Field for a namespace that is not attached, has no zones, or is not named.
pub(crate) fn log(core: &Core, id: ControllerId, nsid: Nsid) -> Result<ChangedZones, Failure> {
    let ns = core.attached(id, nsid)?;
    let zones = ns.zones.ok_or(Failure::field(4))?;
    let Some(changed) = core.controller(id)?.events.changed_zones(nsid) else {
        return Ok(ChangedZones::default());
    };
    let (shift, listed) = (ns.shift, changed.iter().copied().filter(|zone| *zone < zones.zones));
    Ok(ChangedZones::new(listed.map(|zone| (u64::from(zone) * zones.size) >> shift)))
}
