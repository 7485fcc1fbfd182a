//! What changes seldom: the drive, its sets and namespaces, and what may be done with them.

use crate::faults;
use host::{Error, Host, Transport};
use nvme::feature::Select;
use nvme::identify::{NvmSetAttributes, ascii_text};
use nvme::log::{LogId, SetMapHeader};
use nvme::quota::{Quota, QuotaKind};
use nvme::{NSID_ALL, Nsid};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// From one sample to the next.
pub(crate) const INTERVAL: Duration = Duration::from_millis(500);

/// A quota as a page knows it: 0 is no limit.
pub(crate) fn quota_of(values: &Quota) -> Value {
    let [read, write, read_iops, write_iops] = QuotaKind::ALL.map(|kind| values.limit(kind).unwrap_or(0));
    json!({
        "read_bandwidth": read, "write_bandwidth": write, "read_iops": read_iops, "write_iops": write_iops,
        "burst_us": values.effective_burst_us(), "weight": values.effective_weight(),
    })
}

/// Something that another drive may not have.
pub(crate) fn optional<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_lost() => Err(error),
        Err(_) => Ok(None),
    }
}

/// The NVM Sets, each with the header of its map.
pub(crate) fn sets<T: Transport>(
    host: &mut Host<T>,
) -> Result<Vec<(NvmSetAttributes, Option<SetMapHeader>)>, Error> {
    let mut found = Vec::new();
    for set in optional(host.nvm_sets())?.unwrap_or_default() {
        let header = optional(host.set_map_header(set.nvmsetid.get()))?;
        found.push((set, header));
    }
    Ok(found)
}

fn medium(header: Option<&SetMapHeader>) -> Option<&'static str> {
    header.and_then(|header| header.medium.name())
}

fn low(value: nvme::U128) -> u64 {
    u64::try_from(value.get()).unwrap_or(u64::MAX)
}

fn set_value<T: Transport>(
    host: &mut Host<T>,
    set: &NvmSetAttributes,
    header: Option<&SetMapHeader>,
) -> Result<Value, Error> {
    let group = optional(host.endurance_group(set.endgid.get()))?;
    let rated = header.map(|header| header.rated_cycles.get()).filter(|cycles| *cycles != u32::MAX);
    let field = |of: fn(&SetMapHeader) -> u64| header.map_or(0, of);
    Ok(json!({
        "id": set.nvmsetid.get(),
        "medium": medium(header),
        "capacity": low(set.tnvmsetcap),
        "unallocated": low(set.unvmsetcap),
        "zones": field(|h| h.zone_size.get()) > 0,
        "zone_size": field(|h| h.zone_size.get()),
        "zone_capacity": field(|h| h.zone_capacity.get()),
        "active_zones_left": field(|h| h.zones_active_left.get().into()),
        "dies": field(|h| h.units.get().into()),
        "superblocks": field(|h| h.entries.get().into()),
        "superblock_bytes": field(|h| u64::from(h.superblock_pages.get()) * u64::from(h.page_bytes.get())),
        "rated_cycles": rated,
        "read_only": header.is_some_and(|header| header.flags.read_only()),
        "endurance_used_percent": group.map(|group| group.percentage_used),
        "spare_percent": group.map(|group| group.avail_spare),
    }))
}

/// What is asked once for all namespaces.
struct Common {
    active: Vec<Nsid>,
    zones: BTreeMap<Nsid, nvme::identify::ZonedNamespace>,
    media: BTreeMap<u16, &'static str>,
}

