//! Flexible Data Placement, as a host sees it.

use crate::common::table::Table;
use crate::common::{Bench, bytes, small};
use device::Config;
use nvme::admin::*;
use nvme::fdp::*;
use nvme::feature::{FdpEventsCdw11, FdpMode, FeatureId, Select};
use nvme::identify::{Cns, ControllerList, IdentifyController, NamespaceCreate};
use nvme::io::{Blocks, IoManagementReceive, IoManagementSend};
use nvme::log::{LogId, SupportedLogPages};
use nvme::zerocopy::{FromBytes, Immutable, KnownLayout};
use nvme::{AdminCommand, Command, Csi, IoCommand, NSID_ALL, Status, U16, U64};

const FIELD: Status = Status::INVALID_FIELD;

/// Set 1 has four handles.
const HANDLES: (&str, &str) =
    ("spare = \"28%\"\n", "spare = \"60%\"\nplacement = { handles = 4, isolation = \"persistent\" }\n");

fn drive() -> Config {
    small(&[HANDLES])
}

fn get(fid: FeatureId, nsid: u32, cdw11: u32) -> GetFeatures {
    GetFeatures { nsid, fid, sel: Select::CURRENT, uidx: 0, cdw11 }
}

fn set(fid: FeatureId, nsid: u32, cdw11: u32, cdw12: u32) -> SetFeatures {
    SetFeatures { nsid, fid, sv: true, uidx: 0, cdw11, cdw12, cdw13: 0, cdw15: 0 }
}

fn log(lid: LogId, endgid: u16, lsp: u8, bytes: u64) -> GetLogPage {
    GetLogPage {
        nsid: NSID_ALL,
        lid,
        lsp,
        lsi: endgid,
        rae: false,
        dwords: bytes / 4,
        offset: 0,
        ot: false,
        csi: Csi::NVM,
        uidx: 0,
    }
}

fn enable(b: &mut Bench) {
    b.admin_ok(set(FeatureId::FDP, NSID_ALL, 1, FdpMode::new().with_fdpe(true).into_bits().get()), &[]);
}

/// Creates and attaches a namespace of 2,048 blocks on set 1 with these reclaim unit handles.
fn create(b: &mut Bench, handles: &[u16]) -> Result<u32, Status> {
    create_sized(b, handles, 2048)
}

fn create_sized(b: &mut Bench, handles: &[u16], blocks: u64) -> Result<u32, Status> {
    let mut new = NamespaceCreate {
        nsze: U64::new(blocks),
        ncap: U64::new(blocks),
        endgid: U16::new(1),
        nphndls: U16::new(handles.len() as u16),
        ..Default::default()
    };
    for (to, from) in new.phndl.iter_mut().zip(handles) {
        to.set(*from);
    }
    let create = NamespaceManagement { nsid: 0, sel: NamespaceManagementSelect::CREATE, csi: Csi::NVM };
    let (completion, _) = b.admin(create, &bytes(&new));
    completion.status().code().ok()?;
    let nsid = completion.dw0.get();
    let list = ControllerList::new([b.controller.0]);
    b.admin_ok(NamespaceAttachment { nsid, sel: NamespaceAttachmentSelect::ATTACH }, &bytes(&list));
    Ok(nsid)
}

fn placed(nsid: u32, slba: u64, blocks: u32, pid: u16) -> Command {
    IoCommand::Write(Blocks { dtype: DATA_PLACEMENT, dspec: pid, ..Blocks::new(nsid, slba, blocks) }).into()
}

fn parts<H, T>(data: &[u8]) -> (H, Vec<T>)
where
    H: FromBytes + KnownLayout + Immutable,
    T: FromBytes + KnownLayout + Immutable,
{
    let (head, rest) = H::read_from_prefix(data).unwrap_or_else(|_| panic!("no head"));
    let items = rest
        .chunks_exact(size_of::<T>())
        .map(|c| T::read_from_bytes(c).unwrap_or_else(|_| panic!("no item")));
    (head, items.collect())
}

fn status(b: &mut Bench, nsid: u32) -> Vec<ReclaimUnitHandleStatus> {
    let command = IoManagementReceive { nsid, mo: RUH_STATUS, mos: 0, dwords: 64 };
    let (status, data) = b.io(IoCommand::IoManagementReceive(command), &[]);
    assert_eq!(status, Status::SUCCESS);
    let (head, all) = parts::<ReclaimUnitHandleStatusHeader, ReclaimUnitHandleStatus>(&data);
    all[..usize::from(head.nruhsd.get())].to_vec()
}

