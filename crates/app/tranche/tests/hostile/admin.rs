//! Attacks by commands of the admin queue.

use crate::attack::Attack;
use crate::drive::{
    DETACHED_NSID, FOREIGN_NSIDS, FORMATTED_NSID, FULL_NSID, OWN_NSIDS, PLACED_NSID, SHARED_NSID,
    VICTIM_NSID, World, ZONED_NSID, nqn,
};
use crate::victim::Victim;
use crate::wire::{Association, Stop, Tally, call, flood, persist, succeeds};
use host::{Data, Identity};
use nvme::admin::{
    AdminCommand, CommitAction, DeviceSelfTest, FaultInjection, FaultKind, FirmwareCommit,
    FirmwareImageDownload, FormatNvm, GetLbaStatus, LbaStatusAction, NamespaceAttachment,
    NamespaceAttachmentSelect, NamespaceManagement, NamespaceManagementSelect, PowerCut, Sanitize,
    SanitizeAction, SecureErase, SetFeatures,
};
use nvme::directive::{Directive, DirectiveType, EnableDirective, operation};
use nvme::feature::{FeatureId, Select};
use nvme::identify::{Cns, ControllerList};
use nvme::property::{Cc, NSSR_NVME, PropertyOffset, Shn};
use nvme::quota::Quota;
use nvme::zerocopy::IntoBytes;
use nvme::{Command, Csi, NSID_ALL, Nsid};

pub const ATTACKS: &[Attack] = &[
    Attack::new("lba-status-scan", |world, stop| lba_status(world, stop, LbaStatusAction::SCAN)),
    Attack::new("lba-status-tracked", |world, stop| lba_status(world, stop, LbaStatusAction::TRACKED)),
    Attack::new("lba-status-allocated", |world, stop| lba_status(world, stop, LbaStatusAction::ALLOCATED)),
    Attack::new("format-empty", |world, stop| format_own(world, stop, &[FORMATTED_NSID])),
    Attack::new("format-written", format_written),
    Attack::new("format-zoned", |world, stop| format_own(world, stop, &[ZONED_NSID])),
    Attack::new("format-placed", |world, stop| format_own(world, stop, &[PLACED_NSID])),
    Attack::new("format-many-hosts", format_many),
    Attack::new("format-foreign", format_foreign),
    Attack::new("sanitize", sanitize),
    Attack::new("namespace-management", namespace_management),
    Attack::new("administrators-only", administrators_only),
    Attack::new("firmware-staged", resets).prepared_by(stage_firmware).checked_by(unstage_firmware),
    Attack::new("resets", resets),
    Attack::new("shutdowns", shutdowns),
    Attack::new("subsystem-reset", subsystem_reset),
    Attack::new("quota-save", quota_save),
    Attack::new("quota-beyond", quota_beyond),
    Attack::new("features", features),
    Attack::new("identify", identify),
    Attack::new("events-and-aborts", events_and_aborts),
    Attack::new("streams-all", streams_all).checked_by(a_stream_is_left),
];

/// Connections of one attack that floods admin queues.
const CONNECTIONS: usize = 4;

/// Floods several admin queues.
pub fn flood_admin(
    world: &World,
    stop: &Stop,
    depth: usize,
    command: impl Fn(u64) -> (Command, Data) + Sync,
) -> Tally {
    std::thread::scope(|scope| {
        let command = &command;
        let threads: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                scope.spawn(move || {
                    persist(world, stop, |tenant| {
                        Ok(flood(&mut tenant.admin, depth, (0..).map(command), stop))
                    })
                })
            })
            .collect();
        threads.into_iter().fold(Tally::default(), |mut all, thread| {
            all += thread.join().unwrap();
            all
        })
    })
}

/// The first error of a tally that must have no success.
fn all_refused(world: &World, tally: Tally, what: &str) -> Tally {
    if tally.done > 0 {
        world.violation(format!("{what}: {} commands were carried out", tally.done));
    }
    tally
}

