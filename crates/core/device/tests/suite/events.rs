//! The Persistent Event log.

use crate::common::{Bench, bytes, pattern};
use nvme::admin::{
    FaultInjection, FaultKind, FormatNvm, GetLogPage, NamespaceManagement, NamespaceManagementSelect,
    PowerCut, SecureErase, SetFeatures,
};
use nvme::feature::{FeatureId, Timestamp};
use nvme::identify::{Cns, IdentifyController};
use nvme::log::{
    ChangeNamespaceEvent, FormatCompletionEvent, FormatStartEvent, HardwareErrorEvent, LogId,
    PersistentEvent, PersistentEventAction as Action, PersistentEventHeader, PersistentEventType as Type,
    PowerOnEvent, SetFeatureEvent, SmartHealth, VendorCommandEvent, hardware_error, persistent_event_bytes,
};
use nvme::property::PropertyOffset;
use nvme::zerocopy::FromBytes;
use nvme::{Command, Csi, NSID_ALL, Status};

fn read(action: Action, offset: u64, length: u64) -> GetLogPage {
    GetLogPage {
        nsid: NSID_ALL,
        lid: LogId::PERSISTENT_EVENT,
        lsp: action.0,
        lsi: 0,
        rae: true,
        dwords: length / 4,
        offset,
        ot: false,
        csi: Csi::NVM,
        uidx: 0,
    }
}

/// The whole log in a new context, which is released: its header, and its events, newest first.
fn events(b: &mut Bench) -> (PersistentEventHeader, Vec<(PersistentEvent, Vec<u8>)>) {
    let header: PersistentEventHeader = b.ask(read(Action::ESTABLISH, 0, 512));
    let mut log = Vec::new();
    while (log.len() as u64) < header.tll.get() {
        log.extend(b.admin_ok(read(Action::READ, log.len() as u64, 1024), &[]).1);
    }
    b.admin_ok(read(Action::RELEASE, 0, 512), &[]);
    log.truncate(header.tll.get() as usize);
    assert_eq!(PersistentEventHeader::read_from_prefix(&log).unwrap().0, header);
    assert_eq!((header.lid, header.lhl.get()), (0x0D, 492));
    let mut rest = &log[512..];
    let mut found = Vec::new();
    for _ in 0..header.tnev.get() {
        let (event, after) = PersistentEvent::read_from_prefix(rest).unwrap();
        let (data, after) = after.split_at(event.el.get().into());
        let least = persistent_event_bytes(event.etype).expect("a known type");
        assert!(data.len() >= least, "{event:?}");
        let bit = header.seb[usize::from(event.etype.0 / 8)] >> (event.etype.0 % 8) & 1;
        assert_eq!((event.ehl, bit), (21, 1), "{event:?}");
        found.push((event, data.to_vec()));
        rest = after;
    }
    assert!(rest.iter().all(|b| *b == 0));
    (header, found)
}

fn kinds(events: &[(PersistentEvent, Vec<u8>)]) -> Vec<Type> {
    events.iter().map(|(event, _)| event.etype).collect()
}

