//! What time does to zones: recommendations, and excursions that finish them.

use crate::common::zones::*;
use crate::common::{Bench, bytes};
use ftl::{ZoneAging, ZonesConfig};
use media::Nanos;
use nvme::aer::{AsyncEvent, NoticeInfo};
use nvme::feature::{AsyncEventConfiguration, FeatureId};
use nvme::identify::{Cns, ZonedNamespace};
use nvme::log::{ChangedZones, LogId};
use nvme::zone::{ZoneAttributes, ZoneReport, ZoneSendAction, ZoneState};
use nvme::{Command, Csi, Status, U32};

const SECOND: u64 = 1_000_000_000;

/// Zones that should be finished after 10 s, are after 15 s, and should be reset after another 20 s.
fn aging() -> Bench {
    let seconds = |seconds| Nanos(seconds * SECOND);
    let aging = ZoneAging {
        finish_after: seconds(10),
        excursion_after: seconds(15),
        reset_after: seconds(20),
        reset_limit: seconds(7),
    };
    with(ZonesConfig { aging, ..ZonesConfig::default() })
}

fn look(b: &mut Bench, nsid: u32, zone: u64) -> (ZoneState, ZoneAttributes) {
    let (status, data) = b.io(receive(nsid, zone, 16 + 16), &[]);
    assert!(status.is_success(), "{status}");
    let report = ZoneReport::parse(&data, 0).unwrap();
    let (zone, _) = report.zones().next().unwrap();
    (zone.state(), zone.za)
}

/// The Changed Zone List, which it clears.
fn changed(b: &mut Bench, nsid: u32) -> Vec<u64> {
    let mut command = Command::get_log_page(LogId::CHANGED_ZONES, nsid, 0, 0, 4096);
    command.cdw10 = U32::new(command.cdw10.get() & !(1 << 15));
    let log: ChangedZones = b.ask(command);
    log.zones().unwrap().iter().map(|zslba| zslba.get()).collect()
}

fn until(b: &mut Bench, begin: Nanos, seconds: u64) {
    b.run_until(Nanos(begin.0 + seconds * SECOND));
}

