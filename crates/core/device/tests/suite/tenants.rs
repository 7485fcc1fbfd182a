//! What a tenant can do to its neighbours beside I/O: nothing.

use crate::common::load::set;
use crate::common::{Bench, bytes, initial, nqn, pattern, small};
use device::{ControllerId, Host, Origin, Role, firmware_image};
use media::Nanos;
use nvme::admin::{
    AdminCommand, CommitAction, FirmwareCommit, FirmwareImageDownload, FormatNvm, GetLogPage,
    NamespaceAttachment, NamespaceAttachmentSelect, SecureErase,
};
use nvme::directive::{Directive, DirectiveType, EnableDirective, operation};
use nvme::identify::{Cns, ControllerList, IdentifyController};
use nvme::log::{
    EnduranceGroup, LogId, PersistentEvent, PersistentEventHeader, PersistentEventType, SmartHealth,
};
use nvme::property::PropertyOffset;
use nvme::quota::Quota;
use nvme::reservation::{
    AcquireAction, AcquireKeys, ChangePtpl, RegisterAction, RegisterKeys, ReservationAcquire,
    ReservationRegister, ReservationType,
};
use nvme::zerocopy::FromBytes;
use nvme::{Command, Csi, NSID_ALL, Status, U64};

/// Namespaces 1 and 2 for everybody who may.
fn drive() -> Bench {
    let mut config = small(&[]);
    for set in [1, 2] {
        config.namespaces.push(initial(set, 4 << 20));
    }
    Bench::new(config)
}

fn tenant(b: &mut Bench, name: &str, id: u8, own: &[u32]) -> ControllerId {
    let role = Role::Tenant(own.to_vec());
    b.connect_host(Host { role, ..Host::administrator(nqn(name), [id; 16], Origin::Network) })
}

fn io(b: &mut Bench, id: ControllerId, command: impl Into<Command>, data: &[u8]) -> Status {
    b.on(id, 1, &command.into(), data).0.status()
}

fn register(action: RegisterAction, iekey: bool) -> Command {
    ReservationRegister { nsid: 1, action, iekey, cptpl: ChangePtpl::SET }.into()
}

fn keys(crkey: u64, nrkey: u64) -> Vec<u8> {
    bytes(&RegisterKeys { crkey: U64::new(crkey), nrkey: U64::new(nrkey) })
}

#[test]
fn a_tenants_reservations_take_turns() {
    let mut b = drive();
    let me = tenant(&mut b, "tenant", 5, &[1]);
    assert_eq!(io(&mut b, me, register(RegisterAction::REGISTER, false), &keys(0, 7)), Status::SUCCESS);
    let start = b.now;
    let replace = register(RegisterAction::REPLACE, false);
    let all: Vec<u32> = (0..100).map(|_| b.submit(me, 1, &replace, &keys(7, 7))).collect();
    for io in all {
        assert_eq!(b.wait(io).0.status(), Status::SUCCESS);
    }
    // Each records the drive's state.
    assert!(b.now.since(start).0 >= 99 * 500_000, "{:?}", b.now.since(start));
}

/// Power-on-or-reset events in a record of the drive's state.
fn recorded_resets(record: &[u8]) -> usize {
    let text = std::str::from_utf8(record).unwrap();
    let kind = format!("\"{:02x}", PersistentEventType::POWER_ON_OR_RESET.0);
    text.matches(&kind).count()
}

fn reset(b: &mut Bench, id: ControllerId) {
    b.set_property(id, PropertyOffset::CC, 0).unwrap();
    b.enable(id);
}

