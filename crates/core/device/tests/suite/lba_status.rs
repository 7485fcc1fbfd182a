//! The LBA Status Information log, its attributes and its alert.

use crate::common::{Bench, initial, pattern, small};
use device::Origin;
use media::{Nanos, Rng};
use nvme::admin::*;
use nvme::feature::{AsyncEventConfiguration, FeatureId, LbaStatusAttributes};
use nvme::identify::{Cns, IdentifyController};
use nvme::log::{LbaRangeDescriptor, LbaStatusLogElement, LbaStatusLogHeader, LogId};
use nvme::zerocopy::FromBytes;
use nvme::{Command, Csi, NSID_ALL, Status};
use std::collections::BTreeMap;

/// Dword 0 of an LBA Status Information Alert.
const ALERT: u32 = 0x000E_0502;
/// 100 ms.
const UNIT: u64 = 100_000_000;

fn read(rae: bool, offset: u64, length: u64) -> GetLogPage {
    GetLogPage {
        nsid: NSID_ALL,
        lid: LogId::LBA_STATUS,
        lsp: 0,
        lsi: 0,
        rae,
        dwords: length / 4,
        offset,
        ot: false,
        csi: Csi::NVM,
        uidx: 0,
    }
}

/// By namespace, ranges of blocks: first, and how many.
type Ranges = BTreeMap<u32, Vec<(u64, u32)>>;

/// The log, read in two parts as hosts do.
fn log(b: &mut Bench, rae: bool) -> (LbaStatusLogHeader, Ranges) {
    let (_, header) = b.admin_ok(read(true, 0, 16), &[]);
    let header = LbaStatusLogHeader::read_from_bytes(&header).unwrap();
    let (_, whole) = b.admin_ok(read(rae, 0, header.lslplen.get().into()), &[]);
    let (again, mut rest) = LbaStatusLogHeader::read_from_prefix(&whole).unwrap();
    assert_eq!(again, header);
    let mut found = Ranges::new();
    let mut blocks = 0;
    for _ in 0..header.nlslne.get() {
        let (element, after) = LbaStatusLogElement::read_from_prefix(rest).unwrap();
        rest = after;
        assert_eq!(element.ratype, LbaStatusAction::TRACKED.0);
        assert!(element.nlrd.get() > 0);
        for _ in 0..element.nlrd.get() {
            let (range, after) = LbaRangeDescriptor::read_from_prefix(rest).unwrap();
            rest = after;
            blocks += range.rnlb.get();
            found.entry(element.neid.get()).or_default().push((range.rslba.get(), range.rnlb.get()));
        }
    }
    assert!(rest.is_empty());
    assert_eq!(header.estulb.get(), blocks);
    (header, found)
}

fn fault(b: &mut Bench, kind: FaultKind, nvmsetid: u16, count: u32, one_in: u32) {
    b.admin_ok(FaultInjection { nsid: 0, kind, nvmsetid, count, one_in, param: 0, lba: None }, &[]);
}

/// Loses a page of namespace 2, on DRAM: the write fails.
fn lose(b: &mut Bench, slba: u64) {
    fault(b, FaultKind::PROGRAM_FAILURE, 2, 1, 0);
    assert!(b.io(Command::write(2, slba, 1), &pattern(9, 4096)).0.is(Status::WRITE_FAULT));
}

fn notices(b: &mut Bench, on: bool) {
    let configuration = AsyncEventConfiguration::new().with_lsin(on).into_bits().get();
    b.admin_ok(Command::set_features(FeatureId::ASYNC_EVENT_CONFIGURATION, 0, configuration), &[]);
}

fn interval(b: &mut Bench, units: u16) {
    let attributes = LbaStatusAttributes::new().with_lsiri(units).with_lsipi(77).into_bits().get();
    b.admin_ok(Command::set_features(FeatureId::LBA_STATUS_ATTRIBUTES, 0, attributes), &[]);
}

/// Submits an Asynchronous Event Request.
fn listen(b: &mut Bench) -> u32 {
    let id = b.controller;
    b.submit(id, 0, &AdminCommand::AsyncEventRequest.into(), &[])
}

fn told(b: &Bench, io: u32) -> Option<u32> {
    b.done.get(&io).map(|(completion, _)| completion.dw0.get())
}

