//! `tranche ns`: namespaces, and what they are attached to.

use crate::args::{Attachment, Erase, Ns};
use crate::connect::{Connected, connect, hostnqn};
use crate::options::{Output, Target};
use crate::refusal::{about, not_created};
use crate::table::table;
use crate::{print_json, print_text, tell, zone_change, zone_shape};
use anyhow::{Context, Result, anyhow, bail};
use device::LbaFormat;
use host::{namespace_create, view};
use nvme::admin::{FormatNvm, SecureErase};
use nvme::identify::{Dps, IdentifyNamespace};
use nvme::{Csi, NSID_ALL, Nqn, Status};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use units::format_size;

/// So often controllers may leave while a namespace is attached or detached.
const ATTEMPTS: u32 = 100;

/// Controllers that a message names.
const MAX_NAMED_CONTROLLERS: usize = 8;

/// Deleting a namespace that other hosts have attached takes --force. What cannot be known is not asked for.
fn refuse_attached(host: &mut Connected, nsid: u32) -> Result<()> {
    let own = host.cntlid();
    let mut others = host.namespace_controllers(nsid).unwrap_or_default();
    others.retain(|id| *id != own);
    if others.is_empty() {
        return Ok(());
    }
    let hosts = host.controllers_and_hosts().unwrap_or_default();
    let named = |id: &u16| {
        let of = hosts.iter().find(|(other, _)| other == id).map(|(_, nqn)| nqn.to_string());
        match of {
            Some(nqn) if nqn == export::HOST_NQN => {
                format!("{id} (the drive's own, for block files, NBD and ublk)")
            }
            Some(nqn) => format!("{id} ({nqn})"),
            None => id.to_string(),
        }
    };
    let named: Vec<String> = others.iter().take(MAX_NAMED_CONTROLLERS).map(named).collect();
    let more = others.len().saturating_sub(MAX_NAMED_CONTROLLERS);
    bail!(
        "namespace {nsid} is attached to other controllers, whose hosts would lose it: {}{}. Detach it first, or give --force",
        named.join(", "),
        if more > 0 { format!(" and {more} more") } else { String::new() }
    )
}

/// Detaching a namespace from a program of this machine that has the store on it open takes --force.
fn refuse_open_store(host: &mut Connected, of: &Attachment) -> Result<()> {
    // Of one that is not attached to this host, or has no zones, there is nothing to know.
    match host.zoned_namespace(of.nsid) {
        Ok(ns) => zone_change::refuse_store_in_use(host, ns, of.target.on()),
        Err(_) => Ok(()),
    }
}

/// The controllers that an attachment means.
fn chosen(host: &mut Connected, target: &Target, ids: &[u16], nqn: Option<Nqn>) -> Result<Vec<u16>> {
    if !ids.is_empty() {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        return Ok(ids);
    }
    let mine = [hostnqn(target)?, export::HOST_NQN.parse().map_err(|e| anyhow!("{e}"))?];
    let wanted = nqn.map_or(mine.to_vec(), |nqn| vec![nqn]);
    let all = host.controllers_and_hosts()?;
    let found: Vec<u16> = all.iter().filter(|(_, host)| wanted.contains(host)).map(|(id, _)| *id).collect();
    if found.is_empty() {
        let hosts: Vec<String> = all.iter().map(|(id, nqn)| format!("{id} ({nqn})")).collect();
        bail!("no controller belongs to {}; there are {}", wanted[0], hosts.join(", "));
    }
    Ok(found)
}

/// Attaches or detaches a namespace; the controllers where that changed something.
///
/// A controller may leave between the listing and the command. The drive then refuses the whole list and changes nothing:
/// the list is read again.
fn change(host: &mut Connected, a: &Attachment, attach: bool) -> Result<Vec<u16>> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let ids = chosen(host, &a.target, &a.controllers, a.host)?;
        // Those that were named are asked for as they are; of a host's, only those where it changes something.
        let ids = if a.controllers.is_empty() { which(host, a.nsid, &ids, !attach)? } else { ids };
        if ids.is_empty() {
            return Ok(ids);
        }
        let changed = match attach {
            true => host.attach_namespace(a.nsid, &ids),
            false => host.detach_namespace(a.nsid, &ids),
        };
        let outdated = |error: &host::Error| {
            let status = error.status();
            a.controllers.is_empty() && status.is_some_and(|s| s.is(Status::CONTROLLER_LIST_INVALID))
        };
        match changed {
            Err(error) if outdated(&error) && attempts < ATTEMPTS => {}
            other => return about(host, a.nsid, other).map(|()| ids),
        }
    }
}

