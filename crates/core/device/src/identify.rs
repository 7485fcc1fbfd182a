//! Identify (Base 5.1.13, NVM 4.1.5).
//!
//! It reads the core, and constants of the components that it describes; what they say at run time comes as [`IdentifyInputs`].

use crate::admin::ABORT_LIMIT_Z;
use crate::core::{
    ANA_GROUP, AdminResult, Admission, Controller, ControllerId, Core, ERROR_ENTRIES, Failure,
    KEEP_ALIVE_GRANULARITY, MAX_QUEUE_ENTRIES, Namespace, Reply, Role, TransportModel,
};
use crate::feature::values::OPTIONAL_EVENTS;
use crate::firmware;
use crate::io::commands::{DSM_BLOCKS, DSM_RANGES};
use crate::io::copy::{COPY_BYTES, COPY_FORMATS, COPY_RANGES_Z};
use crate::io::locate::DATALESS_BYTES;
use crate::persistent_event_log::LOG_UNITS;
use crate::ports::ANA_TRANSITION_SECONDS;
use crate::temperature::{CRITICAL_TEMPERATURE, WARNING_TEMPERATURE};
use crate::uuid::uuid_list;
use crate::zones;
use drive_config::GRANULE_BYTES;
use drive_config::protection::Guard;
use ftl::{MediaKind, PAGE};
use nvme::admin::Identify;
use nvme::command::AdminOpcode;
use nvme::identify::{
    Anacap, Cmic, Cns, ControllerList, ControllerType, Ctratt, Dlfeat, Dpc, Dps, EnduranceGroupList,
    EntrySize, Flbas, Fna, Frmw, IdentifyController, IdentifyNamespace, IndependentNamespace, IoCommandSets,
    LbaFormat, Lpa, NamespaceGranularity, NamespaceGranularityList, NamespaceIdDescriptor, NamespaceList,
    Nmic, Nsfeat, NvmController, NvmNamespace, NvmSetAttributes, NvmSetList, Oacs, Oncs, Sanicap, Sgls, Vwc,
    ascii,
};
use nvme::log::LogId;
use nvme::reservation::Rescap;
use nvme::zerocopy::IntoBytes;
use nvme::{Csi, IDENTIFY_SIZE, NSID_ALL, Status, U16, U32, U64, U128, Version};

fn page(structure: &(impl IntoBytes + nvme::zerocopy::Immutable)) -> AdminResult {
    Ok(Reply::Data(structure.as_bytes().to_vec(), 0))
}

fn zeros() -> AdminResult {
    Ok(Reply::Data(vec![0; IDENTIFY_SIZE], 0))
}

/// Every kind of reservation, also through power losses.
const RESCAP: Rescap = Rescap::new()
    .with_ptpl(true)
    .with_write_exclusive(true)
    .with_exclusive_access(true)
    .with_write_exclusive_registrants_only(true)
    .with_exclusive_access_registrants_only(true)
    .with_write_exclusive_all_registrants(true)
    .with_exclusive_access_all_registrants(true)
    .with_iekey(true);

/// What components say of themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdentifyInputs {
    /// The firmware that runs.
    pub firmware_revision: [u8; 8],
    /// Some set has Predictable Latency Mode.
    pub windows: bool,
    /// Some set has placement handles: for Flexible Data Placement and directives.
    pub placement: bool,
    /// All that is on the media can be erased by new keys.
    pub crypto_erase: bool,
    /// What an extended self-test takes.
    pub self_test_minutes: u16,
}

/// What every controller says of the NVM Command Set. Bit 0 of AOCS: Get LBA Status tells what is allocated.
pub(crate) fn nvm_controller() -> NvmController {
    let pages = (DATALESS_BYTES / PAGE).trailing_zeros() as u8;
    NvmController {
        vsl: pages,
        wzsl: pages,
        wusl: pages,
        dmrl: DSM_RANGES,
        dmrsl: U32::new(DSM_BLOCKS),
        dmsl: U64::new(DSM_BLOCKS.into()),
        ver: U32::new(Version::V1_1.0),
        aocs: U16::new(1),
        ..Default::default()
    }
}

