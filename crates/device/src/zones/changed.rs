//! The Changed Zone List: zones that the drive changed by itself. It does that when an NVM Set can only be read: so can its zones. And it
//! recommends to finish or reset zones, or finishes them, when they have been active or full for long.

use crate::contents::Contents;
use crate::core::{AsyncEvent, Controller, ControllerId, Core, Cx, Failure};
use crate::health::NewWarnings;
use ftl::{SetId, ZoneState};
use nvme::Nsid;
use nvme::log::ChangedZones;
use std::collections::BTreeMap;

/// Tells the controllers of zoned namespaces whose sets can only be read from now on.
pub(crate) fn tell_of_worn<S: Contents>(core: &mut Core, new: &NewWarnings, cx: &mut Cx<'_, S>) {
    for (endgid, _) in new.groups.iter().filter(|(_, warning)| warning.read_only()) {
        let set = SetId((endgid - 1) as u8);
        let mut changed = core.namespaces.ids();
        changed
            .retain(|nsid| core.namespaces.get(*nsid).is_some_and(|ns| ns.zones.is_some() && ns.set == set));
        let note = |controller: &mut Controller| {
            let mut any = false;
            for &nsid in &changed {
                if controller.is_attached(nsid) {
                    controller.events.zones_changed(nsid, []);
                    any = true;
                }
            }
            any
        };
        core.raise_where(AsyncEvent::Zones, note, cx);
    }
}

/// Tells the controllers of zones that time changed.
pub(crate) fn tell_of_aged<S: Contents>(core: &mut Core, cx: &mut Cx<'_, S>) {
    let sets: Vec<SetId> = core.sets().map(|(set, _)| set).collect();
    for set in sets {
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
    let (volume, shift) = (ns.volume, ns.shift);
    let is_read_only =
        |zone| core.ftl.zone(volume, zone).is_some_and(|info| info.state == ZoneState::ReadOnly);
    let listed = (0..zones.zones).filter(|zone| changed.contains(zone) || is_read_only(*zone));
    Ok(ChangedZones::new(listed.map(|zone| (u64::from(zone) * zones.size) >> shift)))
}