fn update(nsid: u32, count: u16) -> IoCommand {
    IoCommand::IoManagementSend(IoManagementSend { nsid, mo: RUH_UPDATE, mos: count - 1 })
}

fn events(b: &mut Bench, host: bool) -> Vec<FdpEvent> {
    let (_, data) = b.admin_ok(log(LogId::FDP_EVENTS, 1, u8::from(host), 64 * 64), &[]);
    let (head, all) = parts::<FdpEventsHeader, FdpEvent>(&data);
    all[..head.n.get() as usize].to_vec()
}

fn log_events(b: &mut Bench, nsid: u32, handle: u16, types: &[FdpEventType]) {
    let cdw11 = FdpEventsCdw11::new().with_phndl(handle).with_noet(types.len() as u8).into_bits().get();
    let data: Vec<u8> = types.iter().map(|t| t.0).collect();
    b.admin_ok(set(FeatureId::FDP_EVENTS, nsid, cdw11, 1), &data);
}

/// Writes blocks one after the other, in commands of eight.
fn fill(b: &mut Bench, nsid: u32, blocks: std::ops::Range<u64>, pid: u16) {
    for slba in blocks.step_by(8) {
        let (status, _) = b.io(placed(nsid, slba, 8, pid), &crate::common::pattern(slba as u32, 8 * 4096));
        assert_eq!(status, Status::SUCCESS);
    }
}

#[test]
fn what_a_drive_without_handles_says() {
    let mut b = Bench::with_namespaces(&[]);
    let identify = |cns| Identify { nsid: 0, cns, cntid: 0, cnssid: 0, csi: Csi::NVM, uidx: 0 };
    let c: IdentifyController = b.ask(identify(Cns::CONTROLLER));
    assert!(!c.ctratt.fdps());
    let (got, _) = b.admin(get(FeatureId::FDP, 0, 1), &[]);
    assert!(got.status().is(FIELD));
    let (got, _) = b.admin(log(LogId::FDP_CONFIGURATIONS, 1, 0, 64), &[]);
    assert!(got.status().is(Status::INVALID_LOG_PAGE));
    let receive = IoManagementReceive { nsid: 1, mo: RUH_STATUS, mos: 0, dwords: 4 };
    assert!(b.io(IoCommand::IoManagementReceive(receive), &[]).0.is(Status::INVALID_OPCODE));
    assert!(b.io(update(1, 1), &[0, 0]).0.is(Status::INVALID_OPCODE));
}