#[test]
fn zones_that_are_active_for_long_are_finished_and_the_host_is_told() {
    let none = ZoneAttributes::new();
    let mut b = aging();
    let nsid = create(&mut b, &new_namespace());
    let zoned: ZonedNamespace = b.ask(identify(Cns::IOCS_NAMESPACE, nsid, Csi::ZONED));
    assert!(zoned.zoc.zae() && !zoned.zoc.vzcap());
    assert_eq!((zoned.frl.get(), zoned.rrl.get()), (5, 7));
    let enabled = AsyncEventConfiguration::new().with_zdcn(true).into_bits().get();
    b.admin_ok(Command::set_features(FeatureId::ASYNC_EVENT_CONFIGURATION, 0, enabled), &[]);
    let request = Command::new(nvme::AdminOpcode::ASYNC_EVENT_REQUEST.0, 0);
    let me = b.controller;
    let requests: Vec<u32> = (0..3).map(|_| b.submit(me, 0, &request, &[])).collect();
    let told = |b: &Bench, i: usize| {
        let (completion, _) = b.done.get(&requests[i])?;
        Some((AsyncEvent::from_dw0(completion.dw0.get()), completion.dw1.get()))
    };
    let event = AsyncEvent::notice(NoticeInfo::ZONE_DESCRIPTOR_CHANGED);

    assert!(write(&mut b, nsid, SIZE, 8).is_success());
    let begin = b.now;
    until(&mut b, begin, 9);
    assert!(send(&mut b, nsid, ZoneSendAction::OPEN, 2).is_success());
    // More writes, and a close, do not make it younger.
    assert!(write(&mut b, nsid, SIZE + 8, 8).is_success());
    assert!(send(&mut b, nsid, ZoneSendAction::CLOSE, 1).is_success());
    assert_eq!((look(&mut b, nsid, 1), told(&b, 0)), ((ZoneState::CLOSED, none), None));
    until(&mut b, begin, 11);
    assert_eq!(look(&mut b, nsid, 1), (ZoneState::CLOSED, none.with_fzr(true)));
    assert_eq!(look(&mut b, nsid, 2), (ZoneState::EXPLICITLY_OPENED, none));
    assert_eq!(told(&b, 0), Some((event, nsid)));
    assert_eq!(changed(&mut b, nsid), [SIZE]);
    assert!(changed(&mut b, nsid).is_empty());

    until(&mut b, begin, 16);
    assert_eq!(look(&mut b, nsid, 1), (ZoneState::FULL, none.with_zfc(true)));
    assert_eq!(b.read(nsid, SIZE, 8), crate::common::pattern(SIZE as u32, 8 * 4096));
    assert!(write(&mut b, nsid, SIZE + 16, 8).is(Status::ZONE_IS_FULL));
    assert_eq!((told(&b, 1), changed(&mut b, nsid)), (Some((event, nsid)), vec![SIZE]));
    // A reset in time: the zone begins anew.
    assert!(send(&mut b, nsid, ZoneSendAction::RESET, 2).is_success());
    until(&mut b, begin, 30);
    assert_eq!(look(&mut b, nsid, 2), (ZoneState::EMPTY, none));
    assert_eq!((told(&b, 2), changed(&mut b, nsid)), (None, vec![]));

    until(&mut b, begin, 36);
    assert_eq!(look(&mut b, nsid, 1), (ZoneState::FULL, none.with_zfc(true).with_rzr(true)));
    assert_eq!((told(&b, 2), changed(&mut b, nsid)), (Some((event, nsid)), vec![SIZE]));
    assert!(send(&mut b, nsid, ZoneSendAction::RESET, 1).is_success());
    assert_eq!(look(&mut b, nsid, 1), (ZoneState::EMPTY, none));
}

#[test]
fn a_loss_of_power_begins_the_time_anew_and_keeps_what_was_finished() {
    let none = ZoneAttributes::new();
    let mut b = aging();
    let nsid = create(&mut b, &new_namespace());
    assert!(write(&mut b, nsid, SIZE, 8).is_success());
    let begin = b.now;
    until(&mut b, begin, 12);
    assert!(write(&mut b, nsid, 3 * SIZE, 8).is_success());
    until(&mut b, begin, 16);
    b.cut(true);
    b.power_on();
    let begin = b.now;
    assert_eq!(look(&mut b, nsid, 1), (ZoneState::FULL, none.with_zfc(true)));
    assert_eq!(look(&mut b, nsid, 3), (ZoneState::CLOSED, none));
    until(&mut b, begin, 9);
    assert_eq!(look(&mut b, nsid, 3), (ZoneState::CLOSED, none));
    until(&mut b, begin, 11);
    assert_eq!(look(&mut b, nsid, 3), (ZoneState::CLOSED, none.with_fzr(true)));
    until(&mut b, begin, 21);
    assert_eq!(look(&mut b, nsid, 1), (ZoneState::FULL, none.with_zfc(true).with_rzr(true)));
}

#[test]
fn without_it_time_does_nothing() {
    let mut b = bench();
    let nsid = create(&mut b, &new_namespace());
    let zoned: ZonedNamespace = b.ask(identify(Cns::IOCS_NAMESPACE, nsid, Csi::ZONED));
    assert_eq!(bytes(&zoned)[..24], [&[0, 0, 1, 0, 3, 0, 0, 0, 3][..], &[0; 15]].concat());
    assert!(write(&mut b, nsid, SIZE, 8).is_success());
    b.run_until(Nanos(1_000_000 * SECOND));
    assert_eq!(look(&mut b, nsid, 1), (ZoneState::IMPLICITLY_OPENED, ZoneAttributes::new()));
}