fn lba_status(world: &World, stop: &Stop, atype: LbaStatusAction) -> Tally {
    flood_admin(world, stop, 31, move |_| {
        let get = GetLbaStatus { nsid: FULL_NSID, slba: 0, dwords: 1024, range: 0, atype };
        (get.into(), Data::room(4096))
    })
}

fn variant(nsid: Nsid, number: u64) -> FormatNvm {
    let ses = [SecureErase::NONE, SecureErase::USER_DATA, SecureErase::CRYPTOGRAPHIC][(number % 3) as usize];
    // Format 2 has metadata, and may have protection information.
    let lbaf = (number / 3 % 3) as u8;
    let protected = lbaf == 2 && number / 9 % 2 == 1;
    FormatNvm { nsid, lbaf, mset: lbaf == 2, pi: u8::from(protected), pil: false, ses }
}

/// Formats namespaces in every way, one command after the other.
fn format_own(world: &World, stop: &Stop, nsids: &[Nsid]) -> Tally {
    persist(world, stop, |tenant| {
        let commands = (0..).map(|n| (variant(nsids[n as usize % nsids.len()], n).into(), Data::None));
        Ok(flood(&mut tenant.admin, 8, commands, stop))
    })
}

/// Writes what its quota allows, and formats it away.
fn format_written(world: &World, stop: &Stop) -> Tally {
    persist(world, stop, |tenant| {
        let plain = FormatNvm { ses: SecureErase::USER_DATA, ..variant(FORMATTED_NSID, 0) };
        let mut tally = Tally::default();
        let mut queue = tenant.queue(world, 32)?;
        while !stop.is_set() {
            let writes =
                (0..8).map(|n| (Command::write(FORMATTED_NSID, n * 512, 1), Data::Out(vec![3; 4096])));
            tally += flood(&mut queue, 8, writes, stop);
            tally.count(succeeds(&mut tenant.admin, plain, Data::None, stop));
        }
        Ok(tally)
    })
}

/// Formats of everything that an accomplice has, from several associations at once.
fn format_many(world: &World, stop: &Stop) -> Tally {
    flood_admin(world, stop, 31, |n| {
        (variant([FORMATTED_NSID, ZONED_NSID, PLACED_NSID][n as usize % 3], n / 3).into(), Data::None)
    })
}

/// Formats of what is not its own, or was detached from it.
fn format_foreign(world: &World, stop: &Stop) -> Tally {
    let tally = persist(world, stop, |tenant| {
        let mut tally = Tally::default();
        for (n, nsid) in (0..).zip(FOREIGN_NSIDS.iter().cycle()) {
            if stop.is_set() {
                break;
            }
            let formatted = succeeds(&mut tenant.admin, variant(*nsid, n / 5 % 3), Data::None, stop);
            if formatted {
                let which = if *nsid == DETACHED_NSID { "detached" } else { "foreign" };
                world.violation(format!("the {which} namespace {nsid} was formatted"));
            }
            tally.count(formatted);
        }
        Ok(tally)
    });
    // Reserved by the victim, to the exclusion of all others.
    let mut tenant = world.hostile();
    if succeeds(&mut tenant.admin, variant(SHARED_NSID, 0), Data::None, &Stop::default()) {
        world.violation("the shared namespace was formatted in spite of its reservation");
    }
    tally
}

fn sanitize(world: &World, stop: &Stop) -> Tally {
    const ACTIONS: [SanitizeAction; 5] = [
        SanitizeAction::EXIT_FAILURE_MODE,
        SanitizeAction::BLOCK_ERASE,
        SanitizeAction::OVERWRITE,
        SanitizeAction::CRYPTO_ERASE,
        SanitizeAction::EXIT_MEDIA_VERIFICATION,
    ];
    let tally = flood_admin(world, stop, 31, |n| {
        let sanact = ACTIONS[n as usize % ACTIONS.len()];
        (Sanitize { sanact, ause: n % 2 == 0, ..Sanitize::default() }.into(), Data::None)
    });
    all_refused(world, tally, "Sanitize")
}

