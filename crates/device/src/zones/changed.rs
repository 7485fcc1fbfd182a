//! The Changed Zone List: zones that the drive changed by itself. It does that when an NVM Set can only be read: so can its zones.

use crate::contents::Contents;
use crate::core::{AsyncEvent, Controller, ControllerId, Core, Cx, Failure};
use crate::health::NewWarnings;
use ftl::{SetId, ZoneState};
use nvme::Nsid;
use nvme::log::ChangedZones;

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
                    controller.events.zones_changed(nsid);
                    any = true;
                }
            }
            any
        };
        core.raise_where(AsyncEvent::Zones, note, cx);
    }
}

/// The log of a namespace: its zones that can only be read, if the host has not read it since they became so.
///
/// # Errors
/// Invalid Field for a namespace that is not attached, has no zones, or is not named.
pub(crate) fn log(core: &Core, id: ControllerId, nsid: Nsid) -> Result<ChangedZones, Failure> {
    let ns = core.attached(id, nsid)?;
    let zones = ns.zones.ok_or(Failure::field(4))?;
    if !core.controller(id)?.events.have_zones_changed(nsid) {
        return Ok(ChangedZones::default());
    }
    let (volume, shift) = (ns.volume, ns.shift);
    let read_only = (0..zones.zones)
        .filter(|zone| core.ftl.zone(volume, *zone).is_some_and(|info| info.state == ZoneState::ReadOnly));
    Ok(ChangedZones::new(read_only.map(|zone| (u64::from(zone) * zones.size) >> shift)))
}