#[test]
fn however_often_a_tenant_resets_its_controller_the_state_is_recorded_once() {
    let mut b = drive();
    let me = tenant(&mut b, "tenant", 5, &[1]);
    reset(&mut b, me);
    b.run_until(b.now + Nanos(1_000_000));
    let before = b.memory.controller_records.len();
    let events = recorded_resets(b.memory.controller_records.last().unwrap());
    for _ in 0..100 {
        reset(&mut b, me);
    }
    // The first one at once; the others together when its time is over.
    assert_eq!(b.memory.controller_records.len(), before + 1);
    b.run_until(Nanos::MAX);
    assert_eq!(b.memory.controller_records.len(), before + 2);
    assert_eq!(recorded_resets(b.memory.controller_records.last().unwrap()), events + 100);
    // Nor does it get more than its turns when it goes on for long, and a neighbour's commands come between.
    let start = b.now;
    let other = tenant(&mut b, "neighbour", 6, &[2]);
    for _ in 0..50 {
        reset(&mut b, me);
        assert_eq!(io(&mut b, other, Command::read(2, 0, 1), &[]), Status::SUCCESS);
        b.run_until(b.now + Nanos(100_000));
    }
    b.run_until(Nanos::MAX);
    let records = b.memory.controller_records.len() - before - 2;
    assert!(records as u64 <= 2 + b.now.since(start).0 / 500_000, "{records} in {:?}", b.now.since(start));
}

#[test]
fn a_reset_is_recorded_even_if_power_goes_before_its_turn() {
    let mut b = drive();
    let me = tenant(&mut b, "tenant", 5, &[1]);
    reset(&mut b, me);
    b.run_until(Nanos::MAX);
    let events = recorded_resets(b.memory.controller_records.last().unwrap());
    for _ in 0..10 {
        reset(&mut b, me);
    }
    b.cut(true);
    assert_eq!(recorded_resets(b.memory.controller_records.last().unwrap()), events + 10);
    b.power_on();
    let me = tenant(&mut b, "tenant", 5, &[1]);
    let before = b.memory.controller_records.len();
    b.set_property(me, PropertyOffset::CC, 0).unwrap();
    assert_eq!(b.memory.controller_records.len(), before + 1, "turns begin anew");
}

fn format(nsid: u32) -> FormatNvm {
    FormatNvm { nsid, lbaf: 0, mset: false, pi: 0, pil: false, ses: SecureErase::NONE }
}

fn admin(b: &mut Bench, id: ControllerId, command: impl Into<Command>, data: &[u8]) -> Status {
    b.on(id, 0, &command.into(), data).0.status()
}

fn read_log<T: FromBytes>(b: &mut Bench, id: ControllerId, lid: LogId, nsid: u32, lsi: u16) -> T {
    let (done, data) = b.on(id, 0, &Command::get_log_page(lid, nsid, lsi, 0, 512), &[]);
    assert_eq!(done.status(), Status::SUCCESS, "{lid:?}");
    T::read_from_prefix(&data).unwrap_or_else(|_| panic!("{lid:?} is short")).0
}

#[test]
fn a_namespace_that_was_detached_is_not_changed() {
    let mut b = drive();
    let me = tenant(&mut b, "tenant", 5, &[1]);
    b.write(1, 0, 1, &pattern(1, 4096));
    let detach = NamespaceAttachment { nsid: 1, sel: NamespaceAttachmentSelect::DETACH };
    b.admin_ok(detach, &bytes(&ControllerList::new([me.0])));
    let none = admin(&mut b, me, format(9), &[]);
    assert!(!none.is_success());
    assert_eq!(admin(&mut b, me, format(1), &[]), none);
    assert_eq!(admin(&mut b, me, set(1, false), &bytes(&Quota::unlimited())), none);
    assert_eq!(b.read(1, 0, 1), pattern(1, 4096));
}

#[test]
fn a_tenant_reads_its_own_counters_only() {
    let mut b = drive();
    let me = tenant(&mut b, "tenant", 5, &[1]);
    let look = |b: &mut Bench| {
        let whole: SmartHealth = read_log(b, me, LogId::SMART, NSID_ALL, 0);
        let own: SmartHealth = read_log(b, me, LogId::SMART, 1, 0);
        let groups = [1, 2].map(|lsi| read_log::<EnduranceGroup>(b, me, LogId::ENDURANCE_GROUP, 0, lsi));
        (bytes(&whole), bytes(&own), groups.map(|group| bytes(&group)))
    };
    let before = look(&mut b);
    for slba in 0..512 {
        b.write(2, slba, 1, &pattern(1, 4096));
    }
    b.io(Command::read(9, 0, 1), &[]);
    assert!(look(&mut b) == before, "what others do shows");
    assert_eq!(io(&mut b, me, Command::write(1, 0, 256), &pattern(1, 1 << 20)), Status::SUCCESS);
    assert!(look(&mut b) != before);
    for lid in [LogId::OCP_SMART, LogId::MEMBLAZE_SMART] {
        let command = Command::get_log_page(lid, NSID_ALL, 0, 0, 512);
        assert!(admin(&mut b, me, command, &[]).is(Status::OPERATION_DENIED), "{lid:?}");
    }
}

