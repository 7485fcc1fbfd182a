//! Admin commands are metered like I/O: what one of them makes the drive do in one step is bounded, and its namespace pays for it.

use crate::common::load::{limit, quota, set};
use crate::common::zones::{CAPACITY, SIZE, create, new_namespace, receive, with_changes, write};
use crate::common::{Bench, Memory, TIMING_EDIT, bytes, initial, nqn, pattern, small};
use device::{ControllerId, Drive, Host, Origin, Role};
use ftl::ZonesConfig;
use media::Nanos;
use nvme::admin::{
    FaultInjection, FaultKind, FormatNvm, GetLbaStatus, LbaStatusAction, NamespaceManagement,
    NamespaceManagementSelect, PowerCut, Sanitize, SanitizeAction,
};
use nvme::command_table::{self, Audience};
use nvme::identify::NamespaceCreate;
use nvme::io::{DsmRange, IoManagementSend};
use nvme::log::{LogId, SanitizeOperationStatus, SanitizeStatus};
use nvme::quota::QuotaKind;
use nvme::zone::{ZoneManagementReceive, ZoneManagementSend, ZoneReport, ZoneReportFilter, ZoneSendAction};
use nvme::{AdminOpcode, Command, Csi, IoCommand, NSID_ALL, Status, U64};

/// Pages of the tenant's namespace.
const PAGES: u64 = 8192;

/// Namespace 1 is full, and belongs to the tenant; 2 is a neighbour's, on the same set.
fn drive(changes: &[(&str, &str)]) -> (Bench, ControllerId) {
    drive_of(PAGES, changes)
}

/// The same with a namespace 1 of so many pages.
fn drive_of(pages: u64, changes: &[(&str, &str)]) -> (Bench, ControllerId) {
    drive_with(pages, changes, false)
}

/// The same; `keyed` gives its namespaces keys.
fn drive_with(pages: u64, changes: &[(&str, &str)], keyed: bool) -> (Bench, ControllerId) {
    let mut config = small(changes);
    for size in [pages * 4096, 4 << 20] {
        config.namespaces.push(initial(1, size));
    }
    let mut memory = Memory::default();
    memory.drive_key = keyed.then_some([1; 16]);
    let mut drive = Drive::new(config).unwrap();
    drive.encrypt(&mut memory).unwrap();
    let mut b = Bench::around(drive, memory);
    for slba in (0..pages).step_by(256) {
        b.write(1, slba, 256, &pattern(slba as u32, 1 << 20));
    }
    b.write(2, 0, 1, &pattern(1, 4096));
    b.run_until(Nanos::MAX);
    let role = Role::Tenant(vec![1]);
    let host = Host { role, ..Host::administrator(nqn("tenant"), [9; 16], Origin::Network) };
    let tenant = b.connect_host(host);
    (b, tenant)
}

fn scan(atype: LbaStatusAction) -> Command {
    GetLbaStatus { nsid: 1, slba: 0, dwords: 1024, range: 0, atype }.into()
}

fn format(nsid: u32) -> Command {
    FormatNvm { nsid, lbaf: 0, mset: false, pi: 0, pil: false, ses: nvme::admin::SecureErase::NONE }.into()
}

/// Runs a command to its end. Returns how often the drive was polled until then, with its status.
fn steps(b: &mut Bench, id: ControllerId, qid: u16, command: &Command, data: &[u8]) -> (u32, Status) {
    let io = b.submit(id, qid, command, data);
    let mut polls = 0;
    while !b.done.contains_key(&io) {
        let at = b.drive.next_event().expect("the command is under way");
        b.now = b.now.max(at);
        let mut out = Vec::new();
        b.drive.poll(b.now, &mut b.memory, &mut out);
        b.deliver(out);
        polls += 1;
    }
    (polls, b.wait(io).0.status())
}

fn status(b: &mut Bench, id: ControllerId, qid: u16, command: &Command) -> Status {
    b.on(id, qid, command, &[]).0.status()
}