/// Answers an Identify command.
pub(crate) fn answer(core: &Core, inputs: &IdentifyInputs, id: ControllerId, c: Identify) -> AdminResult {
    let viewer = core.controller(id)?;
    // CSI is byte 47.
    let by_command_set = [
        Cns::IOCS_NAMESPACE,
        Cns::IOCS_CONTROLLER,
        Cns::IOCS_ACTIVE_NAMESPACES,
        Cns::IOCS_ALLOCATED_NAMESPACES,
        Cns::IOCS_ALLOCATED_NAMESPACE,
    ];
    let zoned = c.csi == Csi::ZONED && zones::are_supported(core);
    if by_command_set.contains(&c.cns) && c.csi != Csi::NVM && !zoned {
        return Err(Failure::field(47));
    }
    match c.cns {
        Cns::CONTROLLER => page(&controller(core, inputs, id)),
        Cns::IOCS_CONTROLLER if zoned => page(&zones::controller(core)),
        Cns::IOCS_CONTROLLER => page(&nvm_controller()),
        Cns::NAMESPACE if c.nsid == NSID_ALL => page(&common_namespace(core, viewer.transport)),
        Cns::NAMESPACE | Cns::ALLOCATED_NAMESPACE => match named(core, viewer, &c)? {
            Some(ns) => page(&namespace(core, ns, viewer.transport)),
            None => zeros(),
        },
        Cns::IOCS_NAMESPACE if c.nsid == NSID_ALL && zoned => page(&zones::namespace(core, None)),
        Cns::IOCS_NAMESPACE if c.nsid == NSID_ALL => page(&nvm_namespace(core, None)),
        Cns::IOCS_NAMESPACE | Cns::IOCS_ALLOCATED_NAMESPACE => match named(core, viewer, &c)? {
            Some(ns) if zoned && ns.zones.is_some() => page(&zones::namespace(core, Some(ns))),
            Some(_) if zoned => Err(Failure::field(47)),
            // Zoned namespaces have what the NVM Command Set says, too.
            Some(ns) => page(&nvm_namespace(core, Some(ns))),
            None => zeros(),
        },
        Cns::INDEPENDENT_NAMESPACE | Cns::INDEPENDENT_ALLOCATED_NAMESPACE => match named(core, viewer, &c)? {
            Some(ns) => page(&independent_namespace(core, ns)),
            None => zeros(),
        },
        Cns::NAMESPACE_DESCRIPTORS => {
            let ns = core.namespaces.get(c.nsid).filter(|_| viewer.is_attached(c.nsid));
            let ns = ns.ok_or(Failure { location: 4, ..Status::INVALID_NAMESPACE.into() })?;
            let mut list = [0; IDENTIFY_SIZE];
            let descriptors = [
                NamespaceIdDescriptor::Nguid(ns.nguid),
                NamespaceIdDescriptor::Uuid(ns.uuid),
                NamespaceIdDescriptor::Csi(ns.csi()),
            ];
            NamespaceIdDescriptor::write_list(&descriptors, &mut list);
            Ok(Reply::Data(list.to_vec(), 0))
        }
        Cns::ACTIVE_NAMESPACES => namespace_list(core, c.nsid, |nsid, _| viewer.is_attached(nsid)),
        Cns::IOCS_ACTIVE_NAMESPACES => {
            namespace_list(core, c.nsid, |nsid, ns| ns.csi() == c.csi && viewer.is_attached(nsid))
        }
        Cns::ALLOCATED_NAMESPACES => namespace_list(core, c.nsid, |nsid, _| viewer.sees(nsid)),
        Cns::IOCS_ALLOCATED_NAMESPACES => {
            namespace_list(core, c.nsid, |nsid, ns| ns.csi() == c.csi && viewer.sees(nsid))
        }
        Cns::NAMESPACE_CONTROLLERS => {
            core.seen(id, c.nsid)?;
            let holders = core.attached_controllers(c.nsid);
            let seen = core.seen_controllers(id).filter(|holder| holders.contains(holder));
            page(&ControllerList::new(seen.map(|id| id.0).filter(|id| *id >= c.cntid)))
        }
        Cns::CONTROLLERS => {
            let all = core.seen_controllers(id).map(|id| id.0);
            page(&ControllerList::new(all.filter(|id| *id >= c.cntid)))
        }
        Cns::NVM_SETS => page(&nvm_sets(core, c.cnssid)),
        Cns::ENDURANCE_GROUPS => {
            let all = core.set_ids().map(|id| u16::from(id.0) + 1);
            page(&EnduranceGroupList::new(all.filter(|id| *id >= c.cnssid)))
        }
        Cns::NAMESPACE_GRANULARITY => {
            let mut list = NamespaceGranularityList::default();
            list.entry[0] =
                NamespaceGranularity { nsg: U64::new(GRANULE_BYTES), ncg: U64::new(GRANULE_BYTES) };
            page(&list)
        }
        Cns::UUIDS => page(&uuid_list()),
        Cns::IO_COMMAND_SETS => {
            // FFFFh and its own identifier mean this controller.
            let asked = ControllerId(c.cntid);
            if c.cntid != nvme::CNTLID_DYNAMIC && !core.seen_controllers(id).any(|seen| seen == asked) {
                return Err(Failure::field(42));
            }
            let mut sets = IoCommandSets::default();
            let zoned = u64::from(zones::are_supported(core));
            sets.iocsc[0].set(1 << Csi::NVM.0 | zoned << Csi::ZONED.0);
            page(&sets)
        }
        _ => Err(Failure::field(40)),
    }
}

