//! Commands that change a drive, as an NVMe host: `ns`, `power-cut`.

use crate::args::{Attachment, Bench, Erase, Ns, Output, PowerCut, Target};
use crate::{print_json, print_text, show};
use anyhow::{Context, Result, anyhow, bail};
use device::LbaFormat;
use fabric::auth::ChapKeys;
use host::{Addr, Host, Identity, SocketTransport, TransportError, namespace_create, view};
use nvme::admin::{FormatNvm, SecureErase};
use nvme::identify::{Dps, IdentifyNamespace};
use nvme::log::{ControllerEntry, LogId};
use nvme::zerocopy::FromBytes;
use nvme::{NSID_ALL, Nqn, Status};
use serde_json::json;
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use units::format_size;

/// Host NQN of this command where the machine has none.
const HOST_NQN: &str = "nqn.2026-11.io.tranche:cli";
/// For each step of connecting.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connected host.
pub type Connected = Host<SocketTransport>;

/// NQN to connect with.
fn hostnqn(target: &Target) -> Result<Nqn> {
    if let Some(nqn) = target.hostnqn {
        return Ok(nqn);
    }
    match std::fs::read_to_string("/etc/nvme/hostnqn") {
        Ok(text) => {
            text.trim().parse().map_err(|e| anyhow!("/etc/nvme/hostnqn: {e}; correct it or give --hostnqn"))
        }
        Err(_) => HOST_NQN.parse().map_err(|e| anyhow!("{HOST_NQN}: {e}")),
    }
}

/// Keys of DH-HMAC-CHAP.
fn chap(target: &Target) -> Result<Option<ChapKeys>> {
    let controller = target.dhchap_ctrl_secret.as_ref().filter(|secret| !secret.is_empty());
    let controller = controller.map(|secret| secret.read("--dhchap-ctrl-secret")).transpose()?;
    match (target.dhchap_secret.as_ref().filter(|secret| !secret.is_empty()), controller) {
        (Some(secret), controller) => {
            Ok(Some(ChapKeys { host: secret.read("--dhchap-secret")?, controller }))
        }
        (None, Some(_)) => {
            bail!("--dhchap-ctrl-secret needs --dhchap-secret: the drive proves who it is only then")
        }
        (None, None) => Ok(None),
    }
}

/// Connects to the drive.
pub fn connect(target: &Target) -> Result<Connected> {
    let mut identity = Identity::new(hostnqn(target)?);
    identity.chap = chap(target)?;
    let psk = target.tls_psk.as_ref().filter(|secret| !secret.is_empty());
    identity.tls = psk.map(|secret| secret.read("--tls-psk")).transpose()?;
    let limit = Duration::from_secs(target.wait.into());
    let on = target.on();
    let attempt = || Host::connect(SocketTransport::new(on.clone(), PATIENCE), &identity);
    host::retry(limit, attempt).map_err(|error| {
        let advice = advice(on, &error);
        let error = anyhow::Error::from(error);
        match advice {
            Some(advice) => error.context(advice),
            None => error,
        }
    })
}

/// Deleting a namespace that other hosts have attached takes --force. What cannot be known is not asked for.
fn refuse_attached(host: &mut Connected, nsid: u32) -> Result<()> {
    let own = host.cntlid();
    let others =
        host.namespace_controllers(nsid).unwrap_or_default().into_iter().filter(|id| *id != own).count();
    if others > 0 {
        bail!(
            "namespace {nsid} is attached to other controllers ({others}), whose hosts would lose it: detach it first, or give \
             --force"
        );
    }
    Ok(())
}