#[test]
fn a_neighbour_reads_between_the_steps_of_a_scan() {
    let (mut b, tenant) = drive(&[]);
    for atype in [LbaStatusAction::ALLOCATED, LbaStatusAction::TRACKED, LbaStatusAction::SCAN] {
        let scans: Vec<u32> = (0..4).map(|_| b.submit(tenant, 0, &scan(atype), &[])).collect();
        b.read(2, 0, 1);
        assert!(scans.iter().all(|io| !b.done.contains_key(io)), "{atype:?}");
        for io in scans {
            assert_eq!(b.wait(io).0.status(), Status::SUCCESS);
        }
        let (polls, status) = steps(&mut b, tenant, 0, &scan(atype), &[]);
        assert!(status.is_success() && u64::from(polls) >= PAGES / 256 - 1, "{atype:?}: {polls} polls");
    }
}

/// Its commands come one after the other. So a neighbour's waits for one step of them before each of its own.
#[test]
fn a_namespace_has_one_turn_in_a_round_however_many_its_commands() {
    let (mut b, tenant) = drive(&[]);
    let scans: Vec<u32> = (0..8).map(|_| b.submit(tenant, 0, &scan(LbaStatusAction::TRACKED), &[])).collect();
    let neighbours =
        GetLbaStatus { nsid: 2, slba: 0, dwords: 1024, range: 0, atype: LbaStatusAction::TRACKED };
    let id = b.controller;
    let (polls, status) = steps(&mut b, id, 0, &neighbours.into(), &[]);
    // Its 4 MiB take four steps.
    assert!(status.is_success() && polls <= 2 * 4 + 2, "{polls} polls");
    assert!(scans.iter().all(|io| !b.done.contains_key(io)));
}

/// A thread that is late catches up with what was due. Of a long command it does one step then, however late it is.
#[test]
fn late_steps_are_not_caught_up_with() {
    let (mut b, tenant) = drive(&[]);
    let io = b.submit(tenant, 0, &scan(LbaStatusAction::TRACKED), &[]);
    let mut polls = 0;
    while !b.done.contains_key(&io) {
        let mut out = Vec::new();
        b.now = Nanos(b.now.0 + 1_000_000_000);
        b.drive.poll(b.now, &mut b.memory, &mut out);
        b.deliver(out);
        polls += 1;
    }
    assert!(polls >= PAGES / 256 - 1, "{polls} polls");
}

/// What a report brings to its host counts as read.
#[test]
fn reports_count_against_quotas() {
    let mut b = zoned(16, 1, &[]);
    let id = b.controller;
    let command: Command = receive(1, 0, 16 << 10).into();
    let span = |b: &mut Bench| {
        let start = b.now;
        let all: Vec<u32> = (0..9).map(|_| b.submit(id, 1, &command, &[])).collect();
        assert!(all.into_iter().all(|io| b.wait(io).0.status().is_success()));
        b.now.since(start).0
    };
    let free = span(&mut b);
    limit(&mut b, 1, &[(QuotaKind::ReadBandwidth, 1 << 20)]);
    let held = span(&mut b);
    // The first of 64 KiB passes at once.
    assert!(held >= 500_000_000 - 1_000_000 && free < held / 100, "{free} and {held} ns");
}

#[test]
fn many_scans_get_no_more_of_the_controller_than_one() {
    let (mut b, tenant) = drive(&[]);
    let span = |b: &mut Bench, scans: u64| {
        let start = b.now;
        let all: Vec<u32> =
            (0..scans).map(|_| b.submit(tenant, 0, &scan(LbaStatusAction::TRACKED), &[])).collect();
        all.into_iter().for_each(|io| {
            b.wait(io);
        });
        b.now.since(start).0
    };
    let one = span(&mut b, 1);
    assert!(span(&mut b, 8) >= 8 * one - one / 8);
    // Nor do small ones that are sent without a pause.
    let small = GetLbaStatus { nsid: 1, slba: 0, dwords: 1024, range: 64, atype: LbaStatusAction::TRACKED };
    let start = b.now;
    for _ in 0..100 {
        assert_eq!(status(&mut b, tenant, 0, &small.into()), Status::SUCCESS);
    }
    assert!(b.now.since(start).0 >= 99 * 64 * 100, "{}", b.now.since(start).0);
}