#[test]
fn it_is_enabled_while_the_group_is_empty() {
    let mut b = Bench::new(drive());
    let identify = Identify { nsid: 0, cns: Cns::CONTROLLER, cntid: 0, cnssid: 0, csi: Csi::NVM, uidx: 0 };
    let c: IdentifyController = b.ask(identify);
    assert!(c.ctratt.fdps());
    let logs: SupportedLogPages = b.ask(log(LogId::SUPPORTED, 0, 0, 1024));
    assert!((0x20..0x24).all(|lid| logs.lid[lid].lsupp()));
    let (_, data) = b.admin_ok(log(LogId::FDP_CONFIGURATIONS, 1, 0, 96), &[]);
    let (head, rest) = FdpConfigurationsHeader::read_from_prefix(&data).ok().unwrap();
    assert_eq!((head.n_z.get(), head.sze.get()), (0, 96));
    let (configuration, handles) = parts::<FdpConfiguration, ReclaimUnitHandleDescriptor>(rest);
    assert_eq!((configuration.nruh.get(), configuration.nrg.get(), configuration.dsze.get()), (4, 1, 80));
    assert_eq!((configuration.fdpa, configuration.runs.get()), (0x80, 4 * 2 * 48 * 4096));
    assert!(handles.iter().all(|h| h.ruht == ReclaimUnitHandleType::PERSISTENTLY_ISOLATED));

    // Not enabled: no statistics, no handles.
    let (got, _) = b.admin(log(LogId::RUH_USAGE, 1, 0, 64), &[]);
    assert!(got.status().is(Status::FDP_DISABLED));
    assert_eq!(create(&mut b, &[1]), Err(Status::FDP_DISABLED));
    let plain = create(&mut b, &[]).unwrap();
    assert!(b.io(placed(plain, 0, 8, 0), &[0; 32768]).0.is(FIELD));
    assert!(b.io(update(plain, 1), &[0, 0]).0.is(Status::FDP_DISABLED));
    let on = FdpMode::new().with_fdpe(true);
    let (got, _) = b.admin(set(FeatureId::FDP, 0, 1, on.into_bits().get()), &[]);
    assert!(got.status().is(Status::COMMAND_SEQUENCE_ERROR));
    b.admin_ok(
        NamespaceManagement { nsid: plain, sel: NamespaceManagementSelect::DELETE, csi: Csi::NVM },
        &[],
    );
    for (name, endgid, value) in [
        ("no group", 0, on),
        ("a group without flash", 2, on),
        ("a group that is not there", 3, on),
        ("another configuration", 1, on.with_fdpcidx(1)),
    ] {
        let (got, _) = b.admin(set(FeatureId::FDP, 0, endgid, value.into_bits().get()), &[]);
        assert!(got.status().is(FIELD), "{name}: {}", got.status());
    }
    enable(&mut b);
    assert_eq!(b.admin_ok(get(FeatureId::FDP, 0, 1), &[]).0, 1);
    assert_eq!(b.admin_ok(get(FeatureId::FDP, 0, 2), &[]).0, 0);

    // Reclaim unit handles of namespaces.
    let invalid = Err(Status::INVALID_PLACEMENT_HANDLE_LIST);
    assert_eq!(create(&mut b, &[0, 4]), invalid, "a handle that is not there");
    assert_eq!(create(&mut b, &[1, 1]), invalid, "the same handle twice");
    assert_eq!(create(&mut b, &[0; 129]), invalid, "more handles than fit");
    create(&mut b, &[2, 0]).unwrap();
    // The controller takes one that is free; nobody else may have that then.
    let chosen = create(&mut b, &[]).unwrap();
    assert_eq!(status(&mut b, chosen).iter().map(|s| s.ruhid.get()).collect::<Vec<_>>(), [1]);
    assert_eq!(create(&mut b, &[1]), invalid);
    let (_, data) = b.admin_ok(log(LogId::RUH_USAGE, 1, 0, 40), &[]);
    let (head, usage) = parts::<ReclaimUnitHandleUsageHeader, ReclaimUnitHandleUsage>(&data);
    assert_eq!(head.nruh.get(), 4);
    let uses: Vec<u8> = usage.iter().map(|u| u.ruha.0).collect();
    assert_eq!(uses, [1, 2, 1, 0]);
}

#[test]
fn writes_go_to_the_reclaim_unit_of_their_identifier() {
    let mut b = Bench::new(drive());
    enable(&mut b);
    let nsid = create(&mut b, &[2, 0]).unwrap();
    let unit = 4 * 2 * 48;
    fill(&mut b, nsid, 0..80, 1);
    fill(&mut b, nsid, 80..96, 0);
    let read = |s: &[ReclaimUnitHandleStatus]| -> Vec<(u16, u16, u64)> {
        s.iter().map(|s| (s.pid.get(), s.ruhid.get(), s.ruamw.get())).collect()
    };
    assert_eq!(read(&status(&mut b, nsid)), [(0, 2, unit - 16), (1, 0, unit - 80)]);
    // Without a directive: the first placement handle.
    b.write(nsid, 96, 8, &[7; 32768]);
    assert_eq!(read(&status(&mut b, nsid)), [(0, 2, unit - 24), (1, 0, unit - 80)]);

    log_events(
        &mut b,
        nsid,
        0,
        &[FdpEventType::NOT_FULLY_WRITTEN, FdpEventType::INVALID_PLACEMENT_IDENTIFIER],
    );
    // An identifier that is not there does not fail the write.
    let (got, _) = b.io(placed(nsid, 104, 8, 9), &[1; 32768]);
    assert_eq!(got, Status::SUCCESS);
    assert_eq!(read(&status(&mut b, nsid)), [(0, 2, unit - 32), (1, 0, unit - 80)]);
    // All identifiers are checked before a handle changes.
    assert!(b.io(update(nsid, 2), &bytes(&[U16::new(0), U16::new(2)])).0.is(FIELD));
    assert_eq!(read(&status(&mut b, nsid))[0].2, unit - 32);
    assert_eq!(b.io(update(nsid, 2), &bytes(&[U16::new(0), U16::new(0)])).0, Status::SUCCESS);
    assert_eq!(read(&status(&mut b, nsid)), [(0, 2, unit), (1, 0, unit - 80)]);
    let seen: Vec<_> = events(&mut b, true)
        .iter()
        .map(|e| (e.fdpet, e.fdpef, e.pid.get(), e.nsid.get(), e.ruhid.get()))
        .collect();
    assert_eq!(
        seen,
        [
            (FdpEventType::INVALID_PLACEMENT_IDENTIFIER, 3, 9, nsid, 0),
            (FdpEventType::NOT_FULLY_WRITTEN, 7, 0, nsid, 2)
        ]
    );
    assert!(events(&mut b, false).is_empty());
    // What was written before and after is there.
    assert_eq!(b.read(nsid, 0, 8), crate::common::pattern(0, 32768));
    assert_eq!(b.read(nsid, 104, 8), [1; 32768]);
}

