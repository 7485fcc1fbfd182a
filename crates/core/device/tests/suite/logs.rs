//! Logs count what happened, and time is as modelled.

use crate::common::{Bench, nqn, pattern, small};
use device::{Host, Origin, Output};
use media::Nanos;
use nvme::admin::{FaultInjection, FaultKind};
use nvme::aer::{AsyncEvent, HealthInfo};
use nvme::feature::{AsyncEventConfiguration, EnduranceGroupEvents, FeatureId, Select, Timestamp};
use nvme::identify::{Cns, IdentifyController, IdentifyNamespace};
use nvme::io::DsmRange;
use nvme::log::{
    CapacityConfiguration, CapacityConfigurationList, ChannelConfiguration, ControllerEntry, EnduranceGroup,
    EnduranceGroupConfiguration, FirmwareSlots, LogId, MediaUnitConfiguration, NamespaceStatistics, OcpSmart,
    SmartHealth, latency_bucket,
};
use nvme::zerocopy::FromBytes;
use nvme::{Command, NSID_ALL, Status};

const TIMING_EDITS: &[(&str, &str)] = &[("[drive]", "[drive]\ntiming = true")];

fn statistics(b: &mut Bench, nsid: u32) -> NamespaceStatistics {
    b.ask(Command::get_log_page(LogId::NAMESPACE_STATISTICS, nsid, 0, 0, 8192))
}

fn request() -> Command {
    Command::new(nvme::AdminOpcode::ASYNC_EVENT_REQUEST.0, 0)
}

#[test]
fn the_firmware_that_runs() {
    let mut b = Bench::with_namespaces(&[]);
    let firmware: FirmwareSlots = b.ask(Command::get_log_page(LogId::FIRMWARE_SLOT, 0, 0, 0, 512));
    let controller: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    assert_eq!((firmware.afi, firmware.frs[0]), (1, controller.fr));
}

#[test]
fn what_capacity_is_made_of() {
    let mut b = Bench::with_namespaces(&[]);
    let lid = LogId::SUPPORTED_CAPACITY_CONFIGURATIONS;
    let (_, log) = b.admin_ok(Command::get_log_page(lid, 0, 0, 0, 1024), &[]);
    let (list, rest) = CapacityConfigurationList::ref_from_prefix(&log).unwrap();
    let (configuration, mut rest) = CapacityConfiguration::ref_from_prefix(rest).unwrap();
    assert_eq!((list.sccn, configuration.ccid.get(), configuration.did.get()), (1, 1, 0));
    let mut seen = Vec::new();
    for endgid in 1..=configuration.egcn.get() {
        let (group, after) = EnduranceGroupConfiguration::ref_from_prefix(rest).unwrap();
        let told: EnduranceGroup = b.ask(Command::get_log_page(LogId::ENDURANCE_GROUP, 0, endgid, 0, 512));
        assert_eq!((group.endgid.get(), group.tegcap), (endgid, told.tegcap));
        assert_eq!(group.endurance_estimate, told.endurance_estimate);
        assert_eq!(group.segcap.get() > 0, endgid == 1);
        let ([set, channels], mut after) = <[nvme::U16; 2]>::ref_from_prefix(after).unwrap();
        assert_eq!((group.egsets.get(), set.get()), (1, endgid));
        for _ in 0..channels.get() {
            let (channel, units) = ChannelConfiguration::ref_from_prefix(after).unwrap();
            after = units;
            for _ in 0..channel.chmus.get() {
                let (unit, next) = MediaUnitConfiguration::ref_from_prefix(after).unwrap();
                after = next;
                seen.push((endgid, channel.chanid.get(), unit.muid.get()));
            }
        }
        rest = after;
    }
    // Four dies on two channels; then the banks of the memory on its bus.
    assert_eq!(seen[..4], [(1, 1, 1), (1, 1, 3), (1, 2, 2), (1, 2, 4)]);
    assert!(seen[4..].iter().zip(5..).all(|(unit, muid)| *unit == (2, 3, muid)) && seen.len() > 4);
    assert!(rest.iter().all(|byte| *byte == 0));
    let id: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    assert!(!id.ctratt.fcm() && !id.ctratt.vcm());
}