#[test]
fn what_happens_to_a_drive_is_remembered_over_power_cuts() {
    let mut b = Bench::with_namespaces(&[]);
    b.now = media::Nanos(5_000_000_000);
    let stamp = Timestamp::new(1_700_000_000_000, true);
    b.admin_ok(Command::set_features(FeatureId::TIMESTAMP, 0, 0), &bytes(&stamp));
    let nsid = b.create_attached(1, 256);
    let save = SetFeatures {
        nsid: 0,
        fid: FeatureId::ARBITRATION,
        sv: true,
        uidx: 0,
        cdw11: 3,
        cdw12: 0,
        cdw13: 0,
        cdw15: 0,
    };
    b.admin_ok(save, &[]);
    let format = FormatNvm { nsid, lbaf: 1, mset: false, pi: 0, pil: false, ses: SecureErase::NONE };
    b.admin_ok(format, &[]);
    b.admin_ok(NamespaceManagement { nsid, sel: NamespaceManagementSelect::DELETE, csi: Csi::NVM }, &[]);
    let expected = [
        Type::CHANGE_NAMESPACE,
        Type::FORMAT_COMPLETION,
        Type::FORMAT_START,
        Type::SET_FEATURE,
        Type::CHANGE_NAMESPACE,
        Type::TIMESTAMP_CHANGE,
        Type::SMART_SNAPSHOT,
        Type::POWER_ON_OR_RESET,
    ];
    let (header, before) = events(&mut b);
    assert_eq!(kinds(&before), expected);
    let id: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    assert_eq!((header.sn, header.mn, header.subnqn), (id.sn, id.mn, id.subnqn));
    assert!(id.lpa.pes() && header.tll.get() <= u64::from(id.pels.get()) << 16);
    let (deleted, _) = ChangeNamespaceEvent::read_from_prefix(&before[0].1).unwrap();
    let (created, _) = ChangeNamespaceEvent::read_from_prefix(&before[4].1).unwrap();
    assert_eq!((created.cdw10.get(), created.nsid.get(), created.nsze.get()), (0, nsid, 256));
    assert_eq!((deleted.cdw10.get(), deleted.nsid.get(), deleted.flbas), (1, nsid, 1));
    let (ended, _) = FormatCompletionEvent::read_from_prefix(&before[1].1).unwrap();
    let (begun, _) = FormatStartEvent::read_from_prefix(&before[2].1).unwrap();
    assert_eq!((begun.nsid.get(), begun.cdw10.get(), ended.status), (nsid, 1, 0));
    let (saved, _) = SetFeatureEvent::read_from_prefix(&before[3].1).unwrap();
    assert_eq!((saved.cdw[0].get(), saved.cdw[1].get()), (1 << 31 | 1, 3));
    assert_eq!(before[0].0.ets.get() & 0xFFFF_FFFF_FFFF, 1_700_000_000_000);
    assert_eq!(before[0].0.cntlid.get(), b.controller.0);
    let (start, _) = PowerOnEvent::read_from_prefix(&before[7].1).unwrap();
    assert_eq!(start.firmware, id.fr);

    b.cut(false);
    b.power_on();
    let (after_cut, after) = events(&mut b);
    assert_eq!(after[after.len() - before.len()..], before);
    let new = &after[..after.len() - before.len()];
    let each = [Type::SMART_SNAPSHOT, Type::HARDWARE_ERROR];
    assert_eq!(kinds(new), [&each[..], &each, &[Type::POWER_ON_OR_RESET]].concat());
    let code = |i: usize| u16::from_le_bytes([new[i].1[0], new[i].1[1]]);
    // That the capacitors failed is a warning of its own.
    assert_eq!((code(1), code(3)), (hardware_error::CRITICAL_WARNING, hardware_error::UNSAFE_SHUTDOWN));
    let (smart, _) = SmartHealth::read_from_prefix(&new[0].1).unwrap();
    assert_eq!(smart.unexpected_power_losses.get(), 1);
    assert_eq!(after_cut.gen_number.get(), header.gen_number.get() + 1);
    // Nothing has happened since.
    assert_eq!(events(&mut b).0.gen_number, after_cut.gen_number);

    // A restart of the program keeps them, too.
    let restorer = device::Drive::restore(b.drive.config().clone(), &b.drive.save()).unwrap();
    let drive = restorer.finish(b.now, &mut b.memory).unwrap();
    let mut again = Bench::around(drive, b.memory.clone());
    let (_, found) = events(&mut again);
    assert_eq!(found[found.len() - after.len()..], after);
}

#[test]
fn a_reporting_context_is_what_was_there() {
    let mut b = Bench::with_namespaces(&[]);
    let me = b.controller;
    let sequence = |b: &mut Bench, action| {
        let (got, _) = b.admin(read(action, 0, 512), &[]);
        assert!(got.status().is(Status::COMMAND_SEQUENCE_ERROR), "{}", got.status());
    };
    sequence(&mut b, Action::READ);
    b.admin_ok(read(Action::RELEASE, 0, 512), &[]);
    let first: PersistentEventHeader = b.ask(read(Action::ESTABLISH_HEADER, 0, 512));
    assert!(!first.rci.rce());
    sequence(&mut b, Action::ESTABLISH);
    b.create_attached(1, 256);
    let same: PersistentEventHeader = b.ask(read(Action::READ, 0, 512));
    assert_eq!(same, first);
    let again: PersistentEventHeader = b.ask(read(Action::ESTABLISH_HEADER, 0, 512));
    assert!(again.rci.rce() && again.tnev == first.tnev);
    let (beyond, _) = b.admin(read(Action::READ, first.tll.get() + 4, 4), &[]);
    assert!(beyond.status().is(Status::INVALID_FIELD));
    // Another controller has its own, which sees more.
    let other = b.connect("other", device::Origin::Network);
    let (_, data) = b.on(other, 0, &read(Action::ESTABLISH, 0, 512).into(), &[]);
    assert_eq!(PersistentEventHeader::ref_from_bytes(&data).unwrap().tnev.get(), first.tnev.get() + 1);
    // A reset ends it.
    b.set_property(me, PropertyOffset::CC, 0).unwrap();
    b.enable(me);
    sequence(&mut b, Action::READ);
    let (_, found) = events(&mut b);
    assert_eq!((found[0].0.etype, found[0].0.cntlid.get()), (Type::POWER_ON_OR_RESET, me.0));
}