#[test]
fn a_scan_of_the_medium_pays_for_its_reads() {
    let (mut b, tenant) = drive(&[TIMING_EDIT]);
    let scan = scan(LbaStatusAction::SCAN);
    b.admin_ok(set(1, false), &bytes(&quota(&[(QuotaKind::ReadBandwidth, 16 << 20)])));
    let start = b.now;
    assert_eq!(status(&mut b, tenant, 0, &scan), Status::SUCCESS);
    // 32 MiB at 16 MiB/s; the last step need not be waited for.
    assert!(b.now.since(start) >= Nanos(1_900_000_000), "{:?}", b.now.since(start));
    // What it read is not free for reads that follow.
    let start = b.now;
    assert_eq!(status(&mut b, tenant, 1, &Command::read(1, 0, 1)), Status::SUCCESS);
    assert!(b.now.since(start) >= Nanos(40_000_000), "{:?}", b.now.since(start));
}

#[test]
fn a_neighbour_waits_for_its_own_part_of_a_scan_only() {
    let (mut b, tenant) = drive(&[TIMING_EDIT]);
    let latency = |b: &mut Bench| {
        let mut all = Vec::new();
        for _ in 0..200 {
            let start = b.now;
            b.read(2, 0, 1);
            all.push(b.now.since(start).0);
            b.run_until(b.now + Nanos(50_000));
        }
        all.sort_unstable();
        all[198]
    };
    let alone = latency(&mut b);
    for _ in 0..32 {
        b.submit(tenant, 0, &scan(LbaStatusAction::SCAN), &[]);
    }
    let beside = latency(&mut b);
    // A sense of 60 us, and what the scan has under way on the die.
    assert!(beside < 60 * alone, "{beside} beside scans, {alone} alone");
    b.run_until(Nanos::MAX);
}

#[test]
fn a_format_is_done_in_steps_and_closes_its_namespace_only() {
    let (mut b, tenant) = drive(&[]);
    let io = b.submit(tenant, 0, &format(1), &[]);
    assert_eq!(b.read(2, 0, 1), pattern(1, 4096));
    assert!(!b.done.contains_key(&io));
    for (qid, command) in [(1, Command::read(1, 0, 1)), (0, scan(LbaStatusAction::ALLOCATED))] {
        assert!(status(&mut b, tenant, qid, &command).is(Status::FORMAT_IN_PROGRESS));
    }
    // Another one, and a delete, come after it.
    let other = b.submit(tenant, 0, &format(1), &[]);
    let sel = NamespaceManagementSelect::DELETE;
    let admin = b.controller;
    let delete = b.submit(admin, 0, &NamespaceManagement { nsid: 1, sel, csi: Csi::NVM }.into(), &[]);
    b.run_until(Nanos::MAX);
    let order: Vec<u32> = b.order.iter().copied().filter(|o| [io, other, delete].contains(o)).collect();
    assert_eq!(order, [io, other, delete]);
    assert!([io, other, delete].iter().all(|io| b.done[io].0.status().is_success()));
    assert_eq!(b.drive.geometry(1), None);
}

#[test]
fn a_format_that_power_interrupts_is_none() {
    let (mut b, tenant) = drive(&[]);
    b.submit(tenant, 0, &format(1), &[]);
    b.run_until(b.now + Nanos(50_000));
    b.cut(true);
    b.power_on();
    // Each block is as it was, or deallocated.
    for slba in (0..PAGES).step_by(256) {
        let data = b.read(1, slba, 256);
        let was = pattern(slba as u32, 1 << 20);
        let fits = |(page, old): (&[u8], &[u8])| page == old || page.iter().all(|byte| *byte == 0);
        assert!(data.chunks(4096).zip(was.chunks(4096)).all(fits), "block {slba}");
    }
    assert_eq!(b.admin(format(1), &[]).0.status(), Status::SUCCESS);
    assert_eq!(b.read(1, PAGES - 1, 1), vec![0; 4096]);
}

