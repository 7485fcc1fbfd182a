//! What a page can change, as NVMe commands.

use crate::ask::{NewFault, NewNamespace, NewPowerCut, NewQuota, ZoneChange, ZoneVerb};
use crate::faults;
use crate::map::{check_attached, check_known};
use crate::refusal::Refusal;
use crate::state::quota_of;
use crate::view::Connected;
use host::{Error, Host, Transport, Zones, namespace_create};
use nvme::admin::{FaultInjection, PowerCut};
use nvme::feature::Select;
use nvme::identify::ZonedCreate;
use nvme::quota::QuotaKind;
use nvme::zone::ZoneSendAction;
use nvme::{Csi, NSID_ALL, Nsid, Status};
use serde_json::{Value, json};
use web::StatusCode;

/// Milliseconds without power where none are said, and at most.
const OFF_MS: u32 = 1000;
const MOST_OFF_MS: u32 = 60_000;

fn is(error: &Error, status: Status) -> bool {
    error.status().is_some_and(|found| found.is(status))
}

/// The index of the LBA format without metadata that has so many bytes.
fn format_of<T: Transport>(host: &mut Host<T>, lba_bytes: u32) -> Result<u8, Refusal> {
    let common = host.identify_namespace(NSID_ALL)?;
    let count = (usize::from(common.nlbaf_z) + 1).min(common.lbaf.len());
    let fits =
        |format: &nvme::identify::LbaFormat| format.ms.get() == 0 && format.data_bytes() == Some(lba_bytes);
    let index = common.lbaf[..count].iter().position(fits).and_then(|index| u8::try_from(index).ok());
    index.ok_or_else(|| {
        Refusal::bad(format!(
            "the drive has no LBA format of {lba_bytes} bytes without metadata: lba_formats of /api/state lists those that it has"
        ))
    })
}

/// Why a namespace was not created, beside the drive's answer.
fn not_created<T: Transport>(host: &mut Host<T>, new: &NewNamespace, error: Error) -> Refusal {
    let mut refusal = Refusal::from(error);
    let sets = host.nvm_sets().unwrap_or_default();
    match sets.iter().find(|set| set.nvmsetid.get() == new.set) {
        None => {
            let all: Vec<String> = sets.iter().map(|set| set.nvmsetid.to_string()).collect();
            refusal.why =
                format!("{}; there is no NVM Set {}: name one of {}", refusal.why, new.set, all.join(", "));
        }
        Some(set) => {
            let free = set.unvmsetcap.get();
            refusal.why = format!("{}; NVM Set {} has {free} bytes unallocated", refusal.why, new.set);
            if new.zoned {
                let header = host.set_map_header(new.set).ok();
                let (zone, left) = header.map_or((0, 0), |h| (h.zone_size.get(), h.zones_active_left.get()));
                let active = match left {
                    0 => "other namespaces take all of its active zones".to_owned(),
                    _ => format!("{left} more may be active"),
                };
                refusal.why = match zone {
                    0 => format!("{}, and cannot have zones", refusal.why),
                    _ => format!(
                        "{}, its zones have {zone} bytes each (size must be a multiple), and {active}",
                        refusal.why
                    ),
                };
            }
        }
    }
    refusal
}