#[test]
fn the_log_is_bounded_and_keeps_the_newest() {
    let mut b = Bench::with_namespaces(&[]);
    for i in 0..2000u64 {
        let stamp = Timestamp::new(1_000_000 + i, true);
        b.admin_ok(Command::set_features(FeatureId::TIMESTAMP, 0, 0), &bytes(&stamp));
    }
    let (header, found) = events(&mut b);
    assert!(header.tll.get() <= 64 << 10 && found.len() > 500, "{}", found.len());
    // Each tells the time before it.
    let previous = u64::from_le_bytes(found[0].1[..8].try_into().unwrap()) & 0xFFFF_FFFF_FFFF;
    assert_eq!(previous, 1_000_000 + 1998);
}

#[test]
fn warnings_are_remembered_with_smart() {
    let mut b = Bench::with_namespaces(&[]);
    b.fail_erases();
    let mut written = 0;
    while b.io(Command::write(1, written % 1000, 1), &pattern(1, 4096)).0.is_success() {
        written += 1;
        assert!(written < 200_000, "the drive wears out");
    }
    let (_, found) = events(&mut b);
    let warnings: Vec<HardwareErrorEvent> = found
        .iter()
        .filter(|(event, data)| event.etype == Type::HARDWARE_ERROR && data.len() == 8)
        .map(|(_, data)| HardwareErrorEvent::read_from_bytes(data).unwrap())
        .collect();
    let seen = |code, bit: u8| warnings.iter().any(|w| w.code.get() == code && w.warning & bit != 0);
    assert!(seen(hardware_error::CRITICAL_WARNING, 1) && seen(hardware_error::CRITICAL_WARNING, 4));
    assert!(seen(hardware_error::ENDURANCE_GROUP_WARNING, 8));
    let snapshot = found.iter().find(|(event, _)| event.etype == Type::SMART_SNAPSHOT).unwrap();
    let smart = SmartHealth::read_from_bytes(&snapshot.1).unwrap();
    assert!(smart.critical_warning.ndr());
}

#[test]
fn faults_and_power_cuts_that_were_ordered_are_remembered() {
    let mut b = Bench::with_namespaces(&[]);
    let slow = |param| FaultInjection {
        nsid: 0,
        kind: FaultKind::SLOW,
        nvmsetid: 1,
        count: 0,
        one_in: 5,
        param,
        lba: None,
    };
    let clear = FaultInjection { kind: FaultKind::CLEAR, ..slow(0) };
    let cut = PowerCut { after_media_ops: 1_000_000, ..PowerCut::default() };
    let (refused, _) = b.admin(slow(1), &[]);
    assert!(refused.status().is(Status::INVALID_FIELD));
    for command in [Command::from(slow(9)), clear.into(), cut.into()] {
        b.admin_ok(command, &[]);
        let (_, found) = events(&mut b);
        let (event, data) = &found[0];
        assert_eq!(event.etype, Type::VENDOR_SPECIFIC);
        let (order, _) = VendorCommandEvent::read_from_prefix(data).unwrap();
        assert_eq!((order.code.get(), order.uidx), (command.opc.into(), 2));
        assert_eq!(order.cdw, [command.cdw10, command.cdw11, command.cdw12, command.cdw13]);
    }
    let (_, found) = events(&mut b);
    assert_eq!(kinds(&found).iter().filter(|kind| **kind == Type::VENDOR_SPECIFIC).count(), 3);
}