/// The namespace that the command names, or `None` if that identifier is valid but inactive here: the
/// structure is all zeros then (Base 5.1.13.2).
fn named<'a>(
    core: &'a Core,
    controller: &Controller,
    c: &Identify,
) -> Result<Option<&'a Namespace>, Failure> {
    if !core.namespaces.is_valid(c.nsid) {
        return Err(core.no_namespace(c.nsid));
    }
    let allocated =
        [Cns::ALLOCATED_NAMESPACE, Cns::IOCS_ALLOCATED_NAMESPACE, Cns::INDEPENDENT_ALLOCATED_NAMESPACE];
    let visible = allocated.contains(&c.cns) && controller.sees(c.nsid) || controller.is_attached(c.nsid);
    Ok(core.namespaces.get(c.nsid).filter(|_| visible))
}

fn namespace_list(core: &Core, above: u32, include: impl Fn(u32, &Namespace) -> bool) -> AdminResult {
    if above >= NSID_ALL - 1 {
        return Err(Failure { location: 4, ..Status::INVALID_NAMESPACE.into() });
    }
    let listed = core.namespaces.iter().filter(|(nsid, ns)| *nsid > above && include(*nsid, ns));
    page(&NamespaceList::new(listed.map(|(nsid, _)| nsid)))
}