fn namespace_management(world: &World, stop: &Stop) -> Tally {
    let create = host::namespace_create(256, 0, 1);
    let controllers = ControllerList::new([0, 1, 2, 3]);
    let tally = flood_admin(world, stop, 31, move |n| {
        let nsid = [VICTIM_NSID, FULL_NSID, NSID_ALL, DETACHED_NSID][(n / 4 % 4) as usize];
        let (csi, list) = (Csi::NVM, Data::Out(controllers.as_bytes().to_vec()));
        match n % 4 {
            0 => {
                let sel = NamespaceManagementSelect::CREATE;
                (NamespaceManagement { nsid: 0, sel, csi }.into(), Data::Out(create.as_bytes().to_vec()))
            }
            1 => {
                (NamespaceManagement { nsid, sel: NamespaceManagementSelect::DELETE, csi }.into(), Data::None)
            }
            2 => (NamespaceAttachment { nsid, sel: NamespaceAttachmentSelect::ATTACH }.into(), list),
            _ => (NamespaceAttachment { nsid, sel: NamespaceAttachmentSelect::DETACH }.into(), list),
        }
    });
    all_refused(world, tally, "namespace management")
}

/// What else only administrators have.
fn administrators_only(world: &World, stop: &Stop) -> Tally {
    let image = device::firmware_image("HOSTILE", &[7; 256]).unwrap();
    let tally = flood_admin(world, stop, 31, move |n| match n % 6 {
        0 => {
            let download = FirmwareImageDownload { dwords: image.len() as u64 / 4, offset: 0 };
            (AdminCommand::FirmwareImageDownload(download).into(), Data::Out(image.clone()))
        }
        1 => {
            let ca = CommitAction((n / 6 % 4) as u8);
            (AdminCommand::FirmwareCommit(FirmwareCommit { fs: 2, ca, bpid: false }).into(), Data::None)
        }
        2 => (AdminCommand::DeviceSelfTest(DeviceSelfTest { nsid: NSID_ALL, stc: 2 }).into(), Data::None),
        3 => (PowerCut { off_ms: 1, ..PowerCut::default() }.into(), Data::None),
        4 => {
            let kind =
                [FaultKind::SLOW, FaultKind::UNCORRECTABLE, FaultKind::PORT_DOWN][(n / 6 % 3) as usize];
            let fault =
                FaultInjection { nsid: 0, kind, nvmsetid: 1, count: 0, one_in: 0, param: 1000, lba: None };
            (fault.into(), Data::None)
        }
        _ => {
            let fid = [FeatureId::TIMESTAMP, FeatureId::FDP, FeatureId::PREDICTABLE_LATENCY_CONFIG];
            let fid = fid[(n / 6 % 3) as usize];
            let set = SetFeatures { nsid: 0, fid, sv: true, uidx: 0, cdw11: 1, cdw12: 1, cdw13: 0, cdw15: 0 };
            (set.into(), Data::Out(vec![0; nvme::feature::set_data_bytes(fid, 1) as usize]))
        }
    });
    all_refused(world, tally, "what only administrators have")
}

fn revision(world: &World) -> Vec<u8> {
    world.admin().identify_controller().unwrap().fr.to_vec()
}

/// The administrator wants other firmware to run, from a reset of its own choice.
fn stage_firmware(world: &World, _: &mut Victim) {
    let image = device::firmware_image("STAGED", &[1; 256]).unwrap();
    let mut admin = world.admin();
    let download = FirmwareImageDownload { dwords: image.len() as u64 / 4, offset: 0 };
    let commit = FirmwareCommit { fs: 2, ca: CommitAction::REPLACE_AND_ACTIVATE, bpid: false };
    for (command, data) in [
        (AdminCommand::FirmwareImageDownload(download), Data::Out(image)),
        (AdminCommand::FirmwareCommit(commit), Data::None),
    ] {
        let done = admin.call(command.into(), data).unwrap().completion.status();
        // The commit succeeds with a status that says that a reset is needed.
        assert!(done.is_success() || done.sct() == nvme::status::Sct::COMMAND_SPECIFIC, "{done}");
    }
}

