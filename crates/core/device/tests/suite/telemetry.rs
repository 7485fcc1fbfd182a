//! The Telemetry logs: what a capture holds, who asks for it, and how long it stays.

use crate::common::{Bench, pattern, small};
use nvme::admin::GetLogPage;
use nvme::aer::{AsyncEvent, NoticeInfo};
use nvme::feature::{AsyncEventConfiguration, FeatureId};
use nvme::identify::{Cns, IdentifyController};
use nvme::log::{LogId, PersistentEvent, PersistentEventType, TELEMETRY_BLOCK, TelemetryHeader};
use nvme::property::PropertyOffset;
use nvme::zerocopy::FromBytes;
use nvme::{Command, Csi, Status};
use serde_json::Value;

fn read(lid: LogId, lsp: u8, offset: u64, rae: bool, bytes: usize) -> GetLogPage {
    GetLogPage {
        nsid: 0,
        lid,
        lsp,
        lsi: 0,
        rae,
        dwords: bytes as u64 / 4,
        offset,
        ot: false,
        csi: Csi::NVM,
        uidx: 0,
    }
}

fn header(b: &mut Bench, lid: LogId) -> TelemetryHeader {
    b.ask(read(lid, 0, 0, true, TELEMETRY_BLOCK))
}

/// The documents of a log's three data areas, read block by block.
fn areas(b: &mut Bench, lid: LogId) -> [Value; 3] {
    let header = header(b, lid);
    let mut first = 1;
    [header.dalb1, header.dalb2, header.dalb3].map(|last| {
        let mut text = Vec::new();
        for block in first..=u64::from(last.get()) {
            text.extend(b.admin_ok(read(lid, 0, block * 512, true, TELEMETRY_BLOCK), &[]).1);
        }
        first = u64::from(last.get()) + 1;
        let end = text.iter().position(|c| *c == 0).unwrap_or(text.len());
        assert!(text[end..].iter().all(|c| *c == 0));
        serde_json::from_slice(&text[..end]).expect("a document")
    })
}

fn wear_out(b: &mut Bench) {
    b.fail_erases();
    let mut written = 0;
    while b.io(Command::write(1, written % 1000, 1), &pattern(1, 4096)).0.is_success() {
        written += 1;
        assert!(written < 200_000, "the drive wears out");
    }
}

#[test]
fn a_host_asks_for_a_capture() {
    let mut b = Bench::with_namespaces(&[]);
    let id: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    assert!(id.lpa.ts() && !id.lpa.da4s() && id.oaes.tln());
    let before = header(&mut b, LogId::TELEMETRY_HOST);
    assert_eq!((before.lid, before.dalb3.get(), before.host_generation), (LogId::TELEMETRY_HOST, 0, 0));
    assert_eq!((before.host_scope, before.controller_available), (2, 0));

    b.write(1, 0, 2, &pattern(1, 8192));
    b.io(Command::read(1, 1 << 40, 1), &[]);
    let created: TelemetryHeader = b.ask(read(LogId::TELEMETRY_HOST, 1, 0, true, TELEMETRY_BLOCK));
    assert_eq!(created.host_generation, 1);
    assert!(created.dalb1.get() > 0 && created.dalb1 < created.dalb2 && created.dalb2 < created.dalb3);
    // The newest event of the drive's life.
    let (_, log) = b.admin_ok(read(LogId::PERSISTENT_EVENT, 1, 0, true, 2048), &[]);
    let (event, data) = PersistentEvent::read_from_prefix(&log[512..]).unwrap();
    assert_eq!((event.etype, event.el.get()), (PersistentEventType::TELEMETRY_CREATED, 512));
    assert_eq!(TelemetryHeader::read_from_prefix(data).unwrap().0, created);
    // What comes later is not in it.
    b.write(1, 0, 2, &pattern(1, 8192));
    assert_eq!(header(&mut b, LogId::TELEMETRY_HOST), created);
    let [summary, inventory, failures] = areas(&mut b, LogId::TELEMETRY_HOST);
    assert_eq!(summary["serial"], b.drive.config().identity.serial.as_str());
    assert_eq!(summary["traffic"]["written_bytes"], 8192);
    assert_eq!(inventory["sets"].as_array().unwrap().len(), usize::from(id.nsetidmax.get()));
    assert_eq!(inventory["namespaces"][0]["nsid"], 1);
    assert_eq!(inventory["namespaces"][0]["traffic"]["written_bytes"], 8192);
    let newest = &failures["controllers"][0]["newest"][0];
    assert_eq!(newest["status"], Status::LBA_OUT_OF_RANGE.code().0);
    assert_eq!(newest["lba"], 1u64 << 40);

    // Generations outlive power; what a host asked for does not.
    b.cut(false);
    b.power_on();
    let after = header(&mut b, LogId::TELEMETRY_HOST);
    assert_eq!((after.host_generation, after.dalb3.get()), (1, 0));
    let again: TelemetryHeader = b.ask(read(LogId::TELEMETRY_HOST, 1, 0, true, TELEMETRY_BLOCK));
    assert_eq!(again.host_generation, 2);
}