#[test]
fn the_log_tells_what_is_lost_until_it_is_written_or_given_up() {
    let mut b = Bench::with_namespaces(&[]);
    let id: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    assert!(id.oaes.lsin() && id.oacs.glss());
    let (empty, none) = log(&mut b, false);
    assert_eq!((none, empty.lslplen.get(), empty.lsgc.get()), (Ranges::new(), 16, 0));
    for slba in [7, 3, 4, 900] {
        lose(&mut b, slba);
    }
    let (header, ranges) = log(&mut b, false);
    assert_eq!(ranges, Ranges::from([(2, vec![(3, 2), (7, 1), (900, 1)])]));
    assert_eq!((header.lslplen.get(), header.lsgc.get()), (16 + 16 + 3 * 16, 1));
    assert_eq!(log(&mut b, false).0, header, "nothing has changed");
    // What the host marks itself is for Get LBA Status alone.
    let mark = nvme::IoCommand::WriteUncorrectable(nvme::io::Blocks::new(1, 0, 1));
    assert_eq!(b.io(mark, &[]).0, Status::SUCCESS);
    assert_eq!(log(&mut b, false).0, header);
    b.write(2, 3, 1, &pattern(1, 4096));
    let range = bytes_of_range(7);
    assert_eq!(b.io(Command::deallocate(2, 1), &range).0, Status::SUCCESS);
    let (header, ranges) = log(&mut b, false);
    assert_eq!((ranges, header.lsgc.get()), (Ranges::from([(2, vec![(4, 1), (900, 1)])]), 2));
    // Other controllers see what is attached to them.
    b.admin_ok(NamespaceManagement { nsid: 2, sel: NamespaceManagementSelect::DELETE, csi: Csi::NVM }, &[]);
    assert_eq!(log(&mut b, false).1, Ranges::new());
}

fn bytes_of_range(slba: u64) -> Vec<u8> {
    crate::common::bytes(&nvme::io::DsmRange::new(slba, 1))
}

#[test]
fn the_log_is_read_by_offset_and_belongs_to_no_namespace() {
    let mut b = Bench::with_namespaces(&[]);
    lose(&mut b, 5);
    let (_, whole) = b.admin_ok(read(true, 0, 48), &[]);
    assert_eq!(b.admin_ok(read(true, 16, 32), &[]).1, whole[16..]);
    assert!(b.admin(read(true, 52, 4), &[]).0.status().is(Status::INVALID_FIELD));
    assert!(b.admin(GetLogPage { nsid: 2, ..read(true, 0, 16) }, &[]).0.status().is(Status::INVALID_FIELD));
}

#[test]
fn more_ranges_than_the_log_tells_apart_are_the_whole_namespace() {
    let mut b = Bench::with_namespaces(&[("capacity = \"8MiB\"", "capacity = \"32MiB\"")]);
    let nsid = b.create_attached(2, 4096);
    fault(&mut b, FaultKind::PROGRAM_FAILURE, 2, 0, 1);
    for page in 0..1025 {
        assert!(b.io(Command::write(nsid, page * 2, 1), &pattern(9, 4096)).0.is(Status::WRITE_FAULT));
    }
    let (_, data) = b.admin_ok(read(true, 0, 32), &[]);
    let (header, rest) = LbaStatusLogHeader::read_from_prefix(&data).unwrap();
    let (element, _) = LbaStatusLogElement::read_from_prefix(rest).unwrap();
    assert_eq!((header.lslplen.get(), header.estulb.get()), (32, 1025));
    assert_eq!((element.neid.get(), element.nlrd.get()), (nsid, LbaStatusLogElement::WHOLE_NAMESPACE));
}

#[test]
fn an_alert_is_sent_when_notices_are_on_and_the_log_has_news() {
    let mut b = Bench::with_namespaces(&[]);
    let first = listen(&mut b);
    lose(&mut b, 1);
    assert_eq!(told(&b, first), None, "notices are off");
    notices(&mut b, true);
    assert_eq!(told(&b, first), Some(ALERT), "what was lost before is news, too");
    let second = listen(&mut b);
    lose(&mut b, 2);
    log(&mut b, true);
    lose(&mut b, 3);
    assert_eq!(told(&b, second), None, "masked until the log is read");
    log(&mut b, false);
    assert_eq!(told(&b, second), None);
    lose(&mut b, 4);
    assert_eq!(told(&b, second), Some(ALERT));
    // Those of others are not told.
    let other = b.connect("other", Origin::InProcess);
    b.enable(other);
    let first = b.controller;
    b.controller = other;
    notices(&mut b, true);
    let third = listen(&mut b);
    assert_eq!(
        told(&b, third),
        Some(ALERT),
        "the namespace is attached here, and this host has not read of it"
    );
    b.controller = first;
}