/// Those of `ids` that have the namespace attached, or have not.
fn which(host: &mut Connected, nsid: u32, ids: &[u16], attached: bool) -> Result<Vec<u16>> {
    let holders = host.namespace_controllers(nsid);
    let holders = about(host, nsid, holders)?;
    Ok(ids.iter().copied().filter(|id| holders.contains(id) == attached).collect())
}

/// The LBA formats of a drive, in their order.
fn formats(host: &mut Connected, ns: &IdentifyNamespace) -> Result<Vec<LbaFormat>> {
    let count = (usize::from(ns.nlbaf_z) + 1).min(ns.lbaf.len());
    // Of drives without extended formats there is nothing more to ask.
    let extended = match host.controller().ctratt.elbas() {
        true => Some(host.identify_nvm_namespace(NSID_ALL)?),
        false => None,
    };
    let all = ns.lbaf[..count].iter().enumerate().map(|(i, format)| {
        let elbaf = extended.as_ref().map_or(0, |e| e.elbaf[i].get());
        let (data, metadata) =
            (format.data_bytes().unwrap_or(0), u8::try_from(format.ms.get()).unwrap_or(u8::MAX));
        // A guard that is not known is one of another drive; its format can be named by its sizes alone.
        LbaFormat::told(data, metadata, elbaf).unwrap_or(LbaFormat { metadata, ..LbaFormat::plain(data) })
    });
    Ok(all.collect())
}

/// The index of a format: just that one, or the first of its sizes.
fn format_of(formats: &[LbaFormat], lba: LbaFormat) -> Result<u8> {
    let sizes = |f: &LbaFormat| (f.data, f.metadata) == (lba.data, lba.metadata);
    let index = formats.iter().position(|f| *f == lba);
    let index = index.or_else(|| formats.iter().position(|f| sizes(f) && lba.extension() == 0));
    index.and_then(|i| u8::try_from(i).ok()).with_context(|| {
        let all: Vec<String> = formats.iter().map(ToString::to_string).collect();
        format!("the drive has no LBA format {lba}, but {}", all.join(", "))
    })
}

/// What to say of protection information that a format has no room for.
fn check_protection(format: LbaFormat, protection: u8) -> Result<()> {
    if protection > 0 && !format.can_protect() {
        lab_report::misuse!(
            "--pi {protection} needs metadata, and the LBA format {format} has none or too little (--lba names another)"
        );
    }
    Ok(())
}

/// The new namespace.
#[derive(Serialize, JsonSchema)]
pub struct Created {
    /// Its size.
    #[schemars(extend("unit" = "bytes"))]
    bytes: u64,
    /// Controllers that it was attached to: empty without --attach.
    controllers: Vec<u16>,
    /// Namespace identifier.
    nsid: u32,
    /// What can be written. Of a zoned namespace that may be less than its size.
    #[schemars(extend("unit" = "bytes"))]
    usable_bytes: u64,
}

/// The namespace.
#[derive(Serialize, JsonSchema)]
pub struct Attached {
    /// Controllers for which something has changed.
    controllers: Vec<u16>,
    /// Namespace identifier.
    nsid: u32,
}

/// The namespace.
#[derive(Serialize, JsonSchema)]
pub struct Changed {
    /// Namespace identifier.
    nsid: u32,
}

/// The namespaces, with the keys of nvme list and Tranche's own.
#[derive(Serialize, JsonSchema)]
pub struct Listed {
    /// The namespaces.
    #[serde(rename = "Devices")]
    devices: Vec<ListedNamespace>,
}

/// A namespace.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
struct ListedNamespace {
    #[serde(flatten)]
    shown: view::ListItem,
    /// NVM Set.
    #[serde(rename = "NVMSetId")]
    nvm_set_id: u16,
    /// Its zones.
    #[schemars(extend("null" = "it is not zoned"))]
    zones: Option<zone_shape::Shape>,
    /// Metadata of a logical block.
    #[schemars(extend("unit" = "bytes"))]
    metadata_size: u16,
    /// Type of protection information; 0 is none.
    protection_type: u8,
    /// Whether it is attached to this host.
    attached: bool,
    /// Controllers that it is attached to.
    controllers: Vec<u16>,
}