/// A sanitize operation of a drive whose namespaces 1 and 2 are full, as far as its first steps.
fn sanitizing(sanact: SanitizeAction, keyed: bool) -> Bench {
    let (mut b, _) = drive_with(PAGES, &[], keyed);
    b.write(2, 0, 256, &pattern(1, 1 << 20));
    b.run_until(Nanos::MAX);
    let before = allocated(&b);
    b.admin_ok(Sanitize { sanact, ..Sanitize::default() }, &[]);
    assert!(allocated(&b) + 2 * ftl::STEP_MAPPED_PAGES * 4096 > before, "one step gives up little");
    b
}

/// Bytes that the namespaces hold.
fn allocated(b: &Bench) -> u64 {
    let volumes: Vec<_> = b.drive.ftl().volumes().collect();
    volumes.iter().map(|(volume, ..)| b.drive.ftl().allocated_bytes(*volume)).sum()
}

fn sanitize_state(b: &mut Bench) -> SanitizeOperationStatus {
    let log: SanitizeStatus = b.ask(Command::get_log_page(LogId::SANITIZE_STATUS, NSID_ALL, 0, 0, 512));
    log.sstat.sos()
}

#[test]
fn a_sanitize_operation_is_done_in_steps_between_which_hosts_get_answers() {
    for (sanact, keyed) in [(SanitizeAction::BLOCK_ERASE, false), (SanitizeAction::CRYPTO_ERASE, true)] {
        let mut b = sanitizing(sanact, keyed);
        let (mut steps, mut held) = (0, allocated(&b));
        while held > 0 {
            // An answer takes no time: it does not wait for the operation.
            let before = b.now;
            assert_eq!(sanitize_state(&mut b), SanitizeOperationStatus::IN_PROGRESS);
            assert_eq!(b.now, before);
            b.now = b.drive.next_event().expect("it goes on").max(b.now);
            let mut out = Vec::new();
            b.drive.poll(b.now, &mut b.memory, &mut out);
            b.deliver(out);
            let left = allocated(&b);
            assert!(held - left <= 2 * ftl::STEP_MAPPED_PAGES * 4096, "{sanact:?}: {} bytes", held - left);
            (steps, held) = (steps + 1, left);
        }
        assert!(steps >= PAGES / ftl::STEP_MAPPED_PAGES - 1, "{sanact:?}: {steps} steps");
        b.run_until(Nanos::MAX);
        assert_eq!(sanitize_state(&mut b), SanitizeOperationStatus::COMPLETED);
        assert_eq!((b.read(1, 0, 1), b.read(2, 255, 1)), (vec![0; 4096], vec![0; 4096]));
    }
}

#[test]
fn a_sanitize_operation_that_power_interrupts_between_its_steps_goes_on() {
    for (sanact, keyed) in [(SanitizeAction::BLOCK_ERASE, false), (SanitizeAction::CRYPTO_ERASE, true)] {
        for energy in [true, false] {
            let mut b = sanitizing(sanact, keyed);
            b.run_until(b.now + Nanos(100_000));
            assert!(allocated(&b) > 0, "it is between steps");
            b.cut(energy);
            b.power_on();
            assert_eq!(sanitize_state(&mut b), SanitizeOperationStatus::IN_PROGRESS);
            let refused = b.io(Command::read(1, PAGES - 1, 1), &[]).0;
            assert!(refused.is(Status::SANITIZE_IN_PROGRESS), "{refused}");
            b.run_until(Nanos::MAX);
            assert_eq!(sanitize_state(&mut b), SanitizeOperationStatus::COMPLETED);
            assert!((0..PAGES).step_by(256).all(|slba| b.read(1, slba, 256).iter().all(|byte| *byte == 0)));
            let any = |page: &[u8]| page.iter().any(|byte| *byte != 0);
            assert!(sanact != SanitizeAction::BLOCK_ERASE || !b.memory.bytes().any(any), "contents are left");
        }
    }
}