#[test]
fn formats_push_nothing_else_out_of_the_persistent_event_log() {
    let mut b = drive();
    let me = tenant(&mut b, "tenant", 5, &[1]);
    let kinds = |b: &mut Bench| {
        let read = |lsp, bytes: u64| GetLogPage { lsp, dwords: bytes / 4, ..persistent() };
        b.admin_ok(read(2, 512), &[]);
        let (_, log) = b.admin_ok(read(1, 65536), &[]);
        let (header, mut rest) = PersistentEventHeader::read_from_prefix(&log).unwrap();
        let mut kinds = std::collections::BTreeMap::new();
        for _ in 0..header.tnev.get() {
            let (event, more) = PersistentEvent::read_from_prefix(rest).unwrap();
            rest = &more[usize::from(event.el.get())..];
            *kinds.entry(event.etype.0).or_insert(0) += 1;
        }
        kinds
    };
    let before = kinds(&mut b);
    for _ in 0..600 {
        assert_eq!(admin(&mut b, me, format(1), &[]), Status::SUCCESS);
    }
    let after = kinds(&mut b);
    assert!(before.iter().all(|(kind, count)| after.get(kind) >= Some(count)), "{before:?} {after:?}");
}

fn persistent() -> GetLogPage {
    GetLogPage {
        nsid: NSID_ALL,
        lid: LogId::PERSISTENT_EVENT,
        lsp: 0,
        lsi: 0,
        rae: true,
        dwords: 128,
        offset: 0,
        ot: false,
        csi: Csi::NVM,
        uidx: 0,
    }
}

#[test]
fn the_reservation_of_another_tenant_blocks_no_format_of_all_that_is_ones_own() {
    let mut b = drive();
    let (me, other) = (tenant(&mut b, "me", 5, &[1]), tenant(&mut b, "other", 6, &[2]));
    let on_2 = |command: Command| Command { nsid: 2.into(), ..command };
    assert_eq!(
        io(&mut b, other, on_2(register(RegisterAction::REGISTER, false)), &keys(0, 7)),
        Status::SUCCESS
    );
    let rtype = ReservationType::EXCLUSIVE_ACCESS;
    let acquire = ReservationAcquire { nsid: 2, action: AcquireAction::ACQUIRE, iekey: false, rtype };
    let with = bytes(&AcquireKeys { crkey: U64::new(7), prkey: U64::new(0) });
    assert_eq!(io(&mut b, other, acquire, &with), Status::SUCCESS);
    assert_eq!(admin(&mut b, me, format(NSID_ALL), &[]), Status::SUCCESS);
    // A host that has the namespace attached meets the reservation (Base 8.1.22).
    let admin_of_all = b.controller;
    assert!(admin(&mut b, admin_of_all, format(NSID_ALL), &[]).is(Status::RESERVATION_CONFLICT));
}

#[test]
fn a_tenants_reset_activates_no_firmware() {
    let mut b = drive();
    let me = tenant(&mut b, "tenant", 5, &[1]);
    let revision = |b: &mut Bench| {
        let id: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
        nvme::identify::ascii_text(&id.fr).to_owned()
    };
    let before = revision(&mut b);
    let image = firmware_image("2.0", b"two").unwrap();
    let piece = FirmwareImageDownload { dwords: image.len() as u64 / 4, offset: 0 };
    b.admin_ok(AdminCommand::FirmwareImageDownload(piece), &image);
    let commit = FirmwareCommit { fs: 2, ca: CommitAction::REPLACE_AND_ACTIVATE, bpid: false };
    b.admin(AdminCommand::FirmwareCommit(commit), &[]);
    reset(&mut b, me);
    assert_eq!(revision(&mut b), before);
    let administrator = b.controller;
    reset(&mut b, administrator);
    assert_eq!(revision(&mut b), "2.0");
}