#[test]
fn the_drive_captures_when_its_health_gets_worse() {
    let mut b = Bench::with_namespaces(&[]);
    let me = b.controller;
    let configuration = AsyncEventConfiguration::new().with_tln(true).into_bits().get();
    b.admin_ok(Command::set_features(FeatureId::ASYNC_EVENT_CONFIGURATION, 0, configuration), &[]);
    let request = Command::new(nvme::AdminOpcode::ASYNC_EVENT_REQUEST.0, 0);
    let io = b.submit(me, 0, &request, &[]);
    assert_eq!(header(&mut b, LogId::TELEMETRY_CONTROLLER).controller_available, 0);
    wear_out(&mut b);
    let event = AsyncEvent::from_dw0(b.wait(io).0.dw0.get());
    assert_eq!(
        (event.info(), event.lid()),
        (NoticeInfo::TELEMETRY_LOG_CHANGED.0, LogId::TELEMETRY_CONTROLLER)
    );

    let own = header(&mut b, LogId::TELEMETRY_CONTROLLER);
    assert_eq!(
        (own.lid, own.controller_available, own.controller_generation),
        (LogId::TELEMETRY_CONTROLLER, 1, 1)
    );
    assert!(own.reason.starts_with(b"critical warning "));
    // The other log tells of it, too.
    assert_eq!(header(&mut b, LogId::TELEMETRY_HOST).controller_available, 1);
    let captured = areas(&mut b, LogId::TELEMETRY_CONTROLLER);
    assert_ne!(captured[0]["critical_warning"], 0);
    // It stays until a host has read it without Retain Asynchronous Event, over resets, losses of power and restarts.
    b.set_property(me, PropertyOffset::CC, 0).unwrap();
    b.enable(me);
    assert_eq!(header(&mut b, LogId::TELEMETRY_CONTROLLER), own);
    for energy in [true, false] {
        b.cut(energy);
        b.power_on();
        assert_eq!(header(&mut b, LogId::TELEMETRY_CONTROLLER), own);
    }
    let drive = device::Drive::restore(b.drive.config().clone(), &b.drive.save()).unwrap();
    let drive = drive.finish(b.now, &mut b.memory).unwrap();
    let mut b = Bench::around(drive, b.memory.clone());
    assert_eq!(header(&mut b, LogId::TELEMETRY_CONTROLLER), own);
    assert_eq!(areas(&mut b, LogId::TELEMETRY_CONTROLLER), captured);
    let (_, last) = b.admin_ok(read(LogId::TELEMETRY_CONTROLLER, 0, 0, false, TELEMETRY_BLOCK), &[]);
    assert_eq!(TelemetryHeader::ref_from_bytes(&last).unwrap(), &own);
    let released = header(&mut b, LogId::TELEMETRY_CONTROLLER);
    assert_eq!(
        (released.controller_available, released.controller_generation, released.dalb3.get()),
        (0, 1, 0)
    );
    let drive = device::Drive::restore(b.drive.config().clone(), &b.drive.save()).unwrap();
    let drive = drive.finish(b.now, &mut b.memory).unwrap();
    let mut b = Bench::around(drive, b.memory.clone());
    assert_eq!(header(&mut b, LogId::TELEMETRY_CONTROLLER), released);
}

#[test]
fn a_backup_that_failed_is_captured_when_power_is_back() {
    let mut b = Bench::with_namespaces(&[]);
    b.cut(true);
    b.power_on();
    assert_eq!(header(&mut b, LogId::TELEMETRY_CONTROLLER).controller_available, 0);
    b.cut(false);
    b.power_on();
    assert_eq!(header(&mut b, LogId::TELEMETRY_CONTROLLER).controller_available, 1);
    let [summary, ..] = areas(&mut b, LogId::TELEMETRY_CONTROLLER);
    assert_eq!((&summary["critical_warning"], &summary["backup_failed"]), (&16.into(), &true.into()));
}

#[test]
fn whoever_does_not_want_the_notice_does_not_get_it() {
    let mut b = Bench::with_namespaces(&[]);
    let me = b.controller;
    let io = b.submit(me, 0, &Command::new(nvme::AdminOpcode::ASYNC_EVENT_REQUEST.0, 0), &[]);
    wear_out(&mut b);
    assert!(!b.done.contains_key(&io));
    assert_eq!(header(&mut b, LogId::TELEMETRY_CONTROLLER).controller_available, 1);
}

#[test]
fn blocks_are_read_whole() {
    let mut b = Bench::new(small(&[]));
    for lid in [LogId::TELEMETRY_HOST, LogId::TELEMETRY_CONTROLLER] {
        let (got, _) = b.admin(read(lid, 0, 4, true, TELEMETRY_BLOCK), &[]);
        assert!(got.status().is(Status::INVALID_FIELD), "{}", got.status());
        let (got, _) = b.admin(read(lid, 0, 1 << 20, true, TELEMETRY_BLOCK), &[]);
        assert!(got.status().is(Status::INVALID_FIELD), "{}", got.status());
        let (got, _) = b.admin(read(lid, 0, 0, true, TELEMETRY_BLOCK + 4), &[]);
        assert!(got.status().is(Status::INVALID_FIELD), "{}", got.status());
    }
}