/// Creates a namespace.
pub(crate) fn create<T: Transport>(
    connected: &mut Connected<T>,
    new: &NewNamespace,
) -> Result<Value, Refusal> {
    let host = &mut connected.host;
    let index = format_of(host, new.lba_bytes)?;
    if new.set == 0 {
        return Err(Refusal::bad("set is the NVM Set that the namespace lies on, from 1"));
    }
    if new.size == 0 || !new.size.is_multiple_of(new.lba_bytes.into()) {
        return Err(Refusal::bad(format!(
            "size is {} bytes, which is no multiple of the logical block size, {} bytes",
            new.size, new.lba_bytes
        )));
    }
    let mut create = namespace_create(new.size / u64::from(new.lba_bytes), index, new.set);
    let csi = match new.zoned {
        true => {
            create.set_zoned(&ZonedCreate::default());
            Csi::ZONED
        }
        false => Csi::NVM,
    };
    let nsid = host.create_namespace_of(csi, &create).map_err(|error| not_created(host, new, error))?;
    let controllers = match new.attach {
        true => change_attachments(host, nsid, true).map_err(|error| {
            let refusal = Refusal::from(error);
            Refusal {
                why: format!("namespace {nsid} was created, and is not attached: {}", refusal.why),
                ..refusal
            }
        })?,
        false => Vec::new(),
    };
    Ok(json!({ "nsid": nsid, "controllers": controllers }))
}

/// Deletes a namespace. One that others have attached takes `force`.
pub(crate) fn delete<T: Transport>(
    connected: &mut Connected<T>,
    nsid: Nsid,
    force: bool,
) -> Result<Value, Refusal> {
    let host = &mut connected.host;
    check_known(host, nsid)?;
    let own = host.cntlid();
    if !force {
        let others = host.namespace_controllers(nsid)?.into_iter().filter(|id| *id != own).count();
        if others > 0 {
            let why = format!(
                "namespace {nsid} is attached to other controllers ({others}), whose hosts would lose it: detach it first, or add \
                 ?force=true"
            );
            return Err(Refusal::new(StatusCode::CONFLICT, why));
        }
    }
    host.delete_namespace(nsid)?;
    Ok(json!({ "nsid": nsid }))
}

/// Attaches a namespace to every controller that does not have it, or detaches it from all. Those where that changed something. Controllers that
/// leave meanwhile, or may not have it, are left out, if there is another one.
fn change_attachments<T: Transport>(host: &mut Host<T>, nsid: Nsid, attach: bool) -> Result<Vec<u16>, Error> {
    let holders = host.namespace_controllers(nsid)?;
    let concerned: Vec<u16> = match attach {
        true => host.controllers()?.into_iter().filter(|id| !holders.contains(id)).collect(),
        false => holders,
    };
    let (mut changed, mut refused) = (Vec::new(), None);
    for id in concerned {
        let result = match attach {
            true => host.attach_namespace(nsid, &[id]),
            false => host.detach_namespace(nsid, &[id]),
        };
        match result {
            Ok(()) => changed.push(id),
            Err(error) if error.is_lost() => return Err(error),
            // There were so or gone by then.
            Err(error)
                if is(&error, Status::NAMESPACE_ALREADY_ATTACHED)
                    || is(&error, Status::NAMESPACE_NOT_ATTACHED)
                    || is(&error, Status::CONTROLLER_LIST_INVALID) => {}
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) if changed.is_empty() => Err(error),
        _ => Ok(changed),
    }
}

/// Attaches a namespace to all, or detaches it.
pub(crate) fn attachment<T: Transport>(
    connected: &mut Connected<T>,
    nsid: Nsid,
    attach: bool,
) -> Result<Value, Refusal> {
    check_known(&mut connected.host, nsid)?;
    let changed = change_attachments(&mut connected.host, nsid, attach)?;
    Ok(json!({ "nsid": nsid, "controllers": changed }))
}

/// Changes a quota.
pub(crate) fn quota<T: Transport>(
    connected: &mut Connected<T>,
    nsid: Nsid,
    new: &NewQuota,
) -> Result<Value, Refusal> {
    let host = &mut connected.host;
    check_known(host, nsid)?;
    let mut values = host.quota(nsid, Select::CURRENT)?;
    for (kind, limit) in [
        (QuotaKind::ReadBandwidth, new.read_bandwidth),
        (QuotaKind::WriteBandwidth, new.write_bandwidth),
        (QuotaKind::ReadCommands, new.read_iops),
        (QuotaKind::WriteCommands, new.write_iops),
    ] {
        if let Some(limit) = limit {
            values.set_limit(kind, Some(limit).filter(|limit| *limit != 0));
        }
    }
    if let Some(burst) = new.burst_us {
        values.burst_us.set(burst);
    }
    if let Some(weight) = new.weight {
        values.weight.set(weight);
    }
    if values.check().is_err() {
        return Err(Refusal::bad(
            "a bandwidth is 4096 to 10^12 bytes per second, commands per second are 1 to 10^9, a burst is 1 to 10^7 microseconds, a weight 1 to \
             1000; 0 is no limit, or the default",
        ));
    }
    host.set_quota(nsid, &values, new.save)?;
    Ok(quota_of(&host.quota(nsid, Select::CURRENT)?))
}