#[test]
fn a_tenant_takes_its_part_of_the_streams() {
    let spare = "spare = \"60%\"\nplacement = { handles = 8 }\n";
    let mut config = small(&[("spare = \"28%\"\n", spare)]);
    for _ in 0..2 {
        config.namespaces.push(initial(1, 4 << 20));
    }
    let mut b = Bench::new(config);
    let allocate = |b: &mut Bench, id, nsid, count| {
        let directive = |dtype, doper, cdw12| Directive { nsid, dwords: 0, doper, dtype, dspec: 0, cdw12 };
        let enable = EnableDirective::new().with_endir(true).with_tdtype(DirectiveType::STREAMS);
        let enable = directive(DirectiveType::IDENTIFY, operation::ENABLE, enable.into_bits().get());
        assert_eq!(admin(b, id, AdminCommand::DirectiveSend(enable), &[]), Status::SUCCESS);
        let ask = directive(DirectiveType::STREAMS, operation::ALLOCATE_RESOURCES, count);
        let (done, _) = b.on(id, 0, &AdminCommand::DirectiveReceive(ask).into(), &[]);
        done.status().is_success().then_some(done.dw0.get())
    };
    // Seven streams: half of them for one of two namespaces, over all controllers of its host.
    let (first, second) = (tenant(&mut b, "tenant", 5, &[1]), tenant(&mut b, "tenant", 5, &[1]));
    assert_eq!((allocate(&mut b, first, 1, 7), allocate(&mut b, second, 1, 7)), (Some(3), None));
    let other = tenant(&mut b, "other", 6, &[2]);
    assert_eq!(allocate(&mut b, other, 2, 2), Some(2));
    let administrator = b.controller;
    assert_eq!(allocate(&mut b, administrator, 2, 7), Some(2));
}

#[test]
fn the_holders_host_identifier_does_not_make_another_host_the_holder() {
    let mut b = drive();
    let holder = tenant(&mut b, "holder", 5, &[1]);
    let thief = tenant(&mut b, "thief", 5, &[1]);
    assert_eq!(io(&mut b, holder, register(RegisterAction::REGISTER, false), &keys(0, 7)), Status::SUCCESS);
    let rtype = ReservationType::EXCLUSIVE_ACCESS;
    let acquire = ReservationAcquire { nsid: 1, action: AcquireAction::ACQUIRE, iekey: false, rtype };
    let with = bytes(&AcquireKeys { crkey: U64::new(7), prkey: U64::new(0) });
    assert_eq!(io(&mut b, holder, acquire, &with), Status::SUCCESS);
    let data = pattern(1, 4096);
    for command in [Command::write(1, 0, 1), Command::read(1, 0, 1)] {
        assert!(io(&mut b, thief, command, &data).is(Status::RESERVATION_CONFLICT), "{command:?}");
    }
    let unregister = register(RegisterAction::UNREGISTER, true);
    assert!(io(&mut b, thief, unregister, &keys(0, 0)).is(Status::RESERVATION_CONFLICT));
    // Another controller of the same host shares its registration; another machine with its NQN does not.
    let second = tenant(&mut b, "holder", 5, &[1]);
    assert_eq!(io(&mut b, second, Command::write(1, 0, 1), &data), Status::SUCCESS);
    let other = tenant(&mut b, "holder", 6, &[1]);
    assert!(io(&mut b, other, Command::write(1, 0, 1), &data).is(Status::RESERVATION_CONFLICT));
    // Also when the power was gone.
    b.cut(true);
    b.power_on();
    let (holder, thief) = (tenant(&mut b, "holder", 5, &[1]), tenant(&mut b, "thief", 5, &[1]));
    assert!(io(&mut b, thief, Command::write(1, 0, 1), &data).is(Status::RESERVATION_CONFLICT));
    assert_eq!(io(&mut b, holder, Command::write(1, 0, 1), &data), Status::SUCCESS);
}