#[test]
fn a_large_deallocation_is_done_in_steps() {
    let (mut b, tenant) = drive(&[]);
    let ranges: Vec<u8> =
        [DsmRange::new(4096, 4096), DsmRange::new(0, 4000)].iter().flat_map(bytes).collect();
    let (polls, status) = steps(&mut b, tenant, 1, &Command::deallocate(1, 2), &ranges);
    assert!(status.is_success() && polls >= 6, "{polls} polls");
    assert_eq!((b.read(1, 3999, 1), b.read(1, 4096, 1)), (vec![0; 4096], vec![0; 4096]));
    assert_ne!(b.read(1, 4000, 1), vec![0; 4096]);
    // A small one is done at once.
    let (polls, status) =
        steps(&mut b, tenant, 1, &Command::deallocate(1, 1), &bytes(&DsmRange::new(4000, 96)));
    assert_eq!((polls, status), (0, Status::SUCCESS));
}

#[test]
fn a_handle_update_pays_for_what_it_leaves_empty() {
    let placement = "spare = \"60%\"\nplacement = { handles = 4 }\n";
    let mut config = small(&[TIMING_EDIT, ("spare = \"28%\"\n", placement)]);
    config.fdp = vec![1];
    config.namespaces.push(initial(1, 4 << 20));
    let mut b = Bench::new(config);
    b.admin_ok(set(1, false), &bytes(&quota(&[(QuotaKind::WriteBandwidth, 1 << 20)])));
    b.write(1, 0, 1, &pattern(1, 4096));
    b.run_until(b.now + Nanos(1_000_000_000));
    let update = IoManagementSend { nsid: 1, mo: nvme::fdp::RUH_UPDATE, mos: 0 };
    assert_eq!(b.io(IoCommand::IoManagementSend(update), &[0; 2]).0, Status::SUCCESS);
    let start = b.now;
    b.write(1, 1, 1, &pattern(1, 4096));
    // A superblock has 1.5 MiB.
    assert!(b.now.since(start) >= Nanos(1_000_000_000), "{:?}", b.now.since(start));
}

/// What keeps an admin command of a tenant from slowing its neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bound {
    /// Tenants do not have it.
    Refused,
    /// Its work does not grow with the drive, and it records nothing: it is done at once.
    Fixed,
    /// It is done in steps, or as one step, which take turns.
    Steps,
    /// It waits for something to happen.
    Waits,
}

/// The answer for each admin command: a new command needs one.
fn bound(opcode: AdminOpcode) -> Bound {
    match opcode {
        AdminOpcode::GET_LOG_PAGE
        | AdminOpcode::IDENTIFY
        | AdminOpcode::ABORT
        | AdminOpcode::GET_FEATURES
        | AdminOpcode::KEEP_ALIVE
        | AdminOpcode::DIRECTIVE_SEND
        | AdminOpcode::DIRECTIVE_RECEIVE
        | AdminOpcode::FABRICS => Bound::Fixed,
        AdminOpcode::FORMAT_NVM | AdminOpcode::GET_LBA_STATUS | AdminOpcode::SET_FEATURES => Bound::Steps,
        AdminOpcode::ASYNC_EVENT_REQUEST => Bound::Waits,
        AdminOpcode::DELETE_IO_SQ
        | AdminOpcode::CREATE_IO_SQ
        | AdminOpcode::DELETE_IO_CQ
        | AdminOpcode::CREATE_IO_CQ
        | AdminOpcode::NAMESPACE_MANAGEMENT
        | AdminOpcode::NAMESPACE_ATTACHMENT
        | AdminOpcode::FIRMWARE_COMMIT
        | AdminOpcode::FIRMWARE_IMAGE_DOWNLOAD
        | AdminOpcode::DEVICE_SELF_TEST
        | AdminOpcode::SANITIZE
        | AdminOpcode::POWER_CUT
        | AdminOpcode::FAULT_INJECTION => Bound::Refused,
        other => panic!("{other:?} is a new command: what keeps a tenant from slowing others by it?"),
    }
}