/// What to do about a connection that did not come about.
fn advice(on: &Addr, error: &host::Error) -> Option<String> {
    if let host::Error::Connect { .. } = error {
        return Some(format!(
            "{on} does not take this host (`?nqn=` at the address's end and --hostnqn name others)"
        ));
    }
    match error {
        host::Error::Transport(TransportError::Io { source, .. }) => Some(match source.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::NotFound => format!(
                "no drive at {on}: nothing listens there (start `tranche serve`, let --on name another place, or give a \
                 drive that is starting time with --wait SECONDS)"
            ),
            ErrorKind::PermissionDenied => {
                format!("no drive at {on}: this user may not connect to it (the socket's permissions decide)")
            }
            // What TLS says: the other side is there.
            ErrorKind::InvalidData => format!("something listens at {on}, but the two do not come together"),
            _ => format!("no drive can be reached at {on}"),
        }),
        host::Error::Transport(TransportError::Protocol(_)) => {
            Some(format!("what listens at {on} does not speak NVMe/TCP (--on names another place)"))
        }
        host::Error::Transport(TransportError::Timeout(_) | TransportError::Closed) => Some(format!(
            "what listens at {on} does not answer as an NVMe/TCP drive does, or not yet (--on names another place, --wait \
             SECONDS tries for longer; if it wants TLS, give --tls-psk)"
        )),
        _ => None,
    }
}

/// Why faults and power cuts are denied to hosts on the network, and what to do instead.
const NETWORK_REFUSAL: &str = "the drive refuses this to hosts on the network: use its Unix socket (serve --unix PATH, \
                               --on unix://PATH), or set allow_network_faults = true in its TOML";

fn is_denied(error: &host::Error) -> bool {
    error.status().is_some_and(|status| status.is(Status::OPERATION_DENIED))
}

/// Faults and power cuts are refused to hosts on the network; what to do instead.
pub fn network_refusal(error: &host::Error) -> Option<&'static str> {
    is_denied(error).then_some(NETWORK_REFUSAL)
}

/// What to say when a drive denies a command to this host and nothing else was said of it.
pub fn denial(error: &anyhow::Error) -> Option<&'static str> {
    let host = error.chain().find_map(|cause| cause.downcast_ref::<host::Error>())?;
    let said = error.chain().any(|cause| cause.to_string() == NETWORK_REFUSAL);
    (is_denied(host) && !said).then_some(
        "the drive's list of hosts (serve --hosts) does not allow this: a tenant has only its namespaces and their limits, and no \
         other namespace can be attached to it; without a list, hosts administer a drive only from its own machine or through its \
         Unix socket (docs/access.md)",
    )
}

/// Adds to the error of a command for a namespace what its status does not say: that there is no such namespace, or that
/// the drive is locked.
pub fn about<T>(host: &mut Connected, nsid: u32, result: Result<T, host::Error>) -> Result<T> {
    result.map_err(|error| {
        if let Some(locked) = locked(host, &error) {
            return anyhow::Error::from(error).context(locked);
        }
        let known = error.status().and_then(|_| host.allocated_namespaces().ok());
        let error = anyhow::Error::from(error);
        match known {
            Some(known) if nsid != NSID_ALL && !known.contains(&nsid) => {
                let known: Vec<String> = known.iter().map(u32::to_string).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                error.context(format!("there is no namespace {nsid} (the drive has {known})"))
            }
            _ => error,
        }
    })
}

/// What to say when a drive refuses a command because it was started without its key.
pub fn locked(host: &mut Connected, error: &host::Error) -> Option<&'static str> {
    let denied = error.status().is_some_and(|status| status.is(Status::ACCESS_DENIED));
    if denied { without_its_key(host) } else { None }
}

/// What to say of a drive that is locked.
fn without_its_key(host: &mut Connected) -> Option<&'static str> {
    let nsids = host.allocated_namespaces().ok()?;
    let mut namespaces = nsids.into_iter().filter_map(|nsid| host.identify_allocated(nsid).ok());
    namespaces
        .any(|namespace| namespace.vs[0] == show::LOCKED)
        .then_some("the drive is LOCKED: it was started without its key (tranche serve --drive-key)")
}

/// Runs a fio job file.
pub fn bench(bench: &Bench) -> Result<lab::Outcome<serde_json::Value>> {
    let name = bench.job.display().to_string();
    let text = crate::read_text(&bench.job)?;
    let mut host = connect(&bench.target)?;
    let settings = lab::bench::Settings { nsid: bench.nsid, poll: bench.poll };
    let mut outcome = lab::bench::run(&name, &text, &mut host, settings)?;
    if let Some(failure) = &mut outcome.failure
        && let Some(locked) = without_its_key(&mut host)
    {
        failure.push_str(&format!("\n{locked}"));
    }
    // The results count even if the drive is gone meanwhile.
    if let Err(error) = host.shutdown() {
        tracing::debug!("disconnecting: {error}");
    }
    Ok(outcome)
}

