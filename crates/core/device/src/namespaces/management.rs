//! Namespace Management: create and delete (Base 5.1.21, NVM 4.1.6).

use crate::contents::Contents;
use crate::core::{
    ANA_GROUP, Admission, AttachmentPolicy, CommandKind, ControllerId, Core, Cx, Failure, FormatLayout,
    Namespace, NamespaceArbitration, identifiers,
};
use crate::quota::quotas::Quotas;
use crate::stats;
use crate::stats::counts::{NamespaceStats, Traffic};
use crate::zones;
use drive_config::LbaFormat;
use drive_config::{Attach, ConfigError, GRANULE_BYTES};
use ftl::{Fault, NoContents, SetId, VolumeStats, ZoneLayout};
use media::Nanos;
use nvme::admin::NamespaceManagement;
use nvme::identify::NamespaceCreate;
use nvme::zerocopy::FromBytes;
use nvme::{Csi, NSID_ALL, Status};

/// A namespace that may be created, if its set has room.
pub(crate) struct CreateRequest<'a> {
    pub new: &'a NamespaceCreate,
    pub set: SetId,
    format: LbaFormat,
    /// Its zones, if it is to be zoned.
    zones: Option<ZoneLayout>,
}

/// Checks the fields of a command that creates a namespace.
pub(crate) fn check_create<'a>(
    core: &Core,
    id: ControllerId,
    c: &NamespaceManagement,
    data: &'a [u8],
) -> Result<CreateRequest<'a>, Failure> {
    if core.drive_key.locked {
        // It would hold plain data, on a drive that has a key.
        return Err(Status::ACCESS_DENIED.into());
    }
    let zoned = c.csi == Csi::ZONED && zones::are_supported(core);
    if c.csi != Csi::NVM && !zoned {
        return Err(Failure { location: 47, ..Status::IOCS_NOT_SUPPORTED.into() });
    }
    if c.nsid != 0 {
        return Err(Failure::field(4));
    }
    let (new, _) = NamespaceCreate::ref_from_prefix(data).map_err(|_| Status::DATA_SGL_LENGTH_INVALID)?;
    let index = new.flbas.format_index();
    let format = super::format::check(core, id, index, new.flbas.mtelba(), new.dps.pit())?;
    let (nsze, ncap) = (new.nsze.get(), new.ncap.get());
    let nmic = new.nmic.into_bits();
    if nsze == 0 || ncap == 0 || ncap > nsze || nmic > 1 {
        return Err(Status::INVALID_FIELD.into());
    }
    // Bits of the mask that have no bit of the tag.
    if new.lbstm.get().checked_shr(format.storage_bits.into()).unwrap_or(0) != 0 {
        return Err(Status::INVALID_FIELD.into());
    }
    if ncap < nsze && !zoned {
        return Err(Status::THIN_PROVISIONING_NOT_SUPPORTED.into());
    }
    if ![0, ANA_GROUP].contains(&new.anagrpid.get()) {
        return Err(Status::ANA_GROUP_ID_INVALID.into());
    }
    let set = choose_set(core, new.nvmsetid.get(), new.endgid.get())?;
    let zones = zoned.then(|| zones::layout_of_new(core, set, &format, new)).transpose()?;
    Ok(CreateRequest { new, set, format, zones })
}

/// Creates a namespace with these reclaim unit handles; the controller may have chosen them. It has no key yet. Returns its identifier.
pub(crate) fn create<S: Contents>(
    core: &mut Core,
    request: &CreateRequest<'_>,
    (handles, by_controller): (Vec<u8>, bool),
    cx: &mut Cx<'_, S>,
) -> Result<u32, Failure> {
    let &CreateRequest { new, set, format, zones } = request;
    let (nsze, shift) = (new.nsze.get(), format.shift());
    // What would not even be counted in bytes is more than any set has.
    let bytes =
        nsze.checked_shl(shift.into()).filter(|b| b >> shift == nsze && *b <= u64::MAX - GRANULE_BYTES);
    let insufficient = Failure::from(Status::NAMESPACE_INSUFFICIENT_CAPACITY);
    let bytes = bytes.ok_or(insufficient.with_information(u64::MAX))?;
    // The error log tells the capacity that would have been needed (Base 5.1.21).
    let needed = match &zones {
        None => bytes.next_multiple_of(GRANULE_BYTES),
        Some(zones) => u64::from(zones.zones) * zones.capacity.next_multiple_of(GRANULE_BYTES),
    };
    let nsid = core.namespaces.free().ok_or(Status::NAMESPACE_ID_UNAVAILABLE)?;
    let volume = match zones {
        None => core.ftl.create(set, bytes.next_multiple_of(ftl::PAGE.into()), cx.storage),
        Some(zones) => core.ftl.create_zoned(set, zones, cx.storage),
    };
    let volume = volume.map_err(|fault| match fault {
        Fault::NoSpace => insufficient.with_information(needed),
        other => Failure::of_fault(other, CommandKind::Admin),
    })?;
    let mut namespace =
        new_namespace(core, volume, set, bytes, new.nmic.into_bits() & 1 != 0, AttachmentPolicy::default());
    namespace.protection_type = new.dps.pit();
    namespace.protection_first = new.dps.pip() && new.dps.pit() != 0;
    namespace.separate_metadata = format.metadata > 0 && !new.flbas.mtelba();
    namespace.storage_mask = new.lbstm.get();
    namespace.set_format(new.flbas.format_index(), format);
    namespace.zones = zones;
    (namespace.handles, namespace.handles_by_controller) = (handles, by_controller);
    core.namespaces.insert(nsid, namespace);
    Ok(nsid)
}