/// A command of each kind that makes as much work as it can.
fn largest(opcode: AdminOpcode) -> (Command, Vec<u8>) {
    match opcode {
        AdminOpcode::GET_LBA_STATUS => (scan(LbaStatusAction::SCAN), Vec::new()),
        AdminOpcode::FORMAT_NVM => (format(1), Vec::new()),
        AdminOpcode::SET_FEATURES => (set(1, true).into(), bytes(&nvme::quota::Quota::unlimited())),
        AdminOpcode::GET_FEATURES => (
            Command::get_features(nvme::feature::FeatureId::QUOTA, 1, nvme::feature::Select::CURRENT),
            Vec::new(),
        ),
        AdminOpcode::GET_LOG_PAGE => {
            (Command::get_log_page(LogId::LBA_STATUS, NSID_ALL, 0, 0, 1 << 16), Vec::new())
        }
        AdminOpcode::IDENTIFY => {
            (Command::identify(nvme::identify::Cns::ALLOCATED_NAMESPACES, 0), Vec::new())
        }
        AdminOpcode::SANITIZE => (Command { cdw10: 2.into(), ..Command::new(opcode.0, 0) }, Vec::new()),
        AdminOpcode::POWER_CUT => {
            (PowerCut { after_media_ops: 0, seed: 0, off_ms: 1, no_plp: false }.into(), Vec::new())
        }
        AdminOpcode::FAULT_INJECTION => {
            let kind = FaultKind::PORT_DOWN;
            let fault =
                FaultInjection { nsid: 0, kind, nvmsetid: 1, count: 0, one_in: 0, param: 1, lba: None };
            (fault.into(), Vec::new())
        }
        other => (Command::new(other.0, 1), Vec::new()),
    }
}

#[test]
fn every_admin_command_of_a_tenant_is_bounded() {
    for info in command_table::admin_commands() {
        let opcode = AdminOpcode(info.opcode);
        let (mut b, tenant) = drive_of(1024, &[]);
        let (command, data) = largest(opcode);
        let held = if bound(opcode) == Bound::Steps {
            // The controller is busy with a step of somebody else.
            b.submit(tenant, 0, &scan(LbaStatusAction::TRACKED), &[]);
            true
        } else {
            false
        };
        let io = b.submit(tenant, 0, &command, &data);
        let at_once = b.done.contains_key(&io);
        match bound(opcode) {
            Bound::Refused => {
                let denied = info.audience == Audience::Administrators;
                let expected = if denied { Status::OPERATION_DENIED } else { Status::INVALID_OPCODE };
                assert!(at_once && b.done[&io].0.status().is(expected), "{opcode:?}: {:?}", b.done[&io]);
            }
            Bound::Fixed => assert!(at_once, "{opcode:?}"),
            Bound::Steps => assert!(held && !at_once, "{opcode:?} does not wait for its turn"),
            Bound::Waits => assert!(!at_once, "{opcode:?}"),
        }
        if bound(opcode) == Bound::Steps {
            let (done, _) = b.wait(io);
            assert!(done.status().is_success(), "{opcode:?}: {}", done.status());
        }
    }
}

#[test]
fn changes_that_move_no_data_count_as_commands() {
    let (mut b, tenant) = drive_of(1024, &[]);
    b.admin_ok(set(1, false), &bytes(&quota(&[(QuotaKind::WriteCommands, 10)])));
    let range = bytes(&DsmRange::new(0, 1));
    let start = b.now;
    for _ in 0..21 {
        assert_eq!(b.on(tenant, 1, &Command::deallocate(1, 1), &range).0.status(), Status::SUCCESS);
    }
    // Ten in a second.
    assert!(b.now.since(start) >= Nanos(1_900_000_000), "{:?}", b.now.since(start));
}