/// Hosts of the drive's controllers.
fn controllers(host: &mut Connected) -> Result<Vec<(u16, Nqn)>> {
    let id = LogId::CONTROLLERS;
    let head = host.log(id, 0, 0, 16).context("reading the drive's list of controllers")?;
    let count = usize::from(u16::from_le_bytes([head[2], head[3]]));
    let log = host.log(id, 0, 0, 16 + count * size_of::<ControllerEntry>())?;
    let entries = log[16..].chunks_exact(size_of::<ControllerEntry>());
    let read = |bytes| {
        let entry = ControllerEntry::read_from_bytes(bytes)
            .map_err(|_| anyhow!("the list of controllers is cut off"))?;
        Ok((
            entry.cntlid.get(),
            Nqn::from_field(&entry.hostnqn).map_err(|e| anyhow!("a controller's host: {e}"))?,
        ))
    };
    entries.map(read).collect()
}

/// The controllers that an attachment means.
fn chosen(host: &mut Connected, target: &Target, ids: &[u16], nqn: Option<Nqn>) -> Result<Vec<u16>> {
    if !ids.is_empty() {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        return Ok(ids);
    }
    let mine = [hostnqn(target)?, block::HOST_NQN.parse().map_err(|e| anyhow!("{e}"))?];
    let wanted = nqn.map_or(mine.to_vec(), |nqn| vec![nqn]);
    let all = controllers(host)?;
    let found: Vec<u16> = all.iter().filter(|(_, host)| wanted.contains(host)).map(|(id, _)| *id).collect();
    if found.is_empty() {
        let hosts: Vec<String> = all.iter().map(|(id, nqn)| format!("{id} ({nqn})")).collect();
        bail!("no controller belongs to {}; there are {}", wanted[0], hosts.join(", "));
    }
    Ok(found)
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
        bail!(
            "--pi {protection} needs metadata, and the LBA format {format} has none or too little (--lba names another)"
        );
    }
    Ok(())
}