#[test]
fn reading_a_log_in_parts() {
    let mut b = Bench::with_namespaces(&[]);
    let (_, whole) = b.admin_ok(Command::get_log_page(LogId::COMMAND_EFFECTS, 0, 0, 0, 4096), &[]);
    let (_, part) = b.admin_ok(Command::get_log_page(LogId::COMMAND_EFFECTS, 0, 0, 1000, 64), &[]);
    assert_eq!(part, whole[1000..1064]);
    // What is beyond the end is zeros.
    let (_, tail) = b.admin_ok(Command::get_log_page(LogId::COMMAND_EFFECTS, 0, 0, 4092, 64), &[]);
    assert_eq!(tail[..4], whole[4092..]);
    assert_eq!(tail[4..], [0; 60]);
}

#[test]
fn exact_counts() {
    let mut b = Bench::with_namespaces(&[("[drive]", "[drive]\natomic_write = \"16KiB\"")]);
    b.write(1, 0, 4, &pattern(1, 16384));
    b.write(1, 5, 1, &pattern(2, 4096));
    b.write(1, 6, 4, &pattern(3, 16384));
    b.write(1, 8, 8, &pattern(4, 32768));
    b.read(1, 0, 16);
    b.write(2, 0, 1, &pattern(5, 4096));
    b.io(Command::flush(1), &[]);
    b.io(Command::deallocate(1, 1), &crate::common::bytes(&DsmRange::new(0, 4)));
    b.io(Command::write_zeroes(1, 4, 1, false), &[]);
    b.io(Command::read(1, 5000, 1), &[]);
    let s = statistics(&mut b, 1);
    assert_eq!((s.version.get(), s.nsid.get(), s.nvmsetid.get(), s.endgid.get()), (1, 1, 1, 1));
    assert_eq!((s.host_bytes_written.get(), s.host_write_commands.get()), (17 * 4096, 4));
    assert_eq!((s.host_bytes_read.get(), s.host_read_commands.get()), (65536, 1));
    assert_eq!((s.host_flush_commands.get(), s.host_deallocate_commands.get()), (1, 1));
    assert_eq!((s.host_other_commands.get(), s.failed_commands.get()), (1, 1));
    assert_eq!(s.host_bytes_deallocated.get(), 4 * 4096);
    assert_eq!((s.whole_writes.get(), s.split_writes.get(), s.aligned_writes.get()), (2, 2, 2));
    assert_eq!((s.read_latency.total(), s.write_latency.total(), s.flush_latency.total()), (1, 4, 1));
    let id: IdentifyNamespace = b.ask(Command::identify(Cns::NAMESPACE, 1));
    assert_eq!((id.nawupf_z.get(), id.nabspf_z.get()), (3, 3));

    let all = statistics(&mut b, NSID_ALL);
    assert_eq!(all.host_bytes_written.get(), 18 * 4096);
    // A namespace that is deleted stays in the sum.
    let delete = nvme::admin::NamespaceManagement {
        nsid: 1,
        sel: nvme::admin::NamespaceManagementSelect::DELETE,
        csi: nvme::Csi::NVM,
    };
    b.admin_ok(delete, &[]);
    let after = statistics(&mut b, NSID_ALL);
    assert_eq!(after.host_bytes_written.get(), 18 * 4096);
    assert_eq!(after.write_latency.total(), 5);
    let smart: SmartHealth = b.ask(Command::get_log_page(LogId::SMART, NSID_ALL, 0, 0, 512));
    assert_eq!((smart.host_read_commands.get(), smart.host_write_commands.get()), (1, 5));
    assert_eq!((smart.data_units_written.get(), smart.num_err_log_entries.get()), (1, 1));
    assert_eq!((smart.avail_spare, smart.spare_threshold, smart.percentage_used), (100, 10, 0));
    let group: EnduranceGroup = b.ask(Command::get_log_page(LogId::ENDURANCE_GROUP, 0, 2, 0, 512));
    assert_eq!((group.host_write_commands.get(), group.tegcap.get()), (1, 8 << 20));
}

