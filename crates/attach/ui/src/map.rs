//! How the room of an NVM Set is used: its superblocks, or how much of it holds data; and the zones of a namespace.

use crate::refusal::Refusal;
use crate::state::optional;
use crate::view::View;
use host::{Error, Host, Transport};
use nvme::Nsid;
use nvme::log::{SetMapEntry, SuperblockUse};
use nvme::zone::{ZoneDescriptor, ZoneReportFilter, ZoneState};
use serde_json::{Value, json};
use web::StatusCode;

/// Most zones of an answer.
const ZONES: usize = 1 << 16;

fn permille(part: u32, whole: u32) -> u64 {
    (u64::from(part) * 1000).checked_div(whole.into()).unwrap_or(0)
}

/// A zone's state in the specification's words.
fn words(state: ZoneState) -> String {
    state.to_string().to_lowercase()
}

fn superblock(entry: &SetMapEntry) -> Value {
    let usable = entry.usable_pages.get();
    let mut value = json!({
        "state": entry.state.name(),
        "valid_permille": permille(entry.valid_pages.get(), usable),
        "written_permille": permille(entry.written_pages.get(), usable).min(1000),
        "erases": entry.erases.get(),
    });
    if entry.state == SuperblockUse::ZONES {
        value["zones"] = entry.zones.get().into();
        if entry.nsid.get() != 0 {
            value["zone_state"] = words(entry.zone_state).into();
            value["nsid"] = entry.nsid.get().into();
            value["zone"] = entry.zone.get().into();
        }
    }
    value
}

/// Bytes that namespaces of a set hold.
fn used<T: Transport>(host: &mut Host<T>, set: u16) -> Result<u64, Error> {
    let mut bytes = 0u64;
    for nsid in host.allocated_namespaces()? {
        let Some(ns) = optional(host.identify_allocated(nsid))? else { continue };
        if ns.nvmsetid.get() == set {
            let block = u64::from(ns.format().data_bytes().unwrap_or(0));
            bytes = bytes.saturating_add(ns.nuse.get().saturating_mul(block));
        }
    }
    Ok(bytes)
}

/// The map of a set.
pub(crate) fn map<T: Transport>(host: &mut Host<T>, set: u16) -> Result<Value, Error> {
    let sets = host.nvm_sets()?;
    let Some(attributes) = sets.iter().find(|found| found.nvmsetid.get() == set) else {
        let all: Vec<String> = sets.iter().map(|found| found.nvmsetid.to_string()).collect();
        return Err(Error::Absent(format!("there is no NVM Set {set} (the drive has {})", all.join(", "))));
    };
    let capacity = u64::try_from(attributes.tnvmsetcap.get()).unwrap_or(u64::MAX);
    let found = optional(host.set_map(set))?.filter(|(header, _)| header.entries.get() > 0);
    let Some((header, entries)) = found else {
        let header = optional(host.set_map_header(set))?;
        let medium = header.and_then(|header| header.medium.name());
        return Ok(json!({ "set": set, "medium": medium, "capacity": capacity, "used": used(host, set)? }));
    };
    let rated = Some(header.rated_cycles.get()).filter(|cycles| *cycles != u32::MAX);
    Ok(json!({
        "set": set,
        "medium": header.medium.name(),
        "dies": header.units.get(),
        "page_bytes": header.page_bytes.get(),
        "superblock_pages": header.superblock_pages.get(),
        "erase_limit": rated,
        "superblocks": entries.iter().map(superblock).collect::<Vec<_>>(),
    }))
}

/// Refuses a namespace that is not there.
pub(crate) fn check_known<T: Transport>(host: &mut Host<T>, nsid: Nsid) -> Result<(), Refusal> {
    let known = host.allocated_namespaces()?;
    if !known.contains(&nsid) {
        let why = format!("there is no namespace {nsid} (the drive has {})", host::nsid_list(&known));
        return Err(Refusal::new(StatusCode::NOT_FOUND, why));
    }
    Ok(())
}

/// Refuses what only a namespace that is attached to the view can have.
pub(crate) fn check_attached<T: Transport>(host: &mut Host<T>, nsid: Nsid) -> Result<(), Refusal> {
    check_known(host, nsid)?;
    if !host.active_namespaces()?.contains(&nsid) {
        let why = format!(
            "namespace {nsid} is not attached to this view, so its zones cannot be read or changed: attach it first \
             (POST /api/namespaces/{nsid}/attach)"
        );
        return Err(Refusal::new(StatusCode::CONFLICT, why));
    }
    Ok(())
}

/// The zones of a namespace.
pub(crate) fn zones<T: Transport>(view: &mut View<T>, nsid: Nsid) -> Result<Value, Refusal> {
    view.look(|view| view.connected()?.host.active_namespaces())?;
    let connected = view.connected()?;
    check_attached(&mut connected.host, nsid)?;
    let zoned = connected.host.zoned_namespace(nsid)?;
    let block = u64::from(zoned.namespace.block_size);
    let bytes = |blocks: u64| blocks.saturating_mul(block);
    let found = connected.queue()?.report_zones(&zoned, 0, ZoneReportFilter::ALL, ZONES)?;
    let one = |zone: &ZoneDescriptor| {
        json!({
            "start": bytes(zone.zslba.get()),
            "state": words(zone.state()),
            "write_pointer": zone.write_pointer().map(bytes),
            "capacity": bytes(zone.zcap.get()),
        })
    };
    Ok(json!({
        "nsid": nsid,
        "zone_bytes": bytes(zoned.zone_blocks),
        "max_open": zoned.max_open,
        "max_active": zoned.max_active,
        "zones": found.iter().map(one).collect::<Vec<_>>(),
    }))
}