#[test]
fn alerts_keep_to_the_report_interval() {
    let mut b = Bench::with_namespaces(&[]);
    notices(&mut b, true);
    interval(&mut b, 5);
    let (value, _) = b.admin_ok(
        GetFeatures {
            nsid: 0,
            fid: FeatureId::LBA_STATUS_ATTRIBUTES,
            sel: nvme::feature::Select::CURRENT,
            cdw11: 0,
            uidx: 0,
        },
        &[],
    );
    let value = LbaStatusAttributes::from_bits(value.into());
    assert_eq!((value.lsiri(), value.lsipi()), (5, 10), "the poll interval is the drive's");
    let requests = [listen(&mut b), listen(&mut b)];
    lose(&mut b, 1);
    assert_eq!(told(&b, requests[0]), Some(ALERT), "the first one waits for nothing");
    let start = b.now;
    log(&mut b, false);
    lose(&mut b, 2);
    lose(&mut b, 3);
    let now = b.now;
    b.run_until(Nanos(start.0 + 5 * UNIT - 1));
    assert!(now < b.now && told(&b, requests[1]).is_none());
    b.run_until(Nanos(b.now.0 + 5 * UNIT));
    assert_eq!(told(&b, requests[1]), Some(ALERT));
    // What is read meanwhile is no news when the interval ends.
    log(&mut b, false);
    let third = listen(&mut b);
    lose(&mut b, 4);
    log(&mut b, false);
    b.run_until(Nanos(b.now.0 + 20 * UNIT));
    assert_eq!(told(&b, third), None);
}

#[test]
fn the_log_agrees_with_get_lba_status_whatever_fails() {
    let mut most = 0;
    for seed in 0..4 {
        let mut b = Bench::with_namespaces(&[]);
        let mut rng = Rng::new(seed);
        // All of the set, so that collection has to move pages.
        let big = b.create_attached(1, 15_360);
        fault(&mut b, FaultKind::UNCORRECTABLE, 1, 0, 2000);
        fault(&mut b, FaultKind::PROGRAM_FAILURE, 2, 0, 50);
        for step in 0..6000u32 {
            let (nsid, blocks) = if rng.below(8) == 0 { (2, 1024) } else { (big, 15_360) };
            let slba = rng.below(blocks / 16) * 16;
            match rng.below(200) {
                0 => {
                    let range = bytes_of_range(slba);
                    b.io(Command::deallocate(nsid, 1), &range);
                }
                1 if step % 5 == 0 => {
                    b.cut(rng.below(2) == 0);
                    b.power_on();
                }
                _ => {
                    b.io(Command::write(nsid, slba, 16), &pattern(step, 65536));
                }
            }
            if step % 500 != 499 {
                continue;
            }
            let (_, ranges) = log(&mut b, false);
            for nsid in [big, 2] {
                let ask =
                    GetLbaStatus { nsid, slba: 0, dwords: 16384, range: 0, atype: LbaStatusAction::TRACKED };
                let (_, data) = b.admin_ok(ask, &[]);
                let (header, rest) = LbaStatusHeader::read_from_prefix(&data).unwrap();
                assert_eq!(header.cmpc, 2);
                let all = rest.chunks(16).take(header.nlsd.get() as usize).map(|d| {
                    let d = LbaStatusDescriptor::read_from_bytes(d).unwrap();
                    (d.dslba.get(), d.nlb.get())
                });
                let all: Vec<_> = all.collect();
                most = most.max(if nsid == big { all.len() } else { 0 });
                assert_eq!(ranges.get(&nsid).cloned().unwrap_or_default(), all, "seed {seed} step {step}");
            }
        }
    }
    assert!(most > 0, "collection has lost something");
}

/// Where nothing is found, the host has no range from which it could go on.
#[test]
fn a_command_goes_on_until_it_finds_something() {
    const PAGES: u64 = 2 * (1 << 16) + 500;
    let large = ("media = \"dram\"\ncapacity = \"8MiB\"", "media = \"dram\"\ncapacity = \"1GiB\"");
    let mut config = small(&[large]);
    config.namespaces.push(initial(2, PAGES * 4096));
    let mut b = Bench::new(config);
    let ask = |b: &mut Bench, slba| {
        let atype = LbaStatusAction::ALLOCATED;
        let (_, data) = b.admin_ok(GetLbaStatus { nsid: 1, slba, dwords: 1024, range: 0, atype }, &[]);
        let (header, ranges) = LbaStatusHeader::read_from_prefix(&data).unwrap();
        let ranges = ranges.chunks(16).take(header.nlsd.get() as usize).map(|range| {
            let range = LbaStatusDescriptor::read_from_bytes(range).unwrap();
            (range.dslba.get(), range.nlb.get())
        });
        (header.cmpc, ranges.collect::<Vec<_>>())
    };
    assert_eq!(ask(&mut b, 0), (2, vec![]), "all of it was looked at");
    b.write(1, PAGES - 9, 2, &pattern(1, 8192));
    b.write(1, 5, 1, &pattern(1, 4096));
    assert_eq!(ask(&mut b, 0), (1, vec![(5, 1)]));
    assert_eq!(ask(&mut b, 6), (2, vec![(PAGES - 9, 2)]));
}