#[test]
fn media_bytes_are_exact() {
    let mut b = Bench::with_namespaces(&[]);
    for round in 0..3000u32 {
        let block = u64::from(round.wrapping_mul(2_654_435_761) >> 22);
        b.write(1, block, 1, &pattern(round, 4096));
        b.write(2, block, 1, &pattern(round, 4096));
    }
    let ocp: OcpSmart = b.ask(Command::get_log_page(LogId::OCP_SMART, NSID_ALL, 0, 0, 512));
    let (nand, dram) = (statistics(&mut b, 1), statistics(&mut b, 2));
    // Flash only: what goes to DRAM wears nothing.
    assert_eq!(ocp.physical_media_units_written.get(), u128::from(nand.media_bytes_written()));
    assert_eq!(dram.host_bytes_written.get(), 3000 * 4096);
    assert!(nand.media_bytes_written_host.get() > 2000 * 4096, "{}", nand.media_bytes_written_host);
    let group: EnduranceGroup = b.ask(Command::get_log_page(LogId::ENDURANCE_GROUP, 0, 1, 0, 512));
    assert_eq!(group.media_units_written.get(), 1);
    assert_eq!(ocp.log_page_guid, nvme::log::OCP_SMART_GUID);
    assert_eq!(ocp.total_media_dies.get(), 4);
}

#[test]
fn completions_are_held_until_their_time() {
    let mut b = Bench::with_namespaces(TIMING_EDITS);
    b.write(1, 0, 4, &pattern(1, 16384));
    // Out of the buffer, onto flash.
    for block in 100..500 {
        b.write(1, block, 1, &pattern(1, 4096));
    }
    b.run_until(Nanos::MAX);
    let before = statistics(&mut b, 1);
    b.now = Nanos(b.now.0 + 1_000_000_000);
    let begin = b.now;
    let io = b.submit(b.controller, 1, &Command::read(1, 0, 1), &[]);
    assert!(b.done.is_empty());
    b.wait(io);
    let took = b.now.since(begin).0;
    // tR, 4 KiB over the channel at 800 MB/s, the same over the link at 1 GB/s, 5 us of firmware.
    assert_eq!(took, 60_000 + 5_120 + 4_096 + 5_000);
    let after = statistics(&mut b, 1);
    let sum = after.read_latency_sum.sum_ns.get() - before.read_latency_sum.sum_ns.get();
    assert_eq!((sum, after.read_latency_sum.max_ns.get()), (took, took));
    let bucket = latency_bucket(took);
    assert_eq!(after.read_latency.count[bucket].get() - before.read_latency.count[bucket].get(), 1);
    // The link is shared: ten reads of 64 KiB from a medium that is faster take ten transfers.
    let begin = b.now;
    let reads: Vec<u32> = (0..10).map(|_| b.submit(b.controller, 1, &Command::read(2, 0, 16), &[])).collect();
    for io in reads {
        b.wait(io);
    }
    let took = b.now.since(begin).0;
    assert!((655_360..800_000).contains(&took), "{took} ns");
}

#[test]
fn without_timing_everything_ends_in_its_call() {
    let mut b = Bench::with_namespaces(&[]);
    let me = b.controller;
    for (command, data) in [
        (Command::write(1, 0, 1), vec![1; 4096]),
        (Command::flush(1), vec![]),
        (Command::read(1, 0, 1), vec![]),
        (Command::write_zeroes(1, 0, 1, true), vec![]),
    ] {
        let io = b.submit(me, 1, &command, &data);
        assert!(b.done.remove(&io).is_some());
    }
    assert_eq!(b.now, Nanos::ZERO);
}

#[test]
fn a_write_waits_for_the_buffer() {
    let mut b = Bench::with_namespaces(TIMING_EDITS);
    let me = b.controller;
    let writes: Vec<u32> =
        (0..60).map(|i| b.submit(me, 1, &Command::write(1, i * 16, 16), &pattern(1, 65536))).collect();
    for io in writes {
        assert_eq!(b.wait(io).0.status(), Status::SUCCESS);
    }
    let s = statistics(&mut b, 1);
    assert!(s.stalled_write_commands.get() > 10, "{}", s.stalled_write_commands);
    assert!(s.stalled_write_ns.get() > 700_000);
    let smart: SmartHealth = b.ask(Command::get_log_page(LogId::SMART, NSID_ALL, 0, 0, 512));
    assert_eq!(smart.data_units_written.get(), (60u128 * 65536).div_ceil(512_000));
}