/// Identify Controller, as this controller shows it.
pub(crate) fn controller(core: &Core, inputs: &IdentifyInputs, id: ControllerId) -> IdentifyController {
    let config = &core.config;
    let (mut total, mut unallocated, mut largest) = (0u128, 0u128, 0u128);
    for (_, info) in core.sets() {
        total += u128::from(info.capacity_bytes);
        unallocated += u128::from(info.unallocated_bytes);
        largest = largest.max(info.capacity_bytes.into());
    }
    let sets = core.ftl.set_count() as u16;
    let atomic = U16::new((config.ftl.atomic_pages - 1).min(0xFFFF) as u16);
    // What the host may not do is not offered to it.
    let role = core.controllers.get(id).map_or(&Role::Administrator, |c| &c.role);
    let has = |opcode| role.has_command(opcode);
    let mut c = IdentifyController {
        sn: ascii(&config.identity.serial),
        mn: ascii(&config.identity.model),
        fr: inputs.firmware_revision,
        rab: 6,
        cmic: Cmic::new().with_mports(true).with_mctrs(true).with_anars(true),
        mdts: config.mdts(),
        cntlid: U16::new(id.0),
        ver: U32::new(Version::V2_1.0),
        oaes: OPTIONAL_EVENTS.with_pleln(inputs.windows).with_zdcn(zones::are_supported(core)),
        ctratt: Ctratt::new()
            .with_hids(true)
            .with_nsets(true)
            .with_egs(true)
            .with_tbkas(true)
            .with_ng(true)
            .with_ulist(true)
            .with_elbas(core.config.lba_formats.iter().any(|f| f.extension() != 0))
            .with_plm(inputs.windows)
            // Without a Host Identifier there are no reservations.
            .with_rhii(true)
            .with_fdps(inputs.placement),
        cntrltype: ControllerType::IO,
        oacs: Oacs::new()
            .with_dirs(inputs.placement)
            .with_fnvms(has(AdminOpcode::FORMAT_NVM))
            .with_fwds(has(AdminOpcode::FIRMWARE_COMMIT))
            .with_nms(has(AdminOpcode::NAMESPACE_MANAGEMENT))
            .with_dsts(has(AdminOpcode::DEVICE_SELF_TEST))
            .with_glss(true),
        acl_z: ABORT_LIMIT_Z,
        aerl_z: crate::core::ASYNC_EVENT_LIMIT as u8 - 1,
        frmw: Frmw::new().with_ffsro(true).with_nofs(firmware::SLOTS).with_fawr(true),
        lpa: Lpa::new()
            .with_smarts(true)
            .with_cses(true)
            .with_lpeds(true)
            .with_ts(role.reads(LogId::TELEMETRY_HOST))
            .with_pes(role.reads(LogId::PERSISTENT_EVENT))
            .with_mlps(true),
        elpe_z: ERROR_ENTRIES as u8 - 1,
        // Vendor specific admin commands have the standard format.
        avscc: 1,
        wctemp: U16::new(WARNING_TEMPERATURE),
        cctemp: U16::new(CRITICAL_TEMPERATURE),
        tnvmcap: U128::new(total),
        unvmcap: U128::new(unallocated),
        mtfa: U16::new(1),
        mptfawr: U16::new(1),
        edstt: U16::new(inputs.self_test_minutes),
        // One operation at a time in the subsystem.
        dsto: 1,
        fwug: firmware::GRANULARITY_UNITS,
        kas: U16::new(KEEP_ALIVE_GRANULARITY),
        anatt: ANA_TRANSITION_SECONDS,
        anacap: Anacap::new()
            .with_optimized(true)
            .with_non_optimized(true)
            .with_inaccessible(true)
            .with_persistent_loss(true)
            .with_change(true)
            // Not that identifiers never change, though they do not: hosts then leave the namespaces out of the log,
            // and nvme-cli's `ana-log` shows zeros in their place.
            .with_nonzero_anagrpid(true),
        anagrpmax: U32::new(ANA_GROUP),
        nanagrpid: U32::new(1),
        pels: U32::new(LOG_UNITS),
        // What is sanitized is deallocated always.
        sanicap: if has(AdminOpcode::SANITIZE) {
            Sanicap::new()
                .with_ces(inputs.crypto_erase)
                .with_bes(true)
                .with_ows(true)
                .with_ndi(true)
                .with_nodmmas(1)
        } else {
            Sanicap::new()
        },
        nsetidmax: U16::new(sets),
        endgidmax: U16::new(sets),
        megcap: U128::new(largest),
        sqes: EntrySize::new().with_min(6).with_max(6),
        cqes: EntrySize::new().with_min(4).with_max(4),
        maxcmd: U16::new(MAX_QUEUE_ENTRIES as u16),
        nn: U32::new(config.max_namespaces),
        oncs: Oncs::new()
            .with_nvmcmps(true)
            .with_nvmwusv(true)
            .with_nvmdsmsv(true)
            .with_nvmwzsv(true)
            .with_ssfs(true)
            .with_reservs(true)
            .with_tss(role.is_administrator())
            .with_nvmvfys(true)
            .with_nvmcpys(true),
        // Compare and Write.
        fuses: U16::new(1),
        fna: Fna::new().with_cryes(core.drive_key.keyed),
        vwc: Vwc::new().with_present(config.has_volatile_write_cache()).with_flush_broadcast(3),
        awun_z: atomic,
        awupf_z: atomic,
        acwu_z: atomic,
        cdfs: U16::new(COPY_FORMATS),
        icsvscc: 1,
        sgls: Sgls::new().with_sgls(1).with_offset(true).with_transport(true),
        mnan: U32::new(config.max_namespaces),
        subnqn: config.identity.nqn.to_field(),
        ioccsz: U32::new((64 + config.in_capsule_bytes) / 16),
        iorcsz: U32::new(1),
        msdbd: 1,
        ofcs: U16::new(1),
        ..IdentifyController::default()
    };
    // The one power state: 25 W.
    c.psd[0].mp.set(2500);
    c
}