/// Runs to the next event of the drive.
fn next(b: &mut Bench) {
    b.now = b.drive.next_event().expect("something is under way").max(b.now);
    let mut out = Vec::new();
    b.drive.poll(b.now, &mut b.memory, &mut out);
    b.deliver(out);
}

/// A zoned namespace 1, and a namespace 2 of another host. `zones` is the number of zones; the first `full` of them are full.
fn zoned(zones: u64, full: u64, changes: &[(&str, &str)]) -> Bench {
    let capacity = ("capacity = \"64MiB\"", "capacity = \"1400MiB\"");
    let mut b = with_changes(&[&[capacity], changes].concat(), ZonesConfig::default());
    let blocks = U64::new(zones * SIZE);
    create(&mut b, &NamespaceCreate { nsze: blocks, ncap: blocks, ..new_namespace() });
    b.create_attached(2, 256);
    b.write(2, 0, 1, &pattern(1, 4096));
    for zone in 0..full {
        for part in (0..CAPACITY).step_by(128) {
            assert!(write(&mut b, 1, zone * SIZE + part, 128).is_success());
        }
    }
    b.run_until(Nanos::MAX);
    b
}

/// Zones of namespace 1 that hold something.
fn written_zones(b: &Bench, zones: u64) -> u64 {
    let (volume, ..) = b.drive.ftl().volumes().next().expect("a volume");
    let info = |zone: &u64| b.drive.ftl().zone(volume, *zone as u32).expect("a zone");
    (0..zones).filter(|zone| info(zone).state != ftl::ZoneState::Empty).count() as u64
}

fn reset_all() -> Command {
    ZoneManagementSend { select_all: true, ..ZoneManagementSend::new(1, ZoneSendAction::RESET, 0) }.into()
}

/// Zones whose reset is more than a step's work.
const STEP: u64 = ftl::STEP_MAPPED_PAGES.div_ceil(CAPACITY);

#[test]
fn a_reset_of_all_zones_is_done_in_steps() {
    for changes in [&[][..], &[TIMING_EDIT]] {
        let mut b = zoned(64, 32, changes);
        let io = b.submit(b.controller, 1, &reset_all(), &[]);
        assert_eq!(b.read(2, 0, 1), pattern(1, 4096), "a neighbour reads meanwhile");
        assert!(!b.done.contains_key(&io));
        let mut held = written_zones(&b, 64);
        assert!(held >= 32 - 3 * STEP, "{held} zones after the first steps");
        while held > 0 {
            next(&mut b);
            let left = written_zones(&b, 64);
            assert!(held - left <= STEP, "{} zones in one step", held - left);
            assert!(left == 0 || !b.done.contains_key(&io), "it ends with the last zone");
            held = left;
        }
        assert!(b.wait(io).0.status().is_success());
        assert!(b.memory.bytes().count() > 0 && write(&mut b, 1, 0, 4).is_success());
        b.run_until(Nanos::MAX);
        let dies: Vec<_> = (0..4).map(|_| b.drive.busy_dies(b.now).0).collect();
        assert_eq!(dies, [0; 4]);
    }
}

#[test]
fn a_reset_of_all_zones_ends_when_the_blocks_of_all_steps_are_erased() {
    let mut b = zoned(64, 16, &[TIMING_EDIT]);
    let start = b.now;
    assert!(b.on(b.controller, 1, &reset_all(), &[]).0.status().is_success());
    // Each zone lies on all dies, and an erase takes 4 ms.
    assert!(b.now.since(start) >= Nanos(16 * 4_000_000), "{:?}", b.now.since(start));
    assert_eq!(b.drive.busy_dies(b.now).0, 0);
}