fn namespace_value<T: Transport>(host: &mut Host<T>, nsid: Nsid, common: &Common) -> Result<Value, Error> {
    let ns = host.identify_allocated(nsid)?;
    let controllers = host.namespace_controllers(nsid)?;
    let quota = optional(host.quota(nsid, Select::CURRENT))?;
    let block = u64::from(ns.format().data_bytes().unwrap_or(0));
    let bytes = |blocks: u64| blocks.saturating_mul(block);
    let zoned = common.zones.get(&nsid);
    let zone = zoned.map_or(0, |zoned| zoned.lbafe[usize::from(ns.flbas.format_index())].zsze.get());
    Ok(json!({
        "nsid": nsid,
        "set": ns.nvmsetid.get(),
        "medium": common.media.get(&ns.nvmsetid.get()),
        "size": bytes(ns.nsze.get()),
        "allocated": low(ns.nvmcap),
        "used": bytes(ns.nuse.get()),
        "lba_bytes": block,
        "metadata_bytes": ns.format().ms.get(),
        "zoned": zoned.is_some(),
        "zone_count": ns.nsze.get().checked_div(zone).unwrap_or(0),
        "attached": !controllers.is_empty(),
        "attached_here": common.active.contains(&nsid),
        "controllers": controllers,
        "quota": quota.as_ref().map(quota_of),
    }))
}

fn hosts<T: Transport>(host: &mut Host<T>) -> Result<Vec<Value>, Error> {
    let own = host.cntlid();
    let entries = optional(host.controller_entries())?.unwrap_or_default();
    let one = |entry: &nvme::log::ControllerEntry| {
        let nqn = nvme::Nqn::from_field(&entry.hostnqn).map(|nqn| nqn.to_string()).unwrap_or_default();
        let origin = match entry.origin {
            0 => "process",
            1 => "unix",
            _ => "network",
        };
        let cntlid = entry.cntlid.get();
        json!({ "cntlid": cntlid, "nqn": nqn, "origin": origin, "view": cntlid == own })
    };
    Ok(entries.iter().map(one).collect())
}

/// Bytes of the LBA formats without metadata.
fn lba_formats<T: Transport>(host: &mut Host<T>) -> Result<Vec<u32>, Error> {
    let Some(common) = optional(host.identify_namespace(NSID_ALL))? else { return Ok(Vec::new()) };
    let count = (usize::from(common.nlbaf_z) + 1).min(common.lbaf.len());
    let plain = common.lbaf[..count].iter().filter(|format| format.ms.get() == 0);
    let mut sizes: Vec<u32> =
        plain.filter_map(|format| format.data_bytes()).filter(|bytes| *bytes > 0).collect();
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

/// The state. `address` is where hosts connect, for people to read.
pub(crate) fn state<T: Transport>(host: &mut Host<T>, address: &str) -> Result<Value, Error> {
    let controller = *host.controller();
    let logs = optional(host.supported_logs())?;
    let has = |lid: LogId| logs.as_ref().is_some_and(|logs| logs.lid[usize::from(lid.0)].lsupp());
    let sets = sets(host)?;
    let harm = sets.iter().any(|(_, header)| header.is_some_and(|header| header.flags.faults_allowed()));
    let mut set_values = Vec::new();
    for (set, header) in &sets {
        set_values.push(set_value(host, set, header.as_ref())?);
    }
    let nsids = host.allocated_namespaces()?;
    let media = sets.iter().filter_map(|(set, header)| Some((set.nvmsetid.get(), medium(header.as_ref())?)));
    let common = Common {
        active: host.active_namespaces()?,
        zones: host.zoned_among(&nsids)?.into_iter().collect(),
        media: media.collect(),
    };
    let mut namespaces = Vec::new();
    for nsid in nsids {
        // Others may delete it in between.
        namespaces.extend(optional(namespace_value(host, nsid, &common))?);
    }
    Ok(json!({
        "drive": {
            "model": ascii_text(&controller.mn), "serial": ascii_text(&controller.sn), "firmware": ascii_text(&controller.fr),
            "nqn": nvme::Nqn::from_field(&controller.subnqn).map(|nqn| nqn.to_string()).unwrap_or_default(),
            "address": address,
        },
        "view": {
            "version": env!("CARGO_PKG_VERSION"), "interval_ms": INTERVAL.as_millis() as u64, "cntlid": host.cntlid(),
        },
        "allows": {
            "namespaces": controller.oacs.nms(), "quotas": has(LogId::NAMESPACE_STATISTICS), "power_cut": harm, "faults": harm,
        },
        "fault_kinds": faults::kinds().map(faults::document).collect::<Vec<_>>(),
        "sets": set_values,
        "namespaces": namespaces,
        "hosts": hosts(host)?,
        "lba_formats": lba_formats(host)?,
        "run": null,
    }))
}