#[test]
fn events_and_statistics_tell_of_collection() {
    let mut b = Bench::new(drive());
    enable(&mut b);
    let hot = create(&mut b, &[0]).unwrap();
    let cold = create_sized(&mut b, &[3], 14_336).unwrap();
    log_events(&mut b, hot, 0, &[FdpEventType::IMPLICITLY_MODIFIED]);
    log_events(&mut b, cold, 0, &[FdpEventType::MEDIA_REALLOCATED]);
    let mut rng = media::Rng::new(5);
    // One of the two overwrites itself at random, the other one slowly.
    fill(&mut b, cold, 0..14_336, 0);
    for _ in 0..8000 {
        let at = rng.below(256) * 8;
        fill(&mut b, hot, at..at + 8, 0);
        if rng.below(2) == 0 {
            let at = rng.below(14_336 / 8) * 8;
            fill(&mut b, cold, at..at + 8, 0);
        }
    }
    let seen = events(&mut b, false);
    let filled: Vec<_> = seen.iter().filter(|e| e.fdpet == FdpEventType::IMPLICITLY_MODIFIED).collect();
    let moved: Vec<_> = seen.iter().filter(|e| e.fdpet == FdpEventType::MEDIA_REALLOCATED).collect();
    assert!(!filled.is_empty() && filled.iter().all(|e| (e.ruhid.get(), e.fdpef) == (0, 4)));
    assert!(!moved.is_empty() && moved.iter().all(|e| e.ruhid.get() == 3));
    for event in moved.iter().filter(|e| e.fdpef & 2 != 0) {
        let what = MediaReallocated::read_from_bytes(&event.specific).ok().unwrap();
        assert_eq!((event.nsid.get(), event.pid.get(), what.sef), (cold, 0, 1));
        assert!(what.lba.get() < 14_336 && what.nlbam.get() > 0);
    }
    let statistics: FdpStatistics = b.ask(log(LogId::FDP_STATISTICS, 1, 0, 64));
    let written = statistics.hbmw.get();
    assert!(written > 8000 * 32768 && statistics.mbmw.get() > written);
    assert!(statistics.mbe.get() > written / 2);
}

#[test]
fn everything_outlives_power() {
    let mut b = Bench::new(drive());
    enable(&mut b);
    let nsid = create(&mut b, &[3, 1]).unwrap();
    log_events(&mut b, nsid, 1, &[FdpEventType::NOT_FULLY_WRITTEN]);
    fill(&mut b, nsid, 0..96, 0);
    fill(&mut b, nsid, 96..240, 1);
    b.run_until(media::Nanos(1_000_000_000));
    let before: Vec<_> = status(&mut b, nsid).iter().map(|s| s.ruhid.get()).collect();
    let handles_of = |b: &mut Bench| status(b, nsid).iter().map(|s| s.ruhid.get()).collect::<Vec<_>>();
    let check = |b: &mut Bench| {
        assert_eq!(b.admin_ok(get(FeatureId::FDP, 0, 1), &[]).0, 1);
        for slba in (0..240).step_by(8) {
            assert_eq!(b.read(nsid, slba, 8), crate::common::pattern(slba as u32, 32768));
        }
        let cdw11 = FdpEventsCdw11::new().with_phndl(1).with_noet(4).into_bits().get();
        let (count, data) = b.admin_ok(get(FeatureId::FDP_EVENTS, nsid, cdw11), &[]);
        assert_eq!((count, data), (4, vec![0, 1, 3, 0, 0x80, 0, 0x81, 0]));
    };
    b.cut(true);
    b.power_on();
    let list = ControllerList::new([b.controller.0]);
    b.admin(NamespaceAttachment { nsid, sel: NamespaceAttachmentSelect::ATTACH }, &bytes(&list));
    assert_eq!(handles_of(&mut b), before);
    check(&mut b);
    // The same for an image that is opened again.
    let saved = b.drive.save();
    let mut memory = b.memory.clone();
    let restored = device::Drive::restore(drive(), &saved).unwrap().finish(b.now, &mut memory).unwrap();
    let mut b = Bench::around(restored, memory);
    let list = ControllerList::new([b.controller.0]);
    b.admin(NamespaceAttachment { nsid, sel: NamespaceAttachmentSelect::ATTACH }, &bytes(&list));
    assert_eq!(handles_of(&mut b), before);
    check(&mut b);
}