#[test]
fn a_reset_of_all_zones_that_power_interrupts_leaves_whole_zones() {
    for energy in [true, false] {
        let mut b = zoned(64, 32, &[]);
        b.submit(b.controller, 1, &reset_all(), &[]);
        b.run_until(b.now + Nanos(100_000));
        let left = written_zones(&b, 64);
        assert!(left > 0 && left < 32, "{left}");
        b.cut(energy);
        b.power_on();
        assert_eq!(written_zones(&b, 64), left);
        for zone in 0..32 {
            let data: Vec<u8> =
                [0, 128, 256].iter().flat_map(|at| b.read(1, zone * SIZE + at, 128)).collect();
            let whole = (0..3).flat_map(|i| pattern((zone * SIZE + i * 128) as u32, 128 * 4096));
            assert!(data.iter().all(|byte| *byte == 0) || data.into_iter().eq(whole), "zone {zone}");
        }
        assert!(b.on(b.controller, 1, &reset_all(), &[]).0.status().is_success());
        assert_eq!(written_zones(&b, 64), 0);
    }
}

#[test]
fn a_format_waits_for_a_reset_of_all_zones_that_began_before() {
    let mut b = zoned(64, 32, &[]);
    let reset = b.submit(b.controller, 1, &reset_all(), &[]);
    let format = b.submit(b.controller, 0, &format(1), &[]);
    b.run_until(Nanos::MAX);
    let order: Vec<u32> = b.order.iter().copied().filter(|io| [reset, format].contains(io)).collect();
    assert_eq!(order, [reset, format]);
    assert!([reset, format].iter().all(|io| b.done[io].0.status().is_success()));
}

#[test]
fn a_long_report_of_zones_is_done_in_steps() {
    let mut b = zoned(690, 1, &[]);
    assert!(write(&mut b, 1, 680 * SIZE, 4).is_success());
    b.run_until(Nanos::MAX);
    let id = b.controller;
    let (polls, status) = steps(&mut b, id, 1, &receive(1, 0, 16 + 16 * 690).into(), &[]);
    assert!(status.is_success() && polls >= 1, "{polls} polls");
    // What lies behind the first step is there, and counted.
    let io = b.submit(id, 1, &receive(1, 0, 16 + 16 * 690).into(), &[]);
    assert_eq!(b.read(2, 0, 1), pattern(1, 4096), "a neighbour reads meanwhile");
    assert!(!b.done.contains_key(&io));
    let (done, data) = b.wait(io);
    let report = ZoneReport::parse(&data, 0).unwrap();
    assert!(done.status().is_success() && report.nzones() == 690);
    assert!((0..).zip(report.zones()).all(|(i, (zone, _))| zone.zslba.get() == i * SIZE));
    // So it is with a filter that finds little, and with one zone of room.
    let active =
        ZoneManagementReceive { filter: ZoneReportFilter::IMPLICITLY_OPENED, ..receive(1, 0, 16 + 16) };
    for (partial, polled) in [(false, true), (true, true)] {
        let command = ZoneManagementReceive { partial, ..active };
        let (polls, _) = steps(&mut b, id, 1, &command.into(), &[]);
        assert_eq!(polls > 0, polled, "{partial}");
        let (_, data) = b.io(command, &[]);
        let report = ZoneReport::parse(&data, 0).unwrap();
        let (zone, _) = report.zones().next().expect("a zone");
        assert_eq!((report.nzones(), zone.zslba.get()), (1, 680 * SIZE));
    }
    // A short one is done at once.
    let short = ZoneManagementReceive { partial: true, ..receive(1, 0, 16 + 16) };
    let (polls, status) = steps(&mut b, id, 1, &short.into(), &[]);
    assert_eq!((polls, status), (0, Status::SUCCESS));
    // The namespace stays as it is until the report is done.
    let report = b.submit(id, 1, &receive(1, 0, 16 + 16 * 690).into(), &[]);
    let format = b.submit(id, 0, &format(1), &[]);
    b.run_until(Nanos::MAX);
    let order: Vec<u32> = b.order.iter().copied().filter(|io| [report, format].contains(io)).collect();
    assert_eq!(order, [report, format]);
}