/// `tranche ns`.
pub fn ns(command: &Ns, output: Output) -> Result<()> {
    match command {
        Ns::List { attached, target } => {
            list(&mut connect(target)?, &target.on().to_string(), *attached, output)
        }
        Ns::Create { nvm_set, size, lba, protection, attach, target } => {
            let mut host = connect(target)?;
            let common = host.identify_namespace(NSID_ALL)?;
            let all = formats(&mut host, &common)?;
            let index = lba.map_or(Ok(0), |lba| format_of(&all, lba))?;
            let format = all[usize::from(index)];
            let block = u64::from(format.data);
            if block == 0 {
                bail!("the drive's LBA format {index} makes no sense");
            }
            if size % block != 0 {
                bail!("--size {size} is not a multiple of the logical block size, {block} bytes");
            }
            let mut create = namespace_create(size / block, index, *nvm_set);
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
            let created = host.create_namespace(&create);
            let nsid = created.map_err(|error| {
                let why = not_created(&mut host, *nvm_set, &error);
                anyhow::Error::from(error).context(why)
            })?;
            let mut to = Vec::new();
            if *attach {
                to = chosen(&mut host, target, &[], None)?;
                host.attach_namespace(nsid, &to)?;
            }
            match output {
                Output::Json => print_json(&json!({ "nsid": nsid, "controllers": to })),
                Output::Text => print_text(&nsid.to_string()),
            }
        }
        Ns::Attach(a) => attach(a, true, output),
        Ns::Detach(a) => attach(a, false, output),
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

/// What to say when a namespace could not be created.
fn not_created(host: &mut Connected, set: u16, error: &host::Error) -> String {
    if let Some(locked) = locked(host, error) {
        return locked.to_owned();
    }
    let is = |status| error.status().is_some_and(|s| s.is(status));
    if is(Status::NAMESPACE_ID_UNAVAILABLE) {
        let most = host.controller().nn.get();
        return format!(
            "the drive has the {most} namespaces that it can have; `tranche ns delete` makes room"
        );
    }
    let sets = host.nvm_sets().unwrap_or_default();
    let each: Vec<String> = sets
        .iter()
        .filter(|s| set == 0 || s.nvmsetid.get() == set)
        .map(|s| {
            let free = u64::try_from(s.unvmsetcap.get()).unwrap_or(u64::MAX);
            format!("NVM Set {} has {} unallocated", s.nvmsetid.get(), format_size(free))
        })
        .collect();
    if each.is_empty() { format!("there is no NVM Set {set}") } else { each.join(", ") }
}

fn attach(a: &Attachment, attach: bool, output: Output) -> Result<()> {
    let mut host = connect(&a.target)?;
    let ids = chosen(&mut host, &a.target, &a.controllers, a.host)?;
    // Those that were named are asked for as they are; of a host's, only those where it changes something.
    let ids = if a.controllers.is_empty() { which(&mut host, a.nsid, &ids, !attach)? } else { ids };
    if !ids.is_empty() {
        let changed = match attach {
            true => host.attach_namespace(a.nsid, &ids),
            false => host.detach_namespace(a.nsid, &ids),
        };
        about(&mut host, a.nsid, changed)?;
    }
    match output {
        Output::Json => print_json(&json!({ "nsid": a.nsid, "controllers": ids })),
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
        Output::Json => print_json(&json!({ "nsid": nsid })),
        Output::Text => print_text(&format!("namespace {nsid}: {what}")),
    }
}

fn list(host: &mut Connected, address: &str, attached: bool, output: Output) -> Result<()> {
    let active = host.active_namespaces()?;
    let nsids = if attached { active.clone() } else { host.allocated_namespaces()? };
    let controller = *host.controller();
    let mut shown = view::List::default();
    let mut rows = Vec::new();
    let mut more = Vec::new();
    for nsid in nsids {
        let ns = host.identify_allocated(nsid)?;
        let holders = host.namespace_controllers(nsid)?;
        shown.add(&controller, nsid, &ns, &format!("{address}#{nsid}"));
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
        rows.push([nsid.to_string(), set.to_string(), size, used, format, ids.join(",")]);
        more.push(json!({
            "NVMSetId": set,
            "MetadataSize": ns.format().ms.get(),
            "ProtectionType": ns.dps.pit(),
            "Attached": active.contains(&nsid),
            "Controllers": holders,
        }));
    }
    if output == Output::Json {
        // nvme-cli's keys, and ours beside them.
        let mut value = serde_json::to_value(&shown)?;
        if let Some(devices) = value["Devices"].as_array_mut() {
            for (device, more) in devices.iter_mut().zip(more) {
                if let (Some(device), serde_json::Value::Object(more)) = (device.as_object_mut(), more) {
                    device.extend(more);
                }
            }
        }
        return print_json(&value);
    }
    print_text(&show::table(&["NSID", "Set", "Size", "Used", "Block", "Controllers"], &rows))
}

/// Waits until the drive takes hosts again: after its time without power, and while it recovers.
fn wait_for_power(cut: &PowerCut) -> Result<()> {
    let deadline = Instant::now() + Duration::from_millis(cut.off.into()) + PATIENCE;
    loop {
        std::thread::sleep(Duration::from_millis(20));
        match connect(&cut.target) {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > deadline => {
                return Err(error.context("the drive has not come back"));
            }
            Err(_) => {}
        }
    }
}

/// `tranche power-cut`.
///
/// A cut that comes at once is over when this returns: the next command finds the drive with power.
pub fn power_cut(cut: &PowerCut, output: Output) -> Result<()> {
    let mut host = connect(&cut.target)?;
    let asked = host.power_cut(nvme::admin::PowerCut {
        after_media_ops: cut.after,
        off_ms: cut.off,
        seed: cut.seed,
        no_plp: cut.no_plp,
    });
    asked.map_err(|error| match network_refusal(&error) {
        Some(why) => anyhow::Error::from(error).context(why),
        None => error.into(),
    })?;
    drop(host);
    if cut.after == 0 {
        wait_for_power(cut)?;
    }
    match output {
        Output::Json => print_json(&json!({ "after_media_ops": cut.after, "off_ms": cut.off })),
        Output::Text if cut.after > 0 => {
            print_text(&format!("power goes off after {} media operations, for {} ms", cut.after, cut.off))
        }
        Output::Text => print_text(&format!("power was off for {} ms; the drive is back", cut.off)),
    }
}