#[test]
fn refused_placements() {
    let mut b =
        Bench::new(small(&[(HANDLES.0, "spare = \"60%\"\nplacement = { handles = 4, fdp = true }\n")]));
    let nsid = create(&mut b, &[0, 1]).unwrap();
    let receive =
        |mo, dwords| IoCommand::IoManagementReceive(IoManagementReceive { nsid, mo, mos: 0, dwords }).into();
    let send = |nsid, mo, mos| IoCommand::IoManagementSend(IoManagementSend { nsid, mo, mos }).into();
    let streams: Command = IoCommand::Write(Blocks { dtype: 3, dspec: 1, ..Blocks::new(nsid, 0, 1) }).into();
    let rows: [(&str, Command, &[u8], Status); 8] = [
        ("an unknown operation to receive", receive(2, 4), &[], FIELD),
        ("more than MDTS", receive(RUH_STATUS, 1 << 20), &[], FIELD),
        ("an unknown operation to send", send(nsid, 9, 0), &[], FIELD),
        ("an identifier that is not there", send(nsid, RUH_UPDATE, 0), &[2, 0], FIELD),
        ("too little data", send(nsid, RUH_UPDATE, 3), &[0, 0], Status::DATA_SGL_LENGTH_INVALID),
        ("another namespace", send(7, RUH_UPDATE, 0), &[0, 0], FIELD),
        ("no namespace", send(NSID_ALL, RUH_UPDATE, 0), &[0, 0], Status::INVALID_NAMESPACE),
        ("a directive that is reserved", streams, &[0; 4096], FIELD),
    ];
    let mut table = Table::new("Flexible Data Placement", "fdp.rs", "refused_placements");
    for (name, command, data, status) in rows {
        let (got, _) = b.io(command, data);
        table.check(name, false, &command, got, status);
    }
    let cdw11 = |handle, types| FdpEventsCdw11::new().with_phndl(handle).with_noet(types).into_bits().get();
    let fid = FeatureId::FDP_EVENTS;
    let rows: [(&str, AdminCommand, &[u8], Status); 6] = [
        (
            "events of a handle that is not there",
            AdminCommand::SetFeatures(set(fid, nsid, cdw11(2, 1), 1)),
            &[0],
            FIELD,
        ),
        (
            "an event that is not there",
            AdminCommand::SetFeatures(set(fid, nsid, cdw11(0, 1), 1)),
            &[2],
            FIELD,
        ),
        (
            "too few types",
            AdminCommand::SetFeatures(set(fid, nsid, cdw11(0, 3), 1)),
            &[0],
            Status::DATA_SGL_LENGTH_INVALID,
        ),
        (
            "events of no namespace",
            AdminCommand::SetFeatures(set(fid, NSID_ALL, cdw11(0, 1), 1)),
            &[0],
            Status::INVALID_NAMESPACE,
        ),
        ("no room for events", AdminCommand::GetFeatures(get(fid, nsid, cdw11(0, 0))), &[], FIELD),
        ("a log of no group", AdminCommand::GetLogPage(log(LogId::FDP_STATISTICS, 0, 0, 64)), &[], FIELD),
    ];
    for (name, command, data, status) in rows {
        let (got, _) = b.admin(command, data);
        table.check(name, true, &command.into(), got.status(), status);
    }
    table.finish();
}