fn unstage_firmware(world: &World, _: &mut Victim) {
    if revision(world).starts_with(b"STAGED") {
        world.violation("another host's reset activated the firmware that the administrator had staged");
    }
    let commit = FirmwareCommit { fs: 1, ca: CommitAction::ACTIVATE_IMMEDIATELY, bpid: false };
    world.admin().call(AdminCommand::FirmwareCommit(commit).into(), Data::None).unwrap();
}

/// Resets of its own controllers.
fn resets(world: &World, stop: &Stop) -> Tally {
    persist(world, stop, |tenant| {
        let mut tally = Tally::default();
        while !stop.is_set() {
            tally.count(tenant.set_property(PropertyOffset::CC, 0).is_ok());
            tally.count(tenant.enable().is_ok());
        }
        Ok(tally)
    })
}

/// Shutdowns of its own controllers, in order and abrupt.
fn shutdowns(world: &World, stop: &Stop) -> Tally {
    let mut number = 0;
    persist(world, stop, |tenant| {
        let cap = nvme::property::Cap::from_bits(nvme::U64::new(tenant.property(PropertyOffset::CAP, true)?));
        number += 1;
        let shn = if number % 2 == 0 { Shn::NORMAL } else { Shn::ABRUPT };
        let value = Cc::enabled(cap).with_shn(shn).into_bits().get();
        let mut tally = Tally::default();
        tally.count(tenant.set_property(PropertyOffset::CC, value).is_ok());
        Ok(tally)
    })
}