/// What all namespaces have in common for a controller of this transport.
fn common_namespace(core: &Core, transport: TransportModel) -> IdentifyNamespace {
    let has = |what: fn(&crate::LbaFormat) -> bool| core.config.lba_formats.iter().any(what);
    let protects = has(crate::LbaFormat::can_protect);
    let mut n = IdentifyNamespace {
        nsfeat: Nsfeat::new().with_nsabp(true).with_uidreuse(true).with_optperf(1),
        nlbaf_z: (core.config.lba_formats.len() - 1) as u8,
        // Bit 1: in a separate buffer. Messages have one buffer only.
        mc: match transport {
            _ if !has(|f| f.metadata > 0) => 0,
            TransportModel::Message => 0b01,
            TransportModel::Memory => 0b11,
        },
        dpc: Dpc::new()
            .with_pit1s(protects)
            .with_pit2s(protects)
            .with_pit3s(protects)
            .with_piifb(protects)
            .with_piilb(protects),
        nmic: Nmic::new().with_shrns(true),
        rescap: RESCAP,
        dlfeat: Dlfeat::new().with_drb(1).with_wzds(true),
        ..IdentifyNamespace::default()
    };
    for (format, ours) in n.lbaf.iter_mut().zip(&core.config.lba_formats) {
        *format = LbaFormat::new(ours.shift(), ours.metadata.into());
        // Less than a page must be read before it is written; protection information takes a little time.
        format.rp = if ours.data < PAGE { 2 } else { u8::from(ours.metadata > 0) };
    }
    n
}

/// Identify Namespace for a controller of this transport.
pub(crate) fn namespace(core: &Core, ns: &Namespace, transport: TransportModel) -> IdentifyNamespace {
    let blocks = U64::new(ns.blocks());
    let in_blocks = |bytes: u64| U16::new(((bytes >> ns.shift) - 1).min(0xFFFF) as u16);
    let page = in_blocks(PAGE.into());
    // A zone ends with the last block that is durable, without regard to atomic units.
    let atomic_bytes = if ns.zones.is_some() { PAGE.into() } else { core.config.atomic_bytes() };
    let atomic = in_blocks(atomic_bytes);
    // A disk whose writes nothing saves tears between sectors. Less than a block cannot be said.
    let sector = core.set_properties(ns.set).sector_bytes;
    let atomic_over_power = match sector {
        0 => atomic,
        _ if core.config.ftl.protected => atomic,
        _ => in_blocks(u64::from(sector).max(1 << ns.shift)),
    };
    let set = U16::new(u16::from(ns.set.0) + 1);
    let used = core.ftl.allocated_bytes(ns.volume) >> ns.shift;
    let mut identified = IdentifyNamespace {
        nsze: blocks,
        ncap: ns
            .zones
            .map_or(blocks, |zones| U64::new(u64::from(zones.zones) * (zones.capacity >> ns.shift))),
        nuse: U64::new(used.min(ns.blocks())),
        flbas: Flbas::from_format_index(ns.format).with_mtelba(ns.layout.metadata > 0 && !ns.layout.separate),
        dps: Dps::new().with_pit(ns.protection_type).with_pip(ns.protection_first),
        nmic: Nmic::new().with_shrns(ns.shared),
        // Atomic within units that are aligned to their size, for power failures and otherwise.
        nawun_z: atomic,
        nawupf_z: atomic_over_power,
        nacwu_z: atomic,
        nabsn_z: atomic,
        nabspf_z: atomic_over_power,
        nvmcap: U128::new(core.ftl.reserved_bytes(ns.volume).into()),
        npwg_z: page,
        npwa_z: page,
        npdg_z: page,
        npda_z: page,
        nows_z: page,
        mssrl: U16::new((COPY_BYTES >> ns.shift).min(0xFFFF) as u16),
        mcl: U32::new(COPY_BYTES >> ns.shift),
        msrc_z: COPY_RANGES_Z,
        anagrpid: U32::new(ANA_GROUP),
        nsattr: u8::from(core.is_read_only(ns.set)),
        nvmsetid: set,
        endgid: set,
        vs: encryption(ns),
        nguid: ns.nguid,
        ..common_namespace(core, transport)
    };
    identified.set_generation(ns.generation);
    identified
}