#[test]
fn temperature_events() {
    let mut b = Bench::new(small(&[]));
    let me = b.controller;
    let io = b.submit(me, 0, &request(), &[]);
    let configuration = AsyncEventConfiguration::new().with_smart(0xFF).into_bits().get();
    b.admin_ok(Command::set_features(FeatureId::ASYNC_EVENT_CONFIGURATION, 0, configuration), &[]);
    assert!(b.done.is_empty());
    b.admin_ok(Command::set_features(FeatureId::TEMPERATURE_THRESHOLD, 0, 300), &[]);
    let event = AsyncEvent::from_dw0(b.wait(io).0.dw0.get());
    assert_eq!((event.info(), event.lid()), (HealthInfo::TEMPERATURE_THRESHOLD.0, LogId::SMART));
    let smart: SmartHealth = b.ask(Command::get_log_page(LogId::SMART, NSID_ALL, 0, 0, 512));
    assert!(smart.critical_warning.ttc());
    b.admin_ok(Command::set_features(FeatureId::TEMPERATURE_THRESHOLD, 0, 350), &[]);
    let smart: SmartHealth = b.ask(Command::get_log_page(LogId::SMART, NSID_ALL, 0, 0, 512));
    assert!(!smart.critical_warning.ttc());
}

#[test]
fn the_end_of_life() {
    // Every erase fails: blocks go bad until nothing can be written.
    let mut b = Bench::with_namespaces(&[]);
    let me = b.controller;
    let configuration = AsyncEventConfiguration::new().with_smart(0xFF).with_egealcn(true).into_bits().get();
    let group = EnduranceGroupEvents::new().with_endgid(1).with_egcw(0xFF).into_bits().get();
    let other = b.connect("other", Origin::Unix);
    for (fid, value) in [
        (FeatureId::ASYNC_EVENT_CONFIGURATION, configuration),
        (FeatureId::ENDURANCE_GROUP_EVENT_CONFIGURATION, group),
    ] {
        for id in [me, other] {
            let (done, _) = b.on(id, 0, &Command::set_features(fid, 0, value), &[]);
            assert_eq!(done.status(), Status::SUCCESS, "{fid:?}");
        }
    }
    let requests: Vec<u32> = (0..4).map(|_| b.submit(me, 0, &request(), &[])).collect();
    b.write(1, 1, 1, &pattern(77, 4096));
    b.fail_erases();
    let mut written = 0;
    let status = loop {
        let (status, _) = b.io(Command::write(1, 2 + written % 1000, 1), &pattern(1, 4096));
        if !status.is_success() {
            break status;
        }
        written += 1;
        assert!(written < 200_000, "the drive wears out");
    };
    assert!(status.is(Status::WRITE_TO_READ_ONLY_RANGE), "{status}");
    let smart: SmartHealth = b.ask(Command::get_log_page(LogId::SMART, NSID_ALL, 0, 0, 512));
    assert!(smart.critical_warning.ascbt() && smart.critical_warning.ndr() && !smart.critical_warning.amro());
    assert!(smart.avail_spare < 10 && smart.endgrp_critical_warning.read_only());
    let answered: Vec<LogId> = requests
        .iter()
        .filter_map(|io| Some(AsyncEvent::from_dw0(b.done.get(io)?.0.dw0.get()).lid()))
        .collect();
    assert!(
        answered.contains(&LogId::SMART) && answered.contains(&LogId::ENDURANCE_GROUP_EVENTS),
        "{answered:?}"
    );
    let groups = |b: &mut Bench, id| {
        b.on(id, 0, &Command::get_log_page(LogId::ENDURANCE_GROUP_EVENTS, 0, 0, 0, 12), &[]).1
    };
    assert_eq!(groups(&mut b, me), [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    // To read of an event clears it for this host, and for no other.
    let mut read = Command::get_log_page(LogId::ENDURANCE_GROUP, 0, 1, 0, 512);
    // Without Retain Asynchronous Event.
    read.cdw10.set(read.cdw10.get() & !(1 << 15));
    b.admin_ok(read, &[]);
    assert_eq!(groups(&mut b, me), [0; 12]);
    assert_eq!(groups(&mut b, other), [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    // What was written can be read; the other medium can be written; nothing here can be changed.
    assert_eq!(b.read(1, 1, 1), pattern(77, 4096));
    b.write(2, 0, 1, &pattern(1, 4096));
    let read_only = |s: Status| s.is(Status::WRITE_TO_READ_ONLY_RANGE);
    assert!(read_only(b.io(Command::deallocate(1, 1), &crate::common::bytes(&DsmRange::new(0, 4))).0));
    assert!(read_only(b.io(Command::write_zeroes(1, 0, 1, true), &[]).0));
    let id: IdentifyNamespace = b.ask(Command::identify(Cns::NAMESPACE, 1));
    assert_eq!(id.nsattr, 1);
}

#[test]
fn uncorrectable_reads_are_media_errors() {
    let mut b = Bench::with_namespaces(&[]);
    for block in 0..1000 {
        b.write(1, block, 1, &pattern(1, 4096));
    }
    let fault = FaultInjection {
        nsid: 0,
        kind: FaultKind::UNCORRECTABLE,
        nvmsetid: 1,
        count: 1,
        one_in: 0,
        param: 0,
        lba: None,
    };
    b.admin_ok(fault, &[]);
    let (status, _) = b.io(Command::read(1, 0, 1), &[]);
    assert!(status.is(Status::UNRECOVERED_READ_ERROR), "{status}");
    assert_eq!(b.read(1, 0, 1), pattern(1, 4096));
    let smart: SmartHealth = b.ask(Command::get_log_page(LogId::SMART, NSID_ALL, 0, 0, 512));
    assert_eq!(smart.media_errors.get(), 1);
}

#[test]
fn clocks_queues_and_hosts() {
    let mut b = Bench::new(small(&[]));
    b.admin_ok(
        Command::set_features(FeatureId::TIMESTAMP, 0, 0),
        &crate::common::bytes(&Timestamp::new(1_000_000, true)),
    );
    b.now = Nanos(b.now.0 + 5_000_000);
    let (_, data) = b.admin_ok(Command::get_features(FeatureId::TIMESTAMP, 0, Select::CURRENT), &[]);
    assert_eq!(Timestamp::ref_from_bytes(&data).unwrap(), &Timestamp::new(1_000_005, true));
    let mut get = Command::get_features(FeatureId::HOST_IDENTIFIER, 0, Select::CURRENT);
    get.cdw11.set(1);
    assert_eq!(b.admin_ok(get, &[]).1, [7; 16]);
    let fresh =
        b.drive.connect(b.now, Host::administrator(nqn("far"), [1; 16], Origin::Network), 0xFFFF, 0).unwrap();
    b.enable(fresh);
    let (got, _) = b.on(fresh, 0, &Command::set_features(FeatureId::NUMBER_OF_QUEUES, 0, 0x0003_0007), &[]);
    assert_eq!(got.dw0.get(), 0x0003_0003);
    assert!(b.drive.add_queue(fresh, 5, 128).is_err());
    b.drive.add_queue(fresh, 4, 128).unwrap();
    let (_, log) = b.admin_ok(Command::get_log_page(LogId::CONTROLLERS, 0, 0, 0, 16 + 2 * 272), &[]);
    assert_eq!(log[..4], [1, 0, 2, 0]);
    let hosts: Vec<(u16, u8)> = <[ControllerEntry]>::ref_from_bytes(&log[16..])
        .unwrap()
        .iter()
        .map(|e| (e.cntlid.get(), e.origin))
        .collect();
    assert_eq!(hosts, [(b.controller.0, 0), (fresh.0, 2)]);
}

#[test]
fn hosts_that_fall_silent_are_dropped() {
    let mut b = Bench::new(small(&[]));
    let id = b
        .drive
        .connect(b.now, Host::administrator(nqn("far"), [1; 16], Origin::Network), 0xFFFF, 1500)
        .unwrap();
    b.enable(id);
    // Rounded up to the granularity of a second; every command counts.
    assert_eq!(b.drive.keep_alive(id), Nanos(2_000_000_000));
    b.run_until(Nanos(1_900_000_000));
    b.on(id, 0, &Command::identify(Cns::CONTROLLER, 0), &[]);
    b.run_until(Nanos(3_800_000_000));
    assert!(b.events.is_empty());
    let aer = b.submit(id, 0, &request(), &[]);
    b.run_until(Nanos(6_000_000_000));
    assert_eq!(b.events, [Output::Disconnect { controller: id }]);
    assert!(b.done[&aer].0.status().is(Status::KEEP_ALIVE_EXPIRED));
    assert_eq!(b.drive.next_event(), None);
}