/// `tranche ns`.
pub fn ns(command: &Ns, output: Output) -> Result<()> {
    match command {
        Ns::List { attached, target } => {
            list(&mut connect(target)?, &target.on().to_string(), *attached, output)
        }
        Ns::Create { nvm_set, size, lba, protection, zones, attach, target } => {
            let mut host = connect(target)?;
            let common = host.identify_namespace(NSID_ALL)?;
            let all = formats(&mut host, &common)?;
            let zoned = zones.zoned.then(|| zone_shape::of_new(&mut host)).transpose()?;
            let first = zoned.as_ref().map_or(0, zone_shape::first_format);
            let index = lba.map_or(Ok(first), |lba| format_of(&all, lba))?;
            let format = all[usize::from(index)];
            let block = u64::from(format.data);
            if block == 0 {
                bail!("the drive's LBA format {index} makes no sense");
            }
            if size % block != 0 {
                lab_report::misuse!(
                    "--size {size} is not a multiple of the logical block size, {block} bytes"
                );
            }
            let mut create = namespace_create(size / block, index, *nvm_set);
            if let Some(zoned) = &zoned {
                zone_shape::check(zoned, &all, index, *size, *nvm_set)?;
                create.set_zoned(&zone_shape::asked(zones)?);
            }
            create.flbas.set_mtelba(format.metadata > 0);
            if let Some(kind) = protection.pi {
                check_protection(format, kind)?;
                create.dps = Dps::new().with_pit(kind).with_pip(protection.pi_first);
                // The whole storage tag counts.
                create.lbstm.set(u64::MAX.checked_shr(64 - u32::from(format.storage_bits)).unwrap_or(0));
            }
            if format.extension() != 0 {
                host.enable_extensions()?;
            }
            let csi = if zoned.is_some() { Csi::ZONED } else { Csi::NVM };
            let created = host.create_namespace_of(csi, &create);
            let nsid = created.map_err(|error| {
                let denied = [Status::ACCESS_DENIED, Status::OPERATION_DENIED];
                if error.status().is_some_and(|status| denied.iter().any(|denial| status.is(*denial))) {
                    return error.into();
                }
                let why = match &zoned {
                    Some(shape) => zone_shape::not_created(&mut host, shape, zones, *nvm_set, &error),
                    None => not_created(&mut host, *nvm_set, &error),
                };
                anyhow::Error::from(error).context(why)
            })?;
            let mut to = Vec::new();
            if *attach {
                let all = Attachment { nsid, controllers: Vec::new(), host: None, target: target.clone() };
                to = change(&mut host, &all, true).with_context(|| {
                    format!("namespace {nsid} is there, but not attached (`tranche ns attach {nsid}`)")
                })?;
            }
            let shape = if zoned.is_some() { shape_of(&mut host, nsid) } else { None };
            match output {
                Output::Json => print_json(&Created {
                    bytes: *size,
                    controllers: to,
                    nsid,
                    usable_bytes: shape.map_or(*size, |shape| shape.usable_bytes()),
                }),
                Output::Text => {
                    // Standard output has the number alone, for scripts.
                    if let Some(shape) = shape {
                        tell!("namespace {nsid}: {}", shape.usable());
                    }
                    print_text(&nsid.to_string())
                }
            }
        }
        Ns::Attach(a) => attach(&mut connect(&a.target)?, a, true, output),
        Ns::Detach { which, force } => {
            let mut host = connect(&which.target)?;
            if !force {
                refuse_open_store(&mut host, which)?;
            }
            attach(&mut host, which, false, output)
        }
        Ns::Delete { nsid, force, target } => {
            let mut host = connect(target)?;
            if !force {
                refuse_attached(&mut host, *nsid)?;
            }
            let deleted = host.delete_namespace(*nsid);
            about(&mut host, *nsid, deleted)?;
            done(output, *nsid, "deleted")
        }
        Ns::Format { nsid, ses, lba, protection, target } => {
            let mut host = connect(target)?;
            let identified = host.identify_allocated(*nsid);
            let ns = about(&mut host, *nsid, identified)?;
            let all = formats(&mut host, &ns)?;
            let lbaf = lba.map_or(Ok(ns.flbas.format_index()), |lba| format_of(&all, lba))?;
            let format = all.get(usize::from(lbaf)).copied().context("its LBA format makes no sense")?;
            let (pi, pil) = match protection.pi {
                Some(kind) => (kind, protection.pi_first),
                None if lba.is_none() => (ns.dps.pit(), ns.dps.pip()),
                None => (0, false),
            };
            check_protection(format, pi)?;
            if format.extension() != 0 {
                host.enable_extensions()?;
            }
            if *ses == Erase::Crypto && !host.controller().fna.cryes() {
                bail!(
                    "this drive has no keys, so there is none to replace (tranche serve --drive-key); --ses user-data erases \
                     without one"
                );
            }
            let mset = format.metadata > 0;
            let ses = match ses {
                Erase::None => SecureErase::NONE,
                Erase::UserData => SecureErase::USER_DATA,
                Erase::Crypto => SecureErase::CRYPTOGRAPHIC,
            };
            let formatted = host.format(FormatNvm { nsid: *nsid, lbaf, mset, pi, pil, ses });
            about(&mut host, *nsid, formatted)?;
            done(output, *nsid, "formatted")
        }
    }
}