/// What the NVM Command Set adds (NVM 4.1.5.3): protection information. Without a namespace, what all have in common.
fn nvm_namespace(core: &Core, ns: Option<&Namespace>) -> NvmNamespace {
    let formats = &core.config.lba_formats;
    let tagged = |f: &crate::LbaFormat| f.storage_bits > 0;
    let mut n = NvmNamespace {
        lbstm: U64::new(ns.and_then(|ns| Some(ns.layout.protection?.storage_mask)).unwrap_or(0)),
        // Bit 0: storage tags with guards of 16 bits; bit 2: storage tags are checked by reads, too; bit 3: formats with
        // qualified guards.
        pic: u8::from(formats.iter().any(|f| tagged(f) && f.guard == Guard::Crc16))
            | u8::from(formats.iter().any(tagged)) << 2
            | u8::from(formats.iter().any(|f| f.qualified)) << 3,
        ..NvmNamespace::default()
    };
    for (elbaf, format) in n.elbaf.iter_mut().zip(formats) {
        elbaf.set(format.extension());
    }
    n
}

fn independent_namespace(core: &Core, ns: &Namespace) -> IndependentNamespace {
    let set = U16::new(u16::from(ns.set.0) + 1);
    let info = core.ftl.set_info(ns.set);
    // Bit 3: identifiers are not reused; bit 4: the medium turns; bit 5: what is written in place needs no volatile write cache.
    let uncached = info.is_some_and(|info| matches!(info.media, MediaKind::Dram | MediaKind::Pmem));
    let rotational = info.is_some_and(|info| info.media == MediaKind::Disk);
    IndependentNamespace {
        nsfeat: 1 << 3 | u8::from(rotational) << 4 | u8::from(uncached) << 5,
        nmic: Nmic::new().with_shrns(ns.shared),
        rescap: RESCAP,
        anagrpid: U32::new(ANA_GROUP),
        nsattr: u8::from(core.is_read_only(ns.set)),
        nvmsetid: set,
        endgid: set,
        nstat: u8::from(ns.admission == Admission::Open),
        ..IndependentNamespace::default()
    }
}

fn nvm_sets(core: &Core, from: u16) -> NvmSetList {
    let entries = core.sets().filter_map(|(id, info)| {
        let number = u16::from(id.0) + 1;
        (number >= from).then(|| NvmSetAttributes {
            nvmsetid: U16::new(number),
            endgid: U16::new(number),
            ows: U32::new(PAGE),
            tnvmsetcap: U128::new(info.capacity_bytes.into()),
            unvmsetcap: U128::new(info.unallocated_bytes.into()),
            ..NvmSetAttributes::default()
        })
    });
    NvmSetList::new(entries)
}

/// The vendor specific bytes of Identify Namespace: how the namespace is stored.
fn encryption(ns: &Namespace) -> [u8; 3712] {
    let mut vs = [0; 3712];
    vs[0] = match (&ns.key, ns.locked) {
        (None, _) => 0,
        (Some(_), false) => 1,
        (Some(_), true) => 2,
    };
    vs
}