/// Changes a zone.
pub(crate) fn zone<T: Transport>(
    connected: &mut Connected<T>,
    nsid: Nsid,
    change: &ZoneChange,
) -> Result<Value, Refusal> {
    check_attached(&mut connected.host, nsid)?;
    let zoned = connected.host.zoned_namespace(nsid)?;
    let block = u64::from(zoned.namespace.block_size);
    let lba = change.start / block;
    let begins =
        change.start.is_multiple_of(block) && zoned.zone_of(lba) == lba && lba < zoned.namespace.blocks;
    if !begins {
        return Err(Refusal::bad(format!(
            "no zone of namespace {nsid} begins at byte {}: they begin at multiples of {} bytes",
            change.start,
            zoned.zone_blocks.saturating_mul(block)
        )));
    }
    let action = match change.action {
        ZoneVerb::Open => ZoneSendAction::OPEN,
        ZoneVerb::Close => ZoneSendAction::CLOSE,
        ZoneVerb::Finish => ZoneSendAction::FINISH,
        ZoneVerb::Reset => ZoneSendAction::RESET,
    };
    connected.queue()?.manage_zones(nsid, action, Zones::One(lba))?;
    Ok(json!({ "nsid": nsid }))
}

/// Adds why a drive denies power cuts and faults.
fn harmful(error: Error) -> Refusal {
    let denied = is(&error, Status::OPERATION_DENIED);
    let mut refusal = Refusal::from(error);
    if denied {
        refusal.why.push_str(
            ": it refuses this to hosts on the network, and to this view, which serves them: set allow_network_faults = true in the drive's TOML, \
             or use its Unix socket (serve --unix PATH, tranche fault and tranche power-cut --on unix://PATH)",
        );
    }
    refusal
}

/// Cuts the power.
pub(crate) fn power_cut<T: Transport>(
    connected: &mut Connected<T>,
    new: &NewPowerCut,
) -> Result<Value, Refusal> {
    let off_ms = new.off_ms.unwrap_or(OFF_MS);
    if !(1..=MOST_OFF_MS).contains(&off_ms) {
        return Err(Refusal::bad(format!(
            "off_ms is {off_ms}: a view cuts the power for 1 to {MOST_OFF_MS} ms"
        )));
    }
    let cut = PowerCut { after_media_ops: 0, off_ms, seed: 1, no_plp: new.no_plp };
    connected.host.power_cut(cut).map(|()| json!({})).map_err(harmful)
}

/// Arms a fault, or clears all.
pub(crate) fn fault<T: Transport>(connected: &mut Connected<T>, new: &NewFault) -> Result<Value, Refusal> {
    let Some((_, kind)) = faults::kinds().find(|(name, _)| *name == new.kind) else {
        let names: Vec<&str> = faults::kinds().map(|(name, _)| name).collect();
        return Err(Refusal::bad(format!(
            "'{}' is no kind of fault: it is one of {}",
            new.kind,
            names.join(", ")
        )));
    };
    let command = FaultInjection {
        nsid: 0,
        kind,
        nvmsetid: new.set,
        count: new.count,
        one_in: new.one_in,
        param: new.parameter,
        lba: None,
    };
    connected.host.inject_fault(command).map_err(harmful)?;
    Ok(json!({}))
}