/// Resets and shutdowns of the whole subsystem, which are not its own to order.
fn subsystem_reset(world: &World, stop: &Stop) -> Tally {
    persist(world, stop, |tenant| {
        let mut tally = Tally::default();
        for offset in [PropertyOffset::NSSR, PropertyOffset::NSSD] {
            tally.count(tenant.set_property(offset, NSSR_NVME).is_ok());
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
        Ok(tally)
    })
}

fn set_quota(nsid: Nsid, sv: bool) -> Command {
    SetFeatures { nsid, fid: FeatureId::QUOTA, sv, uidx: 0, cdw11: 0, cdw12: 0, cdw13: 0, cdw15: 0 }.into()
}

/// Saves its quota, as it is, again and again.
fn quota_save(world: &World, stop: &Stop) -> Tally {
    let quota = world.admin().quota(FULL_NSID, Select::CURRENT).unwrap();
    flood_admin(world, stop, 31, move |_| (set_quota(FULL_NSID, true), Data::Out(quota.as_bytes().to_vec())))
}

/// Quotas beyond what it was granted, and those of others.
fn quota_beyond(world: &World, stop: &Stop) -> Tally {
    let granted = world.admin().quota(FULL_NSID, Select::CURRENT).unwrap();
    let mut doubled = granted;
    doubled.read_bandwidth.set(granted.read_bandwidth.get() * 2);
    let heavy = Quota { weight: nvme::U16::new(1000), ..granted };
    let bursting = Quota { burst_us: nvme::U32::new(10_000_000), ..granted };
    let quotas = [doubled, heavy, bursting, Quota::unlimited()];
    let tally = flood_admin(world, stop, 31, move |n| {
        let quota = quotas[(n % 4) as usize];
        let targets = [FULL_NSID, NSID_ALL, VICTIM_NSID, DETACHED_NSID];
        (set_quota(targets[(n / 4 % 4) as usize], n / 16 % 2 == 0), Data::Out(quota.as_bytes().to_vec()))
    });
    all_refused(world, tally, "a quota beyond the own")
}

/// Features of its own controller, and tries to save them for all.
fn features(world: &World, stop: &Stop) -> Tally {
    const FEATURES: [FeatureId; 8] = [
        FeatureId::ARBITRATION,
        FeatureId::POWER_MANAGEMENT,
        FeatureId::TEMPERATURE_THRESHOLD,
        FeatureId::ERROR_RECOVERY,
        FeatureId::WRITE_ATOMICITY,
        FeatureId::ASYNC_EVENT_CONFIGURATION,
        FeatureId::LBA_STATUS_ATTRIBUTES,
        FeatureId::ENDURANCE_GROUP_EVENT_CONFIGURATION,
    ];
    flood_admin(world, stop, 31, |n| {
        let fid = FEATURES[n as usize % FEATURES.len()];
        let cdw11 = (n / 8 % 4) as u32;
        let set = SetFeatures { nsid: 0, fid, sv: n % 3 == 0, uidx: 0, cdw11, cdw12: 0, cdw13: 0, cdw15: 0 };
        (set.into(), Data::None)
    })
}

fn identify(world: &World, stop: &Stop) -> Tally {
    flood_admin(world, stop, 31, |n| {
        let nsid = (n / 32 % 12) as Nsid;
        (Command::identify(Cns((n % 32) as u8), nsid), Data::room(4096))
    })
}

/// More event requests than a controller holds, and aborts of them.
fn events_and_aborts(world: &World, stop: &Stop) -> Tally {
    flood_admin(world, stop, 31, |n| match n % 3 {
        0 => (AdminCommand::AsyncEventRequest.into(), Data::None),
        1 => (AdminCommand::KeepAlive.into(), Data::None),
        _ => (AdminCommand::Abort(nvme::admin::Abort { sqid: 0, cid: n as u16 }).into(), Data::None),
    })
}

fn streams(nsid: Nsid, asked: u32) -> [(Command, Data); 2] {
    let enable = EnableDirective::new().with_endir(true).with_tdtype(DirectiveType::STREAMS);
    let directive = |dtype, doper, cdw12| Directive { nsid, dwords: 1, doper, dtype, dspec: 0, cdw12 };
    let send = directive(DirectiveType::IDENTIFY, operation::ENABLE, enable.into_bits().get());
    let allocate = directive(DirectiveType::STREAMS, operation::ALLOCATE_RESOURCES, asked);
    [
        (AdminCommand::DirectiveSend(send).into(), Data::None),
        (AdminCommand::DirectiveReceive(allocate).into(), Data::None),
    ]
}

/// Allocates all streams that there are, by several controllers, and keeps them.
fn streams_all(world: &World, stop: &Stop) -> Tally {
    let mut tally = Tally::default();
    let mut held = Vec::new();
    for number in 0..8 {
        let Ok(mut tenant) = Association::open(world, &Identity::new(nqn("hostile")), world.source(1), 0)
        else {
            continue;
        };
        let nsid = OWN_NSIDS[number % 2];
        for (command, data) in streams(nsid, u32::from(u16::MAX)) {
            tally.count(succeeds(&mut tenant.admin, command, data, stop));
        }
        held.push(tenant);
    }
    stop.wait();
    // While they are held.
    let mut victim = world.connect_far(&World::victim_identity()).expect("the victim connects");
    let allocated = streams(VICTIM_NSID, 1).map(|(command, data)| victim.call(command, data));
    if !allocated.iter().all(|done| done.as_ref().is_ok_and(|done| done.completion.status().is_success())) {
        world.violation("the hostile tenant has all streams, and the victim gets none");
    }
    tally
}

/// Nothing of it is left when the hostile tenant has gone.
fn a_stream_is_left(world: &World, _: &mut Victim) {
    let mut victim = world.connect_far(&World::victim_identity()).expect("the victim connects");
    for (command, data) in streams(VICTIM_NSID, 1) {
        let status = victim.call(command, data).unwrap().completion.status();
        if !status.is_success() {
            world.violation(format!("no stream is left after the hostile tenant has gone: {status}"));
        }
    }
}

/// A Get Log Page or another command of the hostile tenant's that may fail.
pub fn answer(tenant: &mut Association, command: Command, bytes: usize) -> Option<Vec<u8>> {
    let done = call(&mut tenant.admin, command, Data::room(bytes), &Stop::default()).ok()?;
    done.completion.status().is_success().then(|| done.data.into_buffer())
}