/// The zones of a new namespace. An error of the drive here does not undo the namespace, and is no error of the command.
fn shape_of(host: &mut Connected, nsid: u32) -> Option<zone_shape::Shape> {
    let ns = host.identify_allocated(nsid).ok()?;
    let zoned = host.zoned_among(&[nsid]).ok()?;
    zoned.first().and_then(|(_, zoned)| zone_shape::Shape::of(&ns, zoned))
}

fn attach(host: &mut Connected, a: &Attachment, attach: bool, output: Output) -> Result<()> {
    let ids = change(host, a, attach)?;
    match output {
        Output::Json => print_json(&Attached { controllers: ids, nsid: a.nsid }),
        Output::Text => {
            let ids = ids.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
            let what = if attach { "attached to" } else { "detached from" };
            print_text(&match ids.as_str() {
                "" => format!("namespace {}: nothing to change", a.nsid),
                ids => format!("namespace {}: {what} controllers {ids}", a.nsid),
            })
        }
    }
}

/// Says what became of a namespace.
fn done(output: Output, nsid: u32, what: &str) -> Result<()> {
    match output {
        Output::Json => print_json(&Changed { nsid }),
        Output::Text => print_text(&format!("namespace {nsid}: {what}")),
    }
}

/// A namespace, with the controllers that it is attached to; `None` if it is not there.
fn described(host: &mut Connected, nsid: u32) -> Result<Option<(IdentifyNamespace, Vec<u16>)>> {
    // Others may delete it between two questions, and make another one with its number.
    const TRIES: u32 = 5;
    for attempt in 1.. {
        let answers = match host.identify_allocated(nsid) {
            Ok(ns) => host.namespace_controllers(nsid).map(|holders| (ns, holders)),
            Err(error) => Err(error),
        };
        match answers {
            Ok(both) => return Ok(Some(both)),
            Err(_) if !host.allocated_namespaces()?.contains(&nsid) => break,
            Err(error) if attempt == TRIES => return Err(error.into()),
            Err(_) => {}
        }
    }
    Ok(None)
}

fn list(host: &mut Connected, address: &str, attached: bool, output: Output) -> Result<()> {
    let active = host.active_namespaces()?;
    let nsids = if attached { active.clone() } else { host.allocated_namespaces()? };
    let controller = *host.controller();
    let zoned: BTreeMap<_, _> = host.zoned_among(&nsids)?.into_iter().collect();
    let mut devices = Vec::new();
    let mut rows = Vec::new();
    for nsid in nsids {
        // Somebody may have deleted it since it was listed.
        let Some((ns, holders)) = described(host, nsid)? else { continue };
        let block = ns.format().data_bytes().unwrap_or(0);
        // What the sizes count, and what is beside it.
        let format = match (ns.format().ms.get(), ns.dps.pit()) {
            (0, _) => block.to_string(),
            (metadata, 0) => format!("{block}+{metadata}"),
            (metadata, pi) => format!("{block}+{metadata} PI {pi}"),
        };
        let bytes = |blocks: u64| format_size(blocks.saturating_mul(block.into()));
        let (size, used) = (bytes(ns.nsze.get()), bytes(ns.nuse.get()));
        let set = ns.nvmsetid.get();
        let ids: Vec<String> = holders.iter().map(u16::to_string).collect();
        let mut row = vec![nsid.to_string(), set.to_string(), size, used, format];
        let zones = zoned.get(&nsid).and_then(|zoned| zone_shape::Shape::of(&ns, zoned));
        if !zoned.is_empty() {
            row.push(zones.map_or_else(|| "-".to_owned(), |zones| zones.to_string()));
        }
        row.push(ids.join(","));
        rows.push(row);
        devices.push(ListedNamespace {
            shown: view::ListItem::new(&controller, nsid, &ns, &format!("{address}#{nsid}")),
            nvm_set_id: set,
            zones,
            metadata_size: ns.format().ms.get(),
            protection_type: ns.dps.pit(),
            attached: active.contains(&nsid),
            controllers: holders,
        });
    }
    if output == Output::Json {
        // A value has its keys in order.
        return print_json(&serde_json::to_value(Listed { devices })?);
    }
    let mut heads = vec!["NSID", "Set", "Size", "Used", "Block"];
    if !zoned.is_empty() {
        heads.push("Zones");
    }
    heads.push("Controllers");
    print_text(&table(&heads, &rows))
}