/// Takes back a namespace that was just created, and that no host has seen.
pub(crate) fn undo_create<S: Contents>(core: &mut Core, nsid: u32, cx: &mut Cx<'_, S>) {
    if let Some(namespace) = core.namespaces.remove(nsid) {
        core.ftl.delete(cx.now, namespace.volume, cx.storage);
    }
}

/// The namespaces that a command deletes.
pub(crate) fn targets(core: &Core, nsid: u32) -> Result<Vec<u32>, Failure> {
    match nsid {
        NSID_ALL => Ok(core.namespaces.ids()),
        nsid if core.namespaces.get(nsid).is_some() => Ok(vec![nsid]),
        nsid => Err(core.no_namespace(nsid)),
    }
}

/// Deletes a namespace that is idle. Returns what was counted of it.
pub(crate) fn delete<S: Contents>(
    core: &mut Core,
    nsid: u32,
    cx: &mut Cx<'_, S>,
) -> Option<(NamespaceStats, VolumeStats)> {
    let affected = core.attached_controllers(nsid);
    core.controllers.replaced(nsid);
    let namespace = core.namespaces.remove(nsid)?;
    cx.storage.drop_key(nsid);
    let media = stats::media_stats(core, &namespace);
    core.ftl.delete(cx.now, namespace.volume, cx.storage);
    core.count_sharers();
    for id in &affected {
        if let Some(controller) = core.controllers.get_mut(*id) {
            controller.attach(nsid, false);
        }
    }
    core.namespace_changed(nsid, &affected, cx);
    Some((*namespace.stats, media))
}

/// Each NVM Set is an Endurance Group of its own, so their identifiers are the same.
fn choose_set(core: &Core, nvmsetid: u16, endgid: u16) -> Result<SetId, Failure> {
    let chosen = match (nvmsetid, endgid) {
        (0, 0) => core.config.default_set,
        (0, group) => group,
        (set, 0) => set,
        (set, group) if set == group => set,
        _ => return Err(Status::INVALID_FIELD.into()),
    };
    let index = usize::from(chosen).checked_sub(1).filter(|i| *i < core.ftl.set_count());
    let index = index.and_then(|i| u8::try_from(i).ok()).ok_or(Status::INVALID_FIELD)?;
    Ok(SetId(index))
}

/// A namespace that has no format yet.
fn new_namespace(
    core: &mut Core,
    volume: ftl::VolumeId,
    set: SetId,
    bytes: u64,
    shared: bool,
    policy: AttachmentPolicy,
) -> Namespace {
    let drive = (core.config.identity.serial.as_str(), core.persistent.mark);
    let id = identifiers(drive, core.persistent.namespaces_made);
    core.persistent.namespaces_made += 1;
    Namespace {
        volume,
        set,
        bytes,
        format: 0,
        shift: 0,
        shared,
        nguid: id,
        uuid: id,
        policy,
        before: Traffic::default(),
        quota: Quotas::default(),
        arbitration: NamespaceArbitration::default(),
        protection_type: 0,
        protection_first: false,
        separate_metadata: false,
        storage_mask: 0,
        stamp: 0,
        key: None,
        locked: false,
        layout: FormatLayout::default(),
        zones: None,
        reservations: None,
        handles: Vec::new(),
        handles_by_controller: false,
        stats: Box::default(),
        losses: 0,
        in_flight: 0,
        admission: Admission::default(),
        generation: 0,
    }
}

/// The namespaces of a new drive.
pub(crate) fn create_initial(core: &mut Core) -> Result<(), ConfigError> {
    for (i, initial) in core.config.namespaces.clone().into_iter().enumerate() {
        let set = SetId(u8::try_from(initial.set - 1).unwrap_or(u8::MAX));
        let format = core.config.lba_formats.iter().position(|f| *f == initial.format).unwrap_or(0);
        let bytes = initial.bytes.next_multiple_of(ftl::PAGE.into());
        // The check of the configuration has found that there is room.
        let volume = match initial.zones {
            None => core.ftl.create(set, bytes, &mut NoContents),
            Some(zones) => core.ftl.create_zoned(set, zones, &mut NoContents),
        };
        let volume = volume.map_err(|fault| {
            let size = units::format_size(initial.bytes);
            ConfigError::value(format!("namespace.{}.size", i + 1), size, fault.to_string())
        })?;
        let policy = AttachmentPolicy { all: initial.attach == Attach::All, ..AttachmentPolicy::default() };
        let mut namespace = new_namespace(core, volume, set, initial.bytes, true, policy);
        namespace.protection_type = initial.protection;
        namespace.storage_mask = u64::MAX;
        namespace.set_format(format as u8, initial.format);
        namespace.quota = Quotas::new(initial.limits);
        namespace.zones = initial.zones;
        if core.is_placing(set) {
            // An initial namespace may use every handle.
            namespace.handles = (0..core.ftl.handles(set) as u8).collect();
        }
        // The configuration was checked: there are no more of them than identifiers.
        if let Some(nsid) = core.namespaces.free() {
            core.namespaces.insert(nsid, namespace);
            core.apply_quota(nsid, Nanos::ZERO);
        }
    }
    core.count_sharers();
    Ok(())
}
